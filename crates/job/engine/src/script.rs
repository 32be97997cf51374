//! One script in the processes of a job, until it is over: told, taken out, read.
//!
//! Next: `trimtab-script` for how a script goes; `nodes` for scripts on many nodes.

use crate::audited::{Audited, Changed};
use crate::ends::Ends;
use crate::error::{BoxError, Error};
use crate::event::{Event, Partial, ScriptSoFar};
use crate::found::Found;
use crate::launch::when_ready;
use crate::{Engine, far};
use std::time::Duration;
use trimtab_measure::host_name;
use trimtab_script::{Message, Named, Options, Poll, Refusal, Running, Summary, Target};
use trimtab_track::{Job, RankProcess};
use trimtab_types::Pid;
use trimtab_types::context::Context;

/// A script as it is wanted.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its text, and what it may do.
    pub options: Options,
    /// The ranks that it is for.
    pub ranks: Context,
    /// It is taken out after so long, unless it says so earlier by itself.
    pub limit: Option<Duration>,
    /// The program may have just begun: what can't be done yet is tried again for a while.
    pub just_begun: bool,
}

/// Why a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptEnd {
    /// The listener wanted that.
    Interrupted,
    /// The script said so.
    Stop,
    /// The program has set a fault handler of its own, and the probes had to go.
    FaultHandler,
    /// No process runs any more.
    ProgramEnded,
    /// Its time was over.
    Time,
}

impl ScriptEnd {
    /// The word for a reader.
    pub fn word(self) -> &'static str {
        match self {
            ScriptEnd::Interrupted => "interrupted",
            ScriptEnd::Stop => "stop",
            ScriptEnd::FaultHandler => "fault handler",
            ScriptEnd::ProgramEnded => "program ended",
            ScriptEnd::Time => "time",
        }
    }
}

/// A script that ran; nothing of it is in any process any more.
#[derive(Debug)]
pub struct Probed {
    /// The reason for its end.
    pub ended_by: ScriptEnd,
    /// How long the probes were in.
    pub seconds: f64,
    /// Functions of the script.
    pub functions: usize,
    /// Those that could not be probed.
    pub refused: Vec<Refusal>,
    /// All its messages, which were told as they came.
    pub messages: Vec<Message>,
    /// Its variables.
    pub values: Vec<Named>,
    /// Its cost and its losses.
    pub summary: Summary,
    /// Processes that ended so that trimtab may have harmed them.
    pub ends: Ends,
}

/// The last words of a script.
#[derive(Debug)]
pub struct Left {
    /// Messages since the last look.
    pub messages: Vec<Message>,
    /// Its variables.
    pub values: Vec<Named>,
    /// Its cost and its losses.
    pub summary: Summary,
}

/// A script that is in processes, here or on many nodes; it is taken out with this.
pub trait Probing {
    /// Functions of the script, and those that can't be probed.
    fn refusals(&self) -> (usize, Vec<Refusal>);
    /// Places in libraries that are still to be loaded.
    fn awaited(&self) -> Vec<String>;
    /// How long the script wants to record.
    fn wanted(&self) -> Option<Duration>;
    /// Time since it is in.
    fn elapsed(&self) -> Duration;
    /// The news.
    ///
    /// # Errors
    /// Nobody answers.
    fn poll(&mut self) -> Result<Poll, BoxError>;
    /// Waits until it is worth looking again, so long at most.
    fn wait(&self, limit: Option<Duration>);
    /// Takes it out.
    ///
    /// # Errors
    /// Nobody answers.
    fn finish(self: Box<Self>) -> Result<Left, BoxError>;
}

impl Probing for Running {
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
    fn poll(&mut self) -> Result<Poll, BoxError> {
        Ok(Running::poll(self))
    }
    fn wait(&self, limit: Option<Duration>) {
        Running::wait(self, limit);
    }
    fn finish(self: Box<Self>) -> Result<Left, BoxError> {
        let (messages, values, summary) = Running::finish(*self);
        Ok(Left { messages, values, summary })
    }
}

