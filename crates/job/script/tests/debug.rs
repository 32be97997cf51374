//! Scripts see of a program with debugging information what its source says, in every format and at every
//! level of optimisation.
//!
//! Next: `programs/particles.c`, whose values these are.

mod common;

use common::{PATIENCE, Program, build_of, run, words};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use trimtab_script::MessageValue;

fn build(case: &str, flags: &[&str]) -> PathBuf {
    build_of(case, "cc", &["particles.c", "other.c"], flags)
}

/// Moves the debugging information into a file of its own, beside the program.
fn separate(program: &Path) {
    let debug = program.with_extension("debug");
    run(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(&debug));
    run(Command::new("objcopy").arg("--strip-debug").arg(program));
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(program));
}

/// The values of the first message of each tag, once there is one of each.
fn first_messages(program: &Program, script: &str, tags: usize) -> BTreeMap<String, Vec<MessageValue>> {
    let mut running = program.run(script).unwrap_or_else(|error| panic!("{script}: {}", words(error)));
    let mut found = BTreeMap::new();
    let since = Instant::now();
    while found.len() < tags {
        for message in running.poll().messages {
            found.entry(message.tag).or_insert(message.values);
        }
        assert!(since.elapsed() < PATIENCE, "{script}: only {found:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
    let (_, _, summary) = running.finish();
    assert_eq!(summary.loss.unreadable_loads, 0, "{script}");
    assert_eq!(summary.warnings, Vec::<String>::new(), "{script}");
    found
}

fn ints(values: &[i64]) -> Vec<MessageValue> {
    values.iter().copied().map(MessageValue::Int).collect()
}

fn floats(values: &[f64]) -> Vec<MessageValue> {
    values.iter().copied().map(MessageValue::Float).collect()
}

fn text(text: &str) -> MessageValue {
    MessageValue::Text(text.to_owned())
}

const SCRIPT: &str = r#"
entry move_particle {
  send("floats", $p->base.mass, $p->base.charge, $dt, $p->next->base.mass, table[2]);
  send("ints", $steps, $p->tag, $p->spin, $p->kind == LIGHT, $p->next->kind, $p->next->spin, $p->next->grid[1][2],
       $p->next->halves[1], $p->whole, sizeof(*$p), $p->next->next == 0);
  send("texts", $p->name, $p->next->name);
  send("types", ((struct particle *)$0)->tag, sizeof(particle_t), ((particle_t *)$p)->next->tag, HEAVY);
  send("statics", counter, other.c::counter, particles.c::counter, calls, ::shared, alone[0]);
}
exit move_particle { send("result", $ret) }
entry rounds_other { send("there", counter, alone[2]) }
exit rounds_other { send("rounds", $ret) }
entry many { send("many", $a, $f, $g, $h, $i, $6, $7); send("x", $x) }
exit many { send("total", $ret) }
exit make { send("large", $ret.values[0], $ret.values[3]) }
entry make { send("seed", $seed) }
"#;

#[test]
fn values_are_what_the_source_says() {
    for (case, flags) in [
        ("O2", &["-g", "-O2"][..]),
        ("O0", &["-g", "-O0"]),
        ("O1-dwarf4", &["-g", "-O1", "-gdwarf-4"]),
        ("static", &["-g", "-O2", "-static"]),
        ("no-pie", &["-g", "-O2", "-no-pie", "-fno-pie"]),
        ("separate", &["-g", "-O2"]),
    ] {
        let program = build(case, flags);
        if case == "separate" {
            separate(&program);
        }
        let particles = Program::start(&program);
        let found = first_messages(&particles, SCRIPT, 12);
        let of = |tag: &str| found.get(tag).unwrap_or_else(|| panic!("{case}: no {tag}")).clone();
        assert_eq!(of("floats"), floats(&[4.5, 0.25, 0.5, 1.5, 2.5]), "{case}");
        assert_eq!(of("ints"), ints(&[3, 2, 7, 1, 7, -3, -6, 5, 9, 64, 1]), "{case}");
        assert_eq!(of("texts"), [text("first"), text("second")], "{case}");
        assert_eq!(of("types"), ints(&[2, 64, 5, 7]), "{case}");
        assert_eq!(of("statics"), ints(&[11, 22, 11, 77, 33, 65535]), "{case}");
        assert_eq!(of("result"), floats(&[3.0]), "{case}");
        assert_eq!(of("there"), ints(&[22, 1]), "{case}");
        assert_eq!(of("rounds"), ints(&[65557]), "{case}");
        assert_eq!(of("many"), ints(&[1, 6, 70, -8, 120, 70, -8]), "{case}");
        assert_eq!(of("x"), floats(&[9.5]), "{case}");
        assert_eq!(of("total"), ints(&[212]), "{case}");
        assert_eq!(of("large"), ints(&[200, 203]), "{case}");
        assert_eq!(of("seed"), ints(&[200]), "{case}");
    }
}

#[test]
fn classes_and_references_are_followed() {
    for (case, flags) in [("cc-O2", &["-g", "-O2"][..]), ("cc-O0", &["-g", "-O0"])] {
        let cells = Program::start(&build_of(case, "c++", &["cells.cc"], flags));
        let script = r#"
            entry "*lift_cell*" {
              send("cell", $this->number, $this->side, $this->open, $times, $this->self->number);
              send("floats", $this->level, $by);
              send("globals", grid::cells, grid::Cell::made, ::hidden, cells, sizeof(*$this));
            }
            exit "*lift_cell*" { send("raised", $ret) }
            entry "*larger_cell*" { send("ab", $a, $b) }
            exit "*larger_cell*" { send("larger", $ret) }
        "#;
        let found = first_messages(&cells, script, 6);
        assert_eq!(found["cell"], ints(&[5, 200, 1, 4, 5]), "{case}");
        assert_eq!(found["floats"], floats(&[2.5, 0.25]), "{case}");
        assert_eq!(found["globals"], ints(&[12, 31, 44, 12, 40]), "{case}");
        assert_eq!(found["raised"], floats(&[3.5]), "{case}");
        assert_eq!(found["ab"], ints(&[12, 31]), "{case}");
        assert_eq!(found["larger"], ints(&[31]), "{case}");
    }
}

/// A value that cannot be read is refused, with the reason and what could be written instead.
#[test]
fn what_is_not_certain_is_refused() {
    let program = build("refused", &["-g", "-O2"]);
    let particles = Program::start(&program);
    for (script, expected) in [
        ("every 10ms { n = counter }", &["several variables", "particles.c::counter", "other.c::counter"][..]),
        ("entry main { n = nowhere.c::counter }", &["not known"]),
        ("entry main { n = own }", &["thread-local"]),
        ("entry both { n = $pair.first }", &["several pieces"]),
        ("exit nothing { n = $ret }", &["returns nothing"]),
        ("entry move_particle { n = $dp }", &["$p", "$dt", "$steps"]),
        ("entry move_particle { n = $3 }", &["no argument number 3"]),
        ("entry move_particle { n = $p->bas.mass }", &["no member", "base"]),
        ("entry move_particle { n = sizeof(struct partikle) }", &["particle"]),
        ("entry shrunk* { n = $always }", &["the compiler changed how this function is called"]),
        ("exit shrunk* { n = $ret }", &["the compiler changed how this function is called"]),
    ] {
        let said = particles.refusal(script);
        for fragment in expected {
            assert!(said.contains(fragment), "{script}: no {fragment:?} in {said}");
        }
    }
}

fn line_of(mark: &str) -> usize {
    let source = include_str!("programs/particles.c");
    1 + source.lines().position(|line| line.contains(mark)).expect("the mark")
}

/// Local variables at a source line and at a loop: in registers, in the frame, or calculated.
#[test]
fn locals_are_read_where_they_are() {
    for (case, flags) in [
        ("at-O0", &["-g", "-O0"][..]),
        ("at-O0-rsp", &["-g", "-O0", "-fomit-frame-pointer"]),
        ("at-O1", &["-g", "-O1"]),
        ("at-O2", &["-g", "-O2"]),
        ("at-Og", &["-g", "-Og", "-gdwarf-4"]),
    ] {
        let particles = Program::start(&build(case, flags));
        let line = line_of("/* each step */");
        let script = format!(
            "at particles.c:{line} when (i == 1) {{ send(\"line\", way);
               send(\"ints\", p->next->tag, $steps, i, counter, other.c::counter, calls) }}"
        );
        let found = first_messages(&particles, &script, 2);
        assert_eq!(found["line"], floats(&[2.5]), "{case}");
        assert_eq!(found["ints"], ints(&[5, 3, 1, 11, 22, 77]), "{case}");
        let found =
            first_messages(&particles, "loop move_particle:1 when (i == 2) { send(\"loop\", p->tag, steps) }", 1);
        assert_eq!(found["loop"], ints(&[2, 3]), "{case}");
    }
}

#[test]
fn lines_without_code_are_refused() {
    let particles = Program::start(&build("lines", &["-g", "-O2"]));
    let line = line_of("/* each step */");
    for (script, expected) in [
        ("at particles.cc:44 { n++ }".to_owned(), &["no source file", "particles.c"][..]),
        ("at particles.c:1 { n++ }".to_owned(), &["no code was made", "the next line with code is"]),
        ("at particles.c:9999 { n++ }".to_owned(), &["no code was made", "no later line"]),
        (format!("at particles.c:{line} {{ n = dt }}"), &["`dt`"]),
        (format!("at particles.c:{line} {{ n = stepz }}"), &["steps"]),
    ] {
        let said = particles.refusal(&script);
        for fragment in expected {
            assert!(said.contains(fragment), "{script}: no {fragment:?} in {said}");
        }
    }
}
