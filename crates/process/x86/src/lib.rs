//! Decode, relocate, encode x86-64: which bytes of a function may become a jump to a probe, and how the
//! instructions they held run elsewhere. Bytes in, bytes out; no file, no process, no unsafe.
//!
//! Exits are patched in place. A function's body is never moved and no return address is ever rewritten, so
//! unwinding, exceptions, longjmp and backtraces only ever see original code:
//!
//! * entry: the first whole instructions of at least five bytes become `jmp island`; the island runs the probe,
//!   then the displaced instructions, then jumps back;
//! * exit: the last instructions before each `ret` (or tail jump), that `ret`, and padding behind it become
//!   `jmp island`; the island runs the displaced instructions, then the probe, then the `ret`.
//!
//! The order of work: [`analyse`] a [`FunctionCode`] to an [`Analysis`], offer its padding with [`offer_padding`],
//! ask [`function_sites`] where to patch, and [`relocate`] what a [`PatchSite`]
//! displaces. Whatever can't be done safely is a [`Refusal`] that says why.
//!
//! Code, tables and springboards lie at addresses of a process ([`trimtab_types::ProcAddr`]); a file that is not loaded
//! counts as one that is loaded where it says. Only [`Stretches`] looks at a file, and what is kept for one has its
//! addresses ([`PatchSite`] with [`trimtab_types::FileAddr`]).
//!
//! Where a loop ends is found by `how_far` in its code, and by `exit_tests` from looks; `followed` goes through functions that are
//! asked for it, without running them.
//!
//! Next: `code` for the input, `analyse` for the control flow, `site` for the choice of bytes, `relocate`.
#![forbid(unsafe_code)]

mod analyse;
mod answers;
mod approach;
mod between;
mod blocks;
mod bound;
mod call;
mod called;
mod carrier;
mod code;
mod copied;
mod copyable;
mod edge;
mod evaluate;
mod exit_tests;
mod faults;
mod flagged;
mod flow;
mod followed;
mod frame_lookup;
mod gather;
mod given;
mod hold;
mod how_far;
mod inline;
mod instruction;
mod island;
mod jump;
mod jump_table;
mod last_calls;
mod lent;
mod library;
mod linear;
mod listing;
mod liveness;
mod loops;
mod owned;
mod padding;
mod pass_block;
mod point;
mod probe_island;
mod refusal;
mod rejoined;
mod relocate;
mod search;
mod shift;
mod side;
mod site;
mod springboard;
mod stack_course;
mod states;
mod value;
mod writer;
mod written;

pub use analyse::{Analysis, ENTRY_MARKER, Exit, ExitKind, ExternalJump, analyse, entry_has_marker};
pub use answers::answers_in_flags;
pub use approach::{Look, PassesLeft, passes_left};
pub use between::{Branch, Stretches};
pub use blocks::{Block, CallSite, ControlFlow, Edge};
pub use bound::{LoopBound, NoBound, loop_bound};
pub use carrier::{Carrier, build_carrier};
pub use code::{ClassifyJump, CodeRange, FunctionCode, JumpTarget, ReadMemory};
pub use copied::{CodeSource, SourceBlock, SourcePosition};
pub use copyable::{NotCopyable, check_copyable};
pub use edge::way_site;
pub use evaluate::{ReadBytes, evaluate_cell};
pub use exit_tests::{ExitTests, NOTED_MAX, exit_tests};
pub use faults::may_fault_in;
pub use frame_lookup::{FrameLookup, LOOKUP_HEAD_WORDS, LOOKUP_ROW_WORDS};
pub use gather::{
    GATHER_BYTES_MAX, GATHER_GAVE_UP, GATHER_GO, GATHER_HELD, GATHER_MAY_SLEEP, GATHER_RANGES_MAX, GATHER_TICKS, Gather,
};
pub use given::{GivenAddresses, given_addresses};
pub use hold::{HOLD_PLACES, HOLD_SIGNAL_SHIFT, HOLD_TICKS, Hold};
pub use how_far::{HowFar, Surroundings, Unsure, how_far};
pub use instruction::direct_branches;
pub use island::{ISLAND_OVERHEAD_MAX, Purpose, WindowCode, build_calibration, build_island};
pub use jump::{NEAR_JUMP_LEN, SHORT_JUMP_LEN, encode_near_jump, encode_short_jump};
pub use linear::{ComparedValues, Extension, Linear, ReadablePlace};
pub use listing::{CodeLine, disassemble};
pub use liveness::{Liveness, RegisterSet};
pub use loops::Loop;
pub use owned::{Care, Returned, keeps_address, leaves_alone, passes_own};
pub use point::{PassPlace, loop_sites, point_site};
pub use probe_island::{Island, ProbeBytes, ProbePlace, WriteProbe, build_probe_island};
pub use refusal::Refusal;
pub use relocate::{Relocated, relocate};
pub use side::{GoesOn, LoadWord, Sides};
pub use site::{FunctionSites, JumpForm, PatchSite, SiteKind, function_sites, own_sites};
pub use springboard::{Springboards, offer_padding};
pub use stack_course::{
    Course, GENERAL_REGISTERS, HeldValue, OurCode, STACK_POINTER, StackOrigin, StackPlace, StackState, follow,
};
pub use writer::{Inline, InlineNumbers, InlineSlot, ProbeCode};
pub use written::{writes_or_lends, writes_through};

/// Bytes of one page: a patch never crosses such a boundary, because pages are written one at a time and the
/// writer may be killed between two of them.
pub const PAGE_BYTES: u64 = 4096;
