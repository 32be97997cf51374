//! `cargo xtask demo`: the first impression. Starts an MPI program, measures it while it runs, shows the report.
//!
//! Every command is printed as it is run, so that the demo can be repeated by hand. It fails unless the program's own
//! answer and exit status are those of an undisturbed run, and the files it promises are there.
//!
//! Next: README.md for all commands; `testing/specimens/programs/particle.c` for the program that is measured.

use crate::{Outcome, setup, shell};
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const RANK_COUNT: usize = 2;
/// The upper half of the ranks does its work twice, which the report has to find out.
const PARTICLE_ARGUMENTS: &[&str] = &["--imbalance", "--iterations", "6000"];
/// The line by which the program says that its answer is right.
const VERDICT_START: &str = "particle: checksum";
const VERDICT_END: &str = "OK";
/// A launcher starts its ranks within milliseconds; one that takes this long has failed.
const START_SECONDS_MAX: u64 = 20;
/// The program runs for under a minute on two slow cores; longer means that it hangs.
const END_SECONDS_MAX: u64 = 600;
/// How often a condition is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// `cargo xtask demo [--release]`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    let build = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Build::Development,
        ["--release"] => Build::Release,
        _ => bail!("demo takes nothing or --release, got `{}`", arguments.join(" ")),
    };
    setup::prepare()?;
    let root = shell::root()?;
    let files = Files::create(&root)?;
    println!("== Building trimtab and the program to be measured{}", build.remark());
    shell::run(&mut shell::cargo(&root, build.words()))?;
    shell::run(&mut build_particle(&root, &files))?;
    println!("\n== Starting the program; it knows nothing of trimtab");
    let mut job = Job::start(&root, &files)?;
    println!("\n== Measuring it while it runs");
    shell::run(
        trimtab(&root, build, &["attach", "--store"]).arg(&files.store).arg("--json").arg(&files.json).arg(job.pid()),
    )?;
    shell::run(trimtab(&root, build, &["report", "--store"]).arg(&files.store).arg("--html").arg(&files.html))?;
    println!("\n== Letting it run to its end");
    let status = job.wait()?;
    check_program(status, &files.read_output()?)?;
    check_reports(&files)?;
    println!("{}", next_steps(&root, build, &files));
    Ok(Outcome::Done)
}

/// Which trimtab is shown.
#[derive(Clone, Copy)]
enum Build {
    /// The one that tests run, quicker to build; what it puts into programs is optimised all the same.
    Development,
    /// The one that users install.
    Release,
}

impl Build {
    /// As tests have it: `cargo build` would choose other features for what it depends on, and compile all of that again.
    fn words(self) -> &'static [&'static str] {
        match self {
            Build::Development => &["test", "--workspace", "--no-run", "--test", "backtest"],
            Build::Release => &["build", "--package", "trimtab", "--release"],
        }
    }

    fn program(self) -> &'static str {
        match self {
            Build::Development => "target/debug/trimtab",
            Build::Release => "target/release/trimtab",
        }
    }

    fn remark(self) -> &'static str {
        match self {
            Build::Development => " (quick to build; with --release the one to install, which attaches faster)",
            Build::Release => "",
        }
    }
}

/// Where the demo leaves things, below `target/demo`.
struct Files {
    particle: PathBuf,
    output: PathBuf,
    store: PathBuf,
    json: PathBuf,
    html: PathBuf,
}

impl Files {
    /// Names the files in an emptied folder, so that none of an earlier demo can be mistaken for this one's.
    fn create(root: &Path) -> Result<Files> {
        let folder = root.join("target/demo");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).context("cannot empty target/demo")?;
        }
        std::fs::create_dir_all(&folder).context("cannot create target/demo")?;
        let [particle, output, store, json, html] =
            ["particle", "particle.out", "store.sqlite", "report.json", "report.html"].map(|name| folder.join(name));
        Ok(Files { particle, output, store, json, html })
    }

    fn read_output(&self) -> Result<String> {
        std::fs::read_to_string(&self.output).context("cannot read the program's output")
    }
}

