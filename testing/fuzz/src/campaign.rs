//! Runs every target in a process of its own and watches it: what it tells, how it ends, whether it still moves.
//!
//! An input that takes more processor time than any should is a hang, however busy the machine is. After a fault that ended
//! the worker another one goes on with the rest, with other choices.
//!
//! Next: `worker` for the other side, `replay` for making inputs smaller.

use crate::corpus::name_of;
use crate::coverage::Coverage;
use crate::finding::{Fault, Told};
use crate::hex::{from_hex, to_hex};
use crate::outcome::{Finding, Outcome, TargetOutcome, render_finding};
use crate::replay::{HANG, Replayer, fault_of_status};
use crate::state;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Workers of one target that may end badly before it is left alone.
const WORKERS_MAX: u64 = 5;
/// Exit status of a worker that could not begin.
const CANNOT_RUN: i32 = 2;
/// Between two looks at a worker.
const LOOK: Duration = Duration::from_millis(100);
/// Clock ticks of `/proc/PID/stat` per second, on every Linux.
const TICKS_PER_S: u64 = 100;

/// The targets to run, how long, and where results go.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of the targets.
    pub targets: Vec<String>,
    /// Inputs for each.
    pub executions: u64,
    /// Time for each.
    pub time: Option<Duration>,
    /// Where choices begin.
    pub seed: u64,
    /// Targets at once.
    pub jobs: usize,
    /// Where state, corpora and failing inputs of this machine lie.
    pub folder: PathBuf,
    /// Corpora of the repository.
    pub corpus: PathBuf,
    /// This program.
    pub executable: PathBuf,
    /// Processor time after which an input hangs, in seconds.
    pub hang_s: u64,
    /// True if to write inputs worth it into the repository instead of looking for more.
    pub keep: bool,
}

