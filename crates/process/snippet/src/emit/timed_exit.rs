//! The usual timed exit: the elapsed time is asked for once, first of all, and the call is closed last of all.
//!
//! Then the table of open calls is gone through once for both, and the time stays in registers from reading the clock to
//! its first use. That the time is known needs no test where the front end asks for that next: the way on which it is not
//! known is another one.
//!
//! Next: `open_call` for the table and for all other exits.

use crate::emit::error::Emitted;
use crate::emit::generator::{Generator, frame_word};
use crate::emit::open_call::OpenCalls;
use crate::emit::walk;
use crate::ir::{Binary, Expression, Statement, When, thread_word};
use iced_x86::code_asm::*;

/// The lists of bodies of which this is true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedExit<'s> {
    /// The table of open calls.
    variable: usize,
    /// Where the time is kept.
    temporary: usize,
    /// The statements to run right away if it is known.
    known: &'s [Statement],
    /// The statements to run afterwards.
    rest: &'s [Statement],
    /// True if it is looked at again after the first statement that uses it.
    pub is_kept: bool,
}

impl<'s> TimedExit<'s> {
    /// All that runs at one exit, if it is the usual one: `lists` but its last one, which closes the call.
    pub(crate) fn of(when: When, lists: &[&'s [Statement]]) -> Option<TimedExit<'s>> {
        let ([first, .., [Statement::CloseCall { variable: closed }]], When::Exit) = (lists, when) else { return None };
        let [Statement::Let { temporary, value: Expression::Elapsed { variable } }, rest @ ..] = first else {
            return None;
        };
        let (mut asked, mut closes) = (0, 0);
        for list in lists {
            walk::expressions(list, &mut |part| asked += u32::from(matches!(part, Expression::Elapsed { .. })));
            walk::statements(list, &mut |statement| {
                closes += u32::from(matches!(statement, Statement::OpenCall { .. } | Statement::CloseCall { .. }));
            });
        }
        if variable != closed || (asked, closes) != (1, 1) {
            return None;
        }
        let (known, rest) = match rest {
            [Statement::If { condition, then, otherwise }, rest @ ..]
                if otherwise.is_empty() && is_known(condition, *temporary) =>
            {
                (then.as_slice(), rest)
            }
            _ => (&[][..], rest),
        };
        let at_once = usize::from(known.first().is_some_and(|statement| uses_at_once(statement, *temporary)));
        let is_kept = uses(known, *temporary) + uses(rest, *temporary) > at_once;
        Some(TimedExit { variable: *variable, temporary: *temporary, known, rest, is_kept })
    }

    /// How many of this many temporaries need a word, counted from the first.
    pub(crate) fn temporaries(&self, count: u32) -> u32 {
        if !self.is_kept && count == self.temporary as u32 + 1 { count - 1 } else { count }
    }
}

impl Generator<'_> {
    /// The time stamp that such an exit ends at, into `r10`, where nothing changes it until it is used.
    pub(crate) fn early_ticks(&mut self) -> Emitted {
        self.ticks(rax)?;
        Ok(self.w.mov(r10, rax)?)
    }

    /// The first list of such an exit; the last one has nothing left to do.
    pub(crate) fn timed_exit(&mut self, exit: &TimedExit<'_>) -> Emitted {
        let calls = self.open_calls(exit.variable)?;
        let labels: [CodeLabel; 4] = std::array::from_fn(|_| self.w.create_label());
        let [found, other, unknown, end] = labels;
        self.compare_innermost(calls)?;
        self.w.jne(other)?;
        self.w.bind(found)?;
        self.passed(calls)?;
        self.forget(calls)?;
        self.short_nanoseconds()?;
        let place = frame_word(exit.temporary as u32);
        if exit.is_kept {
            self.w.mov(place, rax)?;
        }
        self.in_rax = Some(exit.temporary);
        self.statements(exit.known)?;
        self.in_rax = None;
        self.w.bind(end)?;
        let start = self.w.instructions().len();
        let last = self.w.create_label();
        self.w.bind(other)?;
        // The flags are still those of the comparison: an entry further up belongs to a caller.
        self.w.jb(unknown)?;
        self.drop_left(calls, last)?;
        self.w.je(found)?;
        self.w.jmp(unknown)?;
        self.w.bind(last)?;
        self.w.mov(calls.stack(), 0)?;
        self.w.bind(unknown)?;
        self.w.add(qword_ptr(r11 + thread_word::ELAPSED_UNKNOWN), 1)?;
        if exit.is_kept {
            self.w.mov(place, -1)?;
        }
        self.w.jmp(end)?;
        self.w.cold_since(start);
        self.statements(exit.rest)
    }

    /// Ticks since the innermost call's entry into `rax`.
    fn passed(&mut self, calls: OpenCalls) -> Emitted {
        let (backwards, end) = (self.w.create_label(), self.w.create_label());
        self.w.mov(rax, r10)?;
        self.w.sub(rax, calls.ticks())?;
        self.w.jb(backwards)?;
        self.w.bind(end)?;
        let start = self.w.instructions().len();
        self.w.bind(backwards)?;
        // Processors whose counters differ: no time rather than an enormous one.
        self.w.xor(eax, eax)?;
        self.w.jmp(end)?;
        self.w.cold_since(start);
        Ok(())
    }

    /// Takes the innermost call out of the table; keeps `rax`.
    fn forget(&mut self, calls: OpenCalls) -> Emitted {
        let (others, end) = (self.w.create_label(), self.w.create_label());
        self.w.cmp(calls.outer_bytes(), 0)?;
        self.w.jne(others)?;
        self.w.mov(calls.stack(), 0)?;
        self.w.bind(end)?;
        let start = self.w.instructions().len();
        self.w.bind(others)?;
        self.w.mov(rdx, calls.outer_bytes())?;
        self.move_in(calls, rdx)?;
        self.w.jmp(end)?;
        self.w.cold_since(start);
        Ok(())
    }
}

/// True if a condition says that the time is known.
fn is_known(condition: &Expression, temporary: usize) -> bool {
    let Expression::Binary(Binary::LessEqual, least, time) = condition else { return false };
    **least == Expression::Int(0) && is_time(time, temporary)
}

fn is_time(value: &Expression, wanted: usize) -> bool {
    matches!(value, Expression::Temporary { temporary, float: false } if *temporary == wanted)
}

/// True if a statement takes the time before it does anything else.
pub(crate) fn uses_at_once(statement: &Statement, temporary: usize) -> bool {
    match statement {
        Statement::Add { value, .. } | Statement::Fold { value, .. } | Statement::Set { value, .. } => {
            is_time(value, temporary)
        }
        _ => false,
    }
}

fn uses(list: &[Statement], wanted: usize) -> usize {
    let mut count = 0;
    walk::expressions(list, &mut |part| {
        count += usize::from(matches!(part, Expression::Temporary { temporary, .. } if *temporary == wanted));
    });
    count
}
