//! A site for any instruction: loop heads, call sites, blocks, source lines, addresses.
//!
//! The patch may begin at the instruction itself or, if nothing jumps to it, at one before it; the probe stands right
//! before the instruction either way. The points of a loop are found here too: its header, or else its latch, a call that is
//! passed once per iteration, or all ways back. Next: `site` for the rules all patches keep, `probe_island` for the island.

use crate::blocks::ControlFlow;
use crate::carrier::{Carrier, Carriers};
use crate::edge::way_site;
use crate::instruction::Next;
use crate::padding::padding_end;
use crate::site::{Calls, Planner, Room, Shape, check_page};
use crate::springboard::offer_padding;
use crate::{Analysis, FunctionCode, Loop, NEAR_JUMP_LEN, PatchSite, Refusal, SHORT_JUMP_LEN, SiteKind, Springboards};
use std::ops::Range;
use trimtab_types::ProcAddr;

/// Chooses a patch that sees every pass of the instruction at `address`, before it runs.
///
/// It may overlap sites of [`crate::function_sites`] and other points; whoever combines them must check.
///
/// # Errors
/// Why that instruction can't be seen.
pub fn point_site(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    address: ProcAddr,
    springboards: &mut Springboards,
) -> Result<PatchSite, Refusal> {
    let planner = Planner { code, analysis };
    let index = analysis.index_of(address).filter(|&index| analysis.reached[index]);
    let step = analysis.steps[index.ok_or(Refusal::NoInstruction { at: address })?];
    if step.next() == Next::Branch(address) || step.next() == Next::Jump(address) {
        return Err(Refusal::LoopToFirstInstruction { at: address, from: address });
    }
    let (starts, refusal) = planner.starts_around(address);
    let tries = [
        (NEAR_JUMP_LEN, Calls::Stay),
        (SHORT_JUMP_LEN, Calls::Stay),
        (NEAR_JUMP_LEN, Calls::Last),
        (SHORT_JUMP_LEN, Calls::Last),
    ];
    let shapes = tries.iter().flat_map(|&(jump_len, calls)| {
        let shapes = starts.iter().map(move |&start| planner.point_shape(start, address, jump_len, calls));
        shapes.filter_map(Result::ok)
    });
    let shapes: Vec<Shape> = shapes.collect();
    if shapes.is_empty() {
        let first = planner.point_shape(address, address, SHORT_JUMP_LEN, Calls::Last).err();
        return Err(first.or(refusal).unwrap_or(Refusal::NoRoom { at: address, bytes: step.len.into() }));
    }
    let mut room = Room { planner, springboards, carriers: Carriers::default() };
    let plan = Ok(shapes);
    room.settle(&plan).or_else(|refusal| plan.ok().and_then(|shapes| room.settle_carried(&shapes, &[])).ok_or(refusal))
}

/// Where the passes of a loop are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassPlace {
    /// At its header: one pass more than iterations if the loop ends where its condition is tested first.
    Header,
    /// In the block that leads back to the header.
    Latch,
    /// At a call that every iteration passes once.
    Call,
    /// Inside of the header.
    Inside,
    /// At each of the ways back to the header, of which a pass takes one.
    WaysBack,
}

/// Chooses patches of which every pass of `found` goes through one, once: at its header, or else in its latch, at a call of
/// the loop that no pass avoids, inside of the header, or at all ways back to it. Only patches that `may_take` are chosen.
///
/// # Errors
/// Why not at the header, if there is no other place; [`Refusal::Irreducible`] if the loop has several entries and no block
/// that all passes go through.
pub fn loop_sites(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    flow: &ControlFlow,
    found: &Loop,
    may_take: &dyn Fn(&PatchSite) -> bool,
) -> Result<(Vec<PatchSite>, PassPlace), Refusal> {
    if !found.is_counted_at_header {
        return Err(Refusal::Irreducible { header: found.header_at });
    }
    let places = LoopPlaces { code, analysis, flow, may_take };
    let refusal = match point_site(code, analysis, found.header_at, &mut places.padding()) {
        Ok(site) if may_take(&site) => return Ok((vec![site], PassPlace::Header)),
        Ok(site) => Refusal::Taken { at: site.at },
        Err(refusal) => refusal,
    };
    let mut latches: Vec<usize> = found.latches.iter().filter_map(|latch| flow.block_at(latch.from)).collect();
    latches.dedup();
    let one = |site: Option<PatchSite>, place| Some((vec![site?], place));
    // A way back may leave a loop inside at the same time: such a latch is passed in each of that one's passes.
    let in_latch = || match latches[..] {
        [latch] if places.is_of(found, latch) => one(places.inside(latch), PassPlace::Latch),
        _ => None,
    };
    in_latch()
        .or_else(|| one(places.at_call(found, &latches), PassPlace::Call))
        .or_else(|| one(places.inside(found.header), PassPlace::Inside))
        .or_else(|| Some((places.ways_back(found)?, PassPlace::WaysBack)))
        .ok_or(refusal)
}

/// Searches a function for places that see a loop's passes.
struct LoopPlaces<'a> {
    code: &'a FunctionCode<'a>,
    analysis: &'a Analysis,
    flow: &'a ControlFlow,
    may_take: &'a dyn Fn(&PatchSite) -> bool,
}

