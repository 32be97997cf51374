//! How far the main loop is, as all nodes say it alike: into the report, or the reason why nothing is claimed.
//!
//! Next: `node::how_far` for one node's ranks.

use super::drive::WindowLead;
use super::marker::{Marker, MarkerCall};
use crate::error::Error;
use crate::reason::NoEnds;
use crate::request::{Answer, LoopEnds, Request, SeenEnd};
use trimtab_types::report::{Ended, LikelyProgress, LoopProgress, Window};

/// Where the loop began and will end; the error: why that is not known. `None`: no loop counts iterations.
pub(super) type HowFar = Option<Result<LoopEnds, NoEnds>>;

/// Asks all nodes, while the probes are in.
pub(super) fn ask(lead: &mut WindowLead, marker: &Marker) -> Result<HowFar, Error> {
    let Marker::Call(call) = marker else { return Ok(None) };
    let Some(function) = position(lead, call) else { return Ok(None) };
    let answers = lead.membership.ask(Request::HowFar { function }, |answer| match answer {
        Answer::HowFar(ends) => Some(ends),
        _ => None,
    })?;
    Ok(Some(LoopEnds::agreed(answers.into_iter().map(|(_, ends)| ends))))
}

/// The loop whose passes are the iterations, as a position among the measured functions; `None`: something else counts them.
pub(super) fn position(lead: &WindowLead, call: &MarkerCall) -> Option<u32> {
    let place = call.main_loop.as_deref()?;
    let is_it = |info: &trimtab_window::FunctionInfo| info.loop_place.as_ref() == Some(place);
    lead.facts.functions.iter().position(is_it).map(|function| function as u32)
}

/// The loop's progress when the window ended.
pub(super) fn progress(how_far: &HowFar, window: &Window) -> Option<LoopProgress> {
    let now = window.start.zip(window.iterations).map(|(start, iterations)| (start + iterations) as i64);
    Some(progress_of(how_far.as_ref()?, window.ended_by, now.filter(|_| window.valid)))
}

/// `now` is the number of the last pass of a valid window.
fn progress_of(ends: &Result<LoopEnds, NoEnds>, ended_by: Ended, now: Option<i64>) -> LoopProgress {
    let nothing = |explanation: String| LoopProgress { explanation, ..LoopProgress::default() };
    match (ends, now) {
        _ if ended_by == Ended::LeftLoop => nothing("the program left the loop".to_owned()),
        (Ok(ends), Some(now)) => progress_at(*ends, now),
        _ if ended_by == Ended::ProgramEnded => nothing("the program ended while it was measured".to_owned()),
        (Err(why), _) => nothing(why.to_string()),
        (_, None) => nothing("the window is not valid".to_owned()),
    }
}

fn progress_at(ends: LoopEnds, now: i64) -> LoopProgress {
    let LoopEnds { first, end, may_end_before, is_sure, seen } = ends;
    let between = |from: Option<i64>, to: Option<i64>| u64::try_from(to?.checked_sub(from?)?).ok();
    let (done, all) = (between(first, Some(now)), between(first, end));
    let seen = seen.and_then(|seen| by_looks(seen, now));
    let remaining = between(Some(now), end);
    if !is_sure {
        let counted = LikelyProgress { done, remaining, total: all, ..LikelyProgress::default() };
        return likely(counted, may_end_before, seen);
    }
    let certain = |number: Option<u64>| number.filter(|_| !may_end_before);
    let mut said = vec!["by its counter, which moved by one step in each pass".to_owned()];
    if first.is_none() {
        said.push("it is not known with what the counter began".to_owned());
    }
    if end.is_none() {
        said.push("the counter does not come to its bound".to_owned());
    } else if may_end_before {
        said.push("the loop may be left before, in another way or half way through a pass".to_owned());
    }
    let likely = match (certain(remaining), seen.filter(|seen| seen.remaining.is_some())) {
        (Some(_), _) => None,
        (None, Some(seen)) => Some(seen),
        // `total_at_most` says it for sure.
        (None, None) if all.is_some() => None,
        (None, None) => at_most(None, remaining, seen),
    };
    if likely.is_some() && seen.is_some() {
        said.push(BY_LOOKS.to_owned());
    }
    let (remaining, total) = (certain(remaining), certain(all));
    LoopProgress { done, remaining, total, total_at_most: all, likely, explanation: said.join("; ") }
}

