//! `explain`: what a script would do, without doing it: bodies, writes with the bytes before and after, and the code that
//! would run, disassembled.
//!
//! Next: `trimtab-script`'s `explain` for the work; docs/explain.md for what is printed.

use crate::arguments::{ExplainOptions, ScriptOptions};
use crate::exit_code::{DONE, PARTIAL};
use crate::points::modules_of;
use crate::{output, probe};
use anyhow::bail;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use trimtab_script::{Explained, ExplainedBody, explain};
use trimtab_session::{ImageCache, Line, Modules, Patch, Piece, PieceRole, Role, disassemble};
use trimtab_types::ProcAddr;

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;
/// Writes and pieces of code shown for people unless they ask for more.
const SHOWN_MAX: usize = 100;
/// Bytes of the longest instruction.
const INSTRUCTION_BYTES_MAX: usize = 15;
/// Columns for the bytes of one that is not unusually long.
const BYTES_COLUMNS: usize = 3 * 9;

/// `trimtab explain SCRIPT PID|JOB|FILE`.
pub fn run(
    script: &ScriptOptions,
    options: &ExplainOptions,
    words: &[String],
    store: &Option<PathBuf>,
) -> anyhow::Result<u8> {
    let (text, rest) = probe::script_of(script, words)?;
    let script = probe::script_options(script, text);
    let [target] = rest else { bail!("expected a script, and one process id, job or file to explain it for") };
    let modules = modules_of(target, store, options.process)?;
    output::print_unread(&modules.unreadable);
    let explained = explain(&modules, &script).map_err(|error| probe::said(error, &script.text))?;
    let cache = ImageCache::of_user();
    let shown = Shown { explained: &explained, modules: &modules, cache: &cache, origin: origins(&explained) };
    if options.json {
        output::print_text(&serde_json::to_string_pretty(&shown.as_json(target))?)?;
    } else {
        let limit = options.limit.unwrap_or(SHOWN_MAX);
        output::print_text(&shown.text(target, if limit == 0 { usize::MAX } else { limit }, options.routines))?;
    }
    Ok(if explained.refused.is_empty() { DONE } else { PARTIAL })
}

/// Where a displaced instruction was, by where it is to be.
fn origins(explained: &Explained) -> BTreeMap<u64, u64> {
    explained.plan.moves.iter().map(|(old, new)| (*new, *old)).collect()
}

struct Shown<'a> {
    explained: &'a Explained,
    modules: &'a Modules,
    cache: &'a ImageCache,
    origin: BTreeMap<u64, u64>,
}

