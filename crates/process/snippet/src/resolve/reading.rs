//! Reading an operand: from memory, a register or some bits of a word to a value of 64 bits.
//!
//! Next: `expressions`, which combines values.

use super::body::Lowering;
use super::operand::{At, Operand, binary, unary};
use super::parts::Lowered;
use crate::error::{Code, Problem, Span};
use crate::ir::{Binary, Expression, Unary, Width};
use crate::types::{Bits, Type};

impl Lowering<'_, '_> {
    /// The value of an operand: an integer, a float, an address or a handle. Arrays become their address.
    pub fn read(&self, operand: Operand, span: Span) -> Lowered<(Type, Expression)> {
        let Operand { kind, at } = operand;
        if let Some(problem) = self.unreadable(&kind, &at, span) {
            return Err(problem);
        }
        let value = match (at, &kind) {
            (At::Value(value), _) => value,
            (At::Memory(address), Type::Array(element, _)) => return Ok((Type::Pointer(element.clone()), address)),
            (At::Memory(address), Type::Float(width)) => {
                Expression::LoadFloat { address: Box::new(address), width: *width }
            }
            (At::Memory(address), kind) => {
                let (width, signed) = stored_as(kind);
                Expression::Load { address: Box::new(address), width, signed }
            }
            (At::Bits(address, bits), kind) => bit_field(address, bits, kind),
            (At::Register(register), kind) => {
                let (width, signed) = stored_as(kind);
                unary(Unary::Narrow(width, signed), Expression::Register(register))
            }
            (At::Vector(number), Type::Float(Width::W32)) => Expression::VectorSingle(number),
            (At::Vector(number), _) => Expression::Vector(number),
        };
        let kind = if let Type::Float(_) = kind { Type::DOUBLE } else { kind };
        Ok((kind, value))
    }

    fn unreadable(&self, kind: &Type, at: &At, span: Span) -> Option<Problem> {
        let message = match (kind, at) {
            (Type::Void, _) => "there is no value here (void)".to_string(),
            (Type::Opaque(_), _) => "nothing is known of how this value is made".to_string(),
            (Type::Struct(_), _) => "a struct is not one value: name a member".to_string(),
            (Type::Array(..), At::Value(_) | At::Register(_) | At::Vector(_) | At::Bits(..)) => {
                "this array is not in memory".to_string()
            }
            (Type::Float(_), At::Register(_)) => "a float in a general register cannot be read".to_string(),
            (kind, At::Vector(_)) if !matches!(kind, Type::Float(_)) => {
                "an integer in a vector register cannot be read".to_string()
            }
            _ => return None,
        };
        let problem = Problem::new(Code::TypeMismatch, span, message);
        match kind {
            Type::Struct(id) => {
                let members = self.resolver.facts.structure(*id).map(|structure| structure.members).unwrap_or_default();
                Some(problem.expected(members.into_iter().take(12).map(|member| format!("`.{}`", member.name))))
            }
            Type::Opaque(_) => Some(match self.missing() {
                Some(reason) => problem.help(reason),
                None => problem,
            }),
            _ => Some(problem),
        }
    }
}

/// How an integer, address or handle lies in memory.
fn stored_as(kind: &Type) -> (Width, bool) {
    match kind {
        Type::Int { width, signed } => (*width, *signed),
        Type::Datatype(width) => (*width, false),
        _ => (Width::W64, false),
    }
}

fn bit_field(address: Expression, bits: Bits, kind: &Type) -> Expression {
    let (width, signed) = stored_as(kind);
    let word = Expression::Load { address: Box::new(address), width, signed: false };
    let count = i64::from(bits.count.clamp(1, 64));
    let left = (64 - count - i64::from(bits.shift)).max(0);
    let up = binary(Binary::ShiftLeft, word, Expression::Int(left));
    let down = if signed { Binary::ShiftRight } else { Binary::ShiftRightUnsigned };
    binary(down, up, Expression::Int(64 - count))
}
