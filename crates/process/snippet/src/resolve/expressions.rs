//! Operators and functions of the language: C's meaning, on 64 bits.
//!
//! Next: `operand`, which reads and converts.

use super::body::{Lowering, is_character};
use super::operand::{At, Misfit, Operand, binary, convert, unary};
use super::parts::Lowered;
use crate::error::{Code, Problem, Span};
use crate::ir::{Binary, Expression, Unary};
use crate::syntax::{BinaryOp, Expr, ExprKind, TypeName, UnaryOp};
use crate::types::Type;

/// Functions that may stand in expressions, with their number of arguments.
const FUNCTIONS: &[(&str, usize)] = &[("abs", 1), ("min", 2), ("max", 2)];

/// A value with its type.
pub(super) type Typed = (Type, Expression);

impl Lowering<'_, '_> {
    /// The value of an expression.
    pub fn value(&mut self, expression: &Expr) -> Lowered<Typed> {
        let operand = self.operand(expression)?;
        self.read(operand, expression.span)
    }

    /// The value or place that an expression means.
    pub fn operand(&mut self, expression: &Expr) -> Lowered<Operand> {
        let span = expression.span;
        let of = |(kind, value): Typed| Operand { kind, at: At::Value(value) };
        match &expression.kind {
            ExprKind::Int(value, true) => Ok(of((Type::UNSIGNED_LONG, Expression::Int(*value)))),
            ExprKind::Int(value, false) => Ok(of((Type::LONG, Expression::Int(*value)))),
            ExprKind::Float(value) => Ok(of((Type::DOUBLE, Expression::Float(*value)))),
            ExprKind::Text(_) => {
                let problem = Problem::new(Code::TypeMismatch, span, "a text can be compared with `==` and `!=` only");
                Err(problem.help("or be the tag of a message: send(\"tag\", value)"))
            }
            ExprKind::Name(name) => self.name(name, span),
            ExprKind::Dollar(name) => self.dollar(name, span),
            ExprKind::Unary(UnaryOp::Load, value) => self.load(value, span),
            ExprKind::Unary(UnaryOp::Address, value) => self.address_of(value, span),
            ExprKind::Unary(operator, value) => self.unary(*operator, value).map(of),
            ExprKind::Binary(operator, left, right) => self.binary_expression(*operator, left, right).map(of),
            ExprKind::Conditional(a, b, c) => self.conditional(a, b, c, span).map(of),
            ExprKind::Cast(name, value) => self.cast(name, value, span).map(of),
            ExprKind::SizeofType(name) => Ok(of((Type::LONG, self.size_of_type(name, span)?))),
            ExprKind::SizeofValue(value) => Ok(of((Type::LONG, self.size_of_value(value)?))),
            ExprKind::Member { value, member, .. } => self.member(value, member, span),
            ExprKind::Index(value, index) => {
                let address = self.value(value)?;
                let index_value = self.value(index)?;
                let (kind, address) = self.binary(BinaryOp::Add, (address, value.span), (index_value, index.span))?;
                pointed_at(kind, address, span)
            }
            ExprKind::Function(name, arguments) => self.function(name, arguments, expression).map(of),
        }
    }

    fn cast(&mut self, name: &TypeName, value: &Expr, span: Span) -> Lowered<Typed> {
        let to = self.type_named(name, span)?;
        let from = self.value(value)?;
        if let ("bool" | "_Bool", 0) = (name.name.as_str(), name.pointers) {
            let zero = if let Type::Float(_) = from.0 { Expression::Float(0.0) } else { Expression::Int(0) };
            return Ok((to, binary(Binary::NotEqual, from.1, zero)));
        }
        let value = convert(from, &to).map_err(|misfit| misfit.at(span))?;
        Ok((if let Type::Float(_) = to { Type::DOUBLE } else { to }, value))
    }

    fn load(&mut self, value: &Expr, span: Span) -> Lowered<Operand> {
        let (kind, address) = self.value(value)?;
        pointed_at(kind, address, span)
    }

    fn address_of(&mut self, value: &Expr, span: Span) -> Lowered<Operand> {
        let Operand { kind, at } = self.operand(value)?;
        match at {
            At::Memory(address) => Ok(Operand { kind: kind.pointer(), at: At::Value(address) }),
            _ => Err(Problem::new(Code::TypeMismatch, span, "this has no address: it is not in the program's memory")),
        }
    }

