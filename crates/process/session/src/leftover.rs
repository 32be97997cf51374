//! What a killed trimtab left in a process: find it, and undo it.
//!
//! The descriptor in the target's shared memory lists every mapping and every patch with its original bytes, under a
//! checksum. It comes from outside as far as we are concerned: nothing in it is believed before it has been checked
//! against the process's own mappings.
//!
//! Next: `remove::restore` does the work.

use crate::error::Error;
use crate::modules::check_own_memory;
use crate::pages::{PageWrites, PatchBytes};
use crate::remove::{self, Removal, TRIES_MAX, Target, is_ours, open_descriptors, rest};
use crate::threads::{Ranges, is_making_calls};
use trimtab_os::{Gadgets, Mapping, MappingTable, Memory, Stopped, find_gadgets, start_time_ticks};
use trimtab_stub::layout::{Geometry, Header, MAGIC, MAPPINGS_MAX, MappingRecord, PAGE, PatchRecord, checksum};
use trimtab_types::Pid;

/// Most patches a descriptor may list.
const PATCHES_MAX: u64 = 4_000_000;
/// Looks at a process before what is found there is called damaged.
const LOOKS_MAX: usize = 8;
/// Most slots a geometry may have.
const SLOTS_MAX: u64 = 65_536;

/// What was found in a process.
#[derive(Debug)]
pub enum Leftover {
    /// Nothing.
    None,
    /// Memory that was mapped before any patch was written; it is unmapped by [`undo`].
    Unfinished(Vec<(u64, u64)>),
    /// A complete descriptor.
    Complete {
        /// Process id of its maker.
        monitor: Pid,
        /// Whether that process still runs.
        monitor_runs: bool,
        /// Number of patches.
        patches: usize,
        #[doc(hidden)]
        target: Box<UndoTarget>,
    },
}

/// All that is needed to undo a leftover.
#[derive(Debug)]
pub struct UndoTarget(Target);

/// Looks for memory of another trimtab. Where there is some, calls that it asked for and that are still to be made are
/// waited for, which stops the process for a moment.
pub fn find(pid: Pid) -> Result<Leftover, Error> {
    check_own_memory(pid)?;
    match look(pid)? {
        found @ (Leftover::None | Leftover::Complete { monitor_runs: true, .. }) => Ok(found),
        _ => {
            wait_for_calls(pid)?;
            look(pid)
        }
    }
}

/// Looks until what is found makes sense: a process that ends, executes another program or changes its mappings while we
/// look shows half of the one and half of the other.
fn look(pid: Pid) -> Result<Leftover, Error> {
    for attempt in 0..LOOKS_MAX {
        match look_once(pid) {
            Err(Error::Descriptor { .. }) => std::thread::sleep(rest(attempt)),
            other => return other,
        }
    }
    look_once(pid)
}

fn wait_for_calls(pid: Pid) -> Result<(), Error> {
    for attempt in 0..TRIES_MAX {
        let gadgets = find_gadgets(pid, &Memory::open(pid)?, &MappingTable::of(pid)?)?;
        let stopped = Stopped::stop(pid)?;
        let wait = is_making_calls(&stopped, &gadgets);
        stopped.resume();
        if !wait {
            break;
        }
        std::thread::sleep(rest(attempt));
    }
    Ok(())
}

fn look_once(pid: Pid) -> Result<Leftover, Error> {
    let maps = MappingTable::of(pid)?;
    let Some(first) = maps.0.iter().find(|mapping| is_ours(mapping) && mapping.offset == 0) else {
        return Ok(match ours(&maps) {
            found if found.is_empty() && open_descriptors(pid).is_empty() => Leftover::None,
            found => Leftover::Unfinished(found),
        });
    };
    let memory = Memory::open(pid)?;
    let descriptor = read_descriptor(pid, &memory, first)?;
    let Some(raw) = descriptor else { return Ok(Leftover::Unfinished(ours(&maps))) };
    let gadgets = find_gadgets(pid, &memory, &maps)?;
    let target = raw.check(pid, &maps, gadgets)?;
    let monitor = Pid(raw.monitor_pid as i32);
    Ok(Leftover::Complete {
        monitor,
        monitor_runs: start_time_ticks(monitor).is_some_and(|start| start == raw.monitor_start),
        patches: target.patches.patches().len(),
        target: Box::new(UndoTarget(target)),
    })
}

