//! A process is held where it comes out of `MPI_Init` by one trimtab, and measured from there on by another one.
//!
//! Next: `trimtab-engine`'s `hold`; `pack`, which does it for packages.

use crate::arguments::WindowOptions;
use crate::exit_code::DONE;
use std::io::Write;
use trimtab_standing::HostLog;
use trimtab_types::Pid;

/// `trimtab hold PID`. Tells `looks` once the process is looked at: from then on it may begin MPI.
pub fn hold(pid: i32, seconds: u64, looks: impl FnOnce()) -> anyhow::Result<u8> {
    trimtab_engine::hold(&HostLog, Pid(pid), seconds, looks)?;
    Ok(DONE)
}

/// Lets whoever reads standard output go on. It may have waited long enough and be gone.
pub fn tell() {
    let mut out = std::io::stdout();
    let _gone = out.write_all(b"\n").and_then(|()| out.flush());
}

/// True if each call of the program is asked for, and nothing that only iterations show.
pub fn is_whole_run(options: &WindowOptions) -> bool {
    options.follow && options.mark == "auto" && options.main_loop.is_none() && options.start.is_none()
}
