//! An error with its causes, for messages that leave the process or are kept as text.
//!
//! Next: the errors themselves stand in each crate's `error.rs`.

use std::error::Error;

/// The error and all its causes in one line, parted by colons.
pub fn one_line(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (**cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

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
