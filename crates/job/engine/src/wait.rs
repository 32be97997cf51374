//! Waiting for events beside a job, one after the other: docs/events.md lists them.
//!
//! Between two windows nothing is in the program. A call, or a signal of the caller's, is heard whatever is waited for;
//! calls through a site's API only where they are asked for.
//!
//! Next: `trimtab-trigger` for how each event is seen; `machines` for jobs on many nodes, `callable` for a job's names.

use crate::Engine;
use crate::callable::{callable, names, pids};
use crate::error::Error;
use crate::event::{Event, Nobody, Stage};
use crate::found::Found;
use crate::machines::FarMachines;
use crate::nodes::Calls;
use crate::spread::Spread;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trimtab_measure::{Length, Options};
use trimtab_neighbours::Own;
use trimtab_track::slurm::{self, RunningJob, SlurmError};
use trimtab_track::{ProcFs, Processes};
use trimtab_trigger::{CallOutcome, CallSocket, Condition, JobSource, JobsHere, JobsOfSlurm, MachineHere, Machines};
use trimtab_trigger::{Surroundings, Waited, Waiter, When};
use trimtab_types::one_line;

/// Iterations of the short windows by which the program's pace is looked at, and their longest time.
const PACE_ITERATIONS: u64 = 5;
const PACE_SECONDS_MAX: f64 = 5.0;
/// Time between two questions to Slurm whether the job still runs.
const SLURM_ALIVE: Duration = Duration::from_secs(10);

/// Events that are waited for.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// The first of these; none: nothing is waited for.
    pub whens: &'a [When],
    /// The command that asks.
    pub command: &'a str,
    /// How windows of the job are measured; its pace is seen by short ones.
    pub options: &'a Options,
    /// Set where a window is wanted now.
    pub signal: &'a AtomicBool,
}

/// The end of one wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// A window is to be measured, after this event; `None`: nothing was to be waited for.
    Window(Option<trimtab_types::report::Event>),
    /// The job has ended.
    Ended,
    /// The listener wants no more.
    Interrupted,
}

/// Waits again and again.
pub struct Waiting<'a> {
    waiter: Waiter<'a>,
    around: Around<'a>,
}

impl Engine<'_> {
    /// Listens and looks for events beside a job while `series` asks for one after the other.
    ///
    /// # Errors
    /// Events that can't be seen together, or nobody who sees them; and those of the series.
    pub fn wait<T, E: From<Error>>(
        &self,
        found: &Found,
        wait: Wait<'_>,
        series: impl FnOnce(&mut Waiting<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let is_interrupted = || self.listener.is_interrupted();
        let mut waiting = Waiting::begin(*self, found, wait, &is_interrupted)?;
        series(&mut waiting)
    }

    pub(crate) fn warn(&self, text: String) {
        self.listener.hear(&Event::Warning(text));
    }
}

impl<'a> Waiting<'a> {
    fn begin(
        engine: Engine<'a>,
        found: &'a Found,
        wait: Wait<'a>,
        is_interrupted: &'a dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let call_socket = CallSocket::open(&trimtab_trigger::folder()?, Vec::new())?;
        let waker = call_socket.waker();
        let far = far_machines(engine, found, wait, is_interrupted)?;
        let waiter = Waiter::new(wait.whens.to_vec(), jobs_of(found, &far), machines_of(&far), call_socket)?;
        let wants_api = wait.whens.iter().any(|when| when.condition == Condition::Api);
        let hear = || {
            let nodes = engine.nodes.ok_or(Error::NoSite)?;
            nodes.hear_calls(callable(found, engine.store, wait.whens), waker).map_err(Error::Nodes)
        };
        let calls = wants_api.then(hear).transpose()?;
        let around = Around { engine, wait, calls, found, far, asked_slurm: Instant::now() };
        Ok(Waiting { waiter, around })
    }

    /// The name by which the job is best called on this machine.
    pub fn name(&self) -> String {
        names(self.around.found, self.around.engine.store).pop().unwrap_or_default()
    }

    /// The name by which it is best called through the site, if such calls are waited for.
    pub fn site_name(&self) -> Option<&str> {
        self.around.calls.as_ref().map(|calls| calls.job_name())
    }

    /// The next window is the last one: nobody is to be told that a call was heard which no window follows.
    pub fn no_more_calls(&mut self) {
        self.around.calls = None;
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// Waiting fails, or Slurm can't be asked.
    pub fn next_event(&mut self) -> Result<Next, Error> {
        let Around { engine, wait, found, .. } = self.around;
        if wait.whens.is_empty() {
            return Ok(match (engine.listener.is_interrupted(), self.around.is_alive()) {
                (true, _) => Next::Interrupted,
                (_, false) => Next::Ended,
                _ => Next::Window(None),
            });
        }
        self.waiter.call_socket.names = names(found, engine.store);
        let events = wait.whens.iter().map(When::to_string).collect::<Vec<_>>().join(", ");
        engine.listener.hear(&Event::Stage(Stage::Waiting { events }));
        Ok(match self.waiter.next(&mut self.around)? {
            Waited::Event(event) => Next::Window(Some(event)),
            Waited::Ended => Next::Ended,
            Waited::Interrupted => Next::Interrupted,
        })
    }
}

/// The job's machines as agents see them, if it has several and something is waited for that only they see.
fn far_machines<'a>(
    engine: Engine<'a>,
    found: &'a Found,
    wait: Wait<'a>,
    is_interrupted: &'a dyn Fn() -> bool,
) -> Result<Option<FarMachines<'a>>, Error> {
    let Found::Spread(spread) = found else { return Ok(None) };
    // Slurm says itself what it runs on its nodes.
    let is_launch = matches!(**spread, Spread::Launch(_));
    let is_seen_there = |when: &When| match when.condition {
        Condition::JobStart | Condition::JobEnd => is_launch,
        condition => condition.is_of_machine(),
    };
    let is_wanted = wait.whens.iter().any(is_seen_there);
    is_wanted.then(|| FarMachines::begin(engine, spread, wait.command, is_interrupted)).transpose()
}

