//! Debugging information of C programs, in every format: what the running program says of itself is the truth.

use crate::common;
use crate::common::{build, debug_variants, line_of, named, parse, processed, read, run, said};
use std::process::Command;
use trimtab_symbols::dwarf::{LookupError, MemberOffset, Program, Scope, Sections, TypeKind, Types};
use trimtab_symbols::{Error, Image};
use trimtab_types::FileAddr;

#[test]
fn types_are_as_large_as_the_compiler_says() {
    for (case, program, debug) in debug_variants("c-types", "cc", "facts.c") {
        let output = run(&mut Command::new(&program));
        let bytes = read(&debug);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        assert_eq!(facts.problems, Vec::<String>::new(), "{case}");
        let mut types = Types::default();
        let sizes = said(&output, "size");
        assert_eq!(sizes.len(), 6);
        for (name, size) in sizes {
            let id = facts.type_named(name, None, &mut types).unwrap_or_else(|error| panic!("{case}: {name}: {error}"));
            assert_eq!(types.size_of(id), size.parse().ok(), "{case}: {name}");
        }
        let offsets = said(&output, "offset");
        assert_eq!(offsets.len(), 7);
        for (path, offset) in offsets {
            let (record, member) = path.split_once('.').expect("a member");
            let id = facts.type_named(&format!("struct {record}"), None, &mut types).expect(record);
            let way = types.member(id, member).unwrap_or_else(|| panic!("{case}: {path}"));
            let sum: u64 = way
                .iter()
                .map(|member| match member.offset {
                    MemberOffset::Bytes(bytes) => bytes,
                    MemberOffset::Address(_) => panic!("{case}: {path} at a computed place"),
                })
                .sum();
            assert_eq!(Some(sum), offset.parse().ok(), "{case}: {path}");
        }
    }
}

#[test]
fn every_kind_of_type_is_read() {
    for (case, _, debug) in debug_variants("c-kinds", "cc", "facts.c") {
        let bytes = read(&debug);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let mut types = Types::default();
        let node = facts.type_named("struct node", None, &mut types).expect("node");
        let member = |name: &str| *types.member(node, name).expect(name).last().expect("one");
        let bits = |name| member(name).bits.map(|bits| (bits.offset_bits, bits.size_bits));
        // The ABI packs them from the low bits up; `high` does not fit into the first eight bytes any more.
        assert_eq!([bits("low"), bits("middle"), bits("next")], [Some((192, 3)), Some((195, 7)), None], "{case}");
        assert_eq!(bits("high").map(|bits| bits.1), Some(40), "{case}");
        assert_eq!(types.name(member("next").type_id), "struct node *", "{case}");
        assert_eq!(types.name(member("label").type_id), "const char *", "{case}");
        assert_eq!(types.name(member("grid").type_id), "short int [2][3]", "{case}");
        assert_eq!(types.name(member("callback").type_id), "int (*)(struct node *, double)", "{case}");
        assert_eq!(types.name(member("hits").type_id), "counter_t", "{case}");
        let TypeKind::Pointer(target) = types.get(member("next").type_id).expect("next").kind else {
            panic!("{case}: next is no pointer")
        };
        assert_eq!(target, node, "{case}: it contains itself");
        let color = types.get(types.stripped(member("color").type_id)).expect("color");
        let TypeKind::Enumeration { enumerators, .. } = &color.kind else { panic!("{case}: {color:?}") };
        let values: Vec<(&str, i64)> = enumerators.iter().map(|one| (one.name.as_str(), one.value)).collect();
        assert_eq!(values, [("RED", -1), ("GREEN", 5), ("BLUE", 6)], "{case}");
        assert_eq!(facts.enumerator_named("BLUE", None, &mut types).expect("BLUE").0, 6, "{case}");
        let error = facts.type_named("struct nothing", None, &mut types).expect_err("nothing");
        assert!(matches!(error, LookupError::NotFound { .. }), "{case}: {error}");
    }
}

