//! Lines of a link between its changes of protocol, with intervals.
//!
//! Breaks are chosen by Schwarz's criterion (1978) on Huber's measure of relative deviations. Intervals come from points drawn
//! anew around their times, by their errors and by what they lie off the line. Next: `line`, which fits one.

use crate::error::Error;
use crate::line::{Line, line, measure};
use crate::random::Random;
use crate::sample::{Point, Sample, middle, points};
use schemars::JsonSchema;
use serde::Serialize;

/// Sizes that a line needs,
const SIZES_MIN: usize = 4;
/// and the largest of them over the smallest, where one byte is the smallest that counts.
const RATIO_MIN: u64 = 8;
/// Sizes on each side of a break.
const SIDE_MIN: usize = 4;
/// Changes of protocol that are looked for.
const BREAKS_MAX: usize = 2;
/// Numbers that a break adds: where, and a line.
const BREAK_NUMBERS: f64 = 3.0;
/// Times of a size are never known better than this share.
const USUAL_MIN: f64 = 0.01;
/// Draws of all points.
const DRAWS: usize = 199;
/// Ends of a 90% interval among them.
const ENDS: (usize, usize) = (9, 189);
/// The distance of the 95% quantile from the mean, in standard deviations of a normal distribution.
const QUANTILE_95: f64 = 1.644_853_6;
/// Messages below this are of one kind: a byte more or less doesn't count.
const SHORT_BYTES: f64 = 256.0;
/// Beyond the range the interval is wider by this share of the time for each doubling.
const WIDER: f64 = 0.1;

/// A number with its 90% interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The number.
    pub value: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

/// A time with its 90% interval, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "LinkTime")]
pub struct Time {
    /// The time.
    pub value_s: f64,
    /// Lower end.
    pub lower_s: f64,
    /// Upper end.
    pub upper_s: f64,
    /// The size lies beyond those that were seen: the interval is wider.
    pub is_outside: bool,
}

/// The messages of one protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// Smallest size that was seen of it.
    pub from_bytes: u64,
    /// Largest.
    pub to_bytes: u64,
    /// Time of a message of one byte on this line, o + L + o, seconds.
    pub latency_s: Figure,
    /// G, time of each further byte, seconds; `None`: the sizes don't tell it from 0.
    pub gap_s_per_byte: Option<Figure>,
}

/// A change of protocol, between two sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Break {
    /// Largest size seen before it.
    pub after_bytes: u64,
    /// Smallest size seen behind it.
    pub before_bytes: u64,
}

/// The parameters of LogGP of one pair of hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkFit {
    /// By size: of several, the first is what short messages take (eager), the later ones what longer ones do (rendezvous, or
    /// other changes on the way).
    pub segments: Vec<Segment>,
    /// Between them.
    pub breaks: Vec<Break>,
    /// o of the sender: time inside of the send of short messages, seconds; `None`: not seen.
    pub send_overhead_s: Option<f64>,
    /// o of the receiver: time inside of a receive of a short message that was there, seconds; `None`: no receive came so late.
    pub receive_overhead_s: Option<f64>,
    /// L, seconds: what is left of the time of a short message without both; `None`: one is not known, or they are all of it.
    pub wire_latency_s: Option<f64>,
    /// Messages that were timed.
    pub messages: u64,
    /// Their sizes.
    pub sizes: usize,
    /// Median deviation of a size's time from its line, as a share of the time.
    pub error_median: f64,
    /// Clocks of two hosts may add this to each time or take it away; 0: both directions were seen, which cancels it.
    pub clock_error_s: f64,
    #[serde(skip)]
    draws: Vec<Vec<Line>>,
    #[serde(skip)]
    lines: Vec<Line>,
}

