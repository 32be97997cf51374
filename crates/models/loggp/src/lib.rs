//! How long a message or a collective takes between hosts, from times that windows saw.
//!
//! [`fit`] takes [`Sample`]s of one pair of hosts: bytes, and the time from the send's entry to the receive's return where the
//! receive had been called before. It returns a [`LinkFit`]: the parameters of LogGP (A. Alexandrov, M. Ionescu, K. Schauser,
//! C. Scheiman, "LogGP: incorporating long messages into the LogP model", 1995), time = o + L + (bytes - 1) G + o, with a line of
//! its own for each protocol. A change of protocol is a break in the line, as T. Hoefler, A. Lichei and W. Rehm find it ("Low-
//! overhead LogGP parameter assessment for modern interconnection networks", 2007). [`collective_time`] adds messages up to
//! collectives by the usual algorithms; [`Table`] answers from collectives that were seen. All that is not decided by the samples
//! is refused, or is the reason why. Nothing here reads a clock or a file.
//!
//! Next: `fit` for breaks and intervals, `collective` for formulas, `table` for what was seen.
#![forbid(unsafe_code)]

mod collective;
mod error;
mod fit;
mod line;
mod random;
mod sample;
mod table;

pub use collective::{Algorithm, Collective, CollectiveTime, collective_time};
pub use error::Error;
pub use fit::{Break, Figure, LinkFit, Segment, Time, fit};
pub use sample::Sample;
pub use table::{Recorded, Seen, Table};
