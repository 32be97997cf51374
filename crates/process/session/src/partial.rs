//! Taking one function's probes out while those of others stay.
//!
//! The list of patches in the shared memory stays whole: a place that holds its original bytes already is in order for
//! whoever undoes the rest, also behind a trimtab that was killed. Text goes back in one stop, as in `remove`. Threads that
//! are in the function then leave no probe behind them, so the open calls that are kept of it are forgotten once nobody is in
//! our code; otherwise calls of others would count as made from inside of it for as long as its stack lies below theirs.
//!
//! Next: `remove` takes out all; `trimtab-measure`'s `limits` decides which.

use crate::claim::Claim;
use crate::error::Error;
use crate::insert::Inserted;
use crate::prepared::Prepared;
use crate::remove::leave_springboards;
use crate::serving::{FOUND_AT, HELD_AT};
use crate::threads::{Stacks, anyone_in, stands};
use crate::waiting::rest;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use trimtab_os::{MappingTable, Stopped};
use trimtab_plan::{Holds, PlannedFunction, PlannedSite};
use trimtab_stub::layout::{FRAMES_MAX, Frame, GROUPS_MAX, Slot};
use trimtab_stub::view::View;
use trimtab_types::ProcAddr;
use trimtab_x86::Carrier;

/// Stops tried until nobody is in our code and its open calls can be forgotten.
const TRIES_MAX: usize = 8;

/// One function's probes are out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOut {
    /// How long the process was held for it, nanoseconds.
    pub pause_ns: u64,
    /// True if its open calls were forgotten: else what is called at the same stack depth may count as made from inside of it.
    pub are_calls_forgotten: bool,
}

impl Inserted {
    /// Takes the probes of one function out, by its number in [`Probe::function`](trimtab_stub::layout::Probe); `None` where
    /// its patches can't be told from those of others, or serve safety too.
    ///
    /// # Errors
    /// As [`Inserted::remove`]; nothing is changed then, or only bytes of this function.
    pub fn take_out(&mut self, prepared: &Prepared, function: u32) -> Result<Option<TakenOut>, Error> {
        let Some(addresses) = patches_of(prepared, self, function) else { return Ok(None) };
        let _claim = Claim::of(self.pid())?;
        let (_, writes) = self.target.patches.parted(&addresses);
        let maps = MappingTable::of(self.pid())?;
        let mut stopped = Stopped::stop_to_restore(self.pid())?;
        let stacks = Stacks::read(&stopped, &maps);
        leave_springboards(&mut stopped, &stacks, &self.target, &writes)?;
        writes.restore(&stopped)?;
        let mut taken = TakenOut { pause_ns: stopped.resume(), are_calls_forgotten: false };
        if prepared.probes().filter(|probe| probe.function == function).all(|probe| probe.is_simple()) {
            self.forget_simple(function);
            taken.are_calls_forgotten = true;
        }
        for attempt in 0..TRIES_MAX {
            if taken.are_calls_forgotten {
                break;
            }
            std::thread::sleep(rest(attempt));
            let maps = MappingTable::of(self.pid())?;
            let stopped = Stopped::stop(self.pid())?;
            let stacks = Stacks::read(&stopped, &maps);
            let is_inside =
                anyone_in(&stands(&stopped, &stacks, self.target.gadgets.signal_return), &self.target.arenas);
            taken.are_calls_forgotten = !is_inside && forget_calls(self.view(), prepared, function);
            taken.pause_ns += stopped.resume();
        }
        self.pause_taking_ns += taken.pause_ns;
        Ok(Some(taken))
    }

    /// A simple function's open call is kept beside its numbers, and nothing else depends on it.
    fn forget_simple(&self, function: u32) {
        self.view().slots().for_each(|slot| slot.stat(u64::from(function)).open_stack.store(0, Relaxed));
    }
}

