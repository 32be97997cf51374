//! A job measured from its first call: each rank is held where it comes out of `MPI_Init`, until probes are in all of them.
//!
//! Processes that come from the one that was started, or from what a launcher or Slurm has started for the job on this
//! machine, are looked at again and again. As soon as the loader of one has the
//! MPI library in place, before it can have left `MPI_Init`, the hold goes in; nobody traces it from then on. Ranks leave
//! `MPI_Init` about together, wait there by themselves, and go on together when their probes record. A rank that can't be
//! held goes on unmeasured until the probes are in, and the report says so and why. Where one does not come, all others
//! are let go well before they would go by themselves, and then none is measured from its first call.
//!
//! Next: `trimtab-session`'s `gather`, the hold of one process; `node`, which lets all go.

use crate::clock::Clock;
use crate::node::{has_static_mpi, program_name};
use crate::reason::NoHold;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trimtab_mpi::{Start, is_mpi_module, spellings};
use trimtab_os::{MappingTable, children_of, start_time_ticks};
use trimtab_session::{
    Claim, Error, FaultHandlers, Gathering, ImageCache, Modules, TakeOver, interposers, is_loaded, leftover,
};
use trimtab_track::{Job, ProcFs, Processes};
use trimtab_types::report::HeldRank;
use trimtab_types::{BoxError, Pid, one_line};

/// Where a process comes out of `MPI_Init`: in C, to profilers, in Fortran as compilers spell it, and inside of bindings.
static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| ["MPI_Init", "MPI_Init_thread"].into_iter().flat_map(spellings).collect());

/// Between two looks at the processes, and the same as so many times the processor time of a look. On a busy machine a look lasts
/// far longer than that, and ranks would leave `MPI_Init` before the next one.
const LOOK: Duration = Duration::from_millis(1);
const LOOK_PARTS: u32 = 2;
/// The part of the longest wait after which all are let go: probes take the rest of it to go in.
const GIVE_UP_PART: f64 = 0.6;
/// A rank whose loader is not done after so long is not waited for.
const LOADING_MAX: Duration = Duration::from_secs(20);
/// From when the library says that `MPI_Init` is done to when the program's own call of it returns.
const RETURN_MAX: Duration = Duration::from_secs(2);
/// Threads that were let go have left our code by then.
const LEFT: Duration = Duration::from_millis(1);

/// Processes that come from one, each about to be held where it comes out of `MPI_Init`.
#[derive(Debug)]
pub struct FirstCall {
    roots: Arc<Mutex<Vec<Pid>>>,
    limit: Duration,
    clock: Clock,
    seen: Arc<Mutex<BTreeMap<Pid, Seen>>>,
    end: Arc<AtomicBool>,
    /// Looks that are over: in each every process that was there has been looked at.
    looks: Arc<AtomicU64>,
    /// Ranks that no look has seen, with the looks that were over when that was noticed.
    unseen: Mutex<BTreeMap<Pid, u64>>,
    thread: Option<JoinHandle<()>>,
}

/// The state of one process that was seen.
#[derive(Debug)]
struct Seen {
    /// When it was started, in ticks of the kernel: another one may have its number later.
    start_ticks: u64,
    since: Instant,
    /// When it was first seen behind `MPI_Init` without being held.
    behind: Option<Instant>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing of MPI is in it yet, or its loader is at work; the last reason why it could not be held.
    Waits(Option<NoHold>),
    /// The hold is being put in.
    Busy,
    /// The hold is in.
    Holds(Box<Gathering>),
    /// It can't be held.
    Never(NoHold),
}

impl FirstCall {
    /// Begins to look at processes and those that come from them. `may_change` is asked before one is changed, and says why
    /// not. A rank is held for at most `limit`.
    ///
    /// # Errors
    /// There can't be another thread.
    pub fn begin(
        roots: Vec<Pid>,
        limit: Duration,
        may_change: impl FnMut(Pid) -> Result<(), BoxError> + Send + 'static,
    ) -> std::io::Result<FirstCall> {
        FirstCall::start((roots, Box::new(Vec::new)), limit, Box::new(may_change))
    }

