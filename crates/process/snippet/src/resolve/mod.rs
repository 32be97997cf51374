//! A syntax tree and facts about the program to typed bodies: every name is resolved, every conversion written out,
//! every loop bounded; what cannot be done is refused with its place.
//!
//! A variable's kind, float or integer, follows from what is assigned to it, which may follow from other variables. So
//! all bodies are made, and made again while that still turns up another float; each round finds at least one.
//!
//! Next: `places` for where bodies go, `variables` for what they keep, `body` for what they do, `conditions` for bodies
//! that nobody wrote.

mod assign;
mod body;
mod conditions;
mod context;
mod expressions;
mod loops;
mod names;
mod operand;
mod parts;
mod places;
mod reading;
mod sizes;
mod variables;

use crate::error::{Code, Problem, Refused, Span};
use crate::facts::Facts;
use crate::ir::{self, Unit};
use crate::syntax::{Condition, Expr, Script};
use crate::{cost, parse};
use body::Lowering;
pub use body::{TEMPORARIES_MAX, TEXT_BYTES_MAX};
pub use context::Permissions;
use context::{Made, OpenCalls, OpenKey, Resolver};
pub use parts::{AREA_BYTES_MAX, BodyPlace, Origin};
use places::{Here, Spot};
use std::collections::BTreeMap;
pub use variables::{VARIABLES_MAX, words};

/// Operations of one run of a body at most, as [`ir::Body::cost_max`] counts them; some ten microseconds.
pub const COST_MAX: u64 = 10_000;

/// Spots of a probe at which types are found out first: mostly they are the same at the others, of which there may be
/// ten thousand.
const FIRST_SPOTS_MAX: usize = 16;
/// A pattern that means more functions than this shares one table of open calls among them.
const OWN_TABLES_MAX: usize = 16;

/// A script, ready for the back end, with where its bodies go.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The bodies and variables.
    pub unit: Unit,
    /// Where each body of the unit goes. At one place, bodies run in the order of the unit.
    pub places: Vec<Vec<BodyPlace>>,
    /// Why each body of the unit is there.
    pub origins: Vec<Origin>,
    /// Where in the script each body of the unit stands.
    pub spans: Vec<Span>,
    /// How long to record, from the start of recording; `None` means until told otherwise.
    pub duration_us: Option<u64>,
    /// The variable that is nonzero once a `start` condition held; `None` if recording starts at once.
    pub recording: Option<usize>,
}

/// From text to bodies.
///
/// # Errors
/// Every problem found, in the order of the text.
pub fn compile(text: &str, facts: &dyn Facts, permissions: Permissions) -> Result<Compiled, Refused> {
    let script = parse::parse(text)?;
    resolve(&script, facts, permissions).map_err(|problems| Refused::new(text, problems))
}

/// From a syntax tree to bodies.
///
/// # Errors
/// Every problem found, with lines and columns yet to be set by [`Refused::new`].
pub fn resolve(script: &Script, facts: &dyn Facts, permissions: Permissions) -> Result<Compiled, Vec<Problem>> {
    let mut resolver = Resolver::new(script, facts, permissions);
    let spots = resolver.spots();
    let mut problems = std::mem::take(&mut resolver.problems);
    resolver.settled_round(&spots, FIRST_SPOTS_MAX);
    let bodies = resolver.settled_round(&spots, usize::MAX);
    problems.append(&mut resolver.problems);
    resolver.problems = problems;
    resolver.finish(bodies)
}

impl<'a> Resolver<'a> {
    /// Every probe's spots; a point that means nothing is a problem.
    fn spots(&mut self) -> Vec<Vec<Spot>> {
        let mut all = Vec::new();
        for probe in &self.script.probes {
            let mut spots = Vec::new();
            for point in &probe.points {
                match places::spots(point, self.facts) {
                    Ok(found) => spots.extend(found),
                    Err(problem) => self.problems.push(problem),
                }
            }
            places::without_repetition(&mut spots);
            all.push(spots);
        }
        all
    }

    fn begin_round(&mut self) {
        self.variables.begin_round();
        self.texts.clear();
        self.open_calls.clear();
        self.problems.clear();
    }

    /// All bodies at no more than so many spots of each probe, once no round finds another float.
    fn settled_round(&mut self, spots: &[Vec<Spot>], spots_max: usize) -> Vec<Made> {
        loop {
            self.begin_round();
            let bodies = self.round(spots, spots_max);
            if !self.variables.grew {
                return bodies;
            }
        }
    }

    fn round(&mut self, spots: &[Vec<Spot>], spots_max: usize) -> Vec<Made> {
        let mut users = Vec::new();
        for (index, spots) in spots.iter().enumerate() {
            self.probe_bodies(index, spots, spots_max, &mut users);
        }
        let mut bodies = self.start_bodies(&users);
        bodies.extend(self.left_bodies());
        let stops = self.stop_bodies(&users);
        bodies.append(&mut users);
        bodies.extend(self.open_call_bodies());
        bodies.extend(stops);
        bodies
    }

