//! Counters that the kernel keeps for a thread (`perf_event_open`): of the processor, and of the kernel itself.
//!
//! [`Counter`] is read from outside whenever somebody likes. A [`PassWatch`] is told of each write of a thread to some words
//! of its memory: the processor's debug registers notice it, and the kernel notes at that very moment what the counters of that
//! thread say. Nothing is put into the process for either, and both end with their descriptors.
//!
//! Next: `trimtab-measure`'s `counters`, which says what the numbers mean.

use crate::shared::SharedMapping;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of events, as `perf_event_open` numbers them.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const BREAKPOINT: u32 = 5;

/// Bits of the kernel's `struct perf_event_attr`.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Words read beside the count: for how long the event was wanted, for how long it was counted, and whose count it is.
const READ_TIMES: u64 = 1 | 2;
const READ_IDS: u64 = 4;
const READ_GROUP: u64 = 8;
/// Parts of a note: the time, all counts of the group, and whose it is.
const SAMPLE: u64 = 1 << 2 | 1 << 4 | 1 << 16;
/// A write, of eight bytes.
const WRITE: u32 = 2;
const WORD_BYTES: u64 = 8;
/// Requests to the kernel about an event that is open: begin and end after so many notes; put notes into another's ring.
const REFRESH: libc::c_ulong = 0x2402;
const DISABLE: libc::c_ulong = 0x2401;
const SET_OUTPUT: libc::c_ulong = 0x2405;
const GET_ID: libc::c_ulong = 0x8008_2407;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Pages of notes behind the first page, which says where they begin and end.
const RING_PAGES: usize = 16;
const PAGE: usize = 4096;
/// Words of the first page: how many bytes of notes were written, and were read.
const HEAD_WORD: usize = 128;
const TAIL_WORD: usize = 129;
/// Kinds of notes.
const NOTE_LOST: u32 = 2;
const NOTE_SAMPLE: u32 = 9;

/// The beginning of the kernel's `struct perf_event_attr`, as long as it was in Linux 2.6.33.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_kind: u32,
    address: u64,
    length: u64,
}

/// Something that can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedEvent {
    /// As `perf` names it.
    pub name: &'static str,
    /// The processor counts it; else the kernel.
    pub is_hardware: bool,
    /// Its count is in nanoseconds.
    pub is_time: bool,
    config: u64,
    /// It happens in the kernel, so that somebody who may not look there has no count.
    is_kernels: bool,
}

const fn hardware(name: &'static str, config: u64) -> CountedEvent {
    CountedEvent { name, is_hardware: true, is_time: false, config, is_kernels: false }
}

const fn software(name: &'static str, config: u64) -> CountedEvent {
    CountedEvent { name, is_hardware: false, is_time: false, config, is_kernels: false }
}

/// All events with names.
pub const COUNTED_EVENTS: [CountedEvent; 13] = [
    hardware("instructions", 1),
    hardware("cycles", 0),
    hardware("cache-references", 2),
    hardware("cache-misses", 3),
    hardware("branches", 4),
    hardware("branch-misses", 5),
    hardware("stalled-cycles", 8),
    CountedEvent { is_time: true, ..software("task-clock", 1) },
    software("page-faults", 2),
    software("minor-faults", 5),
    software("major-faults", 6),
    CountedEvent { is_kernels: true, ..software("context-switches", 3) },
    CountedEvent { is_kernels: true, ..software("cpu-migrations", 4) },
];

impl CountedEvent {
    /// The event of this name.
    pub fn named(name: &str) -> Option<CountedEvent> {
        COUNTED_EVENTS.into_iter().find(|event| event.name == name)
    }

    /// Of the processor's events those count that happen outside of the kernel: they are the program's own work.
    fn attributes(&self) -> Attributes {
        let flags = if self.is_hardware { EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR } else { 0 };
        let kind = if self.is_hardware { HARDWARE } else { SOFTWARE };
        Attributes { kind, config: self.config, read_format: READ_TIMES, flags, ..Attributes::default() }
    }

    /// Tries; where the kernel refuses to count what happens inside of it, what happens outside, if the event can; whether it
    /// is only that.
    fn open(&self, tid: i32, group: i32, flags: u64) -> io::Result<(File, bool)> {
        let attributes = self.attributes();
        let all = Attributes { flags: attributes.flags | flags, ..attributes };
        let is_user_only = all.flags & EXCLUDE_KERNEL != 0;
        let is_refused = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
        match open(&all, tid, group) {
            Err(error) if is_refused(&error) && !self.is_kernels && !is_user_only => {
                let less = Attributes { flags: all.flags | EXCLUDE_KERNEL, ..all };
                Ok((open(&less, tid, group)?, !self.is_time))
            }
            opened => Ok((opened?, is_user_only)),
        }
    }
}

