//! Functions that are given an address: do they write to it, or keep it? They are followed into those that they give it to.
//!
//! Next: `trimtab-x86`'s `owned`, which looks at one function; `around` and `private`, which ask.

use crate::returns::{flow_of, imported};
use crate::subject::Subject;
use std::cell::Cell;
use std::ops::Range;
use trimtab_types::ProcAddr;
use trimtab_x86::{Care, Returned, Surroundings, leaves_alone};

/// Calls within calls that are looked at.
const DEPTH_MAX: u32 = 6;
/// Functions that are looked at for one place.
const FUNCTIONS_MAX: u32 = 200;

/// A function so many calls away from the one that has the address, while so many may be looked at.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    subject: &'a Subject<'a>,
    depth: u32,
    left: &'a Cell<u32>,
}

impl<'a> Given<'a> {
    /// The functions that may be looked at for one place.
    pub(crate) fn all() -> Cell<u32> {
        Cell::new(FUNCTIONS_MAX)
    }

    /// The first function; `left` as [`Given::all`] made it.
    pub(crate) fn new(subject: &'a Subject<'a>, left: &'a Cell<u32>) -> Self {
        Given { subject, depth: 0, left }
    }
}

impl Surroundings for Given<'_> {
    fn leaves_alone(&self, target: ProcAddr, register: u8, about: (Range<i64>, Care)) -> Option<Returned> {
        if self.depth == DEPTH_MAX || self.left.get() == 0 {
            return about.1.of_unknown(&about.0);
        }
        self.left.set(self.left.get() - 1);
        let further = Given { depth: self.depth + 1, ..*self };
        let seen = self.subject.analysed(target, |code, analysis| {
            let flow = flow_of(code, analysis, self.subject);
            Ok(leaves_alone(code, analysis, &flow, (register, &about.0, about.1), &further))
        });
        seen.unwrap_or_else(|_| about.1.of_unknown(&about.0))
    }

    fn imported(&self, target: ProcAddr) -> Option<String> {
        imported(self.subject, target)
    }
}
