//! A script in a job's processes, wherever they are, as whoever wants it sees it.
//!
//! It is in where all nodes with chosen ranks say so; if one can't, it comes out everywhere and the reasons are told. Nodes
//! whose ranks merely lack what it names are left out and named, as long as others have it. A node that does not answer any
//! more is lost: its ranks go on, its probes go with its lease, and what it counted is missing, which the summary says.
//!
//! Next: `node` for one machine's part.

use crate::error::{Error, Failed};
use crate::message::Message;
use crate::node::ScriptNode;
use crate::request::{Answer, Command, Finished, Poll, Start, Started, Summary};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use trimtab_measure::{Crew, Here};
use trimtab_snippet::values::Named;

/// Nodes that scripts can go into.
pub trait Nodes: Crew<Command> {
    /// A node's machine.
    fn host_of(&self, node: u32) -> String;

    /// Bytes of messages that each of so many nodes may send at once.
    fn message_bytes_max(&self, nodes: usize) -> u32;

    /// Waits until it is worth asking again, so long at most.
    fn wait(&self, limit: Option<Duration>);

    /// The values that are left on these nodes, as one.
    ///
    /// # Errors
    /// They can't be merged.
    fn values(&mut self, nodes: &[u32]) -> Result<Merged, Error>;
}

/// Values of several nodes.
#[derive(Debug, Default)]
pub struct Merged {
    /// The variables.
    pub values: Vec<Named>,
    /// The nodes that are in them.
    pub of: Vec<u32>,
    /// Values that could not be merged, a sentence each.
    pub warnings: Vec<String>,
}

impl Nodes for Here<ScriptNode<'_>> {
    fn host_of(&self, _node: u32) -> String {
        trimtab_measure::host_name()
    }

    fn message_bytes_max(&self, _nodes: usize) -> u32 {
        u32::MAX
    }

    fn wait(&self, limit: Option<Duration>) {
        self.node.wait(limit);
    }

    fn values(&mut self, nodes: &[u32]) -> Result<Merged, Error> {
        Ok(Merged { values: self.node.values().to_vec(), of: nodes.to_vec(), warnings: Vec::new() })
    }
}

/// A script that is in; it is taken out with the crew.
pub struct Probing<'c> {
    crew: &'c mut dyn Nodes,
    /// Nodes whose processes it is in.
    started: BTreeMap<u32, Started>,
    since: Instant,
    lost: BTreeSet<u32>,
    has_more: bool,
    /// Ranks that have no place for it, for the summary.
    not_probed: Vec<String>,
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

impl<'c> Probing<'c> {
    /// Puts a script into the chosen processes of all nodes that have some.
    ///
    /// # Errors
    /// It can't go into all of them, or is for none; then it is in none.
    pub fn start(crew: &'c mut dyn Nodes, start: Start) -> Result<Self, Error> {
        let (ranks, size) = (start.ranks.to_string(), start.size);
        let mut replies: BTreeMap<u32, Result<Answer, Error>> =
            crew.ask(&Command::Start(Box::new(start))).into_iter().map(|reply| (reply.node, reply.result)).collect();
        let (mut started, mut lacking, mut failed) = (BTreeMap::new(), Vec::new(), Vec::new());
        for node in crew.nodes() {
            match replies.remove(&node) {
                Some(Ok(Answer::Started(own))) => drop((own.processes > 0).then(|| started.insert(node, own))),
                Some(Err(error)) if error.is_of_places() => lacking.push(error),
                Some(Err(error)) => failed.push(error),
                Some(Ok(_)) | None => {
                    let text = "its agent did not answer when asked to put the script in".to_owned();
                    failed.push(Error::There(Failed { host: crew.host_of(node), text, lacking: None }));
                }
            }
        }
        if failed.is_empty() && !started.is_empty() {
            let (since, not_probed) = (Instant::now(), not_probed(&lacking));
            return Ok(Probing { crew, started, since, lost: BTreeSet::new(), has_more: false, not_probed });
        }
        let failed = if failed.is_empty() { lacking } else { failed };
        if !crew.is_here() {
            crew.ask(&Command::Finish);
        }
        Err(Error::of_all(failed).unwrap_or(Error::NoRank { ranks, last: size.unwrap_or(1).saturating_sub(1) }))
    }

