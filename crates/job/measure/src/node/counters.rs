//! Counters of a node's ranks: opened before a window, read beside its borders and noted at its marks.
//!
//! Each thread of a rank has one event per counter, which those that it starts inherit. The kernel also notes what the
//! iterating thread's counters say whenever it writes a mark, and for some iterations whenever it enters or leaves MPI: so the
//! numbers belong to iterations exactly. Such a note takes the rank a microsecond or, in a virtual machine, many; how many is
//! measured, and marks that come so fast that notes would cost more than a small share of the time are not noted.
//!
//! Next: `trimtab_window::count`, which makes numbers of the readings.

use super::observe::main_slot;
use super::team::{Member, Team};
use crate::options::Options;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::offset_of;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use trimtab_os::{COUNTED_EVENTS, CountedEvent, Counter, PassReading, PassWatch, note_cost_ns, thread_ids, ticks};
use trimtab_stub::layout::{Frame, Header, Slot, state};
use trimtab_types::Pid;
use trimtab_types::report::{self, CounterCost};
use trimtab_window::{Borders, CounterLook, CounterNote, CounterReadings, NoNotes, NoteMoment, RawCount, count};

/// Looks from outside that are kept: those around the beginning, and the latest.
const LOOKS_MAX: usize = 64;
const LOOKS_FIRST: usize = 4;
/// Threads whose writes are watched to find the one that iterates.
const WATCHED_THREADS_MAX: usize = 16;
/// Notes of marks in a window, and of calls of MPI.
const MARK_NOTES_MAX: u32 = 1 << 16;
const CALL_NOTES_MAX: u32 = 128;
/// Percent of a rank's time that notes of marks may take, unless `--max-cost` says otherwise.
const NOTES_PERCENT_MAX: f64 = 5.0;
/// Tries to open the counters of all threads while some begin and end.
const OPEN_TRIES: u32 = 5;
/// Marks from which their pace is told.
const PACE_MARKS_MIN: u64 = 3;
/// Words that are watched, in this order.
const MOMENTS: [NoteMoment; 3] = [NoteMoment::Mark, NoteMoment::Enter, NoteMoment::Leave];

/// Why a counter does not count, and the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCounter {
    /// Nothing is called so.
    #[error("no counter is called {name}; there are {}", COUNTED_EVENTS.map(|event| event.name).join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// The processor can't.
    #[error(
        "not supported: the processor has no counter for {name} here; virtual machines often have none, ask its owner for a \
         virtual PMU"
    )]
    NotOfProcessor {
        /// The counter.
        name: String,
    },
    /// The kernel can't.
    #[error("not supported: this kernel does not count {name}")]
    NotOfKernel {
        /// The counter.
        name: String,
    },
    /// The kernel may not for us.
    #[error(
        "not permitted: kernel.perf_event_paranoid is {paranoid}; have an administrator run `sysctl \
         kernel.perf_event_paranoid=1`, or give trimtab CAP_PERFMON (`setcap cap_perfmon+ep`); in a container its seccomp \
         profile must allow perf_event_open"
    )]
    NotPermitted {
        /// The setting.
        paranoid: i32,
    },
    /// There is no setting because there are no events.
    #[error("not permitted: this kernel has no perf events")]
    NoEvents,
    /// No descriptor is left.
    #[error("too many files are open: raise `ulimit -n`")]
    ManyFiles,
    /// One of its threads is gone.
    #[error("a thread ended just as its counter was to begin; measure again")]
    ThreadEnded,
    /// Others begin and end all the time.
    #[error("threads come and go faster than their counters can be opened")]
    ThreadsComeAndGo,
    /// Something else.
    #[error("not counted: {reason}")]
    Refused {
        /// The system's words.
        reason: String,
    },
}

/// The counters of a node, each with its event; none is open before [`Counters::open`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// The names that were asked for, each with the event that counts it.
    wanted: Vec<(String, Option<CountedEvent>)>,
    ranks: Vec<RankCounters>,
    notes_percent_max: f64,
}

/// One counter on a rank.
#[derive(Debug)]
struct OpenCounter {
    name: String,
    event: CountedEvent,
    /// Of each thread.
    threads: Vec<Counter>,
}

/// The counters of one rank.
#[derive(Debug, Default)]
struct RankCounters {
    pid: Option<Pid>,
    tids: Vec<i32>,
    open: Vec<OpenCounter>,
    /// Those that can't be counted, and why.
    missing: BTreeMap<String, NoCounter>,
    looks: Vec<Look>,
    /// Of each watched thread.
    watches: Vec<(usize, PassWatch)>,
    is_noting_calls: bool,
    notes: Vec<(usize, PassReading)>,
    notes_missing: Option<NoNotes>,
}

