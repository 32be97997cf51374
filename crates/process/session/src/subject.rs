//! One module of a process, or a file by itself: where each of its functions would be patched.
//!
//! Code is read from the process and compared with its file, so that another tool's patches are noticed; control flow
//! is analysed; parts of a function that the compiler moved away (`.cold`) are found by their unwind tables. A function
//! is accepted only if its entry and, for timing, every exit can be patched.
//!
//! Next: `prepare`, which asks of all functions.

use crate::changed::CodeReader;
use crate::decided::{Decision, Decisions, OwnSites};
use crate::modules::{Module, Modules};
use crate::obstacle::Obstacle;
use crate::request::FunctionRequest;
use crate::side_by_side::side_by_side;
use crate::text::Text;
use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;
use trimtab_os::{MappingTable, Memory};
use trimtab_plan::{Leaving, PlannedSite, Unread};
use trimtab_symbols::{FrameKind, fde_at, fingerprint, unwind_facts};
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::{
    Analysis, ClassifyJump, CodeRange, FunctionCode, JumpForm, JumpTarget, NEAR_JUMP_LEN, PatchSite, ReadMemory,
    analyse, answers_in_flags, own_sites,
};

/// Fragments one function may be split into.
const FRAGMENTS_MAX: usize = 16;
/// Bytes behind a function that are looked at for padding.
const AFTER_MAX: u64 = 64;

/// Where one function is patched.
pub(crate) struct Placed<'a> {
    pub module: &'a Module,
    pub sites: Vec<PlannedSite>,
    /// Bytes of the function.
    pub(crate) size: u64,
    /// Where its code lies, the padding behind it included.
    pub parts: Vec<Range<ProcAddr>>,
}

/// The decision about one function, or why it can't be patched.
pub(crate) type Decided<'a> = Result<Placed<'a>, Obstacle>;

/// The same, with the module's number and what is worth keeping; that is seldom anything, and large.
type Judged<'a> = (Decided<'a>, Option<Box<(usize, Decision)>>);

/// Decides about all functions; what has been decided about a file before is not decided again.
pub(crate) fn all_sites<'a>(
    modules: &'a Modules,
    memory: Option<&Memory>,
    requests: &[&FunctionRequest],
) -> Vec<Decided<'a>> {
    let subjects: Vec<Subject<'_>> =
        modules.modules.iter().map(|module| Subject::new(module, memory, modules)).collect();
    let faults_stay = modules.own_fault_handler().is_some();
    let mut counts = vec![0; subjects.len()];
    requests.iter().filter_map(|request| modules.index_of(request.address)).for_each(|index| counts[index] += 1);
    let known: Vec<_> =
        modules.modules.iter().zip(&counts).map(|(m, count)| m.loaded.decisions(*count, faults_stay)).collect();
    let judge = |request: &&FunctionRequest| -> Judged<'a> {
        let Some(index) = modules.index_of(request.address) else {
            return (Err(Obstacle::NoModule), None);
        };
        let (sites, new) = subjects[index].sites(request, &known[index]);
        let sites = sites.map_err(|reason| modules.why_unknown(request.address).unwrap_or(reason));
        let module = &modules.modules[index];
        let size_of = || Some(module.loaded.image.function_at(module.bias.to_file(request.address))?.size);
        let placed = sites.map(|(sites, parts)| Placed { module, sites, size: size_of().unwrap_or(0), parts });
        (placed, new.map(|new| Box::new((index, new))))
    };
    let mut new: Vec<Vec<Decision>> = vec![Vec::new(); subjects.len()];
    let mut all = Vec::with_capacity(requests.len());
    for (decided, decision) in side_by_side(requests, &judge) {
        all.push(decided);
        if let Some(decision) = decision {
            let (index, decision) = *decision;
            new[index].push(decision);
        }
    }
    for (module, new) in modules.modules.iter().zip(new).filter(|(_, new)| !new.is_empty()) {
        module.loaded.keep(new, faults_stay);
    }
    all
}

/// A module of a process, or a file by itself, to be judged.
pub(crate) struct Subject<'a> {
    pub(crate) module: &'a Module,
    /// Memory of the process; none for a file that is not loaded.
    memory: Option<&'a Memory>,
    maps: &'a MappingTable,
    text: Text<'a>,
    /// The program has a fault handler of its own.
    faults_stay: bool,
    /// True if Go's compiler made code of it, once that was asked.
    is_of_go: OnceLock<bool>,
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Subject").field("module", &self.module.path).finish_non_exhaustive()
    }
}

/// Places to patch, and where the function's code lies.
type ChosenSites = (Vec<PlannedSite>, Vec<Range<ProcAddr>>);

