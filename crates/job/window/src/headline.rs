//! The report's first sentences: how much is communication, who makes whom wait, how sure that is.
//!
//! Only numbers of the report appear, and only where they mean something: a spread between ranks that their own
//! iterations do not support is called undetermined, not a cause.
//!
//! Next: `trimtab-report`, which prints them above the tables.

use crate::computation::{MUCH_SLEEP, asleep, computation_s, extremes, is_displaced, slept_s, stopped_s};
use crate::crowd;
use crate::explain::{BALANCED_RATIO_MAX, is_significant};
use crate::remarks::{COST_FRACTION_WARN, is_brief, is_glimpse, is_short};
use crate::words::{duration, name_ranks};
use trimtab_types::report::{Cause, Estimate, RankTotal, Report, Window};

/// Share of time in communication from which every rank is said to be bound by it.
const COMMUNICATION_BOUND: f64 = 0.5;

/// The sentences, one line; never empty.
pub fn headline(report: &Report) -> String {
    let mut sentences = Vec::new();
    if !report.window.valid {
        sentences.push("The window is invalid: the numbers are partial, see the warnings.".to_owned());
    }
    if let Some(context) = &report.window.context {
        let measured = report.reduced.as_ref().map_or(report.ranks.len(), |reduced| reduced.ranks as usize);
        let all = report.job.ranks;
        sentences.push(format!("Of {all} ranks {measured} were measured, as asked ({context})."));
    }
    sentences.extend(stopped(report));
    sentences.push(communication(report));
    sentences.extend(several_threads(report));
    sentences.extend(crowd::sentence(report));
    sentences.extend(balance(report));
    sentences.extend(pace(report));
    sentences.join(" ")
}

/// Ranks that job control held, since that is in the times of all.
pub(crate) fn stopped(report: &Report) -> Option<String> {
    let held_s = |rank: &RankTotal| held_s(report, rank);
    let (held, longest_s) = match &report.reduced {
        Some(reduced) => (reduced.stopped_ranks.clone(), reduced.stopped_s_max.unwrap_or(0.0)),
        None => (
            report.ranks.iter().filter(|rank| held_s(rank) > 0.0).map(|rank| rank.rank).collect(),
            report.ranks.iter().map(held_s).fold(0.0, f64::max),
        ),
    };
    let (was, who) = (if held.len() == 1 { "was" } else { "were" }, name_ranks(&held));
    (!held.is_empty()).then(|| {
        format!(
            "{}{} {was} stopped by job control (SIGSTOP) for at least {longest_s:.1} s of the window, which is in all its times.",
            who[..1].to_uppercase(),
            &who[1..]
        )
    })
}

/// How long job control held a rank at least.
fn held_s(report: &Report, rank: &RankTotal) -> f64 {
    let places = report.nodes.iter().filter(|node| node.host == rank.host);
    places.filter_map(|node| stopped_s(&node.places, rank.rank)).fold(0.0, f64::max)
}

fn communication(report: &Report) -> String {
    let Some(fraction) = report.communication_fraction else {
        let why = report.communication_missing.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        return format!("Communication was not measured{why}; the window is {}.", length(&report.window));
    };
    let (mean, without, length) = (fraction.mean * 100.0, without_probes(report), length(&report.window));
    let at_least = if report.communication_at_least { "At least " } else { "" };
    let whose = if has_several_threads(report) { " of each rank's busiest thread" } else { "" };
    let spread = spread(&fraction, report.communication_at_least);
    format!("{at_least}{mean:.1}% of the time is communication{whose}{spread}{without}, in a window of {length}.")
}

fn has_several_threads(report: &Report) -> bool {
    threads_max(report).is_some_and(|threads| threads > 1)
}

/// The most threads of one rank that communicate.
fn threads_max(report: &Report) -> Option<u32> {
    match &report.reduced {
        Some(reduced) => reduced.communication_threads_max,
        None => report.ranks.iter().filter_map(|rank| rank.communication_threads).max(),
    }
}

