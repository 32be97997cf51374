//! For what functions are probed: that decides which of their exits matter.
//!
//! Next: `tails` and `prepare`, which ask.

use crate::obstacle::Obstacle;
use crate::request::{FunctionRequest, Work};
use trimtab_stub::layout::{NOBODY, Probe, flag, role};

/// For what functions are probed.
pub(crate) trait Purpose {
    /// True if exits keep the processor's flags.
    fn keeps_flags(&self) -> bool;
    /// The work at functions that are jumped to; `None`: calls are not followed there.
    fn behind_jumps(&self) -> Option<Work>;
    /// True if a call that comes back to its function by jumps stays one call there.
    fn follows_rounds(&self) -> bool;
    /// True if it matters when calls of a function end, or what they return, and not only that it is left.
    fn asks_for_ends(&self, request: &FunctionRequest) -> bool;
    /// True if a function is worth its entry alone, if its exits can't be seen for this reason.
    fn counts(&self, request: &FunctionRequest, why: &Obstacle) -> bool;
}

/// Windows time functions. One that can't be patched is left out; one that is left only by jumps where its calls are not
/// followed is counted.
pub(crate) struct OfWindow;

impl Purpose for OfWindow {
    fn keeps_flags(&self) -> bool {
        false
    }

    fn behind_jumps(&self) -> Option<Work> {
        let passes = Probe { flags: flag::TIMED, role: role::PASSES, function: NOBODY, framed: 1, ..Probe::ABSENT };
        Some(Work::Window(passes))
    }

    fn follows_rounds(&self) -> bool {
        true
    }

    fn asks_for_ends(&self, _: &FunctionRequest) -> bool {
        true
    }

    fn counts(&self, _: &FunctionRequest, why: &Obstacle) -> bool {
        matches!(why, Obstacle::LeftByJumps { .. })
    }
}
