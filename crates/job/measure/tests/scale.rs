//! The job's part with thousands of ranks: nodes that are played, with clocks, counters and answers as real ones would
//! have, all in bytes. The numbering must be the true one, proven, and what goes up must stay small.
//!
//! Next: `crew.rs` for real nodes.

#[path = "common/whole.rs"]
mod whole;

use std::ops::RangeInclusive;
use std::time::Instant;
use trimtab_measure::{
    Answer, CommSoFar, Command, Crew, Early, Envelope, Excerpt, Facts, Inserted, Length, Looked, LoopSeen, Mark,
    OnceCall, Options, Part, Passed, Polled, RankCheck, RankPasses, Recording, Replied, Reply, Request, Run, Sampled,
    Silent, WindowId, measure_with, value_of,
};
use trimtab_os::{monotonic_ns, ticks};
use trimtab_types::context::Context;
use trimtab_types::report::{Ended, FunctionGroup, NodeShare, RankPlace};
use trimtab_window::reduce::{Beside, Marks, OfNode, OfWindow, Seen, Sums, cut_alike, share_of};
use trimtab_window::{
    CallEvent, FunctionInfo, FunctionSample, IterationMark, MarkTimes, PEER_NONE, RankSample, Reading, Relation, Symbol,
};

const RANKS_OF_NODE: u32 = 32;
/// Length of an iteration, and how far ranks are apart in it at most.
const PERIOD_TICKS: u64 = 4_000_000;
const APART_TICKS: u64 = 400_000;
/// Iterations that a rank's ring still holds, and those that are recorded.
const SEEN: u64 = 20;
const RECORDED: u64 = 10;
/// The program's iteration that began last when it was looked at.
const LAST: u64 = 5_000;
const ALLREDUCE: Symbol = Symbol { function: 0, site: 0x5eed_5eed_5eed_5eed };

/// A played job.
struct Played {
    nodes: u32,
    /// The lead's clock when the program's last iteration began.
    now_ticks: u64,
    bytes_up: usize,
    bytes_down: usize,
    offsets: Vec<Run<i64>>,
    /// The iteration at which it is armed, in the job's count.
    start: u64,
    /// This node answers nothing once ranks record.
    silent: Option<u32>,
    /// Bytes of results that reach the root, once they are merged in the tree.
    bytes_of_results: usize,
    /// All ranks' recordings on the lead's clock, once they were asked for.
    recorded: Vec<RankSample>,
    /// There is no collective: each iteration sends to the next rank and receives from the one before.
    is_ring: bool,
}

