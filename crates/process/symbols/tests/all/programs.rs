//! Programs made by the system's compilers; nm, and the running programs themselves, are the truth.

use crate::common::{build, named, nm, parse, path, processed, read, run, without_sections};
use lzma_rust2::{XzOptions, XzWriter};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use trimtab_symbols::{Error, Image, ImageKind, Source, fde_at, unwind_facts};
use trimtab_types::FileAddr;

const FIXED: &[&str] = &["-O2", "-fomit-frame-pointer", "-no-pie"];

#[test]
fn kinds_and_what_they_need() {
    for (case, flags, kind, needs_libc) in [
        ("static", &["-static", "-no-pie"][..], ImageKind::Static, false),
        ("static-pie", &["-static-pie"], ImageKind::StaticPie, false),
        ("dynamic", &["-no-pie"], ImageKind::Dynamic, true),
        ("dynamic-pie", &["-pie", "-fPIE"], ImageKind::DynamicPie, true),
        ("library", &["-shared", "-fPIC", "-Wl,-soname,libframes.so.7"], ImageKind::SharedLibrary, true),
    ] {
        let path = build(&format!("kind-{case}"), "cc", "frames.c", flags);
        let (bytes, image) = parse(&path);
        assert_eq!(image.kind, kind, "{case}");
        assert_eq!(Image::parse(&without_sections(&bytes)).expect("parse").kind, kind, "{case}, no section headers");
        assert_eq!(image.needed.iter().any(|name| name == "libc.so.6"), needs_libc, "{case}");
        assert_eq!(image.soname.as_deref(), (case == "library").then_some("libframes.so.7"), "{case}");
        let truth = nm(&path, "T");
        assert_eq!((named(&image, "main").addr, named(&image, "main").size), truth["main"], "{case}");
        let segment = image.segments.iter().find(|segment| segment.contains(truth["main"].0)).expect("mapped");
        assert!(segment.executable && !segment.writable, "{case}");
    }
}

#[test]
fn every_function_nm_knows_in_a_static_program() {
    let path = build("static-all", "cc", "frames.c", &["-static", "-no-pie", "-g"]);
    let (_, image) = parse(&path);
    let truth = nm(&path, "tTwWiI");
    assert!(truth.len() > 1000, "{} names", truth.len());
    let mut sized = 0;
    for (name, (addr, size)) in truth {
        // Labels, and cold parts, are not functions; nm doesn't tell them from functions.
        let known = image.functions.iter().chain(&image.fragments).find(|function| function.addr == addr);
        if size > 0 {
            let known = known.unwrap_or_else(|| panic!("{name} at {addr} is not known"));
            assert!(known.size >= size && known.names.contains(&name), "{name}: {known:?}");
            sized += 1;
        }
    }
    assert!(sized > 1000, "{sized} with size");
    assert!(named(&image, "memcpy").is_ifunc);
    assert!(image.functions.iter().all(|function| !function.names.iter().any(|name| name.ends_with(".cold"))));
}

#[test]
fn the_stack_is_where_the_rules_say() {
    for (case, extra) in [("omitted frame pointer", "-fomit-frame-pointer"), ("static", "-static")] {
        let flags = [FIXED, &[extra]].concat();
        let path = build(&format!("cfa-{extra}"), "cc", "frames.c", &flags);
        let (bytes, image) = parse(&path);
        let output = run(&mut Command::new(&path));
        let mut checked = BTreeSet::new();
        for line in output.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let addr = FileAddr(u64::from_str_radix(fields[2], 16).expect("hex"));
            let truth = Some(fields[3].parse::<i64>().expect("number"));
            let fde = fde_at(&bytes, &image, addr).expect("entry").expect("an entry");
            assert_eq!(fde.cfa_rsp_offset_at, truth, "{case}: {line}");
            let function = image.function_at(addr).expect("a function");
            assert_eq!(function.names, [fields[1]], "{case}: {line}");
            let facts = unwind_facts(&bytes, &image, function).expect("facts");
            assert_eq!(facts.cfa_rsp_offset_at(addr), truth, "{case}: {line}");
            checked.insert(fields[1].to_string());
        }
        assert_eq!(checked.len(), 3, "{case}: {checked:?}");
    }
}

