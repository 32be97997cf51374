//! Which functions are measured: groups, names and patterns to addresses and probes.
//!
//! All names of one address are one function, also names of indirect functions for which this process runs the same
//! code. MPI functions are taken where the library itself defines them, so that C, C++ and Fortran callers, and calls
//! through a preloaded profiler, meet in one place and are counted once.
//!
//! Next: `team` hands the requests to each rank's session.

use super::library::library_function;
use super::loops;
use super::naming::{is_of_address, matching, no_such_function, readable};
use crate::error::Error;
use crate::options::{LoopName, Mark, Options};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_mpi::is_mpi_module;
use trimtab_mpi::{
    Accounting, AccountingKind, ByteSource, Class, Counted, Group, HandleKind, MpiFunction, catalogue, group_functions,
};
use trimtab_session::{
    ENTRANCES, FunctionRequest, ImageCache, LoopRequest, Module, Modules, Prepared, Refused, TailExit,
};
use trimtab_stub::layout::{ABSENT, OMP_GROUP, Probe, USER_GROUP, flag, kind, requests, role};
use trimtab_symbols::Function;
use trimtab_types::report::{FunctionGroup, MarkerSource};
use trimtab_types::{FileAddr, Pid, ProcAddr};
use trimtab_window::FunctionInfo;

/// The groups by their numbers in probes. Loops whose passes are counted have none: no time is measured of them.
pub(crate) const PROBE_GROUPS: [FunctionGroup; 6] = [
    FunctionGroup::Comm,
    FunctionGroup::Io,
    FunctionGroup::Mem,
    FunctionGroup::Sleep,
    FunctionGroup::User,
    FunctionGroup::Omp,
];
const _: () = assert!(matches!(PROBE_GROUPS[COMM as usize], FunctionGroup::Comm));
const _: () = assert!(matches!(PROBE_GROUPS[USER_GROUP as usize], FunctionGroup::User));
const _: () = assert!(matches!(PROBE_GROUPS[OMP_GROUP as usize], FunctionGroup::Omp));
pub(super) const COMM: u8 = 0;
/// Functions that mark iterations wherever a program has them (Fortran adds an underscore).
const MARKER_NAMES: [&str; 2] = ["measuremark", "measuremark_"];

/// The functions of one window, the same on every rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// The functions as the report has them.
    pub functions: Vec<FunctionInfo>,
    /// Their probes, `Probe::function` being the position in `functions`.
    pub probes: Vec<Probe>,
    /// Synchronising collectives, polling functions: by position.
    pub synchronising: Vec<bool>,
    /// Functions of which a program makes now more calls, now fewer, for the same work.
    pub polling: Vec<u32>,
    /// How each function is found in a process.
    places: Vec<ChosenPlace>,
    /// Which function the code at an address is, in the processes that were looked at.
    known: BTreeMap<(Pid, u64), usize>,
    /// MPI functions the program's files import; `None`: not known, measure all.
    imported: Option<BTreeSet<&'static str>>,
    /// Position of the marker and how it was chosen, if it is a function of the program.
    pub marker: Option<(usize, MarkerSource)>,
    /// Which functions are not those of the C library.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) enum ChosenPlace {
    Mpi(&'static str),
    Symbol {
        module: String,
        name: String,
    },
    /// A loop of a function that is found in this way.
    Loop {
        module: String,
        name: String,
        number: Vec<u32>,
    },
}