/// Different for each argument, the same in each run.
fn scatter(seed: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

/// How many iterations the program had made when this rank's counter began.
fn counted_from(rank: u32) -> u64 {
    scatter(u64::from(rank)) % 1_000
}

impl Played {
    fn new(nodes: u32) -> Self {
        Played {
            nodes,
            now_ticks: ticks(),
            bytes_up: 0,
            bytes_down: 0,
            offsets: Vec::new(),
            start: 0,
            silent: None,
            bytes_of_results: 0,
            recorded: Vec::new(),
            is_ring: false,
        }
    }

    /// A node's clock: "node" is the lead's, "lead" what the node's shows.
    fn clock(&self, node: u32) -> Relation {
        let shown = scatter(u64::from(node)) % (1 << 45) + (1 << 40);
        let start = Reading { lead_ticks: shown, node_ticks: self.now_ticks, error_ticks: 0 };
        Relation::begun(start, 1.0, 1.0)
    }

    fn ranks(node: u32) -> std::ops::Range<u32> {
        node * RANKS_OF_NODE..(node + 1) * RANKS_OF_NODE
    }

    /// A rank's collective of an iteration, on its node's clock: nobody leaves before the last has entered.
    fn call(&self, node: u32, rank: u32, iteration: u64) -> CallEvent {
        let begin = self.now_ticks - (LAST + 1 - iteration) * PERIOD_TICKS;
        let enter = begin + scatter(u64::from(rank) << 20 | iteration) % APART_TICKS;
        let clock = self.clock(node);
        CallEvent {
            function: ALLREDUCE.function,
            site: ALLREDUCE.site,
            enter_ticks: clock.to_lead(enter).ticks,
            exit_ticks: clock.to_lead(begin + APART_TICKS + 1_000).ticks,
            peer: if self.is_ring { ((rank + 1) % self.ranks_of_job()) as i32 } else { PEER_NONE },
            source: PEER_NONE,
            is_send: self.is_ring,
            is_receive: false,
            completes: false,
            ends_posted: false,
            completed_ticks: 0,
            synchronising: !self.is_ring,
            comm: 0,
            bytes: None,
        }
    }

    fn ranks_of_job(&self) -> u32 {
        self.nodes * RANKS_OF_NODE
    }

    /// With the receive that follows each send of a ring.
    fn calls_and_messages(&self, node: u32, rank: u32, iterations: RangeInclusive<u64>) -> Excerpt {
        let before = (rank + self.ranks_of_job() - 1) % self.ranks_of_job();
        let both = |iteration: u64| {
            let send = self.call(node, rank, iteration);
            let enter_ticks = send.exit_ticks + 100;
            let received = CallEvent {
                function: 1,
                site: 7,
                enter_ticks,
                exit_ticks: enter_ticks + 5_000,
                peer: before as i32,
                source: before as i32,
                is_send: false,
                is_receive: true,
                completes: true,
                ..send
            };
            [send, received]
        };
        let events: Vec<CallEvent> = iterations.flat_map(both).collect();
        Excerpt { marks: (0..events.len()).step_by(2).collect(), events }
    }

    fn calls(&self, node: u32, rank: u32, iterations: RangeInclusive<u64>) -> Excerpt {
        let events: Vec<CallEvent> = iterations.map(|iteration| self.call(node, rank, iteration)).collect();
        Excerpt { marks: (0..events.len()).collect(), events }
    }

    fn loop_of(&self, rank: u32) -> LoopSeen {
        let once = OnceCall {
            symbol: ALLREDUCE,
            base_site: ALLREDUCE.site,
            synchronises: !self.is_ring,
            gap_ticks: 3e6,
            every: Some(1),
        };
        LoopSeen {
            rank,
            iterations_seen: 40,
            iteration_ticks: PERIOD_TICKS as f64,
            iteration_ticks_mean: PERIOD_TICKS as f64,
            is_undecided: false,
            anchor: ALLREDUCE,
            once: vec![once],
            word: None,
        }
    }

    fn passes(&self, node: u32, rank: u32, with_messages: bool) -> RankPasses {
        // Rings are read at slightly different moments.
        let first = LAST - SEEN + 1 + u64::from(rank % 3);
        RankPasses {
            rank,
            counted: SEEN,
            is_silent: false,
            first_count: (1 << 32) + first - counted_from(rank),
            period_ticks: PERIOD_TICKS as f64,
            is_common: true,
            ends: None,
            calls: match self.is_ring && with_messages {
                true => self.calls_and_messages(node, rank, first..=LAST),
                false => self.calls(node, rank, first..=LAST),
            },
        }
    }

    /// The program's number of the first recorded iteration, for the job's.
    fn true_start(&self, rank: u32) -> u64 {
        let offset = value_of(&self.offsets, rank).expect("an offset for each rank");
        self.start.checked_add_signed(-offset).expect("a count") + counted_from(rank)
    }

    fn check(&self, node: u32, rank: u32) -> RankCheck {
        let calls = self.calls(node, rank, LAST - RECORDED..=LAST);
        RankCheck {
            is_miscounted: false,
            iterations: (self.start..=self.start + RECORDED).collect(),
            marks: MarkTimes {
                rank,
                first_iteration: self.start as i64,
                enter_ticks: calls.events.iter().map(|event| event.enter_ticks).collect(),
                exit_ticks: calls.events.iter().map(|event| event.exit_ticks).collect(),
                uncertainty_ticks: 0,
            },
            calls,
        }
    }

    fn on_lead(&self, node: u32, clocks: &[(u32, Relation)]) -> Vec<RankSample> {
        let relation = clocks.iter().find(|(of, _)| *of == node).map_or(Relation::SAME, |(_, relation)| *relation);
        let on_lead = |rank: u32| {
            let mut sample = self.sample(node, rank);
            sample.onto_lead(&relation);
            sample
        };
        Self::ranks(node).map(on_lead).collect()
    }

    fn marks(&self, node: u32, clocks: &[(u32, Relation)]) -> Marks {
        let relation = clocks.iter().find(|(of, _)| *of == node).map_or(Relation::SAME, |(_, relation)| *relation);
        let mut all = Marks::default();
        for rank in Self::ranks(node) {
            let mut check = self.check(node, rank);
            check.marks.onto_lead(&relation);
            all.merge(Marks::of(&check.marks, &check.iterations, false)).expect("ranks apart");
        }
        all
    }

    fn share(node: u32) -> NodeShare {
        let place =
            |rank| RankPlace { rank, cpus_allowed: "0-63".into(), cpus_seen: "3".into(), ..RankPlace::default() };
        NodeShare {
            host: format!("node{node:05}"),
            seconds: 1.0,
            places: Self::ranks(node).map(place).collect(),
            ..NodeShare::default()
        }
    }

    fn sample(&self, node: u32, rank: u32) -> RankSample {
        let calls = self.calls(node, rank, LAST - RECORDED..=LAST).events;
        let mark = |(number, event): (usize, &CallEvent)| IterationMark {
            ticks: event.enter_ticks,
            comm_ticks: number as u64 * 300_000,
        };
        let (first_ticks, last_ticks) = (calls[0].enter_ticks, calls[RECORDED as usize].enter_ticks);
        RankSample {
            rank,
            pid: 4_000_000,
            host: format!("node{node:05}"),
            first_ticks,
            last_ticks,
            marks: calls.iter().enumerate().map(mark).collect(),
            complete: true,
            functions: vec![FunctionSample {
                function: 0,
                calls: RECORDED,
                ticks: RECORDED * 300_000,
                first_ticks,
                last_ticks,
                ..FunctionSample::default()
            }],
            comm_ticks: RECORDED * 300_000,
            ..RankSample::default()
        }
    }

    fn answer(&self, node: u32, request: &Request) -> Answer {
        let ranks = Self::ranks(node);
        match request {
            Request::Insert(_) => Answer::Inserted(Inserted {
                lacking: None,
                left_alone: Vec::new(),
                host: format!("node{node:05}"),
                ranks: ranks.collect(),
                digest: 7,
                warnings: Vec::new(),
            }),
            Request::Describe { node: wanted } if *wanted == node => Answer::Described(Box::new(Facts {
                functions: functions(),
                size: Some(self.nodes * RANKS_OF_NODE),
                ..Facts::default()
            })),
            Request::Sample(_) | Request::SampleCourses(_) | Request::SampleBeside(_) => {
                Answer::Sampled(Sampled::default())
            }
            Request::Time => Answer::Time { ticks_per_second: ticks_per_second() },
            Request::Look { .. } => Answer::Looked(Looked {
                is_alive: true,
                calls: 1_000,
                in_sight_ticks: None,
                loops: Ok(ranks.map(|rank| self.loop_of(rank)).collect()),
                description: "one call".into(),
            }),
            Request::Count { .. } => Answer::Counted { name: Some("MPI_Allreduce at solve+0x10".into()) },
            Request::Passes { with_messages, .. } => Answer::Passed(Passed {
                is_alive: true,
                ranks: ranks.map(|rank| self.passes(node, rank, *with_messages)).collect(),
            }),
            Request::Furthest => {
                let count = |rank: u32| LAST - counted_from(rank);
                let numbered =
                    ranks.map(|rank| count(rank).saturating_add_signed(value_of(&self.offsets, rank).unwrap_or(0)));
                Answer::Furthest(numbered.max().unwrap_or(0))
            }
            Request::Arm { .. } => Answer::Armed { is_missed: false },
            Request::Poll { .. } => Answer::Polled(Polled {
                is_alive: true,
                has_new_handler: false,
                is_over_limit: false,
                is_done: true,
                since_first_s: Some(0.1),
                recorded_s: 1.0,
                marks_min: RECORDED + 1,
                left_max: 0,
                is_confident: false,
                comm: CommSoFar::default(),
            }),
            Request::Check { .. } => Answer::Checked(ranks.map(|rank| self.check(node, rank)).collect()),
            Request::Remove => Answer::Removed { warnings: Vec::new(), departed: Vec::new() },
            Request::Read { ended: Ended::Iterations, .. } => Answer::Read(Box::new(Recording {
                ranks: ranks.map(|rank| self.sample(node, rank)).collect(),
                warnings: Vec::new(),
                site: None,
                share: NodeShare::default(),
                named_paths: Vec::new(),
            })),
            Request::SeeMarks { clocks } => Answer::Part(Part::Marks(self.marks(node, clocks))),
            Request::SeeCommon { window, clocks, .. } => {
                Answer::Part(Part::Seen(Seen::of(&self.on_lead(node, clocks), &functions(), window)))
            }
            Request::SeeEarly => Answer::Early(Early { is_alive: true, ..Early::default() }),
            _ => Answer::Done,
        }
    }
}

fn functions() -> Vec<FunctionInfo> {
    let (name, group) = ("MPI_Allreduce".into(), FunctionGroup::Comm);
    vec![FunctionInfo { name, group, timed: true, ..FunctionInfo::default() }]
}

/// Children of a node of the tree.
const FAN_OUT: usize = 32;

/// Values of nodes as they come up a tree: merged by each node of it, in bytes. Those that reach the root, with their bytes.
fn through_tree(mut parts: Vec<Part>) -> (Vec<Part>, usize) {
    let carried = |part: &Part| {
        let bytes = postcard::to_stdvec(part).expect("bytes");
        let part: Part = postcard::from_bytes(&bytes).expect("a value");
        assert!(part.is_sound(), "{part:?}");
        (part, bytes.len())
    };
    while parts.len() > FAN_OUT {
        let merged = parts.chunks(FAN_OUT).map(|children| {
            let mut all = carried(&children[0]).0;
            children[1..].iter().for_each(|child| all.merge(carried(child).0).expect("ranks apart"));
            all
        });
        parts = merged.collect();
    }
    let bytes = parts.iter().map(|part| carried(part).1).sum();
    (parts, bytes)
}

/// The questions that nodes of a reduced window were asked.
#[derive(Default)]
struct Kept {
    clocks: Vec<(u32, Relation)>,
    window: Option<OfWindow>,
    seen: Option<Seen>,
}

/// The results of a job of so many nodes, merged in the tree, with bytes that reach the root.
struct Summed<'p> {
    played: &'p mut Played,
    kept: Kept,
}

