//! Holding a thread that is about to set a handler of a fault, where code that may fault runs elsewhere.
//!
//! Such a handler would look for the code where it was, so the code has to go back before the handler is set. The thread
//! tells what it is about to set in words that its monitor reads, and waits until it is answered, at most for some
//! seconds: a monitor that is gone holds nobody. Nothing but the time is asked, so no filter of system calls matters.
//!
//! It stands at the entry of the C library's `sigaction`, by which the others (`signal`, `sigset`, ...) set handlers too.
//! Every other call of it passes after some comparisons, which spoil nothing but the flags; they are free at an entry.
//!
//! Next: `trimtab-session`'s `hold`, which answers.

use crate::inline::{ABOVE, EQUAL, NOT_ABOVE, TICKS_TO_RAX};
use crate::probe_island::{ProbeBytes, ProbePlace};
use crate::writer::{POPS, PUSHES, ProbeCode, Writer};
use crate::{Island, PatchSite, Refusal, SiteKind, WriteProbe, build_probe_island};
use trimtab_types::ProcAddr;

/// Threads that may wait at once with what they set told; a power of two.
pub const HOLD_PLACES: usize = 4;
/// Ticks that a thread waits at most: one to three seconds at the rates of today's processors.
pub const HOLD_TICKS: u64 = 5_000_000_000;
/// A handler is told by its address, and the signal in the bits from here on.
pub const HOLD_SIGNAL_SHIFT: u8 = 56;

/// Signals by which the kernel reports faults: illegal instruction, trap, bus error, arithmetic, segmentation.
const FAULTS: [u8; 5] = [4, 5, 7, 8, 11];
/// Places in the words: what was asked, what was answered, what is to be set.
const ANSWERED: u8 = 8;
const HANDLERS: u8 = 16;

/// The addresses that the code must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Address of the arena's gate word (32 bits, 0: closed), within 2 GiB.
    pub gate: ProcAddr,
    /// Address of the words in the target: how many have asked, how many are answered, then [`HOLD_PLACES`] of what they set.
    pub words: ProcAddr,
}

impl Hold {
    /// True if it can stand at a place: where a function begins.
    pub fn fits(kind: SiteKind) -> bool {
        matches!(kind, SiteKind::Entry | SiteKind::Whole(_))
    }

    /// Writes its code for a place.
    ///
    /// # Errors
    /// [`Refusal::OutOfReach`] if the gate is too far away.
    pub fn written(&self, place: ProbePlace) -> Result<ProbeBytes, Refusal> {
        let code = ProbeCode { gate: self.gate, ..ProbeCode::default() };
        let mut writer = Writer::new(place, &code);
        writer.hold(self.words)?;
        Ok(ProbeBytes { bytes: writer.bytes, entry: 0 })
    }

    /// The island of a function that nothing else stands at.
    ///
    /// # Errors
    /// As [`build_probe_island`].
    pub fn island(&self, site: &PatchSite, original: &[u8], at: ProcAddr) -> Result<Island, Refusal> {
        let mut hold: [Box<WriteProbe<'_, Refusal>>; 1] = [Box::new(|place| self.written(place))];
        build_probe_island(site, original, at, &mut hold, &mut [])
    }
}

impl Writer<'_> {
    /// rdi is the signal, rsi points to what is set for it, of which the handler is the first word.
    fn hold(&mut self, words: ProcAddr) -> Result<(), Refusal> {
        // test rsi, rsi; je out
        self.put(&[0x48, 0x85, 0xf6]);
        let mut out = vec![self.jump_if(EQUAL)];
        let mut is_fault = Vec::new();
        for signal in FAULTS {
            // cmp edi, signal; je on
            self.put(&[0x83, 0xff, signal]);
            is_fault.push(self.jump_if(EQUAL));
        }
        out.push(self.jump());
        is_fault.into_iter().for_each(|jump| self.lands(jump));
        // cmp qword [rsi], 1; jbe out: the default, or to ignore it.
        self.put(&[0x48, 0x83, 0x3e, 0x01]);
        out.push(self.jump_if(NOT_ABOVE));
        out.push(self.closed_gate()?);
        self.put(&PUSHES);
        self.tell(words);
        self.wait();
        self.put(&POPS);
        out.into_iter().for_each(|jump| self.lands(jump));
        Ok(())
    }

    /// The words' address in r11, the number of this question in rcx, and what is to be set in its place.
    fn tell(&mut self, words: ProcAddr) {
        // mov r11, words; mov r9, [rsi]; mov eax, edi; shl rax, 56; or r9, rax
        self.put(&[0x49, 0xbb]);
        self.put(&words.0.to_le_bytes());
        self.put(&[0x4c, 0x8b, 0x0e, 0x89, 0xf8, 0x48, 0xc1, 0xe0, HOLD_SIGNAL_SHIFT, 0x49, 0x09, 0xc1]);
        // mov ecx, 1; lock xadd [r11], rcx
        self.put(&[0xb9, 1, 0, 0, 0, 0xf0, 0x49, 0x0f, 0xc1, 0x0b]);
        // mov eax, ecx; and eax, places - 1; mov [r11 + rax * 8 + handlers], r9
        self.put(&[0x89, 0xc8, 0x83, 0xe0, HOLD_PLACES as u8 - 1, 0x4d, 0x89, 0x4c, 0xc3, HANDLERS]);
    }

    /// Until more are answered than asked before, or the time is over.
    fn wait(&mut self) {
        self.put(&TICKS_TO_RAX);
        // mov r8, limit; add r8, rax
        self.put(&[0x49, 0xb8]);
        self.put(&HOLD_TICKS.to_le_bytes());
        self.put(&[0x49, 0x01, 0xc0]);
        let again = self.bytes.len();
        // pause; cmp [r11 + answered], rcx; ja out
        self.put(&[0xf3, 0x90, 0x49, 0x39, 0x4b, ANSWERED]);
        let answered = self.jump_if(ABOVE);
        // cmp rax, r8; jb again
        self.put(&TICKS_TO_RAX);
        self.put(&[0x4c, 0x39, 0xc0, 0x72, 0]);
        let back = (self.bytes.len() - again) as u8;
        let last = self.bytes.len() - 1;
        self.bytes[last] = back.wrapping_neg();
        self.lands(answered);
    }
}
