//! Facts of MPI: functions, volumes, libraries, ranks and names, as tables and pure functions; no I/O.
//!
//! | question | answer |
//! |---|---|
//! | which functions exist, what are they, what do they move? | [`catalogue()`], [`find()`], [`Accounting`] |
//! | how is a volume counted? | the conventions in [`accounting`] |
//! | which functions of the C library belong to `--group io`, `mem`, `sleep`? | [`group_functions()`] |
//! | which functions of OpenMP's runtimes belong to `--group omp`? | [`OMP_RUNTIME`], [`OMP_BODIES`] |
//! | which MPI library is mapped, and what do its handles look like? | [`Library::identify()`], [`HandleFacts`] |
//! | which rank is a process? | [`identify()`] |
//! | which function is `pmpi_send_`? | [`canonical()`], [`display_name()`] |
//!
//! The facts about handles hold for 64-bit Linux. They are checked against the headers of every MPI that is
//! installed where the tests run.
//!
//! Next: `catalogue/table.rs` is the table itself; `trimtab-track` finds the processes.
#![forbid(unsafe_code)]

pub mod accounting;
mod catalogue;
mod function;
mod groups;
mod identity;
mod library;
mod names;
mod omp;
mod prototype;

pub use accounting::{ABSENT, Accounting, AccountingKind, Counted};
pub use catalogue::{catalogue, find};
pub use function::{Class, Group, HandleKind, MpiFunction};
pub use groups::{ByteSource, LibcFunction, function_names, group_functions};
pub use identity::{Identity, identify, identify_all, identify_for};
pub use library::{
    DatatypeSizes, Family, HandleFacts, Library, LibraryFacts, Start, Topologies, WorldHandle, begins_mpi,
    is_mpi_module,
};
pub use names::{canonical, display_name, spellings};
pub use omp::{OMP_BODIES, OMP_GIVEN, OMP_RUNTIME, OmpPart, is_fragment_of_body, is_omp_runtime};
pub use prototype::prototype;
