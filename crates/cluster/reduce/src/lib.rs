//! Merging on the way up the tree: operators, the laws they keep, and the ranks a result covers.
//!
//! A [`Filter`] says how two values become one. The tree may merge in any order and grouping, so a filter must be
//! associative and commutative with an identity, bit for bit; [`laws::check`] holds any filter to that, also a user's.
//! Merging a value twice is *not* assumed to be harmless: a sum would be wrong. Instead the tree names the ranks whose
//! contributions a value holds, and never merges two that share a rank.
//!
//! Bytes from other nodes are bounded and checked; what is malformed gives an error, never a panic. Nothing here reads
//! a file, a socket or a clock.
//!
//! Next: [`filter`] for the contract, [`FilterSpec`] for how a stream names one, `trimtab-overlay` for who merges.
#![forbid(unsafe_code)]

pub mod exact;
pub mod filter;
pub mod laws;
pub mod lists;
pub mod plain;
mod ranks;
pub mod spec;
mod values;

pub use filter::{Accumulator, AnyFilter, Bad, Filter};
pub use ranks::RankSet;
pub use spec::{FilterSpec, Registry};
pub use values::{VALUE_BYTES_MAX, Values, ValuesRef};
