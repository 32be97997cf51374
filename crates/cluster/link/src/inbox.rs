//! An owner that keeps its messages until the program takes them: an `async` one or a plain thread.
//!
//! It is bounded. When it fills, the tree waits for the program: no more commands and waves begin than are on their way.
//! The latest window of a stream replaces an earlier one. If it overflows nevertheless, the oldest go, and the program
//! can ask how many: a result or a command that is missing is never missing silently.
//!
//! Next: `handle` for other owners.

use crate::limits::{INBOX_BEHIND_COUNT, INBOX_COUNT_MAX};
use crate::owner::{Hand, Owner};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use trimtab_overlay::Told;

/// The end that the program holds.
#[derive(Debug)]
pub struct Inbox {
    shared: Arc<Slot>,
}

/// The end that the node holds.
#[derive(Debug)]
pub struct Filler {
    shared: Arc<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    kept: Mutex<Kept>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    told: VecDeque<Told>,
    dropped: u64,
    waker: Option<Waker>,
    /// The tree, while it waits for the program.
    tree: Option<Waker>,
    /// Threads that wait: only then is anybody woken, which is a call of the kernel.
    waiting: usize,
    is_over: bool,
}

/// An inbox, and the owner that fills it.
pub fn inbox() -> (Filler, Inbox) {
    let shared = Arc::new(Slot::default());
    (Filler { shared: shared.clone() }, Inbox { shared })
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing here panics half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner for Filler {
    fn told(&mut self, told: Told, _hand: &mut Hand<'_>) {
        let mut kept = self.shared.lock();
        kept.put(told);
        let (waker, is_awaited) = (kept.waker.take(), kept.waiting > 0);
        drop(kept);
        if is_awaited {
            self.shared.came.notify_one();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_behind(&self) -> bool {
        self.shared.lock().is_behind()
    }

    fn wake_when_taken(&self, waker: &Waker) {
        let mut kept = self.shared.lock();
        if kept.is_behind() {
            kept.tree = Some(waker.clone());
        } else {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let mut kept = self.shared.lock();
        kept.is_over = true;
        let waker = kept.waker.take();
        drop(kept);
        self.shared.came.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Kept {
    fn is_behind(&self) -> bool {
        self.told.len() >= INBOX_BEHIND_COUNT
    }

    /// The oldest; the tree goes on when half of what made it wait is taken.
    fn take(&mut self) -> Option<Told> {
        let told = self.told.pop_front();
        if self.told.len() <= INBOX_BEHIND_COUNT / 2
            && let Some(tree) = self.tree.take()
        {
            tree.wake();
        }
        told
    }

    fn put(&mut self, told: Told) {
        if let Told::Window { stream, .. } = &told {
            let is_older = |kept: &Told| matches!(kept, Told::Window { stream: of, .. } if of == stream);
            // Only what stands last: a window must not overtake the stream's opening.
            if self.told.back().is_some_and(is_older) {
                self.told.pop_back();
            }
        }
        self.told.push_back(told);
        if self.told.len() > INBOX_COUNT_MAX {
            self.told.pop_front();
            self.dropped += 1;
        }
    }
}

impl Inbox {
    /// The oldest that is there.
    pub fn try_next(&self) -> Option<Told> {
        self.shared.lock().take()
    }

    /// The next; none once the node has ended.
    pub async fn next(&self) -> Option<Told> {
        std::future::poll_fn(|context| {
            let mut kept = self.shared.lock();
            match kept.take() {
                Some(told) => Poll::Ready(Some(told)),
                None if kept.is_over => Poll::Ready(None),
                None => {
                    kept.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// As [`Inbox::next`] for a thread, which waits so long at most; none if nothing came or the node has ended.
    pub fn wait(&self, time_max: Duration) -> Option<Told> {
        let until = Instant::now() + time_max;
        let mut kept = self.shared.lock();
        loop {
            if let Some(told) = kept.take() {
                return Some(told);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || kept.is_over {
                return None;
            }
            kept.waiting += 1;
            kept = self.shared.came.wait_timeout(kept, left).unwrap_or_else(PoisonError::into_inner).0;
            kept.waiting -= 1;
        }
    }

    /// How many wait to be taken.
    pub fn waiting_count(&self) -> usize {
        self.shared.lock().told.len()
    }

    /// How many were dropped because the program didn't take them in time.
    pub fn dropped_count(&self) -> u64 {
        self.shared.lock().dropped
    }
}
