//! `bench forecast --only routines`: times and memory that `trimtab model fit` and `forecast comp|size` say of sizes that were not
//! run, beside five runs of each.
//!
//! The truth is measured by `model fit` too, as a model of other sizes: its runs are shuffled, repeated where others disturbed
//! them, and timed in the same way. Inside the range errors are judged beyond the spread of the five runs; two and four times beyond
//! it a forecast has to be flagged, and its interval has to hold the median.
//!
//! Next: `testing/specimens/routines` for the programs, `crates/models/routine` for the models.

use super::answer::{answer, number};
use super::attach::Bench;
use super::record::Record;
use super::row::{Row, Verdict};
use super::runner::Spread;
use crate::shell;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_specimens::routine;

/// Runs at each size that is judged.
const TRUTHS: usize = 5;
/// Below this, seconds, an error counts by itself, above it as a share.
const SHORT_S: f64 = 0.1;
/// Bars: percent of the time, milliseconds below [`SHORT_S`], percent of memory.
const MEDIAN_PERCENT_MAX: f64 = 2.0;
const EACH_PERCENT_MAX: f64 = 5.0;
const SHORT_MS_MAX: f64 = 2.0;
const MEMORY_PERCENT_MAX: f64 = 1.0;
/// How many times the largest size that was fitted, and the bar on the median, percent.
const BEYOND: [(f64, f64); 2] = [(2.0, 5.0), (4.0, 13.0)];
/// Where in the range, by ratio, sizes are judged that were not fitted.
const UNSEEN: [f64; 5] = [0.14, 0.37, 0.55, 0.73, 0.92];
/// All runs of a fit, and of a truth, take so long at most, seconds.
const FIT_WITHIN_S: &str = "400";
const TRUTH_WITHIN_S: &str = "900";
const RUN_S: &str = "300";
/// The library that `dgemm` calls, and Debian's package of it.
pub const BLAS: (&str, &str) = ("libopenblas.so.0", "libopenblas0-pthread");
const FFTW: (&str, &str) = ("libfftw3.so.3", "libfftw3-double3");
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// A routine, and the sizes that it is fitted on and judged at.
struct Routine {
    name: &'static str,
    run: String,
    setup: Option<String>,
    fitted: Vec<f64>,
    inside: Vec<f64>,
}

/// A value that was said of a size, and those that came.
struct Told {
    size: f64,
    said: f64,
    lower: f64,
    upper: f64,
    is_flagged: bool,
    came: Vec<f64>,
}

/// All of one routine.
struct Judged {
    name: &'static str,
    inside: Vec<Told>,
    beyond: Vec<Told>,
    memory: Vec<Told>,
    figures: Value,
}

/// Fits and judges all routines.
pub fn run(bench: &Bench, record: &mut Record) -> Result<()> {
    let (mut judged, mut failed) = (Vec::new(), Vec::new());
    let names = ["sort", "fftw", "stream", "dgemm"];
    let is_wanted = |name: &&&str| bench.programs.is_empty() || bench.programs.iter().any(|wanted| wanted == **name);
    for name in names.iter().filter(is_wanted).take(bench.rounds(names.len(), 1)) {
        eprintln!("  routines: {name}");
        match made(bench, name).and_then(|routine| of_routine(bench, &routine)) {
            Ok(one) => {
                record.judge(one.rows());
                judged.push(one);
            }
            Err(error) => failed.push(Row::skipped(format!("routines: {name}"), format!("{error:#}"))),
        }
    }
    record.judge([beyond_rows(&judged), failed].concat());
    Ok(())
}

