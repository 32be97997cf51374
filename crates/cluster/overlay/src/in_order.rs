//! Puts the commands of a link back in order.
//!
//! A transport should keep order, but two connections of one pair, or a network that is simulated, need not. A frame
//! that is missing for good stops the link's heartbeats as well, so the link counts as broken by silence, and is
//! made anew.
//!
//! Next: `node::parent` and `node::children`, which own one per link.

use crate::limits::OVERTAKE_COUNT_MAX;
use std::collections::BTreeMap;

/// The arrivals of a link, numbered from 0 by its sender.
#[derive(Debug)]
pub(crate) struct InOrder<T> {
    next: u32,
    early: BTreeMap<u32, T>,
}

/// More overtook a missing command than is kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooEarly;

impl<T> InOrder<T> {
    pub(crate) fn new() -> Self {
        InOrder { next: 0, early: BTreeMap::new() }
    }

    /// True if an arrival is the next, as nearly all are: it is to be handled now, and then [`InOrder::overtook`].
    pub(crate) fn is_next(&mut self, order: u32) -> bool {
        if order != self.next {
            return false;
        }
        self.next += 1;
        true
    }

    /// Keeps an arrival that isn't the next until it is; repetitions vanish.
    #[cold]
    pub(crate) fn keep(&mut self, order: u32, what: T) -> Result<(), TooEarly> {
        if order > self.next {
            self.early.insert(order, what);
        }
        if self.early.len() > OVERTAKE_COUNT_MAX { Err(TooEarly) } else { Ok(()) }
    }

    /// The arrival that came too early and is next now.
    pub(crate) fn overtook(&mut self) -> Option<T> {
        if self.early.is_empty() {
            return None;
        }
        let what = self.early.remove(&self.next)?;
        self.next += 1;
        Some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_restored_and_repetitions_vanish() {
        let mut link = InOrder::new();
        let mut arrive = |order, what| {
            if !link.is_next(order) {
                return link.keep(order, what).map(|()| String::new());
            }
            Ok([what].into_iter().chain(std::iter::from_fn(|| link.overtook())).collect())
        };
        for (order, what, ready) in [(1, 'b', ""), (2, 'c', ""), (0, 'a', "abc"), (1, 'b', ""), (3, 'd', "d")] {
            assert_eq!(arrive(order, what), Ok(ready.to_owned()));
        }
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut link = InOrder::new();
        let results: Vec<bool> =
            (1..=OVERTAKE_COUNT_MAX as u32 + 1).map(|order| link.keep(order, ()).is_ok()).collect();
        assert_eq!(results.iter().filter(|fits| !**fits).count(), 1);
    }
}
