//! One agent per node, and the lead that asks them: a window of a job that runs on many nodes.
//!
//! The lead is whoever wants to know: a user's command. It starts an agent on each node of the job, which calls it
//! back, proves itself with the job's secret, and says which of the job's ranks it has. From then on the window goes as
//! on one machine: what is asked of a node is the same ([`trimtab_measure::Command`]), only that questions go down a
//! tree and answers come up merged. Agents of one job are its user's own processes: the kernel lets them touch that
//! user's processes and no others.
//!
//! An agent outlives neither its lead nor its use. When it hears nothing of the lead for a lease's time it takes out its
//! probes, and a while later it ends.
//!
//! The log of a host and those who start agents in place of commands are handed in ([`ChangeLog`], [`start::Start`]):
//! nothing here knows a site or a file of lines.
//!
//! Next: [`ticket`] for what an agent is started with, [`serve`] for what it does, [`lead`] and [`remote`] for who asks,
//! [`start`] for how agents come to nodes, [`values`] for how variables of scripts merge.
#![forbid(unsafe_code)]

pub mod contribute;
mod error;
pub mod exchange;
mod facts;
pub mod found;
mod guard;
mod holds;
mod inbox;
pub mod lead;
mod log;
pub mod parts;
pub mod remote;
pub mod serve;
pub mod start;
pub mod talk;
pub mod ticket;
mod undo;
pub mod values;
mod ways;

pub use error::Error;
pub use guard::{COMMAND as GUARD_COMMAND, guard};
pub use lead::Lead;
pub use log::{ChangeLog, Log, LoggedChange};
pub use remote::Remote;
pub use serve::serve;
pub use ticket::{AgentsFor, Hold, NodeAddress, Ticket};
