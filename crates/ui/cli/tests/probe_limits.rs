//! Functions whose probes cost more than a window may: they are taken out while it goes on, and the report says which, since
//! when, and that their numbers are no more than lower bounds.
//!
//! Nothing here is asserted of times: the program's own steps per second are printed beside each other, with and without a
//! window.
//!
//! Next: `trimtab-measure`'s `limits` decides, `trimtab-session`'s `partial` takes out.

mod common;

use common::{Home, LIMIT, RANKS, alone};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use trimtab_specimens::{Launch, Mpi, Running, TextSnapshot, at_work, threads_running, wait_for};
use trimtab_types::report::{FunctionTotal, Report};

/// Calls of the small functions in a step.
const CALLS: u64 = 200_000;
/// Windows in one of which a function's cost must show.
const WINDOWS_MAX: u32 = 3;

/// A step calls a function of some nanoseconds without end, and one of the C library; then all ranks sum.
const C: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) double leaf(double x) { return x * 0.999 + 1.0; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(int argc, char **argv) {
    int rank, flag;
    double x = 1, sum = 0, last;
    long steps = 0, asks = argc > 1 ? 200000 : 2000, calls = argc > 1 ? 0 : 200000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    last = now();
    for (;;) {
        for (int i = 0; i < calls; i++) x = leaf(x);
        for (int i = 0; i < calls; i++) x += rand() & 1;
        for (int i = 0; i < asks; i++) MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        steps++;
        if (rank == 0 && now() - last > 0.2) {
            printf("rate %.1f\n", steps / (now() - last));
            fflush(stdout);
            last = now();
            steps = 0;
        }
    }
}
"#;

const FORTRAN: &str = r#"
subroutine leaf(x)
  double precision, intent(inout) :: x
  x = x * 0.999d0 + 1.0d0
end subroutine leaf
program busy
  use mpi
  implicit none
  integer :: code, i
  double precision :: x, total
  call MPI_Init(code)
  x = 1.0d0
  do
    do i = 1, 200000
      call leaf(x)
    end do
    call MPI_Allreduce(x, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
  end do
end program busy
"#;

/// Out of line, at an address that is known from the file.
const OPTIONS: [&str; 6] = ["-O2", "-g", "-no-pie", "-fno-inline", "-fno-ipa-cp", "-fno-ipa-icf"];

fn compiled(home: &Home, mpi: Mpi, is_fortran: bool) -> PathBuf {
    let (compiler, suffix, text) = if is_fortran { ("mpif90", "f90", FORTRAN) } else { ("mpicc", "c", C) };
    let (source, program) = (home.path(&format!("busy.{suffix}")), home.path("busy"));
    std::fs::write(&source, text).expect("its source");
    let compiler = format!("{compiler}.{}", if mpi == Mpi::Mpich { "mpich" } else { "openmpi" });
    let built = Command::new(&compiler).args(OPTIONS).arg("-o").arg(&program).arg(&source).status();
    assert!(built.expect("the compiler runs").success(), "built by {compiler}");
    program
}

fn started(mpi: Mpi, program: &Path, arguments: &[&str]) -> Running {
    let mut job = Launch::mpi(mpi, RANKS, program).args(arguments).start().expect("it starts");
    at_work(&mut job, 30);
    job
}

/// A window after which nothing of it is left.
fn window(home: &Home, job: &mut Running, options: &str) -> Report {
    let pids = job.rank_pids(LIMIT).expect("its ranks");
    let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
    let (_, report) = home.attach(pids[0], options).expect("a report");
    for before in before {
        let pid = before.pid();
        assert_eq!(before.difference_now().expect("its text"), None, "text of process {pid}");
        assert!(threads_running(pid).expect("its threads") > 0, "process {pid} runs");
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
        assert!(!maps.contains("memfd:trimtab"), "memory of process {pid}");
    }
    report
}

fn function<'r>(report: &'r Report, name: &str) -> Option<&'r FunctionTotal> {
    report.functions.iter().find(|function| function.name.split('@').next() == Some(name))
}

