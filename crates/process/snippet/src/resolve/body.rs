//! Statements of one body at one place.
//!
//! Next: `assign` for assignments, `loops` for bounds, `expressions` for values.

use super::context::{OpenCalls, OpenKey, Resolver};
use super::operand::{At, truth};
use super::parts::Lowered;
use super::places::{Here, Moment};
use crate::error::{Code, Problem, Span};
use crate::ir::{Area, Binary, Expression, Sent, Statement};
use crate::syntax::{Expr, ExprKind, Name, Stmt, StmtKind};
use crate::types::Type;

/// Bytes of a text that are sent at most.
pub const TEXT_BYTES_MAX: u16 = 256;
/// Arguments of a called function at most: those that go in registers.
const CALL_ARGUMENTS_MAX: usize = 6;
/// Variables of one body at most: they lie on the stack of the program's thread.
pub const TEMPORARIES_MAX: usize = 64;
/// Values of a message at most.
const SENT_MAX: usize = 16;

/// The tools that make one body.
pub(super) struct Lowering<'r, 'a> {
    pub resolver: &'r mut Resolver<'a>,
    pub here: Here,
    /// True if the facts were asked about this very place, so that the body holds for no other.
    pub asked: bool,
    /// Names that `let` introduced, by block, with number and type.
    pub locals: Vec<Vec<(String, usize, Type)>>,
    pub temporary_count: usize,
    /// Loops around the statement at hand.
    pub loops: usize,
    /// Which table of open calls `elapsed` means, and the probe.
    open_key: Option<(OpenKey, usize)>,
    /// The temporary that holds the elapsed time.
    elapsed: Option<usize>,
    /// True if the body asks if the call was left without an exit, so that it must run then too.
    pub asks_left: bool,
    open_variable: usize,
}

impl<'r, 'a> Lowering<'r, 'a> {
    /// For a body at `here`; without `open_key` there is no elapsed time.
    pub fn new(resolver: &'r mut Resolver<'a>, here: Here, open_key: Option<(OpenKey, usize)>) -> Self {
        Lowering {
            resolver,
            here,
            asked: false,
            locals: Vec::new(),
            temporary_count: 0,
            loops: 0,
            open_key,
            elapsed: None,
            asks_left: false,
            open_variable: 0,
        }
    }

    /// The whole body: only while recording, only if all guards hold.
    pub fn whole(&mut self, guards: &[&Expr], body: &[Stmt], recording: Option<usize>) -> Vec<Statement> {
        let mut conditions: Vec<Expression> = Vec::new();
        for guard in guards {
            match self.condition(guard) {
                Ok(condition) => conditions.push(condition),
                Err(problem) => self.resolver.problems.push(problem),
            }
        }
        let mut statements = self.statements(body);
        for condition in conditions.into_iter().rev() {
            statements = vec![Statement::If { condition, then: statements, otherwise: Vec::new() }];
        }
        if let Some(temporary) = self.elapsed {
            let value = match self.here.moment {
                Moment::Left => Expression::Int(-1),
                _ => Expression::Elapsed { variable: self.open_variable },
            };
            statements.insert(0, Statement::Let { temporary, value });
        }
        if let Some(variable) = recording {
            let condition = Expression::Variable { variable };
            statements = vec![Statement::If { condition, then: statements, otherwise: Vec::new() }];
        }
        statements
    }

    /// Statements of one block; those that are wrong are noted and left out.
    pub fn statements(&mut self, statements: &[Stmt]) -> Vec<Statement> {
        self.locals.push(Vec::new());
        let mut made = Vec::new();
        for statement in statements {
            match self.statement(statement) {
                Ok(more) => made.extend(more),
                Err(problem) => self.resolver.problems.push(problem),
            }
        }
        self.locals.pop();
        made
    }

