//! The facts of a process in its debugging information (DWARF): signatures, variables, types and source lines, in the
//! probe language's terms.
//!
//! Debugging information of a module is opened at the first question about it, from the module's own file or from a
//! separate debug file with the same build id. Nothing here guesses: what the compiler does not say for certain is
//! [`Location::Gone`] with the reason, and what has several meanings is said to.
//!
//! A reader borrows from the owner of the bytes: [`DebugFiles`], then [`DebugSections`], then [`DebugFacts`].
//!
//! Next: `functions`, `globals`, `kinds` and `lines` for the questions; `places` for where values are.
//!
//! [`Location::Gone`]: trimtab_snippet::facts::Location::Gone

mod functions;
mod globals;
mod kinds;
mod lines;
mod places;
#[cfg(test)]
mod tests;

use std::cell::{OnceCell, RefCell};
use trimtab_session::Module;
pub(crate) use trimtab_session::{DebugFiles, DebugSections};
use trimtab_symbols::dwarf::{Program, TypeId, Types};
use trimtab_types::{FileAddr, ProcAddr};

/// One module with debugging information.
struct Opened<'a> {
    /// Its number among the modules.
    at: usize,
    module: &'a Module,
    program: Program<'a>,
    types: RefCell<Types>,
}

impl Opened<'_> {
    fn to_file(&self, address: ProcAddr) -> FileAddr {
        self.module.bias.to_file(address)
    }
}

/// The facts in the debugging information of one process.
pub(crate) struct DebugFacts<'a> {
    modules: &'a [Module],
    sections: &'a DebugSections<'a>,
    opened: Vec<OnceCell<Option<Opened<'a>>>>,
    /// Structs that were handed out, by number: module, and type in it.
    structs: RefCell<Vec<(usize, TypeId)>>,
}

impl<'a> DebugFacts<'a> {
    pub(crate) fn new(sections: &'a DebugSections<'a>) -> Self {
        let modules = sections.modules();
        let opened = modules.iter().map(|_| OnceCell::new()).collect();
        DebugFacts { modules, sections, opened, structs: RefCell::default() }
    }

    /// A module, if it has debugging information.
    fn open(&self, at: usize) -> Option<&Opened<'a>> {
        let opened = self.opened[at].get_or_init(|| {
            let program = Program::open(self.sections.get(at)?);
            Some(Opened { at, module: &self.modules[at], program, types: RefCell::default() })
        });
        opened.as_ref()
    }

    /// The module that holds an address, if it has debugging information.
    fn open_at(&self, address: ProcAddr) -> Option<&Opened<'a>> {
        self.open(self.modules.iter().position(|module| module.text.contains(&address.0))?)
    }

    /// All modules with debugging information: the one that holds `first`, then as they were loaded.
    fn all(&self, first: Option<ProcAddr>) -> impl Iterator<Item = &Opened<'a>> {
        let first = first.and_then(|address| self.modules.iter().position(|module| module.text.contains(&address.0)));
        let others = (0..self.modules.len()).filter(move |at| Some(*at) != first);
        first.into_iter().chain(others).filter_map(|at| self.open(at))
    }
}
