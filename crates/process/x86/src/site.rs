//! Which bytes of a function become a jump, and which instructions move to the island for it.
//!
//! A patch takes whole instructions, holds no address that anything may jump to behind its first byte, displaces no
//! call, lies within one page and overlaps no other patch of the function. Five bytes take a near jump; where only
//! two are free, a short jump goes to a springboard. A function so short that its exit falls into the entry patch is
//! displaced whole. A refused single byte (a lone `ret` that is jumped to, with live code behind it) is the seam for
//! finer methods. Next: `analyse` for the facts used here, `springboard`, `relocate`.

use crate::analyse::{ENTRY_MARKER, entry_has_marker};
use crate::edge;
use crate::instruction::{Fixed, Step};
use crate::padding::padding_end;
use crate::{Analysis, Exit, ExitKind, FunctionCode, NEAR_JUMP_LEN, PAGE_BYTES, Refusal, SHORT_JUMP_LEN, Springboards};
use std::ops::Range;

/// A place to patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// First overwritten byte: where the jump goes.
    pub at: u64,
    /// Exactly the bytes of the jump. Nothing else is written here (a springboard is written elsewhere).
    pub overwritten: Range<u64>,
    /// Whole instructions that run in the island instead. For exits and whole functions they end with the leaving
    /// instruction. May end before or behind `overwritten`; a thread standing inside at any but the first
    /// instruction must be moved with them.
    pub displaced: Range<u64>,
    /// Where the island jumps back to; none if the displaced instructions never run on.
    pub resume: Option<u64>,
    /// The jump that fits.
    pub jump: JumpForm,
    /// What passes here.
    pub kind: SiteKind,
}

/// The jump that fits at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpForm {
    /// `jmp rel32` to the island.
    Near5,
    /// `jmp rel8` to a `jmp rel32` at `via`, five bytes of padding that become part of the patch.
    Short2 {
        /// The springboard's address.
        via: u64,
    },
}

impl Site {
    /// Every byte that the patch overwrites or takes out of use here.
    pub fn covered(&self) -> Range<u64> {
        self.at..self.displaced.end.max(self.overwritten.end)
    }
}

/// What passes at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKind {
    /// Every call, before its first instruction.
    Entry,
    /// Every leave by this exit: the probe belongs right before the last displaced instruction.
    Exit(Exit),
    /// Both: the entry probe belongs before the displaced instructions, the exit probe before the last of them. The
    /// last may be a conditional tail jump; then there is an address to resume at.
    Whole(Exit),
}

/// All sites of one function; no two overlap, save that a `Whole` site stands for the entry and one exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSites {
    /// Where to see calls.
    pub entry: Result<Site, Refusal>,
    /// Where to see each way out. Usually these are [`Analysis::exits`]; an exit that can't be patched itself, but all
    /// of whose incoming branches can, is replaced by these.
    pub exits: Vec<(Exit, Result<Site, Refusal>)>,
}

/// Chooses all sites of a function, which fit together whether all or only some are used.
pub fn function_sites(code: &FunctionCode<'_>, analysis: &Analysis, springboards: &mut Springboards) -> FunctionSites {
    let draft = Draft::new(code, analysis);
    let mut entry = settle(&draft.entry, springboards);
    let exits = draft.exits.iter().map(|(exit, plan)| {
        let site = match &draft.entry {
            Ok(shapes) if shapes.iter().any(|shape| shape.kind == SiteKind::Whole(*exit)) => entry.clone(),
            _ => settle(plan, springboards),
        };
        (*exit, site)
    });
    let mut exits: Vec<_> = exits.collect();
    edge::replace_refused(code, analysis, springboards, &mut entry, &mut exits);
    FunctionSites { entry, exits }
}

/// The entry of [`function_sites`].
///
/// # Errors
/// Why calls can't be seen.
pub fn entry_site(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    springboards: &mut Springboards,
) -> Result<Site, Refusal> {
    function_sites(code, analysis, springboards).entry
}

