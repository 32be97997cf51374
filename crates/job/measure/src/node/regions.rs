//! Parallel regions of OpenMP: which functions are measured for them, and what the ranks' threads did in them.
//!
//! Measured are the runtime's functions that have a region run or that wait, and the functions that the compiler made of the
//! program's regions and tasks. The latter are known by their names; in a file that has none of these, by their addresses,
//! which its code gives to the runtime.
//!
//! Next: `trimtab-stub`'s `teams` counts; `trimtab-window`'s `regions` makes numbers for people of the samples.

use super::readout::{OpenCall, Reader};
use super::selection::{ChosenPlace, Selection};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use trimtab_mpi::{OMP_BODIES, OMP_GIVEN, OMP_RUNTIME, OmpPart, is_fragment_of_body, is_omp_runtime};
use trimtab_session::{ImageCache, Module, Modules};
use trimtab_stub::layout::{OMP_GROUP, Probe, RegionStat, flag, part};
use trimtab_stub::view::SlotView;
use trimtab_symbols::Function;
use trimtab_types::FileAddr;
use trimtab_types::report::FunctionGroup;
use trimtab_window::{FunctionInfo, RegionSample, TeamSample};

/// Functions of regions and tasks that are measured: each is some patches, and a moment of the pause.
const BODIES_MAX: usize = 1000;

/// Part of the names of functions that gcc and gfortran make of regions: `solve._omp_fn.0`.
pub(super) const GNU_BODY: &str = "._omp_fn.";

impl Selection {
    /// Chooses the functions of parallel regions in any of the programs.
    pub(super) fn add_regions(&mut self, programs: &[&Modules], cache: &ImageCache) {
        let before = self.functions.len();
        let mut bodies = 0;
        for modules in programs {
            let called = called_runtime(modules, cache);
            let is_called = |name: &str| called.as_ref().is_none_or(|called| called.contains(name));
            for (name, part) in OMP_RUNTIME.into_iter().filter(|(name, _)| is_called(name)) {
                let Some((module, _)) = modules.definition(name) else { continue };
                self.add_omp(modules, (module, name.to_owned()), part_number(part));
            }
            bodies += self.add_bodies(modules);
        }
        if self.functions.len() == before {
            self.warnings.push("no parallel regions were measured: no runtime of OpenMP was found in the program; one that is linked into it \
                 needs symbols".to_owned());
        } else if bodies == 0 {
            self.warnings.push(
                "what threads do in parallel regions is not known: no function was found that is one; compile the program \
                 without -s, and don't strip it"
                    .to_owned(),
            );
        }
    }

    /// Adds the functions of regions and tasks; how many there are.
    fn add_bodies(&mut self, modules: &Modules) -> usize {
        let mut found: Vec<Body<'_>> = Vec::new();
        for module in &modules.modules {
            let named = named_bodies(module);
            let nameless = if named.is_empty() { self.given_bodies(modules, module) } else { Vec::new() };
            found.extend(named.into_iter().chain(nameless));
        }
        for body in found.iter().take(BODIES_MAX) {
            let place = ChosenPlace::Symbol { module: body.module.path.clone(), name: body.found_by.clone() };
            self.add_part(modules, body.name.clone(), part::BODY, place);
        }
        if found.len() > BODIES_MAX {
            self.warnings.push(format!(
                "of {} functions that are parallel regions or tasks, {BODIES_MAX} are measured, those of the program first",
                found.len()
            ));
        }
        found.len()
    }

