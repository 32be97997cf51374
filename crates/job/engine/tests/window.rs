//! A window through the engine: what goes on is told, each change stands in the log, the window is in the store, and the
//! program is as before. It ends early if the listener wants that. Waiting puts nothing in, and loops leave nothing.
//!
//! Next: `examples/window.rs`, the same for people.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trimtab_engine::{
    Audit, BoxError, Change, Changed, End, Engine, Error, Event, Found, KnownJob, Launched, Listener,
};
use trimtab_engine::{LoopsWanted, Next, Partial, Spread, Stage, Store, Target, Wait, Waiting, Window, WindowStage};
use trimtab_engine::{call, usual_options};
use trimtab_measure::{Length, Options};
use trimtab_session::ImageCache;
use trimtab_specimens::{Launch, Mpi, Running, TextSnapshot, Variant, at_work, build, threads_running};
use trimtab_track::Far;
use trimtab_types::Pid;
use trimtab_types::report::{LoopPlace, Report};

/// Longer than anything here takes on a loaded machine; no test measures against it.
const LIMIT: Duration = Duration::from_secs(180);
const RANKS: u32 = 2;
/// Iterations of two milliseconds at least: a second, in which the leader looks many times.
const ITERATIONS: u64 = 400;
/// Ranks of which nothing has changed for so long have begun their work.
const SETTLED: Duration = Duration::from_millis(300);
/// A rank that has computed so long is surely past its loader, in clock ticks of 10 ms.
const STARTED_TICKS: u64 = 12;
/// A rate told while the window goes is that of a part of it.
const RATE_FACTOR_MAX: f64 = 2.0;
/// Shares of communication: of the part that was looked at, and of the whole.
const SHARE_APART_MAX: f64 = 0.25;

/// Held for a whole test: jobs run one at a time, the machine may have two processors.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes down what it hears and is asked.
#[derive(Clone, Default)]
struct Written {
    events: Arc<Mutex<Vec<Event>>>,
    changes: Arc<Mutex<Vec<String>>>,
    kept: Arc<Mutex<Vec<KnownJob>>>,
    /// Ends the window at its first values.
    is_impatient: bool,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener for Written {
    fn hear(&self, event: &Event) {
        locked(&self.events).push(event.clone());
    }

    fn is_interrupted(&self) -> bool {
        self.is_impatient && locked(&self.events).iter().any(|event| matches!(event, Event::Partial(_)))
    }
}

impl Audit for Written {
    fn begin(&self, command: &str, changed: Changed<'_>) -> Result<Box<dyn Change>, BoxError> {
        locked(&self.changes).push(format!("{command}: {changed}"));
        Ok(Box::new(self.clone()))
    }
}

impl Change for Written {
    fn end(&mut self, end: &End) {
        locked(&self.changes).push(format!("{end:?}"));
    }
}

impl Store for Written {
    fn known_loop(&self, _key: &str) -> Result<Option<LoopPlace>, BoxError> {
        Ok(None)
    }

    fn keep(&self, job: &KnownJob, report: &mut Report) -> Result<(), BoxError> {
        locked(&self.kept).push(job.clone());
        report.job.id = "kept-1".to_owned();
        Ok(())
    }
}

/// Ranks at work, and their code before anything was done.
struct Subject {
    folder: TempDir,
    running: Running,
    before: Vec<(i32, TextSnapshot, usize)>,
}

/// Text and threads of ranks, once they do not change any more: MPI loads and unloads libraries and starts threads while it begins.
fn settled(pids: &[i32]) -> Vec<(i32, TextSnapshot, usize)> {
    let one =
        |pid: &i32| (*pid, TextSnapshot::of(*pid).expect("its text"), threads_running(*pid).expect("its threads"));
    let all = || -> Vec<(i32, TextSnapshot, usize)> { pids.iter().map(one).collect() };
    let (deadline, mut before) = (Instant::now() + LIMIT, all());
    loop {
        std::thread::sleep(SETTLED);
        let now = all();
        if now == before {
            return now;
        }
        assert!(Instant::now() < deadline, "the ranks do not settle");
        before = now;
    }
}

impl Subject {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder of its own");
        let path = build("steady", Some(Mpi::OpenMpi), &Variant::default()).expect("the specimen is built");
        let arguments = ["--sleep-us", "2000", "--work", "20000", "--until"].map(OsStr::new);
        let launch = Launch::mpi(Mpi::OpenMpi, RANKS, &path).args(arguments);
        let mut running = launch.args([folder.path().join("end")]).start().expect("the specimen starts");
        let pids = at_work(&mut running, STARTED_TICKS);
        Subject { before: settled(&pids), running, folder }
    }

