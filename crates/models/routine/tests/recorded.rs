//! Times of programs that nobody here wrote, recorded at many sizes: how far off models are at two and four times the largest size
//! that they were made from.
//!
//! `recorded.csv` has a line for each run: program, whether a model may see it, size, seconds. Next: `search` for the choice of terms.

use std::collections::BTreeMap;
use trimtab_routine::{Measurement, Unit, fit};
use trimtab_weather::median_of;

const RECORDED: &str = include_str!("recorded.csv");
/// Median errors that models have to keep, at two and at four times the largest size.
const MEDIAN_MAX: [f64; 2] = [0.05, 0.13];
/// Of intervals of 90% so many of 100 hold at least, beyond the range.
const HELD_MIN_PERCENT: usize = 85;

/// Times by size: for the model, and those to be told.
#[derive(Default)]
struct Program {
    fitted: BTreeMap<u64, Vec<f64>>,
    told: BTreeMap<u64, Vec<f64>>,
}

fn recorded() -> BTreeMap<&'static str, Program> {
    let mut programs: BTreeMap<&str, Program> = BTreeMap::new();
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(',').collect();
        let [name, kind, size, seconds] = fields[..] else { panic!("four fields: {line}") };
        let program = programs.entry(name).or_default();
        let runs = if kind == "fit" { &mut program.fitted } else { &mut program.told };
        runs.entry(size.parse().expect("a size")).or_default().push(seconds.parse().expect("seconds"));
    }
    programs
}

fn median(values: &[f64]) -> f64 {
    median_of(values.iter().copied()).expect("there are some")
}

#[test]
fn times_beyond_the_range_are_told() {
    let mut errors: [Vec<f64>; 2] = Default::default();
    let (mut held, mut asked) = (0, 0);
    for (name, program) in recorded() {
        let measured = program.fitted.iter().map(|(size, values)| Measurement {
            at: vec![*size as f64],
            values: values.clone(),
            unit: Unit::Seconds,
        });
        let model = fit(&["n".to_owned()], &measured.collect::<Vec<_>>(), None).expect("a model");
        for (size, values) in &program.told {
            let forecast = model.at(&[*size as f64]).expect("a size").unwrap_or_else(|| panic!("{name} has a time"));
            let (times, came) = (*size as f64 / model.most[0], median(values));
            let error = (forecast.value / came - 1.0).abs();
            println!("{name} {times:.1}: {came:.3} s, {:+.1}%", 100.0 * (forecast.value / came - 1.0));
            errors[usize::from(times > 3.0)].push(error);
            held += usize::from((forecast.lower..=forecast.upper).contains(&came));
            asked += 1;
            assert!(!forecast.beyond.is_empty(), "{name}: {forecast:?}");
        }
    }
    let means = errors.clone().map(|errors| errors.iter().sum::<f64>() / errors.len() as f64);
    let medians = errors.map(|errors| median(&errors));
    println!("medians {medians:?}, means {means:?}, {held} of {asked} held");
    assert!(medians.iter().zip(MEDIAN_MAX).all(|(median, most)| *median <= most), "{medians:?}");
    assert!(100 * held >= HELD_MIN_PERCENT * asked, "{held} of {asked}");
}
