//! `trimtab watch`: jobs that start while it watches are measured, each by itself.
//!
//! Next: `trimtab-watch`, whose own tests count brief programs and hold them.

mod common;

use common::{Home, LIMIT, alone};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Instant;
use trimtab_specimens::{
    ENDLESS, Launch, Mpi, Running, TextSnapshot, Variant, build, interrupt, threads_running, wait_for,
};
use trimtab_types::report::Report;

/// A watch that runs, ended with the test.
struct Watching {
    child: Child,
    lines: PathBuf,
}

impl Watching {
    fn start(home: &Home, program: &Path, options: &str) -> Watching {
        let (lines, errors) = (home.path("lines.json"), home.path("errors"));
        let (lines_text, name) = (lines.to_string_lossy().into_owned(), program.to_string_lossy().into_owned());
        let mut words = vec!["watch", "--name", &name, "--json", &lines_text];
        words.extend(options.split_whitespace());
        let mut command = home.command(&words);
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&errors).expect("a file"));
        let child = command.spawn().expect("it starts");
        let watching = Watching { child, lines };
        let said = || std::fs::read_to_string(&errors).unwrap_or_default();
        wait_for("the watch begins", || said().contains("watching for"));
        watching
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.lines).unwrap_or_default();
        // The last line may be half written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn wait_for_lines(&self, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} starts"), || self.lines().len() >= count);
        self.lines()
    }

    fn end(mut self) -> i32 {
        wait_for("the watch ends", || self.child.try_wait().expect("ours").is_some());
        self.child.wait().expect("ours").code().expect("not killed")
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A specimen under a name that nothing else has.
fn program(home: &Home, mpi: Mpi) -> PathBuf {
    let built = build("particle", Some(mpi), &Variant::default()).expect("it builds");
    let own = home.path("watched");
    std::fs::copy(built, &own).expect("copies");
    own
}

fn start(mpi: Mpi, ranks: u32, program: &Path) -> Running {
    Launch::mpi(mpi, ranks, program).args(ENDLESS).start().expect("it starts")
}

fn pids_of(line: &Value) -> BTreeSet<i64> {
    line["processes"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

fn check_measured(line: &Value, job: &mut Running) {
    let pids = job.rank_pids(LIMIT).expect("it runs");
    assert_eq!(line["outcome"], "measured", "{line}");
    assert_eq!((&line["valid"], &line["iterations"]), (&Value::Bool(true), &Value::from(5)), "{line}");
    assert_eq!(pids_of(line), pids.iter().map(|pid| i64::from(*pid)).collect(), "{line}");
    for pid in pids {
        let text = TextSnapshot::of(pid).expect("its text");
        assert_eq!(text.difference_from_files().expect("its files"), None, "restored");
        threads_running(pid).expect("no thread is stopped");
    }
}

/// The line of the start that `job` is.
fn line_of<'a>(lines: &'a [Value], job: &mut Running) -> &'a Value {
    let pid = i64::from(job.rank_pids(LIMIT).expect("it runs")[0]);
    lines.iter().find(|line| pids_of(line).contains(&pid)).unwrap_or_else(|| panic!("no {pid} in {lines:?}"))
}

/// Calls as soon as it may, so that whoever comes later misses most.
const EARLY: &str = include_str!("programs/early.c");

/// Each rank waits where it comes out of `MPI_Init` until the window that the watch begins records it.
#[test]
fn the_whole_run_of_a_program_that_starts_is_measured() {
    let _alone = alone();
    for (mpi, compiler) in [(Mpi::Mpich, "mpicc.mpich"), (Mpi::OpenMpi, "mpicc.openmpi")] {
        let home = Home::new();
        let (source, program) = (home.path("early.c"), home.path("watched"));
        std::fs::write(&source, EARLY).expect("is written");
        let built = std::process::Command::new(compiler).arg("-o").arg(&program).arg(&source).status();
        assert!(built.expect("the compiler is there").success());
        let watching = Watching::start(&home, &program, "--follow --count 1");
        let words = Launch::mpi(mpi, 2, &program).words().expect("the launcher is there");
        let mut job = std::process::Command::new(&words[0]);
        job.args(&words[1..]).stdin(Stdio::null());
        job.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let output = job.output().expect("the launcher runs");
        assert!(String::from_utf8_lossy(&output.stdout).contains("2 OK"), "{mpi:?}: {output:?}");
        let line = watching.wait_for_lines(1).remove(0);
        assert_eq!(line["outcome"], "measured", "{line}");
        assert_eq!(watching.end(), 0);
        let said = home.trimtab(&["report", line["job"].as_str().expect("a job"), "--json"]);
        let report: Report = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        let from = report.window.from_first_call.as_ref().expect("it is asked for");
        assert_eq!((from.ranks.as_slice(), from.missed.len()), (&[0, 1][..], 0), "{mpi:?}: {from:?}");
        assert_eq!(report.window.begins_late, None, "{mpi:?}");
        let calls: BTreeSet<(&str, u64)> =
            report.functions.iter().map(|row| (row.name.as_str(), row.calls_counted())).collect();
        assert_eq!(calls, BTreeSet::from([("MPI_Allreduce", 600), ("MPI_Barrier", 40)]), "{mpi:?}");
    }
}

#[test]
fn two_runs_of_one_program_at_the_same_time_are_two_jobs() {
    let _alone = alone();
    for mpi in [Mpi::Mpich, Mpi::OpenMpi] {
        let home = Home::new();
        let program = program(&home, mpi);
        let watching = Watching::start(&home, &program, "--iterations 5 --count 2");
        let mut jobs = [start(mpi, 1, &program), start(mpi, 1, &program)];
        let lines = watching.wait_for_lines(2);
        for job in &mut jobs {
            check_measured(line_of(&lines, job), job);
        }
        assert_ne!(lines[0]["key"], lines[1]["key"]);
        assert_ne!(lines[0]["job"], lines[1]["job"], "{lines:?}");
        assert_eq!(watching.end(), 0);
        let listed = home.trimtab(&["list", "--json"]);
        let listed: Vec<Value> = serde_json::from_str(&listed.stdout).expect("JSON");
        assert_eq!(listed.len(), 2, "{listed:?}");
    }
}

#[test]
fn ranks_of_one_launch_are_one_start_and_a_later_launch_is_another() {
    let _alone = alone();
    for mpi in [Mpi::Mpich, Mpi::OpenMpi] {
        let home = Home::new();
        let program = program(&home, mpi);
        let watching = Watching::start(&home, &program, "--iterations 5 --hold 2000");
        for run in 1..=2 {
            let mut job = start(mpi, 2, &program);
            let lines = watching.wait_for_lines(run);
            assert_eq!(lines.len(), run, "{lines:?}");
            check_measured(&lines[run - 1], &mut job);
            assert_eq!(lines[run - 1]["seen"].as_array().map(Vec::len), Some(2), "{lines:?}");
        }
        let lines = watching.lines();
        assert_ne!(lines[0]["key"], lines[1]["key"]);
        interrupt(i32::try_from(watching.child.id()).expect("a pid"));
        assert_eq!(watching.end(), 0);
    }
}

fn is_patched(pid: i32) -> bool {
    TextSnapshot::of(pid).is_ok_and(|text| text.difference_from_files().is_ok_and(|found| found.is_some()))
}

/// As many windows as there may be are open; a fifth job waits until one of them ends, and that is said.
#[test]
fn an_interrupt_ends_windows_that_are_open_and_restores_the_program() {
    let _alone = alone();
    let home = Home::new();
    let program = program(&home, Mpi::Mpich);
    let watching = Watching::start(&home, &program, "--iterations 1000000000");
    let begin = || {
        let mut job = start(Mpi::Mpich, 1, &program);
        let pid = job.rank_pids(LIMIT).expect("it runs")[0];
        (job, pid)
    };
    let mut jobs: Vec<(Running, i32)> = Vec::new();
    for _ in 0..4 {
        jobs.push(begin());
        wait_for("the window is open", || is_patched(jobs[jobs.len() - 1].1));
    }
    let (_fifth, pid) = begin();
    let said = || std::fs::read_to_string(home.path("errors")).unwrap_or_default();
    wait_for("it is said that the fifth waits", || said().contains("#5 waits for its turn: 4 windows are open"));
    assert!(!is_patched(pid), "it waits");
    drop(jobs.remove(0));
    wait_for("the fifth window is open", || is_patched(pid));
    interrupt(i32::try_from(watching.child.id()).expect("a pid"));
    let lines = watching.wait_for_lines(5);
    for line in &lines {
        let is_fifth = pids_of(line) == BTreeSet::from([i64::from(pid)]);
        assert_eq!(line["waited_for_turn_s"].as_f64().is_some_and(|seconds| seconds > 0.0), is_fifth, "{line}");
    }
    assert_eq!(watching.end(), 0);
    for pid in jobs.iter().map(|(_, pid)| *pid).chain([pid]) {
        assert!(!is_patched(pid), "restored");
        threads_running(pid).expect("no thread is stopped");
    }
}

#[test]
fn programs_that_can_not_be_measured_are_told_with_the_reason() {
    let _alone = alone();
    let home = Home::new();
    let own = home.path("watched");
    std::fs::copy("/bin/sleep", &own).expect("copies");
    let watching = Watching::start(&home, &own, "--count 1");
    let mut child = std::process::Command::new(&own).arg("600").spawn().expect("it starts");
    let lines = watching.wait_for_lines(1);
    child.kill().expect("ours to end");
    child.wait().expect("ours");
    assert_eq!((&lines[0]["outcome"], &lines[0]["reason"]), (&"refused".into(), &"it is no MPI program".into()));
    assert_eq!(watching.end(), 0);
    let nothing = home.trimtab(&["watch", "--name", "no-such-program", "--for", "0.2"]);
    assert_eq!(nothing.code, 1, "{nothing:?}");
    assert!(nothing.stderr.contains("0 starts, 0 measured"), "{nothing:?}");
}

/// Looks like a program without MPI until it loads it, half a second later.
const LOADS: &str = r#"#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>
int main(void) {
    usleep(500000);
    void *mpi = dlopen("libmpich.so.12", RTLD_NOW | RTLD_GLOBAL);
    int (*begins)(int *, char ***) = mpi ? (int (*)(int *, char ***))dlsym(mpi, "MPI_Init") : NULL;
    int (*ends)(void) = mpi ? (int (*)(void))dlsym(mpi, "MPI_Finalize") : NULL;
    return !begins || !ends || begins(NULL, NULL) || ends();
}
"#;

/// A program that no window will be of does not wait for one: it was told to have no MPI, or no more starts are wanted.
#[test]
fn a_program_that_gets_no_window_is_not_held() {
    let _alone = alone();
    let home = Home::new();
    let (source, own) = (home.path("loads.c"), home.path("watched"));
    std::fs::write(&source, LOADS).expect("is written");
    let built = std::process::Command::new("gcc").arg("-o").arg(&own).arg(&source).arg("-ldl").status();
    assert!(built.expect("the compiler is there").success());
    let watching = Watching::start(&home, &own, "--follow --hold 60000");
    let begun = Instant::now();
    let status = std::process::Command::new(&own).status().expect("it starts");
    let took_s = begun.elapsed().as_secs_f64();
    assert!(status.success() && took_s < 40.0, "{status}, {took_s} s");
    let lines = watching.wait_for_lines(1);
    assert_eq!(lines[0]["outcome"], "refused", "{lines:?}");
    interrupt(i32::try_from(watching.child.id()).expect("a pid"));
    assert_eq!(watching.end(), 0);
}

#[test]
fn what_can_not_be_watched_is_refused() {
    let home = Home::new();
    for (words, reason) in [
        (&["watch", "--name", ""][..], "no program can be called"),
        (&["watch", "--name", "a", "--sha256", "12"], "is no SHA-256 checksum"),
        (&["watch", "--name", "a", "--dry-run"], "use `trimtab attach`"),
        (&["watch", "--name", "a", "--json", "/no/such/folder/x"], "can't write"),
    ] {
        let said = home.trimtab(words);
        assert!(said.code == 2 && said.stderr.contains(reason), "{words:?}: {said:?}");
    }
}
