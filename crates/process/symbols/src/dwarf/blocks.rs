//! Addresses to functions, and to copies of inlined functions within them.
//!
//! Functions are listed unit by unit, when a unit is first asked about; blocks within one function are read each time.
//!
//! Next: `function` for what is known about a function, `lines` for source lines.

use super::error::LookupError;
use super::names::Chain;
use super::program::{EntryId, Program, Spans};
use super::units::{Die, Unit};
use gimli::DwTag;
use std::ops::Range;
use trimtab_types::FileAddr;

/// Units whose ranges may begin before an address and still contain it; ranges of units hardly ever nest.
const OVERLAPPING_MAX: usize = 64;

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct SourcePlace {
    /// Full name of the file, as the compiler knew it.
    pub file: String,
    /// The line, from 1; 0 for code that belongs to none.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
}

/// A copy of a function in the place where it is called.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InlinedCall {
    /// The copy.
    pub id: EntryId,
    /// The function copied: its abstract entry, which has no code.
    pub function: EntryId,
    /// The function's name, with scopes.
    pub full_name: String,
    /// The function with code of its own that holds the copy.
    pub within: Option<EntryId>,
    /// Where it begins: the first address executed where the compiler says so, else the lowest.
    pub entry: Option<FileAddr>,
    /// Its code, which may be in many pieces, with others' between; none if it was merged with the code around it.
    pub ranges: Vec<Range<FileAddr>>,
    /// Where it is called.
    pub call: Option<SourcePlace>,
}

/// A block of the source that has code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Tells it from all other blocks of the file.
    pub id: u32,
    /// It is a copy of a function that was inlined.
    pub is_inlined: bool,
    /// Where variables of its own are declared.
    pub variables: Vec<SourcePlace>,
}

impl<'a> Program<'a> {
    /// The function whose code contains `addr`: one with code of its own, whatever was inlined there.
    pub fn function_at(&self, addr: FileAddr) -> Option<EntryId> {
        let functions = self.functions_of(self.unit_at(addr)?);
        find(functions, addr.0).map(EntryId)
    }

    /// The copies of inlined functions that `addr` lies in, outermost first.
    ///
    /// # Errors
    /// [`LookupError::Damaged`].
    pub fn inlined_at(&self, addr: FileAddr) -> Result<Vec<InlinedCall>, LookupError> {
        let Some(function) = self.function_at(addr) else { return Ok(Vec::new()) };
        let around = self.blocks_around(function, addr)?;
        let copies = around.into_iter().filter(|die| die.tag == gimli::DW_TAG_inlined_subroutine);
        copies.map(|die| self.inlined_call(die.id, Some(function))).collect()
    }

    /// The blocks that `addr` lies in, outermost first; `None`: it lies in no function, or the information is damaged.
    pub fn scopes_at(&self, addr: FileAddr) -> Option<Vec<Scope>> {
        let around = self.blocks_around(self.function_at(addr)?, addr).ok()?;
        around.iter().map(|die| self.scope(die)).collect()
    }

    fn scope(&self, die: &Die<'a>) -> Option<Scope> {
        let is_inlined = die.tag == gimli::DW_TAG_inlined_subroutine;
        let own = if is_inlined { Vec::new() } else { self.variables_directly_in(die.id).ok()? };
        let variables = own.into_iter().filter_map(|entry| self.declared(&self.chain(entry).ok()?)).collect();
        Some(Scope { id: die.id, is_inlined, variables })
    }

    /// All copies of a function, as [`Program::functions_named`] or [`InlinedCall::function`] names it.
    ///
    /// # Errors
    /// [`LookupError::Damaged`].
    pub fn inlined_copies(&self, function: EntryId) -> Result<Vec<InlinedCall>, LookupError> {
        let chain = self.chain(function.0)?;
        let mut copies = Vec::new();
        for (origin, _) in &chain.links {
            for copy in self.index().inlined(origin.id) {
                let call = self.inlined_call(copy, self.function_around(copy))?;
                // Copies in the abstract entry of another function are made with that function, or never.
                if !call.ranges.is_empty() || call.entry.is_some() {
                    copies.push(call);
                }
            }
        }
        Ok(copies)
    }

