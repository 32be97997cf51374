//! The back end's knowledge of the place where code will run: addresses, and what the program still needs there.
//!
//! Next: `super::compile`, which takes an [`Environment`].

use crate::emit::EmitError;
use crate::ir;
use trimtab_types::ProcAddr;

/// How a thread tells itself from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKey {
    /// By the word at `fs:[0]`, which holds its own address wherever a C library made the thread. Where `fs` is no such
    /// pointer this faults, so every thread of the process must have one.
    SelfPointer,
    /// By `rdfsbase`, for programs without a C library (Go, assembly): threads whose base is 0 have no area and do
    /// nothing. Needs the instruction to be allowed (bit 1 of `AT_HWCAP2`).
    FsBase,
}

/// Where the shared areas of one script are in the target, and how a thread finds its own.
///
/// Thread areas are an array. The first thread that is hit takes the first of them; another one's first place is
/// `(key * multiplier) >> shift`, and it takes the first one from there on (round the end) whose `thread_word::OWNER` is
/// zero or its own key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Areas {
    /// Address of the process area.
    pub process: ProcAddr,
    /// Address of the first thread area.
    pub threads: ProcAddr,
    /// Number of thread areas: a power of two, at least 2.
    pub thread_count: u32,
    /// Bytes from one thread area to the next: at least `Unit::thread_bytes`, below 2^31.
    pub thread_stride: u32,
    /// The key that is hashed.
    pub key: ThreadKey,
    /// Multiplier of the hash; odd.
    pub multiplier: u64,
    /// From the thread pointer to the word where the C library keeps the kernel's thread id, if that is known.
    pub thread_id_at: Option<i32>,
}

impl Areas {
    /// Right shift of the hash: leaves as many bits as number an area.
    pub fn shift(&self) -> u8 {
        (64 - self.thread_count.trailing_zeros()) as u8
    }

    /// The area at which a thread with this thread pointer looks if the first one is another's.
    pub fn first_place(&self, thread_pointer: u64) -> u32 {
        (thread_pointer.wrapping_mul(self.multiplier) >> self.shift()) as u32
    }

    pub(crate) fn check(&self) -> Result<(), EmitError> {
        let count = self.thread_count;
        if !count.is_power_of_two() || count < 2 {
            return Err(EmitError::ThreadCount { count });
        }
        if self.thread_stride > i32::MAX as u32 || self.thread_stride < ir::thread_word::FIRST_FREE {
            return Err(EmitError::ThreadStride { bytes: self.thread_stride });
        }
        Ok(())
    }
}

/// Addresses of the routines that all code of one arena shares; made by [`super::shared_routines`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routines {
    pub(crate) claim: ProcAddr,
    pub(crate) range: ProcAddr,
    pub(crate) readable: ProcAddr,
    pub(crate) hot: ProcAddr,
    pub(crate) writable: ProcAddr,
    pub(crate) text_equal: ProcAddr,
    pub(crate) histogram: ProcAddr,
    pub(crate) times_histogram: ProcAddr,
    pub(crate) stack_hash: ProcAddr,
    pub(crate) stack_count: ProcAddr,
    pub(crate) reserve: ProcAddr,
    pub(crate) write_words: ProcAddr,
    pub(crate) copy_text: ProcAddr,
    /// A word that holds the address of the first thread area.
    pub(crate) threads_word: ProcAddr,
}

impl Routines {
    /// Names of the routines for people, with their addresses.
    pub fn names(&self) -> [(&'static str, ProcAddr); 13] {
        [
            ("claim a thread's area", self.claim),
            ("find a range", self.range),
            ("check that memory can be read", self.readable),
            ("check memory read lately", self.hot),
            ("check that memory can be written", self.writable),
            ("compare a text", self.text_equal),
            ("add to a histogram", self.histogram),
            ("add times to a histogram", self.times_histogram),
            ("hash the stack", self.stack_hash),
            ("count a stack", self.stack_count),
            ("reserve room for a message", self.reserve),
            ("write words of a message", self.write_words),
            ("copy a text", self.copy_text),
        ]
    }
}

/// When code looks at the script's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Only while `process_word::RECORDING` is not zero: ordinary probes.
    WhileRecording,
    /// Until `process_word::STOPPED` is not zero: the bodies of start and stop conditions.
    UntilStopped,
}

/// General registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeRegisters(pub(crate) u16);

impl FreeRegisters {
    /// These registers; `Rip` and `Rsp` are never in a set.
    pub fn of(registers: &[ir::Register]) -> FreeRegisters {
        let general = registers.iter().filter(|register| !matches!(register, ir::Register::Rsp | ir::Register::Rip));
        FreeRegisters(general.fold(0, |set, &register| set | 1 << register as u16))
    }

    /// Registers by the number the processor gives them; 4, the stack pointer, is never in a set.
    pub fn numbered(numbers: impl Iterator<Item = u8>) -> FreeRegisters {
        let general = numbers.filter(|number| *number < 16 && *number != 4);
        FreeRegisters(general.fold(0, |set, number| set | 1 << number))
    }
}

/// How `call` keeps the program's vector and x87 state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorSave {
    /// Components to save, as in XCR0.
    pub mask: u64,
    /// Bytes of the standard-format XSAVE area for them (CPUID leaf 13), at least 576.
    pub bytes: u32,
}

/// The place one body is compiled for.
#[derive(Clone, Debug)]
pub struct Environment<'a> {
    /// Address at which `Code::bytes` will lie.
    pub at: ProcAddr,
    /// Bytes to leave free at the entry: the caller puts instructions there that run before the body.
    pub room_before: usize,
    /// Address of the probed instruction (the value of `Rip`).
    pub point: ProcAddr,
    /// Address of the gate word (32 bits, 0: closed), within 2 GiB of `at`.
    pub gate: ProcAddr,
    /// The shared areas.
    pub areas: &'a Areas,
    /// The shared routines, within 2 GiB of `at`.
    pub routines: &'a Routines,
    /// When the body looks at anything at all.
    pub runs: Runs,
    /// True if no body of the script has to be alone on its thread, as [`super::bodies_are_reentrant`] says.
    pub reentrant: bool,
    /// Registers whose values the program does not need any more.
    pub free: FreeRegisters,
    /// True if the program needs the arithmetic flags: at `When::At` points unless known otherwise.
    pub flags_live: bool,
    /// True if the 128 bytes below the stack pointer may be in use: at `When::At` points unless known otherwise.
    pub red_zone: bool,
    /// Bytes from the stack pointer upwards that can be read without a check.
    pub stack_readable_bytes: u32,
    /// For bodies with `call`; without it they are refused.
    pub vector_save: Option<VectorSave>,
    /// From the thread pointer to `errno`, if `call` is to keep it.
    pub errno_at: Option<i32>,
}

impl<'a> Environment<'a> {
    /// A body's place with nothing known about the program: everything is kept, everything is checked.
    pub fn cautious(
        when: ir::When,
        at: ProcAddr,
        point: ProcAddr,
        gate: ProcAddr,
        areas: &'a Areas,
        routines: &'a Routines,
    ) -> Environment<'a> {
        let inside = when == ir::When::At;
        Environment {
            at,
            room_before: 0,
            point,
            gate,
            areas,
            routines,
            runs: Runs::WhileRecording,
            reentrant: false,
            free: FreeRegisters::default(),
            flags_live: inside,
            red_zone: inside,
            stack_readable_bytes: if matches!(when, ir::When::Entry | ir::When::Exit) { 8 } else { 0 },
            vector_save: None,
            errno_at: None,
        }
    }
}
