//! Keeping a process still from its exec on, for a limited time, only if the user asked for it.
//!
//! One thread of ours traces it, so nothing else we do can delay its release; and if we end, whatever the reason, the
//! kernel lets it go at once, as it does with all that a tracer held.
//!
//! Next: `sight`, which begins it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use trimtab_os::{Stopped, monotonic_ns};
use trimtab_types::Pid;

/// How it went: from when on, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// When all its threads stood still, on the monotonic clock.
    pub since_ns: u64,
    /// For how long, microseconds.
    pub us: u64,
    /// True if the time-out let it go.
    pub timed_out: bool,
}

/// A process that is kept still until this is dropped, or the time is over.
#[derive(Debug)]
pub struct Holding {
    release: Option<Sender<()>>,
    outcome: Arc<OnceLock<Result<Held, trimtab_os::Error>>>,
}

impl Holding {
    /// Begins to hold a process, for at most `limit` from now on.
    ///
    /// # Errors
    /// There can't be another thread.
    pub fn begin(pid: Pid, limit: Duration) -> std::io::Result<Holding> {
        let (release, released) = channel::<()>();
        let outcome = Arc::new(OnceLock::new());
        let deadline = Instant::now() + limit;
        let told = outcome.clone();
        let hold = move || {
            let stopped = match Stopped::stop(pid) {
                Ok(stopped) => stopped,
                Err(error) => return drop(told.set(Err(error))),
            };
            let since_ns = monotonic_ns();
            let left = deadline.saturating_duration_since(Instant::now());
            let timed_out = released.recv_timeout(left) == Err(RecvTimeoutError::Timeout);
            let us = stopped.resume() / 1000;
            let _first = told.set(Ok(Held { since_ns, us, timed_out }));
        };
        std::thread::Builder::new().name("hold".to_owned()).spawn(hold)?;
        Ok(Holding { release: Some(release), outcome })
    }

    /// Lets it go when `work` is done, in a thread of its own.
    ///
    /// # Errors
    /// There can't be another thread; then it is let go at once.
    pub fn release_after(&mut self, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let release = self.release.take();
        let thread = std::thread::Builder::new().name("prepare".to_owned()).spawn(move || {
            work();
            drop(release);
        });
        thread.map(drop)
    }

    /// How it went, once it is over; `Err`: why it was not held.
    pub fn outcome(&self) -> Arc<OnceLock<Result<Held, trimtab_os::Error>>> {
        self.outcome.clone()
    }
}
