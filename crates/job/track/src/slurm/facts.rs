//! `scontrol show` about jobs and steps: text in, facts out.
//!
//! The text is the one form that all versions of Slurm share. Names, comments and paths in it are the user's and may hold
//! anything, so a fact is read only from the line that begins with the key that Slurm puts there, and a fact that is said
//! twice is believed from nobody.
//!
//! Next: `ask`, which runs `scontrol`.

use super::id::{Part, SlurmId, Step};
use std::collections::BTreeSet;
use trimtab_types::Pid;

/// Slurm's facts about one job, array task or component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// The id that its processes see as `SLURM_JOB_ID`.
    pub job: u32,
    /// The id as users write it.
    pub id: SlurmId,
    /// Name of its user.
    pub user: String,
    /// Its user.
    pub uid: u32,
    /// Such as `RUNNING`.
    pub state: JobState,
    /// Why it is in that state, where Slurm gives a reason.
    pub reason: Option<String>,
    /// How often it was requeued.
    pub restarts: u32,
    /// Its nodes as Slurm writes them, `n[1-4]`; empty before it runs.
    pub nodes: String,
    /// Number of nodes.
    pub node_count: u32,
    /// Number of tasks asked for.
    pub tasks: Option<u32>,
}

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Its processes run, or are about to be ended.
    Running,
    /// It waits for its turn.
    Pending,
    /// Its processes are stopped.
    Suspended,
    /// It is over, in this way.
    Ended(String),
}

/// Slurm's facts about one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFacts {
    /// Its job as users write it: of a task of an array that is `8_1`, whatever the task's own number.
    pub id: SlurmId,
    /// Which step.
    pub step: Step,
    /// True if it runs.
    pub running: bool,
    /// Its nodes as Slurm writes them.
    pub nodes: String,
    /// Number of tasks.
    pub tasks: Option<u32>,
    /// Its name: usually the program's.
    pub name: String,
    /// The `srun` that began it and waits for it: its host, and its process there.
    pub srun: Option<(String, Pid)>,
}

/// A record of `scontrol` that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this record can't be understood: {record}")]
pub struct NoRecord {
    /// Its text.
    pub record: String,
}

impl NoRecord {
    fn of(record: &str) -> Self {
        NoRecord { record: record.to_owned() }
    }
}

/// Jobs of `scontrol show job`.
///
/// # Errors
/// The first record that can't be understood.
pub fn parse_jobs(text: &str) -> Result<Vec<JobFacts>, NoRecord> {
    records(text, "JobId=").map(|record| Record(record).job().ok_or_else(|| NoRecord::of(record))).collect()
}

/// Steps of `scontrol show step`.
///
/// # Errors
/// The first record that can't be understood.
pub fn parse_steps(text: &str) -> Result<Vec<StepFacts>, NoRecord> {
    let all = records(text, "StepId=").map(|record| Record(record).step().ok_or_else(|| NoRecord::of(record)));
    all.collect::<Result<Vec<Option<StepFacts>>, NoRecord>>().map(|steps| steps.into_iter().flatten().collect())
}

/// Processes of `scontrol listpids`: the first column of each line but the heading.
pub fn parse_pids(text: &str) -> BTreeSet<Pid> {
    let first = |line: &str| line.split_whitespace().next()?.parse().ok();
    text.lines().filter_map(first).filter(|pid| *pid > 0).map(Pid).collect()
}

/// Records are parted by empty lines and begin at the left margin.
fn records<'a>(text: &'a str, begins: &'static str) -> impl Iterator<Item = &'a str> {
    text.split("\n\n").map(str::trim).filter(move |record| record.starts_with(begins))
}

/// One record.
struct Record<'a>(&'a str);

