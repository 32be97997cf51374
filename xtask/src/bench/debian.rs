//! Six programs of Debian's that are no part of any test of ours: two windows of each while it works, beside a profiler of
//! all MPI calls in the very same seconds, and its results beside those of a run that nobody disturbed.
//!
//! The profiler is preloaded, so calls reach the MPI library through it: whoever finds the functions must find the
//! library's, and what counts iterations is seen from one place per function (docs/report.md). Windows are ended by
//! time, so that they hold some seconds of whatever the program does just then.
//!
//! Next: `testing/specimens/groundtruth/trace.c` for the profiler, `real` for programs that say something of themselves.

use super::attach::{Bench, RANK_COUNT};
use super::row::{Row, Verdict};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use trimtab_specimens::{CallTrace, Finished, Launch, Mpi};
use trimtab_types::report::{FunctionGroup, Report};

/// How far a window's share of communication may be from the profiler's, of 100.
const POINTS_BAR: f64 = 1.0;
/// Longest time for a run; it hangs if it takes longer.
const RUN_LIMIT: Duration = Duration::from_secs(240);
/// From the program's start until it has loaded its libraries, from then to its first window, and from the end of one to
/// the next.
const BETWEEN: Duration = Duration::from_secs(2);
/// Windows of a run.
const WINDOWS: usize = 2;
/// More iterations than any of them makes meanwhile: windows end by time.
const OPTIONS: [&str; 4] = ["--iterations", "1000000", "--max-seconds", "6"];

/// A program at work.
struct Case {
    name: &'static str,
    /// To install where it lacks.
    package: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
    /// Commands that make its input of the files.
    prepare: &'static [&'static [&'static str]],
    results: Results,
}

/// Where a program's results are, without what depends on time.
enum Results {
    /// Lines of standard output that begin with this.
    Lines(&'static str),
    /// A file it writes: so many words of each line.
    File(&'static str, usize),
}

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../testing/torture/programs/", $name)))
    };
}

const CASES: [Case; 6] = [
    Case {
        name: "mpb",
        package: "mpb-mpi",
        program: "/usr/bin/mpb-mpi",
        arguments: &["mpb.ctl"],
        files: &[file!("mpb.ctl")],
        prepare: &[],
        results: Results::Lines("freqs:"),
    },
    Case {
        name: "meep",
        package: "meep-mpi-default",
        program: "/usr/bin/meep",
        arguments: &["meep.ctl"],
        files: &[file!("meep.ctl")],
        prepare: &[],
        results: Results::Lines("ez "),
    },
    Case {
        name: "gromacs",
        package: "gromacs",
        program: "/usr/bin/gmx_mpi",
        arguments: &["mdrun", "-s", "topol.tpr", "-ntomp", "1", "-reprod", "-notunepme", "-dlb", "no"],
        files: &[file!("md.mdp"), file!("topol.top")],
        prepare: &[
            &["solvate", "-cs", "spc216", "-box", "3.7", "3.7", "3.7", "-o", "conf.gro", "-p", "topol.top"],
            &["grompp", "-f", "md.mdp", "-c", "conf.gro", "-p", "topol.top", "-o", "topol.tpr"],
        ],
        results: Results::File("confout.gro", 9),
    },
    Case {
        name: "cp2k",
        package: "cp2k",
        program: "/usr/bin/cp2k.psmp",
        arguments: &["-i", "cp2k.inp"],
        files: &[file!("cp2k.inp")],
        prepare: &[],
        // The last column is the time it took.
        results: Results::File("cp2k-1.ener", 6),
    },
    Case {
        name: "abinit",
        package: "abinit",
        program: "/usr/bin/abinit",
        arguments: &["abinit.abi"],
        files: &[file!("abinit.abi"), file!("silicon.pz.gth")],
        prepare: &[],
        results: Results::Lines(" ETOT"),
    },
    Case {
        name: "quantum-espresso",
        package: "quantum-espresso",
        program: "/usr/bin/pw.x",
        arguments: &["-in", "pw.in"],
        files: &[file!("pw.in"), file!("silicon.pz.gth")],
        prepare: &[],
        results: Results::Lines("!    total energy"),
    },
];
const QUICK_CASES: usize = 1;

/// One window beside the profiler.
struct Pair {
    report: Report,
    /// Share of each rank, in percent: the window's, and the profiler's in the same seconds without what the probes took.
    percent: Vec<(f64, f64)>,
    /// Time of each rank in probes, in percent, as its report says.
    probes_percent: Vec<f64>,
}

impl Pair {
    fn mean(&self, which: impl Fn(&(f64, f64)) -> f64) -> f64 {
        self.percent.iter().map(which).sum::<f64>() / self.percent.len().max(1) as f64
    }

