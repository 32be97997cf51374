//! Shares of processors as a fair scheduler gives them: by weights, nobody more than they want, what one leaves goes to the
//! others.
//!
//! Weights count among the members of one group, groups among groups. Where processes may run on some processors only, each set
//! of processors is a limit of its own to those who may run nowhere else.
//!
//! Next: `share`, which asks for the newcomer's.

use std::collections::{BTreeMap, BTreeSet};

/// Different sets of processors that are told apart: each doubles the number of limits.
const SETS_MAX: usize = 6;

/// Somebody who wants processors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanting {
    /// Weight among its siblings.
    pub weight: f64,
    /// Processors it would use if it were alone.
    pub demand: f64,
    /// Groups it is in, from the outermost; numbers into the list of groups.
    pub groups: Vec<usize>,
    /// Where it may run; `None`: everywhere.
    pub allowed: Option<BTreeSet<u32>>,
}

/// A group of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Group {
    /// Weight among its siblings.
    pub weight: f64,
    /// Processors that it gets at most.
    pub quota: f64,
}

/// Processors that the last of `all`, the newcomer, gets; each processor gives so much of itself.
pub(crate) fn newcomer(all: &[Wanting], groups: &[Group], processors: &[(u32, f64)]) -> f64 {
    let online: BTreeSet<u32> = processors.iter().map(|(number, _)| *number).collect();
    let sets: BTreeSet<BTreeSet<u32>> = all.iter().map(|one| places(one, &online)).collect();
    let Some(last) = all.len().checked_sub(1) else { return 0.0 };
    if sets.len() <= 1 {
        let here = places(&all[last], &online);
        let capacity = processors.iter().filter(|(number, _)| here.contains(number)).map(|(_, gives)| gives).sum();
        let members: Vec<usize> = (0..all.len()).collect();
        return given(all, groups, &members, 0, capacity)[last];
    }
    by_sets(all, groups, processors, &online)
}

fn places(one: &Wanting, online: &BTreeSet<u32>) -> BTreeSet<u32> {
    one.allowed.as_ref().map_or_else(|| online.clone(), |allowed| allowed.intersection(online).copied().collect())
}

/// The part that each member gets of a capacity, level by level; 0 for all who are no members.
fn given(all: &[Wanting], groups: &[Group], members: &[usize], depth: usize, capacity: f64) -> Vec<f64> {
    let parts = parts(all, members, depth);
    let wants: Vec<(f64, f64)> = parts
        .iter()
        .map(|(group, inside)| match group {
            Some(group) => (groups[*group].weight, demand(all, groups, inside, depth + 1).min(groups[*group].quota)),
            None => (all[inside[0]].weight, all[inside[0]].demand),
        })
        .collect();
    let mut gets = vec![0.0; all.len()];
    for ((group, inside), part) in parts.iter().zip(fill(capacity, &wants)) {
        match group {
            Some(_) => {
                let below = given(all, groups, inside, depth + 1, part);
                inside.iter().for_each(|member| gets[*member] = below[*member]);
            }
            None => gets[inside[0]] = part,
        }
    }
    gets
}

/// Those of one level: groups with their members, and single ones.
fn parts(all: &[Wanting], members: &[usize], depth: usize) -> Vec<(Option<usize>, Vec<usize>)> {
    let mut parts: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
    for member in members {
        let group = all[*member].groups.get(depth).copied();
        match parts.iter_mut().find(|(known, _)| group.is_some() && *known == group) {
            Some((_, inside)) => inside.push(*member),
            None => parts.push((group, vec![*member])),
        }
    }
    parts
}

fn demand(all: &[Wanting], groups: &[Group], members: &[usize], depth: usize) -> f64 {
    let of = |(group, inside): &(Option<usize>, Vec<usize>)| match group {
        Some(group) => demand(all, groups, inside, depth + 1).min(groups[*group].quota),
        None => all[inside[0]].demand,
    };
    parts(all, members, depth).iter().map(of).sum()
}

