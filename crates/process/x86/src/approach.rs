//! How many passes a loop has still before it, by how the sides of its tests came closer from look to look.
//!
//! Whole numbers must come closer by the same in each pass, and so must numbers with a fraction, as a clock of the simulated
//! time. A clock whose steps change tells a range of passes only beside a counter, if its pace is the same in both halves of
//! the looks and about what it was on average since it began. Steps of hydrodynamics that grow all the time tell the most that
//! may come, as if they grew no more: of LULESH at half of its run that is 40% too much. A number that shrinks towards its bound
//! is no clock: a residual may do so ever more slowly. Where only some of a loop's tests tell an end it is the latest one: the
//! loop may be left before by the others.
//!
//! Next: `exit_tests`, which finds what is looked at.

use crate::side::{GoesOn, Sides};
use std::collections::BTreeSet;

/// The sides of all tests of a loop in one pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// The pass, by its number. The process goes on while it is looked at: sides may be those of the next pass.
    pub pass: u64,
    /// By test of the loop's own code; `None`: could not be read.
    pub sides: Vec<Option<Sides>>,
    /// Those of comparisons in called functions, in the order in which they are come to; `None`: not known what it is.
    pub called: Vec<Option<Sides>>,
}

/// Passes after the last look until the loop ends, if it goes on so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassesLeft {
    /// The number that is expected.
    pub expected: u64,
    /// The least that fits what was seen.
    pub least: u64,
    /// The most.
    pub most: u64,
    /// The loop may be left before, in a way of which nothing can be said, or as the steps of a clock grow: only the most is told.
    pub is_at_most: bool,
}

/// The part of all looks that see a comparison in a called function, which may take another way at some of them.
const SEEN_PART_MIN: f64 = 0.75;
/// Looks without which nothing is said of a number with a fraction,
const LOOKS_MIN: usize = 3;
/// and passes between the first and the last.
const PASSES_MIN: f64 = 4.0;
/// Steps of a clock are the same if they differ by less than this part: by its rounding.
const SAME_STEP: f64 = 1e-6;
/// Looks are a pass late, or this part of all passes: whoever looks may be kept waiting.
const LATE_PART: f64 = 0.005;
/// Passes that are tried at most.
const LATE_MAX: f64 = 64.0;
/// Of several steps together there must be less doubt, as one of many numbers of them might fit by chance.
const SAME_PART_OF_STEPS: f64 = 1e-9;
/// The paces of both halves of a clock's looks differ by at most this part,
const HALVES_APART_MAX: f64 = 0.03;
/// its pace differs from the mean since it began by at most this one,
const MEAN_APART_MAX: f64 = 0.1;
/// and then the passes to come are known but for this one. Of 130 ranges that this gave in runs of PENNANT's, CloverLeaf's and
/// LULESH's problems, at 5 to 95% of each, 126 held what came; 230 times it gave none, 142 of them LULESH's.
const CLOCK_PART: f64 = 0.1;
/// A clock whose steps change more tells the most that may come if it becomes not slower from the first half of the looks to the
/// second one by more than the same part,
const SLOWER_MAX: f64 = 0.1;
/// and it is not slower by more than this part than on average since it began:
const SLOWER_THAN_MEAN_MAX: f64 = 0.3;
/// the passes at its pace, or at one that goes on to change as a power of the passes does, whichever are more, and this part of
/// them. Of 150 such numbers, at 5 to 95% of eight runs of Athena++ (blasts, implosion, shear, Noh, Rayleigh-Taylor), LULESH and
/// CloverLeaf, all were as many as came, or more.
const CHANGING_PART: f64 = 0.25;
/// Passes of which nobody would say a number.
const PASSES_MAX: f64 = 1e15;