    /// All that went in, over all nodes.
    pub fn started(&self) -> Started {
        let all = || self.started.values();
        let refused: BTreeSet<_> = all().flat_map(|started| &started.refused).collect();
        let awaited: BTreeSet<_> = all().flat_map(|started| &started.awaited).collect();
        Started {
            processes: all().map(|started| started.processes).sum(),
            ranks: all().flat_map(|started| &started.ranks).copied().collect(),
            functions: all().map(|started| started.functions).max().unwrap_or(0),
            refused: refused.into_iter().cloned().collect(),
            awaited: awaited.into_iter().cloned().collect(),
            wanted: all().find_map(|started| started.wanted),
        }
    }

    /// Time since it is in.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// The news.
    ///
    /// # Errors
    /// Nobody answers any more.
    pub fn poll(&mut self) -> Result<Poll, Error> {
        let bytes_max = self.crew.message_bytes_max(self.started.len());
        let mut poll = Poll::default();
        for answer in self.asked(&Command::Poll { bytes_max }) {
            let (_, Answer::Polled(own)) = answer else { continue };
            poll.messages.extend(own.messages);
            poll.stopped |= own.stopped;
            poll.has_new_handler |= own.has_new_handler;
            poll.alive += own.alive;
            poll.has_more |= own.has_more;
        }
        self.has_more = poll.has_more;
        if self.living().is_empty() { Err(Error::Lost { said: self.lost_text() }) } else { Ok(poll) }
    }

    /// Waits until it is worth looking again, so long at most; not if more messages wait than one answer held.
    pub fn wait(&self, limit: Option<Duration>) {
        if !self.has_more {
            self.crew.wait(limit);
        }
    }

    /// Takes it out.
    ///
    /// # Errors
    /// Its values can't be had.
    pub fn finish(mut self) -> Result<Left, Error> {
        let (mut messages, mut summary) = (Vec::new(), Summary::default());
        for (node, answer) in self.asked(&Command::Finish) {
            let Answer::Finished(finished) = answer else { continue };
            let Finished { messages: last, summary: mut own } = *finished;
            messages.extend(last);
            if !self.crew.is_here() {
                let host = self.crew.host_of(node);
                own.warnings.iter_mut().for_each(|warning| *warning = format!("{host}: {warning}"));
            }
            summary = summary.and(own);
        }
        let living = self.living();
        let Merged { values, of, warnings } = self.crew.values(&living)?;
        self.lost.extend(living.into_iter().filter(|node| !of.contains(node)));
        summary.warnings.extend(warnings);
        summary.warnings.append(&mut self.not_probed);
        if !self.lost.is_empty() {
            summary.warnings.push(self.lost_text());
        }
        Ok(Left { messages, values, summary })
    }

    /// The answers of nodes that have answered everything so far; the others are lost.
    fn asked(&mut self, command: &Command) -> Vec<(u32, Answer)> {
        let replies = self.crew.ask(command).into_iter();
        let mut answers: BTreeMap<u32, Answer> =
            replies.filter_map(|reply| Some((reply.node, reply.result.ok()?))).collect();
        let living = self.living();
        self.lost.extend(living.iter().filter(|node| !answers.contains_key(node)));
        living.into_iter().filter_map(|node| Some((node, answers.remove(&node)?))).collect()
    }

    fn living(&self) -> Vec<u32> {
        self.started.keys().copied().filter(|node| !self.lost.contains(node)).collect()
    }

    fn lost_text(&self) -> String {
        let hosts: Vec<String> = self.lost.iter().map(|node| self.crew.host_of(*node)).collect();
        let ranks = self.lost.iter().filter_map(|node| self.started.get(node)).flat_map(|started| &started.ranks);
        let ranks: Vec<String> = ranks.map(u32::to_string).collect();
        format!(
            "{} did not answer any more: what ranks {} counted there is missing, and the probes take themselves out",
            hosts.join(", "),
            ranks.join(", ")
        )
    }
}