    fn off_points(&self) -> f64 {
        (self.mean(|pair| pair.0) - self.mean(|pair| pair.1)).abs()
    }

    /// The window's and the profiler's, in percent.
    fn efficiencies(&self) -> Option<[(f64, f64); 3]> {
        let found = self.report.efficiencies.as_ref()?;
        let useful: Vec<f64> = self.percent.iter().map(|(_, profiled)| 100.0 - profiled).collect();
        let (mean, largest) =
            (useful.iter().sum::<f64>() / useful.len() as f64, useful.iter().copied().fold(0.0, f64::max));
        let percent = |share: f64| 100.0 * share;
        Some([
            (percent(found.parallel), mean),
            (percent(found.load_balance), percent(mean / largest)),
            (percent(found.communication), largest),
        ])
    }

    fn words(&self) -> String {
        let (share, profiled) = (self.mean(|pair| pair.0), self.mean(|pair| pair.1));
        format!("{share:.2}% ({profiled:.2}%) of {:.1} s", self.report.window.duration_s)
    }

    fn figures(&self) -> Value {
        let window = &self.report.window;
        json!({ "duration_s": window.duration_s, "percent_and_profiled_percent": self.percent,
                "probes_percent": self.probes_percent, "marker": window.marker,
                "loop": window.loop_description, "iterations": window.iterations, "valid": window.valid,
                "ended_by": window.ended_by, "warnings": self.report.warnings,
                "cost": self.report.cost.fraction, "off_points": self.off_points() })
    }
}

/// The rows about these programs.
pub fn rows(bench: &Bench) -> Vec<Row> {
    let is_wanted = |case: &&Case| bench.programs.is_empty() || bench.programs.iter().any(|name| name == case.name);
    let cases = CASES.iter().filter(is_wanted).take(bench.rounds(CASES.len(), QUICK_CASES));
    cases.flat_map(|case| rows_of(bench, case)).collect()
}

fn rows_of(bench: &Bench, case: &Case) -> Vec<Row> {
    let what = format!("{}, Open MPI", case.name);
    if !Path::new(case.program).exists() {
        let next = format!("{} is not there. Next: apt-get install {}", case.program, case.package);
        return vec![Row::skipped(what, next)];
    }
    eprintln!("  beside a profiler: {what}");
    measured(bench, case).unwrap_or_else(|error| {
        let failed = Row::skipped(format!("{what}: a run failed"), format!("{error:#}"));
        vec![Row { verdict: Verdict::Missed, ..failed }]
    })
}

fn measured(bench: &Bench, case: &Case) -> Result<Vec<Row>> {
    let undisturbed = case.prepared(&bench.folder.join(format!("{}-undisturbed", case.name)))?;
    let expected = case.results_of(&undisturbed, &case.launch(&undisturbed)?.run(RUN_LIMIT)?)?;
    let folder = case.prepared(&bench.folder.join(format!("{}-measured", case.name)))?;
    let trace = folder.join("trace");
    let mut job = bench.start(&case.launch(&folder)?.traced(&trace)?)?;
    let mut reports = Vec::new();
    std::thread::sleep(BETWEEN);
    job.look_anew()?;
    while reports.len() < WINDOWS {
        std::thread::sleep(BETWEEN);
        ensure!(job.running.poll()?.is_none(), "{} ended before its windows did: make its input larger", case.name);
        let cache = bench.folder.join("cache-debian");
        reports.push(bench.attach(&job, &OPTIONS, &cache)?.report);
    }
    job.check_untouched().context("after the windows")?;
    let found = case.results_of(&folder, &job.running.wait(RUN_LIMIT)?)?;
    let pairs = reports.into_iter().map(|report| beside(report, &trace)).collect::<Result<Vec<_>>>()?;
    Ok(vec![
        share_row(case, &pairs),
        efficiency_row(case, &pairs),
        outcome_row(case, first_difference(&found, &expected), expected.len()),
    ])
}

/// The profiler's figures in the seconds of this window.
fn beside(report: Report, trace: &Path) -> Result<Pair> {
    ensure!(report.ranks.len() == RANK_COUNT as usize, "{} of {RANK_COUNT} ranks reported", report.ranks.len());
    let (mut percent, mut probes_percent) = (Vec::new(), Vec::new());
    let probe_ns = report.cost.probe_ns.context("the cost of probes was not measured")?;
    let began_unix_s = report.window.started_unix_s.context("no rank began to record")?;
    for rank in &report.ranks {
        let profiled = CallTrace::read(trace, rank.pid)?.share_between(began_unix_s, rank.duration_s);
        let communication_s = rank.communication_s.context("no communication was reported")?;
        // Probes of calls lie in the library, so inside of what the profiler takes for a call; the window's calls are without.
        let hits = rank.probe_hits.saturating_sub(passes_counted(&report) / u64::from(RANK_COUNT));
        let probes = hits as f64 / 2.0 * probe_ns * 1e-9 / rank.duration_s;
        percent.push((100.0 * communication_s / rank.duration_s, 100.0 * (profiled - probes)));
        probes_percent.push(100.0 * probes);
    }
    Ok(Pair { report, percent, probes_percent })
}

/// Passes of loops that the window counted, of all ranks: their probes lie in the program, outside of all calls.
fn passes_counted(report: &Report) -> u64 {
    let loops = report.functions.iter().filter(|function| function.group == FunctionGroup::Loop);
    loops.filter_map(|function| function.calls).sum()
}

fn share_row(case: &Case, pairs: &[Pair]) -> Row {
    let what = format!("share of communication (a profiler's in the same seconds), {}, Open MPI", case.name);
    let off_points: Vec<f64> = pairs.iter().map(Pair::off_points).collect();
    let row = Row::at_most(what, "points", &off_points, POINTS_BAR);
    let words: Vec<String> = pairs.iter().map(Pair::words).collect();
    Row { measured: words.join(", "), figures: pairs.iter().map(Pair::figures).collect(), ..row }
}

/// Parallel efficiency, load balance and communication efficiency as TALP defines them, of the profiler's data.
fn efficiency_row(case: &Case, pairs: &[Pair]) -> Row {
    let what = format!("POP's efficiencies (of a profiler's data in the same seconds), {}, Open MPI", case.name);
    let both: Option<Vec<[(f64, f64); 3]>> = pairs.iter().map(Pair::efficiencies).collect();
    let Some(both) = both else {
        let why = pairs.iter().find_map(|pair| pair.report.efficiencies_missing.clone());
        return Row::skipped(what, format!("none was reported: {}", why.unwrap_or_default()));
    };
    let off = |three: &[(f64, f64); 3]| three.iter().map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
    let off_points: Vec<f64> = both.iter().map(off).collect();
    let words = |three: &[(f64, f64); 3]| three.map(|(one, other)| format!("{one:.1} ({other:.1})")).join(" / ");
    let measured = both.iter().map(words).collect::<Vec<_>>().join(", ");
    Row { measured, ..Row::at_most(what, "points", &off_points, POINTS_BAR) }
}

fn outcome_row(case: &Case, difference: Option<String>, lines: usize) -> Row {
    let words = difference.as_ref().map_or_else(|| "as undisturbed".to_owned(), |found| format!("DIFFER: {found}"));
    Row {
        what: format!("exit status and results of a run with two windows: {}, Open MPI", case.name),
        measured: format!("{lines} lines {words}"),
        bar: "as undisturbed; text bytes identical after the windows".into(),
        verdict: Verdict::of(difference.is_none()),
        figures: json!({ "same": difference.is_none(), "lines": lines, "difference": difference }),
    }
}

/// The first line that is another one, beside the undisturbed run's, and how many there are.
fn first_difference(found: &[String], expected: &[String]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} lines instead of {}", found.len(), expected.len()));
    }
    let differing: Vec<(&String, &String)> = found.iter().zip(expected).filter(|(one, other)| one != other).collect();
    let (one, other) = differing.first()?;
    Some(format!("{} of them, first \"{}\" where undisturbed \"{}\"", differing.len(), one.trim(), other.trim()))
}

