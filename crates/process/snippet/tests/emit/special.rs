//! Parts that the evaluator does not know: open calls and elapsed times, stacks, texts, calls of functions, clocks,
//! the busy mark, closed gates, and what is refused.
//!
//! Next: `messages` for `send`, `threads` for several threads at once.

use crate::script::*;
use crate::shown::shown;
use crate::world::{DATA, GATE, State, World};
use trimtab_snippet::emit::{Code, EmitError, Runs, STACK_HASH_MULTIPLIER, VectorSave, compile, compile_together};
use trimtab_snippet::ir::*;
use trimtab_types::ProcAddr;

const THREAD: Area = Area::Thread;

/// A script with one body for each of these, and their codes.
pub fn codes(world: &World, kinds: &[(Area, Kind)], bodies: Vec<(When, Vec<Statement>)>) -> (Unit, Vec<Code>) {
    let mut unit = unit(kinds);
    unit.bodies = bodies.into_iter().map(|(when, statements)| body(when, statements)).collect();
    let codes = unit.bodies.iter().map(|body| world.compile(&unit, body)).collect();
    (unit, codes)
}

/// Runs code and checks that it left registers, vectors and MXCSR alone.
pub fn run(world: &mut World, code: &Code, state: &State) {
    let after = world.run(code, state);
    let mut expected = state.clone();
    expected.general[4] = world.stack_pointer();
    expected.flags = after.flags;
    assert_eq!(after, expected, "{}", shown(code));
}

pub fn busy_state() -> State {
    let mut state = State::zero();
    for (number, value) in state.general.iter_mut().enumerate() {
        *value = 0x0101_0101_0101_0101 * (number as u64 + 1);
    }
    for (number, lane) in state.vectors.iter_mut().flatten().enumerate() {
        *lane = 0x3ff0_0000_0000_0000 + number as u64;
    }
    state.mxcsr = 0x1f80 | 0x6000 | 0x21;
    state
}

const OPEN: usize = 0;
const TIME: usize = 1;
const CALLS: [(Area, Kind); 3] = [(THREAD, Kind::OpenCalls), (THREAD, Kind::Last), (THREAD, Kind::Last)];

fn timing(world: &World) -> (Unit, Code, Code) {
    let elapsed = || Expression::Elapsed { variable: OPEN };
    let bodies = vec![
        (When::Entry, vec![Statement::OpenCall { variable: OPEN }]),
        (When::Exit, vec![set(TIME, elapsed()), set(TIME + 1, elapsed()), Statement::CloseCall { variable: OPEN }]),
    ];
    let (unit, mut codes) = codes(world, &CALLS, bodies);
    let exit = codes.remove(1);
    (unit, codes.remove(0), exit)
}

/// The pairs of the table, outermost first.
pub fn open_calls(world: &World, unit: &Unit) -> Vec<(u64, u64)> {
    let offset = unit.variables[OPEN].offset;
    let word = |number: u64| world.thread_word(offset + 8 * number as u32);
    if word(2) == 0 {
        assert_eq!(word(0), 0, "without an innermost call there are no others");
        return Vec::new();
    }
    let outer = (0..word(0) / OPEN_CALL_BYTES).map(|number| 3 + 2 * number);
    outer.chain([1]).map(|at| (!word(at + 1), word(at))).collect()
}

pub fn put_open_calls(world: &mut World, unit: &Unit, pairs: &[(u64, u64)]) {
    let offset = unit.variables[OPEN].offset;
    let outer = pairs.len().saturating_sub(1) as u32;
    world.set_thread_word(offset, u64::from(outer) * OPEN_CALL_BYTES);
    world.set_thread_word(offset + 16, 0);
    for (at, (stack, ticks)) in (0..outer).map(|number| 3 + 2 * number).chain([1]).zip(pairs) {
        world.set_thread_word(offset + 8 * at, *ticks);
        world.set_thread_word(offset + 8 * at + 8, !stack);
    }
}

