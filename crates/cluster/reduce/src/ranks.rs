//! Sets of ranks as lists of intervals: a thousand neighbours cost as much as one.
//!
//! Leaves next to each other share a parent, so the ranks below any node are few intervals. `trimtab-types::context`
//! is the *rule* a user writes (it may name hosts); this is the set it means in one job.
//!
//! Next: `partial`, where disjoint sets prove that nothing is counted twice.

use crate::plain::{Plain, put_number};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use std::fmt;
use trimtab_types::Rank;

/// Most intervals in a set that comes from another node: every second rank of a million.
const INTERVAL_COUNT_MAX: usize = 524_288;

/// Nearly every set is one interval, or two while somebody is away: those take no memory of their own.
type Intervals = SmallVec<[(u32, u32); 2]>;

/// A set of ranks: ascending intervals, both ends included, with a gap between any two.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankSet {
    intervals: Intervals,
}

/// Sets go with every result, so those that need no memory are copied without asking for any.
impl Clone for RankSet {
    fn clone(&self) -> Self {
        let intervals = match self.intervals[..] {
            [] => Intervals::new(),
            [only] => Intervals::from_buf_and_len([only, only], 1),
            [first, second] => Intervals::from_buf([first, second]),
            _ => self.intervals.clone(),
        };
        RankSet { intervals }
    }
}

impl RankSet {
    /// No rank.
    pub const EMPTY: RankSet = RankSet { intervals: SmallVec::new_const() };

    /// One rank.
    pub fn one(rank: Rank) -> Self {
        RankSet { intervals: smallvec::smallvec![(rank.0, rank.0)] }
    }

    /// From the first to the last rank, both included; empty if the last is lower.
    pub fn range(first: Rank, last: Rank) -> Self {
        if first <= last { RankSet { intervals: smallvec::smallvec![(first.0, last.0)] } } else { RankSet::EMPTY }
    }

    /// Reads a set as it is encoded, if it is one or two intervals, or none: as nearly all are.
    pub fn read(from: &mut Plain<'_>) -> RankSet {
        let mut all = [(0, 0); 2];
        let count = from.number(all.len() as u64) as usize;
        let mut end = 0_u32;
        for (index, interval) in all[..count].iter_mut().enumerate() {
            let (gap, length) = (from.short(), from.short());
            let first = end.checked_add(gap).filter(|_| index == 0 || gap >= 2);
            let Some((first, last)) = first.and_then(|first| Some((first, first.checked_add(length)?))) else {
                from.spoil();
                return RankSet::EMPTY;
            };
            (*interval, end) = ((first, last), last);
        }
        RankSet { intervals: Intervals::from_buf_and_len(all, count) }
    }

