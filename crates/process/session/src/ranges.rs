//! The tables of memory that bodies may read and write, as they are in the target, and how they are changed while bodies
//! look at them.
//!
//! A table is written anew in its other place only when something has changed. Unless everything it had is in the new one
//! too, the old one is made empty first: its ranges end at 0, so whoever still holds one of them finds nothing in it. Bodies that search meanwhile may be refused,
//! which they count; none is let through to memory that the new table does not have. A value that a body read of a table
//! before is as old as the body.
//!
//! Next: `script`, whose memory this is part of; `trimtab-snippet`'s back end, which searches.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use trimtab_os::{Mapping, MappingTable};
use trimtab_snippet::ir::process_word;
use trimtab_stub::view::View;

/// Ranges of memory that bodies can know.
const RANGES_MAX: u64 = 4096;
/// Bytes of one range in a table.
const RANGE_BYTES: u64 = 16;
/// Bytes of both tables, each with its two places.
pub(crate) const TABLES_BYTES: u64 = 4 * RANGES_MAX * RANGE_BYTES;

/// Which memory of a process bodies know, and where that stands.
#[derive(Clone, Debug)]
pub struct RangeTables {
    readable: Table,
    writable: Table,
}

/// One table.
#[derive(Clone, Debug)]
struct Table {
    /// Offset of its first place in the process area; the second follows.
    first_at: u64,
    /// True if it is in its second place.
    second: bool,
    /// Words with the number of ranges and the place.
    words: (u32, u32),
    /// The ranges that it holds.
    ranges: Vec<(u64, u64)>,
    /// Most ranges it ever held.
    longest: usize,
}

impl RangeTables {
    /// Empty tables from this offset of the process area on.
    pub(crate) fn at(offset: u64) -> RangeTables {
        let table = |number: u64, words| Table {
            first_at: offset + number * 2 * RANGES_MAX * RANGE_BYTES,
            second: false,
            words,
            ranges: Vec::new(),
            longest: 0,
        };
        RangeTables {
            readable: table(0, (process_word::RANGE_COUNT, process_word::RANGES)),
            writable: table(1, (process_word::WRITABLE_COUNT, process_word::WRITABLES)),
        }
    }

    /// Tells bodies which memory may be read and written: what the process has mapped now, without devices. Unless the
    /// calls that take memory away are `guarded`, only files and the main stack.
    pub(crate) fn set(&mut self, area: Area<'_>, maps: &MappingTable, guarded: bool) {
        let lasting = |mapping: &&Mapping| guarded || mapping.inode != 0 || mapping.path == "[stack]";
        let readable: Vec<&Mapping> = maps.0.iter().filter(|mapping| may_be_read(mapping)).filter(lasting).collect();
        let writable: Vec<&Mapping> = readable.iter().filter(|mapping| mapping.writable).copied().collect();
        self.readable.set(area, joined(&readable), &kept_words());
        self.writable.set(area, joined(&writable), &[]);
    }
}

/// True if what is mapped there is memory that anybody may look at: no device, which may do something when it is read.
pub fn may_be_read(mapping: &Mapping) -> bool {
    mapping.readable && !mapping.path.starts_with("/dev/") && mapping.path != "[vvar]"
}

/// The process area of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area<'a> {
    /// The shared memory.
    pub view: View<'a>,
    /// Where the area is in it.
    pub at: u64,
}

impl<'a> Area<'a> {
    fn word(self, offset: u64) -> &'a std::sync::atomic::AtomicU64 {
        self.view.word(self.at + offset)
    }
}

/// Words that hold the address of a range of the readable table.
fn kept_words() -> Vec<u64> {
    (0..process_word::HOT_RANGE_COUNT).map(|number| u64::from(process_word::HOT_RANGES + 8 * number)).collect()
}

impl Table {
    fn set(&mut self, area: Area<'_>, ranges: Vec<(u64, u64)>, kept: &[u64]) {
        let (count, place) = (area.word(self.words.0.into()), area.word(self.words.1.into()));
        if count.load(Relaxed) == ranges.len() as u64 && self.ranges == ranges {
            return;
        }
        let only_grew = count.load(Relaxed) == self.ranges.len() as u64 && has_all(&ranges, &self.ranges);
        if !only_grew {
            count.store(0, SeqCst);
            self.close(area);
            kept.iter().for_each(|word| area.word(*word).store(0, SeqCst));
        }
        self.second = !self.second;
        self.close(area);
        let new = self.place();
        self.longest = self.longest.max(ranges.len());
        // A reader that still has a larger count finds ranges that begin behind every address.
        let unused = std::iter::repeat_n((u64::MAX, u64::MAX), self.longest - ranges.len());
        for (index, (start, end)) in ranges.iter().copied().chain(unused).enumerate() {
            let range = new + index as u64 * RANGE_BYTES;
            // It ends at 0, or was never used, until its start is there.
            area.word(range).store(start, SeqCst);
            area.word(range + 8).store(end, SeqCst);
        }
        place.store(new, SeqCst);
        self.ranges = ranges;
        count.store(self.ranges.len() as u64, SeqCst);
    }

