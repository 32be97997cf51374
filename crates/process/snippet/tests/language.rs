//! The meaning of scripts: each is compiled against a small program's facts and run by the reference interpreter.
//!
//! Next: `errors` for scripts that are refused, `conditions` for what starts and stops them.

mod common;

use common::{GLOBALS, Run, STACK};
use trimtab_snippet::arithmetic::Number;
use trimtab_snippet::facts::SiteId;
use trimtab_snippet::ir::SentValue;
use trimtab_snippet::ir::{Area, Kind, Register, When, process_word, thread_word};
use trimtab_snippet::reference::Call;
use trimtab_snippet::resolve::BodyPlace;
use trimtab_snippet::values::{Own, Value};
use trimtab_snippet::{Origin, Permissions};
use trimtab_types::ProcAddr;

const WRITE: Permissions = Permissions { write: true, call: false };

/// The value of an expression as `x = EXPR` at an entry of `many`, with arguments 7, -2, 3.
fn int(expression: &str) -> i64 {
    let mut run = Run::new(&format!("entry many {{ x = {expression} }}"));
    run.entry("many", &[7, -2_i64 as u64, 3]);
    assert_eq!(run.kind("x"), Kind::Last, "{expression}");
    run.int("x")
}

fn float(expression: &str) -> f64 {
    let mut run = Run::new(&format!("entry many {{ x = {expression} }}"));
    run.entry("many", &[7, -2_i64 as u64, 3]);
    assert_eq!(run.kind("x"), Kind::LastFloat, "{expression}");
    run.float("x")
}

#[test]
fn integers_follow_c() {
    for (expression, expected) in [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("7 / -2", -3),
        ("7 % -2", 1),
        ("$0 / 0", 0),
        ("$0 % 0", 0),
        ("1 << 2 + 1", 8),
        ("-16 >> 2", -4),
        ("1 << 64", 1),
        ("6 & 3 == 3", 0),
        ("6 & 3 | 8 ^ 12", 6),
        ("~0", -1),
        ("!5 + !0", 1),
        ("- -3", 3),
        ("1 < 2 == 1", 1),
        ("3 > 2 > 1", 0),
        ("2 >= 2 && 1 <= 0 || 1 != 1", 0),
        ("1 ? 2 : 0 ? 3 : 4", 2),
        ("0 ? 2 : 0 ? 3 : 4", 4),
        ("0x10 + 010 + 0b11 + 1u + 2L", 30),
        ("'a' + '\\n'", 107),
        ("$0 * $1 + $2", -11),
        ("$1 < $0", 1),
        ("(unsigned long)$1 < $0", 0),
        ("(unsigned long)$1 > 18446744073709551613", 1),
        ("(unsigned long)$1 / 2", i64::MAX),
        ("(unsigned long)$1 >> 63", 1),
        ("(char)300", 44),
        ("(unsigned char)$1", 254),
        ("(short)65537 + (unsigned short)$1", 65535),
        ("(int)3.99 + (int)-3.99", 0),
        ("(long)1e300", i64::MAX),
        ("abs($1) + min($0, $2) + max($0, $2)", 12),
        ("sizeof(int) + sizeof(double) + sizeof(char *) + sizeof(struct particle)", 68),
        ("sizeof($0) + sizeof(grid) + sizeof(first.name)", 48),
        ("PHASE_SOLVE", 2),
        ("9223372036854775807 + 1", i64::MIN),
        ("$6", 0),
        ("1.5 < 2", 1),
        ("!0.5 + !0.0", 1),
        ("0.5 && 0.25", 1),
        ("(bool)256 + (_Bool)0.5 + (bool)0", 2),
    ] {
        assert_eq!(int(expression), expected, "{expression}");
    }
}

