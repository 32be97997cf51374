//! A descriptor as an insertion writes it, and the mappings of the process it is in.
//!
//! Next: the tests of `leftover` and the fuzzing of `testing/fuzz`, which damage it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use trimtab_stub::layout::{Geometry, MAGIC, MappingRecord, Needs, PAGE, PatchRecord};
use trimtab_stub::view::View;

/// Where the shared memory lies.
pub const BASE: u64 = 0x7f00_0000_0000;
/// Where the program's code lies, a page of it; gate and arena lie before it.
pub const CODE: u64 = 0x5500_0000_0000;

/// The process's mappings: gate, arena, code, shared memory.
pub fn maps_text(data_length: u64) -> String {
    let (gate, arena) = (CODE - 0x3000, CODE - 0x2000);
    format!(
        "{gate:x}-{arena:x} rw-p 00000000 00:00 0 \n\
         {arena:x}-{:x} r-xs 00001000 00:01 9 /memfd:trimtab (deleted)\n\
         {CODE:x}-{:x} r-xp 00001000 fe:00 77 /bin/app\n\
         {BASE:x}-{:x} rw-s 00000000 00:01 9 /memfd:trimtab (deleted)\n",
        arena + 0x1000,
        CODE + 0x1000,
        BASE + data_length
    )
}

/// The descriptor's bytes, and the length of the whole shared memory.
pub fn example() -> (Vec<u8>, u64) {
    let needs = Needs {
        patches: 2,
        probes: 1,
        functions: 1,
        ranks: 2,
        details: 0,
        code: 4096,
        threads: 1,
        areas: None,
        regions: false,
    };
    let geometry = Geometry::for_needs(&needs);
    let words: Vec<AtomicU64> = (0..geometry.requests_offset / 8 + 1).map(|_| AtomicU64::new(0)).collect();
    let view = View::new(&words);
    view.set_geometry(&geometry);
    let records = [(BASE, geometry.data_length), (CODE - 0x3000, PAGE), (CODE - 0x2000, PAGE)];
    let records = records.map(|(address, length)| MappingRecord { address, length });
    view.set_mappings(&records);
    for index in 0..2 {
        let address = CODE + 16 * index;
        view.set_patch(index, &PatchRecord { address, length: 5, original: [0x90; 32], patched: [0xe9; 32] });
    }
    view.header().base.store(BASE, Relaxed);
    view.header().magic.store(MAGIC, Relaxed);
    view.header().checksum.store(view.descriptor_checksum(), Relaxed);
    (view.read_bytes(0, words.len() * 8), geometry.data_length)
}
