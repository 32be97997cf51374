//! Where calls come from: the routine goes up made-up stacks by rules, and tells paths apart by all of their addresses.
//!
//! The routine runs in this very program; the stack is a list of words, and "code" is another one, so that return
//! addresses have something before them that can be read.

use std::arch::asm;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use trimtab_stub::blob;
use trimtab_stub::layout::{
    ABSENT, Geometry, Header, Needs, PATH_ADDRESSES_MAX, PATH_BIT, PATH_SUMS_MAX, Probe, SIZES_MAX, Saved, flag, kind,
    python, state, step,
};
use trimtab_stub::view::View;

/// Words of the stack and of the code.
const WORDS: usize = 4224;
/// Words below a return address that an island uses.
const SAVED: usize = 9;

struct Target {
    words: Vec<AtomicU64>,
    stack: Vec<u64>,
    code: Vec<u64>,
}

/// A function on the stack: how its frame is left, and where the next one's return address lies.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Place of its return address in the code.
    code: usize,
    /// Words from the return address of its callee to its own, 1 at least.
    words: usize,
    /// By the frame pointer, which then points so many words below its own return address; else by the stack pointer.
    by_frame: Option<usize>,
    /// The word below its own return address that holds its caller's frame pointer.
    saved: Option<usize>,
}

impl Target {
    fn new() -> Target {
        let needs = Needs {
            patches: 1,
            probes: 1,
            functions: 1,
            ranks: 1,
            details: 0,
            code: 0,
            threads: 1,
            areas: None,
            regions: false,
        };
        let geometry = Geometry::for_needs(&needs);
        let words = (0..geometry.data_length / 8).map(|_| AtomicU64::new(0)).collect();
        let code = (0..WORDS as u64).map(|index| index.wrapping_mul(0x0101_0101_0101_0101)).collect();
        let target = Target { words, stack: vec![0; WORDS], code };
        target.view().set_geometry(&geometry);
        target.view().set_probe(0, &Probe { flags: flag::TIMED | flag::RING, ..Probe::ABSENT });
        target.view().header().marker_probe.store(u32::MAX, Relaxed);
        target.view().header().state.store(state::OBSERVE, Relaxed);
        target
    }

