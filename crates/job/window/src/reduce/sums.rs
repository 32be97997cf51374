//! The figures of a window of some ranks as one value: what a large job's nodes send up instead of each rank's recording.
//!
//! [`Seen`] is what must be known of all ranks before their recordings are cut and counted alike, [`Sums`] is nearly all of a
//! report, and [`Beside`] sets ranks beside the ends that only then are known. All merge in any order and grouping.
//!
//! Next: `report`, which makes a report of them.

use super::runs::{MeanShare, OfRank, Runs, Times};
use super::steps::Steps;
use crate::assemble::{Scale, communication_share_without_cost, cost_fraction, cpu_s};
use crate::crowd::Crowds;
use crate::explain::HostTimes;
use crate::fold::{fold, folded};
use crate::in_common::{self, CutSeen};
use crate::input::{FunctionInfo, NamedPath, RankSample};
use crate::paths::{self, Row};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_types::report::{LoopPlace, NodeShare};

/// Different numbers of iterations that are told apart, at each end: more are a window that is not valid anyway.
const COUNTS_KEPT: usize = 8;
/// Warnings of nodes that are kept.
const WARNINGS_KEPT: usize = 32;
/// Longest warning, bytes.
const WARNING_BYTES_MAX: usize = 4096;
/// No job has more ranks.
pub const RANKS_MAX: u32 = 1 << 28;

/// Two values of the same ranks, or of different questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmergeable(pub &'static str);

/// The window that recordings belong to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfWindow {
    /// Iterations that all ranks are cut to, where they ended at different places.
    pub cut_to: Option<u64>,
    /// The loop whose passes count iterations.
    pub main_loop: Option<LoopPlace>,
    /// Ticks of the lead's clock in a second.
    pub ticks_per_second: f64,
    /// It is counted in iterations.
    pub by_iterations: bool,
}

/// The common part of all ranks' recordings, before anything is summed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    ranks: Runs,
    /// Iterations of the rank with fewest.
    iterations_min: Option<u64>,
    cut: Option<CutSeen>,
}

impl Seen {
    /// Of these ranks, whose times are on the lead's clock.
    pub fn of(ranks: &[RankSample], functions: &[FunctionInfo], window: &OfWindow) -> Seen {
        let mut all = Seen::default();
        for rank in ranks {
            all.ranks.merge(&Runs::one(rank.rank));
            all.iterations_min = least(all.iterations_min, rank.iterations(!window.by_iterations));
        }
        all.cut = window.cut_to.map(|iterations| CutSeen::of(ranks, functions, iterations, window.main_loop.as_ref()));
        all
    }

    /// With other ranks.
    ///
    /// # Errors
    /// They share a rank.
    pub fn merge(&mut self, other: Seen) -> Result<(), Unmergeable> {
        apart(&self.ranks, &other.ranks)?;
        self.ranks.merge(&other.ranks);
        self.iterations_min = least(self.iterations_min, other.iterations_min);
        self.cut = match (self.cut.take(), other.cut) {
            (Some(one), Some(other)) => Some(one.with(other)),
            (one, other) => one.or(other),
        };
        Ok(())
    }

    /// True if it can be of this many ranks.
    pub fn is_sound(&self) -> bool {
        self.ranks.is_sound(RANKS_MAX)
    }

    /// Ranks in it.
    pub fn rank_count(&self) -> u64 {
        self.ranks.count()
    }

    /// Iterations that all of them have whole, once they are cut.
    pub fn shared_iterations(&self, window: &OfWindow) -> u64 {
        let cut_to = window.cut_to.filter(|iterations| self.cut.as_ref().is_some_and(|cut| cut.may_be(*iterations)));
        cut_to.or(self.iterations_min).unwrap_or(0)
    }

    pub(crate) fn cut(&self) -> Option<&CutSeen> {
        self.cut.as_ref()
    }
}

/// Cuts these ranks as all of a job are cut of which this was seen; iterations that are whole on all of them afterwards.
pub fn cut_alike(ranks: &mut [RankSample], functions: &[FunctionInfo], window: &OfWindow, seen: &Seen) -> u64 {
    if let Some((iterations, cut)) = window.cut_to.zip(seen.cut()) {
        in_common::apply(ranks, functions, (iterations, window.main_loop.as_ref()), cut);
    }
    seen.shared_iterations(window)
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

fn apart(one: &Runs, other: &Runs) -> Result<(), Unmergeable> {
    if one.has_common(other) { Err(Unmergeable("two values of the same rank")) } else { Ok(()) }
}

/// A number that one rank may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Largest {
    pub most: Option<f64>,
    pub is_lacking: bool,
}

