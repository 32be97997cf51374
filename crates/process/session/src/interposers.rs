//! Libraries that stand before the C library in the loader's search and define functions of the same names: allocators and
//! wrappers that were preloaded or linked in. The program's calls run theirs.
//!
//! Next: `link_map` for the order.

use crate::link_map::LinkMap;
use crate::mapped::module_mappings;
use crate::origin::file_of;
use trimtab_os::{FileMapping, Mapping, MappingTable};
use trimtab_symbols::exports_one_of;
use trimtab_types::Pid;

/// Paths, as the process mapped them, of the files that stand before the C library and define a function of one of `names`.
/// A file that can't be opened is among them: whoever reads it will say so.
pub fn interposers(pid: Pid, maps: &MappingTable, names: &[&str]) -> Vec<String> {
    let groups = module_mappings(maps);
    let in_order = LinkMap::of(pid, maps, None).in_order();
    let group_of = |address: &u64| {
        let mapping = maps.at(*address)?;
        groups.iter().find(|group| group[0].inode == mapping.inode && group[0].path == mapping.path)
    };
    let before = in_order.iter().filter_map(group_of).take_while(|group| !is_c_library(&group[0].path));
    before.filter(|group| may_define(pid, group, names)).map(|group| group[0].path.clone()).collect()
}

fn is_c_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("libc.") || name.starts_with("libc-")
}

fn may_define(pid: Pid, group: &[&Mapping], names: &[&str]) -> bool {
    let file = file_of(pid, group).ok().and_then(|(file, _)| FileMapping::of(&file).ok());
    file.is_none_or(|file| exports_one_of(file.bytes(), names).unwrap_or(false))
}
