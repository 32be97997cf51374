//! Are iterations found that no single call marks? Wavefronts, and solvers with nothing of their own around inner steps.

use crate::common::Noise;
use crate::common::simulation::{ALLREDUCE, RECV, Run, SEND, Step, TEST, call, run};
use trimtab_window::{
    CallEvent, Cut, DetectOptions, FoundLoop, NoRepetition, PEER_NONE, RankStream, Symbol, align, best_cut, detect,
    word_marks,
};

/// Builds one iteration.
type Body = fn(&mut Stream, u64);

/// Calls of one rank, with the computing before each.
struct Stream {
    noise: Noise,
    clock: u64,
    events: Vec<CallEvent>,
}

impl Stream {
    fn of(iterations: u64, body: impl Fn(&mut Stream, u64)) -> Self {
        let mut stream = Stream { noise: Noise(5), clock: 1000, events: Vec::new() };
        (0..iterations).for_each(|iteration| body(&mut stream, iteration));
        stream
    }

    /// A call after about so many ticks of computing, within 10%.
    fn call(&mut self, ticks: u64, function: u32, site: u64) {
        self.clock += ticks * 9 / 10 + self.noise.below(ticks / 5 + 1);
        let mut event = call(function, site, self.clock, self.clock + 10, PEER_NONE);
        event.synchronising = function == ALLREDUCE;
        self.events.push(event);
        self.clock += 12;
    }

    fn found(&self) -> Result<FoundLoop, NoRepetition> {
        detect(&self.events, self.clock, &DetectOptions::default())
    }
}

const LEFT: (u32, u64) = (SEND, 1);
const RIGHT: (u32, u64) = (SEND, 2);
/// One call site for all dot products.
const DOT: (u32, u64) = (ALLREDUCE, 3);
const OWN: (u32, u64) = (ALLREDUCE, 4);

fn multiply(stream: &mut Stream, ticks: u64) {
    stream.call(ticks, LEFT.0, LEFT.1);
    stream.call(0, RIGHT.0, RIGHT.1);
}

fn steps(stream: &mut Stream, count: u64) {
    for _ in 0..count {
        multiply(stream, 150);
        stream.call(250, DOT.0, DOT.1);
        stream.call(200, DOT.0, DOT.1);
    }
}

/// A right-hand side is made before the steps, by the same multiplication and dot product: one pass more of the inner
/// loop's calls, but one product short.
fn solver(stream: &mut Stream, _: u64) {
    multiply(stream, 500);
    stream.call(400, DOT.0, DOT.1);
    steps(stream, 25);
}

fn solver_with_a_call_of_its_own(stream: &mut Stream, _: u64) {
    multiply(stream, 500);
    stream.call(400, OWN.0, OWN.1);
    steps(stream, 25);
}

fn solver_of_varying_length(stream: &mut Stream, _: u64) {
    multiply(stream, 500);
    stream.call(400, DOT.0, DOT.1);
    let count = 20 + stream.noise.below(12);
    steps(stream, count);
}

/// A step that saves its second product every 25th time, and the time for it.
fn step_with_a_skipped_call(stream: &mut Stream, iteration: u64) {
    multiply(stream, 150);
    stream.call(250, DOT.0, DOT.1);
    if iteration % 25 != 7 {
        stream.call(200, DOT.0, DOT.1);
    }
}

fn wave(stream: &mut Stream, _: u64) {
    for function in [SEND, RECV] {
        stream.call(if function == SEND { 2500 } else { 20 }, function, u64::from(function));
        (1..64).for_each(|_| stream.call(1000, function, u64::from(function)));
    }
}

/// A time step of molecular dynamics, twice the same exchange; every 20th one finds new neighbours instead of it.
fn step_with_neighbours(stream: &mut Stream, iteration: u64) {
    if iteration.is_multiple_of(20) {
        (0..6).for_each(|site| stream.call(400, SEND, 20 + site));
    } else {
        (0..2).for_each(|_| stream.call(100, SEND, 10));
    }
    stream.call(3000, RECV, 11);
    stream.call(100, RECV, 11);
}