#[test]
fn floats_follow_c() {
    for (expression, expected) in [
        ("1 / 2.0", 0.5),
        ("1e3 + .5e1 * 0", f64::NAN),
        ("(double)$0 / 2", 3.5),
        ("(double)(unsigned long)$1", 18_446_744_073_709_551_614.0),
        ("-1.5", -1.5),
        ("abs(-2.5) + min(1, 2.5) + max(1, 2.5)", 6.0),
        ("$0 > 0 ? 1 : 0.5", 1.0),
        ("2.5f * 2", 5.0),
        ("1e-3 * 1e3", 1.0),
    ] {
        if expected.is_nan() {
            assert!(trimtab_snippet::parse(&format!("once {{ x = {expression} }}")).is_err(), "{expression}");
        } else {
            assert_eq!(float(expression), expected, "{expression}");
        }
    }
}

#[test]
fn constants_are_computed_beforehand_as_they_would_be_later() {
    for (known, later) in [("7 / -2", "$0 / $1"), ("7 - -2 << 3", "$0 - $1 << $2"), ("7 % -2 ^ 3", "$0 % $1 ^ $2")] {
        assert_eq!(int(known), int(later), "{known}");
    }
}

#[test]
fn arguments_have_their_types_and_places() {
    let mut run = Run::new(
        "entry MPI_Send { d = $dest; n = $1; to = (long)$buf }
         entry solve { c = $count; t = $tolerance; z = $1 }
         entry many { g = $g; same = $6 }
         entry stripped { a = $0; i = (int)$1; f = $f0; stack = $7 }",
    );
    run.machine.vectors[0] = 0.25_f64.to_bits();
    run.poke(STACK + 0x808, &77_i64.to_le_bytes());
    run.poke(STACK + 0x810, &88_i64.to_le_bytes());
    run.entry("MPI_Send", &[STACK, 0xffff_ffff_0000_0005, 0, 0xffff_ffff]);
    run.entry("solve", &[0x1_0000_0003]);
    run.entry("many", &[]);
    run.entry("stripped", &[u64::MAX, 0xffff_ffff]);
    let ints = [("d", -1), ("n", 5), ("to", STACK as i64), ("c", 3), ("g", 77), ("same", 77), ("a", -1), ("i", -1)];
    for (name, expected) in ints {
        assert_eq!(run.int(name), expected, "{name}");
    }
    assert_eq!(run.int("stack"), 88);
    for (name, expected) in [("t", 0.25), ("z", 0.25), ("f", 0.25)] {
        assert_eq!(run.float(name), expected, "{name}");
    }
}

#[test]
fn returned_values_have_their_types() {
    let mut run = Run::new(
        "exit solve { r = $ret } exit norm { n = $ret } exit stripped { s = $ret; f = $fret }
         call after solve:norm { after = $ret } call solve:norm { before = (long)$v; second = $1 }",
    );
    run.machine.vectors[0] = 2.5_f64.to_bits();
    run.machine.set_register(Register::Rdi, 99);
    run.machine.set_register(Register::Rsi, 98);
    run.exit("solve", 0xffff_fffe);
    run.exit("norm", 1);
    run.exit("stripped", 0xffff_fffe);
    run.at(BodyPlace::Site(SiteId(4)));
    run.at(BodyPlace::Site(SiteId(5)));
    assert_eq!([run.int("r"), run.int("s"), run.int("before"), run.int("second")], [-2, 0xffff_fffe, 99, 98]);
    assert_eq!([run.float("n"), run.float("f"), run.float("after")], [2.5; 3]);
}

