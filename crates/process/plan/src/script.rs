//! Scripts: the bodies that run at a function's entry, at its exits or at a point in it become code in its arena.
//!
//! The bodies of one place are compiled together, for the address where their island lies. How long the code gets is
//! found by compiling it once for a place nearby; what the encoder makes of distances may differ by a few bytes, so some
//! room is left.
//!
//! Next: `trimtab-snippet`'s back end, which compiles; `super::build_script`, which places.

use crate::{ArenaPlace, Error, ISLAND_ALIGNMENT, PlannedFunction, PlannedSite, Unread};
use trimtab_snippet::emit::{
    Areas, Environment, RegisterSet, Routines, SharedRoutines, compile_together, shared_routines,
};
use trimtab_snippet::ir::{Body, Unit};
use trimtab_x86::{
    ISLAND_OVERHEAD_MAX, ProbeBytes, ProbeIsland, ProbePlace, Refusal, SiteKind, WriteProbe, build_probe_island,
};

/// Bytes by which the length of a place's code may depend on where it lies.
const PLACE_SLACK: usize = 64;

/// A script with the memory it runs against.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Its bodies and variables.
    pub unit: Unit,
    /// Where its areas are.
    pub areas: Areas,
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
        let code = ArenaScript { script: self, routines: &shared.addresses, gate: place.gate };
        let mut bytes = shared.bytes.len() + ISLAND_ALIGNMENT;
        for function in functions.iter().filter(|function| function.arena == arena) {
            let Some(bodies) = &function.bodies else { continue };
            let lists = [&bodies.entry, &bodies.exit, &bodies.point];
            let lengths = lists.into_iter().map(|list| code.length(list, place.code));
            let length = lengths.sum::<Result<usize, Refusal>>().map_err(|error| body_error(&function.name, &error))?;
            let moved = |site: &PlannedSite| (site.displaced.len() + site.carrier.len()) * 8;
            let islands = function.sites.iter().map(|site| moved(site) + length + ISLAND_OVERHEAD_MAX);
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

impl ArenaScript<'_> {
    /// The island of one place.
    pub(crate) fn island(
        &self,
        planned: &PlannedSite,
        bodies: &FunctionBodies,
        at: u64,
    ) -> Result<ProbeIsland, Refusal> {
        let site = &planned.site;
        let (enter, point) = match site.kind {
            SiteKind::At(address) => (&bodies.point, address),
            _ => (&bodies.entry, site.at),
        };
        let mut enter = self.writers(enter, point, planned.unread);
        let mut leave = self.writers(&bodies.exit, point, planned.unread);
        build_probe_island(site, &planned.displaced, at, &mut enter, &mut leave)
    }

    /// What writes the code of some bodies; nothing if there are none.
    fn writers<'a>(&'a self, numbers: &'a [usize], point: u64, unread: Unread) -> Vec<Box<WriteProbe<'a, Refusal>>> {
        if numbers.is_empty() {
            return Vec::new();
        }
        vec![Box::new(move |place: ProbePlace| self.compiled(numbers, point, unread, place))]
    }

    fn compiled(
        &self,
        numbers: &[usize],
        point: u64,
        unread: Unread,
        place: ProbePlace,
    ) -> Result<ProbeBytes, Refusal> {
        let Script { unit, areas } = self.script;
        let bodies: Vec<&Body> = numbers.iter().map(|number| &unit.bodies[*number]).collect();
        let cautious = Environment::cautious(bodies[0].when, place.at, point, self.gate, areas, self.routines);
        let environment = Environment {
            room_before: place.room_before,
            free: RegisterSet::numbered(unread.registers.numbers()),
            flags_live: cautious.flags_live && !unread.flags,
            ..cautious
        };
        let code = compile_together(unit, &bodies, &environment);
        let code = code.map_err(|error| Refusal::Body { what: error.to_string() })?;
        Ok(ProbeBytes { bytes: code.bytes, entry: code.entry })
    }

    fn length(&self, numbers: &[usize], at: u64) -> Result<usize, Refusal> {
        if numbers.is_empty() {
            return Ok(0);
        }
        // With everything saved it is longest.
        let code = self.compiled(numbers, at, Unread::default(), ProbePlace { at, room_before: 0 })?;
        Ok(code.bytes.len() + PLACE_SLACK)
    }
}
