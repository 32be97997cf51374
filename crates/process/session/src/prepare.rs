//! Where each function would be patched, decided while the process runs on.
//!
//! Code is read from the process and compared with its file, so that another tool's patches are noticed; control flow
//! is analysed; parts of a function that the compiler moved away (`.cold`) are found by their unwind tables. A function
//! is accepted only if its entry and, for timing, every exit can be patched.
//!
//! Next: `insert` carries it out.

use crate::error::Error;
use crate::modules::{Module, Modules};
use crate::threads::FunctionRange;
use std::ops::Range;
use trimtab_os::{Gadgets, Mapping, MappingTable, Memory, find_gadgets};
use trimtab_plan::{PlannedFunction, PlannedSite};
use trimtab_stub::layout::{Probe, flag};
use trimtab_symbols::{fde_at, unwind_facts};
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::{
    Analysis, ClassifyJump, CodeRange, ExitKind, FunctionCode, JumpForm, JumpTarget, ReadMemory, Site, Springboards,
    analyse, function_sites, offer_padding,
};

/// A function that is to be measured.
#[derive(Clone, Debug)]
pub struct FunctionRequest {
    /// Name for people.
    pub name: String,
    /// Where it begins.
    pub address: ProcAddr,
    /// What its probe does.
    pub probe: Probe,
}

/// A function that can't be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// All decisions about one process, made without stopping it.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) functions: Vec<PlannedFunction>,
    /// Probes in order of their number.
    pub probes: Vec<Probe>,
    /// Address of each probe's function.
    pub addresses: Vec<ProcAddr>,
    /// Functions left out.
    pub refused: Vec<Refused>,
    pub(crate) arena_modules: Vec<(String, Range<u64>)>,
    pub(crate) gadgets: Gadgets,
    pub(crate) ranges: Vec<FunctionRange>,
    /// Text of the program itself.
    pub(crate) program: Range<u64>,
}

/// Fragments one function may be split into.
const FRAGMENTS_MAX: usize = 16;
/// Bytes behind a function that are looked at for padding.
const AFTER_MAX: u64 = 64;

impl Prepared {
    /// Decides about each of `requests`; several requests for one address become one probe.
    pub fn new(modules: &Modules, requests: &[FunctionRequest]) -> Result<Self, Error> {
        let memory = Memory::open(modules.pid)?;
        let gadgets = find_gadgets(modules.pid, &memory, &modules.maps)?;
        let mut prepared = Prepared {
            functions: Vec::new(),
            probes: Vec::new(),
            addresses: Vec::new(),
            refused: Vec::new(),
            arena_modules: Vec::new(),
            gadgets,
            ranges: Vec::new(),
            program: modules.modules.first().map_or(0..0, |module| module.text.clone()),
        };
        for request in requests {
            if prepared.addresses.contains(&request.address) {
                continue;
            }
            match prepared.accept(modules, &memory, request) {
                Ok(()) => {}
                Err(reason) => prepared.refused.push(Refused { name: request.name.clone(), reason }),
            }
        }
        Ok(prepared)
    }

    /// Places that would be patched.
    pub fn point_count(&self) -> usize {
        self.functions.iter().map(|function| function.sites.len()).sum()
    }

    /// Number of the probe at `address`.
    pub fn probe_at(&self, address: ProcAddr) -> Option<u32> {
        self.addresses.iter().position(|known| *known == address).map(|index| index as u32)
    }

    fn accept(&mut self, modules: &Modules, memory: &Memory, request: &FunctionRequest) -> Result<(), String> {
        let module = modules.at(request.address).ok_or("it lies in no readable module")?;
        let subject = Subject { module, memory, maps: &modules.maps };
        let sites = subject.sites(request)?;
        let arena = self.arena_of(module);
        let probe = self.probes.len() as u32;
        let name = request.name.clone();
        self.functions.push(PlannedFunction { name, probe, arena, sites, inline: None });
        let file_address = module.bias.to_file(request.address);
        let size = module.loaded.image.function_at(file_address).map_or(0, |function| function.size);
        self.ranges.push((request.address.0..request.address.0 + size, probe));
        self.probes.push(request.probe);
        self.addresses.push(request.address);
        Ok(())
    }

    fn arena_of(&mut self, module: &Module) -> usize {
        let known = self.arena_modules.iter().position(|(path, _)| *path == module.path);
        known.unwrap_or_else(|| {
            self.arena_modules.push((module.path.clone(), module.text.clone()));
            self.arena_modules.len() - 1
        })
    }
}

struct Subject<'a> {
    module: &'a Module,
    memory: &'a Memory,
    maps: &'a MappingTable,
}

/// One piece of a function: where, its bytes, and the bytes behind it.
struct Piece {
    address: u64,
    bytes: Vec<u8>,
    after: Vec<u8>,
}