fn open(attributes: &Attributes, tid: i32, group: i32) -> io::Result<File> {
    let attributes = Attributes { size: size_of::<Attributes>() as u32, ..*attributes };
    let any_processor: libc::c_long = -1;
    // SAFETY: the attributes outlive the call, which reads as many bytes of them as they say.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            libc::c_long::from(tid),
            any_processor,
            libc::c_long::from(group),
            CLOSE_ON_EXEC,
        )
    };
    if descriptor == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else's.
    Ok(unsafe { File::from_raw_fd(descriptor as i32) })
}

fn ask(file: &File, request: libc::c_ulong, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: these requests take a plain number.
    if unsafe { libc::ioctl(file.as_raw_fd(), request, value) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn id_of(file: &File) -> io::Result<u64> {
    let mut id = 0u64;
    // SAFETY: this request writes eight bytes, which `id` has.
    if unsafe { libc::ioctl(file.as_raw_fd(), GET_ID, &raw mut id) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(id)
}

/// A count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// As far as it was counted.
    pub value: u64,
    /// Nanoseconds for which the thread ran and it was to be counted.
    pub enabled_ns: u64,
    /// Nanoseconds for which it was: fewer, where several events share the processor's counters.
    pub running_ns: u64,
}

/// An event of one thread, and of those that it will start.
#[derive(Debug)]
pub struct Counter {
    file: File,
    /// Events inside of the kernel are not counted.
    pub is_user_only: bool,
}

impl Counter {
    /// Begins to count.
    ///
    /// # Errors
    /// As the kernel says: `ENOENT` where the processor has no such event, `EACCES` and `EPERM` where it may not be looked at,
    /// `ESRCH` for a thread that has ended.
    pub fn open(event: &CountedEvent, tid: i32) -> io::Result<Counter> {
        let (file, is_user_only) = event.open(tid, -1, INHERIT)?;
        Ok(Counter { file, is_user_only })
    }

    /// The count so far; also of a thread that has ended.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn read(&self) -> io::Result<Count> {
        let mut bytes = [0; 24];
        (&self.file).read_exact(&mut bytes)?;
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
            u64::from_le_bytes(word)
        };
        Ok(Count { value: word(0), enabled_ns: word(1), running_ns: word(2) })
    }
}

/// Readings of a thread's counters in the moment of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassReading {
    /// Position of the word that was written among those that are watched.
    pub place: usize,
    /// The kernel's time, nanoseconds.
    pub time_ns: u64,
    /// For all events alike.
    pub enabled_ns: u64,
    /// As [`Count::running_ns`].
    pub running_ns: u64,
    /// In the order of the events.
    pub values: Vec<u64>,
}

/// Watches writes of one thread to some words of its memory.
#[derive(Debug)]
pub struct PassWatch {
    /// Of each word; the first is the group's leader, whose ring all notes go to.
    places: Vec<(File, u64)>,
    events: Vec<(File, u64)>,
    ring: SharedMapping,
    /// Notes that found no room.
    lost: u64,
}

impl PassWatch {
    /// Words that can be watched at a time: the processor has four such registers, and one is left to debuggers.
    pub const PLACES_MAX: usize = 3;

    /// Prepares a watch of the words at these addresses of the thread's process, each a multiple of 8. Nothing is noted before
    /// [`PassWatch::note`].
    ///
    /// # Errors
    /// As the kernel says: `ENOSPC` where all registers are taken, and as [`Counter::open`].
    pub fn open(tid: i32, addresses: &[u64], events: &[CountedEvent]) -> io::Result<PassWatch> {
        let mut places: Vec<(File, u64)> = Vec::new();
        let group = |places: &[(File, u64)]| places.first().map_or(-1, |(file, _)| file.as_raw_fd());
        for address in addresses {
            let attributes = Attributes {
                kind: BREAKPOINT,
                sample_period: 1,
                sample_type: SAMPLE,
                read_format: READ_GROUP | READ_TIMES | READ_IDS,
                flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
                breakpoint_kind: WRITE,
                address: *address,
                length: WORD_BYTES,
                ..Attributes::default()
            };
            let file = open(&attributes, tid, group(&places))?;
            let id = id_of(&file)?;
            places.push((file, id));
        }
        let (leader, others) = places.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let ring = SharedMapping::map(&leader.0, PAGE * (1 + RING_PAGES))?;
        for (file, _) in others {
            ask(file, SET_OUTPUT, leader.0.as_raw_fd() as libc::c_ulong)?;
        }
        let leader = leader.0.as_raw_fd();
        let member = |event: &CountedEvent| {
            let (file, _) = event.open(tid, leader, 0)?;
            let id = id_of(&file)?;
            Ok((file, id))
        };
        let events = events.iter().map(member).collect::<io::Result<Vec<_>>>()?;
        Ok(PassWatch { places, events, ring, lost: 0 })
    }