/// The exits of [`function_sites`].
pub fn exit_sites(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    springboards: &mut Springboards,
) -> Vec<(Exit, Result<Site, Refusal>)> {
    function_sites(code, analysis, springboards).exits
}

/// Bytes that the function's own patches overwrite and that springboards must therefore leave alone.
pub(crate) fn reserved_padding(code: &FunctionCode<'_>, analysis: &Analysis) -> Vec<Range<u64>> {
    let draft = Draft::new(code, analysis);
    let plans = draft.exits.iter().map(|(_, plan)| plan).chain([&draft.entry]);
    plans.flatten().filter_map(|shapes| shapes.first()).map(Shape::overwritten).collect()
}

/// Gives the first of the shapes that is a near jump or for which there is a springboard.
pub(crate) fn settle(plan: &Result<Vec<Shape>, Refusal>, springboards: &mut Springboards) -> Result<Site, Refusal> {
    let shapes = plan.as_ref().map_err(Clone::clone)?;
    for shape in shapes {
        if shape.jump_len == NEAR_JUMP_LEN {
            return Ok(shape.site(JumpForm::Near5));
        }
        if let Some(via) = springboards.allocate(shape.displaced.start) {
            return Ok(shape.site(JumpForm::Short2 { via }));
        }
    }
    let nearest = shapes.first().map_or(0..0, |shape| shape.displaced.clone());
    Err(Refusal::NoSpringboard { at: nearest.start, bytes: nearest.end - nearest.start })
}

/// A site before its springboard is known.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    jump_len: u64,
    pub(crate) displaced: Range<u64>,
    resume: Option<u64>,
    kind: SiteKind,
}

impl Shape {
    pub(crate) fn overwritten(&self) -> Range<u64> {
        self.displaced.start..self.displaced.start + self.jump_len
    }