    fn view(&self) -> View<'_> {
        View::new(&self.words)
    }

    fn address(&self, code: usize) -> u64 {
        self.code[code..].as_ptr() as u64
    }

    fn place(&self, index: usize) -> u64 {
        self.stack[index..].as_ptr() as u64
    }

    /// A rule for the address, as the monitor would write it.
    fn rule(&self, code: usize, step: u64) {
        assert!(self.view().set_return_rule(self.address(code), step, self.code[code - 1]), "room for a rule");
    }

    fn rule_of(level: &Level) -> u64 {
        let saved = level.saved.map_or(step::UNCHANGED, |words| words as u8 + 1);
        match level.by_frame {
            Some(below) => step::pack(step::BY_FRAME, 8 + 8 * below as i32, saved),
            None => step::pack(step::BY_STACK, 8 * level.words as i32, saved),
        }
    }

    /// Puts levels on the stack from `first` on, innermost first, and the last caller's address behind them. Returns the frame
    /// pointer at the entry of the innermost call.
    fn build(&mut self, first: usize, levels: &[Level], last: usize) -> u64 {
        let mut returns = vec![first];
        levels.iter().for_each(|level| returns.push(returns[returns.len() - 1] + level.words));
        let addresses: Vec<u64> =
            levels.iter().map(|level| level.code).chain([last]).map(|code| self.address(code)).collect();
        returns.iter().zip(addresses).for_each(|(place, address)| self.stack[*place] = address);
        // From outside in: what each function has in the frame pointer when it calls.
        let mut frame = 0x1234_5678;
        for (level, own) in levels.iter().zip(&returns[1..]).rev() {
            if let Some(words) = level.saved {
                self.stack[own - words] = frame;
                frame = 0xdead_beef;
            }
            if let Some(below) = level.by_frame {
                frame = self.place(own - below);
            }
        }
        frame
    }

    /// Calls the function that the probe stands at; its site.
    fn call(&mut self, first: usize, frame: u64) -> u64 {
        let view = self.view();
        let written = view.slots().map(|slot| slot.slot.ring_written.load(Relaxed)).sum::<u64>();
        self.pass(blob().enter, first, frame);
        let slot = self.view().slots().next().expect("a slot");
        assert_eq!(slot.slot.ring_written.load(Relaxed), written + 1, "one record");
        let site = slot.call(written).site.load(Relaxed);
        // The call returns at once.
        slot.slot.depth.store(0, Relaxed);
        slot.slot.group_depth[0].store(0, Relaxed);
        site
    }

    /// Passes the probe at the function's entry or exit.
    fn pass(&mut self, routine: u64, first: usize, frame: u64) {
        let routine = blob().bytes.as_ptr() as u64 + routine;
        let saved: *const Saved = self.stack[first - SAVED..].as_ptr().cast();
        // SAFETY: the routine of this very program, called as an island does, with the frame pointer of the made-up caller.
        // All registers are named: rbp may hold none of them.
        unsafe {
            asm!("push rbp", "mov r12, rsp", "and rsp, -16", "mov rbp, r13", "call rax", "mov rsp, r12", "pop rbp",
                 in("r13") frame, in("rax") routine, out("r12") _,
                 in("rdi") self.words.as_ptr().cast::<Header>(), in("rsi") 0u64, in("rdx") saved, clobber_abi("C"));
        }
    }

    /// A call that carries so many bytes, and returns.
    fn carry(&mut self, first: usize, frame: u64, bytes: u64) {
        self.stack[first - SAVED + 4] = bytes;
        self.pass(blob().enter, first, frame);
        self.pass(blob().leave, first, frame);
    }

    /// Records from now on, calls whose first argument is their payload.
    fn record(&self) {
        let probe = Probe { flags: flag::TIMED | flag::RING, kind: kind::PLAIN_BYTES, count: 0, ..Probe::ABSENT };
        self.view().set_probe(0, &probe);
        self.view().header().calibration_begun.store(1, Relaxed);
        self.view().header().first_ticks.store(1, Relaxed);
        self.view().header().state.store(state::RECORD, Relaxed);
    }

    fn path(&self, site: u64) -> Vec<u64> {
        self.view().path(site).expect("a path")
    }
}

const fn level(code: usize, words: usize) -> Level {
    Level { code, words, by_frame: None, saved: None }
}

/// While a marker counts, a pass in which the program polls leaves room in the ring for others.
#[test]
fn calls_that_poll_stand_once_in_the_ring_for_each_pass() {
    let mut target = Target::new();
    target.view().set_probe(0, &Probe { flags: flag::TIMED | flag::RING, polls: 1, ..Probe::ABSENT });
    let places = [700, 800];
    let mut written_by_passes = |marker: u32, passes: std::ops::Range<u64>| {
        let written = |target: &Target| target.view().slots().map(|slot| slot.slot.ring_written.load(Relaxed)).sum();
        let before: u64 = written(&target);
        target.view().header().marker_probe.store(marker, Relaxed);
        for pass in passes {
            target.view().header().passes.store(pass, Relaxed);
            for call in 0..20 {
                let frame = target.build(SAVED + 1, &[], places[call % 2]);
                target.carry(SAVED + 1, frame, 0);
            }
        }
        written(&target) - before
    };
    assert_eq!(written_by_passes(u32::MAX, 0..3), 60, "all of them, while nothing counts");
    assert_eq!(written_by_passes(9, 3..6), 6, "two places, three passes");
}