/// Share of time in which any thread communicates, at most: mean over ranks.
fn any_thread_at_most(report: &Report) -> Option<f64> {
    if let Some(reduced) = &report.reduced {
        return reduced.communication_share_at_most;
    }
    let most = |rank: &RankTotal| {
        let share = rank.communication_threads_s? / rank.duration_s;
        share.is_finite().then(|| share.min(1.0))
    };
    crate::statistics::mean(&report.ranks.iter().map(most).collect::<Option<Vec<f64>>>()?)
}

/// Between which bounds the share of time lies in which any thread of a rank communicates: at least as long as its
/// busiest thread does, and at most as long as all do one after the other.
fn several_threads(report: &Report) -> Option<String> {
    let threads_max = threads_max(report)?;
    let (at_least, at_most) = (report.communication_fraction?.mean, any_thread_at_most(report)?);
    // Where some communication was not timed, there is no upper bound.
    let bounds = match report.communication_at_least {
        true => format!("at least {:.1}%", at_least * 100.0),
        false => format!("{:.1} to {:.1}%", at_least * 100.0, at_most * 100.0),
    };
    has_several_threads(report).then(|| {
        format!(
            "Up to {threads_max} threads of a rank communicate: at least one of them does so in {bounds} of the time."
        )
    })
}

/// The interval of a share as far as shares go. Of one of which a part was not measured, nobody knows how large it is at most.
fn spread(share: &Estimate, is_part: bool) -> String {
    let percent = |share: f64| share * 100.0;
    match (share.half_width_95, share.interval_95(1.0)) {
        (_, interval) if is_part => {
            let least = interval.map_or_else(String::new, |(low, _)| format!("{:.1}% at 95%, and ", percent(low)));
            format!(" ({least}how much more is not known)")
        }
        (Some(half_width), Some((low, high))) if half_width > share.mean || share.mean + half_width > 1.0 => {
            format!(" ({:.1} to {:.1}% at 95%)", percent(low), percent(high))
        }
        (Some(half_width), _) => format!(" (±{:.1} at 95%)", percent(half_width)),
        (None, _) => String::new(),
    }
}

/// How long the window is, and whether that is enough to speak of the program.
fn length(window: &Window) -> String {
    let iterations = match window.iterations {
        Some(1) => " and 1 iteration".to_owned(),
        Some(iterations) => format!(" and {iterations} iterations"),
        None => String::new(),
    };
    let too_short = match () {
        () if is_brief(window) => ", too short to speak of the whole program",
        () if is_short(window) => ", too few to speak of the whole program",
        () => "",
    };
    format!("{}{iterations}{too_short}", duration(window.duration_s))
}

/// Where measuring cost much, what the share would be without.
fn without_probes(report: &Report) -> String {
    let is_costly = report.cost.fraction.is_some_and(|fraction| fraction > COST_FRACTION_WARN);
    let share = report.cost.communication_fraction_without.filter(|_| is_costly);
    share.map_or_else(String::new, |share| format!(", about {:.0}% without the probes' own time", share * 100.0))
}

/// The rank that computes longest against the one that computes shortest; nothing if there is nobody to compare.
fn balance(report: &Report) -> Option<String> {
    report.communication_fraction?;
    let (longest, shortest) = extremes(&report.ranks)?;
    if is_glimpse(&report.window) {
        return Some("Which rank computes longer can't be told from so short a window.".to_owned());
    }
    if computation_s(shortest) <= 0.0 {
        return Some(format!("Rank {} only communicates; rank {} computes longest.", shortest.rank, longest.rank));
    }
    let ratio = computation_s(longest) / computation_s(shortest);
    Some(match ratio {
        _ if ratio <= BALANCED_RATIO_MAX => balanced(report, ratio),
        _ if !is_significant(longest, shortest) => format!(
            "Rank {} computes {ratio:.2}x as long as rank {}, which is within the spread of their iterations: \
             imbalance is undetermined.",
            longest.rank, shortest.rank
        ),
        _ => unbalanced(report, longest, shortest, ratio),
    })
}

