//! Source lines of a process's instructions, where its files have debugging information.
//!
//! Next: `trimtab-session`'s `debug_files` for where that lies.

use std::cell::OnceCell;
use trimtab_session::DebugSections;
use trimtab_symbols::dwarf::Program;
use trimtab_types::ProcAddr;

/// The source lines of one process.
pub(crate) struct Lines<'a> {
    sections: &'a DebugSections<'a>,
    programs: Vec<OnceCell<Option<Program<'a>>>>,
}

impl<'a> Lines<'a> {
    /// Nothing is read yet.
    pub(crate) fn of(sections: &'a DebugSections<'a>) -> Self {
        Lines { sections, programs: sections.modules().iter().map(|_| OnceCell::new()).collect() }
    }

    /// File (as the compiler was given it) and line that the instruction at `address` was made from.
    pub(crate) fn line_at(&self, address: ProcAddr) -> Option<(String, u32)> {
        let at = self.sections.modules().iter().position(|module| module.text.contains(&address.0))?;
        let program = self.programs[at].get_or_init(|| Some(Program::open(self.sections.get(at)?)));
        let place = program.as_ref()?.line_at(self.sections.modules()[at].bias.to_file(address))?;
        (place.line > 0).then_some((place.file, place.line))
    }
}
