//! One process made ready for a script: compiled against its facts, every place decided, nothing touched yet.
//!
//! Next: `run`, which puts it in.

use crate::debug::{DebugFiles, DebugSections};
use crate::error::Error;
use crate::facts::ProcessFacts;
use crate::late::{Awaited, Waiting, program_of};
use crate::place::FunctionPlace;
use crate::places::inner_request;
use crate::{guard, walk};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use trimtab_session::{
    FunctionBodies, ImageCache, InnerRequest, Modules, Obstacle, Prepared, Refused, ScriptRequest, Setup,
};
use trimtab_snippet::facts::{FunctionId, SiteId};
use trimtab_snippet::ir::{Body, Unit, When};
use trimtab_snippet::{BodyPlace, Compiled, Origin, Permissions, compile};
use trimtab_types::Pid;

/// The user's permissions and wishes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptOptions {
    /// The script.
    pub text: String,
    /// The permissions of a script on the program.
    pub permissions: Permissions,
    /// The owner of the processes says that their filters of system calls let ours pass, where they can't be read.
    pub seccomp_ok: bool,
}

/// A process ready for the script.
#[derive(Debug)]
pub(crate) struct Source {
    pub compiled: Compiled,
    pub prepared: Prepared,
    /// Functions of the user's points, without those that guard memory.
    pub functions: usize,
    /// Functions of the user's points that can't be probed.
    pub refused: Vec<Refused>,
    /// True if everything that takes memory away is seen.
    pub guarded: bool,
    /// If bodies look at the program's memory by the tables: where threads say that they take memory away.
    pub inside_at: Option<u32>,
    /// True if something may come from the bodies before the end: messages, or that it is over.
    pub speaks: bool,
    /// Libraries with places that are not loaded yet.
    pub waiting: Vec<Waiting>,
    /// Where the program's own file lies.
    pub program: Vec<Range<u64>>,
    /// Why its threads may be interrupted at any instruction, and their stacks looked at.
    pub interrupted: Option<&'static str>,
    /// Programs and libraries that could not be read, each with the reason.
    pub unread: Vec<(String, String)>,
}

pub(crate) const SETUP: Setup = Setup { functions: 1, ranks: 1, details: 0 };
/// Refusals named in an error.
const REASONS_MAX: usize = 3;

impl Source {
    /// Compiles the script for one process and decides about its places.
    pub(crate) fn new(pid: Pid, options: &ScriptOptions, cache: &ImageCache) -> Result<Self, Error> {
        Source::of(&Modules::read(pid, cache, &|_| true).map_err(Error::of(pid))?, options)
    }

    /// The same for modules that are read already, of a process or of a file.
    pub(crate) fn of(modules: &Modules, options: &ScriptOptions) -> Result<Self, Error> {
        let pid = modules.pid;
        let files = DebugFiles::of(modules);
        let sections = DebugSections::of(&files);
        let facts = ProcessFacts::new(modules, &sections);
        let refused = |problems| match modules.why_names_mean_nothing() {
            Some(reason) => Error::ProgramUnread { pid, reason },
            None => Error::Script(problems),
        };
        let mut compiled = compile(&options.text, &facts, options.permissions).map_err(refused)?;
        check_calls(&compiled.unit)?;
        let Requests { functions: requests, inner, awaited } = requests(&compiled, &facts)?;
        let waiting = Waiting::all(&awaited, &compiled)?;
        let functions = requests.len() + inner.len();
        let guard = guard::add(&mut compiled.unit, modules);
        let all: Vec<ScriptRequest> = requests.iter().chain(&guard.requests).cloned().collect();
        let prepared = Prepared::for_script(modules, &all, &inner, &mut compiled.unit).map_err(Error::of(pid))?;
        let is_users = |name: &str| {
            requests.iter().any(|request| request.name == name) || inner.iter().any(|request| request.name == name)
        };
        let mut refused: Vec<Refused> = prepared.refused.iter().filter(|one| is_users(&one.name)).cloned().collect();
        let is_whole = |name: &str| !prepared.refused.iter().chain(&prepared.endless).any(|one| one.name == name);
        let guarded = guard.holds(is_whole);
        let has_clock = compiled.unit.bodies.iter().any(guard::runs_outside);
        if refused.len() == functions && !has_clock && waiting.is_empty() {
            let reasons = refused.iter().take(REASONS_MAX).map(|one| format!("{}: {}", one.name, one.reason));
            return Err(Error::NoPlace { pid, reasons: reasons.collect::<Vec<_>>().join("; ") });
        }
        let exits = prepared.endless.iter().filter(|one| is_users(&one.name));
        refused.extend(exits.map(|one| Refused { name: exits_of(&one.name), reason: one.reason.clone() }));
        refused.extend(partly_seen(&prepared, &requests));
        let (inside_at, speaks) = (guard.inside_at, walk::speaks(&compiled.unit));
        let (program, interrupted) = (program_of(modules), modules.interrupted_anywhere());
        let unread = modules.unreadable.clone();
        Ok(Source {
            compiled,
            prepared,
            functions,
            refused,
            guarded,
            inside_at,
            speaks,
            waiting,
            program,
            interrupted,
            unread,
        })
    }
}

