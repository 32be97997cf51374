//! Runs a specimen, alone or by `mpiexec` of either library, with captured output; ends only what it started.
//!
//! The launcher's flags for one small machine are here: more ranks than cores, no binding unless it is asked for, run as root, and no
//! single-copy mechanism of Open MPI's (it needs rights that containers withhold, and warns).
//!
//! Next: `process.rs` finds the ranks; `groundtruth.rs` reads what a measured run left.

use crate::build::require;
use crate::process::{Identity, descendants, executable_name, rank_of};
use crate::{Error, Mpi, Result, groundtruth, profiler};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often a condition is looked at again while waiting for it.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How long a launcher may take to end its ranks after SIGTERM before everything is killed.
const GRACE: Duration = Duration::from_secs(2);

/// How long the output of an ended program may still be on its way; a leftover child may hold it open for ever.
const DRAIN: Duration = Duration::from_secs(2);

/// Added by a launcher or a shell to the number of the signal that ended a program.
const SIGNALLED: i32 = 128;

/// Signals of faults: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS.
const FAULTS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];

/// A program to run, with its arguments and environment.
#[derive(Clone, Debug)]
pub struct Launch {
    mpi: Option<Mpi>,
    ranks: u32,
    /// A rank of Open MPI that waits gives its processor to whoever else wants it.
    yields: bool,
    /// Each rank of Open MPI stays on a core of its own.
    is_bound: bool,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    folder: Option<PathBuf>,
}

impl Launch {
    /// `ranks` ranks of `program` under the launcher of `mpi`. MPICH busy-polls: no more ranks than cores there. Ranks of
    /// Open MPI that wait give their processor away, so that jobs beside each other do not keep each other waiting.
    pub fn mpi(mpi: Mpi, ranks: u32, program: &Path) -> Launch {
        Launch { yields: true, ..Launch::polling(mpi, ranks, program) }
    }

    /// The same with ranks that keep their processor while they wait, as where they have one each: for benchmarks.
    pub fn polling(mpi: Mpi, ranks: u32, program: &Path) -> Launch {
        Launch { mpi: Some(mpi), ranks, ..Launch::alone(program) }
    }

    /// `program` by itself.
    pub fn alone(program: &Path) -> Launch {
        let program = program.to_owned();
        let (arguments, environment) = (vec![], BTreeMap::new());
        Launch { mpi: None, ranks: 1, yields: false, is_bound: false, program, arguments, environment, folder: None }
    }

    /// Each rank of Open MPI stays on a core of its own, the first rank on the first: as launchers bind ranks by themselves where
    /// there are cores enough.
    #[must_use]
    pub fn bound(self) -> Launch {
        Launch { is_bound: true, ..self }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, arguments: I) -> Launch {
        self.arguments.extend(arguments.into_iter().map(|one| one.as_ref().to_owned()));
        self
    }

    /// Sets a variable in the environment of the ranks.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Launch {
        self.environment.insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Has it started in a folder, where it may write.
    #[must_use]
    pub fn folder(self, folder: &Path) -> Launch {
        Launch { folder: Some(folder.to_owned()), ..self }
    }

