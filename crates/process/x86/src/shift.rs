//! The same decisions for another place: a file is mapped somewhere else in each process, its code is the same.
//!
//! Addresses of sites and refusals may so be kept as the file has them, and made a process's when they are used.
//!
//! Next: `site` and `refusal` for what they mean.

use crate::{Carrier, Exit, ExitKind, JumpForm, PatchSite, Refusal, SiteKind};
use std::ops::Range;

impl PatchSite {
    /// This site with every address `by` higher, modulo 2^64.
    pub fn shifted(&self, by: u64) -> PatchSite {
        let kind = match self.kind {
            SiteKind::Entry => SiteKind::Entry,
            SiteKind::Exit(exit) => SiteKind::Exit(exit.shifted(by)),
            SiteKind::Whole(exit) => SiteKind::Whole(exit.shifted(by)),
            SiteKind::At(at) => SiteKind::At(at.wrapping_add(by)),
        };
        let jump = match self.jump {
            JumpForm::Near5 => JumpForm::Near5,
            JumpForm::Short2 { via } => JumpForm::Short2 { via: via.wrapping_add(by) },
        };
        PatchSite {
            at: self.at.wrapping_add(by),
            overwritten: range(&self.overwritten, by),
            displaced: range(&self.displaced, by),
            resume: self.resume.map(|at| at.wrapping_add(by)),
            jump,
            kind,
            carrier: self.carrier.as_ref().map(|carrier| carrier.shifted(by)),
        }
    }
}

impl Carrier {
    fn shifted(&self, by: u64) -> Carrier {
        Carrier {
            overwritten: range(&self.overwritten, by),
            displaced: range(&self.displaced, by),
            resume: self.resume.map(|at| at.wrapping_add(by)),
        }
    }
}

impl Exit {
    fn shifted(self, by: u64) -> Exit {
        let kind = match self.kind {
            ExitKind::TailJump { target } => ExitKind::TailJump { target: target.wrapping_add(by) },
            ExitKind::ConditionalTailJump { target } => {
                ExitKind::ConditionalTailJump { target: target.wrapping_add(by) }
            }
            ExitKind::RunsInto { target } => ExitKind::RunsInto { target: target.wrapping_add(by) },
            other @ (ExitKind::Ret { .. } | ExitKind::IndirectTailJump | ExitKind::FallsThrough) => other,
        };
        Exit { at: self.at.wrapping_add(by), kind, ..self }
    }
}

impl Refusal {
    /// This refusal with every address `by` higher, modulo 2^64.
    pub fn shifted(mut self, by: u64) -> Refusal {
        let addresses: [Option<&mut u64>; 2] = match &mut self {
            Refusal::Body { .. } => [None, None],
            Refusal::BadRanges { entry } => [Some(entry), None],
            Refusal::MisalignedCode { target } => [Some(target), None],
            Refusal::Irreducible { header } => [Some(header), None],
            Refusal::TargetInside { at, target } => [Some(at), Some(target)],
            Refusal::UnresolvedJump { at, jump } => [Some(at), Some(jump)],
            Refusal::LoopToFirstInstruction { at, from } => [Some(at), Some(from)],
            Refusal::CallDisplaced { patch, at } => [Some(patch), Some(at)],
            Refusal::OutOfReach { from, target } => [Some(from), Some(target)],
            Refusal::NoWay { from, to } => [Some(from), Some(to)],
            Refusal::Undecodable { at }
            | Refusal::NoRoom { at, .. }
            | Refusal::NoSpringboard { at, .. }
            | Refusal::Unmovable { at, .. }
            | Refusal::Restartable { at }
            | Refusal::MayFault { at }
            | Refusal::CrossesPage { at }
            | Refusal::FallsThrough { at }
            | Refusal::ExitInsideEntry { at }
            | Refusal::MaybeData { at }
            | Refusal::NoInstruction { at }
            | Refusal::Taken { at } => [Some(at), None],
        };
        addresses.into_iter().flatten().for_each(|address| *address = address.wrapping_add(by));
        self
    }
}

fn range(range: &Range<u64>, by: u64) -> Range<u64> {
    range.start.wrapping_add(by)..range.end.wrapping_add(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: u64 = 0x5500_0000_0000;

    #[test]
    fn every_address_of_a_site_moves_along() {
        let exit = |kind| Exit { at: 0x1010, len: 1, kind };
        let carrier = Carrier { overwritten: 0x1020..0x1025, displaced: 0x1020..0x102a, resume: Some(0x102a) };
        let kinds = [
            SiteKind::Entry,
            SiteKind::Exit(exit(ExitKind::Ret { pop: 8 })),
            SiteKind::Exit(exit(ExitKind::TailJump { target: 0x1100 })),
            SiteKind::Whole(exit(ExitKind::ConditionalTailJump { target: 0x1100 })),
            SiteKind::Exit(exit(ExitKind::RunsInto { target: 0x1100 })),
            SiteKind::At(0x1000),
        ];
        for kind in kinds {
            let site = PatchSite {
                at: 0x1000,
                overwritten: 0x1000..0x1002,
                displaced: 0x1000..0x1003,
                resume: Some(0x1003),
                jump: JumpForm::Short2 { via: 0x1025 },
                kind,
                carrier: Some(carrier.clone()),
            };
            // No small number may be left where every address has the high bits of `BY`.
            let moved = format!("{:#x?}", site.shifted(BY));
            let left = moved.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.starts_with("0x1"));
            let left: Vec<&str> = left.filter(|word| word.len() > 4).collect();
            assert_eq!(left, [""; 0], "{kind:?}");
            assert_eq!(site.shifted(BY).shifted(BY.wrapping_neg()), site, "{kind:?}");
        }
    }

    #[test]
    fn every_address_of_a_refusal_moves_along() {
        let (at, target) = (0x1000, 0x1100);
        let rows = [
            Refusal::BadRanges { entry: at },
            Refusal::Undecodable { at },
            Refusal::MisalignedCode { target },
            Refusal::TargetInside { at, target },
            Refusal::UnresolvedJump { at, jump: target },
            Refusal::LoopToFirstInstruction { at, from: target },
            Refusal::NoRoom { at, bytes: 1 },
            Refusal::NoSpringboard { at, bytes: 2 },
            Refusal::CallDisplaced { patch: at, at: target },
            Refusal::Unmovable { at, what: "trap" },
            Refusal::CrossesPage { at },
            Refusal::FallsThrough { at },
            Refusal::ExitInsideEntry { at },
            Refusal::MaybeData { at },
            Refusal::NoInstruction { at },
            Refusal::Irreducible { header: at },
            Refusal::OutOfReach { from: at, target },
            Refusal::NoWay { from: at, to: target },
        ];
        for refusal in rows {
            let moved = refusal.clone().shifted(BY).to_string();
            assert!(moved.contains("0x550000001") && !moved.contains("0x1"), "{moved}");
            assert_eq!(refusal.clone().shifted(BY).shifted(BY.wrapping_neg()), refusal);
        }
    }
}
