//! Where each function would be patched, decided while the process runs on.
//!
//! Code is read from the process and compared with its file, so that another tool's patches are noticed; control flow
//! is analysed; parts of a function that the compiler moved away (`.cold`) are found by their unwind tables. A function
//! is accepted only if its entry and, for timing, every exit can be patched.
//!
//! Next: `insert` carries it out.

use crate::error::Error;
use crate::modules::{Module, Modules};
use crate::script::ScriptSource;
use crate::threads::FunctionRange;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::panic::resume_unwind;
use trimtab_os::{Gadgets, Mapping, MappingTable, Memory, find_gadgets};
use trimtab_plan::{PlannedFunction, PlannedSite, Unread};
use trimtab_stub::layout::{Probe, flag};
use trimtab_symbols::{fde_at, unwind_facts};
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::{
    Analysis, ClassifyJump, CodeRange, ExitKind, FunctionCode, JumpForm, JumpTarget, NEAR_JUMP_LEN, ReadMemory, Site,
    analyse, own_sites,
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
    /// Bytes that patches need, by their first, with their end.
    taken: BTreeMap<u64, u64>,
    /// Text of the program itself.
    pub(crate) program: Range<u64>,
    /// What runs instead of the in-target routine.
    pub(crate) script: Option<ScriptSource>,
}

/// Farthest apart that code sharing one arena may lie: little beside how far a jump reaches, yet most libraries are
/// mapped side by side.
const ARENA_SPAN_MAX: u64 = 128 << 20;
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
            taken: BTreeMap::new(),
            program: modules.modules.first().map_or(0..0, |module| module.text.clone()),
            script: None,
        };
        let mut known = HashSet::new();
        let requests: Vec<&FunctionRequest> = requests.iter().filter(|request| known.insert(request.address)).collect();
        for (request, sites) in requests.iter().zip(all_sites(modules, &memory, &requests)) {
            match sites {
                Ok((_, sites)) if prepared.is_taken(&sites) => {
                    let reason = "it shares code with another function that is probed".into();
                    prepared.refused.push(Refused { name: request.name.clone(), reason });
                }
                Ok((module, sites)) => prepared.accept(module, request, sites),
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

    /// Whether another function's patches need bytes that these do.
    pub(crate) fn is_taken(&self, sites: &[PlannedSite]) -> bool {
        let is_taken = |range: Range<u64>| {
            self.taken.range(..range.end).next_back().is_some_and(|(_, &taken_end)| taken_end > range.start)
        };
        sites.iter().flat_map(bytes_used).any(is_taken)
    }

    /// Keeps others from the bytes of these patches.
    pub(crate) fn take(&mut self, sites: &[PlannedSite]) {
        self.taken.extend(sites.iter().flat_map(bytes_used).map(|range| (range.start, range.end)));
    }

    fn accept(&mut self, module: &Module, request: &FunctionRequest, sites: Vec<PlannedSite>) {
        let arena = self.arena_of(module);
        let probe = self.probes.len() as u32;
        let name = request.name.clone();
        self.take(&sites);
        self.functions.push(PlannedFunction { name, probe, arena, sites, inline: None, bodies: None });
        let file_address = module.bias.to_file(request.address);
        let size = module.loaded.image.function_at(file_address).map_or(0, |function| function.size);
        self.ranges.push((request.address.0..request.address.0 + size, probe));
        self.probes.push(request.probe);
        self.addresses.push(request.address);
    }

    /// The arena for a module's islands, which it may share with modules near it.
    pub(crate) fn arena_of(&mut self, module: &Module) -> usize {
        let text = &module.text;
        let joined = |range: &Range<u64>| range.start.min(text.start)..range.end.max(text.end);
        let is_near = |range: &Range<u64>| {
            let joined = joined(range);
            joined == *range || joined.end - joined.start <= ARENA_SPAN_MAX
        };
        match self.arena_modules.iter().position(|(_, range)| is_near(range)) {
            Some(arena) => {
                self.arena_modules[arena].1 = joined(&self.arena_modules[arena].1);
                arena
            }
            None => {
                self.arena_modules.push((module.path.clone(), text.clone()));
                self.arena_modules.len() - 1
            }
        }
    }
}

/// Every byte that a patch overwrites or takes out of use.
fn bytes_used(planned: &PlannedSite) -> impl Iterator<Item = Range<u64>> {
    let site = &planned.site;
    let apart = match (&site.carrier, site.jump) {
        (Some(carrier), _) => Some(carrier.covered()),
        (None, JumpForm::Short2 { via }) => Some(via..via + NEAR_JUMP_LEN),
        (None, JumpForm::Near5) => None,
    };
    [Some(site.covered()), apart].into_iter().flatten()
}

/// What was decided about one function: its module and places, or why not.
type Decided<'a> = Result<(&'a Module, Vec<PlannedSite>), String>;

