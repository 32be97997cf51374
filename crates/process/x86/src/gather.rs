//! Holding a thread where it leaves a function that all processes of a job call once, until all have come.
//!
//! It counts itself in words that its monitor reads, and waits there until it is let go, at most for so many ticks: a
//! monitor that is gone holds nobody. Between two looks it sleeps, because others may need its processor to come as far
//! as it is; where no system call may be made it only pauses.
//!
//! A binding or a tool calls the same function for the program: whoever returns to code of theirs is not held, because
//! the same thread is about to come to the outer one's exit.
//!
//! It stands at returns only, where the return address lies on top of the stack. All registers and flags stay.
//!
//! Next: `hold`, which holds threads elsewhere; `trimtab-session`'s `gather`, which lets them go.

use crate::inline::{BELOW, EQUAL, NOT_EQUAL, TICKS_TO_RAX};
use crate::probe_island::{ProbeBytes, ProbePlace, WriteProbe};
use crate::writer::{POPS, PUSHES, ProbeCode, Writer};
use crate::{ExitKind, Island, PatchSite, Refusal, SiteKind, build_probe_island};
use std::ops::Range;
use trimtab_types::ProcAddr;

/// Places in the words: how many have come, anything but 0 to let all go, how many gave up waiting, anything but 0 if they
/// may sleep in the kernel, and for how many ticks they wait.
pub const GATHER_GO: u8 = 8;
/// See [`GATHER_GO`].
pub const GATHER_GAVE_UP: u8 = 16;
/// See [`GATHER_GO`].
pub const GATHER_MAY_SLEEP: u8 = 24;
/// See [`GATHER_GO`].
pub const GATHER_TICKS: u8 = 32;
/// The ticks for which threads were held: each takes the time at which it came away and adds the one at which it went on,
/// so while one waits that time and this are together how long it has waited so far.
pub const GATHER_HELD: u8 = 40;

/// Most ranges of code to which returning threads are not held.
pub const GATHER_RANGES_MAX: usize = 24;
/// Bytes of code at most, with as many ranges.
pub const GATHER_BYTES_MAX: usize = 192 + GATHER_RANGES_MAX * 40;

/// Number of the kernel's call that sleeps, and how long a thread sleeps between two looks, nanoseconds.
const NANOSLEEP: u8 = 35;
const SLEEP_NS: u32 = 200_000;
/// Bytes that are pushed above the return address: nine registers and the flags.
const PUSHED: u8 = 80;

/// The addresses that the code must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Address of the arena's gate word (32 bits, 0: closed), within 2 GiB.
    pub gate: ProcAddr,
    /// Address of the words in the target.
    pub words: ProcAddr,
    /// Code of bindings and tools: who returns there is not held. At most [`GATHER_RANGES_MAX`].
    pub passes: Vec<Range<ProcAddr>>,
}

impl Gather {
    /// True if it can stand at a place: where a function returns.
    pub fn fits(kind: SiteKind) -> bool {
        let (SiteKind::Exit(exit) | SiteKind::Whole(exit)) = kind else { return false };
        matches!(exit.kind, ExitKind::Ret { .. })
    }

    /// Writes its code for a place.
    ///
    /// # Errors
    /// [`Refusal::OutOfReach`] if the gate is too far away.
    pub fn written(&self, place: ProbePlace) -> Result<ProbeBytes, Refusal> {
        let code = ProbeCode { gate: self.gate, ..ProbeCode::default() };
        let mut writer = Writer::new(place, &code);
        writer.gather(self)?;
        Ok(ProbeBytes { bytes: writer.bytes, entry: 0 })
    }

