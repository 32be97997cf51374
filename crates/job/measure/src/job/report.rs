//! All nodes' samples to the report of a window whose ranks are restored.
//!
//! Next: `trimtab-window` turns the samples into numbers for people.

use super::doubts;
use super::drive::{LeftLoop, WindowLead};
use super::marker::Marker;
use super::recording::Recorded;
use super::reduced::{Reduced, is_reduced, reduce};
use crate::error::Error;
use crate::node::PROBE_GROUPS;
use crate::options::Options;
use crate::request::{Answer, Facts, MarkerSite, Request};
use std::collections::BTreeMap;
use trimtab_mpi::Group;
use trimtab_types::context::Context;
use trimtab_types::report::{
    self, CallFrame, Ended, FromFirstCall, FunctionGroup, LateBegin, LoopPlace, MarkerSource, MissedStart, NodeShare,
    Report,
};
use trimtab_window::reduce::assemble_reduced;
use trimtab_window::{NamedPath, RankSample, Verdict, Waits, WindowFacts, WindowInput, assemble, name_ranks};

/// Reads what all ranks recorded; the nodes forget the window.
pub(super) fn report(
    lead: &mut WindowLead,
    marker: &Marker,
    recorded: &Recorded,
    (verdict, waits): (Verdict, Waits),
) -> Result<Report, Error> {
    let ticks_per_second = lead.clock.ticks_per_second();
    let (reduced, gathered) = gather(lead, marker, recorded)?;
    let Gathered { ranks, warnings: rank_warnings, nodes, site, named_paths } = gathered;
    let mut warnings = std::mem::take(&mut lead.membership.warnings);
    warnings.extend(lead.membership.losses());
    warnings.extend(marker_warnings(marker, &verdict));
    warnings.extend(rank_warnings);
    warnings.extend(context_warning(lead, marker));
    warnings.extend(from_first_call(lead).iter().flat_map(missed_warnings));
    warnings.extend(left_warning(marker, recorded));
    let unix_time = lead.clock.unix_time(ticks_per_second);
    let begun = began_ticks(reduced.as_ref(), &ranks);
    let options = lead.options;
    let input = WindowInput {
        job: job_facts(lead),
        facts: WindowFacts {
            trigger: options.trigger.clone(),
            event: options.event.as_deref().cloned(),
            marker: marker_name(marker, site.as_ref()),
            marker_path: marker_path(marker, site),
            marker_source: marker_source(marker),
            start: recorded.start,
            context: context(options),
            left_alone: lead.membership.left_alone(),
            ended_by: recorded.ended,
            common_iterations: recorded.in_common,
            groups: groups(&lead.facts),
            communication_named_only: !options.groups.iter().any(|group| matches!(group, Group::Comm | Group::All)),
            loop_description: loop_description(marker, &lead.left),
            main_loop: main_loop(marker),
            assumed: options.assumed,
            started_unix_s: begun.map(|begun| unix_time.at(begun)),
        },
        ticks_per_second,
        functions: lead.facts.functions.clone(),
        ranks,
        warnings,
        command_to_first_record_s: (recorded.begun_ns > options.command_ns)
            .then(|| (recorded.begun_ns - options.command_ns) as f64 / 1e9),
        unix_time,
        waits,
        nodes,
        named_paths,
    };
    let (mut report, most_calls) = assembled(&input, reduced.as_ref());
    report.window.loops_around = loops_around(marker);
    report.window.from_first_call = from_first_call(lead);
    report.window.begins_late = begins_late(&report, options);
    report.warnings.extend(report.window.begins_late.as_ref().map(late_warning));
    doubts::say_left(&mut report);
    doubts::say_uneven(&mut report);
    doubts::say_calls_apart(&mut report, &most_calls, &input.functions);
    // Looks at stacks are pauses, too.
    report.cost.add_pauses(lead.candidates.pause_us_max, lead.candidates.pause_us_total);
    report.window.valid &= !verdict.is_invalid();
    Ok(report)
}

/// The results of all nodes; of a large job their sums, and of recordings those of the ranks that stand out.
fn gather(lead: &mut WindowLead, marker: &Marker, recorded: &Recorded) -> Result<(Option<Reduced>, Gathered), Error> {
    if !is_reduced(lead) {
        return Ok((None, read(lead, recorded)?));
    }
    let reduced = reduce(lead, recorded, main_loop(marker), recorded.start.is_some())?;
    let gathered = Gathered::of(&reduced);
    Ok((Some(reduced), gathered))
}

/// The report, and calls of functions by one path.
fn assembled(input: &WindowInput, reduced: Option<&Reduced>) -> (Report, Vec<(usize, u64)>) {
    match reduced {
        Some(reduced) => (assemble_reduced(reduced.input(input)), reduced.sums.path_calls().collect()),
        None => (assemble(input), path_calls(&input.ranks)),
    }
}

/// When the first rank began to record.
fn began_ticks(reduced: Option<&Reduced>, ranks: &[RankSample]) -> Option<u64> {
    match reduced {
        Some(reduced) => reduced.sums.began_ticks(),
        None => ranks.iter().map(|sample| sample.first_ticks).filter(|first| *first > 0).min(),
    }
}

