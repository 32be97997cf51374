//! The meaning of the language, executable: runs a body step by step over a machine held in memory. Slow, obvious, and
//! the yardstick for generated code, which must leave the same areas, messages and stores behind.
//!
//! The surroundings of a body are the engine's business and not done here: if the script records at all
//! (`process_word::RECORDING`), and that a body does not interrupt another one on its thread (`thread_word::BUSY`).
//!
//! Next: `machine` for the memories, `fold` for variables.

mod fold;
mod machine;

use crate::arithmetic::{self, Number};
use crate::ir::{self, Area, Expression, Sent, SentValue, Statement, Unit, process_word, thread_word};
pub use fold::Malformed;
use fold::Table;
pub use machine::{Call, Machine, Message};

/// Runs one body.
///
/// # Errors
/// When the tree is malformed; what ran until then has had its effect.
pub fn run(unit: &Unit, body: &ir::Body, machine: &mut Machine) -> Result<(), Malformed> {
    let at_function_edge = matches!(body.when, ir::When::Entry | ir::When::Exit);
    let mut run = Run { unit, machine, temporaries: Vec::new(), at_function_edge };
    run.statements(&body.statements).map(|_| ())
}

/// How a list of statements ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Return,
}

struct Run<'a> {
    unit: &'a Unit,
    machine: &'a mut Machine,
    temporaries: Vec<Number>,
    /// The return address is on top of the stack.
    at_function_edge: bool,
}

