//! One probe as a process: started, asked how far it has come, ended.
//!
//! Its input is a pipe of ours. If we are killed, it reads the end of that, and ends too; and it ends after its time by itself.
//!
//! Next: `pressed`, which starts them; `trimtab-sensors`' `pressure` for what they do.

use crate::press_error::PressError;
use std::io::{BufRead, BufReader, Error, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use trimtab_sensors::{PressureMark, PressureOrder};
use trimtab_types::Pid;

/// The command that is a probe with this order and so many bytes for each thread.
pub type StartProbe<'a> = dyn Fn(&PressureOrder, u64) -> Command + 'a;

/// A probe that is at work; dropping it ends it.
pub(crate) struct Probe {
    what: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Probe {
    /// Starts one, as the user of `beside` if we may choose; it is at work when this returns.
    pub fn start(
        start: &StartProbe<'_>,
        order: &PressureOrder,
        bytes: u64,
        beside: Option<Pid>,
    ) -> Result<Probe, PressError> {
        let what = order.pressed.word();
        let no_probe = |source: Error| PressError::NoProbe { what, source };
        let mut command = start(order, bytes);
        if let Some(owner) = beside.and_then(|pid| std::fs::metadata(format!("/proc/{pid}")).ok())
            && rustix::process::geteuid().is_root()
            && owner.uid() != 0
        {
            command.uid(owner.uid()).gid(owner.gid());
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/").spawn().map_err(no_probe)?;
        let missing = || no_probe(Error::other("it has no pipe"));
        let (input, output) = (child.stdin.take(), child.stdout.take().ok_or_else(missing)?);
        let mut probe = Probe { what, child, input, output: BufReader::new(output) };
        // All of its memory is there, and was gone through once.
        probe.read()?;
        Ok(probe)
    }

    /// How far it has come.
    pub fn mark(&mut self) -> Result<PressureMark, PressError> {
        let what = self.what;
        let no_probe = |source: Error| PressError::NoProbe { what, source };
        let input = self.input.as_mut().ok_or_else(|| no_probe(Error::other("it was ended")))?;
        input.write_all(b"\n").and_then(|()| input.flush()).map_err(no_probe)?;
        self.read()
    }

    fn read(&mut self) -> Result<PressureMark, PressError> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        let mark = read.and_then(|_| {
            PressureMark::of_line(&line).ok_or_else(|| Error::other("it has ended, or its answer can't be understood"))
        });
        mark.map_err(|source| PressError::NoProbe { what: self.what, source })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // The end of its input ends it, too; this does not wait for it to read that.
        drop(self.input.take());
        let _it_has_ended_by_itself = self.child.kill();
        let _nobody_asks_how = self.child.wait();
    }
}
