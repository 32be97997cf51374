//! `bench intervals`: do 95% intervals of the share of communication hold the whole run in 95 of 100 windows?
//!
//! The wrapper records each iteration of a run that nobody disturbs. Windows as `trimtab attach` takes them by default
//! (iterations that fill 0.2 s, 10 at least) are cut from it at random places, and each goes through the same `assemble`
//! as a window that was measured; what it says is compared with the run that it was cut from. So hundreds of windows cost
//! one run. Their iterations are the wrapper's, without probes; `live` therefore attaches to further runs.
//!
//! Too many windows that hold are as wrong as too few: each set is judged by binomial bounds on both sides.
//!
//! Next: `crates/job/window/src/statistics.rs` for the intervals.

use super::attach::{Bench, RANK_COUNT};
use super::part::Part;
use super::record::Record;
use super::row::{Row, Verdict};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::ops::Range;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trimtab_specimens::{GroundTruth, IterationTruth, Launch, Mark, Mpi, Variant, build, truths_of};
use trimtab_types::report::{Ended, Estimate, FunctionGroup, MarkerSource, Report};
use trimtab_window::{FunctionInfo, IterationMark, RankSample, WindowFacts, WindowInput, assemble};

/// Windows cut from each run.
const WINDOWS: usize = 200;
/// Windows that are measured in a further run of each set.
const LIVE_WINDOWS: usize = 5;
/// The probability that an interval promises.
const LEVEL: f64 = 0.95;
/// A set may miss its bounds by chance with this probability, half of it on each side.
const BY_CHANCE: f64 = 0.01;
/// The bar on the windows of all sets, percent.
const POOLED_PERCENT: std::ops::RangeInclusive<f64> = 93.0..=97.0;
/// The default of `--at-least`, and the fewest iterations that it takes.
const WINDOW_S: f64 = 0.2;
const WINDOW_ITERATIONS_MIN: usize = 10;
/// Lengths of windows that are shown beside the default, in iterations.
const OTHER_LENGTHS: [usize; 3] = [10, 30, 100];
/// A run lasts so long: forty windows that share no iteration.
const RUN_SECONDS: f64 = 8.0;
/// A run that is attached to lasts longer.
const LIVE_RUN_SECONDS: f64 = 30.0;
/// Between two windows of such a run the program goes on undisturbed.
const LIVE_PAUSE: Duration = Duration::from_secs(1);
/// Iterations of the run that tells how long one takes, without those at its begin.
const TRIAL_ITERATIONS: usize = 80;
const TRIAL_BEGIN: usize = 20;
/// Bounds on a run's iterations: enough for windows at many places, and no file without end.
const RUN_ITERATIONS: std::ops::RangeInclusive<usize> = 200..=40_000;
/// The first iterations of a run, which no window sees, as trimtab waits for a loop to repeat.
const BEGIN_ITERATIONS: usize = 2;
/// Longest time for a run; it hangs if it takes longer.
const RUN_LIMIT: Duration = Duration::from_secs(300);
/// Parts of a run whose shares are shown, to see whether it changed while it ran.
const RUN_PARTS: usize = 10;
const TICKS_PER_SECOND: f64 = 1e9;
const QUICK_CASES: usize = 2;
const SEED: u64 = 20_261_127;

/// A program and its options, by which an iteration takes a millisecond or a few.
struct Case {
    program: &'static str,
    options: &'static [&'static str],
}

