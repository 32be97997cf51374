//! A probe that presses on one resource at a known level, and counts how fast it gets on: threads on given processors that
//! compute, go about in a piece of memory as large as half of the last cache, or through one that no cache holds.
//!
//! Beside a program it is both pressure and gauge: the program slows, and so does the probe in each second of processor time that it
//! gets. It runs as a process of its own that ends when nobody holds its input any more, or its time is over.
//!
//! Next: `trimtab-engine`'s `pressed`, which runs it beside a job.

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fs;
use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that move together between caches.
const LINE: usize = 64;
/// Numbers in such a line.
const LINE_NUMBERS: usize = LINE / size_of::<u64>();
/// Lines that are touched in one piece of work: some tens of microseconds.
const PIECE_LINES: usize = 2048;
/// Steps of computing in one piece of work.
const PIECE_STEPS: usize = 16_384;
/// A probe that does not want a whole processor sleeps for the rest of each such period.
const PERIOD: Duration = Duration::from_millis(10);
/// A thread has no more memory than this, bytes
const BYTES_MAX: u64 = 256 << 20;
/// and all of them together no more than this part of what is free.
const FREE_PART: u64 = 4;
/// No probe lasts longer, seconds, whatever is asked.
pub const PRESSURE_S_MAX: f64 = 120.0;

/// The resource that is pressed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pressed {
    /// Nothing but the processor.
    Processor,
    /// The last cache: places here and there in half as much memory as it holds.
    Cache,
    /// Bandwidth to memory, and with it the last cache: line after line of more memory than it holds, read and written.
    Memory,
}

impl Pressed {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Pressed::Processor => "processor",
            Pressed::Cache => "cache",
            Pressed::Memory => "memory",
        }
    }

    /// The resource of a word.
    pub fn of_word(word: &str) -> Option<Pressed> {
        [Pressed::Processor, Pressed::Cache, Pressed::Memory].into_iter().find(|one| one.word() == word)
    }
}

/// How a probe presses.
#[derive(Clone, Debug, PartialEq)]
pub struct PressureOrder {
    /// On what.
    pub pressed: Pressed,
    /// The share of its processor time in which it does; in the rest it computes.
    pub level: f64,
    /// The share of each processor that it wants.
    pub wanted: f64,
    /// A thread runs on each of these.
    pub processors: Vec<u32>,
    /// It ends by itself after so many seconds.
    pub seconds: f64,
}

/// How far a probe has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureMark {
    /// Pieces of its work that press, of all threads; of one that only computes all pieces.
    pub pieces: u64,
    /// Processor time of these pieces, nanoseconds.
    pub cpu_ns: u64,
}

impl PressureMark {
    /// Pieces in a second of processor time since an earlier mark; `None`: none was done.
    pub fn rate_since(self, earlier: PressureMark) -> Option<f64> {
        let (pieces, cpu_ns) = (self.pieces - earlier.pieces, self.cpu_ns - earlier.cpu_ns);
        (pieces > 0 && cpu_ns > 0).then(|| pieces as f64 / cpu_ns as f64 * 1e9)
    }

    /// As it is written in a line.
    pub fn line(self) -> String {
        format!("{} {}", self.pieces, self.cpu_ns)
    }

    /// The mark in a line.
    pub fn of_line(line: &str) -> Option<PressureMark> {
        let (pieces, cpu_ns) = line.trim().split_once(' ')?;
        Some(PressureMark { pieces: pieces.parse().ok()?, cpu_ns: cpu_ns.parse().ok()? })
    }
}

/// Bytes that the last cache of a processor holds; `None`: the kernel does not say.
pub fn last_cache_bytes(root: &Path, processor: u32) -> Option<u64> {
    let folder = root.join(format!("sys/devices/system/cpu/cpu{processor}/cache"));
    let text = |place: &Path, name: &str| fs::read_to_string(place.join(name)).ok();
    let caches = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let known = caches.filter_map(|place| {
        let level: u32 = text(&place, "level")?.trim().parse().ok()?;
        Some((level, bytes_of(text(&place, "size")?.trim())?))
    });
    known.max().map(|(_, bytes)| bytes)
}

/// A size as the kernel writes it, "32768K".
fn bytes_of(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => (text.strip_suffix('M')?, 1 << 20),
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

/// Why a resource can't be pressed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPressure {
    /// How large its memory has to be is not known.
    #[error("the kernel does not say how much the last cache holds")]
    CacheUnknown,
    /// A probe may not have enough memory to go past the cache.
    #[error("the last cache holds {bytes} bytes, more than half of what a probe may have")]
    CacheLarge {
        /// Of the cache.
        bytes: u64,
    },
    /// The host would lack memory.
    #[error("{threads} probes of {bytes} bytes each are more than a quarter of the free memory")]
    LittleMemory {
        /// Probes.
        threads: u64,
        /// Of each.
        bytes: u64,
    },
}

