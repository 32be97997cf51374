//! Programs that are not what their names say: a file that was replaced while it runs, as by a compiler; ranks that run
//! another program than rank 0; an allocator that stands before the C library's.
//!
//! The file is found through the process, so that the program's own functions and objects are known. Open MPI's objects lie
//! in the program (copy relocations), and what the library calls its own is a copy that nobody has filled: asking the library
//! about that one would end the program.
//!
//! Next: `bad_input.rs` for what is refused.

mod common;

use common::{Home, LIMIT, RANKS, alone};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use trimtab_specimens::{
    Launch, Mpi, TextSnapshot, Variant, at_work, build, cpu_ticks, has_worked, running, threads_running, wait_for,
};

#[test]
fn a_program_whose_file_was_replaced_is_measured_and_left_unharmed() {
    let _alone = alone();
    for mpi in [Mpi::OpenMpi, Mpi::Mpich] {
        let home = Home::new();
        let (program, copy) = (build("particle", Some(mpi), &Variant::default()).expect("it builds"), home.path("app"));
        fs::copy(&program, &copy).expect("a copy");
        // It computes enough to be seen to go on soon.
        let options = "--iterations 100000000 --size 64 --particles 1000 --sleep-us 2000".split(' ');
        let mut job = Launch::mpi(mpi, RANKS, &copy).args(options).start().expect("it starts");
        let pids = at_work(&mut job, 10);
        fs::remove_file(&copy).expect("it is there");
        fs::write(home.path("main.c"), "int main(void) { return 0; }").expect("a source");
        let made = Command::new("cc").arg("-o").arg(&copy).arg(home.path("main.c")).status();
        assert!(made.expect("cc runs").success());
        let pid = pids[0].to_string();
        let said = home.trimtab(&["attach", "--iterations", "5", &pid]);
        assert!(said.code <= 1, "{said:?}");
        let said = home.trimtab(&["functions", &pid, "value@app"]);
        assert!(said.code == 0 && said.stdout.contains("1 function matches value@app"), "{said:?}");
        let ticks = || pids.iter().map(|pid| cpu_ticks(*pid)).collect::<Vec<_>>();
        let then = ticks();
        wait_for("they go on", || ticks().iter().zip(&then).all(|(now, then)| *now >= then.saturating_add(10)));
        for pid in &pids {
            threads_running(*pid).unwrap_or_else(|error| panic!("{}: {error} {said:?}", mpi.name()));
        }
    }
}

/// Both ranks do the same in files of their own.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
volatile int sum; void *volatile kept;
__attribute__((noinline)) int work(int n) { for (int i = 0; i < 100; i++) sum += i * n; return n + sum; }
int main(int count, char **words) {
    MPI_Init(&count, &words);
    for (;;) {
        work(1000);
        kept = malloc(100);
        free(kept);
        usleep(1000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}
"#;
/// An allocator that is preloaded.
const ALLOCATOR: &str = r#"
#include <stddef.h>
void *__libc_malloc(size_t);
volatile long calls;
void *malloc(size_t bytes) { calls++; return __libc_malloc(bytes); }
"#;

/// Each iteration, on a world and on a window whose ranks are those of the world backwards: known bytes from rank to rank.
const ONE_SIDED: &str = r#"
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm back;
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &back);
    double memory[64] = {0}, own[64] = {0}, old[64] = {0};
    MPI_Win window;
    MPI_Win_create(memory, sizeof memory, sizeof(double), MPI_INFO_NULL, back, &window);
    /* The world's rank 0, as the window numbers it. */
    int zero = size - 1;
    for (;;) {
        usleep(2000);
        MPI_Win_fence(0, window);
        if (rank == 1) {
            MPI_Put(own, 10, MPI_DOUBLE, zero, 0, 10, MPI_DOUBLE, window);
            MPI_Put(own, 10, MPI_DOUBLE, MPI_PROC_NULL, 0, 10, MPI_DOUBLE, window);
        }
        MPI_Win_fence(0, window);
        if (rank == 1) MPI_Get(own, 20, MPI_DOUBLE, zero, 0, 20, MPI_DOUBLE, window);
        MPI_Win_fence(0, window);
        if (rank == 2) MPI_Accumulate(own, 30, MPI_DOUBLE, zero, 0, 30, MPI_DOUBLE, MPI_SUM, window);
        MPI_Win_fence(0, window);
        if (rank == 2) {
            MPI_Get_accumulate(own, 3, MPI_DOUBLE, old, 3, MPI_DOUBLE, zero, 0, 3, MPI_DOUBLE, MPI_SUM, window);
            MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, old, 5, MPI_DOUBLE, zero, 0, 5, MPI_DOUBLE, MPI_NO_OP, window);
            MPI_Fetch_and_op(own, old, MPI_DOUBLE, zero, 0, MPI_SUM, window);
        }
        MPI_Win_fence(0, window);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}
