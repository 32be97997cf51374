//! Libraries that a program loads while somebody waits for them: whether one is there, and all of it.
//!
//! A library is seen in the mappings before its loader is done with it. Its code is what it will be as soon as it is
//! mapped, unless the loader writes addresses into it, which is refused. But the loader first maps the whole file at once
//! and then its parts over that, and between the two, constants are not where they belong.
//!
//! Next: `subject`, which decides about its functions as about any other.

use crate::modules::Module;
use trimtab_os::{Mapping, MappingTable};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// The mappings of the library whose file name ends so; empty if no code of it is mapped.
pub fn mappings_of(maps: &MappingTable, library: &str) -> Vec<Mapping> {
    let is_it = |mapping: &&Mapping| {
        let name = mapping.path.rsplit('/').next().unwrap_or(&mapping.path);
        mapping.inode != 0 && mapping.path.starts_with('/') && name.ends_with(library)
    };
    let found: Vec<Mapping> = maps.0.iter().filter(is_it).cloned().collect();
    if found.iter().any(|mapping| mapping.executable) { found } else { Vec::new() }
}

impl Module {
    /// True if every part of the file is mapped where it belongs.
    pub fn is_whole(&self, maps: &MappingTable) -> bool {
        let segments = self.loaded.image.segments.iter().filter(|segment| segment.file_size > 0);
        segments.into_iter().all(|segment| {
            let page = self.bias.to_proc(segment.addr).0 & !(PAGE - 1);
            let shows = |mapping: &Mapping| mapping.offset + (page - mapping.start);
            maps.at(page).is_some_and(|mapping| {
                mapping.path == self.path
                    && mapping.executable == segment.executable
                    && shows(mapping) == segment.file_offset & !(PAGE - 1)
            })
        })
    }

    /// True if its loader changes its code after it has mapped it; also if that can't be told.
    pub fn relocates_text(&self) -> bool {
        trimtab_symbols::relocates_text(self.loaded.file.bytes()).unwrap_or(true)
    }
}
