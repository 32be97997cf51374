//! A Slurm job by its id: is it running, where, and which of its processes are here?
//!
//! [`find`] asks Slurm about the job; [`find_slurm_job`](crate::find_slurm_job) then finds its ranks on this machine.
//! Slurm's word and that of `/proc` are kept apart: the first says what should run, the second what does.
//!
//! A job that was requeued runs again under the same id, so a run is told by id *and* number of restarts, and processes
//! that an earlier run left behind belong to no step's daemon any more.
//!
//! Next: `facts` for what Slurm says, `task` for what a process tells about itself.

mod accounting;
mod ahead;
mod ask;
mod error;
mod facts;
mod hosts;
mod id;
mod task;

pub use accounting::{Accounting, default_partition, ended_unix_s, jobs_of_days};
pub use ahead::Ahead;
pub use ask::{Program, Recording, Scontrol};
pub use error::SlurmError;
pub use facts::{JobFacts, JobState, NoRecord, StepFacts, parse_jobs, parse_pids, parse_steps};
pub use id::{NotAnId, Part, SlurmId, Step};
pub use task::SlurmTask;
pub(crate) use task::restarts;

use std::collections::BTreeSet;
use trimtab_types::Pid;

/// One run of a job, as its processes name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmRun {
    /// Their `SLURM_JOB_ID`: several if the job has components.
    pub jobs: BTreeSet<u32>,
    /// Only this step.
    pub step: Option<Step>,
    /// How often the job was requeued before.
    pub restarts: u32,
    /// Its processes on this machine, where Slurm lists them.
    pub listed: Option<BTreeSet<Pid>>,
}

/// A running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// The id as asked for, with the part that runs.
    pub id: SlurmId,
    /// Its parts: one, or the components of a heterogeneous job.
    pub parts: Vec<JobFacts>,
    /// All nodes of the job, or of the step if one was asked for.
    pub nodes: Vec<String>,
    /// How its processes name it.
    pub run: SlurmRun,
}

/// Asks Slurm about a job that runs and that user `own_uid` may measure.
///
/// # Errors
/// See [`SlurmError`]: no such job, not running, not ours, no Slurm.
pub fn find(scontrol: &dyn Scontrol, id: SlurmId, own_uid: u32) -> Result<RunningJob, SlurmError> {
    let parts = running_parts(ask_jobs(scontrol, id)?, id)?;
    let first = &parts[0];
    let id = SlurmId { step: id.step, ..if parts.len() == 1 { first.id } else { id } };
    if own_uid != 0 && first.uid != own_uid {
        let (user, uid) = (first.user.clone(), first.uid);
        return Err(SlurmError::OtherUser { id: id.without_step(), user, uid, own_uid });
    }
    let nodes = match id.step {
        Some(step) => running_steps(scontrol, &parts, id, step)?.into_iter().map(|step| step.nodes).collect(),
        None => parts.iter().map(|part| part.nodes.clone()).collect(),
    };
    let nodes = names_of(scontrol, &nodes)?;
    let run = SlurmRun {
        jobs: parts.iter().map(|part| part.job).collect(),
        step: id.step,
        restarts: first.restarts,
        listed: None,
    };
    Ok(RunningJob { id, parts, nodes, run })
}

/// The owner of one run of a job that has this machine, `host`, among its nodes: by Slurm's word, also where none of its
/// processes is here yet.
///
/// # Errors
/// See [`SlurmError`]: no such job, it does not run or not here, or no Slurm.
pub fn owner_here(scontrol: &dyn Scontrol, run: &SlurmRun, host: &str) -> Result<u32, SlurmError> {
    let (mut owner, mut nodes) = (None, BTreeSet::new());
    for number in &run.jobs {
        let id = SlurmId { job: *number, part: Part::Whole, step: None };
        // By the number of an array's last task Slurm means all of its tasks.
        let job = ask_jobs(scontrol, id)?.into_iter().find(|job| job.job == *number);
        let job = job.ok_or(SlurmError::NoSuchJob { id })?;
        let part = running_parts(vec![job], id)?.swap_remove(0);
        if part.restarts != run.restarts {
            return Err(SlurmError::Ended { id, state: format!("begun {} times since", part.restarts) });
        }
        if let Some(earlier) = owner.filter(|earlier| *earlier != part.uid) {
            return Err(SlurmError::OtherUser { id, user: part.user, uid: part.uid, own_uid: earlier });
        }
        owner = Some(part.uid);
        nodes.insert(part.nodes);
    }
    let id = SlurmId { job: run.jobs.first().copied().unwrap_or(0), part: Part::Whole, step: None };
    let owner = owner.ok_or(SlurmError::NoSuchJob { id })?;
    let nodes = names_of(scontrol, &nodes)?;
    check_here(scontrol, &RunningJob { id, parts: Vec::new(), nodes, run: run.clone() }, host)?;
    Ok(owner)
}

