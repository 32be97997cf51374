//! The end of a job, from what is known of it.
//!
//! Next: `pace` for the time of iterations, `history` for run times.

use crate::history::Past;
use crate::known::{Known, Look, Outer, Remaining};
use crate::mixture::Mixture;
use crate::outer::outer_end;
use crate::pace::{Pace, pace, usual_s};

/// The interval holds this share of ends.
pub const SHARE: f64 = 0.9;
/// An interval of more than this share of the time to come is worth another look.
const WIDE: f64 = 0.12;

/// How an end was derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Iterations to come, times the time of each.
    Iterations,
    /// As many as may come at most: the latest end, and none that is expected.
    AtMost,
    /// Run times of earlier runs.
    History,
    /// Iterations, and run times that agree with them.
    Both,
    /// Iterations, and run times that do not agree with them.
    Apart,
    /// Passes of a loop around the one that counts iterations, which are taken to be alike.
    Outer,
}

impl Method {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Method::Iterations => "iterations",
            Method::AtMost => "iterations at most",
            Method::History => "history",
            Method::Both => "iterations and history",
            Method::Apart => "iterations or history",
            Method::Outer => "outer iterations",
        }
    }
}

/// When a job ends: seconds from now.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// The middle one of possible ends; `None`: only the latest is known.
    pub remaining_s: Option<f64>,
    /// The same if its loop goes through all passes that it may; `None`: [`End::remaining_s`] says it.
    pub unless_left_s: Option<f64>,
    /// 90% of ends lie between these; for [`Method::AtMost`] the first is 0.
    pub lower_s: f64,
    /// The upper one.
    pub upper_s: f64,
    /// 99% of ends lie before this.
    pub late_s: f64,
    /// How it was derived.
    pub method: Method,
    /// The mean time of an iteration to come, seconds; `None`: from history.
    pub each_s: Option<f64>,
    /// A further window, some time later, would say more.
    pub is_worth_a_look: bool,
    /// The facts it rests on, in sentences without a full stop.
    pub because: Vec<String>,
}

/// Why nothing can be claimed, or what is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A time that is no time.
    #[error("a time that is negative, infinite or no number is among what is known: {0}")]
    NoTime(&'static str),
    /// Clocks that jump.
    #[error("a window ends before the one that came before it, or before the job began: a clock has jumped")]
    Clock,
    /// There is nothing to say.
    #[error("{0}")]
    NoBasis(String),
}

/// When the job ends.
///
/// # Errors
/// Nothing can be claimed, or what is known can't be.
pub fn forecast(known: &Known) -> Result<End, Error> {
    check(known)?;
    let past = Past::of(&known.earlier_s, known.elapsed_s);
    let by_outer = || by_outer(known, known.outer.as_ref()?);
    if let Some(end) = past.is_none().then(by_outer).flatten() {
        return Ok(end);
    }
    match (known.remaining, known.looks.last()) {
        (Remaining::Exactly(remaining), Some(last)) => Ok(by_iterations(known, last, remaining, past)),
        (Remaining::Between { expected, least, most }, Some(last)) => {
            let end = by_iterations(known, last, expected, past);
            let (early, late) =
                (by_iterations(known, last, least, None), by_iterations(known, last, most.max(expected), None));
            Ok(between(end, &early, &late, (least, most)))
        }
        (Remaining::AtMost(remaining), Some(last)) => {
            let latest = at_most(known, last, remaining);
            // One that has lasted longer than all earlier runs is given more work than these.
            let is_longer = known.earlier_s.iter().all(|earlier| known.elapsed_s > *earlier);
            let past = past.filter(|_| !is_longer);
            Ok(past.map(|past| by_history(known, past, latest.late_s)).unwrap_or(latest))
        }
        _ => past.map(|past| by_history(known, past, f64::MAX)).ok_or_else(|| Error::NoBasis(no_basis(known))),
    }
}

