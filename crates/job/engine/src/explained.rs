//! A script's work in some code: bodies, writes, and the code that would run, disassembled and noted.
//!
//! Next: `code`, which gives it; `trimtab-script`'s `explain` for the plan.

use std::collections::BTreeMap;
use trimtab_script::{Explained, ExplainedBody};
use trimtab_session::{CodeLine, ImageCache, Modules, Patch, Piece, PieceRole, Plan, Refused, disassemble};
use trimtab_types::ProcAddr;

/// Bytes of the longest instruction.
const INSTRUCTION_BYTES_MAX: usize = 15;

/// A script, explained for some code.
pub struct Explanation<'a> {
    /// Each body, by its number.
    pub bodies: Vec<ExplainedBody>,
    /// Functions that can't be probed, with the reason.
    pub refused: Vec<Refused>,
    /// Places that are probed once their library is loaded.
    pub awaited: Vec<String>,
    plan: Plan,
    modules: &'a Modules,
    cache: &'a ImageCache,
    /// Where a displaced instruction was, by where it is to be.
    origin: BTreeMap<ProcAddr, ProcAddr>,
}

/// An instruction or data that would be there.
#[derive(Clone, Debug)]
pub struct NotedLine {
    /// The instruction.
    pub line: CodeLine,
    /// The instruction as it was, or the place that it leads to.
    pub note: Option<String>,
    /// The routine that begins here.
    pub routine: Option<String>,
}

impl<'a> Explanation<'a> {
    pub(crate) fn of(explained: Explained, modules: &'a Modules, cache: &'a ImageCache) -> Self {
        let Explained { bodies, plan, refused, awaited } = explained;
        let origin = plan.moves.iter().map(|(old, new)| (*new, *old)).collect();
        Explanation { bodies, refused, awaited, plan, modules, cache, origin }
    }

    /// The writes, in their order.
    pub fn patches(&self) -> &[Patch] {
        &self.plan.patches
    }

    /// The code that they lead to.
    pub fn pieces(&self) -> &[Piece] {
        &self.plan.pieces
    }

    /// How many pieces of memory it lies in.
    pub fn arenas(&self) -> usize {
        self.plan.arenas.len()
    }

    /// Bytes of all code.
    pub fn code_bytes(&self) -> usize {
        self.plan.arenas.iter().map(Vec::len).sum()
    }

    /// The instructions that a piece's write takes the place of.
    pub fn before(&self, piece: &Piece) -> Vec<CodeLine> {
        let (PieceRole::Island { patch, .. } | PieceRole::Carrier { patch }) = piece.role else { return Vec::new() };
        let Some(patch) = self.plan.patches.get(patch) else { return Vec::new() };
        let end = patch.address + patch.original.len() as u64;
        let lines = disassemble(&self.code_from(patch), patch.address);
        lines.into_iter().take_while(|line| line.address < end).collect()
    }

    /// The instructions of a piece.
    pub fn lines(&self, piece: &Piece) -> Vec<NotedLine> {
        let noted = |line: CodeLine| {
            let routine = self.plan.routines.get(&line.address).map(|name| (*name).to_owned());
            NotedLine { note: self.note(&line), routine, line }
        };
        self.bare_lines(piece).into_iter().map(noted).collect()
    }

    /// The bytes that a write changes, and what follows in the file: it may end in the middle of an instruction.
    fn code_from(&self, patch: &Patch) -> Vec<u8> {
        let following = || {
            let module = self.modules.at(patch.address)?;
            let offset = module.loaded.image.file_offset_of(module.bias.to_file(patch.address))?;
            let start = usize::try_from(offset).ok()?.checked_add(patch.original.len())?;
            let bytes = module.loaded.file.bytes();
            bytes.get(start..(start + INSTRUCTION_BYTES_MAX).min(bytes.len()))
        };
        [&patch.original[..], following().unwrap_or_default()].concat()
    }

    fn bare_lines(&self, piece: &Piece) -> Vec<CodeLine> {
        let arena = self.plan.arenas.get(piece.arena);
        // An arena's code is one behind the other, the first piece first.
        let first = self.plan.pieces.iter().find(|other| other.arena == piece.arena);
        let bytes = arena.zip(first).and_then(|(arena, first)| {
            let at = |address: ProcAddr| usize::try_from(address.0.checked_sub(first.range.start.0)?).ok();
            arena.get(at(piece.range.start)?..at(piece.range.end)?)
        });
        let bytes = bytes.unwrap_or_default();
        let data = if piece.role == PieceRole::Routines { self.data_bytes(piece) } else { 0 };
        let (data, code) = bytes.split_at(data.min(bytes.len()));
        let start = piece.range.start;
        let word =
            |bytes: &[u8]| CodeLine { address: start, bytes: bytes.to_vec(), text: "(data)".into(), target: None };
        let words = (!data.is_empty()).then(|| word(data)).into_iter();
        words.chain(disassemble(code, start + data.len() as u64)).collect()
    }

    /// Shared routines begin with the address of the threads' areas.
    fn data_bytes(&self, piece: &Piece) -> usize {
        let first = self.plan.routines.range(piece.range.clone()).next();
        first.map_or(0, |(address, _)| (*address - piece.range.start) as usize)
    }

    /// The instruction as it was, or the one that it leads to.
    fn note(&self, line: &CodeLine) -> Option<String> {
        if let Some(old) = self.origin.get(&line.address) {
            return Some(format!("in place of {}", self.place(*old)?));
        }
        let target = line.target?;
        match self.plan.routines.get(&target) {
            Some(name) => Some((*name).to_owned()),
            None => self.place(target),
        }
    }

    /// A place in the program's code.
    fn place(&self, address: ProcAddr) -> Option<String> {
        self.modules.at(address)?;
        Some(self.modules.describe(address.0, self.cache))
    }
}