    fn unary(&mut self, operator: UnaryOp, operand: &Expr) -> Lowered<Typed> {
        let span = operand.span;
        let (kind, value) = self.value(operand)?;
        let is_float = matches!(kind, Type::Float(_));
        match operator {
            UnaryOp::Not if is_float => Ok((Type::LONG, binary(Binary::Equal, value, Expression::Float(0.0)))),
            UnaryOp::Not => Ok((Type::LONG, unary(Unary::IsZero, value))),
            UnaryOp::Negate if is_float => Ok((kind, unary(Unary::Negate, value))),
            UnaryOp::Negate => Ok((whole(&kind, span)?, unary(Unary::Negate, value))),
            _ => Ok((whole(&kind, span)?, unary(Unary::Not, value))),
        }
    }

    fn binary_expression(&mut self, operator: BinaryOp, left: &Expr, right: &Expr) -> Lowered<Typed> {
        match (operator, &left.kind, &right.kind) {
            (BinaryOp::Equal | BinaryOp::NotEqual, ExprKind::Text(text), _) => self.text_equals(operator, right, text),
            (BinaryOp::Equal | BinaryOp::NotEqual, _, ExprKind::Text(text)) => self.text_equals(operator, left, text),
            (BinaryOp::And | BinaryOp::Or, _, _) => {
                let (left, right) = (Box::new(self.condition(left)?), Box::new(self.condition(right)?));
                let value =
                    if operator == BinaryOp::And { Expression::And(left, right) } else { Expression::Or(left, right) };
                Ok((Type::LONG, value))
            }
            _ => {
                let (left_value, right_value) = (self.value(left)?, self.value(right)?);
                self.binary(operator, (left_value, left.span), (right_value, right.span))
            }
        }
    }

    fn text_equals(&mut self, operator: BinaryOp, value: &Expr, text: &str) -> Lowered<Typed> {
        let (kind, address) = self.value(value)?;
        let fits = match &kind {
            Type::Pointer(target) => is_character(target) || **target == Type::Void,
            kind => *kind == Type::LONG || *kind == Type::UNSIGNED_LONG,
        };
        if !fits {
            let problem = Problem::new(Code::TypeMismatch, value.span, format!("{kind} is not the address of a text"));
            return Err(problem.help("cast it: `(char *)$0 == \"text\"`"));
        }
        if text.contains('\0') {
            return Err(Problem::new(Code::Unsupported, value.span, "a text that is compared ends at its first \\0"));
        }
        let text = self.resolver.text(text);
        let equals = Expression::TextEquals { address: Box::new(address), text };
        let negated = operator == BinaryOp::NotEqual;
        Ok((Type::LONG, if negated { unary(Unary::IsZero, equals) } else { equals }))
    }

    /// An operator on two values, by C's rules.
    pub fn binary(
        &mut self,
        operator: BinaryOp,
        (left, left_span): (Typed, Span),
        (right, right_span): (Typed, Span),
    ) -> Lowered<Typed> {
        let span = left_span.to(right_span);
        if let (Type::Pointer(_), _) | (_, Type::Pointer(_)) = (&left.0, &right.0) {
            return self.addresses(operator, left, right, span);
        }
        if let (Type::Float(_), _) | (_, Type::Float(_)) = (&left.0, &right.0) {
            let left = convert(left, &Type::DOUBLE).map_err(|misfit| misfit.at(left_span))?;
            let right = convert(right, &Type::DOUBLE).map_err(|misfit| misfit.at(right_span))?;
            return floats(operator, left, right).map_err(|misfit| misfit.at(span));
        }
        let left_kind = whole(&left.0, left_span)?;
        let right_kind = whole(&right.0, right_span)?;
        let shift = matches!(operator, BinaryOp::ShiftLeft | BinaryOp::ShiftRight);
        let unsigned = left_kind == Type::UNSIGNED_LONG || (!shift && right_kind == Type::UNSIGNED_LONG);
        Ok(integers(operator, left.1, right.1, unsigned))
    }

