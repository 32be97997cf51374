//! Asking Slurm: `scontrol` with a time limit, or a recording of what it once said.
//!
//! Slurm's own programs are asked instead of its library: that one has another interface in each version.
//!
//! Next: `facts` for what the answers mean.

use super::error::SlurmError;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Slurm's programs give up by themselves after ten seconds without an answer (`MessageTimeout`), unless told otherwise.
const LIMIT: Duration = Duration::from_secs(30);
/// Time between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(2);

/// Something that answers as `scontrol` does.
pub trait Scontrol {
    /// The output of `scontrol WORDS`.
    ///
    /// # Errors
    /// It can't be run, does not answer, or fails ([`SlurmError::Failed`]).
    fn ask(&self, words: &[&str]) -> Result<String, SlurmError>;
}

/// The real one, found by `PATH`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Program;

impl Scontrol for Program {
    fn ask(&self, words: &[&str]) -> Result<String, SlurmError> {
        answer("scontrol", words, None)
    }
}

/// The output of one of Slurm's programs, with times in a format or in Slurm's own.
pub(super) fn answer(program: &str, words: &[&str], time_format: Option<&str>) -> Result<String, SlurmError> {
    let command = format!("`{program} {}`", words.join(" "));
    let mut asked = Command::new(program);
    asked.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Messages and times as they are tested.
    asked.env("LC_ALL", "C").env_remove("SLURM_TIME_FORMAT");
    asked.envs(time_format.map(|format| ("SLURM_TIME_FORMAT", format)));
    let failed = |source| SlurmError::NotInstalled { command: command.clone(), source };
    let mut child = asked.spawn().map_err(failed)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let begin = |pipe| std::thread::Builder::new().spawn_scoped(scope, pipe);
        let readers = begin(reader(out)).and_then(|out| Ok((out, begin(reader(err))?)));
        let (out, err) = match readers {
            Ok(readers) => readers,
            Err(source) => {
                end(&mut child);
                return Err(SlurmError::NoThread { command, source });
            }
        };
        let ended = wait(&mut child);
        let text = |thread: std::thread::ScopedJoinHandle<'_, String>| thread.join().unwrap_or_default();
        let (out, err) = (text(out), text(err));
        match ended {
            None => Err(SlurmError::NoAnswer { command, limit_s: LIMIT.as_secs() }),
            Some(true) => Ok(out),
            Some(false) => Err(SlurmError::Failed { command, said: said(&out, &err) }),
        }
    })
}

/// Reads all of a pipe as text.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Box<dyn FnOnce() -> String + Send> {
    Box::new(|| {
        let mut bytes = Vec::new();
        let _cut_short = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// True if it ended well; `None` if it had to be ended.
fn wait(child: &mut Child) -> Option<bool> {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status.success());
        }
        std::thread::sleep(LOOK);
    }
    end(child);
    None
}

fn end(child: &mut Child) {
    let _gone = child.kill();
    let _reaped = child.wait();
}

/// The one line that says why.
fn said(out: &str, err: &str) -> String {
    let line = err.lines().chain(out.lines()).map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or("nothing").to_owned()
}

/// The command as a user would type it.
pub(super) fn shown(words: &[&str]) -> String {
    format!("`scontrol {}`", words.join(" "))
}

/// Recorded answers of `scontrol`: question to answer, or to the message it failed with.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    answers: BTreeMap<String, Result<String, String>>,
}

impl Recording {
    /// Adds an answer.
    pub fn answer(mut self, words: &str, answer: &str) -> Recording {
        self.answers.insert(words.to_owned(), Ok(answer.to_owned()));
        self
    }

    /// Adds a failure.
    pub fn failure(mut self, words: &str, message: &str) -> Recording {
        self.answers.insert(words.to_owned(), Err(message.to_owned()));
        self
    }
}

impl Scontrol for Recording {
    fn ask(&self, words: &[&str]) -> Result<String, SlurmError> {
        let failed = |said: &str| SlurmError::Failed { command: shown(words), said: said.to_owned() };
        match self.answers.get(&words.join(" ")) {
            Some(Ok(answer)) => Ok(answer.clone()),
            Some(Err(message)) => Err(failed(message)),
            None => Err(failed("not recorded")),
        }
    }
}
