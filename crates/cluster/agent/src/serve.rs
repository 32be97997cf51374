//! An agent: joins the tree, finds its ranks, does what a window asks, and goes.
//!
//! It has one thread of its own and one for the node of the tree; what it is asked is done in order. It ends when the
//! lead says so, when it is asked to by a signal, or when nobody was heard of for a while.
//!
//! Next: `talk` for what is asked, `trimtab_measure::WindowNode` for what is done.

use crate::contribute::{contribute, encoded};
use crate::error::Error;
use crate::exchange::{ANSWER_BYTES_MAX, Keeper, NOTHING};
use crate::facts::KnownFiles;
use crate::found::{asked_to_end, find};
use crate::guard::Guard;
use crate::holds::{Holds, Lines};
use crate::inbox::{Inbox, News};
use crate::log::{Log, LoggedChange};
use crate::parts::{self, Carried, Parts};
use crate::talk::{Ask, MachineNow, Piece, Present, PresentRank, Question, Say};
use crate::ticket::{AgentsFor, Ticket, node_of};
use crate::undo;
use crate::values::{self, Values, Variable};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use trimtab_engine::{BoxError, Changed, End};
use trimtab_link::blocking::Blocking;
use trimtab_link::{Config, Credentials, JobSecret, incarnation_now};
use trimtab_measure::{Asked, Command, FailedKind, Options, Request, WindowNode, host_name, wanted_files};
use trimtab_neighbours::{Machine, OtherJobs, Own};
use trimtab_overlay::{Setup, Timing, Told};
use trimtab_reduce::{Filter, FilterSpec, RankSet};
use trimtab_script::{self as script, Envelope, Failed, Start, Target};
use trimtab_session::ImageCache;
use trimtab_track::{Job, ProcFs, RankProcess};
use trimtab_types::{Pid, Rank, notice, one_line};

/// Time between two looks at signals and the clock.
const LOOK: Duration = Duration::from_millis(200);
/// A lead that asks for ranks hears so soon at the latest that they are still looked for.
const LOOKING_MAX: Duration = Duration::from_secs(1);
/// An agent that no parent would have for so long ends.
const ALONE_MAX: Duration = Duration::from_secs(15);
/// How long ranks may be at loading when probes are to go in.
const LOADING_MAX: Duration = Duration::from_secs(20);
/// Messages of a script that wait until the lead asks.
const MESSAGES_MAX: usize = 65_536;
/// How long after an agent was asked to end its ranks may take to end as well, as they do where their job ends; and how
/// long it then waits to be asked what it knows of them. A batch system kills what does not end in some seconds.
const ENDING_MAX: Duration = Duration::from_millis(500);
const LAST_WORDS_MAX: Duration = Duration::from_secs(4);
/// After it said that it ends, its word must still leave the host.
const BYE: Duration = Duration::from_millis(300);

/// Runs an agent whose ticket comes from `ticket`, until it is not needed any more. `place` is its own among the ticket's;
/// without one it is told by this host's name. Its changes stand in `log`.
///
/// # Errors
/// A ticket that can't be used, or a tree that can't begin; afterwards only the lead is told what goes wrong.
pub fn serve(ticket: &mut impl Read, place: Option<usize>, log: Log) -> Result<(), Error> {
    let (secret, ticket) = Ticket::read(ticket)?;
    let index = ticket.place_of(place, &own_names())?;
    let asked_to_end = asked_to_end()?;
    // Whoever is told that this agent has come may start the program.
    let guard = ticket.hold.and_then(|_| guard_of(&ticket.command));
    let holds = Holds::begin(&ticket, guard.clone(), log);
    // While the agents of other nodes are still on their way.
    let looking = begin_looking(&ticket.whose);
    let link = join(&ticket, &secret, index)?;
    let cache = ImageCache::of_user();
    let inbox = Inbox::of(&link);
    let is_given_up = || asked_to_end.load(Ordering::Relaxed) || inbox.gives_up();
    let agent = Agent::new((&ticket, log), index, (&inbox, &is_given_up), &cache, looking);
    let mut agent = Agent { guard, holds, ..agent };
    agent.attend(&asked_to_end)?;
    agent.abandon("the agent ended");
    if let Some(guard) = agent.guard.take() {
        guard.dismiss();
    }
    Ok(())
}