const fn case(program: &'static str, options: &'static [&'static str]) -> Case {
    Case { program, options }
}

const CASES: [Case; 10] = [
    case("particle", &["--size", "128", "--particles", "60000", "--uneven", "500"]),
    case("fft", &["--size", "128", "--uneven", "500"]),
    case("cg", &["--size", "2000", "--uneven", "500"]),
    case("is", &["--size", "30000", "--uneven", "400"]),
    case("ep", &["--every", "1", "--size", "100000", "--uneven", "400"]),
    case("wave", &["--size", "128", "--block", "32", "--columns", "1000", "--uneven", "500"]),
    case("kinds", &["--uneven", "1000"]),
    case("heat", &["--size", "10000", "--uneven", "500"]),
    case("threads", &["--size", "100000", "--uneven", "500"]),
    case("steady", &["--sleep-us", "200", "--work", "100000", "--imbalance"]),
];

/// One iteration of one rank, seconds.
#[derive(Clone, Copy)]
struct Iteration {
    /// Seconds since 1970.
    begin_unix_s: f64,
    duration_s: f64,
    communication_s: f64,
}

/// The iterations of a run, outer ranks.
type Series = Vec<Vec<Iteration>>;

/// One window beside its run.
struct Window {
    share: f64,
    half_width: Option<f64>,
    whole: f64,
}

impl Window {
    fn is_covered(&self) -> bool {
        self.half_width.is_some_and(|width| (self.share - self.whole).abs() <= width)
    }

    /// How far it is off, in half widths.
    fn off(&self) -> Option<f64> {
        let off = (self.share - self.whole) / self.half_width?;
        off.is_finite().then(|| (off * 1e3).round() / 1e3)
    }
}

/// A window that trimtab measured, beside what the wrapper saw of that run.
struct LiveWindow {
    /// Beside the run without the seconds in which trimtab looked, changed or measured.
    window: Window,
    /// The share of the whole run, those seconds too.
    with_trimtab: f64,
    /// The wrapper's share of the window's own seconds; `None`: no iteration lies in them.
    own: Option<f64>,
    /// Share of the seconds in which trimtab was at work, without its windows.
    while_looking: Option<f64>,
}

/// Seconds since 1970 in which trimtab was at work, and in which it measured.
struct AtWork {
    command: Range<f64>,
    window: Range<f64>,
}

/// The windows of one program under one library.
struct Set {
    name: String,
    windows: Vec<Window>,
    /// The same of other lengths, as [`OTHER_LENGTHS`].
    others: Vec<Vec<Window>>,
    live: Vec<LiveWindow>,
    whole: f64,
    /// Smallest and largest share of a tenth of the run.
    parts: (f64, f64),
    iteration_s: f64,
}

/// Measures, prints and keeps everything, or one part.
pub fn run(bench: &Bench, only: Option<Part>, record: &mut Record) -> Result<()> {
    let is_wanted = |part: Part| only.is_none_or(|only| only == part);
    let (mut sets, mut failed) = (Vec::new(), Vec::new());
    let is_named = |case: &&Case| bench.programs.is_empty() || bench.programs.iter().any(|name| name == case.program);
    for case in CASES.iter().filter(is_named).take(bench.rounds(CASES.len(), QUICK_CASES)) {
        for mpi in Mpi::ALL {
            let name = format!("{}, {}", case.program, mpi.name());
            eprintln!("  intervals: {name}");
            match set(bench, case, mpi, (is_wanted(Part::Cut), is_wanted(Part::Live))) {
                Ok(set) => sets.push(set),
                Err(error) => failed.push(Row {
                    verdict: Verdict::Missed,
                    ..Row::skipped(format!("intervals: {name}: a run failed"), format!("{error:#}"))
                }),
            }
        }
    }
    record.judge(rows(&sets, is_wanted(Part::Cut), is_wanted(Part::Live)));
    record.judge(failed);
    Ok(())
}

fn rows(sets: &[Set], has_cut: bool, has_live: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    if has_cut {
        rows.extend(sets.iter().map(set_row));
        rows.push(pooled_row(sets));
        rows.extend((0..OTHER_LENGTHS.len()).map(|number| other_row(sets, number)));
    }
    rows.extend(has_live.then(|| live_row(sets)));
    rows
}

fn set(bench: &Bench, case: &Case, mpi: Mpi, (has_cut, has_live): (bool, bool)) -> Result<Set> {
    let program = build(case.program, Some(mpi), &Variant { mark: Mark::Local, ..Variant::default() })?;
    let prefix = bench.folder.join(format!("intervals-{}-{}", case.program, mpi.name()));
    let launch = |iterations: usize| {
        let launch = Launch::polling(mpi, RANK_COUNT, &program).args(case.options);
        launch.args(["--mark", "--iterations", &iterations.to_string()]).measured(&prefix)
    };
    let trial = recorded(&launch(TRIAL_ITERATIONS)?, &prefix)?;
    let iteration_s = mean_duration_s(&trial[0][TRIAL_BEGIN..]);
    let name = format!("{}, {}", case.program, mpi.name());
    let mut set = Set {
        name,
        windows: vec![],
        others: vec![],
        live: vec![],
        whole: f64::NAN,
        parts: (f64::NAN, f64::NAN),
        iteration_s,
    };
    if has_cut {
        let series = recorded(&launch(iterations_for(RUN_SECONDS, iteration_s))?, &prefix)?;
        (set.whole, set.parts, set.iteration_s) = (share(&series), parts(&series), mean_duration_s(&series[0]));
        set.windows = cut(&series, None);
        set.others = OTHER_LENGTHS.iter().map(|length| cut(&series, Some(*length))).collect();
    }
    if has_live {
        set.live = live(bench, &launch(iterations_for(LIVE_RUN_SECONDS, iteration_s))?, &prefix, mpi)?;
    }
    Ok(set)
}

fn iterations_for(seconds: f64, iteration_s: f64) -> usize {
    ((seconds / iteration_s.max(1e-6)).ceil() as usize).clamp(*RUN_ITERATIONS.start(), *RUN_ITERATIONS.end())
}

/// Runs `launch`, and reads what the wrapper saw.
fn recorded(launch: &Launch, prefix: &Path) -> Result<Series> {
    let finished = launch.run(RUN_LIMIT)?;
    ensure!(finished.status.success(), "the run failed: {}", finished.stderr.trim());
    series(&truths_of(prefix, RANK_COUNT)?)
}

/// The iterations that all ranks have, without those at the begin.
fn series(truths: &[GroundTruth]) -> Result<Series> {
    let length = truths.iter().map(|truth| truth.iterations.len()).min().context("no rank")?;
    ensure!(length > BEGIN_ITERATIONS + TRIAL_BEGIN, "the run had {length} iterations only");
    let of_rank = |truth: &GroundTruth| {
        let rows = truth.iterations[BEGIN_ITERATIONS..length].iter();
        let iteration = |row: &IterationTruth| Iteration {
            begin_unix_s: truth.unix_offset_s + row.start_s,
            duration_s: row.duration_s,
            communication_s: row.communication_s,
        };
        rows.map(iteration).collect()
    };
    Ok(truths.iter().map(of_rank).collect())
}

/// Windows at random places, of `length` iterations or of as many as trimtab takes by default.
fn cut(series: &Series, length: Option<usize>) -> Vec<Window> {
    let (whole, count) = (share(series), series[0].len());
    let mut random = SEED;
    let mut windows = Vec::new();
    for _ in 0..10 * WINDOWS {
        let begin = TRIAL_BEGIN + (uniform(&mut random) * (count - TRIAL_BEGIN) as f64) as usize;
        let length = length.unwrap_or_else(|| default_length(&series[0][begin - TRIAL_BEGIN..begin]));
        if windows.len() < WINDOWS && begin + length <= count {
            let pieces: Series = series.iter().map(|rank| rank[begin..begin + length].to_vec()).collect();
            windows.extend(assembled(&pieces).map(|share| window(&share, whole)));
        }
    }
    windows
}

/// As many iterations as fill a window, judged by those before it.
fn default_length(before: &[Iteration]) -> usize {
    ((WINDOW_S / mean_duration_s(before).max(1e-6)).ceil() as usize).max(WINDOW_ITERATIONS_MIN)
}

fn window(share: &Estimate, whole: f64) -> Window {
    Window { share: share.mean, half_width: share.half_width_95, whole }
}

/// The share that a report would tell of these iterations.
fn assembled(pieces: &Series) -> Option<Estimate> {
    report_of(pieces).communication_fraction
}

/// The report of a window of these iterations.
fn report_of(pieces: &Series) -> Report {
    let function =
        FunctionInfo { name: "MPI".into(), group: FunctionGroup::Comm, timed: true, ..FunctionInfo::default() };
    let input = WindowInput {
        job: trimtab_types::report::Job {
            id: String::new(),
            program: String::new(),
            arguments: vec![],
            ranks: pieces.len() as u32,
            mpi: String::new(),
            hosts: vec![],
            builds: vec![],
            started_unix_s: None,
        },
        facts: WindowFacts {
            marker: Some("measuremark".into()),
            marker_source: MarkerSource::MeasureMark,
            start: Some(0),
            ended_by: Ended::Iterations,
            groups: vec![FunctionGroup::Comm],
            ..WindowFacts::default()
        },
        ticks_per_second: TICKS_PER_SECOND,
        functions: vec![function],
        ranks: pieces.iter().zip(0..).map(|(iterations, rank)| rank_sample(iterations, rank)).collect(),
        warnings: vec![],
        command_to_first_record_s: None,
        unix_time: trimtab_window::UnixTime::default(),
        waits: trimtab_window::Waits::default(),
        nodes: vec![],
        named_paths: vec![],
    };
    assemble(&input)
}

/// The recording of a rank that had these iterations.
fn rank_sample(iterations: &[Iteration], rank: u32) -> RankSample {
    let ticks = |seconds: f64| (seconds * TICKS_PER_SECOND).round() as u64;
    let mut marks = vec![IterationMark::default()];
    let (mut until_s, mut communication_s) = (0.0, 0.0);
    for one in iterations {
        (until_s, communication_s) = (until_s + one.duration_s, communication_s + one.communication_s);
        marks.push(IterationMark { ticks: ticks(until_s), comm_ticks: ticks(communication_s) });
    }
    let (last_ticks, comm_ticks) = (ticks(until_s), ticks(communication_s));
    RankSample { rank, last_ticks, comm_ticks, marks, complete: true, ..RankSample::default() }
}

/// Windows measured one after the other in one run, beside that run.
fn live(bench: &Bench, launch: &Launch, prefix: &Path, mpi: Mpi) -> Result<Vec<LiveWindow>> {
    let job = bench.start(launch)?;
    let cache = bench.folder.join(format!("cache-{}", mpi.name()));
    let mut measured: Vec<(Report, AtWork)> = Vec::new();
    for _ in 0..bench.rounds(LIVE_WINDOWS, 1) {
        let begin_unix_s = unix_now_s();
        let report = bench.attach(&job, &["--max-seconds", "20"], &cache)?.report;
        let window_unix_s = report.window.started_unix_s.context("no rank began to record")?;
        let window = window_unix_s..window_unix_s + report.window.duration_s;
        measured.push((report, AtWork { command: begin_unix_s..unix_now_s(), window }));
        sleep(LIVE_PAUSE);
    }
    job.check_untouched()?;
    let finished = job.running.wait(RUN_LIMIT)?;
    ensure!(finished.right_answer().is_some(), "the measured program's answer is wrong: {}", finished.stdout.trim());
    let series = series(&truths_of(prefix, RANK_COUNT)?)?;
    Ok(beside_run(&measured, &series))
}

/// The valid windows of `measured`, each beside parts of the run.
fn beside_run(measured: &[(Report, AtWork)], series: &Series) -> Vec<LiveWindow> {
    let is_at_work = |one: &Iteration| {
        measured.iter().any(|(_, at)| at.command.start < end_s(one) && one.begin_unix_s < at.command.end)
    };
    let Some(undisturbed) = share_where(series, |one| !is_at_work(one)) else { return vec![] };
    // Where several threads communicate, the wrapper's iterations are those of the thread that marks.
    let has_one_thread = |report: &Report| report.ranks.iter().all(|rank| rank.communication_threads == Some(1));
    let valid = measured.iter().filter(|(report, _)| report.window.valid && has_one_thread(report));
    let beside = |(report, at): &(Report, AtWork)| {
        let is_looking =
            |one: &Iteration| at.command.contains(&one.begin_unix_s) && !at.window.contains(&one.begin_unix_s);
        Some(LiveWindow {
            window: window(report.communication_fraction.as_ref()?, undisturbed),
            with_trimtab: share(series),
            own: share_where(series, |one| at.window.start <= one.begin_unix_s && end_s(one) <= at.window.end),
            while_looking: share_where(series, is_looking),
        })
    };
    valid.filter_map(beside).collect()
}

fn end_s(one: &Iteration) -> f64 {
    one.begin_unix_s + one.duration_s
}

fn unix_now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(f64::NAN, |since| since.as_secs_f64())
}

