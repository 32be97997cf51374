//! `bench forecast --only pairs`: two specimens share both cores, and `trimtab forecast corun` says when each ends.
//!
//! The truth is the median of runs that nobody looks at, taken in turns with the one that is forecast. Errors are shares of the
//! time from the first job's start, as in ScoPro's tables 7a and 7b. Before jobs meet, each program is profiled by itself; at later offsets of a pair it is also known how they got on before. Ranks give
//! their processor away while they wait, so that no pair only spins against each other, and each is bound to a core, as on a
//! cluster: ranks that may go anywhere mix in one of two ways, and change between them by themselves.
//!
//! Next: `crates/models/corun` for the formulas.

use super::answer::{answer, number};
use super::attach::{Bench, RANK_COUNT, START_LIMIT};
use super::record::Record;
use super::row::{Row, Verdict};
use super::runner::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trimtab_specimens::{Launch, Mpi, Running, Variant, build};

/// A job by itself lasts about so long.
const ALONE_S: f64 = 6.0;
/// The second job begins after these shares of that.
const OFFSETS: [f64; 3] = [0.0, 0.2, 0.4];
/// Runs that nobody looks at, for each pair and offset.
const TRUTHS: usize = 5;
/// A job that is looked at by itself, and from the second job's start to the first look.
const SETTLE: Duration = Duration::from_millis(1000);
const LOOK_EVERY: Duration = Duration::from_millis(2);
const RUN_LIMIT: Duration = Duration::from_secs(180);
/// Windows of a pair take so long at most, seconds.
const WITHIN_S: &str = "2";
/// Runs by itself, for the time that one takes.
const RUNS_ALONE: usize = 3;
/// A run that is ended once it was looked at has so many iterations.
const ENDLESS: u32 = 10_000_000;
/// The host's scale is looked at so often, until others do not disturb it.
const SCALES_MAX: usize = 3;
/// Iterations of a short window.
const SHORT: &str = "10";
/// Bars, percent of the time; and points of slowdown.
const MEDIAN_PERCENT_MAX: f64 = 2.0;
const BEYOND_SPREAD_PERCENT_MAX: f64 = 5.0;
const PREDICTED_POINTS_MEDIAN_MAX: f64 = 3.0;
const PREDICTED_POINTS_MAX: f64 = 8.0;
/// Bars on the slowdown from short windows, percent,
const SHORT_MEDIAN_PERCENT_MAX: f64 = 1.5;
const SHORT_PERCENT_MAX: f64 = 3.0;
/// and on the share of programs whose better partner is ranked first.
const BETTER_SHARE_MIN: f64 = 0.9;
/// Progress of two pairs that is less than this share apart is as good.
const AS_GOOD: f64 = 0.02;
/// The method of a forecast for jobs that met before.
const MET: &str = "measured when they met before";
const QUICK: (usize, usize, usize) = (1, 1, 3);

