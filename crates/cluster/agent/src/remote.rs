//! The crew of a window whose nodes are agents.
//!
//! Next: `trimtab_measure::measure_with`, which asks it.

use crate::error::Error;
use crate::lead::{Answers, Lead};
use crate::talk::{Ask, Present, Say};
use std::collections::BTreeMap;
use std::time::Duration;
use trimtab_engine::FarCrew;
use trimtab_measure::{Command, Crew, Envelope, Failed, FailedKind, Reply};

/// Agents that have ranks of the job.
pub struct Remote<'l, 'a> {
    lead: &'l mut Lead<'a>,
    /// Agents with ranks, by position.
    present: BTreeMap<usize, Present>,
    /// Troubles on the way, for whoever shows the report.
    troubles: Vec<String>,
}

impl<'l, 'a> Remote<'l, 'a> {
    /// The crew of all agents that have ranks, for which it waits so long at most.
    ///
    /// # Errors
    /// [`Error::NoRanks`] if none has.
    pub fn muster(lead: &'l mut Lead<'a>, wait: Duration) -> Result<Self, Error> {
        let present = lead.muster(wait)?;
        Ok(Remote { lead, present, troubles: Vec::new() })
    }

    fn ask_lead(&mut self, command: &Command) -> Result<Answers, Error> {
        if let Some(options) = command.request.inserts() {
            match self.lead.share_symbols(Some(options)) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                // It would only have spared the others the reading.
                Err(error) => self.troubles.push(error.to_string()),
                Ok(_) => {}
            }
        }
        self.lead.ask(Ask::Window(Box::new(command.clone())))
    }

    fn replies(&mut self, answers: Answers, is_insert: bool) -> Vec<Reply> {
        let (sent, received) = (answers.sent_ticks, answers.received_ticks);
        let with_ranks = answers.said.into_iter().filter(|(index, _)| self.present.contains_key(index));
        let replies = with_ranks.filter_map(|(index, say)| reply(index as u32, say, sent, received));
        let replies: Vec<Reply> = replies.collect();
        if is_insert && replies.is_empty() {
            self.troubles.push(self.lead.said());
        }
        replies
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
        let is_insert = command.request.inserts().is_some();
        match self.ask_lead(command) {
            Ok(answers) => self.replies(answers, is_insert),
            // Whoever interrupted knows.
            Err(Error::Interrupted) => Vec::new(),
            Err(error) => {
                self.troubles.push(error.to_string());
                Vec::new()
            }
        }
    }
}
