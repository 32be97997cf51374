//! All tests from outside in one program: each of several would be compiled and linked with the same crates again.
//!
//! Next: `loops` for where a window begins and ends, `report` for what is made of its records.

#[path = "../common/mod.rs"]
mod common;

mod alignment;
mod compare;
mod coverage;
mod efficiency;
mod loops;
mod reduce;
mod regions;
mod report;
mod scaling;
mod tables;
mod words;
