//! A ticket tells an agent when it is started: where its lead is, who else comes, whose processes it is for.
//!
//! It comes on standard input, which nobody else can read: a line with the job's secret, then JSON to the end. Addresses
//! are numbers, looked up once by the lead. The agents are a tree by their positions in the list, so
//! that neighbours in the list share a parent.
//!
//! Next: `serve`, which is started with one; `trimtab_overlay::shape` for the tree.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
pub use trimtab_engine::Hold;
use trimtab_link::{Address, Contact, JobSecret};
use trimtab_overlay::{NodeId, shape};
use trimtab_track::slurm::{SlurmRun, Step};

/// Longest ticket: 65,536 nodes of some 60 bytes each.
const BYTES_MAX: u64 = 8 << 20;
/// Agents that call one node: few enough that it greets them all at once.
pub const FAN_OUT: usize = 32;

/// An agent's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// The node's name, as the batch system knows it.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
}

/// The processes that the agents are for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentsFor {
    /// One run of a job of Slurm.
    Slurm {
        /// The job ids that its processes have as `SLURM_JOB_ID`.
        jobs: Vec<u32>,
        /// Only this step, as Slurm writes it.
        step: Option<String>,
        /// How often it was requeued before.
        restarts: u32,
    },
    /// The processes that a launcher started here and on other machines.
    Launch {
        /// The mark that its helpers have among their words, as [`trimtab_track::Launch::mark`].
        mark: String,
        /// The owner of the job.
        uid: u32,
    },
    /// The job that one of these processes belongs to; the first that runs on the agent's host counts.
    Processes(Vec<i32>),
}

impl From<&SlurmRun> for AgentsFor {
    fn from(run: &SlurmRun) -> Self {
        let step = run.step.map(|step| step.to_string());
        AgentsFor::Slurm { jobs: run.jobs.iter().copied().collect(), step, restarts: run.restarts }
    }
}

impl AgentsFor {
    /// The run of Slurm's that is meant; `None`: another kind.
    pub fn slurm(&self) -> Option<SlurmRun> {
        let AgentsFor::Slurm { jobs, step, restarts } = self else { return None };
        let step = step.as_deref().and_then(Step::parse);
        // Slurm's list is another set of processes on each node; there they speak for themselves.
        Some(SlurmRun { jobs: jobs.iter().copied().collect(), step, restarts: *restarts, listed: None })
    }
}

/// The facts that all agents of a window have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The lead's version; another one's agent refuses.
    pub version: String,
    /// The tree's number.
    pub tree: u64,
    /// Where the lead is.
    pub lead: SocketAddr,
    /// Where an agent with children listens, on its own address.
    pub port: u16,
    /// Agents that call one node.
    pub fan_out: usize,
    /// The agents, in order.
    pub places: Vec<NodeAddress>,
    /// For whom.
    pub whose: AgentsFor,
    /// In the words of the command that the user gave.
    pub command: String,
    /// Ranks are to be held where they come out of `MPI_Init`, from the agents' first look on.
    #[serde(default)]
    pub hold: Option<Hold>,
}

impl Ticket {
    /// True if other agents call agent `index`.
    pub fn has_children(&self, index: usize) -> bool {
        shape::has_children(index, self.fan_out, self.places.len())
    }

    /// Nodes from the parent of agent `index` to the lead, and how each is reached.
    pub fn ancestors(&self, index: usize) -> Vec<(NodeId, Contact)> {
        let above = shape::above(index, self.fan_out);
        let agents = above.map(|at| (node_of(at), Contact::from(self.listens_at(at))));
        agents.chain([(NodeId::ROOT, Contact::from(Address::Tcp(self.lead)))]).collect()
    }

    /// Where agent `index` awaits its children.
    pub fn listens_at(&self, index: usize) -> Address {
        Address::Tcp(SocketAddr::new(self.places[index].address, self.port))
    }

    /// The place that an agent was given, or that of its host.
    ///
    /// # Errors
    /// [`Error::NotInvited`] if there is no such place.
    pub fn place_of(&self, given: Option<usize>, names: &[String]) -> Result<usize, Error> {
        match given {
            Some(place) if place < self.places.len() => Ok(place),
            Some(place) => self.index_of(&[format!("place {place}")]),
            None => self.index_of(names),
        }
    }

    /// The place of a host.
    ///
    /// # Errors
    /// [`Error::NotInvited`] if it has none.
    pub fn index_of(&self, names: &[String]) -> Result<usize, Error> {
        let is_here = |place: &NodeAddress| names.contains(&place.name);
        self.places.iter().position(is_here).ok_or_else(|| Error::NotInvited {
            host: names.join(" or "),
            places: self.places.iter().map(|place| place.name.clone()).collect(),
        })
    }

