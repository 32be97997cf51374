//! The ranks of one run of a Slurm job on this machine.
//!
//! Next: `slurm/task.rs` for how Slurm says whose a process is.

use super::member::{self, Member};
use super::{Job, Search, StaticMpi, World};
use crate::error::Error;
use crate::launcher;
use crate::mpir;
use crate::procfs::{ProcFs, Processes};
use crate::slurm::{SlurmRun, SlurmTask, Step};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_types::{Pid, Rank};

/// Tasks begin their program within so long, in clock ticks of 10 ms: what Slurm runs before it takes a while.
const PROLOG_TICKS: u64 = 3000;
/// Programs have loaded MPI within so long, or are taken for none of MPI.
const BEGINNING_TICKS: u64 = 500;

/// Finds the ranks of a Slurm job on this machine, among programs that have an MPI library mapped.
///
/// # Errors
/// See [`Error`]; [`Error::is_retryable`] tells a job that has not started its ranks yet.
pub fn find_slurm_job(run: &SlurmRun) -> Result<Job, Error> {
    find_slurm_job_in(&ProcFs::new(), run, &|_| false)
}

/// As [`find_slurm_job`], among `processes`; `is_static_mpi` as in [`find_job_in`](crate::find_job_in).
///
/// # Errors
/// See [`Error`].
pub fn find_slurm_job_in(processes: &dyn Processes, run: &SlurmRun, is_static_mpi: StaticMpi) -> Result<Job, Error> {
    let search = Search::begin(processes, is_static_mpi)?;
    let world = search.slurm_world(run)?;
    search.job(world)
}

