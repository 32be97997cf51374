//! `bench forecast`: forecasts beside what happened, as `trimtab` itself answers them.
//!
//! Recorded series and logs of jobs are the user's (`--series FOLDER`, `--jobs FILE`): none lie in the project. Jobs that share
//! processors are specimens, run here.
//!
//! Next: `corun` for jobs that share processors, `routines` for sizes that were not run, `product` for a plan that is done, `answers` for the time of a question; docs/forecasts.md for the commands.

use super::answer::{answer, number};
use super::answers;
use super::attach::Bench;
use super::corun;
use super::part::Part;
use super::product;
use super::record::Record;
use super::routines;
use super::row::{Row, Verdict};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Bars on the mixture's mean error over the best single forecaster's, known afterwards.
const OVER_BEST_MEDIAN_MAX: f64 = 1.0;
const OVER_BEST_MAX: f64 = 1.035;
/// Intervals of so much hold as much, within so many points.
const SHARE_WANTED: f64 = 0.9;
const SHARE_OFF_MAX: f64 = 0.01;
/// History is better than the last two jobs of the same user by so many points.
const OVER_LAST_TWO_POINTS_MIN: f64 = 5.0;

/// Recordings that the user gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recordings {
    /// A folder of `timestamp,value` files.
    pub series: Option<PathBuf>,
    /// Logs of jobs.
    pub logs: Vec<PathBuf>,
}

/// Measures, prints and keeps everything, or one part.
pub fn run(bench: &Bench, recordings: &Recordings, only: Option<Part>, record: &mut Record) -> Result<()> {
    let is_wanted = |part: Part| only.is_none_or(|only| only == part);
    if is_wanted(Part::Series) {
        record.judge(match &recordings.series {
            Some(folder) => series_rows(bench, folder)?,
            None => {
                vec![Row::skipped("series: recorded values, one step ahead", "no recordings: give --series FOLDER")]
            }
        });
    }
    if is_wanted(Part::Jobs) {
        let missing = || Row::skipped("jobs: run times from history alone", "no log: give --jobs FILE");
        let rows: Vec<Row> =
            recordings.logs.iter().map(|log| log_rows(bench, log)).collect::<Result<Vec<_>>>()?.concat();
        record.judge(if rows.is_empty() { vec![missing()] } else { rows });
    }
    if is_wanted(Part::Routines) {
        routines::run(bench, record)?;
    }
    if is_wanted(Part::Product) {
        product::run(bench, record)?;
    }
    if is_wanted(Part::Answers) {
        answers::run(bench, record)?;
    }
    if is_wanted(Part::Pairs) {
        corun::run(bench, record)?;
    }
    Ok(())
}

fn words(words: &[&str], file: &Path) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).chain([file.display().to_string()]).collect()
}

/// The outcome of one series' second half.
struct Judged {
    name: String,
    over_best: f64,
    published_over_best: f64,
    share: f64,
    score_over_plain: f64,
}

fn series_rows(bench: &Bench, folder: &Path) -> Result<Vec<Row>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "csv"));
    files.sort();
    let (mut judged, mut left_out) = (Vec::new(), Vec::new());
    for file in &files {
        eprintln!("  series: {}", file.display());
        match one_series(bench, file) {
            Ok(one) => judged.push(one),
            // A log of jobs may lie beside them.
            Err(error) => left_out.push(format!("{}: {error:#}", file.display())),
        }
    }
    if judged.is_empty() {
        bail!("no series of `timestamp,value` lines in {}: {}", folder.display(), left_out.join("; "));
    }
    Ok(rows_of(&judged, &left_out))
}

fn one_series(bench: &Bench, file: &Path) -> Result<Judged> {
    let found = answer(bench, &words(&["backtest", "--from", "half", "--series"], file))?;
    let best = number(&found, "/forecasters/0/error_mean")?;
    let plain = number(&found, "/plain_interval/score")?;
    Ok(Judged {
        name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        over_best: number(&found, "/mixture_over_best")?,
        published_over_best: number(&found, "/published/error_mean")? / best,
        share: number(&found, "/interval/share")?,
        score_over_plain: number(&found, "/interval/score")? / plain,
    })
}

fn rows_of(judged: &[Judged], left_out: &[String]) -> Vec<Row> {
    let of = |figure: fn(&Judged) -> f64| judged.iter().map(figure).collect::<Vec<_>>();
    let over_best = of(|one| one.over_best);
    let better = over_best.iter().filter(|ratio| **ratio < 1.0).count();
    let count = judged.len();
    let half = Row {
        what: "series: better than the best single forecaster".to_owned(),
        measured: format!("{better} of {count} series"),
        bar: "on half of them".to_owned(),
        verdict: Verdict::of(2 * better >= count),
        figures: json!({
            "series": judged.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "left_out": left_out,
        }),
    };
    let off = of(|one| (one.share - SHARE_WANTED).abs());
    vec![
        Row::median_at_most(
            "series: mixture over the best single one, median",
            "times",
            &over_best,
            OVER_BEST_MEDIAN_MAX,
        ),
        Row::at_most("series: mixture over the best single one, each", "times", &over_best, OVER_BEST_MAX),
        half,
        Row::no_bar("series: the published rule over the best single one", "times", &of(|one| one.published_over_best)),
        Row::at_most("series: 90% intervals, off in share", "of 1", &off, SHARE_OFF_MAX),
        Row::at_most("series: interval score over the plain quantile's", "times", &of(|one| one.score_over_plain), 1.0),
    ]
}

fn log_rows(bench: &Bench, log: &Path) -> Result<Vec<Row>> {
    eprintln!("  jobs: {}", log.display());
    let found = answer(bench, &words(&["backtest", "--leave-out-wrong", "--jobs"], log))?;
    let name = log.file_stem().unwrap_or_default().to_string_lossy();
    let row = |what: &str, pointer: &str, least: f64| -> Result<Row> {
        let points = number(&found, pointer)?;
        Ok(Row {
            what: format!("jobs, {name}: history over {what}"),
            measured: format!("{points:.1} points better, of {} jobs", number(&found, "/judged")?),
            bar: if least > 0.0 { format!("{least} points") } else { "better".to_owned() },
            verdict: Verdict::of(points > least),
            figures: json!({ "points": points, "accuracy": number(&found, "/history/accuracy")? }),
        })
    };
    Ok(vec![
        row("the mean of the same user's last two jobs", "/over_last_two_points", OVER_LAST_TWO_POINTS_MIN)?,
        row("the best simple rule", "/over_best_rule_points", 0.0)?,
    ])
}
