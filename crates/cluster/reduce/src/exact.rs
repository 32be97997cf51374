//! Sums of floating-point numbers that don't depend on the order of adding.
//!
//! Adding doubles rounds each time, so the sum over a tree would change with the tree's shape, and after every loss of
//! a node. [`ExactSum`] keeps all bits: one fixed-point number wide enough for any double and 2^60 of them. Adding is
//! exact, hence associative and commutative bit for bit; only reading it as a double rounds, once, to nearest even.
//!
//! Next: `trimtab-agent`'s `values`, whose sums and means of scripts' floats are made of it.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// 64-bit limbs: doubles reach from 2^-1074 to 2^1024, which are 2098 bits; the rest is for carries and the sign.
const LIMB_COUNT: usize = 34;

/// An exact sum of doubles, with infinities and NaN remembered beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExactSum {
    /// Two's complement, lowest limb first, in units of 2^-1074.
    limbs: [u64; LIMB_COUNT],
    /// Which of NaN, +infinity and -infinity were added, as bits 0 to 2.
    specials: u8,
}

/// The exact sum has left its 2176 bits, which takes more than 2^60 of the largest doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sum is beyond all doubles: scale the contributions")]
pub struct BeyondRange;

impl Default for ExactSum {
    fn default() -> Self {
        ExactSum { limbs: [0; LIMB_COUNT], specials: 0 }
    }
}

impl ExactSum {
    /// The sum of one number.
    pub fn of(number: f64) -> Self {
        let mut sum = ExactSum::default();
        if !number.is_finite() {
            sum.specials = if number.is_nan() { 1 } else { 2 << u8::from(number < 0.0) };
            return sum;
        }
        let exponent = (number.to_bits() >> 52) & 0x7ff;
        let fraction = number.to_bits() & ((1 << 52) - 1);
        let mantissa = fraction | u64::from(exponent > 0) << 52;
        let shift = exponent.saturating_sub(1) as usize;
        let wide = u128::from(mantissa) << (shift % 64);
        sum.limbs[shift / 64] = wide as u64;
        sum.limbs[shift / 64 + 1] = (wide >> 64) as u64;
        if number < 0.0 {
            sum.limbs = negated(&sum.limbs);
        }
        sum
    }

    /// Adds another sum; on an error nothing has changed.
    pub fn add(&mut self, other: &ExactSum) -> Result<(), BeyondRange> {
        let mut limbs = self.limbs;
        let mut carry = false;
        for (limb, addend) in limbs.iter_mut().zip(&other.limbs) {
            let (sum, first) = limb.overflowing_add(*addend);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            (*limb, carry) = (sum, first || second);
        }
        if is_negative(&self.limbs) == is_negative(&other.limbs) && is_negative(&limbs) != is_negative(&self.limbs) {
            return Err(BeyondRange);
        }
        self.limbs = limbs;
        self.specials |= other.specials;
        Ok(())
    }

    /// The nearest double; ties go to the even one, what is too large to an infinity.
    pub fn to_f64(&self) -> f64 {
        match self.specials {
            0 => {}
            2 => return f64::INFINITY,
            4 => return f64::NEG_INFINITY,
            _ => return f64::NAN,
        }
        if is_negative(&self.limbs) { -magnitude(&negated(&self.limbs)) } else { magnitude(&self.limbs) }
    }
}

fn is_negative(limbs: &[u64; LIMB_COUNT]) -> bool {
    limbs[LIMB_COUNT - 1] >> 63 == 1
}

fn negated(limbs: &[u64; LIMB_COUNT]) -> [u64; LIMB_COUNT] {
    let mut carry = true;
    limbs.map(|limb| {
        let (negative, overflow) = (!limb).overflowing_add(u64::from(carry));
        carry = overflow;
        negative
    })
}

fn bit(limbs: &[u64; LIMB_COUNT], index: usize) -> bool {
    limbs[index / 64] >> (index % 64) & 1 == 1
}

