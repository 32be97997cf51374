//! `undo`: taking out what a killed trimtab left, in all ranks of a job or in one process.
//!
//! Next: `trimtab-engine`'s `undo`, which does it.

use crate::engine::Parts;
use crate::exit_code::{DONE, PARTIAL};
use crate::output;
use crate::progress::Terminal;
use anyhow::bail;
use trimtab_engine::{Engine, Found, Listener, LookedAt, Nobody, Removed, SlurmId, Target};
use trimtab_engine::{Undone, UndoneAt, UndoneRank};
use trimtab_types::{Pid, of_process, one_line};

/// `trimtab undo PID` and `trimtab undo --slurm JOB`.
pub fn run(pid: Option<i32>, slurm: Option<SlurmId>, only_process: bool, seccomp_ok: bool) -> anyhow::Result<u8> {
    let parts = Parts::of(None);
    let engine = parts.engine(&Nobody, None);
    let pid = pid.map(Pid);
    let found = match (pid, slurm) {
        (_, Some(id)) => engine.look(Target::Slurm(id))?,
        (Some(pid), None) if only_process => return process(&engine, pid, seccomp_ok),
        (Some(pid), None) => match engine.look(Target::Process(pid)) {
            Ok(found) => found,
            Err(error) if error.is_no_job() => return process(&engine, pid, seccomp_ok),
            // A job that can't be understood any more may still hold what must go.
            Err(error) => {
                let outcome = process(&engine, pid, seccomp_ok)?;
                eprintln!("trimtab: only process {pid} was looked at: {}", output::chain(&error.into()));
                return Ok(outcome);
            }
        },
        (None, None) => bail!("give a process id, or --slurm JOB"),
    };
    let terminal;
    let (listener, name): (&dyn Listener, String) = match &found {
        Found::Here(_) => {
            (&Nobody, pid.map_or_else(|| "the job".to_owned(), |pid| format!("the job of process {pid}")))
        }
        Found::Spread(spread) => {
            terminal = Terminal::new()?;
            (&terminal, spread.name())
        }
    };
    match parts.engine(listener, None).undo(&found, pid, seccomp_ok)? {
        Undone::Here(looked) => here(&looked, &name),
        Undone::Spread { absent, nodes } => everywhere(&absent, &nodes, &name),
    }
}

/// All ranks of a job on this machine, and the process that named it.
fn here(looked: &[LookedAt], job: &str) -> anyhow::Result<u8> {
    let (mut undone, mut problems) = (0, Vec::new());
    for LookedAt { rank, pid, removed } in looked {
        let name = rank.map_or_else(|| format!("process {pid}"), |rank| format!("rank {rank} (process {pid})"));
        match removed {
            Ok(None) => {}
            Ok(Some(removed)) => {
                undone += 1;
                output::print_text(&format!("{name}: {}", said(removed)))?;
            }
            Err(error) => problems.push(format!("{name}: {}", one_line(error))),
        }
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("; "));
    }
    if undone == 0 {
        let ranks = looked.iter().filter(|one| one.rank.is_some()).count();
        let ranks = if ranks == 1 { "its one rank".into() } else { format!("its {ranks} ranks") };
        output::print_text(&format!("{job} holds nothing of trimtab's: {ranks} were looked at"))?;
        return Ok(PARTIAL);
    }
    Ok(DONE)
}

/// All ranks of a job on many nodes.
fn everywhere(absent: &[String], nodes: &[UndoneAt], job: &str) -> anyhow::Result<u8> {
    let mut problems: Vec<String> = absent.iter().map(|node| format!("no agent came on {node}")).collect();
    let (mut ranks, mut places) = (0, 0);
    for (host, all) in nodes {
        let all = all.as_ref().map_err(|reason| problems.push(format!("on {host}: {reason}"))).ok();
        for one in all.into_iter().flatten().filter(|one| one.was_there) {
            (ranks, places) = (ranks + 1, places + one.patches);
            output::print_text(&line(host, one))?;
        }
        let rank_problem = |one: &UndoneRank| Some(format!("rank {} on {host}: {}", one.rank, one.problem.as_ref()?));
        problems.extend(all.into_iter().flatten().filter_map(rank_problem));
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("; "));
    }
    let text = match ranks {
        0 => format!("no rank of {job} holds anything of trimtab's"),
        _ => format!("{job}: {places} places restored in {ranks} ranks"),
    };
    output::print_text(&text)?;
    Ok(if ranks == 0 { PARTIAL } else { DONE })
}

fn line(host: &str, one: &UndoneRank) -> String {
    let UndoneRank { rank, pid, patches, pause_us_max, .. } = one;
    format!("rank {rank} (process {pid} on {host}): {patches} places restored, paused {pause_us_max:.0} us")
}

/// After this program ran out of memory or aborted: takes out what it had put into these processes.
pub fn last_act(why: &str, pids: &[i32]) -> anyhow::Result<u8> {
    let parts = Parts::of(None);
    let engine = parts.engine(&Nobody, None);
    let mut left = Vec::new();
    for pid in pids {
        if let Err(error) = engine.undo_process(Pid(*pid), false) {
            left.push(of_process(Pid(*pid), &output::chain(&error.into())));
        }
    }
    let lost = match why {
        "memory" => "ran out of memory and lost its results",
        _ => "failed, as said above, and lost its results",
    };
    let next = "if it lacked memory, give it more (`ulimit -v`), or measure fewer functions, iterations or records";
    if left.is_empty() {
        bail!("{lost}; it has taken out all that it had put into the program, which runs on; {next}");
    }
    bail!("{lost}, and could not take everything out ({}); `trimtab undo PID` does; {next}", left.join("; "))
}

/// One process, whatever job it is of.
fn process(engine: &Engine<'_>, pid: Pid, seccomp_ok: bool) -> anyhow::Result<u8> {
    match engine.undo_process(pid, seccomp_ok)? {
        None => {
            output::print_text(&format!("process {pid} holds nothing of trimtab's"))?;
            Ok(PARTIAL)
        }
        Some(removed) => {
            output::print_text(&format!("process {pid}: {}", said(&removed)))?;
            Ok(DONE)
        }
    }
}

fn said(removed: &Removed) -> String {
    let Removed { patches, left_mapped_bytes, left_because, pause_us } = removed;
    let because = left_because.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{patches} places restored, {left_mapped_bytes} bytes left mapped{because}, paused {pause_us:.0} us")
}
