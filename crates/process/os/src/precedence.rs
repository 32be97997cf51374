//! Where and how urgently this thread runs while it holds a process.
//!
//! It leaves the processor of the target's main thread: that thread can then be stopped and let go without taking turns
//! with anybody. Where it is allowed to, it also takes precedence over ordinary threads: another busy rank, on whose
//! processor it must run, would otherwise keep a stopped target waiting for a whole time slice.
//!
//! Next: `stop`, which holds one of these.

use crate::proc::stat_of;
use crate::sys;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trimtab_types::Pid;

/// The shortest turn that the kernel gives, nanoseconds.
const TURN_NS: u64 = 100_000;

static TAKES_SHORT_TURNS: AtomicBool = AtomicBool::new(false);

/// Place and precedence; dropping it gives both back.
#[derive(Debug)]
pub(crate) struct Precedence {
    processors_before: Option<libc::cpu_set_t>,
    urgent: bool,
}

impl Precedence {
    pub(crate) fn beside(pid: Pid) -> Self {
        let before = sys::affinity();
        let processor = stat_of(pid, pid.0).map(|stat| stat.last_cpu as usize);
        let others = before.and_then(|before| sys::without_processor(&before, processor?));
        let moved = others.is_some_and(|others| sys::set_affinity(&others));
        // Refused to ordinary users: then it goes without.
        let urgent = sys::is_ordinary() && sys::set_urgent(true);
        Precedence { processors_before: before.filter(|_| moved), urgent }
    }
}

/// Gives the calling thread precedence over all ordinary ones, for good; false if the kernel refuses. For a thread that
/// only waits for something and then does very little.
pub fn take_precedence() -> bool {
    sys::set_urgent(true)
}

/// Asks the scheduler for short turns, for this thread and those it starts from now on, programs included; false if it
/// can't. The share of a processor stays the same. But beside a rank that computes all the time, whoever asks for short
/// turns gets the next one sooner, and there are many small steps between a command and its first answer.
pub fn take_short_turns() -> bool {
    TAKES_SHORT_TURNS.store(true, Relaxed);
    sys::set_turn(TURN_NS)
}

impl Drop for Precedence {
    fn drop(&mut self) {
        if let Some(before) = &self.processors_before {
            sys::set_affinity(before);
        }
        if self.urgent {
            sys::set_urgent(false);
            // The kernel has forgotten it.
            if TAKES_SHORT_TURNS.load(Relaxed) {
                sys::set_turn(TURN_NS);
            }
        }
    }
}
