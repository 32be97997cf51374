//! How a system call goes on in which a thread was interrupted, when the thread's state is restored by a signal return.
//!
//! The kernel resumes most calls by making them anew. Sleeps and waits with a time it resumes by a call of its own, which
//! knows the time that remains, and forgets it with the next signal return. So a thread that must come back by one makes
//! its first call anew. Once the kernel has resumed it, that call's number stands in no register any more: it is read
//! from the instructions before the call.
//!
//! Next: `inject`, which has a thread come back like that if we are killed meanwhile.

use crate::memory::Memory;
use crate::stop::Thread;
use crate::sys::Registers;

/// First and last errno-like codes by which the kernel marks a system call to be restarted.
const RESTART_CODES: std::ops::RangeInclusive<i64> = 512..=516;
/// `restart_syscall`: the kernel's own call, by which it resumes others.
const RESTART_CALL: u64 = 219;
/// The calls that it resumes so: poll, nanosleep, futex, `clock_nanosleep`.
const TIMED_CALLS: [u32; 4] = [7, 35, 202, 230];
/// Bytes of the `syscall` instruction.
const SYSTEM_CALL_BYTES: u64 = 2;
/// Bytes before it that are searched.
const BEFORE_BYTES: u64 = 16;

/// rax and rip from which an interrupted system call starts anew; those of `registers` if there is none.
pub(crate) fn restart_state(registers: &Registers) -> (u64, u64) {
    let interrupted = (registers.orig_rax as i64) >= 0 && RESTART_CODES.contains(&-(registers.rax as i64));
    match interrupted {
        true => (registers.orig_rax, registers.rip - SYSTEM_CALL_BYTES),
        false => (registers.rax, registers.rip),
    }
}

/// The registers of `thread` for a signal frame. A call of which the kernel alone knew how to go on is replaced by the
/// one that the program made, which then begins anew with its whole time; where that can't be told, it ends as by a
/// signal.
pub(crate) fn registers_to_restore(thread: &Thread, memory: &Memory) -> Registers {
    let mut registers = thread.registers;
    if thread.is_in_timed_call() && registers.orig_rax == RESTART_CALL {
        let from = registers.rip.saturating_sub(SYSTEM_CALL_BYTES + BEFORE_BYTES);
        let code = memory.read_vec(from, BEFORE_BYTES as usize).unwrap_or_default();
        registers.orig_rax = made_by(&code).map_or(RESTART_CALL, u64::from);
    }
    registers
}

/// The number that the instructions right before a system call load into eax, if it is one of the timed calls.
fn made_by(code: &[u8]) -> Option<u32> {
    const LOAD_EAX: u8 = 0xb8;
    let number = |bytes: &[u8]| match bytes {
        [LOAD_EAX, low, 0, 0, 0] => Some(u32::from(*low)).filter(|number| TIMED_CALLS.contains(number)),
        _ => None,
    };
    let mut found = code.windows(5).filter_map(number);
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_read_from_the_code() {
        let cases: [(&[u8], Option<u32>); 6] = [
            (&[0x89, 0xdf, 0xb8, 0xe6, 0, 0, 0], Some(230)),
            (&[0xb8, 0xca, 0, 0, 0, 0x40, 0x80, 0xf6, 0x80], Some(202)),
            (&[0xb8, 0x23, 0, 0, 0, 0xb8, 0x07, 0, 0, 0], None),
            (&[0xb8, 0x27, 0, 0, 0], None),
            (&[0x48, 0x89, 0xf8], None),
            (&[], None),
        ];
        for (code, expected) in cases {
            assert_eq!(made_by(code), expected, "{code:x?}");
        }
    }
}