    /// Every byte of code is as it was, every thread runs, and the program comes to its end and its right answer.
    fn finish(self) {
        for (pid, text, threads) in &self.before {
            assert_eq!(text.difference_now().expect("its text"), None, "process {pid}");
            assert_eq!(threads_running(*pid).expect("its threads"), *threads, "process {pid}");
        }
        std::fs::write(self.folder.path().join("end"), "").expect("a file");
        let finished = self.running.wait(LIMIT).expect("it ends");
        assert!(finished.right_answer().is_some(), "{finished:?}");
    }
}

/// The whole job.
fn found(engine: &Engine<'_>, subject: &Subject) -> Found {
    engine.find(Target::Process(Pid(subject.running.pid())), None).expect("the job is found")
}

fn window() -> Window {
    let options = Options { length: Length::Iterations(ITERATIONS), max_seconds: 100.0, ..usual_options("example") };
    Window::new(options)
}

#[test]
fn a_window_is_told_logged_kept_and_leaves_no_trace() {
    let _alone = alone();
    let (subject, written, cache) = (Subject::start(), Written::default(), ImageCache::in_memory());
    let engine = Engine { listener: &written, audit: &written, cache: &cache, store: Some(&written), nodes: None };
    let measured = engine.window(&found(&engine, &subject), &window()).expect("a window");
    assert!(measured.kept.is_ok() && measured.ends.told().is_empty());
    let pids: Vec<Pid> = subject.before.iter().map(|(pid, ..)| Pid(*pid)).collect();
    subject.finish();

    assert_eq!(measured.report.ranks.len(), RANKS as usize);
    assert_eq!(measured.report.job.id, "kept-1", "the store names it");
    let kept: Vec<Pid> = locked(&written.kept)[0].processes.iter().map(|process| process.pid).collect();
    assert!(kept.len() == pids.len() && kept.iter().all(|pid| pids.contains(pid)), "{kept:?} {pids:?}");
    let changes = locked(&written.changes);
    assert!(changes[0].starts_with("example: ranks ") && changes[1] == "Restored", "{changes:?}");
    check_events(&locked(&written.events), &measured.report);
}

/// Stages in their order, values of a window that grow, and nothing behind the end.
fn check_events(events: &[Event], report: &Report) {
    let of = |wanted: &WindowStage| Event::Stage(Stage::Window(wanted.clone()));
    let stage = |wanted: &WindowStage| events.iter().position(|event| *event == of(wanted));
    let (planning, removing) = (stage(&WindowStage::Planning), stage(&WindowStage::Removing));
    assert!(planning.is_some() && planning < removing, "{events:?}");
    assert_eq!(events.iter().position(|event| *event == Event::Done), Some(events.len() - 1));
    let values = events.iter().filter_map(|event| match event {
        Event::Partial(Partial::Window(so_far)) => Some(so_far),
        _ => None,
    });
    let values: Vec<_> = values.collect();
    let iterations: Vec<u64> = values.iter().filter_map(|so_far| so_far.iterations).collect();
    assert!(iterations.is_sorted() && iterations.len() == values.len(), "{values:?}");
    assert!(values.iter().all(|so_far| so_far.wanted == Some(ITERATIONS)), "{values:?}");
    let rate = values.iter().rev().find_map(|so_far| so_far.iterations_per_s).expect("it was looked at twice");
    let true_rate = report.iterations_per_s.expect("its iterations are counted");
    assert!((1.0 / RATE_FACTOR_MAX..RATE_FACTOR_MAX).contains(&(rate / true_rate)), "{rate} of {true_rate}");
    let last = values.iter().rev().find(|so_far| so_far.comm_share.is_some()).expect("communication is measured");
    let (share, least) = (last.comm_share.unwrap_or(0.0), last.least_comm.expect("a rank"));
    let true_share = report.communication_fraction.as_ref().expect("communication is measured").mean;
    assert!((share - true_share).abs() < SHARE_APART_MAX, "{share} so far, {true_share} in the report");
    assert!(least.share <= share && least.rank < RANKS, "{least:?}");
}