/// All counters of all threads at one moment.
#[derive(Clone, Debug)]
struct Look {
    begun_ticks: u64,
    ended_ticks: u64,
    counts: Vec<Vec<RawCount>>,
}

impl Counters {
    /// For these names; `stand_ins` are events that count in place of others.
    pub(super) fn new(options: &Options, stand_ins: &BTreeMap<String, String>) -> Self {
        let event = |name: &String| CountedEvent::named(stand_ins.get(name).unwrap_or(name));
        let wanted = options.counters.iter().map(|name| (name.clone(), event(name))).collect();
        let notes_percent_max = options.max_cost.unwrap_or(NOTES_PERCENT_MAX);
        Counters { wanted, ranks: Vec::new(), notes_percent_max }
    }

    /// Begins to count all ranks' threads.
    pub(super) fn open(&mut self, team: &Team) {
        if !self.wanted.is_empty() {
            self.ranks =
                team.members.iter().map(|member| RankCounters::open(member.process.pid, &self.wanted)).collect();
        }
    }

    /// Prepares the notes of marks, before the ranks are told when to begin.
    pub(super) fn watch(&mut self, team: &Team) {
        for (rank, member) in self.ranks.iter_mut().zip(&team.members) {
            rank.watch(member);
        }
    }

    /// The ranks are about to be told when to begin: what was noted before belongs to no window.
    pub(super) fn begin(&mut self) {
        for rank in &mut self.ranks {
            rank.drain();
            rank.notes.clear();
            rank.look(false);
            // Few iterations lie before the first recorded one, and what is seen of them says nothing.
            rank.note_calls(CALL_NOTES_MAX / 2);
        }
    }

    /// Reads all counters, if there are any.
    pub(super) fn look(&mut self, team: &Team, ticks_per_second: f64) {
        for (rank, member) in self.ranks.iter_mut().zip(&team.members) {
            let header = super::header(member);
            let has_begun = header.first_ticks.load(Acquire) != 0;
            rank.look(has_begun);
            rank.drain();
            let share_max = self.notes_percent_max / 100.0;
            if has_begun && header.state.load(Acquire) == state::RECORD {
                if !std::mem::replace(&mut rank.is_noting_calls, true) {
                    rank.note_calls(CALL_NOTES_MAX);
                }
                rank.keep_cheap(header, ticks_per_second, share_max);
            } else if has_begun {
                rank.watches.iter().for_each(|(_, watch)| watch.end());
            }
        }
    }

    /// Counts of the rank at this place, and their cost.
    pub(super) fn told(&mut self, place: usize, borders: Borders) -> (Vec<report::Counter>, Option<CounterCost>) {
        let Some(rank) = self.ranks.get_mut(place) else { return (Vec::new(), None) };
        rank.drain();
        rank.watches.iter().for_each(|(_, watch)| watch.end());
        rank.told(borders)
    }
}

impl RankCounters {
    /// Threads come and go: opened are the events of all that are there before and afterwards.
    fn open(pid: Pid, wanted: &[(String, Option<CountedEvent>)]) -> Self {
        let mut rank = RankCounters::default();
        for _ in 0..OPEN_TRIES {
            rank = RankCounters::open_once(pid, wanted);
            let now = thread_ids(pid).unwrap_or_default();
            if now.len() == rank.tids.len() && now.iter().all(|tid| rank.tids.contains(tid)) {
                return rank;
            }
        }
        rank.missing.extend(rank.open.drain(..).map(|open| (open.name, NoCounter::ThreadsComeAndGo)));
        rank
    }

    fn open_once(pid: Pid, wanted: &[(String, Option<CountedEvent>)]) -> Self {
        let mut rank = RankCounters { pid: Some(pid), ..RankCounters::default() };
        rank.tids = thread_ids(pid).unwrap_or_default();
        // The first thread is the one that mostly iterates.
        rank.tids.sort_by_key(|tid| (*tid != pid.0, *tid));
        for (name, event) in wanted {
            let opened = event.ok_or_else(|| NoCounter::Unknown { name: name.clone() }).and_then(|event| {
                let threads = open_threads(&event, &rank.tids).map_err(|error| NoCounter::of(name, &error))?;
                Ok(OpenCounter { name: name.clone(), event, threads })
            });
            match opened {
                Ok(open) => rank.open.push(open),
                Err(reason) => drop(rank.missing.insert(name.clone(), reason)),
            }
        }
        rank.look(false);
        rank
    }

