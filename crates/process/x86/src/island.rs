//! The code that runs instead of displaced instructions: probe, those instructions, and back.
//!
//! An island first looks at its arena's gate word; while that is zero it does nothing but what the original code did.
//! Otherwise it saves the nine registers a C function may change, calls the in-target routine with
//! (shared memory, probe number, saved registers) and restores them. The routine uses no vector register, so none is
//! saved. The original return address never leaves its place on the stack and no address inside an island is ever
//! pushed while original code runs: unwinders, exceptions and `longjmp` see the program's own frames only.
//!
//! Next: `site` says what is displaced, `relocate` moves it, `trimtab-plan` puts islands into arenas.

use crate::jump::taken_over_near_jump;
use crate::relocate::relocate;
use crate::{ExitKind, Refusal, Site, SiteKind, encode_near_jump};

/// What every island of one probe must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeCode {
    /// Address of the arena's gate word (32 bits, 0: closed), within 2 GiB.
    pub gate: u64,
    /// Address of the shared memory in the target.
    pub header: u64,
    /// Number of the probe.
    pub probe: u32,
    /// Address of the in-target routine for entries, within 2 GiB.
    pub enter: u64,
    /// Address of the in-target routine for exits, within 2 GiB.
    pub leave: u64,
    /// For simple probes: the usual case without calling the routine.
    pub inline: Option<Inline>,
}

/// What inline code must know to find a thread's slot and to tell whether calls count.
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

/// What is done inline, without calling the routine in the usual case.
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

/// An island ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Island {
    /// Its code.
    pub bytes: Vec<u8>,
    /// For a thread that stands at a displaced instruction: where it goes on here.
    pub moves: Vec<(u64, u64)>,
}

/// Bytes an island may need besides twice its displaced instructions.
pub const ISLAND_OVERHEAD_MAX: usize = 512;

const PUSHES: [u8; 13] = [0x50, 0x51, 0x52, 0x56, 0x57, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53];
const POPS: [u8; 13] = [0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, 0x5f, 0x5e, 0x5a, 0x59, 0x58];
/// `mov rdx, rsp`.
const SAVED_REGISTERS_TO_RDX: [u8; 3] = [0x48, 0x89, 0xe2];

/// Builds the island of `site` at address `at`. `original` holds the bytes of `site.displaced`.
///
/// # Errors
/// [`Refusal`] if something is out of reach from `at`, or the displaced instructions can't be moved.
pub fn build_island(site: &Site, original: &[u8], at: u64, code: &ProbeCode) -> Result<Island, Refusal> {
    let mut island = Writer { at, bytes: Vec::with_capacity(ISLAND_OVERHEAD_MAX), moves: Vec::new(), code };
    let start = site.displaced.start;
    match site.kind {
        SiteKind::Entry => {
            island.enter()?;
            island.moved(original, start)?;
        }
        SiteKind::Exit(exit) => island.leaving(site, original, exit.at, exit.kind)?,
        SiteKind::Whole(_) if code.inline.is_some_and(|inline| !inline.timed) => {
            island.enter()?;
            island.moved(original, start)?;
        }
        SiteKind::Whole(exit) => {
            island.enter()?;
            island.leaving(site, original, exit.at, exit.kind)?;
        }
        SiteKind::At(address) => island.at_point(site, original, address)?,
    }
    if let Some(resume) = site.resume {
        island.jump_to(resume)?;
    }
    Ok(Island { bytes: island.bytes, moves: island.moves })
}

/// A function that does nothing but pass an entry and an exit probe: calling it measures what a probe costs.
///
/// # Errors
/// [`Refusal::OutOfReach`] if the gate or a routine is too far from `at`.
pub fn build_calibration(at: u64, code: &ProbeCode) -> Result<Vec<u8>, Refusal> {
    let mut island = Writer { at, bytes: Vec::new(), moves: Vec::new(), code };
    island.probe(code.enter)?;
    island.probe(code.leave)?;
    island.put(&[0xc3]);
    Ok(island.bytes)
}

