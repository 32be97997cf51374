//! Settles what all symbols and unwind entries claim about each address: functions, fragments, data, or nothing.
//!
//! A function symbol is believed. A symbol without type is a function only where an unwind entry begins as a called
//! function does. An unwind entry without any symbol is a function, unless its stack is already in use (then it is a
//! fragment), or it lies within a named function or a procedure linkage table (then it is nothing).
//!
//! Next: `symtab` and [`crate::frames`], where claims come from.

use crate::parts::{Frame, FrameKind};
use crate::symtab::{Claim, ClaimKind};
use crate::{DataObject, Function, Segment, Source};
use std::borrow::Cow;
use std::ops::Range;
use trimtab_types::FileAddr;

/// Where code may lie.
pub(crate) struct CodeSpace {
    /// Executable memory: sorted, joined.
    executable: Vec<Range<u64>>,
    /// Executable sections, sorted by start, each with whether it is a procedure linkage table.
    sections: Vec<(Range<u64>, bool)>,
    /// All memory.
    mapped: Vec<Range<u64>>,
}

/// The result of all claims together.
#[derive(Default)]
pub(crate) struct Settled {
    pub functions: Vec<Function>,
    pub fragments: Vec<Function>,
    pub objects: Vec<DataObject>,
}

impl CodeSpace {
    pub fn new(segments: &[Segment], sections: Vec<(Range<u64>, bool)>) -> Self {
        let range = |segment: &Segment| segment.addr.0..segment.addr.0.saturating_add(segment.mem_size);
        CodeSpace {
            executable: joined(segments.iter().filter(|segment| segment.executable).map(range).collect()),
            sections,
            mapped: joined(segments.iter().map(range).collect()),
        }
    }

    pub fn is_code(&self, addr: u64) -> bool {
        around(&self.executable, addr).is_some()
    }

    fn is_linkage_table(&self, addr: u64) -> bool {
        self.section_around(addr).is_some_and(|(_, is_plt)| *is_plt)
    }

    /// Where code that begins at `addr` must end at the latest.
    fn end_of(&self, addr: u64) -> u64 {
        let memory_end = around(&self.executable, addr).map_or(addr, |range| range.end);
        self.section_around(addr).map_or(memory_end, |(range, _)| range.end.min(memory_end))
    }

    fn section_around(&self, addr: u64) -> Option<&(Range<u64>, bool)> {
        let after = self.sections.partition_point(|(range, _)| range.start <= addr);
        self.sections[..after].last().filter(|(range, _)| range.contains(&addr))
    }
}

/// The claims of unwind entries; frames to which signals return, and linkage tables, make none.
pub(crate) fn frame_claims(frames: &[Frame], space: &CodeSpace) -> Vec<Claim<'static>> {
    let claim = |frame: &Frame| {
        let kind = match frame.kind {
            FrameKind::Entry => ClaimKind::FrameEntry,
            FrameKind::Part => ClaimKind::FramePart,
            FrameKind::Signal => return None,
        };
        if space.is_linkage_table(frame.addr.0) {
            return None;
        }
        Some(Claim {
            addr: frame.addr.0,
            size: frame.size,
            name: Cow::Borrowed(""),
            kind,
            rank: u8::MAX,
            source: Source::EhFrame,
            exported: false,
        })
    };
    frames.iter().filter_map(claim).collect()
}

/// Makes one entry of all claims about one address.
pub(crate) fn settle(mut claims: Vec<Claim>, space: &CodeSpace, frames: &[Frame]) -> Settled {
    claims.retain(|claim| match claim.kind {
        ClaimKind::Object => around(&space.mapped, claim.addr).is_some(),
        _ => space.is_code(claim.addr),
    });
    let is_object = |claim: &Claim| claim.kind == ClaimKind::Object;
    sort(&mut claims);
    let (code, data) = claims.split_at(claims.partition_point(|claim| !is_object(claim)));
    let drafts: Vec<Draft> = code.chunk_by(|a, b| a.addr == b.addr).filter_map(Draft::of).collect();
    let mut settled = finish(drafts, space, frames);
    settled.objects = data.chunk_by(|a, b| a.addr == b.addr).map(object).collect();
    settled
}

