//! The lead's clock by a node's clock, and how far that may be wrong.
//!
//! Every machine counts ticks of its own, from another beginning and at another rate. The lead asks a node for its time;
//! the node's answer was written between the question and its arrival, so the quickest of several exchanges says when,
//! to half of its way there and back (Cristian's method). Exchanges at the window's beginning and end give a line, which
//! takes out the drift between; until the end is known, both machines' own idea of a second gives its slope, and the
//! error grows with the distance from the exchange.
//!
//! An error stated here is a bound, not a standard deviation: what is proven with it is proven, as long as no clock is
//! set or slowed down within the window, which [`Relation::ended`] notices.
//!
//! Next: `align` and `verify`, which take the errors as uncertainties; `convert` for samples.

use serde::{Deserialize, Serialize};

/// Two machines' seconds, measured against clocks that are kept by crystals and by network time, differ by at most
/// this.
const RATE_ERROR_MAX: f64 = 1e-4;

/// One question of the lead and a node's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// The lead's clock when it asked.
    pub sent_ticks: u64,
    /// The node's clock in its answer.
    pub node_ticks: u64,
    /// The lead's clock when the answer was there.
    pub received_ticks: u64,
}

/// Two clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The lead's clock.
    pub lead_ticks: u64,
    /// The node's clock.
    pub node_ticks: u64,
    /// The lead's may have shown this much more or less.
    pub error_ticks: u64,
}

impl Reading {
    /// The reading that all exchanges allow, each clock's ticks per second as its own machine measured them; `None`
    /// without an exchange whose answer came after its question. If they contradict each other, a clock was set
    /// meanwhile, and the quickest one counts.
    pub fn of(exchanges: &[Exchange], lead_per_second: f64, node_per_second: f64) -> Option<Self> {
        let way = |one: &Exchange| one.received_ticks.checked_sub(one.sent_ticks);
        let timed = exchanges.iter().filter_map(|one| Some((way(one)?, *one)));
        let (way_ticks, best) = timed.clone().min_by_key(|(way, _)| *way)?;
        let (rate, rate_error) = rate_of(lead_per_second, node_per_second);
        // When the lead's clock showed what, at the moment of the best one's answer.
        let bounds = timed.map(|(_, one)| {
            let since = difference(one.node_ticks, best.node_ticks) * rate;
            let error = since.abs() * rate_error;
            (moved(one.sent_ticks, -since - error), moved(one.received_ticks, error - since))
        });
        let all = bounds.fold((best.sent_ticks, best.received_ticks), |all, one| (all.0.max(one.0), all.1.min(one.1)));
        let (from, to) = if all.0 <= all.1 { all } else { (best.sent_ticks, best.sent_ticks + way_ticks) };
        let width = to - from;
        Some(Reading { lead_ticks: from + width / 2, node_ticks: best.node_ticks, error_ticks: width.div_ceil(2) })
    }
}

/// The lead's ticks in one of the node's, and how far that may be off, as a share.
fn rate_of(lead_per_second: f64, node_per_second: f64) -> (f64, f64) {
    let rate = lead_per_second / node_per_second;
    if rate.is_finite() && rate > 0.0 { (rate, RATE_ERROR_MAX) } else { (1.0, 1.0) }
}

/// A moment on the lead's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The likeliest tick.
    pub ticks: u64,
    /// It may be this much earlier or later.
    pub error_ticks: u64,
}

/// A node's clock on the lead's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    start: Reading,
    end: Option<Reading>,
    /// The lead's ticks in one of the node's.
    rate: f64,
    /// How far the rate may be off, as a share.
    rate_error: f64,
}

impl Relation {
    /// The node reads the lead's own clock: they are one machine.
    pub const SAME: Relation = Relation {
        start: Reading { lead_ticks: 0, node_ticks: 0, error_ticks: 0 },
        end: None,
        rate: 1.0,
        rate_error: 0.0,
    };

    /// From the exchanges at a window's beginning; each clock's ticks per second as its own machine measured them.
    pub fn begun(start: Reading, lead_per_second: f64, node_per_second: f64) -> Self {
        let (rate, rate_error) = rate_of(lead_per_second, node_per_second);
        Relation { start, end: None, rate, rate_error }
    }

