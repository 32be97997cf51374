//! Why a point of a script means no place in a process, in words for the person who wrote it.
//!
//! Next: `places` and `debug::lines`, which look for places; `points`, which lists them.

use trimtab_session::Obstacle;
use trimtab_symbols::dwarf::LookupError;

/// The reason why there is no place.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoPlace {
    /// The point is an entry, an exit, or no place at all.
    #[error("it is no place inside a function")]
    NotInside,
    /// The pattern means no function.
    #[error("no function matches `{pattern}`")]
    NoFunction {
        /// As it is written.
        pattern: String,
    },
    /// The function's code, or the place in it, can't be probed.
    #[error("{at}: {obstacle}")]
    Obstacle {
        /// The function, with the offset in it if there is one.
        at: String,
        /// Why.
        obstacle: Obstacle,
    },
    /// The ways into a loop or out of it are not all known, or can't be probed.
    #[error("{function}: {reason}")]
    Edges {
        /// The function.
        function: String,
        /// Why.
        reason: NoEdges,
    },
    /// No call there is one of the function that is meant.
    #[error("no such call of `{callee}`; calls there: {others}")]
    NoCall {
        /// As it is written.
        callee: String,
        /// The functions that are called there.
        others: String,
    },
    /// A call can't be seen to come back.
    #[error(transparent)]
    Behind(#[from] NotBehind),
    /// The function has other loops.
    #[error("{function} has no loop {number}; {loops}")]
    NoLoop {
        /// The function.
        function: String,
        /// The number that is meant.
        number: String,
        /// The loops it has.
        loops: String,
    },
    /// The function has fewer blocks.
    #[error("{function} has blocks 1 to {count}")]
    NoBlock {
        /// The function.
        function: String,
        /// How many.
        count: usize,
    },
    /// The library is not loaded.
    #[error("no library `{name}` is loaded")]
    NoLibrary {
        /// As it is written.
        name: String,
    },
    /// No module has the address.
    #[error("no code is known at {address:#x}")]
    NoCode {
        /// In the process.
        address: u64,
    },
    /// No symbol or unwind entry has the address.
    #[error("no function is known around {address:#x}")]
    NoFunctionAround {
        /// In the process.
        address: u64,
    },
    /// None of a line's places can be probed; the first one's reason.
    #[error("{file}:{line} can't be probed: {first}")]
    Line {
        /// The source file.
        file: String,
        /// The line in it.
        line: u32,
        /// Of its first place.
        first: Box<NoPlace>,
    },
    /// Nothing says where lines are.
    #[error("{part} has debugging information: compile it with -g")]
    NoDebugging {
        /// "no part of" the program, or of which library.
        part: String,
    },
    /// The debugging information has no such line.
    #[error(transparent)]
    NoLine(#[from] LookupError),
}

/// Why no place behind a call is passed only when that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBehind {
    /// The function that is called never returns.
    #[error("the call does not come back")]
    NoReturn,
    /// Control comes there by other ways too.
    #[error("other ways lead to {address:#x} behind the call too; use `exit` of the called function")]
    OtherWays {
        /// In the process.
        address: u64,
    },
}

/// Why not all ways into a loop or out of it can be probed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEdges {
    /// The code, or one of the ways.
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    /// A jump may lead anywhere.
    #[error("a jump of the function could not be followed, so there may be other ways; use `loop pass`")]
    Incomplete,
    /// The loop has several headers.
    #[error("it is entered at several places; use blocks of it")]
    Irreducible,
    /// Its first block is the function's.
    #[error("it begins with the function, which is entered there too; use `loop pass` or `entry`")]
    BeginsWithFunction,
    /// The code before it is not known.
    #[error("nothing is seen to lead into it; use `loop pass`")]
    NoWayIn,
    /// It never ends, or only by calls.
    #[error("nothing is seen to lead out of it")]
    NoWayOut,
}

/// Why a point that a function has can't be probed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The code there.
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    /// The ways of a loop.
    #[error(transparent)]
    Edges(#[from] NoEdges),
    /// A call that is not seen to come back.
    #[error(transparent)]
    Behind(#[from] NotBehind),
    /// An exit is probed with the entry, or not at all.
    #[error("its entry can't be probed: {0}")]
    Entry(Obstacle),
    /// All exits are probed, or none.
    #[error("another exit can't be probed: {0}")]
    OtherExit(Obstacle),
    /// All ways of a loop are probed, or none.
    #[error("another way can't be probed: {0}")]
    OtherWay(Obstacle),
    /// A loop without a patch.
    #[error("")]
    Nothing,
}
