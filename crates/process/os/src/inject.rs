//! System calls made by a thread of the target on our behalf, safe against our own death.
//!
//! The thread is sent through two instruction sequences that every C library has: `syscall; ret` and the signal return
//! (`mov $15,%rax; syscall`). On its stack, below the red zone, lies a chain of complete signal frames: each sets the
//! registers for one call, whose `ret` leads into the next signal return, and the last frame is the thread's own present
//! state. So the thread is let go at once and makes all the calls by itself, whether we live or not, and goes on exactly
//! where it stood, floating-point and vector registers, signal mask and interrupted system call included. No byte of
//! text is written for this, and nobody waits for it: what came of the calls is seen from outside.
//!
//! `stacks` says where the frames may lie, `guards` which threads may make calls at all.
//!
//! A signal frame cannot resume a sleep with the time that remains of it. A thread that stands in such a call makes the
//! calls one by one under our control ([`Injection`]), and the kernel itself resumes the sleep. If we are killed
//! meanwhile, the sleep begins anew (`restart`).
//!
//! Next: `trimtab-session` maps its memory through this.

use crate::error::Error;
use crate::filters::on_the_way;
use crate::gadgets::{Call, Gadgets};
use crate::guards::check_calls;
use crate::proc::MappingTable;
use crate::restart::{registers_to_restore, restart_state};
use crate::stacks::room_for;
use crate::stop::Stopped;
use crate::sys::{self, Registers};
use crate::thread::Thread;
use crate::vectors::signal_state;
use std::io;

/// Bytes below the stack pointer that belong to the running function.
const RED_ZONE: u64 = 128;

/// Size of the kernel's `struct ucontext` on x86-64.
const UCONTEXT_BYTES: usize = 304;
/// Bytes from one frame of a chain to the next.
const FRAME_STRIDE: u64 = 320;
/// Threads that are looked at for one that can make calls: a thread costs some microseconds, in which all are held.
const LENDERS_MAX: usize = 32;
/// Answers to earlier requests to stop that are passed over.
const STOPS_MAX: usize = 4;

impl Stopped {
    /// Lets all threads go, one of them by way of `calls`; the time they were held, nanoseconds.
    ///
    /// The calls are under way then, and are made also if we are killed. A call that fails does not keep the others from
    /// being made: look from outside at what came of them. At most one call may carry a text.
    ///
    /// # Errors
    /// No thread has room on its stack for its state, or may make system calls: no call will be made.
    pub fn resume_through(mut self, calls: &[Call], gadgets: Gadgets, maps: &MappingTable) -> Result<u64, Error> {
        gadgets.check(self.pid(), self.memory())?;
        let Lent { index, mask, state, layout } = lend(&self, maps, (calls, calls.len() as u64), gadgets)?;
        // A thread of a program that job control has stopped does not run by itself.
        if self.threads()[index].is_in_timed_call() || self.is_job_stopped() {
            return self.call_one_by_one(calls, gadgets, maps);
        }
        let thread = self.threads()[index].clone();
        let pid = self.pid();
        let failed = |source| Error::Call { call: "ptrace", pid, source };
        let bytes = layout.chain(calls, &thread.registers, mask, gadgets, state);
        self.memory().write(layout.first_frame(), &bytes)?;
        // From here on the thread makes the calls, whatever becomes of us.
        send_into(thread.tid, &thread.registers, layout.first_frame(), gadgets).map_err(failed)?;
        Ok(self.let_go())
    }

    fn call_one_by_one(mut self, calls: &[Call], gadgets: Gadgets, maps: &MappingTable) -> Result<u64, Error> {
        self.make_calls(calls, gadgets, maps)?;
        Ok(self.let_go())
    }

