//! Where a thread's `errno` is: bodies that call functions of the program keep it, since the program may look at it next.
//!
//! It lies at the same distance from every thread's pointer. The C library's own function that returns its address is
//! read for that distance, not called: it is a load or a constant, an addition and a return, in each library that we know.
//!
//! Next: `script`, which hands it to the bodies.

use crate::modules::Modules;
use trimtab_os::Memory;

/// Returns the address of `errno`, in every C library.
const FUNCTION: &str = "__errno_location";
/// Bytes of it that are looked at.
const LENGTH: usize = 32;
/// `endbr64`, which compilers may put first.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// `mov rax, [rip + ...]` and `mov rax, ...`.
const LOAD: [u8; 3] = [0x48, 0x8b, 0x05];
const CONSTANT: [u8; 3] = [0x48, 0xc7, 0xc0];
/// `add rax, fs:[0]; ret`
const ADD_POINTER: [u8; 10] = [0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0, 0xc3];
/// `mov rax, fs:[0]; add rax, ...`, and what follows that.
const POINTER: [u8; 12] = [0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x48, 0x83, 0xc0];
const RETURN: u8 = 0xc3;

/// The result of reading the function's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// The distance from the thread pointer.
    Distance(i32),
    /// So far behind the function's start there is a word with the distance.
    Word(i64),
}

/// From a thread's pointer to its `errno`, if that can be told.
pub(crate) fn errno_at(modules: &Modules) -> Option<i32> {
    let memory = Memory::open(modules.pid).ok()?;
    let (_, address) = modules.modules.iter().find_map(|module| module.function(FUNCTION))?;
    let code = memory.read_vec(address.0, LENGTH).ok()?;
    match read(&code)? {
        Found::Distance(distance) => Some(distance),
        Found::Word(behind) => {
            let word = memory.read_word(address.0.wrapping_add_signed(behind)).ok()?;
            i32::try_from(word as i64).ok()
        }
    }
}

fn read(code: &[u8]) -> Option<Found> {
    let (skipped, code) = match code.strip_prefix(&LANDING) {
        Some(rest) => (LANDING.len(), rest),
        None => (0, code),
    };
    if let Some(rest) = code.strip_prefix(&POINTER) {
        let [distance, RETURN, ..] = rest else { return None };
        return Some(Found::Distance(i32::from(*distance as i8)));
    }
    let (opcode, rest) = code.split_at_checked(LOAD.len())?;
    let (number, rest) = rest.split_first_chunk::<4>()?;
    rest.strip_prefix(&ADD_POINTER)?;
    let number = i32::from_le_bytes(*number);
    let next = (skipped + LOAD.len() + 4) as i64;
    match opcode {
        _ if opcode == LOAD => Some(Found::Word(next + i64::from(number))),
        _ if opcode == CONSTANT => Some(Found::Distance(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_is_read_as_each_library_has_it() {
        let all = |parts: &[&[u8]]| parts.concat();
        let rows: [(&str, Vec<u8>, Option<Found>); 6] = [
            ("shared", all(&[&LOAD, &[0x10, 1, 0, 0], &ADD_POINTER]), Some(Found::Word(7 + 0x110))),
            (
                "with a landing pad",
                all(&[&LANDING, &LOAD, &[0xf0, 0xff, 0xff, 0xff], &ADD_POINTER]),
                Some(Found::Word(11 - 16)),
            ),
            ("static", all(&[&CONSTANT, &[0xc0, 0xff, 0xff, 0xff], &ADD_POINTER]), Some(Found::Distance(-64))),
            ("of the pointer's own struct", all(&[&POINTER, &[0x34, RETURN]]), Some(Found::Distance(0x34))),
            ("something else", all(&[&LOAD, &[0, 0, 0, 0], &[0x90; 12]]), None),
            ("too short", LOAD.to_vec(), None),
        ];
        for (name, code, expected) in rows {
            assert_eq!(read(&code), expected, "{name}");
        }
    }

    #[test]
    fn our_own_is_where_the_library_says() {
        let pid = trimtab_types::Pid(std::process::id() as i32);
        let cache = crate::ImageCache::in_memory();
        let modules = Modules::read(pid, &cache, &|path| path.contains("libc.so")).expect("modules");
        assert!(errno_at(&modules).is_some_and(|distance| distance != 0), "{:?}", errno_at(&modules));
    }
}
