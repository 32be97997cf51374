//! The target that a user means by a process id or a Slurm job: ranks on this machine, or a job on many nodes.
//!
//! A process id that shows only a part of a job here leads on to Slurm, by the `srun` or the step it is of, or to the hosts
//! that its launcher went to; then the whole job is meant. Ranks that run elsewhere and can't be reached are an error that
//! says so, never left out.
//!
//! Next: `window` and `probe`, which ask; `cluster` for jobs on many nodes.

use crate::descriptors;
use crate::spread::{Launched, Spread};
use anyhow::bail;
use std::time::{Duration, Instant};
use trimtab_measure::{has_static_mpi, host_name};
use trimtab_track::slurm::{self, Part, SlurmError, SlurmId};
use trimtab_track::{Error, Job, ProcFs, Processes, SlurmHandle};
use trimtab_track::{far_launch, find_job_in, find_slurm_job_in, slurm_handle};
use trimtab_types::{Pid, Rank};

/// Time between two looks for ranks that are waited for.
const LOOK: Duration = Duration::from_millis(20);
/// Ranks that have not come so long after the last one run on other machines.
const MISSING: Duration = Duration::from_secs(3);
/// Ranks named in an error.
const RANKS_SHOWN_MAX: usize = 8;

/// The target to attach to.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// The job of any process.
    Process(i32),
    /// A job of Slurm.
    Slurm(SlurmId),
}

/// A job that was found.
pub enum Found {
    /// All of it is on this machine.
    Here(Box<Job>),
    /// A job that runs elsewhere, or on more than one node.
    Spread(Box<Spread>),
}

/// The job that is meant, whole.
///
/// # Errors
/// There is none, or some of its ranks can't be reached.
pub fn find(target: Target, through_site: bool) -> anyhow::Result<Found> {
    let found = look(target, through_site)?;
    if let Found::Here(job) = &found
        && let Some(elsewhere) = elsewhere(job)
    {
        bail!(elsewhere);
    }
    if let Found::Here(job) = &found {
        descriptors::check(job.ranks.len())?;
    }
    Ok(found)
}

/// The whole job, or as much of it as is here when the time is over.
///
/// # Errors
/// There is none by then.
pub fn wait_for(target: Target, through_site: bool, limit: Duration) -> anyhow::Result<Found> {
    let begin = Instant::now();
    let (mut here, mut since) = (0, begin);
    loop {
        let found = look(target, through_site);
        let is_final = match &found {
            // Agents wait for ranks by themselves.
            Ok(Found::Spread(_)) => true,
            Ok(Found::Here(job)) if job.is_complete() => true,
            Ok(Found::Here(job)) => {
                if job.ranks.len() != here {
                    (here, since) = (job.ranks.len(), Instant::now());
                }
                since.elapsed() >= MISSING
            }
            Err(error) => !may_change(error),
        };
        if is_final || begin.elapsed() >= limit {
            return found;
        }
        std::thread::sleep(LOOK);
    }
}

/// Why a job is not all here; `None` if it is, as far as anybody knows.
pub fn elsewhere(job: &Job) -> Option<String> {
    let missing = job.missing_ranks();
    let shown: Vec<String> = missing.iter().take(RANKS_SHOWN_MAX).map(Rank::to_string).collect();
    let more = if missing.len() > RANKS_SHOWN_MAX { " ..." } else { "" };
    let (count, size) = (missing.len(), job.size.unwrap_or(0));
    (count > 0).then(|| {
        let far = job.ranks.first().map(|rank| far(rank.pid)).unwrap_or_default();
        format!(
            "{count} of the job's {size} ranks do not run on this machine (yet): {}{more}{}; give the PID of mpirun where \
             that runs, or `--slurm JOB`, to measure all nodes; or add `--wait 5` to measure the ranks that are here",
            shown.join(", "),
            if far.is_empty() { String::new() } else { format!("; their launcher has started some on {far}") }
        )
    })
}