    /// Writes the set as it is encoded behind some bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_number(self.intervals.len() as u64, out);
        let mut end = 0;
        for &(first, last) in &self.intervals {
            put_number(u64::from(first - end), out);
            put_number(u64::from(last - first), out);
            end = last;
        }
    }

    /// True if no rank is in it.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// How many ranks are in it.
    pub fn rank_count(&self) -> u64 {
        self.intervals.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }

    /// How many intervals it is made of, which is what it costs.
    pub fn interval_count(&self) -> usize {
        self.intervals.len()
    }

    /// True if a rank is in it.
    pub fn contains(&self, rank: Rank) -> bool {
        let after = self.intervals.partition_point(|(first, _)| *first <= rank.0);
        after > 0 && self.intervals[after - 1].1 >= rank.0
    }

    /// The lowest rank.
    pub fn lowest(&self) -> Option<Rank> {
        self.intervals.first().map(|(first, _)| Rank(*first))
    }

    /// The highest rank.
    pub fn highest(&self) -> Option<Rank> {
        self.intervals.last().map(|(_, last)| Rank(*last))
    }

    /// Every rank, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        self.intervals.iter().flat_map(|(first, last)| (*first..=*last).map(Rank))
    }

    /// The ranks in one or the other.
    pub fn union(&self, other: &RankSet) -> RankSet {
        let mut all = Intervals::new();
        let (mut left, mut right) = (self.intervals.iter().peekable(), other.intervals.iter().peekable());
        loop {
            let from_left = match (left.peek(), right.peek()) {
                (Some(one), Some(two)) => one <= two,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return RankSet { intervals: all },
            };
            let next = if from_left { left.next() } else { right.next() };
            next.into_iter().for_each(|interval| append(&mut all, *interval));
        }
    }

    /// Takes in what is in another set, in place where that is one interval: as a node's children contribute one by one.
    pub fn take_in(&mut self, other: &RankSet) {
        let [(first, last)] = other.intervals[..] else {
            *self = self.union(other);
            return;
        };
        let own = &mut self.intervals;
        let from = own.partition_point(|(_, end)| u64::from(*end) + 1 < u64::from(first));
        let touched = own[from..].iter().take_while(|(begin, _)| u64::from(*begin) <= u64::from(last) + 1).count();
        if touched == 0 {
            return own.insert(from, (first, last));
        }
        own[from] = (own[from].0.min(first), own[from + touched - 1].1.max(last));
        own.drain(from + 1..from + touched);
    }

    /// The ranks in any of many sets; one sort instead of a union at a time.
    pub fn union_of<'a>(sets: impl IntoIterator<Item = &'a RankSet>) -> RankSet {
        let mut all: Intervals = sets.into_iter().flat_map(|set| set.intervals.iter().copied()).collect();
        all.sort_unstable();
        let mut intervals = Intervals::new();
        all.into_iter().for_each(|interval| append(&mut intervals, interval));
        RankSet { intervals }
    }

    /// The ranks in both.
    pub fn intersection(&self, other: &RankSet) -> RankSet {
        let mut both = Intervals::new();
        let (mut i, mut j) = (0, 0);
        while let (Some(one), Some(two)) = (self.intervals.get(i), other.intervals.get(j)) {
            let (first, last) = (one.0.max(two.0), one.1.min(two.1));
            if first <= last {
                both.push((first, last));
            }
            if one.1 < two.1 { i += 1 } else { j += 1 }
        }
        RankSet { intervals: both }
    }

    /// True if everything is in it that is in both of two others.
    pub fn covers_common(&self, one: &RankSet, other: &RankSet) -> bool {
        let (mut i, mut j, mut own) = (0, 0, 0);
        while let (Some(left), Some(right)) = (one.intervals.get(i), other.intervals.get(j)) {
            let (first, last) = (left.0.max(right.0), left.1.min(right.1));
            if first <= last {
                while self.intervals.get(own).is_some_and(|interval| interval.1 < first) {
                    own += 1;
                }
                if self.intervals.get(own).is_none_or(|interval| interval.0 > first || interval.1 < last) {
                    return false;
                }
            }
            if left.1 < right.1 { i += 1 } else { j += 1 }
        }
        true
    }

    /// The ranks in this set and not in the other.
    pub fn minus(&self, other: &RankSet) -> RankSet {
        let mut rest = Intervals::new();
        let mut j = 0;
        for &(first, last) in &self.intervals {
            let mut from = u64::from(first);
            while other.intervals.get(j).is_some_and(|hole| hole.1 < first) {
                j += 1;
            }
            for hole in other.intervals[j..].iter().take_while(|hole| hole.0 <= last) {
                if from < u64::from(hole.0) {
                    rest.push((from as u32, hole.0 - 1));
                }
                from = u64::from(hole.1) + 1;
            }
            if from <= u64::from(last) {
                rest.push((from as u32, last));
            }
        }
        RankSet { intervals: rest }
    }

    /// True if no rank is in both.
    pub fn is_disjoint(&self, other: &RankSet) -> bool {
        let (mut i, mut j) = (0, 0);
        while let (Some(one), Some(two)) = (self.intervals.get(i), other.intervals.get(j)) {
            if one.0.max(two.0) <= one.1.min(two.1) {
                return false;
            }
            if one.1 < two.1 { i += 1 } else { j += 1 }
        }
        true
    }

    /// True if every rank of `other` is in this set.
    pub fn covers(&self, other: &RankSet) -> bool {
        other.intervals.iter().all(|&(first, last)| {
            let after = self.intervals.partition_point(|(start, _)| *start <= first);
            after > 0 && self.intervals[after - 1].1 >= last
        })
    }
}

/// Puts an interval behind those that start no later, joined to the last where they touch.
fn append(intervals: &mut Intervals, (first, last): (u32, u32)) {
    match intervals.last_mut() {
        Some(before) if u64::from(first) <= u64::from(before.1) + 1 => before.1 = before.1.max(last),
        _ => intervals.push((first, last)),
    }
}

impl FromIterator<Rank> for RankSet {
    fn from_iter<I: IntoIterator<Item = Rank>>(ranks: I) -> Self {
        let mut ranks: Vec<u32> = ranks.into_iter().map(|rank| rank.0).collect();
        ranks.sort_unstable();
        let mut intervals = Intervals::new();
        ranks.into_iter().for_each(|rank| append(&mut intervals, (rank, rank)));
        RankSet { intervals }
    }
}

/// As a user writes them: `0-3,7`; `none` for the empty set.
impl fmt::Display for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (index, (first, last)) in self.intervals.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Pairs of (distance from the end of the one before, length - 1), which are small numbers and so few bytes.
impl Serialize for RankSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pairs = serializer.serialize_seq(Some(self.intervals.len()))?;
        let mut end = 0_u32;
        for &(first, last) in &self.intervals {
            pairs.serialize_element(&(first - end, last - first))?;
            end = last;
        }
        pairs.end()
    }
}

impl<'de> Deserialize<'de> for RankSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Pairs)
    }
}

