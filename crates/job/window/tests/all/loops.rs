//! Is the main loop found, whatever surrounds and varies it? One stream per kind of program.

use crate::common::Noise;
use crate::common::simulation::{ALLREDUCE, BARRIER, GATHER, RECV, SEND, TEST, call};
use trimtab_window::{CallEvent, DetectOptions, FoundLoop, NoRepetition, PEER_NONE, Symbol, detect, in_sight};

/// A stream under construction.
struct Stream {
    noise: Noise,
    clock: u64,
    events: Vec<CallEvent>,
}

impl Stream {
    fn new() -> Self {
        Self { noise: Noise(11), clock: 1000, events: Vec::new() }
    }

    /// Work of about `ticks`, within 10%.
    fn compute(&mut self, ticks: u64) {
        self.clock += ticks * 9 / 10 + self.noise.below(ticks / 5 + 1);
    }

    fn call(&mut self, function: u32, site: u64) {
        let mut event = call(function, site, self.clock, self.clock + 10, PEER_NONE);
        event.synchronising = function == ALLREDUCE || function == BARRIER;
        self.events.push(event);
        self.clock += 12;
    }

    fn calls(&mut self, calls: &[(u32, u64)]) {
        for (function, site) in calls {
            self.call(*function, *site);
        }
    }
}

/// Builds an iteration's part of a stream.
type Body = fn(&mut Stream, u64);

struct Case {
    name: &'static str,
    iterations: u64,
    body: Body,
    /// The expected anchor is one of these, and occurs `seen` times (+-1).
    anchors: &'static [(u32, u64)],
    seen: usize,
}

const HALO: [(u32, u64); 4] = [(SEND, 1), (RECV, 2), (SEND, 3), (RECV, 4)];

fn stencil(stream: &mut Stream, _: u64) {
    stream.compute(5000);
    stream.calls(&HALO);
    stream.call(ALLREDUCE, 5);
}

fn stencil_with_output(stream: &mut Stream, iteration: u64) {
    stencil(stream, iteration);
    if iteration.is_multiple_of(10) {
        stream.calls(&[(GATHER, 6), (BARRIER, 7)]);
    }
}

fn stencil_with_heavier_check(stream: &mut Stream, iteration: u64) {
    stencil(stream, iteration);
    if iteration.is_multiple_of(20) {
        stream.compute(4000);
        stream.call(ALLREDUCE, 6);
    }
}

fn one_call(stream: &mut Stream, _: u64) {
    stream.compute(800);
    stream.call(ALLREDUCE, 5);
}

fn neighbours_from_one_site(stream: &mut Stream, _: u64) {
    stream.compute(5000);
    for _ in 0..6 {
        stream.calls(&[(RECV, 1), (SEND, 2)]);
    }
    stream.call(GATHER, 3);
}

fn solver_of_varying_length(stream: &mut Stream, _: u64) {
    stream.compute(3000);
    stream.calls(&HALO);
    for _ in 0..8 + stream.noise.below(9) {
        stream.compute(300);
        stream.calls(&[(SEND, 11), (RECV, 12), (ALLREDUCE, 13)]);
    }
}

fn solver_outweighs_its_step(stream: &mut Stream, _: u64) {
    for _ in 0..25 {
        stream.compute(300);
        stream.calls(&[(SEND, 11), (RECV, 12), (ALLREDUCE, 13), (ALLREDUCE, 14)]);
    }
    stream.calls(&[(SEND, 21), (RECV, 22), (ALLREDUCE, 23)]);
}

fn polling(stream: &mut Stream, _: u64) {
    stream.compute(2000);
    stream.call(SEND, 1);
    for _ in 0..5 + stream.noise.below(100) {
        stream.call(TEST, 2);
    }
    stream.call(RECV, 3);
}

fn polling_nearly_all_the_time(stream: &mut Stream, _: u64) {
    for _ in 0..40 + stream.noise.below(200) {
        stream.call(TEST, 2);
    }
    stream.call(SEND, 1);
}

fn receives_in_any_order(stream: &mut Stream, _: u64) {
    stream.compute(2000);
    stream.calls(&[(SEND, 1), (SEND, 2), (SEND, 3)]);
    let first = stream.noise.below(3);
    for place in 0..3 {
        stream.call(RECV, 10 + (first + place) % 3);
    }
}

fn site_shared_by_two_phases(stream: &mut Stream, _: u64) {
    stream.compute(900);
    stream.call(SEND, 1);
    stream.call(RECV, 2);
    stream.compute(500);
    stream.call(SEND, 1);
    stream.call(RECV, 3);
}

