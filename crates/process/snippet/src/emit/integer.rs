//! Integer expressions: the value ends in `rax`. They change `rax`, `rcx`, `rdx`, `r10` and `xmm14`, nothing else.
//!
//! Next: `float` for the other kind, `condition` for values that are only branched on.

use crate::emit::condition::Test;
use crate::emit::error::{EmitError, Emitted};
use crate::emit::generator::{Generator, Operand, R10, RCX, RDX, frame_word, width_bytes};
use crate::emit::routines;
use crate::ir::{Binary, Expression, Register, Unary, Width, process_word};
use iced_x86::code_asm::*;

/// Bits of the processor's number in what `rdtscp` leaves in `ecx` under Linux.
const PROCESSOR_MASK: i32 = 0xfff;

impl Generator<'_> {
    /// Computes an integer into `rax`.
    pub(crate) fn integer(&mut self, value: &Expression) -> Emitted {
        if self.is_float(value)? {
            return Err(EmitError::Mixed { what: "an integer expression" });
        }
        if let (Some(known), Expression::Temporary { temporary, .. }) = (self.in_rax.take(), value)
            && known == *temporary
        {
            return Ok(());
        }
        if let Some(operand) = self.operand(value)? {
            return self.load_operand(rax, operand);
        }
        match value {
            Expression::Int(constant) => Ok(self.w.mov(rax, *constant)?),
            Expression::Register(Register::Rip) => Ok(self.w.mov(rax, self.environment.point.0)?),
            Expression::Register(_) => self.stack_pointer(rax),
            Expression::Load { address, width, signed } => {
                if self.is_early()
                    && let Expression::Register(_) = **address
                    && let Some(Operand::Register(address)) = self.operand(address)?
                {
                    return self.hot_load(address, *width, *signed);
                }
                self.readable_address(address, *width)?;
                self.load(rax, *width, *signed)
            }
            Expression::Elapsed { variable } => self.elapsed(*variable),
            Expression::CallWasLeft { variable, at_exit } => self.call_was_left(*variable, *at_exit),
            Expression::Now => {
                self.ticks(rax)?;
                self.nanoseconds()
            }
            Expression::Processor => {
                self.w.rdtscp()?;
                self.w.mov(eax, ecx)?;
                Ok(self.w.and(eax, PROCESSOR_MASK)?)
            }
            Expression::Unary(operator, operand) => self.unary(value, *operator, operand),
            Expression::Binary(operator, left, right) => self.binary(value, *operator, left, right),
            Expression::And(..) | Expression::Or(..) => self.truth(value),
            Expression::Select(condition, one, other) => self.select(condition, one, other),
            Expression::TextEquals { address, text } => self.text_equals(address, *text),
            _ => Err(EmitError::Mixed { what: "an integer expression" }),
        }
    }

    pub(crate) fn load_operand(&mut self, into: AsmRegister64, operand: Operand) -> Emitted {
        Ok(match operand {
            Operand::Immediate(constant) => self.w.mov(into, i64::from(constant)),
            Operand::Register(register) => self.w.mov(into, register),
            Operand::Memory(memory) => self.w.mov(into, memory),
        }?)
    }

    /// The program's stack pointer.
    pub(crate) fn stack_pointer(&mut self, into: AsmRegister64) -> Emitted {
        self.needs_registers()?;
        let depth = self.depth();
        Ok(self.w.lea(into, qword_ptr(rsp + depth))?)
    }

    /// The time stamp counter into `into`; changes `rax` and `rdx`.
    pub(crate) fn ticks(&mut self, into: AsmRegister64) -> Emitted {
        self.w.rdtsc()?;
        self.w.shl(rdx, 32)?;
        if into == rdx {
            return Ok(self.w.or(rdx, rax)?);
        }
        Ok(self.w.or(rax, rdx)?)
    }

    /// Ticks in `rax` to nanoseconds; changes `rdx`.
    pub(crate) fn nanoseconds(&mut self) -> Emitted {
        let factor = self.w.process(process_word::NS_PER_TICK_SHIFTED)?;
        self.w.mul(factor)?;
        Ok(self.w.shrd(rax, rdx, 32)?)
    }

    /// An address into `rax` from which `width` can be read: the one computed, or that of a zero.
    pub(crate) fn readable_address(&mut self, address: &Expression, width: Width) -> Emitted {
        let bytes = width_bytes(width);
        self.integer(address)?;
        if self.is_known(address, bytes) {
            return Ok(());
        }
        if self.is_early() {
            return self.hot_address(bytes);
        }
        self.w.mov(edx, bytes)?;
        let readable = self.environment.routines.readable;
        self.routine(readable, RCX | RDX | R10, routines::RANGE_INSTRUCTIONS_MAX)
    }

    /// True if an address needs no check.
    pub(crate) fn is_known(&self, address: &Expression, bytes: u32) -> bool {
        let stack = i64::from(self.environment.stack_readable_bytes);
        let on_stack = |offset: i64| offset >= 0 && offset.saturating_add(i64::from(bytes)) <= stack;
        match address {
            Expression::Register(Register::Rsp) => on_stack(0),
            Expression::Binary(Binary::Add, left, right) => match (&**left, &**right) {
                (Expression::Register(Register::Rsp), Expression::Int(offset))
                | (Expression::Int(offset), Expression::Register(Register::Rsp)) => on_stack(*offset),
                _ => false,
            },
            _ => false,
        }
    }

    /// Loads from an address that can be read into `rax`.
    pub(crate) fn load(&mut self, from: AsmRegister64, width: Width, signed: bool) -> Emitted {
        Ok(match (width, signed) {
            (Width::W8, false) => self.w.movzx(eax, byte_ptr(from)),
            (Width::W8, true) => self.w.movsx(rax, byte_ptr(from)),
            (Width::W16, false) => self.w.movzx(eax, word_ptr(from)),
            (Width::W16, true) => self.w.movsx(rax, word_ptr(from)),
            (Width::W32, false) => self.w.mov(eax, dword_ptr(from)),
            (Width::W32, true) => self.w.movsxd(rax, dword_ptr(from)),
            (Width::W64, _) => self.w.mov(rax, qword_ptr(from)),
        }?)
    }

    fn narrow(&mut self, width: Width, signed: bool) -> Emitted {
        Ok(match (width, signed) {
            (Width::W8, false) => self.w.movzx(eax, al),
            (Width::W8, true) => self.w.movsx(rax, al),
            (Width::W16, false) => self.w.movzx(eax, ax),
            (Width::W16, true) => self.w.movsx(rax, ax),
            (Width::W32, false) => self.w.mov(eax, eax),
            (Width::W32, true) => self.w.movsxd(rax, eax),
            (Width::W64, _) => Ok(()),
        }?)
    }

    fn unary(&mut self, whole: &Expression, operator: Unary, operand: &Expression) -> Emitted {
        match operator {
            Unary::ToInt => return self.float_to_integer(operand),
            Unary::IsZero => return self.truth(whole),
            Unary::ToFloat | Unary::UnsignedToFloat => {
                return Err(EmitError::Mixed { what: "a conversion" });
            }
            Unary::Negate | Unary::Not | Unary::Absolute | Unary::Narrow(..) => self.integer(operand)?,
        }
        match operator {
            Unary::Negate => Ok(self.w.neg(rax)?),
            Unary::Not => Ok(self.w.not(rax)?),
            Unary::Narrow(width, signed) => self.narrow(width, signed),
            _ => {
                self.w.mov(rcx, rax)?;
                self.w.neg(rax)?;
                // Negative: what it was before was positive, or the one value without a negative.
                Ok(self.w.cmovs(rax, rcx)?)
            }
        }
    }

    fn binary(&mut self, whole: &Expression, operator: Binary, left: &Expression, right: &Expression) -> Emitted {
        if Test::of(operator).is_some() {
            return self.truth(whole);
        }
        let operand = self.two(left, right)?;
        self.apply(operator, operand)
    }

    /// The left value in `rax`, the right one where it is, or in `rcx`.
    pub(crate) fn two(&mut self, left: &Expression, right: &Expression) -> Result<Operand, EmitError> {
        if self.is_float(left)? != self.is_float(right)? {
            return Err(EmitError::Mixed { what: "an operator" });
        }
        self.integer(left)?;
        if let Some(operand) = self.operand(right)? {
            return Ok(operand);
        }
        let kept = self.take(1);
        self.w.mov(frame_word(kept), rax)?;
        self.integer(right)?;
        self.w.mov(rcx, rax)?;
        self.w.mov(rax, frame_word(kept))?;
        self.release(1);
        Ok(Operand::Register(rcx))
    }
}