    /// The same for whatever begins below processes that are yet to come: `tops` is asked which are there, again and again.
    ///
    /// # Errors
    /// There can't be another thread.
    pub fn begin_below(
        tops: impl FnMut() -> Vec<Pid> + Send + 'static,
        limit: Duration,
        may_change: impl FnMut(Pid) -> Result<(), BoxError> + Send + 'static,
    ) -> std::io::Result<FirstCall> {
        FirstCall::start((Vec::new(), Box::new(tops)), limit, Box::new(may_change))
    }

    fn start((roots, tops): (Vec<Pid>, Tops), limit: Duration, may_change: MayChange) -> std::io::Result<FirstCall> {
        let roots = Arc::new(Mutex::new(roots));
        let (seen, end) = (Arc::<Mutex<BTreeMap<Pid, Seen>>>::default(), Arc::<AtomicBool>::default());
        let looks = Arc::<AtomicU64>::default();
        let clock = Clock::start();
        let holder = Holder {
            limit,
            seen: seen.clone(),
            cache: ImageCache::of_user(),
            clock,
            may_change: Mutex::new(may_change),
        };
        let looker = Looker {
            roots: roots.clone(),
            tops,
            end: end.clone(),
            looks: looks.clone(),
            holder: Arc::new(holder),
            static_mpi: Arc::default(),
            busy: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("first-call".to_owned()).spawn(move || looker.look())?;
        Ok(FirstCall { roots, limit, clock, seen, end, looks, unseen: Mutex::default(), thread: Some(thread) })
    }

    /// Looks at these processes from now on, too.
    pub fn also(&self, pids: &[Pid]) {
        let mut roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<Pid> = pids.iter().copied().filter(|pid| !roots.contains(pid)).collect();
        roots.extend(new);
    }

    /// True if a rank of the job has come out of `MPI_Init`, held or not: no other one begins it then.
    pub fn is_any_behind(&self, job: &Job) -> bool {
        let standing = self.standing(job);
        standing.held > 0
            || !standing.missed.is_empty()
            || job.ranks.iter().any(|process| start_of(process.pid) == Some(Start::Behind))
    }

    /// Waits until every rank of the job is held or can't be, or it is given up. From then on no more processes are held,
    /// and the ranks' text is theirs again. `find` looks for the job anew, and is asked where a process waits that seemed to
    /// be no rank of it, or where ranks execute another program by now; gives the job as it was found last.
    pub fn gathered(self, mut job: Job, find: &dyn Fn() -> Option<Job>, is_given_up: &dyn Fn() -> bool) -> (Job, Held) {
        let mut wait = GatherWait::new(self.limit);
        loop {
            if self.has_strangers(&job)
                && let Some(found) = find()
            {
                job = found;
                self.let_strangers_go(&job);
            }
            let standing = self.standing(&job);
            if let Some(end) = wait.seen(&standing, is_given_up()) {
                let found = executes_another(&job).then(find).flatten();
                job = found.filter(|found| is_same(found, &job)).unwrap_or(job);
                let held = self.ended(&job, &end);
                return (job, held);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// True if a process waits that is no rank of the job: a child that begins MPI by itself, or the rank where what was
    /// taken for one is a program around it.
    fn has_strangers(&self, job: &Job) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().any(|one| is_stranger(&one, job))
    }

    /// They are not measured, and others may wait for them before they begin MPI.
    pub fn let_strangers_go(&self, job: &Job) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let strangers = seen.iter_mut().filter(|(pid, one)| is_stranger(&(*pid, &**one), job));
        let no_rank = || State::Never(NoHold::NoRank);
        let let_go: Vec<State> = strangers.map(|(_, one)| std::mem::replace(&mut one.state, no_rank())).collect();
        // Taking out takes a while.
        drop(seen);
        drop(let_go);
    }

    /// Ends the looking as [`GatherWait::seen`] says.
    pub fn ended(mut self, job: &Job, end: &GatherEnd) -> Held {
        let mut missed = self.standing(job).missed;
        if let GatherEnd::Without(reason) = end {
            missed.extend(job.ranks.iter().map(|process| (process.rank.0, reason.clone())));
        }
        self.stop_looking();
        self.taken(job, missed)
    }

    /// Waits until each process that was there has been looked at once, at most so long: one that begins MPI from then on is
    /// seen.
    pub fn wait_until_it_looks(&self, limit: Duration) {
        let begun = Instant::now();
        while self.looks.load(Relaxed) == 0 && begun.elapsed() < limit {
            std::thread::sleep(LOOK);
        }
    }

    /// Leaves all that are held, once one is, to whoever takes them over; waits for that while nobody gives it up.
    ///
    /// # Errors
    /// [`NoHold`] if none is.
    pub fn handed_over(mut self, limit: Duration, is_given_up: &dyn Fn() -> bool) -> Result<(), NoHold> {
        let begun = Instant::now();
        let roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let runs = || roots.iter().any(|root| trimtab_os::runs(*root));
        while !self.is_any_settled() && begun.elapsed() < limit && runs() && !is_given_up() {
            std::thread::sleep(LOOK);
        }
        // Nobody tries again to hold what is about to be somebody else's.
        self.stop_looking();
        if is_given_up() {
            return Err(NoHold::GivenUp);
        }
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let mut outcome = Err(match runs() {
            true => NoHold::NoMpi { seconds: begun.elapsed().as_secs() },
            false => NoHold::EndedWithoutMpi,
        });
        for one in seen.into_values() {
            match one.state {
                State::Holds(gathering) => {
                    gathering.hand_over();
                    outcome = Ok(());
                }
                State::Never(reason) => outcome = outcome.or(Err(reason)),
                State::Waits(_) | State::Busy => {}
            }
        }
        outcome
    }

    fn is_any_settled(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.values().any(|one| matches!(one.state, State::Holds(_) | State::Never(_)))
    }

    /// How many ranks are held, which may yet come, and which are not held with the reason.
    pub fn standing(&self, job: &Job) -> Standing {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Standing::default();
        for process in &job.ranks {
            let rank = process.rank.0;
            match stands(seen.get_mut(&process.pid), process.pid) {
                Stands::Held => all.held += 1,
                Stands::Comes => all.coming.push(rank),
                Stands::Missed(_) if !self.has_looked_for(process.pid, &seen) => all.coming.push(rank),
                Stands::Missed(reason) => drop(all.missed.insert(rank, reason)),
            }
        }
        all
    }

    /// True if a look has seen a process, or one that began after it was first asked for is over. Somebody else may hold it
    /// behind `MPI_Init` already, and looks take a while on a busy machine.
    fn has_looked_for(&self, pid: Pid, seen: &BTreeMap<Pid, Seen>) -> bool {
        let looks = self.looks.load(Relaxed);
        let mut unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        looks > 0 && (seen.contains_key(&pid) || looks >= *unseen.entry(pid).or_insert(looks) + 2)
    }

    fn stop_looking(&mut self) {
        self.end.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }

    fn taken(&self, job: &Job, mut missed: BTreeMap<u32, NoHold>) -> Held {
        let mut seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut holds, mut others) = (BTreeMap::new(), BTreeMap::new());
        for process in &job.ranks {
            let rank = process.rank.0;
            let Some(Seen { state: State::Holds(mut gathering), .. }) = seen.remove(&process.pid) else { continue };
            let restored = if missed.contains_key(&rank) { Ok(false) } else { gathering.restore_text().map(|()| true) };
            let is_held = restored.unwrap_or_else(|error| {
                missed.insert(rank, NoHold::NotNow { reason: error.to_string() });
                false
            });
            let place = if is_held { &mut holds } else { &mut others };
            place.insert(rank, *gathering);
        }
        // Processes that are no ranks are let go here.
        drop(seen);
        let held =
            Held { clock: self.clock, holds: Mutex::new(holds), missed: Mutex::new(missed), ended: Mutex::default() };
        held.end(others);
        held
    }
}

/// Lets a process go on that waits behind `MPI_Init` for somebody to take it over, and takes out what holds it. Any other is
/// left alone.
pub fn let_go(pid: Pid) {
    let Ok(_claim) = Claim::of(pid) else { return };
    // Taken over and dropped.
    let _let_go = leftover::find(pid).and_then(|found| Gathering::take_over(pid, &found));
}

/// How far the ranks of a node are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// How many wait.
    pub held: u32,
    /// The world ranks that may yet come.
    pub coming: Vec<u32>,
    /// Those that will not, with the reason.
    pub missed: BTreeMap<u32, NoHold>,
}

