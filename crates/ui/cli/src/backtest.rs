//! `backtest`: what was recorded, forecast from what was known before it, against what came. Here a series, one step ahead.
//!
//! Next: `trimtab-weather` for the forecasters; `backtest_jobs` for logs of jobs; docs/forecasts.md for what is printed.

use crate::arguments::BacktestOptions;
use crate::exit_code::{DONE, PARTIAL};
use crate::recorded::{bytes_of, short};
use crate::{outcomes, output};
use anyhow::{Context, bail};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use trimtab_engine::weather::{Backtest, From, Held, Judged, Series, backtest};

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;

/// `trimtab backtest`: of what was given, else of the forecasts in the store.
pub fn run(options: &BacktestOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    match (&options.series, &options.jobs) {
        (_, Some(jobs)) => crate::backtest_jobs::run(jobs, options),
        (Some(series), None) => of_series(series, options),
        (None, None) if options.from.is_some() => bail!("--from judges a part of --series or --jobs: give one of them"),
        (None, None) => outcomes::list(store.as_deref(), options.json.as_ref()),
    }
}

fn of_series(path: &Path, options: &BacktestOptions) -> anyhow::Result<u8> {
    let name = path.display();
    let text = String::from_utf8(bytes_of(path)?).with_context(|| format!("cannot read {name}"))?;
    let series = Series::read(&text).with_context(|| format!("{name}"))?;
    let found = backtest(&series, options.from.map_or(From::Start, From::Share));
    match &options.json {
        Some(path) => output::write(path, &as_json(&found)?)?,
        None => output::print_text(&page(&name.to_string(), &found))?,
    }
    Ok(if found.judged == 0 { PARTIAL } else { DONE })
}

fn as_json(found: &Backtest) -> anyhow::Result<String> {
    let mut object = serde_json::to_value(found)?;
    object["version"] = json!(JSON_VERSION);
    Ok(serde_json::to_string_pretty(&object)?)
}

fn page(name: &str, found: &Backtest) -> String {
    let mut text = format!("{name}: {} values", found.values);
    if let Some(step_s) = found.step_s {
        let _ = write!(text, ", {step_s} s apart");
    }
    if found.gaps > 0 {
        let _ = write!(text, ", {} gaps", found.gaps);
    }
    let _ = writeln!(text, "; {} judged, one step ahead", found.judged);
    if found.judged == 0 {
        text += "no value was forecast: a forecast needs one before it\n";
        return text;
    }
    let _ = writeln!(text, "\n{:<26} {:>12}  {:>12}", "", "mean error", "root mean sq");
    let mut row = |judged: &Judged| {
        let _ = writeln!(
            text,
            "{:<26} {:>12}  {:>12}",
            judged.name,
            short(judged.error_mean),
            short(judged.error_root_mean_square)
        );
    };
    [&found.mixture, &found.published].into_iter().for_each(&mut row);
    found.forecasters.iter().for_each(row);
    text += &last_lines(found);
    text
}

fn last_lines(found: &Backtest) -> String {
    let mut text = "\n".to_owned();
    if let (Some(ratio), Some(best)) = (found.mixture_over_best, found.forecasters.first()) {
        let _ = writeln!(text, "the mixture's error is {ratio:.3} of that of {}, the best in hindsight", best.name);
    }
    for (name, held) in [("intervals of 90%", &found.interval), ("plain quantiles", &found.plain_interval)] {
        if let Some(Held { share, score, width, .. }) = held {
            let percent = 100.0 * share;
            let _ = writeln!(
                text,
                "{name}: {percent:.1}% of values inside, score {}, width {}",
                short(*score),
                short(*width)
            );
        }
    }
    text
}
