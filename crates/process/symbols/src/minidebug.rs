//! Mini symbols: distributions of the Fedora family put a compressed symbol table into stripped programs
//! (`.gnu_debugdata`, an xz-compressed ELF file).
//!
//! Next: `parse`, which reads the symbols of what is unpacked here.

use crate::elf::Elf;
use lzma_rust2::XzReader;
use std::io::Read;

/// Memory for unpacking, in KiB; xz's strongest preset needs 65 MiB.
const UNPACK_MEMORY_KIB_MAX: u32 = 80 * 1024;
/// Symbol tables shrink to a fifth; what grows by more than this is a bomb.
const GROWTH_MAX: u64 = 64;

/// The unpacked ELF file, if there is one.
pub(crate) fn unpack(elf: &Elf, problems: &mut Vec<String>) -> Option<Vec<u8>> {
    let packed = elf.section_bytes(".gnu_debugdata")?.bytes;
    let limit = (packed.len() as u64).saturating_mul(GROWTH_MAX);
    let mut unpacked = Vec::new();
    let reader = XzReader::new_mem_limit(packed, false, UNPACK_MEMORY_KIB_MAX);
    match reader.take(limit).read_to_end(&mut unpacked) {
        Ok(length) if (length as u64) < limit => Some(unpacked),
        Ok(length) => {
            problems.push(format!("mini symbols: more than {length} bytes unpacked from {}, left out", packed.len()));
            None
        }
        Err(error) => {
            problems.push(format!("mini symbols: {error}"));
            None
        }
    }
}
