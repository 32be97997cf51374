//! The function of two instructions that is measured: a fresh process of `tiny`, and the figures it prints while tools
//! come and go.
//!
//! Next: `programs/tiny.c` of the specimens, which prints them; `probe` and `scripts` for who measures it.

use super::attach::START_LIMIT;
use super::runner::Spread;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use trimtab_specimens::{Launch, Running, TextSnapshot, Variant, build};

/// Lines dropped at the beginning of a phase: the one being printed then saw both states.
const LINES_DROPPED: usize = 2;
/// A line takes milliseconds, with the slowest tools a second.
const PHASE_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Bytes of it that are watched.
const FUNCTION_BYTES: usize = 5;

/// How much of the function is measured at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Chunks of 2000 calls per line.
    pub chunks: u32,
    /// Lines per phase.
    pub lines: usize,
}

/// Where a call takes nanoseconds: a line takes 1 to 20 ms.
pub const FAST: Pace = Pace { chunks: 300, lines: 12 };
/// Where a call enters the kernel: a line takes up to a second.
pub const SLOW: Pace = Pace { chunks: 3, lines: 4 };

/// A running `tiny`, as it was before anything was measured.
pub struct Tiny {
    running: Running,
    text: TextSnapshot,
    kind: &'static str,
    pace: Pace,
    function: u64,
    bytes: [u8; FUNCTION_BYTES],
}

impl Tiny {
    /// A process that calls the function as `kind` says, with further arguments.
    pub fn start(kind: &'static str, pace: Pace, arguments: &[&str]) -> Result<Tiny> {
        let chunks = pace.chunks.to_string();
        let launch = Launch::alone(&program()?).args(["--seconds", "600", "--chunks", &chunks, "--kind", kind]);
        let mut running = launch.args(arguments).start()?;
        running.wait_for_output(&format!("tiny: {kind}"), START_LIMIT)?;
        let function = pure_address(&running.stdout()).context("tiny did not say where its function is")?;
        let bytes = bytes_at(running.pid(), function)?;
        let text = TextSnapshot::of(running.pid())?;
        Ok(Tiny { running, text, kind, pace, function, bytes })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// Where the function is that tools are told to probe.
    pub fn function(&self) -> u64 {
        self.function
    }

    /// The bytes that it has printed so far.
    pub fn printed(&self) -> usize {
        self.running.stdout().len()
    }

    /// Nanoseconds per call from now on: the median of the medians of lines.
    pub fn phase(&mut self) -> Result<f64> {
        let from = self.printed();
        let deadline = Instant::now() + PHASE_LIMIT;
        let start = format!("tiny: {} ", self.kind);
        loop {
            let text = self.running.stdout();
            // The last line may be half printed.
            let whole = &text[from..text.rfind('\n').map_or(from, |end| end.max(from))];
            let lines: Vec<&str> = whole.lines().filter(|line| line.starts_with(&start)).skip(LINES_DROPPED).collect();
            if lines.len() >= self.pace.lines {
                return median_of(&lines, self.kind).with_context(|| format!("no line for {}", self.kind));
            }
            self.check_running()?;
            ensure!(Instant::now() < deadline, "tiny printed too little in {} s", PHASE_LIMIT.as_secs());
            sleep(LOOK_EVERY);
        }
    }

    /// The longest time in which no thread of it ran, microseconds, in what it has printed since `from`.
    pub fn gap_us_max(&self, from: usize) -> Option<f64> {
        let text = self.running.stdout();
        let gaps = text.get(from..)?.lines().filter_map(|line| line.strip_prefix("tiny: gap ")?.parse().ok());
        gaps.max_by(f64::total_cmp)
    }

    /// Waits until the function's own bytes are patched, or not any more; `false` if that does not happen in time.
    pub fn wait_until_patched(&mut self, patched: bool, limit: Duration) -> Result<bool> {
        let deadline = Instant::now() + limit;
        while (bytes_at(self.pid(), self.function)? != self.bytes) != patched {
            self.check_running()?;
            if Instant::now() > deadline {
                return Ok(false);
            }
            sleep(LOOK_EVERY / 2);
        }
        Ok(true)
    }

    /// Fails unless every byte of text is as it was.
    pub fn check_restored(&self) -> Result<()> {
        let difference = self.text.difference_now()?;
        ensure!(difference.is_none(), "text was not restored: {difference:?}");
        Ok(())
    }

    fn check_running(&mut self) -> Result<()> {
        ensure!(self.running.poll()?.is_none(), "tiny ended while it was measured: {}", self.running.stderr());
        Ok(())
    }
}

/// The program's file.
pub fn program() -> Result<PathBuf> {
    Ok(build("tiny", None, &Variant::default())?)
}

fn bytes_at(pid: i32, address: u64) -> Result<[u8; FUNCTION_BYTES]> {
    let mut bytes = [0; FUNCTION_BYTES];
    let memory = File::open(format!("/proc/{pid}/mem")).context("tiny is gone")?;
    memory.read_exact_at(&mut bytes, address).context("tiny's function can't be read")?;
    Ok(bytes)
}

/// `tiny: function 0xADDRESS pure 0xADDRESS`
fn pure_address(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("tiny: function "))?;
    u64::from_str_radix(line.rsplit_once(" pure 0x")?.1, 16).ok()
}

/// Medians of `tiny: KIND min NS median NS calls N mean NS`, nanoseconds.
pub fn medians(text: &str, kind: &str) -> Vec<f64> {
    let start = format!("tiny: {kind} ");
    let rests = text.lines().filter_map(|line| line.strip_prefix(&start));
    rests.filter_map(|rest| rest.split(' ').nth(3)?.parse().ok()).collect()
}

fn median_of(lines: &[&str], kind: &str) -> Option<f64> {
    Some(Spread::of(medians(&lines.join("\n"), kind))?.median)
}

/// The script that times calls.
pub const TIMED: &str = "exit pure { t += elapsed }";

/// The script that counts calls.
pub const COUNTED: &str = "entry pure { n++ }";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tiny_are_read() {
        let lines = [
            "tiny: bare min 1.0 median 1.5 calls 1000",
            "tiny: timed min 17 median 18 calls 1000",
            "tiny: bare min 1.0 median 2.5 calls 1000",
            "tiny: bare min",
        ];
        assert_eq!(median_of(&lines, "bare"), Some(2.0));
        assert_eq!(median_of(&lines, "timed"), Some(18.0));
        assert_eq!(median_of(&lines, "counted"), None);
    }

    #[test]
    fn the_function_is_found() {
        assert_eq!(pure_address("x\ntiny: function 0x2a pure 0x1f\n"), Some(31));
        assert_eq!(pure_address("tiny: bare min 1.0"), None);
    }
}
