//! Numbers from a seed, the same on every machine and in every version.
//!
//! Next: `network` and `storm`, which draw from it.

/// A generator with 64 bits of state: a counter, scrambled.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Random(scramble(seed ^ 0x5DEE_CE66_D1CE_4E5B))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scramble(self.0)
    }

    /// A number from 0, below `end`; 0 if `end` is.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.any()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `low`, below `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    /// True so many times in a million.
    pub fn one_in_million(&mut self, times: u32) -> bool {
        times > 0 && self.below(1_000_000) < u64::from(times)
    }
}

/// Spreads a number's bits over all 64.
pub fn scramble(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
