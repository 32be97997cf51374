//! How a system call goes on in which a thread was interrupted, when the thread's state is restored by a signal return.
//!
//! The kernel resumes most calls by making them anew. Sleeps and waits with a time it resumes by a call of its own, which
//! knows the time that remains, and forgets it with the next signal return. So a thread that must come back by one makes
//! its first call anew. Once the kernel has resumed it, that call's number stands in no register any more: it is read
//! from the instructions before the call, or told by the arguments, which are still there.
//!
//! Next: `inject`, which has a thread come back like that if we are killed meanwhile.

use crate::memory::Memory;
use crate::sys::Registers;
use crate::thread::Thread;

/// First and last errno-like codes by which the kernel marks a system call to be restarted.
const RESTART_CODES: std::ops::RangeInclusive<i64> = 512..=516;
/// `restart_syscall`: the kernel's own call, by which it resumes others.
const RESTART_CALL: u64 = 219;
/// The calls that it resumes so: poll, nanosleep, futex, `clock_nanosleep`.
const TIMED_CALLS: [u32; 4] = [POLL, NANOSLEEP, FUTEX, CLOCK_NANOSLEEP];
const POLL: u32 = 7;
const NANOSLEEP: u32 = 35;
const FUTEX: u32 = 202;
const CLOCK_NANOSLEEP: u32 = 230;
/// Futex operations that wait, without the flags for private ones and for the clock: `FUTEX_WAIT`, `FUTEX_WAIT_BITSET`.
const FUTEX_WAITS: [u64; 2] = [0, 9];
const FUTEX_FLAGS: u64 = 128 | 256;
/// Clocks have smaller numbers, and nothing is mapped at addresses that small.
const CLOCKS_END: u64 = 16;
/// More descriptors than are polled at once.
const POLLED_END: u64 = 1 << 16;
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
        let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10];
        let told = || told_by(arguments, &|address| memory.read_vec(address, 16).ok()?.try_into().ok());
        registers.orig_rax = made_by(&code).or_else(told).map_or(RESTART_CALL, u64::from);
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

/// Which of the timed calls has these arguments, if only one can have them. In glibc since 2.41 and in musl one
/// instruction makes all calls that can be cancelled, so the code before it does not tell. `bytes_at` reads 16 bytes.
fn told_by([first, second, third, fourth]: [u64; 4], bytes_at: &dyn Fn(u64) -> Option<[u8; 16]>) -> Option<u32> {
    let is_time = |address| bytes_at(address).is_some_and(|bytes| is_time(u128::from_le_bytes(bytes)));
    let is_there = |address| bytes_at(address).is_some();
    let can_poll = second < POLLED_END && (third as i32) > 0;
    let is_futex = FUTEX_WAITS.contains(&(second & !FUTEX_FLAGS)) && is_there(first) && is_time(fourth);
    let is_sleep = is_time(first) && (second == 0 || is_there(second));
    match (first < CLOCKS_END, is_futex, is_sleep) {
        // Until a point in time, and so not one that only the kernel could resume, if the flags are not 0.
        (true, ..) if second == 0 && is_time(third) => Some(CLOCK_NANOSLEEP),
        (true, ..) => (first == 0 && second == 0 && can_poll).then_some(POLL),
        (_, true, true) => None,
        (_, true, false) => Some(FUTEX),
        (_, false, true) => Some(NANOSLEEP),
        _ => (can_poll && is_there(first)).then_some(POLL),
    }
}

/// True if a `timespec` says how long somebody waits: seconds in the low half, nanoseconds in the high one.
fn is_time(timespec: u128) -> bool {
    const NS_PER_S: u64 = 1_000_000_000;
    let (seconds, nanoseconds) = (timespec as i64, (timespec >> 64) as u64);
    timespec != 0 && seconds >= 0 && nanoseconds < NS_PER_S
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_is_told_by_its_arguments() {
        // A time at 0x1000, a futex at 0x2000, descriptors to poll at 0x3000, anything at 0x4000; all else is not mapped.
        let memory = |address: u64| -> Option<[u8; 16]> {
            let words: [u64; 2] = match address {
                0x1000 => [1, 500_000_000],
                0x2000 => [2, u64::MAX],
                0x3000 => [1 << 32 | 3, 1 << 32 | 4],
                0x4000 => [0, 0],
                _ => return None,
            };
            Some((u128::from(words[0]) | u128::from(words[1]) << 64).to_le_bytes())
        };
        let cases = [
            ("nanosleep", [0x1000, 0, 7, 0x4000], Some(NANOSLEEP)),
            ("nanosleep, what remains", [0x1000, 0x4000, 7, 0], Some(NANOSLEEP)),
            ("clock_nanosleep", [1, 0, 0x1000, 0x4000], Some(CLOCK_NANOSLEEP)),
            ("clock_nanosleep of the clock 0", [0, 0, 0x1000, 0], Some(CLOCK_NANOSLEEP)),
            ("poll of nothing", [0, 0, 100, 0], Some(POLL)),
            ("poll of two", [0x3000, 2, 100, 0x1000], Some(POLL)),
            ("poll of nine", [0x3000, 9, 100, 0], Some(POLL)),
            ("poll without a time", [0x3000, 2, u64::from(u32::MAX), 0], None),
            ("private futex", [0x2000, 128, 2, 0x1000], Some(FUTEX)),
            ("shared futex", [0x2000, 0, 2, 0x1000], Some(FUTEX)),
            ("futex by the clock", [0x2000, 9 | 128 | 256, 2, 0x1000], Some(FUTEX)),
            ("futex or nanosleep", [0x1000, 0, 2, 0x1000], None),
            ("until a point in time", [1, 1, 0x1000, 0], None),
            ("nothing known", [0x5000, 0x5000, 0, 0], None),
        ];
        for (name, arguments, expected) in cases {
            assert_eq!(told_by(arguments, &memory), expected, "{name}");
        }
    }

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
