//! The effect of statements on the words of one variable.
//!
//! Next: `crate::values`, which reads the words.

use crate::arithmetic::Number;
use crate::ir::{HISTOGRAM_BUCKETS, Kind, OPEN_CALL_BYTES, OPEN_CALLS_MAX, STACKS_WORDS};

/// A tree that breaks the rules of `ir`: a mistake of whoever made it, not of the script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// An operator with operands of the wrong kind.
    #[error("an operand of the wrong kind: {0}")]
    Operand(String),
    /// A variable, text or word that is not there.
    #[error("nothing of that number: {0}")]
    Missing(String),
}

/// The words of a variable.
pub(super) struct Table<'a> {
    pub kind: Kind,
    pub words: &'a mut [u64],
}

/// The bucket of a value: 0 for values below 1, then one per power of two.
pub(super) fn bucket(value: i64) -> usize {
    if value < 1 { 0 } else { 64 - value.leading_zeros() as usize }
}

impl Table<'_> {
    fn is_float(&self) -> bool {
        matches!(self.kind, Kind::SumFloat | Kind::LastFloat | Kind::MinFloat | Kind::MaxFloat)
    }

    fn wrong<T>(&self, value: Number) -> Result<T, Malformed> {
        Err(Malformed::Operand(format!("{value:?} for {:?}", self.kind)))
    }

    pub fn value(&self) -> Result<Number, Malformed> {
        match self.kind {
            Kind::Sum | Kind::SumFloat | Kind::Last | Kind::LastFloat => {
                Ok(Number::from_bits(self.words[0], self.is_float()))
            }
            kind => Err(Malformed::Operand(format!("{kind:?} has no one value"))),
        }
    }

    pub fn set(&mut self, value: Number) {
        self.words[0] = value.bits();
    }

    pub fn add(&mut self, value: Number) -> Result<(), Malformed> {
        self.words[0] = match (self.kind, value) {
            (Kind::Sum, Number::Int(value)) => self.words[0].wrapping_add(value as u64),
            (Kind::SumFloat, Number::Float(value)) => (f64::from_bits(self.words[0]) + value).to_bits(),
            _ => return self.wrong(value),
        };
        Ok(())
    }

    pub fn fold(&mut self, value: Number) -> Result<(), Malformed> {
        match (self.kind, value) {
            (Kind::Last, Number::Int(_)) | (Kind::LastFloat, Number::Float(_)) => self.set(value),
            (Kind::Min | Kind::Max, Number::Int(_)) | (Kind::MinFloat | Kind::MaxFloat, Number::Float(_)) => {
                self.extreme(value);
            }
            (Kind::Mean, Number::Float(value)) => {
                self.words[0] = (f64::from_bits(self.words[0]) + value).to_bits();
                self.words[1] += 1;
            }
            (Kind::Histogram, Number::Int(value)) => self.histogram(value),
            _ => return self.wrong(value),
        }
        Ok(())
    }

    /// A value takes the place of the first one, of one that it beats, or of one that is not a number.
    fn extreme(&mut self, value: Number) {
        let known = Number::from_bits(self.words[0], self.is_float());
        let minimum = matches!(self.kind, Kind::Min | Kind::MinFloat);
        let beats = match (value, known) {
            (Number::Int(a), Number::Int(b)) => (minimum && a < b) || (!minimum && a > b),
            (a, b) => {
                let (a, b) = (a.as_float(), b.as_float());
                b.is_nan() || (minimum && a < b) || (!minimum && a > b)
            }
        };
        if self.words[1] == 0 || beats {
            self.words[0] = value.bits();
        }
        self.words[1] += 1;
    }

    fn histogram(&mut self, value: i64) {
        self.words[bucket(value)] += 1;
        let [count, sum, min, max] = &mut self.words[HISTOGRAM_BUCKETS as usize..] else { return };
        *min = if *count == 0 { value } else { value.min(*min as i64) } as u64;
        *max = if *count == 0 { value } else { value.max(*max as i64) } as u64;
        *sum = sum.wrapping_add(value as u64);
        *count += 1;
    }

    /// Open addressing from the hash's high bits; what finds no place is counted in the last word.
    pub fn count_stack(&mut self, hash: u64) {
        let places = (STACKS_WORDS as usize - 2) / 2;
        let first = (hash >> (64 - places.ilog2())) as usize;
        for step in 0..places {
            let place = 2 * ((first + step) % places);
            if self.words[place] == 0 || self.words[place] == hash {
                self.words[place] = hash;
                self.words[place + 1] += 1;
                return;
            }
        }
        self.words[STACKS_WORDS as usize - 1] += 1;
    }

    /// Stack pointers and time stamps of the open calls, outermost first.
    fn open_calls(&self) -> Vec<(u64, u64)> {
        if self.words[2] == 0 {
            return Vec::new();
        }
        let outer = (self.words[0] / OPEN_CALL_BYTES).min(u64::from(OPEN_CALLS_MAX) - 1) as usize;
        let places = (0..outer).map(|number| 3 + 2 * number).chain([1]);
        places.map(|at| (!self.words[at + 1], self.words[at])).collect()
    }

    fn set_open_calls(&mut self, calls: &[(u64, u64)]) {
        let outer = calls.len().saturating_sub(1);
        self.words[0] = outer as u64 * OPEN_CALL_BYTES;
        self.words[2] = 0;
        let places = (0..outer).map(|number| 3 + 2 * number).chain([1]);
        for (at, (stack_pointer, ticks)) in places.zip(calls) {
            (self.words[at], self.words[at + 1]) = (*ticks, !stack_pointer);
        }
    }

    /// The calls that can still be open: the stack grows down, so a call entered at or below this stack pointer was left,
    /// by an exception, a long jump or a tail call.
    fn not_left(&self, stack_pointer: u64) -> Vec<(u64, u64)> {
        let mut calls = self.open_calls();
        while calls.last().is_some_and(|(entered_at, _)| *entered_at <= stack_pointer) {
            calls.pop();
        }
        calls
    }

    /// Remembers a call, unless too many are open.
    pub fn open_call(&mut self, stack_pointer: u64, now: u64) {
        let mut calls = self.not_left(stack_pointer);
        if calls.len() < OPEN_CALLS_MAX as usize {
            calls.push((stack_pointer, now));
        }
        self.set_open_calls(&calls);
    }

    /// When the call with this stack pointer was entered; changes nothing.
    pub fn entered(&self, stack_pointer: u64) -> Option<u64> {
        let calls = self.open_calls();
        calls.iter().rev().find(|(entered_at, _)| *entered_at == stack_pointer).map(|(_, ticks)| *ticks)
    }

    /// True if the innermost open call was left without an exit: it began below here or, unless this is an exit of its
    /// own, right here.
    pub fn was_left(&self, stack_pointer: u64, at_exit: bool) -> bool {
        let is_left = |began: u64| began < stack_pointer || (began == stack_pointer && !at_exit);
        self.open_calls().last().is_some_and(|(began, _)| is_left(*began))
    }

    /// Forgets the innermost open call.
    pub fn drop_call(&mut self) {
        let mut calls = self.open_calls();
        calls.pop();
        self.set_open_calls(&calls);
    }

    /// Forgets this call and what was left below it.
    pub fn close_call(&mut self, stack_pointer: u64) {
        let calls = self.not_left(stack_pointer);
        self.set_open_calls(&calls);
    }
}
