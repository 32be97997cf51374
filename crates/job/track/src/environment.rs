//! A process's environment as it is now: `/proc/PID/environ` shows the one that it was executed with.
//!
//! A child that a rank forks has the rank's own variables there, whatever it has changed since. So the C library's list of
//! variables is read from its memory.
//!
//! Next: `job/member.rs`, which asks whether a process begins MPI apart from its launcher.

use crate::start::modules;
use trimtab_symbols::{MappedModule, ReadMemory};
use trimtab_types::ProcAddr;
use trimtab_types::procfs::Mapping;

/// The list's names; each is the same place.
const NAMES: [&str; 3] = ["environ", "__environ", "_environ"];
/// Longest list and longest variable that are read, bytes.
const LIST_BYTES_MAX: usize = 1 << 17;
const VARIABLE_BYTES_MAX: usize = 1 << 17;
/// Nothing is read across the end of a page: the next one may not be there.
const PAGE: u64 = 4096;
const POINTER_BYTES: usize = 8;

/// `NAME=value`, each ended by a zero byte; `None` if it can't be told.
pub(crate) fn environment_now(read: ReadMemory, maps: &[Mapping]) -> Option<Vec<u8>> {
    let list = pointer(&read(place(read, maps)?, POINTER_BYTES)?)?;
    let mut variables = Vec::new();
    if list == 0 {
        return Some(variables);
    }
    let is_last = |entries: &[u8]| entries.chunks_exact(POINTER_BYTES).position(|entry| entry == [0; POINTER_BYTES]);
    let entries = read_to(read, list, LIST_BYTES_MAX, |bytes| is_last(bytes).map(|at| at * POINTER_BYTES))?;
    for address in entries.chunks_exact(POINTER_BYTES).filter_map(pointer) {
        let end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == 0);
        variables.extend(read_to(read, address, VARIABLE_BYTES_MAX, end)?);
        variables.push(0);
    }
    Some(variables)
}

/// Where the list's address lies: in the program if that has a copy of its own, else in the C library.
fn place(read: ReadMemory, maps: &[Mapping]) -> Option<ProcAddr> {
    let modules: Vec<(String, ProcAddr)> = modules(maps).collect();
    let library =
        modules.iter().find(|(path, _)| path.rsplit('/').next().is_some_and(|name| name.starts_with("libc.")));
    let module = |(_, start): &(String, ProcAddr)| MappedModule::at(read, *start);
    let defined = |module: MappedModule<'_>| NAMES.iter().find_map(|name| module.defined(name));
    modules.first().and_then(module).and_then(defined).or_else(|| library.and_then(module).and_then(defined))
}

/// Bytes from an address to where `end` finds their end; `None` if it is not found among so many, or they can't be read.
fn read_to(read: ReadMemory, address: u64, bytes_max: usize, end: impl Fn(&[u8]) -> Option<usize>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < bytes_max {
        let next = address.checked_add(bytes.len() as u64)?;
        bytes.extend(read(ProcAddr(next), (PAGE - next % PAGE) as usize)?);
        if let Some(end) = end(&bytes) {
            bytes.truncate(end);
            return Some(bytes);
        }
    }
    None
}

fn pointer(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::{ProcFs, Processes};

    /// This test's own process, whose variables other tests leave alone.
    #[test]
    fn the_environment_now_is_read_from_memory() {
        let processes = ProcFs::new();
        let own = processes.own_pid();
        let now = processes.environment_now(own).expect("it has a C library");
        let then = processes.environment(own).expect("it runs");
        let variables = |bytes: &[u8]| -> Vec<Vec<u8>> { bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect() };
        assert!(variables(&now).iter().any(|variable| variable.starts_with(b"PATH=")), "{now:?}");
        assert_eq!(variables(&now), variables(&then));
    }

    #[test]
    fn variables_across_pages_are_read_and_endless_ones_refused() {
        let end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == 0);
        let memory = |ProcAddr(address): ProcAddr, length: usize| -> Option<Vec<u8>> {
            let byte = |at: u64| if at == 0x2004 { 0 } else { b'a' };
            (address + length as u64 <= 0x3000).then(|| (address..address + length as u64).map(byte).collect())
        };
        assert_eq!(read_to(&memory, 0x1ffe, 100, end), Some(b"aaaaaa".to_vec()));
        assert_eq!(read_to(&memory, 0x2005, 1 << 14, end), None);
        assert_eq!(read_to(&|_, length| Some(vec![b'a'; length]), 0x1000, 1 << 14, end), None);
    }
}