"#;

/// Each iteration, on a ring, a line, a graph and distributed graphs that were made of the world backwards: rank i of them is
/// the world's rank 2 - i. On the ring each has itself as a neighbour, too, twice.
const NEIGHBOURS: &str = r#"
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm back, ring, line, graph, plain, weighted, star;
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &back);
    MPI_Comm_rank(back, &rank);
    int around[2] = {1, 1}, not_around[2] = {0, 0}, sides[2] = {size, 1};
    MPI_Cart_create(back, 2, sides, around, 0, &ring);
    MPI_Cart_create(back, 2, sides, not_around, 0, &line);
    int ends[3] = {1, 3, 4}, edges[4] = {1, 0, 2, 1};
    MPI_Graph_create(back, 3, ends, edges, 0, &graph);
    int up = (rank + 1) % size, down = (rank + size - 1) % size, weight = 7;
    MPI_Dist_graph_create_adjacent(back, 1, &down, MPI_UNWEIGHTED, 1, &up, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &plain);
    MPI_Dist_graph_create_adjacent(back, 1, &down, &weight, 1, &up, &weight, MPI_INFO_NULL, 0, &weighted);
    /* Rank 0 hears nobody, the others speak to nobody. */
    int all[2] = {1, 2}, zero = 0;
    MPI_Dist_graph_create_adjacent(back, rank > 0, &zero, MPI_UNWEIGHTED, rank ? 0 : 2, all, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                   0, &star);
    double out[64] = {0}, in[64];
    for (;;) {
        usleep(2000);
        MPI_Neighbor_alltoall(out, 100, MPI_CHAR, in, 100, MPI_CHAR, star);
        /* Down and up on the ring, and twice to itself. */
        MPI_Neighbor_alltoall(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, ring);
        /* Counts of a line that ends: only one of them has both. */
        int counts[4] = {2, 3, 4, 5}, places[4] = {0, 10, 20, 30};
        MPI_Neighbor_alltoallv(out, counts, places, MPI_DOUBLE, in, (int[4]){3, 2, 5, 4}, places, MPI_DOUBLE, line);
        MPI_Neighbor_allgatherv(out, 6, MPI_DOUBLE, in, (int[1]){6}, (int[1]){0}, MPI_DOUBLE, plain);
        MPI_Request request;
        MPI_Ineighbor_allgather(out, 7, MPI_DOUBLE, in, 7, MPI_DOUBLE, weighted, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Datatype types[1] = {MPI_INT};
        MPI_Aint far[1] = {0};
        MPI_Neighbor_alltoallw(out, (int[1]){9}, far, types, in, (int[1]){9}, far, types, weighted);
        MPI_Neighbor_allgather(out, 8, MPI_CHAR, in, 8, MPI_CHAR, graph);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}
"#;

#[test]
fn neighbourhood_collectives_are_followed_to_the_ranks_of_their_topology() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let home = Home::new();
        let program = compile(&home, &format!("mpicc.{}", mpi.name()), NEIGHBOURS, "neighbours", &["-w"]);
        let mut job = Launch::mpi(mpi, 3, &program).start().expect("starts");
        let pids = at_work(&mut job, 10);
        let before: Vec<_> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
        let attached = home.attach(pids[0], "--mark MPI_Barrier --iterations 10 --max-seconds 60");
        let (code, report) = attached.unwrap_or_else(|said| panic!("{said:?}; the program: {}", job.stderr()));
        assert!(code <= 1 && report.window.valid, "{code} {:?}", report.warnings);
        let links: Vec<_> = report.links.iter().map(|link| (link.from, link.to, link.messages, link.bytes)).collect();
        let expected =
            [(0, 1, 30, 320), (0, 2, 40, 1480), (1, 0, 60, 1800), (1, 2, 30, 320), (2, 0, 20, 1080), (2, 1, 70, 2800)];
        assert_eq!(links, expected, "{}: (from, to, messages, bytes)", mpi.name());
        assert!(report.links.iter().all(|link| link.bytes == link.collective_bytes));
        let wait =
            report.functions.iter().find(|row| row.name == "MPI_Wait").and_then(|row| row.waits_missing.as_deref());
        assert!(wait.is_some_and(|why| why.starts_with("it completes what other calls began")), "{wait:?}");
        for (name, bytes) in [
            ("MPI_Neighbor_alltoall", 2480),
            ("MPI_Neighbor_alltoallv", 800),
            ("MPI_Neighbor_allgatherv", 1440),
            ("MPI_Ineighbor_allgather", 1680),
            ("MPI_Neighbor_alltoallw", 1080),
            ("MPI_Neighbor_allgather", 320),
        ] {
            let row = report.functions.iter().find(|row| row.name == name).expect(name);
            assert_eq!((row.bytes, &row.bytes_missing), (Some(bytes), &None), "{}: {name}", mpi.name());
        }
        assert_eq!(report.ranks.iter().map(|rank| rank.unattributed_bytes).sum::<Option<u64>>(), Some(0));
        for (pid, text) in pids.iter().zip(&before) {
            threads_running(*pid).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(text.difference_now().expect("its text"), None);
        }
    }
}

