//! One window of a job, stored and shown; `run`, which starts the program.
//!
//! The store is opened before any process is touched: what could not be kept is not measured.
//!
//! Next: `attach` for jobs that run, `trimtab-engine`'s `window` and `launch` for the work.

use crate::arguments::site::SiteOptions;
use crate::arguments::{AssumedName, GroupName, HoldOptions, WindowOptions};
use crate::engine::{Kept, Parts};
use crate::exit_code::{DONE, PARTIAL};
use crate::progress::Terminal;
use crate::{departed, hold, outcomes, output, prolog, remote};
use anyhow::{Context, bail};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;
use trimtab_engine::{Engine, Found, Group, Job, Length, LoopName, Mark, Measured, Nobody, Options, Program};
use trimtab_engine::{RANKS_WAIT, Window, hold_children, usual_options};
use trimtab_report::Style;
use trimtab_standing::HostLog;
use trimtab_types::Pid;
use trimtab_types::report::{Event, EventKind};

/// Said where agents come too late to hold ranks, and what helps.
const BEGIN_BEFORE: &str = "ranks on several machines may begin before they can be held";
const TO_BE_SURE: &str = "to be sure of each one's first call, use `trimtab run --follow -- srun ...` inside of an allocation, run a package \
                          (`trimtab pack PROGRAM -o FILE -- --follow`) or have Slurm's plug-in see to it (srun --trimtab=window:--follow)";

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
    if let Found::Here(job) = found {
        tell_relatives(job);
    }
    let parts = Parts::of(Some(site));
    let window = Window {
        options: window_options(options, trigger, command_ns)?,
        just_begun: wait.is_some(),
        ranks_wait: wait.unwrap_or(RANKS_WAIT),
        agents_hold: options.agents_hold,
    };
    if options.dry_run {
        return show_plan(&parts.engine(&Nobody, None), found, &window.options);
    }
    let kept = Kept::open(store.as_deref())?;
    check_files(options)?;
    let terminal = Terminal::new()?;
    let engine = parts.engine(&terminal, Some(&kept));
    let shown = show(engine.window(found, &window)?, options, false);
    // Runs of before may have ended, which later forecasts want to know. A store that can't be written was told of already.
    if matches!(shown, Ok(DONE))
        && let Err(error) = outcomes::fill(&engine, &kept, false)
    {
        eprintln!("trimtab: ends of earlier runs were not noted: {}", output::chain(&error));
    }
    shown
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
    let kept = Kept::open(store.as_deref())?;
    check_files(options)?;
    let hold_s = (!hold.no_hold && hold::is_whole_run(options)).then_some(hold.hold);
    let by_slurm = hold_s.filter(|_| prolog::is_srun(command)).map(|seconds| prolog::variables(command, seconds));
    let is_held = matches!(by_slurm, Some(Ok(_)));
    // Begun before the program is, so that a busy machine gives it no start. Tasks of Slurm don't begin below this process.
    let own_hold = hold_s.filter(|_| !is_held).map(|seconds| hold_children(&HostLog, seconds, options.seccomp_ok));
    let mut first_call = own_hold.transpose()?;
    let variables = by_slurm.as_ref().and_then(|variables| variables.as_ref().ok());
    let mut program = Program::start(command, variables.map_or(&[][..], |variables| variables))?;
    let measured = program.wait_for_ranks().map_err(anyhow::Error::from).and_then(|found| {
        let terminal = Terminal::new()?;
        let parts = Parts::of(None);
        let engine = parts.engine(&terminal, Some(&kept));
        let window = window_options(options, "run", command_ns)?;
        let measured = match found {
            Found::Here(job) if !is_held => engine.window_of_program(&mut program, *job, &window, first_call.take())?,
            found => {
                drop(first_call.take());
                if hold_s.is_some() && !is_held {
                    let why = by_slurm.and_then(Result::err).map_or_else(String::new, |why| format!(" ({why})"));
                    eprintln!("trimtab: {BEGIN_BEFORE}{why}; {TO_BE_SURE}");
                }
                // Those are held that are still in MPI_Init when their agents come; the report names the others.
                let options = Options { first_call_s: hold_s, ..window };
                engine.window(&found, &Window { just_begun: true, agents_hold: !is_held, ..Window::new(options) })?
            }
        };
        show(measured, options, true)
    });
    drop(first_call);
    let runs_on = program.runs();
    if let Err(error) = &measured
        && runs_on
    {
        eprintln!("trimtab: {}; the program runs on", output::chain(error));
    }
    let status = program.wait()?;
    if matches!(measured, Ok(DONE))
        && let Err(error) = outcomes::note_end_now(&kept)
    {
        eprintln!("trimtab: the program's end was not noted: {}", output::chain(&error));
    }
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
        arguments: options.argument.clone(),
        wrappers: options.wrapper.clone(),
        detail: options.detail,
        follow: options.follow,
        until_confident: options.until_confident,
        max_cost: options.max_cost,
        max_hits: options.max_hits,
        counters: options.counters.iter().map(|event| event.name.to_owned()).collect(),
        assumed: options.assume.map(AssumedName::assumption),
        event: options.event.clone().map(Box::new),
        patient: options.event.as_ref().is_some_and(is_count),
        ranks: options.ranks.clone(),
        seccomp_ok: options.seccomp_ok,
        detail_ranks_max: if options.all_ranks { u32::MAX } else { options.detail_ranks_max },
        command_ns,
        ..usual_options(trigger)
    })
}