impl Summed<'_> {
    fn part(&self, node: u32, request: &Request) -> Option<Part> {
        let Kept { clocks, window, seen } = &self.kept;
        let mut ranks = self.played.on_lead(node, clocks);
        let window = window.as_ref()?;
        Some(match request {
            Request::Sum { seen } => {
                let iterations = cut_alike(&mut ranks, &functions(), window, seen);
                let share = Played::share(node);
                let of = OfNode { functions: &functions(), share: &share, paths: &[], warnings: &[] };
                Part::Sums(Box::new(Sums::of(&ranks, of, window, iterations)), None)
            }
            Request::SetBeside { ends } => {
                cut_alike(&mut ranks, &functions(), window, seen.as_ref()?);
                Part::Beside(Beside::of(&ranks, window, ends))
            }
            _ => return None,
        })
    }
}

impl Crew for Summed<'_> {
    fn nodes(&self) -> Vec<u32> {
        self.played.nodes()
    }

    fn ask(&mut self, command: &Command) -> Vec<Reply> {
        let Request::ReadRanks { ranks } = &command.request else { return self.played.ask(command) };
        let all = 0..self.played.nodes;
        let each = all.map(|node| (node, self.played.on_lead(node, &self.kept.clocks)));
        let each: Vec<(u32, Vec<RankSample>)> = each.collect();
        let mut replies = Vec::new();
        for (node, mut recorded) in each {
            self.played.recorded.extend(recorded.iter().cloned());
            recorded.retain(|sample| ranks.contains(&sample.rank));
            let none = recorded.is_empty();
            let recording = Recording {
                ranks: recorded,
                warnings: Vec::new(),
                site: None,
                share: if none { NodeShare::default() } else { share_of(&Played::share(node), ranks) },
                named_paths: Vec::new(),
            };
            let envelope = Envelope { ticks: ticks(), result: Ok(Answer::Read(Box::new(recording))) };
            let bytes = postcard::to_stdvec(&envelope).expect("bytes").len();
            // Nodes without any of these ranks say next to nothing, but they do.
            self.played.bytes_of_results += bytes;
            replies.push(Reply::of(node, envelope, ticks(), ticks()));
        }
        replies
    }

    fn ask_merged(&mut self, command: &Command) -> Vec<Replied> {
        match &command.request {
            Request::SeeCommon { window, clocks, .. } => {
                (self.kept.window, self.kept.clocks) = (Some((**window).clone()), clocks.clone());
            }
            Request::Sum { seen } => self.kept.seen = Some((**seen).clone()),
            _ => {}
        }
        let part = |node: u32| match self.part(node, &command.request) {
            Some(part) => part,
            None => match self.played.answer(node, &command.request) {
                Answer::Part(part) => part,
                other => panic!("{other:?}"),
            },
        };
        let (parts, bytes) = through_tree((0..self.played.nodes).map(part).collect());
        self.played.bytes_of_results += bytes;
        let reply = |part| Reply::of(0, Envelope { ticks: ticks(), result: Ok(Answer::Part(part)) }, ticks(), ticks());
        let all: Vec<u32> = (0..self.played.nodes).collect();
        parts.into_iter().map(|part| (all.clone(), reply(part))).collect()
    }
}

