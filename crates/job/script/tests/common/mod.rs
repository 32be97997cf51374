//! Shared by the tests of scripts: building a program, running it, running scripts in it, and proving that it is left
//! as it was.
//!
//! Next: `debug.rs` for what scripts see, `points.rs` for where they can go.
// Every test program uses another part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_script::{Error, Running, ScriptOptions, Target, Value};
use trimtab_session::{ImageCache, Modules};
use trimtab_snippet::arithmetic::Number;
use trimtab_specimens::{TextSnapshot, threads_running};
use trimtab_types::Pid;

/// How long what comes every millisecond may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a command that must do well.
pub fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// Builds a program of `tests/programs` in a folder of the case's own.
pub fn build_of(case: &str, compiler: &str, sources: &[&str], flags: &[&str]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(case);
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join("program");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let sources = sources.iter().map(|source| programs.join(source));
    run(Command::new(compiler).args(flags).arg("-o").arg(&program).args(sources));
    program
}

/// An error as its reader sees it.
pub fn words(error: Error) -> String {
    match error {
        Error::Script(refused) => format!("{refused:?}"),
        other => {
            let (mut said, mut cause) = (other.to_string(), other.source());
            while let Some(error) = cause {
                said = format!("{said}: {error}");
                cause = error.source();
            }
            said
        }
    }
}

/// A program that runs until it is dropped.
pub struct Program {
    child: Child,
    pub cache: ImageCache,
}

impl Program {
    /// Starts it and waits for its first line, `ready`.
    pub fn start(program: &Path) -> Self {
        Program::start_command(&mut Command::new(program))
    }

    /// The same with words and an environment of its own.
    pub fn start_command(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("reads");
        assert_eq!(line, "ready\n");
        Program { child, cache: ImageCache::in_memory() }
    }

    pub fn pid(&self) -> Pid {
        Pid(self.child.id() as i32)
    }

    pub fn modules(&self) -> Modules {
        Modules::read(self.pid(), &self.cache, &|_| true).expect("modules")
    }

    /// Puts a script in.
    pub fn run(&self, script: &str) -> Result<Running, Error> {
        let target = Target { pid: self.pid(), rank: None, ranks: None };
        Running::start(&[target], &options(script), &self.cache)
    }

    /// Why a script is refused.
    pub fn refusal(&self, script: &str) -> String {
        match self.run(script) {
            Ok(_) => panic!("{script}: was not refused"),
            Err(error) => words(error),
        }
    }

    /// The counts of a script once `enough` of what was counted holds; the program is then as before and runs.
    pub fn counts(&self, script: &str, enough: impl Fn(&BTreeMap<String, i64>) -> bool) -> BTreeMap<String, i64> {
        let before = TextSnapshot::of(self.pid().0).expect("its text");
        let mut running = self.run(script).unwrap_or_else(|error| panic!("{script}: {}", words(error)));
        assert_eq!(running.refusals().1, [], "{script}");
        let since = Instant::now();
        while !enough(&sums(&running.values())) {
            assert!(since.elapsed() < PATIENCE, "{script}: only {:?}", sums(&running.values()));
            let poll = running.poll();
            assert_eq!(poll.alive, 1, "{script}");
            std::thread::sleep(Duration::from_millis(2));
        }
        let (_, values, summary) = running.finish();
        assert_eq!(summary.warnings, Vec::<String>::new(), "{script}");
        assert_eq!(before.difference_now().expect("its text"), None, "{script}");
        threads_running(self.pid().0).expect("no thread is stopped");
        sums(&values)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A script that may do nothing to the program.
pub fn options(script: &str) -> ScriptOptions {
    ScriptOptions { text: script.to_owned(), ..ScriptOptions::default() }
}

fn whole(number: Number) -> i64 {
    match number {
        Number::Int(value) => value,
        Number::Float(value) => panic!("{value} is no count"),
    }
}

fn sums(values: &[trimtab_script::Named]) -> BTreeMap<String, i64> {
    let sum = |named: &trimtab_script::Named| match &named.value {
        Some(Value::Sum { value }) => Some((named.name.clone(), whole(*value))),
        _ => None,
    };
    values.iter().filter_map(sum).collect()
}
