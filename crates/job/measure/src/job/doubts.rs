//! Reasons, seen when the window has ended, why what was counted may not be the program's iterations.
//!
//! The loop may be one of several phases, because it ends soon or because the program is young; and a pass of it may be one
//! of several parts of a step, because nothing happens in each pass. These words follow the description of the loop.
//!
//! Next: `nest` for what is known when the loop is chosen.

use super::drive::WindowLead;
use super::nest;
use crate::error::Error;
use trimtab_mpi::Class;
use trimtab_os::ticks;
use trimtab_types::report::{Ended, LoopProgress, OuterProgress, Report};
use trimtab_window::FunctionInfo;

/// A loop that ends within so many seconds may be followed by another.
const ENDING_SECONDS: f64 = 10.0;
/// A program that has run no longer may still be setting up.
const YOUNG_SECONDS: f64 = 10.0;
/// A call that belongs to each pass is made in this share of them; and passes from which that can be told.
const EACH_PASS: f64 = 0.9;
const PASSES_MIN: u64 = 5;

/// The mean of so many passes is known to better than this part of it, 95% interval, where all do about the same.
const EVEN_PASSES_MIN: u64 = 100;
const EVEN_MEAN_PART: f64 = 0.5;

/// Says so where the mean time of many passes is not known, so different are they.
pub(super) fn say_uneven(report: &mut Report) {
    let estimate = report.time_per_iteration_s.as_ref();
    let doubt = estimate.and_then(|found| uneven(found.samples, found.mean, found.half_width_95));
    say(report, doubt.filter(|_| report.window.marker.is_some()));
}

fn uneven(passes: u64, mean_s: f64, half_width_s: Option<f64>) -> Option<String> {
    let part = half_width_s.filter(|_| passes >= EVEN_PASSES_MIN)? / mean_s;
    (part > EVEN_MEAN_PART).then(|| {
        format!(
            "the mean time of {passes} passes is known to {:.0}% only, so different are they: they may be parts of a step, large and \
             small ones",
            100.0 * part
        )
    })
}

/// Says so where no call of MPI was made in each pass of the loop, on no rank: `by_path` has calls of a function by one path.
pub(super) fn say_calls_apart(report: &mut Report, by_path: &[(usize, u64)], functions: &[FunctionInfo]) {
    let passes = report.window.iterations.filter(|_| report.window.main_loop.is_some());
    say(report, passes.and_then(|passes| calls_apart(by_path, functions, passes)));
}

/// Says so where no rank passed the loop in the window.
pub(super) fn say_left(report: &mut Report) {
    let is_loop = report.window.main_loop.is_some();
    say(report, left(report.window.iterations).filter(|_| is_loop));
}

fn left(passes: Option<u64>) -> Option<String> {
    (passes == Some(0)).then(|| {
        "no rank passed it from beginning to end in the window: the program may have left it after it was chosen; another window \
         finds what runs now"
            .to_owned()
    })
}

/// Says so where the program has entered a loop around it since the stacks were looked at, and how far those are that lie around it:
/// all in which ranks are, if none of them counts iterations.
/// A program that has ended, or that somebody waits to be let alone, is not looked at again.
pub(super) fn say_around(lead: &mut WindowLead, report: &mut Report) -> Result<(), Error> {
    if !matches!(report.window.ended_by, Ended::Iterations | Ended::MaxSeconds) {
        return Ok(());
    }
    let looked = nest::look_behind(lead)?;
    report.cost.add_pauses(looked.pause_us_max, looked.pause_us_total);
    if report.window.main_loop.is_none() {
        report.window.outer_progress = looked.outer;
        return Ok(());
    }
    say(report, entered(&looked.entered));
    let end_unix_s = report.window.started_unix_s.map(|started| started + report.window.duration_s);
    let now_unix_s = lead.clock.unix_time(lead.clock.ticks_per_second()).at(ticks());
    let since_s = end_unix_s.map(|end| (now_unix_s - end).max(0.0));
    let left = report.window.progress.as_ref().and_then(|progress| progress.remaining);
    let each_s = report.time_per_iteration_s.as_ref().map(|estimate| estimate.mean);
    report.window.outer_progress = looked.outer;
    if may_be_anew(left, each_s, since_s) {
        report.window.outer_progress.iter_mut().for_each(no_more_known);
    }
    Ok(())
}

