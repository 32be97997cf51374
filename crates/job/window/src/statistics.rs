//! Means with intervals that are honest for as few as ten iterations.
//!
//! Neighbouring iterations are alike (a busy node stays busy for a while), so the variance of a mean is larger than the
//! sample variance over n. Programs also have slower rhythms (output every 50 steps, phases of a solver). Iterations are
//! therefore put into batches whose length the window itself decides: they are doubled until the means of neighbouring
//! batches no longer resemble each other, or until only [`BATCHES_MIN`] are left. The interval is Student's t on these
//! means, with the autocorrelation that is left in them. Shares of time are ratios of sums; their interval follows by the
//! delta method from the residuals.
//!
//! No statistics of a window tell of what did not happen in it. How much of a program's time that may be follows from the
//! rule of three, and it shrinks as the window grows ([`unseen_share`]). A run whose machine changes over minutes is
//! beyond what a window of a fraction of a second can know: the interval is about the program as it ran then.
//!
//! Next: `assemble`, which applies them to iteration times; tests/coverage.rs measures how often they hold.

use trimtab_types::report::Estimate;

/// Two-sided level of all intervals.
const LEVEL: f64 = 0.95;

/// Largest autocorrelation believed; beyond it a short series says nothing about its mean.
const AUTOCORRELATION_MAX: f64 = 0.8;

/// Added to the measured autocorrelation, in units of its standard error 1/sqrt(n): a short series cannot show that it
/// has none, and iterations of a program tend to be alike. Chosen so that ten samples hold in 92 to 98% of cases for
/// independent, skewed and moderately alike samples (tests/coverage.rs).
const CAUTION_STANDARD_ERRORS: f64 = 0.9;

/// Batches that are left at least: from fewer nobody can tell whether neighbours resemble each other.
const BATCHES_MIN: usize = 12;

/// Neighbouring batches resemble each other if their autocorrelation is above so many of its standard errors. Half of one
/// is a strict test, since a resemblance that is missed makes the interval too narrow.
const ALIKE_STANDARD_ERRORS: f64 = 0.5;

/// Events that a program may have made on average where none was seen, at 95%: the probability of none is then exp(-3).
const RULE_OF_THREE: f64 = 3.0;

/// Events that most often pass a short window by: a time slice that somebody else gets, a line of output, a rebuilt
/// list of neighbours. Seconds.
const UNSEEN_EVENT_S: f64 = 1e-3;

/// Samples before a stopping rule may stop: fewer give a variance by luck often enough to matter.
pub const CONFIDENT_SAMPLES_MIN: usize = 8;

/// Mean of `samples` with its spread; `None` for none. Variance and interval need two samples.
pub fn estimate(samples: &[f64]) -> Option<Estimate> {
    let mean = mean(samples)?;
    Some(Estimate {
        mean,
        variance: variance(samples),
        half_width_95: half_width_95(samples),
        min: samples.iter().copied().fold(f64::INFINITY, f64::min),
        max: samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        samples: samples.len() as u64,
    })
}

/// Arithmetic mean; `None` for no samples.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// Sample variance, divided by n - 1; `None` with fewer than two samples.
pub fn variance(samples: &[f64]) -> Option<f64> {
    let mean = mean(samples).filter(|_| samples.len() > 1)?;
    Some(samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (samples.len() - 1) as f64)
}

/// Half width of the 95% interval of the mean of `samples` in the order they were taken; `None` with fewer than two.
///
/// Two samples give one of more than six times their distance, as few as they are.
pub fn half_width_95(samples: &[f64]) -> Option<f64> {
    let means = batch_means(samples, batch_size(samples));
    with_autocorrelation(&means, autocorrelation(&means, CAUTION_STANDARD_ERRORS))
}

/// Standard error of the sum of all samples, in their unit, from the interval of their mean; `None`: too few samples.
pub fn error_of_sum(samples: &[f64]) -> Option<f64> {
    let count = samples.len() as f64;
    Some(half_width_95(samples)? / student_t_quantile(0.5 + LEVEL / 2.0, count - 1.0) * count)
}

