//! `bench cluster`: what belongs to jobs and nodes rather than to one process.
//!
//! Next: `slurm` for jobs of many nodes, `watch` for programs that start.

use super::attach::Bench;
use super::record::Record;
use super::{Part, slurm, watch};
use anyhow::Result;

/// Measures everything, or one part, and prints it as it comes.
pub fn run(bench: &Bench, only: Option<Part>, record: &mut Record) -> Result<()> {
    let wanted = |part: Part| only.is_none_or(|only| only == part);
    if wanted(Part::Slurm) {
        record.judge(slurm::rows(bench)?);
    }
    if wanted(Part::Watch) {
        record.judge(watch::rows(bench)?);
    }
    Ok(())
}
