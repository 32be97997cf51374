//! Facts of hosts and links: from files, from a site's agents, or from what `trimtab weather` stored here.
//!
//! Next: `grid`, which asks; docs/forecasts.md describes the files.

use crate::arguments::grid::GridOptions;
use crate::engine::Kept;
use crate::progress::Terminal;
use crate::recorded::bytes_of;
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trimtab_controller::Client;
use trimtab_controller::said_of_weather::{HostWeather, PairFound};
use trimtab_engine::grid::{Error, Facts, Figure, Host, Link, Plan, Quantity, Written};
use trimtab_engine::own;
use trimtab_engine::weather::soon;
use trimtab_store::{History, SeriesName};

/// The version of both kinds of files.
const VERSION: u32 = 1;
/// A transfer took within this share of the time that one probe told (`limited_links_are_measured_as_they_are`).
const ONE_PROBE: f64 = 0.1;
/// The latency of later round trips is within this factor of that of one probe.
const ONE_LATENCY: f64 = 2.0;
/// Values of a series that forecasts rest on, the newest.
const VALUES_MAX: u32 = 2048;
/// The figures that are used, with their units.
const SHARE: (&str, &str) = ("cpu_share", "share");
const MEMORY: (&str, &str) = ("memory_free_bytes", "bytes");
const LATENCY: (&str, &str) = ("latency_s", "s");
const BANDWIDTH: (&str, &str) = ("bandwidth_bytes_per_s", "bytes/s");

/// Where facts came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Files.
    Files,
    /// The site's agents.
    Site,
    /// This user's store.
    Store,
}

impl Source {
    /// Its word in the JSON.
    pub fn word(self) -> &'static str {
        match self {
            Source::Files => "files",
            Source::Site => "site",
            Source::Store => "store",
        }
    }
}

/// All that is known without asking a site; of a site only its hosts' names, until [`of_site`] asks them.
pub fn known(options: &GridOptions, kept: &Kept) -> anyhow::Result<(Facts, Source)> {
    let mut facts = Facts { age_max_s: options.age, ..Facts::default() };
    if !options.weather.is_empty() {
        for path in &options.weather {
            add_file(&mut facts, path, options).with_context(|| path.display().to_string())?;
        }
        return Ok((facts, Source::Files));
    }
    if let Some(controller) = options.site.controller() {
        let client = Client::of_command(&controller, &options.site.identity())?;
        let agents = client.tree()?.agents;
        facts.hosts.extend(agents.into_iter().map(|agent| (agent.host, Host::default())));
        return Ok((facts, Source::Site));
    }
    add_store(&mut facts, kept, options)?;
    Ok((facts, Source::Store))
}

/// Asks a site's agents for all that a plan needs. Where it is lenient, hosts that do not answer are told and left out.
pub fn of_site(facts: &mut Facts, plan: &Plan, options: &GridOptions, terminal: &Terminal) -> anyhow::Result<()> {
    let controller = options.site.controller().context("a site is asked that there is not")?;
    let client = Client::of_command(&controller, &options.site.identity())?;
    let is_known = |host: &String| facts.hosts.contains_key(host);
    let pairs: Vec<(String, String)> =
        plan.pairs().into_iter().filter(|(from, to)| is_known(from) && is_known(to)).collect();
    let hosts: BTreeSet<String> = plan.hosts().into_iter().filter(is_known).collect();
    let trouble = |what: String, error: anyhow::Error| match plan.is_lenient {
        true => {
            eprintln!("trimtab: {what}: {error:#}");
            Ok(())
        }
        false => Err(error.context(what)),
    };
    for host in hosts {
        match client.weather(&host, 0) {
            Ok(said) => merge(facts, &host, of_agent(&said)),
            Err(error) => trouble(host, error.into())?,
        }
    }
    let count = pairs.len();
    for (at, (from, to)) in pairs.into_iter().enumerate() {
        ensure!(!terminal.is_interrupted(), "interrupted");
        terminal.say(format!("probing the network from {from} to {to}, {} of {count}", at + 1));
        match client.pair(&from, &to) {
            Ok(found) => facts.add_link(of_pair(&from, &to, &found)),
            Err(error) => trouble(format!("{from} to {to}"), error.into())?,
        }
    }
    Ok(())
}

fn of_agent(said: &HostWeather) -> Host {
    let figure = |key: &str| {
        let figure = said.figures.iter().find(|figure| figure.key == key)?;
        let soon = figure.soon.as_ref().and_then(|soon| Some((soon.value, soon.lower.zip(soon.upper)?)));
        let quantity = soon
            .map_or_else(|| figure.value.map(Quantity::of), |(value, ends)| Some(Quantity::with(value, Some(ends))));
        Some(Figure { quantity: quantity?, age_s: Some(figure.age_s), caution: None })
    };
    Host { cpu_share: figure(SHARE.0).map(share), memory_free_bytes: figure(MEMORY.0), ..Host::default() }
}

