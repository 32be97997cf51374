//! `trimtab`, the one binary: measures a running MPI program for a few iterations and leaves no trace.
//!
//! Exit codes: 0 done; 1 the result is partial, invalid or empty; 2 an error, nothing was changed.
//!
//! Next: `arguments` for what can be typed, `window` for run, attach and measure, `stored` for list and report.
#![forbid(unsafe_code)]

mod arguments;
mod audited;
mod cluster;
mod functions;
mod launch;
mod output;
mod pack;
mod points;
mod probe;
mod probe_values;
mod progress;
mod stored;
mod watch;
mod watch_lines;
mod window;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;
use window::Target;

/// Everything was done.
const DONE: u8 = 0;
/// The result is partial, invalid or empty.
const PARTIAL: u8 = 1;
/// Nothing could be done.
const ERROR: u8 = 2;

fn main() -> ExitCode {
    if let Some(code) = pack::run_if_packed() {
        return code;
    }
    let command_ns = trimtab_os::monotonic_ns();
    let arguments = Arguments::parse();
    match carry_out(arguments, command_ns) {
        Ok(code) => ExitCode::from(code),
        Err(error) if output::is_broken_pipe(&error) => ExitCode::from(DONE),
        Err(error) => {
            eprintln!("trimtab: {}", output::chain(&error));
            ExitCode::from(ERROR)
        }
    }
}

fn carry_out(arguments: Arguments, command_ns: u64) -> anyhow::Result<u8> {
    let store = arguments.store;
    match arguments.command {
        Command::Run { options, command } => window::run(&options, &command, &store, command_ns),
        Command::Attach { options, pid, slurm, wait } => {
            let target = slurm.map(Target::Slurm).or(pid.map(Target::Process));
            window::attach(&options, target, wait, &store, command_ns)
        }
        Command::Agent { ticket } => cluster::agent(&ticket),
        Command::Watch { wanted, options } => watch::run(&wanted, &options, &store, command_ns),
        Command::Measure { options, job } => window::measure_again(&options, &job, &store, command_ns),
        Command::List { json } => stored::list(&store, json),
        Command::Report { window, json, html } => stored::report(&store, window.as_deref(), json, html.as_deref()),
        Command::Functions { pid, pattern, json } => functions::list(pid, &pattern, json),
        Command::Points { options, pattern, target } => points::list(&options, &pattern, &target, &store),
        Command::Probe { options, words, command } => probe::run(&options, &words, &command, &store),
        Command::Explain { script, words } => probe::explain(&script, &words),
        Command::Pack { program, output, options } => pack::pack(&program, &output, &options),
        Command::Undo { pid } => functions::undo(pid),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "trimtab", &mut std::io::stdout());
            Ok(DONE)
        }
    }
}
