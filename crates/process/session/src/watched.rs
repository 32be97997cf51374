//! Fault handlers that a program sets while probes are in it.
//!
//! Next: `handlers` for the watch; `hold` for the threads that are held.

use crate::handlers::{Watch, described, is_of_library};
use crate::insert::Inserted;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use trimtab_os::{MappingTable, SignalHandler};
use trimtab_stub::layout::HOLD_PLACES;
use trimtab_x86::HOLD_SIGNAL_SHIFT;

impl Inserted {
    /// The handler that a held thread is about to set, in words, if it is the program's own; others are let go.
    fn handler_to_be_set(&self) -> Option<String> {
        let hold = &self.view().header().hold;
        let (asked, answered) = (hold.asked.load(Acquire), hold.answered.load(Relaxed));
        if asked <= answered {
            return None;
        }
        if asked - answered > HOLD_PLACES as u64 {
            return Some("several threads set some".into());
        }
        let maps = MappingTable::of(self.pid()).ok()?;
        for number in answered..asked {
            let told = hold.handlers[number as usize % HOLD_PLACES].swap(0, Acquire);
            // It has counted itself, and tells in a moment.
            if told == 0 {
                return None;
            }
            let (signal, address) = ((told >> HOLD_SIGNAL_SHIFT) as i32, told & ((1 << HOLD_SIGNAL_SHIFT) - 1));
            if !is_of_library(&maps, address) {
                return Some(described(&maps, &SignalHandler { signal, address }));
            }
            hold.answered.store(number + 1, Release);
        }
        None
    }

    /// The fault handler that the program has set of its own since the probes went in, in words, although code that may
    /// fault lies elsewhere now: then they must go at once. To be asked often; the process is only held where that is due.
    pub fn new_fault_handler(&self) -> Option<String> {
        self.watch.as_ref()?.look(self.pid(), &|| self.handler_to_be_set())
    }

    /// True if such a handler would matter.
    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// How long the process was held for such questions while the probes were in, nanoseconds.
    pub fn pause_asked_ns(&self) -> u64 {
        self.watch.as_ref().map_or(0, Watch::pause_ns) + self.pause_taking_ns
    }
}
