//! The report of one measured window: what `--json` prints, the store keeps and the terminal draws.
//!
//! The shape is versioned by [`SCHEMA`]; fields are added, never renamed or given another meaning, within a version.
//! A quantity that was not measured is `None` (JSON `null`), never zero. Times are seconds, sizes bytes.
//!
//! Next: `trimtab-window` computes it, `trimtab-store` keeps it, `trimtab-report` draws it; `docs/report.md` explains
//! every field to users.

mod counter;
mod efficiency;
mod group_time;
mod omp;
mod path;
mod reduced;
mod share;
mod transfer;
mod words;

pub use counter::{Counter, CounterCost};
pub use efficiency::Efficiencies;
pub use group_time::GroupTime;
pub use omp::{HybridEfficiencies, Omp, ParallelRegion};
pub use path::{CallFrame, PathTotal, SizeClass};
pub use reduced::{CrowdedNode, FunctionRanks, NodeSum, RankClass, RankSpread, Reduced};
pub use share::{Event, Limit, Neighbour, NodeShare, Oversubscription, RankPlace};
pub use transfer::{CollectiveTimes, MessageTimes};
pub use words::{
    Assumption, Cause, Closeness, CrowdLimit, Ended, EventKind, Factor, FunctionGroup, HybridFactor, MarkerSource,
    NeighbourKind, Presence, WaitKind,
};

use serde::{Deserialize, Deserializer, Serialize};

/// Name and version of the report's shape.
pub const SCHEMA: &str = "trimtab.report/1";

/// A moment, which reports of before wrote as 0 where it was not known.
fn known_moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.filter(|seconds| *seconds != 0.0))
}

/// One measured window of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The program that ran.
    pub job: Job,
    /// The window: its marker, its iterations, and if the ranks agree about them.
    pub window: Window,
    /// Mean over ranks of the mean time of one iteration.
    pub time_per_iteration_s: Option<Estimate>,
    /// Iterations per second, 1 over the mean time of one iteration.
    pub iterations_per_s: Option<f64>,
    /// Share of the window spent in communication, mean over ranks: Tc/(t2-t1).
    pub communication_fraction: Option<Estimate>,
    /// True if that share is a lower bound, because the time of some communication was not measured.
    #[serde(default)]
    pub communication_at_least: bool,
    /// Why communication, and what is computed from it, is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication_missing: Option<String>,
    /// Communication over computation time, Tc/(t2-t1-Tc), of the sums over ranks.
    pub communication_to_computation: Option<f64>,
    /// max over ranks of computation time / mean over ranks - 1.
    pub imbalance: Option<f64>,
    /// The factors of parallel efficiency of the measured ranks.
    #[serde(default)]
    pub efficiencies: Option<Efficiencies>,
    /// Why `efficiencies` is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiencies_missing: Option<String>,
    /// Parallel regions of OpenMP; `None`: the group omp was not among what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omp: Option<Omp>,
    /// Why ranks compute differently long; `None`: they do not, beyond what their iterations vary by.
    #[serde(default)]
    pub difference: Option<Difference>,
    /// One entry per measured function, longest time first, summed over ranks.
    pub functions: Vec<FunctionTotal>,
    /// Communication by where in the program it was called, longest time first, summed over ranks. Together the entries of a
    /// function are all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathTotal>,
    /// Bytes and messages from rank to rank, in world ranks, counted at the sender.
    pub links: Vec<Link>,
    /// The time of messages on these links, by size: transfer and waiting, of calls of recorded iterations that could be matched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageTimes>,
    /// The time of collectives of all ranks, by function and size, of the same calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<CollectiveTimes>,
    /// One entry per rank, in rank order; of a reduced report, of the ranks that stand out.
    pub ranks: Vec<RankTotal>,
    /// The figures of all ranks, where `ranks` has only those that stand out; `None`: it has all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced: Option<Reduced>,
    /// Parts of communication that are waiting, for calls of recorded iterations that could be matched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wait_states: Vec<WaitState>,
    /// The others on the job's machines, one entry per machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeShare>,
    /// The cost of the measurement itself.
    pub cost: Cost,
    /// First calls of each function as trace records, where `--detail` asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
    /// Warnings that a reader must know: partial data, ranks that left, costs above the bar.
    pub warnings: Vec<String>,
}

