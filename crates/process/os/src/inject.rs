//! System calls made by a stopped thread on our behalf, safe against our own death.
//!
//! The thread is sent through two instruction sequences that every C library has: `syscall; ret` and the signal return
//! (`mov $15,%rax; syscall`). On its stack, below the red zone, lies a complete signal frame of its own present state.
//! So whatever we ask for, if we are killed the thread makes at most that one call, returns into the signal return and
//! goes on exactly where it stood, floating-point and vector registers, signal mask and interrupted system call
//! included. No byte of text is written for this. Normally we put the registers back ourselves, through a stop in which
//! the kernel restarts an interrupted system call by itself.
//!
//! Next: `trimtab-session` maps its memory through this.

use crate::error::Error;
use crate::memory::Memory;
use crate::proc::MappingTable;
use crate::stop::Stopped;
use crate::sys::{self, Registers};
use std::io;
use trimtab_types::Pid;

/// `syscall; ret`.
const SYSTEM_CALL: [u8; 3] = [0x0f, 0x05, 0xc3];
/// `mov $15,%rax; syscall`: rt_sigreturn, as glibc and musl have it.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05];
/// Bytes below the stack pointer that belong to the running function.
const RED_ZONE: u64 = 128;
/// Largest executable mapping that is searched.
const SEARCH_MAX: u64 = 64 << 20;
/// Size of the kernel's `struct ucontext` on x86-64.
const UCONTEXT_BYTES: usize = 304;
/// Offset of the software-defined bytes in an fxsave area, and their magic words.
const SOFTWARE_BYTES: usize = 464;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
/// First and last errno-like codes by which the kernel marks a system call to be restarted.
const RESTART_CODES: std::ops::RangeInclusive<i64> = 512..=516;

/// Addresses of the two instruction sequences in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gadgets {
    /// `syscall; ret`.
    pub system_call: u64,
    /// The signal return.
    pub signal_return: u64,
}

impl Gadgets {
    /// Whether both sequences still stand where they were found. A process that has executed another program since has
    /// its code elsewhere, and a thread sent to the old place would crash.
    fn check(self, stopped: &Stopped) -> Result<(), Error> {
        let is_there = |address: u64, wanted: &[u8]| {
            stopped.memory().read_vec(address, wanted.len()).is_ok_and(|found| found == *wanted)
        };
        let both = is_there(self.system_call, &SYSTEM_CALL) && is_there(self.signal_return, &SIGNAL_RETURN);
        if both { Ok(()) } else { Err(Error::Gone { pid: stopped.pid() }) }
    }
}

/// Looks for both sequences in the executable mappings, C library first. The process need not be stopped.
pub fn find_gadgets(pid: Pid, memory: &Memory, maps: &MappingTable) -> Result<Gadgets, Error> {
    let mut candidates: Vec<_> = maps.0.iter().filter(|mapping| mapping.executable && mapping.readable).collect();
    let is_libc = |path: &str| path.contains("/libc.so") || path.contains("/libc-") || path.contains("/ld-musl");
    candidates.sort_by_key(|mapping| (!is_libc(&mapping.path), mapping.end - mapping.start));
    let mut system_call = None;
    let mut signal_return = None;
    for mapping in candidates.iter().filter(|mapping| mapping.end - mapping.start <= SEARCH_MAX) {
        let Ok(bytes) = memory.read_vec(mapping.start, (mapping.end - mapping.start) as usize) else { continue };
        let find = |wanted: &[u8]| {
            bytes.windows(wanted.len()).position(|window| window == wanted).map(|place| mapping.start + place as u64)
        };
        system_call = system_call.or_else(|| find(&SYSTEM_CALL));
        signal_return = signal_return.or_else(|| find(&SIGNAL_RETURN));
        if let (Some(system_call), Some(signal_return)) = (system_call, signal_return) {
            return Ok(Gadgets { system_call, signal_return });
        }
    }
    Err(Error::NoGadgets { pid })
}

