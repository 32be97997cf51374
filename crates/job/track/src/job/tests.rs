//! Jobs as recordings: each case is a machine, a question and the answer.

use super::*;
use crate::fake::Recorded;
use trimtab_mpi::Start;

const MPICH: &str = "/usr/lib/x86_64-linux-gnu/libmpich.so.12.2.2";
const OPEN_MPI: &str = "/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4";

fn machine() -> Recorded {
    let mut machine = Recorded { own: Pid(2), ..Recorded::default() };
    machine.add(Pid(1), Pid(0), "init");
    machine.add(Pid(2), Pid(1), "trimtab");
    machine.add(Pid(5), Pid(1), "bash");
    machine
}

/// `bash(5) - mpiexec.hydra(10) - hydra_pmi_proxy(11) - app(12), app(13)`
fn hydra() -> Recorded {
    let mut machine = machine();
    machine.add(Pid(10), Pid(5), "mpiexec.hydra");
    machine.add(Pid(11), Pid(10), "hydra_pmi_proxy");
    for (pid, rank) in [(12, "PMI_RANK=0"), (13, "PMI_RANK=1")] {
        machine.add(Pid(pid), Pid(11), "app").mpi(MPICH, &[rank, "PMI_SIZE=2"]);
    }
    machine
}

/// `bash(5) - orterun(20) - app(21), app(22)`
fn open_mpi() -> Recorded {
    let mut machine = machine();
    machine.add(Pid(20), Pid(5), "orterun");
    for (pid, rank) in [(21, "0"), (22, "1")] {
        open_mpi_rank(&mut machine, pid, 20, rank, "77");
    }
    machine
}

fn open_mpi_rank(machine: &mut Recorded, pid: i32, parent: i32, rank: &str, namespace: &str) {
    let variables = [
        format!("PMIX_RANK={rank}"),
        format!("PMIX_NAMESPACE={namespace}"),
        format!("OMPI_COMM_WORLD_RANK={rank}"),
        "OMPI_COMM_WORLD_SIZE=2".to_owned(),
    ];
    let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
    machine.add(Pid(pid), Pid(parent), "app").mpi(OPEN_MPI, &variables);
}

/// "launcher: pid of rank 0, pid of rank 1...", or the error's text.
fn answer(machine: &Recorded, pid: i32) -> String {
    match find_job_in(machine, Pid(pid), &|program| program.ends_with("static_app")) {
        Ok(job) => {
            let ranks: Vec<String> =
                job.ranks.iter().map(|process| format!("{}={}", process.rank, process.pid)).collect();
            format!("{}: {}", job.launcher.map_or("none".to_owned(), |pid| pid.to_string()), ranks.join(" "))
        }
        Err(error) => error.to_string(),
    }
}

fn check(case: &str, machine: &Recorded, questions: &[i32], expected: &str) {
    for pid in questions {
        let found = answer(machine, *pid);
        assert!(found.contains(expected), "{case}, asked for {pid}: {found}");
    }
}

#[test]
fn every_process_of_a_job_leads_to_it() {
    check("hydra", &hydra(), &[5, 10, 11, 12, 13], "10: 0=12 1=13");
    check("open_mpi", &open_mpi(), &[5, 20, 21, 22], "20: 0=21 1=22");
}

#[test]
fn the_key_is_the_same_for_each_way_to_ask_and_differs_between_runs() {
    let key = |machine: &Recorded, pid| find_job_in(machine, Pid(pid), &|_| false).expect("a job").key;
    let machine = hydra();
    assert_eq!(key(&machine, 10), key(&machine, 13));
    let mut later = hydra();
    later.processes.get_mut(&Pid(10)).expect("launcher").stat.start_time_ticks += 1000;
    assert_ne!(key(&machine, 10), key(&later, 10));
    assert_eq!(key(&open_mpi(), 5), key(&open_mpi(), 22));
}

#[test]
fn shells_and_helpers_with_the_environment_are_no_ranks() {
    let mut machine = hydra();
    let environment = machine.processes[&Pid(12)].environment.clone();
    machine.add(Pid(14), Pid(11), "bash").environment = environment.clone();
    machine.processes.get_mut(&Pid(12)).expect("rank 0").stat.parent = Pid(14);
    machine.add(Pid(15), Pid(12), "sh").environment = environment;
    check("wrapped_rank", &machine, &[10, 12, 13, 14], "10: 0=12 1=13");
}

