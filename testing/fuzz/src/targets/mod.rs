//! The targets: what takes bytes from outside, and what must do the same in two ways.
//!
//! Next: `super::target` for the table.

pub mod answer;
pub mod cache;
pub mod code;
pub mod debug;
pub mod descriptor;
pub mod elf;
pub mod filter;
pub mod frames;
pub mod joblog;
pub mod mapped;
pub mod memory;
pub mod minidebug;
pub mod names;
pub mod parts;
pub mod patched;
pub mod plans;
pub mod planted;
pub mod relocate;
pub mod script;
pub mod series;
pub mod sites;
pub mod tables;
pub mod talk;
pub mod wire;
