//! The way to a job, for every door: a command line, a page, a program.
//!
//! An [`Engine`] finds a job whole, here or on many nodes, waits for events beside it, measures windows of it and
//! of every start of a program, finds its loops, runs scripts in it, and takes out everything again. A log
//! of changes, a store, the symbols' cache, the way to other nodes and a listener are handed in; each is a trait, or may
//! be left out. Nothing here reads arguments, prints, or knows an exit code: what goes on is told as [`Event`]s.
//!
//! Next: [`Engine::find`] in `found`, [`Engine::window`], [`Engine::probe`] and [`Engine::undo`] in `whole`, [`Engine::wait`] in `wait`, [`Engine::probe`] in `script`, [`Engine::undo`] in
//! `undo`; `examples/window.rs` for a whole program.
#![forbid(unsafe_code)]

mod audited;
mod benchmark;
mod callable;
mod code;
mod descriptors;
mod ends;
mod error;
mod event;
mod explained;
mod far;
mod found;
mod hold;
mod host_kind;
mod launch;
mod loops;
mod machines;
mod nodes;
mod outlook;
pub mod own;
mod press_error;
mod pressed;
mod pressure_probe;
mod routine_command;
mod script;
mod slurm_past;
mod spread;
mod store;
mod undo;
mod wait;
mod watch;
mod whole;
mod window;

pub use audited::{Audit, Audited, Change, Changed, End};
pub use code::Code;
pub use descriptors::check as check_descriptors;
pub use ends::Ends;
pub use error::Error;
pub use event::{Event, Listener, Nobody, Partial, ScriptSoFar, Stage, WindowSoFar};
pub use explained::{Explanation, NotedLine};
pub use far::window_id;
pub use found::{Found, LookedInto, Target, to_look_into};
pub use hold::{HOLD_SECONDS, LOOKS_MAX, hold, hold_children, is_first_rank};
pub use launch::{Begun, Program};
pub use loops::{FoundLoop, FoundLoops, LoopsWanted};
pub use nodes::{Callable, Calls, FarCrew, Filed, Filing, Gathered, Hold, MachineNow, Nodes, Present, PresentRank};
pub use nodes::{UndoneAt, UndoneRank};
pub use outlook::Life;
pub use press_error::PressError;
pub use pressed::{Answer, Gauge, HostScale, PRESSURE_LEVELS, Pressing, host_scale};
pub use pressure_probe::StartProbe;
pub use script::{Probed, Script, ScriptEnd};
pub use spread::{Launched, RSH_VARIABLE, Spread};
pub use store::{KnownJob, KnownProcess, Store};
pub use trimtab_types::BoxError;
pub use undo::{LookedAt, Removed, Undone};
pub use wait::{Next, Wait, Waiting, call};
pub use watch::{Came, Starts, Watched};
pub use window::{Measured, PlannedRank, RANKS_WAIT, Window, usual_options};

/// Jobs, and programs that start, as whoever watches is told.
pub use trimtab_os::runs_since;
pub use trimtab_track::{Job, slurm::SlurmError, slurm::SlurmId};
pub use trimtab_watch::{Held, Missed, Sighting, Start};

/// The options of a window, its stages, and its report in words.
pub use trimtab_measure::{DETAIL_RANKS_MAX, FirstCall, Length, LoopName, Mark, Options, RankShare, WindowStage};
pub use trimtab_mpi::Group;
pub use trimtab_os::{COUNTED_EVENTS, CountedEvent};
pub use trimtab_window::{NoScaling, compare, headline, scaling};

/// Counters that can be asked for, with the reason for each that can't be read here.
pub use trimtab_measure::{NoCounter, what_counts};

/// The options of a script, its messages and values.
pub use trimtab_script::{Message, MessageValue, Named, Permissions, ScriptOptions, Value};

/// Functions and their points, as they are listed and explained.
pub use trimtab_measure::{Functions, Listed};
pub use trimtab_script::{ExplainedBody, FunctionPoints, How, ListedPoint, PointKind};
pub use trimtab_session::{CodeLine, Patch, PatchRole, Piece, PieceRole, Refused, TailExit};

/// The rule by which a loop is taken for an iteration, its passes, how far it is, and ranks in words.
pub use trimtab_measure::{LoopCourse, SampledCourse};
pub use trimtab_script::{LoopCount, LoopPasses, NotCounted};
pub use trimtab_window::{NEST_SECONDS, PASSES_MIN, name_ranks};

/// Events, as the options of a wait name them; and a waker that wakes who waits.
pub use trimtab_trigger::{CallOutcome, Condition, Waker, When};

/// Sensors of this machine, and of the network to another one.
pub use trimtab_sensors as sensors;

/// Forecasts of series, of a job's end, and of jobs together.
pub use trimtab_corun as corun;
pub use trimtab_progress as progress;
pub use trimtab_weather as weather;

/// Models of routines by sizes, the runs that they are made of, and the hosts.
pub use benchmark::{Benchmark, BenchmarkError, Benchmarked};
pub use host_kind::{host_kind_here, host_name, speed_here};
pub use routine_command::{CommandError, RoutineCommand};
pub use trimtab_routine as routine;
pub use trimtab_routine::{Basis, HostKind, Ran, Speed};

/// Forecasts of jobs by the jobs before them, and these as Slurm knows them.
pub use slurm_past::{SlurmPast, slurm_past};
pub use trimtab_history as history;

/// Symbols of programs that were read before.
pub use trimtab_session::ImageCache;

/// All that the way to a job needs.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    /// Hears what goes on, and may end it.
    pub listener: &'a dyn Listener,
    /// Every change of a process stands there before and after.
    pub audit: &'a dyn Audit,
    /// Symbols of programs that were read before.
    pub cache: &'a ImageCache,
    /// Keeps windows; without one they are only returned.
    pub store: Option<&'a dyn Store>,
    /// The way to other nodes; without one only jobs on this machine are measured.
    pub nodes: Option<&'a dyn Nodes>,
}