#[test]
fn copies_that_a_rank_forked_are_no_ranks() {
    let mut machine = hydra();
    let mut copy = machine.processes[&Pid(12)].clone();
    (copy.stat.pid, copy.stat.parent, copy.status.process) = (Pid(16), Pid(12), Pid(16));
    machine.processes.insert(Pid(16), copy);
    check("forked", &machine, &[10, 12, 13, 16], "10: 0=12 1=13");
}

/// Such a child may begin MPI before its parent does.
#[test]
fn a_copy_that_begins_mpi_by_itself_is_no_rank() {
    let mut machine = hydra();
    let mut copy = machine.processes[&Pid(12)].clone();
    machine.processes.get_mut(&Pid(12)).expect("rank 0").at(Start::Before, true);
    (copy.stat.pid, copy.stat.parent, copy.status.process) = (Pid(16), Pid(12), Pid(16));
    copy.start = Some(Start::Within);
    machine.processes.insert(Pid(16), copy);
    // Nobody can tell, or it is still what the launcher started: then it is the rank, and what is around it a program.
    check("untold", &machine, &[10, 13, 16], "10: 0=16 1=13");
    let copy = machine.processes.get_mut(&Pid(16)).expect("the copy");
    copy.environment_now = Some(copy.environment.clone());
    check("same_launch", &machine, &[10, 13, 16], "10: 0=16 1=13");
    for left in ["", "PMI_SIZE=2\0", "PMI_RANK=1\0PMI_SIZE=2\0"] {
        let copy = machine.processes.get_mut(&Pid(16)).expect("the copy");
        copy.environment_now = Some(left.as_bytes().to_vec());
        check("launch_of_its_own", &machine, &[10, 13], "10: 0=12 1=13");
    }
}

#[test]
fn two_jobs_are_kept_apart() {
    let mut machine = hydra();
    machine.processes.extend(open_mpi().processes);
    check(
        "shell_of_both",
        &machine,
        &[5],
        "has 2 MPI jobs below it; give the pid of one of: 10 (mpiexec.hydra), 20 (orterun)",
    );
    check("first", &machine, &[10, 12], "10: 0=12 1=13");
    check("second", &machine, &[20, 22], "20: 0=21 1=22");

    machine.add(Pid(30), Pid(5), "mpiexec.hydra");
    machine.add(Pid(31), Pid(30), "hydra_pmi_proxy");
    machine.add(Pid(32), Pid(31), "app").mpi(MPICH, &["PMI_RANK=0", "PMI_SIZE=2"]);
    check("same_key_other_launcher", &machine, &[30, 32], "30: 0=32");
    check("same_key_first_launcher", &machine, &[10, 12], "10: 0=12 1=13");
}

#[test]
fn spawned_worlds_are_named_but_not_mixed_in() {
    let mut machine = open_mpi();
    open_mpi_rank(&mut machine, 40, 20, "0", "78");
    check("parent_world", &machine, &[5, 20, 21], "20: 0=21 1=22");
    check("spawned_world", &machine, &[40], "20: 0=40");
    let job = find_job_in(&machine, Pid(20), &|_| false).expect("a job");
    assert_eq!(job.other_worlds, [Pid(40)]);
}

#[test]
fn a_launcher_below_a_rank_is_another_job() {
    let mut machine = open_mpi();
    machine.add(Pid(50), Pid(21), "mpiexec.hydra");
    machine.add(Pid(51), Pid(50), "hydra_pmi_proxy");
    machine.add(Pid(52), Pid(51), "app").mpi(MPICH, &["PMIX_RANK=0", "PMIX_NAMESPACE=77", "PMI_RANK=0", "PMI_SIZE=1"]);
    check("outer", &machine, &[20, 21, 22], "20: 0=21 1=22");
    check("inner", &machine, &[50, 51, 52], "50: 0=52");
}

#[test]
fn a_program_without_launcher_is_one_rank() {
    let mut machine = machine();
    machine.add(Pid(60), Pid(5), "app").mpi(OPEN_MPI, &["HOME=/"]);
    check("single", &machine, &[60], "none: 0=60");
    check("shell_of_a_single", &machine, &[5], "none: 0=60");
    let job = find_job_in(&machine, Pid(60), &|_| false).expect("a job");
    assert!(job.is_complete());
    machine.add(Pid(61), Pid(5), "app").mpi(OPEN_MPI, &["HOME=/"]);
    check("two_singles", &machine, &[5], "has 2 MPI jobs below it; give the pid of one of: 60 (app), 61 (app)");
    check("first_single", &machine, &[60], "none: 0=60");
}

