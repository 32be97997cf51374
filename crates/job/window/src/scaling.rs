//! Windows of one program on several numbers of ranks: speed-up, efficiency, and what keeps it from scaling.
//!
//! Times are of one iteration. Ideal is the time on the fewest ranks, divided by how many times as many there are (strong
//! scaling), or that time itself (weak scaling). The time above the ideal has three parts, as POP's efficiencies have:
//! more computation than a rank's part, imbalance, and communication. A function is named by the rank that is in it longest:
//! where only one rank computes, the others wait in MPI, and no sum over ranks shows it.
//!
//! Next: `trimtab_types::scaling` for the result.

use std::collections::BTreeSet;
use trimtab_types::report::{Estimate, FunctionGroup, FunctionTotal, Report};
use trimtab_types::scaling::{FunctionScaling, Growth, LostIn, LostPart, SCHEMA, Scaling, ScalingPoint, Work};

/// Share of the time above the ideal from which a function is named.
const NAMED_SHARE_MIN: f64 = 0.02;
/// Ratio of two times that are called the same.
const SAME_RATIO: f64 = 0.1;
/// Functions named at most.
const NAMED_MAX: usize = 12;

/// Why windows can't be put beside each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoScaling {
    /// Fewer than two numbers of ranks are left; the windows that are, and why the others are not.
    TooFew {
        /// Why windows were left out.
        left_out: Vec<String>,
    },
    /// The windows are of several programs.
    Programs(Vec<String>),
}

impl std::fmt::Display for NoScaling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoScaling::TooFew { left_out } if left_out.is_empty() => {
                write!(f, "--scaling takes windows of one program on at least two numbers of ranks")
            }
            NoScaling::TooFew { left_out } => {
                write!(f, "fewer than two numbers of ranks are left to compare: {}", left_out.join("; "))
            }
            NoScaling::Programs(names) => {
                write!(f, "the windows are of different programs ({}): give windows of one", names.join(", "))
            }
        }
    }
}

impl std::error::Error for NoScaling {}

/// A window with the numbers that are compared.
struct Measured<'a> {
    report: &'a Report,
    name: String,
    ranks: u32,
    /// Ranks that were measured.
    measured: f64,
    time: Estimate,
    iterations: f64,
}

/// Puts windows of one program on several numbers of ranks beside each other.
///
/// # Errors
/// If they are of several programs, or of fewer than two numbers of ranks.
pub fn scaling(reports: &[Report], work: Work) -> Result<Scaling, NoScaling> {
    let mut warnings = Vec::new();
    let programs: BTreeSet<&str> = reports.iter().map(|report| file_name(&report.job.program)).collect();
    if programs.len() > 1 {
        return Err(NoScaling::Programs(programs.into_iter().map(str::to_owned).collect()));
    }
    let mut measured: Vec<Measured<'_>> = Vec::new();
    for report in reports {
        match usable(report) {
            Ok(one) if measured.iter().any(|other| other.ranks == one.ranks) => {
                warnings.push(format!("{} is left out: another window has {} ranks too", one.name, one.ranks));
            }
            Ok(one) => measured.push(one),
            Err(unusable) => {
                warnings.push(format!("{}/{} is left out: {unusable}", report.job.id, report.window.number));
            }
        }
    }
    measured.sort_by_key(|one| one.ranks);
    let [first, .., last] = measured.as_slice() else { return Err(NoScaling::TooFew { left_out: warnings }) };
    warnings.extend(remarks(&measured));
    let lost_s = last.time.mean - first.time.mean * ideal(first, last, work);
    let half = |one: &Measured<'_>| one.time.half_width_95;
    let halves = half(first).map(|width| width * ideal(first, last, work)).zip(half(last));
    Ok(Scaling {
        schema: SCHEMA.to_owned(),
        program: first.report.job.program.clone(),
        work,
        points: measured.iter().map(|one| point(first, one, work)).collect(),
        lost_s,
        lost_half_width_95_s: halves.map(|(a, b)| a.hypot(b)),
        parts: parts(first, last, work),
        functions: functions(&measured, work, lost_s),
        warnings,
    })
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Why a window can't be compared.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it is not valid")]
    NotValid,
    #[error("it has no time per iteration")]
    NoTime,
    #[error("it is by time")]
    ByTime,
    #[error("no rank was measured")]
    NoRank,
}

