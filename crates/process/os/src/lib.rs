//! ptrace, /proc and remote memory of Linux on x86-64: the only crate that touches another process.
//!
//! [`Stopped`] holds all threads of a process still and lets them go again; [`Injection`] makes one of them run system
//! calls for us, in such a way that the target restores itself if we are killed at any instant; [`Memory`] reads and
//! writes remote memory; [`SharedMapping`] is our view of a file both sides map. [`ProcessEvents`] and [`ExecFiles`] tell
//! which programs start.
//!
//! Why ptrace only for moments: while the program runs nobody traces it, so signals, new threads and `exec` go their
//! way undisturbed, and a monitor that dies leaves nothing pending.
//!
//! Next: `trimtab-session` drives this with plans made beforehand.

mod call;
mod counters;
mod error;
mod events;
mod exec_files;
mod file;
mod filter;
mod filters;
mod gadgets;
mod guard;
mod guards;
mod handlers;
mod inject;
pub mod last_act;
mod mappings;
mod memory;
mod moment;
mod naps;
mod pagemap;
mod peer;
mod precedence;
mod proc;
mod restart;
mod sequence;
mod shared;
mod stacks;
mod stop;
mod sys;
mod thread;
mod timed;
mod vectors;
mod vfork;
mod wait;

pub use call::{Called, FunctionCall};
pub use counters::{COUNTED_EVENTS, Count, CountedEvent, Counter, PassReading, PassWatch, note_cost_ns};
pub use error::Error;
pub use events::{EventSource, ProcessEvent, ProcessEvents};
pub use exec_files::{ExecFile, ExecFiles};
pub use file::FileMapping;
pub use filter::{CallFilter, FilterAnswer, FilteredCall};
pub use filters::trust_filters;
pub use gadgets::{Call, Gadgets, find_gadgets};
pub use guards::{check_all_calls, check_function_calls};
pub use handlers::{Caught, SignalHandler, signal_name};
pub use inject::Injection;
pub use mappings::build_ids_at;
pub use memory::Memory;
pub use moment::Moment;
pub use pagemap::private_pages;
pub use peer::{Peer, peer_of};
pub use precedence::{take_precedence, take_short_turns};
pub use proc::{
    MappingTable, age_of, children_of, open_file_of, runs, runs_since, start_time_ticks, stat_of, thread_ids, tracer_of,
};
pub use shared::SharedMapping;
pub use stacks::used_stack;
pub use stop::Stopped;
pub use sys::{Registers, monotonic_ns, ticks, unix_s};
pub use thread::Thread;
pub use timed::{RunEnd, TimedRun, run_timed};
pub use trimtab_types::procfs::Mapping;
pub use vectors::vector_state;
pub use vfork::parent_sharing_memory;
pub use wait::{EndCause, ProcessEnd, wait_for_end};
