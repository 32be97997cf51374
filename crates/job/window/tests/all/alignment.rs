//! Are the offsets true, or else not called proven? Simulated jobs, every rank observed from another moment on.

use crate::common::Noise;
use crate::common::simulation::{ALLREDUCE, BARRIER, RECV, Run, SEND, Step, run};
use trimtab_window::{
    Alignment, CallEvent, Certainty, DetectOptions, MarkTimes, RankStream, Verdict, align, detect, verify,
};

/// Builds an iteration's steps of one rank of a job.
type Program = fn(usize, u64, &mut Noise) -> Vec<Step>;

const RANKS: usize = 6;
const ITERATIONS: u64 = 120;
const SEEDS: u64 = 40;

struct Case {
    name: &'static str,
    program: Program,
    /// Function and site of the anchor.
    anchor: (u32, u64),
    /// At least so many of the seeds must be proven and right.
    proven_min: u64,
    /// At least so many must be right, proven or not.
    right_min: u64,
}

/// Work of a rank: slower ones, noise, and now and then a long interruption.
fn work(rank: usize, noise: &mut Noise, ticks: u64) -> Step {
    let slower = ticks * rank as u64 / 4;
    let interruption = if noise.below(40) == 0 { ticks * noise.below(30) } else { 0 };
    Step::Compute(ticks + slower + noise.below(ticks / 3 + 1) + interruption)
}

fn world(function: u32, site: u64) -> Step {
    Step::Sync { function, site, comm: 0, members: u64::MAX }
}

fn halo(rank: usize, steps: &mut Vec<Step>) {
    let neighbours = [rank.checked_sub(1), Some(rank + 1).filter(|right| *right < RANKS)];
    for (place, to) in neighbours.into_iter().enumerate() {
        steps.extend(to.map(|to| Step::Send { to, site: place as u64 }));
    }
    for (place, from) in neighbours.into_iter().enumerate() {
        steps.extend(from.map(|from| Step::Recv { from, site: 10 + place as u64 }));
    }
}

fn stencil_with_reduction(rank: usize, _: u64, noise: &mut Noise) -> Vec<Step> {
    let mut steps = vec![work(rank, noise, 3000)];
    halo(rank, &mut steps);
    steps.push(world(ALLREDUCE, 20));
    steps
}

fn stencil_with_rare_reduction(rank: usize, iteration: u64, noise: &mut Noise) -> Vec<Step> {
    let mut steps = vec![Step::Local { function: 9, site: 30 }, work(rank, noise, 3000)];
    halo(rank, &mut steps);
    if iteration.is_multiple_of(10) {
        steps.push(world(ALLREDUCE, 20));
    }
    steps
}

fn stencil_only(rank: usize, _: u64, noise: &mut Noise) -> Vec<Step> {
    let mut steps = vec![Step::Local { function: 9, site: 30 }, work(rank, noise, 3000)];
    halo(rank, &mut steps);
    steps
}

fn several_reductions(rank: usize, iteration: u64, noise: &mut Noise) -> Vec<Step> {
    let mut steps = vec![world(BARRIER, 21)];
    for _ in 0..3 + iteration % 4 {
        steps.push(work(rank, noise, 500));
        steps.push(world(ALLREDUCE, 20));
    }
    steps
}

fn reductions_without_work(_: usize, _: u64, noise: &mut Noise) -> Vec<Step> {
    vec![Step::Compute(noise.below(3)), world(ALLREDUCE, 20)]
}

/// A pipeline without any collective: every rank is behind its left neighbour, sends run ahead.
fn wavefront(rank: usize, _: u64, noise: &mut Noise) -> Vec<Step> {
    let mut steps = vec![Step::Local { function: 9, site: 30 }];
    if rank > 0 {
        steps.push(Step::Recv { from: rank - 1, site: 10 });
    }
    steps.push(work(rank, noise, 2000));
    if rank + 1 < RANKS {
        steps.push(Step::Send { to: rank + 1, site: 1 });
    }
    steps
}

