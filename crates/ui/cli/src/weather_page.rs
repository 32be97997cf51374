//! The output of `weather`: lines for people, and JSON.
//!
//! Next: `weather`, which finds it; docs/weather.md describes the fields.

use crate::arguments::WeatherOptions;
use crate::exit_code::{DONE, PARTIAL};
use crate::output;
use crate::weather_lines::{Cost, Line, Way, Weather};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;

/// Prints it; the exit code.
pub fn show(options: &WeatherOptions, weather: &Weather) -> anyhow::Result<u8> {
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&as_json(weather))?)?,
        None => output::print_text(&page(weather))?,
    }
    let is_whole = |line: &Line| line.figure.value.is_some() || !is_needed(line.key);
    Ok(if weather.lines.iter().all(is_whole) { DONE } else { PARTIAL })
}

/// Figures without which the result is partial; a machine may have no disk or no pressure.
fn is_needed(key: &str) -> bool {
    matches!(key, "cpu_share" | "memory_free_bytes" | "latency_s" | "bandwidth_bytes_per_s")
}

/// The JSON.
fn as_json(weather: &Weather) -> Value {
    let figures: serde_json::Map<String, Value> =
        weather.lines.iter().map(|line| (line.key.to_owned(), of_line(line))).collect();
    let probe = weather.probe.as_ref();
    json!({
        "version": JSON_VERSION,
        "host": weather.host,
        "to": weather.peer,
        "nice": weather.nice,
        "pid": weather.pid,
        "made_unix_s": weather.made_unix_s,
        "looked_s": weather.looked_s,
        "figures": figures,
        "ways": ways(&weather.ways),
        "probe": probe.ok().map(|spun| json!({
            "share": spun.share, "turns": spun.turns, "cpu_s": spun.cpu_s, "lasted_s": spun.wall_s,
        })),
        "no_probe": probe.err().map(ToString::to_string),
        "net": weather.net,
        "cost": match weather.cost {
            Cost::Look(cpu_s) => json!({ "look_cpu_s": cpu_s, "probe_cpu_s": probe.ok().map(|spun| spun.cpu_s) }),
            Cost::Share(share) => json!({ "agent_share": share }),
        },
    })
}

fn ways(ways: &[Way]) -> Value {
    ways.iter().map(|(way, share, why_not)| json!({ "way": way, "share": share, "why_not": why_not })).collect()
}

fn of_line(line: &Line) -> Value {
    let figure = &line.figure;
    json!({
        "value": figure.value,
        "unit": line.unit,
        "how": figure.value.map(|_| &figure.how),
        "age_s": figure.age_s,
        "why_not": figure.why_not,
        "soon": line.soon.as_ref().ok(),
        "no_soon": line.soon.as_ref().err().map(ToString::to_string),
    })
}

/// The lines.
fn page(weather: &Weather) -> String {
    let place = match (weather.pid, &weather.cost) {
        (Some(pid), _) => format!("in the place of process {pid}"),
        (None, Cost::Look(_)) => "beside this command".to_owned(),
        (None, Cost::Share(_)) => "in a session of its own, as its agent is".to_owned(),
    };
    let mut text = format!("{}: a new process at nice {}, {place}", weather.host, weather.nice);
    if let Some(peer) = &weather.peer {
        let _ = write!(text, "; network to {peer}");
    }
    let _ = writeln!(text, "\n\n{:<30} {:>12}  {:<30} how", "", "now", "soon (90%)");
    for line in &weather.lines {
        let now = line.figure.value.map_or_else(|| "-".to_owned(), |value| amount(value, line.unit));
        let how = line.figure.why_not.as_deref().unwrap_or(&line.figure.how);
        let _ = writeln!(text, "{:<30} {now:>12}  {:<30} {how}", line.label, soon(line));
    }
    let why = weather.lines.iter().find_map(|line| line.soon.as_ref().err());
    if let Some(why) = why {
        let _ = writeln!(text, "\nno forecast of some: {why}");
    }
    match &weather.probe {
        Ok(spun) => {
            let _ = writeln!(
                text,
                "\na probe got {:.3} of a processor in {:.0} ms, and waited for one {} times",
                spun.cpu_s / spun.wall_s,
                1e3 * spun.wall_s,
                spun.turns
            );
        }
        Err(why) => {
            let _ = writeln!(text, "\nno probe: {why}");
        }
    }
    let probe_s = weather.probe.as_ref().map_or(0.0, |spun| spun.cpu_s);
    let _ = match weather.cost {
        Cost::Look(look_s) => write!(text, "cost: {:.1} ms of a processor", 1e3 * (look_s + probe_s)),
        Cost::Share(share) => write!(text, "cost: {:.3}% of a processor since the agent began", 100.0 * share),
    };
    if let Some(net) = &weather.net {
        let _ = write!(text, ", {} on the network", amount(net.bytes as f64, "bytes"));
    }
    text + "\n"
}

fn soon(line: &Line) -> String {
    let Ok(soon) = &line.soon else { return "-".to_owned() };
    let show = |value: f64| amount(value, line.unit);
    match soon.lower.zip(soon.upper) {
        Some((lower, upper)) => format!("{} ({} to {})", show(soon.value), show(lower), show(upper)),
        None => format!("{} (no interval yet)", show(soon.value)),
    }
}

/// A value with its unit, in three digits or so.
fn amount(value: f64, unit: &str) -> String {
    let scaled = |unit: &str| {
        let steps = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
        match steps.iter().find(|(size, _)| value.abs() >= *size) {
            Some((size, prefix)) => format!("{:.2} {prefix}{unit}", value / size),
            None => format!("{value:.0} {unit}"),
        }
    };
    match unit {
        "bytes" => scaled("B"),
        "bytes/s" => scaled("B/s"),
        "s" if value < 1e-3 => format!("{:.1} us", 1e6 * value),
        "s" => format!("{:.2} ms", 1e3 * value),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_their_units() {
        for (value, unit, expected) in [
            (0.4987, "share", "0.499"),
            (512.0, "bytes", "512 B"),
            (17_200_000_000.0, "bytes", "17.20 GB"),
            (1_250_000.0, "bytes/s", "1.25 MB/s"),
            (0.000_032_4, "s", "32.4 us"),
            (0.012, "s", "12.00 ms"),
        ] {
            assert_eq!(amount(value, unit), expected);
        }
    }
}
