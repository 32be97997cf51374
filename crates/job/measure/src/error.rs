//! The errors that end a measurement without a report.
//!
//! Next: `drive` raises these; the command line adds nothing but the exit code.

use crate::reason::NoIterations;
use trimtab_session::Passing;
use trimtab_types::{Pid, Rank};

/// A measurement that could not be made. Every rank is as it was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One rank could not be prepared, patched or restored.
    #[error("rank {rank} (process {pid})")]
    Rank {
        /// The rank.
        rank: Rank,
        /// Its process.
        pid: Pid,
        /// Why.
        #[source]
        source: trimtab_session::Error,
    },
    /// A function asked for is nowhere.
    #[error("no function matches {pattern:?}; `trimtab functions {pid}` lists what can be measured")]
    NoSuchFunction {
        /// The pattern that was asked for.
        pattern: String,
        /// The process.
        pid: Pid,
    },
    /// A function asked for is nowhere, but not everything could be looked at.
    #[error(
        "no function matches {pattern:?} in what could be looked at; it may be in {path}, which could not: {reason}"
    )]
    NotLookedAt {
        /// The things asked for.
        pattern: String,
        /// A file that was not looked at.
        path: String,
        /// Why.
        reason: String,
    },
    /// A function asked for by name can't be patched.
    #[error("{name} can't be measured: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A loop asked for is not there, or several may be meant.
    #[error("{function} has {what}")]
    NoLoop {
        /// The function.
        function: String,
        /// The thing that it has instead.
        what: String,
    },
    /// Nothing can be held behind `MPI_Init` on a node.
    #[error("nobody can be held: {reason}")]
    NoHolds {
        /// The system's words.
        reason: String,
    },
    /// A loop of the nest that was asked for by its number is counted with another one.
    #[error(
        "loop {number} of the nest is counted together with the one on the other side of a branch, in which the other ranks \
         are; see `trimtab loops PID`"
    )]
    LoopTogether {
        /// The number.
        number: u32,
    },
    /// A loop of the nest that was asked for by its number can't be counted.
    #[error("loop {number} of the nest can't be counted: {reason}; see `trimtab loops PID`")]
    LoopNotCounted {
        /// The number.
        number: u32,
        /// Why.
        reason: NoIterations,
    },
    /// There is no loop of the number that was asked for.
    #[error(
        "{count} loops were seen to run, so there is no loop {number}; `trimtab loops PID` shows them{}",
        behind(why)
    )]
    NoLoopOfNest {
        /// The number.
        number: u32,
        /// So many are there.
        count: usize,
        /// Why there may be more, or none.
        why: Option<String>,
    },
    /// Iterations are over before the ranks have heard where to begin.
    #[error(
        "the ranks iterate faster than they can be told when to start; measure by time (--mark with a rarer function)"
    )]
    TooFast,
    /// The program ended before anything was recorded.
    #[error(
        "the program ended before an iteration of it was recorded: it ran too short, or was attached to too late; \
         `trimtab run --follow -- COMMAND` starts it and records all of it, however short, from its first call of MPI on"
    )]
    EndedEarly,
    /// Passes were compared that are not of one thread.
    #[error(
        "another thread of rank {rank} came to count iterations while the ranks' passes were compared; measure again"
    )]
    OtherThread {
        /// The rank.
        rank: Rank,
    },
    /// Processes ended by a fault, or by what can't be known, while they were patched, before anything was recorded.
    #[error("{}", departed.join("; "))]
    Departed {
        /// A sentence for each.
        departed: Vec<String>,
    },
    /// The program began to handle faults by itself before anything was recorded.
    #[error(
        "the program has set a fault handler of its own before the first iteration was recorded, and the probes were taken \
         out at once; measure again: then nothing that may fault is moved"
    )]
    NewFaultHandler,
    /// The user interrupted before anything was recorded.
    #[error("interrupted before anything was recorded; the program runs on unchanged")]
    Interrupted,
    /// The named marker was called too seldom, or never while the other ranks called theirs.
    #[error(
        "within {seconds:.0} s {marker} was not passed on rank {rank} a few times while the others passed it; name another function with --mark, or a loop with --loop"
    )]
    MarkerSilent {
        /// The marker.
        marker: String,
        /// The first rank without a call.
        rank: Rank,
        /// How long we waited.
        seconds: f64,
    },
    /// A node could not do what it was asked.
    #[error("on {host}: {text}")]
    There {
        /// The node's machine.
        host: String,
        /// Its message.
        text: String,
    },
    /// No node answered, or none is left that does.
    #[error(
        "no node of the job answered when asked to {purpose}; their probes take themselves out when their lease ends"
    )]
    NoNode {
        /// The purpose of the question.
        purpose: &'static str,
    },
    /// None of the ranks that were asked for is in the job.
    #[error("no rank of the job is in `{ranks}`; `trimtab attach --dry-run PID` names the ranks of this machine")]
    NoRank {
        /// The ranks that were asked for.
        ranks: String,
    },
    /// Nodes measure different functions.
    #[error(
        "{first} and {other} would not measure the same functions, so their numbers can't be added: do both run the same \
         program with the same libraries?"
    )]
    NodesDiffer {
        /// One machine.
        first: String,
        /// Another one.
        other: String,
    },
    /// A command of a window that is not open.
    #[error("window {asked} is not open here ({}); insert under a newer number", newest_text(*newest))]
    Stale {
        /// The window of the command.
        asked: u64,
        /// The newest window that was open here.
        newest: Option<u64>,
    },
    /// A request or an answer that fits nothing that was said before.
    #[error("a message does not fit the window: {what}; end the window and measure again")]
    Malformed {
        /// The kind of answer that came.
        what: &'static str,
    },
}

