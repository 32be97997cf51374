//! Cross-validation of a choice of terms: how far off they are at sizes that they were not fitted to.
//!
//! Each size inside the range is left out once. The largest sizes are left out together, one, two and more of them, because
//! users ask for sizes beyond what was measured. Next: `search`, which chooses by it.

use crate::least_squares::non_negative;
use crate::measured::{Place, sizes_of};
use crate::term::Term;

/// An error counts as so much at most, so that one place does not decide alone.
const ERROR_MAX: f64 = 3.0;
/// Of all sizes of a parameter this share at most is left out at the upper end.
const LEFT_OUT_PARTS: usize = 3;

/// Errors at places that were left out, in parts of the places' scale.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crossed {
    /// Inside the range.
    pub inside: Vec<f64>,
    /// Beyond it: so many doublings beyond the largest size that was known, and the error there.
    pub beyond: Vec<(f64, f64)>,
}

impl Crossed {
    /// One figure: both kinds count alike.
    pub fn score(&self) -> f64 {
        let inside = mean_square(self.inside.iter().copied());
        let beyond = mean_square(self.beyond.iter().map(|(_, error)| *error));
        match (inside, beyond) {
            (Some(inside), Some(beyond)) => (0.5 * (inside + beyond)).sqrt(),
            (inside, beyond) => inside.or(beyond).map_or(f64::INFINITY, f64::sqrt),
        }
    }

    /// The errors of two parts of the range; beyond it only the upper part is asked.
    pub fn joined(&self, upper: &Crossed) -> Crossed {
        Crossed { inside: [&self.inside[..], &upper.inside[..]].concat(), beyond: upper.beyond.clone() }
    }
}

fn mean_square(errors: impl Iterator<Item = f64>) -> Option<f64> {
    let squares: Vec<f64> = errors.map(|error| error.abs().min(ERROR_MAX).powi(2)).collect();
    (!squares.is_empty()).then(|| squares.iter().sum::<f64>() / squares.len() as f64)
}

/// Coefficients of the terms that fit these places best, each error by its scale.
pub(crate) fn coefficients(terms: &[Term], places: &[&Place]) -> Vec<f64> {
    let column = |term: &Term| places.iter().map(|place| term.value(&place.at) / place.scale).collect();
    let columns: Vec<Vec<f64>> = terms.iter().map(column).collect();
    let wanted: Vec<f64> = places.iter().map(|place| place.value / place.scale).collect();
    non_negative(&columns, &wanted)
}

/// The sum of terms at these sizes.
pub(crate) fn sum_at(terms: &[Term], coefficients: &[f64], at: &[f64]) -> f64 {
    terms.iter().zip(coefficients).map(|(term, coefficient)| coefficient * term.value(at)).sum()
}

/// Errors of the terms at places that are left out.
pub(crate) fn crossed(terms: &[Term], places: &[&Place], folds: &Folds) -> Crossed {
    let error = |kept: &[&Place], left_out: &Place| {
        let found = coefficients(terms, kept);
        (sum_at(terms, &found, &left_out.at) - left_out.value) / left_out.scale
    };
    let inside = folds.inside.iter().map(|left_out| {
        let others = places.iter().enumerate().filter(|(place, _)| place != left_out);
        let kept: Vec<&Place> = others.map(|(_, place)| *place).collect();
        error(&kept, places[*left_out])
    });
    let inside = inside.collect();
    let mut beyond = Vec::new();
    for fold in &folds.beyond {
        let kept: Vec<&Place> = fold.kept.iter().map(|place| places[*place]).collect();
        if kept.len() <= terms.len() {
            continue;
        }
        let found = coefficients(terms, &kept);
        for (place, doublings) in &fold.left_out {
            let place = places[*place];
            beyond.push((*doublings, (sum_at(terms, &found, &place.at) - place.value) / place.scale));
        }
    }
    Crossed { inside, beyond }
}

/// Places that are left out, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folds {
    inside: Vec<usize>,
    beyond: Vec<Fold>,
}

/// The largest sizes of one parameter are left out together.
#[derive(Clone, Debug)]
struct Fold {
    kept: Vec<usize>,
    /// With the doublings beyond the largest size that is kept.
    left_out: Vec<(usize, f64)>,
}

impl Folds {
    /// All that these places allow.
    pub fn of(places: &[&Place]) -> Self {
        let parameters = places.first().map_or(0, |place| place.at.len());
        let levels: Vec<Vec<f64>> =
            (0..parameters).map(|index| sizes_of(places.iter().map(|place| place.at[index]))).collect();
        let is_end =
            |index: usize, size: f64| levels[index].first() == Some(&size) || levels[index].last() == Some(&size);
        // A corner of the range is no place inside of it.
        let is_inside = |place: &Place| place.at.iter().enumerate().any(|(index, size)| !is_end(index, *size));
        let inside = (0..places.len()).filter(|number| is_inside(places[*number])).collect();
        let beyond = (0..parameters).flat_map(|index| Folds::beyond(places, index, &levels[index]));
        Folds { inside, beyond: beyond.collect() }
    }

    fn beyond(places: &[&Place], index: usize, levels: &[f64]) -> Vec<Fold> {
        let most = (levels.len() / LEFT_OUT_PARTS).max(1);
        let fold = |left_out: usize| {
            let known = levels[levels.len() - left_out - 1];
            let (kept, rest): (Vec<usize>, Vec<usize>) =
                (0..places.len()).partition(|number| places[*number].at[index] <= known);
            let doublings = |number: usize| (number, (places[number].at[index] / known).log2());
            Fold { kept, left_out: rest.into_iter().map(doublings).collect() }
        };
        (1..=most).filter(|left_out| left_out + 2 <= levels.len()).map(fold).collect()
    }
}
