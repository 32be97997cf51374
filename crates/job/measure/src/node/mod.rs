//! One machine's part of a window: everything that touches a process of the job or its memory.
//!
//! A node is told what to do by commands and decides nothing about other nodes' ranks. It keeps what it saw last, so
//! that a question about it need not carry it. Commands of a window it does not have open are refused: they may be from
//! before a connection was lost. Whatever was inserted is taken out when the window is read, abandoned or dropped.
//!
//! Next: `team` (in and out), `call_paths` (where calls come from), `looks` and `passes` (what counts), `recorder` (when), `readout` (what was recorded).

mod at_once;
mod by_counter;
mod call_paths;
mod checked;
mod counters;
mod early;
mod finalize;
mod how_far;
mod interest;
mod kept;
mod left;
mod library;
mod limits;
mod lines;
mod looks;
mod loops;
mod naming;
mod nest;
mod observe;
mod owners;
mod passes;
mod places;
mod python;
mod readout;
mod recorder;
mod regions;
mod selection;
mod so_far;
mod stands;
mod starting;
mod sums;
mod team;
mod unrolled;
mod usage;

use crate::clock::Clock;
use crate::error::Error;
use crate::first_call::{FirstCall, Held};
use crate::options::Options;
use crate::part::Part;
use crate::reason::NoHold;
use crate::request::{Answer, Command, Inserted, Lacking, Request, Sampled, Went, WindowId};
use by_counter::CountedPasses;
use call_paths::{CallPaths, Rules};
use counters::Counters;
pub use counters::{NoCounter, what_counts};
use early::Early;
use interest::Interest;
use kept::Kept;
pub use library::{datatype_sizes, describe_library, has_static_mpi};
use limits::MpiCalls;
pub use nest::{NestSampler, PASSES_PER_SECOND_MAX, SamplingCost, counted_numbers, script_name};
use observe::Stream;
pub(crate) use passes::PASSES_MIN;
use readout::Ending;
pub use readout::host_name;
pub(crate) use selection::PROBE_GROUPS;
pub use selection::{Functions, Listed, called_mpi, list_functions};
pub use stands::courses;
pub use starting::wait_for_start;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
pub use team::{FRAMES_MISSING, chosen, dry_run, program_name, wanted_files};
use team::{Member, Team};
use trimtab_mpi::HandleFacts;
use trimtab_neighbours::Beside;
use trimtab_os::monotonic_ns;
use trimtab_session::{ImageCache, try_again};
use trimtab_stub::layout::{Header, checksum};
use trimtab_track::Job;
use trimtab_types::Pid;
use trimtab_window::{FoundLoop, IterationMark, Symbol};

/// A look at the machine that is older than this is taken again before a recording begins, and one that is older than
/// that, because the first iteration lay far ahead, when it has begun: it takes milliseconds of a processor.
const LOOK_STALE: Duration = Duration::from_millis(500);
pub(crate) const LOOK_STALE_RECORDING: Duration = Duration::from_secs(2);

/// The ranks of a job on this machine.
#[derive(Debug)]
pub struct WindowNode<'c> {
    id: u32,
    job: Job,
    cache: &'c ImageCache,
    clock: Clock,
    newest: Option<WindowId>,
    open: Option<Window<'c>>,
    /// How long ranks may be at loading when probes are to go in.
    patience: Duration,
    interest: Interest<'c>,
    /// Ranks that are to wait behind `MPI_Init`, while they come there.
    first_call: Option<FirstCall>,
    /// Ranks that wait there, and go on once they record.
    held: Option<Held>,
    /// Why ranks did not wait there, as it was found first.
    missed: BTreeMap<u32, NoHold>,
    stand_ins: BTreeMap<String, String>,
}

/// A rank that executes another program has none in between: so long it may take, whoever asks.
const EXECUTING_MAX: Duration = Duration::from_secs(1);
/// Between two looks at ranks that load.
const LOADING_LOOK: Duration = Duration::from_millis(3);

