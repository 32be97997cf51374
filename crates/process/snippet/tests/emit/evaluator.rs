//! The results that bodies should have, computed slowly: the measure of the code in `values`.
//!
//! It knows integers, floats, variables, temporaries, branches, loops, loads and stores; what reads a clock or the stack is
//! tested by hand in `statements`.
//!
//! Next: `values`, which makes random bodies and compares.

use crate::world::{DATA, DATA_LEN, State, World};
use trimtab_snippet::ir::*;

/// Everything a body can change.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    pub thread: Vec<u64>,
    pub process: Vec<u64>,
    pub data: Vec<u8>,
    pub general: [u64; 16],
}

pub struct Evaluator<'a> {
    unit: &'a Unit,
    data_start: u64,
    pub memory: Memory,
    state: &'a State,
    temporaries: Vec<u64>,
}

enum Next {
    On,
    Break,
    Return,
}

/// A value as the tree knows them.
#[derive(Clone, Copy, Debug)]
enum Value {
    Int(i64),
    Float(f64),
}

impl Value {
    fn int(self) -> i64 {
        match self {
            Value::Int(value) => value,
            Value::Float(value) => panic!("{value} where an integer is needed"),
        }
    }

    fn float(self) -> f64 {
        match self {
            Value::Float(value) => value,
            Value::Int(value) => panic!("{value} where a float is needed"),
        }
    }

    fn bits(self) -> u64 {
        match self {
            Value::Int(value) => value as u64,
            Value::Float(value) => value.to_bits(),
        }
    }

    fn is_true(self) -> bool {
        match self {
            Value::Int(value) => value != 0,
            Value::Float(value) => value != 0.0,
        }
    }
}

