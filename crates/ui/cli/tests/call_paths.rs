//! Where calls come from: through bindings of Fortran and C++, through wrappers in libraries and tools that stand before
//! MPI, up to the program's own line. The loop that is found is the program's, though all of its calls of one function
//! come from one place of a binding.
//!
//! Each program calls `step` once in each iteration, so whether the iterations are its own is counted, not guessed.

mod common;

use common::{Home, LIMIT, RANKS, Specimen, alone};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use trimtab_specimens::{Launch, Mpi, Running, TextSnapshot, at_work, cpu_ticks, skip, threads_running};
use trimtab_types::report::{CallFrame, Report};

/// Iterations of each window.
const ITERATIONS: u64 = 6;

/// A time step has three reductions of a solver and one of its own, which only the caller tells apart.
const FORTRAN: &str = "\
program steps
  use mpi
  implicit none
  integer :: e, me, it
  real(8) :: s, t
  call mpi_init(e); call mpi_comm_rank(mpi_comm_world, me, e)
  t = 0
  do it = 1, 1000000
    call step(it)
    call solve(t)
    call work(100000, s)
    call mpi_allreduce(mpi_in_place, s, 1, mpi_double_precision, mpi_max, mpi_comm_world, e) ! own
    t = t + s
  end do
  call mpi_finalize(e)
contains
  subroutine solve(t)
    real(8), intent(inout) :: t
    integer :: k
    do k = 1, 3
      call work(100000, s)
      call mpi_allreduce(s, t, 1, mpi_double_precision, mpi_sum, mpi_comm_world, e) ! solver
    end do
  end subroutine
end program
subroutine step(it)
  integer, intent(in) :: it
  integer, volatile :: last
  last = it
end subroutine
subroutine work(n, s)
  integer, intent(in) :: n
  real(8), intent(inout) :: s
  integer :: j
  do j = 1, n
    s = s + sqrt(dble(j))*1d-9
  end do
end subroutine
";

/// Three layers of wrappers, of which the inner two are everybody's.
const LAYERS: &str = r#"
#include <mpi.h>
#define LAYER __attribute__((noinline, noclone))
LAYER double inner(double value) { double sum; MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); return sum + 1; }
LAYER double middle(double value) { char room[200]; room[value > 3] = 1; __asm__("" : : "r"(room) : "memory"); return inner(value) + room[0]; }
double outer(double value) { return middle(value) * 0.5; }
"#;

const CALLERS: &str = r#"
#include <mpi.h>
#include <unistd.h>
#define OWN __attribute__((noinline, noclone))
double outer(double);
volatile int last;
OWN void step(int number) { last = number; }
OWN double work(int count) { double sum = 0; for (int i = 1; i < count / 4; i++) sum += 1.0 / i; usleep(count / 250); return sum; }
OWN double solve(double value) {
    for (int i = 0; i < 3; i++) value += outer(work(40000)); /* solver */
    return value;
}
OWN double norm(double value) {
    return outer(value) + work(40000); /* own */
}
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    double value = 0;
    for (int number = 0; number < 100000000; number++) {
        step(number);
        value = solve(value) * 1e-9;
        value = norm(value) * 1e-9;
    }
    MPI_Finalize();
    return value > 1;
}
"#;

const CPLUSPLUS: &str = r#"
#include <mpi.h>
#include <unistd.h>
#define OWN __attribute__((noinline, noclone))
volatile int last;
extern "C" OWN void step(int number) { last = number; }
OWN double work(int count) { double sum = 0; for (int i = 1; i < count / 4; i++) sum += 1.0 / i; usleep(count / 250); return sum; }
struct Solver {
    OWN double solve(double value) {
        double sum = 0;
        for (int i = 0; i < 3; i++) {
            value += work(40000);
            MPI::COMM_WORLD.Allreduce(&value, &sum, 1, MPI::DOUBLE, MPI::SUM); /* solver */
        }
        return sum;
    }
};
OWN double norm(double value) {
    double most = work(40000);
    MPI::COMM_WORLD.Allreduce(&value, &most, 1, MPI::DOUBLE, MPI::MAX); /* own */
    return most;
}
int main(int argc, char **argv) {
    MPI::Init(argc, argv);
    Solver solver;
    double value = 0;
    for (int number = 0; number < 100000000; number++) {
        step(number);
        value = solver.solve(value) * 1e-9;
        value = norm(value) * 1e-9;
    }
    MPI::Finalize();
    return value > 1;
}
"#;

