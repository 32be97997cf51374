//! The contract of a filter, and the same without its type, as a node of the tree uses it.
//!
//! A node doesn't know what it merges: a stream names a filter, the node gets bytes and passes bytes on. A filter's
//! author writes [`Filter`] for a type of theirs and gets [`AnyFilter`] for free.
//!
//! Next: [`crate::laws`] for what a filter must keep, [`crate::numbers`] and [`crate::lists`] for those that exist.

use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Longest encoded value, in bytes: a frame of the tree must hold it.
pub const VALUE_BYTES_MAX: usize = 4 << 20;

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// The result is outside its type.
    #[error("the result of {filter} does not fit its type: use a wider one, or scale the contributions")]
    Overflow {
        /// Which filter.
        filter: &'static str,
    },
    /// It holds more than the filter allows.
    #[error("{filter} holds {count} entries, at most {count_max}: coarsen the values, or raise the stream's limit")]
    TooMany {
        /// Which filter.
        filter: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        count_max: usize,
    },
    /// It has not the form this filter's values have.
    #[error("not a value of {filter}: {what}; do both ends run the same version and the same stream?")]
    Form {
        /// Which filter.
        filter: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// It is too long for a frame.
    #[error("a value of {byte_count} bytes, at most {VALUE_BYTES_MAX}: contribute less per wave")]
    TooLong {
        /// How long it is.
        byte_count: usize,
    },
    /// A stream names a filter this program doesn't have.
    #[error("no filter `{name}` is registered here: start all agents from the same binary")]
    Unknown {
        /// The name.
        name: String,
    },
}

/// How values of many ranks become one.
///
/// `merge` must be associative and commutative, and `identity` its neutral element, all judged by the *encoded bytes*;
/// merging a value with itself may mean anything. [`crate::laws::check`] tests this for three values.
pub trait Filter {
    /// What is merged.
    type Value: Clone + PartialEq + Debug + Serialize + DeserializeOwned + Send + 'static;

    /// What it is called in messages.
    fn name(&self) -> &'static str;

    /// The value that changes nothing.
    fn identity(&self) -> Self::Value;

    /// Takes `other` into `into`. On an error `into` must be unchanged.
    fn merge(&self, into: &mut Self::Value, other: Self::Value) -> Result<(), Bad>;

    /// Whether a decoded value is one this filter could have made; the default accepts all.
    fn check(&self, _value: &Self::Value) -> Result<(), Bad> {
        Ok(())
    }

    /// A value as bytes; equal values must give equal bytes.
    fn encode(&self, value: &Self::Value) -> Result<Vec<u8>, Bad> {
        let bytes = postcard::to_stdvec(value)
            .map_err(|_| Bad::Form { filter: self.name(), what: "it can not be written as bytes" })?;
        if bytes.len() > VALUE_BYTES_MAX { Err(Bad::TooLong { byte_count: bytes.len() }) } else { Ok(bytes) }
    }

    /// Bytes as a value; all of them must belong to it.
    fn decode(&self, bytes: &[u8]) -> Result<Self::Value, Bad> {
        if bytes.len() > VALUE_BYTES_MAX {
            return Err(Bad::TooLong { byte_count: bytes.len() });
        }
        let malformed = |_| Bad::Form { filter: self.name(), what: "malformed bytes" };
        let (value, rest) = postcard::take_from_bytes(bytes).map_err(malformed)?;
        if !rest.is_empty() {
            return Err(Bad::Form { filter: self.name(), what: "bytes behind its end" });
        }
        self.check(&value)?;
        Ok(value)
    }
}

/// A filter whose type nobody needs to know.
pub trait AnyFilter: Send + Sync {
    /// An empty accumulator.
    fn start(&self) -> Box<dyn Accumulator>;

    /// Whether bytes are a value of this filter.
    ///
    /// # Errors
    /// Why they are not.
    fn check_bytes(&self, bytes: &[u8]) -> Result<(), Bad>;
}

/// Takes in encoded values one by one.
pub trait Accumulator: Send {
    /// Merges one value; on an error nothing has changed.
    fn add(&mut self, bytes: &[u8]) -> Result<(), Bad>;
    /// What was merged so far, encoded.
    fn bytes(&self) -> Result<Vec<u8>, Bad>;
}

impl<F: Filter + Clone + Send + Sync + 'static> AnyFilter for F {
    fn start(&self) -> Box<dyn Accumulator> {
        Box::new(Typed { filter: self.clone(), value: self.identity() })
    }

    fn check_bytes(&self, bytes: &[u8]) -> Result<(), Bad> {
        self.merge(&mut self.identity(), self.decode(bytes)?)
    }
}

struct Typed<F: Filter> {
    filter: F,
    value: F::Value,
}

impl<F: Filter + Send> Accumulator for Typed<F> {
    fn add(&mut self, bytes: &[u8]) -> Result<(), Bad> {
        let other = self.filter.decode(bytes)?;
        self.filter.merge(&mut self.value, other)
    }

    fn bytes(&self) -> Result<Vec<u8>, Bad> {
        self.filter.encode(&self.value)
    }
}
