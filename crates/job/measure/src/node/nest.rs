//! The nest of loops that run in the ranks of this machine: samples of their main threads' stacks, and whose each
//! function is.
//!
//! Ranks of one program have the same files at different addresses, so files are numbered here for all of them together.
//!
//! Next: `trimtab-window`'s `find_nest`, which understands; `trimtab-script`'s `CountedLoops`, which counts.

use super::owners::{SYSTEM, is_binding, is_foreign};
use super::stands::{SeenCall, courses};
use super::starting::wait_for_start;
use super::team::{chosen, program_name};
use super::unrolled::copies;
use crate::error::Error;
use crate::options::{LoopName, Options, dotted};
use crate::reason::{NestUnknown, NoIterations};
use crate::request::{Sampled, SampledLoop};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;
use trimtab_mpi::is_mpi_module;
use trimtab_os::{Memory, age_of};
use trimtab_session::{
    EITHER, ENTRANCES, ImageCache, Inner, Inside, Module, Modules, Obstacle, StackFrame, StackSample, StackSampler,
    each_of,
};
use trimtab_symbols::{SlotTarget, demangle_name};
use trimtab_track::Job;
use trimtab_types::{FileAddr, Pid, ProcAddr, Rank};
use trimtab_window::{
    Binary, FunctionId, FunctionLoop, Nest, NestLoop, Origin, SeenStack, StackCall, Unusable, find_nest,
};

/// Functions in which interpreters and event loops do, again and again, what they are told to.
const INTERPRETERS: [&str; 17] = [
    "_PyEval_EvalFrameDefault",
    "PyEval_EvalFrameEx",
    "JNI_CreateJavaVM",
    "Rf_eval",
    "caml_interprete",
    "execute_ex",
    "luaV_execute",
    "lua_callk",
    "Perl_runops_standard",
    "rb_vm_exec",
    "scm_call_n",
    "jl_apply_generic",
    "Tcl_EvalObjEx",
    "uv_run",
    "event_base_loop",
    "g_main_context_iteration",
    "g_main_loop_run",
];

/// Samples of the main threads of some ranks.
#[derive(Debug)]
pub struct NestSampler {
    ranks: Vec<(u32, StackSampler)>,
    files: Vec<File>,
    /// Their code as it is on disk, where the ranks' own is patched.
    on_disk: Option<Vec<Option<Modules>>>,
    stacks: Vec<SeenStack>,
    cost: SamplingCost,
}

/// The cost of sampling, and the stacks that it did not see.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingCost {
    /// Looks at stacks.
    pub looks: u64,
    /// Those of which not all functions are known, by reason.
    pub unknown: BTreeMap<String, u64>,
    /// The longest time a thread was held, nanoseconds.
    pub pause_ns_max: u64,
    /// All times of each rank together, nanoseconds, in the order of the ranks.
    pub pauses_ns: Vec<u64>,
}

/// A program or library that some ranks have loaded.
#[derive(Clone, Debug)]
struct File {
    path: String,
    build_id: String,
    /// A rank that has it, as an index.
    seen_by: usize,
    origin: Origin,
}

impl NestSampler {
    /// For the main threads of these processes, which must be of one machine; each with its rank.
    ///
    /// # Errors
    /// [`Error::Rank`] if one of them can't be read.
    pub fn new(targets: &[(u32, Pid)], cache: &ImageCache) -> Result<Self, Error> {
        let sampler = |(rank, pid): &(u32, Pid)| {
            let of_rank = |source| Error::Rank { rank: Rank(*rank), pid: *pid, source };
            let exe = program_name(*pid);
            // Whatever else stacks lead through is read then.
            let wanted = |path: &str| path == exe || is_mpi_module(path) || path.contains("/libc.so");
            Ok((*rank, StackSampler::new(*pid, cache, &wanted).map_err(of_rank)?))
        };
        let ranks = targets.iter().map(sampler).collect::<Result<_, Error>>()?;
        let cost = SamplingCost::default();
        Ok(NestSampler { ranks, files: Vec::new(), on_disk: None, stacks: Vec::new(), cost })
    }

    /// Waits until none of the ranks is in `MPI_Init`, where none may be held up.
    pub fn await_start(&self) {
        if self.ranks.len() > 1 {
            wait_for_start(self.ranks.iter().map(|(_, sampler)| sampler.modules()), Duration::ZERO, &|| false);
        }
    }

