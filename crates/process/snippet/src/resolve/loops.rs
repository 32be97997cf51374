//! Loops and their bounds. A loop whose number of passes cannot be told beforehand is refused, because a body runs
//! inside somebody's program, which must go on.
//!
//! Next: `crate::cost`, which multiplies the bounds.

use super::body::Lowering;
use super::parts::Lowered;
use crate::error::{Code, Problem, Span};
use crate::ir::{Expression, Statement};
use crate::syntax::{BinaryOp, Expr, ExprKind, Name, Stmt, StmtKind};

impl Lowering<'_, '_> {
    /// `while (condition) limit N ...`
    pub fn while_loop(
        &mut self,
        condition: &Expr,
        limit: Option<&Expr>,
        body: &[Stmt],
        span: Span,
    ) -> Lowered<Vec<Statement>> {
        let bound = limit.map(|limit| self.bound(limit));
        let condition = self.condition(condition);
        let body = self.loop_body(body);
        let Some(bound) = bound else { return Err(unbounded(span)) };
        Ok(vec![Statement::While { condition: condition?, bound: bound?, body }])
    }

    /// `repeat N ...`
    pub fn repeat_loop(&mut self, count: &Expr, body: &[Stmt]) -> Lowered<Vec<Statement>> {
        let bound = self.bound(count);
        let body = self.loop_body(body);
        Ok(vec![Statement::While { condition: Expression::Int(1), bound: bound?, body }])
    }

    /// `for (start; condition; step) limit N ...`
    pub fn for_loop(&mut self, statement: &Stmt) -> Lowered<Vec<Statement>> {
        let StmtKind::For { start, condition, step, limit, body } = &statement.kind else { return Ok(Vec::new()) };
        self.locals.push(Vec::new());
        let made = self.for_parts(start.as_deref(), condition, step.as_deref(), limit.as_ref(), (body, statement.span));
        self.locals.pop();
        made
    }

    fn for_parts(
        &mut self,
        start: Option<&Stmt>,
        condition: &Expr,
        step: Option<&Stmt>,
        limit: Option<&Expr>,
        (body, span): (&[Stmt], Span),
    ) -> Lowered<Vec<Statement>> {
        let mut made = start.map_or(Ok(Vec::new()), |start| self.part(start))?;
        let bound = match limit {
            Some(limit) => self.bound(limit)?,
            None => self.passes(start, condition, step, body).ok_or_else(|| unbounded(span))?,
        };
        let condition = self.condition(condition)?;
        let mut body = self.loop_body(body);
        if let Some(step) = step {
            body.extend(self.part(step)?);
        }
        made.push(Statement::While { condition, bound, body });
        Ok(made)
    }

    fn loop_body(&mut self, body: &[Stmt]) -> Vec<Statement> {
        self.loops += 1;
        let made = self.statements(body);
        self.loops -= 1;
        made
    }

    /// A part of a `for`'s head; what it introduces lives as long as the loop.
    fn part(&mut self, part: &Stmt) -> Lowered<Vec<Statement>> {
        match &part.kind {
            StmtKind::Let { name, value } => self.introduce(name, value),
            StmtKind::Assign { target, operator, value } => self.assign(target, *operator, value),
            _ => Ok(Vec::new()),
        }
    }

    fn bound(&mut self, limit: &Expr) -> Lowered<u32> {
        let bound = self.constant(limit)?;
        u32::try_from(bound)
            .map_err(|_| Problem::new(Code::Unbounded, limit.span, format!("a loop cannot run {bound} times")))
    }

    /// An integer that is known now.
    pub fn constant(&mut self, expression: &Expr) -> Lowered<i64> {
        match self.value(expression)? {
            (_, Expression::Int(value)) => Ok(value),
            _ => {
                let problem =
                    Problem::new(Code::Unbounded, expression.span, "this must be a number that is known beforehand");
                Err(problem.expected(["a number", "sizeof", "an enumerator"]))
            }
        }
    }

    /// How often `for (i = a; i < b; i += c)` runs, if all are known and the body leaves `i` alone.
    fn passes(&mut self, start: Option<&Stmt>, condition: &Expr, step: Option<&Stmt>, body: &[Stmt]) -> Option<u32> {
        let (name, first) = match &start?.kind {
            StmtKind::Let { name, value } => (name.as_str(), value),
            StmtKind::Assign { target, operator: None, value } => (plain_name(target)?, value),
            _ => return None,
        };
        let ExprKind::Binary(comparison, left, right) = &condition.kind else { return None };
        let StmtKind::Assign { target, operator, value } = &step?.kind else { return None };
        if plain_name(left) != Some(name) || plain_name(target) != Some(name) || assigns(body, name) {
            return None;
        }
        let (first, last) = (self.constant(first).ok()?, self.constant(right).ok()?);
        let step = i128::from(self.constant(value).ok()?);
        let step = match operator {
            Some(BinaryOp::Add) => step,
            Some(BinaryOp::Subtract) => -step,
            _ => return None,
        };
        let way = match comparison {
            BinaryOp::Less => i128::from(last) - i128::from(first),
            BinaryOp::LessEqual => i128::from(last) - i128::from(first) + 1,
            BinaryOp::Greater => i128::from(first) - i128::from(last),
            BinaryOp::GreaterEqual => i128::from(first) - i128::from(last) + 1,
            _ => return None,
        };
        let upwards = matches!(comparison, BinaryOp::Less | BinaryOp::LessEqual);
        let stride = if upwards { step } else { -step };
        if way <= 0 {
            return Some(0);
        }
        if stride <= 0 { None } else { u32::try_from((way + stride - 1) / stride).ok() }
    }
}

fn unbounded(span: Span) -> Problem {
    let problem = Problem::new(Code::Unbounded, span, "it cannot be told how often this loop runs at most");
    problem.expected(["`limit N`"]).help(
        "say it: `while (p != 0) limit 100 { ... }`; or count with constants: `for (let i = 0; i < 8; i++) { ... }`",
    )
}

fn plain_name(expression: &Expr) -> Option<&str> {
    match &expression.kind {
        ExprKind::Name(Name::Plain(name)) => Some(name),
        _ => None,
    }
}

/// True if a statement in `body` changes `name` (or hides it, which is as bad for counting).
fn assigns(body: &[Stmt], name: &str) -> bool {
    body.iter().any(|statement| match &statement.kind {
        StmtKind::Assign { target, .. } => plain_name(target) == Some(name),
        StmtKind::Let { name: new, .. } => new == name,
        StmtKind::If { then, otherwise, .. } => assigns(then, name) || assigns(otherwise, name),
        StmtKind::While { body, .. } | StmtKind::Repeat { body, .. } | StmtKind::Block(body) => assigns(body, name),
        StmtKind::For { start, step, body, .. } => {
            let part =
                |part: &Option<Box<Stmt>>| part.as_ref().is_some_and(|part| assigns(std::slice::from_ref(part), name));
            part(start) || part(step) || assigns(body, name)
        }
        _ => false,
    })
}