/// A share of nothing would be an end that never comes.
fn share(figure: Figure) -> Figure {
    let within = |value: f64| value.clamp(1e-3, 1.0);
    let Quantity { value, lower, upper } = figure.quantity;
    let quantity = Quantity { value: within(value), lower: lower.map(within), upper: upper.map(within) };
    Figure { quantity, ..figure }
}

fn of_pair(from: &str, to: &str, found: &PairFound) -> Link {
    let latencies = (found.latency_least_s.min(found.latency_s), found.latency_most_s.max(found.latency_s));
    let now = |value: f64, ends: Option<(f64, f64)>| Looked { value, ends, age_s: 0.0 };
    one_probe(from, to, now(found.bandwidth_bytes_per_s, None), now(found.latency_s, Some(latencies)))
}

/// A value that was looked at.
#[derive(Clone, Copy, Debug)]
struct Looked {
    value: f64,
    ends: Option<(f64, f64)>,
    age_s: f64,
}

impl Looked {
    fn figure(self) -> Figure {
        Figure { quantity: Quantity::with(self.value, self.ends), age_s: Some(self.age_s), caution: None }
    }
}

/// A link; an interval that is not known is that of one probe.
fn one_probe(from: &str, to: &str, bandwidth: Looked, latency: Looked) -> Link {
    let mut missing = Vec::new();
    if bandwidth.ends.is_none() {
        missing.push("bandwidth is taken as within 10%, as that of transfers beside probes was");
    }
    if latency.ends.is_none() {
        missing.push("latency as half to twice that");
    }
    let caution =
        (!missing.is_empty()).then(|| format!("{from} to {to} was measured by one probe: {}", missing.join(", ")));
    let figure = |looked: Looked, around: (f64, f64)| {
        let looked = Looked { ends: looked.ends.or(Some(around)), ..looked };
        Figure { caution: caution.clone(), ..looked.figure() }
    };
    let around = (bandwidth.value * (1.0 - ONE_PROBE), bandwidth.value * (1.0 + ONE_PROBE));
    Link {
        from: from.to_owned(),
        to: to.to_owned(),
        bandwidth_bytes_per_s: figure(bandwidth, around),
        latency_s: figure(latency, (latency.value / ONE_LATENCY, latency.value * ONE_LATENCY)),
    }
}

/// Figures of a host that are known now; of two the younger one stays.
fn merge(facts: &mut Facts, name: &str, host: Host) {
    let known = facts.hosts.entry(name.to_owned()).or_default();
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

/// The host that weather calls so: an address without its port, or by its alias.
fn host_of(name: &str, options: &GridOptions) -> String {
    let without_port = match name.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => name,
    };
    let alias = options.alias.iter().find(|(_, address)| address == name || address == without_port);
    alias.map_or_else(|| without_port.to_owned(), |(host, _)| host.clone())
}

/// The JSON of `trimtab weather --json`.
#[derive(Deserialize)]
struct Said {
    version: u32,
    host: String,
    to: Option<String>,
    made_unix_s: f64,
    figures: BTreeMap<String, SaidFigure>,
    net: Option<SaidNet>,
}

#[derive(Deserialize)]
struct SaidFigure {
    value: Option<f64>,
    unit: String,
    age_s: f64,
    soon: Option<SaidSoon>,
}

#[derive(Deserialize)]
struct SaidSoon {
    value: f64,
    lower: Option<f64>,
    upper: Option<f64>,
}

#[derive(Deserialize)]
struct SaidNet {
    latency_least_s: f64,
    latency_most_s: f64,
}

