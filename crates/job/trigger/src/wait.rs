//! Waiting for the first of several events.
//!
//! Files of the kernel are looked at about once a second, each kind at its own pace; between two looks trimtab sleeps at
//! its [`CallSocket`], so a call is heard at once; whoever hears calls from elsewhere rings there ([`crate::Waker`]). A threshold is crossed from the other side: after it has fired it must first
//! be seen unmet before it fires again. The job is asked now and then whether it still runs.
//!
//! Next: `jobs` for other jobs, `call_socket` for calls.

use crate::call_socket::CallSocket;
use crate::error::Error;
use crate::jobs::{JobSource, Machines};
use crate::when::{Condition, When};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trimtab_neighbours::{Counters, Worked};
use trimtab_types::report::{Event, EventKind};

/// Longest sleep: signals that were missed between two sleeps are seen then.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Time between two looks whether the job still runs, at the load, at shares of time, and at the program's pace.
const ALIVE: Duration = Duration::from_secs(1);
const LOAD: Duration = Duration::from_secs(1);
const SHARES: Duration = Duration::from_secs(2);
const PACE: Duration = Duration::from_secs(10);

/// Questions that the waiter can't answer by itself.
pub trait Surroundings {
    /// The user wants to end.
    fn is_interrupted(&self) -> bool;

    /// A signal asked for a window since the last question.
    fn is_signalled(&self) -> bool;

    /// The name that was called through the site's API since the last question, if anybody listens there.
    fn called(&mut self) -> Option<String> {
        None
    }

    /// The job still runs.
    fn is_alive(&mut self) -> bool;

    /// Iterations per second of the program just now; `None`: they can't be told. Measured by a short window.
    fn rate(&mut self) -> Option<f64>;

    /// Seconds since 1970.
    fn now_unix_s(&self) -> f64;
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Waited {
    /// This happened.
    Event(Event),
    /// The job has ended.
    Ended,
    /// The user ended it.
    Interrupted,
}

/// Waits again and again.
pub struct Waiter<'a> {
    whens: Vec<When>,
    jobs: Box<dyn JobSource + 'a>,
    machines: Box<dyn Machines + 'a>,
    /// Where calls come in.
    pub call_socket: CallSocket,
    begun: Instant,
    /// Jobs that were there when they were asked for last.
    known: Option<BTreeMap<String, String>>,
    /// Those that came and went, and were not told yet.
    came: Vec<String>,
    went: Vec<String>,
    /// When what is looked at now and then was looked at last, by kind.
    looked: BTreeMap<&'static str, Instant>,
    counters: BTreeMap<String, (Instant, Counters)>,
    /// For each event: times it has fired; and whether it may fire.
    fired: Vec<u64>,
    is_armed: Vec<bool>,
}

impl<'a> Waiter<'a> {
    /// Waits for any of `whens` from now on, and for calls.
    ///
    /// # Errors
    /// Events that can't be seen together, or nobody who sees them.
    pub fn new(
        whens: Vec<When>,
        jobs: Box<dyn JobSource + 'a>,
        machines: Box<dyn Machines + 'a>,
        call_socket: CallSocket,
    ) -> Result<Waiter<'a>, Error> {
        let is_counted = |when: &&When| matches!(when.condition, Condition::Iterations(_));
        if let Some(when) = whens.iter().find(is_counted).filter(|_| whens.len() > 1) {
            return Err(Error::Alone { condition: when.to_string() });
        }
        let count = whens.len();
        let mut waiter = Waiter {
            whens,
            jobs,
            machines,
            call_socket,
            begun: Instant::now(),
            known: None,
            came: Vec::new(),
            went: Vec::new(),
            looked: BTreeMap::new(),
            counters: BTreeMap::new(),
            fired: vec![0; count],
            is_armed: vec![true; count],
        };
        waiter.known = if waiter.wants_jobs() { Some(waiter.jobs.jobs()?) } else { None };
        Ok(waiter)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// Waiting fails, or Slurm can't be asked.
    pub fn next(&mut self, around: &mut dyn Surroundings) -> Result<Waited, Error> {
        loop {
            if around.is_interrupted() {
                return Ok(Waited::Interrupted);
            }
            if around.is_signalled() {
                return Ok(Waited::Event(event(EventKind::Signal, "signal", String::new(), around)));
            }
            if let Some(value) = around.called() {
                let when = self.whens.iter().find(|when| when.condition == Condition::Api);
                return Ok(Waited::Event(event(
                    EventKind::Api,
                    &when.map_or("api".to_owned(), When::to_string),
                    value,
                    around,
                )));
            }
            if self.is_due("alive", ALIVE) && !around.is_alive() {
                return Ok(Waited::Ended);
            }
            if let Some(event) = self.seen(around)? {
                return Ok(Waited::Event(event));
            }
            if let Some(name) = self.call_socket.wait(self.rest(around))? {
                return Ok(Waited::Event(event(EventKind::Call, "call", name, around)));
            }
        }
    }