/// Fits a pair of hosts.
///
/// # Errors
/// [`Error`]: the samples decide nothing.
pub fn fit(samples: &[Sample]) -> Result<LinkFit, Error> {
    let points = points(samples)?;
    if points.len() < SIZES_MIN {
        return Err(Error::TooFewSizes { sizes: points.len(), needed: SIZES_MIN });
    }
    let (least, most) = (points[0].bytes, points[points.len() - 1].bytes);
    if most < RATIO_MIN as f64 * least.max(1.0) {
        return Err(Error::TooAlike { least: least as u64, most: most as u64, ratio: RATIO_MIN });
    }
    let cuts = cuts(&points);
    let lines: Vec<Line> = parts(&points, &cuts).map(line).collect();
    let mut off: Vec<f64> =
        parts(&points, &cuts).zip(&lines).flat_map(|(part, line)| part.iter().map(|one| line.off(one).abs())).collect();
    let error_median = middle(&mut off).unwrap_or(0.0);
    let draws = draws(&points, &cuts, &lines, 1.4826 * error_median);
    let segment = |(number, part): (usize, &[Point])| {
        let latency_s = figure(lines[number].latency_s, draws.iter().map(|draw| draw[number].latency_s));
        let gap = figure(lines[number].gap_s, draws.iter().map(|draw| draw[number].gap_s));
        let gap_s_per_byte = (gap.value > 0.0 && gap.lower > 0.0).then_some(gap);
        let (from_bytes, to_bytes) = (part[0].bytes.round() as u64, part[part.len() - 1].bytes.round() as u64);
        Segment { from_bytes, to_bytes, latency_s, gap_s_per_byte }
    };
    let segments: Vec<Segment> = parts(&points, &cuts).enumerate().map(segment).collect();
    let pairs = segments.windows(2);
    let breaks = pairs.map(|pair| Break { after_bytes: pair[0].to_bytes, before_bytes: pair[1].from_bytes }).collect();
    let short = &points[..cuts.first().copied().unwrap_or(points.len()).min(SIDE_MIN)];
    let short_of = |of: &dyn Fn(&Point) -> Option<f64>| middle(&mut short.iter().filter_map(of).collect::<Vec<f64>>());
    let (send_overhead_s, receive_overhead_s) = (short_of(&|one| one.send_s), short_of(&|one| one.receive_s));
    let left_s = |send_s: f64, receive_s: f64| lines[0].latency_s - send_s - receive_s;
    let wire_latency_s = send_overhead_s.zip(receive_overhead_s).map(|(send_s, receive_s)| left_s(send_s, receive_s));
    Ok(LinkFit {
        segments,
        breaks,
        send_overhead_s,
        receive_overhead_s,
        wire_latency_s: wire_latency_s.filter(|left_s| *left_s > 0.0),
        messages: points.iter().map(|point| point.messages).sum(),
        sizes: points.len(),
        error_median,
        clock_error_s: points.iter().map(|point| point.error_s).fold(0.0, f64::max),
        draws,
        lines,
    })
}

impl LinkFit {
    /// Time of a message, from its send's entry to the return of a receive that had been called before.
    ///
    /// # Errors
    /// [`Error::NoNumber`]: so many bytes can't be.
    pub fn time(&self, bytes: f64) -> Result<Time, Error> {
        if !(bytes.is_finite() && bytes >= 0.0) {
            return Err(Error::NoNumber { what: "the size of a message" });
        }
        let places = self.places(bytes);
        let value =
            |lines: &[Line]| places.iter().map(|place| lines[*place].at(bytes)).sum::<f64>() / places.len() as f64;
        let ends = figure(value(&self.lines), self.draws.iter().map(|draw| value(draw)));
        let of_places = places.iter().map(|place| self.lines[*place].at(bytes));
        let (low, high) = of_places.fold((ends.lower, ends.upper), |(low, high), time| (low.min(time), high.max(time)));
        let usual = QUANTILE_95 * 1.4826 * self.error_median * ends.value;
        let doublings = self.beyond(bytes);
        let wider = WIDER * doublings * ends.value;
        Ok(Time {
            value_s: ends.value,
            lower_s: (ends.value - (ends.value - low).hypot(usual) - wider).max(0.0),
            upper_s: ends.value + (high - ends.value).hypot(usual) + wider,
            is_outside: doublings > 0.0,
        })
    }