impl Standing {
    /// The ranks of two nodes.
    pub(crate) fn and(mut self, other: Standing) -> Standing {
        self.held += other.held;
        self.coming.extend(other.coming);
        self.missed.extend(other.missed);
        self
    }
}

/// How ranks that were to be held are to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatherEnd {
    /// All that wait are measured from their first call on.
    Whole,
    /// None is, for this reason: all are let go.
    Without(NoHold),
}

/// Decides how long ranks that wait are to wait for others.
#[derive(Clone, Debug)]
pub struct GatherWait {
    limit: Duration,
    first_held: Option<Instant>,
}

impl GatherWait {
    /// For ranks that wait at most so long.
    pub fn new(limit: Duration) -> Self {
        GatherWait { limit, first_held: None }
    }

    /// Tells how the waiting ends, once all have come that can come, or they are to wait no longer.
    pub fn seen(&mut self, standing: &Standing, is_given_up: bool) -> Option<GatherEnd> {
        if standing.held > 0 {
            self.first_held.get_or_insert_with(Instant::now);
        }
        let Some(first) = standing.coming.first() else { return Some(GatherEnd::Whole) };
        let longest = self.limit.mul_f64(GIVE_UP_PART);
        let is_late = self.first_held.is_some_and(|first| first.elapsed() > longest);
        match (is_late, is_given_up) {
            (true, _) => {
                let others_wait = NoHold::OthersWait { rank: *first, ms: longest.as_millis() as u32 };
                Some(GatherEnd::Without(others_wait))
            }
            (false, true) => Some(GatherEnd::Without(NoHold::GivenUp)),
            (false, false) => None,
        }
    }
}

