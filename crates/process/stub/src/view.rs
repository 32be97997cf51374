//! The monitor's view of the shared memory: words in, structures out, bounds checked.
//!
//! The target writes while we read; every field is one word, so a reader sees old or new values, never mixtures.
//!
//! Next: `layout` for what the structures mean.

use crate::layout::*;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU64};

/// The shared memory of one process as the monitor maps it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    words: &'a [AtomicU64],
    /// Where things lie, if that is known better than from the memory itself.
    laid_out: Option<&'a Geometry>,
}

/// A structure that consists of plain words and atomics only, so that any bytes are a valid value of it.
trait Plain {}
impl Plain for Header {}
impl Plain for Slot {}
impl Plain for FunctionStat {}
impl Plain for LinkEntry {}
impl Plain for CallRecord {}
impl Plain for DetailRecord {}
impl Plain for Mark {}
impl Plain for ReturnRule {}
impl Plain for PathEntry {}
impl Plain for PathSum {}
impl Plain for SizeClass {}
impl Plain for FunctionLimit {}
impl Plain for RegionStat {}
impl Plain for AtomicI32 {}

impl<'a> View<'a> {
    /// A view of `words`, which must hold at least a [`Header`].
    ///
    /// # Panics
    /// If `words` is too short.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        assert!(words.len() * 8 >= size_of::<Header>(), "shared memory holds a header");
        View { words, laid_out: None }
    }

    /// A view of memory that was laid out so by ourselves: whatever the program has written there since, nothing is looked
    /// for anywhere else.
    ///
    /// # Panics
    /// If `words` is shorter than `geometry` says.
    pub fn laid_out(words: &'a [AtomicU64], geometry: &'a Geometry) -> Self {
        assert!(words.len() as u64 * 8 >= geometry.data_length, "shared memory holds all that was laid out");
        View { words, laid_out: Some(geometry) }
    }

    fn get<T: Plain>(self, offset: u64) -> &'a T {
        let end = offset + size_of::<T>() as u64;
        let length = self.words.len() as u64 * 8;
        assert!(
            end <= length && offset.is_multiple_of(align_of::<T>() as u64),
            "offset {offset} lies in shared memory"
        );
        // SAFETY: in bounds and aligned (checked above), and any bit pattern is a valid `T` (`Plain`).
        unsafe { &*self.words.as_ptr().cast::<u8>().add(offset as usize).cast::<T>() }
    }

    /// The word at `offset`, a multiple of 8: of a script's areas.
    ///
    /// # Panics
    /// If it lies outside.
    pub fn word(self, offset: u64) -> &'a AtomicU64 {
        assert!(offset.is_multiple_of(8), "a whole word");
        &self.words[offset as usize / 8]
    }

    /// The first page.
    pub fn header(self) -> &'a Header {
        self.get(0)
    }

    /// Lays the memory out, before anything else is written.
    pub fn set_geometry(self, geometry: &Geometry) {
        // SAFETY: `Geometry` consists of 64-bit words only, without padding.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const *geometry).cast::<u8>(), size_of::<Geometry>()) };
        self.write_bytes(std::mem::offset_of!(Header, geometry) as u64, bytes);
    }

    /// Lists the mappings made in the target.
    ///
    /// # Panics
    /// If there are more than [`MAPPINGS_MAX`].
    pub fn set_mappings(self, mappings: &[MappingRecord]) {
        assert!(mappings.len() <= MAPPINGS_MAX, "{} mappings", mappings.len());
        let place = std::mem::offset_of!(Header, mappings) as u64;
        for (index, mapping) in mappings.iter().enumerate() {
            let offset = place + (index * size_of::<MappingRecord>()) as u64;
            self.write_bytes(offset, &mapping.address.to_le_bytes());
            self.write_bytes(offset + 8, &mapping.length.to_le_bytes());
        }
        self.header().mapping_count.store(mappings.len() as u64, Relaxed);
    }

    /// Writes patch record number `index`.
    pub fn set_patch(self, index: u64, record: &PatchRecord) {
        let offset = self.geometry().patches_offset + index * size_of::<PatchRecord>() as u64;
        self.write_bytes(offset, &record.to_bytes());
    }

    /// The stores after which the descriptor lists no patch, in the order in which they are to be made. Behind the first the
    /// sum is already that of no patches, which whoever finds it takes for that; so a kill between two does no harm.
    pub fn steps_to_forget_patches(self) -> [Step; 2] {
        let count = std::mem::offset_of!(Header, geometry) + std::mem::offset_of!(Geometry, patch_count);
        let sum = std::mem::offset_of!(Header, checksum);
        [Step { offset: sum as u64, value: self.checksum_with(0) }, Step { offset: count as u64, value: 0 }]
    }

    /// Stores a word.
    pub fn take(self, step: Step) {
        self.word(step.offset).store(step.value, Release);
    }

    /// Where things lie.
    pub fn geometry(self) -> Geometry {
        self.laid_out.copied().unwrap_or(self.header().geometry)
    }

    /// Writes bytes, word by word; `offset` must be a multiple of 8.
    ///
    /// # Panics
    /// If they don't fit.
    pub fn write_bytes(self, offset: u64, bytes: &[u8]) {
        assert!(offset.is_multiple_of(8), "bytes are written from a whole word on");
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut raw = [0; 8];
            raw[..chunk.len()].copy_from_slice(chunk);
            self.words[offset as usize / 8 + index].store(u64::from_le_bytes(raw), Relaxed);
        }
    }

    /// `length` bytes from `offset` (a multiple of 8).
    ///
    /// # Panics
    /// If they lie outside.
    pub fn read_bytes(self, offset: u64, length: usize) -> Vec<u8> {
        let first = offset as usize / 8;
        let words = &self.words[first..first + length.div_ceil(8)];
        // A word at a time: a ring of messages is a megabyte, and is read many times per second.
        let mut bytes = Vec::with_capacity(words.len() * 8);
        words.iter().for_each(|word| bytes.extend_from_slice(&word.load(Relaxed).to_le_bytes()));
        bytes.truncate(length);
        bytes
    }

    /// How long a function is counted.
    pub fn limit(self, function: u64) -> &'a FunctionLimit {
        self.get(self.geometry().limits_offset + function * size_of::<FunctionLimit>() as u64)
    }

    /// Slots that a thread has claimed.
    pub fn slots(self) -> impl Iterator<Item = SlotView<'a>> {
        let geometry = self.geometry();
        (0..geometry.slot_count).filter_map(move |index| {
            let offset = geometry.slots_offset + index * geometry.slot_stride;
            let slot: &Slot = self.get(offset);
            (slot.key.load(Relaxed) != 0).then_some(SlotView { view: self, geometry, offset, slot })
        })
    }

    /// Iteration mark number `index` (modulo the capacity).
    pub fn mark(self, index: u64) -> &'a Mark {
        let geometry = self.geometry();
        self.get(geometry.marks_offset + (index & (geometry.mark_capacity - 1)) * size_of::<Mark>() as u64)
    }

    /// Members of `MPI_COMM_WORLD` as the MPI library said, or as many as were laid out for if it says more than can be.
    pub fn world_size(self) -> u32 {
        self.header().world_size.load(Relaxed).min(self.geometry().pool_capacity) as u32
    }

    /// World rank number `index` of the pool; `None` outside it.
    pub fn pool(self, index: u64) -> Option<i32> {
        let geometry = self.geometry();
        let place = (index < geometry.pool_capacity).then(|| geometry.pool_offset + index * 4)?;
        Some(self.get::<AtomicI32>(place).load(Relaxed))
    }

    /// Probe number `index`, as bytes are laid out for the target.
    pub fn set_probe(self, index: u64, probe: &Probe) {
        let offset = self.geometry().probes_offset + index * size_of::<Probe>() as u64;
        self.write_bytes(offset, &probe.to_bytes());
    }

    /// Return addresses that threads met and that had no rule then, each once; told once.
    pub fn unknown_addresses(self) -> impl Iterator<Item = u64> {
        let met = self.header().unknown.iter();
        met.filter(|place| place.load(Relaxed) != 0).map(|place| place.swap(0, Relaxed)).filter(|address| *address != 0)
    }

    /// Tells the target what to do at a return address, with the eight bytes of code before it. False if it has no room
    /// for another rule; a rule that stands is never changed.
    pub fn set_return_rule(self, address: u64, step: u64, code: u64) -> bool {
        let geometry = self.geometry();
        for probe in 0..PROBES_MAX {
            let index = (rule_index(address) + probe) & (RULES_MAX - 1);
            let rule: &ReturnRule = self.get(geometry.rules_offset + index * size_of::<ReturnRule>() as u64);
            match rule.address.load(Relaxed) {
                held if held == address => return true,
                0 => {
                    rule.step.store(step, Relaxed);
                    rule.code.store(code, Relaxed);
                    rule.address.store(address, Release);
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// The return addresses that a call's site stands for, innermost first; `None`: its path is just being written.
    pub fn path(self, site: u64) -> Option<Vec<u64>> {
        if site & PATH_BIT == 0 {
            return Some(vec![site]);
        }
        let geometry = self.geometry();
        let place = |probe: u64| ((site >> 40) + probe) & (PATHS_MAX - 1);
        let entry = |index: u64| self.get(geometry.paths_offset + index * size_of::<PathEntry>() as u64);
        let entry: &PathEntry = (0..PROBES_MAX)
            .map(|probe| entry(place(probe)))
            .find(|entry: &&PathEntry| entry.hash.load(Relaxed) == site)?;
        let length = entry.length.load(Acquire).min(PATH_ADDRESSES_MAX);
        (length > 0).then(|| entry.addresses[..length as usize].iter().map(|word| word.load(Relaxed)).collect())
    }

    /// Checksum of the descriptor: geometry, mappings and patches.
    pub fn descriptor_checksum(self) -> u64 {
        self.checksum_with(self.geometry().patch_count)
    }

    /// The same, if it listed so many patches.
    fn checksum_with(self, patch_count: u64) -> u64 {
        let header = self.header();
        let geometry = self.geometry();
        let base = std::mem::offset_of!(Header, geometry) as u64;
        let mut bytes = self.read_bytes(base, size_of::<Geometry>());
        let count = std::mem::offset_of!(Geometry, patch_count);
        bytes[count..count + 8].copy_from_slice(&patch_count.to_le_bytes());
        let mappings = std::mem::offset_of!(Header, mapping_count) as u64;
        bytes.extend(self.read_bytes(mappings, 8 + MAPPINGS_MAX * size_of::<MappingRecord>()));
        bytes.extend(header.base.load(Relaxed).to_le_bytes());
        bytes.extend(self.read_bytes(geometry.patches_offset, patch_count as usize * size_of::<PatchRecord>()));
        checksum(&bytes)
    }
}

/// A word to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its place, a multiple of 8.
    pub offset: u64,
    /// Its value.
    pub value: u64,
}

/// One thread's slot and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct SlotView<'a> {
    view: View<'a>,
    geometry: Geometry,
    offset: u64,
    /// The slot itself.
    pub slot: &'a Slot,
}

impl<'a> SlotView<'a> {
    /// Where it lies, from the memory's beginning.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Numbers of function `index`.
    pub fn stat(&self, index: u64) -> &'a FunctionStat {
        self.view.get(self.offset + self.geometry.stats_offset + index * size_of::<FunctionStat>() as u64)
    }

    /// Used entries of the link table.
    pub fn links(&self) -> impl Iterator<Item = &'a LinkEntry> {
        let (view, geometry, offset) = (self.view, self.geometry, self.offset);
        (0..geometry.link_capacity).filter_map(move |index| {
            let entry: &LinkEntry = view.get(offset + geometry.links_offset + index * size_of::<LinkEntry>() as u64);
            (entry.key.load(Relaxed) != 0).then_some(entry)
        })
    }

    /// Used entries of the table of paths.
    pub fn path_sums(&self) -> impl Iterator<Item = &'a PathSum> {
        let (view, geometry, offset) = (self.view, self.geometry, self.offset);
        (0..geometry.path_sum_count).filter_map(move |index| {
            let entry: &PathSum = view.get(offset + geometry.path_sums_offset + index * size_of::<PathSum>() as u64);
            (entry.site.load(Relaxed) != 0).then_some(entry)
        })
    }

    /// Calls of function `function` by their payload, the class of none first.
    pub fn sizes(&self, function: u64) -> impl Iterator<Item = &'a SizeClass> {
        let (view, first) = (self.view, self.offset + self.geometry.sizes_offset);
        (0..SIZES_MAX).map(move |class| {
            let place = function * SIZES_MAX + class;
            view.get::<SizeClass>(first + place * size_of::<SizeClass>() as u64)
        })
    }

    /// The regions of function `function` that this thread had run; `None`: regions are not measured.
    pub fn region(&self, function: u64) -> Option<&'a RegionStat> {
        let place = self.offset + self.geometry.regions_offset + function * size_of::<RegionStat>() as u64;
        (function < self.geometry.region_count).then(|| self.view.get(place))
    }

    /// Call number `index` of the ring (modulo its capacity).
    pub fn call(&self, index: u64) -> &'a CallRecord {
        let place = index & (self.geometry.ring_capacity - 1);
        self.view.get(self.offset + self.geometry.ring_offset + place * size_of::<CallRecord>() as u64)
    }

    /// Trace record `index` of function `function`.
    pub fn detail(&self, function: u64, index: u64) -> &'a DetailRecord {
        let place = function * self.geometry.detail_capacity + index;
        self.view.get(self.offset + self.geometry.details_offset + place * size_of::<DetailRecord>() as u64)
    }

    fn reset_regions(&self) {
        let teams = &self.view.header().teams;
        [&teams.mixed, &teams.nested, &teams.lost].into_iter().for_each(|word| word.store(0, Relaxed));
        let team = &self.slot.team;
        for word in [&team.entries, &team.busy, &team.comm, &team.stray, &team.unseen].into_iter().chain(&team.waits) {
            word.store(0, Relaxed);
        }
        for stat in (0..self.geometry.region_count).filter_map(|function| self.region(function)) {
            for word in stat.words() {
                word.store(0, Relaxed);
            }
        }
    }

    /// Forgets what was recorded, so that the slot counts from zero: the target must not be recording.
    pub fn reset(&self) {
        let slot = self.slot;
        for word in [
            &slot.hits,
            &slot.overhead_ticks,
            &slot.dropped,
            &slot.unattributed_bytes,
            &slot.unknown_starts,
            &slot.interrupted,
        ]
        .into_iter()
        .chain(&slot.group_ticks)
        {
            word.store(0, Relaxed);
        }
        self.reset_regions();
        // A function that was left once is not left again.
        if slot.orphans.load(Relaxed) > 1 {
            slot.orphans.store(1, Relaxed);
        }
        for function in 0..self.geometry.function_count {
            let stat = self.stat(function);
            for word in [
                &stat.calls,
                &stat.nested,
                &stat.ticks,
                &stat.bytes,
                &stat.bytes_max,
                &stat.argument_sum,
                &stat.first_ticks,
                &stat.last_ticks,
                &stat.details,
                &stat.unknown_bytes,
                &stat.unseen,
                &stat.polled_on,
                &stat.polled_work,
                &stat.polled_vainly,
            ] {
                word.store(0, Relaxed);
            }
            for class in self.sizes(function) {
                class.calls.store(0, Relaxed);
                class.bytes.store(0, Relaxed);
            }
        }
        // An open call knows its place: paths keep theirs.
        for sum in self.path_sums() {
            for word in [&sum.calls, &sum.ticks, &sum.bytes] {
                word.store(0, Relaxed);
            }
        }
        for link in self.links() {
            link.messages.store(0, Relaxed);
            link.bytes.store(0, Relaxed);
        }
    }
}

