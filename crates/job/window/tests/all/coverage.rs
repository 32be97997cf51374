//! Are the intervals honest? How often do they hold the truth, for several kinds of noise, measured by many trials.

use crate::common::Noise;
use trimtab_window::statistics::{Share, estimate, share, until_confident};

const TRIALS: usize = 3000;

/// A kind of noise, as a series with mean 1.
#[derive(Clone, Copy)]
struct Model {
    name: &'static str,
    /// Upper end of what is honest: a drift may only widen the interval.
    percent_max: f64,
    make: fn(&mut Noise, usize) -> Vec<f64>,
}

fn lognormal(noise: &mut Noise, count: usize, sigma: f64) -> Vec<f64> {
    (0..count).map(|_| (sigma * noise.normal() - sigma * sigma / 2.0).exp()).collect()
}

fn autoregressive(noise: &mut Noise, count: usize, memory: f64) -> Vec<f64> {
    let mut state = noise.normal();
    let mut next = || {
        let value = 1.0 + 0.05 * state;
        state = memory * state + (1.0 - memory * memory).sqrt() * noise.normal();
        value
    };
    (0..count).map(|_| next()).collect()
}

/// Grows by `rise` over the window about its mean.
fn drifting(noise: &mut Noise, count: usize, rise: f64) -> Vec<f64> {
    let at = |i: usize| (i as f64 + 0.5) / count as f64 - 0.5;
    (0..count).map(|i| 1.0 + rise * at(i) + 0.05 * noise.normal()).collect()
}

/// Student's t with 3 degrees of freedom: now and then one is many times longer.
fn heavy_tailed(noise: &mut Noise, count: usize) -> Vec<f64> {
    let mut one = || {
        let squares: f64 = (0..3).map(|_| noise.normal().powi(2)).sum();
        1.0 + 0.05 * noise.normal() / (squares / 3.0).sqrt()
    };
    (0..count).map(|_| one()).collect()
}

/// Independent noise, and beneath it a slow change that no two neighbours show.
fn hidden(noise: &mut Noise, count: usize) -> Vec<f64> {
    let slow = autoregressive(noise, count, 0.9);
    slow.into_iter().map(|slow| slow * 0.4 + 0.6 + 0.05 * noise.normal()).collect()
}

const MODELS: [Model; 7] = [
    Model { name: "independent", percent_max: 98.0, make: |n, c| autoregressive(n, c, 0.0) },
    Model { name: "heavy-tailed", percent_max: 99.0, make: heavy_tailed },
    Model { name: "lognormal 0.25", percent_max: 98.0, make: |n, c| lognormal(n, c, 0.25) },
    Model { name: "lognormal 0.4", percent_max: 98.0, make: |n, c| lognormal(n, c, 0.4) },
    Model { name: "autoregressive 0.3", percent_max: 98.0, make: |n, c| autoregressive(n, c, 0.3) },
    Model { name: "autoregressive 0.5", percent_max: 98.0, make: |n, c| autoregressive(n, c, 0.5) },
    Model { name: "drifting 5%", percent_max: 100.0, make: |n, c| drifting(n, c, 0.05) },
];

/// The effect of a slower rhythm on a series of mean 1: every `period`-th iteration takes `extra` longer.
fn rhythm(noise: &mut Noise, count: usize, period: u64, extra: f64) -> Vec<f64> {
    let begin = noise.below(period);
    let at = |i: usize| if (i as u64 + begin).is_multiple_of(period) { extra } else { 0.0 };
    (0..count).map(|i| 1.0 - extra / period as f64 + at(i) + 0.05 * noise.normal()).collect()
}

/// Two phases that take turns after `length` iterations on average.
fn phases(noise: &mut Noise, count: usize, length: f64) -> Vec<f64> {
    let mut is_slow = noise.uniform() < 0.5;
    let mut next = || {
        is_slow ^= noise.uniform() < 1.0 / length;
        1.0 + if is_slow { 0.2 } else { -0.2 } + 0.05 * noise.normal()
    };
    (0..count).map(|_| next()).collect()
}

const SLOW_MODELS: [Model; 10] = [
    Model { name: "independent", percent_max: 98.0, make: |n, c| autoregressive(n, c, 0.0) },
    Model { name: "autoregressive 0.5", percent_max: 99.5, make: |n, c| autoregressive(n, c, 0.5) },
    Model { name: "autoregressive 0.9", percent_max: 99.5, make: |n, c| autoregressive(n, c, 0.9) },
    Model { name: "autoregressive 0.97", percent_max: 99.5, make: |n, c| autoregressive(n, c, 0.97) },
    Model { name: "heavy-tailed", percent_max: 98.0, make: heavy_tailed },
    Model { name: "hidden in noise", percent_max: 99.0, make: hidden },
    Model { name: "every 10th", percent_max: 100.0, make: |n, c| rhythm(n, c, 10, 1.0) },
    Model { name: "every 20th", percent_max: 100.0, make: |n, c| rhythm(n, c, 20, 1.0) },
    Model { name: "every 50th", percent_max: 100.0, make: |n, c| rhythm(n, c, 50, 2.0) },
    Model { name: "phases of 25", percent_max: 100.0, make: |n, c| phases(n, c, 25.0) },
];

