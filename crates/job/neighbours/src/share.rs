//! Two looks at a machine to what a report says of it: who was there beside the ranks, where, and how busy.
//!
//! Next: `trimtab_types::report::NodeShare` for the result.

use crate::cpus;
use crate::look::{Look, Seen};
use crate::topology::Topology;
use crate::whose::Ownership;
use std::collections::{BTreeMap, BTreeSet};
use trimtab_types::Pid;
use trimtab_types::procfs::CLOCK_TICKS_PER_SECOND;
use trimtab_types::report::{Closeness, Neighbour, NeighbourKind, Presence};

/// Neighbours that a report has room for, and characters of their names.
const NEIGHBOURS_MAX: usize = 16;
const NAME_LENGTH_MAX: usize = 64;
/// Users whose processes keep less of a processor busy are no neighbours worth naming; jobs always are.
const BUSY_PROCESSORS_MIN: f64 = 0.02;
/// Ranks named with a neighbour.
const RANKS_MAX: usize = 64;

/// One neighbour while it is added up.
#[derive(Debug, Default)]
struct Group {
    uid: u32,
    program: (u64, String),
    processes: u32,
    ranks: u32,
    ticks: u64,
    cpus: BTreeSet<u32>,
    was_there: bool,
    is_there: bool,
}

/// Names of users.
pub(crate) type Users<'a> = &'a dyn Fn(u32) -> String;

/// The neighbours between two looks, busiest first, and how many more there were. `places` are the processors on which
/// each rank was seen.
pub(crate) fn neighbours(
    (before, after): (&Look, &Look),
    places: &BTreeMap<u32, BTreeSet<u32>>,
    topology: &Topology,
    users: Users<'_>,
) -> (Vec<Neighbour>, u32) {
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let mut all: Vec<Neighbour> = groups(before, after)
        .into_iter()
        .map(|(whose, group)| neighbour(&whose, group, seconds, places, topology, users))
        .filter(|one| one.kind != NeighbourKind::User || one.busy_processors >= Some(BUSY_PROCESSORS_MIN))
        .collect();
    let busy = |one: &Neighbour| one.busy_processors.unwrap_or(0.0);
    all.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
    let left_out = all.len().saturating_sub(NEIGHBOURS_MAX);
    all.truncate(NEIGHBOURS_MAX);
    (all, left_out as u32)
}

fn groups(before: &Look, after: &Look) -> BTreeMap<Ownership, Group> {
    let mut groups: BTreeMap<Ownership, Group> = BTreeMap::new();
    let is_other = |seen: &&Seen| !matches!(seen.whose, Ownership::Own | Ownership::Kernel);
    for (pid, seen) in after.processes.iter().filter(|(_, seen)| is_other(seen)) {
        let earlier = before.processes.get(pid).filter(|earlier| earlier.start_ticks == seen.start_ticks);
        let ticks = seen.cpu_ticks.saturating_sub(earlier.map_or(0, |earlier| earlier.cpu_ticks));
        let group = groups.entry(seen.whose.clone()).or_default();
        group.add(seen, ticks);
        group.is_there = true;
        group.processes += 1;
        group.ranks += u32::from(seen.has_rank);
        if ticks > 0 {
            group.cpus.extend([seen.last_cpu].into_iter().chain(earlier.map(|earlier| earlier.last_cpu)));
        }
    }
    for (pid, seen) in before.processes.iter().filter(|(_, seen)| is_other(seen)) {
        let group = groups.entry(seen.whose.clone()).or_default();
        group.was_there = true;
        if !group.is_there && !is_in(after, *pid, seen) {
            // Its time from then until it ended is not known.
            group.add(seen, 0);
            group.processes += 1;
            group.ranks += u32::from(seen.has_rank);
            group.cpus.insert(seen.last_cpu);
        }
    }
    groups
}

fn is_in(look: &Look, pid: Pid, seen: &Seen) -> bool {
    look.processes.get(&pid).is_some_and(|later| later.start_ticks == seen.start_ticks)
}

impl Group {
    fn add(&mut self, seen: &Seen, ticks: u64) {
        self.uid = seen.uid;
        self.ticks += ticks;
        if self.program.1.is_empty() || ticks > self.program.0 {
            self.program = (ticks, seen.command.clone());
        }
    }
}

