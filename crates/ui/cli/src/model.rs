//! `model`: benchmarks of routines over sizes, and the models that are made of them and kept.
//!
//! Next: `forecast_sizes`, which asks them; `model_shown` for pages; docs/forecasts.md describes the output.

use crate::arguments::model::{ModelCommand, ModelFitOptions};
use crate::engine::Kept;
use crate::exit_code::{DONE, PARTIAL};
use crate::progress::Terminal;
use crate::{model_shown, output};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_controller::forecasts::{Content, MODEL_VERSION, Named, all_models, models_of, named_model};
use trimtab_engine::routine::fit;
use trimtab_engine::{Benchmark, Benchmarked, RoutineCommand, host_kind_here, host_name, own, speed_here};
use trimtab_store::History;

/// All combinations of sizes, at most.
const PLACES_MAX: usize = 400;

/// `trimtab model`.
pub fn run(command: &ModelCommand, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    match command {
        ModelCommand::Fit(options) => fit_one(options, store),
        ModelCommand::List { json } => list(store, json.as_deref()),
        ModelCommand::Show { name, json } => show(name, store, json.as_deref()),
        ModelCommand::Pressure(options) => crate::pressure::run(options, store),
        ModelCommand::Links(options) => crate::links::list(options, store),
        ModelCommand::Pairs(options) => crate::pairs::list(options, store),
    }
}

fn fit_one(options: &ModelFitOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let benchmark = benchmark_of(options)?;
    let kept = Kept::open(store.as_deref())?;
    let terminal = Terminal::new()?;
    let repetitions = u64::from(benchmark.repeat) + u64::from(benchmark.command.has_value());
    eprintln!(
        "trimtab: {} sizes, {repetitions} runs each, in an order shuffled by seed {}, and one run before them that does not count; \
         {} s at most",
        benchmark.places.len(),
        benchmark.seed,
        options.within
    );
    let found = benchmark.run(&terminal)?;
    terminal.finish();
    ensure!(!found.interrupted, "interrupted: nothing was kept");
    let named = named(options, &benchmark, &found)?;
    let mut history = kept.store();
    history.note_host(&named.host()?)?;
    history.note_model(&named.kept)?;
    drop(history);
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&named.json()?)?)?,
        None => output::print_text(&model_shown::page(&named))?,
    }
    let is_whole = named.content.left_out.is_empty() && named.content.time.stray.is_none();
    Ok(if is_whole { DONE } else { PARTIAL })
}

fn benchmark_of(options: &ModelFitOptions) -> anyhow::Result<Benchmark> {
    ensure!(!options.name.is_empty(), "a model needs a name");
    let parameters: Vec<String> = options.over.iter().map(|over| over.name.clone()).collect();
    let command = RoutineCommand::parse(&options.run, &parameters)?;
    let setup = options.setup.as_ref().map(|text| RoutineCommand::parse_setup(text, &parameters)).transpose()?;
    let is_alone = parameters.len() == 1;
    let mut places: Vec<Vec<f64>> = vec![Vec::new()];
    for over in &options.over {
        let sizes = over.sizes(is_alone);
        let longer = |place: &Vec<f64>| sizes.iter().map(|size| [&place[..], &[*size]].concat()).collect::<Vec<_>>();
        places = places.iter().flat_map(longer).collect();
        ensure!(places.len() <= PLACES_MAX, "{} sizes together: give at most {PLACES_MAX}", places.len());
    }
    // Sizes that can't give a model are refused before anything is run.
    let unit = trimtab_engine::routine::Unit::Seconds;
    let tried = |at: &Vec<f64>| trimtab_engine::routine::Measurement { at: at.clone(), values: vec![1.0], unit };
    trimtab_engine::routine::check(&parameters, &places.iter().map(tried).collect::<Vec<_>>())?;
    Ok(Benchmark {
        command,
        setup,
        parameters,
        places,
        repeat: u32::try_from(options.repeat).context("so many runs would never end")?,
        timeout: Duration::from_secs_f64(options.timeout.min(1e9)),
        within: Duration::from_secs_f64(options.within.min(1e9)),
        seed: options.seed,
    })
}

fn named(options: &ModelFitOptions, benchmark: &Benchmark, found: &Benchmarked) -> anyhow::Result<Named> {
    let basis = found.basis(&benchmark.parameters);
    let times = found.times(basis);
    let time = fit(&benchmark.parameters, &times, found.quiet(basis)).map_err(|error| match found.left_out.len() {
        0 => anyhow::Error::from(error),
        count => anyhow::anyhow!("{count} sizes took longer than --timeout or --within allow: {error}"),
    })?;
    let memory = match found.memory() {
        none if none.is_empty() => Err("it had less memory than can be told apart from trimtab's own".to_owned()),
        some => fit(&benchmark.parameters, &some, None).map_err(|error| error.to_string()),
    };
    let (host, host_kind, speed) = (host_name(), host_kind_here(), speed_here());
    let content = Content {
        version: MODEL_VERSION,
        parameters: benchmark.parameters.clone(),
        setup: benchmark.setup.as_ref().map(|setup| setup.words().to_vec()),
        host,
        host_kind,
        speed,
        time_is: basis,
        has_threads: found.has_threads(),
        time,
        no_memory: memory.as_ref().err().cloned(),
        memory: memory.ok(),
        disturbed: found.disturbed(),
        left_out: found.left_out.clone(),
        seed: benchmark.seed,
        runs: found.runs.clone(),
    };
    Ok(named_model(&options.name, benchmark.command.words().to_vec(), own::unix_s(), content)?)
}

fn list(store: &Option<PathBuf>, json: Option<&Path>) -> anyhow::Result<u8> {
    let kept = Kept::open(store.as_deref())?;
    let all = all_models(&kept.store())?;
    match json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&model_shown::list_as_json(&all)?)?)?,
        None => output::print_text(&model_shown::list(&all))?,
    }
    Ok(if all.is_empty() { PARTIAL } else { DONE })
}

fn show(name: &str, store: &Option<PathBuf>, json: Option<&Path>) -> anyhow::Result<u8> {
    let kept = Kept::open(store.as_deref())?;
    let found = models_of(&kept.store(), name)?;
    match json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&model_shown::list_as_json(&found)?)?)?,
        None => {
            let pages: Vec<String> = found.iter().map(model_shown::page).collect();
            output::print_text(&pages.join("\n"))?;
        }
    }
    Ok(DONE)
}
