//! The filter whose value is a number: a sum.
//!
//! Integers are summed in 128 bits, where 2^32 ranks of 64 bits can not overflow, and beyond that overflow is an error,
//! never a wrapped or clipped result. Doubles are summed exactly elsewhere ([`crate::exact`]).
//!
//! Next: [`crate::lists`] for the filter that keeps who contributed what.

use crate::filter::{decode_whole, put_encoded};
use crate::plain::put_number;
use crate::{Bad, Filter};

/// The sum of integers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum;

impl Filter for Sum {
    type Value = i128;

    fn name(&self) -> &'static str {
        "sum"
    }

    fn identity(&self) -> i128 {
        0
    }

    fn merge(&self, into: &mut i128, other: i128) -> Result<(), Bad> {
        *into = into.checked_add(other).ok_or(Bad::Overflow { filter: self.name() })?;
        Ok(())
    }

    fn encode_onto(&self, value: &i128, out: &mut Vec<u8>) -> Result<(), Bad> {
        match i64::try_from(*value) {
            Ok(short) => put_short(short, out),
            Err(_) => put_encoded(self, value, out)?,
        }
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<i128, Bad> {
        match short(bytes) {
            Some(short) => Ok(i128::from(short)),
            None => decode_whole(self, bytes),
        }
    }
}

/// A number of 64 bits as one of 128 is encoded, which takes several times as long if nobody knows that it is short:
/// seven bits to a byte, lowest first, the sign in the lowest bit.
fn put_short(number: i64, out: &mut Vec<u8>) {
    put_number((number << 1 ^ number >> 63) as u64, out);
}

/// The number that [`put_short`] encodes like this, of 63 bits at most.
fn short(bytes: &[u8]) -> Option<i64> {
    let (last, others) = bytes.split_last()?;
    if *last >= 0x80 || others.len() > 8 || (*last == 0 && !others.is_empty()) {
        return None;
    }
    let mut left = u64::from(*last);
    for byte in others.iter().rev() {
        if *byte < 0x80 {
            return None;
        }
        left = left << 7 | u64::from(byte & 0x7f);
    }
    Some((left >> 1) as i64 ^ -((left & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sums() -> impl Strategy<Value = i128> {
        (any::<i128>(), 0_u32..128).prop_map(|(number, shift)| number >> shift)
    }

    proptest! {
        #[test]
        fn sums_are_encoded_as_any_number_of_their_type(sum in sums()) {
            let bytes = Sum.encode(&sum).unwrap();
            prop_assert_eq!(&bytes, &postcard::to_stdvec(&sum).unwrap());
            prop_assert_eq!(Sum.decode(&bytes), Ok(sum));
        }

        #[test]
        fn no_bytes_are_another_sum_than_they_are_a_number(bytes in proptest::collection::vec(any::<u8>(), 0..22)) {
            let number = postcard::take_from_bytes::<i128>(&bytes).ok().filter(|(_, rest)| rest.is_empty());
            prop_assert_eq!(Sum.decode(&bytes).ok(), number.map(|(number, _)| number));
        }
    }

    #[test]
    fn the_ends_of_short_sums() {
        for sum in [0, 1, -1, 63, 64, -64, -65, i128::from(i64::MAX), i128::from(i64::MIN), i128::from(i64::MIN) - 1] {
            let bytes = Sum.encode(&sum).unwrap();
            assert_eq!((&bytes, Sum.decode(&bytes)), (&postcard::to_stdvec(&sum).unwrap(), Ok(sum)));
        }
    }
}
