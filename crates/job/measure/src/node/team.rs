//! A node's ranks of a job with their probes: inserted together, removed together.
//!
//! Next: `selection` for what goes in, `job::drive` for what happens between.

use super::at_once::at_once;
use super::interest::Interest;
use super::library::{describe_library, set_library};
use super::limits::{Limits, Out, staying};
use super::readout::host_name;
use super::selection::Selection;
use super::starting::wait_for_start;
use crate::error::Error;
use crate::options::{LoopName, Mark, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use trimtab_mpi::{Group, HandleFacts, Library, group_functions, is_mpi_module, is_omp_runtime};
use trimtab_os::MappingTable;
use trimtab_plan::Plan;
use trimtab_session::leftover::{self, Leftover};
use trimtab_session::{
    Claim, FunctionRequest, ImageCache, Inserted, Module, Modules, Prepared, Refused, Removal, Setup, interposers,
};
use trimtab_stub::layout::state;
use trimtab_stub::view::View;
use trimtab_track::{Job, RankProcess, Seccomp};
use trimtab_types::Pid;
use trimtab_types::procfs::{State, path_of_mapping};

/// The frames that somebody misses who looks at a thread's stack while it runs what was put in, or unwinds it from there.
pub const FRAMES_MISSING: &str = "stacks that a sampler looks at while a thread runs probes miss frames, and a thread cancelled \
                                  there may skip clean-ups; if that matters, probe functions that are called less often";
/// Ranks call `MPI_Init` within so long, or do something else first that is worth measuring.
const BEFORE_MAX: Duration = Duration::from_secs(1);

/// One rank with probes in it.
#[derive(Debug)]
pub(crate) struct Member {
    pub process: RankProcess,
    pub modules: Modules,
    pub prepared: Prepared,
    pub inserted: Inserted,
    pub removal: Option<Removal>,
    /// It still ran this program when the probes were taken out.
    pub was_alive: bool,
    /// Functions whose probes were taken out before the others', and those for which that could not be done.
    pub(super) out: Vec<Out>,
    pub(super) kept_in: Vec<u32>,
    /// Functions whose probes stay in whatever they cost, by number.
    pub(super) stays: Vec<bool>,
}

impl Member {
    /// Times that it was held: to put probes in, and to take them out.
    pub(crate) fn pauses_us(&self) -> [f64; 2] {
        let removed_ns = self.removal.as_ref().map_or(0, |removal| removal.pause_ns_max);
        [self.inserted.pause_ns as f64 / 1e3, removed_ns as f64 / 1e3]
    }
}

/// All ranks of a node.
#[derive(Debug)]
pub(crate) struct Team {
    pub members: Vec<Member>,
    pub selection: Selection,
    pub library: Option<Library>,
    pub warnings: Vec<String>,
    /// Warnings that nobody was told of yet.
    pub news: Vec<String>,
    /// A program has set a fault handler of its own meanwhile, so the window ends.
    pub has_new_handler: bool,
    /// Limits of what probes cost.
    pub(super) limits: Limits,
}

/// A rank whose patches are planned.
struct Ready {
    process: RankProcess,
    modules: Modules,
    prepared: Prepared,
    undone: bool,
    /// Nobody else changes it from the look for what was left until the probes are in.
    _claim: Claim,
}

/// The job with the ranks on this machine that are to be measured; its size stays the whole job's.
pub fn chosen(job: &Job, options: &Options) -> Job {
    job.within(&options.ranks, &host_name())
}

/// Room for what a job needs.
pub(crate) fn setup(selection: &Selection, job: &Job, options: &Options) -> Setup {
    let ranks = job.size.unwrap_or(0).max(job.ranks.len() as u32);
    Setup { functions: selection.functions.len() as u64, ranks: u64::from(ranks), details: options.detail }
}

impl Team {
    /// Plans for every rank, then inserts into all of them at once.
    pub(crate) fn insert(
        job: &Job,
        options: &Options,
        cache: &ImageCache,
        interest: Interest<'_>,
    ) -> Result<Self, Error> {
        let (selection, library, ready) = prepare_started(job, options, cache, interest)?;
        interest.check()?;
        let mut warnings = refusal_warnings(&selection, options, &ready)?;
        warnings.extend(ready.iter().filter(|one| one.undone).map(|one| {
            format!("rank {}: probes that a killed trimtab had left were taken out first", one.process.rank)
        }));
        warnings.extend(selection.warnings.iter().cloned());
        warnings.extend(lacking_warnings(&selection, &ready));
        warnings.extend(ready.iter().flat_map(|one| {
            let unread = one.modules.unreadable.iter();
            unread.map(|(path, reason)| format!("rank {}: {path} was not looked at: {reason}", one.process.rank))
        }));
        let setup = setup(&selection, job, options);
        let facts = library.as_ref().and_then(Library::handles);
        let inserted = in_parallel(&ready, |one| {
            let initialise = |view: View<'_>| initialise(view, one, facts.as_ref(), &selection, options);
            one.prepared.insert(one.process.pid, setup, &initialise)
        });
        let mut members = Vec::new();
        for (one, inserted) in ready.into_iter().zip(inserted) {
            let Ready { process, modules, prepared, .. } = one;
            // On an error the ranks done so far are restored as they are dropped.
            let inserted = inserted.map_err(|source| Error::Rank { rank: process.rank, pid: process.pid, source })?;
            let stays = staying(&prepared, selection.functions.len());
            members.push(Member {
                process,
                stays,
                modules,
                prepared,
                inserted,
                removal: None,
                was_alive: true,
                out: Vec::new(),
                kept_in: Vec::new(),
            });
        }
        warnings.extend(members.iter().filter(|one| !one.inserted.are_frames_known).filter_map(|one| {
            let why = one.modules.interrupted_anywhere()?;
            Some(format!("rank {}: {why}; {FRAMES_MISSING}", one.process.rank))
        }));
        let limits = Limits::of(options);
        Ok(Team { members, selection, library, warnings, news: Vec::new(), has_new_handler: false, limits })
    }

    /// Takes the probes out of ranks that have set a fault handler of their own since they went in, at once: code that may
    /// fault is not where such a handler looks for it.
    pub(crate) fn yield_to_handlers(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.removal.is_none()) {
            let Some(handler) = member.inserted.new_fault_handler() else { continue };
            self.has_new_handler = true;
            member.was_alive = true;
            let rank = member.process.rank;
            self.news.push(format!(
                "rank {rank}: the program has set a fault handler of its own ({handler}) while it was measured; its probes were \
                 taken out at once, so the window ended early; measure again: then nothing that may fault is moved"
            ));
            match member.inserted.remove() {
                Ok(removal) => member.removal = Some(removal),
                Err(error) => self.news.push(format!("rank {rank}: probes could not be taken out: {error}")),
            }
        }
    }

    /// Messages about ranks that ended by a fault, or by what can't be known, while they were patched.
    pub(crate) fn departed(&self) -> Vec<String> {
        let told = |member: &Member| {
            let text = member.inserted.departure(!member.was_alive)?;
            Some(format!("rank {}: {text}", member.process.rank))
        };
        self.members.iter().filter_map(told).collect()
    }

    /// Restores all ranks at once.
    pub(crate) fn remove(&mut self) {
        self.note_stopped();
        let mut members: Vec<&mut Member> = self.members.iter_mut().filter(|member| member.removal.is_none()).collect();
        for member in &mut members {
            member.was_alive = member.inserted.is_alive();
        }
        let mut removed = Vec::new();
        for some in members.chunks_mut(count_at_once()) {
            removed.extend(at_once(some, |member| member.inserted.remove()));
        }
        for (member, removal) in members.into_iter().zip(removed) {
            let rank = member.process.rank;
            match removal {
                Ok(Ok(removal)) => {
                    if removal.left_mapped_bytes > 0 {
                        self.warnings.push(format!(
                            "rank {rank}: every byte of code is restored, but {} bytes stay mapped: {}; the next trimtab \
                             unmaps them",
                            removal.left_mapped_bytes,
                            removal.left_because.as_deref().unwrap_or_default()
                        ));
                    }
                    member.removal = Some(removal);
                }
                Ok(Err(error)) => self.warnings.push(format!("rank {rank}: probes could not be taken out: {error}")),
                Err(_) => self.warnings.push(format!("rank {rank}: taking out the probes failed inside trimtab")),
            }
        }
    }
}