fn wavefront_with_reduction(rank: usize, iteration: u64, noise: &mut Noise) -> Vec<Step> {
    let mut steps = wavefront(rank, iteration, noise);
    if iteration % 25 == 24 {
        steps.push(world(ALLREDUCE, 20));
    }
    steps
}

/// Messages are received one iteration after they were sent; the assumption about messages is wrong here.
fn sends_ahead(rank: usize, iteration: u64, noise: &mut Noise) -> Vec<Step> {
    let (left, right) = ((rank + RANKS - 1) % RANKS, (rank + 1) % RANKS);
    let mut steps = vec![Step::Local { function: 9, site: 30 }];
    if iteration > 0 {
        steps.push(Step::Recv { from: left, site: 10 });
        steps.push(Step::Recv { from: right, site: 11 });
    }
    steps.push(work(rank, noise, 2000));
    steps.push(Step::Send { to: left, site: 1 });
    steps.push(Step::Send { to: right, site: 2 });
    steps
}

/// Two disjoint groups that use the same communicator id, as libraries do for the halves of one split.
fn groups_with_one_id(rank: usize, _: u64, noise: &mut Noise) -> Vec<Step> {
    let members = if rank < 3 { 0b000_111 } else { 0b111_000 };
    vec![work(rank / 3 * 3, noise, 2000), Step::Sync { function: ALLREDUCE, site: 20, comm: 7, members }]
}

fn nothing_in_common(rank: usize, _: u64, noise: &mut Noise) -> Vec<Step> {
    vec![work(rank, noise, 2000), Step::Local { function: 9, site: 30 }]
}

const CASES: [Case; 10] = [
    Case { name: "reduction", program: stencil_with_reduction, anchor: (ALLREDUCE, 20), proven_min: 40, right_min: 40 },
    Case {
        name: "rare reduction",
        program: stencil_with_rare_reduction,
        anchor: (9, 30),
        proven_min: 38,
        right_min: 38,
    },
    Case { name: "stencil only", program: stencil_only, anchor: (9, 30), proven_min: 0, right_min: 38 },
    Case { name: "several", program: several_reductions, anchor: (BARRIER, 21), proven_min: 40, right_min: 40 },
    Case { name: "no work", program: reductions_without_work, anchor: (ALLREDUCE, 20), proven_min: 30, right_min: 30 },
    Case { name: "wavefront", program: wavefront, anchor: (9, 30), proven_min: 0, right_min: 0 },
    Case { name: "wavefront, rare", program: wavefront_with_reduction, anchor: (9, 30), proven_min: 38, right_min: 38 },
    Case { name: "sends ahead", program: sends_ahead, anchor: (9, 30), proven_min: 0, right_min: 0 },
    Case { name: "groups", program: groups_with_one_id, anchor: (ALLREDUCE, 20), proven_min: 0, right_min: 0 },
    Case { name: "unrelated", program: nothing_in_common, anchor: (9, 30), proven_min: 0, right_min: 0 },
];

/// The knowledge of one rank's observer: a part of its calls, its anchors in it, and its own counter.
struct Observed {
    events: Vec<CallEvent>,
    occurrences: Vec<usize>,
    first_count: u64,
    true_iteration: i64,
}

/// Cuts each rank's calls at a random start, and some also before the end.
fn observe(run: &Run, anchor: (u32, u64), noise: &mut Noise) -> Vec<Observed> {
    let span = run.events.iter().filter_map(|events| events.last()).map(|event| event.enter_ticks).max().unwrap_or(0);
    let begin = 1_000_000;
    let end = begin + (span - begin) * 3 / 4;
    run.events
        .iter()
        .zip(&run.iterations)
        .map(|(events, iterations)| {
            let from = begin + (span - begin) / 10 + noise.below((span - begin) / 8);
            let until = if noise.below(3) == 0 { end - noise.below((span - begin) / 10) } else { end };
            let kept: Vec<usize> =
                (0..events.len()).filter(|i| (from..until).contains(&events[*i].enter_ticks)).collect();
            observed(events, iterations, &kept, until, anchor, noise)
        })
        .collect()
}

