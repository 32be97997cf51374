//! `bench forecast --only pairs`: two specimens share both cores, and `trimtab forecast corun` says when each ends.
//!
//! The truth is the median of runs that nobody looks at, taken in turns with the one that is forecast. Errors are shares of the
//! time from the first job's start, as in ScoPro's tables 7a and 7b.
//!
//! Next: `crates/models/corun` for the formulas.

use super::answer::{answer, number};
use super::attach::{Bench, RANK_COUNT, START_LIMIT};
use super::record::Record;
use super::row::Row;
use super::runner::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trimtab_specimens::{Launch, Mpi, Running, Variant, build};

/// A job by itself lasts about so long.
const ALONE_S: f64 = 12.0;
/// The second job begins after these shares of that.
const OFFSETS: [f64; 3] = [0.0, 0.25, 0.5];
/// Runs that nobody looks at, for each pair and offset.
const TRUTHS: usize = 5;
/// Iterations by which the time of one is known.
const TRIAL_ITERATIONS: u32 = 150;
/// A job that is looked at by itself, and from the second job's start to the first look.
const SETTLE: Duration = Duration::from_millis(1500);
const LOOK_EVERY: Duration = Duration::from_millis(2);
const RUN_LIMIT: Duration = Duration::from_secs(180);
/// Windows of a pair take so long at most, seconds.
const WITHIN_S: &str = "5";
/// Bars, percent of the time; and points of slowdown.
const MEDIAN_PERCENT_MAX: f64 = 2.0;
const BEYOND_SPREAD_PERCENT_MAX: f64 = 5.0;
const PREDICTED_POINTS_MEDIAN_MAX: f64 = 3.0;
const PREDICTED_POINTS_MAX: f64 = 8.0;
const QUICK: (usize, usize, usize) = (2, 1, 3);

/// A program and its options, by which an iteration takes some milliseconds.
type Side = (&'static str, &'static [&'static str]);

const HEAT: Side = ("heat", &["--size", "60000"]);
const CG: Side = ("cg", &["--size", "6000"]);
const FFT: Side = ("fft", &["--size", "256"]);
const IS: Side = ("is", &["--size", "200000"]);
const EP: Side = ("ep", &["--every", "1", "--size", "400000"]);
const PARTICLE: Side = ("particle", &["--size", "128", "--particles", "100000"]);
const PAIRS: [(Side, Side); 6] = [(HEAT, CG), (CG, FFT), (FFT, IS), (IS, EP), (EP, PARTICLE), (PARTICLE, HEAT)];

/// A job whose run by itself is known.
struct Known {
    name: &'static str,
    launch: Launch,
    /// The report of a window alone.
    alone: PathBuf,
}

/// When both ended, seconds from the first one's start: the one that ended first, and last.
type Ends = (f64, f64);

/// One pair and offset.
struct Outcome {
    name: String,
    truths: Vec<Ends>,
    forecast: Ends,
    /// By formula 7, of the one that ends last.
    if_all_stayed: f64,
    /// Predicted and measured slowdown of each job.
    slowdowns: Vec<(f64, f64)>,
}

/// Measures all pairs.
pub fn run(bench: &Bench, record: &mut Record) -> Result<()> {
    let (pairs, offsets, truths) = if bench.quick { QUICK } else { (PAIRS.len(), OFFSETS.len(), TRUTHS) };
    let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
    for (first, second) in PAIRS.iter().take(pairs) {
        let pair = known(bench, *first, "a").and_then(|a| Ok((a, known(bench, *second, "b")?)));
        let (a, b) = match pair {
            Ok(pair) => pair,
            Err(error) => {
                failed.push(Row::skipped(format!("pairs: {} and {}", first.0, second.0), format!("{error:#}")));
                continue;
            }
        };
        for offset in OFFSETS.iter().rev().take(offsets) {
            let name = format!("{} and {} after {:.0}%", a.name, b.name, offset * 100.0);
            eprintln!("  pairs: {name}");
            match outcome(bench, &a, &b, offset * ALONE_S, truths) {
                Ok(found) => outcomes.push(Outcome { name, ..found }),
                Err(error) => failed.push(Row::skipped(format!("pairs: {name}"), format!("{error:#}"))),
            }
        }
    }
    record.judge(rows(&outcomes));
    record.judge(failed);
    Ok(())
}

/// Finds how many iterations last [`ALONE_S`], and measures a window of the job by itself.
fn known(bench: &Bench, (name, options): Side, letter: &str) -> Result<Known> {
    let program = build(name, Some(Mpi::OpenMpi), &Variant::default())?;
    let launch = |iterations: u32| {
        Launch::mpi(Mpi::OpenMpi, RANK_COUNT, &program).args(options).args(["--iterations", &iterations.to_string()])
    };
    let spent_s = |iterations: u32| -> Result<f64> {
        let begun = Instant::now();
        ensure!(launch(iterations).run(RUN_LIMIT)?.status.success(), "{name} failed by itself");
        Ok(begun.elapsed().as_secs_f64())
    };
    // The difference is free of start and end.
    let each_s = (spent_s(2 * TRIAL_ITERATIONS)? - spent_s(TRIAL_ITERATIONS)?) / f64::from(TRIAL_ITERATIONS);
    ensure!(each_s > 0.0, "an iteration of {name} is too short to be timed");
    let launch = launch((ALONE_S / each_s).ceil() as u32);
    let alone = bench.folder.join(format!("{letter}.json"));
    let mut running = launch.start()?;
    running.rank_pids(START_LIMIT)?;
    sleep(SETTLE);
    let words = ["attach".to_owned(), running.pid().to_string()];
    std::fs::write(&alone, answer(bench, &words)?.to_string()).context("cannot keep a report")?;
    running.wait(RUN_LIMIT)?;
    Ok(Known { name, launch, alone })
}

fn outcome(bench: &Bench, a: &Known, b: &Known, offset_s: f64, count: usize) -> Result<Outcome> {
    let mut truths = Vec::new();
    let mut forecast = None;
    for turn in 0..count {
        truths.push(together(a, b, offset_s, |_, _, _| Ok(()))?.0);
        // In the midst of the others, so that a machine that drifts is on neither side.
        if turn == count / 2 {
            forecast = Some(together(a, b, offset_s, |a, b, begun_unix_s| asked(bench, a, b, begun_unix_s))?.1);
        }
    }
    let (forecast, if_all_stayed, measured) = forecast.context("no run was forecast")?;
    let words = ["forecast", "corun"].map(str::to_owned).into_iter();
    let files = [a, b].map(|known| known.alone.display().to_string());
    let predicted = slowdowns(&answer(bench, &words.chain(files).collect::<Vec<_>>())?)?;
    let slowdowns = predicted.into_iter().zip(measured).collect();
    Ok(Outcome { name: String::new(), truths, forecast, if_all_stayed, slowdowns })
}

/// Runs both, and does something once both are at work.
fn together<T>(
    a: &Known,
    b: &Known,
    offset_s: f64,
    then: impl FnOnce(&Running, &Running, f64) -> Result<T>,
) -> Result<(Ends, T)> {
    let (begun, begun_unix_s) = (Instant::now(), unix_s()?);
    let mut first = a.launch.start()?;
    sleep(Duration::from_secs_f64(offset_s).saturating_sub(begun.elapsed()));
    let mut second = b.launch.start()?;
    second.rank_pids(START_LIMIT)?;
    first.rank_pids(START_LIMIT)?;
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
    let ends = [first_s, second_s].map(Option::unwrap_or_default);
    Ok(((ends[0].min(ends[1]), ends[0].max(ends[1])), found))
}

fn unix_s() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_secs_f64())
}