/// Calls that poll and follow each other at once are one wait: its time has no gaps, and only its first probes are charged.
#[test]
fn calls_that_poll_at_once_again_are_one_wait() {
    let mut target = Target::new();
    target.record();
    let polls = Probe { flags: flag::TIMED | flag::RING, polls: 1, ..Probe::ABSENT };
    let others = Probe { polls: 0, ..polls };
    let mut calls = |probe: &Probe, place: usize, apart_ticks: u64, idle_ticks: u64| {
        let header = target.view().header();
        header.polls_apart_ticks_max.store(apart_ticks, Relaxed);
        header.polls_idle_ticks_max.store(idle_ticks, Relaxed);
        target.view().set_probe(0, probe);
        let stats = |target: &Target| {
            let slot = target.view().slots().next();
            slot.map_or([0; 6], |slot| {
                let (stat, of_paths) = (slot.stat(0), slot.path_sums().map(|sum| sum.calls.load(Relaxed)).sum());
                let own = [&stat.calls, &stat.polled_on, &stat.polled_work].map(|word| word.load(Relaxed));
                [own[0], own[1], own[2], stat.charged(), slot.slot.hits.load(Relaxed), of_paths]
            })
        };
        let before = stats(&target);
        for _ in 0..20 {
            let frame = target.build(SAVED + 1, &[], place);
            target.carry(SAVED + 1, frame, 0);
        }
        let after = stats(&target);
        std::array::from_fn::<u64, 6, _>(|index| after[index] - before[index])
    };
    const LONG: u64 = 1 << 40;
    assert_eq!(calls(&polls, 700, 0, LONG), [20, 0, 0, 20, 40, 20], "none at once");
    assert_eq!(calls(&others, 700, LONG, LONG), [20, 0, 0, 20, 40, 20], "they do not poll");
    assert_eq!(calls(&polls, 700, LONG, LONG), [20, 19, 0, 1, 2, 20], "the first one begins the wait");
    assert_eq!(calls(&polls, 800, LONG, LONG), [20, 20, 0, 0, 0, 20], "polling elsewhere is the same wait");
    assert_eq!(calls(&polls, 800, LONG, 0), [20, 20, 20, 3, 0, 20], "they had work to do");
    assert_eq!(calls(&others, 700, LONG, LONG)[1], 0);
    assert_eq!(calls(&polls, 700, LONG, LONG)[1], 19, "another call came between");
    // An interrupt in a long wait does not end it; a pause as long as the wait does.
    let since = |target: &Target, ticks: u64| {
        let slot = target.view().slots().next().expect("a slot").slot;
        let polled = slot.polled_ticks.load(Relaxed);
        slot.waits_since_ticks.store(polled.wrapping_sub(ticks), Relaxed);
        target.view().header().polls_apart_ticks_max.store(1, Relaxed);
        polled
    };
    for (waited, expected) in [(1 << 50, 1), (0, 0)] {
        assert_ne!(since(&target, waited), 0);
        let before = target.view().slots().next().expect("a slot").stat(0).polled_on.load(Relaxed);
        let frame = target.build(SAVED + 1, &[], 700);
        target.carry(SAVED + 1, frame, 0);
        let after = target.view().slots().next().expect("a slot").stat(0).polled_on.load(Relaxed);
        assert_eq!(after - before, expected, "after a wait of {waited}");
    }
    let slot = target.view().slots().next().expect("a slot");
    let written = slot.slot.ring_written.load(Relaxed);
    assert_eq!(written - 1, 20 + 20 + 1 + 1 + 20 + 1, "the ring has the first call of a wait at each of its places");
    let (first, last) = (slot.stat(0).first_ticks.load(Relaxed), slot.stat(0).last_ticks.load(Relaxed));
    assert!(first < last && slot.slot.depth.load(Relaxed) == 0 && slot.slot.group_depth[0].load(Relaxed) == 0);
}

#[test]
fn calls_that_poll_for_nothing_are_charged() {
    let mut target = Target::new();
    target.record();
    target.view().header().polls_apart_ticks_max.store(1 << 40, Relaxed);
    target.view().header().polls_idle_ticks_max.store(1 << 40, Relaxed);
    let polls = Probe { flags: flag::TIMED | flag::RING, polls: 1, came: 0, ..Probe::ABSENT };
    let mut came = Box::new(0_i32);
    for (comes, vainly) in [(true, 0), (false, 19)] {
        target.view().set_probe(0, &polls);
        for call in 0..20 {
            *came = i32::from(comes && call == 19);
            let frame = target.build(SAVED + 1, &[], 700);
            // The first argument is where it says that something has come.
            target.carry(SAVED + 1, frame, &raw const *came as u64);
        }
        target.view().set_probe(0, &Probe { polls: 0, came: ABSENT, ..polls });
        let frame = target.build(SAVED + 1, &[], 700);
        target.carry(SAVED + 1, frame, 0);
        let slot = target.view().slots().next().expect("a slot");
        assert_eq!(slot.stat(0).polled_vainly.load(Relaxed), vainly, "something came: {comes}");
        assert_eq!(slot.slot.polls_open.load(Relaxed), 0);
    }
    let slot = target.view().slots().next().expect("a slot");
    assert_eq!((slot.stat(0).polled_on.load(Relaxed), slot.stat(0).charged()), (38, 4 + 19 / 2));
}

