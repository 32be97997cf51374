//! Other tools on the same function in the same run, for those that are installed here: what a call costs with them, how
//! long they take to attach, and how long the process stands still meanwhile.
//!
//! Each visits fresh processes, taking turns with trimtab; ratios are theirs over ours, round by round. uftrace can't
//! attach, and it can't move the function's instructions: it launches the program and gets a function that begins with
//! bytes made for it.
//!
//! Next: `scripts` for our own, `frida_peer.py` for Frida's callbacks.

use super::attach::Bench;
use super::contender::{Contender, Cost, Stops};
use super::row::{Row, Verdict};
use super::runner::Spread;
use super::tiny::{COUNTED, FAST, Pace, SLOW, TIMED, Tiny, medians, program};
use anyhow::{Context, Result};
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// Where a call takes a few hundred nanoseconds.
const MIDDLE: Pace = Pace { chunks: 50, lines: 8 };
/// Where a call stops the process: a line takes a second.
const SLOWEST: Pace = Pace { chunks: 1, lines: 2 };
/// Visits tried per sample: a peer's target may die, which is counted.
const TRIES: usize = 3;
/// A probe that is in place makes a call at least this much longer, nanoseconds.
const IN_PLACE_NS: f64 = 3.0;
const COUNT: &str = "count";
const TIME: &str = "entry and exit timed";

/// A peer's figures of all rounds, beside ours.
struct Series {
    contender: Contender,
    needs: Option<String>,
    visits: Vec<(Cost, Stops)>,
    failures: Vec<String>,
    tried: usize,
}

/// The table.
pub fn rows(bench: &Bench) -> Result<Vec<Row>> {
    let mut own = [(COUNT, COUNTED), (TIME, TIMED)]
        .map(|(does, script)| Series::new(Contender::trimtab(does, script, FAST), None));
    let mut others = peers();
    for round in 0..bench.rounds(5, 1) {
        for series in own.iter_mut().chain(others.iter_mut().filter(|series| series.needs.is_none())) {
            series.visit(bench, round)?;
        }
    }
    println!("\n{}", table(own.iter().chain(&others)));
    let mut rows: Vec<Row> = own.iter().map(Series::own_row).collect();
    for series in &others {
        let ours = own.iter().find(|own| own.contender.does == series.contender.does);
        rows.extend(series.rows(ours.unwrap_or(&own[0])));
    }
    rows.push(uftrace(&own[1])?);
    Ok(rows)
}

fn peers() -> Vec<Series> {
    let count = |tool, pace, needs, command| Series::new(Contender { tool, does: COUNT, pace, command }, needs);
    let time = |tool, pace, needs, command| Series::new(Contender { tool, does: TIME, pace, command }, needs);
    let (no_frida, no_bpftrace, no_gdb) = (needs_frida(), needs_tool("bpftrace"), needs_tool("gdb"));
    let counting = "uprobe:PROGRAM:pure { @ = count(); }";
    let timing = "uprobe:PROGRAM:pure { @begin[tid] = nsecs; } \
                  uretprobe:PROGRAM:pure /@begin[tid]/ { @ = sum(nsecs - @begin[tid]); }";
    vec![
        count("Frida", MIDDLE, no_frida.clone(), Box::new(|_, tiny| Ok(frida(tiny, "count")))),
        time("Frida", MIDDLE, no_frida, Box::new(|_, tiny| Ok(frida(tiny, "time")))),
        count("bpftrace", SLOW, no_bpftrace.clone(), Box::new(|_, tiny| bpftrace(tiny, counting))),
        time("bpftrace", SLOW, no_bpftrace, Box::new(|_, tiny| bpftrace(tiny, timing))),
        count("gdb", SLOWEST, no_gdb, Box::new(|_, tiny| Ok(gdb(tiny)))),
    ]
}

fn frida(tiny: &Tiny, what: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("frida_peer.py")]);
    command.args([tiny.pid().to_string(), format!("{:#x}", tiny.function()), what.to_string()]);
    command
}

