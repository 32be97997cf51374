//! A site for any instruction: loop heads, call sites, blocks, source lines, addresses.
//!
//! The patch may begin at the instruction itself or, if nothing jumps to it, at one before it; the probe stands right
//! before the instruction either way. What is wanted of a loop is found here too: its header, or else its latch, or else
//! a call that is passed once per iteration. Next: `site` for the rules all patches keep, `probe_island` for the
//! island.

use crate::blocks::ControlFlow;
use crate::carrier::Carriers;
use crate::instruction::Next;
use crate::padding::padding_end;
use crate::site::{Calls, Planner, Room, Shape, check_page};
use crate::{Analysis, FunctionCode, Loop, NEAR_JUMP_LEN, Refusal, SHORT_JUMP_LEN, Site, SiteKind, Springboards};

/// Chooses a patch that sees every pass of the instruction at `address`, before it runs.
///
/// It may overlap sites of [`crate::function_sites`] and other points; whoever combines them must check.
///
/// # Errors
/// Why that instruction can't be seen.
pub fn point_site(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    address: u64,
    springboards: &mut Springboards,
) -> Result<Site, Refusal> {
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

/// Where the iterations of a loop are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopPlace {
    /// At its header: one pass more than iterations if the loop ends where its condition is tested first.
    Header,
    /// In the block that leads back to the header.
    Latch,
    /// At a call that every iteration passes once.
    Call,
}

/// Chooses a patch that every iteration of `found` passes once: at its header, or else in its latch, or else at a call
/// of the loop that no iteration avoids.
///
/// # Errors
/// Why not at the header, if there is no other place; [`Refusal::Irreducible`] if the loop has several entries.
pub fn loop_site(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    flow: &ControlFlow,
    found: &Loop,
    springboards: &mut Springboards,
) -> Result<(Site, LoopPlace), Refusal> {
    if found.is_irreducible() {
        return Err(Refusal::Irreducible { header: found.header_at });
    }
    let refusal = match point_site(code, analysis, found.header_at, springboards) {
        Ok(site) => return Ok((site, LoopPlace::Header)),
        Err(refusal) => refusal,
    };
    let mut latches: Vec<usize> = found.latches.iter().filter_map(|latch| flow.block_at(latch.from)).collect();
    latches.dedup();
    if let [latch] = latches[..]
        && let Some(site) = latch_site(code, analysis, flow, latch, springboards)
    {
        return Ok((site, LoopPlace::Latch));
    }
    let once = |block: usize| {
        let innermost = flow.blocks[block].innermost_loop.map(|index| &flow.loops[index]);
        innermost == Some(found) && latches.iter().all(|&latch| flow.dominates(block, latch))
    };
    let calls = flow.calls.iter().filter(|call| once(call.block));
    let sites = calls.flat_map(|call| [call.at, call.return_address]);
    let site = sites.filter_map(|at| point_site(code, analysis, at, springboards).ok()).next();
    site.map(|site| (site, LoopPlace::Call)).ok_or(refusal)
}

/// A site at any instruction of the latch.
fn latch_site(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    flow: &ControlFlow,
    latch: usize,
    springboards: &mut Springboards,
) -> Option<Site> {
    let range = &flow.blocks[latch].range;
    let first = analysis.index_of(range.start)?;
    let inside = analysis.steps[first..].iter().take_while(|step| step.at < range.end);
    inside.filter_map(|step| point_site(code, analysis, step.at, springboards).ok()).next()
}

/// Instructions before a point that a patch may begin at.
const STARTS_MAX: usize = 8;

impl Planner<'_> {
    /// Where a patch for the instruction at `address` may begin, nearest first, and what ends the search.
    fn starts_around(&self, address: u64) -> (Vec<u64>, Option<Refusal>) {
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
    fn point_shape(&self, start: u64, address: u64, jump_len: u64, calls: Calls) -> Result<Shape, Refusal> {
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
