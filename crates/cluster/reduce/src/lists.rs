//! Filters that keep who contributed what: the largest few, equivalence classes, everything.
//!
//! Their values grow with what is merged, so each has a limit. Beyond it there is an error, not a shorter list: what
//! was left out would depend on the tree's shape, and two runs would differ.
//!
//! Next: [`crate::spec`] for how a stream names one of them.

use crate::numbers::Of;
use crate::{Bad, Filter, RankSet};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use trimtab_types::Rank;

/// Most entries of a top-k.
pub const TOP_COUNT_MAX: usize = 65_536;

/// The `count` largest numbers with their ranks, descending; of equal ones the lower rank first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopK {
    /// How many are kept.
    pub count: u32,
}

impl Filter for TopK {
    type Value = Vec<Of>;

    fn name(&self) -> &'static str {
        "top-k"
    }

    fn identity(&self) -> Vec<Of> {
        Vec::new()
    }

    fn merge(&self, into: &mut Vec<Of>, other: Vec<Of>) -> Result<(), Bad> {
        into.extend(other);
        into.sort_by_key(order);
        into.truncate(self.count as usize);
        Ok(())
    }

    fn check(&self, value: &Vec<Of>) -> Result<(), Bad> {
        if value.len() > self.count as usize {
            return Err(Bad::TooMany { filter: self.name(), count: value.len(), count_max: self.count as usize });
        }
        let sorted = value.is_sorted_by_key(order);
        if sorted { Ok(()) } else { Err(Bad::Form { filter: self.name(), what: "numbers out of order" }) }
    }
}

fn order(of: &Of) -> (Reverse<crate::numbers::Ordered>, Rank) {
    (Reverse(of.number), of.rank)
}

/// Which ranks contributed which value: equivalence classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classes {
    /// Most different values.
    pub class_count_max: u32,
}

impl Classes {
    /// One rank's value.
    pub fn of(&self, value: &[u8], rank: Rank) -> BTreeMap<Vec<u8>, RankSet> {
        BTreeMap::from([(value.to_vec(), RankSet::one(rank))])
    }
}

impl Filter for Classes {
    type Value = BTreeMap<Vec<u8>, RankSet>;

    fn name(&self) -> &'static str {
        "classes"
    }

    fn identity(&self) -> Self::Value {
        BTreeMap::new()
    }

    fn merge(&self, into: &mut Self::Value, other: Self::Value) -> Result<(), Bad> {
        let count = into.len() + other.keys().filter(|value| !into.contains_key(*value)).count();
        if count > self.class_count_max as usize {
            return Err(Bad::TooMany { filter: self.name(), count, count_max: self.class_count_max as usize });
        }
        for (value, ranks) in other {
            let class = into.entry(value).or_default();
            *class = class.union(&ranks);
        }
        Ok(())
    }

    fn check(&self, value: &Self::Value) -> Result<(), Bad> {
        let (count, count_max) = (value.len(), self.class_count_max as usize);
        if count > count_max {
            return Err(Bad::TooMany { filter: self.name(), count, count_max });
        }
        let empty = value.values().any(RankSet::is_empty);
        if empty { Err(Bad::Form { filter: self.name(), what: "a class without ranks" }) } else { Ok(()) }
    }
}

/// Everything that was contributed, by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concat {
    /// Most bytes of all contributions together.
    pub byte_count_max: u32,
}

impl Concat {
    /// One rank's bytes.
    pub fn of(&self, bytes: &[u8], rank: Rank) -> BTreeMap<Rank, Vec<u8>> {
        BTreeMap::from([(rank, bytes.to_vec())])
    }

    fn fits(&self, byte_count: usize) -> Result<(), Bad> {
        let count_max = self.byte_count_max as usize;
        let too_many = Bad::TooMany { filter: self.name(), count: byte_count, count_max };
        if byte_count > count_max { Err(too_many) } else { Ok(()) }
    }
}

impl Filter for Concat {
    type Value = BTreeMap<Rank, Vec<u8>>;

    fn name(&self) -> &'static str {
        "concat"
    }

    fn identity(&self) -> Self::Value {
        BTreeMap::new()
    }

    fn merge(&self, into: &mut Self::Value, other: Self::Value) -> Result<(), Bad> {
        self.fits(into.values().chain(other.values()).map(Vec::len).sum())?;
        if other.keys().any(|rank| into.contains_key(rank)) {
            return Err(Bad::Form { filter: self.name(), what: "a rank that contributed twice" });
        }
        into.extend(other);
        Ok(())
    }

    fn check(&self, value: &Self::Value) -> Result<(), Bad> {
        self.fits(value.values().map(Vec::len).sum())
    }
}
