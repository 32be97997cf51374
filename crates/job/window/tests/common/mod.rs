//! A seeded source of noise shared by the tests; one seed replays a case.
//!
//! Next: `simulation` for whole jobs.
#![allow(dead_code)]

pub mod simulation;

/// A small generator (splitmix64): good enough for noise, the same everywhere.
pub struct Noise(pub u64);

impl Noise {
    /// Uniform 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Uniform in 0 to 1, 1 not included.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0 to `limit` - 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.uniform() * limit as f64) as u64
    }

    /// Standard normal (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }
}
