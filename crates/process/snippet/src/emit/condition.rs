//! Conditions: a branch instead of a value wherever possible, and without any register of ours where that suffices, so
//! that a probe whose condition is false saves nothing.
//!
//! Next: `frame`, which puts such bare conditions before everything else.

use crate::emit::error::EmitError;
use crate::emit::error::Emitted;
use crate::emit::generator::{GENERAL, Generator, Operand};
use crate::ir::{Area, Binary, Expression, Register, Unary, Width};
use iced_x86::code_asm::*;

/// A relation between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Below,
    BelowEqual,
    Above,
    AboveEqual,
}

impl Test {
    /// The comparison an operator stands for.
    pub(crate) fn of(operator: Binary) -> Option<Test> {
        Some(match operator {
            Binary::Equal => Test::Equal,
            Binary::NotEqual => Test::NotEqual,
            Binary::Less => Test::Less,
            Binary::LessEqual => Test::LessEqual,
            Binary::LessUnsigned => Test::Below,
            Binary::LessEqualUnsigned => Test::BelowEqual,
            _ => return None,
        })
    }

    fn opposite(self) -> Test {
        match self {
            Test::Equal => Test::NotEqual,
            Test::NotEqual => Test::Equal,
            Test::Less => Test::GreaterEqual,
            Test::LessEqual => Test::Greater,
            Test::Greater => Test::LessEqual,
            Test::GreaterEqual => Test::Less,
            Test::Below => Test::AboveEqual,
            Test::BelowEqual => Test::Above,
            Test::Above => Test::BelowEqual,
            Test::AboveEqual => Test::Below,
        }
    }

    /// The relation with the two values exchanged.
    fn mirrored(self) -> Test {
        match self {
            Test::Equal | Test::NotEqual => self,
            Test::Less => Test::Greater,
            Test::LessEqual => Test::GreaterEqual,
            Test::Greater => Test::Less,
            Test::GreaterEqual => Test::LessEqual,
            Test::Below => Test::Above,
            Test::BelowEqual => Test::AboveEqual,
            Test::Above => Test::Below,
            Test::AboveEqual => Test::BelowEqual,
        }
    }

    fn unsigned(self) -> Test {
        match self {
            Test::Less => Test::Below,
            Test::LessEqual => Test::BelowEqual,
            Test::Greater => Test::Above,
            Test::GreaterEqual => Test::AboveEqual,
            other => other,
        }
    }

    fn is_unsigned(self) -> bool {
        matches!(self, Test::Below | Test::BelowEqual | Test::Above | Test::AboveEqual)
    }
}

