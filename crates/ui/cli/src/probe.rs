//! `probe` and `explain`: scripts of probes.
//!
//! Next: `probe_values` for how results look, `trimtab-script` for the work.

use crate::arguments::{ProbeOptions, ScriptOptions};
use crate::audited::Change;
use crate::launch::{self, Program};
use crate::progress::Terminal;
use crate::{DONE, PARTIAL, output, probe_values};
use anyhow::{Context as _, bail};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_measure::has_static_mpi;
use trimtab_script::{Error, Message, Options, Permissions, Running, Target};
use trimtab_session::ImageCache;
use trimtab_store::Store;
use trimtab_track::{ProcFs, find_job_in};
use trimtab_types::Pid;
use trimtab_types::context::Context;

/// `trimtab probe SCRIPT PID|JOB` and `trimtab probe SCRIPT -- COMMAND`.
pub fn run(
    options: &ProbeOptions,
    words: &[String],
    command: &[String],
    store: &Option<PathBuf>,
) -> anyhow::Result<u8> {
    let (text, rest) = script_of(&options.script, words)?;
    let script = script_options(&options.script, text);
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    match (rest, command) {
        ([], []) => bail!("nothing to probe; give a process id or a job behind the script, or `-- COMMAND`"),
        ([target], []) => {
            let targets = targets_of(process_of(target, store)?, &options.ranks)?;
            let mut change = Change::of_processes("probe", targets.iter().map(|target| target.pid))?;
            let code = watch(start(&targets, &script)?, options);
            change.restored();
            code
        }
        ([], command) => {
            let mut program = Program::start(command)?;
            let targets = targets_of(program.wait_for_process()?, &options.ranks)?;
            let mut change = Change::of_processes("probe", targets.iter().map(|target| target.pid))?;
            let running =
                launch::when_ready(|| Running::start(&targets, &script, &ImageCache::of_user()), is_too_early);
            let code = watch(running.map_err(|error| said(error, &script.text))?, options)?;
            change.restored();
            let status = program.wait()?;
            Ok(if status != 0 { status } else { code })
        }
        ([target, ..], _) => bail!("too many words: `{target}` and what follows; put the script in quotes"),
    }
}

/// `trimtab explain SCRIPT PID`.
pub fn explain(options: &ScriptOptions, words: &[String]) -> anyhow::Result<u8> {
    let (text, rest) = script_of(options, words)?;
    let script = script_options(options, text);
    let [pid] = rest else { bail!("expected a script and a process id") };
    let pid = Pid(pid.parse().with_context(|| format!("`{pid}` is no process id"))?);
    let explained = trimtab_script::explain(pid, &script, &ImageCache::of_user());
    let explained = explained.map_err(|error| said(error, &script.text))?;
    let mut text = explained.bodies.join("\n") + "\n" + &explained.writes + "\n";
    for refused in &explained.refused {
        text += &format!("not probed: {}: {}\n", refused.name, refused.reason);
    }
    output::print_text(&text)?;
    Ok(DONE)
}

/// The script's text, and the words behind it.
fn script_of<'a>(options: &ScriptOptions, words: &'a [String]) -> anyhow::Result<(String, &'a [String])> {
    match (&options.file, words.split_first()) {
        (Some(path), _) => Ok((read_script(path)?, words)),
        (None, Some((text, rest))) => Ok((text.clone(), rest)),
        (None, None) => bail!("no script; write it in quotes, or give --file"),
    }
}

fn read_script(path: &Path) -> anyhow::Result<String> {
    let context = || format!("can't read the script {}", path.display());
    if path != Path::new("-") {
        return std::fs::read_to_string(path).with_context(context);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).with_context(context)?;
    Ok(text)
}

fn script_options(options: &ScriptOptions, text: String) -> Options {
    Options { text, permissions: Permissions { write: options.allow_write, call: options.allow_call } }
}