    fn statement(&mut self, statement: &Stmt) -> Lowered<Vec<Statement>> {
        let one = |statement| Ok(vec![statement]);
        match &statement.kind {
            StmtKind::Assign { target, operator, value } => {
                let made = self.assign(target, *operator, value)?;
                Ok(self.if_elapsed_is_known(&[target, value], made))
            }
            StmtKind::Let { name, value } => self.introduce(name, value),
            StmtKind::If { condition, then, otherwise } => {
                let condition = self.condition(condition);
                let (then, otherwise) = (self.statements(then), self.statements(otherwise));
                one(Statement::If { condition: condition?, then, otherwise })
            }
            StmtKind::While { condition, limit, body } => {
                self.while_loop(condition, limit.as_ref(), body, statement.span)
            }
            StmtKind::For { .. } => self.for_loop(statement),
            StmtKind::Repeat { count, body } => self.repeat_loop(count, body),
            StmtKind::Block(body) => Ok(self.statements(body)),
            StmtKind::Return if self.here.moment == Moment::Left => {
                let message = "a body that asks `$unwound` can't `return`: several calls may have been left";
                Err(Problem::new(Code::Unsupported, statement.span, message)
                    .help("put the rest into `if (...) { ... }`"))
            }
            StmtKind::Return => one(Statement::Return),
            StmtKind::Break if self.loops == 0 => {
                Err(Problem::new(Code::UnexpectedToken, statement.span, "`break` stands in no loop")
                    .help("`return` leaves the body"))
            }
            StmtKind::Break => one(Statement::Break),
            StmtKind::Stop => one(Statement::Stop),
            StmtKind::Send { tag, values } => self.send(tag, values, statement.span),
            StmtKind::Call { function, arguments } => self.call(function, arguments, statement.span),
        }
    }

    /// A condition: nonzero or not.
    pub fn condition(&mut self, condition: &Expr) -> Lowered<Expression> {
        let (kind, value) = self.value(condition)?;
        Ok(truth(&kind, value))
    }

    /// `let name = value`.
    pub fn introduce(&mut self, name: &str, value: &Expr) -> Lowered<Vec<Statement>> {
        let span = value.span;
        let (kind, value) = self.value(value)?;
        if self.temporary_count >= TEMPORARIES_MAX {
            let message = format!("a body has at most {TEMPORARIES_MAX} variables of its own");
            return Err(Problem::new(Code::TooLarge, span, message));
        }
        let temporary = self.temporary();
        if let Some(block) = self.locals.last_mut() {
            block.push((name.to_string(), temporary, kind));
        }
        Ok(vec![Statement::Let { temporary, value }])
    }

    /// A new temporary.
    pub fn temporary(&mut self) -> usize {
        self.temporary_count += 1;
        self.temporary_count - 1
    }

    /// The innermost `let` of that name.
    pub fn local(&self, name: &str) -> Option<(usize, Type)> {
        let mut locals = self.locals.iter().rev().flat_map(|block| block.iter().rev());
        locals.find(|(known, _, _)| known == name).map(|(_, temporary, kind)| (*temporary, kind.clone()))
    }

    /// Nanoseconds since this call's entry, as a temporary that is set once at the start of the body.
    pub fn elapsed(&mut self, span: Span) -> Lowered<Expression> {
        let Some(variable) = self.open_calls() else {
            let problem = Problem::new(Code::NotHere, span, "`elapsed` is known at the exits of functions only");
            return Err(problem.help("write `exit FUNCTION { ... }`, or keep `now` of two points in variables"));
        };
        self.open_variable = variable;
        let temporary = match self.elapsed {
            Some(temporary) => temporary,
            None => self.temporary(),
        };
        self.elapsed = Some(temporary);
        Ok(Expression::Temporary { temporary, float: false })
    }

    /// `$unwound`: whether the call was left by an exception or a jump, and no exit was passed.
    pub fn was_left(&mut self, span: Span) -> Lowered<i64> {
        if self.open_calls().is_none() {
            let problem = Problem::new(Code::NotHere, span, "`$unwound` is known at the exits of functions only");
            return Err(problem.help("write `exit FUNCTION { ... }`"));
        }
        self.asks_left = true;
        Ok(i64::from(self.here.moment == Moment::Left))
    }

    /// The table of open calls of the function that is left here; none elsewhere.
    fn open_calls(&mut self) -> Option<usize> {
        let at_end = matches!(self.here.moment, Moment::Exit | Moment::Left);
        let (key, probe) = self.open_key.filter(|_| at_end)?;
        if let OpenKey::Function(_) = key {
            self.asked = true;
        }
        let function = self.here.function;
        let name = match (key, function) {
            (OpenKey::Function(_), Some(function)) => {
                format!("(open calls of {}#{})", self.resolver.facts.function_name(function), function.0)
            }
            _ => format!("(open calls of probe {probe})"),
        };
        let variable = self.resolver.variables.imply(&name, super::variables::Role::OpenCalls, Area::Thread);
        let functions = function.into_iter().collect();
        self.resolver.open_calls.entry(key).or_insert(OpenCalls { variable, probe, functions, left: Vec::new() });
        Some(variable)
    }