impl Largest {
    fn of(number: Option<f64>) -> Largest {
        Largest { most: number, is_lacking: number.is_none() }
    }

    fn merge(&mut self, other: Largest) {
        self.most = self.most.into_iter().chain(other.most).max_by(f64::total_cmp);
        self.is_lacking |= other.is_lacking;
    }

    /// `None`: it is not known of each.
    pub(crate) fn of_all(&self) -> Option<f64> {
        self.most.filter(|_| !self.is_lacking)
    }
}

/// A function over ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OfFunction {
    pub times: Times,
    pub calls: (u64, u64),
    bytes: (u64, u64),
    /// Its lowest rank, with its calls and bytes.
    first: (u32, u64, u64),
    /// Most calls of a rank by one path.
    pub path_calls_max: u64,
}

impl OfFunction {
    fn merge(&mut self, other: &OfFunction) {
        self.times.merge(&other.times);
        let ends = |one: (u64, u64), other: (u64, u64)| (one.0.min(other.0), one.1.max(other.1));
        self.calls = ends(self.calls, other.calls);
        self.bytes = ends(self.bytes, other.bytes);
        self.first = self.first.min(other.first);
        self.path_calls_max = self.path_calls_max.max(other.path_calls_max);
    }

    /// True if each rank has about as many calls and bytes as the lowest.
    fn is_alike(&self, same: fn(u64, u64) -> bool) -> bool {
        let (_, calls, bytes) = self.first;
        same(calls, self.calls.0) && same(calls, self.calls.1) && same(bytes, self.bytes.0) && same(bytes, self.bytes.1)
    }
}

/// The figures of a window of some ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    pub(crate) ranks: Runs,
    pub(crate) incomplete: Runs,
    /// Ranks whose passes are those of a thread that calls no MPI, where another one does.
    pub(crate) silent: Runs,
    /// Ranks by their number of iterations.
    pub(crate) counts: BTreeMap<u64, Runs>,
    /// Its functions, payloads, groups and counts are sums over ranks; no rank is like it.
    pub(crate) all: RankSample,
    pub(crate) functions: BTreeMap<usize, OfFunction>,
    pub(crate) rows: BTreeMap<(usize, Option<u64>), Row>,
    pub(crate) paths: BTreeMap<u64, NamedPath>,
    pub(crate) duration: Times,
    pub(crate) communication: Times,
    pub(crate) computation: Times,
    /// The rank that computes longest, and its communication, seconds.
    at_longest: Option<(OfRank, f64)>,
    pub(crate) steps: Steps,
    pub(crate) fraction: MeanShare,
    pub(crate) fraction_without: MeanShare,
    pub(crate) threads_share: MeanShare,
    pub(crate) threads_max: u32,
    /// Ranks of which several threads communicate, and those of which another than the main one does so longest.
    pub(crate) several: Runs,
    pub(crate) threaded: Runs,
    pub(crate) cost_fraction: Largest,
    pub(crate) probe_ns: Largest,
    pub(crate) pause_us_max: f64,
    pub(crate) pause_us_total: f64,
    pub(crate) points: u64,
    pub(crate) began_ticks: Option<u64>,
    pub(crate) hosts: BTreeMap<String, HostTimes>,
    pub(crate) machines: u64,
    pub(crate) crowds: Crowds,
    pub(crate) stopped: Runs,
    pub(crate) stopped_s_max: Option<f64>,
    pub(crate) warnings: BTreeSet<String>,
    pub(crate) warnings_are_cut: bool,
}

/// The rest of a node's answer that belongs to its ranks.
#[derive(Clone, Copy, Debug)]
pub struct OfNode<'a> {
    /// The measured functions.
    pub functions: &'a [FunctionInfo],
    /// The others on the machine.
    pub share: &'a NodeShare,
    /// The ranks' paths.
    pub paths: &'a [NamedPath],
    /// Warnings about its ranks.
    pub warnings: &'a [String],
}