/// The program, its arguments and processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Id of the job in the store.
    pub id: String,
    /// Path of the executable of rank 0.
    pub program: String,
    /// Its arguments, without the program itself.
    pub arguments: Vec<String>,
    /// Number of ranks in `MPI_COMM_WORLD`.
    pub ranks: u32,
    /// MPI library, e.g. "MPICH 4.0.2" or "Open MPI 4.1.4".
    pub mpi: String,
    /// Host names, each once.
    pub hosts: Vec<String>,
    /// Build ids of executable and MPI library, "path build-id".
    pub builds: Vec<String>,
    /// Start of rank 0's process, seconds since 1970; `None`: not known.
    #[serde(deserialize_with = "known_moment")]
    pub started_unix_s: Option<f64>,
}

/// The marker that counts iterations, and which of them were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Number of this window in its job, from 0.
    #[serde(rename = "batch")]
    pub number: u32,
    /// The command that asked for it, e.g. "attach", "run", "measure".
    pub trigger: String,
    /// The event that was waited for; `None`: the window was measured at once.
    #[serde(default)]
    pub event: Option<Event>,
    /// The function (and call site) that counts iterations; `None`: the window is by time.
    pub marker: Option<String>,
    /// How the marker was found.
    pub marker_source: MarkerSource,
    /// First recorded iteration, counted on all ranks alike; `None`: by time.
    pub start: Option<u64>,
    /// Recorded iterations per rank (markers minus one); `None`: by time.
    pub iterations: Option<u64>,
    /// False if ranks recorded different iterations, one ended early, or iterations are passes of a thread that calls no MPI while
    /// another one in the same loop does.
    pub valid: bool,
    /// The ranks that were asked for, as a context; `None`: all.
    #[serde(default)]
    pub context: Option<String>,
    /// Why it ended.
    pub ended_by: Ended,
    /// Longest recorded duration over ranks.
    pub duration_s: f64,
    /// Wall-clock time of the window's start, seconds since 1970; `None`: no rank began to record.
    #[serde(deserialize_with = "known_moment")]
    pub started_unix_s: Option<f64>,
    /// Measured groups.
    pub groups: Vec<FunctionGroup>,
    /// The loop that was found, for a reader: e.g. "12 MPI calls per iteration, covering 99.1% of the time".
    pub loop_description: Option<String>,
    /// From where the marker is called, innermost first: through bindings and wrappers up to the program's own function.
    /// Empty: it is a function of the program, or the window is by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marker_path: Vec<CallFrame>,
    /// The loop of the program whose passes count iterations; `None`: something else does.
    #[serde(default)]
    pub main_loop: Option<LoopPlace>,
    /// The program's loops around that one in which ranks were seen, outermost first; `None`: no loop counts iterations, or it was
    /// not looked at.
    #[serde(default)]
    pub loops_around: Option<Vec<String>>,
    /// How far each of these was, by one look right after the window; if no loop counts iterations, the loops in which ranks were seen
    /// before and after it, outermost first. Empty: there are none, or nobody looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outer_progress: Vec<OuterProgress>,
    /// How far that loop was when the window ended; `None`: no loop counts iterations.
    #[serde(default)]
    pub progress: Option<LoopProgress>,
    /// Which ranks were measured from their first call on, as they came out of `MPI_Init`; `None`: that was not asked for.
    #[serde(default)]
    pub from_first_call: Option<FromFirstCall>,
    /// A whole run was asked for, and the first calls of some ranks are missing; `None`: they are not, or that was not asked
    /// for.
    #[serde(default)]
    pub begins_late: Option<LateBegin>,
}

impl Window {
    /// True if the loop whose passes count lies in another one of the program, which may enter it again.
    pub fn is_of_inner_loop(&self) -> bool {
        let is_inside = |main: &LoopPlace| main.number.contains('.');
        let is_in_last = |one: &OuterProgress| one.to_come_at_most == Some(0) && !one.is_likely;
        // An end that is only likely may have come between the window and the look.
        let is_sure = self.progress.as_ref().is_some_and(|progress| progress.remaining.is_some());
        match &self.loops_around {
            _ if is_sure && !self.outer_progress.is_empty() && self.outer_progress.iter().all(is_in_last) => false,
            Some(around) => !around.is_empty(),
            None => self.main_loop.as_ref().is_some_and(is_inside),
        }
    }
}

/// Ranks of a whole run whose first calls are missing. How many these are is not known: nobody has seen them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LateBegin {
    /// The ranks, ascending.
    pub ranks: Vec<u32>,
    /// So long after they came out of `MPI_Init` their first record lies at most, seconds: since the program was started. It
    /// lies to the second, as starts of processes do on the calendar. `None`: not known.
    pub after_init_s_at_most: Option<f64>,
    /// Why they were not held where they came out of `MPI_Init`.
    pub reason: String,
}

