//! The very program that holds an engine: its clocks, its manners towards programs on the same processors, and its last act
//! where it runs out of memory or aborts.
//!
//! Next: `trimtab_os::last_act` for the last one.

pub use trimtab_os::last_act::{Allocator, COMMAND as LAST_ACT};
use trimtab_os::{EventSource, ProcessEvents};
pub use trimtab_os::{monotonic_ns, take_short_turns, unix_s};

/// Why the kernel does not tell this program which processes begin; `None`: it does.
pub fn why_no_events() -> Option<String> {
    match ProcessEvents::open().source() {
        EventSource::Connector => None,
        EventSource::Scans { reason } => Some(reason.clone()),
    }
}
