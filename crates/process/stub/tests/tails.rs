//! Calls that go on behind jumps: which exit ends which call, and which calls are said to have an end that nobody saw.
//!
//! The routines run in this very program, on a stack of words that stands for the target's: a call is known by the place
//! of its return address.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use trimtab_stub::blob;
use trimtab_stub::layout::{Geometry, Header, NOBODY, Needs, Probe, Saved, USER_GROUP, flag, role, state};
use trimtab_stub::view::View;

/// Functions that are measured.
const FIRST: u64 = 0;
const OTHER: u64 = 1;
/// One that is nothing but a jump to [`PASSED`].
const JUMP: u64 = 2;
/// Functions that are only followed.
const PASSED: u64 = 3;
const LAST: u64 = 4;
/// Jumps.
const FIRST_TO_PASSED: u64 = 5;
const OTHER_TO_PASSED: u64 = 6;
const PASSED_TO_LAST: u64 = 7;
const FIRST_TO_OTHER: u64 = 8;
const OTHER_TO_FIRST: u64 = 9;
const FIRST_AWAY: u64 = 10;
const LAST_AWAY: u64 = 11;

/// Places of return addresses; calls from further inside have lower ones.
const OUTER: usize = 400;
const PLACE: usize = 300;
const INNER: usize = 200;
const SITE: u64 = 0x1000;
const ELSEWHERE: u64 = 0x2000;

fn probes() -> Vec<Probe> {
    let of = |function: u32, role: u8, next: Option<u64>| Probe {
        function,
        group: USER_GROUP,
        flags: if function == NOBODY { 0 } else { flag::TIMED },
        role,
        framed: 1,
        next_plus_one: next.map_or(0, |next| next as u32 + 1),
        ..Probe::ABSENT
    };
    vec![
        of(0, role::FUNCTION, None),
        of(1, role::FUNCTION, None),
        of(2, role::FUNCTION, Some(PASSED)),
        of(NOBODY, role::PASSES, None),
        of(NOBODY, role::PASSES, None),
        of(0, role::HANDS_OVER, Some(PASSED)),
        of(1, role::HANDS_OVER, Some(PASSED)),
        of(NOBODY, role::HANDS_OVER, Some(LAST)),
        of(0, role::HANDS_OVER, Some(OTHER)),
        of(1, role::HANDS_OVER, Some(FIRST)),
        of(0, role::LEAVES, None),
        of(NOBODY, role::LEAVES, None),
    ]
}

/// The target's acts.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Enters a function by a call, with the place and value of its return address.
    Enter(u64, usize, u64),
    /// Passes a probe at an exit or at a jump.
    Leave(u64, usize),
}
use Step::{Enter, Leave};

/// One thread's memory.
struct Target {
    words: Vec<AtomicU64>,
    stack: Vec<u64>,
}

type Routine = extern "C" fn(*const Header, u64, *const Saved);

impl Target {
    fn new() -> Target {
        let probes = probes();
        let needs = Needs {
            patches: 1,
            probes: probes.len() as u64,
            functions: 3,
            ranks: 1,
            details: 0,
            code: 0,
            threads: 1,
            areas: None,
            regions: false,
        };
        let geometry = Geometry::for_needs(&needs);
        let target =
            Target { words: (0..geometry.data_length / 8).map(|_| AtomicU64::new(0)).collect(), stack: vec![0; 512] };
        let view = target.view();
        view.set_geometry(&geometry);
        for (number, probe) in probes.iter().enumerate() {
            view.set_probe(number as u64, probe);
        }
        view.header().marker_probe.store(u32::MAX, Relaxed);
        view.header().first_ticks.store(ticks(), Relaxed);
        view.header().state.store(state::RECORD, Relaxed);
        target
    }

    fn view(&self) -> View<'_> {
        View::new(&self.words)
    }

    fn run(&mut self, step: Step) {
        let blob = blob();
        let (offset, number, place) = match step {
            Enter(number, place, site) => {
                self.stack[place] = site;
                (blob.enter, number, place)
            }
            Leave(number, place) => (blob.leave, number, place),
        };
        let address = blob.bytes.as_ptr() as u64 + offset;
        // SAFETY: the routine of this very program, at its own address.
        let routine = unsafe { std::mem::transmute::<u64, Routine>(address) };
        routine(self.words.as_ptr().cast(), number, self.stack[place - 9..].as_ptr().cast());
    }
}

