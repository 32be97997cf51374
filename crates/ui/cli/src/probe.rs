//! `probe`: scripts of probes.
//!
//! Next: `explain` for what one would do, `probe_where` for what runs where, `probe_values` for how results look, `trimtab-script` for the work.

use crate::arguments::{ProbeOptions, ScriptOptions};
use crate::engine::Parts;
use crate::probe_where::Probed;
use crate::progress::Terminal;
use crate::{DONE, PARTIAL, output, probe_values, probe_where};
use anyhow::{Context as _, bail};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_engine::{Begun, Nobody, Program, Target};
use trimtab_script::{Error, Message, Options, Permissions};
use trimtab_store::Store;
use trimtab_track::slurm::SlurmId;
use trimtab_types::Pid;

/// `trimtab probe SCRIPT PID|JOB` and `trimtab probe SCRIPT -- COMMAND`.
pub fn run(
    options: &ProbeOptions,
    words: &[String],
    command: &[String],
    store: &Option<PathBuf>,
) -> anyhow::Result<u8> {
    let (text, rest) = script_of(&options.script, words)?;
    let script = Options { seccomp_ok: options.seccomp_ok, ..script_options(&options.script, text) };
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let parts = Parts::of(None);
    let engine = parts.engine(&Nobody, None);
    match (rest, command, options.slurm) {
        ([], [], None) => {
            bail!("nothing to probe; give a process id or a job behind the script, `--slurm JOB`, or `-- COMMAND`")
        }
        ([], [], Some(id)) => probe_where::run(&engine.look(Target::Slurm(id))?, &script, options, false),
        ([target], [], None) => {
            let pid = match job_in_store(target, store)? {
                InStore::Slurm(id) => {
                    return probe_where::run(&engine.look(Target::Slurm(id))?, &script, options, false);
                }
                InStore::Process(pid) => pid,
            };
            if options.process {
                return probe_where::plain(pid, &script, options, false);
            }
            match engine.find(Target::Process(pid), None) {
                Ok(found) => probe_where::run(&found, &script, options, false),
                Err(error) if error.is_no_job() => probe_where::plain(pid, &script, options, false),
                Err(error) => Err(error.into()),
            }
        }
        ([], command, None) => {
            let mut program = Program::start(command)?;
            let code = match program.wait_for_processes()? {
                Begun::Plain(pid) => probe_where::plain(pid, &script, options, true)?,
                Begun::Job(found) => probe_where::run(&found, &script, options, true)?,
            };
            let status = program.wait()?;
            Ok(if status != 0 { status } else { code })
        }
        ([target, ..], _, None) => bail!("too many words: `{target}` and what follows; put the script in quotes"),
        (_, _, Some(_)) => bail!("--slurm names what is probed; leave out the process id, the job and the command"),
    }
}

/// The script's text, and the words behind it.
pub fn script_of<'a>(options: &ScriptOptions, words: &'a [String]) -> anyhow::Result<(String, &'a [String])> {
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

/// The user's permissions, with the text.
pub fn script_options(options: &ScriptOptions, text: String) -> Options {
    let permissions = Permissions { write: options.allow_write, call: options.allow_call };
    Options { text, permissions, ..Options::default() }
}

/// The thing that a word names.
enum InStore {
    /// A process.
    Process(Pid),
    /// A job of Slurm that was measured on many nodes.
    Slurm(SlurmId),
}

/// A pid, or a stored job that still runs.
fn job_in_store(text: &str, store: &Option<PathBuf>) -> anyhow::Result<InStore> {
    if let Ok(pid) = text.parse() {
        return Ok(InStore::Process(Pid(pid)));
    }
    let known = Store::open_to_read(store.as_deref())?;
    let selection = known.find(text)?;
    match Target::of_key(&selection.job.key) {
        Some(Ok(Target::Slurm(id))) => return Ok(InStore::Slurm(id)),
        Some(Err(error @ trimtab_engine::Error::Id(_))) => return Err(error.into()),
        _ => {}
    }
    let processes = known.processes(&selection.job.id)?;
    let running = processes.iter().find(|process| trimtab_os::runs_since(process.pid, process.start_ticks));
    let process = running.with_context(|| format!("job {} has ended", selection.job.id))?;
    Ok(InStore::Process(process.pid))
}

/// The process of a pid, or one of a stored job that still runs.
pub fn process_of(text: &str, store: &Option<PathBuf>) -> anyhow::Result<Pid> {
    match job_in_store(text, store)? {
        InStore::Process(pid) => Ok(pid),
        InStore::Slurm(id) => bail!("job {id} of Slurm runs on many nodes; give the id of one process, on its node"),
    }
}

/// An error in the script is shown with its line; others are as they are.
pub fn said(error: Error, text: &str) -> anyhow::Error {
    match error {
        Error::Script(refused) => anyhow::anyhow!("the script was refused\n{}", refused.render(text)),
        other => other.into(),
    }
}

/// Reads until it is over, takes the probes out and shows what they left.
/// Exit code, and what to tell of processes that ended by a fault.
pub fn watch(
    mut running: impl Probed,
    options: &ProbeOptions,
    terminal: &Terminal,
) -> anyhow::Result<(u8, Vec<String>)> {
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
        let poll = running.poll()?;
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
        } else if poll.has_new_handler {
            break "fault handler";
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
    let (last, values, summary) = running.finish()?;
    for message in &last {
        if !to_standard_output {
            output::print_text(&probe_values::line(message))?;
        }
    }
    messages.extend(last);
    let mut result =
        probe_values::Outcome { ended_by, seconds, functions, refused: &refused, messages, values, summary };
    if let Some(path) = &options.json {
        output::write(path, &(serde_json::to_string_pretty(&result.as_json())? + "\n"))?;
    }
    if !to_standard_output {
        output::print_text(&result.text())?;
    }
    let departed = std::mem::take(&mut result.summary.departed);
    let code = if result.is_complete() { DONE } else { PARTIAL };
    Ok((code, departed))
}
