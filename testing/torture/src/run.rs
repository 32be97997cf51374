//! One run of a program: started, watched, ended; what it printed and how it exited.
//!
//! A supervising shell stands between us and the program, because a tracer that is also the parent would take the
//! program's exit status away from itself. The supervisor is never touched.
//!
//! Next: `campaign` runs each program undisturbed first.

use crate::programs::Program;
use crate::tree;
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_types::Pid;

/// Runs the program and writes how it ended into a file.
const SUPERVISOR: &str = r#"ulimit -c unlimited 2> /dev/null; bash "./$1" > stdout 2> stderr; echo $? > status"#;

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Run {
    /// The supervising shell.
    supervisor: Child,
    folder: PathBuf,
    started: Instant,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Exit status as a shell sees it: 128 and the signal's number, if a signal ended it.
    pub status: i32,
    /// Its standard output.
    pub stdout: Vec<u8>,
}

impl Run {
    /// Starts `program` in `folder`, which is made anew.
    pub fn start(program: &Program, folder: &Path) -> Result<Run> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        program.prepare(folder)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SUPERVISOR, "sh", program.script()]).current_dir(folder).env_clear();
        for (name, value) in [
            ("PATH", "/usr/bin:/bin:/usr/sbin:/sbin"),
            ("LC_ALL", "C"),
            ("TZ", "UTC"),
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ] {
            command.env(name, value);
        }
        command.env("HOME", folder).env("TMPDIR", folder).stdin(Stdio::null());
        let log = File::create(folder.join("supervisor.log")).context("cannot create a log")?;
        command.stdout(log.try_clone()?).stderr(log);
        let supervisor = command.spawn().context("cannot start /bin/sh")?;
        Ok(Run { supervisor, folder: folder.to_path_buf(), started: Instant::now() })
    }

    /// The supervising shell; what runs below it may be touched.
    pub fn root(&self) -> Pid {
        Pid(self.supervisor.id() as i32)
    }

    /// Where it runs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Time since its start.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// How it ended; `None`: it still runs.
    pub fn ended(&mut self) -> Result<Option<End>> {
        if self.supervisor.try_wait().context("cannot wait for the supervisor")?.is_none() {
            return Ok(None);
        }
        let status = std::fs::read_to_string(self.folder.join("status")).unwrap_or_default();
        let stdout = std::fs::read(self.folder.join("stdout")).unwrap_or_default();
        Ok(Some(End { status: status.trim().parse().unwrap_or(-1), stdout }))
    }

    /// Waits for its end, at most until it is `limit` old; `None`: it had to be killed.
    pub fn wait(mut self, limit: Duration) -> Result<Option<End>> {
        loop {
            if let Some(end) = self.ended()? {
                return Ok(Some(end));
            }
            if self.age() > limit {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

impl Drop for Run {
    /// Nothing of it runs on.
    fn drop(&mut self) {
        if matches!(self.supervisor.try_wait(), Ok(None)) {
            tree::end(self.root());
            let _ = self.supervisor.wait();
        }
    }
}
