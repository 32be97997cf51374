//! Processes that ended by a fault, or by what can't be known, while trimtab had patched them or right after: said loudly,
//! and an error whatever was measured.
//!
//! Next: `trimtab-engine`'s `Ends`, which watches for it.

use crate::exit_code::ERROR;
use trimtab_engine::Ends;

/// Tells of processes that ended so. The exit code: `code` if there are none.
pub fn told(ends: &Ends, code: u8) -> u8 {
    let told = ends.told();
    told.iter().for_each(|text| eprintln!("trimtab: {text}"));
    if told.is_empty() { code } else { ERROR }
}