#[test]
fn variables_are_where_the_program_finds_them() {
    for (case, program, debug) in debug_variants("c-variables", "cc", "facts.c") {
        let output = run(&mut Command::new(&program));
        let bytes = read(&debug);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let mut types = Types::default();
        for (name, addr) in said(&output, "address") {
            let found = facts.variables_named(name);
            assert_eq!(found.len(), 1, "{case}: {name}");
            let variable = facts.variable(found[0], &mut types).expect(name);
            let expected = u64::from_str_radix(addr, 16).map(FileAddr).ok();
            assert_eq!(variable.fixed_address(), expected, "{case}: {name}");
            assert_eq!(variable.is_external, name != "static_number", "{case}: {name}");
        }
        let local = facts.variable(facts.variables_named("local_number")[0], &mut types).expect("local");
        assert_eq!(local.fixed_address(), None, "{case}: each thread has its own");
        let calls = facts.variables_named("sum::calls");
        assert_eq!(calls, facts.variables_named("calls"), "{case}");
        assert_eq!(facts.full_name(calls[0]).as_deref(), Ok("sum::calls"), "{case}");
    }
}

#[test]
fn functions_are_where_nm_says() {
    for (case, program, debug) in debug_variants("c-functions", "cc", "facts.c") {
        let (_, image) = parse(&program);
        let bytes = read(&debug);
        let sections = Sections::of_debug_file(&bytes, &image).expect("same build");
        let facts = Program::open(&sections);
        let mut types = Types::default();
        for (name, parameters, result) in [
            ("sum", &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"][..], "long int"),
            ("both", &["a"], "struct pair"),
            ("uses", &["value"], "int"),
            ("variadic", &["format"], "int"),
            ("main", &["argc", "argv"], "int"),
        ] {
            let found = facts.functions_named(name);
            assert_eq!(found.len(), 1, "{case}: {name}");
            let function = facts.function(found[0], &mut types).expect(name);
            let truth = named(&image, name);
            assert_eq!(function.entry, Some(truth.addr), "{case}: {name}");
            let names: Vec<&str> = function.parameters.iter().map(|one| one.variable.name.as_str()).collect();
            assert_eq!(names, parameters, "{case}: {name}");
            assert_eq!(types.name(function.result), result, "{case}: {name}");
            assert_eq!(function.is_variadic, name == "variadic", "{case}: {name}");
            assert_eq!(function.full_name, name, "{case}");
            assert_eq!(facts.function_at(truth.addr), Some(found[0]), "{case}: {name}");
            assert_eq!(facts.function_at(FileAddr(truth.end().0 - 1)), Some(found[0]), "{case}: {name}");
            assert!(function.unit.ends_with("facts.c"), "{case}: {}", function.unit);
            let declared = function.declared.expect("declared");
            assert!(declared.file.ends_with("specimens/facts.c"), "{case}: {declared:?}");
        }
    }
}

#[test]
fn lines_lead_to_code_and_back() {
    for (case, program, debug) in debug_variants("c-lines", "cc", "facts.c") {
        let (_, image) = parse(&program);
        let bytes = read(&debug);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let inner = line_of("facts.c", "inner line");
        for name in ["facts.c", "specimens/facts.c", "./facts.c"] {
            let code = facts.code_of_line(name, inner).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(code.file.starts_with('/') && code.file.ends_with("tests/specimens/facts.c"), "{case}: {code:?}");
            for place in &code.places {
                let back = facts.line_at(place.addr).expect("a line");
                // An optimiser begins several lines at one instruction; the last one counts on the way back.
                assert!(back.line == inner || is_optimised(case), "{case}: {back:?}");
                assert!(back.file == code.file || is_optimised(case), "{case}: {back:?}");
                assert_eq!(image.function_at(place.addr).map(|found| found.name()).as_deref(), Some("sum"), "{case}");
            }
        }
        // Two copies of the inlined function, one in each caller, where it is inlined at all.
        let header = facts.code_of_line("facts.h", line_of("facts.h", "header line")).expect("header");
        assert_eq!(header.places.iter().any(|place| place.inlined.is_some()), is_optimised(case), "{case}: {header:?}");
        assert_eq!(header.places.len(), if is_optimised(case) { 2 } else { 1 }, "{case}: {header:?}");
        let (empty, last) = (line_of("facts.c", "#include <stddef.h>"), line_of("facts.c", "return 0;"));
        let error = facts.code_of_line("facts.c", empty).expect_err("no code");
        assert!(matches!(error, LookupError::NoCode { next: Some(next), .. } if next > empty), "{case}: {error}");
        let error = facts.code_of_line("facts.c", last + 100).expect_err("no code");
        assert!(matches!(error, LookupError::NoCode { next: None, .. }), "{case}: {error}");
        let error = facts.code_of_line("Facts.cc", 1).expect_err("no such file").to_string();
        assert!(error.contains("facts.c"), "{case}: {error}");
        assert!(facts.code_of_line("acts.c", inner).is_err(), "{case}: names match by whole parts");
    }
}

#[test]
fn each_line_is_where_objdump_says() {
    for (case, flags) in [("O0", "-O0"), ("O2", "-O2")] {
        let path = build(&format!("c-decoded-{case}"), "cc", "facts.c", &["-g", "-no-pie", flags]);
        let text = run(Command::new("objdump").args(["--dwarf=decodedline"]).arg(&path));
        let bytes = read(&path);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let mut last: Vec<(u64, (String, u32))> = Vec::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let [file, line, addr, ..] = fields.as_slice() else { continue };
            let addr = addr.strip_prefix("0x").and_then(|addr| u64::from_str_radix(addr, 16).ok());
            let (Some(addr), Ok(line)) = (addr, line.parse::<u32>()) else { continue };
            // Of several rows of one address the last one counts.
            last.retain(|(other, _)| *other != addr);
            last.push((addr, (file.to_string(), line)));
        }
        assert!(last.len() > 50, "{case}: {} rows", last.len());
        for (addr, (file, line)) in last {
            let Some(found) = facts.line_at(FileAddr(addr)) else { continue };
            assert_eq!(found.line, line, "{case}: {addr:#x}");
            assert!(found.file.ends_with(&file), "{case}: {addr:#x}: {found:?}");
        }
    }
}

