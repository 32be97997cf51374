//! Why do some ranks compute longer than others: more work, a slower node, or no processor?
//!
//! From outside, more work and a slower processor look alike. The facts that tell them apart were recorded beside the
//! times: the processor time says whether a rank could run at all; counts of calls, which no processor changes, say
//! whether ranks did the same. Where neither decides, that is the answer, with what would decide it.
//!
//! Next: `headline`, which says it in a sentence.

use crate::assumed::{by_assumption, by_instructions, contradicts, kept_from_processors, relative};
use crate::computation::{
    EXPLAINED_SHARE_MIN, Explained, MUCH_SLEEP, PROPORTION_TOLERANCE, STARVED_COMPUTATION_SHARE, asleep, computation_s,
    extremes, is_displaced, slept_s, stopped_s,
};
use crate::crowd;
use crate::input::{FunctionSample, RankSample, WindowInput};
use crate::reduce::{fixed, unfixed};
use crate::statistics;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_types::report::{
    Assumption, Cause, Closeness, Difference, FunctionGroup, Limit, Neighbour, NeighbourKind, NodeShare, RankPlace,
    RankTotal,
};

/// Computation times within this of each other are balanced, whatever the noise.
pub(crate) const BALANCED_RATIO_MAX: f64 = 1.1;

/// A difference must be this many standard errors of the ranks' computation to be called one.
const STANDARD_ERRORS_MIN: f64 = 3.0;

/// Share of its time below which a rank was kept from its processor; of its computation if it computed longest, see
/// [`STARVED_COMPUTATION_SHARE`].
const STARVED_SHARE: f64 = 0.8;

/// Counts are the same if they differ by no more than this share.
const SAME_SHARE: f64 = 0.01;

/// Share of the window from which throttling by a control group, or time stolen by the host, is what keeps a rank from
/// its processor.
const KEPT_SHARE_MIN: f64 = 0.05;

/// Clock rates that differ by the ratio of computation times, within this share of it, explain these.
const RATE_TOLERANCE: f64 = 0.1;

/// Ranks of a node from which its speed is told from that of one rank.
const RANKS_OF_NODE_MIN: u64 = 2;

/// The difference in computation against the noise of the two ranks' own iterations; true without iterations to judge.
/// Older reports do not know how computation varies: whole iterations stand for it, which vary more, since all ranks wait
/// for the one that was held up.
pub(crate) fn is_significant(longest: &RankTotal, shortest: &RankTotal) -> bool {
    let error =
        |rank: &RankTotal| rank.computation_error_s.or_else(|| statistics::error_of_sum(&rank.iteration_times_s));
    let (Some(a), Some(b)) = (error(longest), error(shortest)) else { return true };
    computation_s(longest) - computation_s(shortest) >= STANDARD_ERRORS_MIN * a.hypot(b)
}

/// Why the ranks compute differently long; `None`: they do not, or not more than their iterations vary.
pub(crate) fn difference(input: &WindowInput, ranks: &[RankTotal], whole: &Whole) -> Option<Difference> {
    let (longest, shortest) = extremes(ranks).filter(|_| input.has_comm())?;
    if computation_s(shortest) <= 0.0 {
        return None;
    }
    let ratio = computation_s(longest) / computation_s(shortest);
    if ratio <= BALANCED_RATIO_MAX || !is_significant(longest, shortest) {
        return None;
    }
    let (cause, because) = by_processor(input, longest, shortest)
        .or_else(|| by_counts(input, longest, shortest, ratio))
        .or_else(|| by_instructions(&input.nodes, longest, shortest, ratio))
        .or_else(|| by_clock_rate(input, (longest, shortest), ratio, whole))
        .or_else(|| by_nodes(whole))
        .map(|(cause, because)| (cause, unless_contradicted(input, cause, because)))
        .or_else(|| by_sleep(&input.nodes, longest))
        .or_else(|| by_assumption(input, ranks, (longest, shortest)))
        .unwrap_or_else(|| (Cause::Undetermined, undetermined(input, longest, shortest)));
    let is_believed = |assumed: &Assumption| {
        contradicts(*assumed, cause).is_none() && kept_from_processors(*assumed, &input.nodes, ranks).is_none()
    };
    let believed = input.facts.assumed.filter(is_believed);
    let (longest, shortest) = (longest.rank, shortest.rank);
    Some(Difference {
        longest,
        shortest,
        ratio,
        cause,
        because,
        assumed: input.facts.assumed,
        relative: believed.map_or_else(Vec::new, |assumed| relative(assumed, ranks)),
    })
}

