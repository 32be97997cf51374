//! The assembler with what it lacks: operands relative to `rip` by absolute address, code that is moved out of the usual
//! way, and constants.
//!
//! Instructions are written in the order in which they are thought of. Code that is marked cold or constant is moved
//! before the rest when bytes are made, so that the usual way falls through to its end, where the caller continues.
//!
//! Next: `generator`, which writes bodies with it, and `routines`.

use crate::emit::error::{EmitError, Emitted};
use crate::emit::shorten::shortened;
use iced_x86::code_asm::{AsmMemoryOperand, CodeAssembler, CodeLabel, qword_ptr, r10, r15};
use iced_x86::{BlockEncoder, BlockEncoderOptions, Instruction, InstructionBlock, OpKind, Register};
use std::ops::{Deref, DerefMut, Range};
use trimtab_types::ProcAddr;

/// Code is never longer than this, so that what is near its start is near its end.
const CODE_BYTES_MAX: u64 = 1 << 20;
/// `r15` as a base stands for `rip` until bytes are made; no code of ours uses `r15` as a base.
const RIP_MARK: Register = Register::R15;

/// Classes of code, in the order in which they lie: what lies beside the usual way is reached from it by short jumps.
const CONSTANT: u8 = 0;
/// Cold code of the rare code.
const COLD_OF_RARE: u8 = 1;
const RARE: u8 = 2;
const COLD: u8 = 3;
/// The priority of code that the program usually runs.
const USUAL: u8 = 4;

/// `nop`, so that room that is not filled does nothing.
const NO_OPERATION: u8 = 0x90;

pub(crate) struct Writer {
    assembler: CodeAssembler,
    at: ProcAddr,
    process: ProcAddr,
    cold: Vec<Range<usize>>,
    rare: Vec<Range<usize>>,
    constants: Vec<Range<usize>>,
}

/// Bytes, and where in them is what.
pub(crate) struct Encoded {
    pub bytes: Vec<u8>,
    /// Offset of the first instruction that is neither cold nor a constant.
    pub entry: usize,
    /// Bytes of constants at the start.
    pub constant_bytes: usize,
    /// Offset of each instruction, by its index in the writer.
    pub offsets: Vec<u32>,
}

impl Deref for Writer {
    type Target = CodeAssembler;

    fn deref(&self) -> &CodeAssembler {
        &self.assembler
    }
}

impl DerefMut for Writer {
    fn deref_mut(&mut self) -> &mut CodeAssembler {
        &mut self.assembler
    }
}

impl Writer {
    pub(crate) fn new(at: ProcAddr, process: ProcAddr) -> Result<Writer, EmitError> {
        let assembler = CodeAssembler::new(64)?;
        Ok(Writer { assembler, at, process, cold: Vec::new(), rare: Vec::new(), constants: Vec::new() })
    }

    /// Puts a label here; several may be at one place.
    pub(crate) fn bind(&mut self, mut label: CodeLabel) -> Emitted {
        self.assembler.set_label(&mut label)?;
        Ok(self.assembler.zero_bytes()?)
    }

    /// Code that was written since `start` (a number of instructions) lies out of the usual way. It is reached by
    /// jumps only and ends with one.
    pub(crate) fn cold_since(&mut self, start: usize) {
        self.cold.push(start..self.instructions().len());
    }

    /// As [`Self::cold_since`], for a long piece that may have cold pieces of its own.
    pub(crate) fn rare_since(&mut self, start: usize) {
        self.rare.push(start..self.instructions().len());
    }

    /// A constant; the label is its address.
    pub(crate) fn constant(&mut self, bytes: &[u8]) -> Result<CodeLabel, EmitError> {
        let start = self.instructions().len();
        let label = self.create_label();
        self.bind(label)?;
        self.db(bytes)?;
        self.constants.push(start..self.instructions().len());
        Ok(label)
    }

    /// Bytes that the caller fills.
    pub(crate) fn room(&mut self, bytes: usize) -> Emitted {
        let entry = self.create_label();
        self.bind(entry)?;
        if bytes > 0 {
            self.db(&vec![NO_OPERATION; bytes])?;
        }
        Ok(())
    }

    pub(crate) fn is_near(&self, address: ProcAddr) -> bool {
        let distance = address.0.wrapping_sub(self.at.0) as i64;
        distance.unsigned_abs() < (1 << 31) - CODE_BYTES_MAX
    }

    pub(crate) fn reach(&self, address: ProcAddr) -> Emitted {
        if self.is_near(address) { Ok(()) } else { Err(EmitError::OutOfReach { from: self.at, to: address }) }
    }

    /// A word at an address that is near.
    pub(crate) fn near(&self, address: ProcAddr) -> AsmMemoryOperand {
        qword_ptr(r15 + address.0)
    }

    /// A word of the process area; loads its base into `r10` if it is far.
    pub(crate) fn process(&mut self, offset: u32) -> Result<AsmMemoryOperand, EmitError> {
        if self.process_is_near() {
            return Ok(self.near(self.process + u64::from(offset)));
        }
        let base = self.process;
        self.assembler.mov(r10, base.0)?;
        Ok(qword_ptr(r10 + offset))
    }

    pub(crate) fn process_is_near(&self) -> bool {
        self.is_near(self.process)
    }

    /// Calls a shared routine.
    pub(crate) fn routine(&mut self, address: ProcAddr) -> Emitted {
        self.reach(address)?;
        Ok(self.assembler.call(address.0)?)
    }

    /// Makes bytes for address `at`.
    pub(crate) fn encode(&self) -> Result<Encoded, EmitError> {
        let order = self.order();
        let instructions: Vec<Instruction> = order.iter().map(|&index| self.resolved(index)).collect();
        let block = InstructionBlock::new(&instructions, self.at.0);
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let encoded = BlockEncoder::encode(64, block, options)?;
        let mut offsets = vec![0; order.len()];
        for (&index, &offset) in order.iter().zip(&encoded.new_instruction_offsets) {
            offsets[index] = offset;
        }
        let len = encoded.code_buffer.len();
        if len as u64 > CODE_BYTES_MAX {
            return Err(EmitError::OutOfReach { from: self.at, to: self.at + len as u64 });
        }
        let constants: usize = self.constants.iter().map(ExactSizeIterator::len).sum();
        let before = order.iter().take_while(|index| self.class(**index) < USUAL).count();
        let place = |index: usize| order.get(index).map_or(len, |&index| offsets[index] as usize);
        Ok(Encoded { entry: place(before), constant_bytes: place(constants), bytes: encoded.code_buffer, offsets })
    }

    /// Indices in the order in which they are encoded, by class.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.instructions().len()).collect();
        order.sort_by_cached_key(|index| self.class(*index));
        order
    }

    fn class(&self, index: usize) -> u8 {
        let within = |ranges: &[Range<usize>]| ranges.iter().any(|range| range.contains(&index));
        match (within(&self.constants), within(&self.cold), within(&self.rare)) {
            (true, ..) => CONSTANT,
            (_, true, true) => COLD_OF_RARE,
            (_, false, true) => RARE,
            (_, true, false) => COLD,
            (_, false, false) => USUAL,
        }
    }

    fn resolved(&self, index: usize) -> Instruction {
        let mut instruction = self.instructions()[index];
        let has_memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        if has_memory && instruction.memory_base() == RIP_MARK {
            instruction.set_memory_base(Register::RIP);
        }
        shortened(&instruction, |address| self.is_near(ProcAddr(address)))
    }
}
