//! Assignments: to the script's variables, to variables of a body, and, where allowed, to the program's.
//!
//! Next: `variables`, which decided what each variable is for.

use super::body::Lowering;
use super::operand::{At, Operand, convert};
use super::parts::Lowered;
use super::variables::{Aggregation, RESERVED, Role, aggregation};
use crate::error::{Code, Problem, Span};
use crate::ir::{Expression, Register, Statement, Unary, Width};
use crate::syntax::{BinaryOp, Expr, ExprKind, Name};
use crate::types::Type;
use crate::values::note_of;

/// Frames of a stack that are hashed, unless `stack(N)` says otherwise.
const STACK_DEPTH: u8 = 16;
/// Frames of a stack that are hashed at most.
const STACK_DEPTH_MAX: i64 = 64;

impl Lowering<'_, '_> {
    /// `target = value` or `target OP= value`.
    pub fn assign(&mut self, target: &Expr, operator: Option<BinaryOp>, value: &Expr) -> Lowered<Vec<Statement>> {
        if let ExprKind::Name(Name::Plain(name)) = &target.kind {
            if let Some((temporary, kind)) = self.local(name) {
                return self.assign_local(temporary, &kind, (target, operator, value));
            }
            if RESERVED.contains(&name.as_str()) {
                return Err(Problem::new(Code::ConflictingUse, target.span, format!("`{name}` cannot be assigned to")));
            }
            if let Some(variable) = self.resolver.variables.find(name) {
                return self.assign_own(variable, operator, value, target.span);
            }
        }
        self.assign_program(target, operator, value)
    }

    fn assign_local(
        &mut self,
        temporary: usize,
        kind: &Type,
        (target, operator, value): (&Expr, Option<BinaryOp>, &Expr),
    ) -> Lowered<Vec<Statement>> {
        self.refuse_aggregation(value, "keep it in a variable of the script, without `let`")?;
        let new = match operator {
            None => self.value(value)?,
            Some(operator) => {
                let old = self.value(target)?;
                let right = self.value(value)?;
                self.binary(operator, (old, target.span), (right, value.span))?
            }
        };
        let value = convert(new, kind).map_err(|problem| problem.at(value.span))?;
        Ok(vec![Statement::Let { temporary, value }])
    }

    /// Refuses `hist(...)` and its like where no variable gathers.
    pub fn refuse_aggregation(&self, value: &Expr, help: &str) -> Lowered<()> {
        match aggregation(value) {
            Some((name, _, _)) => {
                let message = format!("`{name}(...)` gathers values, which only a variable of the script can");
                Err(Problem::new(Code::TypeMismatch, value.span, message).help(help))
            }
            None => Ok(()),
        }
    }

    fn assign_own(
        &mut self,
        variable: usize,
        operator: Option<BinaryOp>,
        value: &Expr,
        span: Span,
    ) -> Lowered<Vec<Statement>> {
        match (operator, aggregation(value)) {
            (None, Some((name, gathering, count))) => self.gather(variable, (name, gathering, count), value),
            (Some(BinaryOp::Add), None) => self.add(variable, value, false, span),
            (Some(BinaryOp::Subtract), None) => self.add(variable, value, true, span),
            (_, Some(_)) => {
                self.refuse_aggregation(value, "it must stand right of `=`")?;
                Ok(Vec::new())
            }
            (None, None) => {
                let new = self.value(value)?;
                self.set(variable, new, value.span)
            }
            (Some(operator), None) => {
                let old = self.own_value(variable, span)?;
                let right = self.value(value)?;
                let new = self.binary(operator, (old, span), (right, value.span))?;
                self.set(variable, new, value.span)
            }
        }
    }

    /// A value of the type that the variable has, as far as known by now.
    fn fit(&mut self, variable: usize, value: (Type, Expression), span: Span) -> Lowered<Expression> {
        if matches!(value.0, Type::Float(_)) {
            self.resolver.variables.holds_float(variable);
        }
        let float = self.resolver.variables.list[variable].float;
        convert(value, if float { &Type::DOUBLE } else { &Type::LONG }).map_err(|problem| problem.at(span))
    }

    fn set(&mut self, variable: usize, value: (Type, Expression), span: Span) -> Lowered<Vec<Statement>> {
        let value = self.fit(variable, value, span)?;
        let variables = &mut self.resolver.variables;
        let own = &variables.list[variable];
        if own.role != Role::Last {
            return Ok(vec![Statement::Set { variable, value }]);
        }
        let (name, area) = (note_of(&own.name), own.area);
        let note = variables.imply(&name, Role::Last, area);
        Ok(vec![Statement::Set { variable, value }, Statement::Set { variable: note, value: Expression::Int(1) }])
    }

    fn add(&mut self, variable: usize, value: &Expr, negative: bool, span: Span) -> Lowered<Vec<Statement>> {
        let added = self.value(value)?;
        let own = &self.resolver.variables.list[variable];
        if own.role == Role::Sum {
            let added = self.fit(variable, added, value.span)?;
            let value = if negative { super::operand::unary(Unary::Negate, added) } else { added };
            return Ok(vec![Statement::Add { variable, value }]);
        }
        let operator = if negative { BinaryOp::Subtract } else { BinaryOp::Add };
        let old = self.own_value(variable, span)?;
        let new = self.binary(operator, (old, span), (added, value.span))?;
        self.set(variable, new, value.span)
    }