/// States the measurement, and says if it contradicts the user's word.
fn unless_contradicted(input: &WindowInput, cause: Cause, because: String) -> String {
    match input.facts.assumed.and_then(|assumed| contradicts(assumed, cause)) {
        Some(contradiction) => format!("{because}; {contradiction}"),
        None => because,
    }
}

/// The rank was kept from its processor while the other was not; by whom, if that is known.
fn by_processor(input: &WindowInput, longest: &RankTotal, shortest: &RankTotal) -> Option<Explained> {
    let is_starved = |rank: &RankTotal| rank.cpu_s.is_some_and(|cpu| cpu < STARVED_SHARE * rank.duration_s);
    let cpu_s = longest.cpu_s.filter(|cpu| *cpu < computation_s(longest) * STARVED_COMPUTATION_SHARE)?;
    let is_cause = is_starved(longest) && !is_starved(shortest) && slept_s(&input.nodes, longest).is_none();
    let by_whom = kept_by(input, longest, shortest).map_or_else(String::new, |by_whom| format!("; {by_whom}"));
    is_cause.then(|| {
        (Cause::Processor, format!("it had a processor for {cpu_s:.2} s of {:.2} s{by_whom}", longest.duration_s))
    })
}

/// The others that kept a rank from its processor and not, or less, the other one.
fn kept_by(input: &WindowInput, longest: &RankTotal, shortest: &RankTotal) -> Option<String> {
    let node = node_of(input, longest)?;
    let stopped_s =
        |rank: &RankTotal| node_of(input, rank).and_then(|node| stopped_s(&node.places, rank.rank)).unwrap_or(0.0);
    if stopped_s(longest) > KEPT_SHARE_MIN * node.seconds && stopped_s(shortest) < stopped_s(longest) {
        return Some(format!("job control (SIGSTOP) held it for {:.1} s", stopped_s(longest)));
    }
    let throttled = |rank: &RankTotal| {
        let node = node_of(input, rank)?;
        let limits = node.limits.iter().filter(|limit| limit.ranks.contains(&rank.rank));
        let by_time = |a: &&Limit, b: &&Limit| a.throttled_s.unwrap_or(0.0).total_cmp(&b.throttled_s.unwrap_or(0.0));
        let most = limits.max_by(by_time)?;
        most.throttled_s.filter(|seconds| *seconds > KEPT_SHARE_MIN * node.seconds).map(|seconds| (most, seconds))
    };
    if let Some((limit, seconds)) = throttled(longest)
        && throttled(shortest).is_none_or(|(_, other)| other < seconds)
    {
        let processors = limit.processors.map_or_else(String::new, |some| format!(" of {some:.2} processors"));
        return Some(format!("its control group {} had used up its quota{processors} for {seconds:.2} s", limit.group));
    }
    let stolen = |rank: &RankTotal| node_of(input, rank).and_then(|node| node.steal).unwrap_or(0.0);
    if longest.host != shortest.host && stolen(longest) > KEPT_SHARE_MIN && stolen(longest) > stolen(shortest) {
        return Some(format!("the host of {} gave {:.0}% of its time to others", node.host, stolen(longest) * 100.0));
    }
    let is_on_core = |one: &&Neighbour| {
        one.shares == Closeness::Core
            && one.with_ranks.contains(&longest.rank)
            && one.busy_processors >= Some(KEPT_SHARE_MIN)
    };
    let other = node.neighbours.iter().find(is_on_core).map(|other| {
        let (owner, busy) = (owner(other), other.busy_processors.unwrap_or(0.0) * 100.0);
        format!("{owner} ({}) ran on the same processors, {busy:.0}% of the time", other.program)
    });
    // The job's own ranks are nobody else.
    let own = crowd::of_rank(&input.nodes, longest).map(|crowd| format!("{} of the job itself", crowd::short(crowd)));
    let both: Vec<String> = own.into_iter().chain(other).collect();
    (!both.is_empty()).then(|| both.join("; and "))
}

