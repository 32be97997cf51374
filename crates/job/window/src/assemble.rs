//! Samples of all ranks to one report.
//!
//! Everything a session read from the ranks' memory comes in as plain numbers; everything a reader is told goes out as
//! a [`Report`]. Values that were not measured stay `None`. Ranks that are missing, ended early or counted other
//! iterations make the window invalid, and a warning says which.
//!
//! Next: `headline` for the first sentences, `trimtab-report` for drawing.

use crate::efficiency::efficiencies;
use crate::explain::{Whole, difference};
use crate::formulas;
use crate::in_common;
use crate::input::{
    FunctionInfo, FunctionSample, RankSample, WindowInput, bytes_missing, out_of, out_reason, untimed_reason,
};
use crate::paths;
use crate::regions::omp;
use crate::remarks::{Threads, is_glimpse, remarks};
use crate::statistics::{self, Share};
use crate::words::name_ranks;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use trimtab_types::report::{
    Cost, Detail, Ended, Estimate, FunctionGroup, FunctionTotal, GroupTime, Link, LongestRank, RankTotal, Report,
    SCHEMA, Window,
};

/// Iteration times kept per rank in a report.
const ITERATION_TIMES_MAX: usize = 4096;

/// The kernel tells processor times to a microsecond each, so that a difference may be off by 4: not a number worth
/// printing of a shorter window.
const CPU_DURATION_S_MIN: f64 = 400e-6;

/// Makes the report of a window.
pub fn assemble(input: &WindowInput) -> Report {
    let mut input = input.clone();
    input.ranks.sort_by_key(|rank| rank.rank);
    let main_loop = input.facts.main_loop.as_ref();
    let cut = input.facts.common_iterations.map(|iterations| {
        in_common::cut(&mut input.ranks, &input.functions, input.ticks_per_second, (iterations, main_loop))
    });
    let (remark, uncut) = cut.map_or((None, None), |cut| (cut.clone().ok().flatten(), cut.err()));
    input.warnings.extend(remark);
    let input = &input;
    let scale = Scale(input.ticks_per_second);
    let ranks: Vec<RankTotal> = input.ranks.iter().map(|rank| rank_total(rank, input, scale)).collect();
    let cost = cost(input, scale);
    let mut faults = faults(input);
    if let (Some(fault), Some(why)) = (faults.last_mut(), uncut) {
        *fault += &format!("; the iterations that all ranks have whole can't be told apart, because {why}");
    }
    let mut warnings = input.warnings.clone();
    warnings.extend(faults.iter().cloned());
    let window = window(input, &ranks, faults.is_empty());
    warnings.extend(remarks(input, (&cost, &window), &Threads::of(&input.ranks)));
    let time_per_iteration_s = time_per_iteration(&input.ranks, scale);
    let whole = Whole::of(&input.ranks, &ranks);
    let difference = difference(input, &ranks, &whole).filter(|_| !is_glimpse(&window));
    let efficiencies = efficiencies(input, &ranks, &window);
    let functions = function_totals(input, scale);
    let name_of = |number: u32| input.functions.get(number as usize).map_or_else(String::new, |info| info.name.clone());
    Report {
        schema: SCHEMA.to_owned(),
        job: input.job.clone(),
        window,
        time_per_iteration_s,
        iterations_per_s: time_per_iteration_s.filter(|time| time.mean > 0.0).map(|time| 1.0 / time.mean),
        communication_fraction: communication_fraction(input, &ranks, &cost, scale),
        communication_at_least: input.communicates_untimed(),
        communication_missing: communication_missing(input),
        communication_to_computation: communication_to_computation(&ranks),
        imbalance: imbalance(&ranks),
        omp: omp(input, &ranks, &efficiencies),
        efficiencies_missing: efficiencies.as_ref().err().map(ToString::to_string),
        efficiencies: efficiencies.ok(),
        difference,
        paths: paths::path_totals(input, &functions, |ticks| scale.seconds(ticks)),
        functions,
        links: links(input),
        messages: input.waits.transfers.messages(|ticks| scale.seconds(ticks)),
        collectives: input.waits.transfers.collectives(name_of, |ticks| scale.seconds(ticks)),
        ranks,
        reduced: None,
        nodes: input.nodes.clone(),
        wait_states: input.waits.states(name_of, |ticks| scale.seconds(ticks)),
        cost,
        details: details(input, scale),
        warnings,
    }
}

/// Ticks per second.
#[derive(Clone, Copy)]
pub(crate) struct Scale(pub(crate) f64);

