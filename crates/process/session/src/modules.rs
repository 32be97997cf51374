//! The modules that are loaded in a process, their symbols and where they lie.
//!
//! Symbols of a file are read once: in memory for all processes of this run, on disk by build id for later runs. Modules
//! stand in the order in which the loader searches them, so that a name means here what it means there.
//!
//! Next: `prepare` looks functions up here.

use crate::emulated::emulator_of;
use crate::error::Error;
use crate::handlers::FaultHandlers;
use crate::image_cache::{ImageCache, LoadedImage};
use crate::link_map::{LinkMap, LoadOrder};
use crate::mapped::{check_own_memory, module_mappings};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use trimtab_os::{Mapping, MappingTable, Memory};
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
    /// Number of its file; two may have had the same path, one after the other.
    inode: u64,
    /// Its place in the loader's search; none if the loader does not know it.
    place: Option<LoadOrder>,
}

impl Module {
    /// The function of this name, and its address in the process.
    pub fn function(&self, name: &str) -> Option<(&Function, ProcAddr)> {
        let function = self.loaded.image.function_named(name)?;
        Some((function, self.bias.to_proc(function.addr)))
    }

    /// Number of the loader's namespace that it is in: 0, or another one if it came by `dlmopen`.
    pub fn namespace(&self) -> u32 {
        self.place.unwrap_or_default().namespace
    }

    /// File name without its directory.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// In place of a process where there is only a file; the kernel gives this number to none that can be seen.
const NO_PROCESS: Pid = Pid(0);

/// The loaded modules of one process, executable first, then as the loader searches them.
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
    /// C libraries that are not among the modules: threads may have to be held there that set a fault handler.
    pub(crate) c_libraries: Vec<Module>,
    /// The process's fault handlers, once that was asked.
    pub(crate) handlers: Arc<OnceLock<FaultHandlers>>,
    /// True if the first module is the program itself.
    has_program: bool,
    /// The program's file and why it could not be read, if that is so.
    program_unread: Option<(String, String)>,
}

impl Modules {
    /// Reads the modules of `pid` whose path `wanted` accepts.
    pub fn read(pid: Pid, cache: &ImageCache, wanted: &dyn Fn(&str) -> bool) -> Result<Self, Error> {
        Modules::among(pid, MappingTable::of(pid)?, cache, wanted)
    }