/// The share of those iterations that `is_wanted`; `None`: a rank has none.
fn share_where(series: &Series, is_wanted: impl Fn(&Iteration) -> bool) -> Option<f64> {
    let wanted: Series =
        series.iter().map(|rank| rank.iter().filter(|one| is_wanted(one)).copied().collect()).collect();
    wanted.iter().all(|rank: &Vec<Iteration>| !rank.is_empty()).then(|| share(&wanted))
}

/// Mean over ranks of communication time over time.
fn share(series: &Series) -> f64 {
    let of_rank = |rank: &Vec<Iteration>| {
        rank.iter().map(|one| one.communication_s).sum::<f64>() / rank.iter().map(|one| one.duration_s).sum::<f64>()
    };
    series.iter().map(of_rank).sum::<f64>() / series.len() as f64
}

/// Smallest and largest share of the run's parts.
fn parts(series: &Series) -> (f64, f64) {
    let length = (series[0].len() / RUN_PARTS).max(1);
    let part = |number: usize| series.iter().map(|rank| rank[number * length..][..length].to_vec()).collect();
    let shares: Vec<f64> = (0..RUN_PARTS.min(series[0].len())).map(|number| share(&part(number))).collect();
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    shares.into_iter().fold(ends, |(low, high), share| (low.min(share), high.max(share)))
}