impl Selection {
    /// Chooses the functions, looking at one rank of each program that the job runs (several, if it was started as
    /// `mpirun ./one : ./other`). A function that any of them has is chosen.
    pub(crate) fn new(programs: &[&Modules], options: &Options, cache: &ImageCache) -> Result<Self, Error> {
        let mut selection = Selection { imported: imported_by_any(programs, cache), ..Selection::default() };
        // Files of MPI are communication where that is measured, whatever comes first.
        let has_comm = options.groups.iter().any(|group| matches!(group, Group::Comm | Group::All));
        for group in &options.groups {
            programs.iter().for_each(|modules| selection.add_group(modules, *group));
            if *group == Group::Omp {
                selection.add_regions(programs, cache);
            }
            if *group == Group::Io && !has_comm {
                programs.iter().for_each(|modules| selection.add_mpi_files(modules));
            }
        }
        for pattern in &options.functions {
            in_any(programs, |modules| selection.add_pattern(modules, pattern))?;
        }
        in_any(programs, |modules| selection.choose_marker(modules, &options.mark))?;
        for name in &options.loops {
            in_any(programs, |modules| selection.add_loop(modules, name).map(drop))?;
        }
        for (name, index) in &options.arguments {
            in_any(programs, |modules| selection.ask_argument(modules, name, *index))?;
        }
        selection.warnings.sort();
        selection.warnings.dedup();
        Ok(selection)
    }

    /// Functions the user named that a rank does not have, by their names.
    pub(crate) fn lacking(&self, modules: &Modules) -> Vec<&str> {
        let is_asked = |(function, place): &(&FunctionInfo, &ChosenPlace)| {
            matches!(function.group, FunctionGroup::User | FunctionGroup::Loop) && place.address(modules).is_none()
        };
        let all = self.functions.iter().zip(&self.places);
        all.filter(is_asked).map(|(function, _)| function.name.as_str()).collect()
    }

    /// Where a function lies in a process.
    pub(super) fn address(&self, modules: &Modules, function: usize) -> Option<ProcAddr> {
        self.places[function].address(modules)
    }

    /// Requests for one rank.
    pub(crate) fn requests(&self, modules: &Modules) -> Vec<FunctionRequest> {
        let functions = self.places.iter().enumerate().filter(|(_, place)| !matches!(place, ChosenPlace::Loop { .. }));
        let found = functions.filter_map(|(index, place)| {
            let address = place.address(modules)?;
            let name = self.functions[index].name.clone();
            Some(FunctionRequest { name, address, work: self.probes[index].into() })
        });
        found.collect()
    }

    /// Requests for the loops of one rank.
    pub(crate) fn loop_requests(&self, modules: &Modules) -> Vec<LoopRequest> {
        let found = self.places.iter().enumerate().filter_map(|(index, place)| {
            let ChosenPlace::Loop { number, .. } = place else { return None };
            let (function, number) = (place.address(modules)?, number.clone());
            Some(LoopRequest { name: self.functions[index].name.clone(), function, number, probe: self.probes[index] })
        });
        found.collect()
    }

    /// Adds a function, unless it is there already: by this name, or by another one of the same code, which would be
    /// patched only once and so show no call of the second.
    pub(super) fn add(&mut self, modules: &Modules, info: FunctionInfo, mut probe: Probe, place: ChosenPlace) -> usize {
        if let Some(known) =
            self.functions.iter().position(|known| known.name == info.name && known.group == info.group)
        {
            return known;
        }
        if let Some(address) = place.address(modules).filter(|_| !matches!(place, ChosenPlace::Loop { .. })) {
            if let Some(&known) = self.known.get(&(modules.pid, address.0)) {
                self.add_name(known, info.name, place);
                return known;
            }
            self.known.insert((modules.pid, address.0), self.functions.len());
        }
        probe.function = self.functions.len() as u32;
        self.synchronising.push(probe.flags & flag::SYNCHRONISING != 0);
        self.functions.push(info);
        self.probes.push(probe);
        self.places.push(place);
        self.functions.len() - 1
    }

    /// One more name for a function. A real one is shown rather than one made of an address.
    fn add_name(&mut self, known: usize, mut name: String, place: ChosenPlace) {
        let function = &mut self.functions[known];
        if function.group == FunctionGroup::User && is_of_address(&function.name) && !is_of_address(&name) {
            std::mem::swap(&mut function.name, &mut name);
            self.places[known] = place;
        }
        if function.name != name && !function.other_names.contains(&name) {
            function.other_names.push(name);
        }
    }

