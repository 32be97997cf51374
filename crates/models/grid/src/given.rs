//! Hosts and links as people write them down: the file of `--weather`, and the facts of a question.
//!
//! Next: `facts`, which they become; docs/forecasts.md shows one.

use crate::error::Error;
use crate::facts::{Facts, Figure, Host, Link};
use crate::quantity::Written;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The version of facts that is understood.
pub const FACTS_VERSION: u32 = 1;

/// All that is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenFacts {
    /// [`FACTS_VERSION`].
    pub version: u32,
    /// When it was found, seconds since 1970; without it figures have no age.
    #[serde(default)]
    pub made_unix_s: Option<f64>,
    /// Hosts by name.
    #[serde(default)]
    pub hosts: BTreeMap<String, GivenHost>,
    /// Links.
    #[serde(default)]
    pub links: Vec<GivenLink>,
}

/// A host; what is left out is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GivenHost {
    /// The share of a processor that a new process gets, above 0 and up to 1.
    pub cpu_share: Option<Written>,
    /// Free memory.
    pub memory_free_bytes: Option<Written>,
    /// The routines that are installed.
    pub software: Option<BTreeSet<String>>,
    /// The most that it sends to all others together; as much as on its fastest link if it is left out.
    pub send_bytes_per_s: Option<f64>,
    /// The most that it receives from all others together.
    pub receive_bytes_per_s: Option<f64>,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenLink {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// Bytes per second.
    pub bandwidth_bytes_per_s: Written,
    /// Seconds from one to the other.
    pub latency_s: Written,
    /// True if it is the same the other way.
    #[serde(default)]
    pub both_ways: bool,
}

impl Facts {
    /// Adds what is given; `now_unix_s` is the time from which ages count.
    ///
    /// # Errors
    /// [`Error::FactsVersion`], and [`Error::Contradiction`]: a link twice.
    pub fn add_given(&mut self, given: GivenFacts, now_unix_s: f64) -> Result<(), Error> {
        if given.version != FACTS_VERSION {
            return Err(Error::FactsVersion { version: given.version, understood: FACTS_VERSION });
        }
        let age_s = given.made_unix_s.map(|made_unix_s| now_unix_s - made_unix_s);
        let figure = |written: Written| Figure { age_s, ..Figure::given(written.into()) };
        for (name, host) in given.hosts {
            let GivenHost { cpu_share, memory_free_bytes, software, send_bytes_per_s, receive_bytes_per_s } = host;
            let (cpu_share, memory_free_bytes) = (cpu_share.map(figure), memory_free_bytes.map(figure));
            self.add_host(
                &name,
                Host { cpu_share, memory_free_bytes, software, send_bytes_per_s, receive_bytes_per_s },
            );
        }
        let mut seen = BTreeSet::new();
        for link in given.links {
            let ways = [(&link.from, &link.to), (&link.to, &link.from)];
            for (from, to) in ways.into_iter().take(if link.both_ways { 2 } else { 1 }) {
                if !seen.insert((from.clone(), to.clone())) {
                    return Err(Error::Contradiction { what: format!("the link {from} to {to}") });
                }
                let (bandwidth_bytes_per_s, latency_s) = (figure(link.bandwidth_bytes_per_s), figure(link.latency_s));
                self.add_link(Link { from: from.clone(), to: to.clone(), bandwidth_bytes_per_s, latency_s });
            }
        }
        Ok(())
    }
}
