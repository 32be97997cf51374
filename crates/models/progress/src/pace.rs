//! The time of an iteration to come, from windows and from the time between them.
//!
//! Time and count between two windows hold everything that happened there, also what no window saw: iterations that write
//! output, refinement, other phases. The time before the first window holds the program's setup too, of a length that nobody
//! has seen, so that is a guess beside the others. Of the past, what is as long ago as the job still has to go counts half.
//!
//! Next: `end`, which multiplies.

use crate::classes::{Rare, median, rare};
use crate::known::Look;
use crate::mixture::{Guess, Mixture};

/// A machine and a program vary by this share from one time to another, whatever a window says,
const FLOOR: f64 = 0.015;
/// and by so much of it more for every time that as long a stretch again is still to come.
const FLOOR_FURTHER: f64 = 0.35;
/// The deviation of a window's mean that has no interval of its own, as a share.
const UNKNOWN: f64 = 0.05;
/// Standard deviations in half of an interval of 95%.
const HALF_95: f64 = 1.96;
/// MPI programs take about so long before they begin to iterate.
const STARTING_S: f64 = 0.5;
/// A surplus before the first window that is shorter than this, seconds, is most likely the program's start.
const SHORT_SURPLUS_S: f64 = 2.0;
/// Weight of the guess that a surplus before the first window comes again, before anything is known.
const SURPLUS_WEIGHT: f64 = 0.5;
/// Weight of the guess that the job goes on as it did since the first window, all of it alike.
const EVER_WEIGHT: f64 = 0.3;
/// Weight of the guess that a change goes on: as seen in two parts only, and where many parts agree.
const CHANGE_WEIGHTS: [f64; 2] = [0.2, 3.0];
/// Standard errors from which on a change is one.
const CHANGE_ERRORS: f64 = 3.0;
/// A change that goes on changes the time of an iteration by this factor at most.
const CHANGE_MAX: f64 = 3.0;

/// A stretch of iterations and the mean time of each.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: f64,
    to: f64,
    each_s: f64,
}

/// The iterations to come, as far as they are known.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// Mean time of each, seconds.
    pub each_s: Mixture,
    /// Iterations watched, or counted between windows.
    pub seen: f64,
    /// Rare ones that windows saw.
    pub rare: Option<Rare>,
    /// Time before the first window that its pace does not explain, seconds; `None`: not known, or it explains all.
    pub surplus_s: Option<f64>,
}

/// The pace of the next `remaining` iterations. `looks` are of one loop, oldest first, and not empty.
pub(crate) fn pace(looks: &[Look], remaining: f64) -> Pace {
    let stretches = stretches(looks);
    let here = stretches.last().map_or(0.0, |last| last.to);
    let half_life = remaining.max(looks.last().map_or(1.0, |look| look.iterations as f64)).max(1.0);
    let weigh = |stretch: &Stretch| weight(stretch, here, half_life);
    let lately = weighted(&stretches, weigh);
    let rare = rare(&looks.iter().flat_map(|look| look.times_s.iter().copied()).collect::<Vec<_>>());
    let seen: f64 = stretches.iter().map(|stretch| stretch.to - stretch.from).sum();
    let deviation = deviation(looks, &stretches, &weigh, lately, rare, remaining);
    let mut guesses = vec![Guess { mean: lately, deviation, weight: 1.0 }];
    // Phases that came again and again may come again, though not lately.
    let ever = weighted(&stretches, |stretch| stretch.to - stretch.from);
    guesses.push(Guess { mean: ever, deviation: deviation.max(0.25 * (ever - lately).abs()), weight: EVER_WEIGHT });
    let before = before_first(looks);
    let surplus_s = before.map(|before| before.to * (before.each_s - lately)).filter(|surplus| *surplus > 0.0);
    if let Some(before) = before {
        let whole = with_before(&stretches, before, lately, weigh);
        let weight = surplus_s.map_or(1.0, |surplus| weight_of_surplus(surplus, whole, rare, seen, before.to));
        guesses.push(Guess { mean: whole, deviation: deviation.max(0.25 * (whole - lately).abs()), weight });
    }
    let known_before = before.filter(|_| surplus_s.is_none());
    let all: Vec<Stretch> = known_before.into_iter().chain(stretches).collect();
    guesses.extend(changing(&all, here, remaining, lately, deviation));
    Pace { each_s: Mixture::new(guesses), seen, rare, surplus_s }
}

