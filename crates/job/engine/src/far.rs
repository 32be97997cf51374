//! One window of a job on many nodes: agents come, measure with us, and go.
//!
//! Next: `nodes` for what is asked of them; `window` for jobs on this machine.

use crate::Engine;
use crate::ends::Ends;
use crate::error::Error;
use crate::event::{Event, Stage, Told};
use crate::nodes::{FarCrew, Gathered, Hold, Nodes, Present};
use crate::script::{Probed, Script};
use crate::spread::Spread;
use crate::store::KnownJob;
use crate::undo::Undone;
use crate::window::{Fresh, RANKS_WAIT, Window};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use trimtab_measure::{Options, Outcome, WindowId, measure_with};
use trimtab_script::Probing;

/// Ranks named in a warning.
const RANKS_SHOWN_MAX: usize = 8;
/// How long ranks that have just begun may differ in what they have loaded, and between two looks.
const LOADING_MAX: Duration = Duration::from_secs(20);
const LOADING_LOOK: Duration = Duration::from_millis(50);

/// One window of a job, on all of its nodes.
pub(crate) fn window(engine: &Engine<'_>, spread: &Spread, window: &Window) -> Result<Fresh, Error> {
    let nodes = engine.nodes.ok_or_else(|| Error::NoWay { job: spread.name() })?;
    let is_interrupted = || engine.listener.is_interrupted();
    let options = &window.options;
    let seconds = options.first_call_s.filter(|_| window.agents_hold);
    let hold = seconds.map(|seconds| Hold { seconds, seccomp_ok: options.seccomp_ok });
    let mut agents = gather(engine, nodes, spread, (&options.trigger, hold), &is_interrupted)?;
    let absent = agents.absent();
    let mut crew = agents.crew(window.ranks_wait).map_err(Error::Nodes)?;
    let present = crew.present().clone();
    let known = KnownJob::spread(spread, &present);
    let options = Options { known_loop: engine.known_loop(&known.key)?, ..options.clone() };
    let outcome = measure(engine, &mut *crew, &options, window.just_begun);
    let troubles = crew.take_troubles();
    drop(crew);
    let said = agents.said();
    let mut outcome = outcome.map_err(|error| with_troubles(error, &troubles, &said))?;
    let next = match absent.is_empty() {
        false => format!("no agent looked for them on {}", absent.join(", ")),
        true if nodes.stand_by_for(spread) => {
            "the logs of the standing agents on the job's nodes may say more".to_owned()
        }
        true => spread.next_step(),
    };
    let unseen = unseen(&present, &next);
    let warnings = &mut outcome.report.warnings;
    if unseen.is_some() {
        outcome.report.window.valid = false;
        warnings.extend(agents.left_out().into_iter().take(RANKS_SHOWN_MAX));
    }
    warnings.extend(missing(&absent, &said).into_iter().chain(unseen).chain(troubles));
    Ok(Fresh { outcome, known, filing: agents.take_filing(), ends: Ends::default() })
}

/// Takes out what is left in all ranks of a job, on all of its nodes.
pub(crate) fn undo(engine: &Engine<'_>, spread: &Spread, seccomp_ok: bool) -> Result<Undone, Error> {
    let nodes = engine.nodes.ok_or_else(|| Error::NoWay { job: spread.name() })?;
    let is_interrupted = || engine.listener.is_interrupted();
    let mut agents = gather(engine, nodes, spread, ("undo", None), &is_interrupted)?;
    let absent = agents.absent();
    let nodes = agents.undo(RANKS_WAIT, seccomp_ok).map_err(Error::Nodes)?;
    Ok(Undone::Spread { absent, nodes })
}