fn step_skipped_now_and_then(stream: &mut Stream, iteration: u64) {
    stream.compute(2000);
    stream.calls(&[(SEND, 1), (RECV, 2), (SEND, 4)]);
    if iteration % 17 != 5 {
        stream.call(ALLREDUCE, 3);
    }
}

fn three_stages(stream: &mut Stream, _: u64) {
    for _ in 0..3 {
        stream.compute(1000);
        stream.calls(&[(SEND, 1), (RECV, 2)]);
    }
    stream.call(ALLREDUCE, 3);
}

const CASES: [Case; 13] = [
    Case { name: "stencil", iterations: 40, body: stencil, anchors: &[(ALLREDUCE, 5)], seen: 39 },
    Case { name: "four iterations", iterations: 4, body: stencil, anchors: &[(ALLREDUCE, 5)], seen: 3 },
    Case { name: "output", iterations: 100, body: stencil_with_output, anchors: &[(ALLREDUCE, 5)], seen: 99 },
    Case { name: "check", iterations: 200, body: stencil_with_heavier_check, anchors: &[(ALLREDUCE, 5)], seen: 199 },
    Case { name: "one call", iterations: 300, body: one_call, anchors: &[(ALLREDUCE, 5)], seen: 299 },
    Case { name: "neighbours", iterations: 50, body: neighbours_from_one_site, anchors: &[(GATHER, 3)], seen: 49 },
    Case { name: "varying solver", iterations: 30, body: solver_of_varying_length, anchors: &HALO, seen: 29 },
    Case {
        name: "solver outweighs",
        iterations: 30,
        body: solver_outweighs_its_step,
        anchors: &[(ALLREDUCE, 23)],
        seen: 29,
    },
    Case { name: "polling", iterations: 60, body: polling, anchors: &[(SEND, 1), (RECV, 3)], seen: 59 },
    Case { name: "only polling", iterations: 60, body: polling_nearly_all_the_time, anchors: &[(SEND, 1)], seen: 59 },
    Case {
        name: "any order",
        iterations: 60,
        body: receives_in_any_order,
        anchors: &[(SEND, 1), (SEND, 2), (SEND, 3)],
        seen: 59,
    },
    Case {
        name: "shared site",
        iterations: 40,
        body: site_shared_by_two_phases,
        anchors: &[(RECV, 2), (RECV, 3)],
        seen: 39,
    },
    Case {
        name: "skipped",
        iterations: 60,
        body: step_skipped_now_and_then,
        anchors: &[(SEND, 1), (RECV, 2), (SEND, 4)],
        seen: 59,
    },
];

fn stream_of(body: Body, iterations: u64) -> Stream {
    let mut stream = Stream::new();
    stream.calls(&[(GATHER, 91), (BARRIER, 92), (SEND, 93)]);
    for iteration in 0..iterations {
        body(&mut stream, iteration);
    }
    stream
}

fn found(stream: &Stream) -> Result<FoundLoop, NoRepetition> {
    detect(&stream.events, stream.clock, &DetectOptions::default())
}

#[test]
fn the_outermost_loop_is_found() {
    for case in &CASES {
        let stream = stream_of(case.body, case.iterations);
        let found = found(&stream).unwrap_or_else(|why| panic!("{}: {why}", case.name));
        let anchor = (found.anchor.function, found.anchor.site);
        assert!(case.anchors.contains(&anchor), "{}: anchor {anchor:?} in {found:?}", case.name);
        assert!(found.iterations_seen.abs_diff(case.seen) <= 1, "{}: {} seen", case.name, found.iterations_seen);
        assert!(found.coverage >= 0.8, "{}: coverage {}", case.name, found.coverage);
        assert!(!found.description.is_empty(), "{}", case.name);
    }
}

#[test]
fn a_stream_cut_anywhere_has_the_same_loop() {
    for case in CASES.iter().filter(|case| case.iterations >= 30) {
        let mut stream = stream_of(case.body, case.iterations);
        let count = stream.events.len();
        for cut in 0..12 {
            let from = count / 3 + cut;
            let whole = std::mem::take(&mut stream.events);
            stream.events = whole[from..].to_vec();
            let found = found(&stream).unwrap_or_else(|why| panic!("{} cut at {from}: {why}", case.name));
            let anchor = (found.anchor.function, found.anchor.site);
            assert!(case.anchors.contains(&anchor), "{} cut at {from}: anchor {anchor:?}", case.name);
            stream.events = whole;
        }
    }
}

