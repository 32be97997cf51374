//! Mappings and descriptors of a process: files that hold code, and memory of a trimtab.
//!
//! Next: `modules` reads the files; `leftover` the memory.

use crate::error::Error;
use trimtab_os::{Mapping, MappingTable};
use trimtab_stub::layout::MEMFD_NAME;
use trimtab_types::Pid;

/// Between `vfork` and `exec` a process has no memory of its own, and must not be touched.
pub(crate) fn check_own_memory(pid: Pid) -> Result<(), Error> {
    trimtab_os::parent_sharing_memory(pid).map_or(Ok(()), |parent| Err(Error::SharesMemory { pid, parent }))
}

/// Mappings of each file that has executable ones, in address order.
pub(crate) fn module_mappings(maps: &MappingTable) -> Vec<Vec<&Mapping>> {
    let mut groups: Vec<Vec<&Mapping>> = Vec::new();
    for mapping in
        maps.0.iter().filter(|mapping| mapping.inode != 0 && mapping.path.starts_with('/') && !is_own(mapping))
    {
        // Most are of the file that the one before is of, and hardly any two have the same number.
        let is_of = |group: &&mut Vec<&Mapping>| group[0].inode == mapping.inode && group[0].path == mapping.path;
        match groups.iter_mut().rev().find(is_of) {
            Some(group) => group.push(mapping),
            None => groups.push(vec![mapping]),
        }
    }
    groups.retain(|group| group.iter().any(|mapping| mapping.executable));
    groups
}

/// True if it is memory that trimtab has made there.
fn is_own(mapping: &Mapping) -> bool {
    mapping.deleted && mapping.path.strip_prefix("/memfd:").is_some_and(|name| name == MEMFD_NAME)
}

/// True if a mapping shows the shared memory of a trimtab.
pub(crate) fn is_ours(mapping: &Mapping) -> bool {
    mapping.path.strip_prefix("/memfd:").is_some_and(|name| name == MEMFD_NAME)
}

/// Descriptors of a trimtab's shared memory that `pid` has open.
pub(crate) fn open_descriptors(pid: Pid) -> Vec<u64> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_ours = |path: std::path::PathBuf| {
        path.to_str()
            .and_then(|text| text.strip_prefix("/memfd:"))
            .is_some_and(|name| name.strip_suffix(" (deleted)").unwrap_or(name) == MEMFD_NAME)
    };
    entries
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(is_ours))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}
