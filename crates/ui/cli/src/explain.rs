//! `explain`: what a script would do, without doing it: bodies, writes with the bytes before and after, and the code that
//! would run, disassembled.
//!
//! Next: `trimtab-engine`'s `code` for the work; docs/explain.md for what is printed.

use crate::arguments::{ExplainOptions, ScriptArguments};
use crate::engine::Parts;
use crate::exit_code::{DONE, PARTIAL};
use crate::points::code_of;
use crate::{output, probe};
use anyhow::bail;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use trimtab_engine::{ExplainedBody, Explanation, NotedLine, Patch, PatchRole, Piece, PieceRole, Refused};
use trimtab_types::Pid;

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;
/// Writes and pieces of code shown for people unless they ask for more.
const SHOWN_MAX: usize = 100;
/// Columns for the bytes of one that is not unusually long.
const BYTES_COLUMNS: usize = 3 * 9;

/// `trimtab explain SCRIPT PID|JOB|FILE`.
pub fn run(
    script: &ScriptArguments,
    options: &ExplainOptions,
    words: &[String],
    store: &Option<PathBuf>,
) -> anyhow::Result<u8> {
    let (text, rest) = probe::script_of(script, words)?;
    let script = probe::script_options(script, text);
    let [target] = rest else { bail!("expected a script, and one process id, job or file to explain it for") };
    let code = code_of(&Parts::of(None), target, store, options.process)?;
    output::print_unread(code.unread());
    let explained = code.explain(&script).map_err(|error| probe::refused(error, &script.text))?;
    let shown = Shown { explained: &explained, pid: code.pid() };
    if options.json {
        output::print_text(&serde_json::to_string_pretty(&shown.as_json(target))?)?;
    } else {
        let limit = options.limit.unwrap_or(SHOWN_MAX);
        output::print_text(&shown.text(target, if limit == 0 { usize::MAX } else { limit }, options.routines))?;
    }
    Ok(if explained.refused.is_empty() { DONE } else { PARTIAL })
}

struct Shown<'a> {
    explained: &'a Explanation<'a>,
    /// The process; `None`: it is for a file.
    pid: Option<Pid>,
}

impl Shown<'_> {
    fn text(&self, target: &str, limit: usize, with_routines: bool) -> String {
        let mut text = String::new();
        if self.pid.is_none() {
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
        let (writes, code) = (self.explained.patches().len(), self.explained.code_bytes());
        let arenas = self.explained.arenas();
        format!("{writes} writes, {code} bytes of code in {arenas} arenas; nothing was changed")
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
        let patches = self.explained.patches();
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
        let pieces = self.explained.pieces();
        for piece in pieces.iter().filter(is_shown).take(limit) {
            let _ = writeln!(text, "\n{}", self.heading(piece));
            self.add_before(text, piece);
            for noted in self.explained.lines(piece) {
                if let Some(name) = &noted.routine {
                    let _ = writeln!(text, "  routine: {name}");
                }
                add_line(text, &noted);
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
        self.explained.patches().get(number).map_or_else(String::new, named)
    }

    /// The instructions that a write takes the place of.
    fn add_before(&self, text: &mut String, piece: &Piece) {
        for line in self.explained.before(piece) {
            let _ = writeln!(text, "  before: {:#x}  {:BYTES_COLUMNS$}  {}", line.address, hex(&line.bytes), line.text);
        }
    }

    fn as_json(&self, target: &str) -> Value {
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
        let refused = |one: &Refused| json!({ "name": one.name, "reason": one.reason.to_string() });
        let mut whole = json!({
            "version": JSON_VERSION,
            "bodies": self.explained.bodies.iter().map(body).collect::<Vec<_>>(),
            "writes": self.explained.patches().iter().map(patch).collect::<Vec<_>>(),
            "code": self.explained.pieces().iter().map(|piece| self.piece_as_json(piece)).collect::<Vec<_>>(),
            "code_bytes": self.explained.code_bytes(),
            "awaited": self.explained.awaited,
            "refused": self.explained.refused.iter().map(refused).collect::<Vec<_>>(),
        });
        let (key, value) = self.pid.map_or(("file", json!(target)), |pid| ("pid", json!(pid.0)));
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
        let noted = |NotedLine { line, note, .. }: &NotedLine| {
            json!({
                "address": format!("{:#x}", line.address),
                "bytes": hex(&line.bytes),
                "text": line.text,
                "note": note,
            })
        };
        json!({
            "role": role,
            "arena": piece.arena,
            "address": format!("{:#x}", piece.range.start),
            "write": write,
            "bodies": bodies,
            "instructions": self.explained.lines(piece).iter().map(noted).collect::<Vec<_>>(),
        })
    }
}

fn add_line(text: &mut String, NotedLine { line, note, .. }: &NotedLine) {
    let note = note.as_ref().map_or_else(String::new, |note| format!("  ; {note}"));
    let _ = writeln!(text, "  {:#x}  {:BYTES_COLUMNS$}  {:<40}{note}", line.address, hex(&line.bytes), line.text);
    text.truncate(text.trim_end().len());
    text.push('\n');
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

fn word(role: PatchRole) -> &'static str {
    match role {
        PatchRole::Entry => "entry",
        PatchRole::Exit => "exit",
        PatchRole::Springboard => "springboard",
        PatchRole::Carrier => "carrier",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