#[test]
fn stages_of_a_step_are_inside_the_step() {
    let found = found(&stream_of(three_stages, 30)).expect("a loop");
    assert_eq!(found.anchor, Symbol { function: ALLREDUCE, site: 3 });
    assert_eq!((found.period_calls, found.inner.len()), (7, 1), "{found:?}");
    assert_eq!(found.inner[0].repeats, 3.0);
}

#[test]
fn no_loop_where_there_is_none() {
    let random: Body = |stream, _| {
        let site = stream.noise.below(4);
        let ticks = (-1000.0 * (1.0 - stream.noise.uniform()).ln()) as u64;
        stream.compute(ticks + 1);
        stream.call(SEND, site);
    };
    let once: Body = |stream, iteration| {
        stream.compute(100);
        stream.call(SEND, iteration);
    };
    let cases: [(&str, Body, u64); 4] = [
        ("random order", random, 400),
        ("never again", once, 50),
        ("three times", stencil, 3),
        ("nothing", stencil, 0),
    ];
    for (name, body, iterations) in cases {
        assert!(found(&stream_of(body, iterations)).is_err(), "{name}");
    }
    let mut phase = stream_of(stencil, 20);
    phase.clock *= 3;
    let why = found(&phase).expect_err("a loop that ended long ago").to_string();
    assert!(why.contains("covers 3"), "{why}");
}

#[test]
fn polling_functions_never_count() {
    let mut stream = Stream::new();
    for _ in 0..500 {
        stream.call(TEST, 2);
    }
    let options = DetectOptions { polling_functions: vec![TEST], ..DetectOptions::default() };
    assert!(detect(&stream.events, stream.clock, &options).is_err());
}

/// One statement of Python may make many calls: a sum in every tenth step is one statement more, whatever it is made of.
#[test]
fn a_rare_statement_of_many_calls_does_not_make_the_loop_longer() {
    let mut stream = Stream::new();
    for iteration in 0..400 {
        stream.compute(5000);
        (0..6).for_each(|site| stream.call(SEND, 100 + site));
        if iteration % 10 == 0 {
            (0..8).for_each(|site| stream.call(TEST, 200 + site));
        }
    }
    let events = &stream.events;
    let calls = |statements: &[(std::ops::Range<u64>, u64)]| {
        let of = |event: &CallEvent, range: &std::ops::Range<u64>| range.contains(&event.site);
        let number =
            |event: &CallEvent| statements.iter().find(|(range, _)| of(event, range)).map(|(_, number)| *number);
        let statements = events.iter().filter_map(|event| Some((event.site, number(event)?))).collect();
        detect(events, stream.clock, &DetectOptions { statements, ..DetectOptions::default() })
            .unwrap_or_else(|why| panic!("{why}"))
            .period_calls
    };
    assert_eq!(calls(&[]), 68, "eight places more are a loop of their own");
    assert_eq!(calls(&[(100..103, 1), (103..106, 2), (200..208, 3)]), 6);
    assert_eq!(calls(&[(100..106, 1), (200..203, 2), (203..206, 3), (206..208, 4)]), 68, "three statements more");
}

#[test]
fn long_streams_need_few_passes() {
    // No time is asserted; quadratic work on 200,000 events would not end within the patience of a test run.
    let stream = stream_of(solver_outweighs_its_step, 2000);
    assert!(stream.events.len() > 200_000);
    assert_eq!(found(&stream).expect("a loop").iterations_seen, 1999);
}

/// A loop that may come is said before it can be called one, and no more once it does not come again.
#[test]
fn a_slow_loop_is_in_sight_before_it_is_found() {
    let options = DetectOptions::default();
    for (iterations, ahead, is_expected) in
        [(1, 0, false), (2, 0, true), (3, 0, true), (3, 4000, true), (3, 60_000, false)]
    {
        let mut stream = Stream::new();
        (0..iterations).for_each(|iteration| stencil(&mut stream, iteration));
        let (now, name) = (stream.clock + ahead, format!("{iterations} iterations, {ahead} ticks later"));
        assert!(detect(&stream.events, now, &options).is_err(), "{name}");
        let seen = in_sight(&stream.events, now, &options);
        assert_eq!(seen.is_some(), is_expected, "{name}: {seen:?}");
        assert!(seen.is_none_or(|ticks| (4500.0..6000.0).contains(&ticks)), "{name}: {seen:?}");
    }
}