impl Case {
    /// An emptied folder with its input.
    fn prepared(&self, folder: &Path) -> Result<PathBuf> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).context("cannot empty the folder")?;
        }
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for (name, text) in self.files {
            std::fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        for arguments in self.prepare {
            let mut command = Command::new(self.program);
            command.args(*arguments).current_dir(folder).stdin(Stdio::null());
            // Open MPI refuses to run as root, as in a container, unless told twice.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            let output = command.output().with_context(|| self.program.to_owned())?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{} {} failed: {}", self.program, arguments.join(" "), said.trim());
        }
        Ok(folder.to_owned())
    }

    fn launch(&self, folder: &Path) -> Result<Launch> {
        // Debian's alternatives: ranks are known by the name of the file that runs.
        let program = Path::new(self.program).canonicalize().with_context(|| self.program.to_owned())?;
        let launch = Launch::polling(Mpi::OpenMpi, RANK_COUNT, &program).args(self.arguments).folder(folder);
        Ok(launch.env("OMP_NUM_THREADS", "1"))
    }

    /// The lines that every run of two ranks gives alike.
    fn results_of(&self, folder: &Path, ended: &Finished) -> Result<Vec<String>> {
        ensure!(ended.status.success(), "{} ended with {}: {}", self.name, ended.status, ended.stderr.trim());
        let lines: Vec<String> = match self.results {
            Results::Lines(start) => {
                ended.stdout.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
            }
            Results::File(name, words) => {
                let text = std::fs::read_to_string(folder.join(name)).with_context(|| format!("no {name}"))?;
                text.lines().map(|line| first_words(line, words)).collect()
            }
        };
        ensure!(!lines.is_empty(), "{} gave no results", self.name);
        Ok(lines)
    }
}

