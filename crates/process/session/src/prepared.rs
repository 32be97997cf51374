//! All decisions about one process: what is patched where, what is left out and why, and which bytes are taken.
//!
//! Next: `prepare`, which makes them; `insert`, which carries them out.

use crate::handlers::{FaultHandlers, Watch};
use crate::how_far::{LoopWatch, NoReading};
use crate::modules::Module;
use crate::payload::Payload;
use crate::request::{Edge, FunctionRequest, Lost, Probed, Refused, TailExit};
use crate::subject::{Placed, bytes_of, bytes_used};
use std::collections::BTreeMap;
use std::ops::Range;
use trimtab_os::Gadgets;
use trimtab_plan::{Holds, PlannedFunction, PlannedSite};
use trimtab_stub::layout::Probe;
use trimtab_types::ProcAddr;
use trimtab_x86::{PatchSite, may_fault_in};

/// All decisions about one process, made without stopping it.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) functions: Vec<PlannedFunction>,
    /// Functions, jumps out of them, and loops, in order of their number.
    pub(crate) probes: Vec<Probed>,
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
    pub watches: BTreeMap<u32, Result<LoopWatch, NoReading>>,
    /// Bodies of a script that do not run at one of their places.
    pub lost: Vec<Lost>,
    pub(crate) arena_modules: Vec<(String, Range<u64>)>,
    pub(crate) gadgets: Gadgets,
    /// Bytes that patches need, by their first, with their end.
    pub(crate) taken: BTreeMap<ProcAddr, ProcAddr>,
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

impl Prepared {
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
            let reason = refused.reason.to_string();
            let words = reason.split_whitespace().filter(|word| !word.contains("0x"));
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
        self.probes.iter().position(|known| known.address == Some(address)).map(|index| index as u32)
    }

    /// The routine's probes, in order of their number; of a script or hold they say nothing.
    pub fn probes(&self) -> impl ExactSizeIterator<Item = &Probe> {
        self.probes.iter().map(|probed| probed.work.probe().unwrap_or(&Probe::ABSENT))
    }

    /// The routine's probe of this number.
    pub fn probe(&self, number: u32) -> Option<&Probe> {
        self.probes.get(number as usize)?.work.probe()
    }

    /// Where functions and loops that are probed begin.
    pub fn addresses(&self) -> impl Iterator<Item = ProcAddr> {
        self.probes.iter().filter_map(|probed| probed.address)
    }

    /// True if another function's patches need bytes that these do.
    pub(crate) fn is_taken(&self, sites: &[PlannedSite]) -> bool {
        sites.iter().any(|planned| !self.may_take(&planned.site))
    }

    /// True if no other patch needs bytes that this one does.
    pub(crate) fn may_take(&self, site: &PatchSite) -> bool {
        // Mostly functions come in the order of their addresses: nothing is taken there yet.
        let end = self.taken.last_key_value().map_or(ProcAddr(0), |(_, end)| *end);
        let is_taken = |range: Range<ProcAddr>| {
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
        let range = request.address.0..request.address.0 + size;
        self.probes.push(Probed { address: Some(request.address), range, work: request.work });
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
