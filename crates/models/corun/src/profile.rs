//! A program's answer to pressure on resources, and the pressure that it makes itself: known before it meets another one.
//!
//! After Bubble-Up (J. Mars, L. Tang, R. Hundt, K. Skadron, M. L. Soffa, MICRO 2011): a probe presses at known levels beside the
//! program, which gives a curve of slowdowns; and the probe's own slowdown beside the program, put into the curve that the
//! probe has beside itself, gives the level at which the program presses.
//!
//! Next: `pace`, which takes the answer at the level of those who are there.

use crate::between::Between;
use serde::{Deserialize, Serialize};

/// Levels above the highest that was probed are not told further than to this many times it.
const BEYOND_MAX: f64 = 2.0;
/// A probe is not the program that comes: its pressure is steady, and the same for every rank. The answer to another program with
/// the same level is taken as within this share of the slowdown; nobody has measured how often that holds.
const FOREIGN: f64 = 0.05;

/// Where probes ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On the program's own processors, in turns with it.
    Upon,
    /// On other processors of the same node, at the same time.
    Beside,
}

/// A figure at a level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The level, from 0 to 1: the share of each probed processor's time in which the probe pressed.
    pub level: f64,
    /// Time beside it over time without it.
    pub slowdown: Between,
}

/// Slowdown by level; at level 0 it is 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// By level, ascending.
    pub points: Vec<Point>,
}

impl Curve {
    /// Of points in any order.
    pub fn new(mut points: Vec<Point>) -> Curve {
        points.sort_by(|a, b| a.level.total_cmp(&b.level));
        Curve { points }
    }

    /// The slowdown at a level, between the points or along the last two of them. Without an interval where a point has none.
    pub fn at(&self, level: f64) -> Between {
        let of = |value: fn(&Point) -> Option<f64>| along(self.pairs(value)?, level).map(|found| found.max(1.0));
        let value = of(|point| Some(point.slowdown.value)).unwrap_or(1.0);
        let lower = of(|point| point.slowdown.ends.map(|ends| ends.0));
        let upper = of(|point| point.slowdown.ends.map(|ends| ends.1));
        Between { value, ends: lower.zip(upper).map(|(lower, upper)| (lower.min(value), upper.max(value))) }
    }

    /// The level at which the slowdown is so much, by the curve made to rise; 0 below it, and beyond its last point along the last
    /// two of them. `None`: it does not rise.
    pub fn level_of(&self, slowdown: f64) -> Option<f64> {
        let mut pairs = self.pairs(|point| Some(point.slowdown.value))?;
        for at in 1..pairs.len() {
            pairs[at].1 = pairs[at].1.max(pairs[at - 1].1);
        }
        let last = pairs.last()?;
        if last.1 <= 1.0 {
            return None;
        }
        let most = BEYOND_MAX * last.0;
        let segment = pairs.windows(2).find(|pair| pair[1].1 >= slowdown && pair[1].1 > pair[0].1);
        let [a, b] = match segment.or_else(|| pairs.windows(2).rev().find(|pair| pair[1].1 > pair[0].1))? {
            [a, b] => [*a, *b],
            _ => return None,
        };
        Some((a.0 + (slowdown - a.1) / (b.1 - a.1) * (b.0 - a.0)).clamp(0.0, most))
    }

    /// Levels and figures, with the 1 at level 0 before them.
    fn pairs(&self, value: impl Fn(&Point) -> Option<f64>) -> Option<Vec<(f64, f64)>> {
        let all = self.points.iter().map(|point| Some((point.level, value(point)?)));
        std::iter::once(Some((0.0, 1.0))).chain(all.filter(|pair| pair.is_none_or(|pair| pair.0 > 0.0))).collect()
    }
}

/// The line through points, ascending by their first number, at `place`; beyond the last one that of the last two.
fn along(pairs: Vec<(f64, f64)>, place: f64) -> Option<f64> {
    let most = BEYOND_MAX * pairs.last()?.0;
    let place = place.clamp(0.0, most);
    let [a, b] = match pairs.windows(2).find(|pair| pair[1].0 >= place).or_else(|| pairs.windows(2).last())? {
        [a, b] => [*a, *b],
        _ => return None,
    };
    Some(if b.0 > a.0 { a.1 + (place - a.0) / (b.0 - a.0) * (b.1 - a.1) } else { b.1 })
}

