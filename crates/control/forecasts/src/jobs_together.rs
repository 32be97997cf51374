//! How much slower each of several jobs is beside the others and who ends when, or who would be the better partner.
//!
//! Next: `corun_jobs` for windows as the forecast takes them; `trimtab-corun` for the forecast.

use crate::corun_jobs::{CorunSide, company, comparable, corun_cautions, corun_jobs};
use crate::error::Error;
use crate::looks::LOOKS_OF_JOB_MAX;
use crate::pairs::met_before;
use crate::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trimtab_corun::{Between, Job, JobOutlook, Met, Method, Outlook, Partner, Unknown, forecast, ranked};
use trimtab_store::{History, JobId, Run, Store};
use trimtab_types::report::Report;

/// Version of the answer's shape: fields may be added to it, and nothing else changes.
const VERSION: u32 = 1;
/// Beyond processors jobs share more: answers to pressure may tell these,
const PRESSED: [&str; 2] = ["memory bandwidth", "cache"];
/// and nothing here tells these before they meet.
const NEVER_MODELLED: [&str; 2] = ["network", "I/O"];
/// Earlier runs in which a window alone is looked for.
const RUNS_MAX: u32 = 20;
/// The newest windows of a run that may tell how it got on beside others.
const MEETINGS_OF_RUN_MAX: usize = 8;

/// Jobs that share nodes.
#[derive(Clone, Debug)]
pub struct CorunQuestion {
    /// Their windows: of those that are there, and then of the candidates.
    pub sides: Vec<CorunSide>,
    /// So many of them, the last ones, are candidates of which one is to join; 0: all are there.
    pub candidates: usize,
    /// The moment for which it is asked, seconds since 1970; `None`: that of the newest window.
    pub at_unix_s: Option<f64>,
    /// They meet on these nodes; empty: on their own.
    pub on: Vec<String>,
    /// Now, seconds since 1970.
    pub made_unix_s: f64,
}

/// The outlook for them.
#[derive(Clone, Debug)]
pub enum Corun {
    /// Jobs together.
    Jobs(CorunMade),
    /// Those who could join.
    Partners(CorunRanked),
}

/// A forecast, and what it was made of.
#[derive(Clone, Debug)]
pub struct CorunMade {
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
#[derive(Clone, Debug)]
pub struct CorunRanked {
    /// Windows of the jobs that are there, and then of the candidates.
    pub sides: Vec<CorunSide>,
    /// How many are there.
    pub fixed: usize,
    /// The candidates.
    pub partners: Vec<Partner>,
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
}

/// The forecast of jobs together, or the ranking of candidates.
///
/// # Errors
/// Windows that don't fit together, and numbers that can't be.
pub fn corun(question: CorunQuestion) -> Result<Corun, Error> {
    let CorunQuestion { sides, candidates, at_unix_s, on, made_unix_s } = question;
    let jobs = corun_jobs(&sides, at_unix_s, &on)?;
    if candidates == 0 {
        return Ok(Corun::Jobs(CorunMade { outlook: forecast(&jobs)?, sides, jobs, made_unix_s }));
    }
    let fixed = sides.len().saturating_sub(candidates);
    let communication: Vec<Option<f64>> = jobs.iter().map(Job::communication).collect();
    let partners = ranked(&jobs[..fixed], &jobs[fixed..], &communication)?;
    Ok(Corun::Partners(CorunRanked { sides, fixed, partners, made_unix_s }))
}

impl Corun {
    /// Nothing that was asked for is missing.
    pub fn is_whole(&self) -> bool {
        match self {
            Corun::Jobs(made) => made.outlook.jobs.iter().all(|job| job.slowdown.is_ok() && job.end_s.is_ok()),
            Corun::Partners(_) => true,
        }
    }