impl Scale {
    pub(crate) fn seconds(self, ticks: u64) -> f64 {
        if self.0 > 0.0 { ticks as f64 / self.0 } else { 0.0 }
    }
}

pub(crate) fn window(input: &WindowInput, ranks: &[RankTotal], valid: bool) -> Window {
    let facts = &input.facts;
    Window {
        number: 0,
        trigger: facts.trigger.clone(),
        event: facts.event.clone(),
        marker: facts.marker.clone(),
        marker_source: facts.marker_source,
        start: facts.start.filter(|_| !input.is_by_time()),
        iterations: ranks.iter().filter_map(|rank| rank.iterations).min(),
        valid,
        context: facts.context.clone(),
        ended_by: facts.ended_by,
        duration_s: ranks.iter().map(|rank| rank.duration_s).fold(0.0, f64::max),
        started_unix_s: facts.started_unix_s,
        groups: facts.groups.clone(),
        loop_description: facts.loop_description.clone(),
        marker_path: facts.marker_path.clone(),
        main_loop: facts.main_loop.clone(),
        loops_around: None,
        outer_progress: Vec::new(),
        progress: None,
        from_first_call: None,
        begins_late: None,
    }
}

pub(crate) fn rank_total(rank: &RankSample, input: &WindowInput, scale: Scale) -> RankTotal {
    let duration_s = scale.seconds(rank.duration_ticks());
    let communication_s = input.has_comm().then(|| scale.seconds(rank.longest_comm_ticks()));
    // All the rest is computation only if that is all communication.
    let is_part = input.communicates_untimed();
    let iterations = rank.iterations(input.is_by_time());
    let times = iteration_times(rank, scale);
    let usage = rank.usage;
    let cpu = usage.filter(|_| duration_s >= CPU_DURATION_S_MIN);
    RankTotal {
        rank: rank.rank,
        pid: rank.pid,
        host: rank.host.clone(),
        duration_s,
        communication_s,
        computation_s: communication_s.filter(|_| !is_part).map(|communication_s| duration_s - communication_s),
        computation_error_s: communication_s.filter(|_| !is_part).and_then(|_| computation_error_s(rank, scale)),
        communication_threads: communication_s.map(|_| rank.communicating_threads()),
        communication_threads_s: communication_s.map(|_| scale.seconds(rank.summed_comm_ticks())),
        cpu_s: cpu_s(rank, duration_s),
        cpu_user_s: cpu.map(|usage| usage.cpu_user_s),
        cpu_system_s: cpu.map(|usage| usage.cpu_system_s),
        iterations,
        time_per_iteration_s: iterations.and_then(|_| statistics::mean(&times)),
        iteration_times_s: times.into_iter().take(ITERATION_TIMES_MAX).collect(),
        minor_faults: usage.map(|usage| usage.minor_faults),
        major_faults: usage.map(|usage| usage.major_faults),
        voluntary_switches: usage.map(|usage| usage.voluntary),
        involuntary_switches: usage.map(|usage| usage.involuntary),
        group_s: rank
            .group_ticks
            .iter()
            .map(|(group, ticks)| GroupTime { group: *group, time_s: scale.seconds(*ticks) })
            .collect(),
        counters: rank.counters.clone(),
        counter_cost: rank.counter_cost,
        unattributed_bytes: input.has_comm().then_some(rank.unattributed_bytes),
        pause_insert_us: rank.pause_insert_us,
        pause_remove_us: rank.pause_remove_us,
        probe_hits: rank.probe_hits,
    }
}

/// Processor time of a rank that recorded so long, where the kernel's times say something of it.
pub(crate) fn cpu_s(rank: &RankSample, duration_s: f64) -> Option<f64> {
    let usage = rank.usage.filter(|_| duration_s >= CPU_DURATION_S_MIN)?;
    Some(usage.cpu_user_s + usage.cpu_system_s)
}

fn iteration_times(rank: &RankSample, scale: Scale) -> Vec<f64> {
    rank.marks.windows(2).map(|pair| scale.seconds(pair[1].ticks.saturating_sub(pair[0].ticks))).collect()
}

/// Each sample is one iteration, averaged over ranks: ranks wait for each other, so their times are not independent.
fn time_per_iteration(ranks: &[RankSample], scale: Scale) -> Option<Estimate> {
    let times: Vec<Vec<f64>> = ranks.iter().map(|rank| iteration_times(rank, scale)).collect();
    let iterations = times.iter().map(Vec::len).min()?;
    let over_ranks = |iteration: usize| times.iter().map(|rank| rank[iteration]).sum::<f64>() / times.len() as f64;
    statistics::estimate_of_times(&(0..iterations).map(over_ranks).collect::<Vec<_>>())
}

