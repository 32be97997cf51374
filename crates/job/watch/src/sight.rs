//! From events to programs: which of the programs that start are wanted, by name?
//!
//! The kernel tells that a process executes a program, not which. While the process lives `/proc` says that; of one that
//! has ended before anybody looked, the kernel's notes of files that were opened to be executed do. Several execs of one
//! process may have come to pass before the first is looked at: the program is then seen at the first event, and not
//! again at the second.
//!
//! All this is done by one thread that does nothing else, so that it is on time.
//!
//! Next: `follow` for what becomes of a program that was seen.

use crate::filter::{FileState, Names};
use crate::hold::Holding;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_os::{ExecFile, ExecFiles, ProcessEvent, ProcessEvents, monotonic_ns, stat_of};
use trimtab_track::{Origin, ProcFs, origin};
use trimtab_types::Pid;

/// The kernel appends this to the name of a program whose file is gone.
const DELETED: &str = " (deleted)";

/// A program that starts.
#[derive(Debug)]
pub struct Sighting {
    /// Its process.
    pub pid: Pid,
    /// Its file.
    pub program: PathBuf,
    /// When the process began, in clock ticks after boot; `None` if it had ended before it was looked at.
    pub start_time_ticks: Option<u64>,
    /// Which launch it belongs to; `None` as above.
    pub origin: Option<Origin>,
    /// When it executed the program, on the monotonic clock; `None` if nobody told.
    pub exec_ns: Option<u64>,
    /// When we saw it.
    pub seen_ns: u64,
    /// The hold that keeps it still, if it is to be held.
    pub holding: Option<Holding>,
    /// The file, open for reading.
    pub(crate) file: Option<File>,
}

/// Starts that were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Programs that had ended before their name was known.
    pub nameless: u64,
    /// Times that the kernel had to drop events.
    pub losses: u64,
}

/// A process's program, told from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    start_time_ticks: u64,
    stack_start: u64,
    state: FileState,
}

/// The room below the beginning of a stack in the middle of an exec, for the kernel's pointers to arguments and
/// variables.
const STACK_TABLES_BYTES_MAX: u64 = 1 << 20;

impl Seen {
    /// True if both may be one execution of a program, this one having been seen earlier. In the middle of an exec,
    /// when the process has its new program's name already, its stack is not there or begins a little higher than in
    /// the end, and when it ends it has none.
    fn may_be(&self, later: &Seen) -> bool {
        let is_known = self.stack_start != 0 && later.stack_start != 0;
        let is_near = self.stack_start.checked_sub(later.stack_start).is_some_and(|gap| gap <= STACK_TABLES_BYTES_MAX);
        let is_one_process = [self.start_time_ticks, later.start_time_ticks].contains(&0)
            || self.start_time_ticks == later.start_time_ticks;
        is_one_process && self.state == later.state && (is_near || !is_known)
    }
}

/// Programs with wanted names, as they start.
#[derive(Debug)]
pub(crate) struct Sights {
    events: ProcessEvents,
    notes: Option<ExecFiles>,
    /// Opened to be executed by a process, not yet executed as far as we know; of wanted names only.
    opened: BTreeMap<Pid, Vec<(PathBuf, File)>>,
    seen: BTreeMap<Pid, Seen>,
    missed: Missed,
    hold: Option<Duration>,
}

impl Sights {
    /// From now on; each that is seen is held for at most that long.
    pub(crate) fn begin(events: ProcessEvents, notes: Option<ExecFiles>, hold: Option<Duration>) -> Sights {
        let missed = Missed::default();
        Sights { events, notes, opened: BTreeMap::new(), seen: BTreeMap::new(), missed, hold }
    }

    /// The starts that were missed so far.
    pub(crate) fn missed(&self) -> Missed {
        self.missed
    }

    /// Programs that have started since the last call; waits at most that long.
    pub(crate) fn next(&mut self, names: &Names, limit: Duration) -> io::Result<Vec<Sighting>> {
        let events = self.events.next(limit)?;
        // A note is there before its event.
        self.take_notes(names);
        let mut sightings = Vec::new();
        for event in events {
            match event {
                ProcessEvent::Exec { pid, time_ns } => sightings.extend(self.exec(names, pid, time_ns)),
                ProcessEvent::Exit { pid } => {
                    self.opened.remove(&pid);
                    self.seen.remove(&pid);
                }
                ProcessEvent::Lost => self.missed.losses += 1,
                ProcessEvent::Fork { .. } => {}
            }
        }
        Ok(sightings)
    }

