//! Any bytes as a cached image, with a right checksum; then every look-up on what comes out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trimtab_symbols::{Image, fde_at, seal, unwind_facts};
use trimtab_types::FileAddr;

fuzz_target!(|payload: &[u8]| {
    let _ = Image::from_cache(payload);
    let Ok(image) = Image::from_cache(&seal(payload)) else { return };
    for part in image.functions.iter().chain(&image.fragments) {
        let _ = unwind_facts(payload, &image, part);
        let _ = image.function_at(part.end());
        let _ = image.file_offset_of(part.addr);
        let _ = part.names.iter().filter_map(|name| image.function_named(name)).count();
    }
    for addr in [0, 1, u64::MAX].map(FileAddr) {
        let _ = fde_at(payload, &image, addr);
        let _ = image.frame_at(addr);
    }
    let _ = image.functions_matching("*a*");
    let _ = image.with_symbols_of(&image);
});
