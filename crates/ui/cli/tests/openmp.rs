//! Parallel regions of OpenMP beside what the program's own clocks in each thread say of the very same steps.
//!
//! The program calls `step` with its number as the first thing of each iteration, so a window's steps are known by the sum of
//! its argument. `openmp/hybrid.c` says what its threads do.

mod common;

use common::{Home, LIMIT, RANKS, alone, attached_at_work, steps_of};
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_specimens::{Launch, Mpi, Running, skip};
use trimtab_types::report::{HybridEfficiencies, Omp, ParallelRegion, Report};

const PROGRAM: &str = include_str!("openmp/hybrid.c");
/// Steps after which the program ends by itself.
const STEPS: u32 = 60_000;
const ITERATIONS: u64 = 40;
const THREADS: u64 = 2;
/// A window in which the machine took a processor between two readings of clocks is taken anew; a wrong number is wrong in all.
const TRIES: u32 = 6;
/// How far a factor, an imbalance, or a part of a region's time of all threads, as a share of it, may be off.
const OFF_MAX: f64 = 0.02;

/// A region in the steps of a window, summed over steps and ranks, seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Truth {
    region: f64,
    busy: f64,
    /// Of each step, the longest of its threads.
    longest: f64,
    barrier: f64,
    lock: f64,
}

/// The program for an MPI library by a compiler for C.
fn compiled(home: &Home, mpi: Mpi, compiler: &str, options: &[&str]) -> PathBuf {
    compiled_of(home, &PROGRAM.replace("STEPS", &STEPS.to_string()), mpi, compiler, options)
}

fn compiled_of(home: &Home, text: &str, mpi: Mpi, compiler: &str, options: &[&str]) -> PathBuf {
    let (source, program) = (home.path("hybrid.c"), home.path("hybrid"));
    std::fs::write(&source, text).expect("its source");
    let mut command = Command::new(format!("mpicc.{}", if mpi == Mpi::Mpich { "mpich" } else { "openmpi" }));
    command.env("MPICH_CC", compiler).env("OMPI_CC", compiler);
    let built = command.args(["-g", "-fopenmp"]).args(options).arg("-o").arg(&program).arg(&source).status();
    assert!(built.expect("the compiler runs").success(), "it is built for {} by {compiler}", mpi.name());
    program
}

/// The program ends when this file is there.
fn until(home: &Home) -> PathBuf {
    home.path("until")
}

/// The two regions as the program's clocks say, of each rank.
fn truths(prefix: &Path, pids: &[i32], steps: &std::ops::Range<u64>) -> Vec<[Truth; 2]> {
    let of_rank = |pid: &i32| {
        let text = std::fs::read_to_string(prefix.with_added_extension(pid.to_string())).expect("the truth");
        let mut truths = [Truth::default(); 2];
        let mut longest = [0.0; 2];
        for line in text.lines() {
            let words: Vec<f64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
            if !steps.contains(&(words[0] as u64)) {
                continue;
            }
            let (region, thread) = (words[1] as usize, words[2] as u64);
            let truth = &mut truths[region];
            truth.region += if thread == 0 { words[3] } else { 0.0 };
            truth.busy += words[4];
            truth.barrier += words[5];
            truth.lock += words[6];
            longest[region] = if thread == 0 { words[4] } else { words[4].max(longest[region]) };
            truth.longest += if thread + 1 == THREADS { longest[region] } else { 0.0 };
        }
        truths
    };
    pids.iter().map(of_rank).collect()
}

/// A window with all ranks as they were, and the truth of its steps by rank.
fn measured(home: &Home, launch: &Launch, prefix: &Path) -> (Report, Vec<[Truth; 2]>) {
    let mut job: Running = launch.start().expect("it starts");
    let options = format!("--group omp --mark step --argument step:0 --iterations {ITERATIONS}");
    let (report, _) = attached_at_work(home, &mut job, &options);
    std::fs::write(until(home), "").expect("a file");
    let by_rank: Vec<i32> = report.ranks.iter().map(|rank| rank.pid).collect();
    job.wait(LIMIT).expect("it ends when told");
    std::fs::remove_file(until(home)).expect("the file");
    let truths = truths(prefix, &by_rank, &steps_of(&report, ITERATIONS));
    (report, truths)
}

