//! A process to be measured, started from one file: a program that waits for its input, or a library in a python that
//! does.
//!
//! The figures of `plan_all` and `probe_all` are about one file; whoever asks for them should not have to know how to
//! have it mapped. Next: `plan_all`, which uses this.

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_os::{MappingTable, stat_of};
use trimtab_types::Pid;
use trimtab_types::procfs::State;

/// How long a program may take until it waits.
const START_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Looks at which it slept, one after the other, that are taken for waiting.
const ASLEEP_LOOKS: usize = 20;

/// A started process, which ends with this.
pub struct Waiting {
    child: Child,
}

impl Waiting {
    /// Has `file` mapped by a process that then waits for input which never comes.
    pub fn start(file: &str) -> Result<Self, Box<dyn Error>> {
        let mut command = match file.contains(".so") {
            true => {
                let mut command = Command::new("python3");
                command.args(["-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]); sys.stdin.read()", file]);
                command
            }
            false => Command::new(file),
        };
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let waiting = Waiting { child: child.map_err(|error| format!("can't start {file}: {error}"))? };
        let wanted = std::fs::canonicalize(file)?;
        let (deadline, mut asleep) = (Instant::now() + START_LIMIT, 0);
        while asleep < ASLEEP_LOOKS {
            if Instant::now() > deadline {
                return Err(format!("{file} does not wait for input after {} s", START_LIMIT.as_secs()).into());
            }
            let sleeps = stat_of(waiting.pid(), waiting.pid().0).is_some_and(|stat| stat.state == State::Sleeping);
            asleep = if sleeps && waiting.has_mapped(&wanted) { asleep + 1 } else { 0 };
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(waiting)
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        Pid(self.child.id() as i32)
    }

    fn has_mapped(&self, file: &std::path::Path) -> bool {
        let is_it = |path: &str| file == std::path::Path::new(path);
        MappingTable::of(self.pid()).is_ok_and(|maps| maps.0.iter().any(|mapping| is_it(&mapping.path)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