fn owner(neighbour: &Neighbour) -> String {
    match neighbour.kind {
        NeighbourKind::Slurm => format!("Slurm job {}", neighbour.name),
        NeighbourKind::Mpi => format!("the MPI job of process {}", neighbour.name),
        NeighbourKind::User => format!("user {}", neighbour.name),
    }
}

fn node_of<'a>(input: &'a WindowInput, rank: &RankTotal) -> Option<&'a NodeShare> {
    input.nodes.iter().find(|node| node.host == rank.host)
}

/// The same work on processors whose clocks ran at different rates.
fn by_clock_rate(
    input: &WindowInput,
    (longest, shortest): (&RankTotal, &RankTotal),
    ratio: f64,
    whole: &Whole,
) -> Option<Explained> {
    let rate = |rank: &RankTotal| {
        let places = node_of(input, rank)?.places.iter();
        places.filter(|place: &&RankPlace| place.rank == rank.rank).find_map(|place| place.clock_mhz)
    };
    let (slow, fast) = (rate(longest)?, rate(shortest)?);
    let is_known = [longest, shortest]
        .iter()
        .all(|rank| rank.cpu_s.is_some_and(|cpu| cpu >= STARVED_COMPUTATION_SHARE * computation_s(rank)));
    let explains = slow > 0.0 && (fast / slow / ratio - 1.0).abs() <= RATE_TOLERANCE;
    (is_known && explains && whole.is_symmetric).then(|| {
        let ghz = |mhz: f64| mhz / 1e3;
        let (slow, fast) = (ghz(slow), ghz(fast));
        let because = format!(
            "all ranks make the same calls, and its processor ran at {slow:.2} GHz, that of rank {} at {fast:.2} GHz",
            shortest.rank
        );
        (Cause::Processor, because)
    })
}

/// A function of the program is called more often in the same proportion, in which the rank spends its time.
fn by_counts(input: &WindowInput, longest: &RankTotal, shortest: &RankTotal, ratio: f64) -> Option<Explained> {
    let sample = |rank: u32| input.ranks.iter().find(|sample| sample.rank == rank);
    let (long, short) = (sample(longest.rank)?, sample(shortest.rank)?);
    let calls = |sample: &RankSample, number: usize| {
        sample.functions.iter().find(|one| one.function == number).map_or(0, |one| one.calls + one.nested)
    };
    let is_in_proportion = |one: &&FunctionSample| {
        let (more, less) = (calls(long, one.function) as f64, calls(short, one.function) as f64);
        // Equal counts are within the tolerance of a small difference, and explain nothing of it.
        let is_more = more - less >= EXPLAINED_SHARE_MIN * (ratio - 1.0) * less;
        less > 0.0 && is_more && (more / less / ratio - 1.0).abs() <= PROPORTION_TOLERANCE
    };
    let is_own =
        |one: &&FunctionSample| input.functions.get(one.function).is_some_and(|info| info.group != FunctionGroup::Comm);
    let telling = long.functions.iter().filter(is_own).filter(is_in_proportion).max_by_key(|one| one.ticks)?;
    let (more, less) = (calls(long, telling.function), calls(short, telling.function));
    let name = &input.functions[telling.function].name;
    Some((Cause::Work, format!("it calls {name} {more} times, rank {} {less} times", shortest.rank)))
}

/// Facts of all ranks that tell why some compute longer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whole {
    /// Every rank makes the same calls and moves the same bytes.
    pub is_symmetric: bool,
    /// The ranks' computation by machine.
    pub hosts: BTreeMap<String, HostTimes>,
}

impl Whole {
    pub(crate) fn of(samples: &[RankSample], ranks: &[RankTotal]) -> Whole {
        let mut hosts: BTreeMap<String, HostTimes> = BTreeMap::new();
        for rank in ranks {
            let one = HostTimes::of(&rank.host, computation_s(rank), rank.cpu_s);
            hosts.entry(rank.host.clone()).and_modify(|known| known.merge(&one)).or_insert(one);
        }
        Whole { is_symmetric: is_symmetric(samples), hosts }
    }
}

