//! The slowest tests of a run, so that everybody sees where its minutes go.
//!
//! libtest does not say how long a test took. It prints a line when a test has ended; programs that run one test at a
//! time say in this way how long each took. Those that run several at once are counted as a whole.
//!
//! Next: `suite`, which reads the lines.

use std::time::Duration;

/// How many are printed.
const SHOWN: usize = 20;

/// How long tests, or whole programs of tests, took.
#[derive(Default)]
pub struct Slowest {
    tests: Vec<(Duration, String)>,
}

/// Takes the time of one test program that runs.
pub struct Stopwatch {
    program: String,
    one_at_a_time: bool,
    /// When the last test ended, since the program began.
    since: Duration,
    ended: Slowest,
}

impl Stopwatch {
    /// For the tests of `program`, which run `one_at_a_time` or several at once.
    pub fn new(program: &str, one_at_a_time: bool) -> Stopwatch {
        Stopwatch { program: program.to_string(), one_at_a_time, since: Duration::ZERO, ended: Slowest::default() }
    }

    /// A line came `at` so long after the program began.
    pub fn read_line(&mut self, line: &str, at: Duration) {
        let test = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        if let Some((name, _)) = test.filter(|(name, _)| self.one_at_a_time && !name.starts_with("result:")) {
            let name = format!("{name} in {}", self.program);
            self.ended.tests.push((at.saturating_sub(self.since), name));
            self.since = at;
        }
    }

    /// The program ended `at` so long after it began.
    pub fn end(mut self, at: Duration) -> Slowest {
        if !self.one_at_a_time {
            self.ended.tests.push((at, format!("all tests of {}", self.program)));
        }
        self.ended
    }
}

impl Slowest {
    /// Takes those of another program, too.
    pub fn add(&mut self, other: Slowest) {
        self.tests.extend(other.tests);
    }

    /// One line each, the slowest first.
    pub fn said(mut self) -> Vec<String> {
        self.tests.sort_by(|a, b| b.cmp(a));
        self.tests.truncate(SHOWN);
        self.tests.iter().map(|(took, name)| format!("{:7.1} s  {name}", took.as_secs_f64())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(one_at_a_time: bool) -> Slowest {
        let mut watch = Stopwatch::new("tests/x.rs", one_at_a_time);
        for (line, at_s) in [
            ("running 2 tests", 1),
            ("test a ... ok", 3),
            ("of patience", 4),
            ("test b ... FAILED", 10),
            ("test result: FAILED. 1 passed", 11),
        ] {
            watch.read_line(line, Duration::from_secs(at_s));
        }
        watch.end(Duration::from_secs(12))
    }

    #[test]
    fn each_test_has_the_time_since_the_one_before() {
        assert_eq!(timed(true).said(), ["    7.0 s  b in tests/x.rs", "    3.0 s  a in tests/x.rs"]);
        assert_eq!(timed(false).said(), ["   12.0 s  all tests of tests/x.rs"]);
    }

    #[test]
    fn only_the_slowest_are_said() {
        let mut all = Slowest::default();
        for second in 0..50 {
            all.add(Slowest { tests: vec![(Duration::from_secs(second), format!("t{second}"))] });
        }
        let said = all.said();
        assert_eq!((said.len(), said[0].as_str(), said[19].as_str()), (20, "   49.0 s  t49", "   30.0 s  t30"));
    }
}
