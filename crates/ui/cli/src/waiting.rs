//! `--when` and `--windows`: windows of a job, each measured when something happens.
//!
//! Between two windows nothing is in the program; `iterations>=K` is counted by a window's own probes, which are in from
//! the beginning, and the report's trigger says so. A call (`trimtab trigger`) or SIGUSR1 is heard whatever is waited for;
//! calls through a site's API only with `--when api`.
//!
//! Next: `trimtab-trigger` for events, `called` for the API's, `window` for each window.

use crate::arguments::site::SiteOptions;
use crate::arguments::{EventOptions, WindowOptions};
use crate::called::Calls;
use crate::engine::Parts;
use crate::exit_code::{DONE, PARTIAL};
use crate::far_machines::FarMachines;
use crate::output;
use crate::progress::Terminal;
use crate::window::{window_of, window_options};
use anyhow::bail;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trimtab_engine::{Found, Nobody, Spread};
use trimtab_measure::{Length, Options, host_name};
use trimtab_neighbours::Own;
use trimtab_site::jobs::Awaiting;
use trimtab_store::Store;
use trimtab_track::slurm;
use trimtab_track::{Job, ProcFs, Processes};
use trimtab_trigger::{Condition, Door, JobSource, JobsHere, JobsOfSlurm, MachineHere, Machines};
use trimtab_trigger::{Surroundings, Waited, Waiter, When};
use trimtab_types::Pid;
use trimtab_types::report::Event;

/// Iterations of the short windows by which the program's pace is looked at, and their longest time.
const PACE_ITERATIONS: u64 = 5;
const PACE_SECONDS_MAX: f64 = 5.0;
/// Names of one job for calls through the API; the controller takes some more.
const SITE_NAMES_MAX: usize = 48;
/// Time between two questions to Slurm whether the job still runs.
const SLURM_ALIVE: Duration = Duration::from_secs(10);

/// Windows of a job that was found, each after an event.
pub fn run(
    options: &WindowOptions,
    events: &EventOptions,
    found: &Found,
    site: &SiteOptions,
    store: &Option<PathBuf>,
    trigger: &str,
) -> anyhow::Result<u8> {
    if options.dry_run {
        bail!("--dry-run shows a plan at once: leave out --when and --windows");
    }
    if events.windows() != Some(1) && options.html.is_some() {
        bail!("--html writes one window: leave out --windows, and use `trimtab report JOB/WINDOW --html FILE` later");
    }
    // A window that could not be stored is not waited for.
    drop(Store::open(store.as_deref())?);
    let terminal = Terminal::new()?;
    let signal = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, signal.clone())?;
    let door = Door::open(&trimtab_trigger::folder()?, Vec::new())?;
    let bell = door.bell();
    let is_interrupted = || terminal.is_interrupted();
    let far = far_machines(found, events, (site, trigger), &terminal, &is_interrupted)?;
    let waiter = Waiter::new(events.when.clone(), jobs_of(found, &far), machines_of(&far), door)?;
    let calls = events.wants_api().then(|| Calls::begin(site, events, awaiting(found, store), bell)).transpose()?;
    let around = Around { terminal: &terminal, signal, calls, found, far, options, asked_slurm: Instant::now() };
    let mut series = Series { options, events, found, site, store, trigger, waiter, around, measured: 0, code: DONE };
    series.run()
}

/// The job's machines as agents see them, if it has several and something is waited for that only they see.
fn far_machines<'a>(
    found: &'a Found,
    events: &EventOptions,
    (site, command): (&'a SiteOptions, &'a str),
    terminal: &'a Terminal,
    is_interrupted: &'a dyn Fn() -> bool,
) -> anyhow::Result<Option<FarMachines<'a>>> {
    let Found::Spread(spread) = found else { return Ok(None) };
    // Slurm says itself what it runs on its nodes.
    let is_launch = matches!(**spread, Spread::Launch(_));
    let is_seen_there = |when: &When| match when.condition {
        Condition::JobStart | Condition::JobEnd => is_launch,
        condition => condition.is_of_machine(),
    };
    let is_wanted = events.when.iter().any(is_seen_there);
    is_wanted.then(|| FarMachines::begin(spread, site, terminal, command, is_interrupted)).transpose()
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

fn pids(job: &Job) -> Vec<Pid> {
    job.ranks.iter().map(|process| process.pid).collect()
}

/// Several windows of one job.
struct Series<'a> {
    options: &'a WindowOptions,
    events: &'a EventOptions,
    found: &'a Found,
    site: &'a SiteOptions,
    store: &'a Option<PathBuf>,
    trigger: &'a str,
    waiter: Waiter<'a>,
    around: Around<'a>,
    measured: u64,
    /// The worst exit code of a window.
    code: u8,
}

