//! Several threads in the same code: nothing is lost, nothing is mixed up, and threads beyond the areas are counted.
//!
//! Next: `interrupted` for one thread that interrupts itself.

use crate::script::*;
use crate::world::{RING_BYTES, THREAD_COUNT, World};
use std::sync::Barrier;
use trimtab_snippet::emit::HEADER_WORDS;
use trimtab_snippet::ir::*;

const RUNS: u64 = 20_000;

/// Calls `function` from so many threads, each `RUNS` times, all alive until the last has finished.
fn hammer(threads: usize, function: extern "C" fn()) {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                barrier.wait();
                (0..RUNS).for_each(|_| function());
                barrier.wait();
            });
        }
    });
}

fn sum_of(world: &World, offset: u32) -> u64 {
    world.owned_areas().iter().map(|area| world.word(area + u64::from(offset))).sum()
}

#[test]
fn threads_lose_nothing() {
    for mut world in [World::new(), World::far()] {
        let mut unit = unit(&[
            (Area::Thread, Kind::Sum),
            (Area::Process, Kind::Sum),
            (Area::Process, Kind::SumFloat),
            (Area::Thread, Kind::Histogram),
        ]);
        let statements = vec![add(0, int(1)), add(1, int(3)), add(2, Expression::Float(0.5)), fold(3, int(100))];
        unit.bodies.push(body(When::Entry, statements));
        let code = world.compile(&unit, &unit.bodies[0]);
        let function = world.function(&code);
        let threads = 4;
        hammer(threads, function);
        let runs = threads as u64 * RUNS;
        assert_eq!(world.owned_areas().len(), threads);
        assert_eq!(sum_of(&world, unit.variables[0].offset), runs);
        assert_eq!(world.process_word(unit.variables[1].offset), 3 * runs);
        assert_eq!(f64::from_bits(world.process_word(unit.variables[2].offset)), runs as f64 / 2.0);
        assert_eq!(sum_of(&world, unit.variables[3].offset + 8 * HISTOGRAM_BUCKETS), runs);
        assert_eq!(world.process_word(process_word::THREADS_DROPPED), 0);
        assert_eq!(sum_of(&world, thread_word::SKIPPED), 0);
    }
}

#[test]
fn threads_without_an_area_are_counted() {
    let mut world = World::new();
    let mut unit = unit(&[(Area::Thread, Kind::Sum)]);
    unit.bodies.push(body(When::Entry, vec![add(0, int(1))]));
    let code = world.compile(&unit, &unit.bodies[0]);
    let function = world.function(&code);
    let threads = THREAD_COUNT as usize + 3;
    hammer(threads, function);
    assert_eq!(world.owned_areas().len(), THREAD_COUNT as usize);
    assert_eq!(sum_of(&world, unit.variables[0].offset), u64::from(THREAD_COUNT) * RUNS);
    assert_eq!(world.process_word(process_word::THREADS_DROPPED), 3 * RUNS);
}

#[test]
fn messages_of_several_threads_stay_whole() {
    let mut world = World::new();
    let mut unit = unit(&[(Area::Thread, Kind::Sum)]);
    let count = || Expression::Variable { variable: 0 };
    let values = vec![
        Sent::Int(count()),
        Sent::Int(binary(Binary::Multiply, count(), int(3))),
        Sent::Int(binary(Binary::Xor, count(), int(-1))),
    ];
    let bytes = trimtab_snippet::emit::message_bytes(&values);
    unit.bodies.push(body(When::Entry, vec![add(0, int(1)), Statement::Send { text: 0, values }]));
    let code = world.compile(&unit, &unit.bodies[0]);
    let function = world.function(&code);
    hammer(3, function);
    let kept = RING_BYTES / bytes;
    assert_eq!(world.process_word(process_word::MESSAGES_HEAD), kept * bytes, "nobody reads, so the ring is full");
    assert_eq!(sum_of(&world, thread_word::MESSAGES_DROPPED), 3 * RUNS - kept);
    for message in 0..kept {
        let position = message * bytes;
        let word = |index: u32| world.ring_word(position + 8 * u64::from(index));
        assert_eq!(word(0), position + 1);
        let value = word(HEADER_WORDS);
        assert!((1..=RUNS).contains(&value));
        assert_eq!((word(HEADER_WORDS + 1), word(HEADER_WORDS + 2)), (3 * value, !value));
        let owners = world.owned_areas().into_iter().map(|area| world.word(area + u64::from(thread_word::OWNER)));
        assert!(owners.into_iter().any(|owner| owner == word(2)));
    }
}
