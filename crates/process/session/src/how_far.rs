//! How far a marking loop is: what its probe reads in each pass, and what two of these readings say.
//!
//! Next: `trimtab-x86`'s `how_far`, which finds the places; `stub`'s `target`, which reads them.

use crate::debug_files::{DebugFiles, DebugSections};
use crate::inside::Inside;
use crate::modules::Modules;
use crate::obstacle::Obstacle;
use crate::request::EITHER;
use crate::sources::Sources;
use crate::unwind::FrameRegisters;
use std::cmp::Ordering;
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use trimtab_os::Memory;
use trimtab_stub::layout::{
    Header, NOTED_FIRST, NOTHING_BIT, POINTER_BIT, Reading, WATCHED_MAX, WATCHED_USED_BIT, WatchedPlace, holder,
};
use trimtab_symbols::Function;
use trimtab_types::ProcAddr;
use trimtab_x86::{ExitTests, HowFar, Look, Loop, PassesLeft, PatchSite, ReadablePlace, SiteKind, Unsure, passes_left};

/// Why it is not known how far a loop is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoReading {
    /// Ranks are in loops that take each other's place.
    #[error("ranks are in several loops, each of which has a counter of its own")]
    SeveralLoops,
    /// Something else is counted in the loop's place.
    #[error("calls of its function stand for its passes")]
    StandIn,
    /// A pass goes through one of several patches.
    #[error("its passes are seen at several places")]
    SeveralPlaces,
    /// The loop's code does not say it.
    #[error(transparent)]
    Code(#[from] Unsure),
    /// The loop can't be looked at.
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    /// There are no two readings.
    #[error("the loop was not passed twice")]
    NotTwice,
    /// Two readings contradict each other.
    #[error("its counter did not move by the same step in each pass, or its bound moved")]
    Unsteady,
}

/// Times that a reading is tried again which was written meanwhile.
const TRIES_MAX: u32 = 64;
/// Looks at tests, of which the one counts during which the fewest passes went by.
const LOOK_TRIES_MAX: usize = 8;
/// From where the island's rbp points to the program's stack: its rbp, and the red zone.
const KEPT_BYTES: i64 = 8 + 128;
/// The flags too, unless nobody reads them.
const FLAGS_BYTES: i64 = 8;

/// The places that a loop's probe reads, and how it finds them.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopWatch {
    how_far: Result<HowFar, Unsure>,
    /// The tests by which it is left, where its counter does not say all.
    tests: Option<ExitTests>,
    places: [(u64, u64, u64); WATCHED_MAX],
}

/// Looks that are kept of a loop's tests. Of more every second one goes.
const LOOKS_MAX: usize = 64;

/// Looks from which something follows.
const LOOKS_ENOUGH: usize = 5;

/// Looks at the tests of a rank's loop, in the order of its passes.
#[derive(Clone, Debug, Default)]
pub struct TestLooks {
    looks: Vec<Look>,
}

/// How far a rank's loop was in one pass, as two passes of it agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopProgress {
    /// The pass, as [`Header::passes`] counts, itself included.
    pub pass: u64,
    /// Passes of the loop completed before it; `None`: it is not known where the loop began.
    pub done: Option<u64>,
    /// Passes left as the loop's test has it, this one included; `None`: its numbers fit no such loop.
    pub remaining: Option<u64>,
    /// The loop may end before that.
    pub may_end_before: bool,
    /// The code shows that nobody but the loop writes to its counter and bound; else they only did what a counting loop makes of
    /// them while they were seen.
    pub is_sure: bool,
    /// Passes left after a pass, this one included, as its tests were seen to come closer to their ends.
    pub seen: Option<(u64, PassesLeft)>,
}

/// How far a rank's loop was by a look at its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopStand {
    /// Passes completed; `None`: it is not known with what its counter began.
    pub done: Option<u64>,
    /// Passes to come behind the one that it is in.
    pub to_come: u64,
    /// It may be left before.
    pub may_end_before: bool,
    /// The code shows that nobody but the loop writes to its counter and bound.
    pub is_sure: bool,
}