/// Windows and the stretches between them, oldest first.
fn stretches(looks: &[Look]) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut before: Option<&Look> = None;
    for look in looks {
        let count = look.iterations as f64;
        let to = look.place.map_or(0.0, |place| place as f64);
        if let Some((last, place)) = before.and_then(|last| Some((last, last.place?)))
            && look.place.is_some()
        {
            let (from, until) = (place as f64, to - count);
            let seconds = look.at_s - look.duration_s - last.at_s;
            if until > from && seconds > 0.0 {
                found.push(Stretch { from, to: until, each_s: seconds / (until - from) });
            }
        }
        found.push(Stretch { from: to - count, to, each_s: look.duration_s / count.max(1.0) });
        before = Some(look);
    }
    found
}

/// From the job's start to the first window: at most so long each, since its setup lies there too.
fn before_first(looks: &[Look]) -> Option<Stretch> {
    let first = looks.first()?;
    let (done, seconds) = (first.done?.checked_sub(first.iterations)? as f64, first.at_s - first.duration_s);
    (done > 0.0 && seconds > 0.0).then(|| Stretch { from: 0.0, to: done, each_s: seconds / done })
}

/// The iterations of a stretch, each worth half as much for every half-life that it is ago.
fn weight(stretch: &Stretch, here: f64, half_life: f64) -> f64 {
    let worth = |place: f64| (-(here - place) / half_life).exp2();
    half_life / std::f64::consts::LN_2 * (worth(stretch.to) - worth(stretch.from))
}

fn weighted(stretches: &[Stretch], weigh: impl Fn(&Stretch) -> f64) -> f64 {
    let total: f64 = stretches.iter().map(&weigh).sum();
    stretches.iter().map(|stretch| weigh(stretch) * stretch.each_s).sum::<f64>() / total.max(f64::MIN_POSITIVE)
}

/// The mean if the stretch before the first window was as the job goes on, but for its start.
fn with_before(stretches: &[Stretch], before: Stretch, lately: f64, weigh: impl Fn(&Stretch) -> f64) -> f64 {
    let surplus = before.to * (before.each_s - lately);
    let start = if surplus > 0.0 { STARTING_S.min(0.5 * surplus) } else { 0.0 };
    let each_s = before.each_s - start / before.to;
    // The counters of the first window and of the job may begin elsewhere.
    let shift = stretches.first().map_or(0.0, |first| first.from) - before.to;
    let before = Stretch { from: shift, to: before.to + shift, each_s };
    let all: Vec<Stretch> = std::iter::once(before).chain(stretches.iter().copied()).collect();
    weighted(&all, weigh)
}

/// How likely it is that the time before the first window which its pace does not explain comes again, beside 1 that it was setup.
fn weight_of_surplus(surplus_s: f64, whole: f64, rare: Option<Rare>, seen: f64, before: f64) -> f64 {
    match rare {
        // As many as were seen, beside as many as there would be.
        Some(rare) => {
            let wanted = (seen * (whole - rare.usual_s) / rare.extra_s).max(1e-9);
            let count = rare.count as f64;
            (count * (wanted / count).ln() - wanted + count).exp()
        }
        None => {
            let prior = if surplus_s < SHORT_SURPLUS_S { 0.5 * SURPLUS_WEIGHT } else { SURPLUS_WEIGHT };
            prior * share_of_unseen(seen, before)
        }
    }
}

/// The chance that something which comes every so many iterations, any number up to `before` being as likely by its logarithm, was
/// not seen in `seen` of them.
fn share_of_unseen(seen: f64, before: f64) -> f64 {
    let seen = seen.max(1.0);
    if before <= seen {
        return 0.0;
    }
    ((before / seen).ln() - 1.0 + seen / before) / before.ln().max(1.0)
}