/// The forecast of both ends, the last one's by formula 7, and the measured slowdowns.
fn asked(bench: &Bench, a: &Running, b: &Running, begun_unix_s: f64) -> Result<(Ends, f64, Vec<f64>)> {
    let words = ["forecast", "corun", "--within", WITHIN_S].map(str::to_owned).into_iter();
    let jobs = [a, b].map(|running| running.pid().to_string());
    let alone = ["a", "b"].map(|letter| {
        let file = bench.folder.join(format!("{letter}.json"));
        format!("--alone={}={}", letter.to_uppercase(), file.display())
    });
    let found = answer(bench, &words.chain(jobs).chain(alone).collect::<Vec<_>>())?;
    let since_s = number(&found, "/made_unix_s")? - begun_unix_s;
    let ends = [0, 1].map(|job| end_of(&found, job).map(|end_s| end_s + since_s));
    let [first, second] = ends;
    let (first, second) = (first?, second?);
    let stayed =
        [0, 1].map(|job| number(&found, &format!("/jobs/{job}/end_if_all_stayed_s")).map(|end_s| end_s + since_s));
    let [stayed_first, stayed_second] = stayed;
    let if_all_stayed = stayed_first?.max(stayed_second?);
    Ok(((first.min(second), first.max(second)), if_all_stayed, slowdowns(&found)?))
}

/// When a job ends, seconds from the forecast.
fn end_of(found: &Value, job: usize) -> Result<f64> {
    let why = found.pointer(&format!("/jobs/{job}/no_end")).and_then(Value::as_str).unwrap_or("no end is claimed");
    number(found, &format!("/jobs/{job}/end_s/value")).with_context(|| why.to_owned())
}

fn slowdowns(found: &Value) -> Result<Vec<f64>> {
    [0, 1].into_iter().map(|job| number(found, &format!("/jobs/{job}/slowdown/value"))).collect()
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
    rows
}

fn figures(outcomes: &[Outcome]) -> Value {
    let one = |one: &Outcome| {
        json!({
            "pair": one.name,
            "truths_s": one.truths,
            "forecast_s": one.forecast,
            "if_all_stayed_s": one.if_all_stayed,
            "slowdowns_predicted_measured": one.slowdowns,
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
