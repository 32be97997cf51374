//! Gathering of values: smallest, largest, mean, histogram, stacks. In the thread area, where nobody else writes.
//!
//! Next: `routines` for the histogram and the table of stacks.

use crate::emit::error::Emitted;
use crate::emit::generator::{Generator, R10, RCX, RDX};
use crate::emit::{routines, walk};
use crate::ir::{Area, Expression, Kind, Statement, Variable, When};
use iced_x86::code_asm::*;

impl Generator<'_> {
    pub(crate) fn fold(&mut self, variable: usize, value: &Expression) -> Emitted {
        let Variable { area, offset, kind, .. } = *self.variable(variable)?;
        let float = self.is_float(value)?;
        match kind {
            Kind::Last | Kind::LastFloat if float == (kind == Kind::LastFloat) => {
                self.bits(value)?;
                let place = self.area_word(area, offset)?;
                return Ok(self.w.mov(place, rax)?);
            }
            Kind::Min | Kind::Max | Kind::MinFloat | Kind::MaxFloat | Kind::Mean | Kind::Histogram
                if area == Area::Thread => {}
            _ => return Err(self.wrong_kind("gathering values", variable)),
        }
        match kind {
            Kind::Min | Kind::Max if !float => self.extreme_value(offset, value, kind == Kind::Min),
            Kind::MinFloat | Kind::MaxFloat if float => self.extreme_float(offset, value, kind == Kind::MinFloat),
            Kind::Mean => self.mean(offset, value),
            Kind::Histogram => self.histogram(offset, value),
            _ => Err(self.wrong_kind("gathering values", variable)),
        }
    }

    fn extreme_value(&mut self, offset: u32, value: &Expression, minimum: bool) -> Emitted {
        self.integer(value)?;
        let (place, count) = (qword_ptr(r11 + offset), qword_ptr(r11 + offset + 8));
        let (first, kept) = (self.w.create_label(), self.w.create_label());
        self.w.cmp(count, 0)?;
        self.w.je(first)?;
        self.w.cmp(rax, place)?;
        if minimum {
            self.w.jge(kept)?
        } else {
            self.w.jle(kept)?
        }
        self.w.bind(first)?;
        self.w.mov(place, rax)?;
        self.w.bind(kept)?;
        Ok(self.w.add(count, 1)?)
    }

    /// A value that is no number changes nothing but the count, unless it comes first: then the next value replaces it.
    fn extreme_float(&mut self, offset: u32, value: &Expression, minimum: bool) -> Emitted {
        self.math = true;
        self.float(value)?;
        let (place, count) = (qword_ptr(r11 + offset), qword_ptr(r11 + offset + 8));
        let (first, kept) = (self.w.create_label(), self.w.create_label());
        self.w.cmp(count, 0)?;
        self.w.je(first)?;
        self.w.movsd_2(xmm15, place)?;
        self.w.ucomisd(xmm15, xmm15)?;
        self.w.jp(first)?;
        if minimum {
            self.w.ucomisd(xmm15, xmm14)?
        } else {
            self.w.ucomisd(xmm14, xmm15)?
        }
        self.w.jbe(kept)?;
        self.w.bind(first)?;
        self.w.movsd_2(place, xmm14)?;
        self.w.bind(kept)?;
        Ok(self.w.add(count, 1)?)
    }

    fn mean(&mut self, offset: u32, value: &Expression) -> Emitted {
        self.math = true;
        if !self.value(value)? {
            self.integer_to_float()?;
        }
        let place = qword_ptr(r11 + offset);
        self.w.addsd(xmm14, place)?;
        self.w.movsd_2(place, xmm14)?;
        Ok(self.w.add(qword_ptr(r11 + offset + 8), 1)?)
    }

    fn histogram(&mut self, offset: u32, value: &Expression) -> Emitted {
        if self.value(value)? {
            self.rounded_to_integer()?;
        }
        self.w.lea(rcx, qword_ptr(r11 + offset))?;
        let is_time = self.is_time(value);
        let routines = self.environment.routines;
        let histogram = if is_time { routines.times_histogram } else { routines.histogram };
        self.routine(histogram, RDX | R10, routines::HISTOGRAM_INSTRUCTIONS_MAX)
    }

    /// True if a value is made of an elapsed time, itself or by a temporary.
    fn is_time(&self, value: &Expression) -> bool {
        let mut is_time = false;
        walk::expression(value, &mut |part| {
            is_time |= match part {
                Expression::Elapsed { .. } => true,
                Expression::Temporary { temporary, .. } => self.bodies.iter().any(|body| {
                    body.statements.iter().any(|statement| {
                        matches!(statement, Statement::Let { temporary: set, value: Expression::Elapsed { .. } }
                            if set == temporary)
                    })
                }),
                _ => false,
            };
        });
        is_time
    }

    pub(crate) fn count_stack(&mut self, variable: usize, depth: u8) -> Emitted {
        self.needs_registers()?;
        let Variable { area, offset, kind, .. } = *self.variable(variable)?;
        if (area, kind) != (Area::Thread, Kind::Stacks) {
            return Err(self.wrong_kind("counting stacks", variable));
        }
        let frame = self.register(crate::ir::Register::Rbp)?;
        self.load_operand(rcx, frame)?;
        let return_address = rsp + self.depth();
        match self.when {
            When::Entry | When::Exit => self.w.mov(rax, qword_ptr(return_address))?,
            _ => self.w.xor(eax, eax)?,
        }
        self.w.mov(edx, u32::from(depth))?;
        let hash = self.environment.routines.stack_hash;
        self.routine(hash, RCX | RDX | R10, routines::STACK_INSTRUCTIONS_MAX)?;
        self.w.lea(rcx, qword_ptr(r11 + offset))?;
        let count = self.environment.routines.stack_count;
        self.routine(count, RDX | R10, routines::STACK_COUNT_INSTRUCTIONS_MAX)
    }
}
