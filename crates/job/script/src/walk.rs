//! Every expression of a body, however deep, and what statements there are.
//!
//! Next: `guard` and `run`, which look for loads.

use trimtab_snippet::ir::{Expression, Register, Sent, Statement, Unit};

/// True if a body may send something, or end the script.
pub(crate) fn speaks(unit: &Unit) -> bool {
    unit.bodies.iter().any(|body| any_speaks(&body.statements))
}

fn any_speaks(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Send { .. } | Statement::Stop => true,
        Statement::If { then, otherwise, .. } => any_speaks(then) || any_speaks(otherwise),
        Statement::While { body, .. } => any_speaks(body),
        _ => false,
    })
}

/// True if some statement calls a function of the program.
pub(crate) fn calls(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Call { .. } => true,
        Statement::If { then, otherwise, .. } => calls(then) || calls(otherwise),
        Statement::While { body, .. } => calls(body),
        _ => false,
    })
}

/// True if a body at an exit asks how long the call took or what it returned, which is in the first register of its
/// kind.
pub(crate) fn asks_for_ends(statements: &[Statement]) -> bool {
    let mut asks = false;
    expressions(statements, &mut |one| {
        asks |= match one {
            Expression::Elapsed { .. } | Expression::Vector(0) | Expression::VectorSingle(0) => true,
            Expression::Register(register) => *register == Register::Rax,
            _ => false,
        };
    });
    asks
}

/// Calls `visit` for each expression of `statements`, operands after what they are operands of.
pub(crate) fn expressions(statements: &[Statement], visit: &mut dyn FnMut(&Expression)) {
    for statement in statements {
        match statement {
            Statement::Set { value, .. }
            | Statement::Add { value, .. }
            | Statement::Fold { value, .. }
            | Statement::Let { value, .. }
            | Statement::SetRegister { value, .. } => expression(value, visit),
            Statement::If { condition, then, otherwise } => {
                expression(condition, visit);
                expressions(then, visit);
                expressions(otherwise, visit);
            }
            Statement::While { condition, body, .. } => {
                expression(condition, visit);
                expressions(body, visit);
            }
            Statement::Send { values, .. } => values.iter().for_each(|value| expression(sent(value), visit)),
            Statement::Call { arguments, .. } => arguments.iter().for_each(|value| expression(value, visit)),
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
}

/// The expression behind a value of a message.
pub(crate) fn sent(value: &Sent) -> &Expression {
    match value {
        Sent::Int(value) | Sent::Address(value) | Sent::Float(value) | Sent::Text { address: value, .. } => value,
    }
}

/// Calls `visit` for an expression and all that it is made of.
pub(crate) fn expression(one: &Expression, visit: &mut dyn FnMut(&Expression)) {
    visit(one);
    match one {
        Expression::Load { address, .. }
        | Expression::LoadFloat { address, .. }
        | Expression::TextEquals { address, .. } => expression(address, visit),
        Expression::Unary(_, value) => expression(value, visit),
        Expression::Binary(_, a, b) | Expression::And(a, b) | Expression::Or(a, b) => {
            expression(a, visit);
            expression(b, visit);
        }
        Expression::Select(a, b, c) => [a, b, c].into_iter().for_each(|part| expression(part, visit)),
        _ => {}
    }
}