/// Functions below which more threads do not pay.
const PER_THREAD_MIN: usize = 256;

/// Decides about all functions, which know nothing of each other, on as many processors as that is worth.
fn all_sites<'a>(modules: &'a Modules, memory: &Memory, requests: &[&FunctionRequest]) -> Vec<Decided<'a>> {
    let decide = |request: &&FunctionRequest| {
        let module = modules.at(request.address).ok_or("it lies in no readable module")?;
        let subject = Subject { module, memory, maps: &modules.maps };
        Ok((module, subject.sites(request)?))
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let per_thread = requests.len().div_ceil(processors).max(PER_THREAD_MIN);
    if requests.len() <= per_thread {
        return requests.iter().map(decide).collect();
    }
    std::thread::scope(|scope| {
        let decide = &decide;
        let parts = requests.chunks(per_thread);
        let running: Vec<_> = parts.map(|part| scope.spawn(move || part.iter().map(decide).collect())).collect();
        let joined = running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.collect::<Vec<Vec<Decided<'a>>>>().into_iter().flatten().collect()
    })
}

/// A module of a process, to be judged.
pub(crate) struct Subject<'a> {
    pub module: &'a Module,
    pub memory: &'a Memory,
    pub maps: &'a MappingTable,
}

/// One piece of a function: where, its bytes, and the bytes behind it.
struct Piece {
    address: u64,
    bytes: Vec<u8>,
    after: Vec<u8>,
}

