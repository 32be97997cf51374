//! What the lead asks its agents, beside what a window asks of its nodes.
//!
//! One stream carries both ways: a question is a command to all, its answers are one wave, each agent's bytes by its
//! place. Question and wave have one number, so that an answer that comes late belongs to no other question.
//!
//! Next: `remote` asks, `serve` answers.

use serde::{Deserialize, Serialize};

/// A question to all agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The wave that its answers are.
    pub wave: u64,
    /// What is asked.
    pub ask: Ask,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// Which ranks have you? [`Say::Here`]
    Who,
    /// A command of a window, encoded by `trimtab_measure::wire`: [`Say::Window`].
    Window(Vec<u8>),
    /// Take everything out and end: [`Say::Bye`].
    Leave,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Say {
    /// Its ranks.
    Here(Present),
    /// An answer of the window's, encoded by `trimtab_measure::wire`.
    Window(Vec<u8>),
    /// It ends.
    Bye,
    /// It can't.
    No {
        /// Where.
        host: String,
        /// Why not.
        reason: String,
        /// The same question may have an answer a moment later.
        is_early: bool,
    },
}

/// An agent with its ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Present {
    /// Its host.
    pub host: String,
    /// Names the job on that host.
    pub key: String,
    /// Number of ranks in the whole job, where its launcher says so.
    pub size: Option<u32>,
    /// The ranks there.
    pub ranks: Vec<PresentRank>,
}

/// A rank on an agent's host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentRank {
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its process there.
    pub pid: i32,
    /// The start of that process in clock ticks after boot.
    pub start_ticks: u64,
}