/// A window whose probes are in.
#[derive(Debug)]
struct Window<'c> {
    id: WindowId,
    node: u32,
    team: Team,
    cache: &'c ImageCache,
    clock: Clock,
    facts: Option<HandleFacts>,
    /// Where the ranks' calls come from, and what is known of the code on the way.
    paths: Vec<CallPaths>,
    rules: Rules,
    started_ns: u64,
    early: Early,
    /// The calls of each rank when it was looked at last, and the loops that were found in it.
    streams: Vec<Stream>,
    found: Vec<FoundLoop>,
    /// The marker of each rank, and the pass that marks an iteration.
    wanted: Vec<Wanted>,
    phases: Vec<u64>,
    /// Which thread's passes counted when that was told last.
    counting: Vec<u64>,
    /// The same by the counters, where calls do not tell it.
    counted_passes: Vec<CountedPasses>,
    /// The job's iteration minus the rank's count.
    offsets: Vec<i64>,
    /// Looks at the tests by which loops are left.
    looks: how_far::Looks,
    /// Marks of each rank so far, and how many of those it wrote were read.
    marks: Vec<Vec<IterationMark>>,
    read: Vec<u64>,
    alive_ns: u64,
    /// The others on this machine.
    beside: Beside,
    counters: Counters,
    /// The recordings, where they are summed here.
    kept: Option<Box<Kept>>,
}

/// The marker that counts iterations on one rank.
#[derive(Clone, Debug)]
struct Wanted {
    symbol: Symbol,
    /// The calls of an iteration, if not every call of `symbol` begins one.
    word: Vec<Symbol>,
    every: u64,
    /// It counts for sure from then on.
    since_ticks: u64,
    is_common: bool,
}

impl<'c> WindowNode<'c> {
    /// A node that measures the ranks of `job` on this machine. Nothing is touched yet.
    pub fn new(id: u32, job: Job, cache: &'c ImageCache) -> Self {
        WindowNode {
            id,
            job,
            cache,
            clock: Clock::start(),
            newest: None,
            open: None,
            patience: Duration::ZERO,
            interest: Interest::LASTING,
            first_call: None,
            held: None,
            missed: BTreeMap::new(),
            stand_ins: BTreeMap::new(),
        }
    }

    /// The same for ranks that wait behind `MPI_Init`: they go on once they record.
    #[must_use]
    pub fn with_held(self, held: Held) -> Self {
        WindowNode { held: Some(held), ..self }
    }

    /// The same for ranks some of which are held behind `MPI_Init` already, or are looked at for that.
    #[must_use]
    pub fn with_first_call(self, first_call: Option<FirstCall>) -> Self {
        WindowNode { first_call, ..self }
    }

