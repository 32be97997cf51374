//! Why a question about a program has no single answer: each with the facts and the next step.
//!
//! Next: [`crate::dwarf::Program`], which is asked.

/// Why a look-up has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// Nothing has this name.
    #[error("no {what} is called `{name}`{}", near_words(near))]
    NotFound {
        /// The kind of thing that was looked for: "source file", "type", ...
        what: &'static str,
        /// The name asked for.
        name: String,
        /// Names that are alike, at most some.
        near: Vec<String>,
    },
    /// Several different things have this name.
    #[error("`{name}` may be each of {}: say which {what}, with more of its name", candidates.join(", "))]
    Ambiguous {
        /// The kind of thing that was looked for.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// Full names of what it may be.
        candidates: Vec<String>,
    },
    /// A line from which no code was made.
    #[error("no code was made from {file}:{line}; {}", next_words(next))]
    NoCode {
        /// Full name of the source file.
        file: String,
        /// The line asked for, from 1.
        line: u32,
        /// The next line from which code was made.
        next: Option<u32>,
    },
    /// A table of the debugging information contradicts itself.
    #[error("damaged debugging information: {what}; rebuild the program, or do without names and types")]
    Damaged {
        /// The fault, in words.
        what: String,
    },
}

fn near_words(near: &[String]) -> String {
    match near {
        [] => "; was its part of the program compiled with -g?".to_string(),
        near => format!("; there is {}", near.join(", ")),
    }
}

fn next_words(next: &Option<u32>) -> String {
    match next {
        Some(line) => format!("the next line with code is {line}"),
        None => "no later line of it has any: was it compiled with -g?".to_string(),
    }
}
