//! Is it true? Windows of trimtab against the PMPI wrapper, on the same iterations of the same run.
//!
//! A window is found again among the wrapper's iterations, each rank by itself: by the number that the program passed
//! to `measuremark`, kept as a trace record, or, in Fortran, by the times of its iterations.
//!
//! Next: `testing/specimens/groundtruth/wrap.c` for the conventions.

use super::attach::{Bench, Job, RANK_COUNT};
use super::row::{Row, Verdict};
use super::runner::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use trimtab_specimens::{GroundTruth, Launch, LinkTruth, Mark, Mpi, RangeTruth, Variant, build, truths_of};
use trimtab_types::report::Report;

const COMMUNICATION_PERCENT_BAR: f64 = 1.0;
const SHARE_PERCENT_BAR: f64 = 3.0;
/// Windows per run; the table asks for the median of 5.
const WINDOWS: usize = 5;
/// Trace records per function: the first two marks.
const DETAILS: u32 = 2;
/// Iterations per window.
const ITERATIONS: u32 = 10;
/// How long a measured run is made to last: five windows and the time around them.
const RUN_SECONDS: f64 = 5.0;
/// How long the run that nobody disturbs is made to last.
const UNDISTURBED_SECONDS: f64 = 4.0;
/// Iterations of the run that tells how long one takes.
const TRIAL_ITERATIONS: u32 = 40;
/// Longest time for a run; it hangs if it takes longer.
const RUN_LIMIT: Duration = Duration::from_secs(180);

/// A program to measure.
struct Case {
    program: &'static str,
    options: &'static [&'static str],
    /// Whether `measuremark` gets the iteration's number by value (Fortran passes a reference).
    number_by_value: bool,
    /// Whether several threads communicate: their times are compared function by function, not by rank.
    many_threads: bool,
}

const fn case(program: &'static str) -> Case {
    Case { program, options: &[], number_by_value: true, many_threads: false }
}

const CASES: [Case; 9] = [
    case("particle"),
    case("fft"),
    case("cg"),
    case("is"),
    Case { options: &["--every", "1", "--size", "100000"], ..case("ep") },
    case("wave"),
    case("kinds"),
    Case { number_by_value: false, ..case("heat") },
    Case { many_threads: true, ..case("threads") },
];
const QUICK_CASES: usize = 2;

/// What the windows of one run gave.
struct Run {
    name: String,
    windows: Vec<Window>,
    /// Share of communication over a whole program that nobody measured by trimtab, mean over ranks.
    whole_share: f64,
    /// The same of the measured program, attaching included.
    disturbed_share: f64,
}

/// One window beside the truth.
struct Window {
    valid: bool,
    /// First recorded iteration of each rank.
    starts: Vec<u32>,
    /// Whether the program itself said so; otherwise found by the times of iterations.
    said: bool,
    /// Calls of communication functions, all ranks.
    calls: u64,
    reported_s: f64,
    truth_s: f64,
    links_equal: bool,
    share: f64,
    half_width: Option<f64>,
}

/// The rows about truth.
pub fn rows(bench: &Bench) -> Result<Vec<Row>> {
    let mut runs = Vec::new();
    for case in CASES.iter().take(bench.rounds(CASES.len(), QUICK_CASES)) {
        for mpi in Mpi::ALL {
            let name = format!("{}, {}", case.program, mpi.name());
            eprintln!("  against the wrapper: {name}");
            runs.push(run(bench, case, mpi, name.clone()).with_context(|| name));
        }
    }
    let (runs, failed): (Vec<_>, Vec<_>) = runs.into_iter().partition(Result::is_ok);
    let runs: Vec<Run> = runs.into_iter().flatten().collect();
    let mut rows = vec![start_row(&runs)];
    rows.extend(runs.iter().map(communication_row));
    rows.push(links_row(&runs));
    rows.extend(runs.iter().map(share_row));
    let reasons = failed.into_iter().filter_map(Result::err);
    rows.extend(reasons.map(|error| Row {
        verdict: Verdict::Missed,
        ..Row::skipped("a run against the wrapper failed", format!("{error:#}"))
    }));
    Ok(rows)
}

