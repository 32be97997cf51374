//! The results of a torture: counts, shares, pauses and failures, as JSON keeps them.
//!
//! Next: `table` prints them.

use serde::Serialize;
use std::collections::BTreeMap;

/// Everything one torture found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// The seed of all of it.
    pub seed: u64,
    /// Seconds it was to take, undisturbed runs and surveys aside.
    pub budget_s: u64,
    /// Seconds it took.
    pub elapsed_s: f64,
    /// Each program that ran.
    pub programs: Vec<ProgramOutcome>,
    /// Programs that are not installed, with the reason.
    pub skipped: BTreeMap<String, String>,
    /// Distinct functions (by file and address) that had a probe at least once, in all programs together.
    pub functions_instrumented: u64,
    /// Shares over the files of all programs, each file once.
    pub shares: Shares,
}

impl Outcome {
    /// Failures of all programs.
    pub fn failure_count(&self) -> usize {
        self.programs.iter().map(|program| program.failures.len()).sum()
    }

    /// Insertions with their removals, by us or after a kill.
    pub fn cycle_count(&self) -> u64 {
        self.programs.iter().map(|program| program.cycles + program.kills).sum()
    }
}

/// The results of one program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProgramOutcome {
    /// Its name.
    pub name: String,
    /// Seconds it takes undisturbed.
    pub undisturbed_s: f64,
    /// Times it ran to its end under torture.
    pub runs: u64,
    /// Distinct processes that were patched.
    pub processes: u64,
    /// Distinct functions (by file and address) that had a probe at least once.
    pub functions_instrumented: u64,
    /// Probes put in, over all cycles.
    pub probes_inserted: u64,
    /// Insertions that were followed by a removal.
    pub cycles: u64,
    /// Cycles in which the inserting process was killed.
    pub kills: u64,
    /// Of these, how often something was left behind that had to be undone.
    pub kills_undone: u64,
    /// Processes that were forked while patched and were restored later.
    pub inherited_undone: u64,
    /// Cycles that ended because the process ended or executed another program.
    pub ended_meanwhile: u64,
    /// Removals after which memory had to stay because a thread stood in it.
    pub left_mapped: u64,
    /// Calls counted by the probes.
    pub hits: u64,
    /// Comparisons of all text with its files.
    pub text_checks: u64,
    /// Time held for insertions.
    pub insert_pause: Pauses,
    /// Time held for removals, the longest stop of each.
    pub remove_pause: Pauses,
    /// The share of its files' functions that can be instrumented.
    pub shares: Shares,
    /// Insertions that were refused or failed without harm, by reason.
    pub errors: BTreeMap<String, u64>,
    /// The failures.
    pub failures: Vec<Failure>,
}

/// Lengths of pauses, microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Pauses {
    /// Median.
    pub median_us: f64,
    /// 99 of 100 are at most this long.
    pub p99_us: f64,
    /// Longest.
    pub max_us: f64,
}

impl Pauses {
    /// From all lengths in nanoseconds.
    pub fn of(mut all_ns: Vec<u64>) -> Pauses {
        all_ns.sort_unstable();
        let at = |share: f64| {
            let index = (all_ns.len().saturating_sub(1) as f64 * share).round() as usize;
            all_ns.get(index).map_or(0.0, |ns| *ns as f64 / 1e3)
        };
        Pauses { median_us: at(0.5), p99_us: at(0.99), max_us: at(1.0) }
    }
}

/// The share of functions that can be instrumented.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shares {
    /// Functions of 16 bytes or more.
    pub functions: u64,
    /// Of these, entries that can be patched.
    pub entry: u64,
    /// Functions of 16 bytes or more that return or jump out somewhere.
    pub returning: u64,
    /// Of these, functions whose entry and every exit can be patched.
    pub exit: u64,
    /// Entries refused, by reason.
    pub entry_refusals: BTreeMap<String, u64>,
    /// Exits refused where the entry is not, by reason.
    pub exit_refusals: BTreeMap<String, u64>,
}

impl Shares {
    /// Adds those of another file.
    pub fn add(&mut self, other: &Shares) {
        self.functions += other.functions;
        self.entry += other.entry;
        self.returning += other.returning;
        self.exit += other.exit;
        for (mine, others) in
            [(&mut self.entry_refusals, &other.entry_refusals), (&mut self.exit_refusals, &other.exit_refusals)]
        {
            for (reason, count) in others {
                *mine.entry(reason.clone()).or_default() += count;
            }
        }
    }

    /// Percentages at entry and at exit.
    pub fn percent(&self) -> (f64, f64) {
        let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 };
        (share(self.entry, self.functions), share(self.exit, self.returning))
    }
}

/// Something that must never happen, and did.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The run's seed: `--program NAME --seed SEED` makes the same choices again.
    pub seed: u64,
    /// The evidence: bytes, exit status, backtrace.
    pub detail: String,
    /// Where its files were kept.
    pub folder: String,
    /// The last cycles before it.
    pub log: Vec<String>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A process was ended by a signal, or the exit status was another.
    Crash,
    /// The output was another.
    WrongOutput,
    /// Text differed from its file after a removal.
    Bytes,
    /// It did not end in time.
    Hang,
    /// A removal or an undo failed in a living process.
    NotRestored,
}

/// `text` with its numbers taken out, so that equal reasons count as one.
pub(crate) fn without_numbers(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let has_digit = word.chars().any(|c| c.is_ascii_digit());
        let is_number = word.trim_start_matches("0x").chars().all(|c| c.is_ascii_hexdigit() || ",.:;)(".contains(c));
        if has_digit && is_number { "N" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_lose_their_numbers_only() {
        assert_eq!(without_numbers("the call at 0x7f00 of 12, a jump needs 2;"), "the call at N of N a jump needs N");
        assert_eq!(without_numbers("a bad cafe"), "a bad cafe");
    }

    #[test]
    fn pauses_are_summed_up() {
        let pauses = Pauses::of(vec![3000, 1000, 2000]);
        assert_eq!((pauses.median_us, pauses.max_us), (2.0, 3.0));
        assert_eq!(Pauses::of(Vec::new()).max_us, 0.0);
    }
}
