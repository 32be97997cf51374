//! The results of a campaign, for people and for files.
//!
//! Next: `campaign`, which fills it.

use crate::finding::Fault;
use crate::state::Numbers;
use serde::Serialize;
use std::fmt::Write;

/// Lines of an input that are printed; the file has all.
const LINES_SHOWN_MAX: usize = 8;

/// One failing input.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Where it went wrong, and what was said.
    pub fault: Fault,
    /// Seed of the worker that met it.
    pub seed: u64,
    /// The input, made smaller, as hexadecimal text.
    pub input: String,
    /// The file it was written to.
    pub file: String,
}

/// The results of one target.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TargetOutcome {
    /// Its name.
    pub name: String,
    /// Inputs run.
    pub executions: u64,
    /// Those that got past the first checks.
    pub accepted: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Inputs kept, of them found in this run.
    pub corpus: u64,
    /// Of them, found in this run.
    pub found: u64,
    /// Places of the code reached; 0 without coverage.
    pub places_reached: u64,
    /// Longest time for one input, in microseconds: includes time other programs ran.
    pub slowest_us: u64,
    /// Failing inputs, one for each place.
    pub findings: Vec<Finding>,
}

impl TargetOutcome {
    /// True if something of the same place was found before.
    pub fn knows(&self, fault: &Fault) -> bool {
        self.findings.iter().any(|known| known.fault.place == fault.place)
    }

    /// Adds what one worker did.
    pub fn add(&mut self, numbers: &Numbers) {
        self.executions += numbers.executions;
        self.accepted += numbers.accepted;
        self.found += numbers.found;
        self.corpus = self.corpus.max(numbers.corpus);
        self.places_reached = self.places_reached.max(numbers.reached);
        self.slowest_us = self.slowest_us.max(numbers.slowest_us);
    }
}

/// The results of all targets.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Seed of the whole.
    pub seed: u64,
    /// True if inputs that reached new code were told apart.
    pub guided: bool,
    /// One for each target.
    pub targets: Vec<TargetOutcome>,
}

impl Outcome {
    /// Failing inputs of all targets.
    pub fn finding_count(&self) -> usize {
        self.targets.iter().map(|target| target.findings.len()).sum()
    }
}

/// The table, and each failing input below it.
pub fn render(outcome: &Outcome) -> String {
    let mut text = String::new();
    // A string takes whatever is written.
    let _ = writeln!(
        text,
        "{:<12}{:>12}{:>10}{:>10}{:>9}{:>8}{:>9}{:>12}{:>10}",
        "target", "executions", "accepted", "per s", "corpus", "new", "places", "slowest ms", "findings"
    );
    for target in &outcome.targets {
        let _ = writeln!(
            text,
            "{:<12}{:>12}{:>9.1}%{:>10.0}{:>9}{:>8}{:>9}{:>12.1}{:>10}",
            target.name,
            target.executions,
            target.accepted as f64 * 100.0 / target.executions.max(1) as f64,
            target.executions as f64 / target.seconds.max(1e-3),
            target.corpus,
            target.found,
            target.places_reached,
            target.slowest_us as f64 / 1e3,
            target.findings.len(),
        );
    }
    if !outcome.guided {
        text.push_str(
            "not guided by coverage: this program was built without counters (`cargo xtask fuzz` has them)\n",
        );
    }
    for target in &outcome.targets {
        for finding in &target.findings {
            text.push_str(&render_finding(&target.name, finding));
        }
    }
    text
}

/// One failing input and how to run it again.
pub fn render_finding(name: &str, finding: &Finding) -> String {
    let lines: Vec<&str> = finding.input.lines().collect();
    let shown = lines[..lines.len().min(LINES_SHOWN_MAX)].join("\n");
    let rest = lines.len().saturating_sub(LINES_SHOWN_MAX);
    let rest = if rest > 0 { format!("... {rest} more lines in the file\n") } else { String::new() };
    format!(
        "\nFOUND in {name} (seed {}): {}\n  {}\n{shown}\n{rest}Next: trimtab-fuzz replay {name} {}\n",
        finding.seed, finding.fault.place, finding.fault.message, finding.file
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_was_found_and_how_to_see_it_again() {
        let fault = Fault { place: "panic at a.rs:1".to_string(), message: "no".to_string() };
        let finding = Finding { fault, seed: 3, input: "00\n".to_string(), file: "found.hex".to_string() };
        let mut target = TargetOutcome { name: "elf".to_string(), seconds: 2.0, ..TargetOutcome::default() };
        target.add(&Numbers { executions: 100, accepted: 50, corpus: 4, found: 1, reached: 9, slowest_us: 1500 });
        target.findings.push(finding);
        let outcome = Outcome { seed: 3, guided: false, targets: vec![target] };
        let text = render(&outcome);
        for part in ["50.0%", "1.5", "FOUND in elf (seed 3): panic at a.rs:1", "replay elf found.hex", "not guided"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(outcome.finding_count(), 1);
    }
}
