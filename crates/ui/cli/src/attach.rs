//! `attach` and `measure`: a job is found, and measured at once or after events.
//!
//! Next: `window` for one window, `waiting` for several.

use crate::arguments::site::SiteOptions;
use crate::arguments::{EventOptions, WindowOptions};
use crate::engine::Parts;
use crate::waiting;
use crate::window::window_of;
use anyhow::{Context, bail};
use std::path::PathBuf;
use std::time::Duration;
use trimtab_engine::{Engine, Found, Nobody, Target, runs_since};
use trimtab_store::{Process, Store};

/// `trimtab attach PID`.
pub fn attach(
    options: &WindowOptions,
    events: &EventOptions,
    target: Option<Target>,
    wait_s: Option<f64>,
    site: &SiteOptions,
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    let target = target.context("give a process id, or --slurm JOB")?;
    if site.controller.is_some() && matches!(target, Target::Process(_)) && !events.wants_api() {
        bail!("a controller is asked for jobs, not for processes: give --slurm JOB");
    }
    let wait = wait_s.map(Duration::from_secs_f64);
    let found = Parts::of(Some(site)).engine(&Nobody, None).find(target, wait)?;
    if !events.is_plain() {
        return waiting::run(options, events, &found, site, store, "attach");
    }
    window_of(options, &found, site, store, command_ns, "attach", wait)
}

/// `trimtab measure JOB`.
pub fn measure_again(
    options: &WindowOptions,
    events: &EventOptions,
    text: &str,
    site: &SiteOptions,
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    let known = Store::open_to_show(store.as_deref())?;
    let parts = Parts::of(Some(site));
    let found = found_again(&parts.engine(&Nobody, None), &known, text)?;
    drop(known);
    measure_found(options, events, &found, site, store, command_ns)
}

/// A job of the store that runs.
pub fn found_again(engine: &Engine<'_>, known: &Store, text: &str) -> anyhow::Result<Found> {
    let selection = known.find(text)?;
    if let Some(target) = Target::of_key(&selection.job.key) {
        return Ok(engine.look(target?)?);
    }
    let processes = known.processes(&selection.job.id)?;
    let runs = |process: &&Process| runs_since(process.pid, process.start_ticks);
    let Some(process) = processes.iter().find(runs) else {
        bail!(
            "job {} has ended; start it again and use `trimtab attach`, or see `trimtab report {text}`",
            selection.job.id
        );
    };
    Ok(engine.look_here(process.pid)?)
}

fn measure_found(
    options: &WindowOptions,
    events: &EventOptions,
    found: &Found,
    site: &SiteOptions,
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    if !events.is_plain() {
        return waiting::run(options, events, found, site, store, "measure");
    }
    window_of(options, found, site, store, command_ns, "measure", None)
}
