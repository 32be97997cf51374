//! Where does an iteration begin on a rank whose calls do not say it, so that it is the same iteration as on another?
//!
//! Iterations that repeat call by call (`word`) may be taken to begin at several of their calls. A rank's own longest
//! computation need not lie where the other ranks' does: in a sweep forth and back each rank begins with another half. A
//! cut is good if messages then stay within their iteration and leave one numbering of the iterations.
//!
//! Next: `align`, which is asked what each cut would give.

use crate::align::{Certainty, RankStream, align};
use crate::event::CallEvent;
use crate::formulas::median;

/// Cuts compared, those nearest in time: the same place of the program is passed at nearly the same time.
const CUTS_MAX: usize = 8;

/// How much worse, in iterations, another numbering must fit in time.
const MARGIN_MIN: f64 = 0.2;

/// Iterations of the other rank that are looked at; more would say the same and cost time.
const ITERATIONS_MAX: usize = 8;

/// One way to cut a stream into iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// Events that begin an iteration.
    pub marks: Vec<usize>,
    /// They are calls of the same call site as the other rank's marks.
    pub is_common: bool,
}

/// The position in `cuts` of the one whose iterations fit those of `reference` best; `None`: none of them says which
/// iterations are the same.
pub fn best_cut(reference: &RankStream, rank: u32, events: &[CallEvent], cuts: &[Cut]) -> Option<usize> {
    let mut nearest: Vec<(f64, usize)> =
        cuts.iter().enumerate().map(|(index, cut)| (distance(reference, events, &cut.marks), index)).collect();
    nearest.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    nearest.truncate(CUTS_MAX);
    let oldest = reference.occurrences.len().saturating_sub(ITERATIONS_MAX + 1);
    let from = reference.occurrences.get(oldest).map_or(0, |mark| reference.events[*mark].enter_ticks);
    let (first_events, first_marks) = since(from, reference.events, reference.occurrences);
    let first = RankStream { events: first_events, occurrences: &first_marks, ..*reference };
    let fit = |(_, index): &(f64, usize)| {
        let (events, marks) = since(from, events, &cuts[*index].marks);
        let is_common = cuts[*index].is_common;
        // The reference carries what both clocks may differ by.
        let (clock, uncertainty_ticks) = (reference.clock.wrapping_add(1), 0);
        let own = RankStream { rank, events, occurrences: &marks, is_common, clock, uncertainty_ticks, ..*reference };
        certainty(&align(&[first, own]))
    };
    // The first of equals is the nearest in time.
    let fits: Vec<(f64, usize)> = nearest.iter().map(|near| (fit(near), near.1)).collect();
    let best = fits.iter().map(|(fit, _)| *fit).fold(f64::NEG_INFINITY, f64::max);
    fits.iter().find(|(fit, _)| *fit >= best && *fit >= MARGIN_MIN).map(|(_, index)| *index)
}

/// The larger the surer: proven, then by how much worse other numberings are, then messages that cross iterations.
fn certainty(alignment: &crate::align::Alignment) -> f64 {
    match alignment.certainty {
        Certainty::Proven => 2.0,
        Certainty::Likely { margin, .. } if !alignment.messages_cross => margin,
        Certainty::Likely { margin, .. } => margin - 2.0,
    }
}

/// The part of a stream since a moment.
fn since<'a>(from: u64, events: &'a [CallEvent], marks: &[usize]) -> (&'a [CallEvent], Vec<usize>) {
    let skipped = events.partition_point(|event| event.enter_ticks < from);
    let marks = marks.iter().filter(|mark| **mark >= skipped).map(|mark| mark - skipped).collect();
    (&events[skipped..], marks)
}

/// Median distance in time from the marks to the reference's nearest; infinite if there is none.
fn distance(reference: &RankStream, events: &[CallEvent], marks: &[usize]) -> f64 {
    let times: Vec<u64> = reference.occurrences.iter().map(|mark| reference.events[*mark].enter_ticks).collect();
    let nearest = |ticks: u64| {
        let after = times.partition_point(|time| *time < ticks);
        let around = [after.checked_sub(1), Some(after)].into_iter().flatten().filter_map(|at| times.get(at));
        around.map(|time| time.abs_diff(ticks) as f64).min_by(f64::total_cmp)
    };
    // The reference may be shorter than what was seen of this rank: marks long before it are near nothing.
    let from = times.first().map_or(0, |first| first.saturating_sub(times.get(1).map_or(0, |next| next - first)));
    let ticks = marks.iter().map(|mark| events[*mark].enter_ticks).filter(|ticks| *ticks >= from);
    let gaps: Vec<f64> = ticks.filter_map(nearest).collect();
    median(&gaps).unwrap_or(f64::INFINITY)
}
