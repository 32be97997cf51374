//! A fitted model, and what it says of sizes that were not measured.
//!
//! Next: `pieces` and `search`, which made its terms.

use crate::between::{Between, Met, across, at, between};
use crate::crossed::sum_at;
use crate::error::Error;
use crate::measured::{Measured, Measurement, Place, check_sizes, checked, sizes_of};
use crate::pieces::{Part, parts};
use crate::search::Choice;
use crate::stray::{Stray, by_repetitions, by_sizes};
use crate::term::{Term, candidates};
use crate::unit::Unit;
use serde::{Deserialize, Serialize};
use trimtab_weather::median_of;

/// The share of values that an interval is to hold.
const SHARE_INSIDE: f64 = 0.9;
/// So many standard deviations hold that share of a normal variable.
const DEVIATIONS: f64 = 1.645;
/// With few errors the largest is less than the one to be expected by this factor.
const FEW: f64 = 1.25;
/// An interval grows by this much for each doubling beyond the range, at least.
const GROWTH_MIN: f64 = 0.01;
/// Values fall with a parameter if so many times as many of them fall as rise.
const FALLS: usize = 2;

/// A term and its coefficient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// The term.
    pub term: Term,
    /// Above zero.
    pub coefficient: f64,
}

/// A part of the range, in which one sum of terms holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// By parameter: it holds above this size.
    pub above: Vec<f64>,
    /// And up to this; `None`: all.
    pub up_to: Vec<Option<f64>>,
    /// The smallest sizes that were measured in it.
    pub least: Vec<f64>,
    /// The largest.
    pub most: Vec<f64>,
    /// How many places were measured in it.
    pub places: usize,
    /// The sum.
    pub terms: Vec<Fitted>,
    /// Values that sizes between follow, where terms alone miss them; else empty.
    #[serde(default)]
    pub met: Vec<Met>,
    /// Other sums that may be right as well.
    pub rivals: Vec<Vec<Fitted>>,
    /// Median error of places that were left out, inside the range, as a share.
    pub error_median: Option<f64>,
    /// The largest of these errors.
    pub error_worst: Option<f64>,
    /// The same median of the largest sizes, told from smaller ones.
    pub error_beyond: Option<f64>,
    /// Half of the interval of 90% inside the range, as a share.
    pub half_width: f64,
    /// So much is added to it for each doubling beyond.
    pub growth: f64,
}

/// Time or memory by sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Names of the parameters.
    pub parameters: Vec<String>,
    /// The unit of its values.
    pub unit: Unit,
    /// Smallest size of each parameter that was measured.
    pub least: Vec<f64>,
    /// The largest.
    pub most: Vec<f64>,
    /// Standard deviation of repetitions of one size, as a share.
    pub noise: f64,
    /// Values below this vary by a fixed amount rather than by a share.
    pub fixed: f64,
    /// Parts of the range; none where the sizes do not say the value.
    pub pieces: Vec<Piece>,
    /// Why there are none.
    pub stray: Option<Stray>,
    /// Geometric mean of all measured values, by which hosts can be ranked where sizes say nothing.
    pub typical: f64,
}

/// A value at sizes that were not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// The expected value.
    pub value: f64,
    /// 90% of values are to lie between this
    pub lower: f64,
    /// and this.
    pub upper: f64,
    /// The share that is to lie between them.
    pub share_inside: f64,
    /// Parameters whose size is above all that were measured, with how many times the largest it is.
    pub beyond: Vec<(String, f64)>,
    /// Those below all that were measured, with the share of the smallest.
    pub below: Vec<(String, f64)>,
    /// True between the last size before a break and the first one behind it: where it lies is not known.
    pub at_break: bool,
}

/// How much longer something takes on another host: between these factors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// The smaller factor.
    pub least: f64,
    /// The larger one.
    pub most: f64,
}

/// Makes a model of measurements. `quiet` is the spread of repetitions of the very same work, where that is known apart from
/// the spread of different data of the same sizes.
///
/// # Errors
/// Everything that can't be measured, and too few or too narrow sizes.
pub fn fit(parameters: &[String], measurements: &[Measurement], quiet: Option<f64>) -> Result<Model, Error> {
    let measured = checked(parameters, measurements)?;
    let logs = measured.places.iter().map(|place| place.value.ln());
    let typical = (logs.sum::<f64>() / measured.places.len() as f64).exp();
    let of = |index: usize| sizes_of(measured.places.iter().map(|place| place.at[index]));
    let ends = |index: usize| (of(index)[0], of(index)[of(index).len() - 1]);
    let (least, most) = (0..parameters.len()).map(ends).unzip();
    let fixed = measured.places.iter().map(|place| (place.scale.powi(2) - place.value.powi(2)).max(0.0).sqrt());
    let mut model = Model {
        parameters: parameters.to_vec(),
        unit: measured.unit,
        least,
        most,
        noise: measured.noise,
        fixed: fixed.fold(f64::INFINITY, f64::min),
        pieces: Vec::new(),
        stray: by_repetitions(measurements, quiet),
        typical,
    };
    if model.stray.is_none() {
        model.find_pieces(&measured);
    }
    Ok(model)
}