    fn site(&self, jump: JumpForm) -> Site {
        Site {
            at: self.displaced.start,
            overwritten: self.overwritten(),
            displaced: self.displaced.clone(),
            resume: self.resume,
            jump,
            kind: self.kind,
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
    fn entry_range(&self) -> Range<u64> {
        match self.entry.as_ref().map(|shapes| shapes.first()) {
            Ok(Some(shape)) => shape.displaced.start..shape.displaced.end.max(shape.overwritten().end),
            _ => 0..0,
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
        let near = self.shape_from(start, NEAR_JUMP_LEN);
        let short = || self.shape_from(start, SHORT_JUMP_LEN);
        near.or_else(|refusal| short().map_err(|_| refusal)).map(|shape| vec![shape])
    }

    /// The shape that displaces as many instructions from `start` as a jump of `jump_len` bytes needs.
    fn shape_from(&self, start: u64, jump_len: u64) -> Result<Shape, Refusal> {
        check_page(start, jump_len)?;
        let mut at = start;
        loop {
            let step = self.step_inside(start, at)?;
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

    fn whole_or_jump(&self, start: u64, jump_len: u64, last: &Step) -> Result<Shape, Refusal> {
        let bytes = padding_end(self.code, self.analysis, last.end()) - start;
        if bytes < jump_len {
            return Err(Refusal::NoRoom { at: start, bytes });
        }
        let kind = self.exit_at(last.at).map_or(SiteKind::Entry, |exit| SiteKind::Whole(*exit));
        Ok(Shape { jump_len, displaced: start..last.end(), resume: None, kind })
    }

    fn exit_at(&self, at: u64) -> Option<&Exit> {
        let exits = &self.analysis.exits;
        exits.binary_search_by_key(&at, |exit| exit.at).ok().map(|index| &exits[index]).filter(|exit| exit.len > 0)
    }

    /// The instruction at `at`, if it may be displaced by a patch that begins at `start`.
    fn step_inside(&self, start: u64, at: u64) -> Result<Step, Refusal> {
        let index = self.analysis.index_of(at).ok_or(Refusal::FallsThrough { at })?;
        let step = self.analysis.steps[index];
        if at != start && self.analysis.may_be_entered(at) {
            return Err(self.target_refusal(start, at));
        }
        self.check_displaceable(start, &step)?;
        Ok(step)
    }

    fn check_displaceable(&self, start: u64, step: &Step) -> Result<(), Refusal> {
        if let Some(&target) = self.analysis.targets.range(step.at + 1..step.end()).next() {
            return Err(Refusal::TargetInside { at: start, target });
        }
        match step.fixed {
            None => Ok(()),
            Some(Fixed::Call) => Err(Refusal::CallDisplaced { patch: start, at: step.at }),
            Some(Fixed::Unmovable(what)) => Err(Refusal::Unmovable { at: step.at, what }),
        }
    }

    fn target_refusal(&self, at: u64, target: u64) -> Refusal {
        match self.analysis.unresolved_indirect.first() {
            Some(&jump) if !self.analysis.targets.contains(&target) => Refusal::UnresolvedJump { at, jump },
            _ => Refusal::TargetInside { at, target },
        }
    }

    fn exit(&self, exit: &Exit, entry: &Range<u64>) -> Result<Vec<Shape>, Refusal> {
        if exit.kind == ExitKind::FallsThrough {
            return Err(Refusal::FallsThrough { at: exit.at });
        }
        if entry.contains(&exit.at) {
            return Err(Refusal::ExitInsideEntry { at: exit.at });
        }
        if self.analysis.may_hold_data && !self.analysis.is_reached(exit.at) {
            return Err(Refusal::MaybeData { at: exit.at });
        }
        let floor = if exit.at >= entry.end { entry.end } else { 0 };
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
    pub(crate) fn starts_before(&self, exit: &Exit, floor: u64) -> (Vec<u64>, Option<Refusal>) {
        let mut starts = Vec::new();
        let Some(mut index) = self.analysis.index_of(exit.at) else { return (starts, None) };
        loop {
            let step = self.analysis.steps[index];
            if let Err(refusal) = self.check_displaceable(exit.at, &step) {
                return (starts, Some(refusal));
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
    fn step_before(&self, index: usize, floor: u64) -> Option<usize> {
        let before = index.checked_sub(1)?;
        let step = &self.analysis.steps[before];
        let comes_from =
            step.at >= floor && step.end() == self.analysis.steps[index].at && self.analysis.reached[before];
        (comes_from && step.continues() && self.exit_at(step.at).is_none()).then_some(before)
    }

    /// The shapes at all `starts`. Those that overwrite the least padding come first, because springboards need it.
    pub(crate) fn exit_shapes(&self, exit: &Exit, starts: &[u64], jump_len: u64) -> Vec<Shape> {
        let shapes = starts.iter().filter_map(|&start| self.exit_shape(exit, start, jump_len));
        let mut shapes: Vec<Shape> = shapes.collect();
        shapes.sort_by_key(|shape| shape.overwritten().end.saturating_sub(exit.end()));
        shapes
    }

    fn exit_shape(&self, exit: &Exit, start: u64, jump_len: u64) -> Option<Shape> {
        let fits = self.exit_room_end(exit) - start >= jump_len && check_page(start, jump_len).is_ok();
        let resume = (!exit.is_unconditional()).then(|| exit.end());
        fits.then(|| Shape { jump_len, displaced: start..exit.end(), resume, kind: SiteKind::Exit(*exit) })
    }

    fn exit_room_end(&self, exit: &Exit) -> u64 {
        match exit.is_unconditional() {
            true => padding_end(self.code, self.analysis, exit.end()),
            false => exit.end(),
        }
    }

    fn exit_refusal(&self, exit: &Exit, starts: &[u64], stop: Option<Refusal>) -> Refusal {
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

fn check_page(at: u64, jump_len: u64) -> Result<(), Refusal> {
    match at / PAGE_BYTES == (at + jump_len - 1) / PAGE_BYTES {
        true => Ok(()),
        false => Err(Refusal::CrossesPage { at }),
    }
}
