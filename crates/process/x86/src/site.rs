//! Which bytes of a function become a jump, and which instructions move to the island for it.
//!
//! A patch takes whole instructions, holds no address that anything may jump to behind its first byte, lies within
//! one page and overlaps no other patch of the function. If it displaces a call, that is the last instruction, so that
//! the callee comes back to code that is untouched. Five bytes take a near jump; where only two are free, a short jump
//! goes to a springboard in padding or, if there is none, in code that a carrier frees. A function so short that its
//! exit falls into the entry patch is displaced whole. Next: `analyse` for the facts used here, `springboard`,
//! `carrier`, `edge` for single bytes, `relocate`.

use crate::analyse::{ENTRY_MARKER, entry_has_marker};
use crate::carrier::{Carrier, Carriers};
use crate::edge;
use crate::instruction::{Fixed, Step};
use crate::padding::{padding_end, padding_runs};
use crate::{Analysis, Exit, ExitKind, FunctionCode, NEAR_JUMP_LEN, PAGE_BYTES, Refusal, SHORT_JUMP_LEN, Springboards};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use trimtab_types::ProcAddr;

/// A place to patch, at addresses of a process or, as `A`, of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchSite<A = ProcAddr> {
    /// First overwritten byte: where the jump goes.
    pub at: A,
    /// Exactly the bytes of the jump. Nothing else is written here (a springboard is written elsewhere).
    pub overwritten: Range<A>,
    /// Whole instructions that run in the island instead. For exits and whole functions they end with the leaving
    /// instruction. May end before or behind `overwritten`; a thread standing inside at any but the first
    /// instruction must be moved with them.
    pub displaced: Range<A>,
    /// Where the island jumps back to; none if the displaced instructions never run on.
    pub resume: Option<A>,
    /// The jump that fits.
    pub jump: JumpForm<A>,
    /// The kind of passage.
    pub kind: SiteKind<A>,
    /// The patch that frees the springboard's bytes, if they are code: it must be in place before the springboard.
    /// Several sites may share one.
    pub carrier: Option<Carrier<A>>,
}

/// The jump that fits at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JumpForm<A = ProcAddr> {
    /// `jmp rel32` to the island.
    Near5,
    /// `jmp rel8` to a `jmp rel32` at `via`: five bytes of padding, or freed by a carrier, that become part of the
    /// patch.
    Short2 {
        /// The springboard's address.
        via: A,
    },
}

impl PatchSite {
    /// Every byte that the patch overwrites or takes out of use here.
    pub fn covered(&self) -> Range<ProcAddr> {
        self.at..self.displaced.end.max(self.overwritten.end)
    }
}

/// The kind of passage at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SiteKind<A = ProcAddr> {
    /// Every call, before its first instruction.
    Entry,
    /// Every leave by this exit: the probe belongs right before the last displaced instruction.
    Exit(Exit<A>),
    /// Both: the entry probe belongs before the displaced instructions, the exit probe before the last of them. The
    /// last may be a conditional tail jump; then there is an address to resume at.
    Whole(Exit<A>),
    /// Every pass of the displaced instruction at this address, before it. Flags and all registers may be in use, and so
    /// may the red zone below the stack pointer.
    At(A),
}

/// All sites of one function; no two overlap, save that a `Whole` site stands for the entry and one exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSites {
    /// Where to see calls.
    pub entry: Result<PatchSite, Refusal>,
    /// Where to see each way out. Usually these are [`Analysis::exits`]; an exit that can't be patched itself, but all
    /// of whose incoming branches can, is replaced by these.
    pub exits: Vec<(Exit, Result<PatchSite, Refusal>)>,
}

impl FunctionSites {
    /// Every site there is, the entry first; a `Whole` site comes twice.
    pub fn all(&self) -> impl Iterator<Item = &PatchSite> {
        self.entry.iter().chain(self.exits.iter().filter_map(|(_, site)| site.as_ref().ok()))
    }
}

/// Chooses all sites of a function, which fit together whether all or only some are used.
pub fn function_sites(code: &FunctionCode<'_>, analysis: &Analysis, springboards: &mut Springboards) -> FunctionSites {
    chosen(code, analysis, &Draft::new(code, analysis), springboards)
}

/// [`function_sites`] with no padding but the function's own: what one function can have by itself, whatever is done
/// to its neighbours.
pub fn own_sites(code: &FunctionCode<'_>, analysis: &Analysis) -> FunctionSites {
    let draft = Draft::new(code, analysis);
    let mut springboards = Springboards::new();
    springboards.offer(padding_runs(code, analysis), &draft.reserved());
    chosen(code, analysis, &draft, &mut springboards)
}

