//! How far the ranks of a node are in the loop whose passes are iterations, if they agree.
//!
//! Next: `trimtab-session`'s `LoopWatch`, which reads it; `job::how_far`, which compares nodes.

use super::team::{Member, Team};
use super::{Window, header};
use crate::reason::NoEnds;
use crate::request::{LoopEnds, SeenEnd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use trimtab_os::{Memory, monotonic_ns};
use trimtab_session::{LoopProgress, LoopWatch, NoReading, TestLooks};

/// Looks at the tests of ranks' loops come this long after each other at least.
const LOOK_EVERY_NS: u64 = 2_000_000;

/// and this many times as long as they take: a node may have many ranks. The first one, which finds its way, does not count.
const LOOK_REST: u64 = 20;

/// Of a window that was too short for looks, so many follow behind it at most.
const LATE_LOOKS_MAX: u32 = 6;

/// Looks at the tests of the loops that mark iterations, by rank.
#[derive(Debug, Default)]
pub(super) struct Looks {
    of_ranks: Vec<(u32, TestLooks)>,
    /// Before this no look is due.
    next_ns: u64,
    /// The last one took so long.
    took_ns: u64,
}

impl Looks {
    /// Looks at all ranks, unless that was just done.
    pub(super) fn look(&mut self, team: &Team) {
        let begun_ns = monotonic_ns();
        if begun_ns < self.next_ns {
            return;
        }
        self.of_ranks.resize_with(team.members.len(), Default::default);
        for (member, (probe, looks)) in team.members.iter().zip(&mut self.of_ranks) {
            let marker = header(member).marker_probe.load(Relaxed);
            if *probe != marker {
                (*probe, *looks) = (marker, TestLooks::default());
            }
            if let Some(watch) = watch_of(member, marker).filter(|watch| watch.is_looked_at()) {
                watch.look(header(member), Memory::open(member.process.pid).ok().as_ref(), looks);
            }
        }
        let now_ns = monotonic_ns();
        let took_ns = now_ns - begun_ns;
        self.next_ns = now_ns + LOOK_EVERY_NS.max(LOOK_REST * took_ns.min(self.took_ns));
        self.took_ns = took_ns;
    }

    /// Looks a few times more where a loop that goes on was hardly looked at.
    fn look_longer(&mut self, team: &Team) {
        for _ in 0..LATE_LOOKS_MAX {
            self.look(team);
            let tested = |(member, (probe, _)): &(&Member, &(u32, TestLooks))| {
                watch_of(member, *probe).is_some_and(LoopWatch::is_looked_at)
            };
            let mut ranks = team.members.iter().zip(&self.of_ranks).filter(tested);
            if !ranks.any(|(_, (_, looks))| looks.are_few()) {
                break;
            }
            std::thread::sleep(Duration::from_nanos(LOOK_EVERY_NS));
        }
    }

    fn of(&self, rank: usize) -> &TestLooks {
        const NONE: &TestLooks = &TestLooks::none();
        self.of_ranks.get(rank).map_or(NONE, |(_, looks)| looks)
    }
}

fn watch_of(member: &Member, probe: u32) -> Option<&LoopWatch> {
    member.prepared.watches.get(&probe)?.as_ref().ok()
}

/// Has a rank's loop read how far it is, from its next pass as the marker on.
pub(super) fn begin(member: &Member, probe: u32) {
    LoopWatch::begin(watch_of(member, probe), header(member));
}

impl Window<'_> {
    /// Where the loop began and will end on all ranks of the node.
    pub(super) fn how_far(&mut self, function: u32) -> Result<LoopEnds, NoEnds> {
        self.looks.look_longer(&self.team);
        let looks = &self.looks;
        let members = self.team.members.iter().zip(&self.offsets).enumerate();
        LoopEnds::agreed(members.map(|(rank, (member, offset))| ends_on((member, looks.of(rank)), function, *offset)))
    }
}

impl LoopEnds {
    /// The ends that all say, of ranks or of nodes.
    pub(crate) fn agreed(all: impl Iterator<Item = Result<LoopEnds, NoEnds>>) -> Result<LoopEnds, NoEnds> {
        let mut agreed: Option<LoopEnds> = None;
        for ends in all {
            let ends = ends?;
            let known = agreed.get_or_insert(ends);
            if *known != (LoopEnds { seen: known.seen, ..ends }) {
                return Err(NoEnds::Disagree);
            }
            // Ranks are looked at one after the other, and are up to a pass off each.
            known.seen = known.seen.zip(ends.seen).map(|(one, other)| one.both(other));
        }
        agreed.ok_or(NoEnds::NotPassed)
    }
}

/// The same, if the code shows that they stay.
pub(super) fn sure_ends_on(member: &Member, function: u32, offset: i64) -> Option<LoopEnds> {
    ends_on((member, &TestLooks::none()), function, offset).ok().filter(|ends| ends.is_sure)
}

/// Where a rank's loop began and will end, on the count that is its own and an offset.
fn ends_on(member: (&Member, &TestLooks), function: u32, offset: i64) -> Result<LoopEnds, NoEnds> {
    Ok(ends_of(progress(member, function)?, offset))
}

fn progress((member, looks): (&Member, &TestLooks), function: u32) -> Result<LoopProgress, NoEnds> {
    let reading = |reason: &NoReading| NoEnds::Reading { reason: reason.to_string() };
    let probe = member.prepared.probes().position(|probe| probe.function == function);
    let watch = probe.and_then(|probe| member.prepared.watches.get(&(probe as u32)));
    let watch = watch.ok_or(NoEnds::NotCounted)?.as_ref().map_err(reading)?;
    let memory = Memory::open(member.process.pid).ok();
    watch.progress(header(member), memory.as_ref(), looks).map_err(|reason| reading(&reason))
}

fn ends_of(progress: LoopProgress, offset: i64) -> LoopEnds {
    let LoopProgress { pass, done, remaining, may_end_before, is_sure, seen } = progress;
    let count_of = |pass: u64| (pass as i64).wrapping_sub(1).wrapping_add(offset);
    let now = count_of(pass);
    let first = done.and_then(|done| now.checked_sub_unsigned(done));
    let end = remaining.and_then(|remaining| now.checked_add_unsigned(remaining));
    let seen = seen.and_then(|(pass, left)| {
        let end = |left: u64| count_of(pass).checked_add_unsigned(left);
        let (expected, least, most) = (end(left.expected)?, end(left.least)?, end(left.most)?);
        Some(SeenEnd { expected, least, most, is_at_most: left.is_at_most })
    });
    LoopEnds { first, end, may_end_before, is_sure, seen }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_ranks_meet_in_the_jobs() {
        let of = |pass, done| LoopProgress {
            pass,
            done: Some(done),
            remaining: Some(100 - done),
            may_end_before: false,
            is_sure: true,
            seen: None,
        };
        let expected =
            LoopEnds { first: Some(1000), end: Some(1100), may_end_before: false, is_sure: true, seen: None };
        assert_eq!(ends_of(of(11, 40), 1030), expected);
        assert_eq!(ends_of(of(21, 43), 1023), expected);
    }
}