impl LoopPlaces<'_> {
    /// The function's padding, all of it free.
    fn padding(&self) -> Springboards {
        let mut springboards = Springboards::new();
        offer_padding(self.code, self.analysis, &mut springboards);
        springboards
    }

    fn point(&self, address: ProcAddr, padding: &mut Springboards) -> Option<PatchSite> {
        point_site(self.code, self.analysis, address, padding).ok().filter(self.may_take)
    }

    /// True if a block belongs to a loop itself and to none inside.
    fn is_of(&self, found: &Loop, block: usize) -> bool {
        self.flow.blocks[block].innermost_loop.map(|index| &self.flow.loops[index]) == Some(found)
    }

    /// A site at any instruction of a block.
    fn inside(&self, block: usize) -> Option<PatchSite> {
        let range = &self.flow.blocks[block].range;
        let first = self.analysis.index_of(range.start)?;
        let mut inside = self.analysis.steps[first..].iter().take_while(|step| step.at < range.end);
        inside.find_map(|step| self.point(step.at, &mut self.padding()))
    }

    /// A site at a call of the loop itself that is made on the way to each of its latches.
    fn at_call(&self, found: &Loop, latches: &[usize]) -> Option<PatchSite> {
        let once =
            |block: usize| self.is_of(found, block) && latches.iter().all(|&latch| self.flow.dominates(block, latch));
        let calls = self.flow.calls.iter().filter(|call| once(call.block));
        let mut sites = calls.flat_map(|call| [call.at, call.return_address]);
        sites.find_map(|at| self.point(at, &mut self.padding()))
    }

    /// A site for each way back to the header, no two of which share a byte.
    fn ways_back(&self, found: &Loop) -> Option<Vec<PatchSite>> {
        let (mut padding, mut sites) = (self.padding(), Vec::<PatchSite>::new());
        for edge in &found.latches {
            let block = &self.flow.blocks[self.flow.block_at(edge.from)?];
            let site = match block.successors.len() {
                1 => self.point(block.last, &mut padding)?,
                _ => way_site(self.code, self.analysis, edge.from, edge.to, &mut padding).ok().filter(self.may_take)?,
            };
            if sites.iter().any(|other| share_bytes(other, &site)) {
                return None;
            }
            sites.push(site);
        }
        (!sites.is_empty()).then_some(sites)
    }
}

/// True if two patches need the same bytes.
fn share_bytes(one: &PatchSite, other: &PatchSite) -> bool {
    let ranges = |site: &PatchSite| [Some(site.covered()), site.carrier.as_ref().map(Carrier::covered)];
    let meet = |a: &Range<ProcAddr>, b: &Range<ProcAddr>| a.start < b.end && b.start < a.end;
    ranges(one).iter().flatten().any(|a| ranges(other).iter().flatten().any(|b| meet(a, b)))
}

/// Instructions before a point that a patch may begin at.
const STARTS_MAX: usize = 8;

impl Planner<'_> {
    /// Where a patch for the instruction at `address` may begin, nearest first, and what ends the search.
    fn starts_around(&self, address: ProcAddr) -> (Vec<ProcAddr>, Option<Refusal>) {
        let mut starts = vec![address];
        let Some(mut index) = self.analysis.index_of(address) else { return (starts, None) };
        while starts.len() < STARTS_MAX {
            let at = self.analysis.steps[index].at;
            if self.analysis.may_be_entered(at) {
                return (starts, Some(self.target_refusal(address, at)));
            }
            let Some(before) = index.checked_sub(1) else { break };
            let step = &self.analysis.steps[before];
            let comes_from = step.end() == at && self.analysis.reached[before] && step.continues() && !step.is_call();
            if !comes_from || self.check_displaceable(address, step).is_err() {
                break;
            }
            starts.push(step.at);
            index = before;
        }
        (starts, None)
    }

    /// The shape that begins at `start`, displaces the instruction at `address` and leaves room for the jump.
    fn point_shape(&self, start: ProcAddr, address: ProcAddr, jump_len: u64, calls: Calls) -> Result<Shape, Refusal> {
        check_page(start, jump_len)?;
        let kind = SiteKind::At(address);
        let mut at = start;
        loop {
            let step = self.step_inside(start, at)?;
            let end = step.end();
            let is_enough = end - start >= jump_len && end > address;
            if step.is_call() {
                return match is_enough && calls == Calls::Last {
                    true => Ok(Shape { jump_len, displaced: start..end, resume: None, kind }),
                    false => Err(Refusal::CallDisplaced { patch: start, at: step.at }),
                };
            }
            if !step.continues() {
                let bytes = padding_end(self.code, self.analysis, end) - start;
                return match bytes >= jump_len && end > address {
                    true => Ok(Shape { jump_len, displaced: start..end, resume: None, kind }),
                    false => Err(Refusal::NoRoom { at: start, bytes }),
                };
            }
            if is_enough {
                return Ok(Shape { jump_len, displaced: start..end, resume: Some(end), kind });
            }
            at = end;
        }
    }
}
