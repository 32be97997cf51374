//! The facts of one process that a script can know: its functions, MPI arguments by name, global data.
//!
//! Next: `trimtab-snippet`'s `Facts`, the questions answered here.

use crate::debug::{DebugFacts, DebugSections};
use crate::place::{FunctionPlace, InnerPlace, NOWHERE};
use std::cell::RefCell;
use std::collections::BTreeMap;
use trimtab_measure::{datatype_sizes, describe_library};
use trimtab_mpi::{DatatypeSizes, prototype};
use trimtab_session::{Inner, Module, Modules, mappings_of};
use trimtab_snippet::facts::{
    Argument, DatatypeSize, Facts, FunctionId, Location, NoObject, NoSites, Object, PointSite, Signature, SiteId,
};
use trimtab_snippet::ir::{Register, Width};
use trimtab_snippet::syntax::{FunctionPattern, Name, PointKind};
use trimtab_snippet::types::{Struct, StructId, Type};
use trimtab_symbols::demangle_name;
use trimtab_types::{FileAddr, ProcAddr};

/// Where the first six integer arguments are.
const ARGUMENTS: [Register; 6] =
    [Register::Rdi, Register::Rsi, Register::Rdx, Register::Rcx, Register::R8, Register::R9];
/// Names suggested for one that is not there are chosen among so many that begin alike.
const SUGGESTIONS_MAX: usize = 2000;

/// Facts about one process.
pub(crate) struct ProcessFacts<'a> {
    pub(crate) modules: &'a Modules,
    datatype_sizes: Option<(DatatypeSizes, u8)>,
    known: RefCell<Vec<FunctionPlace>>,
    inner: RefCell<Vec<InnerPlace>>,
    /// Stand-ins among the known functions, with what they stand for.
    awaited: RefCell<Vec<(FunctionId, FunctionPattern)>>,
    /// Stand-ins among the places inside functions, with the library and what they stand for.
    awaited_points: RefCell<Vec<(SiteId, String, PointKind)>>,
    numbers: RefCell<BTreeMap<u64, u32>>,
    pub(crate) debug: DebugFacts<'a>,
}

impl<'a> ProcessFacts<'a> {
    pub(crate) fn new(modules: &'a Modules, sections: &'a DebugSections<'a>) -> Self {
        let handles = describe_library(modules).and_then(|library| library.handles());
        let datatype_sizes = handles.and_then(|facts| Some((datatype_sizes(modules, &facts)?, facts.handle_bytes)));
        let (known, inner, numbers) = (RefCell::default(), RefCell::default(), RefCell::default());
        let (awaited, awaited_points) = (RefCell::default(), RefCell::default());
        let debug = DebugFacts::new(sections);
        ProcessFacts { modules, datatype_sizes, known, inner, awaited, awaited_points, numbers, debug }
    }

    /// A function that was handed out before.
    pub(crate) fn function(&self, id: FunctionId) -> FunctionPlace {
        self.known.borrow()[id.0 as usize].clone()
    }

    /// The pattern that stands for a function whose library is not loaded yet.
    pub(crate) fn awaited_pattern(&self, id: FunctionId) -> Option<FunctionPattern> {
        let awaited = self.awaited.borrow();
        awaited.iter().find(|(known, _)| *known == id).map(|(_, pattern)| pattern.clone())
    }

    /// The library that a place inside a function is in, and what it stands for, if that is not loaded yet.
    pub(crate) fn awaited_point(&self, id: SiteId) -> Option<(String, PointKind)> {
        let awaited = self.awaited_points.borrow();
        awaited.iter().find(|(known, ..)| *known == id).map(|(_, library, point)| (library.clone(), point.clone()))
    }