fn is_said_to_be_out(report: &Report, name: &str) -> bool {
    let said = |warning: &String| warning.starts_with(name) && warning.contains("were taken out");
    report.warnings.iter().any(said)
}

/// Nothing that was taken out has a time, and no calls are told as if they were all.
fn check_out(report: &Report, name: &str, case: &str) {
    assert!(is_said_to_be_out(report, name), "{case}: {name} is out: {:?}", report.warnings);
    let function = function(report, name);
    assert!(function.is_some_and(|function| function.taken_out_after_s.is_some()), "{case}: {name} has a row");
    if let Some(function) = function {
        assert!(function.time_s.is_none() && function.bytes.is_none(), "{case}: {function:?}");
        let reason = function.time_missing.clone().unwrap_or_default();
        assert!(reason.contains("taken out") && reason.contains("lower bound"), "{case}: {function:?}");
        let iterations = report.window.iterations.unwrap_or(u64::MAX);
        assert!(function.calls_counted() < u64::from(RANKS) * iterations.saturating_mul(CALLS), "{case}: {function:?}");
    }
}

#[test]
fn functions_that_are_called_without_end_are_taken_out() {
    let _alone = alone();
    let rows = [
        (Mpi::Mpich, false, "leaf", "--function leaf"),
        (Mpi::OpenMpi, false, "rand", "--function rand@libc.so.6"),
        (Mpi::OpenMpi, true, "leaf_", "--function leaf_"),
    ];
    for (mpi, is_fortran, name, options) in rows {
        let (home, case) = (Home::new(), format!("{mpi:?} {name}"));
        let mut job = started(mpi, &compiled(&home, mpi, is_fortran), &[]);
        let report = window(&home, &mut job, &format!("{options} --at-least 2"));
        println!("{case}: {:?} {:?} {:?}", report.cost, function(&report, name), report.warnings);
        println!("{case}: steps per second:\n{}", job.stdout());
        check_out(&report, name, &case);
        // Where one rank's probes have stopped, all ranks' are taken out, perhaps before the window begins.
        let said = ["stopped counting", "before the window began"];
        let is_said = |warning: &String| said.iter().any(|words| warning.contains(words));
        assert!(report.warnings.iter().any(is_said), "{case}: they are out early: {:?}", report.warnings);
        let cost = report.cost.fraction.expect("a cost");
        assert!(cost < 0.5, "{case}: islands that count by themselves cost less than our routine: {:?}", report.cost);
        // All that stays in is counted to the end.
        let sums = function(&report, "MPI_Allreduce").expect("it was called");
        let iterations = report.window.iterations.expect("iterations");
        assert_eq!(sums.calls_counted(), u64::from(RANKS) * iterations, "{case}: {sums:?}");
        assert!(sums.time_s.is_some(), "{case}: {sums:?}");
        assert!(report.window.valid, "{case}: {:?}", report.warnings);
        // If it is allowed, all is seen.
        let report = window(&home, &mut job, &format!("{options} --iterations 20 --max-cost 1000000"));
        let all = function(&report, name).expect("it was called");
        assert!(!is_said_to_be_out(&report, name) && all.time_s.is_some(), "{case}: {all:?} {:?}", report.warnings);
        let iterations = report.window.iterations.expect("iterations");
        assert_eq!(all.calls_counted(), u64::from(RANKS) * iterations * CALLS, "{case}: {all:?}");
    }
}

/// A call of MPI that alone costs too much is taken out unless that is allowed; then communication is a lower bound.
#[test]
fn calls_of_mpi_that_only_ask_are_taken_out() {
    let _alone = alone();
    for mpi in [Mpi::Mpich, Mpi::OpenMpi] {
        let (home, case) = (Home::new(), format!("{mpi:?}"));
        let mut job = started(mpi, &compiled(&home, mpi, false), &["ask"]);
        // Where others disturb the machine, the window may be over before the call's cost is known.
        let mut windows = (0..WINDOWS_MAX).map(|_| {
            let report = window(&home, &mut job, "--at-least 1");
            println!("{case}: {:?} {:?}", report.cost, report.warnings);
            report
        });
        let is_out = |report: &Report| is_said_to_be_out(report, "MPI_Iprobe");
        let report = windows.find(is_out).expect("one in which it costs too much");
        check_out(&report, "MPI_Iprobe", &case);
        let is_bound = report.warnings.iter().any(|warning| warning.contains("communication is a lower bound"));
        assert!(is_bound, "{case}: {:?}", report.warnings);
        let sums = function(&report, "MPI_Allreduce").expect("it was called");
        let iterations = report.window.iterations.expect("iterations");
        assert_eq!(sums.calls_counted(), u64::from(RANKS) * iterations, "{case}: {sums:?}");
    }
}

