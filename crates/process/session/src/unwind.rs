//! The callers on a held thread's stack, from the unwind tables alone and down to the very first function.
//!
//! A stack is known wholly or not at all: where one table says nothing, where a rule needs a calculation, or where a
//! signal handler was called, there is no answer. Words of the stack are not guessed to be return addresses, unless
//! whoever asks only counts how often something was seen: see [`Walk::frames_or_guess`].
//!
//! Next: `outside_call`, which decides by it whether a thread may be interrupted; `sample`, which counts.

use crate::modules::Modules;
use crate::not_callable::NotUnwound;
use crate::threads::is_call;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use trimtab_os::{MappingTable, Memory, Thread};
use trimtab_symbols::{CallerRules, FrameKind, KEPT_REGISTERS, Kept, caller_rules};
use trimtab_types::{FileAddr, ProcAddr};

/// Calls on one stack, at most.
const FRAMES_MAX: usize = 256;
/// The stack pointer in DWARF's numbering.
const STACK_POINTER: u16 = 7;
/// Words of the stack in which code without a table may have put its return address away: kernels of numerical
/// libraries, written by hand, keep their blocks of numbers there.
const GUESSED_WORDS_MAX: u64 = 512;
/// The longest call instruction that matters.
const CALL_BYTES_MAX: u64 = 7;

/// One function that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Number of its module.
    pub module: usize,
    /// The instruction it is at: for all but the innermost, the last byte of the call.
    pub address: FileAddr,
    /// Its registers there; `None`: they were not followed, or from a guess.
    pub registers: Option<FrameRegisters>,
}

/// The registers of a function that has called another one, as far as tables tell them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRegisters {
    /// The stack pointer, right before the call.
    pub(crate) stack: u64,
    /// Those of [`KEPT_REGISTERS`].
    kept: [Option<u64>; KEPT_REGISTERS.len()],
}

impl FrameRegisters {
    /// The value of a general register by its number among instructions; `None`: it is not known.
    pub(crate) fn value(&self, number: u8) -> Option<u64> {
        // rbx, rbp and rsp have other numbers in unwind tables.
        match number {
            3 => self.kept[0],
            4 => Some(self.stack),
            5 => self.kept[1],
            12..=15 => self.kept[usize::from(number) - 10],
            _ => None,
        }
    }
}

/// The known registers of a function.
#[derive(Clone, Copy)]
struct Registers {
    instruction: u64,
    stack: u64,
    kept: [Option<u64>; KEPT_REGISTERS.len()],
}

impl Registers {
    fn of(thread: &Thread) -> Self {
        let at = &thread.registers;
        let kept = [at.rbx, at.rbp, at.r12, at.r13, at.r14, at.r15].map(Some);
        Registers { instruction: at.rip, stack: at.rsp, kept }
    }

    /// The value of a register, if it is known; `None`: it never is.
    fn value(&self, number: u16) -> Option<u64> {
        match KEPT_REGISTERS.iter().position(|kept| *kept == number) {
            _ if number == STACK_POINTER => Some(self.stack),
            Some(kept) => self.kept[kept],
            None => None,
        }
    }
}

/// The functions that `thread` is in, innermost first.
///
/// # Errors
/// Why they are not all known, as part of a sentence.
pub(crate) fn frames(
    modules: &Modules,
    maps: &MappingTable,
    memory: &Memory,
    thread: &Thread,
) -> Result<Vec<Standing>, NotUnwound> {
    let word = |at| memory.read_word(at).ok();
    let (known, undescribed) = (RefCell::default(), Cell::new(None));
    let walk = Walk { modules, maps, known: &known, word: &word, frames_max: FRAMES_MAX, undescribed };
    walk.frames(Registers::of(thread), None)
}

/// Rules that were looked up before, by address.
pub(crate) type KnownRules = RefCell<HashMap<u64, (Standing, CallerRules)>>;

/// A walk up one stack.
pub(crate) struct Walk<'a> {
    pub modules: &'a Modules,
    pub maps: &'a MappingTable,
    pub known: &'a KnownRules,
    /// Reads a word of the process's memory.
    pub word: &'a dyn Fn(u64) -> Option<u64>,
    /// Calls on one stack, at most.
    pub frames_max: usize,
    /// The code of no known module that a walk ended at.
    pub undescribed: Cell<Option<u64>>,
}

