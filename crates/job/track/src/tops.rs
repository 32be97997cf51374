//! Processes below which the ranks of a job begin, while it may have none yet: Slurm's daemons of its steps on this machine,
//! or what a launcher has started here.
//!
//! It is asked again and again while a job is about to begin, so what has been looked at and begins nothing is not looked at
//! again once it is old: a daemon or a helper executes its program soon after it was started.
//!
//! Next: `trimtab-measure`'s `first_call`, which holds what begins below them.

use crate::job::mark_in;
use crate::launcher::{Role, is_slurm_step, role};
use crate::procfs::Processes;
use crate::slurm::{SlurmRun, SlurmTask};
use std::collections::BTreeSet;
use trimtab_types::Pid;

/// A process that is so much older than the newest one executes no helper any more, in clock ticks of 10 ms.
const YOUNG_TICKS: u64 = 3000;

/// Looks for them.
#[derive(Debug)]
pub struct Tops {
    whose: TopKind,
    /// Old ones that are none.
    known: BTreeSet<Pid>,
    newest_ticks: u64,
}

#[derive(Debug)]
enum TopKind {
    Slurm { run: SlurmRun, own_uid: u32 },
    Launch { mark: String, uid: u32 },
}

impl Tops {
    /// Slurm's daemons for one run of a job. Only root's count, and those of user `own_uid`, who asks: a name is anybody's.
    pub fn of_slurm(run: SlurmRun, own_uid: u32) -> Tops {
        Tops::of(TopKind::Slurm { run, own_uid })
    }

    /// Processes of user `uid` that belong to the launch with this mark, which is for all to see.
    pub fn of_launch(mark: &str, uid: u32) -> Tops {
        Tops::of(TopKind::Launch { mark: mark.to_owned(), uid })
    }

    fn of(whose: TopKind) -> Tops {
        Tops { whose, known: BTreeSet::new(), newest_ticks: 0 }
    }

    /// Those that are there now.
    pub fn now(&mut self, processes: &dyn Processes) -> Vec<Pid> {
        let pids = processes.pids().unwrap_or_default();
        self.known.retain(|pid| pids.binary_search(pid).is_ok());
        let mut tops = BTreeSet::new();
        for pid in pids {
            if self.known.contains(&pid) {
                continue;
            }
            let Ok(stat) = processes.stat(pid) else { continue };
            self.newest_ticks = self.newest_ticks.max(stat.start_time_ticks);
            match self.whose.top(processes, pid, &stat.command, stat.parent) {
                Some(top) => drop(tops.insert(top)),
                None if stat.start_time_ticks + YOUNG_TICKS < self.newest_ticks => drop(self.known.insert(pid)),
                None => {}
            }
        }
        tops.into_iter().collect()
    }
}

