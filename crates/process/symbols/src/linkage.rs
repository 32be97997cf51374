//! Calls that leave a file, or whose target is chosen at start: GOT slots the loader fills, and the stubs (PLT) that
//! jump through them.
//!
//! A slot is where the address of another file's function, or of the one an IFUNC's resolver chose, is to be read in
//! a running process. A stub is the code a call of such a function arrives at first. Both are found through the
//! dynamic section where there is one, and through section headers in static programs, whose start-up code resolves
//! IFUNCs itself.
//!
//! Next: `machine` for what relocations and stubs look like, [`crate::image`] for look-ups.

use crate::dynamic::Dynamic;
use crate::elf::{ENDIAN, Elf, Mapped};
use crate::machine::Relocation;
use crate::parts::{Frame, FrameKind, Slot, SlotTarget, Stub};
use crate::{Machine, symtab};
use object::LittleEndian;
use object::elf::Rela64;
use object::pod;
use std::collections::BTreeMap;
use trimtab_types::FileAddr;

/// Slots kept at most; the largest libraries have some ten thousand.
const SLOTS_MAX: usize = 1 << 20;
/// All names of slots together may take this many times the file's length.
const NAMES_TO_FILE_MAX: usize = 2;
/// Stubs without section headers begin at multiples of this, in bytes.
const STUB_ALIGNMENT_BYTES: u64 = 16;
/// From one stub to the next where nothing but the jump is in them.
const PACKED_STUB_BYTES: u64 = 8;

/// All slots by ascending address.
pub(crate) fn slots(elf: &Elf, dynamic: &Dynamic, problems: &mut Vec<String>) -> Vec<Slot> {
    let names = symtab::dynamic_names(elf, dynamic);
    let mut budget = elf.bytes.len().saturating_mul(NAMES_TO_FILE_MAX);
    let mut slots = BTreeMap::new();
    for table in tables(elf, dynamic) {
        for entry in table {
            let Some(kind) = elf.machine().relocation(entry.r_info.get(ENDIAN) as u32) else { continue };
            let target = match kind {
                Relocation::Resolve => SlotTarget::Resolved(FileAddr(entry.r_addend.get(ENDIAN).cast_unsigned())),
                Relocation::Import => match names(entry.r_info.get(ENDIAN) >> 32, &mut budget) {
                    Some(name) => SlotTarget::Import(name.to_string()),
                    None => continue,
                },
            };
            slots.entry(FileAddr(entry.r_offset.get(ENDIAN))).or_insert(target);
            if slots.len() >= SLOTS_MAX {
                problems.push(format!("relocations: more than {SLOTS_MAX} slots, the others are left out"));
                break;
            }
        }
    }
    slots.into_iter().map(|(addr, target)| Slot { addr, target }).collect()
}

/// All stubs by ascending address: in sections named as linkage tables, else wherever one jumps through a known slot.
pub(crate) fn stubs(elf: &Elf, slots: &[Slot], frames: &[Frame]) -> Vec<Stub> {
    let machine = elf.machine();
    let mut stubs = Vec::new();
    if elf.sections.is_some() {
        for (table, step) in elf.linkage_tables() {
            let step = if is_packed(machine, &table) { PACKED_STUB_BYTES } else { step };
            stubs.extend(stubs_from(machine, &table, 0, step));
        }
    } else {
        let known = |stub: &Stub| slots.binary_search_by_key(&stub.slot, |slot| slot.addr).is_ok();
        for segment in elf.segments().iter().filter(|segment| segment.executable) {
            let Some(code) = elf.bytes_from(segment.addr.0) else { continue };
            let skip = code.addr.wrapping_neg() % STUB_ALIGNMENT_BYTES;
            for stub in stubs_from(machine, &code, skip as usize, STUB_ALIGNMENT_BYTES).filter(known) {
                if !is_in_function(frames, stub.addr, stubs.last()) {
                    stubs.push(stub);
                }
            }
        }
    }
    stubs.sort_by_key(|stub| stub.addr);
    stubs.dedup_by_key(|stub| stub.addr);
    stubs
}

/// True if the first two stubs of a table follow each other closely, as in static programs, whose section headers may
/// tell another length.
fn is_packed(machine: Machine, table: &Mapped<'_>) -> bool {
    let is_stub = |at: usize| {
        let code = table.bytes.get(at..at + PACKED_STUB_BYTES as usize);
        code.is_some_and(|code| machine.stub_slot(code, table.addr.wrapping_add(at as u64)).is_some())
    };
    is_stub(0) && is_stub(PACKED_STUB_BYTES as usize)
}

/// Stubs that begin at every `step`-th byte, the first `skip` left out.
fn stubs_from<'a>(machine: Machine, code: &Mapped<'a>, skip: usize, step: u64) -> impl Iterator<Item = Stub> + use<'a> {
    let (bytes, base) = (code.bytes, code.addr);
    let places = (skip..bytes.len()).step_by(step.max(1) as usize);
    places.filter_map(move |at| {
        let addr = base + at as u64;
        let slot = machine.stub_slot(&bytes[at..bytes.len().min(at + step as usize)], addr)?;
        Some(Stub { addr: FileAddr(addr), size: step, slot: FileAddr(slot) })
    })
}

/// True if code at `addr` is the middle of something that is called at its beginning. A table may have one unwind entry
/// for all its stubs: then the stub before it belongs to it too.
fn is_in_function(frames: &[Frame], addr: FileAddr, before: Option<&Stub>) -> bool {
    let after = frames.partition_point(|frame| frame.addr <= addr);
    let around = frames[..after].last().filter(|frame| addr.0 - frame.addr.0 < frame.size);
    let follows_a_stub = before.is_some_and(|stub| addr.0.wrapping_sub(stub.addr.0) == stub.size);
    around.is_some_and(|frame| frame.kind == FrameKind::Entry && frame.addr != addr && !follows_a_stub)
}

/// The relocation tables that are applied when the program starts.
pub(crate) fn tables<'a>(elf: &Elf<'a>, dynamic: &Dynamic) -> Vec<&'a [Rela64<LittleEndian>]> {
    let by_dynamic = dynamic.relocations.iter().filter(|(addr, _)| *addr != 0).filter_map(|&(addr, size)| {
        let area = elf.bytes_from(addr)?;
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(area.bytes.len());
        entries(&area.bytes[..size])
    });
    let mut tables: Vec<_> = by_dynamic.collect();
    if !dynamic.is_present {
        tables.extend(elf.loaded_relocations().filter_map(|area| entries(area.bytes)));
    }
    tables
}

fn entries(bytes: &[u8]) -> Option<&[Rela64<LittleEndian>]> {
    let count = bytes.len() / size_of::<Rela64<LittleEndian>>();
    pod::slice_from_bytes(bytes, count).ok().map(|(entries, _)| entries)
}
