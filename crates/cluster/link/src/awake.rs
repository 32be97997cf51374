//! Staying awake for what comes soon: to sleep and be woken takes longer than the wait where packets go to and fro.
//!
//! A processor that has gone idle takes 20 us and more to be woken in a virtual machine, a packet on loopback 4. So a
//! thread of nodes whose last few waits were short doesn't sleep through the next one at once, but looks again for a
//! while. Threads at rest, and those whose waits are as long as a network's, never do. A node of few connections asks
//! them themselves, which takes half as long as to ask the kernel which of many has something.
//!
//! Others come first: but for the first few looks of a wait, each offers the processor to whoever wants it, and a thread
//! that was kept from its processor meanwhile sleeps as before, since who sleeps is let in sooner than who looks. (The
//! first few don't, because two threads that hand one processor to each other are left on it by the kernel.)
//!
//! Next: `driver`, which waits.

use crate::limits::{ALONE_TIME_MAX, AWAKE_TIME_MAX, AWAKE_WAITS_MAX, AWAKE_WAITS_MIN, CROWDED_TIME_MIN};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::Context;
use std::time::Instant;

thread_local! {
    static WAITS: RefCell<Waits> = const { RefCell::new(Waits::new()) };
}

/// What a thread's waits were like.
#[derive(Debug)]
struct Waits {
    /// When everything that had come was done; none while something is not.
    since: Option<Instant>,
    /// How many in a row were short.
    short_count: u32,
    /// How many it takes before one is stayed awake for.
    needed_count: u32,
    /// True if a driver of the thread stays awake: one does for all.
    is_awake: bool,
}

/// What a driver that stays awake does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Look,
    Sleep,
}

impl Waits {
    const fn new() -> Self {
        Waits { since: None, short_count: 0, needed_count: AWAKE_WAITS_MIN, is_awake: false }
    }

    fn came(&mut self, now: Instant) {
        let Some(since) = self.since.take() else { return };
        if now.saturating_duration_since(since) > AWAKE_TIME_MAX {
            self.short_count = 0;
            return;
        }
        self.short_count = self.short_count.saturating_add(1);
        if self.is_awake {
            self.needed_count = (self.needed_count / 2).max(AWAKE_WAITS_MIN);
        }
    }

    /// Everything is done; whether the driver that says so is to stay awake.
    fn begin(&mut self, now: Instant) -> bool {
        self.since = Some(now);
        let stays = !self.is_awake && self.short_count >= self.needed_count;
        self.is_awake |= stays;
        stays
    }

    /// True if the wait is so young that the processor isn't offered to others.
    fn is_young(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) < ALONE_TIME_MAX)
    }

    /// Others had the processor from `before` to `now`.
    fn looked(&mut self, before: Instant, now: Instant) -> Next {
        let is_crowded = now.saturating_duration_since(before) >= CROWDED_TIME_MIN;
        if is_crowded {
            self.needed_count = (self.needed_count * 2).min(AWAKE_WAITS_MAX);
        }
        // What came meanwhile and left the driver nothing to do ended a wait, and another one began.
        let since = *self.since.get_or_insert(now);
        let is_over = now.saturating_duration_since(since) > AWAKE_TIME_MAX;
        if is_crowded || is_over {
            self.short_count = 0;
            return Next::Sleep;
        }
        Next::Look
    }
}

/// Something has come for a node of this thread.
pub(crate) fn came(now: Instant) {
    WAITS.with_borrow_mut(|waits| waits.came(now));
}

/// A driver's wait, which it stays awake for or not.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    is_awake: bool,
}

impl Wait {
    /// A wait begins: everything is done. Whether it is one to stay awake for.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        self.is_awake = WAITS.with_borrow_mut(|waits| waits.begin(now));
        self.is_awake
    }

    /// True if it is one that is stayed awake for.
    pub(crate) fn is_awake(&self) -> bool {
        self.is_awake
    }

    /// Nothing had come at a look: lets others have the processor. Whether it is time for another look.
    pub(crate) fn goes_on(&mut self, looked: Instant) -> bool {
        if WAITS.with_borrow(|waits| waits.is_young(looked)) {
            return true;
        }
        rustix::thread::sched_yield();
        let next = WAITS.with_borrow_mut(|waits| waits.looked(looked, Instant::now()));
        if next == Next::Sleep {
            self.end();
        }
        next == Next::Look
    }

    /// Something is due.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.is_awake) {
            WAITS.with_borrow_mut(|waits| waits.is_awake = false);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // A thread that ends has no waits any more.
        let is_awake = std::mem::take(&mut self.is_awake);
        let _gone = WAITS.try_with(|waits| waits.borrow_mut().is_awake &= !is_awake);
    }
}