    /// The same for ranks that may just have been started: it waits so long until they can be patched.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        WindowNode { patience, ..self }
    }

    /// The same for somebody who may give up the window before its probes are in.
    #[must_use]
    pub fn until_given_up(self, is_given_up: &'c dyn Fn() -> bool) -> Self {
        WindowNode { interest: Interest { is_lost: is_given_up, is_waiting: false }, ..self }
    }

    /// The same for tests on machines whose processors count nothing: another event is counted under the name of the first.
    #[must_use]
    pub fn with_stand_ins(self, stand_ins: &[(&str, &str)]) -> Self {
        let owned = |(name, event): &(&str, &str)| ((*name).to_owned(), (*event).to_owned());
        WindowNode { stand_ins: stand_ins.iter().map(owned).collect(), ..self }
    }

    /// Its number in the crew.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// World ranks of the job on this machine.
    pub fn ranks(&self) -> Vec<u32> {
        self.job.ranks.iter().map(|process| process.rank.0).collect()
    }

    /// True if a window is open: its probes are in, or its results were not read yet.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes out what is in, without results; true if anything was. For a node that hears nothing of the job's side any
    /// more: nobody would end its window.
    pub fn abandon(&mut self) -> bool {
        let open = self.open.take();
        open.map(|mut window| window.team.remove()).is_some()
    }

    /// As [`WindowNode::abandon`], and lets ranks go that wait for the window.
    pub fn give_up(&mut self) -> bool {
        let waits = self.first_call.is_some() || self.held.as_ref().is_some_and(Held::is_any);
        (self.first_call, self.held) = (None, None);
        self.abandon() || waits
    }

    /// Does what a command says.
    ///
    /// # Errors
    /// [`Error::Stale`] for a window that is not open here, [`Error::Malformed`] for what fits no window, and whatever
    /// went wrong while doing it; then the ranks stay as they are until the window is abandoned.
    pub fn handle(&mut self, command: &Command) -> Result<Answer, Error> {
        let id = command.window;
        match &command.request {
            Request::Sample(options) => return Ok(Answer::Sampled(self.sample(id, options, false))),
            Request::SampleCourses(options) => return Ok(Answer::Sampled(self.sample(id, options, true))),
            Request::Insert(options) => return self.insert(id, options),
            Request::Gather(options) => return self.gather(options),
            Request::EndGather(end) => {
                let job = &self.job;
                self.held = self.first_call.take().map(|first_call| first_call.ended(job, end));
                self.held.iter().for_each(|held| held.keep_first_reasons(&mut self.missed));
                return Ok(Answer::Done);
            }
            Request::Abandon => (self.first_call, self.held) = (None, None),
            Request::Time => return Ok(Answer::Time { ticks_per_second: self.clock.ticks_per_second() }),
            _ => {}
        }
        let newest = self.newest;
        let window = self.open.as_mut().filter(|window| window.id == id);
        let Some(window) = window else { return Err(Error::Stale { asked: id.0, newest: newest.map(|id| id.0) }) };
        match &command.request {
            Request::InsertAnew(options) => self.begin(id, options),
            Request::Describe { node } if *node == self.id => {
                Ok(Answer::Described(Box::new(readout::facts(&self.job, &window.team))))
            }
            Request::Describe { .. } => Ok(Answer::Done),
            Request::Read { ended, is_whole, by_iterations } => {
                let ending = Ending { ended: *ended, is_whole: *is_whole, by_iterations: *by_iterations };
                let recording = window.recording(ending, &self.clock);
                self.open = None;
                Ok(Answer::Read(Box::new(recording)))
            }
            Request::SeeCommon { ended, is_whole, window: of, clocks } => {
                let ending = Ending { ended: *ended, is_whole: *is_whole, by_iterations: of.by_iterations };
                Ok(window.see_common(ending, of, clocks, &self.clock))
            }
            Request::Sum { .. } | Request::SetBeside { .. } => Ok(window.ask_kept(&command.request)),
            Request::ReadRanks { .. } => {
                let answer = window.ask_kept(&command.request);
                self.open = None;
                Ok(answer)
            }
            Request::Abandon => {
                self.abandon();
                Ok(Answer::Done)
            }
            Request::Go => Ok(Answer::Went(self.held.as_ref().map(|held| window.begin_with(held)).unwrap_or_default())),
            request => {
                window.looks.look(&window.team);
                window.handle(request)
            }
        }
    }

    /// The loops that run. Code must be the program's own for that: what this window has put in before is taken out, and the
    /// pauses for that are told with those of the looks.
    fn sample(&mut self, id: WindowId, options: &Options, with_courses: bool) -> Sampled {
        let mut before = Sampled::default();
        if let Some(window) = self.open.as_mut().filter(|window| window.id == id) {
            window.team.remove();
            for pauses in window.team.members.iter().map(Member::pauses_us) {
                before.pause_us_max = pauses.iter().copied().fold(before.pause_us_max, f64::max);
                before.pause_us_total = before.pause_us_total.max(pauses.iter().sum());
            }
        }
        let sampled = nest::sampled(&self.job, options, self.cache, with_courses);
        Sampled {
            pause_us_max: sampled.pause_us_max.max(before.pause_us_max),
            pause_us_total: sampled.pause_us_total + before.pause_us_total,
            ..sampled
        }
    }

    /// Ranks that wait already because somebody else has seen to it are taken over.
    fn gather(&mut self, options: &Options) -> Result<Answer, Error> {
        let chosen = team::chosen(&self.job, options);
        let pids: Vec<Pid> = chosen.ranks.iter().map(|process| process.pid).collect();
        if options.seccomp_ok {
            pids.iter().for_each(|pid| trimtab_os::trust_filters(*pid));
        }
        let first_call = match self.first_call.take() {
            Some(first_call) => {
                first_call.also(&pids);
                first_call
            }
            None => {
                let limit = Duration::from_secs(options.first_call_s.unwrap_or_default());
                let begun = FirstCall::begin(pids, limit, |_| Ok(()));
                begun.map_err(|error| Error::NoHolds { reason: error.to_string() })?
            }
        };
        let first_call = self.first_call.insert(first_call);
        first_call.let_strangers_go(&self.job);
        Ok(Answer::Standing(first_call.standing(&chosen)))
    }

    fn insert(&mut self, id: WindowId, options: &Options) -> Result<Answer, Error> {
        if self.newest.is_some_and(|newest| newest >= id) {
            return Err(Error::Stale { asked: id.0, newest: self.newest.map(|id| id.0) });
        }
        self.newest = Some(id);
        self.begin(id, options)
    }

    fn begin(&mut self, id: WindowId, options: &Options) -> Result<Answer, Error> {
        self.abandon();
        let chosen = team::chosen(&self.job, options);
        let is_left = |rank: &u32| !chosen.ranks.iter().any(|process| process.rank.0 == *rank);
        let left_alone: Vec<u32> = self.ranks().into_iter().filter(is_left).collect();
        if chosen.ranks.is_empty() {
            return Ok(Answer::Inserted(nobody(left_alone, None)));
        }
        // A library may go right between planning and writing; each attempt reads the ranks anew.
        let is_waiting = self.held.as_ref().is_some_and(Held::is_any);
        let interest = Interest { is_waiting, ..self.interest };
        let begun = Instant::now();
        let may_pass = |error: &Error| {
            let is_early = error.is_loading() && begun.elapsed() < self.patience;
            is_early || (error.may_be_executing() && begun.elapsed() < EXECUTING_MAX)
        };
        let team = loop {
            match try_again(|_| Team::insert(&chosen, options, self.cache, interest)) {
                Err(error) if may_pass(&error) => std::thread::sleep(LOADING_LOOK),
                // Another node may have it: the job's side knows.
                Err(Error::NoSuchFunction { pattern, pid }) => {
                    return Ok(Answer::Inserted(nobody(self.ranks(), Some(lacking(&chosen, pattern, pid)))));
                }
                team => break team.map_err(|error| error.or_ended(chosen.ranks.iter().map(|process| process.pid)))?,
            }
        };
        let ranks = self.job.ranks.iter().map(|process| (process.rank.0, process.pid)).collect();
        let mut beside = Beside::new(ranks, self.job.launcher);
        beside.begin(LOOK_STALE);
        let mut counters = Counters::new(options, &self.stand_ins);
        counters.open(&team);
        let window = Window::new((id, self.id), team, &options.wrappers, (self.cache, self.clock), beside);
        let window = self.open.insert(Window { counters, ..window });
        Ok(Answer::Inserted(Inserted {
            host: host_name(),
            ranks: window.ranks(),
            left_alone,
            digest: window.digest(),
            warnings: window.team.warnings.clone(),
            lacking: None,
        }))
    }
}