impl Drop for FirstCall {
    fn drop(&mut self) {
        self.stop_looking();
    }
}

fn is_stranger((pid, one): &(&Pid, &Seen), job: &Job) -> bool {
    let waits = matches!(&one.state, State::Holds(gathering) if gathering.is_held());
    waits && !job.ranks.iter().any(|process| process.pid == **pid)
}

/// True if a rank has executed another program, or itself with other arguments, since the job was found.
fn executes_another(job: &Job) -> bool {
    let processes = ProcFs::new();
    job.ranks.iter().any(|process| {
        let is_same = processes.executable(process.pid).is_ok_and(|program| program == process.executable)
            && processes.arguments(process.pid).is_ok_and(|arguments| arguments == process.arguments);
        !is_same
    })
}

/// True if both have the same ranks in the same processes.
fn is_same(one: &Job, other: &Job) -> bool {
    let ranks =
        |job: &Job| -> Vec<(u32, Pid)> { job.ranks.iter().map(|process| (process.rank.0, process.pid)).collect() };
    ranks(one) == ranks(other)
}

/// How far a rank is.
enum Stands {
    Held,
    Comes,
    Missed(NoHold),
}

fn stands(seen: Option<&mut Seen>, pid: Pid) -> Stands {
    let Some(seen) = seen else {
        return match start_of(pid) {
            Some(Start::Behind) => Stands::Missed(NoHold::SeenLate),
            _ if trimtab_os::runs(pid) => Stands::Comes,
            _ => Stands::Missed(NoHold::Ended),
        };
    };
    match &seen.state {
        State::Holds(gathering) if gathering.is_held() => return Stands::Held,
        State::Holds(gathering) if gathering.has_given_up() => return Stands::Missed(NoHold::WaitedLong),
        State::Never(reason) => return Stands::Missed(reason.clone()),
        _ if !trimtab_os::runs(pid) => return Stands::Missed(NoHold::Ended),
        _ => {}
    }
    if start_of(pid) != Some(Start::Behind) {
        return Stands::Comes;
    }
    // The library says so some time before the program's own call returns, above all beside tools.
    let behind = seen.behind.get_or_insert_with(Instant::now).elapsed();
    match &seen.state {
        _ if behind < RETURN_MAX => Stands::Comes,
        State::Waits(Some(reason)) | State::Never(reason) => Stands::Missed(reason.clone()),
        State::Waits(None) => Stands::Missed(NoHold::HeldLate),
        State::Busy => Stands::Missed(NoHold::NotIn),
        State::Holds(_) => Stands::Missed(NoHold::OtherWay),
    }
}

