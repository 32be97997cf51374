//! The fault handlers of a process as its modules tell of them: whether one is its own, and by which functions it could set
//! one.
//!
//! Next: `handlers`, which asks the process; `hold`, which holds threads at these functions.

use crate::handlers::{CANCEL_ANYWHERE, FaultHandlers};
use crate::modules::{Module, Modules};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use trimtab_os::{Caught, Mapping};
use trimtab_symbols::SlotTarget;

/// Where threads are held.
pub(crate) const SETTER: &str = "sigaction";
/// Behind it, a handler may be about to be set.
pub(crate) const INNER: &str = "__libc_sigaction";

impl Modules {
    /// The program's own fault handler in words, if it has one: then nothing that may fault or calls is moved. The process
    /// is asked once, when this is first called.
    pub fn own_fault_handler(&self) -> Option<&str> {
        self.fault_handlers().own.as_deref()
    }

    /// Why a thread may be interrupted anywhere by somebody who unwinds its stack, if that is so: in the moments in which it
    /// runs code that was put in or moved, frames are missing there.
    pub fn interrupted_anywhere(&self) -> Option<&'static str> {
        if self.is_of_file() {
            return None;
        }
        let imports = |module: &Module| {
            let targets = module.loaded.image.slots.iter().map(|slot| &slot.target);
            targets.into_iter().any(|target| matches!(target, SlotTarget::Import(name) if name == CANCEL_ANYWHERE))
        };
        if Caught::by(self.pid).is_ok_and(Caught::has_samplers) {
            return Some("a timer of the program, or the cancelling of threads, interrupts it at any instruction");
        }
        self.modules.iter().any(imports).then_some("the program has threads that may be cancelled at any instruction")
    }

    /// With what was asked before: a process that stands still for the calling thread can't be asked.
    #[must_use]
    pub fn with_handlers(mut self, known: FaultHandlers) -> Self {
        self.handlers = Arc::new(OnceLock::from(known));
        self
    }

    /// Code that may fault stays in place in them, because a handler could be set unseen.
    #[must_use]
    pub(crate) fn with_handlers_unseen(self) -> Self {
        let known = self.fault_handlers().clone().unseen();
        self.with_handlers(known)
    }

    pub(crate) fn fault_handlers(&self) -> &FaultHandlers {
        let of_process = || match FaultHandlers::of(self.pid) {
            handlers if self.has_setters() => handlers,
            handlers => handlers.unseen(),
        };
        self.handlers.get_or_init(|| if self.is_of_file() { FaultHandlers::default() } else { of_process() })
    }

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

pub(crate) fn range_of(module: &Module, name: &str) -> Option<Range<u64>> {
    let (function, address) = module.function(name)?;
    Some(address.0..address.0 + function.size)
}