/// The loop whose passes count iterations.
fn main_loop(marker: &Marker) -> Option<LoopPlace> {
    match marker {
        Marker::Call(call) => call.main_loop.as_deref().cloned(),
        Marker::Time { .. } => None,
    }
}

/// Calls of each rank by each path.
fn path_calls(ranks: &[RankSample]) -> Vec<(usize, u64)> {
    ranks.iter().flat_map(|rank| &rank.paths).map(|path| (path.function, path.calls)).collect()
}

/// The recordings of all nodes.
#[derive(Default)]
struct Gathered {
    /// On the clock of this process.
    ranks: Vec<RankSample>,
    warnings: Vec<String>,
    nodes: Vec<NodeShare>,
    /// That of the lowest rank.
    site: Option<MarkerSite>,
    /// Each once.
    named_paths: Vec<NamedPath>,
}

impl Gathered {
    /// Of the ranks that stand out; warnings and paths come with the sums.
    fn of(reduced: &Reduced) -> Self {
        let Reduced { shown, nodes, site, .. } = reduced;
        Gathered { ranks: shown.clone(), nodes: nodes.clone(), site: site.clone(), ..Gathered::default() }
    }
}

fn read(lead: &mut WindowLead, recorded: &Recorded) -> Result<Gathered, Error> {
    let by_iterations = recorded.start.is_some();
    let request = Request::Read { ended: recorded.ended, is_whole: recorded.is_whole, by_iterations };
    let read = lead.membership.ask(request, |answer| match answer {
        Answer::Read(recording) => Some(recording),
        _ => None,
    })?;
    let mut all = Gathered::default();
    for (node, mut recording) in read {
        let relation = lead.membership.relation(node);
        recording.ranks.iter_mut().for_each(|sample| sample.onto_lead(&relation));
        all.ranks.append(&mut recording.ranks);
        let new = recording.warnings.drain(..).filter(|warning| !all.warnings.contains(warning)).collect::<Vec<_>>();
        all.warnings.extend(new);
        all.nodes.push(recording.share);
        let is_new = |named: &NamedPath| all.named_paths.iter().all(|known| known.path != named.path);
        let new: Vec<NamedPath> = recording.named_paths.drain(..).filter(is_new).collect();
        all.named_paths.extend(new);
        let sites = [all.site.take(), recording.site].into_iter().flatten();
        all.site = sites.min_by_key(|site| site.rank);
    }
    all.nodes.sort_by(|a, b| a.host.cmp(&b.host));
    Ok(all)
}

/// Ranks that were held behind `MPI_Init` until they recorded, and why others were not.
fn from_first_call(lead: &WindowLead) -> Option<FromFirstCall> {
    let all = lead.membership.from_first_call.clone()?;
    let left_alone = lead.membership.left_alone();
    let missed: Vec<MissedStart> = all.missed.into_iter().filter(|one| !left_alone.contains(&one.rank)).collect();
    Some(FromFirstCall { missed, ..all })
}

/// A sentence for all ranks that missed their first calls for the same reason.
fn missed_warnings(from: &FromFirstCall) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for missed in &from.missed {
        reasons.entry(&missed.reason).or_default().push(missed.rank);
    }
    let said = |(reason, ranks): (&str, Vec<u32>)| {
        let were = if ranks.len() == 1 { "was" } else { "were" };
        format!("{} {were} not measured from the first call on: {reason}", name_ranks(&ranks))
    };
    reasons.into_iter().map(said).collect()
}

/// Ranks of a whole run whose first calls are missing.
fn begins_late(report: &Report, options: &Options) -> Option<LateBegin> {
    let (ranks, reason) = match &report.window.from_first_call {
        _ if !options.follow => return None,
        Some(from) if from.missed.is_empty() => return None,
        Some(from) => {
            let mut reasons: Vec<&str> = from.missed.iter().map(|missed| missed.reason.as_str()).collect();
            reasons.dedup();
            (from.missed.iter().map(|missed| missed.rank).collect(), reasons.join("; "))
        }
        None => (report.ranks.iter().map(|rank| rank.rank).collect(), NOT_HELD.to_owned()),
    };
    let both = report.job.started_unix_s.zip(report.window.started_unix_s);
    let after_init_s_at_most =
        both.filter(|(program, window)| window > program).map(|(program, window)| window - program);
    Some(LateBegin { ranks, after_init_s_at_most, reason })
}

/// Why ranks that nobody was to hold begin late.
const NOT_HELD: &str =
    "nobody had them wait there, as `trimtab run --follow`, `watch --follow`, packages and Slurm's plug-in do";

fn late_warning(late: &LateBegin) -> String {
    let when = match late.after_init_s_at_most {
        Some(seconds) => format!("begins up to {seconds:.1} s after they came out of MPI_Init"),
        None => "begins later than they came out of MPI_Init, by how much is not known".to_owned(),
    };
    format!(
        "not the whole run of {}: the window {when}, and nobody has seen how many calls lie before: {}",
        name_ranks(&late.ranks),
        late.reason
    )
}

