//! The reasons why no loop of the program counts iterations.
//!
//! Next: `nest`, which finds them; `marker`, which tells them with what counts instead.

use crate::node::PASSES_PER_SECOND_MAX;
use crate::reason::{NestUnknown, NoIterations, NotYet};
use std::fmt;
use trimtab_types::report::Ended;
use trimtab_window::Passes;

/// Why a window is by time.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum ByTime {
    #[error("all calls are recorded, from the first one behind MPI_Init on")]
    FromFirstCall,
    #[error(
        "{} after {seconds:.1} s, before its main loop was sure",
        match ended {
            Ended::Interrupted => "it was interrupted",
            Ended::FaultHandler => "the program set a fault handler of its own",
            _ => "the program ended",
        }
    )]
    CutShort { ended: Ended, seconds: f64 },
    #[error(transparent)]
    NotYet(NotYet),
}

/// A reason why no loop of the program counts; its words are for a reader.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NoLoop {
    /// A node that looked at stacks gives it.
    OfStacks(NestUnknown),
    /// Stacks show no loop that can be counted.
    NoneAround,
    /// The outermost loop around calls of MPI can't be counted.
    Uncountable {
        /// The loop.
        shown: String,
        /// The reason.
        reason: NoIterations,
    },
    /// The program would feel the counting.
    TooFast {
        /// The loop.
        name: String,
    },
    /// The loop that was chosen was not passed any more.
    Left {
        /// The loop.
        name: String,
        /// A rank that did not pass it.
        rank: u32,
        /// So long.
        seconds: f64,
    },
    /// A loop was passed often enough, and ranks hardly call MPI in it.
    WithoutCalls {
        /// The loop.
        name: String,
        /// Its passes.
        counted: Passes,
        /// In which time.
        seconds: f64,
    },
    /// Each rank is in one of several loops, and they do not pass them equally often.
    OutOfStep {
        /// The loops.
        name: String,
        /// Passes of the rank that passed its loop least.
        least: u64,
        /// Passes of the one that did most.
        most: u64,
        /// In which time.
        seconds: f64,
    },
    /// The outermost loop that was counted was not passed often enough.
    Seldom {
        /// The loop.
        name: String,
        /// Its passes.
        passes: u64,
        /// In which time.
        seconds: f64,
    },
    /// Two at once.
    Both(Box<[NoLoop; 2]>),
}

impl NoLoop {
    /// Both reasons, as far as there are any.
    pub(super) fn joined(first: Option<NoLoop>, second: Option<NoLoop>) -> Option<NoLoop> {
        match (first, second) {
            (Some(first), Some(second)) => Some(NoLoop::Both(Box::new([first, second]))),
            (first, second) => first.or(second),
        }
    }

    /// Its words already say that an iteration of the program may be longer than what counts instead.
    fn says_what_follows(&self) -> bool {
        match self {
            NoLoop::NoneAround | NoLoop::Seldom { .. } => true,
            NoLoop::Both(both) => both.iter().any(NoLoop::says_what_follows),
            NoLoop::OfStacks(_)
            | NoLoop::Uncountable { .. }
            | NoLoop::TooFast { .. }
            | NoLoop::Left { .. }
            | NoLoop::WithoutCalls { .. }
            | NoLoop::OutOfStep { .. } => false,
        }
    }

    /// The reason why calls count in place of a loop, with what follows from it.
    pub(super) fn with_meaning(&self) -> String {
        match self.says_what_follows() {
            true => self.to_string(),
            false => format!("{self}; so an iteration may be more or less than one of the program"),
        }
    }
}

impl fmt::Display for NoLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoLoop::OfStacks(reason) => reason.fmt(f),
            NoLoop::NoneAround => f.write_str(
                "no loop of the program that can be counted was around what ran when its stacks were looked at, so an \
                 iteration of it may be longer; look again later, or see `trimtab loops`",
            ),
            NoLoop::Uncountable { shown, reason } => write!(f, "{shown} can't be counted: {reason}"),
            NoLoop::TooFast { name } => write!(
                f,
                "{name} is passed more than {PASSES_PER_SECOND_MAX:.0} times a second, too often to be counted"
            ),
            NoLoop::Left { name, rank, seconds } => write!(
                f,
                "rank {rank} did not pass {name} in {seconds:.1} s, or too seldom to tell its passes from others'"
            ),
            NoLoop::WithoutCalls { name, counted, seconds } => without_calls(f, name, *counted, *seconds),
            NoLoop::OutOfStep { name, least, most, seconds } => write!(
                f,
                "ranks are in several loops instead of one, {name}, and passed theirs {least} to {most} times in \
                 {seconds:.1} s: one may hand out what the others do"
            ),
            NoLoop::Seldom { name, passes, seconds } => write!(
                f,
                "around it may be {name}, which was passed {passes} times in {seconds:.1} s, so an iteration of the \
                 program may be longer"
            ),
            NoLoop::Both(both) => write!(f, "{}; {}", both[0], both[1]),
        }
    }
}

fn without_calls(f: &mut fmt::Formatter<'_>, name: &str, counted: Passes, seconds: f64) -> fmt::Result {
    let Passes { passes, with_mpi } = counted;
    let with = if with_mpi == 0 { "none".to_owned() } else { format!("{with_mpi}") };
    write!(
        f,
        "{name} was passed {passes} times in {seconds:.1} s, {with} of them with a call of MPI, so that its passes are not \
         taken for iterations of all ranks together; `trimtab loops` shows it, and --loop takes it nevertheless"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLLOWS: &str = "; so an iteration may be more or less than one of the program";

    fn seldom() -> NoLoop {
        NoLoop::Seldom { name: "loop 1 of main".to_owned(), passes: 2, seconds: 2.0 }
    }

    fn of_stacks() -> NoLoop {
        NoLoop::OfStacks(NestUnknown::NothingInCommon)
    }

    /// A function may be called so that its name says nothing of the reason.
    #[test]
    fn what_follows_is_said_once() {
        let named = |name: &str| NoLoop::TooFast { name: name.to_owned() };
        let rows = [
            ("none around", NoLoop::NoneAround, false),
            ("seldom", seldom(), false),
            ("of stacks", of_stacks(), true),
            ("two of which one says it", NoLoop::Both(Box::new([seldom(), of_stacks()])), false),
            ("two of which none says it", NoLoop::Both(Box::new([named("f"), of_stacks()])), true),
            ("a function with a strange name", named("loop 1 of may be longer"), true),
        ];
        for (name, reason, is_added) in rows {
            let said = reason.with_meaning();
            assert_eq!(said.strip_suffix(FOLLOWS).is_some(), is_added, "{name}: {said}");
            let says_longer = said.replace("of may be longer", "").contains("may be longer");
            assert_ne!(says_longer, is_added, "{name}: {said}");
        }
    }

    #[test]
    fn reasons_are_joined_as_far_as_there_are_any() {
        assert_eq!(NoLoop::joined(None, None), None);
        assert_eq!(NoLoop::joined(None, Some(of_stacks())), Some(of_stacks()));
        let both = NoLoop::joined(Some(seldom()), Some(of_stacks())).map(|both| both.to_string()).unwrap_or_default();
        assert!(both.starts_with("around it may be loop 1 of main, which was passed 2 times in 2.0 s"), "{both}");
        assert!(both.ends_with("may be longer; no stacks have a function in common"), "{both}");
    }
}
