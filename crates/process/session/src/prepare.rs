//! Where each function would be patched, decided while the process runs on.
//!
//! Code is read from the process and compared with its file, so that another tool's patches are noticed; control flow
//! is analysed; parts of a function that the compiler moved away (`.cold`) are found by their unwind tables. A function
//! is accepted only if its entry and, for timing, every exit can be patched.
//!
//! Next: `insert` carries it out.

use crate::changed::Witness;
use crate::decided::{Decision, Decisions, OwnSites};
use crate::error::Error;
use crate::handlers::{FaultHandlers, Watch};
use crate::how_far::LoopWatch;
use crate::inner::LoopRequest;
use crate::modules::{Module, Modules};
use crate::payload::Payload;
use crate::script::Lost;
use crate::side_by_side::side_by_side;
use crate::tails::{Edge, TailExit, Tails};
use crate::text::Text;
use crate::threads::FunctionRange;
use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::OnceLock;
use trimtab_os::{Gadgets, MappingTable, Memory, find_gadgets};
use trimtab_plan::{Holds, Leaving, PlannedFunction, PlannedSite, Unread};
use trimtab_stub::layout::{Probe, USER_GROUP, flag};
use trimtab_symbols::{FrameKind, fde_at, fingerprint, unwind_facts};
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::{
    Analysis, ClassifyJump, CodeRange, FunctionCode, JumpForm, JumpTarget, NEAR_JUMP_LEN, ReadMemory, Site, analyse,
    answers_in_flags, may_fault_in, own_sites,
};

/// A function that is to be measured.
#[derive(Clone, Debug)]
pub struct FunctionRequest {
    /// Name for people.
    pub name: String,
    /// Where it begins.
    pub address: ProcAddr,
    /// Its probe's work.
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
    /// Functions whose calls are seen but not where they end, although that was asked for.
    pub endless: Vec<Refused>,
    /// Exits that are jumps to other functions, of those whose ends were asked for.
    pub tails: Vec<TailExit>,
    /// Functions in which calls of several go on, by the numbers of their probes, with the numbers of those functions.
    pub shared: BTreeMap<u32, Vec<u32>>,
    /// Jumps out of functions, and where calls go on behind them.
    pub(crate) edges: Vec<Edge>,
    /// How it is read how far loops are, by their probes; the error: why it is not.
    pub watches: BTreeMap<u32, Result<LoopWatch, String>>,
    /// Bodies of a script that do not run at one of their places.
    pub lost: Vec<Lost>,
    pub(crate) arena_modules: Vec<(String, Range<u64>)>,
    pub(crate) gadgets: Gadgets,
    pub(crate) ranges: Vec<FunctionRange>,
    /// Bytes that patches need, by their first, with their end.
    pub(crate) taken: BTreeMap<u64, u64>,
    /// Text of the program itself.
    pub(crate) program: Range<u64>,
    /// The work of the code that goes in.
    pub(crate) payload: Payload,
    /// The process's fault handlers, as far as they were known.
    pub(crate) handlers: FaultHandlers,
    /// Code in which a thread may be about to set one.
    pub(crate) setters: Vec<Range<u64>>,
    /// Modules whose unwind tables say how callers are found where code is moved; none if nobody asks.
    pub(crate) framed: Vec<Module>,
    /// Every unwinder of the process is to find tables of our code.
    pub(crate) frames_reach_all: bool,
}

/// Farthest apart that code sharing one arena may lie: little beside how far a jump reaches, yet most libraries are
/// mapped side by side.
const ARENA_SPAN_MAX: u64 = 128 << 20;
/// Fragments one function may be split into.
const FRAGMENTS_MAX: usize = 16;
/// Go's stacks begin with a few hundred bytes and move, its scheduler interrupts threads by signal and looks up where they
/// stand, and its faults become panics by the address they happened at.
const GO_CODE: &str = "its file is a Go program, whose code may not be moved and whose stacks have no room for probes; C \
                       libraries that it calls can be probed";
