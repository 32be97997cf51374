//! Where a marker is called, as people read it: the program's function and source line, and the way from there to MPI.
//!
//! Next: `call_paths`, which knows the return addresses.

use super::call_paths::CallPaths;
use super::looks::ANY_SITE;
use super::naming::readable;
use super::owners::{is_binding_in_source, is_interpreter};
use super::python::PythonPlace;
use super::{Window, header};
use crate::request::MarkerSite;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering::Relaxed;
use trimtab_session::{DebugFiles, DebugSections, ImageCache, Module};
use trimtab_symbols::dwarf::{Program, SourcePlace, Types};
use trimtab_types::report::{CallFrame, FunctionGroup};
use trimtab_types::{FileAddr, ProcAddr};

/// Letters of a name that are told; templates of C++ have very long ones.
const NAME_LETTERS_MAX: usize = 120;
/// Functions that are named in one warning.
const LOST_NAMED_MAX: usize = 4;

impl Window<'_> {
    /// From where the call comes that counts iterations, and what a reader must know about the places where calls come from.
    pub(super) fn marker_site(&mut self) -> (Option<MarkerSite>, Vec<String>) {
        let mut warnings = self.path_warnings();
        let wanted = self.wanted.iter().position(|wanted| wanted.is_common && wanted.symbol.site != ANY_SITE);
        let Some(index) = wanted else { return (None, warnings) };
        let (wanted, member) = (&self.wanted[index], &self.team.members[index]);
        let info = &self.team.selection.functions[wanted.symbol.function as usize];
        if info.group == FunctionGroup::Loop {
            // Passes come from nowhere: no call makes them.
            return (None, warnings);
        }
        let path = frames(&mut self.paths[index], header(member).marker_site.load(Relaxed), self.cache);
        let function = &info.name;
        let times = if wanted.every > 1 { format!(", every {} calls", wanted.every) } else { String::new() };
        let own = own(&path);
        let name = match own {
            Some(own) if own.interpreter => format!("{function} from Python{times}"),
            Some(own) if own.line.is_some() => format!("{function} from {}{times}", own.place()),
            Some(own) => format!("{function} at {}{times}", own.place()),
            None => format!("{function}{times}"),
        };
        warnings.extend(own.filter(|own| own.interpreter).map(|own| {
            let why = self.paths.iter().find_map(CallPaths::why_no_python);
            let why = why.map_or_else(|| "what the interpreter keeps of them could not be read".to_owned(), str::to_owned);
            format!(
                "calls of MPI come from Python ({}): which of its lines they come from is not known, so calls of one function \
                 are one place: {why}",
                own.place()
            )
        }));
        (Some(MarkerSite { rank: member.process.rank.0, name, path }), warnings)
    }

    fn path_warnings(&self) -> Vec<String> {
        let lost: BTreeSet<(String, &str)> = self.paths.iter().flat_map(CallPaths::lost).collect();
        let reasons: BTreeSet<&str> = lost.iter().map(|(_, why)| *why).collect();
        let said = |why: &str| {
            let functions = lost.iter().filter(|(_, of)| *of == why).map(|(function, _)| function.as_str());
            let named: Vec<&str> = functions.clone().take(LOST_NAMED_MAX).collect();
            let more = functions.count() - named.len();
            let more = if more > 0 { format!(" and {more} more functions") } else { String::new() };
            format!("calls through {}{more} are one place, whoever made them: {why}", named.join(", "))
        };
        let mut warnings: Vec<String> = reasons.into_iter().map(said).collect();
        let mut members = self.team.members.iter().zip(&self.paths);
        let full = members.find(|(member, paths)| paths.is_full(member.inserted.view()));
        warnings.extend(full.map(|(member, _)| {
            format!(
                "rank {}: calls come from more places than are told apart; those of the last ones are known by their last \
                 function alone",
                member.process.rank
            )
        }));
        warnings
    }
}

/// A function's name as its author wrote it; the file's where none is known.
pub(super) fn function_name(module: &Module, at: FileAddr) -> String {
    match module.loaded.image.function_at(at) {
        Some(function) if !function.names.is_empty() => {
            format!("{} of {}", readable(&function.name()), module.file_name())
        }
        _ => module.file_name().to_string(),
    }
}

/// The calls of a site, innermost first.
pub(super) fn frames(paths: &mut CallPaths, site: u64, cache: &ImageCache) -> Vec<CallFrame> {
    frames_of(paths, &[site], cache).pop().unwrap_or_default()
}