/// The region that begins at the line with this comment; of a program without symbols, the one that waits in barriers or not.
fn region<'a>(omp: &'a Omp, (name, is_stripped): (&str, bool), comment: &str) -> &'a ParallelRegion {
    let line = PROGRAM.lines().position(|line| line.contains(comment)).expect("a line") + 1;
    let waits = |region: &ParallelRegion| region.barrier_s.is_some_and(|waited| waited > 0.0);
    let is_it = |region: &&ParallelRegion| {
        let place = region.place.as_ref();
        let is_there =
            || place.is_some_and(|place| place.own && place.line.as_deref() == Some(&format!("hybrid.c:{line}")));
        if is_stripped { waits(region) == comment.contains("uneven") } else { is_there() }
    };
    let found: Vec<&ParallelRegion> = omp.regions.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{name}: one region at line {line}: {omp:#?}");
    let place = found[0].place.as_ref().expect("a place");
    if is_stripped {
        let is_named = found[0].function.starts_with("fn_0x") && found[0].function.ends_with("@hybrid");
        assert!(is_named && place.own && place.line.is_none(), "{name}: {:?} {place:?}", found[0].function);
    } else {
        assert!(comment.contains(place.function.as_str()), "{name}: {place:?} is {comment}");
    }
    found[0]
}

/// Checks what must be right on a busy machine too; how far the times are off is returned, as shares of the threads' time.
fn off(region: &ParallelRegion, truth: &Truth, name: &str) -> Vec<(&'static str, f64)> {
    assert_eq!(region.missing, None, "{name}");
    assert_eq!((region.ranks, region.passes), (RANKS, u64::from(RANKS) * ITERATIONS), "{name}: {region:#?}");
    assert_eq!((region.threads_min, region.threads_max), (Some(THREADS), Some(THREADS)), "{name}: {region:#?}");
    assert_eq!(region.communication_s, Some(0.0), "{name}: {region:#?}");
    let known = |value: Option<f64>| value.expect("a time");
    let whole = known(region.thread_time_s);
    let parts = [region.work_s, region.barrier_s, region.lock_s, region.task_s, region.ends_s].map(known);
    assert!((parts.iter().sum::<f64>() - whole).abs() < 1e-6, "{name}: parts of a whole: {region:#?}");
    let of_threads = THREADS as f64 * truth.region;
    let imbalance = THREADS as f64 * truth.longest / truth.busy - 1.0;
    vec![
        ("time", (whole - of_threads).abs() / of_threads),
        ("work", (parts[0] - truth.busy).abs() / of_threads),
        ("barriers", (parts[1] - truth.barrier).abs() / of_threads),
        ("locks", (parts[2] - truth.lock).abs() / of_threads),
        ("imbalance", (region.imbalance.expect("an imbalance") - imbalance).abs()),
    ]
}