fn bpftrace(tiny: &Tiny, script: &str) -> Result<Command> {
    let script = script.replace("PROGRAM", &program()?.to_string_lossy());
    let mut command = Command::new("bpftrace");
    command.args(["-p", &tiny.pid().to_string(), "-e", &script]);
    Ok(command)
}

/// A breakpoint that is passed.
fn gdb(tiny: &Tiny) -> Command {
    let mut command = Command::new("gdb");
    command.args(["--batch", "--quiet", "-p", &tiny.pid().to_string()]);
    for step in ["set pagination off", "break *pure", "ignore 1 1000000000", "continue", "detach"] {
        command.args(["-ex", step]);
    }
    command
}

fn needs_frida() -> Option<String> {
    let found = Command::new("python3").args(["-c", "import frida"]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    (!is_there).then(|| "python3 has no Frida. Next: pip install frida".to_string())
}

fn needs_tool(tool: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| Path::new(&folder).join(tool).is_file());
    (!is_there).then(|| format!("{tool} is not installed. Next: apt-get install {tool}"))
}

impl Series {
    fn new(contender: Contender, needs: Option<String>) -> Series {
        Series { contender, needs, visits: Vec::new(), failures: Vec::new(), tried: 0 }
    }

    /// One sample; a visit that kills the process or never gets in place is counted and tried again. Ours may not fail.
    fn visit(&mut self, bench: &Bench, round: usize) -> Result<()> {
        for _ in 0..TRIES {
            self.tried += 1;
            let visit = self.contender.cost(bench).and_then(|cost| Ok((cost, self.contender.stops(bench)?)));
            match visit {
                Ok(visit) => {
                    self.visits.push(visit);
                    return Ok(());
                }
                Err(error) if self.contender.tool == "trimtab" => return Err(error),
                Err(error) => self.failures.push(format!("round {round}: {error:#}")),
            }
        }
        Ok(())
    }

    fn name(&self) -> String {
        format!("{}, {}", self.contender.tool, self.contender.does)
    }

    fn samples(&self, of: fn(&Cost, &Stops) -> f64) -> Vec<f64> {
        self.visits.iter().map(|(cost, stops)| of(cost, stops)).collect()
    }

    fn own_row(&self) -> Row {
        Row::no_bar(format!("{}: cost over the bare call", self.name()), "ns", &self.samples(over))
    }

    /// Cost, attaching and standing still, over ours.
    fn rows(&self, ours: &Series) -> Vec<Row> {
        let what = format!("peer {}", self.name());
        if let Some(needs) = &self.needs {
            return vec![Row::skipped(what, needs)];
        }
        if self.visits.is_empty() {
            let why = self.failures.last().map_or("no reason known", String::as_str);
            return vec![Row::skipped(what, format!("none of {} visits succeeded; the last: {why}", self.tried))];
        }
        let row = |title: &str, unit: &str, of: fn(&Cost, &Stops) -> f64| {
            let mut row = ahead(format!("{what}: {title}"), unit, &self.samples(of), &ours.samples(of));
            if !self.failures.is_empty() {
                row.measured += &format!("; {} of {} visits failed", self.failures.len(), self.tried);
                row.figures["failures"] = json!(self.failures);
            }
            row
        };
        vec![
            row("cost over the bare call", "ns", over),
            row("from its start to the first byte patched", "ms", |cost, _| cost.attach_ms),
            row("longest time the process stood still meanwhile", "us", |_, stops| stops.insert_us),
        ]
    }
}

fn over(cost: &Cost, _: &Stops) -> f64 {
    cost.over_ns()
}

/// A row of theirs that is held against ours: the median of the ratios has to be above 1.
fn ahead(what: String, unit: &str, theirs: &[f64], ours: &[f64]) -> Row {
    let ratios: Vec<f64> = theirs.iter().zip(ours).map(|(their, our)| their / our).collect();
    let (Some(spread), Some(own), Some(ratio)) =
        (Spread::of(theirs.to_vec()), Spread::of(ours.to_vec()), Spread::of(ratios.clone()))
    else {
        return Row::skipped(what, "no sample was taken");
    };
    Row {
        what,
        measured: format!("{unit}: {spread}; over our {:.2}: {ratio}", own.median),
        bar: "ours is smaller: median of the ratios above 1".into(),
        verdict: Verdict::of(ratio.median > 1.0),
        figures: json!({ "unit": unit, "samples": theirs, "ours": ours, "ratios": ratios }),
    }
}

