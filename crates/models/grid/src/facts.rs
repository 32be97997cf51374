//! Hosts and links as they are known.
//!
//! Next: `path`, which looks for ways in them; `ledger`, which notes the figures that an answer rests on.

use crate::error::Error;
use crate::quantity::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// A measured or given figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its value.
    pub quantity: Quantity,
    /// Its age, seconds; `None`: it was given without a time.
    pub age_s: Option<f64>,
    /// A sentence about its interval that a reader has to know, e.g. that it comes from one probe only.
    pub caution: Option<String>,
    /// The newest value, if `quantity` is the one that is forecast to come next.
    pub newest: Option<Newest>,
}

/// The newest value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Newest {
    /// The value.
    pub value: f64,
    /// From this value to the next, seconds, above zero.
    pub step_s: f64,
}

impl Figure {
    /// One that was given, without an age.
    pub fn given(quantity: Quantity) -> Figure {
        Figure { quantity, age_s: None, caution: None, newest: None }
    }

    /// Its value in the middle of something that lasts so long from now: on the line from the newest value to the next one. The
    /// interval is the next one's, and holds it.
    fn during(&self, lasts_s: f64) -> Figure {
        let Some(Newest { value: newest, step_s }) = self.newest else { return self.clone() };
        let since_s = self.age_s.unwrap_or(0.0).max(0.0) + lasts_s / 2.0;
        let value = newest + (since_s / step_s).min(1.0) * (self.quantity.value - newest);
        let ends = self.quantity.ends().map(|(lower, upper)| (lower.min(value), upper.max(value)));
        Figure { quantity: Quantity::with(value, ends), ..self.clone() }
    }

    fn check(&self, what: impl Fn() -> String, least: f64, most: f64, expected: &'static str) -> Result<(), Error> {
        let quantity = &self.quantity;
        let is_right = quantity.is_at_least(least) && quantity.upper.unwrap_or(quantity.value) <= most;
        if !is_right {
            return Err(Error::NoNumber { what: what(), value: quantity.value, expected });
        }
        match self.age_s {
            Some(age_s) if !age_s.is_finite() => {
                Err(Error::NoNumber { what: what(), value: age_s, expected: "no age" })
            }
            // Clocks of hosts differ by some seconds.
            Some(age_s) if age_s < -CLOCKS_S => Err(Error::Ahead { what: what(), ahead_s: -age_s }),
            _ => Ok(()),
        }
    }

    /// True if it is not too old.
    pub(crate) fn is_fresh(&self, age_max_s: f64) -> bool {
        self.age_s.is_none_or(|age_s| age_s <= age_max_s)
    }
}

/// Clocks of two hosts may differ by so much.
const CLOCKS_S: f64 = 10.0;

/// A host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// The share of a processor that a new process gets, above 0 and up to 1; `None`: not known.
    pub cpu_share: Option<Figure>,
    /// Free memory; `None`: not known.
    pub memory_free_bytes: Option<Figure>,
    /// The routines that are installed; `None`: nobody said.
    pub software: Option<BTreeSet<String>>,
    /// The most that it sends to all others together; `None`: as much as on its fastest link.
    pub send_bytes_per_s: Option<f64>,
    /// The most that it receives from all others together; `None`: the same.
    pub receive_bytes_per_s: Option<f64>,
}

/// A link in one direction that somebody measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// Bytes per second, above zero.
    pub bandwidth_bytes_per_s: Figure,
    /// Seconds from one to the other.
    pub latency_s: Figure,
}

impl Link {
    /// Its name in sentences.
    pub(crate) fn words(&self) -> String {
        format!("the link {} to {}", self.from, self.to)
    }

    /// The age of the older of its figures.
    pub(crate) fn age_s(&self) -> Option<f64> {
        let ages = [self.bandwidth_bytes_per_s.age_s, self.latency_s.age_s];
        ages.into_iter().flatten().reduce(f64::max)
    }

    pub(crate) fn is_fresh(&self, age_max_s: f64) -> bool {
        self.bandwidth_bytes_per_s.is_fresh(age_max_s) && self.latency_s.is_fresh(age_max_s)
    }
}

