//! How far the loops of a nest are, from the calls on the stacks of ranks: each call stands somewhere in a pass of the loops of
//! its function, and the function's registers and frame hold their counters.
//!
//! So it is told of a loop whose passes are too long to see two of them, which lies around the one that counts iterations. One look is
//! enough if the code shows that nobody else writes to its counter; else what it tells is only likely. Memory is read while the rank
//! goes on: a reading counts if a second look finds the function at the same call, and reads the same.
//!
//! Next: `trimtab-session`'s `LoopCounter`, which reads; `job::nest`, which joins the nodes' answers.

use super::nest::NestSampler;
use crate::request::{LoopCourse, SampledCourse};
use std::collections::BTreeMap;
use trimtab_session::{EITHER, FrameRegisters, LoopCounter, LoopStand, NoReading};
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_window::{FunctionId, NestLoop};

/// Calls of a loop at different places that are tried, those first that most stacks show.
const PLACES_MAX: usize = 4;
/// Pairs of looks at a rank, until one shows it twice at the same call of each loop.
const TRIES_MAX: usize = 4;

/// A function on a stack, and what its registers held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenCall {
    pub function: FunctionId,
    pub at: FileAddr,
    pub registers: FrameRegisters,
}

/// A loop's counter, by the place of the call where it is read.
type Counters = BTreeMap<FileAddr, LoopCounter>;

/// How far each of some loops of a nest is, or why that is not known. The code must be the program's own meanwhile.
pub fn courses(sampler: &mut NestSampler, loops: &[&NestLoop]) -> Vec<SampledCourse> {
    let counters: Vec<Result<Counters, String>> = loops.iter().map(|one| counters(sampler, one)).collect();
    let mut stands: Vec<Vec<LoopStand>> = vec![Vec::new(); loops.len()];
    for rank in 0..sampler.rank_count() {
        let found = of_rank(sampler, rank, loops, &counters);
        found.into_iter().zip(&mut stands).for_each(|(stand, all)| all.extend(stand));
    }
    let told =
        |(counters, stands): (Result<Counters, String>, Vec<LoopStand>)| match counters.and_then(|_| course(&stands)) {
            Ok(course) => SampledCourse::Seen(course),
            Err(why) => SampledCourse::Unknown { why },
        };
    counters.into_iter().zip(stands).map(told).collect()
}

/// Of all ranks that were seen in it.
fn course(stands: &[LoopStand]) -> Result<LoopCourse, String> {
    let one = |stand: &LoopStand| {
        let LoopStand { done, to_come, may_end_before, is_sure } = *stand;
        LoopCourse { done, to_come, may_end_before, is_sure }
    };
    let (first, others) = stands.split_first().ok_or("no rank was seen twice at the same call of a pass of it")?;
    let joined = others.iter().map(one).try_fold(one(first), LoopCourse::joined);
    joined.ok_or_else(|| "ranks are in different passes of it".to_owned())
}

/// How a loop's counter is read where it calls.
fn counters(sampler: &NestSampler, one: &NestLoop) -> Result<Counters, String> {
    if !one.instead.is_empty() || one.number.contains(&EITHER) {
        return Err(NoReading::SeveralLoops.to_string());
    }
    if one.in_recursion.is_some() {
        return Err("its function is called below itself".to_owned());
    }
    let (modules, number) = sampler.modules_of(one.function);
    let bias = modules.modules[number].bias;
    let begins = bias.to_proc(one.function.start);
    let (mut found, mut why) = (Counters::new(), "no stack shows a call of its passes".to_owned());
    for place in places(sampler, one) {
        match LoopCounter::within(modules, begins, &one.number, bias.to_proc(place)) {
            Ok(counter) => _ = found.insert(place, counter),
            Err(reason) => why = reason.to_string(),
        }
    }
    if found.is_empty() { Err(why) } else { Ok(found) }
}