/// The standard deviation of the mean time of the iterations to come, if the job goes on as it did lately.
fn deviation(
    looks: &[Look],
    stretches: &[Stretch],
    weigh: &impl Fn(&Stretch) -> f64,
    lately: f64,
    rare: Option<Rare>,
    remaining: f64,
) -> f64 {
    let total: f64 = stretches.iter().map(weigh).sum();
    let last = looks.last();
    let of_window = last.and_then(|look| look.half_width_s).map_or(UNKNOWN * lately, |half| half / HALF_95);
    let watched = last.map_or(1.0, |look| look.iterations as f64);
    let noise = of_window * (watched / total.max(watched)).sqrt();
    let squares: f64 = stretches.iter().map(|stretch| weigh(stretch).powi(2)).sum();
    let spread =
        stretches.iter().map(|stretch| weigh(stretch) * (stretch.each_s - lately).powi(2)).sum::<f64>() / total;
    let between = (spread * squares).sqrt() / total;
    let rarely = rare.map_or(0.0, |rare| {
        let share = ((lately - rare.usual_s) / rare.extra_s).max(0.0);
        let of = |iterations: f64| rare.extra_s * (share * iterations + 0.5).sqrt() / iterations.max(1.0);
        of(total).hypot(of(remaining))
    });
    let to_come = windows_apart(looks) * (watched / remaining.max(watched)).sqrt();
    let further = 1.0 + FLOOR_FURTHER * (1.0 + remaining / total.max(1.0)).log2();
    [noise, between, to_come, rarely, FLOOR * further * lately].into_iter().fold(0.0, f64::hypot)
}

/// The standard deviation of one window's mean about that of all: what comes is off by as much.
fn windows_apart(looks: &[Look]) -> f64 {
    let each_s = |look: &Look| look.duration_s / look.iterations as f64;
    let count = looks.len() as f64;
    let mean = looks.iter().map(each_s).sum::<f64>() / count;
    (looks.iter().map(|look| (each_s(look) - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0)).sqrt()
}

/// The guess that a change of the iterations' time goes on.
fn changing(stretches: &[Stretch], here: f64, remaining: f64, lately: f64, deviation: f64) -> Option<Guess> {
    if stretches.len() < 2 {
        return None;
    }
    let middle = |stretch: &Stretch| 0.5 * (stretch.from + stretch.to);
    let long = |stretch: &Stretch| stretch.to - stretch.from;
    let total: f64 = stretches.iter().map(long).sum();
    let mean = |of: &dyn Fn(&Stretch) -> f64| stretches.iter().map(|s| long(s) * of(s)).sum::<f64>() / total;
    let (centre, level) = (mean(&middle), mean(&|stretch| stretch.each_s));
    let across = mean(&|stretch| (middle(stretch) - centre).powi(2));
    if across <= 0.0 {
        return None;
    }
    let slope = mean(&|stretch| (middle(stretch) - centre) * (stretch.each_s - level)) / across;
    let off = mean(&|stretch| (stretch.each_s - level - slope * (middle(stretch) - centre)).powi(2));
    let error = (off / across / (stretches.len() as f64 - 1.5).max(0.5)).sqrt();
    let is_one = stretches.len() >= 4 && slope.abs() > CHANGE_ERRORS * error;
    let later = level + slope * (here + 0.5 * remaining - centre);
    let later = later.clamp(lately / CHANGE_MAX, lately * CHANGE_MAX);
    let deviation = deviation.max(0.3 * (later - lately).abs());
    Some(Guess { mean: later, deviation, weight: CHANGE_WEIGHTS[usize::from(is_one)] })
}

/// The median of the windows' iterations, seconds.
pub(crate) fn usual_s(looks: &[Look]) -> Option<f64> {
    let times: Vec<f64> = looks.iter().flat_map(|look| look.times_s.iter().copied()).collect();
    (!times.is_empty()).then(|| median(times))
}
