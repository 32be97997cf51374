//! `run`, `attach`, `measure`: one window of a job, stored and shown.
//!
//! The store is opened before any process is touched: what could not be kept is not measured.
//!
//! Next: `launch` starts programs, `trimtab-measure` does the work.

use crate::arguments::{GroupName, WindowOptions};
use crate::audited::Change;
use crate::progress::Terminal;
use crate::{DONE, PARTIAL, cluster, launch, output};
use anyhow::{Context, bail};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use trimtab_measure::{Mark, Options, Outcome, dry_run, has_static_mpi, host_name, measure};
use trimtab_mpi::Group;
use trimtab_session::ImageCache;
use trimtab_store::{Process, Store};
use trimtab_track::slurm::{self, RunningJob, SlurmId};
use trimtab_track::{Job, ProcFs, Processes, RankProcess, find_job_in, find_slurm_job_in};
use trimtab_types::Pid;
use trimtab_types::report::Report;

/// Time between two looks for ranks that are waited for.
const LOOK: Duration = Duration::from_millis(20);

/// Ranks that have not come so long after the last one run on other machines.
const MISSING: Duration = Duration::from_secs(3);

/// What is attached to.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// The job of any process.
    Process(i32),
    /// A job of Slurm.
    Slurm(SlurmId),
}

/// `trimtab attach PID`.
pub fn attach(
    options: &WindowOptions,
    target: Option<Target>,
    wait_s: Option<f64>,
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    let target = target.context("give a process id, or --slurm JOB")?;
    let wait = wait_s.map(Duration::from_secs_f64);
    let found = wait.map_or_else(|| find(target), |limit| wait_for(target, limit))?;
    window_of(options, &found, store, command_ns, "attach", wait)
}

/// A job that was found.
enum Found {
    /// All of it that can be seen is on this machine.
    Here(Box<Job>),
    /// A job of Slurm that runs elsewhere, or on more than one node.
    Spread(Box<RunningJob>),
}

fn find(target: Target) -> anyhow::Result<Found> {
    match target {
        Target::Process(pid) => Ok(Found::Here(Box::new(find_job_in(&ProcFs::new(), Pid(pid), &has_static_mpi)?))),
        Target::Slurm(id) => slurm_job(id),
    }
}

fn window_of(
    options: &WindowOptions,
    found: &Found,
    store: &Option<PathBuf>,
    command_ns: u64,
    trigger: &str,
    wait: Option<Duration>,
) -> anyhow::Result<u8> {
    match found {
        Found::Here(job) => {
            tell_relatives(job);
            one_window(options, job, store, command_ns, trigger, wait.is_some())
        }
        Found::Spread(running) => cluster::one_window(options, running, store, (command_ns, wait), trigger),
    }
}

