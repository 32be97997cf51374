//! Counted since the controller began: windows by what came of them, forecasts by kind. Nothing here names anybody.
//!
//! Next: `metrics`, which shows it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The outcome of a window, or of an order for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WindowCount {
    /// The controller has begun it.
    Begun,
    /// The controller has refused it.
    Refused,
    /// A node's agent has started a user's agent.
    Started,
    /// A node's agent has refused to.
    RefusedByNode,
    /// Its report is kept.
    Kept,
}

impl WindowCount {
    const ALL: [WindowCount; 5] =
        [WindowCount::Begun, WindowCount::Refused, WindowCount::Started, WindowCount::RefusedByNode, WindowCount::Kept];

    fn word(self) -> &'static str {
        match self {
            WindowCount::Begun => "begun",
            WindowCount::Refused => "refused",
            WindowCount::Started => "started_on_node",
            WindowCount::RefusedByNode => "refused_by_node",
            WindowCount::Kept => "kept",
        }
    }
}

/// Kinds of forecasts, as their paths end.
const KINDS: [&str; 10] = ["job", "corun", "comp", "size", "queue", "comm", "total", "place", "plan", "collective"];
/// The outcomes of a question for one.
const ANSWERED: &str = "answered";
const REFUSED: &str = "refused";

/// All counts.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    windows: BTreeMap<WindowCount, u64>,
    forecasts: BTreeMap<(&'static str, &'static str), u64>,
}

impl Counts {
    pub(crate) fn window(&self, what: WindowCount) {
        *self.lock().windows.entry(what).or_default() += 1;
    }

    /// A question for a forecast, by its path; others are not counted.
    pub(crate) fn forecast(&self, path: &str, is_answered: bool) {
        let kind = path.strip_prefix("/v1/forecasts/").and_then(|kind| KINDS.into_iter().find(|known| *known == kind));
        let outcome = if is_answered { ANSWERED } else { REFUSED };
        if let Some(kind) = kind {
            *self.lock().forecasts.entry((kind, outcome)).or_default() += 1;
        }
    }

    /// Each outcome of windows, also those that there were none of.
    pub(crate) fn windows(&self) -> Vec<(&'static str, u64)> {
        let counted = self.lock();
        WindowCount::ALL.map(|what| (what.word(), counted.windows.get(&what).copied().unwrap_or(0))).to_vec()
    }

    /// Each kind of forecast with each outcome, also those that there were none of.
    pub(crate) fn forecasts(&self) -> Vec<(&'static str, &'static str, u64)> {
        let counted = self.lock();
        let of = |kind, outcome| (kind, outcome, counted.forecasts.get(&(kind, outcome)).copied().unwrap_or(0));
        KINDS.into_iter().flat_map(|kind| [of(kind, ANSWERED), of(kind, REFUSED)]).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_there_and_the_rest_is_zero() {
        let counts = Counts::default();
        counts.window(WindowCount::Begun);
        for (path, is_answered) in [
            ("/v1/forecasts/job", true),
            ("/v1/forecasts/job", false),
            ("/v1/forecasts/x\"}", true),
            ("/v1/jobs", true),
        ] {
            counts.forecast(path, is_answered);
        }
        let windows = counts.windows();
        assert_eq!((windows[0], windows.iter().map(|(_, count)| count).sum::<u64>()), (("begun", 1), 1));
        let forecasts = counts.forecasts();
        assert_eq!(forecasts.len(), 2 * KINDS.len());
        assert_eq!(forecasts.iter().filter(|(_, _, count)| *count == 1).count(), 2, "{forecasts:?}");
    }
}
