//! Sensors of one machine: the share of a processor that a new process would get at a nice level, free memory, I/O, and TCP
//! to another machine.
//!
//! The share comes from what the kernel counts anyway (`tasks`, `groups`, `fair`), and is corrected by short probes that
//! compute for some milliseconds ([`spin`]). Each [`Figure`] says how it was found, or why there is none. A figure that can't be
//! read is never 0.
//!
//! [`press`] is another kind of probe: it presses on a resource at a known level, and counts how fast it gets on.
//!
//! Files are read below [`Places`], so that tests read recorded ones; what texts mean is decided by functions of texts.
//!
//! Next: [`Sensor`] in `sensor` for how it goes together, `share` for the decision about a processor's share, [`net`] for the network.
#![forbid(unsafe_code)]

pub mod cgroup;
mod counters;
mod disks;
mod fair;
mod figure;
mod groups;
mod memory;
pub mod net;
mod places;
mod pressure;
mod sensor;
mod share;
mod spin;
mod tasks;

pub use counters::{Pressure, Processors, parse_disks, parse_pressure, parse_processors};
pub use figure::{Figure, NoFigure};
pub use groups::parse_autogroup;
pub use memory::parse_meminfo;
pub use places::{Beside, Places};
pub use pressure::{
    NoPressure, PRESSURE_S_MAX, Pressed, PressureMark, PressureOrder, last_cache_bytes, press, pressure_bytes,
};
pub use sensor::{Reading, Sensor};
pub use share::{NICE_LEVELS, Share, Way};
pub use spin::{Budget, Spun, spin};