/// How iterations to come are known from looks at a loop's tests.
const BY_LOOKS: &str = "by looks at the values that its tests compare, which other code may change";
/// The same from its counter.
const BY_COUNTER: &str =
    "its counter moved by one step in each pass, but it or its bound is a variable that other code may change";
/// Said where only the most of them is known.
const MAY_END_BEFORE: &str = "the loop may be left before, in another way";

/// Iterations to come by looks at the loop's tests. `None`: it should have ended.
fn by_looks(seen: SeenEnd, now: i64) -> Option<LikelyProgress> {
    let left = |end: i64| u64::try_from(end.checked_sub(now)?).ok();
    if seen.is_at_most {
        return at_most(None, left(seen.most), None);
    }
    let (least, most) = (left(seen.least.max(now))?, left(seen.most)?);
    let remaining = left(seen.expected)?;
    let range = (least < remaining || most > remaining).then_some((least, most));
    Some(LikelyProgress {
        remaining: Some(remaining),
        remaining_lower: range.map(|range| range.0),
        remaining_upper: range.map(|range| range.1),
        ..LikelyProgress::default()
    })
}

/// No more than the smaller of two numbers of iterations to come. `None`: neither is known.
fn at_most(done: Option<u64>, most: Option<u64>, seen: Option<LikelyProgress>) -> Option<LikelyProgress> {
    let seen = seen.and_then(|seen| seen.remaining_at_most);
    let most = most.into_iter().chain(seen).min()?;
    Some(LikelyProgress { done, remaining_at_most: Some(most), ..LikelyProgress::default() })
}