/// Ranks that are stopped at the same time: each needs its own processor, and another for the thread that works on it.
fn count_at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).max(1)
}

/// Runs `work` for every rank, several at once; results in the same order.
fn in_parallel<'a, T: Send>(
    ready: &'a [Ready],
    work: impl Fn(&'a Ready) -> Result<T, trimtab_session::Error> + Sync,
) -> Vec<Result<T, trimtab_session::Error>> {
    let failed = |one: &Ready| trimtab_session::Error::Internal { pid: one.process.pid };
    let mut results = Vec::new();
    for some in ready.chunks(count_at_once()) {
        let done = at_once(&mut some.iter().collect::<Vec<_>>(), |one| work(one));
        results.extend(done.into_iter().zip(some).map(|(done, one)| done.unwrap_or_else(|_| Err(failed(one)))));
    }
    results
}

/// Settings of one rank's shared memory, before any probe runs.
fn initialise(view: View<'_>, one: &Ready, facts: Option<&HandleFacts>, selection: &Selection, options: &Options) {
    let header = view.header();
    set_library(header, &one.modules, facts);
    header.may_call_system.store(u32::from(one.process.seccomp == Seccomp::Off), Relaxed);
    header.details_max.store(options.detail, Relaxed);
    let marker =
        selection.marker.and_then(|(index, _)| one.prepared.probes().position(|probe| probe.function == index as u32));
    header.marker_probe.store(marker.map_or(u32::MAX, |probe| probe as u32), Relaxed);
    header.state.store(state::OBSERVE, Relaxed);
}

