//! Hand-written assembly with every shape of symbol and unwind entry; the assembler's own labels are the truth.

use crate::common::{addrs, build, named, nm, parse, processed, without_sections};
use std::path::PathBuf;
use trimtab_symbols::{FrameKind, Image, ImageKind, Source, fde_at, unwind_facts};
use trimtab_types::FileAddr;

const FLAGS: &[&str] = &["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=sha1", "-Wl,--eh-frame-hdr"];

fn shapes(test: &str) -> PathBuf {
    build(test, "cc", "shapes.s", FLAGS)
}

#[test]
fn each_address_is_what_it_is() {
    let path = shapes("shapes-each");
    let (_, image) = parse(&path);
    let labels = nm(&path, "tTwWiIdDbB");
    assert_eq!(image.kind, ImageKind::Static);
    assert_eq!(image.entry, labels["_start"].0);
    assert_eq!(image.build_id.0.len(), 40);
    // (case, label, names if it is a function, size)
    let rows: [(&str, &str, Option<&[&str]>, u64); 15] = [
        ("three names", "typed", Some(&["alias_global", "typed", "alias_weak"]), 11),
        ("local label", "label_in_typed", None, 0),
        ("another", "back_in_typed", None, 0),
        ("cold part", "typed.cold", None, 0),
        ("assembly without type", "untyped", Some(&["untyped"]), 3),
        ("not even global", "untyped_local", Some(&["untyped_local"]), 1),
        ("without size or entry", "unsized_typed", Some(&["unsized_typed"]), 16 + 16),
        ("data in text", "data_in_text", None, 0),
        ("two entries", "two_entries", Some(&["two_entries"]), 4),
        ("the second of them", "second_entry", None, 0),
        ("signal trampoline", "trampoline", Some(&["trampoline"]), 7),
        ("frame in rbp", "framed", Some(&["framed"]), 7),
        ("handlers", "catcher", Some(&["catcher"]), 21),
        ("resolver", "chosen", Some(&["chosen"]), 8),
        ("entry point", "_start", Some(&["_start"]), 6),
    ];
    for (case, label, names, size) in rows {
        let function = image.functions.iter().find(|function| function.addr == labels[label].0);
        let found = function.map(|function| function.names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found.as_deref(), names, "{case}");
        if let Some(function) = function {
            assert_eq!(function.size, size, "{case}");
            assert_eq!(function.is_ifunc, label == "chosen", "{case}");
            assert_eq!(function.source, Source::Symtab, "{case}");
        }
    }
    assert_eq!(image.functions.len(), rows.iter().filter(|row| row.2.is_some()).count(), "and nothing else");
}

#[test]
fn fragments_are_kept_apart() {
    let path = shapes("shapes-fragments");
    let (_, image) = parse(&path);
    let labels = nm(&path, "tT");
    let found: Vec<_> = image.fragments.iter().map(|fragment| (fragment.addr, fragment.names.clone())).collect();
    let cold = (labels["typed.cold"].0, vec!["typed.cold".to_string()]);
    let nameless = (labels["nameless_part_is_here"].0, Vec::new());
    assert_eq!(found, [cold, nameless]);
    assert!(image.function_at(labels["typed.cold"].0).is_none());
    assert_eq!(image.fragment_at(FileAddr(labels["typed.cold"].0.0 + 1)).map(|f| f.addr), Some(labels["typed.cold"].0));
}

#[test]
fn stripped_keeps_functions_with_unwind_entries() {
    let path = shapes("shapes-stripped");
    let (_, stripped) = parse(&processed(&path, ".stripped", "strip", &[]));
    let labels = nm(&path, "tTiI");
    let mut expected: Vec<FileAddr> =
        ["_start", "typed", "untyped", "untyped_local", "two_entries", "second_entry", "framed", "catcher", "chosen"]
            .iter()
            .map(|label| labels[*label].0)
            .collect();
    expected.sort_unstable();
    assert_eq!(addrs(&stripped.functions), expected);
    assert!(stripped.functions.iter().all(|f| f.source == Source::EhFrame && f.names.is_empty() && f.size > 0));
    assert_eq!(addrs(&stripped.fragments), [labels["typed.cold"].0, labels["nameless_part_is_here"].0]);
}

#[test]
fn nothing_is_lost_without_section_headers() {
    let (bytes, _) = parse(&shapes("shapes-sections"));
    let (_, stripped) = parse(&processed(&shapes("shapes-sections-2"), ".stripped", "strip", &[]));
    let bare = Image::parse(&without_sections(&bytes)).expect("parse");
    assert_eq!(bare.problems, Vec::<String>::new());
    assert_eq!(bare.functions, stripped.functions);
    assert_eq!(bare.fragments, stripped.fragments);
    assert_eq!(bare.build_id, stripped.build_id);
}