fn made(bench: &Bench, name: &'static str) -> Result<Routine> {
    let program = |library: Option<PathBuf>| -> Result<String> {
        let words = [Some(routine(name)?), library].into_iter().flatten();
        Ok(words.map(|word| format!("\"{}\"", word.display())).collect::<Vec<_>>().join(" "))
    };
    let of_range = |run: String, least: f64, most: f64, count: usize| {
        let at = |share: f64| (least * (most / least).powf(share)).round();
        let fitted = (0..count).map(|place| at(place as f64 / (count - 1) as f64)).collect();
        Routine { name, run, setup: None, fitted, inside: UNSEEN.map(at).to_vec() }
    };
    let powers = |powers: &[i32]| powers.iter().map(|power| 2.0_f64.powi(*power)).collect::<Vec<_>>();
    Ok(match name {
        "dgemm" => {
            let words = program(Some(library(bench, BLAS)?))?;
            // A thread, so that others on this machine are in its time as little as may be.
            of_range(format!("env OPENBLAS_NUM_THREADS=1 {words} {{n}}"), 300.0, 1600.0, 12)
        }
        "fftw" => Routine {
            run: format!("{} {{n}}", program(Some(library(bench, FFTW)?))?),
            fitted: powers(&[10, 11, 12, 14, 15, 16, 18, 19, 20, 22]),
            inside: powers(&[13, 17, 21]),
            ..of_range(String::new(), 1.0, 2.0, 2)
        },
        "stream" => of_range(format!("{} {{n}}", program(None)?), 100_000.0, 6_400_000.0, 14),
        _ => {
            let file = bench.folder.join("lines.{n}");
            let (file, folder) = (file.display(), bench.folder.display());
            let run = format!("env LC_ALL=C sort --parallel=1 -T \"{folder}\" -o /dev/null \"{file}\"");
            let setup = format!("sh -c \"test -e '{file}' || shuf -i 1-{{n}} >'{file}'\"");
            Routine { setup: Some(setup), ..of_range(run, 100_000.0, 1_600_000.0, 10) }
        }
    })
}

/// A library of Debian's: as it is installed, else from its package, which is unpacked into our folder and changes no program.
pub fn library(bench: &Bench, (file, package): (&str, &str)) -> Result<PathBuf> {
    let installed = Path::new(LIBRARIES).join(file);
    if installed.exists() {
        return Ok(installed);
    }
    let folder = bench.folder.join("libraries");
    std::fs::create_dir_all(&folder).context("cannot create a folder for libraries")?;
    let next = || format!("Next: apt-get install {package}");
    shell::run(Command::new("apt-get").args(["download", package]).current_dir(&folder)).with_context(next)?;
    let unpack = format!("dpkg-deb -x {package}_*.deb .");
    shell::run(Command::new("sh").args(["-c", &unpack]).current_dir(&folder)).with_context(next)?;
    let mut find = Command::new("find");
    find.arg(&folder).args(["-name", file]);
    let found = shell::read(&mut find)?;
    found.lines().next().map(PathBuf::from).with_context(|| format!("{package} has no {file}"))
}

fn of_routine(bench: &Bench, routine: &Routine) -> Result<Judged> {
    let most = routine.fitted.iter().copied().fold(0.0, f64::max);
    let beyond = BEYOND.map(|(times, _)| times * most);
    let fit = fitted(bench, routine, routine.name, &routine.fitted, &["--within", FIT_WITHIN_S])?;
    let truth_name = format!("{}-truth", routine.name);
    let repeat = TRUTHS.to_string();
    let options = ["--repeat", &repeat, "--timeout", RUN_S, "--within", TRUTH_WITHIN_S];
    let sizes = [&routine.inside[..], &beyond].concat();
    let truth = fitted(bench, routine, &truth_name, &sizes, &options)?;
    let told = |asked: &str, sizes: &[f64], kind: &str| -> Result<Vec<Told>> {
        let one = |size: &f64| told(bench, routine.name, asked, *size, runs_at(&truth, *size, kind));
        sizes.iter().map(one).collect::<Result<Vec<_>>>().map(|all| all.into_iter().flatten().collect())
    };
    let kind = if fit["time_is"] == "cpu" { "cpu_s" } else { "wall_s" };
    let disturbed = [&fit, &truth].map(|one| json!([one["disturbed"], one["runs"].as_array().map(Vec::len)]));
    let figures = json!({
        "time_is": fit["time_is"],
        "time": fit["time"],
        "memory": fit["memory"],
        "disturbed_of_runs": disturbed,
    });
    Ok(Judged {
        name: routine.name,
        inside: told("comp", &routine.inside, kind)?,
        beyond: told("comp", &beyond, kind)?,
        memory: told("size", &routine.inside, "memory_bytes")?,
        figures,
    })
}