/// Machines on which the launcher of a process has started ranks; empty if none is known.
fn far(pid: Pid) -> String {
    let launch = far_launch(&ProcFs::new(), pid).ok().flatten();
    let hosts = launch.into_iter().flat_map(|launch| launch.far).map(|far| far.host);
    hosts.take(RANKS_SHOWN_MAX).collect::<Vec<_>>().join(", ")
}

/// True if the same question may have another answer in a moment: a program that is about to load MPI has none yet.
fn may_change(error: &anyhow::Error) -> bool {
    let track = error.downcast_ref::<Error>();
    track.is_some_and(|error| error.is_retryable() || matches!(error, Error::NotMpi { .. }))
        || error.downcast_ref::<SlurmError>().is_some_and(SlurmError::is_retryable)
}

fn look(target: Target, through_site: bool) -> anyhow::Result<Found> {
    match target {
        Target::Slurm(id) => slurm_job(id, through_site),
        Target::Process(pid) => job_of(Pid(pid)),
    }
}

/// The job of a process: from what is here, or from Slurm or its launcher where that is not all of it.
pub fn job_of(pid: Pid) -> anyhow::Result<Found> {
    let here = find_job_in(&ProcFs::new(), pid, &has_static_mpi);
    match &here {
        Ok(job) if job.missing_ranks().is_empty() => {}
        Ok(_) | Err(Error::NoRanksYet { .. } | Error::NotMpi { .. }) => {
            if let Some(found) = spread_by_slurm(pid)? {
                return Ok(found);
            }
            if let Some(launched) = Launched::of(pid)? {
                return Ok(Found::Spread(Box::new(Spread::Launch(launched))));
            }
        }
        Err(_) => {}
    }
    let far = if matches!(here, Err(Error::NoRanksYet { .. })) { far(pid) } else { String::new() };
    let job = here.map_err(|error| match far.is_empty() {
        true => anyhow::Error::from(error),
        false => anyhow::Error::from(error)
            .context(format!("its ranks are on {far}: run `trimtab attach PID` there, with the PID of a rank")),
    });
    Ok(Found::Here(Box::new(job?)))
}

/// True if there is no job behind a process: it is no part of an MPI program.
pub fn is_no_job(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::NotMpi { .. }))
}

/// The process to look into for a process id: of a launcher, its job's lowest rank, because launchers are never measured;
/// else the very process, of a job or not.
///
/// # Errors
/// It is a launcher, and none of its ranks is here.
pub fn to_look_into(pid: Pid, only_process: bool) -> anyhow::Result<Vec<LookedInto>> {
    let itself = vec![LookedInto { pid, ranks: Vec::new(), program: String::new() }];
    if only_process {
        return Ok(itself);
    }
    let here = find_job_in(&ProcFs::new(), pid, &has_static_mpi);
    let is_launcher = |job: &Job| job.ranks.iter().all(|rank| rank.pid != pid) && starts_ranks(job, pid);
    let job = match here {
        Ok(job) if is_launcher(&job) => job,
        Err(error @ Error::NoRanksYet { .. }) => {
            let context = format!(
                "process {pid} starts an MPI program, and none of its ranks is here; give the process id of a rank, on its \
                 machine, or --process for {pid} itself"
            );
            return Err(anyhow::Error::from(error).context(context));
        }
        // A process that is no launcher is meant itself, whatever else is wrong with its job.
        Ok(_) | Err(_) => return Ok(itself),
    };
    let mut programs: Vec<LookedInto> = Vec::new();
    for rank in &job.ranks {
        let program = rank.executable.display().to_string();
        match programs.iter_mut().find(|known| known.program == program) {
            Some(known) => known.ranks.push(rank.rank.0),
            None => programs.push(LookedInto { pid: rank.pid, ranks: vec![rank.rank.0], program }),
        }
    }
    Ok(programs)
}

/// A process that is looked into.
pub struct LookedInto {
    /// The process.
    pub pid: Pid,
    /// The ranks that run the same program, if their launcher was named; ascending.
    pub ranks: Vec<u32>,
    /// The program, where ranks are named.
    pub program: String,
}

