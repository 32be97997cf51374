//! Damaged debugging information: any answer will do, but there must be one, without a panic or a hang.

use crate::ask::ask_everything;
use crate::common::{build, processed, read, run};
use proptest::prelude::*;
use std::ops::Range;
use std::process::Command;
use std::sync::OnceLock;
use trimtab_symbols::dwarf::{LookupError, Program, Sections, Types};
use trimtab_types::FileAddr;

const NAMES: &[&str] =
    &["sum", "twice", "uses", "main", "struct node", "node", "color", "RED", "calls", "global_number", "x::y<z>", ""];

/// A small library, compressed or not, and where its debugging sections lie in it.
struct Specimen {
    bytes: Vec<u8>,
    sections: Vec<Range<usize>>,
    code: Vec<FileAddr>,
}

fn specimen(name: &str, flags: &[&str], tool: Option<&[&str]>) -> Specimen {
    let all = [&["-shared", "-fPIC", "-nostdlib", "-O1"], flags].concat();
    let mut path = build(&format!("dwarf-hostile-{name}"), "cc", "facts.c", &all);
    if let Some(arguments) = tool {
        path = processed(&path, ".packed", "objcopy", arguments);
    }
    let text = run(Command::new("readelf").args(["-SW"]).arg(&path));
    let row = |line: &str| -> Option<(String, Vec<u64>)> {
        let fields: Vec<&str> = line.split(']').nth(1)?.split_ascii_whitespace().collect();
        let numbers = fields.get(2..5)?.iter().map(|field| u64::from_str_radix(field, 16).ok());
        Some((fields[0].to_string(), numbers.collect::<Option<_>>()?))
    };
    let rows: Vec<_> = text.lines().filter_map(row).collect();
    let debug = rows.iter().filter(|(name, _)| name.starts_with(".debug_"));
    let sections: Vec<_> = debug.map(|(_, at)| at[1] as usize..(at[1] + at[2]) as usize).collect();
    assert!(sections.len() >= 7, "{text}");
    let (_, at) = rows.iter().find(|(name, _)| name == ".text").expect(".text");
    let code = (at[0]..at[0] + at[2]).step_by(9).map(FileAddr).collect();
    Specimen { bytes: read(&path), sections, code }
}

fn specimens() -> &'static [Specimen] {
    static ALL: OnceLock<Vec<Specimen>> = OnceLock::new();
    ALL.get_or_init(|| {
        vec![
            specimen("5", &["-g", "-gdwarf-5"], None),
            specimen("4", &["-g", "-gdwarf-4", "-fdebug-types-section"], None),
            specimen("zlib", &["-g", "-gz=zlib"], None),
            specimen("zstd", &["-g"], Some(&["--compress-debug-sections=zstd"])),
        ]
    })
}

fn ask(bytes: &[u8], code: &[FileAddr]) {
    let Ok(sections) = Sections::of(bytes) else { return };
    let facts = Program::open(&sections);
    ask_everything(&facts, code, NAMES);
}

#[test]
fn what_is_undamaged_has_answers() {
    for specimen in specimens() {
        ask(&specimen.bytes, &specimen.code);
        let sections = Sections::of(&specimen.bytes).expect("sections");
        let facts = Program::open(&sections);
        assert!(specimen.code.iter().any(|addr| facts.function_at(*addr).is_some()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_sections_get_an_answer(
        which in any::<prop::sample::Index>(),
        bytes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..10),
    ) {
        let specimen = which.get(specimens());
        let mut damaged = specimen.bytes.clone();
        for (section, at, byte) in &bytes {
            let section = section.get(&specimen.sections);
            if !section.is_empty() {
                damaged[section.start + at.index(section.len())] = *byte;
            }
        }
        ask(&damaged, &specimen.code[..specimen.code.len().min(40)]);
    }

    #[test]
    fn sections_of_each_other_get_an_answer(
        order in prop::collection::vec(any::<prop::sample::Index>(), 20),
        cut in any::<prop::sample::Index>(),
    ) {
        // Every section's bytes in the place of another's.
        let specimen = &specimens()[0];
        let part = |name: &str| {
            let at = order[name.len() % order.len()].get(&specimen.sections).clone();
            &specimen.bytes[at.start..at.end - cut.index(at.len() / 4 + 1)]
        };
        let sections = Sections::of_parts(part);
        ask_everything(&Program::open(&sections), &specimen.code[..20], NAMES);
    }
}

/// An entry of each unit that is its own origin, a type that is its own target: circles must end.
#[test]
fn circles_end() {
    let specimen = &specimens()[0];
    let mut types = Types::default();
    for step in 0..64_u32 {
        let mut damaged = specimen.bytes.clone();
        let info = &specimen.sections[1];
        // Every aligned word becomes a reference to the same few entries.
        for at in (info.start + 64..info.end - 4).step_by(29) {
            damaged[at..at + 4].copy_from_slice(&(40 + step).to_le_bytes());
        }
        let sections = Sections::of(&damaged).expect("sections");
        let facts = Program::open(&sections);
        ask_everything(&facts, &specimen.code[..10], NAMES);
        let _ = facts.type_named("struct node", None, &mut types);
    }
}

#[test]
fn what_unpacks_to_more_than_is_possible_is_refused() {
    let specimen = &specimens()[2];
    let mut damaged = specimen.bytes.clone();
    for section in &specimen.sections {
        // The size in the compression header.
        if damaged[section.start] == 1 {
            damaged[section.start + 8..section.start + 16].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        }
    }
    let sections = Sections::of(&damaged).expect("sections");
    assert!(sections.is_empty());
    assert!(sections.problems.iter().any(|problem| problem.contains("can't unpack to")), "{:?}", sections.problems);
    let facts = Program::open(&sections);
    let error = facts.type_named("node", None, &mut Types::default()).expect_err("nothing left");
    assert!(matches!(error, LookupError::NotFound { .. }));
}
