//! A node's recording on the lead's clock, so that the samples of all nodes can be compared and added.
//!
//! Next: `assemble`, which takes samples of one clock.

use crate::clock::Relation;
use crate::event::CallEvent;
use crate::input::{RankSample, TeamSample};
use crate::verify::MarkTimes;

/// 0 stands for a moment that was not seen.
fn moment(relation: &Relation, ticks: &mut u64) {
    if *ticks != 0 {
        *ticks = relation.to_lead(*ticks).ticks;
    }
}

impl RankSample {
    /// Moments and durations on the lead's clock instead of the node's.
    pub fn onto_lead(&mut self, relation: &Relation) {
        let at = |ticks: &mut u64| moment(relation, ticks);
        let span = |ticks: &mut u64| *ticks = relation.span(*ticks);
        at(&mut self.first_ticks);
        at(&mut self.last_ticks);
        for mark in &mut self.marks {
            at(&mut mark.ticks);
            span(&mut mark.comm_ticks);
        }
        for function in &mut self.functions {
            at(&mut function.first_ticks);
            at(&mut function.last_ticks);
            span(&mut function.ticks);
        }
        self.paths.iter_mut().for_each(|path| span(&mut path.ticks));
        span(&mut self.comm_ticks);
        self.threads.iter_mut().for_each(|thread| span(&mut thread.comm_ticks));
        self.group_ticks.iter_mut().for_each(|(_, ticks)| span(ticks));
        self.team.iter_mut().flat_map(TeamSample::spans).for_each(span);
        for detail in &mut self.details {
            at(&mut detail.enter_ticks);
            detail.ticks.iter_mut().for_each(span);
        }
    }
}

impl CallEvent {
    /// Entry and return on the lead's clock instead of the node's.
    pub fn onto_lead(&mut self, relation: &Relation) {
        self.moments().for_each(|ticks| moment(relation, ticks));
    }

    /// Entry and return on the node's clock instead of the lead's.
    pub fn onto_node(&mut self, relation: &Relation) {
        self.moments().filter(|ticks| **ticks != 0).for_each(|ticks| *ticks = relation.to_node(*ticks));
    }

    fn moments(&mut self) -> impl Iterator<Item = &mut u64> {
        [&mut self.enter_ticks, &mut self.exit_ticks, &mut self.completed_ticks].into_iter()
    }
}

impl MarkTimes {
    /// Marks on the lead's clock instead of the node's, with the error that adds.
    pub fn onto_lead(&mut self, relation: &Relation) {
        let errors = self.enter_ticks.iter().map(|ticks| relation.to_lead(*ticks).error_ticks);
        self.uncertainty_ticks += errors.max().unwrap_or(0);
        for ticks in self.enter_ticks.iter_mut().chain(&mut self.exit_ticks) {
            moment(relation, ticks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Reading;
    use crate::input::{FunctionSample, IterationMark, ThreadSample};

    #[test]
    fn moments_are_moved_and_durations_scaled() {
        // The node counts twice as fast and began at 1000 when the lead showed 100.
        let start = Reading { lead_ticks: 100, node_ticks: 1000, error_ticks: 3 };
        let relation = Relation::begun(start, 1e9, 2e9);
        let mut sample = RankSample {
            first_ticks: 1200,
            last_ticks: 0,
            marks: vec![IterationMark { ticks: 1400, comm_ticks: 60 }],
            functions: vec![FunctionSample {
                ticks: 20,
                first_ticks: 1002,
                last_ticks: 0,
                calls: 7,
                ..Default::default()
            }],
            threads: vec![ThreadSample { comm_ticks: 8 }],
            comm_ticks: 10,
            ..RankSample::default()
        };
        sample.onto_lead(&relation);
        assert_eq!((sample.first_ticks, sample.last_ticks), (200, 0), "0 is no moment");
        assert_eq!(sample.marks, [IterationMark { ticks: 300, comm_ticks: 30 }]);
        let function = sample.functions[0];
        assert_eq!((function.ticks, function.first_ticks, function.last_ticks, function.calls), (10, 101, 0, 7));
        assert_eq!((sample.threads[0].comm_ticks, sample.comm_ticks), (4, 5));
        let mut marks = MarkTimes {
            rank: 0,
            first_iteration: 4,
            enter_ticks: vec![1200],
            exit_ticks: vec![0],
            uncertainty_ticks: 1,
        };
        marks.onto_lead(&relation);
        assert_eq!((marks.enter_ticks, marks.exit_ticks), (vec![200], vec![0]));
        assert!(marks.uncertainty_ticks >= 4, "the error of the reading and its own");
    }
}