/// The computation of a machine's ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostTimes {
    pub host: String,
    pub ranks: u64,
    /// Of all, [`fixed`].
    sum: i128,
    /// Of the one that computes shortest and of the one that computes longest, seconds.
    pub least_s: f64,
    pub most_s: f64,
    /// Each computed, and had a processor while it did.
    is_known: bool,
}

impl HostTimes {
    /// A rank's, with its processor time as far as a report tells it.
    pub(crate) fn of(host: &str, computation_s: f64, cpu_s: Option<f64>) -> HostTimes {
        let least_s = STARVED_COMPUTATION_SHARE * computation_s;
        let is_known = computation_s > 0.0 && cpu_s.is_some_and(|cpu| cpu >= least_s);
        let (least_s, most_s) = (computation_s, computation_s);
        HostTimes { host: host.to_owned(), ranks: 1, sum: fixed(computation_s), least_s, most_s, is_known }
    }

    pub(crate) fn merge(&mut self, other: &HostTimes) {
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.sum = self.sum.saturating_add(other.sum);
        self.least_s = self.least_s.min(other.least_s);
        self.most_s = self.most_s.max(other.most_s);
        self.is_known &= other.is_known;
    }

    /// Mean of its ranks, seconds.
    pub(crate) fn mean(&self) -> f64 {
        unfixed(self.sum) / self.ranks as f64
    }

    fn is_even(&self) -> bool {
        self.ranks >= RANKS_OF_NODE_MIN && self.is_known && self.most_s <= self.least_s * BALANCED_RATIO_MAX
    }
}

/// All ranks do the same calls with the same bytes, ranks of one node take alike, and nodes do not.
fn by_nodes(whole: &Whole) -> Option<Explained> {
    let hosts = &whole.hosts;
    if hosts.len() < 2 || !hosts.values().all(HostTimes::is_even) || !whole.is_symmetric {
        return None;
    }
    let by_mean = |a: &&HostTimes, b: &&HostTimes| a.mean().total_cmp(&b.mean());
    let (slowest, fastest) = (hosts.values().max_by(by_mean)?, hosts.values().min_by(by_mean)?);
    let ratio = slowest.mean() / fastest.mean();
    let because = format!(
        "all ranks make the same calls with the same bytes, and those of {} compute {ratio:.2}x as long as those of {}",
        slowest.host, fastest.host
    );
    (ratio > BALANCED_RATIO_MAX).then_some((Cause::Node, because))
}

/// Every rank makes the same calls and moves the same bytes.
fn is_symmetric(ranks: &[RankSample]) -> bool {
    let counts = |rank: &RankSample| {
        let mut counts: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        rank.functions.iter().for_each(|one| {
            let count = counts.entry(one.function).or_default();
            *count = (count.0 + one.calls, count.1 + one.bytes);
        });
        counts
    };
    let all: Vec<_> = ranks.iter().map(counts).collect();
    let Some(first) = all.first().filter(|first| !first.is_empty()) else { return false };
    let same = is_same_count;
    all.iter().all(|other| {
        other.len() == first.len()
            && first.iter().zip(other).all(|((one, a), (two, b))| one == two && same(a.0, b.0) && same(a.1, b.1))
    })
}

/// Two counts are the same as far as counts of ranks are.
pub(crate) fn is_same_count(a: u64, b: u64) -> bool {
    a.abs_diff(b) as f64 <= SAME_SHARE * a.max(b) as f64
}

/// It did not want to run for a good part of the time: nothing says whether that is work.
fn by_sleep(nodes: &[NodeShare], longest: &RankTotal) -> Option<Explained> {
    let slept_s = slept_s(nodes, longest).filter(|slept_s| *slept_s >= MUCH_SLEEP * computation_s(longest))?;
    Some((Cause::Undetermined, asleep(slept_s, longest)))
}

