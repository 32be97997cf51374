//! Starting a program and waiting until its ranks can be measured.
//!
//! Next: `found`, which looks for them.

use crate::error::Error;
use crate::found::{self, Found};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use trimtab_measure::{Options, Outcome, Progress, has_static_mpi, measure};
use trimtab_session::ImageCache;
use trimtab_track::{Job, ProcFs, find_job_in, slurm_handle};
use trimtab_types::Pid;

/// How long a launcher may take to start its ranks.
const RANKS_SECONDS_MAX: u64 = 120;
/// How long a rank may take from its first instruction to a state in which it can be patched.
const READY_SECONDS_MAX: u64 = 20;
/// Time between two looks.
const LOOK_MS: u64 = 3;
/// The same, as so many times of what a look took.
const WAIT_PARTS: u32 = 3;

/// Why what ended was not measured: there was no time to look at it, or no sign of MPI.
const NEVER_SEEN: &str = "it ran too short to be looked at";
const NO_MPI: &str = "no MPI was seen in it; give an MPI program that runs for some seconds, or its launcher \
                      (`trimtab run -- mpirun -n 4 ./app`)";

/// A program we started.
#[derive(Debug)]
pub struct Program {
    child: Child,
}

impl Program {
    /// Starts it with our own standard streams.
    pub fn start(command: &[String]) -> Result<Self, Error> {
        let mut words = command.iter();
        let name = words.next().ok_or(Error::NoCommand)?;
        let refused = |source| Error::NotStarted { name: name.clone(), source };
        let child = Command::new(name).args(words).spawn().map_err(refused)?;
        // Not before: the program would have them too.
        trimtab_os::take_short_turns();
        Ok(Program { child })
    }

    /// The process that was started.
    pub fn pid(&self) -> Pid {
        Pid(self.child.id() as i32)
    }

    /// Waits until all ranks run, or Slurm says on which nodes they do.
    pub fn wait_for_ranks(&mut self) -> Result<Found, Error> {
        let started = Instant::now();
        let pid = Pid(self.child.id() as i32);
        let (mut last, mut settling) = (None, None);
        while started.elapsed() < Duration::from_secs(RANKS_SECONDS_MAX) {
            let look = Instant::now();
            if let Some(status) = self.child.try_wait()? {
                return Err(Error::EndedUnseen { status, why: last.unwrap_or_else(|| NEVER_SEEN.into()) });
            }
            match found::job_of(pid) {
                Ok(Found::Here(job)) if !is_whole(&job) => {
                    last = Some(format!("{} of {} ranks run", job.ranks.len(), job.size.unwrap_or(0)));
                }
                // The launcher may be on its way to more hosts.
                Ok(Found::Spread(spread)) if !spread.is_settled(&mut settling) => {
                    last = Some(format!("{} hosts are reached", spread.nodes().len()));
                }
                Ok(found) => return Ok(found),
                // The next look tells how.
                Err(error) if error.is_gone() => {}
                Err(error) if error.is_no_job() => last = Some(NO_MPI.into()),
                Err(error) => last = Some(error.to_string()),
            }
            // Slurm is asked by a program of its own: mostly one waits.
            std::thread::sleep(Duration::from_millis(LOOK_MS).max(look.elapsed() * WAIT_PARTS));
        }
        Err(Error::NeverWhole { seconds: RANKS_SECONDS_MAX, why: last.unwrap_or_default() })
    }

    /// The job as it is now, if all its ranks run and are here.
    pub fn whole_job(&self) -> Option<Job> {
        match found::job_of(self.pid()) {
            Ok(Found::Here(job)) if is_whole(&job) => Some(*job),
            _ => None,
        }
    }

    /// True if it has not ended.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end; its exit code, 128 + signal if it was ended by one.
    pub fn wait(&mut self) -> Result<u8, Error> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait()?;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(code as u8)
    }
}

/// How long a program may take to show that it is an MPI program.
const PLAIN_MS: u64 = 200;

/// The kind of program that was begun.
pub enum Begun {
    /// One process, which is no MPI program.
    Plain(Pid),
    /// A job.
    Job(Found),
}

impl Program {
    /// The job to probe once all its ranks run, or the program itself if it is no MPI program.
    pub fn wait_for_processes(&mut self) -> Result<Begun, Error> {
        let started = Instant::now();
        let pid = Pid(self.child.id() as i32);
        let processes = ProcFs::new();
        while started.elapsed() < Duration::from_millis(PLAIN_MS) {
            match find_job_in(&processes, pid, &has_static_mpi) {
                Err(trimtab_track::Error::NotMpi { .. }) if slurm_handle(&processes, pid)?.is_none() => {
                    std::thread::sleep(Duration::from_millis(LOOK_MS));
                }
                _ => return Ok(Begun::Job(self.wait_for_ranks()?)),
            }
        }
        Ok(Begun::Plain(pid))
    }
}

/// A program without launcher has one rank and no size.
fn is_whole(job: &Job) -> bool {
    job.is_complete() || job.launcher.is_none()
}

/// Does something to a program that has just been started, again while its loader is at work.
pub(crate) fn when_ready<T, E>(attempt: impl Fn() -> Result<T, E>, is_too_early: impl Fn(&E) -> bool) -> Result<T, E> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_too_early(&error) && started.elapsed() < Duration::from_secs(READY_SECONDS_MAX) => {
                std::thread::sleep(Duration::from_millis(LOOK_MS));
            }
            other => return other,
        }
    }
}

/// Measures a program that has just been started: its loader may still be at work for a moment.
pub(crate) fn measure_when_ready(
    program: &mut Program,
    job: &Job,
    options: &Options,
    cache: &ImageCache,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    let started = Instant::now();
    loop {
        match measure(job, options, cache, progress) {
            Err(error) if error.is_loading() && started.elapsed() < Duration::from_secs(READY_SECONDS_MAX) => {
                if program.child.try_wait()?.is_some() {
                    return Err(error.into());
                }
                std::thread::sleep(Duration::from_millis(LOOK_MS));
            }
            other => return Ok(other?),
        }
    }
}
