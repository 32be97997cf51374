//! Where arguments, variables and results are, checked in running programs: gdb looks there and must find the values
//! the source gives them.

use crate::common::{build, line_of, parse, read};
use std::path::Path;
use std::process::Command;
use trimtab_symbols::dwarf::{BinaryOperator, Expression, Program, Sections, Types, ValueLocation};
use trimtab_symbols::fde_at;
use trimtab_types::FileAddr;

/// How gdb calls the registers, by their DWARF numbers.
const REGISTERS: [&str; 16] =
    ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

const OPTIMISED: &[&str] = &["-O0", "-O1", "-O2"];

#[test]
fn arguments_are_where_the_abi_puts_them() {
    let expected: &[(&str, &str, &str)] = &[
        ("a", "int", "11"),
        ("b", "double", "22.5"),
        ("c", "char *", "\"text\""),
        ("d+0", "double", "1.5"),
        ("d+8", "long", "31"),
        ("e+32", "long", "55"),
        ("f", "float", "2.5"),
        ("g+0", "float", "0.25"),
        ("g+4", "float", "0.75"),
        ("h", "long double", "6.25"),
        ("i", "long", "101"),
        ("j", "long", "102"),
        ("k", "long", "103"),
        ("l", "long", "104"),
        ("m", "bool", "1"),
    ];
    for flag in OPTIMISED {
        check_entry("places-c", "cc", "facts.c", flag, "sum", expected);
        check_entry("places-uses", "cc", "facts.c", flag, "uses", &[("value", "int", "1")]);
    }
}

#[test]
fn classes_that_need_copying_come_by_address() {
    for flag in OPTIMISED {
        // The text's length is its second word; the pointer's only member is an address.
        let rows = [("copy+8", "long", "6"), ("last", "int", "77"), ("pointer>0", "int", "1")];
        check_entry("places-cc", "c++", "facts.cc", flag, "takes_copy", &rows);
    }
}

#[test]
fn fortran_arguments_come_by_address() {
    for flag in OPTIMISED {
        let rows = [("scale", "double", "0.5"), ("count", "int", "5"), ("p+0", "int", "1"), ("_label", "long", "5")];
        check_entry("places-f90", "gfortran", "facts.f90", flag, "advance", &rows);
    }
}

#[test]
fn variables_are_where_the_lists_say() {
    for flag in OPTIMISED {
        let path = build(&format!("places-inside{flag}"), "cc", "facts.c", &["-g", "-no-pie", flag]);
        let (bytes, image) = parse(&path);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let mut types = Types::default();
        let code = facts.code_of_line("facts.c", line_of("facts.c", "inner line")).expect("code");
        let addr = code.places[0].addr;
        let from_rsp = fde_at(&bytes, &image, addr).expect("entry").and_then(|entry| entry.cfa_rsp_offset_at);
        // Without optimisation, the frame is found by the frame pointer.
        let base = from_rsp.map_or("$rbp+16".to_string(), |offset| format!("$rsp+{offset}"));
        let visible = facts.variables_at(addr, &mut types).expect("variables");
        let mut checked = 0;
        for (name, kind, expected) in [
            ("a", "int", "11"),
            ("j", "long", "102"),
            ("l", "long", "104"),
            ("calls", "int", "1"),
            ("b", "double", "22.5"),
        ] {
            let variable = visible.iter().find(|variable| variable.name == name).expect(name);
            let Some(place) = variable.place_at(addr) else { continue };
            let Some(words) = value_words(place, 0, kind, &base) else { continue };
            let line = format!("print {words}");
            let found = gdb(&path, addr, &[&line]);
            assert_eq!(found, [expected], "{flag}: {name} by {line} from {place:?}");
            checked += 1;
        }
        assert!(checked >= if *flag == "-O0" { 5 } else { 2 }, "{flag}: {checked} checked");
    }
}

#[test]
fn results_are_where_the_abi_puts_them() {
    for flag in OPTIMISED {
        let path = build(&format!("places-results{flag}"), "cc", "facts.c", &["-g", "-no-pie", flag]);
        let bytes = read(&path);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let mut types = Types::default();
        for (name, at, kind, expected) in [
            ("both", 0, "double", "3.5"),
            ("both", 8, "long", "3"),
            ("large", 16, "long", "4"),
            ("uses", 0, "int", "3"),
            ("sum", 0, "long", "668"),
        ] {
            let function = facts.function(facts.functions_named(name)[0], &mut types).expect(name);
            let place = function.result_at_exit.unwrap_or_else(|| panic!("{flag}: {name}"));
            let words = value_words(&place, at, kind, "").expect("words");
            let line = format!("print {words}");
            let found = gdb(&path, function.entry.expect("entry"), &["up", "tbreak *$pc", "continue", &line]);
            assert_eq!(found.last().map(String::as_str), Some(expected), "{flag}: {name}: {line}");
        }
    }
}