    /// As [`Modules::read`], in mappings that were read a moment ago.
    ///
    /// # Errors
    /// As [`Modules::read`].
    pub fn among(
        pid: Pid,
        maps: MappingTable,
        cache: &ImageCache,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        if let Some(emulator) = emulator_of(pid) {
            return Err(Error::Emulated { pid, emulator });
        }
        check_own_memory(pid)?;
        let (mut modules, mut c_libraries, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        let groups = module_mappings(&maps);
        for group in &groups {
            let is_wanted = wanted(&group[0].path);
            if !is_wanted && !is_c_library(&group[0].path) {
                continue;
            }
            match read_modules(pid, group, cache) {
                Ok(found) if is_wanted => modules.extend(found),
                Ok(found) => c_libraries.extend(found),
                // Where none is known, nothing relies on it.
                Err(_) if !is_wanted => {}
                // Generated code may lie in a file, too.
                Err(Error::Symbols { source: trimtab_symbols::Error::NotElf { .. }, .. }) => {}
                Err(error) => unread.push((group[0].inode, group[0].path.clone(), reason_of(&error))),
            }
        }
        let found = LinkMap::of(pid, &maps, loader_list(&modules));
        for module in &mut modules {
            let holds = |address: u64| maps.at(address).is_some_and(|mapping| mapping.inode == module.inode);
            module.place = found.place_of(module.bias.0, &holds);
        }
        let program = found.program_at.and_then(|at| maps.at(at)).map(|mapping| mapping.inode);
        let is_program = |module: &Module| Some(module.inode) == program;
        modules.sort_by_key(|module| (!is_program(module), module.place.is_none(), module.place));
        let has_program = modules.first().is_some_and(is_program);
        let of_program = unread.iter().find(|(inode, ..)| Some(*inode) == program);
        let program_unread = of_program.map(|(_, path, reason)| (path.clone(), reason.clone()));
        let unreadable = unread.into_iter().map(|(_, path, reason)| (path, reason)).collect();
        let handlers = Arc::default();
        Ok(Modules { pid, modules, maps, unreadable, c_libraries, handlers, has_program, program_unread })
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
        let modules = vec![Module { path, bias: LoadBias(0), loaded, text: text.0..text.1, inode: 0, place: None }];
        let (maps, unreadable, handlers) = (MappingTable::default(), Vec::new(), Arc::default());
        let (c_libraries, has_program, program_unread) = (Vec::new(), true, None);
        let pid = NO_PROCESS;
        Ok(Modules { pid, modules, maps, unreadable, c_libraries, handlers, has_program, program_unread })
    }

    /// Of the same process this one alone.
    pub(crate) fn only(&self, module: &Module) -> Modules {
        Modules { modules: vec![module.clone()], ..self.clone() }
    }

    /// True if these are the modules of a file, not of a process.
    pub fn is_of_file(&self) -> bool {
        self.pid == NO_PROCESS
    }

    /// The process's memory; none if these are the modules of a file.
    pub(crate) fn memory(&self) -> Result<Option<Memory>, Error> {
        if self.is_of_file() { Ok(None) } else { Ok(Some(Memory::open(self.pid)?)) }
    }

    /// The module that holds `address`.
    pub fn at(&self, address: ProcAddr) -> Option<&Module> {
        self.index_of(address).map(|index| &self.modules[index])
    }

    /// The module that holds `address`; it is read now if it was not before, and belongs to these from then on. None where
    /// no file lies, or one that can't be read.
    pub fn reach(&mut self, address: ProcAddr, cache: &ImageCache) -> Option<&Module> {
        let known = self.index_of(address);
        let index = known.or_else(|| {
            let read = self.read_at(address.0, cache)?;
            self.modules.push(read);
            Some(self.modules.len() - 1)
        });
        index.map(|index| &self.modules[index])
    }

    /// The number of the module that holds `address`.
    pub(crate) fn index_of(&self, address: ProcAddr) -> Option<usize> {
        self.modules.iter().position(|module| module.text.contains(&address.0))
    }

    /// True if the program's own file is among the modules. If not, its symbols are unknown, and what a library calls
    /// its own may be a copy that nobody uses: programs keep theirs (copy relocations).
    pub fn has_program(&self) -> bool {
        self.has_program
    }

    /// Why no plain name can be told to mean a function of a library: the program's own file could not be read, and might have
    /// one of that name.
    pub fn why_names_mean_nothing(&self) -> Option<String> {
        let (path, reason) = self.program_unread.as_ref()?;
        Some(format!(
            "the program itself ({path}) could not be read, and may have a function of that name: {reason}; name the library, \
             as in `NAME@LIBRARY`, to mean its function"
        ))
    }

    /// The loader's meaning of a plain name: in each namespace of loaded files the first definition, in the order of
    /// its search. The program's own functions come first, exported or not; of libraries those count that they export,
    /// unless none does.
    pub fn definitions<'m>(&'m self, name: &str) -> Vec<(&'m Module, &'m Function)> {
        if self.why_names_mean_nothing().is_some() {
            return Vec::new();
        }
        let meant = |module: &'m Module| {
            let found = module.loaded.image.functions_meant(name).into_iter();
            found.map(move |function| (module, function)).collect::<Vec<_>>()
        };
        let own = self.modules.first().filter(|_| self.has_program).map(meant).unwrap_or_default();
        let mut found = own;
        for module in &self.modules {
            if found.iter().any(|(known, _)| known.namespace() == module.namespace()) {
                continue;
            }
            found.extend(meant(module).into_iter().filter(|(_, function)| function.exported));
        }
        if !found.is_empty() {
            return found;
        }
        self.modules.iter().map(meant).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The first of [`Modules::definitions`]: the program's own calls run it.
    pub fn definition<'m>(&'m self, name: &str) -> Option<(&'m Module, &'m Function)> {
        self.definitions(name).into_iter().next()
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
        let found = read_modules(self.pid, group, cache).ok()?;
        found.into_iter().find(|module| module.text.contains(&address))
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

/// The loader's list for debuggers, as the loader itself exports it: a loader that was started as the program has no other.
fn loader_list(modules: &[Module]) -> Option<u64> {
    modules.iter().find_map(|module| {
        let (address, _) = module.loaded.image.object_named("_r_debug")?;
        Some(module.bias.to_proc(address).0)
    })
}

/// An error with its cause.
fn reason_of(error: &Error) -> String {
    match (error, std::error::Error::source(error)) {
        (Error::NoFile { reason, .. }, _) => reason.clone(),
        (Error::Os(_), _) | (_, None) => error.to_string(),
        (_, Some(source)) => source.to_string(),
    }
}

/// The file as the loader mapped it; twice, if it was loaded into two namespaces.
///
/// A program may map parts of a file once more (V8 does so with its built-in functions, to have them beside generated
/// code). Such a part is no module: it may lie anywhere, out of reach of the rest.
fn read_modules(pid: Pid, group: &[&Mapping], cache: &ImageCache) -> Result<Vec<Module>, Error> {
    let first = group[0];
    let loaded = cache.load_mapped(pid, group)?;
    let text = loaded.image.segments.iter().filter(|segment| segment.executable);
    let wanted: u64 = text.map(|segment| segment.file_size.max(1)).sum();
    let module = |(bias, text): (LoadBias, Range<u64>)| {
        let (path, loaded) = (first.path.clone(), loaded.clone());
        Module { path, bias, loaded, text, inode: first.inode, place: None }
    };
    Ok(loads(group, &|mapping| bias_of(&loaded, mapping), wanted).into_iter().map(module).collect())
}

/// Displacement and addresses of each load in `group`: executable mappings that are displaced alike and show at least
/// `wanted` bytes. If none is complete (a program may protect a part of its text differently), the largest is taken.
fn loads(
    group: &[&Mapping],
    bias_of: &dyn Fn(&Mapping) -> Option<LoadBias>,
    wanted: u64,
) -> Vec<(LoadBias, Range<u64>)> {
    let mut found: Vec<(LoadBias, Range<u64>, u64)> = Vec::new();
    for mapping in group.iter().filter(|mapping| mapping.executable) {
        let Some(bias) = bias_of(mapping) else { continue };
        match found.iter_mut().find(|(known, ..)| *known == bias) {
            Some((_, text, bytes)) => {
                text.end = text.end.max(mapping.end);
                *bytes += mapping.length();
            }
            None => found.push((bias, mapping.start..mapping.end, mapping.length())),
        }
    }
    let most = found.iter().map(|(.., bytes)| *bytes).max().unwrap_or_default().min(wanted);
    found.retain(|(.., bytes)| *bytes >= most);
    found.into_iter().map(|(bias, text, _)| (bias, text)).collect()
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

/// True if a file of this path may be a C library, by its name.
fn is_c_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["libc.so", "libc-", "libpthread", "ld-musl-", "libc.musl-"].iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_types::procfs::parse_maps;

    /// Text at file offset 0x1000, as a file whose addresses are its offsets has it.
    fn loads_of(text: &str, wanted: u64) -> Vec<(u64, Range<u64>)> {
        let maps = MappingTable(parse_maps(text.as_bytes()).expect("a map"));
        let bias = |mapping: &Mapping| Some(LoadBias(mapping.start.wrapping_sub(mapping.offset)));
        let groups = module_mappings(&maps);
        assert_eq!(groups.len(), 1, "one file");
        loads(&groups[0], &bias, wanted).into_iter().map(|(bias, text)| (bias.0, text)).collect()
    }

    #[test]
    fn a_part_that_the_program_mapped_again_is_no_module() {
        let text = "00400000-00401000 r--p 00000000 fe:00 77 /bin/app\n\
                    00401000-00409000 r-xp 00001000 fe:00 77 /bin/app\n\
                    7f0000000000-7f0000002000 r-xp 00003000 fe:00 77 /bin/app\n";
        assert_eq!(loads_of(text, 0x7800), [(0x40_0000, 0x40_1000..0x40_9000)]);
    }

    #[test]
    fn two_loads_are_two_modules_and_a_split_one_is_one() {
        let text = "7f0000001000-7f0000009000 r-xp 00001000 fe:00 77 /lib/a\n\
                    7f0000101000-7f0000102000 r-xp 00001000 fe:00 77 /lib/a\n\
                    7f0000102000-7f0000103000 rwxp 00002000 fe:00 77 /lib/a\n\
                    7f0000103000-7f0000109000 r-xp 00003000 fe:00 77 /lib/a\n";
        let base = 0x7f00_0000_0000;
        let expected = [0, 0x10_0000].map(|at| (base + at, base + at + 0x1000..base + at + 0x9000));
        assert_eq!(loads_of(text, 0x7800), expected);
        // Incomplete, but all there is.
        assert_eq!(loads_of(&text.lines().take(1).collect::<String>(), 0x9000).len(), 1);
    }
}
