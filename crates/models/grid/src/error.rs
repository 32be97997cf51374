//! Wrong questions: one clear error each, with the next step.
//!
//! A question that is right and has no answer is none of these: see [`crate::Impossible`].
//!
//! Next: `plan` and `facts`, which are checked before anything is computed.

use crate::routines::RoutineFault;

/// Wrong input, or facts that don't reach.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Text that describes no data.
    #[error("{text:?} describes no data: {why}; give NAME=dense:double:4096x4096@HOST")]
    NoData {
        /// The text.
        text: String,
        /// The reason.
        why: DataFault,
    },
    /// Data that nobody described.
    #[error("{step}: there are no data {name:?}; there are {known}")]
    UnknownData {
        /// The step that names them.
        step: String,
        /// Their name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Data that are nowhere when a step needs them.
    #[error("{step}: {name} has no place and no step before it gives it: write @HOST behind it, or give it before")]
    NoPlace {
        /// The step.
        step: String,
        /// The data.
        name: String,
    },
    /// Data that would be made twice.
    #[error("{step}: {name} is there already: each step gives data of its own")]
    GivenTwice {
        /// The step.
        step: String,
        /// The data.
        name: String,
    },
    /// A host of which nothing is known.
    #[error("unknown host {host:?}: {known}")]
    UnknownHost {
        /// Its name.
        host: String,
        /// Those that are known, in a sentence.
        known: String,
    },
    /// A figure that is too old.
    #[error(
        "{what} is {age_s:.0} s old, more than {age_max_s:.0} s: look again with `trimtab weather`, or accept older ones \
         (--age, \"age_s\")"
    )]
    Stale {
        /// The figure.
        what: String,
        /// Its age.
        age_s: f64,
        /// The most that is accepted.
        age_max_s: f64,
    },
    /// A figure that an answer needs and nobody gave.
    #[error("{what} is not known: `trimtab weather` looks at it, --weather FILE or \"facts\" give it")]
    NoFigure {
        /// The figure.
        what: String,
    },
    /// A figure that no host or link can have.
    #[error("{what} is {value}: {expected}")]
    NoNumber {
        /// The figure.
        what: String,
        /// Its value.
        value: f64,
        /// The values that it may have.
        expected: &'static str,
    },
    /// A time in the future.
    #[error("{what} is from {ahead_s:.0} s ahead of now: has a clock been set back?")]
    Ahead {
        /// The figure.
        what: String,
        /// How far.
        ahead_s: f64,
    },
    /// Facts as another version of trimtab writes them.
    #[error("facts have version {version}, and {understood} is understood")]
    FactsVersion {
        /// Theirs.
        version: u32,
        /// Ours.
        understood: u32,
    },
    /// Two facts of one thing.
    #[error("{what} is given twice, with different values")]
    Contradiction {
        /// The thing.
        what: String,
    },
    /// A plan that means nothing.
    #[error("{0}")]
    Plan(String),
    /// A routine that can't be asked so.
    #[error(transparent)]
    Routine(#[from] RoutineFault),
}

/// The reason why text describes no data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataFault {
    /// No name before the data.
    #[error("it has no name")]
    NoName,
    /// A name that is none.
    #[error("a name is letters, digits and _, a letter first")]
    WrongName,
    /// A place without a host.
    #[error("no host stands behind the @")]
    NoHost,
    /// No text.
    #[error("it is empty")]
    Empty,
    /// No kind of data.
    #[error(
        "{word:?} is none of dense:TYPE:ROWSxCOLUMNS, sparse:TYPE:ROWSxCOLUMNS:ENTRIES, vector:TYPE:LENGTH or bytes:SIZE"
    )]
    NoKind {
        /// The word in its place.
        word: String,
    },
    /// No type of elements.
    #[error("{word:?} is no type; types are {known}")]
    NoType {
        /// The word in its place.
        word: String,
        /// Those that there are.
        known: String,
    },
    /// No rows and columns.
    #[error("{text:?} is no ROWSxCOLUMNS")]
    NoSizes {
        /// The text in their place.
        text: String,
    },
    /// No count of rows, columns, elements or entries.
    #[error("{text:?} is no count: a whole number above zero, without a unit")]
    NoCount {
        /// The text in its place.
        text: String,
    },
    /// No amount of data.
    #[error("{text:?} is no amount of data: a number above zero, with B, kB, MB, GB, KiB, MiB or GiB")]
    NoAmount {
        /// The text in its place.
        text: String,
    },
    /// A sparse matrix without a count of its entries.
    #[error("a sparse matrix needs its entries, sparse:double:4096x4096:20000")]
    NoEntries,
    /// More entries than the matrix has places.
    #[error("{entries} entries are more than {rows} x {columns}")]
    TooManyEntries {
        /// Entries.
        entries: u64,
        /// Rows.
        rows: u64,
        /// Columns.
        columns: u64,
    },
    /// Beyond the sizes whose bytes are exact numbers.
    #[error("it is larger than 8 PiB")]
    TooLarge,
}
