//! True as long as somebody wants what a node prepares: planning for large programs and waiting for ranks that start
//! take long.
//!
//! Next: `team`, which asks between two ranks, and a last time before anything goes in.

use crate::error::Error;
use std::fmt;

/// Somebody who may lose interest in a window until its probes go in.
#[derive(Clone, Copy)]
pub(super) struct Interest<'c> {
    pub(super) is_lost: &'c dyn Fn() -> bool,
    /// Ranks wait behind `MPI_Init` for it.
    pub(super) is_waiting: bool,
}

impl Interest<'_> {
    /// Somebody who waits however long it takes.
    pub(super) const LASTING: Interest<'static> = Interest { is_lost: &|| false, is_waiting: false };

    pub(super) fn check(self) -> Result<(), Error> {
        if (self.is_lost)() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

impl fmt::Debug for Interest<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Interest")
    }
}
