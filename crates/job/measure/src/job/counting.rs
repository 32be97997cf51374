//! The ranks' counters: seen to count the agreed call, aligned to one numbering.
//!
//! Next: `recording` arms the ranks.

use super::drive::WindowLead;
use super::marker::{LOOK_MS_MAX, MarkerCall};
use super::recording::is_somewhere_else;
use crate::error::Error;
use crate::node::PASSES_MIN;
use crate::options::WindowStage;
use crate::reason::NotYet;
use crate::request::{Answer, LoopEnds, RankPasses, Request};
use crate::runs::runs_of;
use std::time::Duration;
use trimtab_types::report::MarkerSource;
use trimtab_window::{Alignment, CallEvent, Certainty, RankStream, align};

/// Looks that must agree on an alignment that can't be proven, and passes they must rest on.
const ALIGN_LOOKS_MIN: usize = 3;
const ALIGN_PASSES_MIN: u64 = 8;

/// So many times more calls are asked for where the latest ones hold too few passes.
const MORE_EVENTS: u32 = 8;

/// Calls may hold too few passes for so long, seconds, and so many passes, before counters are asked.
const CALLS_SECONDS_MAX: f64 = 0.7;
const CALLS_PASSES_MAX: f64 = 4.0;

/// Ranks that are still in a loop which they do not pass are looked at again after so many times the time until then.
const LOOK_AGAIN_FACTOR: f64 = 1.5;

/// A proof by collectives is waited for this long.
const PROOF_SECONDS_MAX: f64 = 3.0;

/// Counters on one numbering.
pub(super) struct Aligned {
    pub alignment: Alignment,
    pub iteration_ticks: f64,
    pub synchronises: bool,
}

impl Aligned {
    pub(super) fn call(self, name: String, source: MarkerSource, description: Option<String>) -> MarkerCall {
        MarkerCall {
            name,
            source,
            certain: self.alignment.certainty == Certainty::Proven,
            explanation: self.alignment.explanation,
            iteration_ticks: self.iteration_ticks,
            synchronises: self.synchronises,
            description,
            main_loop: None,
            around: None,
        }
    }
}

/// How long to wait for a marker, seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// While some rank has not passed it once.
    pub silent_s: f64,
    /// For all that is needed.
    pub limit_s: f64,
    /// Passes of each rank before anything is made of them.
    pub passes_min: u64,
    /// The loop that it is, as a position among the measured functions: its counter also tells when it was passed, and the
    /// stacks whether ranks are still in it. `None`: a call.
    pub of_loop: Option<u32>,
}

/// A rank's passes on the clock of this process.
struct Row {
    node: u32,
    passes: RankPasses,
    uncertainty_ticks: u64,
}

/// Waits until every rank has passed its marker a few times, and aligns their counters. `Err` holds a rank that stayed
/// silent.
pub(super) fn aligned(
    lead: &mut WindowLead,
    Waiting { mut silent_s, limit_s, passes_min, of_loop }: Waiting,
) -> Result<Result<Aligned, u32>, Error> {
    let begun_s = lead.seconds();
    let mut wait_ms = 2;
    let mut same_looks = 0;
    let mut offsets_before = Vec::new();
    let (mut events_max, events_most) = (lead.membership.events_max(), lead.membership.events_most());
    let mut by_counter = false;
    loop {
        std::thread::sleep(Duration::from_millis(wait_ms));
        wait_ms = (wait_ms * 3 / 2).min(LOOK_MS_MAX);
        lead.check_interrupted()?;
        // In one process the messages cost nothing; elsewhere they are asked for where they are needed.
        let asked = Asked { fresh: true, with_messages: lead.membership.is_here(), by_counter };
        let rows = passes(lead, asked, events_max)?;
        let waited_s = lead.seconds() - begun_s;
        let pass_ticks = rows.iter().map(|row| row.passes.period_ticks).fold(0.0, f64::max);
        let calls_s = CALLS_SECONDS_MAX + CALLS_PASSES_MAX * lead.seconds_of(pass_ticks);
        if let Some(silent) = rows.iter().find(|row| row.passes.counted < passes_min) {
            if waited_s > if silent.passes.is_silent { silent_s } else { limit_s } {
                if waited_s > limit_s || !are_inside(lead, of_loop)? {
                    return Ok(Err(silent.passes.rank));
                }
                // A look holds the ranks for a moment: the longer a pass takes, the rarer it is.
                silent_s = waited_s * LOOK_AGAIN_FACTOR;
            }
            tell(lead, NotYet::FewPasses);
            by_counter |= waited_s > calls_s && of_loop.is_some();
            continue;
        }
        if let Some(apart) = apart(&rows) {
            // A pass of an outer loop may have more calls than were told, or than a rank remembers: one will do then, if
            // collectives prove which it is.
            let alignment = are_timed(&rows).then(|| align_passes(&rows));
            if let Some(alignment) = alignment.filter(|found| found.certainty == Certainty::Proven) {
                return Ok(Ok(numbered(lead, &rows, alignment)?));
            }
            if waited_s > limit_s {
                return Ok(Err(apart));
            }
            events_max = events_max.saturating_mul(MORE_EVENTS).min(events_most);
            tell(lead, NotYet::Apart);
            by_counter |= waited_s > calls_s && of_loop.is_some();
            continue;
        }
        let (rows, alignment) = align_rows(lead, rows, events_max, by_counter)?;
        same_looks = if alignment.offsets == offsets_before { same_looks + 1 } else { 1 };
        offsets_before.clone_from(&alignment.offsets);
        let enough = rows.iter().all(|row| row.passes.counted >= ALIGN_PASSES_MIN);
        // Where all ranks meet in collectives, one of those to come will prove it: a rank that was kept from running
        // between two of them is all that stands in the way.
        let may_be_proven = rows.iter().all(|row| row.passes.calls.events.iter().any(meets_all));
        let is_waited_for = may_be_proven && waited_s < PROOF_SECONDS_MAX;
        let is_settled = same_looks >= ALIGN_LOOKS_MIN && enough && !is_waited_for;
        if alignment.certainty == Certainty::Proven || is_settled || waited_s > limit_s {
            return Ok(Ok(numbered(lead, &rows, alignment)?));
        }
    }
}

