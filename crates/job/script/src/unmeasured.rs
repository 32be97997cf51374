//! Variables of which nothing is known, or not all: bodies that set them could not be put in where they belong.
//!
//! Such a variable holds its first value, which is no result. The same goes for what other bodies make of
//! it, so it is followed through all that read it.
//!
//! Next: `member`, which shows values without what was not measured; `trimtab-session`'s `Lost`, from where it is known.

use crate::walk;
use std::collections::{BTreeMap, BTreeSet};
use trimtab_session::Lost;
use trimtab_snippet::Compiled;
use trimtab_snippet::ir::{Expression, Kind, Statement, Unit};
use trimtab_snippet::values::{MISSING_MAX, Named, all_missing};

/// Bytes of a reason at most.
const REASON_BYTES_MAX: usize = 200;

/// How much of a body's runs, or of a variable's values, is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Some,
    All,
}

/// The gap and its reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Missing {
    gap: Gap,
    reasons: BTreeSet<String>,
}

impl Missing {
    fn widen(&mut self, gap: Gap, reasons: &BTreeSet<String>) -> bool {
        let before = (self.gap, self.reasons.len());
        self.gap = self.gap.max(gap);
        self.reasons.extend(reasons.iter().cloned());
        before != (self.gap, self.reasons.len())
    }
}

/// Of a script in one process, what is missing of each of its variables.
#[derive(Debug, Default)]
pub(crate) struct Unmeasured {
    variables: BTreeMap<String, Missing>,
    counts: BTreeSet<String>,
    /// Uses of variables of which nothing is known: sent, tested or looked at.
    pub warnings: Vec<String>,
}

impl Unmeasured {
    /// Of a script with these bodies lost. Of `elsewhere` they are lost at some places of those that their points mean.
    pub(crate) fn of(compiled: &Compiled, lost: &[Lost], elsewhere: &[Lost]) -> Self {
        if lost.is_empty() && elsewhere.is_empty() {
            return Unmeasured::default();
        }
        let unit = &compiled.unit;
        let bodies = bodies(compiled, lost, elsewhere);
        let mut variables = vec![Missing::default(); unit.variables.len()];
        let writes = all_writes(unit);
        while spread(&writes, &bodies, &mut variables) {}
        let counts = (0..unit.variables.len()).filter(|number| is_count(unit, *number));
        let warnings = warnings(unit, &variables);
        let named = unit.variables.iter().map(|variable| variable.name.clone());
        Unmeasured {
            counts: counts.map(|number| unit.variables[number].name.clone()).collect(),
            variables: named.zip(variables).filter(|(_, missing)| missing.gap != Gap::None).collect(),
            warnings,
        }
    }

    /// Values without those that were not measured.
    pub(crate) fn mark(&self, values: Vec<Named>) -> Vec<Named> {
        let marked = |named: Named| {
            let Some(missing) = self.variables.get(&named.name) else { return named };
            let reasons = all_missing(missing.reasons.iter().map(|reason| short(reason)).collect(), Vec::new());
            let value = named.value.filter(|_| missing.gap != Gap::All);
            Named { at_least: self.counts.contains(&named.name), value, missing: reasons, name: named.name }
        };
        values.into_iter().map(marked).collect()
    }
}

/// The part of each body's runs that is missing because of its places. Bodies that nobody wrote, which guard memory, stand behind the
/// script's own and have places that it does not know of.
fn bodies(compiled: &Compiled, lost: &[Lost], elsewhere: &[Lost]) -> Vec<Missing> {
    let of_body = |number: usize| {
        let of = |all: &[Lost]| all.iter().filter(|one| one.body == number).count();
        let gap = match of(lost) {
            0 if of(elsewhere) == 0 => Gap::None,
            count if count >= compiled.places.get(number).map_or(1, Vec::len) => Gap::All,
            _ => Gap::Some,
        };
        let reasons = lost.iter().chain(elsewhere).filter(|one| one.body == number).map(|one| one.reason.clone());
        Missing { gap, reasons: reasons.collect() }
    };
    (0..compiled.unit.bodies.len()).map(of_body).collect()
}

/// A statement that gives a variable its value.
struct Write {
    body: usize,
    /// Variables that the value is made of, or on which it depends that the statement runs.
    depends_on: BTreeSet<usize>,
    /// True if the value is known beforehand.
    is_constant: bool,
}

