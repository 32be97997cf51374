//! Recording by time while the main loop is still looked for.
//!
//! A program may end, or show no loop at all, while it is observed. Its calls until then would be lost if recording
//! waited for a marker. So it is recorded by time from early on: forgotten as soon as a marker is agreed on, else the
//! window itself.
//!
//! Next: `job::recording`, which goes on with it or forgets it.

use super::so_far::comm_so_far;
use super::team::{Member, Team};
use super::usage;
use crate::request;
use crate::so_far::CommSoFar;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};
use trimtab_os::{monotonic_ns, ticks};
use trimtab_stub::layout::{Probe, USER_GROUP, role, state};

/// Observation from which on it is recorded: most loops are found before, and then nothing has to be forgotten.
const EARLY_SECONDS: f64 = 0.2;
/// The same where functions are measured that the user named: while nothing is recorded nobody knows what they cost.
const EARLY_NAMED_SECONDS: f64 = 0.01;
/// Time in which every running thread has seen a changed state, and longest wait for one that is kept from running inside
/// of our routine.
const SEEN: Duration = Duration::from_millis(2);
const INSIDE_MAX: Duration = Duration::from_millis(500);
/// From when all ranks have come to the end of their recordings to when they end, in most programs.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// A recording by time that nobody has asked for yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Early {
    /// Monotonic time at which it began; `None`: not yet.
    begun_ns: Option<u64>,
    /// Since when all ranks have ended their recordings themselves.
    over_since: Option<Instant>,
}

impl Early {
    /// Begins after some observation.
    pub(super) fn begin_when_due(&mut self, team: &Team, seconds: f64) {
        if self.begun_ns.is_none() && seconds >= when_due(team) {
            self.begin(team);
        }
    }

    /// Has every rank record from now on, if it does not yet.
    pub(super) fn begin(&mut self, team: &Team) {
        self.begun_ns.get_or_insert_with(|| {
            let now = monotonic_ns();
            for member in &team.members {
                let header = member.inserted.view().header();
                usage::note(member.process.pid, &header.usage_first);
                header.first_ticks.store(ticks(), Relaxed);
                header.state.store(state::RECORD, Release);
            }
            now
        });
    }

    /// Since when it is recorded, and whether a rank has recorded a call.
    pub(super) fn seen(&mut self, team: &Team) -> request::Early {
        let has_calls = |member: &Member| member.inserted.view().slots().any(|slot| slot.slot.hits.load(Relaxed) > 0);
        request::Early {
            seconds: self.begun_ns.map(|begun| (monotonic_ns() - begun) as f64 / 1e9),
            has_calls: self.begun_ns.is_some() && team.members.iter().any(has_calls),
            has_new_handler: team.has_new_handler,
            // Whoever has come to the end of its recording may end as well.
            is_alive: team.members.iter().all(|member| has_ended(member) || member.inserted.is_alive()),
            is_over: self.is_over(team),
            comm: if self.begun_ns.is_some() { comm_so_far(team) } else { CommSoFar::default() },
        }
    }

    /// All ranks have come to the end of their recordings, and have ended themselves or been given time for that: then
    /// nobody has to stop them once more.
    fn is_over(&mut self, team: &Team) -> bool {
        if !team.members.iter().all(has_ended) {
            return false;
        }
        let since = *self.over_since.get_or_insert_with(Instant::now);
        since.elapsed() > ENDING_MAX || !team.members.iter().any(|member| member.inserted.is_alive())
    }

    /// Forgets what was recorded, if anything was.
    pub(super) fn forget(&mut self, team: &Team) {
        if self.begun_ns.take().is_some() {
            reset(team);
        }
    }
}

fn when_due(team: &Team) -> f64 {
    let is_named = |probe: &Probe| probe.group == USER_GROUP && probe.role != role::LOOP;
    if team.selection.probes.iter().any(is_named) { EARLY_NAMED_SECONDS } else { EARLY_SECONDS }
}

/// Forgets what ranks have recorded; they only observe afterwards.
pub(super) fn reset(team: &Team) {
    for member in &team.members {
        member.inserted.view().header().state.store(state::OBSERVE, Release);
    }
    std::thread::sleep(SEEN);
    // A thread that is still inside of our routine may have begun before the state changed, and would add to what is
    // forgotten.
    let deadline = Instant::now() + INSIDE_MAX;
    while team.members.iter().any(is_inside) && Instant::now() < deadline {
        std::thread::sleep(SEEN);
    }
    for member in &team.members {
        let header = member.inserted.view().header();
        header.first_ticks.store(0, Relaxed);
        header.last_ticks.store(0, Relaxed);
        header.marks_written.store(0, Relaxed);
        header.usage_first.valid.store(0, Relaxed);
        header.usage_last.valid.store(0, Relaxed);
        for slot in member.inserted.view().slots() {
            slot.reset();
        }
        // Calls count from zero again, and so does when to look at them.
        for function in 0..member.inserted.view().geometry().function_count {
            member.inserted.view().limit(function).look_at_calls.store(0, Relaxed);
        }
    }
}

fn has_ended(member: &Member) -> bool {
    member.inserted.view().header().state.load(Acquire) == state::DONE
}

fn is_inside(member: &Member) -> bool {
    member.inserted.view().slots().any(|slot| slot.slot.busy.load(Acquire) != 0)
}
