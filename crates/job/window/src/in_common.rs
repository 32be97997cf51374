//! A recording that ranks ended at different places, cut to the iterations that all of them have whole.
//!
//! Marks say exactly when an iteration began, and how long its thread had communicated until then, so times and the share
//! of communication can be cut. Sums over calls have no such marks: the sum of a function is of these iterations if its last
//! call began in them, and is left out otherwise, with everything that it is part of.
//!
//! Next: `assemble`, which makes the report of what is left.

use crate::input::{FunctionInfo, FunctionSample, RankSample};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trimtab_types::report::{FunctionGroup, LoopPlace};

/// Functions that are named as left out.
const NAMED_MAX: usize = 4;

/// Why ranks can't be cut to the iterations that all of them have whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Uncut {
    #[error("not all ranks have marked {0} iterations")]
    Short(u64),
    #[error("several threads communicate, and only one marks iterations")]
    SeveralThreads,
}

/// The part of recordings behind the iterations that all ranks share, before anything is cut. It merges with that of other
/// ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CutSeen {
    /// A rank has marked fewer iterations.
    is_short: bool,
    /// The longest recording behind them, ticks.
    behind: u64,
    /// Another thread than that which marks iterations communicates.
    has_threads: bool,
    /// Functions that were called behind them.
    behind_it: BTreeSet<usize>,
    /// Those which the same rank may have called before, too: their sums can't be parted.
    late: BTreeSet<usize>,
}

impl CutSeen {
    /// Of these ranks.
    pub(crate) fn of(
        ranks: &[RankSample],
        functions: &[FunctionInfo],
        iterations: u64,
        main_loop: Option<&LoopPlace>,
    ) -> CutSeen {
        let last = iterations as usize;
        let is_marker = |function: &usize| is_marker(functions, main_loop, *function);
        let whole = || ranks.iter().filter(|rank| rank.marks.len() > last);
        let behind = whole().map(|rank| rank.last_ticks.saturating_sub(rank.marks[last].ticks)).max();
        let behind_it = whole().flat_map(|rank| called_behind(rank, last).map(|sample| sample.function));
        // A rank that called a function only behind them made no call of it in them.
        let both = whole().flat_map(|rank| called_behind(rank, last).filter(|sample| began_before(rank, last, sample)));
        CutSeen {
            is_short: ranks.iter().any(|rank| rank.marks.len() <= last),
            behind: behind.unwrap_or(0),
            has_threads: ranks.iter().any(|rank| rank.threads.iter().any(|thread| thread.comm_ticks > 0)),
            behind_it: behind_it.filter(|function| !is_marker(function)).collect(),
            late: both.map(|sample| sample.function).filter(|function| !is_marker(function)).collect(),
        }
    }

    /// True if ranks can be cut to so many iterations.
    pub(crate) fn may_be(&self, iterations: u64) -> bool {
        iterations > 0 && !self.is_short && !(self.behind > 0 && self.has_threads)
    }

    pub(crate) fn with(self, other: CutSeen) -> CutSeen {
        let both = |mut one: BTreeSet<usize>, other: BTreeSet<usize>| {
            one.extend(other);
            one
        };
        CutSeen {
            is_short: self.is_short || other.is_short,
            behind: self.behind.max(other.behind),
            has_threads: self.has_threads || other.has_threads,
            behind_it: both(self.behind_it, other.behind_it),
            late: both(self.late, other.late),
        }
    }

    /// Nothing to be cut, or a remark for the reader.
    ///
    /// # Errors
    /// [`Uncut`] if ranks can't be cut to so many iterations.
    pub(crate) fn remark(
        &self,
        functions: &[FunctionInfo],
        ticks_per_second: f64,
        iterations: u64,
    ) -> Result<Option<String>, Uncut> {
        if iterations == 0 {
            return Ok(None);
        }
        if self.is_short {
            return Err(Uncut::Short(iterations));
        }
        if self.behind > 0 && self.has_threads {
            return Err(Uncut::SeveralThreads);
        }
        let names: Vec<&str> =
            self.late.iter().filter_map(|function| Some(functions.get(*function)?.name.as_str())).collect();
        let seconds = self.behind as f64 / ticks_per_second.max(f64::MIN_POSITIVE);
        Ok((self.behind > 0).then(|| remark(iterations, seconds, &names)))
    }
}

fn is_marker(functions: &[FunctionInfo], main_loop: Option<&LoopPlace>, function: usize) -> bool {
    main_loop.is_some() && functions.get(function).and_then(|info| info.loop_place.as_ref()) == main_loop
}