#[test]
fn memory_is_read_by_type() {
    let mut run = Run::new(
        "entry move { x = $p->x; m = $p->mass; id = $p->id; next = $p->next->id; flags = $p->flags; big = $p->size;
                      c = $p->name[1]; y = ((double *)$p)[0]; second = ($p + 1)->id; gap = &$p->id - (int *)$p }
         at solver.c:214 { i1 = i; r = residual; g = grid[2]; gi = *(grid + 2); l = list->id; f = first.id; p = ::phase }",
    );
    let p = STACK + 0x100;
    run.poke(p, &1.5_f64.to_le_bytes());
    run.poke(p + 8, &0.5_f32.to_le_bytes());
    run.poke(p + 12, &(-3_i32).to_le_bytes());
    run.poke(p + 16, &(p + 48).to_le_bytes());
    run.poke(p + 24, &(0b1011_0101_u32).to_le_bytes());
    run.poke(p + 28, b"abc");
    run.poke(p + 40, &u64::MAX.to_le_bytes());
    run.poke(p + 60, &42_i32.to_le_bytes());
    run.poke(GLOBALS, &6_i32.to_le_bytes());
    run.poke(GLOBALS + 8, &0.125_f64.to_le_bytes());
    run.poke(GLOBALS + 16, &p.to_le_bytes());
    run.poke(GLOBALS + 48, &8.5_f64.to_le_bytes());
    run.poke(GLOBALS + 108, &11_i32.to_le_bytes());
    run.poke(STACK + 0x8fc, &(-9_i32).to_le_bytes());
    run.entry("move", &[p]);
    run.at(BodyPlace::Site(SiteId(0)));
    let ints = [("id", -3), ("next", 42), ("flags", 0b10110), ("big", -1), ("c", 98), ("second", 42), ("gap", 3)];
    for (name, expected) in ints.into_iter().chain([("i1", -9), ("l", -3), ("f", 11), ("p", 6)]) {
        assert_eq!(run.int(name), expected, "{name}");
    }
    for (name, expected) in [("x", 1.5), ("m", 0.5), ("y", 1.5), ("r", 0.125), ("g", 8.5), ("gi", 8.5)] {
        assert_eq!(run.float(name), expected, "{name}");
    }
    assert_eq!(run.word(Area::Thread, thread_word::UNREADABLE), 0);
}

#[test]
fn what_is_not_readable_is_zero_and_counted() {
    let mut run = Run::new("entry move { x = $p->id + 1; n++ } entry log_line { same += $text == \"a\" }");
    run.entry("move", &[8]);
    run.entry("log_line", &[0]);
    assert_eq!((run.int("x"), run.int("n"), run.int("same")), (1, 1, 0));
    assert_eq!(run.word(Area::Thread, thread_word::UNREADABLE), 2);
}

#[test]
fn texts_are_compared_to_their_end() {
    let mut run = Run::new(
        "entry log_line { same += $text == \"abc\"; other += \"abc\" != $text } entry stripped { raw += $0 == \"abc\" }",
    );
    for (text, expected) in [(&b"abc\0"[..], (1, 0, 1)), (b"abcd\0", (1, 1, 1)), (b"ab\0", (1, 2, 1))] {
        run.poke(STACK, text);
        run.entry("log_line", &[STACK]);
        run.entry("stripped", &[STACK]);
        assert_eq!((run.int("same"), run.int("other"), run.int("raw")), expected);
    }
}

#[test]
fn sizes_of_mpi_datatypes_come_from_their_handles() {
    let mut run = Run::new("entry MPI_Send { bytes += $count * sizeof($datatype); handle = sizeof(MPI_Datatype) }");
    run.entry("MPI_Send", &[0, 10, 0x4c00_080b]);
    run.entry("MPI_Send", &[0, 3, 0x4c00_0405]);
    assert_eq!((run.int("bytes"), run.int("handle")), (92, 4));
    run.entry("MPI_Send", &[0, 3, 0x8c00_0001]);
    assert_eq!((run.int("bytes"), run.word(Area::Thread, thread_word::UNREADABLE)), (92, 1));
}