/// The window itself counts the iterations that were waited for.
pub fn is_count(event: &Event) -> bool {
    event.kind == EventKind::Iterations
}

/// The number of a loop of the nest, if that is what was given in place of a name.
fn nest_number(name: &LoopName) -> Option<u32> {
    name.function.parse().ok().filter(|number| *number > 0 && name.number.is_none())
}

/// A window that could not be written is not measured.
pub fn check_files(options: &WindowOptions) -> anyhow::Result<()> {
    options.json.iter().chain(&options.html).try_for_each(|path| output::check_writable(path))
}

/// Shows a window, and has the site keep it too if it was measured through one. The report is shown even if it can't be
/// stored.
fn show(mut measured: Measured, options: &WindowOptions, beside_program: bool) -> anyhow::Result<u8> {
    let (report, headline) = (&measured.report, &measured.headline);
    let mut problems = Vec::new();
    let json_to_stdout = options.json.as_deref() == Some(std::path::Path::new("-"));
    if beside_program {
        // Standard output belongs to the program.
        let style = Style { paths: options.path, ..output::style(std::io::stderr().is_terminal()) };
        eprintln!("{}", trimtab_report::terminal(report, headline, &style));
    } else if !json_to_stdout {
        problems.extend(output::print_report(report, headline, options.path).err());
    }
    if let Some(path) = &options.json {
        match options.one_of_many {
            true => problems.extend(output::append(path, &serde_json::to_string(report)?).err()),
            false => problems.extend(output::write(path, &trimtab_report::json(report)?).err()),
        }
    }
    if let Some(path) = &options.html {
        problems.extend(output::write(path, &trimtab_report::html(report, headline)).err());
    }
    remote::file(&mut measured);
    let Measured { report, kept, ends, .. } = measured;
    let kept = kept.context("the window was measured and is shown above, but could not be stored");
    problems.extend(kept.err());
    let is_all_kept = told(problems);
    let code = departed::told(&ends, if report.window.valid { DONE } else { PARTIAL });
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

fn show_plan(engine: &Engine<'_>, found: &Found, options: &Options) -> anyhow::Result<u8> {
    let Found::Here(job) = found else {
        bail!("--dry-run shows the plan of one node: run `trimtab attach --dry-run PID` there, with the PID of a rank");
    };
    let mut text = String::new();
    for planned in engine.plan(job, options)? {
        text += &format!("rank {} (process {})\n{}\n", planned.rank, planned.pid, planned.plan);
        for (name, reason) in planned.left_out {
            text += &format!("left out: {name}: {reason}\n");
        }
    }
    output::print_text(&text)?;
    Ok(DONE)
}