impl Sums {
    /// The figures of a node's ranks, which were cut and have this many iterations in common.
    pub fn of(ranks: &[RankSample], node: OfNode<'_>, window: &OfWindow, iterations: u64) -> Sums {
        let mut all = Sums::default();
        for rank in ranks {
            all.add(&Sums::of_rank(rank, node, window, iterations));
        }
        all.paths = node.paths.iter().map(|path| (path.path, path.clone())).collect();
        all.machines = 1;
        all.crowds = Crowds::of(node.share);
        let told = node.warnings.iter().map(|warning| cut_text(warning));
        all.keep_warnings(told.collect());
        all
    }

    fn of_rank(rank: &RankSample, node: OfNode<'_>, window: &OfWindow, iterations: u64) -> Sums {
        let scale = Scale(window.ticks_per_second);
        let (number, duration) = (rank.rank, rank.duration_ticks());
        let communication = rank.longest_comm_ticks();
        let duration_s = scale.seconds(duration);
        let communication_s = scale.seconds(communication);
        let computation_s = duration_s - communication_s;
        let host = HostTimes::of(&rank.host, computation_s, cpu_s(rank, duration_s));
        let stopped_s = crate::computation::stopped_s(&node.share.places, number);
        let busy = rank.communicating_threads();
        let is_threaded = rank.threads.iter().any(|thread| thread.comm_ticks > rank.comm_ticks);
        let pause = rank.pause_remove_us.unwrap_or(0.0);
        let threads_share = scale.seconds(rank.summed_comm_ticks()) / duration_s;
        let count = rank.iterations(!window.by_iterations);
        Sums {
            ranks: Runs::one(number),
            incomplete: Runs::of(number, !rank.complete),
            silent: Runs::of(number, rank.counts_silent_thread),
            counts: count.map(|count| (count, Runs::one(number))).into_iter().collect(),
            all: folded(rank),
            functions: functions(rank, scale),
            rows: paths::rows_of(rank, node.functions, node.paths),
            duration: Times::of(number, duration, duration_s),
            communication: Times::of(number, communication, communication_s),
            computation: Times::of(number, duration.saturating_sub(communication), computation_s),
            at_longest: Some((OfRank { number: computation_s, rank: number }, communication_s)),
            steps: if window.by_iterations { Steps::of(rank, iterations) } else { Steps::default() },
            fraction: MeanShare::of(crate::formulas::communication_fraction(communication_s, duration_s)),
            fraction_without: MeanShare::of(communication_share_without_cost(rank, scale)),
            threads_share: MeanShare::of(Some(threads_share.min(1.0)).filter(|_| threads_share.is_finite())),
            threads_max: busy,
            several: Runs::of(number, busy > 1),
            threaded: Runs::of(number, is_threaded),
            cost_fraction: Largest::of(cost_fraction(rank, scale)),
            probe_ns: Largest::of(rank.probe_ns),
            pause_us_max: rank.pause_insert_us.max(pause),
            pause_us_total: rank.pause_insert_us + pause,
            points: rank.points,
            began_ticks: Some(rank.first_ticks).filter(|first| *first > 0),
            hosts: [(rank.host.clone(), host)].into(),
            stopped: Runs::of(number, stopped_s.is_some_and(|seconds| seconds > 0.0)),
            stopped_s_max: stopped_s,
            ..Sums::default()
        }
    }

    /// With other ranks.
    ///
    /// # Errors
    /// They share a rank.
    pub fn merge(&mut self, other: &Sums) -> Result<(), Unmergeable> {
        apart(&self.ranks, &other.ranks)?;
        self.add(other);
        Ok(())
    }

