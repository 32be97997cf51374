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
/// Rounds: each a run that is measured, whose window is compared with that run itself.
const ROUNDS: usize = 5;
/// Before each so many of them a run that nobody disturbs, to be seen beside: whole runs of one program differ as well.
const ROUNDS_PER_UNDISTURBED: usize = 2;
/// Trace records per function: the first two marks.
const DETAILS: u32 = 2;
/// The only communication of the marking thread of `threads`.
const MARKING_THREADS_CALL: &str = "MPI_Barrier";
/// Iterations per window.
const ITERATIONS: u32 = 10;
/// How long a run is made to last: start and end of the program, which no window sees, must be a small part of it.
const RUN_SECONDS: f64 = 10.0;
/// The same where a window's share is so exact that even they show.
const EXACT_RUN_SECONDS: f64 = 15.0;
/// At least so many iterations, so that a window and what lies before it fit.
const RUN_ITERATIONS: u32 = 60;
/// A measured run goes on by itself for this long before the attach of round 0, and longer by a step in each other one,
/// so that windows lie at different places of the run.
const ATTACH_STEP: Duration = Duration::from_millis(900);
/// Iterations of the run that tells how long one takes.
const TRIAL_ITERATIONS: u32 = 12;
/// Longest time for a run; it hangs if it takes longer.
const RUN_LIMIT: Duration = Duration::from_secs(180);

/// A program to measure.
struct Case {
    program: &'static str,
    options: &'static [&'static str],
    /// True if `measuremark` gets the iteration's number by value (Fortran passes a reference).
    number_by_value: bool,
    /// True if several threads communicate, each for itself: only the marking thread's `MPI_Barrier` begins and ends
    /// with the window, so its time and share are compared; a message of another thread may fall on either side of an
    /// edge.
    many_threads: bool,
    /// Messages and bytes per iteration to the other rank by persistent requests made before the loop: trimtab came
    /// later, says how often such were started, and does not know what they send.
    made_before: (u64, u64),
    run_seconds: f64,
}

const fn case(program: &'static str) -> Case {
    let run_seconds = RUN_SECONDS;
    Case { program, options: &[], number_by_value: true, many_threads: false, made_before: (0, 0), run_seconds }
}

/// Sizes at which an iteration takes some 100 ms and 20 to 50% of it is communication, as in the tables of ScoPro: ten
/// of them are long enough to average over what a shared machine does meanwhile. The kernels among 2 ranks of one machine
/// hardly communicate; `--uneven` makes one rank wait, as ranks do elsewhere.
const CASES: [Case; 9] = [
    Case { options: &["--size", "1024", "--particles", "3200000", "--uneven", "30000"], ..case("particle") },
    Case { options: &["--size", "512", "--uneven", "60000"], ..case("fft") },
    Case { options: &["--size", "400000", "--uneven", "24000"], ..case("cg") },
    Case { options: &["--size", "4000000", "--uneven", "16000"], ..case("is") },
    Case { options: &["--every", "1", "--size", "15000000", "--uneven", "30000"], ..case("ep") },
    Case { options: &["--size", "512", "--block", "32", "--columns", "12000", "--uneven", "24000"], ..case("wave") },
    Case { options: &["--uneven", "30000"], made_before: (2, 100), run_seconds: EXACT_RUN_SECONDS, ..case("kinds") },
    Case { number_by_value: false, options: &["--size", "1000000", "--uneven", "40000"], ..case("heat") },
    Case {
        many_threads: true,
        options: &["--size", "4000000", "--uneven", "40000"],
        run_seconds: EXACT_RUN_SECONDS,
        ..case("threads")
    },
];
/// Messages of two worker threads that may fall on the other side of a window's two edges.
const EDGE_MESSAGES_MAX: u64 = 4;
const QUICK_CASES: usize = 2;

/// The figures of one program's rounds.
struct Run {
    name: String,
    windows: Vec<Window>,
    /// Windows that went by time: nothing to compare iteration by iteration.
    by_time: usize,
    /// Share of communication over whole runs that trimtab did not touch, mean over ranks.
    whole_shares: Vec<f64>,
}

