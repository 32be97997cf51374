//! More work or a slower node: by the instructions of an iteration, or by the user's word.
//!
//! A processor's speed does not change how many instructions the same work has, so ranks that differ in time and not in
//! instructions have processors that differ, and ranks that differ in both alike have different work. Instructions of waiting
//! say nothing, because MPI polls: only those outside of communication count. Without them it takes a word of the user's: if
//! all ranks have the same work, speed goes as 1 / computation time; if all nodes are alike, work goes as computation time
//! (ScoPro, 8.4). A word that what was measured contradicts is not believed, and that is said.
//!
//! Next: `explain`, which asks here after what it can tell by itself.

use crate::computation::{
    EXPLAINED_SHARE_MIN, Explained, PROPORTION_TOLERANCE, asleep, computation_s, is_displaced, slept_s,
};
use crate::crowd;
use crate::input::WindowInput;
use trimtab_types::report::{Assumption, Cause, NodeShare, RankTotal, RelativeRank};

/// The counter that tells work from speed.
const INSTRUCTIONS: &str = "instructions";

/// Share of the difference that instructions must hold to be called its cause.
const MAIN_SHARE_MIN: f64 = 0.5;

/// Instructions of an iteration outside of communication decide where they are known of both ranks.
pub(crate) fn by_instructions(
    nodes: &[NodeShare],
    longest: &RankTotal,
    shortest: &RankTotal,
    ratio: f64,
) -> Option<Explained> {
    let known = |rank: &RankTotal| rank.counter(INSTRUCTIONS)?.outside_communication.filter(|count| *count > 0.0);
    let (long, short) = (known(longest)?, known(shortest)?);
    let other = shortest.rank;
    let counted = format!(
        "outside of communication it executes {long:.3e} instructions per iteration, rank {other} {short:.3e} ({:.2}x)",
        long / short
    );
    let differs = long / short > 1.0 + EXPLAINED_SHARE_MIN * (ratio - 1.0);
    // Of a factor that is a product, a part is measured by logarithms.
    let is_work = differs && (long / short).ln() >= MAIN_SHARE_MIN * ratio.ln();
    let is_all = long / short >= ratio * (1.0 - PROPORTION_TOLERANCE);
    let is_same = (long / short - 1.0).abs() < EXPLAINED_SHARE_MIN * (ratio - 1.0);
    let slept = slept_s(nodes, longest);
    let had = longest.cpu_s.unwrap_or(f64::NAN);
    Some(match () {
        () if is_same && slept.is_some() => {
            (Cause::Undetermined, format!("{counted}; {}", asleep(slept.unwrap_or_default(), longest)))
        }
        () if is_same && is_displaced(nodes, longest) => (
            Cause::Processor,
            format!(
                "{counted}, and had a processor for {had:.2} s of the {:.2} s that it computed",
                computation_s(longest)
            ),
        ),
        () if is_work && is_all => (Cause::Work, counted),
        () if is_work => {
            (Cause::Work, format!("{counted}; it also takes longer for each, since it computes {ratio:.2}x as long"))
        }
        () if is_same && longest.host != shortest.host => {
            (Cause::Node, format!("{counted} and takes {ratio:.2}x as long"))
        }
        () if is_same => {
            (Cause::Processor, format!("its processor is slower: {counted} and takes {ratio:.2}x as long"))
        }
        () => {
            (Cause::Undetermined, format!("{counted} and takes {ratio:.2}x as long: its work is not all that differs"))
        }
    })
}

/// The cause under the user's word.
pub(crate) fn by_assumption(
    input: &WindowInput,
    ranks: &[RankTotal],
    (longest, shortest): (&RankTotal, &RankTotal),
) -> Option<Explained> {
    let assumed = input.facts.assumed?;
    if let Some(why) = kept_from_processors(assumed, &input.nodes, ranks) {
        return Some((Cause::Undetermined, why));
    }
    let relative = |rank: &RankTotal| {
        let all = relative(assumed, ranks);
        all.iter().find(|one| one.rank == rank.rank).map_or(f64::NAN, |one| one.relative)
    };
    let (long, short, other) = (relative(longest), relative(shortest), shortest.rank);
    let crowd = crowd::of_rank(&input.nodes, longest);
    let beside =
        crowd.map_or_else(String::new, |crowd| format!("; but {}, which is in the times", crowd::short(crowd)));
    Some(match assumed {
        Assumption::Symmetric => {
            let because = format!(
                "assumed that all ranks have the same work (--assume symmetric), it has {long:.2}x the mean speed of the \
                 ranks, rank {other} {short:.2}x{beside}"
            );
            let is_one_machine = longest.host == shortest.host;
            if is_one_machine {
                (Cause::Processor, format!("its processor is slower: {because}"))
            } else {
                (Cause::Node, because)
            }
        }
        Assumption::Homogeneous => (
            Cause::Work,
            format!(
                "assumed that all nodes are alike (--assume homogeneous), it has {long:.2}x the mean work of the ranks, rank \
                 {other} {short:.2}x{beside}"
            ),
        ),
    })
}

/// Speeds or works of all ranks, by their mean: v = (1/p) / mean(1/p), w = p / mean(p), p the computation time.
pub(crate) fn relative(assumed: Assumption, ranks: &[RankTotal]) -> Vec<RelativeRank> {
    let of = |rank: &RankTotal| match assumed {
        Assumption::Symmetric => 1.0 / computation_s(rank),
        Assumption::Homogeneous => computation_s(rank),
    };
    let all: Vec<(u32, f64)> =
        ranks.iter().map(|rank| (rank.rank, of(rank))).filter(|(_, value)| value.is_finite()).collect();
    let mean = all.iter().map(|(_, value)| value).sum::<f64>() / all.len() as f64;
    all.into_iter().map(|(rank, value)| RelativeRank { rank, relative: value / mean }).collect()
}

/// Why computation times say nothing of work although nodes are alike: a rank was kept from its processor, which is in them.
/// Where all ranks have the same work it is part of the processor's speed for them.
pub(crate) fn kept_from_processors(assumed: Assumption, nodes: &[NodeShare], ranks: &[RankTotal]) -> Option<String> {
    let kept = ranks.iter().find(|rank| is_displaced(nodes, rank)).filter(|_| assumed == Assumption::Homogeneous)?;
    Some(format!(
        "rank {} had a processor for at most {:.2} s of the {:.2} s that it computed, so the times are not those of work \
         alone, and --assume homogeneous tells nothing of it; measure again when each rank has a processor",
        kept.rank,
        kept.cpu_s?,
        computation_s(kept)
    ))
}

/// The measurement contradicts the user's word.
pub(crate) fn contradicts(assumed: Assumption, cause: Cause) -> Option<&'static str> {
    match (assumed, cause) {
        (Assumption::Symmetric, Cause::Work) => Some("so the ranks have not the same work, as --assume symmetric says"),
        (Assumption::Homogeneous, Cause::Node | Cause::Processor) => {
            Some("so the processors were not alike for the ranks, as --assume homogeneous says")
        }
        _ => None,
    }
}
