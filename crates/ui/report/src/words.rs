//! The lines that the terminal and the HTML page share: what was run, what was recorded, what it means, what it cost.
//!
//! A [`Fact`] is a name and a value in plain words; a value never holds a control character of the target's making.
//!
//! Next: `terminal.rs` and `html.rs`, which lay the facts out.

use crate::clean::clean;
use crate::neighbours;
use crate::numbers::{self, COST_BAR};
use crate::omp;
use crate::units::{
    NOT_MEASURED, bytes, count, counted, date, date_if_known, percent, percent_with_half_width, significant, time,
    time_with_half_width,
};
use std::collections::BTreeSet;
use trimtab_types::report::{
    CallFrame, Cause, Cost, Counter, Difference, Ended, Estimate, FunctionGroup, FunctionTotal, LikelyProgress,
    LoopProgress, OuterProgress, RankTotal, Report, Window,
};

/// Hosts named before "and N more".
const HOSTS_SHOWN_MAX: usize = 8;

/// Characters of the command line shown.
const COMMAND_LENGTH_MAX: usize = 400;

/// How a reader should take a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Bad,
    Warn,
}

/// One line: a name and a value.
pub(crate) struct Fact {
    pub name: &'static str,
    pub value: String,
    pub tone: Tone,
}

/// The job and its program.
pub(crate) fn job(report: &Report) -> Vec<Fact> {
    let job = &report.job;
    let mut command = vec![clean(&job.program)];
    command.extend(job.arguments.iter().map(|argument| quoted(&clean(argument))));
    vec![
        plain("job", if job.id.is_empty() { "not stored".to_string() } else { clean(&job.id) }),
        plain("program", shortened(&command.join(" "), COMMAND_LENGTH_MAX)),
        plain("ranks", format!("{} on {}", count(u64::from(job.ranks)), hosts(&job.hosts))),
        plain("MPI", clean(&job.mpi)),
        plain("started", date_if_known(job.started_unix_s)),
    ]
}

/// The window that was recorded.
pub(crate) fn window(report: &Report, paths: bool) -> Vec<Fact> {
    let window = &report.window;
    let mut facts = vec![plain(
        "window",
        format!("{} ({}), {}", window.number, clean(&window.trigger), date_if_known(window.started_unix_s)),
    )];
    let waited = |event| format!("{}, {}", neighbours::event(event), date(event.at_unix_s));
    facts.extend(window.event.as_ref().map(|event| plain("waited for", waited(event))));
    facts.push(plain("marker", marker(window)));
    facts.extend(
        Some(path(&window.marker_path))
            .filter(|_| paths && !window.marker_path.is_empty())
            .map(|path| plain("called", path)),
    );
    facts.extend(window.loop_description.as_deref().map(|loop_found| plain("loop", clean(loop_found))));
    facts.extend(window.progress.as_ref().map(|progress| plain("loop at end", how_far(progress))));
    let of_loops = if window.main_loop.is_some() { "around it" } else { "ranks are in" };
    facts.extend(window.outer_progress.iter().filter_map(outer_progress).map(|said| plain(of_loops, said)));
    facts.push(plain("recorded", recorded(window)));
    facts.push(plain("per iteration", per_iteration(report)));
    facts.push(validity(report));
    facts.push(plain(
        "measured",
        if window.groups.is_empty() {
            "nothing".into()
        } else {
            window.groups.iter().map(|group| group.word()).collect::<Vec<_>>().join(", ")
        },
    ));
    facts
}

