//! Relates this machine's ticks to seconds and to the calendar.
//!
//! Next: `trimtab_window::Relation` for other machines' ticks.

use trimtab_os::{monotonic_ns, ticks, unix_s};
use trimtab_window::UnixTime;

/// Shortest stretch over which the tick rate is worth something.
const RATE_NS_MIN: u64 = 20_000_000;

/// A moment on all of this machine's clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    ticks: u64,
    ns: u64,
    unix_s: f64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let (ticks, ns) = both();
        Clock { ticks, ns, unix_s: unix_s() }
    }

    /// Ticks of the time stamp counter in one second, from the time since the start.
    pub(crate) fn ticks_per_second(&self) -> f64 {
        let passed = monotonic_ns() - self.ns;
        if passed < RATE_NS_MIN {
            std::thread::sleep(std::time::Duration::from_nanos(RATE_NS_MIN - passed));
        }
        let (ticks, ns) = both();
        (ticks - self.ticks) as f64 / (ns - self.ns) as f64 * 1e9
    }

    pub(crate) fn unix_time(&self, ticks_per_second: f64) -> UnixTime {
        UnixTime { unix_s: self.unix_s, at_ticks: self.ticks, ticks_per_second }
    }
}

/// Looks at both clocks, of which the quickest counts: whoever is taken off the processor between the two for a millisecond
/// would be off by a twentieth over the shortest stretch.
const LOOKS: usize = 8;

/// Ticks and nanoseconds of one moment.
fn both() -> (u64, u64) {
    let look = |_| {
        let (before, ns, after) = (ticks(), monotonic_ns(), ticks());
        let apart = after.saturating_sub(before);
        (apart, before + apart / 2, ns)
    };
    let (_, ticks, ns) = (0..LOOKS).map(look).min().unwrap_or_default();
    (ticks, ns)
}
