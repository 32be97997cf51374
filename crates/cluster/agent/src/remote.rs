//! The crew of a window whose nodes are agents.
//!
//! Next: `trimtab_measure::measure_with`, which asks it.

use crate::error::Error;
use crate::lead::{Answers, Lead};
use crate::talk::{Ask, Present, Say};
use std::collections::BTreeMap;
use std::time::Duration;
use trimtab_engine::FarCrew;
use trimtab_measure::wire::{Envelope, Failed, FailedKind, command_bytes};
use trimtab_measure::{Command, Crew, Reply, Request};

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

    fn ask_lead(&mut self, bytes: Vec<u8>, is_insert: bool) -> Result<Answers, Error> {
        if is_insert {
            match self.lead.share_symbols(Some(bytes.clone())) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                // It would only have spared the others the reading.
                Err(error) => self.troubles.push(error.to_string()),
                Ok(_) => {}
            }
        }
        self.lead.ask(Ask::Window(bytes))
    }

    fn replies(&mut self, answers: Answers, is_insert: bool) -> Vec<Reply> {
        let (sent, received) = (answers.sent_ticks, answers.received_ticks);
        let with_ranks: Vec<(usize, Say)> =
            answers.said.into_iter().filter(|(index, _)| self.present.contains_key(index)).collect();
        let replies = with_ranks.into_iter().filter_map(|(index, say)| self.reply(index, say, sent, received));
        let replies: Vec<Reply> = replies.collect();
        if is_insert && replies.is_empty() {
            self.troubles.push(self.lead.said());
        }
        replies
    }

    fn reply(&mut self, index: usize, say: Say, sent_ticks: u64, received_ticks: u64) -> Option<Reply> {
        match say {
            Say::Window(bytes) => match Reply::from_bytes(&bytes, sent_ticks, received_ticks) {
                Ok(reply) if reply.node == index as u32 => return Some(reply),
                Ok(_) => self.troubles.push(format!("{} answered for another node", self.lead.name_of(index))),
                Err(error) => self.troubles.push(format!("{}: {error}", self.lead.name_of(index))),
            },
            Say::No { host, reason, .. } => {
                // A step that can't be done there ends the window as it would here.
                let result = Err(Failed { host, text: reason, kind: FailedKind::Other });
                let envelope = Envelope { node: index as u32, ticks: received_ticks, result };
                return Some(Reply::of(envelope, sent_ticks, received_ticks));
            }
            _ => {}
        }
        None
    }
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
        let is_insert = matches!(command.request, Request::Insert(_) | Request::InsertAnew(_));
        let asked = command_bytes(command).map(|bytes| self.ask_lead(bytes, is_insert));
        let trouble = match asked {
            Ok(Ok(answers)) => return self.replies(answers, is_insert),
            // Whoever interrupted knows.
            Ok(Err(Error::Interrupted)) => return Vec::new(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        self.troubles.push(trouble);
        Vec::new()
    }
}
