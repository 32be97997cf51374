//! A job of message-passing ranks in simulated time: who waits for whom follows from the messages, as in a real one.
//!
//! Programs are lists of steps per rank and iteration. Sends are buffered, receives wait for the message, collectives
//! wait for everybody. The observer sees a part of each rank's calls, from another moment on for each rank.

use super::Noise;
use std::collections::{BTreeMap, VecDeque};
use trimtab_window::{CallEvent, PEER_NONE};

/// Functions of the simulated library.
pub const SEND: u32 = 1;
pub const RECV: u32 = 2;
pub const ALLREDUCE: u32 = 3;
pub const BARRIER: u32 = 4;
pub const TEST: u32 = 5;
pub const GATHER: u32 = 6;

/// One step of a rank's program.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// So many ticks of work.
    Compute(u64),
    /// Buffered send from a call site.
    Send { to: usize, site: u64 },
    /// Blocking receive.
    Recv { from: usize, site: u64 },
    /// Synchronising collective of the communicator's `members`.
    Sync { function: u32, site: u64, comm: u64, members: u64 },
    /// A call that waits for nobody.
    Local { function: u32, site: u64 },
}

/// A finished run: each rank's calls and the global iteration each belongs to.
pub struct Run {
    pub events: Vec<Vec<CallEvent>>,
    pub iterations: Vec<Vec<u64>>,
}

/// Cost of the call itself and of the way.
const CALL_TICKS: u64 = 20;
const LATENCY_TICKS: u64 = 50;

struct RankState {
    clock: u64,
    step: usize,
    steps: Vec<(u64, Step)>,
}

/// Runs `ranks` ranks for `iterations`; `program(rank, iteration, noise)` lists an iteration's steps.
pub fn run(
    ranks: usize,
    iterations: u64,
    noise: &mut Noise,
    mut program: impl FnMut(usize, u64, &mut Noise) -> Vec<Step>,
) -> Run {
    let mut states: Vec<RankState> = (0..ranks)
        .map(|rank| RankState {
            clock: 1_000_000 + noise.below(1000),
            step: 0,
            steps: (0..iterations)
                .flat_map(|i| program(rank, i, noise).into_iter().map(move |step| (i, step)))
                .collect(),
        })
        .collect();
    let mut run = Run { events: vec![Vec::new(); ranks], iterations: vec![Vec::new(); ranks] };
    let mut network: BTreeMap<(usize, usize, u64), VecDeque<u64>> = BTreeMap::new();
    loop {
        let mut progressed = false;
        for rank in 0..ranks {
            while advance(rank, &mut states, &mut network, &mut run) {
                progressed = true;
            }
        }
        progressed |= meet(&mut states, &mut run, noise);
        if !progressed {
            break;
        }
    }
    assert!(states.iter().all(|state| state.step == state.steps.len()), "the simulated program deadlocked");
    run
}

/// One local step of a rank, if it can be done.
fn advance(
    rank: usize,
    states: &mut [RankState],
    network: &mut BTreeMap<(usize, usize, u64), VecDeque<u64>>,
    run: &mut Run,
) -> bool {
    let state = &mut states[rank];
    let Some((iteration, step)) = state.steps.get(state.step).copied() else { return false };
    let enter = state.clock;
    match step {
        Step::Compute(ticks) => state.clock += ticks,
        Step::Send { to, site } => {
            network.entry((rank, to, 0)).or_default().push_back(enter + LATENCY_TICKS);
            state.clock += CALL_TICKS;
            record(run, rank, iteration, call(SEND, site, enter, state.clock, to as i32));
        }
        Step::Recv { from, site } => {
            let Some(arrival) = network.entry((from, rank, 0)).or_default().pop_front() else { return false };
            state.clock = (enter + CALL_TICKS).max(arrival + CALL_TICKS);
            record(run, rank, iteration, call(RECV, site, enter, state.clock, from as i32));
        }
        Step::Local { function, site } => {
            state.clock += CALL_TICKS;
            record(run, rank, iteration, call(function, site, enter, state.clock, PEER_NONE));
        }
        Step::Sync { .. } => return false,
    }
    state.step += 1;
    true
}

/// Lets every collective happen whose members have all arrived.
fn meet(states: &mut [RankState], run: &mut Run, noise: &mut Noise) -> bool {
    let mut waiting: BTreeMap<(u64, u64, u32), Vec<usize>> = BTreeMap::new();
    for (rank, state) in states.iter().enumerate() {
        if let Some((_, Step::Sync { function, comm, members, .. })) = state.steps.get(state.step) {
            waiting.entry((*comm, *members, *function)).or_default().push(rank);
        }
    }
    let mut happened = false;
    for ((comm, members, function), present) in waiting {
        let needed = if comm == 0 { states.len() } else { members.count_ones() as usize };
        if present.len() < needed {
            continue;
        }
        let last = present.iter().map(|rank| states[*rank].clock).max().unwrap_or(0);
        for rank in present {
            let state = &mut states[rank];
            let (iteration, step) = state.steps[state.step];
            let Step::Sync { site, .. } = step else { continue };
            let enter = state.clock;
            state.clock = last + CALL_TICKS + noise.below(LATENCY_TICKS);
            state.step += 1;
            let event = CallEvent { comm, synchronising: true, ..call(function, site, enter, state.clock, PEER_NONE) };
            record(run, rank, iteration, event);
        }
        happened = true;
    }
    happened
}

/// A call event; sends and receives are told by their function.
pub fn call(function: u32, site: u64, enter_ticks: u64, exit_ticks: u64, peer: i32) -> CallEvent {
    CallEvent {
        function,
        site,
        enter_ticks,
        exit_ticks,
        peer,
        source: if function == RECV { peer } else { PEER_NONE },
        is_send: function == SEND,
        is_receive: function == RECV,
        completes: function == RECV,
        ends_posted: false,
        completed_ticks: 0,
        synchronising: false,
        comm: 0,
        bytes: None,
    }
}

fn record(run: &mut Run, rank: usize, iteration: u64, event: CallEvent) {
    run.events[rank].push(event);
    run.iterations[rank].push(iteration);
}
