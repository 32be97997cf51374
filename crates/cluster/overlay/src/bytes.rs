//! Bytes on the wire as one piece: a list of numbers is read and checked one by one, which costs more than what is in it.
//!
//! The encoding is that of a list, so both ends agree either way.
//!
//! Next: `run` and `frame`, whose values and payloads these are.

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};
use std::fmt;

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    struct Whole;

    impl Visitor<'_> for Whole {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }

    deserializer.deserialize_bytes(Whole)
}
