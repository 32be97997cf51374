//! Trees of real processes, for tests and for `cargo xtask bench tree`.
//!
//! `tree host`, `tree bare` and `tree calls` are nodes: they take a plan on standard input, say where they listen, and end when it
//! closes. `tree measure PART` is the controller: it starts them as processes of its own and prints one line of JSON.
//!
//! Next: `plan` for what a host is told, `host` for nodes, `bare` and `calls` for the floors, `measure` for what is
//! measured.

mod bare;
mod calls;
mod forest;
mod host;
mod measure;
mod plan;
mod scale;
mod survive;
mod usage;

use std::process::ExitCode;

const USAGE: &str = "usage: tree host | tree bare | tree calls | \
    tree measure PART [--leaves N] [--rounds N] [--waves N] [--edges tcp|near]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["host"] => host::run(),
        ["bare"] => bare::run(),
        ["calls"] => calls::run(),
        ["measure", part, ref options @ ..] => measure::run(part, options),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tree: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What goes wrong here is for people only.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;
