//! Any bytes as unwind and exception tables, in a file that is otherwise sound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trimtab_symbols::{Image, fde_at, unwind_facts};

const HEADERS_BYTES: u64 = 64 + 2 * 56;
const SEARCH_TABLE_BYTES: u64 = 8;

fuzz_target!(|tables: &[u8]| {
    let bytes = file_around(tables);
    let image = Image::parse(&bytes).expect("a sound file");
    for frame in image.frames() {
        let fde = fde_at(&bytes, &image, frame.addr);
        assert!(!matches!(fde, Ok(None)));
    }
    for part in image.functions.iter().chain(&image.fragments) {
        if let Ok(facts) = unwind_facts(&bytes, &image, part) {
            assert!(facts.ranges.iter().any(|range| range.contains(&part.addr)));
            assert!(facts.landing_pads.iter().all(|pad| image.is_executable(*pad)));
        }
    }
});

/// One executable segment holds everything, at address 0; the search table has no rows, only the table's place.
fn file_around(tables: &[u8]) -> Vec<u8> {
    let size = HEADERS_BYTES + SEARCH_TABLE_BYTES + tables.len() as u64;
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
