//! Any bytes as a file: parse, ask about every function, keep and read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trimtab_symbols::{Image, fde_at, unwind_facts};

fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = Image::parse(bytes) else { return };
    for part in image.functions.iter().chain(&image.fragments) {
        let _ = unwind_facts(bytes, &image, part);
        let _ = fde_at(bytes, &image, part.addr);
        assert!(part.size > 0 && image.is_executable(part.addr));
    }
    assert_eq!(Image::from_cache(&image.to_cache()).as_ref(), Ok(&image));
    let _ = image.with_symbols_of(&image);
});