fn mean_duration_s(iterations: &[Iteration]) -> f64 {
    iterations.iter().map(|one| one.duration_s).sum::<f64>() / iterations.len().max(1) as f64
}

/// Uniform in 0 to 1 (splitmix64): the same places in every run of the benchmark.
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// How many of `count` intervals may hold, fewest and most, if each does with [`LEVEL`].
fn bounds(count: usize) -> (usize, usize) {
    let (mut probability, mut below) = ((1.0 - LEVEL).powi(count as i32), 0.0);
    let (mut low, mut high) = (None, count);
    for held in 0..=count {
        // `below` is the probability of fewer than `held`, `probability` that of just as many.
        if low.is_none() && below + probability > BY_CHANCE / 2.0 {
            low = Some(held);
        }
        below += probability;
        if 1.0 - below <= BY_CHANCE / 2.0 {
            high = held;
            break;
        }
        probability *= (count - held) as f64 / (held + 1) as f64 * LEVEL / (1.0 - LEVEL);
    }
    (low.unwrap_or(0), high)
}

fn covered(windows: &[Window]) -> usize {
    windows.iter().filter(|window| window.is_covered()).count()
}

/// Mean half width, in points of percent, of those windows that have one.
fn mean_width_points<'a>(windows: impl Iterator<Item = &'a Window>) -> f64 {
    let widths: Vec<f64> = windows.filter_map(|window| window.half_width).collect();
    100.0 * widths.iter().sum::<f64>() / widths.len().max(1) as f64
}

