//! `forecast comm`, `total`, `place` and `plan`: how long data and routines take on hosts and links, and which plan is best.
//!
//! Next: `grid_facts` for hosts and links, `grid_shown` for what is printed; `trimtab_controller::forecasts` for the question as a
//! plan, and its answer; docs/forecasts.md describes it.

use crate::arguments::grid::{CommOptions, GridOptions, PlaceOptions, PlanOptions, TotalOptions, WorkOptions};
use crate::engine::Kept;
use crate::exit_code::{DONE, PARTIAL};
use crate::grid_facts::{known, of_site};
use crate::progress::Terminal;
use crate::recorded::bytes_of;
use crate::{grid_shown, output};
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::path::PathBuf;
use trimtab_controller::forecasts::grid::{Argument, Data, Plan};
use trimtab_controller::forecasts::{
    CommAsked, FactsFrom, GridAnswer, GridAsked, GridModels, Here, PlaceAsked, PlanAsked, TotalAsked,
};
use trimtab_engine::{host_kind_here, host_name, own, speed_here};
use trimtab_store::{History, SizeForecast};

/// `trimtab forecast comm`.
pub fn comm(options: &CommOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let asked = CommAsked {
        data: named(&options.data)?,
        to: options.to.clone(),
        in_turn: options.in_turn,
        facts: None,
        age_s: options.grid.age,
    };
    answer(asked.into(), &options.grid, store, ("forecast comm".to_owned(), described(&options.data)))
}

/// `trimtab forecast total`.
pub fn total(options: &TotalOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let work = &options.work;
    let asked = TotalAsked {
        model: work.name.clone(),
        host: options.host.clone(),
        args: arguments(work)?,
        data: named(&work.data)?,
        result: named(&work.result)?,
        in_turn: work.in_turn,
        facts: None,
        age_s: work.grid.age,
    };
    answer(asked.into(), &work.grid, store, (format!("forecast total {}", work.name), sizes(work)))
}

/// `trimtab forecast place`.
pub fn place(options: &PlaceOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let work = &options.work;
    let asked = PlaceAsked {
        model: work.name.clone(),
        on: options.on.clone(),
        args: arguments(work)?,
        data: named(&work.data)?,
        result: named(&work.result)?,
        in_turn: work.in_turn,
        facts: None,
        age_s: work.grid.age,
    };
    answer(asked.into(), &work.grid, store, (format!("forecast place {}", work.name), sizes(work)))
}

/// `trimtab forecast plan`.
pub fn plan(options: &PlanOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let name = options.plan.display().to_string();
    let plan: Plan = serde_json::from_slice(&bytes_of(&options.plan)?).with_context(|| format!("{name} is no plan"))?;
    let data = plan.data.iter().map(|(name, data)| format!("{name}={data}")).collect();
    let asked = PlanAsked { plan, facts: None, age_s: options.grid.age };
    answer(asked.into(), &options.grid, store, (format!("forecast plan {name}"), data))
}

fn named(all: &[(String, Data)]) -> anyhow::Result<BTreeMap<String, Data>> {
    let data: BTreeMap<String, Data> = all.iter().cloned().collect();
    ensure!(data.len() == all.len(), "two data have one name: each needs its own");
    Ok(data)
}

fn arguments(work: &WorkOptions) -> anyhow::Result<BTreeMap<String, Argument>> {
    let mut args = BTreeMap::new();
    for (name, size) in &work.args {
        ensure!(args.insert(name.clone(), Argument::Text(size.clone())).is_none(), "--args has {name} twice");
    }
    Ok(args)
}

fn described(all: &[(String, Data)]) -> Vec<String> {
    let place = |data: &Data| data.place.as_ref().map_or_else(String::new, |host| format!("@{host}"));
    all.iter().map(|(name, data)| format!("{name}={data}{}", place(data))).collect()
}

fn sizes(work: &WorkOptions) -> Vec<String> {
    let sizes = work.args.iter().map(|(name, size)| format!("{name}={size}"));
    sizes.chain(described(&work.data)).chain(described(&work.result)).collect()
}

/// Asks, keeps and shows; the exit code. `kept_as` are name and sizes under which the forecast is kept.
fn answer(
    asked: GridAsked,
    options: &GridOptions,
    store: &Option<PathBuf>,
    kept_as: (String, Vec<String>),
) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let kept = Kept::open(store.as_deref())?;
    let (mut facts, facts_from) = known(options, &kept)?;
    let plan = asked.checked_plan(&kept.store(), &facts)?;
    if facts_from == FactsFrom::Site {
        let terminal = Terminal::new()?;
        of_site(&mut facts, &plan, options, &terminal)?;
        terminal.finish();
    }
    let here = Here { name: host_name(), kind: host_kind_here, speed: speed_here };
    let models = GridModels::of(&kept.store(), Some(here))?;
    let answer = asked.answer(&plan, (&facts, facts_from), &models, own::unix_s())?;
    keep(&kept, &answer, kept_as)?;
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&answer)?)?,
        None => output::print_text(&grid_shown::page(&answer))?,
    }
    Ok(if answer.answer.chosen.is_some() { DONE } else { PARTIAL })
}

/// A forecast without an interval can't be judged, and is not kept.
fn keep(kept: &Kept, answer: &GridAnswer, (model, sizes): (String, Vec<String>)) -> anyhow::Result<()> {
    let Some(best) = answer.best() else { return Ok(()) };
    let Some((end, (lower, upper))) = best.end_s.and_then(|end| Some((end, end.ends()?))) else { return Ok(()) };
    kept.store().note_size_forecast(&SizeForecast {
        model,
        host: best.name.clone(),
        unit: answer.unit.to_owned(),
        sizes,
        made_unix_s: answer.made_unix_s,
        value: end.value,
        lower,
        upper,
        outside: false,
        came: None,
    })?;
    Ok(())
}
