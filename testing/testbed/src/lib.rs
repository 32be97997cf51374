//! Several nodes on one machine: each with its own network, host name, processes and mounts, joined by a bridge.
//!
//! A node is a set of Linux namespaces whose first process is a shell that we started; ending it ends all in the node.
//! The nodes see the machine's files, so programs and results need no copying; `/tmp` and `/dev/shm` are a node's own,
//! but for the checkout, if it lies there.
//! Node 0 is the head: the bridge lives there, and so do a Slurm's controller and whoever would log in.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let testbed = trimtab_testbed::Testbed::up(&std::env::temp_dir(), 4)?;
//! let slurm = trimtab_testbed::Slurm::start(&testbed, 2)?;
//! let said = slurm.command("srun").args(["-N4", "hostname"]).output()?;
//! # Ok(()) }
//! ```
//!
//! Next: [`Testbed`], then [`Slurm`].
#![forbid(unsafe_code)]

mod node;
mod slurm;
mod ssh;

pub use node::{Lack, Testbed};
pub use slurm::{Settings, Slurm};
pub use ssh::Ssh;
