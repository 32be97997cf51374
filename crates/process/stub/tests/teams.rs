//! Parallel regions: whose time is work, whose is waiting, and what is said not to be known.
//!
//! The routines run in this very program, on stacks of words that stand for those of the target's threads. Between steps time
//! passes, which the test knows by its own readings of the clock.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use trimtab_stub::blob;
use trimtab_stub::layout::{
    Geometry, Header, Needs, OMP_GROUP, Probe, RegionStat, Saved, Teams, flag, part, role, state,
};
use trimtab_stub::view::View;

const REGION: u64 = 0;
const BODY: u64 = 1;
const BARRIER: u64 = 2;
const LOCK: u64 = 3;
const TASK: u64 = 4;
const OTHER_BODY: u64 = 5;
const MPI: u64 = 6;
const PARTS: [u8; 7] = [part::REGION, part::BODY, part::BARRIER, part::LOCK, part::TASK, part::BODY, part::NONE];

type Routine = extern "C" fn(*const Header, u64, *const Saved);

/// The shared memory of a target.
struct Target {
    words: Vec<AtomicU64>,
}

impl Target {
    fn new() -> Target {
        let functions = PARTS.len() as u64;
        let needs = Needs {
            patches: 1,
            probes: functions,
            functions,
            ranks: 1,
            details: 0,
            code: 0,
            threads: 4,
            areas: None,
            regions: true,
        };
        let geometry = Geometry::for_needs(&needs);
        let target = Target { words: (0..geometry.data_length / 8).map(|_| AtomicU64::new(0)).collect() };
        let view = target.view();
        view.set_geometry(&geometry);
        for (number, part) in PARTS.into_iter().enumerate() {
            let group = if part == part::NONE { 0 } else { OMP_GROUP };
            let function = number as u32;
            let probe = Probe { function, group, flags: flag::TIMED, role: role::FUNCTION, part, ..Probe::ABSENT };
            view.set_probe(number as u64, &probe);
        }
        view.header().marker_probe.store(u32::MAX, Relaxed);
        view.header().first_ticks.store(ticks(), Relaxed);
        view.header().state.store(state::RECORD, Relaxed);
        target
    }

    fn view(&self) -> View<'_> {
        View::new(&self.words)
    }

    fn teams(&self) -> &Teams {
        &self.view().header().teams
    }

    /// The sum of what threads had run of a function.
    fn region(&self, function: u64, word: fn(&RegionStat) -> &AtomicU64) -> u64 {
        let stats = self.view().slots().map(|slot| slot.region(function).expect("regions are measured"));
        stats.map(|stat| word(stat).load(Relaxed)).sum()
    }

    fn unseen(&self) -> u64 {
        self.view().slots().map(|slot| slot.slot.team.unseen.load(Relaxed)).sum()
    }
}

/// A thread of the target, as deep in calls as it is.
struct Thread<'t> {
    target: &'t Target,
    stack: Vec<u64>,
    open: Vec<u64>,
}

impl<'t> Thread<'t> {
    fn of(target: &'t Target) -> Self {
        Thread { target, stack: vec![0x1000; 512], open: Vec::new() }
    }

    fn pass(&self, offset: u64, number: u64, depth: usize) {
        let address = blob().bytes.as_ptr() as u64 + offset;
        // SAFETY: the routine of this very program, at its own address.
        let routine = unsafe { std::mem::transmute::<u64, Routine>(address) };
        let place = 500 - 20 * depth;
        routine(self.target.words.as_ptr().cast(), number, self.stack[place - 9..].as_ptr().cast());
    }

    fn enter(&mut self, number: u64) {
        self.open.push(number);
        self.pass(blob().enter, number, self.open.len());
    }

    fn leave(&mut self) {
        let depth = self.open.len();
        let number = self.open.pop().expect("an open call");
        self.pass(blob().leave, number, depth);
    }

    /// Time passes; how much.
    fn spend(&self) -> u64 {
        let begun = ticks();
        while ticks() - begun < 400_000 {}
        ticks() - begun
    }

    fn call(&mut self, number: u64, inside: impl FnOnce(&mut Self) -> u64) -> u64 {
        self.enter(number);
        let spent = inside(self);
        self.leave();
        spent
    }
}

