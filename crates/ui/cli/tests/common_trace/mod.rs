//! Shared by the tests of the whole program: running the binary in folders of its own, and proving that a job was
//! left as it was found.
//!
//! Jobs run one at a time, because MPICH polls and the machine may have two cores.
//!
//! Next: `trace.rs` (nothing is left behind), `bad_input.rs` (what can't be done), `store.rs` (what is kept).
// Every test program uses another part of this.
#![allow(dead_code)]

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
pub use trimtab_specimens::wait_for as until;
use trimtab_specimens::{Finished, Launch, Mpi, Running, TextSnapshot, Variant, build, threads_running};

/// Longer than anything here takes on a loaded machine; nothing is measured against it.
pub const LIMIT: Duration = Duration::from_secs(90);
/// How long the binary watches a job after its probes are out. Tests look at their jobs until these end.
const WATCHED_MS: &str = "100";
/// Time between two looks at a condition.
pub const LOOK: Duration = Duration::from_millis(2);
/// Looks in a row at which a starting program must be the same before it counts as settled.
const SETTLED_LOOKS: u32 = 12;
/// Time between those: a library's initialisation pauses for less than all of them together.
const SETTLED_LOOK: Duration = Duration::from_millis(25);

/// Held while a job runs.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A static program of a few instructions in a home's folder: its code begins at 0x401000.
pub fn bare_program(home: &Home, source: &str) -> PathBuf {
    let (file, program) = (home.path("few.s"), home.path("few"));
    fs::write(&file, source).expect("writes the source");
    let flags = ["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-Ttext=0x401000"];
    let status = Command::new("cc").args(flags).arg("-o").arg(&program).arg(&file).status();
    assert!(status.expect("cc runs").success());
    program
}

/// A printed text as JSON.
#[track_caller]
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Names of an object's fields.
#[track_caller]
pub fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// True if these tests may do what only root may.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A user's folders: data, and the symbol cache that all tests share.
pub struct Home {
    folder: TempDir,
}

impl Home {
    /// Fresh and empty.
    pub fn new() -> Home {
        Home { folder: TempDir::new().expect("a folder") }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The binary with arguments, not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.args(arguments).stdin(Stdio::null());
        self.surround(&mut command);
        command
    }

    /// Sets the folders for any command.
    pub fn surround(&self, command: &mut Command) {
        command.env("XDG_DATA_HOME", self.path("data"));
        command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // As in `Launch`: ranks that wait leave their processor to jobs of tests beside these.
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        command.env_remove("COLUMNS").env("NO_COLOR", "1").env("TRIMTAB_WATCHED_MS", WATCHED_MS);
    }

    /// Starts the binary.
    pub fn start(&self, arguments: &[&str]) -> Started {
        self.start_command(self.command(arguments))
    }

    /// Starts any command with its output in files.
    pub fn start_command(&self, mut command: Command) -> Started {
        let outputs = TempDir::new().expect("a folder");
        let file = |name: &str| File::create(outputs.path().join(name)).expect("a file");
        let child = command.stdout(file("out")).stderr(file("err")).spawn().expect("starts");
        Started { child, outputs }
    }

    /// Runs the binary to its end.
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        self.start(arguments).wait()
    }
}

/// A command that runs. Dropping it kills it.
pub struct Started {
    child: Child,
    outputs: TempDir,
}

impl Started {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&self, signal: Signal) {
        signal_to(self.pid(), signal);
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.outputs.path().join("err")).unwrap_or_default()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Outcome {
        let deadline = Instant::now() + LIMIT;
        while !self.has_ended() {
            assert!(Instant::now() < deadline, "did not end in {LIMIT:?}; it said: {}", self.stderr());
            sleep(LOOK);
        }
        let status = self.child.wait().expect("has ended");
        let stdout = fs::read(self.outputs.path().join("out")).expect("its output");
        Outcome { status, stdout: String::from_utf8_lossy(&stdout).into_owned(), stderr: self.stderr() }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _gone = self.child.kill();
            let _reaped = self.child.wait();
        }
    }
}

