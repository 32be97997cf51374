//! A probe script in one process: which functions get which bodies, and its variables as they stand now.
//!
//! The script's memory is part of what [`Inserted`] shares with the process: a process area (variables all threads see,
//! tables of readable memory, the ring of messages) and one area per thread.
//!
//! Next: `trimtab-plan`'s scripts, which compile the bodies; `insert`, which is the same as for measuring.

use crate::errno::errno_at;
use crate::error::Error;
use crate::insert::Inserted;
use crate::modules::Modules;
use crate::obstacle::Obstacle;
use crate::payload::{MESSAGES_BYTES, Payload, ScriptSource, ranges_at, ring_at};
use crate::prepared::Prepared;
use crate::purpose::Purpose;
use crate::ranges::{Area, RangeTables};
use crate::request::{FunctionRequest, InnerRequest, Lost, Refused, ScriptRequest, Work};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use trimtab_os::{MappingTable, vector_state};
use trimtab_plan::{FunctionBodies, Keeps};
use trimtab_snippet::ir::{self, Kind, Unit, Variable, process_word, thread_word};
use trimtab_stub::layout::Geometry;
use trimtab_stub::view::View;

impl Prepared {
    /// Decides about each function of a script, and about the places inside functions. Bodies are added to `unit` that follow
    /// calls behind jumps.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn for_script(
        modules: &Modules,
        requests: &[ScriptRequest],
        inner: &[InnerRequest],
        unit: &mut Unit,
    ) -> Result<Self, Error> {
        Prepared::of_script(modules, requests, inner, (unit, true))
    }

    /// The same for a library that comes while the script's memory is laid out already: no call is followed.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn for_late_script(
        modules: &Modules,
        requests: &[ScriptRequest],
        inner: &[InnerRequest],
        unit: &Unit,
    ) -> Result<Self, Error> {
        Prepared::of_script(modules, requests, inner, (&mut unit.clone(), false))
    }

    fn of_script(
        modules: &Modules,
        requests: &[ScriptRequest],
        inner: &[InnerRequest],
        (unit, follows): (&mut Unit, bool),
    ) -> Result<Self, Error> {
        let functions: Vec<FunctionRequest> = requests.iter().map(function_request).collect();
        let unit_before = unit.clone();
        let mut prepared = Prepared::decided(modules, &functions, &OfScript { requests, follows })?;
        for (function, probed) in prepared.functions.iter_mut().zip(&prepared.probes) {
            let of_function = requests.iter().filter(|request| Some(request.address) == probed.address);
            // Where no exit is asked for, there is none to leave out.
            let is_endless = !probed.work.sees_ends();
            let mut bodies = FunctionBodies::default();
            for request in of_function {
                let serves = |body: &&usize| is_endless && request.serve_exits.contains(body);
                bodies.entry.extend(request.bodies.entry.iter().filter(|body| !serves(body)));
                bodies.exit.extend(request.bodies.exit.iter().filter(|_| !is_endless));
            }
            function.bodies = Some(bodies);
        }
        prepared.hand_over(requests, unit);
        prepared.lost = prepared.lost_of(requests);
        let memory = modules.memory()?;
        prepared.add_inner(modules, memory.as_ref(), inner);
        if !prepared.hold_handlers(modules, memory.as_ref()) {
            *unit = unit_before;
            return Prepared::of_script(&modules.clone().with_handlers_unseen(), requests, inner, (unit, follows));
        }
        if follows {
            prepared.describe_frames(modules, memory.as_ref());
        }
        let keeps = vector_state().zip(errno_at(modules)).map(|(vectors, errno_at)| Keeps { vectors, errno_at });
        prepared.payload = Payload::Script(ScriptSource { unit: unit.clone(), keeps });
        Ok(prepared)
    }
}

impl Prepared {
    /// Bodies that don't run at functions where they should.
    fn lost_of(&self, requests: &[ScriptRequest]) -> Vec<Lost> {
        let why = |all: &[Refused], name: &str| {
            all.iter()
                .find(|one| one.name == name)
                .map_or_else(|| "it can't be probed".to_owned(), |one| one.reason.to_string())
        };
        let mut lost = Vec::new();
        for request in requests {
            let FunctionBodies { entry, exit, .. } = &request.bodies;
            let number = self.probe_at(request.address);
            let is_endless = |number: u32| !exit.is_empty() && !self.probes[number as usize].work.sees_ends();
            let (bodies, reason): (Vec<usize>, String) = match number {
                None => (
                    entry.iter().chain(exit).copied().collect(),
                    format!("{}: {}", request.name, why(&self.refused, &request.name)),
                ),
                Some(number) if is_endless(number) => (
                    exit.iter().chain(&request.serve_exits).copied().collect(),
                    format!("exit {}: {}", request.name, why(&self.endless, &request.name)),
                ),
                Some(_) => continue,
            };
            lost.extend(bodies.into_iter().map(|body| Lost { body, reason: reason.clone() }));
        }
        lost
    }
}

