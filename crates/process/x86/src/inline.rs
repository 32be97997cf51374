//! Inline probes: the usual case of a simple probe without leaving the island.
//!
//! Usual is: the thread has a slot, the window is being recorded, the call is no recursion. Everything else goes to the
//! routine, which does the same from the same words. A function that was stopped is left alone, without a look at the clock.
//! Three registers are used and put back; the flags are free at a
//! function's entry and exit.
//!
//! Next: `island` for where this code stands.

use crate::Refusal;
use crate::writer::{Inline, InlineSlot, Writer};
use trimtab_types::ProcAddr;

const PUSH_THREE: [u8; 3] = [0x50, 0x51, 0x52];
const POP_THREE: [u8; 3] = [0x5a, 0x59, 0x58];
/// `rdtsc`, then the whole count in rax.
pub(crate) const TICKS_TO_RAX: [u8; 9] = [0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0];
/// `rdtsc`, then the whole count in rdx.
const TICKS_TO_RDX: [u8; 9] = [0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xc2];
/// Condition codes of jumps.
pub(crate) const EQUAL: u8 = 0x4;
pub(crate) const NOT_EQUAL: u8 = 0x5;
pub(crate) const BELOW: u8 = 0x2;
pub(crate) const NOT_BELOW: u8 = 0x3;
pub(crate) const ABOVE: u8 = 0x7;
pub(crate) const NOT_ABOVE: u8 = 0x6;

/// A forward jump whose target is not known yet: the place of its 32-bit displacement.
pub(crate) struct Pending(usize);

