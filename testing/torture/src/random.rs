//! Random numbers that one seed replays: SplitMix64.
//!
//! Next: `cycle`, where most decisions are drawn.

/// A generator; copies of it draw the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins at `seed`.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if there is none.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.bits() % limit }
    }

    /// True in `share` of 1000 cases.
    pub fn in_thousand(&mut self, share: u64) -> bool {
        self.below(1000) < share
    }

    /// Between `low` and `high`, each order of magnitude as likely as the next.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let share = self.below(1 << 20) as f64 / f64::from(1 << 20);
        (low as f64 * (high as f64 / low as f64).powf(share)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_and_ranges_hold() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        for _ in 0..1000 {
            assert_eq!(one.below(10), two.below(10));
            let size = one.magnitude(10, 2000);
            assert!((10..=2000).contains(&size), "{size}");
            two.magnitude(10, 2000);
        }
        assert_eq!(one.below(0), 0);
        assert_ne!(Random::new(1).bits(), Random::new(2).bits());
    }
}
