//! When a running job ends, from its windows in a store and from earlier runs.
//!
//! Next: `trimtab-progress`, which forecasts; `looks` for windows as it takes them.

use crate::error::Error;
use crate::looks::{LOOKS_OF_JOB_MAX, looks, outer, until_valid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trimtab_progress::{End, Error as NoClaim, Known, Method, Remaining, forecast};
use trimtab_store::{Forecast, History, JobId, Run, Store};
use trimtab_types::report::{LikelyProgress, OuterProgress, Report};

/// Version of the answer's shape: fields may be added to it, and nothing else changes.
const VERSION: u32 = 1;
/// Earlier runs that count, the latest.
const EARLIER_MAX: u32 = 50;
/// An earlier run counts if its length is known to within this share.
const LENGTH_KNOWN: f64 = 0.05;
/// Before the word of a method that rests on iterations which are only likely.
const LIKELY: &str = "likely ";
/// Before the word of a method that rests on iterations of a loop which lies in another one.
const INNER: &str = "inner ";
/// The reason why such an end is not claimed.
const IN_ANOTHER: &str =
    "this is the end of a loop that lies in another one, which may enter it again: the job ends then or later";
/// The reason why an end by likely iterations is not claimed.
const ONLY_LIKELY: &str = "the values that the loop is left by are variables that other code may change: the end is likely, and holds if \
    they go on as they were seen to";
/// The same of an end by passes that nobody has measured.
const ONLY_ALIKE: &str =
    "nobody has measured a pass of that loop: the end is likely, and holds if its passes are alike";
/// That of which the end of a loop does not tell.
const BEHIND: &str = "this is the end of the main loop: what the program does behind it comes on top";
/// The share of ends in the interval.
const SHARE_INSIDE: f64 = 0.9;

/// The runs that a forecast may rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of the same user.
    Own,
    /// Of everybody; only their lengths are used.
    All,
}

/// A forecast of a job's end, and what it was made of.
#[derive(Clone, Debug)]
pub struct JobMade {
    /// The newest window, of those that are valid if any is.
    pub report: Report,
    /// The run.
    pub run: Run,
    /// The facts that it rests on.
    pub known: Known,
    /// The job's age, seconds.
    pub elapsed_s: f64,
    /// When it was made, seconds since 1970.
    pub unix_s: f64,
    /// The end, or why none is claimed.
    pub end: Result<End, NoClaim>,
    /// Sentences about that of which the end does not tell.
    pub cautions: Vec<String>,
}

impl JobMade {
    /// After a window that is in the store, with all earlier windows of the job and all earlier runs; `age_s` is the job's age if
    /// somebody sees its processes.
    ///
    /// # Errors
    /// Those of reading; [`Error::Unknown`] if nobody knows when the job began.
    pub fn of(store: &Store, report: Report, age_s: Option<f64>, unix_s: f64, whose: Whose) -> Result<JobMade, Error> {
        let job = store.find(&report.job.id)?.job;
        let mut reports = windows_of(store, &job.id, report.window.number)?;
        reports.push(report.clone());
        let reports = until_valid(reports);
        let report = reports.last().cloned().unwrap_or(report);
        let run = store.run(&job.key)?;
        let run = run.ok_or_else(|| Error::Unknown(format!("the store has no run of job {}", job.id)))?;
        let earlier_s = earlier(store, &run, whose)?;
        let begun_unix_s = age_s.map(|age_s| unix_s - age_s).or(run.started_unix_s);
        let begun_unix_s =
            begun_unix_s.ok_or_else(|| Error::Unknown(format!("it is not known when job {} began", job.id)))?;
        let (looks, remaining) = looks(&reports, begun_unix_s);
        let outer = outer(&reports, begun_unix_s);
        let known = Known { elapsed_s: unix_s - begun_unix_s, looks, remaining, outer, earlier_s };
        let (end, elapsed_s) = (forecast(&known), known.elapsed_s);
        let cautions = end.as_ref().map(|end| cautions(end, &report)).unwrap_or_default();
        Ok(JobMade { report, run, known, elapsed_s, unix_s, end, cautions })
    }

