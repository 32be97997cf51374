//! Where a machine's facts are read, and beside which processes a new one would run.
//!
//! Next: `tasks` and `groups`, which read there.

use std::io;
use std::path::{Path, PathBuf};
use trimtab_types::Pid;

/// Where a machine's facts are read.
#[derive(Clone, Debug)]
pub struct Places {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub system: PathBuf,
    /// `/sys/fs/cgroup`.
    pub groups: PathBuf,
}

/// The place where a new process would be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beside {
    /// In the control group and the session of whoever asks, as from a shell.
    #[default]
    Us,
    /// In the control group and the session of this process: what a job's own processes would get.
    Process(Pid),
}

impl Default for Places {
    fn default() -> Places {
        Places::below(Path::new("/"))
    }
}

impl Places {
    /// Those of a machine whose files lie below a folder.
    pub fn below(root: &Path) -> Places {
        Places { proc: root.join("proc"), system: root.join("sys"), groups: root.join("sys/fs/cgroup") }
    }

    /// A file of `/proc`.
    pub(crate) fn proc_text(&self, name: &str) -> io::Result<String> {
        std::fs::read_to_string(self.proc.join(name))
    }

    /// A file of a process.
    pub(crate) fn text_of(&self, pid: Pid, name: &str) -> Option<String> {
        std::fs::read_to_string(self.proc.join(pid.0.to_string()).join(name)).ok()
    }
}

impl Beside {
    /// The folder in `/proc` of the process beside which it is.
    pub(crate) fn name(self) -> String {
        match self {
            Beside::Us => "self".to_owned(),
            Beside::Process(pid) => pid.0.to_string(),
        }
    }
}

/// A machine that has these files, each with its text.
#[cfg(test)]
pub(crate) fn places_with(files: &[(&str, &str)]) -> (tempfile::TempDir, Places) {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let places = Places::below(folder.path());
    (folder, places)
}
