//! A line of a log as it speaks of a job, whatever the format, and the jobs that come of it.
//!
//! Next: `swf` and `columns`, which fill it in.

use crate::job::{Ask, Job, Open};
use crate::log::{Format, LeftOut, Log, LogError, Sizes, Wrong};
use std::collections::HashMap;

/// How far a clock may be set back between two moments of a job: an hour, as clocks are in autumn.
const SET_BACK_S: f64 = 3600.0;
/// Characters of a line that an error shows.
const SHOWN: usize = 60;
/// Seconds that no log has: a million years.
const SECONDS_MAX: f64 = 3.2e13;

/// The fate of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// It ran and ended, if it has a run time.
    #[default]
    Ended,
    /// It never ran.
    NeverRan,
    /// It waits or runs.
    NotEnded,
    /// It is a part of another line's job.
    Part,
}

/// A line: times that are not known are `None`, names are as they stand there.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry<'a> {
    pub(super) fate: Fate,
    pub(super) submitted_s: Option<f64>,
    pub(super) begun_s: Option<f64>,
    pub(super) ended_s: Option<f64>,
    pub(super) ran_s: Option<f64>,
    pub(super) requested_s: Option<f64>,
    pub(super) ranks: Option<f64>,
    pub(super) user: Option<&'a str>,
    pub(super) account: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) queue: Option<String>,
}

/// A fault of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Columns { has: usize, wants: usize },
    Value { what: &'static str, text: String, why: &'static str },
    Backwards { what: &'static str, seconds: u64, before: &'static str },
}

/// Jobs so far.
#[derive(Debug)]
pub(super) struct Collector {
    wrong: Wrong,
    jobs: Vec<Job>,
    open: Vec<Open>,
    left_out: LeftOut,
    names: HashMap<String, u32>,
    pub(super) sizes: Option<Sizes>,
}

impl Collector {
    pub(super) fn new(wrong: Wrong) -> Self {
        Collector {
            wrong,
            jobs: Vec::new(),
            open: Vec::new(),
            left_out: LeftOut::default(),
            names: HashMap::new(),
            sizes: None,
        }
    }

    /// A line's job, or what is wrong with it.
    pub(super) fn add(&mut self, line: usize, entry: Result<Entry, Fault>) -> Result<(), LogError> {
        match entry.and_then(|entry| self.take(&entry)) {
            Err(_) if self.wrong == Wrong::LeftOut => self.left_out.wrong += 1,
            Err(fault) => return Err(fault.on(line)),
            Ok(()) => {}
        }
        Ok(())
    }

    fn take(&mut self, entry: &Entry) -> Result<(), Fault> {
        match entry.fate {
            Fate::NeverRan => self.left_out.never_ran += 1,
            Fate::NotEnded => {
                if let Some(submitted_s) = entry.submitted_s {
                    let begun_s = entry.begun(submitted_s)?;
                    let ask = self.ask(entry);
                    self.open.push(Open { ask, submitted_s, begun_s });
                }
                self.left_out.not_ended += 1;
            }
            Fate::Part => self.left_out.parts += 1,
            Fate::Ended => match entry.times()? {
                Some(times) => self.push(entry, times),
                None => self.left_out.unknown += 1,
            },
        }
        Ok(())
    }

    fn push(&mut self, entry: &Entry, times: Times) {
        let ask = self.ask(entry);
        let Times { submitted_s, begun_s, ended_s, ran_s } = times;
        self.jobs.push(Job { ask, submitted_s, begun_s, ended_s, ran_s });
    }

    fn ask(&mut self, entry: &Entry) -> Ask {
        let mut number = |name: Option<&str>| name.map(|name| self.number(name));
        let (user, account, name) = (number(entry.user), number(entry.account), number(entry.name));
        let queue = number(entry.queue.as_deref());
        let whole = |number: f64| number.ceil() as u64;
        Ask { requested_s: entry.requested_s.map(whole), ranks: entry.ranks.map(whole), user, account, name, queue }
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let next = self.names.len() as u32;
        self.names.insert(name.to_owned(), next);
        next
    }

    /// All jobs, in order of submission.
    pub(super) fn log(mut self, format: Format) -> Result<Log, LogError> {
        if self.jobs.is_empty() && self.open.is_empty() {
            return Err(LogError::Empty);
        }
        let mut latest = f64::NEG_INFINITY;
        let mut out_of_order = 0;
        for job in &self.jobs {
            out_of_order += usize::from(job.submitted_s < latest);
            latest = latest.max(job.submitted_s);
        }
        self.jobs.sort_by(|a, b| a.submitted_s.total_cmp(&b.submitted_s));
        self.open.sort_by(|a, b| a.submitted_s.total_cmp(&b.submitted_s));
        let Collector { jobs, open, left_out, names, sizes, .. } = self;
        Ok(Log { format, jobs, left_out, open, out_of_order, names, sizes })
    }
}

/// Times that fit each other.
struct Times {
    submitted_s: f64,
    begun_s: Option<f64>,
    ended_s: f64,
    ran_s: f64,
}

impl Entry<'_> {
    fn begun(&self, submitted_s: f64) -> Result<Option<f64>, Fault> {
        self.begun_s.map(|s| not_before(s, submitted_s, "began", "its submission")).transpose()
    }

    /// `None`: the submission or the run time is not known.
    fn times(&self) -> Result<Option<Times>, Fault> {
        let Some(submitted_s) = self.submitted_s else { return Ok(None) };
        let begun_s = self.begun(submitted_s)?;
        let from_s = begun_s.unwrap_or(submitted_s);
        let ended_s = self.ended_s.map(|s| not_before(s, from_s, "ended", "it began")).transpose()?;
        let between = || Some(ended_s? - begun_s?);
        let Some(ran_s) = self.ran_s.or_else(between) else { return Ok(None) };
        // A log without an end has the run time; one without a beginning says nothing of the wait.
        let ended_s = ended_s.unwrap_or(from_s + ran_s);
        Ok(Some(Times { submitted_s, begun_s, ended_s, ran_s }))
    }
}

fn not_before(s: f64, earlier_s: f64, what: &'static str, before: &'static str) -> Result<f64, Fault> {
    let back_s = earlier_s - s;
    if back_s > SET_BACK_S {
        return Err(Fault::Backwards { what, seconds: back_s.ceil() as u64, before });
    }
    Ok(s.max(earlier_s))
}

/// A value that is not negative and finite.
pub(super) fn positive(what: &'static str, text: &str, value: Option<f64>) -> Result<f64, Fault> {
    let fault = |why| Fault::Value { what, text: text.to_owned(), why };
    match value {
        None => Err(fault("no number")),
        Some(value) if !value.is_finite() || value > SECONDS_MAX => Err(fault("no number that can be")),
        Some(value) if value < 0.0 => Err(fault("negative")),
        Some(value) => Ok(value),
    }
}

/// Lines that are not empty, with their numbers from 1. A mark of the byte order before the first goes.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim().is_empty())
}

/// As much of a line as an error shows.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

impl Fault {
    fn on(self, line: usize) -> LogError {
        match self {
            Fault::Columns { has, wants } => LogError::Columns { line, has, wants },
            Fault::Value { what, text, why } => LogError::Value { line, what, text: beginning(&text), why },
            Fault::Backwards { what, seconds, before } => LogError::Backwards { line, what, seconds, before },
        }
    }
}