/// The process of a pid, or one of a stored job that still runs.
pub fn process_of(text: &str, store: &Option<PathBuf>) -> anyhow::Result<Pid> {
    if let Ok(pid) = text.parse() {
        return Ok(Pid(pid));
    }
    let known = Store::open_to_read(store.as_deref())?;
    let selection = known.find(text)?;
    let processes = known.processes(&selection.job.id)?;
    let running =
        processes.iter().find(|process| trimtab_os::start_time_ticks(process.pid) == Some(process.start_ticks));
    let process = running.with_context(|| format!("job {} has ended", selection.job.id))?;
    Ok(process.pid)
}

/// The ranks of the job that `pid` belongs to, or the process itself if it is no MPI program.
fn targets_of(pid: Pid, ranks: &Context) -> anyhow::Result<Vec<Target>> {
    let job = match find_job_in(&ProcFs::new(), pid, &has_static_mpi) {
        Ok(job) => job,
        Err(trimtab_track::Error::NotMpi { .. }) => return Ok(vec![Target { pid, rank: None, ranks: None }]),
        Err(error) => return Err(error.into()),
    };
    let host = trimtab_measure::host_name();
    let chosen = job.ranks.iter().filter(|process| ranks.contains(process.rank.0, &host));
    let all = job.size.unwrap_or(job.ranks.len() as u32);
    let target = |process: &trimtab_track::RankProcess| Target {
        pid: process.pid,
        rank: Some(process.rank.0),
        ranks: Some(all),
    };
    let targets: Vec<Target> = chosen.map(target).collect();
    if targets.is_empty() {
        bail!("no rank of the job is in `{ranks}`; it has ranks 0 to {} here", job.ranks.len().saturating_sub(1));
    }
    Ok(targets)
}

fn start(targets: &[Target], script: &Options) -> anyhow::Result<Running> {
    Running::start(targets, script, &ImageCache::of_user()).map_err(|error| said(error, &script.text))
}

/// An error in the script is shown with its line; others are as they are.
fn said(error: Error, text: &str) -> anyhow::Error {
    match error {
        Error::Script(refused) => anyhow::anyhow!("the script was refused\n{}", refused.render(text)),
        other => other.into(),
    }
}

/// The loader may still be at work for a moment in a program that has just been started.
fn is_too_early(error: &Error) -> bool {
    matches!(error, Error::Process { source, .. } if launch::is_loading(source))
}

/// Reads until it is over, takes the probes out and shows what they left.
fn watch(mut running: Running, options: &ProbeOptions) -> anyhow::Result<u8> {
    let terminal = Terminal::new()?;
    let (functions, refused) = running.refusals();
    for one in &refused {
        eprintln!("trimtab: not probed: {}: {}", one.function, one.reason);
    }
    for name in running.awaited() {
        eprintln!("trimtab: {name} waits until its library is loaded");
    }
    let limit = [options.seconds.map(Duration::from_secs_f64), running.wanted()].into_iter().flatten().min();
    let to_standard_output = options.json.as_deref() == Some(Path::new("-"));
    let mut messages: Vec<Message> = Vec::new();
    let ended_by = loop {
        let poll = running.poll();
        for message in &poll.messages {
            if !to_standard_output {
                terminal.print(&probe_values::line(message))?;
            }
        }
        messages.extend(poll.messages);
        if terminal.is_interrupted() {
            break "interrupted";
        } else if poll.stopped {
            break "stop";
        } else if poll.alive == 0 {
            break "program ended";
        } else if limit.is_some_and(|limit| running.elapsed() >= limit) {
            break "time";
        }
        terminal.say(format!("probing {functions} functions, {:.1} s", running.elapsed().as_secs_f64()));
        running.wait(limit.map(|limit| limit.saturating_sub(running.elapsed())));
    };
    terminal.finish();
    let seconds = running.elapsed().as_secs_f64();
    let (last, values, summary) = running.finish();
    for message in &last {
        if !to_standard_output {
            output::print_text(&probe_values::line(message))?;
        }
    }
    messages.extend(last);
    let result = probe_values::Outcome { ended_by, seconds, functions, refused: &refused, messages, values, summary };
    if let Some(path) = &options.json {
        output::write(path, &(serde_json::to_string_pretty(&result.as_json())? + "\n"))?;
    }
    if !to_standard_output {
        output::print_text(&result.text())?;
    }
    Ok(if result.is_complete() { DONE } else { PARTIAL })
}