impl Subject<'_> {
    fn sites(&self, request: &FunctionRequest) -> Result<Vec<PlannedSite>, String> {
        let file_address = self.module.bias.to_file(request.address);
        let image = &self.module.loaded.image;
        let function = image
            .function_at(file_address)
            .filter(|function| function.addr == file_address)
            .ok_or("no function begins there")?;
        if function.is_ifunc {
            return Err("it is an indirect function: the loader chooses its code at run time".into());
        }
        if function.size == 0 {
            return Err("its size is unknown".into());
        }
        let facts =
            unwind_facts(self.module.loaded.file.bytes(), image, function).map_err(|error| error.to_string())?;
        let landing_pads: Vec<u64> = facts.landing_pads.iter().map(|pad| self.module.bias.to_proc(*pad).0).collect();
        let mut pieces = vec![self.piece(request.address.0, function.size)?];
        loop {
            let code = function_code(&pieces, &landing_pads);
            let analysis = analyse(&code, self, self).map_err(|refusal| refusal.to_string())?;
            let new: Vec<Range<u64>> = analysis
                .fragments
                .iter()
                .filter(|range| pieces.iter().all(|p| p.address != range.start))
                .cloned()
                .collect();
            if new.is_empty() {
                return self.chosen_sites(request, &code, &analysis);
            }
            for range in new {
                pieces.push(self.piece(range.start, range.end - range.start)?);
            }
            if pieces.len() > FRAGMENTS_MAX {
                return Err("it is split into too many parts".into());
            }
        }
    }

    fn chosen_sites(
        &self,
        request: &FunctionRequest,
        code: &FunctionCode<'_>,
        analysis: &Analysis,
    ) -> Result<Vec<PlannedSite>, String> {
        let mut springboards = Springboards::new();
        offer_padding(code, analysis, &mut springboards);
        let sites = function_sites(code, analysis, &mut springboards);
        let entry = sites.entry.map_err(|refusal| refusal.to_string())?;
        let mut chosen = vec![self.planned(entry)?];
        let timed = request.probe.flags & flag::TIMED != 0;
        for (exit, site) in sites.exits {
            let site = match site {
                Ok(site) => site,
                Err(_) if exit.kind == ExitKind::FallsThrough || !timed => continue,
                Err(refusal) => return Err(refusal.to_string()),
            };
            if timed && !chosen.iter().any(|known| known.site == site) {
                chosen.push(self.planned(site)?);
            }
        }
        if timed && chosen.len() == 1 && matches!(chosen[0].site.kind, trimtab_x86::SiteKind::Entry) {
            return Err("it never returns".into());
        }
        Ok(chosen)
    }

    fn planned(&self, site: Site) -> Result<PlannedSite, String> {
        let read = |range: &Range<u64>| {
            self.memory.read_vec(range.start, (range.end - range.start) as usize).map_err(|error| error.to_string())
        };
        let springboard = match site.jump {
            JumpForm::Near5 => Vec::new(),
            JumpForm::Short2 { via } => read(&(via..via + 5))?,
        };
        Ok(PlannedSite { displaced: read(&site.displaced)?, overwritten: read(&site.overwritten)?, springboard, site })
    }

    /// Bytes of one piece, which must be as in the file.
    fn piece(&self, address: u64, size: u64) -> Result<Piece, String> {
        let file_address = self.module.bias.to_file(ProcAddr(address));
        let next = self.next_function(FileAddr(file_address.0 + size));
        let after = next.saturating_sub(file_address.0 + size).min(AFTER_MAX);
        let total = (size + after) as usize;
        let in_memory = self.memory.read_vec(address, total).map_err(|error| error.to_string())?;
        let offset = self.module.loaded.image.file_offset_of(file_address).ok_or("it lies in no segment")? as usize;
        let in_file = self.module.loaded.file.bytes().get(offset..offset + total).ok_or("its file is too short")?;
        if in_memory != in_file {
            return Err(
                "its code in memory differs from its file: another tool has patched it, end that tool first".into()
            );
        }
        let (bytes, after) = in_memory.split_at(size as usize);
        Ok(Piece { address, bytes: bytes.to_vec(), after: after.to_vec() })
    }

    /// Where the next function or fragment begins, at or after `address`.
    fn next_function(&self, address: FileAddr) -> u64 {
        let image = &self.module.loaded.image;
        let first_after = |functions: &[trimtab_symbols::Function]| {
            functions.get(functions.partition_point(|function| function.addr < address)).map(|function| function.addr.0)
        };
        let bounds = [first_after(&image.functions), first_after(&image.fragments)];
        let segment = image.segments.iter().find(|s| address.0 >= s.addr.0 && address.0 <= s.addr.0 + s.file_size);
        let end = segment.map_or(address.0, |segment| segment.addr.0 + segment.file_size);
        bounds.into_iter().flatten().min().unwrap_or(end).min(end)
    }
}

fn function_code<'a>(pieces: &'a [Piece], landing_pads: &'a [u64]) -> FunctionCode<'a> {
    let ranges = pieces
        .iter()
        .map(|piece| CodeRange { addr: piece.address, bytes: &piece.bytes, after: &piece.after })
        .collect();
    FunctionCode { entry: pieces[0].address, ranges, landing_pads, other_entries: &[], outside_branches: &[] }
}

impl ReadMemory for Subject<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let constant = |mapping: &Mapping| !mapping.writable;
        self.maps.at(address).is_some_and(constant) && self.memory.read(address, buffer).is_ok()
    }
}

impl ClassifyJump for Subject<'_> {
    fn classify(&self, target: u64) -> JumpTarget {
        if !self.module.text.contains(&target) {
            return JumpTarget::TailCall;
        }
        let file_target = self.module.bias.to_file(ProcAddr(target));
        let image = &self.module.loaded.image;
        let to_proc =
            |range: &Range<FileAddr>| self.module.bias.to_proc(range.start).0..self.module.bias.to_proc(range.end).0;
        if let Some(fragment) = image.fragment_at(file_target) {
            let end = FileAddr(fragment.addr.0 + fragment.size);
            return JumpTarget::Fragment(to_proc(&(fragment.addr..end)));
        }
        let bytes = self.module.loaded.file.bytes();
        match fde_at(bytes, image, file_target).ok().flatten() {
            Some(fde) if fde.cfa_rsp_offset_at.is_some_and(|offset| offset != 8) => {
                JumpTarget::Fragment(to_proc(&fde.range))
            }
            Some(fde) if fde.range.start == file_target => JumpTarget::TailCall,
            Some(_) => JumpTarget::Unknown,
            // Procedure linkage stubs have no unwind entry of their own in some linkers' output.
            None => JumpTarget::TailCall,
        }
    }
}