/// Nothing for sure, and what comes if nobody but the loop writes to its counter and bound, or else by looks at its tests.
fn likely(counted: LikelyProgress, may_end_before: bool, seen: Option<LikelyProgress>) -> LoopProgress {
    let told = |likely: LikelyProgress, explanation: String| LoopProgress {
        likely: Some(likely),
        explanation,
        ..LoopProgress::default()
    };
    if !may_end_before && counted.remaining.is_some() {
        return told(counted, BY_COUNTER.to_owned());
    }
    if let Some(seen) = seen.filter(|seen| seen.remaining.is_some()) {
        return told(seen, BY_LOOKS.to_owned());
    }
    match at_most(counted.done, counted.remaining, seen) {
        Some(most) => {
            let how = if seen.is_some() { BY_LOOKS } else { BY_COUNTER };
            told(most, format!("{how}; {MAY_END_BEFORE}"))
        }
        None => LoopProgress {
            explanation: "its counter or its bound is a variable that other code may change".to_owned(),
            ..LoopProgress::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(first: Option<i64>, end: Option<i64>, may_end_before: bool) -> LoopEnds {
        LoopEnds { first, end, may_end_before, is_sure: true, seen: None }
    }

    #[test]
    fn what_is_not_known_is_null_by_itself() {
        let numbers = |ends| {
            let LoopProgress { done, remaining, total, total_at_most, .. } = progress_at(ends, 140);
            (done, remaining, total, total_at_most)
        };
        assert_eq!(numbers(ends(Some(100), Some(300), false)), (Some(40), Some(160), Some(200), Some(200)));
        assert_eq!(numbers(ends(Some(100), Some(300), true)), (Some(40), None, None, Some(200)));
        assert_eq!(numbers(ends(None, Some(300), false)), (None, Some(160), None, None));
        assert_eq!(numbers(ends(Some(100), None, false)), (Some(40), None, None, None));
        assert_eq!(numbers(ends(Some(150), Some(130), false)), (None, None, None, None));
    }

    #[test]
    fn variables_that_others_may_change_are_told_apart() {
        let of = |may_end_before| LoopEnds { is_sure: false, ..ends(Some(100), Some(300), may_end_before) };
        let LoopProgress { done, remaining, total, total_at_most, likely, .. } = progress_at(of(false), 140);
        assert_eq!((done, remaining, total, total_at_most), (None, None, None, None));
        assert_eq!(
            likely,
            Some(LikelyProgress {
                done: Some(40),
                remaining: Some(160),
                total: Some(200),
                ..LikelyProgress::default()
            })
        );
        let most = LikelyProgress { done: Some(40), remaining_at_most: Some(160), ..LikelyProgress::default() };
        assert_eq!(progress_at(of(true), 140).likely, Some(most), "it may be left before");
    }

    #[test]
    fn looks_tell_where_the_code_does_not() {
        let seen = Some(SeenEnd { expected: 300, least: 290, most: 320, is_at_most: false });
        let told = Some(LikelyProgress {
            remaining: Some(160),
            remaining_lower: Some(150),
            remaining_upper: Some(180),
            ..LikelyProgress::default()
        });
        // Beside the most of a loop that may be left before.
        let sure = progress_at(LoopEnds { seen, ..ends(Some(100), Some(400), true) }, 140);
        assert_eq!((sure.done, sure.remaining, sure.total_at_most, sure.likely), (Some(40), None, Some(300), told));
        // Where a counter says all, they say nothing.
        assert_eq!(progress_at(LoopEnds { seen, ..ends(Some(100), Some(300), false) }, 140).likely, None);
        let nothing_else = LoopEnds { is_sure: false, seen, ..ends(None, None, true) };
        let LoopProgress { done, remaining, total, total_at_most, likely, .. } = progress_at(nothing_else, 140);
        assert_eq!((done, remaining, total, total_at_most, likely), (None, None, None, None, told));
        // A loop that should have ended.
        assert_eq!(progress_at(nothing_else, 310).likely, None);
        let other = LoopEnds {
            seen: Some(SeenEnd { expected: 301, least: 280, most: 310, is_at_most: false }),
            ..nothing_else
        };
        let both = LoopEnds::agreed([Ok(nothing_else), Ok(other)].into_iter()).map(|ends| ends.seen);
        assert_eq!(both, Ok(Some(SeenEnd { expected: 300, least: 280, most: 320, is_at_most: false })));
    }

    #[test]
    fn of_a_loop_that_may_be_left_before_the_most_is_told() {
        let seen = Some(SeenEnd { expected: 300, least: 299, most: 301, is_at_most: true });
        let most = |most| Some(LikelyProgress { remaining_at_most: Some(most), ..LikelyProgress::default() });
        let by_looks_alone = LoopEnds { is_sure: false, seen, ..ends(None, None, true) };
        let told = progress_at(by_looks_alone, 140);
        assert_eq!((told.likely, told.remaining, told.total_at_most), (most(161), None, None));
        assert!(told.explanation.ends_with(MAY_END_BEFORE), "{told:?}");
        assert_eq!(progress_at(by_looks_alone, 310).likely, None, "it should have ended");
        // By a counter that is sure but for where it began.
        let LoopProgress { likely, explanation, .. } = progress_at(ends(None, Some(300), true), 140);
        assert_eq!((likely, explanation.contains("looks")), (most(160), false));
        assert_eq!(progress_at(LoopEnds { seen, ..ends(Some(100), Some(400), true) }, 140).likely, None);
        // One of two nodes tells only the most.
        let whole = LoopEnds { seen: seen.map(|seen| SeenEnd { is_at_most: false, ..seen }), ..by_looks_alone };
        let both = LoopEnds::agreed([Ok(whole), Ok(by_looks_alone)].into_iter());
        assert!(both.is_ok_and(|ends| ends.seen.is_some_and(|seen| seen.is_at_most)));
    }

    #[test]
    fn a_program_that_ended_is_the_reason_why_nothing_is_known() {
        let known = Ok(ends(Some(100), Some(300), false));
        let explained = |ends, ended_by, now| progress_of(ends, ended_by, now).explanation;
        let unknown = Err(NoEnds::NotCounted);
        assert_eq!(explained(&unknown, Ended::ProgramEnded, Some(140)), "the program ended while it was measured");
        assert_eq!(explained(&known, Ended::ProgramEnded, None), "the program ended while it was measured");
        assert_eq!(progress_of(&known, Ended::ProgramEnded, Some(140)).done, Some(40));
        assert_eq!(explained(&unknown, Ended::Iterations, Some(140)), NoEnds::NotCounted.to_string());
        assert_eq!(explained(&known, Ended::Iterations, None), "the window is not valid");
        assert_eq!(explained(&known, Ended::LeftLoop, Some(140)), "the program left the loop");
    }

    #[test]
    fn nodes_that_disagree_claim_nothing() {
        let (one, other) = (ends(Some(1), Some(9), false), ends(Some(1), Some(8), false));
        let agreed = |all: &[Result<LoopEnds, NoEnds>]| LoopEnds::agreed(all.iter().cloned());
        assert_eq!(agreed(&[Ok(one), Ok(one)]), Ok(one));
        assert_eq!(agreed(&[Ok(one), Ok(other)]), Err(NoEnds::Disagree));
        assert_eq!(agreed(&[Ok(one), Err(NoEnds::NotCounted)]), Err(NoEnds::NotCounted));
        assert_eq!(agreed(&[]), Err(NoEnds::NotPassed));
    }
}
