//! Where in the source a process's code is from: the lines, and the blocks around them.
//!
//! Next: `trimtab-x86`'s `copied`, which asks; `debug_files` for where debugging information lies.

use crate::debug_files::DebugSections;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use trimtab_symbols::dwarf::{Program, Scope};
use trimtab_types::ProcAddr;
use trimtab_x86::{CodeSource, SourceBlock, SourcePosition};

/// Debugging information of a process, of which each module's is opened when it is first asked.
pub(crate) struct Sources<'a> {
    sections: &'a DebugSections<'a>,
    programs: Vec<OnceCell<Option<Program<'a>>>>,
    known: RefCell<BTreeMap<ProcAddr, Option<CodeSource>>>,
}

impl<'a> Sources<'a> {
    /// Nothing is read yet.
    pub(crate) fn of(sections: &'a DebugSections<'a>) -> Self {
        let programs = sections.modules().iter().map(|_| OnceCell::new()).collect();
        Sources { sections, programs, known: RefCell::default() }
    }

    /// Where the instruction at an address of the process is from, if that is known.
    pub(crate) fn at(&self, address: ProcAddr) -> Option<CodeSource> {
        if let Some(known) = self.known.borrow().get(&address) {
            return known.clone();
        }
        let found = self.read(address);
        self.known.borrow_mut().insert(address, found.clone());
        found
    }

    fn read(&self, address: ProcAddr) -> Option<CodeSource> {
        let at = self.sections.modules().iter().position(|module| module.text.contains(&address.0))?;
        let program = self.programs[at].get_or_init(|| Some(Program::open(self.sections.get(at)?))).as_ref()?;
        let address = self.sections.modules()[at].bias.to_file(address);
        let place = program.line_at(address).filter(|place| place.line > 0)?;
        let position = SourcePosition { file: place.file, line: place.line, column: place.column };
        Some(CodeSource { blocks: program.scopes_at(address)?.into_iter().map(block).collect(), position })
    }
}

fn block(scope: Scope) -> SourceBlock {
    let variables = scope.variables.into_iter().map(|place| (place.file, place.line)).collect();
    SourceBlock { id: scope.id, is_inlined: scope.is_inlined, variables }
}
