//! A process is held where it comes out of `MPI_Init` by one trimtab, and measured from there on by another one.
//!
//! Whoever starts a rank knows its process before it begins, whoever measures the job knows all ranks only later. So the
//! first has the process wait, by its own code and with a deadline of its own, and ends; the second takes it over.
//!
//! Next: `trimtab-measure`'s `first_call`; `pack`, which does it for packages.

use crate::audited::Change;
use crate::{DONE, output};
use anyhow::bail;
use std::time::Duration;
use trimtab_measure::FirstCall;
use trimtab_types::Pid;

/// A process begins MPI within so long, or is not held.
const BEGIN_MAX: Duration = Duration::from_secs(120);

/// `trimtab hold PID`.
pub fn hold(pid: i32, seconds: u64) -> anyhow::Result<u8> {
    let limit = Duration::from_secs(seconds);
    if let Err(reason) = FirstCall::begin(vec![Pid(pid)], limit, may_change)?.handed_over(BEGIN_MAX) {
        bail!("process {pid} is not held: {reason}");
    }
    Ok(DONE)
}

/// Writes into the log that a process is about to be held; says why it may not be.
pub fn may_change(pid: Pid) -> Result<(), String> {
    let change = Change::of_processes("hold", std::iter::once(pid));
    change.map(|mut change| change.restored()).map_err(|error| output::chain(&error))
}