    /// With the exchanges at the window's end. `None`: the line through both has another slope than the machines' seconds
    /// allow, so one of the clocks was set, or stood still, and nothing is known of the times between.
    pub fn ended(&self, end: Reading) -> Option<Self> {
        if *self == Self::SAME {
            return Some(*self);
        }
        let node_span = difference(end.node_ticks, self.start.node_ticks);
        let lead_span = difference(end.lead_ticks, self.start.lead_ticks);
        let errors = (self.start.error_ticks + end.error_ticks) as f64;
        if node_span <= 0.0 || (lead_span - node_span * self.rate).abs() > errors + lead_span.abs() * self.rate_error {
            return None;
        }
        // Over a short window the line is less sure than the seconds, and both hold.
        let by_line = if lead_span > 0.0 { errors / lead_span } else { f64::INFINITY };
        Some(match by_line < self.rate_error {
            true => Relation { rate: lead_span / node_span, rate_error: by_line, end: Some(end), ..*self },
            false => Relation { end: Some(end), ..*self },
        })
    }

    /// The lead's clock at a moment of the node's.
    pub fn to_lead(&self, node_ticks: u64) -> Moment {
        if *self == Self::SAME {
            return Moment { ticks: node_ticks, error_ticks: 0 };
        }
        let near = self.nearest(|reading| reading.node_ticks.abs_diff(node_ticks));
        let passed = difference(node_ticks, near.node_ticks) * self.rate;
        let error = near.error_ticks as f64 + passed.abs() * self.rate_error;
        Moment { ticks: moved(near.lead_ticks, passed), error_ticks: error.ceil() as u64 }
    }

    /// The node's clock at a moment of the lead's.
    pub fn to_node(&self, lead_ticks: u64) -> u64 {
        if *self == Self::SAME {
            return lead_ticks;
        }
        let near = self.nearest(|reading| reading.lead_ticks.abs_diff(lead_ticks));
        moved(near.node_ticks, difference(lead_ticks, near.lead_ticks) / self.rate)
    }

    /// A duration on the node's clock in the lead's ticks.
    pub fn span(&self, node_ticks: u64) -> u64 {
        if *self == Self::SAME { node_ticks } else { (node_ticks as f64 * self.rate).round() as u64 }
    }

    /// As [`Relation::span`], of a mean or another fraction of ticks.
    pub fn span_of(&self, node_ticks: f64) -> f64 {
        node_ticks * self.rate
    }

    /// The same for a node that reads another clock: `convert` says what that one shows where the old one showed its
    /// argument, and `rate` of its ticks pass in one of the old.
    pub fn through(&self, rate: f64, convert: impl Fn(u64) -> u64) -> Self {
        let reading = |one: Reading| Reading { node_ticks: convert(one.node_ticks), ..one };
        Relation { start: reading(self.start), end: self.end.map(reading), rate: self.rate / rate, ..*self }
    }

    fn nearest(&self, distance: impl Fn(&Reading) -> u64) -> Reading {
        let later = self.end.filter(|end| distance(end) < distance(&self.start));
        later.unwrap_or(self.start)
    }
}

/// `a - b`, exact below 2^53.
fn difference(a: u64, b: u64) -> f64 {
    (i128::from(a) - i128::from(b)) as f64
}

