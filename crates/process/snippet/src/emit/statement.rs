//! Statements that need no shared routine: variables, temporaries, branches, loops, and stores into the target.
//!
//! Next: `fold` for what gathers values, `open_call` for elapsed times, `message` for `send`, `call` for calls.

use crate::emit::error::{EmitError, Emitted};
use crate::emit::generator::{GENERAL, Generator, Operand, R10, RCX, RDX, frame_word, width_bytes};
use crate::emit::{routines, timed_exit};
use crate::ir::{Area, Expression, Kind, Register, Statement, Variable, Width, process_word};
use iced_x86::code_asm::*;

/// Attempts of an addition to a float that other threads add to at the same time; afterwards it is lost. Each failure
/// means that another thread's addition succeeded.
const FLOAT_ADDITION_TRIES_MAX: i32 = 10_000;

impl Generator<'_> {
    pub(crate) fn statements(&mut self, list: &[Statement]) -> Emitted {
        list.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Emitted {
        self.in_rax = self.in_rax.filter(|temporary| timed_exit::uses_at_once(statement, *temporary));
        match statement {
            Statement::Set { variable, value } => self.set(*variable, value),
            Statement::Add { variable, value } => self.add(*variable, value),
            Statement::Fold { variable, value } => self.fold(*variable, value),
            Statement::CountStack { variable, depth } => self.count_stack(*variable, *depth),
            Statement::OpenCall { variable } => self.open_call(*variable),
            Statement::CloseCall { variable } => self.close_call(*variable),
            Statement::DropCall { variable } => self.drop_call(*variable),
            Statement::Let { temporary, value } => {
                let place = frame_word(*temporary as u32);
                self.store_value(place, value)
            }
            Statement::If { condition, then, otherwise } => self.branch(condition, then, otherwise),
            Statement::While { condition, bound, body } => self.repeat(condition, *bound, body),
            Statement::Return => {
                let end = self.end;
                Ok(self.w.jmp(end)?)
            }
            Statement::Break => {
                let end = *self.loop_ends.last().ok_or(EmitError::BreakOutsideLoop)?;
                Ok(self.w.jmp(end)?)
            }
            Statement::Stop => self.stop(),
            Statement::Send { text, values } => self.send(*text, values),
            Statement::Call { address, arguments } => self.call(*address, arguments),
            Statement::Store { address, width, value } => self.store(address, *width, value, false),
            Statement::StoreFloat { address, width, value } => self.store(address, *width, value, true),
            Statement::SetRegister { register, value } => self.set_register(*register, value),
        }
    }

    /// A word variable of the kinds named by `fits`.
    fn word_variable(
        &self,
        what: &'static str,
        variable: usize,
        fits: impl Fn(Kind) -> bool,
    ) -> Result<(Area, u32), EmitError> {
        let Variable { area, offset, kind, .. } = *self.variable(variable)?;
        if fits(kind) { Ok((area, offset)) } else { Err(self.wrong_kind(what, variable)) }
    }

    /// Stores a value of either kind; the place must not depend on `r10`.
    fn store_value(&mut self, place: AsmMemoryOperand, value: &Expression) -> Emitted {
        if let Expression::Int(constant) = value
            && let Ok(constant) = i32::try_from(*constant)
        {
            return Ok(self.w.mov(place, constant)?);
        }
        if self.value(value)? { Ok(self.w.movsd_2(place, xmm14)?) } else { Ok(self.w.mov(place, rax)?) }
    }

    fn set(&mut self, variable: usize, value: &Expression) -> Emitted {
        let is_word = |kind| matches!(kind, Kind::Sum | Kind::SumFloat | Kind::Last | Kind::LastFloat);
        let (area, offset) = self.word_variable("an assignment", variable, is_word)?;
        if self.is_float(value)? != self.is_float(&Expression::Variable { variable })? {
            return Err(self.wrong_kind("the value assigned", variable));
        }
        if area == Area::Thread {
            return self.store_value(qword_ptr(r11 + offset), value);
        }
        self.bits(value)?;
        let place = self.area_word(area, offset)?;
        Ok(self.w.mov(place, rax)?)
    }

    fn add(&mut self, variable: usize, value: &Expression) -> Emitted {
        let is_sum = |kind| matches!(kind, Kind::Sum | Kind::SumFloat);
        let (area, offset) = self.word_variable("an addition", variable, is_sum)?;
        let float = self.variable(variable)?.kind == Kind::SumFloat;
        if self.is_float(value)? != float {
            return Err(self.wrong_kind("the value added", variable));
        }
        match (float, area) {
            (true, Area::Thread) => {
                self.math = true;
                self.float(value)?;
                let place = qword_ptr(r11 + offset);
                self.w.addsd(xmm14, place)?;
                Ok(self.w.movsd_2(place, xmm14)?)
            }
            (true, Area::Process) => self.add_shared_float(offset, value),
            (false, area) => self.add_integer(area, offset, value),
        }
    }

    fn add_integer(&mut self, area: Area, offset: u32, value: &Expression) -> Emitted {
        let direct = match value {
            Expression::Int(_) => self.operand(value)?,
            Expression::Register(_) => match self.operand(value)? {
                Some(Operand::Register(register)) => Some(Operand::Register(register)),
                _ => None,
            },
            _ => None,
        };
        if direct.is_none() {
            self.integer(value)?;
        }
        let place = self.area_word(area, offset)?;
        if area == Area::Process {
            let _ = self.w.lock();
        }
        Ok(match direct {
            Some(Operand::Immediate(constant)) => self.w.add(place, constant),
            Some(Operand::Register(register)) => self.w.add(place, register),
            _ => self.w.add(place, rax),
        }?)
    }

    fn add_shared_float(&mut self, offset: u32, value: &Expression) -> Emitted {
        self.math = true;
        self.float(value)?;
        self.add_float_at(offset)
    }

    /// Adds `xmm14` to a word of the process area; changes `rax`, `rcx`, `rdx`, `r10` and `xmm15`.
    fn add_float_at(&mut self, offset: u32) -> Emitted {
        let (again, done) = (self.w.create_label(), self.w.create_label());
        self.w.mov(ecx, FLOAT_ADDITION_TRIES_MAX)?;
        let place = self.area_word(Area::Process, offset)?;
        self.w.mov(rax, place)?;
        self.w.bind(again)?;
        self.w.movq(xmm15, rax)?;
        self.w.addsd(xmm15, xmm14)?;
        self.w.movq(rdx, xmm15)?;
        self.w.lock().cmpxchg(place, rdx)?;
        self.w.je(done)?;
        self.w.dec(ecx)?;
        self.w.jne(again)?;
        self.w.bind(done)?;
        self.repeated += 6 * FLOAT_ADDITION_TRIES_MAX as u64;
        Ok(())
    }

    fn branch(&mut self, condition: &Expression, then: &[Statement], otherwise: &[Statement]) -> Emitted {
        let no = self.w.create_label();
        self.jump(condition, false, no)?;
        self.statements(then)?;
        if otherwise.is_empty() {
            return self.w.bind(no);
        }
        let end = self.w.create_label();
        self.w.jmp(end)?;
        self.w.bind(no)?;
        self.statements(otherwise)?;
        self.w.bind(end)
    }

    fn repeat(&mut self, condition: &Expression, bound: u32, body: &[Statement]) -> Emitted {
        let (again, end) = (self.w.create_label(), self.w.create_label());
        let left = self.take(1);
        let left_at = dword_ptr(frame_word(left));
        self.w.mov(left_at, bound)?;
        let before = self.w.instructions().len() as u64 + self.repeated;
        self.w.bind(again)?;
        self.w.sub(left_at, 1)?;
        self.w.jb(end)?;
        self.jump(condition, false, end)?;
        self.loop_ends.push(end);
        self.statements(body)?;
        self.loop_ends.pop();
        self.w.jmp(again)?;
        let once = self.w.instructions().len() as u64 + self.repeated - before;
        self.repeated = self.repeated.saturating_add(once.saturating_mul(u64::from(bound)));
        self.w.bind(end)?;
        self.release(1);
        Ok(())
    }

    fn stop(&mut self) -> Emitted {
        let stopped = self.w.process(process_word::STOPPED)?;
        self.w.mov(stopped, 1)?;
        let recording = self.w.process(process_word::RECORDING)?;
        Ok(self.w.mov(recording, 0)?)
    }

    fn store(&mut self, address: &Expression, width: Width, value: &Expression, float: bool) -> Emitted {
        if self.is_float(value)? != float {
            return Err(EmitError::Mixed { what: "a store" });
        }
        let kept = self.take(1);
        if float {
            self.float(value)?;
            self.float_as_stored(width)?;
        } else {
            self.integer(value)?;
        }
        self.w.mov(frame_word(kept), rax)?;
        self.integer(address)?;
        let refused = self.w.create_label();
        let bytes = width_bytes(width);
        if !self.is_known(address, bytes) {
            self.w.mov(edx, bytes)?;
            let writable = self.environment.routines.writable;
            self.routine(writable, RCX | RDX | R10, routines::RANGE_INSTRUCTIONS_MAX)?;
            self.w.test(rax, rax)?;
            self.w.je(refused)?;
        }
        self.w.mov(rcx, frame_word(kept))?;
        self.release(1);
        match width {
            Width::W8 => self.w.mov(byte_ptr(rax), cl)?,
            Width::W16 => self.w.mov(word_ptr(rax), cx)?,
            Width::W32 => self.w.mov(dword_ptr(rax), ecx)?,
            Width::W64 => self.w.mov(qword_ptr(rax), rcx)?,
        }
        self.w.bind(refused)
    }

    /// `xmm14` to the bits in `rax` that a float of this width has.
    fn float_as_stored(&mut self, width: Width) -> Emitted {
        match width {
            Width::W64 => {}
            Width::W32 => {
                self.math = true;
                self.w.cvtsd2ss(xmm14, xmm14)?;
            }
            Width::W8 | Width::W16 => return Err(EmitError::Mixed { what: "a float of less than 4 bytes" }),
        }
        Ok(self.w.movq(rax, xmm14)?)
    }

    fn set_register(&mut self, register: Register, value: &Expression) -> Emitted {
        if matches!(register, Register::Rsp | Register::Rip) {
            return Err(EmitError::FixedRegister { register });
        }
        self.integer(value)?;
        match self.register(register)? {
            Operand::Memory(place) => Ok(self.w.mov(place, rax)?),
            _ => Ok(self.w.mov(GENERAL[register as usize], rax)?),
        }
    }
}