impl<'a> Record<'a> {
    /// The line that begins with `key=`; `None` if there is none, or more than one.
    fn line(&self, key: &str) -> Option<&'a str> {
        let mut lines = self.0.lines().map(str::trim_start);
        let begins = |line: &&str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with('='));
        let found = lines.by_ref().find(begins)?;
        lines.find(begins).is_none().then_some(found)
    }

    /// The value of `key` in the line that begins with `first=`.
    fn value(&self, first: &str, key: &str) -> Option<&'a str> {
        let mut words = self.line(first)?.split(' ');
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn number(&self, first: &str, key: &str) -> Option<u32> {
        // "NumNodes=2-4" is a wish of a job that has not begun.
        self.value(first, key)?.split('-').next()?.parse().ok()
    }

    fn job(&self) -> Option<JobFacts> {
        // The text behind the name on the first line is the user's.
        let first = self.0.lines().next()?.split(" JobName=").next()?;
        let head = |key: &str| first.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let job: u32 = head("JobId")?.parse().ok()?;
        let id = |whole: &str, index: &str, part: fn(u32) -> Part| {
            let (whole, index) = (head(whole)?.parse().ok()?, head(index)?.parse().ok()?);
            Some(SlurmId { job: whole, part: part(index), step: None })
        };
        let id = id("ArrayJobId", "ArrayTaskId", Part::ArrayTask)
            .or_else(|| id("HetJobId", "HetJobOffset", Part::Component))
            .unwrap_or(SlurmId { job, part: Part::Whole, step: None });
        let (user, uid) = self.value("UserId", "UserId")?.strip_suffix(')')?.rsplit_once('(')?;
        Some(JobFacts {
            job,
            id,
            user: user.to_owned(),
            uid: uid.parse().ok()?,
            state: JobState::of(self.value("JobState", "JobState")?),
            reason: self.value("JobState", "Reason").filter(|reason| *reason != "None").map(str::to_owned),
            restarts: self.number("Requeue", "Restarts")?,
            nodes: given(self.value("NodeList", "NodeList")),
            node_count: self.number("NumNodes", "NumNodes")?,
            tasks: self.number("NumNodes", "NumTasks"),
        })
    }

    /// `Some(None)`: a record of no step, such as one that Slurm has not yet given an id.
    fn step(&self) -> Option<Option<StepFacts>> {
        // Of a heterogeneous job: "4711+1.0", or "4711.0+1" in other versions.
        let Ok(id) = self.value("StepId", "StepId")?.split("+").next()?.parse::<SlurmId>() else { return Some(None) };
        let Some(step) = id.step else { return Some(None) };
        let nodes = self.value("State", "NodeList").or_else(|| self.value("NodeList", "NodeList"));
        let name = self.line("Nodes").and_then(|line| line.split_once(" Name="));
        Some(Some(StepFacts {
            id: id.without_step(),
            step,
            running: self.value("State", "State")? == "RUNNING",
            nodes: given(nodes),
            tasks: self.number("Nodes", "Tasks"),
            name: name.map_or("", |(_, name)| name.split(" Network=").next().unwrap_or_default()).to_owned(),
            srun: self.srun(),
        }))
    }

    /// `SrunHost:Pid=n1:908`; a batch step has none.
    fn srun(&self) -> Option<(String, Pid)> {
        let (host, pid) = self.value("SrunHost:Pid", "SrunHost:Pid")?.rsplit_once(':')?;
        let pid: i32 = pid.parse().ok().filter(|pid| *pid > 0)?;
        Some((given(Some(host)), Pid(pid))).filter(|(host, _)| !host.is_empty())
    }
}

/// A value that is there; Slurm writes `(null)` for none.
fn given(value: Option<&str>) -> String {
    value.filter(|value| *value != "(null)").unwrap_or_default().to_owned()
}

impl JobState {
    fn of(word: &str) -> JobState {
        match word {
            // A job that is completing may still have processes, but they are being ended.
            "RUNNING" | "COMPLETING" | "CONFIGURING" | "RESIZING" | "SIGNALING" | "STAGE_OUT" => JobState::Running,
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" | "REQUEUE_FED" => {
                JobState::Pending
            }
            "SUSPENDED" | "STOPPED" => JobState::Suspended,
            other => JobState::Ended(other.to_owned()),
        }
    }
}
