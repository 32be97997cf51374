//! The same work for many things that know nothing of each other, on as many processors as that is worth.
//!
//! Next: `subject`, which judges functions like this.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Things below which one more thread does not pay.
const PER_THREAD_MIN: usize = 256;
/// Things a thread takes at once: large functions lie side by side.
const BATCH: usize = 64;

/// The results of `work` for each of `things`, in their order.
pub(crate) fn side_by_side<T: Sync, R: Send>(things: &[T], work: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(things.len() / PER_THREAD_MIN);
    if threads <= 1 {
        return things.iter().map(work).collect();
    }
    let batches: Vec<(usize, &[T])> = things.chunks(BATCH).enumerate().collect();
    let next = AtomicUsize::new(0);
    let run = || -> Vec<(usize, Vec<R>)> {
        let taken = std::iter::from_fn(|| batches.get(next.fetch_add(1, Relaxed)));
        taken.map(|(index, batch)| (*index, batch.iter().map(work).collect())).collect()
    };
    let mut done: Vec<(usize, Vec<R>)> = std::thread::scope(|scope| {
        // Where there are as many threads as there may be, this one does it all.
        let begin = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let running: Vec<_> = (1..threads).filter_map(begin).collect();
        let own = run();
        let others = running.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        others.chain(own).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        for count in [0, 1, BATCH, PER_THREAD_MIN * 3, PER_THREAD_MIN * 5 + 1] {
            let things: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = things.iter().map(|thing| thing * 2).collect();
            assert_eq!(side_by_side(&things, &|thing| thing * 2), doubled, "{count}");
        }
    }
}
