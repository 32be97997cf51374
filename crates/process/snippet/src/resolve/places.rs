//! Points to places, by asking the facts.
//!
//! Next: `names`, which says what can be seen at each.

use super::parts::{BodyPlace, Lowered};
use crate::error::{Code, Problem};
use crate::facts::{Facts, FunctionId, SiteId};
use crate::ir::When;
use crate::syntax::{FunctionPattern, Point, PointKind};
use std::collections::BTreeSet;

/// One place of a probe, with what is known there.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub place: BodyPlace,
    pub when: When,
    pub here: Here,
}

/// The things that a body can see.
#[derive(Clone, Debug)]
pub(super) struct Here {
    pub moment: Moment,
    pub function: Option<FunctionId>,
    pub site: Option<SiteId>,
    pub callee: Option<FunctionId>,
}

/// The contents of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Arguments of the function.
    Entry,
    /// The function's result.
    Exit,
    /// Arguments of the function called.
    Before,
    /// The result of the function that was called.
    After,
    /// A call of the function was left without an exit, some time ago.
    Left,
    /// Anything.
    Inside,
    /// Nothing of the program.
    Nowhere,
}

/// The spots that a point means.
pub(super) fn spots(point: &Point, facts: &dyn Facts) -> Lowered<Vec<Spot>> {
    let spot = |place, when, here| Ok(vec![Spot { place, when, here }]);
    match &point.kind {
        PointKind::Entry(pattern) => functions(point, pattern, facts, true),
        PointKind::Exit(pattern) => functions(point, pattern, facts, false),
        PointKind::Every { period_us } => {
            spot(BodyPlace::Clock, When::Every { period_us: *period_us }, Here::nowhere())
        }
        PointKind::Once => spot(BodyPlace::Once, When::Once, Here::nowhere()),
        kind => {
            let moment = match kind {
                PointKind::Call(call) if call.after => Moment::After,
                PointKind::Call(_) => Moment::Before,
                _ => Moment::Inside,
            };
            let sites = facts.sites(kind).map_err(|reason| no_site(point, reason.to_string(), facts))?;
            let sites = sites.into_iter().map(|site| Spot {
                place: BodyPlace::Site(site.id),
                when: When::At,
                here: Here { moment, function: site.function, site: Some(site.id), callee: site.callee },
            });
            Ok(sites.collect())
        }
    }
}

/// Keeps the first of several spots at one place.
pub(super) fn without_repetition(spots: &mut Vec<Spot>) {
    let mut seen = BTreeSet::new();
    spots.retain(|spot| {
        let period = if let When::Every { period_us } = spot.when { period_us } else { 0 };
        seen.insert((spot.place, period))
    });
}

fn functions(point: &Point, pattern: &FunctionPattern, facts: &dyn Facts, entry: bool) -> Lowered<Vec<Spot>> {
    let mut found = facts.functions(pattern);
    if found.is_empty() {
        found.extend(facts.awaited(pattern));
    }
    if found.is_empty() {
        return Err(no_function(point, pattern, facts));
    }
    let spots = found.into_iter().map(|function| {
        let (place, when, moment) = match entry {
            true => (BodyPlace::Entry(function), When::Entry, Moment::Entry),
            false => (BodyPlace::Exit(function), When::Exit, Moment::Exit),
        };
        Spot { place, when, here: Here { moment, function: Some(function), site: None, callee: None } }
    });
    Ok(spots.collect())
}

fn no_function(point: &Point, pattern: &FunctionPattern, facts: &dyn Facts) -> Problem {
    let place = pattern.library.as_ref().map_or(String::new(), |library| format!(" in {library}"));
    let message = format!("no function matches `{}`{place}", pattern.name);
    let problem = Problem::new(Code::NoSuchPoint, point.span, message);
    if let Some(reason) = facts.why_no_function(&pattern.name) {
        return problem.help(reason);
    }
    let problem = problem.near(&pattern.name, facts.function_names(&pattern.name));
    if problem.near.is_empty() { problem.help("`trimtab points '*'` lists what can be probed") } else { problem }
}

fn no_site(point: &Point, reason: String, facts: &dyn Facts) -> Problem {
    let problem = Problem::new(Code::NoSuchPoint, point.span, reason);
    let function = match &point.kind {
        PointKind::Call(call) => Some(&call.caller),
        PointKind::Loop(point) => Some(&point.function),
        PointKind::Block { function, .. } | PointKind::Offset { function, .. } => Some(function),
        _ => None,
    };
    match function.filter(|function| facts.functions(function).is_empty()) {
        Some(function) => problem.near(&function.name, facts.function_names(&function.name)),
        None => problem,
    }
}

impl Here {
    /// A body that belongs to no place of its own.
    pub fn nowhere() -> Here {
        Here { moment: Moment::Nowhere, function: None, site: None, callee: None }
    }
}