/// Windows as they are by default: hundreds of iterations, in which a program's slower rhythms show.
#[test]
fn slower_rhythms_are_in_the_interval() {
    for model in &SLOW_MODELS {
        let mut widths = 0.0;
        let percent = percent_of_trials(TRIALS / 3, 4, |noise| {
            let found = estimate(&(model.make)(noise, 400)).expect("samples");
            let half_width = found.half_width_95.expect("samples");
            widths += half_width * 3.0 / TRIALS as f64;
            (found.mean - 1.0).abs() <= half_width
        });
        println!("mean, 400 samples, {}: {percent:.1}%, half width {widths:.4}", model.name);
        assert!(is_honest(model, percent), "{}: {percent:.1}%", model.name);
    }
}

/// Percentage of trials in which `hit` holds.
fn percent_of_trials(trials: usize, seed: u64, mut hit: impl FnMut(&mut Noise) -> bool) -> f64 {
    let mut noise = Noise(seed);
    100.0 * (0..trials).filter(|_| hit(&mut noise)).count() as f64 / trials as f64
}

fn is_honest(model: &Model, percent: f64) -> bool {
    (92.0..=model.percent_max).contains(&percent)
}

#[test]
fn mean_time_of_an_iteration() {
    for count in [10, 20, 50] {
        for model in &MODELS {
            let percent = percent_of_trials(TRIALS, count as u64, |noise| {
                let found = estimate(&(model.make)(noise, count)).expect("samples");
                (found.mean - 1.0).abs() <= found.half_width_95.expect("samples")
            });
            println!("mean, {count} samples, {}: {percent:.1}%", model.name);
            assert!(is_honest(model, percent), "{count} samples, {}: {percent:.1}%", model.name);
        }
    }
}

/// Windows of 5 to 9 iterations: Student's t for as few, and on top what they can't tell of how alike they are.
#[test]
fn few_iterations_give_wide_intervals() {
    for count in [5, 7, 9] {
        for model in &MODELS[..4] {
            let mut half_widths = 0.0;
            let percent = percent_of_trials(TRIALS, count as u64, |noise| {
                let found = estimate(&(model.make)(noise, count)).expect("samples");
                half_widths += found.half_width_95.expect("samples") / TRIALS as f64;
                (found.mean - 1.0).abs() <= found.half_width_95.expect("samples")
            });
            println!("mean, {count} samples, {}: {percent:.1}%, half width {half_widths:.4}", model.name);
            assert!(
                is_honest(&Model { percent_max: 99.0, ..*model }, percent),
                "{count}, {}: {percent:.1}%",
                model.name
            );
        }
    }
}

/// A longer window of the same noise is a narrower interval, by about the root of its length.
#[test]
fn longer_windows_know_more() {
    for model in &[MODELS[0], MODELS[1], SLOW_MODELS[2]] {
        let mut noise = Noise(11);
        let mut half_width = |count: usize| {
            let widths = (0..200).filter_map(|_| estimate(&(model.make)(&mut noise, count))?.half_width_95);
            widths.sum::<f64>() / 200.0
        };
        let ratio = half_width(200) / half_width(1800);
        assert!((2.2..4.2).contains(&ratio), "{}: {ratio:.2} instead of 3", model.name);
    }
}

/// Four ranks, waits in communication: what one computes longer the others wait longer.
fn ranks_with_waits(noise: &mut Noise, count: usize, make: fn(&mut Noise, usize) -> Vec<f64>) -> Vec<Vec<Share>> {
    let work: Vec<Vec<f64>> = (0..4).map(|_| make(noise, count)).collect();
    let extra = [1.0, 1.0, 1.0, 1.5];
    let computation = |rank: usize, i: usize| extra[rank] * work[rank][i];
    let longest = |i: usize| (0..4).map(|rank| computation(rank, i)).fold(0.0, f64::max) + 0.2;
    let one = |rank: usize, i: usize| Share { part: longest(i) - computation(rank, i), whole: longest(i) };
    (0..4).map(|rank| (0..count).map(|i| one(rank, i)).collect()).collect()
}

#[test]
fn share_of_communication() {
    for count in [10, 20] {
        for model in &MODELS {
            let long = ranks_with_waits(&mut Noise(99), 100_000, model.make);
            let truth = share(&long).expect("iterations").mean;
            let percent = percent_of_trials(TRIALS, count as u64, |noise| {
                let found = share(&ranks_with_waits(noise, count, model.make)).expect("iterations");
                (found.mean - truth).abs() <= found.half_width_95.expect("samples")
            });
            println!("share, {count} samples, {}: {percent:.1}%", model.name);
            assert!(is_honest(model, percent), "{count} samples, {}: {percent:.1}%", model.name);
        }
    }
}

#[test]
fn a_steep_drift_widens_the_interval_instead_of_missing() {
    let percent = percent_of_trials(TRIALS, 7, |noise| {
        let found = estimate(&drifting(noise, 10, 0.2)).expect("samples");
        (found.mean - 1.0).abs() <= found.half_width_95.expect("samples")
    });
    assert!(percent >= 92.0, "{percent:.1}%");
}

#[test]
fn stopping_when_confident() {
    for (name, make) in [("independent", MODELS[0].make), ("lognormal 0.25", MODELS[2].make)] {
        let percent = percent_of_trials(200, 3, |noise| {
            let all = make(noise, 400);
            let stop = (1..=all.len()).find(|count| until_confident(&all[..*count], 5.0)).unwrap_or(all.len());
            (estimate(&all[..stop]).expect("samples").mean - 1.0).abs() <= 0.05
        });
        println!("stopped at 5%, {name}: {percent:.1}%");
        assert!(percent >= 92.0, "{name}: {percent:.1}% within the asked 5%");
    }
}
