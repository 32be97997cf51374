//! How long data take from host to host, and routines on hosts; where to run one; which of several plans ends first.
//!
//! FAST's four questions (F. Desprez, M. Quinson, F. Suter, "Dynamic performance forecasting for network-enabled servers in a
//! heterogeneous environment", INRIA RR-4320, 2001) are one here: [`compare`] takes a [`Plan`] of data, steps and alternatives,
//! [`Facts`] of hosts and links, and somebody who knows [`Routines`]. Steps are run against time: transfers at the same time
//! share links, operations on one host follow each other. Each answer is a value with its interval, or a typed reason why it is
//! [`Impossible`], never a number that stands for one. Nothing here reads a file or a clock.
//!
//! Next: `plan` for the question, `outlook` for the answer, `path` for ways that nobody measured as a whole, `run` for time.
#![forbid(unsafe_code)]

mod build;
mod data;
mod error;
mod facts;
mod given;
mod ledger;
mod looked;
mod outlook;
mod path;
mod plan;
mod quantity;
mod routines;
mod run;
mod share;

pub use data::{Data, Element, Shape, in_bytes};
pub use error::{DataFault, Error};
pub use facts::{Facts, Figure, Host, Link, Newest};
pub use given::{FACTS_VERSION, GivenFacts, GivenHost, GivenLink};
pub use looked::{Looked, Next};
pub use outlook::{Answer, Outlook, StepKind, StepOutlook, compare};
pub use plan::{Alternative, Argument, PLAN_VERSION, Plan, Step, Transfers};
pub use quantity::{Quantity, SHARE_INSIDE, Written};
pub use routines::{Impossible, Needs, NoNeeds, RoutineFault, Routines};

#[cfg(test)]
mod fast;
#[cfg(test)]
mod laws;
