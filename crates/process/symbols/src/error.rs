//! The errors of reading a program's file: one closed list, each with its facts and the next step.
//!
//! Only what makes the whole answer useless is an error. A table that is broken beside healthy ones becomes a line in
//! `Image::problems` instead, because a program with a damaged symbol table still runs and can still be measured.
//!
//! Next: `parse` and `frames`, which raise these.

use trimtab_types::{BuildId, FileAddr};

/// Why a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes don't begin with the ELF magic number.
    #[error("not an ELF file ({length} bytes, first bytes {first:02x?}); name a compiled program or library")]
    NotElf {
        /// Length of the input in bytes.
        length: usize,
        /// Up to four first bytes.
        first: Vec<u8>,
    },
    /// A 32-bit (or x32) file.
    #[error("a 32-bit ELF file (machine {machine}); only 64-bit programs can be measured: rebuild it with -m64")]
    Not64Bit {
        /// `e_machine` of the file.
        machine: u16,
    },
    /// A big-endian file.
    #[error("a big-endian ELF file; only little-endian programs can be measured")]
    BigEndian,
    /// Not something that a process maps to run.
    #[error("ELF type {elf_type} is {meaning}, not an executable or shared library; name the program itself")]
    NotLoadable {
        /// `e_type` of the file.
        elf_type: u16,
        /// The type in words.
        meaning: &'static str,
    },
    /// A header or table reaches beyond the file, or contradicts itself.
    #[error("damaged ELF file: {what}; is it still being written, or cut short? reinstall or copy it again")]
    Malformed {
        /// Which table, and how.
        what: String,
    },
    /// Bytes given with an image that was not made from them.
    #[error("these are {given} bytes, the image was read from a file of {expected}; parse the file again")]
    OtherFile {
        /// Length of the file the image was made from.
        expected: u64,
        /// Length of the bytes given.
        given: u64,
    },
    /// The unwind entry at an address can't be read.
    #[error("damaged unwind entry for {addr}: {what}; leave the function there alone")]
    BadFrame {
        /// An address the entry covers.
        addr: FileAddr,
        /// The fault, in words.
        what: String,
    },
    /// The exception table of a function can't be read.
    #[error("damaged exception table at {addr}: {what}; leave its function alone")]
    BadExceptionTable {
        /// Where the table (LSDA) lies.
        addr: FileAddr,
        /// The fault, in words.
        what: String,
    },
    /// Bytes that are not a cached image, or one of another version.
    #[error("not a usable cached image: {what}; delete it, it will be made again from the program's file")]
    BadCache {
        /// The fault, in words.
        what: String,
    },
    /// A debug file that belongs to another build of the program.
    #[error("the debug file has build id {debug}, the program {image}; install the debug file of this very build")]
    OtherBuild {
        /// Build id of the program.
        image: BuildId,
        /// Build id of the debug file.
        debug: BuildId,
    },
}

impl Error {
    /// A damaged table: which, and how.
    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        Error::Malformed { what: what.into() }
    }
}
