//! The resources that trimtab itself uses while probes are in and nothing happens.
//!
//! The kernel counts a process's time in ticks of a hundredth of a second; a tool that only waits uses none.
//!
//! Next: `contender` for what it costs the program.

use super::attach::Bench;
use super::contender::Contender;
use super::row::Row;
use super::tiny::{COUNTED, FAST};
use anyhow::{Context, Result};
use std::time::Duration;

/// How long it is watched.
const WATCHED: Duration = Duration::from_secs(5);
/// At most this often the kernel may find it at work: it wakes up, it does not compute.
const TICKS_BAR: f64 = 1.0;

/// Scripts that stay in the process without being told to do anything.
const SCRIPTS: [(&str, &str); 3] = [
    ("counting", COUNTED),
    ("that sends messages, of which none comes", "entry pure when ($0 > 100000) { send(\"large\", $0) }"),
    ("that reads memory and stops by itself, when nothing is to stop", "entry pure when (*(long *)$1 == 5) { stop() }"),
];

/// One row per script.
pub fn rows(bench: &Bench) -> Result<Vec<Row>> {
    SCRIPTS.iter().map(|(what, script)| row(bench, what, script)).collect()
}

fn row(bench: &Bench, what: &'static str, script: &'static str) -> Result<Row> {
    let contender = Contender::trimtab(what, script, FAST);
    let watched = if bench.quick { WATCHED / 5 } else { WATCHED };
    let ticks = (0..bench.rounds(3, 1)).map(|_| Ok(contender.ticks_used(bench, watched)? as f64));
    let ticks = ticks.collect::<Result<Vec<f64>>>().context(what)?;
    let what = format!("processor time of trimtab in {} s with a script {what}", watched.as_secs());
    Ok(Row::at_most(what, "ticks of 10 ms", &ticks, TICKS_BAR))
}