impl Probe {
    /// The probe's bytes as the target reads them.
    pub fn to_bytes(&self) -> [u8; size_of::<Probe>()] {
        let mut bytes = [0; size_of::<Probe>()];
        bytes[..4].copy_from_slice(&self.function.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.next_plus_one.to_le_bytes());
        let rest = [
            self.group,
            self.flags,
            self.kind,
            self.large_count,
            self.buffer,
            self.count,
            self.datatype,
            self.peer,
            self.comm,
            self.request,
            self.recv_count,
            self.recv_datatype,
            self.argument,
            self.factor,
            self.source,
            self.window,
            self.role,
            self.framed,
            self.polls,
            self.part,
            self.requests,
            self.came,
            self.status,
        ];
        // A field that is left out would be an argument that the target reads wrongly.
        const { assert!(size_of::<Probe>() == 8 + 23 + size_of_val(&Probe::ABSENT.reserved)) };
        bytes[8..8 + rest.len()].copy_from_slice(&rest);
        bytes
    }
}

impl PatchRecord {
    /// The record's bytes as they stand in shared memory.
    pub fn to_bytes(&self) -> [u8; size_of::<PatchRecord>()] {
        let mut bytes = [0; size_of::<PatchRecord>()];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..16 + PATCH_BYTES_MAX].copy_from_slice(&self.original);
        bytes[16 + PATCH_BYTES_MAX..].copy_from_slice(&self.patched);
        bytes
    }

    /// Reads a record back; `None` if it is no possible one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |place: usize| Some(u64::from_le_bytes(bytes.get(place..place + 8)?.try_into().ok()?));
        let length = word(8)?;
        if length == 0 || length > PATCH_BYTES_MAX as u64 {
            return None;
        }
        Some(PatchRecord {
            address: word(0)?,
            length,
            original: bytes.get(16..16 + PATCH_BYTES_MAX)?.try_into().ok()?,
            patched: bytes.get(16 + PATCH_BYTES_MAX..16 + 2 * PATCH_BYTES_MAX)?.try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_laid_out_as_the_target_reads_it() {
        assert_eq!(size_of::<Probe>(), 32);
        let probe = Probe {
            function: 0x0102_0304,
            next_plus_one: 0x0506_0708,
            group: 5,
            argument: 9,
            recv_datatype: 8,
            role: role::LEAVES,
            ..Probe::default()
        };
        let bytes = probe.to_bytes();
        assert_eq!(bytes[..9], [4, 3, 2, 1, 8, 7, 6, 5, 5]);
        assert_eq!(bytes[std::mem::offset_of!(Probe, role)], role::LEAVES);
        assert_eq!(bytes[std::mem::offset_of!(Probe, argument)], 9);
        assert_eq!(bytes[std::mem::offset_of!(Probe, recv_datatype)], 8);
        assert_eq!(bytes[std::mem::offset_of!(Probe, flags)], 0);
        // Every field behind the number stands in the bytes.
        let absent = Probe::ABSENT.to_bytes();
        assert_eq!(absent[12..24], [ABSENT; 12]);
    }

    #[test]
    fn a_patch_record_goes_there_and_back() {
        let mut record = PatchRecord {
            address: 0x7f00_1234,
            length: 5,
            original: [0; PATCH_BYTES_MAX],
            patched: [0; PATCH_BYTES_MAX],
        };
        record.original[..5].copy_from_slice(&[1, 2, 3, 4, 5]);
        record.patched[0] = 0xe9;
        assert_eq!(PatchRecord::from_bytes(&record.to_bytes()), Some(record));
        record.length = 0;
        assert_eq!(PatchRecord::from_bytes(&record.to_bytes()), None);
        assert_eq!(PatchRecord::from_bytes(&[0; 8]), None);
    }

    #[test]
    fn everything_has_its_own_place() {
        let needs = Needs {
            patches: 700,
            probes: 300,
            functions: 150,
            ranks: 16,
            details: 4,
            code: 70_000,
            threads: 4,
            areas: None,
            regions: true,
        };
        let geometry = Geometry::for_needs(&needs);
        let words: Vec<AtomicU64> = (0..geometry.data_length / 8).map(|_| AtomicU64::new(0)).collect();
        let starts = [
            size_of::<Header>() as u64,
            geometry.patches_offset + geometry.patch_count * size_of::<PatchRecord>() as u64,
            geometry.probes_offset + geometry.probe_count * size_of::<Probe>() as u64,
            geometry.requests_offset + REQUESTS_MAX * size_of::<RequestEntry>() as u64,
            geometry.rules_offset + geometry.rule_count * size_of::<ReturnRule>() as u64,
            geometry.paths_offset + geometry.path_count * size_of::<PathEntry>() as u64,
            geometry.marks_offset + geometry.mark_capacity * size_of::<Mark>() as u64,
            geometry.pool_offset + geometry.pool_capacity * 4,
            geometry.slots_offset + geometry.slot_count * geometry.slot_stride,
        ];
        assert!(starts.is_sorted(), "{starts:?}");
        assert!(geometry.patches_offset >= starts[0] && geometry.data_length >= starts[8]);
        assert!(geometry.slot_count.is_power_of_two() && geometry.link_capacity.is_power_of_two());
        let view = View::new(&words);
        assert_eq!(view.header().geometry, Geometry::default());
        view.set_geometry(&geometry);
        assert_eq!(view.geometry(), geometry);
        let at = std::mem::offset_of!(Header, geometry) / 8;
        assert_eq!(Geometry::from_words(|index| words[at + index].load(Relaxed)), geometry);
    }
}
