//! One line of the table: what was measured, the bar it is held to, and the verdict.
//!
//! A bar that says "at most" holds for every sample; where only the middle one is below it, the verdict says so.
//!
//! Next: `window` for the table itself.

use super::runner::Spread;
use serde_json::{Value, json};
use std::fmt;

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The quantity that was measured.
    pub what: String,
    /// The figures in words.
    pub measured: String,
    /// The bar in words.
    pub bar: String,
    /// The verdict on it.
    pub verdict: Verdict,
    /// The samples or figures behind the words.
    pub figures: Value,
}

/// The verdict on a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// For every sample.
    Met,
    /// For the median, not for every sample.
    MedianMet,
    /// Not even for the median.
    Missed,
    /// It could not be measured here; `measured` says why.
    Skipped,
    /// There is no bar: the row is there to compare with.
    NoBar,
}

impl Verdict {
    /// The verdict of a yes or no.
    pub fn of(met: bool) -> Verdict {
        if met { Verdict::Met } else { Verdict::Missed }
    }

    /// As printed and kept.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::MedianMet => "median met",
            Verdict::Missed => "MISSED",
            Verdict::Skipped => "SKIPPED",
            Verdict::NoBar => "no bar",
        }
    }
}

impl Row {
    /// A row whose samples are all to be at most `bar`.
    pub fn at_most(what: impl Into<String>, unit: &str, samples: &[f64], bar: f64) -> Row {
        let what = what.into();
        let Some(spread) = Spread::of(samples.to_vec()) else { return Row::skipped(what, "no sample was taken") };
        let above = samples.iter().filter(|sample| **sample > bar).count();
        let verdict = match above {
            0 => Verdict::Met,
            _ if spread.median <= bar => Verdict::MedianMet,
            _ => Verdict::Missed,
        };
        Row {
            what,
            measured: format!("{unit}: {spread}; {above} of {} above the bar", samples.len()),
            bar: format!("at most {bar} {unit}"),
            verdict,
            figures: json!({ "unit": unit, "samples": samples, "spread": spread.to_json() }),
        }
    }

    /// As [`Row::at_most`], but the bar is for the median alone: samples that are differences of noisy figures.
    pub fn median_at_most(what: impl Into<String>, unit: &str, samples: &[f64], bar: f64) -> Row {
        let row = Row::at_most(what, unit, samples, bar);
        let verdict = if row.verdict == Verdict::MedianMet { Verdict::Met } else { row.verdict };
        Row { verdict, bar: format!("median at most {bar} {unit}"), ..row }
    }

    /// A row to compare with: figures without a bar.
    pub fn no_bar(what: impl Into<String>, unit: &str, samples: &[f64]) -> Row {
        let what = what.into();
        let Some(spread) = Spread::of(samples.to_vec()) else { return Row::skipped(what, "no sample was taken") };
        let figures = json!({ "unit": unit, "samples": samples, "spread": spread.to_json() });
        Row { what, measured: format!("{unit}: {spread}"), bar: String::new(), verdict: Verdict::NoBar, figures }
    }

    /// A row that says why there is no figure.
    pub fn skipped(what: impl Into<String>, reason: impl Into<String>) -> Row {
        let (what, measured) = (what.into(), reason.into());
        Row { what, measured, bar: String::new(), verdict: Verdict::Skipped, figures: Value::Null }
    }

    /// As kept in `benches/results`.
    pub fn to_json(&self) -> Value {
        json!({
            "what": self.what,
            "measured": self.measured,
            "bar": self.bar,
            "verdict": self.verdict.word(),
            "figures": self.figures,
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10}  {}\n{:12}{}", self.verdict.word(), self.what, "", self.measured)?;
        if self.bar.is_empty() { Ok(()) } else { write!(f, "\n{:12}bar: {}", "", self.bar) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_holds_for_every_sample_or_the_median_or_not() {
        for (name, samples, all, median) in [
            ("below", vec![1.0, 2.0, 3.0], Verdict::Met, Verdict::Met),
            ("on it", vec![3.0], Verdict::Met, Verdict::Met),
            ("one above", vec![1.0, 2.0, 9.0], Verdict::MedianMet, Verdict::Met),
            ("most above", vec![1.0, 4.0, 9.0], Verdict::Missed, Verdict::Missed),
            ("none", vec![], Verdict::Skipped, Verdict::Skipped),
        ] {
            assert_eq!(Row::at_most("x", "ms", &samples, 3.0).verdict, all, "{name}");
            assert_eq!(Row::median_at_most("x", "ms", &samples, 3.0).verdict, median, "{name}");
        }
    }

    #[test]
    fn a_row_shows_figures_bar_and_verdict() {
        let text = Row::at_most("pause", "ms", &[1.0, 2.0, 9.0], 2.0).to_string();
        assert_eq!(
            text,
            "median met  pause\n            ms: 2.000 (half within 1.500 to 5.500, all within 1.000 to 9.000); \
             1 of 3 above the bar\n            bar: at most 2 ms"
        );
        assert_eq!(Row::skipped("peer", "not installed").to_string(), "   SKIPPED  peer\n            not installed");
    }
}