/// The statements that give each variable its value. One that only sets it to what is known beforehand does not measure
/// anything, if others do.
fn all_writes(unit: &Unit) -> Vec<Vec<Write>> {
    let mut walk = Walk { all: unit.variables.iter().map(|_| Vec::new()).collect(), ..Walk::default() };
    for (number, body) in unit.bodies.iter().enumerate() {
        walk.body = number;
        walk.temporaries.clear();
        walk.statements(&body.statements, &mut BTreeSet::new());
    }
    for writes in &mut walk.all {
        if writes.iter().any(|write| !write.is_constant) {
            writes.retain(|write| !write.is_constant);
        }
    }
    walk.all
}

/// One body after another, in the order of its statements.
#[derive(Default)]
struct Walk {
    all: Vec<Vec<Write>>,
    body: usize,
    /// Variables that each temporary was made of.
    temporaries: BTreeMap<usize, BTreeSet<usize>>,
}

impl Walk {
    /// `under` has the variables that decide whether the statements run.
    fn statements(&mut self, statements: &[Statement], under: &mut BTreeSet<usize>) {
        for statement in statements {
            match statement {
                Statement::If { condition, then, otherwise } => {
                    let mut inside: BTreeSet<usize> = &*under | &self.reads(condition);
                    self.statements(then, &mut inside);
                    self.statements(otherwise, &mut inside);
                    if leaves(then) || leaves(otherwise) {
                        *under = inside;
                    }
                }
                Statement::While { condition, body, .. } => {
                    // Once more, because a pass sees what the one before it has made.
                    for _ in 0..2 {
                        let mut inside: BTreeSet<usize> = &*under | &self.reads(condition);
                        self.statements(body, &mut inside);
                        *under = if leaves(body) { inside } else { std::mem::take(under) };
                    }
                }
                Statement::Let { temporary, value } => {
                    let made_of: BTreeSet<usize> = &*under | &self.reads(value);
                    self.temporaries.entry(*temporary).or_default().extend(made_of);
                }
                Statement::Set { variable, value } => {
                    let is_constant = matches!(value, Expression::Int(_) | Expression::Float(_));
                    self.write(*variable, &*under | &self.reads(value), is_constant);
                }
                Statement::Add { variable, value } | Statement::Fold { variable, value } => {
                    self.write(*variable, &*under | &self.reads(value), false);
                }
                Statement::CountStack { variable, .. } => self.write(*variable, under.clone(), false),
                _ => {}
            }
        }
    }

    fn write(&mut self, variable: usize, depends_on: BTreeSet<usize>, is_constant: bool) {
        if let Some(writes) = self.all.get_mut(variable) {
            writes.push(Write { body: self.body, depends_on, is_constant });
        }
    }

    fn reads(&self, value: &Expression) -> BTreeSet<usize> {
        let mut read = BTreeSet::new();
        walk::expression(value, &mut |expression| match expression {
            Expression::Variable { variable } => drop(read.insert(*variable)),
            Expression::Temporary { temporary, .. } => {
                read.extend(self.temporaries.get(temporary).into_iter().flatten());
            }
            _ => {}
        });
        read
    }
}

/// True if what stands behind these statements may be left out because of them.
fn leaves(statements: &[Statement]) -> bool {
    any(statements, &|statement| matches!(statement, Statement::Return | Statement::Break))
}

/// From bodies, and variables, to variables that they set; whether anything was new.
fn spread(writes: &[Vec<Write>], bodies: &[Missing], variables: &mut [Missing]) -> bool {
    let mut is_new = false;
    for (number, writes) in writes.iter().enumerate() {
        let missing: Vec<Missing> = writes
            .iter()
            .map(|write| {
                let mut missing = bodies[write.body].clone();
                for own in write.depends_on.iter().filter(|own| **own != number) {
                    missing.widen(variables[*own].gap, &variables[*own].reasons);
                }
                missing
            })
            .collect();
        let all_lost = missing.iter().all(|missing| missing.gap == Gap::All);
        for missing in missing.iter().filter(|missing| missing.gap != Gap::None) {
            let gap = if all_lost { Gap::All } else { Gap::Some };
            is_new |= variables[number].widen(gap, &missing.reasons);
        }
    }
    is_new
}