/// Times that so long may have passed between the window's end and the look as was seen: ranks are not looked at all at once.
const LATER_FACTOR: f64 = 2.0;

/// True if a loop that has so many passes left, of `each_s`, may have ended and begun anew between the window's end and a look so
/// long behind it.
fn may_be_anew(left: Option<u64>, each_s: Option<f64>, since_s: Option<f64>) -> bool {
    let Some(left) = left else { return false };
    let times = each_s.zip(since_s).map(|(each_s, since_s)| (left.saturating_sub(1) as f64 * each_s, since_s));
    times.is_none_or(|(left_s, since_s)| left_s <= LATER_FACTOR * since_s)
}

fn no_more_known(one: &mut OuterProgress) {
    let missing = "the loop in it may have ended and begun anew between the window and the look".to_owned();
    *one = OuterProgress { name: std::mem::take(&mut one.name), missing: Some(missing), ..OuterProgress::default() };
}

fn entered(around: &[String]) -> Option<String> {
    (!around.is_empty()).then(|| {
        format!(
            "since the loops were looked at the program has entered {}, which may lie around it: an iteration of the program may be \
             a pass of that; another window counts it",
            around.join(", in that ")
        )
    })
}

/// Says so where the loop ends soon, or nobody knows when it ends and the program is young.
pub(super) fn say_phase(report: &mut Report) {
    let (window, estimate) = (&report.window, report.time_per_iteration_s.as_ref());
    let Some(seconds_each) = estimate.map(|estimate| estimate.mean).filter(|_| window.marker.is_some()) else { return };
    let both = window.started_unix_s.zip(report.job.started_unix_s);
    // A program whose age is not known may be young.
    let age_s = both.map_or(0.0, |(window_unix_s, program_unix_s)| window_unix_s + window.duration_s - program_unix_s);
    let doubt = may_be_a_phase(window.progress.as_ref(), seconds_each, age_s);
    say(report, doubt);
}

fn say(report: &mut Report, doubt: Option<String>) {
    if let (Some(description), Some(doubt)) = (&mut report.window.loop_description, doubt) {
        *description += &format!("; {doubt}");
    }
}

fn calls_apart(by_path: &[(usize, u64)], functions: &[FunctionInfo], passes: u64) -> Option<String> {
    let is_work = |function: usize| functions.get(function).is_none_or(|info| !only_asks(&info.name));
    let paths = by_path.iter().filter(|(function, _)| is_work(*function));
    let most = paths.map(|(_, calls)| *calls).max()?;
    let share = most as f64 / passes.max(1) as f64;
    (passes >= PASSES_MIN && share < EACH_PASS).then(|| {
        format!(
            "no call of MPI was made in each pass, the most frequent one in {:.0}% of them: a pass may be a part of a step",
            100.0 * share
        )
    })
}

/// A function of MPI that asks whether there is something to do: event loops call it in each pass.
fn only_asks(name: &str) -> bool {
    trimtab_mpi::find(name).is_some_and(|function| matches!(function.class, Class::Test | Class::Probe))
}

fn may_be_a_phase(progress: Option<&LoopProgress>, seconds_each: f64, age_s: f64) -> Option<String> {
    let left = progress.and_then(passes_left).map(|(passes, is_bound)| (passes as f64 * seconds_each, is_bound));
    match left {
        Some((left_s, is_bound)) if left_s <= ENDING_SECONDS => {
            let most = if is_bound { " at most" } else { "" };
            Some(format!(
                "it ends in about {left_s:.1} s{most}: if the program goes on, another loop may be its main one"
            ))
        }
        Some((_, false)) => None,
        _ => (0.0..YOUNG_SECONDS).contains(&age_s).then(|| {
            format!(
                "the program had run for {age_s:.1} s when the window ended: it may not have come to its main loop yet"
            )
        }),
    }
}

