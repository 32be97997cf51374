//! The remains of a killed trimtab in a process: find them, and undo them.
//!
//! The descriptor in the target's shared memory lists every mapping and every patch with its original bytes, under a
//! checksum. It comes from outside as far as we are concerned: nothing in it is believed before it has been checked
//! against the process's own mappings.
//!
//! Next: `restore` does the work.

use crate::claim::Claim;
use crate::error::Error;
use crate::mapped::{check_own_memory, is_ours, open_descriptors};
use crate::own_holds::is_gathering;
use crate::pages::{PageWrites, PatchBytes};
use crate::remove::{joined, restore};
use crate::target::{Removal, Target};
use crate::threads::{Ranges, is_making_calls};
use crate::waiting::{TRIES_MAX, rest};
use trimtab_os::{Gadgets, Mapping, MappingTable, Memory, Stopped, find_gadgets, runs_since};
use trimtab_stub::layout::{Geometry, Header, MAGIC, MAPPINGS_MAX, MappingRecord, PAGE, PatchRecord, checksum};
use trimtab_types::Pid;

/// Most patches a descriptor may list.
const PATCHES_MAX: u64 = 4_000_000;
/// Looks at a process before what is found there is called damaged.
const LOOKS_MAX: usize = 8;
/// Most slots a geometry may have.
const SLOTS_MAX: u64 = 65_536;

/// The remains that were found in a process.
#[derive(Debug)]
pub enum Leftover {
    /// Nothing.
    None,
    /// Memory that was mapped before any patch was written; it is unmapped by [`undo`].
    Unfinished(Vec<(u64, u64)>),
    /// Complete descriptors: one, and one more for each library that was waited for and came.
    Complete {
        /// Process id of their maker; of one that still runs, if there are several.
        monitor: Pid,
        /// True if that process still runs.
        monitor_runs: bool,
        /// Number of patches.
        patches: usize,
        #[doc(hidden)]
        targets: Vec<UndoTarget>,
    },
}

impl Leftover {
    /// The data needed to undo it, if it is complete and there is but one; true if its maker runs.
    pub(crate) fn only_target(&self) -> Option<(&Target, bool)> {
        match self {
            Leftover::Complete { targets, monitor_runs, .. } => match targets.as_slice() {
                [UndoTarget(target)] => Some((target, *monitor_runs)),
                _ => None,
            },
            Leftover::None | Leftover::Unfinished(_) => None,
        }
    }
}

/// All that is needed to undo a leftover.
#[derive(Debug)]
pub struct UndoTarget(Target);

/// Looks for memory of another trimtab. Where there is some, calls that it asked for and that are still to be made are
/// waited for, which stops the process for a moment.
pub fn find(pid: Pid) -> Result<Leftover, Error> {
    check_own_memory(pid)?;
    found_or_awaited(pid, look(pid)?)
}

/// As [`find`], in mappings that were read a moment ago.
///
/// # Errors
/// As [`find`].
pub fn find_in(pid: Pid, maps: &MappingTable) -> Result<Leftover, Error> {
    check_own_memory(pid)?;
    let found = match look_in(pid, maps) {
        Err(Error::Descriptor { .. }) => look(pid),
        found => found,
    };
    found_or_awaited(pid, found?)
}

fn found_or_awaited(pid: Pid, found: Leftover) -> Result<Leftover, Error> {
    match found {
        found @ (Leftover::None | Leftover::Complete { monitor_runs: true, .. }) => Ok(found),
        _ => {
            wait_for_calls(pid)?;
            look(pid)
        }
    }
}

/// As [`find`], and calls of a trimtab that was killed a moment ago are waited for even where nothing came of them yet.
/// This stops the process in any case, if it can be.
pub fn find_also_coming(pid: Pid) -> Result<Leftover, Error> {
    check_own_memory(pid)?;
    // In a process that can't be stopped nobody makes calls for us.
    let _cannot = wait_for_calls(pid);
    find(pid)
}

/// Every patch that a trimtab has written into a process and not taken back, this one's among them. Nobody writes or takes
/// back any while the caller has its claim.
pub(crate) fn patches_in(pid: Pid) -> Result<Vec<PatchBytes>, Error> {
    match find(pid)? {
        Leftover::None | Leftover::Unfinished(_) => Ok(Vec::new()),
        Leftover::Complete { targets, .. } => Ok(patches_of(&targets)),
    }
}

