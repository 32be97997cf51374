//! The surroundings of a loop in its module, as they matter for counter and bound: functions that are called, and
//! variables.
//!
//! Next: `private` for variables; `trimtab-x86`'s `how_far`, which asks.

use crate::pointed::Given;
use crate::private::{calls_of, private_variable};
use crate::returns::{flow_of, imported, returns_twice};
use crate::subject::Subject;
use std::cell::Cell;
use std::ops::Range;
use trimtab_types::ProcAddr;
use trimtab_x86::{Care, CodeSource, ControlFlow, Loop, Returned, Surroundings, passes_own, writes_through};

/// Calls within calls that are looked at.
const DEPTH_MAX: u32 = 6;
/// Functions that are looked at for one place.
const FUNCTIONS_MAX: u32 = 200;

/// A loop and what is around it.
pub(crate) struct Around<'a> {
    pub(crate) subject: &'a Subject<'a>,
    /// Where the loop's function begins.
    pub(crate) entry: ProcAddr,
    pub(crate) flow: &'a ControlFlow,
    pub(crate) found: &'a Loop,
    pub(crate) keeps_counters: bool,
    /// Where in the source an instruction is from.
    pub(crate) source: &'a dyn Fn(ProcAddr) -> Option<CodeSource>,
}

impl Around<'_> {
    /// As [`Surroundings::writes`], `depth` calls away, while `left` functions may be looked at.
    fn writes_at(
        &self,
        target: ProcAddr,
        (register, bytes): (u8, Range<i64>),
        depth: u32,
        left: &Cell<u32>,
    ) -> Option<bool> {
        if depth == DEPTH_MAX || left.get() == 0 {
            return None;
        }
        left.set(left.get() - 1);
        let mut further = |target, register, bytes| self.writes_at(target, (register, bytes), depth + 1, left);
        let seen = self.subject.analysed(target, |code, analysis| {
            let flow = ControlFlow::of(analysis);
            Ok(writes_through(code, analysis, &flow, (register, &bytes), &mut further))
        });
        seen.ok()?
    }
}

impl Surroundings for Around<'_> {
    fn keeps_counters(&self) -> bool {
        self.keeps_counters
    }

    fn writes(&self, target: ProcAddr, register: u8, bytes: Range<i64>) -> Option<bool> {
        self.writes_at(target, (register, bytes), 0, &Cell::new(FUNCTIONS_MAX))
    }

    fn variable(&self, address: ProcAddr, bytes: u32) -> Option<Range<ProcAddr>> {
        private_variable(self.subject, (self.entry, self.flow, self.found), address, bytes)
    }

    fn leaves_alone(&self, target: ProcAddr, register: u8, about: (Range<i64>, Care)) -> Option<Returned> {
        Given::new(self.subject, &Given::all()).leaves_alone(target, register, about)
    }

    fn is_own_of_callers(&self, register: u8, bytes: Range<i64>) -> bool {
        let subject = self.subject;
        let Some(calls) = calls_of(subject, self.entry).filter(|calls| !calls.is_empty()) else {
            return false;
        };
        let left = Given::all();
        let called = Called { around: self, given: Given::new(subject, &left) };
        calls.into_iter().all(|(caller, call)| {
            let is_own = subject.analysed(caller, |code, analysis| {
                let flow = flow_of(code, analysis, subject);
                Ok(passes_own(code, analysis, &flow, (call, register, &bytes), &called))
            });
            is_own.unwrap_or(false)
        })
    }

    fn source(&self, at: ProcAddr) -> Option<CodeSource> {
        (self.source)(at)
    }

    fn returns_twice(&self, target: ProcAddr) -> bool {
        returns_twice(self.subject, target)
    }

    fn imported(&self, target: ProcAddr) -> Option<String> {
        imported(self.subject, target)
    }
}

/// A caller of the loop's function, and those that it gives an address to.
struct Called<'a> {
    around: &'a Around<'a>,
    given: Given<'a>,
}

impl Surroundings for Called<'_> {
    fn leaves_alone(&self, target: ProcAddr, register: u8, about: (Range<i64>, Care)) -> Option<Returned> {
        self.given.leaves_alone(target, register, about)
    }

    fn variable(&self, address: ProcAddr, bytes: u32) -> Option<Range<ProcAddr>> {
        self.around.variable(address, bytes)
    }

    fn imported(&self, target: ProcAddr) -> Option<String> {
        self.around.imported(target)
    }
}
