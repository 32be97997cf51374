//! A whole run ends on each rank where it comes to `MPI_Finalize`: what the library does there is none of the program's
//! communication, and ranks come to it at different times.
//!
//! The function counts iterations of which the first ends the recording, so the rank ends it itself, to the tick, before
//! the call is recorded.
//!
//! Next: `early`, which begins such a recording and sees its end.

use super::team::Team;
use std::sync::atomic::Ordering::{Relaxed, Release};
use trimtab_stub::layout::role;

const NAME: &str = "MPI_Finalize";

/// Has ranks end their recording there. They do not record yet.
pub(super) fn end_there(team: &mut Team) {
    let function = team.selection.functions.iter().position(|function| function.name == NAME);
    let mut without = Vec::new();
    for member in &team.members {
        let is_its = |probe: &trimtab_stub::layout::Probe| {
            Some(probe.function as usize) == function && probe.role == role::FUNCTION
        };
        let Some(probe) = member.prepared.probes().position(is_its) else {
            without.push(member.process.rank);
            continue;
        };
        let header = member.inserted.view().header();
        header.marker_site.store(0, Relaxed);
        header.marker_every.store(1, Relaxed);
        // The pass that finds the iteration of the end: the next one.
        header.passes.store(1, Relaxed);
        header.end.store(1, Relaxed);
        header.marker_probe.store(probe as u32, Release);
    }
    let said = |rank| format!("rank {rank}: {NAME} can't be seen, so its window holds that call too");
    team.news.extend(without.into_iter().map(said));
}