/// The patches of what was found.
pub(crate) fn patches_of(targets: &[UndoTarget]) -> Vec<PatchBytes> {
    targets.iter().flat_map(|target| target.0.patches.patches()).cloned().collect()
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

pub(crate) fn wait_for_calls(pid: Pid) -> Result<(), Error> {
    for attempt in 0..TRIES_MAX {
        let gadgets = find_gadgets(pid, &Memory::open(pid)?, &MappingTable::of(pid)?)?;
        let stopped = Stopped::stop(pid)?;
        let wait = is_making_calls(&stopped, &gadgets);
        stopped.resume();
        if !wait {
            return Ok(());
        }
        std::thread::sleep(rest(attempt));
    }
    Err(Error::CallsPending { pid })
}

fn look_once(pid: Pid) -> Result<Leftover, Error> {
    look_in(pid, &MappingTable::of(pid)?)
}

pub(crate) fn look_in(pid: Pid, maps: &MappingTable) -> Result<Leftover, Error> {
    let memory = Memory::open(pid)?;
    let others = |mapping: &&Mapping| is_ours(mapping) && !is_gathering(pid, mapping);
    let first_parts = maps.0.iter().filter(others).filter(|mapping| mapping.offset == 0);
    let mut complete: Vec<Raw> = Vec::new();
    for first in first_parts {
        complete.extend(read_descriptor(pid, &memory, first)?);
    }
    if complete.is_empty() {
        return Ok(match ours(pid, maps) {
            found if found.is_empty() && open_descriptors(pid).is_empty() => Leftover::None,
            found => Leftover::Unfinished(found),
        });
    }
    let gadgets = find_gadgets(pid, &memory, maps)?;
    let targets = complete.iter().map(|raw| Ok(UndoTarget(raw.check(pid, maps, gadgets)?)));
    let targets = targets.collect::<Result<Vec<UndoTarget>, Error>>()?;
    let running = complete.iter().find(|raw| raw.monitor_runs());
    Ok(Leftover::Complete {
        monitor: Pid(running.unwrap_or(&complete[0]).monitor_pid as i32),
        monitor_runs: running.is_some(),
        patches: targets.iter().map(|target| target.0.patches.patches().len()).sum(),
        targets,
    })
}

/// Restores the process. Refuses while the maker still runs.
pub fn undo(pid: Pid, leftover: &Leftover) -> Result<Removal, Error> {
    let _claim = Claim::of(pid)?;
    match leftover {
        Leftover::None => Ok(Removal::default()),
        Leftover::Complete { monitor, monitor_runs: true, .. } => Err(Error::InUse { pid, monitor: *monitor }),
        Leftover::Complete { targets, .. } => {
            let removal = restore_all(pid, targets)?;
            // The memory of one more may have been mapped before any patch of it was written.
            match look(pid)? {
                rest @ Leftover::Unfinished(_) => Ok(removal.and(undo(pid, &rest)?)),
                _ => Ok(removal),
            }
        }
        Leftover::Unfinished(mappings) => {
            let maps = MappingTable::of(pid)?;
            let memory = Memory::open(pid)?;
            let gates = gates_before(pid, &maps, mappings);
            let target = Target {
                header: mappings.first().map_or(0, |(address, _)| *address),
                gates: Vec::new(),
                arenas: mappings.iter().map(|(address, length)| *address..address + length).collect(),
                mappings: mappings.iter().copied().chain(gates).collect(),
                patches: PageWrites::default(),
                finders: Vec::new(),
                geometry: Geometry::default(),
                gadgets: find_gadgets(pid, &memory, &maps)?,
                functions: (Ranges::default(), 0..0),
                abandoned: true,
            };
            restore(pid, &target)
        }
    }
}

/// The gates right before mappings of ours of which no descriptor tells: pages like them in all that can be seen. Nobody
/// else asks for one page without reserve there, and one that the program has used is none.
fn gates_before(pid: Pid, maps: &MappingTable, mappings: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let flags = smaps(pid);
    let starts = mappings.iter().filter_map(|(address, _)| address.checked_sub(PAGE));
    starts.filter(|start| is_untouched_gate(maps, &flags, *start)).map(|start| (start, PAGE)).collect()
}

/// Memory that can't be read is left: a page too many is better than one too few.
fn smaps(pid: Pid) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default()
}

fn is_untouched_gate(maps: &MappingTable, smaps: &str, start: u64) -> bool {
    maps.at(start).is_some_and(|mapping| is_gate(mapping, start)) && is_unused_without_reserve(smaps, start)
}

/// True if a mapping looks as the gate that begins there.
fn is_gate(mapping: &Mapping, start: u64) -> bool {
    let is_one_page = mapping.start == start && mapping.end == start + PAGE;
    is_one_page && mapping.inode == 0 && mapping.writable && !mapping.executable
}

