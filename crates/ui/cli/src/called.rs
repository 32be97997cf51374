//! Calls through a site's API: a thread asks the controller for them while a command waits or measures.
//!
//! A call is taken when the command waits; so one that comes while a window is open counts as soon as that
//! is over. A controller that is away for a while is told again who waits, when it is back.
//!
//! Next: `waiting`, which takes the calls; `trimtab_site::jobs` for what is said.

use crate::arguments::EventOptions;
use crate::arguments::site::SiteOptions;
use anyhow::Context;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trimtab_site::jobs::{Awaited, Awaiting, Call, Heard};
use trimtab_site::{Client, Identity, SiteError};
use trimtab_trigger::{Bell, When};
use trimtab_types::one_line;

/// Pause after the controller could not be asked.
const AGAIN: Duration = Duration::from_secs(1);
/// Calls that are kept while a window is open; those beyond count, but are not named.
const CALL_COUNT_MAX: usize = 16;

/// Somebody listens, until this is dropped.
pub struct Calls {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    awaiting: Awaiting,
    bell: Bell,
    /// The number under which calls come.
    id: AtomicU64,
    is_over: AtomicBool,
    calls: Mutex<Vec<Call>>,
}

impl Calls {
    /// Listens for calls for a job.
    ///
    /// # Errors
    /// There is no controller, or it refuses: what can't be heard is not waited for.
    pub fn begin(site: &SiteOptions, events: &EventOptions, awaiting: Awaiting, bell: Bell) -> anyhow::Result<Calls> {
        let controller = site.controller().context(
            "calls through the API (--when api) come from a site's controller: give --controller HOST, or wait for \
             `trimtab trigger` with --when call",
        )?;
        let client = Client::new(&controller, &Identity::of_command(&site.identity())?)?;
        let named = events.when.iter().filter_map(When::call_name).map(str::to_owned);
        let awaiting =
            Awaiting { calls: if any_will_do(&events.when) { Vec::new() } else { named.collect() }, ..awaiting };
        let Awaited { id } = client.post("/v1/waits", &awaiting)?;
        let (is_over, calls) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { client, awaiting, bell, id: AtomicU64::new(id), is_over, calls });
        let listening = shared.clone();
        std::thread::Builder::new().name("trimtab-calls".to_owned()).spawn(move || listening.listen())?;
        Ok(Calls { shared })
    }

    /// The first of the names that the job has there.
    pub fn job_name(&self) -> &str {
        self.shared.awaiting.names.first().map_or("?", String::as_str)
    }

    /// The name that was called since the last question, and by whom.
    pub fn take(&self) -> Option<String> {
        let calls = std::mem::take(&mut *self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner));
        (!calls.is_empty()).then(|| calls.iter().map(shown).collect::<Vec<_>>().join("; "))
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // The thread's question is answered then; a controller that is away forgets by itself.
        let _forgotten = self.shared.client.delete(&self.shared.path());
    }
}

/// True if one of the events is a call of any name.
fn any_will_do(whens: &[When]) -> bool {
    whens.iter().any(|when| when.condition == trimtab_trigger::Condition::Api && when.call_name().is_none())
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
                        eprintln!("trimtab: calls are not heard for now: {now}");
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
                let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
                if calls.len() < CALL_COUNT_MAX {
                    calls.push(call);
                }
                drop(calls);
                self.bell.ring();
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

    #[test]
    fn named_calls_are_all_that_is_meant_unless_any_will_do() {
        for (texts, expected) in [(&["api:a", "after=1h"][..], false), (&["api:a", "api"], true), (&["call"], false)] {
            let whens: Vec<When> = texts.iter().map(|text| text.parse().expect("an event")).collect();
            assert_eq!(any_will_do(&whens), expected, "{texts:?}");
        }
    }
}
