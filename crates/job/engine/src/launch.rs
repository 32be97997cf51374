//! Starting a program and waiting until its ranks can be measured.
//!
//! Next: `found`, which looks for them.

use crate::error::Error;
use crate::found::{self, Found};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::process::{Child, Command, ExitStatus};
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
    /// Starts it with our own standard streams, and these variables besides our own.
    pub fn start(command: &[String], variables: &[(&str, String)]) -> Result<Self, Error> {
        let mut words = command.iter();
        let name = words.next().ok_or(Error::NoCommand)?;
        let refused = |source| Error::NotStarted { name: name.clone(), source };
        let child = Command::new(name)
            .args(words)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .spawn()
            .map_err(refused)?;
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
            if let Some(status) = self.ended()? {
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
        matches!(self.ended(), Ok(None))
    }

    /// Its status if it has ended. A thread of ours may trace it: whoever waits for it would take the stops that this
    /// thread waits for, and it would stand still for ever. So only an end is taken.
    fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(rustix::process::Pid::from_child(&self.child)), look) {
            Ok(None) => Ok(None),
            Ok(Some(status)) if !(status.exited() || status.killed() || status.dumped()) => Ok(None),
            // It may have been waited for already.
            Ok(Some(_)) | Err(_) => self.child.try_wait(),
        }
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
                if program.ended()?.is_some() {
                    return Err(error.into());
                }
                std::thread::sleep(Duration::from_millis(LOOK_MS));
            }
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use trimtab_os::Stopped;

    /// Stops of the program while it is asked for its end, and how long they may take before they are given up.
    const STOPS: usize = 300;
    const STOPS_MAX: Duration = Duration::from_secs(60);

    #[test]
    fn a_question_for_its_end_takes_no_stop_from_the_thread_that_holds_it() {
        let mut program = Program::start(&["sleep".to_owned(), "600".to_owned()], &[]).expect("it starts");
        let pid = program.pid();
        let (sender, stops) = channel();
        let holds = std::thread::spawn(move || {
            for _ in 0..STOPS {
                let stop = Stopped::stop(pid).map(Stopped::resume).is_ok();
                sender.send(stop).expect("somebody hears it");
            }
        });
        let (mut stopped, mut runs, begun) = (0, true, Instant::now());
        while stopped < STOPS && runs && begun.elapsed() < STOPS_MAX {
            runs = program.runs();
            stopped += stops.try_iter().filter(|stop| *stop).count();
        }
        program.child.kill().expect("it is ended");
        program.child.wait().expect("it has ended");
        assert!(runs, "a stop was taken for its end after {stopped} stops");
        assert_eq!(stopped, STOPS, "the thread that holds it waits for a stop that was taken from it");
        holds.join().expect("it holds to the end");
    }
}