    /// From the newest window in the store alone, of a job whose processes nobody here sees.
    ///
    /// # Errors
    /// As [`JobMade::of`]; [`Error::Stale`] if that window ended more than `newest_s` ago, the job was seen to have ended, or
    /// its window said that it would have ended by now.
    pub fn stored(store: &Store, job: &JobId, newest_s: f64, unix_s: f64, whose: Whose) -> Result<JobMade, Error> {
        let Some(report) = store.newest_window(Some(job))? else {
            return Err(Error::Unknown(format!("no window of job {job} is kept")));
        };
        let made = JobMade::of(store, report, None, unix_s, whose)?;
        if made.run.ended.is_some() {
            return Err(Error::Stale(format!("job {job} has ended")));
        }
        let again = "measure it again, with `trimtab attach` or POST /v1/jobs/JOB/trigger";
        let Some(ago_s) = made.window_ended_ago_s() else {
            return Err(Error::Stale(format!(
                "it is not known when the newest window of job {job} was measured: {again}"
            )));
        };
        if ago_s > newest_s {
            let why =
                format!("the newest window of job {job} ended {ago_s:.0} s ago, more than newest_s, {newest_s:.0}");
            return Err(Error::Stale(format!("{why}: {again}")));
        }
        let then = Known { elapsed_s: (made.elapsed_s - ago_s).max(0.0), ..made.known.clone() };
        if forecast(&then).is_ok_and(|end| end.late_s < ago_s) {
            let why = format!("the newest window of job {job} said that it would have ended by now, almost surely");
            return Err(Error::Stale(format!("{why}: {again}")));
        }
        Ok(made)
    }

    /// How long ago its newest window ended, seconds; `None`: not known.
    pub fn window_ended_ago_s(&self) -> Option<f64> {
        let window = &self.report.window;
        Some(self.unix_s - (window.started_unix_s? + window.duration_s))
    }

    /// How far the loop is, where that is only likely.
    pub fn likely(&self) -> Option<LikelyProgress> {
        likely(&self.report)
    }

    /// The word for how the end was derived; `None`: none is claimed.
    pub fn method(&self) -> Option<String> {
        let word = self.end.as_ref().ok()?.method.word();
        let likely = if self.is_only_likely() { LIKELY } else { "" };
        let inner = if self.is_of_inner_loop() { INNER } else { "" };
        Some(format!("{likely}{inner}{word}"))
    }

    /// True if the end is that of a loop which lies in another one, so that the job may end later.
    pub fn is_of_inner_loop(&self) -> bool {
        self.end.as_ref().is_ok_and(|end| is_of_inner_loop(end, &self.report))
    }

    /// Why the end is not claimed to be the job's, although there is one; `None`: it is claimed.
    pub fn why_not_claimed(&self) -> Option<&'static str> {
        if self.is_by_outer() {
            return Some(ONLY_ALIKE);
        }
        match (self.is_only_likely(), self.is_of_inner_loop()) {
            (true, _) => Some(ONLY_LIKELY),
            (false, true) => Some(IN_ANOTHER),
            (false, false) => None,
        }
    }

    /// True if the end rests on iterations to come that are only likely, or on passes of a loop around that nobody has measured.
    pub fn is_only_likely(&self) -> bool {
        let is_by_loop = self.end.as_ref().is_ok_and(|end| end.method != Method::History);
        self.is_by_outer() || (is_by_loop && self.likely().is_some())
    }

    fn is_by_outer(&self) -> bool {
        self.end.as_ref().is_ok_and(|end| end.method == Method::Outer)
    }

    /// The same as it is kept among all forecasts; `None`: no end was claimed.
    pub fn forecast(&self) -> Option<Forecast> {
        let end = self.end.as_ref().ok()?;
        let progress = self.report.window.progress.clone().unwrap_or_default();
        let remaining = match self.known.remaining {
            Remaining::Exactly(remaining)
            | Remaining::AtMost(remaining)
            | Remaining::Between { expected: remaining, .. } => Some(remaining),
            Remaining::Unknown => None,
        };
        let remaining = remaining.filter(|_| !self.is_by_outer());
        let at = |seconds: f64| self.unix_s + seconds;
        Some(Forecast {
            made_unix_s: self.unix_s,
            method: self.method()?,
            elapsed_s: self.elapsed_s,
            iterations_done: progress.done,
            iterations_remaining: remaining,
            end_unix_s: end.remaining_s.or(end.unless_left_s).map(at),
            lower_unix_s: at(end.lower_s),
            upper_unix_s: at(end.upper_s),
            late_unix_s: at(end.late_s),
            because: end.because.iter().cloned().chain(self.cautions.clone()).collect(),
        })
    }

    /// The answer.
    pub fn answer(&self) -> JobAnswer {
        let JobMade { report, run, known, elapsed_s, unix_s, end, cautions } = self;
        let progress = report.window.progress.clone().unwrap_or_default();
        let told = end.as_ref().ok().zip(self.method()).map(|(end, method)| EndAnswer::of(self, end, method));
        let because = end.as_ref().map(|end| end.because.iter().chain(cautions).cloned().collect::<Vec<_>>());
        JobAnswer {
            version: VERSION,
            job: run.job.clone(),
            program: run.program.clone(),
            ranks: run.ranks,
            made_unix_s: *unix_s,
            elapsed_s: *elapsed_s,
            iterations_done: progress.done,
            iterations_remaining: progress.remaining,
            iterations_total: progress.total,
            iterations_at_most: progress.total_at_most,
            likely: likely(report).map(LikelyAnswer::of),
            outer: report.window.outer_progress.iter().map(OuterAnswer::of).collect(),
            share_done: progress.done.zip(progress.total).map(|(done, total)| done as f64 / total.max(1) as f64),
            iterations_per_s: report.iterations_per_s,
            windows: known.looks.len(),
            earlier_runs: known.earlier_s.len(),
            end: told.clone().filter(|_| self.why_not_claimed().is_none()),
            likely_end: told.filter(|_| self.why_not_claimed().is_some()),
            because: because.unwrap_or_default(),
            no_claim: match end {
                Ok(_) => self.why_not_claimed().map(str::to_owned),
                Err(error) => Some(error.to_string()),
            },
        }
    }
}