    /// Has one of the threads make `calls`; all stand still meanwhile, and afterwards where they stood. A call that fails does
    /// not keep the others from being made. If we are killed, that thread makes the one that it is at, and all go on.
    ///
    /// # Errors
    /// As [`Stopped::resume_through`].
    pub fn make_calls(&mut self, calls: &[Call], gadgets: Gadgets, maps: &MappingTable) -> Result<(), Error> {
        let mut injection = Injection::begin_for(self, calls, gadgets, maps)?;
        for call in calls {
            let text_at = call.text.map_or(Ok(0), |text| injection.place_text(text))?;
            match injection.call(call.name, call.number, call.arguments(text_at)) {
                Ok(_) | Err(Error::RemoteCall { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        injection.finish()
    }
}

/// One stopped thread, lent to make system calls one by one. Finish it with [`Injection::finish`]; dropping it does the same.
#[derive(Debug)]
pub struct Injection<'a> {
    stopped: &'a mut Stopped,
    index: usize,
    tid: i32,
    original: Registers,
    mask: u64,
    frame: u64,
    scratch: u64,
    gadgets: Gadgets,
    finished: bool,
}

/// Bytes for strings passed to system calls.
pub(crate) const SCRATCH_BYTES: u64 = 256;

impl<'a> Injection<'a> {
    /// Chooses a thread, preferably one that runs in user mode, and saves its whole state on its stack.
    ///
    /// # Errors
    /// As [`Stopped::resume_through`].
    pub fn begin(stopped: &'a mut Stopped, gadgets: Gadgets, maps: &MappingTable) -> Result<Self, Error> {
        Injection::begin_for(stopped, &[], gadgets, maps)
    }

    /// The same for these calls.
    fn begin_for(
        stopped: &'a mut Stopped,
        calls: &[Call],
        gadgets: Gadgets,
        maps: &MappingTable,
    ) -> Result<Self, Error> {
        gadgets.check(stopped.pid(), stopped.memory())?;
        let pid = stopped.pid();
        let Lent { index, mask, state, layout } = lend(stopped, maps, (calls, 0), gadgets)?;
        let tid = stopped.threads()[index].tid;
        let original = stopped.threads()[index].registers;
        let failed = |source| Error::Call { call: "ptrace", pid, source };
        let restored = registers_to_restore(&stopped.threads()[index], stopped.memory());
        let frame = signal_frame(&restored, mask, gadgets.signal_return, layout.state);
        stopped.memory().write(layout.state, &state)?;
        stopped.memory().write(layout.frame, &frame)?;
        send_into(tid, &original, layout.frame, gadgets).map_err(failed)?;
        let (frame, scratch) = (layout.frame, layout.scratch);
        Ok(Injection { stopped, index, tid, original, mask, frame, scratch, gadgets, finished: false })
    }

    /// The stopped process.
    pub fn stopped(&self) -> &Stopped {
        self.stopped
    }

    /// Where system calls may read and write [`SCRATCH_BYTES`] that are nobody else's.
    pub(crate) fn scratch(&self) -> u64 {
        self.scratch
    }

    /// Puts `text` and a NUL where system calls can read it; its address.
    pub fn place_text(&self, text: &str) -> Result<u64, Error> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.truncate(SCRATCH_BYTES as usize - 1);
        bytes.push(0);
        self.stopped.memory().write(self.scratch, &bytes)?;
        Ok(self.scratch)
    }

    /// Makes one system call in the target. `name` is for errors.
    pub fn call(&mut self, name: &'static str, number: i64, arguments: [u64; 6]) -> Result<u64, Error> {
        let pid = self.stopped.pid();
        let call = Call::new(name, number, arguments);
        let on_the_way = on_the_way(&self.original, std::slice::from_ref(&call), self.scratch, self.gadgets);
        check_calls(pid, self.tid, &on_the_way)?;
        let registers = call_registers(&self.original, self.gadgets, &call, self.frame, self.scratch);
        let failed = |source| Error::Call { call: "ptrace", pid, source };
        sys::set_registers(self.tid, &registers).map_err(failed)?;
        self.run_to_system_call_stop()?;
        self.run_to_system_call_stop()?;
        let result = sys::registers(self.tid).map_err(failed)?.rax as i64;
        if (-4095..0).contains(&result) {
            let source = io::Error::from_raw_os_error(-result as i32);
            return Err(Error::RemoteCall { pid, call: call.name, source });
        }
        Ok(result as u64)
    }

    /// Puts the thread back exactly where it stood.
    pub fn finish(mut self) -> Result<(), Error> {
        self.finished = true;
        self.put_back()
    }

    fn run_to_system_call_stop(&mut self) -> Result<(), Error> {
        let pid = self.stopped.pid();
        for repeated in 0.. {
            sys::resume_to_system_call(self.tid, 0).map_err(|source| Error::Call { call: "ptrace", pid, source })?;
            match self.stopped.wait_running(self.tid)? {
                Some(status) if libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 => break,
                // Where job control had stopped it already, our asking it to stop is only answered now.
                Some(status) if status >> 16 == libc::PTRACE_EVENT_STOP && repeated < STOPS_MAX => {}
                Some(status) if libc::WIFSTOPPED(status) => return Err(Error::UnexpectedStop { pid, status }),
                _ => return Err(Error::Gone { pid }),
            }
        }
        Ok(())
    }

    /// The kernel restarts an interrupted system call only when it leaves a stop of the signal kind, so we ask for one.
    fn put_back(&mut self) -> Result<(), Error> {
        let pid = self.stopped.pid();
        let failed = |source| Error::Call { call: "ptrace", pid, source };
        sys::interrupt(self.tid).map_err(failed)?;
        sys::resume(self.tid, 0).map_err(failed)?;
        match self.stopped.wait_running(self.tid)? {
            Some(status) if libc::WIFSTOPPED(status) => {}
            _ => return Err(Error::Gone { pid }),
        }
        sys::set_signal_mask(self.tid, self.mask).map_err(failed)?;
        sys::set_registers(self.tid, &self.original).map_err(failed)?;
        self.stopped.replace_registers(self.index, self.original);
        Ok(())
    }
}

impl Drop for Injection<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // The error that brought us here is reported; if this fails too, the saved frame still restores the thread.
            let _ = self.put_back();
        }
    }
}