fn observed(
    events: &[CallEvent],
    iterations: &[u64],
    kept: &[usize],
    until: u64,
    anchor: (u32, u64),
    noise: &mut Noise,
) -> Observed {
    let not_yet = |event: CallEvent| CallEvent {
        exit_ticks: if event.exit_ticks < until { event.exit_ticks } else { 0 },
        ..event
    };
    let is_anchor = |index: &usize| (events[*index].function, events[*index].site) == anchor;
    let first = kept.iter().copied().find(|index| is_anchor(index)).expect("an anchor is seen");
    Observed {
        events: kept.iter().map(|index| not_yet(events[*index])).collect(),
        occurrences: (0..kept.len()).filter(|at| is_anchor(&kept[*at])).collect(),
        first_count: noise.below(1000),
        true_iteration: iterations[first] as i64,
    }
}

fn align_observed(observed: &[Observed], uncertainty_ticks: u64) -> Alignment {
    align(&streams(observed, uncertainty_ticks))
}

fn streams(observed: &[Observed], uncertainty_ticks: u64) -> Vec<RankStream<'_>> {
    observed
        .iter()
        .enumerate()
        .map(|(rank, one)| RankStream {
            rank: rank as u32,
            events: &one.events,
            occurrences: &one.occurrences,
            is_common: true,
            first_count: one.first_count,
            uncertainty_ticks,
            clock: rank as u32,
        })
        .collect()
}

/// True if the offsets differ from the true ones by the same number on all ranks.
fn is_right(alignment: &Alignment, observed: &[Observed]) -> bool {
    let errors: Vec<i64> = alignment
        .offsets
        .iter()
        .zip(observed)
        .map(|(offset, one)| one.first_count as i64 + offset - one.true_iteration)
        .collect();
    errors.iter().all(|error| *error == errors[0])
}

#[test]
fn offsets_are_true_or_not_proven() {
    for case in &CASES {
        let (mut proven, mut right) = (0, 0);
        for seed in 0..SEEDS {
            let mut noise = Noise(seed * 7919 + 1);
            let run = run(RANKS, ITERATIONS, &mut noise, case.program);
            let observed = observe(&run, case.anchor, &mut noise);
            let alignment = align_observed(&observed, 0);
            let is_right = is_right(&alignment, &observed);
            let is_proven = alignment.certainty == Certainty::Proven;
            assert!(is_right || !is_proven, "{}, seed {seed}: proven and wrong: {alignment:?}", case.name);
            assert!(alignment.offsets.contains(&0) && alignment.offsets.iter().all(|offset| *offset >= 0));
            proven += u64::from(is_proven);
            right += u64::from(is_right);
        }
        println!("{}: {proven} of {SEEDS} proven, {right} right", case.name);
        assert!(proven >= case.proven_min, "{}: only {proven} of {SEEDS} proven", case.name);
        assert!(right >= case.right_min, "{}: only {right} of {SEEDS} right", case.name);
    }
}

/// Every rank's clock shows another time, off by `ticks_max` at most.
fn put_clocks_off(observed: &mut [Observed], ticks_max: u64, noise: &mut Noise) {
    for one in observed {
        let shift = noise.below(2 * ticks_max + 1) as i64 - ticks_max as i64;
        for event in &mut one.events {
            event.enter_ticks = event.enter_ticks.saturating_add_signed(shift);
            event.exit_ticks = if event.exit_ticks == 0 { 0 } else { event.exit_ticks.saturating_add_signed(shift) };
        }
    }
}

#[test]
fn clocks_that_are_off_within_their_uncertainty() {
    let mut proven = 0;
    for seed in 0..SEEDS {
        let mut noise = Noise(seed + 500);
        let run = run(RANKS, ITERATIONS, &mut noise, stencil_with_reduction);
        let mut observed = observe(&run, (ALLREDUCE, 20), &mut noise);
        put_clocks_off(&mut observed, 1000, &mut noise);
        let alignment = align_observed(&observed, 1000);
        let is_proven = alignment.certainty == Certainty::Proven;
        assert!(is_right(&alignment, &observed) || !is_proven, "seed {seed}: {alignment:?}");
        proven += u64::from(is_proven);
    }
    assert!(proven >= SEEDS * 9 / 10, "only {proven} of {SEEDS} proven");
}