#[test]
fn a_wait_by_polling_has_no_gaps() {
    let mut target = Target::new();
    target.record();
    target.view().set_probe(0, &Probe { flags: flag::TIMED | flag::RING, polls: 1, ..Probe::ABSENT });
    target.view().header().polls_apart_ticks_max.store(1 << 40, Relaxed);
    for _ in 0..50 {
        let frame = target.build(SAVED + 1, &[], 700);
        target.carry(SAVED + 1, frame, 0);
        std::thread::sleep(std::time::Duration::from_micros(20));
    }
    let slot = target.view().slots().next().expect("a slot");
    let (stat, sums) = (slot.stat(0), slot.path_sums().map(|sum| sum.ticks.load(Relaxed)).sum::<u64>());
    let span = stat.last_ticks.load(Relaxed) - stat.first_ticks.load(Relaxed);
    let inside = stat.ticks.load(Relaxed);
    // From the first call's own beginning on, behind its probe, to the last one's end.
    assert!(inside > span - span / 4 && inside < 2 * span, "{inside} of {span}");
    assert_eq!((sums, slot.slot.group_ticks[0].load(Relaxed)), (inside, inside));
    let record = slot.call(0);
    let (enter, exit) = (record.enter_ticks.load(Relaxed), record.exit_ticks.load(Relaxed));
    assert!(
        slot.slot.ring_written.load(Relaxed) == 1 && exit - enter > span - span / 4,
        "one call in the ring, to its end"
    );
}

#[test]
fn callers_of_the_same_wrappers_are_told_apart() {
    let mut target = Target::new();
    let layers = [level(100, 3), level(200, 8), level(300, 2)];
    layers.iter().for_each(|layer| target.rule(layer.code, Target::rule_of(layer)));
    [400, 500].into_iter().for_each(|own| target.rule(own, step::END));
    let mut sites = Vec::new();
    for own in [400, 500, 400] {
        let frame = target.build(SAVED + 1, &layers, own);
        let site = target.call(SAVED + 1, frame);
        let expected: Vec<u64> = [100, 200, 300, own].map(|code| target.address(code)).to_vec();
        assert_eq!(target.path(site), expected, "from {own}");
        assert_ne!(site & PATH_BIT, 0);
        sites.push(site);
    }
    assert!(sites[0] != sites[1] && sites[0] == sites[2], "{sites:x?}");
}

#[test]
fn the_programs_own_call_is_its_return_address() {
    let mut target = Target::new();
    for is_known in [false, true] {
        let frame = target.build(SAVED + 1, &[], 700);
        assert_eq!(target.call(SAVED + 1, frame), target.address(700), "known: {is_known}");
        let unknown: Vec<u64> = target.view().unknown_addresses().collect();
        assert_eq!(unknown, if is_known { vec![] } else { vec![target.address(700)] }, "asked for once");
        target.rule(700, step::END);
    }
}

#[test]
fn what_is_not_known_ends_a_path_until_it_is() {
    let mut target = Target::new();
    let layers = [level(100, 3), level(200, 8)];
    let mut lengths = Vec::new();
    for learned in [None, Some(0), Some(1)] {
        learned.into_iter().for_each(|at: usize| target.rule(layers[at].code, Target::rule_of(&layers[at])));
        let frame = target.build(SAVED + 1, &layers, 400);
        let site = target.call(SAVED + 1, frame);
        lengths.push(target.path(site).len());
        let last = target.path(site).last().copied();
        assert_eq!(target.view().unknown_addresses().last(), last, "the last one is asked for");
    }
    assert_eq!(lengths, [1, 2, 3]);
}

