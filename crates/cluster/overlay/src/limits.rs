//! Every bound of a node, with its reason.
//!
//! Next: `node` for where they hold.

/// Commands a node keeps for children that may lack them: a burst of probes, while one child is slow.
pub const LOG_COUNT_MAX: u64 = 256;
/// A subtree acknowledges commands at least this often, so that the log never fills in steady state.
pub const ACK_STEP: u64 = 32;
/// Units a child may have on the way to its parent or waiting in its queue: a round trip's worth, between processes
/// that share a processor with many others. A leaf is woken for each half of it, which costs as much as a hundred units.
pub const CREDIT: u32 = 8_192;
/// Waves of one stream that a leaf may be ahead of the oldest unfinished one; it keeps them all, and values may be long.
pub const WAVE_WINDOW: u64 = 8;
/// Streams open at once.
pub const STREAM_COUNT_MAX: usize = 256;
/// Commands that may overtake a missing one before a link counts as broken.
pub const OVERTAKE_COUNT_MAX: usize = 64;
/// Longest encoded frame, in bytes: a value, its ranks and a header.
pub const FRAME_BYTES_MAX: usize = 8 << 20;
/// Units that travel as one frame, which then costs little beside them.
pub const RUN_COUNT_MAX: usize = 4_096;
/// Longest value of a unit that travels with others, in bytes; longer ones cost more than their frames.
pub const RUN_VALUE_BYTES_MAX: usize = 64;
/// Longest payload of one command, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// The times of a tree, in microseconds of the driver's clock; all nodes of a tree have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats on a link, each way.
    pub beat_us: u64,
    /// Silence after which the other end of a link counts as lost: three beats and their delays.
    pub silence_us_max: u64,
    /// How long an ancestor may take to answer a request to join.
    pub answer_us_max: u64,
    /// Pause after no ancestor would have an orphan; also until a moved node tries a nearer ancestor again, times ten.
    pub retry_us: u64,
    /// Without news of the root for this long, a leaf takes out its instrumentation.
    pub lease_us: u64,
    /// How long a node waits for more changes of membership before it reports them.
    pub gather_us: u64,
    /// How long the root waits for ranks that were lost with their node and may find another parent.
    pub return_us: u64,
    /// How long the root waits for a missing contribution before it asks again; doubles up to sixteen times this.
    pub again_us: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            beat_us: 200_000,
            silence_us_max: 600_000,
            answer_us_max: 100_000,
            retry_us: 200_000,
            lease_us: 3_000_000,
            gather_us: 5_000,
            return_us: 1_500_000,
            again_us: 500_000,
        }
    }
}

impl Timing {
    /// How long a lost subtree's place is kept: its leaves have given up their instrumentation by then.
    pub fn grace_us(&self) -> u64 {
        self.lease_us + 2 * self.silence_us_max
    }
}