fn writes(statement: &Statement, wanted: usize) -> bool {
    match statement {
        Statement::Set { variable, .. }
        | Statement::Add { variable, .. }
        | Statement::Fold { variable, .. }
        | Statement::CountStack { variable, .. } => *variable == wanted,
        _ => false,
    }
}

/// True if a variable only ever grows.
fn is_count(unit: &Unit, variable: usize) -> bool {
    let shrinks = |statement: &Statement| match statement {
        Statement::Add { variable: own, value } => *own == variable && !matches!(value, Expression::Int(0..)),
        other => writes(other, variable),
    };
    unit.variables[variable].kind == Kind::Sum && !unit.bodies.iter().any(|body| any(&body.statements, &shrinks))
}

fn any(statements: &[Statement], wanted: &dyn Fn(&Statement) -> bool) -> bool {
    statements.iter().any(|statement| {
        wanted(statement)
            || match statement {
                Statement::If { then, otherwise, .. } => any(then, wanted) || any(otherwise, wanted),
                Statement::While { body, .. } => any(body, wanted),
                _ => false,
            }
    })
}

fn reads(statements: &[Statement]) -> BTreeSet<usize> {
    let mut read = BTreeSet::new();
    walk::expressions(statements, &mut |expression| {
        if let Expression::Variable { variable } = expression {
            read.insert(*variable);
        }
    });
    read
}

/// Messages and conditions show what nobody measured, too.
fn warnings(unit: &Unit, variables: &[Missing]) -> Vec<String> {
    let speaks = |statement: &Statement| {
        matches!(
            statement,
            Statement::Send { .. } | Statement::Stop | Statement::Store { .. } | Statement::StoreFloat { .. }
        )
    };
    let read: BTreeSet<usize> = unit
        .bodies
        .iter()
        .filter(|body| any(&body.statements, &speaks))
        .flat_map(|body| reads(&body.statements))
        .collect();
    let unknown = read.into_iter().filter(|number| variables[*number].gap == Gap::All);
    let said = |number: usize| {
        let reasons: Vec<String> = variables[number].reasons.iter().take(MISSING_MAX).map(|one| short(one)).collect();
        let name = &unit.variables[number].name;
        format!(
            "messages and conditions that read `{name}` do not have what it stands for, because nothing set it: {}",
            reasons.join("; ")
        )
    };
    unknown.map(said).collect()
}