/// Probes go in without a guard too: then a killed agent's stay until somebody takes them out.
fn guard_of(command: &str) -> Option<Arc<Guard>> {
    let started = Guard::start(command);
    let told = started.map_err(|error| notice(&format!("no process stands by in case this one is killed: {error}")));
    told.ok().map(Arc::new)
}

/// A batch system ends agents together with their job. All that was recorded until then is still asked for, and nothing is
/// in any process by then. An answer may have to go in pieces and through other agents: it has arrived when the lead says
/// that nothing more is wanted.
#[derive(Default)]
struct LastWords {
    asked_to_end: Option<Instant>,
}

impl LastWords {
    fn are_due(&mut self, agent: &Agent<'_>) -> bool {
        let elapsed = self.asked_to_end.get_or_insert_with(Instant::now).elapsed();
        let limit = if agent.is_any_rank_alive() { ENDING_MAX } else { LAST_WORDS_MAX };
        agent.is_measuring() && elapsed < limit
    }
}

/// The names of this host: the batch system's, and its own.
fn own_names() -> Vec<String> {
    let own = host_name();
    let short = own.split('.').next().unwrap_or(&own).to_owned();
    let mut names: Vec<String> = std::env::var("SLURMD_NODENAME").into_iter().chain([own, short]).collect();
    names.dedup();
    names
}

pub(crate) fn join(ticket: &Ticket, secret: &JobSecret, index: usize) -> Result<Blocking, Error> {
    let id = node_of(index);
    let credentials = Arc::new(Credentials::of_job(secret, id)?);
    let (ancestors, contacts): (Vec<_>, Vec<_>) = ticket.ancestors(index).into_iter().unzip();
    let config = || Config {
        setup: Setup {
            id,
            incarnation: incarnation_now(),
            ancestors: ancestors.clone(),
            ranks: RankSet::one(Rank(index as u32)),
            timing: Timing::default(),
            registry: Arc::new(values::registry()),
        },
        tree: ticket.tree,
        listener: None,
        contacts: contacts.clone(),
        credentials: Some(credentials.clone()),
    };
    let listen = ticket.has_children(index).then(|| ticket.listens_at(index));
    match Blocking::start(config(), listen.clone()) {
        // Somebody else has that port; those below find a parent further up.
        Err(_) if listen.is_some() => Ok(Blocking::start(config(), None)?),
        started => Ok(started?),
    }
}

/// An agent and what it knows.
struct Agent<'a> {
    ticket: &'a Ticket,
    log: Log,
    index: usize,
    inbox: &'a Inbox<'a>,
    /// Nobody waits for what it is doing.
    is_given_up: &'a dyn Fn() -> bool,
    cache: &'a ImageCache,
    /// Its part of the job, once it was found.
    ranks: Option<Ranks<'a>>,
    scripts: script::ScriptNode<'a>,
    /// Takes out what is in if this program is killed; from the first probe on.
    guard: Option<Arc<Guard>>,
    /// Ranks that are held before the lead has asked for them.
    holds: Option<Holds>,
    /// The lines in the log for those.
    held_lines: Lines,
    /// The part of the last answer that has not gone yet.
    keeper: Keeper,
    known_files: KnownFiles,
    /// The streams that merge, and what.
    merging: BTreeMap<u32, Merging>,
    alone_since: Option<Instant>,
    /// Since when somebody looks for the job's ranks, while that goes on.
    looking: Option<Looking>,
}

/// Since when, and what comes of it.
type Looking = (Instant, Receiver<Result<Job, Refused>>);

/// A stream's way to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merging {
    /// Counts of scripts.
    Variables,
    /// Figures of a window.
    Parts,
}

impl Merging {
    fn of(filter: &FilterSpec) -> Option<Merging> {
        let known = [(values::filter(), Merging::Variables), (parts::filter(), Merging::Parts)];
        known.into_iter().find(|(of, _)| of == filter).map(|(_, merging)| merging)
    }
}

/// The ranks of the job on this host.
struct Ranks<'a> {
    node: WindowNode<'a>,
    job: Job,
    present: Present,
    audit: Box<dyn LoggedChange>,
    /// Other jobs on this host, for whoever waits for one.
    others: OtherJobs,
    /// Ranks are held behind `MPI_Init`, or were.
    gathers: bool,
    /// The log of a script, which may be in some of the ranks only.
    script_audit: Option<Box<dyn LoggedChange>>,
}

