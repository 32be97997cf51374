//! System calls that undo what a process was made to do, and how long is waited for its threads to make them.
//!
//! Next: `mapping`, which makes memory; `remove`, which takes it back.

use crate::error::Error;
use std::time::{Duration, Instant};
use trimtab_os::Call;
use trimtab_types::Pid;

/// Further stops tried until nobody is inside an island.
pub(crate) const TRIES_MAX: usize = 50;
/// Time for a thread inside to come out before the second try; it doubles up to the maximum, because on a busy machine
/// that thread first has to get a processor.
const FIRST_REST_US: u64 = 500;
const REST_US_MAX: u64 = 20_000;

/// Rest after try number `attempt`.
pub(crate) fn rest(attempt: usize) -> Duration {
    Duration::from_micros((FIRST_REST_US << attempt.min(16)).min(REST_US_MAX))
}

/// A thread makes its calls within microseconds once the kernel lets it run; the bound is for a machine that hangs.
pub(crate) const DONE_LIMIT: Duration = Duration::from_secs(5);
/// Sleep between two looks at whether it has made them.
pub(crate) const LOOK_EVERY: Duration = Duration::from_micros(50);
/// Numbers of the system calls.
const MUNMAP: i64 = 11;
const CLOSE: i64 = 3;

/// Takes `mappings` back, the last one first.
pub(crate) fn unmap_calls(mappings: &[(u64, u64)]) -> Vec<Call> {
    mappings.iter().rev().map(|(address, length)| Call::new("munmap", MUNMAP, [*address, *length])).collect()
}

/// Closes a descriptor.
pub(crate) fn close(descriptor: u64) -> Call {
    Call::new("close", CLOSE, [descriptor])
}

/// Looks until `is_done`: a thread of the target does it as soon as the kernel lets it run.
pub(crate) fn wait_until(pid: Pid, what: &'static str, is_done: impl Fn() -> bool) -> Result<(), Error> {
    let deadline = Instant::now() + DONE_LIMIT;
    while !is_done() {
        if !trimtab_os::runs(pid) {
            return Err(trimtab_os::Error::Gone { pid }.into());
        }
        if Instant::now() > deadline {
            return Err(Error::Idle { pid, what, limit_s: DONE_LIMIT.as_secs() });
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
