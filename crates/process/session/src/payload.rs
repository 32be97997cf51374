//! The work of the code that goes into a process: a window's routine, a script's bodies, or holds.
//!
//! Next: `prepare` and `insert`, which are the same for all.

use crate::error::Error;
use crate::ranges::TABLES_BYTES;
use std::ops::Range;
use trimtab_plan::{Keeps, PlannedFunction, Script};
use trimtab_snippet::emit::{Areas, ThreadKey};
use trimtab_snippet::ir::Unit;
use trimtab_stub::layout::{AreaNeeds, Geometry, SLOT_HASH_MULTIPLIER, round_up};
use trimtab_types::{Pid, ProcAddr};

/// The code that runs at the patched places.
#[derive(Clone, Debug, Default)]
pub(crate) enum Payload {
    /// The routine of windows, which counts calls and keeps a list of them.
    #[default]
    Window,
    /// Bodies of a script.
    Script(ScriptSource),
    /// Threads are held as they leave a function, but for those that return to this code of bindings and tools.
    Hold(Vec<Range<ProcAddr>>),
}

impl Payload {
    /// The areas that it needs in shared memory.
    pub(crate) fn areas(&self) -> Option<AreaNeeds> {
        if let Payload::Script(script) = self { Some(script.needs()) } else { None }
    }
}

/// Bytes of the ring of messages.
pub(crate) const MESSAGES_BYTES: u64 = 1 << 20;

/// A script before its place in memory is known.
#[derive(Clone, Debug)]
pub(crate) struct ScriptSource {
    pub unit: Unit,
    pub keeps: Option<Keeps>,
}

impl ScriptSource {
    pub(crate) fn needs(&self) -> AreaNeeds {
        AreaNeeds { process_bytes: ring_at(&self.unit) + MESSAGES_BYTES, thread_bytes: self.unit.thread_bytes.into() }
    }

    /// The script with its areas at their places in the target.
    pub(crate) fn placed(&self, header: ProcAddr, geometry: &Geometry) -> Script {
        let areas = Areas {
            process: header + geometry.process_area_offset,
            threads: header + geometry.thread_areas_offset,
            thread_count: geometry.thread_area_count as u32,
            thread_stride: geometry.thread_area_stride as u32,
            key: ThreadKey::SelfPointer,
            multiplier: SLOT_HASH_MULTIPLIER,
            thread_id_at: None,
        };
        Script { unit: self.unit.clone(), areas, keeps: self.keeps }
    }

    /// Bytes of code an arena near `text` needs.
    pub(crate) fn code_needed(
        &self,
        pid: Pid,
        functions: &[PlannedFunction],
        arena: usize,
        text: ProcAddr,
    ) -> Result<u64, Error> {
        let stride = round_up(u64::from(self.unit.thread_bytes), 64);
        let geometry = Geometry {
            process_area_offset: 1 << 32,
            thread_areas_offset: 2 << 32,
            thread_area_stride: stride,
            thread_area_count: 64,
            ..Geometry::default()
        };
        let script = self.placed(text, &geometry);
        let needed = script.code_needed(functions, arena, text);
        needed.map_err(|reason| Error::Plan { pid, reason })
    }
}

/// Offset of the tables of readable and of writable ranges in the process area; the ring follows. The area says so too, but
/// the program may have written over it.
pub(crate) fn ranges_at(unit: &Unit) -> u64 {
    round_up(u64::from(unit.process_bytes), 64)
}

pub(crate) fn ring_at(unit: &Unit) -> u64 {
    ranges_at(unit) + TABLES_BYTES
}
