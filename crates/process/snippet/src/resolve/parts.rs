//! Where a body goes and why it is there; results and bounds that all of this folder share.
//!
//! Next: `context`, which holds a script while it is resolved.

use crate::error::Problem;
use crate::facts::{FunctionId, SiteId};

/// Bytes of one thread's area at most, and of the process area.
pub const AREA_BYTES_MAX: u32 = 256 * 1024;

/// Where a body goes, or what calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BodyPlace {
    /// A function's entry.
    Entry(FunctionId),
    /// All exits of a function.
    Exit(FunctionId),
    /// An instruction.
    Site(SiteId),
    /// trimtab's clock, at the body's period.
    Clock,
    /// Nowhere: it runs once.
    Once,
}

/// Why a body is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Somebody wrote it: the probe that `ir::Body::probe` says.
    Probe,
    /// A `start` condition, looked at before other bodies; belongs to no probe.
    Start,
    /// A `stop` condition, looked at after other bodies; belongs to no probe.
    Stop,
    /// Remembers or forgets calls for the `elapsed` or `$unwound` of the probe that `ir::Body::probe` says.
    OpenCalls,
    /// Somebody wrote it, and asked for calls that were left without an exit: they are noticed here.
    Left,
}

pub(super) type Lowered<T> = Result<T, Problem>;