/// A file's text as a program, or a library, of one of the MPI libraries.
fn compiled(home: &Home, (mpi, language): (Mpi, &str), name: &str, text: &str, options: &[&str]) -> PathBuf {
    let suffix = match language {
        "mpif90" => "f90",
        "mpicxx" => "cc",
        _ => "c",
    };
    let (source, program) = (home.path(&format!("{name}.{suffix}")), home.path(name));
    std::fs::write(&source, text).expect("its source");
    let compiler = format!("{language}.{}", if mpi == Mpi::Mpich { "mpich" } else { "openmpi" });
    let (sources, libraries): (Vec<&str>, Vec<&str>) = options.iter().partition(|option| !option.starts_with("-l"));
    let built = Command::new(&compiler).args(sources).arg("-o").arg(&program).arg(&source).args(libraries).status();
    assert!(built.expect("the compiler runs").success(), "{name} is built by {compiler} {options:?}");
    program
}

fn started(mpi: Mpi, program: &Path) -> Running {
    started_as(Launch::mpi(mpi, RANKS, program))
}

fn started_as(launch: Launch) -> Running {
    let mut job = launch.start().expect("it starts");
    at_work(&mut job, 30);
    job
}

/// A window, after which nothing of it is left.
fn window(home: &Home, job: &mut Running, options: &str) -> Report {
    let pids = job.rank_pids(LIMIT).expect("its ranks");
    let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
    let options = format!("--mark calls {options}");
    let (code, report) = home.attach(pids[0], &options).expect("a report");
    assert!(code == 0 || !report.window.valid, "{code}: {:?}", report.warnings);
    for before in before {
        let pid = before.pid();
        assert_eq!(before.difference_now().expect("its text"), None, "text of process {pid}");
        assert!(threads_running(pid).expect("its threads") > 0, "process {pid} runs");
    }
    report
}

fn calls_of(report: &Report, function: &str) -> u64 {
    report.functions.iter().filter(|row| row.name == function).map(|row| row.calls_counted()).sum()
}

/// `file:line` of the line that ends in this comment.
fn line_of(file: &str, text: &str, comment: &str) -> String {
    let at = text.lines().position(|line| line.contains(comment)).expect("a line");
    format!("{file}:{}", at + 1)
}

/// The iterations are the program's, and the marker's place is one of its lines.
fn check(report: &Report, step: &str, lines: &[(&str, String)], name: &str) {
    let window = &report.window;
    println!("{name}: {:?}, path {:?}", window.marker, window.marker_path);
    assert_eq!(window.marker_source.word(), "detected", "{name}: {window:?}");
    assert_eq!(calls_of(report, step), u64::from(RANKS) * ITERATIONS, "{name}: its own iterations: {window:?}");
    let marker = window.marker.clone().unwrap_or_default();
    let is_named = |(function, line): &&(&str, String)| marker.contains(&format!("from {function} at {line}"));
    assert!(lines.iter().any(|line| is_named(&line)), "{name}: {marker} is none of {lines:?}");
    let own: Vec<&CallFrame> = window.marker_path.iter().filter(|frame| frame.own).collect();
    assert_eq!(own.len(), 1, "{name}: the path ends at the program's own: {:?}", window.marker_path);
    assert!(window.marker_path.last().is_some_and(|frame| frame.own), "{name}: {:?}", window.marker_path);
    assert!(lines.iter().any(|(_, line)| own[0].line.as_ref() == Some(line)), "{name}: {own:?}");
}

#[test]
fn calls_of_fortran_come_from_the_programs_lines() {
    let _alone = alone();
    let home = Home::new();
    let lines =
        [("solve", line_of("steps.f90", FORTRAN, "! solver")), ("steps", line_of("steps.f90", FORTRAN, "! own"))];
    for mpi in Mpi::ALL {
        for options in [&["-O0"][..], &["-O2"], &["-O3", "-fno-omit-frame-pointer"]] {
            let options = [&["-g", "-w", "-fallow-argument-mismatch", "-fno-inline", "-fno-ipa-cp"], options].concat();
            let program = compiled(&home, (mpi, "mpif90"), "steps", FORTRAN, &options);
            let mut job = started(mpi, &program);
            let report = window(&home, &mut job, &format!("--iterations {ITERATIONS} --function step_"));
            let name = format!("{} {options:?}", mpi.name());
            check(&report, "step_", &lines, &name);
            assert!(report.window.marker_path.len() > 1, "{name}: through the binding: {:?}", report.window);
        }
    }
}