#[test]
fn ranks_whose_launcher_is_gone_are_found_by_job_id() {
    let mut machine = open_mpi();
    for pid in [21, 22] {
        machine.processes.get_mut(&Pid(pid)).expect("a rank").stat.parent = Pid(1);
    }
    machine.processes.remove(&Pid(20));
    open_mpi_rank(&mut machine, 23, 1, "0", "99");
    check("orphans", &machine, &[21, 22], "none: 0=21 1=22");
    check("other_orphan", &machine, &[23], "none: 0=23");
}

#[test]
fn slurm_steps_are_found_from_srun_and_from_a_task() {
    let mut machine = machine();
    machine.add(Pid(70), Pid(5), "srun").variables(&["SLURM_JOB_ID=4"]);
    for (step, job, first) in [(71, "SLURM_JOB_ID=4", 72), (80, "SLURM_JOB_ID=9", 82)] {
        machine.add(Pid(step), Pid(1), "slurmstepd");
        for (pid, rank) in [(first, "PMI_RANK=0"), (first + 1, "PMI_RANK=1")] {
            let variables = [rank, "PMI_SIZE=4", job, "SLURM_STEP_ID=0"];
            machine.add(Pid(pid), Pid(step), "app").mpi(MPICH, &variables);
        }
    }
    check("step", &machine, &[70, 71, 72], "71: 0=72 1=73");
    check("other_step", &machine, &[80, 83], "80: 0=82 1=83");
    let job = find_job_in(&machine, Pid(70), &|_| false).expect("a job");
    assert_eq!(job.missing_ranks(), [Rank(2), Rank(3)], "on other machines");
    machine.add(Pid(70), Pid(5), "srun");
    // Other jobs' ranks may be the only ones that have begun.
    check("srun_of_which_nothing_is_known", &machine, &[70], "has no MPI rank on this machine yet");
}

#[test]
fn static_programs_need_the_callers_word() {
    let mut machine = machine();
    machine.add(Pid(10), Pid(5), "mpiexec.hydra");
    machine.add(Pid(12), Pid(10), "static_app").variables(&["PMI_RANK=0", "PMI_SIZE=1"]);
    machine.add(Pid(13), Pid(10), "helper").variables(&["PMI_RANK=0", "PMI_SIZE=1"]);
    check("static", &machine, &[10, 12], "10: 0=12");
}

#[test]
fn what_is_not_found_is_explained() {
    let mut machine = hydra();
    machine.add(Pid(90), Pid(1), "mpirun");
    machine.add(Pid(91), Pid(1), "sleep");
    machine.add(Pid(92), Pid(1), "make");
    machine.add(Pid(93), Pid(92), "cc1");
    machine.add(Pid(94), Pid(1), "old").stat.state = State::Zombie;
    machine.add(Pid(95), Pid(1), "secret").hidden = true;
    #[rustfmt::skip]
    let cases = [
        ("missing", 99, "no process has pid 99"),
        ("launcher_that_waits", 90, "launcher 90 (mpirun) has no MPI rank on this machine yet"),
        ("not_mpi", 91, "process 91 (sleep) is not an MPI program: no MPI library is mapped into it, and it has no child processes"),
        ("not_mpi_with_children", 92, "the 1 processes below it (cc1)"),
        ("zombie", 94, "process 94 (old) has ended (zombie)"),
        ("hidden", 95, "/proc/95/maps may not be read"),
    ];
    for (case, pid, expected) in cases {
        check(case, &machine, &[pid], expected);
    }
    let waiting = find_job_in(&machine, Pid(90), &|_| false).expect_err("no ranks");
    assert!(waiting.is_retryable());
    let other = find_job_in(&machine, Pid(91), &|_| false).expect_err("no MPI");
    assert!(!other.is_retryable());
}

#[test]
fn an_obstacle_at_any_rank_is_the_answer() {
    let mut machine = hydra();
    machine.processes.get_mut(&Pid(13)).expect("rank 1").status.tracer = Some(Pid(5));
    check("traced", &machine, &[10, 12], "process 13 is traced by 5 (bash)");
}

#[test]
fn two_programs_with_one_rank_are_refused() {
    let mut machine = hydra();
    machine.add(Pid(17), Pid(11), "other").mpi(MPICH, &["PMI_RANK=1", "PMI_SIZE=2"]);
    check("same_rank", &machine, &[10, 12], "processes 13 and 17 both are rank 1");
}

