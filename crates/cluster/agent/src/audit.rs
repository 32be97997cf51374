//! Every change of a rank leaves its lines in the audit log of its host, before and after.
//!
//! Next: `serve`, which changes ranks; `trimtab-audit` for the log.

use std::path::PathBuf;
use trimtab_audit::permit::{Denied, Requester};
use trimtab_audit::{Cause, Entry, Log, Target, What};
use trimtab_engine::{BoxError, Change, Changed, End};
use trimtab_track::{Job, ProcFs, Processes, RankProcess};
use trimtab_types::{Pid, notice};

/// The log and the ranks it is about.
#[derive(Debug)]
pub struct Audit {
    log: Log,
    cause: Cause,
    targets: Vec<Target>,
    /// A change has begun and has no end yet.
    is_open: bool,
}

impl Audit {
    /// For the ranks of a job on this host, and a command of whoever runs this program.
    ///
    /// # Errors
    /// When the log can't be written.
    pub fn of_job(command: &str, job: &Job) -> Result<Self, trimtab_audit::Error> {
        let target = |process: &RankProcess| Target {
            pid: process.pid,
            start_ticks: process.start_time_ticks,
            uid: process.uid,
            program: process.executable.display().to_string(),
        };
        Audit::of(command, job.ranks.iter().map(target).collect())
    }

    /// The same for processes, whatever they are.
    ///
    /// # Errors
    /// One is gone, or the log can't be written.
    pub fn of_processes(command: &str, pids: &[Pid]) -> Result<Self, BoxError> {
        let processes = ProcFs::new();
        let target = |pid: &Pid| -> Result<Target, BoxError> {
            let (stat, status) = (processes.stat(*pid)?, processes.status(*pid)?);
            let program = processes.executable(*pid).map_or(stat.command, |path| path.display().to_string());
            Ok(Target { pid: *pid, start_ticks: stat.start_time_ticks, uid: status.uids[1], program })
        };
        Ok(Audit::of(command, pids.iter().map(target).collect::<Result<_, _>>()?)?)
    }

    fn of(command: &str, targets: Vec<Target>) -> Result<Self, trimtab_audit::Error> {
        let cause = Cause { by: Requester::myself(), command: command.to_owned() };
        Ok(Audit { log: Log::of_user()?, cause, targets, is_open: false })
    }

    /// Whoever runs this program may measure all of them.
    ///
    /// # Errors
    /// The first that it may not.
    pub fn permit(&self) -> Result<(), Denied> {
        self.targets.iter().try_for_each(|target| self.cause.by.may_measure(target.pid, target.uid))
    }

    /// Before they are changed.
    ///
    /// # Errors
    /// When the log can't be written; then nothing may be changed.
    pub fn begin(&mut self) -> Result<(), trimtab_audit::Error> {
        self.write(&What::Begin)?;
        self.is_open = true;
        Ok(())
    }

    /// After they were restored; once for each beginning. The change is made by then: a log that is full by now can
    /// only be told to people.
    pub fn end(&mut self, what: &What) {
        if std::mem::take(&mut self.is_open)
            && let Err(error) = self.write(what)
        {
            notice(&error.to_string());
        }
    }

    fn write(&mut self, what: &What) -> Result<(), trimtab_audit::Error> {
        let Audit { log, cause, targets, .. } = self;
        targets.iter().try_for_each(|target| log.write(&Entry::now(cause, target, what.clone())))
    }
}

/// The log of this host, as an engine writes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostLog;

impl HostLog {
    /// Its file, if it can be written.
    ///
    /// # Errors
    /// There is no place for it, or it can't be written.
    pub fn file() -> Result<PathBuf, trimtab_audit::Error> {
        let path = trimtab_audit::default_path()?;
        Log::open(&path)?;
        Ok(path)
    }
}

impl trimtab_engine::Audit for HostLog {
    fn begin(&self, command: &str, changed: Changed<'_>) -> Result<Box<dyn Change>, BoxError> {
        let mut audit = match changed {
            Changed::Ranks(job) => Audit::of_job(command, job)?,
            Changed::Processes(pids) => Audit::of_processes(command, pids)?,
        };
        audit.begin()?;
        Ok(Box::new(audit))
    }
}

impl Change for Audit {
    fn end(&mut self, end: &End) {
        Audit::end(
            self,
            &match end {
                End::Restored => What::Restored,
                End::Failed { reason } => What::Failed { reason: reason.clone() },
            },
        );
    }
}
