//! Two nodes lead through windows as one does: they begin at the same iteration and count what is true, although one's
//! clock is another and all they say are bytes; a node that falls silent is missed and named; a window that is over is
//! refused.
//!
//! Next: `common` for the nodes.

mod common;
#[path = "common/whole.rs"]
mod whole;

use common::{LIMIT, RANKS, STEADY, Subject, TRUE_MARK, Wires, options};
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trimtab_measure::{
    Answer, Command, Crew, Error, Mark, Options, Outcome, Progress, Reply, Request, Silent, WindowStage,
};
use trimtab_measure::{FirstCall, NoHold, WindowId, measure, measure_with};
use trimtab_session::ImageCache;
use trimtab_specimens::{GroundTruth, TextSnapshot};
use trimtab_types::Pid;
use trimtab_types::report::{Link, MarkerSource, NodeShare, Report, WaitKind};
use trimtab_window::{FunctionInfo, RankSample};
use whole::{assert_same, whole};

/// Iterations of each window.
const ITERATIONS: u64 = 10;
/// Windows in which a loop must show once.
const ATTEMPTS_MAX: u64 = 4;

/// Longer than a look takes, and than anything lasts here.
const MEANWHILE: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(3600);

/// Held for a whole test: jobs run one at a time, the machine may have two processors.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn named() -> Mark {
    Mark::Function(TRUE_MARK.into())
}

#[test]
fn two_nodes_begin_together_and_count_what_is_true() {
    let _alone = alone();
    let subject = Subject::start(STEADY.0, STEADY.1);
    let cache = ImageCache::in_memory();
    let mut crew = Wires::new(&subject.job, &cache);
    let window = |crew: &mut Wires<'_>, id: u64, mark: Mark| -> Report {
        let Outcome { report, .. } =
            measure_with(crew, WindowId(id), &options(mark, ITERATIONS), &Silent).expect("a window");
        report
    };
    // Where four ranks are kept waiting for two processors, it takes another window now and then to know for sure. The second
    // node's processor counts a fifth faster; its ranks' iterations last as long as the others'.
    let is_alike = |report: &Report| {
        let durations = || report.ranks.iter().map(|rank| rank.duration_s);
        let longest = durations().fold(0.0, f64::max);
        durations().all(|one| one > 0.9 * longest)
    };
    let is_proven = |report: &Report| !report.warnings.iter().any(|warning| warning.contains("likely, not proven"));
    let by_mark = (1..=ATTEMPTS_MAX).map(|id| window(&mut crew, id, named())).find(is_alike).expect("one clock");
    let mut by_loop = (1..=ATTEMPTS_MAX).map(|id| window(&mut crew, ATTEMPTS_MAX + id, Mark::Auto));
    let by_loop = by_loop.find(|report| is_proven(report) && is_alike(report));
    let by_loop = by_loop.expect("one clock, and that all ranks count the same iterations is proven");
    subject.assert_restored();
    crew.answers.iter().for_each(|(answer, bytes)| check_size(answer, *bytes));
    let truths = subject.finish();

    let first = same_start(&by_mark);
    check_counts(&by_mark, &truths, first);
    assert_eq!(by_loop.window.marker_source.word(), "detected", "{:?}", by_loop.warnings);
    same_start(&by_loop);
}

/// A crew whose nodes tell of all ranks besides those that stand out.
struct Both<'w, 'c> {
    wires: &'w mut Wires<'c>,
    functions: Vec<FunctionInfo>,
    ranks: Vec<RankSample>,
    shares: Vec<NodeShare>,
}

impl Crew for Both<'_, '_> {
    fn nodes(&self) -> Vec<u32> {
        self.wires.nodes()
    }

    fn ask(&mut self, command: &Command) -> Vec<Reply> {
        let Request::ReadRanks { ranks } = &command.request else {
            let replies = self.wires.ask(command);
            for reply in &replies {
                if let Ok(Answer::Described(facts)) = &reply.result {
                    self.functions.clone_from(&facts.functions);
                }
            }
            return replies;
        };
        let all = Request::ReadRanks { ranks: (0..RANKS).collect() };
        let mut replies = self.wires.ask(&Command { window: command.window, request: all });
        for reply in &mut replies {
            let Ok(Answer::Read(recording)) = &mut reply.result else { continue };
            self.ranks.extend(recording.ranks.iter().cloned());
            self.shares.push(recording.share.clone());
            recording.ranks.retain(|rank| ranks.contains(&rank.rank));
        }
        replies
    }
}