    /// Looks at each main thread once.
    ///
    /// # Errors
    /// [`Error::Rank`] if one can't be held, because it has ended or somebody else traces it.
    pub fn look(&mut self) -> Result<(), Error> {
        for index in 0..self.ranks.len() {
            let (rank, sampler) = &mut self.ranks[index];
            let (rank, pid) = (*rank, sampler.pid());
            let sample = sampler.take().map_err(|source| Error::Rank { rank: Rank(rank), pid, source })?;
            self.note(index, rank, sample);
        }
        Ok(())
    }

    fn note_pause(&mut self, index: usize, pause_ns: u64) {
        self.cost.pauses_ns.resize(self.ranks.len(), 0);
        self.cost.pauses_ns[index] += pause_ns;
        self.cost.pause_ns_max = self.cost.pause_ns_max.max(pause_ns);
    }

    fn note(&mut self, index: usize, rank: u32, sample: StackSample) {
        self.cost.looks += 1;
        self.note_pause(index, sample.pause_ns);
        match sample.frames {
            Ok(frames) => {
                let call = |frame: &StackFrame| {
                    let function = FunctionId { module: self.file_number(index, frame.module), start: frame.function };
                    StackCall { function, at: frame.at }
                };
                let calls = frames.iter().map(call).collect();
                self.stacks.push(SeenStack { rank, calls });
            }
            Err(reason) => *self.cost.unknown.entry(reason.to_string()).or_default() += 1,
        }
    }

    /// The number of a rank's module among the files of all ranks.
    fn file_number(&mut self, rank: usize, module: usize) -> usize {
        let modules = self.ranks[rank].1.modules();
        let found = &modules.modules[module];
        let build_id = &found.loaded.image.build_id.0;
        let known = self.files.iter().position(|file| file.build_id == *build_id && file.path == found.path);
        known.unwrap_or_else(|| {
            let is_program = module == 0 && modules.has_program();
            let (path, build_id) = (found.path.clone(), build_id.clone());
            self.files.push(File { path, build_id, seen_by: rank, origin: origin_of(found, is_program) });
            self.files.len() - 1
        })
    }

    /// From now on all code is that of the files. Code that loops may be in must be there as it was loaded.
    fn read_files(&mut self, cache: &ImageCache) -> Result<(), NestUnknown> {
        let read = |file: &File| {
            let found = Modules::of_file(Path::new(&file.path), cache).ok();
            let is_it = |modules: &Modules| {
                modules.modules.first().is_some_and(|module| module.loaded.image.build_id.0 == file.build_id)
            };
            match found.filter(is_it) {
                None if matches!(file.origin, Origin::Program | Origin::Library) => {
                    Err(NestUnknown::FileGone { path: file.path.clone() })
                }
                found => Ok(found),
            }
        };
        self.on_disk = Some(self.files.iter().map(read).collect::<Result<_, _>>()?);
        Ok(())
    }

    /// The cost so far.
    pub fn cost(&self) -> &SamplingCost {
        &self.cost
    }

    /// Stacks that are known from end to end.
    pub fn stacks(&self) -> &[SeenStack] {
        &self.stacks
    }

    /// The number of ranks that are looked at.
    pub(super) fn rank_count(&self) -> usize {
        self.ranks.len()
    }

    /// The calls on a rank's stack now, by the rank's position: those whose registers are known. None if it can't be looked at.
    pub(super) fn calls_now(&mut self, rank: usize) -> Vec<SeenCall> {
        let Ok(sample) = self.ranks[rank].1.take() else { return Vec::new() };
        self.note_pause(rank, sample.pause_ns);
        let call = |frame: StackFrame| {
            let function = FunctionId { module: self.file_number(rank, frame.module), start: frame.function };
            Some(SeenCall { function, at: frame.at, registers: frame.registers? })
        };
        sample.frames.unwrap_or_default().into_iter().filter_map(call).collect()
    }

    /// Where a function begins in a rank, by its position, and the rank's memory; `None`: the rank has not loaded it.
    pub(super) fn in_rank(&self, rank: usize, function: FunctionId) -> Option<(ProcAddr, &Memory)> {
        let (file, (_, sampler)) = (&self.files[function.module], self.ranks.get(rank)?);
        let is_it = |module: &&Module| module.path == file.path && module.loaded.image.build_id.0 == file.build_id;
        let module = sampler.modules().modules.iter().find(is_it)?;
        Some((module.bias.to_proc(function.start), sampler.memory()))
    }

