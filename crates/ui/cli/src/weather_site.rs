//! `weather --host`: what a new process would get on a host of the site, by its standing agent, and the network from there.
//!
//! Next: `weather` for this host, `trimtab_controller::said_of_weather` for what is said.

use crate::arguments::WeatherOptions;
use crate::progress::Terminal;
use crate::weather_lines::{Cost, Line, Weather, host_lines, pair_lines};
use crate::weather_page::show;
use anyhow::{Context, Error, anyhow};
use trimtab_controller::Client;
use trimtab_controller::said_of_weather::{HostFigure, HostSoon, HostWeather, PairFound};
use trimtab_engine::sensors::net::Found;
use trimtab_engine::sensors::{Figure, NoFigure, Spun};
use trimtab_engine::weather::Soon;

/// Asks the controller, and shows what it says.
pub fn run(host: &str, options: &WeatherOptions, terminal: &Terminal) -> anyhow::Result<u8> {
    let controller = options.site.controller().context(
        "--host asks a site's agents: give --controller HOST, or set TRIMTAB_CONTROLLER; without --host this host is looked at",
    )?;
    let client = Client::of_command(&controller, &options.site.identity())?;
    let mut weather = weather(client.weather(host, options.nice)?);
    if let Some(to) = &options.to {
        terminal.say(format!("a probe goes from {host} to {to}"));
        let found = found(client.pair(host, to)?);
        let of_pair = pair_lines(&found);
        weather.lines.extend(of_pair.map(|line| Line {
            soon: Err(anyhow!("the site's store keeps values of pairs; one probe is no basis")),
            ..line
        }));
        (weather.peer, weather.net) = (Some(to.clone()), Some(found));
    }
    terminal.finish();
    show(options, &weather)
}

fn weather(said: HostWeather) -> Weather {
    let known = |key: &str| said.figures.iter().find(|figure| figure.key == key);
    let nothing = || Figure::none(&NoFigure::NotSaid);
    let mut lines = host_lines(|key| known(key).map_or_else(nothing, figure));
    for line in &mut lines {
        line.soon = match known(line.key) {
            Some(HostFigure { soon: Some(soon), .. }) => Ok(of_soon(soon)),
            other => Err(Error::msg(other.and_then(|figure| figure.no_soon.clone()).unwrap_or("not known".to_owned()))),
        };
    }
    let probe = said.probe.map(|probe| Spun {
        share: probe.share,
        turns: probe.turns,
        cpu_s: probe.cpu_s,
        wall_s: probe.lasted_s,
    });
    Weather {
        host: said.host,
        peer: None,
        nice: said.nice,
        pid: None,
        made_unix_s: said.made_unix_s,
        looked_s: said.looked_s,
        lines,
        ways: said.ways.into_iter().map(|way| (way.way, way.share, way.why_not)).collect(),
        probe: probe.ok_or_else(|| Error::msg(said.no_probe.unwrap_or_default())),
        net: None,
        cost: Cost::Share(said.cost_share),
    }
}

fn figure(said: &HostFigure) -> Figure {
    Figure { value: said.value, how: said.how.clone(), age_s: said.age_s, why_not: said.why_not.clone() }
}

fn of_soon(said: &HostSoon) -> Soon {
    Soon {
        value: said.value,
        lower: said.lower,
        upper: said.upper,
        share_inside: said.share_inside,
        method: said.method.clone(),
        values: said.values as usize,
        step_s: said.step_s,
        age_s: said.age_s,
    }
}

fn found(said: PairFound) -> Found {
    Found {
        latency_s: said.latency_s,
        latency_least_s: said.latency_least_s,
        latency_most_s: said.latency_most_s,
        bandwidth_bytes_per_s: said.bandwidth_bytes_per_s,
        lasted_s: said.lasted_s,
        bytes: said.bytes,
        took_s: said.took_s,
        timeout_s: said.timeout_s,
    }
}
