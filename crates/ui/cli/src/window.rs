//! `run`, `attach`, `measure`: one window of a job, stored and shown.
//!
//! The store is opened before any process is touched: what could not be kept is not measured.
//!
//! Next: `launch` starts programs, `trimtab-measure` does the work.

use crate::arguments::site::SiteOptions;
use crate::arguments::{AssumedName, EventOptions, GroupName, HoldOptions, WindowOptions};
use crate::audited::Change;
use crate::progress::Terminal;
use crate::{DONE, PARTIAL, cluster, departed, hold, output, remote, waiting};
use anyhow::{Context, bail};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;
use trimtab_agent::SiteWindow;
use trimtab_engine::{Found, Program, Target, measure_when_ready, when_ready};
use trimtab_measure::{FirstCall, Length, LoopName, Mark, Options, Outcome};
use trimtab_measure::{chosen, dry_run, has_static_mpi, host_name, measure, measure_from_first_call};
use trimtab_mpi::Group;
use trimtab_report::Style;
use trimtab_session::{Departures, ImageCache};
use trimtab_store::{Process, Store};
use trimtab_track::{Job, ProcFs, RankProcess, find_job_in};
use trimtab_types::Pid;
use trimtab_types::report::{LoopPlace, Report};

/// Advice where agents come too late to hold ranks.
const ON_OTHERS: &str = "ranks on several machines may begin before they can be held; to be sure of each one's first call, run a \
                         package (`trimtab pack PROGRAM -o FILE -- --follow`) or have Slurm's plug-in see to it (srun --trimtab=window:--follow)";

/// `trimtab attach PID`.
pub fn attach(
    options: &WindowOptions,
    events: &EventOptions,
    target: Option<Target>,
    wait_s: Option<f64>,
    site: &SiteOptions,
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    let target = target.context("give a process id, or --slurm JOB")?;
    if site.controller.is_some() && matches!(target, Target::Process(_)) && !events.wants_api() {
        bail!("a controller is asked for jobs, not for processes: give --slurm JOB");
    }
    let wait = wait_s.map(Duration::from_secs_f64);
    let through_site = site.controller().is_some();
    let found = wait.map_or_else(
        || trimtab_engine::find(target, through_site),
        |limit| trimtab_engine::wait_for(target, through_site, limit),
    )?;
    if !events.is_plain() {
        return waiting::run(options, events, &found, site, store, "attach");
    }
    window_of(options, &found, site, store, command_ns, "attach", wait)
}

/// One window of a job that was found.
pub fn window_of(
    options: &WindowOptions,
    found: &Found,
    site: &SiteOptions,
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
        Found::Spread(spread) => {
            let mut kept = Store::open(store.as_deref())?;
            check_files(options)?;
            let asked = cluster::Asked { options, command_ns, trigger, wait, beside_program: false, site: Some(site) };
            cluster::one_window(&asked, spread, &mut kept)
        }
    }
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

/// `trimtab measure JOB`.
pub fn measure_again(
    options: &WindowOptions,
    events: &EventOptions,
    text: &str,
    site: &SiteOptions,
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    let known = Store::open_to_show(store.as_deref())?;
    let selection = known.find(text)?;
    if let Some(id) = trimtab_engine::slurm_id(&selection.job.key) {
        let found = trimtab_engine::slurm_job(id?, site.controller().is_some())?;
        return measure_found(options, events, &found, site, store, command_ns);
    }
    if let Some(launcher) = trimtab_engine::launcher_of(&selection.job.key) {
        let found = trimtab_engine::launched_again(launcher)?;
        return measure_found(options, events, &found, site, store, command_ns);
    }
    let processes = known.processes(&selection.job.id)?;
    drop(known);
    let runs = |process: &&Process| trimtab_os::runs_since(process.pid, process.start_ticks);
    let Some(process) = processes.iter().find(runs) else {
        bail!(
            "job {} has ended; start it again and use `trimtab attach`, or see `trimtab report {text}`",
            selection.job.id
        );
    };
    let job = find_job_in(&ProcFs::new(), process.pid, &has_static_mpi)?;
    measure_found(options, events, &Found::Here(Box::new(job)), site, store, command_ns)
}

