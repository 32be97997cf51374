//! The syntax tree: what the text says, before anything is known about the program. Every node knows its place.
//!
//! Next: `parse`, which makes it; `print`, which writes it back; `resolve`, which gives it meaning.

use crate::error::Span;

/// A whole script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// Its probes, in the order of the text; `ir::Body::probe` counts these.
    pub probes: Vec<Probe>,
    /// Its declarations.
    pub declarations: Vec<Declaration>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// Points, an optional condition, and what to do there.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Where.
    pub points: Vec<Point>,
    /// Only if this holds.
    pub when: Option<Expr>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// The text of the whole probe.
    pub span: Span,
}

/// Where a probe goes, or what calls it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The kind of point.
    pub kind: PointKind,
    /// The text of it.
    pub span: Span,
}

/// A kind of point with its details.
#[derive(Clone, Debug, PartialEq)]
pub enum PointKind {
    /// Every entry of the functions that match.
    Entry(FunctionPattern),
    /// Every exit of the functions that match.
    Exit(FunctionPattern),
    /// Call instructions.
    Call(CallPoint),
    /// A loop.
    Loop(LoopPoint),
    /// Basic blocks of a function by number from 1 in the order of addresses; `None` means each.
    Block {
        /// The function.
        function: FunctionPattern,
        /// Which one.
        number: Option<u32>,
    },
    /// A source line.
    Line {
        /// The file as the debug information names it, or how that ends.
        file: String,
        /// From 1.
        line: u32,
        /// The end of the library's file name, if only its code is meant.
        library: Option<String>,
    },
    /// An instruction: an address in the process, or in the file of a library.
    Address {
        /// The library, if the address is one of its file's.
        library: Option<String>,
        /// The address.
        address: u64,
    },
    /// An instruction so many bytes behind a function's start.
    Offset {
        /// The function.
        function: FunctionPattern,
        /// In bytes.
        offset: u64,
    },
    /// trimtab's clock.
    Every {
        /// The period in microseconds.
        period_us: u64,
    },
    /// Once, as soon as possible.
    Once,
}

/// A function's name with `*`, `?` and `[...]`, and the library it must be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionPattern {
    /// The name or pattern.
    pub name: String,
    /// The end of the library's file name, as in `NAME@libm.so.6`.
    pub library: Option<String>,
}

impl FunctionPattern {
    /// `NAME` or `NAME@LIBRARY`.
    pub fn of(word: &str) -> Self {
        match word.rsplit_once('@') {
            Some((name, library)) if !name.is_empty() && !library.is_empty() => {
                FunctionPattern { name: name.trim_end_matches('@').to_string(), library: Some(library.to_string()) }
            }
            _ => FunctionPattern { name: word.to_string(), library: None },
        }
    }
}

/// Calls of one function in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPoint {
    /// Behind the call rather than before it.
    pub after: bool,
    /// The function that holds the call.
    pub caller: FunctionPattern,
    /// The pattern of the function that is called.
    pub callee: String,
    /// Which of them, from 1 in the order of addresses; `None` means each.
    pub number: Option<u32>,
}

/// A loop of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopPoint {
    /// When in the loop.
    pub edge: LoopEdge,
    /// The function.
    pub function: FunctionPattern,
    /// Numbers from 1 in the order of addresses: `1.2` is the second loop directly inside the first.
    pub path: Vec<u32>,
}

/// When a loop's probe runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEdge {
    /// At the start of every pass.
    Pass,
    /// When the loop is entered from outside.
    Entry,
    /// When the loop is left.
    Exit,
}

/// Variables declared in one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The scope of the variables.
    pub scope: Scope,
    /// Declared `double` rather than `int`.
    pub float: bool,
    /// Their names.
    pub names: Vec<(String, Span)>,
}

/// The scope of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One per thread, summed over threads and ranks.
    Sum,
    /// One per thread, each shown.
    Thread,
    /// One per process, shared by its threads.
    Process,
}

/// A line that says when the script records.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// `start after N hits of POINTS;` or `stop after N hits of POINTS;`
    After {
        /// Starts rather than stops.
        start: bool,
        /// How many.
        hits: u64,
        /// Of what.
        points: Vec<Point>,
        /// The text.
        span: Span,
    },
    /// `start when (EXPR);` or `stop when (EXPR);`
    When {
        /// Starts rather than stops.
        start: bool,
        /// The condition.
        condition: Expr,
    },
    /// `record while (EXPR);`
    While(Expr),
    /// `for 10 s;`
    For {
        /// In microseconds.
        duration_us: u64,
    },
}

/// A statement with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// The kind of statement.
    pub kind: StmtKind,
    /// The text of it.
    pub span: Span,
}

