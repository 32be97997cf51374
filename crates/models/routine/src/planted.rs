//! Models that are known, with noise: what was planted is found, and forecasts keep what they promise.

use crate::{Error, Measurement, Model, Stray, Unit, fit};
use proptest::prelude::*;

/// Numbers that look random, near normal, the same in each run.
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1_u64 << 31) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn doubled(from: f64, count: u32, by: f64) -> Vec<f64> {
    (0..count).map(|place| (from * by.powi(place as i32)).round()).collect()
}

fn measured(places: &[Vec<f64>], noise: f64, seed: u64, truth: impl Fn(&[f64]) -> f64) -> Vec<Measurement> {
    let mut random = Noise(seed);
    let at = |at: &Vec<f64>| {
        let values = (0..3).map(|_| truth(at) * (1.0 + noise * random.normal())).collect();
        Measurement { at: at.clone(), values, unit: Unit::Seconds }
    };
    places.iter().map(at).collect()
}

fn of_one(sizes: &[f64], noise: f64, seed: u64, truth: impl Fn(f64) -> f64) -> Model {
    let places: Vec<Vec<f64>> = sizes.iter().map(|size| vec![*size]).collect();
    fit(&names(&["n"]), &measured(&places, noise, seed, |at| truth(at[0])), None).expect("a model")
}

/// Terms of each piece in words, without the constant.
fn terms(model: &Model) -> Vec<Vec<String>> {
    let piece = |piece: &crate::Piece| {
        let growing = piece.terms.iter().filter(|fitted| !fitted.term.is_constant());
        growing.map(|fitted| fitted.term.words(&model.parameters).to_string()).collect()
    };
    model.pieces.iter().map(piece).collect()
}

fn value(model: &Model, at: &[f64]) -> f64 {
    model.at(at).expect("sizes").expect("a value").value
}

#[test]
fn planted_terms_of_one_parameter_are_found() {
    type Truth = fn(f64) -> f64;
    let rows: [(&str, f64, Truth); 6] = [
        ("n^3", 64.0, |n| 1e-9 * n.powi(3)),
        ("n^3", 64.0, |n| 0.1 + 1e-9 * n.powi(3)),
        ("n * log2(n)", 1024.0, |n| 1e-8 * n * n.log2()),
        ("n", 1e5, |n| 0.02 + 1e-7 * n),
        ("n^2", 100.0, |n| 3e-7 * n * n),
        ("n^1.5", 1000.0, |n| 1e-6 * n.powf(1.5)),
    ];
    for (wanted, from, truth) in rows {
        for noise in [0.0, 0.003] {
            let model = of_one(&doubled(from, 9, 1.6), noise, 7, truth);
            assert_eq!(terms(&model), [[wanted]], "noise {noise}: {:?}", model.pieces);
        }
    }
}

#[test]
fn a_cube_and_a_square_are_told_apart_and_lead_beyond_the_range() {
    let truth = |n: f64| 0.05 + 2e-7 * n * n + 1e-10 * n.powi(3);
    let mut held = 0;
    for seed in 0..8 {
        let model = of_one(&doubled(200.0, 10, 1.4), 0.005, seed, truth);
        for (times, limit) in [(1.3, 0.03), (2.0, 0.06), (4.0, 0.13)] {
            let size = model.most[0] * times;
            let forecast = model.at(&[size]).unwrap().unwrap();
            let error = (forecast.value / truth(size) - 1.0).abs();
            assert!(error < limit, "seed {seed}, {times}: {error}, {:?}", terms(&model));
            assert!(!forecast.is_inside(), "{forecast:?}");
            held += u32::from((forecast.lower..=forecast.upper).contains(&truth(size)));
        }
    }
    assert!(held >= 22, "{held} of 24 intervals of 90% hold");
}

#[test]
fn growth_that_rose_and_rises_no_more_is_in_the_interval() {
    // An element takes up to twice as long once a cache no longer holds all; at the largest size that was measured nothing is left in it.
    let truth = |n: f64| 1e-7 * n * (1.0 + ((n / 4e5).log2() / 2.0).clamp(0.0, 1.0));
    for seed in 0..8 {
        let model = of_one(&doubled(25_000.0, 13, 2.0_f64.sqrt()), 0.01, seed, truth);
        for times in [2.0, 4.0] {
            let size = model.most[0] * times;
            let forecast = model.at(&[size]).unwrap().unwrap();
            assert!(
                (forecast.lower..=forecast.upper).contains(&truth(size)),
                "{seed}, {times}: {forecast:?} {}",
                truth(size)
            );
        }
    }
}

