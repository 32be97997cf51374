//! The lead: has agents started, awaits them, asks them all, sends them home.
//!
//! Agents that don't come are left out and named; a window without them is partial and says so. If none comes, what
//! started them has said why.
//!
//! Next: `remote`, which makes a window's crew of it.

use crate::error::Error;
use crate::exchange::{Gather, room};
use crate::facts::{self, AskAll};
use crate::start::{Start, Started, own_path};
use crate::talk::{Ask, MachineNow, Piece, Present, Question, Say};
use crate::ticket::{AgentsFor, FAN_OUT, Hold, NodeAddress, Ticket, own_version};
use crate::values;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trimtab_engine::{Filing, UndoneAt};
use trimtab_link::blocking::Blocking;
use trimtab_link::{Address, Config, Credentials, JobSecret, incarnation_now};
use trimtab_measure::Options;
use trimtab_os::ticks;
use trimtab_overlay::node::{Trouble, WaveResult};
use trimtab_overlay::{Busy, NodeId, Setup, StreamSpec, Sync, Timing, Told};
use trimtab_reduce::VALUE_BYTES_MAX;
use trimtab_reduce::lists::Concat;
use trimtab_reduce::{Filter, FilterSpec, RankSet};
use trimtab_types::Rank;

/// How long the first agent may take to come, and the others after the latest: where one program starts all, and where each
/// has a way of its own, on which a login may take long.
const FIRST_MAX: Duration = Duration::from_secs(60);
const OTHERS_MAX: Duration = Duration::from_secs(5);
const OTHER_WAYS_MAX: Duration = Duration::from_secs(20);
/// A node that answers this long after the first one is left out.
const LATE_US: u64 = 20_000_000;
/// Longest wait for any answer at all: planning for many ranks of a large program.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Time between two looks at whoever may interrupt.
const LOOK: Duration = Duration::from_millis(50);
/// An agent that answers the first question this long after the first one is asked again: it knows the answer then, or hears the
/// question at all, if that was lost on the way between two parents.
const GATHER_LATE_US: u64 = 2_000_000;
/// Longest wait for any answer to it.
const GATHER_ANSWER_MAX: Duration = Duration::from_secs(8);
/// How long agents that came may take in all to answer the first question, and to find their way back.
const SILENT_MAX: Duration = Duration::from_secs(20);
const AWAY_MAX: Duration = Duration::from_secs(5);
/// How long agents may take to say good-bye.
const BYE_MAX: Duration = Duration::from_secs(3);
/// Ports for agents with children, below those that the kernel gives out by itself.
const PORT_FIRST: u64 = 20_000;
const PORT_COUNT: u64 = 12_000;

/// The answers to a question to all agents.
#[derive(Debug, Default)]
pub struct Answers {
    /// When it was asked, by this process's clock.
    pub sent_ticks: u64,
    /// When all that came was here.
    pub received_ticks: u64,
    /// By the agents' positions.
    pub said: BTreeMap<usize, Say>,
}

/// True if nothing is in any process yet that this asks about: whoever leads may go home instead of waiting for the
/// answer.
fn begins(ask: &Ask) -> bool {
    match ask {
        Ask::Who | Ask::Machine | Ask::Files { .. } | Ask::Symbols(_) | Ask::Take(_) => true,
        Ask::Window(command) => command.request.inserts().is_some(),
        Ask::Script(command) => matches!(**command, trimtab_script::Command::Start(_)),
        Ask::Values | Ask::Undo { .. } | Ask::More { .. } | Ask::Leave => false,
    }
}

/// A job's agents and whoever leads them.
pub struct Lead<'a> {
    link: Blocking,
    started: Started,
    ticket: Ticket,
    main: Channel,
    /// Where machines are asked for, once they were.
    watching: Option<Channel>,
    is_interrupted: &'a dyn Fn() -> bool,
    /// Why nodes whose agents came take no part, a sentence each.
    left_out: Vec<String>,
}

