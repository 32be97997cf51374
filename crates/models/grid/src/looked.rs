//! Figures as sensors and probes saw them, with the interval that their kind has.
//!
//! Next: `facts`, which they become.

use crate::facts::{Figure, Link, Newest};
use crate::quantity::Quantity;

/// A transfer took within this share of the time that one probe told (`limited_links_are_measured_as_they_are`).
const ONE_PROBE: f64 = 0.1;
/// The latency of later round trips is within this factor of that of one probe.
const ONE_LATENCY: f64 = 2.0;
/// The least share that counts: a share of nothing would be an end that never comes.
const SHARE_LEAST: f64 = 1e-3;

/// A value that was looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Looked {
    /// The value.
    pub value: f64,
    /// The interval of later ones; `None`: not known.
    pub ends: Option<(f64, f64)>,
    /// Its age, seconds.
    pub age_s: f64,
    /// The newest one, if the value is the one that is forecast to come next.
    pub newest: Option<Newest>,
}

/// The value of a series that is forecast to come next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Next {
    /// The value.
    pub value: f64,
    /// Its interval.
    pub ends: (f64, f64),
    /// It is of so many seconds after the newest one.
    pub step_s: f64,
}

impl Next {
    /// One with its interval; `None`: the interval is not known.
    pub fn with(value: f64, ends: Option<(f64, f64)>, step_s: f64) -> Option<Next> {
        Some(Next { value, ends: ends?, step_s })
    }
}

impl Looked {
    /// The next value of a series, where one is forecast with an interval, else the newest; `None`: there is neither.
    pub fn in_series(newest: Option<f64>, next: Option<Next>, age_s: f64) -> Option<Looked> {
        match next {
            Some(Next { value, ends, step_s }) => {
                let newest = newest.filter(|_| step_s > 0.0).map(|value| Newest { value, step_s });
                Some(Looked { value, ends: Some(ends), age_s, newest })
            }
            None => newest.map(|value| Looked { value, ends: None, age_s, newest: None }),
        }
    }

    /// As a figure.
    pub fn figure(self) -> Figure {
        let quantity = Quantity::with(self.value, self.ends);
        Figure { quantity, age_s: Some(self.age_s), caution: None, newest: self.newest }
    }

    /// As the share of a processor.
    pub fn share(self) -> Figure {
        let within = |value: f64| value.clamp(SHARE_LEAST, 1.0);
        let ends = self.ends.map(|(lower, upper)| (within(lower), within(upper)));
        let newest = self.newest.map(|newest| Newest { value: within(newest.value), ..newest });
        Looked { value: within(self.value), ends, newest, ..self }.figure()
    }
}

impl Link {
    /// One that was looked at; an interval that is not known is that of one probe, with a caution that says so.
    pub fn looked(from: &str, to: &str, bandwidth_bytes_per_s: Looked, latency_s: Looked) -> Link {
        let mut missing = Vec::new();
        if bandwidth_bytes_per_s.ends.is_none() {
            missing.push("bandwidth is taken as within 10%, as that of transfers beside probes was");
        }
        if latency_s.ends.is_none() {
            missing.push("latency as half to twice that");
        }
        let caution =
            (!missing.is_empty()).then(|| format!("{from} to {to} was measured by one probe: {}", missing.join(", ")));
        let figure = |looked: Looked, around: (f64, f64)| {
            let looked = Looked { ends: looked.ends.or(Some(around)), ..looked };
            Figure { caution: caution.clone(), ..looked.figure() }
        };
        let (bandwidth, latency) = (bandwidth_bytes_per_s.value, latency_s.value);
        Link {
            from: from.to_owned(),
            to: to.to_owned(),
            bandwidth_bytes_per_s: figure(
                bandwidth_bytes_per_s,
                (bandwidth * (1.0 - ONE_PROBE), bandwidth * (1.0 + ONE_PROBE)),
            ),
            latency_s: figure(latency_s, (latency / ONE_LATENCY, latency * ONE_LATENCY)),
        }
    }
}
