//! Puts the commands of a link back in order.
//!
//! A transport should keep order, but two connections of one pair, or a network that is simulated, need not. What is
//! missing for good stops the link's heartbeats as well, so the link counts as broken by silence, and is made anew.
//!
//! Next: `node::parent` and `node::children`, which own one per link.

use crate::limits::OVERTAKE_COUNT_MAX;
use std::collections::BTreeMap;

/// What arrives on a link, numbered from 0 by its sender.
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

    /// Takes one arrival and gives all that can be handled now; repetitions vanish.
    pub(crate) fn take(&mut self, order: u32, what: T) -> Result<Vec<T>, TooEarly> {
        if order < self.next {
            return Ok(Vec::new());
        }
        if order > self.next {
            self.early.insert(order, what);
            return if self.early.len() > OVERTAKE_COUNT_MAX { Err(TooEarly) } else { Ok(Vec::new()) };
        }
        let mut ready = vec![what];
        self.next += 1;
        while let Some(what) = self.early.remove(&self.next) {
            ready.push(what);
            self.next += 1;
        }
        Ok(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_restored_and_repetitions_vanish() {
        let mut link = InOrder::new();
        assert_eq!(link.take(1, 'b'), Ok(vec![]));
        assert_eq!(link.take(2, 'c'), Ok(vec![]));
        assert_eq!(link.take(0, 'a'), Ok(vec!['a', 'b', 'c']));
        assert_eq!(link.take(1, 'b'), Ok(vec![]));
        assert_eq!(link.take(3, 'd'), Ok(vec!['d']));
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut link = InOrder::new();
        let results: Vec<bool> =
            (1..=OVERTAKE_COUNT_MAX as u32 + 1).map(|order| link.take(order, ()).is_ok()).collect();
        assert_eq!(results.iter().filter(|fits| !**fits).count(), 1);
    }
}