fn measure_found(
    options: &WindowOptions,
    events: &EventOptions,
    found: &Found,
    site: &SiteOptions,
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    if !events.is_plain() {
        return waiting::run(options, events, found, site, store, "measure");
    }
    window_of(options, found, site, store, command_ns, "measure", None)
}

/// `trimtab run -- COMMAND`.
pub fn run(
    options: &WindowOptions,
    hold: &HoldOptions,
    command: &[String],
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    if options.dry_run {
        bail!("--dry-run needs a program that runs; start it and use `trimtab attach --dry-run PID`");
    }
    let mut kept = Store::open(store.as_deref())?;
    check_files(options)?;
    let mut first_call = hold_ranks(options, hold)?;
    let mut program = Program::start(command)?;
    let hold_s = first_call.is_some().then_some(hold.hold);
    let measured = program.wait_for_ranks().map_err(anyhow::Error::from).and_then(|found| match found {
        Found::Here(job) => run_here(options, (&mut program, first_call.take()), *job, &mut kept, command_ns),
        Found::Spread(spread) => {
            drop(first_call.take());
            if hold_s.is_some() {
                eprintln!("trimtab: {ON_OTHERS}");
            }
            // Those are held that are still in MPI_Init when their agents come; the report names the others.
            let options = &WindowOptions { first_call_s: hold_s, agents_hold: hold_s.is_some(), ..options.clone() };
            let asked =
                cluster::Asked { options, command_ns, trigger: "run", wait: None, beside_program: true, site: None };
            cluster::one_window(&asked, &spread, &mut kept)
        }
    });
    drop(first_call);
    let runs_on = program.runs();
    if let Err(error) = &measured
        && runs_on
    {
        eprintln!("trimtab: {}; the program runs on", output::chain(error));
    }
    let status = program.wait()?;
    match measured {
        Ok(code) if status == 0 => Ok(code),
        Ok(_) => Ok(status),
        Err(_) if status == 0 && runs_on => bail!("the program ended well, but was not measured, as said above"),
        Err(error) if status == 0 => Err(error),
        Err(error) => {
            if !runs_on {
                eprintln!("trimtab: {}", output::chain(&error));
            }
            Ok(status)
        }
    }
}

/// Has ranks wait behind `MPI_Init` until all are measured, if the whole run is to be and nothing of it is asked for that
/// only iterations show.
///
/// Begun before the program is, so that a busy machine gives it no start.
fn hold_ranks(options: &WindowOptions, hold: &HoldOptions) -> anyhow::Result<Option<FirstCall>> {
    if hold.no_hold || !hold::is_whole_run(options) {
        return Ok(None);
    }
    let is_trusted = options.seccomp_ok;
    let may_change = move |pid: Pid| {
        if is_trusted {
            trimtab_os::trust_filters(pid);
        }
        hold::may_change(pid)
    };
    let own = Pid(std::process::id() as i32);
    let first_call = FirstCall::begin(vec![own], Duration::from_secs(hold.hold), may_change)?;
    first_call.wait_until_it_looks(hold::LOOKS_MAX);
    Ok(Some(first_call))
}