    /// Addresses: plus and minus count elements, comparisons are unsigned.
    fn addresses(&mut self, operator: BinaryOp, left: Typed, right: Typed, span: Span) -> Lowered<Typed> {
        let misfit = |kind: &Type| Misfit(format!("`{}` does not fit an address and {kind}", operator.mark())).at(span);
        let comparison = matches!(
            operator,
            BinaryOp::Less
                | BinaryOp::LessEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterEqual
                | BinaryOp::Equal
                | BinaryOp::NotEqual
        );
        if let Some(kind) = [&left.0, &right.0].into_iter().find(|kind| matches!(kind, Type::Float(_))) {
            return Err(misfit(kind));
        }
        match (operator, left.0, right.0) {
            _ if comparison => Ok(integers(operator, left.1, right.1, true)),
            (BinaryOp::Subtract, Type::Pointer(target), Type::Pointer(_)) => {
                let bytes = binary(Binary::Subtract, left.1, right.1);
                Ok((Type::LONG, binary(Binary::Divide, bytes, Expression::Int(self.stride(&target, span)?))))
            }
            (BinaryOp::Add, Type::Pointer(target), Type::Int { .. })
            | (BinaryOp::Subtract, Type::Pointer(target), Type::Int { .. }) => {
                let bytes = binary(Binary::Multiply, right.1, Expression::Int(self.stride(&target, span)?));
                let operator = if operator == BinaryOp::Add { Binary::Add } else { Binary::Subtract };
                Ok((Type::Pointer(target), binary(operator, left.1, bytes)))
            }
            (BinaryOp::Add, Type::Int { .. }, Type::Pointer(target)) => {
                let bytes = binary(Binary::Multiply, left.1, Expression::Int(self.stride(&target, span)?));
                Ok((Type::Pointer(target), binary(Binary::Add, right.1, bytes)))
            }
            (_, _, kind) => Err(misfit(&kind)),
        }
    }

    /// Bytes from one element to the next; of void as of char.
    fn stride(&self, target: &Type, span: Span) -> Lowered<i64> {
        if *target == Type::Void {
            return Ok(1);
        }
        match self.bytes(target) {
            Some(bytes) if bytes > 0 => Ok(bytes as i64),
            _ => Err(Problem::new(Code::UnknownType, span, "the size of what this points at is not known")),
        }
    }

    fn conditional(&mut self, condition: &Expr, then: &Expr, otherwise: &Expr, span: Span) -> Lowered<Typed> {
        let condition = self.condition(condition)?;
        let (then, otherwise) = (self.value(then)?, self.value(otherwise)?);
        let kind = match (&then.0, &otherwise.0) {
            (a, b) if a == b => a.clone(),
            (Type::Float(_), _) | (_, Type::Float(_)) => Type::DOUBLE,
            (Type::Pointer(_), _) => then.0.clone(),
            (_, Type::Pointer(_)) => otherwise.0.clone(),
            (a, b) if *a == Type::UNSIGNED_LONG || *b == Type::UNSIGNED_LONG => Type::UNSIGNED_LONG,
            _ => Type::LONG,
        };
        let then = convert(then, &kind).map_err(|misfit| misfit.at(span))?;
        let otherwise = convert(otherwise, &kind).map_err(|misfit| misfit.at(span))?;
        Ok((kind, Expression::Select(Box::new(condition), Box::new(then), Box::new(otherwise))))
    }

    fn function(&mut self, name: &str, arguments: &[Expr], whole: &Expr) -> Lowered<Typed> {
        self.refuse_aggregation(whole, "write it alone right of `=`: `x = hist(value)`")?;
        let Some((_, count)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let known = FUNCTIONS.iter().map(|(known, _)| *known);
            let known = known.chain(super::variables::AGGREGATIONS.iter().map(|(known, _, _)| *known));
            let problem = Problem::new(Code::UnknownName, whole.span, format!("there is no function `{name}`"));
            let problem = problem.near(name, known);
            return Err(
                problem.help(format!("a function of the program is called by the statement `call {name}(...)`"))
            );
        };
        if arguments.len() != *count {
            let message = format!(
                "`{name}` takes {count} argument{}, not {}",
                if *count == 1 { "" } else { "s" },
                arguments.len()
            );
            return Err(Problem::new(Code::WrongArguments, whole.span, message));
        }
        if let [one] = arguments {
            let (kind, value) = self.value(one)?;
            let kind = if let Type::Float(_) = kind { kind } else { self::whole(&kind, one.span)? };
            return Ok((kind, unary(Unary::Absolute, value)));
        }
        let operator = if name == "min" { Binary::Minimum } else { Binary::Maximum };
        let (left, right) = (self.value(&arguments[0])?, self.value(&arguments[1])?);
        let kind = match (&left.0, &right.0) {
            (Type::Float(_), _) | (_, Type::Float(_)) => Type::DOUBLE,
            _ => Type::LONG,
        };
        let left = convert(left, &kind).map_err(|misfit| misfit.at(arguments[0].span))?;
        let right = convert(right, &kind).map_err(|misfit| misfit.at(arguments[1].span))?;
        Ok((kind, binary(operator, left, right)))
    }
}