/// How far the main loop was when the window ended.
fn how_far(progress: &LoopProgress) -> String {
    let LoopProgress { done, remaining, total, total_at_most, likely, explanation } = progress;
    let said = match (done, total, total_at_most, remaining) {
        (Some(done), Some(total), ..) => format!("{} of {} iterations done", count(*done), count(*total)),
        (Some(done), None, Some(most), _) => {
            let at_most = format!("{} of at most {} iterations done", count(*done), count(*most));
            likely.map_or(at_most.clone(), |likely| format!("{at_most}, {}", likely_way(likely)))
        }
        (Some(done), None, None, _) => format!("{} iterations done, how many there are is not known", count(*done)),
        (None, _, _, Some(left)) => format!("{} iterations to come", count(*left)),
        (None, _, _, None) if likely.is_some() => likely_way(likely.unwrap_or_default()),
        (None, _, _, None) => "how many iterations are done, and how many there are, is not known".to_owned(),
    };
    format!("{said}: {}", clean(explanation))
}

/// How far a loop around the main one is, as a sentence without a full stop. `None`: it is not known.
pub fn outer_progress(one: &OuterProgress) -> Option<String> {
    let most = if one.to_come.is_none() { "at most " } else { "" };
    let to_come = one.to_come_at_most?;
    let done = one.done.map(|done| format!("{} passes done, ", count(done))).unwrap_or_default();
    let likely = if one.is_likely { "probably " } else { "" };
    let (name, to_come) = (clean(&one.name), count(to_come));
    Some(format!("{name}: {likely}{done}{most}{to_come} to come behind the one that it is in"))
}

fn likely_way(likely: LikelyProgress) -> String {
    let LikelyProgress { done, remaining, total, remaining_lower, remaining_upper, remaining_at_most } = likely;
    if let (None, Some(most)) = (remaining, remaining_at_most) {
        let done = done.map_or_else(String::new, |done| format!("{} iterations done, ", count(done)));
        let noun = if done.is_empty() { " iterations" } else { "" };
        return format!("probably {done}at most {}{noun} to come", count(most));
    }
    if let (Some(remaining), Some((lower, upper))) = (remaining, remaining_lower.zip(remaining_upper)) {
        return format!("probably {} iterations to come, {} to {}", count(remaining), count(lower), count(upper));
    }
    match (done.zip(total), remaining) {
        (Some((done, total)), _) => format!("probably {} of {} iterations done", count(done), count(total)),
        (None, Some(remaining)) => format!("probably {} iterations to come", count(remaining)),
        (None, None) => "how many iterations come is not known".to_owned(),
    }
}

/// The main numbers, in words.
pub(crate) fn result(report: &Report) -> Vec<Fact> {
    let mut facts = vec![plain("communication", communication(report)), plain("imbalance", imbalance(report))];
    facts.extend(efficiency(report).map(|said| plain("efficiency", said)));
    facts.extend(omp::hybrid(report).map(|said| plain("with threads", said)));
    facts.extend(numbers::polling_share(report).map(|share| {
        let meaning = if share > 0.5 {
            "it polls: waiting keeps the core busy"
        } else if numbers::is_displaced(report) && neighbours::is_oversubscribed(report) {
            "how it waits can't be told, because the ranks take each other's processors"
        } else if numbers::is_displaced(report) {
            "how it waits can't be told, because other work took the cores"
        } else {
            "waiting leaves the core idle"
        };
        plain("waiting", time_on_cpu(share).map_or_else(|| meaning.to_owned(), |time| format!("{meaning}; {time}")))
    }));
    facts.extend(report.difference.as_ref().map(|difference| plain("ranks differ", why_different(difference))));
    facts.extend(other_groups(report));
    facts
}

/// The least part of communication that can have been spent on a processor; `None`: that it was any is not known.
fn time_on_cpu(share: f64) -> Option<String> {
    match share {
        _ if share >= NEARLY_ALL => Some("communication is spent on the CPU, all of it".to_owned()),
        _ if share >= TELLING_SHARE_MIN => {
            Some(format!("at least {} of communication time is spent on the CPU", percent(share)))
        }
        _ => None,
    }
}

/// A smaller lower bound says nothing.
const TELLING_SHARE_MIN: f64 = 0.01;

/// A share that would be printed as 100.0%.
const NEARLY_ALL: f64 = 0.9995;

