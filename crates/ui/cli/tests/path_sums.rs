//! Communication by the place it is called from, and calls by what they carry, beside what a PMPI profiler saw of the very
//! same calls.
//!
//! The programs call `step` with its number as the first thing of each iteration, so a window's iterations are known by the
//! sum of its argument. The profiler notes for each call who called, in which step, how long it took and what it sent.

mod common;

use common::{Home, LIMIT, RANKS, alone, attached_at_work, steps_of};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_specimens::{Launch, Mpi, Running};
use trimtab_types::report::{PathTotal, Report, SizeClass};

const ITERATIONS: u64 = 60;
/// Steps that a program makes, and a window's place among them is asked for early.
const STEPS: u32 = 1500;
/// A window in which the machine took a rank's processor between two readings of clocks is taken anew; a wrong time is wrong
/// in all of them.
const TRIES: u32 = 8;
/// Of the time in a path's calls.
const OFF_MAX: f64 = 0.01;
/// Time that reading clocks around the same call can't tell apart, on a machine that does other work.
const CALL_S: f64 = 0.3e-6;

/// One function from two callers, one of them from a loop, and messages of four sizes.
const C: &str = r#"
#include <mpi.h>
#include <time.h>
#define OWN __attribute__((noinline, noclone))
volatile int last_step;
static int me, other;
static char out[4096], in[4096];
OWN void step(int number) { last_step = number; }
OWN void work(double us) { double end = MPI_Wtime() + us * 1e-6; while (MPI_Wtime() < end) {} }
OWN double solve(double value) {
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        if (i % 2 == me) work(600);
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* solver */
    }
    return sum * 1e-9;
}
OWN double norm(double *values) {
    double most[4];
    if (me == 0) work(900);
    MPI_Allreduce(values, most, 4, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD); /* own */
    return most[0];
}
OWN void exchange(int bytes) {
    if (me == 1) work(300);
    MPI_Sendrecv(out, bytes, MPI_CHAR, other, 0, in, 4096, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* halo */
}
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    other = 1 - me;
    double values[4] = {1, 2, 3, 4};
    for (int number = 1; number <= STEPS; number++) {
        step(number);
        values[0] = solve(values[0]);
        values[1] = norm(values) * 1e-9;
        exchange(number % 4 * 1000);
    }
    MPI_Finalize();
    return 0;
}
"#;

const FORTRAN: &str = "\
module shared
  use iso_c_binding
  integer(c_int), bind(c), volatile :: last_step = 0
  integer :: me, other
contains
  subroutine step(number) bind(c)
    integer(c_int), value :: number
    last_step = number
  end subroutine
end module
program main
  use mpi
  use shared
  implicit none
  integer :: e, number
  real(8) :: values(4)
  call mpi_init(e); call mpi_comm_rank(mpi_comm_world, me, e)
  other = 1 - me
  values = 1
  do number = 1, STEPS
    call step(number)
    call solve(values(1))
    call norm(values)
    call exchange(mod(number, 4) * 1000)
  end do
  call mpi_finalize(e)
end program
subroutine work(us)
  use mpi
  implicit none
  integer, intent(in) :: us
  real(8) :: until
  until = mpi_wtime() + us * 1d-6
  do while (mpi_wtime() < until)
  end do
end subroutine
subroutine solve(value)
  use mpi
  use shared
  implicit none
  real(8), intent(inout) :: value
  real(8) :: total
  integer :: i, e
  do i = 0, 2
    if (mod(i, 2) == me) call work(600)
    call mpi_allreduce(value, total, 1, mpi_double_precision, mpi_sum, mpi_comm_world, e) ! solver
  end do
  value = total * 1d-9
end subroutine
subroutine norm(values)
  use mpi
  use shared
  implicit none
  real(8), intent(inout) :: values(4)
  real(8) :: most(4)
  integer :: e
  if (me == 0) call work(900)
  call mpi_allreduce(values, most, 4, mpi_double_precision, mpi_max, mpi_comm_world, e) ! own
  values(1) = most(1) * 1d-9
