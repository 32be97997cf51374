//! Shared by the tests of the whole program: the real binary on real specimens, and its report beside the truth.
//!
//! Each test has a store of its own and shares the symbol cache. Jobs run one at a time: the machine may have two cores,
//! and MPICH polls.
//!
//! Next: `numbers.rs` for what is counted and timed, `loops.rs` for where a window begins and ends.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use trimtab_specimens::{
    Finished, GroundTruth, Launch, Mpi, RangeTruth, Running, TextSnapshot, Variant, at_work, build, threads_running,
    truths_of,
};
use trimtab_types::report::Report;

/// Longer than anything here takes on a loaded machine; no test measures against it.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Ranks of every job: MPICH polls, so no more than the cores of a small machine.
pub const RANKS: u32 = 2;

/// How long the binary watches a job after its probes are out. Tests look at their jobs until these end.
const WATCHED_MS: &str = "100";

/// A rank that has computed so long is surely past its loader, in clock ticks of 10 ms.
const STARTED_TICKS: u64 = 12;

/// The truth's marker: a function of the wrapper that every specimen calls as the first thing of an iteration.
pub const TRUE_MARK: &str = "gt_mark";

/// Held for a whole test.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where one test keeps its windows.
pub struct Home {
    folder: TempDir,
}

/// The output of one command.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Home {
    pub fn new() -> Home {
        Home { folder: tempfile::tempdir().expect("a folder of its own") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `trimtab WORDS`, ready to run.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.args(words).env("XDG_DATA_HOME", self.folder.path()).env("TRIMTAB_WATCHED_MS", WATCHED_MS);
        command.env("XDG_CACHE_HOME", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // As in `Launch`: ranks that wait leave their processor to jobs of tests beside these.
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        command
    }

    /// Runs `trimtab WORDS`.
    pub fn trimtab(&self, words: &[&str]) -> Said {
        self.trimtab_with(&[], words)
    }

    /// Runs `trimtab WORDS` with these variables.
    pub fn trimtab_with(&self, variables: &[(&str, PathBuf)], words: &[&str]) -> Said {
        let mut command = self.command(words);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let output = command.output().expect("trimtab runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().expect("trimtab is not killed");
        Said { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// One window of the job that `pid` belongs to. `Err`: what was said instead of a report.
    pub fn attach(&self, pid: i32, options: &str) -> Result<(i32, Report), Said> {
        let pid = pid.to_string();
        let mut words = vec!["attach", "--json", "-"];
        words.extend(options.split_whitespace());
        words.push(&pid);
        let said = self.trimtab(&words);
        match serde_json::from_str(&said.stdout) {
            Ok(report) => Ok((said.code, report)),
            Err(_) => Err(said),
        }
    }
}

/// A specimen as a test asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Specimen {
    pub mpi: Option<Mpi>,
    pub program: &'static str,
    pub variant: Variant,
    pub arguments: &'static str,
}

impl Specimen {
    pub fn of(mpi: Mpi, program: &'static str, arguments: &'static str) -> Specimen {
        Specimen { mpi: Some(mpi), program, variant: Variant::default(), arguments }
    }

    pub fn alone(program: &'static str, arguments: &'static str) -> Specimen {
        Specimen { mpi: None, program, variant: Variant::default(), arguments }
    }

    pub fn name(&self) -> String {
        let mpi = self.mpi.map_or("alone", Mpi::name);
        format!("{mpi} {} {} {}", self.variant.folder(), self.program, self.arguments)
    }

    fn launch(&self) -> Launch {
        let program = build(self.program, self.mpi, &self.variant).expect("the specimen is built");
        let launch = match self.mpi {
            Some(mpi) => Launch::mpi(mpi, RANKS, &program),
            None => Launch::alone(&program),
        };
        launch.args(self.arguments.split_whitespace())
    }

    /// Starts it and waits until its ranks are at work.
    pub fn start(&self) -> Running {
        wait_until_at_work(self.launch().start().expect("the specimen starts"), self.mpi.is_some())
    }

    /// As [`Specimen::start`], with a library loaded beside it.
    pub fn start_with(&self, library: &Path) -> Running {
        let launch = self.launch().preload(library);
        wait_until_at_work(launch.start().expect("the specimen starts"), self.mpi.is_some())
    }

    fn start_measured(&self, home: &Home) -> Running {
        let launch = self.launch().measured(&home.path("truth")).expect("the wrapper is built");
        wait_until_at_work(launch.start().expect("the specimen starts"), true)
    }
}

/// Waits until every rank has computed for a while or sleeps between its iterations; one that computes nothing only needs to have
/// begun.
pub fn wait_until_at_work(mut job: Running, computes: bool) -> Running {
    at_work(&mut job, if computes { STARTED_TICKS } else { 1 });
    job
}

/// A process that has not ended; a zombie has.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']) && !rest.is_empty())
}

/// Attaches to ranks as soon as all are at work: the report of a valid window, after which all have their text and run, and
/// the ranks' processes in order.
pub fn attached_at_work(home: &Home, job: &mut Running, options: &str) -> (Report, Vec<i32>) {
    let mut pids = at_work(job, 30);
    pids.sort_unstable();
    let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
    let (code, report) = home.attach(pids[0], options).expect("a report");
    assert_eq!((code, report.window.valid), (0, true), "{:?}", report.warnings);
    for before in before {
        let pid = before.pid();
        assert_eq!(before.difference_now().expect("its text"), None, "text of process {pid}");
        assert!(threads_running(pid).expect("its threads") > 0, "process {pid} runs");
    }
    (report, pids)
}

/// The numbers of a window's steps, by the sum of the argument of `step`, which each rank calls with its number once a step.
pub fn steps_of(report: &Report, iterations: u64) -> std::ops::Range<u64> {
    let step = report.functions.iter().find(|row| row.name == "step").expect("step");
    let sum = step.argument_sum.expect("a sum") as u64 / u64::from(RANKS);
    let first = (sum - iterations * (iterations - 1) / 2) / iterations;
    first..first + iterations
}

/// The program runs to its end, and to its right answer.
pub fn finish(job: Running, name: &str) -> Finished {
    let finished = job.wait(LIMIT).expect(name);
    assert!(finished.right_answer().is_some(), "{name}: {finished:?}");
    finished
}

/// One window beside what the wrapper saw of the same iterations.
#[derive(Debug)]
pub struct Compared {
    /// The report of trimtab.
    pub report: Report,
    /// The program's own number of the first recorded iteration, by rank.
    pub first: Vec<u64>,
    /// The wrapper's sums of those iterations, by rank; empty where ranks began differently.
    pub truths: Vec<RangeTruth>,
}

/// Has the symbols of `mpi` read once, so that the time this takes is not part of a program's short life.
pub fn warm(mpi: Mpi) {
    let home = Home::new();
    let job = Specimen::of(mpi, "particle", "--iterations 1000000 --size 64 --particles 1000").start_measured(&home);
    let pid = job.pid().to_string();
    let said = home.trimtab(&["attach", "--dry-run", "--mark", TRUE_MARK, &pid]);
    assert_eq!(said.code, 0, "{said:?}");
}

/// Up to `count` windows of `iterations` of a specimen with the wrapper preloaded. Only a program that ends by itself
/// leaves its truth, so one that ended before it was measured is started again with more iterations.
pub fn compare(specimen: &Specimen, count: usize, iterations: u64) -> Vec<Compared> {
    for factor in [1, 4, 16] {
        let longer = Specimen { arguments: longer(specimen.arguments, factor).leak(), ..*specimen };
        let windows = compare_once(&longer, count, iterations);
        if !windows.is_empty() {
            return windows;
        }
    }
    panic!("{}: never lived long enough to be measured", specimen.name());
}

/// The arguments with a multiple of the number that follows `--iterations`.
fn longer(arguments: &str, factor: u64) -> String {
    let words: Vec<String> = arguments
        .split_whitespace()
        .scan("", |before, word| {
            let is_number = std::mem::replace(before, word) == "--iterations";
            let number = word.parse::<u64>().ok().filter(|_| is_number);
            Some(number.map_or_else(|| word.to_owned(), |number| (number * factor).to_string()))
        })
        .collect();
    words.join(" ")
}

fn compare_once(specimen: &Specimen, count: usize, iterations: u64) -> Vec<Compared> {
    let name = specimen.name();
    let home = Home::new();
    let mut job = specimen.start_measured(&home);
    let options =
        format!("--mark {TRUE_MARK} --argument {TRUE_MARK}:0 --detail 1 --iterations {iterations} --max-seconds 30");
    let mut reports = Vec::new();
    let pids = job.rank_pids(LIMIT).expect(&name);
    while reports.len() < count && pids.iter().all(|pid| is_alive(*pid)) {
        match home.attach(job.pid(), &options) {
            Ok((0, report)) => reports.push(report),
            // The program may end while a window is open.
            other => assert!(!pids.iter().all(|pid| is_alive(*pid)), "{name}: {other:?}"),
        }
    }
    finish(job, &name);
    let truths = truths_of(&home.path("truth"), RANKS).expect(&name);
    reports.into_iter().map(|report| beside(report, &truths, &name)).collect()
}

fn beside(report: Report, truths: &[GroundTruth], name: &str) -> Compared {
    let first = first_arguments(&report, TRUE_MARK);
    let count = report.window.iterations.unwrap_or_else(|| panic!("{name}: no iterations: {:?}", report.window));
    let ranges = truths.iter().zip(&first).map(|(truth, first)| {
        let first = u32::try_from(*first).expect("an iteration");
        truth.range(first..first + count as u32).expect(name)
    });
    let truths = ranges.collect();
    Compared { report, first, truths }
}

/// First argument of the first recorded call of `function`, by rank.
pub fn first_arguments(report: &Report, function: &str) -> Vec<u64> {
    let of_rank = |rank: u32| {
        let calls = report.details.iter().filter(|detail| detail.rank == rank && detail.function == function);
        let first = calls.min_by(|a, b| a.time_unix_s.total_cmp(&b.time_unix_s));
        first
            .unwrap_or_else(|| {
                panic!(
                    "rank {rank} recorded no {function}; the functions: {:?}",
                    report.functions.iter().map(|f| (&f.name, f.calls, f.argument_sum)).collect::<Vec<_>>()
                )
            })
            .arguments[0]
    };
    (0..RANKS).map(of_rank).collect()
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Path of MPICH's library, from the maps of a program that uses it.
pub fn mpi_library() -> PathBuf {
    let mut job = Specimen::of(Mpi::Mpich, "particle", "--iterations 1000000").start();
    let pid = job.rank_pids(LIMIT).expect("ranks")[0];
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    PathBuf::from(paths.find(|path| path.contains("/libmpich.so")).expect("MPICH's library"))
}

/// True if a thread waits in our code: it sleeps there by a call of its own. It looks again now and then, and is not in the
/// kernel then.
pub fn is_held(pid: i32) -> bool {
    (0..50).any(|_| {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
        let pointer = call.split_whitespace().last().and_then(|word| hexadecimal(word.strip_prefix("0x")?));
        let is_ours = |line: &str| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let range = hexadecimal(start)?..hexadecimal(end)?;
            (range.contains(&pointer?) && rest.contains("memfd:trimtab")).then_some(())
        };
        let is_held = maps(pid).lines().any(|line| is_ours(line).is_some());
        if !is_held {
            std::thread::sleep(Duration::from_micros(70));
        }
        is_held
    })
}

/// The mappings of a process.
pub fn maps(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
}
