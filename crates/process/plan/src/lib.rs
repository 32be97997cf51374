//! Probe request to ordered writes and their undo; pure.
//!
//! A [`Plan`] says everything that will be done to a process before anything is done: the code of each arena, every
//! patch with the bytes before and after, in the order of writing, and where a thread that stands on displaced
//! instructions must go on. `--dry-run` prints it; the session carries it out; its undo is the same list backwards.
//!
//! Next: `trimtab-x86` for sites and islands, `trimtab-session` for carrying it out.
#![forbid(unsafe_code)]

mod frames;
mod gather;
mod planned;
mod script;

pub use frames::{FrameRules, Frames, frames_needed};
pub use gather::{GatherAt, build_gather, gather_code_needed};
pub use planned::{ArenaPlace, Error, FunctionBodies, Holds, Leaving, PlannedFunction, PlannedSite, Unread};
pub use script::{Keeps, Script};

use planned::ISLAND_ALIGNMENT;
use script::ArenaScript;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use trimtab_types::ProcAddr;
use trimtab_x86::{Carrier, build_carrier, encode_near_jump, encode_short_jump};
use trimtab_x86::{
    ExitKind, ISLAND_OVERHEAD_MAX, Island, JumpForm, ProbeCode, Purpose, Refusal, SiteKind, WindowCode,
    build_calibration, build_island,
};

/// The in-target routines, copied to the start of every arena.
#[derive(Clone, Copy, Debug)]
pub struct Routines<'a> {
    /// Their code.
    pub bytes: &'a [u8],
    /// Offset of the routine for entries.
    pub enter: u64,
    /// Offset of the routine for exits.
    pub leave: u64,
    /// Offset of the routine for passes of loops.
    pub pass: u64,
}

/// One write, and what was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// First byte.
    pub address: ProcAddr,
    /// Bytes before.
    pub original: Vec<u8>,
    /// Bytes after.
    pub patched: Vec<u8>,
    /// The function it belongs to.
    pub function: String,
    /// Its role.
    pub role: PatchRole,
}

/// The role of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchRole {
    /// A function's entry.
    Entry,
    /// One of its exits.
    Exit,
    /// A second jump in padding, or in what a carrier frees.
    Springboard,
    /// Code moved away to make room for springboards.
    Carrier,
}

/// A stretch of an arena's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which arena.
    pub arena: usize,
    /// Its addresses.
    pub range: Range<ProcAddr>,
    /// Its role.
    pub role: PieceRole,
}

/// The role of a stretch of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PieceRole {
    /// Routines that islands share.
    Routines,
    /// The function that measures what a probe costs.
    Calibration,
    /// Where a patch leads.
    Island {
        /// Number of the patch.
        patch: usize,
        /// Its first instruction; what stands before it is reached from there.
        entry: ProcAddr,
        /// Bodies of the script that run there, in this order.
        bodies: Vec<usize>,
    },
    /// Code moved away to make room for springboards.
    Carrier {
        /// Number of the patch that leads there.
        patch: usize,
    },
}

/// Everything that will be done to one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Code of each arena.
    pub arenas: Vec<Vec<u8>>,
    /// Writes to text, in order.
    pub patches: Vec<Patch>,
    /// Address of the function that measures what a probe costs.
    pub calibration: ProcAddr,
    /// Displaced instruction to its place in an island.
    pub moves: BTreeMap<ProcAddr, ProcAddr>,
    /// Copy of a displaced instruction to its original.
    pub copies: BTreeMap<ProcAddr, ProcAddr>,
    /// Instructions by which functions are left.
    pub exits: BTreeMap<ProcAddr, ExitKind>,
    /// The pieces in the arenas, and where each lies.
    pub pieces: Vec<Piece>,
    /// Names of shared routines of scripts, by their addresses.
    pub routines: BTreeMap<ProcAddr, &'static str>,
}

