//! How far is a process with `MPI_Init`? Told from outside: nothing runs in the process for it.
//!
//! Open MPI keeps a word for it under an exported name. Other libraries have a variable of their own, and a function that
//! reads it (`MPI_Initialized`), whose few instructions are interpreted over the process's memory. So it is the library that
//! answers, whatever its version. It takes some dozens of short reads.
//!
//! Next: `job/member.rs`, which decides by it whether a process is a rank.

use std::path::Path;
use trimtab_mpi::{Start, begins_mpi, is_mpi_module};
use trimtab_symbols::{MappedModule, ReadMemory};
use trimtab_types::ProcAddr;
use trimtab_types::procfs::Mapping;
use trimtab_x86::evaluate_cell;

/// The furthest that any of the process's MPI libraries says; `None` if none says anything.
pub(crate) fn start(read: ReadMemory, maps: &[Mapping]) -> Option<Start> {
    let libraries = modules(maps).filter(|(path, _)| is_mpi_module(path));
    let starts = libraries.filter_map(|(_, start)| start_in(read, &MappedModule::at(read, start)?));
    starts.max_by_key(|start| match start {
        Start::Before => 0,
        Start::Within => 1,
        Start::Behind => 2,
    })
}

/// True if a module asks for a function that begins MPI: the program, or a library that was not forced on it by
/// `LD_PRELOAD` and does not stand between the program and MPI, as tools do.
pub(crate) fn asks_for_mpi(read: ReadMemory, maps: &[Mapping], preloaded: &[String]) -> bool {
    let others = modules(maps).filter(|(path, _)| !is_mpi_module(path));
    others.into_iter().any(|(path, start)| {
        MappedModule::at(read, start).is_some_and(|module| asks(&module) && !is_preloaded(&path, &module, preloaded))
    })
}

fn start_in(read: ReadMemory, library: &MappedModule) -> Option<Start> {
    let lowest = |name: &str| read(library.defined(name)?, 1)?.first().copied();
    Start::of(Start::WORDS.map(lowest)).or_else(|| {
        let function = Start::FUNCTIONS.iter().find_map(|name| library.defined(name))?;
        let is_initialized = evaluate_cell(read, function)? != 0;
        Some(if is_initialized { Start::Behind } else { Start::Before })
    })
}

fn asks(module: &MappedModule) -> bool {
    let defines = || ["MPI_Init", "MPI_Init_thread"].iter().any(|name| module.defined(name).is_some());
    module.imports().iter().any(|name| begins_mpi(name)) && !defines()
}

fn is_preloaded(path: &str, module: &MappedModule, preloaded: &[String]) -> bool {
    let file = |path: &str| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let names = [file(path), module.soname()];
    preloaded.iter().filter_map(|entry| file(entry)).any(|entry| names.contains(&Some(entry)))
}

/// Path and beginning of each mapped file.
pub(crate) fn modules(maps: &[Mapping]) -> impl Iterator<Item = (String, ProcAddr)> {
    let first = maps.iter().filter(|mapping| mapping.is_file() && mapping.offset == 0 && mapping.readable);
    let mut found: Vec<(String, ProcAddr)> =
        first.map(|mapping| (mapping.path.clone(), ProcAddr(mapping.start))).collect();
    found.dedup_by(|next, first| next.0 == first.0);
    found.into_iter()
}