#[test]
fn callers_of_a_library_of_wrappers_are_told_apart() {
    let _alone = alone();
    let home = Home::new();
    let folder = home.path("");
    let search = [format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display())];
    let lines =
        [("solve", line_of("callers.c", CALLERS, "/* solver")), ("norm", line_of("callers.c", CALLERS, "/* own"))];
    // A short function that is called as what it calls is passed through, whatever the user says.
    for (mpi, options, inner) in
        [(Mpi::Mpich, "-O0", "inner"), (Mpi::OpenMpi, "-O2", "inner_MPI_Allreduce"), (Mpi::Mpich, "-O3", "inner")]
    {
        let named = format!("-Dinner={inner}");
        let library = compiled(
            &home,
            (mpi, "mpicc"),
            "liblayers.so",
            LAYERS,
            &[options, &named, "-fno-optimize-sibling-calls", "-shared", "-fPIC"],
        );
        let own = ["-g", options, "-fno-optimize-sibling-calls", &search[0], &search[1], "-llayers"];
        let program = compiled(&home, (mpi, "mpicc"), "callers", CALLERS, &own);
        let mut job = started(mpi, &program);
        let asked = format!("--iterations {ITERATIONS} --function step --wrapper liblayers.so");
        let report = window(&home, &mut job, &asked);
        let name = format!("{} {options}", mpi.name());
        check(&report, "step", &lines, &name);
        assert_eq!(report.window.marker_path.len(), 4, "{name}: {:?}", report.window.marker_path);
        let in_library =
            report.window.marker_path[..3].iter().all(|frame| frame.module == "liblayers.so" && !frame.own);
        assert!(in_library, "{name}: {:?}", report.window.marker_path);
        let functions = ["--wrapper inner", "--wrapper middle", "--wrapper outer"].join(" ");
        let report = window(&home, &mut job, &format!("--iterations {ITERATIONS} --function step {functions}"));
        check(&report, "step", &lines, &format!("{name}, by functions"));
        // Nobody has said that it is one of wrappers: its calls are its own.
        let report = window(&home, &mut job, &format!("--iterations {ITERATIONS} --function step"));
        let path = &report.window.marker_path;
        let own = if inner == "inner" { inner } else { "middle" };
        let last = path.last().expect("a frame");
        assert!(last.own && last.module == "liblayers.so" && last.function == own, "{name}: {path:?}");
        assert_eq!(path.len(), if inner == "inner" { 1 } else { 2 }, "{name}: {path:?}");
        drop(library);
    }
}

#[test]
fn without_unwind_tables_a_path_ends_and_that_is_said() {
    let _alone = alone();
    let home = Home::new();
    let folder = home.path("");
    let search = [format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display())];
    let bare = ["-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-optimize-sibling-calls"];
    compiled(&home, (Mpi::Mpich, "mpicc"), "liblayers.so", LAYERS, &[&bare[..], &["-shared", "-fPIC"]].concat());
    let own = ["-g", "-O2", "-fno-optimize-sibling-calls", &search[0], &search[1], "-llayers"];
    let mut job = started(Mpi::Mpich, &compiled(&home, (Mpi::Mpich, "mpicc"), "callers", CALLERS, &own));
    let report = window(&home, &mut job, &format!("--iterations {ITERATIONS} --wrapper liblayers.so"));
    let path = &report.window.marker_path;
    assert!(path.len() == 1 && path[0].function == "inner" && !path[0].own, "{path:?}");
    let is_said = |warning: &String| warning.contains("inner of liblayers.so") && warning.contains("no unwind table");
    assert!(report.warnings.iter().any(is_said), "{:?}", report.warnings);
}

