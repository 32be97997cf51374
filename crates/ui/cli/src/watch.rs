//! `watch`: every start of a program from now on, one window each.
//!
//! One thread listens (in `trimtab-watch`), this one says what has started, and each window has a thread of its own, so
//! that a job that starts meanwhile is not missed. The store and the output belong to this thread alone.
//!
//! Next: `watch_lines` for what is printed, `window` for one window.

use crate::arguments::{WatchOptions, WindowOptions};
use crate::engine::{Kept, Parts};
use crate::exit_code::{DONE, PARTIAL};
use crate::hold::{self, Holds};
use crate::progress::Terminal;
use crate::watch_lines::{Lines, Measured};
use crate::{output, window};
use anyhow::{Context, bail};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};
use trimtab_engine::{Event, KnownJob, Listener, Store};
use trimtab_measure::{Options, Outcome, has_static_mpi};
use trimtab_track::Job;
use trimtab_types::Pid;
use trimtab_watch::{Error, Filter, Prepare, Start, Watch, What};

/// Time between two looks whether the user wants to end.
const LOOK: Duration = Duration::from_millis(100);
/// A program whose whole run is wanted stands still from its exec on until it is looked at, at most so long.
const STILL: Duration = Duration::from_millis(200);
/// Windows at the same time; jobs that start meanwhile wait for their turn.
const WINDOWS_MAX: usize = 4;

/// `trimtab watch --name GLOB`.
pub fn run(
    wanted: &WatchOptions,
    options: &WindowOptions,
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    if options.dry_run || options.html.is_some() {
        bail!("watch prints a line per start; use `trimtab attach` with --dry-run, `trimtab report` with --html");
    }
    let filter = Filter::new(&wanted.name, wanted.sha256.as_deref())?;
    let kept = Kept::open(store.as_deref())?;
    window::check_files(options)?;
    let terminal = Terminal::new()?;
    let longest_s = wanted.hold.map_or(hold::HOLD_SECONDS, |hold_ms| hold_ms.div_ceil(1000));
    let whole_s = (hold::is_whole_run(options) && !wanted.no_hold).then_some(longest_s);
    let options = &WindowOptions { first_call_s: whole_s, ..options.clone() };
    let hold = wanted.hold.map(Duration::from_millis).or(whole_s.map(|_| STILL));
    let watch = Watch::begin(trimtab_watch::Options { filter, hold, by_scans: false })?;
    eprintln!("trimtab: watching for {} by {}", wanted.name, watch.source());
    let (sender, finished) = channel();
    let ending = AtomicBool::new(false);
    let work = Work {
        wanted,
        options: window::window_options(options, "watch", command_ns)?,
        terminal: &terminal,
        ending: &ending,
        parts: Arc::new(Parts::of(None)),
        sender,
        holds: Arc::default(),
    };
    let lines = Lines::new(options.json.as_deref())?;
    let desk = Desk {
        kept,
        lines,
        finished,
        active: 0,
        waiting: VecDeque::new(),
        expected: BTreeSet::new(),
        holds: work.holds.clone(),
    };
    let seen = std::thread::scope(|scope| work.carry_out(scope, watch, desk))?;
    Ok(if seen == 0 { PARTIAL } else { DONE })
}

/// The state that the windows share.
struct Work<'a> {
    wanted: &'a WatchOptions,
    options: Options,
    terminal: &'a Terminal,
    /// Windows end as soon as they can.
    ending: &'a AtomicBool,
    parts: Arc<Parts>,
    sender: Sender<Finished>,
    /// Programs that wait behind `MPI_Init` for their windows.
    holds: Arc<Holds>,
}

/// The state that only the main thread touches.
struct Desk {
    kept: Kept,
    lines: Lines,
    finished: Receiver<Finished>,
    active: usize,
    waiting: VecDeque<Queued>,
    /// Ranks whose windows are open or wait.
    expected: BTreeSet<Pid>,
    /// Those that get no window are let go.
    holds: Arc<Holds>,
}

/// A job whose window is not begun yet.
struct Queued {
    start: Start,
    job: Job,
    since: Instant,
    /// All windows that there may be were open when it came.
    waits_for_turn: bool,
}