/// Ranks that were held behind `MPI_Init` until all were measured. Each is measured until it comes to `MPI_Finalize`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FromFirstCall {
    /// Ranks of which no call behind `MPI_Init` is missing, ascending.
    pub ranks: Vec<u32>,
    /// All others: their first calls are missing.
    pub missed: Vec<MissedStart>,
    /// How long each rank was held there that was, ascending by rank: the program took about as much longer as the largest
    /// of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldRank>,
    /// The largest of these, microseconds; `None`: no rank was held.
    #[serde(default)]
    pub held_us_max: Option<f64>,
}

/// How long a rank was held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeldRank {
    /// The rank.
    pub rank: u32,
    /// From when it came out of `MPI_Init` to when it went on, microseconds.
    pub held_us: f64,
}

/// A rank whose first calls are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedStart {
    /// The rank.
    pub rank: u32,
    /// Why.
    pub reason: String,
}

/// How far the main loop was at the end of a window, in passes of that loop since it was entered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopProgress {
    /// Passes completed; `None`: it is not known with what its counter began.
    pub done: Option<u64>,
    /// Passes still to come; `None`: not known, or the loop may end before.
    pub remaining: Option<u64>,
    /// Both together.
    pub total: Option<u64>,
    /// Passes after which it ends if nothing ends it before; `None`: not known.
    pub total_at_most: Option<u64>,
    /// By a counter or bound that other code may change; `None`: what is above is known instead, or nothing.
    #[serde(default)]
    pub likely: Option<LikelyProgress>,
    /// How this was known, and why not what is missing.
    pub explanation: String,
}

/// How far a loop around the main one was, by one look at the counters of its ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OuterProgress {
    /// The loop, as `loops_around` has it.
    pub name: String,
    /// Passes completed; `None`: not known.
    pub done: Option<u64>,
    /// Passes to come behind the one that ranks were in; `None`: not known, or the loop may end before.
    pub to_come: Option<u64>,
    /// Passes to come if nothing ends it before; `None`: not known.
    pub to_come_at_most: Option<u64>,
    /// By a counter or bound that other code may change.
    #[serde(default)]
    pub is_likely: bool,
    /// Why it is not known; `None`: it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// How far a loop was by a counter and a bound that did what a counting loop makes of them while they were seen, if nobody but
/// the loop changes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LikelyProgress {
    /// Passes completed; `None`: it is not known with what its counter began.
    pub done: Option<u64>,
    /// Passes still to come.
    pub remaining: Option<u64>,
    /// Both together.
    pub total: Option<u64>,
    /// The least that fits what was seen of its tests; `None`: it is the same.
    #[serde(default)]
    pub remaining_lower: Option<u64>,
    /// The most; `None`: it is the same.
    #[serde(default)]
    pub remaining_upper: Option<u64>,
    /// The most that may come, where the loop may be left before; `None`: not known, or `remaining` says it.
    #[serde(default)]
    pub remaining_at_most: Option<u64>,
}

/// A loop of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopPlace {
    /// The function it lies in.
    pub function: String,
    /// Its number there, as `trimtab points` shows it: `2.1` is the first loop in the second.
    pub number: String,
    /// File name of the program or library.
    pub module: String,
    /// Address in that file of the block that each pass goes through, in hexadecimal.
    pub address: String,
    /// The source file; `None`: there is no debugging information.
    pub file: Option<String>,
    /// The line in it where the loop begins.
    pub line: Option<u32>,
}

impl LoopPlace {
    /// `solver.f90:214`, where that is known.
    pub fn source(&self) -> Option<String> {
        let file = self.file.as_deref()?;
        Some(format!("{}:{}", file.rsplit('/').next().unwrap_or(file), self.line?))
    }
}

/// Why one rank computes longer than another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The rank that computes longest.
    pub longest: u32,
    /// The rank that computes shortest.
    pub shortest: u32,
    /// Computation time of the first over that of the second.
    pub ratio: f64,
    /// The cause, as far as what was recorded tells it.
    pub cause: Cause,
    /// The facts this rests on, or what would decide it.
    pub because: String,
    /// The user's word that it rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed: Option<Assumption>,
    /// Under that assumption each rank's speed, or its work, by the mean of all; empty: neither was assumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relative: Vec<RelativeRank>,
}

/// A rank beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelativeRank {
    /// World rank.
    pub rank: u32,
    /// Its speed or its work / the mean of all ranks.
    pub relative: f64,
}

