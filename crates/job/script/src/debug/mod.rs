//! What debugging information (DWARF) says about a process: signatures, variables, types and source lines, in the
//! probe language's terms.
//!
//! Debugging information of a module is opened at the first question about it, from the module's own file or from a
//! separate debug file with the same build id. Nothing here guesses: what the compiler does not say for certain is
//! [`Location::Gone`] with the reason, and what has several meanings is said to.
//!
//! Who is asked borrows from who holds the bytes: [`DebugFiles`], then [`DebugSections`], then [`DebugFacts`].
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
use std::path::{Path, PathBuf};
use trimtab_os::FileMapping;
use trimtab_session::{Module, Modules};
use trimtab_snippet::types::{Struct, StructId};
use trimtab_symbols::dwarf::{Program, Sections, TypeId, Types};
use trimtab_types::{FileAddr, Pid, ProcAddr};

/// Where debug files lie, by build id or by name.
const DEBUG_DIRECTORY: &str = "/usr/lib/debug";

/// Separate debug files of a process's modules, each opened when it is first needed.
pub(crate) struct DebugFiles<'a> {
    pid: Pid,
    modules: &'a [Module],
    separate: Vec<OnceCell<Vec<FileMapping>>>,
}

impl<'a> DebugFiles<'a> {
    pub(crate) fn of(modules: &'a Modules) -> Self {
        let separate = modules.modules.iter().map(|_| OnceCell::new()).collect();
        DebugFiles { pid: modules.pid, modules: &modules.modules, separate }
    }

    /// Files that may hold a module's debugging information, the likeliest first.
    fn separate(&self, at: usize) -> &[FileMapping] {
        self.separate[at].get_or_init(|| {
            let names = debug_file_names(&self.modules[at]);
            // As the process sees it, then as we do: a container may come without debug files.
            let rooted = |name: &PathBuf| PathBuf::from(format!("/proc/{}/root{}", self.pid, name.display()));
            let both = names.iter().flat_map(|name| [rooted(name), name.clone()]);
            both.filter_map(|path| FileMapping::open(&path).ok()).collect()
        })
    }
}

fn debug_file_names(module: &Module) -> Vec<PathBuf> {
    let image = &module.loaded.image;
    let id = &image.build_id.0;
    let mut names = Vec::new();
    if is_hexadecimal(id) {
        names.push(Path::new(DEBUG_DIRECTORY).join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..])));
    }
    if is_hexadecimal(id) {
        names.extend(debuginfod_cache().map(|cache| cache.join(id).join("debuginfo")));
    }
    if let (Some(link), Some(directory)) = (&image.debug_link, Path::new(&module.path).parent()) {
        names.push(directory.join(link));
        names.push(directory.join(".debug").join(link));
        names.push(Path::new(&format!("{DEBUG_DIRECTORY}{}", directory.display())).join(link));
    }
    names.retain(|name| *name != Path::new(&module.path));
    names
}

/// Whether it is a build id; a file without one has another name.
fn is_hexadecimal(id: &str) -> bool {
    id.len() > 2 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Where debuginfod's client keeps what it has fetched for gdb and others.
fn debuginfod_cache() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let of_user = || folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
    folder("DEBUGINFOD_CACHE_PATH").or_else(|| of_user().map(|cache| cache.join("debuginfod_client")))
}

/// Debugging sections of a process's modules, each unpacked when it is first needed.
pub(crate) struct DebugSections<'a> {
    files: &'a DebugFiles<'a>,
    sections: Vec<OnceCell<Option<Sections<'a>>>>,
}

impl<'a> DebugSections<'a> {
    pub(crate) fn of(files: &'a DebugFiles<'a>) -> Self {
        DebugSections { files, sections: files.modules.iter().map(|_| OnceCell::new()).collect() }
    }

    fn get(&self, at: usize) -> Option<&Sections<'a>> {
        let found = self.sections[at].get_or_init(|| {
            let loaded = &self.files.modules[at].loaded;
            let own = Sections::of(loaded.file.bytes()).ok().filter(|sections| !sections.is_empty());
            let of_file = |file: &'a FileMapping| Sections::of_debug_file(file.bytes(), &loaded.image).ok();
            let mut separate = self.files.separate(at).iter().filter_map(of_file);
            own.or_else(|| separate.find(|sections| !sections.is_empty()))
        });
        found.as_ref()
    }
}

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

/// What debugging information says about one process.
pub(crate) struct DebugFacts<'a> {
    modules: &'a [Module],
    sections: &'a DebugSections<'a>,
    opened: Vec<OnceCell<Option<Opened<'a>>>>,
    /// Structs that were handed out, by number: module, and type in it.
    structs: RefCell<Vec<(usize, TypeId)>>,
}

impl<'a> DebugFacts<'a> {
    pub(crate) fn new(sections: &'a DebugSections<'a>) -> Self {
        let modules = sections.files.modules;
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

    /// A struct by its number.
    pub(crate) fn structure(&self, id: StructId) -> Option<Struct> {
        let (at, type_id) = *self.structs.borrow().get(id.0 as usize)?;
        kinds::structure(self, self.open(at)?, type_id)
    }
}
