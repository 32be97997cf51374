//! Short ways to write the typed tree in tests.
//!
//! Next: `statements`, which uses them most.

use trimtab_snippet::ir::{
    Area, Binary, Body, Expression, HISTOGRAM_WORDS, Kind, OPEN_CALLS_MAX, Register, STACKS_WORDS, Statement, Unary,
    Unit, Variable, When, process_word, thread_word,
};

/// Words of a variable of a kind.
pub fn words(kind: Kind) -> u32 {
    match kind {
        Kind::Sum | Kind::SumFloat | Kind::Last | Kind::LastFloat => 1,
        Kind::Min | Kind::MinFloat | Kind::Max | Kind::MaxFloat | Kind::Mean => 2,
        Kind::Histogram => HISTOGRAM_WORDS,
        Kind::Stacks => STACKS_WORDS,
        Kind::OpenCalls => 1 + 2 * OPEN_CALLS_MAX,
    }
}

/// A script with these variables, laid out one behind the other, and no bodies.
pub fn unit(kinds: &[(Area, Kind)]) -> Unit {
    let mut thread_bytes = thread_word::FIRST_FREE;
    let mut process_bytes = process_word::FIRST_FREE;
    let mut variables = Vec::new();
    for (number, &(area, kind)) in kinds.iter().enumerate() {
        let bytes = if area == Area::Thread { &mut thread_bytes } else { &mut process_bytes };
        variables.push(Variable { name: format!("v{number}"), area, offset: *bytes, kind });
        *bytes += 8 * words(kind);
    }
    let texts = vec!["tag".to_string(), "residual".to_string()];
    Unit { bodies: Vec::new(), variables, texts, thread_bytes, process_bytes }
}

pub fn body(when: When, statements: Vec<Statement>) -> Body {
    Body { probe: 0, when, statements, cost_max: 1000 }
}

pub fn int(value: i64) -> Expression {
    Expression::Int(value)
}

pub fn register(register: Register) -> Expression {
    Expression::Register(register)
}

pub fn binary(operator: Binary, left: Expression, right: Expression) -> Expression {
    Expression::Binary(operator, Box::new(left), Box::new(right))
}

pub fn unary(operator: Unary, operand: Expression) -> Expression {
    Expression::Unary(operator, Box::new(operand))
}

pub fn add(variable: usize, value: Expression) -> Statement {
    Statement::Add { variable, value }
}

pub fn set(variable: usize, value: Expression) -> Statement {
    Statement::Set { variable, value }
}

pub fn fold(variable: usize, value: Expression) -> Statement {
    Statement::Fold { variable, value }
}

pub fn when(condition: Expression, then: Vec<Statement>) -> Statement {
    Statement::If { condition, then, otherwise: Vec::new() }
}
