//! Any bytes as what a killed trimtab left in a process's shared memory, with a checksum that fits; and the undoing of what
//! is believed, in a pretended process: nothing of the process's own is unmapped or overwritten.
//!
//! The first byte of an input says whether the checksum is made to fit, the second what became of the process's mappings.
//! Next: `trimtab-session`'s `leftover`.

use crate::example::{CODE, example, maps_text};
use crate::hostile::Target;
use anyhow::Result;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::LazyLock;
use trimtab_session::leftover::{JudgedLeftover, judge};
use trimtab_types::procfs::{Mapping, parse_maps};

/// The part of the shared memory that is kept as input, in bytes: headers and patches.
const DESCRIPTOR_BYTES: usize = 8192;

/// The target.
pub struct Descriptor;

impl Target for Descriptor {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let (bytes, _) = example();
        let bytes = &bytes[..bytes.len().min(DESCRIPTOR_BYTES)];
        Ok((0..=u8::MAX).step_by(5).map(|maps| [&[1, maps], bytes].concat()).collect())
    }

    fn length_max(&self) -> usize {
        DESCRIPTOR_BYTES + 2
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let [sealed, changes, bytes @ ..] = input else { return false };
        let maps = mappings(*changes);
        let Ok(Some(judged)) = judge(bytes, maps.clone(), sealed % 2 == 1) else { return false };
        check_unmapped(&judged, &maps);
        for (address, original, patched) in &judged.patches {
            assert_eq!(original.len(), patched.len());
            let is_code = |place: u64| maps.iter().any(|m| m.executable && (m.start..m.end).contains(&place));
            let end = address.checked_add(patched.len() as u64).expect("a patch ends");
            assert!((*address..end).all(is_code), "a patch outside of code: {address:x}");
        }
        undo(&judged);
        true
    }
}

/// The process's mappings, some of them gone, shorter, longer or not what they were.
fn mappings(changes: u8) -> Vec<Mapping> {
    static DATA_LENGTH: LazyLock<u64> = LazyLock::new(|| example().1);
    let mut maps = parse_maps(maps_text(*DATA_LENGTH).as_bytes()).expect("well-formed");
    let has = |bit: u8| changes >> bit & 1 == 1;
    if has(3) {
        maps[1].end += 0x1000;
    }
    if has(4) {
        maps[3].end -= 0x1000;
    }
    if has(5) {
        maps[2].executable = false;
    }
    for (bit, gone) in [(6, 1), (7, 0)] {
        if has(bit) {
            maps.remove(gone);
        }
    }
    maps
}

/// Only memory of ours is unmapped, gates aside, and nothing is unmapped twice.
fn check_unmapped(judged: &JudgedLeftover, maps: &[Mapping]) {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (address, length) in &judged.unmapped {
        ranges.push(*address..address.checked_add(*length).expect("memory ends"));
    }
    ranges.sort_by_key(|range| range.start);
    assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "unmapped twice: {ranges:x?}");
    for range in ranges {
        assert!(range.end - range.start < 1 << 40, "more than anybody maps: {range:x?}");
        for page in (range.start..range.end).step_by(4096) {
            let mapping = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&page));
            let is_ours = mapping.is_some_and(|mapping| mapping.path.starts_with("/memfd:trimtab"));
            assert!(is_ours || judged.gates.contains(&page), "not ours: {page:x} of {range:x?}");
        }
    }
}

/// Patches and undoes them in a page of pretended code.
fn undo(judged: &JudgedLeftover) {
    const PAGE_BYTES: usize = 4096;
    let place = |address: u64, bytes: &[u8]| {
        let start = address.wrapping_sub(CODE) as usize;
        (start < PAGE_BYTES && start + bytes.len() <= PAGE_BYTES).then(|| start..start + bytes.len())
    };
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let mut code = [0xcc_u8; PAGE_BYTES];
    for (address, original, _) in &judged.patches {
        let Some(range) = place(*address, original) else { return };
        ranges.push((range.start, range.end));
        code[range].copy_from_slice(original);
    }
    ranges.sort_unstable();
    if ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return;
    }
    let before = code;
    for (address, _, patched) in &judged.patches {
        code[place(*address, patched).expect("just looked at")].copy_from_slice(patched);
    }
    let code = RefCell::new(code);
    let read = |address: u64, bytes: &mut [u8]| match place(address, bytes) {
        Some(range) => {
            bytes.copy_from_slice(&code.borrow()[range]);
            true
        }
        None => false,
    };
    let foreign = judged.restore_text(&read, &mut |address, bytes| {
        code.borrow_mut()[place(address, bytes).expect("only what was read is written")].copy_from_slice(bytes);
    });
    let code = code.into_inner();
    assert!(foreign.is_empty() && code == before, "the code is as it was: {foreign:x?}");
}