/// Functions of some of whose calls the end is not seen although bodies at the exits ask for it: they don't run for these.
fn partly_seen(prepared: &Prepared, requests: &[ScriptRequest]) -> Vec<Refused> {
    let mut partly: Vec<Refused> = Vec::new();
    let asks = |name: &str| requests.iter().any(|request| request.name == name && !request.asking.is_empty());
    for tail in prepared.tails.iter().filter(|tail| asks(&tail.function)) {
        let Some(why) = &tail.unseen else { continue };
        let name = exits_of(&tail.function);
        let reason = Obstacle::Followed { to: tail.to.clone(), why: Box::new(why.clone()) };
        if !partly.iter().any(|one| one.name == name) {
            partly.push(Refused { name, reason });
        }
    }
    partly
}

/// How refused exits of a function are called whose entry is probed.
pub(crate) fn exits_of(function: &str) -> String {
    format!("{EXITS}{function}")
}

/// How their names begin.
pub(crate) const EXITS: &str = "exit ";

/// Bodies that the clock calls run in trimtab, outside of the program, where nothing can be called. A body that runs
/// once is worth looking for a moment at which a thread can be interrupted for it.
fn check_calls(unit: &Unit) -> Result<(), Error> {
    let calls = |body: &Body| matches!(body.when, When::Every { .. }) && walk::calls(&body.statements);
    if unit.bodies.iter().any(calls) { Err(Error::CallsOutside { point: "every" }) } else { Ok(()) }
}

/// All places, with their bodies in the order of the script.
struct Requests {
    functions: Vec<ScriptRequest>,
    inner: Vec<InnerRequest>,
    /// Places in libraries that are not loaded yet.
    awaited: Vec<Awaited>,
}

fn requests(compiled: &Compiled, facts: &ProcessFacts<'_>) -> Result<Requests, Error> {
    let mut of_function: BTreeMap<u64, ScriptRequest> = BTreeMap::new();
    let mut awaited: BTreeMap<FunctionId, Awaited> = BTreeMap::new();
    let mut awaited_points: BTreeMap<SiteId, Awaited> = BTreeMap::new();
    let mut of_site: BTreeMap<SiteId, Vec<usize>> = BTreeMap::new();
    for (number, places) in compiled.places.iter().enumerate() {
        for place in places {
            let (function, at_exit) = match *place {
                BodyPlace::Entry(function) => (function, false),
                BodyPlace::Exit(function) => (function, true),
                BodyPlace::Clock | BodyPlace::Once => continue,
                BodyPlace::Site(site) => {
                    match facts.awaited_point(site) {
                        Some(point) => awaited_points.entry(site).or_insert_with(|| Awaited::inside(point)).add(number),
                        None => of_site.entry(site).or_default().push(number),
                    }
                    continue;
                }
            };
            let asks_for_ends = at_exit && walk::asks_for_ends(&compiled.unit.bodies[number].statements);
            let bodies = if let Some(pattern) = facts.awaited_pattern(function) {
                let one = awaited.entry(function).or_insert_with(|| Awaited::functions(pattern));
                one.asks_for_ends |= asks_for_ends;
                &mut one.bodies
            } else {
                let found = facts.function(function);
                let one = of_function.entry(found.address.0).or_insert_with(|| fresh(found));
                let serves = !at_exit && matches!(compiled.origins.get(number), Some(Origin::OpenCalls | Origin::Left));
                one.serve_exits.extend(serves.then_some(number));
                one.asking.extend(asks_for_ends.then_some(number));
                &mut one.bodies
            };
            if at_exit { &mut bodies.exit } else { &mut bodies.entry }.push(number);
        }
    }
    let inner = of_site.into_iter().map(|(site, bodies)| inner_request(facts, site, bodies)).collect();
    let awaited = awaited.into_values().chain(awaited_points.into_values()).collect();
    let functions = of_function.into_values().collect();
    Ok(Requests { functions, inner, awaited })
}

fn fresh(found: FunctionPlace) -> ScriptRequest {
    let (name, address, bodies) = (found.name, found.address, FunctionBodies::default());
    ScriptRequest { name, address, bodies, serve_exits: Vec::new(), asking: Vec::new(), needs_exits: false }
}
