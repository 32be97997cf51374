//! A job of many nodes: agents are started on them, measure with us, and go.
//!
//! Next: `trimtab-agent`, which does it; `window` for jobs on this machine.

use crate::arguments::WindowOptions;
use crate::arguments::site::SiteOptions;
use crate::progress::Terminal;
use crate::window::{Known, keep_and_show, known_loop, window_options};
use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::time::{Duration, Instant};
use trimtab_agent::start::Starter;
use trimtab_agent::{Hold, Lead, Present, Remote, SiteWindow, Whose};
use trimtab_engine::Spread;
use trimtab_measure::{Error, Outcome, WindowId, measure_with};
use trimtab_session::Departures;
use trimtab_store::{Process, Store};
use trimtab_types::report::LoopPlace;
use trimtab_types::{Pid, Rank};

/// Ranks named in a warning.
const RANKS_SHOWN_MAX: usize = 8;
/// How long ranks may take to appear on nodes whose agents are there.
pub const RANKS_WAIT: Duration = Duration::from_secs(20);

/// How long ranks that have just begun may differ in what they have loaded, and between two looks.
const LOADING_MAX: Duration = Duration::from_secs(20);
const LOADING_LOOK: Duration = Duration::from_millis(50);

/// `trimtab agent --ticket -`; `place` is its own among the ticket's.
pub fn agent(ticket: &std::path::Path, place: Option<usize>) -> anyhow::Result<u8> {
    let mut from: Box<dyn Read> = match ticket == std::path::Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(std::fs::File::open(ticket).with_context(|| format!("can't read {}", ticket.display()))?),
    };
    trimtab_agent::serve(&mut from, place)?;
    Ok(crate::DONE)
}

/// A window as the user asked for it.
pub struct Asked<'a> {
    /// How to measure.
    pub options: &'a WindowOptions,
    /// When the command began.
    pub command_ns: u64,
    /// The command.
    pub trigger: &'a str,
    /// How long ranks may take to appear, if the user said so.
    pub wait: Option<Duration>,
    /// Standard output belongs to the program.
    pub beside_program: bool,
    /// Through whom, where a site's agents may be asked.
    pub site: Option<&'a SiteOptions>,
}

/// The loop of an earlier window of a job, by which of its processes are present on each node.
type LoopOfEarlier<'a> = dyn Fn(&BTreeMap<usize, Present>) -> anyhow::Result<Option<LoopPlace>> + 'a;

/// One window of a job, on all of its nodes.
pub fn one_window(asked: &Asked<'_>, spread: &Spread, kept: &mut Store) -> anyhow::Result<u8> {
    if asked.options.dry_run {
        bail!("--dry-run shows the plan of one node: run `trimtab attach --dry-run PID` there, with the PID of a rank");
    }
    let window = window_options(asked.options, asked.trigger, asked.command_ns)?;
    let terminal = Terminal::new()?;
    let starter = Starter::of(spread, asked.site.and_then(SiteOptions::way).as_ref())?;
    let is_new = asked.beside_program || asked.wait.is_some();
    let wait = asked.wait.unwrap_or(RANKS_WAIT);
    let known_loop = |present: &_| known_loop(kept, &known(spread, present).key);
    let hold = window.first_call_s.filter(|_| asked.options.agents_hold);
    let hold = hold.map(|seconds| Hold { seconds, seccomp_ok: window.seccomp_ok });
    let measured = measure(spread, &starter, window, &terminal, (asked.trigger, hold, wait, is_new), &known_loop);
    terminal.finish();
    let (outcome, present, site) = measured?;
    keep_and_show(
        kept,
        &known(spread, &present),
        outcome,
        asked.options,
        asked.beside_program,
        site,
        &Departures::default(),
    )
}

/// Starts agents on all nodes of a job, or has them started.
pub fn lead<'a>(
    spread: &Spread,
    starter: &Starter,
    terminal: &Terminal,
    command: &str,
    is_interrupted: &'a dyn Fn() -> bool,
) -> anyhow::Result<Lead<'a>> {
    lead_with(spread, starter, terminal, (command, None), is_interrupted)
}

fn lead_with<'a>(
    spread: &Spread,
    starter: &Starter,
    terminal: &Terminal,
    (command, hold): (&str, Option<Hold>),
    is_interrupted: &'a dyn Fn() -> bool,
) -> anyhow::Result<Lead<'a>> {
    let by = if matches!(starter, Starter::Site { .. }) { "asking the site's agents" } else { "starting agents" };
    let nodes = spread.nodes();
    terminal.say(format!("{by} on {} nodes of {}", nodes.len(), spread.name()));
    let lead = Lead::begin(&nodes, Whose::from(spread), starter, (command, hold), is_interrupted)?;
    if hold.is_some() {
        let count = lead.agents().len();
        eprintln!("trimtab: {count} of {} nodes are looked at: ranks are held that begin MPI from now on", nodes.len());
    }
    Ok(lead)
}