end subroutine
subroutine exchange(bytes)
  use mpi, w => mpi_comm_world, ch => mpi_character, ig => mpi_status_ignore
  use shared
  implicit none
  integer, intent(in) :: bytes
  character, save :: out(4096), in(4096)
  integer :: e
  if (me == 1) call work(300)
  call mpi_sendrecv(out, bytes, ch, other, 0, in, 4096, ch, other, 0, w, ig, e) ! halo
end subroutine
";

/// Notes the calls of both languages; Fortran's own entry points, because Open MPI's lead past those of C.
const PROFILER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
extern volatile int last_step __attribute__((weak));
struct call { const char *function; void *from; int step; long bytes; double seconds; };
static struct call *calls;
static long used, room;
static int depth;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static void note(const char *function, void *from, long bytes, double seconds) {
    if (used == room) calls = realloc(calls, (room = room * 2 + 1024) * sizeof *calls);
    calls[used++] = (struct call){function, from, &last_step ? last_step : 0, bytes, seconds};
}
static int size_of(MPI_Datatype type) { int size; PMPI_Type_size(type, &size); return size; }
#define AROUND(function, bytes, call) \
    void *from = __builtin_return_address(0); \
    long sent = bytes; \
    depth++; \
    double begun = now(); \
    call; \
    double seconds = now() - begun; \
    if (--depth == 0) note(function, from, sent, seconds);
int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    AROUND("MPI_Allreduce", (long)count * size_of(type), PMPI_Allreduce(in, out, count, type, op, comm))
    return 0;
}
int MPI_Sendrecv(const void *out, int count, MPI_Datatype type, int to, int tag, void *in, int room_, MPI_Datatype of,
                 int source, int tag_, MPI_Comm comm, MPI_Status *status) {
    AROUND("MPI_Sendrecv", (long)count * size_of(type),
           PMPI_Sendrecv(out, count, type, to, tag, in, room_, of, source, tag_, comm, status))
    return 0;
}
extern void pmpi_allreduce_() __attribute__((weak));
void mpi_allreduce_(void *in, void *out, int *count, int *type, int *op, int *comm, int *error) {
    AROUND("MPI_Allreduce", (long)*count * size_of(MPI_Type_f2c(*type)), pmpi_allreduce_(in, out, count, type, op, comm, error))
}
extern void pmpi_sendrecv_() __attribute__((weak));
void mpi_sendrecv_(void *out, int *count, int *type, int *to, int *tag, void *in, int *room_, int *of, int *source,
                   int *tag_, int *comm, int *status, int *error) {
    AROUND("MPI_Sendrecv", (long)*count * size_of(MPI_Type_f2c(*type)),
           pmpi_sendrecv_(out, count, type, to, tag, in, room_, of, source, tag_, comm, status, error))
}
__attribute__((destructor)) static void write_all(void) {
    char path[4096];
    if (!used || !getenv("PATHS_OUT")) return;
    snprintf(path, sizeof path, "%s.%d", getenv("PATHS_OUT"), (int)getpid());
    FILE *file = fopen(path, "w");
    for (long i = 0; i < used; i++) {
        Dl_info info = {0};
        dladdr(calls[i].from, &info);
        fprintf(file, "%s %s %d %ld %.9f\n", calls[i].function, info.dli_sname ? info.dli_sname : "?", calls[i].step,
                calls[i].bytes, calls[i].seconds);
    }
    fclose(file);
}
"#;

/// A profiler's calls of one function from one function of the program, in the steps of a window.
#[derive(Clone, Debug, Default)]
struct Truth {
    calls: u64,
    bytes: u64,
    seconds: f64,
    sizes: Vec<u64>,
}

type Truths = BTreeMap<(String, String), Truth>;

fn compiled(home: &Home, compiler: &str, mpi: Mpi, (name, text): (&str, &str), options: &[&str]) -> PathBuf {
    let suffix = if compiler == "mpif90" { "f90" } else { "c" };
    let (source, program) = (home.path(&format!("{name}.{suffix}")), home.path(name));
    std::fs::write(&source, text.replace("STEPS", &STEPS.to_string())).expect("its source");
    let compiler = format!("{compiler}.{}", if mpi == Mpi::Mpich { "mpich" } else { "openmpi" });
    // Modules of Fortran are written where the compiler runs.
    let folder = home.path("");
    let built = Command::new(&compiler).args(options).arg("-o").arg(&program).arg(&source).current_dir(folder).status();
    assert!(built.expect("the compiler runs").success(), "{name} is built by {compiler} {options:?}");
    program
}