/// Bodies of a script at exits may be where flags must be kept, and those at an entry run without those at the exits.
struct OfScript<'a> {
    requests: &'a [ScriptRequest],
    /// True if calls are followed behind jumps.
    follows: bool,
}

impl Purpose for OfScript<'_> {
    fn keeps_flags(&self) -> bool {
        true
    }

    fn behind_jumps(&self) -> Option<Work> {
        self.follows.then_some(Work::Code { sees_ends: true })
    }

    /// Entries run again then, and what they keep is of the last one.
    fn follows_rounds(&self) -> bool {
        false
    }

    fn asks_for_ends(&self, request: &FunctionRequest) -> bool {
        self.requests.iter().any(|one| one.address == request.address && !one.asking.is_empty())
    }

    fn counts(&self, request: &FunctionRequest, _: &Obstacle) -> bool {
        let mut of_function = self.requests.iter().filter(|one| one.address == request.address);
        of_function.any(|one| !one.needs_exits && one.bodies.entry.iter().any(|body| !one.serve_exits.contains(body)))
    }
}

/// Exits are looked for only where something runs there.
fn function_request(request: &ScriptRequest) -> FunctionRequest {
    let work = Work::Code { sees_ends: !request.bodies.exit.is_empty() };
    FunctionRequest { name: request.name.clone(), address: request.address, work }
}

/// The values that the process area must hold before the first body runs.
#[derive(Clone, Copy, Debug)]
pub struct ScriptStart {
    /// MPI rank and number of ranks, or -1.
    pub rank: (i64, i64),
    /// Time stamp counter ticks per second.
    pub ticks_per_second: f64,
    /// True if it records from the start.
    pub recording: bool,
}

/// A script's memory as trimtab sees it.
#[derive(Clone, Copy, Debug)]
pub struct ScriptView<'a> {
    view: View<'a>,
    geometry: Geometry,
}

impl<'a> ScriptView<'a> {
    /// The script's part of shared memory; `None` if there is no script in it.
    pub fn of(view: View<'a>) -> Option<Self> {
        let geometry = view.geometry();
        (geometry.process_area_offset != 0).then_some(ScriptView { view, geometry })
    }

