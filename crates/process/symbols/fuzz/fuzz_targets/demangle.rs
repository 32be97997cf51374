//! Any text as a mangled name: what comes out is short, or nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trimtab_symbols::{demangle, demangle_name};

fuzz_target!(|text: &str| {
    for meaning in [demangle(text), demangle_name(text)].into_iter().flatten() {
        assert!(meaning.len() <= 64 * 1024);
    }
});
