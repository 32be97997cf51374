//! The result of compiling: bytes for one address.
//!
//! Next: `super::compile`.

use trimtab_types::ProcAddr;

/// One body's code, for the address it was compiled for.
///
/// It is entered at [`Code::entry`] with the registers and the stack the program has at the point, and goes on behind its
/// last byte with every register, flag and stack word as they were: there the caller puts what the program would
/// have run. Constants and unusual cases lie before the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Offset of the first instruction.
    pub entry: usize,
    /// The address they are for.
    pub at: ProcAddr,
    /// Instructions that one run executes at most, shared routines included (called functions are not).
    pub instructions_max: u64,
    /// Bytes of the program's stack that one run uses, without called functions: below the stack pointer, the 128 bytes
    /// the program may use there included.
    pub stack_bytes: u32,
    /// How many of the bytes, from the first on, are constants.
    pub constant_bytes: usize,
}

impl Code {
    /// The address where the program enters.
    pub fn entry_address(&self) -> ProcAddr {
        self.at + self.entry as u64
    }
}
