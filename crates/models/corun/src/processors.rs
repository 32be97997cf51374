//! Formula 2 for each processor: how much longer jobs take that share processors, from what each uses of them alone.
//!
//! Two applications that share one processor are busy and idle for some time together; in windows of equal length they take
//! (busy - idle) / (busy + idle) longer if that is above zero. Then busy + idle is two windows, and the slowdown is the sum of
//! both shares, or 1. For ranks that may run on several processors their load is first spread as evenly as their places allow.
//!
//! Next: `pace`, which asks.

use crate::job::RankUse;
use std::collections::BTreeMap;

/// The spread of loads ends once none moves by more than this,
const STILL: f64 = 1e-9;
/// or after so many rounds.
const ROUNDS_MAX: usize = 500;
/// A rank that has less than this on a processor is not on it.
const NOTHING: f64 = 1e-7;
/// Threads of one rank that are told apart.
const THREADS_MAX: f64 = 4096.0;

/// How those who want a processor are thought to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sharing {
    /// Each in its turn, and all are slowed alike: formula 2, where all processor time is busy time.
    Turns,
    /// Those who want less than an even part have it at once, and the others share the rest.
    Even,
    /// Formula 2 where communication is idle time, as ScoPro counts it.
    Computing,
}

impl Sharing {
    fn of(self, rank: &RankUse) -> f64 {
        match self {
            Sharing::Turns | Sharing::Even => rank.wanted,
            Sharing::Computing => rank.computing.unwrap_or(rank.wanted),
        }
    }
}

/// How many times as long each job takes as it does alone, if those are there that `there` says.
pub(crate) fn slowdowns(jobs: &[&[RankUse]], there: &[bool], sharing: Sharing) -> Vec<f64> {
    let present = |job: usize| if there[job] { jobs[job] } else { &[] };
    let all: Vec<&[RankUse]> = (0..jobs.len()).map(present).collect();
    let together = stretched(&all, sharing);
    let alone = |job: usize| stretched(&[jobs[job]], sharing)[0];
    // Another one never speeds a job up, whatever places are left to it.
    (0..jobs.len()).map(|job| if there[job] { (together[job] / alone(job)).max(1.0) } else { 1.0 }).collect()
}

/// How many times as long as it would on processors of its own: of each job the rank that is slowed most, for which the others wait.
fn stretched(jobs: &[&[RankUse]], sharing: Sharing) -> Vec<f64> {
    let mut by_host: BTreeMap<&str, Vec<(usize, &RankUse)>> = BTreeMap::new();
    for (job, ranks) in jobs.iter().enumerate() {
        ranks.iter().for_each(|rank| by_host.entry(&rank.host).or_default().push((job, rank)));
    }
    let mut found = vec![1.0_f64; jobs.len()];
    for ranks in by_host.values() {
        let uses: Vec<&RankUse> = ranks.iter().map(|(_, rank)| *rank).collect();
        let factors = if sharing == Sharing::Even { evenly(&uses) } else { in_turns(&uses, sharing) };
        for ((job, _), factor) in ranks.iter().zip(factors) {
            found[*job] = found[*job].max(factor);
        }
    }
    found
}

fn in_turns(ranks: &[&RankUse], sharing: Sharing) -> Vec<f64> {
    let spread = Spread::of(ranks, sharing);
    spread.class_of.iter().map(|class| spread.classes[*class].level.max(1.0)).collect()
}

/// Threads on the same processors get what they want up to a level that is the same for all.
fn evenly(ranks: &[&RankUse]) -> Vec<f64> {
    let spread = Spread::of(ranks, Sharing::Even);
    let pools = spread.pools();
    let mut found = vec![1.0; ranks.len()];
    for pool in 0..pools.iter().map(|pool| pool + 1).max().unwrap_or(0) {
        let members: Vec<usize> = (0..ranks.len()).filter(|rank| pools[spread.class_of[*rank]] == pool).collect();
        let mut processors: Vec<u32> = members.iter().flat_map(|rank| spread.used_by(*rank)).collect();
        processors.sort_unstable();
        processors.dedup();
        let threads = |rank: usize| (ranks[rank].wanted - 0.01).ceil().clamp(1.0, THREADS_MAX);
        let each = |rank: usize| ranks[rank].wanted / threads(rank);
        let wanted: Vec<f64> = members.iter().flat_map(|rank| vec![each(*rank); threads(*rank) as usize]).collect();
        let level = even_level(wanted, processors.len() as f64);
        for rank in members {
            found[rank] = (each(rank) / level).max(1.0);
        }
    }
    found
}