/// Which rank computes longest, and why as far as that is known.
fn why_different(difference: &Difference) -> String {
    let Difference { longest, shortest, ratio, cause, because, .. } = difference;
    let why = match cause {
        Cause::Work => "it has more work",
        Cause::Node => "its machine is slower",
        Cause::Processor => "it had less of a processor",
        Cause::Undetermined => "why is undetermined",
    };
    format!("rank {longest} computes {} as long as rank {shortest}: {why} ({})", times(*ratio), clean(because))
}

/// Time in groups other than communication, where any was measured.
fn other_groups(report: &Report) -> Option<Fact> {
    let share =
        |time_s| numbers::ratio(time_s, numbers::rank_seconds(report)).map_or(NOT_MEASURED.to_string(), percent);
    let groups = numbers::group_seconds(report).into_iter();
    let parts: Vec<String> =
        groups.map(|(group, time_s)| format!("{} {} ({} of the time)", group, time(time_s), share(time_s))).collect();
    let whole_s = numbers::rank_seconds(report);
    let is_above = numbers::group_seconds(report).iter().any(|(_, time_s)| *time_s > whole_s);
    let over = if is_above { "ranks and their threads" } else { "ranks" };
    (!parts.is_empty()).then(|| plain("other groups", format!("{}, summed over {over}", parts.join(", "))))
}

/// The operating system's counts.
pub(crate) fn system(report: &Report) -> Vec<Fact> {
    let mut facts = faults_and_switches(report);
    facts.extend(counters(report));
    let crowded = |value| Fact { name: "oversubscribed", value, tone: Tone::Warn };
    facts.extend(neighbours::oversubscribed(report).map(crowded));
    facts.extend(neighbours::sharing(report).map(|text| plain("shared", text)));
    facts.extend(neighbours::stolen(report).map(|text| plain("stolen", text)));
    let tone = if neighbours::is_throttled(report) { Tone::Warn } else { Tone::Plain };
    facts.extend(neighbours::limits(report).map(|value| Fact { name: "limits", value, tone }));
    facts
}

