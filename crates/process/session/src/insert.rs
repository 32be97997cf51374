//! Putting probes into a process: its memory is mapped while it runs, then one stop of all threads, in which those that
//! stand on displaced instructions are moved off and the patches are written.
//!
//! The descriptor (patches with their original bytes, mappings) is complete before the first patch is written, and each
//! patch is valid by itself, so a kill at any instant leaves a program that runs on and can be restored by the next
//! trimtab.
//!
//! Next: `mapping` for the memory, `remove` undoes it all.

use crate::changed::CodeReader;
use crate::claim::Claim;
use crate::ending::Ending;
use crate::error::Error;
use crate::gone::is_changed_by_others;
use crate::handlers::Watch;
use crate::layout::{Layout, describe};
use crate::mapping::{Mapper, check_calls, forsake};
use crate::modules::Modules;
use crate::payload::Payload;
use crate::prepared::Prepared;
use crate::reach::{MARGIN, own_routines, place_near};
use crate::remove::restore;
use crate::serving::{FOUND_AT, HELD_AT, WORDS_AT};
use crate::target::{Removal, Target};
use crate::threads::{FunctionRange, Ranges, Stacks, Stand, inside, stands};
use std::mem::offset_of;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, Release};
use trimtab_os::last_act::Held;
use trimtab_os::{MappingTable, Memory, SharedMapping, Stopped};
use trimtab_plan::{
    ArenaPlace, GatherAt, Plan, PlannedFunction, PlannedSite, Routines, build, build_gather, build_script, code_needed,
    frames_needed, gather_code_needed,
};
use trimtab_stub::layout::{
    ABSENT, FunctionLimit, FunctionStat, Geometry, Header, MAGIC, MAPPINGS_MAX, Needs, PAGE, Probe,
    SLOT_HASH_MULTIPLIER, flag, gate, kind, part, role, round_up, state,
};
use trimtab_stub::view::View;
use trimtab_types::{Pid, ProcAddr, notice, one_line};
use trimtab_x86::{Carrier, Inline, InlineNumbers, InlineSlot, NotCopyable, check_copyable};

/// Stops tried while a thread stands where it can't be moved from.
const STOPS_MAX: u64 = 20;
/// Times other places are looked for when another thread has just mapped something there.
const PLACES_MAX: usize = 5;
/// Time for that thread to go on before the second stop; it grows with each, because on a busy machine the thread first
/// has to get a processor.
const REST_US: u64 = 300;

/// The caller's facts about a window's shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Functions (of which several probes may share one).
    pub functions: u64,
    /// Ranks of the job.
    pub ranks: u64,
    /// Trace records per function.
    pub details: u64,
}

/// A process with probes in it. Dropping it removes them.
#[derive(Debug)]
pub struct Inserted {
    pid: Pid,
    shared: SharedMapping,
    pub(crate) target: Target,
    /// Places patched, without those that serve safety only.
    pub point_count: usize,
    /// How long the process was held, all stops together, nanoseconds.
    pub pause_ns: u64,
    /// Threads that were inside a measured function already, as (thread pointer, probe): they passed no entry probe.
    pub inside: Vec<(u64, u32)>,
    removed: bool,
    /// Looks for fault handlers that the program sets meanwhile, if that matters.
    pub(crate) watch: Option<Watch>,
    /// Tells when the process ends, and by what.
    pub(crate) ending: Option<Ending>,
    /// Numbers of the probes at functions that a rank calls last.
    pub(crate) last_calls: Vec<u32>,
    /// The patched program, in words.
    pub(crate) patched: String,
    /// Where each patch lies, with the name of its function.
    pub(crate) patch_places: Vec<(Range<u64>, String)>,
    /// How long the process was held to take single functions out, nanoseconds.
    pub(crate) pause_taking_ns: u64,
    /// True if a walk of stacks finds no gap in the code that was put in.
    pub are_frames_known: bool,
    /// Until nothing is in the process any more.
    held: Option<Held>,
}