/// When a job ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobAnswer {
    /// 1: fields may be added, and nothing else changes.
    pub version: u32,
    /// The job's name.
    pub job: String,
    /// Path of its program.
    pub program: String,
    /// Ranks.
    pub ranks: u32,
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
    /// The job's age then, seconds.
    pub elapsed_s: f64,
    /// Iterations done when the newest window ended; null: not known.
    pub iterations_done: Option<u64>,
    /// Iterations to come then; null: not known.
    pub iterations_remaining: Option<u64>,
    /// All iterations; null: not known.
    pub iterations_total: Option<u64>,
    /// All iterations if the loop is not left before; null: not known.
    pub iterations_at_most: Option<u64>,
    /// The same by a counter and a bound that other code may change; null: they are known, or nothing is.
    pub likely: Option<LikelyAnswer>,
    /// The loops around the one that counts iterations, outermost first, or all in which ranks are if none does; empty: there are none, or
    /// nobody looked how far they are.
    pub outer: Vec<OuterAnswer>,
    /// Done over all; null without a certain total.
    pub share_done: Option<f64>,
    /// Iterations per second in the newest window; null: it counts none.
    pub iterations_per_s: Option<f64>,
    /// Windows that it rests on.
    pub windows: usize,
    /// Earlier runs that it rests on.
    pub earlier_runs: usize,
    /// The end; null: none is claimed.
    pub end: Option<EndAnswer>,
    /// The end if nobody changes the loop's counter and bound, where other code may; or by a loop around the counted one whose passes
    /// are taken to be alike; or the end of a loop that lies in another one: the job ends then or later; else null. No limit is to be set by it.
    pub likely_end: Option<EndAnswer>,
    /// How it was derived, in sentences.
    pub because: Vec<String>,
    /// Why no end is claimed; null: one is.
    pub no_claim: Option<String>,
}

/// How far the loop was by a counter and a bound that did what a counting loop makes of them while they were seen, or as the values
/// that its tests compare came closer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LikelyAnswer {
    /// Iterations done; null: not known.
    pub done: Option<u64>,
    /// Iterations to come.
    pub remaining: Option<u64>,
    /// Both together.
    pub total: Option<u64>,
    /// The fewest to come that fit what was seen of the loop's tests; null: the same.
    pub remaining_lower: Option<u64>,
    /// The most; null: the same.
    pub remaining_upper: Option<u64>,
    /// The most that may come, where the loop may be left before; null: not known, or remaining says it.
    pub remaining_at_most: Option<u64>,
}

impl LikelyAnswer {
    fn of(likely: LikelyProgress) -> LikelyAnswer {
        let LikelyProgress { done, remaining, total, remaining_lower, remaining_upper, remaining_at_most } = likely;
        LikelyAnswer { done, remaining, total, remaining_lower, remaining_upper, remaining_at_most }
    }
}