/// The running program. Dropped before its end, it is stopped: nothing of a failed demo stays behind.
struct Job {
    launcher: Child,
    ended: bool,
}

impl Job {
    fn start(root: &Path, files: &Files) -> Result<Job> {
        let mut launcher = Command::new("mpirun.mpich");
        launcher.args(["-n", &RANK_COUNT.to_string()]).arg(&files.particle).args(PARTICLE_ARGUMENTS).current_dir(root);
        println!("$ {} > {} &", shell::display(&launcher), shell::relative(root, &files.output));
        let output = File::create(&files.output).context("cannot create the file for the program's output")?;
        launcher.stdin(Stdio::null()).stdout(output);
        let child = launcher.spawn().context("cannot start mpirun.mpich. Next: cargo xtask setup")?;
        let mut job = Job { launcher: child, ended: false };
        job.wait_for_ranks()?;
        Ok(job)
    }

    fn pid(&self) -> String {
        self.launcher.id().to_string()
    }

    fn wait_for_ranks(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(START_SECONDS_MAX);
        while descendants(self.launcher.id(), "particle")?.len() < RANK_COUNT {
            if let Some(status) = self.launcher.try_wait()? {
                self.ended = true;
                bail!("mpirun ended with {status} before its ranks ran");
            }
            ensure!(
                Instant::now() < deadline,
                "no {RANK_COUNT} ranks after {START_SECONDS_MAX} s. Next: run mpirun by hand"
            );
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Waits for the program's end.
    fn wait(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + Duration::from_secs(END_SECONDS_MAX);
        loop {
            if let Some(status) = self.launcher.try_wait()? {
                self.ended = true;
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "the program still runs after {END_SECONDS_MAX} s: it was disturbed");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.ended {
            // mpirun takes its ranks along on TERM; the kill is for when it does not.
            let terminated = Command::new("kill").arg(self.pid()).status();
            let deadline = Instant::now() + Duration::from_secs(START_SECONDS_MAX);
            while terminated.is_ok() && Instant::now() < deadline && matches!(self.launcher.try_wait(), Ok(None)) {
                std::thread::sleep(POLL_INTERVAL);
            }
            let _already_gone = self.launcher.kill();
            let _reaped = self.launcher.wait();
        }
    }
}

fn build_particle(root: &Path, files: &Files) -> Command {
    let mut compiler = Command::new("mpicc.mpich");
    compiler
        .args(["-O2", "-Wno-stringop-overflow", "testing/specimens/programs/particle.c", "-o"])
        .arg(&files.particle)
        .args(["-lm", "-ldl"]);
    compiler.current_dir(root);
    compiler
}

fn trimtab(root: &Path, build: Build, arguments: &[&str]) -> Command {
    let mut command = Command::new(root.join(build.program()));
    command.args(arguments).current_dir(root);
    command
}

fn check_program(status: ExitStatus, output: &str) -> Result<()> {
    ensure!(status.success(), "the program ended with {status}; undisturbed it exits 0");
    let verdict = output.lines().find(|line| line.starts_with(VERDICT_START));
    let Some(verdict) = verdict.filter(|line| line.ends_with(VERDICT_END)) else {
        bail!("the program did not find its answer right, it printed: {}", output.trim());
    };
    println!("{verdict}");
    Ok(())
}

fn check_reports(files: &Files) -> Result<()> {
    let json = std::fs::read_to_string(&files.json).context("there is no report.json")?;
    let report: serde_json::Value = serde_json::from_str(&json).context("report.json is not JSON")?;
    let ranks = report["ranks"].as_array().context("report.json has no ranks")?.len();
    ensure!(ranks == RANK_COUNT, "report.json has {ranks} ranks, {RANK_COUNT} ran");
    let html = std::fs::read_to_string(&files.html).context("there is no report.html")?;
    ensure!(html.contains("<html"), "report.html is not HTML");
    Ok(())
}

fn next_steps(root: &Path, build: Build, files: &Files) -> String {
    format!(
        "
== What to try next
  open {html}
  less {json}
  {trimtab} list --store {store}
  {trimtab} run -- mpirun -n 2 YOUR-PROGRAM
  {trimtab} attach PID          PID of mpirun or of any rank of a job that runs",
        trimtab = build.program(),
        html = shell::relative(root, &files.html),
        json = shell::relative(root, &files.json),
        store = shell::relative(root, &files.store),
    )
}

/// The processes below `ancestor` whose name is `name`.
fn descendants(ancestor: u32, name: &str) -> Result<Vec<u32>> {
    let mut processes = Vec::new();
    for entry in std::fs::read_dir("/proc").context("cannot list /proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        // A process may end between the listing and this reading.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        processes.extend(parse_stat(&stat).map(|(comm, parent)| (pid, comm, parent)));
    }
    let parent_of = |pid: u32| processes.iter().find(|(own, ..)| *own == pid).map(|(_, _, parent)| *parent);
    let is_below = |pid: u32| std::iter::successors(parent_of(pid), |pid| parent_of(*pid)).any(|pid| pid == ancestor);
    Ok(processes.iter().filter(|(pid, comm, _)| comm == name && is_below(*pid)).map(|(pid, ..)| *pid).collect())
}

/// The name and the parent's pid in a line of `/proc/PID/stat`; the name may itself hold parentheses.
fn parse_stat(stat: &str) -> Option<(String, u32)> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let parent = tail.split_whitespace().nth(1)?.parse().ok()?;
    Some((name.to_string(), parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_disturbed_program_is_noticed() {
        for (name, code, output, accepted) in [
            ("right", 0, "particle: checksum 786 OK\n", true),
            ("right after other lines", 0, "hello\nparticle: checksum 786 OK\n", true),
            ("wrong answer", 0, "particle: checksum 786 WRONG, expected 787\n", false),
            ("no answer", 0, "", false),
            ("exit code", 1, "particle: checksum 786 OK\n", false),
        ] {
            assert_eq!(check_program(ExitStatus::from_raw(code << 8), output).is_ok(), accepted, "{name}");
        }
        assert!(check_program(ExitStatus::from_raw(9), "particle: checksum 786 OK").is_err(), "killed");
    }

    #[test]
    fn stat_lines_are_read() {
        for (name, stat, expected) in [
            ("plain", "12 (particle) R 7 12 7 0", Some(("particle", 7))),
            ("parentheses and spaces", "12 (a) (b c) S 7 12", Some(("a) (b c", 7))),
            ("cut", "12 (particle", None),
        ] {
            assert_eq!(parse_stat(stat), expected.map(|(comm, parent)| (comm.to_string(), parent)), "{name}");
        }
    }

    #[test]
    fn a_dropped_job_leaves_no_process() {
        let launcher = Command::new("sh").args(["-c", "sleep 1000 & wait"]).spawn().expect("sh starts");
        let (pid, job) = (launcher.id(), Job { launcher, ended: false });
        while descendants(pid, "sleep").expect("/proc").is_empty() {
            std::thread::sleep(POLL_INTERVAL);
        }
        let sleeper = descendants(pid, "sleep").expect("/proc")[0];
        drop(job);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the launcher is gone and reaped");
        let _stopped = Command::new("kill").arg(sleeper.to_string()).status();
    }

    #[test]
    fn missing_or_wrong_reports_are_noticed() {
        let folder = std::env::temp_dir().join(format!("trimtab-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temp is writable");
        let at = |name: &str| folder.join(name);
        let files = Files { particle: at("p"), output: at("o"), store: at("s"), json: at("j"), html: at("h") };
        let good = r#"{"ranks":[{},{}]}"#;
        for (name, json, html, accepted) in [
            ("both", good, "<html>", true),
            ("one rank", r#"{"ranks":[{}]}"#, "<html>", false),
            ("no JSON", "ranks", "<html>", false),
            ("no HTML", good, "", false),
        ] {
            std::fs::write(&files.json, json).expect("temp is writable");
            std::fs::write(&files.html, html).expect("temp is writable");
            assert_eq!(check_reports(&files).is_ok(), accepted, "{name}");
        }
        std::fs::remove_dir_all(&folder).expect("ours to remove");
        assert!(check_reports(&files).is_err(), "no files");
    }
}
