//! How long is it worth looking for a main loop?
//!
//! A slow program needs time until it has repeated anything. One that has made many calls and still shows no loop, or
//! whose loops change faster than they can be agreed on, will not show one by being watched longer: the window is then
//! by time, and says why.
//!
//! Next: `detect`, which is asked at every look.

use serde::{Deserialize, Serialize};

/// Seconds that are waited in any case: set-up often lasts as long, and the main loop follows it.
const SECONDS_MIN: f64 = 3.0;

/// Calls of a rank after which a loop would have shown: some times what a rank's ring of calls holds.
const CALLS_MANY: u64 = 50_000;

/// Loops found and lost again after which the next one is not believed either.
const LOST_MAX: u32 = 4;

/// Loops that all ranks agreed on and did not come to again after which the next one is not believed either, and the seconds
/// that are waited in any case: a program that goes through message sizes leaves each of its loops for good.
const LEFT_MAX: u32 = 2;
const LEFT_SECONDS_MIN: f64 = 2.0;

/// Why looking longer for a main loop would not help.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum Hopeless {
    /// Loops were counted, and not come to again.
    #[error("{loops} loops were counted in {seconds:.0} s, and each was left for good")]
    LeftForGood {
        /// So many.
        loops: u32,
        /// In so long.
        seconds: f64,
    },
    /// Loops were found and lost again.
    #[error("{loops} loops were found in {seconds:.0} s, and each was soon left again")]
    Lost {
        /// So many.
        loops: u32,
        /// In so long.
        seconds: f64,
    },
    /// No loop was found.
    #[error("none showed in {calls} MPI calls of each rank")]
    NoneShowed {
        /// Calls of the rank that called least.
        calls: u64,
    },
}

/// The results of the looks so far.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    has_loop: bool,
    lost: u32,
    left: u32,
}

impl Patience {
    /// A look found the same loop on all ranks as the look before, or the first one.
    pub fn found(&mut self) {
        self.has_loop = true;
    }

    /// A look found no loop, or another one than the look before.
    pub fn none(&mut self) {
        self.lost += u32::from(std::mem::take(&mut self.has_loop));
    }

    /// The loop that all ranks were to count was not come to again by one of them.
    pub fn left(&mut self) {
        self.none();
        self.left += 1;
    }

    /// Why to stop looking, if it is time: after `seconds` in which the rank that called least made `calls`.
    pub fn ended(&self, seconds: f64, calls: u64) -> Option<Hopeless> {
        if seconds >= LEFT_SECONDS_MIN && self.left >= LEFT_MAX {
            return Some(Hopeless::LeftForGood { loops: self.left, seconds });
        }
        if seconds < SECONDS_MIN || self.has_loop {
            return None;
        }
        if self.lost >= LOST_MAX {
            return Some(Hopeless::Lost { loops: self.lost, seconds });
        }
        (calls >= CALLS_MANY).then_some(Hopeless::NoneShowed { calls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_that_are_left_for_good_are_not_many() {
        let mut patience = Patience::default();
        let said: Vec<bool> = (0..3)
            .map(|_| {
                patience.found();
                patience.left();
                patience.ended(LEFT_SECONDS_MIN, 0).is_some()
            })
            .collect();
        assert_eq!(said, [false, true, true]);
        assert!(patience.ended(1.0, 0).is_none(), "it may be set-up");
    }

    #[test]
    fn it_ends_when_looking_longer_would_not_help() {
        let few = CALLS_MANY - 1;
        let rows = [
            ("at once", 0, false, 0.1, CALLS_MANY, None),
            ("a slow program", 0, false, 19.0, few, None),
            ("many calls", 0, false, SECONDS_MIN, CALLS_MANY, Some("none showed in 50000")),
            ("many calls, a loop in sight", 0, true, 10.0, CALLS_MANY, None),
            ("lost once", 1, false, 10.0, few, None),
            ("lost again and again", LOST_MAX, false, 10.0, few, Some("4 loops were found in 10 s")),
            ("lost again and again, at once", LOST_MAX, false, 0.5, few, None),
        ];
        for (name, lost, in_sight, seconds, calls, expected) in rows {
            let mut patience = Patience::default();
            for _ in 0..lost {
                patience.found();
                patience.found();
                patience.none();
                patience.none();
            }
            if in_sight {
                patience.found();
            }
            let said = patience.ended(seconds, calls).map(|why| why.to_string());
            assert_eq!(said.is_some(), expected.is_some(), "{name}: {said:?}");
            assert!(said.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{name}");
        }
    }
}
