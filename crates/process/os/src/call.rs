//! Functions of the target, called by one of its threads on our behalf.
//!
//! The thread goes through a chain of signal frames, as for system calls (`inject`), so that a function runs as a signal
//! handler would: with a fresh floating-point state, all signals blocked, and the thread's own state complete on the
//! stack above it, which is restored when the function returns, whether we live or not. `errno` is put back by a system
//! call of the same chain. The other threads are held meanwhile, but not for long: the function may wait for one.
//!
//! Which thread may be interrupted at which place is not decided here: a function may want a lock that the thread holds.
//!
//! Next: `trimtab-session` chooses thread and moment.

use crate::error::Error;
use crate::gadgets::{Call, Gadgets};
use crate::guards::check_function_calls;
use crate::inject::{SCRATCH_BYTES, StackLayout, call_registers, send_into, signal_frame};
use crate::naps::Naps;
use crate::proc::MappingTable;
use crate::stacks::room_for;
use crate::stop::Stopped;
use crate::sys::{self, Registers};
use crate::vectors::signal_state;

/// Stack that a called function may use at least.
const STACK_BYTES: u64 = 64 << 10;
/// How long the other threads are held for it.
const HOLD_NS: u64 = 50_000_000;
/// How long its return is waited for.
const RETURN_NS: u64 = 5_000_000_000;
/// Direction, single steps, alignment checks: flags that a called function does not expect to be set.
const FLAGS_CLEARED: u64 = 0x400 | 0x100 | 0x4_0000;
/// The number of `rt_sigreturn`, and of `futex`.
const SIGNAL_RETURN_CALL: u64 = 15;
const FUTEX: i64 = 202;
/// `FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG`, and its operation: set a word to a number of twelve bits, with its sign.
const WAKE_AND_SET: u64 = 5 | 128;
const SET_SHIFT: u32 = 12;
const SET_MAX: u32 = 0x7ff;

/// A function to be called, with arguments that are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionCall {
    /// Where it begins.
    pub address: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// The outcome of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// The last one has returned, and the thread is where it was. Otherwise it goes on by itself, and will be.
    pub has_returned: bool,
    /// How long the process was held, nanoseconds.
    pub pause_ns: u64,
}

impl Stopped {
    /// Has thread number `index`, which must run in user mode, make `calls` one after the other, and lets all threads go.
    /// `errno_at` is where that thread's `errno` lies.
    ///
    /// # Errors
    /// The thread can't make calls: none was made, and nothing was changed. [`Error::Gone`] if it ended in one.
    pub fn call_functions(
        self,
        index: usize,
        calls: &[FunctionCall],
        errno_at: u64,
        gadgets: Gadgets,
        maps: &MappingTable,
    ) -> Result<Called, Error> {
        gadgets.check(self.pid(), self.memory())?;
        let pid = self.pid();
        let failed = |source| Error::Call { call: "ptrace", pid, source };
        let thread = self.threads()[index].clone();
        check_function_calls(pid)?;
        let errno = self.memory().read_word(errno_at)? as u32;
        if errno > SET_MAX || thread.is_in_system_call() || self.is_job_stopped() {
            return Err(Error::NotNow { tid: thread.tid });
        }
        let mask = sys::signal_mask(thread.tid).map_err(failed)?;
        let state = signal_state(sys::extended_state(thread.tid).map_err(failed)?);
        let frames = calls.len() as u64 + 1;
        let needed = StackLayout::needed(state.len() as u64, frames) + STACK_BYTES;
        let top = room_for(pid, &thread, maps, needed).ok_or(Error::NoStack { tid: thread.tid, needed })?;
        let layout = StackLayout::below(top, state.len() as u64, frames).for_functions();
        let bytes = chain(&layout, calls, (errno_at, errno), (&thread.registers, mask), gadgets, state);
        self.memory().write(layout.first_frame(), &bytes)?;
        // From here on the thread makes the calls, whatever becomes of us.
        send_into(thread.tid, &thread.registers, layout.first_frame(), gadgets).map_err(failed)?;
        self.follow(thread.tid, layout.frame + 8)
    }

