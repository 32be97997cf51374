//! One process with a script in it: what is in, what it has sent and counted, what the clock runs for it.
//!
//! Next: `part` for one insertion; `late` for libraries that come later; `run`, which has all processes.

use crate::error::Error;
use crate::late::{Look, Waiting};
use crate::message::{Message, MessageValue};
use crate::part::{AreaWords, Part};
use crate::run::{LOOK_EVERY, Late, Loss, Target};
use crate::source::{SETUP, Source};
use std::cell::RefCell;
use std::time::Duration;
use trimtab_os::{MappingTable, Memory, ProcessEnd, monotonic_ns, ticks};
use trimtab_session::{ImageCache, Prepared, RangeTables, ScriptStart, ScriptView};
use trimtab_snippet::ir::{Area, Body, Expression, Kind, Unit, When};
use trimtab_snippet::reference::{self, Machine, SentValue};
use trimtab_stub::view::View;

/// Between two looks where nothing comes from the bodies before the end, or while none of the processes is known to be
/// another program by now: only `execve` goes unnoticed otherwise.
const ALIVE_EVERY: Duration = Duration::from_millis(500);
/// Between two looks at what a process has mapped while a library is waited for; it is in after the second that sees it.
const LIBRARIES_EVERY: Duration = Duration::from_millis(20);

/// A process with a script in it.
pub(crate) struct Member {
    pub target: Target,
    pub source: Source,
    pub part: Part,
    /// Insertions in libraries that came later, which know nothing of this one.
    pub late: Vec<(Late, Part)>,
    /// The clock's own thread area, as if a thread ran its bodies.
    clock_area: Vec<u64>,
    pub alive: bool,
    /// When that was last looked at.
    alive_ns: u64,
    ticks_per_second: f64,
    /// When libraries were last looked for.
    libraries_ns: u64,
    /// What wakes us when the process ends; `None` where the kernel does not tell.
    pub end: Option<ProcessEnd>,
    tables: RangeTables,
    /// Refused loads when the tables were filled last.
    refused_count: u64,
}

impl Member {
    pub fn insert(target: Target, source: Source, ticks_per_second: f64) -> Result<Self, Error> {
        let pid = target.pid;
        let unit = &source.compiled.unit;
        let maps = MappingTable::of(pid).map_err(|error| Error::of(pid)(error.into()))?;
        let (part, tables) = inserted(&target, &source.prepared, unit, ticks_per_second, Some((&maps, source.guarded)))
            .map_err(Error::of(pid))?;
        let clock_area = vec![0; unit.thread_bytes as usize / 8];
        let mut member = Member {
            target,
            source,
            part,
            late: Vec::new(),
            clock_area,
            ticks_per_second,
            alive: true,
            alive_ns: monotonic_ns(),
            libraries_ns: 0,
            end: ProcessEnd::of(pid).ok(),
            tables,
            // Anything but what it is: what was mapped is looked at again now that it is known what goes.
            refused_count: u64::MAX,
        };
        member.refresh();
        Ok(member)
    }