/// Checks that measurements can give a model, before they cost anything.
///
/// # Errors
/// As [`fit`].
pub fn check(parameters: &[String], measurements: &[Measurement]) -> Result<(), Error> {
    checked(parameters, measurements).map(drop)
}

impl Model {
    fn find_pieces(&mut self, measured: &Measured) {
        let falling: Vec<bool> = (0..self.parameters.len()).map(|index| falls(&measured.places, index)).collect();
        let places: Vec<&Place> = measured.places.iter().collect();
        let Some(parts) = parts(places, &candidates(&falling), measured.noise) else {
            self.stray = Some(Stray::Sizes { error: f64::MAX });
            return;
        };
        let beside = |(number, part): (usize, &Part<'_>)| {
            let best = &part.chosen.best;
            let before = number.checked_sub(1).and_then(|number| parts[number].places.last());
            let after = parts.get(number + 1).and_then(|part| part.places.first());
            let asked =
                between(&best.terms, &best.coefficients, &part.places, [before, after].map(|side| side.copied()));
            asked.unwrap_or_else(|| Between { met: Vec::new(), errors: best.crossed.inside.clone() })
        };
        let besides: Vec<Between> = parts.iter().enumerate().map(beside).collect();
        let errors: Vec<f64> = besides.iter().flat_map(|beside| &beside.errors).copied().collect();
        self.stray = by_sizes(&errors, measured.noise);
        if self.stray.is_none() {
            self.pieces = parts.iter().zip(besides).map(|(part, beside)| piece(part, beside)).collect();
        }
    }

    /// The value at these sizes; `None` where sizes do not say it.
    ///
    /// # Errors
    /// Sizes that can't be.
    pub fn at(&self, sizes: &[f64]) -> Result<Option<Forecast>, Error> {
        check_sizes(&self.parameters, sizes)?;
        let Some(piece) = self.pieces.iter().find(|piece| piece.holds(sizes)).or(self.pieces.last()) else {
            return Ok(None);
        };
        let mut forecast = self.by(piece, sizes);
        // A break lies somewhere between two sizes that were measured.
        let others = self.pieces.iter().filter(|other| !std::ptr::eq(*other, piece) && !piece.reaches(sizes));
        for other in others.filter(|other| other.is_next_to(piece, sizes)) {
            let beside = self.by(other, sizes);
            forecast.lower = forecast.lower.min(beside.lower);
            forecast.upper = forecast.upper.max(beside.upper);
            forecast.at_break = true;
            let (lower, upper) = if other.least[0] > piece.most[0] { (piece, other) } else { (other, piece) };
            if let [size] = sizes {
                let from = Met { size: lower.most[0], value: lower.value(&lower.most) };
                let to = Met { size: upper.least[0], value: upper.value(&upper.least) };
                forecast.value = across(from, to, *size).unwrap_or(forecast.value);
                forecast.lower = forecast.lower.min(forecast.value);
                forecast.upper = forecast.upper.max(forecast.value);
            }
        }
        Ok(Some(forecast))
    }

    fn by(&self, piece: &Piece, sizes: &[f64]) -> Forecast {
        let value = piece.value(sizes);
        let half = piece.half_width + piece.growth * piece.doublings_outside(sizes);
        let share = half.hypot(DEVIATIONS * self.noise);
        let width = share * value.hypot(self.fixed);
        // Between neighbours that are followed all sums say the same.
        let rivals = piece.rivals.iter().filter(|_| !piece.follows(sizes)).map(|rival| sum(rival, sizes));
        // Growth that rose inside the range may rise no more, as once all data are out of a cache.
        let steady = self.steadily(sizes).map(|[least, most]| [least / (1.0 + share), most * (1.0 + share)]);
        let others = rivals.chain(steady.into_iter().flatten());
        let (low, high) = others.fold((value, value), |(low, high), other| (low.min(other), high.max(other)));
        let beside = |is_meant: fn(f64, f64, f64) -> Option<f64>| {
            let all = self.parameters.iter().zip(sizes).zip(self.least.iter().zip(&self.most));
            let found =
                all.filter_map(|((name, size), (least, most))| Some((name.clone(), is_meant(*size, *least, *most)?)));
            found.collect::<Vec<_>>()
        };
        Forecast {
            value,
            // Below by as much as above in sum for small errors, and never as low as nothing.
            lower: (value - width).max(value * value / (value + width)).min(low),
            upper: (value + width).max(high),
            share_inside: SHARE_INSIDE,
            beyond: beside(|size, _, most| (size > most).then(|| size / most)),
            below: beside(|size, least, _| (size < least).then(|| size / least)),
            at_break: false,
        }
    }
}

