//! Turns and arithmetic: contenders are sampled A B A B, and compared pair by pair with the first, the baseline.
//!
//! A contender is a closure that returns one sample, or a command whose wall time is the sample.
//!
//! Next: `record` for how a result is kept.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::fmt;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Contenders for one figure, the baseline first.
pub struct Comparison<'a> {
    title: String,
    unit: &'static str,
    rounds: usize,
    warm_up_rounds: usize,
    contenders: Vec<(String, Sampler<'a>)>,
}

type Sampler<'a> = Box<dyn FnMut() -> Result<f64> + 'a>;

/// The figures of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The contender's name.
    pub name: String,
    /// Its samples in the order of the rounds, in the comparison's unit.
    pub samples: Vec<f64>,
}

/// All samples of one comparison, the baseline first.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The title of what was measured.
    pub title: String,
    /// The unit of every sample.
    pub unit: &'static str,
    /// One per contender.
    pub series: Vec<Series>,
}

/// Smallest, middle and largest of some values, and the quartiles between which half of them lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest value.
    pub min: f64,
    /// A quarter of the values is not above it.
    pub lower_quartile: f64,
    /// The middle value; the mean of the middle two where their number is even.
    pub median: f64,
    /// Three quarters of the values are not above it.
    pub upper_quartile: f64,
    /// The largest value.
    pub max: f64,
}

impl<'a> Comparison<'a> {
    /// An empty comparison of `rounds` samples each, in `unit` (such as "ns").
    pub fn new(title: &str, unit: &'static str, rounds: usize) -> Self {
        Comparison { title: title.to_string(), unit, rounds, warm_up_rounds: 1, contenders: Vec::new() }
    }

    /// Adds a contender that measures itself: each call returns one sample in the comparison's unit.
    pub fn sampled(mut self, name: &str, sampler: impl FnMut() -> Result<f64> + 'a) -> Self {
        self.contenders.push((name.to_string(), Box::new(sampler)));
        self
    }

    /// Adds a contender that is a program; a sample is its wall time in seconds, and it has to exit 0.
    pub fn command(self, name: &str, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.sampled(name, move || {
            let start = Instant::now();
            let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
            ensure!(status.success(), "{command:?} ended with {status}");
            Ok(start.elapsed().as_secs_f64())
        })
    }

    /// Lets the contenders take turns, once unrecorded to warm up, then for every round.
    ///
    /// # Errors
    /// When a sampler fails or returns something that is no number; the message names it.
    pub fn run(&mut self) -> Result<Measured> {
        ensure!(!self.contenders.is_empty() && self.rounds > 0, "`{}` has nothing to measure", self.title);
        let mut samples = vec![Vec::with_capacity(self.rounds); self.contenders.len()];
        for round in 0..self.warm_up_rounds + self.rounds {
            for ((name, sampler), kept) in self.contenders.iter_mut().zip(&mut samples) {
                let sample = sampler().with_context(|| format!("{}: {name}", self.title))?;
                if !sample.is_finite() {
                    bail!("{}: {name} returned {sample}", self.title);
                }
                if round >= self.warm_up_rounds {
                    kept.push(sample);
                }
            }
        }
        let names = self.contenders.iter().map(|(name, _)| name.clone());
        let series = names.zip(samples).map(|(name, samples)| Series { name, samples }).collect();
        Ok(Measured { title: self.title.clone(), unit: self.unit, series })
    }
}

impl Measured {
    /// `name` over the baseline, pair by pair; pairs whose baseline is zero are left out. `None` if no pair is left.
    pub fn ratio(&self, name: &str) -> Option<Spread> {
        let contender = self.series.iter().find(|series| series.name == name)?;
        let pairs = contender.samples.iter().zip(&self.series.first()?.samples);
        Spread::of(
            pairs.filter(|(_, baseline)| **baseline != 0.0).map(|(sample, baseline)| sample / baseline).collect(),
        )
    }

    /// The result as kept in `benches/results`.
    pub fn to_json(&self) -> Value {
        let series = self.series.iter().map(|series| {
            json!({
                "name": series.name,
                "samples": series.samples,
                "spread": Spread::of(series.samples.clone()).map(Spread::to_json),
                "ratio_to_baseline": self.ratio(&series.name).map(Spread::to_json),
            })
        });
        json!({ "title": self.title, "unit": self.unit, "series": series.collect::<Vec<_>>() })
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds = self.series.first().map_or(0, |baseline| baseline.samples.len());
        writeln!(f, "{} [{}], {rounds} rounds taken in turns", self.title, self.unit)?;
        let width = self.series.iter().map(|series| series.name.len()).max().unwrap_or(0).max(9);
        write!(
            f,
            "  {:width$}  {:>10} {:>10} {:>10}   ratio to the first, pair by pair",
            "contender", "min", "median", "max"
        )?;
        for (index, series) in self.series.iter().enumerate() {
            let Some(spread) = Spread::of(series.samples.clone()) else { continue };
            let figures = [spread.min, spread.median, spread.max].map(short);
            write!(f, "\n  {:width$}  {:>10} {:>10} {:>10}", series.name, figures[0], figures[1], figures[2])?;
            match self.ratio(&series.name).filter(|_| index > 0) {
                Some(ratio) => write!(f, "   {ratio}")?,
                None => write!(f, "   {}", if index == 0 { "baseline" } else { "not defined: the baseline is 0" })?,
            }
        }
        Ok(())
    }
}