/// Restores the process. Refuses while the maker still runs.
pub fn undo(pid: Pid, leftover: &Leftover) -> Result<Removal, Error> {
    match leftover {
        Leftover::None => Ok(Removal::default()),
        Leftover::Complete { monitor, monitor_runs: true, .. } => Err(Error::InUse { pid, monitor: *monitor }),
        Leftover::Complete { target, .. } => remove::restore(pid, &target.0),
        Leftover::Unfinished(mappings) => {
            let maps = MappingTable::of(pid)?;
            let memory = Memory::open(pid)?;
            let target = Target {
                header: mappings.first().map_or(0, |(address, _)| *address),
                gates: Vec::new(),
                arenas: mappings.iter().map(|(address, length)| *address..address + length).collect(),
                mappings: mappings.clone(),
                patches: PageWrites::default(),
                geometry: Geometry::default(),
                gadgets: find_gadgets(pid, &memory, &maps)?,
                functions: (Ranges::default(), 0..0),
                abandoned: true,
            };
            remove::restore(pid, &target)
        }
    }
}

/// Restores a process that was forked while this very process had its parent patched: it carries the patches, dormant
/// behind a closed gate. Otherwise as [`undo`]. Not for a process that is being measured: its islands would go.
pub fn undo_inherited(pid: Pid, leftover: &Leftover) -> Result<Removal, Error> {
    match leftover {
        Leftover::Complete { monitor, target, .. } if monitor.0 == std::process::id() as i32 => {
            remove::restore(pid, &target.0)
        }
        other => undo(pid, other),
    }
}

fn ours(maps: &MappingTable) -> Vec<(u64, u64)> {
    maps.0
        .iter()
        .filter(|mapping| is_ours(mapping))
        .map(|mapping| (mapping.start, mapping.end - mapping.start))
        .collect()
}

/// A descriptor as read, not yet believed.
struct Raw {
    geometry: Geometry,
    monitor_pid: u64,
    monitor_start: u64,
    base: u64,
    mappings: Vec<MappingRecord>,
    patches: Vec<u8>,
    checksum: u64,
    checked: Vec<u8>,
}

fn read_descriptor(pid: Pid, memory: &Memory, first: &Mapping) -> Result<Option<Raw>, Error> {
    let length = first.end - first.start;
    // Mapped, but the file never grew: its maker was killed right there, and no page can be read.
    let Ok(page) = memory.read_vec(first.start, size_of::<Header>().min(length as usize)) else { return Ok(None) };
    let read = |offset: u64, length: usize| memory.read_vec(first.start + offset, length).ok();
    Raw::parse(&page, length, &read).map_err(|reason| Error::Descriptor { pid, reason: reason.to_string() })
}

