//! Every change of a rank leaves its lines in the audit log of its host, before and after.
//!
//! Next: `serve`, which changes ranks; `trimtab-audit` for the log.

use trimtab_audit::permit::{Denied, Requester};
use trimtab_audit::{Cause, Entry, Log, Target, What};
use trimtab_track::{Job, ProcFs, Processes, RankProcess};
use trimtab_types::{Pid, one_line};

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

    /// The same for one process, whatever it is.
    ///
    /// # Errors
    /// It is gone, or the log can't be written, as a sentence.
    pub fn of_process(command: &str, pid: Pid) -> Result<Self, String> {
        let processes = ProcFs::new();
        let of = |error: trimtab_track::Error| one_line(&error);
        let (stat, status) = (processes.stat(pid).map_err(of)?, processes.status(pid).map_err(of)?);
        let program = processes.executable(pid).map_or(stat.command, |path| path.display().to_string());
        let target = Target { pid, start_ticks: stat.start_time_ticks, uid: status.uids[1], program };
        Audit::of(command, vec![target]).map_err(|error| one_line(&error))
    }

    /// The same for any processes.
    ///
    /// # Errors
    /// When the log can't be written.
    pub fn of(command: &str, targets: Vec<Target>) -> Result<Self, trimtab_audit::Error> {
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

    /// After they were restored; once for each beginning. What was done is done: a log that is full by now can only be
    /// told to people.
    pub fn end(&mut self, what: &What) {
        if std::mem::take(&mut self.is_open)
            && let Err(error) = self.write(what)
        {
            eprintln!("trimtab: {error}");
        }
    }

    fn write(&mut self, what: &What) -> Result<(), trimtab_audit::Error> {
        let Audit { log, cause, targets, .. } = self;
        targets.iter().try_for_each(|target| log.write(&Entry::now(cause, target, what.clone())))
    }
}