/// Samples per batch, a power of two: the fewest at which batches, and those of twice the length, don't resemble their
/// neighbours. One sample in a row may look independent and hide a slow rhythm in noise, which twice the length shows.
pub fn batch_size(samples: &[f64]) -> usize {
    let has_room = |size: usize| samples.len() / size >= BATCHES_MIN;
    let is_settled = |size: usize| !has_room(size) || !are_alike(&batch_means(samples, size));
    let mut size = 1;
    while has_room(2 * size) && !(is_settled(size) && is_settled(2 * size)) {
        size *= 2;
    }
    size
}

/// Means of batches of `size` samples; the first samples, if they fill no batch, are left out.
fn batch_means(samples: &[f64], size: usize) -> Vec<f64> {
    samples.rchunks_exact(size).rev().filter_map(mean).collect()
}

fn are_alike(means: &[f64]) -> bool {
    autocorrelation(means, 0.0) > ALIKE_STANDARD_ERRORS / (means.len() as f64).sqrt()
}

/// The largest share of a program's time that events of a millisecond may take which did not come in a window of `seconds`,
/// at 95%: most of it for a window of a few milliseconds, 1.5% for 0.2 s, 0.3% for 1 s.
pub fn unseen_share(seconds: f64) -> f64 {
    let unseen_s = RULE_OF_THREE * UNSEEN_EVENT_S;
    if seconds > 0.0 { unseen_s / (seconds + unseen_s) } else { 1.0 }
}

fn with_autocorrelation(samples: &[f64], autocorrelation: f64) -> Option<f64> {
    let variance = variance(samples)?;
    let count = samples.len() as f64;
    let inflation = inflation(autocorrelation, count);
    let unbiased = variance * (count - 1.0) / (count - inflation);
    Some(student_t_quantile(0.5 + LEVEL / 2.0, count - 1.0) * (unbiased * inflation / count).sqrt())
}

/// Mean of the times of iterations, seconds, with its spread; what no window of their length can know is in it.
pub fn estimate_of_times(times_s: &[f64]) -> Option<Estimate> {
    let unseen_s = |mean: f64| mean * unseen_share(times_s.iter().sum());
    estimate(times_s)
        .map(|found| Estimate { half_width_95: found.half_width_95.map(|half| half + unseen_s(found.mean)), ..found })
}

/// True once the half width of the 95% interval of the times of iterations, seconds, is at most `percent` of the mean.
///
/// Asked after every iteration, such a rule stops early by luck now and then; it therefore waits for
/// [`CONFIDENT_SAMPLES_MIN`] samples.
pub fn until_confident(times_s: &[f64], percent: f64) -> bool {
    let is_narrow =
        |found: &Estimate| found.half_width_95.is_some_and(|half_width| half_width <= percent / 100.0 * found.mean);
    times_s.len() >= CONFIDENT_SAMPLES_MIN && estimate_of_times(times_s).as_ref().is_some_and(is_narrow)
}

/// One iteration on one rank, for a share of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Time in communication.
    pub part: f64,
    /// Duration of the iteration.
    pub whole: f64,
}

/// Mean over ranks of each rank's sum of parts over sum of wholes; outer slice ranks, inner iterations.
///
/// All ranks count as far as the shortest; samples (and so variance, least and largest) are the iterations' shares,
/// pooled over ranks. `None` without an iteration or with a rank that spent no time.
pub fn share(ranks: &[Vec<Share>]) -> Option<Estimate> {
    let iterations = ranks.iter().map(Vec::len).min().filter(|count| *count > 0)?;
    let totals: Vec<Share> = ranks.iter().map(|rank| total(rank.iter().take(iterations))).collect();
    if totals.iter().any(|total| total.whole <= 0.0) {
        return None;
    }
    let shares: Vec<f64> = totals.iter().map(|total| total.part / total.whole).collect();
    let pooled: Vec<f64> = (0..iterations)
        .map(|iteration| total(ranks.iter().map(|rank| &rank[iteration])))
        .filter(|pooled| pooled.whole > 0.0)
        .map(|pooled| pooled.part / pooled.whole)
        .collect();
    let residuals: Vec<f64> =
        (0..iterations).map(|iteration| residual(ranks, &totals, iteration, iterations)).collect();
    let spread = estimate(&pooled)?;
    Some(Estimate { mean: mean(&shares)?, half_width_95: half_width_95(&residuals), ..spread })
}

