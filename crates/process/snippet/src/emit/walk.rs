//! Visits every statement and every expression of a body: what the decisions before code is written look at.
//!
//! Next: `frame`, which decides.

use crate::ir::{Expression, Sent, Statement};

/// Every statement, nested ones after those they are in.
pub(crate) fn statements(list: &[Statement], visit: &mut impl FnMut(&Statement)) {
    statements_dyn(list, visit);
}

fn statements_dyn(list: &[Statement], visit: &mut dyn FnMut(&Statement)) {
    for statement in list {
        visit(statement);
        match statement {
            Statement::If { then, otherwise, .. } => {
                statements_dyn(then, visit);
                statements_dyn(otherwise, visit);
            }
            Statement::While { body, .. } => statements_dyn(body, visit),
            _ => {}
        }
    }
}

/// Every expression of every statement, operands after their operators.
pub(crate) fn expressions(list: &[Statement], visit: &mut impl FnMut(&Expression)) {
    statements(list, &mut |statement| own_expressions(statement, visit));
}

/// The expressions of one statement, without those of nested statements.
pub(crate) fn own_expressions(statement: &Statement, visit: &mut dyn FnMut(&Expression)) {
    match statement {
        Statement::Set { value, .. }
        | Statement::Add { value, .. }
        | Statement::Fold { value, .. }
        | Statement::Let { value, .. }
        | Statement::SetRegister { value, .. } => expression(value, visit),
        Statement::If { condition, .. } | Statement::While { condition, .. } => expression(condition, visit),
        Statement::Send { values, .. } => values.iter().for_each(|sent| match sent {
            Sent::Int(value) | Sent::Address(value) | Sent::Float(value) => expression(value, visit),
            Sent::Text { address, .. } => expression(address, visit),
        }),
        Statement::Call { arguments, .. } => arguments.iter().for_each(|argument| expression(argument, visit)),
        Statement::Store { address, value, .. } | Statement::StoreFloat { address, value, .. } => {
            expression(address, visit);
            expression(value, visit);
        }
        Statement::CountStack { .. }
        | Statement::OpenCall { .. }
        | Statement::CloseCall { .. }
        | Statement::DropCall { .. }
        | Statement::Return
        | Statement::Break
        | Statement::Stop => {}
    }
}

/// An expression and all its operands.
pub(crate) fn expression(root: &Expression, visit: &mut dyn FnMut(&Expression)) {
    visit(root);
    match root {
        Expression::Load { address, .. }
        | Expression::LoadFloat { address, .. }
        | Expression::TextEquals { address, .. } => expression(address, visit),
        Expression::Unary(_, operand) => expression(operand, visit),
        Expression::Binary(_, left, right) | Expression::And(left, right) | Expression::Or(left, right) => {
            expression(left, visit);
            expression(right, visit);
        }
        Expression::Select(condition, one, other) => {
            expression(condition, visit);
            expression(one, visit);
            expression(other, visit);
        }
        _ => {}
    }
}