fn set_row(set: &Set) -> Row {
    let (held, count) = (covered(&set.windows), set.windows.len());
    let (low, high) = bounds(count);
    let width = mean_width_points(set.windows.iter());
    Row {
        what: format!("95% intervals that hold the whole run: {}", set.name),
        measured: format!(
            "{held} of {count}; mean half width {width:.2} points; the run {:.2}%, its tenths {:.2} to {:.2}; an \
             iteration {:.2} ms",
            100.0 * set.whole,
            100.0 * set.parts.0,
            100.0 * set.parts.1,
            1e3 * set.iteration_s
        ),
        bar: format!("{low} to {high}"),
        verdict: if count == 0 { Verdict::Skipped } else { Verdict::of((low..=high).contains(&held)) },
        figures: json!({
            "held": held,
            "windows": count,
            "mean_half_width_points": width,
            "whole": set.whole,
            "tenths": [set.parts.0, set.parts.1],
            "iteration_s": set.iteration_s,
            "off_in_half_widths": set.windows.iter().map(Window::off).collect::<Vec<_>>(),
        }),
    }
}

/// All windows of all sets.
fn pooled(windows: &[&Window], what: String, bar: bool) -> Row {
    if windows.is_empty() {
        return Row::skipped(what, "no window");
    }
    let held = windows.iter().filter(|window| window.is_covered()).count();
    let percent = 100.0 * held as f64 / windows.len() as f64;
    let width = mean_width_points(windows.iter().copied());
    Row {
        what,
        measured: format!("{held} of {} ({percent:.1}%); mean half width {width:.2} points", windows.len()),
        bar: if bar { format!("{} to {}%", POOLED_PERCENT.start(), POOLED_PERCENT.end()) } else { String::new() },
        verdict: if bar { Verdict::of(POOLED_PERCENT.contains(&percent)) } else { Verdict::NoBar },
        figures: json!({ "held": held, "windows": windows.len(), "percent": percent, "mean_half_width_points": width }),
    }
}

