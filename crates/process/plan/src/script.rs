//! Scripts: the bodies that run at a function's entry, at its exits or at a point in it become code in its arena.
//!
//! The bodies of one place are compiled together, for the address where their island lies. How long the code gets is
//! found by compiling it once for a place nearby; what the encoder makes of distances may differ by a few bytes, so some
//! room is left.
//!
//! Next: `trimtab-snippet`'s back end, which compiles; `super::build_script`, which places.

use crate::planned::{ArenaPlace, Error, FunctionBodies, ISLAND_ALIGNMENT, PlannedFunction, PlannedSite, Unread};
use trimtab_snippet::emit::{
    Areas, Environment, FreeRegisters, Routines, SharedRoutines, VectorSave, bodies_are_reentrant, compile_together,
    shared_routines,
};
use trimtab_snippet::ir::{Body, Unit, When};
use trimtab_types::ProcAddr;
use trimtab_x86::{
    Hold, ISLAND_OVERHEAD_MAX, Island, ProbeBytes, ProbePlace, Refusal, SiteKind, WriteProbe, build_probe_island,
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
    /// The state that bodies that call functions keep; without it they are refused.
    pub keeps: Option<Keeps>,
}

/// The state that a called function may change and the program does not expect to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeps {
    /// Components of the extended state, as in XCR0, and the bytes of an area for them.
    pub vectors: (u64, u32),
    /// From the thread pointer to `errno`.
    pub errno_at: i32,
}

impl Script {
    /// The routines that all bodies of an arena share, for its beginning.
    pub(crate) fn shared(&self, place: ArenaPlace) -> Result<SharedRoutines, Error> {
        shared_routines(place.code, &self.areas).map_err(|error| body_error("the shared routines", &error))
    }

    /// The script in an arena with these routines and this gate word.
    pub(crate) fn in_arena<'a>(&'a self, routines: &'a Routines, gate: ProcAddr) -> ArenaScript<'a> {
        ArenaScript { script: self, routines, gate, reentrant: bodies_are_reentrant(&self.unit) }
    }

    /// Bytes of code `functions` of arena `arena` need at most, if it lies near `near`.
    ///
    /// # Errors
    /// [`Error::Body`] if a body can't be compiled at all.
    pub fn code_needed(&self, functions: &[PlannedFunction], arena: usize, near: ProcAddr) -> Result<u64, Error> {
        let place = ArenaPlace { gate: near, code: near + 4096, capacity: 0 };
        let shared = self.shared(place)?;
        let code = self.in_arena(&shared.addresses, place.gate);
        let mut bytes = shared.bytes.len() + ISLAND_ALIGNMENT;
        for function in functions.iter().filter(|function| function.arena == arena) {
            let bodies = function.bodies.clone().unwrap_or_default();
            let at_jumps = function.sites.iter().filter_map(|site| site.exit_bodies.as_ref());
            let lists = [&bodies.entry, &bodies.exit, &bodies.point].into_iter().chain(at_jumps);
            let lengths = lists.map(|list| code.length(list, place.code));
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
    pub gate: ProcAddr,
    /// True if no body of the script has to be alone on its thread.
    pub reentrant: bool,
}

impl ArenaScript<'_> {
    /// The island of one place.
    pub(crate) fn island(
        &self,
        planned: &PlannedSite,
        bodies: &FunctionBodies,
        hold: Option<&Hold>,
        at: ProcAddr,
    ) -> Result<Island, Refusal> {
        let site = &planned.site;
        let (enter, point) = match site.kind {
            SiteKind::At(address) => (&bodies.point, address),
            _ => (&bodies.entry, site.at),
        };
        let hold = hold.filter(|_| Hold::fits(site.kind));
        let held = hold.map(|hold| -> Box<WriteProbe<'_, Refusal>> { Box::new(|place| hold.written(place)) });
        let mut enter: Vec<_> = held.into_iter().chain(self.writers(enter, point, planned)).collect();
        // A way inside a function is patched as an exit is, but its bodies are those of a point.
        let leaving = if bodies.point.is_empty() { &bodies.exit } else { &bodies.point };
        let mut leave = self.writers(leaving, point, planned);
        build_probe_island(site, &planned.displaced, at, &mut enter, &mut leave)
    }

    /// The writers of some bodies' code; none if there are no bodies.
    fn writers<'a>(
        &'a self,
        numbers: &'a [usize],
        point: ProcAddr,
        planned: &PlannedSite,
    ) -> Vec<Box<WriteProbe<'a, Refusal>>> {
        if numbers.is_empty() {
            return Vec::new();
        }
        let (unread, answers) = (planned.unread, planned.answers_in_flags);
        vec![Box::new(move |place: ProbePlace| self.compiled(numbers, point, (unread, answers), place))]
    }

    fn compiled(
        &self,
        numbers: &[usize],
        point: ProcAddr,
        (unread, answers_in_flags): (Unread, bool),
        place: ProbePlace,
    ) -> Result<ProbeBytes, Refusal> {
        let Script { unit, areas, keeps } = self.script;
        let bodies: Vec<&Body> = numbers.iter().map(|number| &unit.bodies[*number]).collect();
        let cautious = Environment::cautious(bodies[0].when, place.at, point, self.gate, areas, self.routines);
        let environment = Environment {
            room_before: place.room_before,
            reentrant: self.reentrant,
            free: FreeRegisters::numbered(unread.registers.numbers()),
            flags_live: (cautious.flags_live && !unread.flags) || (bodies[0].when == When::Exit && answers_in_flags),
            vector_save: keeps.map(|keeps| VectorSave { mask: keeps.vectors.0, bytes: keeps.vectors.1 }),
            errno_at: keeps.map(|keeps| keeps.errno_at),
            ..cautious
        };
        let code = compile_together(unit, &bodies, &environment);
        let code = code.map_err(|error| Refusal::Body { what: error.to_string() })?;
        Ok(ProbeBytes { bytes: code.bytes, entry: code.entry })
    }

    fn length(&self, numbers: &[usize], at: ProcAddr) -> Result<usize, Refusal> {
        if numbers.is_empty() {
            return Ok(0);
        }
        // With everything saved it is longest.
        let code = self.compiled(numbers, at, (Unread::default(), true), ProbePlace { at, room_before: 0 })?;
        Ok(code.bytes.len() + PLACE_SLACK)
    }
}