fn behind(why: &Option<String>) -> String {
    why.as_ref().map_or_else(String::new, |why| format!("; {why}"))
}

fn newest_text(newest: Option<u64>) -> String {
    newest.map_or_else(|| "none was yet".to_string(), |id| format!("the newest was {id}"))
}

impl Error {
    /// True if a rank's loader is still at work, so that it may go well in a moment.
    pub fn is_loading(&self) -> bool {
        matches!(self, Error::Rank { source, .. } if source.is_loading())
    }

    /// True if a rank may just be executing a program: its libraries, and what is to be measured in them, come in a
    /// moment.
    pub(crate) fn may_be_executing(&self) -> bool {
        use trimtab_session::Error as Session;
        // A program that is executed closes the descriptor of our memory, too.
        let is_of_another =
            |source: &Session| matches!(source, Session::NothingToDo { .. } | Session::DescriptorLost { .. });
        self.is_loading() || matches!(self, Error::Rank { source, .. } if is_of_another(source))
    }

    /// Where a rank is gone when it is to be prepared the program has ended, whatever was tried at that moment.
    pub(crate) fn or_ended(self, mut ranks: impl Iterator<Item = Pid>) -> Self {
        let is_gone =
            matches!(self, Error::Rank { source: trimtab_session::Error::Os(trimtab_os::Error::Gone { .. }), .. });
        match is_gone || ranks.any(|pid| !trimtab_os::runs(pid)) {
            true => Error::EndedEarly,
            false => self,
        }
    }
}

impl Passing for Error {
    fn is_passing(&self) -> bool {
        matches!(self, Error::Rank { source, .. } if source.is_passing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_session::Error as Session;
    use trimtab_types::{Pid, Rank};

    #[test]
    fn a_rank_without_anything_to_measure_may_be_executing_a_program() {
        let (rank, pid) = (Rank(0), Pid(1));
        let of_rank = |source| Error::Rank { rank, pid, source };
        let nothing = of_rank(Session::NothingToDo { pid });
        assert!(nothing.may_be_executing() && !nothing.is_loading());
        let lost = of_rank(Session::DescriptorLost { pid, attempts: 3 });
        assert!(lost.may_be_executing() && !lost.is_loading(), "executing closes it");
        for other in [Session::Internal { pid }, Session::PlacesTaken { pid }, Session::FarApart { pid, places: 99 }] {
            let other = of_rank(other);
            assert!(!other.may_be_executing(), "{other} is no program that is executed");
        }
        let gone = of_rank(Session::CodeGone { pid, function: "f".into() });
        assert!(!gone.may_be_executing() && !Error::EndedEarly.may_be_executing());
    }
    #[test]
    fn an_error_about_a_program_that_has_ended_is_its_end() {
        let mut child = std::process::Command::new("true").spawn().expect("it starts");
        let (own, ended) = (Pid(std::process::id() as i32), Pid(child.id() as i32));
        child.wait().expect("it ends");
        let refused = || Error::Refused { name: "a loop of f()".into(), reason: "its code can't be read".into() };
        assert!(matches!(refused().or_ended([own].into_iter()), Error::Refused { .. }));
        assert!(matches!(refused().or_ended([own, ended].into_iter()), Error::EndedEarly));
    }
}
