//! Remote memory: reads and writes of another process's address space.
//!
//! Writes go through `/proc/PID/mem`, which reaches read-only text of a traced process and gives the target a private
//! copy of the page: the file on disk is never touched. A write of one patch never crosses a page, so the kernel makes
//! it whole or not at all.
//!
//! Next: `stop::Stopped` owns one of these while threads are held.

use crate::error::Error;
use crate::sys;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use trimtab_types::Pid;

/// Ranges one system call may read.
const RANGES_MAX: usize = 1024;

/// The memory of one process.
#[derive(Debug)]
pub struct Memory {
    pid: Pid,
    file: File,
}

impl Memory {
    /// Opens it for reading and writing; needs the right to trace the process.
    pub fn open(pid: Pid) -> Result<Self, Error> {
        let path = format!("/proc/{pid}/mem");
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let file = opened.map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::Gone { pid },
            // It ended between the look-up of its folder and the opening.
            _ if source.raw_os_error() == Some(libc::ESRCH) => Error::Gone { pid },
            std::io::ErrorKind::PermissionDenied => crate::proc::refusal(pid),
            _ => Error::Proc { path, source },
        })?;
        Ok(Memory { pid, file })
    }

    /// Fills `buffer` from `address`.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let length = buffer.len();
        self.file.read_exact_at(buffer, address).map_err(|source| Error::Memory {
            verb: "read",
            pid: self.pid,
            address,
            length,
            source,
        })
    }

    /// `length` bytes from `address`.
    pub fn read_vec(&self, address: u64, length: usize) -> Result<Vec<u8>, Error> {
        let mut buffer = vec![0; length];
        self.read(address, &mut buffer)?;
        Ok(buffer)
    }

    /// The bytes of every range (address and length), in as few system calls as possible. A range that can't be read
    /// whole gives nothing.
    pub fn read_many(&self, ranges: &[(u64, usize)]) -> Vec<Vec<u8>> {
        let mut all = Vec::with_capacity(ranges.len());
        for some in ranges.chunks(RANGES_MAX) {
            let total = some.iter().map(|(_, length)| length).sum();
            let mut buffer = vec![0; total];
            if sys::read_remote(self.pid.0, some, &mut buffer).is_ok_and(|got| got == total) {
                let mut rest = buffer.as_slice();
                for (_, length) in some {
                    let (bytes, behind) = rest.split_at(*length);
                    all.push(bytes.to_vec());
                    rest = behind;
                }
            } else {
                // One of them can't be read that way.
                all.extend(some.iter().map(|(address, length)| self.read_vec(*address, *length).unwrap_or_default()));
            }
        }
        all
    }

    /// The word at `address`.
    pub fn read_word(&self, address: u64) -> Result<u64, Error> {
        let mut buffer = [0; 8];
        self.read(address, &mut buffer)?;
        Ok(u64::from_le_bytes(buffer))
    }

    /// Writes `bytes` at `address`, through page protection where the kernel allows.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(bytes, address).map_err(|source| Error::Memory {
            verb: "write",
            pid: self.pid,
            address,
            length: bytes.len(),
            source,
        })
    }

    /// Writes text: as [`Memory::write`], or word by word through stopped thread `tid` where the kernel forbids forced
    /// writes (`proc_mem.force_override`).
    pub fn write_text(&self, tid: i32, address: u64, bytes: &[u8]) -> Result<(), Error> {
        match self.file.write_all_at(bytes, address) {
            Ok(()) => Ok(()),
            Err(_) => self.poke_text(tid, address, bytes),
        }
    }

    fn poke_text(&self, tid: i32, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let first = address & !7;
        let last = (address + bytes.len() as u64 + 7) & !7;
        let mut words = self.read_vec(first, (last - first) as usize)?;
        let skip = (address - first) as usize;
        words[skip..skip + bytes.len()].copy_from_slice(bytes);
        for (index, word) in words.chunks_exact(8).enumerate() {
            let mut raw = [0; 8];
            raw.copy_from_slice(word);
            let place = first + index as u64 * 8;
            sys::poke(tid, place, u64::from_le_bytes(raw)).map_err(|source| Error::Memory {
                verb: "write",
                pid: self.pid,
                address: place,
                length: 8,
                source,
            })?;
        }
        Ok(())
    }
}
