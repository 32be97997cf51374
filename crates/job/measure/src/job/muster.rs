//! The nodes of a window: who answers, whose ranks they have, what their clocks show.
//!
//! A node that leaves one command unanswered is lost for the window: it may have missed what the others were told. Its
//! ranks are missing from then on and the report says so; its probes go when its lease ends or when it hears of the end.
//!
//! Next: `marker` and `recording`, which ask.

use crate::clock::Clock;
use crate::crew::Crew;
use crate::error::Error;
use crate::options::Options;
use crate::request::{Answer, Command, Facts, Inserted, Request, WindowId};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_os::ticks;
use trimtab_window::{Exchange, Reading, Relation, name_ranks};

/// Exchanges that say what a node's clock shows: so many at least, and more until all clocks are known as well as that, or
/// it takes too long. How long the first one takes says nothing: nodes may measure their clocks' rates in it.
const EXCHANGES_MIN: usize = 9;
const EXCHANGES_MAX: usize = 32;
const ERROR_SECONDS_ENOUGH: f64 = 50e-6;
const EXCHANGE_SECONDS_MAX: f64 = 0.2;
/// Before the window somebody waits for its first iteration.
const FIRST_EXCHANGE_SECONDS_MAX: f64 = 0.1;

/// One node of the window.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub host: String,
    pub ranks: Vec<u32>,
    /// Its clock on that of this process.
    pub relation: Relation,
}

/// A node that did not answer.
#[derive(Clone, Debug)]
struct Lost {
    node: u32,
    /// If it ever answered.
    known: Option<Known>,
    purpose: &'static str,
}

/// The nodes that take part in a window.
pub(crate) struct Muster<'a> {
    crew: &'a mut dyn Crew,
    window: WindowId,
    nodes: BTreeMap<u32, Known>,
    lost: Vec<Lost>,
    /// Ranks that nobody asked to measure.
    left_alone: BTreeSet<u32>,
    round_trip_ticks: u64,
    /// Ticks per second of this process's clock, once others are compared with it.
    lead_per_second: f64,
    /// What a reader must know of the nodes.
    pub warnings: Vec<String>,
}

/// A node's answer and when it came.
struct Answered {
    node: u32,
    exchange: Exchange,
    answer: Answer,
}

impl<'a> Muster<'a> {
    pub(crate) fn new(crew: &'a mut dyn Crew, window: WindowId) -> Self {
        let nodes = crew.nodes().into_iter();
        let unknown = |node| (node, Known { host: String::new(), ranks: Vec::new(), relation: Relation::SAME });
        let nodes = nodes.map(unknown).collect();
        Muster {
            crew,
            window,
            nodes,
            lost: Vec::new(),
            left_alone: BTreeSet::new(),
            round_trip_ticks: 0,
            lead_per_second: f64::NAN,
            warnings: Vec::new(),
        }
    }