/// The ranks that were asked for, if not all.
fn context(options: &Options) -> Option<String> {
    (options.ranks != Context::All).then(|| options.ranks.to_string())
}

/// A warning about facts that can't be told of some ranks alone.
fn context_warning(lead: &WindowLead, marker: &Marker) -> Option<String> {
    let is_part = !lead.membership.left_alone().is_empty();
    (is_part && matches!(marker, Marker::Call(_))).then(|| {
        let advice = if context(lead.options).is_some() { ": leave out --ranks for that" } else { "" };
        format!("who waits at collectives is told only where all ranks are measured{advice}")
    })
}

fn marker_name(marker: &Marker, site: Option<&MarkerSite>) -> Option<String> {
    match marker {
        Marker::Time { .. } => None,
        Marker::Call(call) => Some(site.map_or_else(|| call.name.clone(), |site| site.name.clone())),
    }
}

fn marker_path(marker: &Marker, site: Option<MarkerSite>) -> Vec<CallFrame> {
    let is_call = matches!(marker, Marker::Call(_));
    site.filter(|_| is_call).map(|site| site.path).unwrap_or_default()
}

fn marker_source(marker: &Marker) -> MarkerSource {
    match marker {
        Marker::Time { .. } => MarkerSource::Time,
        Marker::Call(call) => call.source,
    }
}

fn loops_around(marker: &Marker) -> Option<Vec<String>> {
    let Marker::Call(call) = marker else { return None };
    call.main_loop.as_ref().and(call.around.clone())
}

fn loop_description(marker: &Marker, left: &[LeftLoop]) -> Option<String> {
    let (description, name) = match marker {
        Marker::Time { why, no_loop: None } => (format!("no loop: {why}"), ""),
        Marker::Time { why, no_loop: Some(no_loop) } => (format!("no loop: {why}; {no_loop}"), ""),
        Marker::Call(call) => (call.description.clone()?, call.name.as_str()),
    };
    Some(description + &left_before(left, name))
}

/// A remark that the window ends because the program left the loop.
fn left_warning(marker: &Marker, recorded: &Recorded) -> Option<String> {
    let Marker::Call(call) = marker else { return None };
    let iterations = recorded.in_common.filter(|_| recorded.ended == Ended::LeftLoop)?;
    let word = if iterations == 1 { "iteration" } else { "iterations" };
    Some(format!("the program left {} after {iterations} {word} of the window, which is of these", call.name))
}

/// The loops that were to count before and were left, unless one came again.
fn left_before(left: &[LeftLoop], name: &str) -> String {
    let mut others: Vec<&LeftLoop> = left.iter().filter(|one| one.name != name).collect();
    others.dedup();
    let said = |one: &&LeftLoop| match one.iterations {
        0 => format!("{} ran first, and was not passed any more before a window of it began", one.name),
        1 => format!("{} was taken first, and the program left it after 1 iteration of the window", one.name),
        more => format!("{} was taken first, and the program left it after {more} iterations of the window", one.name),
    };
    match others.is_empty() {
        true => String::new(),
        false => format!(
            "; {}: the program may have left it, and what ran then was looked at",
            others.iter().map(said).collect::<Vec<String>>().join("; ")
        ),
    }
}

fn groups(facts: &Facts) -> Vec<FunctionGroup> {
    let has = |group: &FunctionGroup| facts.functions.iter().any(|function| function.group == *group);
    PROBE_GROUPS.into_iter().filter(has).collect()
}

fn marker_warnings(marker: &Marker, verdict: &Verdict) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Marker::Call(call) = marker
        && !call.certain
    {
        warnings.push(format!("that all ranks count the same iterations is likely, not proven: {}", call.explanation));
    }
    match verdict {
        Verdict::StartsDiffer { earliest, latest } => warnings.push(format!(
            "INVALID: rank {} began at iteration {}, rank {} at {}",
            earliest.1, earliest.0, latest.1, latest.0
        )),
        Verdict::Broken { mark, left, entered, by_ticks } => warnings.push(format!(
            "INVALID: at mark {mark} rank {left} left the marker {by_ticks} ticks before rank {entered} had entered it, so \
             they recorded different iterations"
        )),
        Verdict::Miscounted { rank } => warnings.push(format!(
            "INVALID: rank {rank} passed the marker's call site another number of times in an iteration, so its \
             iterations were not the program's"
        )),
        Verdict::Holds { .. } | Verdict::NotChecked => {}
    }
    warnings
}

fn job_facts(lead: &WindowLead) -> report::Job {
    let facts = &lead.facts;
    report::Job {
        id: String::new(),
        program: facts.program.clone(),
        arguments: facts.arguments.clone(),
        ranks: facts.size.unwrap_or_else(|| lead.membership.rank_count()),
        mpi: facts.mpi.clone(),
        hosts: lead.membership.hosts(),
        builds: facts.builds.clone(),
        started_unix_s: facts.started_unix_s,
    }
}
