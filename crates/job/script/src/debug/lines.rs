//! Source lines: which instructions of the process a line means.
//!
//! Next: `trimtab_symbols::dwarf::Program::code_of_line`.

use super::{DebugFacts, Opened};
use crate::no_place::NoPlace;
use trimtab_symbols::dwarf::{LinePlace, LookupError, SourcePlace};
use trimtab_types::ProcAddr;

/// Where code of a source line begins: once in each function, and in each inlined copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineSite {
    /// The first address of the function around.
    pub function: ProcAddr,
    /// The instruction.
    pub address: ProcAddr,
}

impl<'a> DebugFacts<'a> {
    /// The places that `file:line` means, by ascending address; in one library only, if it is named by the end of its file
    /// name.
    ///
    /// # Errors
    /// Why there is none, as a sentence: no such file, several files, no code from that line.
    pub(crate) fn line(&self, file: &str, line: u32, library: Option<&str>) -> Result<Vec<LineSite>, NoPlace> {
        let mut sites = Vec::new();
        let mut problems: Vec<LookupError> = Vec::new();
        let mut is_any_open = false;
        let is_meant =
            |opened: &&Opened<'a>| library.is_none_or(|library| opened.module.file_name().ends_with(library));
        for opened in self.all(None).filter(is_meant) {
            is_any_open = true;
            match opened.program.code_of_line(file, line) {
                Ok(code) => sites.extend(code.places.iter().filter_map(|place| site(opened, place))),
                Err(problem) => problems.push(problem),
            }
        }
        if !is_any_open {
            let part = library.map_or("no part of the program".to_owned(), |library| format!("no part of {library}"));
            return Err(NoPlace::NoDebugging { part });
        }
        if sites.is_empty() {
            return Err(says_most(file, problems).into());
        }
        sites.sort_unstable();
        sites.dedup();
        Ok(sites)
    }
}

impl DebugFacts<'_> {
    /// The source line that an instruction was made of, as `FILE:LINE` without folders.
    pub(crate) fn line_at(&self, address: ProcAddr) -> Option<String> {
        let opened = self.open_at(address)?;
        opened.program.line_at(opened.to_file(address)).map(|place| place_name(&place))
    }

    /// The source lines of a function's own code, as full name of the file and number.
    pub(crate) fn lines_of(&self, function: ProcAddr) -> Vec<(String, u32)> {
        let Some(opened) = self.open_at(function) else { return Vec::new() };
        let begin = opened.to_file(function);
        let found = opened.module.loaded.image.function_at(begin);
        found.map_or(Vec::new(), |found| opened.program.lines_in(begin..found.end()))
    }
}

/// Places of an inlined function that are named.
const COPIES_MAX: usize = 4;

impl DebugFacts<'_> {
    /// Where a function of this name was inlined, if it has no code of its own: a sentence that says what to probe instead.
    pub(crate) fn why_inlined(&self, name: &str) -> Option<String> {
        self.all(None).find_map(|opened| {
            let found = opened.program.functions_named(name).into_iter();
            let copies = found.filter_map(|id| opened.program.inlined_copies(id).ok()).flatten();
            let mut places: Vec<String> = copies.filter_map(|copy| copy.call).map(|call| place_name(&call)).collect();
            places.sort();
            places.dedup();
            let first = places.first()?.clone();
            let more = places.len().saturating_sub(COPIES_MAX);
            places.truncate(COPIES_MAX);
            let more = if more > 0 { format!(" and {more} other places") } else { String::new() };
            Some(format!(
                "the compiler has put its code into its callers (inlined it), at {}{more}; probe such a line: `at {first}`, or \
                 compile with -fno-inline",
                places.join(", ")
            ))
        })
    }
}

/// `FILE:LINE` as scripts take it.
fn place_name(place: &SourcePlace) -> String {
    let file = place.file.rsplit('/').next().unwrap_or(&place.file);
    format!("{file}:{}", place.line)
}

/// A place of a line in a function; code outside of every function is left out.
fn site(opened: &Opened<'_>, place: &LinePlace) -> Option<LineSite> {
    let types = &mut opened.types.borrow_mut();
    let described = place.function.and_then(|id| opened.program.function(id, types).ok()?.entry);
    let entry = described.or_else(|| Some(opened.module.loaded.image.function_at(place.addr)?.addr))?;
    let to_proc = |address| opened.module.bias.to_proc(address);
    Some(LineSite { function: to_proc(entry), address: to_proc(place.addr) })
}

/// The problem that says most; files that are alike are collected over all modules.
fn says_most(file: &str, problems: Vec<LookupError>) -> LookupError {
    let is_certain = |problem: &&LookupError| !matches!(problem, LookupError::NotFound { .. });
    if let Some(problem) = problems.iter().find(is_certain) {
        return problem.clone();
    }
    let all = problems.into_iter().flat_map(|problem| match problem {
        LookupError::NotFound { near, .. } => near,
        _ => Vec::new(),
    });
    LookupError::NotFound { what: "source file", name: file.to_string(), near: all.collect() }
}
