//! Starts as recordings: what is seen when, and what is told.

use super::*;
use std::path::PathBuf;
use trimtab_track::fake::Recorded;
use trimtab_track::origin;

const MPICH: &str = "/usr/lib/x86_64-linux-gnu/libmpich.so.12.2.2";
const MS: u64 = 1_000_000;

/// `init(1) - mpiexec.hydra(10) - hydra_pmi_proxy(11) - app(12), app(13)`, the same from 20 on, and `app(30)` alone. No
/// library is loaded yet.
fn machine() -> Recorded {
    let mut machine = Recorded { own: Pid(2), ..Recorded::default() };
    machine.add(Pid(1), Pid(0), "init");
    machine.add(Pid(2), Pid(1), "trimtab");
    for first in [10, 20] {
        machine.add(Pid(first), Pid(1), "mpiexec.hydra");
        machine.add(Pid(first + 1), Pid(first), "hydra_pmi_proxy");
        for (pid, rank) in [(first + 2, "PMI_RANK=0"), (first + 3, "PMI_RANK=1")] {
            machine.add(Pid(pid), Pid(first + 1), "app").variables(&[rank, "PMI_SIZE=2"]);
        }
    }
    machine.add(Pid(30), Pid(1), "app");
    machine
}

fn load(machine: &mut Recorded, pids: &[i32]) {
    for pid in pids {
        machine.processes.get_mut(&Pid(*pid)).expect("a process").mpi(MPICH, &[]);
    }
}

/// Keeps the environment, which [`load`] would empty.
fn load_rank(machine: &mut Recorded, pid: i32) {
    let process = machine.processes.get_mut(&Pid(pid)).expect("a process");
    let environment = process.environment.clone();
    process.mpi(MPICH, &[]).environment = environment;
}

fn seen(machine: &Recorded, pid: i32, seen_ns: u64) -> Sighting {
    Sighting {
        pid: Pid(pid),
        program: PathBuf::from("/opt/app"),
        start_time_ticks: machine.processes.get(&Pid(pid)).map(|process| process.stat.start_time_ticks),
        origin: origin(machine, Pid(pid)).ok(),
        exec_ns: None,
        seen_ns,
        holding: None,
        file: None,
    }
}

/// "number: pids: what" of each start.
fn told(starts: &[Start]) -> Vec<String> {
    let words = |start: &Start| {
        let pids: Vec<String> = start.processes.iter().map(|process| process.pid.to_string()).collect();
        let what = match &start.what {
            ProgramKind::Job(job) => format!("job of {}", job.ranks.len()),
            ProgramKind::NotMpi => "no MPI".to_owned(),
            ProgramKind::Ended => "ended".to_owned(),
            ProgramKind::Refused(error) => error.to_string(),
        };
        format!("{}: {}: {what}", start.number, pids.join(" "))
    };
    starts.iter().map(words).collect()
}

fn look(follow: &mut Follow, machine: &Recorded, now_ns: u64) -> Vec<String> {
    told(&follow.look(machine, &|_| false, now_ns))
}

#[test]
fn two_launches_of_one_program_are_two_starts() {
    let mut machine = machine();
    let mut follow = Follow::default();
    for pid in [12, 22, 13, 23] {
        follow.add(seen(&machine, pid, MS));
    }
    assert_eq!(look(&mut follow, &machine, 5 * MS), [""; 0], "nothing is loaded yet");
    for pid in [12, 13, 22] {
        load_rank(&mut machine, pid);
    }
    assert_eq!(look(&mut follow, &machine, 100 * MS), ["1: 12 13: job of 2"]);
    load_rank(&mut machine, 23);
    assert_eq!(look(&mut follow, &machine, 200 * MS), ["2: 22 23: job of 2"]);
    // A rank that is seen late belongs to the start that was told.
    follow.add(seen(&machine, 13, 210 * MS));
    assert_eq!(look(&mut follow, &machine, 300 * MS), [""; 0]);
}

#[test]
fn ranks_on_other_machines_are_not_waited_for_for_ever() {
    let mut machine = machine();
    let mut follow = Follow::default();
    machine.processes.remove(&Pid(13));
    load_rank(&mut machine, 12);
    follow.add(seen(&machine, 12, 0));
    assert_eq!(look(&mut follow, &machine, 100 * MS), [""; 0]);
    assert_eq!(look(&mut follow, &machine, MISSING_NS + MS), ["1: 12: job of 1"]);
}

#[test]
fn a_program_without_mpi_is_told_after_a_while() {
    let machine = machine();
    let mut follow = Follow::default();
    follow.add(seen(&machine, 30, 0));
    assert_eq!(look(&mut follow, &machine, MS), [""; 0], "not due");
    assert_eq!(look(&mut follow, &machine, 100 * MS), [""; 0]);
    assert_eq!(look(&mut follow, &machine, PLAIN_NS + 100 * MS), ["1: 30: no MPI"]);
    assert_eq!(follow.due_ns(), None);
}

#[test]
fn a_program_without_launcher_is_a_job_of_one() {
    let mut machine = machine();
    load(&mut machine, &[30]);
    let mut follow = Follow::default();
    follow.add(seen(&machine, 30, 0));
    assert_eq!(look(&mut follow, &machine, 10 * MS), ["1: 30: job of 1"]);
}

#[test]
fn what_has_ended_is_told_as_that_each_time() {
    let mut machine = machine();
    let mut follow = Follow::default();
    follow.add(seen(&machine, 30, 0));
    // Its pid was used again.
    machine.processes.get_mut(&Pid(30)).expect("a process").stat.start_time_ticks += 5;
    follow.add(seen(&machine, 99, 0));
    follow.add(seen(&machine, 98, 0));
    assert_eq!(look(&mut follow, &machine, 10 * MS), ["1: 30: ended", "2: 99: ended", "3: 98: ended"]);
}

#[test]
fn a_program_that_may_not_be_measured_is_told_with_the_reason() {
    let mut machine = machine();
    load(&mut machine, &[30]);
    machine.processes.get_mut(&Pid(30)).expect("a process").status.uids = [7; 4];
    let mut follow = Follow::default();
    follow.add(seen(&machine, 30, 0));
    let told = look(&mut follow, &machine, 10 * MS);
    assert!(told.len() == 1 && told[0].contains("belongs to user 7"), "{told:?}");
}

#[test]
fn looks_become_rarer() {
    let machine = machine();
    let mut follow = Follow::default();
    follow.add(seen(&machine, 12, 0));
    let (mut looks, mut now_ns) = (0, 0);
    while now_ns < 1000 * MS {
        now_ns = follow.due_ns().expect("somebody is followed");
        assert_eq!(look(&mut follow, &machine, now_ns), [""; 0]);
        looks += 1;
    }
    assert!((15..40).contains(&looks), "{looks}");
}