/// The facts that are known, and the measurement that would decide.
fn undetermined(input: &WindowInput, longest: &RankTotal, shortest: &RankTotal) -> String {
    if let Some(crowd) = crowd::of_rank(&input.nodes, longest) {
        return format!(
            "{}, so the times are also those of others on their processors; measure a run with a processor for each rank",
            crowd::short(crowd)
        );
    }
    if let Some(cpu_s) = longest.cpu_s.filter(|_| is_displaced(&input.nodes, longest)) {
        return format!(
            "it had a processor for at most {cpu_s:.2} s of the {:.2} s that it computed, so the times are also those of \
             others on its processor; measure again when nothing else runs there",
            computation_s(longest)
        );
    }
    let place = match longest.host == shortest.host {
        true => "both ran on one machine, whose processors may still differ",
        false => "they ran on different machines",
    };
    format!(
        "{place}, and nothing that was counted differs with the time; say --assume symmetric (all ranks have the same work) or \
         --assume homogeneous (all nodes are alike), or count --counters instructions or a function of the inner loop with \
         --function"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{FunctionInfo, UnixTime, WindowFacts};
    use trimtab_types::report::Counter;

    /// Computation of a rank in seconds, its processor time, its host, and calls of a function of the program.
    type Rank = (f64, f64, &'static str, u64);

    fn totals(ranks: &[Rank]) -> Vec<RankTotal> {
        let total = |(number, rank): (usize, &Rank)| total(number as u32, rank.0, rank.1, rank.2);
        ranks.iter().enumerate().map(total).collect()
    }

    fn total(rank: u32, computation_s: f64, cpu_s: f64, host: &str) -> RankTotal {
        RankTotal {
            rank,
            pid: 1,
            host: host.to_owned(),
            duration_s: 10.0,
            communication_s: Some(10.0 - computation_s),
            computation_s: Some(computation_s),
            computation_error_s: None,
            communication_threads: Some(1),
            communication_threads_s: Some(10.0 - computation_s),
            cpu_s: Some(cpu_s),
            cpu_user_s: None,
            cpu_system_s: None,
            iterations: None,
            time_per_iteration_s: None,
            iteration_times_s: Vec::new(),
            minor_faults: None,
            major_faults: None,
            voluntary_switches: None,
            involuntary_switches: None,
            group_s: Vec::new(),
            counters: Vec::new(),
            counter_cost: None,
            unattributed_bytes: Some(0),
            pause_insert_us: 0.0,
            pause_remove_us: None,
            probe_hits: 0,
        }
    }

    fn input(ranks: &[Rank]) -> WindowInput {
        let info =
            |name: &str, group| FunctionInfo { name: name.to_owned(), group, timed: true, ..FunctionInfo::default() };
        let sample = |(number, (.., calls)): (usize, &Rank)| RankSample {
            rank: number as u32,
            functions: vec![
                FunctionSample { function: 0, calls: 100, bytes: 800, ticks: 9, ..FunctionSample::default() },
                FunctionSample { function: 1, calls: *calls, ticks: 5, ..FunctionSample::default() },
            ],
            ..RankSample::default()
        };
        WindowInput {
            job: trimtab_types::report::Job {
                id: String::new(),
                program: String::new(),
                arguments: Vec::new(),
                ranks: ranks.len() as u32,
                mpi: String::new(),
                hosts: Vec::new(),
                builds: Vec::new(),
                started_unix_s: None,
            },
            facts: WindowFacts::default(),
            ticks_per_second: 1e9,
            functions: vec![info("MPI_Allreduce", FunctionGroup::Comm), info("cell", FunctionGroup::User)],
            ranks: ranks.iter().enumerate().map(sample).collect(),
            warnings: Vec::new(),
            command_to_first_record_s: None,
            unix_time: UnixTime::default(),
            waits: crate::waits::Waits::default(),
            nodes: Vec::new(),
            named_paths: Vec::new(),
        }
    }

    fn node(host: &str, places: Vec<RankPlace>) -> NodeShare {
        NodeShare { host: host.to_owned(), seconds: 10.0, places, ..NodeShare::default() }
    }

    fn told(input: &WindowInput, totals: &[RankTotal]) -> Option<Difference> {
        difference(input, totals, &Whole::of(&input.ranks, totals))
    }

    /// All ranks wait for the one that is held up, so their iterations vary together, and their computation may not.
    #[test]
    fn ranks_differ_by_how_computation_varies_not_iterations() {
        let times_s = vec![0.1, 0.5, 0.1, 0.4, 0.1, 0.6, 0.1, 0.3, 0.1, 0.5];
        let with = |rank, computation_s, computation_error_s| RankTotal {
            iteration_times_s: times_s.clone(),
            computation_error_s,
            ..total(rank, computation_s, computation_s, "a")
        };
        let rows = [
            ("steady computation", Some(0.02), 1.0, true),
            ("computation that varies", Some(0.3), 1.0, false),
            ("as good as alike", Some(0.02), 0.45, false),
            ("an older report", None, 1.0, false),
        ];
        for (name, error_s, longest_s, is_told) in rows {
            let (longest, shortest) = (with(0, longest_s, error_s), with(1, 0.4, error_s));
            assert_eq!(is_significant(&longest, &shortest), is_told, "{name}");
        }
    }

    #[test]
    fn who_kept_a_rank_from_its_processor_is_named() {
        let ranks = [(4.0, 10.0, "a", 50), (8.0, 4.0, "b", 50)];
        let limit = |throttled_s: f64| Limit {
            group: "/job".into(),
            ranks: vec![1],
            processors: Some(0.5),
            throttled_s: Some(throttled_s),
            ..Limit::default()
        };
        let neighbour = |shares: Closeness, rank: u32| Neighbour {
            kind: NeighbourKind::Slurm,
            name: "12.0".into(),
            program: "app".into(),
            busy_processors: Some(0.55),
            shares,
            with_ranks: vec![rank],
            ..Neighbour::default()
        };
        let rows = [
            (
                "throttled",
                NodeShare { limits: vec![limit(5.0)], ..node("b", vec![]) },
                "/job had used up its quota of 0.50",
            ),
            ("hardly throttled", NodeShare { limits: vec![limit(0.1)], ..node("b", vec![]) }, "of 10.00 s"),
            ("stolen", NodeShare { steal: Some(0.4), ..node("b", vec![]) }, "the host of b gave 40%"),
            (
                "a neighbour",
                NodeShare { neighbours: vec![neighbour(Closeness::Core, 1)], ..node("b", vec![]) },
                "Slurm job 12.0 (app) ran",
            ),
            (
                "a neighbour elsewhere",
                NodeShare { neighbours: vec![neighbour(Closeness::Cache, 1)], ..node("b", vec![]) },
                "of 10.00 s",
            ),
            (
                "one of another rank",
                NodeShare { neighbours: vec![neighbour(Closeness::Core, 0)], ..node("b", vec![]) },
                "of 10.00 s",
            ),
        ];
        for (name, share, because) in rows {
            let input = WindowInput { nodes: vec![node("a", vec![]), share], ..input(&ranks) };
            let found = told(&input, &totals(&ranks)).expect(name);
            assert_eq!(found.cause.word(), "processor", "{name}");
            let fits = found.because.contains(because) && (because != "of 10.00 s" || found.because.ends_with(because));
            assert!(fits, "{name}: {}", found.because);
        }
    }

    #[test]
    fn clock_rates_decide_where_they_fit() {
        let place = |rank: u32, mhz: f64| RankPlace { rank, clock_mhz: Some(mhz), ..RankPlace::default() };
        for (name, slow_mhz, calls, cause) in [
            ("half the rate", 1500.0, 50, "processor"),
            ("a little less", 2700.0, 50, "undetermined"),
            ("more work too", 1500.0, 100, "work"),
        ] {
            let ranks = [(4.0, 10.0, "a", 50), (8.0, 10.0, "a", calls)];
            let nodes = vec![node("a", vec![place(0, 3000.0), place(1, slow_mhz)])];
            let found = told(&WindowInput { nodes, ..input(&ranks) }, &totals(&ranks)).expect(name);
            assert_eq!(found.cause.word(), cause, "{name}: {}", found.because);
        }
    }

    /// Ranks of two machines whose computation times the window has, with instructions per iteration outside of communication.
    fn assumed(times_s: &[f64], instructions: &[f64], assumed: Option<Assumption>) -> Difference {
        let ranks: Vec<Rank> = times_s
            .iter()
            .enumerate()
            .map(|(rank, time)| (*time, 10.0, if rank < 2 { "a" } else { "b" }, 50))
            .collect();
        let mut totals = totals(&ranks);
        for (total, count) in totals.iter_mut().zip(instructions) {
            let counter = Counter { outside_communication: Some(*count), outside_iterations: 9, ..Counter::default() };
            total.counters.push(Counter { name: "instructions".to_owned(), ..counter });
        }
        let mut input = input(&ranks);
        // They send other amounts, so that nothing but the time tells.
        input.ranks[0].functions[0].bytes = 1;
        input.facts.assumed = assumed;
        told(&input, &totals).expect("a difference")
    }

    /// ScoPro, 8.4: table 5, where nodes 3 and 4 have twice the work, and table 3, where some nodes run at 2.4 instead of 2.0 GHz.
    #[test]
    fn the_word_of_the_user_decides_between_a_slower_node_and_more_work() {
        let table_5 = [5.681 - 2.970, 5.681 - 2.981, 5.681 - 0.423, 5.682 - 0.436];
        let unknown = assumed(&table_5, &[], None);
        assert_eq!((unknown.cause.word(), unknown.assumed, unknown.relative), ("undetermined", None, vec![]));
        assert!(unknown.because.contains("--assume"), "{}", unknown.because);
        let work = assumed(&table_5, &[], Some(Assumption::Homogeneous));
        assert_eq!((work.cause.word(), work.assumed.map(Assumption::word)), ("work", Some("homogeneous")));
        assert!(work.because.contains("assumed that all nodes are alike"), "{}", work.because);
        let shares: Vec<f64> = work.relative.iter().map(|one| one.relative).collect();
        let pairs = (shares[2] + shares[3]) / (shares[0] + shares[1]);
        assert!((pairs - 1.941).abs() < 1e-3 && (work.ratio - 1.947).abs() < 1e-3, "{pairs} {}", work.ratio);

        let table_3 = [5.77 - 2.22, 5.77 - 2.22, 5.77 - 1.47, 5.77 - 1.47];
        let node = assumed(&table_3, &[], Some(Assumption::Symmetric));
        assert_eq!(node.cause.word(), "node", "{}", node.because);
        let (fast, slow) = (node.relative[0].relative, node.relative[3].relative);
        assert!((fast / slow - 1.21).abs() < 5e-3, "{fast} {slow}");
    }

    /// Times of ranks that had no processor for a part of them are not those of their work, but they are their speed.
    #[test]
    fn work_is_not_told_of_ranks_that_were_kept_from_their_processors() {
        let ranks: [Rank; 2] = [(4.0, 3.0, "a", 50), (8.0, 4.0, "a", 50)];
        let of = |word| {
            let mut input = input(&ranks);
            input.ranks[0].functions[0].bytes = 1;
            input.facts.assumed = Some(word);
            told(&input, &totals(&ranks)).expect("a difference")
        };
        let work = of(Assumption::Homogeneous);
        assert_eq!((work.cause.word(), work.relative.len()), ("undetermined", 0), "{}", work.because);
        assert!(
            work.because.starts_with("rank 0 had a processor for at most 3.00 s of the 4.00 s"),
            "{}",
            work.because
        );
        let speed = of(Assumption::Symmetric);
        assert_eq!((speed.cause.word(), speed.relative.len()), ("processor", 2), "{}", speed.because);
    }

    #[test]
    fn instructions_decide_whatever_is_assumed() {
        let times = [4.0, 4.0, 8.0, 8.0];
        type Row = (&'static str, [f64; 4], Option<Assumption>, &'static str, &'static str);
        let rows: [Row; 8] = [
            ("twice as many", [1e9, 1e9, 2e9, 2e9], None, "work", "(2.00x)"),
            ("as many", [1e9, 1e9, 1.01e9, 1e9], None, "node", "takes 2.00x as long"),
            ("three times as many", [1e9, 1e9, 3e9, 3e9], None, "work", "(3.00x)"),
            ("half more", [1e9, 1e9, 1.5e9, 1.5e9], None, "work", "also takes longer for each"),
            ("a third more", [1e9, 1e9, 1.38e9, 1.38e9], None, "undetermined", "not all that differs"),
            ("work all the same", [1e9, 1e9, 2e9, 2e9], Some(Assumption::Symmetric), "work", "have not the same work"),
            ("a node all the same", [1e9, 1e9, 1e9, 1e9], Some(Assumption::Homogeneous), "node", "were not alike"),
            ("as it was said", [1e9, 1e9, 2e9, 2e9], Some(Assumption::Homogeneous), "work", "(2.00x)"),
        ];
        for (name, instructions, word, cause, because) in rows {
            let found = assumed(&times, &instructions, word);
            assert_eq!(found.cause.word(), cause, "{name}: {}", found.because);
            assert!(found.because.contains(because), "{name}: {}", found.because);
            let is_believed = word == Some(Assumption::Homogeneous) && cause == "work";
            assert_eq!(found.relative.is_empty(), !is_believed, "{name}");
        }
    }

    /// A rank that sleeps as its work wants no processor, so nobody keeps it from one.
    #[test]
    fn a_rank_that_sleeps_is_not_kept_from_its_processor() {
        let ranks = [(4.0, 10.0, "a", 50), (8.0, 4.0, "a", 50)];
        let of = |waited_s: Option<f64>, stopped_s: f64| {
            let place = |rank| RankPlace { rank, waited_s, stopped_s: Some(stopped_s), ..RankPlace::default() };
            let nodes = vec![node("a", vec![place(0), place(1)])];
            told(&WindowInput { nodes, ..input(&ranks) }, &totals(&ranks)).expect("they differ")
        };
        // It ran for 4 of 8 s.
        let rows = [
            ("asleep", Some(0.1), 0.0, "undetermined", "for at least 3.90 s of the 8.00 s that it computed it slept"),
            ("waiting", Some(3.9), 0.0, "processor", "4.00 s"),
            ("held", Some(0.1), 3.5, "processor", "4.00 s"),
            ("not known", None, 0.0, "processor", "4.00 s"),
        ];
        for (name, waited_s, stopped_s, cause, because) in rows {
            let found = of(waited_s, stopped_s);
            assert!(found.cause.word() == cause && found.because.contains(because), "{name}: {found:?}");
        }
    }

    #[test]
    fn causes() {
        let rows: [(&str, Vec<Rank>, Option<&str>, &str); 10] = [
            ("balanced", vec![(5.0, 10.0, "a", 50), (5.2, 10.0, "a", 50)], None, ""),
            ("kept from its processor", vec![(4.0, 10.0, "a", 50), (8.0, 4.0, "a", 50)], Some("processor"), "4.00 s"),
            (
                "both kept from it",
                vec![(4.4, 1.1, "a", 50), (4.9, 1.0, "a", 50)],
                Some("undetermined"),
                "at most 1.00 s of the 4.90 s",
            ),
            (
                "equal calls, little difference",
                vec![(4.4, 10.0, "a", 50), (4.9, 10.0, "a", 50)],
                Some("undetermined"),
                "one machine",
            ),
            ("calls in proportion", vec![(4.0, 10.0, "a", 50), (8.0, 10.0, "a", 98)], Some("work"), "98 times"),
            (
                "some more calls only",
                vec![(4.0, 10.0, "a", 50), (8.0, 10.0, "a", 60)],
                Some("undetermined"),
                "one machine",
            ),
            (
                "a slower node",
                vec![(4.0, 10.0, "a", 50), (4.1, 10.0, "a", 50), (5.0, 10.0, "b", 50), (4.9, 10.0, "b", 50)],
                Some("node"),
                "those of b compute 1.22x as long as those of a",
            ),
            (
                "a slow rank of a node",
                vec![(4.0, 10.0, "a", 50), (4.1, 10.0, "a", 50), (8.0, 10.0, "b", 50), (4.1, 10.0, "b", 50)],
                Some("undetermined"),
                "different machines",
            ),
            (
                "nodes that do not do the same",
                vec![(4.0, 10.0, "a", 50), (4.1, 10.0, "a", 50), (5.0, 10.0, "b", 55), (4.9, 10.0, "b", 55)],
                Some("work"),
                "cell 55 times",
            ),
            ("one rank each", vec![(4.0, 10.0, "a", 50), (8.0, 10.0, "b", 50)], Some("undetermined"), "--function"),
        ];
        for (name, ranks, cause, because) in rows {
            let found = told(&input(&ranks), &totals(&ranks));
            assert_eq!(found.as_ref().map(|found| found.cause.word()), cause, "{name}: {found:?}");
            let said = found.map_or_else(String::new, |found| found.because);
            assert!(said.contains(because), "{name}: {said}");
        }
    }
}
