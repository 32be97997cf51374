//! The report of a large job, made of sums that were merged on the way, has the numbers of the one that has every rank's
//! recording: over windows of any shape, merged in any order and grouping.
//!
//! Next: `src/reduce.rs`.

use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;
use trimtab_types::report::{
    CallFrame, CrowdLimit, Ended, FunctionGroup, Job, LoopPlace, MarkerSource, NodeShare, Oversubscription, RankPlace,
    Report,
};
use trimtab_window::reduce::{
    Beside, OfNode, OfWindow, ReducedInput, Seen, Sums, assemble_reduced, cut_alike, share_of,
};
use trimtab_window::{
    FunctionInfo, FunctionSample, IterationMark, NamedPath, PathSample, RankSample, SizeSample, ThreadSample, UnixTime,
    Untimed, Usage, Waits, WindowFacts, WindowInput, assemble, headline,
};

const TICKS_PER_SECOND: f64 = 1e6;
/// Parts of a report that need every rank's details, and lists of ranks.
const LEFT_OUT: [&str; 7] = ["ranks", "reduced", "links", "wait_states", "nodes", "details", "omp"];

/// Anything that a window depends on.
#[derive(Clone, Debug)]
struct Shape {
    ranks: u32,
    nodes: u32,
    iterations: u64,
    by_time: bool,
    /// Ranks recorded more behind the iterations that all have.
    is_cut: bool,
    /// Rank with more work, and how much, percent.
    heavy: (u32, u64),
    has_threads: bool,
    has_comm: bool,
    is_untimed: bool,
    is_crowded: bool,
    stopped: Option<u32>,
    incomplete: Option<u32>,
    /// A rank whose passes are those of a thread that calls no MPI.
    silent: Option<u32>,
    seed: u64,
    /// Ways to merge.
    order: Vec<(usize, usize)>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let size = (2_u32..40, 1_u32..7, 1_u64..30, any::<u64>());
    let kind = (0_u8..6, 0_u8..3, 0_u32..40, 0_u64..120, 0_u8..4, 0_u8..5, 0_u8..5);
    let some = |weight| proptest::option::weighted(weight, 0_u32..40);
    let odd = (0_u8..4, some(0.2), some(0.15), some(0.15));
    let order = proptest::collection::vec((0_usize..8, 0_usize..8), 6);
    (size, kind, odd, order).prop_map(
        |((ranks, nodes, iterations, seed), kind, (crowded, stopped, left, silent), order)| {
            let (time, cut, heavy, more, threads, comm, untimed) = kind;
            Shape {
                ranks,
                nodes: nodes.min(ranks),
                iterations,
                by_time: time == 0,
                is_cut: cut == 0 && time != 0,
                heavy: (heavy % ranks, more),
                has_threads: threads == 0,
                has_comm: comm != 0,
                is_untimed: untimed == 0,
                is_crowded: crowded == 0,
                stopped: stopped.map(|rank| rank % ranks),
                incomplete: left.map(|rank| rank % ranks),
                silent: silent.map(|rank| rank % ranks),
                seed,
                order,
            }
        },
    )
}