/// Runs the targets, as many at once as asked for.
///
/// # Errors
/// When one can't be run.
pub fn campaign(options: &Options) -> Result<Outcome> {
    let waiting = Mutex::new(options.targets.iter());
    let done = Mutex::new(Vec::new());
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.next());
    let run = || -> Result<()> {
        while let Some(name) = next() {
            let outcome = Watch { options, name }.run().with_context(|| format!("target {name}"))?;
            println!("{name}: {} executions, {} findings", outcome.executions, outcome.findings.len());
            if let Ok(mut done) = done.lock() {
                done.push(outcome);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(run)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    let mut targets: Vec<TargetOutcome> = done.into_inner().unwrap_or_default();
    targets.sort_by_key(|outcome| options.targets.iter().position(|name| *name == outcome.name));
    Ok(Outcome { seed: options.seed, guided: Coverage::new().is_there(), targets })
}

/// One target.
struct Watch<'a> {
    options: &'a Options,
    name: &'a str,
}

impl Watch<'_> {
    fn path(&self, kind: &str) -> PathBuf {
        self.options.folder.join(kind).join(self.name)
    }

    fn run(&self) -> Result<TargetOutcome> {
        for kind in ["state", "corpus", "findings"] {
            let folder = self.path(kind);
            let folder = folder.parent().unwrap_or(&folder);
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let begun = Instant::now();
        let mut outcome = TargetOutcome { name: self.name.to_string(), ..TargetOutcome::default() };
        for worker in 0..WORKERS_MAX {
            let seed = self.options.seed.wrapping_add(worker);
            let left = self.options.executions.saturating_sub(outcome.executions);
            let time = self.options.time.map(|time| time.saturating_sub(begun.elapsed()));
            let ended = self.watch(seed, left, time)?;
            let (numbers, input) = state::read(&self.path("state")).unwrap_or_default();
            outcome.add(&numbers);
            let last = ended.fault.map(|fault| Told { fault, input: to_hex(&input) });
            // A kept input that ends every worker would end the next one too.
            let is_last = last.as_ref().is_none_or(|last| outcome.knows(&last.fault));
            for told in ended.told.into_iter().chain(last) {
                self.add(&mut outcome, told, seed)?;
            }
            if is_last {
                break;
            }
        }
        outcome.seconds = begun.elapsed().as_secs_f64();
        Ok(outcome)
    }

    fn start(&self, seed: u64, executions: u64, time: Option<Duration>) -> Result<Child> {
        let mut command = Command::new(&self.options.executable);
        command.arg("work").args(["--target", self.name]);
        command.args(["--executions".to_string(), executions.to_string(), "--seed".to_string(), seed.to_string()]);
        if let Some(time) = time {
            command.args(["--milliseconds".to_string(), time.as_millis().to_string()]);
        }
        if self.options.keep {
            command.arg("--keep");
        }
        command.arg("--state").arg(self.path("state")).arg("--found").arg(self.path("corpus"));
        command.arg("--kept").arg(self.options.corpus.join(self.name));
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        started.with_context(|| format!("cannot start {}", self.options.executable.display()))
    }

    fn watch(&self, seed: u64, executions: u64, time: Option<Duration>) -> Result<Ended> {
        // An earlier worker's last words are not about this one.
        let _ = std::fs::remove_file(self.path("state"));
        let mut child = self.start(seed, executions, time)?;
        let stdout = child.stdout.take().context("a worker has no stdout")?;
        let listener = listen(stdout);
        let stderr = child.stderr.take().context("a worker has no stderr")?;
        let reader = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
        let ended = self.wait(&mut child);
        if ended.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let told = listener.join().unwrap_or_default();
        let printed = reader.join().unwrap_or_default();
        let fault = match ended? {
            None => Some(Fault {
                place: HANG.to_string(),
                message: format!("more than {} seconds of processor time for one input", self.options.hang_s),
            }),
            Some(status) if status.code() == Some(CANNOT_RUN) => bail!("a worker could not run: {}", printed.trim()),
            Some(status) => fault_of_status(status, &printed),
        };
        Ok(Ended { told, fault })
    }

    /// How a worker ended by itself; `None` if it was ended because it hung.
    fn wait(&self, child: &mut Child) -> Result<Option<ExitStatus>> {
        let (mut executions, mut since_ticks) = (0, 0);
        loop {
            if let Some(status) = child.try_wait().context("cannot wait for a worker")? {
                return Ok(Some(status));
            }
            let now_ticks = processor_ticks(child.id()).unwrap_or(0);
            // Before its first input a worker makes seeds, with compilers whose time is not its own.
            let now = state::read(&self.path("state")).map_or(0, |(numbers, _)| numbers.executions);
            if now != executions || now == 0 {
                (executions, since_ticks) = (now, now_ticks);
            } else if now_ticks.saturating_sub(since_ticks) > self.options.hang_s * TICKS_PER_S {
                child.kill().context("cannot end a worker that hangs")?;
                child.wait().context("cannot wait for a worker")?;
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn add(&self, outcome: &mut TargetOutcome, told: Told, seed: u64) -> Result<()> {
        if outcome.knows(&told.fault) {
            return Ok(());
        }
        let input = from_hex(&told.input).context("a worker told no input")?;
        let scratch = self.path("state").with_extension("replay");
        let Options { executable, hang_s, .. } = self.options;
        let replayer = Replayer { executable, target: self.name, file: &scratch, hang_s: *hang_s };
        let mut fault = told.fault;
        let smaller = match replayer.fault_of(&input)? {
            Some(again) if again.place == fault.place => replayer.smaller(&input, &fault)?,
            other => {
                let now = other.map_or("nothing".to_string(), |other| other.place);
                fault.message.push_str(&format!(" (alone, in a new process: {now})"));
                input
            }
        };
        let file = self.path("findings").with_file_name(format!("{}-{}", self.name, name_of(&smaller)));
        let text = format!("# {}, seed {seed}: {}\n{}", self.name, fault.place, to_hex(&smaller));
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let finding = Finding { fault, seed, input: to_hex(&smaller), file: from_here(&file) };
        println!("{}", render_finding(self.name, &finding));
        outcome.findings.push(finding);
        Ok(())
    }
}

/// A file's path from the folder this program runs in, if it lies below: results hold on other machines too.
fn from_here(file: &Path) -> String {
    let below = || Some(file.canonicalize().ok()?.strip_prefix(std::env::current_dir().ok()?).ok()?.to_owned());
    below().unwrap_or_else(|| file.to_owned()).display().to_string()
}

/// How a worker ended.
struct Ended {
    told: Vec<Told>,
    fault: Option<Fault>,
}

/// Collects what a worker tells until it ends.
fn listen(stdout: ChildStdout) -> JoinHandle<Vec<Told>> {
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(std::result::Result::ok);
        lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
    })
}

/// Processor time of a process, in clock ticks.
fn processor_ticks(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // Behind the name, which may hold anything: state is field 3, user and system time are 14 and 15.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read() {
        let begun = processor_ticks(std::process::id()).expect("our own process is there");
        let mut number = 1_u64;
        while processor_ticks(std::process::id()).expect("still there") < begun + 2 {
            number = number.wrapping_mul(3);
        }
        assert_ne!(number, 0);
        assert_eq!(processor_ticks(u32::MAX), None);
    }
}