/// Faults and context switches; one line where nothing of them is known, for one reason.
fn faults_and_switches(report: &Report) -> Vec<Fact> {
    type Value = fn(&RankTotal) -> Option<u64>;
    let all: [(&'static str, Option<&str>, Value); 4] = [
        ("minor faults", None, |rank| rank.minor_faults),
        ("major faults", None, |rank| rank.major_faults),
        ("voluntary", Some("context switch"), |rank| rank.voluntary_switches),
        ("involuntary", Some("context switch"), |rank| rank.involuntary_switches),
    ];
    if all.iter().all(|(_, _, value)| numbers::counted(report, *value).is_none()) {
        return vec![plain("counts", format!("page faults, context switches: {}", not_counted(report)))];
    }
    all.map(|(name, noun, value)| plain(name, counter(report, noun, value))).into()
}

/// Counters that were asked for: "cache-misses 12,345, 123.4 per iteration and rank; most on rank 3 (5,000)".
fn counters(report: &Report) -> Vec<Fact> {
    let names: BTreeSet<&String> =
        report.ranks.iter().flat_map(|rank| rank.counters.iter().map(|counter| &counter.name)).collect();
    names.into_iter().map(|name| counter_fact(report, name)).collect()
}

fn counter_fact(report: &Report, name: &str) -> Fact {
    let known = report.ranks.iter().filter_map(|rank| Some((rank.rank, rank.counter(name)?)));
    let known: Vec<(u32, &Counter)> = known.collect();
    let values: Vec<(u32, u64)> = known.iter().filter_map(|(rank, counter)| Some((*rank, counter.value?))).collect();
    let shown = |value: u64| if name == "task-clock" { time(value as f64 * 1e-9) } else { count(value) };
    let reason = known.iter().find_map(|(_, counter)| counter.missing.as_deref()).unwrap_or(NOT_MEASURED);
    let Some((rank, most)) = values.iter().max_by_key(|(_, value)| *value) else {
        return Fact { name: "counter", value: format!("{}: {}", clean(name), clean(reason)), tone: Tone::Warn };
    };
    let mut text = format!("{} {}", clean(name), shown(values.iter().map(|(_, value)| value).sum()));
    let each: Vec<f64> = known.iter().filter_map(|(_, counter)| counter.per_iteration).collect();
    if !each.is_empty() {
        text += &format!(
            ", {} per iteration and rank",
            shown((each.iter().sum::<f64>() / each.len() as f64).round() as u64)
        );
    }
    if values.len() > 1 {
        text += &format!("; most on rank {rank} ({})", shown(*most));
    }
    let scaled = known.iter().filter_map(|(_, counter)| counter.scaled).fold(1.0, f64::max);
    if scaled > 1.0 {
        text += &format!("; counted for a part of the time and scaled up to {}", times(scaled));
    }
    if values.len() < report.ranks.len() {
        text += &format!(
            "; not known on {}: {}",
            counted((report.ranks.len() - values.len()) as u64, "rank"),
            clean(reason)
        );
    }
    plain("counter", text)
}

/// The way to what a reduced report leaves out.
pub(crate) const NEEDS_ALL: &str = "every rank's details are needed for that, which --all-ranks brings";

/// A window by time that is shorter has no counts that were read beside its borders, seconds.
const BESIDE_SECONDS_MIN: f64 = 0.1;

/// Why the kernel's counts of a window are not known, where that can be told.
fn not_counted(report: &Report) -> String {
    let why = match report.window.ended_by {
        _ if report.reduced.is_some() => return format!("of all ranks together not known: {NEEDS_ALL}"),
        Ended::ProgramEnded => {
            "ranks that have ended can't be asked; --counters page-faults,context-switches counts to the end"
        }
        _ if report.window.marker.is_none() && report.window.duration_s < BESIDE_SECONDS_MIN => {
            "readings beside the borders of a window by time say nothing of one this short; measure longer"
        }
        _ => return NOT_MEASURED.to_string(),
    };
    format!("{NOT_MEASURED}: {why}")
}

/// "12 context switches; most on rank 3 (5); not measured on 1 rank".
fn counter(report: &Report, noun: Option<&str>, value: fn(&RankTotal) -> Option<u64>) -> String {
    let Some(all) = numbers::counted(report, value) else { return not_counted(report) };
    let mut text = noun.map_or(count(all.sum), |noun| counted(all.sum, noun));
    if all.sum > 0 && report.ranks.len() > 1 {
        text += &format!("; most on rank {} ({})", all.largest.0, count(all.largest.1));
    }
    let missing = report.ranks.len() - all.ranks;
    if missing > 0 {
        text += &format!("; {NOT_MEASURED} on {}", counted(missing as u64, "rank"));
    }
    text
}

/// The measurement's cost to the program.
pub(crate) fn cost(report: &Report) -> Vec<Fact> {
    let cost = &report.cost;
    let pauses = match (cost.pause_us_max, cost.pause_us_total) {
        (Some(us_max), Some(us_total)) => {
            format!("longest {}; {} in all on the rank paused most", time(us_max * 1e-6), time(us_total * 1e-6))
        }
        _ => NOT_MEASURED.to_string(),
    };
    let per_probe = cost
        .probe_ns
        .map_or("cost of one not calibrated".to_string(), |ns| format!("{} ns for entry and exit", significant(ns, 3)));
    let probes = match (cost.probes, cost.points) {
        (Some(probes), Some(points)) => {
            format!("{} passed, {per_probe}; {} patched per rank", count(probes), counted(points, "point"))
        }
        _ => NOT_MEASURED.to_string(),
    };
    let (share, tone) = match cost.fraction {
        None => (NOT_MEASURED.to_string(), Tone::Plain),
        Some(fraction) if fraction > COST_BAR => (above_bar(fraction, cost), Tone::Warn),
        Some(fraction) => {
            (format!("{} of the window's time, on the rank where it is largest", percent(fraction)), Tone::Plain)
        }
    };
    let first = cost.first_record_s.map_or(NOT_MEASURED.to_string(), |s| format!("{} after the command", time(s)));
    let mut facts: Vec<Fact> = held(report).map(|held| plain("held", held)).into_iter().collect();
    facts.extend([
        plain("pauses", pauses),
        plain("probes", probes),
        Fact { name: "share", value: share, tone },
        plain("first record", first),
    ]);
    facts
}

/// How long ranks were held behind `MPI_Init`, which the window's own times leave out.
fn held(report: &Report) -> Option<String> {
    let held = &report.window.from_first_call.as_ref()?.held;
    let longest = held.iter().max_by(|a, b| a.held_us.total_cmp(&b.held_us))?;
    let seconds = longest.held_us * 1e-6;
    Some(match held.as_slice() {
        [one] => format!(
            "rank {} waited {} behind MPI_Init until it was measured: it took that much longer",
            one.rank,
            time(seconds)
        ),
        _ => format!(
            "ranks waited behind MPI_Init until all were measured, rank {} longest, for {}: the program took about that much longer",
            longest.rank,
            time(seconds)
        ),
    })
}

/// Why the window is not valid, or `None`.
pub(crate) fn invalid(report: &Report) -> Option<String> {
    if report.window.valid {
        return None;
    }
    let iterations = report.ranks.iter().filter_map(|rank| rank.iterations);
    let (fewest, most) = (iterations.clone().min(), iterations.max());
    let why = match fewest.zip(most) {
        _ if report.window.ended_by == Ended::Interrupted => "it was interrupted".to_string(),
        Some((fewest, most)) if fewest != most => {
            format!("the ranks recorded different iterations ({fewest} to {most})")
        }
        _ if report.window.ended_by == Ended::MaxSeconds => "the time limit came too early".to_string(),
        _ if report.window.context.is_none() && (numbers::rank_count(report) as u64) < u64::from(report.job.ranks) => {
            format!("{} of {} ranks were measured", numbers::rank_count(report), report.job.ranks)
        }
        _ if report.window.ended_by == Ended::ProgramEnded => {
            "the program ended before the window was whole".to_string()
        }
        _ => "a rank ended early or left".to_string(),
    };
    Some(format!("INVALID: {why}; do not compare these numbers, measure again"))
}

/// Other names of a function's code shown beside the first; all are in the JSON.
const OTHER_NAMES_SHOWN_MAX: usize = 2;

/// A function with the others whose calls are counted with its own: "memcpy = memmove".
pub(crate) fn function_name(function: &FunctionTotal) -> String {
    let shown = function.other_names.iter().take(OTHER_NAMES_SHOWN_MAX).map(|name| format!(" = {}", clean(name)));
    let more = function.other_names.len().saturating_sub(OTHER_NAMES_SHOWN_MAX);
    let and_more = if more > 0 { format!(" = {more} more") } else { String::new() };
    clean(&function.name) + &shown.collect::<String>() + &and_more
}

/// Its calls; of a function that was taken out they are a lower bound, and none is told of one that was out all the time.
pub(crate) fn function_calls(function: &FunctionTotal) -> String {
    let is_out = function.taken_out_after_s.is_some();
    // Older reports have 0 where nobody counted.
    let calls = function.calls.filter(|calls| *calls > 0 || !is_out);
    let sign = if is_out { ">=" } else { "" };
    calls.map_or_else(|| "-".to_owned(), |calls| format!("{sign}{}", count(calls)))
}

/// Since when functions were taken out; `None`: all were counted to the end.
pub(crate) fn taken_out(report: &Report) -> Option<String> {
    let since = |function: &FunctionTotal| {
        let since = match function.taken_out_after_s? {
            after_s if after_s > 0.0 => format!("{} after the window began", time(after_s)),
            _ => "before the window began".to_string(),
        };
        Some(format!("{} {since}", clean(&function.name)))
    };
    let all: Vec<String> = report.functions.iter().filter_map(since).collect();
    (!all.is_empty()).then(|| format!(">=: counted only until it was taken out: {}; see the warnings", all.join(", ")))
}

/// Calls that are one wait with the one before; `None`: there are none.
pub(crate) fn polling(report: &Report) -> Option<String> {
    let of = |function: &FunctionTotal| {
        let calls = counted(function.polling_calls?, "call");
        Some(format!("{calls} of {}", clean(&function.name)))
    };
    let all: Vec<String> = report.functions.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| {
        format!("{} asked again at once: one wait with the call before, and with the time between", all.join(", "))
    })
}