#[test]
fn what_a_variable_is_for_follows_from_its_uses() {
    let run = Run::new(
        "sum int s; thread int t; process int p, q; process double d; thread double u;
         entry solve { n++; m += 2; k -= 1; f += 0.5; a = 1; b = 1.5; b2 = b; b3 = b2; c = count(); l = last(2);
           h = hist($count); lo = min($count); hi = max($tolerance); av = mean(1); st = stack(); sm = sum(0.5);
           a2 = 1; a2 += 1; s = 0; t++; p++; q = 1; d = 1; u = 1 }",
    );
    for (name, kind, area) in [
        ("n", Kind::Sum, Area::Thread),
        ("m", Kind::Sum, Area::Thread),
        ("k", Kind::Sum, Area::Thread),
        ("f", Kind::SumFloat, Area::Thread),
        ("a", Kind::Last, Area::Thread),
        ("a2", Kind::Last, Area::Thread),
        ("b", Kind::LastFloat, Area::Thread),
        ("b2", Kind::LastFloat, Area::Thread),
        ("b3", Kind::LastFloat, Area::Thread),
        ("c", Kind::Sum, Area::Thread),
        ("l", Kind::Last, Area::Thread),
        ("h", Kind::Histogram, Area::Thread),
        ("lo", Kind::Min, Area::Thread),
        ("hi", Kind::MaxFloat, Area::Thread),
        ("av", Kind::Mean, Area::Thread),
        ("st", Kind::Stacks, Area::Thread),
        ("sm", Kind::SumFloat, Area::Thread),
        ("s", Kind::Sum, Area::Thread),
        ("t", Kind::Last, Area::Thread),
        ("p", Kind::Sum, Area::Process),
        ("q", Kind::Last, Area::Process),
        ("d", Kind::LastFloat, Area::Process),
        ("u", Kind::LastFloat, Area::Thread),
    ] {
        assert_eq!((run.kind(name), run.variable(name).area), (kind, area), "{name}");
    }
}

/// A variable that was never set has no value: neither on a thread that only did other things, nor where the clock runs.
#[test]
fn last_beside_every_has_no_value_that_nobody_set() {
    let mut run = Run::new(
        "process int p; process double q; entry solve { x = last($count); s = 0.5; n++ } entry norm { n++; p = 7 }
         every 1s { y = n; if (y < 0) q = 1 }",
    );
    let set = |run: &Run, name: &str| match &run.results()[name] {
        Value::Each { values } => values.len(),
        other => panic!("{name}: {other:?}"),
    };
    run.entry("norm", &[]);
    assert_eq!(["x", "s", "y", "p", "q"].map(|name| set(&run, name)), [0, 0, 0, 1, 0]);
    run.at(BodyPlace::Clock);
    run.entry("solve", &[0]);
    assert_eq!(["x", "s", "y", "p", "q"].map(|name| set(&run, name)), [1, 1, 1, 1, 0], "also if it is set to 0");
    assert_eq!(
        run.results()["x"],
        Value::Each { values: vec![Own { rank: 0, thread: Some(0), value: Number::Int(0) }] }
    );
}

#[test]
fn floats_are_found_against_the_order_of_assignments() {
    let names: Vec<String> = (0..60).map(|index| format!("v{index}")).collect();
    let mut body: String = names.windows(2).map(|pair| format!("{} = {};", pair[0], pair[1])).collect();
    body.push_str("v59 = 0.5;");
    let mut run = Run::new(&format!("once {{ {body} }}"));
    assert!(names.iter().all(|name| run.kind(name) == Kind::LastFloat));
    (0..60).for_each(|_| run.at(BodyPlace::Once));
    assert_eq!(run.float("v0"), 0.5);
}

#[test]
fn variables_do_not_overlap() {
    let run = Run::new(
        "process int p; process double d; thread int depth;
         exit solve { n++; h = hist(elapsed); a = min($ret); st = stack(); f = mean(1.5); p++; d = 1; depth = 1 }
         exit norm { h2 = hist(elapsed) }",
    );
    let unit = &run.compiled.unit;
    for (area, first, bytes) in [
        (Area::Thread, thread_word::FIRST_FREE, unit.thread_bytes),
        (Area::Process, process_word::FIRST_FREE, unit.process_bytes),
    ] {
        let mut places: Vec<(u32, u32)> = unit
            .variables
            .iter()
            .filter(|variable| variable.area == area)
            .map(|variable| (variable.offset, variable.offset + 8 * trimtab_snippet::resolve::words(variable.kind)))
            .collect();
        places.sort_unstable();
        assert!(!places.is_empty() && places[0].0 == first);
        assert!(places.windows(2).all(|pair| pair[0].1 == pair[1].0), "{places:?}");
        assert_eq!(places.last().expect("not empty").1, bytes);
    }
}