/// Two nodes of a job that is large by its options sum their ranks, and the report says what one of every rank's recording
/// would.
#[test]
fn a_large_jobs_nodes_sum_their_ranks() {
    let _alone = alone();
    let subject = Subject::start(STEADY.0, STEADY.1);
    let cache = ImageCache::in_memory();
    let mut wires = Wires::new(&subject.job, &cache);
    let mut crew = Both { wires: &mut wires, functions: Vec::new(), ranks: Vec::new(), shares: Vec::new() };
    let options = Options { detail_ranks_max: RANKS - 1, detail: 0, ..options(named(), ITERATIONS) };
    let Outcome { report, headline, .. } = measure_with(&mut crew, WindowId(1), &options, &Silent).expect("a window");
    subject.assert_restored();
    let Both { functions, mut ranks, shares, .. } = crew;
    wires.answers.iter().for_each(|(answer, bytes)| check_size(answer, *bytes));
    subject.finish();
    let asked = |wanted: fn(&Answer) -> bool| wires.answers.iter().filter(|(answer, _)| wanted(answer)).count();
    assert_eq!(asked(|answer| matches!(answer, Answer::Part(_))), 8, "four values of two nodes");
    assert_eq!(asked(|answer| matches!(answer, Answer::Checked(_))), 0, "no rank's own marks");
    ranks.sort_by_key(|rank| rank.rank);
    assert_eq!(ranks.len(), RANKS as usize, "{report:?}");
    let whole = whole(&report, &functions, &ranks, &shares);
    assert_same(&report, &whole);
    assert_eq!(headline, trimtab_window::headline(&whole));
    assert!(report.window.valid && headline.contains("of the time is communication"), "{headline} {report:?}");
    let reduced = report.reduced.as_ref().expect("it is summed");
    assert_eq!((reduced.ranks, reduced.nodes.iter().map(|node| node.ranks).sum::<u32>()), (RANKS, RANKS));
    assert!(report.links.is_empty() && report.wait_states.is_empty(), "{report:?}");
}

/// Interrupted before its probes are in: while it is planned, which takes long for large programs.
#[test]
fn a_window_that_is_given_up_touches_nothing() {
    struct Interrupted;
    impl Progress for Interrupted {
        fn stage(&self, _stage: &WindowStage) {}
        fn is_interrupted(&self) -> bool {
            true
        }
    }
    let _alone = alone();
    let subject = Subject::start(STEADY.0, STEADY.1);
    let (cache, options) = (ImageCache::in_memory(), options(named(), ITERATIONS));
    let given_up = measure(&subject.job, &options, &cache, &Interrupted);
    assert!(matches!(given_up, Err(Error::Interrupted)), "{given_up:?}");
    assert_eq!(cache.parse_count(), 0, "it was not even planned");
    subject.assert_restored();
    subject.finish();
}