fn neighbour(
    whose: &Ownership,
    group: Group,
    seconds: f64,
    places: &BTreeMap<u32, BTreeSet<u32>>,
    topology: &Topology,
    users: Users<'_>,
) -> Neighbour {
    let user = users(group.uid);
    let (kind, name) = match whose {
        Ownership::Slurm { step } => (NeighbourKind::Slurm, step.clone()),
        Ownership::Mpi { launcher } => (NeighbourKind::Mpi, launcher.to_string()),
        Ownership::User { .. } | Ownership::Own | Ownership::Kernel => (NeighbourKind::User, user.clone()),
    };
    let close = |cpus: &BTreeSet<u32>| topology.closeness(cpus, &group.cpus);
    let closest = places.values().map(close).min().unwrap_or(Closeness::Machine);
    let near = places.iter().filter(|(_, cpus)| closest != Closeness::Machine && close(cpus) == closest);
    let presence = match (group.was_there, group.is_there) {
        (true, false) => Presence::Left,
        (false, true) => Presence::Came,
        _ => Presence::Throughout,
    };
    let worked_s = group.ticks as f64 / CLOCK_TICKS_PER_SECOND as f64;
    Neighbour {
        kind,
        name: cut(&name),
        user: cut(&user),
        program: cut(&group.program.1),
        processes: group.processes,
        ranks: group.ranks,
        // Of processes that have ended nobody knows what they did.
        busy_processors: (seconds > 0.0 && group.is_there).then(|| worked_s / seconds),
        cpus_seen: cpus::list(&group.cpus),
        shares: closest,
        with_ranks: near.map(|(rank, _)| *rank).take(RANKS_MAX).collect(),
        presence,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(NAME_LENGTH_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use std::time::{Duration, Instant};

    fn seen(whose: &Ownership, command: &str, cpu_ticks: u64, last_cpu: u32) -> Seen {
        let has_rank = matches!(whose, Ownership::Mpi { .. });
        Seen { start_ticks: 5, command: command.into(), cpu_ticks, last_cpu, uid: 7, whose: whose.clone(), has_rank }
    }

    fn look(at: Instant, processes: Vec<(i32, Seen)>) -> Look {
        let processes = processes.into_iter().map(|(pid, seen)| (Pid(pid), seen)).collect();
        Look { at, counters: Counters::default(), processes }
    }

    fn between(before: Vec<(i32, Seen)>, after: Vec<(i32, Seen)>) -> (Vec<Neighbour>, u32) {
        let at = Instant::now();
        let looks = (&look(at, before), &look(at + Duration::from_secs(2), after));
        let places = BTreeMap::from([(0, BTreeSet::from([0])), (1, BTreeSet::from([1]))]);
        neighbours(looks, &places, &Topology::default(), &|uid| format!("user{uid}"))
    }

    #[test]
    fn a_job_is_added_up() {
        let mpi = Ownership::Mpi { launcher: Pid(20) };
        let (all, left_out) = between(
            vec![
                (21, seen(&mpi, "app", 100, 1)),
                (22, seen(&mpi, "app", 50, 4)),
                (9, seen(&Ownership::Own, "own", 0, 0)),
            ],
            vec![
                (21, seen(&mpi, "app", 250, 1)),
                (22, seen(&mpi, "app", 100, 5)),
                (9, seen(&Ownership::Own, "own", 99, 0)),
            ],
        );
        assert_eq!((all.len(), left_out), (1, 0), "{all:?}");
        let one = &all[0];
        assert_eq!((one.kind, one.name.as_str(), one.user.as_str()), (NeighbourKind::Mpi, "20", "user7"));
        assert_eq!((one.processes, one.ranks, one.program.as_str()), (2, 2, "app"));
        assert!((one.busy_processors.unwrap_or(0.0) - 1.0).abs() < 1e-9, "two seconds of work in two seconds: {one:?}");
        assert_eq!((one.cpus_seen.as_str(), one.shares, &one.with_ranks), ("1,4-5", Closeness::Core, &vec![1]));
        assert_eq!(one.presence, Presence::Throughout);
    }

    #[test]
    fn who_came_and_who_left() {
        let (old, new) = (Ownership::Slurm { step: "12.0".into() }, Ownership::Slurm { step: "13.0".into() });
        let (all, _) = between(vec![(1, seen(&old, "a", 900, 7))], vec![(2, seen(&new, "b", 100, 9))]);
        let told: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.presence)).collect();
        assert_eq!(told, [("13.0", Presence::Came), ("12.0", Presence::Left)]);
        assert!((all[0].busy_processors.unwrap_or(0.0) - 0.5).abs() < 1e-9, "all that it ever did was done meanwhile");
        assert_eq!((all[1].busy_processors, all[1].processes), (None, 1), "what it did is not known");
        assert_eq!((all[0].shares, all[0].with_ranks.len()), (Closeness::Machine, 0));
    }

    #[test]
    fn idle_users_are_not_named_and_idle_jobs_are() {
        let (user, job) = (Ownership::User { uid: 7 }, Ownership::Mpi { launcher: Pid(3) });
        let both = || vec![(1, seen(&user, "sh", 5, 0)), (2, seen(&job, "app", 5, 0))];
        let (all, left_out) = between(both(), both());
        assert_eq!((all.len(), all[0].kind, left_out), (1, NeighbourKind::Mpi, 0));
        let (all, _) = between(both(), vec![(1, seen(&user, "sh", 55, 0))]);
        assert_eq!(all[0].name, "user7", "a quarter of a processor: {all:?}");
    }

    #[test]
    fn a_crowd_is_bounded() {
        let job = |number: i32| (number, seen(&Ownership::Mpi { launcher: Pid(number) }, "app", 5, 0));
        let (all, left_out) = between(Vec::new(), (0..40).map(job).collect());
        assert_eq!((all.len(), left_out), (NEIGHBOURS_MAX, 40 - NEIGHBOURS_MAX as u32));
    }
}
