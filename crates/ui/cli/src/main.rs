//! `trimtab`, the one binary: measures a running MPI program for a few iterations and leaves no trace.
//!
//! Exit codes: 0 done; 1 the result is partial, invalid or empty; 2 an error, nothing was changed.
//!
//! Next: `arguments` for what can be typed, `attach` for attach and measure, `window` for run, `stored` and `remote` for list and report.
#![forbid(unsafe_code)]

mod accepted;
mod arguments;
mod attach;
mod backtest;
mod backtest_jobs;
mod corun;
mod corun_given;
mod corun_shown;
mod departed;
mod doctor;
mod doctor_facts;
mod engine;
mod exit_code;
mod explain;
mod forecast;
mod forecast_sizes;
mod functions;
mod given_window;
mod grid;
mod grid_facts;
mod grid_shown;
mod hold;
mod lead;
mod links;
mod links_shown;
mod memory;
mod model;
mod model_shown;
mod nest;
mod nest_shown;
mod outcomes;
mod outcomes_sizes;
mod output;
mod pack;
mod pairs;
mod points;
mod pressure;
mod probe;
mod probe_values;
mod progress;
mod prolog;
mod queue;
mod recorded;
mod remote;
mod site;
mod stored;
mod tree;
mod undo;
mod waiting;
mod watch;
mod watch_lines;
mod weather;
mod weather_answer;
mod weather_lines;
mod weather_page;
mod weather_site;
mod window;

use arguments::model::ModelCommand;
use arguments::site::KeptOptions;
use arguments::{Arguments, Command, ForecastCommand, without_dashes};
use clap::{CommandFactory, Parser};
use exit_code::{DONE, ERROR};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_controller::forecasts::Asked;
use trimtab_engine::{Target, own};
use trimtab_types::{Pid, hear_notices};

#[global_allocator]
static ALLOCATOR: own::Allocator = own::Allocator;

fn main() -> ExitCode {
    if let Some(code) = pack::run_if_packed().or_else(prolog::run_if_prolog) {
        return code;
    }
    hear_notices(|text| eprintln!("trimtab: {text}"));
    let command_ns = own::monotonic_ns();
    let arguments = Arguments::parse_from(without_dashes(&Arguments::command(), std::env::args_os()));
    match carry_out(arguments, command_ns) {
        Ok(code) => ExitCode::from(code),
        Err(error) if output::is_broken_pipe(&error) => ExitCode::from(DONE),
        Err(error) => {
            let said = output::chain(&error);
            let shortage = memory::shortage(&said).map_or_else(String::new, |words| format!("; {words}"));
            eprintln!("trimtab: {said}{shortage}");
            points::say_why_not_found(&error);
            ExitCode::from(ERROR)
        }
    }
}

fn looks_into_processes(command: &Command) -> bool {
    matches!(
        command,
        Command::Run { .. }
            | Command::Attach { .. }
            | Command::Watch { .. }
            | Command::Measure { .. }
            | Command::Functions { .. }
            | Command::Points { .. }
            | Command::Loops { .. }
            | Command::Probe { .. }
            | Command::Explain { .. }
            | Command::Forecast(ForecastCommand::Job(_) | ForecastCommand::Corun(_))
            | Command::Model(ModelCommand::Pressure(_))
            | Command::Undo { .. }
    )
}

/// `trimtab report` in its forms.
fn show_windows(command: Command, store: &Option<std::path::PathBuf>) -> anyhow::Result<u8> {
    match command {
        Command::Report { window: Some(window), others, json, scaling: Some(work), .. } => {
            stored::scaling(store, &[vec![window], others].concat(), work.into(), json)
        }
        Command::Report { window: Some(job), json, compare: Some(windows), .. } => {
            stored::compare(store, &job, &windows, json)
        }
        Command::Report { window, site, json, html, path, .. } => {
            let shown = stored::Shown { json, html: html.as_deref(), path };
            match &site.controller {
                Some(controller) => remote::report(controller, &site, window.as_deref(), shown),
                None => stored::report(store, window.as_deref(), shown),
            }
        }
        _ => unreachable!("only reports are shown"),
    }
}

