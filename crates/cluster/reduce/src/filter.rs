//! The contract of a filter, and the same without its type, as a node of the tree uses it.
//!
//! A node doesn't know what it merges: a stream names a filter, the node gets bytes and passes bytes on. A filter's
//! author writes [`Filter`] for a type of theirs and gets [`AnyFilter`] for free.
//!
//! Next: [`crate::laws`] for what a filter must keep, [`crate::lists`] for the one that the tree has of its own.

use crate::values::{VALUE_BYTES_MAX, ValuesRef};
use serde::{Serialize, de::DeserializeOwned};
use smallvec::SmallVec;
use std::fmt::Debug;

/// A fault of a value.
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
        /// The fault, in words.
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
    /// The type of value that is merged.
    type Value: Clone + PartialEq + Debug + Serialize + DeserializeOwned + Send + 'static;

    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// The value that changes nothing.
    fn identity(&self) -> Self::Value;

    /// Takes `other` into `into`. On an error `into` must be unchanged.
    fn merge(&self, into: &mut Self::Value, other: Self::Value) -> Result<(), Bad>;

    /// Checks that a decoded value is one this filter could have made; the default accepts all.
    fn check(&self, _value: &Self::Value) -> Result<(), Bad> {
        Ok(())
    }

    /// A value as bytes; equal values must give equal bytes.
    fn encode(&self, value: &Self::Value) -> Result<Vec<u8>, Bad> {
        let mut bytes = Vec::new();
        self.encode_onto(value, &mut bytes).map(|()| bytes)
    }

    /// Puts a value as bytes behind what is in `out`; on an error a part of it may be there.
    fn encode_onto(&self, value: &Self::Value, out: &mut Vec<u8>) -> Result<(), Bad> {
        let start = out.len();
        postcard::serialize_with_flavor(value, Onto(out))
            .map_err(|_| Bad::Form { filter: self.name(), what: "it can not be written as bytes" })?;
        let byte_count = out.len() - start;
        if byte_count > VALUE_BYTES_MAX { Err(Bad::TooLong { byte_count }) } else { Ok(()) }
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

/// Bytes that go behind others.
struct Onto<'a>(&'a mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Onto<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// A filter whose type nobody needs to know.
pub trait AnyFilter: Send + Sync {
    /// Accumulators of so many waves that follow each other, all empty.
    fn start(&self, wave_count: usize) -> Box<dyn Accumulator>;

    /// Checks that bytes are a value of this filter.
    ///
    /// # Errors
    /// Why they are not.
    fn check_bytes(&self, value: &[u8]) -> Result<(), Bad>;
}

/// Takes in encoded values, one by one or many waves at once.
pub trait Accumulator: Send {
    /// Merges one value into what the wave with this index has; on an error nothing has changed.
    ///
    /// # Errors
    /// The value's fault.
    fn add(&mut self, index: usize, bytes: &[u8]) -> Result<(), Bad>;

    /// Encodes the value of the wave with this index behind what is in `out`.
    ///
    /// # Errors
    /// When that is more than a value may be.
    fn put(&self, index: usize, out: &mut Vec<u8>) -> Result<(), Bad>;

    /// Cuts off the waves from this index on.
    fn split_off(&mut self, index: usize) -> Box<dyn Accumulator>;

    /// Merges a value into each wave from the first on. It ends at the first bad one: those before it are merged.
    ///
    /// # Errors
    /// The index of the bad one, and what is wrong with it.
    fn add_all(&mut self, values: ValuesRef<'_>) -> Result<(), (usize, Bad)> {
        values.enumerate().try_for_each(|(index, value)| self.add(index, value).map_err(|bad| (index, bad)))
    }
}

impl dyn Accumulator {
    /// The value of the first wave, encoded.
    ///
    /// # Errors
    /// As [`Accumulator::put`].
    pub fn bytes(&self) -> Result<Vec<u8>, Bad> {
        let mut bytes = Vec::new();
        self.put(0, &mut bytes).map(|()| bytes)
    }
}

impl<F: Filter + Clone + Send + Sync + 'static> AnyFilter for F {
    fn start(&self, wave_count: usize) -> Box<dyn Accumulator> {
        Box::new(Typed { filter: self.clone(), values: (0..wave_count).map(|_| self.identity()).collect() })
    }

    fn check_bytes(&self, value: &[u8]) -> Result<(), Bad> {
        self.merge(&mut self.identity(), self.decode(value)?)
    }
}

/// The values of some waves; nearly always of one, which needs no memory of its own.
struct Typed<F: Filter> {
    filter: F,
    values: SmallVec<[F::Value; 1]>,
}

impl<F: Filter + Clone + Send + 'static> Accumulator for Typed<F> {
    fn add(&mut self, index: usize, bytes: &[u8]) -> Result<(), Bad> {
        let other = self.filter.decode(bytes)?;
        self.filter.merge(&mut self.values[index], other)
    }

    fn put(&self, index: usize, out: &mut Vec<u8>) -> Result<(), Bad> {
        self.filter.encode_onto(&self.values[index], out)
    }

    fn split_off(&mut self, index: usize) -> Box<dyn Accumulator> {
        Box::new(Typed { filter: self.filter.clone(), values: self.values.drain(index..).collect() })
    }
}