    /// The function whose code contains `addr`, and the innermost copy in it to which a statement of a line there
    /// belongs; the function itself if none.
    pub(crate) fn innermost(&self, addr: FileAddr, file: &str, line: u32) -> Option<(EntryId, u32)> {
        let function = self.function_at(addr)?;
        let copies = self.copies_begun_or_around(function, addr).unwrap_or_default();
        let belongs = |(copy, is_around): &&(u32, bool)| *is_around || self.is_body_line(*copy, file, line);
        Some((function, copies.iter().rev().find(belongs).map_or(function.0, |(copy, _)| *copy)))
    }

    /// Copies in a function that contain `addr`, and those that begin there though their first instruction, which an
    /// optimiser moved, lies elsewhere. Outermost first, each with whether it contains `addr`.
    fn copies_begun_or_around(&self, function: EntryId, addr: FileAddr) -> Result<Vec<(u32, bool)>, LookupError> {
        let mut walk = self.units.walk(function.0)?;
        let mut budget = self.units.list_budget();
        let mut copies = Vec::new();
        walk.next()?;
        while walk.next_of(|tag| tag == gimli::DW_TAG_inlined_subroutine)?.is_some() {
            let ranges = self.units.ranges(&walk.unit.inner, &walk.die.attrs, &mut budget);
            let is_around = ranges.iter().any(|range| range.contains(&addr.0));
            let low = ranges.first().map(|range| range.start);
            if is_around || self.stated_entry(walk.unit, &walk.die, low) == Some(addr.0) {
                copies.push((walk.die.id, is_around));
            }
        }
        Ok(copies)
    }

    /// True if a line can be one of the function that was copied: in its file, and not before it.
    fn is_body_line(&self, copy: u32, file: &str, line: u32) -> bool {
        let declared = self.chain(copy).ok().and_then(|chain| self.declared(&chain));
        declared.is_some_and(|declared| declared.file == file && declared.line <= line)
    }

    /// The address an entry names as its first one; as an offset, it counts from `low`.
    fn stated_entry(&self, unit: &Unit<'a>, die: &Die<'a>, low: Option<u64>) -> Option<u64> {
        let address = |value| self.units.dwarf.attr_address(&unit.inner, value).ok().flatten();
        match die.attr(gimli::DW_AT_entry_pc) {
            Some(value) => address(value).or_else(|| low?.checked_add(value.udata_value()?)),
            // A copy of which no instruction is left still has a place where it would be.
            None => address(die.attr(gimli::DW_AT_low_pc)?),
        }
    }