/// The base of a function's share, and the other columns of the function table that are computed.
pub(crate) struct FunctionNumbers {
    /// Share of the sum of the ranks' recorded time.
    pub share: Option<f64>,
    /// Seconds of one call.
    pub mean_s: Option<f64>,
}

/// Computes them.
pub(crate) fn function_numbers(report: &Report, function: &FunctionTotal) -> FunctionNumbers {
    FunctionNumbers {
        share: function.time_s.and_then(|time_s| numbers::ratio(time_s, numbers::rank_seconds(report))),
        mean_s: function.time_s.and_then(|time_s| numbers::ratio(time_s, function.calls? as f64)),
    }
}

/// One sentence on all links together; `None`: nothing was measured that has links.
pub(crate) fn traffic(report: &Report) -> Option<String> {
    if !numbers::communication_measured(report) && report.links.is_empty() {
        return None;
    }
    if report.reduced.is_some() {
        return Some(format!("bytes and messages from rank to rank are not known: {NEEDS_ALL}"));
    }
    let all = numbers::traffic(report);
    let unknown: Vec<&str> =
        report.functions.iter().filter(|one| one.bytes_missing.is_some()).map(|one| one.name.as_str()).collect();
    let is_all_known = unknown.is_empty() && all.unattributed_bytes == 0;
    let mut text = if all.messages == 0 && all.bytes == 0 && is_all_known {
        let moves = |function: &&FunctionTotal| {
            function.group == FunctionGroup::Comm && function.bytes.is_some_and(|bytes| bytes > 0)
        };
        let some = report.functions.iter().find(moves);
        let ways =
            |one: &FunctionTotal| format!("; which ways the bytes of {} go is the library's choice", clean(&one.name));
        format!("no messages from rank to rank{}", some.map(ways).unwrap_or_default())
    } else if all.messages == 0 && all.bytes == 0 {
        "no message whose size and receiver are known".to_string()
    } else {
        let links = counted(report.links.len() as u64, "link");
        let collective = match all.collective_bytes {
            0 => "none of it in collectives".to_string(),
            part => format!("{} of it in collectives", bytes(part as f64)),
        };
        format!("{} in {} over {links}, {collective}", bytes(all.bytes as f64), counted(all.messages, "message"))
    };
    if all.unattributed_bytes > 0 {
        text += &format!("; {} more whose receiver could not be named", bytes(all.unattributed_bytes as f64));
    }
    if !unknown.is_empty() {
        text += &format!("; not known and not in this: messages of {}", clean(&unknown.join(", ")));
    }
    Some(text)
}

