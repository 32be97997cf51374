//! The report of a large job, of the figures of all its ranks and the recordings of those that stand out.
//!
//! Next: `headline`, whose sentences are those of a report that has all ranks' recordings.

use super::sums::{Beside, CLASSES, Largest, OfFunction, OfWindow, Seen, Sums};
use crate::assemble::{
    Present, Scale, communication_missing, faults_of, function_totals, rank_total, share_with, window,
};
use crate::computation::extremes;
use crate::efficiency::{self, NoFactors, NoTransfer, Useful, differ, factors};
use crate::explain::{Whole, difference, is_same_count};
use crate::formulas;
use crate::input::{RankSample, WindowInput};
use crate::paths::totals_of;
use crate::remarks::{Threads, is_glimpse, remarks};
use trimtab_types::report::{
    Cost, Efficiencies, FunctionGroup, FunctionRanks, FunctionTotal, GroupTime, LongestRank, NodeSum, RankClass,
    RankSpread, RankTotal, Reduced, Report, SCHEMA, Window,
};

/// All that is known of a large job's window.
#[derive(Clone, Copy, Debug)]
pub struct ReducedInput<'a> {
    /// The window with the ranks that stand out, cut as all are, their machines, and no waits.
    pub window: &'a WindowInput,
    /// How recordings were cut and counted.
    pub of_window: &'a OfWindow,
    /// The common part of all ranks' recordings.
    pub seen: &'a Seen,
    /// The iterations that they share.
    pub iterations: u64,
    /// Their figures.
    pub sums: &'a Sums,
    /// Them beside the ends of all.
    pub beside: &'a Beside,
}

/// Parts of a report that need every rank's details.
const LEFT_OUT: [&str; 4] = [
    "who waited for whom, and what that says of serialisation and transfer: calls of all ranks must be matched",
    "bytes and messages from rank to rank",
    "counters, processor times and page faults of all ranks together",
    "parallel regions of OpenMP, and first calls as trace records",
];

/// Makes the report.
pub fn assemble_reduced(input: ReducedInput<'_>) -> Report {
    let ReducedInput { window: shown, sums, .. } = input;
    let mut shown = shown.clone();
    shown.ranks.sort_by_key(|rank| rank.rank);
    shown.named_paths = sums.paths.values().cloned().collect();
    // In place of the ranks their sums, for all that asks for no more.
    let all = WindowInput { ranks: vec![sums.all.clone()], ..shown.clone() };
    let scale = Scale(shown.ticks_per_second);
    let ranks: Vec<RankTotal> = shown.ranks.iter().map(|rank| rank_total(rank, &all, scale)).collect();
    let cost = cost(&all, sums);
    let (faults, remark) = faults(&all, &input);
    let mut warnings = all.warnings.clone();
    warnings.extend(sums.warnings.iter().cloned());
    warnings.extend(sums.warnings_are_cut.then(|| "further warnings of nodes are left out: --all-ranks".to_owned()));
    warnings.extend(remark);
    warnings.extend(faults.iter().cloned());
    let mut window = window(&all, &ranks, faults.is_empty());
    window.iterations = sums.counts.keys().next().copied();
    window.duration_s = longest(&sums.duration.spread(scale.0));
    warnings.extend(remarks(&all, (&cost, &window), &threads(sums)));
    let is_known = all.has_comm() && !all.communicates_untimed();
    let time_per_iteration_s = sums.steps.time_per_iteration(input.iterations, scale.0);
    let functions = with_ranks(without_waits(function_totals(&all, scale)), &all, sums);
    let whole = Whole { is_symmetric: sums.is_symmetric(is_same_count), hosts: sums.hosts.clone() };
    let efficiencies = efficiencies(&all, &input, (&ranks, &window), is_known);
    let total_s = sums.duration.sum_ticks() / scale.0;
    let fraction = sums.fraction.mean().filter(|_| all.has_comm());
    Report {
        schema: SCHEMA.to_owned(),
        job: all.job.clone(),
        time_per_iteration_s,
        iterations_per_s: time_per_iteration_s.filter(|time| time.mean > 0.0).map(|time| 1.0 / time.mean),
        communication_fraction: fraction.map(|mean| share_with(mean, sums.steps.share(), &cost, window.duration_s)),
        communication_at_least: all.communicates_untimed(),
        communication_missing: communication_missing(&all),
        communication_to_computation: all
            .has_comm()
            .then(|| formulas::communication_to_computation(sums.communication.sum_ticks(), sums.duration.sum_ticks()))
            .flatten(),
        imbalance: sums.computation.spread(scale.0).filter(|_| is_known).and_then(imbalance),
        omp: None,
        efficiencies_missing: efficiencies.as_ref().err().map(ToString::to_string),
        efficiencies: efficiencies.ok(),
        difference: difference(&WindowInput { ranks: shown.ranks.clone(), ..all.clone() }, &ranks, &whole)
            .filter(|_| is_known && !is_glimpse(&window)),
        paths: totals_of(&all, &functions, (&sums.rows, total_s), |ticks| scale.seconds(ticks)),
        reduced: Some(reduced(&input, (&all, &functions), (&ranks, is_known))),
        functions,
        links: Vec::new(),
        messages: Vec::new(),
        collectives: Vec::new(),
        ranks,
        nodes: shown.nodes.clone(),
        wait_states: Vec::new(),
        cost,
        details: Vec::new(),
        warnings,
        window,
    }
}

