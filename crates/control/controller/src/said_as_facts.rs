//! The words of agents as facts of hosts and links, for questions about data and routines.
//!
//! Next: `trimtab_site::weather` for these words, `trimtab-grid` for facts.

use trimtab_forecasts::grid::{Host, Link, Looked, Next};
use trimtab_site::weather::{HostWeather, PairFound};

/// A host as its agent senses it: the next values where they are forecast, else the newest.
pub fn host_of_agent(said: &HostWeather) -> Host {
    let looked = |key: &str| {
        let figure = said.figures.iter().find(|figure| figure.key == key)?;
        let next =
            figure.soon.as_ref().and_then(|soon| Next::with(soon.value, soon.lower.zip(soon.upper), soon.step_s));
        Looked::in_series(figure.value, next, figure.age_s)
    };
    let (cpu_share, memory) = (looked("cpu_share"), looked("memory_free_bytes"));
    Host { cpu_share: cpu_share.map(Looked::share), memory_free_bytes: memory.map(Looked::figure), ..Host::default() }
}

/// A link as a probe found it now.
pub fn link_of_pair(from: &str, to: &str, found: &PairFound) -> Link {
    let now = |value: f64, ends: Option<(f64, f64)>| Looked { value, ends, age_s: 0.0, newest: None };
    let latencies = (found.latency_least_s.min(found.latency_s), found.latency_most_s.max(found.latency_s));
    Link::looked(from, to, now(found.bandwidth_bytes_per_s, None), now(found.latency_s, Some(latencies)))
}
