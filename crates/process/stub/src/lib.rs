//! Code and buffers inside the target: what runs there, and the memory both sides share.
//!
//! [`layout`] describes the shared memory (a memfd that target and monitor both map). The module `target` holds the
//! routines that probes call. They stand in a link section of their own and are copied byte for byte into the target by
//! [`blob`], so they must be position independent, call nothing outside that section, allocate nothing and use no
//! vector registers: a test disassembles the section and proves it.
//!
//! Next: `trimtab-x86`'s islands call these routines; `trimtab-session` fills and reads the shared memory.
#![no_builtins]

pub mod layout;
mod links;
mod resolve;
mod target;
pub mod view;

pub use target::{Blob, blob};
