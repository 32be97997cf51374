//! Counting what test programs print, and keeping what failed tests said for the end of the whole run.
//!
//! Whoever sees only the last lines of a long run shall see there why a test failed: each failed test's own output is
//! printed again, shortened to what a person reads first.
//!
//! Next: `suite`, which runs the programs.

use std::collections::BTreeSet;
use std::process::ExitStatus;

/// Each line of the log of skipped tests, and the line printed, starts with this.
pub const SKIP_MARK: &str = "SKIPPED: ";
/// How many lines are kept of the beginning and of the end of what a failed test said.
const KEPT_HEAD: usize = 20;
const KEPT_TAIL: usize = 40;
/// Tests that compare a program's text with how it was say so where it differs, in these words of theirs.
const DIFFERENT_TEXT: &str = "Some(Byte { module: ";
/// How many failed tests are shown again; all are named.
const SHOWN_MAX: usize = 12;

/// The counts so far.
#[derive(Default)]
pub struct Tally {
    /// Tests libtest calls passed; those in `skips` that name a whole test are taken out.
    pub passed: usize,
    /// Failed tests, crashed test programs, builds that failed: one line each.
    pub problems: Vec<String>,
    /// The output of failed tests, and the last lines of programs that crashed.
    said: Vec<Said>,
    /// `name: reason` of everything skipped.
    pub skips: BTreeSet<String>,
    /// How many of `problems` are names of tests.
    named_failures: usize,
    /// Failures that did not come again when the test was run once more, with nothing beside it.
    pub passed_again: Vec<String>,
    /// The test program that runs.
    running: Option<Program>,
}

/// The output of one failed test.
struct Said {
    /// Its name as libtest prints it, or that of a crashed program.
    name: String,
    /// All lines between its heading and the next.
    lines: Vec<String>,
}

/// A test program that has begun and not yet given its result.
struct Program {
    /// How many tests it has, in libtest's words.
    count: String,
    /// Its last lines, oldest first.
    last_lines: Vec<String>,
    /// Problems known before it began.
    problems_before: usize,
    /// It prints what the test at the end of `said` had said.
    tells_why: bool,
}

impl Tally {
    /// Counts one line of what tests print.
    pub fn read_line(&mut self, line: &str) {
        if let Some(count) = begun_count(line) {
            self.end_program();
            let (count, last_lines) = (count.to_string(), Vec::new());
            self.running = Some(Program { count, last_lines, problems_before: self.failed(), tells_why: false });
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.read_result(result);
        } else if let Some(test) = line.strip_prefix("test ") {
            self.read_test(test);
        }
        if let Some(program) = &mut self.running {
            if program.last_lines.len() == KEPT_TAIL {
                program.last_lines.remove(0);
            }
            program.last_lines.push(line.to_string());
            self.keep(line);
        }
    }

    /// Keeps what libtest prints of a failed test, from its heading to the next one or to the list of names.
    fn keep(&mut self, line: &str) {
        let Some(program) = &mut self.running else { return };
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.said.push(Said { name: name.to_string(), lines: Vec::new() });
            program.tells_why = true;
        } else if line == "failures:" {
            program.tells_why = false;
        } else if program.tells_why
            && let Some(said) = self.said.last_mut()
        {
            said.lines.push(line.to_string());
        }
    }

    /// Takes libtest's own counts; a child that shares stdout may have broken the line that named a failed test.
    fn read_result(&mut self, result: &str) {
        self.passed += count_before(result, " passed");
        let problems_before = self.running.take().map_or(self.failed(), |program| program.problems_before);
        for _ in self.failed() - problems_before..count_before(result, " failed") {
            self.problems.push("a test whose line other output broke: see `failures:` of its program".to_string());
        }
    }

    fn read_test(&mut self, test: &str) {
        if let Some(name) = test.strip_suffix(" ... FAILED") {
            self.problems.push(name.to_string());
            self.named_failures += 1;
        } else if let Some((name, reason)) = test.split_once(" ... ignored") {
            let reason = reason.strip_prefix(", ").unwrap_or("ignored in the source");
            self.skips.insert(format!("{name}: {reason}"));
        }
    }

    /// A program that began and printed no result has crashed.
    fn end_program(&mut self) {
        if let Some(Program { count, last_lines, .. }) = self.running.take() {
            let last_line = last_lines.last().cloned().unwrap_or_default();
            self.problems.push(format!("a test program with {count} crashed, its last line: {last_line}"));
            self.said.push(Said { name: format!("a test program with {count} that crashed"), lines: last_lines });
        }
    }

    /// Counts the end of the program that was started as `line` and printed all that was read.
    pub fn end_of(&mut self, line: &str, status: ExitStatus) {
        self.end_program();
        if !status.success() && self.failed() == 0 {
            self.problems
                .push(format!("`{line}` ended with {status} and no failed test: see above for what did not build"));
        }
    }

    /// True if a test found text of a program that was not as before: that is never an accident of a busy machine.
    pub fn has_harmed(&self) -> bool {
        self.said.iter().flat_map(|said| &said.lines).any(|line| line.contains(DIFFERENT_TEXT))
    }

    /// Takes the tests that say they could not run out of those that passed.
    pub fn read_skip_log(&mut self, log: &str) {
        for skip in log.lines().filter_map(|line| line.strip_prefix(SKIP_MARK)) {
            let is_new = self.skips.insert(skip.to_string());
            let is_case = skip.split(": ").next().is_some_and(|name| name.ends_with(']'));
            if is_new && !is_case {
                self.passed = self.passed.saturating_sub(1);
            }
        }
    }

    /// Counts what another one counted.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.problems.extend(other.problems);
        self.said.extend(other.said);
        self.skips.extend(other.skips);
        self.passed_again.extend(other.passed_again);
    }

    /// Counts a program of which tests failed, `first`, and that was run again, as a whole or only those tests
    /// (`only_failed`). The second verdict counts; what passed then and said why it failed before is said.
    pub fn add_again(&mut self, first: Tally, again: Tally, only_failed: bool) {
        for problem in first.problems.iter().filter(|problem| !again.problems.contains(problem)) {
            self.passed_again.push(problem.clone());
        }
        if only_failed {
            self.passed += first.passed;
            self.skips.extend(first.skips);
        }
        self.add(again);
    }

    /// The names of the tests that failed; `None` if a failure has no name.
    pub fn failed_tests(&self) -> Option<Vec<String>> {
        (self.problems.len() == self.named_failures).then(|| self.problems.clone())
    }

    /// How many tests failed, programs crashed and builds failed.
    pub fn failed(&self) -> usize {
        self.problems.len()
    }

    /// The last line of a run.
    pub fn summary(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed(), self.skips.len())
    }

    /// The output of failed tests, shortened, for the end of a run.
    pub fn why_they_failed(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for said in self.said.iter().take(SHOWN_MAX) {
            lines.push(format!("---- {} said:", said.name));
            lines.extend(shortened(&said.lines));
            lines.push(String::new());
        }
        let more = self.said.len().saturating_sub(SHOWN_MAX);
        if more > 0 {
            lines.push(format!("---- {more} more that failed: see above for what they said\n"));
        }
        lines
    }
}

