//! Parallel regions of OpenMP: what the threads of the ranks do in them, and what of a hybrid program's time that leaves.
//!
//! Next: `trimtab-window`'s `regions` computes these; docs/report.md has their definitions.

use super::path::CallFrame;
use super::words::HybridFactor;
use serde::{Deserialize, Serialize};

/// The parallel regions of a window, those of all measured ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Omp {
    /// One for each function that the compiler made of a region, longest time first.
    pub regions: Vec<ParallelRegion>,
    /// Threads of the largest team of each rank, summed over ranks; `None`: no region was seen whose threads were.
    pub threads: Option<u64>,
    /// Time outside of regions and of MPI of the threads that begin regions, summed over ranks.
    pub serial_s: Option<f64>,
    /// Time in regions of which it was not seen what the threads did, summed over ranks; in no row of `regions`.
    pub unseen_s: f64,
    /// Regions that began inside of others: their time is that of the outer ones.
    pub nested: u64,
    /// The factors of parallel efficiency of ranks and threads together.
    pub hybrid: Option<HybridEfficiencies>,
    /// Why `hybrid` is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hybrid_missing: Option<String>,
}

/// The regions that are passes through one place of the program. Times are summed over ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ParallelRegion {
    /// The program's function and line that has the region run; `None`: not known.
    pub place: Option<CallFrame>,
    /// The function that the compiler made of it, or, where that was not seen, the runtime's function that was called.
    pub function: String,
    /// Ranks that had it run.
    pub ranks: u32,
    /// How often it was run.
    pub passes: u64,
    /// Time from the call that begins it until all threads are done.
    pub time_s: f64,
    /// That time over the recorded time of these ranks.
    pub fraction: Option<f64>,
    /// Threads of the smallest team.
    pub threads_min: Option<u64>,
    /// Threads of the largest team.
    pub threads_max: Option<u64>,
    /// `time_s` times the threads of each pass: what the parts below add up to.
    pub thread_time_s: Option<f64>,
    /// Time in which threads worked: neither in MPI nor in a wait.
    pub work_s: Option<f64>,
    /// Time in MPI.
    pub communication_s: Option<f64>,
    /// Time in barriers inside of the region.
    pub barrier_s: Option<f64>,
    /// Time until critical regions, locks and turns were free.
    pub lock_s: Option<f64>,
    /// Time until tasks were done.
    pub task_s: Option<f64>,
    /// The rest: until the threads have begun, and until the last one has ended.
    pub ends_s: Option<f64>,
    /// Of each pass the longest time of a thread outside of waits / their mean - 1; mean over passes.
    pub imbalance: Option<f64>,
    /// The same of each thread's sum over all passes: what of the imbalance is always the same threads'; the largest of the
    /// ranks.
    pub imbalance_of_sums: Option<f64>,
    /// (`work_s` + `communication_s`) / `thread_time_s`.
    pub efficiency: Option<f64>,
    /// Why the threads' times are `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// Where the time of all threads of all ranks went: POP's factors for hybrid programs, and the times that they are made of.
/// Each factor is a share of 0 to 1; 1 is ideal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HybridEfficiencies {
    /// `useful_s` / all threads' time: mpi x omp.
    pub parallel: f64,
    /// The part outside of MPI: mpi_load_balance x mpi_communication.
    pub mpi: f64,
    /// Mean share outside of MPI / the largest of a rank.
    pub mpi_load_balance: f64,
    /// The largest share outside of MPI of a rank.
    pub mpi_communication: f64,
    /// Useful time / time outside of MPI: omp_load_balance x omp_scheduling x omp_serialisation.
    pub omp: f64,
    /// The part that is not lost by threads that wait for the longest one of their region.
    pub omp_load_balance: f64,
    /// The part that is not lost in regions in which all threads wait, or have not begun.
    pub omp_scheduling: f64,
    /// The part that is not lost because one thread works outside of regions.
    pub omp_serialisation: f64,
    /// Time in which threads work.
    pub useful_s: f64,
    /// Time in MPI.
    pub mpi_s: f64,
    /// Time of the other threads while one is in MPI outside of regions.
    pub idle_in_mpi_s: f64,
    /// Time that threads wait in regions for the one that works longest there.
    pub imbalance_s: f64,
    /// Time in regions in which the thread that works longest does not.
    pub scheduling_s: f64,
    /// Time of the other threads while one works outside of regions, or in regions of smaller teams.
    pub serialisation_s: f64,
    /// The smallest factor; `None`: each is 0.95 or more.
    pub work_on_first: Option<HybridFactor>,
    /// The region that loses most of the threads' time, as it is shown; `None`: the regions are not to be worked on first.
    pub region_first: Option<String>,
}
