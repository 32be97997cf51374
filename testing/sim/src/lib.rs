//! A seeded clock and network for the tree of `trimtab-overlay`: thousands of nodes, losses, delays, partitions.
//!
//! Nothing here is random but by the seed, and no clock is read: the same [`Plan`] gives the same run, event by event.
//! [`check::Checker`] holds every result and every step to what the tree promises; the first broken promise ends the run
//! with the seed in its message.
//!
//! Next: [`sim::Sim`] for the machine, [`storm`] for what goes wrong when, `tests/` for what is run in every test.
#![forbid(unsafe_code)]

pub mod check;
pub mod contribution;
pub mod network;
pub mod plan;
pub mod random;
pub mod shape;
pub mod sim;
pub mod storm;

pub use contribution::Total;
pub use network::NetworkConditions;
pub use plan::{Flow, PATIENT, Plan};
pub use shape::Tree;
pub use sim::Sim;
pub use storm::Storm;
