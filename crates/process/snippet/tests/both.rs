//! Random scripts from text to machine code and run there, and run by the reference: both leave the same areas behind.
//!
//! Next: `emit/values`, which makes random trees that no script means; `language` for what scripts mean.

mod common;
#[path = "emit/world.rs"]
#[allow(dead_code, reason = "the back end's own tests use all of it")]
mod world;

use common::survive::{ALL, facts};
use proptest::prelude::*;
use std::cell::RefCell;
use trimtab_snippet::compile;
use trimtab_snippet::ir::{Unit, process_word, thread_word};
use trimtab_snippet::reference::{Machine, run};
use world::{DATA, DATA_LEN, State, WATCHED, World};

const LEAVES: &[&str] = &[
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
const OPERATORS: &[&str] =
    &["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&&", "||"];
const PREFIXES: &[&str] = &["-", "!", "~", "(int)", "(double)", "(char)", "(unsigned long)", "(bool)"];
/// Words of a thread's area that belong to the engine around a body.
const ENGINE_WORDS: [u32; 4] = [thread_word::BUSY, thread_word::SKIPPED, thread_word::OWNER, thread_word::THREAD];

thread_local!(static WORLD: RefCell<World> = RefCell::new(World::new()));

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn code_does_what_the_reference_does(
        statements in prop::collection::vec(statement(), 1..6),
        seeds in any::<[u64; 4]>(),
        small in -5..5_i64,
    ) {
        let script = format!("process int k; entry solve {{ {} }}", statements.join("; "));
        if let Ok(compiled) = compile(&script, facts(), ALL) {
            WORLD.with_borrow_mut(|world| compare(world, &compiled.unit, &state(world, seeds, small), &script));
        }
    }
}

/// Registers: some point at data, one is small, the rest is anything.
fn state(world: &World, seeds: [u64; 4], small: i64) -> State {
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
fn compare(world: &mut World, unit: &Unit, state: &State, script: &str) {
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
    for offset in header.filter(|offset| offset % 8 == 0 && !ENGINE_WORDS.contains(offset)) {
        let (native, wanted) = (world.thread_word(offset), machine.thread[offset as usize / 8]);
        assert!(same(native, wanted), "thread area at {offset}: {native:#x}, not {wanted:#x}\n{script}");
    }
    // Where addresses were lately is no meaning of the language.
    let hot = process_word::HOT_RANGES..process_word::FIRST_FREE;
    for offset in (0..unit.process_bytes).step_by(8).filter(|offset| !hot.contains(offset)) {
        assert_eq!(
            world.process_word(offset),
            machine.process[offset as usize / 8],
            "process area at {offset}\n{script}"
        );
    }
}

/// Equal bits, or both not a number.
fn same(a: u64, b: u64) -> bool {
    a == b || (f64::from_bits(a).is_nan() && f64::from_bits(b).is_nan())
}

fn expression() -> impl Strategy<Value = String> {
    prop::sample::select(LEAVES).prop_map(str::to_string).boxed().prop_recursive(5, 40, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (inner.clone(), prop::sample::select(OPERATORS), inner.clone())
                .prop_map(|(a, o, b)| format!("{a} {o} {b}")),
            two.clone().prop_map(|(a, b)| format!("({a}) - {b}")),
            two.clone().prop_map(|(a, b)| format!("max({a}, {b}) + min({b}, {a})")),
            (prop::sample::select(PREFIXES), inner.clone()).prop_map(|(o, a)| format!("{o}({a})")),
            (inner.clone(), two).prop_map(|(a, (b, c))| format!("({a} ? {b} : {c})")),
            inner.prop_map(|a| format!("abs({a})")),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    let two = || (expression(), expression());
    prop_oneof![
        expression().prop_map(|e| format!("x = {e}")),
        expression().prop_map(|e| format!("n += {e}")),
        expression().prop_map(|e| format!("k += {e}")),
        expression().prop_map(|e| format!("h = hist({e})")),
        expression().prop_map(|e| format!("lo = min({e})")),
        expression().prop_map(|e| format!("hi = max({e})")),
        expression().prop_map(|e| format!("av = mean({e})")),
        Just("st = stack()".to_string()),
        Just("if (n > 5) stop()".to_string()),
        two().prop_map(|(a, b)| format!("if ({a}) {{ y = {b} }} else y = 1")),
        two().prop_map(|(a, b)| format!("while ({a}) limit 3 {{ z -= {b}; if (z < 4) break; }}")),
        expression().prop_map(|e| format!("repeat 2 {{ let t = {e}; w = mean(t) }}")),
        expression().prop_map(|e| format!("if ({e}) return")),
        expression().prop_map(|e| format!("eq += (char *)({e}) == \"abc\"")),
    ]
}