/// The level up to which each gets what it wants of so many processors; infinite if all do.
fn even_level(mut wanted: Vec<f64>, processors: f64) -> f64 {
    wanted.sort_by(f64::total_cmp);
    let mut room = processors;
    for (place, one) in wanted.iter().enumerate() {
        let level = room / (wanted.len() - place) as f64;
        if *one > level {
            return level;
        }
        room -= one;
    }
    f64::INFINITY
}

/// Ranks that may run on the same processors.
struct Class {
    processors: Vec<u32>,
    wanted: f64,
    /// Its part of each of these.
    has: Vec<f64>,
    /// The load of the processors that it is on.
    level: f64,
}

/// Loads of processors, as even as the ranks' places allow: no rank could move to a processor with less.
struct Spread {
    classes: Vec<Class>,
    /// By rank.
    class_of: Vec<usize>,
}

impl Spread {
    fn of(ranks: &[&RankUse], sharing: Sharing) -> Spread {
        let mut places: BTreeMap<&[u32], usize> = BTreeMap::new();
        let mut classes: Vec<Class> = Vec::new();
        let mut class_of = Vec::new();
        for rank in ranks {
            let class = *places.entry(&rank.processors).or_insert(classes.len());
            if class == classes.len() {
                let has = vec![0.0; rank.processors.len()];
                classes.push(Class { processors: rank.processors.clone(), wanted: 0.0, has, level: 0.0 });
            }
            classes[class].wanted += sharing.of(rank);
            class_of.push(class);
        }
        let mut spread = Spread { classes, class_of };
        spread.settle();
        spread
    }

    /// Each class in turn moves to the least loaded of its processors: a convex problem, which this solves.
    fn settle(&mut self) {
        let mut loads: BTreeMap<u32, f64> = BTreeMap::new();
        for _ in 0..ROUNDS_MAX {
            let mut moved = 0.0_f64;
            for class in &mut self.classes {
                let others: Vec<f64> = class
                    .processors
                    .iter()
                    .zip(&class.has)
                    .map(|(processor, has)| loads.get(processor).copied().unwrap_or(0.0) - has)
                    .collect();
                class.level = filled(&others, class.wanted);
                for ((processor, has), other) in class.processors.iter().zip(&mut class.has).zip(others) {
                    let now = (class.level - other).max(0.0);
                    moved = moved.max((now - *has).abs());
                    *has = now;
                    loads.insert(*processor, other + now);
                }
            }
            if moved < STILL {
                break;
            }
        }
        for class in &mut self.classes {
            let least = class.processors.iter().filter_map(|processor| loads.get(processor)).copied();
            class.level = least.fold(f64::INFINITY, f64::min);
        }
    }

    fn used_by(&self, rank: usize) -> Vec<u32> {
        let class = &self.classes[self.class_of[rank]];
        let on = class.processors.iter().zip(&class.has).filter(|(_, has)| **has > NOTHING);
        on.map(|(processor, _)| *processor).collect()
    }

    /// Classes that are on processors together, or with a third one: the number of the pool of each.
    fn pools(&self) -> Vec<usize> {
        let mut pool: Vec<usize> = (0..self.classes.len()).collect();
        let mut first_on: BTreeMap<u32, usize> = BTreeMap::new();
        for (class, one) in self.classes.iter().enumerate() {
            for (processor, _) in one.processors.iter().zip(&one.has).filter(|(_, has)| **has > NOTHING) {
                let other = *first_on.entry(*processor).or_insert(class);
                let (keep, gone) = (pool[other].min(pool[class]), pool[other].max(pool[class]));
                pool.iter_mut().filter(|number| **number == gone).for_each(|number| *number = keep);
            }
        }
        pool
    }
}

