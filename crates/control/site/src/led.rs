//! Words between the controller and a lead that it has started for a window: lines of JSON through two pipes.
//!
//! The lead is another process, which has neither an identity nor any right: all that it can do is to ask, by these words,
//! for agents of the one job that it was started for, and to hand over the report. The controller reads its first line to it,
//! a [`LeadOrder`]; from then on it answers each [`LeadAsks`] with a [`LeadHears`].
//!
//! Next: the controller's `leads` for one end, `trimtab_standing::LedWay` for the other.

use crate::api::{Begun, Wanted, WindowState};
use crate::jobs::{Filed, Filing};
use crate::measured::WindowAsked;
use serde::{Deserialize, Serialize};

/// A window to be led.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeadOrder {
    /// The job, as Slurm calls it.
    pub job: String,
    /// Its owner, whose job it must still be.
    pub owner: u32,
    /// The role that asked for it.
    pub by: String,
    /// How to measure.
    pub asked: WindowAsked,
}

/// A question or a word of a lead.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum LeadAsks {
    /// Agents, once.
    Begin(Wanted),
    /// How its agents' orders stand.
    State,
    /// To keep the report, which is the last.
    File(Box<Filing>),
    /// Nothing was measured, which is the last.
    Failed(String),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LeadHears {
    /// Agents are asked for.
    Begun(Begun),
    /// How it stands.
    State(WindowState),
    /// The report is kept.
    Filed(Filed),
    /// It can't be done.
    No(String),
}