/// Bytes of code `functions` of arena `arena` need at most.
pub fn code_needed(routines: &Routines<'_>, functions: &[PlannedFunction], arena: usize) -> u64 {
    let sites = functions.iter().filter(|function| function.arena == arena).flat_map(|function| &function.sites);
    let islands: usize = sites
        .map(|site| {
            let moved = (site.displaced.len() + site.carrier.len()) * 8;
            ISLAND_OVERHEAD_MAX * 2 + moved + 2 * ISLAND_ALIGNMENT
        })
        .sum();
    (routines.bytes.len() + 2 * (ISLAND_OVERHEAD_MAX + ISLAND_ALIGNMENT) + islands) as u64
}

/// Makes the plan. `header` is where the shared memory will lie, `hold_words` where threads that set a fault handler tell so.
pub fn build(
    functions: &[PlannedFunction],
    places: &[ArenaPlace],
    (header, hold_words): (ProcAddr, ProcAddr),
    routines: &Routines<'_>,
    calibration_probe: u32,
) -> Result<Plan, Error> {
    let mut plan = Plan { arenas: vec![routines.bytes.to_vec(); places.len()], ..Plan::default() };
    let mut entries = Entries::default();
    plan.add_routines(places);
    plan.add_calibration(places, header, routines, calibration_probe)?;
    for function in functions.iter().filter(|function| !function.finds_frames) {
        let place = places[function.arena];
        let mut code = probe_code(place, header, routines, function.probe);
        code.inline = function.inline;
        if function.is_loop {
            code.enter = place.code + routines.pass;
        }
        let hold = function.holds.hold(place, hold_words);
        for site in &function.sites {
            let leaving = match site.leaving {
                Leaving::Ends => Some(code),
                Leaving::With(probe) => Some(probe_code(place, header, routines, probe)),
                Leaving::Nothing => None,
            };
            let island = |at: ProcAddr| match &hold {
                Some(hold) if function.holds == Holds::Only => hold.island(&site.site, &site.displaced, at),
                hold => {
                    let purpose = match function.is_loop {
                        true => Purpose::Passes { flags_unread: site.unread.flags },
                        false => Purpose::Calls,
                    };
                    let window = WindowCode { purpose, enter: &code, leave: leaving.as_ref(), hold: hold.as_ref() };
                    build_island(&site.site, &site.displaced, at, &window)
                }
            };
            plan.add_site(function, site, place, (&island, Vec::new()), &mut entries)?;
        }
    }
    plan.check(places)?;
    Ok(plan)
}

/// Makes the plan of a script: bodies instead of the in-target routine. `hold_words` as for [`build`].
///
/// # Errors
/// [`Error`], as [`build`].
pub fn build_script(
    functions: &[PlannedFunction],
    places: &[ArenaPlace],
    hold_words: ProcAddr,
    script: &Script,
) -> Result<Plan, Error> {
    let shared = places.iter().map(|place| script.shared(*place)).collect::<Result<Vec<_>, _>>()?;
    let mut plan = Plan { arenas: shared.iter().map(|shared| shared.bytes.clone()).collect(), ..Plan::default() };
    plan.add_routines(places);
    plan.routines = shared.iter().flat_map(|shared| shared.addresses.names()).map(|(name, at)| (at, name)).collect();
    let arenas = places.iter().zip(&shared).map(|(place, shared)| script.in_arena(&shared.addresses, place.gate));
    let arenas: Vec<ArenaScript<'_>> = arenas.collect();
    let mut entries = Entries::default();
    for function in functions.iter().filter(|function| !function.finds_frames) {
        let place = places[function.arena];
        let hold = function.holds.hold(place, hold_words);
        let bodies = function.bodies.clone().unwrap_or_default();
        let arena = &arenas[function.arena];
        for site in &function.sites {
            let bodies = bodies.at_site(site);
            let island = |at| arena.island(site, &bodies, hold.as_ref(), at);
            plan.add_site(function, site, place, (&island, bodies.at(site.site.kind)), &mut entries)?;
        }
    }
    plan.check(places)?;
    Ok(plan)
}

/// Builds an island for an address.
type BuildIsland<'a> = dyn Fn(ProcAddr) -> Result<Island, Refusal> + 'a;

/// How far behind their beginnings the last islands with the same bodies are entered: mostly the next one's is the same,
/// and it need not be built twice to be aligned.
#[derive(Debug, Default)]
struct Entries(BTreeMap<Vec<usize>, usize>);