/// One piece of a function: where, its bytes, and the bytes behind it.
struct Piece<'a> {
    address: ProcAddr,
    bytes: &'a [u8],
    after: &'a [u8],
}

impl<'a> Subject<'a> {
    pub(crate) fn new(module: &'a Module, memory: Option<&'a Memory>, modules: &'a Modules) -> Self {
        let faults_stay = modules.own_fault_handler().is_some();
        let witness = CodeReader::new(modules.pid, &modules.maps);
        let (text, is_of_go) = (Text::new(module, memory, witness), OnceLock::new());
        Subject { module, memory, maps: &modules.maps, text, faults_stay, is_of_go }
    }

    /// Where a function is patched, by what is `known` or else by a new decision; that too, if it is worth keeping.
    fn sites(&self, request: &FunctionRequest, known: &Decisions) -> (Result<ChosenSites, Obstacle>, Option<Decision>) {
        let timed = request.work.sees_ends();
        let start = self.module.bias.to_file(request.address);
        if let Some(decision) = known.at(start).filter(|decision| self.still_holds(decision)) {
            return (self.chosen(decision, timed), None);
        }
        match self.decide(request.address) {
            Ok((decision, is_lasting)) => (self.chosen(&decision, timed), is_lasting.then_some(decision)),
            Err(reason) => (Err(reason), None),
        }
    }

    /// True if all code that a decision was made from is what it was.
    fn still_holds(&self, decision: &Decision) -> bool {
        self.code_in(&decision.parts).is_ok_and(|code| code == decision.code)
    }

    /// Stands for the code at these addresses of the file.
    fn code_in(&self, parts: &[Range<FileAddr>]) -> Result<u64, Obstacle> {
        let mut bytes = parts.iter().map(|part| self.text.bytes(self.in_process(part)));
        bytes.try_fold(0u64, |all, part| Ok(all.rotate_left(1) ^ fingerprint(part?)))
    }

    fn chosen(&self, decision: &Decision, timed: bool) -> Result<ChosenSites, Obstacle> {
        let own = decision.outcome.as_ref().map_err(|kept| Obstacle::Kept(kept.clone()))?;
        let answers_in_flags = own.answers_in_flags;
        let planned = |site: &PatchSite<FileAddr>| {
            let planned = self.planned(site.in_process(self.module.bias))?;
            Ok(PlannedSite { answers_in_flags, ..planned })
        };
        let parts = decision.parts.iter().map(|part| self.in_process(part)).collect();
        Ok((own.chosen(timed)?.map(planned).collect::<Result<_, Obstacle>>()?, parts))
    }

    /// Decides anew; whether it is decided for good, or some memory that it depends on may yet change.
    fn decide(&self, address: ProcAddr) -> Result<(Decision, bool), Obstacle> {
        let tables = Tables::new(self);
        let decision = self.analysed_with(&tables, address, |code, analysis| {
            let parts = code.ranges.iter().map(|range| {
                let start = self.module.bias.to_file(range.addr);
                start..start + (range.bytes.len() + range.after.len()) as u64
            });
            let parts: Vec<Range<FileAddr>> = parts.collect();
            let start = self.module.bias.to_file(address);
            let answers = answers_in_flags(code, analysis);
            let outcome = OwnSites::of(own_sites(code, analysis), self.module.bias, answers);
            Ok(Decision { start, code: self.code_in(&parts)?, parts, outcome })
        })?;
        Ok((decision, !tables.may_change.get()))
    }

    /// Where these bytes of the file are in the process.
    fn in_process(&self, range: &Range<FileAddr>) -> Range<ProcAddr> {
        self.module.bias.to_proc(range.start)..self.module.bias.to_proc(range.end)
    }

