//! The code that holds threads which set a fault handler, run on this processor: who is held, what is told, and that every
//! register is as before.
//!
//! Next: `src/hold.rs`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[expect(dead_code, reason = "probes and calls are for other tests that use it")]
#[path = "execution/arena.rs"]
mod arena;

use arena::{Arena, FLAGS_INDEX, INPUTS};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use trimtab_types::ProcAddr;
use trimtab_x86::{HOLD_PLACES, HOLD_SIGNAL_SHIFT, Hold, ProbePlace};

const HANDLER: u64 = 0x7f12_3456_7890;
/// Places of the two arguments among the registers.
const RSI: usize = 4;
const RDI: usize = 5;

/// The words that threads and their monitor share: asked, answered, handlers.
struct Words([AtomicU64; 2 + HOLD_PLACES]);

impl Words {
    fn new() -> Words {
        Words(Default::default())
    }

    fn asked(&self) -> u64 {
        self.0[0].load(Acquire)
    }

    /// Waits for a question and lets its thread go; what it told.
    fn answer_next(&self) -> u64 {
        let answered = self.0[1].load(Relaxed);
        let told = &self.0[2 + answered as usize % HOLD_PLACES];
        loop {
            let value = told.swap(0, Acquire);
            if value != 0 {
                self.0[1].store(answered + 1, Release);
                return value;
            }
            std::thread::yield_now();
        }
    }
}

/// Runs the code as `sigaction(signal, action, ...)` would meet it; all registers but the flags must be as before.
fn passes(arena: &mut Arena, words: &Words, is_open: bool, signal: u64, action: u64) {
    // Memory that was never written is zero, and data is not.
    let gate = if is_open { arena.data() } else { arena.island().0 };
    let hold = Hold { gate: ProcAddr(gate), words: ProcAddr(words.0.as_ptr() as u64) };
    let place = ProbePlace { at: arena.original(), room_before: 0 };
    let code = hold.written(place).expect("the gate is near");
    arena.write_original(&code.bytes);
    let mut inputs: Vec<u64> = (1..=INPUTS as u64).map(|at| at * 0x0101_0101_0101).collect();
    (inputs[RSI], inputs[RDI]) = (action, signal);
    let outcome = arena.run(arena.original(), &inputs);
    assert_eq!(outcome.exit, 0, "it falls through");
    assert_eq!(outcome.registers[..FLAGS_INDEX], inputs[..FLAGS_INDEX], "signal {signal}");
}

#[test]
fn whoever_sets_a_fault_handler_is_held_and_nobody_else() {
    let (mut arena, words) = (Arena::new(), Words::new());
    let action = |handler: u64| Box::new([handler, 0, 0, 0]);
    let (set, usual, ignored) = (action(HANDLER), action(0), action(1));
    let address = |action: &[u64; 4]| action.as_ptr() as u64;
    for (name, is_open, signal, action) in [
        ("asks_only", true, 11, 0),
        ("default", true, 11, address(&usual)),
        ("ignored", true, 11, address(&ignored)),
        ("interrupt", true, 2, address(&set)),
        ("abort", true, 6, address(&set)),
        ("no_signal", true, 0, address(&set)),
        ("profiling", true, 27, address(&set)),
        ("closed", false, 11, address(&set)),
    ] {
        passes(&mut arena, &words, is_open, signal, action);
        assert_eq!(words.asked(), 0, "{name}");
    }
    // More than there are places, one after the other; bits above the signal's 32 mean nothing.
    for (number, signal) in [4, 5, 7, 8, 11, 11 | 1 << 40].into_iter().enumerate() {
        std::thread::scope(|scope| {
            let told = scope.spawn(|| words.answer_next());
            passes(&mut arena, &words, true, signal, address(&set));
            let expected = HANDLER | (signal & 0xff) << HOLD_SIGNAL_SHIFT;
            assert_eq!(told.join().expect("no panic"), expected, "signal {signal}");
        });
        assert_eq!(words.asked(), number as u64 + 1);
    }
}

/// Its monitor may have been killed, or all may have been let go for good.
#[test]
fn nobody_is_held_for_ever() {
    let (mut arena, words) = (Arena::new(), Words::new());
    let set = [HANDLER, 0, 0, 0];
    passes(&mut arena, &words, true, 11, set.as_ptr() as u64);
    words.0[1].store(u64::MAX, Release);
    passes(&mut arena, &words, true, 11, set.as_ptr() as u64);
    assert_eq!(words.asked(), 2);
}