    /// One body per kind of spot: those for which the facts said the same share one. After a problem the other spots
    /// are left alone: it would mostly be the same one, ten thousand times.
    fn probe_bodies(&mut self, index: usize, spots: &[Spot], spots_max: usize, bodies: &mut Vec<Made>) {
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let mut shared: BTreeMap<String, usize> = BTreeMap::new();
        let table_of_its_own = spots.len() <= OWN_TABLES_MAX;
        let problem_count = self.problems.len();
        for spot in spots.iter().take(spots_max) {
            if self.problems.len() > problem_count {
                break;
            }
            let moment = format!("{:?} {:?}", spot.here.moment, spot.when);
            if let Some(&body) = shared.get(&moment) {
                bodies[body].places.push(spot.place);
                continue;
            }
            let (statements, asked) = self.one_body(index, spot, table_of_its_own);
            let text = if asked { format!("{moment} {statements:?}") } else { moment.clone() };
            let body = *known.entry(text).or_insert_with(|| {
                let span = self.script.probes[index].span;
                let origin = Origin::Probe;
                bodies.push(Made { origin, probe: index, when: spot.when, statements, places: Vec::new(), span });
                bodies.len() - 1
            });
            bodies[body].places.push(spot.place);
            if !asked {
                shared.insert(moment, body);
            }
        }
        if let Some(table) = self.open_calls.get_mut(&OpenKey::Probe(index)) {
            table.functions = spots.iter().filter_map(|spot| spot.here.function).collect();
        }
    }

    /// The body of one probe at one spot, and whether it depends on what the facts say about the spot.
    fn one_body(&mut self, index: usize, spot: &Spot, own_table: bool) -> (Vec<ir::Statement>, bool) {
        let script = self.script;
        let probe = &script.probes[index];
        let open_key = match spot.here.function {
            Some(function) if own_table => OpenKey::Function(function),
            _ => OpenKey::Probe(index),
        };
        let guards: Vec<&Expr> = script.conditions.iter().filter_map(while_condition).chain(&probe.when).collect();
        let recording = self.recording();
        let problem_count = self.problems.len();
        let mut lowering = Lowering::new(self, spot.here.clone(), Some((open_key, index)));
        let statements = lowering.whole(&guards, &probe.body, recording);
        let (asked, asks_left) = (lowering.asked, lowering.asks_left);
        if asks_left && self.problems.len() == problem_count {
            self.body_of_left(index, spot, (open_key, &guards));
        }
        (statements, asked)
    }

    /// The same body for calls that were left without an exit; once per probe and table.
    fn body_of_left(&mut self, index: usize, spot: &Spot, (key, guards): (OpenKey, &[&Expr])) {
        let is_there = |table: &OpenCalls| table.left.iter().any(|(known, _)| *known == index);
        if self.open_calls.get(&key).is_some_and(is_there) {
            return;
        }
        let (script, recording) = (self.script, self.recording());
        let here = Here { moment: places::Moment::Left, ..spot.here.clone() };
        let statements =
            Lowering::new(self, here, Some((key, index))).whole(guards, &script.probes[index].body, recording);
        if let Some(table) = self.open_calls.get_mut(&key) {
            table.left.push((index, statements));
        }
    }

    fn finish(mut self, bodies: Vec<Made>) -> Result<Compiled, Vec<Problem>> {
        let mut unit =
            Unit { bodies: Vec::new(), variables: Vec::new(), texts: self.texts, thread_bytes: 0, process_bytes: 0 };
        let (mut places, mut origins, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        for made in bodies {
            let cost_max = cost::of(&made.statements);
            if cost_max > COST_MAX {
                self.problems.push(too_costly(cost_max, made.span));
            }
            unit.bodies.push(ir::Body { probe: made.probe, when: made.when, statements: made.statements, cost_max });
            places.push(made.places);
            origins.push(made.origin);
            spans.push(made.span);
        }
        match self.variables.lay_out() {
            Ok(laid_out) => (unit.variables, unit.thread_bytes, unit.process_bytes) = laid_out,
            Err(problem) => self.problems.push(problem),
        }
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        let durations = self.script.conditions.iter().filter_map(|condition| match condition {
            Condition::For { duration_us } => Some(*duration_us),
            _ => None,
        });
        let recording = self.variables.implied("(recording)");
        Ok(Compiled { unit, places, origins, spans, duration_us: durations.min(), recording })
    }
}

fn while_condition(condition: &Condition) -> Option<&Expr> {
    match condition {
        Condition::While(condition) => Some(condition),
        _ => None,
    }
}

fn too_costly(cost: u64, span: Span) -> Problem {
    let message = format!("one run of this body may take {cost} operations, at most {COST_MAX} are allowed");
    Problem::new(Code::Unbounded, span, message).help("lower the bounds of its loops, or look only at every n-th call")
}
