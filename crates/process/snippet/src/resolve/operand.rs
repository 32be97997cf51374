//! Operands: a type and a place. Converting is written out.
//!
//! Next: `reading`, which gives a value of 64 bits.

use crate::arithmetic::{self, Number};
use crate::error::{Code, Problem, Span};
use crate::ir::{Binary, Expression, Register, Unary, Width};
use crate::types::{Bits, Type};

/// A value or a place that holds one.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub kind: Type,
    pub at: At,
}

/// Where an operand is.
#[derive(Clone, Debug)]
pub(super) enum At {
    /// Nowhere: it was computed.
    Value(Expression),
    /// In memory, at this address.
    Memory(Expression),
    /// Some bits of the word at this address.
    Bits(Expression, Bits),
    /// In a general register.
    Register(Register),
    /// In a vector register.
    Vector(u8),
}

/// The part that does not fit, before its place is known.
pub(super) struct Misfit(pub String);

impl Misfit {
    pub fn at(self, span: Span) -> Problem {
        Problem::new(Code::TypeMismatch, span, self.0)
    }
}

/// A value as one of another type: integers are narrowed, floats cut towards zero.
pub(super) fn convert((from, value): (Type, Expression), to: &Type) -> Result<Expression, Misfit> {
    let is_float = matches!(from, Type::Float(_));
    match to {
        Type::Float(_) if is_float => Ok(value),
        Type::Float(_) if from == Type::UNSIGNED_LONG => Ok(unary(Unary::UnsignedToFloat, value)),
        Type::Float(_) if matches!(from, Type::Int { .. }) => Ok(unary(Unary::ToFloat, value)),
        Type::Int { width, signed } => {
            let whole = if is_float { unary(Unary::ToInt, value) } else { value };
            Ok(unary(Unary::Narrow(*width, *signed), whole))
        }
        Type::Pointer(_) | Type::Datatype(Width::W64) if !is_float => Ok(value),
        Type::Datatype(width) if !is_float => Ok(unary(Unary::Narrow(*width, false), value)),
        _ => Err(Misfit(format!("{from} cannot become {to}"))),
    }
}

/// A value as a condition: nonzero or not.
pub(super) fn truth(kind: &Type, value: Expression) -> Expression {
    match kind {
        Type::Float(_) => binary(Binary::NotEqual, value, Expression::Float(0.0)),
        _ => value,
    }
}

/// An operator with one operand, computed now if that is known.
pub(super) fn unary(operator: Unary, value: Expression) -> Expression {
    if let Some(known) = constant(&value).and_then(|number| arithmetic::unary(operator, number)) {
        return expression(known);
    }
    match (operator, &value) {
        (Unary::Narrow(Width::W64, _), _) => value,
        (Unary::Narrow(width, signed), Expression::Load { width: loaded, signed: loaded_signed, .. })
            if width == *loaded && signed == *loaded_signed =>
        {
            value
        }
        _ => Expression::Unary(operator, Box::new(value)),
    }
}

/// An operator with two operands, computed now if both are known.
pub(super) fn binary(operator: Binary, left: Expression, right: Expression) -> Expression {
    let known = constant(&left).zip(constant(&right)).and_then(|(a, b)| arithmetic::binary(operator, a, b));
    match (known, operator, &left, &right) {
        (Some(known), ..) => expression(known),
        (None, Binary::Multiply, _, Expression::Int(1)) => left,
        (None, Binary::Add | Binary::Subtract, _, Expression::Int(0)) => left,
        (None, Binary::Multiply, Expression::Int(1), _) | (None, Binary::Add, Expression::Int(0), _) => right,
        _ => Expression::Binary(operator, Box::new(left), Box::new(right)),
    }
}

/// The value, if it is known now.
pub(super) fn constant(expression: &Expression) -> Option<Number> {
    match expression {
        Expression::Int(value) => Some(Number::Int(*value)),
        Expression::Float(value) => Some(Number::Float(*value)),
        _ => None,
    }
}

fn expression(number: Number) -> Expression {
    match number {
        Number::Int(value) => Expression::Int(value),
        Number::Float(value) => Expression::Float(value),
    }
}
