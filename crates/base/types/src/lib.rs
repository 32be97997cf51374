//! The names that all crates share: ids, addresses and the shape of a report; no I/O.
//!
//! Every other crate speaks in these words, so that an address in a file can never be used as an address in a
//! process, and a rank never as a pid. The report (`report`) is the one description of a measured window that the
//! store keeps, the terminal draws and `--json` prints.
//!
//! Next: [`report`] for the measured window; `trimtab-symbols` for where [`FileAddr`]s come from.
#![forbid(unsafe_code)]

pub mod calendar;
mod cause;
pub mod comparison;
pub mod context;
mod notice;
pub mod procfs;
pub mod report;
pub mod scaling;

pub use cause::{BoxError, of_process, one_line};
pub use notice::{hear_notices, notice};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// An address as written in an ELF file (a virtual address before relocation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct FileAddr(pub u64);

/// An address in a running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ProcAddr(pub u64);

/// A rank in `MPI_COMM_WORLD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Rank(pub u32);

/// A process id in the namespace of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Pid(pub i32);

/// The GNU build id of an ELF file, or a checksum of its text where it has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct BuildId(pub String);

/// The distance between a module's addresses in its file and in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LoadBias(pub u64);

impl LoadBias {
    /// Where `file_addr` of this module lies in the process.
    pub fn to_proc(self, file_addr: FileAddr) -> ProcAddr {
        ProcAddr(file_addr.0.wrapping_add(self.0))
    }

    /// The address in the file that lies at `proc_addr` in the process.
    pub fn to_file(self, proc_addr: ProcAddr) -> FileAddr {
        FileAddr(proc_addr.0.wrapping_sub(self.0))
    }
}

macro_rules! address {
    ($($name:ident),*) => {$(
        /// The address so many bytes further on.
        impl Add<u64> for $name {
            type Output = $name;

            fn add(self, bytes: u64) -> $name {
                $name(self.0 + bytes)
            }
        }

        /// Bytes from an earlier address to a later one.
        impl Sub for $name {
            type Output = u64;

            fn sub(self, earlier: $name) -> u64 {
                self.0 - earlier.0
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    )*};
}
address!(FileAddr, ProcAddr);

macro_rules! show {
    ($($name:ident $format:literal),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    )*};
}
show!(FileAddr "{:#x}", ProcAddr "{:#x}", Rank "{}", Pid "{}", BuildId "{}");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_move_by_bytes_and_lie_bytes_apart() {
        let (from, to) = (ProcAddr(0x1000), ProcAddr(0x1010));
        assert_eq!((from + 0x10, to - from), (to, 0x10));
        assert_eq!(
            (format!("{to}"), format!("{to:#x}"), format!("{to:x}")),
            ("0x1010".into(), "0x1010".into(), "1010".into())
        );
    }

    #[test]
    fn bias_goes_there_and_back() {
        let bias = LoadBias(0x7f00_0000_0000);
        assert_eq!(bias.to_proc(FileAddr(0x1000)), ProcAddr(0x7f00_0000_1000));
        assert_eq!(bias.to_file(bias.to_proc(FileAddr(0x1000))), FileAddr(0x1000));
    }
}