impl<'a> Lead<'a> {
    /// Has agents started on these nodes and waits for them. With `hold` each looks at its node before it comes, and ranks
    /// that begin MPI from then on are held.
    ///
    /// # Errors
    /// Names without address, a starter that fails, or nobody who comes.
    pub fn begin(
        names: &[String],
        whose: AgentsFor,
        starter: &dyn Start,
        (command, hold): (&str, Option<Hold>),
        is_interrupted: &'a dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let places = names.iter().map(|name| Ok(NodeAddress { name: name.clone(), address: address_of(name)? }));
        let places = places.collect::<Result<Vec<NodeAddress>, Error>>()?;
        let towards = places.first().ok_or(Error::NoRanks { reasons: vec!["the job has no node".to_owned()] })?;
        let own = own_address(towards.address)?;
        let secret = JobSecret::new()?;
        let tree = tree_number();
        let link = begin_tree(tree, own, &secret)?;
        let lead = match link.address() {
            Some(Address::Tcp(address)) => *address,
            _ => return Err(Error::Malformed { what: "the address of this process" }),
        };
        let port = (PORT_FIRST + tree % PORT_COUNT) as u16;
        let command = command.to_owned();
        let ticket =
            Ticket { version: own_version(), tree, lead, port, fan_out: FAN_OUT, places, whose, command, hold };
        let started = starter.start(&own_path()?, &ticket, &secret)?;
        let main = Channel { stream: 0, wave: 0 };
        let mut lead = Lead { link, started, ticket, main, watching: None, is_interrupted, left_out: Vec::new() };
        lead.await_agents()?;
        lead.main.stream = lead.open(FilterSpec::Concat(VALUE_BYTES_MAX as u32), LATE_US)?;
        Ok(lead)
    }

    /// The agents that are there, by position.
    pub fn agents(&self) -> BTreeSet<usize> {
        self.link.handle().members().iter().map(|rank| rank.0 as usize).collect()
    }

    /// Nodes whose agents did not come or are gone.
    pub fn absent(&self) -> Vec<&str> {
        self.missing().into_iter().map(|index| self.name_of(index)).collect()
    }

    fn missing(&self) -> Vec<usize> {
        let here = self.agents();
        (0..self.ticket.places.len()).filter(|index| !here.contains(index)).collect()
    }

    /// Name of the node of an agent.
    pub fn name_of(&self, index: usize) -> &str {
        self.ticket.places.get(index).map_or("?", |place| &place.name)
    }

    /// Why nodes whose agents came had no ranks when they were asked, a sentence each.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The words of the program that started the agents, if there are any.
    pub fn said(&self) -> String {
        self.started.said()
    }

    /// Whoever keeps the report once the agents have gone, if others start them.
    pub fn take_filing(&mut self) -> Option<Box<dyn Filing>> {
        self.started.take_filing()
    }

    /// Asks which ranks the agents have, until all have some, or so much time has passed.
    ///
    /// # Errors
    /// [`Error::NoRanks`] if none has any.
    pub fn gather_agents(&mut self, wait: Duration) -> Result<BTreeMap<usize, Present>, Error> {
        let mut channel = self.open_soon()?;
        let present = self.on(&mut channel, |lead| lead.gathered_agents(wait));
        // It is over either way; a stream that can't be closed yet ends with the tree.
        let _closed = self.link.handle().close(channel.stream);
        present
    }

    /// Asks on a stream of its own, as often as it takes.
    fn gathered_agents(&mut self, wait: Duration) -> Result<BTreeMap<usize, Present>, Error> {
        let begun = Instant::now();
        let came = self.agents();
        loop {
            let answers = self.ask_within(Ask::Who, GATHER_ANSWER_MAX)?;
            let early = answers.said.values().any(|say| matches!(say, Say::No { is_early: true, .. }));
            let silent: Vec<usize> = came.iter().copied().filter(|index| !answers.said.contains_key(index)).collect();
            let may_change = (early && begun.elapsed() < wait) || self.may_answer(&silent, begun.elapsed());
            if may_change && !is_whole(&answers) && !(self.is_interrupted)() {
                std::thread::sleep(LOOK);
                continue;
            }
            let mut reasons: BTreeSet<String> = silent.iter().map(|index| self.silence_of(*index)).collect();
            let mut present = BTreeMap::new();
            for (index, say) in answers.said {
                match say {
                    Say::Here(here) => drop(present.insert(index, here)),
                    Say::No { host, reason, .. } => drop(reasons.insert(format!("on {host}: {reason}"))),
                    _ => return Err(Error::Malformed { what: "an answer" }),
                }
            }
            if present.is_empty() {
                return Err(Error::NoRanks { reasons: reasons.into_iter().collect() });
            }
            self.left_out = reasons.into_iter().collect();
            return Ok(present);
        }
    }