/// Ranks that wait behind `MPI_Init`. Dropping it lets them go.
#[derive(Debug)]
pub struct Held {
    clock: Clock,
    holds: Mutex<BTreeMap<u32, Gathering>>,
    missed: Mutex<BTreeMap<u32, NoHold>>,
    ended: Mutex<Vec<HeldRank>>,
}

impl Held {
    /// True if any rank waits.
    pub fn is_any(&self) -> bool {
        !self.holds.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Ranks that are not held, with the reason.
    pub fn missed(&self) -> BTreeMap<u32, NoHold> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where the window is tried once more, the first reason why a rank is not held is the one that counts: it was let go then.
    pub(crate) fn keep_first_reasons(&self, first: &mut BTreeMap<u32, NoHold>) {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        for (rank, reason) in missed.iter_mut() {
            *reason = first.entry(*rank).or_insert_with(|| reason.clone()).clone();
        }
    }

    /// Lets all go, one right after the other; the ranks that waited until now. Then takes the holds out.
    pub(crate) fn go(&self) -> Vec<u32> {
        let holds = std::mem::take(&mut *self.holds.lock().unwrap_or_else(PoisonError::into_inner));
        let (on_time, late) = self.end(holds).into_iter().partition::<Vec<_>, _>(|one| one.1);
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        missed.extend(late.into_iter().map(|(rank, _)| (rank, NoHold::WaitedLongForProbes)));
        on_time.into_iter().map(|(rank, _)| rank).collect()
    }

    /// How long each rank was held that was.
    pub fn times(&self) -> Vec<HeldRank> {
        let mut times = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        times.sort_by_key(|held| held.rank);
        times
    }

    /// Lets these ranks go and takes their holds out; for each true if it waited until now.
    fn end(&self, holds: BTreeMap<u32, Gathering>) -> Vec<(u32, bool)> {
        let went: Vec<(u32, bool)> = holds.iter().map(|(rank, hold)| (*rank, hold.go())).collect();
        if !went.is_empty() {
            std::thread::sleep(LEFT);
        }
        let us = |ticks: u64| ticks as f64 / self.clock.ticks_per_second() * 1e6;
        let times = holds.into_iter().map(|(rank, hold)| HeldRank { rank, held_us: us(hold.ended()) });
        let times: Vec<HeldRank> = times.filter(|held| held.held_us > 0.0).collect();
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).extend(times);
        went
    }
}

/// Processor time of the calling thread.
fn own_processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A file by device and number.
type FileId = (u64, u64);

/// Tells which processes are there below which ranks begin.
type Tops = Box<dyn FnMut() -> Vec<Pid> + Send>;

