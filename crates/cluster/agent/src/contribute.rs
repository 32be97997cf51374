//! Giving an answer to the wave it belongs to.
//!
//! Next: `serve`, which answers.

use std::time::{Duration, Instant};
use trimtab_link::blocking::Blocking;
use trimtab_overlay::Busy;
use trimtab_reduce::VALUE_BYTES_MAX;
use trimtab_reduce::lists::Concat;
use trimtab_reduce::{Bad, Filter};
use trimtab_types::Rank;

/// How long a contribution may be refused because its wave isn't open here yet.
const OPEN_MAX: Duration = Duration::from_secs(5);

/// An agent's bytes as what the tree merges.
///
/// # Errors
/// [`Bad`] if they are too many.
pub fn encoded(rank: Rank, bytes: &[u8]) -> Result<Vec<u8>, Bad> {
    let concat = Concat { byte_count_max: VALUE_BYTES_MAX as u32 };
    concat.encode(&concat.of(bytes, rank))
}

/// Contributes; what nobody waits for any more is dropped.
pub fn contribute(link: &Blocking, stream: u32, wave: u64, value: &[u8]) {
    let until = Instant::now() + OPEN_MAX;
    loop {
        match link.handle().contribute(stream, wave, value) {
            // The question was given up, or asked before this agent came.
            Err(Busy::Window { from, .. }) if wave < from => return,
            Err(Busy::Window { .. } | Busy::NoStream { .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) | Ok(()) => return,
        }
    }
}
