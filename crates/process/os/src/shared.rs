//! Our view of a file that another process maps too.
//!
//! Next: `trimtab-stub::view` gives the words their meaning.

use crate::error::Error;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::AtomicU64;
use trimtab_types::Pid;

/// A shared, writable mapping of a whole file.
#[derive(Debug)]
pub struct SharedMapping {
    address: *mut AtomicU64,
    length: usize,
}

// SAFETY: the memory is only reached through atomics.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the first `length` bytes of `file`, after growing it to that length. `pid` names the target in errors.
    pub fn create(file: &File, length: u64, pid: Pid) -> Result<Self, Error> {
        file.set_len(length).map_err(|source| Error::Call { call: "ftruncate", pid, source })?;
        SharedMapping::map(file, length as usize).map_err(|source| Error::Call { call: "mmap", pid, source })
    }

    /// Maps the first `length` bytes of `file`, which must have them for as long as this is used: one that may be
    /// shortened by others is sealed against it first.
    ///
    /// # Errors
    /// When the kernel has no room, or the file can't be mapped.
    pub fn map(file: impl AsFd, length: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice; it aliases nothing of ours.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMapping { address: address.cast(), length })
    }

    /// The memory as words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping lives as long as `self` and is page aligned; every bit pattern is a valid word.
        unsafe { std::slice::from_raw_parts(self.address, self.length / 8) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `create`.
        unsafe { libc::munmap(self.address.cast(), self.length) };
    }
}
