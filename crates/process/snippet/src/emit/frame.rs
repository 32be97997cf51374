//! A body (or several at one point) from its first to its last instruction: gate, what decides whether it runs, saved
//! registers, the thread's area, the busy mark, the statements, and everything back.
//!
//! Steps that make a hit cheap stand first: a closed gate costs a comparison, a false condition on registers one more.
//!
//! Next: `filter` for conditions that are tested first, `needs` decides what a body needs, `statement` writes its statements.

use crate::emit::environment::{Runs, ThreadKey};
use crate::emit::error::{EmitError, Emitted};
use crate::emit::filter::Filter;
use crate::emit::generator::{GENERAL, Generator, R11, RED_ZONE_BYTES, VECTORS, frame_word};
use crate::emit::needs::{self, Needs};
use crate::emit::routines;
use crate::emit::timed_exit::TimedExit;
use crate::ir::{Statement, process_word, thread_word};
use iced_x86::code_asm::*;

/// All exceptions masked, rounding to nearest, no flags: what the ABI begins with.
pub(crate) const MXCSR_DEFAULT: u32 = 0x1f80;

impl Generator<'_> {
    /// Writes the whole body.
    pub(crate) fn write(&mut self) -> Emitted {
        let (closed, left) = (self.w.create_label(), self.w.create_label());
        let (filter, first) = match self.bodies {
            [only] => self.filter(&only.statements),
            _ => (Filter::None, &[][..]),
        };
        let lists: Vec<&[Statement]> = match self.bodies {
            [_] => vec![first],
            several => several.iter().map(|body| &body.statements[..]).collect(),
        };
        let timed = TimedExit::of(self.when, &lists);
        let needs = (0..lists.len()).map(|index| self.needs(&lists, index, timed.as_ref()));
        let needs = needs.fold(Needs::default(), Needs::union);
        self.w.room(self.environment.room_before)?;
        self.save_flags()?;
        self.look_at_gate(closed)?;
        let guarded_from = self.write_filter(filter, closed)?;
        self.take(needs.temporaries);
        let near = self.w.process_is_near();
        if near && !matches!(filter, Filter::Early(_)) {
            self.look_at_state(closed)?;
        }
        self.save()?;
        if !near {
            self.look_at_state(left)?;
        }
        match timed {
            Some(_) => self.early_ticks()?,
            None => self.first_ticks(&needs)?,
        }
        self.lists(&needs, &lists, timed.as_ref(), left)?;
        if needs.busy {
            self.w.mov(qword_ptr(r11 + thread_word::BUSY), 0)?;
        }
        self.w.bind(left)?;
        self.restore()?;
        if let Some(start) = guarded_from {
            self.w.jmp(closed)?;
            self.w.rare_since(start);
        }
        self.w.bind(closed)?;
        self.restore_flags()
    }

    /// The statements of all bodies, one after the other.
    fn lists(
        &mut self,
        needs: &Needs,
        lists: &[&[Statement]],
        timed: Option<&TimedExit<'_>>,
        left: CodeLabel,
    ) -> Emitted {
        let mut lists = lists.to_vec();
        if let [only] = &mut lists[..] {
            self.zero_temporaries(needs.temporaries)?;
            *only = self.early_condition(only, left)?;
        }
        if needs.area {
            self.find_area(left)?;
        }
        if needs.busy {
            self.mark_busy(left)?;
        }
        for index in 0..lists.len() {
            if lists.len() > 1 {
                self.zero_temporaries(self.needs(&lists, index, timed).temporaries)?;
            }
            self.end = self.w.create_label();
            match timed {
                Some(exit) if index == 0 => self.timed_exit(exit)?,
                Some(_) if index + 1 == lists.len() => {}
                _ => self.statements(lists[index])?,
            }
            let end = self.end;
            self.w.bind(end)?;
        }
        Ok(())
    }

    /// The needs of one of the lists.
    fn needs(&self, lists: &[&[Statement]], index: usize, timed: Option<&TimedExit<'_>>) -> Needs {
        let needs = Needs::of(self.unit, lists[index], self.environment.reentrant);
        match timed {
            Some(exit) if index == 0 => Needs { temporaries: exit.temporaries(needs.temporaries), ..needs },
            _ => needs,
        }
    }

    fn look_at_gate(&mut self, closed: CodeLabel) -> Emitted {
        self.w.reach(self.environment.gate)?;
        let gate = self.w.near(self.environment.gate);
        self.w.cmp(dword_ptr(gate), 0)?;
        Ok(self.w.je(closed)?)
    }

    /// The condition of a body that is nothing but `if`, where areas are too far away to test it before anything is saved:
    /// if it needs registers, but neither the thread's area nor to be alone on the thread.
    fn early_condition<'s>(
        &mut self,
        statements: &'s [Statement],
        left: CodeLabel,
    ) -> Result<&'s [Statement], EmitError> {
        match statements {
            [Statement::If { condition, then, otherwise }]
                if otherwise.is_empty() && !needs::needs_area(self.unit, condition) =>
            {
                self.jump(condition, false, left)?;
                Ok(then)
            }
            _ => Ok(statements),
        }
    }

    /// Steps over what the program has below its stack pointer, and keeps the flags beside `rax`.
    fn save_flags(&mut self) -> Emitted {
        if self.environment.red_zone {
            self.w.lea(rsp, qword_ptr(rsp - RED_ZONE_BYTES as i32))?;
        }
        if self.environment.flags_live {
            self.w.push(rax)?;
            self.w.lahf()?;
            self.w.seto(al)?;
            self.w.push(rax)?;
        }
        Ok(())
    }

    fn restore_flags(&mut self) -> Emitted {
        if self.environment.flags_live {
            self.w.pop(rax)?;
            // One and the largest signed byte overflow, zero and it do not.
            self.w.add(al, 0x7f)?;
            self.w.sahf()?;
            self.w.pop(rax)?;
        }
        if self.environment.red_zone {
            self.w.lea(rsp, qword_ptr(rsp + RED_ZONE_BYTES as i32))?;
        }
        Ok(())
    }

    pub(crate) fn look_at_state(&mut self, closed: CodeLabel) -> Emitted {
        let (word, runs_if_zero) = match self.environment.runs {
            Runs::WhileRecording => (process_word::RECORDING, false),
            Runs::UntilStopped => (process_word::STOPPED, true),
        };
        let place = self.w.process(word)?;
        self.w.cmp(place, 0)?;
        Ok(if runs_if_zero { self.w.jne(closed) } else { self.w.je(closed) }?)
    }

    /// Looks at it if an early condition has put that off until something changes.
    pub(crate) fn look_at_unseen_state(&mut self) -> Emitted {
        match self.state_unseen {
            Some(no) => self.look_at_state(no),
            None => Ok(()),
        }
    }

    /// General registers in the order of their numbers, without `rax` if it was pushed with the flags.
    fn pushed_registers(&self) -> Vec<usize> {
        let first = usize::from(self.environment.flags_live);
        (first..GENERAL.len()).filter(|number| self.saved() & (1 << number) != 0).collect()
    }

    fn saved_vectors(&self) -> Vec<usize> {
        (0..VECTORS.len()).filter(|number| self.plan().vectors & (1 << number) != 0).collect()
    }

    pub(crate) fn save(&mut self) -> Emitted {
        for number in self.pushed_registers() {
            self.w.push(GENERAL[number])?;
        }
        let frame = self.frame_bytes() as i32;
        if frame != 0 {
            self.w.lea(rsp, qword_ptr(rsp - frame))?;
        }
        for number in self.saved_vectors() {
            let place = rsp + self.saved_vector_at(number);
            self.w.movups(xmmword_ptr(place), VECTORS[number])?;
        }
        if self.plan().math {
            let place = self.mxcsr_at();
            self.w.stmxcsr(dword_ptr(rsp + place))?;
            self.w.mov(dword_ptr(rsp + place + 4), MXCSR_DEFAULT)?;
            self.w.ldmxcsr(dword_ptr(rsp + place + 4))?;
        }
        Ok(())
    }

    pub(crate) fn restore(&mut self) -> Emitted {
        if self.plan().math {
            let place = self.mxcsr_at();
            self.w.ldmxcsr(dword_ptr(rsp + place))?;
        }
        for number in self.saved_vectors() {
            let place = rsp + self.saved_vector_at(number);
            self.w.movups(VECTORS[number], xmmword_ptr(place))?;
        }
        let frame = self.frame_bytes() as i32;
        if frame != 0 {
            self.w.lea(rsp, qword_ptr(rsp + frame))?;
        }
        for number in self.pushed_registers().into_iter().rev() {
            self.w.pop(GENERAL[number])?;
        }
        Ok(())
    }

    /// The time stamp elapsed times end at: before anything else if every run asks for it.
    fn first_ticks(&mut self, needs: &Needs) -> Emitted {
        if !needs.elapsed {
            return Ok(());
        }
        let word = self.take(1);
        self.ticks_word = Some(word);
        self.ticks_early = needs.elapsed_always;
        if needs.elapsed_always {
            self.ticks(rax)?;
            self.w.mov(frame_word(word), rax)?;
        } else {
            self.w.mov(frame_word(word), 0)?;
        }
        Ok(())
    }

    fn zero_temporaries(&mut self, count: u32) -> Emitted {
        for temporary in 0..count {
            self.w.mov(frame_word(temporary), 0)?;
        }
        Ok(())
    }

    /// The thread's area into `r11`; changes `rax`. The first area belongs to the first thread that was ever hit, mostly the
    /// only one that computes: its address is a constant, which the processor goes on with before it knows whose it is.
    /// Other threads look at their first place next.
    pub(crate) fn find_area(&mut self, none: CodeLabel) -> Emitted {
        let areas = self.environment.areas;
        match areas.key {
            ThreadKey::SelfPointer => self.w.mov(rax, qword_ptr(0).fs())?,
            ThreadKey::FsBase => {
                self.w.rdfsbase(rax)?;
                self.w.test(rax, rax)?;
                self.w.je(none)?;
            }
        }
        let (found, other) = (self.w.create_label(), self.w.create_label());
        let owner = qword_ptr(r11 + thread_word::OWNER);
        self.w.mov(r11, areas.threads.0)?;
        self.w.cmp(owner, rax)?;
        self.w.jne(other)?;
        self.w.bind(found)?;
        let start = self.w.instructions().len();
        self.w.bind(other)?;
        self.w.mov(r11, areas.multiplier)?;
        self.w.imul_2(r11, rax)?;
        self.w.shr(r11, i32::from(areas.shift()))?;
        self.w.imul_3(r11, r11, areas.thread_stride as i32)?;
        let first = self.environment.routines.threads_word;
        self.w.reach(first)?;
        let first = self.w.near(first);
        self.w.add(r11, first)?;
        self.w.cmp(owner, rax)?;
        self.w.je(found)?;
        self.look_at_unseen_state()?;
        let claim = self.environment.routines.claim;
        self.routine(claim, R11, routines::claim_instructions_max(areas))?;
        self.w.test(r11, r11)?;
        self.w.jne(found)?;
        self.w.jmp(none)?;
        self.w.cold_since(start);
        Ok(())
    }

    /// Sets the busy mark, or counts and leaves if a body runs on this thread further up the stack. A mark from below or
    /// here was left by a body that a signal handler jumped out of.
    fn mark_busy(&mut self, left: CodeLabel) -> Emitted {
        let (free, busy) = (self.w.create_label(), self.w.create_label());
        let mark = qword_ptr(r11 + thread_word::BUSY);
        self.w.cmp(mark, 0)?;
        self.w.jne(busy)?;
        self.w.bind(free)?;
        self.w.mov(mark, rsp)?;
        let start = self.w.instructions().len();
        self.w.bind(busy)?;
        self.w.cmp(rsp, mark)?;
        self.w.jae(free)?;
        self.w.add(qword_ptr(r11 + thread_word::SKIPPED), 1)?;
        self.w.jmp(left)?;
        self.w.cold_since(start);
        Ok(())
    }
}
