//! A script that runs: in all its processes at once, read from outside, taken out when it is over.
//!
//! Reading stops nobody: variables and messages lie in memory that both sides map. Bodies that the clock calls run here,
//! on what the process's threads have counted so far.
//!
//! Next: `source` for how a process is made ready; `message` for the ring.

use crate::error::Error;
use crate::message::{Message, MessageValue, Reader};
use crate::source::{Options, SETUP, Source};
use std::cell::RefCell;
use std::time::Duration;
use trimtab_os::{MappingTable, Memory, ProcessEnd, monotonic_ns, ticks, wait_for_end};
use trimtab_session::{ImageCache, Inserted, RangeTables, ScriptStart, ScriptView};
use trimtab_snippet::ir::{Area, Body, Expression, Kind, Unit, When, process_word, thread_word};
use trimtab_snippet::reference::{self, Machine, SentValue};
use trimtab_snippet::values::{Named, RankAreas, collect};
use trimtab_stub::view::View;
use trimtab_types::Pid;

/// Shortest stretch over which the tick rate is worth something.
const RATE_NS_MIN: u64 = 20_000_000;
/// Between two looks at memory that bodies write to. They make no system call, so nothing can wake us when they do; a
/// look at a few words every so often uses less than a thousandth of a processor.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between two looks where nothing comes from the bodies before the end, or while none of the processes is known to be
/// another program by now: only `execve` goes unnoticed otherwise.
const ALIVE_EVERY: Duration = Duration::from_millis(500);

/// A process to run the script in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The process.
    pub pid: Pid,
    /// Its MPI rank, if it has one.
    pub rank: Option<u32>,
    /// Ranks of its job, if that is known.
    pub ranks: Option<u32>,
}

/// A function that can't be probed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Refusal {
    /// Its name.
    pub function: String,
    /// Why.
    pub reason: String,
}

/// What was seen in one look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Poll {
    /// Messages that arrived, process by process.
    pub messages: Vec<Message>,
    /// Whether the script said `stop()` somewhere.
    pub stopped: bool,
    /// Processes that still run the program.
    pub alive: usize,
}

/// What was not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Loss {
    /// Loads from addresses that can't be read; they yielded 0.
    pub unreadable_loads: u64,
    /// Messages that found no room, or were begun and never finished.
    pub messages: u64,
    /// Elapsed times that were not known.
    pub elapsed_unknown: u64,
    /// Bodies not run because a signal handler came in the middle of another one.
    pub skipped: u64,
    /// Hits on threads for which there was no area.
    pub threads: u64,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Places that were patched, over all processes.
    pub points: usize,
    /// Longest time a process was held to put probes in, microseconds.
    pub pause_insert_us_max: f64,
    /// Longest time a process was held to take them out, microseconds.
    pub pause_remove_us_max: f64,
    /// What was not counted.
    pub loss: Loss,
    /// Anything that was not as it should be.
    pub warnings: Vec<String>,
}

struct Member {
    target: Target,
    source: Source,
    inserted: Inserted,
    reader: Reader,
    /// The clock's own thread area, as if a thread ran its bodies.
    clock_area: Vec<u64>,
    pause_remove_ns: u64,
    alive: bool,
    /// When that was last looked at.
    alive_ns: u64,
    /// What wakes us when the process ends; `None` where the kernel does not tell.
    end: Option<ProcessEnd>,
    tables: RangeTables,
    /// Refused loads when the tables were filled last.
    refused_count: u64,
}

/// A script in its processes. Dropping it takes the probes out.
pub struct Running {
    members: Vec<Member>,
    started_ns: u64,
    /// When each clock body is due, by number of the body.
    due_ns: Vec<(usize, u64)>,
    warnings: Vec<String>,
}

impl Running {
    /// Compiles for every process first, then inserts into all. If one can't be done, those done before are restored.
    ///
    /// # Errors
    /// [`Error::Script`] if the text is wrong, else what stood in the way in the first process where something did.
    pub fn start(targets: &[Target], options: &Options, cache: &ImageCache) -> Result<Self, Error> {
        let (first_ticks, first_ns) = (ticks(), monotonic_ns());
        let sources = targets.iter().map(|target| Source::new(target.pid, options, cache));
        let sources = sources.collect::<Result<Vec<Source>, Error>>()?;
        let ticks_per_second = tick_rate(first_ticks, first_ns);
        let mut members = Vec::new();
        for (target, source) in targets.iter().zip(sources) {
            members.push(Member::insert(*target, source, ticks_per_second)?);
        }
        let started_ns = monotonic_ns();
        let due_ns = clock_bodies(&members).map(|(number, period_ns)| (number, started_ns + period_ns)).collect();
        Ok(Running { members, started_ns, due_ns, warnings: Vec::new() })
    }

