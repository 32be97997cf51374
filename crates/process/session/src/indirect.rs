//! Indirect functions (IFUNC): which code the loader chose for one, read from the slots it filled.
//!
//! Nothing is called in the process: whoever calls such a function does so through a slot that holds the choice. If no
//! slot is bound yet, or if slots disagree, the choice is not known and says so.
//!
//! Next: `trimtab-symbols`' slots, which come from relocations.

use crate::modules::{Module, Modules};
use crate::obstacle::Obstacle;
use std::collections::BTreeSet;
use trimtab_os::Memory;
use trimtab_symbols::{Function, Slot};
use trimtab_types::{FileAddr, ProcAddr};

impl Modules {
    /// Where a function's code begins. If it can't be told which code an indirect function has, where its resolver
    /// begins, which is refused when it comes to patching.
    pub fn code_of(&self, module: &Module, function: &Function) -> ProcAddr {
        let chosen = if function.is_ifunc { self.implementation(module, function).ok() } else { None };
        chosen.unwrap_or_else(|| module.bias.to_proc(function.addr))
    }

    /// Where the code of the function of this name begins that `module` has: of an indirect one, what the loader chose for
    /// this process. Calls of several indirect functions may run the same code, which is patched only once then.
    pub fn code_named(&self, module: &Module, name: &str) -> Option<ProcAddr> {
        let function = module.loaded.image.function_named(name)?;
        Some(self.code_of(module, function))
    }

    /// Why the code of the indirect function whose resolver begins at `address` can't be told; nothing if it can, or if
    /// there is none.
    pub(crate) fn why_unknown(&self, address: ProcAddr) -> Option<Obstacle> {
        let module = self.at(address)?;
        let file = module.bias.to_file(address);
        let begins = |function: &&Function| function.addr == file && function.is_ifunc;
        let function = module.loaded.image.function_at(file).filter(begins)?;
        self.implementation(module, function).err()
    }

    /// The code that calls of an indirect function of `module` run in this process.
    ///
    /// # Errors
    /// Why it can't be told, as a sentence.
    pub fn implementation(&self, module: &Module, function: &Function) -> Result<ProcAddr, Obstacle> {
        if self.is_of_file() {
            return Err(Obstacle::ResolverInFile);
        }
        let memory = Memory::open(self.pid).map_err(|error| Obstacle::Memory(error.to_string()))?;
        let own = module.loaded.image.slots_of_resolver(function.addr).map(|slot| (module, slot));
        // A name with a version is not what other modules' plain imports mean.
        let names = function.names.iter().filter(|name| !name.contains('@'));
        let imports = names.flat_map(|name| {
            self.modules.iter().flat_map(move |user| {
                let slots = user.loaded.image.slots_of_import(name);
                slots.map(move |slot| (user, slot))
            })
        });
        let values = own.chain(imports).filter_map(|(user, slot)| value_of(&memory, user, slot));
        let chosen: BTreeSet<u64> = values.filter(|value| is_plain_function(module, *value)).collect();
        let mut chosen = chosen.into_iter();
        match (chosen.next(), chosen.next()) {
            (Some(address), None) => Ok(ProcAddr(address)),
            (None, _) => Err(Obstacle::NoSlot),
            (Some(first), Some(second)) => {
                Err(Obstacle::SeveralCodes { first: ProcAddr(first), second: ProcAddr(second) })
            }
        }
    }
}

fn value_of(memory: &Memory, user: &Module, slot: &Slot) -> Option<u64> {
    let bytes = memory.read_vec(user.bias.to_proc(slot.addr).0, size_of::<u64>()).ok()?;
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// True if a function of the module that is no resolver begins there: what is not bound yet leads to a stub, and what
/// another module took over is not this function.
fn is_plain_function(module: &Module, address: u64) -> bool {
    let file: FileAddr = module.bias.to_file(ProcAddr(address));
    let image = &module.loaded.image;
    let begins = |function: &&Function| function.addr == file && !function.is_ifunc;
    image.stub_at(file).is_none() && image.function_at(file).filter(begins).is_some()
}
