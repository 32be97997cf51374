//! Loops of the program by name: which one is meant, and how it is called in a report.
//!
//! A loop's line is the first of those of its header and of its ways back, because compilers give the test and the step of
//! a loop the line where it is written, and move what stands first in its body before them. Lines of other files count only where there
//! are no others: they are of functions that were compiled into this one.
//!
//! Next: `selection`, which takes them in; `trimtab-x86`'s `loops`, which finds and numbers them.

use super::lines::Lines;
use super::naming::{matching, no_such_function, readable};
use crate::error::Error;
use crate::options::{LoopName, dotted};
use trimtab_session::{DebugFiles, DebugSections, Edge, Loop, Module, Modules, each_of};
use trimtab_symbols::Function;
use trimtab_types::ProcAddr;
use trimtab_types::report::LoopPlace;

/// Loops of a function that an error lists.
const LISTED_MAX: usize = 12;

/// A loop that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// File that holds its function.
    pub module: String,
    /// The function's symbol.
    pub function: String,
    /// Its number in the function.
    pub number: Vec<u32>,
    /// For people: `loop 2.1 of solve`.
    pub shown: String,
    /// The same for the report.
    pub place: LoopPlace,
}

/// The witness that is counted in place of a loop: the calls of a function, whose number is empty, or the entrances of the loop before
/// [`trimtab_session::ENTRANCES`].
///
/// # Errors
/// As [`find`].
pub(crate) fn witness(modules: &Modules, name: &str, number: &[u32]) -> Result<Found, Error> {
    let found = name.split_once('@').and_then(|(pattern, library)| by_address(modules, pattern, Some(library)));
    let (module, function) = found.ok_or_else(|| no_such_function(modules, name))?;
    let shown = readable(&function.name());
    let address = format!("{:#x}", function.addr.0);
    let place = LoopPlace { function: shown.clone(), module: module.file_name().to_owned(), address, ..place_of(None) };
    let shown = match number.split_last() {
        Some((_, number)) => format!("entrances of loop {} of {shown}", dotted(number)),
        None => format!("calls of {shown}"),
    };
    Ok(Found { module: module.path.clone(), function: function.address_name(), number: number.to_vec(), shown, place })
}

/// The loop of this name in a process.
///
/// # Errors
/// [`Error::NoSuchFunction`] and its like for the function; [`Error::NoLoop`] with the loops that there are, if there is no
/// such loop, or without a number not exactly one outermost loop; [`Error::Refused`] if the function can't be understood.
pub(crate) fn find(modules: &Modules, name: &LoopName) -> Result<Found, Error> {
    let (pattern, library) = match name.function.split_once('@') {
        Some((pattern, library)) => (pattern, Some(library)),
        None => (name.function.as_str(), None),
    };
    let by_address = by_address(modules, pattern, library);
    let found = by_address.map_or_else(|| matching(modules, pattern, library), |found| vec![found]);
    let Some((module, function)) = found.first() else { return Err(no_such_function(modules, &name.function)) };
    let symbol = if by_address.is_some() { pattern.to_owned() } else { function.name() };
    let shown = readable(&function.name());
    if found.len() > 1 {
        let names: Vec<String> = found.iter().take(LISTED_MAX).map(|(_, one)| readable(&one.name())).collect();
        let what = format!("{} meanings: {}; name one function", found.len(), names.join(", "));
        return Err(Error::NoLoop { function: name.function.clone(), what });
    }
    let flow = modules.control_flow(modules.code_of(module, function));
    let flow =
        flow.map_err(|reason| Error::Refused { name: format!("a loop of {shown}"), reason: reason.to_string() })?;
    let files = DebugFiles::of(modules);
    let sections = DebugSections::of(&files);
    let (lines, entry) = (Lines::of(&sections), module.bias.to_proc(function.addr));
    let numbers: Vec<Vec<u32>> = flow.loops.iter().map(|found| found.number.clone()).collect();
    let outermost: Vec<&Vec<u32>> = numbers.iter().filter(|number| number.len() == 1).collect();
    let number = match (&name.number, &outermost[..]) {
        (Some(number), _) if each_of(number).all(|one| numbers.iter().any(|known| known == one)) => number.clone(),
        (None, [only]) => (*only).clone(),
        _ => return Err(Error::NoLoop { what: what_it_has(name, &flow.loops, (entry, &lines)), function: shown }),
    };
    let found = each_of(&number).next().and_then(|number| flow.loop_numbered(number));
    let place = LoopPlace {
        function: shown.clone(),
        number: dotted(&number),
        module: module.file_name().to_owned(),
        address: found.map_or_else(String::new, |found| format!("{:#x}", module.bias.to_file(found.header_at).0)),
        ..place_of(found.and_then(|found| line_of(found, entry, &lines)))
    };
    let shown = format!("loop {} of {shown}", dotted(&number));
    Ok(Found { module: module.path.clone(), function: symbol, number, shown, place })
}

