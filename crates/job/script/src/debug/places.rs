//! Where the compiler put a value, as a place that code of a probe can read.
//!
//! Next: `functions` and `globals`, whose variables these are.

use trimtab_snippet::facts::{Location, Object};
use trimtab_snippet::ir::{Register, Width};
use trimtab_snippet::types::Type;
use trimtab_snippet::types::bytes_of;
use trimtab_symbols::dwarf::{BinaryOperator, Expression, UnaryOperator, ValueLocation};
use trimtab_types::{LoadBias, ProcAddr};

/// General registers by their DWARF number.
const GENERAL: [Register; 16] = [
    Register::Rax,
    Register::Rdx,
    Register::Rcx,
    Register::Rbx,
    Register::Rsi,
    Register::Rdi,
    Register::Rbp,
    Register::Rsp,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
/// DWARF numbers of `xmm0` to `xmm15`.
const VECTOR: std::ops::Range<u16> = 17..33;

/// The general register of a DWARF number.
pub(super) fn general(number: u16) -> Option<Register> {
    GENERAL.get(usize::from(number)).copied()
}

/// At which moment of a function's run a place is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before its first instruction.
    Entry,
    /// When it returns.
    Exit,
    /// At an instruction; where its frame's base is, from a register, if that is known.
    Inside(Option<(Register, i64)>),
    /// At no moment: of global variables.
    Always,
}

/// Turns places into locations: whose place, when, and where the module lies.
pub(super) struct Locator<'n> {
    pub name: &'n str,
    pub moment: Moment,
    pub bias: LoadBias,
}

/// An address as a sum.
#[derive(Clone, Copy)]
enum Sum {
    Fixed(u64),
    Register(Register, i64),
    Frame(i64),
}

impl Sum {
    fn plus(self, offset: u64) -> Sum {
        let signed = offset.cast_signed();
        match self {
            Sum::Fixed(address) => Sum::Fixed(address.wrapping_add(offset)),
            Sum::Register(register, base) => Sum::Register(register, base.wrapping_add(signed)),
            Sum::Frame(base) => Sum::Frame(base.wrapping_add(signed)),
        }
    }
}

/// Why a value can't be read here; its name stands before it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum NoLocation {
    #[error("is kept in several pieces here, which cannot be read as one value")]
    Pieces,
    #[error("has no value here: the compiler dropped it")]
    Dropped,
    #[error("is in a place that cannot be read: {0}")]
    Unsupported(String),
    #[error("is a reference that lies in memory, which cannot be followed yet")]
    Reference,
    #[error("is in a register that cannot be read (x87, mask or status)")]
    Register,
    #[error("is thread-local: each thread has its own, which cannot be read yet")]
    ThreadLocal,
    #[error("is at an address that has to be calculated, which cannot be done yet")]
    CalculatedAddress,
    #[error("is in the function's frame, whose place is not known here")]
    Frame,
    #[error("is calculated where it is needed, and kept nowhere here")]
    Calculated,
    #[error("is a constant of more than 8 bytes here")]
    LongConstant,
    #[error("is a constant that lies nowhere in memory")]
    Constant,
    #[error("is always {0} here: write that number")]
    AlwaysFloat(f64),
}

