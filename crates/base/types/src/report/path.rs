//! Calls of a function by the place in the program they come from, and by how much they carry.
//!
//! Next: `trimtab-window` computes these.

use serde::{Deserialize, Serialize};

/// A call on the way from the program to MPI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFrame {
    /// The function that calls, as its author wrote it; empty where none is known.
    pub function: String,
    /// Bytes from the function's beginning to where the call returns; from the file's where no function is known.
    pub offset: u64,
    /// Name of the program's or library's file; empty for generated code.
    pub module: String,
    /// File and number of the source line, where debugging information tells.
    pub line: Option<String>,
    /// The function is of the interpreter that runs the program, and it is not known which of its lines calls.
    pub interpreter: bool,
    /// The function is the program's own, not MPI's or of a binding, a wrapper or the system.
    pub own: bool,
}

impl CallFrame {
    /// `solve at solver.f90:214` where the line is known, else `solve+0x1f3`.
    pub fn place(&self) -> String {
        let name = if self.function.is_empty() { &self.module } else { &self.function };
        match &self.line {
            Some(line) => format!("{name} at {line}"),
            None => format!("{name}+{:#x}", self.offset),
        }
    }
}

/// The calls of one function that came by one path, summed over ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathTotal {
    /// The function's name.
    pub function: String,
    /// From where it is called, innermost first: through bindings and wrappers up to the program's own function. Empty: these
    /// calls are the rest of the function's.
    pub path: Vec<CallFrame>,
    /// Why it is not known from where in the program these calls come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_missing: Option<String>,
    /// Ranks that called, or were inside.
    pub ranks: u32,
    /// Calls that began in the window.
    pub calls: u64,
    /// Time inside, clipped to the window; `None`: as the function's.
    pub time_s: Option<f64>,
    /// That time over the recorded time of all ranks: Tc/(t2-t1) of this path.
    pub fraction: Option<f64>,
    /// Of these ranks, the time of the one that spent least.
    pub rank_time_s_min: Option<f64>,
    /// Their mean.
    pub rank_time_s_mean: Option<f64>,
    /// Of these ranks, the time of the one that spent most.
    pub rank_time_s_max: Option<f64>,
    /// That rank.
    pub rank_of_max: Option<u32>,
    /// Payload bytes; `None`: as the function's.
    pub bytes: Option<u64>,
    /// Time waited for other ranks in those of the calls that could be matched with their partners, as in the wait states;
    /// `None`: none could, or it is not above `wait_error_s`.
    pub wait_s: Option<f64>,
    /// It may be this much more or less, because clocks of two ranks differ; `None`: as `wait_calls`. Absent in older reports.
    #[serde(default)]
    pub wait_error_s: Option<f64>,
    /// These calls.
    pub wait_calls: Option<u64>,
}

impl PathTotal {
    /// The program's own function on the path, or what is nearest to it.
    pub fn own(&self) -> Option<&CallFrame> {
        self.path.iter().find(|frame| frame.own).or(self.path.last())
    }
}

/// Calls of which each carried between two sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeClass {
    /// Smallest payload of such a call, a power of two, or 0; `None`: calls whose payload is not known.
    pub from_bytes: Option<u64>,
    /// Largest payload; `None`: there is no limit, or the payload is not known.
    pub to_bytes: Option<u64>,
    /// Calls.
    pub calls: u64,
    /// Payload of all of them.
    pub bytes: u64,
}