impl Search<'_> {
    fn slurm_world(&self, run: &SlurmRun) -> Result<World, Error> {
        let tasks = self.slurm_tasks(run);
        let found = self.members_among(tasks.keys().copied())?;
        // Processes that an earlier run of the job left behind are of this job, but not of this run.
        let same_run = |member: &Member| member.restarts == run.restarts && member.identity.is_some();
        let members = self.originals(found.into_iter().filter(same_run).collect());
        let coming = self.coming_tasks(&members);
        if coming > 0 {
            let seen = format!("{coming} of its tasks here have just begun, and are no ranks yet");
            return Err(Error::NoSlurmRanks { job: shown(run), seen });
        }
        let mut groups = self.groups(members);
        match groups.len() {
            0 => Err(self.no_slurm_ranks(run, &tasks)),
            1 => {
                let (launcher, members) = groups.swap_remove(0);
                Ok(World { launcher, members, other_worlds: Vec::new() })
            }
            _ => Err(self.several_slurm_worlds(run, &tasks, &groups)),
        }
    }

    /// Tasks beside ranks of their step that are about to become ranks too: their program has just begun, or has not yet.
    fn coming_tasks(&self, members: &[Member]) -> usize {
        let newest_ticks = self.tree.pids().map(|pid| self.tree.start_time_ticks(pid)).max().unwrap_or(0);
        let is_rank = |pid: Pid| members.iter().any(|member| member.pid == pid);
        let is_coming = |pid: &Pid| {
            let is_begun = !launcher::is_slurm_step(self.tree.command(*pid));
            let young_ticks = if is_begun { BEGINNING_TICKS } else { PROLOG_TICKS };
            self.tree.start_time_ticks(*pid) + young_ticks >= newest_ticks
                && !is_rank(*pid)
                && !self.tree.descendants(*pid).any(is_rank)
                && !member::is_our_own(self.processes, *pid).unwrap_or(false)
        };
        let daemon =
            |pid: Pid| self.tree.ancestors(pid).find(|above| launcher::is_slurm_step(self.tree.command(*above)));
        let daemons: BTreeSet<Pid> = members.iter().filter_map(|member| daemon(member.pid)).collect();
        let is_batch = |pid: &Pid| {
            let task = SlurmTask::of_daemon(&self.processes.arguments(*pid).unwrap_or_default());
            task.is_none_or(|task| !matches!(task.step, Step::Number(_)))
        };
        let steps = daemons.into_iter().filter(|pid| !is_batch(pid));
        steps.flat_map(|pid| self.tree.children(pid)).filter(is_coming).count()
    }

    /// Processes that Slurm counts to this run, by its daemons or by control groups; and by its list of them, if there is
    /// one: where a machine belongs to two clusters, a job of the other may have the same number.
    fn slurm_tasks(&self, run: &SlurmRun) -> BTreeMap<Pid, SlurmTask> {
        let wanted = |task: &SlurmTask| run.jobs.contains(&task.job) && run.step.is_none_or(|step| step == task.step);
        let mut tasks = BTreeMap::new();
        for pid in self.tree.pids() {
            if launcher::is_slurm_step(self.tree.command(pid)) {
                let arguments = self.processes.arguments(pid).unwrap_or_default();
                if let Some(task) = SlurmTask::of_daemon(&arguments).filter(wanted) {
                    tasks.extend(self.below_daemon(pid).map(|pid| (pid, task)));
                }
            } else if let Some(group) = self.processes.control_group(pid).ok()
                && let Some(task) = SlurmTask::of_group(&group).filter(wanted)
            {
                tasks.insert(pid, task);
            }
        }
        if let Some(listed) = &run.listed {
            tasks.retain(|pid, _| listed.contains(pid));
        }
        tasks
    }

    /// The processes that a step's daemon has begun. One that is about to become a task is still the daemon's own program, which
    /// hides from the task's user.
    fn below_daemon(&self, daemon: Pid) -> impl Iterator<Item = Pid> + '_ {
        self.tree.descendants(daemon).filter(|pid| !launcher::is_slurm_step(self.tree.command(*pid)))
    }

    /// Tasks that an `srun` started on this machine: those of its own table; where it keeps none, those of its job. If that
    /// is not known either there are none: other jobs' tasks may be the only ones here.
    pub(super) fn slurm_members(&self, srun: Pid) -> Result<Vec<Member>, Error> {
        let steps = self.tree.pids().filter(|pid| launcher::is_slurm_step(self.tree.command(*pid)));
        let below: BTreeSet<Pid> = steps.flat_map(|step| self.below_daemon(step)).collect();
        if let Some(table) = mpir::table(self.processes, srun) {
            return self.members_of_table(srun, &table, &below);
        }
        let Some(wanted) = member::slurm_job(self.processes, srun) else { return Ok(Vec::new()) };
        let mut members = self.members_among(below.into_iter())?;
        members.retain(|member| member.slurm_job.as_ref() == Some(&wanted));
        Ok(members)
    }

    /// Pids of a table are those of its hosts: only what Slurm started here counts. A task may be a script around its rank.
    fn members_of_table(&self, srun: Pid, table: &[mpir::Entry], below: &BTreeSet<Pid>) -> Result<Vec<Member>, Error> {
        let host = self.processes.host();
        let short = |name: &str| name.split('.').next().map(str::to_owned);
        let here = |entry: &&mpir::Entry| short(&entry.host) == short(&host) && below.contains(&entry.pid);
        let tasks: Vec<Pid> = table.iter().filter(here).map(|entry| entry.pid).collect();
        let pids: BTreeSet<Pid> = tasks.iter().flat_map(|pid| self.tree.descendants(*pid).chain([*pid])).collect();
        let members = self.members_among(pids.into_iter())?;
        for (rank, entry) in table.iter().enumerate().filter(|(_, entry)| tasks.contains(&entry.pid)) {
            let of_table = Rank(u32::try_from(rank).unwrap_or(u32::MAX));
            let found = members.iter().find(|member| member.pid == entry.pid);
            if let Some(identity) = found.and_then(|member| member.identity.as_ref())
                && identity.rank != of_table.0
            {
                let (pid, of_environment, variable) = (entry.pid, Rank(identity.rank), identity.source);
                return Err(Error::SourcesDisagree { pid, launcher: srun, of_table, of_environment, variable });
            }
        }
        Ok(members)
    }

    fn no_slurm_ranks(&self, run: &SlurmRun, tasks: &BTreeMap<Pid, SlurmTask>) -> Error {
        let names: BTreeSet<&str> = tasks.keys().map(|pid| self.tree.command(*pid)).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let seen = match tasks.len() {
            0 => "Slurm has no process of it here".to_owned(),
            many => format!("none of its {many} processes here uses MPI ({names})"),
        };
        Error::NoSlurmRanks { job: shown(run), seen }
    }

    fn several_slurm_worlds(
        &self,
        run: &SlurmRun,
        tasks: &BTreeMap<Pid, SlurmTask>,
        groups: &[(Option<Pid>, Vec<Member>)],
    ) -> Error {
        let step_of = |members: &[Member]| members.iter().find_map(|member| tasks.get(&member.pid)).copied();
        let mut steps: Vec<Option<SlurmTask>> = groups.iter().map(|(_, members)| step_of(members)).collect();
        steps.sort();
        let by_step = steps.windows(2).all(|pair| pair[0] != pair[1]);
        let name = |(launcher, members): &(Option<Pid>, Vec<Member>)| match step_of(members) {
            Some(SlurmTask { job, step: step @ Step::Number(_) }) if by_step => format!("--slurm {job}.{step}"),
            _ => {
                let head = launcher.or(members.first().map(|member| member.pid)).unwrap_or(Pid(0));
                format!("{head} ({})", self.tree.command(head))
            }
        };
        Error::SeveralInSlurm { job: shown(run), worlds: groups.iter().map(name).collect() }
    }
}