impl<'a> Evaluator<'a> {
    pub fn new(unit: &'a Unit, world: &World, state: &'a State, memory: Memory) -> Evaluator<'a> {
        Evaluator { unit, data_start: world.base + DATA, memory, state, temporaries: vec![0; 64] }
    }

    pub fn run(&mut self, statements: &[Statement]) {
        self.list(statements);
    }

    fn list(&mut self, statements: &[Statement]) -> Next {
        for statement in statements {
            match self.statement(statement) {
                Next::On => {}
                other => return other,
            }
        }
        Next::On
    }

    fn statement(&mut self, statement: &Statement) -> Next {
        match statement {
            Statement::Set { variable, value } => *self.word(*variable, 0) = self.value(value).bits(),
            Statement::Add { variable, value } => self.add(*variable, value),
            Statement::Fold { variable, value } => self.fold(*variable, value),
            Statement::Let { temporary, value } => self.temporaries[*temporary] = self.value(value).bits(),
            Statement::If { condition, then, otherwise } => {
                let list = if self.value(condition).is_true() { then } else { otherwise };
                return self.list(list);
            }
            Statement::While { condition, bound, body } => {
                for _ in 0..*bound {
                    if !self.value(condition).is_true() {
                        break;
                    }
                    match self.list(body) {
                        Next::On => {}
                        Next::Break => break,
                        Next::Return => return Next::Return,
                    }
                }
            }
            Statement::Return => return Next::Return,
            Statement::Break => return Next::Break,
            Statement::Stop => {
                self.memory.process[process_word::STOPPED as usize / 8] = 1;
                self.memory.process[process_word::RECORDING as usize / 8] = 0;
            }
            Statement::Store { address, width, value } | Statement::StoreFloat { address, width, value } => {
                self.store(address, *width, value);
            }
            Statement::SetRegister { register, value } => {
                self.memory.general[*register as usize] = self.value(value).bits();
            }
            other => panic!("{other:?} is tested by hand"),
        }
        Next::On
    }

    fn word(&mut self, variable: usize, word: u32) -> &mut u64 {
        let Variable { area, offset, .. } = self.unit.variables[variable];
        let index = (offset / 8 + word) as usize;
        match area {
            Area::Thread => &mut self.memory.thread[index],
            Area::Process => &mut self.memory.process[index],
        }
    }

    fn kind(&self, variable: usize) -> Kind {
        self.unit.variables[variable].kind
    }

    fn add(&mut self, variable: usize, value: &Expression) {
        let value = self.value(value);
        let float = self.kind(variable) == Kind::SumFloat;
        let word = self.word(variable, 0);
        *word = if float {
            (value.float() + f64::from_bits(*word)).to_bits()
        } else {
            word.wrapping_add(value.int() as u64)
        };
    }

    fn fold(&mut self, variable: usize, value: &Expression) {
        let value = self.value(value);
        match self.kind(variable) {
            Kind::Last | Kind::LastFloat => *self.word(variable, 0) = value.bits(),
            Kind::Min => self.extreme(variable, value, |held| value.int() < held as i64),
            Kind::Max => self.extreme(variable, value, |held| value.int() > held as i64),
            Kind::MinFloat => {
                let replaces = |held: f64| held.is_nan() || value.float() < held;
                self.extreme(variable, value, |held| replaces(f64::from_bits(held)));
            }
            Kind::MaxFloat => {
                let replaces = |held: f64| held.is_nan() || value.float() > held;
                self.extreme(variable, value, |held| replaces(f64::from_bits(held)));
            }
            Kind::Mean => {
                let added = match value {
                    Value::Int(value) => value as f64,
                    Value::Float(value) => value,
                };
                let sum = self.word(variable, 0);
                *sum = (added + f64::from_bits(*sum)).to_bits();
                *self.word(variable, 1) += 1;
            }
            Kind::Histogram => self.histogram(variable, value),
            other => panic!("{other:?} gathers nothing"),
        }
    }

    fn extreme(&mut self, variable: usize, value: Value, replaces: impl Fn(u64) -> bool) {
        if *self.word(variable, 1) == 0 || replaces(*self.word(variable, 0)) {
            *self.word(variable, 0) = value.bits();
        }
        *self.word(variable, 1) += 1;
    }

    fn histogram(&mut self, variable: usize, value: Value) {
        let value = match value {
            Value::Int(value) => value,
            Value::Float(value) => value as i64,
        };
        let bucket = if value < 1 { 0 } else { 1 + value.ilog2() };
        *self.word(variable, bucket) += 1;
        let first = *self.word(variable, HISTOGRAM_BUCKETS) == 0;
        *self.word(variable, HISTOGRAM_BUCKETS) += 1;
        let sum = self.word(variable, HISTOGRAM_BUCKETS + 1);
        *sum = sum.wrapping_add(value as u64);
        let least = self.word(variable, HISTOGRAM_BUCKETS + 2);
        *least = if first { value } else { value.min(*least as i64) } as u64;
        let most = self.word(variable, HISTOGRAM_BUCKETS + 3);
        *most = if first { value } else { value.max(*most as i64) } as u64;
    }

    fn refuse(&mut self) {
        self.memory.thread[thread_word::UNREADABLE as usize / 8] += 1;
    }

    /// Where in the data `bytes` at an address are.
    fn place(&self, address: u64, bytes: u64) -> Option<usize> {
        let end = self.data_start + DATA_LEN;
        (address >= self.data_start && address < end && end - address >= bytes)
            .then(|| (address - self.data_start) as usize)
    }

    fn load(&mut self, address: &Expression, width: Width) -> u64 {
        let (address, bytes) = (self.value(address).int() as u64, bytes(width));
        let Some(place) = self.place(address, bytes) else {
            self.refuse();
            return 0;
        };
        let mut word = [0; 8];
        word[..bytes as usize].copy_from_slice(&self.memory.data[place..place + bytes as usize]);
        u64::from_le_bytes(word)
    }

    fn store(&mut self, address: &Expression, width: Width, value: &Expression) {
        let bits = match (self.value(value), width) {
            (Value::Float(value), Width::W32) => u64::from((value as f32).to_bits()),
            (value, _) => value.bits(),
        };
        let (address, bytes) = (self.value(address).int() as u64, bytes(width));
        match self.place(address, bytes) {
            Some(place) => {
                let range = place..place + bytes as usize;
                self.memory.data[range].copy_from_slice(&bits.to_le_bytes()[..bytes as usize]);
            }
            None => self.refuse(),
        }
    }

    fn value(&mut self, expression: &Expression) -> Value {
        match expression {
            Expression::Int(value) => Value::Int(*value),
            Expression::Float(value) => Value::Float(*value),
            Expression::Register(register) => Value::Int(self.memory.general[*register as usize] as i64),
            Expression::Vector(number) => Value::Float(f64::from_bits(self.state.vectors[usize::from(*number)][0])),
            Expression::VectorSingle(number) => {
                let bits = self.state.vectors[usize::from(*number)][0] as u32;
                Value::Float(f64::from(f32::from_bits(bits)))
            }
            Expression::Variable { variable } => {
                let bits = *self.word(*variable, 0);
                let float = matches!(
                    self.kind(*variable),
                    Kind::SumFloat | Kind::LastFloat | Kind::MinFloat | Kind::MaxFloat | Kind::Mean
                );
                if float { Value::Float(f64::from_bits(bits)) } else { Value::Int(bits as i64) }
            }
            Expression::Temporary { temporary, float } => {
                let bits = self.temporaries[*temporary];
                if *float { Value::Float(f64::from_bits(bits)) } else { Value::Int(bits as i64) }
            }
            Expression::Load { address, width, signed } => {
                let loaded = self.load(address, *width);
                Value::Int(narrow(loaded, *width, *signed))
            }
            Expression::LoadFloat { address, width } => {
                let bits = self.load(address, *width);
                Value::Float(match width {
                    Width::W32 => f64::from(f32::from_bits(bits as u32)),
                    _ => f64::from_bits(bits),
                })
            }
            Expression::ProcessWord(offset) => Value::Int(self.memory.process[*offset as usize / 8] as i64),
            Expression::ThreadWord(offset) => Value::Int(self.memory.thread[*offset as usize / 8] as i64),
            Expression::Unary(operator, operand) => {
                let operand = self.value(operand);
                unary(*operator, operand)
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.value(left), self.value(right));
                binary(*operator, left, right)
            }
            Expression::And(left, right) => {
                Value::Int((self.value(left).is_true() && self.value(right).is_true()).into())
            }
            Expression::Or(left, right) => {
                Value::Int((self.value(left).is_true() || self.value(right).is_true()).into())
            }
            Expression::Select(condition, one, other) => {
                let chosen = if self.value(condition).is_true() { one } else { other };
                self.value(chosen)
            }
            other => panic!("{other:?} is tested by hand"),
        }
    }
}