    /// Memory of the process; none for a file that is not loaded.
    pub(crate) fn memory(&self) -> Option<&'a Memory> {
        self.memory
    }

    /// Hands over the code of the function that begins at `address`, with its analysis.
    pub(crate) fn analysed<T>(
        &self,
        address: ProcAddr,
        then: impl FnOnce(&FunctionCode<'_>, &Analysis) -> Result<T, Obstacle>,
    ) -> Result<T, Obstacle> {
        self.analysed_with(&Tables::new(self), address, then)
    }

    fn analysed_with<T>(
        &self,
        tables: &Tables<'_>,
        address: ProcAddr,
        then: impl FnOnce(&FunctionCode<'_>, &Analysis) -> Result<T, Obstacle>,
    ) -> Result<T, Obstacle> {
        let is_of_go = || trimtab_symbols::is_of_go(self.module.loaded.file.bytes()).unwrap_or(false);
        if *self.is_of_go.get_or_init(is_of_go) {
            return Err(Obstacle::Go);
        }
        let file_address = self.module.bias.to_file(address);
        let image = &self.module.loaded.image;
        let function = image
            .function_at(file_address)
            .filter(|function| function.addr == file_address)
            .ok_or(Obstacle::NoFunction)?;
        if function.is_ifunc {
            return Err(Obstacle::Resolver);
        }
        if function.size == 0 {
            return Err(Obstacle::NoSize);
        }
        let facts = unwind_facts(self.module.loaded.file.bytes(), image, function)
            .map_err(|error| Obstacle::Unwind(error.to_string()))?;
        let bias = self.module.bias;
        let landing_pads: Vec<ProcAddr> = facts.landing_pads.iter().map(|pad| bias.to_proc(*pad)).collect();
        let mut pieces = vec![self.piece(address, function.size)?];
        loop {
            let places =
                pieces.iter().map(|piece| piece.address..piece.address + (piece.bytes.len() as u64 + AFTER_MAX));
            let (restartable, left_for) = self.module.loaded.restartable().in_process(bias, places);
            let outside = [self.outside_branches(&pieces), left_for].concat();
            let code = FunctionCode {
                entry: address,
                ranges: pieces.iter().map(range_of).collect(),
                landing_pads: &landing_pads,
                other_entries: &[],
                outside_branches: &outside,
                restartable: &restartable,
                faults_stay: self.faults_stay,
            };
            let analysis =
                analyse(&code, tables, self).map_err(|refusal| Obstacle::Kept(refusal.in_file(bias).to_string()))?;
            let jumped_into = analysis.external_jumps.iter().filter_map(|jump| self.around(jump.target));
            let mut new: Vec<Range<ProcAddr>> = analysis.fragments.iter().cloned().chain(jumped_into).collect();
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
                return Err(Obstacle::ManyParts);
            }
        }
    }

    /// The code around a jump's target, if that is in the middle of it and there is a frame: a jump there is no call.
    fn around(&self, target: ProcAddr) -> Option<Range<ProcAddr>> {
        let module = self.module;
        let file_target = module.bias.to_file(target);
        if module.loaded.image.stub_at(file_target).is_some() {
            return None;
        }
        let fde = fde_at(module.loaded.file.bytes(), &module.loaded.image, file_target).ok().flatten()?;
        // Stubs of the linker share one entry, and have no frame.
        (fde.range.start != file_target && has_frame(fde.cfa_rsp_offset_at)).then(|| self.in_process(&fde.range))
    }

    pub(crate) fn planned(&self, site: PatchSite) -> Result<PlannedSite, Obstacle> {
        let read = |range: &Range<ProcAddr>| self.text.bytes(range.clone()).map(<[u8]>::to_vec);
        let springboard = match site.jump {
            JumpForm::Near5 => Vec::new(),
            JumpForm::Short2 { via } => read(&(via..via + NEAR_JUMP_LEN))?,
        };
        let carrier = site.carrier.as_ref().map_or(Ok(Vec::new()), |carrier| read(&carrier.displaced))?;
        let (displaced, overwritten) = (read(&site.displaced)?, read(&site.overwritten)?);
        Ok(PlannedSite {
            displaced,
            overwritten,
            springboard,
            carrier,
            site,
            unread: Unread::default(),
            answers_in_flags: false,
            leaving: Leaving::Ends,
            exit_bodies: None,
        })
    }

    /// Where the rest of the module branches into these pieces.
    fn outside_branches(&self, pieces: &[Piece<'_>]) -> Vec<ProcAddr> {
        let bias = self.module.bias;
        let range = |piece: &Piece| {
            let start = bias.to_file(piece.address);
            start..start + piece.bytes.len() as u64
        };
        let own: Vec<Range<FileAddr>> = pieces.iter().map(range).collect();
        let found = own.iter().flat_map(|range| self.module.loaded.branches_into(range.clone(), &own));
        found.map(|target| bias.to_proc(target)).collect()
    }

    /// Bytes of one piece, which in a process must be as in the file.
    fn piece(&self, address: ProcAddr, size: u64) -> Result<Piece<'a>, Obstacle> {
        let file_end = self.module.bias.to_file(address) + size;
        let after = self.next_function(file_end).0.saturating_sub(file_end.0).min(AFTER_MAX);
        let (bytes, after) = self.text.bytes(address..address + (size + after))?.split_at(size as usize);
        Ok(Piece { address, bytes, after })
    }

    /// Where the next function or fragment begins, at or after `address`.
    fn next_function(&self, address: FileAddr) -> FileAddr {
        let image = &self.module.loaded.image;
        let first_after = |functions: &[trimtab_symbols::Function]| {
            functions.get(functions.partition_point(|function| function.addr < address)).map(|function| function.addr)
        };
        let bounds = [first_after(&image.functions), first_after(&image.fragments)];
        let segment = image.segments.iter().find(|s| address >= s.addr && address <= s.addr + s.file_size);
        let end = segment.map_or(address, |segment| segment.addr + segment.file_size);
        bounds.into_iter().flatten().min().unwrap_or(end).min(end)
    }
}