impl Spread {
    /// The spread of `values`; `None` if there is none.
    pub fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let quantile = |fraction: f64| {
            let place = fraction * (values.len() - 1) as f64;
            let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        let (min, max) = (*values.first()?, *values.last()?);
        let [lower_quartile, median, upper_quartile] = [0.25, 0.5, 0.75].map(quantile);
        Some(Spread { min, lower_quartile, median, upper_quartile, max })
    }

    /// As kept in `benches/results`.
    pub fn to_json(self) -> Value {
        json!({
            "min": self.min,
            "lower_quartile": self.lower_quartile,
            "median": self.median,
            "upper_quartile": self.upper_quartile,
            "max": self.max,
        })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [min, low, median, high, max] =
            [self.min, self.lower_quartile, self.median, self.upper_quartile, self.max].map(short);
        write!(f, "{median} (half within {low} to {high}, all within {min} to {max})")
    }
}

/// Four significant digits, which is more than any machine repeats.
fn short(value: f64) -> String {
    let digits_before = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    format!("{value:.*}", usize::try_from(4 - digits_before).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A comparison of two contenders that return these samples after one warm-up sample.
    fn pair(baseline: &[f64], other: &[f64]) -> Measured {
        let after_warm_up = |samples: &[f64]| {
            let mut samples = [&[1e9], samples].concat().into_iter();
            move || Ok(samples.next().expect("one sample per round"))
        };
        let comparison = Comparison::new("pair", "ns", baseline.len());
        comparison.sampled("a", after_warm_up(baseline)).sampled("b", after_warm_up(other)).run().expect("numbers")
    }

    #[test]
    fn contenders_take_turns() {
        let turns = RefCell::new(String::new());
        let taker = |name: char| {
            let turns = &turns;
            move || {
                turns.borrow_mut().push(name);
                Ok(1.0)
            }
        };
        let result = Comparison::new("turns", "s", 3).sampled("a", taker('a')).sampled("b", taker('b')).run();
        assert_eq!(turns.borrow().as_str(), "abababab", "one warm-up round, then three");
        assert_eq!(result.expect("numbers").series[1].samples.len(), 3, "the warm-up is not kept");
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        // Both drift by a factor of 100; pair by pair the second is always twice the first.
        let result = pair(&[1.0, 10.0, 100.0], &[2.0, 20.0, 200.0]);
        let ratio = result.ratio("b").expect("no baseline is 0");
        assert_eq!((ratio.min, ratio.median, ratio.max), (2.0, 2.0, 2.0));
        assert_eq!(pair(&[0.0, 2.0], &[5.0, 5.0]).ratio("b").expect("one pair is left").median, 2.5);
        assert_eq!(pair(&[0.0], &[5.0]).ratio("b"), None);
        assert_eq!(result.ratio("c"), None);
    }

    #[test]
    fn spreads_are_order_statistics() {
        for (name, values, expected) in [
            ("one", vec![3.0], [3.0; 5]),
            ("odd", vec![5.0, 1.0, 3.0, 2.0, 4.0], [1.0, 2.0, 3.0, 4.0, 5.0]),
            ("even", vec![4.0, 1.0, 2.0, 3.0], [1.0, 1.75, 2.5, 3.25, 4.0]),
        ] {
            let spread = Spread::of(values).expect(name);
            let found = [spread.min, spread.lower_quartile, spread.median, spread.upper_quartile, spread.max];
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn results_read_at_a_glance() {
        let text = pair(&[10.0, 12.0, 11.0], &[20.0, 24.0, 33.0]).to_string();
        let expected = "\
pair [ns], 3 rounds taken in turns
  contender         min     median        max   ratio to the first, pair by pair
  a               10.00      11.00      12.00   baseline
  b               20.00      24.00      33.00   2.000 (half within 2.000 to 2.500, all within 2.000 to 3.000)";
        assert_eq!(text, expected);
        assert!(pair(&[0.0], &[1.0]).to_string().ends_with("not defined: the baseline is 0"));
    }

    #[test]
    fn figures_have_four_digits() {
        for (value, expected) in
            [(0.0, "0.000"), (16.5, "16.50"), (0.01234, "0.01234"), (123456.0, "123456"), (-2.0, "-2.000")]
        {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn commands_are_timed_and_must_succeed() {
        let mut good =
            Comparison::new("true", "s", 2).command("a", Command::new("true")).command("b", Command::new("true"));
        let result = good.run().expect("true exits 0");
        assert!(result.series.iter().all(|series| series.samples.iter().all(|seconds| *seconds > 0.0)));
        let error =
            Comparison::new("false", "s", 2).command("bad", Command::new("false")).run().expect_err("it exits 1");
        assert!(format!("{error:#}").starts_with("false: bad:"), "{error:#}");
    }

    #[test]
    fn no_number_is_no_sample() {
        for (name, sample) in [("infinite", f64::INFINITY), ("none", f64::NAN)] {
            assert!(Comparison::new("x", "s", 1).sampled("a", || Ok(sample)).run().is_err(), "{name}");
        }
        assert!(Comparison::new("empty", "s", 1).run().is_err());
    }

    #[test]
    fn json_holds_samples_and_ratios() {
        let json = pair(&[1.0, 2.0], &[2.0, 4.0]).to_json();
        assert_eq!(json["unit"], "ns");
        assert_eq!(json["series"][1]["samples"], json!([2.0, 4.0]));
        assert_eq!(json["series"][1]["ratio_to_baseline"]["median"], 2.0);
    }
}
