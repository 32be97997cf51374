//! The code of a probe while it is written, and the facts it must know.
//!
//! Next: `inline` for the usual case of simple probes, `island` for who writes.

use crate::probe_island::ProbePlace;
use crate::{Refusal, encode_near_jump};
use trimtab_types::ProcAddr;

/// The facts that every island of one probe must know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCode {
    /// Address of the arena's gate word (32 bits, 0: closed), within 2 GiB.
    pub gate: ProcAddr,
    /// Address of the shared memory in the target.
    pub header: ProcAddr,
    /// Number of the probe.
    pub probe: u32,
    /// Address of the in-target routine for entries, within 2 GiB.
    pub enter: ProcAddr,
    /// Address of the in-target routine for exits, within 2 GiB.
    pub leave: ProcAddr,
    /// For simple probes: the usual case without calling the routine.
    pub inline: Option<Inline>,
}

/// The facts by which inline code finds a thread's slot and tells if calls count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineSlot {
    /// From the gate word to the address of the shared header.
    pub header_at: u64,
    /// From the gate word to the address of the first slot.
    pub slots_at: u64,
    /// Multiplier of the hash from thread pointers to slots.
    pub multiplier: u64,
    /// Right shift of the hash.
    pub shift: u8,
    /// Bytes from slot to slot; below 2^31.
    pub stride: u32,
    /// From the header to the state word.
    pub state_at: u32,
    /// The state in which calls count.
    pub recording: u8,
    /// From the header to the time stamp of the window's start.
    pub first_ticks_at: u32,
    /// From the header to the number of the function's calls from which on the routine looks closer.
    pub look_at_calls_at: u32,
    /// From the header to the time stamp since when the function's calls don't count; 0: they do.
    pub stopped_ticks_at: u32,
}

/// Offsets of one function's numbers within a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineNumbers {
    /// Calls.
    pub calls: u32,
    /// Time inside.
    pub ticks: u32,
    /// Time stamp of the first call.
    pub first: u32,
    /// Time stamp of the last call.
    pub last: u32,
    /// Payload bytes.
    pub bytes: u32,
    /// Largest payload of a call.
    pub bytes_max: u32,
    /// Stack pointer of the open call.
    pub open_stack: u32,
    /// Time stamp of the open call.
    pub open_ticks: u32,
}

/// The work that is done inline, without calling the routine in the usual case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline {
    /// How the slot is found.
    pub slot: InlineSlot,
    /// Where the numbers are.
    pub numbers: InlineNumbers,
    /// Measure time, not only calls.
    pub timed: bool,
    /// Index below 6 of the argument to sum as bytes.
    pub bytes: Option<u8>,
}

pub(crate) const PUSHES: [u8; 13] = [0x50, 0x51, 0x52, 0x56, 0x57, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53];
pub(crate) const POPS: [u8; 13] = [0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, 0x5f, 0x5e, 0x5a, 0x59, 0x58];
/// `mov rdx, rsp`.
const SAVED_REGISTERS_TO_RDX: [u8; 3] = [0x48, 0x89, 0xe2];
const NO_OPERATION: u8 = 0x90;
/// `lea rsp, [rsp - 128]; pushfq; cld`.
const KEEP_RED_ZONE_AND_FLAGS: [u8; 7] = [0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0xfc];
/// `lea rsp, [rsp - 128]`; the routine has no string instruction, so the direction does not matter to it.
const KEEP_RED_ZONE: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80];
/// `lea rsp, [rsp + 128]`.
const RESTORE_RED_ZONE: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00];
/// `popfq; lea rsp, [rsp + 128]`.
const RESTORE_FLAGS_AND_RED_ZONE: [u8; 9] = [0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00];
/// `push rbp; mov rbp, rsp; and rsp, -16; push rbp`: an odd number of words, as a call leaves it.
const ALIGN: [u8; 9] = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xf0, 0x55];
/// `mov rsp, rbp; pop rbp`.
const UNALIGN: [u8; 4] = [0x48, 0x89, 0xec, 0x5d];

/// The code of one place while it is written.
pub(crate) struct Writer<'a> {
    pub(crate) at: ProcAddr,
    pub(crate) bytes: Vec<u8>,
    pub(crate) code: &'a ProbeCode,
}

impl<'a> Writer<'a> {
    /// With its beginning left free for instructions that run first.
    pub(crate) fn new(place: ProbePlace, code: &'a ProbeCode) -> Self {
        Writer { at: place.at, bytes: vec![NO_OPERATION; place.room_before], code }
    }
}

impl Writer<'_> {
    fn here(&self) -> ProcAddr {
        self.at + self.bytes.len() as u64
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A 32-bit displacement to `to` from the end of an instruction that ends `after` bytes behind it.
    pub(crate) fn displacement(&self, to: ProcAddr, after: u64) -> Result<[u8; 4], Refusal> {
        // The operand of a near jump from `from` is relative to `from + 5`.
        let from = ProcAddr((self.here() + 4 + after).0 - 5);
        let jump = encode_near_jump(from, to)?;
        Ok([jump[1], jump[2], jump[3], jump[4]])
    }

    /// Runs the routine unless the gate is closed.
    pub(crate) fn probe(&mut self, routine: ProcAddr) -> Result<(), Refusal> {
        self.put(&[0x83, 0x3d]);
        let gate = self.displacement(self.code.gate, 1)?;
        self.put(&gate);
        self.put(&[0x00, 0x74, 0x00]);
        let skip = self.bytes.len();
        self.call_routine(routine)?;
        self.bytes[skip - 1] = (self.bytes.len() - skip) as u8;
        Ok(())
    }

    pub(crate) fn call_routine(&mut self, routine: ProcAddr) -> Result<(), Refusal> {
        self.put(&PUSHES);
        self.put(&SAVED_REGISTERS_TO_RDX);
        self.put(&[0x48, 0xbf]);
        self.put(&self.code.header.0.to_le_bytes());
        self.put(&[0xbe]);
        self.put(&self.code.probe.to_le_bytes());
        self.put(&[0xe8]);
        let routine = self.displacement(routine, 0)?;
        self.put(&routine);
        self.put(&POPS);
        Ok(())
    }

    /// The probe where registers and red zone may all be in use, and flags unless they are unread.
    pub(crate) fn keeping_all(&mut self, flags_unread: bool) -> Result<(), Refusal> {
        let (keep, restore) = match flags_unread {
            true => (&KEEP_RED_ZONE[..], &RESTORE_RED_ZONE[..]),
            false => (&KEEP_RED_ZONE_AND_FLAGS[..], &RESTORE_FLAGS_AND_RED_ZONE[..]),
        };
        self.put(keep);
        self.put(&ALIGN);
        self.probe(self.code.enter)?;
        self.put(&UNALIGN);
        self.put(restore);
        Ok(())
    }
}