    /// Reads from outside; of the looks before a window's beginning only the latest is of use.
    fn look(&mut self, has_begun: bool) {
        if self.open.is_empty() {
            return;
        }
        let count = |counter: &Counter| {
            let count = counter.read().unwrap_or_default();
            RawCount { value: count.value, enabled_ns: count.enabled_ns, running_ns: count.running_ns }
        };
        let begun_ticks = ticks();
        let counts = self.open.iter().map(|open| open.threads.iter().map(count).collect()).collect();
        if !has_begun {
            self.looks.clear();
        }
        if self.looks.len() == LOOKS_MAX {
            self.looks.drain(LOOKS_FIRST..LOOKS_MAX / 2);
        }
        self.looks.push(Look { begun_ticks, ended_ticks: ticks(), counts });
    }

    fn watch(&mut self, member: &Member) {
        self.watches.clear();
        (self.is_noting_calls, self.notes_missing) = (false, None);
        if self.open.is_empty() {
            return;
        }
        if self.tids.len() > WATCHED_THREADS_MAX {
            self.notes_missing = Some(NoNotes::ManyThreads { most: WATCHED_THREADS_MAX });
            return;
        }
        let addresses = addresses(member);
        let events: Vec<CountedEvent> = self.open.iter().map(|open| open.event).collect();
        let watch = |(place, tid): (usize, &i32)| {
            let watch = PassWatch::open(*tid, &addresses, &events)?;
            watch.note(0, MARK_NOTES_MAX)?;
            Ok((place, watch))
        };
        match self.tids.iter().enumerate().map(watch).collect::<io::Result<Vec<_>>>() {
            Ok(watches) => self.watches = watches,
            Err(error) => self.notes_missing = Some(NoNotes::Refused { reason: error.to_string() }),
        }
    }

    fn drain(&mut self) {
        for (thread, watch) in &mut self.watches {
            self.notes.extend(watch.drain().into_iter().map(|reading| (*thread, reading)));
            if watch.lost() > 0 && self.notes_missing.is_none() {
                self.notes_missing = Some(NoNotes::TooFast);
            }
        }
    }

    /// So many more calls of MPI are noted.
    fn note_calls(&mut self, calls: u32) {
        if self.notes_missing.is_some() {
            return;
        }
        for (_, watch) in &self.watches {
            let begun = (1..watch.places()).try_for_each(|place| watch.note(place, calls));
            if begun.is_err() {
                self.notes_missing = Some(NoNotes::NoCalls);
            }
        }
    }

    /// Marks whose notes would cost too much are not noted any more.
    fn keep_cheap(&mut self, header: &Header, ticks_per_second: f64, share_max: f64) {
        let marks = header.marks_written.load(Acquire);
        let seconds = ticks().saturating_sub(header.first_ticks.load(Relaxed)) as f64 / ticks_per_second;
        if marks < PACE_MARKS_MIN || self.watches.is_empty() || self.notes_missing.is_some() {
            return;
        }
        let Some(reading_ns) = reading_ns() else { return };
        let share = marks as f64 * reading_ns * 1e-9 / seconds.max(1e-9);
        if share > share_max {
            self.watches.iter().for_each(|(_, watch)| watch.end());
            self.notes_missing = Some(NoNotes::TooDear { reading_us: reading_ns / 1e3, share });
        }
    }

    fn told(&self, borders: Borders) -> (Vec<report::Counter>, Option<CounterCost>) {
        let missing = |(name, why): (&String, &NoCounter)| report::Counter {
            name: name.clone(),
            missing: Some(why.to_string()),
            outside_missing: Some("it is not counted".to_owned()),
            ..report::Counter::default()
        };
        let mut told: Vec<report::Counter> = self.missing.iter().map(missing).collect();
        let threads_now = self.pid.and_then(|pid| thread_ids(pid).ok()).unwrap_or_default();
        let has_new_threads = threads_now.iter().any(|tid| !self.tids.contains(tid));
        for (index, open) in self.open.iter().enumerate() {
            let counted = count(&self.readings(index, has_new_threads), borders);
            let is_user_only = open.threads.iter().any(|thread| thread.is_user_only);
            told.push(report::Counter { name: open.name.clone(), user_only: is_user_only, ..counted });
        }
        let readings = self.notes.len() as u64;
        let cost = (readings > 0).then(|| CounterCost { readings, reading_ns: reading_ns() });
        (told, cost)
    }

    fn readings(&self, index: usize, has_new_threads: bool) -> CounterReadings {
        let look = |look: &Look| CounterLook {
            begun_ticks: look.begun_ticks,
            ended_ticks: look.ended_ticks,
            threads: look.counts[index].clone(),
        };
        let note = |(_, reading): &(usize, PassReading)| CounterNote {
            moment: MOMENTS[reading.place],
            count: RawCount {
                value: reading.values[index],
                enabled_ns: reading.enabled_ns,
                running_ns: reading.running_ns,
            },
        };
        let noted_thread = self.notes.first().map_or(0, |(thread, _)| *thread);
        let has_several = self.notes.iter().any(|(thread, _)| *thread != noted_thread);
        let several = has_several.then_some(NoNotes::SeveralThreads);
        CounterReadings {
            looks: self.looks.iter().map(look).collect(),
            noted_thread,
            notes: self.notes.iter().map(note).collect(),
            notes_missing: self.notes_missing.clone().or(several),
            has_new_threads,
        }
    }
}

