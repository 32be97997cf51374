//! A function with probes in it behaves as without: both are run on this processor and compared, and each call is seen
//! once at the entry and once at an exit.
//!
//! Random functions with branches, bounded loops, calls of every form and several returns without padding are planned
//! whole, patched as a session would, and run from the same registers and memory. `TRIMTAB_CASES` sets how many, and
//! `TRIMTAB_SEED` which, so that the same test runs for hours too. Next: `src/site.rs`, `src/point.rs`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[expect(dead_code, reason = "exits of sequences are for the other test that uses it")]
#[path = "execution/arena.rs"]
mod arena;
#[path = "patched/function.rs"]
mod function;
#[path = "patched/lab.rs"]
mod lab;
#[path = "execution/random.rs"]
mod random;

use arena::Arena;
use function::Function;
use lab::Lab;
use random::{Random, cases, seed};
use std::sync::atomic::AtomicU64;
use trimtab_x86::{
    ControlFlow, JumpForm, Liveness, PassPlace, PatchSite, Purpose, Refusal, SiteKind, Springboards, loop_sites,
    own_sites, point_site, way_site,
};

const CASES: u64 = 3_000;

#[test]
fn functions_behave_the_same_with_probes_at_entry_and_exits() {
    let mut arena = Arena::new();
    let mut random = Random::new(seed());
    let (mut whole, mut carried, mut calls) = (0, 0, 0);
    for case in 0..cases(CASES) {
        let mut lab = Lab::new(&mut arena, &mut random);
        let sites = own_sites(&lab.code(), &lab.analysis());
        let all: Vec<PatchSite> = sites.all().cloned().collect();
        let is_whole = sites.entry.is_ok() && sites.exits.iter().all(|(_, site)| site.is_ok());
        let (mut expected, mut got) = lab.compare(&all);
        // Nobody reads the flags a function leaves behind.
        for outcome in [&mut expected, &mut got] {
            outcome.registers[arena::FLAGS_INDEX] = 0;
        }
        let seen = format!("case {case} of seed {:#x}: {:02x?} with {all:#x?}", seed(), lab.function.bytes);
        assert_eq!(got, expected, "{seen}");
        let (entered, left) = lab.arena.probes_seen();
        assert_eq!(entered, u64::from(sites.entry.is_ok()), "{seen}");
        if is_whole {
            assert_eq!(left, 1, "{seen}");
            whole += 1;
        }
        carried += u64::from(all.iter().any(|site| site.carrier.is_some()));
        calls += u64::from(all.iter().any(|site| site.resume.is_none() && matches!(site.kind, SiteKind::Entry)));
    }
    let percent = cases(CASES) / 100;
    assert!(whole > 40 * percent, "{whole} with all exits: the comparison sees too little");
    assert!(carried > 10 * percent && calls > 10 * percent, "{carried} with springboards in code, {calls} with calls");
}

#[test]
fn functions_behave_the_same_with_a_probe_at_any_instruction() {
    let mut arena = Arena::new();
    let mut random = Random::new(!seed());
    let (mut points, mut passes) = (0, 0);
    for case in 0..cases(CASES) {
        let mut lab = Lab::new(&mut arena, &mut random);
        let analysis = lab.analysis();
        let flow = ControlFlow::of(&analysis);
        let block = &flow.blocks[random.below(flow.blocks.len() as u64) as usize];
        let place = block.range.start + random.below(block.range.end - block.range.start);
        let Ok(site) = point_site(&lab.code(), &analysis, place, &mut Springboards::new()) else { continue };
        let (expected, got) = lab.compare(std::slice::from_ref(&site));
        let seen = format!("case {case} of seed {:#x}: {:02x?} with {site:#x?}", !seed(), lab.function.bytes);
        assert_eq!(got, expected, "{seen}");
        points += 1;
        let (entered, left) = lab.arena.probes_seen();
        assert_eq!(left, 0, "{seen}");
        assert!(place != lab.function.entry || entered > 0, "{seen}");
        passes += entered;
    }
    assert!(points > cases(CASES) / 10 && passes > points / 10, "{points} points, {passes} passes");
}

