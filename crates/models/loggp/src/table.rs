//! Collectives that were seen, by ranks and size.
//!
//! Between two sizes the time lies on a line through the logarithms of both. Next: `collective`, for those that nobody saw.

use crate::collective::Collective;
use crate::fit::Time;
use crate::sample::middle;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The distance of the 95% quantile from the median over that of the upper quartile, of a normal distribution.
const QUANTILE_OF_QUARTILE: f64 = 1.644_853_6 / 0.674_489_8;
/// So far beyond the sizes that were seen a time is told, as a ratio of sizes.
const BEYOND_MAX: f64 = 16.0;
/// Beyond, the interval is wider by this share for each doubling.
const WIDER: f64 = 0.25;

/// Collectives of one size, of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Which.
    pub collective: Collective,
    /// Ranks.
    pub ranks: u32,
    /// Bytes of a block.
    pub bytes: u64,
    /// Collectives.
    pub calls: u64,
    /// Lower quartile of their times, seconds.
    pub low_s: f64,
    /// Median.
    pub median_s: f64,
    /// Upper quartile.
    pub high_s: f64,
}

/// An answer from collectives that were seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Seen {
    /// The time.
    pub time: Time,
    /// Collectives that it rests on.
    pub calls: u64,
    /// Their smallest size.
    pub from_bytes: u64,
    /// Their largest size.
    pub to_bytes: u64,
}

/// All that were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    rows: BTreeMap<(Collective, u32), BTreeMap<u64, Row>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    calls: u64,
    value_s: f64,
    lower_s: f64,
    upper_s: f64,
}

impl Table {
    /// A table of what windows saw; rows with times that can't be are left out.
    pub fn new(recorded: &[Recorded]) -> Self {
        let mut by_size: BTreeMap<(Collective, u32), BTreeMap<u64, Vec<&Recorded>>> = BTreeMap::new();
        let can_be = |row: &&Recorded| {
            [row.low_s, row.median_s, row.high_s].iter().all(|time| time.is_finite() && *time > 0.0) && row.calls > 0
        };
        for row in recorded.iter().filter(can_be) {
            let sizes = by_size.entry((row.collective, row.ranks)).or_default();
            sizes.entry(row.bytes).or_default().push(row);
        }
        let of_size = |(bytes, rows): (u64, Vec<&Recorded>)| Some((bytes, row(&rows)?));
        let of_key = |(key, sizes): (_, BTreeMap<u64, Vec<&Recorded>>)| {
            (key, sizes.into_iter().filter_map(of_size).collect::<BTreeMap<u64, Row>>())
        };
        Table { rows: by_size.into_iter().map(of_key).collect() }
    }

    /// The time of a collective, if such ones were seen of as many ranks and of sizes that tell it.
    pub fn time(&self, collective: Collective, ranks: u32, bytes: f64) -> Option<Seen> {
        let sizes = self.rows.get(&(collective, ranks))?;
        let answer = |time: Time, rows: &[(u64, Row)]| {
            let calls = rows.iter().map(|(_, row)| row.calls).sum();
            Some(Seen { time, calls, from_bytes: rows.first()?.0, to_bytes: rows.last()?.0 })
        };
        let below = sizes.iter().rfind(|(size, _)| **size as f64 <= bytes).map(|(size, row)| (*size, *row));
        let above = sizes.iter().find(|(size, _)| **size as f64 >= bytes).map(|(size, row)| (*size, *row));
        match (below, above) {
            (Some(one), Some(other)) if one.0 == other.0 => answer(one.1.time(), &[one]),
            (Some(one), Some(other)) => {
                let share = share(bytes, one.0, other.0);
                answer(one.1.towards(&other.1, share).time(), &[one, other])
            }
            (Some(last), None) => {
                let before = sizes.iter().rev().nth(1).map(|(size, row)| (*size, *row));
                let beyond = bytes / last.0.max(1) as f64;
                answer(beyond_last(last, before, beyond)?, &[last])
            }
            (None, Some(first)) => {
                // Shorter ones take as long at most, and not much less where it is the number of messages that takes the time.
                let beyond = first.0 as f64 / bytes.max(1.0);
                (beyond <= BEYOND_MAX).then_some(())?;
                let time = first.1.time();
                let lower_s = time.lower_s * (1.0 - WIDER).powf(beyond.log2());
                answer(Time { lower_s, is_outside: true, ..time }, &[first])
            }
            (None, None) => None,
        }
    }
}

/// Where a size lies between two others, by logarithms.
fn share(bytes: f64, from: u64, to: u64) -> f64 {
    let log = |bytes: f64| bytes.max(1.0).log2();
    let (from, to) = (log(from as f64), log(to as f64));
    if to > from { (log(bytes) - from) / (to - from) } else { 0.0 }
}

