//! `probe`: scripts of probes.
//!
//! Next: `explain` for what one would do, `probe_values` for how results look, `trimtab-engine`'s `script` for the work.

use crate::arguments::{ProbeOptions, ScriptArguments};
use crate::engine::Parts;
use crate::exit_code::{DONE, PARTIAL};
use crate::progress::Terminal;
use crate::{departed, output, probe_values};
use anyhow::{Context as _, bail};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trimtab_engine::{Begun, Event, Found, Listener, Nobody, Permissions, Program, Script, ScriptOptions};
use trimtab_engine::{SlurmId, Target, runs_since};
use trimtab_store::Store;
use trimtab_types::Pid;

/// `trimtab probe SCRIPT PID|JOB` and `trimtab probe SCRIPT -- COMMAND`.
pub fn run(
    options: &ProbeOptions,
    words: &[String],
    command: &[String],
    store: &Option<PathBuf>,
) -> anyhow::Result<u8> {
    let (text, rest) = script_of(&options.script, words)?;
    let script = ScriptOptions { seccomp_ok: options.seccomp_ok, ..script_options(&options.script, text) };
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let parts = Parts::of(None);
    let engine = parts.engine(&Nobody, None);
    let limit = options.seconds.map(Duration::from_secs_f64);
    let script = Script { options: script, ranks: options.ranks.clone(), limit, just_begun: !command.is_empty() };
    let run = |aim: Aim| probe(&parts, &aim, &script, options);
    match (rest, command, options.slurm) {
        ([], [], None) => {
            bail!("nothing to probe; give a process id or a job behind the script, `--slurm JOB`, or `-- COMMAND`")
        }
        ([], [], Some(id)) => run(Aim::Job(engine.look(Target::Slurm(id))?)),
        ([target], [], None) => {
            let pid = match job_in_store(target, store)? {
                InStore::Slurm(id) => return run(Aim::Job(engine.look(Target::Slurm(id))?)),
                InStore::Process(pid) => pid,
            };
            if options.process {
                return run(Aim::Process(pid));
            }
            match engine.find(Target::Process(pid), None) {
                Ok(found) => run(Aim::Job(found)),
                Err(error) if error.is_no_job() => run(Aim::Process(pid)),
                Err(error) => Err(error.into()),
            }
        }
        ([], command, None) => {
            let mut program = Program::start(command, &[])?;
            let code = match program.wait_for_processes()? {
                Begun::Plain(pid) => run(Aim::Process(pid))?,
                Begun::Job(found) => run(Aim::Job(found))?,
            };
            let status = program.wait()?;
            Ok(if status != 0 { status } else { code })
        }
        ([target, ..], _, None) => bail!("too many words: `{target}` and what follows; put the script in quotes"),
        (_, _, Some(_)) => bail!("--slurm names what is probed; leave out the process id, the job and the command"),
    }
}

/// The script's text, and the words behind it.
pub fn script_of<'a>(options: &ScriptArguments, words: &'a [String]) -> anyhow::Result<(String, &'a [String])> {
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
pub fn script_options(options: &ScriptArguments, text: String) -> ScriptOptions {
    let permissions = Permissions { write: options.allow_write, call: options.allow_call };
    ScriptOptions { text, permissions, ..ScriptOptions::default() }
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
    let running = processes.iter().find(|process| runs_since(process.pid, process.start_ticks));
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
pub fn refused(error: trimtab_engine::Error, text: &str) -> anyhow::Error {
    match error.in_script(text) {
        Some(shown) => anyhow::anyhow!("the script was refused\n{shown}"),
        None => error.into(),
    }
}

/// Shows messages as they come, and ends the script when nobody reads them any more.
struct Shown<'a> {
    terminal: &'a Terminal,
    /// Standard output is for people, not for JSON.
    prints: bool,
    unread: Mutex<Option<anyhow::Error>>,
}

impl Shown<'_> {
    fn unread(&self) -> MutexGuard<'_, Option<anyhow::Error>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Shown<'_> {
    fn hear(&self, event: &Event) {
        let mut unread = self.unread();
        match event {
            Event::Message(message) if self.prints && unread.is_none() => {
                *unread = self.terminal.print(&probe_values::line(message)).err();
            }
            Event::Message(_) => {}
            other => self.terminal.hear(other),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.terminal.is_interrupted() || self.unread().is_some()
    }
}

/// The processes that a script is for.
enum Aim {
    Job(Found),
    Process(Pid),
}

/// Runs a script until it is over, and shows what it left.
fn probe(parts: &Parts, aim: &Aim, script: &Script, options: &ProbeOptions) -> anyhow::Result<u8> {
    let terminal = Terminal::new()?;
    let prints = options.json.as_deref() != Some(Path::new("-"));
    let shown = Shown { terminal: &terminal, prints, unread: Mutex::new(None) };
    let engine = parts.engine(&shown, None);
    let probed = match aim {
        Aim::Job(found) => engine.probe(found, script),
        Aim::Process(pid) => engine.probe_process(*pid, script),
    };
    let probed = probed.map_err(|error| refused(error, &script.options.text))?;
    if let Some(error) = shown.unread().take() {
        return Err(error);
    }
    if let Some(path) = &options.json {
        output::write(path, &(serde_json::to_string_pretty(&probe_values::as_json(&probed))? + "\n"))?;
    }
    if prints {
        output::print_text(&probe_values::text(&probed))?;
    }
    let code = if probe_values::is_complete(&probed) { DONE } else { PARTIAL };
    Ok(departed::told(&probed.ends, code))
}
