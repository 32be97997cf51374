//! A syntax tree back to text that reads as the same tree: for tests, for showing what was understood, for storing.
//! Every operation stands in parentheses, so that no precedence has to be remembered.
//!
//! Next: `syntax`.

use crate::syntax::{
    Condition, Declaration, Expr, ExprKind, FunctionPattern, LoopEdge, Name, Point, PointKind, Probe, Scope, Script,
    Stmt, StmtKind, TypeName,
};
use std::fmt::{Display, Formatter, Result};

impl Display for Script {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.declarations.iter().try_for_each(|declaration| writeln!(f, "{declaration}"))?;
        self.conditions.iter().try_for_each(|condition| writeln!(f, "{condition}"))?;
        self.probes.iter().try_for_each(|probe| writeln!(f, "{probe}"))
    }
}

impl Display for Declaration {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let scope = match self.scope {
            Scope::Sum => "sum",
            Scope::Thread => "thread",
            Scope::Process => "process",
        };
        let names: Vec<&str> = self.names.iter().map(|(name, _)| name.as_str()).collect();
        write!(f, "{scope} {} {};", if self.float { "double" } else { "int" }, names.join(", "))
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let word = |start: bool| if start { "start" } else { "stop" };
        match self {
            Condition::After { start, hits, points, .. } => {
                write!(f, "{} after {hits} hits of {};", word(*start), list(points))
            }
            Condition::When { start, condition } => write!(f, "{} when ({condition});", word(*start)),
            Condition::While(condition) => write!(f, "record while ({condition});"),
            Condition::For { duration_us } => write!(f, "for {duration_us}us;"),
        }
    }
}

impl Display for Probe {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", list(&self.points))?;
        if let Some(when) = &self.when {
            write!(f, " when ({when})")?;
        }
        block(f, &self.body)
    }
}

impl Display for Point {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            PointKind::Entry(function) => write!(f, "entry {function}"),
            PointKind::Exit(function) => write!(f, "exit {function}"),
            PointKind::Call(call) => {
                let moment = if call.after { "after" } else { "before" };
                let number = call.number.map_or(String::new(), |number| format!("#{number}"));
                let word = format!("{}:{}{number}", plain(&call.caller), call.callee);
                write!(f, "call {moment} {}", literal(&word))
            }
            PointKind::Loop(point) => {
                let edge = match point.edge {
                    LoopEdge::Pass => "pass",
                    LoopEdge::Entry => "entry",
                    LoopEdge::Exit => "exit",
                };
                let path: Vec<String> = point.path.iter().map(ToString::to_string).collect();
                write!(f, "loop {edge} {}", literal(&format!("{}:{}", plain(&point.function), path.join("."))))
            }
            PointKind::Block { function, number } => {
                let number = number.map_or("*".to_string(), |number| number.to_string());
                write!(f, "block {}", literal(&format!("{}:{number}", plain(function))))
            }
            PointKind::Line { file, line, library } => {
                let library = library.as_ref().map_or(String::new(), |library| format!("@{library}"));
                write!(f, "at {}", literal(&format!("{file}:{line}{library}")))
            }
            PointKind::Address { library: None, address } => write!(f, "at {address:#x}"),
            PointKind::Address { library: Some(library), address } => {
                write!(f, "at {}", literal(&format!("{library}:{address:#x}")))
            }
            PointKind::Offset { function, offset } => {
                write!(f, "at {}", literal(&format!("{}+{offset:#x}", plain(function))))
            }
            PointKind::Every { period_us } => write!(f, "every {period_us}us"),
            PointKind::Once => write!(f, "once"),
        }
    }
}

impl Display for FunctionPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&literal(&plain(self)))
    }
}

