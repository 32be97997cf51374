//! Places that hold neither a patch nor what it replaced, because the program has mapped another file there.
//!
//! A library that was unloaded takes its patches along, and the next one may be loaded at the same addresses. Where
//! memory holds what its file has, nobody has patched it.
//!
//! Next: `remove` and `insert`, which ask.

use crate::origin::file_of;
use std::os::unix::fs::FileExt;
use trimtab_os::{Mapping, MappingTable, Memory};
use trimtab_types::Pid;

/// True if the code that was patched at `address` is there no more: nothing is mapped there, or no code, or what is
/// there is as in its file.
pub(crate) fn is_gone(pid: Pid, maps: &MappingTable, memory: &Memory, address: u64, length: usize) -> bool {
    let Some(mapping) = maps.at(address) else { return true };
    !mapping.executable || is_as_in_file(pid, mapping, memory, address, length)
}

/// True if another tool has changed the code at `address` since the map `planned` was read: the same part of the same
/// file is mapped there, before and after its bytes are read once more, and these are not the file's. Otherwise the
/// program has unloaded the library, or is loading it again right now: a look later may find it whole.
pub(crate) fn is_changed_by_others(pid: Pid, planned: &MappingTable, address: u64, length: usize) -> bool {
    let (Some(wanted), Ok(memory)) = (planned.at(address), Memory::open(pid)) else { return false };
    let is_there = |maps: &MappingTable| maps.at(address).is_some_and(|mapping| shows_same_part(mapping, wanted));
    let now = || MappingTable::of(pid).ok().filter(|maps| is_there(maps));
    let is_as_wanted = |maps: MappingTable| match memory.read_vec(address, length) {
        Ok(found) => {
            maps.at(address).and_then(|mapping| in_file(pid, mapping, address, length)).as_ref() == Some(&found)
        }
        Err(_) => true,
    };
    now().is_some_and(|maps| !is_as_wanted(maps)) && now().is_some()
}

/// True if both show the same part of the same file, as code, at the same addresses.
fn shows_same_part(one: &Mapping, other: &Mapping) -> bool {
    let file = |mapping: &Mapping| (mapping.device, mapping.inode, mapping.path.clone(), mapping.executable);
    let zero = |mapping: &Mapping| mapping.offset.wrapping_sub(mapping.start);
    file(one) == file(other) && zero(one) == zero(other) && one.executable
}

fn is_as_in_file(pid: Pid, mapping: &Mapping, memory: &Memory, address: u64, length: usize) -> bool {
    let wanted = in_file(pid, mapping, address, length);
    wanted.is_some_and(|wanted| memory.read_vec(address, length).is_ok_and(|now| now == wanted))
}

/// The file's bytes for `address`; `None` if the file that is mapped can't be read.
fn in_file(pid: Pid, mapping: &Mapping, address: u64, length: usize) -> Option<Vec<u8>> {
    if mapping.inode == 0 {
        return None;
    }
    let (file, _) = file_of(pid, &[mapping]).ok()?;
    let mut wanted = vec![0; length];
    let offset = mapping.offset + (address - mapping.start);
    file.read_exact_at(&mut wanted, offset).ok().map(|()| wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_is_loaded_again_was_changed_by_nobody() {
        let own = Pid(std::process::id() as i32);
        let planned = MappingTable::of(own).expect("maps");
        let code = planned.0.iter().position(|mapping| mapping.executable && mapping.path.starts_with('/'));
        let code = code.expect("code of a file");
        let start = planned.0[code].start;
        assert!(!is_changed_by_others(own, &planned, start, 64), "it is the file's");
        // The plan was made from another file, or from another part of this one.
        type Change = fn(&mut Mapping);
        let changes: [Change; 4] =
            [|m| m.inode += 1, |m| m.path.push('x'), |m| m.offset += 0x1000, |m| m.executable = false];
        for change in changes {
            let mut other = planned.clone();
            change(&mut other.0[code]);
            assert!(!is_changed_by_others(own, &other, start, 64));
        }
    }

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
