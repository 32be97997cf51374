//! Ranks that an agent holds where they come out of `MPI_Init` before anybody knows which they are.
//!
//! From its first look on an agent looks at what begins below Slurm's own daemons of the job's steps on its host, or below
//! what the job's launcher started here. Its lead asks for the ranks once they are there; until then they wait by
//! themselves, with deadlines of their own. A process beside takes the holds out if the agent is killed.
//!
//! Next: `trimtab-measure`'s `first_call`; `serve`, which hands the holds to the window.

use crate::guard::Guard;
use crate::log::{Log, LoggedChange};
use crate::ticket::{AgentsFor, Hold, Ticket};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trimtab_engine::{Changed, End};
use trimtab_measure::FirstCall;
use trimtab_track::{Job, ProcFs, Tops};
use trimtab_types::{BoxError, Pid, notice};

/// The first look is over within so long, or nobody waits for it.
const LOOKS_MAX: Duration = Duration::from_secs(2);
/// Ranks none of which comes out of `MPI_Init` are taken for all of the job here after so long.
const BEGINNING_MAX: Duration = Duration::from_secs(10);

/// Ranks that are held, or about to be.
pub(crate) struct Holds {
    first_call: FirstCall,
    lines: Lines,
    /// When ranks were found first.
    found: Option<Instant>,
    is_any_behind: bool,
}

/// Changes that stand in the log without their end.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<BTreeMap<Pid, Box<dyn LoggedChange>>>>);

impl Lines {
    /// All is as before.
    pub(crate) fn end(&self) {
        let all = std::mem::take(&mut *self.all());
        all.into_values().for_each(|mut audit| audit.end(&End::Restored));
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Pid, Box<dyn LoggedChange>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holds {
    /// Begins to look, if that is asked for and there is something to look at; comes back once all that is there has been
    /// looked at. `guard` stands beside, and hears of each process that is changed.
    pub(crate) fn begin(ticket: &Ticket, guard: Option<Arc<Guard>>, log: Log) -> Option<Holds> {
        let hold = ticket.hold?;
        let mut tops = tops(&ticket.whose)?;
        let lines = Lines::default();
        let (written, command) = (lines.clone(), ticket.command.clone());
        let may_change = move |pid: Pid| may_hold(pid, (&command, log), hold, &written, guard.as_deref());
        let seconds = Duration::from_secs(hold.seconds);
        let begun = FirstCall::begin_below(move || tops.now(&ProcFs::new()), seconds, may_change);
        let first_call = begun.map_err(|error| notice(&format!("nobody can be held: {error}"))).ok()?;
        first_call.wait_until_it_looks(LOOKS_MAX);
        Some(Holds { first_call, lines, found: None, is_any_behind: false })
    }

    /// True if these are all ranks of the job here. As long as none has come out of `MPI_Init` others may be about to begin
    /// it; once one has, all are looked for once more. A process that waits and is no rank is let go: ranks may wait for it.
    pub(crate) fn has_all(&mut self, job: &Job) -> bool {
        self.first_call.let_strangers_go(job);
        let since = self.found.get_or_insert_with(Instant::now).elapsed();
        if self.is_any_behind || since > BEGINNING_MAX {
            return true;
        }
        self.is_any_behind = self.first_call.is_any_behind(job);
        false
    }

    /// For the window, and the lines that stand open until it is over.
    pub(crate) fn into_parts(self) -> (FirstCall, Lines) {
        (self.first_call, self.lines)
    }
}

/// Where ranks of the job begin; `None`: its processes are known by their numbers.
fn tops(whose: &AgentsFor) -> Option<Tops> {
    match whose {
        AgentsFor::Slurm { .. } => Some(Tops::of_slurm(whose.slurm()?, rustix::process::geteuid().as_raw())),
        AgentsFor::Launch { mark, uid } => Some(Tops::of_launch(mark, *uid)),
        AgentsFor::Processes(_) => None,
    }
}

/// Asked before a process is changed, which stands still meanwhile: whoever runs this agent must be allowed to, the log must
/// have its line, and the guard know it.
fn may_hold(
    pid: Pid,
    (command, log): (&str, Log),
    hold: Hold,
    lines: &Lines,
    guard: Option<&Guard>,
) -> Result<(), BoxError> {
    let mut audit = log.change(command, Changed::Processes(&[pid]))?;
    audit.permit()?;
    if hold.seccomp_ok {
        trimtab_os::trust_filters(pid);
    }
    // It is tried again while its loader is at work.
    if lines.all().contains_key(&pid) {
        return Ok(());
    }
    audit.begin()?;
    guard.into_iter().for_each(|guard| guard.watch(pid));
    lines.all().insert(pid, audit);
    Ok(())
}
