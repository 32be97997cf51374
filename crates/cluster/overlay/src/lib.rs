//! The tree of agents as a state machine: join, multicast, reduce, lose a node, re-parent.
//!
//! [`Node::handle`] takes the time and an [`Event`] and returns [`Action`]s; a thin driver owns sockets and clocks. So
//! the same code runs in a simulation with thousands of nodes and one seed, which is where its promises are tested:
//!
//! - **Results are exact.** What travels upwards is a *unit*: a merged value with the ranks it covers, which is true
//!   whoever passes it on and however late it comes. Units are merged only if they share no rank. Units that were lost
//!   with a node are asked for again by the root, for the missing ranks only, from the leaves, which keep a contribution
//!   until its wave is over. A result names its ranks.
//! - **Commands arrive once, in order.** They are numbered; each node keeps those that someone below may lack, and
//!   gives an adopted child what comes after its last one.
//! - **No cycle can form,** because a node's parent is always one of the ancestors it was given, the nearest that lives.
//! - **Targets are safe without us.** A leaf that hears nothing of the root for a lease's time takes its instrumentation
//!   out by itself.
//! - **Everything is bounded,** and what is full refuses: leaves and root are told [`Busy`].
//!
//! Nothing here opens a socket, reads a clock, or draws a random number.
//!
//! Next: [`shape`] for where agents stand, [`node`] for the machine, [`frame`] for what it says, [`facts`] for what
//! only one agent per build id is asked.
#![forbid(unsafe_code)]

mod bytes;
pub mod facts;
pub mod frame;
mod frame_bytes;
mod in_order;
pub mod limits;
pub mod node;
mod run;
pub mod shape;
mod short;
pub mod stream;

pub use frame::Frame;
pub use limits::Timing;
pub use node::{Action, Busy, Event, Node, Setup, Told};
pub use stream::{StreamSpec, Sync};

use serde::{Deserialize, Serialize};
use std::fmt;

/// A place in the tree; the root is 0. Whoever starts agents gives these out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The controller's place.
    pub const ROOT: NodeId = NodeId(0);
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}