/// Bytes of each thread's memory for a resource, of which there is `cache` and `free` in all; or why it can't be pressed on.
///
/// # Errors
/// The size of the cache is not known, or there is too little memory.
pub fn pressure_bytes(
    pressed: Pressed,
    cache: Option<u64>,
    free: Option<u64>,
    threads: u64,
) -> Result<u64, NoPressure> {
    let bytes = match (pressed, cache) {
        (Pressed::Processor, _) => return Ok(0),
        (_, None) => return Err(NoPressure::CacheUnknown),
        (Pressed::Cache, Some(cache)) => (cache / 2).min(BYTES_MAX),
        (Pressed::Memory, Some(cache)) if 2 * cache > BYTES_MAX => {
            return Err(NoPressure::CacheLarge { bytes: cache });
        }
        (Pressed::Memory, Some(cache)) => 2 * cache,
    };
    let room = free.unwrap_or(0) / FREE_PART;
    if bytes * threads > room {
        return Err(NoPressure::LittleMemory { threads, bytes });
    }
    Ok(bytes)
}

/// Presses as ordered until the input ends, the time is over, or a thread can't go where it is to; `bytes` is the memory of each
/// thread. A line that comes in is answered by a [`PressureMark`]; the first line that goes out says that all threads are at work.
///
/// # Errors
/// Threads that can't be started or moved, and those of writing.
pub fn press(order: &PressureOrder, bytes: u64, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    let until = Instant::now() + Duration::from_secs_f64(order.seconds.clamp(0.0, PRESSURE_S_MAX));
    let counts = Arc::new(Counts::default());
    let (told, ready) = std::sync::mpsc::channel();
    for processor in &order.processors {
        let (order, processor, counts, told) = (order.clone(), *processor, counts.clone(), told.clone());
        let work = move || match on(processor) {
            Ok(()) => Worker::new(&order, bytes).run(&counts, until, || told.send(Ok(())).is_ok()),
            Err(error) => {
                let _nobody_listens = told.send(Err(error));
            }
        };
        thread::Builder::new().name("trimtab-press".to_owned()).spawn(work)?;
    }
    // The process ends with its time, also while nothing comes in.
    thread::Builder::new().name("trimtab-end".to_owned()).spawn(move || {
        thread::sleep(until.saturating_duration_since(Instant::now()));
        std::process::exit(0);
    })?;
    for _ in &order.processors {
        ready.recv().unwrap_or_else(|_| Err(io::Error::other("a probe's thread failed")))?;
    }
    writeln!(output, "{}", counts.mark().line())?;
    output.flush()?;
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        line.clear();
        writeln!(output, "{}", counts.mark().line())?;
        output.flush()?;
    }
    Ok(())
}

/// Moves the calling thread.
fn on(processor: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    let place = processor as usize;
    if place >= CpuSet::MAX_CPU {
        return Err(io::Error::other(format!("processor {processor} is beyond those that can be chosen")));
    }
    set.set(place);
    Ok(sched_setaffinity(None, &set)?)
}

/// The work of all threads so far.
#[derive(Debug, Default)]
struct Counts {
    pieces: AtomicU64,
    cpu_ns: AtomicU64,
}

impl Counts {
    fn mark(&self) -> PressureMark {
        PressureMark { pieces: self.pieces.load(Ordering::Relaxed), cpu_ns: self.cpu_ns.load(Ordering::Relaxed) }
    }
}

/// One thread's work.
struct Worker {
    pressed: Pressed,
    level: f64,
    wanted: f64,
    numbers: Vec<u64>,
    /// Of the next number; always at the beginning of a line.
    place: usize,
    random: u64,
}

impl Worker {
    fn new(order: &PressureOrder, bytes: u64) -> Worker {
        // Each page is written, so that it is there.
        let count = (bytes as usize / size_of::<u64>() / LINE_NUMBERS * LINE_NUMBERS).max(LINE_NUMBERS);
        let numbers: Vec<u64> = (0..count as u64).collect();
        Worker { pressed: order.pressed, level: order.level, wanted: order.wanted, numbers, place: 0, random: 1 }
    }