/// Text cut to so many characters.
pub(crate) fn shortened(text: &str, length_max: usize) -> String {
    match text.char_indices().nth(length_max) {
        None => text.to_string(),
        Some((end, _)) => format!("{} ...", &text[..end]),
    }
}

fn plain(name: &'static str, value: String) -> Fact {
    Fact { name, value, tone: Tone::Plain }
}

/// An argument as a shell would need it.
fn quoted(argument: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_=+,.:/@%^".contains(c) || !c.is_ascii();
    if !argument.is_empty() && argument.chars().all(bare) {
        return argument.to_string();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

fn hosts(hosts: &[String]) -> String {
    let named: Vec<String> = hosts.iter().take(HOSTS_SHOWN_MAX).map(|host| clean(host)).collect();
    let more = hosts.len() - named.len();
    let and_more = if more > 0 { format!(", and {more} more") } else { String::new() };
    match hosts.len() {
        0 => "unknown hosts".to_string(),
        1 => named.join(""),
        many => format!("{many} hosts: {}{and_more}", named.join(", ")),
    }
}

fn marker(window: &Window) -> String {
    match &window.marker {
        Some(marker) => format!("{} ({})", clean(marker), window.marker_source),
        None => "none: the window is by time, not by iterations".to_string(),
    }
}

/// The way from MPI to the program, innermost first.
pub(crate) fn path(frames: &[CallFrame]) -> String {
    let place = |frame: &CallFrame| {
        let module = if frame.module.is_empty() { "generated code" } else { &frame.module };
        clean(&format!("{} ({module})", frame.place()))
    };
    format!("by {}", frames.iter().map(place).collect::<Vec<_>>().join(", by "))
}

fn recorded(window: &Window) -> String {
    let long = time(window.duration_s);
    let ended = match window.ended_by {
        Ended::Iterations => "as asked".to_string(),
        Ended::Confident => "until the time per iteration was known well enough".to_string(),
        Ended::MaxSeconds => "up to the time limit".to_string(),
        Ended::ProgramEnded => "until the program ended".to_string(),
        Ended::FaultHandler => "until the program set a fault handler of its own".to_string(),
        Ended::ProbeLimit => "until the probes of what counts iterations cost too much".to_string(),
        Ended::Interrupted => "until interrupted".to_string(),
        Ended::LeftLoop => "until the program left the loop".to_string(),
    };
    match (window.iterations, window.start) {
        (Some(iterations), Some(start)) => {
            // Not the program's own number of it, which the loop's counter tells.
            let last = start.saturating_add(iterations).saturating_sub(1);
            let numbers = if iterations > 1 {
                format!("{} to {} as trimtab counts", count(start), count(last))
            } else {
                format!("number {} as trimtab counts", count(start))
            };
            format!("{} ({numbers}), {long}, {ended}", counted(iterations, "iteration"))
        }
        (Some(iterations), None) => format!("{}, {long}, {ended}", counted(iterations, "iteration")),
        (None, _) => format!("{long}, {ended}"),
    }
}

fn per_iteration(report: &Report) -> String {
    let Some(estimate) = report.time_per_iteration_s else { return NOT_MEASURED.to_string() };
    let rate = report.iterations_per_s.map(|rate| format!("; {} iterations per second", significant(rate, 3)));
    format!("{}{}", mean_time(&estimate), rate.unwrap_or_default())
}

fn mean_time(estimate: &Estimate) -> String {
    let mean = match estimate.half_width_95 {
        Some(half_width) => format!("{} (95%)", time_with_half_width(estimate.mean, half_width)),
        None => format!("{} (spread not known)", time(estimate.mean)),
    };
    match estimate.samples {
        0 | 1 => format!("{mean}, 1 sample"),
        samples => format!("{mean}, {} to {} in {} samples", time(estimate.min), time(estimate.max), count(samples)),
    }
}

fn validity(report: &Report) -> Fact {
    match invalid(report) {
        Some(why) => Fact { name: "valid", value: why, tone: Tone::Bad },
        None if report.window.marker.is_some() => {
            plain("valid", "yes: all ranks recorded the same iterations".to_string())
        }
        None => plain("valid", "yes".to_string()),
    }
}

fn communication(report: &Report) -> String {
    let Some(share) = report.communication_fraction else {
        let because =
            report.communication_missing.as_deref().map_or_else(String::new, |reason| format!(": {}", clean(reason)));
        return format!("{NOT_MEASURED}{because}");
    };
    let mean = match share.half_width_95 {
        _ if report.communication_at_least => percent(share.mean),
        Some(half_width) => percent_with_half_width(share.mean, half_width),
        None => percent(share.mean),
    };
    let ratio = report.communication_to_computation.map(|ratio| format!("; {} of computation time", times(ratio)));
    let at_least = if report.communication_at_least { "at least " } else { "" };
    let has_several = |rank: &RankTotal| rank.communication_threads.is_some_and(|threads| threads > 1);
    let of_all = report.reduced.as_ref().and_then(|reduced| reduced.communication_threads_max);
    let whose = if report.ranks.iter().any(has_several) || of_all.is_some_and(|threads| threads > 1) {
        ", of each rank's busiest thread"
    } else {
        ""
    };
    format!("{at_least}{mean} of the time{whose}{}", ratio.unwrap_or_default())
}

/// The sums that a table of functions holds: over ranks and, where several are in them, over their threads.
pub(crate) fn summed_over(report: &Report) -> String {
    match numbers::threads_summed(report) {
        None => "summed over ranks".to_owned(),
        Some(0 | 1) => "summed over ranks and their threads".to_owned(),
        Some(threads) => format!("summed over ranks and up to {threads} threads of each"),
    }
}

/// A reader would take a share for one of all there is.
pub(crate) fn shares_of_threads(report: &Report) -> Option<&'static str> {
    numbers::threads_summed(report).map(|_| {
        "time and share are summed over threads: each thread that is inside counts, so a share of the ranks' time may be \
         above 100%"
    })
}

/// "0.63x".
pub(crate) fn times(ratio: f64) -> String {
    format!("{}x", significant(ratio, 2))
}

fn imbalance(report: &Report) -> String {
    let Some(imbalance) = report.imbalance else { return NOT_MEASURED.to_string() };
    let longest = numbers::by_computation(report).first().map(|rank| format!(", on rank {}", rank.rank));
    let formula = "longest computation / mean computation - 1";
    format!("{} = {formula}{}", percent(imbalance), longest.filter(|_| imbalance > 0.0).unwrap_or_default())
}

/// The factors of parallel efficiency, and which to work on first; `None`: there are none.
fn efficiency(report: &Report) -> Option<String> {
    let Some(found) = &report.efficiencies else {
        return report.efficiencies_missing.as_ref().map(|why| format!("{NOT_MEASURED}: {}", clean(why)));
    };
    let part = |of: Option<f64>, name: &str| of.map(|of| format!("{name} {}", percent(of)));
    let split = |parts: [Option<String>; 2]| {
        let known: Vec<String> = parts.into_iter().flatten().collect();
        if known.is_empty() { String::new() } else { format!(" ({})", known.join(" x ")) }
    };
    let balance = split([
        part(found.load_balance_within_nodes, "within nodes"),
        part(found.load_balance_between_nodes, "between nodes"),
    ]);
    let communication = split([part(found.serialisation, "serialisation"), part(found.transfer, "transfer")]);
    let (parallel, load_balance) = (percent(found.parallel), percent(found.load_balance));
    let first = found.work_on_first.map(|factor| format!("; improve {factor} first"));
    let factors =
        format!("load balance {load_balance}{balance} x communication {}{communication}", percent(found.communication));
    Some(format!("{parallel} = {factors}{}", first.unwrap_or_default()))
}

fn above_bar(fraction: f64, cost: &Cost) -> String {
    let (share, bar) = (percent(fraction), percent(COST_BAR));
    let without = |share| format!(", without it some {} would be communication", percent(share));
    format!(
        "{share} of the window's time is above the bar of {bar}: the numbers are disturbed{}; measure fewer functions (--function, --group)",
        cost.communication_fraction_without.map(without).unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_bound_of_nothing_is_not_said() {
        let rows = [
            ("none", 0.0, None),
            ("next to none", 0.004, None),
            ("some", 0.317, Some("at least 31.7% of communication time is spent on the CPU")),
            ("all", 0.9999, Some("communication is spent on the CPU, all of it")),
        ];
        for (name, share, said) in rows {
            assert_eq!(time_on_cpu(share).as_deref(), said, "{name}");
        }
    }
}
