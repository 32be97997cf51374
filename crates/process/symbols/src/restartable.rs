//! Restartable sequences (rseq): code that the kernel makes a thread leave when it interrupts the thread in it.
//!
//! A program describes each by a `struct rseq_cs` in section `__rseq_cs`, or anywhere with a pointer to it in
//! `__rseq_cs_ptr_array`. The kernel compares a thread's instruction pointer with the addresses described there, so code
//! that ran elsewhere would be interrupted without being left. Addresses in a file may be zero until the loader has
//! relocated them; they are read as it will leave them.
//!
//! Next: `linkage` for the tables of relocations; `trimtab-session`, which keeps patches out of these sequences.

use crate::dynamic::Dynamic;
use crate::elf::{ENDIAN, Elf};
use crate::{Error, linkage};
use std::collections::BTreeMap;
use std::ops::Range;
use trimtab_types::FileAddr;

/// The section of descriptors, and that of pointers to them.
const DESCRIPTORS: &str = "__rseq_cs";
const POINTERS: &str = "__rseq_cs_ptr_array";
/// Size of a descriptor, which is its alignment too.
const DESCRIPTOR_BYTES: u64 = 32;
/// Where a descriptor has the first address, the length, and the address where a thread that was interrupted goes on.
const START_AT: u64 = 8;
const LENGTH_AT: u64 = 16;
const ABORT_AT: u64 = 24;
/// Sequences read at most; the programs that have most have some hundreds.
const SEQUENCES_MAX: usize = 16_384;

/// Code that is either run through, or left for another place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartableSequence {
    /// Its instructions.
    pub code: Range<FileAddr>,
    /// Where a thread goes on that was interrupted in it. The kernel looks at the four bytes before.
    pub abort: FileAddr,
}

/// All restartable sequences that the file describes, in order; none if it has no section headers.
///
/// # Errors
/// [`Error`] if the bytes are no 64-bit little-endian ELF file.
pub fn restartable_sequences(bytes: &[u8]) -> Result<Vec<RestartableSequence>, Error> {
    let elf = Elf::parse(bytes)?;
    let places = |name: &str, step: u64| -> Vec<u64> {
        let section = elf.section_bytes(name);
        let place = section.map_or(0..0, |section| section.addr..section.addr + section.bytes.len() as u64);
        place.step_by(step as usize).take(SEQUENCES_MAX).collect()
    };
    let (mut descriptors, pointers) = (places(DESCRIPTORS, DESCRIPTOR_BYTES), places(POINTERS, 8));
    if descriptors.is_empty() && pointers.is_empty() {
        return Ok(Vec::new());
    }
    let loaded = Loaded { elf: &elf, dynamic: Dynamic::parse(&elf) };
    descriptors.extend(loaded.words(pointers).into_values());
    descriptors.sort_unstable();
    descriptors.dedup();
    let fields =
        descriptors.iter().flat_map(|at| [START_AT, LENGTH_AT, ABORT_AT].map(|field| at.saturating_add(field)));
    let words = loaded.words(fields.collect());
    let mut found: Vec<RestartableSequence> = descriptors.iter().filter_map(|at| sequence(*at, &words)).collect();
    found.sort_by_key(|sequence| (sequence.code.start, sequence.code.end, sequence.abort));
    found.dedup();
    Ok(found)
}

/// The sequence described at `at`, unless it is the room that a linker left between descriptors.
fn sequence(at: u64, words: &BTreeMap<u64, u64>) -> Option<RestartableSequence> {
    let field = |offset: u64| words.get(&at.checked_add(offset)?).copied();
    let (start, length, abort) = (field(START_AT)?, field(LENGTH_AT)?, field(ABORT_AT)?);
    let end = start.checked_add(length).filter(|end| start > 0 && *end > start)?;
    Some(RestartableSequence { code: FileAddr(start)..FileAddr(end), abort: FileAddr(abort) })
}

/// A file as the loader leaves it, at the addresses that it is linked for.
struct Loaded<'a> {
    elf: &'a Elf<'a>,
    dynamic: Dynamic<'a>,
}

impl Loaded<'_> {
    /// The words at these addresses; without those that the file does not have.
    fn words(&self, addresses: Vec<u64>) -> BTreeMap<u64, u64> {
        let in_file = |at: u64| {
            let bytes = self.elf.bytes_from(at)?.bytes.first_chunk::<8>()?;
            Some((at, u64::from_le_bytes(*bytes)))
        };
        let mut words: BTreeMap<u64, u64> = addresses.into_iter().filter_map(in_file).collect();
        for entry in linkage::tables(self.elf, &self.dynamic).into_iter().flatten() {
            if self.elf.machine().is_own_address(entry.r_info.get(ENDIAN) as u32)
                && let Some(word) = words.get_mut(&entry.r_offset.get(ENDIAN))
            {
                *word = entry.r_addend.get(ENDIAN).cast_unsigned();
            }
        }
        words
    }
}