/// A process that is to be patched before it runs on.
pub(crate) struct Still<'a> {
    pub pid: Pid,
    /// It stands still, as long as it can have its memory mapped so.
    pub stopped: Option<Stopped>,
    /// Asked in the stop in which the patches are written: it may have run on meanwhile all the same.
    pub may_patch: &'a dyn Fn() -> Result<(), Error>,
}

impl Prepared {
    /// The plan as it would be carried out now, for `--dry-run`.
    pub fn dry_run(&self, pid: Pid, setup: Setup) -> Result<Plan, Error> {
        let maps = MappingTable::of(pid)?;
        Ok(self.layout(pid, setup, &maps, 1)?.plan)
    }

    /// The plan for a file by itself, as if it were loaded at the addresses it is linked for.
    ///
    /// # Errors
    /// As [`Prepared::dry_run`].
    pub fn dry_run_of_file(&self, modules: &Modules, setup: Setup) -> Result<Plan, Error> {
        let mut maps = MappingTable::default();
        for module in &modules.modules {
            let segments = &module.loaded.image.segments;
            let ends = segments.iter().map(|segment| segment.addr.0.saturating_add(segment.mem_size));
            if let (Some(start), Some(end)) = (segments.iter().map(|segment| segment.addr.0).min(), ends.max()) {
                reserve(&mut maps, start, end - start);
            }
        }
        Ok(self.layout(modules.pid, setup, &maps, 1)?.plan)
    }