    /// The stand-in for a point in a library that is not loaded yet.
    pub(crate) fn awaited_site(&self, point: &PointKind) -> Option<PointSite> {
        let by_place;
        let pattern = match point {
            PointKind::Call(call) => &call.caller,
            PointKind::Loop(point) => &point.function,
            PointKind::Block { function, .. } | PointKind::Offset { function, .. } => function,
            PointKind::Address { library, address } => {
                by_place = FunctionPattern { name: format!("{address:#x}"), library: library.clone() };
                &by_place
            }
            PointKind::Line { file, line, library } => {
                by_place = FunctionPattern { name: format!("{file}:{line}"), library: library.clone() };
                &by_place
            }
            PointKind::Entry(_) | PointKind::Exit(_) | PointKind::Every { .. } | PointKind::Once => return None,
        };
        let function = self.awaited(pattern)?;
        let site = |id| PointSite { id, function: Some(function), callee: None };
        let mut points = self.awaited_points.borrow_mut();
        if let Some((id, ..)) = points.iter().find(|(.., known)| known == point) {
            return Some(site(*id));
        }
        let mut inner = self.inner.borrow_mut();
        let id = SiteId(inner.len() as u32);
        inner.push(InnerPlace { function: self.function(function), place: Inner::Instruction(NOWHERE), callee: None });
        points.push((id, pattern.library.clone().unwrap_or_default(), point.clone()));
        Some(site(id))
    }

    /// A place that was handed out before.
    pub(crate) fn inner(&self, id: SiteId) -> InnerPlace {
        self.inner.borrow()[id.0 as usize].clone()
    }

    /// The number of a place; the same place has the same one.
    pub(crate) fn site_number(&self, place: InnerPlace) -> SiteId {
        let mut inner = self.inner.borrow_mut();
        let known = inner.iter().position(|known| *known == place);
        let number = known.unwrap_or_else(|| {
            inner.push(place);
            inner.len() - 1
        });
        SiteId(number as u32)
    }

    pub(crate) fn number(&self, place: FunctionPlace) -> FunctionId {
        let mut known = self.known.borrow_mut();
        let number = *self.numbers.borrow_mut().entry(place.address.0).or_insert_with(|| {
            known.push(place);
            known.len() as u32 - 1
        });
        FunctionId(number)
    }

    pub(crate) fn place_of(&self, module: &Module, function: &trimtab_symbols::Function) -> FunctionPlace {
        place_of(self.modules, module, function)
    }

    fn handle_width(&self) -> Width {
        match self.datatype_sizes {
            Some((_, 4)) => Width::W32,
            _ => Width::W64,
        }
    }

    fn argument_type(&self, name: &str) -> Type {
        let handle = || Type::Int { width: self.handle_width(), signed: false };
        match name {
            "datatype" | "sendtype" | "recvtype" => Type::Datatype(self.handle_width()),
            "comm" | "op" | "win" | "group" => handle(),
            "count" | "sendcount" | "recvcount" | "dest" | "source" | "root" | "tag" | "sendtag" | "recvtag"
            | "errorcode" | "incount" | "color" | "key" | "assert" | "rank" | "target_rank" | "origin_count" => {
                Type::INT
            }
            _ => Type::Void.pointer(),
        }
    }
}

/// The functions of these modules that a pattern means.
pub(crate) fn matching(modules: &Modules, pattern: &FunctionPattern) -> Vec<FunctionPlace> {
    if let Some(address) = hexadecimal(&pattern.name) {
        return beginning_at(modules, pattern.library.as_deref(), address).into_iter().collect();
    }
    let in_library = |module: &&Module| {
        pattern.library.as_ref().is_none_or(|library| module.file_name().ends_with(library.as_str()))
    };
    // A name means what calls of it would find in each namespace of loaded files.
    let is_one = !is_glob(&pattern.name) || pattern.name.contains('(');
    if pattern.library.is_none() && is_one {
        let found = modules.definitions(&pattern.name);
        if !found.is_empty() || !is_glob(&pattern.name) {
            let place = |(module, function)| named_place(modules, module, function, &pattern.name);
            return found.into_iter().map(place).collect();
        }
    }
    let mut found = Vec::new();
    for module in modules.modules.iter().filter(in_library) {
        found.extend(matching_in(modules, module, &pattern.name));
        if !is_glob(&pattern.name) && !found.is_empty() {
            break;
        }
    }
    found
}

/// Functions of one module that match, in the order of their addresses.
fn matching_in(modules: &Modules, module: &Module, pattern: &str) -> Vec<FunctionPlace> {
    let image = &module.loaded.image;
    let found = if is_glob(pattern) { image.functions_matching(pattern) } else { image.functions_meant(pattern) };
    found.into_iter().map(|function| named_place(modules, module, function, pattern)).collect()
}

