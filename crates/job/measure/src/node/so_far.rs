//! Communication so far of a node's ranks, read while they record.
//!
//! It is the thread's whose calls the window is about, as in the report: calls that have returned, and the outermost one that
//! has not. A call that returns while it is read may count up to the look twice or not at all, for this look only.
//!
//! Next: `readout`, which reads all there is once nothing changes any more.

use super::header;
use super::observe::main_slot;
use super::selection::COMM;
use super::team::{Member, Team};
use crate::so_far::{CommSoFar, RankShare};
use std::sync::atomic::Ordering::Relaxed;
use trimtab_os::ticks;
use trimtab_stub::layout::{FRAMES_MAX, Frame, Slot, outermost};

/// Of all ranks that have begun; of none, if communication is not measured.
pub(super) fn comm_so_far(team: &Team) -> CommSoFar {
    let is_measured = team.selection.probes.iter().any(|probe| probe.group == COMM);
    let shares = team.members.iter().filter(|_| is_measured).filter_map(rank_share);
    shares.map(CommSoFar::of).fold(CommSoFar::default(), CommSoFar::merged)
}

/// `None`: the rank has not begun, or none of its threads has called anything that is measured.
fn rank_share(member: &Member) -> Option<RankShare> {
    let (first, last) = (header(member).first_ticks.load(Relaxed), header(member).last_ticks.load(Relaxed));
    let until = if last == 0 { ticks() } else { last };
    let slot = main_slot(member.inserted.view())?;
    let window = until.checked_sub(first).filter(|window| first != 0 && *window > 0)?;
    let closed = slot.slot.group_ticks[usize::from(COMM)].load(Relaxed);
    let open = open_call_since(member, slot.slot).map_or(0, |since| until.saturating_sub(since.max(first)));
    let share = ((closed + open) as f64 / window as f64).min(1.0);
    Some(RankShare { rank: member.process.rank.0, share })
}

/// When the outermost call of communication began that has not returned.
fn open_call_since(member: &Member, slot: &Slot) -> Option<u64> {
    let depth = slot.depth.load(Relaxed).min(FRAMES_MAX) as usize;
    let is_comm = |frame: &Frame| {
        let probe = member.prepared.probe(frame.probe.load(Relaxed) as u32);
        probe.is_some_and(|probe| probe.group == COMM)
    };
    let is_outermost = |frame: &&Frame| frame.outermost.load(Relaxed) & outermost::GROUP != 0;
    slot.frames[..depth].iter().filter(is_outermost).find(|frame| is_comm(frame)).map(|frame| frame.ticks.load(Relaxed))
}