/// Of several programs that one launcher runs the first one, and a word on which process that is and on the others.
pub fn first_to_look_into(pid: Pid, only_process: bool) -> anyhow::Result<Pid> {
    let programs = to_look_into(pid, only_process)?;
    let Some(first) = programs.first() else { bail!("process {pid} has no rank; give the process id of one") };
    if first.pid != pid {
        eprintln!("trimtab: looking into process {}, {}; --process looks into {pid} itself", first.pid, first.name());
    }
    for other in &programs[1..] {
        eprintln!("trimtab: not looked at: {}; give {} for it", other.name(), other.pid);
    }
    Ok(first.pid)
}

impl LookedInto {
    /// `ranks 0, 1 (/home/me/app)`.
    pub fn name(&self) -> String {
        format!("{} ({})", trimtab_window::name_ranks(&self.ranks), self.program)
    }
}

/// True if the job's ranks, or one of them, descend from a process.
fn starts_ranks(job: &Job, pid: Pid) -> bool {
    let processes = ProcFs::new();
    let parent = |of: &Pid| processes.stat(*of).ok().map(|stat| stat.parent).filter(|parent| parent.0 > 0);
    job.launcher == Some(pid)
        || job.ranks.iter().any(|rank| std::iter::successors(Some(rank.pid), parent).any(|above| above == pid))
}

/// The job of a launcher that was seen before.
///
/// # Errors
/// It is on another host, or has ended.
pub fn launched_again((host, launcher, start_time_ticks): (&str, Pid, u64)) -> anyhow::Result<Found> {
    if host != host_name() {
        bail!("its launcher, process {launcher}, is on {host}: measure it there");
    }
    if !trimtab_os::runs_since(launcher, start_time_ticks) {
        bail!("that job has ended; start it again and use `trimtab attach`");
    }
    job_of(launcher)
}

/// The job that Slurm knows a process to be of, if that runs on other nodes too.
fn spread_by_slurm(pid: Pid) -> anyhow::Result<Option<Found>> {
    let processes = ProcFs::new();
    let id = match slurm_handle(&processes, pid)? {
        None => return Ok(None),
        Some(SlurmHandle::Srun(srun)) => match slurm::step_of_srun(&slurm::Program, &processes.host(), srun) {
            Ok(Some(id)) => id,
            // The processes here speak for themselves: where there is no Slurm, something else is called srun.
            Ok(None) | Err(SlurmError::NotInstalled { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        },
        Some(SlurmHandle::Task(task)) => SlurmId { job: task.job, part: Part::Whole, step: Some(task.step) },
        Some(SlurmHandle::Inside { job }) => SlurmId { job, part: Part::Whole, step: None },
    };
    match slurm_job(id, false) {
        Ok(found @ Found::Spread(_)) => Ok(Some(found)),
        Ok(Found::Here(_)) => Ok(None),
        // The environment of a job outlives it, and what was found here is no part of it then.
        Err(error) if may_change(&error) || error.is::<Error>() => Ok(None),
        Err(error) => match error.downcast_ref::<SlurmError>() {
            Some(SlurmError::NoSuchJob { .. } | SlurmError::Ended { .. } | SlurmError::NotInstalled { .. }) => Ok(None),
            _ => Err(error),
        },
    }
}

/// A job of Slurm: its ranks, if all of it is on this machine and no site's agents are to measure it.
pub fn slurm_job(id: SlurmId, through_site: bool) -> anyhow::Result<Found> {
    let processes = ProcFs::new();
    let own_uid = processes.status(processes.own_pid())?.uids[1];
    let scontrol = slurm::Ahead::begin(slurm::Program, &slurm::questions(id));
    let mut running = slurm::find(&scontrol, id, own_uid)?;
    let is_spread = running.nodes.len() > 1 || through_site;
    if is_spread || slurm::locate(&scontrol, &mut running, &processes.host()).is_err() {
        return Ok(Found::Spread(Box::new(Spread::Slurm(running))));
    }
    Ok(Found::Here(Box::new(find_slurm_job_in(&processes, &running.run, &has_static_mpi)?)))
}
