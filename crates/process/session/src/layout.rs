//! Where everything of one insertion will lie, and how a process and a later trimtab are told.
//!
//! Next: `insert` lays it out; `mapping` makes the memory.

use std::sync::atomic::Ordering::Relaxed;
use trimtab_plan::{ArenaPlace, Plan};
use trimtab_stub::layout::{GROUPS_MAX, Geometry, MappingRecord, PAGE, PATCH_BYTES_MAX, PatchRecord, Probe, flag};
use trimtab_stub::view::View;
use trimtab_types::{Pid, ProcAddr};

/// Where everything will lie, and what will be written.
pub(crate) struct Layout {
    pub header: ProcAddr,
    pub places: Vec<ArenaPlace>,
    pub geometry: Geometry,
    pub plan: Plan,
    /// The unwinder finds a table for each instruction of the code.
    pub frames_are_whole: bool,
}

/// Writes everything the target and a later trimtab must know, except the magic word.
pub(crate) fn describe(view: View<'_>, layout: &Layout, probes: &[Probe]) {
    view.set_geometry(&layout.geometry);
    let header = view.header();
    header.base.store(layout.header.0, Relaxed);
    header.monitor_pid.store(u64::from(std::process::id()), Relaxed);
    header.monitor_start.store(trimtab_os::start_time_ticks(Pid(std::process::id() as i32)).unwrap_or(0), Relaxed);
    view.set_mappings(&mapping_records(layout));
    for (index, patch) in layout.plan.patches.iter().enumerate() {
        view.set_patch(index as u64, &patch_record(patch));
    }
    // The last function's numbers are the calibration's; nobody reads them.
    let calibration = calibration_probe(layout.geometry.function_count as u32 - 1);
    for (index, probe) in probes.iter().chain([&calibration]).enumerate() {
        view.set_probe(index as u64, probe);
    }
    // Nothing is limited unless the caller says so.
    for function in 0..layout.geometry.function_count {
        view.limit(function).look_at_calls.store(u64::MAX, Relaxed);
    }
    header.calibration.store(layout.plan.calibration.0, Relaxed);
    let mut offset = layout.geometry.data_length;
    for (code, place) in layout.plan.arenas.iter().zip(&layout.places) {
        view.write_bytes(offset, code);
        offset += place.capacity;
    }
    header.checksum.store(view.descriptor_checksum(), Relaxed);
}

/// Timed and in the ring, in a group of its own.
fn calibration_probe(function: u32) -> Probe {
    let flags = flag::TIMED | flag::RING;
    Probe { function, group: GROUPS_MAX as u8 - 1, flags, ..Probe::ABSENT }
}

/// Shared memory first, then gate and code of each arena: `leftover` relies on this order.
fn mapping_records(layout: &Layout) -> Vec<MappingRecord> {
    let mut records = vec![MappingRecord { address: layout.header.0, length: layout.geometry.data_length }];
    for place in &layout.places {
        records.push(MappingRecord { address: place.gate.0, length: PAGE });
        records.push(MappingRecord { address: place.code.0, length: place.capacity });
    }
    records
}

fn patch_record(patch: &trimtab_plan::Patch) -> PatchRecord {
    let padded = |bytes: &[u8]| {
        let mut padded = [0; PATCH_BYTES_MAX];
        padded[..bytes.len()].copy_from_slice(bytes);
        padded
    };
    PatchRecord {
        address: patch.address.0,
        length: patch.patched.len() as u64,
        original: padded(&patch.original),
        patched: padded(&patch.patched),
    }
}
