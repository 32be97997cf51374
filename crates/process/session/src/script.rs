//! A probe script in one process: which functions get which bodies, and its variables as they stand now.
//!
//! The script's memory is part of what [`Inserted`] shares with the process: a process area (variables all threads see,
//! tables of readable memory, the ring of messages) and one area per thread.
//!
//! Next: `trimtab-plan`'s scripts, which compile the bodies; `insert`, which is the same as for measuring.

use crate::error::Error;
use crate::inner::InnerRequest;
use crate::insert::Inserted;
use crate::modules::Modules;
use crate::prepare::{FunctionRequest, Prepared};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use trimtab_os::{Mapping, MappingTable, Memory};
use trimtab_plan::{FunctionBodies, PlannedFunction, Script};
use trimtab_snippet::emit::{Areas, ThreadKey};
use trimtab_snippet::ir::{Unit, process_word, thread_word};
use trimtab_stub::layout::{AreaNeeds, Geometry, Probe, SLOT_HASH_MULTIPLIER, flag, round_up};
use trimtab_stub::view::View;
use trimtab_types::{Pid, ProcAddr};

/// Ranges of readable memory that bodies can know.
const RANGES_MAX: u64 = 4096;
/// Bytes of one range in the table.
const RANGE_BYTES: u64 = 16;
/// Bytes of the ring of messages.
const MESSAGES_BYTES: u64 = 1 << 20;

/// A function and what runs there.
#[derive(Clone, Debug)]
pub struct ScriptRequest {
    /// Name for people.
    pub name: String,
    /// Where it begins.
    pub address: ProcAddr,
    /// The bodies.
    pub bodies: FunctionBodies,
}

/// A script before its place in memory is known.
#[derive(Clone, Debug)]
pub(crate) struct ScriptSource {
    unit: Unit,
}

impl ScriptSource {
    pub(crate) fn needs(&self) -> AreaNeeds {
        AreaNeeds { process_bytes: ring_at(&self.unit) + MESSAGES_BYTES, thread_bytes: self.unit.thread_bytes.into() }
    }

    /// The script with its areas at their places in the target.
    pub(crate) fn placed(&self, header: u64, geometry: &Geometry) -> Script {
        let areas = Areas {
            process: header + geometry.process_area_offset,
            threads: header + geometry.thread_areas_offset,
            thread_count: geometry.thread_area_count as u32,
            thread_stride: geometry.thread_area_stride as u32,
            key: ThreadKey::SelfPointer,
            multiplier: SLOT_HASH_MULTIPLIER,
            thread_id_at: None,
        };
        Script { unit: self.unit.clone(), areas }
    }

    /// Bytes of code an arena near `text` needs.
    pub(crate) fn code_needed(
        &self,
        pid: Pid,
        functions: &[PlannedFunction],
        arena: usize,
        text: u64,
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
        needed.map_err(|error| Error::NothingToDo { pid, reason: error.to_string() })
    }
}

/// Offset of the table of readable ranges in the process area; that of writable ones follows, then the ring. The area says
/// so too, but the program may have written over it.
fn ranges_at(unit: &Unit) -> u64 {
    round_up(u64::from(unit.process_bytes), 64)
}

fn writables_at(unit: &Unit) -> u64 {
    ranges_at(unit) + RANGES_MAX * RANGE_BYTES
}

fn ring_at(unit: &Unit) -> u64 {
    writables_at(unit) + RANGES_MAX * RANGE_BYTES
}

impl Prepared {
    /// Decides about each function of a script, and about the places inside functions.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn for_script(
        modules: &Modules,
        requests: &[ScriptRequest],
        inner: &[InnerRequest],
        unit: &Unit,
    ) -> Result<Self, Error> {
        let functions: Vec<FunctionRequest> = requests.iter().map(function_request).collect();
        let mut prepared = Prepared::new(modules, &functions)?;
        for (function, address) in prepared.functions.iter_mut().zip(&prepared.addresses) {
            let of_function = requests.iter().filter(|request| request.address == *address);
            let mut bodies = FunctionBodies::default();
            for request in of_function {
                bodies.entry.extend(&request.bodies.entry);
                bodies.exit.extend(&request.bodies.exit);
            }
            function.bodies = Some(bodies);
        }
        prepared.add_inner(modules, &Memory::open(modules.pid)?, inner);
        prepared.script = Some(ScriptSource { unit: unit.clone() });
        Ok(prepared)
    }
}

/// Exits are looked for only where something runs there.
fn function_request(request: &ScriptRequest) -> FunctionRequest {
    let flags = if request.bodies.exit.is_empty() { 0 } else { flag::TIMED };
    let probe = Probe { flags, ..Probe::ABSENT };
    FunctionRequest { name: request.name.clone(), address: request.address, probe }
}

/// What the process area must hold before the first body runs.
#[derive(Clone, Copy, Debug)]
pub struct ScriptStart {
    /// MPI rank and number of ranks, or -1.
    pub rank: (i64, i64),
    /// Time stamp counter ticks per second.
    pub ticks_per_second: f64,
    /// Whether it records from the start.
    pub recording: bool,
}

/// A script's memory as trimtab sees it.
#[derive(Clone, Copy, Debug)]
pub struct ScriptView<'a> {
    view: View<'a>,
    geometry: Geometry,
}

