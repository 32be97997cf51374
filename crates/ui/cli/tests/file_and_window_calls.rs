//! Files of MPI, one-sided, persistent and partitioned calls: calls, time and bytes of each, by a program that makes a known
//! number of each in every iteration.

mod common;

use common::{Home, RANKS, alone};
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_specimens::{Launch, Mpi, TextSnapshot, at_work, threads_running};
use trimtab_types::report::{FunctionTotal, Report};

const ITERATIONS: u64 = 20;
/// Bytes of an `int`, of which all payload consists.
const INT: u64 = 4;

const C: &str = r#"
#include <mpi.h>
volatile int last;
__attribute__((noinline, noclone)) void step(int number) { last = number; }
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int me, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int other = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    static int out[1000], in[1000], *shared, got;
    MPI_File file;
    MPI_Win window;
    MPI_Request request, both[2];
    MPI_Status status, statuses[2];
    MPI_Offset at = me * 100000;
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_Win_allocate(4000, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
    for (int number = 1; number <= 100000000; number++) {
        step(number);
        MPI_File_write_at(file, at, out, 300, MPI_INT, &status);
        MPI_File_write_at_all(file, at, out, 200, MPI_INT, &status);
        MPI_File_iwrite_at(file, at + 4000, out, 100, MPI_INT, &request);
        MPI_Wait(&request, &status);
        MPI_File_read_at(file, at, in, 50, MPI_INT, &status);
        MPI_File_iread_at(file, at, in, 25, MPI_INT, &request);
        MPI_Wait(&request, &status);
        MPI_File_seek(file, at, MPI_SEEK_SET);
        MPI_File_write(file, out, 12, MPI_INT, &status);
        MPI_File_write_all(file, out, 13, MPI_INT, &status);
        MPI_Win_fence(0, window);
        MPI_Put(out, 70, MPI_INT, other, 0, 70, MPI_INT, window);
        MPI_Accumulate(out, 30, MPI_INT, other, 100, 30, MPI_INT, MPI_SUM, window);
        MPI_Win_fence(0, window);
        MPI_Win_lock(MPI_LOCK_SHARED, other, 0, window);
        MPI_Get(in, 40, MPI_INT, other, 0, 40, MPI_INT, window);
        MPI_Win_flush(other, window);
        MPI_Fetch_and_op(out, &got, MPI_INT, other, 500, MPI_SUM, window);
        MPI_Win_unlock(other, window);
        MPI_Send_init(out, 20, MPI_INT, other, 1, MPI_COMM_WORLD, &both[0]);
        MPI_Recv_init(in, 20, MPI_INT, before, 1, MPI_COMM_WORLD, &both[1]);
        MPI_Startall(2, both);
        MPI_Waitall(2, both, statuses);
        MPI_Start(&both[1]);
        MPI_Start(&both[0]);
        MPI_Waitall(2, both, statuses);
        MPI_Request_free(&both[0]);
        MPI_Request_free(&both[1]);
#if MPI_VERSION >= 4
        MPI_Psend_init(out, 4, 5, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]);
        MPI_Precv_init(in, 4, 5, MPI_INT, before, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]);
        MPI_Start(&both[0]);
        MPI_Start(&both[1]);
        for (int part = 0; part < 4; part++) MPI_Pready(part, both[0]);
        MPI_Waitall(2, both, statuses);
        MPI_Request_free(&both[0]);
        MPI_Request_free(&both[1]);
#endif
    }
    MPI_Finalize();
    return 0;
}
"#;