    fn add_group(&mut self, modules: &Modules, group: Group) {
        if matches!(group, Group::Comm | Group::All) {
            for function in catalogue().iter().filter(|f| f.is_in(Group::Comm) || f.invalidates.is_some()) {
                let is_used = self.imported.as_ref().is_none_or(|imported| imported.contains(function.name));
                if is_used && function.class != Class::Local && library_function(modules, function.name).is_some() {
                    self.add_mpi(modules, function, COMM);
                }
            }
            self.add_handle_frees(modules, COMM);
        }
        self.add_library_group(modules, group);
    }

    /// Calls of MPI's files as input and output; what the C library does for them lies inside of them.
    fn add_mpi_files(&mut self, modules: &Modules) {
        let known = self.functions.len();
        for function in catalogue().iter().filter(|function| function.is_in(Group::Io)) {
            let is_used = self.imported.as_ref().is_none_or(|imported| imported.contains(function.name));
            if is_used && library_function(modules, function.name).is_some() {
                self.add_mpi(modules, function, group_number(Group::Io));
            }
        }
        // Their payload is known by datatypes.
        if self.functions.len() > known {
            self.add_handle_frees(modules, group_number(Group::Io));
        }
    }

    /// Functions of the C library, or of what stands before it: the program's calls run the definition that is found first.
    fn add_library_group(&mut self, modules: &Modules, group: Group) {
        let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for function in group_functions(group) {
            let Some((module, _)) = modules.definition(function.name) else { continue };
            if !is_c_library(module) {
                before.entry(module.file_name()).or_default().push(function.name);
            }
            let number = group_number(function.group);
            let probe = libc_probe(number, function.bytes);
            let info = FunctionInfo {
                name: function.name.to_string(),
                group: PROBE_GROUPS[number as usize],
                timed: true,
                moves_bytes: probe.kind != kind::NONE,
                ..FunctionInfo::default()
            };
            self.add(
                modules,
                info,
                probe,
                ChosenPlace::Symbol { module: module.path.clone(), name: function.name.to_string() },
            );
        }
        let said = |(module, names): (&str, Vec<&str>)| {
            format!(
                "{} of {module} are measured, not the C library's: the program's calls find them first",
                names.join(", ")
            )
        };
        self.warnings.extend(before.into_iter().map(|(module, names)| said((module, names))));
    }

    fn add_mpi(&mut self, modules: &Modules, function: &'static MpiFunction, group: u8) -> usize {
        let probe = Probe { group, ..mpi_probe(function) };
        let info = FunctionInfo {
            name: function.name.to_string(),
            group: PROBE_GROUPS[group as usize],
            timed: true,
            moves_bytes: ![kind::NONE, kind::SEND_INIT, kind::RECEIVE_INIT].contains(&probe.kind),
            ..FunctionInfo::default()
        };
        let index = self.add(modules, info, probe, ChosenPlace::Mpi(function.name));
        if does_poll(function) || comes_in_parts(function) {
            self.polling.push(index as u32);
        }
        index
    }

    /// Functions that need no time but end the meaning of a handle: they are only noticed.
    fn add_handle_frees(&mut self, modules: &Modules, group: u8) {
        for function in catalogue().iter().filter(|function| function.class == Class::Local) {
            let frees = matches!(function.invalidates, Some(HandleKind::Datatype | HandleKind::Communicator));
            let is_used = self.imported.as_ref().is_none_or(|imported| imported.contains(function.name));
            if is_used && frees && library_function(modules, function.name).is_some() {
                let mut probe = Probe { group, ..mpi_probe(function) };
                probe.flags &= !(flag::TIMED | flag::RING);
                let group = PROBE_GROUPS[group as usize];
                let info = FunctionInfo { name: function.name.into(), group, ..FunctionInfo::default() };
                self.add(modules, info, probe, ChosenPlace::Mpi(function.name));
            }
        }
    }

    fn add_pattern(&mut self, modules: &Modules, pattern: &str) -> Result<(), Error> {
        let (name, library) = match pattern.split_once('@') {
            Some((name, library)) => (name, Some(library)),
            None => (pattern, None),
        };
        let found = matching(modules, name, library);
        if found.is_empty() {
            return Err(no_such_function(modules, pattern));
        }
        for (module, function) in found {
            if let Some(mpi) = function.names.iter().find_map(|alias| trimtab_mpi::canonical(alias)) {
                self.add_mpi(modules, mpi, COMM);
                continue;
            }
            self.add_user(modules, module.path.clone(), function.name());
        }
        Ok(())
    }