fn check(known: &Known) -> Result<(), Error> {
    let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
    if !is_time(known.elapsed_s) || !known.earlier_s.iter().all(|time| is_time(*time)) {
        return Err(Error::NoTime("the age of the job, or an earlier run"));
    }
    for look in &known.looks {
        let all = [look.at_s, look.duration_s, look.half_width_s.unwrap_or(0.0)].into_iter().all(is_time);
        if !all || !look.times_s.iter().all(|time| is_time(*time)) || look.iterations == 0 || look.duration_s == 0.0 {
            return Err(Error::NoTime("a window"));
        }
    }
    let jumps = known.looks.windows(2).any(|pair| pair[1].at_s < pair[0].at_s);
    let before = known.looks.first().is_some_and(|first| first.at_s < first.duration_s);
    if jumps || before { Err(Error::Clock) } else { Ok(()) }
}

fn by_iterations(known: &Known, last: &Look, remaining: u64, past: Option<Past>) -> End {
    let pace = pace(&known.looks, remaining as f64);
    let since_s = (known.elapsed_s - last.at_s).max(0.0);
    // A loop that is over has no time to come, and a guess must be above zero.
    let whole = pace.each_s.times((remaining as f64).max(1e-9));
    let of_loop = |share: f64| (whole.quantile(share) - since_s).max(0.0);
    let mut because = reasons(known, &pace, remaining);
    let (method, quantile): (Method, Box<dyn Fn(f64) -> f64>) = match past {
        None => (Method::Iterations, Box::new(of_loop)),
        Some(past) => joined(of_loop, past, known, &mut because),
    };
    let edge = 0.5 * (1.0 - SHARE);
    let (lower_s, middle, upper_s) = (quantile(edge), quantile(0.5), quantile(1.0 - edge));
    End {
        remaining_s: Some(middle),
        unless_left_s: None,
        lower_s,
        upper_s,
        late_s: quantile(0.99),
        method,
        each_s: Some(pace.each_s.quantile(0.5)),
        is_worth_a_look: upper_s - lower_s > WIDE * middle && middle > since_s,
        because,
    }
}

/// An end whose iterations to come are a range: its interval reaches from the early end of the fewest to the late one of the most.
fn between(end: End, early: &End, late: &End, (least, most): (u64, u64)) -> End {
    let mut because = end.because;
    because.push(format!("from {least} to {most} iterations fit what was seen of its loop's tests"));
    End {
        lower_s: end.lower_s.min(early.lower_s),
        upper_s: end.upper_s.max(late.upper_s),
        late_s: end.late_s.max(late.late_s),
        because,
        ..end
    }
}

/// Iterations beside earlier runs: the narrower one where they agree, else both.
fn joined<'a>(
    of_loop: impl Fn(f64) -> f64 + 'a,
    past: Past,
    known: &Known,
    because: &mut Vec<String>,
) -> (Method, Box<dyn Fn(f64) -> f64 + 'a>) {
    let ends = |of: &dyn Fn(f64) -> f64| (of(0.05), of(0.95));
    let (by_loop, by_past) = (ends(&of_loop), ends(&|share| past.quantile(share)));
    because.push(format!("{} took {}", runs(known.earlier_s.len()), span(&known.earlier_s)));
    if by_loop.1 < by_past.0 || by_past.1 < by_loop.0 {
        because.push("that does not agree with its iterations: the interval holds both".to_owned());
        // Half of the weight each: quantiles of a mixture lie where both shares together are met.
        let both = Mixture::new(vec![normal_of(by_loop), normal_of(by_past)]);
        return (Method::Apart, Box::new(move |share| both.quantile(share)));
    }
    if by_past.1 - by_past.0 < by_loop.1 - by_loop.0 {
        return (Method::Both, Box::new(move |share| past.quantile(share)));
    }
    (Method::Both, Box::new(of_loop))
}

/// A guess with such an interval of 90%, as far as it is one of numbers above zero.
fn normal_of((lower, upper): (f64, f64)) -> crate::mixture::Guess {
    crate::mixture::Guess {
        mean: (0.5 * (lower + upper)).max(f64::MIN_POSITIVE),
        deviation: (upper - lower) / 3.29,
        weight: 1.0,
    }
}

/// No end is later than the latest that its iterations allow.
fn by_history(known: &Known, past: Past, latest_s: f64) -> End {
    let quantile = |share: f64| past.quantile(share).min(latest_s);
    End {
        remaining_s: Some(quantile(0.5)),
        unless_left_s: None,
        lower_s: quantile(0.05),
        upper_s: quantile(0.95),
        late_s: quantile(0.99),
        method: Method::History,
        each_s: None,
        is_worth_a_look: false,
        because: vec![
            format!("{} took {}", runs(known.earlier_s.len()), span(&known.earlier_s)),
            format!("this one has lasted {} so far", time(known.elapsed_s)),
        ],
    }
}