/// A window that is over.
struct Finished {
    start: Start,
    job: Job,
    /// How long the job waited until fewer windows were open; `None`: it did not have to.
    turn_s: Option<f64>,
    outcome: anyhow::Result<Outcome>,
}

impl<'scope> Work<'scope> {
    /// Until enough has started, the time is over, or the user ends it; how many have started.
    fn carry_out<'env>(
        &'scope self,
        scope: &'scope Scope<'scope, 'env>,
        mut watch: Watch,
        mut desk: Desk,
    ) -> anyhow::Result<u64> {
        let begin = Instant::now();
        let limit = self.wanted.seconds.map(Duration::from_secs_f64);
        let (parts, whole_s, holds) = (self.parts.clone(), self.options.first_call_s, self.holds.clone());
        let prepare: Prepare = Arc::new(move |pid: Pid, _program: &Path| {
            // It stands still, so somebody looks at it before it begins MPI.
            if let Some(seconds) = whole_s {
                return holds.begin(pid, seconds);
            }
            let _read_again_later = parts.cache.load_program(pid);
        });
        let mut seen = 0;
        while self.wanted.count.is_none_or(|count| seen < count) {
            if self.terminal.is_interrupted() || limit.is_some_and(|limit| begin.elapsed() >= limit) {
                self.ending.store(true, Ordering::Relaxed);
                break;
            }
            let rest = limit.map_or(LOOK, |limit| limit.saturating_sub(begin.elapsed()).min(LOOK));
            match watch.next(rest, &has_static_mpi, &prepare) {
                Ok(starts) => {
                    for start in starts.into_iter().take(self.room(seen)) {
                        seen += 1;
                        desk.take(start)?;
                    }
                }
                // One file that can't be read is no reason to miss the others.
                Err(error @ Error::Read { .. }) => eprintln!("trimtab: {}", output::chain(&error.into())),
                Err(error) => return Err(error.into()),
            }
            desk.settle()?;
            self.begin_windows(scope, &mut desk);
        }
        let missed = watch.missed();
        drop(watch);
        desk.holds.end_others(&desk.expected);
        self.finish(scope, &mut desk)?;
        eprintln!("{}", desk.lines.summary(seen, missed));
        Ok(seen)
    }

    /// How many more starts are wanted.
    fn room(&self, seen: u64) -> usize {
        self.wanted.count.map_or(usize::MAX, |count| (count - seen) as usize)
    }

    /// Waits for the windows that are open, and for those that wait unless all is to end.
    fn finish<'env>(&'scope self, scope: &'scope Scope<'scope, 'env>, desk: &mut Desk) -> anyhow::Result<()> {
        loop {
            if self.terminal.is_interrupted() || self.ending.load(Ordering::Relaxed) {
                self.ending.store(true, Ordering::Relaxed);
                for Queued { start, job, .. } in desk.waiting.drain(..) {
                    job.ranks.iter().for_each(|rank| desk.holds.end(rank.pid));
                    desk.lines.refused(&start, "the watch ended before its turn came")?;
                }
            }
            self.begin_windows(scope, desk);
            if desk.active == 0 {
                return Ok(());
            }
            std::thread::sleep(LOOK / 10);
            desk.settle()?;
        }
    }

    fn begin_windows<'env>(&'scope self, scope: &'scope Scope<'scope, 'env>, desk: &mut Desk) {
        while desk.active < WINDOWS_MAX
            && let Some(queued) = desk.waiting.pop_front()
        {
            desk.active += 1;
            let turn_s = queued.waits_for_turn.then(|| queued.since.elapsed().as_secs_f64());
            let (start, job) = (queued.start, queued.job);
            let sender = self.sender.clone();
            let (hand, handed) = channel::<(Start, Job)>();
            let window = move || {
                let Ok((start, job)) = handed.recv() else { return };
                let outcome = self.window(&job);
                // Nobody listens only when all has failed.
                let _told = sender.send(Finished { start, job, turn_s, outcome });
            };
            match std::thread::Builder::new().name("window".to_owned()).spawn_scoped(scope, window) {
                Ok(_) => drop(hand.send((start, job))),
                Err(error) => {
                    let outcome = Err(anyhow::Error::new(error).context("no thread can be begun to measure it"));
                    let _told = self.sender.send(Finished { start, job, turn_s, outcome });
                }
            }
        }
        for queued in desk.waiting.iter_mut().filter(|queued| !queued.waits_for_turn) {
            queued.waits_for_turn = true;
            eprintln!("trimtab: {}", turn_words(&queued.start, self.options.first_call_s));
        }
    }

    fn window(&self, job: &Job) -> anyhow::Result<Outcome> {
        // The command, for this job, begins when it was found.
        let options = Options { command_ns: trimtab_os::monotonic_ns(), ..self.options.clone() };
        let quiet = Quiet { terminal: self.terminal, ending: self.ending };
        if let Some(seconds) = self.options.first_call_s {
            let pids = job.ranks.iter().map(|rank| rank.pid).collect();
            self.holds.settle(&pids, Duration::from_secs(seconds), &|| quiet.is_interrupted());
        }
        Ok(self.parts.engine(&quiet, None).measure(job, &options, true)?)
    }
}