#[test]
fn values_are_gathered() {
    let mut run = Run::new(
        "entry solve { lo = min($count); hi = max($count); av = mean($count); h = hist($count); half = sum($count * 0.5) }",
    );
    for value in [5, -3_i32, 9] {
        run.entry("solve", &[value as u32 as u64]);
    }
    let results = run.results();
    assert_eq!(results["lo"], Value::Min { value: Some(Number::Int(-3)), count: 3 });
    assert_eq!(results["hi"], Value::Max { value: Some(Number::Int(9)), count: 3 });
    assert_eq!(results["av"], Value::Mean { sum: 11.0, count: 3 });
    assert_eq!(results["half"], Value::Sum { value: Number::Float(5.5) });
    let Value::Histogram(histogram) = &results["h"] else { panic!("{results:?}") };
    assert_eq!((histogram.count, histogram.sum, histogram.min, histogram.max), (3, 11, -3, 9));
    assert_eq!(histogram.buckets, [1, 0, 0, 1, 1]);
}

#[test]
fn elapsed_time_is_from_the_entry_of_the_same_call() {
    let mut run = Run::new("exit solve { time = hist(elapsed); last = elapsed } entry solve { n++ }");
    run.machine.now_ticks = 1000;
    run.entry("solve", &[]);
    run.machine.set_register(Register::Rsp, STACK + 0x700);
    run.machine.now_ticks = 1100;
    run.entry("solve", &[]);
    run.machine.now_ticks = 1150;
    run.exit("solve", 0);
    assert_eq!(run.int("last"), 50);
    run.machine.set_register(Register::Rsp, STACK + 0x800);
    run.machine.now_ticks = 3000;
    run.exit("solve", 0);
    assert_eq!(run.int("last"), 2000);
    run.exit("solve", 0);
    assert_eq!(run.int("last"), 2000, "a call that was not entered has no time");
    assert_eq!(run.word(Area::Thread, thread_word::ELAPSED_UNKNOWN), 1);
    let Value::Histogram(histogram) = &run.results()["time"] else { panic!("no histogram") };
    assert_eq!((histogram.count, histogram.sum), (2, 2050));
}

#[test]
fn a_call_left_by_a_long_jump_is_forgotten() {
    let mut run = Run::new("exit solve { last = elapsed }");
    for (stack_pointer, now) in [(0x800, 10), (0x700, 20), (0x780, 30)] {
        run.machine.set_register(Register::Rsp, STACK + stack_pointer);
        run.machine.now_ticks = now;
        run.entry("solve", &[]);
    }
    run.machine.now_ticks = 35;
    run.exit("solve", 0);
    assert_eq!(run.int("last"), 5);
    run.machine.set_register(Register::Rsp, STACK + 0x700);
    run.exit("solve", 0);
    assert_eq!((run.int("last"), run.word(Area::Thread, thread_word::ELAPSED_UNKNOWN)), (5, 1));
}