/// All waits of one kind in one function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitState {
    /// The kind of waiting.
    pub state: WaitKind,
    /// The function that waits.
    pub function: String,
    /// Recorded iterations that this was derived from: those that all ranks' rings still held.
    pub iterations: u64,
    /// Calls in them that could be matched with their partners.
    pub calls: u64,
    /// Time waited in them, summed over ranks; `None`: it is not above `error_s`.
    pub time_s: Option<f64>,
    /// It may be this much more or less, because clocks of two ranks differ.
    pub error_s: f64,
    /// The ranks that were waited for longest, four at most.
    pub late_ranks: Vec<LateRank>,
}

/// A rank that others waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LateRank {
    /// World rank.
    pub rank: u32,
    /// Time others waited for it.
    pub time_s: f64,
}

/// A mean with its spread over iterations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Sample variance over iterations (ranks pooled); `None` with fewer than two samples.
    pub variance: Option<f64>,
    /// Half width of the 95% confidence interval of the mean; `None` with fewer than two samples.
    pub half_width_95: Option<f64>,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Number of samples.
    pub samples: u64,
}

impl Estimate {
    /// Ends of the 95% interval of a quantity that lies between 0 and `largest`; `None` where the half width is not known.
    pub fn interval_95(&self, largest: f64) -> Option<(f64, f64)> {
        let half_width = self.half_width_95?;
        Some(((self.mean - half_width).max(0.0), (self.mean + half_width).min(largest)))
    }
}

/// One function, summed over ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionTotal {
    /// Name as users know it, e.g. `MPI_Send`; several names of one address are shown once.
    pub name: String,
    /// Further functions that run the same code in this process, such as `memmove` beside `memcpy`: their calls are
    /// counted with these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_names: Vec<String>,
    /// Its group.
    pub group: FunctionGroup,
    /// Calls that began in the window, nested ones not included; `None`: none was counted, for the probes were out.
    pub calls: Option<u64>,
    /// Calls made from inside another measured call of the same group; not timed again. `None`: as `calls`.
    pub nested_calls: Option<u64>,
    /// Of `calls`, those of a function that asks whether something has come and that followed another such call at once: all of
    /// them are one wait, the time between them too. `None`: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polling_calls: Option<u64>,
    /// Time inside, clipped to the window; `None`: only counted.
    pub time_s: Option<f64>,
    /// Why `time_s` is `None` although time was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_missing: Option<String>,
    /// Its probes were taken out so many seconds after the window began, 0: before it did. Since then nothing of it is counted, so
    /// that `calls` is a lower bound. `None`: it was counted to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_out_after_s: Option<f64>,
    /// Why no part of `time_s` is told among the wait states, although the function communicates and took time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_missing: Option<String>,
    /// Why `bytes`, `bytes_mean` and `bytes_max` are `None` although the function moves some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_missing: Option<String>,
    /// Payload bytes (see docs/report.md for collectives); `None`: the function moves none, or it is not known.
    pub bytes: Option<u64>,
    /// Mean payload of one call.
    pub bytes_mean: Option<f64>,
    /// Largest payload of one call.
    pub bytes_max: Option<u64>,
    /// Calls by their payload, ascending; classes without calls are left out. `None`: as for `bytes`, or the calls were counted
    /// without it.
    #[serde(default)]
    pub sizes: Option<Vec<SizeClass>>,
    /// Sum of the argument asked for with `--argument`.
    pub argument_sum: Option<i64>,
    /// Ranks that called it; `None`: an older report, or none of its calls was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// The rank that was inside longest; `None`: as `ranks`, or it was not timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<LongestRank>,
    /// First call after the window's start, seconds.
    pub first_s: Option<f64>,
    /// Last call after the window's start, seconds.
    pub last_s: Option<f64>,
}

/// The rank that was inside a function longest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongestRank {
    /// World rank.
    pub rank: u32,
    /// Its time inside, clipped to the window.
    pub time_s: f64,
}

impl FunctionTotal {
    /// The calls that were counted.
    pub fn calls_counted(&self) -> u64 {
        self.calls.unwrap_or(0)
    }
}

/// Traffic from one rank to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Sending world rank.
    pub from: u32,
    /// Receiving world rank.
    pub to: u32,
    /// Messages, point to point and logical ones of collectives.
    pub messages: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Messages out of `messages` that belong to collectives.
    pub collective_messages: u64,
    /// Bytes out of `bytes` that belong to collectives.
    pub collective_bytes: u64,
}

