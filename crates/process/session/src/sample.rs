//! Samples of one thread's stack: which functions it is in at some moments, from the outermost to the innermost.
//!
//! The thread is held for its registers and one copy of the upper part of its stack; who called whom is found out after it
//! runs again. Frames further out than the copy are read then: they stay as they are while the thread works.
//! Where it was is a matter of statistics, so code that no table describes may be looked behind (`unwind`).
//!
//! Next: `unwind` for how; `trimtab-window`'s `nest` for what is made of it.

use crate::error::Error;
use crate::image_cache::ImageCache;
use crate::modules::Modules;
use crate::not_callable::NotUnwound;
use crate::unwind::{FrameRegisters, KnownRules, Standing, Walk};
use std::cell::Cell;
use std::collections::BTreeSet;
use trimtab_os::{MappingTable, Memory, Stopped, Thread};
use trimtab_types::{FileAddr, Pid};

/// Bytes of the stack that are copied while the thread is held.
const COPIED_BYTES: usize = 64 << 10;
/// Calls on one stack, at most: functions that call themselves go deep.
const FRAMES_MAX: usize = 4096;
/// Below the stack pointer, leaf functions keep data.
const RED_ZONE_BYTES: u64 = 128;

/// One function on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// Number of its module.
    pub module: usize,
    /// Its first instruction.
    pub function: FileAddr,
    /// Where it is: at its call of the next one, or where the thread was held.
    pub at: FileAddr,
    /// Its registers there; `None`: they are not known.
    pub registers: Option<FrameRegisters>,
}

/// A look at a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSample {
    /// The functions, outermost first; or why they are not all known, as part of a sentence.
    pub frames: Result<Vec<StackFrame>, NotUnwound>,
    /// How long the thread was held, nanoseconds.
    pub pause_ns: u64,
}

/// Samples the main thread of one process.
#[derive(Debug)]
pub struct StackSampler {
    modules: Modules,
    cache: ImageCache,
    memory: Memory,
    known: KnownRules,
    /// Paths of the files that are read.
    wanted: BTreeSet<String>,
}

impl StackSampler {
    /// For a process, of which first the files are read whose paths `wanted` accepts, and later those that its stacks lead
    /// through.
    ///
    /// # Errors
    /// It can't be read.
    pub fn new(pid: Pid, cache: &ImageCache, wanted: &dyn Fn(&str) -> bool) -> Result<Self, Error> {
        let modules = Modules::read(pid, cache, wanted)?;
        let memory = Memory::open(pid)?;
        let wanted = modules.modules.iter().map(|module| module.path.clone()).collect();
        Ok(StackSampler { modules, cache: cache.clone(), memory, known: KnownRules::default(), wanted })
    }

    /// The modules that were read so far. Their numbers hold until the next look.
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// Memory of the process.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        self.modules.pid
    }

    /// Holds the main thread for a moment, and says which functions it was in.
    ///
    /// # Errors
    /// It can't be held: it has ended, somebody else traces it, or it does not stop.
    pub fn take(&mut self) -> Result<StackSample, Error> {
        let pid = self.pid();
        let stopped = Stopped::stop_thread(pid, pid.0)?;
        let thread = stopped.threads()[0].clone();
        let copy = Copy::of(&stopped, &thread, &self.modules);
        let pause_ns = stopped.resume();
        loop {
            let (frames, undescribed) = self.walk(&thread, &copy);
            // Each time one more file is read: they end. Code of a file that was not read is not looked behind.
            let is_more_read = match undescribed {
                Some(address) => self.read_file_at(address)?,
                None => false,
            };
            if !is_more_read {
                return Ok(StackSample { frames: frames.map(|found| self.outermost_first(&found)), pause_ns });
            }
        }
    }

    /// The functions, innermost first; and where the walk ended, if that is in no file that was read.
    fn walk(&self, thread: &Thread, copy: &Copy) -> (Result<Vec<Standing>, NotUnwound>, Option<u64>) {
        let word = |at: u64| copy.word(at).or_else(|| self.memory.read_word(at).ok());
        let (modules, maps, known) = (&self.modules, &self.modules.maps, &self.known);
        let walk = Walk { modules, maps, known, word: &word, frames_max: FRAMES_MAX, undescribed: Cell::new(None) };
        let frames = walk.frames_or_guess(thread);
        (frames, walk.undescribed.get())
    }

    /// Reads the file that is mapped at an address; false if there is none, or it was tried before.
    fn read_file_at(&mut self, address: u64) -> Result<bool, Error> {
        let maps = MappingTable::of(self.pid())?;
        let path = maps.at(address).filter(|mapping| mapping.inode != 0).map(|mapping| mapping.path.clone());
        if !path.is_some_and(|path| self.wanted.insert(path)) {
            return Ok(false);
        }
        let wanted = |path: &str| self.wanted.contains(path);
        self.modules = Modules::among(self.pid(), maps, &self.cache, &wanted)?;
        self.known = KnownRules::default();
        Ok(true)
    }

    fn outermost_first(&self, found: &[Standing]) -> Vec<StackFrame> {
        let frame = |standing: &Standing| {
            let image = &self.modules.modules[standing.module].loaded.image;
            let around = image.fragment_at(standing.address).and_then(|part| {
                let whole = part.names.iter().find_map(|name| image.function_named(name.split(".cold").next()?));
                whole.map(|function| function.addr)
            });
            let around = around.or_else(|| image.function_at(standing.address).map(|function| function.addr));
            let function = around.or_else(|| image.frame_at(standing.address).map(|frame| frame.addr));
            let Standing { module, address: at, registers } = *standing;
            StackFrame { module, function: function.unwrap_or(at), at, registers }
        };
        found.iter().rev().map(frame).collect()
    }
}

/// The upper part of a stack.
struct Copy {
    first: u64,
    bytes: Vec<u8>,
}

impl Copy {
    fn of(stopped: &Stopped, thread: &Thread, modules: &Modules) -> Self {
        let first = (thread.registers.rsp - RED_ZONE_BYTES) & !7;
        // A stack grows downwards: it may have come to lie before where its mapping began when that was read.
        let behind = modules.maps.0.iter().find(|mapping| mapping.end > thread.registers.rsp);
        let end = behind.map_or(first, |mapping| mapping.end.min(first + COPIED_BYTES as u64));
        let read = stopped.memory().read_many(&[(first, end.saturating_sub(first) as usize)]);
        Copy { first, bytes: read.into_iter().next().unwrap_or_default() }
    }

    fn word(&self, at: u64) -> Option<u64> {
        let from = usize::try_from(at.checked_sub(self.first)?).ok()?;
        let raw = self.bytes.get(from..from.checked_add(8)?)?;
        raw.try_into().ok().map(u64::from_le_bytes)
    }
}
