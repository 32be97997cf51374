//! The user's end of a script that runs on many nodes.
//!
//! It is in where all agents with chosen ranks say so; if one can't, it comes out everywhere and the reasons are told. Nodes
//! whose ranks merely lack what it names are left out and named, as long as others have it. An agent that does not answer any more is lost: its ranks go on, its probes go with its lease, and what it counted is
//! missing, which the summary says.
//!
//! Next: `serve` for an agent's part.

use super::{Answer, Command, Lacking, Polled, Start, Started, Variable, filter, values};
use crate::error::Error;
use crate::lead::Lead;
use crate::talk::{Ask, Present, Say};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use trimtab_engine::{BoxError, Left};
use trimtab_reduce::Filter;
use trimtab_reduce::VALUE_BYTES_MAX;
use trimtab_script::{Message, Named, Poll, Refusal, Summary};
use trimtab_types::Rank;

/// Bytes of messages that all agents together may send in one answer: a wave's worth.
const MESSAGES_BYTES_MAX: usize = VALUE_BYTES_MAX / 2;
/// Between two questions.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Least that each may send.
const MESSAGES_BYTES_MIN: usize = 512;

/// A script that runs in a job's ranks on many nodes.
pub struct Probing<'l, 'a> {
    lead: &'l mut Lead<'a>,
    /// Agents whose ranks it is in.
    started: BTreeMap<usize, Started>,
    since: Instant,
    lost: BTreeSet<usize>,
    has_more: bool,
    /// Ranks that have no place for it, for the summary.
    not_probed: Vec<String>,
}

impl<'l, 'a> Probing<'l, 'a> {
    /// Puts a script into the chosen ranks of all agents that have some.
    ///
    /// # Errors
    /// [`Error::Script`] if it can't go into all of them, or is for none; then it is in none.
    pub fn start(lead: &'l mut Lead<'a>, present: &BTreeMap<usize, Present>, start: Start) -> Result<Self, Error> {
        let ranks = start.ranks.clone();
        // An agent that got nothing reads by itself; what keeps the lead from asking is said by the question that counts.
        let _shared = lead.share_symbols(None);
        let mut said = lead.ask(Ask::Script(Box::new(Command::Start(start))))?.said;
        let mut probing = Probing {
            lead,
            started: BTreeMap::new(),
            since: Instant::now(),
            lost: BTreeSet::new(),
            has_more: false,
            not_probed: Vec::new(),
        };
        let mut reasons: BTreeMap<String, String> = BTreeMap::new();
        let mut lacking: Vec<(String, Lacking)> = Vec::new();
        for (index, present) in present {
            match said.remove(index) {
                Some(Say::Script(answer)) => {
                    if let Answer::Started(mut started) = *answer {
                        lacking.extend(started.lacking.take().map(|lacking| (present.host.clone(), lacking)));
                        if !started.ranks.is_empty() {
                            probing.started.insert(*index, started);
                        }
                    }
                }
                Some(Say::No { host, reason, .. }) => drop(reasons.entry(reason).or_insert(host)),
                _ => {
                    let reason = "its agent did not answer when asked to put the script in".to_owned();
                    reasons.entry(reason).or_insert(present.host.clone());
                }
            }
        }
        probing.not_probed = not_probed(&lacking);
        if reasons.is_empty() && probing.started.is_empty() {
            reasons.extend(lacking.into_iter().map(|(host, lacking)| (lacking.shown, host)));
        }
        if reasons.is_empty() && probing.started.is_empty() {
            let all: BTreeSet<u32> = present.values().flat_map(|one| one.ranks.iter().map(|rank| rank.rank)).collect();
            let last = all.last().copied().unwrap_or(0);
            reasons.insert(format!("no rank of the job is in `{ranks}`; it has ranks 0 to {last}"), String::new());
        }
        if reasons.is_empty() {
            return Ok(probing);
        }
        let _out = probing.lead.ask(Ask::Script(Box::new(Command::Finish)));
        let said =
            |(reason, host): (String, String)| if host.is_empty() { reason } else { format!("on {host}: {reason}") };
        Err(Error::Script { reasons: reasons.into_iter().map(said).collect() })
    }

    /// The variables, merged in the tree; `None` if that can't be done.
    fn merged(&mut self) -> Result<Option<Vec<Variable>>, Error> {
        let Some(result) = self.lead.ask_merged(Ask::Values, filter())? else { return Ok(None) };
        let missing = self.living().into_iter().filter(|index| !result.covers.contains(Rank(*index as u32)));
        let missing: Vec<usize> = missing.collect();
        self.lost.extend(missing);
        values::Values.decode(&result.value).map(Some).map_err(|_| Error::Malformed { what: "a script's variables" })
    }

    /// The variables of all agents, merged here: too long for one value of the tree.
    fn collected(&mut self, summary: &mut Summary) -> Result<Vec<Variable>, Error> {
        let mut answers = self.lead.ask(Ask::Values)?.said;
        let mut merged = values::Values.identity();
        for index in self.living() {
            match answers.remove(&index) {
                Some(Say::Values(counted)) => {
                    if let Err(bad) = values::Values.merge(&mut merged, counted) {
                        summary.warnings.push(format!("{}: {bad}", self.lead.name_of(index)));
                    }
                }
                _ => drop(self.lost.insert(index)),
            }
        }
        Ok(merged)
    }