impl Subject<'_> {
    fn sites(&self, request: &FunctionRequest) -> Result<Vec<PlannedSite>, String> {
        self.analysed(request.address, |code, analysis| self.chosen_sites(request, code, analysis))
    }

    /// Hands over the code of the function that begins at `address`, with its analysis.
    pub(crate) fn analysed<T>(
        &self,
        address: ProcAddr,
        then: impl FnOnce(&FunctionCode<'_>, &Analysis) -> Result<T, String>,
    ) -> Result<T, String> {
        let file_address = self.module.bias.to_file(address);
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
        let mut pieces = vec![self.piece(address.0, function.size)?];
        loop {
            let outside = self.outside_branches(&pieces);
            let code = function_code(&pieces, &landing_pads, &outside);
            let analysis = analyse(&code, self, self).map_err(|refusal| refusal.to_string())?;
            let jumped_into = analysis.external_jumps.iter().filter_map(|jump| self.around(jump.target));
            let mut new: Vec<Range<u64>> = analysis.fragments.iter().cloned().chain(jumped_into).collect();
            new.retain(|range| pieces.iter().all(|piece| piece.address != range.start));
            new.sort_by_key(|range| range.start);
            new.dedup();
            if new.is_empty() {
                return then(&code, &analysis);
            }
            for range in new {
                pieces.push(self.piece(range.start, range.end - range.start)?);
            }
            if pieces.len() > FRAGMENTS_MAX {
                return Err("it is split into too many parts".into());
            }
        }
    }

    /// The code around a jump's target, if that is in the middle of it and there is a frame: a jump there is no call.
    fn around(&self, target: u64) -> Option<Range<u64>> {
        let module = self.module;
        let file_target = module.bias.to_file(ProcAddr(target));
        if module.loaded.image.stub_at(file_target).is_some() {
            return None;
        }
        let fde = fde_at(module.loaded.file.bytes(), &module.loaded.image, file_target).ok().flatten()?;
        let range = module.bias.to_proc(fde.range.start).0..module.bias.to_proc(fde.range.end).0;
        // Stubs of the linker share one entry, and have no frame.
        (fde.range.start != file_target && has_frame(fde.cfa_rsp_offset_at)).then_some(range)
    }

    fn chosen_sites(
        &self,
        request: &FunctionRequest,
        code: &FunctionCode<'_>,
        analysis: &Analysis,
    ) -> Result<Vec<PlannedSite>, String> {
        let sites = own_sites(code, analysis);
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

    pub(crate) fn planned(&self, site: Site) -> Result<PlannedSite, String> {
        let read = |range: &Range<u64>| {
            self.memory.read_vec(range.start, (range.end - range.start) as usize).map_err(|error| error.to_string())
        };
        let springboard = match site.jump {
            JumpForm::Near5 => Vec::new(),
            JumpForm::Short2 { via } => read(&(via..via + NEAR_JUMP_LEN))?,
        };
        let carrier = site.carrier.as_ref().map_or(Ok(Vec::new()), |carrier| read(&carrier.displaced))?;
        let (displaced, overwritten) = (read(&site.displaced)?, read(&site.overwritten)?);
        Ok(PlannedSite { displaced, overwritten, springboard, carrier, site, unread: Unread::default() })
    }

    /// Where the rest of the module branches into these pieces.
    fn outside_branches(&self, pieces: &[Piece]) -> Vec<u64> {
        let bias = self.module.bias;
        let range = |piece: &Piece| {
            let start = bias.to_file(ProcAddr(piece.address));
            start..FileAddr(start.0 + piece.bytes.len() as u64)
        };
        let own: Vec<Range<FileAddr>> = pieces.iter().map(range).collect();
        let found = own.iter().flat_map(|range| self.module.loaded.branches_into(range.clone(), &own));
        found.map(|target| bias.to_proc(target).0).collect()
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

fn function_code<'a>(pieces: &'a [Piece], landing_pads: &'a [u64], outside_branches: &'a [u64]) -> FunctionCode<'a> {
    let ranges = pieces
        .iter()
        .map(|piece| CodeRange { addr: piece.address, bytes: &piece.bytes, after: &piece.after })
        .collect();
    FunctionCode { entry: pieces[0].address, ranges, landing_pads, other_entries: &[], outside_branches }
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
        if image.stub_at(file_target).is_some() {
            return JumpTarget::TailCall;
        }
        if let Some(fragment) = image.fragment_at(file_target) {
            let end = FileAddr(fragment.addr.0 + fragment.size);
            return JumpTarget::Fragment(to_proc(&(fragment.addr..end)));
        }
        let bytes = self.module.loaded.file.bytes();
        match fde_at(bytes, image, file_target).ok().flatten() {
            Some(fde) if fde.range.start == file_target => match has_frame(fde.cfa_rsp_offset_at) {
                true => JumpTarget::Fragment(to_proc(&fde.range)),
                false => JumpTarget::TailCall,
            },
            // Of what begins with a frame, any place may be meant. The middle of a whole function is more likely what a
            // table says about another one, behind its end.
            Some(fde) => match fde_at(bytes, image, fde.range.start).ok().flatten() {
                Some(start) if has_frame(start.cfa_rsp_offset_at) => JumpTarget::Fragment(to_proc(&fde.range)),
                _ => JumpTarget::Unknown,
            },
            // Procedure linkage stubs have no unwind entry of their own in some linkers' output.
            None => JumpTarget::TailCall,
        }
    }
}

/// Whether more than a return address lies above the stack pointer, so that this is no function's beginning.
fn has_frame(cfa_rsp_offset: Option<i64>) -> bool {
    cfa_rsp_offset.is_some_and(|offset| offset != 8)
}
