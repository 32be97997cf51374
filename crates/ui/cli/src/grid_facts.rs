//! Facts of hosts and links: from files, from a site's agents, or from what `trimtab weather` stored here.
//!
//! Next: `grid`, which asks; docs/forecasts.md describes the files.

use crate::arguments::grid::GridOptions;
use crate::engine::Kept;
use crate::progress::Terminal;
use crate::recorded::bytes_of;
use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trimtab_controller::forecasts::grid::{FACTS_VERSION, Facts, GivenFacts, Host, Link, Looked, Next, Plan};
use trimtab_controller::forecasts::{FactsFrom, add_stored};
use trimtab_controller::{Client, host_of_agent, link_of_pair};
use trimtab_engine::own;

/// The figures that are used, with their units.
const SHARE: (&str, &str) = ("cpu_share", "share");
const MEMORY: (&str, &str) = ("memory_free_bytes", "bytes");
const LATENCY: (&str, &str) = ("latency_s", "s");
const BANDWIDTH: (&str, &str) = ("bandwidth_bytes_per_s", "bytes/s");

/// All that is known without asking a site; of a site only its hosts' names, until [`of_site`] asks them.
pub fn known(options: &GridOptions, kept: &Kept) -> anyhow::Result<(Facts, FactsFrom)> {
    let mut facts = Facts { age_max_s: options.age, ..Facts::default() };
    if !options.weather.is_empty() {
        for path in &options.weather {
            add_file(&mut facts, path, options).with_context(|| path.display().to_string())?;
        }
        return Ok((facts, FactsFrom::Files));
    }
    if let Some(controller) = options.site.controller() {
        let client = Client::of_command(&controller, &options.site.identity())?;
        let agents = client.tree()?.agents;
        facts.hosts.extend(agents.into_iter().map(|agent| (agent.host, Host::default())));
        return Ok((facts, FactsFrom::Site));
    }
    add_stored(&mut facts, &kept.store(), own::unix_s(), |name| host_of(name, options))?;
    Ok((facts, FactsFrom::Store))
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
            Ok(said) => facts.add_host(&host, host_of_agent(&said)),
            Err(error) => trouble(host, error.into())?,
        }
    }
    let count = pairs.len();
    for (at, (from, to)) in pairs.into_iter().enumerate() {
        ensure!(!terminal.is_interrupted(), "interrupted");
        terminal.say(format!("probing the network from {from} to {to}, {} of {count}", at + 1));
        match client.pair(&from, &to) {
            Ok(found) => facts.add_link(link_of_pair(&from, &to, &found)),
            Err(error) => trouble(format!("{from} to {to}"), error.into())?,
        }
    }
    Ok(())
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
    step_s: f64,
}

#[derive(Deserialize)]
struct SaidNet {
    latency_least_s: f64,
    latency_most_s: f64,
}

fn add_file(facts: &mut Facts, path: &Path, options: &GridOptions) -> anyhow::Result<()> {
    let value: Value = serde_json::from_slice(&bytes_of(path)?).context("it is no JSON")?;
    if value.get("figures").is_some() {
        let said: Said = serde_json::from_value(value).context("it is not what `trimtab weather --json` says")?;
        return add_said(facts, &said, options);
    }
    let given: GivenFacts =
        serde_json::from_value(value).context("it describes no hosts and links: see docs/forecasts.md")?;
    Ok(facts.add_given(given, own::unix_s())?)
}

fn add_said(facts: &mut Facts, said: &Said, options: &GridOptions) -> anyhow::Result<()> {
    ensure!(said.version == FACTS_VERSION, "it has version {}, and {FACTS_VERSION} is understood", said.version);
    let since_s = own::unix_s() - said.made_unix_s;
    let looked = |(key, unit): (&str, &str)| -> anyhow::Result<Option<Looked>> {
        let Some(figure) = said.figures.get(key) else { return Ok(None) };
        ensure!(figure.unit == unit, "{key} is in {:?}, and {unit:?} is what it has to be in", figure.unit);
        let age_s = since_s + figure.age_s;
        let next =
            figure.soon.as_ref().and_then(|soon| Next::with(soon.value, soon.lower.zip(soon.upper), soon.step_s));
        Ok(Looked::in_series(figure.value, next, age_s))
    };
    let host = host_of(&said.host, options);
    let (cpu_share, memory_free_bytes) = (looked(SHARE)?.map(Looked::share), looked(MEMORY)?.map(Looked::figure));
    facts.add_host(&host, Host { cpu_share, memory_free_bytes, ..Host::default() });
    if let (Some(to), Some(bandwidth), Some(latency)) = (&said.to, looked(BANDWIDTH)?, looked(LATENCY)?) {
        let (value, net) = (latency.value, said.net.as_ref());
        let of_net = net.map(|net| (net.latency_least_s.min(value), net.latency_most_s.max(value)));
        let latency = Looked { ends: latency.ends.or(of_net), ..latency };
        facts.add_link(Link::looked(&host, &host_of(to, options), bandwidth, latency));
    }
    Ok(())
}