/// Bytes behind a function that are looked at for padding.
const AFTER_MAX: u64 = 64;

impl Prepared {
    /// Decides about each of `requests`; several requests for one address become one probe.
    pub fn new(modules: &Modules, requests: &[FunctionRequest]) -> Result<Self, Error> {
        Prepared::with_loops(modules, requests, &[])
    }

    /// The same with loops whose passes are counted: each has a probe of its own, behind those of the functions.
    pub fn with_loops(modules: &Modules, requests: &[FunctionRequest], loops: &[LoopRequest]) -> Result<Self, Error> {
        let mut prepared = Prepared::decided(modules, requests, &OfWindow)?;
        let memory = modules.memory()?;
        prepared.add_loops(modules, memory.as_ref(), loops);
        if !prepared.hold_handlers(modules, memory.as_ref()) {
            return Prepared::with_loops(&modules.clone().with_handlers_unseen(), requests, loops);
        }
        prepared.describe_frames(modules, memory.as_ref());
        Ok(prepared)
    }

    /// The same as `purpose` wants it.
    pub(crate) fn decided(
        modules: &Modules,
        requests: &[FunctionRequest],
        purpose: &dyn Purpose,
    ) -> Result<Self, Error> {
        let memory = modules.memory()?;
        let gadgets = match &memory {
            Some(memory) => find_gadgets(modules.pid, memory, &modules.maps)?,
            // Nothing is ever inserted there.
            None => Gadgets { system_call: 0, signal_return: 0 },
        };
        let mut prepared = Prepared {
            functions: Vec::new(),
            probes: Vec::new(),
            addresses: Vec::new(),
            refused: Vec::new(),
            endless: Vec::new(),
            tails: Vec::new(),
            shared: BTreeMap::new(),
            edges: Vec::new(),
            watches: BTreeMap::new(),
            lost: Vec::new(),
            arena_modules: Vec::new(),
            gadgets,
            ranges: Vec::new(),
            taken: BTreeMap::new(),
            program: modules.modules.first().map_or(0..0, |module| module.text.clone()),
            payload: Payload::Window,
            handlers: modules.fault_handlers().clone(),
            setters: Vec::new(),
            framed: Vec::new(),
            frames_reach_all: false,
        };
        let mut known = HashSet::new();
        let requests: Vec<&FunctionRequest> = requests.iter().filter(|request| known.insert(request.address)).collect();
        let mut endless = Vec::new();
        let decided = all_sites(modules, memory.as_ref(), &requests);
        let mut tails = Tails::of(modules, memory.as_ref(), &requests, &decided, purpose);
        for (request, sites) in requests.iter().zip(decided) {
            match without_exits(request, &sites, purpose, &tails) {
                Some(reason) if purpose.counts(request, &reason) => {
                    endless.push((counted(request), reason.to_string()))
                }
                Some(reason) => prepared.take_in(request, Err(reason.to_string()), purpose),
                None => prepared.take_in(request, sites, purpose),
            }
        }
        let entries: Vec<&FunctionRequest> = endless.iter().map(|(request, _)| request).collect();
        for ((request, reason), sites) in endless.iter().zip(all_sites(modules, memory.as_ref(), &entries)) {
            if sites.is_ok() {
                prepared.endless.push(Refused { name: request.name.clone(), reason: reason.clone() });
            }
            prepared.take_in(request, sites, purpose);
        }
        prepared.follow(&mut tails);
        prepared.leave_out_unreachable(&modules.maps);
        prepared.link(&tails);
        Ok(prepared)
    }

    /// Accepts or refuses one function.
    fn take_in(&mut self, request: &FunctionRequest, sites: Decided<'_>, purpose: &dyn Purpose) {
        let refuse = |reason: String| Refused { name: request.name.clone(), reason };
        match sites {
            Ok(placed) if self.is_taken(&placed.sites) => {
                self.refused.push(refuse("it shares code with another function that is probed".into()));
            }
            Ok(placed) if !purpose.keeps_flags() && is_timed(request) && answers_in_flags_at(&placed) => {
                let reason = "it answers in the processor's flags, which a timed exit does not keep; a script can \
                              count it, or measure its callers";
                self.refused.push(refuse(reason.into()));
            }
            Ok(placed) => self.accept(request, placed),
            Err(reason) => self.refused.push(refuse(reason)),
        }
    }