#[test]
fn elapsed_is_the_time_since_the_entry() {
    for mut world in [World::new(), World::far()] {
        let (unit, entry, exit) = timing(&world);
        let state = busy_state();
        run(&mut world, &entry, &state);
        let (stack, ticks) = open_calls(&world, &unit)[0];
        assert_eq!(stack, world.stack_pointer());
        // Had it been entered a good while ago, at least that time has passed.
        put_open_calls(&mut world, &unit, &[(stack, ticks - 1_000_000)]);
        run(&mut world, &exit, &state);
        let time = world.thread_word(unit.variables[TIME].offset);
        assert!(time > 1_000_000 && (time as i64) > 0, "{time}");
        let again = world.thread_word(unit.variables[TIME + 1].offset);
        assert_eq!(time, again, "all elapsed times of a run end at once");
        assert_eq!(open_calls(&world, &unit), []);
        assert_eq!(world.thread_word(thread_word::ELAPSED_UNKNOWN), 0);
        assert_eq!(world.thread_word(thread_word::BUSY), 0);
    }
}

/// The calls that are left are those that began below the stack pointer, or right there if this is no exit of it.
#[test]
fn calls_that_were_left_are_dropped_one_by_one() {
    for mut world in [World::new(), World::far()] {
        let here = world.stack_pointer();
        let body = |at_exit| Statement::While {
            condition: Expression::CallWasLeft { variable: OPEN, at_exit },
            bound: OPEN_CALLS_MAX,
            body: vec![
                Statement::DropCall { variable: OPEN },
                set(TIME, binary(Binary::Add, Expression::Variable { variable: TIME }, int(1))),
            ],
        };
        let bodies = vec![(When::Entry, vec![body(false)]), (When::Exit, vec![body(true)])];
        let (unit, codes) = codes(&world, &CALLS, bodies);
        let all: Vec<u64> = vec![here + 64, here + 8, here, here - 8, here - 64];
        for (code, kept) in codes.iter().zip([2, 3]) {
            for depth in 0..=all.len() {
                world.reset();
                let pairs: Vec<(u64, u64)> = all[..depth].iter().map(|place| (*place, 7)).collect();
                put_open_calls(&mut world, &unit, &pairs);
                run(&mut world, code, &busy_state());
                assert_eq!(open_calls(&world, &unit), pairs[..depth.min(kept)], "{depth} of them, {}", shown(code));
                let dropped = world.thread_word(unit.variables[TIME].offset);
                assert_eq!(dropped, depth.saturating_sub(kept) as u64);
            }
        }
    }
}

#[test]
fn bodies_at_one_point_run_one_after_the_other() {
    let mut world = World::new();
    let mut unit = unit(&CALLS);
    let elapsed = || Expression::Elapsed { variable: OPEN };
    let later = Expression::Temporary { temporary: 1, float: false };
    unit.bodies = vec![
        body(When::Entry, vec![Statement::OpenCall { variable: OPEN }]),
        body(
            When::Exit,
            vec![
                Statement::Let { temporary: 1, value: elapsed() },
                set(TIME, Expression::Temporary { temporary: 1, float: false }),
                Statement::Return,
                set(TIME, int(5)),
            ],
        ),
        body(When::Exit, vec![set(TIME + 1, binary(Binary::Add, elapsed(), later))]),
        body(When::Exit, vec![Statement::CloseCall { variable: OPEN }]),
    ];
    let environment = world.environment(When::Exit);
    let exits: Vec<&Body> = unit.bodies[1..].iter().collect();
    let exit = compile_together(&unit, &exits, &environment).expect("they fit together");
    let every: Vec<&Body> = unit.bodies.iter().collect();
    let refused = compile_together(&unit, &every, &environment);
    assert_eq!(refused, Err(EmitError::NotTogether { count: 4 }));
    assert_eq!(compile_together(&unit, &[], &environment), Err(EmitError::NotTogether { count: 0 }));
    let entry = world.compile(&unit, &unit.bodies[0]);
    let state = busy_state();
    run(&mut world, &entry, &state);
    run(&mut world, &exit, &state);
    let time = world.thread_word(unit.variables[TIME].offset);
    assert!(time > 5, "a return leaves one body only: {time}");
    assert_eq!(world.thread_word(unit.variables[TIME + 1].offset), time, "temporaries are each body's own");
    assert_eq!(open_calls(&world, &unit), []);
}

