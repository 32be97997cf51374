//! All that a window recorded, as [`crate::assemble()`] takes it.
//!
//! Next: `assemble`, which sums and judges it.

use crate::waits::Waits;
use serde::{Deserialize, Serialize};
use trimtab_types::report::{
    Assumption, CallFrame, Counter, CounterCost, Ended, Event, FunctionGroup, Job, LoopPlace, MarkerSource, NodeShare,
};

/// Everything known about one window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowInput {
    /// The program.
    pub job: Job,
    /// The user's wishes and how it went.
    pub facts: WindowFacts,
    /// Ticks of the ranks' clock in one second.
    pub ticks_per_second: f64,
    /// The measured functions; samples refer to them by position.
    pub functions: Vec<FunctionInfo>,
    /// The ranks' recordings, in any order.
    pub ranks: Vec<RankSample>,
    /// Warnings of earlier steps.
    pub warnings: Vec<String>,
    /// Seconds from the user's command to the first recorded iteration.
    pub command_to_first_record_s: Option<f64>,
    /// From ticks to wall-clock time.
    pub unix_time: UnixTime,
    /// The ranks that waited, and for whom.
    pub waits: Waits,
    /// The others on the machines.
    pub nodes: Vec<NodeShare>,
    /// Paths by which calls came, as people read them.
    pub named_paths: Vec<NamedPath>,
}

/// The user's wishes and how it went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowFacts {
    /// The command that asked for it, e.g. "attach".
    pub trigger: String,
    /// The event that was waited for.
    pub event: Option<Event>,
    /// The marker that counts iterations, for a reader; `None`: the window is by time.
    pub marker: Option<String>,
    /// How it was found.
    pub marker_source: MarkerSource,
    /// First recorded iteration; `None`: by time.
    pub start: Option<u64>,
    /// The ranks that were asked for; `None`: all.
    pub context: Option<String>,
    /// The others, ascending.
    pub left_alone: Vec<u32>,
    /// Why it ended.
    pub ended_by: Ended,
    /// Iterations that all ranks have recorded whole, where they ended at different places; `None`: they ended at the same.
    pub common_iterations: Option<u64>,
    /// Measured groups.
    pub groups: Vec<FunctionGroup>,
    /// Of communication only functions were measured that were named, not the whole group.
    pub communication_named_only: bool,
    /// The loop, for a reader.
    pub loop_description: Option<String>,
    /// From where the marker is called, innermost first; empty if it is no call of MPI.
    pub marker_path: Vec<CallFrame>,
    /// The loop whose passes count iterations.
    pub main_loop: Option<LoopPlace>,
    /// The user's word about ranks or nodes.
    pub assumed: Option<Assumption>,
    /// Wall-clock time of the start, seconds since 1970; `None`: no rank began to record.
    pub started_unix_s: Option<f64>,
}

/// A linear map from ticks to wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnixTime {
    /// Seconds since 1970 at `at_ticks`.
    pub unix_s: f64,
    /// The tick at that moment.
    pub at_ticks: u64,
    /// Ticks per second.
    pub ticks_per_second: f64,
}

/// One measured function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionInfo {
    /// Name as users know it.
    pub name: String,
    /// Further functions that run the same code, whose calls are counted with these.
    pub other_names: Vec<String>,
    /// Its group.
    pub group: FunctionGroup,
    /// Calls were timed, not only counted.
    pub timed: bool,
    /// It moves payload.
    pub moves_bytes: bool,
    /// An argument was asked for.
    pub argument_asked: bool,
    /// It is no function but a loop, and its calls are passes.
    pub loop_place: Option<LoopPlace>,
}