/// Cuts these ranks to their first `iterations`, which are passes of `main_loop` if that is there, as all ranks of which
/// that was seen are cut; true if that can be done.
pub(crate) fn apply(
    ranks: &mut [RankSample],
    functions: &[FunctionInfo],
    (iterations, main_loop): (u64, Option<&LoopPlace>),
    seen: &CutSeen,
) -> bool {
    let last = iterations as usize;
    if !seen.may_be(iterations) || ranks.iter().any(|rank| rank.marks.len() <= last) {
        return false;
    }
    let of_marker = ranks.iter_mut().flat_map(|rank| &mut rank.functions);
    for sample in of_marker.filter(|sample| is_marker(functions, main_loop, sample.function)) {
        sample.calls = iterations;
    }
    let behind_it = &seen.behind_it;
    let has_payload = behind_it.iter().any(|function| functions.get(*function).is_some_and(|info| info.moves_bytes));
    let groups: BTreeSet<FunctionGroup> =
        behind_it.iter().filter_map(|function| Some(functions.get(*function)?.group)).collect();
    for rank in ranks.iter_mut() {
        rank.group_ticks.retain(|(group, _)| !groups.contains(group));
        if seen.behind > 0 {
            rank.counters.clear();
        }
        cut_rank(rank, last, &seen.late, has_payload);
    }
    true
}

/// Cuts all ranks to their first `iterations`, which are passes of `main_loop` if that is there; a remark for the reader if
/// anything was cut.
///
/// # Errors
/// [`Uncut`] if that can't be done; then nothing is changed.
pub(crate) fn cut(
    ranks: &mut [RankSample],
    functions: &[FunctionInfo],
    ticks_per_second: f64,
    (iterations, main_loop): (u64, Option<&LoopPlace>),
) -> Result<Option<String>, Uncut> {
    let seen = CutSeen::of(ranks, functions, iterations, main_loop);
    let remark = seen.remark(functions, ticks_per_second, iterations)?;
    apply(ranks, functions, (iterations, main_loop), &seen);
    Ok(remark)
}

/// Functions that a rank called behind its mark number `last`.
fn called_behind(rank: &RankSample, last: usize) -> impl Iterator<Item = &FunctionSample> {
    let end = rank.marks[last].ticks;
    let is_behind = rank.last_ticks > end;
    rank.functions.iter().filter(move |sample| is_behind && sample.last_ticks >= end)
}

/// True if a function may have been called before that mark, too: its first call was, or nobody knows when that was.
fn began_before(rank: &RankSample, last: usize, sample: &FunctionSample) -> bool {
    sample.first_ticks < rank.marks[last].ticks
}

fn cut_rank(rank: &mut RankSample, last: usize, late: &BTreeSet<usize>, has_payload: bool) {
    rank.complete = true;
    let (first, end) = (rank.marks[0], rank.marks[last]);
    let not_in_them = called_behind(rank, last).filter(|sample| !began_before(rank, last, sample));
    let dropped: BTreeSet<usize> = not_in_them.map(|sample| sample.function).chain(late.iter().copied()).collect();
    rank.functions.retain(|sample| !dropped.contains(&sample.function));
    rank.paths.retain(|path| !dropped.contains(&path.function));
    rank.sizes.retain(|size| !dropped.contains(&size.function));
    if rank.last_ticks > end.ticks {
        rank.last_ticks = end.ticks;
        rank.comm_ticks = end.comm_ticks.saturating_sub(first.comm_ticks);
        // These were read when the recording ended.
        (rank.usage, rank.team) = (None, None);
        rank.details.retain(|call| call.enter_ticks < end.ticks);
    }
    rank.marks.truncate(last + 1);
    if has_payload {
        rank.links.clear();
    }
}