    fn add_user(&mut self, modules: &Modules, module: String, name: String) -> usize {
        let probe = Probe { group: USER_GROUP, flags: flag::TIMED, ..Probe::ABSENT };
        let info =
            FunctionInfo { name: name.clone(), group: FunctionGroup::User, timed: true, ..FunctionInfo::default() };
        self.add(modules, info, probe, ChosenPlace::Symbol { module, name })
    }

    /// Adds a loop as a function of its own, whose calls are the loop's passes.
    pub(crate) fn add_loop(&mut self, modules: &Modules, name: &LoopName) -> Result<usize, Error> {
        let found = match name.number.as_deref() {
            Some(number @ ([] | [.., ENTRANCES])) => loops::witness(modules, &name.function, number)?,
            _ => loops::find(modules, name)?,
        };
        let loops::Found { module, function, number, shown, place } = found;
        let probe = Probe { group: USER_GROUP, role: role::LOOP, ..Probe::ABSENT };
        let group = FunctionGroup::Loop;
        let info = FunctionInfo { name: shown, group, loop_place: Some(place), ..FunctionInfo::default() };
        Ok(self.add(modules, info, probe, ChosenPlace::Loop { module, name: function, number }))
    }

    fn choose_marker(&mut self, modules: &Modules, mark: &Mark) -> Result<(), Error> {
        let found = match mark {
            Mark::Function(name) => {
                let index = self.function_index(modules, name)?;
                Some((index, MarkerSource::Named))
            }
            Mark::Loop(name) => Some((self.add_loop(modules, name)?, MarkerSource::Named)),
            Mark::Nest(_) | Mark::Calls => None,
            Mark::Auto => MARKER_NAMES.iter().find_map(|name| {
                let (module, _) = modules.definition(name)?;
                Some((self.add_user(modules, module.path.clone(), name.to_string()), MarkerSource::MeasureMark))
            }),
        };
        if let Some((index, _)) = found.filter(|(index, _)| self.probes[*index].role != role::LOOP) {
            self.probes[index].flags |= flag::RING;
        }
        self.marker = self.marker.or(found);
        Ok(())
    }

    fn ask_argument(&mut self, modules: &Modules, name: &str, argument: u8) -> Result<(), Error> {
        let index = self.function_index(modules, name)?;
        self.probes[index].argument = argument;
        self.functions[index].argument_asked = true;
        Ok(())
    }

    /// Position of the function of this name, added if it was not chosen yet.
    fn function_index(&mut self, modules: &Modules, name: &str) -> Result<usize, Error> {
        if let Some(mpi) = trimtab_mpi::canonical(name).filter(|mpi| library_function(modules, mpi.name).is_some()) {
            return Ok(self.add_mpi(modules, mpi, COMM));
        }
        let (module, _) = modules.definition(name).ok_or_else(|| no_such_function(modules, name))?;
        Ok(self.add_user(modules, module.path.clone(), name.to_string()))
    }
}