/// How far a loop around the counted one was right after the newest window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OuterAnswer {
    /// The loop.
    pub name: String,
    /// Passes completed; null: not known.
    pub done: Option<u64>,
    /// Passes to come behind the one that it was in; null: not known, or it may be left before.
    pub to_come: Option<u64>,
    /// Passes to come if nothing ends it before; null: not known.
    pub to_come_at_most: Option<u64>,
    /// True: by a counter or bound that other code may change.
    pub is_likely: bool,
    /// Why it is not known; null: it is.
    pub missing: Option<String>,
}

impl OuterAnswer {
    fn of(one: &OuterProgress) -> OuterAnswer {
        let OuterProgress { name, done, to_come, to_come_at_most, is_likely, missing } = one.clone();
        OuterAnswer { name, done, to_come, to_come_at_most, is_likely, missing }
    }
}

/// An end; all times in seconds from `made_unix_s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndAnswer {
    /// How it was derived: iterations, iterations at most, outer iterations, history, iterations and history, iterations or history;
    /// "inner " before it where the loop lies in another one, "likely " where other code may change its counter or bound.
    pub method: String,
    /// "main loop", "inner loop", "outer loop" or "run": the end is that of this.
    pub of: String,
    /// The expected end; null: only the latest is known.
    pub remaining_s: Option<f64>,
    /// The end if its loop goes through all its passes, where it may be left before; else null.
    pub unless_left_s: Option<f64>,
    /// The expected end, seconds since 1970.
    pub unix_s: Option<f64>,
    /// The share of ends between the next two.
    pub share_inside: f64,
    /// The lower end of the interval.
    pub lower_s: f64,
    /// The upper end of the interval.
    pub upper_s: f64,
    /// 99% of ends come before this.
    pub late_s: f64,
    /// The mean time of an iteration to come, seconds; null: by history alone, or by passes of a loop around.
    pub time_per_iteration_s: Option<f64>,
}

impl EndAnswer {
    fn of(made: &JobMade, end: &End, method: String) -> EndAnswer {
        let unix_s = made.unix_s;
        let of = match end.method {
            Method::History => "run",
            Method::Outer => "outer loop",
            _ if made.is_of_inner_loop() => "inner loop",
            _ => "main loop",
        };
        EndAnswer {
            method,
            of: of.to_owned(),
            remaining_s: end.remaining_s,
            unless_left_s: end.unless_left_s,
            unix_s: end.remaining_s.map(|seconds| unix_s + seconds),
            share_inside: SHARE_INSIDE,
            lower_s: end.lower_s,
            upper_s: end.upper_s,
            late_s: end.late_s,
            time_per_iteration_s: end.each_s,
        }
    }
}

/// Windows before a number, the newest of them, oldest first.
fn windows_of(store: &Store, id: &JobId, before: u32) -> Result<Vec<Report>, Error> {
    let numbers: Vec<u32> =
        store.windows(id)?.iter().map(|window| window.number).filter(|number| *number < before).collect();
    let newest = &numbers[numbers.len().saturating_sub(LOOKS_OF_JOB_MAX)..];
    newest.iter().map(|number| Ok(store.window(id, *number)?)).collect()
}

/// How long earlier runs of the same program took, seconds.
fn earlier(store: &Store, run: &Run, whose: Whose) -> Result<Vec<f64>, Error> {
    let Some(likeness) = run.likeness() else { return Ok(Vec::new()) };
    let alike = match whose {
        Whose::Own => store.runs_alike(&likeness, EARLIER_MAX)?,
        Whose::All => store.runs_alike_of_all(&likeness, EARLIER_MAX)?,
    };
    Ok(alike.iter().filter(|other| other.key != run.key).filter_map(|other| other.lasted_s(LENGTH_KNOWN)).collect())
}

fn likely(report: &Report) -> Option<LikelyProgress> {
    report.window.progress.as_ref()?.likely
}

/// True of an end by iterations alone of a loop which lies in another one.
fn is_of_inner_loop(end: &End, report: &Report) -> bool {
    let is_by_iterations = matches!(end.method, Method::Iterations | Method::AtMost | Method::Apart);
    is_by_iterations && report.window.is_of_inner_loop()
}

/// Sentences about that of which an end by iterations does not tell.
fn cautions(end: &End, report: &Report) -> Vec<String> {
    match end.method {
        Method::History => return Vec::new(),
        Method::Outer => return vec![ONLY_ALIKE.to_owned()],
        _ => {}
    }
    let likely = likely(report).map(|_| ONLY_LIKELY);
    let behind = match is_of_inner_loop(end, report) {
        true => Some(IN_ANOTHER),
        false => likely.is_none().then_some(BEHIND),
    };
    likely.into_iter().chain(behind).map(str::to_owned).collect()
}