#[test]
fn a_kill_while_paths_are_gone_up_harms_nobody() {
    let _alone = alone();
    let home = Home::new();
    let options = ["-g", "-O2", "-w", "-fallow-argument-mismatch"];
    for mpi in Mpi::ALL {
        let mut job = started(mpi, &compiled(&home, (mpi, "mpif90"), "steps", FORTRAN, &options));
        let pids = job.rank_pids(LIMIT).expect("its ranks");
        let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
        let words = ["attach", "--iterations", "100000000", "--json", "-", &pids[0].to_string()];
        let mut attached = home.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let is_in = |pid: &i32| {
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            maps.contains("/memfd:trimtab")
        };
        let deadline = std::time::Instant::now() + LIMIT;
        while !pids.iter().all(is_in) {
            assert!(std::time::Instant::now() < deadline, "its probes go in");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        std::thread::sleep(std::time::Duration::from_millis(400));
        attached.kill().expect("it is killed");
        attached.wait().expect("it has ended");
        let ticks: Vec<u64> = pids.iter().map(|pid| cpu_ticks(*pid)).collect();
        let works = |(pid, ticks): (&i32, &u64)| cpu_ticks(*pid) > ticks + 20;
        while !pids.iter().zip(&ticks).all(works) {
            assert!(std::time::Instant::now() < deadline, "the ranks work on");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let said = home.trimtab(&["undo", &pids[0].to_string()]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(!pids.iter().any(is_in), "nothing is left: {said:?}");
        for before in before {
            let pid = before.pid();
            assert_eq!(before.difference_now().expect("its text"), None, "text of process {pid}");
            assert!(threads_running(pid).expect("its threads") > 0, "process {pid} runs");
        }
    }
}

#[test]
fn calls_of_cplusplus_bindings_come_from_the_programs_lines() {
    let _alone = alone();
    let home = Home::new();
    let lines = [
        ("Solver::solve", line_of("bound.cc", CPLUSPLUS, "/* solver")),
        ("norm", line_of("bound.cc", CPLUSPLUS, "/* own")),
    ];
    let mut built = 0;
    for mpi in Mpi::ALL {
        for options in ["-O0", "-O2"] {
            if !has_cplusplus_bindings(&home, mpi) {
                skip("C++ bindings", &format!("{} has none; install a library that has", mpi.name()));
                continue;
            }
            built += 1;
            let program = compiled(&home, (mpi, "mpicxx"), "bound", CPLUSPLUS, &["-g", options]);
            let mut job = started(mpi, &program);
            let report = window(&home, &mut job, &format!("--iterations {ITERATIONS} --function step"));
            check(&report, "step", &lines, &format!("{} {options}", mpi.name()));
        }
    }
    println!("{built} programs with C++ bindings");
}

fn has_cplusplus_bindings(home: &Home, mpi: Mpi) -> bool {
    let (source, object) = (home.path("has.cc"), home.path("has.o"));
    std::fs::write(&source, "#include <mpi.h>\nint size() { return MPI::COMM_WORLD.Get_size(); }\n")
        .expect("its source");
    let compiler = format!("mpicxx.{}", if mpi == Mpi::Mpich { "mpich" } else { "openmpi" });
    let tried = Command::new(compiler).arg("-c").arg(&source).arg("-o").arg(&object).output();
    tried.is_ok_and(|output| output.status.success())
}

#[test]
fn a_tool_before_mpi_hides_nobody() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let home = Home::new();
        let program = trimtab_specimens::build("cg", Some(mpi), &Default::default()).expect("the specimen");
        let launch = Launch::mpi(mpi, RANKS, &program).args(["--iterations", "1000000", "--inner", "5"]);
        let mut job = started_as(launch.measured(&home.path("truth")).expect("the wrapper"));
        let report = window(&home, &mut job, &format!("--iterations {ITERATIONS}"));
        let (name, path) = (Specimen::of(mpi, "cg", "").name(), report.window.marker_path.clone());
        println!("{name}: {path:?}");
        assert!(path.last().is_some_and(|frame| frame.own && frame.module == "cg"), "{name}: {path:?}");
        assert!(path.iter().filter(|frame| frame.own).count() == 1, "{name}: {path:?}");
    }
}

/// An outer loop of the module itself, and one inside.
const PYTHON: &str = "\
from mpi4py import MPI
import numpy
comm = MPI.COMM_WORLD
value, total = numpy.ones(10), numpy.zeros(10)
while True:
    for _ in range(3):
        numpy.sort(numpy.random.rand(20000))
        comm.Allreduce(value, total) # inner
    comm.Barrier() # outer
";

/// Functions in functions, methods and a lambda, while another thread runs Python whenever MPI is called without its lock.
const PYTHON_NESTED: &str = "\
import threading
from mpi4py import MPI
import numpy
comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
value, total = numpy.ones(10), numpy.zeros(10)

def spin():
    number = 0
    while True:
        number = (number * 7 + 1) % 1000003

class Solver:
    def dot(self, times):
        for _ in range(times):
            numpy.sort(numpy.random.rand(20000))
            comm.Allreduce(value, total) # dot

    def exchange(self):
        comm.Sendrecv(value, right, # exchange
                      recvbuf=total,
                      source=left)

    def step(self):
        self.dot(2)
        self.exchange()
        self.dot(1)
        for check in [lambda: comm.Barrier()]: # lambda
            check()
        comm.Allreduce(total, value) # step

threading.Thread(target=spin, daemon=True).start()
solver = Solver()
while True:
    solver.step()
";

/// Debian's Python, if it has what these programs need.
fn python() -> Option<PathBuf> {
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap_or_default();
    let has_it =
        Command::new(&python).args(["-c", "import mpi4py.MPI, numpy"]).env("OMPI_ALLOW_RUN_AS_ROOT", "1").output();
    has_it.is_ok_and(|output| output.status.success()).then_some(python)
}

fn window_of_python(text: &str) -> Option<Report> {
    let Some(python) = python() else {
        skip("calls of mpi4py", "Python has no mpi4py or numpy; install python3-mpi4py and python3-numpy");
        return None;
    };
    let home = Home::new();
    let script = home.path("steps.py");
    std::fs::write(&script, text).expect("the script");
    let mut job = started_as(Launch::mpi(Mpi::OpenMpi, RANKS, &python).args([&script]));
    let report = window(&home, &mut job, &format!("--iterations {ITERATIONS}"));
    println!("{:?}: {:?} {:?}", report.window.marker, report.window.marker_path, report.warnings);
    Some(report)
}

/// The function and line from which calls of a function come, and how many in each iteration of a rank.
fn lines_of(report: &Report, function: &str) -> Vec<(String, String, u64)> {
    let rows = report.paths.iter().filter(|row| row.function == function && row.calls > 0);
    let each = rows.map(|row| {
        let own = row.own().expect("a path");
        assert!(own.own && !own.interpreter, "{row:?}");
        (own.function.clone(), own.line.clone().unwrap_or_default(), row.calls)
    });
    let mut each: Vec<(String, String, u64)> = each.collect();
    each.sort();
    each
}

#[test]
fn calls_of_python_come_from_its_lines() {
    let _alone = alone();
    let Some(report) = window_of_python(PYTHON) else { return };
    let path = &report.window.marker_path;
    assert!(path.len() > 2 && path[0].module.starts_with("MPI.") && !path[0].own, "{path:?}");
    let own = path.last().expect("a path");
    assert!(own.own && !own.interpreter && own.module == "steps.py" && own.function == "<module>", "{path:?}");
    let marker = report.window.marker.clone().unwrap_or_default();
    assert!(marker.contains(" from <module> at steps.py:"), "{:?}", report.window);
    assert!(!report.warnings.iter().any(|warning| warning.contains("Python")), "{:?}", report.warnings);
    let iterations = report.window.iterations.expect("it counts");
    let expected = |comment, each: u64| {
        vec![("<module>".to_owned(), line_of("steps.py", PYTHON, comment), u64::from(RANKS) * iterations * each)]
    };
    assert_eq!(lines_of(&report, "MPI_Allreduce"), expected("# inner", 3), "{:?}", report.paths);
    assert_eq!(lines_of(&report, "MPI_Barrier"), expected("# outer", 1), "{:?}", report.paths);
}

#[test]
fn functions_of_python_are_told_apart_while_other_threads_run() {
    let _alone = alone();
    let Some(report) = window_of_python(PYTHON_NESTED) else { return };
    let iterations = report.window.iterations.expect("it counts");
    let expected = |function: &str, comment, each: u64| {
        (function.to_owned(), line_of("steps.py", PYTHON_NESTED, comment), u64::from(RANKS) * iterations * each)
    };
    let (dot, step) = (expected("Solver.dot", "# dot", 3), expected("Solver.step", "# step", 1));
    assert_eq!(lines_of(&report, "MPI_Allreduce"), [dot, step], "{:?}", report.paths);
    let exchange = expected("Solver.exchange", "# exchange", 1);
    assert_eq!(lines_of(&report, "MPI_Sendrecv"), [exchange], "{:?}", report.paths);
    let lambda = expected("Solver.step.<locals>.<lambda>", "# lambda", 1);
    assert_eq!(lines_of(&report, "MPI_Barrier"), [lambda], "{:?}", report.paths);
}