impl Shape {
    fn noise(&self, of: u64, max: u64) -> u64 {
        let mixed = (self.seed ^ of).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 17) % max.max(1)
    }

    fn host(&self, rank: u32) -> u32 {
        rank % self.nodes
    }

    fn rank(&self, rank: u32) -> RankSample {
        let r = u64::from(rank);
        let more = if rank == self.heavy.0 { self.heavy.1 } else { 0 };
        let first_ticks = 5_000_000 + self.noise(r, 500);
        let length = |i: u64| 20_000 + 200 * more + self.noise(r << 32 | i, 700);
        let comm = |i: u64| 4_000 + self.noise(i ^ r << 40 ^ 7, 900).saturating_sub(more);
        let mut marks = vec![IterationMark { ticks: first_ticks, comm_ticks: 11 + r }];
        for i in 0..self.iterations + u64::from(self.is_cut) * self.noise(r ^ 99, 3) {
            let last = marks[marks.len() - 1];
            marks.push(IterationMark { ticks: last.ticks + length(i), comm_ticks: last.comm_ticks + comm(i) });
        }
        let last = marks[marks.len() - 1];
        let calls = self.iterations * (3 + u64::from(rank == self.heavy.0 && more > 60));
        let sample = |function: usize, ticks: u64| FunctionSample {
            function,
            calls: if function == 2 { u64::from(rank.is_multiple_of(3)) } else { calls },
            nested: u64::from(rank.is_multiple_of(2)),
            ticks,
            bytes: calls * 64,
            bytes_max: 64 + r % 3,
            argument_sum: i64::from(rank) - 5,
            first_ticks: first_ticks + 5 + r,
            last_ticks: last.ticks.saturating_sub(9),
            unknown_bytes: 0,
            polled_on: 0,
        };
        let comm_ticks = last.comm_ticks - marks[0].comm_ticks;
        RankSample {
            rank,
            pid: 100 + rank as i32,
            host: format!("n{}", self.host(rank)),
            first_ticks,
            last_ticks: last.ticks,
            functions: vec![sample(0, comm_ticks), sample(1, comm_ticks / 3), sample(2, 77)],
            paths: vec![
                PathSample { function: 0, path: 1, calls: calls / 2, ticks: comm_ticks / 2, bytes: 64 },
                PathSample { function: 0, path: 2 + r % 2, calls: calls / 4, ticks: comm_ticks / 5, bytes: 64 },
            ],
            sizes: vec![SizeSample { function: 0, class: 7, is_last: false, calls, bytes: calls * 64 }],
            marks: if self.by_time { Vec::new() } else { marks },
            complete: self.incomplete != Some(rank),
            counts_silent_thread: self.silent == Some(rank),
            comm_ticks,
            threads: if self.has_threads { vec![ThreadSample { comm_ticks: comm_ticks / 2 + 40 * r }] } else { vec![] },
            group_ticks: vec![(FunctionGroup::Io, 30 + r)],
            unattributed_bytes: r % 2,
            usage: Some(Usage { cpu_user_s: 0.9 + r as f64 / 64.0, cpu_system_s: 0.1, ..Usage::default() }),
            pause_insert_us: 300.0 + f64::from(rank),
            pause_remove_us: Some(200.0),
            probe_ns: Some(20.0),
            probe_hits: 1000 + r,
            points: 12,
            untimed: match self.is_untimed && rank.is_multiple_of(5) {
                true => vec![Untimed { function: 0, reason: "it has no end".into(), ..Untimed::default() }],
                false => Vec::new(),
            },
            ..RankSample::default()
        }
    }

    fn share(&self, node: u32) -> NodeShare {
        let ranks: Vec<u32> = (0..self.ranks).filter(|rank| self.host(*rank) == node).collect();
        let place = |rank: &u32| RankPlace {
            rank: *rank,
            stopped_s: Some(if self.stopped == Some(*rank) { 0.4 } else { 0.0 }),
            ..RankPlace::default()
        };
        let crowd = Oversubscription {
            ranks: ranks.clone(),
            processors: 1.0 + f64::from(node % 3),
            limited_by: CrowdLimit::Affinity,
            processors_wanted: Some(2.0),
            processors_had: Some(1.0),
        };
        NodeShare {
            host: format!("n{node}"),
            seconds: 2.0,
            places: ranks.iter().map(place).collect(),
            oversubscribed: Some(if self.is_crowded { vec![crowd] } else { Vec::new() }),
            ..NodeShare::default()
        }
    }

    fn input(&self) -> WindowInput {
        let group = |name: &str, group: FunctionGroup| FunctionInfo {
            name: name.to_owned(),
            group,
            timed: true,
            moves_bytes: group == FunctionGroup::Comm,
            argument_asked: group == FunctionGroup::User,
            ..FunctionInfo::default()
        };
        let comm = if self.has_comm { FunctionGroup::Comm } else { FunctionGroup::Io };
        let frame = CallFrame { function: "solve".into(), own: true, ..CallFrame::default() };
        let named = |path| NamedPath { path, frames: vec![frame.clone()], is_cut: false };
        WindowInput {
            job: Job {
                id: String::new(),
                program: "./app".into(),
                arguments: Vec::new(),
                ranks: self.ranks,
                mpi: "MPICH".into(),
                hosts: (0..self.nodes).map(|node| format!("n{node}")).collect(),
                builds: Vec::new(),
                started_unix_s: Some(900.0),
            },
            facts: WindowFacts {
                trigger: "attach".into(),
                marker: (!self.by_time).then(|| "MPI_Allreduce".to_owned()),
                marker_source: MarkerSource::Detected,
                start: (!self.by_time).then_some(7),
                ended_by: Ended::Iterations,
                common_iterations: self.is_cut.then_some(self.iterations),
                groups: vec![comm],
                main_loop: self.is_cut.then(LoopPlace::default),
                ..WindowFacts::default()
            },
            ticks_per_second: TICKS_PER_SECOND,
            functions: vec![group("MPI_Allreduce", comm), group("MPI_Send", comm), group("cell", FunctionGroup::User)],
            ranks: (0..self.ranks).map(|rank| self.rank(rank)).collect(),
            warnings: vec!["an earlier step".into()],
            command_to_first_record_s: Some(0.25),
            unix_time: UnixTime { unix_s: 1000.0, at_ticks: 5_000_000, ticks_per_second: TICKS_PER_SECOND },
            waits: Waits::default(),
            nodes: (0..self.nodes).map(|node| self.share(node)).collect(),
            named_paths: [1, 2, 3].map(named).into(),
        }
    }

    /// Values of nodes as one, by these choices of two that become one.
    fn merged<V>(&self, mut values: Vec<V>, merge: impl Fn(V, V) -> V) -> V {
        for (one, other) in self.order.iter().copied().chain(std::iter::repeat((0, 0))) {
            if values.len() < 2 {
                break;
            }
            let one = values.swap_remove(one % values.len());
            let other = values.swap_remove(other % values.len());
            values.push(merge(one, other));
        }
        values.pop().expect("a node")
    }
}