/// An exception or a long jump passes no exit: the calls it left are seen when the thread comes by again.
#[test]
fn calls_left_without_an_exit_are_told_when_the_thread_comes_by_again() {
    let mut run = Run::new(
        "exit solve { if ($unwound) left++; else { n++; sum += $ret } all++; if ($unwound) { lost += $ret + 1 } }
         exit solve { other += $unwound; time = hist(elapsed) } entry solve { seen = left }",
    );
    let come = |run: &mut Run, place: u64, exits: bool| {
        run.machine.set_register(Register::Rsp, STACK + place);
        if exits { run.exit("solve", 5) } else { run.entry("solve", &[]) }
    };
    let counted = |run: &Run| ["left", "n", "all"].map(|name| run.int(name));
    come(&mut run, 0x800, false);
    come(&mut run, 0x700, false);
    come(&mut run, 0x600, false);
    assert_eq!(counted(&run), [0, 0, 0], "all are open");
    // The inner two are left; that is seen before anything else happens at the entry.
    come(&mut run, 0x780, false);
    assert_eq!((counted(&run), run.int("seen")), ([2, 0, 2], 2));
    come(&mut run, 0x780, true);
    come(&mut run, 0x800, true);
    assert_eq!((counted(&run), run.int("sum")), ([2, 2, 4], 10), "an exit is no call that was left");
    // At the same place of the stack, and at an exit further up.
    come(&mut run, 0x800, false);
    come(&mut run, 0x800, false);
    assert_eq!(counted(&run), [3, 2, 5]);
    come(&mut run, 0x700, false);
    come(&mut run, 0x800, true);
    assert_eq!(counted(&run), [4, 3, 7]);
    assert_eq!((run.int("other"), run.int("lost")), (4, 4), "both probes ran; nothing was returned");
    let Value::Histogram(histogram) = &run.results()["time"] else { panic!("no histogram") };
    assert_eq!(histogram.count, 3, "what was left has no time");
    let without = Run::new("exit solve { n++ }");
    assert!(without.compiled.origins.iter().all(|origin| *origin == Origin::Probe), "who does not ask pays nothing");
}

#[test]
fn what_a_left_call_does_not_have_is_refused() {
    let refused = |script: &str| {
        let refused = trimtab_snippet::compile(script, &common::facts(), Permissions::default());
        refused.expect_err(script).render(script)
    };
    for (script, reason) in [
        ("entry solve { n += $unwound }", "`$unwound` is known at the exits"),
        ("exit solve { if ($unwound) return; n++ }", "can't `return`"),
        ("exit solve { if ($unwound) n++; else s = $rsp }", "long gone"),
        ("every 1s { n += $unwound }", "there is no `$unwound` here"),
    ] {
        assert!(refused(script).contains(reason), "{script}: {}", refused(script));
    }
}

#[test]
fn open_calls_are_kept_once_per_function() {
    let run = Run::new("exit solve { a = hist(elapsed) } exit solve { b = max(elapsed) } exit norm { c = elapsed }");
    let unit = &run.compiled.unit;
    assert_eq!(unit.variables.iter().filter(|variable| variable.kind == Kind::OpenCalls).count(), 2);
    assert_eq!(run.compiled.origins[2..4], [Origin::Probe, Origin::OpenCalls]);
    let order: Vec<(When, usize)> = unit.bodies.iter().map(|body| (body.when, body.probe)).collect();
    let user = [(When::Exit, 0), (When::Exit, 1), (When::Exit, 2)];
    assert_eq!(order[..3], user);
    assert_eq!(order[3..], [(When::Entry, 0), (When::Exit, 0), (When::Entry, 2), (When::Exit, 2)]);
}

#[test]
fn many_functions_share_one_table_of_open_calls() {
    let mut table = common::facts();
    for index in 0..40 {
        table.add_function(&format!("kernel_{index}"), None, None);
    }
    let compiled = trimtab_snippet::compile("exit kernel_* { t = hist(elapsed) }", &table, Permissions::default());
    let compiled = compiled.expect("compiles");
    let tables = compiled.unit.variables.iter().filter(|variable| variable.kind == Kind::OpenCalls);
    assert_eq!((tables.count(), compiled.unit.bodies.len()), (1, 3), "one body for all, one entry, one exit");
    assert!(compiled.places.iter().all(|places| places.len() == 40));
}

#[test]
fn one_body_serves_all_places_of_which_the_same_is_known() {
    let run = Run::new("entry * { n++ } entry MPI_* { c += $count } entry solve, MPI_Send { c2 += $count }");
    let places: Vec<usize> = run.compiled.places.iter().map(Vec::len).collect();
    assert_eq!(places, [9, 2, 1, 1]);
}