#[test]
fn intervals_grow_with_the_distance() {
    let model = of_one(&doubled(100.0, 9, 1.5), 0.01, 3, |n| 1e-6 * n * n);
    let width = |times: f64| {
        let forecast = model.at(&[model.most[0] * times]).unwrap().unwrap();
        (forecast.upper - forecast.lower) / forecast.value
    };
    assert!(width(1.0) < width(2.0) && width(2.0) < width(4.0) && width(4.0) < width(16.0));
    let forecast = model.at(&[model.least[0] / 4.0]).unwrap().unwrap();
    assert_eq!((forecast.below.len(), forecast.beyond.len()), (1, 0));
}

#[test]
fn products_of_two_and_three_parameters_are_found() {
    let sizes = doubled(100.0, 5, 2.0);
    let places: Vec<Vec<f64>> = sizes.iter().flat_map(|n| sizes.iter().map(move |m| vec![*n, *m])).collect();
    for noise in [0.0, 0.005] {
        let found = measured(&places, noise, 5, |at| 0.01 + 1e-6 * at[0] * at[1]);
        let model = fit(&names(&["n", "m"]), &found, None).expect("a model");
        assert_eq!(terms(&model), [["n * m"]], "noise {noise}");
        assert!((value(&model, &[3000.0, 3000.0]) / 9.01 - 1.0).abs() < 0.03);
    }
    let sizes = doubled(100.0, 4, 2.0);
    let pairs =
        |n: f64| sizes.iter().flat_map(move |m| [100.0, 200.0, 400.0].map(|k| vec![n, *m, k])).collect::<Vec<_>>();
    let places: Vec<Vec<f64>> = sizes.iter().flat_map(|n| pairs(*n)).collect();
    let found = measured(&places, 0.004, 9, |at| 0.02 + 1e-9 * at[0] * at[1] * at[2]);
    let model = fit(&names(&["m", "n", "k"]), &found, None).expect("a model");
    assert_eq!(terms(&model), [["m * n * k"]]);
}

#[test]
fn a_cliff_is_found_and_none_is_invented() {
    let truth = |n: f64| if n <= 2000.0 { 1e-6 * n * n } else { 3.2e-6 * n * n };
    let model = of_one(&doubled(250.0, 14, 1.4), 0.005, 4, truth);
    assert_eq!(model.pieces.len(), 2, "{:?}", model.pieces);
    assert!(model.pieces[0].most[0] <= 2000.0 && model.pieces[1].least[0] > 2000.0);
    for size in [700.0, 1500.0, 4000.0, 15000.0, 30000.0] {
        assert!((value(&model, &[size]) / truth(size) - 1.0).abs() < 0.03, "{size}");
    }
    let between = model.at(&[0.5 * (model.pieces[0].most[0] + model.pieces[1].least[0])]).unwrap().unwrap();
    assert!(between.at_break && between.upper > 2.5 * between.lower, "{between:?}");
    for seed in 0..12 {
        let smooth = of_one(&doubled(250.0, 14, 1.4), 0.02, seed, |n| 0.01 + 1e-6 * n * n);
        assert_eq!(smooth.pieces.len(), 1, "seed {seed}");
    }
}

#[test]
fn a_number_of_threads_makes_it_faster() {
    let places: Vec<Vec<f64>> =
        doubled(500.0, 5, 2.0).iter().flat_map(|n| [1.0, 2.0, 4.0, 8.0].map(|p| vec![*n, p])).collect();
    let truth = |at: &[f64]| 0.01 + 1e-6 * at[0] * at[0] / at[1];
    let model = fit(&names(&["n", "p"]), &measured(&places, 0.004, 2, truth), None).expect("a model");
    assert_eq!(terms(&model), [["n^2 * p^-1"]]);
}

#[test]
fn sizes_that_do_not_say_the_time_give_none() {
    let mut random = Noise(11);
    let mut place = |size: f64, spread: f64| Measurement {
        at: vec![size],
        values: (0..5).map(|_| 1e-3 * size * (spread * random.normal()).exp()).collect(),
        unit: Unit::Seconds,
    };
    let wild: Vec<Measurement> = doubled(100.0, 8, 2.0).into_iter().map(|size| place(size, 0.8)).collect();
    let model = fit(&names(&["n"]), &wild, Some(0.01)).expect("a model");
    assert!(matches!(model.stray, Some(Stray::Repetitions { spread }) if spread > 0.3), "{:?}", model.stray);
    assert_eq!(model.at(&[300.0]).unwrap(), None);
    let noisy = fit(&names(&["n"]), &wild, Some(0.5)).expect("a model");
    assert!(!matches!(noisy.stray, Some(Stray::Repetitions { .. })), "the machine is as noisy");
    let mut each = Noise(5);
    let by_size = doubled(100.0, 12, 1.5).into_iter().map(|size| {
        let value = 10.0_f64.powf(4.0 * each.unit() - 2.0);
        Measurement { at: vec![size], values: vec![value, 1.001 * value, 0.999 * value], unit: Unit::Seconds }
    });
    let model = fit(&names(&["n"]), &by_size.collect::<Vec<_>>(), None).expect("a model");
    assert!(matches!(model.stray, Some(Stray::Sizes { .. })), "{:?}", model.stray);
}

