//! Trees of real processes, for tests and for `cargo xtask bench tree`.
//!
//! `tree host` and `tree bare` are nodes: they take a plan on standard input, say where they listen, and end when it
//! closes. `tree measure PART` is the controller: it starts them as processes of its own and prints one line of JSON.
//!
//! Next: `plan` for a host's input, `host` for nodes, `bare` for the floor, `measure` for the figures.

mod bare;
mod forest;
mod host;
mod measure;
mod plan;
mod scale;
mod survive;
mod usage;

use std::process::ExitCode;

const USAGE: &str = "usage: tree host | tree bare | \
    tree measure PART [--leaves N] [--rounds N] [--waves N] [--edges tcp|unix]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["host"] => host::run(),
        ["bare"] => bare::run(),
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

/// An error here is for people only.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;