    /// True if to ask these again who came and said nothing: one that is there may have been too slow; one that is
    /// away may come back, as long as what started it runs.
    fn may_answer(&mut self, silent: &[usize], waited: Duration) -> bool {
        let here = self.agents();
        let (there, away): (Vec<usize>, Vec<usize>) = silent.iter().partition(|index| here.contains(index));
        let may_come_back = !away.is_empty() && waited < AWAY_MAX && !self.started.has_ended();
        may_come_back || (!there.is_empty() && waited < SILENT_MAX)
    }

    /// An agent came and does not answer.
    fn silence_of(&self, index: usize) -> String {
        let state = if self.agents().contains(&index) { "did not answer" } else { "came and is gone again" };
        let said = self.said();
        let said = if said.is_empty() { said } else { format!(" ({said})") };
        format!("on {}: its agent {state}{said}", self.name_of(index))
    }

    /// Has all agents that have ranks take out what an earlier trimtab left in them: by host, or why it was not done there.
    ///
    /// # Errors
    /// [`Error::NoRanks`] if none has any.
    pub fn undo(&mut self, wait: Duration, seccomp_ok: bool) -> Result<Vec<UndoneAt>, Error> {
        let present = self.gather_agents(wait)?;
        let mut said = self.ask(Ask::Undo { seccomp_ok })?.said;
        let at = |(index, present): (usize, Present)| {
            let undone = match said.remove(&index) {
                Some(Say::Undone(undone)) => Ok(undone),
                Some(Say::No { reason, .. }) => Err(reason),
                _ => Err("its agent did not answer; `trimtab undo PID` there".to_owned()),
            };
            (present.host, undone)
        };
        Ok(present.into_iter().map(at).collect())
    }

    /// How the machines are on which the job has ranks, and which other jobs are there: of all whose agents answer soon.
    ///
    /// # Errors
    /// When the tree takes no question.
    pub fn machines(&mut self) -> Result<Vec<MachineNow>, Error> {
        let mut channel = self.watching.map_or_else(|| self.open_soon(), Ok)?;
        let answers = self.on(&mut channel, |lead| lead.ask_within(Ask::Machine, GATHER_ANSWER_MAX));
        self.watching = Some(channel);
        let machine = |say| match say {
            Say::Machine(machine) => Some(machine),
            _ => None,
        };
        Ok(answers?.said.into_values().filter_map(machine).collect())
    }

    /// Asks all agents and waits for what comes back.
    ///
    /// # Errors
    /// When the tree takes no question, or there is more to be said than is kept.
    pub fn ask(&mut self, ask: Ask) -> Result<Answers, Error> {
        self.ask_within(ask, ANSWER_MAX)
    }

