//! The choice of terms: those that tell best of places that were left out, and of such as do alike, the simplest.
//!
//! A few choices go on at a time, each with one term more than before. Next: `crossed`, which judges; `pieces` for ranges
//! with a break.

use crate::crossed::{Crossed, Folds, coefficients, crossed, sum_at};
use crate::measured::Place;
use crate::term::{Term, cost_of, has_usual_tail, may_be_summed};

/// Terms beside the constant, at most.
const TERMS_MAX: usize = 3;
/// The constant and so many others less one may be of any kind.
const FREE_TERMS: usize = 3;
/// For each coefficient there are so many places: with fewer, curves go through all of them and anywhere beyond.
const PLACES_PER_TERM: usize = 2;
/// Choices that are judged by leaving out, at each step, of all that fit well.
const JUDGED_MAX: usize = 48;
/// Choices that get another term.
const KEPT_MAX: usize = 10;
/// A choice of one more simple term must be better by this share.
const COST: f64 = 0.2;
/// An error so small is as good as none.
const GOOD: f64 = 0.01;
/// Choices whose errors are at most so many times those of the best may be right as well.
const RIVAL: f64 = 1.6;
/// How many of these are kept.
const RIVALS_MAX: usize = 6;

/// A choice of terms with its coefficients and errors.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The constant first, if it has one.
    pub terms: Vec<Term>,
    pub coefficients: Vec<f64>,
    pub crossed: Crossed,
    score: f64,
}

/// The best choice, and others that may be right as well.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub best: Choice,
    pub rivals: Vec<Choice>,
}

impl Choice {
    /// The error of left-out places, that of the measurements themselves included.
    pub fn error(&self, noise: f64) -> f64 {
        blurred(self.crossed.score(), noise)
    }
}

/// An error together with that which measurements have anyway.
pub(crate) fn blurred(error: f64, noise: f64) -> f64 {
    error.hypot(noise.max(GOOD))
}

/// Chooses among the candidates; `noise` is the error of a place's own value, as a share.
pub(crate) fn choose(places: &[&Place], candidates: &[Term], noise: f64) -> Option<Chosen> {
    let search = Search { places, folds: Folds::of(places), noise };
    let constant = search.judged(vec![Term::default()])?;
    let terms_max = TERMS_MAX.min((places.len() / PLACES_PER_TERM).saturating_sub(1)).max(1);
    let (mut all, mut kept) = (vec![constant.clone()], vec![constant]);
    for _ in 0..terms_max {
        let longer = search.longer(&kept, candidates);
        let best = |choices: &[Choice]| choices.iter().map(|choice| choice.score).fold(f64::INFINITY, f64::min);
        let is_worse = best(&longer) > best(&kept);
        all.extend(longer.iter().cloned());
        kept = longer;
        kept.truncate(KEPT_MAX);
        if is_worse || kept.is_empty() {
            break;
        }
    }
    all.sort_by(|one, other| one.score.total_cmp(&other.score));
    let best = all.first()?.clone();
    let limit = RIVAL * best.error(noise);
    let is_rival = |choice: &&Choice| choice.error(noise) <= limit && choice.terms != best.terms;
    let rivals = all.iter().filter(is_rival).take(RIVALS_MAX).cloned().collect();
    Some(Chosen { best, rivals })
}

struct Search<'a> {
    places: &'a [&'a Place],
    folds: Folds,
    noise: f64,
}

impl Search<'_> {
    /// Choices with one more term, the best first.
    fn longer(&self, kept: &[Choice], candidates: &[Term]) -> Vec<Choice> {
        let mut fitted: Vec<(f64, Vec<Term>)> = Vec::new();
        for choice in kept {
            for term in candidates.iter().filter(|term| !choice.terms.contains(term)) {
                let terms = [&choice.terms[..], std::slice::from_ref(term)].concat();
                // Thousands of sums of three terms fit anything: only usual ones are asked.
                let is_usual = terms.len() <= FREE_TERMS || has_usual_tail(&terms);
                if !is_usual || !may_be_summed(&terms) {
                    continue;
                }
                let is_new = !fitted.iter().any(|(_, known)| is_same(known, &terms));
                if let Some(error) = self.fit_error(&terms).filter(|_| is_new) {
                    fitted.push((error, terms));
                }
            }
        }
        fitted.sort_by(|one, other| one.0.total_cmp(&other.0));
        fitted.truncate(JUDGED_MAX);
        let mut choices: Vec<Choice> = fitted.into_iter().filter_map(|(_, terms)| self.judged(terms)).collect();
        choices.sort_by(|one, other| one.score.total_cmp(&other.score));
        choices
    }

    /// The error at places that were fitted; `None` if a term has no part in it.
    fn fit_error(&self, terms: &[Term]) -> Option<f64> {
        let found = coefficients(terms, self.places);
        let is_used = terms.iter().zip(&found).all(|(term, coefficient)| term.is_constant() || *coefficient > 0.0);
        let error = |place: &&Place| ((sum_at(terms, &found, &place.at) - place.value) / place.scale).powi(2);
        is_used.then(|| self.places.iter().map(error).sum())
    }

    fn judged(&self, terms: Vec<Term>) -> Option<Choice> {
        let found = coefficients(&terms, self.places);
        let errors = crossed(&terms, self.places, &self.folds);
        let cost = cost_of(&terms);
        let score = blurred(errors.score(), self.noise) * (1.0 + COST * cost);
        let is_finite = score.is_finite() && found.iter().all(|value| value.is_finite());
        is_finite.then_some(Choice { terms, coefficients: found, crossed: errors, score })
    }
}

fn is_same(one: &[Term], other: &[Term]) -> bool {
    one.len() == other.len() && one.iter().all(|term| other.contains(term))
}
