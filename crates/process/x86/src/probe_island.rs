//! The code that runs instead of displaced instructions: probes, those instructions, and back.
//!
//! The caller writes the probes' code, which ends by falling through. It may begin with constants and unusual cases that
//! lie before its entry, and it may leave room at its entry for instructions that run first. So an exit's displaced
//! instructions lie in the first probe's room, and nothing has to be jumped over in the usual case of one probe. Where
//! code is entered from code before it, a jump leads over what lies before its entry, if anything does.
//!
//! Next: `site` says what is displaced, `relocate` moves it, `island` is the measuring window's probe, `trimtab-plan`
//! puts islands into arenas.

use crate::jump::taken_over_near_jump;
use crate::relocate::{Relocated, relocate};
use crate::{ExitKind, NEAR_JUMP_LEN, PatchSite, Refusal, SiteKind, encode_near_jump};
use iced_x86::{Decoder, DecoderOptions};
use trimtab_types::ProcAddr;

/// Where a probe's code will lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlace {
    /// Address of its first byte.
    pub at: ProcAddr,
    /// Bytes to leave free at its entry, inside it.
    pub room_before: usize,
}

/// A probe's code for one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeBytes {
    /// The code; it falls through at its end.
    pub bytes: Vec<u8>,
    /// Offset of its entry: where the free room begins.
    pub entry: usize,
}

/// Writes a probe's code for a place.
pub type WriteProbe<'a, E> = dyn FnMut(ProbePlace) -> Result<ProbeBytes, E> + 'a;

/// An island ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Island {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Offset of the instruction the patched place jumps to.
    pub entry: usize,
    /// For a thread that stands at a displaced instruction: where it goes on here.
    pub moves: Vec<(ProcAddr, ProcAddr)>,
    /// Each displaced instruction and where its copy stands.
    pub copies: Vec<(ProcAddr, ProcAddr)>,
}