impl Generator<'_> {
    /// A truth value into `rax`: 0 or 1.
    pub(crate) fn truth(&mut self, condition: &Expression) -> Emitted {
        let (no, end) = (self.w.create_label(), self.w.create_label());
        self.jump(condition, false, no)?;
        self.w.mov(eax, 1)?;
        self.w.jmp(end)?;
        self.w.bind(no)?;
        self.w.xor(eax, eax)?;
        self.w.bind(end)
    }

    /// Jumps to `to` if the condition is `wanted`; goes on here otherwise.
    pub(crate) fn jump(&mut self, condition: &Expression, wanted: bool, to: CodeLabel) -> Emitted {
        match condition {
            Expression::Unary(Unary::IsZero, operand) => self.jump(operand, !wanted, to),
            Expression::And(left, right) => self.jump_both(left, right, wanted, to),
            Expression::Or(left, right) => self.jump_either(left, right, wanted, to),
            Expression::Binary(operator, left, right) => match Test::of(*operator) {
                Some(_) if self.is_float(left)? || self.is_float(right)? => {
                    self.jump_floats(*operator, left, right, wanted, to)
                }
                Some(test) => self.jump_integers(test, left, right, wanted, to),
                None => self.jump_value(condition, wanted, to),
            },
            _ => self.jump_value(condition, wanted, to),
        }
    }

    fn jump_both(&mut self, left: &Expression, right: &Expression, wanted: bool, to: CodeLabel) -> Emitted {
        if !wanted {
            self.jump(left, false, to)?;
            return self.jump(right, false, to);
        }
        let no = self.w.create_label();
        self.jump(left, false, no)?;
        self.jump(right, true, to)?;
        self.w.bind(no)
    }

    fn jump_either(&mut self, left: &Expression, right: &Expression, wanted: bool, to: CodeLabel) -> Emitted {
        if wanted {
            self.jump(left, true, to)?;
            return self.jump(right, true, to);
        }
        let yes = self.w.create_label();
        self.jump(left, true, yes)?;
        self.jump(right, false, to)?;
        self.w.bind(yes)
    }

    /// A value that is no comparison: true if it is not zero.
    fn jump_value(&mut self, value: &Expression, wanted: bool, to: CodeLabel) -> Emitted {
        if self.is_float(value)? {
            return self.jump_floats(Binary::NotEqual, value, &Expression::Float(0.0), wanted, to);
        }
        self.jump_integers(Test::NotEqual, value, &Expression::Int(0), wanted, to)
    }

    fn jump_integers(
        &mut self,
        test: Test,
        left: &Expression,
        right: &Expression,
        wanted: bool,
        to: CodeLabel,
    ) -> Emitted {
        let test = if wanted { test } else { test.opposite() };
        let left_first = self.compare_narrow(test, left, right, to)?;
        if left_first || self.compare_narrow(test.mirrored(), right, left, to)? {
            return Ok(());
        }
        if matches!(left, Expression::Int(_)) && self.compare_in_place(right, left)? {
            return self.jump_on(test.mirrored(), to);
        }
        if !self.compare_in_place(left, right)? {
            let is_constant =
                |value: &Expression| matches!(value, Expression::Int(value) if i32::try_from(*value).is_ok());
            if is_constant(left) && !is_constant(right) {
                // The computed value comes first, so that the constant needs no register.
                let operand = self.two(right, left)?;
                crate::emit::arithmetic::on_rax!(self, cmp, operand);
                return self.jump_on(test.mirrored(), to);
            }
            let operand = self.two(left, right)?;
            crate::emit::arithmetic::on_rax!(self, cmp, operand);
        }
        self.jump_on(test, to)
    }

    /// Compares without loading, if one of them is a register, or one is in memory and the other a constant.
    fn compare_in_place(&mut self, left: &Expression, right: &Expression) -> Result<bool, EmitError> {
        let right_is_register = matches!(right, Expression::Register(_));
        if !matches!(right, Expression::Int(_)) && !right_is_register && !matches!(left, Expression::Register(_)) {
            return Ok(false);
        }
        let (Some(first), Some(second)) = (self.operand(left)?, self.operand(right)?) else { return Ok(false) };
        match (first, second) {
            (Operand::Register(first), Operand::Immediate(0)) => self.w.test(first, first)?,
            (Operand::Register(first), Operand::Immediate(second)) => self.w.cmp(first, second)?,
            (Operand::Register(first), Operand::Register(second)) => self.w.cmp(first, second)?,
            (Operand::Register(first), Operand::Memory(second)) => self.w.cmp(first, second)?,
            (Operand::Memory(first), Operand::Immediate(second)) => self.w.cmp(first, second)?,
            (Operand::Memory(first), Operand::Register(second)) => self.w.cmp(first, second)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The low part of a register against a constant: compared as narrow as it is.
    fn compare_narrow(
        &mut self,
        test: Test,
        left: &Expression,
        right: &Expression,
        to: CodeLabel,
    ) -> Result<bool, EmitError> {
        let Some((register, constant, test)) = narrow_comparison(test, left, right) else { return Ok(false) };
        let Operand::Register(_) = self.register(register.register)? else { return Ok(false) };
        let number = register.register as usize;
        match register.width {
            Width::W8 => self.w.cmp(LOW_8[number], constant)?,
            Width::W16 => self.w.cmp(LOW_16[number], constant)?,
            Width::W32 => self.w.cmp(LOW_32[number], constant)?,
            Width::W64 => self.w.cmp(GENERAL[number], constant)?,
        }
        self.jump_on(test, to)?;
        Ok(true)
    }

    pub(crate) fn jump_on(&mut self, test: Test, to: CodeLabel) -> Emitted {
        Ok(match test {
            Test::Equal => self.w.je(to),
            Test::NotEqual => self.w.jne(to),
            Test::Less => self.w.jl(to),
            Test::LessEqual => self.w.jle(to),
            Test::Greater => self.w.jg(to),
            Test::GreaterEqual => self.w.jge(to),
            Test::Below => self.w.jb(to),
            Test::BelowEqual => self.w.jbe(to),
            Test::Above => self.w.ja(to),
            Test::AboveEqual => self.w.jae(to),
        }?)
    }

    /// True if a condition can be tested with nothing but the program's registers and words that are near.
    pub(crate) fn is_bare(&self, condition: &Expression) -> bool {
        match condition {
            Expression::Unary(Unary::IsZero, operand) => self.is_bare(operand),
            Expression::And(left, right) | Expression::Or(left, right) => self.is_bare(left) && self.is_bare(right),
            Expression::Binary(operator, left, right) => match Test::of(*operator) {
                Some(test) => {
                    let narrow = narrow_comparison(test, left, right).or(narrow_comparison(test, right, left));
                    narrow.is_some_and(|(low, ..)| self.is_bare_register(low.register))
                        || self.is_bare_pair(left, right)
                }
                None => false,
            },
            _ => self.is_bare_pair(condition, &Expression::Int(0)),
        }
    }

    fn is_bare_pair(&self, left: &Expression, right: &Expression) -> bool {
        let constant = |value: &Expression| matches!(value, Expression::Int(value) if i32::try_from(*value).is_ok());
        let register = |value: &Expression| match value {
            Expression::Register(register) => self.is_bare_register(*register),
            _ => false,
        };
        let near_word = |value: &Expression| match value {
            Expression::ProcessWord(_) => self.w.process_is_near(),
            Expression::Variable { variable } => {
                let found = self.unit.variables.get(*variable);
                let integer = found.is_some_and(|found| {
                    found.area == Area::Process && !crate::emit::generator::is_float_kind(found.kind)
                });
                integer && self.w.process_is_near()
            }
            _ => false,
        };
        let place = |value: &Expression| register(value) || near_word(value);
        (place(left) && constant(right))
            || (constant(left) && place(right))
            || (register(left) && place(right))
            || (place(left) && register(right))
    }

    fn is_bare_register(&self, register: Register) -> bool {
        let taken = register == Register::Rax && self.environment.flags_live;
        !taken && !matches!(register, Register::Rsp | Register::Rip)
    }
}

/// The low part of a register.
struct Low {
    register: Register,
    width: Width,
}

/// A comparison of a narrowed register with a constant, as one of that width: register, constant as the instruction
/// takes it, and what to test. None if 64 bits are needed.
fn narrow_comparison(test: Test, left: &Expression, right: &Expression) -> Option<(Low, i32, Test)> {
    let Expression::Unary(Unary::Narrow(width, signed), operand) = left else { return None };
    let Expression::Register(register) = **operand else { return None };
    let Expression::Int(constant) = *right else { return None };
    if matches!(register, Register::Rsp | Register::Rip) {
        return None;
    }
    let low = Low { register, width: *width };
    let bits = match width {
        Width::W8 => 8,
        Width::W16 => 16,
        Width::W32 => 32,
        Width::W64 => return None,
    };
    let in_range = if *signed {
        constant >= -(1 << (bits - 1)) && constant < 1 << (bits - 1) && !test.is_unsigned()
    } else {
        constant >= 0 && constant < 1 << bits
    };
    if !in_range {
        return None;
    }
    let as_signed = match width {
        Width::W8 => i32::from(constant as i8),
        Width::W16 => i32::from(constant as i16),
        _ => constant as i32,
    };
    Some((low, as_signed, if *signed { test } else { test.unsigned() }))
}

const LOW_32: [AsmRegister32; 16] =
    [eax, ecx, edx, ebx, esp, ebp, esi, edi, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d];
const LOW_16: [AsmRegister16; 16] = [ax, cx, dx, bx, sp, bp, si, di, r8w, r9w, r10w, r11w, r12w, r13w, r14w, r15w];
const LOW_8: [AsmRegister8; 16] = [al, cl, dl, bl, spl, bpl, sil, dil, r8b, r9b, r10b, r11b, r12b, r13b, r14b, r15b];
