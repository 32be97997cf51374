//! Trying again what a program spoilt by going on meanwhile, such as unloading a library right between planning and
//! writing. Every attempt begins with what is mapped by then, so it is the caller that makes everything anew.
//!
//! Next: `Error::is_passing`, which says what is worth another attempt.

use crate::error::Error;

/// Attempts at most.
const ATTEMPTS_MAX: u32 = 5;

/// An error that may pass if all is read anew.
pub trait Passing {
    /// True if the failure was due to what the program did meanwhile, and left nothing behind.
    fn is_passing(&self) -> bool;
}

impl Passing for Error {
    fn is_passing(&self) -> bool {
        Error::is_passing(self)
    }
}

/// Carries out `attempt`, and again with the next number (from 0) as long as its error is passing, a few times in all.
/// An attempt must read the process anew: maps, modules, plan.
///
/// # Errors
/// That of the last attempt.
pub fn try_again<T, E: Passing>(mut attempt: impl FnMut(u32) -> Result<T, E>) -> Result<T, E> {
    for number in 1..ATTEMPTS_MAX {
        match attempt(number - 1) {
            Err(error) if error.is_passing() => {}
            other => return other,
        }
    }
    attempt(ATTEMPTS_MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_types::Pid;

    fn gone() -> Error {
        Error::CodeGone { pid: Pid(1), function: "f".into() }
    }

    fn final_error() -> Error {
        Error::NothingToDo { pid: Pid(1) }
    }

    /// Fails so often, in this way, and then succeeds; what comes out, and the number of attempts.
    fn outcome(failures: u32, error: fn() -> Error) -> (Result<u32, String>, u32) {
        let mut attempts = 0;
        let result = try_again(|number| {
            assert_eq!(number, attempts, "attempts are numbered");
            attempts += 1;
            if attempts <= failures { Err(error()) } else { Ok(attempts) }
        });
        (result.map_err(|error| error.to_string()), attempts)
    }

    #[test]
    fn only_what_passes_is_tried_again_and_not_for_ever() {
        assert_eq!(outcome(0, gone), (Ok(1), 1));
        assert_eq!(outcome(3, gone), (Ok(4), 4));
        let (result, attempts) = outcome(u32::MAX, gone);
        assert_eq!(attempts, ATTEMPTS_MAX);
        assert!(result.is_err_and(|error| error.contains("try again")));
        assert_eq!(outcome(1, final_error), (Err(final_error().to_string()), 1));
    }
}