    fn run(mut self, counts: &Counts, until: Instant, mut at_work: impl FnMut() -> bool) {
        // Once through all of it before it counts.
        let lines = self.numbers.len() / LINE_NUMBERS;
        (0..lines.div_ceil(PIECE_LINES)).for_each(|_| self.stream());
        if !at_work() {
            return;
        }
        let (mut period, mut used_ns, mut owed_ns) = (Instant::now(), 0_u64, 0.0_f64);
        while Instant::now() < until {
            let is_pressing = self.pressed == Pressed::Processor || owed_ns <= 0.0 && self.level > 0.0;
            let before = cpu_ns();
            if is_pressing && self.pressed != Pressed::Processor {
                self.press()
            } else {
                self.compute()
            }
            let spent_ns = cpu_ns() - before;
            used_ns += spent_ns;
            if is_pressing || self.level <= 0.0 {
                counts.pieces.fetch_add(1, Ordering::Relaxed);
                counts.cpu_ns.fetch_add(spent_ns, Ordering::Relaxed);
                owed_ns += if self.level > 0.0 { spent_ns as f64 * (1.0 / self.level - 1.0) } else { 0.0 };
            } else {
                owed_ns -= spent_ns as f64;
            }
            let passed = period.elapsed();
            if used_ns as f64 >= self.wanted * PERIOD.as_nanos() as f64 || passed >= PERIOD {
                if self.wanted < 1.0 {
                    thread::sleep(PERIOD.saturating_sub(passed));
                }
                (period, used_ns) = (Instant::now(), 0);
            }
        }
    }

    fn press(&mut self) {
        match self.pressed {
            Pressed::Processor => self.compute(),
            Pressed::Memory => self.stream(),
            Pressed::Cache => self.visit(),
        }
    }

    fn compute(&mut self) {
        for _ in 0..PIECE_STEPS {
            self.random = black_box(next(self.random));
        }
    }

    /// Line after line, read and written.
    fn stream(&mut self) {
        let end = (self.place + PIECE_LINES * LINE_NUMBERS).min(self.numbers.len());
        for number in self.numbers[self.place..end].iter_mut().step_by(LINE_NUMBERS) {
            *number = number.wrapping_add(1);
        }
        self.place = if end == self.numbers.len() { 0 } else { end };
        black_box(&mut self.numbers);
    }

    /// Lines here and there.
    fn visit(&mut self) {
        let lines = (self.numbers.len() / LINE_NUMBERS) as u64;
        for _ in 0..PIECE_LINES {
            self.random = next(self.random);
            let line = ((u128::from(self.random) * u128::from(lines)) >> 64) as usize;
            let number = &mut self.numbers[line * LINE_NUMBERS];
            *number = number.wrapping_add(1);
        }
        black_box(&mut self.numbers);
    }
}

/// Knuth's generator.
fn next(random: u64) -> u64 {
    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_of_the_last_cache_and_the_free_memory() {
        let (cache, free) = (Some(32 << 20), Some(8 << 30));
        assert_eq!(pressure_bytes(Pressed::Processor, None, None, 2), Ok(0));
        assert_eq!(pressure_bytes(Pressed::Cache, cache, free, 2), Ok(16 << 20));
        assert_eq!(pressure_bytes(Pressed::Memory, cache, free, 2), Ok(64 << 20));
        assert!(pressure_bytes(Pressed::Memory, None, free, 2).is_err());
        assert!(pressure_bytes(Pressed::Memory, cache, Some(256 << 20), 2).is_err(), "too little memory");
        assert!(pressure_bytes(Pressed::Memory, Some(256 << 20), free, 2).is_err(), "too large a cache");
        assert_eq!((bytes_of("32768K"), bytes_of("1M"), bytes_of("x")), (Some(32 << 20), Some(1 << 20), None));
    }

    #[test]
    fn the_last_cache_is_that_of_the_highest_level() {
        let root = tempfile::tempdir().unwrap();
        for (index, level, size) in [(0, "1\n", "32K\n"), (2, "2\n", "1024K\n"), (3, "3\n", "32768K\n")] {
            let folder = root.path().join(format!("sys/devices/system/cpu/cpu1/cache/index{index}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("level"), level).unwrap();
            fs::write(folder.join("size"), size).unwrap();
        }
        assert_eq!(last_cache_bytes(root.path(), 1), Some(32 << 20));
        assert_eq!(last_cache_bytes(root.path(), 0), None);
    }

    #[test]
    fn marks_are_lines_and_rates() {
        let mark = PressureMark { pieces: 30, cpu_ns: 3_000_000_000 };
        assert_eq!(PressureMark::of_line(&mark.line()), Some(mark));
        assert_eq!(mark.rate_since(PressureMark { pieces: 10, cpu_ns: 1_000_000_000 }), Some(10.0));
        assert_eq!((mark.rate_since(mark), PressureMark::of_line("x")), (None, None));
    }

    #[test]
    fn a_worker_presses_for_its_share_of_the_time() {
        for pressed in [Pressed::Memory, Pressed::Cache] {
            let order = PressureOrder { pressed, level: 0.5, wanted: 1.0, processors: vec![], seconds: 1.0 };
            let counts = Counts::default();
            let before = cpu_ns();
            Worker::new(&order, 1 << 20).run(&counts, Instant::now() + Duration::from_millis(60), || true);
            let (all, mark) = (cpu_ns() - before, counts.mark());
            assert!(mark.pieces > 0 && mark.cpu_ns < all, "{mark:?} of {all}");
        }
    }
}