/// The mean comes from the whole window and the longest thread, the interval from the main threads' iterations. The
/// probes' own time may lie in communication or beside it, so the share without them is that much less certain. And
/// however alike its iterations are, a window does not tell of what did not happen in it ([`statistics::unseen_share`]).
fn communication_fraction(input: &WindowInput, ranks: &[RankTotal], cost: &Cost, scale: Scale) -> Option<Estimate> {
    if !input.has_comm() {
        return None;
    }
    let fraction = |rank: &RankTotal| formulas::communication_fraction(rank.communication_s?, rank.duration_s);
    let fractions = ranks.iter().map(fraction);
    let fractions: Vec<f64> = fractions.collect::<Option<_>>()?;
    let mean = statistics::mean(&fractions)?;
    let spread = statistics::share(&input.ranks.iter().map(|rank| shares(rank, scale)).collect::<Vec<_>>());
    // Of what did not come in the window nobody knows on which side it would lie.
    let duration_s = ranks.iter().map(|rank| rank.duration_s).fold(0.0, f64::max);
    Some(share_with(mean, spread, cost, duration_s))
}

/// The share of communication with its spread, if it has one, and with what the interval lacks by that.
pub(crate) fn share_with(mean: f64, spread: Option<Estimate>, cost: &Cost, duration_s: f64) -> Estimate {
    let unseen = statistics::unseen_share(duration_s) * mean.max(1.0 - mean);
    let beside_spread = cost.fraction.unwrap_or(0.0) + unseen;
    let half_width = |spread: &Estimate| Some(spread.half_width_95? + beside_spread);
    spread
        .map_or_else(|| without_spread(mean), |spread| Estimate { mean, half_width_95: half_width(&spread), ..spread })
}

/// A mean of the whole window where no iteration was marked: a single sample.
pub(crate) fn without_spread(mean: f64) -> Estimate {
    Estimate { mean, variance: None, half_width_95: None, min: mean, max: mean, samples: 1 }
}

/// Standard error of the computation of all iterations together, of the main thread; `None`: too few to tell.
fn computation_error_s(rank: &RankSample, scale: Scale) -> Option<f64> {
    let computation_s = |share: &Share| (share.whole - share.part).max(0.0);
    let times_s: Vec<f64> = shares(rank, scale).iter().map(computation_s).collect();
    statistics::error_of_sum(&times_s)
}

fn shares(rank: &RankSample, scale: Scale) -> Vec<Share> {
    let pairs = rank.marks.windows(2);
    pairs
        .map(|pair| Share {
            part: scale.seconds(pair[1].comm_ticks.saturating_sub(pair[0].comm_ticks)),
            whole: scale.seconds(pair[1].ticks.saturating_sub(pair[0].ticks)),
        })
        .collect()
}

fn communication_to_computation(ranks: &[RankTotal]) -> Option<f64> {
    let communication = ranks.iter().map(|rank| rank.communication_s).sum::<Option<f64>>()?;
    let duration = ranks.iter().map(|rank| rank.duration_s).sum();
    formulas::communication_to_computation(communication, duration)
}

fn imbalance(ranks: &[RankTotal]) -> Option<f64> {
    formulas::imbalance(&ranks.iter().map(|rank| rank.computation_s).collect::<Option<Vec<f64>>>()?)
}

/// Why nobody knows how much communication there was.
pub(crate) fn communication_missing(input: &WindowInput) -> Option<String> {
    let groups = &input.facts.groups;
    let was_asked = groups.iter().any(|group| matches!(group, FunctionGroup::Comm | FunctionGroup::All));
    (!input.has_comm()).then(|| match was_asked {
        true => "no function of the group comm could be timed in this program".to_owned(),
        false => format!(
            "the group comm was not among what was measured ({})",
            groups.iter().map(|group| group.word()).collect::<Vec<_>>().join(", ")
        ),
    })
}

pub(crate) fn function_totals(input: &WindowInput, scale: Scale) -> Vec<FunctionTotal> {
    let total = |(number, info)| function_total(number, info, input, scale);
    let mut totals: Vec<FunctionTotal> = input.functions.iter().enumerate().filter_map(total).collect();
    totals.sort_by(|a, b| {
        let time = |total: &FunctionTotal| total.time_s.unwrap_or(-1.0);
        time(b).total_cmp(&time(a)).then(b.calls.cmp(&a.calls)).then(a.name.cmp(&b.name))
    });
    totals
}

