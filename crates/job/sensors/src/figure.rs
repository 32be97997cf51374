//! One figure: its value or why there is none, how it was found, and how old it is.
//!
//! Next: `sensor`, which makes them.

use serde::{Deserialize, Serialize};

/// One figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The value; `None`: see `why_not`.
    pub value: Option<f64>,
    /// How it was found, in words.
    pub how: String,
    /// Seconds since it was measured.
    pub age_s: f64,
    /// Why there is no value; `None` if there is one.
    pub why_not: Option<String>,
}

impl Figure {
    /// One that was just measured.
    pub fn of(value: f64, how: impl Into<String>) -> Figure {
        if !value.is_finite() {
            return Figure::none("what was read makes no number");
        }
        Figure { value: Some(value), how: how.into(), age_s: 0.0, why_not: None }
    }

    /// None, and why.
    pub fn none(why: impl Into<String>) -> Figure {
        Figure { value: None, how: String::new(), age_s: 0.0, why_not: Some(why.into()) }
    }

    /// The same, so much later; refused if it is older than `age_max_s`.
    pub fn aged(&self, age_s: f64, age_max_s: f64) -> Figure {
        if self.value.is_some() && age_s > age_max_s {
            let why = format!("the newest value is {age_s:.0} s old, and {age_max_s:.0} s are the most");
            return Figure { age_s, ..Figure::none(why) };
        }
        Figure { age_s, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_figure_is_refused_with_its_age() {
        let figure = Figure::of(0.5, "probe");
        assert_eq!(figure.aged(9.0, 50.0).value, Some(0.5));
        let stale = figure.aged(51.0, 50.0);
        assert_eq!((stale.value, stale.age_s), (None, 51.0));
        assert!(stale.why_not.is_some_and(|why| why.contains("51 s old")));
        assert!(Figure::of(f64::NAN, "x").why_not.is_some());
    }
}
