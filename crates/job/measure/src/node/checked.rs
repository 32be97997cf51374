//! When the recorded iterations of a node's ranks began, and whether each began where it was counted.
//!
//! Next: `job::checked`, which compares all ranks.

use super::kept::relation_of;
use super::observe::Stream;
use super::team::Member;
use super::{Wanted, Window, header};
use crate::excerpt::Excerpt;
use crate::request::RankCheck;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;
use trimtab_window::reduce::Marks;
use trimtab_window::{MarkTimes, Relation};

/// Latest iterations of each rank that are compared with those of others.
const MARKS_MAX: usize = 96;

impl Window<'_> {
    pub(super) fn check_marks(&mut self, marks_max: usize) -> Vec<RankCheck> {
        self.read_streams();
        let ranks = self.team.members.iter().zip(&self.streams).zip(&self.wanted).zip(&self.offsets);
        ranks
            .map(|(((member, stream), wanted), offset)| RankCheck {
                is_miscounted: self.is_miscounted(member, stream, wanted),
                ..mark_times(member, stream, wanted, *offset, marks_max)
            })
            .collect()
    }

    /// The marks of all ranks as one value, their times on the lead's clock.
    pub(super) fn marks(&mut self, clocks: &[(u32, Relation)]) -> Marks {
        let relation = relation_of(clocks, self.node);
        let mut all = Marks::default();
        for mut rank in self.check_marks(MARKS_MAX) {
            rank.marks.onto_lead(&relation);
            let one = Marks::of(&rank.marks, &rank.iterations, rank.is_miscounted);
            // A rank that is here twice counts once.
            let _twice = all.merge(one);
        }
        all
    }

    /// True if an iteration recorded on this rank began at another pass than the one that was counted: then the call
    /// site was passed another number of times in an iteration before it.
    fn is_miscounted(&self, member: &Member, stream: &Stream, wanted: &Wanted) -> bool {
        let recorded = recorded(member);
        let is_recorded =
            |at: &usize| stream.passes[*at] > 0 && recorded.contains(&((stream.passes[*at] - 1) / wanted.every));
        let begins = wanted.marks(&self.team, stream).into_iter();
        wanted.every > 1 && begins.filter(is_recorded).any(|at| marked(member, stream, wanted, at).is_none())
    }
}

fn recorded(member: &Member) -> RangeInclusive<u64> {
    header(member).start.load(Relaxed)..=header(member).end.load(Relaxed)
}

/// The iteration that a pass of the marker's call site marks on this rank; `None`: it is one of the others of its
/// iteration, or was not counted.
fn marked(member: &Member, stream: &Stream, wanted: &Wanted, at: usize) -> Option<u64> {
    let phase = header(member).marker_phase.load(Relaxed);
    let is_counted = stream.events[at].enter_ticks > wanted.since_ticks;
    // A call's record shows the passes after it was counted, hence the one less.
    let pass = stream.passes[at].checked_sub(1).filter(|_| is_counted)?;
    (pass % wanted.every == phase).then_some(pass / wanted.every)
}

/// The latest `events_max` calls from the first mark to the last that could have waited, or been waited for.
fn waiting_calls(stream: &Stream, marks: Vec<usize>, events_max: usize) -> Excerpt {
    let (Some(first), Some(last)) = (marks.first(), marks.last()) else { return Excerpt::default() };
    let is_wanted = |at: &usize| {
        let event = &stream.events[*at];
        let is_collective = (event.synchronising && event.comm == 0) || event.is_of_world();
        let is_of_message = event.is_send || event.is_receive || event.ends_posted;
        is_collective || is_of_message || marks.binary_search(at).is_ok()
    };
    let mut wanted: Vec<usize> = (*first..=*last).filter(is_wanted).collect();
    wanted.drain(..wanted.len().saturating_sub(events_max));
    Excerpt {
        events: wanted.iter().map(|at| stream.events[*at]).collect(),
        marks: marks.iter().filter_map(|mark| wanted.binary_search(mark).ok()).collect(),
    }
}

fn mark_times(member: &Member, stream: &Stream, wanted: &Wanted, offset: i64, marks_max: usize) -> RankCheck {
    let recorded = recorded(member);
    let mark = |at: usize| {
        let iteration = marked(member, stream, wanted, at).filter(|number| recorded.contains(number))?;
        wanted.is_call(stream.events[at].symbol()).then_some((iteration.saturating_add_signed(offset), at))
    };
    let mut marks: Vec<(u64, usize)> = (0..stream.events.len()).filter_map(mark).collect();
    marks.drain(..marks.len().saturating_sub(marks_max));
    let events = || marks.iter().map(|(_, at)| &stream.events[*at]);
    RankCheck {
        is_miscounted: false,
        calls: waiting_calls(stream, marks.iter().map(|(_, at)| *at).collect(), marks_max),
        iterations: marks.iter().map(|(iteration, _)| *iteration).collect(),
        marks: MarkTimes {
            rank: member.process.rank.0,
            first_iteration: recorded.start().saturating_add_signed(offset) as i64,
            enter_ticks: events().map(|event| event.enter_ticks).collect(),
            exit_ticks: events().map(|event| event.exit_ticks).collect(),
            uncertainty_ticks: 0,
        },
    }
}