/// Sums one function over ranks; `None` if nobody called it, as far as it was counted.
fn function_total(number: usize, info: &FunctionInfo, input: &WindowInput, scale: Scale) -> Option<FunctionTotal> {
    let of_rank = |rank: &RankSample| {
        let called = |sample: &&FunctionSample| sample.function == number && sample.calls + sample.nested > 0;
        rank.functions.iter().filter(called).map(|sample| (rank.first_ticks, *sample)).collect::<Vec<_>>()
    };
    let called = input.ranks.iter().filter(|rank| !of_rank(rank).is_empty()).count();
    let samples: Vec<(u64, FunctionSample)> = input.ranks.iter().flat_map(of_rank).collect();
    let taken_out_after_us = out_of(input, number).map(|out| out.out_after_us).min();
    if samples.is_empty() && taken_out_after_us.is_none() {
        return None;
    }
    let sum = |value: fn(&FunctionSample) -> u64| samples.iter().map(|(_, sample)| value(sample)).sum::<u64>();
    let (calls, bytes) = (sum(|sample| sample.calls), sum(|sample| sample.bytes));
    let outermost = || samples.iter().filter(|(_, sample)| sample.calls > 0);
    let after_start = |start: u64, ticks: u64| scale.seconds(ticks.saturating_sub(start));
    let time_missing = untimed_reason(input, number).or(out_reason(input, number));
    let bytes_missing = out_reason(input, number)
        .filter(|_| info.moves_bytes)
        .or(bytes_missing(info, sum(|sample| sample.unknown_bytes)));
    let moves = info.moves_bytes && bytes_missing.is_none();
    let ticks = sum(|sample| sample.ticks);
    // Where probes were out all the time, or until the first call, nobody knows if there was any.
    let nested = sum(|sample| sample.nested);
    let is_seen = taken_out_after_us.is_none() || calls + nested > 0;
    let is_timed = info.timed && time_missing.is_none();
    Some(FunctionTotal {
        name: info.name.clone(),
        other_names: info.other_names.clone(),
        group: info.group,
        calls: is_seen.then_some(calls),
        nested_calls: is_seen.then_some(nested),
        polling_calls: Some(sum(|sample| sample.polled_on)).filter(|calls| *calls > 0),
        time_s: is_timed.then(|| scale.seconds(ticks)),
        ranks: is_seen.then_some(called as u32),
        longest: longest(number, input, scale).filter(|_| is_timed),
        waits_missing: waits_missing(input, number)
            .filter(|_| info.group == FunctionGroup::Comm && info.timed && ticks > 0),
        time_missing,
        taken_out_after_s: taken_out_after_us.map(|us| us as f64 / 1e6),
        bytes_missing,
        bytes: moves.then_some(bytes),
        bytes_mean: (moves && calls > 0).then(|| bytes as f64 / calls as f64),
        bytes_max: samples.iter().map(|(_, sample)| sample.bytes_max).max().filter(|_| moves),
        sizes: paths::sizes(input, number, calls).filter(|_| info.moves_bytes && out_reason(input, number).is_none()),
        argument_sum: (info.argument_asked && is_seen)
            .then(|| samples.iter().fold(0, |sum: i64, (_, sample)| sum.saturating_add(sample.argument_sum))),
        first_s: outermost().map(|(start, sample)| after_start(*start, sample.first_ticks)).min_by(f64::total_cmp),
        last_s: outermost().map(|(start, sample)| after_start(*start, sample.last_ticks)).max_by(f64::total_cmp),
    })
}

/// The rank that was inside a function longest; of several the lowest.
fn longest(number: usize, input: &WindowInput, scale: Scale) -> Option<LongestRank> {
    let ticks = |rank: &RankSample| -> u64 {
        rank.functions.iter().filter(|sample| sample.function == number).map(|sample| sample.ticks).sum()
    };
    let (rank, ticks) =
        input.ranks.iter().map(|rank| (rank.rank, ticks(rank))).max_by_key(|(rank, ticks)| (*ticks, Reverse(*rank)))?;
    Some(LongestRank { rank, time_s: scale.seconds(ticks) })
}

