//! `points`: every point of the functions that match, how it would be patched or why it can't be, and the text that
//! names it in a script.
//!
//! Next: `trimtab-engine`'s `code` for the work; docs/points.md for the shape of the JSON.

use crate::arguments::{KindName, PointsOptions};
use crate::engine::Parts;
use crate::exit_code::{DONE, PARTIAL};
use crate::{output, probe};
use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use trimtab_engine::{Code, FunctionPoints, How, ListedPoint, Nobody, PointKind, to_look_into};
use trimtab_types::Pid;

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;
/// Points shown for people unless they ask for more.
const SHOWN_MAX: usize = 1000;
/// Widest column for the texts that name points.
const TEXT_COLUMNS_MAX: usize = 44;

/// `trimtab points PATTERN PID|JOB|FILE`.
pub fn list(options: &PointsOptions, pattern: &str, target: &str, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let code = code_of(&Parts::of(None), target, store, options.process)?;
    let kinds: Vec<PointKind> = match options.kind.as_slice() {
        [] => PointKind::ALL.to_vec(),
        kinds => kinds.iter().map(|kind| kind_of(*kind)).collect(),
    };
    let default = if options.json { 0 } else { SHOWN_MAX };
    let mut left = options.limit.unwrap_or(default);
    if left == 0 {
        left = usize::MAX;
    }
    let (mut summary, mut rows) = (Summary::default(), Vec::new());
    code.points(pattern, &kinds, &mut |mut function: FunctionPoints| -> anyhow::Result<()> {
        summary.matching += 1;
        function.points.retain(|point| !options.refused || point.verdict.is_err());
        if options.refused && function.points.is_empty() {
            return Ok(());
        }
        summary.add(&function);
        summary.unshown += function.points.len().saturating_sub(left);
        function.points.truncate(left);
        left -= function.points.len();
        match (options.summary, options.json) {
            (true, _) => {}
            (false, true) => rows.push(as_json(&function, code.pid().is_none())),
            (false, false) if function.points.is_empty() => {}
            (false, false) => output::print_text(&shown(&function))?,
        }
        Ok(())
    })?;
    if options.json {
        let mut whole = json!({ "version": JSON_VERSION, "pattern": pattern, "summary": summary.as_json() });
        let (key, value) = code.pid().map_or(("file", json!(target)), |pid| ("pid", json!(pid.0)));
        whole[key] = value;
        if !options.summary {
            whole["functions"] = Value::Array(rows);
        }
        output::print_text(&serde_json::to_string_pretty(&whole)?)?;
    } else {
        output::print_text(&summary.text(pattern, options))?;
    }
    output::print_unread(code.unread());
    if summary.matching == 0 {
        say_why_nothing(code.why_no_function(pattern));
    }
    Ok(if summary.matching == 0 { PARTIAL } else { DONE })
}

/// Says on standard error why no function matches, if that is known.
pub fn say_why_nothing(why: Option<String>) {
    why.iter().for_each(|why| eprintln!("trimtab: {why}"));
}

/// The same for whatever ended because a function was not found.
pub fn say_why_not_found(error: &anyhow::Error) {
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<trimtab_engine::Error>());
    say_why_nothing(cause.and_then(trimtab_engine::Error::why_no_function));
}

/// A process by its number, a file by its path, or else a job that is known. Of a launcher its ranks are meant, unless
/// `only_process`.
pub fn code_of(parts: &Parts, target: &str, store: &Option<PathBuf>, only_process: bool) -> anyhow::Result<Code> {
    let engine = parts.engine(&Nobody, None);
    let pid = if let Ok(pid) = target.parse() {
        first_to_look_into(Pid(pid), only_process)?
    } else if Path::new(target).is_file() {
        return Ok(engine.code_of_file(Path::new(target))?);
    } else if target.contains('/') {
        bail!("there is no file {target}");
    } else {
        probe::process_of(target, store)
            .with_context(|| format!("`{target}` is no process id, no file and no job that runs"))?
    };
    Ok(engine.code_of_process(pid)?)
}

/// Of several programs that one launcher runs the first one, and a word on which process that is and on the others.
fn first_to_look_into(pid: Pid, only_process: bool) -> anyhow::Result<Pid> {
    let programs = to_look_into(pid, only_process)?;
    let Some(first) = programs.first() else { bail!("process {pid} has no rank; give the process id of one") };
    if first.pid != pid {
        eprintln!("trimtab: looking into process {}, {}; --process looks into {pid} itself", first.pid, first.name());
    }
    for other in &programs[1..] {
        eprintln!("trimtab: not looked at: {}; give {} for it", other.name(), other.pid);
    }
    Ok(first.pid)
}

fn kind_of(kind: KindName) -> PointKind {
    match kind {
        KindName::Entry => PointKind::Entry,
        KindName::Exit => PointKind::Exit,
        KindName::Call => PointKind::Call,
        KindName::Loop => PointKind::Loop,
        KindName::Block => PointKind::Block,
        KindName::Line => PointKind::Line,
    }
}

fn word(how: How) -> &'static str {
    match how {
        How::Jump => "jump",
        How::Springboard => "springboard",
        How::Carrier => "carrier",
    }
}