/// Iterations without any collective, which no call marks: nodes fit theirs to another node's, and what is not proven is
/// not called so.
#[test]
fn iterations_that_only_messages_relate_are_not_called_proven() {
    let _alone = alone();
    let subject = Subject::start("wave", "--iterations 1000000");
    let cache = ImageCache::in_memory();
    let mut crew = Wires::new(&subject.job, &cache);
    // Four ranks on two processors, whom nothing but messages keeps together: now and then they show no loop in time.
    let mut attempts = (1..=ATTEMPTS_MAX).map(|id| {
        let outcome = measure_with(&mut crew, WindowId(id), &options(Mark::Calls, ITERATIONS), &Silent);
        outcome.expect("a window").report
    });
    let report = attempts.find(|report| report.window.marker_source != MarkerSource::Time).expect("a loop");
    subject.assert_restored();
    crew.answers.iter().for_each(|(answer, bytes)| check_size(answer, *bytes));
    let Report { window, ranks, warnings, functions, .. } = report;
    assert_eq!(window.marker_source.word(), "detected", "{window:?} {warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("likely, not proven")), "{warnings:?}");
    assert!(ranks.iter().all(|rank| rank.iterations == Some(ITERATIONS)), "{ranks:?}");
    let mark = functions.iter().find(|function| function.name == TRUE_MARK).expect("the mark");
    assert_eq!(
        mark.calls_counted(),
        u64::from(RANKS) * ITERATIONS,
        "each iteration is one of the program's: {window:?}"
    );
    let fitted = |answer: &Answer| matches!(answer, Answer::Fitted(Ok(ranks)) if !ranks.is_empty());
    assert!(crew.answers.iter().any(|(answer, _)| fitted(answer)), "the other node's ranks were fitted");
}

/// Each node looks at the stacks of its ranks, and they agree on a loop of the program.
#[test]
fn a_loop_of_the_program_is_agreed_on_by_all_nodes() {
    let _alone = alone();
    let subject = Subject::start("wave", "--iterations 1000000");
    let cache = ImageCache::in_memory();
    let mut crew = Wires::new(&subject.job, &cache);
    let options = Options { trigger: "attach".to_owned(), ..options(Mark::Auto, ITERATIONS) };
    let outcome = measure_with(&mut crew, WindowId(1), &options, &Silent).expect("a window");
    subject.assert_restored();
    crew.answers.iter().for_each(|(answer, bytes)| check_size(answer, *bytes));
    let Report { window, ranks, warnings, functions, .. } = outcome.report;
    let found = window.main_loop.clone().unwrap_or_else(|| panic!("{window:?} {warnings:?}"));
    assert_eq!((window.marker_source.word(), found.function.as_str()), ("detected", "main"), "{window:?}");
    assert!(ranks.iter().all(|rank| rank.iterations == Some(ITERATIONS)), "{ranks:?}");
    let mark = functions.iter().find(|function| function.name == TRUE_MARK).expect("the mark");
    assert_eq!(
        mark.calls_counted(),
        u64::from(RANKS) * ITERATIONS,
        "each iteration is one of the program's: {window:?}"
    );
    let looked =
        crew.answers.iter().filter(|(answer, _)| matches!(answer, Answer::Sampled(it) if !it.loops.is_empty()));
    assert_eq!(looked.count(), 4, "both nodes saw it, before the window and after it");
}

/// A pass with more calls than nodes tell at once is a loop as others are; and a step of the solver is one, not an iteration
/// around it, where an earlier window took that.
#[test]
fn the_loop_of_an_earlier_window_is_kept_to() {
    let _alone = alone();
    let subject = Subject::start("cg", "--iterations 1000000");
    let cache = ImageCache::in_memory();
    let mut crew = Wires::new(&subject.job, &cache);
    let by_default = Options { trigger: "attach".to_owned(), ..options(Mark::Auto, ITERATIONS) };
    let mut loop_of = |id: u64, options: &Options| {
        let outcome = measure_with(&mut crew, WindowId(id), options, &Silent).expect("a window");
        let Report { window, functions, .. } = outcome.report;
        let mark = functions.iter().find(|function| function.name == TRUE_MARK).map_or(0, |mark| mark.calls_counted());
        (window.main_loop.clone().unwrap_or_else(|| panic!("{window:?}")), mark)
    };
    let (outer, marks) = loop_of(1, &by_default);
    assert_eq!((outer.function.as_str(), marks), ("main", u64::from(RANKS) * ITERATIONS), "its 102 calls are many");
    let (inner, _) = loop_of(2, &Options { mark: Mark::Nest(2), ..by_default.clone() });
    assert_ne!(inner, outer, "the second loop of the nest");
    let (kept, _) = loop_of(3, &Options { known_loop: Some(Box::new(inner.clone())), ..by_default });
    assert_eq!(kept, inner);
    subject.assert_restored();
}

#[test]
fn a_node_that_falls_silent_while_it_records_is_named() {
    let _alone = alone();
    let subject = Subject::start(STEADY.0, STEADY.1);
    let cache = ImageCache::in_memory();
    let mut crew = Wires::new(&subject.job, &cache);
    let mut polls = 0;
    crew.silence = Some(Box::new(move |request| {
        polls += u32::from(matches!(request, Request::Poll { .. }));
        polls == 2
    }));
    let outcome = measure_with(&mut crew, WindowId(1), &options(named(), 200), &Silent).expect("a partial report");
    assert!(crew.is_silent, "it fell silent");
    let Report { window, ranks, warnings, job, .. } = outcome.report;
    assert!(!window.valid, "{warnings:?}");
    assert_eq!(ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1]);
    assert!(ranks.iter().all(|rank| rank.iterations == Some(200)), "the others are whole: {warnings:?}");
    assert_eq!(job.ranks, RANKS);
    let says = |text: &str| warnings.iter().any(|warning| warning.contains(text));
    assert!(says("(ranks 2, 3) did not answer when asked to tell how far the recording is"), "{warnings:?}");
    assert!(says("ranks 2, 3 recorded nothing; the totals are without them"), "{warnings:?}");
    // This is the step that its lease would take.
    assert!(crew.nodes[1].abandon(), "its probes were still in");
    assert!(!crew.nodes[1].abandon(), "and are out now");
    subject.assert_restored();
    subject.finish();
}