impl Raw {
    /// Takes a descriptor apart. `page` begins with the header, `length` is the mapping's, `read` gives further bytes of
    /// it. `None`: not a finished descriptor.
    fn parse(
        page: &[u8],
        length: u64,
        read: &dyn Fn(u64, usize) -> Option<Vec<u8>>,
    ) -> Result<Option<Raw>, &'static str> {
        use std::mem::offset_of;
        let Some(page) = page.get(..size_of::<Header>()) else { return Ok(None) };
        let word = |offset: usize| {
            let raw: [u8; 8] = page[offset..offset + 8].try_into().unwrap_or_default();
            u64::from_le_bytes(raw)
        };
        if word(offset_of!(Header, magic)) != MAGIC {
            return Ok(None);
        }
        let geometry_at = offset_of!(Header, geometry);
        let geometry = Geometry::from_words(|index| word(geometry_at + index * 8));
        let patch_bytes = geometry.patch_count.min(PATCHES_MAX) * size_of::<PatchRecord>() as u64;
        let patches_end = geometry.patches_offset.checked_add(patch_bytes);
        if geometry.patch_count > PATCHES_MAX || patches_end.is_none_or(|end| end > length) {
            return Err("its list of patches does not fit");
        }
        let patches = read(geometry.patches_offset, patch_bytes as usize).ok_or("its patches can't be read")?;
        let count = word(offset_of!(Header, mapping_count)).min(MAPPINGS_MAX as u64) as usize;
        let mappings_at = offset_of!(Header, mappings);
        let record = |index: usize| {
            let at = mappings_at + index * size_of::<MappingRecord>();
            MappingRecord { address: word(at), length: word(at + 8) }
        };
        let mut checked = page[geometry_at..geometry_at + size_of::<Geometry>()].to_vec();
        let count_at = offset_of!(Header, mapping_count);
        checked.extend(&page[count_at..count_at + 8 + MAPPINGS_MAX * size_of::<MappingRecord>()]);
        checked.extend(word(offset_of!(Header, base)).to_le_bytes());
        checked.extend(&patches);
        Ok(Some(Raw {
            geometry,
            monitor_pid: word(offset_of!(Header, monitor_pid)),
            monitor_start: word(offset_of!(Header, monitor_start)),
            base: word(offset_of!(Header, base)),
            mappings: (0..count).map(record).collect(),
            patches,
            checksum: word(offset_of!(Header, checksum)),
            checked,
        }))
    }

    /// Believes only what agrees with the process's own mappings.
    fn check(&self, pid: Pid, maps: &MappingTable, gadgets: Gadgets) -> Result<Target, Error> {
        let bad = |reason: &str| Error::Descriptor { pid, reason: reason.to_string() };
        if checksum(&self.checked) != self.checksum {
            return Err(bad("its checksum is wrong"));
        }
        let slots = self.geometry.slot_count.checked_mul(self.geometry.slot_stride);
        let slots_end = slots.and_then(|bytes| bytes.checked_add(self.geometry.slots_offset));
        let fits = slots_end.is_some_and(|end| end <= self.geometry.data_length && end < 1 << 46);
        if self.geometry.slot_count > SLOTS_MAX || !fits || self.mappings.len().is_multiple_of(2) {
            return Err(bad("its sizes make no sense"));
        }
        let ours_at = |record: &MappingRecord| maps.at(record.address).is_some_and(is_ours);
        let mut gates = Vec::new();
        let mut arenas = Vec::new();
        let mut mappings = vec![(self.mappings[0].address, self.mappings[0].length)];
        for pair in self.mappings[1..].chunks_exact(2) {
            if pair[0].length != PAGE || pair[0].address.checked_add(PAGE) != Some(pair[1].address) {
                return Err(bad("its sizes make no sense"));
            }
            if !ours_at(&pair[1]) {
                // Its maker was killed before it was mapped, or after it was unmapped together with its gate.
                continue;
            }
            let is_gate = |m: &Mapping| {
                let is_one_page = m.start == pair[0].address && m.end == m.start + PAGE;
                is_one_page && m.inode == 0 && m.writable && !m.executable
            };
            if maps.at(pair[0].address).is_some_and(is_gate) {
                gates.push(pair[0].address);
                mappings.push((pair[0].address, pair[0].length));
            }
            arenas.push(pair[1].address..pair[1].address.saturating_add(pair[1].length));
            mappings.push((pair[1].address, pair[1].length));
        }
        if self.mappings[0].address != self.base || !ours_at(&self.mappings[0]) {
            return Err(bad("it lies elsewhere than it says"));
        }
        Ok(Target {
            header: self.base,
            gates,
            arenas,
            mappings,
            patches: PageWrites::new(self.patches(pid, maps)?),
            geometry: self.geometry,
            gadgets,
            functions: (Ranges::default(), 0..0),
            abandoned: true,
        })
    }

    fn patches(&self, pid: Pid, maps: &MappingTable) -> Result<Vec<PatchBytes>, Error> {
        let bad = |reason: &str| Error::Descriptor { pid, reason: reason.to_string() };
        let mut patches = Vec::new();
        for raw in self.patches.chunks_exact(size_of::<PatchRecord>()) {
            let record = PatchRecord::from_bytes(raw).ok_or_else(|| bad("a patch it lists is impossible"))?;
            // The program may have unmapped a library meanwhile, and the patch with it.
            let Some(mapping) = maps.at(record.address) else { continue };
            if !mapping.executable {
                return Err(bad("a patch it lists is not in code"));
            }
            let length = record.length as usize;
            let (original, patched) = (record.original[..length].to_vec(), record.patched[..length].to_vec());
            patches.push(PatchBytes { address: record.address, original, patched });
        }
        Ok(patches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;
    use trimtab_stub::layout::Needs;
    use trimtab_stub::view::View;
    use trimtab_types::procfs::parse_maps;

    const BASE: u64 = 0x7f00_0000_0000;
    const CODE: u64 = 0x5500_0000_0000;
    const GADGETS: Gadgets = Gadgets { system_call: 0, signal_return: 0 };

    fn maps(data_length: u64) -> MappingTable {
        let (gate, arena) = (CODE - 0x3000, CODE - 0x2000);
        let text = format!(
            "{gate:x}-{arena:x} rw-p 00000000 00:00 0 \n\
             {arena:x}-{:x} r-xs 00001000 00:01 9 /memfd:trimtab (deleted)\n\
             {CODE:x}-{:x} r-xp 00001000 fe:00 77 /bin/app\n\
             {BASE:x}-{:x} rw-s 00000000 00:01 9 /memfd:trimtab (deleted)\n",
            arena + 0x1000,
            CODE + 0x1000,
            BASE + data_length
        );
        MappingTable(parse_maps(text.as_bytes()).expect("a map"))
    }

    /// A descriptor as an insertion writes it, and the mappings of its process.
    fn good() -> (Vec<u8>, MappingTable) {
        let needs =
            Needs { patches: 2, probes: 1, functions: 1, ranks: 2, details: 0, code: 4096, threads: 1, areas: None };
        let geometry = Geometry::for_needs(&needs);
        let words: Vec<AtomicU64> = (0..geometry.requests_offset / 8 + 1).map(|_| AtomicU64::new(0)).collect();
        let view = View::new(&words);
        view.set_geometry(&geometry);
        let records = [(BASE, geometry.data_length), (CODE - 0x3000, PAGE), (CODE - 0x2000, PAGE)];
        let records = records.map(|(address, length)| MappingRecord { address, length });
        view.set_mappings(&records);
        for index in 0..2 {
            let address = CODE + 16 * index;
            view.set_patch(index, &PatchRecord { address, length: 5, original: [0x90; 32], patched: [0xe9; 32] });
        }
        view.header().base.store(BASE, Relaxed);
        view.header().magic.store(MAGIC, Relaxed);
        view.header().checksum.store(view.descriptor_checksum(), Relaxed);
        (view.read_bytes(0, words.len() * 8), maps(geometry.data_length))
    }

    fn judge(bytes: &[u8], maps: &MappingTable) -> Result<Option<Target>, String> {
        let read =
            |offset: u64, length: usize| bytes.get(offset as usize..offset as usize + length).map(<[u8]>::to_vec);
        let length = maps.at(BASE).map_or(0, |mapping| mapping.end - mapping.start);
        match Raw::parse(bytes, length, &read)? {
            Some(raw) => raw.check(Pid(1), maps, GADGETS).map(Some).map_err(|error| error.to_string()),
            None => Ok(None),
        }
    }

    #[test]
    fn a_good_descriptor_is_believed() {
        let (bytes, maps) = good();
        let target = judge(&bytes, &maps).expect("is good").expect("is finished");
        let patches = target.patches.patches();
        assert_eq!(patches.len(), 2);
        let second = PatchBytes { address: CODE + 16, original: vec![0x90; 5], patched: vec![0xe9; 5] };
        assert_eq!(patches[1], second);
        assert_eq!(target.gates, [CODE - 0x3000]);
    }

    #[test]
    fn an_unfinished_one_is_no_descriptor() {
        let (mut bytes, maps) = good();
        bytes[..8].fill(0);
        assert!(judge(&bytes, &maps).expect("no error").is_none());
        assert!(judge(&bytes[..100], &maps).expect("no error").is_none());
    }

    #[test]
    fn only_mappings_that_are_there_are_believed() {
        let (bytes, maps) = good();
        let without = |missing: usize| {
            let mut fewer = maps.clone();
            fewer.0.remove(missing);
            judge(&bytes, &fewer)
        };
        // The maker was killed before it mapped them, or after it had unmapped them.
        let no_gate = without(0).expect("is good").expect("is finished");
        assert_eq!((no_gate.gates.len(), no_gate.arenas.len()), (0, 1));
        let no_arena = without(1).expect("is good").expect("is finished");
        assert_eq!((no_arena.gates.len(), no_arena.arenas.len(), no_arena.mappings.len()), (0, 0, 1));
        let no_library = without(2).expect("is good").expect("is finished");
        assert_eq!((no_library.patches.patches().len(), no_library.arenas.len()), (0, 1), "unmapped with its patches");
        let mut data = maps.clone();
        data.0[2].executable = false;
        assert!(judge(&bytes, &data).is_err(), "its patches lie in no code");
    }

    proptest! {
        /// Whatever the bytes: no panic, and nothing is believed that was changed.
        #[test]
        fn damaged_descriptors_are_refused(changes in prop::collection::vec((8usize..4096, any::<u8>()), 1..6)) {
            let (good_bytes, maps) = good();
            let mut bytes = good_bytes.clone();
            for (place, value) in changes {
                let place = place % bytes.len();
                bytes[place] = value;
            }
            if let Ok(Some(target)) = judge(&bytes, &maps) {
                // Only what the checksum does not cover may differ: monitor, state, settings.
                let truth = judge(&good_bytes, &maps).expect("is good").expect("is finished");
                prop_assert_eq!(target.patches.patches(), truth.patches.patches());
                prop_assert_eq!(target.mappings, truth.mappings);
            }
        }
    }
}