fn range_of<'a>(piece: &Piece<'a>) -> CodeRange<'a> {
    CodeRange { addr: piece.address, bytes: piece.bytes, after: piece.after }
}

/// Constant data of a process, as one function's analysis reads it.
struct Tables<'a> {
    subject: &'a Subject<'a>,
    /// True if it asked for what may be otherwise later: writable, which the loader of a program that just starts makes
    /// constant in part, or not to be read although it is mapped.
    may_change: Cell<bool>,
}

impl<'a> Tables<'a> {
    fn new(subject: &'a Subject<'a>) -> Self {
        Tables { subject, may_change: Cell::new(false) }
    }
}

impl ReadMemory for Tables<'_> {
    fn read(&self, address: ProcAddr, buffer: &mut [u8]) -> bool {
        let Some(memory) = self.subject.memory else {
            return self.subject.module.loaded.read_constant(self.subject.module.bias.to_file(address), buffer);
        };
        let Some(mapping) = self.subject.maps.at(address.0) else { return false };
        let is_read = !mapping.writable && memory.read(address.0, buffer).is_ok();
        // Memory that should be there may be missing because the program is ending, or executes another one.
        let is_inside = address.0.checked_add(buffer.len() as u64).is_some_and(|end| end <= mapping.end);
        if mapping.writable || (is_inside && !is_read) {
            self.may_change.set(true);
        }
        is_read
    }
}

impl ClassifyJump for Subject<'_> {
    fn classify(&self, target: ProcAddr) -> JumpTarget {
        if !self.module.text.contains(&target.0) {
            return JumpTarget::TailCall;
        }
        let file_target = self.module.bias.to_file(target);
        let image = &self.module.loaded.image;
        if image.stub_at(file_target).is_some() {
            return JumpTarget::TailCall;
        }
        if let Some(fragment) = image.fragment_at(file_target) {
            return JumpTarget::Fragment(self.in_process(&(fragment.addr..fragment.addr + fragment.size)));
        }
        // A place that begins like a called function has no frame there; its rules need not be read again.
        if let Some(frame) = image.frame_at(file_target).filter(|frame| frame.kind == FrameKind::Entry) {
            return if frame.addr == file_target { JumpTarget::TailCall } else { JumpTarget::Unknown };
        }
        let bytes = self.module.loaded.file.bytes();
        match fde_at(bytes, image, file_target).ok().flatten() {
            Some(fde) if fde.range.start == file_target => match has_frame(fde.cfa_rsp_offset_at) {
                true => JumpTarget::Fragment(self.in_process(&fde.range)),
                false => JumpTarget::TailCall,
            },
            // Of what begins with a frame, any place may be meant. The middle of a whole function is more likely what a
            // table says about another one, behind its end.
            Some(fde) => match fde_at(bytes, image, fde.range.start).ok().flatten() {
                Some(start) if has_frame(start.cfa_rsp_offset_at) => JumpTarget::Fragment(self.in_process(&fde.range)),
                _ => JumpTarget::Unknown,
            },
            // Procedure linkage stubs have no unwind entry of their own in some linkers' output.
            None => JumpTarget::TailCall,
        }
    }
}

/// True if more than a return address lies above the stack pointer, so that this is no function's beginning.
fn has_frame(cfa_rsp_offset: Option<i64>) -> bool {
    cfa_rsp_offset.is_some_and(|offset| offset != 8)
}

pub(crate) fn answers_in_flags_at(placed: &Placed<'_>) -> bool {
    placed.sites.iter().any(|site| site.answers_in_flags)
}

/// Every byte that a patch overwrites or takes out of use.
pub(crate) fn bytes_used(planned: &PlannedSite) -> impl Iterator<Item = Range<ProcAddr>> {
    bytes_of(&planned.site)
}

pub(crate) fn bytes_of(site: &PatchSite) -> impl Iterator<Item = Range<ProcAddr>> + use<> {
    let apart = match (&site.carrier, site.jump) {
        (Some(carrier), _) => Some(carrier.covered()),
        (None, JumpForm::Short2 { via }) => Some(via..via + NEAR_JUMP_LEN),
        (None, JumpForm::Near5) => None,
    };
    [Some(site.covered()), apart].into_iter().flatten()
}
