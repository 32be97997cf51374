//! The nodes of a window: who answers, whose ranks they have, what their clocks show.
//!
//! A node that leaves one command unanswered is lost for the window: it may have missed what the others were told. Its
//! ranks are missing from then on and the report says so; its probes go when its lease ends or when it hears of the end.
//!
//! Next: `marker` and `recording`, which ask.

use crate::clock::Clock;
use crate::crew::Crew;
use crate::error::Error;
use crate::part::Part;
use crate::reason::NoHold;
use crate::request::{Answer, Command, Facts, Inserted, Lacking, Request, WindowId};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_os::ticks;
use trimtab_types::Pid;
use trimtab_types::report::{FromFirstCall, MissedStart};
use trimtab_window::{Exchange, Reading, Relation, name_ranks};

/// Exchanges that say what a node's clock shows: more until all clocks are known as well as that, or it takes too long.
const EXCHANGES_MAX: usize = 32;
const ERROR_SECONDS_ENOUGH: f64 = 50e-6;
/// At a window's beginning somebody waits for its first iteration, and every answer says what its node's clock shows.
const AT_BEGINNING: Rounds = Rounds { rounds_min: 1, enough_rounds: 9, seconds_max: 0.02 };
const AT_END: Rounds = Rounds { rounds_min: 9, enough_rounds: 9, seconds_max: 0.2 };
/// Answers that came so long after the first exchange still say what clocks showed at the beginning.
const BEGINNING_SECONDS: f64 = 1.0;
/// Calls of a rank that an answer over a network may hold: at about ten bytes each, 64 MiB of 65,536 ranks.
const EVENTS_MAX: u32 = 96;
/// Those of all ranks together: of a small job all that a rank remembers.
const EVENTS_ALL_RANKS: u32 = EVENTS_MAX << 16;
/// Exchanges of a node that are kept; the quickest.
const KEPT_MAX: usize = 32;

/// How often nodes are asked for nothing but their time.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    /// However long they take.
    rounds_min: usize,
    /// If all clocks are known well enough by then.
    enough_rounds: usize,
    /// And however well they are known.
    seconds_max: f64,
}

/// One node of the window.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub host: String,
    pub ranks: Vec<u32>,
    /// Its clock on that of this process.
    pub relation: Relation,
    /// The exchanges that say so, as long as the window begins.
    exchanges: Vec<Exchange>,
}

impl Known {
    /// One that measures these ranks, and whose clock is not known yet.
    fn new(host: String, ranks: Vec<u32>) -> Self {
        Known { host, ranks, relation: Relation::SAME, exchanges: Vec::new() }
    }
}

/// When the window's clocks were first compared, and the nodes' ticks per second.
#[derive(Clone, Debug)]
struct Beginning {
    at_ticks: u64,
    per_second: BTreeMap<u32, f64>,
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
pub(crate) struct Membership<'a> {
    crew: &'a mut dyn Crew,
    window: WindowId,
    nodes: BTreeMap<u32, Known>,
    lost: Vec<Lost>,
    /// Ranks that nobody asked to measure.
    left_alone: BTreeSet<u32>,
    round_trip_ticks: u64,
    /// Ticks per second of this process's clock, once others are compared with it.
    lead_per_second: f64,
    /// Until the window ends.
    beginning: Option<Beginning>,
    /// Warnings about the nodes.
    pub warnings: Vec<String>,
    /// Ranks that have recorded every call since they came out of `MPI_Init`; `None`: that was not asked for.
    pub from_first_call: Option<FromFirstCall>,
}

/// A node's answer and when it came.
struct Answered {
    node: u32,
    exchange: Exchange,
    answer: Answer,
}

impl<'a> Membership<'a> {
    pub(crate) fn new(crew: &'a mut dyn Crew, window: WindowId) -> Self {
        let nodes = crew.nodes().into_iter();
        let unknown = |node| (node, Known::new(String::new(), Vec::new()));
        let nodes = nodes.map(unknown).collect();
        Membership {
            crew,
            window,
            nodes,
            lost: Vec::new(),
            left_alone: BTreeSet::new(),
            round_trip_ticks: 0,
            lead_per_second: f64::NAN,
            beginning: None,
            warnings: Vec::new(),
            from_first_call: None,
        }
    }