/// The numbers of a window, or why it can't be compared.
fn usable(report: &Report) -> Result<Measured<'_>, Unusable> {
    let name = format!("{}/{}", report.job.id, report.window.number);
    if !report.window.valid {
        return Err(Unusable::NotValid);
    }
    let Some(time) = report.time_per_iteration_s.filter(|time| time.mean > 0.0) else {
        return Err(Unusable::NoTime);
    };
    let Some(iterations) = report.window.iterations.filter(|count| *count > 0) else {
        return Err(Unusable::ByTime);
    };
    let measured = report.reduced.as_ref().map_or(report.ranks.len() as u32, |reduced| reduced.ranks);
    if measured == 0 || report.job.ranks == 0 {
        return Err(Unusable::NoRank);
    }
    let ranks = report.job.ranks;
    Ok(Measured { report, name, ranks, measured: f64::from(measured), time, iterations: iterations as f64 })
}

/// A time on the fewest ranks, times this, is the ideal one on `one`.
fn ideal(first: &Measured<'_>, one: &Measured<'_>, work: Work) -> f64 {
    match work {
        Work::Strong => f64::from(first.ranks) / f64::from(one.ranks),
        Work::Weak => 1.0,
    }
}

fn point(first: &Measured<'_>, one: &Measured<'_>, work: Work) -> ScalingPoint {
    let speed_up = first.time.mean / one.time.mean;
    let relative = |one: &Measured<'_>| one.time.half_width_95.map(|width| width / one.time.mean);
    let is_first = first.ranks == one.ranks;
    let best = 1.0 / ideal(first, one, work);
    let of_all = |one: &Measured<'_>| Some(computation(one)?.0 * f64::from(one.ranks));
    let of_work = |one: &Measured<'_>| match work {
        Work::Strong => of_all(one),
        Work::Weak => Some(computation(one)?.0),
    };
    let factors = one.report.efficiencies.as_ref();
    let relative_of_both = relative(first).zip(relative(one)).map(|(a, b)| a.hypot(b));
    let has_fraction = work == Work::Strong && !is_first;
    ScalingPoint {
        window: one.name.clone(),
        ranks: one.ranks,
        time_per_iteration_s: one.time,
        speed_up,
        speed_up_half_width_95: relative_of_both.map(|both| if is_first { 0.0 } else { both * speed_up }),
        efficiency: speed_up / best,
        computation_scaling: of_work(first).zip(of_work(one)).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b),
        parallel_efficiency: factors.map(|factors| factors.parallel),
        load_balance: factors.map(|factors| factors.load_balance),
        communication_efficiency: factors.map(|factors| factors.communication),
        serial_fraction: has_fraction.then(|| (1.0 / speed_up - 1.0 / best) / (1.0 - 1.0 / best)),
        // Only the speed-up is uncertain, and the fraction is a straight line of its inverse.
        serial_fraction_half_width_95: relative_of_both
            .filter(|_| has_fraction)
            .map(|both| both / speed_up / (1.0 - 1.0 / best)),
    }
}

/// Computation in an iteration: the mean over ranks, and the longest. `None`: not measured, or not of all ranks.
fn computation(one: &Measured<'_>) -> Option<(f64, f64)> {
    if one.measured < f64::from(one.ranks) {
        return None;
    }
    let (mean, longest) = match &one.report.reduced {
        Some(reduced) => reduced.computation_s.map(|spread| (spread.mean, spread.max))?,
        None => {
            let all: Vec<f64> = one.report.ranks.iter().map(|rank| rank.computation_s).collect::<Option<_>>()?;
            (all.iter().sum::<f64>() / all.len() as f64, all.iter().copied().fold(0.0, f64::max))
        }
    };
    Some((mean / one.iterations, longest / one.iterations))
}

fn parts(first: &Measured<'_>, last: &Measured<'_>, work: Work) -> Vec<LostPart> {
    let split = |one: &Measured<'_>| {
        let (mean, longest) = computation(one)?;
        Some([mean, longest - mean, one.time.mean - longest])
    };
    let Some((before, after)) = split(first).zip(split(last)) else { return Vec::new() };
    let names = [LostIn::Computation, LostIn::LoadBalance, LostIn::Communication];
    let part =
        |index: usize| LostPart { part: names[index], lost_s: after[index] - before[index] * ideal(first, last, work) };
    let mut parts: Vec<LostPart> = (0..names.len()).map(part).collect();
    parts.sort_by(|a, b| b.lost_s.total_cmp(&a.lost_s));
    parts
}