/// Passes that remain; and whether they may be fewer.
fn passes_left(progress: &LoopProgress) -> Option<(u64, bool)> {
    let at_most = || Some((progress.total_at_most?.checked_sub(progress.done?)?, true));
    progress.remaining.map(|remaining| (remaining, false)).or_else(at_most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(calls: &[u64]) -> Vec<(usize, u64)> {
        calls.iter().map(|calls| (0, *calls)).collect()
    }

    #[test]
    fn passes_whose_mean_is_hardly_known_may_be_parts_of_a_step() {
        let said = uneven(7035, 37.1e-6, Some(78e-6)).expect("a doubt");
        assert!(said.starts_with("the mean time of 7035 passes is known to 210% only"), "{said}");
        assert_eq!(
            (uneven(7035, 37e-6, Some(4e-6)), uneven(10, 0.1, Some(0.2)), uneven(500, 0.1, None)),
            (None, None, None)
        );
    }

    #[test]
    fn a_loop_that_was_about_to_end_may_have_begun_anew_when_it_is_looked_at() {
        let seen = |left, since_s| may_be_anew(left, Some(0.1), since_s);
        assert!(!seen(Some(50), Some(0.3)), "4.9 s were left");
        assert!(seen(Some(5), Some(0.3)) && seen(Some(0), Some(0.0)) && seen(Some(50), None));
        assert!(!seen(None, Some(0.3)), "nothing is said of its end");
        let mut outer = OuterProgress { name: "loop 1".to_owned(), done: Some(3), ..OuterProgress::default() };
        no_more_known(&mut outer);
        assert!(outer.done.is_none() && outer.name == "loop 1" && outer.missing.is_some(), "{outer:?}");
    }

    #[test]
    fn something_belongs_to_each_pass() {
        let functions = ["MPI_Send", "MPI_Iprobe"];
        let functions = functions.map(|name| FunctionInfo { name: name.to_owned(), ..FunctionInfo::default() });
        let said = |ranks: &[Vec<(usize, u64)>], passes| calls_apart(&ranks.concat(), &functions, passes);
        assert_eq!(said(&[rank(&[4, 10]), rank(&[5, 5])], 10), None, "on one rank it does");
        assert_eq!(said(&[rank(&[4, 3, 1])], 4), None, "too few passes");
        assert_eq!(said(&[rank(&[])], 10), None, "nothing is called");
        let told = said(&[rank(&[4, 3, 1]), rank(&[4, 1])], 10).unwrap_or_default();
        assert!(told.contains("the most frequent one in 40% of them"), "{told}");
        let mut asking = rank(&[4, 10]);
        asking[1].0 = 1;
        assert_eq!(said(&[asking], 10), Some(told), "asking is no work");
    }

    #[test]
    fn a_loop_that_is_not_passed_may_have_been_left() {
        assert_eq!([left(None), left(Some(1))], [None, None]);
        assert!(left(Some(0)).is_some_and(|said| said.contains("may have left it")));
    }

    #[test]
    fn a_loop_around_it_may_have_been_entered_since() {
        let said = |names: &[&str]| entered(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(said(&[]), None);
        assert!(
            said(&["loop 1 of md", "loop 1 of scf"]).is_some_and(|said| said.contains("md, in that loop 1 of scf,"))
        );
    }

    #[test]
    fn a_loop_may_be_a_phase_if_it_ends_soon_or_the_program_is_young() {
        let left = |remaining| LoopProgress { remaining: Some(remaining), ..LoopProgress::default() };
        let at_most =
            |done, total| LoopProgress { done: Some(done), total_at_most: Some(total), ..LoopProgress::default() };
        let said = |age, progress| may_be_a_phase(Some(&progress), 0.5, age).unwrap_or_default();
        assert!(said(100.0, left(6)).starts_with("it ends in about 3.0 s: "));
        assert!(said(3.0, at_most(10, 16)).starts_with("it ends in about 3.0 s at most: "));
        assert!(said(3.0, at_most(10, 1000)).starts_with("the program had run for 3.0 s"), "it may be left before");
        assert!(said(3.0, LoopProgress::default()).starts_with("the program had run for 3.0 s"));
        for (age, progress) in [(3.0, left(1000)), (100.0, LoopProgress::default()), (100.0, at_most(10, 1000))] {
            assert_eq!(said(age, progress), "");
        }
    }
}
