//! The page of `forecast corun`.
//!
//! Next: `corun`, which makes what is shown.

use crate::output::time;
use std::fmt::Write as _;
use trimtab_controller::forecasts::{
    Corun, CorunMade, CorunRanked, CorunSide, corun_cautions, letter_of, not_modelled, profile_line,
};
use trimtab_engine::corun::{Between, Job, JobOutlook, Method, Outlook};

/// The page.
pub fn page(found: &Corun) -> String {
    match found {
        Corun::Jobs(made) => made_page(made),
        Corun::Partners(ranked) => ranked_page(ranked),
    }
}

fn made_page(made: &CorunMade) -> String {
    let CorunMade { sides, jobs, outlook, .. } = made;
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
                method(found, outlook).words()
            )
        }
        Err(why) => format!("slowdown not known: {why}"),
    }];
    lines.extend(work_line(side, job, found));
    lines.push(match &found.end_s {
        // Others were measured after it: it has ended by now, if it went on as it was seen.
        Ok(end) if end.value <= 0.0 => {
            format!("by its pace its loop ended {} ago, while others were measured", time(-end.value))
        }
        Ok(end) => format!("ends in {}{}{}", time(end.value), times(end, outlook), place(found, outlook)),
        Err(why) => format!("end not known: {why}"),
    });
    let alone = found.alone_end_s.as_ref().ok().map(|end| format!("alone it would end in {}", time(end.value)));
    let stayed = found.stay_end_s.as_ref().ok().map(|end| format!("if all stayed until then, in {}", time(*end)));
    let beside: Vec<String> = alone.into_iter().chain(stayed).collect();
    if !beside.is_empty() {
        lines.push(beside.join("; "));
    }
    lines.extend(profile_line(side, outlook, found));
    lines.extend(corun_cautions(side));
    lines
}

fn method(found: &JobOutlook, outlook: &Outlook) -> Method {
    if found.met_windows.is_some() { Method::Met } else { outlook.method }
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
    if outlook.method != Method::Together && outlook.jobs.len() > 1 {
        lines.push(prediction_line(&[outlook]));
    }
    lines
}

fn prediction_line(outlooks: &[&Outlook]) -> String {
    if outlooks.iter().all(|outlook| outlook.method == Method::Met) {
        return "as measured when they met before. The lower and upper figure are those of all windows then, and nobody knows how often \
                they hold; measure once they have met"
            .to_owned();
    }
    let by = match outlooks.first().map(|outlook| outlook.method) {
        Some(Method::Profiles) => "predicted from profiles: ",
        _ => "predicted from shares of processors only: ",
    };
    format!(
        "{by}{} are not modelled. The lower and upper figure are other ways of sharing and what probes left open, and nobody knows how \
         often they hold; measure once they have met",
        not_modelled(outlooks).join(", ")
    )
}

fn ranked_page(ranked: &CorunRanked) -> String {
    let CorunRanked { sides, fixed, partners, .. } = ranked;
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
        let own = partner.outlook.jobs.last().and_then(|job| profile_line(side, &partner.outlook, job));
        for line in own.into_iter().chain(corun_cautions(side)) {
            let _ = writeln!(text, "   {line}");
        }
    }
    text + &prediction_line(&partners.iter().map(|partner| &partner.outlook).collect::<Vec<_>>())
}
