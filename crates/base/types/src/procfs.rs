//! What Linux writes about a process, as facts: the lines of `/proc/PID/maps` and `/proc/PID/stat`.
//!
//! Text in, facts out: who reads the files, and what a missing one means, is the caller's business. One parser for all,
//! because a path with a space or a process called `) R 1 (` must not be misread in one place only.
//!
//! Next: `trimtab-os` and `trimtab-track` read the files.

mod maps;
mod stat;

pub use maps::{Mapping, parse_maps};
pub use stat::{CLOCK_TICKS_PER_SECOND, Stat, State, parse_stat};
