//! Where a call of MPI comes from: the return addresses through bindings and wrappers up to the program's own code.
//!
//! At an MPI function's entry the routine knows the stack pointer, the frame pointer and the return address. For each
//! return address the monitor has written a rule ([`ReturnRule`]): the path ends there, or the caller's return address
//! lies so many bytes up the stack. So each address is looked up in the unwind tables once, outside, and a step costs a
//! few loads. An address without a rule ends the path for now, and is noted for the monitor.
//!
//! A rule is used only while the code before its address is what it was when the rule was made, and never leads down the
//! stack, nor far up: so what is read lies where the program itself is about to read its return addresses.
//!
//! Next: `trimtab-measure`'s `call_paths`, which makes the rules and names the paths.

use crate::context::{at, thread_pointer};
use crate::layout::*;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The site of a call whose return address `first` lies at `place`: that address alone where it is the program's own or
/// has no rule, else the hash of the path.
#[inline(always)]
pub(crate) fn site(header: *const Header, place: u64, first: u64, frame_pointer: u64) -> u64 {
    let rule = rule_of(header, first);
    if rule.is_null() || leads_on(rule) == step::END {
        return first;
    }
    site_of_path(header, place, frame_pointer, rule)
}

#[inline(always)]
fn leads_on(rule: *const ReturnRule) -> u64 {
    // SAFETY: `rule_of` returned it: an entry of the table.
    unsafe { (*rule).step.load(Relaxed) & step::KIND }
}

#[inline(always)]
fn geometry<'a>(header: *const Header) -> &'a Geometry {
    // SAFETY: islands pass the address at which the shared memory is mapped.
    unsafe { &(*header).geometry }
}

#[inline(always)]
fn rule_at(header: *const Header, index: u64) -> *const ReturnRule {
    let index = index & (RULES_MAX - 1);
    at::<ReturnRule>(header.cast(), geometry(header).rules_offset + index * size_of::<ReturnRule>() as u64)
}

/// The rule of a return address; null if there is none yet.
#[inline(always)]
fn rule_of(header: *const Header, address: u64) -> *const ReturnRule {
    let first = rule_index(address);
    let rule = rule_at(header, first);
    // SAFETY: an entry of the table.
    if unsafe { (*rule).address.load(Acquire) } == address {
        return rule;
    }
    search(header, first, address)
}

#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn search(header: *const Header, first: u64, address: u64) -> *const ReturnRule {
    let mut probe = 0;
    while probe < PROBES_MAX {
        let rule = rule_at(header, first + probe);
        // SAFETY: an entry of the table.
        let held = unsafe { (*rule).address.load(Acquire) };
        if held == address {
            return rule;
        }
        if held == 0 {
            break;
        }
        probe += 1;
    }
    // SAFETY: as in `geometry`.
    let unknown = unsafe { &(*header).unknown };
    at::<AtomicU64>(unknown.as_ptr().cast(), (first & (UNKNOWN_PLACES as u64 - 1)) * 8).store(address, Relaxed);
    core::ptr::null()
}

/// A thread's way up its stack.
struct Way {
    /// The return address it has come to.
    address: u64,
    /// Stack pointer after the return to it.
    stack: u64,
    /// Frame pointer in the function it returns to.
    frame: u64,
}

#[inline(always)]
fn read(place: u64) -> u64 {
    // SAFETY: `Way::up` has checked that a rule for the code that is there leads here: a frame of this thread's own stack,
    // above its stack pointer; an island's saved registers lie below the first place.
    unsafe { core::ptr::read_volatile(place as *const u64) }
}

impl Way {
    #[inline(always)]
    fn from(place: u64, frame: u64) -> Way {
        Way { address: read(place), stack: place + 8, frame }
    }

    /// Goes to the caller's return address by the rule of this one; false where the path ends.
    #[inline(always)]
    fn up(&mut self, rule: *const ReturnRule) -> bool {
        if rule.is_null() {
            return false;
        }
        // SAFETY: an entry of the table.
        let (packed, code) = unsafe { ((*rule).step.load(Relaxed), (*rule).code.load(Relaxed)) };
        let kind = packed & step::KIND;
        // The code is readable: the thread returns to it, and the rule was made for readable code.
        if kind == step::END || kind == step::PYTHON || read(self.address - 8) != code {
            return false;
        }
        let from = if kind == step::BY_FRAME { self.frame } else { self.stack };
        let base = from.wrapping_add((packed as i64 >> 32) as u64);
        let bytes = base.wrapping_sub(self.stack);
        if bytes == 0 || bytes > FRAME_BYTES_MAX || base & 7 != 0 {
            return false;
        }
        let saved = (packed >> 8) & 0xff;
        if saved == step::LOST as u64 {
            self.frame = 0;
        } else if saved != step::UNCHANGED as u64 {
            if saved * 8 > bytes {
                return false;
            }
            self.frame = read(base - saved * 8);
        }
        self.address = read(base - 8);
        self.stack = base;
        true
    }
}