    /// The loops that run.
    pub fn nest(&self) -> Nest {
        find_nest(&self.stacks, &Functions { sampler: self, origins: RefCell::default() })
    }

    /// The module of a file, in a rank that has it.
    pub fn module(&self, function: FunctionId) -> &Module {
        let (modules, number) = self.modules_of(function);
        &modules.modules[number]
    }

    /// The modules of a rank that has the file of a function, and the number of that file among them.
    pub fn modules_of(&self, function: FunctionId) -> (&Modules, usize) {
        let file = &self.files[function.module];
        if let Some(modules) = self.on_disk.as_ref().and_then(|files| files.get(function.module)?.as_ref()) {
            return (modules, 0);
        }
        let modules = self.ranks[file.seen_by].1.modules();
        let is_it = |module: &Module| module.path == file.path && module.loaded.image.build_id.0 == file.build_id;
        // A rank that has replaced a file by another one has only that; its functions are looked for there in vain.
        (modules, modules.modules.iter().position(is_it).unwrap_or_default())
    }

    /// The obstacle, for a reader.
    pub fn named(&self, one: &Unusable) -> NestUnknown {
        let name = |function| format!("{} in {}", self.name(function), self.module(function).file_name());
        match *one {
            Unusable::Interpreter(function) => NestUnknown::Interpreter { function: name(function) },
            Unusable::Recursive(function) => NestUnknown::Recursive { function: name(function) },
            Unusable::Unread(function) => {
                let reason = self.looked_inside(function, |_| ()).err().map(|why| why.to_string());
                NestUnknown::Unread { function: name(function), reason: reason.unwrap_or_default() }
            }
            Unusable::NothingInCommon => NestUnknown::NothingInCommon,
        }
    }

    /// Why most stacks are not known, if they are not.
    fn why_unknown(&self) -> Option<NestUnknown> {
        let SamplingCost { looks, ref unknown, .. } = self.cost;
        let (reason, _) = unknown.iter().max_by_key(|(_, count)| **count)?;
        let count: u64 = unknown.values().sum();
        (2 * count > looks).then(|| NestUnknown::Unknown { unknown: count, looks, reason: reason.clone() })
    }

    /// Hands over the inside of a function.
    pub(super) fn looked_inside<T>(
        &self,
        function: FunctionId,
        then: impl FnOnce(&Inside<'_>) -> T,
    ) -> Result<T, Obstacle> {
        let (modules, number) = self.modules_of(function);
        modules.look_inside(modules.modules[number].bias.to_proc(function.start), then)
    }

    /// Points of a script that each pass of a loop goes through and that can be probed where the loop can't be counted.
    pub fn witness_points(&self, nest: &Nest, one: &NestLoop) -> Option<Vec<String>> {
        let LoopName { function, number } = witness(self, nest, one)?;
        let number = number.unwrap_or_default();
        let Some((&ENTRANCES, number)) = number.split_last() else {
            return Some(vec![format!("entry \"{function}\"")]);
        };
        let module = self.module(one.function);
        let entrances = self.looked_inside(one.function, |inside| inside.entrances(number)).ok()?;
        let in_file = entrances.into_iter().map(|entrance| module.bias.to_file(entrance).0);
        Some(in_file.map(|address| format!("at \"{}:{address:#x}\"", module.file_name())).collect())
    }

    /// A function by where it begins in its file, whatever its symbols: `fn_0x1139@libx.so`.
    fn address_name(&self, function: FunctionId) -> String {
        format!("fn_{}", script_name(self.module(function), function.start))
    }

    /// The name of a function as its author wrote it; `fn_0x1139` where symbols have none.
    pub fn name(&self, function: FunctionId) -> String {
        let image = &self.module(function).loaded.image;
        let found = image.function_at(function.start).filter(|found| found.addr == function.start);
        let name = found.map_or_else(|| format!("fn_{:#x}", function.start.0), |found| found.name());
        demangle_name(&name).unwrap_or(name)
    }
}

/// Questions about the files, each answer kept.
struct Functions<'a> {
    sampler: &'a NestSampler,
    origins: RefCell<HashMap<FunctionId, Origin>>,
}