/// The outcome of a command.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// Exit code; 128 + signal.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// The count that a script's variable `n` has at least; 0 if nothing was printed of it.
    pub fn hits(&self) -> u64 {
        let number = |line: &str| {
            let counted = line.strip_prefix("n ")?.trim().trim_start_matches("at least ");
            counted.split(';').next()?.parse().ok()
        };
        self.stdout.lines().find_map(number).unwrap_or(0)
    }

    /// Ended with `code`, and said one line on standard error that has all `fragments`.
    #[track_caller]
    pub fn says(&self, name: &str, code: i32, fragments: &[&str]) {
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert_eq!((self.code(), lines.len()), (code, 1), "{name}: exit code and lines of {self:?}");
        assert!(lines[0].starts_with("trimtab: "), "{name}: {self:?}");
        for fragment in fragments {
            assert!(lines[0].contains(fragment), "{name}: no {fragment:?} in {self:?}");
        }
        assert!(!self.stderr.contains("panicked"), "{name}: {self:?}");
    }

    /// A report was shown, its exit code is `code`, and it has all `fragments`.
    #[track_caller]
    pub fn reports(&self, name: &str, code: i32, fragments: &[&str]) {
        assert_eq!(self.code(), code, "{name}: {self:?}");
        assert!(self.stderr.is_empty(), "{name}: {self:?}");
        for fragment in fragments {
            assert!(self.stdout.contains(fragment), "{name}: no {fragment:?} in {}", self.stdout);
        }
    }
}

/// Sends a signal; that the process is gone already is fine.
pub fn signal_to(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _gone = kill_process(pid, signal);
    }
}

/// A specimen under its launcher, not started yet.
pub fn specimen(program: &str, mpi: Mpi, arguments: &str) -> Launch {
    let path = build(program, Some(mpi), &Variant::default()).expect("builds");
    Launch::mpi(mpi, 2, &path).args(arguments.split_whitespace())
}

/// A job that runs, as it was before anybody measured it.
pub struct Job {
    pub running: Running,
    pub ranks: Vec<i32>,
    before: Vec<Trace>,
    /// The file that ends a steady specimen, in a folder that goes with the job.
    end: Option<(PathBuf, TempDir)>,
}

/// The specimen that runs until its job is told to end.
pub fn steady(mpi: Mpi, arguments: &str) -> Job {
    let folder = TempDir::new().expect("a folder");
    let end = folder.path().join("end");
    let launch = specimen("steady", mpi, arguments).args(["--until".as_ref(), end.as_os_str()]);
    let mut running = launch.start().expect("starts");
    until("the first iteration", || end.with_extension("begun").exists() || running.poll().expect("polls").is_some());
    let ranks = running.rank_pids(LIMIT).expect("has ranks");
    let settled = |pid: &i32| Trace::settled(*pid, 3).expect("it runs until it is told to end");
    let before = ranks.iter().map(settled).collect();
    Job { running, ranks, before, end: Some((end, folder)) }
}

impl Job {
    /// Starts it and waits until its libraries are loaded and its ranks have settled.
    pub fn start(launch: &Launch) -> Job {
        Job::start_if_it_stays(launch).expect("the ranks run until they have settled")
    }

    /// As [`Job::start`]; nothing if a rank ends or becomes another program before it has settled.
    pub fn start_if_it_stays(launch: &Launch) -> Option<Job> {
        let mut running = launch.start().expect("starts");
        let ranks = running.rank_pids(LIMIT).expect("has ranks");
        let before = ranks.iter().map(|pid| Trace::settled(*pid, SETTLED_LOOKS)).collect::<Option<_>>()?;
        Some(Job { running, ranks, before, end: None })
    }

    /// The launcher's pid as an argument.
    pub fn launcher(&self) -> String {
        self.running.pid().to_string()
    }

    /// A rank's pid as an argument.
    pub fn rank(&self, rank: usize) -> String {
        self.ranks[rank].to_string()
    }

    /// Proves that every rank that runs is as it was, and returns how many those are.
    #[track_caller]
    pub fn untouched(&self, name: &str) -> usize {
        self.before.iter().filter(|before| before.is_as_it_was(name)).count()
    }