#[test]
fn one_sided_calls_are_followed() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let home = Home::new();
        let program = compile(&home, &format!("mpicc.{}", mpi.name()), ONE_SIDED, "one_sided", &[]);
        // Open MPI makes no window over UCX where processors are not bound, whoever looks.
        let launch = Launch::mpi(mpi, 3, &program).env("OMPI_MCA_osc", "^ucx");
        let mut job = launch.start().expect("starts");
        let pids = job.rank_pids(LIMIT).expect("ranks start");
        let wanted = "--mark MPI_Barrier --iterations 10 --max-seconds 60";
        let attached = home.attach(pids[0], wanted);
        let (code, report) = attached.unwrap_or_else(|said| panic!("{said:?}; the program: {}", job.stderr()));
        assert!(code <= 1 && report.window.valid, "{code} {:?}", report.warnings);
        let links: Vec<_> = report.links.iter().map(|link| (link.from, link.to, link.messages, link.bytes)).collect();
        // A get is sent by whom it reads; of what fetches, the old values come back.
        let expected = [(0, 1, 10, 1600), (0, 2, 30, 720), (1, 0, 10, 800), (2, 0, 30, 2720)];
        assert_eq!(links, expected, "{}: (from, to, messages, bytes)", mpi.name());
        let row = |name: &str| report.functions.iter().find(|row| row.name == name).expect(name);
        let bytes = ["MPI_Put", "MPI_Get", "MPI_Accumulate", "MPI_Get_accumulate"].map(|name| row(name).bytes);
        assert_eq!(bytes, [800, 1600, 2400, 240].map(Some), "{}", mpi.name());
        assert_eq!(report.ranks.iter().map(|rank| rank.unattributed_bytes).sum::<Option<u64>>(), Some(0));
        for pid in &pids {
            threads_running(*pid).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// Compiles a source in the home's folder.
fn compile(home: &Home, compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let (file, made) = (home.path(&format!("{name}.c")), home.path(name));
    fs::write(&file, source).expect("a source");
    let status = Command::new(compiler).args(["-O2", "-g"]).args(flags).arg("-o").arg(&made).arg(&file).status();
    assert!(status.expect("a compiler").success(), "{name}");
    made
}

#[test]
fn ranks_that_differ_and_functions_that_stand_before_the_librarys_are_said() {
    let _alone = alone();
    let (mpi, home) = (Mpi::Mpich, Home::new());
    let compiler = format!("mpicc.{}", mpi.name());
    let one = compile(&home, &compiler, PROGRAM, "one", &[]);
    let other = compile(&home, &compiler, PROGRAM, "other", &["-s"]);
    let allocator = compile(&home, "cc", ALLOCATOR, "liballocator.so", &["-shared", "-fPIC"]);
    let other_name = other.to_str().expect("a path of text");
    let mut job =
        Launch::mpi(mpi, 1, &one).args([":", "-n", "1", other_name]).preload(&allocator).start().expect("starts");
    let pids = job.rank_pids(LIMIT).expect("rank 0 starts");
    wait_for("both work", || {
        running(&other).len() == 1 && pids.iter().chain(&running(&other)).all(|pid| has_worked(*pid))
    });
    let (code, report) = home
        .attach(pids[0], "--function work --group comm,mem --iterations 10 --max-seconds 60")
        .unwrap_or_else(|said| panic!("{said:?}"));
    assert!(code <= 1 && report.window.valid, "{code} {:?}", report.warnings);
    let has = |text: &str| report.warnings.iter().any(|warning| warning.contains(text));
    assert!(has("rank 1 (other) has no function work") && has("malloc of liballocator.so"), "{:?}", report.warnings);
    let calls = |name: &str| report.functions.iter().find(|row| row.name == name).map(|row| row.calls_counted());
    assert_eq!((calls("work"), calls("malloc")), (Some(10), Some(20)), "{:?}", report.functions);
    let said = home.trimtab(&["probe", "entry work { n++ }", &pids[0].to_string(), "--for", "0.3"]);
    assert!(said.stdout.contains("not probed: rank 1: no function matches `work`"), "{said:?}");
    for pid in pids.iter().chain(&running(&other)) {
        threads_running(*pid).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Functions whose names are not spelt as their symbols are, and one that has no code of its own.
const NAMES: &str = r#"
#include <mpi.h>
extern "C" __attribute__((noipa)) void rhs_(int *n) { (*n)++; }
volatile int sum;
__attribute__((noipa)) int advanz(int n) { return n + sum; }
static inline __attribute__((always_inline)) int folded(int n) {
  sum = sum + n;
  return sum;
}
namespace ns { struct S { __attribute__((noipa)) int advanz2(int n) { return n * sum; } }; }
int main(int count, char **words) {
  MPI_Init(&count, &words);
  ns::S s;
  for (int n = 0;; rhs_(&n)) {
    sum = advanz(n) + s.advanz2(n) + folded(n);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < 200000; k++) sum = sum + k;
  }
}
"#;

/// By every command: names as people write them and as `functions` prints them; for what is nowhere, names that are near; for what
/// was inlined, where.
#[test]
fn names_as_people_write_them_are_taken_by_every_command() {
    let _alone = alone();
    let home = Home::new();
    let (source, program) = (home.path("names.cc"), home.path("names"));
    fs::write(&source, NAMES).expect("a source");
    let made = Command::new("mpicxx.mpich").args(["-O2", "-g", "-o"]).arg(&program).arg(&source).status();
    assert!(made.expect("mpicxx runs").success());
    let mut job = Launch::mpi(Mpi::Mpich, 1, &program).start().expect("it starts");
    let rank = at_work(&mut job, 10)[0];
    let before = TextSnapshot::of(rank).expect("its text");
    let pid = rank.to_string();
    let commands = |name: &str, which: &[usize]| {
        let script = format!("entry {name} {{ n++ }}");
        let attach = ["attach", "--iterations", "10", "--mark", "rhs_", "--function", name, &pid];
        let all: [Vec<&str>; 5] = [
            vec!["functions", &pid, name],
            vec!["points", name, &pid, "--kind", "entry"],
            attach.to_vec(),
            vec!["explain", &script, &pid],
            vec!["probe", &script, &pid, "--for", "0.1"],
        ];
        which.iter().map(|at| home.trimtab(&all[*at])).collect::<Vec<_>>()
    };
    const ALL: &[usize] = &[0, 1, 2, 3, 4];
    for (name, shown, which) in [
        ("advanz", "advanz", &[2][..]),
        ("advanz(int)", "advanz", ALL),
        ("ns::S::advanz*", "advanz2", &[0, 1, 4]),
        ("ns::S::advanz2(int)", "advanz2", &[3]),
    ] {
        for said in commands(name, which) {
            let is_found = said.stdout.contains(shown) || said.stdout.contains("1 places in 1 functions");
            assert!(said.code <= 1 && is_found, "{name}: {said:?}");
            assert!(!said.stderr.contains("is one of these meant"), "{name}: {said:?}");
        }
    }
    let missing = [("rhs", "rhs_", &[2, 4][..]), ("advanc", "advanz", &[0]), ("folded", "names.cc:15", &[1, 2])];
    for (name, expected, which) in missing {
        for said in commands(name, which) {
            assert!(said.code > 0 && said.stderr.contains(expected), "{name}: {said:?}");
        }
    }
    assert_eq!(before.difference_now().expect("it runs"), None, "restored");
    threads_running(rank).unwrap_or_else(|error| panic!("{error}"));
}
