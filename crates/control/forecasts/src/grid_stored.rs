//! Hosts and links as series of a store know them: the newest values, with forecasts where there are some.
//!
//! Next: `trimtab-weather` for forecasts of series, `grid_answer`, which uses them.

use crate::error::Error;
use trimtab_grid::{Facts, Host, Link, Looked, Next};
use trimtab_store::{History, SeriesName, Store};
use trimtab_weather::soon;

/// Values of a series that forecasts rest on, the newest.
const VALUES_MAX: u32 = 2048;
const SHARE: &str = "cpu_share nice 0";
const MEMORY: &str = "memory_free_bytes";
const LATENCY: &str = "latency_s";
const BANDWIDTH: &str = "bandwidth_bytes_per_s";

/// Adds all hosts and pairs of the store; `name_of` says by which name a host is known to whoever asks.
///
/// # Errors
/// Those of the store.
pub fn add_stored(
    facts: &mut Facts,
    store: &Store,
    now_unix_s: f64,
    name_of: impl Fn(&str) -> String,
) -> Result<(), Error> {
    for name in &store.series()? {
        let host = name_of(&name.host);
        match (name.figure.as_str(), &name.peer) {
            (SHARE, None) => {
                let cpu_share = looked(store, name, now_unix_s)?.map(Looked::share);
                facts.add_host(&host, Host { cpu_share, ..Host::default() });
            }
            (MEMORY, None) => {
                let memory_free_bytes = looked(store, name, now_unix_s)?.map(Looked::figure);
                facts.add_host(&host, Host { memory_free_bytes, ..Host::default() });
            }
            (BANDWIDTH, Some(peer)) => {
                if let Some((bandwidth, latency)) = pair(store, &name.host, peer, now_unix_s)? {
                    facts.add_link(Link::looked(&host, &name_of(peer), bandwidth, latency));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The link between two hosts, if its newest figures are not older than so many seconds.
///
/// # Errors
/// Those of the store.
pub fn stored_link(
    store: &Store,
    (from, to): (&str, &str),
    now_unix_s: f64,
    age_max_s: f64,
) -> Result<Option<Link>, Error> {
    let found = pair(store, from, to, now_unix_s)?;
    let fresh = found.filter(|(bandwidth, latency)| bandwidth.age_s.max(latency.age_s) <= age_max_s);
    Ok(fresh.map(|(bandwidth, latency)| Link::looked(from, to, bandwidth, latency)))
}

/// Bandwidth and latency.
fn pair(store: &Store, from: &str, to: &str, now_unix_s: f64) -> Result<Option<(Looked, Looked)>, Error> {
    let of = |figure: &str| {
        let name = SeriesName { host: from.to_owned(), peer: Some(to.to_owned()), figure: figure.to_owned() };
        looked(store, &name, now_unix_s)
    };
    Ok(of(BANDWIDTH)?.zip(of(LATENCY)?))
}

fn looked(store: &Store, name: &SeriesName, now_unix_s: f64) -> Result<Option<Looked>, Error> {
    let values = store.values(name, VALUES_MAX)?;
    let (times_s, values): (Vec<f64>, Vec<f64>) = values.iter().map(|one| (one.at_unix_s, one.value)).unzip();
    let Some((at_s, value)) = times_s.last().copied().zip(values.last().copied()) else { return Ok(None) };
    let soon = soon(&times_s, &values, now_unix_s, (0.0, f64::INFINITY)).ok();
    let next = soon.and_then(|soon| Next::with(soon.value, soon.lower.zip(soon.upper), soon.step_s));
    Ok(Looked::in_series(Some(value), next, now_unix_s - at_s))
}
