//! Payloads that are narrowed on the way down: each rank has a part, and only the parts of the ranks below are passed
//! on.
//!
//! Each node passes on to each child what the ranks below it need, and a leaf gets its own. So a payload for all ranks of
//! a job crosses each link once and shrinks on the way. The tree may narrow it along any way, in as many steps as there
//! are nodes, or not at all between two of them; what reaches a leaf must not depend on that. [`laws::check_down`] holds
//! any filter to it, also a user's.
//!
//! Next: [`crate::spec::Registry`] for how a stream finds a user's own.
//!
//! [`laws::check_down`]: crate::laws::check_down

use crate::{Bad, RankSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_types::Rank;

/// How a payload becomes less on the way down.
pub trait DownFilter: Send + Sync {
    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// The part of a payload that these ranks need.
    ///
    /// The part for some ranks must be the same whether it is taken from the whole, or from what more ranks need:
    /// `narrow(narrow(p, many), few) == narrow(p, few)` for `few` among `many`, byte for byte. It should not be longer.
    ///
    /// # Errors
    /// When it is not a payload of this filter.
    fn narrow(&self, payload: &[u8], ranks: &RankSet) -> Result<Vec<u8>, Bad>;
}

/// The downstream filter of a stream, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Down {
    /// None: everybody gets all of a payload.
    Same,
    /// [`Scatter`].
    Scatter,
    /// [`Context`].
    Context,
    /// A user's own, by name, with parameters only it understands.
    Own {
        /// As it was registered.
        name: String,
        /// For its builder.
        parameters: Vec<u8>,
    },
}

/// Each rank has its own bytes: a payload made by [`scatter`].
#[derive(Clone, Copy, Debug)]
pub struct Scatter;

/// A payload of which each rank gets its own part.
///
/// # Errors
/// When it can't be written as bytes.
pub fn scatter(parts: &BTreeMap<Rank, Vec<u8>>) -> Result<Vec<u8>, Bad> {
    encode(&Scatter, parts)
}

/// The parts of `ranks` in a payload made by [`scatter`].
///
/// # Errors
/// When it is none.
pub fn parts_of(payload: &[u8], ranks: &RankSet) -> Result<BTreeMap<Rank, Vec<u8>>, Bad> {
    let mut parts: BTreeMap<Rank, Vec<u8>> = decode(&Scatter, payload)?;
    parts.retain(|rank, _| ranks.contains(*rank));
    Ok(parts)
}

impl DownFilter for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn narrow(&self, payload: &[u8], ranks: &RankSet) -> Result<Vec<u8>, Bad> {
        scatter(&parts_of(payload, ranks)?)
    }
}

/// Some ranks are meant, and all are told the same of them: a payload made by [`in_context`]. A node learns which of the
/// ranks below it are meant, not who else is.
#[derive(Clone, Copy, Debug)]
pub struct Context;

/// A payload about some ranks.
///
/// # Errors
/// When it can't be written as bytes.
pub fn in_context(meant: &RankSet, what: &[u8]) -> Result<Vec<u8>, Bad> {
    encode(&Context, &(meant, what))
}

/// Which ranks a payload made by [`in_context`] is about, and what it says of them.
///
/// # Errors
/// When it is none.
pub fn context_of(payload: &[u8]) -> Result<(RankSet, Vec<u8>), Bad> {
    decode(&Context, payload)
}

impl DownFilter for Context {
    fn name(&self) -> &'static str {
        "context"
    }

    fn narrow(&self, payload: &[u8], ranks: &RankSet) -> Result<Vec<u8>, Bad> {
        let (meant, what) = context_of(payload)?;
        in_context(&meant.intersection(ranks), &what)
    }
}

fn encode(filter: &impl DownFilter, value: &impl Serialize) -> Result<Vec<u8>, Bad> {
    postcard::to_stdvec(value).map_err(|_| Bad::Form { filter: filter.name(), what: "it can not be written as bytes" })
}

fn decode<'a, T: Deserialize<'a>>(filter: &impl DownFilter, bytes: &'a [u8]) -> Result<T, Bad> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Bad::Form { filter: filter.name(), what: "malformed bytes" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_gets_its_part() {
        let all = BTreeMap::from([(Rank(1), vec![1]), (Rank(2), vec![2]), (Rank(3), vec![3])]);
        let payload = scatter(&all).unwrap();
        let passed = Scatter.narrow(&payload, &RankSet::range(Rank(2), Rank(9))).unwrap();
        let expected = BTreeMap::from([(Rank(2), vec![2]), (Rank(3), vec![3])]);
        assert_eq!(parts_of(&passed, &RankSet::range(Rank(0), Rank(9))), Ok(expected));
        assert!(passed.len() < payload.len());
    }

    #[test]
    fn a_context_becomes_what_is_meant_below() {
        let meant: RankSet = [1, 4, 5, 6].map(Rank).into_iter().collect();
        let payload = in_context(&meant, b"count").unwrap();
        let passed = Context.narrow(&payload, &RankSet::range(Rank(5), Rank(9))).unwrap();
        assert_eq!(context_of(&passed), Ok((RankSet::range(Rank(5), Rank(6)), b"count".to_vec())));
        assert_eq!(context_of(&Context.narrow(&payload, &RankSet::EMPTY).unwrap()).unwrap().0, RankSet::EMPTY);
    }

    #[test]
    fn what_is_no_payload_is_refused() {
        for bytes in [&[0xff; 9][..], &[], &[0, 0, 0]] {
            assert!(Scatter.narrow(bytes, &RankSet::EMPTY).is_err(), "{bytes:?}");
            assert!(Context.narrow(bytes, &RankSet::EMPTY).is_err(), "{bytes:?}");
        }
    }
}
