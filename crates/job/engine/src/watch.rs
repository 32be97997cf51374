//! Every start of a program from now on, one window each.
//!
//! One thread listens (in `trimtab-watch`), the caller's says what has started, and each window has a thread of its own, so
//! that a job that starts meanwhile is not missed. The store and whoever is told belong to the caller's thread alone.
//!
//! Next: `trimtab-watch` for how starts are seen, `hold` for programs that wait behind `MPI_Init`.

use crate::Engine;
use crate::audited::Audit;
use crate::error::Error;
use crate::event::{Event, Listener, Stage};
use crate::hold::Holds;
use crate::store::KnownJob;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};
use trimtab_measure::{Options, Outcome, has_static_mpi};
use trimtab_track::Job;
use trimtab_types::report::Report;
use trimtab_types::{Pid, one_line};
use trimtab_watch::{Filter, Missed, Prepare, ProgramKind, Start, Watch};

/// Time between two looks whether all is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Windows at the same time; jobs that start meanwhile wait for their turn.
const WINDOWS_MAX: usize = 4;

/// The programs whose starts are watched for.
pub struct Starts {
    name: String,
    filter: Filter,
    /// Where held processes are written down.
    log: &'static dyn Audit,
    /// The end after so many starts.
    pub count: Option<u64>,
    /// The end after so long.
    pub limit: Option<Duration>,
    /// Each program stands still from its exec on until it is looked at, at most so long.
    pub still: Option<Duration>,
}

impl Starts {
    /// All of this file name or path, with * and ?, and of this checksum, until the listener wants the end.
    ///
    /// # Errors
    /// No program can be called so, or it is no checksum.
    pub fn of(name: &str, sha256: Option<&str>, log: &'static dyn Audit) -> Result<Self, Error> {
        let filter = Filter::new(name, sha256)?;
        Ok(Starts { name: name.to_owned(), filter, log, count: None, limit: None, still: None })
    }
}

/// The outcome of a start.
pub enum Came<'a> {
    /// It is not measured, for this reason.
    Refused(String),
    /// It ended before it could be measured.
    Ended,
    /// Its window failed.
    Failed {
        /// The job that was to be measured.
        job: &'a Job,
        /// How long it waited for other windows to end, if it did.
        turn_s: Option<f64>,
        /// Why.
        reason: String,
    },
    /// It was measured.
    Measured {
        /// The job that was measured.
        job: &'a Job,
        /// Its report.
        report: &'a Report,
        /// How long it waited for other windows to end, if it did.
        turn_s: Option<f64>,
        /// Why the store does not keep it.
        kept: Result<(), Error>,
    },
}

/// The sums at the end.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// Starts that were seen.
    pub seen: u64,
    /// Those that may have been missed.
    pub missed: Missed,
}

/// Hears of each start what came of it; an error ends the watch.
pub type Tell<'a, E> = &'a mut dyn FnMut(&Start, Came<'_>) -> Result<(), E>;

impl Engine<'_> {
    /// Measures one window of every start until the end that was asked for, or the listener's. Where the options ask for
    /// first calls, ranks wait behind `MPI_Init` for their windows.
    ///
    /// # Errors
    /// Starts can't be seen; and those of whoever is told.
    pub fn watch<E: From<Error> + Send>(
        &self,
        starts: Starts,
        options: &Options,
        tell: Tell<'_, E>,
    ) -> Result<Watched, E> {
        let Starts { name, filter, log, count, limit, still } = starts;
        let watch = trimtab_watch::Options { filter, hold: still, by_scans: false };
        let watch = Watch::begin(watch).map_err(Error::from)?;
        self.listener.hear(&Event::Stage(Stage::Watching { name, source: watch.source().to_owned() }));
        let (sender, finished) = channel();
        let (ending, holds) = (AtomicBool::new(false), Arc::new(Holds::new(log)));
        let work = Work { engine: *self, count, limit, options, ending: &ending, sender, holds: holds.clone() };
        let (waiting, expected) = (VecDeque::new(), BTreeSet::new());
        let queue = Queue { engine: *self, tell, finished, active: 0, waiting, expected, holds };
        std::thread::scope(|scope| work.carry_out(scope, watch, queue))
    }
}

/// The state that the windows share.
struct Work<'a> {
    engine: Engine<'a>,
    count: Option<u64>,
    limit: Option<Duration>,
    options: &'a Options,
    /// Windows end as soon as they can.
    ending: &'a AtomicBool,
    sender: Sender<Finished>,
    /// Programs that wait behind `MPI_Init` for their windows.
    holds: Arc<Holds>,
}

/// The state that only the caller's thread touches.
struct Queue<'a, E> {
    engine: Engine<'a>,
    tell: Tell<'a, E>,
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
    outcome: Result<Outcome, Error>,
}

