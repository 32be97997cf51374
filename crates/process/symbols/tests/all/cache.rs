//! Images as bytes and back: the same facts, and every kind of damage noticed.

use crate::common::{build, parse};
use trimtab_symbols::{Error, Image, seal, unwind_facts};
use trimtab_types::FileAddr;

const SHAPES: &[&str] = &["-nostdlib", "-static", "-no-pie"];

#[test]
fn a_cached_image_answers_as_the_parsed_one() {
    let (bytes, image) = parse(&build("cache_shapes", "cc", "shapes.s", SHAPES));
    let cached = Image::from_cache(&image.to_cache()).expect("cache");
    assert_eq!(cached, image);
    assert_eq!(cached.function_named("alias_weak"), image.function_named("typed"));
    for function in &image.functions {
        assert_eq!(unwind_facts(&bytes, &cached, function), unwind_facts(&bytes, &image, function));
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let (_, image) = parse(&build("cache-flips", "cc", "shapes.s", SHAPES));
    let cache = image.to_cache();
    for at in 0..cache.len() {
        let mut damaged = cache.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(matches!(Image::from_cache(&damaged), Err(Error::BadCache { .. })), "byte {at}");
        assert!(matches!(Image::from_cache(&cache[..at]), Err(Error::BadCache { .. })), "cut at {at}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let (_, image) = parse(&build("cache-wrong", "cc", "shapes.s", SHAPES));
    let cache = image.to_cache();
    let with = |at: usize| {
        let mut bytes = cache.clone();
        bytes[at] ^= 0xff;
        bytes
    };
    let mut disordered = image.clone();
    disordered.functions.swap(0, 1);
    let mut twice = image.clone();
    twice.objects[1].addr = twice.objects[0].addr;
    let mut lost = image.clone();
    lost.fragments[0].addr = FileAddr(u64::MAX);
    for (case, bytes, expected) in [
        ("empty", Vec::new(), "0 bytes are no header"),
        ("something else", with(0), "it is something else"),
        ("another version", with(8), "its version is not"),
        ("damage", with(40), "its checksum is wrong"),
        ("longer", seal(&[&cache[28..], &[0]].concat()), "1 bytes too many"),
        ("functions out of order", disordered.to_cache(), "its lists are not in order"),
        ("one address twice", twice.to_cache(), "its lists are not in order"),
        ("fragment elsewhere", lost.to_cache(), "its lists are not in order"),
        ("nothing in it", seal(&[]), "Hit the end of buffer"),
    ] {
        let error = Image::from_cache(&bytes).expect_err(case).to_string();
        assert!(error.contains(expected) && error.contains("delete it"), "{case}: {error}");
    }
}