/// The task is polled again when the runtime has looked at everything without waiting.
pub(crate) fn look_again(context: &mut Context<'_>) {
    // It is pending, and has said so to the runtime.
    let _pending = pin!(tokio::task::yield_now()).poll(context);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SHORT: Duration = Duration::from_micros(20);

    /// Some waits in a row; whether the one behind them is stayed awake for.
    fn after(waits: &mut Waits, now: &mut Instant, lengths: &[Duration]) -> bool {
        for length in lengths {
            waits.begin(*now);
            waits.is_awake = false;
            *now += *length;
            waits.came(*now);
        }
        waits.begin(*now)
    }

    #[test]
    fn only_a_row_of_short_waits_is_followed_by_one_awake() {
        let mut now = Instant::now();
        let short = [SHORT; AWAKE_WAITS_MIN as usize];
        assert!(!after(&mut Waits::new(), &mut now, &[]));
        assert!(!after(&mut Waits::new(), &mut now, &short[1..]));
        assert!(after(&mut Waits::new(), &mut now, &short));
        // A beat between them, as at rest.
        let long = [SHORT, SHORT, Duration::from_millis(200), SHORT, SHORT, SHORT];
        assert!(!after(&mut Waits::new(), &mut now, &long));
        assert!(!after(&mut Waits::new(), &mut now, &[AWAKE_TIME_MAX * 2; 100]));
    }

    #[test]
    fn what_comes_while_something_is_being_done_is_no_wait() {
        let (mut waits, now) = (Waits::new(), Instant::now());
        waits.begin(now);
        for _ in 0..100 {
            waits.came(now + SHORT);
        }
        assert_eq!(waits.short_count, 1);
    }

    #[test]
    fn one_of_a_thread_stays_awake_and_not_for_ever() {
        let (mut waits, mut now) = (Waits::new(), Instant::now());
        assert!(after(&mut waits, &mut now, &[SHORT; 8]));
        assert!(!waits.begin(now), "another node of the thread");
        assert!(waits.is_young(now) && !waits.is_young(now + ALONE_TIME_MAX));
        assert_eq!(waits.looked(now, now + SHORT), Next::Look);
        let late = now + AWAKE_TIME_MAX + SHORT;
        assert_eq!(waits.looked(late - SHORT, late), Next::Sleep);
        waits.is_awake = false;
        waits.came(late);
        assert!(!waits.begin(late), "the row is broken");
    }

    #[test]
    fn what_comes_and_leaves_nothing_to_do_does_not_keep_it_awake() {
        let (mut waits, mut now) = (Waits::new(), Instant::now());
        assert!(after(&mut waits, &mut now, &[SHORT; 8]));
        // A beat, that another task of the thread read and that needs no answer.
        waits.came(now + SHORT);
        let mut looks = 0;
        while waits.looked(now, now + SHORT) == Next::Look {
            (now, looks) = (now + SHORT, looks + 1);
            assert!(looks <= 2 * AWAKE_TIME_MAX.as_micros() / SHORT.as_micros(), "it looks for ever");
        }
        assert_eq!(waits.short_count, 0);
    }

    #[test]
    fn where_others_compute_it_takes_ever_more() {
        let (mut waits, mut now) = (Waits::new(), Instant::now());
        let mut needed = AWAKE_WAITS_MIN;
        for _ in 0..40 {
            assert!(after(&mut waits, &mut now, &vec![SHORT; needed as usize]));
            assert_eq!(waits.looked(now, now + CROWDED_TIME_MIN), Next::Sleep);
            waits.is_awake = false;
            needed = (needed * 2).min(AWAKE_WAITS_MAX);
            assert_eq!(waits.needed_count, needed);
        }
        // Waits that end while it is awake show that nobody else wants the processor any more.
        assert!(after(&mut waits, &mut now, &vec![SHORT; needed as usize]));
        for _ in 0..40 {
            now += SHORT;
            waits.came(now);
            waits.begin(now);
        }
        assert_eq!(waits.needed_count, AWAKE_WAITS_MIN);
    }
}
