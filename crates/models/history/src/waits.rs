//! How long jobs wait, forecast as they are submitted, from the waits of jobs that had begun by then.
//!
//! Jobs alike share queue, ranks, request or user, and were submitted while as many others waited. The forecast is the median
//! of all their waits. The interval begins with quantiles of the nearest of them, and is moved by how far it was off lately where
//! forecasts were about as long: a wait of seconds may become one of days, one of hours hardly becomes one of years.
//!
//! Next: `bounds` for the interval, `backtest_waits` for judging.

use crate::accuracy::{LEAST_S, Weighed, quantile};
use crate::bounds::{Bound, Given};
use crate::job::Ask;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::iter;

/// Waits of jobs alike that are remembered, and how much each counts less than the one that began after it.
const KEPT: usize = 64;
const KEEP: f64 = 0.95;
/// Shares of waits below the ends of the interval.
const BELOW: f64 = 0.05;
const ABOVE: f64 = 0.95;
/// There is no interval until so many jobs have begun that were submitted while as many others waited, or more.
const LOAD_KNOWN_FROM: usize = 10;
/// The interval asks the nearest jobs alike: kind after kind, until it has so many waits.
const NEAR: usize = 16;
/// Forecasts are about as long if their logarithms to this base are, whole numbers up to the second.
const MAGNITUDE: u64 = 16;
const MAGNITUDES: u32 = 4;
/// The place of the kind of all jobs.
const ANY: u8 = 5;

/// Waits that a forecast rests on, by how the jobs are alike; one may be counted in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AlikeWaits {
    /// Same queue, size and requested time, and as many others waited.
    pub queue_size_time: usize,
    /// Same user and queue, and as many others waited.
    pub user_queue: usize,
    /// Same user, queue, size and requested time, however many others waited.
    pub user_queue_size_time: usize,
    /// Same queue and size, and as many others waited.
    pub queue_size: usize,
    /// Same queue, and as many others waited.
    pub queue: usize,
    /// As many others waited.
    pub load: usize,
}

/// Jobs alike: what they share, and how many others waited, as a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kin {
    place: u8,
    ask: Ask,
    waiting: u32,
}

/// Learns from jobs that have begun.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    begun: HashMap<Kin, VecDeque<f64>>,
    /// Jobs that have begun, by how many others waited.
    loads: BTreeMap<u32, usize>,
    low: Bound<u32>,
    high: Bound<u32>,
}

/// A forecast of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) wait_s: f64,
    ends: [Given; 2],
}

impl Waits {
    pub(crate) fn new() -> Self {
        Waits { begun: HashMap::new(), loads: BTreeMap::new(), low: Bound::new(BELOW), high: Bound::new(ABOVE) }
    }

    /// A forecast for a job that is submitted while so many others wait; `None`: no job has begun.
    pub(crate) fn forecast(&self, ask: &Ask, waiting: usize) -> Option<Wait> {
        let (mut alike, mut near) = (Vec::new(), Vec::new());
        for kin in kins(ask, waiting) {
            let waits = self.begun.get(&kin).into_iter().flatten();
            let weights = iter::successors(Some(1.0), |weight| Some(weight * KEEP));
            let weighed: Vec<Weighed> = waits.zip(weights).map(|(s, weight)| Weighed { s: *s, weight }).collect();
            if near.len() < NEAR {
                near.extend_from_slice(&weighed);
            }
            alike.extend(weighed);
        }
        if alike.is_empty() {
            alike = self.of_largest_load(waiting);
        }
        let in_order = |waits: &mut Vec<Weighed>| waits.sort_by(|a, b| a.s.total_cmp(&b.s));
        in_order(&mut alike);
        in_order(&mut near);
        let wait_s = quantile(&alike, 0.5)?;
        let is_known = self.loads.range(load(waiting)..).map(|(_, jobs)| jobs).sum::<usize>() >= LOAD_KNOWN_FROM;
        let end = |bound: &Bound<u32>| {
            let mut given = bound.around(wait_s, &near, magnitude(wait_s), None);
            given.s = given.s.filter(|_| is_known);
            given
        };
        let ends = [end(&self.low), end(&self.high)];
        Some(Wait { wait_s, ends })
    }

    /// Waits while the most others waited that ever did, of no more than now.
    fn of_largest_load(&self, waiting: usize) -> Vec<Weighed> {
        let largest = self.loads.range(..=load(waiting)).next_back().map(|(load, _)| *load);
        let waits = largest.and_then(|waiting| self.begun.get(&Kin { place: ANY, ask: Ask::default(), waiting }));
        waits.into_iter().flatten().map(|s| Weighed { s: *s, weight: 1.0 }).collect()
    }

    /// How many waits a forecast rests on.
    pub(crate) fn alike(&self, ask: &Ask, waiting: usize) -> AlikeWaits {
        let counts = kins(ask, waiting).map(|kin| self.begun.get(&kin).map_or(0, VecDeque::len));
        let [queue_size_time, user_queue, user_queue_size_time, queue_size, queue, load] = counts;
        AlikeWaits { queue_size_time, user_queue, user_queue_size_time, queue_size, queue, load }
    }

    /// How many jobs have begun.
    pub(crate) fn begun(&self) -> usize {
        self.loads.values().sum()
    }

    /// A job has begun, which was submitted while so many others waited.
    pub(crate) fn learn(&mut self, ask: &Ask, waiting: usize, wait_s: f64, forecast: Option<&Wait>) {
        if let Some(Wait { wait_s: forecast_s, ends: [low, high] }) = forecast {
            self.low.learn(*low, magnitude(*forecast_s), wait_s);
            self.high.learn(*high, magnitude(*forecast_s), wait_s);
            // Where many jobs do not wait at all nothing lies below: then more may lie above.
            if let Some(low_s) = low.s {
                self.high.count(wait_s.max(LEAST_S) < low_s, BELOW);
            }
        }
        *self.loads.entry(load(waiting)).or_default() += 1;
        for kin in kins(ask, waiting) {
            let waits = self.begun.entry(kin).or_default();
            waits.push_front(wait_s);
            waits.truncate(KEPT);
        }
    }
}

impl Wait {
    /// The ends of an interval that holds nine tenths of waits; `None`: too few jobs have begun, of all or of those
    /// that were submitted while as many others waited.
    pub(crate) fn interval_s(&self) -> Option<(f64, f64)> {
        let [low, high] = self.ends.map(|given| given.s);
        let high = high?.max(LEAST_S);
        Some((low?.min(high), high))
    }
}

/// How many others wait, as a power of two.
fn load(waiting: usize) -> u32 {
    (waiting + 1).ilog2()
}

fn magnitude(forecast_s: f64) -> u32 {
    (forecast_s.max(LEAST_S) as u64).ilog(MAGNITUDE).min(MAGNITUDES)
}

/// The nearest first.
fn kins(ask: &Ask, waiting: usize) -> [Kin; 6] {
    let load = load(waiting);
    let Ask { requested_s, ranks, user, queue, .. } = *ask;
    let any = Ask::default();
    let kin = |place, ask, waiting| Kin { place, ask, waiting };
    [
        kin(0, Ask { requested_s, ranks, queue, ..any }, load),
        kin(1, Ask { user, queue, ..any }, load),
        kin(2, Ask { user, ranks, queue, requested_s, ..any }, 0),
        kin(3, Ask { ranks, queue, ..any }, load),
        kin(4, Ask { queue, ..any }, load),
        kin(ANY, any, load),
    ]
}
