//! Reads what the ground truth wrapper wrote, one file per rank, and adds up any range of iterations.
//!
//! The conventions (what counts as communication, whose bytes, which links) are in `groundtruth/wrap.c`.
//!
//! Next: [`GroundTruth::range`] for a window's truth.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

const SCHEMA: &str = "trimtab.groundtruth/1";

/// The wrapper's figures of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroundTruth {
    /// Name and version of the file's shape.
    pub schema: String,
    /// World rank.
    pub rank: u32,
    /// Ranks in `MPI_COMM_WORLD`.
    pub ranks: u32,
    /// Process id.
    pub pid: i32,
    /// True if the rank reached `MPI_Finalize`; if not, `program_s` is 0.
    pub finalized: bool,
    /// From `MPI_Init`'s end to `MPI_Finalize`'s begin, seconds.
    pub program_s: f64,
    /// The time that the wrapper's own clock adds to each call, seconds.
    pub clock_s: f64,
    /// Seconds since 1970 less `MPI_Wtime`, so that `start_s` of iterations can be laid beside what another process saw.
    pub unix_offset_s: f64,
    /// Iterations that were not kept because there were too many.
    pub rows_dropped: u64,
    /// Time in outermost communication calls over the whole program, one entry per thread that called MPI.
    pub communication_s: Vec<f64>,
    /// Whole program, all threads.
    pub functions: Vec<FunctionTruth>,
    /// Whole program, all threads.
    pub links: Vec<LinkTruth>,
    /// One entry per iteration from mark to mark.
    pub iterations: Vec<IterationTruth>,
}

/// One function's outermost calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionTruth {
    /// C name, e.g. `MPI_Send` or `MPI_Send_c`.
    pub name: String,
    /// Calls that returned.
    pub calls: u64,
    /// Seconds in them.
    pub time_s: f64,
    /// Payload bytes this rank sent by them.
    pub bytes: u64,
    /// Largest payload of one call; only for the whole program.
    #[serde(default)]
    pub bytes_max: u64,
}

/// The messages of this rank to one other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTruth {
    /// Receiving world rank.
    pub to: u32,
    /// Messages, of collectives too.
    pub messages: u64,
    /// Bytes, of collectives too.
    pub bytes: u64,
    /// Messages of collectives.
    pub collective_messages: u64,
    /// Bytes of collectives.
    pub collective_bytes: u64,
}

/// One iteration of one rank, from its mark to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationTruth {
    /// The number the program gave it.
    pub iteration: u32,
    /// `MPI_Wtime` at its mark, seconds.
    pub start_s: f64,
    /// Seconds to the next mark.
    pub duration_s: f64,
    /// Seconds in outermost communication calls of the thread that marks.
    pub communication_s: f64,
    /// Functions called in it, all threads.
    pub functions: Vec<FunctionTruth>,
    /// Links used in it, all threads.
    pub links: Vec<LinkTruth>,
}

/// Several iterations of one rank, added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeTruth {
    /// Seconds from the first mark to the one after the last iteration.
    pub duration_s: f64,
    /// Seconds in outermost communication calls of the thread that marks.
    pub communication_s: f64,
    /// By name; `bytes_max` is not known and 0.
    pub functions: BTreeMap<String, FunctionTruth>,
    /// By receiving world rank.
    pub links: BTreeMap<u32, LinkTruth>,
}

impl RangeTruth {
    /// Communication time over duration.
    pub fn communication_fraction(&self) -> f64 {
        self.communication_s / self.duration_s
    }
}

impl GroundTruth {
    /// Reads one rank's file, `<GT_OUT>.<rank>.json`.
    ///
    /// # Errors
    /// [`Error::Io`] if there is none (the rank was killed, or the wrapper not preloaded); [`Error::BadTruth`].
    pub fn read(path: &Path) -> Result<GroundTruth> {
        let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
        let bad = |source| Error::BadTruth { path: path.to_owned(), expected: SCHEMA, source };
        let truth: GroundTruth = serde_json::from_str(&text).map_err(|error| bad(Some(error)))?;
        if truth.schema == SCHEMA { Ok(truth) } else { Err(bad(None)) }
    }

    /// Adds up `iterations`, by the program's numbers.
    ///
    /// # Errors
    /// [`Error::MissingIteration`] if one of them was not kept.
    pub fn range(&self, iterations: Range<u32>) -> Result<RangeTruth> {
        let mut sum = RangeTruth::default();
        for wanted in iterations {
            // Rows are in order, and mostly all there: start looking where it should be.
            let guess = self.iterations.get(wanted as usize).filter(|row| row.iteration == wanted);
            let row = guess.or_else(|| self.iterations.iter().find(|row| row.iteration == wanted));
            sum.add(row.ok_or_else(|| self.missing(wanted))?);
        }
        Ok(sum)
    }

    fn missing(&self, iteration: u32) -> Error {
        Error::MissingIteration { rank: self.rank, iteration, kept: self.iterations.len() }
    }
}

/// Reads the files of all ranks that were started with [`Launch::measured`](crate::Launch::measured) on `prefix`.
///
/// # Errors
/// As [`GroundTruth::read`].
pub fn truths_of(prefix: &Path, ranks: u32) -> Result<Vec<GroundTruth>> {
    (0..ranks).map(|rank| GroundTruth::read(&prefix.with_added_extension(format!("{rank}.json")))).collect()
}

impl RangeTruth {
    fn add(&mut self, row: &IterationTruth) {
        self.duration_s += row.duration_s;
        self.communication_s += row.communication_s;
        for part in &row.functions {
            let sum = self.functions.entry(part.name.clone()).or_default();
            sum.name.clone_from(&part.name);
            sum.calls += part.calls;
            sum.time_s += part.time_s;
            sum.bytes += part.bytes;
        }
        for part in &row.links {
            let sum = self.links.entry(part.to).or_default();
            sum.to = part.to;
            sum.messages += part.messages;
            sum.bytes += part.bytes;
            sum.collective_messages += part.collective_messages;
            sum.collective_bytes += part.collective_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(first: u32) -> GroundTruth {
        let row = |iteration: u32| IterationTruth {
            iteration,
            start_s: f64::from(iteration),
            duration_s: 1.0,
            communication_s: 0.25,
            functions: vec![FunctionTruth { name: "MPI_Send".into(), calls: 2, time_s: 0.25, bytes: 10, bytes_max: 0 }],
            links: vec![LinkTruth { to: 1, messages: 2, bytes: 10, collective_messages: 1, collective_bytes: 4 }],
        };
        GroundTruth {
            schema: SCHEMA.into(),
            rank: 0,
            ranks: 2,
            pid: 1,
            finalized: true,
            program_s: 9.0,
            clock_s: 2e-8,
            unix_offset_s: 0.0,
            rows_dropped: 0,
            communication_s: vec![1.0],
            functions: vec![],
            links: vec![],
            iterations: (first..first + 4).map(row).collect(),
        }
    }

    #[test]
    fn a_range_adds_up_its_iterations_only() {
        for (name, first, range) in [("from_zero", 0, 1..3), ("later_rows", 100, 101..103)] {
            let sum = truth(first).range(range).expect(name);
            assert_eq!((sum.duration_s, sum.communication_s), (2.0, 0.5), "{name}");
            assert_eq!(sum.functions["MPI_Send"].calls, 4, "{name}");
            assert_eq!(sum.links[&1].bytes, 20, "{name}");
            assert_eq!(sum.links[&1].collective_bytes, 8, "{name}");
        }
        assert!(matches!(truth(0).range(2..5), Err(Error::MissingIteration { iteration: 4, kept: 4, .. })));
    }
}
