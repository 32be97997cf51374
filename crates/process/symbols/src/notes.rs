//! Notes: the build id, or else a hash of the code, so that every file has a name for its content.
//!
//! Next: `parse`.

use crate::Segment;
use crate::elf::{ENDIAN, Elf, Header};
use object::elf;
use object::read::elf::{NoteIterator, SectionHeader};
use trimtab_types::BuildId;
use twox_hash::XxHash3_128;

/// The longest build id accepted; linkers write 8, 16 or 20 bytes, people who choose their own a little more.
const BUILD_ID_BYTES_MAX: usize = 64;
/// How many note areas are searched; linkers make two or three.
const NOTE_AREAS_MAX: usize = 64;

/// The GNU build id of a file, read without reading anything else of it; `None` if it has none or is no ELF file.
pub fn gnu_build_id_of(bytes: &[u8]) -> Option<BuildId> {
    let elf = Elf::parse(bytes).ok()?;
    gnu_build_id(&elf).map(|id| BuildId(hex(id)))
}

/// The GNU build id, or `text-` and a 128-bit hash of the executable segments' bytes.
pub(crate) fn build_id(elf: &Elf, segments: &[Segment]) -> BuildId {
    match gnu_build_id(elf) {
        Some(id) => BuildId(hex(id)),
        None => BuildId(format!("text-{:032x}", hash_of_text(elf.bytes, segments))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn gnu_build_id<'a>(elf: &Elf<'a>) -> Option<&'a [u8]> {
    let sections = elf.sections.iter().flat_map(|sections| sections.iter());
    let mut in_sections = sections.filter_map(|section| section.notes(ENDIAN, elf.bytes).ok()?).take(NOTE_AREAS_MAX);
    in_sections.find_map(build_id_among).or_else(|| {
        let segments = elf.note_segments().take(NOTE_AREAS_MAX);
        segments.filter_map(|(align, bytes)| NoteIterator::new(ENDIAN, align, bytes).ok()).find_map(build_id_among)
    })
}

fn build_id_among<'a>(mut notes: NoteIterator<'a, Header>) -> Option<&'a [u8]> {
    while let Ok(Some(note)) = notes.next() {
        let is_build_id = note.name() == elf::ELF_NOTE_GNU && note.n_type(ENDIAN) == elf::NT_GNU_BUILD_ID;
        let id = note.desc();
        if is_build_id && !id.is_empty() && id.len() <= BUILD_ID_BYTES_MAX {
            return Some(id);
        }
    }
    None
}

fn hash_of_text(bytes: &[u8], segments: &[Segment]) -> u128 {
    let mut hasher = XxHash3_128::default();
    // Segments that overlap in the file must not make this slow: hash each byte about once.
    let mut left = bytes.len();
    for segment in segments.iter().filter(|segment| segment.executable) {
        let start = usize::try_from(segment.file_offset).unwrap_or(usize::MAX).min(bytes.len());
        let size = usize::try_from(segment.file_size).unwrap_or(usize::MAX).min(bytes.len() - start).min(left);
        left -= size;
        hasher.write(&segment.addr.0.to_le_bytes());
        hasher.write(&bytes[start..start + size]);
    }
    hasher.finish_128()
}