/// The kind of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `target = value`, or `target OP= value`; `++` and `--` are `+= 1` and `-= 1`.
    Assign {
        /// The variable that changes.
        target: Expr,
        /// The operator before `=`.
        operator: Option<BinaryOp>,
        /// The right side.
        value: Expr,
    },
    /// `let name = value`: a variable of this run of the body.
    Let {
        /// Its name.
        name: String,
        /// Its first value, which gives it its type.
        value: Expr,
    },
    /// `if (condition) ... else ...`
    If {
        /// The condition.
        condition: Expr,
        /// If it holds.
        then: Vec<Stmt>,
        /// If not.
        otherwise: Vec<Stmt>,
    },
    /// `while (condition) limit N ...`
    While {
        /// The condition.
        condition: Expr,
        /// Passes at most.
        limit: Option<Expr>,
        /// The body.
        body: Vec<Stmt>,
    },
    /// `for (start; condition; step) limit N ...`
    For {
        /// Before the loop.
        start: Option<Box<Stmt>>,
        /// The condition.
        condition: Expr,
        /// After each pass.
        step: Option<Box<Stmt>>,
        /// Passes at most; may be left out where start, condition and step show it.
        limit: Option<Expr>,
        /// The body.
        body: Vec<Stmt>,
    },
    /// `repeat N ...`
    Repeat {
        /// How often.
        count: Expr,
        /// The body.
        body: Vec<Stmt>,
    },
    /// `{ ... }`
    Block(Vec<Stmt>),
    /// `return`: leaves the body.
    Return,
    /// `break`: leaves the loop.
    Break,
    /// `stop()`: takes the probes out.
    Stop,
    /// `send("tag", values...)`
    Send {
        /// The tag.
        tag: String,
        /// The values.
        values: Vec<Expr>,
    },
    /// `call f(arguments...)`
    Call {
        /// The function's name.
        function: String,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
}

/// An expression with its place and height.
#[derive(Clone, Debug)]
pub struct Expr {
    /// The kind of expression.
    pub kind: ExprKind,
    /// The text of it.
    pub span: Span,
    /// Levels below and including this one; bounded, so that recursion over it is too.
    pub height: usize,
}

/// Equal if they mean the same: the place does not count.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The kind of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// Bits of an integer, and whether it is unsigned with 64 bits.
    Int(i64, bool),
    /// A float.
    Float(f64),
    /// A text.
    Text(String),
    /// A variable.
    Name(Name),
    /// `$name`, `$0`, `$ret`, `$rax`.
    Dollar(String),
    /// An operator with one operand.
    Unary(UnaryOp, Box<Expr>),
    /// An operator with two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `condition ? a : b`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `(type)value`
    Cast(TypeName, Box<Expr>),
    /// `sizeof(type)`
    SizeofType(TypeName),
    /// `sizeof(value)`
    SizeofValue(Box<Expr>),
    /// `value.member` or `value->member`
    Member {
        /// The struct or its address.
        value: Box<Expr>,
        /// The member's name.
        member: String,
        /// Written with `->`.
        arrow: bool,
    },
    /// `value[index]`
    Index(Box<Expr>, Box<Expr>),
    /// `name(arguments...)`: a function of the language.
    Function(String, Vec<Expr>),
}

/// A variable's name with what says whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// `x`: the script's variable, or else the program's.
    Plain(String),
    /// `::x` or `ns::x`: the program's.
    Global(String),
    /// `file.c::x`: a static of that file.
    Static {
        /// The file as the debug information names it, or how that ends.
        file: String,
        /// The variable.
        name: String,
    },
}

/// A type as written: a name and the number of stars behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// Words with one blank between, as `unsigned int` or `struct particle`.
    pub name: String,
    /// Stars.
    pub pointers: usize,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `!`
    Not,
    /// `~`
    Complement,
    /// `*`
    Load,
    /// `&`
    Address,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are C's")]
pub enum BinaryOp {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    BitAnd,
    BitXor,
    BitOr,
    And,
    Or,
}

/// Operators with two operands: mark, meaning, and how tightly they bind.
pub const BINARY_OPERATORS: &[(&str, BinaryOp, u8)] = &[
    ("*", BinaryOp::Multiply, 10),
    ("/", BinaryOp::Divide, 10),
    ("%", BinaryOp::Remainder, 10),
    ("+", BinaryOp::Add, 9),
    ("-", BinaryOp::Subtract, 9),
    ("<<", BinaryOp::ShiftLeft, 8),
    (">>", BinaryOp::ShiftRight, 8),
    ("<", BinaryOp::Less, 7),
    ("<=", BinaryOp::LessEqual, 7),
    (">", BinaryOp::Greater, 7),
    (">=", BinaryOp::GreaterEqual, 7),
    ("==", BinaryOp::Equal, 6),
    ("!=", BinaryOp::NotEqual, 6),
    ("&", BinaryOp::BitAnd, 5),
    ("^", BinaryOp::BitXor, 4),
    ("|", BinaryOp::BitOr, 3),
    ("&&", BinaryOp::And, 2),
    ("||", BinaryOp::Or, 1),
];

/// Operators with one operand.
pub const UNARY_OPERATORS: &[(&str, UnaryOp)] = &[
    ("-", UnaryOp::Negate),
    ("!", UnaryOp::Not),
    ("~", UnaryOp::Complement),
    ("*", UnaryOp::Load),
    ("&", UnaryOp::Address),
];

impl BinaryOp {
    /// How it is written.
    pub fn mark(self) -> &'static str {
        BINARY_OPERATORS.iter().find(|(_, operator, _)| *operator == self).map_or("?", |(mark, _, _)| mark)
    }
}

impl UnaryOp {
    /// How it is written.
    pub fn mark(self) -> &'static str {
        UNARY_OPERATORS.iter().find(|(_, operator)| *operator == self).map_or("?", |(mark, _)| mark)
    }
}
