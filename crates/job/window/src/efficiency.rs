//! POP's factors of parallel efficiency, of the ranks' times in a window.
//!
//! Load balance and communication efficiency are those that TALP prints, with a rank's time outside communication as
//! useful time. Communication efficiency is split by replaying nothing: where the waits of all calls are known, a rank's
//! time without waiting for messages to travel is its useful time and its waits, and the longest of the ranks is what is
//! left on a network that takes no time. The split is told only where nearly all communication is known to wait or not.
//!
//! Next: `assemble`, which puts them into the report; `waits` for the waits.

use crate::computation::{extremes, is_displaced, waited_share};
use crate::crowd;
use crate::explain::is_significant;
use crate::input::WindowInput;
use crate::remarks::is_glimpse;
use crate::waits::Waits;
use crate::words::name_ranks;
use std::collections::BTreeMap;
use trimtab_types::report::{Efficiencies, Factor, RankTotal, Window};

/// From this on a factor costs so little that nobody need work on it.
const GOOD: f64 = 0.95;
/// Share of a rank's time that may lie in calls of which nobody knows how much is waiting.
const UNKNOWN_SHARE_MAX: f64 = 0.01;
/// Part of its time that a rank wanted a processor and had none, from which on what its communication took says little of
/// messages.
const KEPT_SHARE_MAX: f64 = 0.05;

/// Why a window has no factors.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum NoFactors {
    #[error("the factors are those of all ranks, and {} recorded nothing", name_ranks(.0))]
    RanksMissing(Vec<u32>),
    #[error("the window is too short")]
    Glimpse,
    #[error("communication, or a part of it, was not measured")]
    NotMeasured,
    #[error("no rank computed in it")]
    NoComputation,
}

/// Why communication efficiency can't be split.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum NoTransfer {
    #[error("ranks were kept from their processors, and how much of that lies in communication is not known")]
    KeptFromProcessors,
    #[error("waits are told only of windows of iterations of which all calls of all ranks were kept")]
    NoWaits,
    #[error(
        "of calls that take up to {:.1}% of a rank's time nobody knows how much is waiting (those that complete what others \
         began, those that could not be matched with other ranks' calls, and those that wait no longer than clocks of two \
         ranks can tell)",
        share * 100.0
    )]
    UnknownWaiting { share: f64 },
    #[error("waits are told only where every rank's calls are brought together: --all-ranks")]
    Reduced,
}

/// The factors, or why there are none.
pub(crate) fn efficiencies(
    input: &WindowInput,
    ranks: &[RankTotal],
    window: &Window,
) -> Result<Efficiencies, NoFactors> {
    let useful_s = useful_s(input, ranks, window)?;
    let runtime_s = ranks.iter().map(|rank| rank.duration_s).fold(0.0, f64::max);
    let useful = Useful {
        runtime_s,
        largest_s: useful_s.iter().copied().fold(0.0, f64::max),
        mean_s: useful_s.iter().sum::<f64>() / useful_s.len() as f64,
        node_s: node_mean_s(ranks, &useful_s),
    };
    factors(&useful, || transfer(input, ranks, &useful_s, runtime_s), differ(ranks))
}

/// The ranks' time outside communication, seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Useful {
    /// The longest window of a rank.
    pub runtime_s: f64,
    /// The largest of a rank.
    pub largest_s: f64,
    /// Mean over ranks.
    pub mean_s: f64,
    /// Largest mean of a machine; `None`: there is one machine.
    pub node_s: Option<f64>,
}

/// The factors of these times; the ranks may not differ by more than their iterations vary.
pub(crate) fn factors(
    useful: &Useful,
    transfer: impl FnOnce() -> Result<f64, NoTransfer>,
    ranks_differ: bool,
) -> Result<Efficiencies, NoFactors> {
    let Useful { runtime_s, largest_s, mean_s, node_s } = *useful;
    if runtime_s <= 0.0 || largest_s <= 0.0 {
        return Err(NoFactors::NoComputation);
    }
    let communication = largest_s / runtime_s;
    let transfer = transfer();
    let found = Efficiencies {
        parallel: mean_s / runtime_s,
        load_balance: mean_s / largest_s,
        load_balance_within_nodes: node_s.map(|node_s| node_s / largest_s),
        load_balance_between_nodes: node_s.map(|node_s| mean_s / node_s),
        communication,
        // The waits are those of the iterations that rings still held, so their share may exceed the window's by a little.
        serialisation: transfer.as_ref().ok().map(|transfer| (communication / transfer).min(1.0)),
        transfer: transfer.as_ref().ok().copied(),
        transfer_missing: transfer.err().map(|why| why.to_string()),
        work_on_first: None,
    };
    Ok(Efficiencies { work_on_first: costliest(&found, ranks_differ), ..found })
}