    fn gather(
        &mut self,
        variable: usize,
        (name, gathering, count): (&str, Aggregation, usize),
        value: &Expr,
    ) -> Lowered<Vec<Statement>> {
        let ExprKind::Function(_, arguments) = &value.kind else { return Ok(Vec::new()) };
        if gathering == Aggregation::Stack {
            return self.count_stack(variable, arguments, value.span);
        }
        if arguments.len() != count {
            let message = format!(
                "`{name}` takes {count} argument{}, not {}",
                if count == 1 { "" } else { "s" },
                arguments.len()
            );
            return Err(Problem::new(Code::WrongArguments, value.span, message));
        }
        if gathering == Aggregation::Count {
            return Ok(vec![Statement::Add { variable, value: Expression::Int(1) }]);
        }
        let span = arguments[0].span;
        let gathered = self.value(&arguments[0])?;
        let to = |kind: &Type, gathered| convert(gathered, kind).map_err(|problem| problem.at(span));
        match gathering {
            Aggregation::Sum => {
                let value = self.fit(variable, gathered, span)?;
                Ok(vec![Statement::Add { variable, value }])
            }
            Aggregation::Last => self.set(variable, gathered, span),
            Aggregation::Mean => Ok(vec![Statement::Fold { variable, value: to(&Type::DOUBLE, gathered)? }]),
            Aggregation::Histogram => Ok(vec![Statement::Fold { variable, value: to(&Type::LONG, gathered)? }]),
            _ => {
                let value = self.fit(variable, gathered, span)?;
                Ok(vec![Statement::Fold { variable, value }])
            }
        }
    }

    fn count_stack(&mut self, variable: usize, arguments: &[Expr], span: Span) -> Lowered<Vec<Statement>> {
        let depth = match arguments {
            [] => STACK_DEPTH,
            [depth] => {
                let frames = self.constant(depth)?;
                if !(1..=STACK_DEPTH_MAX).contains(&frames) {
                    let message = format!("a stack is followed for 1 to {STACK_DEPTH_MAX} frames");
                    return Err(Problem::new(Code::WrongArguments, depth.span, message));
                }
                frames as u8
            }
            _ => {
                let problem = Problem::new(Code::WrongArguments, span, "`stack` takes the number of frames or nothing");
                return Err(problem);
            }
        };
        if self.here.moment == super::places::Moment::Nowhere {
            return Err(Problem::new(Code::NotHere, span, "there is no stack of the program at a clock"));
        }
        Ok(vec![Statement::CountStack { variable, depth }])
    }

    /// An assignment to the program's own variables or registers.
    fn assign_program(&mut self, target: &Expr, operator: Option<BinaryOp>, value: &Expr) -> Lowered<Vec<Statement>> {
        if !self.resolver.permissions.write {
            let problem =
                Problem::new(Code::NotPermitted, target.span, "changing the program's values must be allowed first");
            return Err(problem.help("give `--allow-write`; a plain name on the left is a variable of the script"));
        }
        self.refuse_aggregation(value, "use a plain name on the left")?;
        let place = self.operand(target)?;
        let new = match operator {
            None => self.value(value)?,
            Some(operator) => {
                let old = self.read(place.clone(), target.span)?;
                let right = self.value(value)?;
                self.binary(operator, (old, target.span), (right, value.span))?
            }
        };
        self.store(place, new, target.span)
    }

    fn store(&mut self, place: Operand, value: (Type, Expression), span: Span) -> Lowered<Vec<Statement>> {
        let refuse = |message: &str| Err(Problem::new(Code::Unsupported, span, message));
        let fits = match &place.kind {
            Type::Struct(_) | Type::Array(..) | Type::Void | Type::Opaque(_) => false,
            Type::Float(_) => true,
            _ => !matches!(place.at, At::Vector(_)),
        };
        if !fits {
            return refuse("this cannot be assigned to: it is not a number or an address");
        }
        let value = convert(value, &place.kind).map_err(|problem| problem.at(span))?;
        let statement = match (place.at, &place.kind) {
            (At::Memory(address), Type::Float(width)) => Statement::StoreFloat { address, width: *width, value },
            (At::Memory(address), kind) => {
                let width = match kind {
                    Type::Int { width, .. } | Type::Datatype(width) => *width,
                    _ => Width::W64,
                };
                Statement::Store { address, width, value }
            }
            (At::Register(Register::Rsp | Register::Rip), _) => return refuse("`$rsp` and `$rip` cannot be changed"),
            (At::Register(register), _) => Statement::SetRegister { register, value },
            (At::Vector(_), _) => return refuse("floats in registers cannot be assigned to"),
            (At::Bits(..), _) => return refuse("bit fields cannot be assigned to"),
            (At::Value(_), _) => return refuse("this is a value, not a place that holds one"),
        };
        Ok(vec![statement])
    }

    /// The value of a variable of the script.
    pub fn own_value(&self, variable: usize, span: Span) -> Lowered<(Type, Expression)> {
        let own = &self.resolver.variables.list[variable];
        if let Role::Gather(_) | Role::OpenCalls = own.role {
            let message = format!("`{}` gathers values, it has none of its own to read", own.name);
            return Err(
                Problem::new(Code::TypeMismatch, span, message).help("keep what is needed in a second variable")
            );
        }
        let kind = if own.float { Type::DOUBLE } else { Type::LONG };
        Ok((kind, Expression::Variable { variable }))
    }
}
