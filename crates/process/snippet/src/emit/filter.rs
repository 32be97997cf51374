//! The condition that decides if a body runs, tested before the body's own registers are saved: conditions are false
//! most of the time, so the way of a false one is the straight one, and what it guards lies elsewhere.
//!
//! A *bare* condition compares registers and words in place and changes nothing. An *early* one may compute, but saves
//! and restores only what it changes itself. It may look up the thread's area, and load from checked addresses: the range
//! that an address was in lately is compared with first, and only then is the table searched. It is not alone on its
//! thread; that is no harm because it changes nothing but counts of what failed. The script is asked if it records before
//! such a count or anything else changes, and so only where the condition is true or the unusual happens.
//!
//! Next: `condition` for how both are written, `hot` for loads in them.

use crate::emit::error::EmitError;
use crate::emit::generator::Generator;
use crate::emit::walk;
use crate::ir::{Area, Expression, Statement, Unit, When};
use iced_x86::code_asm::CodeLabel;

/// The condition of a body that is nothing but `if`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Filter<'s> {
    /// There is none, or it can only be tested by the body itself.
    None,
    /// It is tested with nothing saved.
    Bare(&'s Expression),
    /// It is tested with little saved.
    Early(&'s Expression),
}

impl Generator<'_> {
    /// The condition, and what it guards.
    pub(crate) fn filter<'s>(&self, statements: &'s [Statement]) -> (Filter<'s>, &'s [Statement]) {
        match statements {
            [Statement::If { condition, then, otherwise }] if otherwise.is_empty() => {
                if self.is_bare(condition) {
                    (Filter::Bare(condition), then)
                } else if self.may_be_early(condition) {
                    (Filter::Early(condition), then)
                } else {
                    (Filter::None, statements)
                }
            }
            _ => (Filter::None, statements),
        }
    }

    fn may_be_early(&self, condition: &Expression) -> bool {
        let mut depends_on_body = false;
        walk::expression(condition, &mut |part| {
            depends_on_body |= matches!(part, Expression::Elapsed { .. } | Expression::Temporary { .. });
        });
        let at_instruction = matches!(self.when, When::Entry | When::Exit | When::At);
        at_instruction && !depends_on_body && self.w.process_is_near()
    }

    /// Writes the test. A false condition falls through to what the caller marks as the end; what is written from the
    /// returned instruction on runs if it is true, and is to be moved away.
    pub(crate) fn write_filter(&mut self, filter: Filter<'_>, closed: CodeLabel) -> Result<Option<usize>, EmitError> {
        let yes = self.w.create_label();
        match filter {
            Filter::None => Ok(None),
            Filter::Bare(condition) => {
                self.bare = true;
                self.jump(condition, true, yes)?;
                self.bare = false;
                let start = self.w.instructions().len();
                self.w.bind(yes)?;
                Ok(Some(start))
            }
            Filter::Early(condition) => {
                let no = self.w.create_label();
                let looks_late = !compares_texts(condition);
                if !looks_late {
                    self.look_at_state(closed)?;
                }
                self.begin_early();
                self.save()?;
                self.state_unseen = looks_late.then_some(no);
                self.has_area = needs_area(self.unit, condition);
                if self.has_area {
                    self.find_area(no)?;
                }
                self.jump(condition, true, yes)?;
                (self.state_unseen, self.has_area) = (None, false);
                self.w.bind(no)?;
                self.restore()?;
                let start = self.w.instructions().len();
                self.w.bind(yes)?;
                self.restore()?;
                self.end_early();
                if looks_late {
                    self.look_at_state(closed)?;
                }
                Ok(Some(start))
            }
        }
    }
}

/// True if a condition does more than what is usual for it in places that look at the script's state themselves.
fn compares_texts(condition: &Expression) -> bool {
    let mut found = false;
    walk::expression(condition, &mut |part| found |= matches!(part, Expression::TextEquals { .. }));
    found
}

/// True if a condition needs the thread's area before it is tested; loads find it where they fail.
fn needs_area(unit: &Unit, condition: &Expression) -> bool {
    let mut needs = false;
    walk::expression(condition, &mut |part| {
        needs |= match part {
            Expression::Variable { variable } => {
                unit.variables.get(*variable).is_some_and(|found| found.area == Area::Thread)
            }
            Expression::ThreadWord(_) | Expression::TextEquals { .. } => true,
            _ => false,
        };
    });
    needs
}
