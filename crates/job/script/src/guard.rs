//! Memory that goes away: bodies may read what is mapped, and the table of that must not outlive the mapping.
//!
//! The process's own calls that unmap or protect memory are probed too. Their bodies empty the table of readable ranges
//! before the memory goes, so that every checked load yields 0 from then on, until trimtab has looked at the mappings
//! again: not while a thread is inside such a call, and what was found is thrown away if one began meanwhile. A script that loads from no address of the program gets no such bodies. Where such a call can't be probed, only
//! memory is readable that a program hardly ever gives back: files it has mapped, and the main thread's stack.
//!
//! UCX, which MPICH uses, replaces the first bytes of these functions with jumps to its own; then those are probed.
//!
//! Next: `trimtab-session`'s `ScriptView::set_ranges`, which fills the table.

use crate::walk;
use trimtab_session::{FunctionBodies, Modules, ScriptRequest};
use trimtab_snippet::ir::{
    Area, Binary, Body, Expression, Kind, Register, Sent, Statement, Unit, Variable, When, process_word,
};

/// Calls that take memory away, and when they do.
const CALLS: [(&str, Takes); 5] = [
    ("munmap", Takes::Always),
    ("mremap", Takes::Always),
    ("shmdt", Takes::Always),
    ("mprotect", Takes::IfUnreadable),
    ("sbrk", Takes::IfNegative),
];
/// The names of UCX's replacements of calls begin with this.
const REPLACED: &str = "ucm_override_";
/// The bit of a protection that allows reading.
const PROTECTION_READ: i64 = 1;

/// Operations of emptying: a word for itself, per table and per range that is kept, and a condition.
const EMPTYING_COST_MAX: u64 = 16;
/// Operations of saying that a thread is inside.
const INSIDE_COST_MAX: u64 = 1;

/// When a call takes memory away.
#[derive(Clone, Copy)]
enum Takes {
    Always,
    /// Argument 2 lacks the right to read or to write.
    IfUnreadable,
    /// Argument 0 is negative.
    IfNegative,
}

/// The bodies that keep the tables true, and where they go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// If bodies look at memory at all: offset in a thread's area of the word that is not 0 while that thread is inside
    /// a call that takes memory away.
    pub inside_at: Option<u32>,
    pub requests: Vec<ScriptRequest>,
}

impl Guard {
    /// True if a function is probed for the tables' sake.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.requests.iter().any(|request| request.name == name)
    }

    /// True if every call that takes memory away is seen, itself or what it is replaced with.
    pub(crate) fn holds(&self, is_probed: impl Fn(&str) -> bool) -> bool {
        let seen = |name: &str| self.has(name) && is_probed(name);
        let exists = |name: &str| self.has(name);
        let calls = CALLS.iter().filter(|(name, _)| exists(name));
        self.requests.is_empty() || calls.into_iter().all(|(name, _)| seen(name) || seen(&format!("{REPLACED}{name}")))
    }
}

/// Adds bodies to `unit` that empty the tables, and says where they go. Nothing for a script that loads nothing.
pub(crate) fn add(unit: &mut Unit, modules: &Modules) -> Guard {
    if !unit.bodies.iter().any(|body| !runs_outside(body) && looks_at_memory(body)) {
        return Guard::default();
    }
    let inside_at = unit.thread_bytes;
    unit.thread_bytes += 8;
    let inside = add_variable(unit, Area::Thread, inside_at);
    // The counts first: what is kept of a table is made nothing once it can't be taken from there any more.
    let kept = (0..process_word::HOT_RANGE_COUNT).map(|number| process_word::HOT_RANGES + 8 * number);
    let words = [process_word::TABLES_SEEN, process_word::RANGE_COUNT, process_word::WRITABLE_COUNT];
    let tables: Vec<usize> =
        words.into_iter().chain(kept).map(|offset| add_variable(unit, Area::Process, offset)).collect();
    let set = |variable: usize, value| Statement::Set { variable, value: Expression::Int(value) };
    let mut requests = Vec::new();
    for (name, takes) in CALLS {
        let empty: Vec<Statement> = tables.iter().map(|&variable| set(variable, 0)).collect();
        let emptied = match takes.condition() {
            Some(condition) => vec![Statement::If { condition, then: empty.clone(), otherwise: Vec::new() }],
            None => empty.clone(),
        };
        let mut add = |when, statements, cost_max| {
            unit.bodies.push(Body { probe: usize::MAX, when, statements, cost_max });
            unit.bodies.len() - 1
        };
        let entry =
            vec![add(When::Entry, vec![set(inside, 1)], INSIDE_COST_MAX), add(When::Entry, emptied, EMPTYING_COST_MAX)];
        // A call that had begun before the probes were there is seen only here.
        let exit =
            vec![add(When::Exit, empty, EMPTYING_COST_MAX), add(When::Exit, vec![set(inside, 0)], INSIDE_COST_MAX)];
        let bodies = FunctionBodies { entry, exit, ..FunctionBodies::default() };
        for name in [name.to_owned(), format!("{REPLACED}{name}")] {
            let found = modules.modules.iter().filter_map(|module| module.function(&name));
            requests.extend(found.map(|(_, address)| ScriptRequest {
                name: name.clone(),
                address,
                bodies: bodies.clone(),
                serve_exits: Vec::new(),
                asking: Vec::new(),
                // A thread that is said to be inside must be said to have left.
                needs_exits: true,
            }));
        }
    }
    Guard { inside_at: Some(inside_at), requests }
}

/// A word that bodies set.
fn add_variable(unit: &mut Unit, area: Area, offset: u32) -> usize {
    unit.variables.push(Variable { name: format!("(guard {area:?} {offset})"), area, offset, kind: Kind::Last });
    unit.variables.len() - 1
}

impl Takes {
    fn condition(self) -> Option<Expression> {
        let binary = |operator, a, b| Expression::Binary(operator, Box::new(a), Box::new(b));
        let register = Expression::Register;
        match self {
            Takes::Always => None,
            Takes::IfUnreadable => {
                let both = 2 | PROTECTION_READ;
                let kept = binary(Binary::And, register(Register::Rdx), Expression::Int(both));
                Some(binary(Binary::NotEqual, kept, Expression::Int(both)))
            }
            Takes::IfNegative => Some(binary(Binary::Less, register(Register::Rdi), Expression::Int(0))),
        }
    }
}

/// True if trimtab runs a body itself, and so looks at memory from outside.
pub(crate) fn runs_outside(body: &Body) -> bool {
    matches!(body.when, When::Every { .. } | When::Once)
}

/// True if a body reads or writes memory of the program through the tables.
pub(crate) fn looks_at_memory(body: &Body) -> bool {
    let mut found = uses_tables(&body.statements);
    walk::expressions(&body.statements, &mut |expression| {
        found |= matches!(
            expression,
            Expression::Load { .. } | Expression::LoadFloat { .. } | Expression::TextEquals { .. }
        );
    });
    found
}

fn uses_tables(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Store { .. } | Statement::StoreFloat { .. } | Statement::CountStack { .. } => true,
        // A called function gets as much stack as the tables say is there.
        Statement::Call { .. } => true,
        Statement::Send { values, .. } => values.iter().any(|value| matches!(value, Sent::Text { .. })),
        Statement::If { then, otherwise, .. } => uses_tables(then) || uses_tables(otherwise),
        Statement::While { body, .. } => uses_tables(body),
        _ => false,
    })
}