/// Times go into histograms by another routine, with an instruction for each bucket.
#[test]
fn times_fall_into_their_buckets() {
    let mut world = World::new();
    let kinds = [(THREAD, Kind::OpenCalls), (THREAD, Kind::Histogram), (THREAD, Kind::Histogram)];
    let nothing = binary(Binary::Multiply, Expression::Elapsed { variable: OPEN }, int(0));
    let value = || register(Register::Rbx);
    let statements = vec![fold(1, binary(Binary::Add, nothing, value())), fold(2, value())];
    let (unit, codes) = codes(&world, &kinds, vec![(When::Exit, statements)]);
    let mut state = busy_state();
    let values = (0..64).flat_map(|bit| [1i64 << bit, (1i64 << bit).wrapping_sub(1)]);
    for value in values.chain([0, -1, i64::MIN, i64::MAX]) {
        state.general[Register::Rbx as usize] = value as u64;
        run(&mut world, &codes[0], &state);
    }
    let words = |variable: usize| {
        let offset = unit.variables[variable].offset;
        (0..HISTOGRAM_WORDS).map(|word| world.thread_word(offset + 8 * word)).collect::<Vec<_>>()
    };
    assert_eq!(words(1), words(2));
    assert!(words(1)[..64].iter().all(|&count| count >= 2), "every bucket was hit: {:?}", words(1));
}

#[test]
fn elapsed_is_read_late_where_it_is_rare() {
    let mut world = World::new();
    let elapsed = || Expression::Elapsed { variable: OPEN };
    let guarded = when(register(Register::Rax), vec![set(TIME, elapsed()), set(TIME + 1, elapsed())]);
    let statements = vec![guarded, Statement::CloseCall { variable: OPEN }];
    let bodies = vec![(When::Entry, vec![Statement::OpenCall { variable: OPEN }]), (When::Exit, statements)];
    let (unit, codes) = codes(&world, &CALLS, bodies);
    let mut state = busy_state();
    for (value, known) in [(0, false), (1, true)] {
        state.general[0] = value;
        run(&mut world, &codes[0], &state);
        run(&mut world, &codes[1], &state);
        let time = world.thread_word(unit.variables[TIME].offset);
        assert_eq!(time != 0, known);
        assert_eq!(time, world.thread_word(unit.variables[TIME + 1].offset));
        assert_eq!(open_calls(&world, &unit), []);
    }
}

#[test]
fn calls_left_by_longjmp_are_dropped() {
    let mut world = World::new();
    let (unit, entry, exit) = timing(&world);
    let state = busy_state();
    let here = world.stack_pointer();
    let caller = (here + 64, 7);
    run(&mut world, &entry, &state);
    put_open_calls(&mut world, &unit, &[caller, (here, 5), (here - 32, 6), (here - 96, 6)]);
    run(&mut world, &entry, &state);
    let open = open_calls(&world, &unit);
    assert_eq!((open.len(), open[0], open[1].0), (2, caller, here), "{open:?}");
    assert!(open[1].1 > 6, "the time of this entry");
    put_open_calls(&mut world, &unit, &[caller, open[1], (here - 32, 6), (here - 96, 6)]);
    run(&mut world, &exit, &state);
    assert_eq!(open_calls(&world, &unit), [caller]);
    assert_eq!(world.thread_word(thread_word::ELAPSED_UNKNOWN), 0);
    // A second exit has no entry.
    run(&mut world, &exit, &state);
    assert_eq!(world.thread_word(unit.variables[TIME].offset), u64::MAX);
    assert_eq!(open_calls(&world, &unit), [caller]);
    assert_eq!(world.thread_word(thread_word::ELAPSED_UNKNOWN), 2, "once for each use");
}

#[test]
fn calls_that_are_too_deep_have_no_time() {
    let mut world = World::new();
    let (unit, entry, exit) = timing(&world);
    let state = busy_state();
    let here = world.stack_pointer();
    run(&mut world, &entry, &state);
    let full: Vec<(u64, u64)> =
        (0..u64::from(OPEN_CALLS_MAX)).map(|number| (here + 4096 - 16 * number, number)).collect();
    put_open_calls(&mut world, &unit, &full);
    run(&mut world, &entry, &state);
    assert_eq!(open_calls(&world, &unit), full);
    run(&mut world, &exit, &state);
    assert_eq!(world.thread_word(unit.variables[TIME].offset), u64::MAX);
    assert_eq!(open_calls(&world, &unit), full);
    // A counter that went backwards gives no time.
    put_open_calls(&mut world, &unit, &[(here, u64::MAX / 2)]);
    run(&mut world, &exit, &state);
    assert_eq!(world.thread_word(unit.variables[TIME].offset), 0);
}

/// The hash that the table should count under.
fn stack_hash(addresses: &[u64]) -> u64 {
    let hash = addresses.iter().fold(0u64, |hash, address| {
        let mixed = (hash ^ address).wrapping_mul(STACK_HASH_MULTIPLIER);
        mixed ^ mixed >> 32
    });
    hash.max(1)
}