/// Ranks 0 and 1 are on one node, 2 and 3 on the other.
#[test]
fn chosen_ranks_are_measured_and_others_left_alone() {
    let _alone = alone();
    let subject = Subject::start(STEADY.0, STEADY.1);
    let cache = ImageCache::in_memory();
    let mut crew = Wires::new(&subject.job, &cache);
    let chosen =
        |ranks: &str| Options { ranks: ranks.parse().expect("a set of ranks"), ..options(Mark::Auto, ITERATIONS) };
    for (id, (ranks, expected)) in
        [("0", &[0][..]), ("1,2", &[1, 2]), ("all except 0-1", &[2, 3])].into_iter().enumerate()
    {
        let others = subject.job.ranks.iter().filter(|process| !expected.contains(&process.rank.0));
        let others: Vec<TextSnapshot> =
            others.map(|process| TextSnapshot::of(process.pid.0).expect("its text")).collect();
        crew.silence = Some(Box::new(move |request| {
            // Now the others have probes in them.
            let is_in = matches!(request, Request::Poll { .. } | Request::Look { .. });
            assert!(!is_in || others.iter().all(|text| text.difference_now().expect("it runs").is_none()));
            false
        }));
        let outcome = measure_with(&mut crew, WindowId(id as u64 + 1), &chosen(ranks), &Silent);
        let outcome = outcome.unwrap_or_else(|error| panic!("{ranks}: {error}"));
        let Report { window, ranks: measured, warnings, job, functions, wait_states, .. } = outcome.report;
        assert!(window.valid, "{ranks}: {warnings:?}");
        assert_eq!(measured.iter().map(|rank| rank.rank).collect::<Vec<_>>(), expected, "{ranks}");
        assert!(window.context.is_some() && job.ranks == RANKS, "{ranks}: {window:?}");
        let said = format!("Of 4 ranks {} were measured, as asked", expected.len());
        assert!(outcome.headline.starts_with(&said), "{ranks}: {}", outcome.headline);
        let mark = functions.iter().find(|function| function.name == TRUE_MARK).expect("the mark");
        assert_eq!(mark.calls_counted(), expected.len() as u64 * ITERATIONS, "{ranks}");
        // The rank that came last may be one that nobody looked at.
        assert!(wait_states.iter().all(|state| state.state != WaitKind::Collective), "{ranks}: {wait_states:?}");
        assert!(warnings.iter().any(|warning| warning.contains("leave out --ranks")), "{ranks}: {warnings:?}");
        subject.assert_restored();
    }
    let nobody = measure_with(&mut crew, WindowId(9), &chosen("host:nowhere"), &Silent);
    assert!(matches!(&nobody, Err(Error::NoRank { ranks }) if ranks == "host:nowhere"), "{nobody:?}");
    crew.answers.iter().for_each(|(answer, bytes)| check_size(answer, *bytes));
    subject.assert_restored();
    subject.finish();
}