/// As many calls as are asked for, of MPI too; then communication is a lower bound, and said to be one.
#[test]
fn calls_of_mpi_are_taken_out_if_asked() {
    let _alone = alone();
    for mpi in [Mpi::Mpich, Mpi::OpenMpi] {
        let (home, case) = (Home::new(), format!("{mpi:?}"));
        let mut job = started(mpi, &compiled(&home, mpi, false), &[]);
        let report = window(&home, &mut job, "--mark MPI_Allreduce --iterations 400 --max-hits 5000");
        println!("{case}: {:?}", report.warnings);
        check_out(&report, "MPI_Iprobe", &case);
        assert_eq!(report.window.iterations, Some(400), "{case}: what counts iterations stays in");
        let is_bound = report.warnings.iter().any(|warning| warning.contains("communication is a lower bound"));
        assert!(is_bound, "{case}: {:?}", report.warnings);
        let sums = function(&report, "MPI_Allreduce").expect("it was called");
        assert_eq!(sums.calls_counted(), u64::from(RANKS) * 400, "{case}: {sums:?}");
        // The function that counts iterations is never taken out: the window ends instead.
        let report = window(&home, &mut job, "--mark MPI_Allreduce --iterations 1000000 --max-hits 20");
        assert_eq!(report.window.ended_by.word(), "probe-limit", "{case}: {:?}", report.warnings);
        let is_said = |warning: &String| warning.contains("--max-hits") && warning.contains("ended early");
        assert!(report.warnings.iter().any(is_said), "{case}: {:?}", report.warnings);
    }
}

/// A trimtab that is killed with one function's probes out leaves what any other leaves.
#[test]
fn what_a_killed_one_left_is_undone() {
    let _alone = alone();
    let (home, mpi) = (Home::new(), Mpi::Mpich);
    let program = compiled(&home, mpi, false);
    let mut job = started(mpi, &program, &[]);
    let pids = job.rank_pids(LIMIT).expect("its ranks");
    let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
    let leaf = address_of(&program, "leaf");
    let code: Vec<[u8; 4]> = pids.iter().map(|pid| bytes_at(*pid, leaf)).collect();
    let mut command = home.command(&["attach", "--follow", "--function", "leaf", &pids[0].to_string()]);
    let mut attach = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("trimtab runs");
    let is_as_before = || pids.iter().zip(&code).all(|(pid, code)| bytes_at(*pid, leaf) == *code);
    wait_for("the probes", || !is_as_before());
    wait_for("that they are taken out", is_as_before);
    let is_patched = || before.iter().any(|before| before.difference_now().expect("its text").is_some());
    assert!(is_patched(), "others stay in");
    attach.kill().expect("it runs");
    attach.wait().expect("it ends");
    assert!(is_patched(), "nobody has undone it");
    let said = home.trimtab(&["undo", &pids[0].to_string()]);
    assert_eq!(said.code, 0, "{said:?}");
    for before in before {
        assert_eq!(before.difference_now().expect("its text"), None, "text of process {}", before.pid());
        assert!(threads_running(before.pid()).expect("its threads") > 0, "it runs");
    }
}

fn address_of(program: &Path, name: &str) -> u64 {
    let output = Command::new("nm").arg(program).output().expect("nm runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("its symbol");
    u64::from_str_radix(line.split(' ').next().unwrap_or_default(), 16).expect("an address")
}

fn bytes_at(pid: i32, address: u64) -> [u8; 4] {
    let mut bytes = [0; 4];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("it runs");
    memory.read_exact_at(&mut bytes, address).expect("its code");
    bytes
}
