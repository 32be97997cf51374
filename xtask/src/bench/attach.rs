//! Jobs that are measured for figures, and one `trimtab attach` with what it reports and what it took.
//!
//! Next: `pauses` and `truth`, which attach again and again.

use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use trimtab_specimens::{Launch, Running, TextSnapshot, threads_running};
use trimtab_types::report::Report;

/// Ranks of every job: MPICH polls, and a small machine has two cores.
pub const RANK_COUNT: u32 = 2;
/// A launcher starts its ranks within milliseconds on an idle machine.
pub const START_LIMIT: Duration = Duration::from_secs(30);
/// From the start of the ranks to a steady main loop.
const SETTLE: Duration = Duration::from_millis(700);
/// One window takes a second or so; the bound is for a machine that hangs.
const ATTACH_LIMIT: Duration = Duration::from_secs(120);
/// How often the memory of trimtab is looked at; the kernel keeps its maximum.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The state that all parts of the benchmark share.
pub struct Bench {
    /// The workspace.
    pub root: PathBuf,
    /// A folder of our own, emptied at the start.
    pub folder: PathBuf,
    /// Fewer rounds, to try the benchmark itself.
    pub quick: bool,
    /// The programs to compare with the wrapper; none: all.
    pub programs: Vec<String>,
    /// An earlier build, to compare with: of `probe_cost` for `window`, of `trimtab` for `cluster`.
    pub before: Option<PathBuf>,
}

/// The result of one `trimtab attach`.
pub struct Attached {
    /// Its report.
    pub report: Report,
    /// The most memory it had resident, bytes.
    pub memory_bytes_max: u64,
}

/// A running job, and its text as it was before anything was measured.
pub struct Job {
    /// The launcher and its output.
    pub running: Running,
    texts: Vec<TextSnapshot>,
}

impl Bench {
    /// Rounds: `full`, or `quick` where the benchmark itself is tried.
    pub fn rounds(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// A binary that cargo built.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.root.join("target/release").join(name)
    }

    /// Starts `launch` and waits until it runs steadily.
    pub fn start(&self, launch: &Launch) -> Result<Job> {
        let mut running = launch.start()?;
        let pids = running.rank_pids(START_LIMIT)?;
        sleep(SETTLE);
        let texts = pids.into_iter().map(TextSnapshot::of).collect::<Result<_, _>>()?;
        Ok(Job { running, texts })
    }

    /// Measures one window with the symbol cache in `cache`.
    pub fn attach(&self, job: &Job, options: &[&str], cache: &Path) -> Result<Attached> {
        let (json, errors) = (self.folder.join("report.json"), self.folder.join("attach.err"));
        if json.exists() {
            std::fs::remove_file(&json).context("cannot remove the last report")?;
        }
        let mut command = Command::new(self.binary("trimtab"));
        command.arg("--store").arg(self.folder.join("store.db")).arg("attach").args(options).arg("--json").arg(&json);
        command.arg(job.running.pid().to_string()).env("XDG_CACHE_HOME", cache);
        let (code, memory_bytes_max) = run_watched(command, &errors)?;
        // 1 is a window that is invalid or partial: the report says so, and the rows count it.
        if !matches!(code, Some(0 | 1)) {
            let said = std::fs::read_to_string(&errors).unwrap_or_default();
            bail!("trimtab attach ended with {code:?}: {}", said.trim());
        }
        let text = std::fs::read_to_string(&json).context("trimtab wrote no report")?;
        Ok(Attached { report: serde_json::from_str(&text).context("the report is not JSON")?, memory_bytes_max })
    }
}

impl Job {
    /// Takes the text that later looks are compared with anew: the program has loaded more libraries meanwhile.
    pub fn look_anew(&mut self) -> Result<()> {
        let anew = self.texts.iter().map(|text| TextSnapshot::of(text.pid())).collect::<Result<_, _>>()?;
        self.texts = anew;
        Ok(())
    }

    /// Fails unless every byte of text is as it was and no thread is stopped.
    pub fn check_untouched(&self) -> Result<()> {
        for text in &self.texts {
            if let Some(difference) = text.difference_now()? {
                bail!("process {} was not restored: {difference}", text.pid());
            }
            threads_running(text.pid())?;
        }
        Ok(())
    }
}

/// Runs `command` to its end; its exit code and the most memory it had resident, bytes.
fn run_watched(mut command: Command, errors: &Path) -> Result<(Option<i32>, u64)> {
    let errors = File::create(errors).context("cannot create the file for errors")?;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn()?;
    let deadline = Instant::now() + ATTACH_LIMIT;
    let mut memory_bytes_max = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        memory_bytes_max = resident_bytes_max(&status).unwrap_or(0).max(memory_bytes_max);
        if let Some(status) = child.try_wait()? {
            return Ok((status.code(), memory_bytes_max));
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
        }
        ensure!(Instant::now() < deadline, "trimtab attach took more than {} s", ATTACH_LIMIT.as_secs());
        sleep(LOOK_EVERY);
    }
}

/// `VmHWM` of a `/proc/PID/status`, bytes.
fn resident_bytes_max(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_memory_is_read() {
        for (name, status, expected) in [
            ("there", "VmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n", Some(2 << 20)),
            ("a process that has ended", "Name:\ttrimtab\nState:\tZ (zombie)\n", None),
        ] {
            assert_eq!(resident_bytes_max(status), expected, "{name}");
        }
    }

    #[test]
    fn a_watched_command_tells_code_and_memory() {
        let errors = std::env::temp_dir().join(format!("trimtab-watched-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.05; exit 3"]);
        let (code, memory) = run_watched(command, &errors).expect("sh runs");
        std::fs::remove_file(&errors).expect("ours to remove");
        assert_eq!(code, Some(3));
        assert!(memory > 0);
    }
}