    /// Proves that every rank is as it was while the job goes on.
    #[track_caller]
    pub fn goes_on(&self, name: &str) {
        assert_eq!(self.untouched(name), self.ranks.len(), "{name}: ranks that run");
    }

    /// As [`Job::goes_on`]; then ends the job and waits for the right answer.
    #[track_caller]
    pub fn ends_well(self, name: &str) -> Finished {
        self.goes_on(name);
        self.ends_right(name)
    }

    /// Waits for the right answer.
    #[track_caller]
    pub fn ends_right(self, name: &str) -> Finished {
        if let Some((end, _)) = &self.end {
            File::create(end).expect("the file that ends the job");
        }
        let finished = self.running.wait(LIMIT).expect(name);
        assert!(finished.right_answer().is_some(), "{name}: {finished:?}");
        finished
    }
}

/// All of a process that a measurement could leave something in.
#[derive(Clone, Debug)]
struct Trace {
    pid: i32,
    text: TextSnapshot,
    facts: Facts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    threads: usize,
    mappings: Vec<String>,
    files: Vec<String>,
}

impl Facts {
    fn of(pid: i32) -> Option<Facts> {
        let mappings = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        // The heap and the stacks grow as the program likes.
        let own = |line: &&str| !line.ends_with("[heap]") && !line.ends_with("[stack]");
        let mappings = mappings.lines().filter(own).map(str::to_owned).collect();
        let mut files = Vec::new();
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
            let shows = fs::read_link(entry.path()).unwrap_or_default();
            files.push(format!("{} {}", entry.file_name().to_string_lossy(), shows.display()));
        }
        files.sort();
        Some(Facts { threads: threads_running(pid).ok()?, mappings, files })
    }
}

impl Trace {
    /// Nothing if the process ends or becomes another program first.
    fn settled(pid: i32, looks: u32) -> Option<Trace> {
        let (mut last, mut same) = (None, 0);
        until("settling of a rank", || {
            sleep(SETTLED_LOOK);
            let now = Facts::of(pid);
            same = if now == last { same + 1 } else { 0 };
            last = now;
            same >= looks
        });
        let facts = last?;
        match TextSnapshot::of(pid) {
            Ok(text) => Some(Trace { pid, text, facts }),
            Err(error) => Facts::of(pid).is_some_and(|now| now == facts).then(|| panic!("text of {pid}: {error}")),
        }
    }

    /// False if the process has ended.
    #[track_caller]
    fn is_as_it_was(&self, name: &str) -> bool {
        let pid = self.pid;
        let Ok(now) = TextSnapshot::of(pid) else { return false };
        let Some(facts) = Facts::of(pid) else {
            return threads_running(pid).map(|_| false).unwrap_or_else(|error| !error.to_string().contains("gone"));
        };
        assert_eq!(self.text.difference(&now), None, "{name}: text of process {pid}");
        // A program that ends takes leave of its threads first.
        if facts.threads < self.facts.threads && ends_soon(pid) {
            return false;
        }
        assert_eq!(self.facts.threads, facts.threads, "{name}: threads of process {pid}");
        assert_eq!(missing(&self.facts.files, &facts.files), "", "{name}: files of process {pid}, and what is new");
        assert_eq!(
            missing(&self.facts.mappings, &facts.mappings),
            "",
            "{name}: mappings of process {pid}, and what is new"
        );
        true
    }
}

fn ends_soon(pid: i32) -> bool {
    const SOON: Duration = Duration::from_secs(10);
    let deadline = Instant::now() + SOON;
    let has_ended = || Facts::of(pid).is_none_or(|facts| facts.mappings.is_empty());
    while !has_ended() && Instant::now() < deadline {
        sleep(SETTLED_LOOK);
    }
    has_ended()
}

/// The lines that are in one list only, as text; empty if they are equal.
fn missing(before: &[String], after: &[String]) -> String {
    let gone = before.iter().filter(|one| !after.contains(one)).map(|one| format!("- {one}\n"));
    let new = after.iter().filter(|one| !before.contains(one)).map(|one| format!("+ {one}\n"));
    gone.chain(new).collect()
}

/// How many mappings of trimtab's a process has.
pub fn probes_mapped(pid: i32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| line.contains("/memfd:trimtab")).count()
}