#[test]
fn stacks_are_counted_by_frame_pointers() {
    let mut world = World::new();
    let data = world.base + DATA;
    for (when, depth, expected) in [
        (When::Entry, 8, vec![0xaaaa, 0x1111, 0x2222, 0x3333]),
        (When::At, 8, vec![0x1111, 0x2222, 0x3333]),
        (When::At, 2, vec![0x1111, 0x2222]),
        (When::At, 0, vec![]),
    ] {
        world.reset();
        let bodies = vec![(when, vec![Statement::CountStack { variable: 0, depth }])];
        let (unit, codes) = codes(&world, &[(THREAD, Kind::Stacks)], bodies);
        for (place, value) in [(0, data + 32), (8, 0x1111), (32, data + 64), (40, 0x2222), (64, 0), (72, 0x3333)] {
            world.write_word(data + place, value);
        }
        let mut state = busy_state();
        state.general[Register::Rbp as usize] = data;
        let return_address = [0xaa, 0xaa, 0, 0, 0, 0, 0, 0];
        let counted = |world: &World, hash: u64| {
            let offset = unit.variables[0].offset;
            let pairs = (0..64).map(|pair| offset + 16 * pair);
            let found = pairs.filter(|at| world.thread_word(*at) == hash).map(|at| world.thread_word(at + 8));
            found.sum::<u64>()
        };
        for runs in 1..3 {
            world.return_address = return_address;
            run(&mut world, &codes[0], &state);
            assert_eq!(counted(&world, stack_hash(&expected)), runs, "{when:?} {depth}");
        }
        assert_eq!(world.thread_word(thread_word::UNREADABLE), 0, "a stack's end is no refused load");
    }
}

#[test]
fn a_full_table_of_stacks_counts_the_rest_together() {
    let mut world = World::new();
    let bodies = vec![(When::Entry, vec![Statement::CountStack { variable: 0, depth: 1 }])];
    let (unit, codes) = codes(&world, &[(THREAD, Kind::Stacks), (THREAD, Kind::Last)], bodies);
    let mut state = busy_state();
    state.general[Register::Rbp as usize] = 1;
    for stack in 0..100u64 {
        world.return_address = (stack + 1).to_le_bytes();
        run(&mut world, &codes[0], &state);
    }
    let offset = unit.variables[0].offset;
    let counts: Vec<u64> = (0..64).map(|pair| world.thread_word(offset + 16 * pair + 8)).collect();
    assert_eq!(counts, [1; 64]);
    assert_eq!(world.thread_word(offset + 16 * 64), 0);
    assert_eq!(world.thread_word(offset + 16 * 64 + 8), 36);
    assert_eq!(world.thread_word(unit.variables[1].offset), 0, "what follows the table is untouched");
}

#[test]
fn texts_are_compared() {
    let mut world = World::new();
    let data = world.base + DATA;
    for (text, equal) in
        [(&b"residual\0"[..], 1), (b"residual2\0", 0), (b"residua\0", 0), (b"\0", 0), (b"Residual\0", 0)]
    {
        for (address, refused) in [(data, 0), (data + 0x400 - text.len() as u64, 0), (data + 0x400 - 3, 1)] {
            world.reset();
            let readable = &text[..text.len().min((data + 0x400 - address) as usize)];
            world.write(address, readable);
            let value = Expression::TextEquals { address: Box::new(int(address as i64)), text: 1 };
            let (unit, codes) = codes(&world, &[(THREAD, Kind::Last)], vec![(When::Entry, vec![set(0, value)])]);
            run(&mut world, &codes[0], &busy_state());
            let whole = readable.len() == text.len();
            assert_eq!(world.thread_word(unit.variables[0].offset), if whole { equal } else { 0 });
            let cut_while_equal = !whole && b"residual\0".starts_with(readable);
            assert_eq!(world.thread_word(thread_word::UNREADABLE), u64::from(refused == 1 && cut_while_equal));
        }
    }
}

/// The calls of [`sum_of_six`]: arguments, alignment of the stack, flags.
static CALLED: std::sync::Mutex<Vec<[u64; 6]>> = std::sync::Mutex::new(Vec::new());

/// A function of the target that uses floats and remembers its arguments.
extern "C" fn remember(one: u64, two: u64, three: u64, four: u64, five: u64, six: u64) -> u64 {
    let square = (one as f64).sqrt() * (two as f64).sqrt();
    let mut called = CALLED.lock().expect("nobody panics with it");
    called.push([one, two, three, four, five, six]);
    square as u64
}

