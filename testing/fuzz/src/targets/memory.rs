//! Any bytes in the memory that a target and trimtab share, read as a window and as a script: the program may write
//! anything there, and trimtab must neither fail nor read outside.
//!
//! An input is a list of words of ten bytes: where (in two bytes, chosen among the places that mean something), and what.
//! Next: `trimtab-stub`'s `view`.

use crate::hostile::Target;
use crate::mutate::Mutator;
use anyhow::Result;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use trimtab_session::ScriptView;
use trimtab_snippet::emit::read_message;
use trimtab_snippet::ir::Unit;
use trimtab_snippet::values::{RankAreas, collect};
use trimtab_snippet::{Permissions, compile};
use trimtab_stub::layout::{AreaNeeds, COMMS_MAX, Geometry, Needs};
use trimtab_stub::view::{SlotView, View};

const WRITE_BYTES: usize = 10;
/// Messages read from the ring at most: it holds more than anybody sends in one run.
const MESSAGES_MAX: usize = 64;
/// A script with a variable of every kind.
const SCRIPT: &str = "process int k; entry solve { n += 1; k += 2; f += 0.5; h = hist($count); lo = min($count); \
                      hi = max($tolerance); av = mean($count); st = stack(); x = $count; send(\"done\", n) }";

/// The target, with memory as a monitor lays it out.
pub struct SharedMemory {
    words: Vec<AtomicU64>,
    geometry: Geometry,
    unit: Unit,
    /// Words worth writing to.
    places: Vec<usize>,
    /// The words that the last input wrote over: it may have ended half-way.
    before: Vec<(usize, u64)>,
}

impl SharedMemory {
    /// Lays out the memory.
    pub fn new() -> SharedMemory {
        let unit = compile(SCRIPT, crate::common::survive::facts(), Permissions::default())
            .unwrap_or_else(|refused| panic!("{}", refused.render(SCRIPT)))
            .unit;
        let areas = AreaNeeds {
            process_bytes: u64::from(unit.process_bytes) + (2 << 20),
            thread_bytes: u64::from(unit.thread_bytes),
        };
        let needs = Needs {
            patches: 3,
            probes: 2,
            functions: 2,
            ranks: 4,
            details: 2,
            code: 4096,
            threads: 1,
            areas: Some(areas),
            regions: false,
        };
        let geometry = Geometry::for_needs(&needs);
        let words: Vec<AtomicU64> = (0..geometry.data_length / 8).map(|_| AtomicU64::new(0)).collect();
        View::new(&words).set_geometry(&geometry);
        let places = places(&geometry, &unit);
        SharedMemory { words, geometry, unit, places, before: Vec::new() }
    }

    fn read_window(&self, view: View<'_>) -> u64 {
        let header = view.header();
        let mut seen = header.world_size.load(Relaxed);
        for index in 0..4 {
            seen ^= view.mark(header.marks_written.load(Relaxed).wrapping_sub(index)).ticks.load(Relaxed);
        }
        for slot in view.slots() {
            seen ^= read_slot(view, &slot, &self.geometry);
        }
        seen
    }

    fn read_script(&self, view: View<'_>, seldom: bool) -> usize {
        let Some(script) = ScriptView::of(view) else { return 0 };
        let (process, threads) = (script.process_area(&self.unit), script.thread_areas(&self.unit));
        let threads: Vec<&[u64]> = threads.iter().map(Vec::as_slice).collect();
        let areas = [0, 1].map(|rank| RankAreas { rank, process: &process, threads: &threads });
        for named in collect(&self.unit, &areas) {
            let _ = (
                named.value.as_ref().and_then(trimtab_snippet::values::Value::mean),
                serde_json::to_string(&named).map(|text| text.len()),
            );
        }
        // The ring is a megabyte: read now and then.
        if !seldom {
            return threads.len();
        }
        let (ring, head) = script.messages(&self.unit);
        let mut position = head.saturating_sub(ring.len() as u64);
        for _ in 0..MESSAGES_MAX {
            let Some(message) = read_message(&ring, position).filter(|message| message.bytes > 0) else { break };
            position = position.wrapping_add(message.bytes);
        }
        threads.len()
    }
}

