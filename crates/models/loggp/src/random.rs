//! Random numbers that are the same at each run.
//!
//! Next: `fit`, which draws samples anew.

/// SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Evenly in 0 to 1, never 0.
    fn even(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON
    }

    /// Of the standard normal distribution (G. Box, M. Muller, 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let (one, two) = (self.even(), self.even());
        (-2.0 * one.min(1.0).ln()).sqrt() * (std::f64::consts::TAU * two).cos()
    }
}
