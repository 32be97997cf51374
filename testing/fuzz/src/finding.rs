//! Faults of inputs, told apart by where they happened.
//!
//! Next: `worker`, which catches panics, and `campaign`, which sees everything else.

use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Processor time after which an input counts as hanging, in seconds.
pub const HANG_S: u64 = 10;
/// Memory a target may map, in bytes.
pub const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// Stack an input may use: what threads have by default.
pub const STACK_BYTES: usize = 2 << 20;

/// One thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Source line of a panic, or the name of a signal, or `hang`: faults of one place count as one.
    pub place: String,
    /// The panic's message.
    pub message: String,
}

/// A fault with the input that brings it about, as a worker tells it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    /// The fault.
    pub fault: Fault,
    /// The input, as hexadecimal text.
    pub input: String,
}

static LAST: Mutex<Option<Fault>> = Mutex::new(None);

/// Notes panics instead of printing them.
pub fn note_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map_or("somewhere".to_string(), |at| format!("{}:{}", at.file(), at.line()));
        let said = info.payload();
        let text = said.downcast_ref::<&str>().map(ToString::to_string);
        let message = text.or_else(|| said.downcast_ref::<String>().cloned()).unwrap_or_default();
        if let Ok(mut last) = LAST.lock() {
            *last = Some(Fault { place: format!("panic at {place}"), message });
        }
    }));
}

/// Runs something; its panic as a fault.
pub fn caught<R>(run: impl FnOnce() -> R) -> Result<R, Fault> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        let noted = LAST.lock().ok().and_then(|mut last| last.take());
        noted.unwrap_or(Fault { place: "panic".to_string(), message: String::new() })
    })
}

/// Bounds this process, so that a fault is a fault and not the end of the machine: memory, and no core files.
///
/// # Errors
/// When the kernel refuses.
pub fn limit_this_process(processor_s: Option<u64>) -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = |bound: u64| Rlimit { current: Some(bound), maximum: Some(bound) };
    setrlimit(Resource::As, limit(MEMORY_BYTES_MAX))?;
    setrlimit(Resource::Core, limit(0))?;
    if let Some(bound) = processor_s {
        setrlimit(Resource::Cpu, limit(bound))?;
    }
    Ok(())
}
