//! The code that holds threads where a function returns, run on this processor: who waits, for how long, and that every
//! register and the flags are as before.
//!
//! Next: `src/gather.rs`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[expect(dead_code, reason = "probes and calls are for other tests that use it")]
#[path = "execution/arena.rs"]
mod arena;

use arena::{Arena, INPUTS};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};
use trimtab_types::ProcAddr;
use trimtab_x86::{
    GATHER_BYTES_MAX, GATHER_GAVE_UP, GATHER_GO, GATHER_HELD, GATHER_MAY_SLEEP, GATHER_RANGES_MAX, GATHER_TICKS,
};
use trimtab_x86::{Gather, ProbePlace};

/// The word on top of the arena's stack when the code is entered: its return address.
const RETURNS_TO: u64 = 0xa2a3_a0a1_a6a7_a4a5;
/// More ticks than a test takes, and few.
const LONG: u64 = 1 << 40;
const SHORT: u64 = 3_000_000;

struct Words([AtomicU64; 6]);

impl Words {
    fn new(ticks: u64, may_sleep: bool) -> Words {
        let words = Words(Default::default());
        words.at(GATHER_TICKS).store(ticks, Release);
        words.at(GATHER_MAY_SLEEP).store(u64::from(may_sleep), Release);
        words
    }

    fn at(&self, offset: u8) -> &AtomicU64 {
        &self.0[usize::from(offset) / 8]
    }

    fn held(&self) -> u64 {
        self.at(GATHER_HELD).load(Acquire)
    }

    fn come(&self) -> u64 {
        self.at(0).load(Acquire)
    }
}

/// The processor's clock.
fn ticks() -> u64 {
    // SAFETY: reading the time stamp counter touches nothing.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Runs the code as a returning function would meet it.
fn passes(arena: &mut Arena, words: &Words, is_open: bool, passes: &[(u64, u64)]) {
    // Memory that was never written is zero, and data is not.
    let gate = if is_open { arena.data() } else { arena.island().0 };
    let gather = Gather {
        gate: ProcAddr(gate),
        words: ProcAddr(words.0.as_ptr() as u64),
        passes: passes.iter().map(|(start, end)| ProcAddr(*start)..ProcAddr(*end)).collect(),
    };
    let code = gather.written(ProbePlace { at: arena.original(), room_before: 0 }).expect("the gate is near");
    assert!(code.bytes.len() <= GATHER_BYTES_MAX, "{} bytes", code.bytes.len());
    arena.write_original(&code.bytes);
    let inputs: Vec<u64> = (1..=INPUTS as u64).map(|at| at * 0x0101_0101_0101).collect();
    let outcome = arena.run(arena.original(), &inputs);
    let mut plain = Arena::new();
    plain.write_original(&[0x90]);
    let expected = plain.run(plain.original(), &inputs);
    assert_eq!(outcome.exit, 0, "it falls through");
    assert_eq!(outcome.registers[..INPUTS], expected.registers[..INPUTS], "flags too");
}

#[test]
fn whoever_returns_to_the_program_waits_until_all_may_go() {
    for may_sleep in [true, false] {
        let (mut arena, words) = (Arena::new(), Words::new(LONG, may_sleep));
        std::thread::scope(|scope| {
            let waited = scope.spawn(|| {
                while words.come() == 0 {
                    std::thread::yield_now();
                }
                let came = ticks();
                std::thread::sleep(Duration::from_millis(20));
                let so_far = words.held().wrapping_add(ticks());
                let go = ticks();
                words.at(GATHER_GO).store(1, Release);
                (so_far, go - came)
            });
            let (begun, begun_ticks) = (Instant::now(), ticks());
            passes(&mut arena, &words, true, &[]);
            let all = ticks() - begun_ticks;
            assert!(begun.elapsed() >= Duration::from_millis(20), "it has waited");
            let (so_far, seen) = waited.join().expect("no panic");
            assert!((seen / 2..=all).contains(&so_far), "{so_far} of {all} ticks so far, {seen} seen");
            assert!((seen..=all).contains(&words.held()), "{} of {all} ticks, {seen} seen", words.held());
        });
        assert_eq!((words.come(), words.at(GATHER_GAVE_UP).load(Acquire)), (1, 0));
    }
}

#[test]
fn nobody_waits_for_ever() {
    for may_sleep in [true, false] {
        let (mut arena, words) = (Arena::new(), Words::new(SHORT, may_sleep));
        passes(&mut arena, &words, true, &[]);
        assert_eq!((words.come(), words.at(GATHER_GAVE_UP).load(Acquire)), (1, 1));
        assert!((SHORT..LONG).contains(&words.held()), "{} ticks", words.held());
    }
}

#[test]
fn bindings_and_closed_gates_let_pass() {
    let end = RETURNS_TO + 1;
    let many = [vec![(0, 1); GATHER_RANGES_MAX - 1], vec![(RETURNS_TO, end)]].concat();
    for (name, is_open, ranges, come) in [
        ("closed", false, vec![], 0),
        ("first byte", true, vec![(RETURNS_TO, end)], 0),
        ("last byte", true, vec![(RETURNS_TO - 100, end)], 0),
        ("the last of many", true, many, 0),
        ("right behind", true, vec![(RETURNS_TO - 100, RETURNS_TO)], 1),
        ("right before", true, vec![(end, end + 100)], 1),
    ] {
        let (mut arena, words) = (Arena::new(), Words::new(SHORT, false));
        passes(&mut arena, &words, is_open, &ranges);
        assert_eq!(words.come(), come, "{name}");
        assert_eq!(words.held() > 0, come > 0, "{name}");
    }
}
