//! Many patches as few writes: those of one page are made in a copy of what the page holds, and written at once.
//!
//! A process is held while its text is written, and a write costs a system call, whatever its length. Writes that are
//! sorted and counted here are ready before the process is held. A patch that needs another comes after it, or in the
//! same write: a short jump after its springboard, a springboard after the carrier in whose code it lies. So a kill
//! between two writes leaves a program that runs on. Bytes between two patches are read right before they are written
//! back, because others may have patched there.
//!
//! Next: `insert` and `remove`, which hold the process.

use crate::error::Error;
use std::collections::BTreeMap;
use std::ops::Range;
use trimtab_os::{Memory, Stopped};
use trimtab_x86::{NEAR_JUMP_LEN, PAGE_BYTES, SHORT_JUMP_LEN};

/// One write to text, and what was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatchBytes {
    pub address: u64,
    pub original: Vec<u8>,
    pub patched: Vec<u8>,
}

/// Puts into code that was read at `address` what was there before these patches.
pub(crate) fn without(patches: &[PatchBytes], address: u64, code: &mut [u8]) {
    for patch in patches {
        let Some(start) = patch.address.checked_sub(address).and_then(|start| usize::try_from(start).ok()) else {
            continue;
        };
        let Some(place) = code.get_mut(start..start.saturating_add(patch.patched.len())) else { continue };
        if *place == *patch.patched {
            place.copy_from_slice(&patch.original);
        }
    }
}

/// First byte of `jmp rel8`.
const SHORT_JUMP: u8 = 0xeb;
/// How far before a springboard the carrier may begin in whose code it lies; it displaces no more.
const CARRIER_REACH: u64 = 32;

/// All writes to one process's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageWrites {
    /// In order of writing.
    patches: Vec<PatchBytes>,
    groups: Vec<Group>,
}

/// The patches that one write makes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// From the first to the last byte of its patches: on one page.
    bytes: Range<u64>,
    /// Which.
    patches: Range<usize>,
}

/// The steps that a patch needs before it, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Needs {
    Nothing,
    Carrier,
    Springboard,
}

impl PatchBytes {
    /// Where it leads, if it is a short jump.
    pub(crate) fn springboard(&self) -> Option<u64> {
        let [SHORT_JUMP, distance] = self.patched[..] else { return None };
        Some((self.address + SHORT_JUMP_LEN).wrapping_add_signed(i64::from(distance as i8)))
    }

    fn end(&self) -> u64 {
        self.address + self.patched.len() as u64
    }

    fn page(&self) -> u64 {
        self.address / PAGE_BYTES
    }
}

impl PageWrites {
    /// Puts patches in order.
    pub(crate) fn new(patches: Vec<PatchBytes>) -> Self {
        let rounds = rounds(&patches);
        let key = |index: &usize| {
            let (patch, (round, needs)) = (&patches[*index], rounds[*index]);
            (round, patch.page(), needs, patch.address)
        };
        let mut order: Vec<usize> = (0..patches.len()).collect();
        order.sort_by_key(key);
        let mut groups: Vec<Group> = Vec::new();
        for together in order.chunk_by(|one, other| (key(one).0, key(one).1) == (key(other).0, key(other).1)) {
            let first = groups.last().map_or(0, |last| last.patches.end);
            let start = together.iter().map(|index| patches[*index].address).min().unwrap_or_default();
            let end = together.iter().map(|index| patches[*index].end()).max().unwrap_or_default();
            groups.push(Group { bytes: start..end, patches: first..first + together.len() });
        }
        let patches = order.into_iter().map(|index| patches[index].clone()).collect();
        PageWrites { patches, groups }
    }

    /// Those at these addresses, and before them all others.
    pub(crate) fn parted(&self, addresses: &[u64]) -> (PageWrites, PageWrites) {
        let (those, others) = self.patches.iter().cloned().partition(|patch| addresses.contains(&patch.address));
        (PageWrites::new(others), PageWrites::new(those))
    }

    /// Every patch, in order of writing.
    pub(crate) fn patches(&self) -> &[PatchBytes] {
        &self.patches
    }

    /// True if the patch at `address` is in the process now.
    pub(crate) fn is_written(&self, memory: &Memory, address: u64) -> bool {
        let patch = self.patches.iter().find(|patch| patch.address == address);
        patch.is_some_and(|patch| {
            memory.read_vec(address, patch.patched.len()).is_ok_and(|bytes| bytes == patch.patched)
        })
    }