fn chosen(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    draft: &Draft,
    springboards: &mut Springboards,
) -> FunctionSites {
    let mut room = Room { planner: Planner { code, analysis }, springboards, carriers: Carriers::default() };
    let mut entry = room.settle(&draft.entry);
    let is_whole = |exit: &Exit| draft.entry.iter().flatten().any(|shape| shape.kind == SiteKind::Whole(*exit));
    let exits = draft.exits.iter().map(|(exit, plan)| match is_whole(exit) {
        true => (*exit, Err(Refusal::ExitInsideEntry { at: exit.at })),
        false => (*exit, room.settle(plan)),
    });
    let mut exits: Vec<_> = exits.collect();
    draft.carry(&mut room, &mut entry, &mut exits);
    for (_, site) in exits.iter_mut().filter(|(exit, _)| is_whole(exit)) {
        *site = entry.clone();
    }
    edge::replace_refused(&mut room, &mut entry, &mut exits);
    FunctionSites { entry, exits }
}

/// Bytes that the function's own patches overwrite and that springboards must therefore leave alone.
pub(crate) fn reserved_padding(code: &FunctionCode<'_>, analysis: &Analysis) -> Vec<Range<ProcAddr>> {
    Draft::new(code, analysis).reserved()
}

/// The room that sites are made from: the function, padding, and what carriers freed.
pub(crate) struct Room<'a> {
    pub(crate) planner: Planner<'a>,
    pub(crate) springboards: &'a mut Springboards,
    pub(crate) carriers: Carriers,
}

impl Room<'_> {
    /// Gives the first of the shapes that is a near jump or for which padding has room for a springboard.
    pub(crate) fn settle(&mut self, plan: &Result<Vec<Shape>, Refusal>) -> Result<PatchSite, Refusal> {
        let shapes = plan.as_ref().map_err(Clone::clone)?;
        for shape in shapes.iter().filter(|shape| self.carriers.leave_alone(&shape.covered())) {
            if shape.jump_len == NEAR_JUMP_LEN {
                return Ok(shape.site(JumpForm::Near5));
            }
            if let Some(via) = self.springboards.allocate(shape.displaced.start) {
                return Ok(shape.site(JumpForm::Short2 { via }));
            }
        }
        let nearest = shapes.first().map_or(Range::default(), |shape| shape.displaced.clone());
        Err(Refusal::NoSpringboard { at: nearest.start, bytes: nearest.end - nearest.start })
    }

    /// The first of the shapes that a carrier can give a springboard, `taken` being out of bounds for the carrier.
    pub(crate) fn settle_carried(&mut self, shapes: &[Shape], taken: &[Range<ProcAddr>]) -> Option<PatchSite> {
        let free = shapes.iter().filter(|shape| self.carriers.leave_alone(&shape.covered())).collect::<Vec<_>>();
        free.into_iter().filter(|shape| shape.jump_len == SHORT_JUMP_LEN).find_map(|shape| {
            let mut taken = taken.to_vec();
            taken.push(shape.covered());
            let (via, carrier) = self.carriers.springboard(&self.planner, shape.displaced.start, &taken)?;
            Some(PatchSite { carrier: Some(carrier), ..shape.site(JumpForm::Short2 { via }) })
        })
    }
}

/// A site before its springboard is known.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) jump_len: u64,
    pub(crate) displaced: Range<ProcAddr>,
    pub(crate) resume: Option<ProcAddr>,
    pub(crate) kind: SiteKind,
}

impl Shape {
    pub(crate) fn overwritten(&self) -> Range<ProcAddr> {
        self.displaced.start..self.displaced.start + self.jump_len
    }

    /// Every byte that is overwritten or taken out of use.
    pub(crate) fn covered(&self) -> Range<ProcAddr> {
        self.displaced.start..self.displaced.end.max(self.overwritten().end)
    }

    fn site(&self, jump: JumpForm) -> PatchSite {
        PatchSite {
            at: self.displaced.start,
            overwritten: self.overwritten(),
            displaced: self.displaced.clone(),
            resume: self.resume,
            jump,
            kind: self.kind,
            carrier: None,
        }
    }
}

/// Shapes per place, best first; never an empty list.
struct Draft {
    entry: Result<Vec<Shape>, Refusal>,
    exits: Vec<(Exit, Result<Vec<Shape>, Refusal>)>,
}

