//! The differences between processor architectures when unwind tables are read; the only file here that knows any.
//!
//! Next: `frames`, which asks.

use gimli::{Register, X86_64};
use object::elf;
use serde::{Deserialize, Serialize};

/// The processor architecture a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Machine {
    /// AMD64 / Intel 64, in 64-bit mode.
    #[default]
    X86_64,
    /// Anything else, with its `e_machine` number.
    Other(u16),
}

impl Machine {
    /// From the ELF header's `e_machine`.
    pub(crate) fn from_elf(machine: elf::Machine) -> Self {
        if machine == elf::EM_X86_64 { Machine::X86_64 } else { Machine::Other(machine.0) }
    }

    /// The stack pointer in DWARF's numbering, where we know it.
    pub(crate) fn stack_pointer(self) -> Option<Register> {
        match self {
            Machine::X86_64 => Some(X86_64::RSP),
            Machine::Other(_) => None,
        }
    }

    /// CFA minus stack pointer, in bytes, at the first instruction of a called function.
    pub(crate) fn entry_cfa_offset(self) -> Option<i64> {
        match self {
            // The call pushed the return address and nothing else.
            Machine::X86_64 => Some(8),
            Machine::Other(_) => None,
        }
    }

    /// The effect of a relocation of this type on a slot; `None` for those that fill no slot with an address of code.
    pub(crate) fn relocation(self, kind: u32) -> Option<Relocation> {
        if self != Machine::X86_64 {
            return None;
        }
        match elf::RelocationType(kind) {
            elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT => Some(Relocation::Import),
            elf::R_X86_64_IRELATIVE => Some(Relocation::Resolve),
            _ => None,
        }
    }

    /// True if a relocation of this type stores its addend, moved as the file is.
    pub(crate) fn is_own_address(self, kind: u32) -> bool {
        self == Machine::X86_64 && elf::RelocationType(kind) == elf::R_X86_64_RELATIVE
    }

    /// The slot that a linkage stub at `addr` jumps through; `None` if `code` is none.
    pub(crate) fn stub_slot(self, code: &[u8], addr: u64) -> Option<u64> {
        const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
        const BND: &[u8] = &[0xf2];
        const JMP_RIP_RELATIVE: &[u8] = &[0xff, 0x25];
        if self != Machine::X86_64 {
            return None;
        }
        let rest = code.strip_prefix(ENDBR64).unwrap_or(code);
        let rest = rest.strip_prefix(BND).unwrap_or(rest);
        let rest = rest.strip_prefix(JMP_RIP_RELATIVE)?;
        let displacement = i32::from_le_bytes(*rest.first_chunk()?);
        let next = addr.checked_add((code.len() - rest.len() + size_of::<i32>()) as u64)?;
        next.checked_add_signed(displacement.into())
    }
}

/// The effect of a relocation on a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relocation {
    /// Stores the address of a symbol.
    Import,
    /// Calls the resolver at the addend and stores what it returns.
    Resolve,
}
