//! One cycle: probes into a random subset of a process's functions, a random wait, and out again.
//!
//! Next: `target` does many of them to one process.

use crate::random::Random;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use trimtab_os::ticks;
use trimtab_session::{Error, FunctionRequest, Inserted, Module, Modules, Prepared, Removal, Setup};
use trimtab_stub::layout::{Probe, flag, kind, state};
use trimtab_stub::view::View;
use trimtab_types::ProcAddr;

/// Functions by file: address in the file.
pub(crate) type Functions = HashMap<String, HashSet<u64>>;

/// The number of the group of functions a user names.
const USER_GROUP: u8 = 4;
/// Longest wait between insertion and removal.
const WAIT_MS_MAX: u64 = 30;
/// Subsets have at least and at most this many functions, unless it is all of them.
const SUBSET: (u64, u64) = (10, 2000);
/// Of 1000 cycles, those that take all functions of all modules.
const ALL_IN_THOUSAND: u64 = 10;
/// Most probes in one cycle: their numbers per thread must fit into memory.
pub(crate) const PROBES_MAX: u64 = 60_000;

/// As long as many functions had no probe yet, subsets hold between these shares of them, so that a large program's are
/// reached in time; but not more than the last number, so that a cycle stays short.
const UNTRIED_SHARES: (u64, u64) = (200, 6);
const UNTRIED_MAX: u64 = 8000;

/// The choices of a cycle, drawn before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Seed of functions and probes.
    pub seed: u64,
    /// Functions asked for; [`u64::MAX`]: all of them.
    pub count: u64,
    /// Wait until the removal.
    pub wait: Duration,
}

impl Choice {
    /// Draws the next one; `untried` functions had no probe yet.
    pub fn draw(random: &mut Random, untried: u64) -> Choice {
        let least = SUBSET.0.max(untried / UNTRIED_SHARES.0);
        let most = SUBSET.1.max((untried / UNTRIED_SHARES.1).min(UNTRIED_MAX));
        let count = if random.in_thousand(ALL_IN_THOUSAND) { u64::MAX } else { random.magnitude(least, most) };
        Choice { seed: random.bits(), count, wait: Duration::from_micros(random.below(WAIT_MS_MAX * 1000)) }
    }

    /// The functions it means: out of `untried` as far as there are, then out of all.
    pub fn requests(&self, modules: &Modules, untried: &[ProcAddr]) -> Vec<FunctionRequest> {
        let mut random = Random::new(self.seed);
        let all: Vec<ProcAddr> = modules.modules.iter().flat_map(all_of).map(|(address, _)| address).collect();
        let chosen: Vec<ProcAddr> = if self.count >= all.len() as u64 {
            let skipped = random.below((all.len() as u64).saturating_sub(PROBES_MAX) + 1) as usize;
            all.into_iter().skip(skipped).take(PROBES_MAX as usize).collect()
        } else {
            let (first, from) = match untried.len() as u64 > self.count {
                true => (&[][..], untried),
                false => (untried, &all[..]),
            };
            let drawn = (first.len() as u64..self.count).map(|_| from[random.below(from.len() as u64) as usize]);
            first.iter().copied().chain(drawn).collect()
        };
        let request = |(index, address): (usize, &ProcAddr)| FunctionRequest {
            name: format!("{:x}", address.0),
            address: *address,
            work: probe_of(&mut random, index as u32).into(),
        };
        chosen.iter().enumerate().map(request).collect()
    }
}

/// Functions of `modules` that are not in `tried`.
pub(crate) fn untried(modules: &Modules, tried: &Functions) -> Vec<ProcAddr> {
    let of_module = |module: &Module| {
        let known = tried.get(&module.path);
        let is_new = |address: &ProcAddr| known.is_none_or(|known| !known.contains(&module.bias.to_file(*address).0));
        all_of(module).map(|(address, _)| address).filter(is_new).collect::<Vec<_>>()
    };
    modules.modules.iter().flat_map(of_module).collect()
}

/// Address and size of every function of `module` whose size is known.
pub(crate) fn all_of(module: &Module) -> impl Iterator<Item = (ProcAddr, u64)> {
    let functions = module.loaded.image.functions.iter().filter(|function| function.size > 0);
    functions.map(|function| (module.bias.to_proc(function.addr), function.size))
}

/// Counts entries.
pub(crate) fn count_only(function: u32) -> Probe {
    Probe { function, group: USER_GROUP, ..Probe::ABSENT }
}

/// Times calls, inline where the engine can.
pub(crate) fn timed(function: u32) -> Probe {
    Probe { flags: flag::TIMED, ..count_only(function) }
}

/// A probe of a random kind: counting, timed inline with or without bytes, or through the routine.
pub fn probe_of(random: &mut Random, function: u32) -> Probe {
    let (base, argument) = (timed(function), random.below(6) as u8);
    match random.below(6) {
        0 | 1 => count_only(function),
        2 => base,
        3 => Probe { kind: kind::PLAIN_BYTES, count: argument, ..base },
        4 => Probe { flags: flag::TIMED | flag::RING, argument, ..base },
        _ => Probe { flags: flag::TIMED | flag::RING, kind: kind::RETURNED_BYTES, ..base },
    }
}

/// Records from the first call on; nothing marks iterations.
pub fn begin_recording(view: View<'_>) {
    let header = view.header();
    header.marker_probe.store(u32::MAX, Relaxed);
    header.first_ticks.store(ticks(), Relaxed);
    header.state.store(state::RECORD, Relaxed);
}

/// How a cycle went.
#[derive(Debug)]
pub(crate) struct Cycle {
    /// Calls counted.
    pub hits: u64,
    /// Time held for the insertion, nanoseconds.
    pub insert_pause_ns: u64,
    /// The result of the removal.
    pub removal: Removal,
}

/// Why a cycle did not come to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Nothing was inserted.
    Insert(Error),
    /// It was, and could not be removed.
    Remove(Error),
}

/// Inserts, waits, removes and counts.
pub(crate) fn cycle(modules: &Modules, prepared: &Prepared, functions: u64, wait: Duration) -> Result<Cycle, Stop> {
    let setup = Setup { functions, ranks: 1, details: 0 };
    let mut inserted = prepared.insert(modules.pid, setup, &begin_recording).map_err(Stop::Insert)?;
    std::thread::sleep(wait);
    let removal = inserted.remove().map_err(Stop::Remove)?;
    Ok(Cycle { hits: hits(&inserted, functions), insert_pause_ns: inserted.pause_ns, removal })
}

/// Calls counted by all threads in all functions.
fn hits(inserted: &Inserted, functions: u64) -> u64 {
    counts(inserted, functions).iter().sum()
}

/// Calls counted by all threads in each of so many functions.
pub fn counts(inserted: &Inserted, functions: u64) -> Vec<u64> {
    let mut counts = vec![0; functions as usize];
    for slot in inserted.view().slots() {
        for (index, count) in counts.iter_mut().enumerate() {
            let stat = slot.stat(index as u64);
            *count += stat.calls.load(Relaxed) + stat.nested.load(Relaxed);
        }
    }
    counts
}
