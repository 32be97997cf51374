//! The plan of a process of nodes, which it reads on its standard input as lines of words.
//!
//! A secret must not stand on a command line, so all of the plan comes this way.
//!
//! Next: `host`, which does it; `forest`, which says it.

use crate::Outcome;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::BufRead;
use trimtab_link::{Address, JobSecret};
use trimtab_overlay::{NodeId, Timing};
use trimtab_sim::Tree;

/// Which nodes, of which tree, and where the others are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// For TLS; without one the kernel says who is there.
    pub secret: Option<JobSecret>,
    /// The transport.
    pub edges: Edges,
    /// Tells trees apart.
    pub number: u64,
    /// Fan-out and leaves of a balanced tree; fan-out [`CHAIN`] for a leaf behind one inner node.
    pub shape: (u32, u32),
    /// True if leaves contribute to every wave they may, or one for each command.
    pub flow: bool,
    /// True if the times are those of an agent, or long ones for a machine that holds a whole cluster.
    pub patient: bool,
    /// Where Unix sockets are.
    pub folder: String,
    /// The nodes to be: the first, and how many.
    pub hosted: (u32, u32),
    /// Where ancestors are.
    pub at: BTreeMap<NodeId, Address>,
}

/// The connection between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Mutual TLS on TCP, as agents have it.
    Tcp,
    /// Unix sockets, on which the kernel names the other end's user.
    Plain,
}

/// See [`Plan::shape`].
pub const CHAIN: u32 = 0;
/// The last line.
const END: &str = "go";

impl Plan {
    /// As lines.
    pub fn write(&self) -> Outcome<String> {
        let mut secret = Vec::new();
        if let Some(known) = &self.secret {
            known.write(&mut secret)?;
        }
        let mut text = String::new();
        if !secret.is_empty() {
            write!(text, "secret {}", String::from_utf8(secret)?)?;
        }
        writeln!(text, "number {}", self.number)?;
        writeln!(text, "shape {} {}", self.shape.0, self.shape.1)?;
        writeln!(text, "flow {}", u8::from(self.flow))?;
        writeln!(text, "patient {}", u8::from(self.patient))?;
        writeln!(text, "folder {}", self.folder)?;
        writeln!(text, "hosted {} {}", self.hosted.0, self.hosted.1)?;
        for (node, address) in &self.at {
            writeln!(text, "at {} {address}", node.0)?;
        }
        writeln!(text, "{END}")?;
        Ok(text)
    }

    /// From lines.
    pub fn read(input: &mut impl BufRead) -> Outcome<Plan> {
        let mut plan = Plan {
            secret: None,
            edges: Edges::Plain,
            number: 0,
            shape: (1, 1),
            flow: false,
            patient: false,
            folder: String::new(),
            hosted: (0, 0),
            at: BTreeMap::new(),
        };
        let mut line = String::new();
        loop {
            line.clear();
            if input.read_line(&mut line)? == 0 {
                return Err("the plan ends without `go`".into());
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [END] => return Ok(plan),
                ["secret", digits] => {
                    plan.secret = Some(JobSecret::read(&mut format!("{digits}\n").as_bytes())?);
                    plan.edges = Edges::Tcp;
                }
                ["number", number] => plan.number = number.parse()?,
                ["shape", fan_out, leaves] => plan.shape = (fan_out.parse()?, leaves.parse()?),
                ["flow", flow] => plan.flow = flow == "1",
                ["patient", patient] => plan.patient = patient == "1",
                ["folder", folder] => plan.folder = folder.to_owned(),
                ["hosted", first, count] => plan.hosted = (first.parse()?, count.parse()?),
                ["at", node, address] => {
                    plan.at.insert(NodeId(node.parse()?), address.parse()?);
                }
                _ => return Err(format!("no line of a plan: {line}").into()),
            }
        }
    }

    /// The tree.
    pub fn tree(&self) -> Outcome<Tree> {
        let (fan_out, leaf_count) = self.shape;
        Ok(if fan_out == CHAIN { Tree::levels(1, 2, leaf_count) } else { Tree::balanced(fan_out, leaf_count)? })
    }

    /// The tree's times.
    pub fn timing(&self) -> Timing {
        if !self.patient {
            return Timing { answer_us_max: 500_000, ..Timing::default() };
        }
        // Tens of thousands of nodes on a few processors: a beat of all takes seconds.
        Timing {
            beat_us: 20_000_000,
            silence_us_max: 90_000_000,
            answer_us_max: 30_000_000,
            retry_us: 2_000_000,
            lease_us: 300_000_000,
            gather_us: 100_000,
            return_us: 60_000_000,
            again_us: 60_000_000,
        }
    }

    /// Where a node of this plan awaits its children; where it did before, if it is there again.
    pub fn listen(&self, node: NodeId) -> Address {
        match (self.at.get(&node), self.edges) {
            (Some(before), _) => before.clone(),
            (None, Edges::Tcp) => Address::Tcp(([127, 0, 0, 1], 0).into()),
            (None, Edges::Plain) => Address::Unix(format!("{}/n{}", self.folder, node.0).into()),
        }
    }
}
