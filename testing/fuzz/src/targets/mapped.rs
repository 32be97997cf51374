//! Any bytes as a module in a process's memory: its names are looked up, and its small functions are asked for an answer.
//!
//! The memory holds these bytes and nothing else, so each number in them may lead out of it.
//!
//! Next: `elf` for the same tables in a file, `answer` for functions alone.

use crate::hostile::Target;
use crate::seeds::{LINKAGE, SHAPES};
use anyhow::{Context, Result};
use trimtab_symbols::MappedModule;
use trimtab_types::ProcAddr;
use trimtab_x86::evaluate_cell;

/// Where the module lies.
const START: ProcAddr = ProcAddr(0x7f00_0000_0000);
/// Names that are looked for: of the seeds, of a library, and one that is nowhere.
const NAMES: [&str; 4] = ["work", "solve", "MPI_Initialized", "nowhere"];

/// The target.
pub struct Mapped;

impl Target for Mapped {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let old = ["objcopy", "--remove-section", ".gnu.hash"];
        let files = [SHAPES.build(&[])?, LINKAGE.build(&[])?, LINKAGE.build(&old)?];
        files.iter().map(|file| laid_out(file).context("a compiler's file has parts to load")).collect()
    }

    fn length_max(&self) -> usize {
        24 * 1024
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let read = |address, length| bytes_at(input, START, address, length);
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

/// A file's parts where its loader puts them, from its lowest address on.
fn laid_out(file: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?) as usize);
    let count = usize::from(u16::from_le_bytes([*file.get(56)?, *file.get(57)?]));
    let mut memory = Vec::new();
    for header in (0..count).map(|index| Some(word(32)? + 56 * index)) {
        let header = header?;
        // A part to load.
        if file.get(header..header + 4)? != [1, 0, 0, 0] {
            continue;
        }
        let (offset, address, length) = (word(header + 8)?, word(header + 16)?, word(header + 32)?);
        memory.resize(memory.len().max(address + length), 0);
        memory[address..address + length].copy_from_slice(file.get(offset..offset + length)?);
    }
    (!memory.is_empty()).then_some(memory)
}

/// So many bytes at an address of a memory that holds `all` at `start`.
pub(crate) fn bytes_at(all: &[u8], start: ProcAddr, address: ProcAddr, length: usize) -> Option<Vec<u8>> {
    let first = usize::try_from(address.0.checked_sub(start.0)?).ok()?;
    Some(all.get(first..first.checked_add(length)?)?.to_vec())
}
