//! The price of one `trimtab attach`: pauses of the ranks, time to the first recorded iteration, memory.
//!
//! Attaches with the symbol cache filled and with an empty one take turns on one running job; the program's own files
//! are in the kernel's page cache either way. Beside them are attaches whose iterations are found in calls alone: what looking
//! for the program's loop takes is the difference of neighbours.
//!
//! Next: `attach` for how a job is started and measured.

use super::attach::{Attached, Bench, Job, RANK_COUNT};
use super::row::Row;
use super::runner::{Measured, Series};
use anyhow::{Context, Result};
use trimtab_specimens::{Launch, Mpi, Variant, build};

const PAUSE_MS_BAR: f64 = 2.0;
const PAUSE_THREADS_MS_BAR: f64 = 5.0;
const FIRST_CACHED_S_BAR: f64 = 0.2;
const FIRST_UNCACHED_S_BAR: f64 = 0.6;
/// The rule gives the outermost loop 2 s to show itself.
const LOOP_FOUND_S_BAR: f64 = 2.0;
const MEMORY_MB_BAR: f64 = 100.0;
/// The jobs run until they are ended.
const ENDLESS: &str = "100000000";

/// Samples of attaches, in the units of the rows.
#[derive(Default)]
struct Samples {
    insert_ms: Vec<f64>,
    remove_ms: Vec<f64>,
    first_s: Vec<f64>,
    memory_mb: Vec<f64>,
}

/// The rows about pauses, start and memory, with the comparisons behind them.
pub fn rows(bench: &Bench) -> Result<(Vec<Measured>, Vec<Row>)> {
    let (mut comparisons, mut rows) = (Vec::new(), Vec::new());
    let mut memory_mb = Vec::new();
    for mpi in Mpi::ALL {
        let [cached, uncached, by_calls] =
            cached_and_not(bench, mpi).with_context(|| format!("attaching to particle, {}", mpi.name()))?;
        rows.extend(pause_rows(&format!("{}, 1 thread", mpi.name()), &[&cached, &uncached], PAUSE_MS_BAR));
        rows.push(first_row(mpi, "cached", &cached, FIRST_CACHED_S_BAR));
        rows.push(first_row(mpi, "not cached", &uncached, FIRST_UNCACHED_S_BAR));
        memory_mb.extend([&cached.memory_mb[..], &uncached.memory_mb].concat());
        rows.push(loop_row(mpi, &cached, &by_calls));
        comparisons.push(loop_pauses(mpi, &cached, &by_calls));
        comparisons.push(comparison(mpi, [cached, uncached, by_calls]));
        let threads = with_threads(bench, mpi).with_context(|| format!("attaching to 64 threads, {}", mpi.name()))?;
        rows.extend(pause_rows(&format!("{}, 64 threads", mpi.name()), &[&threads], PAUSE_THREADS_MS_BAR));
        memory_mb.extend(threads.memory_mb);
    }
    rows.push(Row::at_most("memory of trimtab attached to 2 ranks", "MB", &memory_mb, MEMORY_MB_BAR));
    Ok((comparisons, rows))
}

fn cached_and_not(bench: &Bench, mpi: Mpi) -> Result<[Samples; 3]> {
    let program = build("particle", Some(mpi), &Variant::default())?;
    let job = bench.start(&Launch::polling(mpi, RANK_COUNT, &program).args(["--iterations", ENDLESS]))?;
    let [mut cached, mut uncached, mut by_calls] = [Samples::default(), Samples::default(), Samples::default()];
    let filled = bench.folder.join(format!("cache-{}", mpi.name()));
    // Fills the cache, and is not counted.
    bench.attach(&job, &[], &filled)?;
    for round in 0..bench.rounds(12, 3) {
        cached.add(&bench.attach(&job, &[], &filled)?);
        by_calls.add(&bench.attach(&job, &["--mark", "calls"], &filled)?);
        let empty = bench.folder.join(format!("cache-{}-{round}", mpi.name()));
        uncached.add(&bench.attach(&job, &[], &empty)?);
        std::fs::remove_dir_all(&empty).context("cannot remove a symbol cache")?;
    }
    job.check_untouched()?;
    Ok([cached, uncached, by_calls])
}

