//! The page and the JSON of `forecast corun`; docs/forecasts.md describes the fields.
//!
//! Next: `corun`, which makes what is shown.

use crate::corun_given::letter_of;
use crate::output::time;
use serde_json::{Value, json};
use std::fmt::Write as _;
use trimtab_engine::corun::{Between, Job, JobOutlook, Method, Outlook, Partner};
use trimtab_engine::{CorunSide, corun_cautions};

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;
/// Beyond processors jobs share more, which nothing here knows before they meet.
const NOT_MODELLED: &[&str] = &["memory bandwidth", "cache", "network", "I/O"];

/// The answer that is shown.
pub enum Shown {
    /// Jobs together.
    Jobs(Made),
    /// Those who could join.
    Partners(Ranked),
}

/// A forecast, and what it was made of.
pub struct Made {
    /// The jobs' windows.
    pub sides: Vec<CorunSide>,
    /// The same as the forecast takes them.
    pub jobs: Vec<Job>,
    /// The forecast.
    pub outlook: Outlook,
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
}

/// Partners, the better one first.
pub struct Ranked {
    /// Windows of the jobs that are there, and then of the candidates.
    pub sides: Vec<CorunSide>,
    /// How many are there.
    pub fixed: usize,
    /// The candidates.
    pub partners: Vec<Partner>,
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
}

impl Shown {
    /// Nothing that was asked for is missing.
    pub fn is_whole(&self) -> bool {
        match self {
            Shown::Jobs(made) => made.outlook.jobs.iter().all(|job| job.slowdown.is_ok() && job.end_s.is_ok()),
            Shown::Partners(_) => true,
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        match self {
            Shown::Jobs(made) => made_json(made),
            Shown::Partners(ranked) => ranked_json(ranked),
        }
    }

    /// As a page.
    pub fn page(&self) -> String {
        match self {
            Shown::Jobs(made) => made_page(made),
            Shown::Partners(ranked) => ranked_page(ranked),
        }
    }
}

fn between(found: &Between) -> Value {
    json!({
        "value": found.value,
        "lower": found.ends.map(|(lower, _)| lower),
        "upper": found.ends.map(|(_, upper)| upper),
    })
}

fn known<T>(found: &Result<Between, T>) -> Value {
    found.as_ref().map_or(Value::Null, between)
}

fn not_modelled(method: Method) -> &'static [&'static str] {
    if method == Method::Processors { NOT_MODELLED } else { &[] }
}

fn made_json(made: &Made) -> Value {
    let Made { sides, jobs, outlook, made_unix_s } = made;
    let all = sides.iter().zip(jobs).zip(&outlook.jobs).enumerate();
    let jobs = all.map(|(at, ((side, job), outlook))| job_json(at, side, job, outlook));
    json!({
        "version": JSON_VERSION,
        "made_unix_s": made_unix_s,
        "method": outlook.method.words(),
        "share_inside": outlook.share_inside,
        "order_is_sure": outlook.is_order_sure,
        "not_modelled": not_modelled(outlook.method),
        "jobs": jobs.collect::<Vec<_>>(),
        "partners": Value::Null,
    })
}

fn job_json(at: usize, side: &CorunSide, job: &Job, outlook: &JobOutlook) -> Value {
    let progress = side.now.window.progress.clone().unwrap_or_default();
    let done = if side.is_new { Some(0) } else { progress.done };
    let reason = |found: &Result<Between, String>| found.as_ref().err().cloned();
    let counts = side.now.time_per_iteration_s.is_some() && side.now.window.valid;
    json!({
        "letter": letter_of(at),
        "name": side.name,
        "program": side.now.job.program,
        "ranks": side.now.job.ranks,
        "hosts": side.now.job.hosts,
        "begins_s": job.begins_s,
        "slowdown": known(&outlook.slowdown),
        "no_slowdown": reason(&outlook.slowdown),
        "iterations_done": done,
        "iterations_remaining": job.remaining.count(),
        "remaining_is_at_most": outlook.is_at_most,
        "time_per_iteration_alone_s": known(&job.alone_s),
        "time_per_iteration_together_s": job.together_s.filter(|_| counts).as_ref().map(between),
        "alone_end_s": known(&outlook.alone_end_s),
        "end_s": known(&outlook.end_s),
        "no_end": reason(&outlook.end_s),
        "end_if_all_stayed_s": outlook.stay_end_s.as_ref().ok(),
        "place": outlook.place,
        "done_at_first_end": outlook.done_at_first_end,
        "because": corun_cautions(side),
    })
}

