//! Lines of Python from which calls come: where CPython keeps the frames of a thread, and what its code objects say.
//!
//! The routine in the rank notes the code object and the instruction of the thread that calls; here they become a file, a
//! function and a line. CPython's structures differ from version to version, so that only those of 3.11 are read, and only after
//! a thread's state was found where it is looked for. An object that does not read, or is of another type, has no line.
//!
//! Next: `call_paths`, whose paths end here.

use trimtab_os::{Memory, thread_ids};
use trimtab_session::Modules;
use trimtab_types::Pid;

/// The version whose structures are known: 3.11, released.
const VERSION: u64 = 0x030b;
const RELEASED: u64 = 0xf0;

/// Offsets in `_PyRuntime`: the first interpreter, that of threads without a state, and the key of the threads' states.
const RUNTIME_INTERPRETERS: u64 = 40;
const RUNTIME_AUTO_INTERPRETER: u64 = 584;
const RUNTIME_KEY: u64 = 592;
/// Offset in an interpreter: the next one.
const INTERPRETER_NEXT: u64 = 0;
/// Offsets in a thread's state: its interpreter, its thread as the thread library and as the kernel name it.
const STATE_INTERPRETER: u64 = 16;
const STATE_THREAD: u64 = 152;
const STATE_TID: u64 = 160;

/// Where glibc keeps a thread's word of its first key, from the thread pointer, bytes of a key, and keys that lie there.
const KEYS_WORD: u64 = 0x318;
const KEY_BYTES: u64 = 16;
const KEYS_MAX: u64 = 32;

/// Offsets in any object: its type, and its length.
const OBJECT_TYPE: usize = 8;
const OBJECT_SIZE: usize = 16;
/// Offsets in a code object; the last is that of its instructions, of two bytes each.
const CODE_FIRST_LINE: usize = 72;
const CODE_FILE: usize = 112;
const CODE_NAME: usize = 128;
const CODE_LINES: usize = 136;
const CODE_INSTRUCTIONS: usize = 184;
const INSTRUCTION_BYTES: u64 = 2;
/// Offsets in a text: its kind, and its letters, if all are ASCII or not.
const TEXT_KIND: usize = 32;
const TEXT_ASCII: usize = 48;
const TEXT_LETTERS: usize = 72;
/// Offset of the bytes in an object of bytes.
const BYTES_BEGIN: u64 = 32;

/// No code object has more instructions, bytes of its table, or letters of a name.
const INSTRUCTIONS_MAX: u64 = 1 << 24;
const TABLE_BYTES_MAX: u64 = 1 << 24;
const LETTERS_MAX: u64 = 4096;

/// A process's CPython.
#[derive(Clone, Debug)]
pub(super) struct Interpreter {
    /// Address of the key of the threads' states.
    pub key: u64,
    /// Bytes from a thread's pointer to the word that it keeps by it.
    pub word: u64,
    code_type: u64,
    text_type: u64,
    bytes_type: u64,
}

/// A place in a program in Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PythonPlace {
    /// The file as Python knows it.
    pub file: String,
    /// The function with its class.
    pub function: String,
    /// The line; `None`: the instruction has none.
    pub line: Option<u32>,
    /// Bytes from the first instruction of the function.
    pub offset: u64,
}

impl Interpreter {
    /// The CPython of a process of which threads have these pointers.
    ///
    /// # Errors
    /// Why its lines are not known, as a part of a sentence.
    pub(super) fn of(modules: &Modules, pid: Pid, thread_pointers: &[u64]) -> Result<Interpreter, String> {
        let memory = Memory::open(pid).map_err(|error| error.to_string())?;
        let object = |name: &str| {
            modules.object(name).map(|address| address.0).ok_or_else(|| format!("the interpreter has no symbol {name}"))
        };
        let read = |address: u64| memory.read_word(address).map_err(|error| error.to_string());
        check_version(read(object("Py_Version")?)?)?;
        let runtime = object("_PyRuntime")?;
        let first = read(runtime + RUNTIME_INTERPRETERS)?;
        if first == 0 || read(runtime + RUNTIME_AUTO_INTERPRETER)? != first || read(first + INTERPRETER_NEXT)? != 0 {
            return Err("the process has several interpreters, or none yet".to_owned());
        }
        let key = read(runtime + RUNTIME_KEY)?;
        let (is_there, number) = (key & u64::from(u32::MAX), key >> 32);
        if is_there != 1 || number >= KEYS_MAX {
            return Err("the interpreter does not keep its threads' states where they are looked for".to_owned());
        }
        let interpreter = Interpreter {
            key: runtime + RUNTIME_KEY,
            word: KEYS_WORD + number * KEY_BYTES,
            code_type: object("PyCode_Type")?,
            text_type: object("PyUnicode_Type")?,
            bytes_type: object("PyBytes_Type")?,
        };
        interpreter.check_threads((&memory, pid), first, thread_pointers)?;
        Ok(interpreter)
    }