/// One rank's recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankSample {
    /// World rank.
    pub rank: u32,
    /// Process id on `host`.
    pub pid: i32,
    /// Host name.
    pub host: String,
    /// Start of the recording, t1.
    pub first_ticks: u64,
    /// End of the recording, t2.
    pub last_ticks: u64,
    /// Entries of the anchor in the window, in order; empty: by time.
    pub marks: Vec<IterationMark>,
    /// The rank recorded to the window's end.
    pub complete: bool,
    /// Its iterations are passes of a thread that called no MPI, although another one did that goes through the same loop.
    pub counts_silent_thread: bool,
    /// One entry per function that was called.
    pub functions: Vec<FunctionSample>,
    /// Communication time of the main thread in the window.
    pub comm_ticks: u64,
    /// Other threads.
    pub threads: Vec<ThreadSample>,
    /// Time in outermost calls of each group but "comm".
    pub group_ticks: Vec<(FunctionGroup, u64)>,
    /// The messages it sent, by receiver.
    pub links: Vec<LinkSample>,
    /// Bytes whose receiver could not be named.
    pub unattributed_bytes: u64,
    /// Starts of persistent requests of which it is not known what they send.
    pub unknown_starts: u64,
    /// The system's counts of the process in the window; `None`: not read.
    pub usage: Option<Usage>,
    /// Counts of the counters in the window.
    pub counters: Vec<Counter>,
    /// The cost of reading them, on this rank.
    pub counter_cost: Option<CounterCost>,
    /// Pause to insert, microseconds.
    pub pause_insert_us: f64,
    /// Pause to remove, microseconds; `None`: not removed yet.
    pub pause_remove_us: Option<f64>,
    /// Pauses that fell inside the recording, microseconds.
    pub pause_inside_us: f64,
    /// Cost of one entry plus exit, nanoseconds; `None`: not calibrated.
    pub probe_ns: Option<f64>,
    /// Probes passed while recording, entries plus exits.
    pub probe_hits: u64,
    /// Of these, the ones whose islands counted by themselves, and what an entry plus an exit costs there, nanoseconds.
    pub inline_hits: u64,
    /// See above.
    pub inline_ns: f64,
    /// Points patched.
    pub points: u64,
    /// Calls kept as trace records.
    pub details: Vec<DetailSample>,
    /// Functions that should be timed and are only counted here.
    pub untimed: Vec<Untimed>,
    /// Functions that should be measured and whose calls are not seen here.
    pub unseen: Vec<Untimed>,
    /// Communication by the paths that it was called by.
    pub paths: Vec<PathSample>,
    /// Calls by their payload.
    pub sizes: Vec<SizeSample>,
    /// Its threads in parallel regions; `None`: not measured.
    pub team: Option<TeamSample>,
}

/// A function whose calls are seen and not where they end, or not seen at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untimed {
    /// Position in `WindowInput::functions`.
    pub function: usize,
    /// Why.
    pub reason: String,
    /// Its probes were taken out before the window's end: its bytes are not known either.
    pub is_out: bool,
    /// If so, since when: after this rank's window began, 0 before.
    pub out_after_us: u64,
}

/// One entry of the anchor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationMark {
    /// Clock at entry.
    pub ticks: u64,
    /// Communication time of that thread until then, since the start of the recording or any fixed moment before it.
    pub comm_ticks: u64,
}

/// One function on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSample {
    /// Position in `WindowInput::functions`.
    pub function: usize,
    /// Outermost calls that began in the window.
    pub calls: u64,
    /// Calls from inside another measured call of the group.
    pub nested: u64,
    /// Time inside, clipped to the window.
    pub ticks: u64,
    /// Payload.
    pub bytes: u64,
    /// Largest payload of one call.
    pub bytes_max: u64,
    /// Sum of the argument asked for.
    pub argument_sum: i64,
    /// Entry of the first call.
    pub first_ticks: u64,
    /// Entry of the last call.
    pub last_ticks: u64,
    /// Messages whose payload is not known.
    pub unknown_bytes: u64,
    /// Of the calls, those that polled and followed a call that polled at once.
    pub polled_on: u64,
}

/// A thread other than the main one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSample {
    /// Communication time of this thread in the window.
    pub comm_ticks: u64,
}

/// The traffic that one rank sent to another, or read from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSample {
    /// The other world rank.
    pub other: u32,
    /// The rank read it from the other one, which did nothing for it.
    pub is_from_other: bool,
    /// Logical messages of collectives, not point to point.
    pub is_collective: bool,
    /// Messages.
    pub messages: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The system's counts of one process in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode, all threads, seconds.
    pub cpu_user_s: f64,
    /// CPU time in the kernel, all threads, seconds.
    pub cpu_system_s: f64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
}