#[test]
fn facts_about_a_rank_are_kept() {
    let mut machine = hydra();
    let rank = machine.processes.get_mut(&Pid(13)).expect("rank 1");
    (rank.stat.threads, rank.stat.last_cpu, rank.stat.state) = (9, 3, State::Running);
    (rank.status.seccomp, rank.status.shadow_stack) = (Seccomp::Filter, true);
    rank.namespaces = BTreeMap::from([("pid".to_owned(), "pid:[1]".to_owned())]);
    let job = find_job_in(&machine, Pid(10), &|_| false).expect("a job");
    let rank = &job.ranks[1];
    assert_eq!((rank.threads, rank.last_cpu, rank.state), (9, 3, State::Running));
    assert_eq!((rank.seccomp, rank.shadow_stack), (Seccomp::Filter, true));
    assert_eq!(rank.namespaces_differ, ["pid"]);
    assert_eq!((rank.family, rank.size, rank.identity_source), (Family::Mpich, Some(2), Some("PMI_RANK")));
    assert_eq!(rank.library.as_deref(), Some(std::path::Path::new(MPICH)));
    assert_eq!((rank.uid, rank.cpus_allowed.as_str()), (1000, "0-1"));
}

/// `orterun(20) - app(21), app(22)`, and `app(23), app(24)` that they spawned; Hydra does the same below one proxy.
fn spawning(open: bool) -> Recorded {
    let mut machine = if open { open_mpi() } else { hydra() };
    let first = if open { 23 } else { 14 };
    for (pid, rank) in [(first, "0"), (first + 1, "1")] {
        if open {
            open_mpi_rank(&mut machine, pid, 20, rank, "78");
            let process = machine.processes.get_mut(&Pid(pid)).expect("a rank");
            process.environment.extend(b"OMPI_PARENT_PORT=77.0:41\0");
        } else {
            let rank = format!("PMI_RANK={rank}");
            machine.add(Pid(pid), Pid(11), "app").mpi(MPICH, &["PMI_SPAWNED=1", &rank, "PMI_SIZE=2"]);
        }
    }
    machine
}

#[test]
fn spawned_programs_are_jobs_of_their_own_that_know_their_parent() {
    for (case, open, parents, children) in
        [("open_mpi", true, [21, 22], [23, 24]), ("hydra", false, [12, 13], [14, 15])]
    {
        let machine = spawning(open);
        let job = |pid: i32| find_job_in(&machine, Pid(pid), &|_| false).expect(case);
        let pids = |pids: [i32; 2]| pids.map(Pid).to_vec();
        let ranks = |job: &Job| job.ranks.iter().map(|rank| rank.pid).collect::<Vec<_>>();
        for pid in parents {
            let job = job(pid);
            assert_eq!((ranks(&job), job.other_worlds.clone()), (pids(parents), pids(children)), "{case}");
            assert_eq!((job.spawned, job.parent), (false, vec![]), "{case}");
        }
        for pid in children {
            let job = job(pid);
            assert_eq!((ranks(&job), job.other_worlds.clone()), (pids(children), pids(parents)), "{case}");
            assert_eq!((job.spawned, job.parent), (true, pids(parents)), "{case}");
        }
        let launcher = job(if open { 20 } else { 10 });
        assert_eq!(ranks(&launcher), pids(parents), "{case}: the launcher's own program");
        assert_ne!(job(parents[0]).key, job(children[0]).key, "{case}");
    }
}

#[test]
fn two_spawned_programs_that_can_not_be_told_apart_are_refused() {
    let mut machine = spawning(false);
    for (pid, rank) in [(16, "PMI_RANK=0"), (17, "PMI_RANK=1")] {
        machine.add(Pid(pid), Pid(11), "app").mpi(MPICH, &["PMI_SPAWNED=1", rank, "PMI_SIZE=2"]);
    }
    check("second_spawn", &machine, &[14, 16], "both are rank 0 of one job");
    check("their_parent", &machine, &[12], "10: 0=12 1=13");
}

#[test]
fn ranks_of_a_context_are_picked() {
    let machine = hydra();
    let mut job = find_job_in(&machine, Pid(10), &|_| false).expect("a job");
    let ranks = |job: &Job, context: &str| -> Vec<u32> {
        let context: Context = context.parse().expect("a context");
        job.within(&context, "n1").ranks.iter().map(|process| process.rank.0).collect()
    };
    for (context, expected) in [
        ("all", &[0, 1][..]),
        ("1", &[1]),
        ("host:n1", &[0, 1]),
        ("host:n2", &[]),
        ("host:n1 except 0", &[1]),
        ("5", &[]),
    ] {
        assert_eq!(ranks(&job, context), expected, "{context}");
    }
    let one: Context = "1".parse().expect("a context");
    assert_eq!(job.within(&one, "n1").size, Some(2));
    job.size = None;
    assert_eq!(job.within(&one, "n1").size, Some(2), "as many as are here");
}