    /// Places that would be patched because they were asked for.
    pub fn point_count(&self) -> usize {
        self.asked().map(|function| function.sites.len()).sum()
    }

    /// Functions that were asked for, without those that serve safety only.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &PlannedFunction> {
        self.functions.iter().filter(|function| function.holds != Holds::Only && !function.finds_frames)
    }

    /// All places that would be patched.
    pub(crate) fn site_count(&self) -> usize {
        self.functions.iter().map(|function| function.sites.len()).sum()
    }

    /// A number that stands for every decision: which bytes are patched, how, and what was refused why.
    pub fn digest(&self) -> u64 {
        use std::fmt::Write;
        let mut text = String::new();
        for site in self.functions.iter().flat_map(|function| &function.sites) {
            // Writing to a string does not fail.
            let _ = write!(text, "{site:?}");
        }
        for refused in &self.refused {
            // Where the file is mapped changes no decision.
            let words = refused.reason.split_whitespace().filter(|word| !word.contains("0x"));
            words.chain([refused.name.as_str()]).for_each(|word| text.push_str(word));
        }
        trimtab_stub::layout::checksum(text.as_bytes())
    }

    /// The program's own fault handler in words, if it has one: nothing that may fault or calls is moved then.
    pub fn own_fault_handler(&self) -> Option<&str> {
        self.handlers.own.as_deref()
    }

    /// The watch to keep while the probes are in: a fault handler that is set then would not find code that may fault.
    pub(crate) fn watch(&self) -> Option<Watch> {
        (self.handlers.own.is_none() && self.moves_faults()).then(|| Watch::new(&self.handlers))
    }

    /// True if code that may fault is to run elsewhere.
    fn moves_faults(&self) -> bool {
        let sites = self.functions.iter().flat_map(|function| &function.sites);
        sites.into_iter().any(|planned| {
            let carrier = planned.site.carrier.as_ref();
            may_fault_in(&planned.displaced, planned.site.displaced.start)
                || carrier.is_some_and(|carrier| may_fault_in(&planned.carrier, carrier.displaced.start))
        })
    }

    /// Number of the probe at `address`.
    pub fn probe_at(&self, address: ProcAddr) -> Option<u32> {
        self.addresses.iter().position(|known| *known == address).map(|index| index as u32)
    }

    /// True if another function's patches need bytes that these do.
    pub(crate) fn is_taken(&self, sites: &[PlannedSite]) -> bool {
        sites.iter().any(|planned| !self.may_take(&planned.site))
    }

    /// True if no other patch needs bytes that this one does.
    pub(crate) fn may_take(&self, site: &Site) -> bool {
        // Mostly functions come in the order of their addresses: nothing is taken there yet.
        let end = self.taken.last_key_value().map_or(0, |(_, end)| *end);
        let is_taken = |range: Range<u64>| {
            range.start < end
                && self.taken.range(..range.end).next_back().is_some_and(|(_, &taken_end)| taken_end > range.start)
        };
        !bytes_of(site).any(is_taken)
    }

    /// Keeps others from the bytes of these patches.
    pub(crate) fn take(&mut self, sites: &[PlannedSite]) {
        self.taken.extend(sites.iter().flat_map(bytes_used).map(|range| (range.start, range.end)));
    }

    pub(crate) fn accept(&mut self, request: &FunctionRequest, Placed { module, sites, size, .. }: Placed<'_>) {
        let arena = self.arena_of(module);
        let probe = self.probes.len() as u32;
        let name = request.name.clone();
        self.take(&sites);
        self.functions.push(PlannedFunction::new(name, probe, (arena, sites)));
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

/// For what functions are probed.
pub(crate) trait Purpose {
    /// True if exits keep the processor's flags.
    fn keeps_flags(&self) -> bool;
    /// True if calls are followed into functions that are jumped to.
    fn follows_jumps(&self) -> bool;
    /// True if a call that comes back to its function by jumps stays one call there.
    fn follows_rounds(&self) -> bool;
    /// True if it matters when calls of a function end, or what they return, and not only that it is left.
    fn asks_for_ends(&self, request: &FunctionRequest) -> bool;
    /// True if a function is worth its entry alone, if its exits can't be seen for this reason.
    fn counts(&self, request: &FunctionRequest, why: &NoExits) -> bool;
}

/// Windows time functions. One that can't be patched is left out; one that is left only by jumps where its calls are not
/// followed is counted.
pub(crate) struct OfWindow;

impl Purpose for OfWindow {
    fn keeps_flags(&self) -> bool {
        false
    }

    fn follows_jumps(&self) -> bool {
        true
    }

    fn follows_rounds(&self) -> bool {
        true
    }

    fn asks_for_ends(&self, _: &FunctionRequest) -> bool {
        true
    }

    fn counts(&self, _: &FunctionRequest, why: &NoExits) -> bool {
        matches!(why, NoExits::Jumps { .. })
    }
}

/// Why it can't be seen where calls of a function end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoExits {
    /// Each way out is a jump to another function.
    #[error("it is left only by jumps to other functions{to}, where its calls go on, so when they end is not seen")]
    Jumps {
        /// Names of some of them.
        to: String,
    },
    /// Its exits can't be patched, or it has none.
    #[error("{0}")]
    Refused(String),
}