/// One call kept as a trace record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailSample {
    /// Thread in order of appearance, 0 the main one.
    pub thread: u32,
    /// Position in `WindowInput::functions`.
    pub function: usize,
    /// Clock at entry.
    pub enter_ticks: u64,
    /// Time inside; `None`: it did not return within the window.
    pub ticks: Option<u64>,
    /// First integer arguments.
    pub arguments: Vec<u64>,
}

impl UnixTime {
    /// Wall-clock time of a tick, seconds since 1970.
    pub fn at(&self, ticks: u64) -> f64 {
        let distance = i128::from(ticks) - i128::from(self.at_ticks);
        if self.ticks_per_second > 0.0 { self.unix_s + distance as f64 / self.ticks_per_second } else { self.unix_s }
    }
}

impl RankSample {
    pub(crate) fn duration_ticks(&self) -> u64 {
        self.last_ticks.saturating_sub(self.first_ticks)
    }

    /// Communication time of the thread that communicates longest, never more than the window.
    pub(crate) fn longest_comm_ticks(&self) -> u64 {
        let others = self.threads.iter().map(|thread| thread.comm_ticks).max().unwrap_or(0);
        self.comm_ticks.max(others).min(self.duration_ticks())
    }

    /// Communication time of all threads, each never more than the window.
    pub(crate) fn summed_comm_ticks(&self) -> u64 {
        let others = self.threads.iter().map(|thread| thread.comm_ticks);
        others.chain([self.comm_ticks]).map(|ticks| ticks.min(self.duration_ticks())).sum()
    }

    /// Threads that were in communication at all.
    pub(crate) fn communicating_threads(&self) -> u32 {
        let others = self.threads.iter().map(|thread| thread.comm_ticks);
        others.chain([self.comm_ticks]).filter(|ticks| *ticks > 0).count() as u32
    }

    /// Complete iterations recorded; `None`: by time.
    pub(crate) fn iterations(&self, is_by_time: bool) -> Option<u64> {
        (!is_by_time).then(|| (self.marks.len() as u64).saturating_sub(1))
    }
}

impl WindowInput {
    pub(crate) fn is_by_time(&self) -> bool {
        self.facts.marker.is_none()
    }

    /// True if communication took place whose time was not measured, or may have taken place unseen, so that its share is a lower bound.
    pub(crate) fn communicates_untimed(&self) -> bool {
        self.has_unmeasured_calls() || self.facts.communication_named_only && self.has_comm()
    }

    /// Functions of communication that were to be measured, and whose time is not known.
    pub(crate) fn has_unmeasured_calls(&self) -> bool {
        let is_unseen = |number: usize| {
            self.functions[number].timed
                && self.ranks.iter().any(|rank| rank.unseen.iter().any(|one| one.function == number))
        };
        let mut numbers =
            (0..self.functions.len()).filter(|number| self.functions[*number].group == FunctionGroup::Comm);
        numbers.any(|number| untimed_reason(self, number).is_some() || is_unseen(number))
    }

    /// Names of functions whose time was not measured although they were called, with the reason.
    pub(crate) fn untimed(&self) -> Vec<(&str, String)> {
        let reason = |(number, info)| Some((info, untimed_reason(self, number)?));
        let all = self
            .functions
            .iter()
            .enumerate()
            .filter_map(|(number, info): (usize, &FunctionInfo)| reason((number, info)));
        all.map(|(info, reason)| (info.name.as_str(), reason)).collect()
    }

    /// Names of functions whose payload is not known, with the reason.
    pub(crate) fn unknown_bytes(&self) -> Vec<(&str, String)> {
        let unknown = |number: usize| {
            let samples = self.ranks.iter().flat_map(|rank| &rank.functions);
            samples.filter(|sample| sample.function == number).map(|sample| sample.unknown_bytes).sum()
        };
        let named = |(number, info)| Some((info, bytes_missing(info, unknown(number))?));
        let all = self
            .functions
            .iter()
            .enumerate()
            .filter_map(|(number, info): (usize, &FunctionInfo)| named((number, info)));
        all.map(|(info, reason)| (info.name.as_str(), reason)).collect()
    }

    /// True if communication was among what was measured.
    pub(crate) fn has_comm(&self) -> bool {
        self.functions.iter().any(|function| function.group == FunctionGroup::Comm && function.timed)
    }
}

