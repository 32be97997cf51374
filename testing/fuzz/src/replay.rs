//! One input again, in a process of its own, and an input made smaller that way.
//!
//! Next: `campaign`, which makes every failing input smaller before it shows it.

use crate::finding::{Fault, STACK_BYTES, caught, limit_this_process, note_panics};
use crate::hex::{from_hex, to_hex};
use crate::target::target;
use anyhow::{Context, Result, anyhow, bail};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Attempts at making an input smaller.
const ATTEMPTS_MAX: usize = 400;
/// The same where each attempt lasts until the processor's time is up.
const HANG_ATTEMPTS_MAX: usize = 6;
/// Exit status of a replay that panicked.
const PANICKED: u8 = 101;
const SIGXCPU: i32 = 24;

/// Runs one input: the child's side. The exit status says what happened, the fault goes to stdout.
///
/// # Errors
/// When the file is no input or the target is unknown.
pub fn replay(name: &str, file: &Path, hang_s: u64) -> Result<u8> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let Some(input) = from_hex(&text) else { bail!("{} is not hexadecimal", file.display()) };
    let mut target = target(name)?;
    limit_this_process(Some(hang_s))?;
    note_panics();
    let run = move || caught(|| target.run(&input));
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).context("no thread")?;
    match thread.join().map_err(|_| anyhow!("the replay itself panicked"))? {
        Ok(_) => Ok(0),
        Err(fault) => {
            println!("{}", serde_json::to_string(&fault)?);
            Ok(PANICKED)
        }
    }
}

/// Runs inputs in children.
pub struct Replayer<'a> {
    /// This program.
    pub executable: &'a Path,
    /// Name of the target.
    pub target: &'a str,
    /// Where the input is put for the child.
    pub file: &'a Path,
    /// Processor time after which an input hangs, in seconds.
    pub hang_s: u64,
}

impl Replayer<'_> {
    /// The fault that an input makes; `None`: nothing wrong.
    ///
    /// # Errors
    /// When the child can't be started.
    pub fn fault_of(&self, input: &[u8]) -> Result<Option<Fault>> {
        std::fs::write(self.file, to_hex(input)).with_context(|| format!("cannot write {}", self.file.display()))?;
        let mut command = Command::new(self.executable);
        command.arg("replay").arg(self.target).arg(self.file).arg(self.hang_s.to_string()).stdin(Stdio::null());
        let output = command.output().context("cannot replay")?;
        if output.status.code() == Some(i32::from(PANICKED)) {
            return serde_json::from_slice(&output.stdout).map(Some).context("a replay told no fault");
        }
        Ok(fault_of_status(output.status, &String::from_utf8_lossy(&output.stderr)))
    }

    /// A smaller input with the same fault: pieces taken out, then bytes made zero.
    ///
    /// # Errors
    /// When a child can't be started.
    pub fn smaller(&self, input: &[u8], fault: &Fault) -> Result<Vec<u8>> {
        let mut attempts = if fault.place == HANG { HANG_ATTEMPTS_MAX } else { ATTEMPTS_MAX };
        let mut best = input.to_vec();
        let mut is_same = |candidate: &[u8]| -> Result<bool> {
            attempts = attempts.saturating_sub(1);
            Ok(attempts > 0 && self.fault_of(candidate)?.is_some_and(|found| found.place == fault.place))
        };
        let mut bytes = best.len().div_ceil(2);
        while bytes > 0 {
            let mut at = 0;
            while at < best.len() {
                let end = (at + bytes).min(best.len());
                let without = [&best[..at], &best[end..]].concat();
                let mut zeroed = best.clone();
                zeroed[at..end].fill(0);
                if is_same(&without)? {
                    best = without;
                } else {
                    if zeroed != best && is_same(&zeroed)? {
                        best = zeroed;
                    }
                    at = end;
                }
            }
            bytes /= 2;
        }
        Ok(best)
    }
}

/// The place of a fault that is a hang.
pub const HANG: &str = "hang";

/// The fault that the end of a process shows of the input it was at, and what it printed last.
pub fn fault_of_status(status: ExitStatus, printed: &str) -> Option<Fault> {
    let said = printed.trim();
    let place = match (status.signal(), status.code()) {
        (Some(SIGXCPU), _) => HANG.to_string(),
        (Some(_), _) if said.contains("has overflowed its stack") => "stack overflow".to_string(),
        (Some(_), _) if said.contains("memory allocation of") => "out of memory".to_string(),
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(0)) => return None,
        (None, code) => format!("exit status {}", code.unwrap_or_default()),
    };
    Some(Fault { place, message: said.lines().last().unwrap_or_default().to_string() })
}