    /// Inserts on all nodes and learns of which program.
    pub(crate) fn insert(&mut self, request: Request, clock: &Clock) -> Result<Facts, Error> {
        let ranks = request.inserts().map(|options| options.ranks.to_string()).unwrap_or_default();
        let answers = self.ask(request, |answer| match answer {
            Answer::Inserted(inserted) => Some(inserted),
            _ => None,
        })?;
        self.left_alone.extend(answers.iter().flat_map(|(_, inserted)| &inserted.left_alone));
        let (answers, apart): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, answer)| !answer.ranks.is_empty());
        for (node, inserted) in apart {
            self.nodes.remove(&node);
            let Some(lacking) = inserted.lacking else { continue };
            if answers.is_empty() {
                return Err(self.nowhere(lacking));
            }
            self.warnings.push(lacking_warning(&inserted.host, &lacking));
        }
        if answers.is_empty() {
            return Err(Error::NoRank { ranks });
        }
        check_alike(&answers)?;
        for (node, inserted) in answers {
            let known = Known::new(inserted.host, inserted.ranks);
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

    /// A function that no rank has.
    fn nowhere(&self, Lacking { pattern, pid, .. }: Lacking) -> Error {
        if self.is_here() {
            return Error::NoSuchFunction { pattern, pid: Pid(pid) };
        }
        let reason = "no rank on any node has a function of this name, or a symbol of it; `trimtab functions PID` on a node \
                      lists what can be measured";
        Error::Refused { name: pattern, reason: reason.to_owned() }
    }

    /// Lets go the ranks that wait behind `MPI_Init`, once all record.
    pub(crate) fn go(&mut self) -> Result<(), Error> {
        let went = self.ask(Request::Go, |answer| match answer {
            Answer::Went(went) => Some(went),
            _ => None,
        })?;
        let mut all = FromFirstCall::default();
        for (_, node) in went {
            all.ranks.extend(node.ranks);
            let missed = |(rank, why): (u32, NoHold)| MissedStart { rank, reason: why.to_string() };
            all.missed.extend(node.missed.into_iter().map(missed));
            all.held.extend(node.held);
        }
        all.ranks.sort_unstable();
        all.missed.sort_by_key(|missed| missed.rank);
        all.held.sort_by_key(|held| held.rank);
        all.held_us_max = all.held.iter().map(|held| held.held_us).max_by(f64::total_cmp);
        self.from_first_call = Some(all);
        Ok(())
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

    /// Asks every node that takes part for a value that merges, and merges what was not merged on the way. A node that none of
    /// the replies is of is lost.
    pub(crate) fn ask_merged(&mut self, request: Request) -> Result<Part, Error> {
        let purpose = request.purpose();
        let replies = self.crew.ask_merged(&Command { window: self.window, request });
        let mut present: BTreeSet<u32> = BTreeSet::new();
        let mut merged: Option<Part> = None;
        for (nodes, reply) in replies {
            let part = match reply.result {
                Ok(Answer::Part(part)) => part,
                Ok(_) => return Err(Error::Malformed { what: purpose }),
                // It has given this window up: as good as no answer.
                Err(Error::Stale { .. }) => continue,
                Err(error) => return Err(error),
            };
            match &mut merged {
                Some(all) => all.merge(part).map_err(|_| Error::Malformed { what: purpose })?,
                None => merged = Some(part),
            }
            present.extend(nodes);
        }
        self.lose(&present, purpose);
        merged.ok_or(Error::NoNode { purpose })
    }

    /// Nodes that did not answer are lost for the window.
    fn lose(&mut self, present: &BTreeSet<u32>, purpose: &'static str) {
        let lost: Vec<u32> = self.nodes.keys().copied().filter(|node| !present.contains(node)).collect();
        for node in lost {
            let known = self.nodes.remove(&node).filter(|known| !known.ranks.is_empty());
            self.lost.push(Lost { node, known, purpose });
        }
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
        self.lose(&present, purpose);
        if is_quick {
            let way = |one: &Answered| one.exchange.received_ticks.saturating_sub(one.exchange.sent_ticks);
            self.round_trip_ticks = self.round_trip_ticks.max(answered.iter().map(way).max().unwrap_or(0));
        }
        self.clocks_seen(&answered);
        if answered.is_empty() { Err(Error::NoNode { purpose }) } else { Ok(answered) }
    }

    /// Answers of the window's beginning bound what its nodes' clocks showed then, however long they took.
    fn clocks_seen(&mut self, answered: &[Answered]) {
        let Some(beginning) = &self.beginning else { return };
        let last_ticks = beginning.at_ticks.saturating_add((BEGINNING_SECONDS * self.lead_per_second) as u64);
        for one in answered.iter().filter(|one| one.exchange.received_ticks <= last_ticks) {
            let (known, per_second) = (self.nodes.get_mut(&one.node), beginning.per_second.get(&one.node));
            let (Some(known), Some(node_per_second)) = (known, per_second.copied()) else { continue };
            known.exchanges.push(one.exchange);
            if known.exchanges.len() > KEPT_MAX {
                known.exchanges.sort_by_key(|one| one.received_ticks.saturating_sub(one.sent_ticks));
                known.exchanges.truncate(KEPT_MAX);
            }
            if let Some(reading) = Reading::of(&known.exchanges, self.lead_per_second, node_per_second) {
                known.relation = Relation::begun(reading, self.lead_per_second, node_per_second);
            }
        }
    }

    /// Learns what the nodes' clocks show.
    fn begin_clocks(&mut self, clock: &Clock) -> Result<(), Error> {
        self.lead_per_second = clock.ticks_per_second();
        let at_ticks = ticks();
        let exchanges = self.read_clocks(AT_BEGINNING)?;
        let per_second = exchanges.iter().map(|(node, (_, per_second))| (*node, *per_second)).collect();
        for (node, (reading, node_per_second)) in readings_of(&exchanges, self.lead_per_second) {
            if let Some(known) = self.nodes.get_mut(&node) {
                known.relation = Relation::begun(reading, self.lead_per_second, node_per_second);
            }
        }
        for (node, (exchanges, _)) in exchanges {
            if let Some(known) = self.nodes.get_mut(&node) {
                known.exchanges = exchanges;
            }
        }
        self.beginning = Some(Beginning { at_ticks, per_second });
        Ok(())
    }

    /// Learns how the nodes' clocks went since the window began.
    pub(crate) fn end_clocks(&mut self) -> Result<(), Error> {
        if self.is_here() {
            return Ok(());
        }
        self.beginning = None;
        let exchanges = self.read_clocks(AT_END)?;
        for (node, (reading, _)) in readings_of(&exchanges, self.lead_per_second) {
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

    /// Several exchanges with each node, and its ticks per second.
    fn read_clocks(&mut self, rounds: Rounds) -> Result<BTreeMap<u32, (Vec<Exchange>, f64)>, Error> {
        let mut exchanges: BTreeMap<u32, (Vec<Exchange>, f64)> = BTreeMap::new();
        let lead_per_second = self.lead_per_second;
        let begun_ticks = ticks();
        for round in 0..EXCHANGES_MAX {
            // Nodes may measure their clocks' rates in the first one: how long it takes says little if there are more.
            if round == 1 {
                self.round_trip_ticks = 0;
            }
            for one in self.send(Request::Time)? {
                let Answer::Time { ticks_per_second } = one.answer else { continue };
                let known = exchanges.entry(one.node).or_default();
                known.0.push(one.exchange);
                known.1 = ticks_per_second;
            }
            let is_long = ticks().saturating_sub(begun_ticks) as f64 > rounds.seconds_max * lead_per_second;
            let enough_ticks = (ERROR_SECONDS_ENOUGH * lead_per_second) as u64;
            let is_near = readings_of(&exchanges, lead_per_second).all(|(_, (one, _))| one.error_ticks <= enough_ticks);
            let (may_end, may_do) = (round + 1 >= rounds.rounds_min, round + 1 >= rounds.enough_rounds);
            if (may_end && is_long) || (may_do && is_near) {
                break;
            }
        }
        Ok(exchanges)
    }

    /// Longest time in which all nodes answered something that takes no time.
    pub(crate) fn round_trip_s(&self, ticks_per_second: f64) -> f64 {
        self.round_trip_ticks as f64 / ticks_per_second
    }

    pub(crate) fn is_here(&self) -> bool {
        self.crew.is_here()
    }

    pub(crate) fn events_max(&self) -> u32 {
        if self.is_here() { u32::MAX } else { EVENTS_MAX }
    }

    pub(crate) fn events_most(&self) -> u32 {
        self.events_max().max(EVENTS_ALL_RANKS / u32::try_from(self.rank_total().max(1)).unwrap_or(u32::MAX))
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

    /// The ranks that are missing in the results, one sentence for each node.
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

/// Says which ranks a window is without because they lack a function, so that nobody takes silence for zero.
fn lacking_warning(host: &str, lacking: &Lacking) -> String {
    let Lacking { pattern, ranks, program, .. } = lacking;
    let (word, has) = if ranks.len() == 1 { ("rank", "has") } else { ("ranks", "have") };
    format!(
        "{word} {} on {host} ({program}) {has} no function {pattern}, or no symbol of it: nothing of this node is in the window, \
         which is of the others",
        name_ranks(ranks)
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Envelope, Reply};
    use std::time::Duration;

    /// How far a node's clock is ahead of the lead's.
    const AHEAD_TICKS: u64 = 1 << 44;

    /// Two nodes that are on a machine like this one, and how long their answers take.
    struct Played {
        way: Duration,
        asked: Vec<Request>,
    }

    impl Crew for Played {
        fn nodes(&self) -> Vec<u32> {
            vec![3, 5]
        }

        fn ask(&mut self, command: &Command) -> Vec<Reply> {
            self.asked.push(command.request.clone());
            let sent_ticks = ticks();
            let answer = |node| {
                // The way there takes all of it.
                std::thread::sleep(self.way);
                let answer = match &command.request {
                    Request::Time => Answer::Time { ticks_per_second: per_second() },
                    _ => Answer::Furthest(7),
                };
                let envelope = Envelope { ticks: ticks() + AHEAD_TICKS, result: Ok(answer) };
                Reply::of(node, envelope, sent_ticks, ticks())
            };
            self.nodes().into_iter().map(answer).collect()
        }
    }

    fn per_second() -> f64 {
        static CLOCK: std::sync::OnceLock<Clock> = std::sync::OnceLock::new();
        CLOCK.get_or_init(Clock::start).ticks_per_second()
    }

    fn begun(crew: &mut Played) -> Membership<'_> {
        let mut membership = Membership::new(crew, WindowId(1));
        membership.begin_clocks(&Clock::start()).expect("they answer");
        membership
    }

    /// How far a node's clock may be off, seconds; it is off by no more.
    fn error_s(membership: &Membership<'_>, node: u32) -> f64 {
        let now = ticks();
        let told = membership.relation(node).to_lead(now + AHEAD_TICKS);
        assert!(told.ticks.abs_diff(now) <= told.error_ticks, "the bound holds");
        told.error_ticks as f64 / per_second()
    }

    #[test]
    fn where_answers_take_long_nobody_waits_for_many() {
        let mut crew = Played { way: Duration::from_millis(15), asked: Vec::new() };
        let membership = begun(&mut crew);
        for node in [3, 5] {
            let error_s = error_s(&membership, node);
            assert!((0.005..10.0).contains(&error_s), "{error_s}");
        }
        assert_eq!(crew.asked, vec![Request::Time; AT_BEGINNING.rounds_min]);
    }

    #[test]
    fn answers_to_whatever_is_asked_say_what_clocks_show() {
        let mut crew = Played { way: Duration::from_millis(2), asked: Vec::new() };
        let mut membership = begun(&mut crew);
        let kept = |membership: &Membership<'_>| membership.nodes[&5].exchanges.len();
        let (before_s, before) = (error_s(&membership, 5), kept(&membership));
        membership.tell(Request::Furthest).expect("they answer");
        assert!(error_s(&membership, 5) <= before_s + 1e-4, "more bounds are never worse");
        assert_eq!(kept(&membership), before + 1);
        (0..KEPT_MAX).for_each(|_| membership.tell(Request::Furthest).expect("they answer"));
        assert_eq!(kept(&membership), KEPT_MAX);
        // Later exchanges say how clocks went since, not what they showed.
        membership.beginning = membership.beginning.map(|beginning| Beginning { at_ticks: 0, ..beginning });
        let (relation, count) = (membership.relation(5), kept(&membership));
        membership.tell(Request::Furthest).expect("they answer");
        assert_eq!((membership.relation(5), kept(&membership)), (relation, count));
    }

    #[test]
    fn quick_answers_are_asked_for_until_clocks_are_known_well() {
        let mut crew = Played { way: Duration::ZERO, asked: Vec::new() };
        begun(&mut crew);
        assert!((AT_BEGINNING.rounds_min..=EXCHANGES_MAX).contains(&crew.asked.len()), "{}", crew.asked.len());
        assert!(crew.asked.iter().all(|request| *request == Request::Time));
    }
}
