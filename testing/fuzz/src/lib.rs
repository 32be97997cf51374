//! Hostile bytes for everything that reads bytes, and moved code run beside the original.
//!
//! A target takes any bytes and must answer without a panic, a crash, a hang or a memory beyond bounds; some also compare
//! two ways to the same answer. Inputs are changed copies of kept ones. In a build with coverage counters an input that
//! reaches new code is kept and changed further; without them the kept ones are changed all the same. Each target runs in
//! a process of its own under a limit of memory, watched by the campaign, which makes a failing input smaller and keeps it.
//!
//! Next: `target` for what a target is, `targets` for all of them, `worker` for the loop, `campaign` for who watches.

// Helpers of other crates' tests, which run code and ask every question; their own words for each other need them
// to stand here.
#[path = "../../../crates/process/snippet/tests/emit/agree.rs"]
mod agree;
#[path = "../../../crates/process/x86/tests/execution/arena.rs"]
#[allow(dead_code, reason = "the tests that own it use all of it")]
mod arena;
#[path = "../../../crates/process/symbols/tests/common/ask.rs"]
mod ask;
#[path = "../../../crates/process/symbols/tests/common/ask_image.rs"]
mod ask_image;
#[path = "../../../crates/process/snippet/tests/common/mod.rs"]
mod common;
#[path = "../../../crates/process/session/tests/common/descriptor.rs"]
mod example;
#[path = "../../../crates/process/x86/tests/patched/function.rs"]
#[allow(dead_code, reason = "the tests that own it use all of it")]
mod function;
#[path = "../../../crates/process/x86/tests/invariants/check.rs"]
mod invariants;
#[path = "../../../crates/process/x86/tests/patched/lab.rs"]
#[allow(dead_code, reason = "the tests that own it use all of it")]
mod lab;
#[path = "../../../crates/process/x86/tests/execution/random.rs"]
#[allow(dead_code, reason = "the tests that own it also read seeds and counts from the environment")]
mod random;
#[path = "../../../crates/process/x86/tests/execution/sequence.rs"]
mod sequence;
#[path = "../../../crates/process/snippet/tests/emit/world.rs"]
#[allow(dead_code, reason = "the tests that own it use all of it")]
mod world;

mod campaign;
mod corpus;
mod coverage;
mod finding;
mod hex;
mod hostile;
mod mutate;
mod outcome;
mod replay;
mod seeds;
mod state;
mod target;
mod targets;
mod worker;

pub use campaign::{Options, campaign};
pub use finding::HANG_S;
pub use outcome::{Finding, Outcome, TargetOutcome, render};
pub use replay::replay;
pub use target::{NAMES, PLANTED};
pub use worker::{Work, work};
