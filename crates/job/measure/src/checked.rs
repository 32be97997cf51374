//! Were the iterations that were counted the program's, and the same on all ranks? Asked of the last calls in the rings.
//!
//! Next: `readout` says what came of it.

use crate::counting::Wanted;
use crate::marker::{Marker, Observer};
use crate::observe::Stream;
use crate::team::{Member, Team};
use std::sync::atomic::Ordering::Relaxed;
use trimtab_session::ImageCache;
use trimtab_window::{MarkTimes, Verdict, verify};

/// Checks on the recorded marks themselves that all ranks recorded the same iterations.
pub(crate) fn verify_marks(team: &Team, marker: &Marker, cache: &ImageCache) -> Verdict {
    let Marker::Call(call) = marker else { return Verdict::NotChecked };
    let streams = Observer::new(team, cache).streams();
    let ranks = || team.members.iter().zip(&streams).zip(&call.wanted);
    if let Some(((member, _), _)) =
        ranks().find(|((member, stream), wanted)| is_miscounted(team, member, stream, wanted))
    {
        return Verdict::Miscounted { rank: member.process.rank.0 };
    }
    let offsets = ranks().zip(&call.offsets);
    let marks: Vec<MarkTimes> =
        offsets.map(|(((member, stream), wanted), offset)| mark_times(member, stream, wanted, *offset)).collect();
    verify(&marks, call.synchronises)
}

/// The iteration that a pass of the marker's call site marks on this rank; `None`: it is one of the others of its
/// iteration, or was not counted.
fn marked(member: &Member, stream: &Stream, wanted: &Wanted, at: usize) -> Option<u64> {
    let phase = member.inserted.view().header().marker_phase.load(Relaxed);
    let is_counted = stream.events[at].enter_ticks > wanted.since_ticks;
    // A call's record shows the passes after it was counted, hence the one less.
    let pass = stream.passes[at].checked_sub(1).filter(|_| is_counted)?;
    (pass % wanted.every == phase).then_some(pass / wanted.every)
}

/// Whether an iteration recorded on this rank began at another pass than the one that was counted: then the call site
/// was passed another number of times in an iteration before it.
fn is_miscounted(team: &Team, member: &Member, stream: &Stream, wanted: &Wanted) -> bool {
    let header = member.inserted.view().header();
    let (start, end) = (header.start.load(Relaxed), header.end.load(Relaxed));
    let is_recorded =
        |at: &usize| stream.passes[*at] > 0 && (start..=end).contains(&((stream.passes[*at] - 1) / wanted.every));
    let begins = wanted.marks(team, stream).into_iter();
    wanted.every > 1 && begins.filter(is_recorded).any(|at| marked(member, stream, wanted, at).is_none())
}

fn mark_times(member: &Member, stream: &Stream, wanted: &Wanted, offset: i64) -> MarkTimes {
    let header = member.inserted.view().header();
    let (start, end) = (header.start.load(Relaxed), header.end.load(Relaxed));
    let is_mark = |at: &usize| {
        let iteration = marked(member, stream, wanted, *at);
        wanted.is_call(stream.events[*at].symbol()) && iteration.is_some_and(|number| (start..=end).contains(&number))
    };
    let marks: Vec<usize> = (0..stream.events.len()).filter(is_mark).collect();
    MarkTimes {
        rank: member.process.rank.0,
        first_iteration: start as i64 + offset,
        enter_ticks: marks.iter().map(|at| stream.events[*at].enter_ticks).collect(),
        exit_ticks: marks.iter().map(|at| stream.events[*at].exit_ticks).collect(),
        uncertainty_ticks: 0,
    }
}