fn run(bench: &Bench, case: &Case, mpi: Mpi, name: String) -> Result<Run> {
    let variant = Variant { mark: Mark::Local, ..Variant::default() };
    let program = build(case.program, Some(mpi), &variant)?;
    let prefix = bench.folder.join(format!("truth-{}-{}", case.program, mpi.name()));
    let launch = |iterations: u32| {
        let launch = Launch::mpi(mpi, RANK_COUNT, &program).args(case.options);
        launch.args(["--mark", "--iterations", &iterations.to_string()]).measured(&prefix)
    };
    let undisturbed = |iterations: u32| -> Result<Vec<GroundTruth>> {
        let finished = launch(iterations)?.run(RUN_LIMIT)?;
        ensure!(finished.status.success(), "the undisturbed run failed: {}", finished.stderr.trim());
        Ok(truths_of(&prefix, RANK_COUNT)?)
    };
    let trial = undisturbed(TRIAL_ITERATIONS)?;
    let whole = undisturbed(iterations_for(&trial, bench.rounds(UNDISTURBED_SECONDS as usize, 2) as f64)?)?;
    let iterations = iterations_for(&whole, RUN_SECONDS)?;
    let job = bench.start(&launch(iterations)?)?;
    let reports = windows_of(bench, &job, mpi)?;
    job.check_untouched()?;
    let finished = job.running.wait(RUN_LIMIT)?;
    ensure!(finished.right_answer().is_some(), "the measured program's answer is wrong: {}", finished.stdout.trim());
    let truths = truths_of(&prefix, RANK_COUNT)?;
    let windows = reports.iter().map(|report| compare(case, report, &truths)).collect::<Result<_>>()?;
    Ok(Run { name, windows, whole_share: whole_share(&whole), disturbed_share: whole_share(&truths) })
}

fn windows_of(bench: &Bench, job: &Job, mpi: Mpi) -> Result<Vec<Report>> {
    let (iterations, details) = (ITERATIONS.to_string(), DETAILS.to_string());
    let options = [
        "--iterations",
        iterations.as_str(),
        "--detail",
        details.as_str(),
        "--function",
        "measuremark*",
        "--max-seconds",
        "20",
    ];
    let cache = bench.folder.join(format!("cache-{}", mpi.name()));
    (0..WINDOWS).map(|_| Ok(bench.attach(job, &options, &cache)?.report)).collect()
}

/// How many iterations take `seconds`, judged by the later half of a trial.
fn iterations_for(trial: &[GroundTruth], seconds: f64) -> Result<u32> {
    let rows = &trial.first().context("no rank")?.iterations;
    let durations = rows.iter().skip(rows.len() / 2).map(|row| row.duration_s).collect();
    let period_s = Spread::of(durations).context("the trial has no iteration")?.median;
    Ok((seconds / period_s.max(1e-5)).ceil().min(500_000.0) as u32)
}

fn compare(case: &Case, report: &Report, truths: &[GroundTruth]) -> Result<Window> {
    ensure!(report.ranks.len() == truths.len(), "{} ranks of {} reported", report.ranks.len(), truths.len());
    let per_rank = || report.ranks.iter().zip(truths);
    let said: Option<Vec<u32>> = (0..RANK_COUNT).map(|rank| said_start(report, rank)).collect();
    let said = said.filter(|_| case.number_by_value);
    let is_said = said.is_some();
    let starts = match said {
        Some(starts) => starts,
        None => per_rank().map(|(rank, truth)| find_start(&rank.iteration_times_s, truth)).collect::<Result<_>>()?,
    };
    let ranges = per_rank()
        .zip(&starts)
        .map(|((rank, truth), start)| Ok(truth.range(*start..*start + rank.iteration_times_s.len() as u32)?))
        .collect::<Result<Vec<RangeTruth>>>()?;
    let (reported_s, truth_s) = if case.many_threads {
        let functions = report.functions.iter().filter(|function| function.group == "comm");
        let truth = ranges.iter().flat_map(|range| range.functions.values());
        (functions.filter_map(|function| function.time_s).sum(), truth.map(|function| function.time_s).sum())
    } else {
        let reported = report.ranks.iter().map(|rank| rank.communication_s).sum();
        (reported, ranges.iter().map(|range| range.communication_s).sum())
    };
    let share = report.communication_fraction.context("no communication share was reported")?;
    Ok(Window {
        valid: report.window.valid,
        starts,
        said: is_said,
        calls: ranges.iter().flat_map(|range| range.functions.values()).map(|function| function.calls).sum(),
        reported_s,
        truth_s,
        links_equal: links_of_report(report) == links_of_truth(&ranges),
        share: share.mean,
        half_width: share.half_width_95,
    })
}