impl TopKind {
    /// The top that a process shows: itself, or the launcher on whose behalf it reaches another machine.
    fn top(&self, processes: &dyn Processes, pid: Pid, command: &str, parent: Pid) -> Option<Pid> {
        match self {
            TopKind::Slurm { run, own_uid } => {
                let task = SlurmTask::of_daemon(&processes.arguments(pid).ok().filter(|_| is_slurm_step(command))?)?;
                let is_wanted = run.jobs.contains(&task.job) && run.step.is_none_or(|step| step == task.step);
                let uid = processes.status(pid).ok().filter(|_| is_wanted)?.uids[1];
                (uid == 0 || uid == *own_uid).then_some(pid)
            }
            TopKind::Launch { mark, uid } => {
                let is_theirs = |pid| processes.status(pid).is_ok_and(|status| status.uids[1] == *uid);
                let role_of = |pid, command: &str| role(processes.executable(pid).ok().as_deref(), command);
                let words = processes.arguments(pid).ok()?;
                if mark_in(&words).as_deref() != Some(mark.as_str()) || !is_theirs(pid) {
                    return None;
                }
                if role_of(pid, command).is_some() {
                    return Some(pid);
                }
                let above = processes.stat(parent).ok()?.command;
                (role_of(parent, &above) == Some(Role::FrontEnd) && is_theirs(parent)).then_some(parent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Recorded;
    use crate::slurm::Step;

    fn machine() -> Recorded {
        let mut machine = Recorded { own: Pid(2), ..Recorded::default() };
        machine.add(Pid(1), Pid(0), "init");
        machine.add(Pid(2), Pid(1), "trimtab");
        machine
    }

    fn daemon(machine: &mut Recorded, pid: i32, title: &str, uid: u32) {
        let process = machine.add(Pid(pid), Pid(1), "slurmstepd");
        process.arguments = vec![title.to_owned()];
        process.status.uids = [uid; 4];
    }

    fn run(step: Option<Step>) -> SlurmRun {
        SlurmRun { jobs: BTreeSet::from([7]), step, restarts: 0, listed: None }
    }

    #[test]
    fn slurms_own_daemons_are_told_from_what_bears_their_name() {
        let mut machine = machine();
        let mut tops = Tops::of_slurm(run(None), 1000);
        assert_eq!(tops.now(&machine), [Pid(0); 0]);
        daemon(&mut machine, 10, "slurmstepd: [7.batch]", 0);
        daemon(&mut machine, 11, "slurmstepd: [7.0]", 0);
        daemon(&mut machine, 12, "slurmstepd: [8.0]", 0);
        daemon(&mut machine, 13, "slurmstepd: [7.1]", 1001);
        daemon(&mut machine, 14, "slurmstepd: [7.2]", 1000);
        daemon(&mut machine, 15, "/usr/sbin/slurmstepd", 0);
        assert_eq!(tops.now(&machine), [Pid(10), Pid(11), Pid(14)]);
        assert_eq!(Tops::of_slurm(run(Some(Step::Number(0))), 1000).now(&machine), [Pid(11)]);
        // It has the title of its step only once it has begun it.
        daemon(&mut machine, 15, "slurmstepd: [7.3]", 0);
        assert_eq!(tops.now(&machine), [Pid(10), Pid(11), Pid(14), Pid(15)]);
    }

    #[test]
    fn who_is_old_and_none_of_them_is_looked_at_once() {
        let mut machine = machine();
        machine.add(Pid(10), Pid(1), "slurmstepd");
        machine.add(Pid(11), Pid(1), "slurmstepd").stat.start_time_ticks = YOUNG_TICKS + 1000;
        let mut tops = Tops::of_slurm(run(None), 1000);
        // Whoever comes before the newest in the list is known to be old at the next look.
        for _ in 0..2 {
            assert_eq!(tops.now(&machine), [Pid(0); 0]);
        }
        for pid in [10, 11] {
            machine.processes.get_mut(&Pid(pid)).expect("it is there").arguments = vec!["slurmstepd: [7.0]".to_owned()];
        }
        machine.processes.values_mut().for_each(|process| process.status.uids = [0; 4]);
        assert_eq!(tops.now(&machine), [Pid(11)]);
        machine.processes.remove(&Pid(10));
        assert_eq!(tops.now(&machine), [Pid(11)]);
        daemon(&mut machine, 10, "slurmstepd: [7.0]", 0);
        assert_eq!(tops.now(&machine), [Pid(10), Pid(11)], "another process of the same number");
    }

    /// `ssh` reaches another machine for the launcher, whose own ranks are below itself; there the helper has the mark.
    #[test]
    fn a_launch_is_known_on_both_ends_and_to_its_user_only() {
        let mut near = machine();
        near.add(Pid(10), Pid(1), "mpirun");
        near.add(Pid(20), Pid(10), "ssh").arguments =
            ["ssh", "n1", "orted -mca orte_hnp_uri head:1"].map(str::to_owned).to_vec();
        near.add(Pid(11), Pid(1), "mpirun");
        near.add(Pid(21), Pid(11), "ssh").arguments =
            ["ssh", "n1", "orted -mca orte_hnp_uri head:2"].map(str::to_owned).to_vec();
        assert_eq!(Tops::of_launch("head:1", 1000).now(&near), [Pid(10)]);
        let mut far = machine();
        for (pid, port, uid) in [(30, 1, 1000), (31, 2, 1000), (32, 1, 7)] {
            let process = far.add(Pid(pid), Pid(1), "orted");
            process.arguments = ["orted", "-mca", "orte_hnp_uri", &format!("head:{port}")].map(str::to_owned).to_vec();
            process.status.uids = [uid; 4];
        }
        assert_eq!(Tops::of_launch("head:1", 1000).now(&far), [Pid(30)]);
        // A shell that has been told the same begins no rank.
        far.add(Pid(33), Pid(1), "sh").arguments =
            ["sh", "-c", "orted -mca orte_hnp_uri head:1"].map(str::to_owned).to_vec();
        assert_eq!(Tops::of_launch("head:1", 1000).now(&far), [Pid(30)]);
    }
}