    /// The functions that a module without their names gives to the runtime.
    fn given_bodies<'m>(&mut self, modules: &Modules, module: &'m Module) -> Vec<Body<'m>> {
        if is_omp_runtime(module.file_name()) {
            return Vec::new();
        }
        let mut say = |reason: String| {
            self.warnings.push(format!(
                "what threads do in parallel regions of {} is not wholly known, for it has no symbols of their functions: \
                 {reason}",
                module.file_name()
            ));
        };
        let given = match modules.functions_given(module, &OMP_GIVEN) {
            Ok(given) => given,
            Err(error) => {
                say(error.to_string());
                return Vec::new();
            }
        };
        if given.unknown > 0 {
            say(format!("at {} of its calls of the runtime it was not found which function they give", given.unknown));
        }
        let image = &module.loaded.image;
        let functions = given.functions.into_iter().filter_map(|begin| image.function_at(begin));
        let body = |function: &Function| {
            let found_by = function.address_name();
            let name = function.names.first().cloned().unwrap_or_else(|| format!("{found_by}@{}", module.file_name()));
            Body { module, name, found_by }
        };
        functions.map(body).collect()
    }

    fn add_omp(&mut self, modules: &Modules, (module, name): (&Module, String), part: u8) {
        let place = ChosenPlace::Symbol { module: module.path.clone(), name: name.clone() };
        self.add_part(modules, name, part, place);
    }

    fn add_part(&mut self, modules: &Modules, name: String, part: u8, place: ChosenPlace) {
        let probe = Probe { group: OMP_GROUP, flags: flag::TIMED, part, ..Probe::ABSENT };
        let group = FunctionGroup::Omp;
        let info = FunctionInfo { name, group, timed: true, ..FunctionInfo::default() };
        self.add(modules, info, probe, place);
    }
}

/// A function that is a parallel region or a task.
struct Body<'m> {
    module: &'m Module,
    /// Its name in the report.
    name: String,
    /// The name by which it is found in its module.
    found_by: String,
}

/// The functions of a module whose names say that a compiler made them of a region or task. Where several have the same name,
/// as those of static functions, the others have their addresses beside it.
fn named_bodies(module: &Module) -> Vec<Body<'_>> {
    let of_pattern = |pattern: &&'static str| module.loaded.image.functions_matching(pattern);
    let functions = OMP_BODIES.iter().flat_map(of_pattern).filter(|function| !is_fragment_of_body(&function.name()));
    let mut seen: BTreeMap<String, FileAddr> = BTreeMap::new();
    let body = |function: &Function| {
        let (name, address) = (function.name(), function.address_name());
        let first = *seen.entry(name.clone()).or_insert(function.addr);
        if first == function.addr {
            return Body { module, found_by: name.clone(), name };
        }
        Body { module, name: format!("{name} {address}"), found_by: address }
    };
    functions.map(body).collect()
}

/// The runtime's functions that files of the program import: only these are patched. `None`: the files do not say, as those of
/// a program that has the runtime in itself.
fn called_runtime(modules: &Modules, cache: &ImageCache) -> Option<BTreeSet<String>> {
    let wanted = |path: &str| !is_omp_runtime(path.rsplit('/').next().unwrap_or(path));
    let is_asked = |name: &str| OMP_RUNTIME.iter().any(|(known, _)| *known == name);
    let names: BTreeSet<String> =
        cache.imported_names(modules.pid, &modules.maps, &wanted, &is_asked)?.into_iter().collect();
    (!names.is_empty()).then_some(names)
}

fn part_number(part: OmpPart) -> u8 {
    match part {
        OmpPart::Region => part::REGION,
        OmpPart::Barrier => part::BARRIER,
        OmpPart::Lock => part::LOCK,
        OmpPart::Task => part::TASK,
        OmpPart::End => part::NONE,
    }
}

