//! The seccomp filters of a stopped thread: read from the kernel, and asked about system calls that we are about to have
//! it make.
//!
//! The kernel runs all filters of a thread, and the strictest answer holds; so a call passes if each of them lets it. To
//! read them takes CAP_SYS_ADMIN, and a trimtab that is under no filter itself. Without, the owner of the process may
//! give their word that our calls pass ([`trust_filters`]); it is not asked for where the filters can be read.
//!
//! A thread that sleeps until a time is made to sleep on by the kernel's own call, `restart_syscall`, once it was
//! stopped, and filters are asked about that too. So it is one of our calls, and such a thread is not sent back into it
//! where its filters do not let it: it begins its sleep anew.
//!
//! Next: `guards`, which says what becomes of a thread that is under a filter.

use crate::filter::{CallFilter, FilteredCall};
use crate::gadgets::{Call, Gadgets};
use crate::proc::start_time_ticks;
use crate::sys::{self, Registers};
use crate::thread::Thread;
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use trimtab_types::Pid;

/// Numbers of calls that are made although nobody asks for them.
const SIGNAL_RETURN: i64 = 15;
const RESTART: i64 = 219;
/// Lengths of `syscall` and of the signal return.
const SYSTEM_CALL_BYTES: u64 = 2;
const SIGNAL_RETURN_BYTES: u64 = 9;
/// More filters than anybody stacks; the kernel bounds their instructions.
const FILTERS_MAX: usize = 4096;

/// Processes whose owner has said that our calls pass, with when each was started.
static TRUSTED: Mutex<Option<HashMap<i32, u64>>> = Mutex::new(None);

/// Takes the word of the owner of `pid` that its filters let our calls pass, for as long as this program runs.
pub fn trust_filters(pid: Pid) {
    if let Some(started) = start_time_ticks(pid) {
        let mut trusted = TRUSTED.lock().unwrap_or_else(PoisonError::into_inner);
        trusted.get_or_insert_default().insert(pid.0, started);
    }
}

/// True if their word was given.
pub(crate) fn is_trusted(pid: Pid) -> bool {
    let trusted = TRUSTED.lock().unwrap_or_else(PoisonError::into_inner);
    let started = trusted.as_ref().and_then(|trusted| trusted.get(&pid.0).copied());
    drop(trusted);
    started.is_some_and(|started| start_time_ticks(pid) == Some(started))
}

/// One system call that a thread will make, with its name for people.
#[derive(Clone, Debug)]
pub(crate) struct OurCall {
    pub name: &'static str,
    pub call: FilteredCall,
}

/// Everything that a thread with the registers `original` does on its way through `calls`, whose text lies at `text_at`:
/// each call, the signal returns before and behind it, and the kernel's own call that resumes a sleep.
pub(crate) fn on_the_way(original: &Registers, calls: &[Call], text_at: u64, gadgets: Gadgets) -> Vec<OurCall> {
    let own = [original.rdi, original.rsi, original.rdx, original.r10, original.r8, original.r9];
    let made = |name, number, arguments, instruction_pointer| OurCall {
        name,
        call: FilteredCall { number, arguments, instruction_pointer },
    };
    let returns = |arguments| {
        made("rt_sigreturn", SIGNAL_RETURN, arguments, gadgets.signal_return.wrapping_add(SIGNAL_RETURN_BYTES))
    };
    let mut all = vec![made("restart_syscall", RESTART, own, original.rip), returns(own)];
    for call in calls {
        let arguments = call.arguments(text_at);
        all.push(made(call.name, call.number, arguments, gadgets.system_call.wrapping_add(SYSTEM_CALL_BYTES)));
        all.push(returns(arguments));
    }
    all
}

/// Why calls may not be made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Objection {
    /// A filter says something else than yes to this one.
    Refused(String),
    /// The filters can't be read.
    Unreadable(String),
}

/// Checks that all filters of stopped thread `tid` let all of `calls` pass.
pub(crate) fn check(tid: i32, calls: &[OurCall]) -> Result<(), Objection> {
    for number in 0..FILTERS_MAX {
        let filter = match sys::call_filter(tid, number) {
            Ok(Some(bytes)) => CallFilter::parse(&bytes),
            Ok(None) if number > 0 => return Ok(()),
            Ok(None) => return Err(Objection::Unreadable("the kernel shows none".into())),
            Err(error) => return Err(Objection::Unreadable(why_unreadable(&error))),
        };
        let filter = filter.ok_or_else(|| Objection::Unreadable("the kernel shows no classic filter".into()))?;
        for ours in calls {
            match filter.answer(&ours.call) {
                Some(answer) if answer.passes() => {}
                Some(answer) => return Err(Objection::Refused(format!("it {} {}", answer.describe(), ours.name))),
                None => return Err(Objection::Unreadable("it has instructions that are not known".into())),
            }
        }
    }
    Err(Objection::Unreadable("it has too many filters".into()))
}

fn why_unreadable(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES) => "that takes CAP_SYS_ADMIN and a trimtab without a filter of its own".into(),
        Some(libc::EMEDIUMTYPE) => "the kernel has not kept its text".into(),
        Some(libc::EIO | libc::EINVAL) => "this kernel was built without CONFIG_CHECKPOINT_RESTORE".into(),
        _ => error.to_string(),
    }
}

/// True if a stopped thread under a filter may be sent back into the sleep it was stopped in. Where that can't be
/// known, only the owner's word makes it so.
pub(crate) fn may_sleep_on(pid: Pid, thread: &Thread) -> bool {
    let registers = &thread.registers;
    let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
    let call = FilteredCall { number: RESTART, arguments, instruction_pointer: registers.rip };
    match check(thread.tid, &[OurCall { name: "restart_syscall", call }]) {
        Ok(()) => true,
        Err(Objection::Refused(_)) => false,
        Err(Objection::Unreadable(_)) => is_trusted(pid),
    }
}
