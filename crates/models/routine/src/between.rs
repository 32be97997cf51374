//! Sizes between those that were measured: where terms miss measured values by more than noise does, as caches have it, values follow
//! their neighbours instead.
//!
//! Between two neighbours a value goes from one measured value to the other as the terms do: as a power of what they say. So it
//! never falls where terms and measured values do not. Places that were left out decide if neighbours are asked, and how far
//! they are believed, as they decide everything. Only one parameter has neighbours.
//!
//! Next: `model`, which asks; `crossed` for terms alone.

use crate::crossed::{coefficients, sum_at};
use crate::measured::Place;
use crate::term::Term;
use serde::{Deserialize, Serialize};

/// How far measured values may be believed: the rest of the way, by ratio, is the terms'.
const BELIEFS: [f64; 2] = [1.0, 0.5];
/// Neighbours are asked if squares of errors at left-out places are at most this share of those of terms alone.
const PAYS: f64 = 0.5;
/// Places that it is judged by, at least.
const JUDGED_MIN: usize = 3;

/// A size and the value that is taken there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Met {
    /// The size.
    pub size: f64,
    /// The value.
    pub value: f64,
}

/// Values to follow, and how far they are off at places that were left out, in parts of the places' scale.
pub(crate) struct Between {
    pub met: Vec<Met>,
    pub errors: Vec<f64>,
}

/// Neighbours for these terms; `None`: terms alone do better, or about as well. `places` are of one parameter, by size; `sides` are
/// the places next to them, in other parts of the range.
pub(crate) fn between(terms: &[Term], found: &[f64], places: &[&Place], sides: [Option<&Place>; 2]) -> Option<Between> {
    let is_of_one = places.iter().all(|place| place.at.len() == 1);
    let is_rising = terms.iter().all(|term| term.factors.iter().all(|factor| factor.power >= 0.0));
    if !is_of_one || !is_rising {
        return None;
    }
    let squares = |errors: &[f64]| errors.iter().map(|error| error * error).sum::<f64>();
    let alone = left_out(terms, places, sides, 0.0);
    let tried = BELIEFS.map(|belief| (belief, left_out(terms, places, sides, belief)));
    let (belief, errors) = tried.into_iter().min_by(|one, other| squares(&one.1).total_cmp(&squares(&other.1)))?;
    let is_better = errors.len() >= JUDGED_MIN && squares(&errors) < PAYS * squares(&alone);
    is_better.then(|| Between { met: met(terms, found, places, belief), errors })
}

/// Errors at each place that has others on both sides, told from the others.
fn left_out(terms: &[Term], places: &[&Place], [before, after]: [Option<&Place>; 2], belief: f64) -> Vec<f64> {
    let measured = |place: &Place| Met { size: place.at[0], value: place.value };
    let error = |number: usize| {
        let place = places[number];
        let kept: Vec<&Place> =
            places.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, place)| *place).collect();
        let found = coefficients(terms, &kept);
        let inner = met(terms, &found, &kept, belief);
        let all: Vec<Met> = before.map(measured).into_iter().chain(inner).chain(after.map(measured)).collect();
        // Beside another part of the range these terms say nothing of the way.
        let is_inner = number > 0 && number + 1 < places.len();
        let said = match is_inner {
            true => at(&all, &|size| sum_at(terms, &found, &[size]), place.at[0]),
            false => at(&all, &|size| size, place.at[0]),
        };
        Some((said? - place.value) / place.scale)
    };
    (0..places.len()).filter_map(error).collect()
}

/// Values at places: as measured, by belief; where they fall with the size, their mean.
fn met(terms: &[Term], found: &[f64], places: &[&Place], belief: f64) -> Vec<Met> {
    let value = |place: &&Place| {
        let by_terms = sum_at(terms, found, &place.at).max(f64::MIN_POSITIVE);
        by_terms * (place.value / by_terms).powf(belief)
    };
    let values = rising(places.iter().map(value));
    places.iter().zip(values).map(|(place, value)| Met { size: place.at[0], value }).collect()
}

/// The nearest values that never fall: neighbours that do are put together (pool adjacent violators), by ratio.
fn rising(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut last = (value.ln(), 1);
        while let Some(before) = pools.pop_if(|before| before.0 > last.0) {
            let count = before.1 + last.1;
            last = ((before.0 * before.1 as f64 + last.0 * last.1 as f64) / count as f64, count);
        }
        pools.push(last);
    }
    pools.into_iter().flat_map(|(value, count)| std::iter::repeat_n(value.exp(), count)).collect()
}

