//! A file mapped for reading: symbol tables are read from it without copying 40 MB.
//!
//! Next: `trimtab-session` keeps one per module for as long as it plans.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// A read-only private mapping of a whole file.
#[derive(Debug)]
pub struct FileMapping {
    address: *const u8,
    length: usize,
}

// SAFETY: the mapping is read-only.
unsafe impl Send for FileMapping {}
// SAFETY: as above.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Maps the file at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        FileMapping::of(&File::open(path)?)
    }

    /// Maps an open file.
    ///
    /// # Errors
    /// Those of mapping it, and `InvalidData` for a file without bytes.
    pub fn of(file: &File) -> io::Result<Self> {
        let length = file.metadata()?.len() as usize;
        if length == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty"));
        }
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(FileMapping { address: address.cast(), length })
    }

    /// The file's bytes.
    ///
    /// A file that is truncated while it is mapped ends us with SIGBUS; programs and libraries in use are replaced by
    /// renaming, never truncated, and the target would end the same way.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.address, self.length) }
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `open`.
        unsafe { libc::munmap(self.address.cast_mut().cast(), self.length) };
    }
}