/// Why there is no answer, and whether there may be one a moment later.
type Refused = (String, bool);

/// The log's reason, which stays.
fn refused(error: &BoxError) -> Refused {
    (one_line(&**error), false)
}

impl<'a> Agent<'a> {
    fn new(
        (ticket, log): (&'a Ticket, Log),
        index: usize,
        (inbox, is_given_up): (&'a Inbox<'a>, &'a dyn Fn() -> bool),
        cache: &'a ImageCache,
        looking: Looking,
    ) -> Self {
        Agent {
            ticket,
            log,
            index,
            inbox,
            is_given_up,
            cache,
            ranks: None,
            scripts: script::ScriptNode::new(index as u32, Vec::new(), cache),
            guard: None,
            holds: None,
            held_lines: Lines::default(),
            keeper: Keeper::default(),
            known_files: KnownFiles::default(),
            merging: BTreeMap::new(),
            alone_since: Some(Instant::now()),
            looking: Some(looking),
        }
    }

    /// Does what it is told until it is to end.
    fn attend(&mut self, asked_to_end: &AtomicBool) -> Result<(), Error> {
        let mut last_words = LastWords::default();
        while self.alone_since.is_none_or(|since| since.elapsed() < ALONE_MAX) {
            if asked_to_end.load(Ordering::Relaxed) && !last_words.are_due(self) {
                break;
            }
            let look = self.scripts.next_look().map_or(LOOK, |look| look.min(LOOK));
            let news = self.inbox.next(look)?;
            self.scripts.turn();
            let Some(news) = news else { continue };
            if self.hear(news)?.is_break() {
                std::thread::sleep(BYE);
                break;
            }
        }
        Ok(())
    }

    /// True if somebody leads it who knows its ranks.
    fn is_measuring(&self) -> bool {
        self.ranks.is_some() && self.alone_since.is_none()
    }

    fn is_any_rank_alive(&self) -> bool {
        let ranks = self.ranks.iter().flat_map(|ranks| &ranks.job.ranks);
        ranks.into_iter().any(|rank| trimtab_os::runs_since(rank.pid, rank.start_time_ticks))
    }

    /// Breaks when it is to end.
    fn hear(&mut self, news: News) -> Result<std::ops::ControlFlow<()>, Error> {
        let told = match news {
            News::Asked(stream, question) => return self.asked(stream, question),
            News::Told(told) => told,
        };
        match told {
            Told::Attached { .. } => self.alone_since = None,
            Told::Orphaned => self.alone_since = Some(Instant::now()),
            Told::Uninstrument => self.abandon("nothing was heard of the lead"),
            Told::Opened { stream, spec, .. } if Merging::of(&spec.filter).is_some() => {
                self.merging.extend(Merging::of(&spec.filter).map(|merging| (stream, merging)));
            }
            Told::Opened { stream, wave, sent, .. } => self.pass_over(stream, wave..sent)?,
            Told::Closed { stream } => drop(self.merging.remove(&stream)),
            _ => {}
        }
        Ok(std::ops::ControlFlow::Continue(()))
    }

    fn asked(
        &mut self,
        stream: u32,
        Question { wave, room, ask }: Question,
    ) -> Result<std::ops::ControlFlow<()>, Error> {
        let leaves = ask == Ask::Leave;
        // A result that can't be a value is missing, and the lead asks for it in pieces or says so.
        let value = match self.merging.get(&stream) {
            Some(Merging::Variables) => Values.encode(&self.variables()).ok(),
            Some(Merging::Parts) => Parts.encode(&self.carried(ask)).ok(),
            None => Some(self.piece(ask, room)?),
        };
        value.iter().for_each(|value| contribute(self.inbox.link, stream, wave, value));
        Ok(if leaves { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) })
    }

    /// The figures of its ranks' window, for a stream that merges them.
    fn carried(&mut self, ask: Ask) -> Carried {
        let node = self.index as u32;
        match self.answer(ask) {
            Say::Window(envelope) => Carried::of(node, *envelope),
            // One without ranks of the job says nothing.
            Say::No { .. } if self.ranks.is_none() => Carried::default(),
            Say::No { reason, .. } => Carried::failing(node, FailedKind::Other, reason),
            _ => Carried::failing(node, FailedKind::Other, "an answer to another question".to_owned()),
        }
    }

    /// Questions that were asked before this agent came, or while it had lost the lead: nobody is to wait for its answers.
    /// Each wave of a stream has one.
    fn pass_over(&self, stream: u32, waves: Range<u64>) -> Result<(), Error> {
        let nothing = value_of(&NOTHING, self.index)?;
        waves.for_each(|wave| contribute(self.inbox.link, stream, wave, &nothing));
        Ok(())
    }

    fn answer(&mut self, ask: Ask) -> Say {
        let said = match ask {
            Ask::Who => self.who(),
            Ask::Window(command) => self.window(&command),
            Ask::Script(command) => self.script(&command),
            Ask::Values => Ok(Say::Values(self.variables())),
            Ask::Undo { seccomp_ok } => self.undo(seccomp_ok),
            Ask::Machine => self.machine(),
            Ask::Files { options } => self.files(options.as_deref()),
            Ask::Symbols(of) => {
                let names = of.get(&(self.index as u32)).map(Vec::as_slice).unwrap_or_default();
                Ok(Say::Symbols(self.known_files.symbols(self.cache, names)))
            }
            Ask::Take(piece) => Ok(Say::Took(self.known_files.take(self.cache, piece))),
            // Pieces are no answers of their own.
            Ask::More { .. } => Err(("nothing was asked before".to_owned(), false)),
            Ask::Leave => {
                self.abandon("the lead ended");
                Ok(Say::Bye)
            }
        };
        said.unwrap_or_else(|(reason, is_early)| Say::No { host: host_name(), reason, is_early })
    }

    /// The job's ranks here. Looking reads of every process of this host, and one that is busy mapping memory lets nobody
    /// read for a while; so it is done beside, and who asks is told in time that it goes on.
    fn found(&mut self) -> Result<Job, Refused> {
        let begun = self.looking.take();
        let was_begun = begun.is_some();
        let (since, found) = begun.unwrap_or_else(|| begin_looking(&self.ticket.whose));
        match found.recv_timeout(LOOKING_MAX) {
            // Ranks that had not begun then may have now.
            Ok(Err((_, true))) if was_begun => self.found(),
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout) => {
                self.looking = Some((since, found));
                let seconds = since.elapsed().as_secs();
                Err((format!("its agent has looked for the job's ranks for {seconds} s and goes on"), true))
            }
            Err(RecvTimeoutError::Disconnected) => Err(("looking for the job's ranks failed".to_owned(), true)),
        }
    }