/// The ranks' time outside communication.
fn useful_s(input: &WindowInput, ranks: &[RankTotal], window: &Window) -> Result<Vec<f64>, NoFactors> {
    let present: Vec<u32> = ranks.iter().map(|rank| rank.rank).collect();
    check(&present, input.job.ranks, window)?;
    ranks.iter().map(|rank| rank.computation_s).collect::<Option<_>>().ok_or(NoFactors::NotMeasured)
}

/// An error if a window of these ranks, ascending, of a job of so many has no factors.
pub(crate) fn check(present: &[u32], ranks_of_job: u32, window: &Window) -> Result<(), NoFactors> {
    let missing: Vec<u32> = (0..ranks_of_job).filter(|rank| present.binary_search(rank).is_err()).collect();
    match () {
        () if !missing.is_empty() => Err(NoFactors::RanksMissing(missing)),
        () if is_glimpse(window) => Err(NoFactors::Glimpse),
        () => Ok(()),
    }
}

/// Largest mean over a node's ranks; `None`: there is one node.
fn node_mean_s(ranks: &[RankTotal], useful_s: &[f64]) -> Option<f64> {
    let mut nodes: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (rank, useful_s) in ranks.iter().zip(useful_s) {
        nodes.entry(&rank.host).or_default().push(*useful_s);
    }
    let mean_s = |times_s: &Vec<f64>| times_s.iter().sum::<f64>() / times_s.len() as f64;
    (nodes.len() > 1).then(|| nodes.values().map(mean_s).fold(0.0, f64::max))
}

/// Share of the window that is left without the time that messages take.
fn transfer(input: &WindowInput, ranks: &[RankTotal], useful_s: &[f64], runtime_s: f64) -> Result<f64, NoTransfer> {
    let is_kept = |rank: &RankTotal| {
        let waited = waited_share(&input.nodes, rank).is_some_and(|share| share > KEPT_SHARE_MAX);
        waited || is_displaced(&input.nodes, rank) || crowd::of_rank(&input.nodes, rank).is_some()
    };
    if ranks.iter().any(is_kept) {
        return Err(NoTransfer::KeptFromProcessors);
    }
    let shares = ranks.iter().map(|rank| WaitShare::of(&input.waits, rank));
    let shares: Vec<WaitShare> = shares.collect::<Option<_>>().ok_or(NoTransfer::NoWaits)?;
    let unknown = shares.iter().map(|share| share.unknown).fold(0.0, f64::max);
    if unknown > UNKNOWN_SHARE_MAX {
        return Err(NoTransfer::UnknownWaiting { share: unknown });
    }
    let sums = ranks.iter().zip(useful_s).zip(&shares);
    let longest_s = sums.map(|((rank, useful_s), share)| useful_s + share.wait * rank.duration_s).fold(0.0, f64::max);
    Ok((longest_s / runtime_s).min(1.0))
}

/// Shares of a rank's time.
struct WaitShare {
    wait: f64,
    unknown: f64,
}

impl WaitShare {
    /// Communication that the matched calls don't show, and where clocks of several machines leave a wait open, is unknown.
    fn of(waits: &Waits, rank: &RankTotal) -> Option<Self> {
        let found = waits.ranks.iter().find(|found| found.rank == rank.rank)?;
        let share = |ticks: u64| ticks as f64 / found.duration_ticks as f64;
        let known = share(found.communication_ticks.saturating_sub(found.unknown_ticks));
        let communication = rank.communication_s? / rank.duration_s;
        let unclear = share(waits.sums.iter().map(|sum| sum.error_ticks).sum::<u64>() / waits.ranks.len() as u64);
        let unknown = (communication - known).max(0.0) + unclear;
        (found.duration_ticks > 0 && unknown.is_finite()).then(|| WaitShare { wait: share(found.wait_ticks), unknown })
    }
}

/// True if the ranks' computation differs by more than their iterations vary.
pub(crate) fn differ(ranks: &[RankTotal]) -> bool {
    extremes(ranks).is_some_and(|(longest, shortest)| is_significant(longest, shortest))
}

/// The smallest of the factors that are known, as finely as they are; that of balance only if the ranks differ.
fn costliest(found: &Efficiencies, ranks_differ: bool) -> Option<Factor> {
    let split = |whole: (f64, Factor), parts: [(Option<f64>, Factor); 2]| match parts {
        [(Some(one), name), (Some(other), other_name)] => vec![(one, name), (other, other_name)],
        _ => vec![whole],
    };
    let balance = split(
        (found.load_balance, Factor::LoadBalance),
        [
            (found.load_balance_within_nodes, Factor::WithinNodes),
            (found.load_balance_between_nodes, Factor::BetweenNodes),
        ],
    );
    let communication = split(
        (found.communication, Factor::Communication),
        [(found.serialisation, Factor::Serialisation), (found.transfer, Factor::Transfer)],
    );
    let all = balance.into_iter().filter(|_| ranks_differ).chain(communication);
    all.min_by(|one, other| one.0.total_cmp(&other.0)).filter(|(factor, _)| *factor < GOOD).map(|(_, name)| name)
}