#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn site_of_path(header: *const Header, place: u64, frame_pointer: u64, first: *const ReturnRule) -> u64 {
    let mut rule = first;
    let mut way = Way::from(place, frame_pointer);
    let first = way.address;
    let mut hash = path_hash(0, first);
    let mut length = 1;
    while way.up(rule) {
        hash = path_hash(hash, way.address);
        length += 1;
        if length == PATH_ADDRESSES_MAX {
            break;
        }
        rule = rule_of(header, way.address);
    }
    if length + python::WORDS <= PATH_ADDRESSES_MAX && !rule.is_null() && leads_on(rule) == step::PYTHON {
        let line = PythonLine::of_thread(header);
        if line.code != 0 {
            hash = path_hash(path_hash(hash, line.code), line.instruction);
            length += python::WORDS;
        }
    }
    if length > 1 && is_known(header, hash | PATH_BIT, length, place, frame_pointer) { hash | PATH_BIT } else { first }
}

/// True if the path stands in the table, from now on if not before.
#[inline(always)]
fn is_known(header: *const Header, hash: u64, length: u64, place: u64, frame_pointer: u64) -> bool {
    let paths = geometry(header).paths_offset;
    let mut probe = 0;
    while probe < PROBES_MAX {
        let index = ((hash >> 40) + probe) & (PATHS_MAX - 1);
        let entry: &PathEntry = at(header.cast(), paths + index * size_of::<PathEntry>() as u64);
        let held = entry.hash.load(Relaxed);
        if held == hash {
            return true;
        }
        if held == 0 {
            return note(header, entry, hash, length, place, frame_pointer);
        }
        probe += 1;
    }
    // SAFETY: as in `geometry`.
    unsafe { (*header).paths_lost.fetch_add(1, Relaxed) };
    false
}

/// Writes a path down; false if another thread has taken its place for another one.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn note(
    header: *const Header,
    entry: &PathEntry,
    hash: u64,
    length: u64,
    place: u64,
    frame_pointer: u64,
) -> bool {
    if let Err(held) = entry.hash.compare_exchange(0, hash, AcqRel, Relaxed) {
        return held == hash;
    }
    let mut way = Way::from(place, frame_pointer);
    let mut index = 0;
    while index < length {
        write(entry, index, way.address);
        index += 1;
        let rule = rule_of(header, way.address);
        if index + python::WORDS == length && !rule.is_null() && leads_on(rule) == step::PYTHON {
            // The thread is in its call: its Python frame is what it was.
            let line = PythonLine::of_thread(header);
            write(entry, index, line.code);
            write(entry, index + 1, line.instruction);
            index = length;
        } else if index < length && !way.up(rule) {
            break;
        }
    }
    entry.length.store(index, Release);
    true
}

#[inline(always)]
fn write(entry: &PathEntry, index: u64, word: u64) {
    at::<AtomicU64>(entry.addresses.as_ptr().cast(), index * 8).store(word, Relaxed);
}

/// The Python code that the calling thread executes, and the instruction in it; 0: none is known.
struct PythonLine {
    code: u64,
    instruction: u64,
}

impl PythonLine {
    /// Each thread keeps the state that CPython has of it by a key of its own, whether it holds the interpreter's lock or not,
    /// and nobody else changes its frames while it is in a call.
    #[inline(always)]
    fn of_thread(header: *const Header) -> PythonLine {
        let none = PythonLine { code: 0, instruction: 0 };
        // SAFETY: as in `geometry`.
        let header = unsafe { &*header };
        let key = header.python_key.load(Acquire);
        // CPython takes the key back before it frees the states of threads.
        if key == 0 || read_if_known(key) as u32 == 0 {
            return none;
        }
        let state = read_if_known(thread_pointer().wrapping_add(header.python_word.load(Relaxed)));
        let cframe = field(state, python::STATE_CFRAME);
        let frame = field(cframe, python::CFRAME_FRAME);
        let code = field(frame, python::FRAME_CODE);
        let instruction = field(frame, python::FRAME_INSTRUCTION);
        if code == 0 || instruction == 0 {
            return none;
        }
        PythonLine { code, instruction }
    }
}

/// A word of one of CPython's structures; 0 where there is none.
#[inline(always)]
fn field(structure: u64, offset: u64) -> u64 {
    // Neither a pointer to a structure nor an address of a process.
    if structure & 7 != 0 || structure >> 47 != 0 {
        return 0;
    }
    if structure == 0 { 0 } else { read_if_known(structure + offset) }
}

#[inline(always)]
fn read_if_known(place: u64) -> u64 {
    // SAFETY: the monitor has set the key only after it found this thread library's and this CPython's structures where they
    // are looked for; a thread's own state, and the frames that it runs, last at least as long as its call.
    unsafe { core::ptr::read_volatile(place as *const u64) }
}