/// Checks (parameter and offset in it, type, value) at the first instruction of a function.
fn check_entry(test: &str, compiler: &str, source: &str, flag: &str, function: &str, rows: &[(&str, &str, &str)]) {
    let path = build(&format!("{test}{flag}"), compiler, source, &["-g", "-no-pie", flag]);
    let bytes = read(&path);
    let sections = Sections::of(&bytes).expect("sections");
    let facts = Program::open(&sections);
    let mut types = Types::default();
    let found = facts.function(facts.functions_named(function)[0], &mut types).expect(function);
    let mut lines = Vec::new();
    for (parameter, kind, _) in rows {
        let end = parameter.find(['+', '>']).unwrap_or(parameter.len());
        let (name, rest) = parameter.split_at(end);
        let place = found.parameters.iter().find(|one| one.variable.name == name).expect(name);
        let place = place.at_entry.as_ref().unwrap_or_else(|| panic!("{source} {flag}: {name} has no place"));
        let offset = rest.strip_prefix('+').map_or(0, |offset| offset.parse().expect("offset"));
        let words = match rest {
            ">0" => value_words(place, 0, "long", "$rsp+8").map(|words| format!("{words} > 0")),
            _ => value_words(place, offset, kind, "$rsp+8"),
        };
        lines.push(format!("print {}", words.unwrap_or_else(|| panic!("{source} {flag}: {name}: {place:?}"))));
    }
    let commands: Vec<&str> = lines.iter().map(String::as_str).collect();
    let values = gdb(&path, found.entry.expect("entry"), &commands);
    let expected: Vec<&str> = rows.iter().map(|row| row.2).collect();
    let last_words: Vec<&str> = values.iter().map(|value| value.rsplit(" \"").next().unwrap_or(value)).collect();
    let plain: Vec<&str> =
        last_words.iter().map(|value| if *value == "true" { "1" } else { value.trim_matches('"') }).collect();
    let expected_plain: Vec<&str> = expected.iter().map(|value| value.trim_matches('"')).collect();
    assert_eq!(plain, expected_plain, "{source} {flag}: {lines:#?}");
}

/// gdb's words for a value of type `kind`, `offset` bytes into a place.
fn value_words(place: &ValueLocation, offset: u64, kind: &str, base: &str) -> Option<String> {
    match place {
        ValueLocation::Memory(at) => Some(format!("*({kind} *)({} + {offset})", words(at, base)?)),
        ValueLocation::Value(value) => Some(format!("({kind})({})", words(value, base)?)),
        ValueLocation::Register(register @ 17..=32) => {
            let (lanes, bytes) = if kind == "float" { ("v4_float", 4) } else { ("v2_double", 8) };
            Some(format!("$xmm{}.{lanes}[{}]", register - 17, offset / bytes))
        }
        ValueLocation::Register(register) => Some(format!("({kind})${}", REGISTERS.get(usize::from(*register))?)),
        ValueLocation::Pieces(pieces) => {
            let mut before = 0;
            let piece = pieces.iter().find(|piece| {
                before += piece.size_bits / 8;
                offset < before
            })?;
            value_words(&piece.place, offset - (before - piece.size_bits / 8), kind, base)
        }
        ValueLocation::Bytes(_) | ValueLocation::Gone | ValueLocation::Unsupported(_) => None,
    }
}

/// gdb's words for a calculation.
fn words(expression: &Expression, base: &str) -> Option<String> {
    Some(match expression {
        Expression::Constant(value) => format!("{}", value.cast_signed()),
        Expression::Address(addr) => format!("{:#x}", addr.0),
        Expression::Register(register) => format!("(long)${}", REGISTERS.get(usize::from(*register))?),
        Expression::FrameBase => format!("((long){base})"),
        Expression::Load { addr, bytes: 8 } => format!("(*(long *)({}))", words(addr, base)?),
        Expression::Binary(BinaryOperator::Add, left, right) => {
            format!("({} + {})", words(left, base)?, words(right, base)?)
        }
        _ => return None,
    })
}

/// Stops a program at an address, runs commands there; returns the values printed.
fn gdb(path: &Path, addr: FileAddr, commands: &[&str]) -> Vec<String> {
    let mut command = Command::new("timeout");
    command.args(["60", "gdb", "-nx", "-batch", "-ex", "set confirm off", "-ex", "set language c++"]);
    command.args(["-ex", &format!("break *{:#x}", addr.0), "-ex", "run"]);
    for line in commands {
        command.args(["-ex", line]);
    }
    command.args(["-ex", "kill"]).arg(path);
    let output = command.output().expect("gdb");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = |line: &str| Some(line.strip_prefix('$')?.split_once(" = ")?.1.to_string());
    let values: Vec<String> = text.lines().filter_map(value).collect();
    let wanted = commands.iter().filter(|command| command.starts_with("print")).count();
    assert_eq!(values.len(), wanted, "{}\n{text}\n{}", commands.join("\n"), String::from_utf8_lossy(&output.stderr));
    values
}