/// The factors as docs/report.md defines them, of the program's clocks; MPI's time is that of the report's ranks.
fn factors_off(report: &Report, truths: &[[Truth; 2]], name: &str) -> Vec<(&'static str, f64)> {
    let omp = report.omp.as_ref().expect("regions");
    let found: &HybridEfficiencies = omp.hybrid.as_ref().unwrap_or_else(|| panic!("{name}: {:?}", omp.hybrid_missing));
    let threads = THREADS as f64;
    let (mut all, mut useful, mut mpi, mut idle) = (0.0, 0.0, 0.0, 0.0);
    let (mut imbalance, mut scheduling, mut serialisation) = (0.0, 0.0, 0.0);
    for (rank, truths) in report.ranks.iter().zip(truths) {
        let sum = |part: fn(&Truth) -> f64| truths.iter().map(part).sum::<f64>();
        let (inside, busy, longest) = (sum(|one| one.region), sum(|one| one.busy), sum(|one| one.longest));
        let communication = rank.communication_s.expect("communication");
        let serial = rank.duration_s - inside - communication;
        all += threads * rank.duration_s;
        useful += serial + busy;
        mpi += communication;
        idle += (threads - 1.0) * communication;
        imbalance += threads * longest - busy;
        scheduling += threads * (inside - longest);
        serialisation += (threads - 1.0) * serial;
    }
    let outside = useful + serialisation + imbalance + scheduling;
    let product = found.mpi_load_balance * found.mpi_communication * found.omp_load_balance * found.omp_scheduling;
    assert!((product * found.omp_serialisation - found.parallel).abs() < 1e-9, "{name}: factors: {found:#?}");
    // TALP's, which has MPI's time in the factors of OpenMP.
    let talp = (useful + mpi) / (useful + mpi + serialisation + imbalance + scheduling);
    let lost_s = found.serialisation_s + found.imbalance_s + found.scheduling_s;
    vec![
        ("parallel", (found.parallel - useful / all).abs()),
        ("mpi", (found.mpi - (1.0 - (mpi + idle) / all)).abs()),
        ("omp", (found.omp - useful / outside).abs()),
        ("omp load balance", (found.omp_load_balance - (1.0 - imbalance / (outside - scheduling))).abs()),
        ("omp scheduling", (found.omp_scheduling - (1.0 - scheduling / outside)).abs()),
        ("omp serialisation", (found.omp_serialisation - useful / (useful + serialisation)).abs()),
        ("TALP's omp", ((found.useful_s + found.mpi_s) / (found.useful_s + found.mpi_s + lost_s) - talp).abs()),
    ]
}

/// Options for a program that has no symbols but that of `step`.
const STRIPPED: [&str; 3] = ["-O2", "-s", "-Wl,--export-dynamic-symbol=step"];

fn compare_with_own_clocks(mpi: Mpi, compiler: &str, options: &[&str]) {
    let home = Home::new();
    let is_stripped = options.contains(&"-s");
    let name = format!("{} {compiler} {options:?}", mpi.name());
    let program = compiled(&home, mpi, compiler, options);
    let prefix = home.path("truth");
    let launch = Launch::mpi(mpi, RANKS, &program).env("TRUTH", &prefix).env("UNTIL", until(&home));
    let launch = launch.env("OMP_NUM_THREADS", THREADS.to_string()).env("OMP_WAIT_POLICY", "passive");
    let mut worst = Vec::new();
    for _ in 0..TRIES {
        let (report, truths) = measured(&home, &launch, &prefix);
        let omp = report.omp.as_ref().expect("regions");
        assert_eq!((omp.threads, omp.nested, omp.regions.len()), (Some(u64::from(RANKS) * THREADS), 0, 2), "{name}");
        let mut all = factors_off(&report, &truths, &name);
        for (at, comment) in [(0, "/* uneven */"), (1, "/* turns */")] {
            let sum = truths.iter().fold(Truth::default(), |sum, rank| Truth {
                region: sum.region + rank[at].region,
                busy: sum.busy + rank[at].busy,
                longest: sum.longest + rank[at].longest,
                barrier: sum.barrier + rank[at].barrier,
                lock: sum.lock + rank[at].lock,
            });
            all.extend(off(region(omp, (&name, is_stripped), comment), &sum, &name));
        }
        // Threads that take turns have as much imbalance in each pass as those that are always the same, and less in sum.
        let of_sums =
            |comment: &str| region(omp, (&name, is_stripped), comment).imbalance_of_sums.expect("an imbalance");
        all.push(("turns", (of_sums("/* turns */") - of_sums("/* uneven */") + 0.1).max(0.0)));
        println!("{name}: off by {all:.4?}");
        worst = all.into_iter().filter(|(_, off)| *off > OFF_MAX).collect();
        if worst.is_empty() {
            return;
        }
    }
    panic!("{name}: off by {worst:.4?} in each window");
}