/// A resource beside processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Felt {
    /// The program's slowdown by the level of the probe, beyond that of a probe which only computes.
    pub slows: Curve,
    /// The level at which it presses itself.
    pub makes: Between,
}

/// A program's answer to pressure on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Where probes ran.
    pub place: Place,
    /// The processors of the program's ranks.
    pub processors: Vec<u32>,
    /// Slowdown by a probe that computes on each of them, by the share of each that it wants; `None`: probes were not there.
    pub sharing: Option<Curve>,
    /// The last cache.
    pub cache: Option<Felt>,
    /// Bandwidth to memory.
    pub memory: Option<Felt>,
}

/// A resource beside processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The last cache.
    Cache,
    /// Bandwidth to memory.
    Memory,
}

/// No probe slows anybody more than this many times.
const SLOWDOWN_MAX: f64 = 1e3;

impl Profile {
    /// True if all numbers can be: one that comes from elsewhere may be damaged.
    pub fn is_sound(&self) -> bool {
        let lies = |found: &Between, most: f64| {
            let (lower, upper) = found.ends.unwrap_or((found.value, found.value));
            0.0 <= lower && lower <= found.value && found.value <= upper && upper <= most
        };
        let rises = |curve: &Curve| {
            curve.points.is_sorted_by(|a, b| a.level < b.level)
                && curve
                    .points
                    .iter()
                    .all(|point| (0.0..=1.0).contains(&point.level) && lies(&point.slowdown, SLOWDOWN_MAX))
        };
        let felt = |felt: &Felt| rises(&felt.slows) && lies(&felt.makes, BEYOND_MAX);
        self.sharing.as_ref().is_none_or(rises) && [&self.cache, &self.memory].into_iter().flatten().all(felt)
    }

    /// The answer of one resource.
    pub fn felt(&self, resource: Resource) -> Option<&Felt> {
        match resource {
            Resource::Cache => self.cache.as_ref(),
            Resource::Memory => self.memory.as_ref(),
        }
    }

    /// Its slowdown by the cache and the memory that others use on its node; `None`: of it or one of them neither is known. Probes of
    /// both press on both, so that the larger of the two is taken, and both together are the upper end.
    pub fn beside(&self, others: &[&Profile]) -> Option<Between> {
        let of = |resource: Resource| {
            let own = self.felt(resource)?;
            let levels = others.iter().map(|other| {
                let part = other.processors.len() as f64 / self.processors.len().max(1) as f64;
                Some(other.felt(resource)?.makes.times(part))
            });
            let all: Vec<Between> = levels.collect::<Option<_>>()?;
            let sum = |end: fn(&Between) -> f64| all.iter().map(end).sum::<f64>();
            let lowest = own.slows.at(sum(|level| level.ends.map_or(level.value, |ends| ends.0)));
            let highest = own.slows.at(sum(|level| level.ends.map_or(level.value, |ends| ends.1)));
            let value = own.slows.at(sum(|level| level.value)).value;
            let lower = lowest.ends.map_or(lowest.value, |ends| ends.0).min(value);
            let upper = highest.ends.map_or(highest.value, |ends| ends.1).max(value);
            Some(Between { value, ends: Some((lower, upper)) })
        };
        match (of(Resource::Cache), of(Resource::Memory)) {
            (Some(cache), Some(memory)) => {
                let ends = cache.ends.zip(memory.ends).map(|(a, b)| (a.0.max(b.0), a.1 * b.1));
                Some(Between { value: cache.value.max(memory.value), ends })
            }
            (one, other) => one.or(other),
        }
    }

    /// How long its ranks keep a processor once they have it, over how long a probe does that computes all the time: 1 if they never
    /// give it away, less the more often they wait for each other. `expected` is what formula 2 says at each point of the curve.
    ///
    /// Beside the probe they lose a turn of the probe's for each wait, so what they lose in time over what they would by a fair share
    /// is how often they wait in a turn.
    pub(crate) fn keeps(&self, expected: &[f64]) -> Option<f64> {
        let (point, fair) = self.sharing.as_ref()?.points.last().zip(expected.last())?;
        let (lost, fair) = (point.slowdown.value - 1.0, fair - 1.0);
        (fair > 1e-6).then(|| (fair / lost.max(fair)).min(1.0))
    }