    fn add(&mut self, other: &Sums) {
        for (one, other) in [
            (&mut self.ranks, &other.ranks),
            (&mut self.incomplete, &other.incomplete),
            (&mut self.silent, &other.silent),
            (&mut self.several, &other.several),
            (&mut self.threaded, &other.threaded),
            (&mut self.stopped, &other.stopped),
        ] {
            one.merge(other);
        }
        each(&mut self.counts, &other.counts, Runs::merge);
        self.keep_counts();
        fold(&mut self.all, &other.all);
        each(&mut self.functions, &other.functions, OfFunction::merge);
        each(&mut self.rows, &other.rows, Row::merge);
        each(&mut self.paths, &other.paths, |one, other| {
            if other.key() < one.key() {
                one.clone_from(other);
            }
        });
        each(&mut self.hosts, &other.hosts, HostTimes::merge);
        for (one, other) in [
            (&mut self.duration, &other.duration),
            (&mut self.communication, &other.communication),
            (&mut self.computation, &other.computation),
        ] {
            one.merge(other);
        }
        let both = self.at_longest.into_iter().chain(other.at_longest);
        self.at_longest = both.min_by(|one, other| one.0.descending(&other.0));
        self.steps.merge(&other.steps);
        self.fraction.merge(other.fraction);
        self.fraction_without.merge(other.fraction_without);
        self.threads_share.merge(other.threads_share);
        self.threads_max = self.threads_max.max(other.threads_max);
        self.cost_fraction.merge(other.cost_fraction);
        self.probe_ns.merge(other.probe_ns);
        self.pause_us_max = self.pause_us_max.max(other.pause_us_max);
        self.pause_us_total = self.pause_us_total.max(other.pause_us_total);
        self.points = self.points.max(other.points);
        self.began_ticks = least(self.began_ticks, other.began_ticks);
        self.machines = self.machines.saturating_add(other.machines);
        self.crowds.merge(&other.crowds);
        self.stopped_s_max = self.stopped_s_max.into_iter().chain(other.stopped_s_max).max_by(f64::total_cmp);
        self.warnings_are_cut |= other.warnings_are_cut;
        self.keep_warnings(other.warnings.clone());
    }

    fn keep_counts(&mut self) {
        while self.counts.len() > 2 * COUNTS_KEPT {
            let middle = self.counts.keys().nth(COUNTS_KEPT).copied();
            middle.map(|count| self.counts.remove(&count));
        }
    }

    fn keep_warnings(&mut self, more: BTreeSet<String>) {
        self.warnings.extend(more);
        while self.warnings.len() > WARNINGS_KEPT {
            self.warnings.pop_last();
            self.warnings_are_cut = true;
        }
    }

    /// True if bytes of another node can be such figures.
    pub fn is_sound(&self) -> bool {
        let runs = [&self.ranks, &self.incomplete, &self.silent, &self.several, &self.threaded, &self.stopped];
        let times = [&self.duration, &self.communication, &self.computation];
        let of_functions = self.functions.values().map(|of| &of.times);
        runs.into_iter().chain(self.counts.values()).all(|runs| runs.is_sound(RANKS_MAX))
            && times.into_iter().chain(of_functions).all(Times::is_sound)
            && self.steps.is_sound()
            && self.counts.len() <= 2 * COUNTS_KEPT
            && self.warnings.len() <= WARNINGS_KEPT
    }

    /// Ranks in it.
    pub fn rank_count(&self) -> u64 {
        self.ranks.count()
    }

    /// When the first of them began to record, in ticks of the lead's clock; `None`: none did.
    pub fn began_ticks(&self) -> Option<u64> {
        self.began_ticks
    }

    /// Most calls of one rank by one path, of each function by its position.
    pub fn path_calls(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let all = self.functions.iter().map(|(function, of)| (*function, of.path_calls_max));
        all.filter(|(_, calls)| *calls > 0)
    }

    /// The ranks that stand out: those that compute longest and shortest, or recorded longest and shortest where
    /// computation is not known, and the lowest. Ascending.
    pub fn standing_out(&self) -> Vec<u32> {
        let by = if self.has_communication() { &self.computation } else { &self.duration };
        let ends = by.longest().iter().chain(by.shortest()).map(|of| of.rank);
        let lowest = self.ranks.ranks().first().copied();
        ends.chain(lowest).collect::<BTreeSet<u32>>().into_iter().collect()
    }

    /// The ends that ranks are set beside.
    pub fn ends(&self) -> Ends {
        let first = |ends: &[OfRank]| ends.first().map_or(0.0, |of| of.number);
        Ends {
            longest_s: first(self.computation.longest()),
            shortest_s: first(self.computation.shortest()),
            communication_s: self.at_longest.map_or(0.0, |(_, communication_s)| communication_s),
        }
    }

    fn has_communication(&self) -> bool {
        self.communication.longest().first().is_some_and(|of| of.number > 0.0)
    }

    /// Every rank makes the same calls and moves the same bytes.
    pub(crate) fn is_symmetric(&self, same: fn(u64, u64) -> bool) -> bool {
        let all = self.rank_count();
        !self.functions.is_empty() && self.functions.values().all(|of| of.times.ranks() == all && of.is_alike(same))
    }
}

impl NamedPath {
    fn key(&self) -> String {
        format!("{self:?}")
    }
}

