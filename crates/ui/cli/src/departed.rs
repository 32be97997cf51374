//! Processes that ended by a fault, or by what can't be known, while trimtab had patched them or right after: said loudly,
//! and an error whatever was measured.
//!
//! Next: `trimtab-engine`'s `Ends`, which watches for it.

use crate::exit_code::ERROR;
use std::time::Duration;
use trimtab_engine::Ends;

/// Names a variable with milliseconds: how long ends are watched for, at most the engine's second. Tests, which look at
/// their processes until they end, set it.
const WATCHED: &str = "TRIMTAB_WATCHED_MS";

/// Tells of processes that ended so. The exit code: `code` if there are none.
pub fn told(ends: &Ends, code: u8) -> u8 {
    let asked = std::env::var(WATCHED).ok().and_then(|text| text.parse().ok());
    let told = asked.map_or_else(|| ends.told(), |milliseconds| ends.told_within(Duration::from_millis(milliseconds)));
    told.iter().for_each(|text| eprintln!("trimtab: {text}"));
    if told.is_empty() { code } else { ERROR }
}
