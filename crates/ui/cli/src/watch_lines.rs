//! The lines of `watch` about each start: one line for people, one JSON object for programs.
//!
//! Next: `watch`, which knows when.

use crate::output;
use anyhow::Context;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use trimtab_engine::{Came, Held, Job, Missed, Sighting, Start, Watched, own};
use trimtab_types::report::Report;

/// Where lines go.
pub struct Lines {
    json: Json,
    measured: u64,
}

enum Json {
    None,
    StandardOutput,
    File(File),
}

impl Lines {
    /// Lines on standard output, and objects behind what `json` holds.
    pub fn new(json: Option<&Path>) -> anyhow::Result<Lines> {
        let json = match json {
            None => Json::None,
            Some(path) if path == Path::new("-") => Json::StandardOutput,
            Some(path) => {
                let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
                Json::File(opened.with_context(|| format!("can't write {}", path.display()))?)
            }
        };
        Ok(Lines { json, measured: 0 })
    }

    /// Tells what came of a start. A window that could not be stored is an error, after it was told.
    pub fn tell(&mut self, start: &Start, came: Came<'_>) -> anyhow::Result<()> {
        match came {
            Came::Refused(reason) => self.refused(start, &reason),
            Came::Ended => self.ended(start),
            Came::Failed { job, turn_s, reason } => self.failed(start, job, turn_s, &reason),
            Came::Measured { job, report, turn_s, kept } => {
                self.measured(start, (job, report), turn_s)?;
                kept.context("the window was measured, but could not be stored")
            }
        }
    }

    /// A start that is not measured, for this reason.
    fn refused(&mut self, start: &Start, reason: &str) -> anyhow::Result<()> {
        self.say(start, None, &format!("not measured: {reason}"), json!({ "outcome": "refused", "reason": reason }))
    }

    /// One that ended too soon.
    fn ended(&mut self, start: &Start) -> anyhow::Result<()> {
        self.say(start, None, "not measured: it ended before that", json!({ "outcome": "ended" }))
    }

    /// One whose window failed.
    fn failed(&mut self, start: &Start, job: &Job, turn_s: Option<f64>, reason: &str) -> anyhow::Result<()> {
        let fields = json!({ "outcome": "failed", "reason": reason, "waited_for_turn_s": turn_s });
        self.say(start, Some(job), &format!("not measured{}: {reason}", turn(turn_s)), fields)
    }

    /// One that was measured.
    fn measured(&mut self, start: &Start, (job, report): (&Job, &Report), turn_s: Option<f64>) -> anyhow::Result<()> {
        self.measured += 1;
        let window = format!("{}/{}", report.job.id, report.window.number);
        let share = report.communication_fraction.as_ref().map(|share| share.mean);
        let judged = if report.window.valid { "valid" } else { "not valid" };
        let iterations = report.window.iterations;
        let counted = iterations.map_or_else(String::new, |count| format!(", {count} iterations"));
        let shared = share.map_or_else(String::new, |share| format!(", {:.1}% communication", share * 100.0));
        let late = report.window.begins_late.as_ref();
        let part = if late.is_some() { ", not the whole run" } else { "" };
        let words = format!("window {window} is {judged}{counted}{shared}{part}{}", turn(turn_s));
        let fields = json!({
            "outcome": "measured",
            "job": report.job.id,
            "window": report.window.number,
            "valid": report.window.valid,
            "iterations": iterations,
            "communication_fraction": share,
            "begins_late": late,
            "waited_for_turn_s": turn_s,
        });
        self.say(start, Some(job), &words, fields)
    }

    /// The sums at the end.
    pub fn summary(&self, Watched { seen, missed }: Watched) -> String {
        let Missed { nameless, losses } = missed;
        let mut text = format!("trimtab: {seen} starts, {} measured", self.measured);
        if nameless > 0 {
            text += &format!("; {nameless} programs of unknown names ended before they could be looked at");
        }
        if losses > 0 {
            text += &format!("; the kernel dropped events {losses} times, what still ran then was found by a scan");
        }
        text
    }

    fn say(&mut self, start: &Start, job: Option<&Job>, words: &str, outcome: Value) -> anyhow::Result<()> {
        match &mut self.json {
            Json::StandardOutput => return output::print_text(&object(start, job, outcome).to_string()),
            Json::File(file) => {
                writeln!(file, "{}", object(start, job, outcome)).context("can't write the JSON file")?
            }
            Json::None => {}
        }
        output::print_text(&format!("#{} {}: {words}", start.number, name(start, job)))
    }
}

/// How long a job waited until fewer windows were open.
fn turn(turn_s: Option<f64>) -> String {
    turn_s.map_or_else(String::new, |seconds| format!(", after it had waited {seconds:.1} s for other windows to end"))
}

/// `app (2 ranks, processes 12 13)`.
fn name(start: &Start, job: Option<&Job>) -> String {
    let program = start.processes.first().map(|process| process.program.as_path()).unwrap_or(Path::new(""));
    let program = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let pids = pids(start, job).iter().map(i32::to_string).collect::<Vec<_>>().join(" ");
    match job.map(|job| job.ranks.len()) {
        Some(ranks) if ranks > 1 => format!("{program} ({ranks} ranks, processes {pids})"),
        _ => format!("{program} (process {pids})"),
    }
}

fn pids(start: &Start, job: Option<&Job>) -> Vec<i32> {
    match job {
        Some(job) => job.ranks.iter().map(|rank| rank.pid.0).collect(),
        None => start.processes.iter().map(|process| process.pid.0).collect(),
    }
}

fn object(start: &Start, job: Option<&Job>, outcome: Value) -> Value {
    let first = start.processes.first();
    let now_ns = own::monotonic_ns();
    let ago_s = |then_ns: u64| now_ns.saturating_sub(then_ns) as f64 / 1e9;
    let started = first.map(|process| own::unix_s() - ago_s(process.exec_ns.unwrap_or(process.seen_ns)));
    let mut object = json!({
        "number": start.number,
        "program": first.map(|process| process.program.to_string_lossy()),
        "started_unix_s": started,
        "key": job.map(|job| job.key.as_str()),
        "processes": pids(start, job),
        "seen": start.processes.iter().map(sight).collect::<Vec<_>>(),
    });
    if let (Some(object), Value::Object(outcome)) = (object.as_object_mut(), outcome) {
        object.extend(outcome);
    }
    object
}

/// How soon one process was seen, and held.
fn sight(process: &Sighting) -> Value {
    let us_after = |then_ns: u64| process.exec_ns.map(|exec_ns| then_ns.saturating_sub(exec_ns) / 1000);
    let outcome = process.holding.as_ref().map(|holding| holding.outcome());
    let held = outcome.as_ref().and_then(|outcome| outcome.get());
    json!({
        "pid": process.pid.0,
        "seen_us": us_after(process.seen_ns),
        "seized_us": held.and_then(|held| us_after(held.as_ref().ok()?.since_ns)),
        "held": held.map(|held| match held {
            Ok(Held { us, timed_out, .. }) => json!({ "us": us, "timed_out": timed_out }),
            Err(reason) => json!({ "refused": reason.to_string() }),
        }),
    })
}
