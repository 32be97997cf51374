//! The errors that keep a job from being found, or anything from being done in it.
//!
//! Next: `found` and `window`, which raise most of these.

use std::process::ExitStatus;
use trimtab_measure::NoHold;
use trimtab_track::slurm::{NotAnId, SlurmError};
use trimtab_types::{BoxError, Pid};

/// A job that can't be found, or nothing that could be done in it. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Processes of this machine don't show the job.
    #[error(transparent)]
    Track(#[from] trimtab_track::Error),
    /// Slurm does not.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// A known job's id of Slurm can't be understood.
    #[error(transparent)]
    Id(#[from] NotAnId),
    /// Some of the job's ranks are not here, and no way to them is known.
    #[error("{said}")]
    Missing {
        /// Which ranks, and where they may be.
        said: String,
    },
    /// None of its ranks is here.
    #[error("its ranks are on {hosts}: run `trimtab attach PID` there, with the PID of a rank")]
    AllElsewhere {
        /// Where the launcher has started some.
        hosts: String,
        /// Why none was found.
        #[source]
        source: trimtab_track::Error,
    },
    /// A launcher is not looked into, and none of its ranks is here.
    #[error(
        "process {pid} starts an MPI program, and none of its ranks is here; give the process id of a rank, on its \
         machine, or --process for {pid} itself"
    )]
    Launcher {
        /// The launcher.
        pid: Pid,
        /// Why no rank was found.
        #[source]
        source: trimtab_track::Error,
    },
    /// The launcher of a known job is on another machine.
    #[error("its launcher, process {launcher}, is on {host}: measure it there")]
    LauncherElsewhere {
        /// The launcher.
        launcher: Pid,
        /// Its machine.
        host: String,
    },
    /// A known job has ended.
    #[error("that job has ended; start it again and use `trimtab attach`")]
    Ended,
    /// This program may open too few files to look into so many processes.
    #[error(
        "trimtab may open only {limit} files at a time here and needs {needed} or more; raise the limit (`ulimit -n {needed}`) \
         and try again"
    )]
    TooFewFiles {
        /// How many it may open.
        limit: u64,
        /// How many it needs.
        needed: u64,
    },
    /// There is nothing to start.
    #[error("no command given")]
    NoCommand,
    /// A program can't be started.
    #[error("can't start {name}")]
    NotStarted {
        /// Its name.
        name: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A program that was started ended too early.
    #[error("the program ended ({status}) before it could be measured: {why}")]
    EndedUnseen {
        /// How it ended.
        status: ExitStatus,
        /// The state in which it was seen last.
        why: String,
    },
    /// A program that was started never became a whole job.
    #[error("no complete MPI job after {seconds} s: {why}")]
    NeverWhole {
        /// How long it was waited for.
        seconds: u64,
        /// The state in which it was seen last.
        why: String,
    },
    /// A program that was started can't be waited for.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The script could not go in.
    #[error(transparent)]
    Script(#[from] trimtab_script::Error),
    /// A script is for none of the ranks here.
    #[error("no rank of the job is in `{ranks}`; it has ranks 0 to {last} here")]
    NoRank {
        /// The ranks that it is for.
        ranks: String,
        /// The last one here.
        last: usize,
    },
    /// A script that lacks ranks would sum up something else than was asked for.
    #[error("{said}")]
    Incomplete {
        /// Which ranks, and what to do.
        said: String,
    },
    /// One process can't be looked into or restored.
    #[error(transparent)]
    Session(#[from] trimtab_session::Error),
    /// Others have written over what an earlier trimtab had patched.
    #[error("{places} of {of} places have been changed since, not by trimtab, and were left as they are")]
    Foreign {
        /// Such places.
        places: usize,
        /// All that were patched.
        of: usize,
    },
    /// The window could not be measured.
    #[error(transparent)]
    Measure(#[from] trimtab_measure::Error),
    /// The same, and the way to other nodes had troubles before.
    #[error("{troubles}")]
    Troubled {
        /// Which troubles.
        troubles: String,
        /// Why it could not be measured.
        #[source]
        source: trimtab_measure::Error,
    },
    /// A job on many nodes, and no way to them was handed in.
    #[error("{job} runs on other nodes, and no way to them is known here")]
    NoWay {
        /// The job, in a sentence.
        job: String,
    },
    /// Calls through a site are waited for, and no site is known.
    #[error(
        "calls through the API (--when api) come from a site's controller: give --controller HOST, or wait for \
         `trimtab trigger` with --when call"
    )]
    NoSite,
    /// The job whose loops are wanted is not found here.
    #[error("loops are looked for in ranks of this machine; run it where they run, with the process id of one")]
    LoopsElsewhere {
        /// Why not.
        #[source]
        source: trimtab_track::Error,
    },
    /// None of a job's ranks is here.
    #[error("no rank of the job of process {pid} is on this machine; run it where one is")]
    NoRankHere {
        /// The process that named the job.
        pid: Pid,
    },
    /// The listener wanted the end.
    #[error("interrupted; nothing was changed")]
    Interrupted,
    /// A process is not held where it comes out of `MPI_Init`.
    #[error("process {pid} is not held: {reason}")]
    NotHeld {
        /// The process.
        pid: Pid,
        /// Why.
        reason: NoHold,
    },
    /// A window has no thread.
    #[error("no thread can be begun to measure it")]
    NoThread {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Starts can't be watched for.
    #[error(transparent)]
    Watch(#[from] trimtab_watch::Error),
    /// Nobody can be waited for or called.
    #[error(transparent)]
    Trigger(#[from] trimtab_trigger::Error),
    /// The listener interrupted what was to be put in elsewhere.
    #[error("interrupted before the window began; the program runs on unchanged")]
    GivenUp,
    /// The way to other nodes failed.
    #[error(transparent)]
    Nodes(BoxError),
    /// A change can't be written down, so nothing was changed.
    #[error(transparent)]
    Audit(BoxError),
    /// The store can't be read or written.
    #[error(transparent)]
    Store(BoxError),
}

impl Error {
    /// The answer of the processes on this machine, if that was it.
    pub fn track(&self) -> Option<&trimtab_track::Error> {
        match self {
            Error::Track(error) | Error::AllElsewhere { source: error, .. } | Error::Launcher { source: error, .. } => {
                Some(error)
            }
            _ => None,
        }
    }

    /// A fault of the script that was to run, shown in its text; `None`: it is another error.
    pub fn in_script(&self, text: &str) -> Option<String> {
        match self {
            Error::Script(trimtab_script::Error::Script(refused)) => Some(refused.render(text)),
            _ => None,
        }
    }

    /// True if there is no job behind a process: it is no part of an MPI program.
    pub fn is_no_job(&self) -> bool {
        matches!(self.track(), Some(trimtab_track::Error::NotMpi { .. }))
    }

    /// True if the process is gone.
    pub fn is_gone(&self) -> bool {
        use trimtab_track::Error::{NoSuchProcess, Zombie};
        matches!(self.track(), Some(NoSuchProcess { .. } | Zombie { .. }))
    }

    /// True if the same question may have another answer in a moment: a program that is about to load MPI has none yet.
    pub fn may_change(&self) -> bool {
        let slurm = if let Error::Slurm(error) = self { error.is_retryable() } else { false };
        slurm || self.is_no_job() || self.track().is_some_and(trimtab_track::Error::is_retryable)
    }
}
