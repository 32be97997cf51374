//! Units that wait for credit of the parent, as runs.
//!
//! Each holds credit of the child it came from, or nobody's: those are bounded, and what finds no room is dropped, which
//! is always safe.
//!
//! Next: `waves`, which fills and sends it.

use crate::NodeId;
use crate::limits::{CREDIT, RUN_COUNT_MAX};
use crate::run::{Run, RunRef};
use std::collections::VecDeque;

/// Units of a node's own making that may wait for credit.
const OWN_COUNT_MAX: usize = 4_096;

const _: () = assert!(RUN_COUNT_MAX <= OWN_COUNT_MAX, "a run finds room in an empty queue");

/// The most units a queue may hold.
pub(super) fn queue_bound(child_count: usize) -> usize {
    OWN_COUNT_MAX + child_count * CREDIT as usize
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// In boxes, as frames take them: a queue that was used once is small.
    runs: VecDeque<(Box<Run>, Option<NodeId>)>,
    unit_count: usize,
    /// Of these, those that are nobody's credit.
    own_count: usize,
    /// Most units there ever were, and units dropped because there was no room.
    pub(super) count_max: usize,
    pub(super) dropped: u64,
}

impl Queue {
    pub(super) fn unit_count(&self) -> usize {
        self.unit_count
    }

    /// Puts a run behind the others that nobody else needs, and that holds nobody's credit: nearly always it is the only
    /// one, and then isn't copied.
    pub(super) fn push_own(&mut self, run: Run) {
        let (count, whole) = (run.unit_count(), run.view());
        if count == 0 || !self.runs.is_empty() || !whole.is_one_piece() {
            return self.push(whole, None);
        }
        // An empty queue has room for what may travel as one.
        (self.unit_count, self.own_count) = (count, count);
        self.count_max = self.count_max.max(count);
        self.runs.push_back((Box::new(run), None));
    }

    /// Puts a run behind the others. It holds credit of `from`, if anybody's, for whom room is kept.
    pub(super) fn push(&mut self, mut run: RunRef<'_>, from: Option<NodeId>) {
        if from.is_none() {
            let has_room = run.split_to(OWN_COUNT_MAX.saturating_sub(self.own_count));
            self.dropped += run.unit_count() as u64;
            run = has_room;
            self.own_count += run.unit_count();
        }
        self.unit_count += run.unit_count();
        self.count_max = self.count_max.max(self.unit_count);
        for piece in run.pieces() {
            let is_taken = self.runs.back_mut().is_some_and(|(run, of)| *of == from && run.take(&piece));
            if !is_taken {
                self.runs.push_back((Box::new(piece.into()), from));
            }
        }
    }

    /// The oldest units that can be sent together, `unit_count_max` at most, and whose credit they hold.
    pub(super) fn pop(&mut self, unit_count_max: usize) -> Option<(Box<Run>, Option<NodeId>)> {
        if unit_count_max == 0 {
            return None;
        }
        let (mut run, from) = self.runs.pop_front()?;
        if let Some(rest) = run.split_off(unit_count_max) {
            self.runs.push_front((Box::new(rest), from));
        }
        self.unit_count -= run.unit_count();
        self.own_count -= if from.is_none() { run.unit_count() } else { 0 };
        Some((run, from))
    }

    /// A child's link is gone: its units hold nobody's credit any more, and stay as far as there is room.
    pub(super) fn disown(&mut self, child: NodeId) {
        let before = self.unit_count;
        (self.unit_count, self.own_count) = (0, 0);
        let (unit_count, own_count) = (&mut self.unit_count, &mut self.own_count);
        self.runs.retain_mut(|(run, from)| {
            *from = from.filter(|from| *from != child);
            let count = run.unit_count();
            let has_room = from.is_some() || *own_count + count <= OWN_COUNT_MAX;
            *own_count += if has_room && from.is_none() { count } else { 0 };
            *unit_count += if has_room { count } else { 0 };
            has_room
        });
        self.dropped += (before - self.unit_count) as u64;
    }

    /// Everything that waits is of no use any more.
    pub(super) fn clear(&mut self) {
        self.runs = VecDeque::new();
        (self.unit_count, self.own_count) = (0, 0);
    }

    /// Gives back memory for what once waited, if nothing does.
    pub(super) fn rest(&mut self) {
        if self.runs.is_empty() {
            self.runs = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_reduce::{RankSet, Values};

    fn push(queue: &mut Queue, wave: u64, from: Option<NodeId>) {
        push_many(queue, wave, 1, from);
    }

    fn push_many(queue: &mut Queue, wave: u64, count: usize, from: Option<NodeId>) {
        let values: Values = (0..count).map(|_| b"v").collect();
        let (covers, values) = (&RankSet::EMPTY, values.view());
        queue.push(RunRef { epoch: 1, stream: 1, wave, attempt: 0, covers, values }, from);
    }

    fn counts(queue: &Queue) -> (usize, usize, u64) {
        (queue.unit_count, queue.own_count, queue.dropped)
    }

    #[test]
    fn what_comes_in_waves_goes_out_as_runs_as_long_as_credit() {
        let mut queue = Queue::default();
        (0..10).for_each(|wave| push(&mut queue, wave, None));
        push(&mut queue, 10, Some(NodeId(7)));
        let mut popped = |max| queue.pop(max).map(|(run, from)| (run.unit_count(), from));
        assert_eq!(popped(0), None);
        assert_eq!([popped(4), popped(9), popped(9)], [Some((4, None)), Some((6, None)), Some((1, Some(NodeId(7))))]);
        assert_eq!(popped(9), None);
        assert_eq!((counts(&queue), queue.count_max), ((0, 0, 0), 11));
    }

    #[test]
    fn own_units_are_bounded_and_those_of_children_have_their_room() {
        let mut queue = Queue::default();
        (0..7).for_each(|wave| push(&mut queue, wave, None));
        push_many(&mut queue, 7, OWN_COUNT_MAX - 2, None);
        assert!(queue.runs.iter().all(|(run, _)| run.unit_count() <= RUN_COUNT_MAX));
        push_many(&mut queue, 0, 3, Some(NodeId(7)));
        assert_eq!(counts(&queue), (OWN_COUNT_MAX + 3, OWN_COUNT_MAX, 5));
        queue.disown(NodeId(7));
        assert_eq!(counts(&queue), (OWN_COUNT_MAX, OWN_COUNT_MAX, 8));
        let sent: usize = std::iter::from_fn(|| queue.pop(usize::MAX)).map(|(run, _)| run.unit_count()).sum();
        assert_eq!((sent, counts(&queue)), (OWN_COUNT_MAX, (0, 0, 8)));
    }

    #[test]
    fn units_of_a_lost_child_stay_as_far_as_there_is_room() {
        let mut queue = Queue::default();
        (0..3).for_each(|wave| push(&mut queue, wave, Some(NodeId(7))));
        (3..5).for_each(|wave| push(&mut queue, wave, Some(NodeId(8))));
        queue.disown(NodeId(7));
        assert_eq!(counts(&queue), (5, 3, 0));
    }
}
