//! A body's needs before its statements run: the thread's area, to be alone on its thread, temporaries, the time.
//!
//! A body that does nothing but add to variables that are only ever added to is right even when a signal handler's probe
//! runs in the middle of it, because each addition is one instruction. Every other body marks its thread busy.
//!
//! Next: `frame`, which acts on it.

use crate::emit::walk;
use crate::ir::{Area, Expression, Kind, Statement, Unit, When};

/// A body's needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The thread's area.
    pub area: bool,
    /// That no other body runs on this thread meanwhile.
    pub busy: bool,
    /// Number of temporaries.
    pub temporaries: u32,
    /// Elapsed times.
    pub elapsed: bool,
    /// Elapsed times in every run.
    pub elapsed_always: bool,
}

impl Needs {
    /// The needs of several bodies that run one after the other.
    pub(crate) fn union(self, other: Needs) -> Needs {
        Needs {
            area: self.area || other.area,
            busy: self.busy || other.busy,
            temporaries: self.temporaries.max(other.temporaries),
            elapsed: self.elapsed || other.elapsed,
            elapsed_always: self.elapsed_always || other.elapsed_always,
        }
    }

    /// `reentrant`: whether that is known of all bodies of the script.
    pub(crate) fn of(unit: &Unit, statements: &[Statement], reentrant: bool) -> Needs {
        let mut needs = Needs::default();
        walk::statements(statements, &mut |statement| {
            needs.busy |= !reentrant && !does_the_same(unit, statement, &|variable| is_only_added_to(unit, variable));
            needs.area |= statement_needs_area(unit, statement);
            if let Statement::Let { temporary, .. } = statement {
                needs.temporaries = needs.temporaries.max(*temporary as u32 + 1);
            }
        });
        walk::expressions(statements, &mut |expression| match expression {
            Expression::Elapsed { .. } => needs.elapsed = true,
            Expression::Temporary { temporary, .. } => {
                needs.temporaries = needs.temporaries.max(*temporary as u32 + 1);
            }
            other => needs.area |= needs_area_itself(unit, other),
        });
        for statement in statements {
            walk::own_expressions(statement, &mut |expression| {
                needs.elapsed_always |= matches!(expression, Expression::Elapsed { .. });
            });
        }
        needs.busy |= needs.elapsed && !reentrant;
        needs.area |= needs.busy || needs.elapsed;
        needs
    }
}

/// True if computing a value needs the thread's area.
pub(crate) fn needs_area(unit: &Unit, value: &Expression) -> bool {
    let mut needs = false;
    walk::expression(value, &mut |part| needs |= needs_area_itself(unit, part));
    needs
}

fn needs_area_itself(unit: &Unit, value: &Expression) -> bool {
    match value {
        Expression::Variable { variable } => is_in_thread_area(unit, *variable),
        // Loads may be refused, which is counted there.
        Expression::Load { .. } | Expression::LoadFloat { .. } | Expression::TextEquals { .. } => true,
        Expression::Elapsed { .. } | Expression::CallWasLeft { .. } | Expression::ThreadWord(_) => true,
        _ => false,
    }
}

fn is_in_thread_area(unit: &Unit, variable: usize) -> bool {
    unit.variables.get(variable).is_some_and(|found| found.area == Area::Thread)
}

fn statement_needs_area(unit: &Unit, statement: &Statement) -> bool {
    match statement {
        Statement::Add { variable, .. } | Statement::Set { variable, .. } | Statement::Fold { variable, .. } => {
            is_in_thread_area(unit, *variable)
        }
        Statement::CountStack { .. }
        | Statement::OpenCall { .. }
        | Statement::CloseCall { .. }
        | Statement::DropCall { .. }
        | Statement::Send { .. }
        | Statement::Call { .. }
        | Statement::Store { .. }
        | Statement::StoreFloat { .. } => true,
        Statement::Let { .. }
        | Statement::If { .. }
        | Statement::While { .. }
        | Statement::Return
        | Statement::Break
        | Statement::Stop
        | Statement::SetRegister { .. } => false,
    }
}

/// True if no body of a script that runs in the program has to be alone on its thread: it does the same when any of
/// them runs in the middle of it. Open calls are no reason to be, as long as there is no other one: they are kept in
/// an order in which what comes in between leaves them as they were.
pub fn is_reentrant(unit: &Unit) -> bool {
    let mut only_added = vec![true; unit.variables.len()];
    let bodies = || unit.bodies.iter().filter(|body| matches!(body.when, When::Entry | When::Exit | When::At));
    for body in &unit.bodies {
        walk::statements(&body.statements, &mut |statement| {
            if let Statement::Set { variable, .. } | Statement::Fold { variable, .. } = statement
                && let Some(only) = only_added.get_mut(*variable)
            {
                *only = false;
            }
        });
    }
    let is_only_added_to = |variable: usize| {
        let found = unit.variables.get(variable).zip(only_added.get(variable));
        found.is_some_and(|(found, only)| found.area == Area::Process || (*only && found.kind == Kind::Sum))
    };
    let mut reentrant = true;
    for body in bodies() {
        walk::statements(&body.statements, &mut |statement| {
            let is_call = matches!(statement, Statement::OpenCall { .. } | Statement::CloseCall { .. });
            reentrant &= is_call || does_the_same(unit, statement, &is_only_added_to);
        });
    }
    reentrant
}

/// True if a statement does the same when another body runs in the middle of it.
fn does_the_same(unit: &Unit, statement: &Statement, is_only_added_to: &dyn Fn(usize) -> bool) -> bool {
    match statement {
        Statement::Add { variable, .. } => is_only_added_to(*variable),
        Statement::Set { variable, .. } => !is_in_thread_area(unit, *variable),
        Statement::Let { .. }
        | Statement::If { .. }
        | Statement::While { .. }
        | Statement::Return
        | Statement::Break
        | Statement::Stop
        | Statement::SetRegister { .. } => true,
        Statement::Fold { .. }
        | Statement::CountStack { .. }
        | Statement::OpenCall { .. }
        | Statement::CloseCall { .. }
        | Statement::DropCall { .. }
        | Statement::Send { .. }
        | Statement::Call { .. }
        | Statement::Store { .. }
        | Statement::StoreFloat { .. } => false,
    }
}

/// True if nothing in the script does anything to a variable but adding integers to it; or it is in the process area,
/// where every addition is locked.
fn is_only_added_to(unit: &Unit, variable: usize) -> bool {
    let Some(found) = unit.variables.get(variable) else { return false };
    if found.area == Area::Process {
        return true;
    }
    let mut only = found.kind == Kind::Sum;
    for body in &unit.bodies {
        walk::statements(&body.statements, &mut |statement| {
            only &= !matches!(statement, Statement::Set { variable: set, .. } | Statement::Fold { variable: set, .. }
                if *set == variable);
        });
    }
    only
}