/// The level to which `amount` fills vessels that are filled so far.
fn filled(so_far: &[f64], amount: f64) -> f64 {
    let mut sorted = so_far.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut sum = 0.0;
    let mut level = 0.0;
    for (place, lowest) in sorted.iter().enumerate() {
        sum += lowest;
        level = (amount + sum) / (place + 1) as f64;
        if sorted.get(place + 1).is_none_or(|next| *next >= level) {
            break;
        }
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(wanted: f64, processors: &[u32]) -> RankUse {
        RankUse { host: "n1".to_owned(), processors: processors.to_vec(), wanted, computing: Some(0.5 * wanted) }
    }

    fn of(jobs: &[&[RankUse]], sharing: Sharing) -> Vec<f64> {
        slowdowns(jobs, &vec![true; jobs.len()], sharing)
    }

    fn close(found: &[f64], wanted: &[f64]) {
        let is_close = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-6);
        assert!(is_close && found.len() == wanted.len(), "{found:?}, not {wanted:?}");
    }

    #[test]
    fn one_processor_is_formula_2() {
        for (a, b) in [(0.8, 0.5), (1.0, 1.0), (0.3, 0.4), (1.0, 0.0), (0.5, 0.5)] {
            let (busy, idle) = (a + b, 2.0 - a - b);
            let printed = 1.0 + if busy > idle { (busy - idle) / (busy + idle) } else { 0.0 };
            close(&of(&[&[rank(a, &[0])], &[rank(b, &[0])]], Sharing::Turns), &[printed, printed]);
        }
    }

    #[test]
    fn places_decide_who_shares() {
        let (first, second, both): (&[u32], &[u32], &[u32]) = (&[0], &[1], &[0, 1]);
        let turns = |a: &[&[u32]], b: &[&[u32]]| {
            let all = [a, b].map(|places| places.iter().map(|place| rank(1.0, place)).collect::<Vec<_>>());
            of(&[&all[0], &all[1]], Sharing::Turns)
        };
        close(&turns(&[first], &[second]), &[1.0, 1.0]);
        // A rank that may go elsewhere does.
        close(&turns(&[first], &[both]), &[1.0, 1.0]);
        // A job waits for its slowest rank.
        close(&turns(&[first, second], &[first]), &[2.0, 2.0]);
        // Two and one on two processors: half as much again.
        close(&turns(&[both, both], &[both]), &[1.5, 1.5]);
        let elsewhere = RankUse { host: "n2".to_owned(), ..rank(1.0, first) };
        close(&of(&[&[rank(1.0, first)], &[elsewhere]], Sharing::Turns), &[1.0, 1.0]);
    }

    #[test]
    fn a_job_that_shares_with_itself_is_no_slower_than_that() {
        // Four ranks on two processors take twice as long alone already.
        let crowd = vec![rank(1.0, &[0, 1]); 4];
        close(&of(&[&crowd], Sharing::Turns), &[1.0]);
        close(&of(&[&crowd, &[rank(1.0, &[0, 1])]], Sharing::Turns), &[1.25, 2.5]);
    }

    #[test]
    fn who_wants_little_has_it_at_once() {
        let even = |a: RankUse, b: RankUse| of(&[&[a], &[b]], Sharing::Even);
        close(&even(rank(1.0, &[0]), rank(0.3, &[0])), &[1.0 / 0.7, 1.0]);
        close(&even(rank(1.0, &[0]), rank(1.0, &[0])), &[2.0, 2.0]);
        close(&even(rank(2.0, &[0, 1]), rank(1.0, &[0, 1])), &[1.5, 1.5]);
    }

    #[test]
    fn communication_may_be_idle() {
        close(&of(&[&[rank(1.0, &[0])], &[rank(1.0, &[0])]], Sharing::Computing), &[1.0, 1.0]);
    }

    #[test]
    fn many_places_settle() {
        // A chain of places: each rank shares a processor with the next one, and loads become even.
        let ranks: Vec<RankUse> =
            (0..64).map(|at| rank(if at == 0 { 3.0 } else { 0.0 }, &[at, (at + 1) % 64])).collect();
        let found = of(&[&ranks[..1], &ranks[1..]], Sharing::Turns);
        close(&found, &[1.0, 1.0]);
    }
}