/// Neighbours in a row exchange right after the anchor, one after the other, and some compute longer than others: a rank
/// that waits for nobody on one side runs ahead by nearly an iteration.
fn exchange_first(rank: usize, _: u64, noise: &mut Noise) -> Vec<Step> {
    let exchange = |with: Option<usize>, first: bool| {
        let send = with.map(|to| Step::Send { to, site: 1 });
        let receive = with.map(|from| Step::Recv { from, site: 10 });
        if first { [send, receive] } else { [receive, send] }
    };
    let (left, right) = (rank.checked_sub(1), Some(rank + 1).filter(|right| *right < RANKS));
    let mut steps = vec![Step::Local { function: 9, site: 30 }];
    steps.extend(exchange(left, false).into_iter().chain(exchange(right, true)).flatten());
    steps.push(work(rank, noise, if rank == 0 { 2000 } else { 3000 }));
    steps
}

#[test]
fn exchanges_fix_the_iterations_where_clocks_do_not() {
    let mut right = 0;
    for seed in 0..SEEDS {
        let mut noise = Noise(seed + 900);
        let run = run(RANKS, ITERATIONS, &mut noise, exchange_first);
        let mut observed = observe(&run, (9, 30), &mut noise);
        put_clocks_off(&mut observed, 100, &mut noise);
        let alignment = align_observed(&observed, 100);
        assert_ne!(alignment.certainty, Certainty::Proven, "seed {seed}: nobody meets all others");
        right += u64::from(is_right(&alignment, &observed));
    }
    println!("{right} of {SEEDS} right");
    assert!(right >= SEEDS * 9 / 10, "only {right} of {SEEDS} right");
}

#[test]
fn another_anchor_proves_nothing_although_it_may_be_right() {
    let mut noise = Noise(3);
    let run = run(RANKS, ITERATIONS, &mut noise, stencil_with_reduction);
    let observed = observe(&run, (ALLREDUCE, 20), &mut noise);
    let mut streams = streams(&observed, 0);
    streams[2].is_common = false;
    let alignment = align(&streams);
    assert!(is_right(&alignment, &observed), "{alignment:?}");
    assert!(matches!(alignment.certainty, Certainty::Likely { rank: 2, .. }), "{alignment:?}");
}

#[test]
fn observations_that_never_meet_prove_nothing() {
    let mut noise = Noise(1);
    let run = run(2, ITERATIONS, &mut noise, |rank, _, noise| vec![work(rank, noise, 2000), world(ALLREDUCE, 20)]);
    let all: Vec<usize> = (0..run.events[0].len()).collect();
    let half = all.len() / 2;
    let part = |rank: usize, kept: &[usize], noise: &mut Noise| {
        observed(&run.events[rank], &run.iterations[rank], kept, u64::MAX, (ALLREDUCE, 20), noise)
    };
    let observed = [part(0, &all[..half - 5], &mut noise), part(1, &all[half + 5..], &mut noise)];
    assert_ne!(align_observed(&observed, 0).certainty, Certainty::Proven);
}