/// The running step that the `srun` with this process id on `host` began; `None`: Slurm knows of none (yet).
///
/// # Errors
/// No Slurm, or one that does not answer.
pub fn step_of_srun(scontrol: &dyn Scontrol, host: &str, srun: Pid) -> Result<Option<SlurmId>, SlurmError> {
    let words = ["show", "step"];
    let answer = match scontrol.ask(&words) {
        Ok(answer) => answer,
        // Where no step runs at all, Slurm says so by failing.
        Err(SlurmError::Failed { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let steps = parse_steps(&answer)
        .map_err(|error| SlurmError::Malformed { command: ask::shown(&words), text: error.record })?;
    let short = |name: &str| name.split('.').next().map(str::to_owned);
    let began = |step: &StepFacts| {
        step.srun.as_ref().is_some_and(|(at, pid)| *pid == srun && (at == host || short(at) == short(host)))
    };
    let mut own = steps.into_iter().filter(|step| step.running && began(step));
    let Some(first) = own.next() else { return Ok(None) };
    // One `srun` of a heterogeneous job begins a step in each component.
    let part = if own.any(|other| other.id != first.id) { Part::Whole } else { first.id.part };
    Ok(Some(SlurmId { part, step: Some(first.step), ..first.id }))
}

/// Adds what Slurm says about the job's processes on this machine, `host`.
///
/// # Errors
/// [`SlurmError::Elsewhere`] if it is none of the job's nodes.
pub fn locate(scontrol: &dyn Scontrol, job: &mut RunningJob, host: &str) -> Result<(), SlurmError> {
    check_here(scontrol, job, host)?;
    let listed = |job: &u32| {
        // Only the job's user and root may ask; without an answer the processes speak for themselves.
        let answer = scontrol.ask(&["listpids", &job.to_string()]).ok()?;
        Some(parse_pids(&answer))
    };
    let all: Option<Vec<BTreeSet<Pid>>> = job.run.jobs.iter().map(listed).collect();
    job.run.listed = all.map(|sets| sets.into_iter().flatten().collect()).filter(|all: &BTreeSet<Pid>| !all.is_empty());
    Ok(())
}

fn check_here(scontrol: &dyn Scontrol, job: &RunningJob, host: &str) -> Result<(), SlurmError> {
    let short = host.split('.').next().unwrap_or(host);
    // A node may have another name in Slurm than in the network; old versions can't be asked.
    let aliases = scontrol.ask(&["show", "aliases", short]).unwrap_or_default();
    let names: BTreeSet<&str> = aliases.split_whitespace().chain([host, short]).collect();
    if job.nodes.iter().any(|node| names.contains(node.as_str())) {
        return Ok(());
    }
    Err(SlurmError::Elsewhere { id: job.id, nodes: job.nodes.clone(), host: host.to_owned() })
}

fn ask_jobs(scontrol: &dyn Scontrol, id: SlurmId) -> Result<Vec<JobFacts>, SlurmError> {
    let id = id.without_step();
    let text = id.to_string();
    let words = ["show", "job", &text];
    let answer = scontrol.ask(&words).map_err(|error| match error {
        SlurmError::Failed { said, .. } if is_unknown(&said) => SlurmError::NoSuchJob { id },
        error => error,
    })?;
    let jobs = parse_jobs(&answer)
        .map_err(|error| SlurmError::Malformed { command: ask::shown(&words), text: error.record })?;
    if jobs.is_empty() { Err(SlurmError::NoSuchJob { id }) } else { Ok(jobs) }
}

/// True if it says that there is no such job, or no such task of an array.
fn is_unknown(said: &str) -> bool {
    said.contains("Invalid job id") || (said.starts_with("Job ") && said.ends_with(" not found"))
}

/// The part that runs, or all components; never two tasks of an array, which are jobs of their own.
fn running_parts(mut jobs: Vec<JobFacts>, id: SlurmId) -> Result<Vec<JobFacts>, SlurmError> {
    let asked = id.without_step();
    if jobs.iter().any(|job| job.id == asked) && asked.part != Part::Whole {
        jobs.retain(|job| job.id == asked);
    }
    // The number of an array's last task is the array's, too: asked by that number, the array is meant.
    let (running, others): (Vec<JobFacts>, Vec<JobFacts>) =
        jobs.into_iter().partition(|job| job.state == JobState::Running && !job.nodes.is_empty());
    let components = running.iter().all(|job| matches!(job.id.part, Part::Component(_)));
    if running.len() > 1 && !components {
        let parts = running.iter().map(|job| job.id).collect();
        return Err(SlurmError::SeveralParts { id: asked, parts });
    }
    if !running.is_empty() {
        return Ok(running);
    }
    Err(match others.into_iter().next() {
        None => SlurmError::NoSuchJob { id: asked },
        Some(job) => match job.state {
            JobState::Suspended => SlurmError::Suspended { id: job.id },
            JobState::Ended(state) => SlurmError::Ended { id: job.id, state },
            JobState::Pending | JobState::Running => {
                SlurmError::Pending { id: job.id, reason: job.reason.unwrap_or_else(|| "no reason given".to_owned()) }
            }
        },
    })
}

/// Step `wanted` of each part that runs it.
fn running_steps(
    scontrol: &dyn Scontrol,
    parts: &[JobFacts],
    id: SlurmId,
    wanted: Step,
) -> Result<Vec<StepFacts>, SlurmError> {
    let mut steps = Vec::new();
    for part in parts {
        let text = part.job.to_string();
        let words = ["show", "step", &text];
        let answer = match scontrol.ask(&words) {
            Ok(answer) => answer,
            // A job that has just begun has no step, and Slurm says so by failing.
            Err(SlurmError::Failed { .. }) => String::new(),
            Err(error) => return Err(error),
        };
        let found = parse_steps(&answer)
            .map_err(|error| SlurmError::Malformed { command: ask::shown(&words), text: error.record })?;
        // Component 1 of job 4711 is a job of its own, whose steps are listed under 4711.
        let of_part = |step: &StepFacts| step.id == part.id || step.id.job == part.job || step.id.job == part.id.job;
        let same_task = |step: &StepFacts| !matches!(step.id.part, Part::ArrayTask(_)) || step.id == part.id;
        steps.extend(found.into_iter().filter(|step| step.running && of_part(step) && same_task(step)));
    }
    steps.retain(|step| step.step == wanted);
    if steps.is_empty() { Err(SlurmError::NoSuchStep { id: id.without_step(), step: wanted }) } else { Ok(steps) }
}

/// The questions that [`find`] asks in any case, for [`Ahead`].
pub fn questions(id: SlurmId) -> Vec<String> {
    let of_step = id.step.map(|_| format!("show step {}", id.job));
    [format!("show job {}", id.without_step())].into_iter().chain(of_step).collect()
}

/// `n[1-2],m3` as names, each once.
fn names_of(scontrol: &dyn Scontrol, lists: &BTreeSet<String>) -> Result<Vec<String>, SlurmError> {
    let mut names = Vec::new();
    for list in lists.iter().filter(|list| !list.is_empty()) {
        match hosts::expand(list) {
            Some(expanded) => names.extend(expanded),
            None => {
                let answer = scontrol.ask(&["show", "hostnames", list])?;
                names.extend(answer.split_whitespace().map(str::to_owned));
            }
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests;
