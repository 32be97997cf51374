//! Any bytes as a module in a process's memory: its names are looked up, and its small functions are asked for an answer.
//!
//! The memory holds these bytes and nothing else, so each number in them may lead out of it.
//!
//! Next: `elf` for the same tables in a file, `answer` for functions alone.

use crate::seeds::{LINKAGE, SHAPES};
use crate::target::Target;
use anyhow::Result;
use trimtab_symbols::MappedModule;
use trimtab_x86::evaluate_cell;

/// Where the module lies.
const START: u64 = 0x7f00_0000_0000;
/// Names that are looked for: of the seeds, of a library, and one that is nowhere.
const NAMES: [&str; 4] = ["work", "solve", "MPI_Initialized", "nowhere"];

/// The target.
pub struct Mapped;

impl Target for Mapped {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let old = ["objcopy", "--remove-section", ".gnu.hash"];
        Ok(vec![SHAPES.build(&[])?, LINKAGE.build(&[])?, LINKAGE.build(&old)?])
    }

    fn length_max(&self) -> usize {
        24 * 1024
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let read = |address: u64, length: usize| bytes_at(input, START, address, length);
        let Some(module) = MappedModule::at(&read, START) else { return false };
        let imports = module.imports();
        assert!(imports.iter().all(|name| !name.is_empty()), "what is asked for has a name");
        let _ = module.soname();
        let asked = imports.iter().map(String::as_str).take(8).chain(NAMES);
        for address in asked.filter_map(|name| module.defined(name)) {
            let _ = evaluate_cell(&read, address);
        }
        true
    }
}

/// So many bytes at an address of a memory that holds `all` at `start`.
pub(crate) fn bytes_at(all: &[u8], start: u64, address: u64, length: usize) -> Option<Vec<u8>> {
    let first = usize::try_from(address.checked_sub(start)?).ok()?;
    Some(all.get(first..first.checked_add(length)?)?.to_vec())
}
