//! The probe language: what a user types becomes a typed tree, and that becomes machine code. Text in, bytes out; no
//! file, no process, no clock.
//!
//! Next: `ir`, the typed tree that everything else agrees on; `emit`, machine code from it.
#![forbid(unsafe_code)]

pub mod emit;
#[allow(missing_docs, reason = "the fields of the tree are what their names say")]
pub mod ir;
