//! Counts that are known beforehand, as a user gets them: volume by degree of a stencil (ScoPro's figure 4), pages that ranks
//! touch per iteration and in whole runs.
//!
//! Next: `crates/job/measure/tests/counters.rs` for tables 3 and 5.

mod common;

use common::{Home, LIMIT, RANKS, Specimen, alone};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_specimens::{Launch, Mpi, TextSnapshot, Variant, build, threads_running};
use trimtab_types::report::{Counter, Report};

/// Side of the stencil, and bytes on each edge in a step.
const SIDE: u32 = 4;
const EDGE_BYTES: u64 = 4000;
/// Pages that `steady` touches in an iteration, and faults beside these in one and in a whole run: of the library.
const PAGES: u64 = 100;
const OTHER_PER_ITERATION_MAX: f64 = 20.0;
const OTHER_MAX: u64 = 5000;
const RUN_ITERATIONS: u64 = 200;

/// Each of 4x4 ranks sends to two to four neighbours and sleeps, so that 16 ranks get by on few processors.
const STENCIL: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int size[2] = {4, 4}, wrap[2] = {0, 0}, a, b, rank;
    static double out[4][500], in[4][500];
    MPI_Comm grid;
    MPI_Init(&argc, &argv);
    MPI_Cart_create(MPI_COMM_WORLD, 2, size, wrap, 0, &grid);
    MPI_Barrier(grid);
    MPI_Comm_rank(grid, &rank);
    if (rank == 0) puts("at work"), fflush(stdout);
    for (;;) {
        MPI_Request all[8];
        int n = 0;
        for (int d = 0; d < 2; d++) {
            MPI_Cart_shift(grid, d, 1, &a, &b);
            MPI_Irecv(in[2 * d], 500, MPI_DOUBLE, a, d, grid, &all[n++]);
            MPI_Irecv(in[2 * d + 1], 500, MPI_DOUBLE, b, d, grid, &all[n++]);
            MPI_Isend(out[2 * d], 500, MPI_DOUBLE, a, d, grid, &all[n++]);
            MPI_Isend(out[2 * d + 1], 500, MPI_DOUBLE, b, d, grid, &all[n++]);
        }
        MPI_Waitall(n, all, MPI_STATUSES_IGNORE);
        usleep(2000);
    }
}
"#;

/// Neighbours of a rank in the stencil: two in a corner, three at an edge, four inside.
fn degree(rank: u32) -> u64 {
    let inside = |at: u32| if at == 0 || at == SIDE - 1 { 1 } else { 2 };
    inside(rank % SIDE) + inside(rank / SIDE)
}

/// ScoPro's figure 4, all 16 values. Open MPI's ranks yield where there are more of them than processors.
#[test]
fn ranks_of_a_stencil_send_by_their_degree() {
    let _alone = alone();
    let home = Home::new();
    let (source, program) = (home.path("stencil.c"), home.path("stencil"));
    std::fs::write(&source, STENCIL).expect("its source");
    let built = Command::new("mpicc.openmpi").arg("-O2").arg("-o").arg(&program).arg(&source).status();
    assert!(built.expect("the compiler runs").success());
    let mut job = Launch::mpi(Mpi::OpenMpi, SIDE * SIDE, &program).start().expect("it starts");
    let pids = job.rank_pids(LIMIT).expect("its ranks");
    let deadline = Instant::now() + LIMIT;
    // Open MPI loads and unloads libraries until then.
    while !job.stdout().contains("at work") {
        assert!(Instant::now() < deadline, "the ranks work");
        std::thread::sleep(Duration::from_millis(10));
    }
    let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
    let (_, report) = home.attach(pids[0], "--iterations 10").expect("a report");
    for before in before {
        assert_eq!(before.difference_now().expect("its text"), None, "text of process {}", before.pid());
        assert!(threads_running(before.pid()).expect("its threads") > 0, "it runs");
    }
    let iterations = report.window.iterations.expect("iterations");
    let mut sent: BTreeMap<u32, (u64, u64)> = (0..SIDE * SIDE).map(|rank| (rank, (0, 0))).collect();
    for link in &report.links {
        let (receivers, bytes) = sent.get_mut(&link.from).expect("a rank");
        (*receivers, *bytes) = (*receivers + 1, *bytes + link.bytes);
    }
    for (rank, (receivers, bytes)) in sent {
        let expected = (degree(rank), degree(rank) * EDGE_BYTES * iterations);
        assert_eq!((receivers, bytes), expected, "rank {rank}: receivers and bytes in {iterations} iterations");
    }
}