/// Addresses of a function's patches, if nothing else lies in or under them.
fn patches_of(prepared: &Prepared, inserted: &Inserted, function: u32) -> Option<Vec<u64>> {
    let is_its =
        |planned: &&PlannedFunction| prepared.probe(planned.probe).is_some_and(|probe| probe.function == function);
    let (its, others): (Vec<_>, Vec<_>) = prepared.functions.iter().partition(is_its);
    let serves = |planned: &&PlannedFunction| {
        planned.holds != Holds::No || planned.finds_frames || planned.name == HELD_AT || planned.name == FOUND_AT
    };
    let names: BTreeSet<&str> = its.iter().map(|planned| planned.name.as_str()).collect();
    if its.is_empty() || its.iter().any(serves) || others.iter().any(|other| names.contains(other.name.as_str())) {
        return None;
    }
    let covered: Vec<Range<ProcAddr>> = its.iter().flat_map(|planned| &planned.sites).flat_map(covered_at).collect();
    let (own, foreign): (Vec<_>, Vec<_>) =
        inserted.patch_places.iter().partition(|(_, name)| names.contains(name.as_str()));
    let is_in = |address: u64| covered.iter().any(|range| range.contains(&ProcAddr(address)));
    // A springboard of another function may lie in code that this one's carrier has freed.
    let is_shared = foreign.iter().any(|(range, _)| is_in(range.start) || is_in(range.end - 1));
    let others_cover: Vec<Range<ProcAddr>> =
        others.iter().flat_map(|other| &other.sites).flat_map(covered_at).collect();
    let lies_in_others =
        own.iter().any(|(range, _)| others_cover.iter().any(|other| other.contains(&ProcAddr(range.start))));
    (!is_shared && !lies_in_others && !own.is_empty()).then(|| own.iter().map(|(range, _)| range.start).collect())
}

fn covered_at(site: &PlannedSite) -> Vec<Range<ProcAddr>> {
    let carrier = site.site.carrier.as_ref().map(Carrier::covered);
    [Some(site.site.covered()), carrier].into_iter().flatten().collect()
}

/// Forgets the open calls of a function; false if a thread is in the middle of noting one. Its threads are held.
fn forget_calls(view: View<'_>, prepared: &Prepared, function: u32) -> bool {
    if view.slots().any(|slot| slot.slot.busy.load(Acquire) != 0) {
        return false;
    }
    for slot in view.slots() {
        forget_frames(slot.slot, prepared, function);
        let stat = slot.stat(u64::from(function));
        stat.open_stack.store(0, Relaxed);
        stat.depth.store(0, Relaxed);
    }
    true
}

/// Takes a function's frames out from between the others, and corrects how deep the thread is in its group.
fn forget_frames(slot: &Slot, prepared: &Prepared, function: u32) {
    let depth = slot.depth.load(Relaxed).min(FRAMES_MAX) as usize;
    let mut kept = 0;
    for index in 0..depth {
        let frame = &slot.frames[index];
        let probe = prepared.probe(frame.probe.load(Relaxed) as u32);
        if let Some(probe) = probe.filter(|probe| probe.function == function) {
            let group = &slot.group_depth[usize::from(probe.group) & (GROUPS_MAX - 1)];
            group.store(group.load(Relaxed).saturating_sub(1), Relaxed);
            continue;
        }
        if kept != index {
            copy(frame, &slot.frames[kept]);
        }
        kept += 1;
    }
    slot.depth.store(kept as u64, Release);
}

fn copy(from: &Frame, to: &Frame) {
    for (from, to) in frame_words(from).into_iter().zip(frame_words(to)) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

fn frame_words(frame: &Frame) -> Vec<&AtomicU64> {
    let singles = [
        &frame.stack,
        &frame.site,
        &frame.ticks,
        &frame.probe,
        &frame.ring,
        &frame.detail,
        &frame.outermost,
        &frame.next_plus_one,
        &frame.handed_over,
        &frame.path,
        &frame.path_sum,
        &frame.inner,
        &frame.body,
    ];
    singles.into_iter().chain(&frame.kept).collect()
}