/// Each side of a branch is seen by itself: both together are the passes of the branch, and nobody notices.
#[test]
fn both_ways_from_a_branch_are_seen_apart() {
    let mut arena = Arena::new();
    let mut random = Random::new(seed().rotate_left(13));
    let count = AtomicU64::new(0);
    let (mut taken, mut passed, mut compared) = (0, 0, 0);
    for case in 0..cases(CASES) {
        let mut lab = Lab::new(&mut arena, &mut random);
        let analysis = lab.analysis();
        let flow = ControlFlow::of(&analysis);
        let branches: Vec<_> = flow.blocks.iter().filter(|block| block.successors.len() == 2).collect();
        let Some(branch) = branches.get(random.below(branches.len().max(1) as u64) as usize) else { continue };
        let mut seen = Vec::new();
        for to in branch.successors.iter().map(|to| flow.blocks[*to].range.start) {
            let Ok(site) = way_site(&lab.code(), &analysis, branch.last, to, &mut Springboards::new()) else {
                continue;
            };
            let (expected, got, ways) = lab.compare_counted(&site, &count);
            let what = format!("case {case}: {:02x?} with {site:#x?}", lab.function.bytes);
            assert_eq!(got, expected, "{what}");
            if to == branch.range.end {
                passed += ways
            } else {
                taken += ways
            }
            seen.push(ways);
        }
        let Ok(site) = point_site(&lab.code(), &analysis, branch.last, &mut Springboards::new()) else { continue };
        let (_, _, all) = lab.compare_counted(&site, &count);
        if let [one, other] = seen[..] {
            assert_eq!(one + other, all, "case {case}: {:02x?} at {:#x}", lab.function.bytes, branch.last);
            compared += 1;
        }
    }
    let few = cases(CASES) / 20;
    assert!(taken > few && passed > few && compared > few, "{taken} taken, {passed} passed, {compared} compared");
}

#[test]
fn ways_that_are_none_are_refused() {
    let mut arena = Arena::new();
    // mov ecx, 9; 1: dec ecx; jne 1b; mov rax, rcx; ret
    let bytes = vec![0xb9, 9, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0x48, 0x89, 0xc8, 0xc3];
    let entry = arena.original();
    arena.write_at(entry, &bytes);
    let lab = Lab { arena: &mut arena, function: Function { entry, bytes }, inputs: vec![0; arena::INPUTS] };
    let way = |from, to| way_site(&lab.code(), &lab.analysis(), entry + from, entry + to, &mut Springboards::new());
    assert_eq!(way(7, 12), Err(Refusal::NoWay { from: entry + 7, to: entry + 12 }));
    assert_eq!(way(5, 7), Err(Refusal::NoWay { from: entry + 5, to: entry + 7 }), "no branch");
    assert_eq!(way(6, 5), Err(Refusal::NoInstruction { at: entry + 6 }));
}

/// Registers that are said to be dead are overwritten, and nobody minds.
#[test]
fn functions_behave_the_same_when_what_is_dead_is_spoiled() {
    let mut arena = Arena::new();
    let mut random = Random::new(seed().rotate_left(7));
    let (mut registers, mut flags) = (0, 0);
    for case in 0..cases(CASES) {
        let mut lab = Lab::new(&mut arena, &mut random);
        let analysis = lab.analysis();
        let liveness = Liveness::of(&lab.code(), &analysis);
        let flow = ControlFlow::of(&analysis);
        let block = &flow.blocks[random.below(flow.blocks.len() as u64) as usize];
        let place = block.range.start + random.below(block.range.end - block.range.start);
        let Ok(site) = point_site(&lab.code(), &analysis, place, &mut Springboards::new()) else { continue };
        if site.at != place || site.jump != JumpForm::Near5 {
            continue;
        }
        let (dead, flags_live) = (liveness.dead_registers(place), liveness.flags_live(place));
        let spoiled = function::spoil(dead, flags_live);
        let expected = lab.arena.call(lab.function.entry, &lab.inputs);
        lab.patch_with(&site, &spoiled);
        let got = lab.arena.call(lab.function.entry, &lab.inputs);
        lab.arena.write_at(lab.function.entry, &lab.function.bytes);
        let seen = format!("case {case}: {:02x?} with {site:#x?}, dead {dead:x?}", lab.function.bytes);
        assert_eq!(function::kept(&got), function::kept(&expected), "{seen}");
        registers += dead.numbers().count() as u64;
        flags += u64::from(!flags_live);
    }
    assert!(registers > cases(CASES) / 20 && flags > cases(CASES) / 20, "{registers} registers, {flags} times flags");
}

