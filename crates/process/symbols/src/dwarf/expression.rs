//! The place of a variable by DWARF, as a tree that code can be made from.
//!
//! DWARF describes a small stack machine; here its operations are run on trees instead of numbers, once, so that
//! whoever needs the value walks a tree of bounded size. Loops, calls and values in two places at a time are not
//! trees: they are said to be unsupported.
//!
//! Next: `place` for what an expression is for.

use super::units::{Slice, Unit, Units};
use gimli::{Operation, UnitOffset};
use serde::{Deserialize, Serialize};
use trimtab_types::FileAddr;

/// Nodes of one expression at most; compilers write about five.
const NODES_MAX: usize = 512;
/// Operations of one expression at most.
const OPERATIONS_MAX: usize = 1024;
/// Pieces of one variable at most.
const PIECES_MAX: usize = 64;
/// Expressions within expressions (what a register held at entry).
const NESTING_MAX: usize = 2;

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ValueLocation {
    /// In memory, at the address this gives.
    Memory(Expression),
    /// In a register, by its DWARF number. Smaller values are in its low bits.
    Register(u16),
    /// Nowhere, but this gives it.
    Value(Expression),
    /// Nowhere, but these are its bytes.
    Bytes(Vec<u8>),
    /// In several places, from its first byte on.
    Pieces(Vec<ValuePiece>),
    /// Nowhere: the compiler dropped it.
    Gone,
    /// In a place that can't be expressed here, with the reason.
    Unsupported(String),
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ValuePiece {
    /// Where it is; never in further pieces.
    pub place: ValueLocation,
    /// How long it is.
    pub size_bits: u64,
    /// Where it begins in that place.
    pub offset_bits: u64,
}

/// A calculation on 64-bit numbers that wraps around.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Expression {
    /// A number.
    Constant(u64),
    /// An address in the file; a process adds its load bias.
    Address(FileAddr),
    /// The value of a register, by its DWARF number.
    Register(u16),
    /// The value that a register had when the function was entered.
    RegisterAtEntry(u16),
    /// The frame's base (CFA): the stack pointer before the call that entered the function.
    FrameBase,
    /// The frame base of the enclosing function: occurs in types whose shape depends on local variables.
    FunctionBase,
    /// The address of byte `0` of the thread's copy of this file's thread-local data, plus the operand.
    ThreadLocal(Box<Expression>),
    /// The address of the object whose type is described.
    Object,
    /// The value in memory: `bytes` bytes, zero-extended.
    Load {
        /// Where.
        addr: Box<Expression>,
        /// How many, 1 to 8.
        bytes: u8,
    },
    /// Of one operand.
    Unary(UnaryOperator, Box<Expression>),
    /// Of two operands.
    Binary(BinaryOperator, Box<Expression>, Box<Expression>),
}

/// An operator of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UnaryOperator {
    /// Absolute value.
    Abs,
    /// Two's complement.
    Negate,
    /// Each bit.
    Not,
    /// The low `8 * bytes` bits, with their sign where `signed`.
    Narrow {
        /// How many bytes, 1 to 8.
        bytes: u8,
        /// Sign-extended, else zero-extended.
        signed: bool,
    },
}

/// An operator of two operands; comparisons are signed and give 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    DivideSigned,
    RemainderUnsigned,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Expression {
    /// `self` plus a constant, folded.
    #[must_use]
    pub fn plus(self, offset: u64) -> Expression {
        match self {
            Expression::Constant(value) => Expression::Constant(value.wrapping_add(offset)),
            Expression::Address(addr) => Expression::Address(FileAddr(addr.0.wrapping_add(offset))),
            expression if offset == 0 => expression,
            Expression::Binary(BinaryOperator::Add, left, right) if matches!(*right, Expression::Constant(_)) => {
                let right = right.plus(offset);
                Expression::Binary(BinaryOperator::Add, left, Box::new(right))
            }
            expression => {
                Expression::Binary(BinaryOperator::Add, Box::new(expression), Box::new(Expression::Constant(offset)))
            }
        }
    }

    /// How many nodes it has.
    fn nodes(&self) -> usize {
        1 + match self {
            Expression::ThreadLocal(inner) | Expression::Load { addr: inner, .. } | Expression::Unary(_, inner) => {
                inner.nodes()
            }
            Expression::Binary(_, left, right) => left.nodes() + right.nodes(),
            _ => 0,
        }
    }

    /// True if it, or a part of it, satisfies a condition.
    pub fn any(&self, is_wanted: &impl Fn(&Expression) -> bool) -> bool {
        is_wanted(self)
            || match self {
                Expression::ThreadLocal(inner) | Expression::Load { addr: inner, .. } | Expression::Unary(_, inner) => {
                    inner.any(is_wanted)
                }
                Expression::Binary(_, left, right) => left.any(is_wanted) || right.any(is_wanted),
                _ => false,
            }
    }
}

