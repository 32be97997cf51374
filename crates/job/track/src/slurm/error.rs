//! The errors of finding a Slurm job, with what to do next.

use super::id::{SlurmId, Step};
use std::path::PathBuf;

/// Why a Slurm job can't be found here.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// No thread can be begun to read what `scontrol` says.
    #[error("{command} can't be read: no thread can be begun; raise the limit of processes (`ulimit -u`)")]
    NoThread {
        /// The question.
        command: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// There is no `scontrol`.
    #[error(
        "Slurm is not installed here: {command} can't be run; run this on a node of the cluster, or give a process id"
    )]
    NotInstalled {
        /// The command that was tried.
        command: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// `scontrol` took too long.
    #[error("{command} did not answer in {limit_s} s; is the controller up? see `scontrol ping`, then try again")]
    NoAnswer {
        /// The command that was tried.
        command: String,
        /// How long it was waited for.
        limit_s: u64,
    },
    /// `scontrol` failed for another reason than an unknown job.
    #[error("{command} failed: {said}; see `scontrol ping`")]
    Failed {
        /// The command that was tried.
        command: String,
        /// Its output.
        said: String,
    },
    /// Slurm does not know the job.
    #[error("Slurm knows no job {id} (any more); `squeue --me` lists yours")]
    NoSuchJob {
        /// The id asked for.
        id: SlurmId,
    },
    /// It waits for its turn.
    #[error("job {id} is not running yet ({reason}); try again when `squeue --jobs={}` shows it as R", id.job)]
    Pending {
        /// The job.
        id: SlurmId,
        /// Why it waits.
        reason: String,
    },
    /// It is stopped.
    #[error("job {id} is suspended, so nothing can be measured; `scontrol resume {}` lets it go on", id.job)]
    Suspended {
        /// The job.
        id: SlurmId,
    },
    /// It is over.
    #[error("job {id} has ended ({state}); `trimtab list` shows what was measured of it")]
    Ended {
        /// The job.
        id: SlurmId,
        /// How.
        state: String,
    },
    /// Several array tasks or components run under that id.
    #[error("job {id} has {} parts that run; give one of: {}", parts.len(), shown(parts))]
    SeveralParts {
        /// The id asked for.
        id: SlurmId,
        /// Those that run.
        parts: Vec<SlurmId>,
    },
    /// The job runs, this step does not.
    #[error("job {id} has no running step {step}; `scontrol show step {}` lists its steps", id.job)]
    NoSuchStep {
        /// The job.
        id: SlurmId,
        /// The step asked for.
        step: Step,
    },
    /// Somebody else's.
    #[error("job {id} belongs to {user} ({uid}) and you are user {own_uid}; run trimtab as {user} or as root")]
    OtherUser {
        /// The job.
        id: SlurmId,
        /// Its user.
        user: String,
        /// Its user's number.
        uid: u32,
        /// Our own.
        own_uid: u32,
    },
    /// The job runs on other nodes.
    #[error(
        "job {id} runs on {}, not on this machine ({host}); run there: `srun --jobid={} --overlap --nodes=1 trimtab attach --slurm {id}`",
        nodes.join(", "), id.job
    )]
    Elsewhere {
        /// The job.
        id: SlurmId,
        /// Its nodes.
        nodes: Vec<String>,
        /// This machine.
        host: String,
    },
    /// The answer has a form that is not known.
    #[error("{command} said something unknown: {text:?}; please report it with `scontrol --version`")]
    Malformed {
        /// The question that was asked.
        command: String,
        /// The record.
        text: String,
    },
    /// A file that says where we are could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}

fn shown(parts: &[SlurmId]) -> String {
    /// Arrays may have thousands of tasks.
    const SHOWN_MAX: usize = 8;
    let mut words: Vec<String> = parts.iter().take(SHOWN_MAX).map(SlurmId::to_string).collect();
    if parts.len() > SHOWN_MAX {
        words.push("...".to_owned());
    }
    words.join(", ")
}

impl SlurmError {
    /// True if the same question may have another answer a moment later, without the user doing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            SlurmError::NoAnswer { .. } | SlurmError::Pending { .. } | SlurmError::NoSuchStep { .. } => true,
            SlurmError::NotInstalled { .. }
            | SlurmError::NoThread { .. }
            | SlurmError::Failed { .. }
            | SlurmError::NoSuchJob { .. }
            | SlurmError::Suspended { .. }
            | SlurmError::Ended { .. }
            | SlurmError::SeveralParts { .. }
            | SlurmError::OtherUser { .. }
            | SlurmError::Elsewhere { .. }
            | SlurmError::Malformed { .. }
            | SlurmError::Read { .. } => false,
        }
    }
}