/// Why exits that are asked for can't be seen; `None`: they can, or nobody asks.
fn without_exits(
    request: &FunctionRequest,
    sites: &Decided<'_>,
    purpose: &dyn Purpose,
    tails: &Tails<'_>,
) -> Option<NoExits> {
    match sites {
        _ if !is_timed(request) => None,
        Ok(_) if !purpose.asks_for_ends(request) => None,
        Ok(_) => tails.endless(request.address).map(|names| {
            let to = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            NoExits::Jumps { to }
        }),
        Err(reason) => Some(NoExits::Refused(reason.clone())),
    }
}

/// The same function without its exits. The search for loops and waits is not shown calls of the library that never end;
/// one that the user named may mark iterations, so its calls are.
fn counted(request: &FunctionRequest) -> FunctionRequest {
    let unseen = if request.probe.group == USER_GROUP { flag::TIMED } else { flag::TIMED | flag::RING };
    let flags = request.probe.flags & !unseen;
    FunctionRequest { probe: Probe { flags, ..request.probe }, ..request.clone() }
}

pub(crate) fn answers_in_flags_at(placed: &Placed<'_>) -> bool {
    placed.sites.iter().any(|site| site.answers_in_flags)
}

/// Every byte that a patch overwrites or takes out of use.
pub(crate) fn bytes_used(planned: &PlannedSite) -> impl Iterator<Item = Range<u64>> {
    bytes_of(&planned.site)
}

fn bytes_of(site: &Site) -> impl Iterator<Item = Range<u64>> + use<> {
    let apart = match (&site.carrier, site.jump) {
        (Some(carrier), _) => Some(carrier.covered()),
        (None, JumpForm::Short2 { via }) => Some(via..via + NEAR_JUMP_LEN),
        (None, JumpForm::Near5) => None,
    };
    [Some(site.covered()), apart].into_iter().flatten()
}

/// Where one function is patched.
pub(crate) struct Placed<'a> {
    pub module: &'a Module,
    pub sites: Vec<PlannedSite>,
    /// Bytes of the function.
    size: u64,
    /// Where its code lies, the padding behind it included.
    pub parts: Vec<Range<u64>>,
}

/// The decision about one function, or why it can't be patched.
pub(crate) type Decided<'a> = Result<Placed<'a>, String>;
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
            return (Err("it lies in no readable module".into()), None);
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
type ChosenSites = (Vec<PlannedSite>, Vec<Range<u64>>);

