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

use crate::error::Error;
use crate::faults::{INNER, SETTER, range_of};
use crate::handlers::FaultHandlers;
use crate::modules::{Module, Modules};
use crate::prepared::Prepared;
use crate::reach::is_in_reach;
use crate::request::{FunctionRequest, Work};
use crate::serving::HELD_AT;
use crate::subject::all_sites;
use std::mem::offset_of;
use trimtab_os::{Caught, Memory};
use trimtab_plan::{Holds, PlannedFunction};
use trimtab_stub::layout::{HOLD_PLACES, HoldWords};
use trimtab_types::{Pid, ProcAddr};
use trimtab_x86::Hold;

const _: () = assert!(HOLD_PLACES == trimtab_x86::HOLD_PLACES, "the code and the words agree");
const _: () = assert!(offset_of!(HoldWords, asked) == 0, "the code counts questions in the first word");
const _: () = assert!(offset_of!(HoldWords, answered) == 8, "and reads the second");
const _: () = assert!(offset_of!(HoldWords, handlers) == 16, "and tells behind it");

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
        let request = FunctionRequest { name: SETTER.into(), address, work: Work::Code { sees_ends: false } };
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

impl Prepared {
    /// Checks that the program still leaves its faults alone, if that was what decided where code may move.
    ///
    /// # Errors
    /// [`Error::NewFaultHandler`] if it does not.
    pub(crate) fn check_handlers(&self, pid: Pid) -> Result<(), Error> {
        if self.watch().is_none() || self.are_as_known(pid) {
            return Ok(());
        }
        FaultHandlers::of(pid).own.map_or(Ok(()), |handler| Err(Error::NewFaultHandler { pid, handler }))
    }

    fn are_as_known(&self, pid: Pid) -> bool {
        Caught::by(pid).is_ok_and(|caught| caught.faults() == self.handlers.caught)
    }

    /// The same in the stop in which the patches are written, where no thread can be asked. A thread that is about to set
    /// one is looked for where threads are moved.
    ///
    /// # Errors
    /// [`Error::NewFaultHandler`] if a signal is caught that was not.
    pub(crate) fn check_caught(&self, pid: Pid) -> Result<(), Error> {
        if self.watch().is_none() || self.are_as_known(pid) {
            return Ok(());
        }
        Err(Error::NewFaultHandler { pid, handler: "one that was set right now".into() })
    }
}
