//! Files that trimtab itself may open at a time. With too few of them, answers of the kernel are missing in the middle of the
//! work, and look like processes that have ended; so it is asked before anything is begun.
//!
//! Next: `found`, which asks for the processes of a job.

use crate::error::Error;
use rustix::process::{Resource, getrlimit};

/// Files for a command, and for each process beside them: its memory, its end, its maps and threads.
const OF_COMMAND: u64 = 48;
const OF_PROCESS: u64 = 8;

/// Refuses to begin with too few of them.
///
/// # Errors
/// With the number that is needed for so many processes.
pub fn check(processes: usize) -> Result<(), Error> {
    enough(getrlimit(Resource::Nofile).current, processes)
}

fn enough(limit: Option<u64>, processes: usize) -> Result<(), Error> {
    let needed = OF_COMMAND + OF_PROCESS * processes as u64;
    match limit {
        Some(limit) if limit < needed => Err(Error::TooFewFiles { limit, needed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_files_are_said_to_be_too_few() {
        for (limit, processes, is_enough) in [
            (Some(12), 0, false),
            (Some(48), 0, true),
            (Some(55), 1, false),
            (Some(1024), 100, true),
            (None, 9999, true),
        ] {
            assert_eq!(enough(limit, processes).is_ok(), is_enough, "{limit:?} {processes}");
        }
        let said = enough(Some(12), 2).expect_err("too few").to_string();
        assert!(said.contains("only 12 files") && said.contains("ulimit -n 64"), "{said}");
    }
}