impl Series<'_> {
    fn run(&mut self) -> anyhow::Result<u8> {
        let mut tries = 0;
        while self.events.windows().is_none_or(|windows| tries < windows) {
            let event = match self.wait()? {
                Waited::Event(event) => Some(event).filter(|event| !event.kind.is_empty()),
                Waited::Ended => {
                    eprintln!("trimtab: the job has ended; {} measured", windows(self.measured));
                    break;
                }
                Waited::Interrupted => break,
            };
            tries += 1;
            if self.events.windows() == Some(tries) {
                // Nobody is to be told that a call was heard which no window follows.
                self.around.calls = None;
            }
            self.window(event)?;
        }
        Ok(if self.measured == 0 { PARTIAL } else { self.code })
    }

    /// The next event; one without kind if nothing is waited for.
    fn wait(&mut self) -> anyhow::Result<Waited> {
        if self.events.when.is_empty() {
            let at_once = Event { kind: String::new(), condition: String::new(), value: String::new(), at_unix_s: 0.0 };
            return Ok(match (self.around.is_interrupted(), self.around.is_alive()) {
                (true, _) => Waited::Interrupted,
                (_, false) => Waited::Ended,
                _ => Waited::Event(at_once),
            });
        }
        self.waiter.door.names = names(self.found, self.store);
        let what = self.events.when.iter().map(When::to_string).collect::<Vec<_>>().join(", ");
        let name = self.waiter.door.names.last().cloned().unwrap_or_default();
        if self.measured == 0 {
            eprintln!("trimtab: waiting for {what}; `trimtab trigger {name}` measures at once");
            if let Some(calls) = &self.around.calls {
                eprintln!("trimtab: the site calls this job {}", calls.job_name());
            }
        }
        self.around.terminal.say(format!("waiting for {what}"));
        let waited = self.waiter.next(&mut self.around)?;
        if let Waited::Event(event) = &waited {
            let value = if event.value.is_empty() { String::new() } else { format!(": {}", event.value) };
            eprintln!("trimtab: {}{value}", event.condition);
        }
        Ok(waited)
    }

    /// One window. One that fails among several is told, and the next event waited for.
    fn window(&mut self, event: Option<Event>) -> anyhow::Result<()> {
        let counted = self.events.when.iter().find_map(|when| match when.condition {
            Condition::Iterations(count) => Some(count).filter(|_| event.as_ref().is_some_and(is_count)),
            _ => None,
        });
        let options = WindowOptions {
            start: counted.or(self.options.start),
            event,
            one_of_many: self.events.windows() != Some(1),
            ..self.options.clone()
        };
        match window_of(&options, self.found, self.site, self.store, trimtab_os::monotonic_ns(), self.trigger, None) {
            Ok(code) => {
                self.measured += 1;
                self.code = self.code.max(code);
            }
            Err(error) if self.events.windows() == Some(1) => return Err(error),
            Err(error) => {
                self.code = PARTIAL;
                eprintln!("trimtab: this window was not measured: {}", output::chain(&error));
            }
        }
        Ok(())
    }
}

/// The window itself counts the iterations that were waited for.
pub fn is_count(event: &Event) -> bool {
    event.kind == Condition::Iterations(1).kind()
}

fn windows(count: u64) -> String {
    if count == 1 { "1 window was".to_owned() } else { format!("{count} windows were") }
}

/// The names of the job for `trimtab trigger`; the last one is the best to type.
fn names(found: &Found, store: &Option<PathBuf>) -> Vec<String> {
    let (mut names, key) = match found {
        Found::Here(job) => {
            let pids = pids(job).into_iter().chain(job.launcher).map(|pid| pid.to_string());
            (pids.collect::<Vec<_>>(), job.key.clone())
        }
        Found::Spread(spread) => {
            let names = match &**spread {
                Spread::Slurm(running) => vec![running.id.to_string(), running.id.without_step().to_string()],
                Spread::Launch(launched) => vec![launched.launcher().to_string()],
            };
            (names, spread.key())
        }
    };
    let known = Store::open_to_read(store.as_deref()).and_then(|store| store.list_jobs()).unwrap_or_default();
    let is_ours = |job: &&trimtab_store::JobSummary| match found {
        Found::Here(_) => job.key == key,
        Found::Spread(_) => job.key.starts_with(&key),
    };
    names.extend(known.iter().find(is_ours).map(|job| job.id.to_string()));
    names
}

