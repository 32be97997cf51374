//! Very many leaves on one machine: a real socket for each edge, the whole protocol, few processes.
//!
//! Next: `forest`, which starts them.

use crate::Outcome;
use crate::forest::{Forest, Growth};
use crate::measure::{Options, median};
use crate::usage;
use serde_json::{Value, json};

/// Three levels of it hold 262,144.
const FAN_OUT: u32 = 64;
/// For each level.
const PROCESSES: u32 = 8;
/// Files that each process opens beside its sockets.
const FILES_BESIDE: u64 = 512;

/// How often it is started.
const STARTS: usize = 3;

/// Start, multicast and sum, and memory.
pub fn measure(options: Options) -> Outcome<Value> {
    raise_file_limit(u64::from(options.leaves))?;
    let growth = Growth {
        shape: (FAN_OUT, options.leaves),
        edges: options.edges,
        flow: false,
        patient: true,
        processes: PROCESSES,
    };
    let mut starts_s = Vec::new();
    for _ in 1..STARTS {
        starts_s.push(Forest::grow(growth)?.start_seconds);
    }
    let forest = Forest::grow(growth)?;
    starts_s.push(forest.start_seconds);
    let stream = forest.sums()?;
    forest.round_trips(stream, 1)?;
    let trips_s: Vec<f64> = forest.round_trips(stream, options.rounds)?.iter().map(|us| us / 1e6).collect();
    let mut bytes = usage::own_memory_bytes(std::process::id())?;
    for process in &forest.processes {
        bytes += usage::own_memory_bytes(process.pid())?;
    }
    Ok(json!({
        "leaves": options.leaves, "depth": forest.tree.depth(), "processes": forest.processes.len(),
        "starts_s": starts_s, "trips_s": trips_s, "trip_median_s": median(trips_s.clone()),
        "memory_bytes_per_leaf": bytes / u64::from(options.leaves),
    }))
}

/// Processes that are started inherit it.
fn raise_file_limit(leaf_count: u64) -> Outcome {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // A process of leaves has one socket for each, a process of inner nodes two halves of some edges.
    let wanted = 2 * leaf_count.div_ceil(u64::from(PROCESSES)) + FILES_BESIDE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
            .map_err(|error| format!("{wanted} open files are needed ({error}): raise `ulimit -n`, or be root"))?;
    }
    Ok(())
}
