//! Types by name, sizes, members.
//!
//! Next: `expressions`.

use super::body::Lowering;
use super::operand::{At, Operand, binary};
use super::parts::Lowered;
use crate::error::{Code, Problem, Span};
use crate::facts::DatatypeSize;
use crate::ir::{Binary, Expression, Width};
use crate::syntax::{Expr, Name, TypeName};
use crate::types::{Member, Type, bytes_of};

/// Types to suggest for one that is not known.
const TYPE_NAMES: &[&str] = &[
    "char",
    "short",
    "int",
    "long",
    "unsigned",
    "float",
    "double",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "size_t",
    "bool",
    "MPI_Datatype",
];

/// Operations to find a datatype's handle at most; it stands twice in the expression for its size.
const HANDLE_COST_MAX: u64 = 200;

impl Lowering<'_, '_> {
    /// The type that is written.
    pub fn type_named(&self, name: &TypeName, span: Span) -> Lowered<Type> {
        let found = Type::named(&name.name).or_else(|| self.resolver.facts.type_named(&name.name));
        let Some(mut kind) = found else {
            let problem = Problem::new(Code::UnknownType, span, format!("the type `{}` is not known", name.name));
            let known = self.resolver.facts.type_names(&name.name);
            return Err(problem.near(&name.name, TYPE_NAMES.iter().map(ToString::to_string).chain(known)));
        };
        for _ in 0..name.pointers {
            kind = kind.pointer();
        }
        Ok(kind)
    }

    /// `sizeof(type)`; what is no type may be a variable.
    pub fn size_of_type(&mut self, name: &TypeName, span: Span) -> Lowered<Expression> {
        match self.type_named(name, span) {
            Ok(Type::Datatype(width)) => Ok(Expression::Int(bytes_of(width) as i64)),
            Ok(kind) => self.size(&kind, span),
            Err(_) if name.pointers == 0 && !name.name.contains(' ') => {
                let operand = self.name(&Name::Plain(name.name.clone()), span)?;
                self.size_of_operand(operand, span)
            }
            Err(problem) => Err(problem),
        }
    }

    /// `sizeof(value)`: of a handle of an MPI datatype, what it describes.
    pub fn size_of_value(&mut self, value: &Expr) -> Lowered<Expression> {
        let operand = self.operand(value)?;
        self.size_of_operand(operand, value.span)
    }

    fn size_of_operand(&mut self, operand: Operand, span: Span) -> Lowered<Expression> {
        let Type::Datatype(_) = operand.kind else { return self.size(&operand.kind, span) };
        let Some(rule) = self.resolver.facts.datatype_size() else {
            let problem =
                Problem::new(Code::NotHere, span, "it is not known how this MPI library keeps sizes of datatypes");
            return Err(problem.help("write the size as a number, or use a struct's own size"));
        };
        let (_, handle) = self.read(operand, span)?;
        if crate::cost::of_expression(&handle) > HANDLE_COST_MAX {
            let problem = Problem::new(Code::TooLarge, span, "this handle takes too long to find");
            return Err(problem.help("keep it in a variable first: `let type = ...`"));
        }
        Ok(datatype_size(rule, handle))
    }

    fn size(&self, kind: &Type, span: Span) -> Lowered<Expression> {
        let bytes =
            self.bytes(kind).ok_or_else(|| Problem::new(Code::UnknownType, span, "the size of this is not known"))?;
        Ok(Expression::Int(bytes as i64))
    }

    /// Bytes of a value of this type.
    pub fn bytes(&self, kind: &Type) -> Option<u64> {
        match kind {
            Type::Void => None,
            Type::Int { width, .. } | Type::Float(width) | Type::Datatype(width) => Some(bytes_of(*width)),
            Type::Pointer(_) => Some(8),
            Type::Array(element, count) => self.bytes(element)?.checked_mul((*count)?),
            Type::Struct(id) => self.resolver.facts.structure(*id).map(|structure| structure.bytes),
            Type::Opaque(bytes) => *bytes,
        }
    }

    /// `value.member` or `value->member`; each is understood for the other.
    pub fn member(&mut self, value: &Expr, member: &str, span: Span) -> Lowered<Operand> {
        let operand = self.operand(value)?;
        let (id, address) = match (&operand.kind, &operand.at) {
            (Type::Struct(id), At::Memory(address)) => (*id, address.clone()),
            (Type::Struct(_), _) => {
                return Err(Problem::new(
                    Code::Unsupported,
                    span,
                    "this struct is passed in registers, which cannot be read",
                ));
            }
            (Type::Pointer(_) | Type::Array(..), _) => {
                let (kind, address) = self.read(operand, value.span)?;
                match kind {
                    Type::Pointer(target) if matches!(*target, Type::Struct(_)) => match *target {
                        Type::Struct(id) => (id, address),
                        other => return Err(not_a_struct(&other, value.span)),
                    },
                    kind => return Err(not_a_struct(&kind, value.span)),
                }
            }
            (kind, _) => return Err(not_a_struct(kind, value.span)),
        };
        let Some(structure) = self.resolver.facts.structure(id) else {
            return Err(Problem::new(Code::UnknownType, value.span, "nothing is known of this struct's members"));
        };
        match structure.members.iter().find(|known| known.name == member) {
            Some(found) => Ok(member_operand(found, address)),
            None => {
                let message = format!("struct `{}` has no member `{member}`", structure.name);
                let names: Vec<&str> = structure.members.iter().map(|known| known.name.as_str()).collect();
                let shown = names.iter().take(12).map(|name| format!("`{name}`"));
                Err(Problem::new(Code::UnknownName, span, message).near(member, &names).expected(shown))
            }
        }
    }
}

fn not_a_struct(kind: &Type, span: Span) -> Problem {
    let problem = Problem::new(Code::TypeMismatch, span, format!("{kind} has no members"));
    problem.help("cast it to the struct's type: `((struct NAME *)$0)->member`")
}

fn member_operand(member: &Member, address: Expression) -> Operand {
    let address = binary(Binary::Add, address, Expression::Int(member.offset as i64));
    let at = match member.bits {
        Some(bits) => At::Bits(address, bits),
        None => At::Memory(address),
    };
    Operand { kind: member.kind.clone(), at }
}

/// The size that an MPI datatype's handle tells; where it does not, an unreadable load makes it known.
fn datatype_size(rule: DatatypeSize, handle: Expression) -> Expression {
    let int = |value: u64| Expression::Int(value as i64);
    match rule {
        DatatypeSize::WordAt(offset) => {
            let address = binary(Binary::Add, handle, Expression::Int(offset));
            Expression::Load { address: Box::new(address), width: Width::W64, signed: false }
        }
        DatatypeSize::Bits { mask, kind, shift, size_mask } => {
            let known = binary(Binary::Equal, binary(Binary::And, handle.clone(), int(mask)), int(kind));
            let shifted = binary(Binary::ShiftRightUnsigned, handle, int(u64::from(shift)));
            let size = binary(Binary::And, shifted, int(size_mask));
            let unknown = Expression::Load { address: Box::new(int(0)), width: Width::W64, signed: false };
            Expression::Select(Box::new(known), Box::new(size), Box::new(unknown))
        }
    }
}
