//! Who called whom on a held thread's stack, from the unwind tables alone and down to the very first function.
//!
//! A stack is known wholly or not at all: where one table says nothing, where a rule needs a calculation, or where a
//! signal handler was called, there is no answer. Words of the stack are never guessed to be return addresses.
//!
//! Next: `outside_call`, which decides by it whether a thread may be interrupted.

use crate::modules::Modules;
use trimtab_os::{MappingTable, Memory, Thread};
use trimtab_symbols::{CallerRules, FrameKind, KEPT_REGISTERS, Kept, caller_rules};
use trimtab_types::{FileAddr, ProcAddr};

/// Calls on one stack, at most.
const FRAMES_MAX: usize = 256;
/// The stack pointer in DWARF's numbering.
const STACK_POINTER: u16 = 7;

/// One function that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Number of its module.
    pub module: usize,
    /// The instruction it is at: for all but the innermost, the last byte of the call.
    pub address: FileAddr,
}

/// What is known of a function's registers.
struct Registers {
    instruction: u64,
    stack: u64,
    kept: [Option<u64>; KEPT_REGISTERS.len()],
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
) -> Result<Vec<Standing>, String> {
    let at = &thread.registers;
    let kept = [at.rbx, at.rbp, at.r12, at.r13, at.r14, at.r15].map(Some);
    let mut registers = Registers { instruction: at.rip, stack: at.rsp, kept };
    let mut found = Vec::new();
    while found.len() < FRAMES_MAX {
        // A call may be a function's last instruction: what it returns to is another one then.
        let address = registers.instruction - u64::from(!found.is_empty());
        let (standing, rules) = rules_at(modules, maps, address)?;
        found.push(standing);
        match caller(memory, &registers, &rules)? {
            Some(next) => registers = next,
            None => return Ok(found),
        }
    }
    Err(format!("it is more than {FRAMES_MAX} calls deep"))
}

fn rules_at(modules: &Modules, maps: &MappingTable, address: u64) -> Result<(Standing, CallerRules), String> {
    let unknown = || format!("it is in code that no table describes ({address:#x})");
    let number = modules.index_of(ProcAddr(address)).ok_or_else(unknown)?;
    let module = &modules.modules[number];
    // Another library may have been loaded there since.
    maps.at(address).filter(|mapping| mapping.path == module.path).ok_or_else(unknown)?;
    let file = module.bias.to_file(ProcAddr(address));
    let image = &module.loaded.image;
    if image.frame_at(file).is_some_and(|frame| frame.kind == FrameKind::Signal) {
        return Err("it is in a signal handler".into());
    }
    let rules = caller_rules(module.loaded.file.bytes(), image, file).ok().flatten().ok_or_else(unknown)?;
    Ok((Standing { module: number, address: file }, rules))
}

/// The registers of the function that called; `None` behind the outermost.
fn caller(memory: &Memory, registers: &Registers, rules: &CallerRules) -> Result<Option<Registers>, String> {
    let lost = || format!("what was saved on its stack at {:#x} is not known", registers.stack);
    let (base, offset) = rules.cfa;
    let base = match KEPT_REGISTERS.iter().position(|number| *number == base) {
        _ if base == STACK_POINTER => Some(registers.stack),
        Some(kept) => registers.kept[kept],
        None => None,
    };
    let frame = base.ok_or_else(lost)?.wrapping_add_signed(offset);
    let Some(return_at) = rules.return_address else { return Ok(None) };
    let word = |offset: i64| memory.read_word(frame.wrapping_add_signed(offset)).map_err(|_| lost());
    let instruction = word(return_at)?;
    // Stacks grow downwards; a caller that lies lower is none.
    if frame <= registers.stack || instruction == 0 {
        return Err(lost());
    }
    let mut kept = registers.kept;
    for (value, rule) in kept.iter_mut().zip(rules.kept) {
        match rule {
            Kept::Unchanged => {}
            Kept::At(offset) => *value = Some(word(offset)?),
            Kept::Lost => *value = None,
        }
    }
    Ok(Some(Registers { instruction, stack: frame, kept }))
}
