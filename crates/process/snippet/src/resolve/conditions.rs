//! Bodies that nobody wrote: those that start and stop recording, and those that remember when calls were entered.
//!
//! Start conditions are looked at before the bodies at a place, stop conditions after them. An entry is remembered last
//! at entries and forgotten last at exits, so that the other bodies' own time is not in what they measure.
//!
//! Next: `body`, which makes bodies that somebody wrote.

use super::body::Lowering;
use super::context::{Made, OpenCalls, OpenKey, Resolver};
use super::operand::{binary, unary};
use super::parts::{BodyPlace, Origin};
use super::places::{self, Here};
use super::variables::Role;
use crate::error::Span;
use crate::facts::FunctionId;
use crate::ir::{Area, Binary, Expression, OPEN_CALLS_MAX, Statement, Unary, When};
use crate::syntax::{Condition, Expr, Point};
use std::collections::BTreeSet;

impl Resolver<'_> {
    /// The variable that says whether a start condition held; `None` if there is none to hold.
    pub(super) fn recording(&mut self) -> Option<usize> {
        let starts = self.script.conditions.iter().any(|condition| {
            matches!(condition, Condition::After { start: true, .. } | Condition::When { start: true, .. })
        });
        starts.then(|| self.variables.imply("(recording)", Role::Last, Area::Process))
    }

    /// Bodies that look at the start conditions.
    pub(super) fn start_bodies(&mut self, users: &[Made]) -> Vec<Made> {
        let Some(recording) = self.recording() else { return Vec::new() };
        let begin = Statement::Set { variable: recording, value: Expression::Int(1) };
        let mut bodies = self.when_bodies(users, true, begin.clone());
        bodies.extend(self.after_bodies(true, begin));
        for body in &mut bodies {
            let condition = unary(Unary::IsZero, Expression::Variable { variable: recording });
            let then = std::mem::take(&mut body.statements);
            body.statements = vec![Statement::If { condition, then, otherwise: Vec::new() }];
        }
        bodies
    }

    /// Bodies that look at the stop conditions.
    pub(super) fn stop_bodies(&mut self, users: &[Made]) -> Vec<Made> {
        let mut bodies = self.when_bodies(users, false, Statement::Stop);
        bodies.extend(self.after_bodies(false, Statement::Stop));
        if let Some(variable) = self.recording() {
            for body in &mut bodies {
                let then = std::mem::take(&mut body.statements);
                let condition = Expression::Variable { variable };
                body.statements = vec![Statement::If { condition, then, otherwise: Vec::new() }];
            }
        }
        bodies
    }

    /// `start when` and `stop when`: at every place of every probe.
    fn when_bodies(&mut self, users: &[Made], start: bool, action: Statement) -> Vec<Made> {
        let script = self.script;
        let conditions: Vec<&Expr> = script
            .conditions
            .iter()
            .filter_map(|condition| match condition {
                Condition::When { start: starts, condition } if *starts == start => Some(condition),
                _ => None,
            })
            .collect();
        if conditions.is_empty() {
            return Vec::new();
        }
        let mut statements = Vec::new();
        for condition in &conditions {
            match Lowering::new(self, Here::nowhere(), None).condition(condition) {
                Ok(condition) => {
                    statements.push(Statement::If { condition, then: vec![action.clone()], otherwise: Vec::new() });
                }
                Err(problem) => self.problems.push(problem),
            }
        }
        let span = conditions[0].span;
        gather_places(users)
            .into_iter()
            .map(|(when, places)| made(start, (when, places), statements.clone(), span))
            .collect()
    }

    /// `start after N hits` and `stop after N hits`.
    fn after_bodies(&mut self, start: bool, action: Statement) -> Vec<Made> {
        let script = self.script;
        let mut bodies = Vec::new();
        for (index, condition) in script.conditions.iter().enumerate() {
            let Condition::After { start: starts, hits, points, span } = condition else { continue };
            if *starts != start {
                continue;
            }
            let variable = self.variables.imply(&format!("(hits of condition {index})"), Role::Sum, Area::Process);
            let wanted = i64::try_from(*hits).unwrap_or(i64::MAX);
            let wanted = if start { wanted.saturating_add(1) } else { wanted };
            let reached = binary(Binary::LessEqual, Expression::Int(wanted), Expression::Variable { variable });
            let statements = vec![
                Statement::Add { variable, value: Expression::Int(1) },
                Statement::If { condition: reached, then: vec![action.clone()], otherwise: Vec::new() },
            ];
            for (when, places) in self.condition_places(points) {
                bodies.push(made(start, (when, places), statements.clone(), *span));
            }
        }
        bodies
    }

    fn condition_places(&mut self, points: &[Point]) -> Vec<(When, Vec<BodyPlace>)> {
        let mut spots = Vec::new();
        for point in points {
            match places::spots(point, self.facts) {
                Ok(found) => spots.extend(found),
                Err(problem) => self.problems.push(problem),
            }
        }
        places::without_repetition(&mut spots);
        let mut by_when: Vec<(When, Vec<BodyPlace>)> = Vec::new();
        for spot in spots {
            match by_when.iter_mut().find(|(when, _)| *when == spot.when) {
                Some((_, places)) => places.push(spot.place),
                None => by_when.push((spot.when, vec![spot.place])),
            }
        }
        by_when
    }

    /// Bodies that remember entries and forget them, for the exits that ask for the elapsed time.
    pub(super) fn open_call_bodies(&self) -> Vec<Made> {
        let mut bodies = Vec::new();
        for (key, table) in &self.open_calls {
            let variable = table.variable;
            let statements = [vec![Statement::OpenCall { variable }], vec![Statement::CloseCall { variable }]];
            bodies.extend(self.at_both_ends(key, table, Origin::OpenCalls, statements));
        }
        bodies
    }

    /// Bodies that run what was asked for calls that were left without an exit. They are noticed at the next entry or
    /// exit, before anything else happens there.
    pub(super) fn left_bodies(&self) -> Vec<Made> {
        let mut bodies = Vec::new();
        for (key, table) in self.open_calls.iter().filter(|(_, table)| !table.left.is_empty()) {
            let variable = table.variable;
            let of_each = table.left.iter().flat_map(|(_, statements)| statements.iter().cloned());
            let body: Vec<Statement> = std::iter::once(Statement::DropCall { variable }).chain(of_each).collect();
            let statements = [false, true].map(|at_exit| {
                let condition = Expression::CallWasLeft { variable, at_exit };
                vec![Statement::While { condition, bound: OPEN_CALLS_MAX, body: body.clone() }]
            });
            bodies.extend(self.at_both_ends(key, table, Origin::Left, statements));
        }
        bodies
    }

    /// One body for the entries and one for the exits of the functions of a table.
    fn at_both_ends(
        &self,
        key: &OpenKey,
        table: &OpenCalls,
        origin: Origin,
        [entry, exit]: [Vec<Statement>; 2],
    ) -> [Made; 2] {
        let functions: BTreeSet<FunctionId> = match key {
            OpenKey::Function(function) => BTreeSet::from([*function]),
            OpenKey::Probe(_) => table.functions.iter().copied().collect(),
        };
        let made = |when, statements, place: fn(FunctionId) -> BodyPlace| {
            let places = functions.iter().map(|function| place(*function)).collect();
            let span = self.script.probes[table.probe].span;
            Made { origin, probe: table.probe, when, statements, places, span }
        };
        [made(When::Entry, entry, BodyPlace::Entry), made(When::Exit, exit, BodyPlace::Exit)]
    }
}

fn made(start: bool, (when, places): (When, Vec<BodyPlace>), statements: Vec<Statement>, span: Span) -> Made {
    let origin = if start { Origin::Start } else { Origin::Stop };
    Made { origin, probe: 0, when, statements, places, span }
}

/// Every place of every body, each once, by what calls it.
fn gather_places(users: &[Made]) -> Vec<(When, Vec<BodyPlace>)> {
    let mut by_when: Vec<(When, BTreeSet<BodyPlace>)> = Vec::new();
    for user in users {
        match by_when.iter_mut().find(|(when, _)| *when == user.when) {
            Some((_, places)) => places.extend(&user.places),
            None => by_when.push((user.when, user.places.iter().copied().collect())),
        }
    }
    by_when.into_iter().map(|(when, places)| (when, places.into_iter().collect())).collect()
}
