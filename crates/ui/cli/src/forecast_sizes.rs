//! `forecast comp` and `forecast size`: how long a routine takes at given sizes, and how much memory, on a host.
//!
//! Next: `model`, which makes the models; docs/forecasts.md describes the output.

use crate::arguments::model::SizeForecastOptions;
use crate::engine::Kept;
use crate::exit_code::{DONE, PARTIAL};
use crate::model_kept::{Named, models_of};
use crate::model_shown::{stray_words, time_words};
use crate::output;
use crate::progress::Terminal;
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use trimtab_engine::routine::{Forecast, Model, Scale};
use trimtab_engine::{Basis, Benchmark, HostKind, RoutineCommand, Speed, host_name, own};
use trimtab_store::{History, KnownHost, SizeForecast};

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;
/// Runs of a check.
const CHECKS: u32 = 3;
/// One of them takes so many times the upper end of the forecast, at most, and this long at least.
const CHECK_TIMES: f64 = 20.0;
const CHECK_S: f64 = 60.0;

/// Time or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `forecast comp`.
    Time,
    /// `forecast size`.
    Memory,
}

/// The host that is asked about.
struct Host {
    name: String,
    kind: HostKind,
    speed: Option<Speed>,
    is_here: bool,
}

/// A forecast, and what it was made of.
struct Made {
    asked: Asked,
    host: Host,
    sizes: Vec<f64>,
    /// The model that was taken.
    named: Named,
    forecast: Option<Forecast>,
    /// Factors by which a model of another kind of host was scaled.
    scale: Option<Scale>,
    because: Vec<String>,
    no_claim: Option<String>,
    came: Option<f64>,
}

/// `trimtab forecast comp` or `size`.
pub fn run(asked: Asked, options: &SizeForecastOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let kept = Kept::open(store.as_deref())?;
    let models = models_of(&kept, &options.name)?;
    let host = host(&kept, options.host.as_deref())?;
    ensure!(!options.check || host.is_here, "--check runs it on this host, {}, not on {}", host_name(), host.name);
    let mut made = made(asked, options, models, host)?;
    if options.check {
        made.came = check(&made)?;
        if made.came.is_none() {
            made.because.push("it was run, and no run counts: all took too long, or others disturbed them".to_owned());
        }
    }
    keep(&kept, &made)?;
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&as_json(&made))?)?,
        None => output::print_text(&page(&made))?,
    }
    Ok(if made.forecast.is_some() { DONE } else { PARTIAL })
}

fn host(kept: &Kept, name: Option<&str>) -> anyhow::Result<Host> {
    let here = host_name();
    if name.is_none_or(|name| name == here || name == "localhost") {
        return Ok(Host { name: here, kind: HostKind::here(), speed: None, is_here: true });
    }
    let name = name.unwrap_or_default();
    let hosts = kept.store().hosts()?;
    let known: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).chain([here.as_str()]).collect();
    let Some(KnownHost { kind, speed, .. }) = hosts.iter().find(|host| host.name == name) else {
        bail!(
            "nothing is known of host {name:?}: run `trimtab model fit` on it, with this store; known are {}",
            known.join(", ")
        );
    };
    let (kind, speed) = (serde_json::from_str(kind)?, serde_json::from_str(speed).ok());
    Ok(Host { name: name.to_owned(), kind, speed, is_here: false })
}

fn made(asked: Asked, options: &SizeForecastOptions, models: Vec<Named>, host: Host) -> anyhow::Result<Made> {
    let fastest = fastest(&models);
    let place = models.iter().position(|named| named.content.host_kind == host.kind).unwrap_or(0);
    let named = models.into_iter().nth(place).context("a model")?;
    let sizes = sizes(&named.content.parameters, &options.args)?;
    let mut made = Made {
        asked,
        host,
        sizes,
        named,
        forecast: None,
        scale: None,
        because: Vec::new(),
        no_claim: None,
        came: None,
    };
    let content = &made.named.content;
    let Some(model) = (if asked == Asked::Time { Some(&content.time) } else { content.memory.as_ref() }) else {
        made.no_claim = content.no_memory.clone();
        return Ok(made);
    };
    if let Some(stray) = model.stray {
        made.no_claim = Some(format!("{}; {fastest}", stray_words(stray)));
        return Ok(made);
    }
    made.forecast = model.at(&made.sizes)?;
    if asked == Asked::Time && content.host_kind != made.host.kind {
        let speed = made.host.speed.unwrap_or_else(Speed::here);
        let (least, most) = speed.times_of(&content.speed);
        let scale = Scale { least, most };
        made.forecast = made.forecast.map(|forecast| forecast.scaled(scale));
        made.scale = Some(scale);
    }
    made.because = because(&made, model);
    Ok(made)
}