/// Runs a script in all ranks of a job, on all of its nodes.
pub(crate) fn probe(engine: &Engine<'_>, spread: &Spread, script: &Script) -> Result<Probed, Error> {
    let nodes = engine.nodes.ok_or_else(|| Error::NoWay { job: spread.name() })?;
    let is_interrupted = || engine.listener.is_interrupted();
    let mut agents = gather(engine, nodes, spread, ("probe", None), &is_interrupted)?;
    let absent = agents.absent().join(", ");
    let mut crew = agents.crew(RANKS_WAIT).map_err(Error::Nodes)?;
    let present = crew.present().clone();
    let next = spread.next_step();
    if !absent.is_empty() {
        return Err(Error::Incomplete { said: format!("no agent came on {absent}: nothing was probed; {next}") });
    }
    if let Some(unseen) = unseen(&present, &next) {
        return Err(Error::Incomplete { said: format!("{unseen}; nothing was probed") });
    }
    let ranks: usize = present.values().map(|present| present.ranks.len()).sum();
    let size = present.values().find_map(|present| present.size).unwrap_or(ranks as u32);
    let probing = Probing::start(&mut *crew, script.start(Some(size)));
    // Nobody answers a question that was given up.
    if probing.is_err() && is_interrupted() {
        return Err(Error::GivenUp);
    }
    let probed =
        probing.map_err(Error::from).and_then(|probing| engine.until_over(probing, script.limit, Ends::default()));
    probed.map_err(|error| {
        let troubles: Vec<String> = crew.take_troubles().into_iter().filter(|text| !text.is_empty()).collect();
        if troubles.is_empty() {
            error
        } else {
            Error::Incomplete { said: format!("{}; {error}", troubles.join("; ")) }
        }
    })
}

fn gather<'a>(
    engine: &Engine<'_>,
    nodes: &'a dyn Nodes,
    spread: &Spread,
    (command, hold): (&str, Option<Hold>),
    is_interrupted: &'a dyn Fn() -> bool,
) -> Result<Box<dyn Gathered + 'a>, Error> {
    engine.listener.hear(&Event::Stage(Stage::gathering(nodes, spread)));
    let agents = nodes.gather(spread, command, hold, is_interrupted).map_err(Error::Nodes)?;
    if hold.is_some() {
        engine.listener.hear(&Event::Stage(Stage::Holding { nodes: agents.count(), of: spread.nodes().len() }));
    }
    Ok(agents)
}

fn measure(
    engine: &Engine<'_>,
    crew: &mut dyn FarCrew,
    options: &Options,
    just_begun: bool,
) -> Result<Outcome, trimtab_measure::Error> {
    let until = Instant::now() + if just_begun { LOADING_MAX } else { Duration::ZERO };
    let told = Told::to(engine.listener);
    loop {
        match measure_with(crew, window_id(), options, &told) {
            // One that has just begun may not have loaded the same libraries everywhere yet.
            Err(trimtab_measure::Error::NodesDiffer { .. }) if Instant::now() < until => {
                std::thread::sleep(LOADING_LOOK);
            }
            outcome => return outcome,
        }
    }
}

/// Nodes without an agent, and why; `None`: there is no such node.
fn missing(absent: &[String], said: &str) -> Option<String> {
    let whose = if absent.len() == 1 { "its" } else { "their" };
    let why = if said.is_empty() { String::new() } else { format!(" ({said})") };
    let nodes = absent.join(", ");
    (!absent.is_empty()).then(|| format!("no agent came on {nodes}: {whose} ranks were not measured{why}"))
}

/// Which ranks of the job no agent has, with what shows why; `None`: none, as far as their launcher tells.
fn unseen(present: &BTreeMap<usize, Present>, next_step: &str) -> Option<String> {
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
fn with_troubles(source: trimtab_measure::Error, troubles: &[String], said: &str) -> Error {
    let all: Vec<&str> = troubles.iter().map(String::as_str).chain([said]).filter(|text| !text.is_empty()).collect();
    if all.is_empty() { Error::Measure(source) } else { Error::Troubled { troubles: all.join("; "), source } }
}

/// Higher for each later window, on all nodes.
pub fn window_id() -> WindowId {
    WindowId((trimtab_os::unix_s() * 1e6) as u64)
}