/// Does it for every program; it is enough that one of them has what is asked for.
fn in_any(programs: &[&Modules], mut add: impl FnMut(&Modules) -> Result<(), Error>) -> Result<(), Error> {
    let mut first = None;
    let mut is_found = programs.is_empty();
    for modules in programs {
        match add(modules) {
            Ok(()) => is_found = true,
            Err(error @ (Error::NoSuchFunction { .. } | Error::NotLookedAt { .. })) => first = first.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    first.filter(|_| !is_found).map_or(Ok(()), Err)
}

/// MPI functions that any of the programs imports; `None`: of one it is not known.
fn imported_by_any(programs: &[&Modules], cache: &ImageCache) -> Option<BTreeSet<&'static str>> {
    let imported = programs.iter().map(|modules| called_mpi(modules, cache));
    imported.reduce(|one, other| one.zip(other).map(|(one, other)| one.into_iter().chain(other).collect())).flatten()
}

/// MPI functions that the program can call, by their C names: those its files import, under whichever language's name. Only
/// these are patched: a library has hundreds, a program calls a dozen, and each patch is a moment of pause. `None`: the
/// files do not say.
pub fn called_mpi(modules: &Modules, cache: &ImageCache) -> Option<BTreeSet<&'static str>> {
    let bindings = modules
        .maps
        .0
        .iter()
        .any(|mapping| mapping.path.contains("libmpi_cxx") || mapping.path.contains("libmpichcxx"));
    let wanted = |path: &str| !is_mpi_module(path) || (bindings && path.contains("cxx"));
    let is_asked = |name: &str| trimtab_mpi::canonical(name).is_some();
    let names = cache.imported_names(modules.pid, &modules.maps, &wanted, &is_asked)?;
    let used: BTreeSet<&'static str> =
        names.iter().filter_map(|name| trimtab_mpi::canonical(name)).map(|function| function.name).collect();
    // A static program imports nothing, and a plug-in's host may look functions up by name.
    (!used.is_empty()).then_some(used)
}

impl ChosenPlace {
    fn address(&self, modules: &Modules) -> Option<ProcAddr> {
        match self {
            ChosenPlace::Mpi(name) => library_function(modules, name).map(ProcAddr),
            ChosenPlace::Symbol { module, name } | ChosenPlace::Loop { module, name, .. } => {
                let mut of_path = modules.modules.iter().filter(|known| known.path == *module);
                if let Some(address) = of_path.find_map(|module| modules.code_named(module, name)) {
                    return Some(address);
                }
                // Another program of the same job has its own, but something else at the same address.
                if is_of_address(name) {
                    return None;
                }
                let (module, function) = modules.definition(name)?;
                Some(modules.code_of(module, function))
            }
        }
    }
}

/// True if functions of the groups belong here: the C library, in one or several files, or the whole program.
fn is_c_library(module: &Module) -> bool {
    let name = module.file_name();
    let parts = ["libc.", "libc-", "libpthread", "librt", "ld-", "libm."];
    parts.iter().any(|part| name.starts_with(part)) || module.loaded.image.needed.is_empty()
}

fn group_number(group: Group) -> u8 {
    match group {
        Group::Comm | Group::All => COMM,
        Group::Io => 1,
        Group::Memory => 2,
        Group::Sleep => 3,
        Group::Omp => OMP_GROUP,
    }
}

fn libc_probe(group: u8, bytes: ByteSource) -> Probe {
    let base = Probe { group, flags: flag::TIMED, ..Probe::ABSENT };
    match bytes {
        ByteSource::Absent => base,
        ByteSource::Argument(index) => Probe { kind: kind::PLAIN_BYTES, count: index, ..base },
        ByteSource::Product(first, second) => {
            Probe { kind: kind::PRODUCT_BYTES, count: first, datatype: second, ..base }
        }
        ByteSource::Returned => Probe { kind: kind::RETURNED_BYTES, ..base },
        // The size of one item; the routine multiplies it with the number returned.
        ByteSource::ReturnedTimes(index) => Probe { kind: kind::RETURNED_BYTES, count: index, ..base },
    }
}

/// True if a function is called again and again until something has come.
fn does_poll(function: &MpiFunction) -> bool {
    matches!(function.class, Class::Test | Class::Probe)
}

/// True if a function waits for any of several messages, and is called until all have come: how often that is differs from
/// one time to the next.
fn comes_in_parts(function: &MpiFunction) -> bool {
    function.name == "MPI_Waitsome"
}

/// The argument by which a function that polls says if something has come.
fn argument_of_came(function: &MpiFunction) -> u8 {
    match function.name {
        "MPI_Test" | "MPI_Request_get_status" => 1,
        "MPI_Testall" | "MPI_Testsome" => 2,
        "MPI_Testany" | "MPI_Iprobe" | "MPI_Improbe" => 3,
        _ => ABSENT,
    }
}

