//! Changes by this program stand in the audit log, before and after.
//!
//! Next: `trimtab-audit` for the log, `window` and `probe` for what is changed.

use crate::output;
use trimtab_agent::audit::Audit;
use trimtab_audit::{Target, What};
use trimtab_track::{Job, ProcFs, Processes};
use trimtab_types::Pid;

/// Processes that are about to be changed, and then restored.
pub struct Change {
    audit: Audit,
}

impl Change {
    /// The ranks of a job.
    pub fn of_job(command: &str, job: &Job) -> anyhow::Result<Self> {
        Change::begin(Audit::of_job(command, job)?)
    }

    /// Any processes.
    pub fn of_processes(command: &str, pids: impl Iterator<Item = Pid>) -> anyhow::Result<Self> {
        let processes = ProcFs::new();
        let target = |pid| -> anyhow::Result<Target> {
            let (stat, status) = (processes.stat(pid)?, processes.status(pid)?);
            let program = processes.executable(pid).map_or(stat.command, |path| path.display().to_string());
            Ok(Target { pid, start_ticks: stat.start_time_ticks, uid: status.uids[1], program })
        };
        Change::begin(Audit::of(command, pids.map(target).collect::<anyhow::Result<_>>()?)?)
    }

    /// Does it; what came of it is written down.
    pub fn around<T, E: Into<anyhow::Error>>(mut self, work: impl FnOnce() -> Result<T, E>) -> anyhow::Result<T> {
        match work().map_err(Into::into) {
            Ok(done) => {
                self.restored();
                Ok(done)
            }
            Err(error) => {
                self.audit.end(&What::Failed { reason: output::chain(&error) });
                Err(error)
            }
        }
    }

    /// All is as before.
    pub fn restored(&mut self) {
        self.audit.end(&What::Restored);
    }

    fn begin(mut audit: Audit) -> anyhow::Result<Self> {
        audit.begin()?;
        Ok(Change { audit })
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        // Whoever left by an error has restored what was changed, or changed nothing.
        self.audit.end(&What::Failed { reason: "it ended early".to_owned() });
    }
}
