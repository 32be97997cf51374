//! How soon `trimtab watch` has a program that starts, and whether it sees all of them.
//!
//! The time is taken twice: by trimtab, from the kernel's time of the exec to all threads standing still; and from
//! outside, from just before the program is launched until `/proc` shows that it is traced and stopped, which has the
//! launch itself in it. The count is of programs that end at once.
//!
//! Next: `contender` for tools that are in a program for longer.

use super::attach::Bench;
use super::row::{Row, Verdict};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use trimtab_specimens::interrupt;

/// Process started to agent attached, on one node.
const ATTACHED_MS_BAR: f64 = 5.0;
/// Programs that end at once, all of which are to be seen.
const BRIEF: usize = 1000;
/// Programs that live long enough to be held.
const HELD: usize = 200;
/// How long such a one sleeps, seconds.
const LIFE: &str = "0.03";
/// The watch holds it for at most so long, milliseconds; its symbols are read sooner.
const HOLD_MS: &str = "1000";
/// A watch begins and ends within milliseconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_micros(20);
/// After the last program has started, until everything was said.
const SETTLE: Duration = Duration::from_secs(1);

/// One row per figure.
pub fn rows(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = held(bench)?;
    rows.extend(brief(bench)?);
    Ok(rows)
}

/// Programs that are held from their exec on.
fn held(bench: &Bench) -> Result<Vec<Row>> {
    let program = copy(bench, "sleep")?;
    let watch = Watch::start(bench, &program, &["--hold", HOLD_MS])?;
    let rounds = bench.rounds(HELD, HELD / 10);
    let mut outside_ms = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begin = Instant::now();
        let mut child = Command::new(&program).arg(LIFE).spawn().context("cannot start the program")?;
        while child.try_wait()?.is_none() {
            if is_held(child.id()) {
                outside_ms.push(begin.elapsed().as_secs_f64() * 1e3);
                break;
            }
            sleep(LOOK_EVERY);
        }
        child.wait()?;
    }
    let lines = watch.end()?;
    let seized_ms = figures(&lines, "seized_us");
    let all = format!("{} of {rounds} programs", seized_ms.len());
    Ok(vec![
        Row::median_at_most(format!("exec to seized (watch --hold, {all})"), "ms", &seized_ms, ATTACHED_MS_BAR),
        Row::median_at_most("launch to seized, seen from outside", "ms", &outside_ms, ATTACHED_MS_BAR),
    ])
}

/// Programs that end at once.
fn brief(bench: &Bench) -> Result<Vec<Row>> {
    let program = copy(bench, "true")?;
    let watch = Watch::start(bench, &program, &[])?;
    let count = bench.rounds(BRIEF, BRIEF / 10);
    for _ in 0..count {
        Command::new(&program).status().context("cannot start the program")?;
    }
    let lines = watch.end()?;
    let seen_ms = figures(&lines, "seen_us");
    let found = lines.iter().flat_map(|line| line["seen"].as_array()).map(Vec::len).sum::<usize>();
    Ok(vec![
        Row::median_at_most("exec to seen (watch)", "ms", &seen_ms, ATTACHED_MS_BAR),
        Row {
            what: format!("{count} programs that end at once, seen by watch"),
            measured: format!("{found} of {count}"),
            bar: "every one, once".to_owned(),
            verdict: Verdict::of(found == count),
            figures: json!({ "started": count, "seen": found }),
        },
    ])
}

/// A program under a name that nothing else on the machine has.
fn copy(bench: &Bench, name: &str) -> Result<PathBuf> {
    let path = bench.folder.join(format!("watched-{name}"));
    std::fs::copy(Path::new("/bin").join(name), &path).with_context(|| format!("cannot copy /bin/{name}"))?;
    path.canonicalize().context("the copy is gone")
}

/// True if a tracer holds the process still.
fn is_held(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('t'))
}

/// A figure of every process that was seen, milliseconds.
fn figures(lines: &[Value], name: &str) -> Vec<f64> {
    let processes = lines.iter().flat_map(|line| line["seen"].as_array().into_iter().flatten());
    processes.filter_map(|process| process[name].as_f64()).map(|us| us / 1e3).collect()
}

/// `trimtab watch` at work; dropped, it is ended.
struct Watch {
    child: Child,
    lines: PathBuf,
}

impl Watch {
    fn start(bench: &Bench, program: &Path, options: &[&str]) -> Result<Watch> {
        let (lines, errors) = (bench.folder.join("watch.json"), bench.folder.join("watch.err"));
        if lines.exists() {
            std::fs::remove_file(&lines).context("cannot remove the last lines")?;
        }
        let mut command = Command::new(bench.binary("trimtab"));
        command.arg("--store").arg(bench.folder.join("store.db")).arg("watch").arg("--name").arg(program);
        command.args(options).arg("--json").arg(&lines).env("XDG_CACHE_HOME", bench.folder.join("cache"));
        command.stdout(Stdio::null()).stderr(File::create(&errors).context("cannot create a file")?);
        let watch = Watch { child: command.spawn().context("cannot start trimtab")?, lines };
        let begin = Instant::now();
        loop {
            let said = std::fs::read_to_string(&errors).unwrap_or_default();
            if said.contains("watching for") {
                return Ok(watch);
            }
            if begin.elapsed() > LIMIT {
                bail!("trimtab watch did not begin; it said: {said}");
            }
            sleep(LOOK_EVERY);
        }
    }

    /// Ends it; what it said of each start.
    fn end(mut self) -> Result<Vec<Value>> {
        sleep(SETTLE);
        interrupt(i32::try_from(self.child.id())?);
        let begin = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begin.elapsed() > LIMIT {
                bail!("trimtab watch did not end");
            }
            sleep(LOOK_EVERY);
        }
        let text = std::fs::read_to_string(&self.lines).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).context("trimtab watch wrote no JSON")).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_processes_that_have_them() {
        let lines = [
            json!({ "seen": [{ "seen_us": 100, "seized_us": null }, { "seen_us": 300, "seized_us": 400 }] }),
            json!({ "seen": [] }),
            json!({}),
        ];
        assert_eq!(figures(&lines, "seen_us"), [0.1, 0.3]);
        assert_eq!(figures(&lines, "seized_us"), [0.4]);
    }

    #[test]
    fn nobody_holds_this_process() {
        assert!(!is_held(std::process::id()));
    }
}
