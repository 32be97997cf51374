//! The kind of a host, by which hosts are alike, how fast one is, and runs there: as models are kept with them.
//!
//! Next: `trimtab-engine`, which measures them.

use serde::{Deserialize, Serialize};

/// Hosts with equal values are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostKind {
    /// The processor's name.
    pub processor: String,
    /// Processors that a program here may use.
    pub processors: usize,
    /// Its clock, to 100 MHz; 0: not known.
    pub clock_mhz: u64,
    /// Memory, to a GiB.
    pub memory_gib: u64,
}

/// How fast a host does the same work as others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Steps of floating-point work per second, on one processor.
    pub compute_per_s: f64,
    /// Bytes per second that one processor moves to and from memory.
    pub memory_bytes_per_s: f64,
}

impl HostKind {
    /// One line that names it.
    pub fn words(&self) -> String {
        let HostKind { processor, processors, clock_mhz, memory_gib } = self;
        format!("{processor}, {processors} processors, {clock_mhz} MHz, {memory_gib} GiB")
    }
}

impl Speed {
    /// How many times as long as there something takes here, for each kind of work: the smaller factor first.
    pub fn times_of(&self, there: &Speed) -> (f64, f64) {
        let compute = there.compute_per_s / self.compute_per_s;
        let memory = there.memory_bytes_per_s / self.memory_bytes_per_s;
        (compute.min(memory), compute.max(memory))
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// The sizes.
    pub at: Vec<f64>,
    /// The number that stood for {value}.
    pub value: u32,
    /// Wall time, seconds.
    pub wall_s: f64,
    /// Processor time, seconds.
    pub cpu_s: f64,
    /// Time for which it had no processor though it was ready, seconds; null: not known.
    pub waited_s: Option<f64>,
    /// The share of all processors that others had; null: not known.
    pub others_share: Option<f64>,
    /// Memory, bytes; null: less than can be told apart from trimtab's own.
    pub memory_bytes: Option<u64>,
    /// True if others made it slower.
    pub disturbed: bool,
}

/// The clock that stands for time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Wall time of runs that nobody disturbed.
    Wall,
    /// Processor time, because others disturbed the runs.
    Cpu,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_as_fast_as_itself_and_half_as_fast_takes_twice_as_long() {
        let one = Speed { compute_per_s: 2e9, memory_bytes_per_s: 1e10 };
        assert_eq!(one.times_of(&one), (1.0, 1.0));
        let slow = Speed { compute_per_s: 1e9, memory_bytes_per_s: 1.25e10 };
        assert_eq!(slow.times_of(&one), (0.8, 2.0));
    }
}
