//! The probe of a measuring window, as code for an island.
//!
//! It first looks at its arena's gate word; while that is zero the island does nothing but what the original code did.
//! Otherwise it saves the nine registers a C function may change, calls the in-target routine with
//! (shared memory, probe number, saved registers) and restores them. The routine uses no vector register, so none is
//! saved. The original return address never leaves its place on the stack and no address inside an island is ever
//! pushed while original code runs: unwinders, exceptions and `longjmp` see the program's own frames only. At a point in
//! the middle of a function nothing may be assumed to be free: flags and red zone are kept too, and the stack is aligned.
//!
//! Next: `probe_island`, which puts it among the displaced instructions, and `inline` for the usual case of simple probes.

use crate::hold::Hold;
use crate::probe_island::{Island, ProbeBytes, ProbePlace, WriteProbe, build_probe_island};
use crate::writer::{ProbeCode, Writer};
use crate::{PatchSite, Refusal, SiteKind};
use trimtab_types::ProcAddr;

/// Bytes an island may need besides twice its displaced instructions.
pub const ISLAND_OVERHEAD_MAX: usize = 512;

/// A window's purpose at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A function's calls are measured, or passes of an instruction.
    Calls,
    /// Passes of a loop are counted at a place inside of a function, which may be one side of a branch.
    Passes {
        /// Nobody reads the flags there.
        flags_unread: bool,
    },
}

/// The code that runs at one place in a window.
#[derive(Clone, Copy, Debug)]
pub struct WindowCode<'a> {
    /// The purpose.
    pub purpose: Purpose,
    /// Runs at an entry, or at an instruction.
    pub enter: &'a ProbeCode,
    /// Runs at an exit, if anything does.
    pub leave: Option<&'a ProbeCode>,
    /// Runs before all else at an entry, if anything does.
    pub hold: Option<&'a Hold>,
}

/// Builds the island of `site` at address `at`, with a window's probes. `original` holds the bytes of `site.displaced`.
///
/// # Errors
/// [`Refusal`] if something is out of reach from `at`, or the displaced instructions can't be moved.
pub fn build_island(
    site: &PatchSite,
    original: &[u8],
    at: ProcAddr,
    window: &WindowCode<'_>,
) -> Result<Island, Refusal> {
    let code = window.enter;
    if let Purpose::Passes { flags_unread } = window.purpose {
        let passing = || vec![code.writer(Passage::Point { flags_unread })];
        return build_probe_island(site, original, at, &mut passing(), &mut passing());
    }
    let at_point = Passage::Point { flags_unread: false };
    let entering = if let SiteKind::At(_) = site.kind { at_point } else { Passage::Entry };
    // A probe that only counts calls does so at the entry.
    let counts_only = code.inline.is_some_and(|inline| !inline.timed);
    let leave = window.leave.filter(|_| !(counts_only && matches!(site.kind, SiteKind::Whole(_))));
    let mut leave: Vec<_> = leave.map(|code| code.writer(Passage::Exit)).into_iter().collect();
    let mut enter: Vec<Box<WriteProbe<'_, Refusal>>> = Vec::new();
    if let Some(hold) = window.hold.filter(|_| Hold::fits(site.kind)) {
        enter.push(Box::new(|place| hold.written(place)));
    }
    enter.push(code.writer(entering));
    build_probe_island(site, original, at, &mut enter, &mut leave)
}

/// A function that does nothing but pass an entry and an exit probe: calling it measures what a probe costs.
///
/// # Errors
/// [`Refusal::OutOfReach`] if the gate or a routine is too far from `at`.
pub fn build_calibration(at: ProcAddr, code: &ProbeCode) -> Result<Vec<u8>, Refusal> {
    let mut island = Writer { at, bytes: Vec::new(), code };
    island.probe(code.enter)?;
    island.probe(code.leave)?;
    island.put(&[0xc3]);
    Ok(island.bytes)
}

/// A thread's passage where a probe stands.
#[derive(Clone, Copy)]
enum Passage {
    Entry,
    Exit,
    Point { flags_unread: bool },
}

impl ProbeCode {
    fn writer(&self, passage: Passage) -> Box<WriteProbe<'_, Refusal>> {
        Box::new(move |place| self.written(passage, place))
    }

    fn written(&self, passage: Passage, place: ProbePlace) -> Result<ProbeBytes, Refusal> {
        let mut writer = Writer::new(place, self);
        match (passage, self.inline) {
            (Passage::Entry, None) => writer.probe(self.enter)?,
            (Passage::Entry, Some(inline)) => writer.inline_enter(&inline)?,
            (Passage::Exit, None) => writer.probe(self.leave)?,
            (Passage::Exit, Some(inline)) => writer.inline_leave(&inline)?,
            (Passage::Point { flags_unread }, _) => writer.keeping_all(flags_unread)?,
        }
        Ok(ProbeBytes { bytes: writer.bytes, entry: 0 })
    }
}