#[test]
fn inlined_copies_are_found_from_both_sides() {
    for (case, _, debug) in debug_variants("c-inlined", "cc", "facts.c").filter(|(case, ..)| case.contains("O2")) {
        let bytes = read(&debug);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let mut types = Types::default();
        let twice = facts.functions_named("twice");
        assert_eq!(twice.len(), 1, "{case}");
        let function = facts.function(twice[0], &mut types).expect("twice");
        assert_eq!((function.entry, function.parameters.len()), (None, 1), "{case}");
        let copies = facts.inlined_copies(twice[0]).expect("copies");
        let call_lines: Vec<u32> = copies.iter().filter_map(|copy| Some(copy.call.as_ref()?.line)).collect();
        let mut expected = [line_of("facts.c", "uses line"), line_of("facts.c", "main line")];
        expected.sort_unstable();
        let mut sorted = call_lines.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected, "{case}: {copies:?}");
        assert!(copies.iter().any(|copy| !copy.ranges.is_empty()), "{case}");
        for copy in &copies {
            assert_eq!(copy.full_name, "twice", "{case}");
            let entry = copy.entry.expect("entry");
            assert_eq!(facts.function_at(entry), copy.within, "{case}");
            if copy.ranges.is_empty() {
                continue;
            }
            assert_eq!(facts.inlined_at(entry).expect("copies").last(), Some(copy), "{case}");
            let visible = facts.variables_at(entry, &mut types).expect("variables");
            let names: Vec<&str> = visible.iter().map(|variable| variable.name.as_str()).collect();
            assert!(names.contains(&"value") && !names.contains(&"argc"), "{case}: {names:?}");
        }
    }
}

#[test]
fn local_variables_are_seen_from_inside_their_block() {
    for (case, _, debug) in debug_variants("c-locals", "cc", "facts.c") {
        let bytes = read(&debug);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let mut types = Types::default();
        let code = facts.code_of_line("facts.c", line_of("facts.c", "inner line")).expect("code");
        let visible = facts.variables_at(code.places[0].addr, &mut types).expect("variables");
        let names: Vec<&str> = visible.iter().map(|variable| variable.name.as_str()).collect();
        for name in ["a", "m", "calls", "total"] {
            assert!(names.contains(&name), "{case}: {name} in {names:?}");
        }
        if case.starts_with("dwarf5") && case.ends_with("5") {
            assert_eq!(&names[..2], ["inner", "round"], "{case}: innermost first");
        }
        let sum = facts.function_at(code.places[0].addr).expect("sum");
        let entry = facts.function(sum, &mut types).expect("sum").entry.expect("entry");
        let outside = facts.variables_at(entry, &mut types).expect("variables");
        assert!(!outside.iter().any(|variable| variable.name == "inner"), "{case}");
        let loop_line = line_of("facts.c", "int round = 0");
        let is_of_loop = |scope: &&Scope| scope.variables.iter().any(|place| place.line == loop_line);
        let around = facts.scopes_at(code.places[0].addr).expect("blocks");
        let of_loop = around.iter().find(is_of_loop).map(|scope| (scope.id, scope.is_inlined));
        let before = facts.scopes_at(entry).expect("blocks");
        assert!(before.iter().all(|scope| Some((scope.id, scope.is_inlined)) != of_loop), "{case}: {before:?}");
        if case.starts_with("dwarf5") && case.ends_with("5") {
            assert!(of_loop.is_some_and(|(_, is_inlined)| !is_inlined), "{case}: {around:?}");
        }
    }
}

