//! One thread that is held.
//!
//! Next: `stop`, which holds all of a process.

use crate::sys::Registers;

/// The kernel's code for "to be restarted with the time that remains", which it keeps to itself.
const RESTART_WITH_REMAINING_TIME: i64 = 516;

/// One held thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Thread id.
    pub tid: i32,
    /// Registers when it stopped (or as set since).
    pub registers: Registers,
}

impl Thread {
    /// Where it executes.
    pub fn instruction_pointer(&self) -> u64 {
        self.registers.rip
    }

    /// True if it was interrupted inside a system call that will be restarted.
    pub fn is_in_system_call(&self) -> bool {
        (self.registers.orig_rax as i64) >= 0
    }

    /// True if it was interrupted in a system call that only the kernel itself can resume with its remaining time.
    pub(crate) fn is_in_timed_call(&self) -> bool {
        self.is_in_system_call() && -(self.registers.rax as i64) == RESTART_WITH_REMAINING_TIME
    }
}
