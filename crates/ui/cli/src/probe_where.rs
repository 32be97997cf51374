//! Where a script runs: in processes of this machine, or through agents in a job on many nodes.
//!
//! Next: `probe`, which watches either in the same way.

use crate::arguments::ProbeOptions;
use crate::engine::change;
use crate::progress::Terminal;
use crate::{departed, probe};
use anyhow::bail;
use std::time::Duration;
use trimtab_agent::script::Start;
use trimtab_agent::script::lead::Probing;
use trimtab_agent::{Lead, Ways};
use trimtab_engine::{Ends, Event, Found, Listener, RANKS_WAIT, Spread, Stage, unseen, when_ready};
use trimtab_measure::host_name;
use trimtab_script::{Error, Message, Named, Options, Poll, Refusal, Running, Summary, Target};
use trimtab_session::ImageCache;
use trimtab_track::{Job, RankProcess};
use trimtab_types::Pid;
use trimtab_types::context::Context;

/// Between two questions to agents.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A script that runs somewhere.
pub trait Probed {
    /// Functions of the script, and those that can't be probed.
    fn refusals(&self) -> (usize, Vec<Refusal>);
    /// Places in libraries that are still to be loaded.
    fn awaited(&self) -> Vec<String>;
    /// How long the script wants to record.
    fn wanted(&self) -> Option<Duration>;
    /// Time since it is in.
    fn elapsed(&self) -> Duration;
    /// The news.
    fn poll(&mut self) -> anyhow::Result<Poll>;
    /// Waits until it is worth looking again, so long at most.
    fn wait(&self, limit: Option<Duration>);
    /// Takes it out; what it left.
    fn finish(self) -> anyhow::Result<(Vec<Message>, Vec<Named>, Summary)>;
}

impl Probed for Running {
    fn refusals(&self) -> (usize, Vec<Refusal>) {
        Running::refusals(self)
    }
    fn awaited(&self) -> Vec<String> {
        Running::awaited(self)
    }
    fn wanted(&self) -> Option<Duration> {
        Running::wanted(self)
    }
    fn elapsed(&self) -> Duration {
        Running::elapsed(self)
    }
    fn poll(&mut self) -> anyhow::Result<Poll> {
        Ok(Running::poll(self))
    }
    fn wait(&self, limit: Option<Duration>) {
        Running::wait(self, limit);
    }
    fn finish(self) -> anyhow::Result<(Vec<Message>, Vec<Named>, Summary)> {
        Ok(Running::finish(self))
    }
}

impl Probed for Probing<'_, '_> {
    fn refusals(&self) -> (usize, Vec<Refusal>) {
        Probing::refusals(self)
    }
    fn awaited(&self) -> Vec<String> {
        Probing::awaited(self)
    }
    fn wanted(&self) -> Option<Duration> {
        Probing::wanted(self)
    }
    fn elapsed(&self) -> Duration {
        Probing::elapsed(self)
    }
    fn poll(&mut self) -> anyhow::Result<Poll> {
        Ok(Probing::poll(self)?)
    }
    fn wait(&self, limit: Option<Duration>) {
        if !self.has_more() {
            std::thread::sleep(limit.map_or(ASK_EVERY, |limit| limit.min(ASK_EVERY)));
        }
    }
    fn finish(self) -> anyhow::Result<(Vec<Message>, Vec<Named>, Summary)> {
        Ok(Probing::finish(self)?)
    }
}

/// Runs a script in the chosen ranks of a job.
pub fn run(found: &Found, script: &Options, options: &ProbeOptions, may_be_loading: bool) -> anyhow::Result<u8> {
    match found {
        Found::Here(job) => here(&targets_of(job, &options.ranks)?, script, options, may_be_loading),
        Found::Spread(spread) => everywhere(spread, script, options),
    }
}

/// Runs it in one process that is no MPI program.
pub fn plain(pid: Pid, script: &Options, options: &ProbeOptions, may_be_loading: bool) -> anyhow::Result<u8> {
    here(&[Target { pid, rank: None, ranks: None }], script, options, may_be_loading)
}

fn here(targets: &[Target], script: &Options, options: &ProbeOptions, may_be_loading: bool) -> anyhow::Result<u8> {
    let pids: Vec<Pid> = targets.iter().map(|target| target.pid).collect();
    let mut change = change("probe", &pids)?;
    let ends = Ends::watch(pids.into_iter());
    let start = || Running::start(targets, script, &ImageCache::of_user());
    let running = if may_be_loading { when_ready(start, is_too_early) } else { start() };
    let running = running.map_err(|error| probe::said(error, &script.text))?;
    let watched = probe::watch(running, options, &Terminal::new()?);
    change.restored();
    let (code, departed) = watched?;
    Ok(departed::told(&ends.with(departed), code))
}

fn everywhere(spread: &Spread, script: &Options, options: &ProbeOptions) -> anyhow::Result<u8> {
    let terminal = Terminal::new()?;
    let is_interrupted = || terminal.is_interrupted();
    let ways = Ways::default();
    terminal.hear(&Event::Stage(Stage::gathering(&ways, spread)));
    let mut lead = Lead::to(spread, &ways, ("probe", None), &is_interrupted)?;
    let absent = lead.absent().join(", ");
    let present = lead.muster(RANKS_WAIT)?;
    // A script that lacks ranks would sum up something else than was asked for.
    if !absent.is_empty() {
        bail!("no agent came on {absent}: nothing was probed; {}", spread.next_step());
    }
    if let Some(unseen) = unseen(&present, &spread.next_step()) {
        bail!("{unseen}; nothing was probed");
    }
    let ranks: usize = present.values().map(|present| present.ranks.len()).sum();
    let start = Start {
        text: script.text.clone(),
        may_write: script.permissions.write,
        may_call: script.permissions.call,
        seccomp_ok: script.seccomp_ok,
        ranks: options.ranks.to_string(),
        size: present.values().find_map(|present| present.size).unwrap_or(ranks as u32),
    };
    let probing = Probing::start(&mut lead, &present, start)?;
    let (code, departed) = probe::watch(probing, options, &terminal)?;
    Ok(departed::told(&Ends::default().with(departed), code))
}

/// The chosen ranks of a job on this machine.
fn targets_of(job: &Job, ranks: &Context) -> anyhow::Result<Vec<Target>> {
    let chosen = job.within(ranks, &host_name());
    let target = |process: &RankProcess| Target { pid: process.pid, rank: Some(process.rank.0), ranks: chosen.size };
    let targets: Vec<Target> = chosen.ranks.iter().map(target).collect();
    if targets.is_empty() {
        bail!("no rank of the job is in `{ranks}`; it has ranks 0 to {} here", job.ranks.len().saturating_sub(1));
    }
    Ok(targets)
}

/// The loader may still be at work for a moment in a program that has just been started.
fn is_too_early(error: &Error) -> bool {
    matches!(error, Error::Process { source, .. } if source.is_loading())
}