fn pooled_row(sets: &[Set]) -> Row {
    let windows: Vec<&Window> = sets.iter().flat_map(|set| &set.windows).collect();
    pooled(&windows, "95% intervals that hold the whole run: all sets".into(), true)
}

fn other_row(sets: &[Set], number: usize) -> Row {
    let windows: Vec<&Window> = sets.iter().filter_map(|set| set.others.get(number)).flatten().collect();
    pooled(&windows, format!("the same, windows of {} iterations: all sets", OTHER_LENGTHS[number]), false)
}

fn live_row(sets: &[Set]) -> Row {
    let windows: Vec<&Window> = sets.iter().flat_map(|set| &set.live).map(|live| &live.window).collect();
    let row = pooled(&windows, "95% intervals of attached windows that hold their run: all sets".into(), false);
    let (low, high) = bounds(windows.len());
    let held = windows.iter().filter(|window| window.is_covered()).count();
    let verdict = if windows.is_empty() { Verdict::Skipped } else { Verdict::of((low..=high).contains(&held)) };
    Row {
        bar: format!("{low} to {high}"),
        verdict,
        figures: json!(sets.iter().map(live_figures).collect::<Vec<_>>()),
        ..row
    }
}

/// Of one set: where a window and its run differ, these tell which of the two is off.
fn live_figures(set: &Set) -> Value {
    let of_window = |live: &LiveWindow| {
        json!({
            "share": live.window.share,
            "half_width": live.window.half_width,
            "wrapper_in_window": live.own,
            "run_without_trimtab": live.window.whole,
            "run": live.with_trimtab,
            "while_trimtab_looked": live.while_looking,
        })
    };
    json!({
        "set": set.name,
        "held": set.live.iter().filter(|live| live.window.is_covered()).count(),
        "windows": set.live.iter().map(of_window).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_binomial_distribution() {
        // From tables: 200 trials at 0.95 are within 181 to 197 in 99% of cases.
        for (count, expected) in [(0, (0, 0)), (1, (0, 1)), (10, (7, 10)), (200, (181, 197))] {
            assert_eq!(bounds(count), expected, "{count}");
        }
    }

    /// A rank that communicates for a fifth, and one that does so for two fifths, of iterations of a millisecond.
    fn steady(count: usize, extra: impl Fn(usize) -> f64) -> Series {
        let one = |i: usize, part: f64| Iteration {
            begin_unix_s: i as f64 * 1e-3,
            duration_s: 1e-3,
            communication_s: part * 1e-3 + extra(i),
        };
        [0.2, 0.4].iter().map(|part| (0..count).map(|i| one(i, *part)).collect()).collect()
    }

    #[test]
    fn windows_are_cut_as_trimtab_takes_them() {
        let series = steady(4000, |_| 0.0);
        assert!((share(&series) - 0.3).abs() < 1e-9);
        assert_eq!(default_length(&series[0][..20]), 200);
        assert_eq!(default_length(&[Iteration { begin_unix_s: 0.0, duration_s: 1.0, communication_s: 0.0 }]), 10);
        let windows = cut(&series, None);
        assert_eq!((windows.len(), covered(&windows)), (WINDOWS, WINDOWS));
        assert!(windows.iter().all(|window| (window.share - 0.3).abs() < 1e-6), "shares come through a report");
        assert_eq!(bounds(WINDOWS).1, 197, "that all of them hold is too many");
    }

    #[test]
    fn a_run_that_changes_is_not_held() {
        let series = steady(4000, |i| if i < 2000 { 0.0 } else { 0.4e-3 });
        let windows = cut(&series, None);
        assert!(covered(&windows) < WINDOWS / 4, "{} hold", covered(&windows));
        let (low, high) = parts(&series);
        assert!((low - 0.3).abs() < 1e-9 && (high - 0.7).abs() < 1e-9, "{low} to {high}");
        let set = Set {
            name: "x".into(),
            others: vec![],
            live: vec![],
            whole: share(&series),
            parts: (low, high),
            iteration_s: 1e-3,
            windows,
        };
        assert_eq!(set_row(&set).verdict, Verdict::Missed);
        assert_eq!(pooled_row(std::slice::from_ref(&set)).verdict, Verdict::Missed);
        assert_eq!(live_row(&[set]).verdict, Verdict::Skipped);
    }

    #[test]
    fn a_window_is_beside_the_run_without_the_seconds_of_trimtab() {
        // For a second of four, trimtab is at work and communication doubles; in the window within it, it does not.
        let series =
            steady(4000, |i| if (1000..1500).contains(&i) || (1700..2000).contains(&i) { 0.3e-3 } else { 0.0 });
        let mut report = report_of(&series.iter().map(|rank| rank[1500..1700].to_vec()).collect());
        report.window.valid = true;
        report.ranks.iter_mut().for_each(|rank| rank.communication_threads = Some(1));
        let at_work = AtWork { command: 1.0..2.0, window: 1.5..1.7 };
        let live = &beside_run(&[(report.clone(), at_work)], &series)[0];
        assert!((live.window.whole - 0.3).abs() < 1e-9 && live.window.is_covered());
        assert!((live.with_trimtab - 0.36).abs() < 1e-9, "{}", live.with_trimtab);
        assert!((live.own.expect("a share") - 0.3).abs() < 1e-9);
        assert!((live.while_looking.expect("a share") - 0.6).abs() < 1e-9);
        report.window.valid = false;
        assert!(beside_run(&[(report, AtWork { command: 1.0..2.0, window: 1.5..1.7 })], &series).is_empty());
    }
}