#[test]
fn a_rule_for_other_code_is_not_followed() {
    let mut target = Target::new();
    let layers = [level(100, 3)];
    target.rule(100, Target::rule_of(&layers[0]));
    let frame = target.build(SAVED + 1, &layers, 400);
    assert_eq!(target.call(SAVED + 1, frame) & PATH_BIT, PATH_BIT);
    // Another library lies there now.
    target.code[99] += 1;
    let frame = target.build(SAVED + 1, &layers, 400);
    assert_eq!(target.call(SAVED + 1, frame), target.address(100));
}

#[test]
fn a_rule_that_leads_down_or_far_up_is_not_followed() {
    for (name, step) in [
        ("nowhere", step::pack(step::BY_STACK, 0, 0)),
        ("down", step::pack(step::BY_STACK, -64, 0)),
        ("far up", step::pack(step::BY_STACK, (1 << 20) + 8, 0)),
        ("between words", step::pack(step::BY_STACK, 12, 0)),
        ("by a frame pointer that is none", step::pack(step::BY_FRAME, 16, 0)),
        ("with a frame pointer below the frame", step::pack(step::BY_STACK, 16, 9)),
    ] {
        let mut target = Target::new();
        target.rule(100, step);
        target.build(SAVED + 1, &[level(100, 3)], 400);
        assert_eq!(target.call(SAVED + 1, 0x10), target.address(100), "{name}");
    }
}

/// Words as CPython keeps a thread's state and frames in them.
struct Python {
    key: [AtomicU64; 1],
    word: [AtomicU64; 1],
    state: [AtomicU64; 16],
    cframe: [AtomicU64; 16],
    frame: [AtomicU64; 16],
}

impl Python {
    fn new() -> Box<Python> {
        let words = || std::array::from_fn(|_| AtomicU64::new(0));
        let [key, word] = [[AtomicU64::new(0)], [AtomicU64::new(0)]];
        let python = Box::new(Python { key, word, state: words(), cframe: words(), frame: words() });
        python.key[0].store(1, Relaxed);
        python.word[0].store(python.state.as_ptr() as u64, Relaxed);
        Python::set(&python.state, python::STATE_CFRAME, python.cframe.as_ptr() as u64);
        Python::set(&python.cframe, python::CFRAME_FRAME, python.frame.as_ptr() as u64);
        python
    }

    fn set(of: &[AtomicU64], offset: u64, word: u64) {
        of[offset as usize / 8].store(word, Relaxed);
    }

    /// The thread is at this instruction of this code.
    fn is_at(&self, code: u64, instruction: u64) {
        Python::set(&self.frame, python::FRAME_CODE, code);
        Python::set(&self.frame, python::FRAME_INSTRUCTION, instruction);
    }
}

#[test]
fn a_path_into_python_ends_with_its_line() {
    let mut target = Target::new();
    let layers = [level(100, 3)];
    target.rule(100, Target::rule_of(&layers[0]));
    [400, 500].into_iter().for_each(|interpreter| target.rule(interpreter, step::PYTHON));
    let python = Python::new();
    python.is_at(0x1000, 0x10c0);
    let called = |target: &mut Target, layers: &[Level], last: usize| {
        let frame = target.build(SAVED + 1, layers, last);
        target.call(SAVED + 1, frame)
    };
    let bare = called(&mut target, &layers, 400);
    let addresses = vec![target.address(100), target.address(400)];
    assert_eq!(target.path(bare), addresses, "nobody has said where lines are");
    let pointer = target.view().slots().next().expect("a slot").slot.key.load(Relaxed);
    target.view().header().python_word.store((python.word.as_ptr() as u64).wrapping_sub(pointer), Relaxed);
    target.view().header().python_key.store(python.key.as_ptr() as u64, Relaxed);
    let mut sites = Vec::new();
    for (code, instruction) in [(0x1000, 0x10c0), (0x1000, 0x10c2), (0x2000, 0x20c0), (0x1000, 0x10c0)] {
        python.is_at(code, instruction);
        let site = called(&mut target, &layers, 400);
        assert_eq!(target.path(site), [addresses.clone(), vec![code, instruction]].concat());
        sites.push(site);
    }
    assert_eq!(sites[0], sites[3], "one line is one site");
    sites.sort_unstable();
    sites.dedup();
    assert_eq!(sites.len(), 3);
    let direct = called(&mut target, &[], 500);
    assert_eq!(target.path(direct), [target.address(500), 0x1000, 0x10c0], "the interpreter itself calls");
}