/// True if a page was mapped without reserve and never touched, as the kernel says in `/proc/PID/smaps`.
fn is_unused_without_reserve(smaps: &str, start: u64) -> bool {
    let head = format!("{start:x}-");
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
    let mut is_unused = false;
    // The flags are a mapping's last line.
    let flags = lines.find(|line| {
        is_unused |= line.starts_with("Rss:") && line.split_whitespace().nth(1) == Some("0");
        line.starts_with("VmFlags:")
    });
    is_unused && flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "nr"))
}

/// Restores everything, also what comes behind something that could not be.
fn restore_all(pid: Pid, targets: &[UndoTarget]) -> Result<Removal, Error> {
    let removals: Vec<Result<Removal, Error>> = targets.iter().map(|target| restore(pid, &target.0)).collect();
    removals.into_iter().try_fold(Removal::default(), |all, removal| Ok(all.and(removal?)))
}

/// Restores a process that was forked while this very process had its parent patched: it carries the patches, dormant
/// behind a closed gate. Otherwise as [`undo`]. Not for a process that is being measured: its islands would go.
pub fn undo_inherited(pid: Pid, leftover: &Leftover) -> Result<Removal, Error> {
    match leftover {
        Leftover::Complete { monitor, targets, .. } if monitor.0 == std::process::id() as i32 => {
            restore_all(pid, targets)
        }
        other => undo(pid, other),
    }
}

/// The steps that undoing would take. Public for fuzzing only.
#[doc(hidden)]
#[derive(Debug)]
pub struct JudgedLeftover {
    /// Memory that would be unmapped: address and length.
    pub unmapped: Vec<(u64, u64)>,
    /// Gates that would be closed.
    pub gates: Vec<u64>,
    /// Patches that would be taken back: address, original and patched bytes.
    pub patches: Vec<(u64, Vec<u8>, Vec<u8>)>,
    writes: PageWrites,
}

impl JudgedLeftover {
    /// Takes the patches back in memory that is read and written by these; the places left alone.
    pub fn restore_text(&self, read: &dyn Fn(u64, &mut [u8]) -> bool, write: &mut dyn FnMut(u64, &[u8])) -> Vec<u64> {
        let restored = self.writes.restore_through(read, &mut |start, page, _| {
            write(start, page);
            Ok(())
        });
        restored.unwrap_or_default()
    }
}

/// Judges a descriptor's bytes in a process with these mappings, with a checksum that fits if `sealed`. `None`: it is not
/// finished. Public for fuzzing only.
#[doc(hidden)]
pub fn judge(bytes: &[u8], maps: Vec<Mapping>, sealed: bool) -> Result<Option<JudgedLeftover>, String> {
    let maps = MappingTable(maps);
    let read = |offset: u64, length: usize| {
        let start = usize::try_from(offset).ok()?;
        bytes.get(start..start.checked_add(length)?).map(<[u8]>::to_vec)
    };
    let length = maps.0.iter().find(|mapping| is_ours(mapping) && mapping.writable).map_or(0, Mapping::length);
    let Some(mut raw) = Raw::parse(bytes, length, &read)? else { return Ok(None) };
    if sealed {
        raw.checksum = checksum(&raw.checked);
    }
    let gadgets = Gadgets { system_call: 0, signal_return: 0 };
    let target = raw.check(Pid(0), &maps, gadgets).map_err(|error| error.to_string())?;
    let listed = target.patches.patches().iter();
    let patches = listed.map(|patch| (patch.address, patch.original.clone(), patch.patched.clone())).collect();
    let (unmapped, gates) = (joined(&target.mappings), target.gates);
    Ok(Some(JudgedLeftover { unmapped, gates, patches, writes: target.patches }))
}

