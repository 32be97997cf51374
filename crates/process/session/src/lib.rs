//! Attach, plan, apply, read, restore: one running process.
//!
//! [`Modules`] reads what is loaded; [`Prepared`] decides, without stopping anything, where each function would be
//! patched; [`Inserted`] is a process with probes in it, whose shared memory the monitor reads; removing it restores
//! every byte. [`leftover`] finds and undoes what a killed trimtab left behind.
//!
//! Next: `prepare` and `insert`; `trimtab-measure` runs several of these side by side.
#![forbid(unsafe_code)]

mod again;
mod around;
mod changed;
mod claim;
mod debug_files;
mod decided;
mod departed;
mod elsewhere;
mod emulated;
mod ending;
mod errno;
mod error;
mod faults;
mod followed;
mod frames;
mod gather;
mod given;
mod gone;
mod hand_over;
mod handlers;
mod hold;
mod how_far;
mod image_cache;
mod imports;
mod indirect;
mod inner;
mod insert;
mod inside;
mod interposers;
mod late;
mod layout;
pub mod leftover;
mod limits;
mod link_map;
mod mapped;
mod mapping;
mod modules;
mod not_callable;
mod obstacle;
mod origin;
mod outside_call;
mod own_holds;
mod pages;
mod partial;
mod payload;
mod pointed;
mod prepare;
mod prepared;
mod private;
mod purpose;
mod ranges;
mod reach;
mod remove;
mod request;
mod restartable;
mod returns;
mod sample;
mod script;
mod serving;
mod side_by_side;
mod sources;
mod subject;
mod tails;
mod target;
mod text;
mod threads;
mod unwind;
mod users;
mod waiting;
mod walks;
mod watched;

pub use again::{Passing, try_again};
pub use claim::Claim;
pub use departed::Departures;
pub use elsewhere::NamedFile;
pub use ending::AFTER;
pub use error::{Error, NotHeld};

pub use debug_files::{DebugFiles, DebugSections};
pub use gather::{Gathering, TakeOver};
pub use given::GivenFunctions;
pub use handlers::FaultHandlers;
pub use how_far::{LoopCounter, LoopProgress, LoopStand, LoopWatch, NoReading, Read, TestLooks};
pub use image_cache::{ImageCache, LoadedImage};
#[doc(hidden)]
pub use image_cache::{branches_from, branches_to_bytes};
#[doc(hidden)]
pub use imports::are_kept_imports;
pub use insert::{Inserted, Setup};
pub use inside::Inside;
pub use interposers::interposers;
pub use late::mappings_of;
pub use link_map::is_loaded;
pub use mapping::check_calls;
pub use modules::{Module, Modules};
pub use not_callable::{NotCallable, NotUnwound};
pub use obstacle::{NotFollowed, Obstacle};
pub use origin::FileBytes;
pub use outside_call::{OutsideCall, call_once};
pub use partial::TakenOut;
pub use prepared::Prepared;
pub use ranges::{RangeTables, may_be_read};
pub use request::{
    EITHER, ENTRANCES, FunctionRequest, Inner, InnerRequest, LoopRequest, Lost, Probed, Refused, ScriptRequest,
    TailExit, Work, each_of,
};
pub use sample::{StackFrame, StackSample, StackSampler};
pub use script::{ScriptStart, ScriptView};
pub use target::Removal;
pub use trimtab_plan::{FunctionBodies, Patch, PatchRole, Piece, PieceRole, Plan};
pub use trimtab_x86::{CodeLine, disassemble};
pub use trimtab_x86::{Edge, Loop};
pub use unwind::FrameRegisters;