/// One rank's window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankTotal {
    /// World rank.
    pub rank: u32,
    /// Process id on `host`.
    pub pid: i32,
    /// Host name.
    pub host: String,
    /// Recorded time, t2 - t1.
    pub duration_s: f64,
    /// Time inside outermost communication calls, clipped to the window, longest thread; `None`: not measured, as
    /// [`Report::communication_missing`] says.
    pub communication_s: Option<f64>,
    /// `duration_s - communication_s`.
    pub computation_s: Option<f64>,
    /// Standard error of `computation_s`, from how the iterations' computation varies; `None`: too few iterations, not
    /// measured, or an older report.
    #[serde(default)]
    pub computation_error_s: Option<f64>,
    /// Threads that communicated; `None`: not measured, or an older report.
    #[serde(default)]
    pub communication_threads: Option<u32>,
    /// As `communication_s`, of all threads: of several that are inside at once, each counts.
    #[serde(default)]
    pub communication_threads_s: Option<f64>,
    /// CPU time of all threads, user plus system.
    pub cpu_s: Option<f64>,
    /// The user part of `cpu_s`.
    pub cpu_user_s: Option<f64>,
    /// The system part of `cpu_s`.
    pub cpu_system_s: Option<f64>,
    /// Recorded iterations of this rank; `None`: window by time.
    pub iterations: Option<u64>,
    /// Mean time of one iteration.
    pub time_per_iteration_s: Option<f64>,
    /// Time of each recorded iteration, the first 4096 at most.
    pub iteration_times_s: Vec<f64>,
    /// Page faults served without I/O.
    pub minor_faults: Option<u64>,
    /// Page faults that needed I/O.
    pub major_faults: Option<u64>,
    /// Voluntary context switches.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches.
    pub involuntary_switches: Option<u64>,
    /// Counters that `--counters` asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counter>,
    /// The cost of reading them; `None`: no reading was made on the rank's way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter_cost: Option<CounterCost>,
    /// Time inside functions of each measured group other than "comm".
    pub group_s: Vec<GroupTime>,
    /// Bytes sent whose receiver could not be named (link table full, unknown communicator); `None`: communication was not
    /// measured.
    pub unattributed_bytes: Option<u64>,
    /// Pause to insert, microseconds, this rank.
    pub pause_insert_us: f64,
    /// Pause to remove, microseconds, this rank; `None` until removed.
    pub pause_remove_us: Option<f64>,
    /// Probes passed (entries plus exits) while recording.
    pub probe_hits: u64,
}

impl RankTotal {
    /// The counter of this name, if it was asked for.
    pub fn counter(&self, name: &str) -> Option<&Counter> {
        self.counters.iter().find(|counter| counter.name == name)
    }
}

/// The measurement's cost to the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Longest single pause of a rank, microseconds; `None`: no rank recorded.
    pub pause_us_max: Option<f64>,
    /// Sum of pauses of the rank with the longest sum, microseconds; `None`: no rank recorded.
    pub pause_us_total: Option<f64>,
    /// Cost of one entry plus exit, nanoseconds, calibrated in that process; `None`: not calibrated.
    pub probe_ns: Option<f64>,
    /// Probes passed in the window, all ranks, entries plus exits; `None`: no rank recorded.
    pub probes: Option<u64>,
    /// Points patched per rank (entries and exits), largest over ranks; `None`: no rank recorded.
    pub points: Option<u64>,
    /// Estimated share of the window's time spent in probes: largest over ranks.
    pub fraction: Option<f64>,
    /// Estimated share of communication in the time that is left without that cost, mean over ranks: Tc/(t2-t1-cost).
    /// `None`: the cost is not known, or ranks have several threads that communicate.
    #[serde(default)]
    pub communication_fraction_without: Option<f64>,
    /// Seconds from the command to the first recorded iteration.
    pub first_record_s: Option<f64>,
}

impl Cost {
    /// Adds pauses in which ranks were looked at, microseconds: the longest one, and all of the rank paused most.
    pub fn add_pauses(&mut self, us_max: f64, us_total: f64) {
        self.pause_us_max = self.pause_us_max.map(|pause_us| pause_us.max(us_max));
        self.pause_us_total = self.pause_us_total.map(|pauses_us| pauses_us + us_total);
    }
}

/// One call kept as a trace record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// World rank.
    pub rank: u32,
    /// Index of the thread in order of appearance.
    pub thread: u32,
    /// Function name.
    pub function: String,
    /// Wall-clock time of the entry, seconds since 1970.
    pub time_unix_s: f64,
    /// Duration of the call; `None`: it did not return within the window.
    pub duration_s: Option<f64>,
    /// First six integer arguments as passed.
    pub arguments: Vec<u64>,
}