/// Turns DWARF expressions of one unit into trees.
pub(crate) struct Reader<'r, 'u, 'a> {
    pub units: &'r Units<'a>,
    pub unit: &'u Unit<'a>,
    /// The base from which `DW_OP_fbreg` counts.
    pub function_base: &'r Expression,
}

/// A machine in the middle of an expression.
struct Machine {
    stack: Vec<Expression>,
    nodes: usize,
    pieces: Vec<ValuePiece>,
    /// The place by the operations so far, if it is not on the stack.
    place: Option<ValueLocation>,
}

type Step<T> = Result<T, String>;

impl<'a> Reader<'_, '_, 'a> {
    /// Where an expression says that something is. `initial` is what the stack begins with.
    pub fn place(&self, expression: gimli::Expression<Slice<'a>>, initial: Option<Expression>) -> ValueLocation {
        if expression.0.is_empty() {
            return ValueLocation::Gone;
        }
        self.run(expression, initial, 0).unwrap_or_else(ValueLocation::Unsupported)
    }

    /// The value that an expression calculates: of a bound, or of a member's offset.
    pub fn value(&self, expression: gimli::Expression<Slice<'a>>, initial: Option<Expression>) -> Option<Expression> {
        match self.place(expression, initial) {
            ValueLocation::Memory(value) | ValueLocation::Value(value) => Some(value),
            ValueLocation::Register(register) => Some(Expression::Register(register)),
            _ => None,
        }
    }

    fn run(
        &self,
        expression: gimli::Expression<Slice<'a>>,
        initial: Option<Expression>,
        nesting: usize,
    ) -> Step<ValueLocation> {
        let mut machine = Machine { stack: initial.into_iter().collect(), nodes: 1, pieces: vec![], place: None };
        let mut operations = expression.operations(self.unit.inner.encoding());
        for _ in 0..OPERATIONS_MAX {
            let Some(operation) = operations.next().map_err(|error| error.to_string())? else {
                return machine.finish();
            };
            self.step(&mut machine, operation, nesting)?;
        }
        Err(format!("more than {OPERATIONS_MAX} operations"))
    }

    fn step(&self, machine: &mut Machine, operation: Operation<Slice<'a>>, nesting: usize) -> Step<()> {
        if let Some(operator) = binary(&operation) {
            return machine.binary(operator);
        }
        match operation {
            Operation::Register { register } => machine.place = Some(ValueLocation::Register(register.0)),
            Operation::ImplicitValue { data } => machine.place = Some(ValueLocation::Bytes(data.slice().to_vec())),
            Operation::StackValue => machine.place = Some(ValueLocation::Value(machine.pop()?)),
            Operation::Piece { size_in_bits, bit_offset } => machine.piece(size_in_bits, bit_offset.unwrap_or(0))?,
            Operation::RegisterOffset { register, offset, base_type } => {
                let value = self.typed(Expression::Register(register.0), base_type)?;
                machine.push(value.plus(offset.cast_unsigned()))?;
            }
            Operation::EntryValue { expression } => {
                if nesting >= NESTING_MAX {
                    return Err("values at entry within each other".to_string());
                }
                let inner = self.run(gimli::Expression(expression), None, nesting + 1)?;
                machine.push(at_entry(inner)?)?;
            }
            Operation::FrameOffset { offset } => {
                machine.push(self.function_base.clone().plus(offset.cast_unsigned()))?;
            }
            Operation::CallFrameCFA => machine.push(Expression::FrameBase)?,
            Operation::PushObjectAddress => machine.push(Expression::Object)?,
            Operation::Address { address } => machine.push(Expression::Address(FileAddr(address)))?,
            Operation::AddressIndex { index } => {
                machine.push(Expression::Address(FileAddr(self.indexed(index)?)))?;
            }
            Operation::ConstantIndex { index } => machine.push(Expression::Constant(self.indexed(index)?))?,
            Operation::Convert { base_type } | Operation::Reinterpret { base_type } => {
                let value = machine.pop()?;
                machine.push(self.typed(value, base_type)?)?;
            }
            Operation::TypedLiteral { base_type, value } => {
                let mut bytes = [0; 8];
                let slice = value.slice();
                bytes.get_mut(..slice.len()).ok_or("a constant of more than 8 bytes")?.copy_from_slice(slice);
                let value = Expression::Constant(u64::from_le_bytes(bytes));
                machine.push(self.typed(value, base_type)?)?;
            }
            other => plain(machine, other)?,
        }
        Ok(())
    }

