//! The machine that bodies run on: registers, readable memory, the two areas, and what bodies leave behind.
//!
//! Next: `fold`, what happens to the words of a variable.

use crate::ir::{Area, Register, SentValue, Unit, Width, process_word, thread_word};
use crate::types::bytes_of;
use std::collections::BTreeMap;
use trimtab_types::ProcAddr;

/// Multiplier of the hash of stacks, from the golden ratio.
const STACK_HASH_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Registers, memory and areas at the moment a body runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// General registers, by their number in encodings; the last one is the point's address.
    pub registers: [u64; 17],
    /// Vector registers, the low 64 bits.
    pub vectors: [u64; 16],
    /// Memory of the target that can be read and written, by first address; ranges do not touch.
    pub memory: BTreeMap<u64, Vec<u8>>,
    /// The thread's area, in words.
    pub thread: Vec<u64>,
    /// The process area, in words.
    pub process: Vec<u64>,
    /// The time stamp counter; a body sees one value throughout.
    pub now_ticks: u64,
    /// The processor's number.
    pub processor: u64,
    /// Messages sent, oldest first.
    pub messages: Vec<Message>,
    /// Functions called, oldest first.
    pub calls: Vec<Call>,
    /// Addresses that were looked at and are not in `memory`, oldest first.
    pub missed: Vec<u64>,
    /// The stores into `memory`, oldest first: where, and the bytes.
    pub stores: Vec<(u64, Vec<u8>)>,
    /// Statements and expressions carried out so far; for a run of a body at most its `cost_max`.
    pub operations: u64,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The tag's number.
    pub text: usize,
    /// The values.
    pub values: Vec<SentValue>,
}

/// A call of one of the target's functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub address: ProcAddr,
    /// Its arguments.
    pub arguments: Vec<i64>,
}

impl Machine {
    /// A machine with empty memory, zeroed areas for a unit, and a clock of one tick per nanosecond.
    pub fn new(unit: &Unit) -> Machine {
        let words = |bytes: u32| vec![0; bytes as usize / 8];
        let mut machine = Machine {
            registers: [0; 17],
            vectors: [0; 16],
            memory: BTreeMap::new(),
            thread: words(unit.thread_bytes),
            process: words(unit.process_bytes),
            now_ticks: 0,
            processor: 0,
            messages: Vec::new(),
            calls: Vec::new(),
            missed: Vec::new(),
            stores: Vec::new(),
            operations: 0,
        };
        machine.set_word(Area::Process, process_word::NS_PER_TICK_SHIFTED, 1 << 32);
        machine.set_word(Area::Process, process_word::TICKS_PER_SECOND, 1_000_000_000);
        machine
    }

    /// A general register.
    pub fn register(&self, register: Register) -> u64 {
        self.registers[register as usize]
    }

    /// Sets a general register.
    pub fn set_register(&mut self, register: Register, value: u64) {
        self.registers[register as usize] = value;
    }

    pub(super) fn vector(&self, number: u8) -> f64 {
        f64::from_bits(self.vectors[usize::from(number) % 16])
    }

    pub(super) fn vector_single(&self, number: u8) -> f64 {
        f64::from(f32::from_bits(self.vectors[usize::from(number) % 16] as u32))
    }

    pub(super) fn area_mut(&mut self, area: Area) -> &mut Vec<u64> {
        match area {
            Area::Thread => &mut self.thread,
            Area::Process => &mut self.process,
        }
    }

    /// The word at a byte offset of an area; 0 if there is none.
    pub fn word(&self, area: Area, offset: u32) -> u64 {
        let words = match area {
            Area::Thread => &self.thread,
            Area::Process => &self.process,
        };
        words.get(offset as usize / 8).copied().unwrap_or(0)
    }

    /// Sets the word at a byte offset of an area, if there is one.
    pub fn set_word(&mut self, area: Area, offset: u32, value: u64) {
        if let Some(word) = self.area_mut(area).get_mut(offset as usize / 8) {
            *word = value;
        }
    }

    /// Adds one to a word of the thread's area.
    pub(super) fn count(&mut self, offset: u32) {
        let value = self.word(Area::Thread, offset);
        self.set_word(Area::Thread, offset, value.wrapping_add(1));
    }

