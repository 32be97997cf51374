//! Walks of a thread's stack go through our code: the unwinder is handed tables for it.
//!
//! Samplers walk a thread's stack from wherever a timer interrupts it, and a thread may be cancelled at any instruction;
//! libgcc's unwinder, which the C library's `backtrace` and its cancelling use, finds the tables of all code through one
//! function of its own, `_Unwind_Find_FDE`. It is patched as any function that is measured, in the same stop, by code that
//! answers for ours and for nothing else. So nothing of the unwinder's data is changed, no lock of its is taken, and the
//! patch goes as all others do, also behind a trimtab that was killed.
//!
//! Where nobody walks stacks, nothing of this is done. Where it can't be done, reports say that frames are missed: another
//! unwinder, one that is loaded later, a function without a table.
//!
//! Next: `trimtab-plan`'s `frames`, which makes the tables; `walks`, which tells who still reads one.

use crate::handlers::{CANCEL_ANYWHERE, is_library};
use crate::modules::{Module, Modules};
use crate::prepared::Prepared;
use crate::reach::is_in_reach;
use crate::request::{FunctionRequest, Work};
use crate::serving::FOUND_AT;
use crate::subject::all_sites;
use trimtab_os::Memory;
use trimtab_plan::{FrameRules, PlannedFunction};
use trimtab_symbols::{CallerRules, SlotTarget, caller_rules};
use trimtab_types::ProcAddr;

/// The function that libgcc's unwinder asks for the table of an address.
const FINDER: &str = "_Unwind_Find_FDE";

/// A program that walks its own stacks, or cancels threads anywhere, asks for these.
const WALKERS: [&str; 3] = [CANCEL_ANYWHERE, "backtrace", "_Unwind_Backtrace"];
/// Other unwinders define these and have lists of tables of their own: libunwind's and LLVM's.
const OTHERS: [&str; 3] = ["_ULx86_64_step", "_Ux86_64_step", "__unw_step"];
/// Their files begin with this: not every file is read.
const OTHER_FILES: &str = "libunwind";
/// Libraries that ask for such functions on behalf of others.
const RUNTIMES: [&str; 4] = ["libc", "libgcc_s", "libstdc++", "libpthread"];

impl Modules {
    /// True if anybody may walk the stack of a thread that is interrupted anywhere.
    fn has_walkers(&self) -> bool {
        let asks = |module: &Module| {
            let mut slots = module.loaded.image.slots.iter().map(|slot| &slot.target);
            slots.any(|target| matches!(target, SlotTarget::Import(name) if WALKERS.contains(&name.as_str())))
        };
        let is_of_others = |module: &Module| {
            let name = module.file_name();
            is_library(name) || RUNTIMES.iter().any(|runtime| name.split(['.', '-']).next() == Some(runtime))
        };
        let own = || self.modules.iter().filter(|module| !is_of_others(module)).any(asks);
        !self.is_of_file() && (self.interrupted_anywhere().is_some() || own())
    }

    fn has_other_unwinder(&self) -> bool {
        let is_file_of = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with(OTHER_FILES));
        self.maps.0.iter().any(|mapping| is_file_of(&mapping.path))
            || self.modules.iter().any(|module| OTHERS.iter().any(|name| module.function(name).is_some()))
    }
}

impl Prepared {
    /// Has the unwinder find tables of our code, where somebody walks stacks.
    pub(crate) fn describe_frames(&mut self, modules: &Modules, memory: Option<&Memory>) {
        if memory.is_none() || self.functions.is_empty() || !modules.has_walkers() {
            return;
        }
        let finders = modules.modules.iter().filter_map(|module| Some((module, module.function(FINDER)?.1)));
        let finders: Vec<(&Module, ProcAddr)> = finders.collect();
        let added = finders.iter().filter(|(module, address)| self.find_at(modules, memory, module, *address)).count();
        if added > 0 {
            self.framed = modules.modules.iter().chain(&modules.c_libraries).cloned().collect();
        }
        self.frames_reach_all = added == finders.len() && added > 0 && !modules.has_other_unwinder();
    }

    /// Adds the patch of one unwinder; false if it can't be patched.
    fn find_at(&mut self, modules: &Modules, memory: Option<&Memory>, module: &Module, address: ProcAddr) -> bool {
        let request = FunctionRequest { name: FINDER.into(), address, work: Work::Code { sees_ends: false } };
        let Some(Ok(placed)) = all_sites(modules, memory, &[&request]).pop() else { return false };
        let arenas = self.arena_modules.clone();
        let arena = self.arena_of(module);
        let is_near = self.arena_modules.get(arena).is_some_and(|(_, text)| is_in_reach(&modules.maps, text));
        if self.is_taken(&placed.sites) || !is_near {
            self.arena_modules = arenas;
            return false;
        }
        self.take(&placed.sites);
        let function = PlannedFunction::new(FOUND_AT.into(), 0, (arena, placed.sites));
        self.functions.push(PlannedFunction { finds_frames: true, ..function });
        true
    }

    /// Where the table goes: the arena of the first unwinder.
    pub(crate) fn frames_arena(&self) -> Option<usize> {
        self.functions.iter().find(|function| function.finds_frames).map(|function| function.arena)
    }

    /// The program's own rows.
    pub(crate) fn frame_rules(&self) -> Box<FrameRules<'_>> {
        Box::new(|address| rules_at(&self.framed, address))
    }
}

fn rules_at(modules: &[Module], address: ProcAddr) -> Option<CallerRules> {
    let module = modules.iter().find(|module| module.text.contains(&address.0))?;
    let file = module.bias.to_file(address);
    caller_rules(module.loaded.file.bytes(), &module.loaded.image, file).ok().flatten()
}