/// The value at a size between two neighbours; `None`: it lies outside of all.
pub(crate) fn at(met: &[Met], by_terms: &impl Fn(f64) -> f64, size: f64) -> Option<f64> {
    let above = met.iter().position(|met| met.size >= size)?;
    if met[above].size == size {
        return Some(met[above].value);
    }
    let (one, other) = (met[above.checked_sub(1)?], met[above]);
    let way = |of: &dyn Fn(f64) -> f64| {
        let (from, here, to) = (of(one.size).ln(), of(size).ln(), of(other.size).ln());
        let share = (here - from) / (to - from);
        share.is_finite().then_some(share.clamp(0.0, 1.0))
    };
    let share = way(by_terms).or_else(|| way(&|size| size)).unwrap_or(0.5);
    Some(one.value * (other.value / one.value).powf(share))
}

/// The value between two parts of the range, where a break lies somewhere: half of the way by ratio at half of the way.
pub(crate) fn across(lower: Met, upper: Met, size: f64) -> Option<f64> {
    at(&[lower, upper], &|size| size, size).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Factor;

    fn place(size: f64, value: f64) -> Place {
        Place { at: vec![size], value, scale: value }
    }

    fn linear() -> Vec<Term> {
        vec![Term { factors: vec![Factor { parameter: 0, power: 1.0, logs: 0 }] }]
    }

    /// Twice the time above a size, which comes over some doublings, as with a cache that holds less and less of the data.
    fn cache(size: f64) -> f64 {
        size * (1.0 + 1.0 / (1.0 + (1000.0 / size).powi(2)))
    }

    #[test]
    fn neighbours_are_asked_where_terms_miss_by_more_than_noise() {
        let places: Vec<Place> =
            (0..12).map(|at| 60.0 * 1.7_f64.powi(at)).map(|size| place(size, cache(size))).collect();
        let places: Vec<&Place> = places.iter().collect();
        let found = coefficients(&linear(), &places);
        let between = between(&linear(), &found, &places, [None; 2]).expect("terms are far off");
        for size in [100.0, 700.0, 1300.0, 5000.0] {
            let said = at(&between.met, &|size| found[0] * size, size).expect("inside");
            assert!((said / cache(size) - 1.0).abs() < 0.03, "{size}: {said} of {}", cache(size));
        }
        assert_eq!(at(&between.met, &|size| size, 1e9), None);
    }

    #[test]
    fn noise_is_left_to_the_terms() {
        let is_followed = |seed: u64| {
            let mut state = seed;
            let mut noise = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 33) as f64 / f64::from(1_u32 << 31) - 0.5) * 0.04
            };
            let places: Vec<Place> =
                (0..12).map(|at| 60.0 * 1.7_f64.powi(at)).map(|size| place(size, size * (1.0 + noise()))).collect();
            let places: Vec<&Place> = places.iter().collect();
            let found = coefficients(&linear(), &places);
            between(&linear(), &found, &places, [None; 2]).is_some()
        };
        // Chance lets neighbours look twice as good now and then; they are within the noise all the same.
        let followed = (0..40).filter(|seed| is_followed(*seed)).count();
        assert!(followed <= 3, "{followed} of 40");
    }

    #[test]
    fn a_part_of_the_range_has_neighbours_in_other_parts() {
        let places: Vec<Place> = [(1.0, 1.0), (2.0, 8.0), (4.0, 20.0), (8.0, 50.0), (16.0, 100.0)]
            .map(|(size, value)| place(size, value))
            .into();
        let inner: Vec<&Place> = places[1..4].iter().collect();
        let alone = left_out(&linear(), &inner, [None; 2], 1.0);
        let beside = left_out(&linear(), &inner, [Some(&places[0]), Some(&places[4])], 1.0);
        assert_eq!((alone.len(), beside.len()), (1, 3));
        // 8 is told from 1 and 20 on both sides of it: half of the way by ratio.
        assert!((beside[0] - (20.0_f64.sqrt() - 8.0) / 8.0).abs() < 1e-9, "{beside:?}");
    }

    #[test]
    fn values_never_fall() {
        let close =
            |one: &[f64], other: &[f64]| one.iter().zip(other).all(|(one, other)| (one / other - 1.0).abs() < 1e-9);
        assert!(close(&rising([1.0, 4.0, 1.0, 3.0].into_iter()), &[1.0, 2.0, 2.0, 3.0]));
        assert!(close(&rising([8.0, 4.0, 2.0].into_iter()), &[4.0, 4.0, 4.0]));
    }
}