/// How far one iteration pulls the mean of the ranks' shares from its value, times the number of iterations.
fn residual(ranks: &[Vec<Share>], totals: &[Share], iteration: usize, iterations: usize) -> f64 {
    let pull = ranks.iter().zip(totals).map(|(rank, total)| {
        let one = rank[iteration];
        (one.part - total.part / total.whole * one.whole) * iterations as f64 / total.whole
    });
    pull.sum::<f64>() / ranks.len() as f64
}

fn total<'a>(shares: impl Iterator<Item = &'a Share>) -> Share {
    shares.fold(Share { part: 0.0, whole: 0.0 }, |sum, one| Share {
        part: sum.part + one.part,
        whole: sum.whole + one.whole,
    })
}

/// Lag-1 autocorrelation, corrected for its bias of about -(1 + 3r)/n and raised by so many of its standard errors; never
/// negative.
fn autocorrelation(samples: &[f64], standard_errors: f64) -> f64 {
    let Some(mean) = mean(samples) else { return 0.0 };
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    if squares <= 0.0 || samples.len() < 3 {
        return 0.0;
    }
    let count = samples.len() as f64;
    let products: f64 = samples.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let raw = products / squares;
    let corrected = raw + (1.0 + 3.0 * raw) / count;
    (corrected + standard_errors / count.sqrt()).clamp(0.0, AUTOCORRELATION_MAX)
}

/// Variance of the mean of `count` samples with this lag-1 autocorrelation, over that of independent ones.
fn inflation(autocorrelation: f64, count: f64) -> f64 {
    let rest = 1.0 - autocorrelation;
    let finite = 2.0 * autocorrelation * (1.0 - autocorrelation.powf(count)) / (count * rest * rest);
    ((1.0 + autocorrelation) / rest - finite).max(1.0)
}

/// Quantile of Student's t: the value not exceeded with `probability` (0.5 to 1) at `freedom` degrees of freedom.
///
/// Found by Newton steps on the distribution function, kept inside a bracket; exact to better than 1e-9 of its value.
pub fn student_t_quantile(probability: f64, freedom: f64) -> f64 {
    const STEPS_MAX: u32 = 60;
    let below = |t: f64| 1.0 - 0.5 * incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    let peak = ln_gamma((freedom + 1.0) / 2.0) - ln_gamma(freedom / 2.0) - 0.5 * (freedom * std::f64::consts::PI).ln();
    let density = |t: f64| (peak - (freedom + 1.0) / 2.0 * (t * t / freedom).ln_1p()).exp();
    let (mut low, mut high) = (0.0, 1.0);
    while below(high) < probability && high < 1e12 {
        high *= 2.0;
    }
    let mut t = 0.5 * (low + high);
    for _ in 0..STEPS_MAX {
        let excess = below(t) - probability;
        if excess < 0.0 {
            low = t
        } else {
            high = t
        }
        let newton = t - excess / density(t);
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - t).abs() <= 1e-10 * t {
            return next;
        }
        t = next;
    }
    t
}

