//! Scripts: the bodies that run at a function's entry and exits become code in its arena.
//!
//! A body is compiled for the place where its island lies. How long the code gets is found by compiling it once for a
//! place nearby; what the encoder makes of distances may differ by a few bytes, so some room is left.
//!
//! Next: `trimtab-snippet`'s back end, which compiles; `super::build`, which places.

use crate::{ArenaPlace, Error, ISLAND_ALIGNMENT, PlannedFunction};
use trimtab_snippet::emit::{Areas, Environment, Routines, Runs, SharedRoutines, compile, shared_routines};
use trimtab_snippet::ir::{Body, Unit, When};
use trimtab_x86::{Bodies, ISLAND_OVERHEAD_MAX, Passing, PlacedCode, Refusal};

/// Bytes by which the length of a body's code may depend on its place.
const PLACE_SLACK: usize = 64;

/// A script with the memory it runs against.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Its bodies and variables.
    pub unit: Unit,
    /// Where its areas are.
    pub areas: Areas,
    /// Bodies that run also while the script does not record: those of start conditions, by number.
    pub always: Vec<usize>,
}

/// Bodies of one function, by their number in the unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionBodies {
    /// Run at its entry, in this order.
    pub entry: Vec<usize>,
    /// Run at each exit, in this order.
    pub exit: Vec<usize>,
    /// Run at an instruction inside it, in this order.
    pub point: Vec<usize>,
}

impl Script {
    /// The routines that all bodies of an arena share, for its beginning.
    pub(crate) fn shared(&self, place: ArenaPlace) -> Result<SharedRoutines, Error> {
        shared_routines(place.code, &self.areas).map_err(|error| body_error("the shared routines", &error))
    }

    /// Bytes of code `functions` of arena `arena` need at most, if it lies near `near`.
    ///
    /// # Errors
    /// [`Error::Body`] if a body can't be compiled at all.
    pub fn code_needed(&self, functions: &[PlannedFunction], arena: usize, near: u64) -> Result<u64, Error> {
        let place = ArenaPlace { gate: near, code: near + 4096, capacity: 0 };
        let shared = self.shared(place)?;
        let mut bytes = shared.bytes.len() + ISLAND_ALIGNMENT;
        for function in functions.iter().filter(|function| function.arena == arena) {
            let Some(bodies) = &function.bodies else { continue };
            let arena = ArenaScript { script: self, routines: &shared.addresses, gate: place.gate };
            let at = |passing| FunctionCode { arena: &arena, bodies, point: near }.length(passing, place.code);
            let lengths = [Passing::Entry, Passing::Exit, Passing::Point].into_iter().map(at);
            let code = lengths.sum::<Result<usize, Refusal>>().map_err(|error| body_error(&function.name, &error))?;
            let moved = |site: &crate::PlannedSite| (site.displaced.len() + site.carrier.len()) * 8;
            let islands = function.sites.iter().map(|site| moved(site) + code + ISLAND_OVERHEAD_MAX);
            bytes += islands.sum::<usize>() + function.sites.len() * 2 * ISLAND_ALIGNMENT;
        }
        Ok(bytes as u64)
    }
}

fn body_error(function: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Body { function: function.to_owned(), reason: error.to_string() }
}

/// A script in one arena.
pub(crate) struct ArenaScript<'a> {
    pub script: &'a Script,
    pub routines: &'a Routines,
    pub gate: u64,
}

/// The bodies of one function, for the islands of one of its places.
pub(crate) struct FunctionCode<'a> {
    pub arena: &'a ArenaScript<'a>,
    pub bodies: &'a FunctionBodies,
    /// Address of the probed instruction.
    pub point: u64,
}

impl FunctionCode<'_> {
    fn numbers(&self, passing: Passing) -> &[usize] {
        match passing {
            Passing::Entry => &self.bodies.entry,
            Passing::Exit => &self.bodies.exit,
            Passing::Point => &self.bodies.point,
        }
    }

    fn length(&self, passing: Passing, at: u64) -> Result<usize, Refusal> {
        let lengths = (0..self.count(passing)).map(|number| Ok(self.place(passing, number, at)?.bytes.len()));
        Ok(lengths.sum::<Result<usize, Refusal>>()? + self.count(passing) * PLACE_SLACK)
    }

    fn environment(&self, number: usize, when: When, at: u64) -> Environment<'_> {
        let arena = self.arena;
        let areas = &arena.script.areas;
        let always = arena.script.always.contains(&number);
        Environment {
            runs: if always { Runs::UntilStopped } else { Runs::WhileRecording },
            ..Environment::cautious(when, at, self.point, arena.gate, areas, arena.routines)
        }
    }
}

impl Bodies for FunctionCode<'_> {
    fn count(&self, passing: Passing) -> usize {
        self.numbers(passing).len()
    }

    fn place(&self, passing: Passing, number: usize, at: u64) -> Result<PlacedCode, Refusal> {
        let number = self.numbers(passing)[number];
        let unit = &self.arena.script.unit;
        let body: &Body = &unit.bodies[number];
        let environment = self.environment(number, body.when, at);
        let code = compile(unit, body, &environment).map_err(|error| Refusal::Body { what: error.to_string() })?;
        Ok(PlacedCode { bytes: code.bytes, entry: code.entry })
    }
}
