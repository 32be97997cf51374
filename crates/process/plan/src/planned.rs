//! The functions and places that a plan is made of, and the memory it may use.
//!
//! Next: `build` and `build_script` in the crate's root, which make the plan.

use trimtab_types::ProcAddr;
use trimtab_x86::{Hold, Inline, PatchSite, Refusal, SiteKind};

/// A function with the places where it is to be patched.
#[derive(Clone, Debug)]
pub struct PlannedFunction {
    /// Name for people.
    pub name: String,
    /// Number of its probe.
    pub probe: u32,
    /// Arena its islands go to.
    pub arena: usize,
    /// Entry and exits.
    pub sites: Vec<PlannedSite>,
    /// The work that its islands may do without calling the routine.
    pub inline: Option<Inline>,
    /// Bodies of a script that run there instead of the routine.
    pub bodies: Option<FunctionBodies>,
    /// How it treats threads that set a fault handler.
    pub holds: Holds,
    /// It is a loop: its sites are places inside of a function, of which each pass goes through one.
    pub is_loop: bool,
    /// The unwinder asks it for entries of tables: nothing is asked of it but to find those of our code.
    pub finds_frames: bool,
}

impl PlannedFunction {
    /// A function whose probe runs the routine at each of its places.
    pub fn new(name: String, probe: u32, (arena, sites): (usize, Vec<PlannedSite>)) -> Self {
        let (holds, is_loop, finds_frames) = (Holds::No, false, false);
        PlannedFunction { name, probe, arena, sites, inline: None, bodies: None, holds, is_loop, finds_frames }
    }
}

/// How a function's entry treats threads that set a fault handler: held, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holds {
    /// They are not.
    #[default]
    No,
    /// They are, and then its probes run.
    Also,
    /// They are, and nothing else is asked of the function.
    Only,
}

impl Holds {
    pub(crate) fn hold(self, place: ArenaPlace, words: ProcAddr) -> Option<Hold> {
        (self != Holds::No).then_some(Hold { gate: place.gate, words })
    }
}

/// One place to patch, with the bytes that are there now.
#[derive(Clone, Debug)]
pub struct PlannedSite {
    /// The place.
    pub site: PatchSite,
    /// Bytes of `site.displaced`.
    pub displaced: Vec<u8>,
    /// Bytes of `site.overwritten`.
    pub overwritten: Vec<u8>,
    /// Bytes of its springboard, if it has one.
    pub springboard: Vec<u8>,
    /// Bytes of its carrier's displaced instructions, if it has one.
    pub carrier: Vec<u8>,
    /// The registers and flags that the program does not read any more where bodies run.
    pub unread: Unread,
    /// True if the caller may look at flags that the function leaves behind.
    pub answers_in_flags: bool,
    /// The code that runs where the site is an exit.
    pub leaving: Leaving,
    /// Bodies of a script that run there, if it is an exit, instead of those of all exits.
    pub exit_bodies: Option<Vec<usize>>,
}

/// The code that runs at an exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaving {
    /// The function's own probe: its calls end there.
    #[default]
    Ends,
    /// The probe with this number: calls go on elsewhere.
    With(u32),
    /// Nothing: what runs at the entry has seen to it.
    Nothing,
}

/// The registers and flags that a body may spoil without saving them: none, unless the function's code was followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// General registers.
    pub registers: trimtab_x86::RegisterSet,
    /// The arithmetic flags.
    pub flags: bool,
}

/// Where an arena will lie: a page with the gate word, then code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaPlace {
    /// Address of the gate word.
    pub gate: ProcAddr,
    /// Address of the code.
    pub code: ProcAddr,
    /// Bytes of code it has room for.
    pub capacity: u64,
}

/// Why no plan could be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A site that was accepted can't be carried out from where its arena lies.
    #[error("{function}: {source}")]
    Site {
        /// The function.
        function: String,
        /// Why.
        #[source]
        source: Refusal,
    },
    /// A script's body can't be compiled for a function.
    #[error("{function}: {reason}")]
    Body {
        /// The function.
        function: String,
        /// Why.
        reason: String,
    },
    /// The estimate of an arena's size was too small.
    #[error("arena {arena} needs {needed} bytes of code but has {capacity}; please report this")]
    ArenaFull {
        /// Which.
        arena: usize,
        /// Bytes needed.
        needed: u64,
        /// Bytes it has.
        capacity: u64,
    },
    /// Two sites want the same bytes.
    #[error("{first} and {second} would both be patched at {address}; leave one of them out")]
    Overlap {
        /// One function.
        first: String,
        /// The other.
        second: String,
        /// Where.
        address: ProcAddr,
    },
}

/// Bodies of one function, by their number in the unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionBodies {
    /// Run at its entry, in this order.
    pub entry: Vec<usize>,
    /// Run at each exit, in this order.
    pub exit: Vec<usize>,
    /// Run at an instruction inside it, in this order.
    pub point: Vec<usize>,
}

impl FunctionBodies {
    /// The same with what runs at one exit.
    pub(crate) fn at_site(&self, planned: &PlannedSite) -> FunctionBodies {
        let exit = planned.exit_bodies.as_ref().unwrap_or(&self.exit).clone();
        FunctionBodies { exit, ..self.clone() }
    }

    /// Those of one place.
    pub(crate) fn at(&self, kind: SiteKind) -> Vec<usize> {
        match kind {
            // A way inside a function is patched as an exit is, but its bodies are those of a point.
            _ if !self.point.is_empty() => self.point.clone(),
            SiteKind::Exit(_) => self.exit.clone(),
            SiteKind::Whole(_) => [&self.entry[..], &self.exit].concat(),
            SiteKind::Entry | SiteKind::At(_) => self.entry.clone(),
        }
    }
}

/// Alignment of what an island runs first: in one cache line a probe costs a third of a nanosecond less than in two.
pub(crate) const ISLAND_ALIGNMENT: usize = 64;