impl Run<'_> {
    fn statements(&mut self, statements: &[Statement]) -> Result<Flow, Malformed> {
        for statement in statements {
            let flow = self.statement(statement)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &Statement) -> Result<Flow, Malformed> {
        self.machine.operations += 1;
        match statement {
            Statement::If { condition, then, otherwise } => {
                let holds = self.int(condition)? != 0;
                return self.statements(if holds { then } else { otherwise });
            }
            Statement::While { condition, bound, body } => return self.repeat(condition, *bound, body),
            Statement::Return => return Ok(Flow::Return),
            Statement::Break => return Ok(Flow::Break),
            Statement::Let { temporary, value } => {
                let value = self.value(value)?;
                if self.temporaries.len() <= *temporary {
                    self.temporaries.resize(temporary + 1, Number::Int(0));
                }
                self.temporaries[*temporary] = value;
            }
            Statement::Stop => {
                self.machine.set_word(Area::Process, process_word::STOPPED, 1);
                self.machine.set_word(Area::Process, process_word::RECORDING, 0);
            }
            Statement::Send { text, values } => self.send(*text, values)?,
            Statement::Call { address, arguments } => {
                let arguments = arguments.iter().map(|argument| self.int(argument)).collect::<Result<_, _>>()?;
                self.machine.calls.push(Call { address: *address, arguments });
            }
            Statement::Store { address, width, value } => {
                let (value, address) = (self.int(value)?, self.int(address)?);
                self.machine.store(address as u64, *width, value as u64);
            }
            Statement::StoreFloat { address, width, value } => {
                let (value, address) = (self.float(value)?, self.int(address)?);
                self.machine.store_float(address as u64, *width, value);
            }
            Statement::SetRegister { register, value } => {
                let value = self.int(value)?;
                self.machine.set_register(*register, value as u64);
            }
            keeping => self.keep(keeping)?,
        }
        Ok(Flow::Next)
    }

    fn repeat(&mut self, condition: &Expression, bound: u32, body: &[Statement]) -> Result<Flow, Malformed> {
        for _ in 0..bound {
            if self.int(condition)? == 0 {
                break;
            }
            match self.statements(body)? {
                Flow::Next => {}
                Flow::Break => break,
                Flow::Return => return Ok(Flow::Return),
            }
        }
        Ok(Flow::Next)
    }

    /// Statements that change variables.
    fn keep(&mut self, statement: &Statement) -> Result<(), Malformed> {
        match statement {
            Statement::Set { variable, value } => {
                let value = self.value(value)?;
                self.table(*variable)?.set(value);
            }
            Statement::Add { variable, value } => {
                let value = self.value(value)?;
                self.table(*variable)?.add(value)?;
            }
            Statement::Fold { variable, value } => {
                let value = self.value(value)?;
                self.table(*variable)?.fold(value)?;
            }
            Statement::CountStack { variable, depth } => {
                let hash = self.machine.stack_hash(*depth, self.at_function_edge);
                self.table(*variable)?.count_stack(hash);
            }
            Statement::OpenCall { variable } => {
                let (stack_pointer, now) = self.machine.call_and_time();
                self.table(*variable)?.open_call(stack_pointer, now);
            }
            Statement::CloseCall { variable } => {
                let (stack_pointer, _) = self.machine.call_and_time();
                self.table(*variable)?.close_call(stack_pointer);
            }
            Statement::DropCall { variable } => self.table(*variable)?.drop_call(),
            _ => {}
        }
        Ok(())
    }

    fn table(&mut self, variable: usize) -> Result<Table<'_>, Malformed> {
        let missing = || Malformed::Missing(format!("variable {variable}"));
        let variable = self.unit.variables.get(variable).ok_or_else(missing)?;
        let words = self.machine.area_mut(variable.area);
        let first = variable.offset as usize / 8;
        let last = first + crate::resolve::words(variable.kind) as usize;
        let words = words.get_mut(first..last).ok_or_else(missing)?;
        Ok(Table { kind: variable.kind, words })
    }

    fn send(&mut self, text: usize, values: &[Sent]) -> Result<(), Malformed> {
        let mut sent = Vec::new();
        for value in values {
            sent.push(match value {
                Sent::Int(value) => SentValue::Int(self.int(value)?),
                Sent::Address(value) => SentValue::Address(self.int(value)? as u64),
                Sent::Float(value) => SentValue::Float(self.float(value)?),
                Sent::Text { address, bytes_max } => {
                    let address = self.int(address)? as u64;
                    SentValue::Text(self.machine.text(address, usize::from(*bytes_max)))
                }
            });
        }
        self.machine.messages.push(Message { text, values: sent });
        Ok(())
    }

    fn int(&mut self, expression: &Expression) -> Result<i64, Malformed> {
        match self.value(expression)? {
            Number::Int(value) => Ok(value),
            Number::Float(_) => Err(Malformed::Operand(format!("{expression:?} is no integer"))),
        }
    }

    fn float(&mut self, expression: &Expression) -> Result<f64, Malformed> {
        match self.value(expression)? {
            Number::Float(value) => Ok(value),
            Number::Int(_) => Err(Malformed::Operand(format!("{expression:?} is no float"))),
        }
    }

    fn value(&mut self, expression: &Expression) -> Result<Number, Malformed> {
        self.machine.operations += 1;
        let value = match expression {
            Expression::Int(value) => *value,
            Expression::Float(value) => return Ok(Number::Float(*value)),
            Expression::Vector(number) => return Ok(Number::Float(self.machine.vector(*number))),
            Expression::VectorSingle(number) => return Ok(Number::Float(self.machine.vector_single(*number))),
            Expression::Register(register) => self.machine.register(*register) as i64,
            Expression::Variable { variable } => return self.table(*variable)?.value(),
            Expression::Temporary { temporary, .. } => {
                let missing = || Malformed::Missing(format!("temporary {temporary}"));
                return self.temporaries.get(*temporary).copied().ok_or_else(missing);
            }
            Expression::Load { address, width, signed } => {
                let address = self.int(address)? as u64;
                arithmetic::narrow(self.machine.load(address, *width) as i64, *width, *signed)
            }
            Expression::LoadFloat { address, width } => {
                let address = self.int(address)? as u64;
                return Ok(Number::Float(self.machine.load_float(address, *width)));
            }
            Expression::Elapsed { variable } => self.elapsed(*variable)?,
            Expression::CallWasLeft { variable, at_exit } => {
                let (stack_pointer, _) = self.machine.call_and_time();
                i64::from(self.table(*variable)?.was_left(stack_pointer, *at_exit))
            }
            Expression::Now => self.machine.nanoseconds(self.machine.now_ticks),
            Expression::ProcessWord(offset) => self.machine.word(Area::Process, *offset) as i64,
            Expression::ThreadWord(offset) => self.machine.word(Area::Thread, *offset) as i64,
            Expression::Processor => self.machine.processor as i64,
            Expression::TextEquals { address, text } => self.text_equals(address, *text)?,
            combined => return self.combined(combined),
        };
        Ok(Number::Int(value))
    }

    /// Expressions made of expressions.
    fn combined(&mut self, expression: &Expression) -> Result<Number, Malformed> {
        let wrong = || Malformed::Operand(format!("{expression:?}"));
        match expression {
            Expression::Unary(operator, operand) => {
                let operand = self.value(operand)?;
                arithmetic::unary(*operator, operand).ok_or_else(wrong)
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                arithmetic::binary(*operator, left, right).ok_or_else(wrong)
            }
            Expression::And(left, right) => {
                let holds = self.int(left)? != 0 && self.int(right)? != 0;
                Ok(Number::Int(i64::from(holds)))
            }
            Expression::Or(left, right) => {
                let holds = self.int(left)? != 0 || self.int(right)? != 0;
                Ok(Number::Int(i64::from(holds)))
            }
            Expression::Select(condition, then, otherwise) => {
                let holds = self.int(condition)? != 0;
                self.value(if holds { then } else { otherwise })
            }
            _ => Err(wrong()),
        }
    }

    fn text_equals(&mut self, address: &Expression, text: usize) -> Result<i64, Malformed> {
        let address = self.int(address)? as u64;
        let wanted = self.unit.texts.get(text).ok_or_else(|| Malformed::Missing(format!("text {text}")))?;
        let wanted = [wanted.as_bytes(), b"\0"].concat();
        Ok(i64::from(self.machine.equals(address, &wanted)))
    }

    fn elapsed(&mut self, variable: usize) -> Result<i64, Malformed> {
        let (stack_pointer, now) = self.machine.call_and_time();
        match self.table(variable)?.entered(stack_pointer) {
            // Processors whose counters differ: no time rather than an enormous one.
            Some(entered) => Ok(self.machine.nanoseconds(now.saturating_sub(entered))),
            None => {
                self.machine.count(thread_word::ELAPSED_UNKNOWN);
                Ok(-1)
            }
        }
    }
}