fn shown(run: &SlurmRun) -> String {
    let jobs: Vec<String> = run.jobs.iter().map(u32::to_string).collect();
    let step = run.step.map_or_else(String::new, |step| format!(".{step}"));
    format!("{}{step}", jobs.join("+"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Recorded;
    use std::cell::RefCell;
    use std::path::Path;

    const MPICH: &str = "/usr/lib/x86_64-linux-gnu/libmpich.so.12.2.2";

    /// `slurmd(4) - slurmstepd(10) - app(11), app(12)`: two tasks of step 0 of job 7.
    fn machine() -> Recorded {
        let mut machine = Recorded { own: Pid(2), ..Recorded::default() };
        machine.add(Pid(1), Pid(0), "init");
        machine.add(Pid(2), Pid(1), "trimtab");
        machine.add(Pid(4), Pid(1), "slurmd");
        step(&mut machine, 10, "slurmstepd: [7.0]", &["SLURM_JOB_ID=7", "SLURM_STEP_ID=0"]);
        machine
    }

    /// A daemon and two tasks, with the next pids.
    fn step(machine: &mut Recorded, daemon: i32, title: &str, common: &[&str]) {
        machine.add(Pid(daemon), Pid(4), "slurmstepd").arguments = vec![title.to_owned()];
        for rank in 0..2 {
            let own = [format!("SLURM_PROCID={rank}"), format!("PMI_RANK={rank}"), "PMI_SIZE=2".to_owned()];
            let variables: Vec<&str> = common.iter().copied().chain(own.iter().map(String::as_str)).collect();
            machine.add(Pid(daemon + 1 + rank), Pid(daemon), "app").mpi(MPICH, &variables);
        }
    }

    fn answer(machine: &Recorded, step: Option<Step>, restarts: u32) -> String {
        let run = SlurmRun { jobs: BTreeSet::from([7]), step, restarts, listed: None };
        match find_slurm_job_in(machine, &run, &|_| false) {
            Ok(job) => job.ranks.iter().map(|rank| format!("{}={}", rank.rank, rank.pid)).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn ranks_are_those_below_the_daemon_of_the_step() {
        let mut machine = machine();
        step(&mut machine, 20, "slurmstepd: [8.0]", &["SLURM_JOB_ID=8", "SLURM_STEP_ID=0"]);
        // Inherited the environment, and lives outside of the job.
        let environment = machine.processes[&Pid(11)].environment.clone();
        machine.add(Pid(30), Pid(1), "app").mpi(MPICH, &[]).environment = environment;
        assert_eq!(answer(&machine, None, 0), "0=11 1=12");
        assert_eq!(answer(&machine, Some(Step::Number(0)), 0), "0=11 1=12");
        assert!(answer(&machine, Some(Step::Number(1)), 0).contains("Slurm has no process of it here"));
    }

    /// One that has read symbols of MPI's library has it mapped, and was started as ranks are.
    #[test]
    fn agents_of_another_command_are_no_program_of_the_job() {
        let mut machine = machine();
        machine.add(Pid(20), Pid(4), "slurmstepd").arguments = vec!["slurmstepd: [7.1]".to_owned()];
        let variables = ["SLURM_JOB_ID=7", "SLURM_STEP_ID=1", "SLURM_PROCID=0", "PMI_RANK=0", "PMI_SIZE=2"];
        machine.add(Pid(21), Pid(20), "trimtab").mpi(MPICH, &variables);
        assert_eq!(answer(&machine, None, 0), "0=11 1=12");
        machine.add(Pid(21), Pid(20), "other").mpi(MPICH, &variables);
        assert!(answer(&machine, None, 0).contains("runs 2 MPI programs here"));
    }

    #[test]
    fn a_control_group_is_slurms_word_too() {
        let mut machine = Recorded { own: Pid(2), ..Recorded::default() };
        machine.add(Pid(1), Pid(0), "init");
        machine.add(Pid(2), Pid(1), "trimtab");
        machine.add(Pid(5), Pid(1), "app").mpi(MPICH, &["SLURM_JOB_ID=7", "PMI_RANK=0", "PMI_SIZE=1"]).control_group =
            "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n".to_owned();
        assert_eq!(answer(&machine, None, 0), "0=5");
    }

    #[test]
    fn runs_of_a_requeued_job_are_not_mixed() {
        let mut machine = machine();
        let again = ["SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_RESTART_COUNT=1"];
        step(&mut machine, 20, "slurmstepd: [7.0]", &again);
        assert_eq!(answer(&machine, None, 0), "0=11 1=12");
        assert_eq!(answer(&machine, None, 1), "0=21 1=22");
        assert!(answer(&machine, None, 2).contains("uses MPI (app)"), "{}", answer(&machine, None, 2));
    }

    #[test]
    fn slurms_own_list_tells_clusters_apart() {
        let mut machine = machine();
        step(&mut machine, 20, "slurmstepd: [7.0]", &["SLURM_JOB_ID=7", "SLURM_STEP_ID=0"]);
        assert!(
            answer(&machine, None, 0).contains("10 (slurmstepd), 20 (slurmstepd)"),
            "{}",
            answer(&machine, None, 0)
        );
        let listed = Some(BTreeSet::from([Pid(21), Pid(22)]));
        let run = SlurmRun { jobs: BTreeSet::from([7]), step: None, restarts: 0, listed };
        let job = find_slurm_job_in(&machine, &run, &|_| false).expect("a job");
        assert_eq!(job.ranks.iter().map(|rank| rank.pid.0).collect::<Vec<_>>(), [21, 22]);
    }

    #[test]
    fn an_srun_of_which_nothing_is_known_has_no_ranks() {
        let mut machine = two_sruns();
        let srun = machine.processes.get_mut(&Pid(50)).expect("srun");
        srun.memory.clear();
        let refused = |machine: &Recorded| crate::find_job_in(machine, Pid(50), &|_| false).expect_err("no ranks");
        assert!(refused(&machine).is_retryable(), "its table is not filled yet");
        machine.processes.get_mut(&Pid(50)).expect("srun").symbols.clear();
        assert!(refused(&machine).is_retryable(), "it has none, and no job id");
    }

    #[test]
    fn two_steps_are_told_apart_and_named() {
        let mut machine = machine();
        step(&mut machine, 20, "slurmstepd: [7.1]", &["SLURM_JOB_ID=7", "SLURM_STEP_ID=1"]);
        let several = answer(&machine, None, 0);
        assert!(several.contains("--slurm 7.0, --slurm 7.1"), "{several}");
        assert_eq!(answer(&machine, Some(Step::Number(1)), 0), "0=21 1=22");
    }

    #[test]
    fn a_launcher_in_the_batch_script_is_named_by_its_pid() {
        let mut machine = machine();
        machine.add(Pid(40), Pid(4), "slurmstepd").arguments = vec!["slurmstepd: [7.batch]".to_owned()];
        for (launcher, rank) in [(41, 43), (51, 53)] {
            machine.add(Pid(launcher), Pid(40), "mpiexec.hydra");
            machine.add(Pid(launcher + 1), Pid(launcher), "hydra_pmi_proxy");
            let variables = ["SLURM_JOB_ID=7", "PMI_RANK=0", "PMI_SIZE=1"];
            machine.add(Pid(rank), Pid(launcher + 1), "app").mpi(MPICH, &variables);
        }
        let several = answer(&machine, Some(Step::Batch), 0);
        assert!(several.contains("41 (mpiexec.hydra), 51 (mpiexec.hydra)"), "{several}");
    }

    /// Two `srun` outside of any allocation, each with its step: only their tables tell whose the tasks are.
    fn two_sruns() -> Recorded {
        let mut machine = machine();
        machine.host = "n1.cluster".to_owned();
        step(&mut machine, 20, "slurmstepd: [8.0]", &["SLURM_JOB_ID=8", "SLURM_STEP_ID=0"]);
        for (srun, pids) in [(50, [11, 12]), (60, [21, 22])] {
            let srun = machine.add(Pid(srun), Pid(1), "srun");
            srun.symbols.extend([("MPIR_proctable".to_owned(), 0x10), ("MPIR_proctable_size".to_owned(), 0x18)]);
            srun.memory.insert(0x10, [0x100u64.to_ne_bytes().to_vec(), 3i32.to_ne_bytes().to_vec()].concat());
            // The third runs on another host, whose pid is somebody else's here.
            let entries = [(0x200u64, pids[0]), (0x200, pids[1]), (0x203, 2)];
            let words = entries.iter().flat_map(|(host, pid)| [*host, 0, *pid as u64]);
            srun.memory.insert(0x100, words.flat_map(u64::to_ne_bytes).collect());
            srun.memory.insert(0x200, b"n1\0n2\0".iter().copied().chain([0; 300]).collect());
        }
        machine
    }

    #[test]
    fn the_table_of_srun_tells_which_tasks_are_its_own() {
        let machine = two_sruns();
        let ranks = |srun: i32| {
            let job = crate::find_job_in(&machine, Pid(srun), &|_| false).expect("a job");
            job.ranks.iter().map(|rank| rank.pid.0).collect::<Vec<_>>()
        };
        assert_eq!((ranks(50), ranks(60)), (vec![11, 12], vec![21, 22]));
    }

    #[test]
    fn a_table_that_contradicts_the_environment_is_an_error_that_names_both() {
        let mut machine = two_sruns();
        let environment = machine.processes[&Pid(12)].environment.clone();
        machine.processes.get_mut(&Pid(11)).expect("a task").environment = environment;
        let error = crate::find_job_in(&machine, Pid(50), &|_| false).expect_err("rank 1 is first").to_string();
        assert!(
            error.contains("rank 0 in the table of launcher 50") && error.contains("rank 1 by PMI_RANK"),
            "{error}"
        );
    }

    #[test]
    fn a_task_that_has_not_begun_its_program_is_none_yet() {
        let mut machine = machine();
        for pid in [11, 12] {
            let task = machine.processes.get_mut(&Pid(pid)).expect("a task");
            (task.stat.command, task.hidden) = ("slurmstepd".to_owned(), true);
        }
        assert!(answer(&machine, None, 0).contains("no MPI rank of Slurm job 7 runs on this machine yet"));
        let begin = |machine: &mut Recorded, pid: i32| {
            let task = machine.processes.get_mut(&Pid(pid)).expect("a task");
            (task.stat.command, task.hidden) = ("app".to_owned(), false);
        };
        begin(&mut machine, 12);
        assert!(
            answer(&machine, None, 0).contains("1 of its tasks here have just begun"),
            "{}",
            answer(&machine, None, 0)
        );
        // Slurm runs something before a task's program, which ends some time.
        machine.processes.get_mut(&Pid(2)).expect("trimtab").stat.start_time_ticks = 1_000_000;
        assert_eq!(answer(&machine, None, 0), "1=12");
        machine.processes.get_mut(&Pid(2)).expect("trimtab").stat.start_time_ticks = 0;
        begin(&mut machine, 11);
        assert_eq!(answer(&machine, None, 0), "0=11 1=12");
    }

    /// A program beside ranks that is none of MPI has had its time.
    #[test]
    fn a_task_without_mpi_is_waited_for_a_moment() {
        let mut machine = machine();
        machine.add(Pid(13), Pid(10), "monitor").variables(&["SLURM_PROCID=2"]);
        assert!(answer(&machine, None, 0).contains("have just begun"), "{}", answer(&machine, None, 0));
        machine.processes.get_mut(&Pid(2)).expect("trimtab").stat.start_time_ticks = 1_000_000;
        assert_eq!(answer(&machine, None, 0), "0=11 1=12");
    }

    #[test]
    fn our_own_agents_among_the_tasks_are_not_read() {
        let mut machine = machine();
        let variables = ["SLURM_JOB_ID=7", "SLURM_PROCID=0", "PMI_RANK=0", "PMI_SIZE=1"];
        machine.add(Pid(30), Pid(4), "slurmstepd").arguments = vec!["slurmstepd: [7.1]".to_owned()];
        machine.add(Pid(31), Pid(30), "trimtab").variables(&variables);
        machine.add(Pid(32), Pid(30), "other").variables(&variables);
        let asked = RefCell::new(Vec::new());
        let run = SlurmRun { jobs: BTreeSet::from([7]), step: None, restarts: 0, listed: None };
        let is_static_mpi = |program: &Path| {
            asked.borrow_mut().push(program.display().to_string());
            false
        };
        let job = find_slurm_job_in(&machine, &run, &is_static_mpi).expect("a job");
        assert_eq!(job.ranks.iter().map(|rank| rank.pid.0).collect::<Vec<_>>(), [11, 12]);
        assert_eq!(asked.into_inner(), ["/usr/bin/other"]);
    }

    #[test]
    fn tasks_that_have_not_loaded_mpi_yet_are_waited_for() {
        let mut machine = machine();
        for pid in [11, 12] {
            machine.processes.get_mut(&Pid(pid)).expect("a task").maps.clear();
        }
        let run = SlurmRun { jobs: BTreeSet::from([7]), step: None, restarts: 0, listed: None };
        let error = find_slurm_job_in(&machine, &run, &|_| false).expect_err("nothing is loaded");
        assert!(error.is_retryable() && error.to_string().contains("its 2 processes here uses MPI (app)"), "{error}");
    }
}
