//! Damaged files and caches: any answer will do, but there must be one, without a panic or a hang.

use crate::ask_image::ask_image;
use crate::common::{build, read, without_sections};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::sync::OnceLock;
use trimtab_symbols::{Image, MappedModule, seal};
use trimtab_types::ProcAddr;

/// The damage to the bytes, in this order.
#[derive(Clone, Debug)]
struct Damage {
    without_sections: bool,
    /// (position, new byte)
    bytes: Vec<(prop::sample::Index, u8)>,
    /// (position of an aligned word, value of the kind that overflows)
    words: Vec<(prop::sample::Index, u64)>,
    cut: Option<prop::sample::Index>,
}

impl Damage {
    fn apply(&self, whole: &[u8]) -> Vec<u8> {
        let mut bytes = if self.without_sections { without_sections(whole) } else { whole.to_vec() };
        for (at, byte) in &self.bytes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        for (at, word) in &self.words {
            let at = at.index(bytes.len() / 8) * 8;
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        if let Some(cut) = &self.cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let word = prop_oneof![
        Just(u64::MAX),
        Just(i64::MAX as u64),
        Just(1 << 32),
        0_u64..0x1_0000,
        0x40_0000_u64..0x41_0000,
        any::<u64>()
    ];
    let bytes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    let words = prop::collection::vec((any::<prop::sample::Index>(), word), 0..4);
    (any::<bool>(), bytes, words, prop::option::weighted(0.2, any::<prop::sample::Index>()))
        .prop_map(|(without_sections, bytes, words, cut)| Damage { without_sections, bytes, words, cut })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_get_an_answer(damage in damage()) {
        let bytes = damage.apply(small());
        if let Ok(image) = Image::parse(&bytes) {
            ask_image(&bytes, &image);
            let cached = Image::from_cache(&image.to_cache());
            prop_assert_eq!(cached.as_ref(), Ok(&image));
        }
    }

    #[test]
    fn damaged_memory_of_modules_gets_an_answer(damage in damage()) {
        // As the loader lays out a file whose parts follow each other.
        let bytes = damage.apply(small());
        let read = |address: ProcAddr, length: usize| {
            let from = usize::try_from(address.0.checked_sub(0x1000)?).ok()?;
            bytes.get(from..from.checked_add(length)?).map(<[u8]>::to_vec)
        };
        if let Some(module) = MappedModule::at(&read, ProcAddr(0x1000)) {
            let _ = (module.imports(), module.soname(), module.defined("plain"), module.defined("no_such_function"));
        }
    }

    #[test]
    fn damaged_caches_get_an_answer(damage in damage()) {
        let image = Image::parse(small()).expect("undamaged");
        // Past the checksum, which would catch nearly all of them.
        let payload = &image.to_cache()[28..];
        if let Ok(image) = Image::from_cache(&seal(&damage.apply(payload))) {
            ask_image(small(), &image);
        }
    }
}

/// The damage must not be so crude that everything is refused at the door.
#[test]
fn much_damage_is_survived() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let inputs = (0..1000).map(|_| damage().new_tree(&mut runner).expect("damage").current().apply(small()));
    let parsed: Vec<Image> = inputs.filter_map(|bytes| Image::parse(&bytes).ok()).collect();
    assert!(parsed.len() > 300, "{} of 1000 parsed", parsed.len());
    assert!(parsed.iter().filter(|image| !image.problems.is_empty()).count() > 50);
}

fn small() -> &'static [u8] {
    static SMALL: OnceLock<Vec<u8>> = OnceLock::new();
    SMALL.get_or_init(|| {
        let flags = ["-nostdlib", "-shared", "-Wl,--eh-frame-hdr", "-Wl,-z,noseparate-code", "-Wl,-Bsymbolic"];
        read(&build("hostile", "cc", "shapes.s", &flags))
    })
}