/// The passes that are left by the first test that tells its end. `None`: none does.
pub fn passes_left(looks: &[Look], has_other_ways_out: bool) -> Option<PassesLeft> {
    let own = (0..looks.first()?.sides.len()).map(|test| seen_of(looks, test));
    let compared: BTreeSet<u64> = looks.iter().flat_map(called).map(|sides| sides.compared_at).collect();
    let tests: Vec<Option<Seen>> = own.chain(compared.iter().map(|at| seen_at(looks, *at))).collect();
    // A function may take another way at each look.
    let is_apart = |look: &Look| look.called.contains(&None) || compared.iter().any(|at| sides_at(look, *at).is_none());
    let has_other_ways_out = has_other_ways_out || looks.iter().any(is_apart);
    let counter = tests.iter().flatten().find_map(counted);
    let left: Vec<Option<PassesLeft>> = tests.iter().map(|seen| approach(seen.as_ref()?, counter.as_deref())).collect();
    let first = left.iter().flatten().copied().reduce(PassesLeft::min)?;
    Some(PassesLeft { is_at_most: first.is_at_most || has_other_ways_out || left.iter().any(Option::is_none), ..first })
}

/// Both sides of one test, by pass.
type Seen = Vec<(u64, Sides)>;

fn seen_of(looks: &[Look], test: usize) -> Option<Seen> {
    let seen = looks.iter().map(|look| Some((look.pass, look.sides.get(test).copied()??)));
    numbers(seen.collect::<Option<Seen>>()?)
}

/// The sides of one comparison in a called function, if the last look saw it, too, and most of the others: one that ends the loop
/// in some passes only is no end when its sides have met, but later.
fn seen_at(looks: &[Look], compared_at: u64) -> Option<Seen> {
    let seen: Seen = looks.iter().filter_map(|look| Some((look.pass, *sides_at(look, compared_at)?))).collect();
    if (seen.len() as f64) < SEEN_PART_MIN * looks.len() as f64 {
        return None;
    }
    numbers(seen).filter(|seen| seen.last().map(|last| last.0) == looks.last().map(|look| look.pass))
}

fn called(look: &Look) -> impl Iterator<Item = &Sides> {
    look.called.iter().flatten()
}

fn sides_at(look: &Look, compared_at: u64) -> Option<&Sides> {
    called(look).find(|sides| sides.compared_at == compared_at)
}

fn numbers(seen: Seen) -> Option<Seen> {
    seen.iter().all(|(_, sides)| sides.left.is_finite() && sides.right.is_finite()).then_some(seen)
}

impl PassesLeft {
    /// The first of two ends.
    #[must_use]
    pub fn min(self, other: PassesLeft) -> PassesLeft {
        PassesLeft {
            expected: self.expected.min(other.expected),
            least: self.least.min(other.least),
            most: self.most.min(other.most),
            is_at_most: self.is_at_most || other.is_at_most,
        }
    }
}

/// The passes that were made at each look, by a counter of the loop that began at zero. `None`: this test has none.
fn counted(seen: &Seen) -> Option<Vec<f64>> {
    let (first, last) = (seen.first()?, seen.last()?);
    let pace = Some(last).filter(|(_, sides)| sides.is_whole).and_then(|_| whole_pace(seen))?;
    let moving: fn(&Sides) -> f64 = match (first.1.left != last.1.left, first.1.right != last.1.right) {
        (true, false) => |sides| sides.left,
        (false, true) => |sides| sides.right,
        _ => return None,
    };
    Some(seen.iter().map(|(_, sides)| moving(sides).abs() / pace).collect())
}

fn apart((_, sides): &(u64, Sides)) -> f64 {
    sides.left - sides.right
}

/// The differences of a test's sides from look to look.
fn steps(seen: &Seen) -> impl Iterator<Item = f64> {
    seen.windows(2).map(|two| apart(&two[1]) - apart(&two[0]))
}

/// The passes that are left by one test; beside it the passes made at each look, if a counter tells them. `None`: its sides stay, as
/// those of a flag that is set when a solver has converged, or they do not come closer as they are to.
fn approach(seen: &Seen, counter: Option<&[f64]>) -> Option<PassesLeft> {
    let (first, last) = (seen.first()?, seen.last()?);
    let (way, now) = (apart(last) - apart(first), apart(last));
    let is_closing = match last.1.goes_on {
        GoesOn::Below => now <= 0.0 && way > 0.0,
        GoesOn::Above => now >= 0.0 && way < 0.0,
        GoesOn::Apart => now * way < 0.0,
        GoesOn::Equal => false,
    };
    if !is_closing || last.0 <= first.0 || steps(seen).any(|step| step * way < 0.0) {
        return None;
    }
    let pace = if last.1.is_whole {
        whole_pace(seen).map(|pace| Pace::of_steps(pace, way.abs(), (last.0 - first.0) as f64))
    } else {
        clock_pace(seen, counter, now.abs())
    };
    left(now.abs(), pace?)
}

