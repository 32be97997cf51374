//! What differs between processor architectures when unwind tables are read; the only file here that knows any.
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
}
