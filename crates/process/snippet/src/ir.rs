//! The typed tree: probe bodies in which every name is resolved, every conversion is written out, and every loop has a
//! bound. The front end makes it from text and facts about the program; the back end makes machine code from it.
//!
//! Integers are 64 bits wide while they are computed with (wrapping; division by zero gives 0, shifts take their count
//! modulo 64), and are narrowed only when stored. Floats are 64 bits wide. Nothing in a body can fail: a load from an
//! address that is not readable yields 0 and is counted in the thread area's word for that.
//!
//! A body runs against three memories: the target's registers and memory at the point; the *thread area*, one per
//! thread, where sums, counts and histograms go without locked instructions; the *process area*, one per process, where
//! the few variables live that threads must see of each other. Both areas are shared with trimtab, which merges them.

use trimtab_types::ProcAddr;

/// A script, ready for the back end.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Bodies, in the order of the text.
    pub bodies: Vec<Body>,
    /// Every variable, user-made or implied, with its place.
    pub variables: Vec<Variable>,
    /// Texts that `send` uses as tags and formats, by number.
    pub texts: Vec<String>,
    /// Bytes of one thread area, headers included.
    pub thread_bytes: u32,
    /// Bytes of the process area.
    pub process_bytes: u32,
}

/// One probe's body.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// Which probe of the script it belongs to.
    pub probe: usize,
    /// When it runs.
    pub when: When,
    /// Its statements.
    pub statements: Vec<Statement>,
    /// Operations executed at most in one run; the front end refuses bodies beyond its limit.
    pub cost_max: u64,
}

/// The caller of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// A function's entry: arguments are where the ABI puts them, `rsp` points at the return address.
    Entry,
    /// A function's exit: return values are where the ABI puts them, `rsp` points at the return address.
    Exit,
    /// An instruction: any register may be live, flags too.
    At,
    /// trimtab's clock, every so many microseconds; runs on a thread of the target at a safe point, no registers.
    Every {
        /// Microseconds from one run to the next.
        period_us: u64,
    },
    /// Once, as soon as it can; no registers.
    Once,
}

/// Where a variable's bytes are, and how trimtab merges them.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// The name in the script.
    pub name: String,
    /// Which area.
    pub area: Area,
    /// Offset of its first byte in that area; a multiple of 8.
    pub offset: u32,
    /// The kind of value it holds.
    pub kind: Kind,
}

/// Which memory a variable is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// One per thread: never contended.
    Thread,
    /// One per process: updated by locked instructions.
    Process,
}

/// The kind of a variable: it decides how many words it has and how threads' and ranks' values merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One word, added over threads and ranks.
    Sum,
    /// As `Sum`, a float.
    SumFloat,
    /// One word, last value stored; not merged.
    Last,
    /// As `Last`, a float.
    LastFloat,
    /// Smallest value, then the number of values.
    Min,
    /// As `Min`, a float.
    MinFloat,
    /// Largest value, then the number of values.
    Max,
    /// As `Max`, a float.
    MaxFloat,
    /// Sum (float), then the number of values.
    Mean,
    /// [`HISTOGRAM_WORDS`] words: log2 histogram, then count, sum, min and max.
    Histogram,
    /// [`STACKS_WORDS`] words: pairs of stack hash and count, open addressing; the last pair counts what found no place.
    Stacks,
    /// Open calls of one probe pair: [`OPEN_CALL_BYTES`] times the number of all but the innermost, then
    /// [`OPEN_CALLS_MAX`] pairs of a time stamp and the complement of a stack pointer: the innermost (0 if none is open),
    /// then the others from the outermost on.
    OpenCalls,
}