    /// Makes every range end at 0 in the place that it is in.
    fn close(&self, area: Area<'_>) {
        for index in 0..self.longest as u64 {
            area.word(self.place() + index * RANGE_BYTES + 8).store(0, SeqCst);
        }
    }

    fn place(&self) -> u64 {
        self.first_at + if self.second { RANGES_MAX * RANGE_BYTES } else { 0 }
    }
}

/// True if each of `some` lies in one of `ranges`; both sorted.
fn has_all(ranges: &[(u64, u64)], some: &[(u64, u64)]) -> bool {
    some.iter().all(|(start, end)| {
        let behind = ranges.partition_point(|(from, _)| from <= start);
        behind.checked_sub(1).is_some_and(|index| *end <= ranges[index].1)
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    const AT: u64 = 4096;
    const TABLES: u64 = 512;

    /// A body finds the count, and the ranges of the table in use.
    fn found(area: Area<'_>) -> Vec<(u64, u64)> {
        let word = |offset: u64| area.word(offset).load(Relaxed);
        let place = word(process_word::RANGES.into());
        (0..word(process_word::RANGE_COUNT.into()))
            .map(|index| (word(place + index * RANGE_BYTES), word(place + index * RANGE_BYTES + 8)))
            .collect()
    }

    fn maps(ranges: &[(u64, u64)]) -> MappingTable {
        let line = |(start, end): &(u64, u64)| format!("{start:x}-{end:x} r--p 0 0:0 1 /a\n");
        let text: String = ranges.iter().map(line).collect();
        MappingTable(trimtab_types::procfs::parse_maps(text.as_bytes()).expect("lines as the kernel writes them"))
    }

    #[test]
    fn a_range_that_somebody_holds_is_emptied_before_the_table_changes() {
        let words: Vec<AtomicU64> = (0..(AT + TABLES + TABLES_BYTES) / 8 + 1024).map(|_| AtomicU64::new(0)).collect();
        let area = Area { view: View::new(&words), at: AT };
        let mut tables = RangeTables::at(TABLES);
        let all = [(0x1000, 0x2000), (0x4000, 0x5000), (0x7000, 0x8000)];
        tables.set(area, &maps(&all), true);
        assert_eq!(found(area), all);
        let first_place = area.word(process_word::RANGES.into()).load(Relaxed);
        let hot = area.word(process_word::HOT_RANGES.into());
        hot.store(7, Relaxed);
        tables.set(area, &maps(&all), true);
        assert_eq!((found(area), hot.load(Relaxed)), (all.to_vec(), 7), "nothing changed, nothing is touched");
        tables.set(area, &maps(&all[..1]), true);
        assert_eq!((found(area), hot.load(Relaxed)), (all[..1].to_vec(), 0));
        let ends = (0..3).map(|index| area.word(first_place + index * RANGE_BYTES + 8).load(Relaxed));
        assert_eq!(ends.collect::<Vec<_>>(), [0; 3], "the old table lets nobody through");
        let place = area.word(process_word::RANGES.into()).load(Relaxed);
        assert_eq!(area.word(place + RANGE_BYTES).load(Relaxed), u64::MAX, "an old count finds nothing behind it");
        area.word(process_word::RANGE_COUNT.into()).store(0, Relaxed);
        tables.set(area, &maps(&all[..1]), true);
        assert_eq!(found(area), all[..1], "what a call emptied is filled again");
    }

    #[test]
    fn whoever_looks_while_a_table_grows_finds_what_was_there() {
        let words: Vec<AtomicU64> = (0..(AT + TABLES + TABLES_BYTES) / 8 + 1024).map(|_| AtomicU64::new(0)).collect();
        let area = Area { view: View::new(&words), at: AT };
        let mut tables = RangeTables::at(TABLES);
        let all = [(0x1000, 0x2000), (0x4000, 0x5000), (0x7000, 0x8000)];
        tables.set(area, &maps(&all), true);
        let hot = area.word(process_word::HOT_RANGES.into());
        hot.store(7, Relaxed);
        let old = area.word(process_word::RANGES.into()).load(Relaxed);
        let ends = |place: u64| (0..3).map(move |index| area.word(place + index * RANGE_BYTES + 8).load(Relaxed));
        let more = [(0x1000, 0x3000), (0x4000, 0x5000), (0x7000, 0x8000), (0x9000, 0xa000)];
        tables.set(area, &maps(&more), true);
        assert_eq!((found(area), hot.load(Relaxed)), (more.to_vec(), 7));
        assert_eq!(ends(old).collect::<Vec<_>>(), [0x2000, 0x5000, 0x8000], "the old table still lets through");
        tables.set(area, &maps(&more[..2]), true);
        assert_eq!((found(area), hot.load(Relaxed)), (more[..2].to_vec(), 0));
        let new = area.word(process_word::RANGES.into()).load(Relaxed);
        assert_eq!(new, old, "there are two places");
        tables.set(area, &maps(&all[2..]), true);
        assert_eq!(
            ends(old).take(2).collect::<Vec<_>>(),
            [0; 2],
            "nobody is let through by what was there twice before"
        );
    }
}