/// The thread that looks.
struct Looker {
    roots: Arc<Mutex<Vec<Pid>>>,
    tops: Tops,
    end: Arc<AtomicBool>,
    looks: Arc<AtomicU64>,
    holder: Arc<Holder>,
    /// True if MPI is linked into a file, `None` while it is read.
    static_mpi: Arc<Mutex<BTreeMap<FileId, Option<bool>>>>,
    /// Threads that are putting holds in.
    busy: Vec<JoinHandle<()>>,
}

impl Looker {
    fn look(mut self) {
        // Ordinary users are refused precedence; short turns come sooner at least.
        let _ = trimtab_os::take_short_turns();
        let _ = trimtab_os::take_precedence();
        let own = Pid(std::process::id() as i32);
        while !self.end.load(Relaxed) {
            let begun = own_processor_time();
            let mut roots = (self.tops)();
            roots.extend(self.roots.lock().unwrap_or_else(PoisonError::into_inner).iter());
            for pid in descendants(&roots).into_iter().filter(|pid| *pid != own) {
                if self.holder.is_new(pid) && self.is_ready(pid) {
                    self.hold(pid);
                }
            }
            self.looks.fetch_add(1, Relaxed);
            std::thread::sleep(LOOK.max(own_processor_time().saturating_sub(begun) * LOOK_PARTS));
        }
        self.busy.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Has a process held by a thread of its own, which stops it first: planning takes longer than `MPI_Init` may, and
    /// nobody comes out of that before all are in it.
    fn hold(&mut self, pid: Pid) {
        self.holder.note(pid, State::Busy);
        let holder = self.holder.clone();
        let thread = std::thread::Builder::new().name("hold".to_owned()).spawn(move || holder.hold_and_note(pid));
        match thread {
            Ok(thread) => self.busy.push(thread),
            Err(_) => self.holder.hold_and_note(pid),
        }
    }

    /// True if MPI is in place in a process.
    fn is_ready(&self, pid: Pid) -> bool {
        let Ok(maps) = MappingTable::of(pid) else { return false };
        let has_mpi = maps.0.iter().any(|mapping| mapping.executable && is_mpi_module(&mapping.path));
        (has_mpi || self.has_static_mpi(pid)) && is_loaded(pid, &maps)
    }

    /// True if MPI is linked into a process's program, once that is known. Each file is read once, by a thread of its own:
    /// for large ones that takes longer than `MPI_Init`, and others may begin it meanwhile.
    fn has_static_mpi(&self, pid: Pid) -> bool {
        let path = format!("/proc/{pid}/exe");
        let (Ok(file), Ok(opened)) = (std::fs::metadata(&path), File::open(&path)) else { return false };
        let key = (file.dev(), file.ino());
        let mut known = self.static_mpi.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&key) {
            return *known == Some(true);
        }
        known.insert(key, None);
        let all = self.static_mpi.clone();
        let read = move || {
            // The process may execute another program meanwhile: the file that is open stays.
            let is_static = has_static_mpi(Path::new(&format!("/proc/self/fd/{}", opened.as_raw_fd())));
            all.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Some(is_static));
        };
        // Nobody waits for its end.
        if std::thread::Builder::new().name("static-mpi".to_owned()).spawn(read).is_err() {
            known.remove(&key);
        }
        false
    }
}

/// Asked before a process is changed; says why not.
type MayChange = Box<dyn FnMut(Pid) -> Result<(), BoxError> + Send>;

/// Puts holds in, by one thread for each process.
struct Holder {
    limit: Duration,
    seen: Arc<Mutex<BTreeMap<Pid, Seen>>>,
    cache: ImageCache,
    clock: Clock,
    may_change: Mutex<MayChange>,
}

impl Holder {
    /// True if a process is not held yet and may be.
    fn is_new(&self, pid: Pid) -> bool {
        let Some(start_ticks) = start_time_ticks(pid) else { return false };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |one: &Seen| match &one.state {
            // It executes another program by now.
            State::Holds(gathering) => !gathering.is_alive(),
            State::Busy => false,
            State::Waits(_) | State::Never(_) => one.start_ticks != start_ticks,
        };
        if seen.get(&pid).is_some_and(is_over) {
            seen.remove(&pid);
        }
        let fresh = || Seen { start_ticks, since: Instant::now(), behind: None, state: State::Waits(None) };
        matches!(seen.entry(pid).or_insert_with(fresh).state, State::Waits(_))
    }