/// Longer ones: along the line through the last two sizes, which never falls nor rises faster than the size.
fn beyond_last((size, last): (u64, Row), before: Option<(u64, Row)>, beyond: f64) -> Option<Time> {
    if size == 0 || !(beyond.is_finite() && beyond <= BEYOND_MAX) {
        return None;
    }
    let slope = before.filter(|(bytes, _)| *bytes > 0).map(|(bytes, row)| {
        let rise = (last.value_s / row.value_s).log2() / (size as f64 / bytes as f64).log2();
        rise.clamp(0.0, 1.0)
    });
    let (slow, fast) = (slope.unwrap_or(0.0), 1.0);
    let time = last.time();
    let value_s = time.value_s * beyond.powf(slope.unwrap_or(1.0));
    let wider = 1.0 + WIDER * beyond.log2();
    Some(Time {
        value_s,
        lower_s: (time.lower_s * beyond.powf(slow) / wider).min(value_s),
        upper_s: (time.upper_s * beyond.powf(fast) * wider).max(value_s),
        is_outside: true,
    })
}

fn row(rows: &[&Recorded]) -> Option<Row> {
    let mut medians: Vec<f64> = rows.iter().map(|row| row.median_s).collect();
    let value_s = middle(&mut medians)?;
    let least = rows.iter().map(|row| row.low_s).fold(value_s, f64::min);
    let most = rows.iter().map(|row| row.high_s).fold(value_s, f64::max);
    Some(Row {
        calls: rows.iter().map(|row| row.calls).sum(),
        value_s,
        // A time is never below its least one's share, whatever the quartiles.
        lower_s: (value_s - QUANTILE_OF_QUARTILE * (value_s - least)).max(0.5 * least),
        upper_s: value_s + QUANTILE_OF_QUARTILE * (most - value_s),
    })
}

impl Row {
    fn time(&self) -> Time {
        Time { value_s: self.value_s, lower_s: self.lower_s, upper_s: self.upper_s, is_outside: false }
    }

    fn towards(&self, other: &Row, share: f64) -> Row {
        let between = |one: f64, other: f64| one.powf(1.0 - share) * other.powf(share);
        Row {
            calls: self.calls + other.calls,
            value_s: between(self.value_s, other.value_s),
            lower_s: between(self.lower_s, other.lower_s),
            upper_s: between(self.upper_s, other.upper_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(bytes: u64, median_s: f64) -> Recorded {
        let (low_s, high_s) = (0.9 * median_s, 1.2 * median_s);
        Recorded { collective: Collective::Alltoall, ranks: 16, bytes, calls: 10, low_s, median_s, high_s }
    }

    fn table() -> Table {
        Table::new(&[recorded(1024, 1e-3), recorded(4096, 4e-3), recorded(4096, 4e-3), recorded(8, f64::NAN)])
    }

    #[test]
    fn sizes_that_were_seen_are_told_as_they_were() {
        let seen = table().time(Collective::Alltoall, 16, 4096.0).expect("a time");
        assert_eq!((seen.time.value_s, seen.time.is_outside, seen.calls), (4e-3, false, 20));
        assert!(seen.time.lower_s < 3.7e-3 && seen.time.upper_s > 5e-3, "{seen:?}");
    }

    #[test]
    fn sizes_between_lie_on_a_line_of_logarithms() {
        let seen = table().time(Collective::Alltoall, 16, 2048.0).expect("a time");
        assert!((seen.time.value_s - 2e-3).abs() < 1e-9, "{seen:?}");
        assert_eq!((seen.from_bytes, seen.to_bytes, seen.calls), (1024, 4096, 30));
    }

    #[test]
    fn sizes_beyond_are_flagged_and_widened_and_far_ones_refused() {
        let (near, far) = (table().time(Collective::Alltoall, 16, 8192.0), table().time(Collective::Alltoall, 16, 1e6));
        let near = near.expect("a time");
        assert!((near.time.value_s - 8e-3).abs() < 1e-9 && near.time.is_outside, "{near:?}");
        assert_eq!(far, None);
        let short = table().time(Collective::Alltoall, 16, 512.0).expect("a time");
        assert!(short.time.is_outside && short.time.lower_s < 0.6e-3, "{short:?}");
        assert_eq!(table().time(Collective::Alltoall, 16, 8.0), None);
    }

    #[test]
    fn other_ranks_or_functions_say_nothing() {
        assert_eq!(table().time(Collective::Alltoall, 8, 4096.0), None);
        assert_eq!(table().time(Collective::Bcast, 16, 4096.0), None);
        let barrier = Recorded { collective: Collective::Barrier, bytes: 0, ..recorded(0, 1e-4) };
        let seen = Table::new(&[barrier]).time(Collective::Barrier, 16, 0.0).expect("a time");
        assert_eq!((seen.time.value_s, seen.time.is_outside), (1e-4, false));
    }
}
