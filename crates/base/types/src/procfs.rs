//! Linux's lines about a process, as facts: `/proc/PID/maps` and `/proc/PID/stat`.
//!
//! Text in, facts out: which files are read, and what a missing one means, is the caller's business. One parser for all,
//! because a path with a space or a process called `) R 1 (` must not be misread in one place only.
//!
//! Next: `trimtab-os` and `trimtab-track` read the files.

use std::io::{self, Read};

mod maps;
mod stat;

pub use maps::{Mapping, NoMapping, parse_maps, path_of_mapping};
pub use stat::{CLOCK_TICKS_PER_SECOND, Stat, State, Usage, parse_stat, parse_usage};

/// Bytes asked for at once: most of these files are shorter, and the kernel gives no more of the others.
const READ_BYTES: usize = 4096;

/// All that is in an open file whose length the kernel does not tell. Hundreds of these are read to find a job, and each
/// would take twice the system calls if it were read by feeling one's way.
///
/// # Errors
/// Those of reading it.
pub fn read_all(file: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(READ_BYTES);
    file.take(u64::MAX).read_to_end(&mut text)?;
    Ok(text)
}
