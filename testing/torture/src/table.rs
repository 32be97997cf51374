//! The torture's table for a terminal.
//!
//! Next: `outcome` for what the figures mean.

use crate::outcome::{Outcome, ProgramOutcome, Shares};
use std::fmt::Write;

/// The bars of the issue: functions instrumented, cycles, share at entry and at exit in percent.
const FUNCTIONS_MIN: u64 = 200_000;
const CYCLES_MIN: u64 = 10_000;
const ENTRY_MIN: f64 = 99.0;
const EXIT_MIN: f64 = 97.0;
/// Reasons shown.
const REASONS: usize = 5;

/// The table, the totals against the bars, reasons and failures.
pub fn render(outcome: &Outcome) -> String {
    let mut text = format!(
        "{:<13} {:>4} {:>7} {:>7} {:>6} {:>6} {:>7} {:>5} {:>11} {:>15} {:>15} {:>6}\n",
        "program",
        "runs",
        "funcs",
        "probed",
        "entry%",
        "exit%",
        "cycles",
        "kills",
        "hits",
        "in us med/max",
        "out us med/max",
        "broken"
    );
    for program in &outcome.programs {
        text.push_str(&row(program));
    }
    text.push('\n');
    text.push_str(&totals(outcome));
    for (title, reasons) in [("at entry", &outcome.shares.entry_refusals), ("at exit", &outcome.shares.exit_refusals)] {
        let _ = writeln!(text, "refused {title}:");
        for (reason, count) in top(reasons) {
            let _ = writeln!(text, "{count:>9}  {reason}");
        }
    }
    text.push_str(&refused_insertions(outcome));
    for (name, reason) in &outcome.skipped {
        let _ = writeln!(text, "SKIPPED: {name}: {reason}");
    }
    for program in &outcome.programs {
        for failure in &program.failures {
            let first = failure.detail.lines().next().unwrap_or_default();
            let _ = writeln!(
                text,
                "FAILED: --program {} --seed {}: {:?}: {first}",
                program.name, failure.seed, failure.kind
            );
        }
    }
    text
}

/// One line as soon as a program is done.
pub(crate) fn progress(program: &ProgramOutcome) -> String {
    row(program).trim_end().to_string()
}

fn row(program: &ProgramOutcome) -> String {
    let (entry, exit) = program.shares.percent();
    let pause = |pauses: &crate::Pauses| format!("{:.0}/{:.0}", pauses.median_us, pauses.max_us);
    format!(
        "{:<13} {:>4} {:>7} {:>7} {entry:>6.2} {exit:>6.2} {:>7} {:>5} {:>11} {:>15} {:>15} {:>6}\n",
        program.name,
        program.runs,
        program.shares.functions,
        program.functions_instrumented,
        program.cycles,
        program.kills,
        program.hits,
        pause(&program.insert_pause),
        pause(&program.remove_pause),
        program.failures.len()
    )
}

fn totals(outcome: &Outcome) -> String {
    let (entry, exit) = outcome.shares.percent();
    let Shares { functions, returning, .. } = outcome.shares;
    let verdict = |met: bool| if met { "met" } else { "MISSED" };
    let cycles = outcome.cycle_count();
    let failures = outcome.failure_count();
    let mut text = String::new();
    for (what, figure, met) in [
        (
            "functions instrumented, at least 200,000",
            outcome.functions_instrumented.to_string(),
            outcome.functions_instrumented >= FUNCTIONS_MIN,
        ),
        ("insert/remove cycles, at least 10,000", cycles.to_string(), cycles >= CYCLES_MIN),
        ("crashes, hangs, wrong outputs or bytes: 0", failures.to_string(), failures == 0),
        ("entries instrumentable, at least 99%", format!("{entry:.2}% of {functions}"), entry >= ENTRY_MIN),
        ("exits instrumentable, at least 97%", format!("{exit:.2}% of {returning}"), exit >= EXIT_MIN),
    ] {
        let _ = writeln!(text, "{what:<45} {figure:<20} {}", verdict(met));
    }
    let _ = writeln!(text, "seed {}, {:.0} s", outcome.seed, outcome.elapsed_s);
    text
}

fn refused_insertions(outcome: &Outcome) -> String {
    let mut all = std::collections::BTreeMap::new();
    for program in &outcome.programs {
        for (reason, count) in &program.errors {
            *all.entry(reason.clone()).or_default() += count;
        }
    }
    let sum = |field: fn(&ProgramOutcome) -> u64| outcome.programs.iter().map(field).sum::<u64>();
    let mut text = format!(
        "kills that left something, undone: {}; forked while patched, undone: {}; ended meanwhile: {}; memory left: {}\n",
        sum(|p| p.kills_undone),
        sum(|p| p.inherited_undone),
        sum(|p| p.ended_meanwhile),
        sum(|p| p.left_mapped)
    );
    if !all.is_empty() {
        text.push_str("insertions refused as a whole:\n");
    }
    for (reason, count) in top(&all) {
        let _ = writeln!(text, "{count:>9}  {reason}");
    }
    text
}

fn top(reasons: &std::collections::BTreeMap<String, u64>) -> Vec<(&String, &u64)> {
    let mut all: Vec<_> = reasons.iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    all.truncate(REASONS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_judged_and_failures_named() {
        let mut outcome = Outcome { functions_instrumented: FUNCTIONS_MIN, ..Outcome::default() };
        outcome.programs.push(ProgramOutcome { name: "xz".to_string(), cycles: 9_999, ..ProgramOutcome::default() });
        let text = render(&outcome);
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_string();
        assert!(line("functions").ends_with("met"), "{text}");
        assert!(line("insert/remove").ends_with("MISSED"), "{text}");
        assert!(line("crashes").ends_with("met"), "{text}");
    }
}