/// The iteration from which on the wrapper's times are most like `times`.
fn find_start(times: &[f64], truth: &GroundTruth) -> Result<u32> {
    ensure!(times.len() > 1, "rank {} reported no times of iterations", truth.rank);
    // The first one begins after trimtab's own work at that mark, which the wrapper counts to the iteration.
    let difference = |from: usize| -> f64 {
        let pairs = truth.iterations[from..].iter().zip(times).skip(1);
        pairs.map(|(row, time)| (row.duration_s - time).abs()).sum()
    };
    let places = 0..(truth.iterations.len() + 1).saturating_sub(times.len());
    let best = places.map(|from| (from, difference(from))).min_by(|one, other| one.1.total_cmp(&other.1));
    let (from, difference) = best.context("the program had fewer iterations than the window")?;
    let total: f64 = times.iter().sum();
    ensure!(difference < total / 20.0, "rank {}: no iterations of the wrapper look like the window's", truth.rank);
    Ok(truth.iterations[from].iteration)
}

/// The number that rank `rank` passed to `measuremark` when its first recorded iteration began. The call that begins
/// the window may be missing among the trace records, since it was entered before the window began.
fn said_start(report: &Report, rank: u32) -> Option<u32> {
    let marks = report.details.iter().filter(|one| one.rank == rank && one.function.starts_with("measuremark"));
    let mut numbers: Vec<u32> = marks.filter_map(|one| Some(*one.arguments.first()? as u32)).collect();
    numbers.sort_unstable();
    let missing = DETAILS - u32::try_from(numbers.len()).ok()?;
    numbers.first()?.checked_sub(missing)
}

type Links = BTreeMap<(u32, u32), (u64, u64, u64, u64)>;

fn links_of_report(report: &Report) -> Links {
    let used = report.links.iter().filter(|link| link.messages > 0);
    used.map(|link| {
        ((link.from, link.to), (link.messages, link.bytes, link.collective_messages, link.collective_bytes))
    })
    .collect()
}

fn links_of_truth(ranges: &[RangeTruth]) -> Links {
    let of = |link: &LinkTruth| (link.messages, link.bytes, link.collective_messages, link.collective_bytes);
    let ranges = ranges.iter().zip(0..);
    ranges
        .flat_map(|(range, from)| range.links.values().map(move |link| ((from, link.to), of(link))))
        .filter(|(_, counts)| counts.0 > 0)
        .collect()
}

fn whole_share(truths: &[GroundTruth]) -> f64 {
    let longest = |truth: &GroundTruth| truth.communication_s.iter().copied().fold(0.0, f64::max);
    truths.iter().map(|truth| longest(truth) / truth.program_s).sum::<f64>() / truths.len() as f64
}