fn ours(pid: Pid, maps: &MappingTable) -> Vec<(u64, u64)> {
    maps.0
        .iter()
        .filter(|mapping| is_ours(mapping) && !is_gathering(pid, mapping))
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
    fn monitor_runs(&self) -> bool {
        // The claim may be from the program that this very process was before it executed itself anew, to undo.
        if self.monitor_pid == u64::from(std::process::id()) && !trimtab_os::last_act::has_held() {
            return false;
        }
        runs_since(Pid(self.monitor_pid as i32), self.monitor_start)
    }

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
        let mut geometry = Geometry::from_words(|index| word(geometry_at + index * 8));
        let patch_bytes = geometry.patch_count.min(PATCHES_MAX) * size_of::<PatchRecord>() as u64;
        let patches_end = geometry.patches_offset.checked_add(patch_bytes);
        if geometry.patch_count > PATCHES_MAX || patches_end.is_none_or(|end| end > length) {
            return Err("its list of patches does not fit");
        }
        let mut patches = read(geometry.patches_offset, patch_bytes as usize).ok_or("its patches can't be read")?;
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
        let sum = word(offset_of!(Header, checksum));
        let without = without_patches(&checked);
        // Its maker has taken all patches back, and was killed before it had said that there are none.
        let are_taken_back = geometry.patch_count > 0 && checksum(&without) == sum;
        if are_taken_back {
            (checked, patches, geometry.patch_count) = (without, Vec::new(), 0);
        } else {
            checked.extend(&patches);
        }
        Ok(Some(Raw {
            geometry,
            monitor_pid: word(offset_of!(Header, monitor_pid)),
            monitor_start: word(offset_of!(Header, monitor_start)),
            base: word(offset_of!(Header, base)),
            mappings: (0..count).map(record).collect(),
            patches,
            checksum: sum,
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
                // Its maker was killed before it was mapped, but perhaps after its gate was; or it was unmapped with it.
                if maps.at(pair[0].address).is_some() && is_untouched_gate(maps, &smaps(pid), pair[0].address) {
                    mappings.push((pair[0].address, pair[0].length));
                }
                continue;
            }
            if maps.at(pair[0].address).is_some_and(|mapping| is_gate(mapping, pair[0].address)) {
                gates.push(pair[0].address);
                mappings.push((pair[0].address, pair[0].length));
            }
            arenas.push(pair[1].address..pair[1].address.saturating_add(pair[1].length));
            mappings.push((pair[1].address, pair[1].length));
        }
        if self.mappings[0].address != self.base || !ours_at(&self.mappings[0]) {
            return Err(bad("it lies elsewhere than it says"));
        }
        // Whatever else they cover would be unmapped along with them.
        let is_whole = |record: &MappingRecord| is_all_ours(maps, record.address, record.length);
        let mut covered = self.mappings.iter().step_by(2).filter(|record| ours_at(record));
        if !covered.all(is_whole) || overlap(&mappings) {
            return Err(bad("its mappings are not as it says"));
        }
        Ok(Target {
            header: self.base,
            gates,
            arenas,
            mappings,
            patches: PageWrites::new(self.patches(pid, maps)?),
            finders: self.finders(),
            geometry: self.geometry,
            gadgets,
            functions: (Ranges::default(), 0..0),
            abandoned: true,
        })
    }

    /// Addresses of the patches by which unwind tables are found.
    fn finders(&self) -> Vec<u64> {
        let all = self.patches.chunks_exact(size_of::<PatchRecord>());
        let first = all.len().saturating_sub(self.geometry.frames_patches.min(PATCHES_MAX) as usize);
        all.skip(first).filter_map(PatchRecord::from_bytes).map(|record| record.address).collect()
    }

    fn patches(&self, pid: Pid, maps: &MappingTable) -> Result<Vec<PatchBytes>, Error> {
        let bad = |reason: &str| Error::Descriptor { pid, reason: reason.to_string() };
        let mut patches = Vec::new();
        for raw in self.patches.chunks_exact(size_of::<PatchRecord>()) {
            let record = PatchRecord::from_bytes(raw).ok_or_else(|| bad("a patch it lists is impossible"))?;
            // The program may have unmapped a library meanwhile, and the patch with it.
            let Some(mapping) = maps.at(record.address) else { continue };
            let length = record.length as usize;
            let (original, patched) = (record.original[..length].to_vec(), record.patched[..length].to_vec());
            if !mapping.executable && !holds(pid, record.address, &patched) {
                // Something else has been mapped in its place.
                continue;
            }
            // Shorter than a page, so that code at both ends is code all along.
            let last = maps.at(record.address.saturating_add(record.length.saturating_sub(1)));
            if !mapping.executable || !last.is_some_and(|last| last.executable) {
                return Err(bad("a patch it lists is not in code"));
            }
            patches.push(PatchBytes { address: record.address, original, patched });
        }
        Ok(patches)
    }
}

/// The bytes under the sum of a descriptor that lists no patch, from those of one that does.
fn without_patches(checked: &[u8]) -> Vec<u8> {
    let mut bytes = checked.to_vec();
    let count = std::mem::offset_of!(Geometry, patch_count);
    bytes[count..count + 8].fill(0);
    bytes
}

