//! Do the job's own ranks share too few processors?
//!
//! Two facts say so, and neither has to do with other programs: how many ranks may run on the same processors only, and how
//! many processors their threads wanted, that is, the time in which these ran or were ready to. A thread that somebody else
//! keeps from its processor wants that one all the same, so a busy neighbour never looks like a rank too many.
//!
//! Next: `beside`, which gathers both; the headline of a report says what it means.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;
use trimtab_types::report::{CrowdLimit, Limit, Oversubscription};

/// Threads that want so many times the processors they have make a crowd even where there is a processor per rank: a
/// library's own threads, which wake now and then, don't.
const WANTED_RATIO_MIN: f64 = 1.1;

/// Processors, on average: those that were wanted, and those that were had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Processors {
    pub wanted: f64,
    pub had: f64,
}

/// A rank, where it may run, and how much it wants to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanting {
    pub rank: u32,
    /// Processors that are switched on and allowed.
    pub allowed: BTreeSet<u32>,
    /// `None`: the kernel did not say.
    pub processors: Option<Processors>,
}

/// How long each thread of a process has run and waited for a processor until a moment, nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    at: Instant,
    threads: BTreeMap<i32, (u64, u64)>,
}

impl Demand {
    /// Of the process with this folder of `/proc`.
    pub(crate) fn read(folder: &Path) -> Demand {
        let tasks = std::fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
        let thread = |task: std::fs::DirEntry| {
            let tid = task.file_name().to_str()?.parse().ok()?;
            Some((tid, parse(&std::fs::read_to_string(task.path().join("schedstat")).ok()?)?))
        };
        Demand { at: Instant::now(), threads: tasks.filter_map(thread).collect() }
    }

    /// Processors from here until `later`; threads that ended in between are not in it. `None`: the kernel did not say.
    pub(crate) fn until(&self, later: &Demand) -> Option<Processors> {
        let passed_ns = later.at.duration_since(self.at).as_nanos() as f64;
        if passed_ns <= 0.0 || later.threads.is_empty() {
            return None;
        }
        let mut sum = Processors::default();
        for (tid, (ran, waited)) in &later.threads {
            let (ran_before, waited_before) = self.threads.get(tid).copied().unwrap_or_default();
            let ran_ns = ran.saturating_sub(ran_before) as f64;
            sum.had += ran_ns / passed_ns;
            sum.wanted += (ran_ns + waited.saturating_sub(waited_before) as f64) / passed_ns;
        }
        Some(sum)
    }
}

/// Time run and time waited, from `/proc/PID/task/TID/schedstat`; a kernel that keeps neither writes zeros.
fn parse(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (ran > 0).then_some((ran, waited))
}

/// All ranks of a machine that share too few processors, group by group.
pub(crate) fn oversubscribed(ranks: &[Wanting], limits: &[Limit]) -> Vec<Oversubscription> {
    let mut found = by_affinity(ranks);
    for limit in limits {
        let Some(processors) = limit.processors else { continue };
        let inside: Vec<&Wanting> = ranks.iter().filter(|one| limit.ranks.contains(&one.rank)).collect();
        // Where the same ranks lack processors anyway, the tighter bound tells.
        let is_looser = found.iter().any(|one| one.processors <= processors && one.ranks == numbers(&inside));
        if !is_looser && is_crowd(&inside, processors) {
            found.retain(|one| one.ranks != numbers(&inside));
            found.push(crowd(&inside, processors, CrowdLimit::Quota));
        }
    }
    found
}

/// From the smallest set of processors to the largest: ranks that crowd one leave nothing of it to others. The last set is
/// all of them, for ranks whose sets overlap.
fn by_affinity(ranks: &[Wanting]) -> Vec<Oversubscription> {
    let mut sets: Vec<BTreeSet<u32>> = ranks.iter().map(|one| one.allowed.clone()).collect();
    sets.push(ranks.iter().flat_map(|one| one.allowed.iter().copied()).collect());
    sets.sort_by_key(|set| (set.len(), set.clone()));
    sets.dedup();
    let (mut found, mut taken, mut told) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for set in sets {
        let left = set.difference(&taken).count() as f64;
        let is_inside = |one: &&Wanting| !told.contains(&one.rank) && one.allowed.is_subset(&set);
        let inside: Vec<&Wanting> = ranks.iter().filter(is_inside).collect();
        if is_crowd(&inside, left) {
            found.push(crowd(&inside, left, CrowdLimit::Affinity));
            told.extend(inside.iter().map(|one| one.rank));
            taken.extend(set);
        }
    }
    found
}

fn is_crowd(ranks: &[&Wanting], processors: f64) -> bool {
    let wanted = wanted(ranks).is_some_and(|sum| sum.wanted > WANTED_RATIO_MIN * processors);
    !ranks.is_empty() && (ranks.len() as f64 > processors || wanted)
}

fn crowd(ranks: &[&Wanting], processors: f64, limited_by: CrowdLimit) -> Oversubscription {
    let wanted = wanted(ranks);
    Oversubscription {
        ranks: numbers(ranks),
        processors,
        limited_by,
        processors_wanted: wanted.map(|sum| sum.wanted),
        processors_had: wanted.map(|sum| sum.had),
    }
}