    /// Bytes that are readable from `address` on, `count` of them; `None` if one is not.
    fn bytes(&self, address: u64, count: usize) -> Option<&[u8]> {
        let (start, bytes) = self.memory.range(..=address).next_back()?;
        let first = usize::try_from(address - start).ok()?;
        bytes.get(first..first.checked_add(count)?)
    }

    fn bytes_mut(&mut self, address: u64, count: usize) -> Option<&mut [u8]> {
        let (start, bytes) = self.memory.range_mut(..=address).next_back()?;
        let first = usize::try_from(address - start).ok()?;
        bytes.get_mut(first..first.checked_add(count)?)
    }

    /// Counts a look at what is not there.
    fn miss(&mut self, address: u64) {
        self.count(thread_word::UNREADABLE);
        self.missed.push(address);
    }

    pub(super) fn load(&mut self, address: u64, width: Width) -> u64 {
        let count = bytes_of(width) as usize;
        let Some(bytes) = self.bytes(address, count) else {
            self.miss(address);
            return 0;
        };
        let mut word = [0; 8];
        word[..count].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    pub(super) fn load_float(&mut self, address: u64, width: Width) -> f64 {
        let bits = self.load(address, width);
        if width == Width::W32 { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits) }
    }

    /// Stores the low bits; where nothing is writable nothing happens but that it is counted.
    pub(super) fn store(&mut self, address: u64, width: Width, value: u64) {
        let count = bytes_of(width) as usize;
        let stored = &value.to_le_bytes()[..count];
        match self.bytes_mut(address, count) {
            Some(bytes) => {
                bytes.copy_from_slice(stored);
                self.stores.push((address, stored.to_vec()));
            }
            None => self.miss(address),
        }
    }

    pub(super) fn store_float(&mut self, address: u64, width: Width, value: f64) {
        let bits = if width == Width::W32 { u64::from((value as f32).to_bits()) } else { value.to_bits() };
        self.store(address, width, bits);
    }

    /// The bytes up to the first zero, or the bound, or the end of what is readable, which is counted.
    pub(super) fn text(&mut self, address: u64, bytes_max: usize) -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < bytes_max {
            let at = address.wrapping_add(text.len() as u64);
            match self.bytes(at, 1) {
                Some([0]) => break,
                Some(byte) => text.extend_from_slice(byte),
                None => {
                    self.miss(at);
                    break;
                }
            }
        }
        text
    }

    /// True if exactly these bytes stand at `address`; compared up to the first difference.
    pub(super) fn equals(&mut self, address: u64, wanted: &[u8]) -> bool {
        for (offset, byte) in (0_u64..).zip(wanted) {
            let at = address.wrapping_add(offset);
            match self.bytes(at, 1) {
                Some([found]) if found == byte => {}
                Some(_) => return false,
                None => {
                    self.miss(at);
                    return false;
                }
            }
        }
        true
    }

    /// The stack pointer, which tells calls apart, and the time.
    pub(super) fn call_and_time(&self) -> (u64, u64) {
        (self.register(Register::Rsp), self.now_ticks)
    }

    pub(super) fn nanoseconds(&self, ticks: u64) -> i64 {
        let factor = self.word(Area::Process, process_word::NS_PER_TICK_SHIFTED);
        ((u128::from(ticks) * u128::from(factor)) >> 32) as i64
    }

    /// A hash of `depth` return addresses at most: at a function's entry or exit the one on top of the stack, then those
    /// found by following frame pointers upwards. Zero stands for an empty place in a table, so it becomes one.
    pub(super) fn stack_hash(&self, depth: u8, at_function_edge: bool) -> u64 {
        let mut hash = 0_u64;
        let mut left = depth;
        let mut add = |address: u64| {
            let mixed = (hash ^ address).wrapping_mul(STACK_HASH_MULTIPLIER);
            hash = mixed ^ (mixed >> 32);
            left -= 1;
            left > 0
        };
        let mut frame = self.register(Register::Rbp);
        let top = self.words_at(self.register(Register::Rsp)).map_or(0, |(first, _)| first);
        let mut more = !at_function_edge || top == 0 || add(top);
        while more && frame.is_multiple_of(8) {
            let Some((next, address)) = self.words_at(frame) else { break };
            more = address != 0 && add(address) && next > frame;
            frame = next;
        }
        hash.max(1)
    }

    fn words_at(&self, address: u64) -> Option<(u64, u64)> {
        let words = self.bytes(address, 16)?;
        let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().expect("eight bytes"));
        Some((word(0), word(8)))
    }
}