    /// Inserts the probes. `initialise` fills in the header's settings before any probe can run.
    pub fn insert(&self, pid: Pid, setup: Setup, initialise: &dyn Fn(View<'_>)) -> Result<Inserted, Error> {
        self.insert_into(Still { pid, stopped: None, may_patch: &|| Ok(()) }, setup, initialise)
    }

    /// The same into a process that stands still for us.
    pub(crate) fn insert_into(
        &self,
        mut still: Still<'_>,
        setup: Setup,
        initialise: &dyn Fn(View<'_>),
    ) -> Result<Inserted, Error> {
        let pid = still.pid;
        // A script may have nothing to patch yet: its clock runs, and its places may come with a library.
        if self.functions.is_empty() && !matches!(self.payload, Payload::Script(_)) {
            return Err(Error::NothingToDo { pid });
        }
        check_calls(pid)?;
        let _claim = Claim::of(pid)?;
        for attempt in 1.. {
            let maps = MappingTable::of(pid)?;
            let threads = trimtab_os::thread_ids(pid)?.len() as u64;
            let layout = self.layout(pid, setup, &maps, threads)?;
            match self.insert_at(&mut still, setup, (&maps, &layout), initialise) {
                Err(Error::NoRoom { .. }) if attempt < PLACES_MAX => {}
                other => return other,
            }
        }
        Err(Error::PlacesTaken { pid })
    }

    fn layout(&self, pid: Pid, setup: Setup, maps: &MappingTable, threads: u64) -> Result<Layout, Error> {
        let routines = own_routines();
        if matches!(self.payload, Payload::Window) {
            check(&routines)?;
        }
        let mut maps = maps.clone();
        let places = self.places(pid, &mut maps, &routines)?;
        if 1 + 2 * places.len() > MAPPINGS_MAX {
            return Err(Error::FarApart { pid, places: places.len() });
        }
        let needs = Needs {
            // A jump, a springboard and a carrier at most.
            patches: self.site_count() as u64 * 3,
            probes: self.probes.len() as u64 + 1,
            functions: setup.functions + 1,
            ranks: setup.ranks,
            details: setup.details,
            code: places.iter().map(|place| place.capacity).sum(),
            threads,
            areas: self.payload.areas(),
            regions: self.probes().any(|probe| probe.part != part::NONE),
        };
        let mut geometry = Geometry::for_needs(&needs);
        let near = self.arena_modules.first().map_or(self.program.clone(), |(_, text)| text.clone());
        let gap = maps.gap_near(near, geometry.data_length, 1 << 46, MARGIN);
        let header = ProcAddr(gap.ok_or_else(|| Error::NoRoom { pid, module: "shared memory".into() })?);
        let hold_words = header + WORDS_AT;
        let build = || match &self.payload {
            Payload::Hold(passes) => build_gather(&self.functions, &places, GatherAt { words: hold_words, passes }),
            Payload::Script(script) => {
                build_script(&self.functions, &places, hold_words, &script.placed(header, &geometry))
            }
            Payload::Window => {
                let functions = self.functions_with_inline(setup, &geometry);
                build(&functions, &places, (header, hold_words), &routines, self.probes.len() as u32)
            }
        };
        let failed = |reason| Error::Plan { pid, reason };
        let mut plan = build().map_err(failed)?;
        let frames = match plan.add_frames(&self.functions, &places, &*self.frame_rules()) {
            Ok(frames) => frames,
            Err(_) => {
                plan = build().map_err(failed)?;
                None
            }
        };
        geometry.patch_count = plan.patches.len() as u64;
        if let Some(frames) = &frames {
            (geometry.frames_at, geometry.frames_bytes) = (frames.table.start.0, frames.table.end - frames.table.start);
            geometry.frames_patches = frames.patches as u64;
        }
        let frames_are_whole = frames.is_some_and(|frames| frames.is_whole);
        Ok(Layout { header, places, geometry, plan, frames_are_whole })
    }

    /// Where the arenas will lie. One of them has room for the unwind tables of all, if there are any.
    fn places(&self, pid: Pid, maps: &mut MappingTable, routines: &Routines<'_>) -> Result<Vec<ArenaPlace>, Error> {
        let code_of = |(arena, (_, text)): (usize, &(String, Range<u64>))| match &self.payload {
            Payload::Hold(_) => Ok(gather_code_needed(&self.functions, arena)),
            Payload::Script(script) => script.code_needed(pid, &self.functions, arena, ProcAddr(text.start)),
            Payload::Window => Ok(code_needed(routines, &self.functions, arena)),
        };
        let mut needed = self.arena_modules.iter().enumerate().map(code_of).collect::<Result<Vec<u64>, Error>>()?;
        if let Some(arena) = self.frames_arena() {
            needed[arena] += frames_needed(needed.iter().sum());
        }
        let mut places = Vec::new();
        for ((module, text), needed) in self.arena_modules.iter().zip(needed) {
            let capacity = round_up(needed, PAGE);
            let length = capacity + PAGE;
            let start = place_near(maps, text, length).ok_or_else(|| Error::NoRoom { pid, module: module.clone() })?;
            reserve(maps, start, length);
            let gate = ProcAddr(start);
            places.push(ArenaPlace { gate, code: gate + PAGE, capacity });
        }
        Ok(places)
    }

    /// Where functions lie, with the numbers of their probes.
    fn function_ranges(&self) -> Vec<FunctionRange> {
        let all = self.probes.iter().zip(0..).map(|(probed, number)| (probed.range.clone(), number));
        all.filter(|(range, _)| !range.is_empty()).collect()
    }

    fn functions_with_inline(&self, setup: Setup, geometry: &Geometry) -> Vec<PlannedFunction> {
        let mut functions = self.functions.clone();
        for function in &mut functions {
            function.inline = self.probe(function.probe).and_then(|probe| inline_of(&settled(probe, setup), geometry));
        }
        functions
    }

    fn insert_at(
        &self,
        still: &mut Still<'_>,
        setup: Setup,
        (maps, layout): (&MappingTable, &Layout),
        initialise: &dyn Fn(View<'_>),
    ) -> Result<Inserted, Error> {
        let pid = still.pid;
        let probes: Vec<Probe> = self.probes().map(|probe| settled(probe, setup)).collect();
        let fill = |view: View<'_>| {
            describe(view, layout, &probes);
            initialise(view);
            view.header().magic.store(MAGIC, Release);
        };
        let held = Some(Held::of(pid));
        let mut mapper = Mapper { pid, gadgets: self.gadgets, maps, layout, still: still.stopped.take(), pause_ns: 0 };
        let shared = mapper.map(&fill)?;
        still.stopped = mapper.still.take();
        let mut target = Target::new(layout.header, &layout.places, &layout.plan, layout.geometry, self.gadgets);
        target.functions = (Ranges::new(self.function_ranges()), self.program.clone());
        let mut inserted = Inserted {
            pid,
            shared,
            target,
            point_count: asked_patches(&layout.plan),
            pause_ns: mapper.pause_ns + self.handlers.pause_ns,
            inside: Vec::new(),
            removed: false,
            watch: self.watch(),
            ending: Ending::of(pid),
            last_calls: self.last_calls(),
            patched: self.patched(),
            patch_places: patch_places(&layout.plan),
            pause_taking_ns: 0,
            are_frames_known: layout.frames_are_whole && self.frames_reach_all,
            held,
        };
        // On an error the memory is unmapped as it is dropped.
        if still.stopped.is_none() {
            self.check_handlers(pid)?;
        }
        self.patch(layout, maps, &mut inserted, still)?;
        Ok(inserted)
    }

    /// Writes the patches, in a stop in which every thread can be moved off the displaced instructions.
    fn patch(
        &self,
        layout: &Layout,
        planned: &MappingTable,
        inserted: &mut Inserted,
        still: &mut Still<'_>,
    ) -> Result<(), Error> {
        if let Some(address) = inserted.target.patches.first_changed(&Memory::open(inserted.pid)?) {
            return Err(foreign(inserted.pid, layout, planned, address));
        }
        let displaced = self.displaced();
        for attempt in 1u64.. {
            let maps = MappingTable::of(inserted.pid)?;
            let mut stopped = still.stopped.take().map_or_else(|| Stopped::stop(inserted.pid), Ok)?;
            let patched = (still.may_patch)().and_then(|()| {
                self.patch_stopped(&mut stopped, &maps, layout, (&inserted.target, &displaced, planned))
            });
            inserted.pause_ns += stopped.resume();
            match patched {
                Err(Error::ThreadInTheWay { .. }) if attempt < STOPS_MAX => {
                    std::thread::sleep(std::time::Duration::from_micros(REST_US * attempt));
                }
                Err(error) => return Err(error),
                Ok(inside) => {
                    inserted.inside = inside;
                    break;
                }
            }
        }
        Ok(())
    }

    fn patch_stopped(
        &self,
        stopped: &mut Stopped,
        maps: &MappingTable,
        layout: &Layout,
        (target, displaced, planned): (&Target, &Ranges, &MappingTable),
    ) -> Result<Vec<(u64, u32)>, Error> {
        check_thread_pointers(stopped)?;
        let stacks = Stacks::read(stopped, maps);
        self.check_caught(stopped.pid())?;
        let moves = self.moves(stopped, &stacks, layout, displaced)?;
        let inside = inside(stopped, &stacks, &target.functions.0, &target.functions.1);
        move_threads(stopped, &moves)?;
        if let Some(address) = target.patches.write(stopped)? {
            return Err(foreign(stopped.pid(), layout, planned, address));
        }
        open_gates(stopped, layout)?;
        Ok(inside)
    }

    /// Where a thread can't stay, with the place of the function among all.
    fn displaced(&self) -> Ranges {
        let of_site = |index: usize, site: &PlannedSite| {
            let carrier = site.site.carrier.as_ref().map(Carrier::covered);
            [Some(site.site.covered()), carrier]
                .into_iter()
                .flatten()
                .map(move |range| (range.start.0..range.end.0, index as u32))
        };
        let functions = self.functions.iter().enumerate();
        let all =
            functions.flat_map(|(index, function)| function.sites.iter().flat_map(move |site| of_site(index, site)));
        Ranges::new(all.collect())
    }

    /// Threads and signal frames that stand on displaced instructions, with where they go on.
    fn moves(
        &self,
        stopped: &Stopped,
        stacks: &Stacks,
        layout: &Layout,
        displaced: &Ranges,
    ) -> Result<Vec<(Stand, ProcAddr)>, Error> {
        let mut moves = Vec::new();
        for stand in stands(stopped, stacks, self.gadgets.signal_return) {
            if self.is_setting(stand.address()) {
                return Err(Error::ThreadInTheWay { pid: stopped.pid(), function: "sigaction".into() });
            }
            let Some(index) = displaced.behind_start(stand.address()) else { continue };
            let function = &self.functions[index as usize];
            match layout.plan.moved(ProcAddr(stand.address())) {
                Some(new) => moves.push((stand, new)),
                None => return Err(Error::ThreadInTheWay { pid: stopped.pid(), function: function.name.clone() }),
            }
        }
        Ok(moves)
    }
}

fn patch_places(plan: &Plan) -> Vec<(Range<u64>, String)> {
    let place = |patch: &trimtab_plan::Patch| patch.address.0..patch.address.0 + patch.patched.len() as u64;
    plan.patches.iter().map(|patch| (place(patch), patch.function.clone())).collect()
}

/// Patches that were asked for.
fn asked_patches(plan: &Plan) -> usize {
    plan.patches.iter().filter(|patch| patch.function != HELD_AT && patch.function != FOUND_AT).count()
}

/// Checks that they may be copied into another program. Looked at once: they are part of this one.
fn check(routines: &Routines<'_>) -> Result<(), Error> {
    static CHECKED: OnceLock<Result<(), NotCopyable>> = OnceLock::new();
    let checked = CHECKED.get_or_init(|| check_copyable(routines.bytes));
    checked.clone().map_err(|source| Error::Build { source })
}

/// The inline work of a simple probe's islands; the routine knows them by [`flag::SIMPLE`].
fn inline_of(probe: &Probe, geometry: &Geometry) -> Option<Inline> {
    let timed = probe.flags & flag::SIMPLE != 0;
    let is_function = probe.role == role::FUNCTION;
    let counted = is_function && probe.flags == 0 && probe.kind == kind::NONE && probe.argument == ABSENT;
    let stat = geometry.stats_offset + u64::from(probe.function) * size_of::<FunctionStat>() as u64;
    let at = |offset: usize| (stat + offset as u64) as u32;
    let numbers = InlineNumbers {
        calls: at(offset_of!(FunctionStat, calls)),
        ticks: at(offset_of!(FunctionStat, ticks)),
        first: at(offset_of!(FunctionStat, first_ticks)),
        last: at(offset_of!(FunctionStat, last_ticks)),
        bytes: at(offset_of!(FunctionStat, bytes)),
        bytes_max: at(offset_of!(FunctionStat, bytes_max)),
        open_stack: at(offset_of!(FunctionStat, open_stack)),
        open_ticks: at(offset_of!(FunctionStat, open_ticks)),
    };
    let limit = geometry.limits_offset + u64::from(probe.function) * size_of::<FunctionLimit>() as u64;
    let limit_at = |offset: usize| (limit + offset as u64) as u32;
    let slot = InlineSlot {
        header_at: gate::HEADER,
        slots_at: gate::SLOTS,
        multiplier: SLOT_HASH_MULTIPLIER,
        shift: geometry.slot_shift as u8,
        stride: geometry.slot_stride as u32,
        state_at: offset_of!(Header, state) as u32,
        recording: state::RECORD as u8,
        first_ticks_at: offset_of!(Header, first_ticks) as u32,
        look_at_calls_at: limit_at(offset_of!(FunctionLimit, look_at_calls)),
        stopped_ticks_at: limit_at(offset_of!(FunctionLimit, stopped_ticks)),
    };
    let bytes = (probe.kind == kind::PLAIN_BYTES).then_some(probe.count);
    (timed || counted).then_some(Inline { slot, numbers, timed, bytes })
}

/// The probe as the routine is to see it: simple where it can be and no trace records are asked for.
fn settled(probe: &Probe, setup: Setup) -> Probe {
    let simple = if probe.is_simple() && setup.details == 0 { flag::SIMPLE } else { 0 };
    Probe { flags: probe.flags | simple, ..*probe }
}

/// Marks a range as taken, for further searches.
fn reserve(maps: &mut MappingTable, start: u64, length: u64) {
    let index = maps.0.partition_point(|mapping| mapping.end <= start);
    let taken = trimtab_os::Mapping { start, end: start + length, readable: true, ..Default::default() };
    maps.0.insert(index, taken);
}

fn check_thread_pointers(stopped: &Stopped) -> Result<(), Error> {
    let ranges: Vec<_> = stopped.threads().iter().map(|thread| (thread.registers.fs_base, 8)).collect();
    for (thread, word) in stopped.threads().iter().zip(stopped.memory().read_many(&ranges)) {
        let base = thread.registers.fs_base;
        if base == 0 || word != base.to_le_bytes() {
            return Err(trimtab_os::Error::NoThreadPointer { tid: thread.tid }.into());
        }
    }
    Ok(())
}

/// The place at `address` no longer holds the bytes that the plan was made from. `planned` is the map at that time.
fn foreign(pid: Pid, layout: &Layout, planned: &MappingTable, address: u64) -> Error {
    let patch = layout.plan.patches.iter().find(|patch| patch.address.0 == address);
    let function = patch.map_or_else(|| format!("{address:#x}"), |patch| patch.function.clone());
    let length = patch.map_or(1, |patch| patch.original.len());
    if is_changed_by_others(pid, planned, address, length) {
        let wanted = patch.map_or(&[][..], |patch| patch.original.as_slice());
        Error::ForeignPatch { function, cause: CodeReader::new(pid, planned).why(address, wanted) }
    } else {
        Error::CodeGone { pid, function }
    }
}

fn move_threads(stopped: &mut Stopped, moves: &[(Stand, ProcAddr)]) -> Result<(), Error> {
    for (stand, new) in moves {
        match *stand {
            Stand::Thread { index, .. } => stopped.move_thread(index, new.0)?,
            Stand::SignalFrame { saved_at, .. } => stopped.memory().write(saved_at, &new.0.to_le_bytes())?,
        }
    }
    Ok(())
}

fn open_gates(stopped: &Stopped, layout: &Layout) -> Result<(), Error> {
    for place in &layout.places {
        let slots = layout.header + layout.geometry.slots_offset;
        stopped.memory().write((place.gate + gate::HEADER).0, &layout.header.0.to_le_bytes())?;
        stopped.memory().write((place.gate + gate::SLOTS).0, &slots.0.to_le_bytes())?;
        stopped.memory().write((place.gate + gate::OPEN).0, &1u32.to_le_bytes())?;
    }
    Ok(())
}

impl Inserted {
    /// The process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its shared memory.
    pub fn view(&self) -> View<'_> {
        View::laid_out(self.shared.words(), &self.target.geometry)
    }

    /// True if our memory is still mapped there: false after the process has executed another program or ended.
    ///
    /// This is asked often, and a large program's memory map takes long to read: instead the beginning of our memory is
    /// read there and compared with what it is here. No other memory has the same maker, checksum and place.
    pub fn is_alive(&self) -> bool {
        let here = self.shared.words().iter().take(offset_of!(Header, mapping_count) / 8);
        let here: Vec<u8> = here.flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let there = Memory::open(self.pid).and_then(|memory| memory.read_vec(self.target.header, here.len()));
        there.is_ok_and(|there| there == here)
    }

    /// Restores every byte and unmaps our memory; the shared memory stays readable here.
    pub fn remove(&mut self) -> Result<Removal, Error> {
        self.removed = true;
        // Whatever keeps us from it, a process that has ended above all, is no reason to leave anything in.
        let _claim = Claim::of(self.pid);
        let removal = restore(self.pid, &self.target)?;
        self.held = None;
        Ok(removal)
    }
}

impl Inserted {
    /// From now on it is another's to take it out.
    pub(crate) fn leave(&mut self) {
        self.removed = true;
    }
}

impl Drop for Inserted {
    fn drop(&mut self) {
        if !self.removed {
            // Nobody is left to report to; what stays behind can be undone by whoever looks next.
            if let Err(error) = self.remove() {
                forsake(&self.shared);
                let (pid, why) = (self.pid, one_line(&error));
                if trimtab_os::runs(pid) {
                    notice(&format!("process {pid}: probes stay in it: {why}. Next: trimtab undo {pid}"));
                }
            }
        }
    }
}