impl Display for Stmt {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            StmtKind::Assign { target, operator, value } => {
                write!(f, "{target} {}= {value}", operator.map_or("", |operator| operator.mark()))
            }
            StmtKind::Let { name, value } => write!(f, "let {name} = {value}"),
            StmtKind::If { condition, then, otherwise } => {
                write!(f, "if ({condition})")?;
                block(f, then)?;
                if otherwise.is_empty() {
                    return Ok(());
                }
                write!(f, " else")?;
                block(f, otherwise)
            }
            StmtKind::While { condition, limit, body } => {
                write!(f, "while ({condition}){}", Limit(limit.as_ref()))?;
                block(f, body)
            }
            StmtKind::For { start, condition, step, limit, body } => {
                let part = |part: &Option<Box<Stmt>>| part.as_ref().map_or(String::new(), ToString::to_string);
                write!(f, "for ({}; {condition}; {}){}", part(start), part(step), Limit(limit.as_ref()))?;
                block(f, body)
            }
            StmtKind::Repeat { count, body } => {
                write!(f, "repeat {count}")?;
                block(f, body)
            }
            StmtKind::Block(body) => block(f, body),
            StmtKind::Return => write!(f, "return"),
            StmtKind::Break => write!(f, "break"),
            StmtKind::Stop => write!(f, "stop()"),
            StmtKind::Send { tag, values } => {
                let more = if values.is_empty() { String::new() } else { format!(", {}", list(values)) };
                write!(f, "send({}{more})", literal(tag))
            }
            StmtKind::Call { function, arguments } => write!(f, "call {}({})", literal(function), list(arguments)),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            ExprKind::Int(value, true) => write!(f, "{}", *value as u64),
            ExprKind::Int(value, false) => write!(f, "{value}"),
            ExprKind::Float(value) => write!(f, "{value:?}"),
            ExprKind::Text(text) => f.write_str(&literal(text)),
            ExprKind::Name(Name::Plain(name)) => write!(f, "{name}"),
            ExprKind::Name(Name::Global(name)) => write!(f, "{}{name}", if name.contains(':') { "" } else { "::" }),
            ExprKind::Name(Name::Static { file, name }) => write!(f, "{}::{name}", literal(file)),
            ExprKind::Dollar(name) => write!(f, "${name}"),
            ExprKind::Unary(operator, value) => write!(f, "({}{})", operator.mark(), value),
            ExprKind::Binary(operator, a, b) => write!(f, "({a} {} {b})", operator.mark()),
            ExprKind::Conditional(a, b, c) => write!(f, "({a} ? {b} : {c})"),
            ExprKind::Cast(name, value) => write!(f, "(({name}){})", value),
            ExprKind::SizeofType(name) => write!(f, "sizeof({name})"),
            ExprKind::SizeofValue(value) => write!(f, "sizeof({value})"),
            ExprKind::Member { value, member, arrow } => {
                write!(f, "{value}{}{member}", if *arrow { "->" } else { "." })
            }
            ExprKind::Index(value, index) => write!(f, "{value}[{index}]"),
            ExprKind::Function(name, arguments) => write!(f, "{name}({})", list(arguments)),
        }
    }
}

impl Display for TypeName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let stars = "*".repeat(self.pointers);
        if stars.is_empty() { write!(f, "{}", self.name) } else { write!(f, "{} {stars}", self.name) }
    }
}

/// ` limit N` or nothing.
struct Limit<'a>(Option<&'a Expr>);

impl Display for Limit<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.0.map_or(Ok(()), |limit| write!(f, " limit {limit}"))
    }
}

fn block(f: &mut Formatter<'_>, statements: &[Stmt]) -> Result {
    write!(f, " {{ ")?;
    statements.iter().try_for_each(|statement| write!(f, "{statement}; "))?;
    write!(f, "}}")
}

fn list<T: Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn plain(function: &FunctionPattern) -> String {
    match &function.library {
        Some(library) => format!("{}@{library}", function.name),
        None => function.name.clone(),
    }
}

/// In quotes; a point's word too, since it may look like a keyword or hold brackets.
fn literal(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\0' => quoted.push_str("\\0"),
            '\\' | '"' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
