//! Conditions that are tested before the body's registers are saved: how short the way of a false one is, and that a range
//! that is kept from the last load is given up when tables change.
//!
//! Next: `values` for what conditions yield, whatever they are made of.

use crate::script::*;
use crate::shown::shown;
use crate::world::{DATA, DATA_LEN, State, World};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};
use trimtab_snippet::emit::{Code, compile};
use trimtab_snippet::ir::*;

fn load(address: Expression) -> Expression {
    Expression::Load { address: Box::new(address), width: Width::W64, signed: true }
}

fn counting_if(condition: Expression) -> Unit {
    let mut unit = unit(&[(Area::Thread, Kind::Sum), (Area::Thread, Kind::Sum), (Area::Process, Kind::Sum)]);
    unit.bodies = vec![body(When::Entry, vec![when(condition, vec![fold_free_add(), add(0, int(1))])])];
    unit
}

/// Makes the body longer than an addition, so that it has registers to save.
fn fold_free_add() -> Statement {
    add(1, binary(Binary::Multiply, register(Register::Rdi), int(3)))
}

/// Instructions from the entry to the end where no branch is taken: the way of a false condition.
fn straight_way(code: &Code) -> Vec<Mnemonic> {
    let mut decoder = Decoder::with_ip(64, &code.bytes[code.entry..], code.entry_address().0, DecoderOptions::NONE);
    let mut way = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let goes_on = matches!(instruction.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch);
        assert!(goes_on, "{}", shown(code));
        way.push(instruction.mnemonic());
    }
    way
}

#[test]
fn a_false_condition_runs_straight_through() {
    let world = World::new();
    let depth = |variable| Expression::Variable { variable };
    for (name, condition, pushes, instructions_max) in [
        ("argument", binary(Binary::Less, int(100), register(Register::Rdi)), 0, 4),
        ("variable of the process", binary(Binary::Less, int(100), depth(2)), 0, 4),
        ("product", binary(Binary::Less, int(100), binary(Binary::Multiply, register(Register::Rdi), int(3))), 1, 9),
        ("load", binary(Binary::Equal, int(5), load(register(Register::Rsi))), 1, 17),
        ("variable of the thread", binary(Binary::Less, int(100), depth(0)), 2, 12),
    ] {
        let unit = counting_if(condition);
        let code = compile(&unit, &unit.bodies[0], &world.environment(When::Entry)).expect(name);
        let way = straight_way(&code);
        let pushed = way.iter().filter(|mnemonic| **mnemonic == Mnemonic::Push).count();
        assert!(pushed <= pushes, "{name} saves {pushed} registers\n{}", shown(&code));
        assert!(way.len() <= instructions_max, "{name} takes {} instructions\n{}", way.len(), shown(&code));
    }
}

/// The script's state is looked at late, but before anything changes.
#[test]
fn what_does_not_record_changes_nothing() {
    let variable = |variable| Expression::Variable { variable };
    for (name, condition) in [
        ("unreadable", binary(Binary::Equal, int(0), load(int(16)))),
        ("readable", binary(Binary::NotEqual, int(5), load(register(Register::Rsi)))),
        ("variable of the thread", binary(Binary::Equal, int(0), variable(0))),
        ("of the thread and unreadable", binary(Binary::Equal, variable(0), load(int(16)))),
    ] {
        let mut world = World::new();
        let unit = counting_if(condition);
        let code = world.compile(&unit, &unit.bodies[0]);
        let mut state = State::zero();
        state.general[6] = world.base + DATA;
        let hot = |world: &World| {
            (0..process_word::HOT_RANGE_COUNT).any(|n| world.process_word(process_word::HOT_RANGES + 8 * n) != 0)
        };
        world.set_process_word(process_word::RECORDING, 0);
        let after = world.run(&code, &state);
        assert_eq!(after.general[..4], state.general[..4], "{name}");
        assert_eq!((world.owned_areas().len(), hot(&world)), (0, false), "{name}");
        assert_eq!(world.process_word(process_word::THREADS_DROPPED), 0, "{name}");
        world.set_process_word(process_word::RECORDING, 1);
        world.run(&code, &state);
        assert_eq!(world.thread_word(unit.variables[0].offset), 1, "{name}: true as soon as it records");
        world.set_process_word(process_word::RECORDING, 0);
        let refused = world.thread_word(thread_word::UNREADABLE);
        world.run(&code, &state);
        assert_eq!(world.thread_word(unit.variables[0].offset), 1, "{name}: true, but not recorded");
        assert_eq!(world.thread_word(thread_word::UNREADABLE), refused, "{name}");
    }
}

#[test]
fn a_range_that_is_kept_is_given_up_when_it_ends() {
    let mut world = World::new();
    let unit = counting_if(binary(Binary::Equal, int(5), load(register(Register::Rsi))));
    let code = world.compile(&unit, &unit.bodies[0]);
    let data = world.base + DATA;
    world.write_word(data + 64, 5);
    let mut state = State::zero();
    state.general[6] = data + 64;
    let run = |world: &mut World| {
        let before = (world.thread_word(unit.variables[0].offset), world.thread_word(thread_word::UNREADABLE));
        let after = world.run(&code, &state);
        assert_eq!(after.general[..4], state.general[..4]);
        let now = (world.thread_word(unit.variables[0].offset), world.thread_word(thread_word::UNREADABLE));
        (now.0 - before.0, now.1 - before.1)
    };
    let kept: Vec<u32> =
        (0..process_word::HOT_RANGE_COUNT).map(|number| process_word::HOT_RANGES + 8 * number).collect();
    assert_eq!(run(&mut world), (1, 0), "found by the search");
    let holding = kept.iter().filter(|word| world.process_word(**word) != 0).count();
    assert_eq!(holding, 1, "the range is kept");
    let count = world.process_word(process_word::RANGE_COUNT);
    world.set_process_word(process_word::RANGE_COUNT, 0);
    assert_eq!(run(&mut world), (1, 0), "found by what is kept, without the table");
    kept.iter().for_each(|word| world.set_process_word(*word, 0));
    assert_eq!(run(&mut world), (0, 1), "with both gone it is refused");
    assert!(kept.iter().all(|word| world.process_word(*word) == 0), "nothing is kept of an empty table");
    world.set_process_word(process_word::RANGE_COUNT, count);
    assert_eq!(run(&mut world), (1, 0), "and found again");
    // The range that is kept ends right in the middle of the word.
    let entry = kept.iter().map(|word| world.process_word(*word)).find(|entry| *entry != 0).expect("it is kept");
    for (end, expected) in [(data + 71, (0, 1)), (data + 72, (1, 0)), (0, (0, 1)), (data + DATA_LEN, (1, 0))] {
        world.write_word(entry + 8, end);
        assert_eq!(run(&mut world), expected, "the range ends at {end:#x}");
    }
}