fn at_most(known: &Known, last: &Look, remaining: u64) -> End {
    let pace = pace(&known.looks, remaining as f64);
    let since_s = (known.elapsed_s - last.at_s).max(0.0);
    let latest = |share: f64| (pace.each_s.quantile(share) * remaining as f64 - since_s).max(0.0);
    let mut because = reasons(known, &pace, remaining);
    because.push("its loop may be left before: no end is expected, only the latest one known".to_owned());
    End {
        remaining_s: None,
        unless_left_s: Some(latest(0.5)),
        lower_s: 0.0,
        upper_s: latest(0.95),
        late_s: latest(0.99),
        method: Method::AtMost,
        each_s: Some(pace.each_s.quantile(0.5)),
        is_worth_a_look: latest(0.95) - latest(0.05) > WIDE * latest(0.5),
        because,
    }
}

/// By passes of a loop around, where nothing bounds their time: `None`.
fn by_outer(known: &Known, outer: &Outer) -> Option<End> {
    let (end, last) = (outer_end(known, outer)?, outer.looks.last()?);
    let (least_s, most_s) = end.pass_s;
    let each = match least_s > 0.0 {
        true => format!("{} to {} each", time(least_s), time(most_s)),
        false => format!("at most {} each", time(most_s)),
    };
    let mut because = vec![format!(
        "{} passes of {} to come behind the one that it is in, {each}: more is not known of their time",
        last.to_come, outer.name
    )];
    if outer.is_likely {
        because.push("its counter or its bound is a variable that other code may change".to_owned());
    }
    if outer.may_end_before {
        because.push("it may be left before: no end is expected, only the latest one known".to_owned());
    }
    let middle_s = Some(end.middle_s);
    Some(End {
        remaining_s: middle_s.filter(|_| !outer.may_end_before),
        unless_left_s: middle_s.filter(|_| outer.may_end_before),
        lower_s: if outer.may_end_before { 0.0 } else { end.lower_s },
        upper_s: end.upper_s,
        late_s: end.late_s,
        method: Method::Outer,
        each_s: None,
        is_worth_a_look: end.is_seen_soon && end.upper_s - end.lower_s > WIDE * end.middle_s,
        because,
    })
}

fn reasons(known: &Known, pace: &Pace, remaining: u64) -> Vec<String> {
    let windows = known.looks.len();
    let mut said = vec![format!(
        "{remaining} iterations to come, {} each, from {:.0} iterations in and between {windows} window{}",
        time(pace.each_s.quantile(0.5)),
        pace.seen,
        if windows == 1 { "" } else { "s" },
    )];
    if let Some(rare) = pace.rare {
        let usual = usual_s(&known.looks).unwrap_or(rare.usual_s);
        let (count, extra) = (rare.count, time(rare.extra_s));
        said.push(format!("windows saw {count} that took {extra} more than the usual {}", time(usual)));
    }
    if let Some(surplus) = pace.surplus_s.filter(|surplus| *surplus > 0.02 * known.elapsed_s) {
        said.push(format!(
            "{} before the first window are setup, or iterations that took longer: the interval allows for both",
            time(surplus)
        ));
    }
    said
}

fn no_basis(known: &Known) -> String {
    let why = match known.earlier_s.len() {
        0 => "no earlier run of it with these arguments on as many ranks was seen to end".to_owned(),
        _ => format!("it has outlived its {}", runs(known.earlier_s.len())),
    };
    let count =
        if known.looks.is_empty() { "no loop counts its iterations" } else { "nobody knows how many iterations come" };
    format!("{count}, and {why}")
}

fn runs(count: usize) -> String {
    if count == 1 { "1 earlier run".to_owned() } else { format!("{count} earlier runs") }
}

fn span(times: &[f64]) -> String {
    let (least, most) =
        times.iter().fold((f64::MAX, 0.0_f64), |(least, most), time| (least.min(*time), most.max(*time)));
    if times.len() == 1 { time(least) } else { format!("{} to {}", time(least), time(most)) }
}

/// A time in the unit that fits.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.3} us", s * 1e6),
        s if s < 1.0 => format!("{:.3} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