    /// How long the script wants to record; `None`: until told otherwise.
    pub fn wanted(&self) -> Option<Duration> {
        self.members.first()?.source.compiled.duration_us.map(Duration::from_micros)
    }

    /// Time since the probes are in.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(monotonic_ns() - self.started_ns)
    }

    /// Waits until it is worth looking again: a process has ended, a signal has come, a body of the clock is due, something
    /// may have come from the bodies, or `limit` is over.
    pub fn wait(&self, limit: Option<Duration>) {
        let now = monotonic_ns();
        let due = self.due_ns.iter().map(|(_, due)| Duration::from_nanos(due.saturating_sub(now))).min();
        let living = || self.members.iter().filter(|member| member.alive);
        let look = living().map(Member::look_every).min();
        let wait = [limit, due, look].into_iter().flatten().min().unwrap_or(LOOK_EVERY);
        wait_for_end(living().filter_map(|member| member.end.as_ref()), wait);
    }

    /// Functions of the script in the first process, and those that can't be probed.
    pub fn refusals(&self) -> (usize, Vec<Refusal>) {
        let Some(first) = self.members.first() else { return (0, Vec::new()) };
        let refused = first.source.refused.iter();
        let refused = refused.map(|one| Refusal { function: one.name.clone(), reason: one.reason.clone() });
        (first.source.functions, refused.collect())
    }

    /// Reads what has come, refreshes tables, runs what the clock calls.
    pub fn poll(&mut self) -> Poll {
        let due = self.take_due();
        let mut poll = Poll::default();
        for member in self.members.iter_mut().filter(|member| member.alive) {
            member.look_alive();
            member.refresh();
            poll.messages.extend(member.messages());
            for number in &due {
                let (messages, problem) = member.run_clock(*number);
                poll.messages.extend(messages);
                self.warnings.extend(problem.filter(|problem| !self.warnings.contains(problem)));
            }
            poll.stopped |= member.inserted.script().is_some_and(|script| script.is_stopped());
            poll.alive += usize::from(member.alive);
        }
        poll
    }

    fn take_due(&mut self) -> Vec<usize> {
        let now = monotonic_ns();
        let periods: Vec<(usize, u64)> = clock_bodies(&self.members).collect();
        let mut due = Vec::new();
        for (number, at) in self.due_ns.iter_mut().filter(|(_, at)| *at <= now) {
            let period = periods.iter().find(|(known, _)| known == number).map_or(u64::MAX, |(_, period)| *period);
            *at = (*at + period).max(now);
            due.push(*number);
        }
        due
    }

    /// The variables as they stand, over all processes.
    pub fn values(&self) -> Vec<Named> {
        let Some(first) = self.members.first() else { return Vec::new() };
        let areas: Vec<(Vec<u64>, Vec<Vec<u64>>)> = self.members.iter().map(Member::areas).collect();
        let threads: Vec<Vec<&[u64]>> =
            areas.iter().map(|(_, threads)| threads.iter().map(Vec::as_slice).collect()).collect();
        let ranks = self.members.iter().zip(&areas).zip(&threads);
        let ranks: Vec<RankAreas<'_>> = ranks
            .map(|((member, (process, _)), threads)| RankAreas { rank: member.rank(), process, threads })
            .collect();
        collect(&first.source.compiled.unit, &ranks)
    }

    /// Takes the probes out everywhere, reads the last messages, and says what it cost.
    pub fn finish(mut self) -> (Vec<Message>, Vec<Named>, Summary) {
        for member in &mut self.members {
            if let Some(script) = member.inserted.script() {
                script.set_recording(false);
            }
            match member.inserted.remove() {
                Ok(removal) => {
                    member.pause_remove_ns = removal.pause_ns_max;
                    if removal.left_mapped_bytes > 0 {
                        self.warnings.push(format!(
                            "process {pid}: every byte of code is restored, but {} bytes stay mapped: {}; `trimtab undo \
                             {pid}` unmaps them later",
                            removal.left_mapped_bytes,
                            removal.left_because.unwrap_or_default(),
                            pid = member.target.pid
                        ));
                    }
                }
                Err(error) => self.warnings.push(format!("process {}: {error}", member.target.pid)),
            }
        }
        let messages = self.members.iter_mut().flat_map(Member::messages).collect();
        (messages, self.values(), self.summary())
    }

    fn summary(&self) -> Summary {
        let mut loss = Loss::default();
        for member in &self.members {
            member.add_loss(&mut loss);
        }
        let longest = |pause: fn(&Member) -> u64| self.members.iter().map(pause).max().unwrap_or(0) as f64 / 1e3;
        Summary {
            points: self.members.iter().map(|member| member.inserted.point_count).sum(),
            pause_insert_us_max: longest(|member| member.inserted.pause_ns),
            pause_remove_us_max: longest(|member| member.pause_remove_ns),
            loss,
            warnings: self.warnings.clone(),
        }
    }
}

