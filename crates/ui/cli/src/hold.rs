//! A process is held where it comes out of `MPI_Init` by one trimtab, and measured from there on by another one.
//!
//! Whoever starts a rank knows its process before it begins, whoever measures the job knows all ranks only later. So the
//! first has the process wait, by its own code and with a deadline of its own, and ends; the second takes it over.
//!
//! Next: `trimtab-measure`'s `first_call`; `pack`, which does it for packages.

use crate::arguments::WindowOptions;
use crate::engine::change;
use crate::exit_code::DONE;
use crate::output;
use anyhow::bail;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trimtab_measure::{FirstCall, let_go};
use trimtab_types::Pid;

/// How long ranks wait behind `MPI_Init` for all others and for the window, seconds.
pub const HOLD_SECONDS: u64 = 10;
/// A process begins MPI within so long, or is not held.
const BEGIN_MAX: Duration = Duration::from_secs(120);
/// The first look at a process is over within so long, or nobody waits for it.
pub const LOOKS_MAX: Duration = Duration::from_secs(2);
/// Between two looks at guards.
const LOOK: Duration = Duration::from_millis(1);

/// `trimtab hold PID`. Tells `looks` once the process is looked at: from then on it may begin MPI.
pub fn hold(pid: i32, seconds: u64, looks: impl FnOnce()) -> anyhow::Result<u8> {
    let first_call = FirstCall::begin(vec![Pid(pid)], Duration::from_secs(seconds), may_change)?;
    first_call.wait_until_it_looks(LOOKS_MAX);
    looks();
    if let Err(reason) = first_call.handed_over(BEGIN_MAX, &|| false) {
        bail!("process {pid} is not held: {reason}");
    }
    Ok(DONE)
}

/// Lets whoever reads standard output go on. It may have waited long enough and be gone.
pub fn tell() {
    let mut out = std::io::stdout();
    let _gone = out.write_all(b"\n").and_then(|()| out.flush());
}

/// Processes that are about to wait there for windows of this very program. Whoever has got none is let go when this is dropped.
#[derive(Debug, Default)]
pub struct Holds(Mutex<BTreeMap<Pid, Hold>>);

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
    /// Has a process wait behind `MPI_Init`, at most so long. One that is not held is measured all the same, and the report says
    /// why.
    pub fn begin(&self, pid: Pid, seconds: u64) {
        // It goes on to look at one that executes another program.
        if self.all().get(&pid).is_some_and(Hold::is_under_way) {
            return;
        }
        let first_call = FirstCall::begin(vec![pid], Duration::from_secs(seconds), may_change);
        let Ok(first_call) = first_call else { return };
        let is_unwanted = Arc::new(AtomicBool::new(false));
        let seen = is_unwanted.clone();
        let hand_over = move || drop(first_call.handed_over(BEGIN_MAX, &|| seen.load(Relaxed)));
        let thread = std::thread::Builder::new().name("hand-over".to_owned()).spawn(hand_over).ok();
        self.all().insert(pid, Hold { is_unwanted, thread });
    }

    /// Waits until nobody is at work in these processes, so that a window of them begins; at most so long, or until it is
    /// given up. Two threads of one program must not put something into a process at the same time.
    pub fn settle(&self, pids: &BTreeSet<Pid>, limit: Duration, is_given_up: &dyn Fn() -> bool) {
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
    pub fn end(&self, pid: Pid) {
        let Some(mut hold) = self.all().remove(&pid) else { return };
        if let Some(guard) = hold.ended() {
            let _ended = guard.join();
        }
        let_go(pid);
    }

    /// All but these get no window.
    pub fn end_others(&self, wanted: &BTreeSet<Pid>) {
        let others: Vec<Pid> = self.all().keys().copied().filter(|pid| !wanted.contains(pid)).collect();
        others.into_iter().for_each(|pid| self.end(pid));
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Pid, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        self.end_others(&BTreeSet::new());
    }
}

/// True if each call of the program is asked for, and nothing that only iterations show.
pub fn is_whole_run(options: &WindowOptions) -> bool {
    options.follow && options.mark == "auto" && options.main_loop.is_none() && options.start.is_none()
}

/// Writes into the log that a process is about to be held; says why it may not be.
pub fn may_change(pid: Pid) -> Result<(), String> {
    let change = change("hold", &[pid]);
    change.map(|mut change| change.restored()).map_err(|error| output::chain(&error.into()))
}