/// A moment later or earlier; 0 stands for "never" everywhere, so no moment becomes 0.
fn moved(ticks: u64, by: f64) -> u64 {
    (i128::from(ticks) + by.round() as i128).clamp(1, i128::from(u64::MAX - 1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node whose clock began at `zero`, and runs at `rate` of the lead's.
    fn node_clock(zero: u64, rate: f64) -> impl Fn(u64) -> u64 {
        move |lead| zero + (lead as f64 * rate) as u64
    }

    fn exchange(sent: u64, there: u64, back: u64, clock: &impl Fn(u64) -> u64) -> Exchange {
        Exchange { sent_ticks: sent, node_ticks: clock(sent + there), received_ticks: sent + there + back }
    }

    #[test]
    fn the_quickest_exchange_counts_and_its_error_holds() {
        let clock = node_clock(5_000_000, 1.0);
        let rows = [
            ("even", vec![(100, 100)], 100),
            ("all the way there", vec![(200, 0)], 100),
            ("all the way back", vec![(0, 200)], 100),
            ("slow ones beside it", vec![(9_000, 100), (30, 10), (110, 7_000)], 20),
            ("held up on either way", vec![(9_000, 5), (3, 7_000)], 5),
            ("odd", vec![(3, 4)], 4),
        ];
        for (name, ways, error) in rows {
            let exchanges: Vec<Exchange> =
                ways.iter().map(|(there, back)| exchange(1_000, *there, *back, &clock)).collect();
            let reading = Reading::of(&exchanges, 1e9, 1e9).expect(name);
            assert_eq!(reading.error_ticks, error, "{name}");
            let truly = reading.node_ticks - 5_000_000;
            assert!(reading.lead_ticks.abs_diff(truly) <= error, "{name}: {reading:?}, truly {truly}");
        }
        assert_eq!(Reading::of(&[], 1e9, 1e9), None);
        let backwards = Exchange { sent_ticks: 10, node_ticks: 5, received_ticks: 9 };
        assert_eq!(Reading::of(&[backwards], 1e9, 1e9), None, "an answer before its question");
    }

    #[test]
    fn converted_moments_are_within_their_error() {
        for (zero, rate) in [(7_000_000_000_000, 1.0), (3, 1.2), (40, 0.999_97), (1 << 52, 0.833_3)] {
            let clock = node_clock(zero, rate);
            // The machines' own seconds are off by less than a ten-thousandth.
            let begin = 2_000_000_000;
            let (lead_rate, node_rate) = (2.0e9, 2.0e9 * rate * (1.0 + 3e-5));
            let read = |exchanges: &[Exchange]| Reading::of(exchanges, lead_rate, node_rate).unwrap();
            let start = read(&[exchange(begin, 20_000, 90_000, &clock), exchange(begin, 40_000, 30_000, &clock)]);
            let begun = Relation::begun(start, lead_rate, node_rate);
            let end = begin + 3_000_000_000;
            let end = read(&[exchange(end, 70_000, 10_000, &clock)]);
            let ended = begun.ended(end).expect("a clock that runs evenly");
            let mut errors = Vec::new();
            for relation in [begun, ended] {
                for lead in [begin - 500_000_000, begin + 35_000, begin + 1_500_000_000, begin + 3_100_000_000] {
                    let moment = relation.to_lead(clock(lead));
                    assert!(moment.ticks.abs_diff(lead) <= moment.error_ticks + 2, "{rate}: {lead} {moment:?}");
                    let back = relation.to_node(moment.ticks);
                    assert!(back.abs_diff(clock(lead)) <= 2, "{rate}: back to {back} from {}", clock(lead));
                    errors.push(moment.error_ticks);
                }
            }
            assert!(errors[6] < errors[2], "the end of the window makes the middle surer: {errors:?}");
        }
    }

    #[test]
    fn exchanges_that_contradict_each_other_leave_the_quickest() {
        let [before, after] = [node_clock(1_000, 1.0), node_clock(900_000, 1.0)];
        let both = [exchange(5_000, 40, 20, &before), exchange(6_000, 100, 100, &after)];
        let reading = Reading::of(&both, 1e9, 1e9).unwrap();
        assert_eq!((reading.lead_ticks, reading.node_ticks, reading.error_ticks), (5_030, 6_040, 30));
    }

    #[test]
    fn a_clock_that_was_set_is_noticed() {
        let clock = node_clock(1_000, 1.0);
        let read = |at| Reading::of(&[exchange(at, 50, 50, &clock)], 1e9, 1e9).unwrap();
        let start = read(1_000_000);
        let begun = Relation::begun(start, 1e9, 1e9);
        let end = read(900_000_000);
        assert!(begun.ended(end).is_some());
        let jumped = Reading { node_ticks: end.node_ticks + 1_000_000, ..end };
        assert_eq!(begun.ended(jumped), None);
        let back = Reading { node_ticks: start.node_ticks - 1, ..end };
        assert_eq!(begun.ended(back), None);
    }

    #[test]
    fn one_machine_has_no_error() {
        let far = Reading { lead_ticks: 1, node_ticks: u64::MAX, error_ticks: 9 };
        let same = Relation::SAME.ended(far).unwrap();
        assert_eq!(same.to_lead(u64::MAX - 7), Moment { ticks: u64::MAX - 7, error_ticks: 0 });
        assert_eq!((same.to_node(12), same.span(u64::MAX - 1)), (12, u64::MAX - 1));
    }
}