impl Writer<'_> {
    /// Entry: count, bytes, first and last, and the open call.
    pub(crate) fn inline_enter(&mut self, inline: &Inline) -> Result<(), Refusal> {
        let closed = self.closed_gate()?;
        self.put(&PUSH_THREE);
        let mut slow = vec![self.find_slot(&inline.slot)?];
        let mut restore = Vec::new();
        let numbers = &inline.numbers;
        if inline.timed {
            // lea rdx, [rsp + 24]; cmp [open_stack], rdx; a call further up the stack is still open: recursion.
            self.put(&[0x48, 0x8d, 0x54, 0x24, 0x18]);
            self.at_slot(&[0x48, 0x39, 0x91], numbers.open_stack);
            slow.push(self.jump_if(ABOVE));
            self.at_slot(&[0x48, 0x89, 0x91], numbers.open_stack);
        }
        self.compare_state(&inline.slot)?;
        let idle = self.jump_if(NOT_EQUAL);
        // mov rdx, [calls]; cmp rdx, [rax + look_at_calls]; inc rdx; mov [calls], rdx.
        self.at_slot(&[0x48, 0x8b, 0x91], numbers.calls);
        self.put(&[0x48, 0x3b, 0x90]);
        self.put(&inline.slot.look_at_calls_at.to_le_bytes());
        let beyond = self.jump_if(NOT_BELOW);
        self.put(&[0x48, 0xff, 0xc2]);
        self.at_slot(&[0x48, 0x89, 0x91], numbers.calls);
        if let Some(argument) = inline.bytes {
            self.add_bytes(inline, argument);
        }
        if inline.timed {
            self.put(&TICKS_TO_RAX);
            self.at_slot(&[0x48, 0x89, 0x81], numbers.last);
            self.at_slot(&[0x48, 0x83, 0xb9], numbers.first);
            // jne over the next instruction of seven bytes.
            self.put(&[0x00, 0x75, 0x07]);
            self.at_slot(&[0x48, 0x89, 0x81], numbers.first);
            self.at_slot(&[0x48, 0x89, 0x81], numbers.open_ticks);
            restore.push(self.jump());
            self.lands(idle);
            self.put(&TICKS_TO_RAX);
            self.at_slot(&[0x48, 0x89, 0x81], numbers.open_ticks);
        } else {
            self.lands(idle);
        }
        let over = self.put_back(restore);
        self.lands(beyond);
        slow.push(self.unless_stopped(&inline.slot, EQUAL));
        let stopped = self.put_back(Vec::new());
        self.call_slowly(slow, vec![over, stopped, closed], self.code.enter)
    }

    /// Exit: the time of the open call, if it is this one and began in the window.
    pub(crate) fn inline_leave(&mut self, inline: &Inline) -> Result<(), Refusal> {
        let closed = self.closed_gate()?;
        let numbers = &inline.numbers;
        self.put(&PUSH_THREE);
        self.header_to_rax(&inline.slot)?;
        let stopped = self.unless_stopped(&inline.slot, NOT_EQUAL);
        self.put(&TICKS_TO_RDX);
        let mut slow = vec![self.find_slot(&inline.slot)?];
        // lea rax, [rsp + 24]; cmp [open_stack], rax: not the open call, so nothing ends here.
        self.put(&[0x48, 0x8d, 0x44, 0x24, 0x18]);
        self.at_slot(&[0x48, 0x39, 0x81], numbers.open_stack);
        let restore = vec![stopped, self.jump_if(NOT_EQUAL)];
        self.compare_state(&inline.slot)?;
        slow.push(self.jump_if(NOT_EQUAL));
        // mov rax, [rax + first_ticks]; cmp [open_ticks], rax: begun before the window, so it must be clipped.
        self.put(&[0x48, 0x8b, 0x80]);
        self.put(&inline.slot.first_ticks_at.to_le_bytes());
        self.at_slot(&[0x48, 0x39, 0x81], numbers.open_ticks);
        slow.push(self.jump_if(BELOW));
        self.at_slot(&[0x48, 0x2b, 0x91], numbers.open_ticks);
        self.at_slot(&[0x48, 0x01, 0x91], numbers.ticks);
        self.at_slot(&[0x48, 0xc7, 0x81], numbers.open_stack);
        self.put(&[0, 0, 0, 0]);
        let over = self.put_back(restore);
        self.call_slowly(slow, vec![over, closed], self.code.leave)
    }

    /// Registers back, and to the end.
    fn put_back(&mut self, restore: Vec<Pending>) -> Pending {
        restore.into_iter().for_each(|jump| self.lands(jump));
        self.put(&POP_THREE);
        self.jump()
    }

    /// Registers back, and the routine; all other ways end behind it.
    fn call_slowly(&mut self, slow: Vec<Pending>, ends: Vec<Pending>, routine: ProcAddr) -> Result<(), Refusal> {
        slow.into_iter().for_each(|jump| self.lands(jump));
        self.put(&POP_THREE);
        self.call_routine(routine)?;
        ends.into_iter().for_each(|jump| self.lands(jump));
        Ok(())
    }

    /// `cmp qword [rax + stopped_ticks], 0` and the jump on that condition; rax holds the header's address.
    fn unless_stopped(&mut self, slot: &InlineSlot, condition: u8) -> Pending {
        self.put(&[0x48, 0x83, 0xb8]);
        self.put(&slot.stopped_ticks_at.to_le_bytes());
        self.put(&[0x00]);
        self.jump_if(condition)
    }

    fn header_to_rax(&mut self, slot: &InlineSlot) -> Result<(), Refusal> {
        self.put(&[0x48, 0x8b, 0x05]);
        let header = self.displacement(self.code.gate + slot.header_at, 0)?;
        self.put(&header);
        Ok(())
    }

    pub(crate) fn closed_gate(&mut self) -> Result<Pending, Refusal> {
        self.put(&[0x83, 0x3d]);
        let gate = self.displacement(self.code.gate, 1)?;
        self.put(&gate);
        self.put(&[0x00]);
        Ok(self.jump_if(EQUAL))
    }

    /// The thread's slot in rcx; clobbers rax. The jump is taken if the thread has none at its first place.
    fn find_slot(&mut self, slot: &InlineSlot) -> Result<Pending, Refusal> {
        // mov rax, fs:[0]; mov rcx, multiplier; imul rcx, rax; shr rcx, shift; imul rcx, rcx, stride; add rcx, [slots].
        self.put(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x48, 0xb9]);
        self.put(&slot.multiplier.to_le_bytes());
        self.put(&[0x48, 0x0f, 0xaf, 0xc8, 0x48, 0xc1, 0xe9, slot.shift, 0x48, 0x69, 0xc9]);
        self.put(&slot.stride.to_le_bytes());
        self.put(&[0x48, 0x03, 0x0d]);
        let slots = self.displacement(self.code.gate + slot.slots_at, 0)?;
        self.put(&slots);
        self.put(&[0x48, 0x39, 0x01]);
        Ok(self.jump_if(NOT_EQUAL))
    }

    /// The header's address in rax; flags as of comparing the state with recording.
    fn compare_state(&mut self, slot: &InlineSlot) -> Result<(), Refusal> {
        self.header_to_rax(slot)?;
        self.put(&[0x83, 0xb8]);
        self.put(&slot.state_at.to_le_bytes());
        self.put(&[slot.recording]);
        Ok(())
    }

    /// Adds an argument; those in rdx and rcx lie on the stack now.
    fn add_bytes(&mut self, inline: &Inline, argument: u8) {
        self.put(match argument {
            0 => &[0x48, 0x89, 0xf8],
            1 => &[0x48, 0x89, 0xf0],
            2 => &[0x48, 0x8b, 0x04, 0x24],
            3 => &[0x48, 0x8b, 0x44, 0x24, 0x08],
            4 => &[0x4c, 0x89, 0xc0],
            _ => &[0x4c, 0x89, 0xc8],
        });
        self.at_slot(&[0x48, 0x01, 0x81], inline.numbers.bytes);
        self.at_slot(&[0x48, 0x3b, 0x81], inline.numbers.bytes_max);
        let smaller = self.jump_if(NOT_ABOVE);
        self.at_slot(&[0x48, 0x89, 0x81], inline.numbers.bytes_max);
        self.lands(smaller);
    }

    /// An instruction on the word at `offset` of the slot in rcx.
    fn at_slot(&mut self, opcode: &[u8], offset: u32) {
        self.put(opcode);
        self.put(&offset.to_le_bytes());
    }

    pub(crate) fn jump_if(&mut self, condition: u8) -> Pending {
        self.put(&[0x0f, 0x80 | condition, 0, 0, 0, 0]);
        Pending(self.bytes.len() - 4)
    }

    pub(crate) fn jump(&mut self) -> Pending {
        self.put(&[0xe9, 0, 0, 0, 0]);
        Pending(self.bytes.len() - 4)
    }

    pub(crate) fn lands(&mut self, jump: Pending) {
        let distance = (self.bytes.len() - jump.0 - 4) as u32;
        self.bytes[jump.0..jump.0 + 4].copy_from_slice(&distance.to_le_bytes());
    }
}