fn fitted(bench: &Bench, routine: &Routine, name: &str, sizes: &[f64], options: &[&str]) -> Result<Value> {
    let over: Vec<String> = sizes.iter().map(f64::to_string).collect();
    let over = format!("n={}", over.join(","));
    let mut words: Vec<&str> = vec!["model", "fit", name, "--run", &routine.run, "--over", &over];
    words.extend(routine.setup.iter().flat_map(|setup| ["--setup", setup]));
    words.extend(options);
    answer(bench, &words.into_iter().map(str::to_owned).collect::<Vec<_>>())
}

/// Values of the runs at one size: of time those that nobody disturbed, unless all were.
fn runs_at(fit: &Value, size: f64, kind: &str) -> Vec<f64> {
    let runs: Vec<&Value> =
        fit["runs"].as_array().into_iter().flatten().filter(|run| run["at"][0].as_f64() == Some(size)).collect();
    let quiet = || runs.iter().filter(|run| kind != "wall_s" || run["disturbed"] == json!(false));
    let values = |all: &mut dyn Iterator<Item = &&Value>| all.filter_map(|run| run[kind].as_f64()).collect::<Vec<_>>();
    let undisturbed = values(&mut quiet());
    if undisturbed.is_empty() { values(&mut runs.iter()) } else { undisturbed }
}

/// The forecast of one size; `None`: it was never run, or no value of it is known.
fn told(bench: &Bench, name: &str, asked: &str, size: f64, came: Vec<f64>) -> Result<Option<Told>> {
    if came.is_empty() {
        return Ok(None);
    }
    let words = ["forecast", asked, name, "--args", &format!("n={size}")].map(str::to_owned);
    let found = answer(bench, &words)?;
    let why = || found["no_claim"].as_str().unwrap_or("no value is said").to_owned();
    Ok(Some(Told {
        size,
        said: number(&found, "/value").with_context(why)?,
        lower: number(&found, "/lower")?,
        upper: number(&found, "/upper")?,
        is_flagged: found["outside"] == json!(true),
        came,
    }))
}

impl Told {
    fn spread(&self) -> Option<Spread> {
        Spread::of(self.came.clone())
    }

    fn median(&self) -> f64 {
        self.spread().map_or(f64::NAN, |spread| spread.median)
    }

    /// How far it is off the median, percent of that.
    fn off_percent(&self) -> f64 {
        100.0 * (self.said / self.median() - 1.0).abs()
    }

    /// How far it is outside of all that came.
    fn beyond_spread(&self) -> f64 {
        self.spread().map_or(f64::NAN, |spread| (spread.min - self.said).max(self.said - spread.max).max(0.0))
    }

    fn is_covered(&self) -> bool {
        (self.lower..=self.upper).contains(&self.median())
    }

    fn to_json(&self) -> Value {
        json!({ "size": self.size, "said": self.said, "lower": self.lower, "upper": self.upper,
                "flagged": self.is_flagged, "came": self.came })
    }
}

