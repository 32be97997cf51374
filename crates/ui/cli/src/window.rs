//! `run`, `attach`, `measure`: one window of a job, stored and shown.
//!
//! The store is opened before any process is touched: what could not be kept is not measured.
//!
//! Next: `launch` starts programs, `trimtab-measure` does the work.

use crate::arguments::{GroupName, WindowOptions};
use crate::progress::Terminal;
use crate::{DONE, PARTIAL, launch, output};
use anyhow::{Context, bail};
use std::io::IsTerminal;
use std::path::PathBuf;
use trimtab_measure::{Mark, Options, Outcome, dry_run, has_static_mpi, measure};
use trimtab_mpi::Group;
use trimtab_session::ImageCache;
use trimtab_store::{Process, Store};
use trimtab_track::{Job, ProcFs, find_job_in};
use trimtab_types::Pid;
use trimtab_types::report::Report;

/// `trimtab attach PID`.
pub fn attach(options: &WindowOptions, pid: i32, store: &Option<PathBuf>, command_ns: u64) -> anyhow::Result<u8> {
    let job = find_job_in(&ProcFs::new(), Pid(pid), &has_static_mpi)?;
    one_window(options, &job, store, command_ns, "attach")
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
    let processes = known.processes(&selection.job.id)?;
    drop(known);
    let runs = |process: &&Process| launch::start_ticks(process.pid) == Some(process.start_ticks);
    let Some(process) = processes.iter().find(runs) else {
        bail!(
            "job {} has ended; start it again and use `trimtab attach`, or see `trimtab report {text}`",
            selection.job.id
        );
    };
    let job = find_job_in(&ProcFs::new(), process.pid, &has_static_mpi)?;
    one_window(options, &job, store, command_ns, "measure")
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
        let outcome = launch::measure_when_ready(&mut program, &job, &window, &cache, &terminal);
        terminal.finish();
        keep_and_show(&mut kept, &job, outcome?, options, true)
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
) -> anyhow::Result<u8> {
    let window = window_options(options, trigger, command_ns)?;
    let cache = ImageCache::of_user();
    if options.dry_run {
        return show_plan(job, &window, &cache);
    }
    let mut kept = Store::open(store.as_deref())?;
    check_files(options)?;
    let terminal = Terminal::new()?;
    let outcome = measure(job, &window, &cache, &terminal);
    terminal.finish();
    keep_and_show(&mut kept, job, outcome?, options, false)
}

fn window_options(options: &WindowOptions, trigger: &str, command_ns: u64) -> anyhow::Result<Options> {
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
fn check_files(options: &WindowOptions) -> anyhow::Result<()> {
    options.json.iter().chain(&options.html).try_for_each(|path| output::check_writable(path))
}

/// Stores the window, then shows it. The report is shown even if it can't be stored.
fn keep_and_show(
    store: &mut Store,
    job: &Job,
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

fn keep(store: &mut Store, job: &Job, report: &mut Report) -> anyhow::Result<()> {
    let id = store.upsert_job(&report.job, &job.key)?;
    report.job.id = id.to_string();
    report.window.batch = store.insert_window(&id, report)?;
    let host = report.job.hosts.first().cloned().unwrap_or_default();
    let processes: Vec<Process> = job
        .ranks
        .iter()
        .map(|rank| Process { rank: rank.rank, pid: rank.pid, host: host.clone(), start_ticks: rank.start_time_ticks })
        .collect();
    store.set_processes(&id, &processes)?;
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