impl Reader<'_> {
    /// The rank's threads in parallel regions; `None`: that is not measured.
    pub(super) fn team(&self, open: &[OpenCall], main_key: Option<u64>) -> Option<TeamSample> {
        let view = self.member.inserted.view();
        let probes = &self.team.selection.probes;
        if view.geometry().region_count == 0 {
            return None;
        }
        let mut sample = TeamSample::default();
        let mut seen_ticks = 0;
        for function in (0..probes.len()).filter(|function| probes[*function].group == OMP_GROUP) {
            let region = self.region(function);
            seen_ticks += region.filter(|region| region.threads_max > 0).map_or(0, |region| region.ticks);
            sample.regions.extend(region);
        }
        let is_begun = |function: &usize| probes[*function].part == part::REGION;
        for function in (0..probes.len()).filter(is_begun) {
            let closed = view.slots().map(|slot| slot.stat(function as u64).ticks.load(Relaxed));
            sample.unseen_ticks += closed.sum::<u64>();
        }
        let still_open = open.iter().filter(|call| is_begun(&(call.function as usize)));
        sample.unseen_ticks += still_open.map(|call| call.ticks).sum::<u64>();
        sample.unseen_ticks = sample.unseen_ticks.saturating_sub(seen_ticks);
        sample.unseen_ticks += view.slots().map(|slot| slot.slot.team.unseen.load(Relaxed)).sum::<u64>();
        let teams = &view.header().teams;
        sample.mixed = teams.mixed.load(Relaxed);
        sample.nested = teams.nested.load(Relaxed);
        sample.lost = teams.lost.load(Relaxed);
        sample.threads_met = teams.member_count.load(Relaxed);
        sample.stray = view.slots().map(|slot| slot.slot.team.stray.load(Relaxed)).sum();
        let begins = |slot: &SlotView<'_>| {
            (0..probes.len() as u64).filter_map(|f| slot.region(f)).any(|stat| stat.passes.load(Relaxed) > 0)
        };
        sample.is_of_main = view.slots().filter(begins).all(|slot| Some(slot.slot.key.load(Relaxed)) == main_key);
        Some(sample)
    }

    /// The regions of a function, whoever had them run; `None`: there were none.
    fn region(&self, function: usize) -> Option<RegionSample> {
        let mut sample = RegionSample { function, ..RegionSample::default() };
        let slots = self.member.inserted.view().slots();
        for stat in slots.filter_map(|slot| slot.region(function as u64)) {
            let own = stat.own_busy.load(Relaxed);
            sample.own_busy_max = sample.own_busy_max.max(own);
            sample.own_threads += u32::from(own > 0);
            add_region(&mut sample, stat);
        }
        sample.path = self.place_of(function).unwrap_or(sample.path);
        (sample.passes > 0).then_some(sample)
    }

    /// The address that stands for the place of a region in the program: gcc gives the region's line to the function that it makes of it,
    /// and the call that begins it often has another one's; `None`: the call is known better.
    fn place_of(&self, function: usize) -> Option<u64> {
        let selection = &self.team.selection;
        let is_gnu = selection.functions[function].name.contains(GNU_BODY);
        // A place is known by the address behind it, as a call is.
        is_gnu.then(|| Some(selection.address(&self.member.modules, function)?.0 + 1)).flatten()
    }
}

fn add_region(sample: &mut RegionSample, stat: &RegionStat) {
    if stat.passes.load(Relaxed) == 0 {
        return;
    }
    sample.passes += stat.passes.load(Relaxed);
    sample.ticks += stat.ticks.load(Relaxed);
    sample.thread_ticks += stat.thread_ticks.load(Relaxed);
    sample.longest_ticks += stat.longest_ticks.load(Relaxed);
    sample.busy += stat.busy.load(Relaxed);
    sample.comm += stat.comm.load(Relaxed);
    sample.comm_of_master += stat.comm_of_master.load(Relaxed);
    let [barrier, lock, task] = &stat.waits;
    sample.barrier += barrier.load(Relaxed);
    sample.lock += lock.load(Relaxed);
    sample.task += task.load(Relaxed);
    let least = stat.threads_min.load(Relaxed);
    if least != 0 && (sample.threads_min == 0 || least < sample.threads_min) {
        sample.threads_min = least;
    }
    sample.threads_max = sample.threads_max.max(stat.threads_max.load(Relaxed));
    sample.path = stat.site.load(Relaxed);
}