    /// Hands secret and ticket to an agent that is being started.
    ///
    /// # Errors
    /// When nobody reads.
    pub fn write(&self, secret: &JobSecret, to: &mut impl Write) -> Result<(), Error> {
        let mut text = Vec::new();
        secret.write(&mut text)?;
        serde_json::to_writer(&mut text, self).map_err(|error| Error::Io(error.into()))?;
        // At once: whoever passes it on is woken by each piece.
        to.write_all(&text)?;
        Ok(to.flush()?)
    }

    /// Reads them, and refuses what no lead of this version writes.
    ///
    /// # Errors
    /// [`Error::Ticket`] says what is wrong with it.
    pub fn read(from: &mut impl Read) -> Result<(JobSecret, Ticket), Error> {
        let secret = JobSecret::read(from).map_err(|error| Error::Ticket { what: error.to_string() })?;
        let mut text = Vec::new();
        from.take(BYTES_MAX).read_to_end(&mut text)?;
        let ticket: Ticket =
            serde_json::from_slice(&text).map_err(|error| Error::Ticket { what: error.to_string() })?;
        if ticket.version != own_version() {
            let what = format!("it is for version {}, this is {}", ticket.version, own_version());
            return Err(Error::Ticket { what });
        }
        if ticket.fan_out == 0 || ticket.places.is_empty() {
            return Err(Error::Ticket { what: "it has no place for anybody".to_owned() });
        }
        Ok((secret, ticket))
    }
}

/// The node of agent `index`.
pub fn node_of(index: usize) -> NodeId {
    NodeId(index as u32 + 1)
}

/// The version that lead and agents must have in common.
pub fn own_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(count: usize, fan_out: usize) -> Ticket {
        let place = |index: usize| NodeAddress {
            name: format!("n{index}"),
            address: IpAddr::from([10, 0, (index >> 8) as u8, index as u8]),
        };
        Ticket {
            version: own_version(),
            tree: 7,
            lead: "10.1.0.1:4711".parse().expect("an address"),
            port: 4712,
            fan_out,
            places: (0..count).map(place).collect(),
            whose: AgentsFor::Slurm { jobs: vec![4711], step: Some("0".to_owned()), restarts: 1 },
            command: "attach".to_owned(),
            hold: (count % 2 == 1).then_some(Hold { seconds: 10, seccomp_ok: false }),
        }
    }

    #[test]
    fn everybody_has_a_way_to_the_lead_and_nobody_too_many_children() {
        for (count, fan_out) in [(1, 32), (32, 32), (33, 32), (2000, 32), (7, 1), (100, 3)] {
            let ticket = ticket(count, fan_out);
            let mut children = vec![0; count + 1];
            for index in 0..count {
                let parent = shape::parent_of(index, fan_out);
                children[parent.map_or(count, |parent| parent)] += 1;
                assert!(parent.is_none_or(|parent| parent < index && ticket.has_children(parent)), "{count} {fan_out}");
                let ancestors = ticket.ancestors(index);
                assert_eq!(ancestors.last().map(|(node, _)| *node), Some(NodeId::ROOT));
                assert_eq!(ancestors.first().map(|(node, _)| *node), Some(parent.map_or(NodeId::ROOT, node_of)));
            }
            assert!(children.iter().all(|children| *children <= fan_out), "{count} {fan_out}");
            let listening = (0..count).filter(|index| ticket.has_children(*index));
            assert!(listening.zip(&children).all(|(_, children)| *children > 0), "nobody listens for nothing");
        }
    }

    #[test]
    fn tickets_arrive_and_others_are_refused() {
        let secret = JobSecret::new().expect("a secret");
        let sent = ticket(3, 32);
        let mut bytes = Vec::new();
        sent.write(&secret, &mut bytes).expect("it is written");
        assert_eq!(Ticket::read(&mut &bytes[..]).expect("it is read"), (secret.clone(), sent.clone()));
        assert_eq!(sent.whose.slurm().map(|run| AgentsFor::from(&run)), Some(sent.whose.clone()));
        for (name, spoil) in
            [("cut short", &bytes[..bytes.len() - 2]), ("no secret", &bytes[3..]), ("nothing", &bytes[..0])]
        {
            assert!(matches!(Ticket::read(&mut &spoil[..]), Err(Error::Ticket { .. })), "{name}");
        }
        let mut older = Vec::new();
        Ticket { version: "0.0.0".to_owned(), ..sent.clone() }.write(&secret, &mut older).expect("it is written");
        let error = Ticket::read(&mut &older[..]).expect_err("another version").to_string();
        assert!(error.contains("version 0.0.0"), "{error}");
        assert_eq!(sent.index_of(&["x".into(), "n2".into()]).expect("invited"), 2);
        assert!(sent.index_of(&["x".into()]).is_err());
    }
}
