//! The filter that keeps who contributed what.
//!
//! Its value grows with what is merged, so it has a limit. Beyond it there is an error, not a shorter list: what was left
//! out would depend on the tree's shape, and two runs would differ.
//!
//! Next: [`crate::spec`] for how a stream names it.

use crate::{Bad, Filter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_types::Rank;

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