    fn indexed(&self, index: gimli::DebugAddrIndex<usize>) -> Step<u64> {
        self.units.dwarf.address(&self.unit.inner, index).map_err(|error| error.to_string())
    }

    /// A value as one of a base type; the type at offset 0 is the plain 64-bit one.
    fn typed(&self, value: Expression, base_type: UnitOffset<usize>) -> Step<Expression> {
        if base_type.0 == 0 {
            return Ok(value);
        }
        let entry = u32::try_from(base_type.0).ok().and_then(|offset| self.unit.start.checked_add(offset));
        let (die, _) = self.units.die(entry.ok_or("a type beyond its unit")?).map_err(|error| error.to_string())?;
        let signed = match die.attr(gimli::DW_AT_encoding) {
            Some(gimli::AttributeValue::Encoding(gimli::DW_ATE_signed | gimli::DW_ATE_signed_char)) => true,
            Some(gimli::AttributeValue::Encoding(gimli::DW_ATE_float | gimli::DW_ATE_complex_float)) => {
                return Err("a calculation with floating-point numbers".to_string());
            }
            _ => false,
        };
        match die.unsigned(gimli::DW_AT_byte_size) {
            Some(8) => Ok(value),
            Some(bytes @ 1..8) => {
                let operator = UnaryOperator::Narrow { bytes: bytes as u8, signed };
                Ok(Expression::Unary(operator, Box::new(value)))
            }
            _ => Err("a calculation with numbers of more than 8 bytes".to_string()),
        }
    }
}

/// Operations that need nothing but the stack.
fn plain(machine: &mut Machine, operation: Operation<Slice<'_>>) -> Step<()> {
    match operation {
        Operation::Nop | Operation::Uninitialized => {}
        Operation::UnsignedConstant { value } => machine.push(Expression::Constant(value))?,
        Operation::SignedConstant { value } => machine.push(Expression::Constant(value.cast_unsigned()))?,
        Operation::PlusConstant { value } => {
            let left = machine.pop()?;
            machine.push(left.plus(value))?;
        }
        Operation::Deref { size, space: false, .. } if (1..=8).contains(&size) => {
            let addr = Box::new(machine.pop()?);
            machine.push(Expression::Load { addr, bytes: size })?;
        }
        Operation::Abs => machine.unary(UnaryOperator::Abs)?,
        Operation::Neg => machine.unary(UnaryOperator::Negate)?,
        Operation::Not => machine.unary(UnaryOperator::Not)?,
        Operation::TLS => {
            let offset = machine.pop()?;
            machine.push(Expression::ThreadLocal(Box::new(offset)))?;
        }
        Operation::Drop => drop(machine.pop()?),
        Operation::Pick { index } => {
            let at = machine.stack.len().checked_sub(1 + usize::from(index)).ok_or(EMPTY)?;
            let copy = machine.stack[at].clone();
            machine.push(copy)?;
        }
        Operation::Swap => {
            let length = machine.stack.len();
            machine.stack.get_mut(length.wrapping_sub(2)..).ok_or(EMPTY)?.reverse();
        }
        Operation::Rot => {
            let length = machine.stack.len();
            machine.stack.get_mut(length.wrapping_sub(3)..).ok_or(EMPTY)?.rotate_right(1);
        }
        Operation::Bra { .. } | Operation::Skip { .. } => return Err("a calculation with branches".to_string()),
        Operation::ImplicitPointer { .. } => return Err("a pointer to what has no place itself".to_string()),
        Operation::Call { .. } | Operation::VariableValue { .. } => {
            return Err("a calculation with another variable".to_string());
        }
        Operation::ParameterRef { .. } => return Err("a value only the caller knows".to_string()),
        other => return Err(format!("an operation of another machine ({other:?})").chars().take(100).collect()),
    }
    Ok(())
}

