//! Why a body can't become code. Most of these mean that front end and back end disagree; the rest name what the
//! environment lacks.
//!
//! Next: `super::compile`, which returns them.

use crate::ir;
use thiserror::Error;
use trimtab_types::ProcAddr;

/// Why a body can't become code.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EmitError {
    /// A branch or a 32-bit displacement does not reach.
    #[error("{to:#x} is out of reach of code at {from:#x}: place them within 2 GiB of each other")]
    OutOfReach {
        /// Where the code lies.
        from: ProcAddr,
        /// The address that it refers to.
        to: ProcAddr,
    },
    /// The number of thread areas is unusable.
    #[error("{count} thread areas: take a power of two, at least 2")]
    ThreadCount {
        /// The number.
        count: u32,
    },
    /// The distance of thread areas is unusable.
    #[error("thread areas {bytes} bytes apart: take at least 64 and less than 2^31")]
    ThreadStride {
        /// The distance.
        bytes: u32,
    },
    /// A variable that the unit does not have.
    #[error("the script has no variable number {variable}")]
    UnknownVariable {
        /// Its number.
        variable: usize,
    },
    /// A text that the unit does not have.
    #[error("the script has no text number {text}")]
    UnknownText {
        /// Its number.
        text: usize,
    },
    /// A statement on a variable that holds something else.
    #[error("{what} does not fit variable number {variable}, which is a {kind:?} in the {area:?} area")]
    Kind {
        /// The statement or expression.
        what: &'static str,
        /// The variable.
        variable: usize,
        /// The kind of value it holds.
        kind: ir::Kind,
        /// Where it is.
        area: ir::Area,
    },
    /// A float where an integer is needed, or the other way round.
    #[error("{what} mixes integers and floats: convert one of them")]
    Mixed {
        /// The operator or place.
        what: &'static str,
    },
    /// An operator that floats do not have.
    #[error("floats have no operator {operator:?}")]
    FloatOperator {
        /// The operator.
        operator: ir::Binary,
    },
    /// Bodies compiled together that run at different points, or none at all.
    #[error("{count} bodies of different kinds of points can't be compiled together")]
    NotTogether {
        /// Their number.
        count: usize,
    },
    /// A register or the stack in a body that runs at no point of the program.
    #[error("a body that runs by the clock or once has no registers")]
    NoRegisters,
    /// A vector register beyond `xmm15`.
    #[error("xmm{number} does not exist: take xmm0 to xmm15")]
    VectorRegister {
        /// Its number.
        number: u8,
    },
    /// A register that can't be assigned.
    #[error("{register:?} can't be assigned at a probe")]
    FixedRegister {
        /// The register.
        register: ir::Register,
    },
    /// A `call` without a way to keep vector registers.
    #[error("`call` needs the processor's XSAVE, and the environment names no area for it")]
    NoVectorSave,
    /// More arguments than registers.
    #[error("a call of {count} arguments: at most {max} are passed in registers")]
    Arguments {
        /// The number.
        count: usize,
        /// The largest possible.
        max: usize,
    },
    /// A `break` that is in no loop.
    #[error("`break` stands outside of every loop")]
    BreakOutsideLoop,
    /// A message with more values than their kinds have room for.
    #[error("a message of {count} values: at most {max}")]
    MessageValues {
        /// Their number.
        count: usize,
        /// The largest possible.
        max: usize,
    },
    /// A message that is larger than any ring.
    #[error("a message of {bytes} bytes: at most {max}")]
    MessageTooLong {
        /// Its bytes.
        bytes: u64,
        /// The largest possible.
        max: u64,
    },
    /// More temporaries and values than the program's stack should have to hold.
    #[error("the body needs {bytes} bytes of the program's stack: at most {max}; send fewer values at once")]
    FrameTooLarge {
        /// Its bytes.
        bytes: u32,
        /// The largest possible.
        max: u32,
    },
    /// Saved registers kept changing; a bug of the back end.
    #[error("the choice of saved registers did not settle; please report the script")]
    Unsettled,
    /// The assembler refused an instruction; a bug of the back end.
    #[error("the assembler refused: {message}; please report the script")]
    Assembler {
        /// Its message.
        message: String,
    },
}

impl From<iced_x86::IcedError> for EmitError {
    fn from(error: iced_x86::IcedError) -> EmitError {
        EmitError::Assembler { message: error.to_string() }
    }
}

/// Code was emitted, or not.
pub(crate) type Emitted = Result<(), EmitError>;