/// One window beside the truth.
struct Window {
    valid: bool,
    /// First recorded iteration of each rank.
    starts: Vec<u32>,
    /// True if the program itself said so; otherwise found by the times of iterations.
    said: bool,
    /// Calls of communication functions, all ranks.
    calls: u64,
    reported_s: f64,
    /// The wrapper's time.
    wrapped_s: f64,
    /// The same without the wrapper's own clock and without our probes, which both lie between its two readings.
    truth_s: f64,
    links_equal: bool,
    share: f64,
    half_width: Option<f64>,
    /// Share of communication over the whole of this run, the attach in it too.
    whole_share: f64,
}

impl Window {
    /// How far the window's share is from that of the whole run, in percent of it.
    fn off_percent(&self) -> f64 {
        100.0 * (self.share - self.whole_share) / self.whole_share
    }

    fn is_covered(&self) -> bool {
        self.half_width.is_some_and(|width| (self.share - self.whole_share).abs() <= width)
    }
}

/// The rows about truth.
pub fn rows(bench: &Bench) -> Result<Vec<Row>> {
    let mut runs = Vec::new();
    let is_wanted = |case: &&Case| bench.programs.is_empty() || bench.programs.iter().any(|name| name == case.program);
    for case in CASES.iter().filter(is_wanted).take(bench.rounds(CASES.len(), QUICK_CASES)) {
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
        let launch = Launch::polling(mpi, RANK_COUNT, &program).args(case.options);
        launch.args(["--mark", "--iterations", &iterations.to_string()]).measured(&prefix)
    };
    let undisturbed = |iterations: u32| -> Result<Vec<GroundTruth>> {
        let finished = launch(iterations)?.run(RUN_LIMIT)?;
        ensure!(finished.status.success(), "the undisturbed run failed: {}", finished.stderr.trim());
        Ok(truths_of(&prefix, RANK_COUNT)?)
    };
    let iterations = iterations_for(&undisturbed(TRIAL_ITERATIONS)?, case.run_seconds)?.max(RUN_ITERATIONS);
    let mut run = Run { name, windows: vec![], by_time: 0, whole_shares: vec![] };
    for round in 0..bench.rounds(ROUNDS, 1) {
        if round % ROUNDS_PER_UNDISTURBED == 0 {
            run.whole_shares.push(whole_share(case, &undisturbed(iterations)?));
        }
        let job = bench.start(&launch(iterations)?)?;
        std::thread::sleep(ATTACH_STEP * round as u32);
        let report = window_of(bench, &job, mpi)?;
        if !report.window.valid {
            eprintln!("    round {round}: an invalid window: {}", report.warnings.join("; "));
        }
        job.check_untouched()?;
        let finished = job.running.wait(RUN_LIMIT)?;
        ensure!(
            finished.right_answer().is_some(),
            "the measured program's answer is wrong: {}",
            finished.stdout.trim()
        );
        let truths = truths_of(&prefix, RANK_COUNT)?;
        match report.window.iterations {
            Some(_) => run.windows.push(compare(case, &report, &truths)?),
            None => run.by_time += 1,
        }
    }
    Ok(run)
}

/// A window of marked iterations.
fn window_of(bench: &Bench, job: &Job, mpi: Mpi) -> Result<Report> {
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
    Ok(bench.attach(job, &options, &cache)?.report)
}

/// How many iterations take `seconds`, judged by the later half of a trial.
fn iterations_for(trial: &[GroundTruth], seconds: f64) -> Result<u32> {
    let rows = &trial.first().context("no rank")?.iterations;
    let durations = rows.iter().skip(rows.len() / 2).map(|row| row.duration_s).collect();
    let period_s = Spread::of(durations).context("the trial has no iteration")?.median;
    Ok((seconds / period_s.max(1e-5)).ceil().min(500_000.0) as u32)
}

