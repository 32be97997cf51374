//! Why there is no tree of the shape that was asked for.
//!
//! Next: `shape` for the trees there are, `shape_file` for their text form.

/// Most nodes of a tree.
pub const NODE_COUNT_MAX: usize = 1 << 21;

/// Why there is no such tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadShape {
    /// A number is out of range.
    #[error("{what} is {value}, expected {low} to {high}")]
    Range {
        /// Which number.
        what: &'static str,
        /// The value that it is.
        value: u64,
        /// Its least value.
        low: u64,
        /// Its greatest value.
        high: u64,
    },
    /// The text of a tree is wrong.
    #[error("line {line}: {what}; a tree is written like `root => a b ; a => c d ;`")]
    Text {
        /// Where, from 1.
        line: usize,
        /// The fault, in words.
        what: String,
    },
}