impl LoopWatch {
    /// For the patches of a loop.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub(crate) fn new(
        inside: &Inside<'_>,
        number: &[u32],
        (sites, flags_unread): (&[PatchSite], bool),
        function: Option<&Function>,
        sources: &Sources<'_>,
    ) -> Result<LoopWatch, NoReading> {
        let (found, site) = seen_at(inside, number, sites)?;
        let keeps_counters = function.is_some_and(is_fortran);
        let how_far = inside.how_far(found, site, (keeps_counters, sources));
        let says_all = how_far.as_ref().is_ok_and(|how_far| how_far.is_sure() && !how_far.may_end_before());
        let tests = (!says_all).then(|| inside.exit_tests(found, site, sources)).flatten();
        let stack = KEPT_BYTES + if flags_unread { 0 } else { FLAGS_BYTES };
        let read = how_far.as_ref().map_or([None; 3], HowFar::places);
        let noted = tests.iter().flat_map(ExitTests::registers).map(|number| Some(ReadablePlace::Register(number)));
        let mut places = [(0, 0, 0); WATCHED_MAX];
        for (words_of, place) in places.iter_mut().zip(read.into_iter().chain(noted)) {
            *words_of = place.map_or((0, 0, 0), |place| words(place, stack));
        }
        if places[0].0 == 0 && tests.is_some() {
            // The routine notes no pass unless it is told of a first place: one that it does not read.
            places[0].0 = 1 << NOTHING_BIT;
        }
        match (how_far, tests) {
            (Err(unsure), None) => Err(unsure.into()),
            (how_far, tests) => Ok(LoopWatch { how_far, tests, places }),
        }
    }

    /// Has the probe read from now on, as soon as the loop is the marker; `None`: it reads nothing.
    pub fn begin(watch: Option<&LoopWatch>, header: &Header) {
        header.watched.iter().for_each(|place| place.how.store(0, SeqCst));
        header.readings.iter().for_each(|reading| reading.pass.store(0, SeqCst));
        let Some(watch) = watch else { return };
        // The routine looks at the first one, which is therefore last.
        for (place, (how, offset, further)) in header.watched.iter().zip(watch.places).rev() {
            let WatchedPlace { how: how_word, offset: offset_word, further: further_word } = place;
            offset_word.store(offset, SeqCst);
            further_word.store(further, SeqCst);
            how_word.store(how, SeqCst);
        }
    }

    /// How far the loop is, from the first reading and the latest, and from looks at its tests. `memory` is that of the process.
    ///
    /// # Errors
    /// Why nothing.
    pub fn progress(
        &self,
        header: &Header,
        memory: Option<&Memory>,
        looks: &TestLooks,
    ) -> Result<LoopProgress, NoReading> {
        let seen = self.seen(looks);
        let counted = self.counted(header, memory).map(|progress| LoopProgress { seen, ..progress });
        let nothing =
            |(pass, _)| LoopProgress { pass, done: None, remaining: None, may_end_before: true, is_sure: false, seen };
        counted.or_else(|reason| seen.map(nothing).ok_or(reason))
    }

    /// By its counter alone.
    fn counted(&self, header: &Header, memory: Option<&Memory>) -> Result<LoopProgress, NoReading> {
        let how_far = self.how_far.as_ref().map_err(|unsure| *unsure)?;
        let (first, latest) = readings(header).ok_or(NoReading::NotTwice)?;
        let load = |address, bytes| load_word(memory?, address, bytes);
        let with_bound = |(pass, read): Read| Some((pass, how_far.with_bound(read, &load)?));
        // A bound moved, or a pointer to it.
        let is_same = first.1[1] == latest.1[1];
        let both = with_bound(first).zip(with_bound(latest)).filter(|_| is_same);
        let (first, latest) = both.ok_or(NoReading::Unsteady)?;
        said(how_far, first, latest)
    }

    /// Passes left after the last look, at most if not all ways out of the loop were looked at.
    fn seen(&self, looks: &TestLooks) -> Option<(u64, PassesLeft)> {
        let (last, tests) = looks.looks.last().zip(self.tests.as_ref())?;
        Some((last.pass, passes_left(&looks.looks, tests.has_others())?))
    }

    /// True if looks at the loop's tests may tell more than its counter.
    pub fn is_looked_at(&self) -> bool {
        self.tests.is_some()
    }

    /// Looks at the loop's tests now, from outside of the process, if that may tell more than its counter.
    pub fn look(&self, header: &Header, memory: Option<&Memory>, looks: &mut TestLooks) {
        let Some(tests) = &self.tests else { return };
        let numbers = tests.registers();
        let seen = || {
            let (pass, words) = latest(header)?;
            let register =
                |number: u8| numbers.iter().position(|known| *known == number).map(|at| words[NOTED_FIRST + at]);
            let look = tests.look(pass, &register, &|address, bytes| load_word(memory?, address, bytes));
            let passes_since = latest(header)?.0.saturating_sub(pass);
            Some((passes_since, look))
        };
        // Whoever looks may be kept waiting between both, while short passes go on.
        let mut best = seen();
        for _ in 1..LOOK_TRIES_MAX {
            if best.as_ref().is_none_or(|(passes_since, _)| *passes_since == 0) {
                break;
            }
            best = best.into_iter().chain(seen()).min_by_key(|(passes_since, _)| *passes_since);
        }
        if let Some((_, look)) = best {
            looks.add(look);
        }
    }
}

