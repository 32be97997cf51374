//! Real programs that start, and every one of them seen, once.
//!
//! Each test has programs of its own in a folder of its own, so that nothing else on the machine has their names.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trimtab_specimens::skip;
use trimtab_watch::{Filter, Options, Prepare, ProgramKind, Start, Watch, checksum};

/// Longer than anything here takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(120);
/// Programs that end at once.
const BRIEF: usize = 1000;

/// A folder with copies of small programs.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder of its own"))
    }

    fn program(&self, of: &str, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::copy(Path::new("/bin").join(of), &path).expect("copies a program");
        path
    }

    /// Every program in it.
    fn pattern(&self) -> String {
        format!("{}/*", self.0.path().display())
    }

    fn watch(&self, sha256: Option<&str>, by_scans: bool) -> Watched {
        let filter = Filter::new(&self.pattern(), sha256).expect("a filter");
        let watch = Watch::begin(Options { filter, hold: None, by_scans }).expect("watches");
        Watched { watch, starts: Vec::new() }
    }
}

struct Watched {
    watch: Watch,
    starts: Vec<Start>,
}

impl Watched {
    /// True if the kernel tells about each program; else the test is skipped.
    fn is_told_all(&self, test: &str) -> bool {
        let all = self.watch.source().contains("fanotify") && self.watch.source().contains("connector");
        if !all {
            skip(test, &format!("events come from {}; run it as root outside of containers", self.watch.source()));
        }
        all
    }

    /// Waits until a program of this name was told.
    fn wait_for(&mut self, name: &str) {
        let deadline = Instant::now() + LIMIT;
        let prepare: Prepare = Arc::new(|_, _| ());
        while !self.names().iter().any(|found| found == name) {
            assert!(Instant::now() < deadline, "no {name} among {:?}", self.names());
            let starts = self.watch.next(Duration::from_millis(100), &|_| false, &prepare).expect("events");
            self.starts.extend(starts);
        }
    }

    /// One that was seen alive is still followed for a moment, though it has ended.
    fn take_the_rest(&mut self) {
        let prepare: Prepare = Arc::new(|_, _| ());
        loop {
            let starts = self.watch.next(Duration::from_millis(300), &|_| false, &prepare).expect("events");
            if starts.is_empty() {
                return;
            }
            self.starts.extend(starts);
        }
    }

    fn names(&self) -> Vec<String> {
        let name =
            |start: &Start| start.processes[0].program.file_name().expect("a name").to_string_lossy().into_owned();
        self.starts.iter().map(name).collect()
    }

    fn count(&self, name: &str) -> usize {
        self.names().iter().filter(|found| *found == name).count()
    }
}

fn run(command: &mut Command) {
    assert!(command.status().expect("it runs").success(), "{command:?}");
}

#[test]
fn every_one_of_a_thousand_brief_starts_is_seen_once() {
    let folder = Folder::new();
    let (brief, last) = (folder.program("true", "brief"), folder.program("true", "last"));
    let mut watched = folder.watch(None, false);
    if !watched.is_told_all("every_one_of_a_thousand_brief_starts_is_seen_once") {
        return;
    }
    for _ in 0..BRIEF {
        run(&mut Command::new(&brief));
    }
    // News come in order: when the last is told, all before it were seen, and those that ended were told with it.
    run(&mut Command::new(&last));
    watched.wait_for("last");
    watched.take_the_rest();
    assert_eq!(watched.count("brief"), BRIEF, "missed: {:?}", watched.watch.missed());
    assert!(watched.starts.iter().all(|start| matches!(start.what, ProgramKind::Ended | ProgramKind::NotMpi)));
    let numbers: Vec<u64> = watched.starts.iter().map(|start| start.number).collect();
    assert_eq!(numbers, (1..=BRIEF as u64 + 1).collect::<Vec<_>>());
}

#[test]
fn a_process_that_executes_one_program_after_another_is_as_many_starts() {
    let folder = Folder::new();
    let (shell, brief, last) =
        (folder.program("sh", "shell"), folder.program("true", "brief"), folder.program("true", "last"));
    let mut watched = folder.watch(None, false);
    if !watched.is_told_all("a_process_that_executes_one_program_after_another_is_as_many_starts") {
        return;
    }
    for _ in 0..20 {
        run(Command::new(&shell).args(["-c", &format!("exec {}", brief.display())]));
        // A shell of another name: only what it becomes is wanted.
        run(Command::new("sh").arg0("sh").args(["-c", &format!("exec {}", brief.display())]));
    }
    run(&mut Command::new(&last));
    watched.wait_for("last");
    watched.take_the_rest();
    assert_eq!(watched.count("brief"), 40);
    // A shell that became `brief` before anybody looked was seen as that, or by the note of its own exec.
    assert!(watched.count("shell") <= 20, "{}", watched.count("shell"));
}

#[test]
fn a_checksum_tells_programs_of_one_name_apart() {
    let folder = Folder::new();
    let wanted = folder.program("true", "app");
    let sum = checksum(std::fs::File::open(&wanted).expect("opens")).expect("reads");
    let mut watched = folder.watch(Some(&sum), false);
    if !watched.is_told_all("a_checksum_tells_programs_of_one_name_apart") {
        return;
    }
    run(&mut Command::new(&wanted));
    watched.wait_for("app");
    folder.program("echo", "app");
    run(&mut Command::new(&wanted));
    let last = folder.program("true", "last");
    run(&mut Command::new(&last));
    watched.wait_for("last");
    assert_eq!(watched.names(), ["app", "last"]);
}

#[test]
fn without_the_kernels_word_programs_that_run_for_a_while_are_found() {
    let folder = Folder::new();
    let lasting = folder.program("sleep", "lasting");
    let mut watched = folder.watch(None, true);
    assert!(watched.watch.source().contains("every 20 ms"), "{}", watched.watch.source());
    let mut child = Command::new(&lasting).arg("600").spawn().expect("it starts");
    watched.wait_for("lasting");
    child.kill().expect("ours to end");
    child.wait().expect("ours");
    assert!(matches!(watched.starts[0].what, ProgramKind::NotMpi));
    assert_eq!(watched.starts[0].processes[0].pid.0, child.id() as i32);
}