/// Without empty lines at both ends, without the frames of a backtrace that are not in this workspace, and without the
/// middle of what is still too long.
fn shortened(lines: &[String]) -> Vec<String> {
    let lines = own_frames(lines);
    let begin = lines.iter().position(|line| !line.is_empty()).unwrap_or(lines.len());
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(begin, |last| last + 1);
    let lines = &lines[begin..end];
    if lines.len() <= KEPT_HEAD + KEPT_TAIL {
        return lines.to_vec();
    }
    let (tail, left_out) = (lines.len() - KEPT_TAIL, lines.len() - KEPT_HEAD - KEPT_TAIL);
    let note = format!("[{left_out} lines are left out here, see above]");
    [&lines[..KEPT_HEAD], &[note], &lines[tail..]].concat()
}

/// Leaves of each backtrace only frames whose source is in this workspace.
fn own_frames(lines: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut in_backtrace = false;
    for line in lines {
        let text = line.trim_start();
        let is_frame = text.split_once(": ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        in_backtrace = match () {
            () if line == "stack backtrace:" => true,
            () => in_backtrace && (is_frame || text.starts_with("at ")),
        };
        match () {
            () if in_backtrace && text.starts_with("at ./") => kept.push(line.clone()),
            () if in_backtrace && (is_frame || text.starts_with("at ")) => {}
            () if text.starts_with("note: Some details are omitted") => {}
            () => kept.push(line.clone()),
        }
    }
    kept
}

/// The text in a line by which a test program says that it begins, such as "3 tests".
fn begun_count(line: &str) -> Option<&str> {
    line.strip_prefix("running ").filter(|count| count.ends_with(" test") || count.ends_with(" tests"))
}