/// The calls of each of these sites.
pub(super) fn frames_of(paths: &mut CallPaths, sites: &[u64], cache: &ImageCache) -> Vec<Vec<CallFrame>> {
    let of_sites: Vec<Vec<(u64, bool)>> = sites.iter().map(|site| paths.addresses(*site)).collect();
    let lines: Vec<Option<CallFrame>> = sites.iter().map(|site| paths.python_place(*site).map(python_frame)).collect();
    let modules = paths.modules();
    for (address, _) in of_sites.iter().flatten() {
        modules.reach(ProcAddr(*address), cache);
    }
    let files = DebugFiles::of(modules);
    let sections = DebugSections::of(&files);
    let programs = (0..sections.modules().len()).map(|_| OnceCell::new()).collect();
    let names = Names { sections: &sections, programs };
    let mut known: HashMap<(u64, bool), CallFrame> = HashMap::new();
    let mut frame = |(address, own): &(u64, bool)| {
        known.entry((*address, *own)).or_insert_with(|| names.frame(ProcAddr(*address), *own)).clone()
    };
    let frames = |(addresses, line): (&Vec<(u64, bool)>, Option<CallFrame>)| {
        addresses.iter().map(&mut frame).chain(line).collect()
    };
    of_sites.iter().zip(lines).map(frames).collect()
}

/// A line of Python as the last of a path.
fn python_frame(place: &PythonPlace) -> CallFrame {
    let file = place.file.rsplit('/').next().unwrap_or(&place.file);
    CallFrame {
        function: shortened(&place.function),
        offset: place.offset,
        module: shortened(file),
        line: place.line.map(|line| shortened(&format!("{file}:{line}"))),
        interpreter: false,
        own: true,
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME_LETTERS_MAX).collect()
}

/// Files whose debugging information is read when it is needed.
struct Names<'a> {
    sections: &'a DebugSections<'a>,
    /// One for each file; `None` inside: it has none.
    programs: Vec<OnceCell<Option<Program<'a>>>>,
}

impl<'a> Names<'a> {
    fn frame(&self, address: ProcAddr, own: bool) -> CallFrame {
        match self.sections.modules().iter().position(|module| module.text.contains(&address.0)) {
            Some(at) => self.frame_in(at, address, own),
            None => CallFrame { function: format!("{:#x}", address.0), own, ..CallFrame::default() },
        }
    }

    fn program(&self, at: usize) -> Option<&Program<'a>> {
        self.programs[at].get_or_init(|| self.sections.get(at).map(Program::open)).as_ref()
    }

    fn frame_in(&self, at: usize, address: ProcAddr, own: bool) -> CallFrame {
        let module = &self.sections.modules()[at];
        let after = module.bias.to_file(address);
        // A call may be a function's last instruction: what it returns to is another one then.
        let call = FileAddr(after.0.wrapping_sub(1));
        let function = module.loaded.image.function_at(call).filter(|function| !function.names.is_empty());
        let name = function.map(|function| readable(&function.name()));
        let begin = function.map_or(0, |function| function.addr.0);
        let source = if own { self.program(at).and_then(|program| source_of(program, call)) } else { None };
        let (source_name, line) = source.unzip();
        CallFrame {
            function: source_name.or(name).as_deref().map(shortened).unwrap_or_default(),
            offset: after.0.wrapping_sub(begin),
            module: shortened(module.file_name()),
            line: line.as_deref().map(shortened),
            interpreter: own && is_interpreter(module.file_name()),
            own,
        }
    }
}

/// The function and line of the program that a call was written in: not one of a binding that was inlined there.
fn source_of(program: &Program<'_>, call: FileAddr) -> Option<(String, String)> {
    let mut line = program.line_at(call)?;
    let around = program.function_at(call)?;
    let function = program.function(around, &mut Types::default()).ok()?.full_name;
    let mut inlined = program.inlined_at(call).unwrap_or_default();
    while let Some(innermost) = inlined.pop() {
        if !is_binding_in_source(&innermost.full_name) {
            return Some((innermost.full_name, written(&line)));
        }
        line = innermost.call?;
    }
    Some((function, written(&line)))
}

fn written(place: &SourcePlace) -> String {
    format!("{}:{}", place.file.rsplit('/').next().unwrap_or(&place.file), place.line)
}

/// The first function of the program's own, or what is nearest to it.
pub(super) fn own(frames: &[CallFrame]) -> Option<&CallFrame> {
    frames.iter().find(|frame| frame.own).or_else(|| frames.last())
}
