//! Loops of the program by name: which one is meant, and how it is called in a report.
//!
//! A loop's line is the first of those of its header and of its ways back, because compilers give the test and the step of
//! a loop the line where it is written, and move what stands first in its body before them.
//!
//! Next: `selection`, which takes them in; `trimtab-x86`'s `loops`, which finds and numbers them.

use super::lines::Lines;
use super::naming::{matching, no_such_function, readable};
use crate::error::Error;
use crate::options::{LoopName, dotted};
use trimtab_session::{DebugFiles, DebugSections, Loop, Module, Modules, each_of};
use trimtab_symbols::Function;
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
    let lines = Lines::of(&sections);
    let numbers: Vec<Vec<u32>> = flow.loops.iter().map(|found| found.number.clone()).collect();
    let outermost: Vec<&Vec<u32>> = numbers.iter().filter(|number| number.len() == 1).collect();
    let number = match (&name.number, &outermost[..]) {
        (Some(number), _) if each_of(number).all(|one| numbers.iter().any(|known| known == one)) => number.clone(),
        (None, [only]) => (*only).clone(),
        _ => return Err(Error::NoLoop { what: what_it_has(name, &flow.loops, &lines), function: shown }),
    };
    let found = each_of(&number).next().and_then(|number| flow.loop_numbered(number));
    let place = LoopPlace {
        function: shown.clone(),
        number: dotted(&number),
        module: module.file_name().to_owned(),
        address: found.map_or_else(String::new, |found| format!("{:#x}", module.bias.to_file(found.header_at).0)),
        ..place_of(found.and_then(|found| line_of(found, &lines)))
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

/// Where a loop is written: file and line.
fn line_of(found: &Loop, lines: &Lines<'_>) -> Option<(String, u32)> {
    let header = lines.line_at(found.header_at);
    let backs: Vec<(String, u32)> = found.latches.iter().filter_map(|latch| lines.line_at(latch.from)).collect();
    let file = header.as_ref().or(backs.first())?.0.clone();
    let line = header.into_iter().chain(backs).filter(|(one, _)| *one == file).map(|(_, line)| line).min()?;
    Some((file, line))
}

/// The loops of a function in words.
fn what_it_has(name: &LoopName, loops: &[Loop], lines: &Lines<'_>) -> String {
    let listed = loops.iter().take(LISTED_MAX).map(|found| {
        let (number, source) = (dotted(&found.number), place_of(line_of(found, lines)).source());
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
