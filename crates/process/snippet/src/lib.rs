//! The probe language: what a user types becomes a typed tree, and that becomes machine code. Text in, bytes out; no
//! file, no process, no clock.
//!
//! `docs/probe-language.md` describes the language. [`compile`] goes from text to the typed tree: `parse` makes a syntax
//! tree, `resolve` asks the caller's [`facts`] about the program and writes every conversion out. [`mod@reference`] runs a
//! typed tree step by step, which is what the language means; [`emit`] makes machine code of it. [`values`] turns the
//! words that probes left behind into results, over all threads and ranks.
//!
//! Next: `ir`, the typed tree that everything else agrees on.
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod cost;
pub mod emit;
pub mod error;
pub mod facts;
pub mod ir;
pub mod parse;
mod print;
pub mod reference;
pub mod resolve;
pub mod syntax;
pub mod table;
mod token;
pub mod types;
pub mod values;

pub use error::{Problem, Refused};
pub use facts::Facts;
pub use parse::parse;
pub use resolve::{BodyPlace, Compiled, Origin, Permissions, compile};
