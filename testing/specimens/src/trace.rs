//! Reads what `groundtruth/trace.c` wrote: every outermost MPI call of a process, and how much of any time they take.
//!
//! Next: [`CallTrace::share_between`].

use crate::{Error, Result};
use std::fs;
use std::path::Path;

/// Bytes of a record: begin and end in nanoseconds since 1970, and the number of the function.
const RECORD_BYTES: usize = 24;

/// The MPI calls of one process, each thread by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTrace {
    /// Begin and end of each call, nanoseconds since 1970, in order.
    threads: Vec<Vec<(u64, u64)>>,
}

impl CallTrace {
    /// Reads the files of process `pid` that was started with [`Launch::traced`](crate::Launch::traced) on `prefix`.
    ///
    /// # Errors
    /// [`Error::Io`] if they can't be read; [`Error::Process`] if there is none, or one ends within a record.
    pub fn read(prefix: &Path, pid: i32) -> Result<CallTrace> {
        let (Some(folder), Some(name)) = (prefix.parent(), prefix.file_name()) else {
            return Err(lacks(pid, "no file"));
        };
        let start = format!("{}.{pid}.", name.to_string_lossy());
        let mut trace = CallTrace::default();
        for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
            let entry = entry.map_err(Error::io("read", folder))?;
            if !entry.file_name().to_string_lossy().starts_with(&start) {
                continue;
            }
            let bytes = fs::read(entry.path()).map_err(Error::io("read", entry.path()))?;
            trace.threads.push(calls_of(&bytes).ok_or_else(|| lacks(pid, "a file that ends with a whole record"))?);
        }
        if trace.threads.is_empty() { Err(lacks(pid, "no file")) } else { Ok(trace) }
    }

    /// Which part of the time from `begin_s` on, in seconds since 1970, for `duration_s`, lies in MPI calls: 0 to 1, of
    /// the thread where it is most.
    pub fn share_between(&self, begin_s: f64, duration_s: f64) -> f64 {
        let begin_ns = (begin_s * 1e9) as u64;
        let end_ns = begin_ns + (duration_s * 1e9) as u64;
        let inside = |calls: &Vec<(u64, u64)>| -> u64 {
            calls.iter().map(|(from, to)| (*to).min(end_ns).saturating_sub((*from).max(begin_ns))).sum()
        };
        let longest_ns = self.threads.iter().map(inside).max().unwrap_or(0);
        longest_ns as f64 / (end_ns - begin_ns).max(1) as f64
    }
}

fn lacks(pid: i32, what: &str) -> Error {
    Error::Process { pid, reason: format!("the profiler left {what}: the process was killed, or it makes no MPI call") }
}

fn calls_of(bytes: &[u8]) -> Option<Vec<(u64, u64)>> {
    let word = |record: &[u8], at: usize| Some(u64::from_le_bytes(record.get(at..at + 8)?.try_into().ok()?));
    let call = |record: &[u8]| Some((word(record, 0)?, word(record, 8)?));
    bytes.chunks(RECORD_BYTES).map(|record| call(record).filter(|_| record.len() == RECORD_BYTES)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_clipped_to_the_time_asked_for() {
        let ns = |s: f64| (s * 1e9) as u64;
        let calls = |list: &[(f64, f64)]| list.iter().map(|(from, to)| (ns(*from), ns(*to))).collect();
        let threads = vec![calls(&[(1.0, 2.0), (3.0, 4.0)]), calls(&[(2.5, 2.75)])];
        for (name, begin_s, duration_s, share) in [
            ("begun before", 1.5, 1.0, 0.5),
            ("ends after", 3.25, 1.0, 0.75),
            ("around it", 3.25, 0.5, 1.0),
            ("between two calls", 2.0, 0.25, 0.0),
            ("the busier thread", 2.25, 0.5, 0.5),
        ] {
            let found = CallTrace { threads: threads.clone() }.share_between(begin_s, duration_s);
            assert!((found - share).abs() < 1e-6, "{name}: {found}");
        }
    }

    #[test]
    fn half_a_record_is_no_record() {
        let record: Vec<u8> = [5u64, 9, 1].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(calls_of(&record), Some(vec![(5, 9)]));
        assert_eq!(calls_of(&record[..20]), None);
    }
}
