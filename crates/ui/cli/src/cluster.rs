//! A job of many nodes: agents are started on them, measure with us, and go.
//!
//! Next: `trimtab-agent`, which does it; `window` for jobs on this machine.

use crate::arguments::WindowOptions;
use crate::progress::Terminal;
use crate::window::{Known, check_files, keep_and_show, window_options};
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;
use trimtab_agent::start::Starter;
use trimtab_agent::{Lead, Present, Remote, Whose};
use trimtab_measure::{Outcome, WindowId, measure_with};
use trimtab_store::{Process, Store};
use trimtab_track::slurm::RunningJob;
use trimtab_types::{Pid, Rank};

/// What a stored job's key begins with if Slurm runs it; its id follows.
pub const SLURM_KEY: &str = "slurm ";

/// How long ranks may take to appear on nodes whose agents are there.
const RANKS_WAIT: Duration = Duration::from_secs(20);

/// `trimtab agent --ticket -`.
pub fn agent(ticket: &std::path::Path) -> anyhow::Result<u8> {
    let mut from: Box<dyn Read> = match ticket == std::path::Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(std::fs::File::open(ticket).with_context(|| format!("can't read {}", ticket.display()))?),
    };
    trimtab_agent::serve(&mut from)?;
    Ok(crate::DONE)
}

/// One window of a Slurm job, on all of its nodes.
pub fn one_window(
    options: &WindowOptions,
    running: &RunningJob,
    store: &Option<PathBuf>,
    (command_ns, wait): (u64, Option<Duration>),
    trigger: &str,
) -> anyhow::Result<u8> {
    if options.dry_run {
        bail!("--dry-run shows the plan of one node: run `trimtab attach --dry-run PID` there, with the PID of a rank");
    }
    let window = window_options(options, trigger, command_ns)?;
    let mut kept = Store::open(store.as_deref())?;
    check_files(options)?;
    let terminal = Terminal::new()?;
    terminal.say(format!("starting agents on {} nodes of job {}", running.nodes.len(), running.id));
    let measured = measure(running, &window, &terminal, (trigger, wait.unwrap_or(RANKS_WAIT)));
    terminal.finish();
    let (outcome, present) = measured?;
    keep_and_show(&mut kept, &known(running, &present), outcome, options, false)
}

fn measure(
    running: &RunningJob,
    window: &trimtab_measure::Options,
    terminal: &Terminal,
    (command, wait): (&str, Duration),
) -> anyhow::Result<(Outcome, BTreeMap<usize, Present>)> {
    let job = running.parts.first().context("Slurm named no part of the job")?.job;
    let is_interrupted = || terminal.is_interrupted();
    let whose = Whose::from(&running.run);
    let mut lead = Lead::begin(&running.nodes, whose, &Starter::Srun { job }, command, &is_interrupted)?;
    let absent: Vec<String> = lead.absent().into_iter().map(str::to_owned).collect();
    let mut remote = Remote::muster(&mut lead, wait)?;
    let present = remote.present().clone();
    let outcome = measure_with(&mut remote, window_id(), window, terminal);
    let troubles = std::mem::take(&mut remote.troubles);
    let said = lead.said();
    let mut outcome = outcome.map_err(|error| with_troubles(error, &troubles, &said))?;
    let missing = absent.iter().map(|node| format!("no agent came on {node}: its ranks were not measured"));
    outcome.report.warnings.extend(missing.chain(troubles));
    Ok((outcome, present))
}

/// A measurement's error with what went wrong on the way.
fn with_troubles(error: trimtab_measure::Error, troubles: &[String], said: &str) -> anyhow::Error {
    let all: Vec<&str> = troubles.iter().map(String::as_str).chain([said]).filter(|text| !text.is_empty()).collect();
    let error = anyhow::Error::from(error);
    if all.is_empty() { error } else { error.context(all.join("; ")) }
}

/// Higher for each later window, on all nodes.
fn window_id() -> WindowId {
    WindowId((trimtab_os::unix_s() * 1e6) as u64)
}

fn known(running: &RunningJob, present: &BTreeMap<usize, Present>) -> Known {
    let first = present.values().next().map_or("", |present| &present.key);
    let of_node = |present: &Present| {
        let host = present.host.clone();
        let process = move |rank: &trimtab_agent::talk::PresentRank| Process {
            rank: Rank(rank.rank),
            pid: Pid(rank.pid),
            host: host.clone(),
            start_ticks: rank.start_ticks,
        };
        present.ranks.iter().map(process).collect::<Vec<_>>()
    };
    Known {
        key: format!("{SLURM_KEY}{} {} {first}", running.id, running.run.restarts),
        processes: present.values().flat_map(of_node).collect(),
    }
}