fn jobs_of<'a>(found: &'a Found, far: &Option<FarMachines<'a>>) -> Box<dyn JobSource + 'a> {
    match (found, far) {
        (Found::Here(job), _) => Box::new(JobsHere::new(Own::of(&ProcFs::new(), &pids(job), job.launcher))),
        (Found::Spread(spread), far) => match (&**spread, far) {
            (Spread::Slurm(running), _) => Box::new(JobsOfSlurm::new(&slurm::Program, running)),
            (Spread::Launch(_), Some(far)) => Box::new(far.clone()),
            // They are not asked for.
            (Spread::Launch(_), None) => Box::new(JobsHere::new(Own::default())),
        },
    }
}

fn machines_of<'a>(far: &Option<FarMachines<'a>>) -> Box<dyn Machines + 'a> {
    match far {
        Some(far) => Box::new(far.clone()),
        None => Box::<MachineHere>::default(),
    }
}

/// The answers to the waiter's questions.
struct Around<'a> {
    engine: Engine<'a>,
    wait: Wait<'a>,
    /// Calls through the API, if they are waited for.
    calls: Option<Box<dyn Calls>>,
    found: &'a Found,
    far: Option<FarMachines<'a>>,
    asked_slurm: Instant,
}

impl Surroundings for Around<'_> {
    fn is_interrupted(&self) -> bool {
        self.engine.listener.is_interrupted()
    }

    fn is_signalled(&self) -> bool {
        self.wait.signal.swap(false, Ordering::Relaxed)
    }

    fn called(&mut self) -> Option<String> {
        let calls = self.calls.as_ref()?;
        calls.take_troubles().into_iter().for_each(|trouble| self.engine.warn(trouble));
        calls.take()
    }

    fn is_alive(&mut self) -> bool {
        match self.found {
            Found::Here(job) => job.ranks.iter().any(|rank| {
                let stat = ProcFs::new().stat(rank.pid);
                stat.is_ok_and(|stat| stat.runs_since(rank.start_time_ticks))
            }),
            Found::Spread(spread) => match &**spread {
                Spread::Slurm(running) => self.is_running(running),
                Spread::Launch(launched) => launched.runs(),
            },
        }
    }

    fn rate(&mut self) -> Option<f64> {
        match self.pace() {
            Ok(rate) => rate,
            Err(error) => {
                self.engine.warn(format!("the program's pace can't be told now: {}", one_line(&error)));
                None
            }
        }
    }

    fn now_unix_s(&self) -> f64 {
        trimtab_os::unix_s()
    }
}

impl Around<'_> {
    /// Iterations per second over a few of them, measured as any window is.
    fn pace(&self) -> Result<Option<f64>, Error> {
        let options = Options {
            first_call_s: None,
            length: Length::Iterations(PACE_ITERATIONS),
            max_seconds: PACE_SECONDS_MAX,
            start: None,
            detail: 0,
            follow: false,
            until_confident: None,
            trigger: "rate".to_owned(),
            command_ns: trimtab_os::monotonic_ns(),
            ..self.wait.options.clone()
        };
        match (self.found, &self.far) {
            (Found::Here(job), _) => {
                let looked = Engine { listener: &Nobody, ..self.engine }.measure(job, &options, false)?;
                Ok(looked.report.iterations_per_s)
            }
            (Found::Spread(_), Some(far)) => far.rate(&options),
            (Found::Spread(_), None) => Ok(None),
        }
    }

    /// Slurm's answer, now and then; a question without answer is asked again.
    fn is_running(&mut self, running: &RunningJob) -> bool {
        if self.asked_slurm.elapsed() < SLURM_ALIVE {
            return true;
        }
        self.asked_slurm = Instant::now();
        let processes = ProcFs::new();
        let own_uid = processes.status(processes.own_pid()).map_or(0, |status| status.uids[1]);
        let ended = |error| matches!(error, SlurmError::Ended { .. } | SlurmError::NoSuchJob { .. });
        !slurm::find(&slurm::Program, running.id, own_uid).is_err_and(ended)
    }
}

/// Calls whoever waits on this machine for a job of one of these names; later names only if nobody has heard the earlier
/// ones.
///
/// # Errors
/// The folder of calls can't be read.
pub fn call(names: &[&str], called: &str) -> Result<CallOutcome, Error> {
    let folder = trimtab_trigger::folder()?;
    let mut outcome = CallOutcome::default();
    for name in names {
        outcome = trimtab_trigger::call_job(&folder, name, called)?;
        if outcome.fired > 0 {
            break;
        }
    }
    Ok(outcome)
}
