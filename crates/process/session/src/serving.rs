//! Patches that serve safety and measure nothing: their names in plans, and where the words lie that belong to them.
//!
//! Next: `hold` and `frames`, which add them.

use std::mem::offset_of;
use trimtab_stub::layout::{Header, HoldWords};

/// Where the unwinder finds tables of our code.
pub(crate) const FOUND_AT: &str = "_Unwind_Find_FDE, to find the tables of moved code";
/// Where threads are held.
pub(crate) const HELD_AT: &str = "sigaction, to hold threads that set a fault handler";
/// Offset in the shared memory of what threads tell.
pub(crate) const WORDS_AT: u64 = offset_of!(Header, hold) as u64;
/// Offset of the word that lets them go.
pub(crate) const ANSWERED_AT: u64 = WORDS_AT + offset_of!(HoldWords, answered) as u64;
