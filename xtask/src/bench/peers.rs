//! What one probe of other tools costs on the same tiny function, for those that are installed here.
//!
//! Rows to compare with, not bars: a breakpoint that is passed, a probe of the kernel, a tracer's patched entry.
//!
//! Next: `probe` for our own.

use super::attach::START_LIMIT;
use super::row::{Row, Verdict};
use super::runner::Spread;
use anyhow::{Context, Result};
use serde_json::json;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use trimtab_specimens::{Launch, Running, Variant, build};

/// How long a peer may take to be in place and to be passed often enough.
const PEER_LIMIT: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Lines with the peer in place that are enough.
const LINES: usize = 2;
/// A peer that is in place makes a call at least this much longer, nanoseconds.
const IN_PLACE_NS: f64 = 3.0;

/// A tool that counts calls of a function of a running process.
struct Peer {
    tool: &'static str,
    /// What it does.
    does: &'static str,
    arguments: fn(pid: &str, program: &str) -> Vec<String>,
}

const PEERS: [Peer; 2] = [
    Peer {
        tool: "gdb",
        does: "a breakpoint that is passed, entry only",
        arguments: |pid, _| {
            let commands = ["set pagination off", "break tiny", "ignore 1 1000000000", "continue"];
            let options = commands.iter().flat_map(|command| ["-ex".to_string(), command.to_string()]);
            ["--batch", "--quiet", "-p", pid].iter().map(ToString::to_string).chain(options).collect()
        },
    },
    Peer {
        tool: "bpftrace",
        does: "uprobe with a count, entry only",
        arguments: |pid, program| {
            ["-p", pid, "-e", &format!("uprobe:{program}:tiny {{ @ = count(); }}")]
                .iter()
                .map(ToString::to_string)
                .collect()
        },
    },
];

/// One row per peer; uftrace is named although it can't attach, because readers ask for it.
pub fn rows() -> Result<Vec<Row>> {
    let mut rows = PEERS.iter().map(row).collect::<Result<Vec<_>>>()?;
    rows.push(uftrace()?);
    Ok(rows)
}

fn row(peer: &Peer) -> Result<Row> {
    let what = format!("peer {}: {}, over the bare call", peer.tool, peer.does);
    if !is_installed(peer.tool) {
        return Ok(Row::skipped(what, format!("{0} is not installed. Next: apt-get install {0}", peer.tool)));
    }
    let program = build("tiny", None, &Variant::default())?;
    let mut tiny = start(&Launch::alone(&program))?;
    let bare_ns = figures(&tiny.stdout(), 0).first().copied().context("tiny printed nothing")?;
    let mut command = Command::new(peer.tool);
    command.args((peer.arguments)(&tiny.pid().to_string(), &program.to_string_lossy()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _attached = Attached(command.spawn().with_context(|| format!("cannot start {}", peer.tool))?);
    let from = tiny.stdout().len();
    Ok(judge(what, slower_lines(&mut tiny, from, bare_ns)?, bare_ns))
}

/// uftrace patches a program that it starts itself.
fn uftrace() -> Result<Row> {
    let what = "peer uftrace: entry and exit traced by -P, over the bare call";
    if !is_installed("uftrace") {
        return Ok(Row::skipped(what, "uftrace is not installed. Next: apt-get install uftrace"));
    }
    let program = build("tiny", None, &Variant::default())?;
    let bare = start(&Launch::alone(&program))?;
    let bare_ns = figures(&bare.stdout(), 0).first().copied().context("tiny printed nothing")?;
    drop(bare);
    let mut command = Command::new("uftrace");
    command.args(["record", "--no-event", "-P", "^tiny$", "-d", "/dev/shm/trimtab-bench-uftrace"]).arg(&program);
    let output = command.args(["--seconds", "1", "--chunks", "5"]).output().context("cannot start uftrace")?;
    let _gone = std::fs::remove_dir_all("/dev/shm/trimtab-bench-uftrace");
    let lines = figures(&String::from_utf8_lossy(&output.stdout), 0);
    Ok(judge(what.into(), lines.into_iter().filter(|ns| *ns > bare_ns + IN_PLACE_NS).collect(), bare_ns))
}

fn judge(what: String, probed_ns: Vec<f64>, bare_ns: f64) -> Row {
    let over: Vec<f64> = probed_ns.iter().map(|ns| ns - bare_ns).collect();
    let Some(spread) = Spread::of(over.clone()) else {
        return Row::skipped(what, "it was not in place in time: not allowed here, or it failed");
    };
    Row {
        what,
        measured: format!("ns: {spread}"),
        bar: String::new(),
        verdict: Verdict::NoBar,
        figures: json!({ "unit": "ns", "samples": over }),
    }
}

fn start(launch: &Launch) -> Result<Running> {
    // Few calls per line: a breakpoint takes microseconds.
    let mut tiny = launch.clone().args(["--seconds", "600", "--chunks", "10", "--kind", "bare"]).start()?;
    tiny.wait_for_output("tiny: bare", START_LIMIT)?;
    Ok(tiny)
}

/// Lines printed while the peer is in place, told by being slower; none if it never is.
fn slower_lines(tiny: &mut Running, from: usize, bare_ns: f64) -> Result<Vec<f64>> {
    let deadline = Instant::now() + PEER_LIMIT;
    loop {
        let seen = figures(&tiny.stdout(), from);
        // The last few are of the steady state; most calls of the line must have met the peer.
        let slower: Vec<f64> =
            seen.iter().rev().take(LINES).copied().filter(|ns| *ns > bare_ns + IN_PLACE_NS).collect();
        let waited_enough = Instant::now() + PEER_LIMIT * 3 / 4 > deadline;
        if (slower.len() == LINES && waited_enough) || Instant::now() > deadline || tiny.poll()?.is_some() {
            return Ok(if slower.len() == LINES { slower } else { Vec::new() });
        }
        sleep(LOOK_EVERY);
    }
}

/// Medians of the `bare` lines from `from` on, nanoseconds.
fn figures(text: &str, from: usize) -> Vec<f64> {
    let lines = text.get(from..).unwrap_or_default().lines().filter_map(|line| line.strip_prefix("tiny: bare min "));
    lines.filter_map(|rest| rest.split(' ').nth(2)?.parse().ok()).collect()
}

fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(tool).is_file())
}

/// A tool at work; dropped, it is ended.
struct Attached(Child);

impl Drop for Attached {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_lines_are_read_from_a_place_on() {
        let text = "tiny: bare min 1.0 median 1.5 calls 2000\ntiny: bare min 9.0 median 9.5 calls 2000\ntiny: ba";
        assert_eq!(figures(text, 0), [1.5, 9.5]);
        assert_eq!(figures(text, text.find('\n').expect("two lines") + 1), [9.5]);
        assert_eq!(figures(text, 9999), [0.0; 0]);
    }

    #[test]
    fn a_peer_that_was_never_in_place_has_no_figure() {
        assert_eq!(judge("x".into(), vec![], 1.0).verdict, Verdict::Skipped);
        assert_eq!(judge("x".into(), vec![3.0], 1.0).verdict, Verdict::NoBar);
    }
}
