//! All that is needed to take probes out of a process again, and what came of it.
//!
//! Next: `remove`, which does it; `leftover`, which reads it in the process.

use crate::mapped::is_ours;
use crate::pages::{PageWrites, PatchBytes};
use crate::threads::Ranges;
use std::ops::Range;
use trimtab_os::{Gadgets, MappingTable};
use trimtab_plan::{ArenaPlace, Plan};
use trimtab_stub::layout::{Geometry, PAGE};
use trimtab_types::{Pid, ProcAddr};

/// The steps that took probes out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Longest time the process was held, nanoseconds.
    pub pause_ns_max: u64,
    /// All such times together, nanoseconds.
    pub pause_ns_total: u64,
    /// Bytes left mapped; 0: all gone.
    pub left_mapped_bytes: u64,
    /// Why: a thread stayed inside, or none may unmap them.
    pub left_because: Option<String>,
    /// Thread pointer and stack pointer of every thread at the first stop: calls left open above are still going on.
    pub stacks: Vec<(u64, u64)>,
    /// Threads that were inside a measured function at the first stop, as (thread pointer, probe).
    pub inside: Vec<(u64, u32)>,
    /// Places whose bytes were neither ours nor the original ones, and were left as they are.
    pub foreign: Vec<u64>,
}

impl Removal {
    /// This, and what was taken out behind it.
    pub(crate) fn and(mut self, next: Removal) -> Removal {
        self.pause_ns_max = self.pause_ns_max.max(next.pause_ns_max);
        self.pause_ns_total += next.pause_ns_total;
        self.left_mapped_bytes += next.left_mapped_bytes;
        self.left_because = self.left_because.or(next.left_because);
        self.stacks.extend(next.stacks);
        self.inside.extend(next.inside);
        self.foreign.extend(next.foreign);
        self
    }
}

/// The facts that are needed to restore a process.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub header: u64,
    pub gates: Vec<u64>,
    pub arenas: Vec<Range<u64>>,
    pub mappings: Vec<(u64, u64)>,
    /// The writes to its text.
    pub patches: PageWrites,
    /// Those by which the unwinder finds tables of our code: as long as somebody is in it, they are needed.
    pub finders: Vec<u64>,
    pub geometry: Geometry,
    pub gadgets: Gadgets,
    /// Measured functions, and the text of the program itself.
    pub functions: (Ranges, Range<u64>),
    /// Its maker is gone, and may have left the memory's descriptor open.
    pub abandoned: bool,
}

impl Target {
    pub(crate) fn new(
        header: ProcAddr,
        places: &[ArenaPlace],
        plan: &Plan,
        geometry: Geometry,
        gadgets: Gadgets,
    ) -> Self {
        let bytes = |patch: &trimtab_plan::Patch| PatchBytes {
            address: patch.address.0,
            original: patch.original.clone(),
            patched: patch.patched.clone(),
        };
        let finders = (geometry.frames_patches as usize).min(plan.patches.len());
        let mut mappings = vec![(header.0, geometry.data_length)];
        mappings.extend(places.iter().flat_map(|place| [(place.gate.0, PAGE), (place.code.0, place.capacity)]));
        Target {
            header: header.0,
            gates: places.iter().map(|place| place.gate.0).collect(),
            arenas: places.iter().map(|place| place.code.0..(place.code + place.capacity).0).collect(),
            mappings,
            patches: PageWrites::new(plan.patches.iter().map(bytes).collect()),
            finders: plan.patches[plan.patches.len() - finders..].iter().map(|patch| patch.address.0).collect(),
            geometry,
            gadgets,
            functions: (Ranges::default(), 0..0),
            abandoned: false,
        }
    }

    /// Where unwind tables lie that the program's unwinder reads.
    pub(crate) fn frames(&self) -> Range<u64> {
        self.geometry.frames_at..self.geometry.frames_at.saturating_add(self.geometry.frames_bytes)
    }

    /// True if our shared memory is mapped at its place in `pid`.
    pub(crate) fn is_mapped(&self, pid: Pid) -> bool {
        let Ok(maps) = MappingTable::around(pid, &[self.header]) else { return false };
        maps.at(self.header).is_some_and(is_ours)
    }
}