    /// The address of a place that does not hold what it should before it is patched.
    pub(crate) fn first_changed(&self, memory: &Memory) -> Option<u64> {
        let mut page = Vec::new();
        self.groups.iter().find_map(|group| {
            let is_there = group.read(memory, &mut page);
            let differs = |patch: &&PatchBytes| !is_there || page[group.places(patch)] != patch.original;
            self.patches[group.patches.clone()].iter().find(differs).map(|patch| patch.address)
        })
    }

    /// Writes every patch. Should a place hold something else by now, all is put back and its address is returned.
    pub(crate) fn write(&self, stopped: &Stopped) -> Result<Option<u64>, Error> {
        let mut page = Vec::new();
        for group in &self.groups {
            let is_there = group.read(stopped.memory(), &mut page);
            let patches = &self.patches[group.patches.clone()];
            for patch in patches {
                if !is_there || page[group.places(patch)] != patch.original {
                    self.restore(stopped)?;
                    return Ok(Some(patch.address));
                }
                page[group.places(patch)].copy_from_slice(&patch.patched);
            }
            let changes: Vec<_> = patches.iter().map(|patch| (patch.address, patch.patched.as_slice())).collect();
            write_page(stopped, group.bytes.start, &page, &changes)?;
        }
        Ok(None)
    }

    /// Puts the original bytes back, last write first; places that hold neither version, which are left alone. A place
    /// that can't be read was unmapped by the program, and the patch with it.
    pub(crate) fn restore(&self, stopped: &Stopped) -> Result<Vec<u64>, Error> {
        let read = |address: u64, bytes: &mut [u8]| stopped.memory().read(address, bytes).is_ok();
        self.restore_through(&read, &mut |start, page, changes| write_page(stopped, start, page, changes))
    }

    /// As [`PageWrites::restore`], of memory that is read and written by these: `write` gets an address, all bytes from
    /// there on, and the changes among them in their order.
    pub(crate) fn restore_through(&self, read: &Read<'_>, write: &mut Write<'_>) -> Result<Vec<u64>, Error> {
        let (mut foreign, mut page) = (Vec::new(), Vec::new());
        for group in self.groups.iter().rev() {
            page.resize((group.bytes.end - group.bytes.start) as usize, 0);
            if !read(group.bytes.start, &mut page) {
                continue;
            }
            let mut ours = Vec::new();
            for patch in self.patches[group.patches.clone()].iter().rev() {
                if page[group.places(patch)] == patch.patched {
                    page[group.places(patch)].copy_from_slice(&patch.original);
                    ours.push((patch.address, patch.original.as_slice()));
                } else if page[group.places(patch)] != patch.original {
                    foreign.push(patch.address);
                }
            }
            if !ours.is_empty() {
                write(group.bytes.start, &page, &ours)?;
            }
        }
        Ok(foreign)
    }
}

/// Reads memory; false if it is not there.
type Read<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;
/// Writes memory.
type Write<'a> = dyn FnMut(u64, &[u8], &[(u64, &[u8])]) -> Result<(), Error> + 'a;

/// Writes bytes of a page as they should be, or where the kernel forbids that, the `changes` in their order.
fn write_page(stopped: &Stopped, start: u64, page: &[u8], changes: &[(u64, &[u8])]) -> Result<(), Error> {
    if stopped.memory().write(start, page).is_err() {
        for (address, bytes) in changes {
            stopped.write_text(*address, bytes)?;
        }
    }
    Ok(())
}

impl Group {
    /// Reads its bytes; false if they are not there.
    fn read(&self, memory: &Memory, page: &mut Vec<u8>) -> bool {
        page.resize((self.bytes.end - self.bytes.start) as usize, 0);
        memory.read(self.bytes.start, page).is_ok()
    }

    /// Where a patch lies among its bytes.
    fn places(&self, patch: &PatchBytes) -> Range<usize> {
        let start = (patch.address - self.bytes.start) as usize;
        start..start + patch.patched.len()
    }
}