#[test]
fn iterations_that_no_call_marks_are_found() {
    // Calls of an iteration, and those of them that are the anchor's.
    let rows: [(&str, Body, _, [usize; 2]); 3] = [
        ("wave", wave, (SEND, u64::from(SEND)), [128, 64]),
        ("solver", solver, DOT, [103, 51]),
        ("solver with its own call", solver_with_a_call_of_its_own, OWN, [103, 1]),
    ];
    for (name, body, anchor, [calls, passes]) in rows {
        let stream = Stream::of(20, body);
        for cut in [0, 1, 40, 77, 130] {
            let stream = Stream { noise: Noise(0), clock: stream.clock, events: stream.events[cut..].to_vec() };
            let found = stream.found().unwrap_or_else(|why| panic!("{name} cut at {cut}: {why}"));
            assert_eq!((found.anchor.function, found.anchor.site), anchor, "{name} cut at {cut}");
            assert_eq!(found.period_calls, calls, "{name} cut at {cut}: {}", found.description);
            assert!(found.iterations_seen >= 17, "{name} cut at {cut}: {}", found.description);
            assert!(!found.is_undecided, "{name} cut at {cut}: {}", found.description);
            let marks = found.occurrences.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(marks.clone().all(|calls_between| calls_between == calls), "{name} cut at {cut}");
            if passes > 1 {
                let same = found.word.iter().filter(|symbol| **symbol == found.anchor).count();
                assert_eq!((found.word.len(), same), (calls, passes), "{name} cut at {cut}");
            }
        }
    }
}

#[test]
fn an_iteration_begins_after_the_loop_before() {
    let found = Stream::of(20, wave).found().expect("a loop");
    assert!(found.occurrences.iter().all(|mark| mark % 128 == 0), "{:?}", found.occurrences);
    // The first product after the right-hand side.
    let found = Stream::of(20, solver).found().expect("a loop");
    assert!(found.occurrences.iter().all(|mark| mark % 103 == 2), "{:?}", found.occurrences);
    assert!(found.anchor_synchronises);
}

#[test]
fn a_loop_is_not_put_around_steps_without_evidence() {
    let rows: [(&str, Body, u64, usize); 2] =
        [("varying length", solver_of_varying_length, 30, 4), ("skipped", step_with_a_skipped_call, 500, 4)];
    for (name, body, iterations, calls) in rows {
        let found = Stream::of(iterations, body).found().expect(name);
        assert_eq!(found.period_calls, calls, "{name}: {}", found.description);
        assert!(found.word.is_empty() && found.description.contains("fewer calls"), "{name}: {}", found.description);
    }
}

#[test]
fn a_few_irregular_passes_are_a_reason_to_wait() {
    let rows = [(1, true), (2, true), (3, true), (4, false), (20, false)];
    for (iterations, expected) in rows {
        let found = Stream::of(iterations, solver).found().expect("a loop");
        assert_eq!(found.is_undecided, expected, "{iterations} iterations: {}", found.description);
    }
    let found = Stream::of(100, step_with_neighbours).found().expect("a loop");
    assert!(!found.is_undecided, "{}", found.description);
    let options = DetectOptions { levels_only: true, ..DetectOptions::default() };
    let inner = Stream::of(3, solver);
    let inner = detect(&inner.events, inner.clock, &options).expect("a loop");
    assert!(!inner.is_undecided, "nothing else is looked for");
}

#[test]
fn levels_are_all_that_is_looked_for_if_asked() {
    let options = DetectOptions { levels_only: true, ..DetectOptions::default() };
    let wave = Stream::of(20, wave);
    assert!(detect(&wave.events, wave.clock, &options).is_err());
    let solver = Stream::of(20, solver);
    let inner = detect(&solver.events, solver.clock, &options).expect("a loop");
    assert_eq!(inner.period_calls, 4, "{}", inner.description);
}

/// Time steps differ, the cycle of twenty does not: ten of its iterations say what the program does, ten steps may not
/// hold a single search for neighbours.
#[test]
fn a_cycle_whose_steps_differ_much_is_the_iteration() {
    let found = Stream::of(200, step_with_neighbours).found().expect("a loop");
    assert_eq!((found.period_calls, found.iterations_seen), (84, 9), "{}", found.description);
}

