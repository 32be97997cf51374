//! Loops whose body compilers have put there several times, so that one pass is several of the program's iterations.
//!
//! Each call of such a loop stands in its code equally often, made from the same line of the source and by the same way
//! of inlined functions. Without lines the calls must come one after the other in the same order and at the same
//! distances.
//!
//! Next: `nest`, which tells it of the loops it has found.

use std::collections::BTreeMap;
use trimtab_session::{DebugFiles, DebugSections, Inside, Modules};
use trimtab_symbols::dwarf::Program;
use trimtab_types::ProcAddr;

/// Calls of all copies together by whose distances copies are believed.
const CALLS_SPACED_MIN: usize = 3;

/// A call of a loop: its address, and the function that is called if that is known.
type Call = (ProcAddr, Option<ProcAddr>);

/// Lines of the source that a call was made from, those of inlined functions first.
type Lines = Vec<(String, u32)>;

/// How often the body of a loop stands in its code; 1 where nothing says that it is more often than once.
pub(super) fn copies(modules: &Modules, inside: &Inside<'_>, number: &[u32]) -> u32 {
    let calls = calls_of(inside, number);
    if shared(calls.iter().map(|(_, target)| target)) < 2 {
        return 1;
    }
    let files = DebugFiles::of(modules);
    let sections = DebugSections::of(&files);
    let lines = lines_of(&sections, &calls);
    copies_by(&calls, lines.as_deref())
}

fn copies_by(calls: &[Call], lines: Option<&[Lines]>) -> u32 {
    match lines {
        Some(lines) => shared(calls.iter().map(|(_, target)| target).zip(lines)),
        None => copies_by_distance(calls),
    }
}

/// Calls of a loop that has no other inside, by address; none of one that has, because compilers copy innermost ones.
fn calls_of(inside: &Inside<'_>, number: &[u32]) -> Vec<Call> {
    let flow = &inside.flow;
    let is_inside = |other: &[u32]| other.len() > number.len() && other.starts_with(number);
    let found = flow.loop_numbered(number).filter(|_| !flow.loops.iter().any(|one| is_inside(&one.number)));
    let Some(found) = found else { return Vec::new() };
    let calls = flow.calls.iter().filter(|call| found.blocks.contains(&call.block));
    let mut calls: Vec<Call> = calls.map(|call| (call.at, call.target)).collect();
    calls.sort_unstable();
    calls
}

/// The greatest number of times by which all of these occur equally often, or in multiples of it; 0: there are none.
fn shared<T: Ord>(all: impl Iterator<Item = T>) -> u32 {
    let mut counts: BTreeMap<T, u32> = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts.into_values().fold(0, divisor)
}

fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Copies of the same calls in the same order, whose distances are the same from one to the next for most of them.
fn copies_by_distance(calls: &[Call]) -> u32 {
    let copies = shared(calls.iter().map(|(_, target)| target));
    if copies < 2 || calls.len() < CALLS_SPACED_MIN {
        return 1;
    }
    let length = calls.len() / copies as usize;
    let is_repeated = calls.windows(length + 1).all(|some| some[0].1 == some[length].1);
    let distances: Vec<u64> = calls.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let pairs = distances.windows(length + 1);
    let (all, same) = (pairs.len(), pairs.filter(|some| some[0] == some[length]).count());
    if is_repeated && 2 * same >= all.max(1) { copies } else { 1 }
}

/// The lines of all calls; `None` if those of one are not known.
fn lines_of(sections: &DebugSections<'_>, calls: &[Call]) -> Option<Vec<Lines>> {
    let first = calls.first()?.0;
    let at = sections.modules().iter().position(|module| module.text.contains(&first.0))?;
    let (bias, program) = (sections.modules()[at].bias, Program::open(sections.get(at)?));
    let lines = |(at, _): &Call| {
        let at = bias.to_file(*at);
        let line = program.line_at(at).filter(|place| place.line > 0)?;
        let around = program.inlined_at(at).unwrap_or_default().into_iter().rev().filter_map(|copy| copy.call);
        Some(std::iter::once(line).chain(around).map(|place| (place.file, place.line)).collect())
    };
    calls.iter().map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEND: Option<ProcAddr> = Some(ProcAddr(0x100));
    const SEND: Option<ProcAddr> = Some(ProcAddr(0x200));

    fn at(calls: &[(u64, Option<ProcAddr>)]) -> Vec<Call> {
        calls.iter().map(|(at, target)| (ProcAddr(*at), *target)).collect()
    }

    fn lines(of: &[u32]) -> Vec<Lines> {
        of.iter().map(|line| vec![("a.c".to_owned(), *line)]).collect()
    }

    #[test]
    fn copies_stand_for_the_same_lines() {
        let calls = at(&[(0, SPEND), (9, SEND), (30, SPEND), (39, SEND)]);
        assert_eq!(copies_by(&calls, Some(&lines(&[4, 5, 4, 5]))), 2);
        assert_eq!(copies_by(&calls, Some(&lines(&[4, 5, 6, 5]))), 1, "written twice");
        assert_eq!(copies_by(&calls[..3], Some(&lines(&[4, 5, 4]))), 1, "one of its calls stands there once");
    }

    #[test]
    fn without_lines_copies_have_the_same_distances() {
        let calls = at(&[(0, SPEND), (9, SEND), (30, SPEND), (39, SEND), (60, SPEND), (69, SEND)]);
        assert_eq!(copies_by(&calls, None), 3);
        assert_eq!(copies_by(&at(&[(0, SEND), (9, SEND), (30, SEND), (70, SEND)]), None), 1, "distances differ");
        assert_eq!(copies_by(&at(&[(0, SEND), (9, SEND)]), None), 1, "too few to say so");
        let other_order = at(&[(0, SPEND), (9, SEND), (18, SEND), (27, SPEND)]);
        assert_eq!(copies_by(&other_order, None), 1);
        assert_eq!(copies_by(&[], None), 1);
    }
}