/// A loop of four bytes: the branch back is displaced along with its target, and still passes the probe.
#[test]
fn every_pass_of_a_tiny_loop_is_seen() {
    let mut arena = Arena::new();
    // mov ecx, 9; 1: dec ecx; jne 1b; mov rax, rcx; ret
    let bytes = vec![0xb9, 9, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0x48, 0x89, 0xc8, 0xc3];
    let entry = arena.original();
    arena.write_at(entry, &bytes);
    let mut lab = Lab { arena: &mut arena, function: Function { entry, bytes }, inputs: vec![0; arena::INPUTS] };
    let analysis = lab.analysis();
    let flow = ControlFlow::of(&analysis);
    let header = flow.loop_numbered(&[1]).expect("there is a loop").header_at;
    let site = point_site(&lab.code(), &analysis, header, &mut Springboards::new()).expect("there is room");
    let (expected, got) = lab.compare(&[site]);
    assert_eq!(got, expected);
    assert_eq!(lab.arena.probes_seen(), (9, 0));
}

/// Wherever a loop's passes are seen, they are as many as those of its header, less the first where only ways back are
/// seen; and nobody notices, flags included unless nobody reads them.
#[test]
fn every_pass_of_a_loop_is_seen_once() {
    let mut arena = Arena::new();
    let mut random = Random::new(seed().rotate_left(21));
    let count = AtomicU64::new(0);
    let mut seen = [0; 3];
    for case in 0..cases(CASES) {
        let mut lab = Lab::new(&mut arena, &mut random);
        let (analysis, wanted) = (lab.analysis(), random.below(3));
        let flow = ControlFlow::of(&analysis);
        let outermost: Vec<_> = flow.loops.iter().filter(|found| found.depth() == 1).collect();
        let Some(found) = outermost.get(random.below(outermost.len().max(1) as u64) as usize) else { continue };
        let may_take = |site: &PatchSite| match wanted {
            0 => true,
            1 => !site.covered().contains(&found.header_at),
            _ => matches!(site.kind, SiteKind::Exit(_)),
        };
        let Ok((sites, place)) = loop_sites(&lab.code(), &analysis, &flow, found, &may_take) else { continue };
        let liveness = Liveness::of(&lab.code(), &analysis);
        let is_unread = |site: &PatchSite| matches!(site.kind, SiteKind::At(at) if !liveness.flags_live(at));
        let flags_unread = sites.iter().all(is_unread);
        let (expected, got) = lab.compare_for(Purpose::Passes { flags_unread }, &sites);
        let what = format!("case {case} of seed {:#x}: {:02x?} with {sites:#x?}", seed(), lab.function.bytes);
        assert!(flags_unread || got == expected, "{what}");
        assert_eq!(function::kept(&got), function::kept(&expected), "{what}");
        let (passes, left) = lab.arena.probes_seen();
        assert_eq!(left, 0, "{what}");
        let Ok(header) = point_site(&lab.code(), &analysis, found.header_at, &mut Springboards::new()) else {
            continue;
        };
        let (.., all) = lab.compare_counted(&header, &count);
        let back = all.saturating_sub(1);
        match place {
            PassPlace::Header | PassPlace::Inside => assert_eq!(passes, all, "{what}"),
            PassPlace::WaysBack if !found.is_irreducible() => assert_eq!(passes, back, "{what}"),
            _ => assert!((back.min(all)..=all + 1).contains(&passes), "{passes} of {all} {place:?}: {what}"),
        }
        let index = [PassPlace::Header, PassPlace::WaysBack].iter().position(|one| *one == place).unwrap_or(2);
        seen[index] += u64::from(passes > 0);
    }
    assert!(seen.iter().all(|&seen| seen > cases(CASES) / 200), "at headers, on ways back, elsewhere: {seen:?}");
}