impl Model {
    /// The values beyond the range if it went on to grow as in the lower and in the upper half of the range, in proportion to
    /// sizes: the least first. `None`: all sizes are inside, or it did not grow there.
    fn steadily(&self, sizes: &[f64]) -> Option<[f64; 2]> {
        let most: Vec<f64> = sizes.iter().zip(&self.most).map(|(size, most)| size.min(*most)).collect();
        let (fixed, grown) = self.parts_at(&most)?;
        let mut times = [1.0, 1.0];
        for at in (0..sizes.len()).filter(|at| sizes[*at] > self.most[*at]) {
            let middle = (self.least[at] * self.most[at]).sqrt();
            let grown_at = |size: f64| {
                let mut sizes = most.clone();
                sizes[at] = size;
                Some((size, self.parts_at(&sizes)?.1))
            };
            let (least, middle, most) = (grown_at(self.least[at])?, grown_at(middle)?, (self.most[at], grown));
            let power = |(from, before): (f64, f64), (to, after): (f64, f64)| (after / before).ln() / (to / from).ln();
            let powers = [power(least, middle), power(middle, most)];
            let beyond = sizes[at] / self.most[at];
            times[0] *= beyond.powf(powers[0].min(powers[1]));
            times[1] *= beyond.powf(powers[0].max(powers[1]));
        }
        let is_outside = times != [1.0, 1.0] && times.iter().all(|times| times.is_finite());
        is_outside.then(|| times.map(|times| fixed + grown * times))
    }

    /// The part of a value that no size changes, and the rest, above zero.
    fn parts_at(&self, sizes: &[f64]) -> Option<(f64, f64)> {
        let piece = self.pieces.iter().find(|piece| piece.holds(sizes)).or(self.pieces.last())?;
        let constant = piece.terms.iter().filter(|fitted| fitted.term.is_constant());
        let fixed: f64 = constant.map(|fitted| fitted.coefficient).sum();
        let grown = piece.value(sizes) - fixed;
        (grown > 0.0).then_some((fixed, grown))
    }
}

impl Forecast {
    /// True if all sizes are inside what was measured.
    pub fn is_inside(&self) -> bool {
        self.beyond.is_empty() && self.below.is_empty()
    }

    /// The same on a host that is slower or faster.
    pub fn scaled(&self, scale: Scale) -> Forecast {
        Forecast {
            value: self.value * (scale.least * scale.most).sqrt(),
            lower: self.lower * scale.least,
            upper: self.upper * scale.most,
            ..self.clone()
        }
    }
}

impl Piece {
    fn holds(&self, sizes: &[f64]) -> bool {
        let ends = self.above.iter().zip(&self.up_to);
        sizes.iter().zip(ends).all(|(size, (above, up_to))| size > above && up_to.is_none_or(|up_to| *size <= up_to))
    }

    /// By its terms, or by what was measured beside these sizes.
    fn value(&self, sizes: &[f64]) -> f64 {
        let by_terms = sum(&self.terms, sizes);
        match (sizes, &self.met[..]) {
            ([size], [first, .., last]) => match at(&self.met, &|size| sum(&self.terms, &[size]), *size) {
                Some(value) => value,
                None if *size > last.size => by_terms.max(last.value),
                None => by_terms.min(first.value),
            },
            _ => by_terms,
        }
    }

    /// True if measured values on both sides say what is between.
    fn follows(&self, sizes: &[f64]) -> bool {
        match (sizes, &self.met[..]) {
            ([size], [first, .., last]) => (first.size..=last.size).contains(size),
            _ => false,
        }
    }

    /// True if sizes lie between those that were measured in it, or at the outer ends of the range.
    fn reaches(&self, sizes: &[f64]) -> bool {
        let measured = self.least.iter().zip(&self.most);
        let ends = self.above.iter().zip(&self.up_to);
        sizes.iter().zip(measured.zip(ends)).all(|(size, ((least, most), (above, up_to)))| {
            (size >= least || *above == 0.0) && (size <= most || up_to.is_none())
        })
    }