impl Shown<'_> {
    fn text(&self, target: &str, limit: usize, with_routines: bool) -> String {
        let mut text = String::new();
        if self.modules.is_of_file() {
            let _ = writeln!(text, "{target}, not loaded: every address is as in the file, and no library is there\n");
        }
        self.add_bodies(&mut text);
        self.add_writes(&mut text, limit);
        self.add_code(&mut text, limit, with_routines);
        for name in &self.explained.awaited {
            let _ = writeln!(text, "{name} waits until its library is loaded");
        }
        for refused in &self.explained.refused {
            let _ = writeln!(text, "not probed: {}: {}", refused.name, refused.reason);
        }
        let _ = writeln!(text, "{}", self.summary());
        text
    }

    fn summary(&self) -> String {
        let (writes, code) = (self.explained.plan.patches.len(), self.code_bytes());
        let arenas = self.explained.plan.arenas.len();
        format!("{writes} writes, {code} bytes of code in {arenas} arenas; nothing was changed")
    }

    fn code_bytes(&self) -> usize {
        self.explained.plan.arenas.iter().map(Vec::len).sum()
    }

    fn add_bodies(&self, text: &mut String) {
        *text += "bodies\n";
        for (number, body) in self.explained.bodies.iter().enumerate() {
            let ExplainedBody { when, purpose, text: source, operations_max } = body;
            let of = source.as_deref().map_or_else(String::new, |source| format!("  {source}"));
            let why = purpose.map_or_else(String::new, |purpose| format!("  ({purpose})"));
            let _ = writeln!(text, "  {number:<3} runs {when}, {operations_max} operations at most{of}{why}");
        }
    }

    fn add_writes(&self, text: &mut String, limit: usize) {
        let patches = &self.explained.plan.patches;
        *text += "\nwrites\n";
        for patch in patches.iter().take(limit) {
            let (before, after) = (hex(&patch.original), hex(&patch.patched));
            let _ = writeln!(text, "  {:#x}  {before:<15} -> {after:<15}  {}", patch.address, named(patch));
        }
        more(text, patches.len().saturating_sub(limit), "writes");
    }

    /// The islands' code, one behind the other.
    fn add_code(&self, text: &mut String, limit: usize, with_routines: bool) {
        let is_shown = |piece: &&Piece| with_routines || piece.role != PieceRole::Routines;
        let pieces = &self.explained.plan.pieces;
        for piece in pieces.iter().filter(is_shown).take(limit) {
            let _ = writeln!(text, "\n{}", self.heading(piece));
            self.add_before(text, piece);
            for line in self.lines(piece) {
                if let Some(name) = self.explained.plan.routines.get(&line.address) {
                    let _ = writeln!(text, "  routine: {name}");
                }
                self.add_line(text, &line);
            }
        }
        more(text, pieces.iter().filter(is_shown).count().saturating_sub(limit), "pieces of code");
        *text += "\n";
    }

    fn heading(&self, piece: &Piece) -> String {
        let (start, bytes) = (piece.range.start, piece.range.end - piece.range.start);
        match &piece.role {
            PieceRole::Routines => format!("code at {start:#x}, {bytes} bytes: routines that bodies share"),
            PieceRole::Calibration => format!("code at {start:#x}, {bytes} bytes: to measure what a probe costs"),
            PieceRole::Carrier { patch } => {
                format!("code at {start:#x}, {bytes} bytes: {}", self.named_patch(*patch))
            }
            PieceRole::Island { patch, bodies, .. } => {
                let numbers: Vec<String> = bodies.iter().map(usize::to_string).collect();
                let which = if numbers.len() == 1 { "body" } else { "bodies" };
                let (patch, numbers) = (self.named_patch(*patch), numbers.join(", "));
                format!("code at {start:#x}, {bytes} bytes: {patch}, {which} {numbers}")
            }
        }
    }

    fn named_patch(&self, number: usize) -> String {
        self.explained.plan.patches.get(number).map_or_else(String::new, named)
    }

    /// The instructions that a write takes the place of.
    fn add_before(&self, text: &mut String, piece: &Piece) {
        let (PieceRole::Island { patch, .. } | PieceRole::Carrier { patch }) = piece.role else { return };
        let Some(patch) = self.explained.plan.patches.get(patch) else { return };
        let end = patch.address + patch.original.len() as u64;
        let lines = disassemble(&self.code_from(patch), patch.address);
        for line in lines.into_iter().take_while(|line| line.address < end) {
            let _ = writeln!(text, "  before: {:#x}  {:BYTES_COLUMNS$}  {}", line.address, hex(&line.bytes), line.text);
        }
    }

    /// The bytes that a write changes, and what follows in the file: it may end in the middle of an instruction.
    fn code_from(&self, patch: &Patch) -> Vec<u8> {
        let following = || {
            let module = self.modules.at(ProcAddr(patch.address))?;
            let offset = module.loaded.image.file_offset_of(module.bias.to_file(ProcAddr(patch.address)))?;
            let start = usize::try_from(offset).ok()?.checked_add(patch.original.len())?;
            let bytes = module.loaded.file.bytes();
            bytes.get(start..(start + INSTRUCTION_BYTES_MAX).min(bytes.len()))
        };
        [&patch.original[..], following().unwrap_or_default()].concat()
    }

    fn lines(&self, piece: &Piece) -> Vec<Line> {
        let arena = self.explained.plan.arenas.get(piece.arena);
        // An arena's code is one behind the other, the first piece first.
        let first = self.explained.plan.pieces.iter().find(|other| other.arena == piece.arena);
        let bytes = arena.zip(first).and_then(|(arena, first)| {
            let at = |address: u64| usize::try_from(address.checked_sub(first.range.start)?).ok();
            arena.get(at(piece.range.start)?..at(piece.range.end)?)
        });
        let bytes = bytes.unwrap_or_default();
        let data = if piece.role == PieceRole::Routines { self.data_bytes(piece) } else { 0 };
        let (data, code) = bytes.split_at(data.min(bytes.len()));
        let start = piece.range.start;
        let word = |bytes: &[u8]| Line { address: start, bytes: bytes.to_vec(), text: "(data)".into(), target: None };
        let words = (!data.is_empty()).then(|| word(data)).into_iter();
        words.chain(disassemble(code, start + data.len() as u64)).collect()
    }

    /// Shared routines begin with the address of the threads' areas.
    fn data_bytes(&self, piece: &Piece) -> usize {
        let first = self.explained.plan.routines.range(piece.range.clone()).next();
        first.map_or(0, |(address, _)| (address - piece.range.start) as usize)
    }

    fn add_line(&self, text: &mut String, line: &Line) {
        let note = self.note(line).map_or_else(String::new, |note| format!("  ; {note}"));
        let _ = writeln!(text, "  {:#x}  {:BYTES_COLUMNS$}  {:<40}{note}", line.address, hex(&line.bytes), line.text);
        text.truncate(text.trim_end().len());
        text.push('\n');
    }

    /// The instruction as it was, or the one that it leads to.
    fn note(&self, line: &Line) -> Option<String> {
        if let Some(old) = self.origin.get(&line.address) {
            return Some(format!("in place of {}", self.place(*old)?));
        }
        let target = line.target?;
        match self.explained.plan.routines.get(&target) {
            Some(name) => Some((*name).to_owned()),
            None => self.place(target),
        }
    }

    /// A place in the program's code.
    fn place(&self, address: u64) -> Option<String> {
        self.modules.at(ProcAddr(address))?;
        Some(self.modules.describe(address, self.cache))
    }

    fn as_json(&self, target: &str) -> Value {
        let plan = &self.explained.plan;
        let body = |body: &ExplainedBody| {
            json!({
                "when": body.when,
                "purpose": body.purpose,
                "text": body.text,
                "operations_max": body.operations_max,
            })
        };
        let patch = |patch: &Patch| {
            json!({
                "address": format!("{:#x}", patch.address),
                "before": hex(&patch.original),
                "after": hex(&patch.patched),
                "function": patch.function,
                "role": word(patch.role),
            })
        };
        let refused = |one: &trimtab_session::Refused| json!({ "name": one.name, "reason": one.reason });
        let mut whole = json!({
            "version": JSON_VERSION,
            "bodies": self.explained.bodies.iter().map(body).collect::<Vec<_>>(),
            "writes": plan.patches.iter().map(patch).collect::<Vec<_>>(),
            "code": plan.pieces.iter().map(|piece| self.piece_as_json(piece)).collect::<Vec<_>>(),
            "code_bytes": self.code_bytes(),
            "awaited": self.explained.awaited,
            "refused": self.explained.refused.iter().map(refused).collect::<Vec<_>>(),
        });
        let (key, value) =
            if self.modules.is_of_file() { ("file", json!(target)) } else { ("pid", json!(self.modules.pid.0)) };
        whole[key] = value;
        whole
    }

    fn piece_as_json(&self, piece: &Piece) -> Value {
        let (role, write, bodies) = match &piece.role {
            PieceRole::Routines => ("routines", None, &[][..]),
            PieceRole::Calibration => ("calibration", None, &[][..]),
            PieceRole::Carrier { patch } => ("carrier", Some(*patch), &[][..]),
            PieceRole::Island { patch, bodies, .. } => ("island", Some(*patch), &bodies[..]),
        };
        let line = |line: &Line| {
            json!({
                "address": format!("{:#x}", line.address),
                "bytes": hex(&line.bytes),
                "text": line.text,
                "note": self.note(line),
            })
        };
        json!({
            "role": role,
            "arena": piece.arena,
            "address": format!("{:#x}", piece.range.start),
            "write": write,
            "bodies": bodies,
            "instructions": self.lines(piece).iter().map(line).collect::<Vec<_>>(),
        })
    }
}

/// Says that something is left out.
fn more(text: &mut String, left: usize, what: &str) {
    if left > 0 {
        let _ = writeln!(text, "  {left} more {what} are not shown; --limit 0 shows all");
    }
}

fn named(patch: &Patch) -> String {
    format!("{} of {}", word(patch.role), patch.function)
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Entry => "entry",
        Role::Exit => "exit",
        Role::Springboard => "springboard",
        Role::Carrier => "carrier",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