/// uftrace patches a program that it starts itself, in the bytes that the compiler left for it.
fn uftrace(ours: &Series) -> Result<Row> {
    let what = "peer uftrace, launched with -P, on a function with room for it: cost over the bare call";
    if let Some(needs) = needs_tool("uftrace") {
        return Ok(Row::skipped(what, needs));
    }
    let folder = folder_in_memory();
    let (mut over_ns, mut own_ns) = (Vec::new(), Vec::new());
    for own in &ours.visits {
        let bare_ns = Tiny::start("prepared", FAST, &[])?.phase()?;
        let mut command = Command::new("uftrace");
        command.args(["record", "--no-event", "-P", "^prepared$", "-d", &folder]).arg(program()?);
        command.args(["--seconds", "1", "--chunks", "5", "--kind", "prepared"]);
        let output = command.output().context("cannot start uftrace")?;
        let _gone = std::fs::remove_dir_all(&folder);
        let probed = Spread::of(medians(&String::from_utf8_lossy(&output.stdout), "prepared"));
        if let Some(probed) = probed.filter(|probed| probed.median > bare_ns + IN_PLACE_NS) {
            over_ns.push(probed.median - bare_ns);
            own_ns.push(own.0.over_ns());
        }
    }
    Ok(ahead(what.into(), "ns", &over_ns, &own_ns))
}

/// Where uftrace writes: not to a disk.
fn folder_in_memory() -> String {
    format!("/dev/shm/trimtab-bench-uftrace-{}", std::process::id())
}

/// Medians of everything, tool by tool.
fn table<'a>(all: impl Iterator<Item = &'a Series>) -> String {
    let mut text = format!(
        "{:<32} {:>10} {:>10} {:>10} {:>12} {:>12} {:>8}",
        "medians", "ns a call", "attach ms", "leave ms", "insert us", "remove us", "after"
    );
    for series in all {
        let median = |of: fn(&Cost, &Stops) -> f64| {
            Spread::of(series.samples(of)).map_or("-".to_string(), |spread| format!("{:.2}", spread.median))
        };
        text += &format!(
            "\n{:<32} {:>10} {:>10} {:>10} {:>12} {:>12} {:>8}",
            series.name(),
            median(over),
            median(|cost, _| cost.attach_ms),
            median(|cost, _| cost.remove_ms),
            median(|_, stops| stops.insert_us),
            median(|_, stops| stops.remove_us),
            median(|cost, _| cost.after_ns / cost.before_ns),
        );
    }
    text + "\ninsert, remove: the longest time in which no thread of the process ran; after: a call, over before"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ahead_is_judged_by_the_ratios() {
        for (name, theirs, ours, expected) in [
            ("ahead", vec![10.0, 20.0], vec![1.0, 2.0], Verdict::Met),
            ("behind", vec![1.0, 2.0], vec![10.0, 20.0], Verdict::Missed),
            ("never seen", vec![], vec![1.0], Verdict::Skipped),
        ] {
            assert_eq!(ahead(name.into(), "ns", &theirs, &ours).verdict, expected, "{name}");
        }
    }

    #[test]
    fn what_is_not_there_is_said_with_the_next_step() {
        let needs = needs_tool("no-such-tool");
        assert_eq!(needs.as_deref(), Some("no-such-tool is not installed. Next: apt-get install no-such-tool"));
        let start = |_: &Bench, _: &Tiny| Ok(Command::new("true"));
        let contender = Contender { tool: "no-such-tool", does: COUNT, pace: FAST, command: Box::new(start) };
        let series = Series::new(contender, needs);
        assert_eq!(series.rows(&series).iter().map(|row| row.verdict).collect::<Vec<_>>(), [Verdict::Skipped]);
    }
}
