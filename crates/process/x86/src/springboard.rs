//! Places for the second jump where only a two-byte one fits.
//!
//! A springboard is a near jump in padding within 127 bytes. Every padding byte is handed out at most once, and the
//! same place always gets the same springboard, so that plans made twice agree.
//! Next: `padding` for what counts as padding, `site` for who asks.

use crate::site::reserved_padding;
use crate::{Analysis, FunctionCode, NEAR_JUMP_LEN, PAGE_BYTES, SHORT_JUMP_LEN, padding};
use std::collections::BTreeMap;
use std::ops::Range;
use trimtab_types::ProcAddr;

/// Padding not yet used, and the springboards given out.
#[derive(Clone, Debug, Default)]
pub struct Springboards {
    /// Free bytes by start, with their end; no two touch.
    free: BTreeMap<ProcAddr, ProcAddr>,
    /// Springboards given out, by the address of the short jump.
    given: BTreeMap<ProcAddr, ProcAddr>,
}

/// Adds the padding in and behind a function that its own patches do not need. Offer all functions around before
/// asking for sites, so that none takes what another could have used itself.
pub fn offer_padding(code: &FunctionCode<'_>, analysis: &Analysis, springboards: &mut Springboards) {
    springboards.offer(padding::padding_runs(code, analysis), &reserved_padding(code, analysis));
}

impl Springboards {
    /// No padding yet.
    pub fn new() -> Springboards {
        Springboards::default()
    }

    /// Adds `runs` except for what is `reserved`.
    pub(crate) fn offer(&mut self, runs: Vec<Range<ProcAddr>>, reserved: &[Range<ProcAddr>]) {
        runs.into_iter().for_each(|run| self.add(run));
        reserved.iter().for_each(|range| self.take(range.clone()));
    }

    /// Makes bytes available. They must never be executed or read by anyone.
    pub fn add(&mut self, range: Range<ProcAddr>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        let touching: Vec<(ProcAddr, ProcAddr)> =
            self.free.range(..=end).rev().take_while(|(_, e)| **e >= start).map(|(s, e)| (*s, *e)).collect();
        for (free_start, free_end) in touching {
            self.free.remove(&free_start);
            start = start.min(free_start);
            end = end.max(free_end);
        }
        self.free.insert(start, end);
    }

    /// Makes bytes unavailable, for instance because an earlier session already uses them.
    pub fn take(&mut self, range: Range<ProcAddr>) {
        let overlapping: Vec<(ProcAddr, ProcAddr)> =
            self.free.range(..range.end).rev().take_while(|(_, e)| **e > range.start).map(|(s, e)| (*s, *e)).collect();
        for (start, end) in overlapping {
            self.free.remove(&start);
            if start < range.start {
                self.free.insert(start, range.start);
            }
            if end > range.end {
                self.free.insert(range.end, end);
            }
        }
    }

    /// A place for a near jump that a short jump at `from` reaches.
    pub(crate) fn allocate(&mut self, from: ProcAddr) -> Option<ProcAddr> {
        if let Some(&via) = self.given.get(&from) {
            return Some(via);
        }
        let after = from.0.wrapping_add(SHORT_JUMP_LEN);
        let window = after.saturating_sub(128)..after.saturating_add(128 + NEAR_JUMP_LEN - 1);
        let window = ProcAddr(window.start)..ProcAddr(window.end);
        let via = self
            .free
            .range(..window.end)
            .rev()
            .take_while(|(_, end)| **end > window.start)
            .filter_map(|(&start, &end)| {
                let fit = first_fit(start.max(window.start)..end.min(window.end))?;
                Some((end - start, fit))
            })
            .min()?
            .1;
        self.take(via..via + NEAR_JUMP_LEN);
        self.given.insert(from, via);
        Some(via)
    }

    /// Takes back what `allocate` gave for a short jump that is not made after all.
    pub(crate) fn give_back(&mut self, from: ProcAddr) {
        if let Some(via) = self.given.remove(&from) {
            self.add(via..via + NEAR_JUMP_LEN);
        }
    }
}

/// The first address in `range` where a near jump fits without crossing a page.
pub(crate) fn first_fit(range: Range<ProcAddr>) -> Option<ProcAddr> {
    let end = range.start.0.checked_add(NEAR_JUMP_LEN)?;
    let start = match range.start.0 / PAGE_BYTES == (end - 1) / PAGE_BYTES {
        true => range.start.0,
        false => (end - 1) / PAGE_BYTES * PAGE_BYTES,
    };
    (start.checked_add(NEAR_JUMP_LEN)? <= range.end.0).then_some(ProcAddr(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(range: Range<u64>) -> Range<ProcAddr> {
        ProcAddr(range.start)..ProcAddr(range.end)
    }

    #[test]
    fn bytes_are_handed_out_once() {
        let mut springboards = Springboards::new();
        springboards.add(at(0x1000..0x100c));
        let given: Vec<Option<u64>> =
            (0..3).map(|at| springboards.allocate(ProcAddr(0x1020 + at)).map(|via| via.0)).collect();
        assert_eq!(given, [Some(0x1000), Some(0x1005), None]);
        assert_eq!(
            springboards.allocate(ProcAddr(0x1020)),
            Some(ProcAddr(0x1000)),
            "the same place gets the same springboard"
        );
        assert_eq!(springboards.free.len(), 1, "two bytes are left");
    }

    #[test]
    fn reach_and_pages() {
        let rows: &[(&str, Range<u64>, u64, Option<u64>)] = &[
            ("farthest forward", 0x1081..0x1086, 0x1000, Some(0x1081)),
            ("one too far", 0x1082..0x1087, 0x1000, None),
            ("farthest back", 0x1f82..0x1f87, 0x2000, Some(0x1f82)),
            ("one too far back", 0x1f81..0x1f86, 0x2000, None),
            ("start out of reach", 0x1f80..0x1f88, 0x2000, Some(0x1f82)),
            ("page_crossing", 0x1ffd..0x2002, 0x1ff0, None),
            ("moved behind the page boundary", 0x1ffd..0x2006, 0x1ff0, Some(0x2000)),
            ("ends at the page boundary", 0x1ffb..0x2000, 0x1ff0, Some(0x1ffb)),
        ];
        for (name, padding, from, want) in rows {
            let mut springboards = Springboards::new();
            springboards.add(at(padding.clone()));
            assert_eq!(springboards.allocate(ProcAddr(*from)), want.map(ProcAddr), "{name}");
        }
    }

    #[test]
    fn adding_joins_and_taking_splits() {
        let mut springboards = Springboards::new();
        springboards.add(at(0x10..0x20));
        springboards.add(at(0x30..0x40));
        springboards.add(at(0x1c..0x30));
        assert_eq!(springboards.free, BTreeMap::from([(ProcAddr(0x10), ProcAddr(0x40))]));
        springboards.take(at(0x18..0x1a));
        springboards.take(at(0x3e..0x50));
        assert_eq!(
            springboards.free,
            BTreeMap::from([(0x10, 0x18), (0x1a, 0x3e)].map(|(start, end)| (ProcAddr(start), ProcAddr(end))))
        );
    }
}