fn first_words(line: &str, words: usize) -> String {
    line.split_whitespace().take(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn results_are_told_from_what_depends_on_time() {
        let stdout = "init time = 3\nfreqs:, 1, 0.5\nelapsed 4\nfreqs:, 2, 0.25\n".to_owned();
        let ended = |code: i32| Finished {
            status: ExitStatus::from_raw(code << 8),
            stdout: stdout.clone(),
            stderr: String::new(),
        };
        let mpb = &CASES[0];
        let lines = mpb.results_of(Path::new("/nowhere"), &ended(0)).expect("it has results");
        assert_eq!(lines, ["freqs:, 1, 0.5", "freqs:, 2, 0.25"]);
        assert!(mpb.results_of(Path::new("/nowhere"), &ended(3)).is_err(), "it failed");
        assert!(CASES[1].results_of(Path::new("/nowhere"), &ended(0)).is_err(), "no line of meep's");
        let text = |lines: [&str; 2]| lines.map(str::to_owned);
        assert_eq!(first_difference(&text(["a", "b"]), &text(["a", "b"])), None);
        let other = first_difference(&text(["a", "c"]), &text(["a", "b"])).expect("a difference");
        assert_eq!(other, "1 of them, first \"c\" where undisturbed \"b\"");
        assert!(first_difference(&text(["a", "b"])[..1], &text(["a", "b"])).is_some(), "a line is missing");
        assert_eq!(first_words("  2  1.0 0.013 269.5  -68.6 -68.6   10.26", 6), "2 1.0 0.013 269.5 -68.6 -68.6");
    }
}
