//! Every point of the functions that match a pattern: where it is, how it would be patched or why not, and the text that
//! names it in a script.
//!
//! Each point is judged by itself: two that need the same bytes can't be in one script. A point is listed as possible if
//! a script could use it, since both ask the same functions.
//!
//! Next: `places`, which finds these points by the text listed here; `trimtab-session`'s `inside`.

use crate::debug::{DebugFiles, DebugSections};
use crate::facts::ProcessFacts;
use crate::no_place::Unusable;
use crate::place::FunctionPlace;
use crate::places::{after_call, dotted, entered_from, left_to};
use serde::Serialize;
use std::collections::BTreeMap;
use trimtab_session::{Inner, Inside, Modules, Obstacle};
use trimtab_snippet::Facts;
use trimtab_snippet::error::near;
use trimtab_snippet::facts::FunctionId;
use trimtab_snippet::syntax::FunctionPattern;
use trimtab_symbols::{Source, demangle_name};
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::{Exit, ExitKind, JumpForm, Loop, PassPlace, PatchSite, Refusal};

/// Kinds of points, in the order in which a function's are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PointKind {
    /// A function's entry.
    Entry,
    /// One of its exits.
    Exit,
    /// Before or behind a call in it.
    Call,
    /// Passes, entry or exit of a loop in it.
    Loop,
    /// A basic block of it.
    Block,
    /// A source line in it.
    Line,
}

impl PointKind {
    /// All of them.
    pub const ALL: [PointKind; 6] =
        [PointKind::Entry, PointKind::Exit, PointKind::Call, PointKind::Loop, PointKind::Block, PointKind::Line];
}

/// How a point is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// A near jump at the place itself.
    Jump,
    /// A short jump to a near one in padding.
    Springboard,
    /// A short jump to a near one where code was moved away to make room.
    Carrier,
}

/// One point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPoint {
    /// The kind of point.
    pub kind: PointKind,
    /// The text that names it in a script. Points with the same text are probed together.
    pub point: String,
    /// Where it is: in the process, or in the file if there is no process.
    pub address: u64,
    /// How it is patched, or why it can't be.
    pub verdict: Result<How, Unusable>,
    /// The code there, in a few words; may be empty.
    pub what: String,
}

/// A function with its points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionPoints {
    /// Its name in scripts: it means this function and no other.
    pub name: String,
    /// As its author wrote it.
    pub shown: String,
    /// File name of the program or library.
    pub module: String,
    /// Where it begins: in the process, or in the file if there is no process.
    pub address: u64,
    /// Where it begins in the file.
    pub file_address: u64,
    /// Bytes of its main part; `None`: no table tells.
    pub size_bytes: Option<u64>,
    /// All names of this code.
    pub aliases: Vec<String>,
    /// The table that knows of it: `symtab`, `dynsym` or `eh_frame`.
    pub source: &'static str,
    /// True if all its jumps could be followed: if not, calls, loops and blocks may be missing.
    pub is_complete: bool,
    /// Its points, by kind and then by address.
    pub points: Vec<ListedPoint>,
}

/// Hands over, one by one, the functions that `pattern` (`NAME[@LIBRARY]` as in scripts) means, with their points of
/// `kinds`. Ends early where `each` fails.
///
/// # Errors
/// The error that `each` returned.
pub fn list_points<E>(
    modules: &Modules,
    pattern: &str,
    kinds: &[PointKind],
    each: &mut dyn FnMut(FunctionPoints) -> Result<(), E>,
) -> Result<(), E> {
    let files = DebugFiles::of(modules);
    let sections = DebugSections::of(&files);
    let facts = ProcessFacts::new(modules, &sections);
    let lister = Lister { facts: &facts, kinds };
    for id in facts.functions(&FunctionPattern::of(pattern)) {
        each(lister.function(id))?;
    }
    Ok(())
}