    /// Holds the threads' states against what is known of the threads.
    fn check_threads(&self, (memory, pid): (&Memory, Pid), first: u64, pointers: &[u64]) -> Result<(), String> {
        let tids = thread_ids(pid).map_err(|error| error.to_string())?;
        let read = |address: u64| memory.read_word(address).map_err(|error| error.to_string());
        let mut is_found = false;
        for pointer in pointers {
            let state = read(pointer + self.word)?;
            // A thread that Python does not know has none.
            if state == 0 {
                continue;
            }
            let is_of_thread = read(state + STATE_INTERPRETER)? == first
                && read(state + STATE_THREAD)? == *pointer
                && tids.iter().any(|tid| read(state + STATE_TID) == Ok(*tid as u64));
            if !is_of_thread {
                return Err("a thread's state is not where it is looked for".to_owned());
            }
            is_found = true;
        }
        if is_found { Ok(()) } else { Err("no thread that calls is one of Python's".to_owned()) }
    }

    /// The place of an instruction of a code object; `None`: it can't be read, or is none.
    pub(super) fn place(&self, pid: Pid, code: u64, instruction: u64) -> Option<PythonPlace> {
        let memory = &Memory::open(pid).ok()?;
        let object = self.object(memory, code, self.code_type, CODE_INSTRUCTIONS)?;
        let offset = instruction.checked_sub(code + CODE_INSTRUCTIONS as u64)?;
        let count = word(&object, OBJECT_SIZE)?;
        let is_inside = count <= INSTRUCTIONS_MAX && offset < count * INSTRUCTION_BYTES;
        if !is_inside || !offset.is_multiple_of(INSTRUCTION_BYTES) {
            return None;
        }
        let first_line = word(&object, CODE_FIRST_LINE)? as u32;
        let table = self.bytes(memory, word(&object, CODE_LINES)?)?;
        Some(PythonPlace {
            file: self.text(memory, word(&object, CODE_FILE)?)?,
            function: self.text(memory, word(&object, CODE_NAME)?)?,
            line: line_at(&table, first_line, offset / INSTRUCTION_BYTES)?,
            offset,
        })
    }

    /// The first bytes of an object, if it is of this type.
    fn object(&self, memory: &Memory, address: u64, of_type: u64, bytes: usize) -> Option<Vec<u8>> {
        let is_aligned = address != 0 && address.is_multiple_of(8);
        let object = is_aligned.then(|| memory.read_vec(address, bytes).ok()).flatten()?;
        (word(&object, OBJECT_TYPE)? == of_type).then_some(object)
    }

    fn bytes(&self, memory: &Memory, address: u64) -> Option<Vec<u8>> {
        let object = self.object(memory, address, self.bytes_type, BYTES_BEGIN as usize)?;
        let length = word(&object, OBJECT_SIZE).filter(|length| *length <= TABLE_BYTES_MAX)?;
        memory.read_vec(address + BYTES_BEGIN, length as usize).ok()
    }

    fn text(&self, memory: &Memory, address: u64) -> Option<String> {
        let object = self.object(memory, address, self.text_type, TEXT_ASCII)?;
        let length = word(&object, OBJECT_SIZE).filter(|length| *length <= LETTERS_MAX)?;
        let letters = Letters::of(word(&object, TEXT_KIND)? as u32)?;
        let bytes = memory.read_vec(address + letters.begin as u64, length as usize * letters.bytes).ok()?;
        letters.text(&bytes)
    }
}

fn check_version(version: u64) -> Result<(), String> {
    let (major, minor) = (version >> 24, version >> 16 & 0xff);
    if version >> 16 == VERSION && version & 0xf0 == RELEASED {
        return Ok(());
    }
    Err(format!("where CPython {major}.{minor} keeps its frames is not known, only where 3.11 does"))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// How a text keeps its letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Letters {
    begin: usize,
    bytes: usize,
}

impl Letters {
    /// By the word that says so: two bits of use, three of the bytes of a letter, then whether the letters lie in the object
    /// itself, are ASCII, and are there.
    fn of(state: u32) -> Option<Letters> {
        let (bytes, is_compact, is_ascii) = ((state >> 2 & 7) as usize, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        let is_ready = state >> 7 & 1 == 1;
        let begin = if is_ascii { TEXT_ASCII } else { TEXT_LETTERS };
        (is_compact && is_ready && matches!(bytes, 1 | 2 | 4)).then_some(Letters { begin, bytes })
    }

    fn text(self, bytes: &[u8]) -> Option<String> {
        let letter = |part: &[u8]| {
            let number = part.iter().rev().fold(0, |number: u32, byte| number << 8 | u32::from(*byte));
            char::from_u32(number)
        };
        bytes.chunks(self.bytes).map(letter).collect()
    }
}

/// The line of an instruction by its number, from a code object's table; `None` outside: the table does not have it, or is
/// none; inside: the instruction has no line.
///
/// An entry is a byte with bit 7 set, a kind in bits 3 to 6 and the number of its instructions less one below; then follow
/// numbers of six bits each, the lowest first, bit 6 set in all but the last, or one or two plain bytes.
fn line_at(table: &[u8], first_line: u32, instruction: u64) -> Option<Option<u32>> {
    let (mut at, mut line, mut begin) = (0, i64::from(first_line), 0);
    while let Some(head) = table.get(at) {
        if head & 0x80 == 0 {
            return None;
        }
        let (kind, length) = (head >> 3 & 0xf, u64::from(head & 7) + 1);
        at += 1;
        match kind {
            0..=9 => at += 1,
            10..=12 => {
                line += i64::from(kind - 10);
                at += 2;
            }
            13 => line += signed(number(table, &mut at)?),
            14 => {
                line += signed(number(table, &mut at)?);
                // Where it ends, and its columns.
                for _ in 0..3 {
                    number(table, &mut at)?;
                }
            }
            _ => {}
        }
        if instruction < begin + length {
            let known = u32::try_from(line).ok().filter(|line| *line > 0 && at <= table.len())?;
            return Some((kind != 15).then_some(known));
        }
        begin += length;
    }
    None
}

fn number(table: &[u8], at: &mut usize) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = *table.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x3f) << shift;
        shift += 6;
        if byte & 0x40 == 0 {
            return Some(number);
        }
        if shift > 30 {
            return None;
        }
    }
}