impl Draft {
    fn new(code: &FunctionCode<'_>, analysis: &Analysis) -> Draft {
        let planner = Planner { code, analysis };
        let mut draft = Draft { entry: planner.entry(), exits: Vec::new() };
        let taken = draft.entry_range();
        for exit in &analysis.exits {
            draft.exits.push((*exit, planner.exit(exit, &taken)));
        }
        draft.prefer_whole(&planner);
        draft
    }

    /// The bytes that the entry patch displaces or overwrites.
    fn entry_range(&self) -> Range<ProcAddr> {
        let shapes = self.entry.iter().flatten().map(Shape::covered);
        shapes.reduce(|one, other| one.start..one.end.max(other.end)).unwrap_or_default()
    }

    fn reserved(&self) -> Vec<Range<ProcAddr>> {
        let plans = self.exits.iter().map(|(_, plan)| plan).chain([&self.entry]);
        plans.flatten().filter_map(|shapes| shapes.first()).map(Shape::overwritten).collect()
    }

    /// Gives what padding had no room for a springboard in code.
    fn carry(
        &self,
        room: &mut Room<'_>,
        entry: &mut Result<PatchSite, Refusal>,
        exits: &mut [(Exit, Result<PatchSite, Refusal>)],
    ) {
        let lacks = |site: &Result<PatchSite, Refusal>| matches!(site, Err(Refusal::NoSpringboard { .. }));
        if !lacks(entry) && !exits.iter().any(|(_, site)| lacks(site)) {
            return;
        }
        let mut taken: Vec<Range<ProcAddr>> = vec![self.entry_range()];
        // Nobody may take what another site of the function still needs.
        let smallest = |plan: &Result<Vec<Shape>, Refusal>| {
            plan.iter().flatten().map(Shape::covered).min_by_key(|covered| covered.end - covered.start)
        };
        taken.extend(self.exits.iter().filter_map(|(_, plan)| smallest(plan)));
        taken.extend(exits.iter().filter_map(|(_, site)| site.as_ref().ok()).map(PatchSite::covered));
        let places = self.exits.iter().map(|(_, plan)| plan).zip(exits.iter_mut().map(|(_, site)| site));
        for (plan, site) in std::iter::once((&self.entry, entry)).chain(places) {
            let Ok(shapes) = plan else { continue };
            if let (true, Some(carried)) = (lacks(site), room.settle_carried(shapes, &taken)) {
                taken.push(carried.covered());
                taken.extend(carried.carrier.as_ref().map(Carrier::covered));
                *site = Ok(carried);
            }
        }
    }

    /// Where an exit has no near jump of its own but is reached straight from the entry, displaces everything.
    fn prefer_whole(&mut self, planner: &Planner<'_>) {
        let Ok(shapes) = &mut self.entry else { return };
        let Some(start) = shapes.first().filter(|s| s.kind == SiteKind::Entry).map(|s| s.displaced.start) else {
            return;
        };
        let needs_whole = |plan: &Result<Vec<Shape>, Refusal>| match plan {
            Ok(shapes) => shapes.iter().all(|shape| shape.jump_len != NEAR_JUMP_LEN),
            Err(_) => true,
        };
        let whole = self.exits.iter().find(|(exit, plan)| {
            exit.is_unconditional() && needs_whole(plan) && planner.starts_before(exit, start).0.contains(&start)
        });
        if let Some((exit, _)) = whole {
            for shape in shapes {
                shape.displaced.end = exit.end();
                shape.resume = None;
                shape.kind = SiteKind::Whole(*exit);
            }
        }
    }
}

/// The calls that a patch may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Leave them where they are.
    Stay,
    /// Displace one, as the last instruction.
    Last,
}

#[derive(Clone, Copy)]
pub(crate) struct Planner<'a> {
    pub(crate) code: &'a FunctionCode<'a>,
    pub(crate) analysis: &'a Analysis,
}