#[test]
fn a_function_is_called_and_everything_kept() {
    let mut world = World::new();
    let arguments = vec![
        int(1),
        register(Register::Rdi),
        register(Register::Rcx),
        binary(Binary::Add, register(Register::R8), register(Register::Rax)),
        register(Register::R11),
        int(-1),
    ];
    let mut unit = unit(&[(THREAD, Kind::Sum)]);
    let call = Statement::Call { address: ProcAddr(remember as *const () as u64), arguments };
    unit.bodies.push(body(When::At, vec![call, add(0, int(1))]));
    let refused = compile(&unit, &unit.bodies[0], &world.environment(When::At));
    assert_eq!(refused, Err(EmitError::NoVectorSave));
    let mut environment = world.environment(When::At);
    environment.vector_save = Some(vector_save());
    let code = compile(&unit, &unit.bodies[0], &environment).expect("the body compiles");
    let mut state = busy_state();
    // Direction flag set: the function must not see it, the program must find it again.
    state.flags = 0x202 | 0x400 | 0x8d5;
    let after = world.run(&code, &state);
    state.general[4] = world.stack_pointer();
    assert_eq!(after, state, "{}", shown(&code));
    let general = |register: Register| state.general[register as usize];
    let sum = general(Register::R8).wrapping_add(general(Register::Rax));
    let expected = [1, general(Register::Rdi), general(Register::Rcx), sum, general(Register::R11), u64::MAX];
    assert_eq!(*CALLED.lock().expect("nobody panics with it"), [expected]);
    assert_eq!(world.thread_word(unit.variables[0].offset), 1);
    // Without room on the stack the call is skipped.
    world.set_process_word(process_word::RANGE_COUNT, 1);
    let after = world.run(&code, &state);
    assert_eq!(after, state);
    assert_eq!(CALLED.lock().expect("nobody panics with it").len(), 1);
    assert_eq!(world.thread_word(thread_word::UNREADABLE), 1);
}

/// Everything this processor can save.
fn vector_save() -> VectorSave {
    let leaf = std::arch::x86_64::__cpuid_count(0xd, 0);
    // Protection keys and tiles are not vector state.
    let mask = (u64::from(leaf.edx) << 32 | u64::from(leaf.eax)) & 0xe7;
    VectorSave { mask, bytes: leaf.ecx }
}

#[test]
fn clocks_and_processors_are_read() {
    let mut world = World::new();
    let kinds = [(THREAD, Kind::Last), (THREAD, Kind::Last)];
    let statements = vec![set(0, Expression::Now), set(1, Expression::Processor)];
    let (unit, codes) = codes(&world, &kinds, vec![(When::At, statements)]);
    let mut before = 0;
    for _ in 0..3 {
        run(&mut world, &codes[0], &busy_state());
        let now = world.thread_word(unit.variables[0].offset);
        assert!(now > before, "time goes on");
        before = now;
        // SAFETY: asks how many processors are configured.
        let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) } as u64;
        assert!(world.thread_word(unit.variables[1].offset) < processors);
    }
}

#[test]
fn closed_gates_and_states_stop_everything() {
    let mut world = World::new();
    let mut unit = unit(&[(THREAD, Kind::Sum)]);
    unit.bodies.push(body(When::At, vec![add(0, int(1))]));
    let count = |world: &World| world.thread_word(unit.variables[0].offset);
    let codes = [Runs::WhileRecording, Runs::UntilStopped].map(|runs| {
        let mut environment = world.environment(When::At);
        environment.runs = runs;
        compile(&unit, &unit.bodies[0], &environment).expect("the body compiles")
    });
    for (gate, recording, stopped, expected) in
        [(1, 1, 0, [1, 1]), (0, 1, 0, [0, 0]), (1, 0, 0, [0, 1]), (1, 1, 1, [1, 0]), (1, 0, 1, [0, 0])]
    {
        for (code, expected) in codes.iter().zip(expected) {
            world.reset();
            world.write_word(world.base + GATE, gate);
            world.set_process_word(process_word::RECORDING, recording);
            world.set_process_word(process_word::STOPPED, stopped);
            run(&mut world, code, &busy_state());
            assert_eq!(count(&world), expected, "gate {gate}, recording {recording}, stopped {stopped}");
        }
    }
}

