//! `trimtab run --follow -- srun ...`: the tasks of a step are held from their first call on, on whichever nodes they are.
//!
//! Agents come to nodes once a job is known, which is after its ranks have begun. Slurm runs a task prolog in each task before
//! its program, as the job's user; so this program is named as that (`SLURM_TASK_PROLOG`), starts a helper beside the task
//! that has it wait where it comes out of `MPI_Init`, and ends. A prolog that fails ends its task in some versions of
//! Slurm. So this one always ends well, and is named only inside of an allocation on whose nodes it has just run.
//!
//! Next: `hold` for the helper; `pack` and Slurm's plug-in, which have one too; `trimtab-engine`'s `hold`.

use anyhow::{Context, ensure};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::channel;
use trimtab_engine::LOOKS_MAX;
use trimtab_standing::{own_path, runs_on_all};

/// Slurm's name for the program that it runs in each task before the task's own.
const PROLOG: &str = "SLURM_TASK_PROLOG";
/// Tells this program that it is a task prolog, and for how many seconds a task is held.
const HOLD: &str = "TRIMTAB_TASK_HOLD";
/// Slurm's name for which variables a task gets.
const EXPORT: &str = "SLURM_EXPORT_ENV";

/// Variables for a command that have Slurm hold the tasks of its step.
pub type Variables = [(&'static str, String); 2];

/// The variables that have a command's tasks held for so many seconds at most.
///
/// # Errors
/// Why they can't be, as half a sentence.
pub fn variables(command: &[String], seconds: u64) -> anyhow::Result<Variables> {
    is_free(command, &|name| std::env::var(name).ok())?;
    let number = |names: [&str; 2]| names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok());
    let job =
        number(["SLURM_JOB_ID", "SLURM_JOBID"]).context("it was begun outside of an allocation (salloc, sbatch)")?;
    let nodes =
        number(["SLURM_JOB_NUM_NODES", "SLURM_NNODES"]).context("Slurm does not say on how many nodes it is")?;
    let own = own_path().ok().and_then(|path| path.into_os_string().into_string().ok());
    let own = own.context("this program's own path can't be told")?;
    ensure!(runs_on_all(job, nodes as usize), "{own} can't be run on all nodes of the job");
    Ok([(PROLOG, own), (HOLD, seconds.to_string())])
}

/// True if a command is Slurm's own launcher.
pub fn is_srun(command: &[String]) -> bool {
    command.first().is_some_and(|name| Path::new(name).file_name().is_some_and(|name| name == "srun"))
}

/// Nothing that the user has asked of Slurm stands against a prolog of ours. Options of `srun` may be shortened.
fn is_free(command: &[String], variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<()> {
    let is_own = |word: &String| word.starts_with("--task-p");
    let keeps =
        |word: &String| word.starts_with("--exp") && !word.split_once('=').is_some_and(|(_, names)| is_all(names));
    let has_own = variable(PROLOG).is_some() || command.iter().any(is_own);
    ensure!(!has_own, "the step has a task prolog of its own");
    let is_cut = variable(EXPORT).is_some_and(|names| !is_all(&names)) || command.iter().any(keeps);
    ensure!(!is_cut, "its tasks don't get all variables (--export)");
    Ok(())
}

fn is_all(names: &str) -> bool {
    names.split(',').any(|name| name == "ALL")
}

/// If this process is a task's prolog, does what that is for: it never comes back with `None` then, and always ends well.
pub fn run_if_prolog() -> Option<ExitCode> {
    let seconds = std::env::var(HOLD).ok()?;
    let task = std::env::var("SLURM_TASK_PID").ok().filter(|_| std::env::args_os().len() == 1)?;
    // The program's own environment is as the user wrote it.
    crate::output::print_text(&format!("unset {PROLOG}\nunset {HOLD}\n")).ok();
    // By its own name others know whose it is while it stops the task.
    let own = own_path().unwrap_or_else(|_| "/proc/self/exe".into());
    let helper = Command::new(own)
        .args(["hold", "--seconds", &seconds, &task, "--tell"])
        .env_remove(HOLD)
        .env_remove(PROLOG)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Slurm ends the prolog's group after it.
        .process_group(0)
        .spawn();
    if let Some(told) = helper.ok().and_then(|mut helper| helper.stdout.take()) {
        wait_until_told(told);
    }
    Some(ExitCode::SUCCESS)
}

/// Until a helper looks at its process or has ended: a program that begins MPI from then on is seen. Nobody waits long for it.
pub fn wait_until_told(mut told: impl Read + Send + 'static) {
    let (sender, heard) = channel();
    let read = move || {
        let _nobody_waits = sender.send(told.read(&mut [0]).is_ok());
    };
    let _reader = std::thread::Builder::new().spawn(read);
    let _late = heard.recv_timeout(LOOKS_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_user_asked_of_slurm_comes_first() {
        let free = |words: &str, variables: &[(&str, &str)]| {
            let command: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let value = |wanted: &str| variables.iter().find(|(name, _)| *name == wanted).map(|one| one.1.to_owned());
            is_free(&command, &value).is_ok()
        };
        for words in ["srun -n4 ./app", "srun --export=ALL,X=1 ./app", "srun --exclusive --exact ./app"] {
            assert!(free(words, &[]) && free(words, &[(EXPORT, "ALL")]), "{words}");
            assert!(!free(words, &[(PROLOG, "/mine")]) && !free(words, &[(EXPORT, "NONE")]), "{words}");
        }
        for words in [
            "srun --task-prolog=/mine ./app",
            "srun --task-p /mine ./app",
            "srun --export=X ./app",
            "srun --export X ./app",
        ] {
            assert!(!free(words, &[]), "{words}");
        }
        let is = |word: &str| is_srun(&[word.to_owned()]);
        assert!(is("srun") && is("/usr/bin/srun") && !is("mpirun") && !is("./my-srun") && !is_srun(&[]));
    }
}
