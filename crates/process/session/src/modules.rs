//! What is loaded in a process: its modules, their symbols and where they lie.
//!
//! Symbols of a file are read once: in memory for all processes of this run, on disk by build id for later runs.
//!
//! Next: `prepare` looks functions up here.

use crate::error::Error;
use crate::image_cache::{ImageCache, LoadedImage};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use trimtab_os::{FileMapping, Mapping, MappingTable};
use trimtab_symbols::Function;
use trimtab_types::{FileAddr, LoadBias, Pid, ProcAddr};

/// One loaded program or library.
#[derive(Clone, Debug)]
pub struct Module {
    /// Path as the process mapped it.
    pub path: String,
    /// Where it lies.
    pub bias: LoadBias,
    /// Its symbols and bytes.
    pub loaded: Arc<LoadedImage>,
    /// Addresses of its executable mappings, first to last.
    pub text: Range<u64>,
}

impl Module {
    /// The function of this name, and its address in the process.
    pub fn function(&self, name: &str) -> Option<(&Function, ProcAddr)> {
        let function = self.loaded.image.function_named(name)?;
        Some((function, self.bias.to_proc(function.addr)))
    }

    /// File name without its directory.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// In place of a process where there is only a file; the kernel gives this number to none that can be seen.
const NO_PROCESS: Pid = Pid(0);

/// The loaded modules of one process, executable first.
#[derive(Clone, Debug)]
pub struct Modules {
    /// The process.
    pub pid: Pid,
    /// All modules that could be read.
    pub modules: Vec<Module>,
    /// Mappings when they were read.
    pub maps: MappingTable,
    /// Modules that could not be read, with the reason.
    pub unreadable: Vec<(String, String)>,
}

impl Modules {
    /// Reads the modules of `pid` whose path `wanted` accepts.
    pub fn read(pid: Pid, cache: &ImageCache, wanted: &dyn Fn(&str) -> bool) -> Result<Self, Error> {
        check_own_memory(pid)?;
        let maps = MappingTable::of(pid)?;
        let mut modules = Vec::new();
        let mut unreadable = Vec::new();
        for group in module_mappings(&maps) {
            let path = &group[0].path;
            if !wanted(path) {
                continue;
            }
            match read_module(pid, &group, cache) {
                Ok(Some(module)) => modules.push(module),
                Ok(None) => {}
                Err(error) => unreadable.push((path.clone(), error.to_string())),
            }
        }
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let exe = exe.to_string_lossy().into_owned();
        modules.sort_by_key(|module| module.path != exe);
        Ok(Modules { pid, modules, maps, unreadable })
    }

    /// The module that a file would be, at the addresses it is linked for; no process runs it.
    ///
    /// # Errors
    /// [`Error`] if it can't be read or is no program or library.
    pub fn of_file(path: &Path, cache: &ImageCache) -> Result<Self, Error> {
        let loaded = cache.load_file(path)?;
        let executable = loaded.image.segments.iter().filter(|segment| segment.executable);
        let ends = executable.map(|segment| (segment.addr.0, segment.addr.0.saturating_add(segment.mem_size)));
        let text = ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))).unwrap_or_default();
        let path = path.display().to_string();
        let modules = vec![Module { path, bias: LoadBias(0), loaded, text: text.0..text.1 }];
        Ok(Modules { pid: NO_PROCESS, modules, maps: MappingTable::default(), unreadable: Vec::new() })
    }

    /// Whether these are the modules of a file, not of a process.
    pub fn is_of_file(&self) -> bool {
        self.pid == NO_PROCESS
    }

    /// The module that holds `address`.
    pub fn at(&self, address: ProcAddr) -> Option<&Module> {
        self.modules.iter().find(|module| module.text.contains(&address.0))
    }

    /// Address of a data object such as `ompi_mpi_comm_world`, in the first module that has it.
    pub fn object(&self, name: &str) -> Option<ProcAddr> {
        self.modules.iter().find_map(|module| {
            let (address, _) = module.loaded.image.object_named(name)?;
            Some(module.bias.to_proc(address))
        })
    }

    /// A short name for an address: `function+0x12`, or `module+0x1234` where no function is known. Symbols of the
    /// module are read now if they were not before.
    pub fn describe(&self, address: u64, cache: &ImageCache) -> String {
        let known = self.at(ProcAddr(address)).cloned().or_else(|| self.read_at(address, cache));
        let Some(module) = known else { return self.describe_mapping(address) };
        let file = module.bias.to_file(ProcAddr(address));
        match module.loaded.image.function_at(file) {
            Some(function) if !function.names.is_empty() => {
                format!("{}+{:#x}", function.name(), file.0 - function.addr.0)
            }
            _ => format!("{}+{:#x}", module.file_name(), file.0),
        }
    }

    /// The module at `address`, if its file can be read.
    fn read_at(&self, address: u64, cache: &ImageCache) -> Option<Module> {
        let path = &self.maps.at(address)?.path;
        let groups = module_mappings(&self.maps);
        let group = groups.iter().find(|group| group[0].path == *path)?;
        read_module(self.pid, group, cache).ok().flatten()
    }

    /// For files whose symbols can't be read.
    fn describe_mapping(&self, address: u64) -> String {
        match self.maps.at(address).filter(|mapping| mapping.inode != 0) {
            Some(mapping) => {
                let name = mapping.path.rsplit('/').next().unwrap_or(&mapping.path);
                format!("{name}+{:#x}", address - mapping.start + mapping.offset)
            }
            None => format!("{address:#x}"),
        }
    }
}