/// The distance that one pass covers.
struct Pace {
    expected: f64,
    slowest: f64,
    fastest: f64,
    /// Only the slowest is known.
    is_at_most: bool,
}

impl Pace {
    /// Equal steps, which the passes fit but for those by which looks were late.
    fn of_steps(step: f64, way: f64, passes: f64) -> Pace {
        let steps = way / step;
        let apart = if (steps - passes).abs() > 1.0 { steps / passes } else { 1.0 };
        Pace { expected: step, slowest: step * apart.min(1.0), fastest: step * apart.max(1.0), is_at_most: false }
    }
}

/// True if so many steps may have been those of so many passes, by numbers of passes that looks saw a little late or early.
fn is_late_at_most(steps: f64, passes: f64) -> bool {
    (steps - passes).abs() <= (LATE_PART * passes).max(1.0)
}

/// The distance of whole numbers, if it is the same in each pass: one that all steps are multiples of, and that the passes fit.
fn whole_pace(seen: &Seen) -> Option<f64> {
    let way = steps(seen).sum::<f64>().abs();
    let passes = seen.last()?.0 - seen.first()?.0;
    let is_exact = steps(seen).all(|step| step.abs() < 2_f64.powi(53));
    let step = steps(seen).filter(|_| is_exact).fold(0, |step, next| greatest_divisor(step, next.abs() as u64));
    let passes_by_step = (step > 0).then(|| way as u64 / step)?;
    if is_late_at_most(passes_by_step as f64, passes as f64) {
        return Some(step as f64);
    }
    // Looks that are a few passes apart each time may share a larger divisor: then one that the passes fit exactly.
    let pace = way / passes as f64;
    (pace.fract() == 0.0 && pace >= 1.0 && step.is_multiple_of(pace as u64)).then_some(pace)
}

fn greatest_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_divisor(other, one % other) }
}

/// That of a number with a fraction which grows and has so much of its way before it.
fn clock_pace(seen: &Seen, counter: Option<&[f64]>, way: f64) -> Option<Pace> {
    let (first, last) = (seen.first()?, seen.last()?);
    let grows = |before: f64, now: f64| before == now || now.abs() > before.abs();
    let is_clock = grows(first.1.left, last.1.left) && grows(first.1.right, last.1.right);
    let by_counter = counter.and_then(|counter| Some(counter.last()? - counter.first()?));
    let passes = by_counter.unwrap_or((last.0 - first.0) as f64);
    if !is_clock || seen.len() < LOOKS_MIN || passes < PASSES_MIN {
        return None;
    }
    let mean = counter.map(|counter| mean_pace(seen, counter));
    let same = same_step(seen, passes).filter(|step| match mean {
        Some(mean) => mean.is_some_and(|mean| is_within(mean, *step, MEAN_APART_MAX)),
        None => true,
    });
    if let Some(step) = same {
        return Some(Pace::of_steps(step, steps(seen).sum::<f64>().abs(), passes));
    }
    if mean == Some(None) {
        return None;
    }
    let mean = mean.flatten();
    let halves = Halves::of(seen, counter)?;
    halves
        .changing_pace(mean)
        .or_else(|| halves.slowest_pace(mean.zip(counter.and_then(|counter| counter.last())), way))
}

fn is_within(one: f64, other: f64, part: f64) -> bool {
    (one / other - 1.0).abs() <= part
}