/// Why the payload of a function is not known, of which `unknown` messages could not be counted.
pub(crate) fn bytes_missing(info: &FunctionInfo, unknown: u64) -> Option<String> {
    (info.moves_bytes && unknown > 0).then(|| {
        format!(
            "{unknown} of its messages are of requests that the program made before trimtab came or of persistent \
             collectives, or of a datatype, communicator or topology that the library can't be asked about"
        )
    })
}

/// Why the time of a function was not measured on a rank that called it.
pub(crate) fn untimed_reason(input: &WindowInput, number: usize) -> Option<String> {
    let called = |rank: &RankSample| rank.functions.iter().any(|sample| sample.function == number);
    let untimed = input.ranks.iter().filter(|rank| called(rank)).flat_map(|rank| &rank.untimed);
    untimed.filter(|untimed| untimed.function == number).map(|untimed| untimed.reason.clone()).next()
}

/// Why nothing is known of a function from some moment of the window on.
pub(crate) fn out_reason(input: &WindowInput, number: usize) -> Option<String> {
    out_of(input, number).next().map(|out| out.reason.clone())
}

/// The function on each rank where its probes were taken out.
pub(crate) fn out_of(input: &WindowInput, number: usize) -> impl Iterator<Item = &Untimed> {
    input.ranks.iter().flat_map(|rank| &rank.unseen).filter(move |one| one.is_out && one.function == number)
}

/// The calls of one function by one path, on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSample {
    /// Position in `WindowInput::functions`.
    pub function: usize,
    /// The path, as a hash that is the same on all ranks.
    pub path: u64,
    /// Outermost calls that began in the window.
    pub calls: u64,
    /// Time inside, clipped to the window.
    pub ticks: u64,
    /// Payload.
    pub bytes: u64,
}

/// The calls of one function whose payload lies between two sizes, on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeSample {
    /// Position in `WindowInput::functions`.
    pub function: usize,
    /// 0: calls without payload; n: from 2 to the power n - 1 to below the next.
    pub class: u32,
    /// True for the last class, which has no upper end.
    pub is_last: bool,
    /// Calls.
    pub calls: u64,
    /// Their payload.
    pub bytes: u64,
}

/// A path as people read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedPath {
    /// As [`PathSample::path`].
    pub path: u64,
    /// Its calls, innermost first.
    pub frames: Vec<CallFrame>,
    /// It goes on, but that was not known yet when the calls were made.
    pub is_cut: bool,
}

/// The threads of one rank in parallel regions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamSample {
    /// One for each function that is a region, or that began regions of which no more was seen.
    pub regions: Vec<RegionSample>,
    /// Time in regions of which it was not seen what threads did.
    pub unseen_ticks: u64,
    /// Regions that began while another thread had one run.
    pub mixed: u64,
    /// Regions inside of regions.
    pub nested: u64,
    /// Regions, their functions or waits that were left by an exception.
    pub lost: u64,
    /// Barriers of threads that were not seen to enter a region.
    pub stray: u64,
    /// Threads that took part in regions.
    pub threads_met: u64,
    /// All regions were begun by the thread that calls MPI.
    pub is_of_main: bool,
}

/// The regions of one function on one rank. Times are in ticks; those of threads are sums over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionSample {
    /// Position in `WindowInput::functions`.
    pub function: usize,
    /// From where it was begun, as `NamedPath::path`.
    pub path: u64,
    /// Regions.
    pub passes: u64,
    /// Time until all threads were done.
    pub ticks: u64,
    /// The same times the threads of each.
    pub thread_ticks: u64,
    /// Of each, the longest time of a thread outside of waits, times the threads.
    pub longest_ticks: u64,
    /// Time outside of waits.
    pub busy: u64,
    /// Of that, in MPI.
    pub comm: u64,
    /// Of that, of the thread that began the region.
    pub comm_of_master: u64,
    /// Time in barriers.
    pub barrier: u64,
    /// Time until locks were free.
    pub lock: u64,
    /// Time until tasks were done.
    pub task: u64,
    /// Threads of the smallest team; 0: none was seen.
    pub threads_min: u64,
    /// Threads of the largest team.
    pub threads_max: u64,
    /// Of all regions together, the longest time of a thread outside of waits.
    pub own_busy_max: u64,
    /// Threads with such a time.
    pub own_threads: u32,
}