fn start_row(runs: &[Run]) -> Row {
    let windows: Vec<&Window> = runs.iter().flat_map(|run| &run.windows).collect();
    let differ = windows.iter().filter(|window| window.starts.iter().any(|start| *start != window.starts[0])).count();
    let said = windows.iter().filter(|window| window.said).count();
    let invalid = windows.iter().filter(|window| !window.valid).count();
    let starts = |run: &Run| run.windows.iter().map(|window| window.starts.clone()).collect::<Vec<_>>();
    Row {
        what: "difference between ranks in the recorded start iteration".into(),
        measured: format!(
            "{differ} of {} windows differ ({said} told by the number passed to measuremark, the others by the times of \
             iterations); {invalid} windows invalid",
            windows.len()
        ),
        bar: "0".into(),
        verdict: if windows.is_empty() { Verdict::Skipped } else { Verdict::of(differ + invalid == 0) },
        figures: json!(runs.iter().map(|run| json!({ "run": run.name, "starts": starts(run) })).collect::<Vec<_>>()),
    }
}

fn communication_row(run: &Run) -> Row {
    let what = format!("communication time against the PMPI wrapper: {}", run.name);
    let compared = run.windows.iter().filter(|window| window.truth_s > 0.0);
    let percent: Vec<f64> =
        compared.map(|window| 100.0 * (window.reported_s - window.truth_s) / window.truth_s).collect();
    let Some(signed) = Spread::of(percent.clone()) else { return Row::skipped(what, "no communication took place") };
    let absolute: Vec<f64> = percent.iter().map(|percent| percent.abs()).collect();
    let per_call = run.windows.iter().filter(|window| window.calls > 0);
    let per_call_ns = per_call.map(|window| (window.reported_s - window.truth_s) / window.calls as f64 * 1e9).collect();
    // What lies between the two clocks, the wrapper's own reading and our probe, is counted by the wrapper only.
    let per_call_ns = Spread::of(per_call_ns).map_or(0.0, |spread: Spread| spread.median);
    let row = Row::at_most(what, "%", &absolute, COMMUNICATION_PERCENT_BAR);
    let times = run.windows.iter().map(|window| json!([window.reported_s, window.truth_s])).collect::<Vec<_>>();
    Row {
        measured: format!("{}; signed median {:+.2}%, {per_call_ns:+.0} ns per call", row.measured, signed.median),
        figures: json!({ "percent": percent, "reported_and_true_s": times, "ns_per_call": per_call_ns }),
        ..row
    }
}

fn links_row(runs: &[Run]) -> Row {
    let windows: Vec<(&str, bool)> =
        runs.iter().flat_map(|run| run.windows.iter().map(|window| (run.name.as_str(), window.links_equal))).collect();
    let mut unequal: Vec<&str> = windows.iter().filter(|(_, equal)| !equal).map(|(name, _)| *name).collect();
    let count = unequal.len();
    unequal.dedup();
    let verdict = if windows.is_empty() { Verdict::Skipped } else { Verdict::of(count == 0) };
    let names = if unequal.is_empty() { String::new() } else { format!(": {}", unequal.join("; ")) };
    Row {
        what: "messages and bytes per link against the wrapper".into(),
        measured: format!("{count} of {} windows unequal{names}", windows.len()),
        bar: "equal".into(),
        verdict,
        figures: json!({ "windows": windows.len(), "unequal": unequal }),
    }
}