/// Builds the island of `site` at address `at`. `original` holds the bytes of `site.displaced`. `enter` are the probes
/// before the displaced instructions or, at a point, before its instruction, `leave` those before the leaving instruction; each list may be empty.
///
/// # Errors
/// [`Refusal`] if something is out of reach from `at`, or the displaced instructions can't be moved; whatever a probe
/// gives.
pub fn build_probe_island<E: From<Refusal>>(
    site: &PatchSite,
    original: &[u8],
    at: ProcAddr,
    enter: &mut [Box<WriteProbe<'_, E>>],
    leave: &mut [Box<WriteProbe<'_, E>>],
) -> Result<Island, E> {
    let mut island = Builder { at, bytes: Vec::new(), entry: None, moves: Vec::new(), copies: Vec::new() };
    let start = site.displaced.start;
    match site.kind {
        SiteKind::Entry => {
            island.probes(enter)?;
            island.moved(original, start)?;
        }
        SiteKind::Exit(exit) => island.leaving(site, original, exit.at, exit.kind, leave)?,
        SiteKind::Whole(exit) => {
            island.probes(enter)?;
            island.leaving(site, original, exit.at, exit.kind, leave)?;
        }
        SiteKind::At(address) => island.before(original, start, address, enter)?,
    }
    if let Some(resume) = site.resume {
        island.jump_to(resume)?;
    }
    let Builder { bytes, entry, moves, copies, .. } = island;
    Ok(Island { bytes, entry: entry.unwrap_or(0), moves, copies })
}

struct Builder {
    at: ProcAddr,
    bytes: Vec<u8>,
    /// Where the program enters, once something is written that it runs.
    entry: Option<usize>,
    moves: Vec<(ProcAddr, ProcAddr)>,
    copies: Vec<(ProcAddr, ProcAddr)>,
}

impl Builder {
    fn here(&self) -> ProcAddr {
        self.at + self.bytes.len() as u64
    }

    /// Instructions that run next.
    fn put(&mut self, bytes: &[u8]) {
        self.entry.get_or_insert(self.bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    fn jump_to(&mut self, to: ProcAddr) -> Result<(), Refusal> {
        let jump = encode_near_jump(self.here(), to)?;
        self.put(&jump);
        Ok(())
    }

    fn moved(&mut self, original: &[u8], from: ProcAddr) -> Result<(), Refusal> {
        let relocated = relocate_singly(original, from, self.here())?;
        self.copies.extend(&relocated.offsets);
        self.moves.extend(relocated.offsets);
        self.put(&relocated.bytes);
        Ok(())
    }

    /// Probes, each entered from what is before it.
    fn probes<E: From<Refusal>>(&mut self, probes: &mut [Box<WriteProbe<'_, E>>]) -> Result<(), E> {
        for probe in probes {
            self.after_instructions(probe.as_mut(), &[], ProcAddr(0))?;
        }
        Ok(())
    }

    /// The instructions `original` from address `from`, then the probe, whose address is returned.
    fn after_instructions<E: From<Refusal>>(
        &mut self,
        probe: &mut WriteProbe<'_, E>,
        original: &[u8],
        from: ProcAddr,
    ) -> Result<ProcAddr, E> {
        let first = self.entry.is_none();
        // Moved instructions have the same length everywhere.
        let room_before = relocate_singly(original, from, self.here())?.bytes.len();
        let mut code = probe(ProbePlace { at: self.here(), room_before })?;
        if !first && code.entry > 0 {
            // Code that lies before the entry is jumped over.
            let behind_jump = self.here() + NEAR_JUMP_LEN;
            code = probe(ProbePlace { at: behind_jump, room_before })?;
            self.jump_to(behind_jump + code.entry as u64)?;
        }
        let relocated = relocate_singly(original, from, self.here() + code.entry as u64)?;
        code.bytes[code.entry..code.entry + room_before].copy_from_slice(&relocated.bytes);
        self.copies.extend(&relocated.offsets);
        self.moves.extend(relocated.offsets);
        self.entry.get_or_insert(self.bytes.len() + code.entry);
        let probe_at = self.here() + (code.entry + room_before) as u64;
        self.bytes.extend(code.bytes);
        Ok(probe_at)
    }

    /// Displaced instructions, the probes, and the leaving instruction at `exit_at`.
    fn leaving<E: From<Refusal>>(
        &mut self,
        site: &PatchSite,
        original: &[u8],
        exit_at: ProcAddr,
        kind: ExitKind,
        leave: &mut [Box<WriteProbe<'_, E>>],
    ) -> Result<(), E> {
        let start = site.displaced.start;
        match kind {
            // The leaving instruction stays in place; `resume` leads to it.
            ExitKind::RunsInto { .. } => self.before(original, start, start + original.len() as u64, leave),
            ExitKind::ConditionalTailJump { target } => {
                let (head, last) = original.split_at((exit_at - start) as usize);
                self.moved(head, start)?;
                self.moves.push((exit_at, self.here()));
                self.copies.push((exit_at, self.here()));
                self.conditional(site, last, target, leave)
            }
            ExitKind::Ret { .. } | ExitKind::TailJump { .. } | ExitKind::IndirectTailJump | ExitKind::FallsThrough => {
                self.before(original, start, exit_at, leave)
            }
        }
    }

    /// The instructions `original` from address `start`, with the probes before the one at `address`.
    fn before<E: From<Refusal>>(
        &mut self,
        original: &[u8],
        start: ProcAddr,
        address: ProcAddr,
        probes: &mut [Box<WriteProbe<'_, E>>],
    ) -> Result<(), E> {
        let (head, rest) = original.split_at((address - start) as usize);
        let [first, others @ ..] = probes else {
            self.moved(head, start)?;
            return Ok(self.moved(rest, address)?);
        };
        let probe_at = self.after_instructions(first.as_mut(), head, start)?;
        self.probes(others)?;
        let before_rest = self.moves.len();
        self.moved(rest, address)?;
        // A thread at that instruction has not passed the probes yet.
        if let Some((_, new)) = self.moves.get_mut(before_rest) {
            *new = probe_at;
        }
        Ok(())
    }

    /// `jcc target`: the probes belong only to the taken side.
    fn conditional<E: From<Refusal>>(
        &mut self,
        site: &PatchSite,
        last: &[u8],
        target: ProcAddr,
        leave: &mut [Box<WriteProbe<'_, E>>],
    ) -> Result<(), E> {
        let over = site.resume.unwrap_or(site.displaced.end);
        self.put(&taken_over_near_jump(last));
        self.jump_to(over)?;
        self.probes(leave)?;
        Ok(self.jump_to(target)?)
    }
}

/// Moves instructions one by one, so that none takes another's copy for its target: a branch to a displaced instruction
/// goes to the patch, and passes the probes again.
fn relocate_singly(original: &[u8], from: ProcAddr, to: ProcAddr) -> Result<Relocated, Refusal> {
    let mut moved = Relocated::default();
    let mut decoder = Decoder::with_ip(64, original, from.0, DecoderOptions::NONE);
    while decoder.can_decode() {
        let position = decoder.position();
        let at = ProcAddr(decoder.decode().ip());
        let one = relocate(&original[position..decoder.position()], at, to + moved.bytes.len() as u64)?;
        moved.bytes.extend(one.bytes);
        moved.offsets.extend(one.offsets);
    }
    Ok(moved)
}