/// Buckets of a log2 histogram: 0 for values below 1, then one per power of two up to 2^63; count, sum, min, max follow.
/// Its values are integers; the front end cuts floats.
pub const HISTOGRAM_BUCKETS: u32 = 65;
/// Words of a histogram.
pub const HISTOGRAM_WORDS: u32 = HISTOGRAM_BUCKETS + 4;
/// Words of a table of stack hashes.
pub const STACKS_WORDS: u32 = 2 * 64 + 2;
/// Calls of one function that a thread may have open at once; deeper ones have no elapsed time.
pub const OPEN_CALLS_MAX: u32 = 32;
/// Bytes of one of them.
pub const OPEN_CALL_BYTES: u64 = 16;

/// Fixed words at the start of each thread area.
pub mod thread_word {
    /// Loads that were refused because the address is not readable.
    pub const UNREADABLE: u32 = 0;
    /// Messages that found no room.
    pub const MESSAGES_DROPPED: u32 = 8;
    /// Elapsed times that were not known (entered before insertion, or too deep).
    pub const ELAPSED_UNKNOWN: u32 = 16;
    /// Nonzero while a body runs on this thread: probes hit in between (by a signal handler) do nothing.
    pub const BUSY: u32 = 24;
    /// Number of bodies skipped because of `BUSY`.
    pub const SKIPPED: u32 = 32;
    /// The area's own thread pointer.
    pub const OWNER: u32 = 40;
    /// Kernel's thread id, filled at the thread's first hit.
    pub const THREAD: u32 = 48;
    /// Number of the readable range that the address checked last was in: where the next check looks first.
    pub const LAST_RANGE: u32 = 56;
    /// First byte free for variables.
    pub const FIRST_FREE: u32 = 64;
}