    /// Preloads a library into the ranks (not into the launcher).
    ///
    /// The loader ends a preloaded path at its first blank, so it is given a name and the folder in which to look for it.
    #[must_use]
    pub fn preload(self, library: &Path) -> Launch {
        let folder = library.parent().unwrap_or(Path::new("."));
        let folders = std::iter::once(folder.to_owned())
            .chain(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths).collect::<Vec<_>>());
        let folders = std::env::join_paths(folders).unwrap_or_else(|_| folder.into());
        self.env("LD_PRELOAD", library.file_name().unwrap_or(library.as_os_str())).env("LD_LIBRARY_PATH", folders)
    }

    /// Preloads the ground truth wrapper, which writes to `prefix.<rank>.json`; see [`truths_of`](crate::truths_of).
    ///
    /// # Errors
    /// As [`groundtruth`]; [`Error::Process`] for a launch without MPI.
    pub fn measured(self, prefix: &Path) -> Result<Launch> {
        let no_mpi = || Error::Process { pid: 0, reason: "only MPI programs have a ground truth".to_owned() };
        let library = groundtruth(self.mpi.ok_or_else(no_mpi)?)?;
        Ok(self.preload(&library).env("GT_OUT", prefix))
    }

    /// Preloads the profiler of all MPI calls, which writes to `prefix.<process id>.<thread id>`; see
    /// [`CallTrace`](crate::CallTrace).
    ///
    /// # Errors
    /// As [`profiler`].
    pub fn traced(self, prefix: &Path) -> Result<Launch> {
        Ok(self.preload(&profiler()?).env("TRACE_OUT", prefix))
    }

    /// Starts it.
    ///
    /// # Errors
    /// [`Error::MissingTool`] if the launcher is not installed; [`Error::Io`].
    pub fn start(&self) -> Result<Running> {
        let mut command = self.command()?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Error::io("start", command.get_program()))?;
        let stdout = Capture::of(child.stdout.take());
        let stderr = Capture::of(child.stderr.take());
        let (ranks, program) = (self.mpi.map(|_| self.ranks), self.program.clone());
        Ok(Running { child, stdout, stderr, ranks, program, family: vec![], ended: None })
    }

    /// Starts it and waits for its end.
    ///
    /// # Errors
    /// As [`Launch::start`] and [`Running::wait`].
    pub fn run(&self, limit: Duration) -> Result<Finished> {
        self.start()?.wait(limit)
    }

    /// The command line, launcher first, for a tool that starts the program itself; variables of the environment that
    /// only the launcher sees are not part of it.
    ///
    /// # Errors
    /// [`Error::MissingTool`] if the launcher is not installed.
    pub fn words(&self) -> Result<Vec<String>> {
        let command = self.command()?;
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        Ok(words.map(|word| word.to_string_lossy().into_owned()).collect())
    }

    fn command(&self) -> Result<Command> {
        let mut command = match self.mpi {
            None => self.single(),
            Some(Mpi::Mpich) => self.mpich()?,
            Some(Mpi::OpenMpi) => self.open_mpi()?,
        };
        command.args(&self.arguments);
        if self.mpi.is_some() {
            // Looking for graphics processors, launchers and some ranks load a compiler, and unload it again.
            command.env("HWLOC_COMPONENTS", "-opencl,-gl");
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        Ok(command)
    }

    fn single(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(&self.environment);
        command
    }

    fn mpich(&self) -> Result<Command> {
        require("mpiexec.mpich", Mpi::Mpich.launcher_package())?;
        let mut command = Command::new("mpiexec.mpich");
        command.arg("-n").arg(self.ranks.to_string());
        for (name, value) in &self.environment {
            command.arg("-genv").arg(name).arg(value);
        }
        command.arg(&self.program);
        Ok(command)
    }

    fn open_mpi(&self) -> Result<Command> {
        require("mpirun.openmpi", Mpi::OpenMpi.launcher_package())?;
        let mut command = Command::new("mpirun.openmpi");
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let binding = if self.is_bound { "core" } else { "none" };
        command.args(["--oversubscribe", "--bind-to", binding, "--mca", "btl_vader_single_copy_mechanism", "none"]);
        // Told to end, it kills its ranks at once and not a second later.
        command.args(["--mca", "odls_base_sigkill_timeout", "0"]);
        if self.yields {
            command.args(["--mca", "mpi_yield_when_idle", "1"]);
        }
        command.arg("-n").arg(self.ranks.to_string());
        for (name, value) in &self.environment {
            let mut setting = name.clone();
            setting.push("=");
            setting.push(value);
            command.arg("-x").arg(setting);
        }
        command.arg(&self.program);
        Ok(command)
    }
}

/// A started program. Dropping it ends it and all that it started, by their process ids.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Capture,
    stderr: Capture,
    ranks: Option<u32>,
    program: PathBuf,
    family: Vec<Identity>,
    ended: Option<ExitStatus>,
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Exit status of the launcher, or of the program that ran alone.
    pub status: ExitStatus,
    /// Standard output of all ranks.
    pub stdout: String,
    /// Standard error of all ranks and of the launcher.
    pub stderr: String,
}

impl Finished {
    /// The line of the known answer, "PROGRAM: checksum VALUE OK", if it was right and the exit status 0.
    pub fn right_answer(&self) -> Option<&str> {
        let answer = self.stdout.lines().find(|line| line.contains(": checksum ") && line.ends_with(" OK"));
        answer.filter(|_| self.status.success())
    }
}

impl Running {
    /// Process id of the launcher, or of the program that runs alone.
    pub fn pid(&self) -> i32 {
        // Process ids are positive and below 2^22 on Linux.
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Process ids of the ranks, by rank, as soon as all of them have executed the specimen. Alone: its own.
    ///
    /// # Errors
    /// [`Error::TimeOut`] if that does not happen within `limit`; [`Error::Process`] if the program has ended.
    pub fn rank_pids(&mut self, limit: Duration) -> Result<Vec<i32>> {
        let Some(ranks) = self.ranks else { return Ok(vec![self.pid()]) };
        let mut found = None;
        self.wait_until("start of all ranks", limit, |running| {
            found = running.find_ranks(ranks);
            found.is_some()
        })?;
        found.ok_or_else(|| Error::Process { pid: self.pid(), reason: "ended before its ranks were seen".to_owned() })
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until standard output contains `text`.
    ///
    /// # Errors
    /// [`Error::TimeOut`]; [`Error::Process`] if the program ends without it.
    pub fn wait_for_output(&mut self, text: &str, limit: Duration) -> Result<()> {
        self.wait_until(&format!("output of {text:?}"), limit, |running| running.stdout.text().contains(text))
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// [`Error::TimeOut`], and then the program is ended; [`Error::Io`].
    pub fn wait(mut self, limit: Duration) -> Result<Finished> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.poll()? {
                let (stdout, stderr) = (self.stdout.finish(), self.stderr.finish());
                return Ok(Finished { status, stdout, stderr });
            }
            if Instant::now() >= deadline {
                return Err(self.time_out("end of the program", limit));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The exit status if the program has ended.
    ///
    /// # Errors
    /// [`Error::Io`] if the system does not say.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().map_err(Error::io("wait for", &self.program))?;
        }
        Ok(self.ended)
    }

    fn wait_until(&mut self, what: &str, limit: Duration, mut met: impl FnMut(&mut Running) -> bool) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let looks = Instant::now();
            let ended = self.poll()?;
            if met(self) {
                return Ok(());
            }
            if let Some(status) = ended {
                let reason = format!("ended ({status}) before {what}; it said:\n{}{}", self.stdout(), self.stderr());
                return Err(Error::Process { pid: self.pid(), reason });
            }
            if Instant::now() >= deadline {
                return Err(self.time_out(what, limit));
            }
            // Looking at all processes takes a processor from the ranks that are waited for.
            thread::sleep(looks.elapsed().max(LOOK_EVERY));
        }
    }