impl Engine<'_> {
    /// Runs a script in the chosen ranks of a job until it ends. Whatever happens, it is taken out of every process that can
    /// be reached before this returns.
    ///
    /// # Errors
    /// It went into no process.
    pub fn probe(&self, found: &Found, script: &Script) -> Result<Probed, Error> {
        let probed = match found {
            Found::Here(job) => targets_of(job, &script.ranks).and_then(|targets| self.probe_here(&targets, script)),
            Found::Spread(spread) => far::probe(self, spread, script),
        };
        self.listener.hear(&Event::Done);
        probed
    }

    /// The same in one process, of a job or not.
    ///
    /// # Errors
    /// It did not go in.
    pub fn probe_process(&self, pid: Pid, script: &Script) -> Result<Probed, Error> {
        let probed = self.probe_here(&[Target { pid, rank: None, ranks: None }], script);
        self.listener.hear(&Event::Done);
        probed
    }

    fn probe_here(&self, targets: &[Target], script: &Script) -> Result<Probed, Error> {
        let pids: Vec<Pid> = targets.iter().map(|target| target.pid).collect();
        let mut change = Audited::begin(self.audit, "probe", Changed::Processes(&pids))?;
        let ends = Ends::watch(pids.into_iter());
        let start = || Running::start(targets, &script.options, self.cache);
        let running = if script.just_begun { when_ready(start, is_too_early) } else { start() };
        let probed = self.until_over(Box::new(running?), script.limit, ends);
        change.restored();
        probed
    }

    /// Reads until it is over, takes the probes out, and gives what they left.
    pub(crate) fn until_over(
        &self,
        mut probing: Box<dyn Probing + '_>,
        limit: Option<Duration>,
        ends: Ends,
    ) -> Result<Probed, Error> {
        let (functions, refused) = probing.refusals();
        let warn = |text: String| self.listener.hear(&Event::Warning(text));
        refused.iter().for_each(|one| warn(format!("not probed: {}: {}", one.function, one.reason)));
        probing.awaited().iter().for_each(|name| warn(format!("{name} waits until its library is loaded")));
        let limit = [limit, probing.wanted()].into_iter().flatten().min();
        let mut messages = Vec::new();
        let ended_by = loop {
            let poll = probing.poll().map_err(Error::Nodes)?;
            self.tell(&poll.messages);
            if let Some(ended_by) = self.end_of(&poll, limit.is_some_and(|limit| probing.elapsed() >= limit)) {
                messages.extend(poll.messages);
                break ended_by;
            }
            messages.extend(poll.messages);
            let (seconds, processes) = (probing.elapsed().as_secs_f64(), poll.alive);
            self.listener.hear(&Event::Partial(Partial::Script(ScriptSoFar { seconds, functions, processes })));
            probing.wait(limit.map(|limit| limit.saturating_sub(probing.elapsed())));
        };
        let seconds = probing.elapsed().as_secs_f64();
        let Left { messages: last, values, summary } = probing.finish().map_err(Error::Nodes)?;
        self.tell(&last);
        messages.extend(last);
        let ends = ends.with(summary.departed.clone());
        Ok(Probed { ended_by, seconds, functions, refused, messages, values, summary, ends })
    }

    fn tell(&self, messages: &[Message]) {
        messages.iter().for_each(|message| self.listener.hear(&Event::Message(message.clone())));
    }

    /// Why it is over now, if it is.
    fn end_of(&self, poll: &Poll, is_late: bool) -> Option<ScriptEnd> {
        [
            (self.listener.is_interrupted(), ScriptEnd::Interrupted),
            (poll.stopped, ScriptEnd::Stop),
            (poll.has_new_handler, ScriptEnd::FaultHandler),
            (poll.alive == 0, ScriptEnd::ProgramEnded),
            (is_late, ScriptEnd::Time),
        ]
        .into_iter()
        .find_map(|(is_over, ended_by)| is_over.then_some(ended_by))
    }
}

/// The chosen ranks of a job on this machine.
fn targets_of(job: &Job, ranks: &Context) -> Result<Vec<Target>, Error> {
    let chosen = job.within(ranks, &host_name());
    let target = |process: &RankProcess| Target { pid: process.pid, rank: Some(process.rank.0), ranks: chosen.size };
    let targets: Vec<Target> = chosen.ranks.iter().map(target).collect();
    match targets.is_empty() {
        true => Err(Error::NoRank { ranks: ranks.to_string(), last: job.ranks.len().saturating_sub(1) }),
        false => Ok(targets),
    }
}

/// The loader may still be at work for a moment in a program that has just been started.
fn is_too_early(error: &trimtab_script::Error) -> bool {
    matches!(error, trimtab_script::Error::Process { source, .. } if source.is_loading())
}