/// The facts of the job that a call through the API needs.
fn awaiting(found: &Found, store: &Option<PathBuf>) -> Awaiting {
    let (owner, key) = match found {
        // Its windows are measured here, and the site keeps none of them.
        Found::Here(job) => (job.ranks.first().map(|rank| rank.uid), None),
        Found::Spread(spread) => match &**spread {
            Spread::Slurm(running) => (running.parts.first().map(|part| part.uid), Some(spread.key())),
            Spread::Launch(launched) => (Some(launched.uid()), None),
        },
    };
    Awaiting { names: site_names(found, store), key, owner, calls: Vec::new() }
}

/// The names of a job for a call through the API, the best to type first: a process id means nothing without its host.
fn site_names(found: &Found, store: &Option<PathBuf>) -> Vec<String> {
    let names = names(found, store);
    let first = match found {
        Found::Spread(spread) => match &**spread {
            Spread::Slurm(_) => return names,
            Spread::Launch(launched) => Some(launched.launcher()),
        },
        Found::Here(job) => job.launcher.or(job.ranks.first().map(|rank| rank.pid)),
    };
    let host = host_name();
    let is_pid = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let others = names.into_iter().map(|name| if is_pid(&name) { format!("{host}:{name}") } else { name });
    first.map(|pid| format!("{host}:{pid}")).into_iter().chain(others).take(SITE_NAMES_MAX).collect()
}

/// The answers to the waiter's questions.
struct Around<'a> {
    terminal: &'a Terminal,
    signal: Arc<AtomicBool>,
    /// Calls through the API, if they are waited for.
    calls: Option<Calls>,
    found: &'a Found,
    far: Option<FarMachines<'a>>,
    options: &'a WindowOptions,
    asked_slurm: Instant,
}

impl Surroundings for Around<'_> {
    fn is_interrupted(&self) -> bool {
        self.terminal.is_interrupted()
    }

    fn is_signalled(&self) -> bool {
        self.signal.swap(false, Ordering::Relaxed)
    }

    fn called(&mut self) -> Option<String> {
        self.calls.as_ref()?.take()
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
                eprintln!("trimtab: the program's pace can't be told now: {}", output::chain(&error));
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
    fn pace(&self) -> anyhow::Result<Option<f64>> {
        let options = Options {
            first_call_s: None,
            length: Length::Iterations(PACE_ITERATIONS),
            max_seconds: PACE_SECONDS_MAX,
            start: None,
            detail: 0,
            follow: false,
            until_confident: None,
            ..window_options(self.options, "rate", trimtab_os::monotonic_ns())?
        };
        match (self.found, &self.far) {
            (Found::Here(job), _) => {
                let looked = Parts::of(None).engine(&Nobody, None).measure(job, &options, false)?;
                Ok(looked.report.iterations_per_s)
            }
            (Found::Spread(_), Some(far)) => far.rate(&options),
            (Found::Spread(_), None) => Ok(None),
        }
    }

    /// Slurm's answer, now and then; a question without answer is asked again.
    fn is_running(&mut self, running: &slurm::RunningJob) -> bool {
        if self.asked_slurm.elapsed() < SLURM_ALIVE {
            return true;
        }
        self.asked_slurm = Instant::now();
        let processes = ProcFs::new();
        let own_uid = processes.status(processes.own_pid()).map_or(0, |status| status.uids[1]);
        let ended = |error| matches!(error, slurm::SlurmError::Ended { .. } | slurm::SlurmError::NoSuchJob { .. });
        !slurm::find(&slurm::Program, running.id, own_uid).is_err_and(ended)
    }
}

/// `trimtab trigger JOB [NAME]`.
pub fn trigger(job: &str, name: &str, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let folder = trimtab_trigger::folder()?;
    // A beginning of a job's short name will do where the store knows it.
    let known = Store::open_to_read(store.as_deref()).and_then(|store| store.find(job));
    let id = known.map_or_else(|_| job.to_owned(), |selection| selection.job.id.to_string());
    let mut knocked = trimtab_trigger::knock(&folder, job, name)?;
    if knocked.fired == 0 && id != job {
        knocked = trimtab_trigger::knock(&folder, &id, name)?;
    }
    if knocked.fired > 0 {
        output::print_text(&format!(
            "{job}: {} now",
            if knocked.fired == 1 { "measured" } else { "measured several times" }
        ))?;
        return Ok(DONE);
    }
    if knocked.silent > 0 {
        bail!("whoever waits measures just now; try again when that window is over");
    }
    bail!("nobody waits for job {job}; start `trimtab attach PID --when call`, and give its launcher's pid or its id");
}