/// Bodies that the clock calls, with their periods in nanoseconds.
fn clock_bodies(members: &[Member]) -> impl Iterator<Item = (usize, u64)> {
    let bodies = members.first().map_or(&[][..], |member| member.source.compiled.unit.bodies.as_slice());
    bodies.iter().enumerate().filter_map(|(number, body)| match body.when {
        When::Every { period_us } => Some((number, period_us.max(1) * 1000)),
        _ => None,
    })
}

fn tick_rate(first_ticks: u64, first_ns: u64) -> f64 {
    let passed = monotonic_ns() - first_ns;
    if passed < RATE_NS_MIN {
        std::thread::sleep(Duration::from_nanos(RATE_NS_MIN - passed));
    }
    (ticks() - first_ticks) as f64 / (monotonic_ns() - first_ns) as f64 * 1e9
}

impl Member {
    fn insert(target: Target, source: Source, ticks_per_second: f64) -> Result<Self, Error> {
        let pid = target.pid;
        let unit = &source.compiled.unit;
        let maps = MappingTable::of(pid).map_err(|error| Error::of(pid)(error.into()))?;
        let tables = RefCell::new(ScriptView::tables(unit));
        let initialise = |view: View<'_>| {
            let Some(script) = ScriptView::of(view) else { return };
            let known = |number: Option<u32>| number.map_or(-1, i64::from);
            let rank = (known(target.rank), known(target.ranks));
            script.start(unit, ScriptStart { rank, ticks_per_second, recording: true });
            // Another place may be tried, where they are empty again.
            *tables.borrow_mut() = ScriptView::tables(unit);
            script.set_ranges(&mut tables.borrow_mut(), &maps, source.guarded);
        };
        let inserted = source.prepared.insert(pid, SETUP, &initialise).map_err(Error::of(pid))?;
        let (reader, clock_area) = (Reader::new(unit), vec![0; unit.thread_bytes as usize / 8]);
        let mut member = Member {
            target,
            source,
            inserted,
            reader,
            clock_area,
            pause_remove_ns: 0,
            alive: true,
            alive_ns: monotonic_ns(),
            end: ProcessEnd::of(pid).ok(),
            tables: tables.into_inner(),
            // Anything but what it is: what was mapped is looked at again now that it is known what goes.
            refused_count: u64::MAX,
        };
        member.refresh();
        Ok(member)
    }

    fn rank(&self) -> i64 {
        self.target.rank.map_or(-1, i64::from)
    }

    fn unit(&self) -> &Unit {
        &self.source.compiled.unit
    }

    /// How often to look without being woken.
    fn look_every(&self) -> Duration {
        let is_watched = self.source.speaks || self.source.inside_at.is_some() || self.end.is_none();
        if is_watched { LOOK_EVERY } else { ALIVE_EVERY }
    }

    /// Whether the process still runs the program, looked at where something says so and else now and then.
    fn look_alive(&mut self) {
        let now = monotonic_ns();
        let has_ended = self.end.as_ref().is_none_or(ProcessEnd::is_over);
        if has_ended || now >= self.alive_ns + ALIVE_EVERY.as_nanos() as u64 {
            (self.alive, self.alive_ns) = (self.inserted.is_alive(), now);
        }
    }

    /// Fills the tables of readable memory anew: if a call that took memory away has emptied them, if a body was refused
    /// something, which may have been mapped since, and always where such calls can't all be seen.
    fn refresh(&mut self) {
        let (Some(script), Some(inside_at)) = (self.inserted.script(), self.source.inside_at) else { return };
        let refused_count = script.refused_count();
        // A thread without an area of its own can't say that it takes memory away.
        let guarded = self.source.guarded && script.threads_dropped() == 0;
        let is_known = guarded && !script.is_emptied() && refused_count == self.refused_count;
        if is_known || !script.begin_ranges(inside_at) {
            return;
        }
        self.refused_count = refused_count;
        if let Ok(maps) = MappingTable::of(self.target.pid) {
            script.set_ranges(&mut self.tables, &maps, guarded);
            script.end_ranges();
        }
    }

    fn messages(&mut self) -> Vec<Message> {
        let rank = self.rank();
        let Some(script) = self.inserted.script() else { return Vec::new() };
        if script.messages_head() == self.reader.position() {
            return Vec::new();
        }
        let (ring, head) = script.messages(self.unit());
        let messages = self.reader.read(&ring, head, rank, self.target.pid.0);
        script.messages_read(self.reader.position());
        messages
    }

    /// The process area, and those of all threads with the clock's last.
    fn areas(&self) -> (Vec<u64>, Vec<Vec<u64>>) {
        let Some(script) = self.inserted.script() else { return (Vec::new(), Vec::new()) };
        let mut threads = script.thread_areas(self.unit());
        if self.unit().bodies.iter().any(|body| matches!(body.when, When::Every { .. })) {
            threads.push(self.clock_area.clone());
        }
        if threads.is_empty() {
            // Nothing was hit: what was never counted is zero.
            threads.push(vec![0; self.unit().thread_bytes as usize / 8]);
        }
        (script.process_area(self.unit()), threads)
    }

    fn add_loss(&self, loss: &mut Loss) {
        let (process, threads) = self.areas();
        let sum = |word: u32| threads.iter().filter_map(|area| area.get(word as usize / 8)).sum::<u64>();
        loss.unreadable_loads += sum(thread_word::UNREADABLE);
        loss.messages += sum(thread_word::MESSAGES_DROPPED) + self.reader.unfinished;
        loss.elapsed_unknown += sum(thread_word::ELAPSED_UNKNOWN);
        loss.skipped += sum(thread_word::SKIPPED);
        loss.threads += process.get(process_word::THREADS_DROPPED as usize / 8).copied().unwrap_or(0);
    }

    /// Runs a body of the clock here. It sees sums over all threads, other variables as its own thread left them, and
    /// globals of the program as they are now.
    fn run_clock(&mut self, number: usize) -> (Vec<Message>, Option<String>) {
        let Some(script) = self.inserted.script() else { return (Vec::new(), None) };
        let unit = self.source.compiled.unit.clone();
        let Some(body) = unit.bodies.get(number) else { return (Vec::new(), None) };
        let counted = sums(&unit, &script.thread_areas(&unit));
        let mut machine = Machine::new(&unit);
        machine.process = script.process_area(&unit);
        machine.thread.clone_from(&self.clock_area);
        machine.now_ticks = ticks();
        add_sums(&unit, &mut machine.thread, &counted, u64::wrapping_add);
        self.provide_globals(body, &mut machine);
        let problem = reference::run(&unit, body, &mut machine).err();
        add_sums(&unit, &mut machine.thread, &counted, u64::wrapping_sub);
        self.clock_area = machine.thread;
        let sent = machine.messages.into_iter().map(|message| Message {
            rank: self.rank(),
            pid: self.target.pid.0,
            tag: unit.texts.get(message.text).cloned().unwrap_or_default(),
            ticks: machine.now_ticks,
            values: message.values.into_iter().map(sent_value).collect(),
        });
        (sent.collect(), problem.map(|problem| format!("a body of the clock could not be run: {problem:?}")))
    }

    /// Copies the program's words that the body loads from constant addresses.
    fn provide_globals(&self, body: &Body, machine: &mut Machine) {
        let Ok(memory) = Memory::open(self.target.pid) else { return };
        for address in constant_addresses(body) {
            if let Ok(bytes) = memory.read_vec(address, 8) {
                machine.memory.insert(address, bytes);
            }
        }
    }
}