/// Breaks one thing that a line needs.
type Spoil = fn(&Python);

#[test]
fn a_thread_that_python_does_not_know_has_no_line() {
    let mut target = Target::new();
    target.rule(100, Target::rule_of(&level(100, 3)));
    target.rule(400, step::PYTHON);
    let frame = target.build(SAVED + 1, &[level(100, 3)], 400);
    let bare = target.call(SAVED + 1, frame);
    let pointer = target.view().slots().next().expect("a slot").slot.key.load(Relaxed);
    let spoil: [(&str, Spoil); 7] = [
        ("the key was taken back", |python| python.key[0].store(7 << 32, Relaxed)),
        ("no state", |python| python.word[0].store(0, Relaxed)),
        ("no pointer", |python| python.word[0].store(0x1001, Relaxed)),
        ("no address of a process", |python| python.word[0].store(1 << 63, Relaxed)),
        ("no frame of C", |python| Python::set(&python.state, python::STATE_CFRAME, 0)),
        ("no frame of Python", |python| Python::set(&python.cframe, python::CFRAME_FRAME, 0)),
        ("no instruction", |python| python.is_at(0x1000, 0)),
    ];
    for (name, spoil) in spoil {
        let python = Python::new();
        python.is_at(0x1000, 0x10c0);
        target.view().header().python_word.store((python.word.as_ptr() as u64).wrapping_sub(pointer), Relaxed);
        target.view().header().python_key.store(python.key.as_ptr() as u64, Relaxed);
        let frame = target.build(SAVED + 1, &[level(100, 3)], 400);
        assert_ne!(target.call(SAVED + 1, frame), bare, "it has one before");
        spoil(&python);
        let frame = target.build(SAVED + 1, &[level(100, 3)], 400);
        assert_eq!(target.call(SAVED + 1, frame), bare, "{name}");
    }
}

#[test]
fn a_path_without_end_is_cut() {
    let mut target = Target::new();
    let layers: Vec<Level> = (0..40).map(|_| level(100, 5)).collect();
    target.rule(100, Target::rule_of(&layers[0]));
    let frame = target.build(SAVED + 1, &layers, 400);
    let site = target.call(SAVED + 1, frame);
    assert_eq!(target.path(site).len() as u64, PATH_ADDRESSES_MAX);
}

#[test]
fn more_paths_than_there_is_room_for_are_counted() {
    let mut target = Target::new();
    let calls = 6000;
    let code = 2 * calls + 4;
    target.code = (0..code as u64).collect();
    target.rule(1, Target::rule_of(&level(1, 3)));
    let mut alone = 0;
    for own in 0..calls {
        let frame = target.build(SAVED + 1, &[level(1, 3)], 2 * own + 2);
        alone += u64::from(target.call(SAVED + 1, frame) & PATH_BIT == 0);
    }
    assert!(alone > 0, "there is room for fewer");
    assert_eq!(target.view().header().paths_lost.load(Relaxed), alone);
}

