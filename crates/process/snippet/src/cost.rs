//! How many operations one run of a body takes at most: what makes "ends in bounded time" a number.
//!
//! The figures are of the right size for an ordinary processor, in units of a simple instruction; they decide whether a
//! body is refused, not what a report says.
//!
//! Next: `resolve`, which refuses.

use crate::ir::{Expression, Sent, Statement};

/// A load looks its address up in the table of readable ranges.
const LOAD: u64 = 10;
/// Reading the clock or the processor's number.
const CLOCK: u64 = 10;
/// Reserving room in the ring.
const SEND: u64 = 20;
/// One frame of a stack.
const FRAME: u64 = 12;
/// A function of the target; what happens inside is the user's business, who had to allow it.
const CALL: u64 = 100;
/// A locked instruction or a fold.
const UPDATE: u64 = 8;

/// Operations of a list of statements, at most.
pub fn of(statements: &[Statement]) -> u64 {
    statements.iter().fold(0, |sum, statement| sum.saturating_add(of_statement(statement)))
}

fn of_statement(statement: &Statement) -> u64 {
    let more = match statement {
        Statement::Set { value, .. } | Statement::Let { value, .. } | Statement::SetRegister { value, .. } => {
            of_expression(value)
        }
        Statement::Add { value, .. } | Statement::Fold { value, .. } => UPDATE + of_expression(value),
        Statement::CountStack { depth, .. } => UPDATE + FRAME * u64::from(*depth),
        Statement::OpenCall { .. } | Statement::CloseCall { .. } => CLOCK + UPDATE,
        Statement::If { condition, then, otherwise } => {
            of_expression(condition).saturating_add(of(then).max(of(otherwise)))
        }
        Statement::While { condition, bound, body } => {
            let pass = of_expression(condition).saturating_add(of(body)).saturating_add(2);
            pass.saturating_mul(u64::from(*bound)).saturating_add(of_expression(condition))
        }
        Statement::Return | Statement::Break | Statement::Stop | Statement::DropCall { .. } => 1,
        Statement::Send { values, .. } => SEND + values.iter().map(of_sent).sum::<u64>(),
        Statement::Call { arguments, .. } => CALL + sum(arguments),
        Statement::Store { address, value, .. } | Statement::StoreFloat { address, value, .. } => {
            LOAD + of_expression(address) + of_expression(value)
        }
    };
    more.saturating_add(1)
}

fn of_sent(sent: &Sent) -> u64 {
    match sent {
        Sent::Int(value) | Sent::Address(value) | Sent::Float(value) => of_expression(value) + 1,
        Sent::Text { address, bytes_max } => of_expression(address) + LOAD + 2 * u64::from(*bytes_max),
    }
}

fn sum(expressions: &[Expression]) -> u64 {
    expressions.iter().map(of_expression).sum()
}

/// Operations of an expression, at most.
pub fn of_expression(expression: &Expression) -> u64 {
    1 + match expression {
        Expression::Int(_) | Expression::Float(_) | Expression::Register(_) | Expression::Variable { .. } => 0,
        Expression::Vector(_) | Expression::VectorSingle(_) | Expression::Temporary { .. } => 0,
        Expression::ProcessWord(_) | Expression::ThreadWord(_) => 0,
        Expression::Load { address, .. } | Expression::LoadFloat { address, .. } => LOAD + of_expression(address),
        Expression::Elapsed { .. } | Expression::Now | Expression::Processor => CLOCK,
        Expression::CallWasLeft { .. } => UPDATE,
        Expression::Unary(_, a) => of_expression(a),
        Expression::Binary(_, a, b) | Expression::And(a, b) | Expression::Or(a, b) => {
            of_expression(a) + of_expression(b)
        }
        Expression::Select(a, b, c) => of_expression(a) + of_expression(b).max(of_expression(c)),
        Expression::TextEquals { address, .. } => of_expression(address) + 2 * LOAD,
    }
}