impl Entries {
    /// Builds an island at or behind `free`, so that what it runs first is aligned; and where that is.
    fn aligned(
        &mut self,
        free: ProcAddr,
        bodies: &[usize],
        island: &BuildIsland<'_>,
    ) -> Result<(ProcAddr, Island), Refusal> {
        let aligned = |at: ProcAddr| at.0.next_multiple_of(ISLAND_ALIGNMENT as u64);
        let place = |entry: usize| ProcAddr(aligned(free + entry as u64) - entry as u64);
        let expected = self.0.get(bodies).copied().unwrap_or(0);
        let built = island(place(expected))?;
        if built.entry == expected {
            return Ok((place(expected), built));
        }
        let at = place(built.entry);
        self.0.insert(bodies.to_vec(), built.entry);
        Ok((at, island(at)?))
    }
}

fn probe_code(place: ArenaPlace, header: ProcAddr, routines: &Routines<'_>, probe: u32) -> ProbeCode {
    let (enter, leave) = (place.code + routines.enter, place.code + routines.leave);
    ProbeCode { gate: place.gate, header, probe, enter, leave, inline: None }
}

impl Plan {
    /// Notes the routines that the arenas begin with.
    fn add_routines(&mut self, places: &[ArenaPlace]) {
        for (arena, (code, place)) in self.arenas.iter().zip(places).enumerate() {
            let range = place.code..place.code + code.len() as u64;
            self.pieces.push(Piece { arena, range, role: PieceRole::Routines });
        }
    }

    fn add_calibration(
        &mut self,
        places: &[ArenaPlace],
        header: ProcAddr,
        routines: &Routines<'_>,
        probe: u32,
    ) -> Result<(), Error> {
        let (Some(place), Some(arena)) = (places.first(), self.arenas.first_mut()) else { return Ok(()) };
        arena.resize(arena.len().next_multiple_of(ISLAND_ALIGNMENT), 0xcc);
        self.calibration = place.code + arena.len() as u64;
        let code = probe_code(*place, header, routines, probe);
        let bytes = build_calibration(self.calibration, &code)
            .map_err(|source| Error::Site { function: "calibration".into(), source })?;
        arena.extend_from_slice(&bytes);
        let range = self.calibration..self.calibration + bytes.len() as u64;
        self.pieces.push(Piece { arena: 0, range, role: PieceRole::Calibration });
        Ok(())
    }

