//! The order of events on two ranks, as bounds on the difference of their numbering.
//!
//! Number the instances of something on rank r and on rank q, each from 0 at the start of its own observation. If
//! instance j of r is instance j + d of q, and an instance may not begin on r after it ended on q, then d has a lower
//! bound that one pass over both lists gives. Bounds over all pairs of ranks are a system of difference constraints,
//! whose closure by longest paths is exact: what it leaves is what the streams allow, no more and no less.
//!
//! Next: `align`, which chooses within the bounds.

use crate::event::CallEvent;

/// No bound known; small enough that two of them can be added.
const UNBOUNDED: i64 = i64::MIN / 4;

/// Ranks up to which all pairs are compared; above it only pairs with the first rank, which loses proofs but no truth.
const ALL_PAIRS_RANKS_MAX: usize = 64;

/// Consecutive instances of one thing on one rank, observed without gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequence {
    /// Earliest moments of each instance, ascending, ticks.
    pub enters: Vec<u64>,
    /// Latest moments of each instance, ascending, ticks; `u64::MAX`: not ended yet.
    pub exits: Vec<u64>,
    /// Instances before the first one ended no later than this.
    pub seen_from: u64,
    /// Instances after the last one begin no earlier than this.
    pub seen_until: u64,
}

/// One rank's events seen as iterations.
pub(crate) struct Track {
    /// Entries of the anchor.
    pub anchors: Vec<u64>,
    /// Number of anchors up to each event, minus 1: its iteration, -1 before the first.
    pub iterations: Vec<i64>,
    /// Collectives that synchronise the world, in order.
    pub world: Sequence,
    /// Function and iteration of each of them.
    pub world_calls: Vec<(u32, i64)>,
}

impl Track {
    /// Reads a stream; `marks` are the events that are its anchor.
    pub fn new(events: &[CallEvent], marks: &[usize]) -> Self {
        let anchors: Vec<u64> = marks.iter().map(|mark| events[*mark].enter_ticks).collect();
        let iteration = |index: usize| marks.partition_point(|mark| *mark <= index) as i64 - 1;
        let iterations: Vec<i64> = (0..events.len()).map(iteration).collect();
        let world: Vec<usize> = (0..events.len()).filter(|index| events[*index].synchronises_world()).collect();
        Self {
            anchors,
            world: Sequence {
                enters: world.iter().map(|index| events[*index].enter_ticks).collect(),
                exits: world.iter().map(|index| events[*index].exit_or_never()).collect(),
                seen_from: events.first().map_or(u64::MAX, |event| event.enter_ticks),
                seen_until: events.last().map_or(0, CallEvent::seen_until),
            },
            world_calls: world.iter().map(|index| (events[*index].function, iterations[*index])).collect(),
            iterations,
        }
    }

    /// Iterations seen from beginning to end.
    pub fn complete(&self) -> usize {
        self.anchors.len().saturating_sub(1)
    }

    /// First (`last` = false) or last chosen event of every complete iteration; `None` unless each has one.
    pub fn per_iteration(
        &self,
        events: &[CallEvent],
        last: bool,
        choose: impl Fn(&CallEvent) -> bool,
    ) -> Option<Sequence> {
        let mut picked: Vec<Option<&CallEvent>> = vec![None; self.complete()];
        for (event, iteration) in events.iter().zip(&self.iterations) {
            let slot = usize::try_from(*iteration).ok().and_then(|i| picked.get_mut(i));
            if let Some(slot) = slot.filter(|slot| (last || slot.is_none()) && choose(event)) {
                *slot = Some(event);
            }
        }
        let picked: Vec<&CallEvent> = picked.into_iter().collect::<Option<_>>()?;
        Some(Sequence {
            enters: picked.iter().map(|event| event.enter_ticks).collect(),
            exits: picked.iter().map(|event| event.exit_or_never()).collect(),
            seen_from: *self.anchors.first()?,
            seen_until: *self.anchors.last()?,
        })
    }

    /// Begin and end of every complete iteration.
    pub fn whole_iterations(&self) -> Sequence {
        Sequence {
            enters: self.anchors.iter().take(self.complete()).copied().collect(),
            exits: self.anchors.iter().skip(1).copied().collect(),
            seen_from: self.anchors.first().copied().unwrap_or(u64::MAX),
            seen_until: self.anchors.last().copied().unwrap_or(0),
        }
    }
}

/// Smallest d for which every instance j of `before` begins no later than instance j + d of `after` ends.
///
/// `slack_ticks` is the sum of both clocks' uncertainties. `None`: the observations do not bound it.
pub(crate) fn lower_bound(before: &Sequence, after: &Sequence, slack_ticks: u64) -> Option<i64> {
    let begins = before.enters.iter().chain(std::iter::once(&before.seen_until));
    begins
        .enumerate()
        .filter_map(|(number, enter)| {
            let needed = enter.saturating_sub(slack_ticks);
            let may_be_earlier = after.seen_from >= needed;
            (!may_be_earlier).then(|| after.exits.partition_point(|exit| *exit < needed) as i64 - number as i64)
        })
        .max()
}

/// Lower bounds on the differences of all ranks' numberings: of all pairs, or of pairs with the first rank where all
/// would be too many to keep.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    ranks: usize,
    low: Vec<i64>,
}

impl Bounds {
    /// Nothing known about `ranks` ranks.
    pub fn new(ranks: usize) -> Self {
        let cells = if are_all_pairs(ranks) { ranks * ranks } else { 2 * ranks };
        let mut bounds = Self { ranks, low: vec![UNBOUNDED; cells] };
        for rank in 0..ranks {
            bounds.raise(rank, rank, 0);
        }
        bounds
    }