/// One piece of a function: where, its bytes, and the bytes behind it.
struct Piece<'a> {
    address: u64,
    bytes: &'a [u8],
    after: &'a [u8],
}

impl<'a> Subject<'a> {
    pub(crate) fn new(module: &'a Module, memory: Option<&'a Memory>, modules: &'a Modules) -> Self {
        let faults_stay = modules.own_fault_handler().is_some();
        let witness = Witness::new(modules.pid, &modules.maps);
        let (text, is_of_go) = (Text::new(module, memory, witness), OnceLock::new());
        Subject { module, memory, maps: &modules.maps, text, faults_stay, is_of_go }
    }

    /// Where a function is patched, by what is `known` or else by a new decision; that too, if it is worth keeping.
    fn sites(&self, request: &FunctionRequest, known: &Decisions) -> (Result<ChosenSites, String>, Option<Decision>) {
        let timed = is_timed(request);
        let start = self.module.bias.to_file(request.address).0;
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
    fn code_in(&self, parts: &[Range<u64>]) -> Result<u64, String> {
        let to_proc = |address: u64| self.module.bias.to_proc(FileAddr(address)).0;
        let mut bytes = parts.iter().map(|part| self.text.bytes(to_proc(part.start)..to_proc(part.end)));
        bytes.try_fold(0u64, |all, part| Ok(all.rotate_left(1) ^ fingerprint(part?)))
    }

    fn chosen(&self, decision: &Decision, timed: bool) -> Result<ChosenSites, String> {
        let own = decision.outcome.as_ref().map_err(Clone::clone)?;
        let answers_in_flags = own.answers_in_flags;
        let planned = |site: &Site| {
            let planned = self.planned(site.shifted(self.module.bias.0))?;
            Ok(PlannedSite { answers_in_flags, ..planned })
        };
        let to_proc = |address: u64| self.module.bias.to_proc(FileAddr(address)).0;
        let parts = decision.parts.iter().map(|part| to_proc(part.start)..to_proc(part.end)).collect();
        Ok((own.chosen(timed)?.map(planned).collect::<Result<_, String>>()?, parts))
    }

    /// Decides anew; whether it is decided for good, or some memory that it depends on may yet change.
    fn decide(&self, address: ProcAddr) -> Result<(Decision, bool), String> {
        let tables = Tables::new(self);
        let decision = self.analysed_with(&tables, address, |code, analysis| {
            let parts = code.ranges.iter().map(|range| {
                let start = self.module.bias.to_file(ProcAddr(range.addr)).0;
                start..start + (range.bytes.len() + range.after.len()) as u64
            });
            let parts: Vec<Range<u64>> = parts.collect();
            let start = self.module.bias.to_file(address).0;
            let answers = answers_in_flags(code, analysis);
            let outcome = OwnSites::of(own_sites(code, analysis), self.module.bias.0, answers);
            Ok(Decision { start, code: self.code_in(&parts)?, parts, outcome })
        })?;
        Ok((decision, !tables.may_change.get()))
    }

    /// Memory of the process; none for a file that is not loaded.
    pub(crate) fn memory(&self) -> Option<&'a Memory> {
        self.memory
    }