impl TestLooks {
    /// Nothing was looked at.
    pub const fn none() -> TestLooks {
        TestLooks { looks: Vec::new() }
    }

    /// True if little follows from so few looks.
    pub fn are_few(&self) -> bool {
        self.looks.len() < LOOKS_ENOUGH
    }

    fn add(&mut self, look: Look) {
        match self.looks.last().map(|last| last.pass.cmp(&look.pass)) {
            Some(Ordering::Equal) => return,
            // Passes are counted anew.
            Some(Ordering::Greater) => self.looks.clear(),
            _ => {}
        }
        self.looks.push(look);
        if self.looks.len() > LOOKS_MAX {
            let mut index = 0;
            self.looks.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }
}

/// A number in the memory of a process; `None`: it can't be read.
fn load_word(memory: &Memory, address: u64, bytes: u32) -> Option<u64> {
    let read = memory.read_vec(address, bytes as usize).ok()?;
    Some(read.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

/// A loop, and the one place where its passes are seen.
fn seen_at<'i>(inside: &'i Inside<'_>, number: &[u32], sites: &[PatchSite]) -> Result<(&'i Loop, ProcAddr), NoReading> {
    if number.contains(&EITHER) {
        return Err(NoReading::SeveralLoops);
    }
    let found = inside.flow.loop_numbered(number).ok_or(NoReading::StandIn)?;
    let [PatchSite { kind: SiteKind::At(site), .. }] = sites else {
        return Err(NoReading::SeveralPlaces);
    };
    Ok((found, *site))
}

/// How far a loop is whose first reading and latest one were taken in these passes.
fn said(how_far: &HowFar, first: Read, latest: Read) -> Result<LoopProgress, NoReading> {
    let passes = latest.0.checked_sub(first.0).filter(|passes| *passes > 0).ok_or(NoReading::NotTwice)?;
    if !how_far.agree(first.1, latest.1, passes) {
        return Err(NoReading::Unsteady);
    }
    Ok(LoopProgress {
        pass: latest.0,
        done: how_far.done(latest.1),
        remaining: how_far.remaining(latest.1),
        may_end_before: how_far.may_end_before(),
        is_sure: how_far.is_sure(),
        seen: None,
    })
}

/// The counter of a loop, for those who read it otherwise than by the marker's probe: at the instruction where its passes
/// are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopCounter {
    how_far: HowFar,
    site: ProcAddr,
}

impl LoopCounter {
    /// That of one loop of the function that begins at an address.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn of(modules: &Modules, begins: ProcAddr, number: &[u32]) -> Result<LoopCounter, NoReading> {
        let counter = LoopCounter::at(modules, begins, number, &|inside, found| {
            let (sites, _) = inside.loop_pass(found).map_err(Obstacle::from)?;
            seen_at(inside, number, &sites).map(|(_, site)| site)
        })?;
        if counter.how_far.is_sure() { Ok(counter) } else { Err(Unsure::Shared.into()) }
    }

    /// The same, to be read at the instruction that has its bytes at `within`: a call that is made in its passes. Other code may
    /// change it.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn within(
        modules: &Modules,
        begins: ProcAddr,
        number: &[u32],
        within: ProcAddr,
    ) -> Result<LoopCounter, NoReading> {
        LoopCounter::at(modules, begins, number, &|_, _| Ok(within))
    }

    fn at(
        modules: &Modules,
        begins: ProcAddr,
        number: &[u32],
        site: &dyn Fn(&Inside<'_>, &Loop) -> Result<ProcAddr, NoReading>,
    ) -> Result<LoopCounter, NoReading> {
        let (files, module) = (DebugFiles::of(modules), modules.at(begins));
        let sections = DebugSections::of(&files);
        let sources = Sources::of(&sections);
        let function = module.and_then(|module| module.loaded.image.function_at(module.bias.to_file(begins)));
        modules.look_inside(begins, |inside| {
            let found = inside.flow.loop_numbered(number).ok_or(Obstacle::NoLoop)?;
            let site = site(inside, found)?;
            let how_far = inside.how_far(found, site, (function.is_some_and(is_fortran), &sources))?;
            Ok(LoopCounter { how_far, site })
        })?
    }

    /// Where it is read, in the process that it was looked for in.
    pub fn site(&self) -> ProcAddr {
        self.site
    }

    /// The places to read: counter, bound, and what the counter began with.
    pub fn places(&self) -> [Option<ReadablePlace>; NOTED_FIRST] {
        self.how_far.places()
    }

    /// The place by which it is seen that the loop begins anew, the value there, and whether only its lower half counts.
    pub fn begins_with(&self) -> Option<(usize, u64, bool)> {
        self.how_far.begins_with()
    }

    /// How far the loop is by one look at a frame that stands at its site, in a process whose files lie `shift` bytes
    /// behind where it was looked for; `None`: its values can't be read, or fit no such loop.
    pub fn stand(&self, frame: &FrameRegisters, memory: &Memory, shift: i64) -> Option<LoopStand> {
        let load = |address: u64, bytes| load_word(memory, address, bytes);
        let behind = |register, offset| Some(frame.value(register)?.wrapping_add_signed(offset));
        let value = |place| match place {
            ReadablePlace::Register(number) => frame.value(number),
            ReadablePlace::Frame { register, offset, bytes } => load(behind(register, offset)?, bytes),
            ReadablePlace::Fixed { address, bytes } => load(address.0.wrapping_add_signed(shift), bytes),
            ReadablePlace::Behind { register, slot, offset, bytes } => {
                let pointer = load(behind(register, slot)?, size_of::<u64>() as u32)?;
                load(pointer.wrapping_add_signed(offset), bytes)
            }
        };
        let mut read = [0; NOTED_FIRST];
        for (word, place) in read.iter_mut().zip(self.places()) {
            *word = place.map_or(Some(0), value)?;
        }
        let (read, how_far) = (self.how_far.with_bound(read, &load)?, &self.how_far);
        let to_come = how_far.remaining(read)?.checked_sub(1)?;
        let (may_end_before, is_sure) = (how_far.may_end_before(), how_far.is_sure());
        Some(LoopStand { done: how_far.done(read), to_come, may_end_before, is_sure })
    }

    /// How far the loop is, from readings in two of its passes, by the passes' numbers.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn progress(&self, first: Read, latest: Read) -> Result<LoopProgress, NoReading> {
        said(&self.how_far, first, latest)
    }
}