/// `file:line` of the line that ends in this comment.
fn line_of(file: &str, text: &str, comment: &str) -> String {
    let at = text.lines().position(|line| line.contains(comment)).expect("a line");
    format!("{file}:{}", at + 1)
}

fn truths(prefix: &Path, pids: &[i32], steps: std::ops::Range<u64>) -> Truths {
    let mut truths = Truths::new();
    for pid in pids {
        let path = prefix.with_added_extension(pid.to_string());
        for line in std::fs::read_to_string(&path).expect("what the profiler saw").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<f64>().expect("a number");
            if !steps.contains(&(number(2) as u64)) {
                continue;
            }
            let caller = words[1].trim_end_matches('_').to_owned();
            let truth = truths.entry((words[0].to_owned(), caller)).or_default();
            truth.calls += 1;
            truth.bytes += number(3) as u64;
            truth.seconds += number(4);
            truth.sizes.push(number(3) as u64);
        }
    }
    truths
}

/// A window of `--mark step`, the profiler's numbers of its steps, and the job gone.
fn measured(home: &Home, launch: &Launch, prefix: &Path) -> (Report, Truths) {
    let mut job: Running = launch.start().expect("it starts");
    let options = format!("--mark step --argument step:0 --iterations {ITERATIONS}");
    let (report, pids) = attached_at_work(home, &mut job, &options);
    job.wait(LIMIT).expect("it ends by itself");
    let step = report.functions.iter().find(|row| row.name == "step").expect("step");
    assert_eq!(step.calls_counted(), u64::from(RANKS) * ITERATIONS, "{step:?}");
    let truths = truths(prefix, &pids, steps_of(&report, ITERATIONS));
    (report, truths)
}

/// The one row of a function that comes from a line of the program.
fn row<'a>(report: &'a Report, function: &str, line: &str) -> &'a PathTotal {
    let is_it = |row: &&PathTotal| {
        row.function == function && row.own().is_some_and(|own| own.own && own.line.as_deref() == Some(line))
    };
    let rows: Vec<&PathTotal> = report.paths.iter().filter(is_it).collect();
    assert_eq!(rows.len(), 1, "{function} at {line}: {:#?}", report.paths);
    rows[0]
}

/// Checks all that must be right on a busy machine too; how far the time of each path is off is returned, as a share.
fn check(report: &Report, truths: &Truths, lines: &BTreeMap<&str, String>, name: &str) -> Vec<f64> {
    // The profiler's clock runs while ours are read and while we count.
    let probe_s = report.cost.probe_ns.expect("what a call costs") * 1e-9;
    let off = |((function, caller), truth): (&(String, String), &Truth)| {
        let row = row(report, function, &lines[caller.as_str()]);
        let own = row.own().expect("a function");
        assert_eq!((own.function.as_str(), row.path_missing.as_deref()), (caller.as_str(), None), "{name}: {row:?}");
        assert_eq!((row.calls, row.bytes, row.ranks), (truth.calls, Some(truth.bytes), RANKS), "{name}: {row:?}");
        let time_s = row.time_s.expect("a time");
        let spread = [row.rank_time_s_min, row.rank_time_s_mean, row.rank_time_s_max].map(|one| one.expect("a time"));
        assert!(spread.is_sorted() && (spread[0] + spread[2] - time_s).abs() < 1e-9, "{name}: of two ranks: {row:?}");
        let calls = truth.calls as f64;
        println!("{name}: {function} from {caller}: {time_s} s, {} s to the profiler", truth.seconds);
        (((time_s - (truth.seconds - calls * probe_s)).abs() - calls * CALL_S).max(0.0)) / truth.seconds
    };
    truths.iter().map(off).collect()
}

