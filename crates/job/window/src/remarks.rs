//! Remarks for a reader beside the numbers of a window that is valid.
//!
//! Next: `assemble`, which prints these after what made a window invalid.

use crate::input::{RankSample, WindowInput, out_reason};
use crate::words::{duration, name_ranks};
use trimtab_types::report::{Cost, Ended, FunctionGroup, Window};

/// Share of the window the measurement may cost before the report warns.
pub(crate) const COST_FRACTION_WARN: f64 = 0.02;
/// A shorter window, or one of fewer iterations, may have caught the program at anything.
const SHORT_S: f64 = 0.1;
const FEW_ITERATIONS: u64 = 10;
/// A reader of a short window is told to ask for so much, seconds.
const LONG_S: f64 = 1.0;

/// Ranks whose threads communicate by themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    /// Ranks of which several do, ascending.
    pub several: Vec<u32>,
    /// The most of one rank.
    pub threads_max: u32,
    /// Ranks of which another than the main one does so longest, ascending.
    pub others_longest: Vec<u32>,
}

impl Threads {
    pub(crate) fn of(ranks: &[RankSample]) -> Threads {
        let busy = RankSample::communicating_threads;
        let is_other = |rank: &&RankSample| rank.threads.iter().any(|thread| thread.comm_ticks > rank.comm_ticks);
        Threads {
            several: ranks.iter().filter(|rank| busy(rank) > 1).map(|rank| rank.rank).collect(),
            threads_max: ranks.iter().map(busy).max().unwrap_or(0),
            others_longest: ranks.iter().filter(is_other).map(|rank| rank.rank).collect(),
        }
    }
}

/// The remarks on a window that is valid.
pub(crate) fn remarks(input: &WindowInput, (cost, window): (&Cost, &Window), threads: &Threads) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(fraction) = cost.fraction.filter(|fraction| *fraction > COST_FRACTION_WARN) {
        remarks.push(format!(
            "measuring cost an estimated {:.1}% of the window's time{}; measure fewer functions",
            fraction * 100.0,
            without(cost)
        ));
    }
    remarks.extend(too_short(window));
    if window.ended_by == Ended::Interrupted && window.valid && input.facts.common_iterations.is_none() {
        remarks.push(interrupted(window));
    }
    if !threads.others_longest.is_empty() && input.has_comm() {
        remarks.push(format!(
            "on {} another thread than the main one communicates longest; the interval of the communication share \
             describes the main threads only",
            name_ranks(&threads.others_longest)
        ));
    }
    remarks.extend(several_threads(threads).filter(|_| input.has_comm()));
    remarks.extend(untimed(input));
    remarks.extend(taken_out(input));
    let unnamed: u64 = input.ranks.iter().map(|rank| rank.unattributed_bytes).sum();
    if unnamed > 0 {
        remarks.push(format!("{unnamed} bytes were sent to ranks that could not be named; links are without them"));
    }
    let unknown = input.unknown_bytes();
    remarks.extend(unknown.iter().map(|(name, reason)| format!("the bytes of {name} are not known: {reason}")));
    if !unknown.is_empty() {
        remarks.push("so links and volumes are too small".to_owned());
    }
    remarks
}

/// Several threads of a process in MPI: times of functions are sums over them, and may be more than there was time.
fn several_threads(threads: &Threads) -> Option<String> {
    let Threads { several, threads_max, .. } = threads;
    (!several.is_empty()).then(|| {
        format!(
            "on {} several threads communicate, {threads_max} at most: the time of a function is the sum over them, so its \
             share of the ranks' time may be above 100%; the share of communication is that of each rank's busiest thread",
            name_ranks(several)
        )
    })
}

/// Functions of the window whose time is not known, and what that means.
fn untimed(input: &WindowInput) -> Vec<String> {
    let all = input.untimed();
    let mut remarks: Vec<String> =
        all.iter().map(|(name, reason)| format!("the time of {name} is not measured: {reason}")).collect();
    if input.facts.communication_named_only && input.has_comm() {
        let is_timed = |info: &&crate::FunctionInfo| info.group == FunctionGroup::Comm && info.timed;
        let names: Vec<&str> = input.functions.iter().filter(is_timed).map(|info| info.name.as_str()).collect();
        remarks.push(format!(
            "of communication nothing but {} was measured, as asked: its share is a lower bound, and computation an upper one; \
             --group comm measures all of it",
            names.join(", ")
        ));
    }
    if input.has_unmeasured_calls() {
        remarks.push(
            "the share of communication is a lower bound, and computation an upper one: there are functions that communicate \
             and whose time is not in it"
                .to_owned(),
        );
    }
    remarks
}

/// Functions that were not counted to the end, so that nobody takes their calls for all, or silence for zero.
fn taken_out(input: &WindowInput) -> Vec<String> {
    let out = |(number, info): (usize, &crate::FunctionInfo)| {
        let reason = out_reason(input, number)?;
        Some(format!("{}: {reason}", info.name))
    };
    input.functions.iter().enumerate().filter_map(out).collect()
}

/// The main number as it would be without the cost.
fn without(cost: &Cost) -> String {
    let share = |share: f64| format!(", without which some {:.0}% of it would be communication", share * 100.0);
    cost.communication_fraction_without.map(share).unwrap_or_default()
}

/// An interrupt ends a window early and harms nothing.
fn interrupted(window: &Window) -> String {
    match window.iterations {
        Some(iterations) => format!(
            "interrupted: the window is the {iterations} iterations that all ranks had made whole by then; nothing is \
             missing in it"
        ),
        None => "interrupted: the window is what was recorded until then".to_owned(),
    }
}

/// True if a window says little of its program.
pub(crate) fn is_short(window: &Window) -> bool {
    is_brief(window) || has_few_iterations(window)
}

pub(crate) fn is_brief(window: &Window) -> bool {
    window.duration_s < SHORT_S
}

/// True if it is short, and has no iterations that would show how much the ranks vary.
pub(crate) fn is_glimpse(window: &Window) -> bool {
    is_brief(window) && window.iterations.is_none_or(|iterations| iterations < 2)
}

fn has_few_iterations(window: &Window) -> bool {
    window.iterations.is_some_and(|iterations| iterations < FEW_ITERATIONS)
}

/// How short it was, and what to ask for instead.
fn too_short(window: &Window) -> Option<String> {
    let iterations = window.iterations.map_or_else(String::new, |count| match count {
        1 => " and had 1 iteration".to_owned(),
        _ => format!(" and had {count} iterations"),
    });
    let iteration_s = window.iterations.filter(|count| *count > 0).map(|count| window.duration_s / count as f64);
    let advice = match iteration_s {
        None => "allow more time with --max-seconds, or attach earlier".to_owned(),
        Some(_) if is_brief(window) => format!("measure again with --at-least {LONG_S} or more"),
        Some(seconds) => {
            let needed_s = (seconds * (FEW_ITERATIONS + 2) as f64).ceil();
            format!("record {FEW_ITERATIONS} or more, for which --max-seconds must be {needed_s} or more")
        }
    };
    is_short(window).then(|| {
        format!(
            "the window lasted {}{iterations}: it says little of the program as a whole; {advice}",
            duration(window.duration_s)
        )
    })
}