const FORTRAN: &str = "\
program main
  use mpi
  implicit none
  integer :: e, me, ranks, other, before, file, window, number, both(2), statuses(mpi_status_size, 2)
  integer :: status(mpi_status_size)
  integer, save :: out(1000), in(1000)
  integer(mpi_offset_kind) :: at
  integer(mpi_address_kind) :: bytes, place, base
  character(1000) :: name
  call mpi_init(e)
  call mpi_comm_rank(mpi_comm_world, me, e)
  call mpi_comm_size(mpi_comm_world, ranks, e)
  other = mod(me + 1, ranks)
  before = mod(me + ranks - 1, ranks)
  at = me * 100000
  call get_command_argument(1, name)
  call mpi_file_open(mpi_comm_world, trim(name), mpi_mode_create + mpi_mode_rdwr + mpi_mode_delete_on_close, &
                     mpi_info_null, file, e)
  bytes = 4000
  call mpi_win_allocate(bytes, 4, mpi_info_null, mpi_comm_world, base, window, e)
  place = 0
  do number = 1, 100000000
    call step(number)
    call mpi_file_write_at(file, at, out, 300, mpi_integer, status, e)
    call mpi_file_read_at_all(file, at, in, 50, mpi_integer, status, e)
    call mpi_win_fence(0, window, e)
    call mpi_put(out, 70, mpi_integer, other, place, 70, mpi_integer, window, e)
    call mpi_win_fence(0, window, e)
    call mpi_send_init(out, 20, mpi_integer, other, 1, mpi_comm_world, both(1), e)
    call mpi_recv_init(in, 20, mpi_integer, before, 1, mpi_comm_world, both(2), e)
    call mpi_startall(2, both, e)
    call mpi_waitall(2, both, statuses, e)
    call mpi_request_free(both(1), e)
    call mpi_request_free(both(2), e)
  end do
  call mpi_finalize(e)
end program
subroutine step(number)
  integer, intent(in) :: number
  integer, volatile :: last
  last = number
end subroutine
";

/// A function, its calls in one iteration, and the `int`s that all of these carry; `None`: it carries nothing.
type Row = (&'static str, u64, Option<u64>);

const OF_C: &[Row] = &[
    ("MPI_File_write_at", 1, Some(300)),
    ("MPI_File_write_at_all", 1, Some(200)),
    ("MPI_File_iwrite_at", 1, Some(100)),
    ("MPI_File_read_at", 1, Some(50)),
    ("MPI_File_iread_at", 1, Some(25)),
    ("MPI_File_write", 1, Some(12)),
    ("MPI_File_write_all", 1, Some(13)),
    ("MPI_Wait", 2, None),
    ("MPI_Win_fence", 2, None),
    ("MPI_Put", 1, Some(70)),
    ("MPI_Accumulate", 1, Some(30)),
    ("MPI_Win_lock", 1, None),
    ("MPI_Get", 1, Some(40)),
    ("MPI_Win_flush", 1, None),
    ("MPI_Fetch_and_op", 1, Some(1)),
    ("MPI_Win_unlock", 1, None),
    ("MPI_Startall", 1, Some(20)),
];

/// Only there in version 4 of the standard.
const PARTITIONED: &[Row] =
    &[("MPI_Psend_init", 1, None), ("MPI_Precv_init", 1, None), ("MPI_Pready", 4, None), ("MPI_Start", 4, Some(40))];

const NOT_PARTITIONED: &[Row] = &[("MPI_Start", 2, Some(20))];

const OF_FORTRAN: &[Row] = &[
    ("MPI_File_write_at", 1, Some(300)),
    ("MPI_File_read_at_all", 1, Some(50)),
    ("MPI_Win_fence", 2, None),
    ("MPI_Put", 1, Some(70)),
    ("MPI_Startall", 1, Some(20)),
    ("MPI_Waitall", 1, None),
];

fn compiled(home: &Home, compiler: &str, mpi: Mpi, text: &str) -> PathBuf {
    let (source, program) = (home.path(if compiler == "mpif90" { "calls.f90" } else { "calls.c" }), home.path("calls"));
    std::fs::write(&source, text).expect("its source");
    let compiler = format!("{compiler}.{}", if mpi == Mpi::Mpich { "mpich" } else { "openmpi" });
    let folder = home.path("");
    let options = ["-g", "-O2", "-w", "-fno-inline", "-fno-ipa-cp"];
    let fortran = (compiler.starts_with("mpif90")).then_some("-fallow-argument-mismatch");
    let mut command = Command::new(&compiler);
    command.args(options).args(fortran).arg("-o").arg(&program).arg(&source).current_dir(folder);
    assert!(command.status().expect("the compiler runs").success(), "{compiler}");
    program
}

/// A window of the program's iterations, after which nothing of it is left.
fn window(home: &Home, mpi: Mpi, program: &Path, options: &str) -> Report {
    let data = home.path("data");
    let mut job = Launch::mpi(mpi, RANKS, program).args([&data]).start().expect("it starts");
    let pids = at_work(&mut job, 30);
    let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
    let (code, report) = home.attach(pids[0], &format!("--iterations {ITERATIONS} {options}")).expect("a report");
    assert_eq!((code, report.window.valid), (0, true), "{:?}", report.warnings);
    for before in before {
        let pid = before.pid();
        assert_eq!(before.difference_now().expect("its text"), None, "text of process {pid}");
        assert!(threads_running(pid).expect("its threads") > 0, "process {pid} runs");
    }
    report
}

fn function<'a>(report: &'a Report, name: &str) -> &'a FunctionTotal {
    report.functions.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name}: {:#?}", report.functions))
}