#[test]
fn commands_of_a_window_that_is_over_are_refused() {
    let _alone = alone();
    let subject = Subject::start(STEADY.0, STEADY.1);
    let cache = ImageCache::in_memory();
    let mut crew = Wires::new(&subject.job, &cache);
    let mut ask = |window: u64, request: Request| {
        let replies = crew.ask(&Command { window: WindowId(window), request });
        assert_eq!(replies.len(), 2);
        replies.into_iter().map(|reply| reply.result).collect::<Vec<Result<Answer, Error>>>()
    };
    let is_stale = |answers: &[Result<Answer, Error>], of: u64, than: Option<u64>| {
        let is = |answer: &Result<Answer, Error>| matches!(answer, Err(Error::Stale { asked, newest }) if *asked == of && *newest == than);
        answers.iter().all(is)
    };
    assert!(is_stale(&ask(4, Request::Furthest), 4, None), "none was open yet");
    let inserted = ask(4, Request::Insert(Box::new(options(named(), 3))));
    assert!(inserted.iter().all(|answer| matches!(answer, Ok(Answer::Inserted(_)))), "{inserted:?}");
    let arm = || Request::Arm { start: 1, end: Some(2) };
    assert!(is_stale(&ask(3, arm()), 3, Some(4)), "an older window");
    assert!(is_stale(&ask(4, Request::Insert(Box::new(options(named(), 3)))), 4, Some(4)), "the same one again");
    assert!(is_stale(&ask(5, Request::Remove), 5, Some(4)), "one that never began");
    // A newer one takes the place of one whose end was never heard.
    let inserted = ask(7, Request::Insert(Box::new(options(named(), 3))));
    assert!(inserted.iter().all(|answer| matches!(answer, Ok(Answer::Inserted(_)))), "{inserted:?}");
    assert!(is_stale(&ask(4, arm()), 4, Some(7)), "its commands come too late");
    let malformed = ask(7, Request::Number { offsets: Vec::new() });
    assert!(malformed.iter().all(Result::is_err), "offsets before any pass: {malformed:?}");
    assert!(ask(7, Request::Abandon).iter().all(|answer| matches!(answer, Ok(Answer::Done))));
    assert!(is_stale(&ask(7, Request::Poll { confident_percent: None }), 7, Some(7)), "it is over");
    subject.assert_restored();
    subject.finish();
}

/// All ranks recorded the iterations asked for from the same one on, which is returned.
fn same_start(report: &Report) -> u64 {
    assert!(report.window.valid, "{:?} {:?}", report.window, report.warnings);
    let first: BTreeMap<u32, u64> = report
        .details
        .iter()
        .filter(|detail| detail.function == TRUE_MARK)
        .map(|detail| (detail.rank, detail.arguments[0]))
        .collect();
    let start = first[&0];
    assert_eq!(first, (0..RANKS).map(|rank| (rank, start)).collect(), "first iteration by rank: {:?}", report.warnings);
    assert!(report.ranks.iter().all(|rank| rank.iterations == Some(ITERATIONS)), "{:?}", report.ranks);
    let sum = u64::from(RANKS) * (start..start + ITERATIONS).sum::<u64>();
    let mark = report.functions.iter().find(|function| function.name == TRUE_MARK).expect("the mark");
    assert_eq!((mark.calls_counted(), mark.argument_sum), (u64::from(RANKS) * ITERATIONS, Some(sum as i64)));
    start
}

/// Links, calls and bytes equal the wrapper's.
fn check_counts(report: &Report, truths: &[GroundTruth], first: u64) {
    let range = first as u32..(first + ITERATIONS) as u32;
    let mut links = Vec::new();
    let mut functions: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for truth in truths {
        let sum = truth.range(range.clone()).expect("these iterations");
        links.extend(sum.links.values().map(|link| Link {
            from: truth.rank,
            to: link.to,
            messages: link.messages,
            bytes: link.bytes,
            collective_messages: link.collective_messages,
            collective_bytes: link.collective_bytes,
        }));
        for function in sum.functions.values() {
            let total = functions.entry(function.name.clone()).or_default();
            *total = (total.0 + function.calls, total.1 + function.bytes);
        }
    }
    assert_eq!(report.links, links, "links (left: trimtab)");
    for (name, truly) in functions {
        let found = report.functions.iter().find(|function| function.name == name).expect("measured");
        assert_eq!((found.calls_counted(), found.bytes.unwrap_or(0)), truly, "{name} (calls, bytes)");
    }
}

