//! The job's part of a window: what must be decided over all ranks, from what nodes answer. It touches no process.
//!
//! Next: `drive` for the whole way, `membership` for the nodes, `marker` (what counts), `recording` (when), `report`.

mod agreement;
mod checked;
mod counting;
mod doubts;
mod drive;
mod how_far;
mod marker;
mod membership;
mod nest;
mod no_loop;
mod recording;
mod reduced;
mod report;

pub use drive::{Outcome, measure, measure_from_first_call, measure_with};