/// True if some rank is in the loop, so that one that nobody passes may be one whose passes take long.
fn are_inside(lead: &mut WindowLead, of_loop: Option<u32>) -> Result<bool, Error> {
    of_loop.map_or(Ok(false), |function| is_somewhere_else(lead, function).map(|is_left| !is_left))
}

/// Tells the nodes their ranks' numbers.
fn numbered(lead: &mut WindowLead, rows: &[Row], alignment: Alignment) -> Result<Aligned, Error> {
    let offsets = rows.iter().map(|row| row.passes.rank).zip(alignment.offsets.iter().copied());
    lead.membership.tell(Request::Number { offsets: runs_of(offsets) })?;
    let iteration_ticks = rows.iter().map(|row| row.passes.period_ticks).fold(0.0, f64::max);
    Ok(Aligned { iteration_ticks, synchronises: false, alignment })
}

/// Of each rank at least one pass was told, and the time of one is known.
fn are_timed(rows: &[Row]) -> bool {
    rows.iter().all(|row| !row.passes.calls.marks.is_empty() && row.passes.period_ticks > 0.0)
}

/// A collective of all ranks that nobody leaves before all have entered.
fn meets_all(event: &CallEvent) -> bool {
    event.synchronising && event.comm == 0
}

fn tell(lead: &WindowLead, why: NotYet) {
    lead.progress.stage(&WindowStage::Observing { seconds: lead.seconds(), why });
}

/// The question about the ranks' passes, as in [`Request::Passes`].
#[derive(Clone, Copy, Debug)]
struct Asked {
    fresh: bool,
    with_messages: bool,
    by_counter: bool,
}

/// How all ranks passed, by rank.
fn passes(lead: &mut WindowLead, asked: Asked, events_max: u32) -> Result<Vec<Row>, Error> {
    let Asked { fresh, with_messages, by_counter } = asked;
    let request = Request::Passes { fresh, with_messages, by_counter, events_max };
    let passed = lead.membership.ask(request, |answer| match answer {
        Answer::Passed(passed) => Some(passed),
        _ => None,
    })?;
    if passed.iter().any(|(_, passed)| !passed.is_alive) {
        return Err(Error::EndedEarly);
    }
    let mut rows = Vec::new();
    for (node, passed) in passed {
        let relation = lead.membership.relation(node);
        for mut passes in passed.ranks {
            let uncertainty_ticks = passes.calls.onto_lead(&relation);
            passes.period_ticks = relation.span_of(passes.period_ticks);
            rows.push(Row { node, passes, uncertainty_ticks });
        }
    }
    rows.sort_by_key(|row| row.passes.rank);
    Ok(rows)
}

/// A rank that passed its marker too seldom in the stretch of time that all ranks' calls have in common: nothing could
/// be said of its numbering.
fn apart(rows: &[Row]) -> Option<u32> {
    let times = |row: &Row| row.passes.calls.mark_ticks().collect::<Vec<u64>>();
    let from = rows.iter().filter_map(|row| row.passes.calls.mark_ticks().next()).max().unwrap_or(0);
    let to = rows.iter().filter_map(|row| row.passes.calls.mark_ticks().next_back()).min().unwrap_or(0);
    let common = |row: &&Row| times(row).iter().filter(|time| (from..=to).contains(time)).count() as u64;
    rows.iter().find(|row| common(row) < PASSES_MIN).map(|row| row.passes.rank)
}

/// Aligns by what is there, and by messages where that proves nothing.
fn align_rows(
    lead: &mut WindowLead,
    rows: Vec<Row>,
    events_max: u32,
    by_counter: bool,
) -> Result<(Vec<Row>, Alignment), Error> {
    let alignment = align_passes(&rows);
    if alignment.certainty == Certainty::Proven || lead.membership.is_here() || by_counter {
        return Ok((rows, alignment));
    }
    let asked = Asked { fresh: false, with_messages: true, by_counter: false };
    let mut more = passes(lead, asked, events_max)?;
    if apart(&more).is_some() {
        // With their messages passes are longer.
        more = passes(lead, asked, lead.membership.events_most())?;
    }
    let alignment = align_passes(&more);
    Ok((more, alignment))
}