    fn ask_within(&mut self, ask: Ask, time_max: Duration) -> Result<Answers, Error> {
        let until = Instant::now() + time_max;
        let count = self.ticket.places.len();
        let own = room(VALUE_BYTES_MAX, count, count);
        let first = self.main_wave(ask, own, until)?;
        let (sent_ticks, received_ticks) = (first.sent_ticks, first.received_ticks);
        let mut answers = Answers { sent_ticks, received_ticks, said: BTreeMap::new() };
        let mut gather = Gather::new(first.pieces()?, own)?;
        while let Some((from, sending)) = gather.remaining() {
            let own = room(VALUE_BYTES_MAX, count, sending.len());
            let of = sending.into_iter().map(|index| Rank(index as u32)).collect();
            let next = self.main_wave(Ask::More { from, of }, own, Instant::now() + time_max)?;
            gather.add(next.pieces()?, own);
        }
        // One with nothing to say did not hear the question, as if it were not there.
        for (index, bytes) in gather.into_answers().into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let say = postcard::from_bytes(&bytes).map_err(|_| Error::Malformed { what: "the answer of an agent" })?;
            answers.said.insert(index, say);
        }
        Ok(answers)
    }

    /// Has one agent for all read the symbols that a window with these options, or a script, needs. It only spares the
    /// others the reading.
    ///
    /// # Errors
    /// As [`Lead::ask`].
    pub fn share_symbols(&mut self, options: Option<&Options>) -> Result<usize, Error> {
        if self.agents().len() < 2 {
            return Ok(0);
        }
        facts::share(self, options, facts::PIECE_BYTES)
    }

    /// Asks all agents on a stream of its own, whose filter makes one value of what they say; `None` if nothing came.
    ///
    /// # Errors
    /// When the tree takes no stream or no question.
    pub fn ask_merged(&mut self, ask: Ask, filter: FilterSpec) -> Result<Option<WaveResult>, Error> {
        let merging = Channel { stream: self.open(filter, LATE_US)?, wave: 0 };
        let answered = self.wave(merging, (ask, 0), Instant::now() + ANSWER_MAX)?;
        // It is over either way; a stream that can't be closed yet ends with the tree.
        let _closed = self.link.handle().close(merging.stream);
        Ok(answered.result)
    }

    fn main_wave(&mut self, ask: Ask, room: u32, until: Instant) -> Result<Answered, Error> {
        let channel = self.main;
        self.main.wave += 1;
        self.wave(channel, (ask, room), until)
    }

    /// One question to all and the wave that answers it.
    fn wave(&mut self, channel: Channel, (ask, room): (Ask, u32), until: Instant) -> Result<Answered, Error> {
        let wave = channel.wave;
        let may_be_given_up = begins(&ask);
        let question = Question { wave, room, ask };
        let payload = postcard::to_allocvec(&question).map_err(|_| Error::Malformed { what: "a question" })?;
        let sent_ticks = ticks();
        loop {
            let sent = self.link.handle().multicast(channel.stream, self.everybody(), payload.clone());
            match sent {
                Err(Busy::Commands { .. }) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                sent => break sent?,
            }
        }
        let mut last_seen = Instant::now();
        while Instant::now() < until && !self.is_deserted(&mut last_seen) {
            if may_be_given_up && (self.is_interrupted)() {
                return Err(Error::Interrupted);
            }
            match self.link.wait(LOOK) {
                Some(Told::Result(result)) if result.stream == channel.stream && result.wave == wave => {
                    return Ok(Answered { sent_ticks, received_ticks: ticks(), result: Some(*result) });
                }
                // A wave that could not be merged has no result.
                Some(Told::Trouble(trouble)) if is_about(&trouble, channel.stream, wave) => break,
                _ => {}
            }
        }
        Ok(Answered { sent_ticks, received_ticks: ticks(), result: None })
    }

    /// True if no agent is left and none will come back: their job has ended and taken them along.
    fn is_deserted(&mut self, last_seen: &mut Instant) -> bool {
        if !self.link.handle().members().is_empty() {
            *last_seen = Instant::now();
            return false;
        }
        last_seen.elapsed() >= AWAY_MAX || (last_seen.elapsed() >= LOOK && self.started.has_ended())
    }

    fn everybody(&self) -> RankSet {
        RankSet::range(Rank(0), Rank(self.ticket.places.len() as u32 - 1))
    }

    fn await_agents(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        let mut latest = begun;
        let mut count = 0;
        loop {
            if (self.is_interrupted)() {
                return Err(Error::Interrupted);
            }
            let _told = self.link.wait(LOOK);
            let now = self.link.handle().members().rank_count();
            if now == self.ticket.places.len() as u64 {
                return Ok(());
            }
            if now > count {
                (count, latest) = (now, Instant::now());
            }
            if latest.elapsed() < self.patience(count > 0) {
                continue;
            }
            if count > 0 {
                return Ok(());
            }
            let said = self.started.said();
            if self.started.is_by_others() && !said.is_empty() && self.started.has_ended() {
                return Err(Error::NobodyStarted { said });
            }
            let missing = self.missing();
            return Err(Error::NobodyCame {
                has_ended: self.started.commands_have_ended(&missing),
                seconds: begun.elapsed().as_secs(),
                address: self.ticket.lead.to_string(),
                said,
            });
        }
    }

    /// How long after the latest agent others may still come.
    fn patience(&mut self, has_some: bool) -> Duration {
        let missing = self.missing();
        match (self.started.runs_for(&missing), has_some) {
            // A program that ends before its agents came has told why.
            (Some(false), _) => Duration::ZERO,
            (None, _) if self.started.has_ended() => Duration::ZERO,
            (_, false) => FIRST_MAX,
            (Some(true), true) => OTHER_WAYS_MAX,
            (None, true) => OTHERS_MAX,
        }
    }

    /// Asks on another stream than the usual one.
    fn on<R>(&mut self, channel: &mut Channel, ask: impl FnOnce(&mut Self) -> R) -> R {
        std::mem::swap(&mut self.main, channel);
        let answered = ask(self);
        std::mem::swap(&mut self.main, channel);
        answered
    }

    /// A stream for questions whose answers are known at once.
    fn open_soon(&self) -> Result<Channel, Error> {
        let stream = self.open(FilterSpec::Concat(VALUE_BYTES_MAX as u32), GATHER_LATE_US)?;
        Ok(Channel { stream, wave: 0 })
    }

    fn open(&self, filter: FilterSpec, late_us: u64) -> Result<u32, Error> {
        Ok(self.link.handle().open(StreamSpec {
            target: self.link.handle().members(),
            filter,
            sync: Sync::TimeOut { us: late_us },
        })?)
    }
}

