//! `undo`: taking out what a killed trimtab left, in a process or in all ranks of a job of Slurm.
//!
//! Next: `trimtab_session::leftover`, which finds and undoes; `cluster` for jobs on many nodes.

use crate::audited::Change;
use crate::found::{Found, job_of, slurm_job};
use crate::progress::Terminal;
use crate::spread::{Launched, Spread};
use crate::{DONE, PARTIAL, cluster, output};
use anyhow::bail;
use trimtab_agent::talk::Undone;
use trimtab_session::leftover::{self, Leftover};
use trimtab_track::slurm::SlurmId;
use trimtab_track::{Job, ProcFs, SlurmHandle, slurm_handle};
use trimtab_types::Pid;

/// `trimtab undo PID` and `trimtab undo --slurm JOB`.
pub fn run(pid: Option<i32>, slurm: Option<SlurmId>) -> anyhow::Result<u8> {
    let found = match (pid, slurm) {
        (_, Some(id)) => slurm_job(id, false)?,
        (Some(pid), None) => match slurm_handle(&ProcFs::new(), Pid(pid)) {
            // Of srun nothing is ever patched: its ranks are meant.
            Ok(Some(SlurmHandle::Srun(srun))) if srun == Pid(pid) => job_of(Pid(pid))?,
            _ => match Launched::of(Pid(pid))?.filter(|launched| launched.launcher() == Pid(pid)) {
                // The same of a launcher that went to other machines.
                Some(_) => job_of(Pid(pid))?,
                None => return process(pid),
            },
        },
        (None, None) => bail!("give a process id, or --slurm JOB"),
    };
    match found {
        Found::Here(job) => here(&job),
        Found::Spread(spread) => everywhere(&spread),
    }
}

fn here(job: &Job) -> anyhow::Result<u8> {
    let codes = job.ranks.iter().map(|rank| process(rank.pid.0)).collect::<anyhow::Result<Vec<u8>>>()?;
    Ok(codes.into_iter().min().unwrap_or(PARTIAL))
}

/// All ranks of a job on many nodes.
fn everywhere(spread: &Spread) -> anyhow::Result<u8> {
    let terminal = Terminal::new()?;
    let is_interrupted = || terminal.is_interrupted();
    let mut lead = cluster::lead(spread, &spread.starter(None)?, &terminal, "undo", &is_interrupted)?;
    let absent: Vec<String> = lead.absent().into_iter().map(str::to_owned).collect();
    let undone = lead.undo(cluster::RANKS_WAIT)?;
    drop(lead);
    terminal.finish();
    let mut problems: Vec<String> = absent.iter().map(|node| format!("no agent came on {node}")).collect();
    let (mut ranks, mut places) = (0, 0);
    for (host, all) in &undone {
        let all = all.as_ref().map_err(|reason| problems.push(format!("on {host}: {reason}"))).ok();
        for one in all.into_iter().flatten().filter(|one| one.was_there) {
            (ranks, places) = (ranks + 1, places + one.patches);
            output::print_text(&line(host, one))?;
        }
        let rank_problem = |one: &Undone| Some(format!("rank {} on {host}: {}", one.rank, one.problem.as_ref()?));
        problems.extend(all.into_iter().flatten().filter_map(rank_problem));
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("; "));
    }
    let text = match ranks {
        0 => format!("no rank of {} holds anything of trimtab's", spread.name()),
        _ => format!("{}: {places} places restored in {ranks} ranks", spread.name()),
    };
    output::print_text(&text)?;
    Ok(if ranks == 0 { PARTIAL } else { DONE })
}

fn line(host: &str, one: &Undone) -> String {
    let Undone { rank, pid, patches, pause_us_max, .. } = one;
    format!("rank {rank} (process {pid} on {host}): {patches} places restored, paused {pause_us_max:.0} us")
}

/// After this program ran out of memory or aborted: takes out what it had put into these processes.
pub fn last_act(why: &str, pids: &[i32]) -> anyhow::Result<u8> {
    let mut left = Vec::new();
    for pid in pids {
        if let Err(error) = process(*pid) {
            left.push(format!("process {pid}: {}", output::chain(&error)));
        }
    }
    let lost = match why {
        "memory" => "trimtab ran out of memory and lost its results",
        _ => "trimtab failed, as said above, and lost its results",
    };
    let next = "if it lacked memory, give it more (`ulimit -v`), or measure fewer functions, iterations or records";
    if left.is_empty() {
        bail!("{lost}; it has taken out all that it had put into the program, which runs on; {next}");
    }
    bail!("{lost}, and could not take everything out ({}); `trimtab undo PID` does; {next}", left.join("; "))
}

/// One process.
fn process(pid: i32) -> anyhow::Result<u8> {
    // What another trimtab is just about to map is not left over.
    let _claim = trimtab_session::Claim::of(Pid(pid))?;
    let found = leftover::find_also_coming(Pid(pid))?;
    let patches = match &found {
        Leftover::None => {
            output::print_text(&format!("process {pid} holds nothing of trimtab's"))?;
            return Ok(PARTIAL);
        }
        Leftover::Complete { patches, .. } => *patches,
        Leftover::Unfinished(_) => 0,
    };
    let change = Change::of_processes("undo", std::iter::once(Pid(pid)))?;
    let removal = change.around(|| leftover::undo(Pid(pid), &found))?;
    if !removal.foreign.is_empty() {
        bail!(
            "{} of {patches} places were changed by another tool meanwhile and were left as they are",
            removal.foreign.len()
        );
    }
    let left = removal.left_mapped_bytes;
    output::print_text(&format!(
        "process {pid}: {patches} places restored, {left} bytes left mapped, paused {:.0} us",
        removal.pause_ns_max as f64 / 1e3
    ))?;
    Ok(DONE)
}