type AllReady = (Selection, Option<Library>, Vec<Ready>);

/// Alone there is nobody to be late for, and where all wait behind `MPI_Init` nobody is in it.
fn prepare_started(
    job: &Job,
    options: &Options,
    cache: &ImageCache,
    interest: Interest<'_>,
) -> Result<AllReady, Error> {
    let all = prepare_all(job, options, cache, interest)?;
    let modules = all.2.iter().map(|one| &one.modules);
    if !interest.is_waiting
        && job.size.is_some_and(|size| size > 1)
        && wait_for_start(modules, BEFORE_MAX, interest.is_lost)
    {
        drop(all);
        return prepare_all(job, options, cache, interest);
    }
    Ok(all)
}

fn prepare_all(job: &Job, options: &Options, cache: &ImageCache, interest: Interest<'_>) -> Result<AllReady, Error> {
    let mut read = Vec::new();
    for process in &job.ranks {
        interest.check()?;
        let failed = |source| Error::Rank { rank: process.rank, pid: process.pid, source };
        if options.seccomp_ok {
            trimtab_os::trust_filters(process.pid);
        }
        check_process(process).map_err(failed)?;
        let claim = Claim::of(process.pid).map_err(failed)?;
        let (modules, undone) = clean_modules(process.pid, options, cache).map_err(failed)?;
        read.push((process, modules, undone, claim));
    }
    let programs = programs_of(read.iter().map(|(_, modules, ..)| modules));
    let (selection, library) = match programs.first() {
        Some(first) => (Selection::new(&programs, options, cache)?, describe_library(first)),
        None => (Selection::default(), None),
    };
    let mut ready = Vec::new();
    for (process, modules, undone, claim) in read {
        interest.check()?;
        let requests: Vec<FunctionRequest> = selection.requests(&modules);
        let prepared = Prepared::with_loops(&modules, &requests, &selection.loop_requests(&modules));
        let prepared = prepared.map_err(|source| Error::Rank { rank: process.rank, pid: process.pid, source })?;
        ready.push(Ready { process: process.clone(), modules, prepared, undone, _claim: claim });
    }
    Ok((selection, library, ready))
}

/// One rank of each program that the ranks run, in the order of the ranks.
fn programs_of<'m>(all: impl Iterator<Item = &'m Modules>) -> Vec<&'m Modules> {
    let mut programs: Vec<&Modules> = Vec::new();
    for modules in all {
        let is_same = |known: &&&Modules| match (known.modules.first(), modules.modules.first()) {
            (Some(one), Some(other)) => std::sync::Arc::ptr_eq(&one.loaded, &other.loaded),
            (one, other) => one.is_none() == other.is_none(),
        };
        if !programs.iter().any(|known| is_same(&known)) {
            programs.push(modules);
        }
    }
    programs
}

/// Says of each function that was asked for which ranks do not have it, so that nobody takes silence for zero.
fn lacking_warnings(selection: &Selection, ready: &[Ready]) -> Vec<String> {
    let mut lacking: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
    for one in ready {
        let program = one.modules.modules.first().map_or("its program", Module::file_name);
        for name in selection.lacking(&one.modules) {
            lacking.entry((name, program)).or_default().push(one.process.rank.0);
        }
    }
    let said = |((name, program), ranks): ((&str, &str), Vec<u32>)| {
        let (word, has) = if ranks.len() == 1 { ("rank", "has") } else { ("ranks", "have") };
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        let ranks = ranks.join(", ");
        format!("{word} {ranks} ({program}) {has} no function {name}, or no symbol of it: measured on the others")
    };
    lacking.into_iter().map(said).collect()
}

/// A rank that job control has stopped would never come to an iteration.
fn check_process(process: &RankProcess) -> Result<(), trimtab_session::Error> {
    let pid = process.pid;
    trimtab_session::check_calls(pid)?;
    if trimtab_os::stat_of(pid, pid.0).is_some_and(|stat| stat.state == State::Stopped) {
        return Err(trimtab_os::Error::JobControlStopped { pid }.into());
    }
    Ok(())
}