fn short(reason: &str) -> String {
    let end = (0..=REASON_BYTES_MAX.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
    if end == reason.len() { reason.to_owned() } else { format!("{} ...", &reason[..end]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_snippet::BodyPlace;
    use trimtab_snippet::arithmetic::Number;
    use trimtab_snippet::facts::FunctionId;
    use trimtab_snippet::ir::{Area, Body, Variable, When};
    use trimtab_snippet::values::Value;

    fn read(variable: usize) -> Expression {
        Expression::Variable { variable }
    }

    fn add(variable: usize, value: i64) -> Statement {
        Statement::Add { variable, value: Expression::Int(value) }
    }

    /// Sums `a`, `b` and so on, and bodies with as many places as they say.
    fn compiled(bodies: Vec<(usize, Vec<Statement>)>) -> Compiled {
        let variable = |(index, name): (usize, char)| Variable {
            name: name.into(),
            area: Area::Thread,
            offset: 64 + 8 * index as u32,
            kind: Kind::Sum,
        };
        let body = |statements: &Vec<Statement>| Body {
            probe: 0,
            when: When::Entry,
            statements: statements.clone(),
            cost_max: 1,
        };
        let places = |count: usize| (0..count).map(|number| BodyPlace::Entry(FunctionId(number as u32))).collect();
        Compiled {
            unit: Unit {
                bodies: bodies.iter().map(|(_, statements)| body(statements)).collect(),
                variables: "abcd".chars().enumerate().map(variable).collect(),
                texts: Vec::new(),
                thread_bytes: 96,
                process_bytes: 0,
            },
            places: bodies.iter().map(|(count, _)| places(*count)).collect(),
            origins: Vec::new(),
            spans: Vec::new(),
            duration_us: None,
            recording: None,
        }
    }

    fn lost(bodies: &[usize]) -> Vec<Lost> {
        bodies.iter().map(|&body| Lost { body, reason: format!("of {body}") }).collect()
    }

    /// Each variable's mark: `-` nothing is known, `>` at least, `~` not all, `=` whole.
    fn marks(compiled: &Compiled, there: &[usize], elsewhere: &[usize]) -> String {
        let value = |name: char| Named::whole(name.into(), Value::Sum { value: Number::Int(7) });
        let unmeasured = Unmeasured::of(compiled, &lost(there), &lost(elsewhere));
        let mark = |named: Named| match named {
            Named { value: None, missing, .. } if !missing.is_empty() => '-',
            Named { value: Some(_), missing, at_least: true, .. } if !missing.is_empty() => '>',
            Named { value: Some(_), missing, .. } if !missing.is_empty() => '~',
            Named { value: Some(_), .. } => '=',
            Named { .. } => '?',
        };
        unmeasured.mark("abcd".chars().map(value).collect()).into_iter().map(mark).collect()
    }

    #[test]
    fn what_was_refused_is_not_measured() {
        let if_b = || Statement::If { condition: read(1), then: vec![add(2, 1)], otherwise: Vec::new() };
        let zero = |variable| Statement::Set { variable, value: Expression::Int(0) };
        let copy = || Statement::Set { variable: 3, value: read(1) };
        let temporary = || Statement::Let { temporary: 0, value: read(1) };
        let from_it = || Statement::Set { variable: 3, value: Expression::Temporary { temporary: 0, float: false } };
        let return_if_b = || Statement::If { condition: read(1), then: vec![Statement::Return], otherwise: Vec::new() };
        type Row = (&'static str, Vec<(usize, Vec<Statement>)>, &'static [usize], &'static [usize], &'static str);
        let rows: Vec<Row> = vec![
            ("nothing_lost", vec![(1, vec![add(0, 1)])], &[], &[], "===="),
            ("all_lost", vec![(1, vec![add(0, 1)]), (1, vec![add(1, 1)])], &[1], &[], "=-=="),
            ("one_place_of_two", vec![(2, vec![add(0, 1)])], &[0], &[], ">==="),
            ("both_places", vec![(2, vec![add(0, 1)])], &[0, 0], &[], "-==="),
            ("one_body_of_two", vec![(1, vec![add(0, 1)]), (1, vec![add(0, 2)])], &[1], &[], ">==="),
            ("it_may_sink", vec![(1, vec![add(0, 1)]), (1, vec![add(0, -2)])], &[1], &[], "~==="),
            ("some_of_a_library", vec![(1, vec![add(0, 1)])], &[], &[0], ">==="),
            ("what_tests_it", vec![(1, vec![add(1, 1)]), (1, vec![if_b()])], &[0], &[], "=--="),
            ("what_copies_it", vec![(1, vec![add(1, 1)]), (1, vec![copy()])], &[0], &[], "=-=-"),
            ("a_reset_measures_nothing", vec![(1, vec![add(0, 1)]), (1, vec![zero(0)])], &[0], &[], "-==="),
            ("a_lost_reset", vec![(1, vec![add(0, 1)]), (1, vec![zero(0)])], &[1], &[], "===="),
            ("beside_it", vec![(1, vec![add(1, 1)]), (1, vec![if_b(), add(3, 1)])], &[0], &[], "=--="),
            ("by_a_temporary", vec![(1, vec![add(1, 1)]), (1, vec![temporary(), from_it()])], &[0], &[], "=-=-"),
            ("behind_a_return", vec![(1, vec![add(1, 1)]), (1, vec![return_if_b(), add(3, 1)])], &[0], &[], "=-=-"),
            ("only_constants", vec![(1, vec![zero(0)])], &[0], &[], "-==="),
        ];
        for (name, bodies, there, elsewhere, want) in rows {
            assert_eq!(marks(&compiled(bodies), there, elsewhere), want, "{name}");
        }
        let sent = Statement::If { condition: read(0), then: vec![Statement::Stop], otherwise: Vec::new() };
        let told = Unmeasured::of(&compiled(vec![(1, vec![add(0, 1)]), (1, vec![sent])]), &lost(&[0]), &[]);
        assert!(told.warnings.len() == 1 && told.warnings[0].contains("read `a`"), "{:?}", told.warnings);
    }

    #[test]
    fn reasons_are_cut_between_characters() {
        let long = "ü".repeat(REASON_BYTES_MAX);
        assert!(short(&long).len() <= REASON_BYTES_MAX + 4 && short(&long).ends_with("ü ..."));
        assert_eq!(short("it never returns"), "it never returns");
    }
}