fn check(report: &Report, rows: &[Row], name: &str) {
    let times = u64::from(RANKS) * ITERATIONS;
    for (called, calls, ints) in rows {
        let row = function(report, called);
        let bytes = ints.map(|ints| ints * INT * times);
        assert_eq!((row.calls_counted(), row.bytes), (calls * times, bytes), "{name}: {row:?}");
        // Open MPI's MPI_Start goes on through a pointer, where nobody follows.
        let is_said = *called == "MPI_Start" && row.time_missing.is_some();
        assert!(is_said || row.time_s.is_some_and(|time_s| time_s > 0.0), "{name}: {row:?}");
        let sizes = row.sizes.as_ref().map(|sizes| sizes.iter().map(|size| (size.calls, size.bytes)));
        let sums = sizes.map(|sizes| sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1)));
        assert_eq!(sums, bytes.map(|bytes| (row.calls_counted(), bytes)), "{name}: {row:?}");
    }
}

/// The `int`s and messages from each rank to the other.
fn check_links(report: &Report, messages: u64, ints: u64, name: &str) {
    assert_eq!(report.links.len(), RANKS as usize, "{name}: {:?}", report.links);
    for link in &report.links {
        let expected = (messages * ITERATIONS, ints * INT * ITERATIONS);
        assert_eq!((link.messages, link.bytes), expected, "{name}: {link:?}");
    }
}

#[test]
fn calls_of_files_windows_and_requests_have_their_time_and_bytes_in_c() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let home = Home::new();
        let program = compiled(&home, "mpicc", mpi, C);
        let report = window(&home, mpi, &program, "--mark step");
        let name = format!("{} C", mpi.name());
        // Put, Accumulate, Get, two of Fetch_and_op, and two messages of requests, or three.
        let has_partitions = report.functions.iter().any(|row| row.name == "MPI_Pready");
        assert_eq!(has_partitions, mpi == Mpi::Mpich, "{name}: which versions of the standard these are");
        let (rows, messages, ints) = if has_partitions { (PARTITIONED, 8, 202) } else { (NOT_PARTITIONED, 7, 182) };
        check(&report, &[OF_C, rows].concat(), &name);
        check_links(&report, messages, ints, &name);
        // By itself, with what lies below it.
        let io = window(&home, mpi, &program, "--mark step --group io");
        let written = function(&io, "MPI_File_write_at");
        assert_eq!((written.group.word(), written.bytes), ("io", Some(300 * INT * u64::from(RANKS) * ITERATIONS)));
        let path = io.paths.iter().find(|row| row.function == "MPI_File_write_at").expect("its path");
        assert!(path.own().is_some_and(|own| own.function == "main"), "{name}: {path:?}");
        let below = function(&io, "pwrite");
        assert!(below.nested_calls > Some(0), "{name}: {below:?}");
        assert!(
            io.ranks.iter().all(|rank| rank.group_s.iter().any(|part| part.group.word() == "io" && part.time_s > 0.0))
        );
    }
}

#[test]
fn calls_of_files_windows_and_requests_have_their_time_and_bytes_in_fortran() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let home = Home::new();
        let report = window(&home, mpi, &compiled(&home, "mpif90", mpi, FORTRAN), "--mark step_");
        let name = format!("{} Fortran", mpi.name());
        check(&report, OF_FORTRAN, &name);
        check_links(&report, 2, 90, &name);
        let line = FORTRAN.lines().position(|line| line.contains("call mpi_file_write_at(")).expect("a line") + 1;
        let row = report.paths.iter().find(|row| row.function == "MPI_File_write_at").expect("its path");
        let own = row.own().expect("a function");
        assert_eq!((row.calls, own.line.as_deref()), (40, Some(&*format!("calls.f90:{line}"))), "{name}: {row:?}");
    }
}