    /// Lets the thread run until it has restored its own state, which lies at `own_state`.
    fn follow(mut self, tid: i32, own_state: u64) -> Result<Called, Error> {
        let naps = Naps::begin();
        let (mut signal, mut is_last, mut pause_ns) = (0, false, None);
        loop {
            sys::resume_to_system_call(tid, signal).map_err(|_| Error::Gone { pid: self.pid() })?;
            let status = loop {
                let waited_ns = naps.waited_ns();
                match sys::poll_wait(tid) {
                    Ok(Some(status)) => break status,
                    Err(_) => return Err(Error::Gone { pid: self.pid() }),
                    Ok(None) if waited_ns > RETURN_NS => return Ok(self.leave(tid, pause_ns.unwrap_or(0))),
                    Ok(None) if waited_ns > HOLD_NS && pause_ns.is_none() => pause_ns = Some(self.let_go_but(tid)),
                    Ok(None) => naps.rest_always(),
                }
            };
            if !libc::WIFSTOPPED(status) {
                return Err(Error::Gone { pid: self.pid() });
            }
            let is_system_call = libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80;
            // Other reports are job control, or a signal, which can only be a fault of the function's own.
            signal = if status >> 16 == 0 && !is_system_call { libc::WSTOPSIG(status) } else { 0 };
            if is_system_call && is_last {
                let held_ns = self.let_go();
                return Ok(Called { has_returned: true, pause_ns: pause_ns.unwrap_or(held_ns) });
            }
            let returns = |at: Registers| at.orig_rax == SIGNAL_RETURN_CALL && at.rsp == own_state;
            is_last |= is_system_call && sys::registers(tid).is_ok_and(returns);
        }
    }

    /// Leaves the thread to itself in the middle of a call. It stops for that as soon as it can.
    fn leave(mut self, tid: i32, pause_ns: u64) -> Called {
        // Either fails only if the thread has ended.
        let _ = sys::interrupt(tid);
        if let Ok(Some(status)) = self.wait_running(tid) {
            let is_signal = status >> 16 == 0 && libc::WSTOPSIG(status) != libc::SIGTRAP | 0x80;
            let _ = sys::detach(tid, if is_signal { libc::WSTOPSIG(status) } else { 0 });
        }
        self.forget_all();
        Called { has_returned: false, pause_ns }
    }
}

/// All bytes from the first frame to the end of the vector state: one frame for each function, one for the call that puts
/// `errno` back, and the thread's own state.
fn chain(
    layout: &StackLayout,
    calls: &[FunctionCall],
    (errno_at, errno): (u64, u32),
    (original, mask): (&Registers, u64),
    gadgets: Gadgets,
    state: Vec<u8>,
) -> Vec<u8> {
    // No state of the floating-point unit: the kernel sets a fresh one, as for a signal handler.
    let framed = |registers: &Registers| signal_frame(registers, u64::MAX, gadgets.signal_return, 0);
    let mut frames: Vec<Vec<u8>> = Vec::with_capacity(calls.len() + 1);
    for (index, call) in calls.iter().enumerate() {
        frames.push(framed(&function_registers(original, call, layout.frame_at(index as u64 + 1))));
    }
    // It sets the word, and wakes nobody.
    let set = Call::new("futex", FUTEX, [errno_at, WAKE_AND_SET, 0, 0, errno_at, u64::from(errno << SET_SHIFT)]);
    frames.push(framed(&call_registers(original, gadgets, &set, layout.frame, layout.scratch)));
    layout.assembled(&frames, &signal_frame(original, mask, gadgets.signal_return, layout.state), state)
}

/// Registers at a function's first instruction. Its return address, at `stack`, leads into the next frame.
fn function_registers(original: &Registers, call: &FunctionCall, stack: u64) -> Registers {
    let mut registers = *original;
    (registers.rip, registers.rsp, registers.rbp) = (call.address, stack, 0);
    // Also the number of vector registers that a variadic function has arguments in.
    (registers.rax, registers.orig_rax) = (0, u64::MAX);
    registers.eflags &= !FLAGS_CLEARED;
    [registers.rdi, registers.rsi, registers.rdx, registers.rcx, registers.r8, registers.r9] = call.arguments;
    registers
}

const _: () = assert!(SCRATCH_BYTES.is_multiple_of(16), "stacks of functions are aligned");
