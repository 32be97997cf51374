//! A process is held where it comes out of `MPI_Init` by one trimtab, and measured from there on by another one.
//!
//! Whoever starts a rank knows its process before it begins, whoever measures the job knows all ranks only later. So the
//! first has the process wait, by its own code and with a deadline of its own, and ends; the second takes it over.
//!
//! Next: `trimtab-measure`'s `first_call`; `pack`, which does it for packages.

use crate::arguments::WindowOptions;
use crate::audited::Change;
use crate::{DONE, output};
use anyhow::bail;
use std::time::Duration;
use trimtab_measure::FirstCall;
use trimtab_types::Pid;

/// How long ranks wait behind `MPI_Init` for all others and for the window, seconds.
pub const HOLD_SECONDS: u64 = 10;
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

/// Has a process wait there for this program's own window of it, by a thread that ends once it is about to.
pub fn begin(pid: Pid, seconds: u64) {
    let first_call = FirstCall::begin(vec![pid], Duration::from_secs(seconds), may_change);
    let Ok(first_call) = first_call else { return };
    // One that is not held is measured all the same, and the report says why.
    let _seen = std::thread::Builder::new().name("hand-over".to_owned()).spawn(|| first_call.handed_over(BEGIN_MAX));
}

/// True if each call of the program is asked for, and nothing that only iterations show.
pub fn is_whole_run(options: &WindowOptions) -> bool {
    options.follow && options.mark == "auto" && options.main_loop.is_none() && options.start.is_none()
}

/// Writes into the log that a process is about to be held; says why it may not be.
pub fn may_change(pid: Pid) -> Result<(), String> {
    let change = Change::of_processes("hold", std::iter::once(pid));
    change.map(|mut change| change.restored()).map_err(|error| output::chain(&error))
}