/// In the rank's memory: the number of marks, the stack of the outermost open call, which is written when it is entered, and the time in communication, which is
/// written when an outermost call of MPI returns.
fn addresses(member: &Member) -> Vec<u64> {
    let view = member.inserted.view();
    let base = view.header().base.load(Relaxed);
    let marks = base + offset_of!(Header, marks_written) as u64;
    let of_slot = |slot: u64| {
        let entered = slot + (offset_of!(Slot, frames) + offset_of!(Frame, stack)) as u64;
        [entered, slot + offset_of!(Slot, group_ticks) as u64]
    };
    let slot = main_slot(view).map(|slot| of_slot(base + slot.offset()));
    std::iter::once(marks).chain(slot.into_iter().flatten()).collect()
}

/// All threads' events.
fn open_threads(event: &CountedEvent, tids: &[i32]) -> io::Result<Vec<Counter>> {
    tids.iter().map(|tid| Counter::open(event, *tid)).collect()
}

/// The cost of one note on this machine, nanoseconds; `None`: it can't be measured.
fn reading_ns() -> Option<f64> {
    static COST: OnceLock<Option<f64>> = OnceLock::new();
    *COST.get_or_init(note_cost_ns)
}

/// All counters by name, and why one can't be read of the caller's own processes.
pub fn what_counts() -> Vec<(&'static str, Result<(), NoCounter>)> {
    let own = std::process::id() as i32;
    let tried = |event: CountedEvent| {
        (event.name, Counter::open(&event, own).map(drop).map_err(|error| NoCounter::of(event.name, &error)))
    };
    COUNTED_EVENTS.into_iter().map(tried).collect()
}

impl NoCounter {
    /// The kernel's refusal.
    fn of(name: &str, error: &io::Error) -> Self {
        let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        let paranoid = paranoid.ok().and_then(|text| text.trim().parse().ok());
        NoCounter::of_code(name, error.raw_os_error().unwrap_or(0), paranoid)
            .unwrap_or_else(|| NoCounter::Refused { reason: error.to_string() })
    }

    fn of_code(name: &str, code: i32, paranoid: Option<i32>) -> Option<Self> {
        const ESRCH: i32 = 3;
        const ENOENT: i32 = 2;
        const PERMISSION: [i32; 2] = [1, 13];
        const FILES: [i32; 2] = [23, 24];
        const NOT_THERE: [i32; 3] = [19, 38, 95];
        Some(match code {
            ENOENT => NoCounter::NotOfProcessor { name: name.to_owned() },
            code if NOT_THERE.contains(&code) => NoCounter::NotOfKernel { name: name.to_owned() },
            code if PERMISSION.contains(&code) => {
                paranoid.map_or(NoCounter::NoEvents, |paranoid| NoCounter::NotPermitted { paranoid })
            }
            code if FILES.contains(&code) => NoCounter::ManyFiles,
            ESRCH => NoCounter::ThreadEnded,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_refused_names_the_next_step() {
        for (name, code, paranoid, said) in [
            ("no such counter", 2, Some(2), "no counter for cycles here"),
            ("not permitted", 13, Some(3), "perf_event_paranoid is 3; have an administrator run `sysctl"),
            ("not permitted in a container", 1, Some(-1), "seccomp profile must allow perf_event_open"),
            ("a kernel without", 1, None, "no perf events"),
            ("no such call", 38, None, "this kernel does not count cycles"),
            ("files", 24, Some(2), "ulimit -n"),
        ] {
            let why = NoCounter::of_code("cycles", code, paranoid).expect(name).to_string();
            assert!(why.contains(said), "{name}: {why}");
        }
        assert_eq!(NoCounter::of_code("cycles", 5, None), None);
        assert!(NoCounter::Unknown { name: "cycle".to_owned() }.to_string().contains("instructions, cycles"));
    }

    #[test]
    fn software_counters_work_and_others_say_why_not() {
        for (name, found) in what_counts() {
            let is_hardware = CountedEvent::named(name).expect("it is one").is_hardware;
            let refused = found.err().filter(|why| !matches!(why, NoCounter::NotPermitted { .. }));
            assert!(is_hardware || refused.is_none(), "{name}: {refused:?}");
        }
    }
}
