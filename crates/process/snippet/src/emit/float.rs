//! Float expressions: the value ends in `xmm14`. Legacy encodings only, which leave the upper parts of vector registers
//! alone; the program's MXCSR is put away while a body computes with floats, so no exception of ours is seen or raised.
//!
//! Next: `frame`, which saves what is changed here.

use crate::emit::error::{EmitError, Emitted};
use crate::emit::generator::{Generator, VECTORS, frame_word, is_float_kind};
use crate::ir::{Binary, Expression, Unary, Width};
use iced_x86::code_asm::*;

/// 2^63 as a double: the first float that no signed integer reaches.
const TWO_TO_63: u64 = 0x43e0_0000_0000_0000;

impl Generator<'_> {
    /// Computes a float into `xmm14`; changes `rax` and whatever integer operands change.
    pub(crate) fn float(&mut self, value: &Expression) -> Emitted {
        if !self.is_float(value)? {
            return Err(EmitError::Mixed { what: "a float expression" });
        }
        if let Some(place) = self.float_place(value)? {
            return Ok(self.w.movsd_2(xmm14, place)?);
        }
        match value {
            Expression::Float(constant) => self.float_bits(xmm14, constant.to_bits()),
            Expression::Vector(number) => self.vector(*number, false),
            Expression::VectorSingle(number) => self.vector(*number, true),
            Expression::LoadFloat { address, width } => {
                self.readable_address(address, *width)?;
                match width {
                    Width::W64 => Ok(self.w.movsd_2(xmm14, qword_ptr(rax))?),
                    Width::W32 => {
                        self.math = true;
                        self.w.xorps(xmm14, xmm14)?;
                        Ok(self.w.cvtss2sd(xmm14, dword_ptr(rax))?)
                    }
                    Width::W8 | Width::W16 => Err(EmitError::Mixed { what: "a float of less than 4 bytes" }),
                }
            }
            Expression::Unary(operator, operand) => self.float_unary(*operator, operand),
            Expression::Binary(operator, left, right) => self.float_binary(*operator, left, right),
            Expression::Select(condition, one, other) => self.select(condition, one, other),
            _ => Err(EmitError::Mixed { what: "a float expression" }),
        }
    }

    /// A float that is already in memory.
    fn float_place(&mut self, value: &Expression) -> Result<Option<AsmMemoryOperand>, EmitError> {
        Ok(match *value {
            Expression::Variable { variable } => {
                let found = self.variable(variable)?;
                if !is_float_kind(found.kind) {
                    return Err(self.wrong_kind("a float", variable));
                }
                Some(self.area_word(found.area, found.offset)?)
            }
            Expression::Temporary { temporary, .. } => Some(frame_word(temporary as u32)),
            _ => None,
        })
    }

    pub(crate) fn float_bits(&mut self, into: AsmRegisterXmm, bits: u64) -> Emitted {
        if bits == 0 {
            return Ok(self.w.xorps(into, into)?);
        }
        self.w.mov(rax, bits)?;
        Ok(self.w.movq(into, rax)?)
    }

    fn vector(&mut self, number: u8, single: bool) -> Emitted {
        self.needs_registers()?;
        let index = usize::from(number);
        let register = *VECTORS.get(index).ok_or(EmitError::VectorRegister { number })?;
        let on_stack = self.plan().vectors & (1 << index) != 0;
        let place = rsp + self.saved_vector_at(index);
        if single {
            self.math = true;
            self.w.xorps(xmm14, xmm14)?;
            return Ok(if on_stack {
                self.w.cvtss2sd(xmm14, dword_ptr(place))
            } else {
                self.w.cvtss2sd(xmm14, register)
            }?);
        }
        Ok(if on_stack { self.w.movsd_2(xmm14, qword_ptr(place)) } else { self.w.movq(xmm14, register) }?)
    }

    fn float_unary(&mut self, operator: Unary, operand: &Expression) -> Emitted {
        match operator {
            Unary::ToFloat => {
                self.integer(operand)?;
                self.integer_to_float()
            }
            Unary::UnsignedToFloat => self.unsigned_to_float(operand),
            Unary::Negate | Unary::Absolute => {
                self.float(operand)?;
                self.w.movq(rax, xmm14)?;
                if operator == Unary::Negate {
                    self.w.btc(rax, 63)?
                } else {
                    self.w.btr(rax, 63)?
                };
                Ok(self.w.movq(xmm14, rax)?)
            }
            _ => Err(EmitError::Mixed { what: "an operator" }),
        }
    }

    /// Signed `rax` to `xmm14`.
    pub(crate) fn integer_to_float(&mut self) -> Emitted {
        self.math = true;
        self.w.xorps(xmm14, xmm14)?;
        Ok(self.w.cvtsi2sd(xmm14, rax)?)
    }

    fn unsigned_to_float(&mut self, operand: &Expression) -> Emitted {
        self.integer(operand)?;
        let (large, end) = (self.w.create_label(), self.w.create_label());
        self.w.test(rax, rax)?;
        self.w.js(large)?;
        self.integer_to_float()?;
        self.w.jmp(end)?;
        self.w.bind(large)?;
        // Half of it, with the lost bit kept so that rounding goes the right way, twice.
        self.w.mov(rcx, rax)?;
        self.w.shr(rax, 1)?;
        self.w.and(ecx, 1)?;
        self.w.or(rax, rcx)?;
        self.integer_to_float()?;
        self.w.addsd(xmm14, xmm14)?;
        self.w.bind(end)
    }

    /// A float to `rax`: towards zero, clamped, 0 if it is no number.
    pub(crate) fn float_to_integer(&mut self, operand: &Expression) -> Emitted {
        self.float(operand)?;
        self.rounded_to_integer()
    }

    /// `xmm14` to `rax`: towards zero, clamped, 0 if it is no number.
    pub(crate) fn rounded_to_integer(&mut self) -> Emitted {
        self.math = true;
        let (zero, end) = (self.w.create_label(), self.w.create_label());
        self.w.ucomisd(xmm14, xmm14)?;
        self.w.jp(zero)?;
        self.float_bits(xmm15, TWO_TO_63)?;
        self.w.mov(rax, i64::MAX)?;
        self.w.ucomisd(xmm14, xmm15)?;
        self.w.jae(end)?;
        // Below the range the instruction gives the smallest integer by itself.
        self.w.cvttsd2si(rax, xmm14)?;
        self.w.jmp(end)?;
        self.w.bind(zero)?;
        self.w.xor(eax, eax)?;
        self.w.bind(end)
    }

    /// The left value in `xmm14`, the right one in `xmm15`.
    fn float_two(&mut self, left: &Expression, right: &Expression) -> Emitted {
        self.math = true;
        self.float(left)?;
        let kept = self.take(1);
        self.w.movsd_2(frame_word(kept), xmm14)?;
        self.float(right)?;
        self.w.movaps(xmm15, xmm14)?;
        self.w.movsd_2(xmm14, frame_word(kept))?;
        self.release(1);
        Ok(())
    }

    fn float_binary(&mut self, operator: Binary, left: &Expression, right: &Expression) -> Emitted {
        self.float_two(left, right)?;
        match operator {
            Binary::Add => self.w.addsd(xmm14, xmm15)?,
            Binary::Subtract => self.w.subsd(xmm14, xmm15)?,
            Binary::Multiply => self.w.mulsd(xmm14, xmm15)?,
            Binary::Divide => self.w.divsd(xmm14, xmm15)?,
            // Both give the right operand if either is no number.
            Binary::Minimum => self.w.minsd(xmm14, xmm15)?,
            Binary::Maximum => self.w.maxsd(xmm14, xmm15)?,
            _ => return Err(EmitError::FloatOperator { operator }),
        }
        Ok(())
    }

    /// Jumps if the comparison is `wanted`; with something that is no number only `NotEqual` holds.
    pub(crate) fn jump_floats(
        &mut self,
        operator: Binary,
        left: &Expression,
        right: &Expression,
        wanted: bool,
        to: CodeLabel,
    ) -> Emitted {
        self.float_two(left, right)?;
        match operator {
            Binary::Equal => self.jump_equal(wanted, to),
            Binary::NotEqual => self.jump_equal(!wanted, to),
            Binary::Less | Binary::LessEqual => {
                // Exchanged, so that "no number" looks like "not above".
                self.w.ucomisd(xmm15, xmm14)?;
                Ok(match (operator == Binary::Less, wanted) {
                    (true, true) => self.w.ja(to),
                    (true, false) => self.w.jbe(to),
                    (false, true) => self.w.jae(to),
                    (false, false) => self.w.jb(to),
                }?)
            }
            _ => Err(EmitError::FloatOperator { operator }),
        }
    }

    fn jump_equal(&mut self, wanted: bool, to: CodeLabel) -> Emitted {
        self.w.ucomisd(xmm14, xmm15)?;
        if !wanted {
            self.w.jp(to)?;
            return Ok(self.w.jne(to)?);
        }
        let no = self.w.create_label();
        self.w.jp(no)?;
        self.w.je(to)?;
        self.w.bind(no)
    }

    /// One of two values of either kind.
    pub(crate) fn select(&mut self, condition: &Expression, one: &Expression, other: &Expression) -> Emitted {
        if self.is_float(one)? != self.is_float(other)? {
            return Err(EmitError::Mixed { what: "a choice" });
        }
        let (no, end) = (self.w.create_label(), self.w.create_label());
        self.jump(condition, false, no)?;
        self.value(one)?;
        self.w.jmp(end)?;
        self.w.bind(no)?;
        self.value(other)?;
        self.w.bind(end)
    }

    /// A value of either kind, in `rax` or `xmm14`; true for a float.
    pub(crate) fn value(&mut self, value: &Expression) -> Result<bool, EmitError> {
        let float = self.is_float(value)?;
        if float {
            self.float(value)?
        } else {
            self.integer(value)?
        }
        Ok(float)
    }

    /// A value's 64 bits in `rax`.
    pub(crate) fn bits(&mut self, value: &Expression) -> Emitted {
        if self.value(value)? {
            self.w.movq(rax, xmm14)?;
        }
        Ok(())
    }
}
