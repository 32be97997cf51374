//! Rests between two looks at what another thread brings about.
//!
//! A thread that looks may take precedence over all ordinary threads (`place`). Two that look without a rest then keep
//! a processor from everybody, and above all from the thread they look at. So rests grow with the time that has been
//! waited, and what costs more than a look is asked for seldom.
//!
//! Next: `stop` and `call`, which wait so.

use crate::sys;
use std::time::Duration;

/// A look is free of rests so long: a thread that has a processor stops within microseconds.
const SPIN_NS: u64 = 50_000;
/// Bounds of one rest.
const REST_NS_MIN: u64 = 20_000;
const REST_NS_MAX: u64 = 250_000;
/// A rest is this part of the time waited, so what comes is seen that much later at most.
const REST_PART: u64 = 16;
/// Time between two questions that cost more.
const ASK_NS: u64 = 1_000_000;

/// One wait.
#[derive(Debug)]
pub(crate) struct Naps {
    began_ns: u64,
    asked_ns: u64,
}

impl Naps {
    /// A wait that begins now.
    pub(crate) fn begin() -> Self {
        Self::begun(sys::monotonic_ns())
    }

    /// A wait that began then.
    pub(crate) fn begun(began_ns: u64) -> Self {
        Naps { began_ns, asked_ns: began_ns }
    }

    /// How long it has lasted, nanoseconds.
    pub(crate) fn waited_ns(&self) -> u64 {
        sys::monotonic_ns().saturating_sub(self.began_ns)
    }

    /// Rests, if not for the first time that is too short for it.
    pub(crate) fn rest(&self) {
        let rest_ns = rest_ns(self.waited_ns());
        if rest_ns > 0 {
            std::thread::sleep(Duration::from_nanos(rest_ns));
        }
    }

    /// The same, and from the beginning.
    pub(crate) fn rest_always(&self) {
        std::thread::sleep(Duration::from_nanos(rest_ns(self.waited_ns()).max(REST_NS_MIN)));
    }

    /// True if to ask now and then what costs more than a look.
    pub(crate) fn is_time_to_ask(&mut self) -> bool {
        let now_ns = sys::monotonic_ns();
        let is_time = now_ns.saturating_sub(self.asked_ns) >= ASK_NS;
        if is_time {
            self.asked_ns = now_ns;
        }
        is_time
    }
}

fn rest_ns(waited_ns: u64) -> u64 {
    if waited_ns <= SPIN_NS { 0 } else { (waited_ns / REST_PART).clamp(REST_NS_MIN, REST_NS_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_with_the_wait_and_are_bounded() {
        for (case, waited_ns, expected) in [
            ("at_once", 0, 0),
            ("as_long_as_a_stop_takes", SPIN_NS, 0),
            ("just_longer", SPIN_NS + 1, REST_NS_MIN),
            ("a_millisecond", 1_000_000, 62_500),
            ("for_ever", u64::MAX, REST_NS_MAX),
        ] {
            assert_eq!(rest_ns(waited_ns), expected, "{case}");
        }
    }

    /// Looks at something that takes as long as stopping may: how many it took is what they keep others from.
    #[test]
    fn two_seconds_take_few_looks() {
        let (mut waited_ns, mut looks) = (SPIN_NS + 1, 0_u64);
        while waited_ns < 2_000_000_000 {
            waited_ns += rest_ns(waited_ns);
            looks += 1;
        }
        assert!(looks < 8_200, "{looks}");
    }

    #[test]
    fn questions_are_apart() {
        let mut naps = Naps::begin();
        let asked = (0..200).filter(|_| {
            naps.rest_always();
            naps.is_time_to_ask()
        });
        let asked = asked.count() as u64;
        assert!(asked > 0 && asked <= naps.waited_ns() / ASK_NS, "{asked} in {} ns", naps.waited_ns());
    }
}
