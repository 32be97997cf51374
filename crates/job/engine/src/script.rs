//! One script in the processes of a job, until it is over: told, taken out, read.
//!
//! Next: `trimtab-script` for how a script goes; `nodes` for scripts on many nodes.

use crate::Engine;
use crate::audited::{Audited, Changed};
use crate::ends::Ends;
use crate::error::Error;
use crate::event::{Event, Partial, ScriptSoFar};
use std::time::Duration;
use trimtab_measure::{Here, host_name};
use trimtab_script::{
    Left, Message, Named, Poll, Probing, Refusal, ScriptNode, ScriptOptions, Start, Started, Summary, Target,
};
use trimtab_track::{Job, RankProcess};
use trimtab_types::Pid;
use trimtab_types::context::Context;

/// A script as it is wanted.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its text, and what it may do.
    pub options: ScriptOptions,
    /// The ranks that it is for.
    pub ranks: Context,
    /// It is taken out after so long, unless it says so earlier by itself.
    pub limit: Option<Duration>,
    /// The program may have just begun: what can't be done yet is tried again for a while.
    pub just_begun: bool,
}

/// How long a program that has just been started may be at loading.
const LOADING_MAX: Duration = Duration::from_secs(20);

impl Script {
    /// The same for the nodes of a job of so many ranks.
    pub(crate) fn start(&self, size: Option<u32>) -> Start {
        Start { options: self.options.clone(), ranks: self.ranks.clone(), size }
    }
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

impl Engine<'_> {
    /// Runs a script in one process, of a job or not, until it ends.
    ///
    /// # Errors
    /// It did not go in.
    pub fn probe_process(&self, pid: Pid, script: &Script) -> Result<Probed, Error> {
        let probed = self.probe_here(&[Target { pid, rank: None, ranks: None }], script);
        self.listener.hear(&Event::Done);
        probed
    }

    pub(crate) fn probe_here(&self, targets: &[Target], script: &Script) -> Result<Probed, Error> {
        let pids: Vec<Pid> = targets.iter().map(|target| target.pid).collect();
        let mut change = Audited::begin(self.audit, "probe", Changed::Processes(&pids))?;
        let ends = Ends::watch(pids.into_iter());
        let patience = if script.just_begun { LOADING_MAX } else { Duration::ZERO };
        let mut crew = Here { node: ScriptNode::new(0, targets.to_vec(), self.cache).with_patience(patience) };
        let size = targets.first().and_then(|target| target.ranks);
        let probed = self.until_over(Probing::start(&mut crew, script.start(size))?, script.limit, ends);
        change.restored();
        probed
    }

    /// Reads until it is over, takes the probes out, and gives what they left.
    pub(crate) fn until_over(
        &self,
        mut probing: Probing<'_>,
        limit: Option<Duration>,
        ends: Ends,
    ) -> Result<Probed, Error> {
        let Started { functions, refused, awaited, wanted, .. } = probing.started();
        let warn = |text: String| self.listener.hear(&Event::Warning(text));
        refused.iter().for_each(|one| warn(format!("not probed: {}: {}", one.function, one.reason)));
        awaited.iter().for_each(|name| warn(format!("{name} waits until its library is loaded")));
        let limit = [limit, wanted].into_iter().flatten().min();
        let mut messages = Vec::new();
        let ended_by = loop {
            let poll = probing.poll()?;
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
        let Left { messages: last, values, summary } = probing.finish()?;
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
pub(crate) fn targets_of(job: &Job, ranks: &Context) -> Result<Vec<Target>, Error> {
    let chosen = job.within(ranks, &host_name());
    let target = |process: &RankProcess| Target { pid: process.pid, rank: Some(process.rank.0), ranks: chosen.size };
    let targets: Vec<Target> = chosen.ranks.iter().map(target).collect();
    match targets.is_empty() {
        true => Err(Error::NoRank { ranks: ranks.to_string(), last: job.ranks.len().saturating_sub(1) }),
        false => Ok(targets),
    }
}
