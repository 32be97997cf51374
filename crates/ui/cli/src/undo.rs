//! `undo`: taking out what a killed trimtab left, in all ranks of a job or in one process.
//!
//! Next: `trimtab_session::leftover`, which finds and undoes; `trimtab-agent` for jobs on many nodes.

use crate::engine::{Parts, change};
use crate::progress::Terminal;
use crate::{DONE, PARTIAL, output};
use anyhow::bail;
use trimtab_agent::talk::Undone;
use trimtab_agent::{Lead, Ways};
use trimtab_engine::{Event, Found, Listener, Nobody, RANKS_WAIT, Spread, Stage, Target};
use trimtab_session::leftover::{self, Leftover};
use trimtab_track::Job;
use trimtab_track::slurm::SlurmId;
use trimtab_types::{Pid, of_process};

/// `trimtab undo PID` and `trimtab undo --slurm JOB`.
pub fn run(pid: Option<i32>, slurm: Option<SlurmId>, only_process: bool, seccomp_ok: bool) -> anyhow::Result<u8> {
    let parts = Parts::of(None);
    let engine = parts.engine(&Nobody, None);
    let found = match (pid, slurm) {
        (_, Some(id)) => engine.look(Target::Slurm(id))?,
        (Some(pid), None) if only_process => return process(Pid(pid), seccomp_ok),
        (Some(pid), None) => match engine.look(Target::Process(Pid(pid))) {
            Ok(found) => found,
            Err(error) if error.is_no_job() => return process(Pid(pid), seccomp_ok),
            // A job that can't be understood any more may still hold what must go.
            Err(error) => {
                let outcome = process(Pid(pid), seccomp_ok)?;
                eprintln!("trimtab: only process {pid} was looked at: {}", output::chain(&error.into()));
                return Ok(outcome);
            }
        },
        (None, None) => bail!("give a process id, or --slurm JOB"),
    };
    match found {
        Found::Here(job) => here(&job, pid.map(Pid), seccomp_ok),
        Found::Spread(spread) => everywhere(&spread, seccomp_ok),
    }
}

/// All ranks of a job on this machine, and the process that named it.
fn here(job: &Job, named: Option<Pid>, seccomp_ok: bool) -> anyhow::Result<u8> {
    let ranks = job.ranks.iter().map(|rank| (format!("rank {} (process {})", rank.rank, rank.pid), rank.pid));
    let others = named.filter(|pid| job.ranks.iter().all(|rank| rank.pid != *pid));
    let all = ranks.chain(others.map(|pid| (format!("process {pid}"), pid)));
    let (mut undone, mut problems) = (0, Vec::new());
    for (name, pid) in all {
        match undo(pid, seccomp_ok) {
            Ok(None) => {}
            Ok(Some(done)) => {
                undone += 1;
                output::print_text(&format!("{name}: {}", said(&done)))?;
            }
            Err(error) => problems.push(format!("{name}: {}", output::chain(&error))),
        }
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("; "));
    }
    if undone == 0 {
        let ranks = if job.ranks.len() == 1 { "its one rank".into() } else { format!("its {} ranks", job.ranks.len()) };
        let name = named.map_or_else(|| "the job".to_owned(), |pid| format!("the job of process {pid}"));
        output::print_text(&format!("{name} holds nothing of trimtab's: {ranks} were looked at"))?;
        return Ok(PARTIAL);
    }
    Ok(DONE)
}

/// All ranks of a job on many nodes.
fn everywhere(spread: &Spread, seccomp_ok: bool) -> anyhow::Result<u8> {
    let terminal = Terminal::new()?;
    let is_interrupted = || terminal.is_interrupted();
    let ways = Ways::default();
    terminal.hear(&Event::Stage(Stage::gathering(&ways, spread)));
    let mut lead = Lead::to(spread, &ways, ("undo", None), &is_interrupted)?;
    let absent: Vec<String> = lead.absent().into_iter().map(str::to_owned).collect();
    let undone = lead.undo(RANKS_WAIT, seccomp_ok)?;
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
        if let Err(error) = undo(Pid(*pid), false) {
            left.push(of_process(Pid(*pid), &output::chain(&error)));
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
fn process(pid: Pid, seccomp_ok: bool) -> anyhow::Result<u8> {
    match undo(pid, seccomp_ok)? {
        None => {
            output::print_text(&format!("process {pid} holds nothing of trimtab's"))?;
            Ok(PARTIAL)
        }
        Some(done) => {
            output::print_text(&format!("process {pid}: {}", said(&done)))?;
            Ok(DONE)
        }
    }
}

/// Places that were restored in a process, and how.
struct Done {
    patches: usize,
    left_mapped_bytes: u64,
    /// Why, if any are.
    left_because: Option<String>,
    pause_us: f64,
}

fn said(done: &Done) -> String {
    let Done { patches, left_mapped_bytes, left_because, pause_us } = done;
    let because = left_because.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{patches} places restored, {left_mapped_bytes} bytes left mapped{because}, paused {pause_us:.0} us")
}

/// Takes out what is left in a process; `None`: nothing is.
fn undo(pid: Pid, seccomp_ok: bool) -> anyhow::Result<Option<Done>> {
    if seccomp_ok {
        trimtab_os::trust_filters(pid);
    }
    // Memory that another trimtab is just about to map is not left over.
    let _claim = trimtab_session::Claim::of(pid)?;
    let found = leftover::find_also_coming(pid)?;
    let patches = match &found {
        Leftover::None => return Ok(None),
        Leftover::Complete { patches, .. } => *patches,
        Leftover::Unfinished(_) => 0,
    };
    let change = change("undo", &[pid])?;
    let removal = change.around(|| leftover::undo(pid, &found))?;
    if !removal.foreign.is_empty() {
        bail!(
            "{} of {patches} places have been changed since, not by trimtab, and were left as they are",
            removal.foreign.len()
        );
    }
    let (left_mapped_bytes, pause_us) = (removal.left_mapped_bytes, removal.pause_ns_max as f64 / 1e3);
    Ok(Some(Done { patches, left_mapped_bytes, left_because: removal.left_because, pause_us }))
}
