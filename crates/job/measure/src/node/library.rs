//! Which MPI library a process has, and what the in-target routine must know about it.
//!
//! Next: `selection` names its functions; `team` stores the facts in each rank's header.

use memchr::memmem;
use std::sync::atomic::Ordering::Relaxed;
use trimtab_mpi::{DatatypeSizes, HandleFacts, Library, LibraryFacts, WorldHandle, is_mpi_module};
use trimtab_os::Memory;
use trimtab_session::{Module, Modules};
use trimtab_stub::layout::{Header, library};

/// Longest version text.
const TEXT_MAX: usize = 256;

/// The facts of a process about its MPI library.
struct Facts<'a> {
    modules: &'a Modules,
}

impl LibraryFacts for Facts<'_> {
    fn modules(&self) -> Vec<String> {
        self.modules.modules.iter().map(|module| module.path.clone()).collect()
    }

    fn defines(&self, symbol: &str) -> bool {
        self.modules.modules.iter().any(|module| {
            module.loaded.image.function_named(symbol).is_some() || module.loaded.image.object_named(symbol).is_some()
        })
    }

    fn text_at(&self, symbol: &str) -> Option<String> {
        let (module, address) = self.modules.modules.iter().find_map(|module| {
            let (address, _) = module.loaded.image.object_named(symbol)?;
            Some((module, address))
        })?;
        let offset = module.loaded.image.file_offset_of(address)? as usize;
        printable(module.loaded.file.bytes().get(offset..)?)
    }

    fn text_after(&self, prefix: &str) -> Option<String> {
        let candidates = self.modules.modules.iter().filter(|module| is_mpi_module(&module.path));
        let mut candidates: Vec<&Module> = candidates.collect();
        if candidates.is_empty() {
            candidates.extend(self.modules.modules.first());
        }
        candidates.into_iter().find_map(|module| {
            let bytes = module.loaded.file.bytes();
            let at = memmem::find(bytes, prefix.as_bytes())?;
            printable(bytes.get(at + prefix.len()..)?)
        })
    }
}

fn printable(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().take(TEXT_MAX).position(|byte| *byte < b' ').unwrap_or(0);
    std::str::from_utf8(&bytes[..end]).ok().filter(|text| !text.is_empty()).map(str::to_string)
}

/// The MPI library of a process; `None` if it has none.
pub fn describe_library(modules: &Modules) -> Option<Library> {
    Library::identify(&Facts { modules })
}

/// True if the program file at `path` has MPI linked in.
pub fn has_static_mpi(path: &std::path::Path) -> bool {
    let Ok(file) = trimtab_os::FileMapping::open(path) else { return false };
    let Ok(image) = trimtab_symbols::Image::parse(file.bytes()) else { return false };
    image.function_named("PMPI_Comm_rank").is_some()
}

/// Address of the library's own function, under its profiling name if it has one.
pub(crate) fn library_function(modules: &Modules, name: &str) -> Option<u64> {
    let profiling = format!("P{name}");
    [profiling.as_str(), name]
        .into_iter()
        .find_map(|name| modules.modules.iter().find_map(|module| module.function(name).map(|(_, address)| address.0)))
}

/// Tells the in-target routine how to read this library's handles; without it only calls and times are measured.
pub(crate) fn set_library(header: &Header, modules: &Modules, facts: Option<&HandleFacts>) {
    let Some(facts) = facts else { return };
    let address = |name: &str| library_function(modules, name).unwrap_or(0);
    let handle = |handle: WorldHandle| match handle {
        WorldHandle::Value(value) => value,
        // Asking about the wrong copy of it would end the program.
        WorldHandle::AddressOf(_) if !modules.has_program() => 0,
        WorldHandle::AddressOf(symbol) => modules.object(symbol).map_or(0, |address| address.0),
    };
    let world = handle(facts.comm_world);
    // Before the library is initialised it must not be asked about anything, and only it knows whether it is.
    let initialized = address("MPI_Initialized");
    if world == 0 || initialized == 0 {
        return;
    }
    header.initialized.store(initialized, Relaxed);
    header.finalized.store(address("MPI_Finalized"), Relaxed);
    header.comm_world.store(world, Relaxed);
    header.request_null.store(handle(facts.request_null), Relaxed);
    if let Some((over, mask)) = facts.request_over {
        header.request_over_mask.store(mask, Relaxed);
        header.request_over.store(handle(over), Relaxed);
    }
    header.any_source.store(i64::from(facts.any_source) as u64, Relaxed);
    header.status_source_plus_one.store(u64::from(facts.status_source_offset) + 1, Relaxed);
    header.in_place.store(facts.in_place, Relaxed);
    header.root.store(i64::from(facts.root) as u64, Relaxed);
    header.handle_mask.store(if facts.handle_bytes == 4 { 0xffff_ffff } else { u64::MAX }, Relaxed);
    for (word, name) in [
        (&header.type_size, "MPI_Type_size"),
        (&header.comm_size, "MPI_Comm_size"),
        (&header.comm_rank, "MPI_Comm_rank"),
        (&header.comm_group, "MPI_Comm_group"),
        (&header.comm_remote_group, "MPI_Comm_remote_group"),
        (&header.comm_test_inter, "MPI_Comm_test_inter"),
        (&header.group_size, "MPI_Group_size"),
        (&header.group_translate_ranks, "MPI_Group_translate_ranks"),
        (&header.group_free, "MPI_Group_free"),
        (&header.win_get_group, "MPI_Win_get_group"),
        (&header.topo_test, "MPI_Topo_test"),
        (&header.cartdim_get, "MPI_Cartdim_get"),
        (&header.cart_shift, "MPI_Cart_shift"),
        (&header.graph_neighbors_count, "MPI_Graph_neighbors_count"),
        (&header.graph_neighbors, "MPI_Graph_neighbors"),
        (&header.dist_graph_neighbors_count, "MPI_Dist_graph_neighbors_count"),
        (&header.dist_graph_neighbors, "MPI_Dist_graph_neighbors"),
    ] {
        word.store(address(name), Relaxed);
    }
    let topologies = facts.topologies.map_or([0; 3], |kinds| [kinds.grid, kinds.graph, kinds.distributed_graph]);
    for (word, kind) in header.topologies.iter().zip(topologies) {
        word.store(kind, Relaxed);
    }
    let kind = match facts.datatype_sizes {
        DatatypeSizes::MpichBits => library::MPICH,
        DatatypeSizes::AtOffset(_) | DatatypeSizes::AbiBits => library::OPEN_MPI,
    };
    header.type_size_offset.store(calibrated_offset(modules, facts), Relaxed);
    header.library.store(kind, Relaxed);
}

/// How sizes of datatypes are learnt in this very process; `None` if the library must be asked for each.
pub fn datatype_sizes(modules: &Modules, facts: &HandleFacts) -> Option<DatatypeSizes> {
    let memory = Memory::open(modules.pid).ok()?;
    let word = |symbol: &str, offset: u8| {
        let address = modules.object(symbol)?.0;
        memory.read_word(address + u64::from(offset)).ok()
    };
    facts.datatype_sizes.calibrated(word)
}

/// Where a datatype object keeps its size in this very build; 0: ask the library for each type.
fn calibrated_offset(modules: &Modules, facts: &HandleFacts) -> u64 {
    match datatype_sizes(modules, facts) {
        Some(DatatypeSizes::AtOffset(offset)) => u64::from(offset),
        _ => 0,
    }
}
