//! Each statement by itself.
//!
//! Next: `values` for expressions.

use crate::script::*;
use crate::shown::shown;
use crate::world::{DATA, State, World};
use trimtab_snippet::emit::ThreadKey;
use trimtab_snippet::ir::*;

const THREAD: Area = Area::Thread;
const PROCESS: Area = Area::Process;

/// Runs a body that is the script's only one; the variables' first words afterwards.
fn run(world: &mut World, kinds: &[(Area, Kind)], when: When, statements: Vec<Statement>, state: &State) -> Vec<u64> {
    let mut unit = unit(kinds);
    unit.bodies.push(body(when, statements));
    let code = world.compile(&unit, &unit.bodies[0]);
    let mut expected = state.clone();
    expected.general[4] = world.stack_pointer();
    let after = world.run(&code, state);
    if !unit.bodies[0].statements.iter().any(|statement| matches!(statement, Statement::SetRegister { .. })) {
        if when != When::At {
            expected.flags = after.flags;
        }
        assert_eq!(after, expected, "{}", shown(&code));
    }
    first_words(world, &unit)
}

fn first_words(world: &World, unit: &Unit) -> Vec<u64> {
    let word = |variable: &Variable| match variable.area {
        Area::Thread => world.thread_word(variable.offset),
        Area::Process => world.process_word(variable.offset),
    };
    unit.variables.iter().map(word).collect()
}

#[test]
fn adding_counts_in_either_area() {
    for mut world in [World::new(), World::far()] {
        for when in [When::Entry, When::At, When::Once] {
            world.reset();
            for runs in 1..4u64 {
                let words = run(
                    &mut world,
                    &[(THREAD, Kind::Sum), (PROCESS, Kind::Sum)],
                    when,
                    vec![add(0, int(1)), add(1, int(-5))],
                    &State::zero(),
                );
                assert_eq!(words, [runs, (runs as i64 * -5) as u64]);
            }
        }
    }
}

/// Bit of `AT_HWCAP2` that allows `rdfsbase`.
const FSGSBASE: u64 = 2;

/// Says that the test could not run, as docs/testing.md asks.
fn skip(reason: &str) {
    use std::io::Write;
    let line = format!("SKIPPED: statements::threads_are_told_apart_by_their_base_too: {reason}\n");
    print!("{line}");
    if let Some(log) = std::env::var_os("TRIMTAB_SKIP_LOG") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(log).expect("the log opens");
        file.write_all(line.as_bytes()).expect("the log takes a line");
    }
}

#[test]
fn threads_are_told_apart_by_their_base_too() {
    // SAFETY: reads a word of the auxiliary vector.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE == 0 {
        skip("this kernel does not allow rdfsbase; run a kernel from 5.9 on");
        return;
    }
    let mut world = World::new();
    world.areas.key = ThreadKey::FsBase;
    for runs in 1..4u64 {
        let words = run(&mut world, &[(THREAD, Kind::Sum)], When::At, vec![add(0, int(1))], &State::zero());
        assert_eq!(words, [runs]);
    }
    assert_eq!(world.process_word(process_word::THREADS_DROPPED), 0);
}

#[test]
fn a_register_is_added() {
    let mut world = World::new();
    let mut state = State::zero();
    for number in (0..16).filter(|&number| number != 4) {
        state.general[number] = 1000 + number as u64;
    }
    for number in ALL_REGISTERS {
        world.reset();
        let words = run(
            &mut world,
            &[(THREAD, Kind::Sum), (THREAD, Kind::Sum)],
            When::At,
            vec![add(0, register(number)), add(1, binary(Binary::Divide, register(number), int(3)))],
            &state,
        );
        assert_eq!(words, [1000 + number as u64, (1000 + number as u64) / 3]);
    }
}

const ALL_REGISTERS: [Register; 15] = [
    Register::Rax,
    Register::Rcx,
    Register::Rdx,
    Register::Rbx,
    Register::Rbp,
    Register::Rsi,
    Register::Rdi,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

#[test]
fn a_condition_decides() {
    let mut world = World::new();
    for (value, expected) in [(99_999, 0), (100_000, 0), (100_001, 1), (u64::MAX, 0)] {
        world.reset();
        let mut state = State::zero();
        state.general[Register::Rsi as usize] = value;
        let condition = binary(Binary::Less, int(100_000), register(Register::Rsi));
        let words =
            run(&mut world, &[(THREAD, Kind::Sum)], When::Entry, vec![when(condition, vec![add(0, int(1))])], &state);
        assert_eq!(words, [expected]);
    }
}

#[test]
fn loads_that_are_not_readable_give_zero_and_are_counted() {
    let mut world = World::new();
    let data = world.base + DATA;
    world.write_word(data, 0x1122_3344_5566_7788);
    let load =
        |address: u64| Expression::Load { address: Box::new(int(address as i64)), width: Width::W64, signed: false };
    for (address, expected, refused) in [
        (data, 0x1122_3344_5566_7788, 0),
        (0, 0, 1),
        (data - 8, 0, 2),
        (data - 4, 0, 3),
        (data + 0x400 - 7, 0, 4),
        (u64::MAX - 3, 0, 5),
        (world.base + 0x7f_fff8, 0, 6),
    ] {
        let words = run(&mut world, &[(THREAD, Kind::Last)], When::Entry, vec![set(0, load(address))], &State::zero());
        assert_eq!(words, [expected], "{address:#x}");
        assert_eq!(world.thread_word(thread_word::UNREADABLE), refused);
    }
}
