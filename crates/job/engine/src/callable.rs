//! The names by which a job that waits can be called: on this machine, and through a site.
//!
//! Next: `wait`, which listens for calls.

use crate::found::Found;
use crate::nodes::Callable;
use crate::spread::Spread;
use crate::store::Store;
use trimtab_measure::host_name;
use trimtab_track::Job;
use trimtab_trigger::{Condition, When};
use trimtab_types::Pid;

/// Names of one job for calls through the API; the controller takes some more.
const SITE_NAMES_MAX: usize = 48;

/// The names of the job for calls on this machine; the last one is the best to type.
pub(crate) fn names(found: &Found, store: Option<&dyn Store>) -> Vec<String> {
    let (mut names, key) = match found {
        Found::Here(job) => {
            let pids = pids(job).into_iter().chain(job.launcher).map(|pid| pid.to_string());
            (pids.collect::<Vec<_>>(), job.key.clone())
        }
        Found::Spread(spread) => {
            let names = match &**spread {
                Spread::Slurm(running) => vec![running.id.to_string(), running.id.without_step().to_string()],
                Spread::Launch(launched) => vec![launched.launcher().to_string()],
            };
            (names, spread.key())
        }
    };
    let is_beginning = matches!(found, Found::Spread(_));
    // A store that can't be read just now names no job, which can be called all the same.
    names.extend(store.and_then(|store| store.short_name(&key, is_beginning).ok().flatten()));
    names
}

/// The facts of the job that a call through the API needs.
pub(crate) fn callable(found: &Found, store: Option<&dyn Store>, whens: &[When]) -> Callable {
    let (owner, key) = match found {
        // Its windows are measured here, and the site keeps none of them.
        Found::Here(job) => (job.ranks.first().map(|rank| rank.uid), None),
        Found::Spread(spread) => match &**spread {
            Spread::Slurm(running) => (running.parts.first().map(|part| part.uid), Some(spread.key())),
            Spread::Launch(launched) => (Some(launched.uid()), None),
        },
    };
    let named = whens.iter().filter_map(When::call_name).map(str::to_owned);
    let calls = if any_will_do(whens) { Vec::new() } else { named.collect() };
    Callable { names: site_names(found, store), key, owner, calls }
}

/// The names of a job for a call through the API, the best to type first: a process id means nothing without its host.
fn site_names(found: &Found, store: Option<&dyn Store>) -> Vec<String> {
    let names = names(found, store);
    let first = match found {
        Found::Spread(spread) => match &**spread {
            Spread::Slurm(_) => return names,
            Spread::Launch(launched) => Some(launched.launcher()),
        },
        Found::Here(job) => job.launcher.or(job.ranks.first().map(|rank| rank.pid)),
    };
    let host = host_name();
    let is_pid = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let others = names.into_iter().map(|name| if is_pid(&name) { format!("{host}:{name}") } else { name });
    first.map(|pid| format!("{host}:{pid}")).into_iter().chain(others).take(SITE_NAMES_MAX).collect()
}

/// True if one of the events is a call of any name.
fn any_will_do(whens: &[When]) -> bool {
    whens.iter().any(|when| when.condition == Condition::Api && when.call_name().is_none())
}

pub(crate) fn pids(job: &Job) -> Vec<Pid> {
    job.ranks.iter().map(|process| process.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_calls_are_all_that_is_meant_unless_any_will_do() {
        for (texts, expected) in [(&["api:a", "after=1h"][..], false), (&["api:a", "api"], true), (&["call"], false)] {
            let whens: Vec<When> = texts.iter().map(|text| text.parse().expect("an event")).collect();
            assert_eq!(any_will_do(&whens), expected, "{texts:?}");
        }
    }
}