/// Shares a capacity out among weights and demands.
fn fill(capacity: f64, wants: &[(f64, f64)]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    let each = |at: &usize| wants[*at].1 / wants[*at].0.max(f64::MIN_POSITIVE);
    order.sort_by(|a, b| each(a).total_cmp(&each(b)));
    let (mut left, mut weights) = (capacity.max(0.0), wants.iter().map(|(weight, _)| weight).sum::<f64>());
    let mut gets = vec![0.0; wants.len()];
    for at in order {
        let (weight, demand) = wants[at];
        gets[at] = demand.min(left * weight / weights.max(f64::MIN_POSITIVE)).max(0.0);
        left -= gets[at];
        weights -= weight;
    }
    gets
}

/// A limit to those in `members`.
struct Limit {
    members: Vec<usize>,
    capacity: f64,
}

/// All get more in step with their weights until a limit is reached: those whom it limits stay there, the others go on.
fn by_sets(all: &[Wanting], groups: &[Group], processors: &[(u32, f64)], online: &BTreeSet<u32>) -> f64 {
    let flat = flat_weights(all, groups);
    let mut limits = limits_of_sets(all, processors, online);
    for (number, group) in groups.iter().enumerate().filter(|(_, group)| group.quota.is_finite()) {
        let members = (0..all.len()).filter(|at| all[*at].groups.contains(&number)).collect();
        limits.push(Limit { members, capacity: group.quota });
    }
    let last = all.len() - 1;
    let mut fixed: Vec<Option<f64>> = vec![None; all.len()];
    while fixed[last].is_none() {
        let level = |limit: &Limit| {
            let taken: f64 = limit.members.iter().filter_map(|at| fixed[*at]).sum();
            let open = limit.members.iter().filter(|at| fixed[**at].is_none());
            let open: Vec<(f64, f64)> = open.map(|at| (flat[*at], all[*at].demand)).collect();
            level_of(limit.capacity - taken, &open)
        };
        let levels = limits.iter().map(|limit| (level(limit), limit)).filter(|(level, _)| level.is_finite());
        let Some((level, limit)) = levels.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        let open: Vec<usize> = limit.members.iter().copied().filter(|at| fixed[*at].is_none()).collect();
        for at in open {
            fixed[at] = Some(all[at].demand.min(level * flat[at]));
        }
    }
    let share = fixed[last].unwrap_or(all[last].demand);
    share.min(on_the_best_processor(all, &flat, processors, online))
}

/// The most that the newcomer gets on one processor beside those who may run nowhere else: it runs on one at a time, and does not
/// wander from one bound rank to the next as fast as fluid would.
fn on_the_best_processor(all: &[Wanting], flat: &[f64], processors: &[(u32, f64)], online: &BTreeSet<u32>) -> f64 {
    let last = all.len() - 1;
    let mut bound: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for (at, one) in all[..last].iter().enumerate() {
        let own = places(one, online);
        if own.len() == 1 {
            bound.entry(own.into_iter().next().unwrap_or_default()).or_default().push((flat[at], one.demand));
        }
    }
    let here = places(&all[last], online);
    let gets = |(number, gives): &(u32, f64)| {
        let mut wants = bound.get(number).cloned().unwrap_or_default();
        wants.push((flat[last], all[last].demand));
        fill(*gives, &wants).last().copied().unwrap_or(0.0)
    };
    processors.iter().filter(|(number, _)| here.contains(number)).map(gets).fold(0.0, f64::max)
}

/// The level at which members take all of a capacity; infinite if they never do.
fn level_of(capacity: f64, open: &[(f64, f64)]) -> f64 {
    if open.is_empty() || open.iter().map(|(_, demand)| demand).sum::<f64>() <= capacity {
        return f64::INFINITY;
    }
    let gets = fill(capacity, open);
    // Whoever gets less than they want has the level.
    let short = open.iter().zip(&gets).filter(|((_, demand), gets)| **gets < *demand);
    short.map(|((weight, _), gets)| gets / weight.max(f64::MIN_POSITIVE)).fold(0.0, f64::max)
}

