//! The parts of benchmarks that can be run alone.
//!
//! Next: the module of each.

/// A part of the table that can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Probe,
    Limits,
    Pauses,
    Truth,
    Real,
    Debian,
    Cost,
    Peers,
    Idle,
    Large,
    Packet,
    Trips,
    Rest,
    Survive,
    Scale,
    Slurm,
    Watch,
    Cut,
    Live,
    Series,
    Jobs,
    Pairs,
    Routines,
    Product,
    Answers,
}