fn sent_value(value: SentValue) -> MessageValue {
    match value {
        SentValue::Int(value) => MessageValue::Int(value),
        SentValue::Address(value) => MessageValue::Text(format!("{value:#x}")),
        SentValue::Float(value) => MessageValue::Float(value),
        SentValue::Text(bytes) => MessageValue::Text(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Integer sums over all threads, by variable.
fn sums(unit: &Unit, threads: &[Vec<u64>]) -> Vec<u64> {
    let word = |offset: u32| threads.iter().map(move |area| area[offset as usize / 8]);
    unit.variables
        .iter()
        .map(|variable| match (variable.kind, variable.area) {
            (Kind::Sum, Area::Thread) => word(variable.offset).fold(0, u64::wrapping_add),
            _ => 0,
        })
        .collect()
}

fn add_sums(unit: &Unit, area: &mut [u64], sums: &[u64], operation: fn(u64, u64) -> u64) {
    for (variable, sum) in unit.variables.iter().zip(sums).filter(|(variable, _)| variable.area == Area::Thread) {
        let word = &mut area[variable.offset as usize / 8];
        *word = operation(*word, *sum);
    }
}

/// Addresses that a body's loads name outright.
fn constant_addresses(body: &Body) -> Vec<u64> {
    let mut found = Vec::new();
    crate::walk::expressions(&body.statements, &mut |expression| {
        if let Expression::Load { address, .. } | Expression::LoadFloat { address, .. } = expression
            && let Expression::Int(address) = **address
        {
            found.push(address as u64);
        }
    });
    found.sort_unstable();
    found.dedup();
    found
}