/// Places of calls in a loop, those first where most were seen.
fn places(sampler: &NestSampler, one: &NestLoop) -> Vec<FileAddr> {
    let mut counts: BTreeMap<FileAddr, usize> = BTreeMap::new();
    let calls = sampler.stacks().iter().flat_map(|stack| &stack.calls);
    for call in calls.filter(|call| call.function == one.function) {
        *counts.entry(call.at).or_default() += 1;
    }
    let mut places: Vec<(usize, FileAddr)> = counts.into_iter().map(|(at, count)| (count, at)).collect();
    places.retain(|(_, at)| is_in(sampler, *at, one));
    places.sort_by_key(|(count, at)| (std::cmp::Reverse(*count), *at));
    places.into_iter().take(PLACES_MAX).map(|(_, at)| at).collect()
}

fn is_in(sampler: &NestSampler, at: FileAddr, one: &NestLoop) -> bool {
    let inside = |inside: &trimtab_session::Inside<'_>, at: ProcAddr| {
        let found = inside.flow.loop_numbered(&one.number).zip(inside.flow.block_at(at));
        found.is_some_and(|(found, block)| found.blocks.binary_search(&block).is_ok())
    };
    let bias = sampler.module(one.function).bias;
    sampler.looked_inside(one.function, |code| inside(code, bias.to_proc(at))).unwrap_or(false)
}

/// How far a rank is in each loop; `None`: it was never seen twice at the same call of it.
fn of_rank(
    sampler: &mut NestSampler,
    rank: usize,
    loops: &[&NestLoop],
    counters: &[Result<Counters, String>],
) -> Vec<Option<LoopStand>> {
    let mut found: Vec<Option<LoopStand>> = vec![None; loops.len()];
    let is_read = |index: usize| counters[index].is_ok();
    for _ in 0..TRIES_MAX {
        let first = read(sampler, rank, loops, counters);
        let second = read(sampler, rank, loops, counters);
        for (stand, both) in found.iter_mut().zip(first.into_iter().zip(second)) {
            *stand = stand.or_else(|| same(both.0?, both.1?));
        }
        if (0..loops.len()).all(|index| found[index].is_some() || !is_read(index)) {
            break;
        }
    }
    found
}

/// That of two readings at the same call which say the same.
fn same(first: (SeenCall, LoopStand), second: (SeenCall, LoopStand)) -> Option<LoopStand> {
    (first == second).then_some(first.1)
}

/// One look at a rank: the call of each loop, and how far that is by it.
fn read(
    sampler: &mut NestSampler,
    rank: usize,
    loops: &[&NestLoop],
    counters: &[Result<Counters, String>],
) -> Vec<Option<(SeenCall, LoopStand)>> {
    let calls = sampler.calls_now(rank);
    let one = |(one, counters): (&&NestLoop, &Result<Counters, String>)| {
        let counters = counters.as_ref().ok()?;
        let is_its = |call: &&SeenCall| call.function == one.function && counters.contains_key(&call.at);
        let call = *calls.iter().find(is_its)?;
        let (begins_there, memory) = sampler.in_rank(rank, one.function)?;
        let (modules, number) = sampler.modules_of(one.function);
        let begins = modules.modules[number].bias.to_proc(one.function.start);
        let shift = begins_there.0.wrapping_sub(begins.0) as i64;
        Some((call, counters[&call.at].stand(&call.registers, memory, shift)?))
    };
    loops.iter().zip(counters).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stand(done: u64, to_come: u64) -> LoopStand {
        LoopStand { done: Some(done), to_come, may_end_before: false, is_sure: true }
    }

    #[test]
    fn ranks_may_be_one_pass_apart() {
        let behind = LoopCourse { done: Some(2), to_come: 7, may_end_before: false, is_sure: true };
        assert_eq!(course(&[stand(3, 6), stand(2, 7), stand(3, 6)]), Ok(behind));
        assert!(course(&[stand(4, 5), stand(2, 7)]).is_err_and(|why| why.contains("different passes")));
        assert!(course(&[]).is_err_and(|why| why.contains("no rank was seen")));
    }
}
