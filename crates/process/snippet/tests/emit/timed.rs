//! The usual timed exit beside what the reference does on the same table of open calls, and while it is interrupted.
//!
//! Next: `special` for exits that are not the usual one.

use crate::interrupted::{STEPPING, run_interrupted};
use crate::script::*;
use crate::special::{busy_state, open_calls, put_open_calls, run};
use crate::world::World;
use trimtab_snippet::emit::{Code, bodies_are_reentrant, compile, compile_together};
use trimtab_snippet::ir::*;
use trimtab_snippet::reference::{self, Machine};

const OPEN: usize = 0;
const SUM: usize = 1;
const COUNT: usize = 2;
const UNKNOWN: usize = 3;
const KINDS: [Kind; 4] = [Kind::OpenCalls, Kind::Sum, Kind::Sum, Kind::Sum];

fn time() -> Expression {
    Expression::Temporary { temporary: 0, float: false }
}

fn if_known(then: Vec<Statement>) -> Statement {
    when(binary(Binary::LessEqual, int(0), time()), then)
}

/// Uses of the time by exits, as the front end writes them: used at once, used again later, not used, not asked first.
fn uses() -> Vec<(&'static str, Vec<Statement>)> {
    let unknown = || when(binary(Binary::Less, time(), int(0)), vec![add(UNKNOWN, int(1))]);
    vec![
        ("once", vec![if_known(vec![add(SUM, time()), add(COUNT, int(1))])]),
        ("again", vec![if_known(vec![add(COUNT, int(1)), add(SUM, time())]), unknown()]),
        ("at once and again", vec![if_known(vec![add(SUM, time()), add(SUM, time())]), unknown(), add(COUNT, int(1))]),
        ("unused", vec![if_known(vec![add(COUNT, int(1)), Statement::Return]), add(UNKNOWN, int(1))]),
        ("first of all", vec![add(SUM, time()), unknown()]),
    ]
}

fn script(uses: Vec<Statement>) -> Unit {
    let mut unit = unit(&KINDS.map(|kind| (Area::Thread, kind)));
    let ask = Statement::Let { temporary: 0, value: Expression::Elapsed { variable: OPEN } };
    unit.bodies = vec![
        body(When::Entry, vec![Statement::OpenCall { variable: OPEN }]),
        body(When::Exit, [vec![ask], uses].concat()),
        body(When::Exit, vec![Statement::CloseCall { variable: OPEN }]),
    ];
    unit
}

fn codes(world: &World, unit: &Unit, first_place: u64) -> (Code, Code) {
    assert!(bodies_are_reentrant(unit), "only additions");
    let environment = |when, number| {
        let mut environment = world.environment(when);
        environment.at = environment.at + (first_place + number) * 0x2000;
        environment.reentrant = true;
        environment
    };
    let entry = compile(unit, &unit.bodies[0], &environment(When::Entry, 0)).expect("the entry compiles");
    let exits: Vec<&Body> = unit.bodies[1..].iter().collect();
    let exit = compile_together(unit, &exits, &environment(When::Exit, 1)).expect("the exit compiles");
    (entry, exit)
}

/// Tables of open calls around a stack pointer: stack pointers and times, outermost first.
fn tables(here: u64) -> Vec<Vec<(u64, u64)>> {
    let callers = |count: u64| (0..count).map(move |number| (here + 4096 - 16 * number, number + 1));
    let mut tables = vec![Vec::new()];
    for outer in [0, 1, 2, 30, 31, 32] {
        let rests: [&[u64]; 6] = [&[], &[0], &[0, 32], &[0, 32, 64], &[32], &[32, 64]];
        for rest in rests {
            let rest = rest.iter().map(|below| (here - below, 9));
            let table: Vec<(u64, u64)> = callers(outer).chain(rest).collect();
            tables.extend((table.len() <= OPEN_CALLS_MAX as usize).then_some(table));
        }
    }
    tables
}

#[test]
fn the_usual_exit_does_what_the_reference_does() {
    for mut world in [World::new(), World::far()] {
        for (name, uses) in uses() {
            let unit = script(uses);
            let (entry, exit) = codes(&world, &unit, 0);
            run(&mut world, &entry, &busy_state());
            for table in tables(world.stack_pointer()) {
                for (code, bodies) in [(&entry, &unit.bodies[..1]), (&exit, &unit.bodies[1..])] {
                    compare(&mut world, &unit, code, bodies, &table, name);
                }
            }
        }
    }
}