    fn add_site(
        &mut self,
        function: &PlannedFunction,
        planned: &PlannedSite,
        place: ArenaPlace,
        (island, bodies): (&BuildIsland<'_>, Vec<usize>),
        entries: &mut Entries,
    ) -> Result<(), Error> {
        let site = &planned.site;
        let refused = |source| Error::Site { function: function.name.clone(), source };
        if let Some(carrier) = &site.carrier {
            self.add_carrier(function, carrier, &planned.carrier, place)?;
        }
        let arena = &mut self.arenas[function.arena];
        let free = place.code + arena.len() as u64;
        let (at, island) = entries.aligned(free, &bodies, island).map_err(refused)?;
        arena.resize((at - place.code) as usize, 0xcc);
        arena.extend_from_slice(&island.bytes);
        let range = at..at + island.bytes.len() as u64;
        let at = at + island.entry as u64;
        self.copies.extend(island.copies.into_iter().map(|(old, copy)| (copy, old)));
        if let SiteKind::Exit(exit) | SiteKind::Whole(exit) = site.kind {
            self.exits.insert(exit.at, exit.kind);
        }
        self.add_moves(island.moves, site.at);
        let role = if matches!(site.kind, SiteKind::Exit(_)) { PatchRole::Exit } else { PatchRole::Entry };
        let patch = |address, original: &[u8], patched: &[u8], role| Patch {
            address,
            original: original.to_vec(),
            patched: patched.to_vec(),
            function: function.name.clone(),
            role,
        };
        match site.jump {
            JumpForm::Near5 => {
                let jump = encode_near_jump(site.at, at).map_err(refused)?;
                self.patches.push(patch(site.at, &planned.overwritten, &jump, role));
            }
            JumpForm::Short2 { via } => {
                // The springboard first: from the moment the short jump stands, it must lead somewhere.
                let second = encode_near_jump(via, at).map_err(refused)?;
                self.patches.push(patch(via, &planned.springboard, &second, PatchRole::Springboard));
                let first = encode_short_jump(site.at, via).map_err(refused)?;
                self.patches.push(patch(site.at, &planned.overwritten, &first, role));
            }
        }
        let role = PieceRole::Island { patch: self.patches.len() - 1, entry: at, bodies };
        self.pieces.push(Piece { arena: function.arena, range, role });
        Ok(())
    }

    /// Moves code away for springboards, unless an earlier site has had it moved.
    fn add_carrier(
        &mut self,
        function: &PlannedFunction,
        carrier: &Carrier,
        displaced: &[u8],
        place: ArenaPlace,
    ) -> Result<(), Error> {
        let address = carrier.displaced.start;
        if self.patches.iter().rev().any(|patch| patch.role == PatchRole::Carrier && patch.address == address) {
            return Ok(());
        }
        let refused = |source| Error::Site { function: function.name.clone(), source };
        let arena_number = function.arena;
        let arena = &mut self.arenas[arena_number];
        arena.resize(arena.len().next_multiple_of(ISLAND_ALIGNMENT), 0xcc);
        let at = place.code + arena.len() as u64;
        let island = build_carrier(carrier, displaced, at).map_err(refused)?;
        arena.extend_from_slice(&island.bytes);
        let range = at..at + island.bytes.len() as u64;
        self.copies.extend(island.copies.into_iter().map(|(old, copy)| (copy, old)));
        self.add_moves(island.moves, address);
        let jump = encode_near_jump(address, at).map_err(refused)?;
        let original = displaced[..jump.len()].to_vec();
        let (patched, function) = (jump.to_vec(), function.name.clone());
        self.patches.push(Patch { address, original, patched, function, role: PatchRole::Carrier });
        let role = PieceRole::Carrier { patch: self.patches.len() - 1 };
        self.pieces.push(Piece { arena: arena_number, range, role });
        Ok(())
    }

    /// A thread on the first instruction may stay: a patch begins there.
    fn add_moves(&mut self, moves: Vec<(ProcAddr, ProcAddr)>, first: ProcAddr) {
        self.moves.extend(moves.into_iter().filter(|(old, _)| *old != first));
    }

    fn check(&self, places: &[ArenaPlace]) -> Result<(), Error> {
        for (arena, (code, place)) in self.arenas.iter().zip(places).enumerate() {
            let needed = code.len() as u64;
            if needed > place.capacity {
                return Err(Error::ArenaFull { arena, needed, capacity: place.capacity });
            }
        }
        self.check_overlaps()
    }

    fn check_overlaps(&self) -> Result<(), Error> {
        let mut sorted: Vec<&Patch> = self.patches.iter().collect();
        sorted.sort_by_key(|patch| patch.address);
        for pair in sorted.windows(2) {
            if pair[0].address + pair[0].patched.len() as u64 > pair[1].address {
                return Err(Error::Overlap {
                    first: pair[0].function.clone(),
                    second: pair[1].function.clone(),
                    address: pair[1].address,
                });
            }
        }
        Ok(())
    }

    /// The address where a thread at `address` must go on, if it may not stand there while the patches are written.
    pub fn moved(&self, address: ProcAddr) -> Option<ProcAddr> {
        self.moves.get(&address).copied()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for patch in &self.patches {
            let role = match patch.role {
                PatchRole::Entry => "entry",
                PatchRole::Exit => "exit",
                PatchRole::Springboard => "springboard",
                PatchRole::Carrier => "carrier",
            };
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
            let (before, after) = (hex(&patch.original), hex(&patch.patched));
            writeln!(f, "{}  {before:<15} -> {after:<15}  {role} of {}", patch.address, patch.function)?;
        }
        let code: usize = self.arenas.iter().map(Vec::len).sum();
        write!(f, "{} writes, {} bytes of code in {} arenas", self.patches.len(), code, self.arenas.len())
    }
}
