//! Calls of the target's functions: the one statement that leaves our own code.
//!
//! The function runs as if the program had called it at the point: on the program's stack, aligned, with the direction
//! flag clear. Everything the ABI lets it change is kept: general registers by the frame, vector, mask and x87 state by
//! XSAVE onto the stack, the flags, and `errno` if the environment says where it is. The call is skipped (and counted
//! with refused loads) where the stack has less than [`CALL_STACK_BYTES`] left, as far as the table of readable ranges
//! knows. Probes that the function runs into do nothing, as the thread is busy. A function that does not return (an
//! exception, `longjmp`, `exit`) leaves the busy mark behind, which the next probe further up the stack takes over.
//!
//! Next: `generator` for the frame.

use crate::emit::environment::ThreadKey;
use crate::emit::error::{EmitError, Emitted};
use crate::emit::generator::{CALLER_SAVED, Generator, R10, RCX, RDX, frame_word};
use crate::emit::routines;
use crate::ir::{Expression, thread_word};
use iced_x86::code_asm::*;
use trimtab_types::ProcAddr;

/// Stack that must be left for a called function.
pub const CALL_STACK_BYTES: u32 = 64 << 10;
/// XSAVE areas are aligned so.
const XSAVE_ALIGNMENT: i32 = 64;
/// Where an XSAVE area's header begins, and its words.
const XSAVE_HEADER: u32 = 512;
const XSAVE_HEADER_WORDS: u32 = 8;
const ARGUMENTS: [AsmRegister64; 6] = [rdi, rsi, rdx, rcx, r8, r9];

impl Generator<'_> {
    pub(crate) fn call(&mut self, address: ProcAddr, arguments: &[Expression]) -> Emitted {
        if arguments.len() > ARGUMENTS.len() {
            return Err(EmitError::Arguments { count: arguments.len(), max: ARGUMENTS.len() });
        }
        let save = self.environment.vector_save.ok_or(EmitError::NoVectorSave)?;
        let first = self.take(arguments.len() as u32);
        for (number, argument) in arguments.iter().enumerate() {
            self.integer(argument)?;
            self.w.mov(frame_word(first + number as u32), rax)?;
        }
        let (area, own_stack, errno) = (self.take(1), self.take(1), self.take(1));
        let refused = self.w.create_label();
        self.stack_room(save.bytes, refused)?;
        self.w.mov(frame_word(area), r11)?;
        self.keep_errno(errno, true)?;
        self.w.pushfq()?;
        self.w.pop(frame_word(own_stack))?;
        // The frame is addressed by r8 while the stack pointer moves.
        self.w.mov(r8, rsp)?;
        self.w.lea(rsp, qword_ptr(rsp - save.bytes as i32))?;
        self.w.and(rsp, -XSAVE_ALIGNMENT)?;
        self.xsave(save.mask)?;
        self.w.push(r8)?;
        self.w.push(r8)?;
        self.arguments(first, arguments.len())?;
        self.clobber(CALLER_SAVED);
        self.w.cld()?;
        self.w.mov(rax, address.0)?;
        self.w.call(rax)?;
        self.w.add(rsp, 8)?;
        self.w.pop(r8)?;
        self.w.mov(eax, save.mask as u32)?;
        self.w.mov(edx, (save.mask >> 32) as u32)?;
        self.w.xrstor64(ptr(rsp))?;
        self.w.mov(rsp, r8)?;
        self.w.push(frame_word(own_stack))?;
        self.w.popfq()?;
        self.keep_errno(errno, false)?;
        self.w.mov(r11, frame_word(area))?;
        self.w.bind(refused)?;
        self.release(3 + arguments.len() as u32);
        Ok(())
    }

    /// Jumps if the stack has no room for the function and what is kept meanwhile.
    fn stack_room(&mut self, bytes: u32, refused: CodeLabel) -> Emitted {
        let room = bytes + CALL_STACK_BYTES;
        self.w.lea(rax, qword_ptr(rsp - room as i32))?;
        let range = self.environment.routines.range;
        self.routine(range, RCX | RDX | R10, routines::RANGE_INSTRUCTIONS_MAX)?;
        self.w.cmp(rdx, room as i32)?;
        let (enough, short) = (self.w.create_label(), self.w.create_label());
        self.w.jb(short)?;
        self.w.bind(enough)?;
        let start = self.w.instructions().len();
        self.w.bind(short)?;
        self.w.add(qword_ptr(r11 + thread_word::UNREADABLE), 1)?;
        self.w.jmp(refused)?;
        self.w.cold_since(start);
        Ok(())
    }

    /// Saves into the area at the stack pointer, whose header must be clear.
    fn xsave(&mut self, mask: u64) -> Emitted {
        for word in 0..XSAVE_HEADER_WORDS {
            self.w.mov(qword_ptr(rsp + XSAVE_HEADER + 8 * word), 0)?;
        }
        self.w.mov(eax, mask as u32)?;
        self.w.mov(edx, (mask >> 32) as u32)?;
        Ok(self.w.xsave64(ptr(rsp))?)
    }

    /// Loads the arguments from the frame at `r8`, that register itself last.
    fn arguments(&mut self, first: u32, count: usize) -> Emitted {
        let order = [0, 1, 2, 3, 5, 4];
        for number in order.into_iter().filter(|&number| number < count) {
            self.w.mov(ARGUMENTS[number], qword_ptr(r8 + 8 * (first + number as u32)))?;
        }
        Ok(())
    }

    fn keep_errno(&mut self, word: u32, save: bool) -> Emitted {
        let Some(offset) = self.environment.errno_at else { return Ok(()) };
        match self.environment.areas.key {
            ThreadKey::SelfPointer => self.w.mov(rax, qword_ptr(0).fs())?,
            ThreadKey::FsBase => self.w.rdfsbase(rax)?,
        }
        if save {
            self.w.mov(ecx, dword_ptr(rax + offset))?;
            return Ok(self.w.mov(dword_ptr(frame_word(word)), ecx)?);
        }
        self.w.mov(ecx, dword_ptr(frame_word(word)))?;
        Ok(self.w.mov(dword_ptr(rax + offset), ecx)?)
    }
}