fn align_passes(rows: &[Row]) -> Alignment {
    let ranks = rows.iter().map(|row| RankStream {
        rank: row.passes.rank,
        events: &row.passes.calls.events,
        occurrences: &row.passes.calls.marks,
        is_common: row.passes.is_common,
        first_count: row.passes.first_count,
        uncertainty_ticks: row.uncertainty_ticks,
        clock: row.node,
    });
    let mut alignment = align(&ranks.collect::<Vec<RankStream>>());
    // The smallest offset is 0 for biased counts; the bias is the same for all, so it falls out.
    let smallest = alignment.offsets.iter().copied().min().unwrap_or(0);
    alignment.offsets.iter_mut().for_each(|offset| *offset -= smallest);
    let ends = rows.iter().map(|row| row.passes.ends).collect::<Option<Vec<LoopEnds>>>();
    ends.and_then(|ends| by_loop_counters(&alignment, &ends)).unwrap_or(alignment)
}

/// The ranks' numbering as the loop's own counter has it, if every rank's loop has the same length, where that is one of the
/// neighbours of what calls and time make likely: ranks that are far apart may be in different turns of an inner loop.
fn by_loop_counters(likely: &Alignment, ends: &[LoopEnds]) -> Option<Alignment> {
    let length = |ends: &LoopEnds| ends.end?.checked_sub(ends.first?);
    let known = |ends: &LoopEnds| (length(ends), ends.first.is_some(), ends.end.is_some());
    if likely.certainty == Certainty::Proven || ends.iter().any(|other| known(other) != known(&ends[0])) {
        return None;
    }
    let begins = |ends: &LoopEnds| ends.first.or(ends.end);
    let begins = ends.iter().map(begins).collect::<Option<Vec<i64>>>()?;
    let latest = *begins.iter().max()?;
    let offsets: Vec<i64> = begins.iter().map(|begin| latest - begin).collect();
    let apart = |at: usize| offsets[at] - offsets[0] - (likely.offsets[at] - likely.offsets[0]);
    let is_near = (0..offsets.len()).all(|at| apart(at).abs() <= 1);
    let explanation = "the loop's own counter gives its passes the same numbers on all ranks".to_owned();
    is_near.then(|| Alignment { offsets, explanation, ..likely.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(offsets: [i64; 3], certainty: Certainty) -> Alignment {
        let (messages_cross, skew_ticks_max) = (false, 7);
        Alignment {
            offsets: offsets.to_vec(),
            certainty,
            messages_cross,
            skew_ticks_max,
            explanation: "by time".to_owned(),
        }
    }

    fn ends(all: [(Option<i64>, Option<i64>); 3]) -> Vec<LoopEnds> {
        all.map(|(first, end)| LoopEnds { first, end, may_end_before: false, is_sure: true, seen: None }).to_vec()
    }

    #[test]
    fn the_loops_own_counter_decides_between_neighbours() {
        let likely = Certainty::Likely { rank: 1, margin: 0.1 };
        let found = aligned([0, 3, 2], likely);
        let offsets =
            |found: &Alignment, ends: Vec<LoopEnds>| by_loop_counters(found, &ends).map(|found| found.offsets);
        // Rank 1 began two passes of its count before rank 0, not three.
        let of_time_steps = ends([(Some(100), Some(900)), (Some(98), Some(898)), (Some(98), Some(898))]);
        assert_eq!(offsets(&found, of_time_steps.clone()), Some(vec![0, 2, 2]));
        assert_eq!(offsets(&aligned([0, 3, 2], Certainty::Proven), of_time_steps), None, "collectives prove more");
        let beginnings = ends([(Some(100), None), (Some(98), None), (Some(97), None)]);
        assert_eq!(offsets(&found, beginnings), Some(vec![0, 2, 3]));
        let remaining = ends([(None, Some(900)), (None, Some(897)), (None, Some(898))]);
        assert_eq!(offsets(&found, remaining), Some(vec![0, 3, 2]));
    }

    #[test]
    fn counters_that_say_something_else_decide_nothing() {
        let found = aligned([0, 3, 2], Certainty::Likely { rank: 1, margin: 0.1 });
        let is_left = |all| by_loop_counters(&found, &ends(all)).is_none();
        assert!(is_left([(Some(100), Some(900)), (Some(98), Some(899)), (Some(98), Some(898))]), "other lengths");
        assert!(
            is_left([(Some(100), Some(900)), (Some(90), Some(890)), (Some(98), Some(898))]),
            "far from the likely one"
        );
        assert!(is_left([(Some(100), Some(900)), (None, Some(897)), (Some(98), Some(898))]), "not known everywhere");
        assert!(is_left([(None, None); 3]), "known nowhere");
    }
}