/// For each patch in which round it is written, and what it needs. In one round are patches of which none needs another
/// one on another page.
fn rounds(patches: &[PatchBytes]) -> Vec<(u32, Needs)> {
    let by_address: BTreeMap<u64, usize> =
        patches.iter().enumerate().map(|(index, patch)| (patch.address, index)).collect();
    let mut rounds = vec![(0, Needs::Nothing); patches.len()];
    let springboard_of = |patch: &PatchBytes| by_address.get(&patch.springboard()?).copied();
    let mut springboards: Vec<usize> = patches.iter().filter_map(springboard_of).collect();
    springboards.sort_by_key(|index| patches[*index].address);
    springboards.dedup();
    let behind = |rounds: &[(u32, Needs)], first: usize, then: &PatchBytes| {
        rounds[first].0 + u32::from(patches[first].page() != then.page())
    };
    // Upwards, because a springboard may lie in the same carrier behind another one.
    for index in springboards {
        let patch = &patches[index];
        let near = by_address.range(patch.address.saturating_sub(CARRIER_REACH)..patch.address);
        let carriers = near.filter(|(_, other)| patches[**other].patched.len() as u64 == NEAR_JUMP_LEN);
        let round = carriers.map(|(_, carrier)| behind(&rounds, *carrier, patch)).max();
        rounds[index] = (round.unwrap_or(0), Needs::Carrier);
    }
    for (index, patch) in patches.iter().enumerate() {
        if let Some(springboard) = springboard_of(patch) {
            rounds[index] = (behind(&rounds, springboard, patch), Needs::Springboard);
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A near jump, or a short one to `to`.
    fn patch(address: u64, to: Option<u64>) -> PatchBytes {
        let patched = match to {
            Some(to) => vec![SHORT_JUMP, (to as i64 - address as i64 - SHORT_JUMP_LEN as i64) as u8],
            None => vec![0xe9, 1, 2, 3, 4],
        };
        PatchBytes { address, original: vec![0x90; patched.len()], patched }
    }

    #[test]
    fn what_is_needed_comes_first_or_in_the_same_write() {
        type Row = (&'static str, &'static [(u64, Option<u64>)], &'static [&'static [u64]]);
        let rows: &[Row] = &[
            ("one_page", &[(0x1100, None), (0x1000, None)], &[&[0x1000, 0x1100]]),
            ("two_pages", &[(0x2000, None), (0x1000, None)], &[&[0x1000], &[0x2000]]),
            ("springboard_on_its_page", &[(0x1000, Some(0x1010)), (0x1010, None)], &[&[0x1010, 0x1000]]),
            ("springboard_behind", &[(0x1ff0, Some(0x2000)), (0x2000, None)], &[&[0x2000], &[0x1ff0]]),
            ("springboard_before", &[(0x2000, Some(0x1ff0)), (0x1ff0, None)], &[&[0x1ff0], &[0x2000]]),
            (
                "carrier_on_another_page",
                &[(0x1ff0, None), (0x2000, None), (0x2005, None), (0x1fe0, Some(0x2000)), (0x1fd0, Some(0x2005))],
                &[&[0x1ff0], &[0x2000, 0x2005], &[0x1fd0, 0x1fe0]],
            ),
            (
                "a_page_in_two_rounds",
                &[(0x1000, None), (0x1ff0, Some(0x2000)), (0x2000, None)],
                &[&[0x1000], &[0x2000], &[0x1ff0]],
            ),
            ("no_springboard_of_ours", &[(0x1000, Some(0x1010))], &[&[0x1000]]),
        ];
        for (name, patches, want) in rows {
            let writes = PageWrites::new(patches.iter().map(|(address, to)| patch(*address, *to)).collect());
            let addresses = |group: &Group| writes.patches[group.patches.clone()].iter().map(|p| p.address).collect();
            let found: Vec<Vec<u64>> = writes.groups.iter().map(addresses).collect();
            assert_eq!(found, *want, "{name}");
            for group in &writes.groups {
                assert_eq!(group.bytes.start / PAGE_BYTES, (group.bytes.end - 1) / PAGE_BYTES, "{name}: one page");
            }
        }
    }

    #[test]
    fn springboards_are_found_by_their_short_jumps() {
        let rows: &[(&str, &[u8], Option<u64>)] = &[
            ("forward", &[0xeb, 0x10], Some(0x1012)),
            ("back", &[0xeb, 0xf0], Some(0xff2)),
            ("near_jump", &[0xe9, 0, 0, 0, 0], None),
        ];
        for (name, patched, want) in rows {
            let patch = PatchBytes { address: 0x1000, original: vec![0x90; patched.len()], patched: patched.to_vec() };
            assert_eq!(patch.springboard(), *want, "{name}");
        }
    }
}