/// Why no function matches a pattern, as a sentence: the compiler has inlined it, at these lines; or names that are spelt nearly
/// so. `None`: nothing is known.
pub fn why_no_function(modules: &Modules, pattern: &str) -> Option<String> {
    let files = DebugFiles::of(modules);
    let sections = DebugSections::of(&files);
    let facts = ProcessFacts::new(modules, &sections);
    let name = FunctionPattern::of(pattern).name;
    if let Some(reason) = facts.why_no_function(&name) {
        return Some(format!("{name} has no code of its own: {reason}"));
    }
    let near = near(&name, facts.function_names(&name));
    (!near.is_empty()).then(|| format!("nothing is called {name}; is one of these meant: {}?", near.join(", ")))
}

struct Lister<'a, 'm> {
    facts: &'a ProcessFacts<'m>,
    kinds: &'a [PointKind],
}

impl Lister<'_, '_> {
    fn function(&self, id: FunctionId) -> FunctionPoints {
        let place = self.facts.function(id);
        let name = self.script_name(&place, id);
        let module = self.facts.modules.at(place.address);
        let file_address = module.map_or(FileAddr(0), |module| module.bias.to_file(place.address));
        let function = module.and_then(|module| module.loaded.image.function_at(file_address));
        let listed = self.facts.modules.look_inside(place.address, |inside| {
            let list = PointsOf { lister: self, place: &place, name: &name, inside };
            (inside.flow.is_complete, list.all())
        });
        let (is_complete, points) = listed.unwrap_or_else(|obstacle| (false, self.refused(&place, &name, &obstacle)));
        FunctionPoints {
            shown: demangle_name(&place.name).unwrap_or_else(|| place.name.clone()),
            module: place.module.clone(),
            address: place.address.0,
            file_address: file_address.0,
            size_bytes: function.map(|function| function.size).filter(|size| *size > 0),
            aliases: function.map_or(Vec::new(), |function| function.names.clone()),
            source: match function.map(|function| function.source) {
                Some(Source::Symtab) => "symtab",
                Some(Source::Dynsym) => "dynsym",
                Some(Source::EhFrame) | None => "eh_frame",
            },
            is_complete,
            points,
            name,
        }
    }

    /// The shortest name by which a script finds this function and no other.
    fn script_name(&self, place: &FunctionPlace, id: FunctionId) -> String {
        let module = self.facts.modules.at(place.address);
        let in_file = module.map(|module| module.bias.to_file(place.address));
        let function = module.and_then(|module| module.loaded.image.function_at(in_file?));
        let numbered = function.map_or_else(|| place.name.clone(), trimtab_symbols::Function::address_name);
        let is_library = self.facts.modules.is_of_file()
            && module.is_some_and(|module| module.loaded.image.kind == trimtab_symbols::ImageKind::SharedLibrary);
        let mut names = Vec::new();
        for name in [&place.name, &numbered] {
            names.extend((!is_library).then(|| name.clone()));
            names.push(format!("{name}@{}", place.module));
        }
        let means_it = |name: &&String| self.facts.functions(&FunctionPattern::of(name)) == [id];
        names.iter().find(means_it).cloned().unwrap_or_else(|| format!("{:#x}", place.address.0))
    }

    fn wants(&self, kind: PointKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// The points that every function has, of one that can't be probed at all.
    fn refused(&self, place: &FunctionPlace, name: &str, obstacle: &Obstacle) -> Vec<ListedPoint> {
        let kinds = [PointKind::Entry, PointKind::Exit].into_iter().filter(|kind| self.wants(*kind));
        let point = |kind| {
            let verdict = Err(Unusable::Obstacle(obstacle.clone()));
            let word = if kind == PointKind::Entry { "entry" } else { "exit" };
            ListedPoint { kind, point: text(word, name, ""), address: place.address.0, verdict, what: String::new() }
        };
        kinds.map(point).collect()
    }
}

/// The points of one function under way.
struct PointsOf<'a, 'm> {
    lister: &'a Lister<'a, 'm>,
    place: &'a FunctionPlace,
    name: &'a str,
    inside: &'a Inside<'a>,
}

fn is_jump(exit: &Exit) -> bool {
    use ExitKind::{ConditionalTailJump, IndirectTailJump, TailJump};
    matches!(exit.kind, TailJump { .. } | ConditionalTailJump { .. } | IndirectTailJump)
}

impl PointsOf<'_, '_> {
    fn all(&self) -> Vec<ListedPoint> {
        let mut points = Vec::new();
        let wants = |kind| self.lister.wants(kind);
        if wants(PointKind::Entry) || wants(PointKind::Exit) {
            points.extend(self.entry_and_exits().into_iter().filter(|point| wants(point.kind)));
        }
        if wants(PointKind::Call) {
            points.extend(self.calls());
        }
        if wants(PointKind::Loop) {
            points.extend(self.inside.flow.loops.iter().flat_map(|found| self.of_loop(found)));
        }
        if wants(PointKind::Block) {
            points.extend(self.blocks());
        }
        if wants(PointKind::Line) {
            points.extend(self.lines());
        }
        points
    }

