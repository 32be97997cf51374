//! How long a wait may take: by how long such waits took before, as TCP itself does it.
//!
//! Next: `ask`, which waits.

/// The mean of waits, and how far they are from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    mean_s: Option<f64>,
    deviation_s: f64,
    most_s: f64,
}

/// No limit is shorter: a process that does not run for a moment has not gone.
const LEAST_S: f64 = 0.5;
/// The limit is so many deviations above the mean.
const DEVIATIONS: f64 = 4.0;
/// Weights of the newest wait in mean and deviation.
const GAIN_MEAN: f64 = 0.125;
const GAIN_DEVIATION: f64 = 0.25;

impl Default for Patience {
    fn default() -> Self {
        Patience { mean_s: None, deviation_s: 0.0, most_s: 8.0 }
    }
}

impl Patience {
    /// After waits that took so long, the oldest first.
    pub fn after(waits_s: impl IntoIterator<Item = f64>) -> Patience {
        let mut patience = Patience::default();
        waits_s.into_iter().for_each(|wait_s| patience.learn(wait_s));
        patience
    }

    /// The same, where no wait may be longer than this.
    pub fn of_at_most(self, most_s: f64) -> Patience {
        Patience { most_s, ..self }
    }

    /// No wait is longer, seconds.
    pub fn most_s(&self) -> f64 {
        self.most_s
    }

    /// A wait has ended.
    pub fn learn(&mut self, wait_s: f64) {
        if !wait_s.is_finite() || wait_s < 0.0 {
            return;
        }
        match self.mean_s {
            None => (self.mean_s, self.deviation_s) = (Some(wait_s), wait_s / 2.0),
            Some(mean_s) => {
                self.deviation_s += GAIN_DEVIATION * ((wait_s - mean_s).abs() - self.deviation_s);
                self.mean_s = Some(mean_s + GAIN_MEAN * (wait_s - mean_s));
            }
        }
    }

    /// The limit for the next one; the most there is before any was seen.
    pub fn limit_s(&self) -> f64 {
        let limit = self.mean_s.map_or(self.most_s, |mean_s| mean_s + DEVIATIONS * self.deviation_s);
        limit.max(LEAST_S).min(self.most_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_what_waits_took() {
        assert_eq!(Patience::default().limit_s(), 8.0);
        assert_eq!(Patience::after([0.001; 20]).limit_s(), LEAST_S);
        let slow = Patience::after([1.0; 20]).limit_s();
        assert!((1.0..1.2).contains(&slow), "{slow}");
        let wild = Patience::after((0..20).map(|at| if at % 2 == 0 { 0.2 } else { 1.0 })).limit_s();
        assert!(wild > 1.5, "{wild}");
        assert_eq!(Patience::after([f64::NAN, -1.0, 100.0]).limit_s(), 8.0);
    }
}
