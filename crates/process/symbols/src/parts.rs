//! The parts that a file is found to have: segments, functions, data, slots and stubs, entries of its unwind table.
//!
//! Next: [`crate::image`], which holds them all.

use serde::{Deserialize, Serialize};
use trimtab_types::FileAddr;

/// One mapped part (`PT_LOAD`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Where it begins in the file, in bytes.
    pub file_offset: u64,
    /// Where it begins in memory, before relocation.
    pub addr: FileAddr,
    /// Bytes that come from the file.
    pub file_size: u64,
    /// Bytes in memory; those beyond `file_size` are zero.
    pub mem_size: u64,
    /// May be executed.
    pub executable: bool,
    /// May be written.
    pub writable: bool,
}

/// A function, or a fragment of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its first instruction; for an IFUNC, of the resolver.
    pub addr: FileAddr,
    /// Bytes of code from `addr`; 0 only where neither symbol, frame nor neighbour tells.
    pub size: u64,
    /// All names at this address, global ones first; empty when only `.eh_frame` knows it. A name that is not the
    /// default version of its symbol carries its version (`memcpy@GLIBC_2.2.5`).
    pub names: Vec<String>,
    /// The best source that knows it.
    pub source: Source,
    /// Its address is a resolver that returns the real function.
    pub is_ifunc: bool,
    /// Other modules can call it by name.
    pub exported: bool,
}

/// Where a function was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// Only an unwind entry starts there.
    #[default]
    EhFrame,
    /// The dynamic symbol table.
    Dynsym,
    /// The full symbol table, of the file or of its debug data.
    Symtab,
}

/// Named data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataObject {
    /// Its first byte.
    pub addr: FileAddr,
    /// Bytes.
    pub size: u64,
    /// All names at this address, global ones first.
    pub names: Vec<String>,
    /// Other modules can use it by name. (A program at fixed addresses may hold its own copy of a library's object,
    /// exported by it under the same name; then that copy is the one in use.)
    pub exported: bool,
}

impl Segment {
    /// True if `addr` lies in this segment's memory.
    pub fn contains(&self, addr: FileAddr) -> bool {
        addr.0.checked_sub(self.addr.0).is_some_and(|inside| inside < self.mem_size)
    }
}

impl Function {
    /// The first address after its code.
    pub fn end(&self) -> FileAddr {
        FileAddr(self.addr.0.saturating_add(self.size))
    }

    /// Its first name; where it has none, one made of its address in the file, as `fn_0x1139`.
    pub fn name(&self) -> String {
        self.names.first().cloned().unwrap_or_else(|| self.address_name())
    }

    /// A name that it has in any case, by which [`crate::Image::function_named`] finds it: its address in the file.
    pub fn address_name(&self) -> String {
        format!("{ADDRESS_NAME}{:#x}", self.addr.0)
    }
}

/// Names made of an address begin with this.
pub(crate) const ADDRESS_NAME: &str = "fn_";

/// One entry (FDE) of the unwind table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The first address it covers.
    pub addr: FileAddr,
    /// Bytes it covers.
    pub size: u64,
    /// The kind of frame by its first rule, at its first address.
    pub kind: FrameKind,
    /// Where the entry lies in the section, in bytes.
    pub(crate) entry_offset: u32,
}

/// The kind of frame by the rule at the first address of an unwind entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrameKind {
    /// The stack is as just after a call: the beginning of a function. (GCC's cold parts without any frame look the
    /// same; only a jump from their function tells.)
    Entry,
    /// The stack is in use: a part of a function that lies elsewhere, or a procedure linkage table.
    Part,
    /// Code to which signal handlers return.
    Signal,
}

/// Where the unwind table lies, and its index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unwind {
    pub addr: u64,
    pub offset: u64,
    pub size: u64,
    pub frames: Vec<Frame>,
}

/// Eight bytes of memory that hold the address of code once the loader, or a static program's start, has run.
///
/// With lazy binding an import's slot holds the address of its stub's second half until the first call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Where the slot lies.
    pub addr: FileAddr,
    /// The function or data whose address it holds.
    pub target: SlotTarget,
}

/// The function or data whose address a slot holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotTarget {
    /// The loader's choice under this name, here or in another file (function or, rarely, data).
    Import(String),
    /// The choice of the resolver (IFUNC) at this address.
    Resolved(FileAddr),
}

/// Code that does nothing but jump to where a slot points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stub {
    /// Its first instruction, which may be a landing mark (`endbr64`).
    pub addr: FileAddr,
    /// Bytes from one stub to the next.
    pub size: u64,
    /// The slot it jumps through.
    pub slot: FileAddr,
}