#[test]
fn a_debug_file_must_belong_to_its_program() {
    let program = build("c-belongs", "cc", "facts.c", &["-g"]);
    let other = build("c-belongs-other", "cc", "facts.c", &["-g", "-O1"]);
    let debug = read(&processed(&program, ".debug", "objcopy", &["--only-keep-debug"]));
    let stripped = parse(&processed(&program, ".stripped", "strip", &[])).1;
    assert!(!Sections::of_debug_file(&debug, &stripped).expect("same build").is_empty());
    let error = Sections::of_debug_file(&debug, &parse(&other).1).expect_err("another build");
    assert!(matches!(error, Error::OtherBuild { .. }), "{error}");
    let nothing = read(&processed(&program, ".bare", "strip", &["-g"]));
    let sections = Sections::of(&nothing).expect("sections");
    assert!(sections.is_empty());
    let facts = Program::open(&sections);
    assert_eq!(facts.functions_named("main"), []);
    assert_eq!(facts.function_at(Image::parse(&nothing).expect("parse").entry), None);
}

#[test]
fn a_cached_index_answers_as_a_fresh_one() {
    let path = build("c-index", "cc", "facts.c", &["-g"]);
    let other = read(&build("c-index-other", "cc", "facts.c", &["-g", "-O2"]));
    let bytes = read(&path);
    let sections = Sections::of(&bytes).expect("sections");
    let fresh = Program::open(&sections);
    let cache = fresh.index().to_cache();
    let index = trimtab_symbols::dwarf::Index::from_cache(&cache).expect("cache");
    assert_eq!(&index, fresh.index());
    let again = Program::open_with(&sections, index.clone());
    assert_eq!(again.functions_named("sum"), fresh.functions_named("sum"));
    let other_sections = Sections::of(&other).expect("sections");
    let mine = Program::open_with(&other_sections, index);
    assert_eq!(mine.index(), Program::open(&other_sections).index(), "an index of another build is not used");
    for at in 0..cache.len() {
        let mut damaged = cache.clone();
        damaged[at] ^= 1 << (at % 8);
        let read = trimtab_symbols::dwarf::Index::from_cache(&damaged);
        assert!(matches!(read, Err(Error::BadCache { .. })), "byte {at}");
    }
}

fn is_optimised(case: &str) -> bool {
    case.ends_with("O2") || ["zlib", "split", "type-units5"].contains(&case)
}

/// Code at the beginning of a unit lies in no function of the unit before it.
#[test]
fn scopes_end_with_their_unit() {
    let further = common::path("further.c");
    std::fs::write(&further, "int further = 3;\nint behind(void) { return further; }\n").expect("a source file");
    let flags = ["-g", "-O0", further.to_str().expect("a path")];
    let bytes = read(&build("c-units", "cc", "facts.c", &flags));
    let sections = Sections::of(&bytes).expect("sections");
    let facts = Program::open(&sections);
    for found in [facts.functions_named("behind"), facts.variables_named("further")] {
        let [id] = found.as_slice() else { panic!("{found:?}") };
        let name = facts.full_name(*id).expect("a name");
        assert!(["behind", "further"].contains(&name.as_str()), "{name}");
        let (unit, declared) = facts.source_files_of(*id).expect("files");
        assert!(unit.ends_with("further.c") && declared == Some(unit.clone()), "{unit} {declared:?}");
    }
    assert_eq!(facts.type_names("struct n", 9), ["struct node"]);
}