fn carry_out(arguments: Arguments, command_ns: u64) -> anyhow::Result<u8> {
    let store = arguments.store;
    // A command that launches a program asks for them afterwards.
    if matches!(
        arguments.command,
        Command::Attach { .. }
            | Command::Measure { .. }
            | Command::Forecast(ForecastCommand::Job(_) | ForecastCommand::Corun(_))
            | Command::Agent(_)
            | Command::Lead
    ) {
        own::take_short_turns();
    }
    if looks_into_processes(&arguments.command) {
        trimtab_engine::check_descriptors(1)?;
    }
    match arguments.command {
        Command::Run { options, hold, command } => window::run(&options, &hold, &command, &store, command_ns),
        Command::Attach { options, events, pid, site, slurm, wait, hold, held } => {
            let agents_hold = hold.is_some() && !held;
            let options = arguments::WindowOptions { first_call_s: hold, agents_hold, ..options };
            let target = slurm.map(Target::Slurm).or(pid.map(|pid| Target::Process(Pid(pid))));
            attach::attach(&options, &events, target, wait, &site, &store, command_ns)
        }
        Command::Hold { pid, seconds, tell } => hold::hold(pid, seconds, || {
            if tell {
                hold::tell()
            }
        }),
        Command::Agent(options) => site::agent(&options),
        Command::PressProbe(options) => pressure::probe(&options),
        Command::Guard => Ok(trimtab_standing::guard(&mut std::io::stdin().lock()).map(|()| DONE)?),
        Command::Lead => lead::lead(command_ns),
        Command::Controller(options) => site::controller(&options, &store),
        Command::Tree { site, json } => tree::show(&site, json),
        Command::Site(command) => site::authority(&command),
        Command::Doctor(options) => doctor::examine(&options),
        Command::Watch { wanted, options } => watch::run(&wanted, &options, &store, command_ns),
        Command::Measure { options, events, site, job } => {
            attach::measure_again(&options, &events, &job, &site, &store, command_ns)
        }
        Command::Trigger { job, name, site } => match &site.controller {
            Some(controller) => remote::trigger(controller, &site, &job, &name),
            None => waiting::trigger(&job, &name, &store),
        },
        Command::List { site, json } => list(&site, &store, json),
        report @ Command::Report { .. } => show_windows(report, &store),
        Command::Functions { pid, process, pattern, json } => functions::list(pid, &pattern, json, process),
        Command::Points { options, pattern, target } => points::list(&options, &pattern, &target, &store),
        Command::Loops { options, target } => nest::show(&options, &target, &store),
        Command::Probe { options, words, command } => probe::run(&options, &words, &command, &store),
        Command::Explain { script, options, words } => explain::run(&script, &options, &words, &store),
        Command::Pack { program, output, options } => pack::pack(&program, &output, &options),
        Command::Undo { pid, slurm, process, seccomp_ok } => undo::run(pid, slurm, process, seccomp_ok),
        Command::LastAct { why, pids } => undo::last_act(&why, &pids),
        Command::Weather(options) => weather::run(&options, &store),
        Command::Forecast(command) => foretell(&command, &store, command_ns),
        Command::Model(command) => model::run(&command, &store),
        Command::Backtest(options) => backtest::run(&options, &store),
        Command::Completions { shell } => Ok(completions(shell)),
    }
}

fn completions(shell: clap_complete::Shell) -> u8 {
    clap_complete::generate(shell, &mut Arguments::command(), "trimtab", &mut std::io::stdout());
    DONE
}

fn list(site: &KeptOptions, store: &Option<PathBuf>, json: bool) -> anyhow::Result<u8> {
    match &site.controller {
        Some(controller) => remote::list(controller, site, json),
        None => stored::list(store, json),
    }
}

fn foretell(command: &ForecastCommand, store: &Option<PathBuf>, command_ns: u64) -> anyhow::Result<u8> {
    match command {
        ForecastCommand::Job(options) => forecast::job(options, store, command_ns),
        ForecastCommand::Comp(options) => forecast_sizes::run(Asked::Time, options, store),
        ForecastCommand::Size(options) => forecast_sizes::run(Asked::Memory, options, store),
        ForecastCommand::Comm(options) => grid::comm(options, store),
        ForecastCommand::Total(options) => grid::total(options, store),
        ForecastCommand::Place(options) => grid::place(options, store),
        ForecastCommand::Plan(options) => grid::plan(options, store),
        ForecastCommand::Queue(options) => queue::run(options),
        ForecastCommand::Corun(options) => corun::run(options, store, command_ns),
        ForecastCommand::Collective(options) => links::collective(options, store),
    }
}