    fn who(&mut self) -> Result<Say, Refused> {
        if let Some(ranks) = &self.ranks {
            return Ok(Say::Here(ranks.present.clone()));
        }
        let job = self.found()?;
        if self.holds.as_mut().is_some_and(|holds| !holds.has_all(&job)) {
            return Err(("none of the job's ranks here has come out of MPI_Init yet".to_owned(), true));
        }
        let audit = self.log.change(&self.ticket.command, Changed::Ranks(&job)).map_err(|error| refused(&error))?;
        audit.permit().map_err(|denied| refused(&denied))?;
        let rank = |process: &trimtab_track::RankProcess| PresentRank {
            rank: process.rank.0,
            pid: process.pid.0,
            start_ticks: process.start_time_ticks,
        };
        let ranks = job.ranks.iter().map(rank).collect();
        let present = Present { host: host_name(), key: job.key.clone(), size: job.size, ranks };
        let held = self.holds.take().map(Holds::into_parts);
        let (first_call, lines) = held.map_or_else(Default::default, |(first_call, lines)| (Some(first_call), lines));
        self.held_lines = lines;
        let node = WindowNode::new(self.index as u32, job.clone(), self.cache).with_patience(LOADING_MAX);
        let node = node.until_given_up(self.is_given_up).with_first_call(first_call);
        let pids: Vec<Pid> = job.ranks.iter().map(|rank| rank.pid).collect();
        let others = OtherJobs::new(Own::of(&ProcFs::new(), &pids, job.launcher));
        self.ranks =
            Some(Ranks { node, job, present: present.clone(), audit, others, gathers: false, script_audit: None });
        Ok(Say::Here(present))
    }

