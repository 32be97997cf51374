//! `forecast comp` and `forecast size`: how long a routine takes at given sizes, and how much memory, on a host.
//!
//! Next: `model`, which makes the models; docs/forecasts.md describes the output.

use crate::arguments::model::SizeForecastOptions;
use crate::engine::Kept;
use crate::exit_code::{DONE, PARTIAL};
use crate::output;
use crate::progress::Terminal;
use anyhow::ensure;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use trimtab_controller::forecasts::{Asked, Host, SizeMade, known_host, models_of};
use trimtab_engine::{Benchmark, RoutineCommand, host_kind_here, host_name, own, speed_here};
use trimtab_store::History;

/// Runs of a check.
const CHECKS: u32 = 3;
/// One of them takes so many times the upper end of the forecast, at most, and this long at least.
const CHECK_TIMES: f64 = 20.0;
const CHECK_S: f64 = 60.0;

/// `trimtab forecast comp` or `size`.
pub fn run(asked: Asked, options: &SizeForecastOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let kept = Kept::open(store.as_deref())?;
    let models = models_of(&kept.store(), &options.name)?;
    let (mut host, is_here) = host(&kept, options.host.as_deref())?;
    ensure!(!options.check || is_here, "--check runs it on this host, {}, not on {}", host_name(), host.name);
    if is_here && !models.iter().any(|named| named.content.host_kind == host.kind) {
        host.speed = Some(speed_here());
    }
    let mut made = SizeMade::of(asked, &options.args, models, host)?;
    if options.check {
        made.came = check(&made)?;
        if made.came.is_none() {
            made.because.push("it was run, and no run counts: all took too long, or others disturbed them".to_owned());
        }
    }
    if let Some(forecast) = made.forecast(own::unix_s()) {
        kept.store().note_size_forecast(&forecast)?;
    }
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&made.answer())?)?,
        None => output::print_text(&page(&made))?,
    }
    Ok(if made.forecast.is_some() { DONE } else { PARTIAL })
}

fn host(kept: &Kept, name: Option<&str>) -> anyhow::Result<(Host, bool)> {
    let here = host_name();
    match name.filter(|name| *name != here && *name != "localhost") {
        None => Ok((Host { name: here, kind: host_kind_here(), speed: None }, true)),
        Some(name) => Ok((known_host(&kept.store(), name, &[&here])?, false)),
    }
}

/// Runs the routine at these sizes; the median, or `None` if no run counts.
fn check(made: &SizeMade) -> anyhow::Result<Option<f64>> {
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

fn page(made: &SizeMade) -> String {
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