impl<'scope> Work<'scope> {
    /// Until enough has started, the time is over, or the listener wants the end.
    fn carry_out<'env, E: From<Error>>(
        &'scope self,
        scope: &'scope Scope<'scope, 'env>,
        mut watch: Watch,
        mut queue: Queue<'_, E>,
    ) -> Result<Watched, E> {
        let begin = Instant::now();
        let (cache, whole_s, holds) = (self.engine.cache.clone(), self.options.first_call_s, self.holds.clone());
        let prepare: Prepare = Arc::new(move |pid: Pid, _program: &Path| {
            // It stands still, so somebody looks at it before it begins MPI.
            if let Some(seconds) = whole_s {
                return holds.begin(pid, seconds);
            }
            let _read_again_later = cache.load_program(pid);
        });
        let mut seen = 0;
        while self.count.is_none_or(|count| seen < count) {
            if self.engine.listener.is_interrupted() || self.limit.is_some_and(|limit| begin.elapsed() >= limit) {
                self.ending.store(true, Ordering::Relaxed);
                break;
            }
            let rest = self.limit.map_or(LOOK, |limit| limit.saturating_sub(begin.elapsed()).min(LOOK));
            match watch.next(rest, &has_static_mpi, &prepare) {
                Ok(starts) => {
                    for start in starts.into_iter().take(self.room(seen)) {
                        seen += 1;
                        queue.take(start)?;
                    }
                }
                // One file that can't be read is no reason to miss the others.
                Err(error @ trimtab_watch::Error::Read { .. }) => self.engine.warn(one_line(&error)),
                Err(error) => return Err(Error::from(error).into()),
            }
            queue.settle()?;
            self.begin_windows(scope, &mut queue);
        }
        let missed = watch.missed();
        drop(watch);
        queue.holds.end_others(&queue.expected);
        self.finish(scope, &mut queue)?;
        Ok(Watched { seen, missed })
    }

    /// How many more starts are wanted.
    fn room(&self, seen: u64) -> usize {
        self.count.map_or(usize::MAX, |count| (count - seen) as usize)
    }

    /// Waits for the windows that are open, and for those that wait unless all is to end.
    fn finish<'env, E: From<Error>>(
        &'scope self,
        scope: &'scope Scope<'scope, 'env>,
        queue: &mut Queue<'_, E>,
    ) -> Result<(), E> {
        loop {
            if self.engine.listener.is_interrupted() || self.ending.load(Ordering::Relaxed) {
                self.ending.store(true, Ordering::Relaxed);
                for Queued { start, job, .. } in queue.waiting.drain(..) {
                    job.ranks.iter().for_each(|rank| queue.holds.end(rank.pid));
                    (queue.tell)(&start, Came::Refused("the watch ended before its turn came".to_owned()))?;
                }
            }
            self.begin_windows(scope, queue);
            if queue.active == 0 {
                return Ok(());
            }
            std::thread::sleep(LOOK / 10);
            queue.settle()?;
        }
    }

    fn begin_windows<'env, E>(&'scope self, scope: &'scope Scope<'scope, 'env>, queue: &mut Queue<'_, E>) {
        while queue.active < WINDOWS_MAX
            && let Some(queued) = queue.waiting.pop_front()
        {
            queue.active += 1;
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
                Err(source) => {
                    let outcome = Err(Error::NoThread { source });
                    let _told = self.sender.send(Finished { start, job, turn_s, outcome });
                }
            }
        }
        for queued in queue.waiting.iter_mut().filter(|queued| !queued.waits_for_turn) {
            queued.waits_for_turn = true;
            self.engine.warn(turn_words(&queued.start, self.options.first_call_s));
        }
    }

    fn window(&self, job: &Job) -> Result<Outcome, Error> {
        // The command, for this job, begins when it was found.
        let options = Options { command_ns: trimtab_os::monotonic_ns(), ..self.options.clone() };
        let quiet = Quiet { listener: self.engine.listener, ending: self.ending };
        if let Some(seconds) = self.options.first_call_s {
            let pids = job.ranks.iter().map(|rank| rank.pid).collect();
            self.holds.settle(&pids, Duration::from_secs(seconds), &|| quiet.is_interrupted());
        }
        Engine { listener: &quiet, ..self.engine }.measure(job, &options, true)
    }
}

impl<E> Queue<'_, E> {
    /// Says what a start is, or puts it in the queue of those to be measured.
    fn take(&mut self, start: Start) -> Result<(), E> {
        let Start { number, processes, what } = start;
        let pids: Vec<Pid> = processes.iter().map(|process| process.pid).collect();
        if !matches!(what, ProgramKind::Job(_)) {
            pids.into_iter().for_each(|pid| self.holds.end(pid));
        }
        let start = |what| Start { number, processes, what };
        match what {
            ProgramKind::Job(job) => {
                self.expected.extend(job.ranks.iter().map(|rank| rank.pid));
                let (start, since) = (start(ProgramKind::Ended), Instant::now());
                self.waiting.push_back(Queued { start, job: *job, since, waits_for_turn: false });
                Ok(())
            }
            ProgramKind::NotMpi => {
                (self.tell)(&start(ProgramKind::NotMpi), Came::Refused("it is no MPI program".to_owned()))
            }
            ProgramKind::Ended => (self.tell)(&start(ProgramKind::Ended), Came::Ended),
            ProgramKind::Refused(error) => (self.tell)(&start(ProgramKind::NotMpi), Came::Refused(one_line(&error))),
        }
    }

    /// Keeps and tells windows that are over.
    fn settle(&mut self) -> Result<(), E> {
        while let Ok(Finished { start, job, turn_s, outcome }) = self.finished.try_recv() {
            self.active -= 1;
            let pids = start.processes.iter().map(|process| process.pid).chain(job.ranks.iter().map(|rank| rank.pid));
            for pid in pids {
                self.expected.remove(&pid);
                self.holds.end(pid);
            }
            let job = &job;
            match outcome {
                Ok(Outcome { mut report, .. }) => {
                    report.warnings.extend(turn_s.map(turn_warning));
                    let kept = self.engine.keep(&KnownJob::here(job), &mut report);
                    (self.tell)(&start, Came::Measured { job, report: &report, turn_s, kept })?;
                }
                Err(error) => (self.tell)(&start, Came::Failed { job, turn_s, reason: one_line(&error) })?,
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

/// Hears nothing, and ends when all is to end.
struct Quiet<'a> {
    listener: &'a dyn Listener,
    ending: &'a AtomicBool,
}

impl Listener for Quiet<'_> {
    fn hear(&self, _event: &Event) {}

    fn is_interrupted(&self) -> bool {
        self.listener.is_interrupted() || self.ending.load(Ordering::Relaxed)
    }
}