/// True if what was reported of every link is true. Other threads' messages may fall on either side of both edges.
fn same_links(case: &Case, report: &Report, ranges: &[RangeTruth]) -> bool {
    let (found, mut truth) = (links_of_report(report), links_of_truth(ranges));
    let iterations = report.window.iterations.unwrap_or(0);
    for (from, to) in [(0, 1), (1, 0)] {
        let Some(link) = truth.get_mut(&(from, to)) else { continue };
        link.0 -= iterations * case.made_before.0;
        link.1 -= iterations * case.made_before.1;
    }
    if !case.many_threads {
        return found == truth;
    }
    let near = |link: &(u32, u32)| match (found.get(link), truth.get(link)) {
        (Some(found), Some(truth)) => found.0.abs_diff(truth.0) <= EDGE_MESSAGES_MAX,
        _ => false,
    };
    found.len() == truth.len() && truth.keys().all(near)
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
    let (reported_s, wrapped_s): (f64, f64) = if case.many_threads {
        let barriers = report.functions.iter().filter(|function| function.name == MARKING_THREADS_CALL);
        let truth = ranges.iter().filter_map(|range| range.functions.get(MARKING_THREADS_CALL));
        (barriers.filter_map(|function| function.time_s).sum(), truth.map(|function| function.time_s).sum())
    } else {
        let reported = report.ranks.iter().map(|rank| rank.communication_s).sum::<Option<f64>>();
        (reported.context("no communication was reported")?, ranges.iter().map(|range| range.communication_s).sum())
    };
    let share = report.communication_fraction.context("no communication share was reported")?;
    let durations_s: f64 = report.ranks.iter().map(|rank| rank.duration_s).sum();
    let calls: u64 = ranges.iter().flat_map(|range| range.functions.values()).map(|function| function.calls).sum();
    let clock_s = truths.iter().map(|truth| truth.clock_s).sum::<f64>() / truths.len() as f64;
    let probe_s = report.cost.probe_ns.context("no cost was reported")? * 1e-9;
    Ok(Window {
        valid: report.window.valid,
        starts,
        said: is_said,
        calls,
        reported_s,
        wrapped_s,
        truth_s: wrapped_s - calls as f64 * (clock_s + probe_s),
        links_equal: same_links(case, report, &ranges),
        share: if case.many_threads { reported_s / durations_s } else { share.mean },
        half_width: share.half_width_95,
        whole_share: whole_share(case, truths),
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
pub(super) fn said_start(report: &Report, rank: u32) -> Option<u32> {
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

/// Share of communication over a whole program, of its marking thread if several communicate.
fn whole_share(case: &Case, truths: &[GroundTruth]) -> f64 {
    let marking = |truth: &GroundTruth| truth.iterations.iter().map(|row| row.communication_s).sum();
    let longest = |truth: &GroundTruth| truth.communication_s.iter().copied().fold(0.0, f64::max);
    let spent = |truth| if case.many_threads { marking(truth) } else { longest(truth) };
    truths.iter().map(|truth| spent(truth) / truth.program_s).sum::<f64>() / truths.len() as f64
}

fn start_row(runs: &[Run]) -> Row {
    let windows: Vec<&Window> = runs.iter().flat_map(|run| &run.windows).collect();
    let differ = windows.iter().filter(|window| window.starts.iter().any(|start| *start != window.starts[0])).count();
    let said = windows.iter().filter(|window| window.said).count();
    let invalid = windows.iter().filter(|window| !window.valid).count();
    let by_time: usize = runs.iter().map(|run| run.by_time).sum();
    let starts = |run: &Run| run.windows.iter().map(|window| window.starts.clone()).collect::<Vec<_>>();
    Row {
        what: "difference between ranks in the recorded start iteration".into(),
        measured: format!(
            "{differ} of {} windows differ ({said} told by the number passed to measuremark, the others by the times of \
             iterations); {invalid} windows invalid; {by_time} more went by time",
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
    let off = |window: &Window, from: f64| (window.reported_s - from) / window.calls.max(1) as f64 * 1e9;
    let median = |values: Vec<f64>| Spread::of(values).map_or(0.0, |spread: Spread| spread.median);
    let per_call_ns = median(run.windows.iter().map(|window| off(window, window.truth_s)).collect());
    let raw = run.windows.iter().map(|window| 100.0 * (window.reported_s - window.wrapped_s) / window.wrapped_s);
    let raw_percent = median(raw.collect());
    let row = Row::at_most(what, "%", &absolute, COMMUNICATION_PERCENT_BAR);
    let times = |window: &Window| json!([window.reported_s, window.truth_s, window.wrapped_s]);
    let times = run.windows.iter().map(times).collect::<Vec<_>>();
    Row {
        measured: format!(
            "{}; signed median {:+.2}%, {per_call_ns:+.0} ns per call; {raw_percent:+.2}% with the wrapper's clock and our \
             probes left in",
            row.measured, signed.median
        ),
        figures: json!({
            "percent": percent,
            "reported_true_and_wrapped_s": times,
            "ns_per_call": per_call_ns,
            "raw_percent": raw_percent,
        }),
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
    let of = |value: fn(&Window) -> f64| run.windows.iter().map(value).collect::<Vec<f64>>();
    let (shares, wholes, off) = (of(|one| one.share), of(|one| one.whole_share), of(Window::off_percent));
    let absolute = off.iter().map(|percent| percent.abs()).collect();
    let (Some(share), Some(whole), Some(absolute)) =
        (Spread::of(shares.clone()), Spread::of(wholes.clone()), Spread::of(absolute))
    else {
        return Row::skipped(what, "no window");
    };
    let covered = run.windows.iter().filter(|window| window.is_covered()).count();
    let said = |spread: &Spread| {
        let [median, low, high] = [spread.median, spread.min, spread.max].map(|one| 100.0 * one);
        format!("{median:.2}% (all within {low:.2} to {high:.2})")
    };
    Row {
        what,
        measured: format!(
            "off by {:.1}% of it (all within {:.1} to {:.1}); windows {}, their runs {}; {covered} of {} intervals cover \
             it; runs that nobody disturbed {}",
            absolute.median,
            absolute.min,
            absolute.max,
            said(&share),
            said(&whole),
            shares.len(),
            Spread::of(run.whole_shares.clone()).as_ref().map_or_else(String::new, said),
        ),
        bar: format!("median off by at most {SHARE_PERCENT_BAR}%, most intervals cover it"),
        verdict: Verdict::of(absolute.median <= SHARE_PERCENT_BAR && covered * 2 > shares.len()),
        figures: json!({
            "shares": shares,
            "half_widths": run.windows.iter().map(|window| window.half_width).collect::<Vec<_>>(),
            "whole_undisturbed_runs": run.whole_shares,
            "whole_measured_runs": wholes,
            "off_percent": off,
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
            clock_s: 2e-8,
            unix_offset_s: 0.0,
            rows_dropped: 0,
            communication_s: vec![0.5, 1.0],
            functions: vec![],
            links: vec![],
            iterations: (0..).zip(durations_s).map(row).collect(),
        }
    }

    fn window(starts: [u32; 2], share: f64) -> Window {
        let (reported_s, truth_s, wrapped_s) = (1.005, 1.0, 1.01);
        let (starts, calls, half_width) = (starts.into(), 10, Some(0.02));
        let (valid, said, links_equal) = (true, true, true);
        let whole_share = 0.25;
        Window {
            valid,
            starts,
            said,
            calls,
            reported_s,
            wrapped_s,
            truth_s,
            links_equal,
            share,
            half_width,
            whole_share,
        }
    }

    fn run_of(windows: Vec<Window>) -> Run {
        Run { name: "x".into(), windows, by_time: 0, whole_shares: vec![0.25, 0.1, 0.3] }
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
        let truths = [truth(&[]), truth(&[])];
        assert_eq!(whole_share(&case("fft"), &truths), 0.25, "the thread that communicates longest");
        assert_eq!(whole_share(&CASES[8], &truths), 0.0, "the thread that marks");
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
