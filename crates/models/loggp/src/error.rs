//! Samples that decide nothing, and questions without an answer.
//!
//! Next: `fit`, which asks for samples; `collective` for questions.

/// Why there is no number.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A line needs more.
    #[error("messages of {sizes} sizes were timed, and a line needs {needed}")]
    TooFewSizes {
        /// Sizes.
        sizes: usize,
        /// Sizes that are needed.
        needed: usize,
    },
    /// All sizes lie together, so that time per message and time per byte can't be told apart.
    #[error(
        "all timed messages have between {least} and {most} bytes: time per message and per byte can't be told apart; \
         the largest needs {ratio} times the bytes of the smallest"
    )]
    TooAlike {
        /// Smallest size.
        least: u64,
        /// Largest size.
        most: u64,
        /// The ratio that is needed.
        ratio: u64,
    },
    /// A number that can't be.
    #[error("{what} is negative, infinite or no number")]
    NoNumber {
        /// The number.
        what: &'static str,
    },
    /// A collective of nobody.
    #[error("a collective needs 2 ranks at least, and at most {most}")]
    NoRanks {
        /// Ranks at most.
        most: u32,
    },
}