/// Fixed words at the start of the process area.
pub mod process_word {
    /// Nonzero: probes record. `start` and `stop` conditions write it; bodies other than conditions look at it first.
    pub const RECORDING: u32 = 0;
    /// Set by `stop()`; trimtab sees it and takes the probes out.
    pub const STOPPED: u32 = 8;
    /// MPI rank, or -1.
    pub const RANK: u32 = 16;
    /// Number of ranks, or -1.
    pub const RANKS: u32 = 24;
    /// Number of readable ranges in the table at `RANGES`.
    pub const RANGE_COUNT: u32 = 32;
    /// Offset in the process area of the sorted table of readable ranges: pairs of first address and address behind.
    pub const RANGES: u32 = 40;
    /// Offset in the process area of the message ring.
    pub const MESSAGES: u32 = 48;
    /// Bytes of the message ring, a power of two.
    pub const MESSAGES_BYTES: u32 = 56;
    /// Bytes written to the ring so far.
    pub const MESSAGES_HEAD: u32 = 64;
    /// Bytes trimtab has read from it.
    pub const MESSAGES_TAIL: u32 = 72;
    /// Time stamp counter ticks per second, so that bodies can compute in nanoseconds.
    pub const TICKS_PER_SECOND: u32 = 80;
    /// 2^32 times nanoseconds per tick: `ns = ticks * this >> 32`.
    pub const NS_PER_TICK_SHIFTED: u32 = 88;
    /// Hits on threads that found no free thread area.
    pub const THREADS_DROPPED: u32 = 96;
    /// Number of writable ranges in the table at `WRITABLES`.
    pub const WRITABLE_COUNT: u32 = 104;
    /// Offset in the process area of the sorted table of writable ranges, formed as the one at `RANGES`.
    pub const WRITABLES: u32 = 112;
    /// Set by trimtab before it looks what is mapped; made 0 by whoever takes memory away, before `RANGE_COUNT`.
    pub const TABLES_SEEN: u32 = 120;
    /// First of [`HOT_RANGE_COUNT`] words with the address of a readable range that an address was in, or 0: where
    /// conditions look before anything is saved. Whoever takes a range away makes them 0 after `RANGE_COUNT`.
    pub const HOT_RANGES: u32 = 128;
    /// Number of those words. Places share them by chance.
    pub const HOT_RANGE_COUNT: u32 = 8;
    /// First byte free for variables.
    pub const FIRST_FREE: u32 = HOT_RANGES + 8 * HOT_RANGE_COUNT;
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// Stores into a word variable (`Sum`, `Last` and their float forms).
    Set {
        /// Index in [`Unit::variables`].
        variable: usize,
        /// The value that is stored, added or folded.
        value: Expression,
    },
    /// Adds to a word variable (`Sum`, `SumFloat`); in the process area with a locked instruction.
    Add {
        /// Index in [`Unit::variables`].
        variable: usize,
        /// The value that is stored, added or folded.
        value: Expression,
    },
    /// Folds a value into `Min`, `Max`, `Mean`, `Histogram` or `Last`.
    Fold {
        /// Index in [`Unit::variables`].
        variable: usize,
        /// The value that is stored, added or folded.
        value: Expression,
    },
    /// Counts the hash of the return addresses on the stack, up to `depth` frames by frame pointers, in a `Stacks`.
    CountStack {
        /// Index in [`Unit::variables`].
        variable: usize,
        /// Frames at most.
        depth: u8,
    },
    /// Remembers this call's entry time in an `OpenCalls`.
    OpenCall {
        /// Index in [`Unit::variables`].
        variable: usize,
    },
    /// Forgets the innermost open call (at exits, after `Elapsed` was used).
    CloseCall {
        /// Index in [`Unit::variables`].
        variable: usize,
    },
    /// Forgets the innermost open call, which was left without an exit.
    DropCall {
        /// Index in [`Unit::variables`].
        variable: usize,
    },
    /// Sets a temporary of this body, numbered from 0.
    Let {
        /// Its number.
        temporary: usize,
        /// The value that is stored, added or folded.
        value: Expression,
    },
    /// Runs one of two lists.
    If {
        /// Nonzero or not.
        condition: Expression,
        /// If it is not zero.
        then: Vec<Statement>,
        /// If it is zero.
        otherwise: Vec<Statement>,
    },
    /// Runs `body` while `condition` holds, at most `bound` times.
    While {
        /// Nonzero or not.
        condition: Expression,
        /// Passes at most.
        bound: u32,
        /// The statements that are repeated.
        body: Vec<Statement>,
    },
    /// Leaves the body.
    Return,
    /// Leaves the innermost `While`.
    Break,
    /// Stops all probes of the script, in this process at once, elsewhere as soon as trimtab sees it.
    Stop,
    /// Puts a message into the ring: tag's number, then the values. Strings are copied up to their bound.
    Send {
        /// Index in [`Unit::texts`].
        text: usize,
        /// The values that are sent.
        values: Vec<Sent>,
    },
    /// Calls a function of the target: only with `--allow-call`; integer arguments, at most six.
    Call {
        /// An address in the process.
        address: ProcAddr,
        /// Integer arguments.
        arguments: Vec<Expression>,
    },
    /// Stores into the target's memory: only with `--allow-write`.
    Store {
        /// An address in the process.
        address: Expression,
        /// Bytes in memory.
        width: Width,
        /// The value that is stored, added or folded.
        value: Expression,
    },
    /// Stores a float into the target's memory: only with `--allow-write`.
    StoreFloat {
        /// An address in the process.
        address: Expression,
        /// Bytes in memory.
        width: Width,
        /// The value that is stored, added or folded.
        value: Expression,
    },
    /// Stores into a register of the target at the point: only with `--allow-write`.
    SetRegister {
        /// Which register.
        register: Register,
        /// The value that is stored, added or folded.
        value: Expression,
    },
}

/// One value of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Sent {
    /// Signed 64-bit integer.
    Int(Expression),
    /// Unsigned, shown in hexadecimal.
    Address(Expression),
    /// Float.
    Float(Expression),
    /// The bytes at an address up to the first zero or `bytes_max` of them.
    Text {
        /// An address in the process.
        address: Expression,
        /// Bytes copied at most.
        bytes_max: u16,
    },
}