/// A window as nodes and root reduce it.
fn reduce(input: &WindowInput, shape: &Shape) -> (Report, Sums) {
    let of_window = OfWindow {
        cut_to: input.facts.common_iterations,
        main_loop: input.facts.main_loop.clone(),
        ticks_per_second: input.ticks_per_second,
        by_iterations: input.facts.marker.is_some(),
    };
    let of_node = |node: &u32| {
        let ranks = input.ranks.iter().filter(|rank| shape.host(rank.rank) == *node);
        ranks.cloned().collect::<Vec<RankSample>>()
    };
    let mut nodes: Vec<Vec<RankSample>> = (0..shape.nodes).collect::<Vec<u32>>().iter().map(of_node).collect();
    let seen = nodes.iter().map(|ranks| Seen::of(ranks, &input.functions, &of_window)).collect();
    let seen = shape.merged(seen, |mut one: Seen, other| {
        one.merge(other).expect("ranks apart");
        one
    });
    let cut = nodes.iter_mut().map(|ranks| cut_alike(ranks, &input.functions, &of_window, &seen));
    let iterations = cut.min().expect("a node");
    let sums = nodes.iter().zip(&input.nodes).map(|(ranks, share)| {
        let of = OfNode { functions: &input.functions, share, paths: &input.named_paths, warnings: &[] };
        Sums::of(ranks, of, &of_window, iterations)
    });
    let sums = shape.merged(sums.collect(), |mut one: Sums, other| {
        one.merge(&other).expect("ranks apart");
        one
    });
    let ranks = sums.standing_out();
    let shown: Vec<RankSample> = nodes.iter().flatten().filter(|rank| ranks.contains(&rank.rank)).cloned().collect();
    let ends = sums.ends();
    let beside = nodes.iter().map(|ranks| Beside::of(ranks, &of_window, &ends)).collect();
    let beside = shape.merged(beside, |mut one: Beside, other| {
        one.merge(&other).expect("ranks apart");
        one
    });
    let hosts: BTreeSet<&String> = shown.iter().map(|rank| &rank.host).collect();
    let shares = input.nodes.iter().filter(|share| hosts.contains(&share.host));
    let window = WindowInput {
        nodes: shares.map(|share| share_of(share, &ranks)).collect(),
        ranks: shown.clone(),
        named_paths: Vec::new(),
        ..input.clone()
    };
    let of =
        ReducedInput { window: &window, of_window: &of_window, seen: &seen, iterations, sums: &sums, beside: &beside };
    (assemble_reduced(of), sums)
}

/// Differences of two values beyond rounding, with where they are.
fn differences(at: &str, one: &Value, other: &Value, all: &mut Vec<String>) {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            let is_near = (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-6);
            all.extend((!is_near).then(|| format!("{at}: {a} and {b}")));
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(n, (a, b))| differences(&format!("{at}[{n}]"), a, b, all));
        }
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                differences(&format!("{at}.{key}"), a, b, all);
            }
        }
        (Value::String(a), Value::String(b)) if are_alike(a, b) => {}
        (one, other) if one == other => {}
        (one, other) => all.push(format!("{at}: {one} and {other}")),
    }
}

/// True if two texts are the same but for the last digit of a number: sums in another order may lie on the other side of a
/// half that is rounded.
fn are_alike(one: &str, other: &str) -> bool {
    let parts = |text: &str| -> Vec<String> {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let mut parts: Vec<String> = Vec::new();
        for c in text.chars() {
            match parts.last_mut().filter(|part| part.chars().next().is_some_and(is_digit) == is_digit(c)) {
                Some(part) => part.push(c),
                None => parts.push(c.to_string()),
            }
        }
        parts
    };
    let is_alike = |(a, b): (&String, &String)| {
        let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
        let last_digit = 10_f64.powi(-decimals(a).min(decimals(b)));
        let is_near = |a: f64, b: f64| (a - b).abs() <= 1.001 * last_digit;
        a == b || matches!((a.parse(), b.parse()), (Ok(a), Ok(b)) if is_near(a, b))
    };
    let (one, other) = (parts(one), parts(other));
    one.len() == other.len() && one.iter().zip(&other).all(is_alike)
}

