//! The crew of a window or a script whose nodes are agents.
//!
//! Next: `trimtab_measure::measure_with` and `trimtab_script::Probing`, which ask it.

use crate::error::Error;
use crate::lead::{Answers, Lead};
use crate::parts::{self, Carried, Parts};
use crate::talk::{Ask, Present, Say};
use crate::values::{self, Values, Variable};
use std::collections::BTreeMap;
use std::time::Duration;
use trimtab_engine::FarCrew;
use trimtab_measure::{Answer, Command, Crew, Envelope, Failed, FailedKind, Options, Replied, Reply};
use trimtab_reduce::{Filter, RankSet, VALUE_BYTES_MAX};
use trimtab_script::{self as script, Merged, Named, Nodes as _};
use trimtab_types::Rank;

/// Agents that have ranks of the job.
pub struct Remote<'l, 'a> {
    lead: &'l mut Lead<'a>,
    /// Agents with ranks, by position.
    present: BTreeMap<usize, Present>,
    /// Troubles on the way, for whoever shows the report.
    troubles: Vec<String>,
    /// Bytes of a script's variables at the last question about it: those that stay as long when they merge with others', at
    /// most, and those that add up.
    bytes: (u64, u64),
}

/// Bytes of messages that all agents together may send in one answer: a wave's worth.
const MESSAGES_BYTES_MAX: usize = VALUE_BYTES_MAX / 2;
/// Least that each may send.
const MESSAGES_BYTES_MIN: usize = 512;
/// Between two questions about a script.
const ASK_EVERY: Duration = Duration::from_millis(50);

impl<'l, 'a> Remote<'l, 'a> {
    /// The crew of all agents that have ranks, for which it waits so long at most.
    ///
    /// # Errors
    /// [`Error::NoRanks`] if none has.
    pub fn gather(lead: &'l mut Lead<'a>, wait: Duration) -> Result<Self, Error> {
        let present = lead.gather_agents(wait)?;
        Ok(Remote { lead, present, troubles: Vec::new(), bytes: (0, 0) })
    }

    /// Asks all agents; who is to put something in shares the symbols before. Answers of those that have ranks.
    fn asked(&mut self, ask: Ask, needs: Option<Option<&Options>>) -> Answers {
        let shared = needs.map_or(Ok(0), |options| self.lead.share_symbols(options));
        let answers = match shared {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            shared => {
                // It would only have spared the others the reading.
                self.troubles.extend(shared.err().map(|error| error.to_string()));
                self.lead.ask(ask)
            }
        };
        match answers {
            Ok(mut answers) => {
                answers.said.retain(|index, _| self.present.contains_key(index));
                if needs.is_some() && answers.said.is_empty() {
                    self.troubles.push(self.lead.said());
                }
                answers
            }
            Err(error) => {
                // Whoever interrupted knows.
                self.troubles.extend(
                    Some(error).filter(|error| !matches!(error, Error::Interrupted)).map(|error| error.to_string()),
                );
                Answers::default()
            }
        }
    }

    /// The variables, merged in the tree; `None` if that can't be done.
    fn merged(&mut self) -> Result<Option<(Vec<Variable>, RankSet)>, Error> {
        let Some(result) = self.lead.ask_merged(Ask::Values, values::filter())? else { return Ok(None) };
        let variables = Values.decode(&result.value).map_err(|_| Error::Malformed { what: "a script's variables" })?;
        Ok(Some((variables, result.covers)))
    }

    /// The merged value as a reply of the nodes that it is of, and one for each that failed.
    fn replied(&self, carried: Carried, covers: &RankSet) -> Vec<Replied> {
        let Carried { part, failed } = carried;
        let now = trimtab_os::ticks();
        let is_of = |node: &u32| covers.contains(Rank(*node)) && !failed.contains_key(node);
        let of: Vec<u32> = self.present.keys().map(|index| *index as u32).filter(is_of).collect();
        let reply = |node: u32, result| Reply::of(node, Envelope { ticks: now, result }, now, now);
        let merged = part.zip(of.first().copied());
        let merged = merged.map(|(part, first)| (of, reply(first, Ok(Answer::Part(part)))));
        let failed = failed.into_iter().map(|(node, why)| (vec![node], reply(node, Err(why))));
        merged.into_iter().chain(failed).collect()
    }

    /// The variables of all agents, merged here: too long for one value of the tree.
    fn collected(&mut self, nodes: &[u32]) -> Result<Merged, Error> {
        let mut answers = self.lead.ask(Ask::Values)?.said;
        let (mut merged, mut all) = (Values.identity(), Merged::default());
        for node in nodes {
            let Some(Say::Values(counted)) = answers.remove(&(*node as usize)) else { continue };
            all.of.push(*node);
            if let Err(bad) = Values.merge(&mut merged, counted) {
                all.warnings.push(format!("{}: {bad}", self.host_of(*node)));
            }
        }
        all.values = merged.into_iter().map(Named::from).collect();
        Ok(all)
    }
}

