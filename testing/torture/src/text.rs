//! Comparison of the code in a process with that of its files.
//!
//! Next: `target` asks after removals.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use trimtab_os::{FileMapping, Mapping, MappingTable, Memory};
use trimtab_types::Pid;

/// Files whose bytes were mapped once already, by inode and path.
#[derive(Debug, Default)]
pub(crate) struct Files(HashMap<(u64, String), Option<Arc<FileMapping>>>);

/// Bytes compared at a time.
const CHUNK: u64 = 1 << 20;

/// How often a difference must be seen after it was first, and the time between.
const LOOKS_AGAIN: usize = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A byte that is not its file's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Path of the file.
    pub path: String,
    /// First address that differs.
    pub address: u64,
    /// The bytes in the process.
    pub found: Vec<u8>,
    /// The bytes of the file.
    pub expected: Vec<u8>,
}

impl Files {
    /// Places where executable mappings of `pid` differ from their files, the first one of each mapping; `None` if the
    /// process went away meanwhile.
    ///
    /// A program may load another library where one was while we look; what is seen again and again is real.
    pub fn differences(&mut self, pid: Pid) -> Option<Vec<Difference>> {
        let mut found = self.look(pid)?;
        for _ in 0..LOOKS_AGAIN {
            if found.is_empty() {
                break;
            }
            std::thread::sleep(BETWEEN_LOOKS);
            let again = self.look(pid)?;
            found.retain(|difference| again.contains(difference));
        }
        Some(found)
    }

    fn look(&mut self, pid: Pid) -> Option<Vec<Difference>> {
        let maps = MappingTable::of(pid).ok()?;
        let memory = Memory::open(pid).ok()?;
        let mut found = Vec::new();
        let is_text = |m: &&Mapping| m.executable && m.inode != 0 && m.path.starts_with('/') && !m.deleted;
        for mapping in maps.0.iter().filter(|m| is_text(m) && !m.path.starts_with("/memfd:")) {
            let Some(file) = self.file(pid, mapping) else { continue };
            found.extend(difference(&memory, mapping, file.bytes())?);
        }
        Some(found)
    }

    fn file(&mut self, pid: Pid, mapping: &Mapping) -> Option<Arc<FileMapping>> {
        let open = || {
            let path = PathBuf::from(format!("/proc/{pid}/root{}", mapping.path));
            FileMapping::open(&path).ok().map(Arc::new)
        };
        self.0.entry((mapping.inode, mapping.path.clone())).or_insert_with(open).clone()
    }
}

/// Places where the code in `pid` differs from its files, in words; `None` if the process went away meanwhile.
pub fn text_differences(pid: Pid) -> Option<Vec<String>> {
    let found = Files::default().differences(pid)?;
    Some(found.iter().map(|difference| format!("{difference:x?}")).collect())
}

/// The first difference of one mapping: `Some(None)`: there is none; `None`: its memory is gone.
fn difference(memory: &Memory, mapping: &Mapping, file: &[u8]) -> Option<Option<Difference>> {
    let mut at = mapping.start;
    while at < mapping.end {
        let offset = (mapping.offset + (at - mapping.start)) as usize;
        let length = CHUNK.min(mapping.end - at).min((file.len() as u64).saturating_sub(offset as u64)) as usize;
        if length == 0 {
            break;
        }
        let now = memory.read_vec(at, length).ok()?;
        let expected = &file[offset..offset + length];
        if now != expected {
            let place = now.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
            let end = (place + 8).min(length);
            return Some(Some(Difference {
                path: mapping.path.clone(),
                address: at + place as u64,
                found: now[place..end].to_vec(),
                expected: expected[place..end].to_vec(),
            }));
        }
        at += length as u64;
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_code_is_our_files() {
        let mut files = Files::default();
        assert_eq!(files.differences(Pid(std::process::id() as i32)), Some(Vec::new()));
        assert!(files.0.len() > 1, "the program and its libraries: {:?}", files.0.keys());
        assert_eq!(files.differences(Pid(i32::MAX)), None);
    }
}
