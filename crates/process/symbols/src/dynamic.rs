//! The dynamic section: what the loader reads, and therefore right even where section headers are missing.
//!
//! Next: `symtab`, which reads the symbol table this finds.

use crate::elf::{ENDIAN, Elf, Header, Mapped};
use object::LittleEndian;
use object::elf::{self, Dyn64};
use object::pod;
use object::read::elf::{Dyn, GnuHashTable, HashTable};

/// Entries read at most: real sections have about thirty, plus one per needed library.
const ENTRIES_MAX: usize = 65_536;
/// Libraries listed at most.
const NEEDED_MAX: usize = 4096;
/// The longest library name read, in bytes (Linux' PATH_MAX).
const LIBRARY_NAME_BYTES_MAX: usize = 4096;

/// The entries we use; addresses are file addresses, 0 where absent.
#[derive(Default)]
pub(crate) struct Dynamic<'a> {
    pub is_present: bool,
    pub is_pie: bool,
    pub relocates_text: bool,
    pub needed: Vec<String>,
    pub soname: Option<String>,
    pub symbols_addr: u64,
    pub strings: &'a [u8],
    pub version_of_symbol_addr: u64,
    pub version_definitions_addr: u64,
    pub version_definition_count: u64,
    /// Address and size in bytes of the tables of relocations with addends.
    pub relocations: [(u64, u64); 2],
    hash_addr: u64,
    gnu_hash_addr: u64,
}

impl<'a> Dynamic<'a> {
    pub fn parse(elf: &Elf<'a>) -> Self {
        let entries = entries(elf);
        let value = |tag: elf::DynamicTag| entries.iter().find(|entry| entry.0 == tag).map(|entry| entry.1);
        let string_area =
            value(elf::DT_STRTAB).and_then(|addr| elf.bytes_from(addr)).map_or(&[][..], |area| area.bytes);
        let strings_size = usize::try_from(value(elf::DT_STRSZ).unwrap_or(0)).unwrap_or(usize::MAX);
        let strings = &string_area[..strings_size.min(string_area.len())];
        let needed = entries.iter().filter(|entry| entry.0 == elf::DT_NEEDED).take(NEEDED_MAX);
        Dynamic {
            is_present: !entries.is_empty(),
            is_pie: value(elf::DT_FLAGS_1).is_some_and(|flags| flags & elf::DF_1_PIE.0 != 0),
            relocates_text: value(elf::DT_TEXTREL).is_some()
                || value(elf::DT_FLAGS).is_some_and(|flags| flags & elf::DF_TEXTREL.0 != 0),
            needed: needed.filter_map(|entry| string_at(strings, entry.1)).collect(),
            soname: value(elf::DT_SONAME).and_then(|offset| string_at(strings, offset)),
            symbols_addr: value(elf::DT_SYMTAB).unwrap_or(0),
            strings,
            version_of_symbol_addr: value(elf::DT_VERSYM).unwrap_or(0),
            version_definitions_addr: value(elf::DT_VERDEF).unwrap_or(0),
            version_definition_count: value(elf::DT_VERDEFNUM).unwrap_or(0),
            relocations: [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ)]
                .map(|(addr, size)| (value(addr).unwrap_or(0), value(size).unwrap_or(0))),
            hash_addr: value(elf::DT_HASH).unwrap_or(0),
            gnu_hash_addr: value(elf::DT_GNU_HASH).unwrap_or(0),
        }
    }

    /// How many dynamic symbols there are, from the hash tables: nothing else says.
    pub fn symbol_count(&self, elf: &Elf<'a>) -> usize {
        let gnu = elf.bytes_from(self.gnu_hash_addr).filter(|_| self.gnu_hash_addr != 0).and_then(|area| {
            let table: GnuHashTable<'_, Header> = GnuHashTable::parse(ENDIAN, area.bytes).ok()?;
            Some(table.symbol_table_length(ENDIAN).unwrap_or(table.symbol_base()))
        });
        let old = || {
            let area = elf.bytes_from(self.hash_addr).filter(|_| self.hash_addr != 0)?;
            let table: HashTable<'_, Header> = HashTable::parse(ENDIAN, area.bytes).ok()?;
            Some(table.symbol_table_length())
        };
        gnu.or_else(old).unwrap_or(0) as usize
    }
}

fn entries(elf: &Elf) -> Vec<(elf::DynamicTag, u64)> {
    let Some(area) = area(elf) else { return Vec::new() };
    let count = (area.bytes.len() / size_of::<Dyn64<LittleEndian>>()).min(ENTRIES_MAX);
    let Ok((entries, _)) = pod::slice_from_bytes::<Dyn64<LittleEndian>>(area.bytes, count) else { return Vec::new() };
    let entries = entries.iter().map(|entry| (entry.d_tag(ENDIAN), entry.d_val(ENDIAN)));
    entries.take_while(|entry| entry.0 != elf::DT_NULL).collect()
}

/// The section if there are sections (a debug file's program header points at something else), else the segment.
fn area<'a>(elf: &Elf<'a>) -> Option<Mapped<'a>> {
    match elf.sections {
        Some(_) => elf.section_of_type(elf::SHT_DYNAMIC),
        None => elf.program_bytes(elf::PT_DYNAMIC),
    }
}

fn string_at(strings: &[u8], offset: u64) -> Option<String> {
    let tail = strings.get(usize::try_from(offset).ok()?..)?;
    let tail = &tail[..tail.len().min(LIBRARY_NAME_BYTES_MAX)];
    let end = tail.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(&tail[..end]).into_owned())
}