/// All that is known of hosts and links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Hosts by name.
    pub hosts: BTreeMap<String, Host>,
    /// Links, each pair in one direction once.
    pub links: Vec<Link>,
    /// Figures that are older, seconds, are refused.
    pub age_max_s: f64,
}

impl Facts {
    /// Adds a link, or puts it in the place of an older measurement of the same.
    pub fn add_link(&mut self, link: Link) {
        for end in [&link.from, &link.to] {
            self.hosts.entry(end.clone()).or_default();
        }
        match self.links.iter_mut().find(|other| (&other.from, &other.to) == (&link.from, &link.to)) {
            // One without an age is as of now.
            Some(other) if link.age_s().unwrap_or(0.0) <= other.age_s().unwrap_or(0.0) => *other = link,
            Some(_) => {}
            None => self.links.push(link),
        }
    }

    /// Adds figures of a host; of two of one thing the younger stays.
    pub fn add_host(&mut self, name: &str, host: Host) {
        let known = self.hosts.entry(name.to_owned()).or_default();
        let younger = |old: &mut Option<Figure>, new: Option<Figure>| {
            let age_s = |figure: &Figure| figure.age_s.unwrap_or(0.0);
            if let Some(new) = new
                && old.as_ref().is_none_or(|old| age_s(&new) <= age_s(old))
            {
                *old = Some(new);
            }
        };
        younger(&mut known.cpu_share, host.cpu_share);
        younger(&mut known.memory_free_bytes, host.memory_free_bytes);
        known.software = host.software.or(known.software.take());
        known.send_bytes_per_s = host.send_bytes_per_s.or(known.send_bytes_per_s);
        known.receive_bytes_per_s = host.receive_bytes_per_s.or(known.receive_bytes_per_s);
    }

    /// True if shares of processors change with how long a plan lasts.
    pub(crate) fn is_of_a_time(&self) -> bool {
        self.hosts.values().any(|host| host.cpu_share.as_ref().is_some_and(|share| share.newest.is_some()))
    }

    /// The same for a plan that lasts so long, with the shares of processors of that time.
    pub(crate) fn during(&self, lasts_s: f64) -> Facts {
        let mut facts = self.clone();
        for share in facts.hosts.values_mut().filter_map(|host| host.cpu_share.as_mut()) {
            *share = share.during(lasts_s);
        }
        facts
    }

    /// True if something is known of this host.
    pub fn knows(&self, host: &str) -> bool {
        self.hosts.contains_key(host)
    }

    /// Names of all hosts.
    pub fn names(&self) -> Vec<String> {
        self.hosts.keys().cloned().collect()
    }

    /// Refuses figures that no host or link can have.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (name, host) in &self.hosts {
            let positive = "it is above 0 and up to 1";
            if let Some(share) = &host.cpu_share {
                share.check(|| format!("the share of a processor on {name}"), f64::MIN_POSITIVE, 1.0, positive)?;
            }
            if let Some(free) = &host.memory_free_bytes {
                free.check(|| format!("the free memory of {name}"), 0.0, f64::MAX, "it is 0 or more bytes")?;
            }
            for rate in [host.send_bytes_per_s, host.receive_bytes_per_s].into_iter().flatten() {
                let figure = Figure::given(Quantity::of(rate));
                figure.check(|| format!("what {name} sends or receives"), f64::MIN_POSITIVE, f64::MAX, ABOVE_ZERO)?;
            }
        }
        self.links.iter().try_for_each(|link| {
            let bandwidth = || format!("the bandwidth of {}", link.words());
            if link.from == link.to {
                return Err(Error::Plan(format!("{} is from a host to itself", link.words())));
            }
            link.bandwidth_bytes_per_s.check(bandwidth, f64::MIN_POSITIVE, f64::MAX, ABOVE_ZERO)?;
            link.latency_s.check(
                || format!("the latency of {}", link.words()),
                0.0,
                f64::MAX,
                "it is 0 or more seconds",
            )
        })
    }
}

const ABOVE_ZERO: &str = "it is above 0 bytes per second";