/// Times differ, but all else is the same.
fn compare(world: &mut World, unit: &Unit, code: &Code, bodies: &[Body], table: &[(u64, u64)], name: &str) {
    let place = |variable: usize| unit.variables[variable].offset;
    for variable in [SUM, COUNT, UNKNOWN] {
        world.set_thread_word(place(variable), 0);
    }
    world.set_thread_word(thread_word::ELAPSED_UNKNOWN, 0);
    put_open_calls(world, unit, table);
    let mut machine = Machine::new(unit);
    for offset in (0..unit.thread_bytes).step_by(8) {
        machine.thread[offset as usize / 8] = world.thread_word(offset);
    }
    machine.registers[Register::Rsp as usize] = world.stack_pointer();
    machine.now_ticks = u64::MAX / 4;
    for body in bodies {
        reference::run(unit, body, &mut machine).expect("well formed");
    }
    run(world, code, &busy_state());
    let wanted = |offset: u32| machine.thread[offset as usize / 8];
    let expected: Vec<u64> = reference_calls(&machine, unit).iter().map(|(stack, _)| *stack).collect();
    let got: Vec<u64> = open_calls(world, unit).iter().map(|(stack, _)| *stack).collect();
    assert_eq!(got, expected, "{name} {table:?}");
    for offset in [place(COUNT), place(UNKNOWN), thread_word::ELAPSED_UNKNOWN] {
        assert_eq!(world.thread_word(offset), wanted(offset), "{name} {offset} {table:?}");
    }
    let (got, wanted) = (world.thread_word(place(SUM)) as i64, wanted(place(SUM)) as i64);
    assert_eq!(got.signum(), wanted.signum(), "{name} {table:?}");
}

fn reference_calls(machine: &Machine, unit: &Unit) -> Vec<(u64, u64)> {
    let first = unit.variables[OPEN].offset as usize / 8;
    let words = &machine.thread[first..];
    if words[2] == 0 {
        return Vec::new();
    }
    let outer = (0..words[0] / OPEN_CALL_BYTES).map(|number| 3 + 2 * number as usize);
    outer.chain([1]).map(|at| (!words[at + 1], words[at])).collect()
}

/// Nothing is skipped and nothing is lost, although the handler's calls of the same function come in between.
#[test]
fn pairs_survive_every_interruption_without_a_mark() {
    let _alone = STEPPING.lock().expect("nobody panics with it");
    for callers in [0, 1, 31] {
        let mut world = World::new();
        let unit = script(vec![if_known(vec![add(SUM, time()), add(COUNT, int(1))])]);
        let (entry, exit) = codes(&world, &unit, 1);
        let (entry, exit) = (world.function(&entry) as usize, world.function(&exit) as usize);
        let inner = world.pair(entry, exit, 3);
        let (entry, exit) = codes(&world, &unit, 4);
        let here = world.stack_pointer();
        let table: Vec<(u64, u64)> = (0..callers).map(|number| (here + 4096 - 16 * number, number + 1)).collect();
        run(&mut world, &entry, &busy_state());
        put_open_calls(&mut world, &unit, &[&table[..], &[(here - 64, 5)]].concat());
        let word = |world: &World, variable: usize| world.thread_word(unit.variables[variable].offset);
        let mut called = run_interrupted(&mut world, &entry, inner);
        let open: Vec<u64> = open_calls(&world, &unit).iter().map(|(stack, _)| *stack).collect();
        let expected: Vec<u64> = table.iter().map(|(stack, _)| *stack).chain([here]).collect();
        assert_eq!(open, expected);
        called += run_interrupted(&mut world, &exit, inner);
        assert_eq!(open_calls(&world, &unit), table);
        assert!(called > 30, "both were stepped through: {called}");
        let too_deep = world.thread_word(thread_word::ELAPSED_UNKNOWN);
        assert_eq!(word(&world, COUNT) + too_deep, called + 1);
        assert!(too_deep == 0 || callers == 31, "{too_deep} of {called} calls have no time");
        assert_eq!(world.thread_word(thread_word::SKIPPED), 0);
        assert!((word(&world, SUM) as i64) > 0);
    }
}