/// The whole job, or as much of it as is here when the time is over.
fn wait_for(target: Target, limit: Duration) -> anyhow::Result<Found> {
    let begin = Instant::now();
    let (mut here, mut since) = (0, begin);
    loop {
        let found = find(target);
        let is_final = match &found {
            // Agents wait for ranks by themselves.
            Ok(Found::Spread(_)) => true,
            Ok(Found::Here(job)) if job.is_complete() => true,
            Ok(Found::Here(job)) => {
                if job.ranks.len() != here {
                    (here, since) = (job.ranks.len(), Instant::now());
                }
                since.elapsed() >= MISSING
            }
            Err(error) => !may_change(error),
        };
        if is_final || begin.elapsed() >= limit {
            return found;
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether the same question may have another answer in a moment: a program that is about to load MPI has none yet.
fn may_change(error: &anyhow::Error) -> bool {
    let track = error.downcast_ref::<trimtab_track::Error>();
    track.is_some_and(|error| error.is_retryable() || matches!(error, trimtab_track::Error::NotMpi { .. }))
        || error.downcast_ref::<slurm::SlurmError>().is_some_and(slurm::SlurmError::is_retryable)
}

/// Programs that started each other are measured one by one: says which are beside this one.
fn tell_relatives(job: &Job) {
    let shown = |pids: &[Pid]| pids.iter().map(Pid::to_string).collect::<Vec<_>>().join(" ");
    let others: Vec<Pid> = job.other_worlds.iter().filter(|pid| !job.parent.contains(pid)).copied().collect();
    if !job.parent.is_empty() {
        eprintln!("trimtab: processes {} started this program with MPI_Comm_spawn", shown(&job.parent));
    } else if job.spawned {
        eprintln!("trimtab: another program started this one with MPI_Comm_spawn");
    }
    if !others.is_empty() {
        eprintln!(
            "trimtab: the same launcher runs processes {} of another program; `trimtab attach` one of them",
            shown(&others)
        );
    }
}

/// A job of Slurm: its ranks, if all of it is on this machine.
fn slurm_job(id: SlurmId) -> anyhow::Result<Found> {
    let processes = ProcFs::new();
    let own_uid = processes.status(processes.own_pid())?.uids[1];
    let mut running = slurm::find(&slurm::Program, id, own_uid)?;
    let located = slurm::locate(&slurm::Program, &mut running, &processes.host());
    if running.nodes.len() > 1 || located.is_err() {
        return Ok(Found::Spread(Box::new(running)));
    }
    Ok(Found::Here(Box::new(find_slurm_job_in(&processes, &running.run, &has_static_mpi)?)))
}

/// `trimtab measure JOB`.
pub fn measure_again(
    options: &WindowOptions,
    text: &str,
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    let known = Store::open_to_read(store.as_deref())?;
    let selection = known.find(text)?;
    if let Some(id) = selection.job.key.strip_prefix(cluster::SLURM_KEY).and_then(|rest| rest.split(' ').next()) {
        return window_of(options, &slurm_job(id.parse()?)?, store, command_ns, "measure", None);
    }
    let processes = known.processes(&selection.job.id)?;
    drop(known);
    let runs = |process: &&Process| trimtab_os::start_time_ticks(process.pid) == Some(process.start_ticks);
    let Some(process) = processes.iter().find(runs) else {
        bail!(
            "job {} has ended; start it again and use `trimtab attach`, or see `trimtab report {text}`",
            selection.job.id
        );
    };
    let job = find_job_in(&ProcFs::new(), process.pid, &has_static_mpi)?;
    one_window(options, &job, store, command_ns, "measure", false)
}

/// `trimtab run -- COMMAND`.
pub fn run(
    options: &WindowOptions,
    command: &[String],
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    if options.dry_run {
        bail!("--dry-run needs a program that runs; start it and use `trimtab attach --dry-run PID`");
    }
    let mut kept = Store::open(store.as_deref())?;
    check_files(options)?;
    let mut program = launch::Program::start(command)?;
    let measured = program.wait_for_ranks().and_then(|job| {
        let terminal = Terminal::new()?;
        let window = window_options(options, "run", command_ns)?;
        let cache = ImageCache::of_user();
        let change = Change::of_job("run", &job)?;
        let outcome = change.around(|| launch::measure_when_ready(&mut program, &job, &window, &cache, &terminal));
        terminal.finish();
        keep_and_show(&mut kept, &Known::of(&job), outcome?, options, true)
    });
    if let Err(error) = &measured {
        eprintln!("trimtab: {}; the program runs on", output::chain(error));
    }
    let status = program.wait()?;
    match measured {
        Ok(code) if status == 0 => Ok(code),
        Ok(_) => Ok(status),
        Err(error) if status == 0 => Err(error.context("the program ended well, but was not measured")),
        Err(_) => Ok(status),
    }
}

fn one_window(
    options: &WindowOptions,
    job: &Job,
    store: &Option<PathBuf>,
    command_ns: u64,
    trigger: &str,
    may_be_loading: bool,
) -> anyhow::Result<u8> {
    let window = window_options(options, trigger, command_ns)?;
    let cache = ImageCache::of_user();
    if options.dry_run {
        return show_plan(job, &window, &cache);
    }
    let mut kept = Store::open(store.as_deref())?;
    check_files(options)?;
    let terminal = Terminal::new()?;
    let once = || measure(job, &window, &cache, &terminal);
    let measured = || if may_be_loading { launch::when_ready(once, launch::is_too_early) } else { once() };
    let outcome = Change::of_job(trigger, job)?.around(measured);
    terminal.finish();
    keep_and_show(&mut kept, &Known::of(job), outcome?, options, false)
}

/// The window that was asked for.
pub fn window_options(options: &WindowOptions, trigger: &str, command_ns: u64) -> anyhow::Result<Options> {
    let groups = options.group.iter().map(|group| match group {
        GroupName::Comm => Group::Comm,
        GroupName::Io => Group::Io,
        GroupName::Mem => Group::Memory,
        GroupName::Sleep => Group::Sleep,
        GroupName::All => Group::All,
    });
    let mark = if options.mark == "auto" { Mark::Auto } else { Mark::Function(options.mark.clone()) };
    Ok(Options {
        iterations: options.iterations,
        start: options.start,
        max_seconds: options.max_seconds,
        mark,
        groups: groups.collect(),
        functions: options.function.clone(),
        arguments: options.argument.clone(),
        detail: options.detail,
        follow: options.follow,
        until_confident: options.until_confident,
        trigger: trigger.to_string(),
        batch: 0,
        job_id: String::new(),
        command_ns,
    })
}

/// What could not be written is not measured.
pub fn check_files(options: &WindowOptions) -> anyhow::Result<()> {
    options.json.iter().chain(&options.html).try_for_each(|path| output::check_writable(path))
}

/// What is kept of a job beside its report.
pub struct Known {
    /// Names it among all jobs.
    pub key: String,
    /// Its ranks' processes.
    pub processes: Vec<Process>,
}

impl Known {
    /// A job on this machine.
    pub fn of(job: &Job) -> Self {
        let host = host_name();
        let process = |rank: &RankProcess| Process {
            rank: rank.rank,
            pid: rank.pid,
            host: host.clone(),
            start_ticks: rank.start_time_ticks,
        };
        Known { key: job.key.clone(), processes: job.ranks.iter().map(process).collect() }
    }
}

/// Stores the window, then shows it. The report is shown even if it can't be stored.
pub fn keep_and_show(
    store: &mut Store,
    job: &Known,
    outcome: Outcome,
    options: &WindowOptions,
    beside_program: bool,
) -> anyhow::Result<u8> {
    let Outcome { mut report, headline } = outcome;
    let kept = keep(store, job, &mut report);
    let json_to_stdout = options.json.as_deref() == Some(std::path::Path::new("-"));
    if beside_program {
        // Standard output belongs to the program.
        let style = output::style(std::io::stderr().is_terminal());
        eprintln!("{}", trimtab_report::terminal(&report, &headline, &style));
    } else if !json_to_stdout {
        output::print_report(&report, &headline)?;
    }
    if let Some(path) = &options.json {
        output::write(path, &trimtab_report::json(&report)?)?;
    }
    if let Some(path) = &options.html {
        output::write(path, &trimtab_report::html(&report, &headline))?;
    }
    kept.context("the window was measured and is shown above, but could not be stored")?;
    Ok(if report.window.valid { DONE } else { PARTIAL })
}

/// Stores a window; its report then says under which job and number.
pub fn keep(store: &mut Store, job: &Known, report: &mut Report) -> anyhow::Result<()> {
    let id = store.upsert_job(&report.job, &job.key)?;
    report.job.id = id.to_string();
    report.window.batch = store.insert_window(&id, report)?;
    store.set_processes(&id, &job.processes)?;
    Ok(())
}

fn show_plan(job: &Job, options: &Options, cache: &ImageCache) -> anyhow::Result<u8> {
    let mut text = String::new();
    for (process, plan, refused) in dry_run(job, options, cache)? {
        text += &format!("rank {} (process {})\n{plan}\n", process.rank, process.pid);
        for one in refused {
            text += &format!("left out: {}: {}\n", one.name, one.reason);
        }
    }
    output::print_text(&text)?;
    Ok(DONE)
}