    fn entry_and_exits(&self) -> Vec<ListedPoint> {
        let sites = self.inside.sites();
        let entry_at = sites.entry.as_ref().map_or(self.place.address, |site| site.at);
        let entry = self.point(PointKind::Entry, text("entry", self.name, ""), entry_at, verdict(&sites.entry));
        // A function that ends behind a call that does not return has an exit that nobody passes.
        let passed =
            |(exit, site): &&(Exit, Result<PatchSite, Refusal>)| site.is_ok() || exit.kind != ExitKind::FallsThrough;
        let exits: Vec<&(Exit, Result<PatchSite, Refusal>)> = sites.exits.iter().filter(passed).collect();
        let obstacle = exits.iter().find_map(|(_, site)| site.as_ref().err());
        let point = |(exit, site): &&(Exit, Result<PatchSite, Refusal>)| {
            // A script probes all exits or none, and the entry with them.
            let verdict = match (site, &sites.entry, obstacle) {
                (Ok(_), Err(entry), _) => Err(Unusable::Entry(entry.clone().into())),
                (Ok(_), Ok(_), Some(other)) => Err(Unusable::OtherExit(other.clone().into())),
                (site, ..) => verdict(site),
            };
            let listed = self.point(PointKind::Exit, text("exit", self.name, ""), exit.at, verdict);
            ListedPoint { what: self.exit_in_words(exit), ..listed }
        };
        let mut points: Vec<ListedPoint> = exits.iter().map(point).collect();
        if exits.iter().any(|(exit, _)| is_jump(exit)) {
            self.say_where_calls_go_on(&mut points);
        }
        if points.is_empty() {
            let never = Err(Obstacle::NeverReturns.into());
            points.push(self.point(PointKind::Exit, text("exit", self.name, ""), self.place.address, never));
        }
        points.insert(0, entry);
        points
    }

    /// Adds to jumps out of the function where the calls end that go on behind them.
    fn say_where_calls_go_on(&self, exits: &mut [ListedPoint]) {
        for tail in self.lister.facts.modules.tail_exits(self.place.address) {
            let Some(exit) = exits.iter_mut().find(|exit| exit.address == tail.at.0) else { continue };
            exit.what += &match &tail.unseen {
                None => format!(", where the call goes on until {} returns", tail.to),
                Some(reason) => format!(", where the call goes on; its end is not seen: {reason}"),
            };
        }
    }

    fn exit_in_words(&self, exit: &Exit) -> String {
        let to = |target: ProcAddr| {
            let module = self.lister.facts.modules.at(target)?;
            let file = module.bias.to_file(target);
            let function = module.loaded.image.function_at(file).filter(|function| function.addr == file)?;
            Some(function.name())
        };
        let to = |target| to(target).unwrap_or_else(|| format!("{target:#x}"));
        match exit.kind {
            ExitKind::Ret { .. } => "ret".into(),
            ExitKind::TailJump { target } => format!("jump to {}", to(target)),
            ExitKind::ConditionalTailJump { target } => format!("conditional jump to {}", to(target)),
            ExitKind::IndirectTailJump => "indirect jump to another function".into(),
            ExitKind::RunsInto { target } => format!("runs into the exit at {target:#x}"),
            ExitKind::FallsThrough => "runs into what follows".into(),
        }
    }