fn longest(spread: &Option<RankSpread>) -> f64 {
    spread.map_or(0.0, |spread| spread.max)
}

fn imbalance(computation: RankSpread) -> Option<f64> {
    (computation.mean > 0.0).then(|| computation.max / computation.mean - 1.0)
}

fn threads(sums: &Sums) -> Threads {
    Threads { several: sums.several.ranks(), threads_max: sums.threads_max, others_longest: sums.threaded.ranks() }
}

/// The faults that make it invalid, and the remark on what was cut.
fn faults(all: &WindowInput, input: &ReducedInput<'_>) -> (Vec<String>, Option<String>) {
    let sums = input.sums;
    let cut = input.of_window.cut_to.zip(input.seen.cut());
    let cut = cut.map(|(iterations, seen)| seen.remark(&all.functions, all.ticks_per_second, iterations));
    let (remark, uncut) = cut.map_or((None, None), |cut| (cut.clone().ok().flatten(), cut.err()));
    let counts = sums.counts.iter().map(|(count, ranks)| (*count, ranks.ranks())).collect();
    let (ranks, early, silent) = (sums.ranks.ranks(), sums.incomplete.ranks(), sums.silent.ranks());
    let mut faults = faults_of(all, &Present { ranks: &ranks, early: &early, silent: &silent }, &counts);
    if let (Some(fault), Some(why)) = (faults.last_mut(), uncut) {
        *fault += &format!("; the iterations that all ranks have whole can't be told apart, because {why}");
    }
    (faults, remark)
}

fn cost(all: &WindowInput, sums: &Sums) -> Cost {
    let recorded = !sums.ranks.ranks().is_empty();
    Cost {
        pause_us_max: recorded.then_some(sums.pause_us_max),
        pause_us_total: recorded.then_some(sums.pause_us_total),
        probe_ns: sums.probe_ns.most,
        probes: recorded.then_some(sums.all.probe_hits),
        points: recorded.then_some(sums.points),
        fraction: Largest::of_all(&sums.cost_fraction),
        communication_fraction_without: sums.fraction_without.mean().filter(|_| all.has_comm()),
        first_record_s: all.command_to_first_record_s,
    }
}

/// Of no function the waits are told.
fn without_waits(mut functions: Vec<FunctionTotal>) -> Vec<FunctionTotal> {
    for function in functions.iter_mut().filter(|function| function.waits_missing.is_some()) {
        function.waits_missing = Some(NoTransfer::Reduced.to_string());
    }
    functions
}

/// The totals are of sums, as if of one rank; the ranks that called each function stand beside.
fn with_ranks(mut functions: Vec<FunctionTotal>, all: &WindowInput, sums: &Sums) -> Vec<FunctionTotal> {
    for function in functions.iter_mut().filter(|function| function.ranks.is_some()) {
        let of = of_function(function, all, sums);
        function.ranks = of.as_ref().map(|of| of.ranks);
        let longest = |spread: RankSpread| LongestRank { rank: spread.rank_of_max, time_s: spread.max };
        function.longest = of.and_then(|of| of.time_s).map(longest);
    }
    functions
}

