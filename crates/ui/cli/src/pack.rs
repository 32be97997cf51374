//! `pack`: one file with a program and trimtab; and what such a file does when it is run.
//!
//! Whoever runs a package gets the program: this process becomes it (`exec`), so process id, arguments, environment,
//! standard streams, signals and exit status are the program's own. Before, it starts a helper that is nobody's child any
//! more when the program begins. The helper of the lowest rank measures one window and writes the report beside; the
//! others end at once. Whatever fails on this side, the program runs.
//!
//! Next: `trimtab-pack` for the file itself.

use crate::arguments::{Arguments, Command};
use crate::exit_code::DONE;
use crate::prolog::wait_until_told;
use crate::{hold, output};
use anyhow::{Context, bail};
use clap::Parser;
use std::fs::File;
use std::io::Seek;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode, Stdio};
use std::time::Duration;
use trimtab_engine::{HOLD_SECONDS, is_first_rank};
use trimtab_pack::{Error, Package};
use trimtab_types::Pid;

/// Tells a package's own children what they are for; `off`, set by a user: only run the program.
const ROLE: &str = "TRIMTAB_PACK";
/// A package that was changed can't be run, as a file that the kernel refuses.
const CAN_NOT_RUN: u8 = 126;
/// How long the ranks of a job may take to begin.
const WAIT: Duration = Duration::from_secs(120);

/// `trimtab pack PROGRAM -o FILE -- OPTIONS`.
pub fn pack(program: &Path, out: &Path, options: &[String]) -> anyhow::Result<u8> {
    if let Err(error) = Arguments::try_parse_from(attach_words(options)) {
        bail!("these are no options of `trimtab attach`: {error}");
    }
    let carrier = std::env::current_exe().context("can't find the file of trimtab itself")?;
    let manifest = Package::write(&carrier, program, out, options)?;
    output::print_text(&format!("{}: {} with sha256 {}", out.display(), manifest.name, manifest.sha256))?;
    Ok(DONE)
}

/// If this process was started from a package, does what that asks for and never comes back with `None`.
pub fn run_if_packed() -> Option<ExitCode> {
    let own = Path::new("/proc/self/exe");
    let role = std::env::var(ROLE).unwrap_or_default();
    if role == "plain" {
        return None;
    }
    let package = match Package::find(own) {
        Ok(package) => package?,
        Err(error @ Error::Tampered { .. }) => return Some(refuse(&error)),
        Err(_) => return None,
    };
    let (what, pid) = role.split_once(' ').unwrap_or((&role, ""));
    Some(match (what, pid.parse()) {
        ("start", Ok(pid)) => {
            // An orphan from here on; the program never sees it.
            let helper = child(&format!("help {pid}")).process_group(0).stdout(Stdio::piped()).spawn();
            if let Some(said) = helper.ok().and_then(|mut helper| helper.stdout.take()) {
                // Else the program might be through `MPI_Init` before its helper looks at it.
                wait_until_told(said);
            }
            ExitCode::SUCCESS
        }
        ("help", Ok(pid)) => {
            // While it stops the program others must know whose it is.
            let _unnamed = std::fs::write("/proc/self/comm", env!("CARGO_BIN_NAME"));
            let _told = help(&package, Pid(pid));
            ExitCode::SUCCESS
        }
        _ => carry(&package, what == "off"),
    })
}

fn refuse(error: &Error) -> ExitCode {
    let own = std::env::args().next().unwrap_or_default();
    eprintln!("{own}: {}", error.to_string().replace("/proc/self/exe", &own));
    ExitCode::from(CAN_NOT_RUN)
}

/// Becomes the program.
fn carry(package: &Package, is_off: bool) -> ExitCode {
    let mut words = std::env::args_os();
    let own = words.next().unwrap_or_default();
    let (program, _kept) = match extracted(package) {
        Ok(found) => found,
        Err(error) => return refuse(&error),
    };
    if !is_off {
        // It ends once the helper looks; without it there is no window, and the program runs all the same.
        let _started = child(&format!("start {}", std::process::id())).status();
    }
    let mut command = process::Command::new(&program);
    command.arg0(&own).args(words);
    if is_off {
        command.env_remove(ROLE);
    }
    let error = command.exec();
    eprintln!("{}: {}: {error}", own.to_string_lossy(), program.display());
    ExitCode::from(CAN_NOT_RUN)
}

/// The program in the user's cache, or in memory where there is none.
fn extracted(package: &Package) -> Result<(PathBuf, Option<File>), Error> {
    match cache().and_then(|cache| package.program(&cache).ok()) {
        Some(path) => Ok((path, None)),
        None => {
            let mut memory = package.in_memory()?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
            let _start = memory.rewind();
            Ok((path, Some(memory)))
        }
    }
}

fn cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("trimtab/packages"))
}

/// This file again, with something else to do, silent.
fn child(role: &str) -> process::Command {
    let mut command = process::Command::new("/proc/self/exe");
    command.env(ROLE, role).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Measures the job that process `pid` is about to be of, if that is the one of its ranks which does it.
fn help(package: &Package, pid: Pid) -> anyhow::Result<()> {
    let task = |name: &str| std::env::var(name).ok();
    let slurm = task("SLURM_JOB_ID").zip(task("SLURM_STEP_ID")).zip(task("SLURM_PROCID"));
    let options = &package.manifest.options;
    let hold = hold_s(options);
    // Each rank has its own helper; what holds it is in it when this is over, or it runs on.
    match hold {
        Some(seconds) => drop(hold::hold(pid.0, seconds, hold::tell)),
        None => hold::tell(),
    }
    let (target, name) = match slurm {
        Some((_, number)) if number != "0" => return Ok(()),
        Some(((job, step), _)) => (vec!["--slurm".to_owned(), format!("{job}.{step}")], format!("{job}.{step}")),
        None if !is_first_rank(pid, WAIT) => return Ok(()),
        None => (vec![pid.to_string()], pid.to_string()),
    };
    let report = File::create_new(format!("{}-{name}.trimtab.txt", package.manifest.name))?;
    let mut command = child("plain");
    command.arg("attach").args(options);
    if let Some(seconds) = hold.filter(|_| !options.iter().any(|word| is_hold(word))) {
        command.args(["--hold", &seconds.to_string()]);
    }
    if hold.is_some() {
        command.arg("--held");
    }
    command.args(["--wait", &WAIT.as_secs().to_string()]).args(target);
    command.stdout(report.try_clone()?).stderr(report).status()?;
    Ok(())
}

/// For how long ranks are to be held where they come out of `MPI_Init`; `None`: they are not, because not the whole run is asked
/// for, or its iterations are.
fn hold_s(options: &[String]) -> Option<u64> {
    let parsed = Arguments::try_parse_from(attach_words(options)).ok()?;
    let Command::Attach { options, hold: asked, events, .. } = parsed.command else { return None };
    let is_whole = hold::is_whole_run(&options) && events.is_plain();
    asked.or(is_whole.then_some(HOLD_SECONDS))
}

fn is_hold(word: &str) -> bool {
    word == "--hold" || word.starts_with("--hold=")
}

/// A command line with the options of a package, for a process that stands for any.
fn attach_words(options: &[String]) -> impl Iterator<Item = String> {
    ["trimtab", "attach", "1"].into_iter().map(str::to_owned).chain(options.iter().cloned())
}