    fn time_out(&self, what: &str, limit: Duration) -> Error {
        Error::TimeOut { what: what.to_owned(), limit, output: self.stdout() + &self.stderr() }
    }

    fn find_ranks(&mut self, ranks: u32) -> Option<Vec<i32>> {
        let name = self.program.file_name()?.to_string_lossy().into_owned();
        let mut found = BTreeMap::new();
        for pid in self.note_family() {
            if executable_name(pid).as_ref() == Some(&name)
                && let Some(rank) = rank_of(pid)
            {
                found.entry(rank).or_insert(pid); // parents come first; a rank's child has its environment
            }
        }
        (found.len() == ranks as usize).then(|| found.into_values().collect())
    }

    /// Notes all processes below the launcher, so that they are known even after it has ended.
    fn note_family(&mut self) -> Vec<i32> {
        let below = descendants(self.pid());
        for identity in below.iter().copied().filter_map(Identity::of) {
            if !self.family.contains(&identity) {
                self.family.push(identity);
            }
        }
        below
    }

    /// Asks the launcher to end its ranks, then kills what is left of what it started.
    fn end(&mut self) {
        if matches!(self.poll(), Ok(None)) {
            self.note_family();
            signal(self.pid(), Signal::TERM);
        }
        let deadline = Instant::now() + GRACE;
        while matches!(self.poll(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
        }
        for identity in &self.family {
            if Identity::of(identity.pid).as_ref() == Some(identity) {
                signal(identity.pid, Signal::KILL);
            }
        }
        if matches!(self.poll(), Ok(None)) && self.child.kill().is_ok() {
            let _gone = self.child.wait();
        }
    }
}

impl Drop for Running {
    /// Nobody looks at a job any more: one that has ended by a fault, which its test has not seen, is a failure.
    fn drop(&mut self) {
        let seen = self.ended.is_some() || thread::panicking();
        let fault = self.poll().ok().flatten().filter(|status| !seen && is_fault(*status));
        self.end();
        if let Some(status) = fault {
            panic!("{} ended ({status}): {}{}", self.program.display(), self.stdout(), self.stderr());
        }
    }
}

/// True if a program ended so, or a launcher says so of its ranks.
fn is_fault(status: ExitStatus) -> bool {
    let of_rank = status.code().map(|code| code - SIGNALLED);
    status.signal().or(of_rank).is_some_and(|signal| FAULTS.contains(&signal))
}

/// That a process is gone already is what is wanted.
fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _gone = kill_process(pid, signal);
    }
}

/// A stream read by a thread of its own, so that the program never waits for its reader.
#[derive(Debug)]
struct Capture {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Capture {
    fn of(stream: Option<impl Read + Send + 'static>) -> Capture {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let copy = Arc::clone(&bytes);
        let reader = stream.map(|stream| thread::spawn(move || collect(stream, &copy)));
        Capture { bytes, reader }
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The text after the stream's end, or after [`DRAIN`].
    fn finish(&mut self) -> String {
        let deadline = Instant::now() + DRAIN;
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
        }
        self.text()
    }
}

fn collect(mut stream: impl Read, bytes: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(length) = stream.read(&mut buffer)
        && length > 0
    {
        bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "ended (exit status: 139)")]
    fn a_job_that_nobody_looks_at_may_not_end_by_a_fault() {
        let job =
            Launch::alone(Path::new("/bin/sh")).args(["-c", "sh -c 'kill -SEGV $$'; exit $?"]).start().expect("starts");
        // A process that has ended executes no file any more, also while nobody has waited for it.
        while executable_name(job.pid()).is_some() {
            thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn faults_of_programs_and_of_their_ranks_are_told() {
        for (name, wait_status, expected) in [
            ("SIGSEGV", 11, true),
            ("of a rank", (SIGNALLED + 11) << 8, true),
            ("SIGKILL", 9, false),
            ("of a rank, killed", (SIGNALLED + 9) << 8, false),
            ("right", 0, false),
            ("wrong", 1 << 8, false),
        ] {
            assert_eq!(is_fault(ExitStatus::from_raw(wait_status)), expected, "{name}");
        }
    }
}