const EMPTY: &str = "it takes more than it has";

impl Machine {
    fn push(&mut self, value: Expression) -> Step<()> {
        self.nodes += value.nodes();
        if self.nodes > NODES_MAX {
            return Err(format!("more than {NODES_MAX} steps"));
        }
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Step<Expression> {
        self.stack.pop().ok_or_else(|| EMPTY.to_string())
    }

    fn unary(&mut self, operator: UnaryOperator) -> Step<()> {
        let value = self.pop()?;
        self.push(Expression::Unary(operator, Box::new(value)))
    }

    fn binary(&mut self, operator: BinaryOperator) -> Step<()> {
        let (right, left) = (self.pop()?, self.pop()?);
        self.push(match (operator, right) {
            (BinaryOperator::Add, Expression::Constant(value)) => left.plus(value),
            (_, right) => Expression::Binary(operator, Box::new(left), Box::new(right)),
        })
    }

    fn piece(&mut self, size_bits: u64, offset_bits: u64) -> Step<()> {
        if self.pieces.len() >= PIECES_MAX {
            return Err(format!("more than {PIECES_MAX} pieces"));
        }
        let place =
            self.place.take().or_else(|| self.stack.pop().map(ValueLocation::Memory)).unwrap_or(ValueLocation::Gone);
        self.pieces.push(ValuePiece { place, size_bits, offset_bits });
        Ok(())
    }

    fn finish(mut self) -> Step<ValueLocation> {
        if !self.pieces.is_empty() {
            return Ok(ValueLocation::Pieces(self.pieces));
        }
        match self.place.take() {
            Some(place) => Ok(place),
            None => self.pop().map(ValueLocation::Memory),
        }
    }
}

/// The value that a register, or a sum with one, had at the function's entry.
fn at_entry(inner: ValueLocation) -> Step<Expression> {
    match inner {
        ValueLocation::Register(register) | ValueLocation::Memory(Expression::Register(register)) => {
            Ok(Expression::RegisterAtEntry(register))
        }
        _ => Err("a value at entry that no register held".to_string()),
    }
}

fn binary(operation: &Operation<Slice<'_>>) -> Option<BinaryOperator> {
    Some(match operation {
        Operation::Plus => BinaryOperator::Add,
        Operation::Minus => BinaryOperator::Subtract,
        Operation::Mul => BinaryOperator::Multiply,
        Operation::Div => BinaryOperator::DivideSigned,
        Operation::Mod => BinaryOperator::RemainderUnsigned,
        Operation::And => BinaryOperator::And,
        Operation::Or => BinaryOperator::Or,
        Operation::Xor => BinaryOperator::Xor,
        Operation::Shl => BinaryOperator::ShiftLeft,
        Operation::Shr => BinaryOperator::ShiftRight,
        Operation::Shra => BinaryOperator::ShiftRightSigned,
        Operation::Eq => BinaryOperator::Equal,
        Operation::Ne => BinaryOperator::NotEqual,
        Operation::Lt => BinaryOperator::Less,
        Operation::Le => BinaryOperator::LessOrEqual,
        Operation::Gt => BinaryOperator::Greater,
        Operation::Ge => BinaryOperator::GreaterOrEqual,
        _ => return None,
    })
}