/// The host on which the measured runs took least, in a sentence.
fn fastest(models: &[Named]) -> String {
    let best = models.iter().min_by(|one, other| one.content.time.typical.total_cmp(&other.content.time.typical));
    best.map_or_else(String::new, |best| {
        format!(
            "of {} kinds of hosts that it was measured on the fastest is that of {}",
            models.len(),
            best.content.host
        )
    })
}

fn sizes(parameters: &[String], given: &[(String, f64)]) -> anyhow::Result<Vec<f64>> {
    if let Some((unknown, _)) = given.iter().find(|(name, _)| !parameters.contains(name)) {
        bail!("the model has no parameter {unknown}; it has {}", parameters.join(", "));
    }
    let size = |parameter: &String| {
        let mut all = given.iter().filter(|(name, _)| name == parameter);
        let size = all.next().with_context(|| format!("--args lacks {parameter}=SIZE"))?.1;
        ensure!(all.next().is_none(), "--args has {parameter} twice");
        Ok(size)
    };
    parameters.iter().map(size).collect()
}

fn because(made: &Made, model: &Model) -> Vec<String> {
    let content = &made.named.content;
    let mut said = Vec::new();
    if made.asked == Asked::Time && content.time_is == Basis::Cpu {
        said.push(format!("this is {}", time_words(content)));
    }
    if let Some(Scale { least, most }) = made.scale {
        said.push(format!(
            "it was measured on another kind of host ({}), {} takes {least:.2} to {most:.2} times as long by its measured speed of \
             computing and of memory",
            content.host_kind.words(),
            made.host.name
        ));
    }
    let Some(forecast) = &made.forecast else { return said };
    for (name, times) in &forecast.beyond {
        said.push(format!("{name} is {times:.2} times the largest that was measured: nobody knows what holds there"));
    }
    for (name, share) in &forecast.below {
        said.push(format!("{name} is {share:.2} of the smallest that was measured"));
    }
    if forecast.at_break {
        said.push("a break lies about here, and where exactly was not measured".to_owned());
    }
    if made.asked == Asked::Memory && forecast.value > made.host.kind.memory_gib as f64 * (1_u64 << 30) as f64 {
        said.push(format!("impossible: the host has {} GiB", made.host.kind.memory_gib));
    }
    let error = model.pieces.iter().filter_map(|piece| piece.error_median).fold(0.0, f64::max);
    said.push(format!("sizes that were left out were met to {:.1}% in the median", 100.0 * error));
    said
}

/// Runs the routine at these sizes; the median, or `None` if no run counts.
fn check(made: &Made) -> anyhow::Result<Option<f64>> {
    let content = &made.named.content;
    let expected = made.forecast.as_ref().filter(|_| made.asked == Asked::Time).map_or(0.0, |forecast| forecast.upper);
    let timeout = Duration::from_secs_f64((CHECK_TIMES * expected).clamp(CHECK_S, 1e6));
    let benchmark = Benchmark {
        command: RoutineCommand::of_words(made.named.kept.command.clone()),
        setup: content.setup.clone().map(RoutineCommand::of_words),
        parameters: content.parameters.clone(),
        places: vec![made.sizes.clone()],
        repeat: CHECKS,
        timeout,
        within: timeout * 2 * CHECKS,
        seed: content.seed,
    };
    let terminal = Terminal::new()?;
    let found = benchmark.run(&terminal)?;
    terminal.finish();
    let measured = match made.asked {
        Asked::Memory => found.memory(),
        Asked::Time => found.times(content.time_is),
    };
    let mut values = measured.first().map(|at| at.values.clone()).unwrap_or_default();
    values.sort_by(f64::total_cmp);
    Ok(values.get(values.len() / 2).copied())
}

