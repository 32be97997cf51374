//! The end of a job by a loop around the one that counts its iterations: by its passes to come, which are taken to be alike.
//!
//! Nobody has measured one of its passes. But a pass takes no longer than all that have been had no more than the job's age, and
//! between two windows lie so many of them: that puts the time of one between two bounds. So does the loop inside, which takes
//! a part of each pass.
//!
//! Next: `end`, which asks.

use crate::known::{Known, Outer};

/// The interval is widened by this part, because passes are not all alike.
const UNLIKE: f64 = 0.1;
/// Where between both bounds the end is expected, if the job's age bounds it: most programs spend little time before their loops.
const OF_AGE: f64 = 0.75;
/// The same if two looks bound it.
const OF_LOOKS: f64 = 0.5;
/// Passes may be so long, seconds, for a second window to see some of them end.
const SEEN_SOON_S: f64 = 10.0;

/// The least and the most that a pass takes, seconds, and the place between them that is expected. `None`: nothing bounds it.
fn pass_s(outer: &Outer) -> Option<(f64, f64, f64)> {
    let (mut least, mut by_age, mut between): (f64, Option<f64>, Option<f64>) = (0.0, None, None);
    let at_most = |most: &mut Option<f64>, bound: f64| *most = Some(most.map_or(bound, |most: f64| most.min(bound)));
    for (at, look) in outer.looks.iter().enumerate() {
        least = least.max(look.inner_done_s + look.inner_left_s);
        if let Some(done) = look.done.filter(|done| *done > 0) {
            at_most(&mut by_age, (look.at_s - look.inner_done_s) / done as f64);
        }
        for before in &outer.looks[..at] {
            let (passes, between_s) = (before.to_come.checked_sub(look.to_come)? as f64, look.at_s - before.at_s);
            least = least.max((between_s + look.inner_left_s + before.inner_done_s) / (passes + 1.0));
            if passes > 1.0 {
                at_most(&mut between, (between_s - look.inner_done_s - before.inner_left_s) / (passes - 1.0));
            }
        }
    }
    // Bounds that contradict each other are of passes that are not alike: between them lies what is known.
    let (most, place) = match (by_age, between) {
        (Some(by_age), Some(between)) if by_age < between => (by_age, OF_AGE),
        (_, Some(between)) => (between, OF_LOOKS),
        (by_age, None) => (by_age?, OF_AGE),
    };
    (most > 0.0).then(|| (least.min(most), most.max(least), place))
}

/// The end by a loop around, in seconds from now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OuterEnd {
    /// The expected one.
    pub middle_s: f64,
    /// The interval's lower end.
    pub lower_s: f64,
    /// Its upper end.
    pub upper_s: f64,
    /// Nearly all ends come before.
    pub late_s: f64,
    /// The least and the most that a pass takes, seconds.
    pub pass_s: (f64, f64),
    /// A second window would see some of its passes end.
    pub is_seen_soon: bool,
}

/// The end by a loop around; `None`: nothing is known of the time of its passes.
pub(crate) fn outer_end(known: &Known, outer: &Outer) -> Option<OuterEnd> {
    let last = outer.looks.last()?;
    let (least_s, most_s, place) = pass_s(outer)?;
    let since_s = (known.elapsed_s - last.at_s).max(0.0);
    let passes = last.to_come as f64;
    let early_s = (least_s * passes + last.inner_left_s - since_s).max(0.0);
    let latest_s = (most_s * (passes + 1.0) - last.inner_done_s - since_s).max(early_s);
    let upper_s = latest_s * (1.0 + UNLIKE);
    Some(OuterEnd {
        middle_s: early_s + place * (latest_s - early_s),
        lower_s: early_s * (1.0 - UNLIKE),
        upper_s,
        late_s: upper_s * (1.0 + UNLIKE),
        pass_s: (least_s, most_s),
        is_seen_soon: most_s < SEEN_SOON_S,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::OuterLook;

    /// A run of so many passes of so long behind a setup, seen at some moments, a third of each pass being the loop inside.
    fn seen(setup_s: f64, each_s: f64, passes: u64, at: &[f64]) -> Outer {
        let look = |&at_s: &f64| {
            let place = (at_s - setup_s) / each_s;
            let (done, part) = (place.floor(), place.fract());
            let inner_done_s = part.min(1.0 / 3.0) * each_s;
            let inner_left_s = each_s / 3.0 - inner_done_s;
            OuterLook { at_s, to_come: passes - 1 - done as u64, done: Some(done as u64), inner_done_s, inner_left_s }
        };
        Outer {
            name: "loop 1 of main".to_owned(),
            looks: at.iter().map(look).collect(),
            may_end_before: false,
            is_likely: false,
        }
    }

    fn end(outer: &Outer) -> OuterEnd {
        let known = Known { elapsed_s: outer.looks.last().map_or(0.0, |last| last.at_s), ..Known::default() };
        outer_end(&known, outer).expect("a pass was made")
    }

    #[test]
    fn the_interval_holds_the_end_of_alike_passes() {
        for setup_s in [0.0, 7.0, 60.0] {
            for at in [11.0_f64, 23.0, 50.0, 90.0].map(|at| at + setup_s) {
                let outer = seen(setup_s, 10.0, 20, &[at]);
                let (found, truth) = (end(&outer), 200.0 + setup_s - at);
                assert!(found.lower_s <= truth && truth <= found.upper_s, "{truth}: {found:?}");
            }
        }
    }

    #[test]
    fn a_second_look_narrows_it() {
        let (one, two) = (end(&seen(60.0, 10.0, 20, &[150.0])), end(&seen(60.0, 10.0, 20, &[80.0, 150.0])));
        assert!(two.upper_s < one.upper_s && two.lower_s > one.lower_s, "{one:?} {two:?}");
        assert!(two.lower_s <= 110.0 && 110.0 <= two.upper_s, "{two:?}");
    }

    #[test]
    fn a_first_pass_says_nothing() {
        let known = Known { elapsed_s: 9.0, ..Known::default() };
        assert_eq!(outer_end(&known, &seen(5.0, 10.0, 20, &[9.0])), None);
    }
}
