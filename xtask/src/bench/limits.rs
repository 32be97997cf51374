//! The cost of a window whose function is called without end: its probes stop by themselves and are taken out.
//!
//! A fresh process calls a function of ten nanoseconds again and again and prints what a call costs, on the average, line by
//! line. The lines from the moment in which `trimtab attach` puts its probes in until two seconds later are compared with
//! those before and behind the window. All lines hold equally many calls, so the mean over lines is time by calls.
//!
//! Next: `tiny`, which is measured; `trimtab-stub`'s `limits`, which stops.

use super::attach::{Bench, START_LIMIT};
use super::row::Row;
use super::runner::{Measured, Series};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use trimtab_specimens::{Launch, Running, TextSnapshot};
use trimtab_types::report::Report;

/// Share of the time, percent.
const COST_PERCENT_BAR: f64 = 5.0;
const WINDOW: Duration = Duration::from_secs(2);
/// Beside the window, each side.
const BESIDE: Duration = Duration::from_secs(1);
const FUNCTION: &str = "ten";
/// Makes a rank of a job of whatever it is loaded into: only ranks have windows.
const RANK: &str = "#include <mpi.h>\n__attribute__((constructor)) static void begin(void) { MPI_Init(0, 0); }\n";
/// Chunks of 2000 calls in a line: some milliseconds.
const CHUNKS: &str = "100";

/// The row about the limit, with the samples behind it.
pub fn rows(bench: &Bench) -> Result<(Measured, Vec<Row>)> {
    let rounds: Vec<Round> = (0..bench.rounds(10, 3)).map(|_| round(bench)).collect::<Result<_>>()?;
    let series =
        |name: &str, of: fn(&Round) -> f64| Series { name: name.into(), samples: rounds.iter().map(of).collect() };
    let series = vec![
        series("not measured", |round| round.bare_ns),
        series("in a window of 2 s whose probes stop", |round| round.limited_ns),
        series("in a window of 2 s that may cost what it likes", |round| round.unlimited_ns),
    ];
    let cost: Vec<f64> = rounds.iter().map(|round| (round.limited_ns / round.bare_ns - 1.0) * 100.0).collect();
    let without: Vec<f64> = rounds.iter().map(|round| (round.unlimited_ns / round.bare_ns - 1.0) * 100.0).collect();
    let rows = vec![
        Row::at_most("a function of 10 ns called without end, window of 2 s: cost", "%", &cost, COST_PERCENT_BAR),
        Row::no_bar("the same without a limit (--max-cost 1000000)", "%", &without),
    ];
    Ok((Measured { title: "one call of a function of ten nanoseconds".into(), unit: "ns", series }, rows))
}

struct Round {
    bare_ns: f64,
    limited_ns: f64,
    unlimited_ns: f64,
}

fn round(bench: &Bench) -> Result<Round> {
    let program = super::tiny::program()?;
    let launch = Launch::alone(&program).preload(&rank(bench)?).args([
        "--seconds",
        "600",
        "--chunks",
        CHUNKS,
        "--kind",
        FUNCTION,
    ]);
    let mut running = launch.start()?;
    running.wait_for_output(&format!("tiny: {FUNCTION}"), START_LIMIT)?;
    let text = TextSnapshot::of(running.pid())?;
    let before = lines_for(&running, BESIDE)?;
    let limited_ns = window(bench, &running, &text, &[])?;
    let between = lines_for(&running, BESIDE)?;
    let unlimited_ns = window(bench, &running, &text, &["--max-cost", "1000000"])?;
    let difference = text.difference_now()?;
    ensure!(difference.is_none(), "text was not restored: {difference:?}");
    Ok(Round { bare_ns: (before + between) / 2.0, limited_ns, unlimited_ns })
}

/// The library to load beside the program, built if it is not there.
fn rank(bench: &Bench) -> Result<PathBuf> {
    let (source, library) = (bench.folder.join("rank.c"), bench.folder.join("rank.so"));
    if !library.exists() {
        std::fs::write(&source, RANK).context("the bench's folder can't be written to")?;
        let mut compiler = Command::new("mpicc.mpich");
        let built = compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
        ensure!(built.context("no mpicc.mpich; install libmpich-dev")?.success(), "rank.c can't be compiled");
    }
    Ok(library)
}

/// Nanoseconds of a call in the two seconds from the first probe on.
fn window(bench: &Bench, running: &Running, text: &TextSnapshot, options: &[&str]) -> Result<f64> {
    let json = bench.folder.join("limits.json");
    let mut command = Command::new(bench.binary("trimtab"));
    command.arg("--store").arg(bench.folder.join("store.db")).args(["attach", "--function", FUNCTION]);
    command.args(["--max-seconds", "3"]).args(options).arg("--json").arg(&json).arg(running.pid().to_string());
    command.env("XDG_CACHE_HOME", bench.folder.join("cache")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut attach = command.spawn().context("trimtab does not start")?;
    let begun = patched(text)?;
    let from = running.stdout().len();
    sleep(WINDOW.saturating_sub(begun.elapsed()));
    let mean_ns = mean_of(&running.stdout()[from..])?;
    attach.wait()?;
    let report = std::fs::read_to_string(&json).context("trimtab wrote no report")?;
    let report: Report = serde_json::from_str(&report).context("the report is not JSON")?;
    let is_out = report.warnings.iter().any(|warning| warning.contains("stopped counting"));
    ensure!(is_out == options.is_empty(), "the probes stop if they may not cost more: {:?}", report.warnings);
    Ok(mean_ns)
}

/// The moment in which there is a patch.
fn patched(text: &TextSnapshot) -> Result<Instant> {
    let deadline = Instant::now() + START_LIMIT;
    while text.difference_now()?.is_none() {
        ensure!(Instant::now() < deadline, "no probe came in {} s", START_LIMIT.as_secs());
        sleep(Duration::from_millis(1));
    }
    Ok(Instant::now())
}

fn lines_for(running: &Running, time: Duration) -> Result<f64> {
    let from = running.stdout().len();
    sleep(time);
    mean_of(&running.stdout()[from..])
}

/// Mean of `tiny: KIND min NS median NS calls N mean NS` over whole lines, nanoseconds.
fn mean_of(text: &str) -> Result<f64> {
    let lines = text.split_inclusive('\n').filter(|line| line.starts_with("tiny: ") && line.ends_with('\n'));
    let means: Vec<f64> = lines.filter_map(|line| line.trim().rsplit_once(" mean ")?.1.parse().ok()).collect();
    ensure!(!means.is_empty(), "tiny printed nothing");
    Ok(means.iter().sum::<f64>() / means.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::mean_of;

    #[test]
    fn whole_lines_are_averaged() {
        let text = "n 2.0\ntiny: ten min 1.0 median 1.5 calls 10 mean 2.0\ntiny: ten min 1.0 median 1.5 calls 10 mean 4.0\n\
                    tiny: ten min 1.0 median 1.5 calls 10 mean 9";
        assert!((mean_of(text).expect("lines") - 3.0).abs() < 1e-9);
        assert!(mean_of("tiny: te").is_err());
    }
}
