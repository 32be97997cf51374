//! Places that hold neither a patch nor what it replaced, because the program has mapped another file there.
//!
//! A library that was unloaded takes its patches along, and the next one may be loaded at the same addresses. Where
//! memory holds what its file has, nobody has patched it.
//!
//! Next: `remove`, which asks.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use trimtab_os::{Mapping, MappingTable, Memory};
use trimtab_types::Pid;

/// Whether the code that was patched at `address` is there no more: nothing is mapped there, or no code, or what is there
/// is as in its file.
pub(crate) fn is_gone(pid: Pid, maps: &MappingTable, memory: &Memory, address: u64, length: usize) -> bool {
    let Some(mapping) = maps.at(address) else { return true };
    !mapping.executable || is_as_in_file(pid, mapping, memory, address, length)
}

fn is_as_in_file(pid: Pid, mapping: &Mapping, memory: &Memory, address: u64, length: usize) -> bool {
    if mapping.inode == 0 || mapping.deleted {
        return false;
    }
    let Ok(file) = File::open(format!("/proc/{pid}/root{}", mapping.path)) else { return false };
    let is_same_file = file.metadata().is_ok_and(|data| data.ino() == mapping.inode);
    let mut wanted = vec![0; length];
    let offset = mapping.offset + (address - mapping.start);
    let is_read = is_same_file && file.read_exact_at(&mut wanted, offset).is_ok();
    is_read && memory.read_vec(address, length).is_ok_and(|now| now == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_as_in_its_file_was_patched_by_nobody() {
        let own = Pid(std::process::id() as i32);
        let maps = MappingTable::of(own).expect("maps");
        let memory = Memory::open(own).expect("memory");
        let of_file = |mapping: &&Mapping| mapping.executable && mapping.path.starts_with('/');
        let code = maps.0.iter().find(of_file).expect("code of a file");
        assert!(is_gone(own, &maps, &memory, code.start, 64), "it is another file's, whole");
        let stack = maps.0.iter().find(|mapping| mapping.path == "[stack]").expect("a stack");
        assert!(is_gone(own, &maps, &memory, stack.start, 8), "no code");
        assert!(is_gone(own, &maps, &memory, 0x1000, 8), "nothing");
        let mut other = maps.clone();
        let index = other.0.iter().position(|mapping| mapping.start == code.start).expect("the same");
        // As if memory differed from the file: it shows another part of it.
        other.0[index].offset += 1;
        assert!(!is_gone(own, &other, &memory, code.start, 64), "somebody has changed it");
        other.0[index].inode = 0;
        assert!(!is_gone(own, &other, &memory, code.start, 64), "nobody knows what should be there");
    }
}
