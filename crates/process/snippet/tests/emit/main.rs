//! Code for probe bodies, run in this process: what it computes, and that it leaves everything else as it was.
//!
//! Next: `world`, the target these tests pretend; `statements`, `values`, `preserved`, `threads` for what is tested.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod conditions;
mod evaluator;
mod interrupted;
mod islands;
mod messages;
mod script;
mod shown;
mod special;
mod statements;
mod threads;
mod timed;
mod values;
mod world;