#[test]
fn collectives_before_a_loops_passes_are_told_prove_nothing() {
    const PASS_TICKS: u64 = 1000;
    let call = |at: u64, synchronising: bool| CallEvent {
        function: if synchronising { ALLREDUCE } else { 1000 },
        site: 1,
        enter_ticks: at,
        exit_ticks: at + 10,
        peer: -1,
        source: -1,
        is_send: false,
        is_receive: false,
        completes: false,
        ends_posted: false,
        completed_ticks: 0,
        synchronising,
        comm: 0,
        bytes: None,
    };
    // Both ranks meet in the passes 3 and 5; one counts its passes from the 8th on, the other one from the 9th.
    let observed = |from: u64, until: u64| {
        let meetings = [3, 5].map(|pass| call(pass * PASS_TICKS, true));
        let passes = (from..until).map(|pass| call(pass * PASS_TICKS - 500, false));
        meetings.into_iter().chain(passes).collect::<Vec<CallEvent>>()
    };
    let (one, other) = (observed(8, 14), observed(9, 14));
    let marks: [Vec<usize>; 2] = [&one, &other].map(|events| (2..events.len()).collect());
    let stream = |rank: u32, events, occurrences, first_count| RankStream {
        rank,
        events,
        occurrences,
        is_common: true,
        first_count,
        uncertainty_ticks: 0,
        clock: 0,
    };
    let alignment = align(&[stream(0, &one[..], &marks[0][..], 1), stream(1, &other[..], &marks[1][..], 1)]);
    assert_ne!(alignment.certainty, Certainty::Proven, "{alignment:?}");
    assert_eq!(alignment.offsets, [0, 1], "by time");
}

#[test]
fn degenerate_input() {
    assert_eq!(align(&[]).offsets, [0_i64; 0]);
    let empty = RankStream {
        rank: 0,
        events: &[],
        occurrences: &[],
        is_common: true,
        first_count: 5,
        uncertainty_ticks: 0,
        clock: 0,
    };
    assert_eq!(align(&[empty]).offsets, [0]);
    let two = align(&[empty, RankStream { rank: 1, ..empty }]);
    assert_eq!(two.certainty, Certainty::Likely { rank: 1, margin: 0.0 });
}

#[test]
fn from_streams_to_a_verified_window() {
    for seed in 0..10 {
        let mut noise = Noise(seed);
        let run = run(RANKS, ITERATIONS, &mut noise, stencil_with_reduction);
        let observed = observe(&run, (ALLREDUCE, 20), &mut noise);
        for one in &observed {
            let found = detect(&one.events, one.events[one.events.len() - 1].enter_ticks, &DetectOptions::default());
            let found = found.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            assert!(found.anchor_synchronises && found.anchor.function == ALLREDUCE, "seed {seed}: {found:?}");
        }
        let alignment = align_observed(&observed, 0);
        let start = 60;
        let marks = |shift: u64| window(&run, &observed, &alignment, start, shift);
        assert_eq!(verify(&marks(0), true), Verdict::Holds { checked: 10 }, "seed {seed}");
        assert!(verify(&marks(1), true).is_invalid(), "seed {seed}: one rank recorded an iteration later");
    }
}

/// Ten recorded marks of each rank from the iteration `start`; the last rank begins `shift` iterations later.
fn window(run: &Run, observed: &[Observed], alignment: &Alignment, start: u64, shift: u64) -> Vec<MarkTimes> {
    let base = observed[0].first_count as i64 + alignment.offsets[0] - observed[0].true_iteration;
    (0..RANKS)
        .map(|rank| {
            let late = if rank + 1 == RANKS { shift } else { 0 };
            let range = start + late..start + late + 10;
            let events = run.events[rank].iter().zip(&run.iterations[rank]);
            let marks: Vec<&CallEvent> = events
                .filter(|(event, iteration)| event.function == ALLREDUCE && range.contains(iteration))
                .map(|(event, _)| event)
                .collect();
            MarkTimes {
                rank: rank as u32,
                first_iteration: start as i64 + base,
                enter_ticks: marks.iter().map(|event| event.enter_ticks).collect(),
                exit_ticks: marks.iter().map(|event| event.exit_ticks).collect(),
                uncertainty_ticks: 0,
            }
        })
        .collect()
}

#[test]
fn messages_in_both_directions_narrow_the_offsets() {
    let mut noise = Noise(4);
    let run = run(RANKS, ITERATIONS, &mut noise, stencil_only);
    let observed = observe(&run, (9, 30), &mut noise);
    let alignment = align_observed(&observed, 0);
    assert!(alignment.explanation.contains("messages"), "{}", alignment.explanation);
    assert!(run.events.iter().flatten().any(|event| event.function == SEND));
    assert!(run.events.iter().flatten().any(|event| event.function == RECV));
}