/// The place of a function, by the name it was asked for with if it has that.
fn named_place(modules: &Modules, module: &Module, function: &trimtab_symbols::Function, asked: &str) -> FunctionPlace {
    let plain = function.names.iter().find(|name| name.as_str() == asked);
    let place = place_of(modules, module, function);
    FunctionPlace { name: plain.cloned().unwrap_or(place.name), ..place }
}

/// The function that begins at an address of the process, or of the file of a library.
fn beginning_at(modules: &Modules, library: Option<&str>, address: u64) -> Option<FunctionPlace> {
    let module = match library {
        Some(library) => modules.modules.iter().find(|module| module.file_name().ends_with(library))?,
        None => modules.at(ProcAddr(address))?,
    };
    let file = if library.is_some() { FileAddr(address) } else { module.bias.to_file(ProcAddr(address)) };
    let function = module.loaded.image.function_at(file).filter(|function| function.addr == file)?;
    Some(place_of(modules, module, function))
}

fn place_of(modules: &Modules, module: &Module, function: &trimtab_symbols::Function) -> FunctionPlace {
    let (name, module_name) = (function.name(), module.file_name().to_owned());
    FunctionPlace { name, module: module_name, address: modules.code_of(module, function) }
}

/// The number that a function may be named by instead: where it begins.
fn hexadecimal(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("0x").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// A data object's type, by nothing but its size.
fn plain_type(size: u64) -> Type {
    let int = |width| Type::Int { width, signed: true };
    match size {
        1 => int(Width::W8),
        2 => int(Width::W16),
        4 => int(Width::W32),
        8 => int(Width::W64),
        other => Type::Opaque(Some(other)),
    }
}

/// Parts of a C++ symbol one of which it has in it if it means a name that is about as long and begins alike: the length of
/// each word stands before it.
fn marks_of_length(name: &str) -> Vec<String> {
    const DIFFERS_MAX: usize = 4;
    let Some(letter) = name.chars().next() else { return Vec::new() };
    let lengths = name.len().saturating_sub(DIFFERS_MAX).max(1)..=name.len() + DIFFERS_MAX;
    let letters = [letter.to_ascii_lowercase(), letter.to_ascii_uppercase()];
    lengths.flat_map(|length| letters.map(|letter| format!("{length}{letter}"))).collect()
}

fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

impl Facts for ProcessFacts<'_> {
    fn functions(&self, pattern: &FunctionPattern) -> Vec<FunctionId> {
        let found = matching(self.modules, pattern);
        let mut ids: Vec<FunctionId> = found.into_iter().map(|place| self.number(place)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn awaited(&self, pattern: &FunctionPattern) -> Option<FunctionId> {
        let library = pattern.library.as_ref()?;
        if self.modules.is_of_file() || !mappings_of(&self.modules.maps, library).is_empty() {
            return None;
        }
        let mut awaited = self.awaited.borrow_mut();
        if let Some((id, _)) = awaited.iter().find(|(_, known)| known == pattern) {
            return Some(*id);
        }
        let mut known = self.known.borrow_mut();
        let id = FunctionId(known.len() as u32);
        known.push(FunctionPlace { name: pattern.name.clone(), module: library.clone(), address: NOWHERE });
        awaited.push((id, pattern.clone()));
        Some(id)
    }

    fn function_name(&self, function: FunctionId) -> String {
        self.function(function).name
    }

    fn function_names(&self, like: &str) -> Vec<String> {
        let like = last_part(like);
        let first = |name: &str| name.chars().next().map(|letter| letter.to_ascii_lowercase());
        let marks = marks_of_length(like);
        let may_mean = |name: &&String| !name.starts_with("_Z") || marks.iter().any(|mark| name.contains(mark));
        let functions = self.modules.modules.iter().flat_map(|module| &module.loaded.image.functions);
        // Names as their authors wrote them; a large library has more than anybody waits for.
        let names = functions.flat_map(|function| &function.names).filter(may_mean);
        let mut read_count = 0;
        let names = names.filter_map(|name| {
            read_count += usize::from(name.starts_with("_Z"));
            let is_short = !name.starts_with("_Z") || read_count <= SUGGESTIONS_MAX;
            is_short.then(|| demangle_name(name).unwrap_or_else(|| name.clone()))
        });
        names.filter(|name| first(last_part(name)) == first(like)).take(SUGGESTIONS_MAX).collect()
    }

    fn sites(&self, point: &PointKind) -> Result<Vec<PointSite>, NoSites> {
        Ok(self.places(point)?)
    }

    fn signature(&self, function: FunctionId) -> Signature {
        if self.awaited_pattern(function).is_some() {
            return Signature::default();
        }
        let place = self.function(function);
        let Some(names) = prototype(&place.name) else {
            return self.debug.signature(place.address).unwrap_or_default();
        };
        let argument = |(index, name): (usize, &&'static str)| {
            let location = match ARGUMENTS.get(index) {
                Some(register) => Location::Register(*register),
                None => Location::Stack(8 * (index as i64 - ARGUMENTS.len() as i64)),
            };
            Argument { name: (*name).to_owned(), object: Object { kind: self.argument_type(name), location } }
        };
        let returned = Object { kind: Type::INT, location: Location::Register(Register::Rax) };
        Signature {
            arguments: Some(names.iter().enumerate().map(argument).collect()),
            returned: Some(returned),
            by_number: false,
        }
    }

    fn local(&self, site: SiteId, name: &str) -> Option<Object> {
        self.debug.local(self.instruction_of(site)?, name)
    }

    fn local_names(&self, site: SiteId) -> Vec<String> {
        self.instruction_of(site).map(|address| self.debug.local_names(address)).unwrap_or_default()
    }

    fn global(&self, name: &Name, from: Option<FunctionId>) -> Result<Object, NoObject> {
        let from = from.map(|from| self.function(from).address).filter(|address| *address != NOWHERE);
        match self.debug.global(name, from) {
            Err(NoObject::Unknown) => {}
            found => return found,
        }
        let (Name::Plain(plain) | Name::Global(plain)) = name else { return Err(NoObject::Unknown) };
        let found = self.modules.modules.iter().find_map(|module| {
            let (address, size) = module.loaded.image.object_named(plain)?;
            Some((module.bias.to_proc(address), size))
        });
        let (address, size) = found.ok_or(NoObject::Unknown)?;
        Ok(Object { kind: plain_type(size), location: Location::Address(address) })
    }

    fn global_names(&self, like: &str) -> Vec<String> {
        let start: String = like.chars().take(1).collect();
        let objects = self.modules.modules.iter().flat_map(|module| &module.loaded.image.objects);
        let names = objects.flat_map(|object| &object.names).filter(|name| name.starts_with(&start));
        names.take(SUGGESTIONS_MAX).cloned().collect()
    }

    fn structure(&self, id: StructId) -> Option<Struct> {
        self.debug.structure(id)
    }

    fn type_named(&self, name: &str) -> Option<Type> {
        match name {
            "MPI_Datatype" => Some(Type::Datatype(self.handle_width())),
            "MPI_Comm" | "MPI_Op" | "MPI_Win" | "MPI_Request" => {
                Some(Type::Int { width: self.handle_width(), signed: false })
            }
            _ => self.debug.type_named(name),
        }
    }

    fn type_names(&self, like: &str) -> Vec<String> {
        let mut names = self.debug.type_names(like);
        names.extend(["MPI_Datatype", "MPI_Comm", "MPI_Op", "MPI_Win", "MPI_Request"].map(str::to_owned));
        names
    }

    fn enumerator(&self, name: &str) -> Option<i64> {
        self.debug.enumerator(name)
    }

    fn missing(&self, function: FunctionId) -> Option<String> {
        self.debug.missing(self.function(function).address)
    }

    fn why_no_function(&self, name: &str) -> Option<String> {
        self.debug.why_inlined(name)
    }

    fn call_address(&self, name: &str) -> Option<ProcAddr> {
        let (module, function) = self.modules.definition(name)?;
        Some(module.bias.to_proc(function.addr))
    }

    fn datatype_size(&self) -> Option<DatatypeSize> {
        match self.datatype_sizes?.0 {
            // The two high bits and the kind of a predefined datatype, then its size in the second byte.
            DatatypeSizes::MpichBits => {
                Some(DatatypeSize::Bits { mask: 0xff00_0000, kind: 0x4c00_0000, shift: 8, size_mask: 0xff })
            }
            DatatypeSizes::AtOffset(offset) => Some(DatatypeSize::WordAt(i64::from(offset))),
            DatatypeSizes::AbiBits => None,
        }
    }
}