    /// Agents that have answered all that they were asked.
    fn living(&self) -> Vec<usize> {
        self.started.keys().copied().filter(|index| !self.lost.contains(index)).collect()
    }

    fn lost_text(&self) -> String {
        let names: Vec<&str> = self.lost.iter().map(|index| self.lead.name_of(*index)).collect();
        let ranks = self.lost.iter().filter_map(|index| self.started.get(index)).flat_map(|started| &started.ranks);
        let ranks: Vec<String> = ranks.map(u32::to_string).collect();
        format!(
            "{} did not answer any more: what ranks {} counted there is missing, and the probes take themselves out",
            names.join(", "),
            ranks.join(", ")
        )
    }
}

impl trimtab_engine::Probing for Probing<'_, '_> {
    fn refusals(&self) -> (usize, Vec<Refusal>) {
        let functions = self.started.values().map(|started| started.functions).max().unwrap_or(0);
        let all: BTreeSet<&(String, String)> = self.started.values().flat_map(|started| &started.refused).collect();
        let refusal =
            |(function, reason): &(String, String)| Refusal { function: function.clone(), reason: reason.clone() };
        (functions as usize, all.into_iter().map(refusal).collect())
    }

    fn awaited(&self) -> Vec<String> {
        let all: BTreeSet<&String> = self.started.values().flat_map(|started| &started.awaited).collect();
        all.into_iter().cloned().collect()
    }

    fn wanted(&self) -> Option<Duration> {
        self.started.values().find_map(|started| started.wanted_us).map(Duration::from_micros)
    }

    fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    fn poll(&mut self) -> Result<Poll, BoxError> {
        let bytes_max = (MESSAGES_BYTES_MAX / self.started.len().max(1)).max(MESSAGES_BYTES_MIN) as u32;
        let mut answers = self.lead.ask(Ask::Script(Box::new(Command::Poll { bytes_max })))?.said;
        let mut poll = Poll::default();
        self.has_more = false;
        for index in self.living() {
            let Some(Say::Script(answer)) = answers.remove(&index) else {
                self.lost.insert(index);
                continue;
            };
            let Answer::Polled(Polled { messages, has_more, is_stopped, has_new_handler, alive }) = *answer else {
                continue;
            };
            poll.messages.extend(messages.into_iter().map(Message::from));
            poll.stopped |= is_stopped;
            poll.has_new_handler |= has_new_handler;
            poll.alive += alive as usize;
            self.has_more |= has_more;
        }
        if self.living().is_empty() {
            return Err(Error::Script { reasons: vec![self.lost_text()] }.into());
        }
        Ok(poll)
    }

    fn wait(&self, limit: Option<Duration>) {
        // More messages wait at agents than one answer held.
        if !self.has_more {
            std::thread::sleep(limit.map_or(ASK_EVERY, |limit| limit.min(ASK_EVERY)));
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Left, BoxError> {
        let mut answers = self.lead.ask(Ask::Script(Box::new(Command::Finish)))?.said;
        let (mut messages, mut summary) = (Vec::new(), Summary::default());
        let (mut fixed_bytes, mut growing_bytes) = (0, 0_u64);
        for index in self.living() {
            let Some(Say::Script(answer)) = answers.remove(&index) else {
                self.lost.insert(index);
                continue;
            };
            let Answer::Finished(finished) = *answer else { continue };
            fixed_bytes = finished.fixed_bytes.max(fixed_bytes);
            growing_bytes = growing_bytes.saturating_add(finished.growing_bytes);
            messages.extend(finished.messages.into_iter().map(Message::from));
            let name = self.lead.name_of(index).to_owned();
            let mut own = finished.summary;
            own.loss.messages = own.loss.messages.saturating_add(finished.dropped);
            own.warnings.iter_mut().for_each(|warning| *warning = format!("{name}: {warning}"));
            summary = summary.and(own);
        }
        let fits = fixed_bytes.saturating_add(growing_bytes) <= VALUE_BYTES_MAX as u64;
        let counted = if fits { self.merged()? } else { None };
        let counted = counted.map_or_else(|| self.collected(&mut summary), Ok)?;
        summary.warnings.append(&mut self.not_probed);
        if !self.lost.is_empty() {
            summary.warnings.push(self.lost_text());
        }
        Ok(Left { messages, values: counted.into_iter().map(Named::from).collect(), summary })
    }
}

/// Says which ranks are not probed and why, those with the same reason together.
fn not_probed(lacking: &[(String, Lacking)]) -> Vec<String> {
    let mut ranks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (host, lacking) in lacking {
        let named = lacking.ranks.iter().map(|rank| format!("rank {rank} on {host}"));
        ranks.entry(&lacking.reason).or_default().extend(named);
    }
    ranks.into_iter().map(|(reason, ranks)| format!("not probed: {}: {reason}", ranks.join(", "))).collect()
}
