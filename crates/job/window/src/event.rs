//! One recorded MPI call, and the symbol that names its place in the program.
//!
//! The agent turns each record of a rank's ring into a [`CallEvent`]; everything about loops and alignment is derived
//! from slices of them, in program order, without gaps.
//!
//! Next: `level` groups symbols into loop levels, `order` turns events into ordering constraints between ranks.

use serde::{Deserialize, Serialize};

/// `CallEvent::peer` of a call without a partner.
pub const PEER_NONE: i32 = -1;

/// `CallEvent::peer` of a receive from any source.
pub const PEER_ANY: i32 = -2;

/// One outermost MPI call of a rank's main thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEvent {
    /// Number of the MPI function, the same on all ranks.
    pub function: u32,
    /// Call site as a hash of module and offset, the same on all ranks.
    pub site: u64,
    /// Clock at entry, ticks.
    pub enter_ticks: u64,
    /// Clock at return, ticks; 0: not returned yet.
    pub exit_ticks: u64,
    /// World rank of the partner of a send or receive, [`PEER_NONE`] or [`PEER_ANY`]; the receiver, if the call does both.
    pub peer: i32,
    /// World rank that it receives from, [`PEER_NONE`] or [`PEER_ANY`].
    pub source: i32,
    /// The call sends a message to `peer`.
    pub is_send: bool,
    /// The call receives a message from `source`.
    pub is_receive: bool,
    /// The message that it receives is there when it returns.
    pub completes: bool,
    /// The call returns when requests are completed, all of which were posted by calls that tell so.
    pub ends_posted: bool,
    /// Of a call that posts a request: entry of the call that completes it, ticks; 0: not seen.
    pub completed_ticks: u64,
    /// A collective which nobody leaves before all have entered.
    pub synchronising: bool,
    /// Stable id of the communicator, 0 for `MPI_COMM_WORLD`.
    pub comm: u64,
    /// Its payload, as its function's bytes count it; `None`: not known, or the call was made while nothing was recorded.
    pub bytes: Option<u64>,
}

impl CallEvent {
    /// Function and call site of this call.
    pub fn symbol(&self) -> Symbol {
        Symbol { function: self.function, site: self.site }
    }

    /// Where the call comes from, whatever the direction of its message, on rank `own`.
    pub fn base(&self, own: u32) -> u64 {
        self.site ^ direction(self.is_send || self.is_receive, self.peer, own)
    }

    /// Clock at return, or the end of time for a call that has not returned.
    pub(crate) fn exit_or_never(&self) -> u64 {
        if self.exit_ticks == 0 { u64::MAX } else { self.exit_ticks }
    }

    /// Latest moment of this call that was seen.
    pub(crate) fn seen_until(&self) -> u64 {
        self.exit_ticks.max(self.enter_ticks)
    }

    /// True for a call of all ranks that is no message, of which the payload is known.
    pub fn is_of_world(&self) -> bool {
        self.comm == 0 && !self.is_send && !self.is_receive && self.bytes.is_some()
    }

    /// True for a collective of all ranks that synchronises them.
    pub(crate) fn synchronises_world(&self) -> bool {
        self.synchronising && self.comm == 0
    }
}

/// Added to a call site for the direction of a message: one `MPI_Send` in a loop over neighbours is several places of
/// the program, told apart by the neighbour's distance in ranks.
pub fn direction(has_peer: bool, peer: i32, own: u32) -> u64 {
    let distance = if peer >= 0 { i64::from(peer) - i64::from(own) } else { i64::from(i32::MIN) + i64::from(peer) };
    if has_peer { (distance as u64).wrapping_mul(0xd6e8_feb8_6659_fd93) } else { 0 }
}

/// A place in the program from which an MPI function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Symbol {
    /// Number of the MPI function.
    pub function: u32,
    /// Hash of the call site.
    pub site: u64,
}