/// The status of a function that returns with one message.
fn argument_of_status(function: &MpiFunction) -> u8 {
    match function.name {
        "MPI_Wait" => 1,
        "MPI_Waitany" => 3,
        "MPI_Recv" | "MPI_Recv_c" => 6,
        "MPI_Sendrecv_replace" | "MPI_Sendrecv_replace_c" => 8,
        "MPI_Sendrecv" | "MPI_Sendrecv_c" => 11,
        _ => ABSENT,
    }
}

/// Its part in the life of requests, as far as the in-target routine follows it.
fn part_of_requests(function: &MpiFunction) -> u8 {
    let accounting = &function.accounting;
    match function.class {
        Class::Wait if accounting.count == ABSENT => requests::COMPLETES_ONE,
        Class::Wait if function.name == "MPI_Waitall" => requests::COMPLETES_ALL,
        Class::Wait if matches!(function.name, "MPI_Waitany" | "MPI_Waitsome") => requests::COMPLETES_ANY,
        // Others of the class only look: handles stay.
        Class::Test if accounting.request != ABSENT && function.name.starts_with("MPI_Test") => requests::COMPLETES_ANY,
        _ if function.is_nonblocking() => requests::POSTS,
        _ => requests::NONE,
    }
}

/// The catalogue's description of a function as the in-target routine reads it.
fn mpi_probe(function: &MpiFunction) -> Probe {
    let accounting = &function.accounting;
    let mut flags = flag::TIMED | flag::RING;
    if function.synchronising {
        flags |= flag::SYNCHRONISING;
    }
    if matches!(accounting.kind, AccountingKind::Receive | AccountingKind::SendReceive) {
        flags |= flag::RECEIVES;
    }
    flags |= match function.invalidates {
        Some(HandleKind::Datatype) => flag::FREES_TYPE,
        Some(HandleKind::Request) => flag::FREES_REQUEST,
        // A window's members lie among those of communicators.
        Some(HandleKind::Communicator | HandleKind::Window) => flag::FREES_COMM,
        None => 0,
    };
    Probe {
        function: 0,
        group: COMM,
        flags,
        kind: probe_kind(accounting),
        polls: u8::from(does_poll(function)),
        came: argument_of_came(function),
        status: argument_of_status(function),
        requests: part_of_requests(function),
        large_count: u8::from(accounting.large_count),
        buffer: accounting.buffer,
        count: accounting.count,
        datatype: accounting.datatype,
        peer: accounting.peer_or_root,
        comm: accounting.comm,
        request: if function.invalidates == Some(HandleKind::Request) { 0 } else { accounting.request },
        recv_count: accounting.recv_count,
        recv_datatype: accounting.recv_datatype,
        factor: accounting.factor,
        source: accounting.source,
        window: accounting.window,
        ..Probe::ABSENT
    }
}

/// Persistent collectives are timed, but their bytes are not measured.
fn probe_kind(accounting: &Accounting) -> u8 {
    use AccountingKind::*;
    if accounting.counted == Counted::AtStart {
        return match accounting.kind {
            Send => kind::SEND_INIT,
            Receive => kind::RECEIVE_INIT,
            _ => kind::NONE,
        };
    }
    let fetches = accounting.recv_count != trimtab_mpi::ABSENT || accounting.count == trimtab_mpi::ABSENT;
    match accounting.kind {
        Send | SendReceive => kind::SEND,
        Bcast => kind::BCAST,
        Reduce | Gather | Gatherv => kind::TO_ROOT,
        Scatter => kind::SCATTER,
        Scatterv => kind::SCATTERV,
        Allgather | Alltoall => kind::TO_ALL,
        Allgatherv => kind::ALLGATHERV,
        Alltoallv => kind::ALLTOALLV,
        Alltoallw => kind::ALLTOALLW,
        Allreduce => kind::OWN,
        ReduceScatter => kind::OWN_SUM,
        ReduceScatterBlock => kind::OWN_BLOCK,
        Start => kind::START,
        Startall => kind::STARTALL,
        Put if fetches => kind::FETCH,
        Put => kind::PUT,
        Get => kind::GET,
        IoWrite | IoRead => kind::BYTES,
        None | Receive => kind::NONE,
        NeighborAllgather | NeighborAllgatherv | NeighborAlltoall => kind::NEIGHBOURS,
        NeighborAlltoallv => kind::NEIGHBOURS_V,
        NeighborAlltoallw => kind::NEIGHBOURS_W,
    }
}

