//! How do we read a program? ELF bytes in, facts about its functions out; no I/O, no clock, no panics.
//!
//! [`Image::parse`] turns the bytes of one executable or shared library into the list of its functions: named ones
//! from the symbol tables, nameless ones from the unwind table (`.eh_frame`), so that stripped and static programs
//! work as well. [`unwind_facts`] and [`fde_at`] answer what a patch planner asks about one place in the code: which
//! ranges belong together, where exceptions land, how far the stack pointer is from the frame's base.
//! [`Image::to_cache`] keeps the answer for the next time, by build id.
//!
//! The input is hostile: every offset is checked, every loop is bounded by the input's length or a named constant,
//! and what can't be read becomes an [`Error`] or a line in [`Image::problems`].
//!
//! ```
//! use trimtab_symbols::{Image, unwind_facts};
//! let bytes = std::fs::read("/proc/self/exe")?;
//! let image = Image::parse(&bytes)?;
//! let main = image.function_named("main").ok_or("no main")?;
//! let facts = unwind_facts(&bytes, &image, main)?;
//! assert_eq!(facts.cfa_rsp_offset_at(main.addr), Some(8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Next: [`image`] for what is known about a file, [`frames`] for unwind tables, `parse` for how a file is read.
#![forbid(unsafe_code)]

mod cache;
mod demangle;
pub mod dwarf;
mod dynamic;
mod elf;
mod error;
pub mod frame_table;
pub mod frames;
mod glob;
pub mod image;
mod imports;
mod linkage;
mod loaded;
mod lsda;
mod machine;
mod mapped;
mod minidebug;
mod notes;
mod parse;
mod parts;
mod restartable;
mod settle;
mod spelling;
mod symtab;

#[doc(hidden)]
pub use cache::seal;
pub use cache::{NotSealed, fingerprint, seal_as, unseal_as};
pub use demangle::{demangle, demangle_name};
pub use error::Error;
pub use frame_table::{BaseAt, FrameEntry, FrameRow, FrameTableBytes, KeptAt, write_frames};
pub use frames::{
    CallerRules, CfaRow, FdeInfo, FrameBase, KEPT_REGISTERS, Kept, UnwindFacts, caller_rules, fde_at, unwind_facts,
    unwind_facts_of,
};
pub use glob::matches as glob_matches;
pub use image::{Image, ImageKind};
pub use imports::{exports_one_of, imported_names, is_of_go, relocates_text};
pub use loaded::loaded_file;
pub use lsda::CallSiteRow;
pub use machine::Machine;
pub use mapped::{MappedModule, ReadMemory};
pub use notes::gnu_build_id_of;
pub use parts::{DataObject, Frame, FrameKind, Function, Segment, Slot, SlotTarget, Source, Stub};
pub use restartable::{RestartableSequence, restartable_sequences};
pub use spelling::is_spelled;
