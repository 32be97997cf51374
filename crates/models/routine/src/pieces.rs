//! Ranges with a break: where data no longer fit into a cache or into memory, other terms hold.
//!
//! A break is taken only if it pays at places that were left out. Next: `search` for each piece.

use crate::measured::{Place, sizes_of};
use crate::search::{Chosen, blurred, choose};
use crate::term::Term;

/// Sizes of the parameter on each side of a break, at least.
const SIZES_MIN: usize = 4;
/// A break pays if errors with it are at most this share of those without.
const PAYS: f64 = 0.5;
/// Errors below this are not worth a break.
const GOOD_ENOUGH: f64 = 0.02;

/// A part of the range, and the terms that hold there.
#[derive(Clone, Debug)]
pub(crate) struct Part<'a> {
    /// By parameter: sizes above this,
    pub above: Vec<f64>,
    /// and up to this.
    pub up_to: Vec<f64>,
    pub places: Vec<&'a Place>,
    pub chosen: Chosen,
}

/// The parts of the range, at least one; `None`: no terms can be judged.
pub(crate) fn parts<'a>(places: Vec<&'a Place>, candidates: &[Term], noise: f64) -> Option<Vec<Part<'a>>> {
    let count = places.first()?.at.len();
    let chosen = choose(&places, candidates, noise)?;
    let whole = Part { above: vec![0.0; count], up_to: vec![f64::INFINITY; count], places, chosen };
    Some(split(whole, candidates, noise))
}

/// The part as it is, or in two or more.
fn split<'a>(part: Part<'a>, candidates: &[Term], noise: f64) -> Vec<Part<'a>> {
    let error = part.chosen.best.error(noise);
    if part.chosen.best.crossed.score() < GOOD_ENOUGH.max(noise) {
        return vec![part];
    }
    let halves =
        breaks(&part).into_iter().filter_map(|(parameter, at)| broken(&part, parameter, at, candidates, noise));
    match halves.min_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((with, [lower, upper])) if with < PAYS * error => {
            [split(lower, candidates, noise), split(upper, candidates, noise)].concat()
        }
        _ => vec![part],
    }
}

/// Between which sizes of which parameter there may be a break.
fn breaks(part: &Part<'_>) -> Vec<(usize, f64)> {
    let mut found = Vec::new();
    for parameter in 0..part.above.len() {
        let sizes = sizes_of(part.places.iter().map(|place| place.at[parameter]));
        if sizes.len() < 2 * SIZES_MIN {
            continue;
        }
        let middles = sizes.windows(2).map(|pair| (pair[0] * pair[1]).sqrt()).collect::<Vec<_>>();
        found.extend(middles[SIZES_MIN - 1..=middles.len() - SIZES_MIN].iter().map(|middle| (parameter, *middle)));
    }
    found
}

/// The two parts on both sides of a break, and their error together.
fn broken<'a>(
    part: &Part<'a>,
    parameter: usize,
    at: f64,
    candidates: &[Term],
    noise: f64,
) -> Option<(f64, [Part<'a>; 2])> {
    let (below, beyond): (Vec<&Place>, Vec<&Place>) =
        part.places.iter().copied().partition(|place| place.at[parameter] <= at);
    let (lower, upper) = (choose(&below, candidates, noise)?, choose(&beyond, candidates, noise)?);
    let error = blurred(lower.best.crossed.joined(&upper.best.crossed).score(), noise);
    let (mut above, mut up_to) = (part.above.clone(), part.up_to.clone());
    above[parameter] = at;
    up_to[parameter] = at;
    let lower = Part { above: part.above.clone(), up_to, places: below, chosen: lower };
    let upper = Part { above, up_to: part.up_to.clone(), places: beyond, chosen: upper };
    Some((error, [lower, upper]))
}
