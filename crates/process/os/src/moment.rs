//! One moment on two clocks: the processor's time stamp counter and the kernel's monotonic clock.
//!
//! Next: `trimtab-measure` and `trimtab-script`, which turn ticks into seconds by two such moments.

use crate::sys::{monotonic_ns, ticks};
use std::thread::sleep;
use std::time::Duration;

/// Shortest stretch over which the rate of ticks is worth something, nanoseconds.
const RATE_NS_MIN: u64 = 20_000_000;
/// Looks at both clocks, of which the quickest counts: a thread that is taken off the processor between the two for a
/// millisecond would be off by a twentieth over the shortest stretch.
const LOOKS: usize = 8;

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time stamp counter.
    pub ticks: u64,
    /// The monotonic clock, nanoseconds.
    pub ns: u64,
}

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        Moment::of(ticks, monotonic_ns)
    }

    fn of(mut ticks: impl FnMut() -> u64, mut ns: impl FnMut() -> u64) -> Self {
        let look = |_| {
            let (before, ns, after) = (ticks(), ns(), ticks());
            let apart = after.saturating_sub(before);
            (apart, before + apart / 2, ns)
        };
        let (_, ticks, ns) = (0..LOOKS).map(look).min().unwrap_or_default();
        Moment { ticks, ns }
    }

    /// Ticks in one second, from the time since this moment; waits until that is 20 ms at least.
    pub fn ticks_per_second_since(self) -> f64 {
        let passed = monotonic_ns().saturating_sub(self.ns);
        sleep(Duration::from_nanos(RATE_NS_MIN.saturating_sub(passed)));
        self.rate_until(Moment::now())
    }

    fn rate_until(self, later: Moment) -> f64 {
        (later.ticks - self.ticks) as f64 / (later.ns - self.ns) as f64 * 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Both clocks of a processor of 3 GHz from `begun_ns` on; after so many readings of its ticks, a thread loses the
    /// processor for 1 ms: 5% of the shortest stretch.
    fn disturbed(begun_ns: u64, readings: u64) -> Moment {
        let (now_ns, looks) = (Cell::new(begun_ns), Cell::new(0));
        let step = |ns: u64| now_ns.replace(now_ns.get() + ns);
        let ticks = || {
            let read_ns = step(20);
            looks.set(looks.get() + 1);
            if looks.get() == readings {
                step(1_000_000);
            }
            read_ns * 3
        };
        Moment::of(ticks, || step(20))
    }

    #[test]
    fn a_thread_that_loses_the_processor_between_two_clocks_reads_them_again() {
        let first = disturbed(1_000_000, 0);
        for readings in 1..=2 * LOOKS as u64 {
            let rate = first.rate_until(disturbed(21_000_000, readings));
            assert!((rate / 3e9 - 1.0).abs() < 1e-5, "lost after {readings} readings: {rate}");
        }
    }

    #[test]
    fn the_rate_is_the_same_over_two_stretches() {
        let begun = Moment::now();
        let (short, long) = (begun.ticks_per_second_since(), {
            sleep(Duration::from_millis(60));
            begun.ticks_per_second_since()
        });
        assert!((short / long - 1.0).abs() < 0.001, "{short} and {long}");
    }
}