    /// The answer.
    pub fn answer(&self) -> CorunAnswer {
        match self {
            Corun::Jobs(made) => made_answer(made),
            Corun::Partners(ranked) => ranked_answer(ranked),
        }
    }
}

/// The letter of a job by its place.
pub fn letter_of(place: usize) -> String {
    char::from(b'A' + (place % 26) as u8).to_string()
}

/// The newest window in the store in which a job was alone: its own, or of an earlier run of the same program; or why there is none.
///
/// # Errors
/// Those of reading.
pub fn alone_stored(store: &Store, now: &Report) -> Result<Result<Report, Unknown>, Error> {
    let job = store.find(&now.job.id)?.job;
    let mut jobs: Vec<JobId> = vec![job.id];
    if let Some(likeness) = store.run(&job.key)?.and_then(|run| run.likeness()) {
        for run in store.runs_alike(&likeness, RUNS_MAX)?.iter().filter(|run| run.key != job.key) {
            jobs.extend(store.job_of_key(&run.key)?);
        }
    }
    for id in jobs {
        for number in newest_numbers(store, &id)? {
            let report = store.window(&id, number)?;
            if was_alone(&report) && report.time_per_iteration_s.is_some() && comparable(&report, now).is_none() {
                return Ok(Ok(report));
            }
        }
    }
    Ok(Err(Unknown::NoneStored))
}

/// Windows of runs of the same program, build, arguments and ranks as that of a window, the newest of each run first.
fn windows_alike(store: &Store, now: &Report) -> Result<Vec<Report>, Error> {
    let Some(likeness) = Run::of_window("", None, now).likeness() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for run in store.runs_alike(&likeness, RUNS_MAX)? {
        let Some(id) = store.job_of_key(&run.key)? else { continue };
        for number in newest_numbers(store, &id)?.into_iter().take(MEETINGS_OF_RUN_MAX) {
            found.push(store.window(&id, number)?);
        }
    }
    Ok(found)
}

fn newest_numbers(store: &Store, id: &JobId) -> Result<Vec<u32>, Error> {
    let numbers: Vec<u32> = store.windows(id)?.iter().map(|window| window.number).collect();
    Ok(numbers.into_iter().rev().take(LOOKS_OF_JOB_MAX).collect())
}

/// Notes how each of the jobs, which have not met in these runs, got on beside each other one when they met before. On nodes `on`
/// of which no window is here, nobody knows how many processors they have, and nothing is noted.
///
/// # Errors
/// Those of reading.
pub fn note_meetings(store: &Store, sides: &mut [CorunSide], on: &[String]) -> Result<(), Error> {
    if !on.is_empty() && sides.iter().all(|side| side.now.job.hosts != on) {
        return Ok(());
    }
    let mut windows: Vec<Report> = Vec::new();
    for side in sides.iter().filter(|side| !side.is_together) {
        windows.push(side.now.clone());
        windows.extend(windows_alike(store, &side.now)?);
    }
    let moment = |report: &Report| (report.job.id.clone(), report.window.started_unix_s.map(f64::to_bits));
    let mut known = BTreeSet::new();
    windows.retain(|report| known.insert(moment(report)));
    let named = |name: &str| sides.iter().filter(|side| side.name == name).count();
    let met = |side: &CorunSide| {
        let others = sides.iter().filter(|other| other.name != side.name && named(&other.name) == 1);
        let met = others.filter_map(|other| met_before(&windows, &side.now, (&other.name, &other.now)));
        if side.is_together { Vec::new() } else { met.collect() }
    };
    let all: Vec<Vec<Met>> = sides.iter().map(met).collect();
    for (side, met) in sides.iter_mut().zip(all) {
        side.met = met;
    }
    Ok(())
}

/// Resources that a prediction does not know of all jobs in it.
pub fn not_modelled(outlooks: &[&Outlook]) -> Vec<String> {
    // Windows of when they met saw all of it.
    let predicted = || outlooks.iter().flat_map(|outlook| &outlook.jobs).filter(|job| job.met_windows.is_none());
    if predicted().next().is_none() {
        return Vec::new();
    }
    let all = || predicted().map(|job| job.from_profile);
    let is_known = [all().all(|known| known.memory), all().all(|known| known.cache)];
    let unknown = PRESSED.into_iter().zip(is_known).filter(|(_, is_known)| !is_known).map(|(name, _)| name);
    unknown.chain(NEVER_MODELLED).map(str::to_owned).collect()
}

/// The part of a predicted slowdown that comes from a profile or earlier meetings, in a sentence; `None`: no job has one.
pub fn profile_line(side: &CorunSide, outlook: &Outlook, found: &JobOutlook) -> Option<String> {
    if let Some(windows) = found.met_windows {
        let plural = if windows == 1 { "" } else { "s" };
        return Some(format!("from {windows} window{plural} of when they met before, and of it alone"));
    }
    if outlook.method != Method::Profiles {
        return None;
    }
    if side.profile.is_none() {
        return Some(
            "it has no profile on this host, so formula 2 alone: `trimtab model pressure JOB` makes one".to_owned(),
        );
    }
    let known = found.from_profile;
    let parts = [(known.sharing, "sharing of processors"), (known.cache, "cache"), (known.memory, "memory")];
    let names = |wanted: bool| {
        let all: Vec<&str> = parts.iter().filter(|(is_known, _)| *is_known == wanted).map(|(_, name)| *name).collect();
        all.join(", ")
    };
    Some(match (names(true).as_str(), names(false).as_str()) {
        ("", _) => "its profile does not tell how it meets these jobs: it was probed in another way".to_owned(),
        (known, "") => format!("from its profile: {known}"),
        (known, unknown) => format!("from its profile: {known}; not told by profiles: {unknown}"),
    })
}

fn was_alone(report: &Report) -> bool {
    report.window.valid && company(report).is_some_and(|names| names.is_empty())
}

/// Jobs next to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorunAnswer {
    /// 1: fields may be added, and nothing else changes.
    pub version: u32,
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
    /// "measured together", "measured when they met before", "predicted from processors" or "predicted from profiles".
    pub method: String,
    /// The share of ends and slowdowns in their intervals; null for predictions: nobody knows.
    pub share_inside: Option<f64>,
    /// True if intervals of ends do not overlap; null: not known.
    pub order_is_sure: Option<bool>,
    /// Resources that jobs share and the forecast does not know.
    pub not_modelled: Vec<String>,
    /// The jobs that are there, where partners are ranked; else null.
    pub beside: Option<Vec<String>>,
    /// The jobs; null where partners are ranked.
    pub jobs: Option<Vec<JobTogether>>,
    /// The candidates, the better one first; null where jobs are forecast.
    pub partners: Option<Vec<PartnerAnswer>>,
}

