//! Functions by name: the ones a name or pattern means, and names as people read them.
//!
//! Next: `selection`, which measures them; `loops`, which looks for their loops.

use crate::error::Error;
use trimtab_session::{Module, Modules};
use trimtab_symbols::Function;

/// Most functions one pattern may match.
const PATTERN_MATCHES_MAX: usize = 10_000;

/// The functions that a pattern means: a plain name what the loader would find, any other one all that match.
pub(super) fn matching<'m>(modules: &'m Modules, name: &str, library: Option<&str>) -> Vec<(&'m Module, &'m Function)> {
    let is_glob = name.contains(['*', '?']);
    if library.is_none() && (!is_glob || name.contains('(')) {
        let found = modules.definitions(name);
        if !found.is_empty() || !is_glob {
            return found;
        }
    }
    let in_library = |module: &&Module| library.is_none_or(|library| module.file_name().contains(library));
    let of = |module: &'m Module| {
        let found = module.loaded.image.functions_matching(name).into_iter().take(PATTERN_MATCHES_MAX);
        found.map(move |function| (module, function))
    };
    modules.modules.iter().filter(in_library).flat_map(of).collect()
}

pub(super) fn no_such_function(modules: &Modules, pattern: &str) -> Error {
    let (pattern, pid) = (pattern.to_string(), modules.pid);
    if let Some(reason) = modules.why_names_mean_nothing() {
        return Error::Refused { name: pattern, reason };
    }
    match modules.unreadable.first().cloned() {
        Some((path, reason)) => Error::NotLookedAt { pattern, path, reason },
        None => Error::NoSuchFunction { pattern, pid },
    }
}

/// A C++ name as its author wrote it; other names as they are.
pub(crate) fn readable(name: &str) -> String {
    let mangled = name.starts_with("_Z");
    let symbol = mangled.then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_string())
}

/// True if a function has no name but one made of its address in the file.
pub(super) fn is_of_address(name: &str) -> bool {
    name.starts_with("fn_0x")
}
