//! Which programs start? Every start of a wanted program from now on, as the job that it is.
//!
//! Three parts, each with one question: `sight` (which programs start, from process events), `filter` (are they wanted),
//! `follow` (what job are they). Nothing is touched: a process is only looked at, unless it is to be held from its exec
//! on, which the user must ask for and which always ends by itself.
//!
//! Next: [`Watch`].
#![forbid(unsafe_code)]

mod error;
mod filter;
mod follow;
mod hold;
mod sight;

pub use error::Error;
pub use filter::{FileState, Filter, Names, checksum};
pub use follow::{ProgramKind, Start};
pub use hold::{Held, Holding};
pub use sight::{Missed, Sighting};

use follow::Follow;
use sight::Sights;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trimtab_os::{ExecFiles, ProcessEvents, monotonic_ns, take_precedence};
use trimtab_track::{ProcFs, StaticMpi};

/// How long the watching thread waits before it looks whether it is to end.
const LISTEN: Duration = Duration::from_millis(100);
/// Programs that were seen and not yet followed. Beyond that the watching thread waits, and the kernel keeps its events.
const QUEUE_MAX: usize = 10_000;

/// How to watch.
#[derive(Debug)]
pub struct Options {
    /// The programs that are wanted.
    pub filter: Filter,
    /// Hold each program from its exec on until it was prepared, for at most this long.
    pub hold: Option<Duration>,
    /// Look at `/proc` again and again even where the kernel would tell; for tests and comparisons.
    pub by_scans: bool,
}

/// Work on a program while it is held, such as reading its symbols.
pub type Prepare = Arc<dyn Fn(trimtab_types::Pid, &Path) + Send + Sync>;

/// Programs that start from now on.
#[derive(Debug)]
pub struct Watch {
    source: String,
    filter: Filter,
    seen: Receiver<std::io::Result<Sighting>>,
    follow: Follow,
    missed: Arc<Mutex<Missed>>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to watch.
    ///
    /// # Errors
    /// There can't be another thread.
    pub fn begin(options: Options) -> Result<Watch, Error> {
        let events = match options.by_scans {
            true => ProcessEvents::by_scans("as asked for".to_owned()),
            false => ProcessEvents::open(),
        };
        let notes = if options.by_scans { None } else { ExecFiles::open().ok() };
        let source = match (&notes, events.source()) {
            (Some(_), source) => format!("{source}, with notes of executed files (fanotify)"),
            (None, source) => source.to_string(),
        };
        let (missed, end) = (Arc::new(Mutex::new(Missed::default())), Arc::new(AtomicBool::new(false)));
        let (sender, seen) = sync_channel(QUEUE_MAX);
        let listener = Listener {
            sights: Sights::begin(events, notes, options.hold),
            names: options.filter.names().clone(),
            sender,
            missed: missed.clone(),
            end: end.clone(),
        };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || listener.listen());
        let thread = Some(thread.map_err(|source| Error::Thread { source })?);
        Ok(Watch { source, filter: options.filter, seen, follow: Follow::default(), missed, end, thread })
    }

    /// Where events come from, in words.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The starts that were missed so far.
    pub fn missed(&self) -> Missed {
        *self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts that are known now; waits for one at most that long. `prepare` is called for each program that is held, and
    /// must be able to go on when it is let go.
    ///
    /// # Errors
    /// The kernel ended its events, or a program could not be read.
    pub fn next(&mut self, limit: Duration, is_static_mpi: StaticMpi, prepare: &Prepare) -> Result<Vec<Start>, Error> {
        let deadline = Instant::now() + limit;
        loop {
            let due_ns = self.follow.due_ns().map(|due_ns| due_ns.saturating_sub(monotonic_ns()));
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = due_ns.map_or(left, |due_ns| left.min(Duration::from_nanos(due_ns)));
            match self.seen.recv_timeout(wait) {
                Ok(sighting) => self.take(sighting.map_err(|source| Error::Events { source })?, prepare)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let source = std::io::Error::other("the thread that listens has ended");
                    return Err(Error::Events { source });
                }
            }
            while let Ok(sighting) = self.seen.try_recv() {
                self.take(sighting.map_err(|source| Error::Events { source })?, prepare)?;
            }
            let starts = self.follow.look(&ProcFs::new(), is_static_mpi, monotonic_ns());
            if !starts.is_empty() || Instant::now() >= deadline {
                return Ok(starts);
            }
        }
    }

    /// Follows a program if its checksum is the wanted one.
    fn take(&mut self, mut sighting: Sighting, prepare: &Prepare) -> Result<(), Error> {
        let accepted = match sighting.file.take() {
            Some(mut file) => self.filter.accepts(&sighting.program, &mut file)?,
            None => self.filter.accepts_unread(),
        };
        if !accepted {
            return Ok(());
        }
        if let Some(holding) = &mut sighting.holding {
            let (prepare, pid, program) = (prepare.clone(), sighting.pid, sighting.program.clone());
            let released = holding.release_after(move || prepare(pid, &program));
            released.map_err(|source| Error::Thread { source })?;
        }
        self.follow.add(sighting);
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        // It may wait for room in the queue.
        while self.seen.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// The thread that is on time.
struct Listener {
    sights: Sights,
    names: Names,
    sender: SyncSender<std::io::Result<Sighting>>,
    missed: Arc<Mutex<Missed>>,
    end: Arc<AtomicBool>,
}

impl Listener {
    fn listen(mut self) {
        // Ordinary users are refused: then a busy machine may delay us, and the kernel's buffer bridges that.
        take_precedence();
        while !self.end.load(Ordering::Relaxed) {
            let sightings = self.sights.next(&self.names, LISTEN);
            *self.missed.lock().unwrap_or_else(PoisonError::into_inner) = self.sights.missed();
            let results = match sightings {
                Ok(sightings) => sightings.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            for result in results {
                let failed = result.is_err();
                if self.send(result).is_err() || failed {
                    return;
                }
            }
        }
    }

    /// Waits for room in the queue, but not when all is to end.
    fn send(&self, mut result: std::io::Result<Sighting>) -> Result<(), ()> {
        use std::sync::mpsc::TrySendError;
        loop {
            match self.sender.try_send(result) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) if !self.end.load(Ordering::Relaxed) => result = back,
                Err(_) => return Err(()),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
