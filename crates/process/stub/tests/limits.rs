//! Where the routine itself stops counting a function: at so many calls, or at a share of the window's time. The counts
//! until then stay, and calls of other functions count as ever.
//!
//! The routines run in this very program, on a stack of words that stands for the target's.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use trimtab_stub::blob;
use trimtab_stub::layout::{Geometry, Header, Needs, Probe, Saved, USER_GROUP, flag, kind, state, stopped_by};
use trimtab_stub::view::View;

/// Of MPI: with a frame and a record. And a function that a user named, whose islands would count by themselves.
const OF_MPI: u64 = 0;
const SIMPLE: u64 = 1;
const FUNCTIONS: u64 = 2;
/// Places of return addresses.
const OUTER: usize = 300;
const INNER: usize = 200;
/// A share of time in [`FunctionLimit::calls_per_tick`](trimtab_stub::layout::FunctionLimit) that no call keeps to: one in 2^20 ticks.
const ONE_IN_A_MILLION: u64 = 1 << 12;

type Routine = extern "C" fn(*const Header, u64, *const Saved);

struct Target {
    words: Vec<AtomicU64>,
    stack: Vec<u64>,
}

impl Target {
    fn new() -> Target {
        let needs = Needs {
            patches: 1,
            probes: FUNCTIONS,
            functions: FUNCTIONS,
            ranks: 1,
            details: 0,
            code: 0,
            threads: 1,
            areas: None,
            regions: false,
        };
        let geometry = Geometry::for_needs(&needs);
        let words = (0..geometry.data_length / 8).map(|_| AtomicU64::new(0)).collect();
        let target = Target { words, stack: vec![0; 512] };
        let view = target.view();
        view.set_geometry(&geometry);
        view.set_probe(OF_MPI, &Probe { flags: flag::TIMED | flag::RING, ..Probe::ABSENT });
        let simple = flag::TIMED | flag::SIMPLE;
        view.set_probe(
            SIMPLE,
            &Probe { function: 1, group: USER_GROUP, flags: simple, kind: kind::NONE, ..Probe::ABSENT },
        );
        view.header().marker_probe.store(u32::MAX, Relaxed);
        view.header().calibration_begun.store(1, Relaxed);
        view.header().first_ticks.store(ticks(), Relaxed);
        view.header().state.store(state::RECORD, Relaxed);
        target
    }

    fn view(&self) -> View<'_> {
        View::new(&self.words)
    }

    fn pass(&mut self, routine: u64, number: u64, place: usize) {
        let address = blob().bytes.as_ptr() as u64 + routine;
        // SAFETY: the routine of this very program, at its own address.
        let routine = unsafe { std::mem::transmute::<u64, Routine>(address) };
        routine(self.words.as_ptr().cast(), number, self.stack[place - 9..].as_ptr().cast());
    }

    fn call(&mut self, number: u64, times: u64) {
        for _ in 0..times {
            self.pass(blob().enter, number, INNER);
            self.pass(blob().leave, number, INNER);
        }
    }

    fn calls(&self, number: u64) -> u64 {
        self.view().slots().map(|slot| slot.stat(number).calls.load(Relaxed)).sum()
    }

    fn stopped(&self, number: u64) -> (bool, u64) {
        let limit = self.view().limit(number);
        (limit.stopped_ticks.load(Relaxed) != 0, limit.stopped_by.load(Relaxed))
    }
}

fn ticks() -> u64 {
    // SAFETY: reads the time stamp counter; every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[test]
fn so_many_calls_are_counted_and_no_more() {
    for number in [OF_MPI, SIMPLE] {
        let mut target = Target::new();
        target.view().limit(number).calls_max.store(1000, Relaxed);
        target.call(number, 1000);
        assert_eq!((target.calls(number), target.stopped(number).0), (1000, false), "{number}: not yet");
        target.call(number, 500);
        assert_eq!(target.calls(number), 1000, "{number}");
        assert_eq!(target.stopped(number), (true, stopped_by::CALLS), "{number}");
        target.call(OF_MPI + SIMPLE - number, 1500);
        assert_eq!(target.calls(OF_MPI + SIMPLE - number), 1500, "{number}: the other is not stopped");
    }
}

#[test]
fn a_share_of_the_time_is_kept_to() {
    for number in [OF_MPI, SIMPLE] {
        let mut target = Target::new();
        let limit = target.view().limit(number);
        limit.calls_per_tick.store(ONE_IN_A_MILLION, Relaxed);
        // A window counts as so long at least: 600 calls.
        target.view().header().limit_ticks_min.store(600 << 20, Relaxed);
        target.call(number, 10_000);
        assert_eq!(target.stopped(number), (true, stopped_by::COST), "{number}");
        assert!((600..2000).contains(&target.calls(number)), "{number}: {} calls", target.calls(number));
    }
    // Where as many are allowed as there can be, all are counted.
    let mut target = Target::new();
    target.view().limit(OF_MPI).calls_per_tick.store(u64::MAX, Relaxed);
    target.call(OF_MPI, 10_000);
    assert_eq!((target.calls(OF_MPI), target.stopped(OF_MPI).0), (10_000, false));
}

#[test]
fn what_counts_iterations_is_not_stopped() {
    let mut target = Target::new();
    target.view().limit(OF_MPI).calls_max.store(10, Relaxed);
    target.view().header().marker_probe.store(OF_MPI as u32, Relaxed);
    target.call(OF_MPI, 1000);
    assert_eq!((target.calls(OF_MPI), target.stopped(OF_MPI).0), (1000, false));
}

/// A call that is open when its function is stopped ends as any other, and one that was never entered ends nothing: not on a
/// thread either that does nothing else, where it would seem to have lasted since the window began.
#[test]
fn open_calls_end_and_uncounted_ones_have_no_time() {
    let mut target = Target::new();
    target.view().limit(OF_MPI).calls_max.store(1, Relaxed);
    target.pass(blob().enter, OF_MPI, OUTER);
    target.call(OF_MPI, 5);
    assert!(target.stopped(OF_MPI).0);
    target.pass(blob().leave, OF_MPI, OUTER);
    let slot = target.view().slots().next().expect("a slot");
    assert_eq!((slot.slot.depth.load(Relaxed), slot.slot.group_depth[0].load(Relaxed)), (0, 0), "nothing is open");
    let mut target = Target::new();
    target.view().limit(OF_MPI).stopped_ticks.store(1, Relaxed);
    target.call(OF_MPI, 5);
    let slot = target.view().slots().next().expect("a slot");
    assert_eq!((target.calls(OF_MPI), slot.slot.group_ticks[0].load(Relaxed)), (0, 0), "no time of calls not counted");
}

/// While nothing is recorded nothing is stopped.
#[test]
fn only_a_recording_stops() {
    let mut target = Target::new();
    target.view().header().state.store(state::OBSERVE, Relaxed);
    target.view().limit(OF_MPI).calls_max.store(10, Relaxed);
    target.call(OF_MPI, 100);
    assert!(!target.stopped(OF_MPI).0);
}
