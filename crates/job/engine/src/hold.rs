//! A process is held where it comes out of `MPI_Init` by one program, and measured from there on by the same or another one.
//!
//! Whoever starts a rank knows its process before it begins, whoever measures the job knows all ranks only later. So the
//! first has the process wait, by its own code and with a deadline of its own, and ends; the second takes it over. The log
//! of changes is written by threads that may outlive whoever asked, so it lives as long as the program.
//!
//! Next: `trimtab-measure`'s `first_call`; `watch`, which holds every start of a program.

use crate::audited::{Audit, Audited, Changed};
use crate::error::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trimtab_measure::{FirstCall, has_static_mpi, let_go};
use trimtab_track::{ProcFs, find_job_in};
use trimtab_types::Pid;

/// How long ranks wait behind `MPI_Init` for all others and for the window, seconds.
pub const HOLD_SECONDS: u64 = 10;
/// The first look at a process is over within so long, or nobody waits for it.
pub const LOOKS_MAX: Duration = Duration::from_secs(10);
/// A process begins MPI within so long, or is not held.
const BEGIN_MAX: Duration = Duration::from_secs(120);
/// Between two looks at guards.
const LOOK: Duration = Duration::from_millis(1);
/// Between two looks for a whole job.
const JOB_LOOK: Duration = Duration::from_millis(50);

/// Has a process wait where it comes out of `MPI_Init`, at most so long, for whoever measures it then; returns once it
/// waits. `looks` is called once the process is looked at: from then on it may begin MPI.
///
/// # Errors
/// It is not held.
pub fn hold(log: &'static dyn Audit, pid: Pid, seconds: u64, looks: impl FnOnce()) -> Result<(), Error> {
    let first_call = begin(log, pid, seconds, false)?;
    first_call.wait_until_it_looks(LOOKS_MAX);
    looks();
    first_call.handed_over(BEGIN_MAX, &|| false).map_err(|reason| Error::NotHeld { pid, reason })
}

/// Has all ranks that this very program starts from now on wait there, at most so long, for a window of its own.
/// `seccomp_ok`: their owner says that their filters of system calls let ours pass, where they can't be read.
///
/// # Errors
/// There can't be another thread.
pub fn hold_children(log: &'static dyn Audit, seconds: u64, seccomp_ok: bool) -> Result<FirstCall, Error> {
    let first_call = begin(log, Pid(std::process::id() as i32), seconds, seccomp_ok)?;
    first_call.wait_until_it_looks(LOOKS_MAX);
    Ok(first_call)
}

/// True if a process is the first rank of its job, for whose other ranks it waits so long.
pub fn is_first_rank(pid: Pid, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while Instant::now() < until && trimtab_os::runs(pid) {
        if let Ok(job) = find_job_in(&ProcFs::new(), pid, &has_static_mpi)
            && (job.is_complete() || job.size.is_none())
        {
            return job.ranks.first().is_some_and(|first| first.pid == pid);
        }
        std::thread::sleep(JOB_LOOK);
    }
    false
}

fn begin(log: &'static dyn Audit, pid: Pid, seconds: u64, seccomp_ok: bool) -> std::io::Result<FirstCall> {
    let may_change = move |pid: Pid| {
        if seccomp_ok {
            trimtab_os::trust_filters(pid);
        }
        // It stands in the log that a process is about to be held; else the reason why it may not be is told.
        let mut change = Audited::begin(log, "hold", Changed::Processes(&[pid]))?;
        change.restored();
        Ok(())
    };
    FirstCall::begin(vec![pid], Duration::from_secs(seconds), may_change)
}

/// Processes that are about to wait there for windows of this very program. Whoever has got none is let go when this is dropped.
pub(crate) struct Holds {
    log: &'static dyn Audit,
    holds: Mutex<BTreeMap<Pid, Hold>>,
}

/// A guard that sees to one process, and ends once that waits or never will.
#[derive(Debug)]
struct Hold {
    is_unwanted: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hold {
    fn is_under_way(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Has the guard end soon, and gives its thread.
    fn ended(&mut self) -> Option<JoinHandle<()>> {
        self.is_unwanted.store(true, Relaxed);
        self.thread.take()
    }
}

impl Holds {
    pub(crate) fn new(log: &'static dyn Audit) -> Self {
        Holds { log, holds: Mutex::default() }
    }

    /// Has a process wait behind `MPI_Init`, at most so long. One that is not held is measured all the same, and the report says
    /// why.
    pub(crate) fn begin(&self, pid: Pid, seconds: u64) {
        // It goes on to look at one that executes another program.
        if self.all().get(&pid).is_some_and(Hold::is_under_way) {
            return;
        }
        let first_call = begin(self.log, pid, seconds, false);
        let Ok(first_call) = first_call else { return };
        let is_unwanted = Arc::new(AtomicBool::new(false));
        let seen = is_unwanted.clone();
        let hand_over = move || drop(first_call.handed_over(BEGIN_MAX, &|| seen.load(Relaxed)));
        let thread = std::thread::Builder::new().name("hand-over".to_owned()).spawn(hand_over).ok();
        self.all().insert(pid, Hold { is_unwanted, thread });
    }

    /// Waits until nobody is at work in these processes, so that a window of them begins; at most so long, or until it is
    /// given up. Two threads of one program must not put something into a process at the same time.
    pub(crate) fn settle(&self, pids: &BTreeSet<Pid>, limit: Duration, is_given_up: &dyn Fn() -> bool) {
        let begun = Instant::now();
        let is_at_work = || self.all().iter().any(|(pid, hold)| pids.contains(pid) && hold.is_under_way());
        while is_at_work() && begun.elapsed() < limit && !is_given_up() {
            std::thread::sleep(LOOK);
        }
        let guards: Vec<JoinHandle<()>> =
            self.all().iter_mut().filter(|(pid, _)| pids.contains(pid)).filter_map(|(_, hold)| hold.ended()).collect();
        guards.into_iter().for_each(|guard| drop(guard.join()));
    }

    /// This process gets no window any more: it is not held, or let go.
    pub(crate) fn end(&self, pid: Pid) {
        let Some(mut hold) = self.all().remove(&pid) else { return };
        if let Some(guard) = hold.ended() {
            let _ended = guard.join();
        }
        let_go(pid);
    }

    /// All but these get no window.
    pub(crate) fn end_others(&self, wanted: &BTreeSet<Pid>) {
        let others: Vec<Pid> = self.all().keys().copied().filter(|pid| !wanted.contains(pid)).collect();
        others.into_iter().for_each(|pid| self.end(pid));
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Pid, Hold>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        self.end_others(&BTreeSet::new());
    }
}
