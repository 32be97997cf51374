//! Any bytes as debugging sections, without a file around them: twelve lengths of two bytes, then the sections.
#![no_main]

#[path = "../../tests/common/ask.rs"]
mod ask;

use libfuzzer_sys::fuzz_target;
use trimtab_symbols::dwarf::{Program, Sections};
use trimtab_types::FileAddr;

const NAMES: [&str; 12] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_str",
    ".debug_line_str",
    ".debug_rnglists",
    ".debug_loclists",
    ".debug_addr",
    ".debug_str_offsets",
    ".debug_types",
    ".debug_ranges",
    ".debug_loc",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((lengths, mut rest)) = bytes.split_at_checked(2 * NAMES.len()) else { return };
    let mut parts = [&[][..]; NAMES.len()];
    for (part, length) in parts.iter_mut().zip(lengths.chunks_exact(2)) {
        let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len());
        (*part, rest) = rest.split_at(length);
    }
    let part = |name: &str| NAMES.iter().position(|known| *known == name).map_or(&[][..], |at| parts[at]);
    let sections = Sections::of_parts(part);
    let addrs = [0_u64, 2, 0x1000, 0x1010, 0x40_1000, u64::MAX].map(FileAddr);
    ask::ask_everything(&Program::open(&sections), &addrs, &["main", "f", "t", "x::y"]);
});
