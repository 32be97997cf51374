//! One figure: its value or why there is none, how it was found, and how old it is.
//!
//! Next: `sensor`, which makes them.

use serde::{Deserialize, Serialize};

/// Why there is no figure.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoFigure {
    /// The kernel does not show a file.
    #[error("/proc/{file} can't be read: {reason}")]
    Unreadable {
        /// Its name below `/proc`.
        file: String,
        /// The system's words.
        reason: String,
    },
    /// The file tells of no processor.
    #[error("/proc/stat names no processor")]
    NoProcessor,
    /// The file holds no load.
    #[error("/proc/loadavg has no load")]
    NoLoad,
    /// An older kernel, or a damaged text.
    #[error("/proc/meminfo has no MemAvailable")]
    NoMemory,
    /// The file is not as the kernel writes it.
    #[error("/proc/pressure/{name} is no text of pressure")]
    NoPressure {
        /// The resource.
        name: String,
    },
    /// All disks are other machines'.
    #[error("this machine shows no disk of its own")]
    NoDisk,
    /// Processors were taken away and given back.
    #[error("the processors' counters went back")]
    ProcessorsWentBack,
    /// A control group was replaced by another one.
    #[error("the counter of pressure went back")]
    PressureWentBack,
    /// The looks were too near to each other.
    #[error("no tick of the clock passed between two looks")]
    NoTick,
    /// A sum without an end, or of nothing.
    #[error("what was read makes no number")]
    NoNumber,
    /// It is too long since it was measured.
    #[error("the newest value is {age_s:.0} s old, and {age_max_s:.0} s are the most")]
    Stale {
        /// So long, seconds.
        age_s: f64,
        /// The most that is taken, seconds.
        age_max_s: f64,
    },
    /// An agent did not send it.
    #[error("its agent says nothing of it: is it of an older version?")]
    NotSaid,
    /// No way to a share says anything.
    #[error("{}", .0.iter().map(|(way, why)| format!("{way}: {why}")).collect::<Vec<_>>().join("; "))]
    NoWay(Vec<(&'static str, NoFigure)>),
}

impl NoFigure {
    /// That a file below `/proc` can't be read.
    pub(crate) fn unreadable(file: &str, error: &std::io::Error) -> Self {
        NoFigure::Unreadable { file: file.to_owned(), reason: error.to_string() }
    }
}

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
            return Figure::none(&NoFigure::NoNumber);
        }
        Figure { value: Some(value), how: how.into(), age_s: 0.0, why_not: None }
    }

    /// None, and why.
    pub fn none(why: &NoFigure) -> Figure {
        Figure { value: None, how: String::new(), age_s: 0.0, why_not: Some(why.to_string()) }
    }

    /// The same, so much later; refused if it is older than `age_max_s`.
    pub fn aged(&self, age_s: f64, age_max_s: f64) -> Figure {
        if self.value.is_some() && age_s > age_max_s {
            return Figure { age_s, ..Figure::none(&NoFigure::Stale { age_s, age_max_s }) };
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