impl Locator<'_> {
    /// A value of a type in a place.
    pub fn object(&self, place: &ValueLocation, kind: Type) -> Object {
        let found = match place {
            ValueLocation::Memory(expression) => self.memory(expression).map(|location| (kind.clone(), location)),
            ValueLocation::Register(number) => self.register(*number).map(|location| (kind.clone(), location)),
            ValueLocation::Value(value) => self.value(value, &kind),
            ValueLocation::Bytes(bytes) => self.bytes(bytes, &kind).map(|location| (kind.clone(), location)),
            ValueLocation::Pieces(_) => Err(NoLocation::Pieces),
            ValueLocation::Gone => Err(NoLocation::Dropped),
            ValueLocation::Unsupported(reason) => Err(NoLocation::Unsupported(reason.clone())),
        };
        match found {
            Ok((kind, location)) => Object { kind, location },
            Err(why) => Object { kind, location: self.gone(&why) },
        }
    }

    /// The target of a reference, where the reference itself is at hand.
    pub fn referred(&self, place: &ValueLocation, target: Type) -> Object {
        let location = match place {
            ValueLocation::Register(number) => general(*number).map(|register| Location::Relative(register, 0)),
            ValueLocation::Value(value) => self.sum(value).and_then(|sum| self.at(sum).ok()),
            _ => None,
        };
        Object { kind: target, location: location.unwrap_or_else(|| self.gone(&NoLocation::Reference)) }
    }

    fn gone(&self, why: &NoLocation) -> Location {
        Location::Gone(format!("`{}` {why}", self.name))
    }

    fn register(&self, number: u16) -> Result<Location, NoLocation> {
        if VECTOR.contains(&number) {
            return Ok(Location::Vector((number - VECTOR.start) as u8));
        }
        general(number).map(Location::Register).ok_or(NoLocation::Register)
    }

    fn memory(&self, expression: &Expression) -> Result<Location, NoLocation> {
        if expression.any(&|part| matches!(part, Expression::ThreadLocal(_))) {
            return Err(NoLocation::ThreadLocal);
        }
        self.at(self.sum(expression).ok_or(NoLocation::CalculatedAddress)?)
    }

    /// Memory at an address.
    fn at(&self, sum: Sum) -> Result<Location, NoLocation> {
        match (sum, self.moment) {
            (Sum::Fixed(address), _) => Ok(Location::Address(ProcAddr(address))),
            (Sum::Register(register, offset), _) => Ok(Location::Relative(register, offset)),
            (Sum::Frame(offset), Moment::Entry) => Ok(Location::Stack(offset)),
            (Sum::Frame(offset), Moment::Inside(Some((register, base)))) => {
                Ok(Location::Relative(register, base.wrapping_add(offset)))
            }
            (Sum::Frame(_), _) => Err(NoLocation::Frame),
        }
    }

    fn sum(&self, expression: &Expression) -> Option<Sum> {
        match expression {
            Expression::Constant(value) => Some(Sum::Fixed(*value)),
            Expression::Address(address) => Some(Sum::Fixed(self.bias.to_proc(*address).0)),
            Expression::Register(number) => Some(Sum::Register(general(*number)?, 0)),
            Expression::RegisterAtEntry(number) if self.moment == Moment::Entry => {
                Some(Sum::Register(general(*number)?, 0))
            }
            Expression::FrameBase => Some(Sum::Frame(0)),
            Expression::Binary(operator, left, right) => match (operator, &**right) {
                (BinaryOperator::Add, Expression::Constant(offset)) => Some(self.sum(left)?.plus(*offset)),
                (BinaryOperator::Subtract, Expression::Constant(offset)) => {
                    Some(self.sum(left)?.plus(offset.wrapping_neg()))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A value that lies nowhere, but can be calculated.
    fn value(&self, value: &Expression, kind: &Type) -> Result<(Type, Location), NoLocation> {
        let sum = self.sum(without_narrowing(value, kind));
        match (sum, kind) {
            (Some(Sum::Fixed(constant)), Type::Float(width)) => Err(NoLocation::AlwaysFloat(float(constant, *width))),
            (Some(Sum::Fixed(constant)), _) => Ok((kind.clone(), Location::Constant(narrowed(constant, kind)))),
            (Some(Sum::Register(register, 0)), Type::Int { .. } | Type::Pointer(_) | Type::Datatype(_)) => {
                Ok((kind.clone(), Location::Register(register)))
            }
            // The address of something in memory: an array's value is its address.
            (Some(sum), Type::Pointer(target)) => Ok((Type::Array(target.clone(), None), self.at(sum)?)),
            _ => Err(NoLocation::Calculated),
        }
    }

    fn bytes(&self, bytes: &[u8], kind: &Type) -> Result<Location, NoLocation> {
        let mut word = [0; 8];
        word.get_mut(..bytes.len()).ok_or(NoLocation::LongConstant)?.copy_from_slice(bytes);
        let value = u64::from_le_bytes(word);
        match kind {
            Type::Float(width) => Err(NoLocation::AlwaysFloat(float(value, *width))),
            Type::Struct(_) | Type::Array(..) => Err(NoLocation::Constant),
            _ => Ok(Location::Constant(narrowed(value, kind))),
        }
    }
}

fn float(bits: u64, width: Width) -> f64 {
    match width {
        Width::W32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    }
}

/// The calculation behind a conversion that the type makes anyway.
fn without_narrowing<'e>(value: &'e Expression, kind: &Type) -> &'e Expression {
    match (value, kind) {
        (Expression::Unary(UnaryOperator::Narrow { bytes, .. }, inner), Type::Int { width, .. })
            if u64::from(*bytes) >= bytes_of(*width) && !matches!(**inner, Expression::Constant(_)) =>
        {
            inner
        }
        _ => value,
    }
}

/// A constant as its type holds it.
fn narrowed(value: u64, kind: &Type) -> i64 {
    let Type::Int { width, signed } = kind else { return value.cast_signed() };
    let unused = 64 - 8 * bytes_of(*width) as u32;
    let up = value << unused;
    if *signed { up.cast_signed() >> unused } else { (up >> unused).cast_signed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_types::FileAddr;

    const BIAS: LoadBias = LoadBias(0x1000);

    fn located(moment: Moment, place: &ValueLocation, kind: Type) -> Location {
        Locator { name: "x", moment, bias: BIAS }.object(place, kind).location
    }

    #[test]
    fn frames_are_counted_from_what_is_known() {
        let place = ValueLocation::Memory(Expression::FrameBase.plus(16));
        let inside = Moment::Inside(Some((Register::Rbp, 16)));
        assert_eq!(located(Moment::Entry, &place, Type::INT), Location::Stack(16));
        assert_eq!(located(inside, &place, Type::INT), Location::Relative(Register::Rbp, 32));
        for moment in [Moment::Exit, Moment::Inside(None)] {
            assert!(matches!(located(moment, &place, Type::INT), Location::Gone(_)), "{moment:?}");
        }
    }

    #[test]
    fn constants_are_as_wide_as_their_type() {
        let value = ValueLocation::Value(Expression::Constant(0xffff_ffff));
        let unsigned = Type::Int { width: Width::W32, signed: false };
        assert_eq!(located(Moment::Entry, &value, Type::INT), Location::Constant(-1));
        assert_eq!(located(Moment::Entry, &value, unsigned), Location::Constant(0xffff_ffff));
        assert_eq!(located(Moment::Entry, &ValueLocation::Bytes(vec![0xfe]), Type::CHAR), Location::Constant(-2));
        let Location::Gone(reason) =
            located(Moment::Entry, &ValueLocation::Bytes(vec![0, 0, 0x20, 0x40]), Type::Float(Width::W32))
        else {
            panic!("a float")
        };
        assert_eq!(reason, "`x` is always 2.5 here: write that number");
    }

    #[test]
    fn values_are_what_registers_hold() {
        let pointer = Type::INT.pointer();
        let inside = Moment::Inside(None);
        let of = |value: Expression, kind: &Type| located(inside, &ValueLocation::Value(value), kind.clone());
        assert_eq!(of(Expression::Register(5), &pointer), Location::Register(Register::Rdi));
        assert_eq!(of(Expression::Register(5).plus(8), &pointer), Location::Relative(Register::Rdi, 8));
        assert!(matches!(of(Expression::Register(5).plus(8), &Type::INT), Location::Gone(_)));
        assert!(matches!(of(Expression::RegisterAtEntry(5), &Type::INT), Location::Gone(_)));
        assert_eq!(of(Expression::Address(FileAddr(0x20)), &pointer), Location::Constant(0x1020));
    }
}