impl Judged {
    fn rows(&self) -> Vec<Row> {
        let what = |what: &str| format!("routines: {}, {what}", self.name);
        let (long, short): (Vec<&Told>, Vec<&Told>) = self.inside.iter().partition(|told| told.median() >= SHORT_S);
        let all = |told: &[&Told], of: fn(&Told) -> f64| told.iter().map(|told| of(told)).collect::<Vec<f64>>();
        let spread =
            |told: &Told| told.spread().map_or(0.0, |spread| 100.0 * (spread.max - spread.min) / spread.median);
        let percent: fn(&Told) -> f64 = |told| 100.0 * told.beyond_spread() / told.median();
        let inside: Vec<&Told> = self.inside.iter().collect();
        let memory: Vec<f64> = self.memory.iter().map(Told::off_percent).collect();
        let raw = Row::no_bar(
            what("unseen sizes of 0.1 s and more, off the median"),
            "% off",
            &all(&long, Told::off_percent),
        );
        let beyond = all(&long, percent);
        vec![
            Row { figures: self.all_figures(), ..raw },
            Row::median_at_most(what("beyond the runs' own spread, median"), "% off", &beyond, MEDIAN_PERCENT_MAX),
            Row::at_most(what("beyond the runs' own spread"), "% off", &beyond, EACH_PERCENT_MAX),
            Row::at_most(
                what("unseen sizes below 0.1 s, beyond the runs' own spread"),
                "ms off",
                &all(&short, |told| 1e3 * told.beyond_spread()),
                SHORT_MS_MAX,
            ),
            Row::at_most(what("memory"), "% off", &memory, MEMORY_PERCENT_MAX),
            Row::no_bar(what("spread of the five runs"), "% of the median", &all(&inside, spread)),
            self.covered(what("90% intervals inside the range hold the median"), &self.inside, false),
            self.covered(what("beyond it they are flagged and hold it"), &self.beyond, true),
        ]
    }

    fn all_figures(&self) -> Value {
        let told = |all: &[Told]| all.iter().map(Told::to_json).collect::<Vec<_>>();
        json!({ "inside": told(&self.inside), "beyond": told(&self.beyond), "memory": told(&self.memory),
                "model": self.figures })
    }

    fn covered(&self, what: String, told: &[Told], is_outside: bool) -> Row {
        let held = told.iter().filter(|told| told.is_covered() && told.is_flagged == is_outside).count();
        let verdict = if is_outside { Verdict::of(held == told.len() && held > 0) } else { Verdict::NoBar };
        let bar = if is_outside { "all".to_owned() } else { String::new() };
        Row { what, measured: format!("{held} of {}", told.len()), bar, verdict, figures: Value::Null }
    }
}

/// Errors beyond the range, over all routines.
fn beyond_rows(judged: &[Judged]) -> Vec<Row> {
    let row = |(place, (times, bar)): (usize, &(f64, f64))| {
        let off: Vec<f64> = judged.iter().filter_map(|one| one.beyond.get(place)).map(Told::off_percent).collect();
        Row::median_at_most(format!("routines: {times} times the largest size that was fitted"), "% off", &off, *bar)
    };
    BEYOND.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_others_disturbed_are_the_truth_only_where_there_are_no_others() {
        let run = |at: f64, wall_s: f64, disturbed: bool| json!({ "at": [at], "wall_s": wall_s, "cpu_s": 1.0, "disturbed": disturbed });
        let fit = json!({ "runs": [run(1.0, 2.0, false), run(1.0, 9.0, true), run(2.0, 7.0, true)] });
        assert_eq!(runs_at(&fit, 1.0, "wall_s"), [2.0]);
        assert_eq!(runs_at(&fit, 2.0, "wall_s"), [7.0]);
        assert_eq!(runs_at(&fit, 1.0, "cpu_s"), [1.0, 1.0]);
        assert!(runs_at(&fit, 3.0, "wall_s").is_empty());
    }

    #[test]
    fn an_error_counts_beyond_the_spread_of_what_came() {
        let told = |said: f64| Told {
            size: 1.0,
            said,
            lower: 0.9 * said,
            upper: 1.1 * said,
            is_flagged: false,
            came: vec![9.0, 10.0, 11.0],
        };
        let close = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(close(told(10.5).off_percent(), 5.0) && told(10.5).beyond_spread() == 0.0 && told(10.5).is_covered());
        assert!(
            close(told(12.0).beyond_spread(), 1.0) && close(told(8.0).beyond_spread(), 1.0) && !told(12.0).is_covered()
        );
    }
}