impl Desk {
    /// Says what a start is, or puts it in the queue of those to be measured.
    fn take(&mut self, start: Start) -> anyhow::Result<()> {
        let Start { number, processes, what } = start;
        let pids: Vec<Pid> = processes.iter().map(|process| process.pid).collect();
        if !matches!(what, What::Job(_)) {
            pids.into_iter().for_each(|pid| self.holds.end(pid));
        }
        let told = |what| Start { number, processes, what };
        match what {
            What::Job(job) => {
                self.expected.extend(job.ranks.iter().map(|rank| rank.pid));
                let (start, since) = (told(What::Ended), Instant::now());
                self.waiting.push_back(Queued { start, job: *job, since, waits_for_turn: false });
            }
            What::NotMpi => self.lines.refused(&told(What::NotMpi), "it is no MPI program")?,
            What::Ended => self.lines.ended(&told(What::Ended))?,
            What::Refused(error) => self.lines.refused(&told(What::NotMpi), &output::chain(&error.into()))?,
        }
        Ok(())
    }

    /// Keeps and tells windows that are over.
    fn settle(&mut self) -> anyhow::Result<()> {
        while let Ok(Finished { start, job, turn_s, outcome }) = self.finished.try_recv() {
            self.active -= 1;
            let pids = start.processes.iter().map(|process| process.pid).chain(job.ranks.iter().map(|rank| rank.pid));
            for pid in pids {
                self.expected.remove(&pid);
                self.holds.end(pid);
            }
            match outcome {
                Ok(Outcome { mut report, .. }) => {
                    report.warnings.extend(turn_s.map(turn_warning));
                    let kept = self.kept.keep(&KnownJob::here(&job), &mut report).map_err(trimtab_engine::Error::Store);
                    self.lines.measured(&start, &Measured { job: &job, report: &report, turn_s })?;
                    kept.context("the window was measured, but could not be stored")?;
                }
                Err(error) => self.lines.failed(&start, &job, turn_s, &output::chain(&error))?,
            }
        }
        Ok(())
    }
}

/// Said of a start that has to wait until fewer windows are open.
fn turn_words(start: &Start, hold_s: Option<u64>) -> String {
    let held = hold_s.map_or_else(String::new, |seconds| {
        format!("; its ranks wait behind MPI_Init for {seconds} s at most, and go on unmeasured then")
    });
    format!(
        "#{} waits for its turn: {WINDOWS_MAX} windows are open, and there are never more at once{held}",
        start.number
    )
}

fn turn_warning(turn_s: f64) -> String {
    format!(
        "the window began {turn_s:.1} s later than it might have: {WINDOWS_MAX} other windows of this watch were open, and there are \
         never more at once"
    )
}

/// Shows nothing, and ends when all is to end.
struct Quiet<'a> {
    terminal: &'a Terminal,
    ending: &'a AtomicBool,
}

impl Listener for Quiet<'_> {
    fn hear(&self, _event: &Event) {}

    fn is_interrupted(&self) -> bool {
        self.terminal.is_interrupted() || self.ending.load(Ordering::Relaxed)
    }
}