/// Of this machine, near enough.
fn ticks_per_second() -> f64 {
    static RATE: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    *RATE.get_or_init(|| {
        let begun = (ticks(), monotonic_ns());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (passed_ticks, passed_ns) = (ticks() - begun.0, monotonic_ns() - begun.1);
        passed_ticks as f64 / passed_ns as f64 * 1e9
    })
}

impl Crew for Played {
    fn nodes(&self) -> Vec<u32> {
        (0..self.nodes).collect()
    }

    fn ask(&mut self, command: &Command) -> Vec<Reply> {
        self.bytes_down += postcard::to_stdvec(command).expect("bytes").len();
        match &command.request {
            Request::Number { offsets } => self.offsets.clone_from(offsets),
            Request::Arm { start, .. } => self.start = *start,
            _ => {}
        }
        let is_recording = self.start > 0;
        let nodes = (0..self.nodes).filter(|node| !(is_recording && self.silent == Some(*node)));
        let mut replies = Vec::new();
        for node in nodes.collect::<Vec<u32>>() {
            let sent_ticks = ticks();
            let answer = self.answer(node, &command.request);
            let shown = self.clock(node).to_lead(ticks()).ticks;
            let bytes = postcard::to_stdvec(&Envelope { ticks: shown, result: Ok(answer) }).expect("bytes");
            self.bytes_up += bytes.len();
            let envelope = postcard::from_bytes(&bytes).expect("an answer");
            replies.push(Reply::of(node, envelope, sent_ticks, ticks()));
        }
        replies
    }
}

