//! Every change of a rank leaves its lines in the audit log of its host, before and after.
//!
//! Next: `trimtab-agent` and `trimtab-engine`, which change ranks; `trimtab-audit` for the log.

use std::path::PathBuf;
use trimtab_agent::{ChangeLog, LoggedChange};
use trimtab_audit::permit::{Denied, Requester};
use trimtab_audit::{AuditedAction, Cause, Entry, Log, Target};
use trimtab_engine::{BoxError, Change, Changed, End};
use trimtab_track::{ProcFs, Processes, RankProcess};
use trimtab_types::{Pid, notice};

/// The log and the ranks it is about.
#[derive(Debug)]
struct Audit {
    log: Log,
    cause: Cause,
    targets: Vec<Target>,
    /// A change has begun and has no end yet.
    is_open: bool,
}

impl Audit {
    /// For processes on this host, and a command of whoever runs this program.
    fn of(command: &str, changed: Changed<'_>) -> Result<Self, BoxError> {
        let targets = match changed {
            Changed::Ranks(job) => job.ranks.iter().map(of_rank).collect(),
            Changed::Processes(pids) => pids.iter().map(of_process).collect::<Result<_, BoxError>>()?,
        };
        let cause = Cause { by: Requester::myself(), command: command.to_owned() };
        Ok(Audit { log: Log::of_user()?, cause, targets, is_open: false })
    }

    /// Whoever runs this program may measure all of them.
    ///
    /// # Errors
    /// The first that it may not.
    fn permit(&self) -> Result<(), Denied> {
        self.targets.iter().try_for_each(|target| self.cause.by.may_measure(target.pid, target.uid))
    }

    /// Before they are changed.
    ///
    /// # Errors
    /// When the log can't be written; then nothing may be changed.
    fn begin(&mut self) -> Result<(), trimtab_audit::Error> {
        self.write(&AuditedAction::Begin)?;
        self.is_open = true;
        Ok(())
    }

    /// After they were restored; once for each beginning. The change is made by then: a log that is full by now can
    /// only be told to people.
    fn end(&mut self, what: &AuditedAction) {
        if std::mem::take(&mut self.is_open)
            && let Err(error) = self.write(what)
        {
            notice(&error.to_string());
        }
    }

    fn write(&mut self, what: &AuditedAction) -> Result<(), trimtab_audit::Error> {
        let Audit { log, cause, targets, .. } = self;
        targets.iter().try_for_each(|target| log.write(&Entry::now(cause, target, what.clone())))
    }
}

fn of_rank(process: &RankProcess) -> Target {
    Target {
        pid: process.pid,
        start_ticks: process.start_time_ticks,
        uid: process.uid,
        program: process.executable.display().to_string(),
    }
}

/// Of any process, as it is now.
fn of_process(pid: &Pid) -> Result<Target, BoxError> {
    let processes = ProcFs::new();
    let (stat, status) = (processes.stat(*pid)?, processes.status(*pid)?);
    let program = processes.executable(*pid).map_or(stat.command, |path| path.display().to_string());
    Ok(Target { pid: *pid, start_ticks: stat.start_time_ticks, uid: status.uids[1], program })
}

/// The log of this host, as engines and agents write it.
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
        let mut audit = Audit::of(command, changed)?;
        audit.begin()?;
        Ok(Box::new(audit))
    }
}

impl ChangeLog for HostLog {
    fn change(&self, command: &str, changed: Changed<'_>) -> Result<Box<dyn LoggedChange>, BoxError> {
        Ok(Box::new(Audit::of(command, changed)?))
    }
}

impl LoggedChange for Audit {
    fn permit(&self) -> Result<(), BoxError> {
        Ok(Audit::permit(self)?)
    }

    fn begin(&mut self) -> Result<(), BoxError> {
        Ok(Audit::begin(self)?)
    }

    fn end(&mut self, end: &End) {
        Change::end(self, end);
    }
}

impl Change for Audit {
    fn end(&mut self, end: &End) {
        Audit::end(
            self,
            &match end {
                End::Restored => AuditedAction::Restored,
                End::Failed { reason } => AuditedAction::Failed { reason: reason.clone() },
            },
        );
    }
}