    fn calls(&self) -> Vec<ListedPoint> {
        let mut passed: BTreeMap<String, u32> = BTreeMap::new();
        let mut points = Vec::new();
        for (call, callee) in self.lister.facts.calls_in(self.place, &self.inside.flow) {
            let after = after_call(&self.inside.flow, call.return_address);
            let Some(callee) = callee else {
                let mut point = self.offset(PointKind::Call, call.at);
                point.what = "call of what a register or memory holds".into();
                points.push(point);
                continue;
            };
            let number = passed.entry(callee.name.clone()).or_default();
            *number += 1;
            let site = format!(":{}#{number}", callee.name);
            let before = text("call", self.name, &site);
            let shown = demangle_name(&callee.name).unwrap_or(callee.name);
            let mut point = self.instruction(PointKind::Call, before, call.at);
            point.what = format!("before the call of {shown}");
            points.push(point);
            let behind = text("call after", self.name, &site);
            let mut point = match after {
                Ok(at) => self.instruction(PointKind::Call, behind, at),
                Err(reason) => self.point(PointKind::Call, behind, call.return_address, Err(reason.into())),
            };
            point.what = format!("behind the call of {shown}");
            points.push(point);
        }
        points
    }

    fn of_loop(&self, found: &Loop) -> Vec<ListedPoint> {
        let number = format!(":{}", dotted(&found.number));
        let starts_at = self.place.address;
        let blocks: Vec<String> = found.blocks.iter().map(|block| (block + 1).to_string()).collect();
        let pass = self.inside.loop_pass(found);
        let (verdict, seen) = match &pass {
            Ok((sites, place)) => (sites.first().map(how).ok_or(Unusable::Nothing), *place),
            Err(refusal) => (Err(Obstacle::Code(refusal.clone()).into()), PassPlace::Header),
        };
        let mut point = self.point(PointKind::Loop, text("loop", self.name, &number), found.header_at, verdict);
        point.what = match seen {
            PassPlace::Header => format!("blocks {}", blocks.join(" ")),
            PassPlace::Latch => format!("blocks {}; seen where it goes back", blocks.join(" ")),
            PassPlace::Call => format!("blocks {}; seen at a call that each pass makes", blocks.join(" ")),
            PassPlace::Inside => format!("blocks {}; seen inside of its first block", blocks.join(" ")),
            PassPlace::WaysBack => format!("blocks {}; seen on each of its ways back", blocks.join(" ")),
        };
        let mut points = vec![point];
        for (word, places, what) in [
            ("loop entry", entered_from(self.inside, found, starts_at), "entered"),
            ("loop exit", left_to(self.inside, found), "left"),
        ] {
            let name = || text(word, self.name, &number);
            match places {
                Ok(places) => points.extend(self.all_or_none(&places, &name())),
                Err(reason) => points.push(self.point(PointKind::Loop, name(), found.header_at, Err(reason.into()))),
            }
            points.iter_mut().filter(|point| point.what.is_empty()).for_each(|point| point.what = what.into());
        }
        points
    }

    /// The ways into a loop or out of it: a script probes all of them or none.
    fn all_or_none(&self, places: &[Inner], name: &str) -> Vec<ListedPoint> {
        let first = |sites: Vec<PatchSite>| sites.into_iter().next().ok_or(Obstacle::NoPatch);
        let sites: Vec<Result<PatchSite, Obstacle>> =
            places.iter().map(|place| self.inside.place(place).and_then(first)).collect();
        let obstacle = sites.iter().find_map(|site| site.as_ref().err());
        let point = |(place, site): (&Inner, &Result<PatchSite, Obstacle>)| {
            let at = match place {
                Inner::Instruction(at) | Inner::Way { from: at, .. } => *at,
                Inner::Loop(_) => self.place.address,
            };
            let verdict = match (site, obstacle) {
                (Ok(_), Some(other)) => Err(Unusable::OtherWay(other.clone())),
                (site, _) => site.as_ref().map(how).map_err(|obstacle| obstacle.clone().into()),
            };
            self.point(PointKind::Loop, name.to_owned(), at, verdict)
        };
        places.iter().zip(&sites).map(point).collect()
    }