fn share_row(run: &Run) -> Row {
    let what = format!("communication share of a window against the whole run: {}", run.name);
    let shares: Vec<f64> = run.windows.iter().map(|window| window.share).collect();
    let Some(spread) = Spread::of(shares.clone()) else { return Row::skipped(what, "no window") };
    let off_percent = 100.0 * (spread.median - run.whole_share).abs() / run.whole_share;
    let covers =
        |window: &&Window| window.half_width.is_some_and(|width| (window.share - run.whole_share).abs() <= width);
    let covered = run.windows.iter().filter(covers).count();
    let [median, low, high, whole, disturbed] =
        [spread.median, spread.min, spread.max, run.whole_share, run.disturbed_share].map(|one| 100.0 * one);
    Row {
        what,
        measured: format!(
            "{median:.2}% (all within {low:.2} to {high:.2}) against {whole:.2}% of an undisturbed \
             run, off by {off_percent:.1}% of it; {covered} of {} intervals cover it; whole measured run \
             {disturbed:.2}%",
            shares.len()
        ),
        bar: format!("median off by at most {SHARE_PERCENT_BAR}%, most intervals cover it"),
        verdict: Verdict::of(off_percent <= SHARE_PERCENT_BAR && covered * 2 > shares.len()),
        figures: json!({
            "shares": shares,
            "half_widths": run.windows.iter().map(|window| window.half_width).collect::<Vec<_>>(),
            "whole": run.whole_share,
            "whole_measured_run": run.disturbed_share,
            "off_percent": off_percent,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_specimens::IterationTruth;

    fn truth(durations_s: &[f64]) -> GroundTruth {
        let row = |(iteration, duration_s): (u32, &f64)| IterationTruth {
            iteration,
            start_s: 0.0,
            duration_s: *duration_s,
            communication_s: 0.0,
            functions: vec![],
            links: vec![],
        };
        GroundTruth {
            schema: String::new(),
            rank: 0,
            ranks: 1,
            pid: 1,
            finalized: true,
            program_s: 4.0,
            rows_dropped: 0,
            communication_s: vec![0.5, 1.0],
            functions: vec![],
            links: vec![],
            iterations: (0..).zip(durations_s).map(row).collect(),
        }
    }

    fn window(starts: [u32; 2], share: f64) -> Window {
        let (reported_s, truth_s, half_width) = (1.005, 1.0, Some(0.02));
        let (starts, calls) = (starts.into(), 10);
        Window { valid: true, starts, said: true, calls, reported_s, truth_s, links_equal: true, share, half_width }
    }

    fn run_of(windows: Vec<Window>) -> Run {
        Run { name: "x".into(), windows, whole_share: 0.25, disturbed_share: 0.25 }
    }

    #[test]
    fn a_window_is_found_among_the_iterations() {
        let truth = truth(&[1.0, 1.1, 0.9, 1.3, 1.0]);
        assert_eq!(find_start(&[0.9, 1.3], &truth).expect("there"), 2);
        assert_eq!(find_start(&[1.301, 0.999], &truth).expect("near enough"), 3);
        for (name, times) in [("one", &[1.0][..]), ("unlike", &[3.0, 3.0]), ("longer", &[1.0; 9])] {
            assert!(find_start(times, &truth).is_err(), "{name}");
        }
        assert_eq!(iterations_for(&[truth], 10.0).expect("a period"), 10);
    }

    #[test]
    fn ranks_that_begin_apart_are_noticed() {
        for (name, starts, expected) in [("alike", [7, 7], Verdict::Met), ("apart", [7, 8], Verdict::Missed)] {
            assert_eq!(start_row(&[run_of(vec![window(starts, 0.25)])]).verdict, expected, "{name}");
        }
        let invalid = Window { valid: false, ..window([7, 7], 0.25) };
        assert_eq!(start_row(&[run_of(vec![invalid])]).verdict, Verdict::Missed);
        assert_eq!(start_row(&[]).verdict, Verdict::Skipped);
    }

    #[test]
    fn shares_are_judged_by_median_and_intervals() {
        for (name, shares, expected) in [
            ("near", [0.25, 0.251, 0.2], Verdict::Met),
            ("far", [0.3, 0.26, 0.2], Verdict::Missed),
            ("not covered", [0.25, 0.3, 0.2], Verdict::Missed),
        ] {
            let windows = shares.map(|share| window([0, 0], share)).into();
            assert_eq!(share_row(&run_of(windows)).verdict, expected, "{name}");
        }
        assert_eq!(whole_share(&[truth(&[]), truth(&[])]), 0.25, "the thread that communicates longest");
    }

    #[test]
    fn times_and_links_are_judged() {
        let mut run = run_of(vec![window([0, 0], 0.25)]);
        assert_eq!(communication_row(&run).verdict, Verdict::Met);
        assert_eq!(links_row(std::slice::from_ref(&run)).verdict, Verdict::Met);
        run.windows[0].reported_s = 0.95;
        run.windows[0].links_equal = false;
        assert_eq!(communication_row(&run).verdict, Verdict::Missed);
        assert_eq!(links_row(&[run]).verdict, Verdict::Missed);
    }
}