fn run_here(
    options: &WindowOptions,
    (program, first_call): (&mut Program, Option<FirstCall>),
    job: Job,
    kept: &mut Store,
    command_ns: u64,
) -> anyhow::Result<u8> {
    let terminal = Terminal::new()?;
    let window = window_options(options, "run", command_ns)?;
    let cache = ImageCache::of_user();
    let pids = |job: &Job| job.ranks.iter().map(|rank| rank.pid).collect::<Vec<_>>();
    let (mut ends, first_pids) = (ends_of(&job), pids(&job));
    let (job, held) = match first_call {
        Some(first_call) => {
            let find = || program.whole_job();
            let (job, held) = first_call.gathered(job, &find, &|| terminal.is_interrupted());
            (job, Some(held))
        }
        None => (job, None),
    };
    let job = &job;
    if pids(job) != first_pids {
        ends = ends_of(job);
    }
    if let Some(held) = held.as_ref().filter(|held| !held.is_any()) {
        let why = held.missed().into_iter().next().map_or_else(String::new, |missed| missed.reason);
        eprintln!("trimtab: no rank is measured from its first call on: {why}");
    }
    let change = Change::of_job("run", &chosen(job, &window))?;
    let outcome = change.around(|| match held {
        Some(held) => {
            measure_from_first_call(job, &window, &cache, &terminal, held).map_err(trimtab_engine::Error::from)
        }
        None => measure_when_ready(program, job, &window, &cache, &terminal),
    });
    terminal.finish();
    keep_and_show(kept, &Known::of(job), outcome?, options, true, None, &ends)
}

fn one_window(
    options: &WindowOptions,
    job: &Job,
    store: &Option<PathBuf>,
    command_ns: u64,
    trigger: &str,
    may_be_loading: bool,
) -> anyhow::Result<u8> {
    let mut window = window_options(options, trigger, command_ns)?;
    let cache = ImageCache::of_user();
    if options.dry_run {
        return show_plan(job, &window, &cache);
    }
    let mut kept = Store::open(store.as_deref())?;
    window.known_loop = known_loop(&kept, &job.key)?.map(Box::new);
    check_files(options)?;
    let terminal = Terminal::new()?;
    let ends = ends_of(job);
    let once = || measure(job, &window, &cache, &terminal);
    let measured = || if may_be_loading { when_ready(once, trimtab_measure::Error::is_loading) } else { once() };
    let outcome = Change::of_job(trigger, &chosen(job, &window))?.around(measured);
    terminal.finish();
    let mut outcome = outcome?;
    if let Some(elsewhere) = trimtab_engine::elsewhere(job) {
        outcome.report.window.valid = false;
        outcome.report.warnings.push(elsewhere);
    }
    keep_and_show(&mut kept, &Known::of(job), outcome, options, false, None, &ends)
}

/// Tells the ends of the ranks on this machine.
fn ends_of(job: &Job) -> Departures {
    Departures::of(job.ranks.iter().map(|rank| rank.pid))
}

/// The window that was asked for.
pub fn window_options(options: &WindowOptions, trigger: &str, command_ns: u64) -> anyhow::Result<Options> {
    let mut groups: Vec<Group> = options
        .group
        .iter()
        .map(|group| match group {
            GroupName::Comm => Group::Comm,
            GroupName::Io => Group::Io,
            GroupName::Mem => Group::Memory,
            GroupName::Sleep => Group::Sleep,
            GroupName::Omp => Group::Omp,
            GroupName::All => Group::All,
        })
        .collect();
    // Where threads wait for each other means little without where ranks do.
    if groups.contains(&Group::Omp) && !groups.iter().any(|group| matches!(group, Group::Comm | Group::All)) {
        groups.insert(0, Group::Comm);
    }
    let mark = match (&options.main_loop, options.mark.as_str()) {
        (Some(name), _) => nest_number(name).map_or_else(|| Mark::Loop(name.clone()), Mark::Nest),
        (None, "auto") => Mark::Auto,
        (None, "calls") => Mark::Calls,
        (None, name) => Mark::Function(name.to_owned()),
    };
    Ok(Options {
        first_call_s: options.first_call_s,
        length: options.iterations.map_or(Length::AtLeast(options.at_least), Length::Iterations),
        start: options.start,
        max_seconds: options.max_seconds,
        mark,
        groups,
        functions: options.function.clone(),
        loops: Vec::new(),
        arguments: options.argument.clone(),
        wrappers: options.wrapper.clone(),
        detail: options.detail,
        follow: options.follow,
        until_confident: options.until_confident,
        max_cost: options.max_cost,
        max_hits: options.max_hits,
        counters: options.counters.iter().map(|event| event.name.to_owned()).collect(),
        assumed: options.assume.map(AssumedName::assumption),
        trigger: trigger.to_string(),
        event: options.event.clone().map(Box::new),
        patient: options.event.as_ref().is_some_and(waiting::is_count),
        ranks: options.ranks.clone(),
        seccomp_ok: options.seccomp_ok,
        known_loop: None,
        batch: 0,
        job_id: String::new(),
        command_ns,
    })
}