    fn ranks(&mut self) -> Result<&mut Ranks<'a>, Refused> {
        if self.ranks.is_none() {
            self.who()?;
        }
        self.ranks.as_mut().ok_or_else(|| ("no rank was found here".to_owned(), true))
    }

    fn window(&mut self, command: &Command) -> Result<Say, Refused> {
        let (name, log) = (self.ticket.command.clone(), self.log);
        let ranks = self.ranks()?;
        // It is asked again and again while ranks come.
        let gathers = match &command.request {
            Request::Gather(options) if !ranks.gathers => Some(&**options),
            _ => None,
        };
        ranks.gathers |= gathers.is_some();
        if let Some(options) = command.request.inserts().or(gathers) {
            // Only those that are measured are changed.
            let job = trimtab_measure::chosen(&ranks.job, options);
            ranks.audit.end(&End::Restored);
            ranks.audit = log.change(&name, Changed::Ranks(&job)).map_err(|error| refused(&error))?;
            if !job.ranks.is_empty() {
                ranks.audit.begin().map_err(|error| refused(&error))?;
                self.stand_guard();
            }
        }
        let ranks = self.ranks()?;
        let answer = ranks.node.answer(command);
        if matches!(command.request, Request::Remove | Request::Abandon) {
            ranks.audit.end(&End::Restored);
            self.held_lines.end();
        }
        Ok(Say::Window(Box::new(answer)))
    }

    fn script(&mut self, command: &script::Command) -> Result<Say, Refused> {
        let envelope = match command {
            script::Command::Start(start) => self.start_script(command, start)?,
            command => self.scripts.answer_to(command).map_err(|error| Failed::of(error, "", Vec::new())),
        };
        if *command == script::Command::Finish {
            self.end_script();
        }
        let costs = self.variables().iter().map(Variable::costs).collect::<Vec<(u64, u64)>>();
        let (fixed_bytes, growing_bytes) = costs.into_iter().fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        Ok(Say::Script { envelope: Box::new(envelope), fixed_bytes, growing_bytes })
    }

    fn start_script(&mut self, command: &script::Command, start: &Start) -> Result<Envelope, Refused> {
        let (name, log, cache, index) = (self.ticket.command.clone(), self.log, self.cache, self.index as u32);
        self.end_script();
        let ranks = self.ranks()?;
        let job = ranks.job.within(&start.ranks, &host_name());
        if !job.ranks.is_empty() {
            let mut audit = log.change(&name, Changed::Ranks(&job)).map_err(|error| refused(&error))?;
            audit.begin().map_err(|error| refused(&error))?;
            ranks.script_audit = Some(audit);
            self.stand_guard();
        }
        let target = |process: &RankProcess| Target { pid: process.pid, rank: Some(process.rank.0), ranks: start.size };
        let targets = job.ranks.iter().map(target).collect();
        self.scripts =
            script::ScriptNode::new(index, targets, cache).with_patience(LOADING_MAX).with_messages_max(MESSAGES_MAX);
        let started = self.scripts.answer_to(command);
        Ok(started.map_err(|error| {
            let failed =
                Failed::of(error, &start.options.text, job.ranks.iter().map(|process| process.rank.0).collect());
            let audit = self.ranks.as_mut().and_then(|ranks| ranks.script_audit.take());
            let reason = failed.lacking.as_ref().map_or(&failed.text, |lacking| &lacking.reason);
            audit.into_iter().for_each(|mut audit| audit.end(&End::Failed { reason: reason.clone() }));
            failed
        }))
    }

    /// The script's variables, once it is out.
    fn variables(&self) -> Vec<Variable> {
        self.scripts.values().iter().cloned().map(Variable::from).collect()
    }

    /// Before something is put into the ranks.
    fn stand_guard(&mut self) {
        let Some(ranks) = self.ranks.as_ref().filter(|ranks| !ranks.job.ranks.is_empty()) else { return };
        self.guard = self.guard.take().or_else(|| guard_of(&self.ticket.command));
        self.guard.iter().for_each(|guard| ranks.job.ranks.iter().for_each(|process| guard.watch(process.pid)));
    }

    /// Makes sure that no script is in, and says so in the log.
    fn end_script(&mut self) {
        self.scripts.abandon();
        if let Some(mut audit) = self.ranks.as_mut().and_then(|ranks| ranks.script_audit.take()) {
            audit.end(&End::Restored);
        }
    }

    /// The files whose symbols a window will need, or a script.
    fn files(&mut self, options: Option<&Options>) -> Result<Say, Refused> {
        self.ranks()?;
        let ranks = self.ranks.iter().flat_map(|ranks| &ranks.job.ranks);
        // Ranks of one program have the same files, near enough: what is missing is read where the probes go in.
        let mut programs = BTreeSet::new();
        let is_new = |process: &&RankProcess| program_of(process.pid).is_none_or(|program| programs.insert(program));
        let processes = ranks.filter(is_new).map(|process| {
            let chosen = options.map(|options| wanted_files(process.pid, options));
            (process.pid, move |path: &str| chosen.as_ref().is_none_or(|chosen| chosen(path)))
        });
        Ok(Say::Files(self.known_files.files(self.cache, processes)))
    }

    fn undo(&mut self, seccomp_ok: bool) -> Result<Say, Refused> {
        let (name, log) = (self.ticket.command.clone(), self.log);
        let ranks = self.ranks()?;
        if seccomp_ok {
            ranks.job.ranks.iter().for_each(|rank| trimtab_os::trust_filters(rank.pid));
        }
        Ok(Say::Undone(undo::all(&ranks.job, &name, log).map_err(|error| (one_line(&*error), false))?))
    }

    /// The load here while nothing is measured. Nothing of the job is touched.
    fn machine(&mut self) -> Result<Say, Refused> {
        let jobs = self.ranks()?.others.now();
        Ok(Say::Machine(MachineNow { host: host_name(), jobs, counters: Machine::default().counters() }))
    }

    /// Takes out whatever is in.
    fn abandon(&mut self, why: &str) {
        if self.scripts.abandon() {
            notice(&format!("{why}: the script's probes were taken out"));
        }
        self.end_script();
        // Nobody asks for them any more.
        if let Some((first_call, lines)) = self.holds.take().map(Holds::into_parts) {
            drop(first_call);
            lines.end();
        }
        if let Some(ranks) = &mut self.ranks
            && ranks.node.give_up()
        {
            notice(&format!("{why}: the probes were taken out"));
            ranks.audit.end(&End::Restored);
        }
        self.held_lines.end();
    }

    /// The answer to a question, or as much of it as there is room for.
    fn piece(&mut self, ask: Ask, room: u32) -> Result<Vec<u8>, Error> {
        let malformed = || Error::Malformed { what: "an answer" };
        let piece = if let Ask::More { from, of } = ask {
            if of.contains(Rank(self.index as u32)) { self.keeper.piece(from, room) } else { NOTHING }
        } else {
            let encoded = |say: &Say| postcard::to_allocvec(say).map_err(|_| malformed());
            let mut answer = encoded(&self.answer(ask))?;
            if answer.len() > ANSWER_BYTES_MAX {
                let reason = format!(
                    "the answer has {} bytes, at most {ANSWER_BYTES_MAX}: measure fewer functions or iterations",
                    answer.len()
                );
                answer = encoded(&Say::No { host: host_name(), reason, is_early: false })?;
            }
            self.keeper.begin(answer, room)
        };
        value_of(&piece, self.index)
    }
}

/// Device and number of the file that a process executes.
fn program_of(pid: Pid) -> Option<(u64, u64)> {
    std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|data| (data.dev(), data.ino()))
}

/// A piece as an agent's value of a wave.
pub(crate) fn value_of(piece: &Piece, index: usize) -> Result<Vec<u8>, Error> {
    let malformed = || Error::Malformed { what: "an answer" };
    let bytes = postcard::to_allocvec(piece).map_err(|_| malformed())?;
    encoded(Rank(index as u32), &bytes).map_err(|_| malformed())
}

/// Begins to look for the ranks that the ticket is for.
fn begin_looking(whose: &AgentsFor) -> Looking {
    let (sender, receiver) = channel();
    let whose = whose.clone();
    let refused = sender.clone();
    // Nobody listens any more only when this program ends.
    let begun = std::thread::Builder::new().name("find".to_owned()).spawn(move || sender.send(find(&whose)));
    if let Err(error) = begun {
        let _told = refused.send(Err((format!("no thread can be begun to look for ranks: {error}"), true)));
    }
    (Instant::now(), receiver)
}

#[cfg(test)]
mod tests;