impl Planner<'_> {
    fn entry(&self) -> Result<Vec<Shape>, Refusal> {
        let marker_len = if entry_has_marker(self.code) { ENTRY_MARKER.len() as u64 } else { 0 };
        let start = self.code.entry + marker_len;
        if let Some(&from) = self.analysis.branches_to_entry.first() {
            return Err(Refusal::LoopToFirstInstruction { at: start, from });
        }
        // A displaced call costs a mispredicted return, so a springboard comes before it.
        let near = self.shape_from(start, NEAR_JUMP_LEN, Calls::Stay);
        let refusal = match near {
            Ok(shape) => return Ok(vec![shape]),
            Err(refusal) => refusal,
        };
        let others = [(SHORT_JUMP_LEN, Calls::Stay), (NEAR_JUMP_LEN, Calls::Last), (SHORT_JUMP_LEN, Calls::Last)];
        let shapes = others.iter().filter_map(|&(jump_len, calls)| self.shape_from(start, jump_len, calls).ok());
        let shapes: Vec<Shape> = shapes.collect();
        if shapes.is_empty() { Err(refusal) } else { Ok(shapes) }
    }

    /// The shape that displaces as many instructions from `start` as a jump of `jump_len` bytes needs.
    fn shape_from(&self, start: ProcAddr, jump_len: u64, calls: Calls) -> Result<Shape, Refusal> {
        check_page(start, jump_len)?;
        let mut at = start;
        loop {
            let step = self.step_inside(start, at)?;
            if step.is_call() {
                return self.call_at_end(start, jump_len, &step, calls);
            }
            if !step.continues() {
                return self.whole_or_jump(start, jump_len, &step);
            }
            at = step.end();
            if let Some(exit) = self.exit_at(step.at) {
                if at - start < jump_len {
                    return Err(Refusal::ExitInsideEntry { at: exit.at });
                }
                return Ok(Shape { jump_len, displaced: start..at, resume: Some(at), kind: SiteKind::Whole(*exit) });
            }
            if at - start >= jump_len {
                return Ok(Shape { jump_len, displaced: start..at, resume: Some(at), kind: SiteKind::Entry });
            }
        }
    }

    /// The shape whose last instruction is a call: the callee returns behind it, so nothing resumes.
    fn call_at_end(&self, start: ProcAddr, jump_len: u64, call: &Step, calls: Calls) -> Result<Shape, Refusal> {
        if calls == Calls::Stay || call.end() - start < jump_len {
            return Err(Refusal::CallDisplaced { patch: start, at: call.at });
        }
        Ok(Shape { jump_len, displaced: start..call.end(), resume: None, kind: SiteKind::Entry })
    }

    fn whole_or_jump(&self, start: ProcAddr, jump_len: u64, last: &Step) -> Result<Shape, Refusal> {
        let bytes = padding_end(self.code, self.analysis, last.end()) - start;
        if bytes < jump_len {
            return Err(Refusal::NoRoom { at: start, bytes });
        }
        let kind = self.exit_at(last.at).map_or(SiteKind::Entry, |exit| SiteKind::Whole(*exit));
        Ok(Shape { jump_len, displaced: start..last.end(), resume: None, kind })
    }

    pub(crate) fn exit_at(&self, at: ProcAddr) -> Option<&Exit> {
        let exits = &self.analysis.exits;
        exits.binary_search_by_key(&at, |exit| exit.at).ok().map(|index| &exits[index]).filter(|exit| exit.len > 0)
    }

    /// The instruction at `at`, if it may be displaced by a patch that begins at `start`.
    pub(crate) fn step_inside(&self, start: ProcAddr, at: ProcAddr) -> Result<Step, Refusal> {
        let index = self.analysis.index_of(at).ok_or(Refusal::FallsThrough { at })?;
        let step = self.analysis.steps[index];
        if at != start && self.analysis.may_be_entered(at) {
            return Err(self.target_refusal(start, at));
        }
        self.check_displaceable(start, &step)?;
        Ok(step)
    }

    pub(crate) fn check_displaceable(&self, start: ProcAddr, step: &Step) -> Result<(), Refusal> {
        if let Some(target) = self.analysis.first_target(step.at + 1..step.end()) {
            return Err(Refusal::TargetInside { at: start, target });
        }
        match step.fixed {
            None => Ok(()),
            Some(Fixed::Restartable) => Err(Refusal::Restartable { at: step.at }),
            Some(Fixed::MayFault) => Err(Refusal::MayFault { at: step.at }),
            Some(fixed) => Err(Refusal::Unmovable { at: step.at, what: fixed.what() }),
        }
    }

    pub(crate) fn target_refusal(&self, at: ProcAddr, target: ProcAddr) -> Refusal {
        match self.analysis.unresolved_indirect.first() {
            Some(&jump) if self.analysis.first_target(target..target + 1).is_none() => {
                Refusal::UnresolvedJump { at, jump }
            }
            _ => Refusal::TargetInside { at, target },
        }
    }

    fn exit(&self, exit: &Exit, entry: &Range<ProcAddr>) -> Result<Vec<Shape>, Refusal> {
        if exit.kind == ExitKind::FallsThrough {
            return Err(Refusal::FallsThrough { at: exit.at });
        }
        if entry.contains(&exit.at) {
            return Err(Refusal::ExitInsideEntry { at: exit.at });
        }
        if self.analysis.may_hold_data && !self.analysis.is_reached(exit.at) {
            return Err(Refusal::MaybeData { at: exit.at });
        }
        let floor = if exit.at >= entry.end { entry.end } else { ProcAddr(0) };
        let (starts, stop) = self.starts_before(exit, floor);
        if let Some(shape) = self.exit_shapes(exit, &starts, NEAR_JUMP_LEN).into_iter().next() {
            return Ok(vec![shape]);
        }
        let shorts = self.exit_shapes(exit, &starts, SHORT_JUMP_LEN);
        match shorts.is_empty() {
            false => Ok(shorts),
            true => Err(self.exit_refusal(exit, &starts, stop)),
        }
    }

    /// Where a patch for `exit` may begin, nearest first, and what ends the search. Not below `floor`.
    pub(crate) fn starts_before(&self, exit: &Exit, floor: ProcAddr) -> (Vec<ProcAddr>, Option<Refusal>) {
        let mut starts = Vec::new();
        let Some(mut index) = self.analysis.index_of(exit.at) else { return (starts, None) };
        loop {
            let step = self.analysis.steps[index];
            if let Err(refusal) = self.check_displaceable(exit.at, &step) {
                return (starts, Some(refusal));
            }
            if step.is_call() {
                return (starts, Some(Refusal::CallDisplaced { patch: exit.at, at: step.at }));
            }
            starts.push(step.at);
            if self.analysis.may_be_entered(step.at) {
                return (starts, Some(self.target_refusal(exit.at, step.at)));
            }
            if exit.end() - step.at > EXIT_DISPLACED_MAX {
                return (starts, None);
            }
            match self.step_before(index, floor) {
                Some(before) => index = before,
                None => return (starts, None),
            }
        }
    }

    /// The instruction that control comes from, unless it is an exit itself or lies below `floor`.
    fn step_before(&self, index: usize, floor: ProcAddr) -> Option<usize> {
        let before = index.checked_sub(1)?;
        let step = &self.analysis.steps[before];
        let comes_from =
            step.at >= floor && step.end() == self.analysis.steps[index].at && self.analysis.reached[before];
        (comes_from && step.continues() && self.exit_at(step.at).is_none()).then_some(before)
    }

    /// The shapes at all `starts`. Those that overwrite the least padding come first, because springboards need it.
    pub(crate) fn exit_shapes(&self, exit: &Exit, starts: &[ProcAddr], jump_len: u64) -> Vec<Shape> {
        let shapes = starts.iter().filter_map(|&start| self.exit_shape(exit, start, jump_len));
        let mut shapes: Vec<Shape> = shapes.collect();
        shapes.sort_by_key(|shape| shape.overwritten().end.0.saturating_sub(exit.end().0));
        shapes
    }

    fn exit_shape(&self, exit: &Exit, start: ProcAddr, jump_len: u64) -> Option<Shape> {
        let fits = self.exit_room_end(exit) - start >= jump_len && check_page(start, jump_len).is_ok();
        let resume = (!exit.is_unconditional()).then(|| exit.end());
        fits.then(|| Shape { jump_len, displaced: start..exit.end(), resume, kind: SiteKind::Exit(*exit) })
    }

    fn exit_room_end(&self, exit: &Exit) -> ProcAddr {
        match exit.is_unconditional() {
            true => padding_end(self.code, self.analysis, exit.end()),
            false => exit.end(),
        }
    }

    fn exit_refusal(&self, exit: &Exit, starts: &[ProcAddr], stop: Option<Refusal>) -> Refusal {
        let room_end = self.exit_room_end(exit);
        let crosses = starts.iter().find(|&&start| room_end - start >= SHORT_JUMP_LEN);
        match (crosses, stop) {
            (Some(&at), _) => Refusal::CrossesPage { at },
            (None, Some(stop)) if !matches!(stop, Refusal::TargetInside { .. }) => stop,
            _ => Refusal::NoRoom { at: exit.at, bytes: room_end - exit.at },
        }
    }
}

/// How far before an exit's end a patch may begin; far more than a jump needs, also around a page boundary.
const EXIT_DISPLACED_MAX: u64 = 48;

pub(crate) fn check_page(at: ProcAddr, jump_len: u64) -> Result<(), Refusal> {
    match at.0 / PAGE_BYTES == (at.0 + jump_len - 1) / PAGE_BYTES {
        true => Ok(()),
        false => Err(Refusal::CrossesPage { at }),
    }
}