/// An answer is as small as is promised: so many bytes for each rank, and some for the node.
fn check_size(answer: &Answer, bytes: usize) {
    const NODE_BYTES: usize = 512;
    let allowed = match answer {
        Answer::Inserted(inserted) => {
            let warnings: usize = inserted.warnings.iter().map(String::len).sum();
            (inserted.ranks.len() + inserted.left_alone.len()) * Answer::INSERTED_BYTES + warnings
        }
        Answer::Looked(looked) => {
            let ranks = looked.loops.iter().flatten();
            ranks.map(|rank| Answer::LOOKED_BYTES + rank.once.len() * Answer::ONCE_BYTES).sum()
        }
        Answer::Sampled(_) => Answer::SAMPLED_BYTES,
        Answer::Fitted(fitted) => fitted.iter().flatten().count() * Answer::FITTED_BYTES,
        Answer::Passed(passed) => {
            let of_rank = |events: usize| Answer::PASSED_BYTES + events * Answer::EVENT_BYTES;
            passed.ranks.iter().map(|rank| of_rank(rank.calls.events.len())).sum()
        }
        Answer::Checked(ranks) => {
            let rank = |marks: usize, calls: usize| {
                Answer::CHECKED_BYTES + marks * Answer::MARK_BYTES + calls * Answer::EVENT_BYTES
            };
            ranks.iter().map(|one| rank(one.iterations.len(), one.calls.events.len())).sum()
        }
        Answer::Read(recording) => {
            let warnings: usize = recording.warnings.iter().map(String::len).sum();
            let ranks = recording.ranks.iter().map(|rank| {
                Answer::READ_BYTES
                    + rank.marks.len() * Answer::ITERATION_BYTES
                    + rank.functions.len() * Answer::FUNCTION_BYTES
                    + rank.links.len() * Answer::LINK_BYTES
                    + rank.counters.len() * Answer::COUNTER_BYTES
                    + rank.details.len() * 100
            });
            ranks.sum::<usize>() + warnings + Answer::SHARE_BYTES + Answer::SITE_BYTES
        }
        Answer::Part(_) => 64 << 10,
        // One node's for all.
        Answer::Described(_) | Answer::Reference(_) => return,
        _ => 0,
    };
    assert!(bytes <= NODE_BYTES + allowed, "{bytes} bytes, {allowed} and {NODE_BYTES} allowed: {answer:?}");
}

/// Looks take a while on a busy machine, and somebody else may hold a rank behind `MPI_Init` meanwhile.
#[test]
fn a_rank_is_late_only_once_a_look_has_missed_it() {
    let _alone = alone();
    let subject = Subject::start(STEADY.0, STEADY.1);
    let (go, wait) = channel::<()>();
    let (mut looks, root) = (0, Pid(subject.running.pid()));
    // The second look lasts until it is told; the job was not there before.
    let tops = move || {
        looks += 1;
        let is_told = looks == 2 && wait.recv_timeout(LIMIT).is_ok();
        if is_told || looks > 2 { vec![root] } else { Vec::new() }
    };
    let first_call = FirstCall::begin_below(tops, LONG, |_| Ok(())).expect("it begins");
    first_call.wait_until_it_looks(LIMIT);
    for _ in 0..3 {
        let standing = first_call.standing(&subject.job);
        assert!(standing.missed.is_empty() && standing.coming.len() == subject.job.ranks.len(), "{standing:?}");
        std::thread::sleep(MEANWHILE);
    }
    go.send(()).expect("it listens");
    let mut standing = first_call.standing(&subject.job);
    while standing.missed.len() < subject.job.ranks.len() {
        std::thread::sleep(Duration::from_millis(1));
        standing = first_call.standing(&subject.job);
    }
    assert!(standing.missed.values().all(|reason| *reason == NoHold::SeenLate), "{standing:?}");
    drop(first_call);
    subject.assert_restored();
    subject.finish();
}