fn remark(iterations: u64, seconds: f64, names: &[&str]) -> String {
    let word = if iterations == 1 { "iteration is" } else { "iterations are" };
    let whole = format!(
        "{iterations} {word} whole on all ranks; times and the share of communication are of these, without the {seconds:.3} s at \
         most that ranks recorded behind them"
    );
    match names {
        [] => whole,
        _ => {
            let (named, more) = (names[..names.len().min(NAMED_MAX)].join(", "), names.len().saturating_sub(NAMED_MAX));
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "{whole}; sums can't be parted so, and those of functions that were called there are left out: {named}{more}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{IterationMark, LinkSample, ThreadSample};

    fn rank(rank: u32, marks: &[u64], last_ticks: u64, last_call: u64) -> RankSample {
        let mark = |ticks: &u64| IterationMark { ticks: *ticks, comm_ticks: 7 + ticks / 10 };
        let sample = |function, last_ticks| FunctionSample {
            function,
            calls: 3,
            first_ticks: marks[0],
            last_ticks,
            ..FunctionSample::default()
        };
        RankSample {
            rank,
            first_ticks: marks[0],
            last_ticks,
            marks: marks.iter().map(mark).collect(),
            functions: vec![sample(0, last_call), sample(1, marks[0] + 1), sample(2, last_ticks)],
            links: vec![LinkSample { other: 1, messages: 3, ..LinkSample::default() }],
            comm_ticks: 1000,
            ..RankSample::default()
        }
    }

    fn cut_to(ranks: &mut [RankSample], iterations: u64) -> Result<Option<String>, Uncut> {
        let info = |name: &str| FunctionInfo { name: name.to_owned(), moves_bytes: true, ..FunctionInfo::default() };
        let place = LoopPlace { function: "solve".to_owned(), ..LoopPlace::default() };
        let marker = FunctionInfo { loop_place: Some(place.clone()), ..info("loop 1 of solve") };
        cut(ranks, &[info("MPI_Send"), info("MPI_Bcast"), marker], 1000.0, (iterations, Some(&place)))
    }

    #[test]
    fn ranks_are_cut_to_what_all_have() {
        // Rank 0 came to the agreed end, rank 1 was told too late, rank 2 was held up in its second iteration.
        let mut ranks = vec![
            rank(0, &[100, 200, 300], 300, 250),
            rank(1, &[100, 200, 300, 400], 400, 350),
            rank(2, &[110, 210], 290, 150),
        ];
        let said = cut_to(&mut ranks, 1).expect("it can be cut").expect("it is said");
        assert!(said.contains("1 iteration is whole") && said.contains("0.200 s at most"), "{said}");
        assert!(said.ends_with("left out: MPI_Send"), "{said}");
        for rank in &ranks {
            assert!(rank.complete && rank.marks.len() == 2 && rank.links.is_empty(), "{rank:?}");
            assert_eq!((rank.last_ticks, rank.comm_ticks), (rank.marks[1].ticks, 10));
            let left: Vec<(usize, u64)> = rank.functions.iter().map(|sample| (sample.function, sample.calls)).collect();
            assert_eq!(left, [(1, 3), (2, 1)], "its last call lies in the first iteration, and passes are iterations");
        }
    }

    /// Rank 0 called the second function in its iteration and rank 1 behind it: neither sum has to be parted.
    #[test]
    fn what_a_rank_called_only_behind_is_no_call_of_its_iterations() {
        let mut ranks = vec![rank(0, &[100, 200], 300, 150), rank(1, &[100, 200], 300, 150)];
        (ranks[1].functions[1].first_ticks, ranks[1].functions[1].last_ticks) = (250, 260);
        let said = cut_to(&mut ranks, 1).expect("it can be cut").expect("it is said");
        assert!(said.ends_with("behind them"), "nothing is left out: {said}");
        let functions = |rank: &RankSample| rank.functions.iter().map(|sample| sample.function).collect::<Vec<_>>();
        assert_eq!([functions(&ranks[0]), functions(&ranks[1])], [vec![0, 1, 2], vec![0, 2]]);
        assert!(ranks.iter().all(|rank| rank.links.is_empty()), "its bytes can't be parted: {ranks:?}");
    }

    #[test]
    fn what_ended_together_stays_whole() {
        let mut ranks = vec![rank(0, &[100, 200], 200, 150), rank(1, &[100, 210], 210, 150)];
        assert_eq!(cut_to(&mut ranks, 1), Ok(None));
        let is_whole = |rank: &RankSample| (rank.functions.len(), rank.comm_ticks, rank.links.len()) == (3, 1000, 1);
        assert!(ranks.iter().all(is_whole), "{ranks:?}");
    }

    #[test]
    fn what_can_not_be_cut_is_said() {
        let mut several = rank(0, &[100, 200], 300, 150);
        several.threads = vec![ThreadSample { comm_ticks: 4 }];
        let before = vec![several];
        let mut ranks = before.clone();
        assert_eq!(cut_to(&mut ranks, 1), Err(Uncut::SeveralThreads));
        assert_eq!(cut_to(&mut ranks, 5), Err(Uncut::Short(5)));
        assert_eq!(ranks, before);
    }
}