fn cut_text(text: &str) -> String {
    let end = (0..=text.len().min(WARNING_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

/// Merges values of the same key.
fn each<K: Ord + Clone, V: Clone>(into: &mut BTreeMap<K, V>, other: &BTreeMap<K, V>, merge: impl Fn(&mut V, &V)) {
    for (key, value) in other {
        match into.get_mut(key) {
            Some(known) => merge(known, value),
            None => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

fn functions(rank: &RankSample, scale: Scale) -> BTreeMap<usize, OfFunction> {
    let mut sums: BTreeMap<usize, (u64, u64, u64)> = BTreeMap::new();
    // A rank that did not call it is none of those that did.
    for sample in rank.functions.iter().filter(|sample| sample.calls + sample.nested > 0) {
        let (calls, bytes, ticks) = sums.entry(sample.function).or_default();
        (*calls, *bytes, *ticks) = (*calls + sample.calls, *bytes + sample.bytes, *ticks + sample.ticks);
    }
    let most = |function: usize| {
        let paths = rank.paths.iter().filter(|path| path.function == function);
        paths.map(|path| path.calls).max().unwrap_or(0)
    };
    let of = |(function, (calls, bytes, ticks))| {
        let of = OfFunction {
            times: Times::of(rank.rank, ticks, scale.seconds(ticks)),
            calls: (calls, calls),
            bytes: (bytes, bytes),
            first: (rank.rank, calls, bytes),
            path_calls_max: most(function),
        };
        (function, of)
    };
    sums.into_iter().map(of).collect()
}

/// The classes of a histogram of computation.
pub(crate) const CLASSES: usize = 16;

/// The ends that other ranks are set beside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ends {
    /// Longest computation of a rank, seconds.
    pub longest_s: f64,
    /// Shortest, seconds.
    pub shortest_s: f64,
    /// Communication of the rank that computes longest, seconds.
    pub communication_s: f64,
}

/// Ranks beside those ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    ranks: Runs,
    /// Ranks that compute nearly as long as the longest.
    pub(crate) longest: u64,
    /// Ranks that compute less and do not communicate more.
    pub(crate) not_waiting: u64,
    pub(crate) classes: Vec<u64>,
}

impl Beside {
    /// These ranks, which were cut.
    pub fn of(ranks: &[RankSample], window: &OfWindow, ends: &Ends) -> Beside {
        let scale = Scale(window.ticks_per_second);
        let mut all = Beside { classes: vec![0; CLASSES], ..Beside::default() };
        for rank in ranks {
            let communication_s = scale.seconds(rank.longest_comm_ticks());
            let computation_s = scale.seconds(rank.duration_ticks()) - communication_s;
            let is_long = computation_s * crate::explain::BALANCED_RATIO_MAX >= ends.longest_s;
            let part = (computation_s - ends.shortest_s) / (ends.longest_s - ends.shortest_s);
            all.classes[((part * CLASSES as f64) as usize).min(CLASSES - 1)] += 1;
            all.ranks.merge(&Runs::one(rank.rank));
            all.longest += u64::from(is_long);
            all.not_waiting += u64::from(!is_long && communication_s <= ends.communication_s);
        }
        all
    }

    /// With other ranks.
    ///
    /// # Errors
    /// They share a rank.
    pub fn merge(&mut self, other: &Beside) -> Result<(), Unmergeable> {
        apart(&self.ranks, &other.ranks)?;
        self.ranks.merge(&other.ranks);
        self.longest = self.longest.saturating_add(other.longest);
        self.not_waiting = self.not_waiting.saturating_add(other.not_waiting);
        self.classes.resize(CLASSES, 0);
        self.classes.iter_mut().zip(&other.classes).for_each(|(one, other)| *one = one.saturating_add(*other));
        Ok(())
    }

    /// True if bytes of another node can be this.
    pub fn is_sound(&self) -> bool {
        self.ranks.is_sound(RANKS_MAX) && (self.classes.is_empty() || self.classes.len() == CLASSES)
    }
}

/// Places of the ranks that stand out, and everything else of a machine that is not a list of its ranks.
pub fn share_of(share: &NodeShare, ranks: &[u32]) -> NodeShare {
    let places = share.places.iter().filter(|place| ranks.contains(&place.rank)).cloned().collect();
    NodeShare { places, ..share.clone() }
}