impl Binary for Functions<'_> {
    fn origin(&self, function: FunctionId) -> Origin {
        *self.origins.borrow_mut().entry(function).or_insert_with(|| {
            let of_file = self.sampler.files[function.module].origin;
            let image = &self.sampler.module(function).loaded.image;
            let found = image.function_at(function.start).filter(|found| found.addr == function.start);
            let any = |is: &dyn Fn(&str) -> bool| found.is_some_and(|found| found.names.iter().any(|name| is(name)));
            // A program may have them in its own file.
            match of_file {
                Origin::Program if any(&is_binding) => Origin::Mpi,
                Origin::Program | Origin::Library if any(&|name| INTERPRETERS.contains(&name)) => Origin::Interpreter,
                other => other,
            }
        })
    }

    fn loops(&self, function: FunctionId) -> Option<Vec<FunctionLoop>> {
        let bias = self.sampler.module(function).bias;
        let in_file = |address| bias.to_file(address);
        let found = self.sampler.looked_inside(function, |inside| {
            let range = |block: &usize| &inside.flow.blocks[*block].range;
            let found = inside.flow.loops.iter().map(|one| FunctionLoop {
                number: one.number.clone(),
                header: in_file(one.header_at),
                backs: one.latches.iter().map(|back| in_file(back.from)).collect(),
                blocks: one.blocks.iter().map(|block| in_file(range(block).start)..in_file(range(block).end)).collect(),
            });
            found.collect()
        });
        found.ok()
    }

    fn are_alternatives(&self, function: FunctionId, one: &[u32], other: &[u32]) -> bool {
        self.sampler.looked_inside(function, |inside| inside.flow.are_alternatives(one, other)).unwrap_or(false)
    }
}

/// How loops of a nest are counted: each by its number, or those in which ranks are one instead of the other together, by the
/// first of them; `None`: the loop is one of the others.
pub fn counted_numbers(nest: &Nest) -> Vec<Option<Vec<u32>>> {
    let mut parts: BTreeSet<(FunctionId, Vec<u32>)> = BTreeSet::new();
    let number = |one: &NestLoop| {
        if parts.contains(&(one.function, one.number.clone())) {
            return None;
        }
        parts.extend(one.instead.iter().map(|number| (one.function, number.clone())));
        let mut all = [std::slice::from_ref(&one.number), &one.instead].concat();
        all.sort();
        Some(all.join(&EITHER))
    };
    nest.loops.iter().map(number).collect()
}

/// The owner of most functions of a file.
fn origin_of(module: &Module, is_program: bool) -> Origin {
    let (image, name) = (&module.loaded.image, module.file_name());
    let has = |wanted: &[&str]| wanted.iter().any(|name| image.function_named(name).is_some());
    if !is_program && SYSTEM.iter().any(|part| name.starts_with(part)) {
        return Origin::System;
    }
    if !is_program && is_foreign(module) {
        return Origin::Mpi;
    }
    let asks_for_mpi = image.slots.iter().any(|slot| match &slot.target {
        SlotTarget::Import(name) => trimtab_mpi::canonical(name.split('@').next().unwrap_or(name)).is_some(),
        SlotTarget::Resolved(_) => false,
    });
    match asks_for_mpi {
        false if has(&INTERPRETERS) => Origin::Interpreter,
        false if !is_program => Origin::Library,
        _ => Origin::Program,
    }
}

/// Where a function begins, as scripts name it whatever its symbols: `0x1139@libx.so`.
pub fn script_name(module: &Module, start: FileAddr) -> String {
    format!("{:#x}@{}", start.0, module.file_name())
}

/// Passes in a second above which counting a loop would be felt, so that it is not counted any more.
pub const PASSES_PER_SECOND_MAX: f64 = 1e5;
/// Looks at each rank before a window, and the time between two of them: no longer than anybody notices.
const LOOKS: usize = 12;
const LOOK_EVERY_MS: [u64; 3] = [5, 8, 6];
/// A rank that was started less than so long ago may not have come to its main loop.
const AGE_MIN: Duration = Duration::from_secs(1);
/// Those who ask for a window of a program that runs already.
const TRIGGERS_WAITING: [&str; 2] = ["attach", "measure"];
/// Characters of a function's name that are told of a loop.
const NAME_CHARS_MAX: usize = 60;
/// Loops that a node tells of, the outermost ones. Benchmarks have nine around their solver, one for each parameter.
const LOOPS_MAX: usize = 16;

