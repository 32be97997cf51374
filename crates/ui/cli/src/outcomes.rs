//! Outcomes of runs and of forecasts: ends that were seen, and `backtest` of every forecast ever made.
//!
//! Next: `forecast`, which makes them; `outcomes_sizes` for time and memory by size.

use crate::engine::{Kept, Parts};
use crate::exit_code::{DONE, PARTIAL};
use crate::outcomes_sizes;
use crate::output::{self, time};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use trimtab_controller::forecasts::{ByMethod, Outcome, by_method, end_of, outcome};
use trimtab_engine::{Engine, KnownJob, KnownProcess, Life, Nobody, own};
use trimtab_store::{ForecastOfRun, History, Process, Run, RunEnd};

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;

/// Looks at every run that was not seen to end, and notes whether it has. Slurm is asked only if `may_ask`.
pub fn fill(engine: &Engine<'_>, kept: &Kept, may_ask: bool) -> anyhow::Result<()> {
    let open = kept.store().open_runs()?;
    open.iter().try_for_each(|run| note_life(engine, kept, run, may_ask))
}

/// Notes the ends of the runs of a program that was waited for and has just ended.
pub fn note_end_now(kept: &Kept) -> anyhow::Result<()> {
    let now = own::unix_s();
    let mut store = kept.store();
    for key in kept.keys() {
        if store.run(&key)?.is_some_and(|run| run.ended.is_none()) {
            store.note_end(&key, RunEnd { after_unix_s: now, before_unix_s: now })?;
        }
    }
    Ok(())
}

/// Notes if a run goes on, or has ended.
fn note_life(engine: &Engine<'_>, kept: &Kept, run: &Run, may_ask: bool) -> anyhow::Result<()> {
    let Some(job) = known_job(kept, run)? else { return Ok(()) };
    let life = engine.life(&job, may_ask);
    let now = own::unix_s();
    let mut store = kept.store();
    match life {
        Life::Runs => store.note_seen(&run.key, now)?,
        Life::Ended(Some(at)) => store.note_end(&run.key, RunEnd { after_unix_s: at, before_unix_s: at })?,
        Life::Ended(None) => {
            // Without any moment at which it ran it may have ended at any time since 1970, which is no end that is judged.
            let seen = run.seen_unix_s.or(run.started_unix_s).unwrap_or(0.0);
            // A clock that was set back would have it end before it was seen.
            let end = RunEnd { after_unix_s: seen.min(now), before_unix_s: now };
            store.note_end(&run.key, end)?;
        }
        Life::Unknown => {}
    }
    Ok(())
}

/// The processes of a run; `None`: its job was deleted.
pub fn known_job(kept: &Kept, run: &Run) -> anyhow::Result<Option<KnownJob>> {
    let store = kept.store();
    let Some(id) = store.job_of_key(&run.key)? else { return Ok(None) };
    let processes = store.processes(&id)?.into_iter().map(known).collect();
    Ok(Some(KnownJob { key: run.key.clone(), processes }))
}

fn known(process: Process) -> KnownProcess {
    let Process { rank, pid, host, start_ticks } = process;
    KnownProcess { rank, pid, host, start_ticks }
}

/// `trimtab backtest` of every forecast in the store.
pub fn list(store: Option<&Path>, json: Option<&PathBuf>) -> anyhow::Result<u8> {
    let (kept, parts) = (Kept::open(store)?, Parts::of(None));
    fill(&parts.engine(&Nobody, None), &kept, true)?;
    let all = kept.store().forecasts()?;
    let outcomes: Vec<Outcome> = all.iter().filter_map(outcome).collect();
    let methods = by_method(&outcomes);
    let sizes = kept.store().size_forecasts()?;
    let kinds = outcomes_sizes::judged(&sizes);
    match json {
        Some(path) => {
            let mut object = as_json(&all, &methods);
            (object["sizes"], object["size_kinds"]) = outcomes_sizes::as_json(&sizes, &kinds);
            output::write(path, &serde_json::to_string_pretty(&object)?)?;
        }
        None if sizes.is_empty() => output::print_text(&page(&all, &methods))?,
        None if all.is_empty() => output::print_text(&outcomes_sizes::page(&sizes, &kinds))?,
        None => {
            let text = format!("{}\n\n{}", page(&all, &methods), outcomes_sizes::page(&sizes, &kinds));
            output::print_text(&text)?;
        }
    }
    Ok(if outcomes.is_empty() && kinds.is_empty() { PARTIAL } else { DONE })
}

