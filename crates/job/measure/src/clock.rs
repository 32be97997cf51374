//! Relates this machine's ticks to seconds and to the calendar.
//!
//! Next: `trimtab_window::Relation` for other machines' ticks.

use trimtab_os::{Moment, unix_s};
use trimtab_window::UnixTime;

/// A moment on all of this machine's clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    moment: Moment,
    unix_s: f64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock { moment: Moment::now(), unix_s: unix_s() }
    }

    /// Ticks of the time stamp counter in one second, from the time since the start.
    pub(crate) fn ticks_per_second(&self) -> f64 {
        self.moment.ticks_per_second_since()
    }

    pub(crate) fn unix_time(&self, ticks_per_second: f64) -> UnixTime {
        UnixTime { unix_s: self.unix_s, at_ticks: self.moment.ticks, ticks_per_second }
    }
}