/// A program and its options, by which an iteration takes some milliseconds.
type Side = (&'static str, &'static [&'static str]);

// Their loops tell how many iterations come; those of heat and ep do not.
const CG: Side = ("cg", &["--size", "6000"]);
const FFT: Side = ("fft", &["--size", "256"]);
const IS: Side = ("is", &["--size", "200000"]);
const PARTICLE: Side = ("particle", &["--size", "128", "--particles", "100000"]);
const WAVE: Side = ("wave", &["--size", "400"]);
const PAIRS: [(Side, Side); 6] = [(CG, FFT), (FFT, IS), (IS, PARTICLE), (PARTICLE, WAVE), (WAVE, CG), (CG, IS)];

/// A job whose run by itself is known.
struct Known {
    name: &'static str,
    launch: Launch,
    /// The report of a window alone, of an endless run, as which it was profiled.
    alone: PathBuf,
    /// The same of a run as those beside others.
    run_alone: PathBuf,
    /// Seconds from a run's start to its end, and what of that is no iteration.
    run_s: f64,
    start_s: f64,
    /// Seconds of an iteration in a short window.
    short_s: f64,
    /// Why it has no profile.
    no_profile: Option<String>,
}

/// When both ended, seconds from the first one's start: the one that ended first, and last.
type Ends = (f64, f64);

fn in_order(ends: [f64; 2]) -> Ends {
    (ends[0].min(ends[1]), ends[0].max(ends[1]))
}

/// A forecast of both ends while they run, and windows then.
struct Asked {
    ends: Ends,
    /// By formula 7, of the one that ends last.
    if_all_stayed: f64,
    /// Measured slowdown of each; `None`: it was not beside the other one all the time.
    slowdowns: Vec<Option<f64>>,
    /// The same by short windows; `None`: it had ended by then.
    short: [Option<f64>; 2],
}

/// One pair and offset.
struct Outcome {
    name: String,
    truths: Vec<Ends>,
    forecast: Ends,
    /// By formula 7, of the one that ends last.
    if_all_stayed: f64,
    /// Slowdown of each job as predicted before they ever met, and as measured.
    slowdowns: Vec<(f64, f64)>,
    /// The way in which they were predicted.
    method: String,
    /// The same as predicted from when they had met before; empty: they had not.
    met: Vec<(f64, f64)>,
    /// Slowdown of the job that ends first by short windows, and over its whole run; `None`: it was not beside the other all the time.
    short: Option<(f64, f64)>,
    programs: [&'static str; 2],
    /// Progress of both together while both ran, by whole runs: the sum of 1 over slowdown; as it was, and as predicted before they
    /// ever met.
    progress: (f64, f64),
}

/// Measures all pairs.
pub fn run(bench: &Bench, record: &mut Record) -> Result<()> {
    let (pairs, offsets, truths) = if bench.quick { QUICK } else { (PAIRS.len(), OFFSETS.len(), TRUTHS) };
    let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
    let mut all: BTreeMap<&'static str, Known> = BTreeMap::new();
    if let Err(error) = scaled(bench) {
        failed.push(Row::skipped("pairs: this host's scale of pressure", format!("{error:#}")));
    }
    for (first, second) in PAIRS.iter().take(pairs) {
        let mut missing = None;
        for side in [first, second] {
            if !all.contains_key(side.0) {
                eprintln!("  pairs: {} by itself", side.0);
                match known(bench, *side) {
                    Ok(known) => drop(all.insert(side.0, known)),
                    Err(error) => missing = Some(format!("{error:#}")),
                }
            }
        }
        let (Some(a), Some(b)) = (all.get(first.0), all.get(second.0)) else {
            let why = missing.unwrap_or_else(|| "one of them failed by itself".to_owned());
            failed.push(Row::skipped(format!("pairs: {} and {}", first.0, second.0), why));
            continue;
        };
        let before = match predicted(bench, [&a.alone, &b.alone]) {
            Ok(before) => before,
            Err(error) => {
                let what = format!("pairs: prediction of {} and {}", first.0, second.0);
                failed.push(Row::skipped(what, format!("{error:#}")));
                continue;
            }
        };
        for offset in OFFSETS.iter().take(offsets) {
            let name = format!("{} and {} after {:.0}%", a.name, b.name, offset * 100.0);
            eprintln!("  pairs: {name}");
            match outcome(bench, [a, b], &before, offset * ALONE_S, truths) {
                Ok(found) => outcomes.push(Outcome { name, ..found }),
                Err(error) => failed.push(Row::skipped(format!("pairs: {name}"), format!("{error:#}"))),
            }
        }
    }
    let unprofiled = all.values().filter_map(|known| Some((known.name, known.no_profile.clone()?)));
    failed.extend(unprofiled.map(|(name, why)| Row::skipped(format!("pairs: profile of {name}"), why)));
    record.judge(rows(&outcomes));
    record.judge(failed);
    Ok(())
}

/// Has probes look at each other, until nobody disturbs them.
fn scaled(bench: &Bench) -> Result<()> {
    let words = ["model", "pressure"].map(str::to_owned);
    let mut found = answer(bench, &words);
    for _ in 1..SCALES_MAX {
        if found.is_ok() {
            break;
        }
        found = answer(bench, &words);
    }
    found.map(|_| ())
}

/// Finds how many iterations last [`ALONE_S`], measures windows of the job by itself, and has it profiled.
fn known(bench: &Bench, (name, options): Side) -> Result<Known> {
    let program = build(name, Some(Mpi::OpenMpi), &Variant::default())?;
    let launch = |iterations: u32| {
        let launch = Launch::mpi(Mpi::OpenMpi, RANK_COUNT, &program).bound().args(options);
        launch.args(["--iterations", &iterations.to_string()])
    };
    let spent_s = |iterations: u32| -> Result<f64> {
        let begun = Instant::now();
        ensure!(launch(iterations).run(RUN_LIMIT)?.status.success(), "{name} failed by itself");
        Ok(begun.elapsed().as_secs_f64())
    };
    let alone = bench.folder.join(format!("{name}.json"));
    let mut running = launch(ENDLESS).start()?;
    running.rank_pids(START_LIMIT)?;
    sleep(SETTLE);
    let pid = running.pid().to_string();
    let asked = |words: &[&str]| {
        answer(bench, &words.iter().chain([&pid.as_str()]).map(|word| (*word).to_owned()).collect::<Vec<_>>())
    };
    // A window is free of a run's start and end.
    let window = asked(&["attach", "--at-least", "1"])?;
    std::fs::write(&alone, window.to_string()).context("cannot keep a report")?;
    let each_s = each(&window)?;
    let short_s = each(&asked(&["attach", "--iterations", SHORT])?)?;
    let no_profile = asked(&["model", "pressure", "--yes", "--each", "0.5"]).err().map(|error| format!("{error:#}"));
    drop(running);
    let iterations = (ALONE_S / each_s).ceil() as u32;
    // Windows of a program count as of the same one where its arguments are the same.
    let run_alone = bench.folder.join(format!("{name}-run.json"));
    let mut running = launch(iterations).start()?;
    running.rank_pids(START_LIMIT)?;
    sleep(SETTLE);
    let window = answer(bench, &["attach", "--at-least", "1", &running.pid().to_string()].map(str::to_owned))?;
    std::fs::write(&run_alone, window.to_string()).context("cannot keep a report")?;
    ensure!(running.wait(RUN_LIMIT)?.status.success(), "{name} failed after a window of it");
    let runs = (0..RUNS_ALONE).map(|_| spent_s(iterations)).collect::<Result<Vec<f64>>>()?;
    let run_s = Spread::of(runs).context("no run")?.median;
    let start_s = (run_s - each_s * f64::from(iterations)).max(0.0);
    Ok(Known { name, launch: launch(iterations), alone, run_alone, run_s, start_s, short_s, no_profile })
}

/// Seconds of an iteration in a report.
fn each(report: &Value) -> Result<f64> {
    number(report, "/time_per_iteration_s/mean")
}

/// The method and the slowdowns of both, from windows of each alone, and from what is known of their meetings so far.
fn predicted(bench: &Bench, alone: [&Path; 2]) -> Result<(String, Vec<f64>)> {
    let words = ["forecast", "corun"].map(str::to_owned).into_iter();
    let files = alone.map(|file| file.display().to_string());
    let found = answer(bench, &words.chain(files).collect::<Vec<_>>())?;
    let method = found.pointer("/method").and_then(Value::as_str).unwrap_or("?").to_owned();
    let known = slowdowns(&found).into_iter().collect::<Option<Vec<f64>>>();
    Ok((method, known.context("a slowdown is not predicted")?))
}

fn outcome(
    bench: &Bench,
    [a, b]: [&Known; 2],
    before: &(String, Vec<f64>),
    offset_s: f64,
    count: usize,
) -> Result<Outcome> {
    let (now_method, now) = predicted(bench, [&a.run_alone, &b.run_alone])?;
    let mut runs = Vec::new();
    let mut found = None;
    for turn in 0..count {
        runs.push(together(a, b, offset_s, |_, _, _| Ok(()))?.0);
        // In the midst of the others, so that a machine that drifts is on neither side.
        if turn == count / 2 {
            let ask = |first: &Running, second: &Running, begun: f64| asked(bench, [a, b], [first, second], begun);
            found = Some(together(a, b, offset_s, ask)?.1);
        }
    }
    let found = found.context("no run was forecast")?;
    let beside = |said: &[f64]| {
        let both = said.iter().copied().zip(found.slowdowns.iter().copied());
        both.filter_map(|(said, measured)| Some((said, measured?))).collect()
    };
    Ok(Outcome {
        name: String::new(),
        truths: runs.iter().copied().map(in_order).collect(),
        forecast: found.ends,
        if_all_stayed: found.if_all_stayed,
        slowdowns: beside(&before.1),
        method: before.0.clone(),
        met: if now_method == MET { beside(&now) } else { Vec::new() },
        short: (offset_s <= 0.0)
            .then(|| whole([a, b], &runs))
            .flatten()
            .and_then(|(job, whole)| Some((found.short[job]?, whole))),
        programs: [a.name, b.name],
        progress: (progress_of([a, b], &runs, offset_s)?, before.1.iter().map(|slowdown| slowdown.recip()).sum()),
    })
}

/// Progress of two jobs while both ran: the time that they would have taken alone for what they did then, over the time that it took.
fn progress_of(known: [&Known; 2], runs: &[[f64; 2]], offset_s: f64) -> Result<f64> {
    let of = |run: &[f64; 2]| {
        let (first, last) = in_order(*run);
        let alone_s: f64 = known.iter().map(|one| one.run_s).sum();
        (alone_s - offset_s - (last - first)) / (first - offset_s)
    };
    Ok(Spread::of(runs.iter().map(of).collect()).context("no run")?.median)
}

/// The job that ends first of two that began at once, and its slowdown over its whole run, without what is no iteration.
fn whole(all: [&Known; 2], runs: &[[f64; 2]]) -> Option<(usize, f64)> {
    let ends = [0, 1].map(|job| Spread::of(runs.iter().map(|ends| ends[job]).collect()).map(|ends| ends.median));
    let [first, second] = ends;
    let job = usize::from(second? < first?);
    let alone_s = all[job].run_s - all[job].start_s;
    Some((job, (ends[job]? - all[job].start_s) / alone_s)).filter(|_| alone_s > 0.0)
}

/// The slowdown of a job that runs, by a short window.
fn by_short(bench: &Bench, pid: &str, known: &Known) -> Result<f64> {
    let words = ["attach", "--iterations", SHORT, pid].map(str::to_owned);
    Ok(each(&answer(bench, &words)?)? / known.short_s)
}

/// Runs both, and does something once both are at work.
fn together<T>(
    a: &Known,
    b: &Known,
    offset_s: f64,
    then: impl FnOnce(&Running, &Running, f64) -> Result<T>,
) -> Result<([f64; 2], T)> {
    let (begun, begun_unix_s) = (Instant::now(), unix_s()?);
    let mut first = a.launch.start()?;
    // It may end before the other one is at work.
    first.rank_pids(START_LIMIT)?;
    sleep(Duration::from_secs_f64(offset_s).saturating_sub(begun.elapsed()));
    let mut second = b.launch.start()?;
    second.rank_pids(START_LIMIT)?;
    sleep(SETTLE);
    let found = then(&first, &second, begun_unix_s)?;
    let (mut first_s, mut second_s) = (None, None);
    while first_s.is_none() || second_s.is_none() {
        ensure!(begun.elapsed() < RUN_LIMIT, "{} and {} did not end", a.name, b.name);
        for (running, end_s) in [(&mut first, &mut first_s), (&mut second, &mut second_s)] {
            if end_s.is_none() && running.poll()?.is_some() {
                *end_s = Some(begun.elapsed().as_secs_f64());
            }
        }
        sleep(LOOK_EVERY);
    }
    Ok(([first_s, second_s].map(Option::unwrap_or_default), found))
}

fn unix_s() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_secs_f64())
}

/// The forecast of both, and short windows.
fn asked(bench: &Bench, known: [&Known; 2], running: [&Running; 2], begun_unix_s: f64) -> Result<Asked> {
    let words = ["forecast", "corun", "--within", WITHIN_S].map(str::to_owned).into_iter();
    let jobs = running.map(|running| running.pid().to_string());
    let alone = [("A", known[0]), ("B", known[1])];
    let alone = alone.map(|(letter, known)| format!("--alone={letter}={}", known.alone.display()));
    let found = answer(bench, &words.chain(jobs.clone()).chain(alone).collect::<Vec<_>>())?;
    let since_s = number(&found, "/made_unix_s")? - begun_unix_s;
    let ends = [0, 1].map(|job| end_of(&found, job).map(|end_s| end_s + since_s));
    let [first, second] = ends;
    let (first, second) = (first?, second?);
    // Of a job that has ended by then only its end is known.
    let stayed = [0, 1].map(|job| match number(&found, &format!("/jobs/{job}/end_if_all_stayed_s")) {
        Ok(end_s) => Ok(end_s + since_s),
        Err(_) => end_of(&found, job).map(|end_s| end_s + since_s),
    });
    let [stayed_first, stayed_second] = stayed;
    let if_all_stayed = stayed_first?.max(stayed_second?);
    // The forecast comes first: a job may end before these.
    let short = [0, 1].map(|job| by_short(bench, &jobs[job], known[job]).ok());
    Ok(Asked { ends: in_order([first, second]), if_all_stayed, slowdowns: slowdowns(&found), short })
}

/// When a job ends, seconds from the forecast.
fn end_of(found: &Value, job: usize) -> Result<f64> {
    let why = found.pointer(&format!("/jobs/{job}/no_end")).and_then(Value::as_str).unwrap_or("no end is claimed");
    number(found, &format!("/jobs/{job}/end_s/value")).with_context(|| why.to_owned())
}

fn slowdowns(found: &Value) -> Vec<Option<f64>> {
    [0, 1].into_iter().map(|job| number(found, &format!("/jobs/{job}/slowdown/value")).ok()).collect()
}

/// Percent by which `forecast` is off the median of `truths`, and by which it is off beyond their spread.
fn errors(forecast: f64, truths: &[f64]) -> Option<(f64, f64)> {
    let spread = Spread::of(truths.to_vec())?;
    let off = (forecast - spread.median).abs();
    let beyond = (spread.min - forecast).max(forecast - spread.max).max(0.0);
    Some((100.0 * off / spread.median, 100.0 * beyond / spread.median))
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let last: fn(&Ends) -> f64 = |ends| ends.1;
    let first: fn(&Ends) -> f64 = |ends| ends.0;
    let mut rows = Vec::new();
    for (which, of) in [("last", last), ("first", first)] {
        let pairs =
            outcomes.iter().filter_map(|one| errors(of(&one.forecast), &one.truths.iter().map(of).collect::<Vec<_>>()));
        let (off, beyond): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let what = format!("pairs: end of the job that ends {which}");
        let bar = Row::median_at_most(what.clone(), "% off", &off, MEDIAN_PERCENT_MAX);
        rows.push(Row { figures: if which == "last" { figures(outcomes) } else { bar.figures.clone() }, ..bar });
        rows.push(Row::at_most(
            format!("{what}, beyond the runs' own spread"),
            "% off",
            &beyond,
            BEYOND_SPREAD_PERCENT_MAX,
        ));
    }
    let by_seven =
        outcomes.iter().filter_map(|one| errors(one.if_all_stayed, &one.truths.iter().map(last).collect::<Vec<_>>()));
    rows.push(Row::no_bar("pairs: the last one by formula 7", "% off", &by_seven.map(|one| one.0).collect::<Vec<_>>()));
    let points: Vec<f64> =
        outcomes.iter().flat_map(|one| &one.slowdowns).map(|(said, found)| 100.0 * (said - found).abs()).collect();
    let what = "pairs: slowdown predicted before they meet, beside the measured one";
    rows.push(Row::median_at_most(format!("{what}, median"), "points", &points, PREDICTED_POINTS_MEDIAN_MAX));
    rows.push(Row::at_most(format!("{what}, each"), "points", &points, PREDICTED_POINTS_MAX));
    // A job that hardly goes on beside another one has a slowdown of any size: its speed tells how much was wrong.
    let speeds = outcomes.iter().flat_map(|one| &one.slowdowns).map(|(said, found)| (said.recip(), found.recip()));
    let points: Vec<f64> = speeds.map(|(said, found)| 100.0 * (said - found).abs()).collect();
    rows.push(Row::no_bar(format!("{what}, as shares of its speed alone"), "points", &points));
    let met: Vec<f64> = outcomes.iter().flat_map(|one| &one.met).map(|both| 100.0 * (both.0 - both.1).abs()).collect();
    rows.push(Row::no_bar("pairs: slowdown as when they met before, beside the measured one", "points", &met));
    rows.push(better_row(outcomes));
    let short = outcomes.iter().filter_map(|one| one.short);
    let off: Vec<f64> = short.map(|(short, whole)| 100.0 * (short / whole - 1.0).abs()).collect();
    let what = format!("pairs: slowdown from windows of {SHORT} iterations, beside whole runs");
    rows.push(Row::median_at_most(format!("{what}, median"), "% off", &off, SHORT_MEDIAN_PERCENT_MAX));
    rows.push(Row::at_most(format!("{what}, each"), "% off", &off, SHORT_PERCENT_MAX));
    rows
}

/// Progress of a pair together, mean over offsets.
fn progress(outcomes: &[Outcome], pair: [&str; 2], of: fn(&(f64, f64)) -> f64) -> f64 {
    let each: Vec<f64> = outcomes.iter().filter(|one| one.programs == pair).map(|one| of(&one.progress)).collect();
    each.iter().sum::<f64>() / each.len().max(1) as f64
}

/// How often of two partners of a program the one is ranked first that is it, or as good.
fn better_row(outcomes: &[Outcome]) -> Row {
    let mut pairs: Vec<[&str; 2]> = outcomes.iter().map(|one| one.programs).collect();
    pairs.dedup();
    let (mut right, mut asked) = (0, 0);
    for (place, one) in pairs.iter().enumerate() {
        for other in &pairs[place + 1..] {
            if !one.iter().any(|name| other.contains(name)) {
                continue;
            }
            let by = |of: fn(&(f64, f64)) -> f64| progress(outcomes, *one, of) / progress(outcomes, *other, of);
            let (measured, predicted) = (by(|both| both.0), by(|both| both.1));
            asked += 1;
            right += usize::from((predicted > 1.0) == (measured > 1.0) || (measured - 1.0).abs() < AS_GOOD);
        }
    }
    let what = "pairs: the better partner is ranked first";
    if asked == 0 {
        return Row::skipped(what, "no program was measured beside two others");
    }
    Row {
        what: what.to_owned(),
        measured: format!("{right} of {asked}"),
        bar: "9 of 10".to_owned(),
        verdict: Verdict::of(right as f64 >= BETTER_SHARE_MIN * asked as f64),
        figures: json!({ "right": right, "asked": asked, "as_good_share": AS_GOOD }),
    }
}

fn figures(outcomes: &[Outcome]) -> Value {
    let one = |one: &Outcome| {
        json!({
            "pair": one.name,
            "truths_s": one.truths,
            "forecast_s": one.forecast,
            "if_all_stayed_s": one.if_all_stayed,
            "slowdowns_predicted_measured": one.slowdowns,
            "predicted": one.method,
            "slowdowns_met_measured": one.met,
            "slowdown_short_whole": one.short,
            "progress_measured_predicted": one.progress,
        })
    };
    outcomes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_within_the_runs_own_spread_is_not_beyond_it() {
        assert_eq!(errors(10.5, &[9.0, 10.0, 11.0]), Some((5.0, 0.0)));
        assert_eq!(errors(12.0, &[9.0, 10.0, 11.0]), Some((20.0, 10.0)));
        assert_eq!(errors(8.0, &[9.0, 10.0, 11.0]), Some((20.0, 10.0)));
        assert_eq!(errors(8.0, &[]), None);
    }
}
