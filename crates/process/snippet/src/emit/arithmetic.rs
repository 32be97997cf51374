//! Integer operators on `rax` and one operand. Nothing here can trap: divisors that would are tested for first.
//!
//! Next: `integer`, which computes the operands.

use crate::emit::error::{EmitError, Emitted};
use crate::emit::generator::{Generator, Operand};
use crate::ir::Binary;
use iced_x86::code_asm::*;

/// One instruction on `rax` and any operand.
macro_rules! on_rax {
    ($generator:ident, $instruction:ident, $operand:expr) => {
        match $operand {
            Operand::Immediate(constant) => $generator.w.$instruction(rax, constant)?,
            Operand::Register(register) => $generator.w.$instruction(rax, register)?,
            Operand::Memory(memory) => $generator.w.$instruction(rax, memory)?,
        }
    };
}
pub(crate) use on_rax;

impl Generator<'_> {
    /// An operator that is no comparison.
    pub(crate) fn apply(&mut self, operator: Binary, operand: Operand) -> Emitted {
        match operator {
            Binary::Add => on_rax!(self, add, operand),
            Binary::Subtract => on_rax!(self, sub, operand),
            Binary::And => on_rax!(self, and, operand),
            Binary::Or => on_rax!(self, or, operand),
            Binary::Xor => on_rax!(self, xor, operand),
            Binary::Multiply => self.multiply(operand)?,
            Binary::Divide | Binary::Remainder => self.divide(operand, operator == Binary::Remainder)?,
            Binary::DivideUnsigned | Binary::RemainderUnsigned => {
                self.divide_unsigned(operand, operator == Binary::RemainderUnsigned)?;
            }
            Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned => self.shift(operator, operand)?,
            Binary::Minimum | Binary::Maximum => self.extreme(operator, operand)?,
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessEqual
            | Binary::LessUnsigned
            | Binary::LessEqualUnsigned => return Err(EmitError::Mixed { what: "a comparison" }),
        }
        Ok(())
    }

    fn multiply(&mut self, operand: Operand) -> Emitted {
        Ok(match operand {
            Operand::Immediate(constant) => self.w.imul_3(rax, rax, constant),
            Operand::Register(register) => self.w.imul_2(rax, register),
            Operand::Memory(memory) => self.w.imul_2(rax, memory),
        }?)
    }

    fn divide(&mut self, operand: Operand, remainder: bool) -> Emitted {
        self.load_operand(rcx, operand)?;
        let (zero, minus_one, end) = (self.w.create_label(), self.w.create_label(), self.w.create_label());
        self.w.test(rcx, rcx)?;
        self.w.je(zero)?;
        self.w.cmp(rcx, -1)?;
        self.w.je(minus_one)?;
        self.w.cqo()?;
        self.w.idiv(rcx)?;
        if remainder {
            self.w.mov(rax, rdx)?;
        }
        self.w.jmp(end)?;
        self.w.bind(minus_one)?;
        // The division of the smallest number would trap; its negation wraps.
        if !remainder {
            self.w.neg(rax)?;
            self.w.jmp(end)?;
        }
        self.w.bind(zero)?;
        self.w.xor(eax, eax)?;
        self.w.bind(end)
    }

    fn divide_unsigned(&mut self, operand: Operand, remainder: bool) -> Emitted {
        self.load_operand(rcx, operand)?;
        let (zero, end) = (self.w.create_label(), self.w.create_label());
        self.w.test(rcx, rcx)?;
        self.w.je(zero)?;
        self.w.xor(edx, edx)?;
        self.w.div(rcx)?;
        if remainder {
            self.w.mov(rax, rdx)?;
        }
        self.w.jmp(end)?;
        self.w.bind(zero)?;
        self.w.xor(eax, eax)?;
        self.w.bind(end)
    }

    fn shift(&mut self, operator: Binary, operand: Operand) -> Emitted {
        if let Operand::Immediate(count) = operand {
            let count = count & 63;
            return Ok(match operator {
                Binary::ShiftLeft => self.w.shl(rax, count),
                Binary::ShiftRight => self.w.sar(rax, count),
                _ => self.w.shr(rax, count),
            }?);
        }
        self.load_operand(rcx, operand)?;
        Ok(match operator {
            Binary::ShiftLeft => self.w.shl(rax, cl),
            Binary::ShiftRight => self.w.sar(rax, cl),
            _ => self.w.shr(rax, cl),
        }?)
    }

    fn extreme(&mut self, operator: Binary, operand: Operand) -> Emitted {
        self.load_operand(rcx, operand)?;
        self.w.cmp(rax, rcx)?;
        Ok(if operator == Binary::Minimum { self.w.cmovg(rax, rcx) } else { self.w.cmovl(rax, rcx) }?)
    }
}
