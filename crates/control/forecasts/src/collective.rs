//! How long a collective takes, by links and collectives that windows saw.
//!
//! Next: `link_times` for windows; docs/links.md describes the answer.

use crate::error::Error;
use crate::link_times::{CollectiveAnswer, CollectiveAsked, LinkError, Links, Method};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use trimtab_loggp::{Collective, CollectiveTime, Seen, Time};
use trimtab_store::{JobSummary, Store};
use trimtab_types::report::Report;

/// Version of the answer's shape: fields may be added to it, and nothing else changes.
const VERSION: u32 = 1;
/// Jobs of a store that are looked at, those with the newest windows,
const JOBS_MAX: usize = 64;
/// and windows of each, the newest.
const WINDOWS_MAX: usize = 16;

/// How long a collective takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectiveQuestion {
    /// Which one.
    pub collective: Collective,
    /// Ranks.
    pub ranks: u32,
    /// Bytes of a block, as a rank names them in its call: of an alltoall those for one other rank.
    #[serde(default)]
    pub bytes: u64,
    /// The hosts on which they are.
    pub hosts: Vec<String>,
    /// A part of the MPI library's name; that of the newest window if it is left out.
    #[serde(default)]
    pub mpi: Option<String>,
}

impl CollectiveQuestion {
    /// As it is asked.
    ///
    /// # Errors
    /// [`Error::Question`]: no hosts.
    pub fn asked(self) -> Result<CollectiveAsked, Error> {
        if self.hosts.is_empty() {
            return Err(Error::Question("give the hosts on which the ranks are, in \"hosts\"".to_owned()));
        }
        let CollectiveQuestion { collective, ranks, bytes, hosts, mpi } = self;
        Ok(CollectiveAsked { collective, ranks, bytes, hosts, mpi })
    }
}

/// The answer, with what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CollectiveMade {
    /// Version of this shape.
    pub version: u32,
    /// Which one.
    pub collective: Collective,
    /// Ranks.
    pub ranks: u32,
    /// Bytes of a block.
    pub bytes: u64,
    /// The hosts.
    pub hosts: Vec<String>,
    /// The MPI library.
    pub mpi: String,
    /// How it was answered.
    pub method: Method,
    /// The time.
    pub time: Time,
    /// Of such collectives that windows saw; null: they saw none that tell it.
    pub recorded: Option<Seen>,
    /// Added up from messages; null: `no_messages` says why.
    pub messages: Option<CollectiveTime>,
    /// Why it can't be added up.
    pub no_messages: Option<String>,
    /// Windows that were looked at.
    pub windows: usize,
    /// The end of the newest one, seconds since 1970.
    pub newest_unix_s: Option<f64>,
    /// How it was derived, in sentences.
    pub because: Vec<String>,
}

impl CollectiveMade {
    /// The answer by these links.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn of(asked: &CollectiveAsked, links: &Links) -> Result<CollectiveMade, LinkError> {
        let answer = links.collective(asked)?;
        let because = because(asked, &answer);
        let CollectiveAnswer { hosts, mpi, method, time, recorded, messages, no_messages } = answer;
        Ok(CollectiveMade {
            version: VERSION,
            collective: asked.collective,
            ranks: asked.ranks,
            bytes: asked.bytes,
            hosts,
            mpi,
            method,
            time,
            recorded,
            messages,
            no_messages,
            windows: links.windows,
            newest_unix_s: links.newest_unix_s,
            because,
        })
    }
}

/// The newest windows of a store's newest jobs. `store` is asked anew for each, so that others who wait for it get their turn.
///
/// # Errors
/// Those of the store.
pub fn newest_windows<S: Deref<Target = Store>>(store: impl Fn() -> S) -> Result<Vec<Report>, Error> {
    newest_windows_of(store, |_| true)
}

/// The same of these jobs alone.
///
/// # Errors
/// Those of the store.
pub fn newest_windows_of<S: Deref<Target = Store>>(
    store: impl Fn() -> S,
    is_meant: impl Fn(&JobSummary) -> bool,
) -> Result<Vec<Report>, Error> {
    let jobs = store().list_jobs()?;
    let mut reports = Vec::new();
    for job in jobs.into_iter().filter(|job| job.windows > 0 && is_meant(job)).take(JOBS_MAX) {
        let Some(windows) = unless_deleted(store().windows(&job.id))? else { continue };
        for window in windows.iter().rev().take(WINDOWS_MAX) {
            reports.extend(unless_deleted(store().window(&job.id, window.number))?);
        }
    }
    Ok(reports)
}

/// `None`: somebody deleted it meanwhile.
fn unless_deleted<T>(read: Result<T, trimtab_store::Error>) -> Result<Option<T>, Error> {
    match read {
        Err(trimtab_store::Error::NoSuchJob { .. } | trimtab_store::Error::NoSuchWindow { .. }) => Ok(None),
        read => Ok(Some(read?)),
    }
}

/// How it was derived, and what is not in it.
fn because(asked: &CollectiveAsked, answer: &CollectiveAnswer) -> Vec<String> {
    let mut lines = Vec::new();
    match (answer.method, &answer.recorded) {
        (Method::Recorded, Some(seen)) if seen.from_bytes == seen.to_bytes => {
            lines.push(format!("{} such collectives of {} bytes were seen", seen.calls, seen.from_bytes));
        }
        (Method::Recorded, Some(seen)) => lines.push(format!(
            "{} such collectives of {} and of {} bytes were seen",
            seen.calls, seen.from_bytes, seen.to_bytes
        )),
        (Method::Messages, Some(seen)) => lines.push(format!(
            "such collectives were seen of {} to {} bytes only: added up from messages",
            seen.from_bytes, seen.to_bytes
        )),
        _ => {
            lines.push("no such collective was seen on as many ranks of these hosts: added up from messages".to_owned())
        }
    }
    if let Some(made) = &answer.messages {
        let name = serde_json::to_value(made.algorithm).ok().and_then(|name| Some(name.as_str()?.replace('_', " ")));
        lines.push(format!("added up from messages ({}): {}", name.unwrap_or_default(), interval_words(&made.time)));
    }
    if answer.method == Method::Messages {
        let hosts = u32::try_from(answer.hosts.len()).unwrap_or(u32::MAX).max(1);
        if hosts > 1 && asked.ranks > hosts {
            lines.push(format!("{} ranks of a host send through its link at once", asked.ranks.div_ceil(hosts)));
        }
        lines.push("without what a reduction computes, and without waiting for ranks that come late".to_owned());
    }
    if answer.time.is_outside {
        lines.push("beyond the sizes that were seen: the interval is wider".to_owned());
    }
    lines.extend(answer.no_messages.iter().map(|why| format!("not added up from messages: {why}")));
    lines
}

/// A time with its interval, in words.
pub fn interval_words(time: &Time) -> String {
    format!("{} ({} to {})", seconds_words(time.value_s), seconds_words(time.lower_s), seconds_words(time.upper_s))
}

/// A time from nanoseconds up.
pub fn seconds_words(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{} ns", three_digits(s * 1e9)),
        s if s < 1e-3 => format!("{} us", three_digits(s * 1e6)),
        s if s < 1.0 => format!("{} ms", three_digits(s * 1e3)),
        s => format!("{} s", three_digits(s)),
    }
}

/// Three digits that count.
pub fn three_digits(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}
