//! An error with its causes, for messages that leave the process or are kept as text.
//!
//! Next: the errors themselves stand in each crate's `error.rs`.

use crate::Pid;
use std::error::Error;

/// An error of somebody who is asked through a trait or a function that was handed in.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The error and all its causes in one line, parted by colons.
pub fn one_line(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (**cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The problem in a process, with its number, which most errors name themselves.
pub fn of_process(pid: Pid, said: &str) -> String {
    let own = format!("process {pid}");
    let names_it =
        said.match_indices(&own).any(|(at, _)| !said[at + own.len()..].starts_with(|c: char| c.is_ascii_digit()));
    if names_it { said.to_owned() } else { format!("{own}: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    #[test]
    fn a_process_is_named_once() {
        let rows = [
            ("no name", "it is gone", "process 12: it is gone"),
            ("named", "process 12 is gone", "process 12 is gone"),
            ("named later", "thread 3 of process 12 is gone", "thread 3 of process 12 is gone"),
            ("another one", "process 123 is gone", "process 12: process 123 is gone"),
        ];
        for (name, said, expected) in rows {
            assert_eq!(of_process(Pid(12), said), expected, "{name}");
        }
    }

    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no rank")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn causes_follow_the_error() {
        let inner = "x".parse::<u32>().expect_err("no number");
        assert_eq!(one_line(&inner), inner.to_string());
        assert_eq!(one_line(&Outer(inner)), "no rank: invalid digit found in string");
    }
}
