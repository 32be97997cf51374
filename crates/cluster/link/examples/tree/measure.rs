//! The measurements, and the line of JSON that holds the figures of one.
//!
//! Both trees take turns: some round trips of ours, some of the bare one, and again.
//!
//! Next: `forest` for the tree, `bare` for the floor, `scale` and `survive` for the longer parts.

use crate::bare::BareTree;
use crate::forest::{Forest, Growth};
use crate::plan::{CHAIN, Edges};
use crate::{Outcome, scale, survive, usage};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// As in the measurements of MRNet that this is compared with.
const FAN_OUT: u32 = 16;
/// Round trips of one turn; the measurements of MRNet were means of 1,000.
const TRIPS_PER_TURN: usize = 300;
/// Each turn begins with so much of the same work untimed. After something else, the scheduler takes some tenths of a
/// second until each process runs where it runs from then on, and round trips take up to twice as long.
const SETTLES: Duration = Duration::from_millis(300);
/// Packets of one turn, to and fro: the scheduler takes some milliseconds to give two processes a processor each.
const PACKETS_PER_TURN: usize = 2_000;
/// How long an agent at rest is watched.
const REST: Duration = Duration::from_secs(10);
/// Trees that are watched: how their nodes come to rest depends on their last messages.
const RESTS: usize = 5;

/// The options beside the part.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many leaves.
    pub leaves: u32,
    /// How many turns.
    pub rounds: usize,
    /// How many waves before and after each loss.
    pub waves: usize,
    /// The transport of `scale` and `survive`.
    pub edges: Edges,
}

/// Measures one part and prints it.
pub fn run(part: &str, words: &[&str]) -> Outcome {
    let mut options = Options { leaves: 16, rounds: 10, waves: 500, edges: Edges::Tcp };
    for pair in words.chunks(2) {
        match *pair {
            ["--leaves", count] => options.leaves = count.parse()?,
            ["--rounds", count] => options.rounds = count.parse()?,
            ["--waves", count] => options.waves = count.parse()?,
            ["--edges", "tcp"] => options.edges = Edges::Tcp,
            ["--edges", "unix"] => options.edges = Edges::Plain,
            _ => return Err(format!("unknown option {pair:?}").into()),
        }
    }
    let found = match part {
        "trips" => trips(options)?,
        "packet" => packet(options)?,
        "rest" => rest()?,
        "scale" => scale::measure(options)?,
        "survive" => survive::measure(options)?,
        _ => return Err(format!("no part `{part}`: trips, packet, rest, scale, survive").into()),
    };
    println!("{found}");
    Ok(())
}

/// Multicast and sum: of the tree and of the floor.
fn trips(options: Options) -> Outcome<Value> {
    let tcp = Forest::grow(growth((FAN_OUT, options.leaves)))?;
    let mut bare = BareTree::grow(&tcp.tree)?;
    let stream = tcp.sums()?;
    let [mut tcp_ms, mut bare_ms] = [const { Vec::new() }; 2];
    for _ in 0..options.rounds {
        tcp_ms.push(mean(&settled(TRIPS_PER_TURN, |count| tcp.round_trips(stream, count))?) / 1e3);
        let bare_trips = |count| (0..count).map(|_| bare.sums(1)).collect::<Outcome<Vec<f64>>>();
        bare_ms.push(mean(&settled(TRIPS_PER_TURN, bare_trips)?) * 1e3);
    }
    Ok(json!({
        "leaves": options.leaves, "depth": tcp.tree.depth(), "start_s": tcp.start_seconds,
        "tcp_ms": tcp_ms, "bare_ms": bare_ms,
    }))
}

/// A tree of processes over TCP with TLS, with an agent's times.
fn growth(shape: (u32, u32)) -> Growth {
    Growth { shape, edges: Edges::Tcp, flow: false, patient: false, processes: 0 }
}

/// The figures of one turn, once it has settled: `work` measures so often.
fn settled<T>(count: usize, mut work: impl FnMut(usize) -> Outcome<T>) -> Outcome<T> {
    let began = Instant::now();
    while began.elapsed() < SETTLES {
        work(count / 10)?;
    }
    work(count)
}

/// One packet to one leaf and back, directly and through an inner node: over our tree and over the bare one.
fn packet(options: Options) -> Outcome<Value> {
    let grow = |fan_out| {
        let forest = Forest::grow(growth((fan_out, 1)))?;
        let (bare, stream) = (BareTree::grow(&forest.tree)?, forest.sums()?);
        Ok::<_, Box<dyn std::error::Error>>((forest, stream, bare))
    };
    let mut trees = [grow(1)?, grow(CHAIN)?];
    let mut series = [const { [const { Vec::new() }; 2] }; 2];
    for _ in 0..options.rounds {
        for ((forest, stream, bare), [tcp_us, bare_us]) in trees.iter_mut().zip(&mut series) {
            tcp_us.push(median(forest.round_trips(*stream, PACKETS_PER_TURN)?));
            let taken = (0..PACKETS_PER_TURN).map(|_| bare.sums(1)).collect::<Outcome<Vec<f64>>>()?;
            bare_us.push(median(taken) * 1e6);
        }
    }
    let [direct, through] = series.map(|[tcp, bare]| json!({ "tcp_us": tcp, "bare_us": bare }));
    Ok(json!({ "direct": direct, "through": through }))
}

/// Agents that have nothing to do: an inner node and a leaf, of some trees.
fn rest() -> Outcome<Value> {
    let mut agents = Vec::new();
    for _ in 0..RESTS {
        at_rest(&mut agents)?;
    }
    Ok(json!({ "seconds": REST.as_secs(), "agents": agents }))
}

fn at_rest(agents: &mut Vec<Value>) -> Outcome {
    let forest = Forest::grow(growth((CHAIN, 1)))?;
    std::thread::sleep(Duration::from_secs(1));
    let before = forest.processes.iter().map(|process| usage::processor_seconds(process.pid()));
    let before = before.collect::<Outcome<Vec<f64>>>()?;
    std::thread::sleep(REST);
    for (process, before) in forest.processes.iter().zip(before) {
        let used = (usage::processor_seconds(process.pid())? - before) / REST.as_secs_f64();
        agents.push(json!({
            "core_percent": 100.0 * used, "memory_mb": usage::memory_bytes(process.pid())? as f64 / 1e6,
        }));
    }
    Ok(())
}

/// The arithmetic mean.
pub fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// The middle one.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}