    fn take_notes(&mut self, names: &Names) {
        let Some(notes) = &self.notes else { return };
        loop {
            let fetched = notes.fetch();
            if fetched.is_empty() {
                return;
            }
            for ExecFile { pid, file } in fetched {
                let Some(path) = path_of(&file).filter(|path| names.has(path)) else { continue };
                if !is_script(&file) {
                    self.opened.entry(pid).or_default().push((path, file));
                }
            }
        }
    }

    /// The program that a process executes, or executed until it ended.
    fn exec(&mut self, names: &Names, pid: Pid, exec_ns: Option<u64>) -> Vec<Sighting> {
        let seen_ns = monotonic_ns();
        let sighting = |program, file| Sighting {
            pid,
            program,
            start_time_ticks: None,
            origin: None,
            exec_ns,
            seen_ns,
            holding: None,
            file,
        };
        match fs::read_link(format!("/proc/{pid}/exe")).map(present) {
            Ok(program) if names.has(&program) => {
                let noted = self.noted(pid, &program);
                // Held first: every moment counts.
                let holding = self.hold.and_then(|limit| Holding::begin(pid, limit).ok());
                // By now it may run the next program, whose file this must not be.
                let is_of_program = |file: &File| path_of(file).is_some_and(|path| path == program);
                let live = || File::open(format!("/proc/{pid}/exe")).ok().filter(is_of_program);
                let file = noted.or_else(live);
                if !self.is_news(pid, &program, file.as_ref()) {
                    return Vec::new();
                }
                let start_time_ticks = stat_of(pid, pid.0).map(|stat| stat.start_time_ticks);
                let origin = origin(&ProcFs::new(), pid).ok();
                vec![Sighting { start_time_ticks, origin, holding, ..sighting(program, file) }]
            }
            Ok(_) => Vec::new(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Vec::new(),
            Err(_) => {
                if self.notes.is_none() {
                    self.missed.nameless += 1;
                }
                let opened = self.opened.remove(&pid).unwrap_or_default();
                let before = self.seen.get(&pid).map(|seen| seen.state);
                let state = |file: &File| file.metadata().ok().map(|data| FileState::of(&data));
                let news = opened.into_iter().filter(|(_, file)| before.is_none() || state(file) != before);
                news.map(|(program, file)| sighting(program, Some(file))).collect()
            }
        }
    }

    /// The file that was opened for the process to execute this program; those opened before it are out of date, those
    /// opened after it are of an exec whose event is still to come.
    fn noted(&mut self, pid: Pid, program: &Path) -> Option<File> {
        let opened = self.opened.get_mut(&pid)?;
        let index = opened.iter().position(|(path, _)| path == program)?;
        opened.drain(..=index).next_back().map(|(_, file)| file)
    }

    /// True if the process executes this program for the first time since its last exec; true in doubt.
    fn is_news(&mut self, pid: Pid, program: &Path, file: Option<&File>) -> bool {
        let data = file.and_then(|file| file.metadata().ok()).or_else(|| fs::metadata(program).ok());
        let Some(data) = data else { return true };
        // One that has just ended has no state; a later event of the same exec must find it all the same.
        let (start_time_ticks, stack_start) =
            stat_of(pid, pid.0).map_or((0, 0), |stat| (stat.start_time_ticks, stat.stack_start));
        let seen = Seen { start_time_ticks, stack_start, state: FileState::of(&data) };
        let before = self.seen.insert(pid, seen).filter(|before| before.may_be(&seen));
        if let Some(before) = before.filter(|_| stack_start == 0) {
            self.seen.insert(pid, before);
        }
        before.is_none()
    }
}

/// The path that an open file has, or had.
fn path_of(file: &File) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok().map(present)
}

/// The path that a program had.
fn present(path: PathBuf) -> PathBuf {
    match path.to_str().and_then(|text| text.strip_suffix(DELETED)) {
        Some(text) => Path::new(text).to_path_buf(),
        None => path,
    }
}

/// A script is opened to be executed, but what is executed then is its interpreter.
fn is_script(mut file: &File) -> bool {
    let mut head = [0u8; 2];
    let is_script = file.read_exact(&mut head).is_ok() && &head == b"#!";
    is_script || file.rewind().is_err()
}
