//! The cost of one probe, on a function of two instructions, against the same measuring code written by hand.
//!
//! Every round is a fresh process that prints, again and again, what a bare call costs while the probe goes in and out,
//! and two more that print what the floors cost. All phases of a round lie within a second, so that drift cancels. The
//! kinds have a process each because a bare call that takes turns with others has two speeds, 1.64 and 2.16 ns, and
//! changes between them whether it is touched or not.
//!
//! Next: `crates/process/session/examples/probe_cost.rs`, which does as told; `tiny`, which is measured.

use super::attach::Bench;
use super::row::{Row, Verdict};
use super::runner::{Measured, Series, Spread};
use super::tiny::{FAST, Tiny};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Entry and exit timed, over what is written by hand.
const FLOOR_RATIO_BAR: f64 = 1.3;
/// A count alone, over the bare call.
const COUNT_NS_BAR: f64 = 2.0;
/// Two figures of a call that nobody touches differ by this share at least.
const EQUAL_WITHIN: f64 = 0.01;
/// The contenders, in the order of [`Round`].
const NAMES: [&str; 8] = [
    "bare",
    "bare again, untouched",
    "timed by hand",
    "timed by trimtab",
    "bare after the timed probe",
    "counted by hand",
    "counted by trimtab",
    "bare after the counting probe",
];

type Round = [f64; NAMES.len()];

/// The rows about one probe, and the samples behind them.
pub fn rows(bench: &Bench) -> Result<(Measured, Vec<Row>)> {
    let rounds: Vec<Round> =
        (0..bench.rounds(12, 4)).map(|_| round(bench)).collect::<Result<_>>().context("the probe's cost")?;
    let series = NAMES.iter().enumerate().map(|(index, name)| Series {
        name: name.to_string(),
        samples: rounds.iter().map(|round| round[index]).collect(),
    });
    let measured = Measured { title: "one call of a tiny function".into(), unit: "ns", series: series.collect() };
    Ok((measured, judge(&rounds)))
}

fn judge(rounds: &[Round]) -> Vec<Row> {
    let over_bare = |index: usize| rounds.iter().map(move |round| round[index] - round[0]);
    let against_floor: Vec<f64> = over_bare(3).zip(over_bare(2)).map(|(probe, floor)| probe / floor).collect();
    let counted: Vec<f64> = over_bare(6).collect();
    let timed = "entry and exit timed, with count, sum, first, last and bytes: cost over the bare call, divided by \
                 that of the same written by hand";
    vec![
        Row::median_at_most(timed, "x", &against_floor, FLOOR_RATIO_BAR),
        Row::median_at_most("count only, over the bare call", "ns", &counted, COUNT_NS_BAR),
        after_removal(rounds),
    ]
}

/// Equal to before if it differs no more than the bare call does from itself while nobody touches the process.
fn after_removal(rounds: &[Round]) -> Row {
    let over_before = |index: usize| rounds.iter().map(move |round| round[index] / round[0]);
    let (noise, after): (Vec<f64>, Vec<f64>) =
        (over_before(1).collect(), over_before(4).chain(over_before(7)).collect());
    let what = "after removal, over before; text bytes compared";
    let (Some(noise), Some(spread)) = (Spread::of(noise), Spread::of(after.clone())) else {
        return Row::skipped(what, "no sample was taken");
    };
    let off = |median: f64| (median - 1.0).abs();
    let equal = off(spread.median) <= off(noise.min).max(off(noise.max)).max(EQUAL_WITHIN);
    Row {
        what: what.into(),
        measured: format!("x: {spread}; untouched: {noise}; text bytes identical in all {} processes", rounds.len()),
        bar: "within what an untouched process does in the same time, bytes identical".into(),
        verdict: Verdict::of(equal),
        figures: json!({ "samples": after, "untouched": noise.to_json(), "text_identical": true }),
    }
}

/// The floors, and one process from untouched to restored twice.
fn round(bench: &Bench) -> Result<Round> {
    let timed_by_hand = Tiny::start("timed", FAST, &[])?.phase()?;
    let counted_by_hand = Tiny::start("counted", FAST, &[])?.phase()?;
    let mut tiny = Tiny::start("bare", FAST, &[])?;
    let mut prober = Prober::start(&bench.binary("examples/probe_cost"), tiny.pid())?;
    let before = tiny.phase()?;
    let again = tiny.phase()?;
    prober.ask("timed", "inserted")?;
    let timed = tiny.phase()?;
    prober.ask("remove", "removed")?;
    let after_timed = tiny.phase()?;
    prober.ask("counted", "inserted")?;
    let counted = tiny.phase()?;
    prober.ask("remove", "removed")?;
    let after_counted = tiny.phase()?;
    tiny.check_restored()?;
    Ok([before, again, timed_by_hand, timed, after_timed, counted_by_hand, counted, after_counted])
}

/// The helper that puts the probe in and takes it out; its end takes it out too.
pub(super) struct Prober {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Prober {
    /// Starts `probe_cost`, this build's or an earlier one's, for the function of `tiny`.
    pub(super) fn start(probe_cost: &Path, pid: i32) -> Result<Prober> {
        let mut command = Command::new(probe_cost);
        command.args([pid.to_string().as_str(), "tiny"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start probe_cost")?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("probe_cost has no output")?);
        Ok(Prober { child, input, output })
    }

    /// Has it do something, and waits for the answer.
    pub(super) fn ask(&mut self, request: &str, expected: &str) -> Result<()> {
        let input = self.input.as_mut().context("probe_cost has no input")?;
        writeln!(input, "{request}").context("probe_cost has ended")?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        ensure!(answer.starts_with(expected), "probe_cost answered `{}` to `{request}`", answer.trim());
        Ok(())
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        // The end of its input ends it, after it has restored the process.
        drop(self.input.take());
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_taken_over_the_bare_call() {
        let verdicts = |round: Round| judge(&[round]).iter().map(|row| row.verdict).collect::<Vec<_>>();
        let [met, missed] = [Verdict::Met, Verdict::Missed];
        assert_eq!(verdicts([1.5, 1.5, 18.5, 20.5, 1.5, 2.0, 3.0, 1.5]), [met, met, met]);
        assert_eq!(verdicts([1.5, 1.6, 18.5, 28.5, 2.5, 2.0, 9.0, 3.0]), [missed, missed, missed]);
        assert_eq!(verdicts([1.5, 3.0, 18.5, 28.5, 2.5, 2.0, 9.0, 3.0])[2], met, "no more than when untouched");
    }
}