    /// The island of a return.
    ///
    /// # Errors
    /// As [`build_probe_island`].
    pub fn island(&self, site: &PatchSite, original: &[u8], at: ProcAddr) -> Result<Island, Refusal> {
        let mut hold: [Box<WriteProbe<'_, Refusal>>; 1] = [Box::new(|place| self.written(place))];
        build_probe_island(site, original, at, &mut [], &mut hold)
    }
}

impl Writer<'_> {
    fn gather(&mut self, gather: &Gather) -> Result<(), Refusal> {
        // pushfq
        self.put(&[0x9c]);
        self.put(&PUSHES);
        let mut out = vec![self.closed_gate()?];
        // mov rax, [rsp + pushed]: where it returns to.
        self.put(&[0x48, 0x8b, 0x44, 0x24, PUSHED]);
        for range in &gather.passes {
            // mov rcx, start; mov rdx, rax; sub rdx, rcx; mov rcx, length; cmp rdx, rcx; jb out
            self.put(&[0x48, 0xb9]);
            self.put(&range.start.0.to_le_bytes());
            self.put(&[0x48, 0x89, 0xc2, 0x48, 0x29, 0xca, 0x48, 0xb9]);
            self.put(&(range.end - range.start).to_le_bytes());
            self.put(&[0x48, 0x39, 0xca]);
            out.push(self.jump_if(BELOW));
        }
        // mov r8, words; lock inc qword [r8]
        self.put(&[0x49, 0xb8]);
        self.put(&gather.words.0.to_le_bytes());
        self.put(&[0xf0, 0x49, 0xff, 0x00]);
        self.await_go();
        out.into_iter().for_each(|jump| self.lands(jump));
        self.put(&POPS);
        // popfq
        self.put(&[0x9d]);
        Ok(())
    }

    /// Until all are let go, or the time is over. The words' address is in r8.
    fn await_go(&mut self) {
        // rdtsc to rax; mov r9, rax; add r9, [r8 + ticks]; lock sub [r8 + held], rax
        self.put(&TICKS_TO_RAX);
        self.put(&[0x49, 0x89, 0xc1, 0x4d, 0x03, 0x48, GATHER_TICKS]);
        self.put(&[0xf0, 0x49, 0x29, 0x40, GATHER_HELD]);
        let again = self.bytes.len();
        // pause; cmp qword [r8 + go], 0; jne out
        self.put(&[0xf3, 0x90, 0x49, 0x83, 0x78, GATHER_GO, 0x00]);
        let gone = self.jump_if(NOT_EQUAL);
        // cmp qword [r8 + may sleep], 0; je on
        self.put(&[0x49, 0x83, 0x78, GATHER_MAY_SLEEP, 0x00]);
        let awake = self.jump_if(EQUAL);
        self.sleep();
        self.lands(awake);
        // rdtsc to rax; cmp rax, r9; jb again
        self.put(&TICKS_TO_RAX);
        self.put(&[0x4c, 0x39, 0xc8, 0x0f, 0x80 | BELOW, 0, 0, 0, 0]);
        let back = (again as i32 - self.bytes.len() as i32).to_le_bytes();
        let last = self.bytes.len();
        self.bytes[last - 4..].copy_from_slice(&back);
        // lock inc qword [r8 + gave up]
        self.put(&[0xf0, 0x49, 0xff, 0x40, GATHER_GAVE_UP]);
        self.lands(gone);
        // rdtsc to rax; lock add [r8 + held], rax
        self.put(&TICKS_TO_RAX);
        self.put(&[0xf0, 0x49, 0x01, 0x40, GATHER_HELD]);
    }

    /// The kernel's call spoils rax, rcx and r11.
    fn sleep(&mut self) {
        // push ns; push 0; mov rdi, rsp; xor esi, esi; mov eax, number; syscall; add rsp, 16
        self.put(&[0x68]);
        self.put(&SLEEP_NS.to_le_bytes());
        self.put(&[0x6a, 0x00, 0x48, 0x89, 0xe7, 0x31, 0xf6, 0xb8, NANOSLEEP, 0, 0, 0, 0x0f, 0x05]);
        self.put(&[0x48, 0x83, 0xc4, 0x10]);
    }
}