/// For each union of sets of processors, those who may run nowhere else.
fn limits_of_sets(all: &[Wanting], processors: &[(u32, f64)], online: &BTreeSet<u32>) -> Vec<Limit> {
    let own: Vec<BTreeSet<u32>> = all.iter().map(|one| places(one, online)).collect();
    let mut sets: Vec<BTreeSet<u32>> = Vec::new();
    // The newcomer's own set first, then those of whoever wants most.
    let mut by_demand: Vec<usize> = (0..all.len() - 1).collect();
    by_demand.sort_by(|a, b| all[*b].demand.total_cmp(&all[*a].demand));
    for at in std::iter::once(all.len() - 1).chain(by_demand) {
        if sets.len() < SETS_MAX && !sets.contains(&own[at]) && !own[at].is_empty() {
            sets.push(own[at].clone());
        }
    }
    let gives = |set: &BTreeSet<u32>| {
        processors.iter().filter(|(number, _)| set.contains(number)).map(|(_, gives)| gives).sum::<f64>()
    };
    let mut unions: BTreeSet<BTreeSet<u32>> = BTreeSet::from([online.clone()]);
    for chosen in 1_u32..1 << sets.len() {
        let inside = sets.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
        unions.insert(inside.flat_map(|(_, set)| set.iter().copied()).collect());
    }
    let limit = |union: BTreeSet<u32>| {
        let is_inside = |at: &usize| !own[*at].is_empty() && own[*at].is_subset(&union);
        Limit { members: (0..all.len()).filter(is_inside).collect(), capacity: gives(&union) }
    };
    unions.into_iter().map(limit).collect()
}

