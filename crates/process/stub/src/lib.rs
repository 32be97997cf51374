//! Code and buffers inside the target: what runs there, and the memory both sides share.
//!
//! [`layout`] describes the shared memory (a memfd that target and monitor both map). The module `target` holds the
//! routines that probes call. They stand in a link section of their own and are copied byte for byte into the target by
//! [`blob`], so they must be position independent, lead nowhere outside that section by any address of their own, allocate
//! nothing and use no vector registers: a test disassembles the section and proves it. The only calls that leave it go
//! through addresses in the shared memory, to query functions of the MPI library (`resolve`).
//!
//! Next: `trimtab-x86`'s islands call these routines; `trimtab-session` fills and reads the shared memory.
#![no_builtins]

mod context;
pub mod layout;
mod limits;
mod links;
mod paths;
mod polls;
mod requests;
mod resolve;
mod sums;
mod target;
mod teams;
pub mod view;

pub use target::{Blob, blob};
