//! In which order the loader of a process searches its files, read from the list that it keeps for debuggers.
//!
//! The list begins with the program, then comes what was preloaded, then the libraries as they were asked for: of several
//! definitions of a name the first one is used. Files loaded by `dlmopen` are in namespaces of their own, each with its own
//! list, and find only each other.
//!
//! Next: `modules`, which puts its modules into this order.

use std::collections::BTreeMap;
use trimtab_os::{MappingTable, Memory};
use trimtab_types::{Pid, procfs};

/// Numbers of the kernel's words to a program (`/proc/PID/auxv`): where its program headers are, and how many.
const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
/// Bytes of a program header, and its kinds that are used here.
const HEADER_BYTES: usize = 56;
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;
/// Tag of the loader's own list in the program's dynamic section, and of that section's end.
const DT_DEBUG: u64 = 21;
const DT_NULL: u64 = 0;
/// A list with more than one namespace has this version.
const VERSION_WITH_NAMESPACES: u64 = 2;
/// Bounds, for lists that are damaged or just being changed.
const HEADERS_MAX: u64 = 1024;
const ENTRIES_MAX: usize = 65_536;
const NAMESPACES_MAX: usize = 64;
const FILES_MAX: usize = 65_536;

/// Place of a file in the loader's search: its namespace, and its number in that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LoadOrder {
    pub namespace: u32,
    pub number: u32,
}

/// Where the program's headers are and what the loader has loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkMap {
    /// An address in the first file that the kernel mapped for the program.
    pub program_at: Option<u64>,
    /// By displacement and by the address of the dynamic section.
    places: BTreeMap<(u64, u64), LoadOrder>,
}

impl LinkMap {
    /// Reads the lists of `pid`; what can't be read is left out.
    pub(crate) fn of(pid: Pid, maps: &MappingTable, loader_list: Option<u64>) -> Self {
        let Some(headers) = program_headers(pid) else { return LinkMap::default() };
        let mut found = LinkMap { program_at: Some(headers.0), ..LinkMap::default() };
        let Ok(memory) = Memory::open(pid) else { return found };
        if let Some(list) = list_of_program(&memory, headers).or(loader_list) {
            found.places = read_lists(&memory, list);
        }
        // The program that a loader was started with stands first in its list.
        let first = found.places.iter().find(|(_, place)| **place == LoadOrder::default());
        if let Some(((_, dynamic), _)) = first.filter(|((_, dynamic), _)| maps.at(*dynamic).is_some()) {
            found.program_at = Some(*dynamic);
        }
        found
    }

    /// Addresses in the files of the first namespace, in the order of the search.
    pub(crate) fn in_order(&self) -> Vec<u64> {
        let first = self.places.iter().filter(|(_, place)| place.namespace == 0);
        let mut files: Vec<(u32, u64)> = first.map(|((_, dynamic), place)| (place.number, *dynamic)).collect();
        files.sort_unstable();
        files.into_iter().map(|(_, dynamic)| dynamic).collect()
    }

    /// The place of the file that is displaced by `bias` and whose mappings `holds` says an address to be in.
    pub(crate) fn place_of(&self, bias: u64, holds: &dyn Fn(u64) -> bool) -> Option<LoadOrder> {
        let of_bias = self.places.range((bias, 0)..=(bias, u64::MAX));
        of_bias.filter(|((_, dynamic), _)| holds(*dynamic)).map(|(_, place)| *place).min()
    }
}

/// Kind of the header that names a program's loader, and what the loader's list says while it does not change.
const PT_INTERP: u32 = 3;
const CONSISTENT: u64 = 0;

/// True if the loader of `pid` has everything in place that it was asked for until now; a program without one has.
pub fn is_loaded(pid: Pid, maps: &MappingTable) -> bool {
    let (Some(headers), Ok(memory)) = (program_headers(pid), Memory::open(pid)) else { return false };
    let Ok(bytes) = memory.read_vec(headers.0, headers.1 as usize * HEADER_BYTES) else { return false };
    if !bytes.chunks_exact(HEADER_BYTES).any(|header| header.starts_with(&PT_INTERP.to_le_bytes())) {
        return maps.at(headers.0).is_some();
    }
    let Some(list) = list_of_program(&memory, headers) else { return false };
    let word = |offset: u64| memory.read_word(list.wrapping_add(offset)).ok();
    let state = word(24).map(|state| state & u64::from(u32::MAX));
    state == Some(CONSISTENT) && word(8).is_some_and(|first| first != 0)
}

/// Address and number of the program's headers.
fn program_headers(pid: Pid) -> Option<(u64, u64)> {
    let words = procfs::read_all(std::fs::File::open(format!("/proc/{pid}/auxv")).ok()?).ok()?;
    let words: Vec<u64> =
        words.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes)).collect();
    let value = |wanted: u64| words.chunks_exact(2).find(|pair| pair[0] == wanted).map(|pair| pair[1]);
    Some((value(AT_PHDR)?, value(AT_PHNUM)?.min(HEADERS_MAX)))
}

/// The list that the program's dynamic section names.
fn list_of_program(memory: &Memory, (address, count): (u64, u64)) -> Option<u64> {
    let headers = memory.read_vec(address, count as usize * HEADER_BYTES).ok()?;
    let field = |header: &[u8], at: usize| header.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let is_kind = |kind: u32| move |header: &&[u8]| header.starts_with(&kind.to_le_bytes());
    let find = |kind: u32| headers.chunks_exact(HEADER_BYTES).find(is_kind(kind));
    let bias = find(PT_PHDR).and_then(|own| field(own, 16)).map_or(0, |own| address.wrapping_sub(own));
    let dynamic = find(PT_DYNAMIC)?;
    let start = bias.wrapping_add(field(dynamic, 16)?);
    let entries = (field(dynamic, 40)? as usize / 16).min(ENTRIES_MAX);
    let entries = memory.read_vec(start, entries * 16).ok()?;
    let mut entries = entries.chunks_exact(16).filter_map(|entry| Some((field(entry, 0)?, field(entry, 8)?)));
    let found = entries.find(|(tag, _)| *tag == DT_DEBUG || *tag == DT_NULL)?;
    (found.0 == DT_DEBUG && found.1 != 0).then_some(found.1)
}

fn read_lists(memory: &Memory, mut list: u64) -> BTreeMap<(u64, u64), LoadOrder> {
    let mut places = BTreeMap::new();
    let word = |address: u64| memory.read_word(address).unwrap_or(0);
    for namespace in 0..NAMESPACES_MAX as u32 {
        let mut entry = word(list.wrapping_add(8));
        for number in 0..FILES_MAX as u32 {
            if entry == 0 {
                break;
            }
            let Ok(fields) = memory.read_vec(entry, 32) else { break };
            let field = |at: usize| fields[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
            // The loader itself is in every namespace, and the same one.
            places.entry((field(0), field(16))).or_insert(LoadOrder { namespace, number });
            entry = field(24);
        }
        let version = word(list) & u64::from(u32::MAX);
        list = if version >= VERSION_WITH_NAMESPACES { word(list.wrapping_add(40)) } else { 0 };
        if list == 0 {
            break;
        }
    }
    places
}