/// A function's rows are all of it, and so are its sizes.
fn check_whole(report: &Report, truths: &Truths, name: &str) {
    for total in report.functions.iter().filter(|total| total.group.word() == "comm" && total.calls_counted() > 0) {
        let rows: Vec<&PathTotal> = report.paths.iter().filter(|row| row.function == total.name).collect();
        let calls: u64 = rows.iter().map(|row| row.calls).sum();
        let time_s: f64 = rows.iter().filter_map(|row| row.time_s).sum();
        assert_eq!(calls, total.calls_counted(), "{name}: {total:?}");
        assert!((time_s - total.time_s.expect("a time")).abs() < 1e-9 * rows.len() as f64, "{name}: {total:?}");
        if let Some(sizes) = &total.sizes {
            assert_eq!(sizes.iter().map(|size| size.calls).sum::<u64>(), total.calls_counted(), "{name}: {total:?}");
            assert_eq!(
                sizes.iter().map(|size| size.bytes).sum::<u64>(),
                total.bytes.expect("bytes"),
                "{name}: {total:?}"
            );
        }
    }
    for function in ["MPI_Allreduce", "MPI_Sendrecv"] {
        let sent: Vec<u64> =
            truths.iter().filter(|((of, _), _)| of == function).flat_map(|(_, truth)| truth.sizes.clone()).collect();
        let total = report.functions.iter().find(|total| total.name == function).expect("the function");
        let sizes = total.sizes.clone().unwrap_or_default();
        assert_eq!(sizes, classes(&sent), "{name}: {function}");
        assert!(sizes.len() > 1, "{name}: {sizes:?}");
    }
}

/// Sizes by powers of two.
fn classes(sent: &[u64]) -> Vec<SizeClass> {
    let mut classes: BTreeMap<u64, SizeClass> = BTreeMap::new();
    for bytes in sent {
        let from = if *bytes == 0 { 0 } else { 1 << bytes.ilog2() };
        let class = classes.entry(from).or_insert(SizeClass {
            from_bytes: Some(from),
            to_bytes: Some(if from == 0 { 0 } else { 2 * from - 1 }),
            ..SizeClass::default()
        });
        class.calls += 1;
        class.bytes += bytes;
    }
    classes.into_values().collect()
}

fn compare_with_profiler(mpi: Mpi, compiler: &str, text: &str, options: &[&str]) {
    let home = Home::new();
    let file = if compiler == "mpif90" { "callers.f90" } else { "callers.c" };
    let name = format!("{} {compiler} {options:?}", mpi.name());
    let marks = |comment: &str| {
        line_of(file, text, &if compiler == "mpif90" { format!("! {comment}") } else { format!("/* {comment}") })
    };
    let lines = BTreeMap::from([("solve", marks("solver")), ("norm", marks("own")), ("exchange", marks("halo"))]);
    let profiler = compiled(&home, "mpicc", mpi, ("profiler.so", PROFILER), &["-O2", "-w", "-shared", "-fPIC"]);
    let program = compiled(&home, compiler, mpi, ("callers", text), options);
    let prefix = home.path("calls");
    let launch = Launch::mpi(mpi, RANKS, &program).preload(&profiler).env("PATHS_OUT", &prefix);
    let mut least = [f64::INFINITY; 3];
    for _ in 0..TRIES {
        let (report, truths) = measured(&home, &launch, &prefix);
        assert_eq!(truths.len(), 3, "{name}: {truths:?}");
        let off = check(&report, &truths, &lines, &name);
        check_whole(&report, &truths, &name);
        println!("{name}: off by {off:.4?}");
        least.iter_mut().zip(off).for_each(|(least, off)| *least = least.min(off));
        if least.iter().all(|off| *off <= OFF_MAX) {
            return;
        }
    }
    panic!("{name}: the times of the paths are off by {least:.4?} at least");
}

#[test]
fn calls_of_c_are_summed_by_the_line_they_come_from() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        compare_with_profiler(mpi, "mpicc", C, &["-g", "-O2", "-rdynamic", "-fno-optimize-sibling-calls"]);
    }
}

#[test]
fn calls_of_fortran_are_summed_by_the_line_they_come_from() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let options = ["-g", "-O2", "-w", "-fallow-argument-mismatch", "-rdynamic", "-fno-inline", "-fno-ipa-cp"];
        compare_with_profiler(mpi, "mpif90", FORTRAN, &options);
    }
}