#[test]
fn blocks_and_branches_choose() {
    let mut run = Run::new(
        "entry solve { if ($count < 0) { neg++ } else if ($count == 0) zero++; else { pos++; if ($count > 5) return; }
                       after++ }",
    );
    for value in [-1_i32, 0, 3, 9] {
        run.entry("solve", &[value as u32 as u64]);
    }
    assert_eq!(["neg", "zero", "pos", "after"].map(|name| run.int(name)), [1, 1, 2, 3]);
}

#[test]
fn loops_end() {
    let mut run = Run::new(
        "entry many { for (let i = 0; i < 5; i++) { a += i } for (let i = 10; i > 0; i -= 3) { b++ }
           repeat 4 { c++; if (c == 3) break; } while (1) limit 7 { d++ }
           let n = 0; while (n < $2) limit 100 { n++ } e = n;
           for (let i = 0; i <= $2; i++) limit 2 { f++ } for (let i = 3; i < 3; i++) { g++ }
           let s = 2; { let s = 5; h = s } k = s; for (i2 = 0; i2 < 3; i2 += 2) { j++ } }",
    );
    run.entry("many", &[0, 0, 3]);
    let expected =
        [("a", 10), ("b", 4), ("c", 3), ("d", 7), ("e", 3), ("f", 2), ("g", 0), ("h", 5), ("k", 2), ("j", 2)];
    for (name, value) in expected {
        assert_eq!(run.int(name), value, "{name}");
    }
}

#[test]
fn messages_carry_their_values() {
    let mut run = Run::new(
        "entry log_line { send(\"line\", $text, rank, 0.5, (void *)$text, (unsigned long)3); send(\"title\", title); send(\"bare\") }",
    );
    run.machine.set_word(Area::Process, process_word::RANK, 4);
    run.poke(STACK, b"hello\0");
    run.poke(GLOBALS + 64, b"sixteen bytes!!!and more");
    run.entry("log_line", &[STACK]);
    let messages = &run.machine.messages;
    assert_eq!(run.compiled.unit.texts, ["line", "title", "bare"]);
    assert_eq!(
        messages[0].values,
        [
            SentValue::Text(b"hello".to_vec()),
            SentValue::Int(4),
            SentValue::Float(0.5),
            SentValue::Address(STACK),
            SentValue::Address(3)
        ]
    );
    assert_eq!(messages[1].values, [SentValue::Text(b"sixteen bytes!!!".to_vec())]);
    assert_eq!((messages[2].text, messages[2].values.len()), (2, 0));
}

#[test]
fn what_is_allowed_changes_the_program() {
    let mut run = Run::with(
        "entry solve { $count = 5; ::phase += 2; solver.c::residual = 1; $rax = 9; list->mass = 0.5; grid[1] = $count }",
        WRITE,
    );
    run.poke(GLOBALS, &1_i32.to_le_bytes());
    run.poke(GLOBALS + 16, &STACK.to_le_bytes());
    run.entry("solve", &[100]);
    assert_eq!(run.machine.register(Register::Rdi), 5);
    assert_eq!(run.machine.register(Register::Rax), 9);
    assert_eq!(run.peek(GLOBALS, 4), 3_i32.to_le_bytes());
    assert_eq!(run.peek(GLOBALS + 8, 8), 1.0_f64.to_le_bytes());
    assert_eq!(run.peek(STACK + 8, 4), 0.5_f32.to_le_bytes());
    assert_eq!(run.peek(GLOBALS + 40, 8), 5.0_f64.to_le_bytes());
    let mut run = Run::with("once { call fflush(0, -1) }", Permissions { write: false, call: true });
    run.at(BodyPlace::Once);
    assert_eq!(run.machine.calls, [Call { address: ProcAddr(0x9000), arguments: vec![0, -1] }]);
}

