//! Which places of the code an input has reached, if this program was built with flags for it.
//!
//! The compiler then sets one byte per branch the first time it is taken, and tells us at the program's start where these
//! bytes lie (`-C passes=sancov-module` with boolean flags; `cargo xtask fuzz` gives the flags). In any other build nobody
//! tells us anything and coverage is empty.
//!
//! Next: `worker`, which keeps inputs that reach something new.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Bytes the compiler's code sets, of one part of this program. The words are most of them, looked at eight at a time.
#[derive(Clone, Copy)]
struct Part {
    head: &'static [AtomicU8],
    words: &'static [AtomicU64],
    tail: &'static [AtomicU8],
}

/// The places of all parts of this program.
static PARTS: Mutex<Vec<Part>> = Mutex::new(Vec::new());

/// Called by code that the compiler adds to each part of the program, before `main`.
// SAFETY: nobody else in this program defines the name, which is reserved for this purpose.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_bool_flag_init(start: *mut AtomicU8, end: *mut AtomicU8) {
    let length = (end as usize).saturating_sub(start as usize);
    if start.is_null() || length == 0 {
        return;
    }
    // SAFETY: the compiler passes the bounds of a static array of this program that is written byte by byte, and an
    // atomic byte is laid out as a plain one.
    let places = unsafe { std::slice::from_raw_parts(start.cast_const(), length) };
    // SAFETY: any eight bytes are a valid word, and only aligned ones become words.
    let (head, words, tail) = unsafe { places.align_to::<AtomicU64>() };
    if let Ok(mut parts) = PARTS.lock()
        && !parts.iter().any(|known| std::ptr::eq(known.head.as_ptr(), head.as_ptr()))
    {
        parts.push(Part { head, words, tail });
    }
}

/// The places reached so far. Places are only ever set by the program and forgotten here, in the thread that runs
/// inputs.
pub struct Coverage {
    parts: Vec<Part>,
    /// The places that were set at any look: the words of each part, then its other bytes.
    seen: Vec<u64>,
    /// Number of places reached.
    pub reached: u64,
}

impl Coverage {
    /// Nothing reached.
    pub fn new() -> Coverage {
        let parts = PARTS.lock().map(|parts| parts.clone()).unwrap_or_default();
        let words = parts.iter().map(|part| part.words.len() + part.head.len() + part.tail.len()).sum();
        Coverage { parts, seen: vec![0; words], reached: 0 }
    }

    /// True if this program tells what it reaches.
    pub fn is_there(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Forgets what was set since the last look, so that the next look is about what runs from now on.
    pub fn clear(&self) {
        for part in &self.parts {
            part.words.iter().for_each(|word| word.store(0, Relaxed));
            part.head.iter().chain(part.tail).for_each(|place| place.store(0, Relaxed));
        }
    }

    /// True if something set now was never reached before; remembers it if `keep`.
    pub fn look(&mut self, keep: bool) -> bool {
        let (mut found, mut at) = (false, 0);
        for part in &self.parts {
            let (words, edges) = self.seen[at..].split_at_mut(part.words.len());
            at += part.words.len() + part.head.len() + part.tail.len();
            for (word, seen) in part.words.iter().zip(words) {
                found |= note(word.load(Relaxed), seen, keep, &mut self.reached);
            }
            for (place, seen) in part.head.iter().chain(part.tail).zip(edges) {
                found |= note(place.load(Relaxed).into(), seen, keep, &mut self.reached);
            }
        }
        found
    }
}

/// True if something is set that was not seen; counts and remembers it if `keep`. Each place is one bit of its byte.
fn note(set: u64, seen: &mut u64, keep: bool, reached: &mut u64) -> bool {
    let new = set & !*seen;
    if new != 0 && keep {
        *reached += u64::from(new.count_ones());
        *seen |= new;
    }
    new != 0
}
