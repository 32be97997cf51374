//! A job, and windows of it by the program `trimtab`.
//!
//! Next: `edge`, which C calls.

use crate::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;

/// Names the program in place of the one that is found by its name.
const BINARY_VARIABLE: &str = "TRIMTAB_BINARY";
/// All ranks are to be there within so many seconds.
const RANKS_WAIT_S: &str = "60";

/// One window, as it is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) iterations: u64,
    pub(crate) seconds_max: f64,
    pub(crate) groups: Option<String>,
    pub(crate) functions: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) is_blocking: bool,
}

/// A job that was started or found.
#[derive(Debug)]
pub struct Job {
    pid: i32,
    program: Option<Child>,
    window: Option<JoinHandle<std::io::Result<Output>>>,
}

/// Text, and true if something in it is missing.
pub(crate) type Said = (String, bool);

impl Job {
    /// Starts a program.
    pub(crate) fn start(words: &[String]) -> Result<Job, Error> {
        let (program, arguments) = words.split_first().ok_or(Error::NoProgram)?;
        let child = Command::new(program).args(arguments).spawn();
        let child = child.map_err(|source| Error::NotStarted { program: program.clone(), source })?;
        Ok(Job { pid: child.id() as i32, program: Some(child), window: None })
    }

    pub(crate) fn find(pid: i32) -> Job {
        Job { pid, program: None, window: None }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Begins a window; its report if it is waited for.
    pub(crate) fn measure(&mut self, wanted: &Wanted) -> Result<Option<Said>, Error> {
        if self.window.is_some() {
            return Err(Error::Busy);
        }
        let child = run(&words(self.pid, wanted))?;
        let waiting = std::thread::Builder::new().spawn(move || child.wait_with_output());
        self.window = Some(waiting.map_err(Error::NoThread)?);
        if wanted.is_blocking { self.wait().map(Some) } else { Ok(None) }
    }

    /// The report of the window that goes on.
    pub(crate) fn wait(&mut self) -> Result<Said, Error> {
        let window = self.window.take().ok_or(Error::NoWindow)?;
        let output = window.join().map_err(|_| Error::Said("its window was lost".to_owned()))?;
        said(output)
    }

    /// Waits for the program's end: its code; `None`: it was not started here.
    pub(crate) fn end(mut self) -> Option<i32> {
        let _report = self.wait();
        let ended = self.program.take()?.wait().ok()?;
        Some(code(ended))
    }
}

fn code(ended: ExitStatus) -> i32 {
    ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0))
}

/// The words for a window.
fn words(pid: i32, wanted: &Wanted) -> Vec<String> {
    let mut words: Vec<String> =
        ["attach", &pid.to_string(), "--json", "-", "--wait", RANKS_WAIT_S].map(str::to_owned).to_vec();
    let mut give = |option: &str, value: String| words.push(format!("--{option}={value}"));
    if wanted.iterations > 0 {
        give("iterations", wanted.iterations.to_string());
    }
    if wanted.seconds_max != 0.0 {
        give("max-seconds", wanted.seconds_max.to_string());
    }
    if let Some(groups) = &wanted.groups {
        give("group", groups.clone());
    }
    for function in wanted.functions.iter().flat_map(|all| all.split(',')) {
        give("function", function.to_owned());
    }
    if let Some(event) = &wanted.event {
        give("when", event.clone());
    }
    words
}

/// Starts `trimtab` with its output taken.
fn run(words: &[String]) -> Result<Child, Error> {
    let program = std::env::var(BINARY_VARIABLE).unwrap_or_else(|_| "trimtab".to_owned());
    let mut command = Command::new(&program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|source| Error::NotStarted { program, source })
}

/// Runs `trimtab` to its end: its output.
pub(crate) fn asked(words: &[String]) -> Result<Said, Error> {
    said(run(words)?.wait_with_output())
}

fn said(output: std::io::Result<Output>) -> Result<Said, Error> {
    let output = output.map_err(|error| Error::Said(error.to_string()))?;
    match code(output.status) {
        code @ (0 | 1) if !output.stdout.is_empty() => {
            Ok((String::from_utf8_lossy(&output.stdout).into_owned(), code == 1))
        }
        _ => Err(Error::Said(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_s_words_are_those_of_attach() {
        assert_eq!(words(7, &Wanted::default()), ["attach", "7", "--json", "-", "--wait", "60"]);
        let wanted = Wanted {
            iterations: 10,
            seconds_max: 2.5,
            groups: Some("comm,io".into()),
            functions: Some("solve,exchange".into()),
            event: Some("after=1s".into()),
            is_blocking: true,
        };
        let given = [
            "--iterations=10",
            "--max-seconds=2.5",
            "--group=comm,io",
            "--function=solve",
            "--function=exchange",
            "--when=after=1s",
        ];
        assert_eq!(words(7, &wanted)[6..], given);
    }
}
