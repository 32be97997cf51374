//! What is measured, and the line of JSON that says it.
//!
//! Contenders take turns: some round trips of the tree, some of the bare one, some of system calls alone, and again.
//!
//! Next: `forest` for the tree, `bare` and `calls` for the floors, `scale` and `survive` for the longer parts.

use crate::bare::BareTree;
use crate::calls::CallTree;
use crate::forest::{Forest, Growth};
use crate::plan::{CHAIN, Edges};
use crate::{Outcome, scale, survive, usage};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// As in the measurements of MRNet that this is compared with.
const FAN_OUT: u32 = 16;
/// Round trips of one turn; the measurements of MRNet were means of 1,000.
const TRIPS_PER_TURN: usize = 300;
/// What is done before that of a turn which is timed takes so long. After something else, the scheduler takes some tenths
/// of a second until each process runs where it runs from then on, and round trips take up to twice as long.
const SETTLES: Duration = Duration::from_millis(300);
/// Packets of one turn, to and fro: the scheduler takes some milliseconds to give two processes a processor each.
const PACKETS_PER_TURN: usize = 2_000;
/// Contributions of one turn, for as many sums as that makes: some tens of milliseconds.
const CONTRIBUTIONS_PER_TURN: u32 = 1_280_000;
/// How long an agent at rest is watched.
const REST: Duration = Duration::from_secs(10);
/// Trees that are watched: whether their nodes come to rest depends on what came last.
const RESTS: usize = 5;

/// What is asked for, beside the part.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many leaves.
    pub leaves: u32,
    /// How many turns.
    pub rounds: usize,
    /// How many waves before and after each loss.
    pub waves: usize,
    /// What connects nodes that are killed.
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
            ["--edges", "near"] => options.edges = Edges::Near,
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

/// Multicast and sum, and sums alone: of the tree as it is on one host and as it is between hosts, and of the floors.
fn trips(options: Options) -> Outcome<Value> {
    let shape = (FAN_OUT, options.leaves);
    let grow = |edges| Forest::grow(Growth { shape, edges, flow: false, patient: false, processes: 0 });
    let (near, tcp) = (grow(Edges::Near)?, grow(Edges::Tcp)?);
    let (mut bare, mut calls) = (BareTree::grow(&tcp.tree)?, CallTree::grow(&tcp.tree)?);
    let (near_stream, tcp_stream) = (near.sums()?, tcp.sums()?);
    let [mut near_ms, mut tcp_ms, mut bare_ms, mut calls_ms] = [const { Vec::new() }; 4];
    let [mut near_rate, mut tcp_rate, mut bare_rate] = [const { Vec::new() }; 3];
    let sum_count = (CONTRIBUTIONS_PER_TURN / options.leaves.max(1)) as usize;
    let per_s = |seconds: f64| sum_count as f64 / seconds;
    for _ in 0..options.rounds {
        near_ms.push(mean(&settled(TRIPS_PER_TURN, |count| near.round_trips(near_stream, count))?) / 1e3);
        tcp_ms.push(mean(&settled(TRIPS_PER_TURN, |count| tcp.round_trips(tcp_stream, count))?) / 1e3);
        let bare_trips = |count| (0..count).map(|_| bare.sums(1)).collect::<Outcome<Vec<f64>>>();
        bare_ms.push(mean(&settled(TRIPS_PER_TURN, bare_trips)?) * 1e3);
        calls_ms.push(mean(&settled(TRIPS_PER_TURN, |count| calls.trips(count))?) * 1e3);
        near_rate.push(per_s(settled(sum_count, |count| near.sums_of_many(near_stream, count as u64))?));
        tcp_rate.push(per_s(settled(sum_count, |count| tcp.sums_of_many(tcp_stream, count as u64))?));
        bare_rate.push(per_s(settled(sum_count, |count| bare.sums(count as u64))?));
    }
    Ok(json!({
        "leaves": options.leaves, "depth": tcp.tree.depth(), "start_s": tcp.start_seconds,
        "near_ms": near_ms, "tcp_ms": tcp_ms, "bare_ms": bare_ms, "calls_ms": calls_ms,
        "near_per_s": near_rate, "tcp_per_s": tcp_rate, "bare_per_s": bare_rate,
    }))
}

/// What a turn gives, once it has settled: `work` does so many of what is measured.
fn settled<T>(count: usize, mut work: impl FnMut(usize) -> Outcome<T>) -> Outcome<T> {
    let began = Instant::now();
    while began.elapsed() < SETTLES {
        work(count / 10)?;
    }
    work(count)
}

/// One packet to one leaf and back, directly and through an inner node: on one host, over TCP, and over the bare tree.
fn packet(options: Options) -> Outcome<Value> {
    let grow = |fan_out| {
        let growth = |edges| Growth { shape: (fan_out, 1), edges, flow: false, patient: false, processes: 0 };
        let forests = [Forest::grow(growth(Edges::Near))?, Forest::grow(growth(Edges::Tcp))?];
        let bare = BareTree::grow(&forests[0].tree)?;
        let streams = [forests[0].sums()?, forests[1].sums()?];
        Ok::<_, Box<dyn std::error::Error>>((forests, streams, bare))
    };
    let mut trees = [grow(1)?, grow(CHAIN)?];
    let mut series = [const { [const { Vec::new() }; 3] }; 2];
    for _ in 0..options.rounds {
        for ((forests, streams, bare), [near_us, tcp_us, bare_us]) in trees.iter_mut().zip(&mut series) {
            near_us.push(median(forests[0].round_trips(streams[0], PACKETS_PER_TURN)?));
            tcp_us.push(median(forests[1].round_trips(streams[1], PACKETS_PER_TURN)?));
            let taken = (0..PACKETS_PER_TURN).map(|_| bare.sums(1)).collect::<Outcome<Vec<f64>>>()?;
            bare_us.push(median(taken) * 1e6);
        }
    }
    let [direct, through] = series.map(|[near, tcp, bare]| json!({ "near_us": near, "tcp_us": tcp, "bare_us": bare }));
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
    let forest =
        Forest::grow(Growth { shape: (CHAIN, 1), edges: Edges::Tcp, flow: false, patient: false, processes: 0 })?;
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
