//! `bench window`: a measuring window's cost, against its floor, in one run.
//!
//! The floors come first: no probe that reads the clock at entry and exit can be faster than two readings, and
//! `trimtab run` cannot be faster than the launcher it calls.
//!
//! Next: `probe`, `recorded`, `limits`, `pauses`, `truth`, `real` and `debian` for the rows; docs/cost.md for the bars.

use super::attach::Bench;
use super::record::Record;
use super::runner::Comparison;
use super::{Part, debian, limits, pauses, probe, real, recorded, truth};
use anyhow::Result;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

/// Calls per sample: enough for the two readings around them to vanish.
const CALL_COUNT: u32 = 200_000;
/// Samples per contender: enough for quartiles that mean something.
const ROUNDS: usize = 21;
/// Launches per launcher: each takes a good part of a second.
const LAUNCH_ROUNDS: usize = 5;

/// Measures everything, or one part, and prints it as it comes.
pub fn run(bench: &Bench, only: Option<Part>, record: &mut Record) -> Result<()> {
    let wanted = |part: Part| only.is_none_or(|only| only == part);
    if wanted(Part::Probe) {
        record.show(clock().run()?);
        for (measured, rows) in [probe::rows(bench)?, recorded::rows(bench)?] {
            record.show(measured);
            record.judge(rows);
        }
    }
    if wanted(Part::Limits) {
        let (measured, rows) = limits::rows(bench)?;
        record.show(measured);
        record.judge(rows);
    }
    if wanted(Part::Pauses) {
        record.show(launch(bench).run()?);
        let (comparisons, rows) = pauses::rows(bench)?;
        comparisons.into_iter().for_each(|measured| record.show(measured));
        record.judge(rows);
    }
    if wanted(Part::Truth) {
        record.judge(truth::rows(bench)?);
    }
    if wanted(Part::Real) {
        record.judge(real::rows(bench));
    }
    if wanted(Part::Debian) {
        record.judge(debian::rows(bench));
    }
    Ok(())
}

/// The floor under any timing probe on this machine.
fn clock() -> Comparison<'static> {
    let per_call = |call: fn()| {
        move || {
            let start = Instant::now();
            (0..CALL_COUNT).for_each(|_| black_box(call)());
            Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALL_COUNT))
        }
    };
    Comparison::new("one call that reads the clock twice", "ns", ROUNDS)
        .sampled("empty function", per_call(|| ()))
        .sampled("clock_gettime at entry and exit", per_call(read_clock_twice))
}

/// The floor under `trimtab run`: two processes that end at once.
fn launch(bench: &Bench) -> Comparison<'static> {
    let launcher = |program: &str| {
        let mut command = Command::new(program);
        command.args(["-n", "2", "true"]);
        // Open MPI refuses to run as root, as in a container, unless told twice.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    };
    Comparison::new("launch and end of 2 ranks that do nothing", "s", bench.rounds(LAUNCH_ROUNDS, 1))
        .command("mpirun of MPICH", launcher("mpirun.mpich"))
        .command("mpirun of Open MPI", launcher("mpirun.openmpi"))
}

fn read_clock_twice() {
    black_box((Instant::now(), Instant::now()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_has_a_ratio_to_nothing_done() {
        let result = clock().run().expect("it samples");
        assert!(result.ratio(&result.series[1].name).is_some_and(|ratio| ratio.median > 0.0), "{result}");
    }
}