/// The loops that run in the ranks that are to be measured. It says what stands in the way; and how far they are, if that is
/// wanted.
pub(super) fn sampled(job: &Job, options: &Options, cache: &ImageCache, with_courses: bool) -> Sampled {
    let targets: Vec<(u32, Pid)> =
        chosen(job, options).ranks.iter().map(|process| (process.rank.0, process.pid)).collect();
    // A node none of whose ranks is asked for says nothing, also not that no loop runs.
    if targets.is_empty() || !are_old_enough(&targets, options) {
        return Sampled::default();
    }
    match looked(&targets, options, cache) {
        Ok(mut sampler) => {
            let sampled = of_sampler(&sampler);
            if with_courses { with_courses_of(&mut sampler, sampled) } else { sampled }
        }
        Err(error) => failed(&error),
    }
}

/// The same of ranks in which probes are: their code is read from its files.
pub(super) fn sampled_beside(targets: &[(u32, Pid)], options: &Options, cache: &ImageCache) -> Sampled {
    if targets.is_empty() {
        return Sampled::default();
    }
    let mut sampler = match looked(targets, options, cache) {
        Ok(sampler) => sampler,
        Err(error) => return failed(&error),
    };
    match sampler.read_files(cache) {
        Ok(()) => of_sampler(&sampler),
        Err(why) => Sampled { why_not: Some(why), ..Sampled::default() },
    }
}

/// Why no stacks were seen.
fn failed(error: &Error) -> Sampled {
    let source = std::error::Error::source(error).map_or_else(String::new, ToString::to_string);
    Sampled { why_not: Some(NestUnknown::NoStacks { reason: format!("{error}: {source}") }), ..Sampled::default() }
}

/// Waits until all have worked for a while, if somebody looks at a program that he knows to run.
fn are_old_enough(targets: &[(u32, Pid)], options: &Options) -> bool {
    let youngest = targets.iter().filter_map(|(_, pid)| age_of(*pid)).min();
    let lacking = youngest.map_or(Duration::ZERO, |age| AGE_MIN.saturating_sub(age));
    if !lacking.is_zero() && TRIGGERS_WAITING.contains(&options.trigger.as_str()) {
        std::thread::sleep(lacking);
        return true;
    }
    lacking.is_zero()
}

fn looked(targets: &[(u32, Pid)], options: &Options, cache: &ImageCache) -> Result<NestSampler, Error> {
    if options.seccomp_ok {
        targets.iter().for_each(|(_, pid)| trimtab_os::trust_filters(*pid));
    }
    let mut sampler = NestSampler::new(targets, cache)?;
    sampler.await_start();
    for look in 0..LOOKS {
        sampler.look()?;
        std::thread::sleep(Duration::from_millis(LOOK_EVERY_MS[look % LOOK_EVERY_MS.len()]));
    }
    Ok(sampler)
}

/// The same, and how far each loop is.
fn with_courses_of(sampler: &mut NestSampler, mut sampled: Sampled) -> Sampled {
    let nest = sampler.nest();
    let loops: Vec<&NestLoop> = nest.loops.iter().take(LOOPS_MAX).collect();
    for (one, course) in sampled.loops.iter_mut().zip(courses(sampler, &loops)) {
        one.course = course;
    }
    let (pause_us_max, pause_us_total) = pauses_us(sampler);
    Sampled { pause_us_max, pause_us_total, ..sampled }
}

/// The longest pause of a rank for a look, and all pauses of the rank that was held longest, microseconds.
fn pauses_us(sampler: &NestSampler) -> (f64, f64) {
    let cost = sampler.cost();
    (cost.pause_ns_max as f64 / 1e3, cost.pauses_ns.iter().max().map_or(0.0, |ns| *ns as f64 / 1e3))
}

fn of_sampler(sampler: &NestSampler) -> Sampled {
    let nest = sampler.nest();
    let any_in_mpi = nest.loops.iter().any(|one| one.is_seen_in_mpi);
    let shown = |(one, counted): (&NestLoop, Option<Vec<u32>>)| {
        let (is_part, number) = (counted.is_none(), counted.unwrap_or_else(|| one.number.clone()));
        SampledLoop {
            function: sampler.address_name(one.function),
            shown: shown_name(sampler, one.function, &number),
            share: one.share,
            is_seen_in_mpi: one.is_seen_in_mpi,
            is_part,
            ..obstacle(sampler, &nest, one, &number, any_in_mpi)
        }
    };
    let (pause_us_max, pause_us_total) = pauses_us(sampler);
    Sampled {
        loops: nest.loops.iter().zip(counted_numbers(&nest)).take(LOOPS_MAX).map(shown).collect(),
        stacks: sampler.stacks().len() as u64,
        pause_us_max,
        pause_us_total,
        why_not: why_not(sampler, &nest),
        unknown_around: nest.unknown_around().map(|one| sampler.named(one)),
    }
}

