//! The effect of operators on values: one definition for constants in the front end and for the reference interpreter,
//! so that folding a constant never changes a result.
//!
//! Next: `reference`, which runs whole bodies.

use crate::ir::{Binary, Unary, Width};
use serde::{Deserialize, Serialize};

/// A value of a body or of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// 64 bits, signed unless the operator says otherwise.
    Int(i64),
    /// A double.
    Float(f64),
}

impl Number {
    /// The value as a double.
    pub fn as_float(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    /// The 64 bits that hold it in an area.
    pub fn bits(self) -> u64 {
        match self {
            Number::Int(value) => value as u64,
            Number::Float(value) => value.to_bits(),
        }
    }

    /// The value that 64 bits of an area hold.
    pub fn from_bits(bits: u64, float: bool) -> Number {
        if float { Number::Float(f64::from_bits(bits)) } else { Number::Int(bits as i64) }
    }
}

/// The low bits of a value, widened again.
pub fn narrow(value: i64, width: Width, signed: bool) -> i64 {
    match (width, signed) {
        (Width::W8, true) => i64::from(value as i8),
        (Width::W8, false) => i64::from(value as u8),
        (Width::W16, true) => i64::from(value as i16),
        (Width::W16, false) => i64::from(value as u16),
        (Width::W32, true) => i64::from(value as i32),
        (Width::W32, false) => i64::from(value as u32),
        (Width::W64, _) => value,
    }
}

/// The value of an operator with one operand; `None` if the operand is of the wrong kind.
pub fn unary(operator: Unary, operand: Number) -> Option<Number> {
    use Number::{Float, Int};
    let value = match (operator, operand) {
        (Unary::Negate, Int(a)) => Int(a.wrapping_neg()),
        (Unary::Negate, Float(a)) => Float(-a),
        (Unary::Not, Int(a)) => Int(!a),
        (Unary::IsZero, Int(a)) => Int(i64::from(a == 0)),
        (Unary::Absolute, Int(a)) => Int(a.wrapping_abs()),
        (Unary::Absolute, Float(a)) => Float(a.abs()),
        (Unary::ToFloat, Int(a)) => Float(a as f64),
        (Unary::UnsignedToFloat, Int(a)) => Float(a as u64 as f64),
        (Unary::ToInt, Float(a)) => Int(a as i64),
        (Unary::Narrow(width, signed), Int(a)) => Int(narrow(a, width, signed)),
        _ => return None,
    };
    Some(value)
}

/// The value of an operator with two operands; `None` if they are of the wrong kind.
pub fn binary(operator: Binary, left: Number, right: Number) -> Option<Number> {
    match (left, right) {
        (Number::Int(a), Number::Int(b)) => Some(Number::Int(integers(operator, a, b))),
        (Number::Float(a), Number::Float(b)) => floats(operator, a, b),
        _ => None,
    }
}

fn integers(operator: Binary, a: i64, b: i64) -> i64 {
    let (ua, ub) = (a as u64, b as u64);
    let truth = i64::from;
    match operator {
        Binary::Add => a.wrapping_add(b),
        Binary::Subtract => a.wrapping_sub(b),
        Binary::Multiply => a.wrapping_mul(b),
        Binary::Divide if b == 0 => 0,
        Binary::Divide => a.wrapping_div(b),
        Binary::DivideUnsigned => ua.checked_div(ub).unwrap_or(0) as i64,
        Binary::Remainder if b == 0 => 0,
        Binary::Remainder => a.wrapping_rem(b),
        Binary::RemainderUnsigned => ua.checked_rem(ub).unwrap_or(0) as i64,
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::ShiftLeft => a.wrapping_shl(b as u32 & 63),
        Binary::ShiftRight => a.wrapping_shr(b as u32 & 63),
        Binary::ShiftRightUnsigned => ua.wrapping_shr(b as u32 & 63) as i64,
        Binary::Equal => truth(a == b),
        Binary::NotEqual => truth(a != b),
        Binary::Less => truth(a < b),
        Binary::LessEqual => truth(a <= b),
        Binary::LessUnsigned => truth(ua < ub),
        Binary::LessEqualUnsigned => truth(ua <= ub),
        Binary::Minimum => a.min(b),
        Binary::Maximum => a.max(b),
    }
}

/// Floats as IEEE 754 has them; of two values of which one is not a number, `Minimum` and `Maximum` take the right one.
fn floats(operator: Binary, a: f64, b: f64) -> Option<Number> {
    let truth = |holds: bool| Some(Number::Int(i64::from(holds)));
    let value = match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        Binary::Minimum => {
            if a < b {
                a
            } else {
                b
            }
        }
        Binary::Maximum => {
            if a > b {
                a
            } else {
                b
            }
        }
        Binary::Equal => return truth(a == b),
        Binary::NotEqual => return truth(a != b),
        Binary::Less => return truth(a < b),
        Binary::LessEqual => return truth(a <= b),
        _ => return None,
    };
    Some(Number::Float(value))
}