fn shown(function: &FunctionPoints) -> String {
    let mut text = function.shown.clone();
    let others: Vec<&str> = function.aliases.iter().map(String::as_str).filter(|alias| *alias != text).collect();
    let _ = write!(text, "  {}  {:#x}", function.module, function.address);
    let _ = function.size_bytes.map(|bytes| write!(text, ", {bytes} bytes"));
    if function.file_address != function.address {
        let _ = write!(text, ", {:#x} in the file", function.file_address);
    }
    if !others.is_empty() {
        let _ = write!(text, ", also {}", others.join(" "));
    }
    if !function.is_complete {
        text += "; a jump in it can't be followed, so there may be more";
    }
    let width = |point: &ListedPoint| point.point.chars().count();
    let column = function.points.iter().map(width).max().unwrap_or(0).min(TEXT_COLUMNS_MAX);
    for point in &function.points {
        let _ = match &point.verdict {
            Ok(how) => {
                write!(text, "\n  {:column$}  {:#x}  {:11}  {}", point.point, point.address, word(*how), point.what)
            }
            Err(reason) => write!(text, "\n  {:column$}  {:#x}  not: {reason}", point.point, point.address),
        };
        text.truncate(text.trim_end().len());
    }
    text + "\n\n"
}

fn as_json(function: &FunctionPoints, is_of_file: bool) -> Value {
    let hex = |address: u64| format!("{address:#x}");
    let in_process = |address: u64| if is_of_file { Value::Null } else { hex(address).into() };
    let in_file = |address: u64| hex(address.wrapping_sub(function.address).wrapping_add(function.file_address));
    let point = |point: &ListedPoint| {
        json!({
            "kind": point.kind,
            "point": point.point,
            "address": in_process(point.address),
            "file_address": in_file(point.address),
            "how": point.verdict.as_ref().ok(),
            "reason": point.verdict.as_ref().err().map(ToString::to_string),
            "what": point.what,
        })
    };
    json!({
        "name": function.name,
        "shown": function.shown,
        "module": function.module,
        "address": in_process(function.address),
        "file_address": hex(function.file_address),
        "size_bytes": function.size_bytes,
        "aliases": function.aliases,
        "source": function.source,
        "complete": function.is_complete,
        "points": function.points.iter().map(point).collect::<Vec<_>>(),
    })
}

/// How many there are of what.
#[derive(Default)]
struct Summary {
    functions: usize,
    /// Functions that match, also those with nothing that was asked for.
    matching: usize,
    /// By kind: how many are patched in which way, and how many can't be.
    kinds: BTreeMap<PointKind, Counts>,
    unshown: usize,
}

#[derive(Default)]
struct Counts {
    by_how: BTreeMap<How, usize>,
    refused: usize,
}

impl Counts {
    fn of(&self, how: How) -> usize {
        self.by_how.get(&how).copied().unwrap_or(0)
    }

    fn possible(&self) -> usize {
        self.by_how.values().sum()
    }
}

impl Summary {
    fn add(&mut self, function: &FunctionPoints) {
        self.functions += 1;
        for point in &function.points {
            let counts = self.kinds.entry(point.kind).or_default();
            match point.verdict {
                Ok(how) => *counts.by_how.entry(how).or_default() += 1,
                Err(_) => counts.refused += 1,
            }
        }
    }

    fn as_json(&self) -> Value {
        let row = |(kind, counts): (&PointKind, &Counts)| {
            json!({
                "kind": kind,
                "jump": counts.of(How::Jump),
                "springboard": counts.of(How::Springboard),
                "carrier": counts.of(How::Carrier),
                "refused": counts.refused,
            })
        };
        let kinds: Vec<Value> = self.kinds.iter().map(row).collect();
        json!({ "functions": self.functions, "kinds": kinds, "points_not_shown": self.unshown })
    }

    fn text(&self, pattern: &str, options: &PointsOptions) -> String {
        let mut text = String::new();
        if self.unshown > 0 && !options.summary {
            let _ = writeln!(text, "{} more points are not shown; --limit 0 shows all", self.unshown);
        }
        let counted = |count: usize| if count == 1 { "1 function".into() } else { format!("{count} functions") };
        if options.refused && self.functions == 0 && self.matching > 0 {
            let matching = counted(self.matching);
            let _ = writeln!(text, "nothing is refused: all points of {matching} for {pattern} can be probed");
            return text;
        }
        let functions: String = counted(self.functions);
        let which = if options.refused { " with points that can't be probed" } else { "" };
        let _ = writeln!(text, "{functions}{which} for {pattern}");
        if !self.kinds.is_empty() {
            let _ = writeln!(
                text,
                "{:6} {:>9} {:>9} {:>11} {:>9} {:>9}",
                "", "possible", "jump", "springboard", "carrier", "refused"
            );
        }
        for (kind, counts) in &self.kinds {
            let name = format!("{kind:?}").to_lowercase();
            let (jump, springboard, carrier) =
                (counts.of(How::Jump), counts.of(How::Springboard), counts.of(How::Carrier));
            let possible = counts.possible();
            let _ =
                writeln!(text, "{name:6} {possible:>9} {jump:>9} {springboard:>11} {carrier:>9} {:>9}", counts.refused);
        }
        text
    }
}