/// Why loops are not known or mean nothing.
fn why_not(sampler: &NestSampler, nest: &Nest) -> Option<NestUnknown> {
    let unusable = nest.unusable.first().map(|one| sampler.named(one));
    // Stacks that are not known have nothing in common because of that.
    if sampler.stacks().is_empty() { sampler.why_unknown().or(unusable) } else { unusable.or(sampler.why_unknown()) }
}

/// `loop 1 of solve`, with no more of the function's name than a message has room for.
fn shown_name(sampler: &NestSampler, function: FunctionId, number: &[u32]) -> String {
    let name: String = sampler.name(function).chars().take(NAME_CHARS_MAX).collect();
    format!("loop {} of {name}", dotted(number))
}

/// Something that each pass of a loop goes through and that can be counted: where there is another loop inside of it in the
/// same function, the blocks by which it is entered; else the function that most stacks show to be called in it.
fn witness(sampler: &NestSampler, nest: &Nest, one: &NestLoop) -> Option<LoopName> {
    let is_inside = |other: &NestLoop| other.function == one.function && other.number.len() > one.number.len();
    let at = nest.loops.iter().position(|other| (other.function, &other.number) == (one.function, &one.number))?;
    if nest.loops.get(at + 1).is_some_and(is_inside) {
        let can_be = |inside: &Inside<'_>| {
            let entrances = inside.entrances(&one.number);
            !entrances.is_empty() && entrances.into_iter().all(|entrance| inside.instruction(entrance).is_ok())
        };
        let is_countable = sampler.looked_inside(one.function, can_be).unwrap_or(false);
        let number = Some([&one.number[..], &[ENTRANCES]].concat());
        return is_countable.then(|| LoopName { function: sampler.address_name(one.function), number });
    }
    let at = nest.path.iter().position(|function| *function == one.function)?;
    let next = *nest.path.get(at + 1)?;
    let can_be = |inside: &Inside<'_>| inside.instruction(inside.first_instruction()).is_ok();
    let is_countable = sampler.looked_inside(next, can_be).unwrap_or(false);
    is_countable.then(|| LoopName { function: sampler.address_name(next), number: Some(Vec::new()) })
}

/// Why the passes of a loop can't be iterations, and the function by which it can be told that there are none.
fn obstacle(sampler: &NestSampler, nest: &Nest, one: &NestLoop, number: &[u32], any_in_mpi: bool) -> SampledLoop {
    let known = SampledLoop { number: number.to_vec(), ..SampledLoop::default() };
    if let Some(why) = no_iterations(sampler, nest, one, any_in_mpi) {
        return SampledLoop { why_not: Some(why), ..known };
    }
    let (modules, _) = sampler.modules_of(one.function);
    let looked = |inside: &Inside<'_>| {
        let why_not = each_of(number).find_map(|number| inside.place(&Inner::Loop(number.to_vec())).err());
        (why_not, each_of(number).map(|number| copies(modules, inside, number)).max().unwrap_or(1))
    };
    let (why_not, copies) = sampler.looked_inside(one.function, looked).unwrap_or_else(|why| (Some(why), 1));
    let why_not = why_not.map(|obstacle| NoIterations::Obstacle { reason: obstacle.to_string() });
    let witness = why_not.as_ref().and_then(|_| witness(sampler, nest, one));
    SampledLoop { why_not, witness, copies, ..known }
}

/// Why its passes would be none, counted or not.
fn no_iterations(sampler: &NestSampler, nest: &Nest, one: &NestLoop, any_in_mpi: bool) -> Option<NoIterations> {
    if nest.interpreter().is_some() {
        return Some(NoIterations::Interpreted);
    }
    if !one.ranks_without.is_empty() && one.instead.is_empty() {
        return Some(NoIterations::NotOfRanks { ranks: one.ranks_without.clone() });
    }
    if let Some(function) = one.in_recursion {
        return Some(NoIterations::InRecursion { function: sampler.name(function) });
    }
    // It may be passed so often that counting would be felt.
    (any_in_mpi && !one.is_seen_in_mpi).then_some(NoIterations::NotInMpi)
}