#[test]
fn every_landing_pad_the_unwinder_uses_is_known() {
    for optimise in ["-O0", "-O2"] {
        let path = build(&format!("throws{optimise}"), "c++", "throws.cc", &[optimise, "-no-pie", "-rdynamic", "-ldl"]);
        let (bytes, image) = parse(&path);
        let output = run(&mut Command::new(&path));
        let pads: BTreeSet<&str> = output.lines().filter_map(|line| line.strip_prefix("pad ")).collect();
        let own: Vec<FileAddr> = pads
            .iter()
            .map(|pad| FileAddr(u64::from_str_radix(pad, 16).expect("hex")))
            .filter(|pad| image.is_executable(*pad))
            .collect();
        assert!(own.len() >= 3, "{optimise}: {output}");
        let code = || image.functions.iter().chain(&image.fragments);
        let known: BTreeSet<FileAddr> =
            code().flat_map(|part| unwind_facts(&bytes, &image, part).expect("facts").landing_pads).collect();
        for pad in own {
            assert!(known.contains(&pad), "{optimise}: {pad} of {known:?}");
        }
        let catches = code().find(|part| part.names.iter().any(|name| name.contains("catches"))).expect("catches");
        let facts = unwind_facts(&bytes, &image, catches).expect("facts");
        let inside =
            |site: &trimtab_symbols::CallSiteRow| catches.addr <= site.range.start && site.range.end <= catches.end();
        assert!(!facts.call_sites.is_empty() && facts.call_sites.iter().all(inside), "{optimise}: {facts:?}");
    }
}

#[test]
fn stripping_loses_names_but_no_function() {
    let path = build("stripped", "c++", "throws.cc", &["-O2", "-rdynamic", "-ldl"]);
    let (_, full) = parse(&path);
    let (_, stripped) = parse(&processed(&path, ".stripped", "strip", &[]));
    assert_eq!(full.build_id, stripped.build_id);
    for function in full.functions.iter().filter(|function| full.frame_at(function.addr).is_some()) {
        let found = stripped.functions.iter().find(|other| other.addr == function.addr);
        let found = found.unwrap_or_else(|| panic!("{function:?} is lost"));
        // Alignment after a function belongs to no one; otherwise both tell the same size.
        assert_eq!(found.size, function.size, "{function:?}");
        let expected = if function.exported { Source::Dynsym } else { Source::EhFrame };
        assert_eq!(found.source, expected, "{function:?}");
    }
    assert!(stripped.functions.iter().any(|function| function.exported));
}

#[test]
fn a_debug_file_has_the_programs_places_without_their_bytes() {
    let (code, debug) = split("debug-file", &[]);
    let (_, original) = parse(&path("debug-file"));
    assert!(debug.is_debug_only && !code.is_debug_only);
    assert_eq!(debug.segments.len(), code.segments.len());
    assert!(debug.segments.iter().all(|segment| segment.file_size == 0), "its bytes are in the other file");
    assert!(code.function_named("many_saved").is_none());
    assert_eq!(named(&debug, "many_saved").addr, named(&original, "many_saved").addr);
}

#[test]
fn a_build_without_id_is_known_by_its_code() {
    let (code, _) = split("no-id", &["-Wl,--build-id=none"]);
    let (same, _) = split("no-id-again", &["-Wl,--build-id=none"]);
    let (other, _) = split("no-id-other", &["-Wl,--build-id=none", "-O1"]);
    assert!(code.build_id.0.starts_with("text-"));
    assert_eq!(code.build_id, same.build_id);
    assert_ne!(code.build_id, other.build_id);
}

#[test]
fn mini_symbols_are_read() {
    let full = build("mini", "cc", "frames.c", FIXED);
    let debug = processed(&full, ".debug", "objcopy", &["--only-keep-debug"]);
    let packed = path("mini.xz");
    std::fs::write(&packed, xz(&read(&debug))).expect("write");
    let stripped = processed(&full, ".stripped", "strip", &[]);
    let section = format!(".gnu_debugdata={}", packed.display());
    let (_, image) = parse(&processed(&stripped, ".with-mini", "objcopy", &["--add-section", &section]));
    assert_eq!(image.functions, parse(&full).1.functions);
    std::fs::write(&packed, xz(&vec![0; 1 << 22])).expect("write");
    let bomb = Image::parse(&read(&processed(&stripped, ".bomb", "objcopy", &["--add-section", &section])));
    let problems = bomb.expect("parse").problems;
    assert!(problems.len() == 1 && problems[0].contains("mini symbols: more than"), "{problems:?}");
}