impl Target for SharedMemory {
    /// A slot or a thread's area that is taken, with a few numbers in it.
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let Geometry { slots_offset, slot_stride, thread_areas_offset, thread_area_stride, .. } = self.geometry;
        let starts =
            [slots_offset, slots_offset + slot_stride, thread_areas_offset, thread_areas_offset + thread_area_stride];
        let tables = [self.geometry.links_offset, self.geometry.stats_offset, 0];
        let seed = |start: u64, table: u64| {
            let offsets = (0..12).map(|word| start + 8 * word).chain((0..6).map(|word| start + table + 8 * word));
            let places = offsets.filter_map(|offset| self.places.iter().position(|place| *place as u64 == offset / 8));
            let words = places
                .zip(1_u64..)
                .map(|(place, value)| [&(place as u16).to_le_bytes()[..], &value.to_le_bytes()].concat());
            words.collect::<Vec<_>>().concat()
        };
        Ok(starts.iter().flat_map(|start| tables.map(|table| seed(*start, table))).collect())
    }

    fn length_max(&self) -> usize {
        32 * WRITE_BYTES
    }

    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, other: &[u8]) {
        mutator.change(input, other, &[]);
        input.truncate(input.len() / WRITE_BYTES * WRITE_BYTES);
    }

    fn run(&mut self, input: &[u8]) -> bool {
        while let Some((place, before)) = self.before.pop() {
            self.words[place].store(before, Relaxed);
        }
        for write in input.chunks_exact(WRITE_BYTES) {
            let place = self.places[usize::from(u16::from_le_bytes([write[0], write[1]])) % self.places.len()];
            let value = write[2..].try_into().map(u64::from_le_bytes).unwrap_or_default();
            self.before.push((place, self.words[place].swap(value, Relaxed)));
        }
        let view = View::laid_out(&self.words, &self.geometry);
        let is_something = view.slots().next().is_some();
        let _ = self.read_window(view);
        self.read_script(view, input.last().is_some_and(|byte| byte % 32 == 1)) > 0 || is_something
    }
}

/// The header, the beginnings of both slots and their tables, and the script's areas with the beginning of the ring.
fn places(geometry: &Geometry, unit: &Unit) -> Vec<usize> {
    const HEADER_BYTES: u64 = 2048;
    const TABLE_BYTES: u64 = 256;
    let mut ranges = vec![(0, HEADER_BYTES), (geometry.pool_offset, 64), (geometry.marks_offset, 64)];
    for slot in 0..geometry.slot_count {
        let at = geometry.slots_offset + slot * geometry.slot_stride;
        ranges.push((at, geometry.stats_offset));
        for table in [geometry.stats_offset, geometry.links_offset, geometry.ring_offset, geometry.details_offset] {
            ranges.push((at + table, TABLE_BYTES));
        }
    }
    ranges.push((geometry.process_area_offset, u64::from(unit.process_bytes) + TABLE_BYTES));
    for thread in 0..2 {
        ranges.push((geometry.thread_areas_offset + thread * geometry.thread_area_stride, unit.thread_bytes.into()));
    }
    let length = geometry.data_length;
    let words = ranges.into_iter().flat_map(|(at, bytes)| (at..(at + bytes).min(length)).step_by(8));
    words.map(|at| at as usize / 8).collect()
}

/// Everything a window reads of a thread's slot.
fn read_slot(view: View<'_>, slot: &SlotView<'_>, geometry: &Geometry) -> u64 {
    let mut seen = slot.slot.ring_written.load(Relaxed);
    let written = seen;
    for index in written.saturating_sub(geometry.ring_capacity)..written {
        seen ^= slot.call(index).site.load(Relaxed);
    }
    for function in 0..geometry.function_count {
        let kept = slot.stat(function).details.load(Relaxed).min(geometry.detail_capacity);
        for index in 0..kept {
            seen ^= slot.detail(function, index).enter_ticks.load(Relaxed);
        }
    }
    for link in slot.links() {
        seen ^= link.bytes.load(Relaxed);
    }
    let comms = slot.slot.comm_count.load(Relaxed).min(COMMS_MAX);
    for entry in &slot.slot.comms[..comms as usize] {
        let first = entry.pool.load(Relaxed);
        let size = entry.size.load(Relaxed);
        let members: Option<Vec<i32>> = (0..size).map(|member| view.pool(first.checked_add(member)?)).collect();
        seen ^= members.map_or(0, |members| members.len() as u64);
    }
    seen
}