/// The modules of a process in which nothing of an earlier trimtab is any more; whether there was something.
fn clean_modules(pid: Pid, options: &Options, cache: &ImageCache) -> Result<(Modules, bool), trimtab_session::Error> {
    let maps = MappingTable::of(pid)?;
    let wanted = wanted_in(pid, options, &maps);
    match leftover::find_in(pid, &maps)? {
        Leftover::None => Ok((Modules::among(pid, maps, cache, &wanted)?, false)),
        found => {
            leftover::undo(pid, &found)?;
            Ok((Modules::read(pid, cache, &wanted)?, true))
        }
    }
}

/// Which files of a process a window reads for their symbols, by path: only what can hold measured functions. Reading every
/// library of a big program takes longer than the measurement.
pub fn wanted_files(pid: Pid, options: &Options) -> impl Fn(&str) -> bool + use<> {
    let library = |one: &LoopName| one.function.split_once('@').map(|(_, library)| library.to_owned());
    let of_loops: Vec<Option<String>> = options.loops.iter().map(library).collect();
    let is_named = !options.arguments.is_empty()
        || of_loops.contains(&None)
        || !matches!(options.mark, Mark::Auto | Mark::Nest(_));
    let all = !options.functions.is_empty() || is_named;
    let libc = options.groups.iter().any(|group| *group != Group::Comm);
    let omp = options.groups.contains(&Group::Omp);
    let exe = program_name(pid);
    move |path| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let system = path.starts_with("/lib") || path.starts_with("/usr/lib") || path.starts_with("/usr/local/lib");
        let is_libc = name.starts_with("libc.so") || name.starts_with("libc-") || name.starts_with("libpthread");
        // Walks of stacks go through its unwinder.
        let unwinds = name.starts_with("libgcc_s.");
        let has_loop = of_loops.iter().flatten().any(|library| name.contains(library.as_str()));
        let runs_regions = omp && is_omp_runtime(name);
        all || has_loop || runs_regions || is_mpi_module(path) || !system || (libc && is_libc) || unwinds || path == exe
    }
}

/// As [`wanted_files`], and what stands before the C library with a function that is to be measured (an allocator that was
/// preloaded, say): the program's calls run that one.
fn wanted_in(pid: Pid, options: &Options, maps: &MappingTable) -> impl Fn(&str) -> bool + use<> {
    let names: Vec<&str> = options.groups.iter().flat_map(|group| group_functions(*group)).map(|of| of.name).collect();
    let before = if names.is_empty() { Vec::new() } else { interposers(pid, maps, &names) };
    let wanted = wanted_files(pid, options);
    move |path| wanted(path) || before.iter().any(|known| known == path)
}

/// The program of a process as its map calls it, also if no file has that name any more.
pub fn program_name(pid: Pid) -> String {
    let link = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    path_of_mapping(link.as_os_str().as_bytes()).0
}

/// A refused function that was asked for by name is an error; one of a group is only said.
fn refusal_warnings(selection: &Selection, options: &Options, ready: &[Ready]) -> Result<Vec<String>, Error> {
    let named = |refused: &&Refused| {
        let marker = selection.marker.map(|(index, _)| &selection.functions[index].name);
        let base = |pattern: &String| pattern.split('@').next().map(str::to_string);
        options.functions.iter().any(|pattern| base(pattern).as_ref() == Some(&refused.name))
            || options.arguments.iter().any(|(name, _)| *name == refused.name)
            || marker == Some(&refused.name)
    };
    if let Some(refused) = ready.first().and_then(|first| first.prepared.refused.iter().find(named)) {
        return Err(Error::Refused { name: refused.name.clone(), reason: refused.reason.to_string() });
    }
    let all: BTreeSet<String> = ready
        .iter()
        .flat_map(|one| &one.prepared.refused)
        .map(|one| format!("{} is not measured: {}", one.name, one.reason))
        .collect();
    Ok(all.into_iter().collect())
}

/// The plan for each rank now, for `--dry-run`; nothing is changed.
pub fn dry_run(
    job: &Job,
    options: &Options,
    cache: &ImageCache,
) -> Result<Vec<(RankProcess, Plan, Vec<Refused>)>, Error> {
    let job = &chosen(job, options);
    if job.ranks.is_empty() {
        return Err(Error::NoRank { ranks: options.ranks.to_string() });
    }
    let (selection, _, ready) = prepare_all(job, options, cache, Interest::LASTING)?;
    let setup = setup(&selection, job, options);
    ready
        .into_iter()
        .map(|one| {
            let plan = one.prepared.dry_run(one.process.pid, setup);
            let plan = plan.map_err(|source| Error::Rank { rank: one.process.rank, pid: one.process.pid, source })?;
            Ok((one.process, plan, one.prepared.refused))
        })
        .collect()
}
