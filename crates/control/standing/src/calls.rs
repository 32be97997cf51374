//! Calls through a site's API: a thread asks the controller for them while a command waits or measures.
//!
//! A call is taken when the command waits; so one that comes while a window is open counts as soon as that
//! is over. A controller that is away for a while is told again who waits, when it is back.
//!
//! Next: `ways`, by which the engine asks for them; `trimtab_site::jobs` for what is said.

use crate::site_way::SiteWay;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trimtab_engine::{BoxError, Callable, Calls, Waker};
use trimtab_site::jobs::{Awaited, Awaiting, Call, Heard};
use trimtab_site::{Client, Identity, SiteError};
use trimtab_types::one_line;

/// Pause after the controller could not be asked.
const AGAIN: Duration = Duration::from_secs(1);
/// Calls that are kept while a window is open; those beyond count, but are not named.
const CALL_COUNT_MAX: usize = 16;

/// A thread listens, until this is dropped.
pub(crate) struct SiteCalls {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    awaiting: Awaiting,
    waker: Waker,
    /// The number under which calls come.
    id: AtomicU64,
    is_over: AtomicBool,
    calls: Mutex<Vec<Call>>,
    /// Why calls are not heard, as far as nobody was told.
    troubles: Mutex<Vec<String>>,
}

impl SiteCalls {
    /// Listens for calls for a job.
    ///
    /// # Errors
    /// The controller can't be asked, or refuses.
    pub(crate) fn begin(site: &SiteWay, job: Callable, waker: Waker) -> Result<SiteCalls, BoxError> {
        let client = Client::new(&site.controller, &Identity::of_command(&site.identity)?)?;
        let Callable { names, key, owner, calls } = job;
        let awaiting = Awaiting { names, key, owner, calls };
        let Awaited { id } = client.post("/v1/waits", &awaiting)?;
        let (id, is_over) = (AtomicU64::new(id), AtomicBool::new(false));
        let (calls, troubles) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { client, awaiting, waker, id, is_over, calls, troubles });
        let listening = shared.clone();
        std::thread::Builder::new().name("trimtab-calls".to_owned()).spawn(move || listening.listen())?;
        Ok(SiteCalls { shared })
    }
}

impl Calls for SiteCalls {
    fn job_name(&self) -> &str {
        self.shared.awaiting.names.first().map_or("?", String::as_str)
    }

    fn take(&self) -> Option<String> {
        let calls = std::mem::take(&mut *locked(&self.shared.calls));
        (!calls.is_empty()).then(|| calls.iter().map(shown).collect::<Vec<_>>().join("; "))
    }

    fn take_troubles(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.shared.troubles))
    }
}

impl Drop for SiteCalls {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // The thread's question is answered then; a controller that is away forgets by itself.
        let _forgotten = self.shared.client.delete(&self.shared.path());
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shown(call: &Call) -> String {
    let Call { name, by } = call;
    if name.is_empty() { format!("called by {by}") } else { format!("{name}, called by {by}") }
}

impl Shared {
    fn path(&self) -> String {
        format!("/v1/waits/{}", self.id.load(Ordering::Relaxed))
    }

    fn listen(&self) {
        let mut said = String::new();
        while !self.is_over.load(Ordering::Relaxed) {
            match self.hear() {
                Ok(()) => said.clear(),
                Err(_) if self.is_over.load(Ordering::Relaxed) => return,
                Err(error) => {
                    // Once for the same thing in a row.
                    let now = one_line(&error);
                    if now != said {
                        locked(&self.troubles).push(format!("calls are not heard for now: {now}"));
                        self.waker.ring();
                        said = now;
                    }
                    std::thread::sleep(AGAIN);
                }
            }
        }
    }

    /// One question, whose answer comes with a call or after some seconds.
    fn hear(&self) -> Result<(), SiteError> {
        let heard: Result<Heard, SiteError> = self.client.get(&self.path());
        match heard {
            Ok(Heard { call: None }) => Ok(()),
            Ok(Heard { call: Some(call) }) => {
                let mut calls = locked(&self.calls);
                if calls.len() < CALL_COUNT_MAX {
                    calls.push(call);
                }
                drop(calls);
                self.waker.ring();
                Ok(())
            }
            // A controller that was started again knows nobody who waits.
            Err(SiteError::Refused { status: 404, .. }) if !self.is_over.load(Ordering::Relaxed) => {
                let Awaited { id } = self.client.post("/v1/waits", &self.awaiting)?;
                self.id.store(id, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_says_who_and_what() {
        let call = |name: &str| Call { name: name.to_owned(), by: "user 7".to_owned() };
        assert_eq!(shown(&call("restart")), "restart, called by user 7");
        assert_eq!(shown(&call("")), "called by user 7");
    }
}
