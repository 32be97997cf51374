//! Which other jobs are there, and how busy are the machines? Here by this machine's processes; elsewhere others say.
//! On a Slurm job's nodes Slurm knows the jobs.
//!
//! Next: `wait`, which compares one answer with the one before.

use crate::error::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use trimtab_neighbours::{Counters, Machine, OtherJobs, Own, SLURM_JOB};
use trimtab_track::slurm::{JobState, RunningJob, Scontrol, SlurmError, parse_jobs};

/// Something that knows which other jobs share machines with ours.
pub trait JobSource {
    /// Each by its name, with the name of its program or user.
    ///
    /// # Errors
    /// It can't be asked.
    fn jobs(&mut self) -> Result<BTreeMap<String, String>, Error>;

    /// How often it may be asked.
    fn period(&self) -> Duration;
}

/// Something that knows how busy the job's machines are.
pub trait Machines {
    /// The kernel's counters of each machine and when they were read, by the name of its host, which is empty for this
    /// one.
    ///
    /// # Errors
    /// They can't be asked.
    fn counters(&mut self) -> Result<BTreeMap<String, (Instant, Counters)>, Error>;
}

/// This machine alone.
#[derive(Clone, Debug, Default)]
pub struct MachineHere {
    machine: Machine,
}

impl Machines for MachineHere {
    fn counters(&mut self) -> Result<BTreeMap<String, (Instant, Counters)>, Error> {
        Ok(BTreeMap::from([(String::new(), (Instant::now(), self.machine.counters()))]))
    }
}

/// Jobs that have processes on this machine.
#[derive(Debug)]
pub struct JobsHere {
    others: OtherJobs,
}

impl JobsHere {
    /// All but our own.
    pub fn new(own: Own) -> JobsHere {
        JobsHere { others: OtherJobs::new(own) }
    }
}

impl JobSource for JobsHere {
    fn jobs(&mut self) -> Result<BTreeMap<String, String>, Error> {
        Ok(self.others.now())
    }

    fn period(&self) -> Duration {
        Duration::from_millis(500)
    }
}

/// Jobs that Slurm runs on the nodes of one of its jobs.
pub struct JobsOfSlurm<'a> {
    scontrol: &'a dyn Scontrol,
    own: BTreeSet<u32>,
    nodes: BTreeSet<String>,
    /// Lists of nodes that were taken apart.
    lists: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> JobsOfSlurm<'a> {
    /// All on the nodes of `running` but itself.
    pub fn new(scontrol: &'a dyn Scontrol, running: &RunningJob) -> JobsOfSlurm<'a> {
        let (own, nodes) = (running.run.jobs.clone(), running.nodes.iter().cloned().collect());
        JobsOfSlurm { scontrol, own, nodes, lists: BTreeMap::new() }
    }

    fn shares_nodes(&mut self, list: &str) -> Result<bool, SlurmError> {
        if !self.lists.contains_key(list) {
            let names = self.scontrol.ask(&["show", "hostnames", list])?;
            self.lists.insert(list.to_owned(), names.split_whitespace().map(str::to_owned).collect());
        }
        Ok(self.lists.get(list).is_some_and(|names| !names.is_disjoint(&self.nodes)))
    }

    fn running(&mut self) -> Result<BTreeMap<String, String>, SlurmError> {
        // No job at all is an answer that Slurm gives by failing, or by a sentence.
        let answer = match self.scontrol.ask(&["show", "job"]) {
            Err(SlurmError::Failed { .. }) => String::new(),
            other => other?,
        };
        let all = parse_jobs(&answer).unwrap_or_default().into_iter();
        let running = all.filter(|job| job.state == JobState::Running && !job.nodes.is_empty());
        let mut jobs = BTreeMap::new();
        for job in running.filter(|job| !self.own.contains(&job.job)).collect::<Vec<_>>() {
            if self.shares_nodes(&job.nodes)? {
                jobs.insert(format!("{SLURM_JOB}{}", job.id), job.user);
            }
        }
        Ok(jobs)
    }
}

impl JobSource for JobsOfSlurm<'_> {
    fn jobs(&mut self) -> Result<BTreeMap<String, String>, Error> {
        self.running().map_err(|source| Error::Jobs { source: Box::new(source) })
    }

    /// The controller answers all of a cluster's users.
    fn period(&self) -> Duration {
        Duration::from_secs(5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_track::slurm::{Recording, SlurmRun};

    fn record(job: u32, state: &str, nodes: &str) -> String {
        format!(
            "JobId={job} JobName=app\n   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A\n   \
             Priority=1 Nice=0 Account=(null) QOS=(null)\n   JobState={state} Reason=None Dependency=(null)\n   \
             Requeue=1 Restarts=0 BatchFlag=0 Reboot=0 ExitCode=0:0\n   NodeList={nodes}\n   \
             NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1\n\n"
        )
    }

    #[test]
    fn jobs_on_the_same_nodes_are_found() {
        let all = [
            record(7, "RUNNING", "n[1-2]"),
            record(8, "RUNNING", "n2"),
            record(9, "RUNNING", "n3"),
            record(10, "PENDING", ""),
        ]
        .concat();
        let slurm = Recording::default()
            .answer("show job", &all)
            .answer("show hostnames n2", "n2\n")
            .answer("show hostnames n3", "n3\n");
        let running = RunningJob {
            id: "7".parse().expect("an id"),
            parts: Vec::new(),
            nodes: vec!["n1".into(), "n2".into()],
            run: SlurmRun { jobs: BTreeSet::from([7]), step: None, restarts: 0, listed: None },
        };
        let mut source = JobsOfSlurm::new(&slurm, &running);
        let expected = BTreeMap::from([("Slurm job 8".to_owned(), "ann".to_owned())]);
        assert_eq!(source.jobs().expect("an answer"), expected);
        let none = Recording::default().failure("show job", "No jobs in the system");
        assert!(JobsOfSlurm::new(&none, &running).jobs().expect("an answer").is_empty());
    }
}
