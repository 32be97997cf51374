//! Exits seen one step earlier: at the branches that lead to them.
//!
//! A lone `ret` that is jumped to and has live code behind it leaves no room for a jump. But if every way to it is
//! known, each of them can be patched instead: a branch to the `ret` becomes an exit of its own, and so does the place
//! where control runs into it. The `ret` stays as it is. Next: `site`, which calls this for what it had to refuse.

use crate::SiteKind;
use crate::carrier::{Carrier, Carriers};
use crate::instruction::{Next, Step};
use crate::site::{Planner, Room};
use crate::{
    Analysis, Exit, ExitKind, FunctionCode, JumpForm, NEAR_JUMP_LEN, PatchSite, Refusal, SHORT_JUMP_LEN, Springboards,
};
use std::ops::Range;
use trimtab_types::ProcAddr;

type SeenExit = (Exit, Result<PatchSite, Refusal>);

/// Branches to one exit that are worth patching; more would cost more than they tell.
const EDGES_MAX: usize = 16;

/// Chooses a patch that sees every time control goes from the branch at `from` straight to `to`, and nothing else: the
/// side that the branch takes, or the one on which it runs on.
///
/// It may overlap sites of [`crate::function_sites`] and points; whoever combines them must check.
///
/// # Errors
/// Why that way can't be told from others.
pub fn way_site(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    from: ProcAddr,
    to: ProcAddr,
    springboards: &mut Springboards,
) -> Result<PatchSite, Refusal> {
    let planner = Planner { code, analysis };
    let index = analysis.index_of(from).filter(|&index| analysis.reached[index]);
    let step = analysis.steps[index.ok_or(Refusal::NoInstruction { at: from })?];
    let way = match step.next() {
        Next::Branch(target) if target == to && step.end() != to => {
            Exit { at: from, len: step.len, kind: ExitKind::ConditionalTailJump { target } }
        }
        // That something begins there is what makes this branch the instruction before it.
        Next::Branch(target) if target != to && step.end() == to && analysis.index_of(to).is_some() => {
            Exit { at: to, len: 0, kind: ExitKind::RunsInto { target: to } }
        }
        _ => return Err(Refusal::NoWay { from, to }),
    };
    let mut room = Room { planner, springboards, carriers: Carriers::default() };
    edge_site(&mut room, &way, &[way], &[]).ok_or(Refusal::NoRoom { at: from, bytes: step.len.into() })
}

/// Replaces each refused exit by the ways that lead to it, where all of them can be patched.
pub(crate) fn replace_refused(room: &mut Room<'_>, entry: &mut Result<PatchSite, Refusal>, exits: &mut Vec<SeenExit>) {
    let mut taken: Vec<Range<ProcAddr>> = Vec::new();
    let sites = exits.iter().map(|(_, site)| site).chain([&*entry]);
    taken.extend(sites.flatten().map(PatchSite::covered));
    let refused: Vec<Exit> = exits.iter().filter(|(_, site)| site.is_err()).map(|(exit, _)| *exit).collect();
    for exit in refused {
        let Some(edges) = incoming(room.planner.analysis, &exit) else { continue };
        let whole = entry.as_ref().ok().and_then(|site| whole_with(site, &edges));
        if let Some(seen) = sites_of(room, &edges, whole.as_ref(), &taken) {
            taken.extend(seen.iter().flat_map(|(_, site)| site).map(PatchSite::covered));
            exits.retain(|(other, _)| *other != exit);
            exits.extend(seen);
            if let Some(whole) = whole {
                *entry = Ok(whole);
            }
        }
    }
    exits.sort_by_key(|(exit, _)| *exit);
}

/// Every way to an exit, as exits themselves; none if there may be others.
fn incoming(analysis: &Analysis, exit: &Exit) -> Option<Vec<Exit>> {
    let is_closed = analysis.unresolved_indirect.is_empty()
        && analysis.is_reached(exit.at)
        && !analysis.is_open_target(exit.at)
        && exit.is_unconditional()
        && exit.len > 0;
    let index = analysis.index_of(exit.at).filter(|_| is_closed)?;
    let mut edges = Vec::new();
    for (from, step) in analysis.steps.iter().enumerate() {
        let Some(kind) = edge_kind(step, exit.at) else { continue };
        if !analysis.reached[from] || step.end() == exit.at || edges.len() == EDGES_MAX {
            return None;
        }
        edges.push(Exit { at: step.at, len: step.len, kind });
    }
    let before = index.checked_sub(1).map(|before| (analysis.steps[before], analysis.reached[before]));
    if before.is_some_and(|(step, reached)| reached && step.continues() && step.end() == exit.at) {
        edges.push(Exit { at: exit.at, len: 0, kind: ExitKind::RunsInto { target: exit.at } });
    }
    (!edges.is_empty()).then_some(edges)
}