    /// How many words are watched.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Has so many more writes to a word be noted; the kernel ends it by itself.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn note(&self, place: usize, writes: u32) -> io::Result<()> {
        ask(&self.places[place].0, REFRESH, libc::c_ulong::from(writes))
    }

    /// Notes nothing more.
    pub fn end(&self) {
        for (file, _) in self.places.iter().rev() {
            // One of a process that is gone needs no end.
            let _ = ask(file, DISABLE, 0);
        }
    }

    /// Notes that found no room so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Notes since the last time, in order.
    pub fn drain(&mut self) -> Vec<PassReading> {
        let words = self.ring.words();
        let head = words[HEAD_WORD].load(Acquire);
        let mut at = words[TAIL_WORD].load(Relaxed);
        let mut readings = Vec::new();
        let word = |at: u64| words[PAGE / 8 + (at as usize / 8) % (RING_PAGES * PAGE / 8)].load(Ordering::Relaxed);
        while at < head {
            let (kind, size) = (word(at) as u32, (word(at) >> 48).max(8));
            let note: Vec<u64> = (at + 8..(at + size).min(head)).step_by(8).map(word).collect();
            match kind {
                NOTE_SAMPLE => readings.extend(self.reading(&note)),
                NOTE_LOST => self.lost += note.get(1).copied().unwrap_or(1),
                _ => {}
            }
            at += size;
        }
        words[TAIL_WORD].store(head, Release);
        readings
    }

    /// Its owner, the time, how many counts, the times, and each count with its owner.
    fn reading(&self, note: &[u64]) -> Option<PassReading> {
        let [id, time_ns, _, enabled_ns, running_ns, counts @ ..] = note else { return None };
        let place = self.places.iter().position(|(_, known)| known == id)?;
        let by_id: BTreeMap<u64, u64> = counts.chunks_exact(2).map(|pair| (pair[1], pair[0])).collect();
        let values = self.events.iter().map(|(_, id)| by_id.get(id).copied()).collect::<Option<Vec<u64>>>()?;
        let (time_ns, enabled_ns, running_ns) = (*time_ns, *enabled_ns, *running_ns);
        Some(PassReading { place, time_ns, enabled_ns, running_ns, values })
    }
}

/// Nanoseconds that a note of a write takes the thread that writes, on this machine; `None`: no such notes can be had.
pub fn note_cost_ns() -> Option<f64> {
    const WRITES: u32 = 32;
    static WORD: AtomicU64 = AtomicU64::new(0);
    let watch = PassWatch::open(crate::sys::own_thread(), &[WORD.as_ptr() as u64], &[]).ok()?;
    let round = || {
        let begun = crate::sys::monotonic_ns();
        (0..WRITES).for_each(|number| WORD.store(u64::from(number), Relaxed));
        crate::sys::monotonic_ns().saturating_sub(begun)
    };
    let without = round();
    watch.note(0, WRITES).ok()?;
    Some(round().saturating_sub(without) as f64 / f64::from(WRITES))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages that nobody has touched yet, touched.
    fn touch(pages: usize) {
        let mut memory = vec![0u8; (pages + 1) * PAGE];
        memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = std::hint::black_box(1));
        std::hint::black_box(&memory);
    }

    #[test]
    fn page_faults_of_a_thread_and_of_those_it_starts_are_counted() {
        let event = CountedEvent::named("page-faults").expect("it has a name");
        let counter = Counter::open(&event, crate::sys::own_thread()).expect("the kernel counts page faults");
        let before = counter.read().expect("a count");
        touch(1000);
        std::thread::spawn(|| touch(500)).join().expect("it ends");
        let after = counter.read().expect("a count");
        let faults = after.value - before.value;
        // The other thread's memory may lie in pages that are made some at a time.
        assert!((1200..1700).contains(&faults), "{faults}");
        assert_eq!(after.enabled_ns, after.running_ns, "the kernel counts all the time");
    }

    #[test]
    fn each_write_to_a_word_is_noted_with_what_the_counters_say() {
        static WORDS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
        let addresses = [WORDS[0].as_ptr() as u64, WORDS[1].as_ptr() as u64];
        let events = ["task-clock", "page-faults"].map(|name| CountedEvent::named(name).expect("it has a name"));
        let mut watch = match PassWatch::open(crate::sys::own_thread(), &addresses, &events) {
            Ok(watch) => watch,
            Err(error) => return eprintln!("SKIPPED: no debug registers here: {error}"),
        };
        watch.note(0, 100).expect("it begins");
        watch.note(1, 2).expect("it begins");
        for round in 0..4 {
            WORDS[0].store(round, Relaxed);
            touch(100);
            WORDS[1].store(round, Relaxed);
        }
        let readings = watch.drain();
        let places: Vec<usize> = readings.iter().map(|reading| reading.place).collect();
        assert_eq!(places, [0, 1, 0, 1, 0, 0], "the second word is noted twice only");
        let faults = readings[1].values[1] - readings[0].values[1];
        assert!((100..120).contains(&faults), "{faults} faults between the first two writes");
        assert!(
            readings.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns && pair[0].values[0] < pair[1].values[0])
        );
        watch.end();
        WORDS[0].store(9, Relaxed);
        assert_eq!((watch.drain(), watch.lost()), (Vec::new(), 0), "nothing behind the end");
        assert!(note_cost_ns().expect("a cost") > 0.0);
    }
}
