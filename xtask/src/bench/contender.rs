//! A tool at work on `tiny`: how it is started, and one sample of what it costs the calls and the process.
//!
//! All tools are told apart only by their command lines. That one is in place is seen from outside, by the bytes of the
//! function; what a call costs and how long the process stood still is said by the process itself. So nobody's own
//! figures are believed, ours neither.
//!
//! Next: `scripts` for our own, `peers` for the others.

use super::attach::Bench;
use super::tiny::{Pace, Tiny};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use trimtab_specimens::interrupt;

/// How long a tool may take to be in place, and to leave.
const TOOL_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// From a tool's being in place to its waiting.
const SETTLE: Duration = Duration::from_millis(300);
/// Where `/proc/PID/stat` has the time in user mode, counted behind the name; that in the kernel follows.
const STAT_USER_TICKS: usize = 11;

/// A tool with something to do.
pub struct Contender {
    /// Its name.
    pub tool: &'static str,
    /// Its work at each call.
    pub does: &'static str,
    /// How fast calls are with it.
    pub pace: Pace,
    /// Its command line.
    pub command: Box<Start>,
}

/// Makes a command line from the benchmark and a target.
type Start = dyn Fn(&Bench, &Tiny) -> Result<Command>;

/// The effect of one visit of a tool on the calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// A call before it came, nanoseconds.
    pub before_ns: f64,
    /// A call with it.
    pub with_ns: f64,
    /// A call when it had left.
    pub after_ns: f64,
    /// From starting the tool to the first byte patched, milliseconds.
    pub attach_ms: f64,
    /// From asking it to leave to the last byte restored, milliseconds.
    pub remove_ms: f64,
}

/// The longest times in which the process stood still, microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stops {
    /// Before the tool came: what the machine itself does.
    pub untouched_us: f64,
    /// While it came.
    pub insert_us: f64,
    /// While it left.
    pub remove_us: f64,
}

impl Cost {
    /// The time it adds to a call, nanoseconds.
    pub fn over_ns(&self) -> f64 {
        self.with_ns - self.before_ns
    }
}

impl Contender {
    /// Our own command line with a script.
    pub fn trimtab(does: &'static str, script: &'static str, pace: Pace) -> Contender {
        let start = move |bench: &Bench, tiny: &Tiny| {
            let mut command = Command::new(bench.binary("trimtab"));
            command.arg("--store").arg(bench.folder.join("store.db")).args(["probe", script]);
            command.arg(tiny.pid().to_string()).env("XDG_CACHE_HOME", bench.folder.join("cache"));
            Ok(command)
        };
        Contender { tool: "trimtab", does, pace, command: Box::new(start) }
    }

    /// One visit to a fresh process, from before it to after it.
    pub fn cost(&self, bench: &Bench) -> Result<Cost> {
        let mut tiny = Tiny::start("pure", self.pace, &[])?;
        let before_ns = tiny.phase()?;
        let begin = Instant::now();
        let mut tool = self.start(bench, &tiny)?;
        self.wait_in_place(&mut tiny, &mut tool)?;
        let attach_ms = milliseconds(begin);
        let with_ns = tiny.phase()?;
        let begin = Instant::now();
        self.leave(&mut tiny, &mut tool)?;
        let remove_ms = milliseconds(begin);
        tool.wait_for_end()?;
        let after_ns = tiny.phase()?;
        if self.tool == "trimtab" {
            tiny.check_restored()?;
        }
        Ok(Cost { before_ns, with_ns, after_ns, attach_ms, remove_ms })
    }

    /// One visit to a process whose threads watch the clock.
    pub fn stops(&self, bench: &Bench) -> Result<Stops> {
        let mut tiny = Tiny::start("pure", self.pace, &["--watch", "1"])?;
        let from = tiny.printed();
        tiny.phase()?;
        let untouched = tiny.gap_us_max(from);
        let from = tiny.printed();
        let mut tool = self.start(bench, &tiny)?;
        self.wait_in_place(&mut tiny, &mut tool)?;
        tiny.phase()?;
        let insert = tiny.gap_us_max(from);
        let from = tiny.printed();
        self.leave(&mut tiny, &mut tool)?;
        tiny.phase()?;
        let [untouched_us, insert_us, remove_us] =
            [untouched, insert, tiny.gap_us_max(from)].map(|gap| gap.context("tiny printed no gap"));
        Ok(Stops { untouched_us: untouched_us?, insert_us: insert_us?, remove_us: remove_us? })
    }

    /// Processor time the tool itself uses while it is in place for so long, in the kernel's ticks.
    pub fn ticks_used(&self, bench: &Bench, watched: Duration) -> Result<u64> {
        let mut tiny = Tiny::start("pure", self.pace, &[])?;
        let mut tool = self.start(bench, &tiny)?;
        self.wait_in_place(&mut tiny, &mut tool)?;
        // Right after it has inserted it does other things than when nothing happens.
        sleep(SETTLE);
        let before = tool.ticks()?;
        sleep(watched);
        let used = tool.ticks()? - before;
        self.leave(&mut tiny, &mut tool)?;
        Ok(used)
    }

    fn start(&self, bench: &Bench, tiny: &Tiny) -> Result<Tool> {
        let said = bench.folder.join("tool.out");
        let output = File::create(&said).context("cannot create the file for a tool's output")?;
        let errors = output.try_clone()?;
        let mut command = (self.command)(bench, tiny)?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.tool))?;
        Ok(Tool { child, said })
    }

    fn wait_in_place(&self, tiny: &mut Tiny, tool: &mut Tool) -> Result<()> {
        match tiny.wait_until_patched(true, TOOL_LIMIT)? {
            true => Ok(()),
            false => bail!("{} was not in place in {} s; it said: {}", self.tool, TOOL_LIMIT.as_secs(), tool.said()),
        }
    }

    fn leave(&self, tiny: &mut Tiny, tool: &mut Tool) -> Result<()> {
        interrupt(i32::try_from(tool.child.id())?);
        match tiny.wait_until_patched(false, TOOL_LIMIT)? {
            true => Ok(()),
            false => bail!("{} did not leave in {} s; it said: {}", self.tool, TOOL_LIMIT.as_secs(), tool.said()),
        }
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// A started tool; dropped, it is ended.
struct Tool {
    child: Child,
    said: PathBuf,
}

impl Tool {
    /// The end of what it printed.
    fn said(&self) -> String {
        let text = std::fs::read_to_string(&self.said).unwrap_or_default();
        text.trim().lines().next_back().unwrap_or("nothing").to_string()
    }

    /// Processor time used so far, all threads.
    fn ticks(&self) -> Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).context("the tool is gone")?;
        ticks_of(&stat).context("/proc/PID/stat is odd")
    }

    fn wait_for_end(&mut self) -> Result<()> {
        let deadline = Instant::now() + TOOL_LIMIT;
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Ticks in user mode and in the kernel.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Vec<u64> =
        fields.split_whitespace().skip(STAT_USER_TICKS).take(2).filter_map(|word| word.parse().ok()).collect();
    (ticks.len() == 2).then(|| ticks.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_time_are_added() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20";
        assert_eq!(ticks_of(stat), Some(42));
        assert_eq!(ticks_of("7 (a) S 1"), None);
    }
}