    /// A statement that mentions the elapsed time does nothing where that is not known.
    fn if_elapsed_is_known(&self, parts: &[&Expr], statements: Vec<Statement>) -> Vec<Statement> {
        match self.elapsed {
            Some(temporary) if parts.iter().any(|part| mentions_elapsed(part)) => {
                let elapsed = Expression::Temporary { temporary, float: false };
                let condition = Expression::Binary(Binary::LessEqual, Box::new(Expression::Int(0)), Box::new(elapsed));
                vec![Statement::If { condition, then: statements, otherwise: Vec::new() }]
            }
            _ => statements,
        }
    }

    fn send(&mut self, tag: &str, values: &[Expr], span: Span) -> Lowered<Vec<Statement>> {
        if values.len() > SENT_MAX {
            let message = format!("a message has at most {SENT_MAX} values");
            return Err(Problem::new(Code::WrongArguments, span, message));
        }
        let mut sent = Vec::new();
        for value in values {
            sent.push(self.sent(value)?);
        }
        let text = self.resolver.text(tag);
        let parts: Vec<&Expr> = values.iter().collect();
        Ok(self.if_elapsed_is_known(&parts, vec![Statement::Send { text, values: sent }]))
    }

    fn sent(&mut self, value: &Expr) -> Lowered<Sent> {
        if let ExprKind::Text(_) = value.kind {
            let problem = Problem::new(Code::Unsupported, value.span, "a text of the script cannot be sent as a value");
            return Err(problem.help("put it into the tag, the first argument"));
        }
        let operand = self.operand(value)?;
        if let (Type::Array(element, count), At::Memory(address)) = (&operand.kind, &operand.at)
            && is_character(element)
        {
            let bytes_max = count.map_or(TEXT_BYTES_MAX, |count| count.min(u64::from(TEXT_BYTES_MAX)) as u16);
            return Ok(Sent::Text { address: address.clone(), bytes_max });
        }
        let (kind, expression) = self.read(operand, value.span)?;
        Ok(match kind {
            Type::Float(_) => Sent::Float(expression),
            Type::Pointer(target) if is_character(&target) => {
                Sent::Text { address: expression, bytes_max: TEXT_BYTES_MAX }
            }
            Type::Pointer(_) => Sent::Address(expression),
            kind if kind == Type::UNSIGNED_LONG => Sent::Address(expression),
            _ => Sent::Int(expression),
        })
    }

    fn call(&mut self, function: &str, arguments: &[Expr], span: Span) -> Lowered<Vec<Statement>> {
        if !self.resolver.permissions.call {
            let problem =
                Problem::new(Code::NotPermitted, span, "calling the program's functions must be allowed first");
            return Err(problem.help("give `--allow-call`; the function runs in the program, with all its effects"));
        }
        let Some(address) = self.resolver.facts.call_address(function) else {
            let problem = Problem::new(Code::UnknownName, span, format!("there is no function `{function}` to call"));
            return Err(problem.near(function, self.resolver.facts.function_names(function)));
        };
        if arguments.len() > CALL_ARGUMENTS_MAX {
            let message = format!("a called function gets at most {CALL_ARGUMENTS_MAX} arguments");
            return Err(Problem::new(Code::WrongArguments, span, message));
        }
        let mut values = Vec::new();
        for argument in arguments {
            let (kind, value) = self.value(argument)?;
            if let Type::Float(_) = kind {
                let problem =
                    Problem::new(Code::Unsupported, argument.span, "called functions get integers and addresses only");
                return Err(problem.help("convert it: `(long)x`"));
            }
            values.push(value);
        }
        let parts: Vec<&Expr> = arguments.iter().collect();
        Ok(self.if_elapsed_is_known(&parts, vec![Statement::Call { address, arguments: values }]))
    }
}

/// True if values of this type are read as text.
pub(super) fn is_character(kind: &Type) -> bool {
    matches!(kind, Type::Int { width: crate::ir::Width::W8, .. })
}

fn mentions_elapsed(expression: &Expr) -> bool {
    let any = |list: &[&Expr]| list.iter().any(|part| mentions_elapsed(part));
    match &expression.kind {
        ExprKind::Name(Name::Plain(name)) => name == "elapsed",
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) | ExprKind::SizeofValue(a) => any(&[a]),
        ExprKind::Member { value, .. } => any(&[value]),
        ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => any(&[a, b]),
        ExprKind::Conditional(a, b, c) => any(&[a, b, c]),
        ExprKind::Function(_, arguments) => arguments.iter().any(mentions_elapsed),
        _ => false,
    }
}
