//! Which job and step is a process part of?
//!
//! Slurm's daemon for a step says so in its own arguments (`slurmstepd: [4711.0]`), and where Slurm keeps steps in control
//! groups, so does the process's group (`.../job_4711/step_0/...`). Both are Slurm's own word. The environment is only
//! the program's: whatever a job starts inherits it, also what stays behind when the job has ended. So a process belongs
//! to a step only if Slurm says so; from the environment come rank and number of restarts.
//!
//! Next: `job/slurm.rs`, which asks this of all processes.

use super::id::Step;

/// A job's step on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlurmTask {
    /// The job, as `SLURM_JOB_ID` has it.
    pub job: u32,
    /// The step.
    pub step: Step,
}

impl SlurmTask {
    /// From the arguments of Slurm's daemon for a step: `slurmstepd: [4711.0]`, also with a component behind it.
    pub fn of_daemon(arguments: &[String]) -> Option<SlurmTask> {
        let line = arguments.join(" ");
        let inside = line.strip_prefix("slurmstepd: [")?.split(']').next()?;
        let (job, step) = inside.split_once('.')?;
        Some(SlurmTask { job: job.parse().ok()?, step: Step::parse(step.split('+').next()?)? })
    }

    /// From the text of `/proc/PID/cgroup`.
    pub fn of_group(text: &str) -> Option<SlurmTask> {
        text.lines().find_map(|line| {
            let path = line.splitn(3, ':').nth(2)?;
            let mut names = path.split('/').skip_while(|name| !name.starts_with("job_"));
            let job = names.next()?.strip_prefix("job_")?.parse().ok()?;
            Some(SlurmTask { job, step: Step::parse(names.next()?.strip_prefix("step_")?)? })
        })
    }
}

/// How often the job was requeued before the process began; Slurm sets the variable only after the first time.
pub(crate) fn restarts(environment: &[u8]) -> u32 {
    let value = |entry: &[u8]| std::str::from_utf8(entry.strip_prefix(b"SLURM_RESTART_COUNT=")?).ok()?.parse().ok();
    environment.split(|byte| *byte == 0).find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_say_whose_they_are() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let task = |job, step| Some(SlurmTask { job, step });
        for (text, expected) in [
            ("slurmstepd: [4711.0]", task(4711, Step::Number(0))),
            ("slurmstepd: [4711.batch]", task(4711, Step::Batch)),
            ("slurmstepd: [4711.extern]", task(4711, Step::Extern)),
            ("slurmstepd: [4711.0+1]", task(4711, Step::Number(0))),
            ("/usr/sbin/slurmstepd", None),
            ("slurmstepd: [x.0]", None),
            ("slurmstepd: [4711]", None),
            ("app slurmstepd: [4711.0]", None),
        ] {
            assert_eq!(SlurmTask::of_daemon(&words(text)), expected, "{text}");
        }
    }

    #[test]
    fn control_groups_say_whose_a_process_is() {
        let task = |job, step| Some(SlurmTask { job, step });
        for (case, text, expected) in [
            ("first_version", "3:freezer:/slurm/uid_1000/job_12/step_0/task_0\n2:cpu:/\n", task(12, Step::Number(0))),
            (
                "second_version",
                "0::/system.slice/slurmstepd.scope/job_12/step_batch/user/task_0\n",
                task(12, Step::Batch),
            ),
            ("several_daemons", "0::/system.slice/n1_slurmstepd.scope/job_7/step_3/slurm\n", task(7, Step::Number(3))),
            ("no_step", "0::/slurm/uid_1/job_12\n", None),
            ("user_named_alike", "0::/user.slice/job_x/step_0\n", None),
            ("elsewhere", "0::/init.scope\n", None),
            ("empty", "", None),
        ] {
            assert_eq!(SlurmTask::of_group(text), expected, "{case}");
        }
    }

    #[test]
    fn restarts_are_read() {
        assert_eq!(restarts(b"A=1\0SLURM_RESTART_COUNT=2\0B=3\0"), 2);
        assert_eq!(restarts(b"A=1\0XSLURM_RESTART_COUNT=2\0"), 0);
        assert_eq!(restarts(b"SLURM_RESTART_COUNT=x\0"), 0);
    }
}
