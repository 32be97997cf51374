//! The plan that holds threads where functions return, until all processes of a job have come there.
//!
//! Next: `trimtab-x86`'s `gather`, the code.

use crate::{ArenaPlace, Entries, Error, ISLAND_ALIGNMENT, Plan, PlannedFunction};
use std::ops::Range;
use trimtab_types::ProcAddr;
use trimtab_x86::{GATHER_BYTES_MAX, Gather, ISLAND_OVERHEAD_MAX};

/// Facts that the code needs.
#[derive(Clone, Copy, Debug)]
pub struct GatherAt<'a> {
    /// Address of the words that threads and their monitor share.
    pub words: ProcAddr,
    /// Code of bindings and tools: who returns there is not held.
    pub passes: &'a [Range<ProcAddr>],
}

/// Bytes of code `functions` of arena `arena` need at most.
pub fn gather_code_needed(functions: &[PlannedFunction], arena: usize) -> u64 {
    let sites = functions.iter().filter(|function| function.arena == arena).flat_map(|function| &function.sites);
    let needed = sites.map(|site| {
        let moved = (site.displaced.len() + site.carrier.len()) * 8;
        (ISLAND_OVERHEAD_MAX + GATHER_BYTES_MAX + moved + 2 * ISLAND_ALIGNMENT) as u64
    });
    needed.sum()
}

/// Makes the plan; each site is where a function returns.
///
/// # Errors
/// [`Error`], as [`build`](crate::build).
pub fn build_gather(functions: &[PlannedFunction], places: &[ArenaPlace], at: GatherAt<'_>) -> Result<Plan, Error> {
    let mut plan = Plan { arenas: vec![Vec::new(); places.len()], ..Plan::default() };
    let mut entries = Entries::default();
    for function in functions {
        let place = places[function.arena];
        let gather = Gather { gate: place.gate, words: at.words, passes: at.passes.to_vec() };
        for site in &function.sites {
            let island = |address: ProcAddr| gather.island(&site.site, &site.displaced, address);
            plan.add_site(function, site, place, (&island, Vec::new()), &mut entries)?;
        }
    }
    plan.check(places)?;
    Ok(plan)
}
