//! Requests: functions, loops and places that are to be patched, and the answers where that can't be done.
//!
//! Next: `prepared`, the answer as a whole.

use crate::obstacle::{NotFollowed, Obstacle};
use std::ops::Range;
use trimtab_plan::FunctionBodies;
use trimtab_stub::layout::{Probe, USER_GROUP, flag};
use trimtab_types::ProcAddr;

/// A function that is to be measured.
#[derive(Clone, Debug)]
pub struct FunctionRequest {
    /// Name for people.
    pub name: String,
    /// Where it begins.
    pub address: ProcAddr,
    /// The work of the code there.
    pub work: Work,
}

/// The work of the code at a function.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// A window's routine does what the probe says.
    Window(Probe),
    /// Bodies of a script run, or threads are held: the routine's probes say nothing of it.
    Code {
        /// Something runs where calls end.
        sees_ends: bool,
    },
}

impl Work {
    /// True if it matters where calls end.
    pub fn sees_ends(&self) -> bool {
        match self {
            Work::Window(probe) => probe.flags & flag::TIMED != 0,
            Work::Code { sees_ends } => *sees_ends,
        }
    }

    /// The routine's probe; `None`: it is not the routine that runs.
    pub fn probe(&self) -> Option<&Probe> {
        if let Work::Window(probe) = self { Some(probe) } else { None }
    }

    /// The same without ends. The search for loops and waits is not shown calls of the library that never end; one that the
    /// user named may mark iterations, so its calls are.
    pub(crate) fn counted(self) -> Work {
        match self {
            Work::Window(probe) => {
                let unseen = if probe.group == USER_GROUP { flag::TIMED } else { flag::TIMED | flag::RING };
                Work::Window(Probe { flags: probe.flags & !unseen, ..probe })
            }
            Work::Code { .. } => Work::Code { sees_ends: false },
        }
    }
}

impl From<Probe> for Work {
    fn from(probe: Probe) -> Work {
        Work::Window(probe)
    }
}

/// A function, a jump out of one, or a loop: all that is patched under one number.
#[derive(Clone, Debug)]
pub struct Probed {
    /// Where the function or the loop begins; `None`: it is a jump out of a function.
    pub address: Option<ProcAddr>,
    /// The function's code; empty of all else.
    pub(crate) range: Range<u64>,
    /// The work of the code there.
    pub work: Work,
}

/// A function that can't be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: Obstacle,
}

/// Where inside a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inner {
    /// Before the instruction at this address.
    Instruction(ProcAddr),
    /// Every pass of the loop with this number.
    Loop(Vec<u32>),
    /// Where control goes from a branch straight to another place.
    Way {
        /// The branch.
        from: ProcAddr,
        /// Where it leads, or what follows it.
        to: ProcAddr,
    },
}

/// A place inside a function and what runs there.
#[derive(Clone, Debug)]
pub struct InnerRequest {
    /// Name for people.
    pub name: String,
    /// Where the function begins.
    pub function: ProcAddr,
    /// Where in it.
    pub place: Inner,
    /// Bodies of the script, by number.
    pub bodies: Vec<usize>,
}

/// Behind the number of a loop: its entrances are meant.
pub const ENTRANCES: u32 = 0;
/// Between the numbers of two loops: passes of both are meant. It is no number of a loop.
pub const EITHER: u32 = u32::MAX;

/// A loop whose passes a window counts.
#[derive(Clone, Debug)]
pub struct LoopRequest {
    /// Name for people.
    pub name: String,
    /// Where the function begins.
    pub function: ProcAddr,
    /// The loop's number in it, as `points` shows it. None: calls of the function are counted in its place. With
    /// [`ENTRANCES`] behind it: passes of the blocks by which the loop is entered. With [`EITHER`] in it: passes of several.
    pub number: Vec<u32>,
    /// Its probe's work; its role is [`trimtab_stub::layout::role::LOOP`].
    pub probe: Probe,
}

/// The numbers of the loops that a number with [`EITHER`] means; of any other one that alone.
pub fn each_of(number: &[u32]) -> impl Iterator<Item = &[u32]> {
    number.split(|part| *part == EITHER)
}

/// A function and what runs there.
#[derive(Clone, Debug)]
pub struct ScriptRequest {
    /// Name for people.
    pub name: String,
    /// Where it begins.
    pub address: ProcAddr,
    /// The bodies.
    pub bodies: FunctionBodies,
    /// Bodies at the entry that only serve those at the exits.
    pub serve_exits: Vec<usize>,
    /// Bodies at the exits that ask how long the call took or what it returned.
    pub asking: Vec<usize>,
    /// True if the entry is of no use without the exits.
    pub needs_exits: bool,
}

/// A body of a script that does not run at one of its places, because that can't be patched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its number.
    pub body: usize,
    /// The place and the reason.
    pub reason: String,
}

/// How one exit of a function is seen that is a jump to another function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailExit {
    /// The function that is left.
    pub function: String,
    /// Address of the jump.
    pub at: ProcAddr,
    /// The function it leads to, in words.
    pub to: String,
    /// Why the call is not followed there; `None`: it ends where that function returns.
    pub unseen: Option<NotFollowed>,
}

/// A jump out of a function: the function's place among all, the site's among its own, and the number of the function in
/// which the call is followed.
pub(crate) type Edge = (usize, usize, Option<u32>);