/// The nearest double to a number that isn't negative.
fn magnitude(limbs: &[u64; LIMB_COUNT]) -> f64 {
    let Some(top_limb) = limbs.iter().rposition(|limb| *limb != 0) else { return 0.0 };
    let top = top_limb * 64 + 63 - limbs[top_limb].leading_zeros() as usize;
    // Up to 53 bits are a double's own representation, subnormal ones included.
    let Some(shift) = top.checked_sub(52).filter(|shift| *shift > 0) else { return f64::from_bits(limbs[0]) };
    let low = limbs[shift / 64] >> (shift % 64);
    let high = if shift.is_multiple_of(64) { 0 } else { limbs[shift / 64 + 1] << (64 - shift % 64) };
    let mantissa = (low | high) & ((1 << 53) - 1);
    let half = bit(limbs, shift - 1);
    let below = (0..shift - 1).any(|index| bit(limbs, index));
    let up = half && (below || mantissa & 1 == 1);
    // The mantissa's top bit adds one to the exponent; rounding up may carry into it, as it should.
    let bits = ((shift as u64) << 52) + mantissa + u64::from(up);
    f64::from_bits(bits.min(f64::INFINITY.to_bits()))
}

/// Only the limbs that are neither zero below nor sign above: most sums take three or four.
#[derive(Serialize, Deserialize)]
struct Written {
    specials: u8,
    negative: bool,
    first: u8,
    limbs: Vec<u64>,
}

impl Serialize for ExactSum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let negative = is_negative(&self.limbs);
        let sign = if negative { u64::MAX } else { 0 };
        let first = self.limbs.iter().position(|limb| *limb != 0).unwrap_or(0);
        let end = self.limbs.iter().rposition(|limb| *limb != sign).map_or(first, |last| last + 1).max(first);
        let limbs = self.limbs[first..end].to_vec();
        Written { specials: self.specials, negative, first: first as u8, limbs }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ExactSum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let first = usize::from(written.first);
        let end = first.saturating_add(written.limbs.len());
        if end > LIMB_COUNT || written.specials > 7 {
            return Err(D::Error::custom("an exact sum outside its range"));
        }
        let mut limbs = [0; LIMB_COUNT];
        limbs[first..end].copy_from_slice(&written.limbs);
        limbs[end..].fill(if written.negative { u64::MAX } else { 0 });
        if is_negative(&limbs) != written.negative {
            return Err(D::Error::custom("an exact sum whose sign contradicts its bits"));
        }
        Ok(ExactSum { limbs, specials: written.specials })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(numbers: &[f64]) -> ExactSum {
        let mut all = ExactSum::default();
        numbers.iter().for_each(|number| all.add(&ExactSum::of(*number)).unwrap());
        all
    }

    #[test]
    fn sums_are_those_of_real_numbers() {
        for (name, numbers, expected) in [
            ("nothing", &[][..], 0.0),
            ("small beside large", &[1e100, 1.0, -1e100], 1.0),
            ("tenths", &[0.1; 10], 1.0),
            ("smallest", &[5e-324, 5e-324], 1e-323),
            ("largest and back", &[f64::MAX, f64::MAX, -f64::MAX], f64::MAX),
            ("beyond the largest", &[f64::MAX, f64::MAX], f64::INFINITY),
            ("tie to even", &[9007199254740992.0, 1.0], 9007199254740992.0),
            ("above a tie", &[9007199254740992.0, 1.0, 1e-300], 9007199254740994.0),
            ("negative", &[-1.5, 0.25], -1.25),
            ("infinity", &[f64::INFINITY, -1.0], f64::INFINITY),
        ] {
            assert_eq!(sum(numbers).to_f64(), expected, "{name}");
        }
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).to_f64().is_nan());
    }

    proptest! {
        #[test]
        fn one_number_is_itself(number in any::<f64>()) {
            let read = ExactSum::of(number).to_f64();
            prop_assert!(read == number || (read.is_nan() && number.is_nan()));
        }

        #[test]
        fn order_changes_no_bit(mut numbers in proptest::collection::vec(any::<f64>(), 0..20)) {
            let forwards = postcard::to_stdvec(&sum(&numbers)).unwrap();
            numbers.reverse();
            prop_assert_eq!(&forwards, &postcard::to_stdvec(&sum(&numbers)).unwrap());
            prop_assert_eq!(postcard::from_bytes::<ExactSum>(&forwards).unwrap(), sum(&numbers));
        }

        #[test]
        fn doubles_of_integers_sum_as_integers(numbers in proptest::collection::vec(-(1_i64 << 52)..(1 << 52), 0..50)) {
            let expected: i128 = numbers.iter().map(|number| i128::from(*number)).sum();
            let doubles: Vec<f64> = numbers.iter().map(|number| *number as f64).collect();
            prop_assert_eq!(sum(&doubles).to_f64(), expected as f64);
        }

        #[test]
        fn hostile_bytes_give_a_sum_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(read) = postcard::from_bytes::<ExactSum>(&bytes) {
                let _ = read.to_f64();
            }
        }
    }
}