/// Why nobody knows for whom a function waited: a report tells it of receives, sends, and collectives of all ranks.
fn waits_missing(input: &WindowInput, number: usize) -> Option<String> {
    /// Names of functions that complete requests begin so.
    const COMPLETING: [&str; 2] = ["MPI_Wait", "MPI_Test"];
    let waits = &input.waits;
    if waits.sums.iter().any(|sum| sum.function as usize == number) {
        return None;
    }
    let name = &input.functions[number].name;
    Some(match () {
        () if input.is_by_time() => "waits are told only of windows of iterations".to_owned(),
        () if waits.iterations == 0 => "of no iteration all calls of all ranks were kept".to_owned(),
        () if COMPLETING.iter().any(|begin| name.starts_with(begin)) => {
            "it completes what other calls began, of which not all are known or matched with those of other ranks"
                .to_owned()
        }
        () if begins_only(name) => "it returns at once; what it began is waited for where it is completed".to_owned(),
        () => "its calls are none that could be matched with those of other ranks".to_owned(),
    })
}

/// True of functions that begin an operation and return before it is done.
fn begins_only(name: &str) -> bool {
    /// These look for a message, and begin nothing.
    const LOOK: [&str; 2] = ["MPI_Iprobe", "MPI_Improbe"];
    name.strip_prefix("MPI_I").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
        && !LOOK.contains(&name)
}

fn links(input: &WindowInput) -> Vec<Link> {
    let mut links: BTreeMap<(u32, u32), Link> = BTreeMap::new();
    for rank in &input.ranks {
        for sample in rank.links.iter().filter(|sample| sample.messages > 0 || sample.bytes > 0) {
            let (from, to) = if sample.is_from_other { (sample.other, rank.rank) } else { (rank.rank, sample.other) };
            let link = links.entry((from, to)).or_insert(Link {
                from,
                to,
                messages: 0,
                bytes: 0,
                collective_messages: 0,
                collective_bytes: 0,
            });
            link.messages += sample.messages;
            link.bytes += sample.bytes;
            if sample.is_collective {
                link.collective_messages += sample.messages;
                link.collective_bytes += sample.bytes;
            }
        }
    }
    links.into_values().collect()
}

fn details(input: &WindowInput, scale: Scale) -> Vec<Detail> {
    let mut details = Vec::new();
    for rank in &input.ranks {
        for sample in &rank.details {
            details.push(Detail {
                rank: rank.rank,
                thread: sample.thread,
                function: input.functions.get(sample.function).map_or_else(String::new, |info| info.name.clone()),
                time_unix_s: input.unix_time.at(sample.enter_ticks),
                duration_s: sample.ticks.map(|ticks| scale.seconds(ticks)),
                arguments: sample.arguments.clone(),
            });
        }
    }
    details.sort_by(|a, b| a.time_unix_s.total_cmp(&b.time_unix_s).then(a.rank.cmp(&b.rank)));
    details
}

fn cost(input: &WindowInput, scale: Scale) -> Cost {
    let largest = |value: &dyn Fn(&RankSample) -> f64| input.ranks.iter().map(value).max_by(f64::total_cmp);
    let probe_ns: Vec<f64> = input.ranks.iter().filter_map(|rank| rank.probe_ns).collect();
    let fractions: Option<Vec<f64>> = input.ranks.iter().map(|rank| cost_fraction(rank, scale)).collect();
    Cost {
        pause_us_max: largest(&|rank| rank.pause_insert_us.max(rank.pause_remove_us.unwrap_or(0.0))),
        pause_us_total: largest(&|rank| rank.pause_insert_us + rank.pause_remove_us.unwrap_or(0.0)),
        probe_ns: probe_ns.iter().copied().max_by(f64::total_cmp),
        probes: input.ranks.iter().map(|rank| rank.probe_hits).reduce(|sum, hits| sum + hits),
        points: input.ranks.iter().map(|rank| rank.points).max(),
        fraction: fractions.and_then(|fractions| fractions.into_iter().max_by(f64::total_cmp)),
        communication_fraction_without: communication_without_cost(input, scale),
        first_record_s: input.command_to_first_record_s,
    }
}

/// Pairs of probes times the cost of a pair, plus readings of counters and pauses inside the window, over the window.
pub(crate) fn cost_fraction(rank: &RankSample, scale: Scale) -> Option<f64> {
    let duration_s = scale.seconds(rank.duration_ticks());
    let inline_hits = rank.inline_hits.min(rank.probe_hits);
    let routine_s = (rank.probe_hits - inline_hits) as f64 / 2.0 * rank.probe_ns? * 1e-9;
    let inline_s = inline_hits as f64 / 2.0 * rank.inline_ns.min(rank.probe_ns?) * 1e-9;
    let probes_s = routine_s + inline_s;
    let readings_s = match rank.counter_cost {
        Some(cost) => cost.readings as f64 * cost.reading_ns? * 1e-9,
        None => 0.0,
    };
    (duration_s > 0.0).then(|| (probes_s + readings_s + rank.pause_inside_us * 1e-6) / duration_s)
}