/// The lowest bit is the sign.
fn signed(number: u64) -> i64 {
    let size = (number >> 1) as i64;
    if number & 1 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As CPython 3.11 made it of a function of 14 lines with a loop, a `try`, and calls over several lines.
    const TABLE: [u8; 108] = [
        128, 0, 224, 9, 10, 216, 9, 10, 241, 3, 1, 10, 11, 128, 65, 229, 13, 18, 144, 49, 137, 88, 140, 88, 240, 0, 5,
        5, 17, 240, 0, 5, 5, 17, 136, 1, 240, 2, 4, 9, 17, 221, 16, 17, 144, 33, 216, 18, 19, 241, 3, 1, 17, 21, 244,
        0, 1, 17, 21, 136, 65, 240, 6, 0, 13, 17, 248, 136, 68, 136, 68, 136, 68, 136, 68, 240, 4, 1, 12, 15, 240, 0,
        1, 12, 15, 216, 12, 13, 240, 3, 1, 12, 15, 241, 0, 1, 12, 15, 244, 0, 1, 12, 15, 240, 0, 1, 5, 15,
    ];
    /// The lines of its instructions, as `co_positions` tells them; 0: none.
    const LINES: [u32; 58] = [
        2, 4, 5, 4, 4, 4, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 7, 8, 8, 8, 8, 8, 8, 8, 9, 8, 8, 8, 8, 8,
        8, 8, 8, 11, 0, 11, 11, 11, 11, 13, 13, 14, 13, 13, 13, 13, 13, 13, 13, 13, 13,
    ];

    #[test]
    fn lines_of_instructions_are_those_that_python_tells() {
        for (instruction, line) in LINES.iter().enumerate() {
            let expected = Some(Some(*line).filter(|line| *line > 0));
            assert_eq!(line_at(&TABLE, 2, instruction as u64), expected, "instruction {instruction}");
        }
        assert_eq!(line_at(&TABLE, 2, LINES.len() as u64), None, "behind the last");
    }

    #[test]
    fn a_table_that_is_none_has_no_line() {
        for cut in 0..TABLE.len() {
            let last = LINES.len() as u64 - 1;
            assert_eq!(line_at(&TABLE[..cut], 2, last), None, "{cut} bytes of it");
        }
        for table in [&[0x00, 0x00][..], &[0xf0, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f], &[0xe8], &[0xe8, 0x7f]] {
            assert_eq!(line_at(table, 2, 0), None, "{table:?}");
        }
    }

    #[test]
    fn other_versions_are_refused_by_name() {
        assert_eq!(check_version(0x030b_02f0), Ok(()));
        for (version, name) in [(0x030c_01f0, "3.12"), (0x030a_04f0, "3.10"), (0x030b_00c1, "3.11")] {
            assert!(check_version(version).is_err_and(|why| why.contains(name)), "{version:#x}");
        }
    }

    #[test]
    fn texts_are_read_as_python_keeps_them() {
        let state = |bytes: u32, is_ascii: u32| bytes << 2 | 1 << 5 | is_ascii << 6 | 1 << 7;
        let text = |state: u32, bytes: &[u8]| Letters::of(state).and_then(|letters| letters.text(bytes));
        assert_eq!(text(state(1, 1), b"solve.py").as_deref(), Some("solve.py"));
        assert_eq!(text(state(1, 0), b"l\xf6se").as_deref(), Some("l\u{f6}se"));
        assert_eq!(text(state(2, 0), &[0xb1, 0x03, b'x', 0]).as_deref(), Some("\u{3b1}x"));
        assert_eq!(text(state(4, 0), &[0, 0xf6, 1, 0]).as_deref(), Some("\u{1f600}"));
        assert_eq!(text(state(2, 0), &[0, 0xd8]), None, "no letter");
        assert_eq!(Letters::of(state(3, 0)), None);
        assert_eq!(Letters::of(1 << 2 | 1 << 7), None, "its letters lie elsewhere");
    }
}
