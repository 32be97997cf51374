//! How does Slurm know what a process runs, where ranks of it may be on other machines?
//!
//! A user gives a process id of what they typed: `srun`, a launcher inside of an allocation, a shell around either, or a
//! rank. Slurm knows an `srun` by its process id, a rank by the daemon above it, and whatever else runs inside of a job by
//! that job. Only where it is to be looked for is decided here; whether it runs is asked of Slurm.
//!
//! Next: `slurm::step_of_srun` and `slurm::find`, which ask.

use super::tree::Tree;
use crate::error::Error;
use crate::launcher::{is_slurm_front_end, is_slurm_step};
use crate::procfs::Processes;
use crate::slurm::SlurmTask;
use trimtab_types::Pid;

/// The job that Slurm is to be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlurmHandle {
    /// The step that this `srun` began.
    Srun(Pid),
    /// The step of a task.
    Task(SlurmTask),
    /// A job in which a launcher of an MPI library runs; it may have started ranks on all of the job's nodes.
    Inside {
        /// The job's number.
        job: u32,
    },
}

/// The question for Slurm, given any process of a job, or a shell around its launcher; `None` if Slurm has no part in
/// it.
///
/// # Errors
/// No such process, or `/proc` can't be read.
pub fn slurm_handle(processes: &dyn Processes, pid: Pid) -> Result<Option<SlurmHandle>, Error> {
    let pid = processes.status(pid)?.process;
    let tree = Tree::scan(processes)?;
    let launcher = tree.launcher_at_or_above(pid);
    if let Some(srun) = launcher.filter(|launcher| is_slurm_front_end(tree.command(*launcher))) {
        return Ok(Some(SlurmHandle::Srun(srun)));
    }
    if let Some(handle) = of_task(processes, &tree, pid, launcher) {
        return Ok(Some(handle));
    }
    let inside = |pid| super::member::slurm_job(processes, pid)?.parse().ok();
    if let Some(job) = launcher.and_then(inside) {
        return Ok(Some(SlurmHandle::Inside { job }));
    }
    // A shell around srun; of a front end and the process it watches itself with, the upper one.
    let is_top = |pid: &Pid| is_slurm_front_end(tree.command(*pid)) && tree.launcher_at_or_above(*pid) == Some(*pid);
    let mut below = tree.descendants(pid).filter(is_top);
    let only = below.next().filter(|_| below.next().is_none());
    Ok(only.map(SlurmHandle::Srun))
}

/// By Slurm's daemon above a process, or its control group. A process that another launcher than `srun` started, or is,
/// belongs to the whole job: that one's ranks are in several steps.
fn of_task(processes: &dyn Processes, tree: &Tree, pid: Pid, launcher: Option<Pid>) -> Option<SlurmHandle> {
    let mut above = tree.ancestors(pid);
    let nearest = above.find(|ancestor| tree.is_launcher(*ancestor));
    let daemon = std::iter::once(pid).chain(tree.ancestors(pid)).find(|pid| is_slurm_step(tree.command(*pid)));
    let of_daemon = daemon.and_then(|daemon| SlurmTask::of_daemon(&processes.arguments(daemon).ok()?));
    let task = of_daemon.or_else(|| SlurmTask::of_group(&processes.control_group(pid).ok()?))?;
    let is_direct =
        launcher.is_none_or(|launcher| Some(launcher) == daemon) && (nearest.is_none() || nearest == daemon);
    Some(if is_direct { SlurmHandle::Task(task) } else { SlurmHandle::Inside { job: task.job } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Recorded;
    use crate::slurm::Step;

    /// Two tasks of step 7.0; `srun(50)` with its watcher in a shell; `mpirun(60)` in an allocation; `mpirun(41)` in a batch
    /// script with a daemon on this node.
    fn machine() -> Recorded {
        let mut machine = Recorded { own: Pid(2), ..Recorded::default() };
        machine.add(Pid(1), Pid(0), "init");
        machine.add(Pid(2), Pid(1), "trimtab");
        machine.add(Pid(10), Pid(1), "slurmstepd").arguments = vec!["slurmstepd: [7.0]".to_owned()];
        machine.add(Pid(11), Pid(10), "app");
        machine.add(Pid(40), Pid(1), "slurmstepd").arguments = vec!["slurmstepd: [8.batch]".to_owned()];
        machine.add(Pid(41), Pid(40), "mpirun");
        machine.add(Pid(42), Pid(41), "app");
        machine.add(Pid(43), Pid(41), "srun");
        machine.add(Pid(45), Pid(1), "slurmstepd").arguments = vec!["slurmstepd: [8.0]".to_owned()];
        machine.add(Pid(46), Pid(45), "orted");
        machine.add(Pid(47), Pid(46), "app");
        machine.add(Pid(49), Pid(1), "bash");
        machine.add(Pid(50), Pid(49), "srun");
        machine.add(Pid(51), Pid(50), "srun");
        machine.add(Pid(60), Pid(1), "mpirun").variables(&["SLURM_JOB_ID=9"]);
        machine.add(Pid(70), Pid(1), "mpirun");
        machine.add(Pid(71), Pid(70), "app");
        machine
    }

    #[test]
    fn slurm_is_asked_about_what_it_knows() {
        let task = |job, step| Some(SlurmHandle::Task(SlurmTask { job, step }));
        let inside = |job| Some(SlurmHandle::Inside { job });
        let cases = [
            ("a_task", 11, task(7, Step::Number(0))),
            ("srun", 50, Some(SlurmHandle::Srun(Pid(50)))),
            ("the_watcher_of_srun", 51, Some(SlurmHandle::Srun(Pid(50)))),
            ("a_shell_around_srun", 49, Some(SlurmHandle::Srun(Pid(50)))),
            ("a_launcher_in_a_batch_script", 41, inside(8)),
            ("a_rank_of_that", 42, inside(8)),
            ("a_rank_below_its_daemon", 47, inside(8)),
            ("a_launcher_in_an_allocation", 60, inside(9)),
            ("a_launcher_without_slurm", 70, None),
            ("a_rank_without_slurm", 71, None),
        ];
        for (case, pid, expected) in cases {
            assert_eq!(slurm_handle(&machine(), Pid(pid)).expect("it is there"), expected, "{case}");
        }
    }
}