/// The file that people write.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    version: u32,
    made_unix_s: Option<f64>,
    #[serde(default)]
    hosts: BTreeMap<String, GivenHost>,
    #[serde(default)]
    links: Vec<GivenLink>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenHost {
    cpu_share: Option<Written>,
    memory_free_bytes: Option<Written>,
    software: Option<BTreeSet<String>>,
    send_bytes_per_s: Option<f64>,
    receive_bytes_per_s: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenLink {
    from: String,
    to: String,
    bandwidth_bytes_per_s: Written,
    latency_s: Written,
    #[serde(default)]
    both_ways: bool,
}

fn add_file(facts: &mut Facts, path: &Path, options: &GridOptions) -> anyhow::Result<()> {
    let value: Value = serde_json::from_slice(&bytes_of(path)?).context("it is no JSON")?;
    if value.get("figures").is_some() {
        let said: Said = serde_json::from_value(value).context("it is not what `trimtab weather --json` says")?;
        return add_said(facts, &said, options);
    }
    let given: Given =
        serde_json::from_value(value).context("it describes no hosts and links: see docs/forecasts.md")?;
    add_given(facts, given)
}

fn check_version(version: u32) -> anyhow::Result<()> {
    ensure!(version == VERSION, "it has version {version}, and {VERSION} is understood");
    Ok(())
}

fn add_said(facts: &mut Facts, said: &Said, options: &GridOptions) -> anyhow::Result<()> {
    check_version(said.version)?;
    let since_s = own::unix_s() - said.made_unix_s;
    let looked = |(key, unit): (&str, &str)| -> anyhow::Result<Option<Looked>> {
        let Some(figure) = said.figures.get(key) else { return Ok(None) };
        ensure!(figure.unit == unit, "{key} is in {:?}, and {unit:?} is what it has to be in", figure.unit);
        let age_s = since_s + figure.age_s;
        let soon = figure.soon.as_ref().and_then(|soon| Some((soon.value, soon.lower.zip(soon.upper)?)));
        let soon = soon.map(|(value, ends)| Looked { value, ends: Some(ends), age_s });
        Ok(soon.or_else(|| Some(Looked { value: figure.value?, ends: None, age_s })))
    };
    let host = host_of(&said.host, options);
    let cpu_share = looked(SHARE)?.map(Looked::figure).map(share);
    merge(facts, &host, Host { cpu_share, memory_free_bytes: looked(MEMORY)?.map(Looked::figure), ..Host::default() });
    if let (Some(to), Some(bandwidth), Some(latency)) = (&said.to, looked(BANDWIDTH)?, looked(LATENCY)?) {
        let (value, net) = (latency.value, said.net.as_ref());
        let of_net = net.map(|net| (net.latency_least_s.min(value), net.latency_most_s.max(value)));
        let latency = Looked { ends: latency.ends.or(of_net), ..latency };
        facts.add_link(one_probe(&host, &host_of(to, options), bandwidth, latency));
    }
    Ok(())
}

fn add_given(facts: &mut Facts, given: Given) -> anyhow::Result<()> {
    check_version(given.version)?;
    let age_s = given.made_unix_s.map(|made_unix_s| own::unix_s() - made_unix_s);
    let figure = |written: Written| Figure { quantity: written.into(), age_s, caution: None };
    for (name, host) in given.hosts {
        let GivenHost { cpu_share, memory_free_bytes, software, send_bytes_per_s, receive_bytes_per_s } = host;
        let (cpu_share, memory_free_bytes) = (cpu_share.map(figure), memory_free_bytes.map(figure));
        merge(facts, &name, Host { cpu_share, memory_free_bytes, software, send_bytes_per_s, receive_bytes_per_s });
    }
    let mut seen = BTreeSet::new();
    for link in given.links {
        let ways = [(&link.from, &link.to), (&link.to, &link.from)];
        for (from, to) in ways.into_iter().take(if link.both_ways { 2 } else { 1 }) {
            if !seen.insert((from.clone(), to.clone())) {
                bail!(Error::Contradiction { what: format!("the link {from} to {to}") });
            }
            let (bandwidth_bytes_per_s, latency_s) = (figure(link.bandwidth_bytes_per_s), figure(link.latency_s));
            facts.add_link(Link { from: from.clone(), to: to.clone(), bandwidth_bytes_per_s, latency_s });
        }
    }
    Ok(())
}

/// The newest values of all series of hosts and pairs, with forecasts where there are some.
fn add_store(facts: &mut Facts, kept: &Kept, options: &GridOptions) -> anyhow::Result<()> {
    let (store, now_s) = (kept.store(), own::unix_s());
    let names = store.series()?;
    let looked = |name: &SeriesName| -> anyhow::Result<Option<Looked>> {
        let values = store.values(name, VALUES_MAX)?;
        let (times_s, values): (Vec<f64>, Vec<f64>) = values.iter().map(|one| (one.at_unix_s, one.value)).unzip();
        let Some((at_s, value)) = times_s.last().copied().zip(values.last().copied()) else { return Ok(None) };
        let soon = soon(&times_s, &values, now_s, (0.0, f64::INFINITY)).ok();
        let soon = soon.and_then(|soon| Some((soon.value, Some(soon.lower.zip(soon.upper)?))));
        let (value, ends) = soon.unwrap_or((value, None));
        Ok(Some(Looked { value, ends, age_s: now_s - at_s }))
    };
    for name in &names {
        let host = host_of(&name.host, options);
        match (name.figure.as_str(), &name.peer) {
            ("cpu_share nice 0", None) => {
                let cpu_share = looked(name)?.map(Looked::figure).map(share);
                merge(facts, &host, Host { cpu_share, ..Host::default() });
            }
            ("memory_free_bytes", None) => {
                let memory_free_bytes = looked(name)?.map(Looked::figure);
                merge(facts, &host, Host { memory_free_bytes, ..Host::default() });
            }
            ("bandwidth_bytes_per_s", Some(peer)) => {
                let latency = looked(&SeriesName { figure: LATENCY.0.to_owned(), ..name.clone() })?;
                if let Some((bandwidth, latency)) = looked(name)?.zip(latency) {
                    facts.add_link(one_probe(&host, &host_of(peer, options), bandwidth, latency));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