impl AskAll for Lead<'_> {
    fn ask_all(&mut self, ask: Ask) -> Result<BTreeMap<usize, Say>, Error> {
        Ok(self.ask(ask)?.said)
    }
}

/// A stream and its next wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Channel {
    stream: u32,
    wave: u64,
}

/// A question that went out, and the wave that came back.
struct Answered {
    sent_ticks: u64,
    received_ticks: u64,
    result: Option<WaveResult>,
}

impl Answered {
    /// The agents' pieces.
    fn pieces(&self) -> Result<BTreeMap<usize, Piece>, Error> {
        let malformed = || Error::Malformed { what: "the answers of agents" };
        let Some(result) = &self.result else { return Ok(BTreeMap::new()) };
        let concat = Concat { byte_count_max: VALUE_BYTES_MAX as u32 };
        let by_rank = concat.decode(&result.value).map_err(|_| malformed())?;
        let piece = |(rank, bytes): (Rank, Vec<u8>)| {
            Ok((rank.0 as usize, postcard::from_bytes(&bytes).map_err(|_| malformed())?))
        };
        by_rank.into_iter().map(piece).collect()
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        // Whoever does not hear it notices by itself that nobody leads any more.
        let _gone = self.ask_within(Ask::Leave, BYE_MAX);
    }
}

pub(crate) fn begin_tree(tree: u64, own: IpAddr, secret: &JobSecret) -> Result<Blocking, Error> {
    let config = Config {
        setup: Setup {
            id: NodeId::ROOT,
            incarnation: incarnation_now(),
            ancestors: Vec::new(),
            ranks: RankSet::EMPTY,
            timing: Timing::default(),
            registry: Arc::new(values::registry()),
        },
        tree,
        listener: None,
        contacts: Vec::new(),
        credentials: Some(Arc::new(Credentials::of_job(secret, NodeId::ROOT)?)),
    };
    Ok(Blocking::start(config, Some(Address::Tcp(SocketAddr::new(own, 0))))?)
}

/// True if a value of this wave could not be merged.
fn is_about(trouble: &Trouble, stream: u32, wave: u64) -> bool {
    matches!(trouble, Trouble::Value { stream: of, wave: at, .. } if (*of, *at) == (stream, wave))
}

/// True if all ranks of the job have been found, so that nobody needs to look again.
fn is_whole(answers: &Answers) -> bool {
    let here = || answers.said.values().filter_map(|say| if let Say::Here(here) = say { Some(here) } else { None });
    let count: usize = here().map(|here| here.ranks.len()).sum();
    here().find_map(|here| here.size).is_some_and(|size| count >= size as usize)
}

/// The address of a name; of several the first of the older kind, which every cluster has.
fn address_of(name: &str) -> Result<IpAddr, Error> {
    let missing = || Error::NoAddress { name: name.to_owned() };
    let all: Vec<IpAddr> = (name, 0).to_socket_addrs().map_err(|_| missing())?.map(|address| address.ip()).collect();
    all.iter().copied().find(IpAddr::is_ipv4).or(all.first().copied()).ok_or_else(missing)
}

/// Our address as seen from a node: that of the interface on the way there. Nothing is sent.
fn own_address(towards: IpAddr) -> Result<IpAddr, Error> {
    let any: IpAddr = if towards.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((towards, 9))?;
    Ok(socket.local_addr()?.ip())
}

/// A number that no other tree has that an agent of ours may meet.
pub(crate) fn tree_number() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id())
}

#[cfg(test)]
mod tests;
