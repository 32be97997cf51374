//! Taking out what an earlier trimtab left in the ranks of a node.
//!
//! A killed trimtab's probes stay in, harmless, until somebody takes them out: the next window or script, or this command.
//! Nothing is taken from a trimtab that still runs.
//!
//! Next: `trimtab_session::leftover`, which finds and undoes.

use crate::log::Log;
use crate::talk::UndoneRank;
use trimtab_engine::{Changed, End};
use trimtab_session::Claim;
use trimtab_session::leftover::{self, Leftover};
use trimtab_track::{Job, RankProcess};
use trimtab_types::{BoxError, one_line};

/// Undoes what is in any rank of `job`; one that can't be is told and keeps nobody else from it.
pub(crate) fn all(job: &Job, command: &str, log: Log) -> Result<Vec<UndoneRank>, BoxError> {
    job.ranks.iter().map(|process| one(job, process, (command, log))).collect()
}

fn one(job: &Job, process: &RankProcess, (command, log): (&str, Log)) -> Result<UndoneRank, BoxError> {
    let (rank, pid) = (process.rank.0, process.pid.0);
    let mut undone = UndoneRank { rank, pid, was_there: false, patches: 0, pause_us_max: 0.0, problem: None };
    // Memory that another trimtab is just about to map is not left over.
    let held = Claim::of(process.pid).and_then(|claim| Ok((claim, leftover::find_also_coming(process.pid)?)));
    let (_claim, found) = match held {
        Ok((_, Leftover::None)) => return Ok(undone),
        Ok((_, Leftover::Complete { monitor, monitor_runs: true, .. })) => {
            let in_use = trimtab_session::Error::InUse { pid: process.pid, monitor };
            (undone.was_there, undone.problem) = (true, Some(one_line(&in_use)));
            return Ok(undone);
        }
        Ok(found) => found,
        Err(error) => {
            undone.problem = Some(one_line(&error));
            return Ok(undone);
        }
    };
    undone.was_there = true;
    let patches = if let Leftover::Complete { patches, .. } = &found { *patches } else { 0 };
    let alone = Job { ranks: vec![process.clone()], ..job.clone() };
    let mut audit = log.change(command, Changed::Ranks(&alone))?;
    audit.permit()?;
    audit.begin()?;
    match leftover::undo(process.pid, &found) {
        Ok(removal) => {
            audit.end(&End::Restored);
            undone.patches = (patches - removal.foreign.len().min(patches)) as u64;
            undone.pause_us_max = removal.pause_ns_max as f64 / 1e3;
            undone.problem = (!removal.foreign.is_empty()).then(|| {
                let count = removal.foreign.len();
                format!(
                    "{count} of {patches} places have been changed since, not by trimtab, and were left as they are"
                )
            });
        }
        Err(error) => {
            let reason = one_line(&error);
            audit.end(&End::Failed { reason: reason.clone() });
            undone.problem = Some(reason);
        }
    }
    Ok(undone)
}