/// One job beside the others. Times are seconds from `made_unix_s`, or where no job runs from the newest window's end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobTogether {
    /// A for the first, B for the second.
    pub letter: String,
    /// Its name.
    pub name: String,
    /// Path of its program.
    pub program: String,
    /// Ranks.
    pub ranks: u32,
    /// The hosts of its window.
    pub hosts: Vec<String>,
    /// It begins so many seconds from now.
    pub begins_s: f64,
    /// How many times as long as alone it takes; null: see `no_slowdown`.
    pub slowdown: Option<Quantity>,
    /// Why it is not known.
    pub no_slowdown: Option<String>,
    /// Iterations done when its window ended; null: not known.
    pub iterations_done: Option<u64>,
    /// Iterations to come then; null: not known.
    pub iterations_remaining: Option<u64>,
    /// True if its loop may be left before.
    pub remaining_is_at_most: bool,
    /// Time of an iteration alone, seconds; null: not known.
    pub time_per_iteration_alone_s: Option<Quantity>,
    /// Time of an iteration beside the others, seconds; null: not measured.
    pub time_per_iteration_together_s: Option<Quantity>,
    /// Its end if it were alone; null: not known.
    pub alone_end_s: Option<Quantity>,
    /// Its end; below zero: by its pace it ended so long ago, after its window; null: see `no_end`.
    pub end_s: Option<Quantity>,
    /// Why no end is claimed.
    pub no_end: Option<String>,
    /// Its end if nobody left before; null: not known.
    pub end_if_all_stayed_s: Option<f64>,
    /// 1: it ends first; null: not known.
    pub place: Option<usize>,
    /// The share of its work to come that is done when the first job ends; null: not known.
    pub done_at_first_end: Option<f64>,
    /// True if its program's answer to pressure on this host is known.
    #[serde(default)]
    pub is_profiled: bool,
    /// Windows of when they met before, from which its slowdown is; null: it is not from such.
    #[serde(default)]
    pub met_windows: Option<usize>,
    /// The part of a prediction that comes from profiles, and facts that the forecast does not take into account, in sentences.
    pub because: Vec<String>,
}

