//! The two instruction sequences by which a thread makes calls for us, where a process has them, and one such call.
//!
//! Next: `inject`, which has a thread make them.

use crate::error::Error;
use crate::memory::Memory;
use crate::proc::MappingTable;
use memchr::memmem;
use trimtab_types::Pid;
use trimtab_types::procfs::Mapping;

/// `syscall; ret`.
const SYSTEM_CALL: [u8; 3] = [0x0f, 0x05, 0xc3];

/// `mov $15,%rax; syscall`: rt_sigreturn, as glibc and musl have it.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05];

/// Largest executable mapping that is searched.
const SEARCH_MAX: u64 = 64 << 20;

/// So much of it at a time.
const PIECE_BYTES: u64 = 64 << 10;

/// Addresses of the two instruction sequences in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gadgets {
    /// `syscall; ret`.
    pub system_call: u64,
    /// The signal return.
    pub signal_return: u64,
}

impl Gadgets {
    /// Checks that both sequences still stand where they were found. A process that has executed another program since has
    /// its code elsewhere, and a thread sent to the old place would crash.
    pub(crate) fn check(self, pid: Pid, memory: &Memory) -> Result<(), Error> {
        let is_there =
            |address: u64, wanted: &[u8]| memory.read_vec(address, wanted.len()).is_ok_and(|found| found == *wanted);
        let both = is_there(self.system_call, &SYSTEM_CALL) && is_there(self.signal_return, &SIGNAL_RETURN);
        if both { Ok(()) } else { Err(Error::Gone { pid }) }
    }
}

/// Looks for both sequences in the executable mappings, C library first. The process need not be stopped.
pub fn find_gadgets(pid: Pid, memory: &Memory, maps: &MappingTable) -> Result<Gadgets, Error> {
    let mut candidates: Vec<_> = maps.0.iter().filter(|mapping| mapping.executable && mapping.readable).collect();
    let is_libc = |path: &str| path.contains("/libc.so") || path.contains("/libc-") || path.contains("/ld-musl");
    candidates.sort_by_key(|mapping| (!is_libc(&mapping.path), mapping.end - mapping.start));
    let mut system_call = None;
    let mut signal_return = None;
    for mapping in candidates.iter().filter(|mapping| mapping.end - mapping.start <= SEARCH_MAX) {
        for (start, bytes) in pieces(memory, mapping) {
            let find = |wanted: &[u8]| memmem::find(&bytes, wanted).map(|place| start + place as u64);
            system_call = system_call.or_else(|| find(&SYSTEM_CALL));
            signal_return = signal_return.or_else(|| find(&SIGNAL_RETURN));
            if let (Some(system_call), Some(signal_return)) = (system_call, signal_return) {
                return Ok(Gadgets { system_call, signal_return });
            }
        }
    }
    Err(Error::NoGadgets { pid })
}

/// A mapping piece by piece, each with its address, and with the beginning of the next one: the sequences stand near the
/// beginning of a C library, and reading on would only bring pages into the process's memory that it does not use.
fn pieces(memory: &Memory, mapping: &Mapping) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let (from, end) = (mapping.start, mapping.end);
    let read = move |start: u64| {
        let length = (end - start).min(PIECE_BYTES + SIGNAL_RETURN.len() as u64);
        Some((start, memory.read_vec(start, length as usize).ok()?))
    };
    (from..end).step_by(PIECE_BYTES as usize).map_while(read)
}

/// One system call for the target to make.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its name, for errors.
    pub name: &'static str,
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// A text (at most 255 bytes) whose address becomes the first argument.
    pub text: Option<&'static str>,
}

impl Call {
    /// A call with plain numbers as arguments; those left out are 0.
    pub fn new<const N: usize>(name: &'static str, number: i64, arguments: [u64; N]) -> Self {
        let mut all = [0; 6];
        all[..N].copy_from_slice(&arguments);
        Call { name, number, arguments: all, text: None }
    }

    pub(crate) fn arguments(&self, text_at: u64) -> [u64; 6] {
        let mut arguments = self.arguments;
        if self.text.is_some() {
            arguments[0] = text_at;
        }
        arguments
    }
}
