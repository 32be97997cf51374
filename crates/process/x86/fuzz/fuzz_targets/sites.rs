//! Arbitrary bytes as a function: no panic, and every plan holds its invariants.
#![no_main]

#[path = "../src/check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::check(input);
});
