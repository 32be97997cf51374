//! Words of the report that come from a fixed set.
//!
//! Next: [`super`], whose fields they are.

use serde::{Deserialize, Serialize};

/// An enum whose values are these words, in JSON and for people.
macro_rules! words {
    ($($(#[$of_set:meta])* $name:ident { $($(#[$of_word:meta])* $value:ident = $word:literal,)* })*) => {$(
        $(#[$of_set])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$of_word])* #[serde(rename = $word)] $value,)*
        }

        impl $name {
            /// As the report says it.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)*
                }
            }

            /// The one that the report says by this word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some($name::$value),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }
    )*};
}

words! {
    /// How a window's marker was found.
    #[derive(Default)]
    MarkerSource {
        /// By the calls that repeat, or the loops that run.
        Detected = "detected",
        /// The user named it.
        Named = "named",
        /// The program calls a function of this name.
        MeasureMark = "measuremark",
        /// There is none: the window is by time.
        #[default]
        Time = "time",
    }

    /// Why a window ended.
    #[derive(Default)]
    Ended {
        /// All iterations were recorded.
        #[default]
        Iterations = "iterations",
        /// The interval was narrow enough.
        Confident = "confident",
        /// The time limit.
        MaxSeconds = "max-seconds",
        /// A rank ended or executed another program.
        ProgramEnded = "program-ended",
        /// A rank has set a fault handler of its own, and the probes had to go.
        FaultHandler = "fault-handler",
        /// The function that counts iterations costs more than it may.
        ProbeLimit = "probe-limit",
        /// The user interrupted.
        Interrupted = "interrupted",
        /// The program left the loop whose passes are the iterations.
        LeftLoop = "left-loop",
    }

    /// Why one rank computes longer than another.
    Cause {
        /// It has more to do.
        Work = "work",
        /// Its machine is slower.
        Node = "node",
        /// It was kept from its processor, or that is slower.
        Processor = "processor",
        /// Nothing that was recorded tells these apart.
        Undetermined = "undetermined",
    }

    /// The user's word about ranks or nodes.
    Assumption {
        /// All ranks have the same work: who computes longer has a slower processor.
        Symmetric = "symmetric",
        /// All nodes are alike: who computes longer has more work.
        Homogeneous = "homogeneous",
    }

    /// A kind of waiting in communication.
    WaitKind {
        /// In a collective, for the last rank to enter it.
        Collective = "wait at collective",
        /// In a receive, for the message to be sent.
        LateSender = "late sender",
        /// In a send, for the receive to be entered.
        LateReceiver = "late receiver",
    }

    /// The group that a measured function belongs to.
    #[derive(Default)]
    FunctionGroup {
        /// Communication of MPI.
        Comm = "comm",
        /// Files.
        Io = "io",
        /// Memory.
        Mem = "mem",
        /// Sleeping.
        Sleep = "sleep",
        /// Functions that the user named.
        #[default]
        User = "user",
        /// Parallel regions of OpenMP.
        Omp = "omp",
        /// No function but a loop, whose calls are its passes.
        Loop = "loop",
        /// Every group, in a list of what was measured.
        All = "all",
    }

    /// Kinds of events that a window can wait for.
    EventKind {
        /// A job came to a machine.
        JobStart = "job-start",
        /// A job left one.
        JobEnd = "job-end",
        /// So many iterations were done.
        Iterations = "iterations",
        /// Iterations became slow.
        Rate = "rate",
        /// The load crossed a limit.
        Load = "load",
        /// A machine's host gave its time to others.
        CpuSteal = "cpu-steal",
        /// Processes waited for processors.
        Pressure = "pressure",
        /// A moment came.
        At = "at",
        /// A time passed, again and again.
        Every = "every",
        /// A time passed.
        After = "after",
        /// Somebody called on this machine.
        Call = "call",
        /// Somebody called through the site's API.
        Api = "api",
        /// The command got a signal.
        Signal = "signal",
    }

    /// Kinds of neighbours.
    #[derive(Default)]
    NeighbourKind {
        /// A step of a Slurm job.
        Slurm = "slurm",
        /// An MPI job that something else started.
        Mpi = "mpi",
        /// All other processes of a user.
        #[default]
        User = "user",
    }

    /// How close two processors are; the closest first.
    #[derive(Default)]
    Closeness {
        /// They are one.
        Core = "core",
        /// They are threads of one core.
        Smt = "smt",
        /// They share the last cache.
        Cache = "cache",
        /// They share a memory.
        Numa = "numa",
        /// They share the machine.
        #[default]
        Machine = "machine",
    }

    /// When in a window a neighbour was there.
    #[derive(Default)]
    Presence {
        /// From its begin to its end.
        #[default]
        Throughout = "throughout",
        /// At its end only.
        Came = "came",
        /// At its begin only.
        Left = "left",
    }

    /// The bound on the processors that ranks share.
    #[derive(Default)]
    CrowdLimit {
        /// They may run on these only.
        #[default]
        Affinity = "affinity",
        /// Their control group gives them no more.
        Quota = "quota",
    }

    /// A factor of parallel efficiency.
    Factor {
        /// Ranks differ in their useful time.
        LoadBalance = "load balance",
        /// Ranks of one node do.
        WithinNodes = "load balance within nodes",
        /// Nodes do.
        BetweenNodes = "load balance between nodes",
        /// Ranks communicate.
        Communication = "communication",
        /// Ranks wait for each other.
        Serialisation = "serialisation",
        /// Messages take time.
        Transfer = "transfer",
    }

    /// A factor of the parallel efficiency of ranks and threads together.
    HybridFactor {
        /// Ranks differ in their time outside of MPI.
        MpiLoadBalance = "MPI load balance",
        /// Ranks are in MPI.
        MpiCommunication = "MPI communication",
        /// Threads of a region differ.
        OmpLoadBalance = "OpenMP load balance",
        /// All threads of a region wait, or have not begun.
        OmpScheduling = "OpenMP scheduling",
        /// One thread works outside of regions.
        OmpSerialisation = "OpenMP serialisation",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_in_json_and_for_people() {
        for (json, word) in [
            (serde_json::to_string(&Ended::MaxSeconds), Ended::MaxSeconds.word()),
            (serde_json::to_string(&WaitKind::Collective), WaitKind::Collective.word()),
            (serde_json::to_string(&FunctionGroup::Mem), FunctionGroup::Mem.word()),
            (serde_json::to_string(&EventKind::CpuSteal), "cpu-steal"),
            (serde_json::to_string(&Factor::WithinNodes), "load balance within nodes"),
            (serde_json::to_string(&HybridFactor::OmpLoadBalance), "OpenMP load balance"),
            (serde_json::to_string(&Closeness::Smt), "smt"),
        ] {
            assert_eq!(json.ok(), Some(format!("\"{word}\"")));
        }
        assert_eq!(serde_json::from_str::<MarkerSource>("\"measuremark\"").ok(), Some(MarkerSource::MeasureMark));
        assert!(serde_json::from_str::<Cause>("\"weather\"").is_err(), "a word of no set is no cause");
        assert_eq!((Ended::from_word("left-loop"), Ended::from_word("")), (Some(Ended::LeftLoop), None));
        assert_eq!(format!("{:5}|", FunctionGroup::Io), "io   |");
    }
}