#[test]
fn a_busy_thread_skips_and_a_stale_mark_is_taken_over() {
    let mut world = World::new();
    let kinds = [(THREAD, Kind::Last), (THREAD, Kind::Sum)];
    let bodies = vec![(When::Entry, vec![set(0, int(9))]), (When::Entry, vec![add(1, int(1))])];
    let (unit, codes) = codes(&world, &kinds, bodies);
    let state = busy_state();
    run(&mut world, &codes[1], &state);
    world.set_thread_word(thread_word::BUSY, world.stack_pointer() + 4096);
    run(&mut world, &codes[0], &state);
    assert_eq!(world.thread_word(unit.variables[0].offset), 0, "a body runs further up the stack");
    assert_eq!(world.thread_word(thread_word::SKIPPED), 1);
    run(&mut world, &codes[1], &state);
    assert_eq!(world.thread_word(unit.variables[1].offset), 2, "what is only added to needs no mark");
    world.set_thread_word(thread_word::BUSY, world.stack_pointer() - 4096);
    run(&mut world, &codes[0], &state);
    assert_eq!(world.thread_word(unit.variables[0].offset), 9, "that body's stack is gone");
    assert_eq!(world.thread_word(thread_word::SKIPPED), 1);
    assert_eq!(world.thread_word(thread_word::BUSY), 0);
}

#[test]
fn what_contradicts_itself_is_refused() {
    let world = World::new();
    let kinds = [(THREAD, Kind::Sum), (Area::Process, Kind::Histogram)];
    let mut unit = unit(&kinds);
    let mut refused = |when: When, statement: Statement| {
        unit.bodies = vec![body(when, vec![statement])];
        compile(&unit, &unit.bodies[0], &world.environment(when)).expect_err("the body is refused")
    };
    assert_eq!(refused(When::Entry, Statement::Break), EmitError::BreakOutsideLoop);
    assert_eq!(refused(When::Entry, add(7, int(1))), EmitError::UnknownVariable { variable: 7 });
    assert_eq!(refused(When::Once, add(0, register(Register::Rdi))), EmitError::NoRegisters);
    assert_eq!(
        refused(When::At, add(0, unary(Unary::ToInt, Expression::Vector(17)))),
        EmitError::VectorRegister { number: 17 }
    );
    assert!(matches!(refused(When::At, fold(1, int(1))), EmitError::Kind { variable: 1, .. }));
    assert!(matches!(refused(When::At, add(0, Expression::Float(1.0))), EmitError::Kind { variable: 0, .. }));
    let rsp = Statement::SetRegister { register: Register::Rsp, value: int(0) };
    assert_eq!(refused(When::At, rsp), EmitError::FixedRegister { register: Register::Rsp });
    let mixed = binary(Binary::Add, int(1), Expression::Float(1.0));
    assert!(matches!(refused(When::At, add(0, mixed)), EmitError::Mixed { .. }));
    let send = Statement::Send { text: 9, values: Vec::new() };
    assert_eq!(refused(When::At, send), EmitError::UnknownText { text: 9 });
    let values = vec![Sent::Int(int(1)); 29];
    assert!(matches!(
        refused(When::At, Statement::Send { text: 0, values }),
        EmitError::MessageValues { count: 29, .. }
    ));
    let many = Statement::Let { temporary: 300, value: int(1) };
    assert!(matches!(refused(When::At, many), EmitError::FrameTooLarge { .. }));
    let mut environment = world.environment(When::At);
    environment.gate = ProcAddr(1);
    unit.bodies = vec![body(When::At, vec![add(0, int(1))])];
    assert!(matches!(
        compile(&unit, &unit.bodies[0], &environment),
        Err(EmitError::OutOfReach { to: ProcAddr(1), .. })
    ));
}

#[test]
fn listings_show_where_the_program_enters() {
    let world = World::new();
    let value = Expression::TextEquals { address: Box::new(register(Register::Rdi)), text: 1 };
    let (_, codes) = codes(&world, &[(THREAD, Kind::Last)], vec![(When::Entry, vec![set(0, value)])]);
    let listing = shown(&codes[0]);
    assert!(listing.contains("db residual\\x00") || listing.contains("db residual"), "{listing}");
    let after_entry = listing.split_once("entry:\n").expect("the entry is shown").1;
    assert!(after_entry.lines().next().expect("code follows").contains("cmp dword ptr"), "{listing}");
    assert!(!listing.contains("(bad)"), "{listing}");
    assert!(codes[0].instructions_max > 100, "the text's loop is counted");
}