/// The step that all differences are multiples of, if the passes fit it.
fn same_step(seen: &Seen, passes: f64) -> Option<f64> {
    let between = seen.windows(2).map(|two| (two[1].0 - two[0].0) as f64);
    let moved = between.zip(steps(seen).map(f64::abs)).filter(|(_, step)| *step > 0.0).collect::<Vec<(f64, f64)>>();
    let (between, least) = moved.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let way: f64 = moved.iter().map(|(_, step)| step).sum();
    let is_multiple = |step: f64, unit: f64, apart_max: f64| {
        let times = (step / unit).round();
        (step / (times * unit) - 1.0).abs() < apart_max
    };
    let fits = |number: &f64| {
        let (unit, apart_max) = (least / number, if *number == 1.0 { SAME_STEP } else { SAME_PART_OF_STEPS });
        let are_multiples = moved.iter().all(|(_, step)| is_multiple(*step, unit, apart_max));
        are_multiples && is_late_at_most((way / unit).round(), passes)
    };
    // The looks that are least apart are so by about as many passes as they say.
    let late = (LATE_PART * passes).clamp(1.0, LATE_MAX);
    let numbers = (0..=2 * late as u64).map(|more| between - late.floor() + more as f64);
    let numbers = numbers.filter(|number| *number > 1.0).chain([1.0]).filter(fits);
    let off = |number: &f64| (way * number / least - passes).abs();
    numbers.min_by(|one, other| off(one).total_cmp(&off(other))).map(|number| least / number)
}

/// The distance that a pass has covered on average since the loop began, if the number that moves began at zero.
fn mean_pace(seen: &Seen, counter: &[f64]) -> Option<f64> {
    let (first, last) = (seen.first()?, seen.last()?);
    let moved = match (first.1.left != last.1.left, first.1.right != last.1.right) {
        (true, false) => last.1.left,
        (false, true) => last.1.right,
        _ => return None,
    };
    Some(moved.abs() / counter.last()?).filter(|mean| mean.is_finite() && *mean > 0.0)
}

/// The pace of a clock whose steps change in both halves of the looks, and in all of them.
struct Halves {
    early: f64,
    late: f64,
    all: f64,
    /// The same, if looks are one pass more apart than their numbers say.
    all_slowest: f64,
}

impl Halves {
    /// By the passes that a counter tells, or else by the numbers of the looks.
    fn of(seen: &Seen, counter: Option<&[f64]>) -> Option<Halves> {
        let made = |at: usize| counter.map_or(seen[at].0 as f64, |counter| counter[at]);
        let end = seen.len() - 1;
        let halfway = 0.5 * (made(0) + made(end));
        let off = |at: usize| (made(at) - halfway).abs();
        let middle = (1..end).min_by(|one, other| off(*one).total_cmp(&off(*other)))?;
        let way = |from: usize, to: usize| (apart(&seen[to]) - apart(&seen[from])).abs();
        let pace = |from: usize, to: usize| {
            let passes = made(to) - made(from);
            Some(way(from, to) / passes).filter(|pace| passes > 0.0 && *pace > 0.0)
        };
        let late_by = if counter.is_some() { 0.0 } else { 1.0 };
        let all_slowest = way(0, end) / (made(end) - made(0) + late_by);
        Some(Halves { early: pace(0, middle)?, late: pace(middle, end)?, all: pace(0, end)?, all_slowest })
    }

    /// Beside the mean pace since the clock began: a range, if both are about the same.
    fn changing_pace(&self, mean: Option<f64>) -> Option<Pace> {
        let (mean, now) = (mean?, self.all);
        let is_steady = is_within(self.late, self.early, HALVES_APART_MAX) && is_within(mean, now, MEAN_APART_MAX);
        is_steady.then(|| Pace {
            expected: now,
            slowest: now.min(mean) / (1.0 + CLOCK_PART),
            fastest: now.max(mean) / (1.0 - CLOCK_PART),
            is_at_most: false,
        })
    }

    /// The slowest that is likely for so much of the way, beside the mean pace and the passes since the clock began.
    fn slowest_pace(&self, begun: Option<(f64, &f64)>, way: f64) -> Option<Pace> {
        if self.late < (1.0 - SLOWER_MAX) * self.early {
            return None;
        }
        let by_power = match begun {
            None => self.all_slowest,
            Some((mean, _)) if self.all < (1.0 - SLOWER_THAN_MEAN_MAX) * mean => return None,
            Some((mean, made)) => {
                let longer = 1.0 + way / (mean * made);
                way / (made * (longer.powf(mean / self.all) - 1.0))
            }
        };
        let slowest = self.all_slowest.min(by_power) / (1.0 + CHANGING_PART);
        Some(Pace { expected: slowest, slowest, fastest: slowest, is_at_most: true })
    }
}

