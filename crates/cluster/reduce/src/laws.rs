//! The laws a filter must keep, as functions that any test can call.
//!
//! The tree merges in whatever order and grouping the network and lost nodes leave, so a filter that breaks one of
//! these gives results that differ from run to run. Give [`check`] and [`check_shape`] values from a property test.
//!
//! Next: `tests/laws.rs` of this crate, which does that for every built-in filter and for one of a user's.

use crate::{Bad, Filter};
use std::fmt::Debug;

/// A law that a filter broke, with the values that show it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Broken {
    /// Merging with the identity changed a value.
    #[error("identity: {value} became {became}")]
    Identity {
        /// Before.
        value: String,
        /// After.
        became: String,
    },
    /// The order of two values mattered.
    #[error("commutativity: {one} and {two} give {forwards} or {backwards}")]
    Commutativity {
        /// First value.
        one: String,
        /// Second value.
        two: String,
        /// First with second.
        forwards: String,
        /// Second with first.
        backwards: String,
    },
    /// The grouping of values mattered.
    #[error("associativity: the same values give {one} or {other}, depending on who merges first")]
    Associativity {
        /// One result.
        one: String,
        /// The other.
        other: String,
    },
    /// Encoding and decoding changed a value.
    #[error("encoding: {value} came back as {came_back}")]
    Encoding {
        /// Before.
        value: String,
        /// After.
        came_back: String,
    },
}

/// Checks identity, commutativity, associativity and encoding for three values; an error of the filter is a result
/// like any other and must not depend on order or grouping either.
pub fn check<F: Filter>(filter: &F, a: &F::Value, b: &F::Value, c: &F::Value) -> Result<(), Broken> {
    for value in [a, b, c] {
        let left = merged(filter, Ok(filter.identity()), Ok(value.clone()));
        let right = merged(filter, Ok(value.clone()), Ok(filter.identity()));
        for became in [left, right] {
            if bytes(filter, &became) != bytes(filter, &Ok(value.clone())) {
                return Err(Broken::Identity { value: show(value), became: show(&became) });
            }
        }
        encoding(filter, value)?;
    }
    let forwards = merged(filter, Ok(a.clone()), Ok(b.clone()));
    let backwards = merged(filter, Ok(b.clone()), Ok(a.clone()));
    if bytes(filter, &forwards) != bytes(filter, &backwards) {
        let (forwards, backwards) = (show(&forwards), show(&backwards));
        return Err(Broken::Commutativity { one: show(a), two: show(b), forwards, backwards });
    }
    let left = merged(filter, forwards, Ok(c.clone()));
    let right = merged(filter, Ok(a.clone()), merged(filter, Ok(b.clone()), Ok(c.clone())));
    same_or_broken(filter, &left, &right)
}

/// Checks that merging `values` in a tree gives what merging them in a row gives. `choices` makes the tree: each names
/// two of the remaining values, which become one.
pub fn check_shape<F: Filter>(filter: &F, values: &[F::Value], choices: &[(usize, usize)]) -> Result<(), Broken> {
    let mut all = values.iter().cloned();
    let in_a_row = all.try_fold(filter.identity(), |into, other| merged(filter, Ok(into), Ok(other)));
    let mut rest: Vec<Result<F::Value, Bad>> = values.iter().cloned().map(Ok).collect();
    for (one, other) in choices.iter().copied().chain(std::iter::repeat((0, 0))) {
        if rest.len() < 2 {
            break;
        }
        let one = rest.swap_remove(one % rest.len());
        let other = rest.swap_remove(other % rest.len());
        rest.push(merged(filter, one, other));
    }
    let in_a_tree = rest.pop().unwrap_or_else(|| Ok(filter.identity()));
    same_or_broken(filter, &in_a_row, &in_a_tree)
}

fn same_or_broken<F: Filter>(
    filter: &F,
    one: &Result<F::Value, Bad>,
    other: &Result<F::Value, Bad>,
) -> Result<(), Broken> {
    let same = bytes(filter, one) == bytes(filter, other);
    if same { Ok(()) } else { Err(Broken::Associativity { one: show(one), other: show(other) }) }
}

/// Once an error, always an error.
fn merged<F: Filter>(filter: &F, into: Result<F::Value, Bad>, other: Result<F::Value, Bad>) -> Result<F::Value, Bad> {
    let (mut into, other) = (into?, other?);
    filter.merge(&mut into, other).map(|()| into)
}

/// The compared result: the bytes, or that there was an error, whose details may differ.
fn bytes<F: Filter>(filter: &F, value: &Result<F::Value, Bad>) -> Option<Vec<u8>> {
    value.as_ref().ok().and_then(|value| filter.encode(value).ok())
}

fn encoding<F: Filter>(filter: &F, value: &F::Value) -> Result<(), Broken> {
    let Ok(bytes) = filter.encode(value) else { return Ok(()) };
    let came_back = filter.decode(&bytes);
    let same = came_back.as_ref() == Ok(value);
    if same { Ok(()) } else { Err(Broken::Encoding { value: show(value), came_back: show(&came_back) }) }
}

fn show(value: &impl Debug) -> String {
    format!("{value:?}")
}