/// The number that stands before `word` in a result line of libtest.
fn count_before(result: &str, word: &str) -> usize {
    let before = result.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn tally_of(output: &str, log: &str, exit_code: i32) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read_line(line));
        tally.end_of("cargo test", ExitStatus::from_raw(exit_code << 8));
        tally.read_skip_log(log);
        tally
    }

    #[test]
    fn tests_are_counted() {
        let two = "running 2 tests\ntest a ... ok\ntest b ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n";
        let failing = "running 2 tests\ntest a ... ok\ntest m::b ... FAILED\n\nfailures:\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n";
        let broken = "running 3 tests\ntest a ... noise\nFAILED\ntest b ... FAILED\ntest c ... ok\n\ntest result: FAILED. 1 passed; 2 failed\n";
        let doc = "running 1 test\ntest src/lib.rs - f (line 3) ... ignored\n\ntest result: ok. 0 passed; 0 failed; 1 ignored\n";
        let crash = "running 3 tests\ntest a ... ok\ntest b ... ";
        let crash_then_two = format!("{crash}\n{two}");
        for (name, output, log, exit_code, expected) in [
            ("all pass", two, "", 0, "2 passed, 0 failed, 0 skipped"),
            ("one fails", failing, "", 101, "1 passed, 1 failed, 0 skipped"),
            ("one skipped", two, "SKIPPED: a: no mpirun\n", 0, "1 passed, 0 failed, 1 skipped"),
            (
                "skipped twice",
                two,
                "SKIPPED: a: no mpirun\nSKIPPED: a: no mpirun\n",
                0,
                "1 passed, 0 failed, 1 skipped",
            ),
            ("one case skipped", two, "SKIPPED: a[openmpi]: no mpirun\n", 0, "2 passed, 0 failed, 1 skipped"),
            ("other lines in the log", two, "noise\n", 0, "2 passed, 0 failed, 0 skipped"),
            ("ignored", doc, "", 0, "0 passed, 0 failed, 1 skipped"),
            ("crash at the end", crash, "", 101, "0 passed, 1 failed, 0 skipped"),
            ("crash before another", crash_then_two.as_str(), "", 101, "2 passed, 1 failed, 0 skipped"),
            ("line broken by a child", broken, "", 101, "1 passed, 2 failed, 0 skipped"),
            ("does not build", "", "", 101, "0 passed, 1 failed, 0 skipped"),
            ("a test that talks", "running late\ntest of patience\n", "", 0, "0 passed, 0 failed, 0 skipped"),
        ] {
            assert_eq!(tally_of(output, log, exit_code).summary(), expected, "{name}");
        }
    }

    #[test]
    fn problems_carry_names() {
        let failing =
            tally_of("running 1 test\ntest m::b ... FAILED\ntest result: FAILED. 0 passed; 1 failed\n", "", 101);
        assert_eq!(failing.problems, ["m::b"]);
        let crash = tally_of("running 3 tests\ntest a ... ok\ntest b ... ", "", 101);
        assert!(crash.problems[0].ends_with("its last line: test b ... "), "{:?}", crash.problems);
    }

    /// A test program of which `lines` of a failed test come between its heading and the list of names.
    fn failing_with(lines: &str) -> String {
        format!(
            "running 2 tests\ntest a ... ok\ntest m::b ... FAILED\n\nfailures:\n\n---- m::b stdout ----\n{lines}\n\n\n\
             failures:\n    m::b\n\ntest result: FAILED. 1 passed; 1 failed\n\nrunning 1 test\nnoise\ntest c ... ok\n\
             test result: ok. 1 passed; 0 failed\n"
        )
    }

    #[test]
    fn failed_tests_say_again_why() {
        let backtrace = "\nthread 'm::b' panicked at src/x.rs:3:5:\nleft: 1\nstack backtrace:\n   0: core::panicking\n\
                         \u{20}            at /rustc/a/panicking.rs:80:14\n   1: x::f\n             at ./src/x.rs:3:5\n\
                         note: Some details are omitted, run with `RUST_BACKTRACE=full`.\nafterwards";
        let numbered = |from: usize, to: usize| (from..to).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let long = format!("{}\n[40 lines are left out here, see above]\n{}", numbered(0, 20), numbered(60, 100));
        for (name, said, expected) in [
            ("short", "left: 1\n\nright: 2", "left: 1\n\nright: 2"),
            (
                "backtrace",
                backtrace,
                "thread 'm::b' panicked at src/x.rs:3:5:\nleft: 1\nstack backtrace:\n             at ./src/x.rs:3:5\nafterwards",
            ),
            ("long", &numbered(0, 100), &long),
        ] {
            let tally = tally_of(&failing_with(said), "", 101);
            assert_eq!(tally.why_they_failed().join("\n"), format!("---- m::b said:\n{expected}\n"), "{name}");
        }
        assert!(
            tally_of("running 1 test\ntest a ... ok\ntest result: ok. 1 passed\n", "", 0).why_they_failed().is_empty()
        );
        let crash = tally_of("running 3 tests\nwhat it said\ntest b ... ", "", 101).why_they_failed();
        assert!(crash.contains(&"what it said".to_string()), "{crash:?}");
    }

    #[test]
    fn text_that_differs_is_noticed() {
        let said = |why: &str| {
            format!(
                "running 1 test\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\n{why}\n\n\nfailures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed\n"
            )
        };
        let byte =
            "  left: Some(Byte { module: \"/lib/libmpich.so\", offset: 669808, address: 1, before: 65, after: 233 })";
        for (why, expected) in [(byte, true), ("  left: Some(2)", false)] {
            assert_eq!(tally_of(&said(why), "", 101).has_harmed(), expected, "{why}");
        }
        // Its own printing, where it runs inside of this suite, is no failure.
        assert!(
            !tally_of(&format!("running 1 test\ntest a ... ok\n{byte}\ntest result: ok. 1 passed; 0 failed\n"), "", 0)
                .has_harmed()
        );
    }

    #[test]
    fn many_failures_are_not_all_shown_again() {
        let many = failing_with("x").repeat(SHOWN_MAX + 2);
        let shown = tally_of(&many, "", 101).why_they_failed();
        assert_eq!(shown.iter().filter(|line| *line == "---- m::b said:").count(), SHOWN_MAX);
        assert!(shown.last().is_some_and(|line| line.starts_with("---- 2 more that failed")), "{shown:?}");
    }
}