fn numbers(ranks: &[&Wanting]) -> Vec<u32> {
    let mut numbers: Vec<u32> = ranks.iter().map(|one| one.rank).collect();
    numbers.sort_unstable();
    numbers
}

fn wanted(ranks: &[&Wanting]) -> Option<Processors> {
    let add = |sum: Processors, one: &&Wanting| {
        let one = one.processors?;
        Some(Processors { wanted: sum.wanted + one.wanted, had: sum.had + one.had })
    };
    ranks.iter().try_fold(Processors::default(), add)
}

#[cfg(test)]
mod tests {
    use super::CrowdLimit::{Affinity, Quota};
    use super::*;
    use std::time::Duration;

    /// A rank on some processors that wants some of them.
    fn rank(rank: u32, allowed: &[u32], wanted: f64) -> Wanting {
        let processors = Some(Processors { wanted, had: wanted.min(1.0) });
        Wanting { rank, allowed: allowed.iter().copied().collect(), processors }
    }

    #[test]
    fn ranks_are_too_many_for_the_processors_they_share() {
        let four = |wanted: f64| (0..4).map(|one| rank(one, &[0, 1], wanted)).collect::<Vec<_>>();
        let quota = |processors: f64, ranks: &[u32]| Limit {
            ranks: ranks.to_vec(),
            processors: Some(processors),
            ..Limit::default()
        };
        type Row = (&'static str, Vec<Wanting>, Vec<Limit>, Vec<(Vec<u32>, f64, CrowdLimit)>);
        let rows: Vec<Row> = vec![
            ("a processor each", vec![rank(0, &[0], 1.0), rank(1, &[1], 1.0)], vec![], vec![]),
            ("four on two", four(1.0), vec![], vec![(vec![0, 1, 2, 3], 2.0, Affinity)]),
            ("four on two that sleep", four(0.2), vec![], vec![(vec![0, 1, 2, 3], 2.0, Affinity)]),
            (
                "a busy neighbour keeps one from its processor",
                vec![rank(0, &[0, 1], 1.0), rank(1, &[0, 1], 1.0)],
                vec![],
                vec![],
            ),
            (
                "threads of a rank",
                vec![rank(0, &[0, 1], 2.0), rank(1, &[0, 1], 2.0)],
                vec![],
                vec![(vec![0, 1], 2.0, Affinity)],
            ),
            (
                "two bound to one processor, a third beside them",
                vec![rank(0, &[0], 1.0), rank(1, &[0], 1.0), rank(2, &[0, 1], 1.0)],
                vec![],
                vec![(vec![0, 1], 1.0, Affinity)],
            ),
            (
                "and a fourth",
                vec![rank(0, &[0], 1.0), rank(1, &[0], 1.0), rank(2, &[0, 1], 1.0), rank(3, &[0, 1], 1.0)],
                vec![],
                vec![(vec![0, 1], 1.0, Affinity), (vec![2, 3], 1.0, Affinity)],
            ),
            (
                "sets that overlap",
                (0..4).map(|one| rank(one, if one < 2 { &[0, 1] } else { &[1, 2] }, 1.0)).collect(),
                vec![],
                vec![(vec![0, 1, 2, 3], 3.0, Affinity)],
            ),
            (
                "a quota",
                vec![rank(0, &[0, 1], 1.0), rank(1, &[0, 1], 1.0)],
                vec![quota(1.5, &[0, 1])],
                vec![(vec![0, 1], 1.5, Quota)],
            ),
            ("a looser quota", four(1.0), vec![quota(3.0, &[0, 1, 2, 3])], vec![(vec![0, 1, 2, 3], 2.0, Affinity)]),
            ("a tighter quota", four(1.0), vec![quota(1.0, &[0, 1, 2, 3])], vec![(vec![0, 1, 2, 3], 1.0, Quota)]),
        ];
        for (name, ranks, limits, expected) in rows {
            let found = oversubscribed(&ranks, &limits);
            let said: Vec<_> = found.iter().map(|one| (one.ranks.clone(), one.processors, one.limited_by)).collect();
            assert_eq!(said, expected, "{name}");
            let wanted = |one: &Oversubscription| {
                let inside = ranks.iter().filter(|rank| one.ranks.contains(&rank.rank));
                Some(inside.filter_map(|rank| rank.processors).map(|sum| sum.wanted).sum::<f64>())
            };
            assert!(found.iter().all(|one| one.processors_wanted == wanted(one)), "{name}: {found:?}");
        }
    }

    #[test]
    fn demand_is_time_that_ran_or_waited() {
        let at = Instant::now();
        let demand = |after: u64, threads: &[(i32, (u64, u64))]| Demand {
            at: at + Duration::from_nanos(after),
            threads: threads.iter().copied().collect(),
        };
        let first = demand(0, &[(1, (500, 100)), (2, (7, 7))]);
        // One thread went on, one ended, one came.
        let found = first.until(&demand(1000, &[(1, (1000, 600)), (3, (250, 0))]));
        assert_eq!(found, Some(Processors { wanted: 1.25, had: 0.75 }));
        assert_eq!(first.until(&demand(1000, &[])), None);
        assert_eq!(first.until(&first), None);
        assert_eq!([parse("12 3 4\n"), parse("0 0 0\n"), parse(""), parse("x 1")], [Some((12, 3)), None, None, None]);
    }
}