fn efficiencies(
    all: &WindowInput,
    input: &ReducedInput<'_>,
    (shown, window): (&[RankTotal], &Window),
    is_known: bool,
) -> Result<Efficiencies, NoFactors> {
    let sums = input.sums;
    efficiency::check(&sums.ranks.ranks(), all.job.ranks, window)?;
    let useful = sums.computation.spread(all.ticks_per_second).filter(|_| is_known);
    let useful = useful.ok_or(NoFactors::NotMeasured)?;
    let node_s = sums.hosts.values().map(|host| host.mean()).fold(0.0, f64::max);
    let useful = Useful {
        runtime_s: window.duration_s,
        largest_s: useful.max.max(0.0),
        mean_s: useful.mean,
        node_s: (sums.hosts.len() > 1).then_some(node_s),
    };
    factors(&useful, || Err(NoTransfer::Reduced), differ(shown))
}

fn reduced(
    input: &ReducedInput<'_>,
    (all, functions): (&WindowInput, &[FunctionTotal]),
    (shown, is_known): (&[RankTotal], bool),
) -> Reduced {
    let ReducedInput { sums, beside, .. } = input;
    let seconds = all.ticks_per_second;
    let computation_s = sums.computation.spread(seconds).filter(|_| is_known);
    let share = sums.threads_share.mean().filter(|_| all.has_comm());
    Reduced {
        ranks: sums.rank_count() as u32,
        left_out: LEFT_OUT.map(str::to_owned).into(),
        duration_s: sums.duration.spread(seconds).unwrap_or_default(),
        computation_s,
        communication_s: sums.communication.spread(seconds).filter(|_| all.has_comm()),
        histogram: computation_s.map_or_else(Vec::new, |ends| histogram(&ends, beside)),
        longest_ranks: beside.longest as u32,
        others_wait: extremes(shown).is_some() && beside.not_waiting == 0,
        functions: functions.iter().filter_map(|total| of_function(total, all, sums)).collect(),
        nodes: sums.hosts.values().map(|host| node(host, is_known)).collect(),
        communication_threads_max: all.has_comm().then_some(sums.threads_max),
        communication_share_at_most: share,
        group_s: groups(&sums.all, seconds),
        unattributed_bytes: all.has_comm().then_some(sums.all.unattributed_bytes),
        stopped_ranks: sums.stopped.ranks(),
        stopped_s_max: sums.stopped_s_max,
        crowds: sums.crowds.groups as u32,
        crowds_waited: sums.crowds.is_any,
        most_crowded: sums.crowds.worst.clone(),
    }
}

fn groups(all: &RankSample, ticks_per_second: f64) -> Vec<GroupTime> {
    let time = |(group, ticks): &(FunctionGroup, u64)| GroupTime {
        group: *group,
        time_s: Scale(ticks_per_second).seconds(*ticks),
    };
    all.group_ticks.iter().map(time).collect()
}

fn histogram(ends: &RankSpread, beside: &Beside) -> Vec<RankClass> {
    let width = (ends.max - ends.min) / CLASSES as f64;
    let class = |(number, ranks): (usize, &u64)| RankClass {
        from_s: ends.min + number as f64 * width,
        to_s: if number + 1 == CLASSES { ends.max } else { ends.min + (number + 1) as f64 * width },
        ranks: *ranks as u32,
    };
    beside.classes.iter().enumerate().map(class).collect()
}

fn of_function(total: &FunctionTotal, all: &WindowInput, sums: &Sums) -> Option<FunctionRanks> {
    let is_it = |number: &usize| {
        all.functions.get(*number).is_some_and(|info| info.name == total.name && info.group == total.group)
    };
    let (_, of): (&usize, &OfFunction) = sums.functions.iter().find(|(number, _)| is_it(number))?;
    Some(FunctionRanks {
        name: total.name.clone(),
        ranks: of.times.ranks() as u32,
        time_s: of.times.spread(all.ticks_per_second).filter(|_| total.time_s.is_some()),
        calls_min: of.calls.0,
        calls_max: of.calls.1,
    })
}

fn node(host: &crate::explain::HostTimes, is_known: bool) -> NodeSum {
    let known = |seconds: f64| is_known.then_some(seconds);
    NodeSum {
        host: host.host.clone(),
        ranks: host.ranks as u32,
        computation_s: known(host.mean()),
        computation_s_min: known(host.least_s),
        computation_s_max: known(host.most_s),
    }
}
