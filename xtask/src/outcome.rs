//! How a command of the project ended, and so its exit code.
//!
//! Next: `main.rs`.

/// How a command that could be run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything asked for was done and holds.
    Done,
    /// It ran, and a check or test failed.
    Failed,
}