pub(crate) struct Writer<'a> {
    at: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) moves: Vec<(u64, u64)>,
    pub(crate) code: &'a ProbeCode,
}

impl Writer<'_> {
    pub(crate) fn here(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn jump_to(&mut self, to: u64) -> Result<(), Refusal> {
        let jump = encode_near_jump(self.here(), to)?;
        self.put(&jump);
        Ok(())
    }

    /// A 32-bit displacement to `to` from the end of an instruction that ends `after` bytes behind it.
    pub(crate) fn displacement(&self, to: u64, after: u64) -> Result<[u8; 4], Refusal> {
        // The operand of a near jump from `from` is relative to `from + 5`.
        let from = self.here() + 4 + after - 5;
        let jump = encode_near_jump(from, to)?;
        Ok([jump[1], jump[2], jump[3], jump[4]])
    }

    /// Runs the routine unless the gate is closed.
    pub(crate) fn probe(&mut self, routine: u64) -> Result<(), Refusal> {
        self.put(&[0x83, 0x3d]);
        let gate = self.displacement(self.code.gate, 1)?;
        self.put(&gate);
        self.put(&[0x00, 0x74, 0x00]);
        let skip = self.bytes.len();
        self.call_routine(routine)?;
        self.bytes[skip - 1] = (self.bytes.len() - skip) as u8;
        Ok(())
    }

    pub(crate) fn call_routine(&mut self, routine: u64) -> Result<(), Refusal> {
        self.put(&PUSHES);
        self.put(&SAVED_REGISTERS_TO_RDX);
        self.put(&[0x48, 0xbf]);
        self.put(&self.code.header.to_le_bytes());
        self.put(&[0xbe]);
        self.put(&self.code.probe.to_le_bytes());
        self.put(&[0xe8]);
        let routine = self.displacement(routine, 0)?;
        self.put(&routine);
        self.put(&POPS);
        Ok(())
    }

    fn enter(&mut self) -> Result<(), Refusal> {
        match self.code.inline {
            Some(inline) => self.inline_enter(&inline),
            None => self.probe(self.code.enter),
        }
    }

    fn leave(&mut self) -> Result<(), Refusal> {
        match self.code.inline {
            Some(inline) => self.inline_leave(&inline),
            None => self.probe(self.code.leave),
        }
    }

    fn moved(&mut self, original: &[u8], from: u64) -> Result<(), Refusal> {
        if original.is_empty() {
            return Ok(());
        }
        let relocated = relocate(original, from, self.here())?;
        self.put(&relocated.bytes);
        self.moves.extend(relocated.offsets);
        Ok(())
    }

    /// Displaced instructions, the exit probe, and the leaving instruction at `exit_at`.
    fn leaving(&mut self, site: &Site, original: &[u8], exit_at: u64, kind: ExitKind) -> Result<(), Refusal> {
        let start = site.displaced.start;
        if let ExitKind::RunsInto { .. } = kind {
            // The leaving instruction stays in place; `resume` leads to it.
            self.moved(original, start)?;
            return self.leave();
        }
        let (head, last) = original.split_at((exit_at - start) as usize);
        self.moved(head, start)?;
        self.moves.push((exit_at, self.here()));
        match kind {
            ExitKind::Ret { .. } => {
                self.leave()?;
                self.put(last);
            }
            ExitKind::ConditionalTailJump { target } => self.conditional_leave(site, last, target)?,
            ExitKind::TailJump { .. }
            | ExitKind::IndirectTailJump
            | ExitKind::RunsInto { .. }
            | ExitKind::FallsThrough => {
                self.leave()?;
                let relocated = relocate(last, exit_at, self.here())?;
                self.put(&relocated.bytes);
            }
        }
        Ok(())
    }

    /// `jcc target`: the probe belongs only to the taken side, and must not disturb the flags before it.
    fn conditional_leave(&mut self, site: &Site, last: &[u8], target: u64) -> Result<(), Refusal> {
        let over = site.resume.unwrap_or(site.displaced.end);
        self.put(&taken_over_near_jump(last));
        self.jump_to(over)?;
        self.leave()?;
        self.jump_to(target)
    }
}