/// Names imported by the files that `pid` has mapped and whose path `wanted` accepts, each once.
///
/// A file that can't be read imports nothing as far as we know; `None` says that there was one.
pub fn imported_names(pid: Pid, maps: &MappingTable, wanted: &dyn Fn(&str) -> bool) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for group in module_mappings(maps).iter().filter(|group| wanted(&group[0].path)) {
        let path = format!("/proc/{pid}/root{}", group[0].path);
        let file = FileMapping::open(path.as_ref()).ok()?;
        names.extend(trimtab_symbols::imported_names(file.bytes()).ok()?);
    }
    Some(names)
}

/// Between `vfork` and `exec` a process has no memory of its own, and must not be touched.
pub(crate) fn check_own_memory(pid: Pid) -> Result<(), Error> {
    trimtab_os::parent_sharing_memory(pid).map_or(Ok(()), |parent| Err(Error::SharesMemory { pid, parent }))
}

/// Mappings of each file that has executable ones, in address order.
fn module_mappings(maps: &MappingTable) -> Vec<Vec<&Mapping>> {
    let mut groups: Vec<Vec<&Mapping>> = Vec::new();
    for mapping in maps.0.iter().filter(|mapping| mapping.inode != 0 && mapping.path.starts_with('/')) {
        match groups.iter_mut().find(|group| group[0].path == mapping.path && group[0].inode == mapping.inode) {
            Some(group) => group.push(mapping),
            None => groups.push(vec![mapping]),
        }
    }
    groups.retain(|group| group.iter().any(|mapping| mapping.executable));
    groups
}

fn read_module(pid: Pid, group: &[&Mapping], cache: &ImageCache) -> Result<Option<Module>, Error> {
    let first = group[0];
    if first.deleted {
        return Err(Error::Replaced { path: first.path.clone() });
    }
    let loaded = cache.load(pid, &first.path)?;
    let executable: Vec<_> = group.iter().filter(|mapping| mapping.executable).collect();
    let Some(text) = executable.first() else { return Ok(None) };
    let Some(bias) = bias_of(&loaded, text) else { return Ok(None) };
    let end = executable.iter().map(|mapping| mapping.end).max().unwrap_or(text.end);
    Ok(Some(Module { path: first.path.clone(), bias, loaded, text: text.start..end }))
}

/// From one executable mapping: which segment it shows, hence how far the file's addresses are displaced.
fn bias_of(loaded: &LoadedImage, mapping: &Mapping) -> Option<LoadBias> {
    let segment = loaded.image.segments.iter().find(|segment| {
        let first_page = segment.file_offset & !0xfff;
        segment.executable
            && mapping.offset >= first_page
            && mapping.offset < segment.file_offset + segment.file_size.max(1)
    })?;
    let address = FileAddr(segment.addr.0.wrapping_sub(segment.file_offset).wrapping_add(mapping.offset));
    Some(LoadBias(mapping.start.wrapping_sub(address.0)))
}