/// Nothing was put into any of a node's ranks.
fn nobody(left_alone: Vec<u32>, lacking: Option<Lacking>) -> Inserted {
    Inserted { host: host_name(), ranks: Vec::new(), left_alone, digest: 0, warnings: Vec::new(), lacking }
}

fn lacking(chosen: &Job, pattern: String, pid: Pid) -> Lacking {
    let mut ranks: Vec<u32> = chosen.ranks.iter().map(|process| process.rank.0).collect();
    ranks.sort_unstable();
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let program = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Lacking { pattern, pid: pid.0, ranks, program }
}

impl<'c> Window<'c> {
    fn new(
        (id, node): (WindowId, u32),
        team: Team,
        wrappers: &[String],
        (cache, clock): (&'c ImageCache, Clock),
        beside: Beside,
    ) -> Self {
        let ranks = team.members.len();
        Window {
            id,
            node,
            cache,
            clock,
            facts: team.library.as_ref().and_then(trimtab_mpi::Library::handles),
            paths: team.members.iter().map(CallPaths::of).collect(),
            rules: Rules::new(wrappers),
            started_ns: monotonic_ns(),
            early: Early::default(),
            streams: Vec::new(),
            found: Vec::new(),
            wanted: Vec::new(),
            phases: Vec::new(),
            counting: Vec::new(),
            counted_passes: Vec::new(),
            offsets: vec![0; ranks],
            looks: how_far::Looks::default(),
            marks: vec![Vec::new(); ranks],
            read: vec![0; ranks],
            alive_ns: monotonic_ns(),
            beside,
            counters: Counters::default(),
            kept: None,
            team,
        }
    }

    fn handle(&mut self, request: &Request) -> Result<Answer, Error> {
        Ok(match request {
            Request::Look { fresh, levels_only } => Answer::Looked(self.look(*fresh, *levels_only)),
            Request::Refer { rank, symbol, events_max } => self.refer(*rank, *symbol, *events_max),
            Request::Fit { reference, clocks } => Answer::Fitted(self.fit(reference, clocks)),
            Request::Count { choices } => self.count(choices)?,
            Request::CountFunction { function } => self.count_function(*function),
            Request::LoopPasses { functions } => Answer::LoopPassed(self.loop_passes(functions)),
            Request::Passes { fresh, by_counter: true, .. } => Answer::Passed(self.passes_by_counter(*fresh)),
            Request::Passes { fresh, with_messages, events_max, by_counter: false } => {
                Answer::Passed(self.passes(*fresh, *with_messages, *events_max as usize))
            }
            Request::Number { offsets } => {
                self.beside.begin(LOOK_STALE);
                self.number(offsets)?
            }
            Request::Furthest => Answer::Furthest(self.furthest()),
            Request::Arm { start, end } => self.arm(*start, *end),
            Request::Reset => {
                early::reset(&self.team);
                Answer::Done
            }
            Request::RecordByTime => self.record_by_time(),
            Request::SeeEarly => {
                self.team.yield_to_handlers();
                self.team.keep_within_limits(self.clock.ticks_per_second(), self.team.limits.calls());
                self.beside.note();
                self.look_at_counters();
                self.learn_paths();
                Answer::Early(self.early.seen(&self.team))
            }
            Request::Poll { confident_percent } => Answer::Polled(self.poll(*confident_percent)),
            Request::EndAt { end } => self.end_at(*end),
            Request::SeeLoop { function } => Answer::Seen(self.see_loop(*function)),
            Request::SampleBeside(options) => {
                Answer::Sampled(nest::sampled_beside(&self.targets(), options, self.cache))
            }
            Request::EndNow { program_ended } => {
                let (iterations_min, iterations_max) = self.end_now(*program_ended);
                Answer::Ended { iterations_min, iterations_max }
            }
            Request::HowFar { function } => Answer::HowFar(self.how_far(*function)),
            Request::Check { marks_max } => Answer::Checked(self.check_marks(*marks_max as usize)),
            Request::SeeMarks { clocks } => Answer::Part(Part::Marks(self.marks(clocks))),
            Request::Remove => self.remove(),
            // Those that the node answers by itself.
            Request::Sample(_)
            | Request::SampleCourses(_)
            | Request::Gather(_)
            | Request::EndGather(_)
            | Request::Go
            | Request::Insert(_)
            | Request::InsertAnew(_)
            | Request::Describe { .. }
            | Request::Time
            | Request::Read { .. }
            | Request::SeeCommon { .. }
            | Request::Sum { .. }
            | Request::SetBeside { .. }
            | Request::ReadRanks { .. }
            | Request::Abandon => Answer::Done,
        })
    }

    fn record_by_time(&mut self) -> Answer {
        self.team.yield_to_handlers();
        self.beside.begin(LOOK_STALE_RECORDING);
        self.look_at_counters();
        self.early.begin(&self.team);
        self.look_at_counters();
        self.learn_paths();
        Answer::Early(self.early.seen(&self.team))
    }

    /// Takes the probes out.
    fn remove(&mut self) -> Answer {
        let told = self.team.warnings.len();
        self.team.remove();
        // Now that nothing is held or in: it takes milliseconds.
        self.beside.end();
        let mut warnings = std::mem::take(&mut self.team.news);
        warnings.extend(self.team.warnings.split_off(told));
        Answer::Removed { warnings, departed: self.team.departed() }
    }

    /// Has all ranks record, and lets go those that wait for that.
    fn begin_with(&mut self, held: &Held) -> Went {
        let mut ranks = Vec::new();
        if held.is_any() {
            finalize::end_there(&mut self.team);
            self.early.begin(&self.team);
            let measured = self.ranks();
            ranks.extend(held.go().into_iter().filter(|rank| measured.contains(rank)));
        }
        Went { ranks, missed: held.missed(), held: held.times() }
    }

    fn ranks(&self) -> Vec<u32> {
        self.team.members.iter().map(|member| member.process.rank.0).collect()
    }

    /// Stands for what is measured: nodes with the same one speak of the same functions by the same numbers.
    fn digest(&self) -> u64 {
        let selection = &self.team.selection;
        let names = selection.functions.iter().map(|function| format!("{} {}\n", function.name, function.group));
        let marker = selection.marker.map_or_else(String::new, |(index, source)| format!("{index} {source}"));
        checksum((names.collect::<String>() + &marker).as_bytes())
    }

    /// A look while a loop is looked for: it is recorded by time in case none is found. True if all ranks run.
    fn observe(&mut self) -> bool {
        self.team.yield_to_handlers();
        let seconds = (monotonic_ns() - self.started_ns) as f64 / 1e9;
        self.team.keep_within_limits(self.clock.ticks_per_second(), MpiCalls::while_observed(seconds));
        self.look_at_counters();
        self.early.begin_when_due(&self.team, seconds);
        self.is_alive()
    }

    fn look_at_counters(&mut self) {
        self.counters.look(&self.team, self.clock.ticks_per_second());
    }

    fn is_alive(&self) -> bool {
        self.team.members.iter().all(|member| member.inserted.is_alive())
    }
}

fn header(member: &Member) -> &Header {
    member.inserted.view().header()
}