    fn wants_jobs(&self) -> bool {
        self.whens.iter().any(|when| matches!(when.condition, Condition::JobStart | Condition::JobEnd))
    }

    /// True if so long has passed since the last time; the first time it has.
    fn is_due(&mut self, kind: &'static str, period: Duration) -> bool {
        let is_due = self.looked.get(kind).is_none_or(|looked| looked.elapsed() >= period);
        if is_due {
            self.looked.insert(kind, Instant::now());
        }
        is_due
    }

    /// The first event that has happened.
    fn seen(&mut self, around: &mut dyn Surroundings) -> Result<Option<Event>, Error> {
        self.look_for_jobs()?;
        let worked = self.worked()?;
        for number in 0..self.whens.len() {
            let condition = self.whens[number].condition;
            let value = match condition {
                Condition::JobStart => all_of(&mut self.came),
                Condition::JobEnd => all_of(&mut self.went),
                Condition::LoadAbove(limit) if self.is_due("load", LOAD) => {
                    let loads =
                        self.machines.counters()?.into_iter().map(|(host, (_, counters))| (host, counters.load));
                    self.crossed(number, highest(loads), |load| load > limit, |load| format!("{load:.2}"))
                }
                Condition::StealAbove(limit) => {
                    let steal = worked.iter().map(|(host, worked)| (host.clone(), worked.steal));
                    self.crossed(number, highest(steal), |share| share > limit, percent)
                }
                Condition::PressureAbove(limit) => {
                    let pressure = worked.iter().map(|(host, worked)| (host.clone(), worked.pressure));
                    self.crossed(number, highest(pressure), |share| share > limit, percent)
                }
                Condition::RateBelow(limit) if self.is_due("rate", PACE) => {
                    let rate = around.rate().map(|rate| (rate, String::new()));
                    self.crossed(number, rate, |rate| rate < limit, |rate| format!("{rate:.4} iterations per second"))
                }
                Condition::At(_) | Condition::Every(_) | Condition::After(_) => {
                    (self.left_s(number, around) == Some(0.0)).then(String::new)
                }
                // It is counted in the window itself, which begins at once.
                Condition::Iterations(_) if self.fired[number] == 0 => Some(String::new()),
                Condition::Iterations(_) | Condition::LoadAbove(_) | Condition::RateBelow(_) => None,
                Condition::Call | Condition::Api => None,
            };
            if let Some(value) = value {
                let when = &self.whens[number];
                // Events that came due several times while a window was open are one.
                let due = match when.condition {
                    Condition::Every(span_s) => (self.begun.elapsed().as_secs_f64() / span_s) as u64,
                    _ => 0,
                };
                self.fired[number] = due.max(self.fired[number] + 1);
                return Ok(Some(event(when.condition.kind(), &when.to_string(), value, around)));
            }
        }
        Ok(None)
    }