    fn blocks(&self) -> Vec<ListedPoint> {
        let blocks = self.inside.flow.blocks.iter().enumerate();
        let point = |(index, block): (usize, &trimtab_x86::Block)| {
            let name = text("block", self.name, &format!(":{}", index + 1));
            let mut point = self.instruction(PointKind::Block, name, block.range.start);
            let to: Vec<String> = block.successors.iter().map(|to| (to + 1).to_string()).collect();
            let bytes = block.range.end - block.range.start;
            let next = if to.is_empty() { "leaves".into() } else { format!("then {}", to.join(" or ")) };
            point.what = format!("{bytes} bytes, {next}");
            point
        };
        blocks.map(point).collect()
    }

    fn lines(&self) -> Vec<ListedPoint> {
        let debug = &self.lister.facts.debug;
        let mut points = Vec::new();
        for (file, line) in debug.lines_of(self.place.address) {
            let short = file.rsplit('/').next().unwrap_or(&file);
            let named = [short, &file].into_iter().find_map(|name| Some((name, debug.line(name, line, None).ok()?)));
            let Some((name, sites)) = named else { continue };
            for site in sites.iter().filter(|site| site.function == self.place.address) {
                points.push(self.instruction(PointKind::Line, text("at", name, &format!(":{line}")), site.address));
            }
        }
        points
    }

    fn instruction(&self, kind: PointKind, point: String, address: ProcAddr) -> ListedPoint {
        self.point(kind, point, address, verdict(&self.inside.instruction(address)))
    }

    /// A place that only its distance from the function's start names.
    fn offset(&self, kind: PointKind, address: ProcAddr) -> ListedPoint {
        let offset = address.0.wrapping_sub(self.place.address.0);
        self.instruction(kind, text("at", self.name, &format!("+{offset:#x}")), address)
    }

    fn point(&self, kind: PointKind, point: String, address: ProcAddr, verdict: Result<How, Unusable>) -> ListedPoint {
        ListedPoint { kind, point, address: address.0, verdict, what: String::new() }
    }
}

fn verdict(site: &Result<PatchSite, Refusal>) -> Result<How, Unusable> {
    site.as_ref().map(how).map_err(|refusal| Obstacle::Code(refusal.clone()).into())
}

fn how(site: &PatchSite) -> How {
    match (&site.carrier, site.jump) {
        (Some(_), _) => How::Carrier,
        (None, JumpForm::Short2 { .. }) => How::Springboard,
        (None, JumpForm::Near5) => How::Jump,
    }
}

/// Words that mean something else where a name is expected.
const WORDS: [&str; 11] = ["entry", "exit", "call", "loop", "block", "at", "every", "once", "before", "after", "pass"];

/// A point as it is written in a script; what the language would take for something else stands in quotes.
fn text(kind: &str, name: &str, rest: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.$@+-/".contains(c) || !c.is_ascii();
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric() || "_./".contains(c));
    let is_simple = begins_well && name.chars().all(is_plain) && rest.chars().all(|c| is_plain(c) || ":#".contains(c));
    if is_simple && !WORDS.contains(&name) && !name.contains("//") {
        return format!("{kind} {name}{rest}");
    }
    let escaped = format!("{name}{rest}").replace('\\', "\\\\").replace('"', "\\\"");
    format!("{kind} \"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_snippet::parse;

    /// Whatever a function is called, the text means it.
    #[test]
    fn texts_are_read_as_one_name() {
        for name in
            ["solve", "entry", "after", "f.constprop.0", "a b", "std::x<int, 2>", "q\"uote\\", "#x", "//x", "[x]"]
        {
            for (kind, rest) in [("entry", ""), ("call", ":puts#2"), ("call after", ":puts#2"), ("loop exit", ":1.2")] {
                let point = text(kind, name, rest);
                let parsed = parse(&format!("{point} {{ n++ }}")).unwrap_or_else(|error| panic!("{point}: {error:?}"));
                let said = format!("{parsed:?}");
                assert!(said.contains(&format!("name: {name:?}")), "{point}: {said}");
            }
        }
        assert_eq!(text("loop", "solve", ":1.2"), "loop solve:1.2");
        assert_eq!(text("call", "after", ":x#1"), "call \"after:x#1\"");
    }
}