    fn process_word(&self, word: u32) -> &'a std::sync::atomic::AtomicU64 {
        self.view.word(self.geometry.process_area_offset + u64::from(word))
    }

    /// Fills the process area; to be called from the `initialise` of [`Prepared::insert`].
    pub fn start(&self, unit: &Unit, start: ScriptStart) {
        let nanoseconds = (1e9 / start.ticks_per_second * 4_294_967_296.0).round() as u64;
        for (word, value) in [
            (process_word::RANK, start.rank.0 as u64),
            (process_word::RANKS, start.rank.1 as u64),
            (process_word::MESSAGES, ring_at(unit)),
            (process_word::MESSAGES_BYTES, MESSAGES_BYTES),
            (process_word::TICKS_PER_SECOND, start.ticks_per_second as u64),
            (process_word::NS_PER_TICK_SHIFTED, nanoseconds),
        ] {
            self.process_word(word).store(value, Relaxed);
        }
        self.process_word(process_word::RECORDING).store(u64::from(start.recording), Release);
    }

    /// The tables of memory that bodies may touch, still empty.
    pub fn tables(unit: &Unit) -> RangeTables {
        RangeTables::at(ranges_at(unit))
    }

    /// Tells bodies which memory may be read and written: what the process has mapped now, without devices. Unless the
    /// calls that take memory away are `guarded`, only files and the main stack.
    pub fn set_ranges(&self, tables: &mut RangeTables, maps: &MappingTable, guarded: bool) {
        tables.set(Area { view: self.view, at: self.geometry.process_area_offset }, maps, guarded);
    }

    /// Before one looks what is mapped. False if a thread is inside a call that takes memory away, by the word of its area
    /// at `inside_at`: try again later.
    pub fn begin_ranges(&self, inside_at: u32) -> bool {
        self.process_word(process_word::TABLES_SEEN).store(1, SeqCst);
        !self.owned_areas().any(|place| self.view.word(place + u64::from(inside_at)).load(SeqCst) != 0)
    }

    /// After [`ScriptView::set_ranges`]: empties the tables again if such a call has begun meanwhile, since what was found
    /// to be mapped may have gone.
    pub fn end_ranges(&self) {
        if self.process_word(process_word::TABLES_SEEN).load(SeqCst) == 0 {
            self.process_word(process_word::RANGE_COUNT).store(0, SeqCst);
            self.process_word(process_word::WRITABLE_COUNT).store(0, SeqCst);
        }
    }

    /// Hits on threads that found no area of their own.
    pub fn threads_dropped(&self) -> u64 {
        self.process_word(process_word::THREADS_DROPPED).load(Relaxed)
    }

    /// True if a call that takes memory away has emptied the tables.
    pub fn is_emptied(&self) -> bool {
        self.process_word(process_word::RANGE_COUNT).load(Acquire) == 0
    }

    /// Loads and stores refused so far, because the tables do not have their addresses.
    pub fn refused_count(&self) -> u64 {
        self.owned_areas().map(|place| self.view.word(place + u64::from(thread_word::UNREADABLE)).load(Relaxed)).sum()
    }

    /// Lets bodies run, or not.
    pub fn set_recording(&self, recording: bool) {
        self.process_word(process_word::RECORDING).store(u64::from(recording), Release);
    }

    /// True if bodies run.
    pub fn is_recording(&self) -> bool {
        self.process_word(process_word::RECORDING).load(Acquire) != 0
    }

    /// True if the script has called `stop()`.
    pub fn is_stopped(&self) -> bool {
        self.process_word(process_word::STOPPED).load(Acquire) != 0
    }

    /// All words of the process area that hold variables.
    pub fn process_area(&self, unit: &Unit) -> Vec<u64> {
        self.words(self.geometry.process_area_offset, unit.process_bytes)
    }

    /// Carries over what a body that ran outside has changed between `before` and `after`: sums are added to, because the
    /// process's threads add to them too, other words are set.
    pub fn change_process_area(&self, unit: &Unit, before: &[u64], after: &[u64]) {
        let changed = before.iter().zip(after).enumerate().filter(|(_, (before, after))| before != after);
        for (index, (before, after)) in changed {
            let offset = index as u32 * 8;
            let word = self.process_word(offset);
            let is_it = |variable: &&Variable| variable.area == ir::Area::Process && variable.offset == offset;
            match unit.variables.iter().find(is_it).map(|variable| variable.kind) {
                Some(Kind::Sum) => drop(word.fetch_add(after.wrapping_sub(*before), SeqCst)),
                Some(Kind::SumFloat) => {
                    let more = f64::from_bits(*after) - f64::from_bits(*before);
                    let added = |now: u64| Some((f64::from_bits(now) + more).to_bits());
                    // It always has something to put there, so it does not fail.
                    let _ = word.fetch_update(SeqCst, SeqCst, added);
                }
                _ => word.store(*after, SeqCst),
            }
        }
    }

    /// Ends the script, as its own `stop()` does.
    pub fn stop(&self) {
        self.process_word(process_word::STOPPED).store(1, Release);
        self.set_recording(false);
    }

    /// The words of every thread area that a thread has taken.
    pub fn thread_areas(&self, unit: &Unit) -> Vec<Vec<u64>> {
        self.owned_areas().map(|place| self.words(place, unit.thread_bytes)).collect()
    }

    fn owned_areas(self) -> impl Iterator<Item = u64> {
        let places = (0..self.geometry.thread_area_count)
            .map(move |index| self.geometry.thread_areas_offset + index * self.geometry.thread_area_stride);
        places.filter(move |place| self.view.word(place + u64::from(thread_word::OWNER)).load(Relaxed) != 0)
    }

    fn words(&self, place: u64, bytes: u32) -> Vec<u64> {
        (0..u64::from(bytes) / 8).map(|index| self.view.word(place + index * 8).load(Relaxed)).collect()
    }

    /// Bytes ever written to the ring of messages.
    pub fn messages_head(&self) -> u64 {
        self.process_word(process_word::MESSAGES_HEAD).load(Acquire)
    }

    /// The ring of messages, whole, with how many bytes were ever written to it.
    pub fn messages(&self, unit: &Unit) -> (Vec<u8>, u64) {
        let place = self.geometry.process_area_offset + ring_at(unit);
        let head = self.process_word(process_word::MESSAGES_HEAD).load(Acquire);
        (self.view.read_bytes(place, MESSAGES_BYTES as usize), head)
    }

    /// Says that messages up to this many bytes have been read, so that their room is free again.
    pub fn messages_read(&self, bytes: u64) {
        self.process_word(process_word::MESSAGES_TAIL).store(bytes, Release);
    }
}

impl Inserted {
    /// The script's memory, if this insertion was of a script.
    pub fn script(&self) -> Option<ScriptView<'_>> {
        ScriptView::of(self.view())
    }
}