#[test]
fn frame_base_at_each_place() {
    let path = shapes("shapes-cfa");
    let (bytes, image) = parse(&path);
    let labels = nm(&path, "tT");
    // (label, bytes after it, first address of its entry, distance)
    for (label, after, is_start, expected) in [
        ("typed", 0, true, Some(8)),
        ("typed", 1, false, Some(16)),
        ("back_in_typed", 1, false, Some(8)),
        ("typed.cold", 0, true, Some(16)),
        ("nameless_part_is_here", 0, true, Some(48)),
        ("framed", 0, true, Some(8)),
        ("framed", 1, false, Some(16)),
        ("framed", 4, false, None),
        ("framed", 6, false, Some(8)),
        ("pad_one", 0, false, Some(16)),
    ] {
        let addr = FileAddr(labels[label].0.0 + after);
        let fde = fde_at(&bytes, &image, addr).expect("entry").expect("an entry");
        assert_eq!(fde.cfa_rsp_offset_at, expected, "{label}+{after}");
        assert_eq!(fde.initial_location_is_addr, is_start, "{label}+{after}");
        assert!(fde.range.contains(&addr), "{label}+{after}");
        let function = image.function_at(addr).or_else(|| image.fragment_at(addr)).expect("code");
        let facts = unwind_facts(&bytes, &image, function).expect("facts");
        assert_eq!(facts.cfa_rsp_offset_at(addr), expected, "{label}+{after}, from all facts");
    }
    for label in ["data_in_text", "unsized_typed"] {
        assert_eq!(fde_at(&bytes, &image, labels[label].0), Ok(None), "{label}");
    }
    let early = image.frame_at(FileAddr(labels["trampoline"].0.0 - 1)).expect("trampoline's entry");
    assert_eq!((early.kind, early.addr), (FrameKind::Signal, FileAddr(labels["trampoline"].0.0 - 1)));
}

#[test]
fn handlers_and_call_sites() {
    let path = shapes("shapes-pads");
    let (bytes, image) = parse(&path);
    let labels = nm(&path, "tT");
    let label = |name: &str| labels[name].0;
    let facts = unwind_facts(&bytes, &image, named(&image, "catcher")).expect("facts");
    assert_eq!(facts.landing_pads, [label("pad_one"), label("pad_two")]);
    let sites: Vec<_> = facts.call_sites.iter().map(|s| (s.range.clone(), s.landing_pad, s.action)).collect();
    assert_eq!(
        sites,
        [
            (label("call_through")..label("call_one"), None, 0),
            (label("call_one")..label("call_two"), Some(label("pad_one")), 0),
            (label("call_two")..label("call_end"), Some(label("pad_two")), 1),
        ]
    );
    let two = unwind_facts(&bytes, &image, named(&image, "two_entries")).expect("facts");
    let (first, second) = (label("two_entries"), label("second_entry"));
    assert_eq!(two.ranges, [first..second, second..FileAddr(second.0 + 2)]);
    assert_eq!(two.landing_pads, []);
    let trampoline = unwind_facts(&bytes, &image, named(&image, "trampoline")).expect("facts");
    assert!(trampoline.is_signal_frame);
}

#[test]
fn data_by_name() {
    let path = shapes("shapes-data");
    let (bytes, image) = parse(&path);
    let labels = nm(&path, "dD");
    let (table, size) = image.object_named("table").expect("table");
    assert_eq!((table, size), (labels["table"].0, 24));
    assert_eq!(image.object_named("table_alias"), Some((table, size)));
    assert_eq!(image.object_named("typed"), None);
    let offset = image.file_offset_of(table).expect("in the file") as usize;
    assert_eq!(bytes[offset..offset + 9], [1, 0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(image.file_offset_of(FileAddr(0)), None);
    assert_eq!(image.file_offset_of(FileAddr(u64::MAX)), None);
}

#[test]
fn patterns_find_any_alias_once() {
    let (_, image) = parse(&shapes("shapes-patterns"));
    for (pattern, expected) in [
        ("alias_*", vec!["typed"]),
        ("*typed*", vec!["typed", "untyped", "untyped_local", "unsized_typed"]),
        ("?yped", vec!["typed"]),
        ("typed.cold", vec![]),
        ("nothing*", vec![]),
    ] {
        let mut expected: Vec<FileAddr> = expected.iter().map(|name| named(&image, name).addr).collect();
        expected.sort_unstable();
        let found: Vec<FileAddr> = image.functions_matching(pattern).iter().map(|f| f.addr).collect();
        assert_eq!(found, expected, "{pattern}");
    }
}
