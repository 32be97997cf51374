//! The owner of a process: the job itself, another Slurm job, another MPI job, or just a user.
//!
//! Slurm's own word comes first (control group, or its daemon above the process), then a rank that a launcher wrote into
//! the environment; what is neither belongs to its user. Environments of other users can't be read: their MPI jobs
//! without Slurm count as theirs.
//!
//! Next: `look`, which asks this of every process.

use std::collections::BTreeSet;
use trimtab_track::slurm::SlurmTask;
use trimtab_track::{Processes, origin};
use trimtab_types::Pid;

/// Parents that are followed; guards against a tree that changes meanwhile.
const ANCESTORS_MAX: usize = 64;

/// The owner of a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ownership {
    /// The job's that is asked about, or ours.
    Own,
    /// The kernel's own threads.
    Kernel,
    /// A step's of a Slurm job.
    Slurm {
        /// `JOB.STEP`.
        step: String,
    },
    /// An MPI job's, without Slurm.
    Mpi {
        /// Its launcher, or the helper of one.
        launcher: Pid,
    },
    /// A user's.
    User {
        /// The user.
        uid: u32,
    },
}

/// The processes of the job that is asked about.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Its ranks, its launcher, and ourselves; whatever these started is the job's, too.
    pub pids: BTreeSet<Pid>,
    /// Its launch, as [`trimtab_track::Origin::key`] names it.
    keys: BTreeSet<String>,
    /// Its number in Slurm.
    slurm: BTreeSet<u32>,
}

impl Own {
    /// The job of these ranks.
    pub fn of(processes: &dyn Processes, ranks: &[Pid], launcher: Option<Pid>) -> Own {
        let mut own = Own { pids: ranks.iter().copied().chain(launcher).collect(), ..Own::default() };
        for rank in ranks {
            own.keys.extend(origin(processes, *rank).ok().filter(|origin| origin.has_rank).map(|origin| origin.key));
            own.slurm.extend(slurm_task(processes, *rank).map(|task| task.job));
        }
        own.pids.insert(processes.own_pid());
        own
    }

    /// The owner of a process.
    pub fn whose(&self, processes: &dyn Processes, pid: Pid, uid: u32) -> Ownership {
        if ancestors(processes, pid).any(|(pid, _)| self.pids.contains(&pid)) {
            return Ownership::Own;
        }
        if let Some(task) = slurm_task(processes, pid) {
            let is_own = self.slurm.contains(&task.job);
            return if is_own {
                Ownership::Own
            } else {
                Ownership::Slurm { step: format!("{}.{}", task.job, task.step) }
            };
        }
        match origin(processes, pid).ok().filter(|origin| origin.has_rank) {
            Some(origin) if self.keys.contains(&origin.key) => Ownership::Own,
            Some(origin) => origin.launcher.map_or(Ownership::User { uid }, |launcher| Ownership::Mpi { launcher }),
            None => Ownership::User { uid },
        }
    }
}

/// The process, its parent and so on, with their names.
fn ancestors(processes: &dyn Processes, pid: Pid) -> impl Iterator<Item = (Pid, String)> {
    let mut next = Some(pid);
    let climb = move || {
        let pid = next.take().filter(|pid| pid.0 > 1)?;
        let stat = processes.stat(pid).ok()?;
        next = Some(stat.parent);
        Some((pid, stat.command))
    };
    std::iter::from_fn(climb).take(ANCESTORS_MAX)
}

/// The step of Slurm that a process is part of, by Slurm's own word.
fn slurm_task(processes: &dyn Processes, pid: Pid) -> Option<SlurmTask> {
    let of_group = processes.control_group(pid).ok().and_then(|text| SlurmTask::of_group(&text));
    of_group.or_else(|| {
        let daemon = ancestors(processes, pid).find(|(_, command)| command == "slurmstepd");
        SlurmTask::of_daemon(&processes.arguments(daemon?.0).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_track::fake::Recorded;

    /// `mpiexec(10) - proxy(11) - app(12)`, the same from 20 and 40 on, `slurmstepd(30) - app(31)`, a shell(50).
    fn machine() -> Recorded {
        let mut machine = Recorded { own: Pid(99), ..Recorded::default() };
        machine.add(Pid(1), Pid(0), "init");
        machine.add(Pid(99), Pid(1), "trimtab");
        for first in [10, 20, 40] {
            machine.add(Pid(first), Pid(1), "mpiexec.hydra");
            machine.add(Pid(first + 1), Pid(first), "hydra_pmi_proxy");
            machine.add(Pid(first + 2), Pid(first + 1), "app").variables(&["PMI_RANK=0", "PMI_SIZE=1"]);
        }
        machine.add(Pid(13), Pid(12), "helper");
        machine.add(Pid(30), Pid(1), "slurmstepd").arguments = vec!["slurmstepd:".to_owned(), "[12.0]".to_owned()];
        machine.add(Pid(31), Pid(30), "app").variables(&["PMI_RANK=0", "PMI_SIZE=1"]);
        machine.add(Pid(32), Pid(1), "daemon").control_group = "0::/slurm/uid_7/job_12/step_batch/task_0\n".to_owned();
        machine.add(Pid(50), Pid(1), "sh");
        machine.processes.get_mut(&Pid(42)).expect("app").hidden = true;
        machine
    }

    #[test]
    fn processes_are_told_apart() {
        let machine = machine();
        let own = Own::of(&machine, &[Pid(12)], Some(Pid(10)));
        for (name, pid, expected) in [
            ("a rank", 12, Ownership::Own),
            ("what a rank started", 13, Ownership::Own),
            ("the launcher", 10, Ownership::Own),
            ("ourselves", 99, Ownership::Own),
            ("another launch", 22, Ownership::Mpi { launcher: Pid(21) }),
            ("a launcher is no rank", 20, Ownership::User { uid: 1000 }),
            ("below a step's daemon", 31, Ownership::Slurm { step: "12.0".to_owned() }),
            ("in a step's group", 32, Ownership::Slurm { step: "12.batch".to_owned() }),
            ("a shell", 50, Ownership::User { uid: 1000 }),
            ("an environment that can't be read", 42, Ownership::User { uid: 1000 }),
        ] {
            assert_eq!(own.whose(&machine, Pid(pid), 1000), expected, "{name}");
        }
        let own = Own::of(&machine, &[Pid(31)], None);
        assert_eq!(own.whose(&machine, Pid(32), 1000), Ownership::Own, "another step of the same Slurm job");
        assert_eq!(own.whose(&machine, Pid(12), 1000), Ownership::Mpi { launcher: Pid(11) });
    }
}
