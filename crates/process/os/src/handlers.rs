//! The handlers of a process's faults: the signals that it catches, and the addresses of their handlers.
//!
//! The kernel shows which signals are caught, to anybody who may look at the process. The addresses it tells only to the
//! process itself, so one of its threads asks for them (`rt_sigaction` without a new handler, which changes nothing).
//!
//! Next: `trimtab-session` decides whose handlers they are.

use crate::error::Error;
use crate::gadgets::{Call, Gadgets};
use crate::inject::Injection;
use crate::proc::MappingTable;
use crate::stop::Stopped;
use std::fs;
use trimtab_types::Pid;

/// Signals that the kernel sends a thread for what its own instruction did.
const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
/// Signals as the kernel numbers them, by which a thread is cancelled (the C library's own).
const CANCEL: i32 = 32;
/// Stands for an address on the stack of a thread that is not chosen yet.
const PLACE_TO_COME: u64 = 1 << 32;
/// The number of `rt_sigaction`, and the bytes of a set of signals.
const SIGNAL_ACTION: i64 = 13;
const SIGNAL_SET_BYTES: u64 = 8;

/// The signals that a process catches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caught(u64);

impl Caught {
    /// The signals that process `pid` catches now.
    ///
    /// # Errors
    /// [`Error::Gone`] if it has ended, or the kernel does not tell.
    pub fn by(pid: Pid) -> Result<Self, Error> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| Error::Gone { pid })?;
        caught_in(&status).ok_or(Error::Gone { pid })
    }

    /// True if `signal` is caught.
    pub fn has(self, signal: i32) -> bool {
        (1..=64).contains(&signal) && self.0 >> (signal - 1) & 1 != 0
    }

    /// Those by which the kernel reports a fault.
    pub fn faults(self) -> Vec<i32> {
        FAULTS.into_iter().filter(|signal| self.has(*signal)).collect()
    }

    /// True if threads may be interrupted at any instruction by somebody who looks at their stacks: timers of samplers,
    /// and the cancelling of threads.
    pub fn has_samplers(self) -> bool {
        [libc::SIGPROF, libc::SIGVTALRM, CANCEL].into_iter().any(|signal| self.has(signal))
    }
}

fn caught_in(status: &str) -> Option<Caught> {
    let word = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(word.trim(), 16).ok().map(Caught)
}

/// A handler of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalHandler {
    /// The signal.
    pub signal: i32,
    /// Where its handler begins.
    pub address: u64,
}

/// The name of a signal that ends programs, as people write it.
pub fn signal_name(signal: i32) -> String {
    let known = [
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGSYS, "SIGSYS"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGPIPE, "SIGPIPE"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).into())
}

impl SignalHandler {
    /// The calls that [`Stopped::handlers`] has a thread make, with an address that stands for the one to come.
    pub fn calls(signals: &[i32]) -> Vec<Call> {
        let call = |signal: &i32| {
            Call::new("rt_sigaction", SIGNAL_ACTION, [*signal as u64, 0, PLACE_TO_COME, SIGNAL_SET_BYTES])
        };
        signals.iter().map(call).collect()
    }
}

impl Stopped {
    /// The handlers of `signals`, asked for by one of the process's threads, which is put back where it stood; those that
    /// have none are left out.
    ///
    /// # Errors
    /// No thread may make the calls, or the process has ended.
    pub fn handlers(
        &mut self,
        signals: &[i32],
        gadgets: Gadgets,
        maps: &MappingTable,
    ) -> Result<Vec<SignalHandler>, Error> {
        let mut injection = Injection::begin(self, gadgets, maps)?;
        let mut found = Vec::new();
        for &signal in signals {
            let address = injection.handler_of(signal)?;
            // The default, and to ignore it.
            if address > 1 {
                found.push(SignalHandler { signal, address });
            }
        }
        injection.finish()?;
        Ok(found)
    }
}

impl Injection<'_> {
    fn handler_of(&mut self, signal: i32) -> Result<u64, Error> {
        let answer_at = self.scratch();
        self.call("rt_sigaction", SIGNAL_ACTION, [signal as u64, 0, answer_at, SIGNAL_SET_BYTES, 0, 0])?;
        self.stopped().memory().read_word(answer_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caught_signals_are_read_from_a_status() {
        let rows: &[(&str, &str, Option<&[i32]>, bool)] = &[
            ("none", "SigIgn:\t0000000000001000\nSigCgt:\t0000000000000000\n", Some(&[]), false),
            ("interrupt", "SigCgt:\t0000000000000002\n", Some(&[]), false),
            ("segmentation", "SigCgt:\t0000000000000400\n", Some(&[11]), false),
            ("all_of_open_mpi", "SigCgt:\t00000000000004e0\n", Some(&[11, 7, 8]), false),
            ("trap_and_illegal", "SigCgt:\t0000000000000018\n", Some(&[4, 5]), false),
            ("sampler", "SigCgt:\t0000000004000000\n", Some(&[]), true),
            ("cancelling", "SigCgt:\t0000000080000000\n", Some(&[]), true),
            ("no_such_line", "Name:\tapp\n", None, false),
            ("no_number", "SigCgt:\tx\n", None, false),
            ("nothing", "", None, false),
        ];
        for (name, status, faults, samplers) in rows {
            let caught = caught_in(status);
            assert_eq!(caught.map(Caught::faults), faults.map(<[i32]>::to_vec), "{name}");
            assert_eq!(caught.is_some_and(Caught::has_samplers), *samplers, "{name}");
        }
    }
}