/// Sends a stopped thread that had the registers `original` into the signal return of the frame at `frame`, with all
/// signals blocked.
pub(crate) fn send_into(tid: i32, original: &Registers, frame: u64, gadgets: Gadgets) -> io::Result<()> {
    let mut returning = *original;
    (returning.rip, returning.rsp, returning.orig_rax) = (gadgets.signal_return, frame + 8, u64::MAX);
    sys::set_registers(tid, &returning)?;
    // Registers first: the chain that they lead into restores the mask, but a mask without it would stay. A signal that
    // was on its way when the thread stopped, such as the one for a fault, would find our registers in its frame, and
    // its handler might never return. The last frame sets the mask again and lets it in.
    sys::set_signal_mask(tid, u64::MAX)
}

/// A thread that can make calls: its number, its signal mask and vector state, and where its frames go.
struct Lent {
    index: usize,
    mask: u64,
    state: Vec<u8>,
    layout: StackLayout,
}

/// Chooses a thread that stands on a stack of its own with room for its state and may make system calls, preferably one
/// that runs in user mode.
fn lend(stopped: &Stopped, maps: &MappingTable, calls: (&[Call], u64), gadgets: Gadgets) -> Result<Lent, Error> {
    let mut order: Vec<usize> = (0..stopped.threads().len()).collect();
    order.sort_by_key(|index| {
        let thread = &stopped.threads()[*index];
        (thread.is_in_timed_call(), thread.is_in_system_call())
    });
    let mut refusal = None;
    for index in order.into_iter().take(LENDERS_MAX) {
        match fit(stopped, index, maps, calls, gadgets) {
            Ok(lent) => return Ok(lent),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or(Error::Gone { pid: stopped.pid() }))
}

fn fit(
    stopped: &Stopped,
    index: usize,
    maps: &MappingTable,
    (calls, frames_before): (&[Call], u64),
    gadgets: Gadgets,
) -> Result<Lent, Error> {
    let (pid, thread) = (stopped.pid(), &stopped.threads()[index]);
    let failed = |source| Error::Call { call: "ptrace", pid, source };
    check_thread_pointer(stopped, thread)?;
    let mask = sys::signal_mask(thread.tid).map_err(failed)?;
    let state = signal_state(sys::extended_state(thread.tid).map_err(failed)?);
    let needed = StackLayout::needed(state.len() as u64, frames_before);
    let top = room_for(pid, thread, maps, needed).ok_or(Error::NoStack { tid: thread.tid, needed })?;
    let layout = StackLayout::below(top, state.len() as u64, frames_before);
    check_calls(pid, thread.tid, &on_the_way(&thread.registers, calls, layout.scratch, gadgets))?;
    // A kernel that does not tell is older than any C library that takes part by itself.
    if stopped.is_in_restartable_sequence(index).unwrap_or(false) {
        return Err(Error::NotNow { tid: thread.tid });
    }
    Ok(Lent { index, mask, state, layout })
}

/// Checks that the thread pointer is one of a C library's, which points at itself. Runtimes of their own, Go's for one,
/// keep it and stacks of many threads in one mapping, so that nobody could tell where a stack ends.
fn check_thread_pointer(stopped: &Stopped, thread: &Thread) -> Result<(), Error> {
    let base = thread.registers.fs_base;
    let is_its_own = base != 0 && stopped.memory().read_word(base).is_ok_and(|word| word == base);
    if is_its_own { Ok(()) } else { Err(Error::NoThreadPointer { tid: thread.tid }) }
}

/// Where things lie below the red zone, from above: vector state, text for calls, the frame of the thread's own state,
/// and below that the frames of a chain, so that nothing a signal handler puts on the stack can overwrite what is still
/// needed.
pub(crate) struct StackLayout {
    pub state: u64,
    pub scratch: u64,
    pub frame: u64,
    frames_before: u64,
}

impl StackLayout {
    pub fn below(stack: u64, state_length: u64, frames_before: u64) -> Self {
        let state = (stack.saturating_sub(RED_ZONE + state_length)) & !63;
        let scratch = state.saturating_sub(SCRATCH_BYTES);
        let frame = scratch.saturating_sub(8 + UCONTEXT_BYTES as u64 + 128) & !63;
        StackLayout { state, scratch, frame, frames_before }
    }

    /// Bytes from the stack pointer to the lowest of all that, at most.
    pub fn needed(state_length: u64, frames_before: u64) -> u64 {
        // An address that nothing is subtracted from beyond zero.
        let stack = 1 << 32;
        stack - StackLayout::below(stack, state_length, frames_before).first_frame() + 64
    }

    /// Where functions can be called: at a function's first byte the stack is eight bytes off a multiple of sixteen.
    pub fn for_functions(self) -> Self {
        StackLayout { frame: self.frame - 8, ..self }
    }

    pub fn first_frame(&self) -> u64 {
        self.frame_at(0)
    }

    /// Where a frame of the chain lies; the one behind the last is the thread's own state.
    pub fn frame_at(&self, number: u64) -> u64 {
        self.frame.saturating_sub(self.frames_before.saturating_sub(number) * FRAME_STRIDE)
    }

    /// All bytes from the first frame to the end of the vector state: one frame per call, then the one that restores
    /// `original`. All signals are blocked until that one sets the thread's own `mask` again.
    fn chain(&self, calls: &[Call], original: &Registers, mask: u64, gadgets: Gadgets, state: Vec<u8>) -> Vec<u8> {
        let framed = |(number, call): (u64, &Call)| {
            let registers = call_registers(original, gadgets, call, self.frame_at(number + 1), self.scratch);
            signal_frame(&registers, u64::MAX, gadgets.signal_return, self.state)
        };
        let frames: Vec<Vec<u8>> = (0..).zip(calls).map(framed).collect();
        let own = signal_frame(original, mask, gadgets.signal_return, self.state);
        let mut bytes = self.assembled(&frames, &own, state);
        if let Some(text) = calls.iter().find_map(|call| call.text) {
            let at = (self.scratch - self.first_frame()) as usize;
            let length = text.len().min(SCRATCH_BYTES as usize - 1);
            bytes[at..at + length].copy_from_slice(&text.as_bytes()[..length]);
        }
        bytes
    }

    /// The frames of a chain, the thread's own, and its vector state, each at its place.
    pub fn assembled(&self, frames: &[Vec<u8>], own: &[u8], state: Vec<u8>) -> Vec<u8> {
        let base = self.first_frame();
        let mut bytes = vec![0; (self.state - base) as usize];
        let mut put = |address: u64, part: &[u8]| {
            let at = (address - base) as usize;
            bytes[at..at + part.len()].copy_from_slice(part);
        };
        for (number, frame) in (0..).zip(frames) {
            put(self.frame_at(number), frame);
        }
        put(self.frame, own);
        bytes.extend(state);
        bytes
    }
}

/// Registers with which a thread makes `call` and returns by way of the stack at `stack`.
pub(crate) fn call_registers(
    original: &Registers,
    gadgets: Gadgets,
    call: &Call,
    stack: u64,
    text_at: u64,
) -> Registers {
    let mut registers = *original;
    registers.rip = gadgets.system_call;
    registers.rsp = stack;
    registers.rax = call.number as u64;
    registers.orig_rax = u64::MAX;
    [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = call.arguments(text_at);
    registers
}

/// The signal frame that puts `registers` back: return address, then `struct ucontext`.
pub(crate) fn signal_frame(registers: &Registers, mask: u64, signal_return: u64, state: u64) -> Vec<u8> {
    let (accumulator, instruction) = restart_state(registers);
    let segments = (registers.cs & 0xffff) | ((registers.ss & 0xffff) << 48);
    let words = [
        signal_return,
        // uc_flags: extended state present, stack segment saved and restored strictly.
        7,
        0,
        // uc_stack: a mode that does not exist, so that the kernel leaves the alternate stack as it is.
        0,
        0x7fff,
        0,
        registers.r8,
        registers.r9,
        registers.r10,
        registers.r11,
        registers.r12,
        registers.r13,
        registers.r14,
        registers.r15,
        registers.rdi,
        registers.rsi,
        registers.rbp,
        registers.rbx,
        registers.rdx,
        accumulator,
        registers.rcx,
        registers.rsp,
        instruction,
        registers.eflags,
        segments,
        0,
        0,
        mask,
        0,
        state,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        mask,
    ];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