fn options() -> Options {
    Options {
        first_call_s: None,
        length: Length::Iterations(RECORDED),
        start: None,
        max_seconds: 1000.0,
        mark: Mark::Auto,
        groups: Vec::new(),
        functions: Vec::new(),
        loops: Vec::new(),
        arguments: Vec::new(),
        wrappers: Vec::new(),
        detail: 0,
        follow: false,
        until_confident: None,
        max_cost: None,
        max_hits: None,
        counters: Vec::new(),
        assumed: None,
        trigger: "attach".into(),
        event: None,
        patient: false,
        ranks: Context::All,
        seccomp_ok: false,
        known_loop: None,
        detail_ranks_max: u32::MAX,
        command_ns: monotonic_ns(),
    }
}

#[test]
fn thousands_of_ranks_get_one_numbering() {
    // The whole mission's size with TRIMTAB_SCALE_NODES=2048.
    let nodes = std::env::var("TRIMTAB_SCALE_NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(64);
    let ranks = nodes * RANKS_OF_NODE;
    let mut played = Played::new(nodes);
    let begun = Instant::now();
    let report = measure_with(&mut played, WindowId(1), &options(), &Silent).expect("a window").report;
    println!(
        "{ranks} ranks on {nodes} nodes: {:.1} s, {} bytes up ({} a rank), {} bytes down",
        begun.elapsed().as_secs_f64(),
        played.bytes_up,
        played.bytes_up / ranks as usize,
        played.bytes_down
    );
    assert!(report.window.valid, "{:?}", report.warnings);
    assert!(report.warnings.iter().all(|warning| !warning.contains("not proven")), "{:?}", report.warnings);
    assert_eq!(report.ranks.len(), ranks as usize);
    let first = played.true_start(0);
    assert!((0..ranks).all(|rank| played.true_start(rank) == first), "the same iteration of the program on all ranks");
    let wait = report.wait_states.first().expect("waits at the collective");
    let per_rank_s = wait.time_s.expect("a time") / (wait.iterations * u64::from(ranks)) as f64;
    let apart_s = APART_TICKS as f64 / ticks_per_second();
    assert!(per_rank_s > 0.2 * apart_s && per_rank_s < 0.9 * apart_s, "{per_rank_s} s of {apart_s} s: {wait:?}");
    // Twice looked at, aligned, checked and read: a few KiB of each rank in the whole window.
    assert!(played.bytes_up / (ranks as usize) < 4096, "{} bytes a rank", played.bytes_up / ranks as usize);
}

/// Bytes of results at a job's root grow slower than its ranks, and the report says what one with every rank's
/// recording would. Agreeing on the first iteration is not in this: each rank has a part in that.
#[test]
fn results_of_thousands_of_ranks_are_merged_on_the_way() {
    // The whole mission's size with TRIMTAB_SCALE_NODES=2048.
    let most = std::env::var("TRIMTAB_SCALE_NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(64);
    let sizes = [8, 64, 512, 2048].into_iter().filter(|nodes| *nodes <= most);
    let mut bytes_of = Vec::new();
    for nodes in sizes {
        let ranks = nodes * RANKS_OF_NODE;
        let mut played = Played::new(nodes);
        let options = Options { detail_ranks_max: 255, groups: vec![trimtab_mpi::Group::Comm], ..options() };
        let mut crew = Summed { played: &mut played, kept: Kept::default() };
        let report = measure_with(&mut crew, WindowId(1), &options, &Silent).expect("a window").report;
        assert!(report.window.valid, "{:?}", report.warnings);
        let reduced = report.reduced.as_ref().expect("it is summed");
        assert_eq!((reduced.ranks, report.ranks.len() <= 9), (ranks, true));
        let shares: Vec<NodeShare> = (0..nodes).map(Played::share).collect();
        whole::assert_same(&report, &whole::whole(&report, &functions(), &played.recorded, &shares));
        let all = played.recorded.iter().map(|rank| postcard::to_stdvec(rank).expect("bytes").len()).sum::<usize>();
        println!(
            "{ranks} ranks on {nodes} nodes: {} bytes of results at the root, {all} of recordings",
            played.bytes_of_results
        );
        bytes_of.push((ranks, played.bytes_of_results, all));
    }
    let [(fewest, bytes_fewest, _), ..] = bytes_of[..] else { panic!("no job was measured") };
    for (ranks, bytes, all) in &bytes_of[1..] {
        let (grown, times) = (*bytes as f64 / bytes_fewest as f64, f64::from(*ranks) / f64::from(fewest));
        assert!(grown < 0.25 * times && bytes * 10 < *all, "{bytes_of:?}");
    }
}

/// Without a collective nothing is proven, and said so; the messages and the clocks still give the true numbering.
#[test]
fn messages_align_ranks_on_many_clocks() {
    let mut played = Played { is_ring: true, ..Played::new(2) };
    let report = measure_with(&mut played, WindowId(1), &options(), &Silent).expect("a window").report;
    let first = played.true_start(0);
    let ranks = played.ranks_of_job();
    assert!((0..ranks).all(|rank| played.true_start(rank) == first), "the same iteration of the program on all ranks");
    assert!(report.warnings.iter().any(|warning| warning.contains("likely, not proven")), "{:?}", report.warnings);
}

#[test]
fn a_silent_node_among_many_is_named() {
    let mut played = Played { silent: Some(5), ..Played::new(8) };
    let report = measure_with(&mut played, WindowId(1), &options(), &Silent).expect("a partial report").report;
    assert!(!report.window.valid);
    assert_eq!(report.ranks.len(), 7 * RANKS_OF_NODE as usize);
    let says = |text: &str| report.warnings.iter().any(|warning| warning.contains(text));
    assert!(says("node00005 (ranks 160-191) did not answer when asked to begin to record"), "{:?}", report.warnings);
    assert!(says("ranks 160-191 recorded nothing"), "{:?}", report.warnings);
}