    /// Blocks and copies in a function that contain `addr`, outermost first.
    pub(crate) fn blocks_around(&self, function: EntryId, addr: FileAddr) -> Result<Vec<Die<'a>>, LookupError> {
        let mut walk = self.units.walk(function.0)?;
        let mut budget = self.units.list_budget();
        let mut around: Vec<Die<'a>> = Vec::new();
        walk.next()?;
        while let Some(depth) = walk.next_of(is_block)? {
            let ranges = self.units.ranges(&walk.unit.inner, &walk.die.attrs, &mut budget);
            if ranges.iter().any(|range| range.contains(&addr.0)) {
                around.push(walk.die.clone());
            } else if !ranges.is_empty() {
                walk.skip_children(depth);
            }
        }
        Ok(around)
    }

    /// The unit whose code contains `addr`.
    pub(crate) fn unit_at(&self, addr: FileAddr) -> Option<usize> {
        let spans = self.blocks.units.get_or_init(|| self.unit_spans());
        find(spans, addr.0).map(|unit| unit as usize)
    }

    fn unit_spans(&self) -> Spans {
        let mut spans = Spans::new();
        for at in 0..self.units.count() {
            let Ok(unit) = self.units.unit(at) else { continue };
            if unit.ranges.is_empty() && unit.is_whole() {
                spans.extend(self.functions_of(at).iter().map(|&(low, high, _)| (low, high, at as u32)));
            }
            let kept = unit.ranges.iter().filter(|range| self.is_code(range.start));
            spans.extend(kept.map(|range| (range.start, range.end, at as u32)));
        }
        spans.sort_unstable();
        spans
    }

    /// The functions of a unit that have code.
    pub(crate) fn functions_of(&self, unit: usize) -> &Spans {
        const NONE: &Spans = &Spans::new();
        let Some(cell) = self.blocks.functions.get(unit) else { return NONE };
        cell.get_or_init(|| {
            let mut spans = Spans::new();
            // The list before a damaged entry is sound.
            let _ = self.list_functions(unit, &mut spans);
            spans.sort_unstable();
            spans
        })
    }

    fn list_functions(&self, unit: usize, spans: &mut Spans) -> gimli::Result<()> {
        let root = self.units.unit(unit)?.root;
        let mut walk = self.units.walk(root)?;
        let mut budget = self.units.list_budget();
        while walk.next_of(|tag| tag == gimli::DW_TAG_subprogram)?.is_some() {
            let ranges = self.units.ranges(&walk.unit.inner, &walk.die.attrs, &mut budget);
            let kept = ranges.iter().filter(|range| self.is_code(range.start));
            spans.extend(kept.map(|range| (range.start, range.end, walk.die.id)));
        }
        Ok(())
    }

    fn function_around(&self, entry: u32) -> Option<EntryId> {
        let mut scopes = self.index().scopes_around(entry);
        let is_function =
            |scope: &u32| self.units.die(*scope).is_ok_and(|(die, _)| die.tag == gimli::DW_TAG_subprogram);
        scopes.find(is_function).map(EntryId)
    }

    fn inlined_call(&self, copy: u32, within: Option<EntryId>) -> Result<InlinedCall, LookupError> {
        let (die, unit) = self.units.die(copy)?;
        let origin = self.units.follow(unit, &die, gimli::DW_AT_abstract_origin).unwrap_or(copy);
        let ranges = self.file_ranges(unit, &die);
        Ok(InlinedCall {
            id: EntryId(copy),
            function: EntryId(origin),
            full_name: self.full_name(EntryId(origin))?,
            within,
            entry: self.entry_of(unit, &die, &ranges),
            ranges,
            call: self.source_place(
                unit,
                &die,
                [gimli::DW_AT_call_file, gimli::DW_AT_call_line, gimli::DW_AT_call_column],
            ),
        })
    }

    pub(crate) fn file_ranges(&self, unit: &Unit<'a>, die: &Die<'a>) -> Vec<Range<FileAddr>> {
        let ranges = self.units.ranges(&unit.inner, &die.attrs, &mut self.units.list_budget());
        ranges.into_iter().map(|range| FileAddr(range.start)..FileAddr(range.end)).collect()
    }

    /// Where a block begins: its stated entry, else the beginning of its first range.
    pub(crate) fn entry_of(&self, unit: &Unit<'a>, die: &Die<'a>, ranges: &[Range<FileAddr>]) -> Option<FileAddr> {
        let low = ranges.first().map(|range| range.start);
        let stated = self.stated_entry(unit, die, low.map(|low| low.0));
        let is_inside = |addr: &u64| match ranges {
            [] => self.is_code(*addr),
            ranges => ranges.iter().any(|range| range.contains(&FileAddr(*addr))),
        };
        stated.filter(is_inside).map(FileAddr).or(low)
    }

    /// The place that three attributes (file, line, column) name.
    pub(crate) fn source_place(&self, unit: &Unit<'a>, die: &Die<'a>, names: [gimli::DwAt; 3]) -> Option<SourcePlace> {
        let number = |name| match die.attr(name)? {
            gimli::AttributeValue::FileIndex(index) => Some(index),
            value => value.udata_value(),
        };
        let line = number(names[1])?;
        Some(SourcePlace {
            file: self.file_name(unit, number(names[0])?)?,
            line: u32::try_from(line).ok()?,
            column: number(names[2]).and_then(|column| u32::try_from(column).ok()).unwrap_or(0),
        })
    }

    /// Where an entry is declared.
    pub(crate) fn declared(&self, chain: &Chain<'_, 'a>) -> Option<SourcePlace> {
        let names = [gimli::DW_AT_decl_file, gimli::DW_AT_decl_line, gimli::DW_AT_decl_column];
        chain.links.iter().find_map(|(die, unit)| self.source_place(unit, die, names))
    }
}

pub(crate) fn is_block(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_lexical_block
            | gimli::DW_TAG_inlined_subroutine
            | gimli::DW_TAG_try_block
            | gimli::DW_TAG_catch_block
    )
}

fn find(spans: &Spans, addr: u64) -> Option<u32> {
    let after = spans.partition_point(|(low, _, _)| *low <= addr);
    let around = spans[..after].iter().rev().take(OVERLAPPING_MAX).find(|(_, high, _)| addr < *high);
    around.map(|(_, _, found)| *found)
}
