//! A file as it lies in memory, made into one that can be read like any other.
//!
//! Section headers and debugging information are not loaded, so the headers must not promise any. The loader of older C
//! libraries writes addresses of the process into the dynamic section; those are made the file's again.
//!
//! Next: `parse`, which reads it; `trimtab-session`'s `origin` for when it is needed.

use crate::elf::Elf;
use object::elf;

/// Places in the file's header, in bytes: where section headers begin, and two numbers about them.
const SECTION_HEADERS_AT: std::ops::Range<usize> = 40..48;
const SECTION_COUNTS: std::ops::Range<usize> = 60..64;
/// Bytes of an entry of the dynamic section, and of its tag.
const ENTRY_BYTES: usize = 16;
const TAG_BYTES: usize = 8;
/// Entries that hold an address which the loader may have moved.
const ADDRESSES: [elf::DynamicTag; 9] = [
    elf::DT_PLTGOT,
    elf::DT_HASH,
    elf::DT_STRTAB,
    elf::DT_SYMTAB,
    elf::DT_RELA,
    elf::DT_REL,
    elf::DT_JMPREL,
    elf::DT_VERSYM,
    elf::DT_GNU_HASH,
];

/// The file that `bytes` were, each at its offset in it; `start` is the address at which its first byte was mapped. `None`:
/// it is no program or library.
pub fn loaded_file(mut bytes: Vec<u8>, start: u64) -> Option<Vec<u8>> {
    let elf = Elf::parse(&bytes).ok()?;
    let first = elf.segments().into_iter().find(|segment| segment.file_offset == 0 && segment.file_size > 0)?;
    let bias = start.wrapping_sub(first.addr.0);
    let ends = elf.segments().into_iter().map(|segment| segment.addr.0.saturating_add(segment.mem_size));
    let end = bias.wrapping_add(ends.max()?);
    let dynamic = elf.program_range(elf::PT_DYNAMIC);
    bytes[SECTION_HEADERS_AT].fill(0);
    bytes[SECTION_COUNTS].fill(0);
    if let Some(entries) = dynamic.and_then(|range| bytes.get_mut(range)) {
        for entry in entries.chunks_exact_mut(ENTRY_BYTES) {
            let (tag, value) = entry.split_at_mut(TAG_BYTES);
            let tag = tag.try_into().map_or(0, i64::from_le_bytes);
            let Ok(address) = <[u8; 8]>::try_from(&*value).map(u64::from_le_bytes) else { continue };
            if ADDRESSES.iter().any(|known| known.0 == tag) && (start..end).contains(&address) {
                value.copy_from_slice(&address.wrapping_sub(bias).to_le_bytes());
            }
        }
    }
    Some(bytes)
}