    fn note(&self, pid: Pid, state: State) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(one) = seen.get_mut(&pid) else { return };
        one.state = match state {
            State::Waits(Some(reason)) if one.since.elapsed() > LOADING_MAX => State::Never(reason),
            state => state,
        };
    }

    fn hold_and_note(&self, pid: Pid) {
        self.note(pid, self.hold(pid).map_or_else(State::from, |gathering| State::Holds(Box::new(gathering))));
    }

    /// Should we be killed while it is stopped, it runs on.
    ///
    /// The rest of a first try is looked for before: the process is stopped for that, too, and it can't be stopped twice at
    /// once. Its fault handlers are asked for in the same stop: on a busy machine that takes longer than `MPI_Init`.
    fn hold(&self, pid: Pid) -> Result<Gathering, Refused> {
        let _claim = Claim::of(pid)?;
        match leftover::find(pid)? {
            leftover::Leftover::None => {}
            leftover::Leftover::Unfinished(_) => {
                return Err(Refused::Passing(NoHold::Unfinished));
            }
            found @ leftover::Leftover::Complete { .. } => {
                return match Gathering::take_over(pid, &found)? {
                    TakeOver::Taken(taken) => Ok(taken),
                    TakeOver::InUse => Err(Refused::Passing(NoHold::HeldByOther)),
                    TakeOver::NoHold => Err(Refused::Final(NoHold::ChangedByOther)),
                };
            }
        }
        let (stopped, handlers) = FaultHandlers::with_stop(pid)?;
        if start_of(pid) == Some(Start::Behind) {
            return Err(Refused::Final(NoHold::SeenLate));
        }
        let may_change = (self.may_change.lock().unwrap_or_else(PoisonError::into_inner))(pid);
        may_change.map_err(|error| Refused::Final(NoHold::Forbidden { reason: one_line(&*error) }))?;
        let maps = MappingTable::of(pid).map_err(Error::from)?;
        let names: Vec<&str> = NAMES.iter().map(String::as_str).collect();
        let before = interposers(pid, &maps, &names);
        let program = program_name(pid);
        let wanted = |path: &str| is_mpi_module(path) || path == program || before.iter().any(|known| known == path);
        let planned = Modules::among(pid, maps, &self.cache, &wanted);
        let planned = planned.and_then(|modules| Gathering::plan(&modules.with_handlers(handlers), &names))?;
        let has_left = || start_of(pid) == Some(Start::Behind);
        Ok(Gathering::insert(&planned, stopped, (self.limit, self.clock.ticks_per_second()), &has_left)?)
    }
}

/// Why a process is not held.
enum Refused {
    /// It may be in a moment.
    Passing(NoHold),
    /// It can't be.
    Final(NoHold),
}

impl From<Refused> for State {
    fn from(refused: Refused) -> State {
        match refused {
            Refused::Passing(reason) => State::Waits(Some(reason)),
            Refused::Final(reason) => State::Never(reason),
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        match error.is_loading() || error.is_passing() {
            true => Refused::Passing(NoHold::NotNow { reason: error.to_string() }),
            false => Refused::Final(NoHold::Failed { reason: error.to_string() }),
        }
    }
}

/// Processes and all that come from them.
fn descendants(roots: &[Pid]) -> Vec<Pid> {
    let mut known: BTreeSet<Pid> = roots.iter().copied().collect();
    let mut found: Vec<Pid> = known.iter().copied().collect();
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        found.extend(children_of(pid).into_iter().filter(|child| known.insert(*child)));
    }
    found
}

/// How far a process is with `MPI_Init`.
fn start_of(pid: Pid) -> Option<Start> {
    let processes = ProcFs::new();
    let maps = processes.maps(pid).ok()?;
    processes.start(pid, &maps)
}