fn edge_kind(step: &Step, target: ProcAddr) -> Option<ExitKind> {
    match step.next() {
        Next::Branch(to) if to == target => Some(ExitKind::ConditionalTailJump { target }),
        Next::Jump(to) if to == target => Some(ExitKind::TailJump { target }),
        _ => None,
    }
}

/// The entry patch as the patch of one edge too, if that is the last instruction it displaces.
fn whole_with(entry: &PatchSite, edges: &[Exit]) -> Option<PatchSite> {
    let is_last = |edge: &&Exit| edge.len > 0 && edge.end() == entry.displaced.end;
    let edge = edges.iter().find(is_last).filter(|_| entry.kind == SiteKind::Entry)?;
    Some(PatchSite { kind: SiteKind::Whole(*edge), ..entry.clone() })
}

/// A site for each edge, or none at all.
fn sites_of(
    room: &mut Room<'_>,
    edges: &[Exit],
    whole: Option<&PatchSite>,
    taken: &[Range<ProcAddr>],
) -> Option<Vec<SeenExit>> {
    let mut taken = taken.to_vec();
    let mut seen: Vec<(Exit, PatchSite)> = Vec::new();
    let carriers_before = room.carriers.clone();
    for edge in edges {
        if let Some(site) = whole.filter(|site| site.kind == SiteKind::Whole(*edge)) {
            seen.push((*edge, site.clone()));
            continue;
        }
        match edge_site(room, edge, edges, &taken) {
            Some(site) => {
                taken.push(site.covered());
                taken.extend(site.carrier.as_ref().map(Carrier::covered));
                seen.push((*edge, site));
            }
            None => {
                let made = seen.iter().filter(|(_, site)| matches!(site.kind, SiteKind::Exit(_)));
                for (_, site) in made.filter(|(_, site)| matches!(site.jump, JumpForm::Short2 { .. })) {
                    room.springboards.give_back(site.at);
                }
                room.carriers = carriers_before;
                return None;
            }
        }
    }
    Some(seen.into_iter().map(|(edge, site)| (edge, Ok(site))).collect())
}

fn edge_site(room: &mut Room<'_>, edge: &Exit, edges: &[Exit], taken: &[Range<ProcAddr>]) -> Option<PatchSite> {
    let planner = room.planner;
    let last = last_step(planner.analysis, edge)?;
    if taken.iter().any(|range| range.start < last.end() && last.at < range.end) {
        return None;
    }
    // Neither another patch nor another edge may be displaced along with this one.
    let others = edges.iter().filter(|other| other.at < last.at).map(Exit::end);
    let floor = taken.iter().map(|range| range.end).filter(|&end| end <= last.at).chain(others).max();
    let (starts, _) = planner.starts_before(&last, floor.unwrap_or_default());
    let shapes = |jump_len| {
        let mut shapes = planner.exit_shapes(&last, &starts, jump_len);
        shapes.retain(|shape| shape.overwritten().end <= last.end());
        shapes
    };
    let (near, short) = (shapes(NEAR_JUMP_LEN), shapes(SHORT_JUMP_LEN));
    let settled = room.settle(&Ok(near)).or_else(|_| room.settle(&Ok(short.clone()))).ok();
    let site = settled.or_else(|| {
        let mut taken = taken.to_vec();
        taken.extend(
            edges.iter().filter_map(|other| last_step(planner.analysis, other)).map(|last| last.at..last.end()),
        );
        room.settle_carried(&short, &taken)
    })?;
    Some(PatchSite { kind: SiteKind::Exit(*edge), ..site })
}

/// The last instruction that a patch of this edge displaces.
fn last_step(analysis: &Analysis, edge: &Exit) -> Option<Exit> {
    match edge.kind {
        ExitKind::RunsInto { .. } => {
            let step = analysis.steps[analysis.index_of(edge.at)?.checked_sub(1)?];
            Some(Exit { at: step.at, len: step.len, kind: edge.kind })
        }
        _ => Some(*edge),
    }
}
