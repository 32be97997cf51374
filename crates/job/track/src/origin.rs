//! Which launch does a process belong to, as far as can be told before it has loaded anything?
//!
//! Asked of a process that has just begun to execute its program: MPI is not mapped yet and it may be gone in a moment,
//! so only its environment and its parents are looked at. Ranks of one launch have one key; two launches, also of one
//! program by one script, have two.
//!
//! Next: `job.rs`, which finds the job when it has loaded MPI.

use crate::error::Error;
use crate::launcher::role;
use crate::procfs::Processes;
use trimtab_mpi::identify_all;
use trimtab_types::Pid;

/// How many parents are followed; guards against a tree that changes meanwhile.
const ANCESTORS_MAX: usize = 64;

/// Where a process comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The same for all ranks of a launch on this machine.
    pub key: String,
    /// True if a launcher gave it a rank: it is an MPI program, or something that a launcher started in its place.
    pub has_rank: bool,
    /// The launcher, or the helper of one, that started it.
    pub launcher: Option<Pid>,
}

/// Looks at a process and its parents.
///
/// # Errors
/// It is gone, or may not be looked at.
pub fn origin(processes: &dyn Processes, pid: Pid) -> Result<Origin, Error> {
    let identities = identify_all(&processes.environment(pid)?);
    let own = processes.stat(pid)?;
    if identities.is_empty() {
        return Ok(Origin {
            key: format!("pid={pid},start={}", own.start_time_ticks),
            has_rank: false,
            launcher: None,
        });
    }
    let mut parts: Vec<String> = identities.into_iter().map(|identity| identity.job_key).collect();
    let launcher = nearest_launcher(processes, own.parent);
    parts.extend(launcher.map(|(pid, start)| format!("by={pid},start={start}")));
    Ok(Origin { key: parts.join(";"), has_rank: true, launcher: launcher.map(|(pid, _)| pid) })
}

/// The nearest launcher or helper of one, and its start: each launch has its own on each machine.
fn nearest_launcher(processes: &dyn Processes, mut pid: Pid) -> Option<(Pid, u64)> {
    for _ in 0..ANCESTORS_MAX {
        let stat = processes.stat(pid).ok()?;
        if role(processes.executable(pid).ok().as_deref(), &stat.command).is_some() {
            return Some((pid, stat.start_time_ticks));
        }
        pid = stat.parent;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Recorded;

    /// `init(1) - mpiexec.hydra(10) - hydra_pmi_proxy(11) - app(12), sh(13) - app(14)`, and the same from 20 on.
    fn machine() -> Recorded {
        let mut machine = Recorded { own: Pid(1), ..Recorded::default() };
        machine.add(Pid(1), Pid(0), "init");
        for first in [10, 20] {
            machine.add(Pid(first), Pid(1), "mpiexec.hydra");
            machine.add(Pid(first + 1), Pid(first), "hydra_pmi_proxy");
            machine.add(Pid(first + 2), Pid(first + 1), "app").variables(&["PMI_RANK=0", "PMI_SIZE=2"]);
            machine.add(Pid(first + 3), Pid(first + 1), "sh").variables(&["PMI_RANK=1", "PMI_SIZE=2"]);
            machine.add(Pid(first + 4), Pid(first + 3), "app").variables(&["PMI_RANK=1", "PMI_SIZE=2"]);
        }
        machine.add(Pid(30), Pid(1), "app");
        machine.add(Pid(31), Pid(1), "app");
        machine
    }

    fn key(machine: &Recorded, pid: i32) -> String {
        origin(machine, Pid(pid)).expect("it is there").key
    }

    #[test]
    fn ranks_of_a_launch_share_a_key_and_two_launches_do_not() {
        let machine = machine();
        assert_eq!(key(&machine, 12), key(&machine, 14));
        assert_eq!(key(&machine, 22), key(&machine, 24));
        assert_ne!(key(&machine, 12), key(&machine, 22));
        assert!(origin(&machine, Pid(12)).expect("a rank").has_rank);
    }

    #[test]
    fn programs_without_launcher_are_each_their_own() {
        let machine = machine();
        assert_ne!(key(&machine, 30), key(&machine, 31));
        assert!(!origin(&machine, Pid(30)).expect("it is there").has_rank);
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_launch() {
        let (before, mut after) = (machine(), machine());
        after.processes.get_mut(&Pid(11)).expect("the proxy").stat.start_time_ticks += 1;
        assert_ne!(key(&before, 12), key(&after, 12));
    }

    #[test]
    fn a_ring_of_parents_ends() {
        let mut machine = machine();
        machine.processes.get_mut(&Pid(13)).expect("the shell").stat.parent = Pid(14);
        assert_ne!(key(&machine, 14), key(&machine, 12));
        assert!(matches!(origin(&machine, Pid(99)), Err(Error::NoSuchProcess { .. })));
    }
}