/// Reads the pairs of a set. It trusts no length that it is told: memory is taken as pairs come.
struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = RankSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a set of ranks, as pairs of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<RankSet, A::Error> {
        let mut intervals = Intervals::new();
        let mut end = 0_u32;
        while let Some((gap, length)) = pairs.next_element::<(u32, u32)>()? {
            if intervals.len() >= INTERVAL_COUNT_MAX {
                return Err(A::Error::custom("a set of ranks with too many intervals"));
            }
            let first = end.checked_add(gap).filter(|_| intervals.is_empty() || gap >= 2);
            let last = first.and_then(|first| first.checked_add(length));
            let (Some(first), Some(last)) = (first, last) else {
                return Err(A::Error::custom("a set of ranks out of order"));
            };
            intervals.push((first, last));
            end = last;
        }
        Ok(RankSet { intervals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn ranks(set: &BTreeSet<u32>) -> RankSet {
        set.iter().copied().map(Rank).collect()
    }

    fn sets() -> impl Strategy<Value = BTreeSet<u32>> {
        proptest::collection::btree_set(0_u32..60, 0..40)
    }

    proptest! {
        #[test]
        fn sets_behave_as_sets(one in sets(), two in sets(), three in sets(), rank in 0_u32..60) {
            let (a, b) = (ranks(&one), ranks(&two));
            prop_assert_eq!(a.union(&b), ranks(&(&one | &two)));
            prop_assert_eq!(RankSet::union_of([&a, &b]), a.union(&b));
            let one_by_one = |mut all: RankSet, other: &RankSet| { all.take_in(other); all };
            prop_assert_eq!(one_by_one(a.clone(), &b), a.union(&b));
            let range = RankSet::range(Rank(rank), Rank(rank + three.len() as u32));
            prop_assert_eq!(one_by_one(a.clone(), &range), a.union(&range));
            prop_assert_eq!(a.highest().map(|rank| rank.0), one.last().copied());
            prop_assert_eq!(a.intersection(&b), ranks(&(&one & &two)));
            prop_assert_eq!(a.minus(&b), ranks(&(&one - &two)));
            prop_assert_eq!(a.is_disjoint(&b), one.is_disjoint(&two));
            prop_assert_eq!(a.covers(&b), one.is_superset(&two));
            let common = &two & &three;
            prop_assert_eq!(a.covers_common(&b, &ranks(&three)), one.is_superset(&common));
            prop_assert!(ranks(&common).covers_common(&b, &ranks(&three)));
            prop_assert_eq!(a.contains(Rank(rank)), one.contains(&rank));
            prop_assert_eq!(a.rank_count(), one.len() as u64);
            prop_assert_eq!(a.iter().map(|rank| rank.0).collect::<BTreeSet<_>>(), one);
            let bytes = postcard::to_stdvec(&a).unwrap();
            let (mut put, mut plain) = (Vec::new(), Plain::new(&bytes));
            a.put(&mut put);
            prop_assert_eq!(&put, &bytes);
            let read = RankSet::read(&mut plain);
            prop_assert_eq!(plain.is_over(), a.interval_count() <= 2);
            prop_assert_eq!(postcard::from_bytes::<RankSet>(&bytes).unwrap(), a.clone());
            prop_assert!(!plain.is_over() || read == a);
        }

        #[test]
        fn hostile_bytes_give_a_set_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut plain = Plain::new(&bytes);
            let read = RankSet::read(&mut plain);
            if plain.is_over() {
                prop_assert_eq!(postcard::take_from_bytes::<RankSet>(&bytes), Ok((read, &[][..])));
            }
            if let Ok(set) = postcard::from_bytes::<RankSet>(&bytes) {
                prop_assert_eq!(&set.union(&set), &set);
                prop_assert!(set.minus(&set).is_empty());
            }
        }
    }

    #[test]
    fn the_highest_ranks_are_ranks() {
        let all = RankSet::range(Rank(0), Rank(u32::MAX));
        assert_eq!(all.rank_count(), 1 << 32);
        assert_eq!(all.minus(&RankSet::one(Rank(u32::MAX))), RankSet::range(Rank(0), Rank(u32::MAX - 1)));
        assert_eq!(all.union(&RankSet::one(Rank(u32::MAX))), all);
        let mut most = all.minus(&RankSet::one(Rank(u32::MAX)));
        most.take_in(&RankSet::one(Rank(u32::MAX)));
        assert_eq!(most, all);
    }

    #[test]
    fn neighbours_are_one_interval_and_print_as_users_write_them() {
        let set: RankSet = [7, 0, 1, 3, 2, 2].map(Rank).into_iter().collect();
        assert_eq!((set.interval_count(), set.to_string().as_str()), (2, "0-3,7"));
        assert_eq!(RankSet::EMPTY.to_string(), "none");
    }
}