#[test]
fn texts_are_alike_but_for_the_last_digit() {
    for (one, other, expected) in [
        ("takes 21.43 ms (4 times)", "takes 21.44 ms (4 times)", true),
        ("takes 21.43 ms", "takes 21.45 ms", false),
        ("takes 9.99 ms", "takes 10.0 ms", true),
        ("takes 21.43 ms", "took 21.43 ms", false),
        ("takes 21.43 ms.", "takes 21.43 ms", false),
    ] {
        assert_eq!(are_alike(one, other), expected, "{one} | {other}");
    }
}

/// A report without what is said to be left out.
fn comparable(report: &Report) -> Value {
    let mut value = serde_json::to_value(report).expect("a report");
    LEFT_OUT.iter().for_each(|key| drop(value.as_object_mut().expect("an object").remove(*key)));
    for function in value["functions"].as_array_mut().expect("functions") {
        function.as_object_mut().expect("a function").remove("waits_missing");
    }
    if let Some(factors) = value["efficiencies"].as_object_mut() {
        ["serialisation", "transfer", "transfer_missing"].iter().for_each(|key| drop(factors.remove(*key)));
    }
    value
}

proptest! {
    #[test]
    fn a_reduced_report_has_the_numbers_of_the_whole(shape in shapes()) {
        let input = shape.input();
        let (whole, (reduced, _)) = (assemble(&input), reduce(&input, &shape));
        let mut found = Vec::new();
        differences("", &comparable(&whole), &comparable(&reduced), &mut found);
        prop_assert!(found.is_empty(), "{found:#?}");
        let said = (headline(&whole), headline(&reduced));
        prop_assert!(are_alike(&said.0, &said.1), "{said:#?}");
        let shown: Vec<u32> = reduced.ranks.iter().map(|rank| rank.rank).collect();
        for rank in &reduced.ranks {
            let same = whole.ranks.iter().find(|one| one.rank == rank.rank);
            prop_assert_eq!(same, Some(rank));
        }
        let kept = reduced.reduced.expect("it is reduced");
        prop_assert!(shown.len() <= 9, "{shown:?}");
        prop_assert_eq!(kept.ranks, shape.ranks);
        prop_assert_eq!(kept.nodes.iter().map(|node| node.ranks).sum::<u32>(), shape.ranks);
        let counted: u32 = kept.histogram.iter().map(|class| class.ranks).sum();
        prop_assert!(kept.histogram.is_empty() || counted == shape.ranks, "{:?}", kept.histogram);
    }

    #[test]
    fn the_order_of_merging_changes_nothing(shape in shapes(), other in proptest::collection::vec((0_usize..8, 0_usize..8), 6)) {
        let input = shape.input();
        let (_, one) = reduce(&input, &shape);
        let (_, two) = reduce(&input, &Shape { order: other, ..shape.clone() });
        prop_assert_eq!(&one, &two);
        prop_assert!(one.is_sound());
        let mut twice = one.clone();
        prop_assert!(twice.merge(&one).is_err(), "the same ranks");
        prop_assert_eq!(twice, one);
    }
}

/// The ends of a distribution are shown, however many ranks there are.
#[test]
fn ranks_that_stand_out_are_the_longest_and_the_shortest() {
    let shape = Shape {
        ranks: 300,
        nodes: 5,
        iterations: 12,
        by_time: false,
        is_cut: false,
        heavy: (123, 90),
        has_threads: false,
        has_comm: true,
        is_untimed: false,
        is_crowded: false,
        stopped: None,
        incomplete: None,
        silent: None,
        seed: 7,
        order: Vec::new(),
    };
    let input = shape.input();
    let (whole, (reduced, _)) = (assemble(&input), reduce(&input, &shape));
    assert_eq!(headline(&whole), headline(&reduced));
    assert!(headline(&reduced).contains("Rank 123 computes"), "{}", headline(&reduced));
    let mut by_computation: Vec<(f64, u32)> =
        whole.ranks.iter().map(|rank| (rank.computation_s.unwrap_or_default(), rank.rank)).collect();
    by_computation.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let ends = by_computation.iter().take(4).chain(by_computation.iter().rev().take(3)).map(|(_, rank)| *rank);
    let shown: BTreeSet<u32> = reduced.ranks.iter().map(|rank| rank.rank).collect();
    assert!(ends.clone().all(|rank| shown.contains(&rank)), "{shown:?} {:?}", ends.collect::<Vec<u32>>());
    assert!(shown.contains(&0) && shown.len() <= 9, "{shown:?}");
}