/// By address and rank, data behind code.
fn sort(claims: &mut [Claim]) {
    claims.sort_by(|a, b| {
        let key = |claim: &Claim| (claim.kind == ClaimKind::Object, claim.addr, claim.rank);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
}

/// A function or fragment whose size and surroundings are not settled yet.
struct Draft {
    function: Function,
    is_fragment: bool,
    /// Only an unwind entry or a local label says so: it gives way to a named function around it.
    is_weak: bool,
}

impl Draft {
    /// `None` if the claims are mere labels. The claims are sorted by rank and name.
    fn of(claims: &[Claim]) -> Option<Draft> {
        let has = |kind: ClaimKind| claims.iter().any(|claim| claim.kind == kind);
        let is_function = has(ClaimKind::Function) || has(ClaimKind::Ifunc);
        let is_entry = has(ClaimKind::FrameEntry);
        let is_fragment = !is_function && (has(ClaimKind::Fragment) || !is_entry);
        if !is_function && !is_entry && !has(ClaimKind::Fragment) && !has(ClaimKind::FramePart) {
            return None;
        }
        let counts = |claim: &&Claim| match claim.kind {
            ClaimKind::Function | ClaimKind::Ifunc => true,
            ClaimKind::Fragment => is_fragment,
            // A local label beside a function symbol is a place in it, not another name of it.
            ClaimKind::Label => !is_fragment && (claim.rank < 2 || !is_function),
            ClaimKind::FrameEntry | ClaimKind::FramePart | ClaimKind::Object => false,
        };
        let named: Vec<&Claim> = claims.iter().filter(counts).collect();
        let is_weak = !is_function && named.iter().all(|claim| claim.kind == ClaimKind::Label && claim.rank == 2);
        let unnamed_size = claims.iter().map(|claim| claim.size).max().unwrap_or(0);
        let size = if named.is_empty() { unnamed_size } else { size_of_named(&named) };
        let function = Function {
            addr: FileAddr(claims[0].addr),
            size,
            names: names(&named),
            source: named.iter().map(|claim| claim.source).max().unwrap_or(Source::EhFrame),
            is_ifunc: has(ClaimKind::Ifunc),
            exported: named.iter().any(|claim| claim.exported),
        };
        Some(Draft { function, is_fragment, is_weak })
    }
}

fn size_of_named(named: &[&Claim]) -> u64 {
    named.iter().map(|claim| claim.size).max().unwrap_or(0)
}

fn names(claims: &[&Claim]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(claims.len());
    for claim in claims {
        // A second claim of one name is next to the first, or of another rank: look back a little, not at thousands.
        if !claim.name.is_empty() && !names.iter().rev().take(NAMES_COMPARED_MAX).any(|name| *name == claim.name) {
            names.push(claim.name.to_string());
        }
    }
    names
}

/// Aliases of one address that are compared with a further one; more than this many at one address are rare.
const NAMES_COMPARED_MAX: usize = 256;

fn object(claims: &[Claim]) -> DataObject {
    let claims: Vec<&Claim> = claims.iter().collect();
    DataObject {
        addr: FileAddr(claims[0].addr),
        size: size_of_named(&claims),
        names: names(&claims),
        exported: claims.iter().any(|claim| claim.exported),
    }
}

/// Fills sizes in and drops weak drafts within strong ones.
fn finish(drafts: Vec<Draft>, space: &CodeSpace, frames: &[Frame]) -> Settled {
    let next_strong = next_strong(&drafts);
    let mut settled = Settled::default();
    let mut named_until = 0;
    for (draft, next) in drafts.into_iter().zip(next_strong) {
        let Draft { mut function, is_fragment, is_weak } = draft;
        let addr = function.addr.0;
        if is_weak && addr < named_until {
            continue;
        }
        let limit = space.end_of(addr);
        function.size = match function.size {
            0 => end_by_frames(addr, next.min(limit), frames) - addr,
            size => size.min(limit - addr),
        };
        if !is_weak {
            named_until = named_until.max(function.end().0);
        }
        if is_fragment { settled.fragments.push(function) } else { settled.functions.push(function) }
    }
    settled
}

/// For each draft the address of the next strong one, or the end of the address space.
fn next_strong(drafts: &[Draft]) -> Vec<u64> {
    let mut next = u64::MAX;
    let mut all: Vec<u64> = drafts
        .iter()
        .rev()
        .map(|draft| {
            let answer = next;
            if !draft.is_weak {
                next = draft.function.addr.0;
            }
            answer
        })
        .collect();
    all.reverse();
    all
}

/// Where code of unknown size ends: with the unwind entry around it, else before the next entry, else at `limit`.
fn end_by_frames(addr: u64, limit: u64, frames: &[Frame]) -> u64 {
    let after = frames.partition_point(|frame| frame.addr.0 <= addr);
    let around = frames[..after].last().map(|frame| frame.addr.0 + frame.size).filter(|&end| addr < end);
    let next = frames.get(after).map_or(u64::MAX, |frame| frame.addr.0);
    around.unwrap_or(next).min(limit)
}

fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn around(ranges: &[Range<u64>], addr: u64) -> Option<&Range<u64>> {
    let after = ranges.partition_point(|range| range.start <= addr);
    ranges[..after].last().filter(|range| range.contains(&addr))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code at 0x1000..0x2000, of which 0x1f00..0x2000 is a linkage table; data at 0x3000..0x4000.
    fn space() -> CodeSpace {
        let segment = |addr, executable| Segment {
            addr: FileAddr(addr),
            mem_size: 0x1000,
            file_size: 0x1000,
            executable,
            ..Segment::default()
        };
        let sections = vec![(0x1000..0x1f00, false), (0x1f00..0x2000, true)];
        CodeSpace::new(&[segment(0x1000, true), segment(0x3000, false)], sections)
    }

    fn symbol(kind: ClaimKind, addr: u64, size: u64, name: &'static str, rank: u8) -> Claim<'static> {
        Claim { addr, size, name: Cow::Borrowed(name), kind, rank, source: Source::Symtab, exported: false }
    }

    fn frame(addr: u64, size: u64, kind: FrameKind) -> Frame {
        Frame { addr: FileAddr(addr), size, kind, entry_offset: 0 }
    }

    /// `addr+size name,name` for each function, with `part` before fragments.
    fn outcome(symbols: &[Claim<'static>], frames: &[Frame]) -> Vec<String> {
        let mut claims = symbols.to_vec();
        claims.extend(frame_claims(frames, &space()));
        let settled = settle(claims, &space(), frames);
        let show = |f: &Function| format!("{:x}+{:x} {}", f.addr.0, f.size, f.names.join(","));
        let fragments = settled.fragments.iter().map(|fragment| format!("part {}", show(fragment)));
        settled.functions.iter().map(show).chain(fragments).collect()
    }

    /// (case, symbols, frames, outcome)
    type Row = (&'static str, Vec<Claim<'static>>, Vec<Frame>, &'static [&'static str]);

    fn check(rows: Vec<Row>) {
        for (case, symbols, frames, expected) in rows {
            assert_eq!(outcome(&symbols, &frames), expected, "{case}");
        }
    }

    #[test]
    fn symbols_and_their_sizes() {
        use ClaimKind::Function;
        use FrameKind::Entry;
        check(vec![
            ("nothing", vec![], vec![], &[]),
            ("one symbol", vec![symbol(Function, 0x1000, 9, "f", 0)], vec![], &["1000+9 f"]),
            (
                "aliases, global first",
                vec![
                    symbol(Function, 0x1000, 9, "local", 2),
                    symbol(Function, 0x1000, 9, "MPI_Send", 1),
                    symbol(Function, 0x1000, 9, "PMPI_Send", 0),
                    symbol(Function, 0x1000, 9, "PMPI_Send", 0),
                ],
                vec![],
                &["1000+9 PMPI_Send,MPI_Send,local"],
            ),
            ("outside of code", vec![symbol(Function, 0x3000, 9, "f", 0)], vec![], &[]),
            ("too large", vec![symbol(Function, 0x1eff, u64::MAX, "f", 0)], vec![], &["1eff+1 f"]),
            (
                "size from its frame",
                vec![symbol(Function, 0x1000, 0, "f", 0)],
                vec![frame(0x1000, 7, Entry)],
                &["1000+7 f"],
            ),
            (
                "size up to the next frame",
                vec![symbol(Function, 0x1000, 0, "f", 0)],
                vec![frame(0x1010, 7, Entry)],
                &["1000+10 f", "1010+7 "],
            ),
            ("size up to the section's end", vec![symbol(Function, 0x1e00, 0, "f", 0)], vec![], &["1e00+100 f"]),
            (
                "size up to the next symbol, in one frame",
                vec![symbol(Function, 0x1000, 0, "f", 0), symbol(Function, 0x1008, 0, "g", 0)],
                vec![frame(0x1000, 0x20, Entry)],
                &["1000+8 f", "1008+18 g"],
            ),
        ]);
    }

    #[test]
    fn frames_labels_and_fragments() {
        use ClaimKind::{Fragment, Function, Ifunc, Label};
        use FrameKind::{Entry, Part, Signal};
        check(vec![
            ("frame alone", vec![], vec![frame(0x1000, 7, Entry)], &["1000+7 "]),
            ("frame alone, stack in use", vec![], vec![frame(0x1000, 7, Part)], &["part 1000+7 "]),
            ("signal frame", vec![], vec![frame(0x1000, 7, Signal)], &[]),
            ("linkage table", vec![], vec![frame(0x1f00, 0x100, Entry)], &[]),
            (
                "frame within a symbol",
                vec![symbol(Function, 0x1000, 0x20, "f", 0)],
                vec![frame(0x1000, 8, Entry), frame(0x1008, 0x18, Part), frame(0x1020, 4, Entry)],
                &["1000+20 f", "1020+4 "],
            ),
            ("label", vec![symbol(Label, 0x1000, 0, "l", 0)], vec![], &[]),
            ("label with frame", vec![symbol(Label, 0x1000, 0, "l", 2)], vec![frame(0x1000, 8, Entry)], &["1000+8 l"]),
            (
                "label with part",
                vec![symbol(Label, 0x1000, 0, "l", 2)],
                vec![frame(0x1000, 8, Part)],
                &["part 1000+8 "],
            ),
            (
                "labels beside a symbol",
                vec![
                    symbol(Label, 0x1000, 0, "global", 0),
                    symbol(Label, 0x1000, 0, "place", 2),
                    symbol(Function, 0x1000, 8, "f", 2),
                ],
                vec![],
                &["1000+8 global,f"],
            ),
            (
                "cold part",
                vec![symbol(Fragment, 0x1000, 8, "f.cold", 2)],
                vec![frame(0x1000, 8, Entry)],
                &["part 1000+8 f.cold"],
            ),
            (
                "cold part where a function begins",
                vec![symbol(Fragment, 0x1000, 0, "f.cold", 2), symbol(Function, 0x1000, 8, "g", 0)],
                vec![],
                &["1000+8 g"],
            ),
            (
                "believed though its stack is in use",
                vec![symbol(Ifunc, 0x1000, 8, "f", 0)],
                vec![frame(0x1000, 8, Part)],
                &["1000+8 f"],
            ),
        ]);
    }
}