/// Calls are timed without the probes around them, whose time lies beside them: the time without probes is that much less.
/// The time of other threads' probes is not this thread's.
fn communication_without_cost(input: &WindowInput, scale: Scale) -> Option<f64> {
    let share = |rank: &RankSample| communication_share_without_cost(rank, scale);
    let shares: Vec<f64> = input.ranks.iter().map(share).collect::<Option<_>>()?;
    statistics::mean(&shares).filter(|_| input.has_comm())
}

pub(crate) fn communication_share_without_cost(rank: &RankSample, scale: Scale) -> Option<f64> {
    let left_s = scale.seconds(rank.duration_ticks()) * (1.0 - cost_fraction(rank, scale)?);
    let has_one_thread = rank.threads.iter().all(|thread| thread.comm_ticks == 0);
    let share = formulas::communication_fraction(scale.seconds(rank.comm_ticks), left_s)?;
    (has_one_thread && left_s > 0.0 && share <= 1.0).then_some(share)
}

fn faults(input: &WindowInput) -> Vec<String> {
    let present: Vec<u32> = input.ranks.iter().map(|rank| rank.rank).collect();
    let early: Vec<u32> = input.ranks.iter().filter(|rank| !rank.complete).map(|rank| rank.rank).collect();
    let silent: Vec<u32> = input.ranks.iter().filter(|rank| rank.counts_silent_thread).map(|rank| rank.rank).collect();
    let mut by_count: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for rank in &input.ranks {
        let Some(count) = rank.iterations(input.is_by_time()) else { continue };
        by_count.entry(count).or_default().push(rank.rank);
    }
    faults_of(input, &Present { ranks: &present, early: &early, silent: &silent }, &by_count)
}

/// The ranks of a window, ascending.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present<'a> {
    /// Those that recorded.
    pub ranks: &'a [u32],
    /// Of these the ones that ended early.
    pub early: &'a [u32],
    /// Of these the ones that counted passes of a thread that called no MPI, where another one did.
    pub silent: &'a [u32],
}

/// The faults that make a window of these ranks invalid, one sentence each; they recorded so many iterations.
pub(crate) fn faults_of(input: &WindowInput, present: &Present<'_>, by_count: &BTreeMap<u64, Vec<u32>>) -> Vec<String> {
    let early = present.early;
    let mut faults = Vec::new();
    let is_missing = |rank: &u32| present.ranks.binary_search(rank).is_err() && !input.facts.left_alone.contains(rank);
    let missing: Vec<u32> = (0..input.job.ranks).filter(is_missing).collect();
    if !missing.is_empty() {
        faults.push(format!("{} recorded nothing; the totals are without them", name_ranks(&missing)));
    }
    if !early.is_empty() {
        faults.push(match input.facts.ended_by {
            Ended::Interrupted => "interrupted before all iterations were recorded; the totals are partial".to_owned(),
            Ended::MaxSeconds => {
                "the time limit came before all iterations were recorded; the totals are partial; allow \
                              more with --max-seconds"
                    .to_owned()
            }
            _ => format!("{} ended before the window did; the totals are partial", name_ranks(early)),
        });
    }
    faults.extend(silent_threads(present.silent));
    faults.extend(differing_iterations(by_count));
    faults
}

fn silent_threads(ranks: &[u32]) -> Option<String> {
    (!ranks.is_empty()).then(|| {
        format!(
            "iterations of {} are passes of a thread that called no MPI, for the one in the same loop that does had not come \
             back when passes were numbered: calls and times are of other stretches than iterations; measure again",
            name_ranks(ranks)
        )
    })
}

fn differing_iterations(by_count: &BTreeMap<u64, Vec<u32>>) -> Option<String> {
    if by_count.len() < 2 {
        let none_seen = by_count.contains_key(&0);
        return none_seen
            .then(|| "no rank completed an iteration; ask for a longer window with --max-seconds".to_owned());
    }
    let each: Vec<String> = by_count.iter().map(|(count, ranks)| format!("{count} on {}", name_ranks(ranks))).collect();
    Some(format!("the ranks recorded different numbers of iterations: {}; measure again", each.join(", ")))
}
