//! The cost of one call that a window records as it does MPI's functions: timed, kept in the ring, and told apart by the
//! path it came by, which is known by then.
//!
//! A C program calls such a function itself; Fortran and others call a binding that does, so the path has one step more.
//! An earlier build of trimtab's `probe_cost` (`--before FILE`) measures the same process in turns: both figures are over
//! a bare call, so their difference is what trimtab's engine has become slower, or faster, since.
//!
//! Next: `probe` for the process that puts probes in; `crates/process/stub/src/paths.rs` for the steps.

use super::attach::Bench;
use super::probe::Prober;
use super::row::Row;
use super::runner::{Measured, Series};
use super::tiny::{FAST, Tiny};
use anyhow::{Context, Result};
use std::path::Path;

/// A call from C, over the earlier build's.
const DIRECT_NS_BAR: f64 = 5.0;
/// A call through a binding, over the earlier build's.
const BINDING_NS_BAR: f64 = 10.0;
/// How the measured function is called, as `tiny` names it.
const KINDS: [(&str, &str, f64); 2] =
    [("bare", "called by the program", DIRECT_NS_BAR), ("bound", "called through a binding", BINDING_NS_BAR)];

/// Nanoseconds that a recorded call costs over the bare one.
struct Cost {
    now: f64,
    before: Option<f64>,
}

/// The rows about a recorded call, and the samples behind them.
pub fn rows(bench: &Bench) -> Result<(Measured, Vec<Row>)> {
    let mut rounds: Vec<Vec<Cost>> = KINDS.iter().map(|_| vec![]).collect();
    for _ in 0..bench.rounds(12, 4) {
        for ((kind, _, _), costs) in KINDS.iter().zip(&mut rounds) {
            costs.push(round(bench, kind).with_context(|| format!("a recorded call, {kind}"))?);
        }
    }
    let mut series = vec![];
    for ((_, how, _), costs) in KINDS.iter().zip(&rounds) {
        series.push(Series { name: format!("recorded, {how}"), samples: costs.iter().map(|cost| cost.now).collect() });
        let before: Vec<f64> = costs.iter().filter_map(|cost| cost.before).collect();
        if !before.is_empty() {
            series.push(Series { name: format!("the same before, {how}"), samples: before });
        }
    }
    let rows = KINDS.iter().zip(&rounds).map(|((_, how, bar), costs)| judge(how, *bar, costs)).collect();
    Ok((Measured { title: "one recorded call over the bare call".into(), unit: "ns", series }, rows))
}

fn judge(how: &str, bar: f64, costs: &[Cost]) -> Row {
    let what = format!("a recorded call, {how}: over the earlier build's");
    let more: Vec<f64> = costs.iter().filter_map(|cost| Some(cost.now - cost.before?)).collect();
    if more.is_empty() {
        let now: Vec<f64> = costs.iter().map(|cost| cost.now).collect();
        return Row::no_bar(format!("a recorded call, {how}: over the bare call"), "ns", &now);
    }
    Row::median_at_most(what, "ns", &more, bar)
}

/// One process; this build first, then the earlier one.
fn round(bench: &Bench, kind: &'static str) -> Result<Cost> {
    let mut tiny = Tiny::start(kind, FAST, &[])?;
    let now = over_bare(&bench.binary("examples/probe_cost"), &mut tiny)?;
    let before = bench.before.as_ref().map(|before| over_bare(before, &mut tiny)).transpose()?;
    tiny.check_restored()?;
    Ok(Cost { now, before })
}

fn over_bare(probe_cost: &Path, tiny: &mut Tiny) -> Result<f64> {
    let bare = tiny.phase()?;
    let mut prober = Prober::start(probe_cost, tiny.pid())?;
    prober.ask("recorded", "inserted")?;
    let recorded = tiny.phase()?;
    prober.ask("remove", "removed")?;
    Ok(recorded - bare)
}

#[cfg(test)]
mod tests {
    use super::super::row::Verdict;
    use super::*;

    #[test]
    fn the_bar_is_for_what_the_engine_has_become_slower() {
        let verdict = |now, before| judge("anyhow", 5.0, &[Cost { now, before }]).verdict;
        assert_eq!(verdict(70.0, Some(66.0)), Verdict::Met);
        assert_eq!(verdict(70.0, Some(64.0)), Verdict::Missed);
        assert_eq!(verdict(70.0, None), Verdict::NoBar, "nothing to compare with");
    }
}