    /// All insertions, those in later libraries first: they are taken out first.
    pub fn parts_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.late.iter_mut().map(|(_, part)| part).chain([&mut self.part])
    }

    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.part).chain(self.late.iter().map(|(_, part)| part))
    }

    pub fn awaited(&self) -> Vec<String> {
        self.source.waiting.iter().flat_map(Waiting::names).collect()
    }

    /// Looks now and then whether a library that is waited for is there, and puts the probes in that belong there. What
    /// could not be done.
    pub fn look_for_libraries(&mut self, cache: &ImageCache, started_ns: u64) -> Vec<String> {
        let now = monotonic_ns();
        if !self.alive || self.source.waiting.is_empty() || now < self.libraries_ns + LIBRARIES_EVERY.as_nanos() as u64
        {
            return Vec::new();
        }
        self.libraries_ns = now;
        // Another program's libraries are none of ours.
        let Some(maps) = MappingTable::of(self.target.pid).ok().filter(|_| self.part.inserted.is_alive()) else {
            return Vec::new();
        };
        let mut problems = Vec::new();
        for mut waiting in std::mem::take(&mut self.source.waiting) {
            let look = match waiting.look(self.target.pid, &maps, &self.source.compiled.unit, cache) {
                Look::Ready(prepared) => self.insert_late(&mut waiting, &prepared, started_ns, &mut problems),
                other => other,
            };
            match look {
                Look::NotYet => self.source.waiting.push(waiting),
                Look::Refused(reason) => {
                    let pid = self.target.pid;
                    problems
                        .push(format!("process {pid}: {} was loaded but can't be probed: {reason}", waiting.library));
                }
                Look::Ready(_) | Look::Done => {}
            }
        }
        problems
    }
    fn insert_late(
        &mut self,
        waiting: &mut Waiting,
        prepared: &Prepared,
        started_ns: u64,
        problems: &mut Vec<String>,
    ) -> Look {
        let part = match inserted(&self.target, prepared, self.unit(), self.ticks_per_second, None) {
            Ok((part, _)) => part,
            Err(error) => return waiting.failed(&error.to_string()),
        };
        if !self.part.inserted.is_alive() {
            // It has executed another program meanwhile, which the bodies were not made for.
            return Look::NotYet;
        }
        let pid = self.target.pid;
        let refused = prepared.refused.iter();
        problems.extend(refused.map(|one| format!("process {pid}: not probed: {}: {}", one.name, one.reason)));
        let after_s = (monotonic_ns() - started_ns) as f64 / 1e9;
        let late = Late { pid: pid.0, library: waiting.library.clone(), after_s, points: part.inserted.point_count };
        self.late.push((late, part));
        Look::Done
    }

    pub fn rank(&self) -> i64 {
        self.target.rank_number()
    }

    fn unit(&self) -> &Unit {
        &self.source.compiled.unit
    }

    /// How often to look without being woken.
    pub fn look_every(&self) -> Duration {
        let is_watched = self.source.speaks || self.source.inside_at.is_some() || self.end.is_none();
        if is_watched || !self.source.waiting.is_empty() { LOOK_EVERY } else { ALIVE_EVERY }
    }

    /// Whether the process still runs the program, looked at where something says so and else now and then.
    pub fn look_alive(&mut self) {
        let now = monotonic_ns();
        let has_ended = self.end.as_ref().is_none_or(ProcessEnd::is_over);
        if has_ended || now >= self.alive_ns + ALIVE_EVERY.as_nanos() as u64 {
            (self.alive, self.alive_ns) = (self.part.inserted.is_alive(), now);
        }
    }

    /// Fills the tables of readable memory anew: if a call that took memory away has emptied them, if a body was refused
    /// something, which may have been mapped since, and always where such calls can't all be seen.
    pub fn refresh(&mut self) {
        let (Some(script), Some(inside_at)) = (self.part.inserted.script(), self.source.inside_at) else { return };
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

    pub fn messages(&mut self) -> Vec<Message> {
        let (target, unit) = (self.target, self.source.compiled.unit.clone());
        self.parts_mut().flat_map(|part| part.messages(&target, &unit)).collect()
    }

    /// The process area, and those of all threads with the clock's last; then those of later libraries that were used.
    pub fn areas(&self) -> Vec<AreaWords> {
        let unit = self.unit();
        let (process, mut threads) = self.part.areas(unit);
        if unit.bodies.iter().any(|body| matches!(body.when, When::Every { .. })) {
            threads.push(self.clock_area.clone());
        }
        if threads.is_empty() {
            // Nothing was hit: what was never counted is zero.
            threads.push(vec![0; unit.thread_bytes as usize / 8]);
        }
        let late = self.late.iter().map(|(_, part)| part.areas(unit)).filter(|(_, threads)| !threads.is_empty());
        std::iter::once((process, threads)).chain(late).collect()
    }

    pub fn add_loss(&self, loss: &mut Loss) {
        self.parts().for_each(|part| part.add_loss(&part.areas(self.unit()), loss));
    }

    /// Runs a body of the clock here. It sees sums over all threads, other variables as its own thread left them, and
    /// globals of the program as they are now.
    pub fn run_clock(&mut self, number: usize) -> (Vec<Message>, Option<String>) {
        let Some(script) = self.part.inserted.script() else { return (Vec::new(), None) };
        let unit = self.source.compiled.unit.clone();
        let Some(body) = unit.bodies.get(number) else { return (Vec::new(), None) };
        let threads: Vec<Vec<u64>> = self.parts().flat_map(|part| part.areas(&unit).1).collect();
        let counted = sums(&unit, &threads);
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

/// Puts a script in. Without `readable` mappings its bodies find no memory of the program readable.
fn inserted(
    target: &Target,
    prepared: &Prepared,
    unit: &Unit,
    ticks_per_second: f64,
    readable: Option<(&MappingTable, bool)>,
) -> Result<(Part, RangeTables), trimtab_session::Error> {
    let tables = RefCell::new(ScriptView::tables(unit));
    let initialise = |view: View<'_>| {
        let Some(script) = ScriptView::of(view) else { return };
        let rank = (target.rank_number(), target.ranks.map_or(-1, i64::from));
        script.start(unit, ScriptStart { rank, ticks_per_second, recording: true });
        // Another place may be tried, where they are empty again.
        *tables.borrow_mut() = ScriptView::tables(unit);
        if let Some((maps, guarded)) = readable {
            script.set_ranges(&mut tables.borrow_mut(), maps, guarded);
        }
    };
    let inserted = prepared.insert(target.pid, SETUP, &initialise)?;
    Ok((Part::new(inserted, unit), tables.into_inner()))
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
