//! Bodies that trimtab runs itself, outside of the program: those of the clock, and those that run once.
//!
//! They are run by the interpreter that is the language's meaning. It is given the script's variables as they stand, and
//! the program's memory page by page as it asks: what it looked for and did not have is read, and it is run again from
//! the start. Only when nothing is missing any more does anything happen: messages are sent, variables are changed, and
//! what was stored is written. The program is not stopped for it, so it may change meanwhile what is looked at. Functions
//! that a body that runs once calls, a thread of the program calls last of all, at a moment that is safe
//! (`trimtab_session::call_once`).
//!
//! Next: `member`, whose bodies these are; `trimtab-snippet`'s `reference`, which runs them.

use crate::member::Member;
use crate::message::{Message, MessageValue};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_os::{Mapping, MappingTable, Memory, ticks};
use trimtab_session::{call_once, may_be_read};
use trimtab_snippet::ir::{Area, Body, Kind, Unit, When, thread_word};
use trimtab_snippet::reference::{self, Call, Machine, Malformed};
use trimtab_types::{Pid, ProcAddr};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Pages that one run may look at; what lies elsewhere counts as not readable.
const PAGES_MAX: usize = 256;

/// The words of a run: its messages, and what went wrong.
pub(crate) type Said = (Vec<Message>, Option<String>);

impl Member {
    /// Runs a body here. It sees sums over all threads, other variables as bodies run here left them, and the program's
    /// memory as it is now.
    pub fn run_clock(&mut self, number: usize) -> Said {
        let Some(script) = self.part.inserted.script() else { return Said::default() };
        let unit = self.source.compiled.unit.clone();
        let Some(body) = unit.bodies.get(number) else { return Said::default() };
        // The memory that is opened now stays this program's, also when the process executes another one.
        let memory = Memory::open(self.target.pid);
        let (Ok(memory), true) = (memory, self.part.inserted.is_alive()) else { return Said::default() };
        let threads: Vec<Vec<u64>> = self.parts().flat_map(|part| part.areas(&unit).1).collect();
        let counted = sums(&unit, &threads);
        let before = script.process_area(&unit);
        let mut machine = Machine::new(&unit);
        machine.process.clone_from(&before);
        machine.thread.clone_from(&self.outside_area);
        machine.now_ticks = ticks();
        add_sums(&unit, &mut machine.thread, &counted, u64::wrapping_add);
        let seen = Seen::new(self.target.pid, &memory);
        let mut machine = match seen.run(&unit, body, &machine) {
            Ok(machine) => machine,
            Err(problem) => return (Vec::new(), Some(format!("a body could not be run by trimtab: {problem}"))),
        };
        seen.store(&mut machine);
        add_sums(&unit, &mut machine.thread, &counted, u64::wrapping_sub);
        script.change_process_area(&unit, &before, &machine.process);
        let sent = machine.messages.into_iter().map(|message| Message {
            rank: self.rank(),
            pid: self.target.pid.0,
            tag: unit.texts.get(message.text).cloned().unwrap_or_default(),
            ticks: machine.now_ticks,
            values: message.values.into_iter().map(MessageValue::from).collect(),
        });
        let sent = sent.collect();
        self.outside_area = machine.thread;
        (sent, self.make_calls(&machine.calls))
    }

    /// Has a thread of the program call what a body calls, all at the same moment; what went wrong.
    fn make_calls(&self, calls: &[Call]) -> Option<String> {
        if calls.is_empty() {
            return None;
        }
        let calls: Vec<(ProcAddr, Vec<i64>)> =
            calls.iter().map(|call| (call.address, call.arguments.clone())).collect();
        match call_once(self.target.pid, &calls, &self.cache) {
            Ok(made) if made.has_returned => None,
            Ok(_) => Some(format!(
                "process {}: a function called once has not returned yet; the thread that calls it goes on when it does",
                self.target.pid
            )),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Runs what is to run once, if the script records by now, and ends a script that has nothing else.
    pub fn run_once(&mut self) -> Vec<Message> {
        if self.once.is_empty() || !self.alive || !self.records() {
            return Vec::new();
        }
        let mut messages = Vec::new();
        for number in std::mem::take(&mut self.once) {
            let (sent, problem) = self.run_clock(number);
            messages.extend(sent);
            self.problems.extend(problem);
        }
        let others = self.unit().bodies.iter().any(|body| body.when != When::Once);
        if let Some(script) = self.part.inserted.script().filter(|_| !others) {
            script.stop();
        }
        messages
    }

    /// True if bodies run: the script is neither over nor waiting for its start.
    fn records(&self) -> bool {
        let Some(script) = self.part.inserted.script() else { return false };
        let begun = self.source.compiled.recording.and_then(|variable| self.unit().variables.get(variable));
        let has_begun = |offset: u32| script.process_area(self.unit()).get(offset as usize / 8) != Some(&0);
        script.is_recording() && begun.is_none_or(|variable| has_begun(variable.offset))
    }
}

/// The memory of a process as one run sees it.
struct Seen<'a> {
    memory: &'a Memory,
    maps: MappingTable,
}

impl<'a> Seen<'a> {
    fn new(pid: Pid, memory: &'a Memory) -> Self {
        Seen { memory, maps: MappingTable::of(pid).unwrap_or_default() }
    }

    /// A machine that begins as `start` after it has run `body` with all the memory that the body looked at.
    fn run(&self, unit: &Unit, body: &Body, start: &Machine) -> Result<Machine, Malformed> {
        let (mut pages, mut known) = (BTreeMap::new(), BTreeSet::new());
        loop {
            let mut machine = start.clone();
            machine.memory = joined(&pages);
            reference::run(unit, body, &mut machine)?;
            let page_of = |address: u64| address & !(PAGE - 1);
            // A value that is looked at may reach into the next page.
            let missed = machine.missed.iter().flat_map(|address| [*address, address.wrapping_add(7)]);
            let wanted: BTreeSet<u64> = missed.map(page_of).filter(|page| !known.contains(page)).collect();
            if wanted.is_empty() || known.len() >= PAGES_MAX {
                return Ok(machine);
            }
            for page in wanted.iter().take(PAGES_MAX) {
                known.insert(*page);
                if let Some(bytes) = self.page(*page) {
                    pages.insert(*page, bytes);
                }
            }
        }
    }

    fn page(&self, page: u64) -> Option<Vec<u8>> {
        self.maps.at(page).filter(|mapping| may_be_read(mapping))?;
        self.memory.read_vec(page, PAGE as usize).ok()
    }

    /// Writes what was stored where the program may write, each value in one piece; what is refused is counted.
    fn store(&self, machine: &mut Machine) {
        let may_be_written = |mapping: &&Mapping| may_be_read(mapping) && mapping.writable;
        for (address, bytes) in std::mem::take(&mut machine.stores) {
            let last = address.wrapping_add(bytes.len() as u64 - 1);
            let allowed = [address, last].iter().all(|at| self.maps.at(*at).filter(may_be_written).is_some());
            if !allowed || self.memory.write(address, &bytes).is_err() {
                machine.thread[thread_word::UNREADABLE as usize / 8] += 1;
            }
        }
    }
}

/// Pages as ranges that do not touch.
fn joined(pages: &BTreeMap<u64, Vec<u8>>) -> BTreeMap<u64, Vec<u8>> {
    let mut ranges: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (page, bytes) in pages {
        match ranges.last_entry() {
            Some(mut last) if last.key() + last.get().len() as u64 == *page => last.get_mut().extend_from_slice(bytes),
            _ => drop(ranges.insert(*page, bytes.clone())),
        }
    }
    ranges
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