#[test]
fn versions_of_one_name() {
    let map = "-Wl,--version-script=versions.map";
    let library = build("versions.so", "cc", "versions.c", &["-shared", "-fPIC", "-O1", map]);
    let truth = nm(&library, "tTdDbB");
    for (case, file) in [("full", library.clone()), ("stripped", processed(&library, ".stripped", "strip", &[]))] {
        let (_, image) = parse(&file);
        for (name, expected) in [
            ("answer", "new_answer"),
            ("answer@V1", "old_answer"),
            ("answer@V2", "new_answer"),
            ("answer@UNKNOWN", "new_answer"),
            ("protected_helper", "protected_helper"),
        ] {
            let function = named(&image, name);
            assert_eq!(function.addr, truth[expected].0, "{case}: {name}");
            assert!(function.exported, "{case}: {name}");
        }
        assert_eq!(image.functions_named("answer").len(), 2, "{case}");
        assert_eq!(image.functions_matching("answer").len(), 2, "{case}");
        assert_eq!(image.object_named("shared_data"), Some((truth["shared_data"].0, 24)), "{case}");
        let hidden = image.function_named("hidden_helper");
        assert_eq!(hidden.is_some(), case == "full", "{case}");
        assert!(hidden.is_none_or(|function| !function.exported), "{case}");
    }
}

#[test]
fn what_is_no_program_is_refused_with_the_reason() {
    let object = build("refused.o", "cc", "frames.c", &["-c"]);
    let with = |at: usize, value: u8| {
        let mut bytes = read(&build(&format!("refused-{at}"), "cc", "frames.c", &[]));
        bytes[at] = value;
        bytes
    };
    for (case, bytes, expected) in [
        ("empty", Vec::new(), "not an ELF file (0 bytes"),
        (
            "a script",
            b"#!/bin/sh\necho this is long enough\n".to_vec(),
            "not an ELF file (35 bytes, first bytes [23, 21",
        ),
        ("32 bits", with(4, 1), "a 32-bit ELF file (machine 62); only 64-bit programs can be measured: rebuild"),
        ("big-endian", with(5, 2), "a big-endian ELF file"),
        ("class", with(4, 9), "damaged ELF file: ELF class 9"),
        ("object file", read(&object), "is an object file that is not linked yet"),
        ("core dump", with(16, 4), "is a core dump"),
        ("header only", read(&object)[..40].to_vec(), "damaged ELF file"),
    ] {
        let error = Image::parse(&bytes).expect_err(case).to_string();
        assert!(error.contains(expected), "{case}: {error}");
    }
}

#[test]
fn bytes_of_another_file_are_refused() {
    let (bytes, image) = parse(&build("other-file", "cc", "frames.c", &[]));
    let main = named(&image, "main");
    let expected = Error::OtherFile { expected: bytes.len() as u64, given: bytes.len() as u64 - 1 };
    let short = &bytes[..bytes.len() - 1];
    assert_eq!(fde_at(short, &image, main.addr), Err(expected.clone()));
    assert_eq!(unwind_facts(short, &image, main), Err(expected));
}

/// The stripped program and its debug file.
fn split(name: &str, flags: &[&str]) -> (Image, Image) {
    let full = build(name, "cc", "frames.c", &[FIXED, &["-g"], flags].concat());
    let debug = processed(&full, ".debug", "objcopy", &["--only-keep-debug"]);
    let stripped = processed(&full, ".stripped", "strip", &[]);
    let parsed = |path: &Path| parse(path).1;
    (parsed(&stripped), parsed(&debug))
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(6)).expect("xz");
    writer.write_all(bytes).expect("xz");
    writer.finish().expect("xz")
}