/// One stopped thread, lent to make system calls. Finish it with [`Injection::finish`]; dropping it does the same.
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
    pub fn begin(stopped: &'a mut Stopped, gadgets: Gadgets, maps: &MappingTable) -> Result<Self, Error> {
        gadgets.check(stopped)?;
        let pid = stopped.pid();
        let index = choose_thread(stopped);
        let tid = stopped.threads()[index].tid;
        let original = stopped.threads()[index].registers;
        let failed = |source| Error::Call { call: "ptrace", pid, source };
        let mask = sys::signal_mask(tid).map_err(failed)?;
        let state = sys::extended_state(tid).map_err(failed)?;
        let layout = StackLayout::below(original.rsp, state.len() as u64);
        let room = maps.at(original.rsp).is_some_and(|stack| stack.writable && layout.frame >= stack.start);
        if !room {
            return Err(Error::NoStack { tid, needed: original.rsp.saturating_sub(layout.frame) });
        }
        let frame = signal_frame(&original, mask, gadgets.signal_return, layout.state);
        stopped.memory().write(layout.state, &signal_state(state))?;
        stopped.memory().write(layout.frame, &frame)?;
        sys::set_signal_mask(tid, u64::MAX).map_err(failed)?;
        let (frame, scratch) = (layout.frame, layout.scratch);
        Ok(Injection { stopped, index, tid, original, mask, frame, scratch, gadgets, finished: false })
    }

    /// The stopped process.
    pub fn stopped(&self) -> &Stopped {
        self.stopped
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
        let mut registers = self.original;
        registers.rip = self.gadgets.system_call;
        registers.rsp = self.frame;
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        let failed = |source| Error::Call { call: "ptrace", pid, source };
        sys::set_registers(self.tid, &registers).map_err(failed)?;
        self.run_to_system_call_stop()?;
        self.run_to_system_call_stop()?;
        let result = sys::registers(self.tid).map_err(failed)?.rax as i64;
        if (-4095..0).contains(&result) {
            let source = io::Error::from_raw_os_error(-result as i32);
            return Err(Error::RemoteCall { pid, call: name, source });
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
        sys::resume_to_system_call(self.tid).map_err(|source| Error::Call { call: "ptrace", pid, source })?;
        match self.stopped.wait_running(self.tid)? {
            Some(status) if libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 => Ok(()),
            Some(status) if libc::WIFSTOPPED(status) => Err(Error::UnexpectedStop { pid, status }),
            _ => Err(Error::Gone { pid }),
        }
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
        sys::set_registers(self.tid, &self.original).map_err(failed)?;
        sys::set_signal_mask(self.tid, self.mask).map_err(failed)?;
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

fn choose_thread(stopped: &Stopped) -> usize {
    let rank = |index: &usize| {
        let thread = &stopped.threads()[*index];
        let restart = -(thread.registers.rax as i64);
        (thread.is_in_system_call() && restart == 516, thread.is_in_system_call())
    };
    (0..stopped.threads().len()).min_by_key(rank).unwrap_or(0)
}

/// Where things lie below the red zone: vector state, text for calls, then the signal frame.
struct StackLayout {
    state: u64,
    scratch: u64,
    frame: u64,
}

impl StackLayout {
    fn below(stack: u64, state_length: u64) -> Self {
        let state = (stack - RED_ZONE - state_length - 8) & !63;
        let scratch = state - SCRATCH_BYTES;
        let frame = (scratch - 8 - UCONTEXT_BYTES as u64 - 128) & !63;
        StackLayout { state, scratch, frame }
    }
}

/// The vector state as the kernel expects it in a signal frame: with its software-defined bytes and closing magic.
fn signal_state(mut state: Vec<u8>) -> Vec<u8> {
    let length = state.len() as u32;
    if state.len() > SOFTWARE_BYTES + 48 {
        // The kernel's own feature mask stands in these bytes of the register set; the rest describes the size.
        let mut features = [0; 8];
        features.copy_from_slice(&state[SOFTWARE_BYTES..SOFTWARE_BYTES + 8]);
        state[SOFTWARE_BYTES..SOFTWARE_BYTES + 4].copy_from_slice(&MAGIC_1.to_le_bytes());
        state[SOFTWARE_BYTES + 4..SOFTWARE_BYTES + 8].copy_from_slice(&(length + 4).to_le_bytes());
        state[SOFTWARE_BYTES + 8..SOFTWARE_BYTES + 16].copy_from_slice(&features);
        state[SOFTWARE_BYTES + 16..SOFTWARE_BYTES + 20].copy_from_slice(&length.to_le_bytes());
        state[SOFTWARE_BYTES + 20..SOFTWARE_BYTES + 48].fill(0);
    }
    state.extend_from_slice(&MAGIC_2.to_le_bytes());
    state
}

/// The signal frame that puts `registers` back: return address, then `struct ucontext`.
fn signal_frame(registers: &Registers, mask: u64, signal_return: u64, state: u64) -> Vec<u8> {
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

/// rax and rip from which an interrupted system call starts anew.
fn restart_state(registers: &Registers) -> (u64, u64) {
    let interrupted = (registers.orig_rax as i64) >= 0 && RESTART_CODES.contains(&-(registers.rax as i64));
    if interrupted { (registers.orig_rax, registers.rip - 2) } else { (registers.rax, registers.rip) }
}
