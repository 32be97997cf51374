//! How far the ranks of a node are in the loop whose passes are iterations, if they agree.
//!
//! Next: `trimtab-session`'s `LoopWatch`, which reads it; `job::how_far`, which compares nodes.

use super::team::Member;
use super::{Window, header};
use crate::reason::NoEnds;
use crate::request::LoopEnds;
use trimtab_os::Memory;
use trimtab_session::{LoopProgress, LoopWatch, NoReading};

/// Has a rank's loop read how far it is, from its next pass as the marker on.
pub(super) fn begin(member: &Member, probe: u32) {
    let watch = member.prepared.watches.get(&probe).and_then(|watch| watch.as_ref().ok());
    LoopWatch::begin(watch, header(member));
}

impl Window<'_> {
    /// Where the loop began and will end on all ranks of the node.
    pub(super) fn how_far(&mut self, function: u32) -> Result<LoopEnds, NoEnds> {
        let members = self.team.members.iter().zip(&self.offsets);
        LoopEnds::agreed(members.map(|(member, offset)| ends_on(member, function, *offset)))
    }
}

impl LoopEnds {
    /// The ends that all say, of ranks or of nodes.
    pub(crate) fn agreed(all: impl Iterator<Item = Result<LoopEnds, NoEnds>>) -> Result<LoopEnds, NoEnds> {
        let mut agreed: Option<LoopEnds> = None;
        for ends in all {
            let ends = ends?;
            if *agreed.get_or_insert(ends) != ends {
                return Err(NoEnds::Disagree);
            }
        }
        agreed.ok_or(NoEnds::NotPassed)
    }
}

/// The same, if the code shows that they stay.
pub(super) fn sure_ends_on(member: &Member, function: u32, offset: i64) -> Option<LoopEnds> {
    ends_on(member, function, offset).ok().filter(|ends| ends.is_sure)
}

/// Where a rank's loop began and will end, on the count that is its own and an offset.
pub(super) fn ends_on(member: &Member, function: u32, offset: i64) -> Result<LoopEnds, NoEnds> {
    Ok(ends_of(progress(member, function)?, offset))
}

fn progress(member: &Member, function: u32) -> Result<LoopProgress, NoEnds> {
    let reading = |reason: &NoReading| NoEnds::Reading { reason: reason.to_string() };
    let probe = member.prepared.probes().position(|probe| probe.function == function);
    let watch = probe.and_then(|probe| member.prepared.watches.get(&(probe as u32)));
    let watch = watch.ok_or(NoEnds::NotCounted)?.as_ref().map_err(reading)?;
    let memory = Memory::open(member.process.pid).ok();
    watch.progress(header(member), memory.as_ref()).map_err(|reason| reading(&reason))
}

fn ends_of(progress: LoopProgress, offset: i64) -> LoopEnds {
    let LoopProgress { pass, done, remaining, may_end_before, is_sure } = progress;
    let now = (pass as i64).wrapping_sub(1).wrapping_add(offset);
    let first = done.and_then(|done| now.checked_sub_unsigned(done));
    let end = remaining.and_then(|remaining| now.checked_add_unsigned(remaining));
    LoopEnds { first, end, may_end_before, is_sure }
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
        };
        let expected = LoopEnds { first: Some(1000), end: Some(1100), may_end_before: false, is_sure: true };
        assert_eq!(ends_of(of(11, 40), 1030), expected);
        assert_eq!(ends_of(of(21, 43), 1023), expected);
    }
}
