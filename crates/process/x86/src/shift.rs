//! The same decisions for another place: a file is mapped somewhere else in each process, its code is the same.
//!
//! Which addresses a site or a refusal has is part of its type, so that those that are kept for a file can't be taken for
//! those of a process, and none is left behind where one becomes the other.
//!
//! Next: `site` and `refusal` for what they mean.

use crate::{Carrier, Exit, ExitKind, JumpForm, PatchSite, Refusal, SiteKind};
use std::ops::Range;
use trimtab_types::{FileAddr, LoadBias};

impl PatchSite {
    /// This site of a module that lies `bias` higher, at its addresses in the file.
    pub fn in_file(&self, bias: LoadBias) -> PatchSite<FileAddr> {
        self.moved(|at| bias.to_file(at))
    }
}

impl PatchSite<FileAddr> {
    /// This site in a process that has the file `bias` higher.
    pub fn in_process(&self, bias: LoadBias) -> PatchSite {
        self.moved(|at| bias.to_proc(at))
    }
}

impl<A: Copy> PatchSite<A> {
    fn moved<B>(&self, to: impl Fn(A) -> B + Copy) -> PatchSite<B> {
        let kind = match self.kind {
            SiteKind::Entry => SiteKind::Entry,
            SiteKind::Exit(exit) => SiteKind::Exit(exit.moved(to)),
            SiteKind::Whole(exit) => SiteKind::Whole(exit.moved(to)),
            SiteKind::At(at) => SiteKind::At(to(at)),
        };
        let jump = match self.jump {
            JumpForm::Near5 => JumpForm::Near5,
            JumpForm::Short2 { via } => JumpForm::Short2 { via: to(via) },
        };
        PatchSite {
            at: to(self.at),
            overwritten: range(&self.overwritten, to),
            displaced: range(&self.displaced, to),
            resume: self.resume.map(to),
            jump,
            kind,
            carrier: self.carrier.as_ref().map(|carrier| Carrier {
                overwritten: range(&carrier.overwritten, to),
                displaced: range(&carrier.displaced, to),
                resume: carrier.resume.map(to),
            }),
        }
    }
}

impl<A: Copy> Exit<A> {
    fn moved<B>(self, to: impl Fn(A) -> B) -> Exit<B> {
        let kind = match self.kind {
            ExitKind::TailJump { target } => ExitKind::TailJump { target: to(target) },
            ExitKind::ConditionalTailJump { target } => ExitKind::ConditionalTailJump { target: to(target) },
            ExitKind::RunsInto { target } => ExitKind::RunsInto { target: to(target) },
            ExitKind::Ret { pop } => ExitKind::Ret { pop },
            ExitKind::IndirectTailJump => ExitKind::IndirectTailJump,
            ExitKind::FallsThrough => ExitKind::FallsThrough,
        };
        Exit { at: to(self.at), len: self.len, kind }
    }
}

impl Refusal {
    /// This refusal of a module that lies `bias` higher, at its addresses in the file.
    pub fn in_file(self, bias: LoadBias) -> Refusal<FileAddr> {
        use Refusal as R;
        let to = |at| bias.to_file(at);
        match self {
            R::Body { what } => R::Body { what },
            R::BadRanges { entry } => R::BadRanges { entry: to(entry) },
            R::Undecodable { at } => R::Undecodable { at: to(at) },
            R::MisalignedCode { target } => R::MisalignedCode { target: to(target) },
            R::TargetInside { at, target } => R::TargetInside { at: to(at), target: to(target) },
            R::UnresolvedJump { at, jump } => R::UnresolvedJump { at: to(at), jump: to(jump) },
            R::LoopToFirstInstruction { at, from } => R::LoopToFirstInstruction { at: to(at), from: to(from) },
            R::NoRoom { at, bytes } => R::NoRoom { at: to(at), bytes },
            R::NoSpringboard { at, bytes } => R::NoSpringboard { at: to(at), bytes },
            R::CallDisplaced { patch, at } => R::CallDisplaced { patch: to(patch), at: to(at) },
            R::Unmovable { at, what } => R::Unmovable { at: to(at), what },
            R::Restartable { at } => R::Restartable { at: to(at) },
            R::MayFault { at } => R::MayFault { at: to(at) },
            R::CrossesPage { at } => R::CrossesPage { at: to(at) },
            R::FallsThrough { at } => R::FallsThrough { at: to(at) },
            R::ExitInsideEntry { at } => R::ExitInsideEntry { at: to(at) },
            R::MaybeData { at } => R::MaybeData { at: to(at) },
            R::NoInstruction { at } => R::NoInstruction { at: to(at) },
            R::NoWay { from, to: target } => R::NoWay { from: to(from), to: to(target) },
            R::Taken { at } => R::Taken { at: to(at) },
            R::Irreducible { header } => R::Irreducible { header: to(header) },
            R::OutOfReach { from, target } => R::OutOfReach { from: to(from), target: to(target) },
        }
    }
}

fn range<A: Copy, B>(range: &Range<A>, to: impl Fn(A) -> B) -> Range<B> {
    to(range.start)..to(range.end)
}