/// Seconds of a function in an iteration, as [`FunctionScaling::per_iteration_s`] has them.
fn per_iteration(one: &Measured<'_>, function: &FunctionTotal) -> Option<f64> {
    let all_s = function.time_s?;
    if function.group == FunctionGroup::Comm {
        return Some(all_s / one.measured / one.iterations);
    }
    // With one rank the sum is the longest.
    let longest_s = function.longest.map(|longest| longest.time_s).or(Some(all_s).filter(|_| one.measured <= 1.0))?;
    Some(longest_s / one.iterations)
}

fn same_function<'a>(one: &Measured<'a>, of: &FunctionTotal) -> Option<&'a FunctionTotal> {
    one.report.functions.iter().find(|other| other.name == of.name && other.group == of.group)
}

fn functions(measured: &[Measured<'_>], work: Work, lost_s: f64) -> Vec<FunctionScaling> {
    let [first, .., last] = measured else { return Vec::new() };
    let mut all: Vec<FunctionScaling> = Vec::new();
    for function in &last.report.functions {
        let Some(now_s) = per_iteration(last, function) else { continue };
        let at = |one: &Measured<'_>| same_function(one, function).and_then(|found| per_iteration(one, found));
        let before_s = match same_function(first, function) {
            // It was called and not timed: nothing is known of how it grows.
            Some(found) if found.time_s.is_none() => continue,
            Some(found) => per_iteration(first, found),
            None => Some(0.0),
        };
        let Some(before_s) = before_s else { continue };
        let lost = now_s - before_s * ideal(first, last, work);
        if lost <= NAMED_SHARE_MIN * lost_s.max(0.0) || lost <= 0.0 {
            continue;
        }
        all.push(FunctionScaling {
            name: function.name.clone(),
            group: function.group,
            per_iteration_s: measured.iter().map(at).collect(),
            only_rank: function.longest.filter(|_| function.ranks == Some(1)).map(|longest| longest.rank),
            lost_s: lost,
            growth: growth(before_s, now_s),
        });
    }
    all.sort_by(|a, b| b.lost_s.total_cmp(&a.lost_s));
    all.truncate(NAMED_MAX);
    all
}

fn growth(before_s: f64, now_s: f64) -> Growth {
    match now_s / before_s {
        _ if before_s <= 0.0 => Growth::Appears,
        ratio if ratio > 1.0 + SAME_RATIO => Growth::Grows,
        ratio if ratio >= 1.0 - SAME_RATIO => Growth::Stays,
        _ => Growth::Shrinks,
    }
}

fn remarks(measured: &[Measured<'_>]) -> Vec<String> {
    let mut remarks = Vec::new();
    let first = &measured[0];
    for one in measured {
        if one.report.job.arguments != first.report.job.arguments {
            remarks.push(format!("{} and {} have different arguments: their work may differ", first.name, one.name));
        }
        let marker = |one: &Measured<'_>| one.report.window.marker.clone();
        if marker(one) != marker(first) {
            let named = |one: &Measured<'_>| marker(one).unwrap_or_else(|| "time".to_owned());
            remarks.push(format!(
                "iterations of {} are counted by {} and those of {} by {}: they may not be the same ones",
                first.name,
                named(first),
                one.name,
                named(one)
            ));
        }
        if one.report.window.groups != first.report.window.groups {
            remarks.push(format!("in {} and {} different groups of functions were measured", first.name, one.name));
        }
        if one.measured < f64::from(one.ranks) {
            let (few, all) = (one.measured, one.ranks);
            remarks
                .push(format!("in {} {few} of {all} ranks were measured: what they compute is not compared", one.name));
        }
        let crowded =
            |node: &trimtab_types::report::NodeShare| node.oversubscribed.as_ref().is_some_and(|all| !all.is_empty());
        if one.report.nodes.iter().any(crowded) {
            remarks.push(format!("in {} ranks share processors: with one for each, its time may be another", one.name));
        }
    }
    remarks
}
