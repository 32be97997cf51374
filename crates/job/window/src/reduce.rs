//! A large job's window: its figures are merged on the way to the root, and only ranks that stand out bring their details.
//!
//! A node says what its ranks have in common ([`Seen`]), cuts them as all are cut ([`cut_alike`]), sums them ([`Sums`]), sets
//! them beside the ends of all ([`Beside`]), and hands over the recordings of those that stand out. Each of these values merges
//! with that of other ranks in any order and grouping, and the report made of them ([`assemble_reduced`]) has the numbers of one
//! that has all ranks' recordings.
//!
//! Next: `sums` for the values, `report` for the report.

mod marks;
mod report;
mod runs;
mod steps;
mod sums;

pub use marks::Marks;
pub use report::{ReducedInput, assemble_reduced};
pub(crate) use runs::{fixed, unfixed};
pub use sums::{Beside, Ends, OfNode, OfWindow, Seen, Sums, Unmergeable, cut_alike, share_of};