fn bytes(width: Width) -> u64 {
    match width {
        Width::W8 => 1,
        Width::W16 => 2,
        Width::W32 => 4,
        Width::W64 => 8,
    }
}

fn narrow(value: u64, width: Width, signed: bool) -> i64 {
    match (width, signed) {
        (Width::W8, false) => i64::from(value as u8),
        (Width::W8, true) => i64::from(value as i8),
        (Width::W16, false) => i64::from(value as u16),
        (Width::W16, true) => i64::from(value as i16),
        (Width::W32, false) => i64::from(value as u32),
        (Width::W32, true) => i64::from(value as i32),
        (Width::W64, _) => value as i64,
    }
}

fn unary(operator: Unary, operand: Value) -> Value {
    match (operator, operand) {
        (Unary::Negate, Value::Int(value)) => Value::Int(value.wrapping_neg()),
        (Unary::Negate, Value::Float(value)) => Value::Float(-value),
        (Unary::Not, value) => Value::Int(!value.int()),
        (Unary::IsZero, value) => Value::Int((!value.is_true()).into()),
        (Unary::Absolute, Value::Int(value)) => Value::Int(value.wrapping_abs()),
        (Unary::Absolute, Value::Float(value)) => Value::Float(value.abs()),
        (Unary::ToFloat, value) => Value::Float(value.int() as f64),
        (Unary::UnsignedToFloat, value) => Value::Float(value.int() as u64 as f64),
        (Unary::ToInt, value) => Value::Int(value.float() as i64),
        (Unary::Narrow(width, signed), value) => Value::Int(narrow(value.int() as u64, width, signed)),
    }
}

fn binary(operator: Binary, left: Value, right: Value) -> Value {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Value::Int(integers(operator, left, right)),
        (Value::Float(left), Value::Float(right)) => floats(operator, left, right),
        mixed => panic!("{mixed:?} are of two kinds"),
    }
}

fn integers(operator: Binary, left: i64, right: i64) -> i64 {
    let (first, second) = (left as u64, right as u64);
    match operator {
        Binary::Add => left.wrapping_add(right),
        Binary::Subtract => left.wrapping_sub(right),
        Binary::Multiply => left.wrapping_mul(right),
        Binary::Divide => {
            if right == 0 {
                0
            } else {
                left.wrapping_div(right)
            }
        }
        Binary::DivideUnsigned => first.checked_div(second).unwrap_or(0) as i64,
        Binary::Remainder => {
            if right == 0 {
                0
            } else {
                left.wrapping_rem(right)
            }
        }
        Binary::RemainderUnsigned => first.checked_rem(second).unwrap_or(0) as i64,
        Binary::And => left & right,
        Binary::Or => left | right,
        Binary::Xor => left ^ right,
        Binary::ShiftLeft => left << (right & 63),
        Binary::ShiftRight => left >> (right & 63),
        Binary::ShiftRightUnsigned => (first >> (right & 63)) as i64,
        Binary::Equal => (left == right).into(),
        Binary::NotEqual => (left != right).into(),
        Binary::Less => (left < right).into(),
        Binary::LessEqual => (left <= right).into(),
        Binary::LessUnsigned => (first < second).into(),
        Binary::LessEqualUnsigned => (first <= second).into(),
        Binary::Minimum => left.min(right),
        Binary::Maximum => left.max(right),
    }
}

fn floats(operator: Binary, left: f64, right: f64) -> Value {
    Value::Float(match operator {
        Binary::Add => left + right,
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide => left / right,
        Binary::Minimum => {
            if left < right {
                left
            } else {
                right
            }
        }
        Binary::Maximum => {
            if left > right {
                left
            } else {
                right
            }
        }
        Binary::Equal => return Value::Int((left == right).into()),
        Binary::NotEqual => return Value::Int((left != right).into()),
        Binary::Less => return Value::Int((left < right).into()),
        Binary::LessEqual => return Value::Int((left <= right).into()),
        other => panic!("floats have no {other:?}"),
    })
}