/// A pass by its number, and what was read in it of counter, bound and beginning.
pub type Read = (u64, [u64; NOTED_FIRST]);
/// The same, with the registers that its tests are looked at by.
type ReadAll = (u64, [u64; WATCHED_MAX]);

/// The first reading and the latest.
fn readings(header: &Header) -> Option<(Read, Read)> {
    let counted = |(pass, words): ReadAll| (pass, [words[0], words[1], words[2]]);
    Some((counted(whole(&header.readings[0])?), counted(latest(header)?)))
}

/// The latest reading behind the first one.
fn latest(header: &Header) -> Option<ReadAll> {
    let latest = || header.readings[1..].iter().filter_map(whole).max_by_key(|(pass, _)| *pass);
    (0..TRIES_MAX).find_map(|_| latest())
}

/// A reading, unless it is being written.
fn whole(reading: &Reading) -> Option<ReadAll> {
    let pass = reading.pass.load(Acquire);
    let words = std::array::from_fn(|index| reading.words[index].load(Acquire));
    (pass != 0 && reading.pass.load(Acquire) == pass).then_some((pass, words))
}

/// A place as the routine is told it: `stack` is from where the island's rbp points to the program's stack.
fn words(place: ReadablePlace, stack: i64) -> (u64, u64, u64) {
    let (number, offset, bytes) = match place {
        ReadablePlace::Register(number) => (number, 0, 0),
        ReadablePlace::Behind { register, slot, offset, bytes } => {
            let (how, slot, _) = words(ReadablePlace::Frame { register, offset: slot, bytes }, stack);
            return (how | 1 << POINTER_BIT, slot, offset as u64);
        }
        ReadablePlace::Frame { register, offset, bytes } => (register, offset, bytes),
        ReadablePlace::Fixed { address, bytes } => {
            return (holder::STACK | u64::from(bytes) << 16 | 1 << WATCHED_USED_BIT | 1 << NOTHING_BIT, address.0, 0);
        }
    };
    const RSP: u8 = 4;
    let (holder, index) = match number {
        // r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax.
        0 => (holder::SAVED, 8),
        1 => (holder::SAVED, 7),
        2 => (holder::SAVED, 6),
        3 => (holder::KEPT, 0),
        RSP => (holder::STACK, 0),
        5 => (holder::FRAME, 0),
        6 => (holder::SAVED, 5),
        7 => (holder::SAVED, 4),
        8..=11 => (holder::SAVED, u64::from(11 - number)),
        _ => (holder::KEPT, u64::from(number - 11)),
    };
    let offset = offset.wrapping_add(if number == RSP { stack } else { 0 });
    (holder | index << 8 | u64::from(bytes) << 16 | 1 << WATCHED_USED_BIT, offset as u64, 0)
}

/// True if a function's symbol is as Fortran compilers make them.
fn is_fortran(function: &Function) -> bool {
    let is_so = |name: &String| name == "MAIN__" || name.contains("_MOD_") || name.contains("_mp_");
    function.names.iter().any(|name| is_so(name) || (name.ends_with('_') && !name.starts_with('_')))
}
