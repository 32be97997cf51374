//! Loops whose passes come in bursts: most take next to no time, and one now and then takes nearly all.
//!
//! A loop that reads commands is such a one: some settings, then a command that works for minutes in a loop of its own,
//! whose passes are the iterations that people mean. A loop of steps is not, even if a rare one takes ten times as long.
//!
//! The passes between two looks are compared with how many there would be if all took the same time. Their variance
//! divided by their mean is below 1 for a regular loop, and the length of a burst where they come in bursts; where they
//! do, most of the time also goes by without a pass.
//!
//! Next: `choose_loop`, which passes over such a loop if another one runs inside of it.

/// The variance of passes between looks, divided by their mean, from which on they come in bursts; the part of the time
/// that goes by between these; and passes from which that can be told.
const DISPERSION_MIN: f64 = 4.0;
const STILL_MIN: f64 = 0.6;
const PASSES_MIN: u64 = 8;

/// The results of looks at a loop's counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bursts {
    seconds: f64,
    passes: u64,
    /// Time between looks without a pass.
    still_s: f64,
    /// Sums over the times between two looks: of squared passes, of passes times seconds, of squared seconds.
    squared: f64,
    product: f64,
    squared_s: f64,
}

impl Bursts {
    /// Notes how often it was passed when it had been counted for `seconds`.
    pub fn look(&mut self, seconds: f64, passes: u64) {
        let (lasted_s, new) = ((seconds - self.seconds).max(0.0), passes.saturating_sub(self.passes));
        if new == 0 {
            self.still_s += lasted_s;
        }
        self.squared += (new as f64).powi(2);
        self.product += new as f64 * lasted_s;
        self.squared_s += lasted_s.powi(2);
        (self.seconds, self.passes) = (seconds, passes.max(self.passes));
    }

    /// True if most of its passes take next to no time beside a few.
    pub fn are_there(&self) -> bool {
        self.passes >= PASSES_MIN && self.still_s >= STILL_MIN * self.seconds && self.dispersion() >= DISPERSION_MIN
    }

    fn dispersion(&self) -> f64 {
        let per_second = self.passes as f64 / self.seconds.max(f64::MIN_POSITIVE);
        let off = self.squared - 2.0 * per_second * self.product + per_second.powi(2) * self.squared_s;
        off / self.passes.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 0.1 s at a loop whose passes take these times again and again.
    fn looked_at(passes_s: &[f64]) -> bool {
        let mut ends = Vec::new();
        let mut now = 0.0;
        for pass_s in passes_s.iter().cycle() {
            now += pass_s;
            ends.push(now);
            if now > 3.0 {
                break;
            }
        }
        let mut bursts = Bursts::default();
        for look in 1..=25 {
            let seconds = f64::from(look) * 0.1;
            bursts.look(seconds, ends.partition_point(|end| *end <= seconds) as u64);
        }
        bursts.are_there()
    }

    #[test]
    fn commands_come_in_bursts_and_steps_do_not() {
        let commands = [&[1e-4; 16][..], &[0.5]].concat();
        let checkpoints = [&[0.02; 20][..], &[0.3]].concat();
        let adaptive = [&[0.1; 8][..], &[0.004; 20]].concat();
        for (name, passes_s, expected) in [
            ("commands", &commands[..], true),
            ("slow steps", &[0.25], false),
            ("quick steps", &[0.0003], false),
            ("solvers of other lengths", &[0.02, 0.1, 0.05, 0.2], false),
            ("a checkpoint now and then", &checkpoints, false),
            ("now long, now short", &adaptive, false),
        ] {
            assert_eq!(looked_at(passes_s), expected, "{name}");
        }
    }

    #[test]
    fn too_few_passes_say_nothing() {
        let mut bursts = Bursts::default();
        assert!(!bursts.are_there());
        bursts.look(1.0, 0);
        bursts.look(1.01, 7);
        assert!(!bursts.are_there());
        bursts.look(1.02, 9);
        assert!(bursts.are_there());
    }
}