#[test]
fn wrong_input_is_one_error() {
    let good = |sizes: &[f64]| {
        sizes
            .iter()
            .map(|size| Measurement { at: vec![*size], values: vec![*size], unit: Unit::Seconds })
            .collect::<Vec<_>>()
    };
    let n = names(&["n"]);
    let said = |parameters: &[String], measurements: &[Measurement]| fit(parameters, measurements, None).unwrap_err();
    let sizes = [1.0, 2.0, 4.0, 8.0, 16.0];
    for wrong in [f64::NAN, -1.0, 0.0, f64::INFINITY] {
        let mut values = good(&sizes);
        values[2].values = vec![wrong];
        assert!(matches!(said(&n, &values), Error::WrongValue { .. }), "{wrong}");
        values[2].at = vec![wrong];
        assert!(matches!(said(&n, &values), Error::WrongSize { .. }), "{wrong}");
    }
    let mut mixed = good(&sizes);
    mixed[1].unit = Unit::Bytes;
    assert!(matches!(said(&n, &mixed), Error::Units { .. }));
    mixed = good(&sizes);
    mixed[0].values.clear();
    assert!(matches!(said(&n, &mixed), Error::NoValue { .. }));
    assert!(matches!(said(&n, &good(&sizes[..1])), Error::OneSize { .. }));
    assert!(matches!(said(&n, &good(&sizes[..4])), Error::FewSizes { found: 4, .. }));
    assert!(matches!(said(&n, &good(&[10.0, 11.0, 12.0, 13.0, 14.0])), Error::NarrowRange { .. }));
    assert!(matches!(said(&names(&["n", "m"]), &good(&sizes)), Error::WrongCount { .. }));
    assert!(matches!(said(&names(&["n", "n"]), &good(&sizes)), Error::SameName(_)));
    assert!(matches!(said(&[], &good(&sizes)), Error::NoParameter));
    let model = fit(&n, &good(&sizes), None).unwrap();
    assert!(model.at(&[f64::NAN]).is_err() && model.at(&[-3.0]).is_err() && model.at(&[1.0, 2.0]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn anything_measured_gives_a_model_that_never_falls(
        values in prop::collection::vec(1e-6..1e3_f64, 5..12),
        asked in prop::collection::vec(0.5..1e6_f64, 2),
    ) {
        let at = |(place, value): (usize, &f64)| Measurement {
            at: vec![10.0 * 2.0_f64.powi(place as i32)],
            values: vec![*value],
            unit: Unit::Bytes,
        };
        let measurements: Vec<Measurement> = values.iter().enumerate().map(at).collect();
        let model = fit(&names(&["n"]), &measurements, None).unwrap();
        let is_falling = model.pieces.iter().flat_map(|piece| &piece.terms)
            .any(|fitted| fitted.term.factors.iter().any(|factor| factor.power < 0.0));
        let (low, high) = (asked[0].min(asked[1]), asked[0].max(asked[1]));
        if let (Some(one), Some(other)) = (model.at(&[low]).unwrap(), model.at(&[high]).unwrap()) {
            for forecast in [&one, &other] {
                prop_assert!(forecast.lower <= forecast.value && forecast.value <= forecast.upper);
                prop_assert!(forecast.lower >= 0.0 && forecast.upper.is_finite());
            }
            if model.pieces.len() == 1 && !is_falling {
                prop_assert!(one.value <= other.value * (1.0 + 1e-12));
            }
        }
        let text = is_all_finite(&model);
        prop_assert!(text);
    }
}

/// True if a model has only numbers that JSON can carry.
fn is_all_finite(model: &Model) -> bool {
    let piece = |piece: &crate::Piece| {
        let numbers = [&piece.above[..], &piece.least[..], &piece.most[..]].concat();
        numbers.iter().chain([&piece.half_width, &piece.growth]).all(|number| number.is_finite())
    };
    model.pieces.iter().all(piece) && model.noise.is_finite() && model.fixed.is_finite() && model.typical.is_finite()
}
