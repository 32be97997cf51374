//! Forecasts of time and memory by size in `backtest`, beside what came where `--check` ran them.
//!
//! Next: `outcomes`, which shows them behind those of jobs.

use crate::output::time;
use crate::recorded::short;
use serde_json::{Value, json};
use std::fmt::Write as _;
use trimtab_engine::routine::{Came, SizesJudged, Unit, sizes_judged};
use trimtab_store::SizeForecast;

/// All of them, judged by kind.
pub fn judged(all: &[SizeForecast]) -> Vec<SizesJudged> {
    sizes_judged(&all.iter().filter_map(came).collect::<Vec<_>>())
}

fn unit(one: &SizeForecast) -> Unit {
    if one.unit == Unit::Bytes.to_string() { Unit::Bytes } else { Unit::Seconds }
}

fn came(one: &SizeForecast) -> Option<Came> {
    Came::of(unit(one), one.outside, (one.lower, one.value, one.upper), one.came?)
}

/// The fields `sizes` and `size_kinds`.
pub fn as_json(all: &[SizeForecast], kinds: &[SizesJudged]) -> (Value, Value) {
    let forecast = |one: &SizeForecast| {
        let judged = came(one);
        json!({
            "model": one.model,
            "host": one.host,
            "unit": one.unit,
            "sizes": one.sizes,
            "made_unix_s": one.made_unix_s,
            "value": one.value,
            "lower": one.lower,
            "upper": one.upper,
            "outside": one.outside,
            "came": one.came,
            "error": judged.map(|judged| judged.error),
            "held": judged.map(|judged| judged.held),
        })
    };
    (all.iter().map(forecast).collect(), json!(kinds))
}

/// A table, and a line for each kind; empty: there is none.
pub fn page(all: &[SizeForecast], kinds: &[SizesJudged]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("{:<16} {:<24} {:>12} {:>12}  outcome\n", "model", "at", "forecast", "came");
    for one in all {
        let value = |value: f64| in_words(unit(one), value);
        let outcome = came(one).map_or_else(
            || "not run".to_owned(),
            |came| format!("{:+.1}%, {}", 100.0 * came.error, if came.held { "inside" } else { "outside" }),
        );
        let _ = writeln!(
            text,
            "{:<16} {:<24} {:>12} {:>12}  {outcome}",
            one.model,
            one.sizes.join(" "),
            value(one.value),
            one.came.map_or_else(|| "-".to_owned(), value),
        );
    }
    for one in kinds {
        let what = if one.unit == Unit::Seconds { "time" } else { "memory" };
        let place = if one.outside { "beyond what was measured" } else { "inside of what was measured" };
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let _ = write!(
            text,
            "\n{what} {place}: {} judged, error {} in the median, {} at worst; {} of intervals of 90% held",
            one.judged,
            percent(one.error_median),
            percent(one.error_worst),
            percent(one.held)
        );
    }
    text
}

fn in_words(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => time(value),
        Unit::Bytes => format!("{} MiB", short(value / f64::from(1 << 20))),
    }
}