    /// The lines that are asked: of a size within a break both, as nobody knows on which side it lies.
    fn places(&self, bytes: f64) -> Vec<usize> {
        let last = self.segments.len() - 1;
        let first = self.segments.iter().position(|segment| bytes <= segment.to_bytes as f64).unwrap_or(last);
        let is_between = first > 0 && bytes < self.segments[first].from_bytes as f64;
        if is_between { vec![first - 1, first] } else { vec![first] }
    }

    /// Doublings from the sizes that were seen.
    fn beyond(&self, bytes: f64) -> f64 {
        let least = self.segments[0].from_bytes.max(1) as f64;
        let most = self.segments[self.segments.len() - 1].to_bytes.max(1) as f64;
        let below = if least > SHORT_BYTES { (least / bytes.max(1.0)).log2() } else { 0.0 };
        (bytes.max(1.0) / most).log2().max(below).max(0.0)
    }
}

fn parts<'a>(points: &'a [Point], cuts: &'a [usize]) -> impl Iterator<Item = &'a [Point]> {
    let from = std::iter::once(0).chain(cuts.iter().copied());
    let to = cuts.iter().copied().chain(std::iter::once(points.len()));
    from.zip(to).map(|(from, to)| &points[from..to])
}

/// Where lines end: positions of the first point behind each break.
fn cuts(points: &[Point]) -> Vec<usize> {
    let count = points.len();
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for first in SIDE_MIN..=count.saturating_sub(SIDE_MIN) {
        all.push(vec![first]);
        let second = first + SIDE_MIN..=count.saturating_sub(SIDE_MIN);
        all.extend(second.map(|second| vec![first, second]));
    }
    debug_assert!(all.iter().all(|cuts| cuts.len() <= BREAKS_MAX));
    let usual = usual(points);
    let score = |cuts: &Vec<usize>| {
        let of_part = |part: &[Point]| {
            let found = line(part);
            part.iter().map(|point| measure(found.off(point), usual)).sum::<f64>()
        };
        let misfit: f64 = parts(points, cuts).map(of_part).sum();
        misfit + BREAK_NUMBERS * cuts.len() as f64 * (count as f64).ln()
    };
    all.into_iter()
        .map(|cuts| (score(&cuts), cuts))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(Vec::new(), |best| best.1)
}

/// The relative deviation that a point usually has: by its own error, and by how it lies between its two neighbours, where a line
/// would lead through on any protocol.
fn usual(points: &[Point]) -> f64 {
    let scale_s = |point: &Point| point.time_s.max(point.floor_s);
    let mut own: Vec<f64> = points.iter().map(|point| point.deviation_s / scale_s(point)).collect();
    let between = points.windows(3).map(|three| {
        let share = (three[1].bytes - three[0].bytes) / (three[2].bytes - three[0].bytes);
        let through = three[0].time_s + share * (three[2].time_s - three[0].time_s);
        ((three[1].time_s - through) / scale_s(&three[1]).max(through)).abs()
    });
    let mut between: Vec<f64> = between.collect();
    middle(&mut own).unwrap_or(0.0).max(middle(&mut between).unwrap_or(0.0)).max(USUAL_MIN)
}

/// Lines through points that are drawn anew.
fn draws(points: &[Point], cuts: &[usize], lines: &[Line], usual: f64) -> Vec<Vec<Line>> {
    let mut random = Random::new(points.len() as u64);
    let mut draw = || {
        let clocks = random.normal() / QUANTILE_95;
        let mut drawn = points.to_vec();
        let fitted = parts(points, cuts).zip(lines).flat_map(|(part, line)| part.iter().map(|one| line.at(one.bytes)));
        for (point, fitted_s) in drawn.iter_mut().zip(fitted.collect::<Vec<f64>>()) {
            let deviation_s = point.deviation_s.hypot(usual * fitted_s);
            let time_s = fitted_s + random.normal() * deviation_s + clocks * point.error_s;
            point.time_s = time_s.max(0.1 * fitted_s).max(f64::MIN_POSITIVE);
        }
        parts(&drawn, cuts).map(line).collect::<Vec<Line>>()
    };
    (0..DRAWS).map(|_| draw()).collect()
}

