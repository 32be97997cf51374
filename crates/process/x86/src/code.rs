//! The caller's knowledge about one function: its bytes, and who else may jump into it.
//!
//! Everything that needs symbols, unwind tables or memory comes in through these types, so that this crate reads
//! nothing by itself. Next: `analyse`, which turns a [`FunctionCode`] into control flow.

use std::ops::Range;
use trimtab_types::ProcAddr;

/// One function, as mapped.
#[derive(Clone, Debug, Default)]
pub struct FunctionCode<'a> {
    /// Where callers enter.
    pub entry: ProcAddr,
    /// The main range first (it holds `entry`), then cold fragments.
    pub ranges: Vec<CodeRange<'a>>,
    /// Where the unwinder may enter (from the exception tables).
    pub landing_pads: &'a [ProcAddr],
    /// Other addresses inside that someone may jump to by their value: symbols in the middle, labels whose address is
    /// stored in data (relocations that point here).
    pub other_entries: &'a [ProcAddr],
    /// Addresses inside that direct branches of other code lead to; [`crate::Stretches`] finds them.
    pub outside_branches: &'a [ProcAddr],
    /// Bytes whose addresses the kernel knows: restartable sequences, and the marks before the places where they are
    /// left for. They stay where they are, and so does the instruction before each, which announces the sequence. In
    /// order, without overlaps. Places where sequences are left for are among `outside_branches`.
    pub restartable: &'a [Range<ProcAddr>],
    /// The program handles faults by itself: what may fault or calls stays where it is, because the handler may know the
    /// place by its address or by the unwind tables.
    pub faults_stay: bool,
}

/// Contiguous bytes of a function.
#[derive(Clone, Copy, Debug, Default)]
pub struct CodeRange<'a> {
    /// Address of the first byte.
    pub addr: ProcAddr,
    /// The code.
    pub bytes: &'a [u8],
    /// The bytes behind it up to the next thing known to be code or data; padding is recognised in here.
    pub after: &'a [u8],
}

/// Read-only data of the module, for jump tables. Contents must be as in the running process, that is, with
/// relocations applied; an unapplied zero only makes a table unresolved.
pub trait ReadMemory {
    /// Fills `buf` from `addr`; false if any byte is not there or is writable.
    fn read(&self, addr: ProcAddr, buf: &mut [u8]) -> bool;
}

/// Knows what lies outside the ranges given.
pub trait ClassifyJump {
    /// The meaning of a jump to `target`, outside all ranges.
    fn classify(&self, target: ProcAddr) -> JumpTarget;
}

/// The meaning of a jump out of the ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JumpTarget {
    /// A part of the same function that lies elsewhere; add this range and analyse again.
    Fragment(Range<ProcAddr>),
    /// Another function: the jump leaves this one for good.
    TailCall,
    /// Not known; counted as leaving, and reported in `external_jumps`.
    Unknown,
}

impl CodeRange<'_> {
    /// One past the last byte of code.
    pub fn end(&self) -> ProcAddr {
        ProcAddr(self.addr.0.saturating_add(self.bytes.len() as u64))
    }

    /// True if `addr` is in the code.
    pub fn contains(&self, addr: ProcAddr) -> bool {
        addr >= self.addr && addr < self.end()
    }
}

impl FunctionCode<'_> {
    /// The first byte at or after `addr` that must stay where it is, as [`FunctionCode::restartable`] has it.
    pub(crate) fn first_restartable(&self, addr: ProcAddr) -> Option<ProcAddr> {
        let index = self.restartable.partition_point(|range| range.end <= addr);
        self.restartable.get(index).map(|range| range.start.max(addr))
    }

    /// True if `addr` is in one of the ranges.
    pub fn contains(&self, addr: ProcAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(addr))
    }
}

/// No memory at all, and every outward jump unknown: for functions that need neither.
impl ReadMemory for () {
    fn read(&self, _addr: ProcAddr, _buf: &mut [u8]) -> bool {
        false
    }
}

impl ClassifyJump for () {
    fn classify(&self, _target: ProcAddr) -> JumpTarget {
        JumpTarget::Unknown
    }
}
