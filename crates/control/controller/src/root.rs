//! The controller's place in the tree: it notifies agents, and hears what they say of themselves.
//!
//! Each question is a stream of its own, opened for whoever is asked and closed when they have answered or their time is
//! over; between questions nothing but beats is in the tree. Answers come one by one and are not held up to be merged,
//! so that the time until each came is that agent's round trip.
//!
//! Next: `places` for who is where.

use crate::error::Error;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trimtab_link::blocking::Hosted;
use trimtab_link::{Address, Config, Hand, Handle, incarnation_now};
use trimtab_overlay::node::WaveResult;
use trimtab_overlay::{Busy, NodeId, Setup, StreamSpec, Sync, Told};
use trimtab_reduce::VALUE_BYTES_MAX;
use trimtab_reduce::lists::Concat;
use trimtab_reduce::{Filter, FilterSpec, RankSet, Registry};
use trimtab_site::{Identity, Notice, TIMING};
use trimtab_types::notice;

/// Whoever has not answered after so long is left out.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// An answer, and how long it took to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// From the question to the answer, in microseconds.
    pub round_trip_us: u64,
    /// The message.
    pub bytes: Vec<u8>,
}

/// The root of the tree.
pub struct Root {
    tree: u64,
    address: SocketAddr,
    hosted: Hosted,
    results: Receiver<(Instant, Box<WaveResult>)>,
}

impl Root {
    /// Begins to await agents.
    ///
    /// # Errors
    /// When the port can't be had, or the identity can't be used.
    pub fn start(identity: &Identity, listen: SocketAddr) -> Result<Self, Error> {
        let tree = tree_number();
        let config = Config {
            setup: Setup {
                id: NodeId::ROOT,
                incarnation: incarnation_now(),
                ancestors: Vec::new(),
                ranks: RankSet::EMPTY,
                timing: TIMING,
                registry: Arc::new(Registry::default()),
            },
            tree,
            listener: None,
            contacts: Vec::new(),
            credentials: Some(Arc::new(identity.credentials()?)),
        };
        let (sender, results) = channel();
        let owner = move |told: Told, _: &mut Hand<'_>| match told {
            // Nobody waits for it if this fails.
            Told::Result(result) => drop(sender.send((Instant::now(), result))),
            Told::Ranks { gained, lost } if !gained.is_empty() => {
                notice(&format!("agents {gained} joined{}", and_lost(&lost)));
            }
            Told::Ranks { lost, .. } => notice(&format!("agents {lost} are gone")),
            _ => {}
        };
        let hosted = Hosted::start(config, Some(Address::Tcp(listen)), owner)
            .map_err(|source| Error::Tree { address: listen, source })?;
        let Some(Address::Tcp(address)) = hosted.address().cloned() else { return Err(Error::NoPort) };
        Ok(Root { tree, address, hosted, results })
    }

    /// The tree's number.
    pub fn tree(&self) -> u64 {
        self.tree
    }

    /// Where agents are awaited.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The root itself, to ask something of it without waiting for other questions.
    pub fn handle(&self) -> Handle {
        self.hosted.handle().clone()
    }

    /// The members of the tree.
    pub fn members(&self) -> RankSet {
        self.hosted.handle().members()
    }

    /// How many agents call the controller itself.
    pub fn child_count(&self) -> usize {
        self.hosted.handle().children().len()
    }

    /// The latest thing that went wrong with a connection.
    pub fn trouble(&self) -> Option<String> {
        self.hosted.handle().troubles().last().map(|trouble| format!("{}: {}", trouble.with, trouble.what))
    }

    /// Notifies some agents and waits for their answers, for a second at most.
    ///
    /// # Errors
    /// When too many commands are on their way.
    pub fn notify(&mut self, notify: &Notice, at: RankSet) -> Result<BTreeMap<u32, Answer>, Busy> {
        let at = at.intersection(&self.members());
        let mut answers = BTreeMap::new();
        if at.is_empty() {
            return Ok(answers);
        }
        while self.results.try_recv().is_ok() {}
        let concat = Concat { byte_count_max: VALUE_BYTES_MAX as u32 };
        let handle = self.hosted.handle();
        let filter = FilterSpec::Concat(concat.byte_count_max);
        let stream = handle.open(StreamSpec { target: at.clone(), filter, sync: Sync::DontWait })?;
        let payload = postcard::to_allocvec(notify).unwrap_or_default();
        let asked = Instant::now();
        let sent = handle.multicast(stream, at.clone(), payload);
        while sent.is_ok() && (answers.len() as u64) < at.rank_count() {
            let left = ANSWER_MAX.saturating_sub(asked.elapsed());
            let Ok((came, result)) = self.results.recv_timeout(left) else { break };
            if result.stream != stream {
                continue;
            }
            let round_trip_us = came.saturating_duration_since(asked).as_micros() as u64;
            // Bytes that are no list of answers are nobody's.
            for (rank, bytes) in concat.decode(&result.value).unwrap_or_default() {
                answers.entry(rank.0).or_insert(Answer { round_trip_us, bytes });
            }
        }
        handle.close(stream)?;
        sent.map(|()| answers)
    }
}

fn and_lost(lost: &RankSet) -> String {
    if lost.is_empty() { String::new() } else { format!(", {lost} are gone") }
}

/// A number that no other tree has that an agent may meet.
fn tree_number() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id())
}
