//! A place that breaks a rule.
//!
//! Next: the rules, in the sibling modules.

use std::fmt;

/// One place that breaks a rule, with what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the workspace.
    pub path: String,
    /// The line, from 1; 0 where the whole file is meant.
    pub line: usize,
    /// The fault and what to do.
    pub message: String,
}

impl Finding {
    pub(super) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding { path: path.to_string(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}