#[test]
fn gnu_runtime_as_the_threads_own_clocks_say() {
    let _alone = alone();
    compare_with_own_clocks(Mpi::OpenMpi, "gcc", &["-O2"]);
    compare_with_own_clocks(Mpi::Mpich, "gcc", &["-O2"]);
    compare_with_own_clocks(Mpi::OpenMpi, "gcc", &STRIPPED);
}

#[test]
fn llvm_runtime_as_the_threads_own_clocks_say() {
    let _alone = alone();
    if !Path::new("/usr/lib/llvm-14/lib/libomp.so").exists() || Command::new("clang-14").arg("-v").output().is_err() {
        let what = "no clang-14, or no runtime for it. Next: apt-get install clang-14 libomp-14-dev";
        return skip("llvm_runtime_as_the_threads_own_clocks_say", what);
    }
    compare_with_own_clocks(Mpi::Mpich, "clang-14", &["-O2"]);
    compare_with_own_clocks(Mpi::Mpich, "clang-14", &STRIPPED);
}

#[test]
fn a_program_without_symbols_or_unwind_tables_says_what_is_not_known() {
    let _alone = alone();
    let home = Home::new();
    let program = compiled(&home, Mpi::OpenMpi, "gcc", &["-O2", "-s", "-fno-asynchronous-unwind-tables"]);
    let launch = Launch::mpi(Mpi::OpenMpi, RANKS, &program).env("OMP_NUM_THREADS", THREADS.to_string());
    let launch = launch.env("OMP_WAIT_POLICY", "passive").env("UNTIL", until(&home));
    let mut job = launch.start().expect("it starts");
    let pids = job.rank_pids(LIMIT).expect("its ranks");
    let (code, report) = home.attach(pids[0], "--group omp --iterations 20").expect("a report");
    assert_eq!(code, 0, "{:?}", report.warnings);
    let omp = report.omp.as_ref().expect("regions");
    assert!(omp.hybrid.is_none() && omp.hybrid_missing.is_some() && omp.unseen_s > 0.0, "{omp:#?}");
    for region in &omp.regions {
        assert!(region.passes > 0 && region.time_s > 0.0, "{region:#?}");
        assert!(region.missing.is_some() && region.work_s.is_none() && region.imbalance.is_none(), "{region:#?}");
    }
    assert!(
        report.warnings.iter().any(|said| said.contains("at 2 of its calls of the runtime")),
        "{:?}",
        report.warnings
    );
    std::fs::write(until(&home), "").expect("a file");
    job.wait(LIMIT).expect("it ends when told");
}

const JUMPS: &str = include_str!("openmp/jumps.c");
/// Work of both threads in each pass of each of its regions.
const WORK_S: f64 = 400e-6;

/// Compilers end the functions of most regions in a jump to the runtime: these end where that returns.
#[test]
fn regions_that_end_in_a_jump_are_measured_to_their_end() {
    let _alone = alone();
    for (mpi, compiler) in [(Mpi::OpenMpi, "gcc"), (Mpi::Mpich, "clang-14")] {
        let is_there = compiler == "gcc" || Path::new("/usr/lib/llvm-14/lib/libomp.so").exists();
        if is_there {
            regions_that_end_in_a_jump(mpi, compiler);
        }
    }
}

