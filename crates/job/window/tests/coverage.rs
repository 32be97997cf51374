//! Are the intervals honest? How often do they hold the truth, for several kinds of noise, measured by many trials.

mod common;

use common::Noise;
use trimtab_window::statistics::{Share, estimate, share, until_confident};

const TRIALS: usize = 4000;

/// A kind of noise, as a series with mean `truth`.
struct Model {
    name: &'static str,
    truth: f64,
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

const MODELS: [Model; 7] = [
    Model { name: "independent", truth: 1.0, make: |n, c| autoregressive(n, c, 0.0) },
    Model { name: "lognormal 0.25", truth: 1.0, make: |n, c| lognormal(n, c, 0.25) },
    Model { name: "lognormal 0.4", truth: 1.0, make: |n, c| lognormal(n, c, 0.4) },
    Model { name: "autoregressive 0.3", truth: 1.0, make: |n, c| autoregressive(n, c, 0.3) },
    Model { name: "autoregressive 0.5", truth: 1.0, make: |n, c| autoregressive(n, c, 0.5) },
    Model { name: "drifting 5%", truth: 1.0, make: |n, c| drifting(n, c, 0.05) },
    Model { name: "drifting 20%", truth: 1.0, make: |n, c| drifting(n, c, 0.2) },
];

#[test]
fn mean_time_of_an_iteration() {
    for count in [10, 20, 50] {
        for model in &MODELS {
            let mut noise = Noise(count as u64);
            let mut held = 0;
            let mut width = 0.0;
            for _ in 0..TRIALS {
                let found = estimate(&(model.make)(&mut noise, count)).expect("samples");
                width += found.half_width_95.unwrap();
                held += usize::from((found.mean - model.truth).abs() <= found.half_width_95.expect("samples"));
            }
            println!(
                "{count} {:20} {:.2}% {:.4}",
                model.name,
                100.0 * held as f64 / TRIALS as f64,
                width / TRIALS as f64
            );
        }
    }
}