fn keep(kept: &Kept, made: &Made) -> anyhow::Result<()> {
    let Some(forecast) = &made.forecast else { return Ok(()) };
    let named = made.named.content.parameters.iter().zip(&made.sizes);
    kept.store().note_size_forecast(&SizeForecast {
        model: made.named.kept.name.clone(),
        host: made.host.name.clone(),
        unit: unit(made).to_owned(),
        sizes: named.map(|(name, size)| format!("{name}={size}")).collect(),
        made_unix_s: own::unix_s(),
        value: forecast.value,
        lower: forecast.lower,
        upper: forecast.upper,
        outside: !forecast.is_inside(),
        came: made.came,
    })?;
    Ok(())
}

fn unit(made: &Made) -> &'static str {
    if made.asked == Asked::Time { "seconds" } else { "bytes" }
}

fn as_json(made: &Made) -> Value {
    let content = &made.named.content;
    let forecast = made.forecast.as_ref();
    let sides = |all: fn(&Forecast) -> &Vec<(String, f64)>| {
        forecast.map(|forecast| all(forecast).iter().cloned().collect::<std::collections::BTreeMap<String, f64>>())
    };
    let sizes: std::collections::BTreeMap<_, _> = content.parameters.iter().zip(&made.sizes).collect();
    json!({
        "version": JSON_VERSION,
        "model": made.named.kept.name,
        "host": made.host.name,
        "host_kind": made.host.kind,
        "sizes": sizes,
        "unit": unit(made),
        "time_is": (made.asked == Asked::Time).then_some(content.time_is),
        "value": forecast.map(|forecast| forecast.value),
        "lower": forecast.map(|forecast| forecast.lower),
        "upper": forecast.map(|forecast| forecast.upper),
        "share_inside": forecast.map(|forecast| forecast.share_inside),
        "outside": forecast.map(|forecast| !forecast.is_inside()),
        "beyond": sides(|forecast| &forecast.beyond),
        "below": sides(|forecast| &forecast.below),
        "at_break": forecast.map(|forecast| forecast.at_break),
        "scale": made.scale,
        "because": made.because,
        "no_claim": made.no_claim,
        "came": made.came,
    })
}

fn page(made: &Made) -> String {
    let content = &made.named.content;
    let sizes = content.parameters.iter().zip(&made.sizes);
    let sizes: Vec<String> = sizes.map(|(name, size)| format!("{name}={size}")).collect();
    let mut text = format!("{} {} on {}: ", made.named.kept.name, sizes.join(" "), made.host.name);
    let words = |value: f64| if made.asked == Asked::Time { seconds(value) } else { bytes(value) };
    match (&made.forecast, &made.no_claim) {
        (Some(forecast), _) => {
            let flag = if forecast.is_inside() { "" } else { ", outside of what was measured" };
            let _ = writeln!(
                text,
                "{} (90%: {} to {}){flag}",
                words(forecast.value),
                words(forecast.lower),
                words(forecast.upper)
            );
        }
        (None, why) => {
            let what = if made.asked == Asked::Time { "time" } else { "memory" };
            let _ = writeln!(text, "no {what} can be said: {}", why.as_deref().unwrap_or("there is no model of it"));
        }
    }
    for line in &made.because {
        let _ = writeln!(text, "  {line}");
    }
    if let Some(came) = made.came {
        let error = made.forecast.as_ref().map(|forecast| 100.0 * (forecast.value / came - 1.0));
        let error = error.map_or_else(String::new, |error| format!(", the forecast is {error:+.1}% off"));
        let _ = writeln!(text, "it was run: {}{error}", words(came));
    }
    text
}

fn seconds(value: f64) -> String {
    if value < 10.0 { format!("{:.1} ms", 1e3 * value) } else { output::time(value) }
}

fn bytes(value: f64) -> String {
    format!("{:.1} MiB", value / f64::from(1 << 20))
}
