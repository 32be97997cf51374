//! The same work for several ranks at once, each in a thread; where there are as many threads as there may be, one rank after
//! the other. Probes come out in any case.
//!
//! Next: `team`, which puts probes in and takes them out like this.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Result, ScopedJoinHandle, scope};

/// Bytes of a thread's stack, as threads have by themselves.
const STACK_BYTES: usize = 2 << 20;

/// The results of `work` for all things, in their order; an error where it panicked.
pub(crate) fn at_once<T: Send, R: Send>(things: &mut [T], work: impl Fn(&mut T) -> R + Sync) -> Vec<Result<R>> {
    with_stacks(STACK_BYTES, things, work)
}

fn with_stacks<T: Send, R: Send>(
    stack_bytes: usize,
    things: &mut [T],
    work: impl Fn(&mut T) -> R + Sync,
) -> Vec<Result<R>> {
    // A thread that doesn't begin leaves its thing to this one.
    let things: Vec<Mutex<&mut T>> = things.iter_mut().map(Mutex::new).collect();
    let work_on = |thing: &Mutex<&mut T>| work(&mut thing.lock().unwrap_or_else(PoisonError::into_inner));
    let work_on = &work_on;
    scope(|scope| {
        let begin = |thing| Builder::new().stack_size(stack_bytes).spawn_scoped(scope, move || work_on(thing)).ok();
        let threads: Vec<Option<ScopedJoinHandle<'_, R>>> = things.iter().map(begin).collect();
        let end = |(thread, thing): (Option<ScopedJoinHandle<'_, R>>, &Mutex<&mut T>)| match thread {
            Some(thread) => thread.join(),
            None => Ok(work_on(thing)),
        };
        threads.into_iter().zip(&things).map(end).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_done_with_and_without_threads() {
        let here = std::thread::current().id();
        // No thread gets a stack of more than there are addresses.
        for (stack_bytes, is_here) in [(STACK_BYTES, false), (1 << 50, true)] {
            let mut numbers: Vec<u64> = (0..5).collect();
            let double = |number: &mut u64| {
                *number *= 2;
                (*number, std::thread::current().id() == here)
            };
            let done: Vec<_> = with_stacks(stack_bytes, &mut numbers, double).into_iter().map(Result::ok).collect();
            let expected: Vec<_> = [0, 2, 4, 6, 8].into_iter().map(|number| Some((number, is_here))).collect();
            assert_eq!((done, numbers), (expected, vec![0, 2, 4, 6, 8]), "{stack_bytes}");
        }
    }

    #[test]
    fn one_that_fails_takes_no_other_with_it() {
        let done = at_once(&mut [1, 2, 3], |number| assert_ne!(*number, 2));
        assert_eq!(done.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    }
}
