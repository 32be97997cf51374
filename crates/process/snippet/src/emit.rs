//! The back end: a typed body becomes x86-64 code that runs inside the target, inline in an island.
//!
//! The code allocates nothing, makes no system call and takes no lock. It never faults: addresses that come from the
//! target are looked up in a table of readable (or writable) ranges first, divisors are tested, float exceptions are
//! masked. Whatever the program could observe is as before when it ends: general registers, flags where they are live,
//! the red zone, vector registers, MXCSR; x87 state is not touched. Its time is bounded ([`Code::instructions_max`]).
//!
//! A thread finds its area by a hash of its thread pointer ([`ThreadKey`]). A thread
//! without an area takes a free one at its first hit. If none is left, the hit is counted in
//! `process_word::THREADS_DROPPED` and does nothing.
//!
//! `thread_word::BUSY` holds the stack pointer of the body that runs on the thread, in scripts where one has to be alone
//! there ([`bodies_are_reentrant`]). Bodies hit by a signal handler
//! meanwhile do nothing and are counted in `thread_word::SKIPPED`. A mark from further down the stack than a later hit was
//! left by a handler that jumped out, and is taken over.
//!
//! The tables of ranges are as true as whoever writes them: a range that is unmapped while a body reads it faults. So
//! only what stays mapped belongs in them. They may change at any time if unused entries at their end are all ones.
//!
//! Gathering values (`Fold` except into `Last`), stacks and elapsed times are for the thread area only.
//!
//! Next: [`compile`]; `generator` and `frame` for how a body is written.

mod arithmetic;
mod call;
mod code;
mod condition;
mod environment;
mod error;
mod filter;
mod float;
mod fold;
mod frame;
mod generator;
mod hot;
mod integer;
mod message;
mod needs;
mod open_call;
mod ring;
mod routines;
mod shorten;
mod statement;
mod timed_exit;
mod walk;
mod writer;

pub use call::CALL_STACK_BYTES;
pub use code::Code;
pub use environment::{Areas, Environment, FreeRegisters, Routines, Runs, ThreadKey, VectorSave};
pub use error::EmitError;
pub use message::{HEADER_WORDS, MESSAGE_BYTES_MAX, MESSAGE_VALUES_MAX, Message, message_bytes, read_message};
pub use needs::is_reentrant as bodies_are_reentrant;
pub use routines::{STACK_HASH_MULTIPLIER, SharedRoutines, shared_routines};

use crate::ir::{Body, Unit};
use generator::{Generator, Plans};

/// Times a body is written until its saved registers are settled. Each time at least one more register is found, so this
/// is never reached.
const ROUNDS_MAX: usize = 64;

/// Compiles one body of a script for one place.
///
/// # Errors
/// [`EmitError`] if the body contradicts itself or the unit, something is out of reach, or the environment lacks what a
/// statement needs.
pub fn compile(unit: &Unit, body: &Body, environment: &Environment<'_>) -> Result<Code, EmitError> {
    compile_together(unit, &[body], environment)
}

/// Compiles several bodies that run at one point, in their order, as one code: the gate is looked at, registers are
/// saved and the thread's area is found only once. All elapsed times in them end at once.
///
/// # Errors
/// As [`compile`], and [`EmitError::NotTogether`] if there is none, or they differ in [`Body::when`].
pub fn compile_together(unit: &Unit, bodies: &[&Body], environment: &Environment<'_>) -> Result<Code, EmitError> {
    environment.areas.check()?;
    if bodies.is_empty() || bodies.iter().any(|body| body.when != bodies[0].when) {
        return Err(EmitError::NotTogether { count: bodies.len() });
    }
    let mut plans = Plans::default();
    for _ in 0..ROUNDS_MAX {
        let mut generator = Generator::new(unit, bodies, environment, plans)?;
        generator.write()?;
        let wider = plans.union(generator.observed());
        if wider == plans {
            return finish(&mut generator);
        }
        plans = wider;
    }
    Err(EmitError::Unsettled)
}

/// Bytes of stack that shared routines use at most, return addresses included.
const ROUTINE_STACK_BYTES: u32 = 96;
/// Stack of a body at most: far below a page, so that a frame never reaches over a stack's guard page.
const STACK_BYTES_MAX: u32 = 2048;

fn finish(generator: &mut Generator<'_>) -> Result<Code, EmitError> {
    let stack_bytes = generator.depth_max() + ROUTINE_STACK_BYTES;
    if stack_bytes > STACK_BYTES_MAX {
        return Err(EmitError::FrameTooLarge { bytes: stack_bytes, max: STACK_BYTES_MAX });
    }
    let encoded = generator.w.encode()?;
    let written = generator.w.instructions().len() as u64;
    Ok(Code {
        bytes: encoded.bytes,
        entry: encoded.entry,
        at: generator.environment.at,
        instructions_max: written.saturating_add(generator.repeated),
        stack_bytes,
        constant_bytes: encoded.constant_bytes,
    })
}
