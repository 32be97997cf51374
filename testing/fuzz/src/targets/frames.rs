//! Any bytes as unwind and exception tables, in a file that is otherwise sound.
//!
//! Next: `elf` for the file around them.

use crate::hostile::Target;
use crate::seeds::{SHAPES, Specimen, THROWS, section};
use anyhow::Result;
use trimtab_symbols::{Image, fde_at, unwind_facts};

const HEADERS_BYTES: u64 = 64 + 2 * 56;
const SEARCH_TABLE_BYTES: u64 = 8;
/// Address of the tables in the file around them.
const TABLES_AT: u64 = HEADERS_BYTES + SEARCH_TABLE_BYTES;

/// The target.
pub struct Frames;

impl Target for Frames {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let optimised = Specimen { flags: &["-O2", "-no-pie"], ..THROWS };
        [SHAPES, THROWS, optimised].iter().map(seed).collect()
    }

    fn length_max(&self) -> usize {
        4096
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let bytes = file_around(input);
        let image = Image::parse(&bytes).expect("a sound file");
        for frame in image.frames() {
            assert!(!matches!(fde_at(&bytes, &image, frame.addr), Ok(None)), "a frame's entry is found again");
        }
        let mut known = false;
        for part in image.functions.iter().chain(&image.fragments) {
            if let Ok(facts) = unwind_facts(&bytes, &image, part) {
                assert!(facts.ranges.iter().any(|range| range.contains(&part.addr)), "facts are about the function");
                assert!(facts.landing_pads.iter().all(|pad| image.is_executable(*pad)), "landing pads are code");
                let _ = facts.cfa_rsp_offset_at(part.addr);
                known = true;
            }
        }
        known
    }
}

/// `.eh_frame`, moved so that relative addresses still lead to code and to the exception tables behind it.
fn seed(specimen: &Specimen) -> Result<Vec<u8>> {
    let file = specimen.build(&[])?;
    let ((frames, frames_at), (table, table_at)) = (section(&file, ".eh_frame"), section(&file, ".gcc_except_table"));
    let mut tables = frames.to_vec();
    let mut at = 0;
    while let Some(length) = word(&tables, at).filter(|length| *length > 0) {
        // An entry that is no common one begins its range here; compilers write both relative to their own place.
        if word(&tables, at + 4).is_some_and(|id| id != 0) {
            put(&mut tables, at + 8, (at as u32).wrapping_mul(3) % 2048);
            let place = at + 17;
            if let Some(table_place) = word(&tables, place) {
                let old = frames_at.wrapping_add(place as u64).wrapping_add_signed(i64::from(table_place as i32));
                let inside = old.wrapping_sub(table_at);
                if inside < table.len() as u64 {
                    put(&mut tables, place, (frames.len() as u64 + inside).wrapping_sub(place as u64) as u32);
                }
            }
        }
        at += 4 + length as usize;
    }
    tables.extend(table);
    Ok(tables)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// One executable segment holds everything, at address 0; the search table has no rows, only the table's place.
fn file_around(tables: &[u8]) -> Vec<u8> {
    let size = TABLES_AT + tables.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [3_u16, 62] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    for word in [0_u64, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 2, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    for (kind, flags, offset, length) in [(1_u32, 5_u32, 0, size), (0x6474_e550, 4, HEADERS_BYTES, SEARCH_TABLE_BYTES)]
    {
        file.extend(kind.to_le_bytes());
        file.extend(flags.to_le_bytes());
        for word in [offset, offset, offset, length, length, 0x1000] {
            file.extend(word.to_le_bytes());
        }
    }
    // Version 1, a relative place of four bytes, no rows.
    file.extend([1, 0x1b, 0xff, 0xff, 4, 0, 0, 0]);
    file.extend(tables);
    file
}
