//! Any bytes as a file with debugging information: unpack it, and ask everything.
#![no_main]

#[path = "../../tests/common/ask.rs"]
mod ask;

use libfuzzer_sys::fuzz_target;
use trimtab_symbols::dwarf::{Program, Sections};
use trimtab_types::FileAddr;

fuzz_target!(|bytes: &[u8]| {
    let Ok(sections) = Sections::of(bytes) else { return };
    let addrs: Vec<FileAddr> = (0x1000..0x1400).step_by(32).map(FileAddr).collect();
    ask::ask_everything(&Program::open(&sections), &addrs, &["main", "node", "sum", "x::y"]);
});