/// Weights as if there were no groups: a group's is shared out among those in it, by weight and by how much they want.
fn flat_weights(all: &[Wanting], groups: &[Group]) -> Vec<f64> {
    fn share_out(all: &[Wanting], groups: &[Group], members: &[usize], depth: usize, of: f64, flat: &mut [f64]) {
        let parts = parts(all, members, depth);
        let weight = |(group, inside): &(Option<usize>, Vec<usize>)| {
            let wanted: f64 = inside.iter().map(|at| all[*at].demand).sum();
            // At the top nobody leaves their weight to siblings.
            let wanted = if depth == 0 { 1.0 } else { wanted.min(1.0) };
            wanted * group.map_or(all[inside[0]].weight, |group| groups[group].weight)
        };
        let sum: f64 = parts.iter().map(weight).sum::<f64>().max(f64::MIN_POSITIVE);
        for part in &parts {
            let own = of * weight(part) / sum;
            match part.0 {
                Some(_) => share_out(all, groups, &part.1, depth + 1, own, flat),
                None => flat[part.1[0]] = own.max(f64::MIN_POSITIVE),
            }
        }
    }
    let mut flat = vec![f64::MIN_POSITIVE; all.len()];
    let members: Vec<usize> = (0..all.len()).collect();
    share_out(all, groups, &members, 0, 1.0, &mut flat);
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(weight: f64, demand: f64, groups: &[usize], allowed: &[u32]) -> Wanting {
        let allowed = (!allowed.is_empty()).then(|| allowed.iter().copied().collect());
        Wanting { weight, demand, groups: groups.to_vec(), allowed }
    }

    fn of(others: &[Wanting], new: Wanting, groups: &[Group], processors: u32) -> f64 {
        let all: Vec<Wanting> = others.iter().cloned().chain([new]).collect();
        let processors: Vec<(u32, f64)> = (0..processors).map(|number| (number, 1.0)).collect();
        newcomer(&all, groups, &processors)
    }

    #[test]
    fn a_newcomer_gets_its_part() {
        let spinner = || one(1024.0, 1.0, &[], &[]);
        let nice = || one(15.0, 1.0, &[], &[]);
        let on = |cpus: &[u32]| one(1024.0, 1.0, &[], cpus);
        let group = |weight: f64, quota: f64| Group { weight, quota };
        let inside = |group: usize| one(1024.0, 1.0, &[group], &[]);
        let none: &[Group] = &[];
        for (name, others, new, groups, processors, expected) in [
            ("alone", vec![], spinner(), none, 2, 1.0),
            ("one beside it", vec![spinner()], spinner(), none, 1, 0.5),
            ("a processor is free", vec![spinner()], spinner(), none, 2, 1.0),
            ("three on two", vec![spinner(), spinner()], spinner(), none, 2, 2.0 / 3.0),
            ("niced beside others", vec![spinner()], nice(), none, 1, 15.0 / 1039.0),
            ("beside a niced one", vec![nice()], spinner(), none, 1, 1024.0 / 1039.0),
            ("beside one who wants little", vec![one(1024.0, 0.2, &[], &[])], spinner(), none, 1, 0.8),
            (
                "sessions share alike",
                vec![inside(0), inside(0), inside(0)],
                inside(1),
                &[group(1024.0, f64::INFINITY); 2],
                1,
                0.5,
            ),
            (
                "nice counts inside of its session only",
                vec![inside(0)],
                one(15.0, 1.0, &[1], &[]),
                &[group(1024.0, f64::INFINITY); 2],
                1,
                0.5,
            ),
            (
                "a light group",
                vec![inside(0)],
                inside(1),
                &[group(1024.0, f64::INFINITY), group(512.0, f64::INFINITY)],
                1,
                1.0 / 3.0,
            ),
            ("a quota of its own", vec![], inside(0), &[group(1024.0, 0.25)], 2, 0.25),
            (
                "others have a quota",
                vec![inside(0), inside(0)],
                inside(1),
                &[group(1024.0, 0.5), group(1024.0, f64::INFINITY)],
                1,
                0.5,
            ),
            ("others are pinned elsewhere", vec![on(&[0]), on(&[0])], on(&[1]), none, 2, 1.0),
            ("it may go where nobody is", vec![on(&[0]), on(&[0]), on(&[0])], spinner(), none, 2, 1.0),
            ("ranks are bound to each", vec![on(&[0]), on(&[1])], spinner(), none, 2, 0.5),
            ("a bound rank leaves half", vec![on(&[0]), one(1024.0, 0.3, &[], &[1])], spinner(), none, 2, 0.7),
            ("all are on one", vec![on(&[0]), on(&[0])], on(&[0]), none, 2, 1.0 / 3.0),
            ("others may go away", vec![spinner()], on(&[0]), none, 2, 1.0),
            ("others may go away, but are many", vec![spinner(), spinner()], on(&[0]), none, 2, 2.0 / 3.0),
            (
                "pinned, in a session",
                vec![one(1024.0, 1.0, &[0], &[0]), one(1024.0, 1.0, &[0], &[0])],
                one(1024.0, 1.0, &[1], &[0]),
                &[group(1024.0, f64::INFINITY); 2],
                2,
                0.5,
            ),
            ("pinned, with a quota", vec![on(&[1])], one(1024.0, 1.0, &[0], &[0]), &[group(1024.0, 0.3)], 2, 0.3),
        ] {
            let found = of(&others, new, groups, processors);
            assert!((found - expected).abs() < 1e-9, "{name}: {found}, not {expected}");
        }
    }

    #[test]
    fn interrupts_and_the_host_take_their_part_first() {
        let all = [one(1024.0, 1.0, &[], &[]), one(1024.0, 1.0, &[], &[])];
        assert!((newcomer(&all, &[], &[(0, 0.8)]) - 0.4).abs() < 1e-9);
        assert_eq!(newcomer(&[], &[], &[]), 0.0);
    }
}
