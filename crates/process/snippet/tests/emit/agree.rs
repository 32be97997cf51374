//! A script's machine code and the reference, run from the same state: both leave the same areas behind.
//!
//! Next: `world`, where the code runs.

use crate::world::{DATA, DATA_LEN, State, WATCHED, World};
use trimtab_snippet::ir::{Unit, process_word, thread_word};
use trimtab_snippet::reference::{Machine, run};

/// Operands of random expressions.
pub const LEAVES: &[&str] = &[
    "1",
    "0x7f",
    "2.5",
    "'a'",
    "$count",
    "$tolerance",
    "rank",
    "ranks",
    "n",
    "k",
    "$rdi",
    "$rsp",
    "*(int *)$rsi",
    "((double *)$rsi)[2]",
    "*(unsigned long *)$rsi",
    "*(float *)$rdx",
];
/// Operators between two.
pub const OPERATORS: &[&str] =
    &["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&&", "||"];
/// Prefixes that may stand before one.
pub const PREFIXES: &[&str] = &["-", "!", "~", "(int)", "(double)", "(char)", "(unsigned long)", "(bool)"];
/// Words of a thread's area that belong to the engine around a body.
const ENGINE_WORDS: [u32; 4] = [thread_word::BUSY, thread_word::SKIPPED, thread_word::OWNER, thread_word::THREAD];

/// Registers: some point at data, one is small, the rest is anything.
pub fn state(world: &World, seeds: [u64; 4], small: i64) -> State {
    let mut state = State::zero();
    state.general = std::array::from_fn(|number| seeds[number % 4].rotate_left(number as u32));
    state.general[4] = world.stack_pointer();
    state.general[5] = world.stack_pointer();
    state.general[6] = world.base + DATA + seeds[1] % 200 * 4;
    state.general[7] = small as u64;
    state.vectors[0][0] = (small as f64 * 0.75).to_bits();
    state
}

fn machine(world: &mut World, unit: &Unit, state: &State) -> Machine {
    world.reset();
    let stack = world.stack_pointer() - WATCHED;
    world.write(stack, &world.stack_pattern());
    let mut machine = Machine::new(unit);
    machine.memory.insert(world.base + DATA, world.read(world.base + DATA, DATA_LEN));
    machine.memory.insert(stack, world.read(stack, 2 * WATCHED));
    machine.registers[..16].copy_from_slice(&state.general);
    machine.vectors[0] = state.vectors[0][0];
    for offset in (0..process_word::FIRST_FREE).step_by(8) {
        machine.process[offset as usize / 8] = world.process_word(offset);
    }
    machine
}

/// Runs the first body twice, both ways.
pub fn compare(world: &mut World, unit: &Unit, state: &State, script: &str) {
    let mut machine = machine(world, unit, state);
    let body = &unit.bodies[0];
    let code = world.compile(unit, body);
    for _ in 0..2 {
        let after = world.run(&code, state);
        assert_eq!(after.general, state.general, "{script}");
        let recording = machine.process[process_word::RECORDING as usize / 8] != 0;
        if recording {
            run(unit, body, &mut machine).expect("the front end makes well-formed trees");
        }
    }
    let header = (0..thread_word::ELAPSED_UNKNOWN + 8).chain(thread_word::FIRST_FREE..unit.thread_bytes);
    let area = world.own_area().map(|area| words(world, area, unit.thread_bytes));
    for offset in header.filter(|offset| offset % 8 == 0 && !ENGINE_WORDS.contains(offset)) {
        let at = offset as usize / 8;
        let (native, wanted) = (area.as_ref().map_or(0, |area| area[at]), machine.thread[at]);
        assert!(same(native, wanted), "thread area at {offset}: {native:#x}, not {wanted:#x}\n{script}");
    }
    let area = words(world, world.areas.process.0, unit.process_bytes);
    // Where addresses were lately is no meaning of the language.
    let hot = process_word::HOT_RANGES as usize / 8..process_word::FIRST_FREE as usize / 8;
    let meant = area.iter().zip(&machine.process).enumerate().filter(|(number, _)| !hot.contains(number));
    for (number, (native, wanted)) in meant {
        assert_eq!(native, wanted, "word {number} of the process area\n{script}");
    }
}

/// So many bytes of memory as words: read at once, because there are hundreds.
fn words(world: &World, address: u64, bytes: u32) -> Vec<u64> {
    let bytes = world.read(address, bytes.into());
    bytes.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes).unwrap_or_default()).collect()
}

/// Equal bits, or both not a number.
fn same(a: u64, b: u64) -> bool {
    a == b || (f64::from_bits(a).is_nan() && f64::from_bits(b).is_nan())
}