fn as_json(all: &[ForecastOfRun], methods: &[ByMethod]) -> Value {
    let forecast = |one: &ForecastOfRun| {
        let (forecast, ended, judged) = (&one.forecast, one.run.ended, outcome(one));
        json!({
            "number": one.number,
            "job": one.run.job,
            "made_unix_s": forecast.made_unix_s,
            "method": forecast.method,
            "elapsed_s": forecast.elapsed_s,
            "iterations_done": forecast.iterations_done,
            "iterations_remaining": forecast.iterations_remaining,
            "end_unix_s": forecast.end_unix_s,
            "lower_unix_s": forecast.lower_unix_s,
            "upper_unix_s": forecast.upper_unix_s,
            "late_unix_s": forecast.late_unix_s,
            "because": forecast.because,
            "ended_after_unix_s": ended.map(|end| end.after_unix_s),
            "ended_before_unix_s": ended.map(|end| end.before_unix_s),
            "error": judged.as_ref().and_then(|judged| judged.error),
            "held": judged.as_ref().map(|judged| judged.held),
        })
    };
    let method = |one: &ByMethod| {
        json!({
            "method": one.method,
            "judged": one.count,
            "error_median": one.error_median,
            "error_worst": one.error_worst,
            "held": one.held,
            "held_late": one.held_late,
        })
    };
    json!({
        "version": JSON_VERSION,
        "forecasts": all.iter().map(forecast).collect::<Vec<_>>(),
        "methods": methods.iter().map(method).collect::<Vec<_>>(),
    })
}

fn page(all: &[ForecastOfRun], methods: &[ByMethod]) -> String {
    if all.is_empty() {
        return "no forecast has been made yet: `trimtab forecast job PID` makes one".to_owned();
    }
    let mut text =
        format!("{:>4}  {:<16} {:<24} {:>10} {:>10} {:>10}  outcome\n", "", "job", "method", "at", "forecast", "came");
    for one in all {
        let forecast = &one.forecast;
        let said = forecast.end_unix_s.map_or_else(|| "-".to_owned(), |end| time(end - forecast.made_unix_s));
        let came = end_of(one).map(|(_, end)| time((end - forecast.made_unix_s).max(0.0)));
        let _ = writeln!(
            text,
            "{:>4}  {:<16} {:<24} {:>10} {:>10} {:>10}  {}",
            one.number,
            one.run.job,
            forecast.method,
            time(forecast.elapsed_s),
            said,
            came.unwrap_or_else(|| "-".to_owned()),
            in_words(one)
        );
    }
    for one in methods {
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let errors = one.error_median.zip(one.error_worst).map_or_else(
            || "no expected end".to_owned(),
            |(median, worst)| {
                format!("error of the whole run {} in the median, {} at worst", percent(median), percent(worst))
            },
        );
        let _ = write!(
            text,
            "\n{}: {} judged, {errors}; {} of intervals of 90% held, {} ended before the 99% end",
            one.method,
            one.count,
            percent(one.held),
            percent(one.held_late)
        );
    }
    text
}

/// The outcome of a forecast.
fn in_words(one: &ForecastOfRun) -> String {
    match (one.run.ended, outcome(one)) {
        (None, _) => "not seen to end".to_owned(),
        (Some(end), None) => {
            let span = |at: f64| time((at - one.forecast.made_unix_s).max(0.0));
            format!("ended between {} and {} later: not judged", span(end.after_unix_s), span(end.before_unix_s))
        }
        (_, Some(outcome)) => {
            let error = outcome.error.map(|error| format!("{:+.1}% of the run, ", 100.0 * error)).unwrap_or_default();
            format!("{error}{}", if outcome.held { "inside" } else { "outside" })
        }
    }
}