/// The same once it was computed.
#[derive(Clone, Debug, PartialEq)]
pub enum SentValue {
    /// As [`Sent::Int`].
    Int(i64),
    /// As [`Sent::Address`].
    Address(u64),
    /// As [`Sent::Float`].
    Float(f64),
    /// A text's bytes, without a zero.
    Text(Vec<u8>),
}

/// A value. The front end guarantees that `is_float` of operands fits each operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A constant.
    Int(i64),
    /// A constant.
    Float(f64),
    /// A general register of the target at the point, 64 bits.
    Register(Register),
    /// The low 64 bits of `xmmN` as a double.
    Vector(u8),
    /// The low 32 bits of `xmmN`, a single, widened.
    VectorSingle(u8),
    /// A word variable.
    Variable {
        /// Index in [`Unit::variables`].
        variable: usize,
    },
    /// A temporary of this body.
    Temporary {
        /// Its number.
        temporary: usize,
        /// True if it holds a float.
        float: bool,
    },
    /// Integer at an address of the target, widened to 64 bits.
    Load {
        /// An address in the process.
        address: Box<Expression>,
        /// Bytes in memory.
        width: Width,
        /// True if the top bit is a sign.
        signed: bool,
    },
    /// Float at an address of the target (4 or 8 bytes), widened.
    LoadFloat {
        /// An address in the process.
        address: Box<Expression>,
        /// Bytes in memory.
        width: Width,
    },
    /// Nanoseconds since this call's entry; -1 if not known.
    Elapsed {
        /// Index in [`Unit::variables`].
        variable: usize,
    },
    /// 1 if the innermost open call was left without an exit, as the stack pointer shows; else 0.
    CallWasLeft {
        /// Index in [`Unit::variables`].
        variable: usize,
        /// At an exit, whose own call is still open; else at an entry.
        at_exit: bool,
    },
    /// Nanoseconds, from the time stamp counter.
    Now,
    /// A word of the process area (`process_word`).
    ProcessWord(u32),
    /// A word of the thread area (`thread_word`).
    ThreadWord(u32),
    /// Kernel's number of the processor this thread runs on, without a system call (rdtscp or rdpid).
    Processor,
    /// Negation, bitwise not, logical not, absolute value, conversions.
    Unary(Unary, Box<Expression>),
    /// Arithmetic and comparison; a comparison yields 0 or 1.
    Binary(Binary, Box<Expression>, Box<Expression>),
    /// Both, the right one only if the left one is not zero; 0 or 1.
    And(Box<Expression>, Box<Expression>),
    /// Either, the right one only if the left one is zero; 0 or 1.
    Or(Box<Expression>, Box<Expression>),
    /// One of two.
    Select(Box<Expression>, Box<Expression>, Box<Expression>),
    /// 1 if the texts at the address and here are equal.
    TextEquals {
        /// An address in the process.
        address: Box<Expression>,
        /// Index in [`Unit::texts`].
        text: usize,
    },
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// Two's complement or float negation.
    Negate,
    /// Bitwise, integers only.
    Not,
    /// 1 if zero, else 0.
    IsZero,
    /// Absolute value.
    Absolute,
    /// Signed integer to float.
    ToFloat,
    /// Unsigned integer to float.
    UnsignedToFloat,
    /// Float to signed integer, towards zero, clamped; NaN gives 0.
    ToInt,
    /// Keeps the low bits and widens again.
    Narrow(Width, bool),
}

/// Operators with two operands of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the field's")]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    DivideUnsigned,
    Remainder,
    RemainderUnsigned,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    LessUnsigned,
    LessEqualUnsigned,
    Minimum,
    Maximum,
}

/// Bytes of a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// One byte.
    W8,
    /// Two bytes.
    W16,
    /// Four bytes.
    W32,
    /// Eight bytes.
    W64,
}

/// A general register, by its number in instruction encodings. `Rsp` is its value at the point; `Rip` the point's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the processor's")]
pub enum Register {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    Rip,
}