/// Windows until one has its counters read on both sides.
const WINDOWS_MAX: usize = 3;

fn page_faults(report: &Report) -> Vec<&Counter> {
    let of_rank = |rank| -> Option<&Counter> { trimtab_types::report::RankTotal::counter(rank, "page-faults") };
    let all: Vec<&Counter> = report.ranks.iter().filter_map(of_rank).collect();
    assert_eq!(all.len(), RANKS as usize, "{:?}", report.ranks);
    all
}

#[test]
fn counters_of_a_window_belong_to_its_iterations() {
    let _alone = alone();
    let home = Home::new();
    let mut job = Specimen::of(Mpi::OpenMpi, "steady", "--iterations 100000000 --pages 100 --sleep-us 2000").start();
    let pid = job.rank_pids(LIMIT).expect("its ranks")[0];
    let window = || home.attach(pid, "--iterations 20 --counters page-faults").expect("a report").1;
    // A busy machine may not let it read on both sides of a window: then there is no number, and another window is asked for.
    let is_known = |report: &Report| page_faults(report).iter().all(|counter| counter.per_iteration.is_some());
    let mut report = window();
    for _ in 1..WINDOWS_MAX {
        if is_known(&report) {
            break;
        }
        report = window();
    }
    for found in page_faults(&report) {
        let each = found.per_iteration.unwrap_or_else(|| panic!("{found:?}"));
        assert!((PAGES as f64..PAGES as f64 + OTHER_PER_ITERATION_MAX).contains(&each), "{found:?}");
    }
}

/// A window by time to the program's end, from its first call on; what can't be known of ranks that are gone says why.
#[test]
fn counters_of_a_whole_run_are_all_that_was_counted() {
    let _alone = alone();
    for mpi in [Mpi::Mpich, Mpi::OpenMpi] {
        let home = Home::new();
        let program = build("steady", Some(mpi), &Variant::default()).expect("the specimen is built");
        let (json, text) = (home.path("report.json"), home.path("said"));
        let launcher = if mpi == Mpi::Mpich { "mpirun.mpich" } else { "mpirun.openmpi" };
        let iterations = RUN_ITERATIONS.to_string();
        let mut command = home.command(&["run", "--follow", "--counters", "page-faults", "--json"]);
        command.arg(&json).args(["--", launcher, "-n", "2"]).arg(&program);
        command.args(["--pages", "100", "--sleep-us", "1000", "--iterations", &iterations]);
        let said = std::fs::File::create(&text).expect("a file");
        let errors = said.try_clone().expect("a file");
        let status = command.stdin(Stdio::null()).stdout(said).stderr(errors).status().expect("trimtab runs");
        assert!(status.success(), "{}: {status}", mpi.name());
        let report = std::fs::read_to_string(&json).expect("a report");
        let report: Report = serde_json::from_str(&report).expect("a report");
        for found in page_faults(&report) {
            let value = found.value.unwrap_or_else(|| panic!("{}: {found:?}", mpi.name()));
            let least = PAGES * RUN_ITERATIONS;
            // Ranks are let go a moment before or behind the first reading: the bounds say how far that goes.
            assert!((least - PAGES..least + OTHER_MAX).contains(&value), "{}: {found:?}", mpi.name());
            assert!(found.at_most.is_some_and(|most| most >= least), "{}: {found:?}", mpi.name());
            assert!(found.at_least <= found.value && found.value <= found.at_most, "{}: {found:?}", mpi.name());
        }
        let said = std::fs::read_to_string(&text).expect("what it said");
        let is_faults = |line: &&str| line.contains("minor faults") || line.contains("page faults, context switches");
        let faults = said.lines().find(is_faults).expect("a line");
        let is_reason = faults.contains("not measured:") || !faults.contains("not measured");
        assert!(is_reason, "{}: a number or a reason: {faults}", mpi.name());
    }
}