fn ticks() -> u64 {
    // SAFETY: reads the time stamp counter; every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Calls, nested calls and unseen ends of a function, and which steps its time lies between.
struct Want {
    function: u64,
    counts: (u64, u64, u64),
    spans: &'static [(usize, usize)],
}

/// Waits between steps, so that each interval has its own length, and compares with the times that the steps had.
#[track_caller]
fn check(name: &str, steps: &[Step], wanted: &[Want]) {
    let mut target = Target::new();
    let mut times: Vec<(u64, u64)> = Vec::new();
    for step in steps {
        let before = ticks();
        target.run(*step);
        let after = ticks();
        times.push((before, after));
        while ticks() < after + 50_000 {}
    }
    let view = target.view();
    let slot = view.slots().next().expect("the thread has a slot");
    for Want { function, counts, spans } in wanted {
        let stat = slot.stat(*function);
        let found = (stat.calls.load(Relaxed), stat.nested.load(Relaxed), stat.unseen.load(Relaxed));
        assert_eq!(found, *counts, "{name}: calls, nested calls, unseen ends of {function}");
        let least: u64 = spans.iter().map(|(from, to)| times[*to].0 - times[*from].1).sum();
        let most: u64 = spans.iter().map(|(from, to)| times[*to].1 - times[*from].0).sum();
        let time = stat.ticks.load(Relaxed);
        assert!((least..=most).contains(&time), "{name}: {time} ticks of {function}, not {least} to {most}");
    }
    assert_eq!(slot.slot.depth.load(Relaxed), 0, "{name}: no call is open");
}

const fn want(function: u64, counts: (u64, u64, u64), spans: &'static [(usize, usize)]) -> Want {
    Want { function, counts, spans }
}

#[test]
fn a_call_ends_where_the_last_of_a_chain_returns() {
    let chain = [
        Enter(FIRST, PLACE, SITE),
        Leave(FIRST_TO_PASSED, PLACE),
        Enter(PASSED, PLACE, SITE),
        Leave(PASSED_TO_LAST, PLACE),
        Enter(LAST, PLACE, SITE),
        Leave(LAST, PLACE),
    ];
    check("chain", &chain, &[want(FIRST, (1, 0, 0), &[(0, 5)])]);
    let jump = [Enter(JUMP, PLACE, SITE), Enter(PASSED, PLACE, SITE), Leave(PASSED, PLACE)];
    check("nothing but a jump", &jump, &[want(JUMP, (1, 0, 0), &[(0, 2)])]);
    let measured =
        [Enter(FIRST, PLACE, SITE), Leave(FIRST_TO_OTHER, PLACE), Enter(OTHER, PLACE, SITE), Leave(OTHER, PLACE)];
    let both = [want(FIRST, (1, 0, 0), &[(0, 3)]), want(OTHER, (1, 0, 0), &[(2, 3)])];
    check("both are measured", &measured, &both);
}

#[test]
fn a_shared_function_ends_only_calls_that_came_by_a_jump() {
    let steps = [
        Enter(FIRST, OUTER, SITE),
        // Called by the first function, for its own sake.
        Enter(PASSED, PLACE, ELSEWHERE),
        // Which calls the other one, that goes on in it.
        Enter(OTHER, INNER, SITE),
        Leave(OTHER_TO_PASSED, INNER),
        Enter(PASSED, INNER, SITE),
        Leave(PASSED, INNER),
        Leave(PASSED, PLACE),
        Leave(FIRST_TO_PASSED, OUTER),
        Enter(PASSED, OUTER, SITE),
        Leave(PASSED, OUTER),
    ];
    check("shared", &steps, &[want(FIRST, (1, 0, 0), &[(0, 9)]), want(OTHER, (1, 0, 0), &[(2, 5)])]);
}

/// The same place and the same call instruction, as a loop over function pointers has them.
#[test]
fn a_call_that_an_exception_left_is_not_ended_by_a_later_one() {
    let steps = [
        Enter(JUMP, PLACE, SITE),
        Enter(PASSED, PLACE, SITE),
        // An exception leaves it here; then the function is called directly.
        Enter(PASSED, PLACE, SITE),
        Leave(PASSED, PLACE),
    ];
    check("thrown, then called", &steps, &[want(JUMP, (1, 0, 1), &[])]);
    let again = [
        Enter(JUMP, PLACE, SITE),
        Enter(PASSED, PLACE, SITE),
        Enter(JUMP, PLACE, SITE),
        Enter(PASSED, PLACE, SITE),
        Leave(PASSED, PLACE),
    ];
    check("thrown, then again", &again, &[want(JUMP, (2, 0, 1), &[(2, 4)])]);
    let further_out =
        [Enter(JUMP, PLACE, SITE), Enter(PASSED, PLACE, SITE), Enter(OTHER, OUTER, SITE), Leave(OTHER, OUTER)];
    check("thrown further out", &further_out, &[want(JUMP, (1, 0, 1), &[]), want(OTHER, (1, 0, 0), &[(2, 3)])]);
    let left_by_exit =
        [Enter(OTHER, OUTER, SITE), Enter(JUMP, PLACE, SITE), Enter(PASSED, PLACE, SITE), Leave(OTHER, OUTER)];
    check("caught by the caller", &left_by_exit, &[want(JUMP, (1, 0, 1), &[]), want(OTHER, (1, 0, 0), &[(0, 3)])]);
}

/// A jump through a slot may lead to another function than the one that was expected.
#[test]
fn a_call_that_does_not_arrive_has_no_end() {
    let steps = [
        Enter(FIRST, PLACE, SITE),
        Leave(FIRST_TO_PASSED, PLACE),
        // It went elsewhere and returned; the next call comes from another place.
        Enter(PASSED, PLACE, ELSEWHERE),
        Leave(PASSED, PLACE),
    ];
    check("elsewhere", &steps, &[want(FIRST, (1, 0, 1), &[])]);
}

#[test]
fn calls_that_go_round_by_jumps_are_one() {
    let steps = [
        Enter(FIRST, PLACE, SITE),
        Leave(FIRST_TO_OTHER, PLACE),
        Enter(OTHER, PLACE, SITE),
        Leave(OTHER_TO_FIRST, PLACE),
        Enter(FIRST, PLACE, SITE),
        Leave(FIRST_TO_OTHER, PLACE),
        Enter(OTHER, PLACE, SITE),
        Leave(OTHER_TO_FIRST, PLACE),
        Enter(FIRST, PLACE, SITE),
        Leave(FIRST, PLACE),
    ];
    check("round", &steps, &[want(FIRST, (1, 2, 0), &[(0, 9)]), want(OTHER, (1, 1, 0), &[(2, 9)])]);
}

#[test]
fn what_is_not_followed_is_said_to_have_no_end() {
    let away = [Enter(FIRST, PLACE, SITE), Leave(FIRST_AWAY, PLACE)];
    check("away", &away, &[want(FIRST, (1, 0, 1), &[(0, 1)])]);
    let later = [
        Enter(FIRST, PLACE, SITE),
        Leave(FIRST_TO_PASSED, PLACE),
        Enter(PASSED, PLACE, SITE),
        Leave(PASSED_TO_LAST, PLACE),
        Enter(LAST, PLACE, SITE),
        Leave(LAST_AWAY, PLACE),
    ];
    check("away at the end of a chain", &later, &[want(FIRST, (1, 0, 1), &[(0, 5)])]);
}

/// The thread was inside when the probes went in.
#[test]
fn what_was_not_entered_ends_nothing_and_is_said() {
    let mut target = Target::new();
    let orphans = |target: &Target| target.view().slots().next().expect("a slot").slot.orphans.load(Relaxed);
    target.run(Leave(LAST, PLACE));
    assert_eq!(orphans(&target), 2 + LAST, "left where calls of several go on");
    target.run(Enter(FIRST, PLACE, SITE));
    target.run(Leave(FIRST, PLACE));
    assert_eq!(orphans(&target), 2 + LAST);
    // Here the thread came in by an entry.
    let mut other = Target::new();
    other.run(Enter(PASSED, PLACE, SITE));
    other.run(Leave(PASSED, PLACE));
    assert_eq!(orphans(&other), 1);
    // Here it was in the first function, whose jump is seen.
    let mut third = Target::new();
    third.stack[PLACE] = SITE;
    third.run(Leave(FIRST_TO_PASSED, PLACE));
    third.run(Enter(PASSED, PLACE, SITE));
    third.run(Leave(PASSED, PLACE));
    assert_eq!(orphans(&third), 1);
    let first = third.view().header().first_ticks.load(Relaxed);
    let stat = third.view().slots().next().expect("a slot").stat(0);
    let time = stat.ticks.load(Relaxed);
    assert!(stat.unseen.load(Relaxed) == 0 && time > 0 && time <= ticks() - first, "{time}");
}