/// One line of `trimtab functions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Name.
    pub name: String,
    /// Module it lies in.
    pub module: String,
    /// Its group: communication, or one that only the user could name.
    pub group: FunctionGroup,
    /// Of an indirect function, where the code lies that the loader chose for this process: address in the module's
    /// file. Several functions may have the same.
    pub chosen: Option<FileAddr>,
    /// Why it can't be measured; `None`: it can.
    pub refusal: Option<String>,
    /// Why it can be counted but not timed; `None`: it can be timed, or not be measured at all.
    pub only_counted: Option<String>,
    /// Its exits that are jumps to other functions, if it can be timed.
    pub tails: Vec<TailExit>,
}

/// The functions that `trimtab functions` lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// Every function that matches.
    pub listed: Vec<Listed>,
    /// Programs and libraries that could not be looked at, each with the reason.
    pub unread: Vec<(String, String)>,
}

/// Every function that a pattern (`*` for all) matches in a process, and whether it could be measured.
///
/// # Errors
/// When the process is gone or may not be looked at.
pub fn list_functions(pid: Pid, cache: &ImageCache, pattern: &str) -> Result<Functions, trimtab_session::Error> {
    let modules = Modules::read(pid, cache, &|_| true)?;
    let (name, library) = pattern.split_once('@').unwrap_or((pattern, ""));
    let mut requests: Vec<FunctionRequest> = Vec::new();
    let mut listed = Vec::new();
    for module in modules.modules.iter().filter(|module| module.file_name().contains(library)) {
        for function in module.loaded.image.functions_matching(name) {
            let address = modules.code_of(module, function);
            let probe = Probe { flags: flag::TIMED, function: requests.len() as u32, ..Probe::ABSENT };
            requests.push(FunctionRequest { name: address.0.to_string(), address, work: probe.into() });
            listed.push(listed_as(module, function, address));
        }
    }
    let prepared = Prepared::new(&modules, &requests)?;
    // Functions of the same code are judged once, and share the verdict.
    let reasons = by_name(&prepared.refused);
    let uncounted = by_name(&prepared.endless);
    let mut tails: BTreeMap<&str, Vec<TailExit>> = BTreeMap::new();
    for tail in &prepared.tails {
        tails.entry(tail.function.as_str()).or_default().push(TailExit { to: readable(&tail.to), ..tail.clone() });
    }
    for (entry, request) in listed.iter_mut().zip(&requests) {
        entry.refusal = reasons.get(request.name.as_str()).cloned();
        entry.only_counted = uncounted.get(request.name.as_str()).cloned();
        entry.tails = tails.remove(request.name.as_str()).unwrap_or_default();
    }
    Ok(Functions { listed, unread: modules.unreadable })
}

fn by_name(refused: &[Refused]) -> BTreeMap<&str, String> {
    refused.iter().map(|one| (one.name.as_str(), one.reason.to_string())).collect()
}

fn listed_as(module: &Module, function: &Function, address: ProcAddr) -> Listed {
    let mpi = function.names.iter().find_map(|alias| trimtab_mpi::canonical(alias));
    let group =
        if mpi.is_some_and(|mpi| mpi.class != Class::Local) { FunctionGroup::Comm } else { FunctionGroup::User };
    let code = module.bias.to_file(address);
    Listed {
        name: mpi.map_or_else(|| readable(&function.name()), |mpi| mpi.name.to_string()),
        module: module.file_name().into(),
        group,
        chosen: (function.is_ifunc && code != function.addr).then_some(code),
        refusal: None,
        only_counted: None,
        tails: Vec::new(),
    }
}