fn balanced(report: &Report, ratio: f64) -> String {
    let is_bound = |fraction: Estimate| fraction.mean >= COMMUNICATION_BOUND && !crowd::is_any(report);
    let bound = report.communication_fraction.is_some_and(is_bound);
    let consequence = if bound { ": the program is bound by communication" } else { "" };
    format!("The ranks are balanced, computation differs by at most {ratio:.2}x{consequence}.")
}

fn unbalanced(report: &Report, longest: &RankTotal, shortest: &RankTotal, ratio: f64) -> String {
    let waits = match others_wait(report, longest) {
        true => " while the others wait",
        false => "",
    };
    let is_heavy = |rank: &&RankTotal| computation_s(rank) * BALANCED_RATIO_MAX >= computation_s(longest);
    let heavy = match &report.reduced {
        Some(reduced) => reduced.longest_ranks as usize,
        None => report.ranks.iter().filter(is_heavy).count(),
    };
    let who = match heavy {
        1 => format!("rank {} computes", longest.rank),
        _ => format!("{heavy} ranks (longest rank {}) compute", longest.rank),
    };
    let who = format!("{}{}", who[..1].to_uppercase(), &who[1..]);
    format!("{who} {ratio:.1}x as long as rank {}{waits}; {}.", shortest.rank, cause(report, longest))
}

/// True if every rank that computes less also communicates more than the longest one.
fn others_wait(report: &Report, longest: &RankTotal) -> bool {
    if let Some(reduced) = &report.reduced {
        return reduced.others_wait;
    }
    report
        .ranks
        .iter()
        .filter(|rank| computation_s(rank) * BALANCED_RATIO_MAX < computation_s(longest))
        .all(|rank| rank.communication_s > longest.communication_s)
}

fn is_much_sleep(report: &Report, rank: &RankTotal) -> bool {
    slept_s(&report.nodes, rank).is_some_and(|slept_s| slept_s >= MUCH_SLEEP * computation_s(rank))
}

/// Why it computes longer, where that is known.
fn cause(report: &Report, longest: &RankTotal) -> String {
    let known = report.difference.as_ref().map(|difference| (difference.cause, difference.because.as_str()));
    match known {
        Some((Cause::Processor, because)) => because.to_owned(),
        Some((Cause::Work, because)) => format!("it has more work: {because}"),
        Some((Cause::Node, because)) => format!("its node is slower: {because}"),
        _ if held_s(report, longest) > 0.0 => "the time for which it was stopped is in that".to_owned(),
        _ if is_much_sleep(report, longest) => {
            let slept_s = slept_s(&report.nodes, longest).unwrap_or_default();
            format!("{}; whether that is work is undetermined", asleep(slept_s, longest))
        }
        // Which of them had a processor, and when, is in all their times, also where a rank polls while it waits.
        _ if crowd::of_rank(&report.nodes, longest).is_some() => {
            "more work, or ranks of the job on its processor, is undetermined".to_owned()
        }
        _ if is_displaced(&report.nodes, longest) => {
            "more work, or others on its processor, is undetermined".to_owned()
        }
        _ => "more work or a slower processor is undetermined".to_owned(),
    }
}

fn pace(report: &Report) -> Option<String> {
    let time = report.time_per_iteration_s?;
    let rate = report.iterations_per_s?;
    let spread = match (time.half_width_95, time.interval_95(f64::INFINITY)) {
        (Some(half_width), Some((_, high))) if half_width >= time.mean => format!(" (up to {})", duration(high)),
        (Some(half_width), _) => format!(" ±{:.1}%", half_width / time.mean * 100.0),
        (None, _) => String::new(),
    };
    Some(format!("An iteration takes {}{spread} ({rate:.3} per second).", duration(time.mean)))
}