/// Passes for so much of a way.
fn left(way: f64, pace: Pace) -> Option<PassesLeft> {
    let passes = |pace: f64| Some((way / pace).ceil()).filter(|passes| (0.0..PASSES_MAX).contains(passes));
    let (expected, least, most) = (passes(pace.expected)?, passes(pace.fastest)?, passes(pace.slowest)?);
    let least = (least as u64).saturating_sub(1);
    Some(PassesLeft { expected: expected as u64, least, most: most as u64 + 1, is_at_most: pace.is_at_most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(all: &[(u64, f64)], bound: f64, is_whole: bool) -> Vec<Look> {
        let of = |(pass, left): &(u64, f64)| {
            let sides = Sides { left: *left, right: bound, goes_on: GoesOn::Below, is_whole, compared_at: 0 };
            Look { pass: *pass, sides: vec![Some(sides)], called: Vec::new() }
        };
        all.iter().map(of).collect()
    }

    fn expected(all: &[(u64, f64)], bound: f64, is_whole: bool) -> Option<u64> {
        passes_left(&looks(all, bound, is_whole), false).map(|left| left.expected)
    }

    #[test]
    fn whole_numbers_move_by_one_step() {
        // By 10 in each pass, each look up to a pass late.
        assert_eq!(expected(&[(3, 20.0), (4, 40.0), (7, 60.0), (13, 120.0)], 1000.0, true), Some(88));
        // Looks two passes apart, which share a larger divisor.
        assert_eq!(expected(&[(2, 2.0), (4, 4.0), (8, 8.0)], 100.0, true), Some(92));
        // Not the same in each pass.
        assert_eq!(expected(&[(1, 1.0), (2, 2.0), (3, 7.0), (9, 30.0)], 100.0, true), None);
        assert_eq!(expected(&[(1, 1.0), (2, 3.0), (3, 2.0)], 100.0, true), None);
        // No pass between, or nothing that moves, or away from its end.
        assert_eq!(expected(&[(1, 1.0), (1, 2.0)], 100.0, true), None);
        assert_eq!(expected(&[(1, 1.0), (5, 1.0)], 100.0, true), None);
        assert_eq!(expected(&[(1, 9.0), (5, 5.0)], 100.0, true), None);
    }

    /// Looks at a clock, and a counter of its steps that is left by another bound.
    fn beside_a_counter(clock: &[f64], passes: &[u64]) -> Option<PassesLeft> {
        let at = |pass: &u64| (*pass, clock[*pass as usize]);
        let mut all = looks(&passes.iter().map(at).collect::<Vec<(u64, f64)>>(), clock[clock.len() - 1], false);
        let counter = passes.iter().map(|pass| (*pass, *pass as f64)).collect::<Vec<(u64, f64)>>();
        all.iter_mut().zip(looks(&counter, 1e6, true)).for_each(|(one, other)| one.sides.extend(other.sides));
        passes_left(&all, false).filter(|left| left.most < 900_000)
    }

    /// The readings of a clock before and behind each of 1000 passes.
    fn clock_of(step: &dyn Fn(usize) -> f64) -> Vec<f64> {
        let mut clock = vec![0.0];
        (0..1000).for_each(|pass| clock.push(clock[pass] + step(pass)));
        clock
    }

    /// A look that was kept waiting for some of very many short passes says little less.
    #[test]
    fn late_looks_at_equal_steps_widen_what_is_told() {
        for is_whole in [true, false] {
            let all = [(4, 8918.0), (548, 9463.0), (1289, 10_205.0), (2410, 11_326.0)];
            let left = passes_left(&looks(&all, 60_000.0, is_whole), false).expect("an end");
            assert_eq!((left.expected, left.is_at_most), (48_674, false), "{left:?}");
            assert!((48_400..48_674).contains(&left.least) && (48_674..48_700).contains(&left.most), "{left:?}");
            // More than lateness.
            let all = all.map(|(pass, at)| (pass, at + if pass > 600 { 40.0 } else { 0.0 }));
            let left = passes_left(&looks(&all, 60_000.0, is_whole), false);
            assert!(left.is_none_or(|left| left.is_at_most), "{left:?}");
        }
    }

    #[test]
    fn a_clock_of_equal_steps_tells_its_end() {
        let clock = |pass: u64| (pass, 0.004 * pass as f64);
        let left = |bound| expected(&[100, 101, 103, 104, 106].map(clock), bound, false);
        assert!(left(2.0).is_some_and(|left| (393..=395).contains(&left)));
        // A look may be one pass late.
        let late = [(100, 0.4), (101, 0.408), (103, 0.412), (104, 0.42), (106, 0.428)];
        assert_eq!(expected(&late, 2.0, false), Some(393));
        // Its steps double.
        let doubling = passes_left(&looks(&[(0, 1.0), (5, 2.0), (10, 4.0), (15, 8.0)], 100.0, false), false);
        assert!(doubling.is_some_and(|left| left.is_at_most && left.most > 200), "{doubling:?}");
        assert_eq!(expected(&[(0, 0.0), (1, 0.01)], 1.0, false), None);
    }

    #[test]
    fn a_clock_whose_steps_change_is_believed_beside_a_counter() {
        let steady = clock_of(&|pass| 0.01 + 0.0003 * (pass as f64).sin());
        let found = beside_a_counter(&steady, &[400, 402, 405, 411, 420, 430]).expect("it is steady");
        assert!(!found.is_at_most && found.least < 570 && found.most > 570 && found.most < 650, "{found:?}");
    }

    #[test]
    fn a_clock_whose_steps_grow_tells_the_most() {
        let at = [400, 402, 405, 411, 420, 430];
        let told = |clock: &[f64]| {
            let alone = looks(&at.map(|pass| (pass, clock[pass as usize])), clock[clock.len() - 1], false);
            [beside_a_counter(clock, &at), passes_left(&alone, false)]
        };
        // Steps that grow, as those of a blast, and steps that have been the same for a while only.
        let growing = clock_of(&|pass| 1e-5 * (1.0 + pass as f64));
        let late = clock_of(&|pass| if pass < 300 { 1e-5 } else { 1e-3 * (1.0 + 0.01 * (pass as f64).sin()) });
        for clock in [growing, late] {
            for left in told(&clock) {
                let left = left.expect("the most");
                assert!(left.is_at_most && (570..1400).contains(&left.most), "{left:?}");
            }
        }
        // Steps that shrink may do so for ever.
        let shrinking = clock_of(&|pass| 0.99_f64.powi(pass as i32));
        assert_eq!(told(&shrinking), [None, None]);
        let slower = clock_of(&|pass| if pass < 300 { 1e-3 } else { 1e-4 * (1.0 + 0.01 * (pass as f64).sin()) });
        assert_eq!(told(&slower)[0], None);
    }

    #[test]
    fn a_residual_is_no_clock() {
        let shrinking: Vec<(u64, f64)> = (0..20).map(|pass| (pass, 0.99_f64.powi(pass as i32))).collect();
        let mut all = looks(&shrinking, 1e-6, false);
        all.iter_mut().flat_map(|look| &mut look.sides).flatten().for_each(|sides| sides.goes_on = GoesOn::Above);
        assert_eq!(passes_left(&all, false), None);
    }

    #[test]
    fn the_first_of_several_ends_counts() {
        let (mut one, other) =
            (looks(&[(1, 1.0), (2, 2.0), (4, 4.0)], 100.0, true), looks(&[(1, 1.0), (2, 2.0), (4, 4.0)], 50.0, true));
        one.iter_mut().zip(&other).for_each(|(one, other)| one.sides.extend(other.sides.clone()));
        let told = |looks: &[Look], has_others| passes_left(looks, has_others).map(|left| (left.most, left.is_at_most));
        assert_eq!(passes_left(&one, false).map(|left| left.expected), Some(46));
        assert_eq!((told(&one, false), told(&one, true)), (Some((47, false)), Some((47, true))));
        // A flag may be set in any pass.
        let flag = Sides { left: 0.0, right: 0.0, goes_on: GoesOn::Equal, is_whole: true, compared_at: 0 };
        let with_flag = |look: &Look| Look { sides: [look.sides.clone(), vec![Some(flag)]].concat(), ..look.clone() };
        assert_eq!(told(&one.iter().map(with_flag).collect::<Vec<Look>>(), false), Some((47, true)));
        // Of one that can't be read nothing is known.
        one[1].sides[1] = None;
        assert_eq!(told(&one, false), Some((97, true)));
        assert_eq!(passes_left(&[], false), None);
    }
}
