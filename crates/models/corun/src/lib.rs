//! How much slower jobs run that share processors, and who ends when; measured together, or predicted before they meet.
//!
//! [`forecast`] takes [`Job`]s: iterations to come, the time of one alone and together, the use of processors. It returns an
//! [`Outlook`], in which everything that is not known is the reason why. Slowdown is progress together against progress alone;
//! before they meet it is formula 2 of ScoPro (Z. Chen, "Dynamic instrumentation of parallel applications", 2005) for each
//! processor, with what [`Profile`]s know of pressure on it, on caches and on memory. Ends are formula 6 of the same, for any number of jobs that come and leave; formula 7 stands beside them.
//! [`ranked`] says who is the better partner. Nothing here reads a clock or a file: times are seconds from now.
//!
//! Next: `outlook` for the forecast, `course` for ends, `processors` for formula 2.
#![forbid(unsafe_code)]

mod between;
mod course;
mod error;
mod job;
mod outlook;
mod pace;
mod partners;
mod processors;
mod profile;
mod unknown;

pub use between::{Between, SHARE};
pub use error::Error;
pub use job::{Job, Met, RankUse, Remaining};
pub use outlook::{FromProfile, JobOutlook, Outlook, forecast};
pub use pace::Method;
pub use partners::{Partner, ranked};
pub use profile::{Curve, Felt, Place, Point, Profile, Resource};
pub use unknown::Unknown;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tables;
