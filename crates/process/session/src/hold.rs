//! Threads that set a fault handler are held while code that may fault runs elsewhere: it goes back first.
//!
//! The code stands at every `sigaction` there is, by which the C library's other functions set handlers too. A library
//! that makes the system call itself is not seen here; [`Watch`](crate::handlers::Watch) sees what it has set, later.
//! Handlers of MPI libraries only say where a program died, so their threads go on at once.
//!
//! Behind a trimtab that was killed nobody answers; then the threads go on after some seconds, and what a handler finds
//! is as it was for those set before there was anything to look after them.
//!
//! Next: `trimtab-x86`'s `hold`, the code; `handlers`, which asks whose they are; `remove`, which lets all go.

use crate::handlers::{described, is_of_library};
use crate::insert::Inserted;
use crate::modules::{Module, Modules};
use crate::prepare::{FunctionRequest, Prepared, all_sites};
use crate::reach::is_in_reach;
use std::collections::BTreeSet;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use trimtab_os::{Mapping, MappingTable, Memory, SignalHandler};
use trimtab_plan::{Holds, PlannedFunction};
use trimtab_stub::layout::{HOLD_PLACES, Header, HoldWords, Probe};
use trimtab_types::ProcAddr;
use trimtab_x86::{HOLD_SIGNAL_SHIFT, Hold};

/// Where threads are held.
const SETTER: &str = "sigaction";
/// Its name in plans.
pub(crate) const HELD_AT: &str = "sigaction, to hold threads that set a fault handler";
/// Behind it, a handler may be about to be set.
const INNER: &str = "__libc_sigaction";

const _: () = assert!(HOLD_PLACES == trimtab_x86::HOLD_PLACES, "the code and the words agree");
const _: () = assert!(offset_of!(HoldWords, asked) == 0, "the code counts questions in the first word");
const _: () = assert!(offset_of!(HoldWords, answered) == 8, "and reads the second");
const _: () = assert!(offset_of!(HoldWords, handlers) == 16, "and tells behind it");

/// Offset in the shared memory of what threads tell.
pub(crate) const WORDS_AT: u64 = offset_of!(Header, hold) as u64;
/// Offset of the word that lets them go.
pub(crate) const ANSWERED_AT: u64 = WORDS_AT + offset_of!(HoldWords, answered) as u64;

impl Prepared {
    /// Has threads held that set a fault handler, where that matters. False if one of the functions that set them can't be
    /// probed: then code that may fault must stay in place.
    #[must_use]
    pub(crate) fn hold_handlers(&mut self, modules: &Modules, memory: Option<&Memory>) -> bool {
        if memory.is_none() || self.watch().is_none() {
            return true;
        }
        let mut are_held = true;
        for module in modules.modules.iter().chain(&modules.c_libraries) {
            self.setters.extend([SETTER, INNER].into_iter().filter_map(|name| range_of(module, name)));
            let Some((_, address)) = module.function(SETTER) else { continue };
            let probed = self.probe_at(address).and_then(|probe| self.functions.get_mut(probe as usize));
            match probed.filter(|function| function.sites.iter().any(|site| Hold::fits(site.site.kind))) {
                Some(function) => function.holds = Holds::Also,
                None => are_held &= self.hold_alone(modules, memory, module, address),
            }
        }
        are_held
    }

    fn hold_alone(&mut self, modules: &Modules, memory: Option<&Memory>, module: &Module, address: ProcAddr) -> bool {
        let request = FunctionRequest { name: SETTER.into(), address, probe: Probe::ABSENT };
        let of_setter = modules.only(module);
        let Some(Ok(placed)) = all_sites(&of_setter, memory, &[&request]).pop() else { return false };
        let arenas = self.arena_modules.clone();
        let arena = self.arena_of(module);
        let is_near = self.arena_modules.get(arena).is_some_and(|(_, text)| is_in_reach(&modules.maps, text));
        if self.is_taken(&placed.sites) || !is_near {
            self.arena_modules = arenas;
            return false;
        }
        self.take(&placed.sites);
        let function = PlannedFunction::new(HELD_AT.into(), 0, (arena, placed.sites));
        self.functions.push(PlannedFunction { holds: Holds::Only, ..function });
        true
    }

    /// True if a thread at `address` may be about to set a handler, past where it could be held.
    pub(crate) fn is_setting(&self, address: u64) -> bool {
        self.setters.iter().any(|range| range.contains(&address))
    }
}

/// True if a file of this path may be a C library, by its name.
pub(crate) fn is_c_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["libc.so", "libc-", "libpthread", "ld-musl-", "libc.musl-"].iter().any(|beginning| name.starts_with(beginning))
}

impl Modules {
    /// True if a function is known by which fault handlers are set, or none could be: a static program without symbols has one
    /// that nobody finds.
    pub(crate) fn has_setters(&self) -> bool {
        let is_loaded =
            |mapping: &Mapping| mapping.executable && mapping.inode != 0 && !mapping.path.starts_with("/memfd:");
        let files: BTreeSet<u64> =
            self.maps.0.iter().filter(|one| is_loaded(one)).map(|mapping| mapping.inode).collect();
        let is_static = files.len() == 1;
        is_static || self.modules.iter().chain(&self.c_libraries).any(|module| module.function(SETTER).is_some())
    }
}

fn range_of(module: &Module, name: &str) -> Option<Range<u64>> {
    let (function, address) = module.function(name)?;
    Some(address.0..address.0 + function.size)
}

impl Inserted {
    /// The handler that a held thread is about to set, in words, if it is the program's own; others are let go.
    pub(crate) fn handler_to_be_set(&self) -> Option<String> {
        let hold = &self.view().header().hold;
        let (asked, answered) = (hold.asked.load(Acquire), hold.answered.load(Relaxed));
        if asked <= answered {
            return None;
        }
        if asked - answered > HOLD_PLACES as u64 {
            return Some("several threads set some".into());
        }
        let maps = MappingTable::of(self.pid()).ok()?;
        for number in answered..asked {
            let told = hold.handlers[number as usize % HOLD_PLACES].swap(0, Acquire);
            // It has counted itself, and tells in a moment.
            if told == 0 {
                return None;
            }
            let (signal, address) = ((told >> HOLD_SIGNAL_SHIFT) as i32, told & ((1 << HOLD_SIGNAL_SHIFT) - 1));
            if !is_of_library(&maps, address) {
                return Some(described(&maps, &SignalHandler { signal, address }));
            }
            hold.answered.store(number + 1, Release);
        }
        None
    }
}