#[test]
fn a_word_is_found_again_wherever_it_begins() {
    let stream = Stream::of(20, solver);
    let found = stream.found().expect("a loop");
    let later = &stream.events[700..];
    let marks = word_marks(later, &found.word, |_| false);
    let expected: Vec<usize> = found.occurrences.iter().filter_map(|mark| mark.checked_sub(700)).collect();
    assert_eq!(marks, expected);
    // Polling calls in between are no part of it.
    let mut polled = Vec::new();
    for (index, event) in later.iter().enumerate() {
        polled.extend((0..index % 3).map(|_| call(TEST, 9, event.enter_ticks, event.enter_ticks, PEER_NONE)));
        polled.push(*event);
    }
    let again = word_marks(&polled, &found.word, |symbol| symbol.function == TEST);
    let entered = |events: &[CallEvent], marks: &[usize]| -> Vec<u64> {
        marks.iter().map(|mark| events[*mark].enter_ticks).collect()
    };
    assert_eq!(entered(&polled, &again), entered(later, &marks));
    assert!(word_marks(later, &[], |_| false).is_empty());
    let other = [Symbol { function: SEND, site: 99 }];
    assert!(word_marks(later, &other, |_| false).is_empty());
}

/// Sweeps forth and back over all ranks, eight blocks each.
fn sweeps(ranks: usize) -> impl FnMut(usize, u64, &mut Noise) -> Vec<Step> {
    move |rank, _, noise| {
        let mut steps = Vec::new();
        for forth in [true, false] {
            let is_first = if forth { rank == 0 } else { rank + 1 == ranks };
            let is_last = if forth { rank + 1 == ranks } else { rank == 0 };
            let (before, after) =
                if forth { (rank.wrapping_sub(1), rank + 1) } else { (rank + 1, rank.wrapping_sub(1)) };
            for _ in 0..8 {
                steps.extend((!is_first).then_some(Step::Recv { from: before, site: 2 }));
                steps.push(Step::Compute(900 + noise.below(200)));
                steps.extend((!is_last).then_some(Step::Send { to: after, site: 1 }));
            }
        }
        steps
    }
}

/// The same call site in another direction is another symbol, as in a recorded stream.
fn directed(run: &mut Run) {
    for (rank, events) in run.events.iter_mut().enumerate() {
        for event in events {
            event.site = event.site * 10 + u64::from(event.peer > rank as i32);
        }
    }
}

#[test]
fn the_ranks_of_a_sweep_begin_with_the_same_iteration() {
    for ranks in [2, 3, 5] {
        let mut run = run(ranks, 40, &mut Noise(ranks as u64), sweeps(ranks));
        directed(&mut run);
        let found: Vec<FoundLoop> = (0..ranks)
            .map(|rank| {
                let found = detect(&run.events[rank], 0, &DetectOptions::default());
                found.unwrap_or_else(|why| panic!("{ranks} ranks, rank {rank}: {why}"))
            })
            .collect();
        let stream = |rank: usize, marks: &'static [usize]| RankStream {
            rank: rank as u32,
            events: Box::leak(run.events[rank].clone().into_boxed_slice()),
            occurrences: marks,
            is_common: false,
            first_count: 0,
            uncertainty_ticks: 0,
            clock: 0,
        };
        let leak = |marks: Vec<usize>| -> &'static [usize] { marks.leak() };
        let first = stream(0, leak(found[0].occurrences.clone()));
        for (rank, own) in found.iter().enumerate().skip(1) {
            let places = own.period_calls;
            let at = |place: usize| own.occurrences.iter().map(move |mark| mark + place);
            let cuts: Vec<Cut> = (0..places)
                .map(|place| at(place).filter(|mark| *mark < run.events[rank].len()).collect())
                .map(|marks| Cut { marks, is_common: false })
                .collect();
            let best = best_cut(&first, rank as u32, &run.events[rank], &cuts).expect("a cut");
            let own = stream(rank, leak(cuts[best].marks.clone()));
            let alignment = align(&[first, own]);
            let number = |stream: &RankStream, offset: i64, rank: usize| {
                run.iterations[rank][stream.occurrences[3]] as i64 - 3 - offset
            };
            let (zero, one) = (number(&first, alignment.offsets[0], 0), number(&own, alignment.offsets[1], rank));
            assert!(!alignment.messages_cross, "{ranks} ranks, rank {rank}: {}", alignment.explanation);
            assert_eq!(zero, one, "{ranks} ranks, rank {rank}: {alignment:?}");
        }
    }
}