/// The loop that the newest window of this job whose loop was found took: windows with the same loop can be compared.
pub fn known_loop(store: &Store, key: &str) -> anyhow::Result<Option<LoopPlace>> {
    let Some(id) = store.job_of_key(key)? else { return Ok(None) };
    let newest = store.newest_window(Some(&id))?;
    let found = newest.filter(|report| report.window.marker_source == "detected");
    Ok(found.and_then(|report| report.window.main_loop))
}

/// The number of a loop of the nest, if that is what was given in place of a name.
fn nest_number(name: &LoopName) -> Option<u32> {
    name.function.parse().ok().filter(|number| *number > 0 && name.number.is_none())
}

/// A window that could not be written is not measured.
pub fn check_files(options: &WindowOptions) -> anyhow::Result<()> {
    options.json.iter().chain(&options.html).try_for_each(|path| output::check_writable(path))
}

/// The facts that are kept of a job beside its report.
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

/// Stores the window, shows it, and has the site keep it too if it was measured through one. The report is shown even if
/// it can't be stored.
pub fn keep_and_show(
    store: &mut Store,
    job: &Known,
    outcome: Outcome,
    options: &WindowOptions,
    beside_program: bool,
    site: Option<SiteWindow>,
    ends: &Departures,
) -> anyhow::Result<u8> {
    let Outcome { mut report, headline, departed } = outcome;
    let kept = keep(store, job, &mut report);
    let mut problems = Vec::new();
    let json_to_stdout = options.json.as_deref() == Some(std::path::Path::new("-"));
    if beside_program {
        // Standard output belongs to the program.
        let style = Style { paths: options.path, ..output::style(std::io::stderr().is_terminal()) };
        eprintln!("{}", trimtab_report::terminal(&report, &headline, &style));
    } else if !json_to_stdout {
        problems.extend(output::print_report(&report, &headline, options.path).err());
    }
    if let Some(path) = &options.json {
        match options.one_of_many {
            true => problems.extend(output::append(path, &serde_json::to_string(&report)?).err()),
            false => problems.extend(output::write(path, &trimtab_report::json(&report)?).err()),
        }
    }
    if let Some(path) = &options.html {
        problems.extend(output::write(path, &trimtab_report::html(&report, &headline)).err());
    }
    if let Some(site) = site {
        remote::file(&site, &job.key, &report, kept.is_ok());
    }
    let kept = kept.context("the window was measured and is shown above, but could not be stored");
    problems.extend(kept.err());
    let is_all_kept = told(problems);
    let code = departed::told(departed, ends, if report.window.valid { DONE } else { PARTIAL });
    match is_all_kept {
        Err(error) if code == DONE => Err(error),
        Ok(false) if code == DONE => Ok(PARTIAL),
        _ => Ok(code),
    }
}

/// True if there was no problem; says which ones there were. A reader that has gone away wants to hear of none.
fn told(problems: Vec<anyhow::Error>) -> anyhow::Result<bool> {
    let is_empty = problems.is_empty();
    for problem in problems {
        if output::is_broken_pipe(&problem) {
            return Err(problem);
        }
        eprintln!("trimtab: {}", output::chain(&problem));
    }
    Ok(is_empty)
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