    /// Inserts on all nodes and learns of which program.
    pub(crate) fn insert(&mut self, options: &Options, clock: &Clock) -> Result<Facts, Error> {
        let answers = self.ask(Request::Insert(Box::new(options.clone())), |answer| match answer {
            Answer::Inserted(inserted) => Some(inserted),
            _ => None,
        })?;
        self.left_alone.extend(answers.iter().flat_map(|(_, inserted)| &inserted.left_alone));
        let (answers, apart): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, answer)| !answer.ranks.is_empty());
        for (node, _) in apart {
            self.nodes.remove(&node);
        }
        if answers.is_empty() {
            return Err(Error::NoRank { ranks: options.ranks.to_string() });
        }
        check_alike(&answers)?;
        for (node, inserted) in answers {
            let known = Known { host: inserted.host, ranks: inserted.ranks, relation: Relation::SAME };
            self.warnings.extend(
                inserted.warnings.into_iter().filter(|warning| !self.warnings.contains(warning)).collect::<Vec<_>>(),
            );
            self.nodes.insert(node, known);
        }
        if !self.is_here() {
            self.begin_clocks(clock)?;
        }
        let node = self.nodes.keys().next().copied().ok_or(Error::NoNode { purpose: "insert probes" })?;
        let facts = self.ask(Request::Describe { node }, |answer| match answer {
            Answer::Described(facts) => Some(Some(facts)),
            Answer::Done => Some(None),
            _ => None,
        })?;
        let facts = facts.into_iter().find_map(|(_, facts)| facts);
        facts.map(|facts| *facts).ok_or(Error::Malformed { what: "no node described the program" })
    }

    /// Asks every node that takes part. `pick` takes what is wanted out of an answer; `None`: it is another one.
    pub(crate) fn ask<T>(
        &mut self,
        request: Request,
        pick: impl Fn(Answer) -> Option<T>,
    ) -> Result<Vec<(u32, T)>, Error> {
        let what = request.purpose();
        let picked = self.send(request)?.into_iter().map(|one| {
            let taken = pick(one.answer).ok_or(Error::Malformed { what });
            taken.map(|taken| (one.node, taken))
        });
        picked.collect()
    }

    /// Tells every node something that needs no answer but that it was done.
    pub(crate) fn tell(&mut self, request: Request) -> Result<(), Error> {
        self.send(request).map(|_| ())
    }

    /// Whatever is in is taken out, also by nodes that are taken for lost; nobody waits for more than one answer.
    pub(crate) fn abandon(&mut self) {
        self.crew.ask(&Command { window: self.window, request: Request::Abandon });
    }

    fn send(&mut self, request: Request) -> Result<Vec<Answered>, Error> {
        let (purpose, is_quick) = (request.purpose(), request.is_quick());
        let replies = self.crew.ask(&Command { window: self.window, request });
        let mut answered = Vec::with_capacity(replies.len());
        for reply in replies.into_iter().filter(|reply| self.nodes.contains_key(&reply.node)) {
            match reply.result {
                Ok(answer) => answered.push(Answered { node: reply.node, exchange: reply.exchange, answer }),
                // It has given this window up: as good as no answer.
                Err(Error::Stale { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        answered.sort_by_key(|one| one.node);
        answered.dedup_by_key(|one| one.node);
        let present: BTreeSet<u32> = answered.iter().map(|one| one.node).collect();
        let lost: Vec<u32> = self.nodes.keys().copied().filter(|node| !present.contains(node)).collect();
        for node in lost {
            let known = self.nodes.remove(&node).filter(|known| !known.ranks.is_empty());
            self.lost.push(Lost { node, known, purpose });
        }
        if is_quick {
            let way = |one: &Answered| one.exchange.received_ticks.saturating_sub(one.exchange.sent_ticks);
            self.round_trip_ticks = self.round_trip_ticks.max(answered.iter().map(way).max().unwrap_or(0));
        }
        if answered.is_empty() { Err(Error::NoNode { purpose }) } else { Ok(answered) }
    }

    /// Learns what the nodes' clocks show.
    fn begin_clocks(&mut self, clock: &Clock) -> Result<(), Error> {
        let lead_per_second = clock.ticks_per_second();
        self.lead_per_second = lead_per_second;
        let readings = self.read_clocks(FIRST_EXCHANGE_SECONDS_MAX)?;
        for (node, (reading, node_per_second)) in readings {
            if let Some(known) = self.nodes.get_mut(&node) {
                known.relation = Relation::begun(reading, lead_per_second, node_per_second);
            }
        }
        Ok(())
    }

    /// Learns how the nodes' clocks went since the window began.
    pub(crate) fn end_clocks(&mut self) -> Result<(), Error> {
        if self.is_here() {
            return Ok(());
        }
        for (node, (reading, _)) in self.read_clocks(EXCHANGE_SECONDS_MAX)? {
            let Some(known) = self.nodes.get_mut(&node) else { continue };
            match known.relation.ended(reading) {
                Some(relation) => known.relation = relation,
                None => self.warnings.push(format!(
                    "the clock of {} was set or stood still meanwhile: its moments can't be compared with other nodes'; \
                     see `cat /sys/devices/system/clocksource/clocksource0/current_clocksource` there",
                    known.host
                )),
            }
        }
        Ok(())
    }

    /// Each node's clock by several exchanges, and its ticks per second.
    fn read_clocks(&mut self, seconds_max: f64) -> Result<BTreeMap<u32, (Reading, f64)>, Error> {
        let mut exchanges: BTreeMap<u32, (Vec<Exchange>, f64)> = BTreeMap::new();
        let lead_per_second = self.lead_per_second;
        let begun_ticks = ticks();
        for round in 0..EXCHANGES_MAX {
            for one in self.send(Request::Time)? {
                let Answer::Time { ticks_per_second } = one.answer else { continue };
                let known = exchanges.entry(one.node).or_default();
                known.0.push(one.exchange);
                known.1 = ticks_per_second;
            }
            if round == 0 {
                self.round_trip_ticks = 0;
            }
            let is_long = ticks().saturating_sub(begun_ticks) as f64 > seconds_max * lead_per_second;
            let enough_ticks = (ERROR_SECONDS_ENOUGH * lead_per_second) as u64;
            let is_near = readings_of(&exchanges, lead_per_second).all(|(_, (one, _))| one.error_ticks <= enough_ticks);
            if round + 1 >= EXCHANGES_MIN && (is_long || is_near) {
                break;
            }
        }
        Ok(readings_of(&exchanges, lead_per_second).collect())
    }

    /// Longest time in which all nodes answered something that takes no time.
    pub(crate) fn round_trip_s(&self, ticks_per_second: f64) -> f64 {
        self.round_trip_ticks as f64 / ticks_per_second
    }

    pub(crate) fn is_here(&self) -> bool {
        self.crew.is_here()
    }

    pub(crate) fn events_max(&self) -> u32 {
        self.crew.events_max()
    }

    /// A node's clock on that of this process.
    pub(crate) fn relation(&self, node: u32) -> Relation {
        self.nodes.get(&node).map_or(Relation::SAME, |known| known.relation)
    }

    pub(crate) fn relations(&self) -> Vec<(u32, Relation)> {
        self.nodes.iter().map(|(node, known)| (*node, known.relation)).collect()
    }

    /// Machines that take part or did, each once.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let lost = self.lost.iter().filter_map(|lost| lost.known.as_ref());
        let hosts = self.nodes.values().chain(lost).map(|known| known.host.clone());
        hosts.collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// Ranks of the job that nobody asked to measure, ascending.
    pub(crate) fn left_alone(&self) -> Vec<u32> {
        self.left_alone.iter().copied().collect()
    }

    /// How many ranks take part.
    pub(crate) fn rank_total(&self) -> usize {
        self.nodes.values().map(|known| known.ranks.len()).sum()
    }

    /// One more than the highest rank of all nodes that ever answered.
    pub(crate) fn rank_count(&self) -> u32 {
        let lost = self.lost.iter().filter_map(|lost| lost.known.as_ref());
        let ranks = self.nodes.values().chain(lost).flat_map(|known| &known.ranks);
        ranks.max().map_or(0, |highest| highest + 1)
    }

    /// Whom the results are without, one sentence for each node.
    pub(crate) fn losses(&self) -> Vec<String> {
        let text = |lost: &Lost| {
            let who = lost.known.as_ref().map_or_else(
                || format!("node {}", lost.node),
                |known| format!("{} ({})", known.host, name_ranks(&known.ranks)),
            );
            format!("{who} did not answer when asked to {}: the results are without its ranks", lost.purpose)
        };
        self.lost.iter().map(text).collect()
    }
}

fn readings_of(
    exchanges: &BTreeMap<u32, (Vec<Exchange>, f64)>,
    lead_per_second: f64,
) -> impl Iterator<Item = (u32, (Reading, f64))> {
    exchanges.iter().filter_map(move |(node, (exchanges, node_per_second))| {
        Some((*node, (Reading::of(exchanges, lead_per_second, *node_per_second)?, *node_per_second)))
    })
}

/// All nodes measure the same functions, and no rank is on two of them.
fn check_alike(answers: &[(u32, Inserted)]) -> Result<(), Error> {
    let Some((_, first)) = answers.first() else { return Ok(()) };
    if let Some((_, other)) = answers.iter().find(|(_, other)| other.digest != first.digest) {
        return Err(Error::NodesDiffer { first: first.host.clone(), other: other.host.clone() });
    }
    let mut seen = BTreeSet::new();
    let is_twice = answers.iter().flat_map(|(_, inserted)| &inserted.ranks).any(|rank| !seen.insert(*rank));
    if is_twice { Err(Error::Malformed { what: "a rank on two nodes" }) } else { Ok(()) }
}
