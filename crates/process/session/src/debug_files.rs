//! Where the debugging information of a process's modules lies: in their own files, or in separate ones with the same
//! build id, each opened when it is first needed.
//!
//! A reader borrows from the owner of the bytes: [`DebugFiles`], then [`DebugSections`].
//!
//! Next: `trimtab_symbols::dwarf`, which reads them.

use crate::modules::{Module, Modules};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use trimtab_os::FileMapping;
use trimtab_symbols::dwarf::Sections;
use trimtab_types::Pid;

/// Where debug files lie, by build id or by name.
const DEBUG_DIRECTORY: &str = "/usr/lib/debug";

/// Separate debug files of a process's modules, each opened when it is first needed.
#[derive(Debug)]
pub struct DebugFiles<'a> {
    pid: Pid,
    modules: &'a [Module],
    separate: Vec<OnceCell<Vec<FileMapping>>>,
}

impl<'a> DebugFiles<'a> {
    /// Of all modules; no file is opened yet.
    pub fn of(modules: &'a Modules) -> Self {
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

/// True if it is a build id; a file without one has another name.
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
#[derive(Debug)]
pub struct DebugSections<'a> {
    files: &'a DebugFiles<'a>,
    sections: Vec<OnceCell<Option<Sections<'a>>>>,
}

impl<'a> DebugSections<'a> {
    /// Of all modules; nothing is unpacked yet.
    pub fn of(files: &'a DebugFiles<'a>) -> Self {
        DebugSections { files, sections: files.modules.iter().map(|_| OnceCell::new()).collect() }
    }

    /// The modules, in the order of their numbers.
    pub fn modules(&self) -> &'a [Module] {
        self.files.modules
    }

    /// Those of the module with this number, if it has debugging information.
    pub fn get(&self, at: usize) -> Option<&Sections<'a>> {
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