    /// Hands over the code of the function that begins at `address`, with its analysis.
    pub(crate) fn analysed<T>(
        &self,
        address: ProcAddr,
        then: impl FnOnce(&FunctionCode<'_>, &Analysis) -> Result<T, String>,
    ) -> Result<T, String> {
        self.analysed_with(&Tables::new(self), address, then)
    }

    fn analysed_with<T>(
        &self,
        tables: &Tables<'_>,
        address: ProcAddr,
        then: impl FnOnce(&FunctionCode<'_>, &Analysis) -> Result<T, String>,
    ) -> Result<T, String> {
        let is_of_go = || trimtab_symbols::is_of_go(self.module.loaded.file.bytes()).unwrap_or(false);
        if *self.is_of_go.get_or_init(is_of_go) {
            return Err(GO_CODE.into());
        }
        let file_address = self.module.bias.to_file(address);
        let image = &self.module.loaded.image;
        let function = image
            .function_at(file_address)
            .filter(|function| function.addr == file_address)
            .ok_or("no function begins there")?;
        if function.is_ifunc {
            let reason =
                "it is an indirect function: the loader chooses its code at run time; `trimtab points` finds it";
            return Err(reason.into());
        }
        if function.size == 0 {
            return Err("its size is unknown".into());
        }
        let facts =
            unwind_facts(self.module.loaded.file.bytes(), image, function).map_err(|error| error.to_string())?;
        let landing_pads: Vec<u64> = facts.landing_pads.iter().map(|pad| self.module.bias.to_proc(*pad).0).collect();
        let to_file = self.module.bias.0.wrapping_neg();
        let mut pieces = vec![self.piece(address.0, function.size)?];
        loop {
            let places = pieces.iter().map(|piece| piece.address..piece.address + piece.bytes.len() as u64 + AFTER_MAX);
            let (restartable, left_for) = self.module.loaded.restartable().in_process(self.module.bias, places);
            let outside = [self.outside_branches(&pieces), left_for].concat();
            let code = FunctionCode {
                entry: address.0,
                ranges: pieces.iter().map(range_of).collect(),
                landing_pads: &landing_pads,
                other_entries: &[],
                outside_branches: &outside,
                restartable: &restartable,
                faults_stay: self.faults_stay,
            };
            let analysis = analyse(&code, tables, self).map_err(|refusal| refusal.shifted(to_file).to_string())?;
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

    pub(crate) fn planned(&self, site: Site) -> Result<PlannedSite, String> {
        let read = |range: &Range<u64>| self.text.bytes(range.clone()).map(<[u8]>::to_vec);
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
    fn outside_branches(&self, pieces: &[Piece<'_>]) -> Vec<u64> {
        let bias = self.module.bias;
        let range = |piece: &Piece| {
            let start = bias.to_file(ProcAddr(piece.address));
            start..FileAddr(start.0 + piece.bytes.len() as u64)
        };
        let own: Vec<Range<FileAddr>> = pieces.iter().map(range).collect();
        let found = own.iter().flat_map(|range| self.module.loaded.branches_into(range.clone(), &own));
        found.map(|target| bias.to_proc(target).0).collect()
    }

    /// Bytes of one piece, which in a process must be as in the file.
    fn piece(&self, address: u64, size: u64) -> Result<Piece<'a>, String> {
        let file_end = FileAddr(self.module.bias.to_file(ProcAddr(address)).0 + size);
        let after = self.next_function(file_end).saturating_sub(file_end.0).min(AFTER_MAX);
        let (bytes, after) = self.text.bytes(address..address + size + after)?.split_at(size as usize);
        Ok(Piece { address, bytes, after })
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

/// True if exits are asked for too.
pub(crate) fn is_timed(request: &FunctionRequest) -> bool {
    request.probe.flags & flag::TIMED != 0
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
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let Some(memory) = self.subject.memory else {
            return self.subject.module.loaded.read_constant(FileAddr(address), buffer);
        };
        let Some(mapping) = self.subject.maps.at(address) else { return false };
        let is_read = !mapping.writable && memory.read(address, buffer).is_ok();
        // Memory that should be there may be missing because the program is ending, or executes another one.
        let is_inside = address.checked_add(buffer.len() as u64).is_some_and(|end| end <= mapping.end);
        if mapping.writable || (is_inside && !is_read) {
            self.may_change.set(true);
        }
        is_read
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
        // A place that begins like a called function has no frame there; its rules need not be read again.
        if let Some(frame) = image.frame_at(file_target).filter(|frame| frame.kind == FrameKind::Entry) {
            return if frame.addr == file_target { JumpTarget::TailCall } else { JumpTarget::Unknown };
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

/// True if more than a return address lies above the stack pointer, so that this is no function's beginning.
fn has_frame(cfa_rsp_offset: Option<i64>) -> bool {
    cfa_rsp_offset.is_some_and(|offset| offset != 8)
}