/// True if a process has these bytes there.
fn holds(pid: Pid, address: u64, bytes: &[u8]) -> bool {
    let now = Memory::open(pid).and_then(|memory| memory.read_vec(address, bytes.len()));
    now.is_ok_and(|now| now == bytes)
}

/// True if all of this memory is shared memory of a trimtab.
fn is_all_ours(maps: &MappingTable, address: u64, length: u64) -> bool {
    let Some(end) = address.checked_add(length).filter(|_| length > 0) else { return false };
    let mut at = address;
    while at < end {
        let Some(mapping) = maps.at(at).filter(|mapping| is_ours(mapping)) else { return false };
        at = mapping.end;
    }
    true
}

/// True if any of these ranges share a byte: one of them would be unmapped twice, the second time perhaps as memory
/// that is somebody else's by then.
fn overlap(ranges: &[(u64, u64)]) -> bool {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0].0.saturating_add(pair[0].1) > pair[1].0)
}

#[cfg(test)]
#[path = "../tests/common/descriptor.rs"]
mod descriptor;

#[cfg(test)]
mod tests {
    use super::descriptor::{BASE, CODE, example, maps_text};
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;
    use trimtab_stub::view::View;
    use trimtab_types::procfs::parse_maps;

    const GADGETS: Gadgets = Gadgets { system_call: 0, signal_return: 0 };

    fn maps(data_length: u64) -> MappingTable {
        MappingTable(parse_maps(maps_text(data_length).as_bytes()).expect("a map"))
    }

    fn good() -> (Vec<u8>, MappingTable) {
        let (bytes, data_length) = example();
        (bytes, maps(data_length))
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

    /// A maker that takes its patches back and says so may be killed between any two stores.
    #[test]
    fn a_descriptor_that_forgets_its_patches_is_believed_at_each_moment() {
        let (bytes, maps) = good();
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
        let words: Vec<AtomicU64> = words.map(AtomicU64::new).collect();
        let view = View::new(&words);
        let patches = || {
            let target = judge(&view.read_bytes(0, bytes.len()), &maps).expect("is good").expect("is finished");
            (target.patches.patches().len(), target.geometry.patch_count)
        };
        let mut seen = vec![patches()];
        for step in view.steps_to_forget_patches() {
            view.take(step);
            seen.push(patches());
        }
        assert_eq!(seen, [(2, 2), (0, 0), (0, 0)]);
        assert_eq!(view.geometry().patch_count, 0);
        assert_eq!(view.header().checksum.load(Relaxed), view.descriptor_checksum());
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
        let replaced = judge(&bytes, &data).expect("is good").expect("is finished");
        assert_eq!(replaced.patches.patches().len(), 0, "something else lies in the library's place");
    }

    /// Rows of what a descriptor says of its mappings: word of the list, and value.
    #[test]
    fn more_memory_than_is_ours_is_never_unmapped() {
        let (bytes, maps) = good();
        let list = std::mem::offset_of!(Header, mappings);
        let count = std::mem::offset_of!(Header, mapping_count);
        let arena = (CODE - 0x2000).to_le_bytes();
        for (name, words) in [
            ("all of shared memory and what lies behind", vec![(list + 8, 1_u64 << 40)]),
            ("an arena up to the program's code", vec![(list + 40, 0x3000)]),
            ("an arena beyond all memory", vec![(list + 40, u64::MAX)]),
            ("an arena of no length", vec![(list + 40, 0)]),
            (
                "an arena twice",
                vec![
                    (count, 5),
                    (list + 48, CODE - 0x3000),
                    (list + 56, PAGE),
                    (list + 64, CODE - 0x2000),
                    (list + 72, PAGE),
                ],
            ),
        ] {
            let mut bytes = bytes.clone();
            for (place, value) in words {
                bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
            }
            let refused = super::judge(&bytes, maps.0.clone(), true).expect_err(name);
            assert!(refused.contains("its mappings are not as it says"), "{name}: {refused}");
        }
        assert_eq!(bytes[list + 32..list + 40], arena);
        let believed = super::judge(&bytes, maps.0.clone(), true).expect("is good").expect("is finished");
        assert_eq!(believed.unmapped.len(), 2);
    }

    #[test]
    fn a_patch_that_reaches_beyond_code_is_refused() {
        let (mut bytes, maps) = good();
        let place = bytes.windows(8).position(|word| word == CODE.to_le_bytes()).expect("the first patch");
        bytes[place..place + 8].copy_from_slice(&(CODE + 0xffd).to_le_bytes());
        let refused = super::judge(&bytes, maps.0, true).expect_err("three of five bytes are code");
        assert!(refused.contains("is not in code"), "{refused}");
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