/// Regularised incomplete beta function I_x(a, b) by its continued fraction (Lentz's method).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TERMS_MAX: u32 = 300;
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let (mut c, mut fraction) = (1.0, d);
    for term in 1..=TERMS_MAX {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for numerator in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + numerator * d);
            c = away_from_zero(1.0 + numerator / c);
            fraction *= d * c;
        }
        if (fraction / before - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// Logarithm of the gamma function for positive arguments (Stirling's series after shifting upwards).
fn ln_gamma(x: f64) -> f64 {
    const SERIES_FROM: f64 = 15.0;
    let (mut x, mut shift) = (x, 0.0);
    while x < SERIES_FROM {
        shift += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_t_against_printed_tables() {
        let cases = [
            ("1", 0.975, 1.0, 12.706),
            ("2", 0.975, 2.0, 4.303),
            ("4", 0.975, 4.0, 2.776),
            ("9", 0.975, 9.0, 2.262),
            ("30", 0.975, 30.0, 2.042),
            ("120", 0.975, 120.0, 1.980),
            ("normal limit", 0.975, 1e6, 1.960),
            ("9, 99%", 0.995, 9.0, 3.250),
            ("5, 90%", 0.95, 5.0, 2.015),
        ];
        for (name, probability, freedom, expected) in cases {
            let found = student_t_quantile(probability, freedom);
            assert!((found - expected).abs() < 6e-4, "{name}: {found} instead of {expected}");
        }
    }

    #[test]
    fn estimates_of_small_samples() {
        let two = estimate(&[1.0, 3.0]).expect("two samples");
        assert_eq!((two.mean, two.variance, two.min, two.max, two.samples), (2.0, Some(2.0), 1.0, 3.0, 2));
        assert!((two.half_width_95.expect("two samples") - 12.7062).abs() < 1e-3);
        let one = estimate(&[5.0]).expect("one sample");
        assert_eq!((one.mean, one.variance, one.half_width_95), (5.0, None, None));
        assert_eq!(estimate(&[]), None);
        assert_eq!(half_width_95(&[4.0; 10]), Some(0.0));
    }

    #[test]
    fn batches_are_as_long_as_neighbours_are_alike() {
        let alternating = |i: usize| if i.is_multiple_of(2) { 1.0 } else { 2.0 };
        let in_steps = |i: usize| if (i / 16).is_multiple_of(2) { 1.0 } else { 2.0 };
        let rising = |i: usize| i as f64;
        type Case<'a> = (&'a str, usize, &'a dyn Fn(usize) -> f64, usize);
        let cases: [Case<'_>; 5] = [
            ("constant", 400, &|_| 1.0, 1),
            ("turns", 400, &alternating, 1),
            ("steps of 16, half a step each", 400, &in_steps, 8),
            ("a drift, to the fewest batches", 400, &rising, 32),
            ("too few for batches", 20, &rising, 1),
        ];
        for (name, count, value, expected) in cases {
            let samples: Vec<f64> = (0..count).map(value).collect();
            assert_eq!(batch_size(&samples), expected, "{name}");
        }
        assert_eq!((batch_means(&[9.0, 1.0, 3.0, 5.0, 7.0], 2), batch_size(&[])), (vec![2.0, 6.0], 1));
    }

    #[test]
    fn confidence_needs_samples_and_steadiness() {
        let steady = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0];
        let cases: [(&str, &[f64], f64, bool); 4] = [
            ("steady", &steady, 2.0, true),
            ("too few", &steady[..CONFIDENT_SAMPLES_MIN - 1], 2.0, false),
            ("too strict", &steady, 0.1, false),
            ("none", &[], 2.0, false),
        ];
        for (name, samples, percent, expected) in cases {
            assert_eq!(until_confident(samples, percent), expected, "{name}");
        }
    }

    #[test]
    fn share_is_the_mean_of_the_ranks_shares() {
        let one = |part, whole| Share { part, whole };
        let ranks = vec![vec![one(1.0, 4.0), one(1.0, 4.0)], vec![one(3.0, 4.0), one(3.0, 4.0), one(9.0, 9.0)]];
        let found = share(&ranks).expect("two iterations");
        assert_eq!((found.mean, found.half_width_95, found.samples), (0.5, Some(0.0), 2));
        assert_eq!(share(&[]), None);
        assert_eq!(share(&[vec![]]), None);
        assert_eq!(share(&[vec![one(0.0, 0.0)]]), None);
    }
}