/// A candidate to join others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartnerAnswer {
    /// Its name.
    pub name: String,
    /// Path of its program.
    pub program: String,
    /// Progress of all together: the sum of 1 over slowdown.
    pub progress: f64,
    /// The same if communication needs no processor.
    pub progress_at_most: f64,
    /// The share of time in which communication of all coincides by chance; null: not known.
    pub communication_together: Option<f64>,
    /// True if it is as good as the one before it.
    pub is_tied: bool,
    /// Slowdowns of those in `beside`, and its own.
    pub slowdowns: Vec<Option<Quantity>>,
    /// The part of its slowdowns that comes from profiles, and facts that the ranking does not take into account, in sentences.
    pub because: Vec<String>,
}

fn quantity(found: &Between) -> Quantity {
    Quantity::from(found)
}

fn known<T>(found: &Result<Between, T>) -> Option<Quantity> {
    found.as_ref().ok().map(quantity)
}

fn made_answer(made: &CorunMade) -> CorunAnswer {
    let CorunMade { sides, jobs, outlook, made_unix_s } = made;
    let all = sides.iter().zip(jobs).zip(&outlook.jobs).enumerate();
    let answers = all.map(|(at, ((side, job), of_job))| job_answer(at, side, job, of_job, outlook));
    let is_predicted = outlook.method != Method::Together;
    CorunAnswer {
        version: VERSION,
        made_unix_s: *made_unix_s,
        method: outlook.method.words().to_owned(),
        share_inside: outlook.share_inside,
        order_is_sure: outlook.is_order_sure,
        not_modelled: if is_predicted { not_modelled(&[outlook]) } else { Vec::new() },
        beside: None,
        jobs: Some(answers.collect()),
        partners: None,
    }
}

fn job_answer(at: usize, side: &CorunSide, job: &Job, outlook: &JobOutlook, all: &Outlook) -> JobTogether {
    let progress = side.now.window.progress.clone().unwrap_or_default();
    let reason = |found: &Result<Between, Unknown>| found.as_ref().err().map(ToString::to_string);
    let counts = side.now.time_per_iteration_s.is_some() && side.now.window.valid;
    JobTogether {
        letter: letter_of(at),
        name: side.name.clone(),
        program: side.now.job.program.clone(),
        ranks: side.now.job.ranks,
        hosts: side.now.job.hosts.clone(),
        begins_s: job.begins_s,
        slowdown: known(&outlook.slowdown),
        no_slowdown: reason(&outlook.slowdown),
        iterations_done: if side.is_new { Some(0) } else { progress.done },
        iterations_remaining: job.remaining.count(),
        remaining_is_at_most: outlook.is_at_most,
        time_per_iteration_alone_s: known(&job.alone_s),
        time_per_iteration_together_s: job.together_s.filter(|_| counts).as_ref().map(quantity),
        alone_end_s: known(&outlook.alone_end_s),
        end_s: known(&outlook.end_s),
        no_end: reason(&outlook.end_s),
        end_if_all_stayed_s: outlook.stay_end_s.as_ref().ok().copied(),
        place: outlook.place,
        done_at_first_end: outlook.done_at_first_end,
        is_profiled: side.profile.is_some(),
        met_windows: outlook.met_windows,
        because: profile_line(side, all, outlook).into_iter().chain(corun_cautions(side)).collect(),
    }
}

fn ranked_answer(ranked: &CorunRanked) -> CorunAnswer {
    let CorunRanked { sides, fixed, partners, made_unix_s } = ranked;
    let partner = |partner: &Partner| {
        let side = &sides[fixed + partner.candidate];
        PartnerAnswer {
            name: side.name.clone(),
            program: side.now.job.program.clone(),
            progress: partner.progress,
            progress_at_most: partner.progress_at_most,
            communication_together: partner.communication,
            is_tied: partner.is_tied,
            slowdowns: partner.outlook.jobs.iter().map(|job| known(&job.slowdown)).collect(),
            because: partner
                .outlook
                .jobs
                .last()
                .and_then(|job| profile_line(side, &partner.outlook, job))
                .into_iter()
                .chain(corun_cautions(side))
                .collect(),
        }
    };
    CorunAnswer {
        version: VERSION,
        made_unix_s: *made_unix_s,
        method: partners.first().map_or(Method::Processors, |first| first.outlook.method).words().to_owned(),
        share_inside: None,
        order_is_sure: None,
        not_modelled: not_modelled(&partners.iter().map(|partner| &partner.outlook).collect::<Vec<_>>()),
        beside: Some(sides[..*fixed].iter().map(|side| side.name.clone()).collect()),
        jobs: None,
        partners: Some(partners.iter().map(partner).collect()),
    }
}
