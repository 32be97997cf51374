//! A signal handler runs bodies between any two instructions of a body: the processor single-steps through the outer
//! one, and the handler of every step on its stack calls another.
//!
//! Next: `world`, whose trampoline ends the stepping.

use crate::script::*;
use crate::world::{State, World};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use trimtab_snippet::ir::*;

/// The trap flag: a SIGTRAP after every instruction.
const TRAP: u64 = 0x100;

/// One test at a time steps.
pub static STEPPING: Mutex<()> = Mutex::new(());
static STEPS: AtomicU64 = AtomicU64::new(0);
/// Where the stack pointer is while the body runs.
static STACK: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static CALLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn step(_: libc::c_int, _: *const libc::siginfo_t, context: *const libc::ucontext_t) {
    // SAFETY: the kernel passes the interrupted context.
    let stack = unsafe { (*context).uc_mcontext.gregs[libc::REG_RSP as usize] } as u64;
    if !(STACK[0].load(Ordering::Relaxed)..STACK[1].load(Ordering::Relaxed)).contains(&stack) {
        // Still or again in the trampoline, on another stack.
        return;
    }
    STEPS.fetch_add(1, Ordering::Relaxed);
    let address = CALLED.load(Ordering::Relaxed);
    // SAFETY: the test put the address of a function of its world there, which keeps all registers.
    let call: extern "C" fn() = unsafe { std::mem::transmute::<*const (), extern "C" fn()>(address as *const ()) };
    call();
}

/// Runs code once while every instruction is followed by a call of `other`; how often it was called.
pub fn run_interrupted(world: &mut World, code: &trimtab_snippet::emit::Code, other: usize) -> u64 {
    let mut action: libc::sigaction = libc::sigaction {
        sa_sigaction: step as *const () as usize,
        sa_flags: libc::SA_SIGINFO,
        // SAFETY: all zeros is the empty set.
        sa_mask: unsafe { std::mem::zeroed() },
        sa_restorer: None,
    };
    // SAFETY: installs a handler that calls nothing but the functions under test, and keeps the previous one.
    unsafe { libc::sigaction(libc::SIGTRAP, &action.clone(), &mut action) };
    STEPS.store(0, Ordering::Relaxed);
    STACK[0].store(world.stack_pointer() - 4096, Ordering::Relaxed);
    STACK[1].store(world.stack_pointer() + 1, Ordering::Relaxed);
    CALLED.store(other, Ordering::Relaxed);
    let mut state = State::zero();
    state.flags |= TRAP;
    for (number, value) in state.general.iter_mut().enumerate() {
        *value = 77 * number as u64;
    }
    let after = world.run(code, &state);
    // SAFETY: puts the previous action back.
    unsafe { libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()) };
    state.general[4] = world.stack_pointer();
    state.flags = after.flags;
    assert_eq!(after, state);
    STEPS.load(Ordering::Relaxed)
}

#[test]
fn additions_survive_every_interruption() {
    let _alone = STEPPING.lock().expect("nobody panics with it");
    let mut world = World::new();
    let mut unit = unit(&[(Area::Thread, Kind::Sum), (Area::Process, Kind::Sum)]);
    unit.bodies.push(body(When::At, vec![add(0, int(1)), add(1, int(1))]));
    let inner = world.compile_at(&unit, &unit.bodies[0], 1);
    let inner = world.function(&inner) as usize;
    let code = world.compile(&unit, &unit.bodies[0]);
    let called = run_interrupted(&mut world, &code, inner);
    assert!(called > 20, "the body was stepped through: {called}");
    assert_eq!(world.thread_word(unit.variables[0].offset), called + 1);
    assert_eq!(world.process_word(unit.variables[1].offset), called + 1);
    assert_eq!(world.thread_word(thread_word::SKIPPED), 0);
}

#[test]
fn histograms_and_open_calls_survive_every_interruption() {
    let _alone = STEPPING.lock().expect("nobody panics with it");
    let mut world = World::new();
    let mut unit =
        unit(&[(Area::Thread, Kind::OpenCalls), (Area::Thread, Kind::Histogram), (Area::Thread, Kind::Last)]);
    let elapsed = || Expression::Elapsed { variable: 0 };
    let close = || Statement::CloseCall { variable: 0 };
    unit.bodies.push(body(When::Entry, vec![Statement::OpenCall { variable: 0 }]));
    unit.bodies.push(body(When::Exit, vec![fold(1, elapsed()), close()]));
    unit.bodies.push(body(When::Exit, vec![set(2, elapsed()), fold(1, int(1)), close()]));
    let entry = world.compile_at(&unit, &unit.bodies[0], 1);
    let exit = world.compile_at(&unit, &unit.bodies[1], 2);
    let (entry, exit) = (world.function(&entry) as usize, world.function(&exit) as usize);
    let inner = world.pair(entry, exit, 3);
    let entry = world.compile(&unit, &unit.bodies[0]);
    let exit = world.compile(&unit, &unit.bodies[2]);
    let mut called = run_interrupted(&mut world, &entry, inner);
    let open = unit.variables[0].offset;
    assert_eq!((world.thread_word(open), world.thread_word(open + 16)), (0, !world.stack_pointer()));
    let unknown = world.thread_word(thread_word::ELAPSED_UNKNOWN);
    assert_eq!(unknown, 0, "entries and exits are skipped together");
    called += run_interrupted(&mut world, &exit, inner);
    assert_eq!((world.thread_word(open), world.thread_word(open + 16)), (0, 0));
    let time = world.thread_word(unit.variables[2].offset) as i64;
    assert!(time > 0, "{time}");
    assert_eq!(world.thread_word(thread_word::ELAPSED_UNKNOWN), 0);
    let count = world.thread_word(unit.variables[1].offset + 8 * HISTOGRAM_BUCKETS);
    let skipped = world.thread_word(thread_word::SKIPPED);
    assert_eq!(count + skipped / 2, called + 1, "each pair either counts or is skipped as a whole");
    assert!(skipped > 20, "the marked part was stepped through: {skipped}");
    assert_eq!(world.thread_word(thread_word::BUSY), 0);
}

#[test]
fn messages_survive_every_interruption() {
    let _alone = STEPPING.lock().expect("nobody panics with it");
    let mut world = World::new();
    let mut unit = unit(&[(Area::Thread, Kind::Mean)]);
    let send = Statement::Send { text: 0, values: vec![Sent::Int(int(5)), Sent::Float(Expression::Float(1.5))] };
    unit.bodies.push(body(When::At, vec![send, fold(0, Expression::Float(0.5))]));
    let inner = world.compile_at(&unit, &unit.bodies[0], 1);
    let inner = world.function(&inner) as usize;
    let code = world.compile(&unit, &unit.bodies[0]);
    let called = run_interrupted(&mut world, &code, inner);
    let ran = called + 1 - world.thread_word(thread_word::SKIPPED);
    let sent = world.process_word(process_word::MESSAGES_HEAD) / 56;
    assert_eq!(sent + world.thread_word(thread_word::MESSAGES_DROPPED), ran);
    for message in 0..sent {
        let word = |index: u64| world.ring_word(56 * message + 8 * index);
        assert_eq!([word(0), word(5), word(6)], [56 * message + 1, 5, 1.5f64.to_bits()]);
    }
    assert_eq!(world.thread_word(unit.variables[0].offset + 8), ran);
    assert_eq!(f64::from_bits(world.thread_word(unit.variables[0].offset)), ran as f64 / 2.0);
}