fn regions_that_end_in_a_jump(mpi: Mpi, compiler: &str) {
    let home = Home::new();
    let program = compiled_of(&home, JUMPS, mpi, compiler, &["-O2"]);
    let launch = Launch::mpi(mpi, RANKS, &program).env("OMP_NUM_THREADS", THREADS.to_string());
    let launch = launch.env("OMP_WAIT_POLICY", "passive").env("UNTIL", until(&home));
    let mut job = launch.start().expect("it starts");
    let pids = job.rank_pids(LIMIT).expect("its ranks");
    let mut worst = Vec::new();
    for _ in 0..TRIES {
        let (code, report) = home.attach(pids[0], "--group omp --iterations 40").expect("a report");
        assert_eq!(code, 0, "{compiler}: {:?}", report.warnings);
        let omp = report.omp.as_ref().expect("regions");
        assert_eq!(omp.regions.len(), 3, "{compiler}: {omp:#?}");
        assert!(omp.hybrid.is_some(), "{compiler}: {:?} {:?}", omp.hybrid_missing, report.warnings);
        worst.clear();
        for region in &omp.regions {
            assert_eq!(region.missing, None, "{compiler}: {region:#?}");
            let worked = region.work_s.expect("work") / region.passes as f64 / WORK_S;
            assert!(worked > 0.99, "{compiler}: {worked:.3} of its work was seen: {region:#?}");
            worst.push(worked);
        }
        // Where others have the processor it takes longer.
        if worst.iter().all(|worked| *worked < 1.1) {
            break;
        }
    }
    std::fs::write(until(&home), "").expect("a file");
    job.wait(LIMIT).expect("it ends when told");
    assert!(worst.iter().all(|worked| *worked < 1.1), "{compiler}: {worst:.3?} of the work, in each window");
}

const FORTRAN: &str = include_str!("openmp/uneven.f90");

#[test]
fn a_region_of_fortran_has_its_line_and_its_imbalance() {
    let _alone = alone();
    a_region_of_fortran(&["-O2"]);
    a_region_of_fortran(&["-O2", "-s"]);
}

fn a_region_of_fortran(options: &[&str]) {
    let home = Home::new();
    let (source, program) = (home.path("uneven.f90"), home.path("uneven"));
    std::fs::write(&source, FORTRAN).expect("its source");
    let mut compiler = Command::new("mpif90.openmpi");
    compiler.args(["-g", "-fopenmp", "-w", "-fallow-argument-mismatch"]).args(options);
    assert!(compiler.arg("-o").arg(&program).arg(&source).status().expect("gfortran runs").success());
    let launch = Launch::mpi(Mpi::OpenMpi, RANKS, &program).env("UNTIL", until(&home));
    let launch = launch.env("OMP_NUM_THREADS", THREADS.to_string()).env("OMP_WAIT_POLICY", "passive");
    let mut job = launch.start().expect("it starts");
    let pids = job.rank_pids(LIMIT).expect("its ranks");
    let line = FORTRAN.lines().position(|line| line.contains("! uneven")).expect("a line") + 1;
    let mut found = Vec::new();
    for _ in 0..TRIES {
        let (code, report) = home.attach(pids[0], "--group omp --iterations 40").expect("a report");
        assert_eq!(code, 0, "{:?}", report.warnings);
        let omp = report.omp.expect("regions");
        let region = &omp.regions[0];
        let place = region.place.as_ref().expect("a place");
        let at = format!("uneven.f90:{line}");
        match options.contains(&"-s") {
            true => assert!(region.function.starts_with("fn_0x") && place.line.is_none(), "{region:#?}"),
            false => assert_eq!((place.function.as_str(), place.line.as_deref()), ("uneven", Some(at.as_str()))),
        }
        assert_eq!((omp.regions.len(), region.threads_min, region.threads_max), (1, Some(THREADS), Some(THREADS)));
        found = vec![region.imbalance.expect("one"), region.imbalance_of_sums.expect("one")];
        // 300 us and 100 us.
        if found.iter().all(|imbalance| (imbalance - 0.5).abs() < 0.05) {
            std::fs::write(until(&home), "").expect("a file");
            job.wait(LIMIT).expect("it ends when told");
            return;
        }
    }
    panic!("the imbalance is not about 50% but {found:?}");
}