    /// Its slowdown by probes on its processors, where formula 2 says `by_formula`, and said `expected` at each point of its curve.
    pub fn sharing_at(&self, by_formula: f64, expected: &[f64]) -> Option<Between> {
        let curve = self.sharing.as_ref()?;
        // Where formula 2 sees no difference the probe was no burden.
        if expected.len() != curve.points.len() || expected.iter().all(|factor| *factor <= 1.0 + 1e-6) {
            return None;
        }
        let point = |(point, factor): (&Point, &f64)| Point { level: factor - 1.0, ..*point };
        let by_expected = Curve::new(curve.points.iter().zip(expected).map(point).collect());
        Some(by_expected.at(by_formula - 1.0))
    }
}

/// A slowdown by another program, where a probe that is like it slowed by so much.
pub(crate) fn by_another(found: Between) -> Between {
    let (lower, upper) = found.ends.unwrap_or((found.value, found.value));
    let wider = |end: f64, sign: f64| (1.0 + (end - 1.0) + sign * FOREIGN * found.value).max(1.0);
    Between { value: found.value, ends: Some((wider(lower, -1.0), wider(upper, 1.0))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, RankUse, Remaining};
    use crate::outlook::forecast;

    fn curve(points: &[(f64, f64)]) -> Curve {
        let point = |(level, value): &(f64, f64)| Point {
            level: *level,
            slowdown: Between { value: *value, ends: Some((value - 0.02, value + 0.02)) },
        };
        Curve::new(points.iter().map(point).collect())
    }

    #[test]
    fn damaged_profiles_are_not_sound() {
        let of = |points: &[(f64, f64)], level: f64| Profile {
            place: Place::Upon,
            processors: vec![0],
            sharing: None,
            cache: Some(felt(points, level)),
            memory: None,
        };
        assert!(of(&[(0.5, 1.1), (1.0, 1.2)], 0.5).is_sound());
        for (points, level) in [
            (&[(0.5, 1.1), (0.5, 1.2)][..], 0.5),
            (&[(1.5, 1.1)], 0.5),
            (&[(0.5, -1.1)], 0.5),
            (&[(0.5, f64::NAN)], 0.5),
            (&[(0.5, 1e9)], 0.5),
            (&[(0.5, 1.1)], -0.5),
            (&[(0.5, 1.1)], f64::INFINITY),
        ] {
            assert!(!of(points, level).is_sound(), "{points:?} {level}");
        }
    }

    fn felt(points: &[(f64, f64)], level: f64) -> Felt {
        Felt { slows: curve(points), makes: Between { value: level, ends: Some((0.8 * level, 1.2 * level)) } }
    }

    fn profile(memory: Option<Felt>, cache: Option<Felt>) -> Profile {
        Profile { place: Place::Upon, processors: vec![0, 1], sharing: None, cache, memory }
    }

    #[test]
    fn levels_between_points_lie_on_lines() {
        let curve = curve(&[(1.0, 1.6), (0.5, 1.2)]);
        for (level, wanted) in [(0.0, 1.0), (0.25, 1.1), (0.5, 1.2), (0.75, 1.4), (1.0, 1.6), (1.5, 2.0), (9.0, 2.4)] {
            assert!((curve.at(level).value - wanted).abs() < 1e-12, "{level}: {:?}", curve.at(level));
        }
        for (slowdown, wanted) in [(0.9, 0.0), (1.0, 0.0), (1.1, 0.25), (1.4, 0.75), (1.6, 1.0), (2.0, 1.5), (9.0, 2.0)]
        {
            let level = curve.level_of(slowdown).unwrap();
            assert!((level - wanted).abs() < 1e-12, "{slowdown}: {level}");
        }
        let (lower, upper) = curve.at(1.0).ends.unwrap();
        assert!((lower - 1.58).abs() < 1e-12 && (upper - 1.62).abs() < 1e-12);
    }

    #[test]
    fn a_curve_that_does_not_rise_has_no_level() {
        assert_eq!(curve(&[(0.5, 0.99), (1.0, 1.0)]).level_of(1.1), None);
        assert_eq!(Curve::default().level_of(1.1), None);
        // Noise that falls between two points is no way back.
        let found = curve(&[(0.25, 1.2), (0.5, 1.1), (1.0, 1.4)]).level_of(1.3).unwrap();
        assert!((0.5..1.0).contains(&found), "{found}");
        assert_eq!(curve(&[(1.0, 0.97)]).at(1.0).value, 1.0, "pressure speeds nobody up");
    }

    #[test]
    fn the_partner_s_level_says_the_slowdown() {
        let a = profile(Some(felt(&[(0.5, 1.1), (1.0, 1.4)], 0.2)), None);
        let b = profile(Some(felt(&[(1.0, 1.1)], 0.75)), None);
        let (of_a, of_b) = (a.beside(&[&b]).unwrap(), b.beside(&[&a]).unwrap());
        assert!((of_a.value - 1.25).abs() < 1e-12 && (of_b.value - 1.02).abs() < 1e-12, "{of_a:?} {of_b:?}");
        assert!(of_a.ends.is_some_and(|(lower, upper)| lower < 1.17 && upper > 1.33), "{of_a:?}");
        // Two of them press more than one.
        assert!(a.beside(&[&b, &b]).unwrap().value > of_a.value);
        assert_eq!(a.beside(&[&profile(None, None)]), None, "what was not probed is not known");
    }

    #[test]
    fn cache_and_memory_are_not_counted_twice() {
        let both = profile(Some(felt(&[(1.0, 1.4)], 1.0)), Some(felt(&[(1.0, 1.2)], 1.0)));
        let found = both.beside(&[&both]).unwrap();
        assert!(
            (found.value - 1.4).abs() < 1e-12 && found.ends.is_some_and(|(_, upper)| upper > 1.4 * 1.2),
            "{found:?}"
        );
    }

    #[test]
    fn jobs_that_give_their_processor_away_take_turns_or_have_processors_of_their_own() {
        let job = |name: &str, slowed: f64| Job {
            name: name.to_owned(),
            begins_s: 0.0,
            since_s: 0.0,
            remaining: Remaining::Exactly(100),
            alone_s: Ok(Between::exactly(1.0)),
            together_s: None,
            left_alone_by: None,
            ranks: Ok(vec![RankUse { host: "n1".to_owned(), processors: vec![0], wanted: 1.0, computing: Some(0.5) }]),
            profile: Some(Profile { sharing: Some(curve(&[(0.5, 1.6), (1.0, slowed)])), ..profile(None, None) }),
            met: Vec::new(),
        };
        let found = forecast(&[job("a", 100.0), job("b", 4.0)]).unwrap();
        let slowdown = |at: usize| found.jobs[at].slowdown.clone().unwrap();
        let (a, b) = (slowdown(0), slowdown(1));
        assert!((a.value - 34.0).abs() < 1e-9, "99 of the probe's turns over 3 waits in one: {a:?}");
        assert!(b.value < 1.1, "{b:?}");
        for one in [a, b] {
            let (lower, upper) = one.ends.unwrap();
            assert!(lower <= 2.0 && upper >= 2.0, "formula 2: {one:?}");
        }
    }

    #[test]
    fn the_answer_to_a_probe_is_found_at_what_formula_2_says() {
        let own = Profile { sharing: Some(curve(&[(0.5, 1.6), (1.0, 2.4)])), ..profile(None, None) };
        let at = |by_formula: f64| own.sharing_at(by_formula, &[1.5, 2.0]).unwrap().value;
        assert!((at(1.0) - 1.0).abs() < 1e-12 && (at(1.5) - 1.6).abs() < 1e-12 && (at(1.75) - 2.0).abs() < 1e-12);
        assert_eq!(own.sharing_at(1.5, &[1.0, 1.0]), None, "it had processors to spare");
        assert_eq!(profile(None, None).sharing_at(1.5, &[1.5, 2.0]), None);
    }
}