    /// True if the break between both lies beside these sizes.
    fn is_next_to(&self, other: &Piece, sizes: &[f64]) -> bool {
        let ends = self.above.iter().zip(&self.up_to).zip(other.above.iter().zip(&other.up_to));
        sizes.iter().zip(ends).enumerate().any(|(index, (size, ((above, up_to), (other_above, other_up_to))))| {
            let is_above = *up_to == Some(*other_above) && *size < other.least[index];
            let is_below = *other_up_to == Some(*above) && *size > other.most[index];
            is_above || is_below
        })
    }

    /// Doublings beyond what was measured in it, and below, of all parameters.
    fn doublings_outside(&self, sizes: &[f64]) -> f64 {
        let measured = self.least.iter().zip(&self.most);
        let outside = sizes.iter().zip(measured).map(|(size, (least, most))| (size / most).max(least / size).log2());
        outside.map(|doublings| doublings.max(0.0)).sum()
    }
}

fn sum(terms: &[Fitted], sizes: &[f64]) -> f64 {
    terms.iter().map(|fitted| fitted.coefficient * fitted.term.value(sizes)).sum()
}

/// True if values become smaller as this parameter grows, all others being the same.
fn falls(places: &[Place], index: usize) -> bool {
    let is_beside = |one: &Place, other: &Place| {
        let same = one.at.iter().zip(&other.at).enumerate().all(|(at, (one, other))| at == index || one == other);
        same && one.at[index] < other.at[index]
    };
    let (mut falling, mut rising) = (0, 0);
    for one in places {
        // The last one falls or rises from its own first.
        let ends = places.iter().filter(|other| is_beside(one, other));
        for other in ends {
            falling += usize::from(other.value < one.value);
            rising += usize::from(other.value >= one.value);
        }
    }
    falling > FALLS * rising
}

fn fitted(choice: &Choice) -> Vec<Fitted> {
    let both = choice.terms.iter().cloned().zip(choice.coefficients.iter().copied());
    let fitted = both.map(|(term, coefficient)| Fitted { term, coefficient });
    let mut fitted: Vec<Fitted> = fitted.filter(|fitted| fitted.coefficient > 0.0).collect();
    fitted.sort_by(|one, other| other.term.cost().total_cmp(&one.term.cost()));
    fitted
}

fn piece(part: &Part<'_>, beside: Between) -> Piece {
    let best = &part.chosen.best;
    let count = part.above.len();
    let sizes = |index: usize| sizes_of(part.places.iter().map(|place| place.at[index]));
    let ends: Vec<Vec<f64>> = (0..count).map(sizes).collect();
    let mut inside: Vec<f64> = beside.errors.iter().map(|error| error.abs()).collect();
    inside.sort_by(f64::total_cmp);
    let beyond = || best.crossed.beyond.iter().map(|(_, error)| error.abs());
    let half_width = upper_quantile(&inside).unwrap_or_else(|| fit_error(best, &part.places));
    let steps = best.crossed.beyond.iter().map(|(doublings, error)| error.abs() / doublings.max(0.25));
    let mut steps: Vec<f64> = steps.collect();
    steps.sort_by(f64::total_cmp);
    Piece {
        above: part.above.clone(),
        up_to: part.up_to.iter().map(|up_to| up_to.is_finite().then_some(*up_to)).collect(),
        least: ends.iter().map(|sizes| sizes[0]).collect(),
        most: ends.iter().map(|sizes| sizes[sizes.len() - 1]).collect(),
        places: part.places.len(),
        terms: fitted(best),
        met: beside.met,
        rivals: part.chosen.rivals.iter().map(fitted).collect(),
        error_median: median_of(inside.iter().copied()),
        error_worst: inside.last().copied(),
        error_beyond: median_of(beyond()),
        half_width,
        growth: upper_quantile(&steps).unwrap_or(half_width).max(half_width).max(GROWTH_MIN),
    }
}

/// A bound that 90% of further errors are to keep, from sorted ones.
fn upper_quantile(sorted: &[f64]) -> Option<f64> {
    let place = (SHARE_INSIDE * (sorted.len() + 1) as f64).ceil() as usize;
    let largest = sorted.last()?;
    Some(sorted.get(place.saturating_sub(1)).copied().unwrap_or(FEW * largest))
}

/// The largest error at places that were fitted.
fn fit_error(choice: &Choice, places: &[&Place]) -> f64 {
    let error =
        |place: &&Place| ((sum_at(&choice.terms, &choice.coefficients, &place.at) - place.value) / place.scale).abs();
    FEW * places.iter().map(error).fold(0.0, f64::max)
}