fn made_page(made: &Made) -> String {
    let Made { sides, jobs, outlook, .. } = made;
    let mut text = String::new();
    for (at, ((side, job), of_job)) in sides.iter().zip(jobs).zip(&outlook.jobs).enumerate() {
        let _ = writeln!(text, "{}  {}", letter_of(at), named(side));
        for line in job_lines(side, job, of_job, outlook) {
            let _ = writeln!(text, "   {line}");
        }
    }
    for line in closing_lines(outlook) {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn named(side: &CorunSide) -> String {
    let job = &side.now.job;
    let program = job.program.rsplit('/').next().unwrap_or(&job.program);
    let plural = if job.ranks == 1 { "" } else { "s" };
    format!("{} ({program}, {} rank{plural} on {})", side.name, job.ranks, job.hosts.join(", "))
}

fn job_lines(side: &CorunSide, job: &Job, found: &JobOutlook, outlook: &Outlook) -> Vec<String> {
    let mut lines = vec![match &found.slowdown {
        Ok(slowdown) => {
            format!(
                "takes {:.3} times as long{}, {}",
                slowdown.value,
                factors(slowdown, outlook),
                outlook.method.words()
            )
        }
        Err(why) => format!("slowdown not known: {why}"),
    }];
    lines.extend(work_line(side, job, found));
    lines.push(match &found.end_s {
        Ok(end) => format!("ends in {}{}{}", time(end.value), times(end, outlook), place(found, outlook)),
        Err(why) => format!("end not known: {why}"),
    });
    let alone = found.alone_end_s.as_ref().ok().map(|end| format!("alone it would end in {}", time(end.value)));
    let stayed = found.stay_end_s.as_ref().ok().map(|end| format!("if all stayed until then, in {}", time(*end)));
    let beside: Vec<String> = alone.into_iter().chain(stayed).collect();
    if !beside.is_empty() {
        lines.push(beside.join("; "));
    }
    lines.extend(corun_cautions(side));
    lines
}

fn work_line(side: &CorunSide, job: &Job, found: &JobOutlook) -> Option<String> {
    let count = job.remaining.count()?;
    let at_most = if found.is_at_most { " at most" } else { "" };
    let progress = side.now.window.progress.as_ref()?;
    let done = match (side.is_new, progress.done) {
        (true, _) => "begins anew; ".to_owned(),
        (false, Some(done)) => format!("{done} iterations done, "),
        (false, None) => String::new(),
    };
    let begins = if job.begins_s > 0.0 { format!("begins in {}; ", time(job.begins_s)) } else { String::new() };
    Some(format!("{begins}{done}{count} to come{at_most}"))
}

/// The interval in words.
fn factors(found: &Between, outlook: &Outlook) -> String {
    interval(found, outlook, |factor| format!("{factor:.3}"))
}

fn times(found: &Between, outlook: &Outlook) -> String {
    interval(found, outlook, time)
}

fn interval(found: &Between, outlook: &Outlook, say: impl Fn(f64) -> String) -> String {
    let Some((lower, upper)) = found.ends else { return " (no interval: a window has too few iterations)".to_owned() };
    let share = outlook.share_inside.map_or_else(String::new, |share| format!("{:.0}%: ", 100.0 * share));
    format!(" ({share}{} to {})", say(lower), say(upper))
}

fn place(found: &JobOutlook, outlook: &Outlook) -> String {
    match found.place {
        Some(1) => ", first".to_owned(),
        Some(place) if outlook.jobs.iter().all(|other| other.place <= Some(place)) => ", last".to_owned(),
        Some(place) => format!(", number {place}"),
        None => String::new(),
    }
}

fn closing_lines(outlook: &Outlook) -> Vec<String> {
    let mut lines = Vec::new();
    if outlook.is_order_sure == Some(false) {
        lines.push("the order of ends is not sure: their intervals overlap".to_owned());
    }
    if outlook.method == Method::Processors && outlook.jobs.len() > 1 {
        lines.push(prediction_line());
    }
    lines
}

fn prediction_line() -> String {
    format!(
        "predicted from shares of processors only: {} are not modelled. The lower and upper figure are other ways of sharing, and \
         nobody knows how often they hold; measure once they have met",
        NOT_MODELLED.join(", ")
    )
}

fn ranked_json(ranked: &Ranked) -> Value {
    let Ranked { sides, fixed, partners, made_unix_s } = ranked;
    let names: Vec<&str> = sides[..*fixed].iter().map(|side| side.name.as_str()).collect();
    let partner = |partner: &Partner| {
        let side = &sides[fixed + partner.candidate];
        let slowdowns = partner.outlook.jobs.iter().map(|job| known(&job.slowdown));
        json!({
            "name": side.name,
            "program": side.now.job.program,
            "progress": partner.progress,
            "progress_at_most": partner.progress_at_most,
            "communication_together": partner.communication,
            "is_tied": partner.is_tied,
            "slowdowns": slowdowns.collect::<Vec<_>>(),
            "because": corun_cautions(side),
        })
    };
    json!({
        "version": JSON_VERSION,
        "made_unix_s": made_unix_s,
        "method": Method::Processors.words(),
        "not_modelled": NOT_MODELLED,
        "beside": names,
        "jobs": Value::Null,
        "partners": partners.iter().map(partner).collect::<Vec<_>>(),
    })
}

fn ranked_page(ranked: &Ranked) -> String {
    let Ranked { sides, fixed, partners, .. } = ranked;
    let names: Vec<String> = sides[..*fixed].iter().map(named).collect();
    let mut text = format!("to join {}, the better one first:\n", names.join(" and "));
    for (place, partner) in partners.iter().enumerate() {
        let side = &sides[fixed + partner.candidate];
        let count = fixed + 1;
        let tied = if partner.is_tied { ", as good as the one above" } else { "" };
        let slowdown = |job: &JobOutlook| job.slowdown.as_ref().map_or("?".to_owned(), |it| format!("{:.3}", it.value));
        let slowdowns: Vec<String> = partner.outlook.jobs.iter().map(slowdown).collect();
        let _ = writeln!(text, "{}  {}{tied}", place + 1, named(side));
        let _ = writeln!(
            text,
            "   progress {:.2} of {count} (to {:.2} if communication needs no processor), slowdowns {}",
            partner.progress,
            partner.progress_at_most,
            slowdowns.join(", ")
        );
        if let Some(communication) = partner.communication {
            let _ =
                writeln!(text, "   {:.1}% of the time communication of all coincides by chance", 100.0 * communication);
        }
        for line in corun_cautions(side) {
            let _ = writeln!(text, "   {line}");
        }
    }
    text + &prediction_line()
}