impl<'a> ScriptView<'a> {
    /// The script's part of shared memory; `None` if there is no script in it.
    pub fn of(view: View<'a>) -> Option<Self> {
        let geometry = view.geometry();
        (geometry.process_area_offset != 0).then_some(ScriptView { view, geometry })
    }

    fn process_word(&self, word: u32) -> &'a std::sync::atomic::AtomicU64 {
        self.view.word(self.geometry.process_area_offset + u64::from(word))
    }

    /// Fills the process area; to be called from the `initialise` of [`Prepared::insert`].
    pub fn start(&self, unit: &Unit, start: ScriptStart) {
        let nanoseconds = (1e9 / start.ticks_per_second * 4_294_967_296.0).round() as u64;
        for (word, value) in [
            (process_word::RANK, start.rank.0 as u64),
            (process_word::RANKS, start.rank.1 as u64),
            (process_word::RANGES, ranges_at(unit)),
            (process_word::WRITABLES, writables_at(unit)),
            (process_word::MESSAGES, ring_at(unit)),
            (process_word::MESSAGES_BYTES, MESSAGES_BYTES),
            (process_word::TICKS_PER_SECOND, start.ticks_per_second as u64),
            (process_word::NS_PER_TICK_SHIFTED, nanoseconds),
        ] {
            self.process_word(word).store(value, Relaxed);
        }
        self.process_word(process_word::RECORDING).store(u64::from(start.recording), Release);
    }

    /// Tells bodies which memory may be read and written: what the process has mapped now, without devices. Unless the
    /// calls that take memory away are `guarded`, only files and the main stack.
    pub fn set_ranges(&self, unit: &Unit, maps: &MappingTable, guarded: bool) {
        let lasting = |mapping: &&Mapping| guarded || mapping.inode != 0 || mapping.path == "[stack]";
        let plain =
            |mapping: &&Mapping| !mapping.path.starts_with("/dev/") && mapping.path != "[vvar]" && lasting(mapping);
        let readable: Vec<&Mapping> = maps.0.iter().filter(plain).filter(|mapping| mapping.readable).collect();
        let writable: Vec<&Mapping> = readable.iter().filter(|mapping| mapping.writable).copied().collect();
        for (mappings, table, count) in [
            (readable, ranges_at(unit), process_word::RANGE_COUNT),
            (writable, writables_at(unit), process_word::WRITABLE_COUNT),
        ] {
            let place = self.geometry.process_area_offset + table;
            let joined = joined(&mappings);
            for (index, (start, end)) in joined.iter().enumerate() {
                self.view.word(place + index as u64 * RANGE_BYTES).store(*start, Relaxed);
                self.view.word(place + index as u64 * RANGE_BYTES + 8).store(*end, Relaxed);
            }
            self.process_word(count).store(joined.len() as u64, Release);
        }
    }

    /// Lets bodies run, or not.
    pub fn set_recording(&self, recording: bool) {
        self.process_word(process_word::RECORDING).store(u64::from(recording), Release);
    }

    /// Whether bodies run.
    pub fn is_recording(&self) -> bool {
        self.process_word(process_word::RECORDING).load(Acquire) != 0
    }

    /// Whether the script has called `stop()`.
    pub fn is_stopped(&self) -> bool {
        self.process_word(process_word::STOPPED).load(Acquire) != 0
    }

    /// All words of the process area that hold variables.
    pub fn process_area(&self, unit: &Unit) -> Vec<u64> {
        self.words(self.geometry.process_area_offset, unit.process_bytes)
    }

    /// The words of every thread area that a thread has taken.
    pub fn thread_areas(&self, unit: &Unit) -> Vec<Vec<u64>> {
        let places = (0..self.geometry.thread_area_count)
            .map(|index| self.geometry.thread_areas_offset + index * self.geometry.thread_area_stride);
        let owned = places.filter(|place| self.view.word(place + u64::from(thread_word::OWNER)).load(Relaxed) != 0);
        owned.map(|place| self.words(place, unit.thread_bytes)).collect()
    }

    fn words(&self, place: u64, bytes: u32) -> Vec<u64> {
        (0..u64::from(bytes) / 8).map(|index| self.view.word(place + index * 8).load(Relaxed)).collect()
    }

    /// The ring of messages, whole, with how many bytes were ever written to it.
    pub fn messages(&self, unit: &Unit) -> (Vec<u8>, u64) {
        let place = self.geometry.process_area_offset + ring_at(unit);
        let head = self.process_word(process_word::MESSAGES_HEAD).load(Acquire);
        (self.view.read_bytes(place, MESSAGES_BYTES as usize), head)
    }

    /// Says that messages up to this many bytes have been read, so that their room is free again.
    pub fn messages_read(&self, bytes: u64) {
        self.process_word(process_word::MESSAGES_TAIL).store(bytes, Release);
    }
}

/// Neighbouring ranges become one; at most as many as the table holds.
fn joined(mappings: &[&Mapping]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for mapping in mappings {
        match joined.last_mut() {
            Some(last) if last.1 == mapping.start => last.1 = mapping.end,
            _ => joined.push((mapping.start, mapping.end)),
        }
    }
    joined.truncate(RANGES_MAX as usize);
    joined
}

impl Inserted {
    /// The script's memory, if this insertion was of a script.
    pub fn script(&self) -> Option<ScriptView<'_>> {
        ScriptView::of(self.view())
    }
}