fn pointed_at(kind: Type, address: Expression, span: Span) -> Lowered<Operand> {
    match kind {
        Type::Pointer(target) if *target != Type::Void => Ok(Operand { kind: *target, at: At::Memory(address) }),
        kind => {
            let problem = Misfit(format!("{kind} does not point at a value")).at(span);
            Err(problem.help("cast it first: `*(int *)$0`, `((double *)$0)[3]`"))
        }
    }
}

/// The type that integer arithmetic on this one yields.
fn whole(kind: &Type, span: Span) -> Lowered<Type> {
    match kind {
        kind if *kind == Type::UNSIGNED_LONG => Ok(Type::UNSIGNED_LONG),
        Type::Int { .. } | Type::Datatype(_) => Ok(Type::LONG),
        kind => Err(Misfit(format!("an integer is needed here, not {kind}")).at(span)),
    }
}

fn floats(operator: BinaryOp, left: Expression, right: Expression) -> Result<Typed, Misfit> {
    let arithmetic = |operator, left, right| Ok((Type::DOUBLE, binary(operator, left, right)));
    let comparison = |operator, left, right| Ok((Type::LONG, binary(operator, left, right)));
    match operator {
        BinaryOp::Add => arithmetic(Binary::Add, left, right),
        BinaryOp::Subtract => arithmetic(Binary::Subtract, left, right),
        BinaryOp::Multiply => arithmetic(Binary::Multiply, left, right),
        BinaryOp::Divide => arithmetic(Binary::Divide, left, right),
        BinaryOp::Less => comparison(Binary::Less, left, right),
        BinaryOp::LessEqual => comparison(Binary::LessEqual, left, right),
        BinaryOp::Greater => comparison(Binary::Less, right, left),
        BinaryOp::GreaterEqual => comparison(Binary::LessEqual, right, left),
        BinaryOp::Equal => comparison(Binary::Equal, left, right),
        BinaryOp::NotEqual => comparison(Binary::NotEqual, left, right),
        _ => Err(Misfit(format!("`{}` is for integers, not for floats", operator.mark()))),
    }
}

fn integers(operator: BinaryOp, left: Expression, right: Expression, unsigned: bool) -> Typed {
    let either = |signed: Binary, other: Binary| if unsigned { other } else { signed };
    let kind = if unsigned { Type::UNSIGNED_LONG } else { Type::LONG };
    let less = either(Binary::Less, Binary::LessUnsigned);
    let less_equal = either(Binary::LessEqual, Binary::LessEqualUnsigned);
    match operator {
        BinaryOp::Multiply => (kind, binary(Binary::Multiply, left, right)),
        BinaryOp::Divide => (kind, binary(either(Binary::Divide, Binary::DivideUnsigned), left, right)),
        BinaryOp::Remainder => (kind, binary(either(Binary::Remainder, Binary::RemainderUnsigned), left, right)),
        BinaryOp::Add => (kind, binary(Binary::Add, left, right)),
        BinaryOp::Subtract => (kind, binary(Binary::Subtract, left, right)),
        BinaryOp::ShiftLeft => (kind, binary(Binary::ShiftLeft, left, right)),
        BinaryOp::ShiftRight => (kind, binary(either(Binary::ShiftRight, Binary::ShiftRightUnsigned), left, right)),
        BinaryOp::Less => (Type::LONG, binary(less, left, right)),
        BinaryOp::LessEqual => (Type::LONG, binary(less_equal, left, right)),
        BinaryOp::Greater => (Type::LONG, binary(less, right, left)),
        BinaryOp::GreaterEqual => (Type::LONG, binary(less_equal, right, left)),
        BinaryOp::Equal => (Type::LONG, binary(Binary::Equal, left, right)),
        BinaryOp::NotEqual => (Type::LONG, binary(Binary::NotEqual, left, right)),
        BinaryOp::BitAnd => (kind, binary(Binary::And, left, right)),
        BinaryOp::BitXor => (kind, binary(Binary::Xor, left, right)),
        BinaryOp::BitOr => (kind, binary(Binary::Or, left, right)),
        BinaryOp::And => (Type::LONG, Expression::And(Box::new(left), Box::new(right))),
        BinaryOp::Or => (Type::LONG, Expression::Or(Box::new(left), Box::new(right))),
    }
}
