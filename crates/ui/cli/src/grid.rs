//! `forecast comm`, `total`, `place` and `plan`: how long data and routines take on hosts and links, and which plan is best.
//!
//! All four are one question: alternatives of steps. Next: `grid_facts` for hosts and links, `grid_routines` for routines,
//! `grid_shown` for what is printed; `trimtab-grid` for the answer; docs/forecasts.md describes it.

use crate::arguments::grid::{CommOptions, GridOptions, PlaceOptions, PlanOptions, TotalOptions, WorkOptions};
use crate::engine::Kept;
use crate::exit_code::{DONE, PARTIAL};
use crate::grid_facts::{Source, known, of_site};
use crate::grid_routines::Models;
use crate::grid_shown::{Asked, Shown};
use crate::output;
use crate::progress::Terminal;
use crate::recorded::bytes_of;
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::path::PathBuf;
use trimtab_controller::forecasts::models_of;
use trimtab_engine::grid::{Alternative, Argument, Data, Facts, Plan, Step, Transfers, compare};
use trimtab_engine::own;
use trimtab_store::{History, SizeForecast};

/// `trimtab forecast comm`.
pub fn comm(options: &CommOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let way = Way::new(Asked::Comm, &options.grid, store)?;
    let data = named(&options.data)?;
    let steps = data.keys().map(|name| Step::sends(name, &options.to)).collect();
    let plan = Plan {
        transfers: transfers(options.in_turn),
        ..Plan::new(data, vec![Alternative { name: options.to.clone(), steps }])
    };
    let sizes = described(&options.data);
    way.answer(&plan, ("forecast comm".to_owned(), sizes))
}

/// `trimtab forecast total`.
pub fn total(options: &TotalOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let way = Way::new(Asked::Total, &options.work.grid, store)?;
    models_of(&way.kept.store(), &options.work.name)?;
    let plan = work(&options.work, std::slice::from_ref(&options.host))?;
    way.answer(&plan, (format!("forecast total {}", options.work.name), work_sizes(&options.work)))
}

/// `trimtab forecast place`.
pub fn place(options: &PlaceOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let way = Way::new(Asked::Place, &options.work.grid, store)?;
    models_of(&way.kept.store(), &options.work.name)?;
    let hosts = if options.on.is_empty() { way.facts.names() } else { options.on.clone() };
    ensure!(
        !hosts.is_empty(),
        "no host is known: give --weather FILE, or --controller HOST, or run `trimtab weather` first"
    );
    let plan = Plan { is_lenient: true, ..work(&options.work, &hosts)? };
    way.answer(&plan, (format!("forecast place {}", options.work.name), work_sizes(&options.work)))
}

/// `trimtab forecast plan`.
pub fn plan(options: &PlanOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let way = Way::new(Asked::Plan, &options.grid, store)?;
    let name = options.plan.display().to_string();
    let text = bytes_of(&options.plan)?;
    let plan: Plan = serde_json::from_slice(&text).with_context(|| format!("{name} is no plan"))?;
    let data = plan.data.iter().map(|(name, data)| format!("{name}={data}")).collect();
    way.answer(&plan, (format!("forecast plan {name}"), data))
}

fn transfers(in_turn: bool) -> Transfers {
    if in_turn { Transfers::InTurn } else { Transfers::Together }
}

fn named(all: &[(String, Data)]) -> anyhow::Result<BTreeMap<String, Data>> {
    let data: BTreeMap<String, Data> = all.iter().cloned().collect();
    ensure!(data.len() == all.len(), "two data have one name: each needs its own");
    Ok(data)
}

fn described(all: &[(String, Data)]) -> Vec<String> {
    let place = |data: &Data| data.place.as_ref().map_or_else(String::new, |host| format!("@{host}"));
    all.iter().map(|(name, data)| format!("{name}={data}{}", place(data))).collect()
}

fn work_sizes(options: &WorkOptions) -> Vec<String> {
    let sizes = options.args.iter().map(|(name, size)| format!("{name}={size}"));
    sizes.chain(described(&options.data)).chain(described(&options.result)).collect()
}

/// One alternative for each host: the routine there, with its data before and its results afterwards.
fn work(options: &WorkOptions, hosts: &[String]) -> anyhow::Result<Plan> {
    let results = named(&options.result)?;
    let mut data = named(&options.data)?;
    for (name, result) in &results {
        let made = Data { place: None, ..result.clone() };
        ensure!(
            data.insert(name.clone(), made).is_none(),
            "{name} is both data and a result: each needs a name of its own"
        );
    }
    let mut args = BTreeMap::new();
    for (name, size) in &options.args {
        ensure!(args.insert(name.clone(), Argument::Text(size.clone())).is_none(), "--args has {name} twice");
    }
    let run = |host: &String| Step {
        run: Some(options.name.clone()),
        on: Some(host.clone()),
        args: args.clone(),
        takes: options.data.iter().map(|(name, _)| name.clone()).collect(),
        gives: results.keys().cloned().collect(),
        ..Step::default()
    };
    let sent = || results.iter().filter_map(|(name, result)| Some(Step::sends(name, result.place.as_deref()?)));
    let alternative = |host: &String| {
        let steps = std::iter::once(run(host)).chain(sent()).collect();
        Alternative { name: host.clone(), steps }
    };
    let alternatives = hosts.iter().map(alternative).collect();
    Ok(Plan { transfers: transfers(options.in_turn), ..Plan::new(data, alternatives) })
}

/// The way from a question to its answer.
struct Way<'a> {
    asked: Asked,
    options: &'a GridOptions,
    kept: Kept,
    facts: Facts,
    source: Source,
}

impl<'a> Way<'a> {
    fn new(asked: Asked, options: &'a GridOptions, store: &Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(path) = &options.json {
            output::check_writable(path)?;
        }
        let kept = Kept::open(store.as_deref())?;
        let (facts, source) = known(options, &kept)?;
        Ok(Way { asked, options, kept, facts, source })
    }

    /// Asks, keeps and shows; the exit code.
    fn answer(mut self, plan: &Plan, (name, sizes): (String, Vec<String>)) -> anyhow::Result<u8> {
        if self.source == Source::Site {
            let terminal = Terminal::new()?;
            of_site(&mut self.facts, plan, self.options, &terminal)?;
            terminal.finish();
        }
        let answer = compare(plan, &self.facts, &Models::of(&self.kept)?)?;
        let shown = Shown { asked: self.asked, answer, source: self.source, made_unix_s: own::unix_s() };
        self.keep(&shown, name, sizes)?;
        match &self.options.json {
            Some(path) => output::write(path, &serde_json::to_string_pretty(&shown.json()?)?)?,
            None => output::print_text(&shown.page())?,
        }
        Ok(if shown.answer.chosen.is_some() { DONE } else { PARTIAL })
    }

    /// A forecast without an interval can't be judged, and is not kept.
    fn keep(&self, shown: &Shown, model: String, sizes: Vec<String>) -> anyhow::Result<()> {
        let Some(best) = shown.best() else { return Ok(()) };
        let Some((end, (lower, upper))) = best.end_s.and_then(|end| Some((end, end.ends()?))) else { return Ok(()) };
        self.kept.store().note_size_forecast(&SizeForecast {
            model,
            host: best.name.clone(),
            unit: "seconds".to_owned(),
            sizes,
            made_unix_s: shown.made_unix_s,
            value: end.value,
            lower,
            upper,
            outside: false,
            came: None,
        })?;
        Ok(())
    }
}
