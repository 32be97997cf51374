//! Passes of a loop as its counter tells them, where one has more calls than a rank remembers.
//!
//! Then the ring of calls shows no pass, or one and never the next. The counter is looked at several times in a pass
//! instead, and with it the time of the latest pass: a few passes that follow each other say which ranks' are the same,
//! by time alone.
//!
//! Next: `passes`, which tells these in place of calls.

use super::how_far;
use super::observe::main_slot;
use super::passes::COUNT_BIAS;
use super::team::Member;
use super::{Window, header};
use crate::excerpt::Excerpt;
use crate::request::{Passed, RankPasses};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};
use trimtab_window::{CallEvent, PEER_NONE};

/// Latest passes that are kept of each rank, and new ones that are waited for.
const KEPT_MAX: usize = 16;
const NEW_MIN: usize = 9;
/// Looks in a pass, bounds of the time between two of them, and the longest time of all of them together.
const LOOKS_PER_PASS: u32 = 8;
const LOOK_MIN: Duration = Duration::from_micros(200);
const LOOK_MAX: Duration = Duration::from_millis(50);
const LOOKING_MAX: Duration = Duration::from_secs(1);

/// A rank's latest passes: each follows the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct CountedPasses {
    /// The counter and the time of a pass.
    passes: Vec<(u64, u64)>,
    /// Seen once: the time may still be that of the pass before or after.
    unsure: Option<(u64, u64)>,
}

impl CountedPasses {
    /// Notes what was read; it counts once it is read again. True if it does from now on.
    fn note(&mut self, read: (u64, u64)) -> bool {
        let last = self.passes.last().map(|pass| pass.0);
        if last == Some(read.0) || self.unsure.replace(read) != Some(read) {
            return false;
        }
        if last.is_some_and(|last| last + 1 != read.0) {
            self.passes.clear();
        }
        self.passes.push(read);
        let surplus = self.passes.len().saturating_sub(KEPT_MAX);
        self.passes.drain(..surplus);
        true
    }

    fn period_ticks(&self) -> f64 {
        match (self.passes.first(), self.passes.last()) {
            (Some(first), Some(last)) if last.0 > first.0 => {
                last.1.saturating_sub(first.1) as f64 / (last.0 - first.0) as f64
            }
            _ => 0.0,
        }
    }
}

impl Window<'_> {
    /// The ranks' passes by their counters.
    pub(super) fn passes_by_counter(&mut self, fresh: bool) -> Passed {
        let is_alive = self.observe();
        if fresh {
            self.watch_counters();
        }
        self.phases = vec![0; self.team.members.len()];
        self.note_owners();
        let ranks = self.team.members.iter().zip(&self.wanted).zip(&self.counted_passes);
        let told = ranks.map(|((member, wanted), counted)| {
            let first = counted.passes.first().map_or(0, |pass| pass.0);
            let events: Vec<CallEvent> =
                counted.passes.iter().map(|pass| mark(wanted.symbol.function, pass.1)).collect();
            RankPasses {
                rank: member.process.rank.0,
                counted: events.len() as u64,
                is_silent: events.is_empty(),
                first_count: (COUNT_BIAS + first).saturating_sub(1),
                period_ticks: counted.period_ticks(),
                is_common: wanted.is_common,
                ends: how_far::sure_ends_on(member, wanted.symbol.function, COUNT_BIAS as i64),
                calls: Excerpt { marks: (0..events.len()).collect(), events },
            }
        });
        Passed { is_alive, ranks: told.collect() }
    }

    /// Looks at the counters until each has told some passes, or for a while: all nodes look at the same time.
    fn watch_counters(&mut self) {
        self.counted_passes.resize(self.team.members.len(), CountedPasses::default());
        let until = Instant::now() + LOOKING_MAX;
        let mut new = vec![0; self.counted_passes.len()];
        while Instant::now() < until && new.iter().any(|new| *new < NEW_MIN) {
            let ranks = self.team.members.iter().zip(&self.wanted).zip(&mut self.counted_passes);
            for (((member, wanted), counted), new) in ranks.zip(&mut new) {
                let read = latest_pass(member, wanted.symbol.function);
                *new += usize::from(read.is_some_and(|read| counted.note(read)));
            }
            let shortest = self.counted_passes.iter().map(CountedPasses::period_ticks).filter(|ticks| *ticks > 0.0);
            let shortest_s = shortest.fold(f64::INFINITY, f64::min) / self.clock.ticks_per_second();
            let pass = Duration::try_from_secs_f64(shortest_s).unwrap_or(Duration::ZERO);
            std::thread::sleep((pass / LOOKS_PER_PASS).clamp(LOOK_MIN, LOOK_MAX));
        }
    }
}

/// A rank's counter and the time of its latest pass; `None` before the first.
fn latest_pass(member: &Member, function: u32) -> Option<(u64, u64)> {
    let view = member.inserted.view();
    let slot = main_slot(view)?;
    let count = header(member).iteration.load(Acquire);
    let ticks = slot.stat(u64::from(function)).last_pass_ticks.load(Acquire);
    let is_same = header(member).iteration.load(Relaxed) == count;
    (is_same && count > 0 && ticks > 0).then_some((count, ticks))
}

/// A pass among a rank's calls.
fn mark(function: u32, ticks: u64) -> CallEvent {
    CallEvent {
        function,
        site: 0,
        enter_ticks: ticks,
        exit_ticks: ticks,
        peer: PEER_NONE,
        source: PEER_NONE,
        is_send: false,
        is_receive: false,
        completes: false,
        ends_posted: false,
        completed_ticks: 0,
        synchronising: false,
        comm: 0,
        bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_kept_while_each_follows_the_one_before() {
        let mut counted = CountedPasses::default();
        let mut note = |reads: &[(u64, u64)]| {
            reads.iter().for_each(|read| {
                counted.note(*read);
            });
            (counted.passes.clone(), counted.period_ticks())
        };
        assert_eq!(note(&[(3, 30), (3, 40), (4, 40), (4, 50), (5, 50), (5, 50)]), (vec![(5, 50)], 0.0), "read once");
        assert_eq!(note(&[(6, 60), (6, 60), (6, 60), (7, 72), (7, 72)]), (vec![(5, 50), (6, 60), (7, 72)], 11.0));
        assert_eq!(note(&[(9, 92), (9, 92)]), (vec![(9, 92)], 0.0), "one is missing");
        let many: Vec<(u64, u64)> = (10..60).flat_map(|count| [(count, 10 * count); 2]).collect();
        assert_eq!(note(&many).0.len(), KEPT_MAX);
    }
}
