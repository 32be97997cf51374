//! Events as users write them: `job-start`, `load>8`, `every=10m`.
//!
//! Next: `wait` for how each is seen.

use crate::date;
use std::fmt;
use std::str::FromStr;
use trimtab_types::report::EventKind;

/// This stands before the name of a call through the API.
const API_NAMED: &str = "api:";

/// Something to wait for, with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct When {
    text: String,
    /// The condition.
    pub condition: Condition,
}

/// Something to wait for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// Another job starts on the job's machines.
    JobStart,
    /// Another job ends there.
    JobEnd,
    /// So many iterations have passed since trimtab began to count.
    Iterations(u64),
    /// Fewer iterations per second.
    RateBelow(f64),
    /// A higher load of the machine, processes.
    LoadAbove(f64),
    /// More of the processors' time is given to others by the host, share.
    StealAbove(f64),
    /// More of the time some process waits for a processor, share.
    PressureAbove(f64),
    /// A moment, seconds since 1970.
    At(f64),
    /// Again and again after so many seconds.
    Every(f64),
    /// So many seconds after trimtab began to wait.
    After(f64),
    /// Only a call of `trimtab trigger`, or a signal; these are heard whatever else is waited for.
    Call,
    /// A call through the site's API, of any name or of the one in the text.
    Api,
}

/// Why a text is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no event{why}; write job-start, job-end, iterations>=K, rate<PER_SECOND, load>X, cpu-steal>X%, \
     pressure>X%, at=2026-11-22T04:00:00Z, every=10m, after=30s, call, api or api:NAME"
)]
pub struct NotAnEvent {
    text: String,
    why: &'static str,
}

impl Condition {
    /// Its name in a report.
    pub fn kind(&self) -> EventKind {
        match self {
            Condition::JobStart => EventKind::JobStart,
            Condition::JobEnd => EventKind::JobEnd,
            Condition::Iterations(_) => EventKind::Iterations,
            Condition::RateBelow(_) => EventKind::Rate,
            Condition::LoadAbove(_) => EventKind::Load,
            Condition::StealAbove(_) => EventKind::CpuSteal,
            Condition::PressureAbove(_) => EventKind::Pressure,
            Condition::At(_) => EventKind::At,
            Condition::Every(_) => EventKind::Every,
            Condition::After(_) => EventKind::After,
            Condition::Call => EventKind::Call,
            Condition::Api => EventKind::Api,
        }
    }

    /// It can be seen only on the job's machines themselves.
    pub fn is_of_machine(&self) -> bool {
        matches!(
            self,
            Condition::RateBelow(_) | Condition::LoadAbove(_) | Condition::StealAbove(_) | Condition::PressureAbove(_)
        )
    }
}

impl When {
    /// The one call through the API that is meant; `None`: any, or it is another event.
    pub fn call_name(&self) -> Option<&str> {
        self.text.strip_prefix(API_NAMED)
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for When {
    type Err = NotAnEvent;

    fn from_str(text: &str) -> Result<When, NotAnEvent> {
        let refused = |why| NotAnEvent { text: text.to_owned(), why };
        let condition = match text {
            "job-start" => Condition::JobStart,
            "job-end" => Condition::JobEnd,
            "call" => Condition::Call,
            "api" => Condition::Api,
            _ if text.strip_prefix(API_NAMED).is_some_and(|name| !name.trim().is_empty()) => Condition::Api,
            _ => condition(text).map_err(refused)?,
        };
        Ok(When { text: text.to_owned(), condition })
    }
}

fn condition(text: &str) -> Result<Condition, &'static str> {
    const NO_NUMBER: &str = ": a number above zero is missing";
    const NO_SHARE: &str = ": a percentage from 0 to 100 is missing";
    const NO_SPAN: &str = ": a span such as 30s, 10m, 2h or 1d is missing";
    let after = |begin: &str| text.strip_prefix(begin).map(str::trim);
    if let Some(count) = after("iterations>=") {
        return count.parse().ok().filter(|count| *count > 0).map(Condition::Iterations).ok_or(NO_NUMBER);
    }
    for (begin, make) in [("rate<", Condition::RateBelow as fn(f64) -> Condition), ("load>", Condition::LoadAbove)] {
        if let Some(number) = after(begin) {
            return positive(number).map(make).ok_or(NO_NUMBER);
        }
    }
    for (begin, make) in
        [("cpu-steal>", Condition::StealAbove as fn(f64) -> Condition), ("pressure>", Condition::PressureAbove)]
    {
        if let Some(percent) = after(begin) {
            let percent = percent.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
            return percent.filter(|it| (0.0..100.0).contains(it)).map(|it| make(it / 100.0)).ok_or(NO_SHARE);
        }
    }
    for (begin, make) in [("every=", Condition::Every as fn(f64) -> Condition), ("after=", Condition::After)] {
        if let Some(text) = after(begin) {
            return span_s(text).map(make).ok_or(NO_SPAN);
        }
    }
    match after("at=") {
        Some(moment) => date::unix_s(moment).map(Condition::At).ok_or(": a moment with its zone is missing"),
        None => Err(""),
    }
}

fn positive(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite())
}

/// "90", "30s", "1.5m", "2h", "1d" in seconds; at most some years, so that clocks do not overflow.
fn span_s(text: &str) -> Option<f64> {
    const SPAN_S_MAX: f64 = 1e8;
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let with_unit = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)));
    let (number, unit_s) = with_unit.unwrap_or((text, 1.0));
    positive(number.trim()).map(|number| number * unit_s).filter(|seconds| *seconds <= SPAN_S_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_are_read() {
        for (text, expected) in [
            ("job-start", Condition::JobStart),
            ("job-end", Condition::JobEnd),
            ("call", Condition::Call),
            ("api", Condition::Api),
            ("api:before restart", Condition::Api),
            ("iterations>=5000", Condition::Iterations(5000)),
            ("rate<0.5", Condition::RateBelow(0.5)),
            ("load>8", Condition::LoadAbove(8.0)),
            ("cpu-steal>5%", Condition::StealAbove(0.05)),
            ("pressure>40%", Condition::PressureAbove(0.4)),
            ("at=1970-01-01T00:01:00Z", Condition::At(60.0)),
            ("every=10m", Condition::Every(600.0)),
            ("after=30", Condition::After(30.0)),
            ("after=1.5h", Condition::After(5400.0)),
        ] {
            let when: When = text.parse().expect(text);
            assert_eq!((when.condition, when.to_string().as_str()), (expected, text));
        }
    }

    #[test]
    fn other_text_is_refused_with_what_to_write() {
        for (text, why) in [
            ("", "is no event;"),
            ("jobstart", "is no event;"),
            ("iterations>=0", "a number above zero"),
            ("iterations>5", "is no event;"),
            ("rate<x", "a number above zero"),
            ("load>-1", "a number above zero"),
            ("load>inf", "a number above zero"),
            ("cpu-steal>5", "a percentage"),
            ("pressure>100%", "a percentage"),
            ("at=2026-11-22T04:00:00", "a moment with its zone"),
            ("every=0s", "a span"),
            ("api:", "is no event;"),
            ("after=9999999d", "a span"),
        ] {
            let said = text.parse::<When>().expect_err(text).to_string();
            assert!(said.contains(why) && said.contains("job-start, job-end"), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,30}") {
            let _ = text.parse::<When>();
        }
    }
}