fn figure(value: f64, drawn: impl Iterator<Item = f64>) -> Figure {
    let mut drawn: Vec<f64> = drawn.collect();
    drawn.sort_by(f64::total_cmp);
    let end = |place: usize| drawn.get(place.min(drawn.len().saturating_sub(1))).copied().unwrap_or(value);
    Figure { value, lower: end(ENDS.0).min(value), upper: end(ENDS.1).max(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(bytes: u64, median_s: f64) -> Sample {
        Sample {
            bytes,
            is_forward: true,
            messages: 20,
            low_s: median_s * 0.99,
            median_s,
            high_s: median_s * 1.02,
            send_s: Some(2e-6),
            receive_s: None,
            error_s: 0.0,
        }
    }

    fn sizes() -> impl Iterator<Item = u64> {
        (3..=22).map(|power| 1u64 << power)
    }

    #[test]
    fn a_line_is_found_again_whatever_some_sizes_do() {
        let time = |bytes: u64| 40e-6 + (bytes - 1) as f64 * 0.8e-9;
        let mut samples: Vec<Sample> = sizes().map(|bytes| sample(bytes, time(bytes))).collect();
        samples[4].median_s *= 9.0;
        samples[11].median_s *= 3.0;
        let found = fit(&samples).expect("a fit");
        assert_eq!(found.breaks, [], "{:?}", found.segments);
        let of = &found.segments[0];
        assert!((of.latency_s.value / 40e-6 - 1.0).abs() < 0.03, "{of:?}");
        let gap = of.gap_s_per_byte.expect("a gap");
        assert!((gap.value / 0.8e-9 - 1.0).abs() < 0.03 && gap.lower < 0.8e-9 && gap.upper > 0.8e-9, "{gap:?}");
        assert_eq!((found.send_overhead_s, found.receive_overhead_s, found.wire_latency_s), (Some(2e-6), None, None));
    }

    #[test]
    fn a_change_of_protocol_is_a_break() {
        let time = |bytes: u64| {
            let (latency, gap) = if bytes <= 65_536 { (30e-6, 0.2e-9) } else { (150e-6, 0.1e-9) };
            latency + (bytes - 1) as f64 * gap
        };
        let samples: Vec<Sample> = sizes().map(|bytes| sample(bytes, time(bytes))).collect();
        let found = fit(&samples).expect("a fit");
        assert_eq!(found.breaks, [Break { after_bytes: 65_536, before_bytes: 131_072 }], "{found:?}");
        let latencies: Vec<f64> = found.segments.iter().map(|segment| segment.latency_s.value).collect();
        assert!(
            (latencies[0] / 30e-6 - 1.0).abs() < 0.03 && (latencies[1] / 150e-6 - 1.0).abs() < 0.03,
            "{latencies:?}"
        );
        let within = found.time(100_000.0).expect("a time");
        assert!(within.lower_s <= 51e-6 && within.upper_s >= 159e-6, "either protocol: {within:?}");
    }

    #[test]
    fn both_directions_cancel_what_clocks_differ_by() {
        let time = |bytes: u64| 100e-6 + bytes as f64 * 1e-9;
        let both = sizes().flat_map(|bytes| {
            let of = |is_forward, off| Sample { is_forward, error_s: 60e-6, ..sample(bytes, time(bytes) + off) };
            [of(true, 50e-6), of(false, -50e-6)]
        });
        let found = fit(&both.collect::<Vec<_>>()).expect("a fit");
        let latency = found.segments[0].latency_s;
        assert!((latency.value / 100e-6 - 1.0).abs() < 0.03 && found.clock_error_s == 0.0, "{found:?}");
        let one: Vec<Sample> =
            sizes().map(|bytes| Sample { error_s: 60e-6, ..sample(bytes, time(bytes) + 50e-6) }).collect();
        let found = fit(&one).expect("a fit");
        let latency = found.segments[0].latency_s;
        assert!(found.clock_error_s == 60e-6 && latency.upper - latency.lower > 60e-6, "widened: {found:?}");
    }

    #[test]
    fn short_messages_that_a_bucket_lets_through_do_not_bend_the_line() {
        let rows = [(2048, 20e-6), (16_384, 11.4e-3), (65_536, 53.3e-3), (196_608, 164e-3)];
        let samples: Vec<Sample> = rows.map(|(bytes, time)| Sample { error_s: 732e-6, ..sample(bytes, time) }).into();
        let found = fit(&samples).expect("a fit");
        let time = found.time(196_608.0).expect("a time");
        assert!((time.value_s / 164e-3 - 1.0).abs() < 0.1, "{time:?} {:?}", found.segments);
        assert!(found.segments[0].gap_s_per_byte.is_some(), "{:?}", found.segments);
    }

    #[test]
    fn too_little_is_refused() {
        let few: Vec<Sample> = [8, 64, 512].map(|bytes| sample(bytes, 1e-5)).into();
        assert_eq!(fit(&few), Err(Error::TooFewSizes { sizes: 3, needed: 4 }));
        let alike: Vec<Sample> = [1000, 1100, 1200, 1300].map(|bytes| sample(bytes, 1e-5)).into();
        assert_eq!(fit(&alike), Err(Error::TooAlike { least: 1000, most: 1300, ratio: 8 }));
        let wrong: Vec<Sample> = [8, 64, 512, 4096].map(|bytes| sample(bytes, f64::NAN)).into();
        assert!(matches!(fit(&wrong), Err(Error::NoNumber { .. })));
        let flat: Vec<Sample> = sizes().take(6).map(|bytes| sample(bytes, 1e-5)).collect();
        let found = fit(&flat).expect("a fit");
        assert_eq!(found.segments[0].gap_s_per_byte, None, "short messages say nothing of the time of a byte");
        assert!(found.time(f64::NAN).is_err() && found.time(-1.0).is_err());
    }

    #[test]
    fn beyond_the_sizes_the_interval_grows() {
        let samples: Vec<Sample> = sizes().map(|bytes| sample(bytes, 1e-5 + bytes as f64 * 1e-9)).collect();
        let found = fit(&samples).expect("a fit");
        let width = |bytes: f64| {
            let time = found.time(bytes).expect("a time");
            ((time.upper_s - time.lower_s) / time.value_s, time.is_outside)
        };
        let (inside, two, eight) = (width(4e6), width(8.5e6), width(34e6));
        assert!(!inside.1 && two.1 && eight.1 && inside.0 < two.0 && two.0 < eight.0, "{inside:?} {two:?} {eight:?}");
    }

    proptest! {
        #[test]
        fn no_samples_break_it(
            rows in proptest::collection::vec((0u64..1 << 30, 0.0f64..10.0, 0u64..50, any::<bool>()), 0..40),
        ) {
            let of = |(bytes, median_s, messages, is_forward): &(u64, f64, u64, bool)| Sample {
                messages: *messages, is_forward: *is_forward, ..sample(*bytes, *median_s)
            };
            if let Ok(found) = fit(&rows.iter().map(of).collect::<Vec<Sample>>()) {
                for bytes in [0.0, 1.0, 1e3, 1e6, 1e9] {
                    let time = found.time(bytes).expect("a time");
                    prop_assert!(time.lower_s <= time.value_s && time.value_s <= time.upper_s, "{time:?}");
                    prop_assert!(time.upper_s.is_finite());
                }
            }
        }
    }
}