#[test]
fn whoever_listens_may_end_it() {
    let _alone = alone();
    let (subject, cache) = (Subject::start(), ImageCache::in_memory());
    let written = Written { is_impatient: true, ..Written::default() };
    let engine = Engine { listener: &written, audit: &written, cache: &cache, store: None, nodes: None };
    let endless = Options { length: Length::Iterations(1_000_000), ..window().options };
    let measured =
        engine.window(&found(&engine, &subject), &Window { options: endless, ..window() }).expect("a window");
    subject.finish();
    assert_eq!(measured.report.window.ended_by.word(), "interrupted");
    assert_eq!(locked(&written.changes).get(1).map(String::as_str), Some("Restored"));
}

#[test]
fn events_are_waited_for_beside_a_job_and_nothing_is_in_it() {
    let _alone = alone();
    let (subject, written, cache) = (Subject::start(), Written::default(), ImageCache::in_memory());
    let engine = Engine { listener: &written, audit: &written, cache: &cache, store: Some(&written), nodes: None };
    let (found, signal) = (found(&engine, &subject), AtomicBool::new(false));
    let (whens, options) = (["after=1s".parse().expect("an event")], window().options);
    let wait = Wait { whens: &whens, command: "example", options: &options, signal: &signal };
    let series = |waiting: &mut Waiting<'_>| -> Result<Vec<Next>, Error> {
        let after = waiting.next_event()?;
        signal.store(true, Ordering::Relaxed);
        let signalled = waiting.next_event()?;
        let name = waiting.name();
        let caller = std::thread::spawn(move || {
            while call(&[&name], "now").expect("there is somebody").fired == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let called = waiting.next_event()?;
        caller.join().expect("it was heard");
        subject.finish();
        Ok(vec![after, signalled, called, waiting.next_event()?])
    };
    let came = engine.wait(&found, wait, series).expect("all is heard");
    let shown = came.iter().map(|next| match next {
        Next::Window(Some(event)) => format!("{} {}", event.kind, event.value),
        other => format!("{other:?}"),
    });
    assert_eq!(shown.collect::<Vec<_>>(), ["after ", "signal ", "call now", "Ended"]);
    let stage = Event::Stage(Stage::Waiting { events: "after=1s".to_owned() });
    let told = locked(&written.events).iter().filter(|event| **event == stage).count();
    assert_eq!((told, locked(&written.changes).len()), (4, 0));
}

#[test]
fn loops_are_found_and_no_trace_is_left() {
    let _alone = alone();
    let (subject, written, cache) = (Subject::start(), Written::default(), ImageCache::in_memory());
    let engine = Engine { listener: &written, audit: &written, cache: &cache, store: None, nodes: None };
    let wanted = LoopsWanted { only_process: false, samples: 20, max_seconds: 60.0, seccomp_ok: false };
    let loops = engine.loops(Pid(subject.before[0].0), &wanted).expect("loops");
    subject.finish();
    assert!(loops.choice.is_some() && loops.targets.len() == RANKS as usize, "{loops:?}");
    assert_eq!(loops.looks, u64::from(wanted.samples * RANKS));
    let (changes, events) = (locked(&written.changes), locked(&written.events));
    assert!(changes[0].starts_with("loops: processes ") && changes[1] == "Restored", "{changes:?}");
    assert!(events.contains(&Event::Stage(Stage::Looking { look: 20, of: 20 })), "{events:?}");
    assert_eq!(events.last(), Some(&Event::Done));
}

#[test]
fn a_job_on_other_nodes_needs_a_way_to_them() {
    let far = vec![Far { host: "192.0.2.1".to_owned(), words: vec!["ssh".to_owned()], uid: 0 }];
    let launch = trimtab_track::Launch {
        launcher: Pid(7),
        command: "mpirun".to_owned(),
        start_time_ticks: 11,
        uid: 0,
        far,
        mark: Some("head:1".to_owned()),
    };
    let spread = Spread::Launch(Launched::from_launch(launch).expect("it has a mark"));
    let (written, cache) = (Written::default(), ImageCache::in_memory());
    let engine = Engine { listener: &written, audit: &written, cache: &cache, store: None, nodes: None };
    let refused = engine.window(&Found::Spread(Box::new(spread)), &window()).map(drop);
    assert!(matches!(refused, Err(Error::NoWay { .. })), "{refused:?}");
    assert!(locked(&written.changes).is_empty());
}