    /// Notes which jobs have come and gone since the last look.
    fn look_for_jobs(&mut self) -> Result<(), Error> {
        if !self.wants_jobs() || !self.is_due("jobs", self.jobs.period()) {
            return Ok(());
        }
        let now = self.jobs.jobs()?;
        let before = self.known.replace(now.clone()).unwrap_or_default();
        let only = |some: &BTreeMap<String, String>, others: &BTreeMap<String, String>| {
            let only = some.iter().filter(|(job, _)| !others.contains_key(*job));
            only.map(|(job, what)| format!("{job} ({what})")).collect::<Vec<String>>()
        };
        self.came.extend(only(&now, &before));
        self.went.extend(only(&before, &now));
        Ok(())
    }

    /// The work of the machines' processors since the last look, if that is long enough ago.
    fn worked(&mut self) -> Result<BTreeMap<String, Worked>, Error> {
        let is_wanted = |when: &When| matches!(when.condition, Condition::StealAbove(_) | Condition::PressureAbove(_));
        if !self.whens.iter().any(is_wanted) || !self.is_due("shares", SHARES) {
            return Ok(BTreeMap::new());
        }
        let now = self.machines.counters()?;
        let before = std::mem::replace(&mut self.counters, now.clone());
        let worked = now.into_iter().filter_map(|(host, (at, now))| {
            let (since, before) = before.get(&host)?;
            Some((host, before.until(&now, at.duration_since(*since).as_secs_f64())))
        });
        Ok(worked.collect())
    }

    /// A value that meets its condition, for the first time since it was seen not to; and where it was seen.
    fn crossed(
        &mut self,
        number: usize,
        value: Option<(f64, String)>,
        is_met: impl Fn(f64) -> bool,
        shown: impl Fn(f64) -> String,
    ) -> Option<String> {
        let (value, host) = value?;
        let fires = is_met(value) && self.is_armed[number];
        self.is_armed[number] = !is_met(value);
        let at = if host.is_empty() { host } else { format!(" on {host}") };
        fires.then(|| shown(value) + &at)
    }

    /// Seconds until an event whose time is known, 0 if that has come; `None` for others.
    fn left_s(&self, number: usize, around: &dyn Surroundings) -> Option<f64> {
        let (fired, passed_s) = (self.fired[number], self.begun.elapsed().as_secs_f64());
        let left_s = match self.whens[number].condition {
            Condition::At(unix_s) if fired == 0 => unix_s - around.now_unix_s(),
            Condition::After(span_s) if fired == 0 => span_s - passed_s,
            Condition::Every(span_s) => (fired + 1) as f64 * span_s - passed_s,
            _ => return None,
        };
        Some(left_s.max(0.0))
    }

    /// How long nothing is to be looked at.
    fn rest(&self, around: &dyn Surroundings) -> Duration {
        let known = (0..self.whens.len()).filter_map(|number| self.left_s(number, around));
        let soonest = known.fold(SLEEP_MAX.as_secs_f64(), f64::min);
        let looks = if self.wants_jobs() { self.jobs.period().min(SLEEP_MAX) } else { SLEEP_MAX };
        Duration::from_secs_f64(soonest).min(looks)
    }
}

/// All that was noted, in one text; it is told once.
fn all_of(noted: &mut Vec<String>) -> Option<String> {
    (!noted.is_empty()).then(|| std::mem::take(noted).join(", "))
}

/// The highest of what is known, and the host where it was seen: one machine that meets a condition is enough.
fn highest(of_hosts: impl Iterator<Item = (String, Option<f64>)>) -> Option<(f64, String)> {
    let known = of_hosts.filter_map(|(host, value)| Some((value?, host)));
    known.max_by(|a, b| a.0.total_cmp(&b.0))
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn event(kind: EventKind, condition: &str, value: String, around: &dyn Surroundings) -> Event {
    Event { kind, condition: condition.to_owned(), value, at_unix_s: around.now_unix_s() }
}