/// Says which ranks are not probed and why, those with the same reason together.
fn not_probed(lacking: &[Error]) -> Vec<String> {
    let mut ranks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for error in lacking {
        let Error::There(Failed { host, lacking: Some(lacking), .. }) = error else { continue };
        let named = lacking.ranks.iter().map(|rank| format!("rank {rank} on {host}"));
        ranks.entry(&lacking.reason).or_default().extend(named);
    }
    ranks.into_iter().map(|(reason, ranks)| format!("not probed: {}: {reason}", ranks.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Lacking;
    use trimtab_measure::Reply;

    /// Nodes with two ranks each, which answer as `answer` says; `None`: nothing.
    struct Played {
        nodes: u32,
        answer: fn(u32, &Command) -> Option<Result<Answer, Error>>,
        finished: usize,
    }

    impl Crew<Command> for Played {
        fn nodes(&self) -> Vec<u32> {
            (0..self.nodes).collect()
        }

        fn ask(&mut self, command: &Command) -> Vec<Reply<Command>> {
            self.finished += usize::from(*command == Command::Finish);
            let reply = |node| Some(Reply::new(node, [0; 3], (self.answer)(node, command)?));
            (0..self.nodes).filter_map(reply).collect()
        }
    }

    impl Nodes for Played {
        fn host_of(&self, node: u32) -> String {
            format!("n{node}")
        }

        fn message_bytes_max(&self, _nodes: usize) -> u32 {
            512
        }

        fn wait(&self, _limit: Option<Duration>) {}

        fn values(&mut self, nodes: &[u32]) -> Result<Merged, Error> {
            Ok(Merged { of: nodes.to_vec(), ..Merged::default() })
        }
    }

    fn start() -> Start {
        Start { options: crate::ScriptOptions::default(), ranks: "0-5".parse().expect("ranks"), size: Some(6) }
    }

    fn answered(node: u32, command: &Command) -> Answer {
        match command {
            Command::Start(_) => {
                let ranks = vec![2 * node, 2 * node + 1];
                Answer::Started(Started { processes: 2, ranks, functions: 1, ..Started::default() })
            }
            Command::Poll { .. } => Answer::Polled(Poll { alive: 2, ..Poll::default() }),
            Command::Finish => Answer::Finished(Box::default()),
        }
    }

    fn lacks(node: u32) -> Error {
        let lacking = Some(Lacking { ranks: vec![2 * node, 2 * node + 1], reason: "no f".to_owned() });
        Error::There(Failed { host: format!("n{node}"), text: "1: no f".to_owned(), lacking })
    }

    #[test]
    fn who_lacks_a_place_is_left_out_and_who_falls_silent_is_lost() {
        let answer = |node, command: &Command| match (node, command) {
            (1, _) => Some(Err(lacks(1))),
            (2, Command::Finish) => None,
            _ => Some(Ok(answered(node, command))),
        };
        let mut crew = Played { nodes: 3, answer, finished: 0 };
        let mut probing = Probing::start(&mut crew, start()).expect("it is in");
        let started = probing.started();
        assert_eq!((started.processes, started.ranks, started.functions), (4, vec![0, 1, 4, 5], 1));
        assert_eq!(probing.poll().expect("they answer").alive, 4);
        let warnings = probing.finish().expect("it is out").summary.warnings;
        let lost =
            "n2 did not answer any more: what ranks 4, 5 counted there is missing, and the probes take themselves out";
        assert_eq!(warnings, ["not probed: rank 2 on n1, rank 3 on n1: no f", lost]);
    }

    #[test]
    fn a_script_that_can_not_go_in_everywhere_comes_out_everywhere() {
        let refused = |answer| {
            let mut crew = Played { nodes: 3, answer, finished: 0 };
            let error = Probing::start(&mut crew, start()).err().expect("it is refused").to_string();
            (error, crew.finished)
        };
        assert_eq!(refused(|node, _| Some(Err(lacks(node)))), ("on n0: 1: no f".to_owned(), 1));
        let none = "no rank of the job is in `0-5`; it has ranks 0 to 5".to_owned();
        assert_eq!(refused(|_, _| Some(Ok(Answer::Started(Started::default())))), (none, 1));
        let silent = "on n2: its agent did not answer when asked to put the script in".to_owned();
        let one_is_silent = |node, command: &Command| (node < 2).then(|| Ok(answered(node, command)));
        assert_eq!(refused(one_is_silent), (silent, 1));
    }
}