/// The reply that an agent's words are; `None`: they are none.
fn reply(node: u32, say: Say, sent_ticks: u64, received_ticks: u64) -> Option<Reply> {
    let envelope = match say {
        Say::Window(envelope) => *envelope,
        // A step that can't be done there ends the window as it would here.
        Say::No { host, reason, .. } => {
            let result = Err(Failed { host, text: reason, kind: FailedKind::Other });
            Envelope { ticks: received_ticks, result }
        }
        _ => return None,
    };
    Some(Reply::of(node, envelope, sent_ticks, received_ticks))
}

impl FarCrew for Remote<'_, '_> {
    fn present(&self) -> &BTreeMap<usize, Present> {
        &self.present
    }

    fn take_troubles(&mut self) -> Vec<String> {
        std::mem::take(&mut self.troubles)
    }
}

impl Crew for Remote<'_, '_> {
    fn nodes(&self) -> Vec<u32> {
        self.present.keys().map(|index| *index as u32).collect()
    }

    fn ask(&mut self, command: &Command) -> Vec<Reply> {
        let needs = command.request.inserts().map(Some);
        let answers = self.asked(Ask::Window(Box::new(command.clone())), needs);
        let (sent, received) = (answers.sent_ticks, answers.received_ticks);
        let replies = answers.said.into_iter();
        replies.filter_map(|(index, say)| reply(index as u32, say, sent, received)).collect()
    }

    /// One reply for all that could be merged in the tree. If a node's value is not in it, as one that is too long is not, all
    /// are asked for theirs: each has the same answer again.
    fn ask_merged(&mut self, command: &Command) -> Vec<Replied> {
        let asked = self.lead.ask_merged(Ask::Window(Box::new(command.clone())), parts::filter());
        let carried = asked.and_then(|answered| match answered {
            None => Ok(None),
            Some(result) => {
                let carried = Parts.decode(&result.value).map_err(|_| Error::Malformed { what: "a window's sums" })?;
                Ok(Some((carried, result.covers)))
            }
        });
        let here = self.lead.agents();
        let is_whole = |covers: &RankSet| {
            self.present.keys().all(|index| covers.contains(Rank(*index as u32)) || !here.contains(index))
        };
        match carried {
            Ok(Some((carried, covers))) if is_whole(&covers) => self.replied(carried, &covers),
            carried => {
                self.troubles.extend(carried.err().map(|error| error.to_string()));
                Crew::<Command>::ask(self, command).into_iter().map(|reply| (vec![reply.node], reply)).collect()
            }
        }
    }
}

impl Crew<script::Command> for Remote<'_, '_> {
    fn nodes(&self) -> Vec<u32> {
        Crew::<Command>::nodes(self)
    }

    fn ask(&mut self, command: &script::Command) -> Vec<Reply<script::Command>> {
        let needs = matches!(command, script::Command::Start(_)).then_some(None);
        let answers = self.asked(Ask::Script(Box::new(command.clone())), needs);
        self.bytes = (0, 0);
        let moments = [answers.sent_ticks, answers.received_ticks, answers.received_ticks];
        let mut replies = Vec::new();
        for (index, say) in answers.said {
            let result = match say {
                Say::Script { envelope, fixed_bytes, growing_bytes } => {
                    self.bytes = (self.bytes.0.max(fixed_bytes), self.bytes.1.saturating_add(growing_bytes));
                    *envelope
                }
                Say::No { host, reason, .. } => Err(script::Failed { host, text: reason, lacking: None }),
                _ => continue,
            };
            replies.push(Reply::new(index as u32, moments, result.map_err(script::Error::There)));
        }
        replies
    }
}

impl script::Nodes for Remote<'_, '_> {
    fn host_of(&self, node: u32) -> String {
        self.lead.name_of(node as usize).to_owned()
    }

    fn message_bytes_max(&self, nodes: usize) -> u32 {
        (MESSAGES_BYTES_MAX / nodes.max(1)).max(MESSAGES_BYTES_MIN) as u32
    }

    fn wait(&self, limit: Option<Duration>) {
        std::thread::sleep(limit.map_or(ASK_EVERY, |limit| limit.min(ASK_EVERY)));
    }

    fn values(&mut self, nodes: &[u32]) -> Result<Merged, script::Error> {
        let unmerged = |error: Error| script::Error::Unmerged { said: error.to_string() };
        let fits = self.bytes.0.saturating_add(self.bytes.1) <= VALUE_BYTES_MAX as u64;
        let merged = if fits { self.merged().map_err(unmerged)? } else { None };
        let Some((variables, covers)) = merged else { return self.collected(nodes).map_err(unmerged) };
        let of = nodes.iter().copied().filter(|node| covers.contains(Rank(*node))).collect();
        Ok(Merged { values: variables.into_iter().map(Named::from).collect(), of, warnings: Vec::new() })
    }
}