#[test]
fn calls_time_and_bytes_are_summed_by_path_and_by_size() {
    let mut target = Target::new();
    let layer = level(100, 3);
    target.rule(100, Target::rule_of(&layer));
    [400, 500].into_iter().for_each(|own| target.rule(own, step::END));
    target.record();
    let sizes = [0, 1, 1000, 1023, 1024, 1 << 38, u64::MAX >> 1];
    for (at, bytes) in sizes.into_iter().enumerate() {
        let frame = target.build(SAVED + 1, &[layer], if at < 3 { 400 } else { 500 });
        target.carry(SAVED + 1, frame, bytes);
    }
    let slot = target.view().slots().next().expect("a slot");
    let stat = slot.stat(0);
    let mut sums: Vec<(Vec<u64>, u64, u64)> = slot
        .path_sums()
        .map(|sum| (target.path(sum.site.load(Relaxed)), sum.calls.load(Relaxed), sum.bytes.load(Relaxed)))
        .collect();
    sums.sort();
    let path = |own: usize| vec![target.address(100), target.address(own)];
    let rest = sizes[3..].iter().fold(0u64, |sum, bytes| sum.wrapping_add(*bytes));
    assert_eq!(sums, [(path(400), 3, 1001), (path(500), 4, rest)]);
    let ticks: u64 = slot.path_sums().map(|sum| sum.ticks.load(Relaxed)).sum();
    assert_eq!((stat.calls.load(Relaxed), stat.ticks.load(Relaxed)), (7, ticks), "the paths are all of it");
    assert!(ticks > 0, "they take time");
    let classes: Vec<(usize, u64, u64)> = slot
        .sizes(0)
        .enumerate()
        .map(|(class, held)| (class, held.calls.load(Relaxed), held.bytes.load(Relaxed)))
        .filter(|(_, calls, _)| *calls > 0)
        .collect();
    let last = SIZES_MAX as usize - 1;
    let expected = [(0, 1, 0), (1, 1, 1), (10, 2, 2023), (11, 1, 1024), (last, 2, (1 << 38) + (u64::MAX >> 1))];
    assert_eq!(classes, expected);
    slot.reset();
    assert!(slot.path_sums().all(|sum| sum.calls.load(Relaxed) + sum.ticks.load(Relaxed) == 0), "it counts from zero");
    assert!(slot.sizes(0).all(|class| class.calls.load(Relaxed) == 0), "it counts from zero");
}

#[test]
fn paths_that_find_no_place_are_in_the_functions_own_numbers() {
    let mut target = Target::new();
    let calls = 3 * PATH_SUMS_MAX;
    target.code = (0..2 * calls + 4).collect();
    target.record();
    for own in 0..calls as usize {
        let frame = target.build(SAVED + 1, &[], 2 * own + 2);
        target.carry(SAVED + 1, frame, 8);
    }
    let slot = target.view().slots().next().expect("a slot");
    let summed: u64 = slot.path_sums().map(|sum| sum.calls.load(Relaxed)).sum();
    let other = slot.slot.other_paths.calls.load(Relaxed);
    assert!(summed <= PATH_SUMS_MAX && summed > PATH_SUMS_MAX / 2, "{summed} found a place");
    assert_eq!((summed + other, slot.stat(0).calls.load(Relaxed)), (calls, calls));
    assert_eq!(slot.stat(0).bytes.load(Relaxed), 8 * calls);
}

/// A simple generator; the seed is printed with what fails.
fn next(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 20) as usize
}

#[test]
fn any_stack_of_frames_is_gone_up() {
    let mut seed = 0x5eed;
    for _ in 0..20 {
        let mut target = Target::new();
        // A rule that stands is never changed, so each stack has code of its own.
        (0..20).for_each(|stack| go_up(&mut target, 10 + stack * 200, &mut seed));
    }
}

fn go_up(target: &mut Target, code: usize, seed: &mut u64) {
    let depth = next(seed) % (PATH_ADDRESSES_MAX as usize - 1);
    let mut levels = Vec::new();
    for at in 0..depth {
        let words = 3 + next(seed) % 60;
        let saved = (next(seed).is_multiple_of(2)).then(|| 1 + next(seed) % (words - 1));
        // A function that has a frame pointer of its own has saved its caller's.
        let below = 1 + next(seed) % (words - 1);
        let by_frame = saved.and_then(|_| (next(seed).is_multiple_of(2)).then_some(below));
        levels.push(Level { code: code + 10 * at, words, by_frame, saved });
    }
    levels.iter().for_each(|level| target.rule(level.code, Target::rule_of(level)));
    let own = code + 199;
    let frame = target.build(SAVED + 1, &levels, own);
    let site = target.call(SAVED + 1, frame);
    let expected: Vec<u64> =
        levels.iter().map(|level| level.code).chain([own]).map(|code| target.address(code)).collect();
    assert_eq!(target.path(site), expected, "{levels:?}");
}
