//! The target that a user means by a process id or a Slurm job: ranks on this machine, or a job on many nodes.
//!
//! A process id that shows only a part of a job here leads on to Slurm, by the `srun` or the step it is of, or to the hosts
//! that its launcher went to; then the whole job is meant. Ranks that run elsewhere and can't be reached are an error that
//! says so, never left out.
//!
//! Next: `spread` for jobs on many nodes, `launch` for programs that are started.

use crate::error::Error;
use crate::nodes::Nodes;
use crate::spread::{Launched, Spread, launcher_of, slurm_id};
use crate::{Engine, descriptors};
use std::time::{Duration, Instant};
use trimtab_measure::{has_static_mpi, host_name};
use trimtab_track::Error as TrackError;
use trimtab_track::slurm::{self, Part, SlurmError, SlurmId};
use trimtab_track::{Job, ProcFs, Processes, SlurmHandle};
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
    Process(Pid),
    /// A job of Slurm.
    Slurm(SlurmId),
    /// The job of a launcher on this machine that began at this moment, in clock ticks after boot.
    Launcher(Pid, u64),
}

impl Target {
    /// A job of many nodes that was measured before, by its key; `None`: another kind of job.
    ///
    /// # Errors
    /// Its launcher is on another machine, or the key can't be understood.
    pub fn of_key(key: &str) -> Option<Result<Target, Error>> {
        if let Some(id) = slurm_id(key) {
            return Some(id.map(Target::Slurm).map_err(Error::from));
        }
        let (host, launcher, start_time_ticks) = launcher_of(key)?;
        Some(match host == host_name() {
            true => Ok(Target::Launcher(launcher, start_time_ticks)),
            false => Err(Error::LauncherElsewhere { launcher, host: host.to_owned() }),
        })
    }
}

/// A job that was found.
pub enum Found {
    /// All of it is on this machine.
    Here(Box<Job>),
    /// A job that runs elsewhere, or on more than one node.
    Spread(Box<Spread>),
}

impl Engine<'_> {
    /// The job that is meant, whole; if it is waited for, as much of it as is here when the time is over.
    ///
    /// # Errors
    /// There is none, or some of its ranks can't be reached.
    pub fn find(&self, target: Target, wait: Option<Duration>) -> Result<Found, Error> {
        if let Some(limit) = wait {
            return self.wait_for(target, limit);
        }
        let found = self.look(target)?;
        if let Found::Here(job) = &found {
            if let Some(said) = elsewhere(job) {
                return Err(Error::Missing { said });
            }
            descriptors::check(job.ranks.len())?;
        }
        Ok(found)
    }

    /// The job that is meant, as far as it is found now.
    ///
    /// # Errors
    /// There is none.
    pub fn look(&self, target: Target) -> Result<Found, Error> {
        match target {
            Target::Slurm(id) => slurm_job(id, self.nodes.is_some_and(Nodes::stand_by)),
            Target::Process(pid) => job_of(pid),
            Target::Launcher(pid, start_time_ticks) if trimtab_os::runs_since(pid, start_time_ticks) => job_of(pid),
            Target::Launcher(..) => Err(Error::Ended),
        }
    }

    /// The job of a process that was its rank when it was measured before, as far as it runs on this machine.
    ///
    /// # Errors
    /// There is none.
    pub fn look_here(&self, rank: Pid) -> Result<Found, Error> {
        Ok(Found::Here(Box::new(find_job_in(&ProcFs::new(), rank, &has_static_mpi)?)))
    }

    fn wait_for(&self, target: Target, limit: Duration) -> Result<Found, Error> {
        let begin = Instant::now();
        let (mut here, mut since) = (0, begin);
        loop {
            let found = self.look(target);
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
                Err(error) => !error.may_change(),
            };
            if is_final || begin.elapsed() >= limit {
                return found;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Why a job is not all here; `None` if it is, as far as anybody knows.
pub(crate) fn elsewhere(job: &Job) -> Option<String> {
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

/// The job of a process: from what is here, or from Slurm or its launcher where that is not all of it.
pub(crate) fn job_of(pid: Pid) -> Result<Found, Error> {
    let here = find_job_in(&ProcFs::new(), pid, &has_static_mpi);
    match &here {
        Ok(job) if job.missing_ranks().is_empty() => {}
        Ok(_) | Err(TrackError::NoRanksYet { .. } | TrackError::NotMpi { .. }) => {
            if let Some(found) = spread_by_slurm(pid)? {
                return Ok(found);
            }
            if let Some(launched) = Launched::of(pid)? {
                return Ok(Found::Spread(Box::new(Spread::Launch(launched))));
            }
        }
        Err(_) => {}
    }
    let hosts = if matches!(here, Err(TrackError::NoRanksYet { .. })) { far(pid) } else { String::new() };
    let job = here.map_err(|source| match hosts.is_empty() {
        true => Error::Track(source),
        false => Error::AllElsewhere { hosts, source },
    });
    Ok(Found::Here(Box::new(job?)))
}

/// The process to look into for a process id: of a launcher, its job's lowest rank, because launchers are never measured;
/// else the very process, of a job or not.
///
/// # Errors
/// It is a launcher, and none of its ranks is here.
pub fn to_look_into(pid: Pid, only_process: bool) -> Result<Vec<LookedInto>, Error> {
    let itself = vec![LookedInto { pid, ranks: Vec::new(), program: String::new() }];
    if only_process {
        return Ok(itself);
    }
    let here = find_job_in(&ProcFs::new(), pid, &has_static_mpi);
    let is_launcher = |job: &Job| job.ranks.iter().all(|rank| rank.pid != pid) && starts_ranks(job, pid);
    let job = match here {
        Ok(job) if is_launcher(&job) => job,
        Err(source @ TrackError::NoRanksYet { .. }) => return Err(Error::Launcher { pid, source }),
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

/// The job that Slurm knows a process to be of, if that runs on other nodes too.
fn spread_by_slurm(pid: Pid) -> Result<Option<Found>, Error> {
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
        Err(error) if error.may_change() || error.track().is_some() => Ok(None),
        Err(Error::Slurm(
            SlurmError::NoSuchJob { .. } | SlurmError::Ended { .. } | SlurmError::NotInstalled { .. },
        )) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A job of Slurm: its ranks, if all of it is on this machine and no site's agents are to measure it.
fn slurm_job(id: SlurmId, through_site: bool) -> Result<Found, Error> {
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