fn measure(
    spread: &Spread,
    starter: &Starter,
    mut window: trimtab_measure::Options,
    terminal: &Terminal,
    (command, hold, wait, is_new): (&str, Option<Hold>, Duration, bool),
    known_loop: &LoopOfEarlier<'_>,
) -> anyhow::Result<(Outcome, BTreeMap<usize, Present>, Option<SiteWindow>)> {
    let is_interrupted = || terminal.is_interrupted();
    let mut lead = lead_with(spread, starter, terminal, (command, hold), &is_interrupted)?;
    let absent: Vec<String> = lead.absent().into_iter().map(str::to_owned).collect();
    let mut remote = Remote::muster(&mut lead, wait)?;
    let present = remote.present().clone();
    window.known_loop = known_loop(&present)?.map(Box::new);
    let until = Instant::now() + if is_new { LOADING_MAX } else { Duration::ZERO };
    let outcome = loop {
        match measure_with(&mut remote, window_id(), &window, terminal) {
            // One that has just begun may not have loaded the same libraries everywhere yet.
            Err(Error::NodesDiffer { .. }) if Instant::now() < until => std::thread::sleep(LOADING_LOOK),
            outcome => break outcome,
        }
    };
    let troubles = std::mem::take(&mut remote.troubles);
    let said = lead.said();
    let mut outcome = outcome.map_err(|error| with_troubles(error, &troubles, &said))?;
    let missing = missing(&absent, &said);
    let next = match starter {
        _ if !absent.is_empty() => format!("no agent looked for them on {}", absent.join(", ")),
        Starter::Site { .. } => "the logs of the standing agents on the job's nodes may say more".to_owned(),
        _ => spread.next_step(),
    };
    let unseen = unseen(&present, &next);
    if unseen.is_some() {
        outcome.report.window.valid = false;
        outcome.report.warnings.extend(lead.left_out().iter().take(RANKS_SHOWN_MAX).cloned());
    }
    outcome.report.warnings.extend(missing.into_iter().chain(unseen).chain(troubles));
    Ok((outcome, present, lead.take_site_window()))
}

/// Nodes without an agent, and why; `None`: there is no such node.
fn missing(absent: &[String], said: &str) -> Option<String> {
    let whose = if absent.len() == 1 { "its" } else { "their" };
    let why = if said.is_empty() { String::new() } else { format!(" ({said})") };
    let nodes = absent.join(", ");
    (!absent.is_empty()).then(|| format!("no agent came on {nodes}: {whose} ranks were not measured{why}"))
}

/// Which ranks of the job no agent has, with what shows why; `None`: none, as far as their launcher tells.
pub fn unseen(present: &BTreeMap<usize, Present>, next_step: &str) -> Option<String> {
    let size = present.values().find_map(|present| present.size)?;
    let seen: BTreeSet<u32> = present.values().flat_map(|present| present.ranks.iter().map(|rank| rank.rank)).collect();
    let missing: Vec<u32> = (0..size).filter(|rank| !seen.contains(rank)).collect();
    let shown: Vec<String> = missing.iter().take(RANKS_SHOWN_MAX).map(u32::to_string).collect();
    let more = if missing.len() > RANKS_SHOWN_MAX { " ..." } else { "" };
    (!missing.is_empty()).then(|| {
        format!(
            "{} of the job's {size} ranks were found on no node: {}{more}; {}",
            missing.len(),
            shown.join(", "),
            next_step
        )
    })
}

/// A measurement's error with what went wrong on the way.
fn with_troubles(error: trimtab_measure::Error, troubles: &[String], said: &str) -> anyhow::Error {
    let all: Vec<&str> = troubles.iter().map(String::as_str).chain([said]).filter(|text| !text.is_empty()).collect();
    let error = anyhow::Error::from(error);
    if all.is_empty() { error } else { error.context(all.join("; ")) }
}

/// Higher for each later window, on all nodes.
pub fn window_id() -> WindowId {
    WindowId((trimtab_os::unix_s() * 1e6) as u64)
}

fn known(spread: &Spread, present: &BTreeMap<usize, Present>) -> Known {
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
        key: format!("{}{} {first}", spread.key(), spread.restarts()),
        processes: present.values().flat_map(of_node).collect(),
    }
}