fn with_threads(bench: &Bench, mpi: Mpi) -> Result<Samples> {
    let program = build("sleeper", Some(mpi), &Variant::default())?;
    let launch = Launch::polling(mpi, RANK_COUNT, &program);
    let job: Job = bench.start(&launch.args(["--mode", "threads", "--threads", "64", "--iterations", ENDLESS]))?;
    let cache = bench.folder.join(format!("cache-{}", mpi.name()));
    let mut samples = Samples::default();
    for _ in 0..bench.rounds(10, 3) {
        samples.add(&bench.attach(&job, &[], &cache)?);
    }
    job.check_untouched()?;
    Ok(samples)
}

impl Samples {
    fn add(&mut self, attached: &Attached) {
        let report = &attached.report;
        self.insert_ms.extend(report.ranks.iter().map(|rank| rank.pause_insert_us / 1e3));
        self.remove_ms.extend(report.ranks.iter().filter_map(|rank| rank.pause_remove_us).map(|us| us / 1e3));
        self.first_s.extend(report.cost.first_record_s);
        self.memory_mb.push(attached.memory_bytes_max as f64 / 1e6);
    }
}

fn pause_rows(of: &str, samples: &[&Samples], bar_ms: f64) -> Vec<Row> {
    let joined = |values: fn(&Samples) -> &Vec<f64>| samples.iter().flat_map(|one| values(one).clone()).collect();
    let (insert_ms, remove_ms): (Vec<f64>, Vec<f64>) = (joined(|one| &one.insert_ms), joined(|one| &one.remove_ms));
    vec![
        Row::at_most(format!("pause of one rank to insert: {of}"), "ms", &insert_ms, bar_ms),
        Row::at_most(format!("pause of one rank to remove: {of}"), "ms", &remove_ms, bar_ms),
    ]
}

fn first_row(mpi: Mpi, cache: &str, samples: &Samples, bar_s: f64) -> Row {
    let what = format!("command to first recorded iteration: {}, symbols {cache}", mpi.name());
    Row::at_most(what, "s", &samples.first_s, bar_s)
}

/// By how much later a window begins whose iterations are passes of the program's loop.
fn loop_row(mpi: Mpi, cached: &Samples, by_calls: &Samples) -> Row {
    let later_s: Vec<f64> = cached.first_s.iter().zip(&by_calls.first_s).map(|(one, other)| one - other).collect();
    let what = format!("first recorded iteration later than with --mark calls: {}", mpi.name());
    Row::at_most(what, "s", &later_s, LOOP_FOUND_S_BAR)
}

fn loop_pauses(mpi: Mpi, cached: &Samples, by_calls: &Samples) -> Measured {
    let series = [("passes of the program's loop", cached), ("--mark calls", by_calls)];
    let series = series.map(|(name, samples)| Series { name: name.into(), samples: samples.insert_ms.clone() }).into();
    Measured { title: format!("pause of one rank to insert, {}", mpi.name()), unit: "ms", series }
}

fn comparison(mpi: Mpi, samples: [Samples; 3]) -> Measured {
    let names = ["symbols cached", "symbols not cached", "symbols cached, --mark calls"];
    let series: Vec<(&str, Samples)> = names.into_iter().zip(samples).collect();
    let series =
        series.into_iter().map(|(name, samples)| Series { name: name.into(), samples: samples.first_s }).collect();
    Measured { title: format!("command to first recorded iteration, {}", mpi.name()), unit: "s", series }
}

#[cfg(test)]
mod tests {
    use super::super::row::Verdict;
    use super::*;

    #[test]
    fn a_window_that_begins_later_is_compared_with_its_neighbour() {
        let samples = |first_s: [f64; 2]| Samples { first_s: first_s.to_vec(), ..Samples::default() };
        let row = |loops| loop_row(Mpi::Mpich, &samples(loops), &samples([0.25, 0.5]));
        assert_eq!(row([0.5, 0.75]).verdict, Verdict::Met);
        assert_eq!(row([3.0, 3.0]).verdict, Verdict::Missed);
    }

    #[test]
    fn pauses_of_all_attaches_are_judged_together() {
        let samples = |insert: f64| Samples { insert_ms: vec![insert], remove_ms: vec![1.0], ..Samples::default() };
        let rows = pause_rows("x", &[&samples(1.0), &samples(1.5), &samples(9.0)], 2.0);
        assert_eq!([rows[0].verdict, rows[1].verdict], [Verdict::MedianMet, Verdict::Met]);
        assert!(rows[0].measured.ends_with("1 of 3 above the bar"), "{}", rows[0].measured);
    }
}
