//! Processes that ended by a fault, or by what can't be known, while trimtab had patched them or right after: said loudly,
//! and an error whatever was measured.
//!
//! Next: `trimtab-session`, which watches for it.

use crate::ERROR;
use std::time::Instant;
use trimtab_session::Departures;

/// Tells of processes that `departed` while they were patched, and of those among `ends` that do so within a second of
/// now, when the probes have just been taken out. The exit code: `code` if there are none.
pub fn told(departed: Vec<String>, ends: &Departures, code: u8) -> u8 {
    let later = ends.linger(Instant::now(), &departed);
    departed.iter().chain(&later).for_each(|text| eprintln!("trimtab: {text}"));
    if departed.is_empty() && later.is_empty() { code } else { ERROR }
}
