//! When a running job ends, from how far it is and how long its iterations take, or from how long earlier runs took.
//!
//! [`forecast`] takes what was [`Known`] and returns an [`End`] with an interval, or says why nothing can be claimed.
//! Nothing here reads a clock or a file: times are seconds since the job began.
//!
//! Next: `pace` for the time of an iteration to come, `outer` for passes of a loop around, `history` for run times, `mixture` for how guesses are put together.
#![forbid(unsafe_code)]

mod classes;
mod end;
mod history;
mod judged;
mod known;
mod mixture;
mod outer;
mod pace;

pub use end::{End, Error, Method, forecast};
pub use judged::{ByMethod, Outcome, by_method};
pub use known::{Known, Look, Outer, OuterLook, Remaining};

#[cfg(test)]
mod simulated;