impl Walk<'_> {
    /// As [`frames`]. Where no table describes the innermost code, it tries word by word what the function may have been
    /// called from: behind a call, with tables from there to the outermost function.
    ///
    /// # Errors
    /// As [`frames`].
    pub(crate) fn frames_or_guess(&self, thread: &Thread) -> Result<Vec<Standing>, NotUnwound> {
        let registers = Registers::of(thread);
        let known = self.frames(registers, None);
        let undescribed = self.undescribed.get();
        if known.is_ok() || self.rules_at(registers.instruction).is_ok() {
            return known;
        }
        let guessed = self.guessed(&registers);
        self.undescribed.set(undescribed);
        guessed.map_or(known, Ok)
    }

    /// All functions around the one that has these registers, which is itself the innermost, or has called `within`.
    fn frames(&self, mut registers: Registers, within: Option<&[Standing]>) -> Result<Vec<Standing>, NotUnwound> {
        let (mut found, mut is_called) = (within.unwrap_or_default().to_vec(), within.is_some());
        while found.len() < self.frames_max {
            // A call may be a function's last instruction: what it returns to is another one then.
            let address = registers.instruction - u64::from(is_called);
            let (standing, rules) = self.rules_at(address)?;
            let known = FrameRegisters { stack: registers.stack, kept: registers.kept };
            found.push(Standing { registers: Some(known).filter(|_| within.is_none()), ..standing });
            match self.caller(&registers, &rules)? {
                Some(next) => registers = next,
                None => return Ok(found),
            }
            is_called = true;
        }
        Err(NotUnwound::TooDeep { calls: self.frames_max })
    }

    /// The functions around code that no table describes, and that code itself if it lies in a module: the kernel's own
    /// (vDSO) does not.
    fn guessed(&self, registers: &Registers) -> Option<Vec<Standing>> {
        let at = ProcAddr(registers.instruction);
        let standing = |module: usize| Standing {
            module,
            address: self.modules.modules[module].bias.to_file(at),
            registers: None,
        };
        let innermost: Vec<Standing> = self.modules.index_of(at).map(standing).into_iter().collect();
        // Code written by hand may have changed the registers or not.
        let kept_by = [[None; KEPT_REGISTERS.len()], registers.kept];
        (0..GUESSED_WORDS_MAX).find_map(|number| {
            let at = registers.stack + number * size_of::<u64>() as u64;
            let instruction = (self.word)(at).filter(|word| self.follows_call(*word))?;
            let stack = at + size_of::<u64>() as u64;
            let mut found = kept_by.iter().map(|kept| Registers { instruction, stack, kept: *kept });
            found.find_map(|caller| self.frames(caller, Some(&innermost)).ok())
        })
    }

    /// True if the bytes before `address` are a call in some module's file.
    fn follows_call(&self, address: u64) -> bool {
        let Some(number) = self.modules.index_of(ProcAddr(address)) else { return false };
        let module = &self.modules.modules[number];
        let file = module.bias.to_file(ProcAddr(address.saturating_sub(CALL_BYTES_MAX)));
        let from = module.loaded.image.file_offset_of(file).map(|offset| offset as usize);
        let before = from.and_then(|from| module.loaded.file.bytes().get(from..from + CALL_BYTES_MAX as usize));
        before.is_some_and(is_call)
    }

    fn rules_at(&self, address: u64) -> Result<(Standing, CallerRules), NotUnwound> {
        if let Some(known) = self.known.borrow().get(&address) {
            return Ok(known.clone());
        }
        if self.modules.index_of(ProcAddr(address)).is_none() {
            self.undescribed.set(Some(address));
        }
        let found = rules_at(self.modules, self.maps, address)?;
        self.known.borrow_mut().insert(address, found.clone());
        Ok(found)
    }

    /// The registers of the function that called; `None` behind the outermost.
    fn caller(&self, registers: &Registers, rules: &CallerRules) -> Result<Option<Registers>, NotUnwound> {
        let lost = || NotUnwound::Lost { stack: registers.stack };
        let place = |register: u16, offset: i64| Some(registers.value(register)?.wrapping_add_signed(offset));
        let word = |at: u64| (self.word)(at).ok_or_else(lost);
        let mut frame = place(rules.cfa.register, rules.cfa.offset).ok_or_else(lost)?;
        if rules.cfa.is_in_memory {
            frame = word(frame)?;
        }
        let Some(return_at) = rules.return_address else { return Ok(None) };
        let instruction = word(frame.wrapping_add_signed(return_at))?;
        // Stacks grow downwards; a caller that lies lower is none.
        if frame <= registers.stack || instruction == 0 {
            return Err(lost());
        }
        let mut kept = registers.kept;
        for (value, rule) in kept.iter_mut().zip(rules.kept) {
            match rule {
                Kept::Unchanged => {}
                Kept::At(offset) => *value = Some(word(frame.wrapping_add_signed(offset))?),
                Kept::AtRegister(register, offset) => {
                    *value = place(register, offset).map(word).transpose()?;
                }
                Kept::Lost => *value = None,
            }
        }
        Ok(Some(Registers { instruction, stack: frame, kept }))
    }
}

fn rules_at(modules: &Modules, maps: &MappingTable, address: u64) -> Result<(Standing, CallerRules), NotUnwound> {
    let unknown = || NotUnwound::NoTable { address };
    let number = modules.index_of(ProcAddr(address)).ok_or_else(unknown)?;
    let module = &modules.modules[number];
    // Another library may have been loaded there since.
    maps.at(address).filter(|mapping| mapping.path == module.path).ok_or_else(unknown)?;
    let file = module.bias.to_file(ProcAddr(address));
    let image = &module.loaded.image;
    if image.frame_at(file).is_some_and(|frame| frame.kind == FrameKind::Signal) {
        return Err(NotUnwound::InSignalHandler);
    }
    let rules = caller_rules(module.loaded.file.bytes(), image, file).ok().flatten().ok_or_else(unknown)?;
    Ok((Standing { module: number, address: file, registers: None }, rules))
}