    /// Numbering of `a` minus numbering of `b` is at least `low`.
    pub fn raise(&mut self, a: usize, b: usize, low: i64) {
        if let Some(cell) = self.cell(a, b) {
            self.low[cell] = self.low[cell].max(low);
        }
    }

    /// Numbering of `a` minus numbering of `b` is exactly `value`; closes again over the new knowledge.
    pub fn fix(&mut self, a: usize, b: usize, value: i64) {
        self.raise(a, b, value);
        self.raise(b, a, -value);
        if are_all_pairs(self.ranks) {
            self.close_through(a);
            self.close_through(b);
        }
    }

    /// Draws every consequence of the bounds.
    pub fn close(&mut self) {
        // Pairs with the first rank have no consequences for each other.
        let through = if are_all_pairs(self.ranks) { self.ranks } else { 0 };
        (0..through).for_each(|rank| self.close_through(rank));
    }

    /// False if the bounds contradict one another; meaningful once closed.
    pub fn is_consistent(&self) -> bool {
        let round_trip = |rank: usize| self.at(rank, 0).saturating_add(self.at(0, rank));
        (0..self.ranks).all(|rank| self.at(rank, rank) <= 0 && round_trip(rank) <= 0)
    }

    /// Smallest and largest difference a - b, where known.
    pub fn range(&self, a: usize, b: usize) -> (Option<i64>, Option<i64>) {
        let known = |low: i64| (low > UNBOUNDED / 2).then_some(low);
        (known(self.at(a, b)), known(self.at(b, a)).map(|low| -low))
    }

    fn at(&self, a: usize, b: usize) -> i64 {
        self.cell(a, b).map_or(UNBOUNDED, |cell| self.low[cell])
    }

    /// Where the bound of a pair is kept; `None`: nowhere.
    fn cell(&self, a: usize, b: usize) -> Option<usize> {
        match (a, b) {
            _ if are_all_pairs(self.ranks) => Some(a * self.ranks + b),
            (a, 0) => Some(2 * a),
            (0, b) => Some(2 * b + 1),
            _ => None,
        }
    }

    fn close_through(&mut self, through: usize) {
        for a in 0..self.ranks {
            let first = self.at(a, through);
            if first <= UNBOUNDED / 2 {
                continue;
            }
            for b in 0..self.ranks {
                let second = self.at(through, b);
                if second > UNBOUNDED / 2 {
                    self.raise(a, b, first + second);
                }
            }
        }
    }
}

fn are_all_pairs(ranks: usize) -> bool {
    ranks <= ALL_PAIRS_RANKS_MAX
}

/// The pairs of ranks worth comparing, both orders.
pub(crate) fn pairs(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    let firsts = if are_all_pairs(ranks) { ranks } else { 1 };
    (0..firsts).flat_map(move |a| {
        let later = a + 1..ranks;
        later.flat_map(move |b| [(a, b), (b, a)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(enters: &[u64], exits: &[u64]) -> Sequence {
        Sequence {
            enters: enters.to_vec(),
            exits: exits.to_vec(),
            seen_from: enters[0],
            seen_until: exits[exits.len() - 1],
        }
    }

    #[test]
    fn bounds_from_two_lists() {
        let steady = sequence(&[10, 20, 30], &[11, 21, 31]);
        let cases = [
            ("itself", sequence(&[10, 20, 30], &[11, 21, 31]), 0, Some(0)),
            ("observed one earlier", sequence(&[0, 10, 20, 30], &[1, 11, 21, 31]), 0, Some(1)),
            ("observed one later", sequence(&[20, 30, 40], &[21, 31, 41]), 0, Some(-1)),
            ("clock off by less than an iteration", sequence(&[5, 15, 25], &[6, 16, 26]), 5, Some(0)),
            ("clock off, uncertainty unknown", sequence(&[5, 15, 25], &[6, 16, 26]), 0, Some(1)),
            ("observed only much later", sequence(&[90, 100], &[91, 101]), 0, None),
        ];
        for (name, other, slack, expected) in cases {
            assert_eq!(lower_bound(&steady, &other, slack), expected, "{name}");
        }
    }

    #[test]
    fn very_many_ranks_are_bounded_by_the_first() {
        let ranks = 65_536;
        let mut bounds = Bounds::new(ranks);
        assert_eq!(pairs(ranks).count(), 2 * (ranks - 1));
        for rank in 1..ranks {
            bounds.raise(rank, 0, 3);
            bounds.raise(0, rank, -5);
        }
        bounds.close();
        assert!(bounds.is_consistent());
        assert_eq!(bounds.range(70, 0), (Some(3), Some(5)));
        bounds.fix(70, 0, 4);
        assert_eq!(bounds.range(70, 0), (Some(4), Some(4)));
        assert_eq!(bounds.range(70, 71), (None, None), "not kept");
        bounds.raise(0, 9, -2);
        assert!(!bounds.is_consistent(), "at least 3 and at most 2");
    }

    #[test]
    fn closure_finds_what_follows_and_what_contradicts() {
        let mut bounds = Bounds::new(3);
        bounds.raise(0, 1, 2);
        bounds.raise(1, 2, 3);
        bounds.raise(2, 0, -5);
        bounds.close();
        assert!(bounds.is_consistent());
        assert_eq!(bounds.range(0, 2), (Some(5), Some(5)));
        assert_eq!(bounds.range(0, 1), (Some(2), Some(2)));
        bounds.raise(2, 0, -4);
        bounds.close();
        assert!(!bounds.is_consistent());
    }
}
