//! The codes by which the command ends.
//!
//! Next: `main.rs`, which ends it.

/// Everything was done.
pub(crate) const DONE: u8 = 0;
/// The result is partial, invalid or empty.
pub(crate) const PARTIAL: u8 = 1;
/// Nothing could be done.
pub(crate) const ERROR: u8 = 2;