fn ticks() -> u64 {
    // SAFETY: reads the time stamp counter; every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A number that should be about another one, ticks.
type Pair = (&'static str, u64, u64);

/// A thread that is interrupted between our reading of the clock and the routine's makes a difference, so it is tried again: a
/// wrong number is wrong each time.
#[track_caller]
fn hold(measure: impl Fn() -> Vec<Pair>) {
    let off = |(_, found, expected): &Pair| found.abs_diff(*expected) > 100_000 + expected / 20;
    let mut wrong: Vec<Pair> = Vec::new();
    for _ in 0..40 {
        wrong = measure().into_iter().filter(off).collect();
        if wrong.is_empty() {
            return;
        }
    }
    panic!("{wrong:?}");
}

/// One region with a thread beside the first; what each was busy.
fn run(
    target: &Target,
    first: impl FnOnce(&mut Thread<'_>) -> u64,
    other: impl FnOnce(&mut Thread<'_>) -> u64 + Send,
) -> [u64; 2] {
    let mut master = Thread::of(target);
    master.enter(REGION);
    let mine = master.call(BODY, first);
    let others = std::thread::scope(|scope| {
        let running = scope.spawn(|| Thread::of(target).call(BODY, other));
        running.join().expect("it ends")
    });
    master.leave();
    [mine, others]
}

#[test]
fn waits_are_no_work_and_tasks_in_waits_are() {
    hold(|| {
        let mut pairs: Vec<Pair> = Vec::new();
        let target = Target::new();
        let mut waited = [0; 3];
        let mut in_mpi = 0;
        let first = |thread: &mut Thread<'_>| {
            let busy = thread.spend();
            waited[0] += thread.call(BARRIER, |thread| thread.spend());
            waited[1] += thread.call(LOCK, |thread| thread.spend());
            in_mpi += thread.call(MPI, |thread| thread.spend());
            busy + thread.spend() + in_mpi
        };
        let (mut before_task, mut in_task) = (0, 0);
        let other = |thread: &mut Thread<'_>| {
            thread.call(BARRIER, |thread| {
                before_task = thread.spend();
                // A task that another waits for lies in the barrier.
                thread.call(OTHER_BODY, |thread| {
                    in_task = thread.call(TASK, |thread| thread.spend());
                    thread.spend()
                })
            })
        };
        let [mine, others] = run(&target, first, other);
        waited = [waited[0] + before_task, waited[1], in_task];
        assert_eq!(target.region(BODY, |stat| &stat.passes), 1);
        assert_eq!(
            (target.region(BODY, |stat| &stat.threads_min), target.region(BODY, |stat| &stat.threads_max)),
            (2, 2)
        );
        pairs.push(("busy", target.region(BODY, |stat| &stat.busy), mine + others));
        pairs.push(("the longest", target.region(BODY, |stat| &stat.longest_ticks), 2 * mine.max(others)));
        pairs.push(("MPI", target.region(BODY, |stat| &stat.comm), in_mpi));
        pairs.push(("MPI of the master", target.region(BODY, |stat| &stat.comm_of_master), in_mpi));
        pairs.push(("barriers", target.region(BODY, |stat| &stat.waits[0]), waited[0]));
        pairs.push(("locks", target.region(BODY, |stat| &stat.waits[1]), waited[1]));
        pairs.push(("tasks", target.region(BODY, |stat| &stat.waits[2]), waited[2]));
        let (ticks, of_threads) =
            (target.region(BODY, |stat| &stat.ticks), target.region(BODY, |stat| &stat.thread_ticks));
        assert_eq!(of_threads, 2 * ticks);
        assert_eq!((target.teams().mixed.load(Relaxed), target.teams().lost.load(Relaxed), target.unseen()), (0, 0, 0));
        pairs
    });
}

#[test]
fn the_longest_of_each_pass_counts() {
    hold(|| {
        let mut pairs: Vec<Pair> = Vec::new();
        let target = Target::new();
        let mut sums = [0; 2];
        for pass in 0..4 {
            let times = [1 + 2 * (pass % 2), 3 - 2 * (pass % 2)];
            let spend = |count: u64| move |thread: &mut Thread<'_>| (0..count).map(|_| thread.spend()).sum::<u64>();
            let [mine, others] = run(&target, spend(times[0]), spend(times[1]));
            sums[0] += mine + others;
            sums[1] += 2 * mine.max(others);
        }
        assert_eq!(target.region(BODY, |stat| &stat.passes), 4);
        pairs.push(("busy", target.region(BODY, |stat| &stat.busy), sums[0]));
        pairs.push(("the longest", target.region(BODY, |stat| &stat.longest_ticks), sums[1]));
        let own: Vec<u64> =
            target.view().slots().map(|slot| slot.region(BODY).expect("one").own_busy.load(Relaxed)).collect();
        assert_eq!(own.iter().sum::<u64>(), target.region(BODY, |stat| &stat.busy));
        pairs
    });
}

#[test]
fn a_region_inside_of_a_region_is_part_of_it() {
    hold(|| {
        let mut pairs: Vec<Pair> = Vec::new();
        let target = Target::new();
        let mut locked = 0;
        let first = |thread: &mut Thread<'_>| {
            let busy = thread.spend();
            busy + thread.call(REGION, |thread| {
                thread.call(OTHER_BODY, |thread| {
                    locked = thread.call(LOCK, |thread| thread.spend());
                    thread.spend()
                })
            })
        };
        let [mine, others] = run(&target, first, |thread| thread.spend());
        assert_eq!(target.teams().nested.load(Relaxed), 1);
        assert_eq!((target.region(BODY, |stat| &stat.passes), target.region(OTHER_BODY, |stat| &stat.passes)), (1, 0));
        pairs.push(("busy", target.region(BODY, |stat| &stat.busy), mine + others));
        pairs.push(("locks", target.region(BODY, |stat| &stat.waits[1]), locked));
        pairs
    });
}

#[test]
fn what_lies_outside_of_regions_belongs_to_none() {
    hold(|| {
        let mut pairs: Vec<Pair> = Vec::new();
        let target = Target::new();
        let mut master = Thread::of(&target);
        // A region that is run by one thread without the runtime, and a task that is run at once.
        master.call(OTHER_BODY, |thread| thread.spend());
        let [mine, others] = run(&target, |thread| thread.spend(), |thread| thread.spend());
        pairs.push(("busy", target.region(BODY, |stat| &stat.busy), mine + others));
        assert_eq!(target.region(BODY, |stat| &stat.threads_max), 2);
        pairs
    });
}

#[test]
fn what_is_not_known_is_said() {
    hold(|| {
        let mut pairs: Vec<Pair> = Vec::new();
        let target = Target::new();
        let mut master = Thread::of(&target);
        // Its function is not measured.
        let spent = master.call(REGION, |thread| thread.spend());
        assert_eq!(
            (target.region(REGION, |stat| &stat.passes), target.region(REGION, |stat| &stat.threads_max)),
            (1, 0)
        );
        pairs.push(("the region's time", target.region(REGION, |stat| &stat.ticks), spent));
        // A barrier of a region that nobody saw begin, and its end.
        master.call(BARRIER, |thread| thread.spend());
        assert_eq!(target.view().slots().map(|slot| slot.slot.team.stray.load(Relaxed)).sum::<u64>(), 1);
        for _ in 0..2 {
            master.open.push(REGION);
            master.leave();
        }
        assert!(target.unseen() >= 2 * spent / 3, "{}", target.unseen());
        // Another thread has a region run meanwhile.
        master.enter(REGION);
        std::thread::scope(|scope| {
            scope.spawn(|| Thread::of(&target).call(REGION, |thread| thread.spend()));
        });
        master.leave();
        assert_eq!(target.teams().mixed.load(Relaxed), 1);
        // A region that was left by an exception: the next call is made from further out.
        let mut thrown = Thread::of(&target);
        thrown.open.push(0);
        thrown.enter(REGION);
        thrown.open.clear();
        thrown.call(MPI, |thread| thread.spend());
        assert_eq!(target.teams().lost.load(Relaxed), 1);
        assert_eq!(target.teams().master.load(Relaxed), 0);
        pairs
    });
}

#[test]
fn nothing_is_left_of_what_is_forgotten() {
    let target = Target::new();
    run(&target, |thread| thread.spend(), |thread| thread.spend());
    target.view().slots().for_each(|slot| slot.reset());
    for stat in target.view().slots().filter_map(|slot| slot.region(BODY)) {
        assert!(stat.words().iter().all(|word| word.load(Relaxed) == 0), "{stat:?}");
    }
}