/// `bash(5) - timeout(9) - mpiexec.hydra(10) - hydra_pmi_proxy(11) - sh(14), sh(15) - app(12), app(13)`, all preloaded with a
/// tool that has the library with it; `app` asks for `MPI_Init`.
fn preloaded(ranks: Start) -> Recorded {
    let mut machine = machine();
    let tool = "LD_PRELOAD=libmpich.so.12";
    for (pid, parent, command) in [(9, 5, "timeout"), (10, 9, "mpiexec.hydra"), (11, 10, "hydra_pmi_proxy")] {
        machine.add(Pid(pid), Pid(parent), command).mpi(MPICH, &[tool]).at(Start::Before, false);
    }
    for (shell, pid, rank) in [(14, 12, "PMI_RANK=0"), (15, 13, "PMI_RANK=1")] {
        let variables = [tool, rank, "PMI_SIZE=2"];
        machine.add(Pid(shell), Pid(11), "sh").mpi(MPICH, &variables).at(Start::Before, false);
        machine.add(Pid(pid), Pid(shell), "app").mpi(MPICH, &variables).at(ranks, true);
    }
    machine
}

#[test]
fn launchers_and_shells_with_an_mpi_library_in_memory_are_no_ranks() {
    for start in [Start::Before, Start::Within, Start::Behind] {
        let machine = preloaded(start);
        check("preloaded", &machine, &[9, 10, 11, 12, 13, 14, 15], "10: 0=12 1=13");
        check("shell_around_all", &machine, &[5], "10: 0=12 1=13");
    }
    // One that can't be told of is no rank if it is a launcher, and is believed its environment if not.
    let mut machine = preloaded(Start::Behind);
    for process in machine.processes.values_mut() {
        process.start = None;
    }
    machine.processes.retain(|pid, _| ![14, 15].contains(&pid.0));
    for pid in [12, 13] {
        machine.processes.get_mut(&Pid(pid)).expect("a rank").stat.parent = Pid(11);
    }
    check("untold", &machine, &[10, 11, 12, 13], "10: 0=12 1=13");
}

#[test]
fn programs_around_ranks_give_way_to_who_has_called_mpi_init() {
    // The wrapper asks for MPI_Init itself, and may be first: then it is the rank, until its child is one.
    let mut machine = preloaded(Start::Behind);
    for shell in [14, 15] {
        machine.processes.get_mut(&Pid(shell)).expect("a shell").asks_for_mpi = true;
    }
    check("wrapper", &machine, &[9, 10, 12, 13, 14, 15], "10: 0=12 1=13");
    for pid in [12, 13] {
        machine.processes.remove(&Pid(pid));
    }
    check("before_its_child", &machine, &[10, 14, 15], "10: 0=14 1=15");
    // A driver that is linked with MPI and starts ranks by a launcher.
    let mut machine = hydra();
    machine.add(Pid(8), Pid(5), "driver").mpi(MPICH, &["HOME=/"]).at(Start::Before, true);
    check("driver_alone", &machine, &[8], "none: 0=8");
    machine.processes.get_mut(&Pid(10)).expect("launcher").stat.parent = Pid(8);
    check("driver", &machine, &[5, 8, 10, 12], "10: 0=12 1=13");
    machine.processes.get_mut(&Pid(8)).expect("driver").start = Some(Start::Behind);
    check("driver_that_is_a_rank_itself", &machine, &[8], "none: 0=8");
}

#[test]
fn where_nothing_has_called_mpi_init_it_is_said() {
    let mut machine = preloaded(Start::Before);
    for pid in [12, 13] {
        machine.processes.remove(&Pid(pid));
    }
    check("launcher_that_waits", &machine, &[10], "launcher 10 (mpiexec.hydra) has no MPI rank on this machine yet");
    check("names", &machine, &[10], "14 (sh), 15 (sh) has an MPI library in memory, but has not called MPI_Init");
    machine.add(Pid(60), Pid(1), "sleep").mpi(OPEN_MPI, &["LD_PRELOAD=libmpi.so.40"]).at(Start::Before, false);
    check(
        "preloaded_sleep",
        &machine,
        &[60],
        "process 60 (sleep) is not an MPI program: 60 (sleep) has an MPI library",
    );
}
