//! The job's part of a window: what must be decided over all ranks, from what nodes answer. It touches no process.
//!
//! Next: `drive` for the whole way, `muster` for the nodes, `marker` (what counts), `recording` (when), `report`.

mod agreement;
mod checked;
mod counting;
mod doubts;
mod drive;
mod how_far;
mod marker;
mod muster;
mod nest;
mod recording;
mod report;

pub use drive::{Outcome, measure, measure_from_first_call, measure_with};