/// The function that `fn_0x1139` and the name of a file mean, whatever its symbols: several may have the same.
fn by_address<'m>(modules: &'m Modules, name: &str, library: Option<&str>) -> Option<(&'m Module, &'m Function)> {
    let module = modules.modules.iter().find(|module| Some(module.file_name()) == library)?;
    let function = module.loaded.image.function_named(name)?;
    (function.address_name() == name).then_some((module, function))
}

fn place_of(line: Option<(String, u32)>) -> LoopPlace {
    let (file, line) = line.unzip();
    LoopPlace { file, line, ..LoopPlace::default() }
}

/// Where a loop of the function that begins at `entry` is written: file and line.
fn line_of(found: &Loop, entry: ProcAddr, lines: &Lines<'_>) -> Option<(String, u32)> {
    let branches = |edges: &[Edge]| -> Vec<Line> { edges.iter().filter_map(|edge| lines.line_at(edge.from)).collect() };
    let around = lines.line_at(found.header_at).into_iter().chain(branches(&found.latches)).collect();
    let own_file = lines.line_at(entry).map(|(file, _)| file);
    first_line(&[around, branches(&found.exits)], own_file)
}

/// A file and a line in it.
type Line = (String, u32);

/// The first line in the function's own file, of the first of these that has one; else the first one in the file that comes first.
fn first_line(sets: &[Vec<Line>], own_file: Option<String>) -> Option<Line> {
    let first_in = |set: &Vec<Line>, file: &String| {
        let line = set.iter().filter(|(one, _)| one == file).map(|(_, line)| *line).min()?;
        Some((file.clone(), line))
    };
    let own = own_file.and_then(|file| sets.iter().find_map(|set| first_in(set, &file)));
    own.or_else(|| sets.iter().find_map(|set| first_in(set, &set.first()?.0)))
}

/// The loops of a function in words.
fn what_it_has(name: &LoopName, loops: &[Loop], (entry, lines): (ProcAddr, &Lines<'_>)) -> String {
    let listed = loops.iter().take(LISTED_MAX).map(|found| {
        let (number, source) = (dotted(&found.number), place_of(line_of(found, entry, lines)).source());
        source.map_or_else(|| number.clone(), |source| format!("{number} at {source}"))
    });
    let listed: Vec<String> = listed.collect();
    let more = if loops.len() > LISTED_MAX { format!(" and {} more", loops.len() - LISTED_MAX) } else { String::new() };
    match (&name.number, &listed[..]) {
        (_, []) => "no loop".to_owned(),
        (Some(number), _) => format!("no loop {}; it has {}{more}", dotted(number), listed.join(", ")),
        (None, _) => format!("several loops: {}{more}; choose one with --loop {}:N", listed.join(", "), name.function),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_functions_that_were_compiled_into_it_are_not_the_loop_s() {
        let lines =
            |all: &[(&str, u32)]| all.iter().map(|(file, line)| ((*file).to_owned(), *line)).collect::<Vec<_>>();
        let first = |around: &[(&str, u32)], exits: &[(&str, u32)], own: Option<&str>| {
            first_line(&[lines(around), lines(exits)], own.map(str::to_owned))
        };
        let line = |file: &str, line: u32| Some((file.to_owned(), line));
        assert_eq!(
            first(&[("vector.hpp", 58), ("main.cpp", 313), ("main.cpp", 311)], &[], Some("main.cpp")),
            line("main.cpp", 311)
        );
        // Of its way round nothing is of the file, but its test is.
        assert_eq!(first(&[("vector.hpp", 58)], &[("main.cpp", 310)], Some("main.cpp")), line("main.cpp", 310));
        assert_eq!(first(&[("a.h", 9), ("b.h", 2), ("a.h", 7)], &[("c.h", 1)], Some("main.cpp")), line("a.h", 7));
        assert_eq!(first(&[("a.h", 9)], &[], None), line("a.h", 9));
        assert_eq!(first(&[], &[], Some("main.cpp")), None);
    }
}