#[test]
fn places_have_their_bodies() {
    let run = Run::new("every 100ms { n++ } every 2 s { n++ } once { m++ } loop solve:1 { i++ } block solve:3 { b++ }");
    let whens: Vec<When> = run.compiled.unit.bodies.iter().map(|body| body.when).collect();
    let every = |period_us| When::Every { period_us };
    assert_eq!(whens, [every(100_000), every(2_000_000), When::Once, When::At, When::At]);
    assert_eq!(run.compiled.places[3], [BodyPlace::Site(SiteId(1))]);
}

#[test]
fn stacks_are_counted_by_hash() {
    let mut run = Run::new("entry solve { st = stack(); one = stack(1) }");
    run.poke(STACK + 0x900, &(STACK + 0x940).to_le_bytes());
    for caller in [0x1111_u64, 0x2222, 0x1111] {
        run.poke(STACK + 0x908, &caller.to_le_bytes());
        run.entry("solve", &[]);
    }
    let results = run.results();
    let Value::Stacks(stacks) = &results["st"] else { panic!("{results:?}") };
    assert_eq!(stacks.top(5).iter().map(|(_, count)| *count).collect::<Vec<_>>(), [2, 1]);
    let Value::Stacks(one) = &results["one"] else { panic!("{results:?}") };
    assert_eq!(one.counts.len(), 2, "the return address on the stack is zero here, so the first frame counts");
}

#[test]
fn types_are_found_out_at_every_place() {
    let mut table = common::facts();
    for index in 0..100 {
        let kind = if index == 77 { trimtab_snippet::types::Type::DOUBLE } else { trimtab_snippet::types::Type::INT };
        table.add_function(&format!("kernel_{index}"), Some(&[("v", kind)]), None);
    }
    let compiled = trimtab_snippet::compile("entry kernel_* { x = $v; y += x }", &table, Permissions::default());
    let compiled = compiled.expect("compiles");
    let kinds: Vec<Kind> = compiled.unit.variables.iter().take(2).map(|variable| variable.kind).collect();
    assert_eq!(kinds, [Kind::LastFloat, Kind::SumFloat]);
    assert_eq!(compiled.places.iter().map(Vec::len).collect::<Vec<_>>(), [99, 1]);
}

#[test]
fn summed_variables_are_the_threads_own_in_bodies() {
    let mut run = Run::new("entry solve { n++; twice = n * 2 }");
    (0..3).for_each(|_| run.entry("solve", &[]));
    assert_eq!(run.int("twice"), 6);
}

#[test]
fn sizes_of_mpi_datatypes_come_from_memory_where_handles_are_addresses() {
    let mut table = common::facts();
    table.datatype_size = Some(trimtab_snippet::facts::DatatypeSize::WordAt(24));
    let script = "entry MPI_Send { bytes += $count * sizeof($datatype) }";
    let compiled = trimtab_snippet::compile(script, &table, Permissions::default()).expect("compiles");
    let mut machine = trimtab_snippet::reference::Machine::new(&compiled.unit);
    machine.memory.insert(0x1000, [[0; 24].as_slice(), &16_u64.to_le_bytes()].concat());
    machine.set_register(Register::Rsi, 3);
    machine.set_register(Register::Rdx, 0x1000);
    trimtab_snippet::reference::run(&compiled.unit, &compiled.unit.bodies[0], &mut machine).expect("well formed");
    let bytes = &compiled.unit.variables[0];
    assert_eq!(machine.word(bytes.area, bytes.offset), 48);
}

#[test]
fn the_plainest_script_of_each_kind_reads() {
    let script = r#"
entry MPI_Send            { n++; bytes += $count * sizeof($datatype); big = hist(bytes) }
exit  solve               { if ($ret != 0) { failures++; stop() } time = hist(elapsed) }
call  compute:"dgemm"     { calls++ }
loop  main:1              { iterations++ }
at    file.c:214          { x = residual }
every 100ms               { send("progress", iterations) }
once                      { call fflush(0) }
"#;
    let script = trimtab_snippet::parse(script).expect("reads");
    assert_eq!((script.probes.len(), script.declarations.len(), script.conditions.len()), (7, 0, 0));
}
